"""Transformer for scikit-learn: columns of numbers, times or places to features."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from inspect import Parameter, signature
from typing import Any, Literal

from array_api_compat import is_array_api_obj
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._array_api import check_same_namespace
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, ignore_fp_errors, np
from positional_embeddings.sklearn import frames
from positional_embeddings.times.dates import Times, time_zone_of, times_of
from positional_embeddings.times.named import ENCODINGS, Coordinate

EncodingName = Literal["auto", "cyclic", "fourier", "spherical"]

# Options of all encodings.
_SHARED = ("encoding", "time_zone", "missing")


@dataclass(repr=False, eq=False)
class PositionalEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode columns of numbers, times or places as features.

    Times are columns of dates of NumPy, pandas or polars, or of Python's datetimes. Calendar
    periods follow local time: 8 o'clock has the same phase before and after a change to daylight
    saving time. Years have their calendar length, also in the calendars of cftime. Other spans of
    time are counted in UTC. For columns with different options, use separate encoders in a
    `sklearn.compose.ColumnTransformer`.

    Parameters
    ----------
    encoding : str, default "auto"
        One of:

        - "auto": the encoding depends on the column. Dates are "cyclic" with `periods`, or with the
          day, the week and the year as far as the dates resolve them (see Notes), else "fourier",
          and the time itself by `trend`. Columns named as latitude and longitude are "spherical" of
          degree 6; a longitude alone is "cyclic". Other numbers are "cyclic" with `periods`.
          Without it, whole numbers named as a part of a clock or calendar, such as hour or
          day_of_week, and degrees named as a direction, such as wind_dir, are "cyclic" if their
          values fit (see Notes). Booleans do not change, and others are "fourier". With
          `wavelengths` all columns are "fourier";
        - "cyclic": sines and cosines of `periods`, which wrap around;
        - "fourier": sines and cosines of `wavelengths`;
        - "spherical": spherical harmonics to a `degree`, of two columns. Names such as lat,
          latitude, lon, lng and longitude identify them in any order. Without such names, the
          latitude is the first column.
    periods : number, str, timedelta, pandas offset or list of these, optional
        Periods of "cyclic", where they are required, and of "auto": numbers for numbers; for times
        "day", "week", "month", "quarter" and "year" by the calendar, or spans: timedeltas (of
        Python, NumPy or pandas), strings such as "24h", "90min" and "29.53D", and pandas offsets.
    harmonics : int or list of int, default 3
        Number of harmonics of each period with "cyclic" and "auto", or one number for each period.
        Without `periods`, the largest number for the day, the week and the year.
    trend : bool or "auto", default "auto"
        Whether the encoding "auto" adds times, and numbers that are no places, as columns: -1 at
        the smallest and 1 at the largest value in `fit`. "auto" adds times without a period. It
        adds times, and numbers with `periods`, if they cover the longest period 1.9 times.
    wavelengths : number, str, timedelta, pandas offset or list of these, optional
        Wavelengths of "fourier", for every column. If None, four octaves from twice the range of
        each column in `fit`. Spans of times are as for `periods`, without the calendar.
    degree : int, default 6
        Highest degree of "spherical", and of places with "auto"; (degree + 1)**2 features.
    unit : {"degrees", "radians"}, default "degrees"
        Unit of the places of "spherical" and "auto".
    time_zone : str or datetime.tzinfo, optional
        Zone whose clock calendar periods follow, such as "Europe/Zurich". If None, the zone
        of each column. Times without a zone are local times, and an error with `time_zone`.
    missing : {"error", "pass"}, default "error"
        Whether missing numbers and times (NaN, NaT, None) are an error, or become features of NaN,
        for models that support them, such as `sklearn.ensemble.HistGradientBoostingRegressor`.

    Attributes
    ----------
    encoding_ : str
        The encoding.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str, shape (n_features_in_,)
        Names of these columns, if all are strings.

    Warns
    -----
    UserWarning
        In `fit`, if a column does not resolve more than three harmonics that you pass. In
        `transform` with octaves, if a value is far outside of the range in `fit`, or if more values
        are outside than a random split explains (see Notes).

    Raises
    ------
    TypeError, ValueError
        In `fit`: if an option is missing or wrong, or the encoding does not use it; if numbers or
        times are missing (NaN, NaT) with `missing` "error"; if a column holds text or mixes time
        zones; if "auto" finds categories.

    See Also
    --------
    positional_embeddings.cyclic_encoding : Sines and cosines of periods of any array.
    positional_embeddings.fourier_encoding : Sines and cosines of wavelengths.
    positional_embeddings.spherical_encoding : Spherical harmonics of places.
    sklearn.kernel_approximation.RBFSampler : Random Fourier features of a Gaussian kernel.

    Notes
    -----
    A day, a week or a year is used if the median step of the dates is at most half of it, or if
    the steps are irregular: their remainders by the median step fill more than 6 of 12 bins. The
    period is divided into 4 bins for each of `harmonics`. Half of the number of bins with dates is
    the number of harmonics; a bin counts if it has a tenth of the mean count. Where the dates cover
    less than 1.9 periods, a gap of phases above 0.11 limits this to one harmonic, and above 0.42 to
    none.

    Named cycles are 24 (hour), 60 (minute, second), 7 (weekday, dayofweek), 12 (month), 52 or 53
    (week), 365 or 366 (dayofyear) and 360 (wind_dir, azimuth, bearing, heading). Values from 0 or 1
    fit if they have no more than the cycle, and a range of a third of it or more. Whole degrees
    with both 0 and 360 do not fit: 0 is calm there.

    Octaves warn of c values outside of the range in `fit` by a tenth of it if their probability in
    a random split of n rows in `fit` and m in `transform`, :math:`(m / (n + m))^c` with m of n at
    most, is below 0.03. One value warns if it is outside by more than half of the range and by more
    than three times the width of the outermost fifth of the values. Outliers in `fit` widen that
    fifth.

    With ``sklearn.set_config(array_api_dispatch=True)`` columns of numbers may be an array of any
    library of the Array API standard; the features are on its device. Times are NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings.sklearn import PositionalEncoder
    >>> times = np.asarray([["2024-01-01T06"], ["2024-01-01T12"]], dtype="datetime64[h]")
    >>> encoder = PositionalEncoder(periods=["day", "year"], harmonics=1)
    >>> encoder.fit_transform(times).round(2)
    array([[ 1.  ,  0.  ,  0.  ,  1.  ],
           [ 0.  , -1.  ,  0.01,  1.  ]])
    >>> encoder.get_feature_names_out(["time"]).tolist()
    ['time_sin_day', 'time_cos_day', 'time_sin_year', 'time_cos_year']

    The encoding of each column depends on its content:

    >>> import pandas as pd
    >>> dates = pd.date_range("2022-01-01", "2023-12-31")
    >>> table = pd.DataFrame({"date": dates, "lon": 179.9, "lat": 47.0})
    >>> names = PositionalEncoder().fit(table).get_feature_names_out()
    >>> print(len(names), names[0], *names[-3:])
    62 place_l0_m0 date_sin_year_3 date_cos_year_3 date_trend
    """

    encoding: EncodingName = "auto"
    _: KW_ONLY
    periods: Any = None
    harmonics: int | Sequence[int] = 3
    trend: bool | Literal["auto"] = "auto"
    wavelengths: Any = None
    degree: int = 6
    unit: Literal["degrees", "radians"] = "degrees"
    time_zone: Any = None
    missing: Literal["error", "pass"] = "error"

    def fit(self, X: Any, y: Any = None) -> "PositionalEncoder":  # noqa: ARG002 - scikit-learn's
        """Check the options, and determine the periods and wavelengths of the columns.

        Parameters
        ----------
        X : table or array, shape (n_samples, n_features)
            Columns of numbers, times or places. Times may also be a series or an index.
        y : None
            Ignored.

        Returns
        -------
        PositionalEncoder
            The fitted encoder.
        """
        encoding, options = self._checked_options()
        columns = self._columns(X, reset=True)
        levels = frames.levels_of(frames.as_table(X)) or [""] * len(columns)
        described = zip(_check_feature_names_in(self), columns, levels, strict=True)
        coordinates = [
            Coordinate(name, x, f"column {name!r}", levels=level) for name, x, level in described
        ]
        features = ENCODINGS[encoding](coordinates, **options)
        # Encoding one row raises the remaining errors.
        self._block, *_ = features.encode([_first(column) for column in columns])
        self.encoding_ = encoding
        self._features = features
        self._kinds = [_kind_of(column) for column in columns]
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of columns.

        Parameters
        ----------
        X : table or array, shape (n_samples, n_features)
            Columns as in `fit`.

        Returns
        -------
        array, shape (n_samples, n_features_out)
            The features, float32 if all columns are, else float64; a table after `set_output`.
        """
        check_is_fitted(self)
        columns = self._columns(X, reset=False)
        names, kinds = _check_feature_names_in(self), map(_kind_of, columns)
        for name, actual, fitted in zip(names, kinds, self._kinds, strict=True):
            if actual != fitted:
                requirement = f"hold {fitted} in column {name!r}, as in fit"
                if "numbers" in (actual, fitted):
                    raise wrong_type("X", requirement, actual)
                hint = " Convert them, or name a zone by `time_zone`."
                raise wrong_value("X", requirement, actual, hint)
        blocks = self._features.encode(columns)
        check_same_namespace(blocks[0], self, attribute="_block", method="transform")
        xp = get_backend(X=blocks[0]).xp
        return (blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=0)).T

    def get_feature_names_out(self, input_features: Any = None) -> HostArray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns; if None, the names in `fit`, or x0, x1, ...

        Returns
        -------
        NumPy array of str objects
            Names of column, function, period and harmonic, such as "time_sin_day_2"; a single
            harmonic is omitted.
        """
        check_is_fitted(self)
        columns = _check_feature_names_in(self, input_features)
        return np.asarray(self._features.names(columns), dtype=object)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.allow_nan = self.missing == "pass"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked_options(self) -> tuple[str, dict[str, Any]]:
        """Return the encoding and its options; raise an error if it does not use an option."""
        encoding = checks.choice("encoding", self.encoding, tuple(ENCODINGS))
        if encoding == "auto" and self.wavelengths is not None:
            encoding = "fourier"
        parameters, options = signature(ENCODINGS[encoding]).parameters, {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            is_set = not (value is default or (isinstance(value, int | str) and value == default))
            if name in parameters:
                options[name] = value
                if not is_set and parameters[name].default is Parameter.empty:
                    hint = f' Pass {name}="year" for dates, or a number such as {name}=24.'
                    raise wrong_value(name, f"be given with encoding {encoding!r}", "None", hint)
            elif is_set:
                requirement = f"be left out with encoding {encoding!r}, which does not use it"
                raise wrong_value(name, requirement, format_value(value))
        return encoding, options

    def _columns(self, X: Any, *, reset: bool) -> list[Any]:
        """Check the columns, and return them as arrays of numbers, or times."""
        zone = time_zone_of(self.time_zone)
        checks.choice("missing", self.missing, ("error", "pass"))
        table = frames.as_table(X)
        labelled = frames.labelled_columns("X", table)
        kinds = {kind for _, kind, _ in labelled}
        if "spans" in kinds:
            raise wrong_type("X", "hold numbers or dates", "spans of time", " Pass days_since(X).")
        if "dates" not in kinds:
            if zone is not None:
                requirement = "be None for columns of numbers"
                raise wrong_value("time_zone", requirement, format_value(self.time_zone))
            with ignore_fp_errors():
                x = validate_data(self, table, reset=reset, **_number_options(table))
            return self._check_missing([x[:, j] for j in range(x.shape[1])])
        validate_data(self, table, reset=reset, skip_check_array=True)
        if table.shape[0] == 0:
            raise wrong_value("X", "have one sample or more", f"shape {tuple(table.shape)}")
        columns = []
        for label, kind, values in labelled:
            if kind == "dates":
                column = times_of(label, values, zone)
                frames.check_zone(label, column.zone, zone)
            else:
                options = {"ensure_2d": False, "estimator": self, **_number_options(values)}
                with ignore_fp_errors():
                    column = check_array(values, input_name=label, **options)
            columns.append(column)
        return self._check_missing(columns)

    def _check_missing(self, columns: list[Any]) -> list[Any]:
        """Return the columns; raise an error for missing values, unless `missing` permits them."""
        hint = ' Fill them, as by GapFiller, or pass missing="pass" for features of NaN.'
        for i, x in enumerate(columns if self.missing == "error" else ()):
            backend = get_backend(x=x.wall if isinstance(x, Times) else x)
            is_missing = np.isnat(x.wall) if isinstance(x, Times) else backend.xp.isnan(x)
            if backend.concrete_bool(backend.xp.any(is_missing)):
                name = f"X[{_check_feature_names_in(self)[i]!r}]"
                raise wrong_value(name, "have no missing values", "NaN or NaT", hint)
        return columns


def _number_options(table: Any) -> dict[str, Any]:
    """Return options of scikit-learn's checks: it preserves these dtypes, and allows NaN."""
    is_dispatched = get_config()["array_api_dispatch"] and is_array_api_obj(table)
    backend = get_backend(X=table) if is_dispatched else backend_for()
    return {
        "dtype": [backend.widest_float_dtype, backend.xp.float32],
        "ensure_all_finite": "allow-nan",
    }


_DEFAULTS = {f.name: f.default for f in fields(PositionalEncoder) if f.name not in _SHARED}


def _kind_of(column: Any) -> str:
    if not isinstance(column, Times):
        return "numbers"
    if column.calendar is not None:
        return f"times of the calendar {column.calendar}"
    return "times without a zone" if column.zone is None else f"times of the zone {column.zone}"


def _first(column: Array) -> Array:
    is_times = isinstance(column, Times)
    return column._replace(wall=column.wall[:1], utc=column.utc[:1]) if is_times else column[:1]
