"""Transformer of columns of numbers, times or places to features, for scikit-learn."""

from collections.abc import Sequence
from inspect import Parameter, signature
from typing import Any, Literal

from array_api_compat import is_array_api_obj
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import (
    HostArray,
    device_of,
    namespace_of,
    np,
    widest_float,
)
from positional_embeddings.encodings.dates import Times, holds_spans, times_of
from positional_embeddings.encodings.labelled import ENCODINGS, Coordinate
from positional_embeddings.sklearn.columns import (
    as_table,
    check_no_text,
    column_of,
    columns_of_dates,
    time_zone_of,
)

EncodingName = Literal["auto", "cyclic", "fourier", "sinusoidal", "spherical", "random_fourier"]

_DEFAULTS = {
    "periods": None,
    "harmonics": 1,
    "wavelengths": None,
    "dim": None,
    "degree": None,
    "length_scale": None,
    "kernel": "gaussian",
    "unit": "degrees",
}


class PositionalEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode columns of numbers, times or places as features.

    Times are columns of dates of NumPy, pandas or polars, or of Python's datetimes. Calendar
    periods follow the clock on the wall of their time zone, so that 8 o'clock is 8 o'clock before
    and after a change to daylight saving time, and years are as long as they are. Other spans of
    time are counted in UTC. Columns that need other options go to encoders of their own, in a
    `sklearn.compose.ColumnTransformer`.

    Parameters
    ----------
    encoding : str, default "auto"
        One of:

        - "auto": "cyclic" if `periods` is given, else "fourier";
        - "cyclic": sines and cosines of `periods`, which wrap around;
        - "fourier": sines and cosines of `wavelengths`;
        - "sinusoidal": the encoding of Vaswani et al., `dim` features for each column;
        - "spherical": spherical harmonics to a `degree`, of two columns. Names such as lat,
          latitude, lon, lng and longitude tell which is which, in any order; if they do not, the
          latitude is the first;
        - "random_fourier": `dim` random Fourier features of all columns together, whose scalar
          products approach a kernel.
    periods : number, str, timedelta, pandas offset or list of these, optional
        Periods of "cyclic", which needs them, for every column: numbers for numbers; for times
        "day", "week", "month", "quarter" and "year" by the calendar, or spans: timedeltas (of
        Python, NumPy or pandas), texts such as "24h", "90min" and "29.53D", and offsets of pandas.
    harmonics : int or list of int, default 1
        Harmonics of each period with "cyclic", or one number for each period.
    wavelengths : number, str, timedelta, pandas offset or list of these, optional
        Wavelengths of "fourier", for every column. If None, four octaves from twice the range of
        each column that `fit` saw. Spans of times are as for `periods`, without the calendar.
    dim : int, optional
        Number of features of "sinusoidal" for each column, or of "random_fourier", where it is
        even; both need it.
    degree : int, optional
        Highest degree of "spherical", which needs it; (degree + 1)**2 features.
    length_scale : number, str, timedelta, pandas offset or list of these, optional
        Length over which the kernel of "random_fourier" falls, one, or one for each column.
        It needs it.
    kernel : {"gaussian", "matern", "laplace"}, default "gaussian"
        Kernel of "random_fourier".
    unit : {"degrees", "radians"}, default "degrees"
        Unit of the places of "spherical".
    time_zone : str or datetime.tzinfo, optional
        Zone whose clock calendar periods follow, such as "Europe/Zurich". If None, the zone
        of each column. Times without a zone show a clock already, and are refused with `time_zone`.
    missing : {"error", "pass"}, default "error"
        Whether missing numbers and times (NaN, NaT, None) are an error, or become features of NaN,
        for models that take them, such as `sklearn.ensemble.HistGradientBoostingRegressor`.
    random_state : int, RandomState instance or None, default None
        Source of the frequencies of "random_fourier", drawn in `fit`. Other encodings draw nothing.

    Attributes
    ----------
    encoding_ : str
        The encoding that is used.
    n_features_in_ : int
        Number of columns that `fit` saw.
    feature_names_in_ : array of str, shape (n_features_in_,)
        Names of these columns, where all are text.

    Raises
    ------
    TypeError, ValueError
        In `fit`: if an option is missing, wrong, or given and not used by the encoding; if numbers
        or times are missing (NaN, NaT) with `missing` "error"; if a column holds text or mixes
        time zones.

    See Also
    --------
    positional_embeddings.cyclic_encoding : Sines and cosines of periods of any array.
    positional_embeddings.fourier_encoding : Sines and cosines of wavelengths.
    positional_embeddings.spherical_encoding : Spherical harmonics of places.
    positional_embeddings.random_fourier_encoding : Random Fourier features.
    positional_embeddings.sinusoidal_encoding : Sinusoids of positions.

    Notes
    -----
    With ``sklearn.set_config(array_api_dispatch=True)`` columns of numbers may be an array of any
    library of the Array API standard; the features are on its device. Times are NumPy's.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings.sklearn import PositionalEncoder
    >>> times = np.asarray([["2024-01-01T06"], ["2024-01-01T12"]], dtype="datetime64[h]")
    >>> encoder = PositionalEncoder(periods=["day", "year"])
    >>> encoder.fit_transform(times).round(2)
    array([[ 1.  ,  0.  ,  0.  ,  1.  ],
           [ 0.  , -1.  ,  0.01,  1.  ]])
    >>> encoder.get_feature_names_out(["time"]).tolist()
    ['time_sin_24h', 'time_cos_24h', 'time_sin_year', 'time_cos_year']
    """

    def __init__(
        self,
        encoding: EncodingName = "auto",
        *,
        periods: Any = None,
        harmonics: int | Sequence[int] = 1,
        wavelengths: Any = None,
        dim: int | None = None,
        degree: int | None = None,
        length_scale: Any = None,
        kernel: Literal["gaussian", "matern", "laplace"] = "gaussian",
        unit: Literal["degrees", "radians"] = "degrees",
        time_zone: Any = None,
        missing: Literal["error", "pass"] = "error",
        random_state: Any = None,
    ) -> None:
        self.encoding = encoding
        self.periods = periods
        self.harmonics = harmonics
        self.wavelengths = wavelengths
        self.dim = dim
        self.degree = degree
        self.length_scale = length_scale
        self.kernel = kernel
        self.unit = unit
        self.time_zone = time_zone
        self.missing = missing
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "PositionalEncoder":  # noqa: ARG002 - scikit-learn's
        """Check the options against the columns, and learn what depends on these.

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
        encoding = self._checked_encoding()
        columns = self._columns(X, reset=True)
        known = signature(ENCODINGS[encoding]).parameters
        options = {name: getattr(self, name) for name in _DEFAULTS if name in known}
        if encoding == "random_fourier":
            options["rng"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        names = zip(_check_feature_names_in(self), columns, strict=True)
        coordinates = [Coordinate(name, x, f"column {name!r}") for name, x in names]
        features = ENCODINGS[encoding](coordinates, **options)
        features.encode([_first(column) for column in columns])  # checks what is left to check
        self.encoding_ = encoding
        self._features = features
        self._holds_times = [isinstance(column, Times) for column in columns]
        self._zones = [getattr(column, "zone", None) for column in columns]
        self._library_and_device = _library_and_device_of(columns[0])
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of columns.

        Parameters
        ----------
        X : table or array, shape (n_samples, n_features)
            Columns as `fit` saw them.

        Returns
        -------
        array, shape (n_samples, n_features_out)
            The features, float32 if all columns are, else float64; a table after `set_output`.
        """
        check_is_fitted(self)
        columns = self._columns(X, reset=False)
        self._check_kinds(columns)
        blocks = self._features.encode(columns)
        xp = namespace_of(X=blocks[0])
        return (blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=0)).T

    def get_feature_names_out(self, input_features: Any = None) -> HostArray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns; those that `fit` saw, or x0, x1, ..., if None.

        Returns
        -------
        NumPy array of str objects
            Names of column, function, period and harmonic, such as "time_sin_24h_2"; the harmonic
            is left out if there is only one.
        """
        check_is_fitted(self)
        names: HostArray = np.asarray(
            self._features.names(_check_feature_names_in(self, input_features)), dtype=object
        )
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.allow_nan = self.missing == "pass"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked_encoding(self) -> str:
        """Return the encoding, after a check that its options are given, and no others."""
        encoding: str = checks.choice("encoding", self.encoding, ("auto", *ENCODINGS))
        if encoding == "auto":
            encoding = "fourier" if self.periods is None else "cyclic"
        known = signature(ENCODINGS[encoding]).parameters
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            is_given = not (value is default or (isinstance(value, int | str) and value == default))
            if not is_given and name in known and known[name].default is Parameter.empty:
                raise wrong_value(name, f"be given with encoding {encoding!r}", "None")
            if is_given and name not in known:
                what = f"be left out with encoding {encoding!r}, which does not use it"
                raise wrong_value(name, what, shown(value))
        return encoding

    def _columns(self, X: Any, *, reset: bool) -> list[Any]:
        """Return the columns, checked: arrays of numbers, or times."""
        zone = time_zone_of(self.time_zone)
        checks.choice("missing", self.missing, ("error", "pass"))
        table = as_table(X)
        check_no_text(table)
        of_dates = columns_of_dates(table)
        if any(holds_spans(column_of(table, j)) for j in range(len(of_dates))):
            hint = " Pass days_since(X)."
            raise wrong_type("X", "hold numbers or dates", "spans of time", hint)
        if any(of_dates):
            return self._mixed_columns(table, of_dates, zone, reset=reset)
        if zone is not None:
            raise wrong_value("time_zone", "be None for columns of numbers", shown(self.time_zone))
        options = {"dtype": _floats_of(table), "ensure_all_finite": self._finite()}
        x = validate_data(self, table, reset=reset, **options)
        return [x[:, j] for j in range(x.shape[1])]

    def _mixed_columns(
        self, table: Any, of_dates: list[bool], zone: Any, *, reset: bool
    ) -> list[Any]:
        validate_data(self, table, reset=reset, skip_check_array=True)
        if table.shape[0] == 0:
            raise wrong_value("X", "have one sample or more", f"shape {tuple(table.shape)}")
        names = _check_feature_names_in(self)
        return [
            self._times_of(column_of(table, j), names[j], zone)
            if of_dates[j]
            else self._numbers_of(column_of(table, j), names[j])
            for j in range(len(of_dates))
        ]

    def _times_of(self, column: Any, name: str, zone: Any) -> Times:
        name = f"X[{name!r}]"
        times = times_of(name, column, zone)
        if self.missing == "error" and np.isnat(times.wall).any():
            raise wrong_value(name, "have no missing times", "NaT")
        if zone is not None and times.zone is None:
            hint = " Give them theirs, as with pandas.Series.dt.tz_localize."
            what = "have times with a zone where `time_zone` is given"
            raise wrong_value(name, what, "times without a zone", hint)
        return times

    def _numbers_of(self, column: Any, name: str) -> Any:
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": self._finite()}
        input_name = f"X in column {name!r}"
        return check_array(
            column, ensure_2d=False, input_name=input_name, estimator=self, **options
        )

    def _finite(self) -> bool | str:
        """Return which numbers scikit-learn lets through."""
        return "allow-nan" if self.missing == "pass" else True

    def _check_kinds(self, columns: Sequence[Any]) -> None:
        """Check that the columns are of the kinds, the library and the device that fit saw."""
        for j, (column, holds_times) in enumerate(zip(columns, self._holds_times, strict=True)):
            if isinstance(column, Times) != holds_times:
                name = _check_feature_names_in(self)[j]
                kinds = ("times", "numbers") if holds_times else ("numbers", "times")
                what = f"hold {kinds[0]} in column {name!r}, as in fit"
                raise wrong_type("X", what, kinds[1])
        for j, (column, zone) in enumerate(zip(columns, self._zones, strict=True)):
            came = getattr(column, "zone", None)
            if came != zone:
                name = _check_feature_names_in(self)[j]
                what = f"hold times of the zone of fit, {zone}, in column {name!r}"
                remedy = " Convert them, or name a zone by `time_zone`."
                raise wrong_value("X", what, f"times of the zone {came}", remedy)
        came = _library_and_device_of(columns[0])
        if get_config()["array_api_dispatch"] and came != self._library_and_device:
            fitted, other = (" on ".join(pair) for pair in (self._library_and_device, came))
            message = (
                "Inputs passed to PositionalEncoder.transform() must use the same namespace and "
                f"the same device as those passed to fit(): {fitted}, got {other}."
            )
            raise ValueError(message)


def _floats_of(table: Any) -> list[Any]:
    """Return the dtypes to compute in: dtypes of the library and device that scikit-learn keeps."""
    if not (get_config()["array_api_dispatch"] and is_array_api_obj(table)):
        return [np.float64, np.float32]
    xp = namespace_of(X=table)
    wide = widest_float(xp, device_of(table))
    return [wide] if wide == xp.float32 else [wide, xp.float32]


def _first(column: Any) -> Any:
    if isinstance(column, Times):
        return Times(column.wall[:1], column.utc[:1], column.zone)
    return column[:1]


def _library_and_device_of(column: Any) -> tuple[str, str]:
    """Return the library and the device of a column."""
    column = column.utc if isinstance(column, Times) else column
    return type(column).__module__.partition(".")[0], str(device_of(column))
