"""Fill the gaps of columns from what was measured around them."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils._set_output import _wrap_method_output
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    warn_caller,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, HostArray, ignore_fp_errors, np
from positional_embeddings.sklearn import frames
from positional_embeddings.sklearn.gaps import SeriesFiller
from positional_embeddings.sklearn.kernels import DAYS, PeriodicKernel, scale_of
from positional_embeddings.sklearn.regressor import AttentionRegressor
from positional_embeddings.times.dates import is_missing, time_zone_of
from positional_embeddings.times.durations import duration_of, listed

# The periods of times that are looked for.
_CALENDAR = ("day", "week", "year")

# Of numbers up to this one, curvatures between neighbours and their inverses are finite.
_LARGEST = 1e100


_ROWS_HINT = (
    " Rows without positions are filled from their own table alone: pass rows around them, too, or "
    "take SimpleImputer."
)


class _Rows(NamedTuple):
    """A table as numbers, and where its rows are."""

    values: HostArray  # (rows, columns), NaN where nothing was measured
    places: HostArray  # (rows, coordinates)
    at: list[int]  # columns of positions
    columns: list[frames.Column]  # what the coordinates are


@dataclass(repr=False, eq=False)
class GapFiller(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Fill missing values of columns by a regression on where the rows are.

    Without an estimator, and with one coordinate, gaps of each length are filled in the way that
    fills hidden windows of that length best: by straight lines, means and seasons.

    Parameters
    ----------
    estimator : regressor, optional
        Copied for each column with gaps. If None, gaps are filled as hidden gaps of the same length
        are filled best (see Notes); with positions of several columns, by an `AttentionRegressor`.
    positions : "auto", "index", sequence of int or str, or None, default "auto"
        Columns that say where the rows are, such as times or places; they have no gaps, and are
        returned. "index" is the index of a pandas table or series, of one level. "auto" is the
        index if it holds dates, else the only column of dates, else None; dates as text and periods
        of pandas are refused. If None, rows follow one another at equal steps, whatever the index,
        and each table is filled from itself. Arrays that a step of a pipeline made of a table have
        no dates.
    periods : "auto", number, span of time, part of the calendar or list of these, default "auto"
        Periods of seasons, in the unit of the positions, or in rows. A period is used if the record
        has 2.5 cycles of it or more, and a season remains after the periods before it are removed.
        "auto" is day, week and year for times, and none for numbers. For times, spans are written
        as "12h", numbers are days, and "day", "week", "month", "quarter" and "year" follow the
        clock.
    time_zone : str or tzinfo, optional
        Zone such as "Europe/Zurich", whose clock parts of the calendar follow. If None, the zone of
        the positions. Times without a zone show a clock already, and are refused with `time_zone`.

    Attributes
    ----------
    estimators_ : list of regressor or None
        What fills each column; None for columns of positions, text and booleans.
    positions_ : list of int, "index" or None
        Where the positions are.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    Warns
    -----
    UserWarning
        In `fit`, if a column with gaps looks like angles, such as directions of wind and
        longitudes: fill their sine and cosine. If values at a position that is stated differ, as of
        several stations: their mean is taken. In `transform`, if gaps are at phases of a period
        that were never measured, such as nights or weekends: they are straight lines, whose
        deviations are those in the worst phase that was measured. In `transform`, if gaps are
        before or after the record by more than a step and a tenth of the record: nothing is
        promised there, as a trend does not go on.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `transform`, if `positions` are not columns of the table, hold gaps, or are
        others than in `fit`, if values at a position that "auto" found differ, or if nothing at all
        was measured in a column; in `fit`, if `periods` are none of the positions, or if several
        columns hold dates.

    See Also
    --------
    AttentionRegressor : The smoother, which fills gaps in several coordinates.

    Notes
    -----
    The samples of a period are laid out in cells (cycle, phase); with few cycles, several samples
    share a phase. Samples without a common step lie in at most 24 phases of a period that they
    tell, as they tell it to a `PositionalEncoder`. The season of a cell is the mean of its phase in
    the other cycles, all alike or weighted by :math:`(1 + d^2)^{-2}` at a distance of d cycles:
    attention over cycles, in which no cycle sees itself. Season, trend (straight lines over a
    period) and what fills gaps are fitted in turn. A season is there if it makes the squared error
    less than :math:`1 - 1 / \sqrt{n}` times as large in n cycles.

    Gaps are bridged by the straight line between the samples around them, or by the line through
    the means of 8 samples on either side, of what no season, the first, the first two ... leave
    over. For gaps of each octave of lengths, windows of that length are hidden, at least 64 windows
    and 640 samples. The weights of these candidates are not negative, add up to 1, and have the
    least squared error in the windows; where windows are few, the straight line counts more. The
    variance is that of the errors in the windows. Gaps longer than half of the record are filled as
    gaps of half its length. Before the first sample and after the last one, the last value or the
    mean of 8 goes on upon the season, with weights, and variances that grow with the distance, of
    ends of the record that are hidden.

    References
    ----------
    Breiman (1996), Stacked regressions. Cleveland et al. (1990), STL: a seasonal-trend
    decomposition procedure based on loess.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings.sklearn import GapFiller
    >>> filled = GapFiller().fit_transform([[0.0], [1.0], [np.nan], [3.0], [4.0]])
    >>> filled.round(3).T
    array([[0., 1., 2., 3., 4.]])
    """

    estimator: Any = None
    _: KW_ONLY
    positions: Sequence[int] | Sequence[str] | str | None = "auto"
    periods: Any = "auto"
    time_zone: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> "GapFiller":  # noqa: ARG002 - as pipelines pass it
        """Fit a regressor to what is there, for each column.

        Parameters
        ----------
        X : table or series, shape (rows, columns)
            Numbers, NaN where nothing was measured; columns of positions may hold times. Columns of
            text or booleans in tables of pandas and polars are left as they are. A series is a
            table of one column.
        y : None
            Ignored.

        Returns
        -------
        GapFiller
            Itself.
        """
        estimator = self.estimator
        if isinstance(estimator, type) or not (estimator is None or hasattr(estimator, "fit")):
            raise wrong_type("estimator", "be a regressor", format_value(estimator))
        self._times: dict[str, list[frames.Column]] = {}
        table = frames.as_table(X)
        self._texts = _columns_of_text(table)
        rows = self._read(table, reset=True)
        for j in self._texts:
            if count := sum(map(is_missing, frames.column_of(table, j))):
                message = f"Column {self._name(j)!r} holds text or booleans, and keeps its "
                hint = ": make numbers of it, as by pandas.to_numeric, to fill them."
                warn_caller(f"{message}{plural(count, 'gap')}{hint}")
        self._periods = self._periods_of(rows.columns)
        filled = set(range(rows.values.shape[1])).difference(rows.at, self._texts)
        self._samples = {j: _samples_of(rows, j) for j in sorted(filled)}
        self.estimators_: list[Any] = [None] * rows.values.shape[1]
        for j, samples in self._samples.items():
            if len(samples) < len(rows.values):
                in_order = samples[samples[:, 0].argsort(), -1]
                frames.warn_of_angles(f"Column {self._name(j)!r}", in_order)
            self.estimators_[j] = self._fitted(j, samples, rows)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with its gaps filled.

        Parameters
        ----------
        X : table or series, shape (rows, columns)
            As in `fit`; rows may be elsewhere. What was measured in it joins the samples of `fit`,
            and takes the place of one at the same position. Without positions another table is
            filled from itself alone, since its rows have no place among the rows of `fit`.

        Returns
        -------
        array, table or series, as `X`
            What was measured, as it is, and what the regressor says where nothing was. In an array
            times are days since 1970-01-01 UTC; in a table of pandas or polars columns without
            gaps, such as times and text, stay what they are.
        """
        table = frames.as_table(X)
        filled, gaps = self._gaps(table)
        for j, (estimator, gap, places) in gaps.items():
            filled[gap, j] = estimator.predict(places)
            if isinstance(estimator, SeriesFiller):
                self._warn(self._name(j), estimator, places)
        return _like(X, table, filled, gaps)

    @partial(_wrap_method_output, method="transform")  # as `set_output` says
    def transform_std(self, X: Any) -> Any:
        """Return the standard deviations of a measurement around what `transform` fills in.

        Parameters
        ----------
        X : table or series, shape (rows, columns)
            As in `transform`.

        Returns
        -------
        array, table or series, as of `transform`
            The standard deviation where nothing was measured, and 0 elsewhere. In known gaps it is
            found in the hidden windows, and NaN if there are too few samples to hide any; else it
            is what the estimator predicts with ``return_std=True``.

        Raises
        ------
        TypeError
            If the estimator does not predict standard deviations.
        """
        table = frames.as_table(X)
        values, gaps = self._gaps(table)
        std: HostArray = np.zeros_like(values)
        for j, (estimator, gap, places) in gaps.items():
            if "return_std" not in signature(estimator.predict).parameters:
                requirement = "predict standard deviations, as by predict(X, return_std=True)"
                raise wrong_type("estimator", requirement, format_value(self.estimator))
            std[gap, j] = estimator.predict(places, return_std=True)[1]
        return _like(X, table, std, range(std.shape[1]))

    def _gaps(
        self, X: frames.Table
    ) -> tuple[HostArray, dict[int, tuple[Any, HostArray, HostArray]]]:
        """Return a table as numbers; and what fills each column with gaps, at which rows, where."""
        check_is_fitted(self)
        rows, gaps = self._read(X, reset=False), {}
        for j, fitted in self._samples.items():
            gap = np.isnan(rows.values[:, j])
            if gap.any():
                own, estimator = _samples_of(rows, j), self.estimators_[j]
                samples = own if self.positions_ is None else _joined(own, fitted)
                if not np.array_equal(samples, fitted):
                    estimator = self._fitted(j, samples, rows)
                gaps[j] = estimator, gap, rows.places[gap, :]
        return np.array(rows.values), gaps

    def _fitted(self, j: int, samples: HostArray, rows: "_Rows") -> Any:
        """Return what fills a column, fitted to samples; warn of several ones at a position."""
        if not samples.size:
            hint, actual = _ROWS_HINT if self.positions_ is None else "", f"none in {self._name(j)}"
            raise wrong_value("X", "have a measurement in each column", actual, hint)
        places, distinct = (np.unique(x, axis=0) for x in (samples[:, :-1], samples))
        is_auto = self.positions == "auto"
        if distinct.shape[0] > places.shape[0] and (is_auto or self._periods is not None):
            hint = " Fill each group on its own, as by groupby."
            if is_auto:
                hint += ' `positions` such as "index" or ["time"] take the mean instead.'
                raise wrong_value("X", "have one value at a position", "several", hint)
            message = f"Column {self._name(j)!r} has several values at a position, whose mean is "
            warn_caller(f"{message}taken.{hint}")
        known = samples[:, :-1], samples[:, -1]
        if self._periods is None:
            own = AttentionRegressor() if self.estimator is None else clone(self.estimator)
            return own.fit(*known)
        wanted = rows.places[np.isnan(rows.values[:, j]), :]
        return SeriesFiller(*known, wanted, self._periods)

    def _name(self, j: int) -> str:
        """Return the name of a column."""
        return str(self.get_feature_names_out()[j])

    def _warn(self, name: str, gaps: SeriesFiller, places: HostArray) -> None:
        """Warn of gaps at phases that were never measured, and far beyond the record."""
        for period in gaps.never_measured(places)[:1]:
            message = f"Column {name!r} has gaps at phases of the {period.period} that were never "
            message += "measured. They are filled by straight lines; leave this period out of "
            warn_caller(f"{message}`periods` if its phases are alike.")
        if count := np.count_nonzero(gaps.beyond(places) > gaps.farthest):
            message = f"Column {name!r} has {plural(count, 'gap')} farther than {gaps.farthest:g} "
            message += "before or after its record, a tenth of it, where nothing is promised: a "
            warn_caller(f"{message}trend does not go on, and bands may be far too narrow.")

    def _periods_of(self, columns: Sequence[frames.Column]) -> list[PeriodicKernel] | None:
        """Return the periods of positions in these columns, None if an estimator fills gaps."""
        is_auto = isinstance(self.periods, str) and self.periods == "auto"
        zone = time_zone_of(self.time_zone)
        if self.estimator is not None or len(columns) > 1:
            if not is_auto or zone:
                requirement = (
                    'be "auto", and `time_zone` None, with an estimator or several coordinates'
                )
                raise wrong_value("periods", requirement, format_value(self.periods))
            return None
        (column,) = columns
        if zone and not column.is_time:
            raise wrong_value("time_zone", "be None for positions of numbers", format_value(zone))
        frames.check_zone("positions", column.zone, zone)
        calendar = _CALENDAR if column.is_time else ()
        found = []
        for i, period in enumerate(calendar if is_auto else listed("periods", self.periods)):
            scale_of(f"periods[{i}]", period, is_time=column.is_time, is_period=True)  # checks it
            span = duration_of(period)
            is_part = isinstance(span, str) and span in DAYS
            kernel = PeriodicKernel(period, 1.0, time_zone=zone if is_part else None)
            kernel._resolve(columns, [])
            found.append(kernel)
        return found

    def _read(self, X: frames.Table, *, reset: bool) -> "_Rows":
        """Return a table as numbers, and where its rows are."""
        table = X
        if self._texts and frames.is_frame(X):
            texts = [j for j in self._texts if j < X.shape[1]]
            table = frames.with_columns(X, {j: np.zeros(X.shape[0]) for j in texts})
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        with ignore_fp_errors():
            values = validate_data(self, self._with_days("X", table), reset=reset, **options)
        at: list[int] = []
        columns = [frames.Column(is_time=False, zone=None)]
        found = self._find_positions(X, values.shape[1])
        if reset:
            self.positions_ = found
        elif found != self.positions_:
            requirement = f"have positions as in `fit`, {format_value(self.positions_)}"
            raise wrong_value("X", requirement, format_value(found))
        if found is None:
            places = np.arange(values.shape[0], dtype=np.float64)[:, None]
        elif isinstance(found, str):
            places = self._index(X)
            columns = self._times["X.index"] or columns
        else:
            at = found
            places = values[:, at].astype(np.float64)
            columns = [self._times["X"][j] for j in at] if self._times["X"] else columns * len(at)
        if np.isnan(places).any():
            raise wrong_value("positions", "have no gaps", "NaN among them")
        for name, numbers in ("X", values), ("positions", places):
            most = float(np.nanmax(abs(numbers), initial=0.0))
            if most > _LARGEST:
                raise wrong_value(name, f"be within {_LARGEST} of 0", f"{most:g} or beyond")
        frames.check_extents("positions", places.T, 1 / _LARGEST)
        return _Rows(values, places, at, columns)

    def _index(self, X: frames.Table) -> Array:
        """Return the index of a table as days or numbers, (rows, 1)."""
        if not hasattr(X, "iloc"):
            raise wrong_type("X", 'be a pandas table if `positions` is "index"', format_value(X))
        rows = self._with_days("X.index", X.index)
        if rows.iloc[:, 0].dtype.kind not in "biuf":
            raise wrong_type("X.index", "hold numbers or times", str(X.index.dtype))
        places = check_array(rows, dtype=np.float64, input_name="X.index")
        frames.check_apart("X.index", rows, places)
        return places

    def _with_days(self, name: str, table: frames.Table) -> frames.Table:
        """Return a table with times as days, where `fit` saw times, too."""
        table, times = frames.with_days(table, name)
        frames.check_times(name, times, self._times.setdefault(name, times))
        return table

    def _find_positions(self, X: frames.Table, n_columns: int) -> list[int] | str | None:
        """Return where the positions of a table are: "index", columns, or None for rows."""
        positions = self.positions
        if positions is None:
            return None
        if isinstance(positions, str) and positions in ("auto", "index"):
            index: Any = getattr(X, "index", None)
            if getattr(index, "nlevels", 1) > 1:
                hint = " Fill each group on its own, as by groupby, or name columns of positions."
                raise wrong_value("X.index", "have one level", f"{index.nlevels} levels", hint)
            has_dates = getattr(getattr(index, "dtype", None), "kind", None) == "M"
            if positions == "index" or has_dates:
                return "index"
            found = [j for j, column in enumerate(self._times["X"]) if column.is_date]
            if len(found) > 1:
                actual = ", ".join(map(self._name, found))
                raise wrong_value("positions", "name one of several columns of dates", actual)
            texts = [(f"X[{self._name(j)!r}]", frames.column_of(X, j)) for j in self._texts]
            texts += [] if index is None else [("X.index", index)]
            for name, column in () if found else texts:
                if hint := frames.remedy_of(column):
                    hint += " Or pass positions=None, if rows follow one another at equal steps."
                    raise wrong_type(name, "hold dates", frames.kind_of(column), hint)
            return found or None
        if not isinstance(positions, list | tuple) or not positions:
            requirement = 'be "auto", "index", a list of columns or None'
            raise wrong_value("positions", requirement, format_value(positions))
        names = list(getattr(self, "feature_names_in_", ()))
        found = frames.indices_of("positions", positions, names, n_columns)
        for i, j in enumerate(found):
            if j in self._texts:
                requirement, actual = "be a column of numbers or times", "one of text or booleans"
                hint = frames.remedy_of(frames.column_of(X, j))
                raise wrong_value(f"positions[{i}]", requirement, actual, hint)
        return found


def _like(X: Any, table: frames.Table, numbers: HostArray, columns: Iterable[int]) -> Any:
    """Return numbers as an array, or as columns of a copy of a table or series."""
    if not frames.is_frame(table):
        return numbers
    table = frames.with_columns(table, {j: numbers[:, j] for j in columns})
    return table if table.shape == X.shape else frames.column_of(table, 0).rename(X.name)


def _columns_of_text(table: frames.Table) -> list[int]:
    """Return the columns of a table that hold text or booleans."""
    if not frames.is_frame(table) or len(table.shape) != 2:
        return []
    columns = enumerate(frames.column_of(table, j) for j in range(table.shape[1]))
    return [j for j, c in columns if any(isinstance(v, str | bool | np.bool_) for v in c)]


def _samples_of(rows: _Rows, j: int) -> Array:
    """Return where a column was measured, and what, (samples, coordinates + 1)."""
    samples = np.column_stack([rows.places, rows.values[:, j]])
    return samples[~np.isnan(samples[:, -1]), :]


def _joined(samples: HostArray, fitted: HostArray) -> Array:
    """Return samples, and the samples of `fit` elsewhere; only these if none is new."""
    if set(map(tuple, samples)) <= set(map(tuple, fitted)):
        return fitted
    taken = set(map(tuple, samples[:, :-1]))
    others = [tuple(place) not in taken for place in fitted[:, :-1]]
    return np.concatenate([samples, fitted[others, :]])
