"""Transformer for scikit-learn: fill missing values of columns."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from inspect import signature
from itertools import product
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils._set_output import _wrap_method_output
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    warn_caller,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, HostArray, ignore_fp_errors, np
from positional_embeddings.sklearn import frames
from positional_embeddings.sklearn.gaps import SeriesFiller, columns_without_order, fit_columns
from positional_embeddings.sklearn.kernels import PeriodicKernel, period_of
from positional_embeddings.sklearn.regressor import AttentionRegressor
from positional_embeddings.times.calendar import MEAN_DAYS
from positional_embeddings.times.dates import is_missing, time_zone_of
from positional_embeddings.times.durations import duration_of, listed

# The default periods of times.
_CALENDAR_PERIODS = ("day", "week", "year")

# The largest number for which curvatures between neighbours and their inverses are finite.
_MAX_VALUE = 1e100

# Clocks go back in the first hours of a day, once a year, in days.
_NIGHT_DAYS, _YEAR_DAYS = 4 / 24, 300

# Words in names of coordinates.
_POSITION_WORDS = {"t", "time", "timestamp", "elapsed", "year", "depth", "distance", "position"}

# Steps that differ by this part are unequal.
_MAX_STEP_DIFFERENCE = 1e-3

_ROWS_HINT = (
    " Without positions, only rows of the same table fill a gap: pass adjacent rows, too, or use "
    "SimpleImputer."
)

_NO_ORDER = (
    ": neighbours differ as much as other rows, and do not predict gaps. Pass `positions=` such as "
    "times or places, `periods=` of seasons in rows, or use IterativeImputer of scikit-learn; "
    "positions=None omits this warning."
)


class _Rows(NamedTuple):
    """The numbers of a table, and the positions of its rows."""

    values: HostArray  # (rows, columns), NaN for missing values
    positions: HostArray  # (rows, coordinates)
    position_columns: list[int]
    columns: list[frames.Column]  # kinds of the coordinates


@dataclass(repr=False, eq=False)
class GapFiller(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Fill missing values of columns by a regression on the positions of the rows.

    With one coordinate and no estimator, straight lines, means and seasons fill the gaps. Hidden
    windows as long as each gap determine their weights.

    Parameters
    ----------
    estimator : regressor, optional
        Cloned for each column with gaps. For a table it is passed the positions with their names,
        and dates if it has a part of this library, a `ColumnTransformer` or a
        `FunctionTransformer`, else days since 1970-01-01 UTC. If None, the best predictors of
        hidden gaps of the same length fill gaps (see Notes); with several columns of positions, an
        `AttentionRegressor`.
    positions : "auto", "index", sequence of int or str, or None, default "auto"
        Columns of the positions of the rows, such as times or places; they have no gaps, and are
        returned. "index" is the index of a pandas table or series, of one level. "auto" is the
        index if it holds dates, else the only column of dates, else None. Dates as text and pandas
        periods raise an error. If None, rows are at equal steps, for any index, and each table is
        filled separately. In a pipeline, arrays made from a table have no dates.
    periods : "auto", number, span of time, part of the calendar or list of these, default "auto"
        Periods of seasons, in the unit of the positions, or in rows. A period is used if the record
        has 2.5 cycles or more, and a season remains after the previous periods are removed.
        "auto" is day, week and year for times, and none for numbers. For times, a period
        is a span such as "12h" or ``pd.Timedelta("12h")``, not a number; "day", "week", "month",
        "quarter" and "year" follow the clock.
    time_zone : str or tzinfo, optional
        Zone such as "Europe/Zurich", whose clock calendar periods follow. If None, the zone of the
        positions. Times without a zone are local times, and an error with `time_zone`.
    n_nearest_features : int, default 12
        The largest number of other columns that help to fill a column: those with the largest
        correlation, without seasons. If 0, each column is filled from its samples only. Without
        effect with an estimator or several coordinates.

    Attributes
    ----------
    estimators_ : list of regressor or None
        The regressor of each column; None for columns of positions, text and booleans.
    positions_ : list of int, "index" or None
        Columns of the positions.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    Warns
    -----
    UserWarning
        At most one of each kind, with the names of the columns. In `fit` with `positions` "auto"
        and no dates, if the index, a column of spans or one named as a coordinate, such as time or
        depth, is sorted with unequal steps; and if rows have no order: neighbours differ as much as
        other rows (see Notes). In `fit`, if a period that you pass has no season, and if a column
        with gaps looks like angles, such as directions of wind and longitudes: fill their sine and
        cosine. If values at an explicit position differ, as for several stations: their mean is
        used. In `transform`, if gaps are at unsampled phases of a period, such as nights or
        weekends: straight lines fill them, with the standard deviation of the worst sampled phase.
        In `transform`, if gaps are before or after the record by more than a step and a tenth of
        the record: extrapolated trends are unreliable.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `transform`, if `positions` are not columns of the table, have gaps, or differ
        from those in `fit`; if values at a position differ with "auto"; or if a column has no
        measurement. In `fit`, if `periods` do not fit the positions, or if several columns hold
        dates.

    See Also
    --------
    AttentionRegressor : The smoother, which fills gaps in several coordinates.

    Notes
    -----
    The samples of a period are arranged in cells (cycle, phase); with few cycles, several samples
    share a phase. Samples without a common step are in at most 24 phases of each period that they
    resolve, as in `PositionalEncoder`. The season of a cell is the mean of its phase in the other
    cycles, with equal weights or with weights :math:`(1 + d^2)^{-2}` at a distance of d cycles.
    This is attention over cycles, in which each cycle is masked from itself. Season, trend
    (straight lines over a period) and the values in gaps are fitted in turn. A season exists if it
    multiplies the squared error by less than :math:`1 - 1 / \sqrt{n}` in n cycles.

    A candidate removes no season, the first, the first two, and so on. It bridges gaps by the
    straight line between the adjacent samples, or by the line through the means of 8 samples on
    either side. For gaps of each octave of lengths, windows of that length are hidden, at least 64
    windows and 640 samples. The weights of the candidates are nonnegative, have the sum 1, and
    minimize the squared error in the windows; with few windows, the straight line has more weight.
    The variance is that of the errors in the windows. Gaps longer than half of the record are
    filled as gaps of half its length. Before the first sample and after the last one, the last
    value or the mean of 8 continues, plus the season. Hidden ends of the record determine the
    weights, and variances that grow with the distance.

    Other columns correct the candidates. Let :math:`e` be the error of a candidate at a hidden
    sample, and :math:`r_k` the error of the same bridge there in column k without its seasons. The
    corrected candidate has the error :math:`e - \sum_k b_k r_k`, with the sum over the set M of
    columns measured there, and

    .. math:: b = (R_{MM} + \lambda I)^{-1} c_M, \quad
        \lambda = \frac{K}{n} \frac{\rho}{1 - \rho},

    where :math:`r_k` are scaled to mean squares of 1, :math:`R_{kl}` and :math:`c_k` are the means
    of :math:`r_k r_l` and :math:`e r_k` over the hidden samples with these measurements, relative
    to the mean of :math:`e^2` there, K is the number of columns in use, n that of windows, and
    :math:`\rho` the part of the variance that remains. Each of five blocks of time has a weight in
    these means and in the stack: the inverse of the variance that remains in it, with four windows
    of the whole record added, and at least the median of the blocks. A column whose changes follow
    or precede by up to three steps is shifted. The mean of the record is a third bridge of
    corrected candidates, and of all candidates if rows have no order. Errors of corrected
    candidates are predictions from the other four blocks. All candidates share the stack's weights.
    Gaps of an octave of :math:`\rho` have their own weights and variance, from hidden samples with
    the other columns measured as in these gaps. Columns measured at less than a tenth of the hidden
    samples, and values more than twice as far off as in all windows, are ignored. Gaps at which no
    other column is measured, and tables of one column, do not depend on other columns.

    Rows have no order if the mean of von Neumann's ratio for ranks (the squared difference of
    neighbours over twice the variance) over the columns with gaps, without sorted ones, is at least
    0.85, and between 1.5 standard errors below 1 and three above. The error is
    :math:`1 / \sqrt{n}` for n pairs of neighbours, at least 20.

    References
    ----------
    Bartels (1982), The rank version of von Neumann's ratio test for randomness. Breiman (1996),
    Stacked regressions. Cleveland et al. (1990), STL: a seasonal-trend decomposition procedure
    based on loess.

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
    n_nearest_features: int = 12

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> "GapFiller":  # noqa: ARG002 - scikit-learn's
        """Fit a regressor to the measurements of each column.

        Parameters
        ----------
        X : table or series, shape (n_samples, n_features)
            Numbers, NaN for missing values; columns of positions may hold times. Columns of text
            or booleans in tables of pandas and polars do not change. A series is a table of one
            column.
        y : None
            Ignored.

        Returns
        -------
        GapFiller
            The fitted transformer.
        """
        estimator = self.estimator
        if isinstance(estimator, type) or not (estimator is None or hasattr(estimator, "fit")):
            raise wrong_type("estimator", "be a regressor", format_value(estimator))
        checks.non_negative_integer("n_nearest_features", self.n_nearest_features)
        self._times: dict[str, list[frames.Column]] = {}
        table = frames.as_table(X)
        self._text_columns = _text_columns(table)
        rows = self._read(table, reset=True)
        messages = {}
        for j in self._text_columns:
            if count := sum(map(is_missing, frames.get_column(table, j))):
                message = f"Column {self._name(j)!r} holds text or booleans, and keeps its "
                hint = ": convert it to numbers, as by pandas.to_numeric, to fill them."
                messages[j] = f"{message}{plural(count, 'gap')}{hint}"
        self._warn(messages)
        self._periods = self._checked_periods(rows.columns)
        self._columns = rows.columns
        self._frame_type = type(table) if frames.is_frame(table) else None
        self._position_names = [self._name(j) for j in rows.position_columns]
        if self.positions_ == "index":
            self._position_names = [str(getattr(X.index, "name", None) or "index")]
        columns = set(range(rows.values.shape[1]))
        columns = columns.difference(rows.position_columns, self._text_columns)
        self._samples = {j: _samples(rows, j) for j in sorted(columns)}
        gap_columns = [j for j, samples in self._samples.items() if len(samples) < len(rows.values)]
        self._has_gaps = bool(gap_columns)  # else the fillers are not fitted
        messages = {}
        for j, samples in self._samples.items():
            if j in gap_columns:
                in_order = samples[samples[:, 0].argsort(), -1]
                messages[j] = frames.message_of_angles(f"Column {self._name(j)!r}", in_order)
        self._warn(messages)
        estimators = self._fit_columns(self._samples, rows)
        self.estimators_ = [estimators.get(j) for j in range(rows.values.shape[1])]
        if not (isinstance(self.periods, str) and self.periods == "auto"):
            self._warn_of_unused_periods(gap_columns)
        if self.positions_ is None and self.positions is not None and gap_columns:
            self._warn_of_positions(rows, getattr(table, "index", None), gap_columns)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with its gaps filled.

        Parameters
        ----------
        X : table or series, shape (n_samples, n_features)
            As in `fit`; rows may have other positions. Its measurements are added to the samples of
            `fit`, and replace samples at the same position. With one coordinate and no estimator, a
            sample of `fit` fills a gap at its position, unless samples of a position differ.
            Without positions, the samples of `fit` are not used.

        Returns
        -------
        array, table or series, as `X`
            The measurements, and predictions for missing values. In an array, times are days since
            1970-01-01 UTC; in a table of pandas or polars, columns without gaps, such as times and
            text, do not change.
        """
        table = frames.as_table(X)
        filled, gaps = self._gaps(table)
        unsampled, outside = {}, {}
        for j, (estimator, gap, positions) in gaps.items():
            filled[gap, j] = estimator.predict(self._table_of(positions))
            if isinstance(estimator, SeriesFiller):
                name = f"Column {self._name(j)!r}"
                unsampled[j] = _message_of_phases(name, estimator, positions)
                unit = " days" if self._columns[0].is_time else ""
                outside[j] = _message_of_extrapolation(name, estimator, positions, unit)
        self._warn(unsampled)
        self._warn(outside)
        return _restore(X, table, filled, gaps)

    @partial(_wrap_method_output, method="transform")  # follows `set_output`
    def transform_std(self, X: Any) -> Any:
        """Return the standard deviations of measurements around the values from `transform`.

        Parameters
        ----------
        X : table or series, shape (n_samples, n_features)
            As in `transform`.

        Returns
        -------
        array, table or series, as of `transform`
            The standard deviation of missing values; 0 at measurements, and at gaps that a sample
            of `fit` fills. Without an estimator it is
            estimated from hidden windows, and NaN if samples are too few to hide any. With an
            estimator it is the prediction with ``return_std=True``.

        Raises
        ------
        TypeError
            If the estimator does not predict standard deviations.
        """
        table = frames.as_table(X)
        values, gaps = self._gaps(table)
        std: HostArray = np.zeros_like(values)
        for j, (estimator, gap, positions) in gaps.items():
            if "return_std" not in signature(estimator.predict).parameters:
                requirement = "predict standard deviations, as by predict(X, return_std=True)"
                raise wrong_type("estimator", requirement, format_value(self.estimator))
            std[gap, j] = estimator.predict(self._table_of(positions), return_std=True)[1]
        return _restore(X, table, std, range(std.shape[1]))

    def _gaps(
        self, X: frames.Table
    ) -> tuple[HostArray, dict[int, tuple[Any, HostArray, HostArray]]]:
        """Return the numbers of a table, and regressor, mask and positions of gaps by column."""
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        gaps = {j: np.isnan(rows.values[:, j]) for j in self._samples}
        gaps = {j: gap for j, gap in gaps.items() if gap.any()}
        is_series = self._periods is not None
        samples = {j: _samples(rows, j) for j in (self._samples if gaps and is_series else gaps)}
        if self.positions_ is not None:
            samples = {j: _merge(column, self._samples[j]) for j, column in samples.items()}
        is_new = {j: not np.array_equal(column, self._samples[j]) for j, column in samples.items()}
        if not (is_series and (any(is_new.values()) or not self._has_gaps)):
            samples = {j: column for j, column in samples.items() if is_new[j]}
        estimators = dict(enumerate(self.estimators_)) | self._fit_columns(samples, rows)
        fitted = {j: (estimators[j], gap, rows.positions[gap, :]) for j, gap in gaps.items()}
        return np.array(rows.values), fitted

    def _check_samples(self, j: int, samples: HostArray) -> str:
        """Check that a column has samples; return a warning of several at a position, or ""."""
        if not samples.size:
            hint, actual = _ROWS_HINT if self.positions_ is None else "", f"none in {self._name(j)}"
            raise wrong_value("X", "have a measurement in each column", actual, hint)
        positions, counts = np.unique(samples[:, :-1], axis=0, return_counts=True)
        distinct = np.unique(samples, axis=0)
        is_auto = self.positions == "auto"
        if distinct.shape[0] > positions.shape[0] and (is_auto or self._periods is not None):
            hint = " Make a column of each group by pivot, or fill each one separately."
            column = self._columns[0]
            is_naive = column.is_date and column.zone is None
            if is_naive and _is_one_night(positions[counts > 1, 0]):
                hint = ' If clocks go back there: X.tz_localize(zone, ambiguous="infer").'
            if is_auto:
                hint += ' With `positions` such as "index" or ["time"], their mean is used.'
                raise wrong_value("X", "have one value at a position", "several", hint)
            message = f"Column {self._name(j)!r} has several values at a position, whose mean is "
            return f"{message}used.{hint}"
        return ""

    def _fit_columns(self, samples: dict[int, HostArray], rows: "_Rows") -> dict[int, Any]:
        """Return the fitted regressor of each column; warn of several samples at a position."""
        self._warn({j: self._check_samples(j, column) for j, column in samples.items()})
        if self._periods is None or not samples:
            template = AttentionRegressor() if self.estimator is None else self.estimator
            return {
                j: clone(template).fit(self._table_of(column[:, :-1]), column[:, -1])
                for j, column in samples.items()
            }
        periods = self._periods
        fillers = {j: SeriesFiller(c[:, :-1], c[:, -1], periods) for j, c in samples.items()}
        queries = [rows.positions[np.isnan(rows.values[:, j]), :] for j in samples]
        fit_columns(list(fillers.values()), queries, self.n_nearest_features)
        return fillers

    def _table_of(self, positions: HostArray) -> Any:
        """Return positions for an estimator: a frame with names, and dates where it reads dates."""
        if self._periods is not None or self._frame_type is None or not self._position_names:
            return positions
        columns = self._columns if self.estimator is None or _reads_dates(self.estimator) else ()
        return frames.frame_of(self._frame_type, self._position_names, positions, columns)

    def _name(self, j: int) -> str:
        """Return the name of a column."""
        return str(self.get_feature_names_out()[j])

    def _warn(self, messages: dict[int, str]) -> None:
        """Warn of the first column with a message, and name the others."""
        columns = [j for j, message in messages.items() if message]
        if columns:
            names = ", ".join(repr(self._name(j)) for j in columns[1:])
            warn_caller(messages[columns[0]] + (f" The same holds for {names}." if names else ""))

    def _warn_of_unused_periods(self, columns: Sequence[int]) -> None:
        """Warn of each stated period without a season, once for all columns."""
        reasons: dict[str, list[str]] = {}
        periods = zip(listed("periods", self.periods), self._periods or (), strict=True)
        for (stated, period), j in product(periods, columns):
            if reason := self.estimators_[j].reason_unused(period):
                message = f"The period {format_value(stated)} is not used: {reason}, in "
                reasons.setdefault(message, []).append(repr(self._name(j)))
        for message, names in reasons.items():
            count = "" if len(names) == 1 else f"{len(names)} columns from "
            warn_caller(f"{message}{count or 'column '}{names[0]}.")

    def _warn_of_positions(self, rows: "_Rows", index: Any, columns: Sequence[int]) -> None:
        """Warn of positions that "auto" does not use, and of columns without an order of rows."""
        names = [*map(str, self.get_feature_names_out())]
        spans = [j for j, column in enumerate(self._times["X"]) if column.is_time]
        spans += [j for j, name in enumerate(names) if _is_name_of_positions(name)]
        sources = [(f"Column {names[j]!r}", [names[j]], rows.values[:, j]) for j in spans]
        for source, positions, values in [*sources, ("The index", "index", index)]:
            if _has_unequal_steps(values):
                message = f"{source} holds unequal steps, and `positions` "
                message += '"auto" uses dates only: rows are filled as at equal steps. Pass '
                warn_caller(f"{message}positions={positions!r}, or positions=None for equal steps.")
                return
        disordered = columns_without_order({j: self._samples[j] for j in columns})
        if disordered and not self._periods:  # a stated season is an order
            message = f"Rows have no order in column {names[disordered[0]]!r}"
            count = len(disordered) - 1
            message += f" and {plural(count, 'other column')}" if count else ""
            warn_caller(message + _NO_ORDER)

    def _checked_periods(self, columns: Sequence[frames.Column]) -> list[PeriodicKernel] | None:
        """Return the periods of positions of these kinds, None if an estimator fills gaps."""
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
        default = _CALENDAR_PERIODS if column.is_time else ()
        resolved = []
        for i, period in enumerate(default if is_auto else listed("periods", self.periods)):
            period_of(f"periods[{i}]", period, is_time=column.is_time)  # a check
            span = duration_of(period)
            is_calendar = isinstance(span, str) and span in MEAN_DAYS
            kernel = PeriodicKernel(period, 1.0, time_zone=zone if is_calendar else None)
            kernel._resolve(columns, [])
            resolved.append(kernel)
        return resolved

    def _read(self, X: frames.Table, *, reset: bool) -> "_Rows":
        """Return the numbers of a table, and the positions of its rows."""
        table = X
        if self._text_columns and frames.is_frame(X):
            indices = [j for j in self._text_columns if j < X.shape[1]]
            table = frames.replace_columns(X, {j: np.zeros(X.shape[0]) for j in indices})
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        with ignore_fp_errors():
            values = validate_data(self, self._times_to_days("X", table), reset=reset, **options)
        position_columns: list[int] = []
        columns = [frames.Column(is_time=False, zone=None)]
        resolved = self._resolve_positions(X, values.shape[1])
        if reset:
            self.positions_ = resolved
        elif resolved != self.positions_:
            requirement = f"have positions as in `fit`, {format_value(self.positions_)}"
            raise wrong_value("X", requirement, format_value(resolved))
        if resolved is None:
            positions = np.arange(values.shape[0], dtype=np.float64)[:, None]
        elif isinstance(resolved, str):
            positions = self._index(X)
            columns = self._times["X.index"] or columns
        else:
            position_columns = resolved
            positions = values[:, resolved].astype(np.float64)
            kinds = self._times["X"]
            columns = [kinds[j] for j in resolved] if kinds else columns * len(resolved)
        if np.isnan(positions).any():
            raise wrong_value("positions", "have no gaps", "NaN among them")
        for name, numbers in ("X", values), ("positions", positions):
            max_value = float(np.nanmax(abs(numbers), initial=0.0))
            if max_value > _MAX_VALUE:
                raise wrong_value(name, f"be within {_MAX_VALUE} of 0", f"{max_value:g} or beyond")
        frames.check_extents("positions", positions.T, 1 / _MAX_VALUE)
        return _Rows(values, positions, position_columns, columns)

    def _index(self, X: frames.Table) -> Array:
        """Return the index of a table as days or numbers, (rows, 1)."""
        if not hasattr(X, "iloc"):
            raise wrong_type("X", 'be a pandas table if `positions` is "index"', format_value(X))
        rows = self._times_to_days("X.index", X.index)
        if rows.iloc[:, 0].dtype.kind not in "biuf":
            raise wrong_type("X.index", "hold numbers or times", str(X.index.dtype))
        positions = check_array(rows, dtype=np.float64, input_name="X.index")
        frames.check_distinct("X.index", rows, positions)
        return positions

    def _times_to_days(self, name: str, table: frames.Table) -> frames.Table:
        """Convert times of a table to days; check that `fit` had times in the same columns."""
        table, times = frames.times_to_days(table, name)
        frames.check_times(name, times, self._times.setdefault(name, times))
        return table

    def _resolve_positions(self, X: frames.Table, n_columns: int) -> list[int] | str | None:
        """Return the columns of positions, "index", or None for equal steps."""
        positions = self.positions
        if positions is None:
            return None
        if isinstance(positions, str) and positions in ("auto", "index"):
            index: Any = getattr(X, "index", None)
            if getattr(index, "nlevels", 1) > 1:
                hint = " Make a column of each group by pivot, or name columns of positions."
                raise wrong_value("X.index", "have one level", f"{index.nlevels} levels", hint)
            has_dates = getattr(getattr(index, "dtype", None), "kind", None) == "M"
            if positions == "index" or has_dates:
                return "index"
            dates = [j for j, column in enumerate(self._times["X"]) if column.is_date]
            if len(dates) > 1:
                actual = ", ".join(map(self._name, dates))
                raise wrong_value("positions", "name one of several columns of dates", actual)
            texts = [(f"X[{self._name(j)!r}]", frames.get_column(X, j)) for j in self._text_columns]
            texts += [] if index is None else [("X.index", index)]
            for label, column in () if dates else texts:
                if hint := frames.conversion_hint(column):
                    hint += " Or pass positions=None, if rows are at equal steps."
                    raise wrong_type(label, "hold dates", frames.column_kind(column), hint)
            return dates or None
        if not isinstance(positions, list | tuple) or not positions:
            requirement = 'be "auto", "index", a list of columns or None'
            raise wrong_value("positions", requirement, format_value(positions))
        names = list(getattr(self, "feature_names_in_", ()))
        indices = frames.column_indices("positions", positions, names, n_columns)
        for i, j in enumerate(indices):
            if j in self._text_columns:
                requirement, actual = "be a column of numbers or times", "one of text or booleans"
                hint = frames.conversion_hint(frames.get_column(X, j))
                raise wrong_value(f"positions[{i}]", requirement, actual, hint)
        return indices


def _message_of_phases(name: str, filler: SeriesFiller, positions: HostArray) -> str:
    """Return a warning of gaps at unsampled phases, or ""."""
    for period in filler.unsampled_periods(positions)[:1]:
        message = f"{name} has gaps at phases of the {period.period} that were never "
        message += "measured. Straight lines fill them; leave this period out of `periods` if "
        return f"{message}its phases are alike."
    return ""


def _message_of_extrapolation(
    name: str, filler: SeriesFiller, positions: HostArray, unit: str
) -> str:
    """Return a warning of gaps far before or after the record, or ""."""
    limit = filler.max_extrapolation
    if count := np.count_nonzero(filler.extrapolation(positions) > limit):
        message = f"{name} has {plural(count, 'gap')} farther than {limit:g}{unit} "
        message += "before or after its record, a tenth of it: predictions may be wrong there, "
        return f"{message}and bands far too narrow."
    return ""


def _restore(X: Any, table: frames.Table, numbers: HostArray, columns: Iterable[int]) -> Any:
    """Convert numbers to the type of X: an array, or a copy of a table or series."""
    if not frames.is_frame(table):
        return numbers
    table = frames.replace_columns(table, {j: numbers[:, j] for j in columns})
    return table if table.shape == X.shape else frames.get_column(table, 0).rename(X.name)


def _has_unequal_steps(values: Any) -> bool:
    """Return whether an index or column of numbers or spans rises or falls by different steps."""
    if values is None or getattr(values.dtype, "kind", "O") not in "iufm" or len(values) < 3:
        return False
    steps = np.diff(np.asarray(values).astype(np.float64))
    is_sorted = (steps > 0).all() or (steps < 0).all()
    return bool(is_sorted and np.ptp(steps) > _MAX_STEP_DIFFERENCE * abs(np.median(steps)))


def _is_name_of_positions(name: str) -> bool:
    """Return whether a word of a name is that of a coordinate, such as time_s and Depth (m)."""
    return not _POSITION_WORDS.isdisjoint(re.findall("[a-z]+", name.lower()))


def _reads_dates(estimator: Any) -> bool:
    """Return whether an estimator has a part of this library, or one that selects columns."""
    parts = [estimator, *estimator.get_params().values()]
    packages = {type(part).__module__.split(".")[0] for part in parts}
    selects_columns = any(
        isinstance(part, ColumnTransformer | FunctionTransformer) for part in parts
    )
    return __package__.split(".")[0] in packages or selects_columns


def _is_one_night(days: HostArray) -> bool:
    """Return whether times, in days, are all within a few hours of one night of a year."""
    nights = np.floor(days)
    hours, years = days - nights, np.diff(np.unique(nights))
    is_night = (hours < _NIGHT_DAYS).all() and (hours > 0).any()  # not dates without hours
    return bool(is_night and (years > _YEAR_DAYS).all())


def _text_columns(table: frames.Table) -> list[int]:
    """Return the indices of columns of text or booleans."""
    if not frames.is_frame(table) or len(table.shape) != 2:
        return []
    columns = enumerate(frames.get_column(table, j) for j in range(table.shape[1]))
    return [j for j, c in columns if any(isinstance(v, str | bool | np.bool_) for v in c)]


def _samples(rows: _Rows, j: int) -> Array:
    """Return the positions and measurements of a column, (samples, coordinates + 1)."""
    samples = np.column_stack([rows.positions, rows.values[:, j]])
    return samples[~np.isnan(samples[:, -1]), :]


def _merge(samples: HostArray, fitted: HostArray) -> Array:
    """Add the samples of `fit` at other positions; return only these if they include all."""
    if np.array_equal(samples, fitted) or set(map(tuple, samples)) <= set(map(tuple, fitted)):
        return fitted
    positions = set(map(tuple, samples[:, :-1]))
    is_other = [tuple(position) not in positions for position in fitted[:, :-1]]
    return np.concatenate([samples, fitted[is_other, :]])
