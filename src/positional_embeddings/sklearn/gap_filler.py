"""Fill the gaps of columns from what was measured around them."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from itertools import product
from math import ceil, e, log, nan, pi
from typing import Any

from scipy.optimize import nnls
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import HostArray, np
from positional_embeddings.arrays.quiet import as_caller
from positional_embeddings.sklearn import frames
from positional_embeddings.sklearn.regressor import AttentionRegressor

# For gaps of each octave of lengths, this many windows or samples are hidden, whichever is more,
# and at once at most this fraction of all samples.
_WINDOWS, _HIDDEN, _AT_ONCE = 24, 240, 0.2

# Widths of smoothers of what a season leaves over, in lengths of the gap.
_WIDTHS = (0.1, 0.5, 2.0)

# Days of the periods that a season may have; harmonics, periods and cycles that one has, and
# samples for each harmonic: waves with as many parameters as samples would fit any.
_CALENDAR = (1.0, 7.0, 365.2425)
_HARMONICS, _PERIODS, _CYCLES, _SAMPLES_OF_HARMONIC = 3, 3, 3, 6

# Straight lines of the trend that is fitted with a season, and samples of each at least.
_LINES, _SAMPLES_OF_LINE = 10, 20

_OVERSAMPLING = 16  # of a periodogram
_ROUNDED = 1e-9  # part of a length that is due to rounding


class KnownGaps:
    """A column along one coordinate, its gaps filled as hidden ones were filled best."""

    def __init__(self, places: HostArray, y: HostArray, wanted: HostArray, *, days: bool) -> None:
        self._x, at, counts = np.unique(places[:, 0], return_inverse=True, return_counts=True)
        # A level apart, so that no season is lost in its rounding, and numbers with normal squares.
        self._level = y.mean()
        self._unit = abs(y - self._level).max() or 1.0
        self._y = np.bincount(at, (y - self._level) / self._unit) / counts
        self._season = _find_season(self._x, self._y, _CALENDAR if days else ())
        found = self._find_gaps(wanted[:, 0])
        self._learned = {octave: self._learn(length) for octave, length, _ in found}

    def predict(self, places: HostArray, *, return_std: bool = False) -> Any:
        """Return the mean, and the standard deviation of a measurement if asked for."""
        x, (mean, std) = places[:, 0], np.full((2, places.shape[0]), nan)
        for octave, length, at in self._find_gaps(x):
            weights, variances = self._learned.get(octave) or self._learn(length)
            mean[at] = weights @ self._candidates(length, x[at])[: weights.size]
            std[at] = np.sqrt(_inside(self._x, x[at]) @ variances)
        outside = np.isnan(mean)
        if outside.any():
            season, _ = _fit_season(self._season, self._x, self._y)
            model = AttentionRegressor().fit(self._x[:, None], self._y - season(self._x))
            mean[outside], std[outside] = model.predict(x[outside, None], return_std=True)
            mean[outside] += season(x[outside])
        mean = self._level + self._unit * mean
        return (mean, self._unit * std) if return_std else mean

    def _find_gaps(self, x: HostArray) -> Iterator[tuple[int, float, HostArray]]:
        """Return octaves of lengths of gaps, their median, and which places are in them."""
        between = np.flatnonzero((x >= self._x[0]) & (x < self._x[-1]))
        right = np.searchsorted(self._x, x[between], side="right")
        lengths = np.minimum(self._x[right] - self._x[right - 1], (self._x[-1] - self._x[0]) / 2)
        octaves = np.round(np.log2(lengths)).astype(int)
        for octave in np.unique(octaves):
            at = octaves == octave
            yield int(octave), float(np.median(lengths[at])), between[at]

    def _candidates(self, length: float, at: HostArray, hidden: Any = None) -> Any:
        """Return what each candidate says in gaps, or at hidden samples, (candidates, places)."""
        seen = slice(None) if hidden is None else ~hidden
        x, y = self._x[seen], self._y[seen]
        season, _ = _fit_season(self._season, x, y)
        rest = self._y - season(self._x)
        found = [season(at) + np.interp(at, x, rest[seen])]
        for width in _WIDTHS:
            model, places = AttentionRegressor(length_scale=width * length), self._x[:, None]
            if hidden is None:
                smooth = model.fit(places, rest).predict(at[:, None])
            else:  # each window by itself
                goes_on = hidden & np.roll(hidden, 1)
                first = np.where(goes_on, 0, np.arange(hidden.size))
                model.fit(places, rest, groups=np.maximum.accumulate(first))
                smooth = model.predict_left_out()[hidden]
            found.append(season(at) + smooth)
        return np.stack([np.interp(at, x, y), season(at), *found])

    def _learn(self, length: float) -> tuple[HostArray, HostArray]:
        """Return weights of candidates, and variances at edges and inside, by hidden windows."""
        windows = _hide_windows(self._x, length)
        if not windows:
            return np.ones(1), np.full(2, nan)
        found = [self._candidates(length, self._x[h], h) - self._y[h] for h in windows]
        errors = np.concatenate(found, axis=1).T
        count = sum(int((h & ~np.roll(h, 1)).sum()) for h in windows)
        weights = _convex(errors, count)
        inside = np.concatenate([_inside(self._x[~h], self._x[h]) for h in windows])
        freedom = max(count - int(np.count_nonzero(weights)), 1)
        return weights, nnls(inside, count / freedom * (errors @ weights) ** 2)[0]


def _convex(errors: HostArray, windows: int) -> Any:
    """Return the weights of candidates, not negative and of sum 1, of the least squared error.

    Few windows show little: the squared weights of all but the first candidate cost its mean
    squared error in a window. Weights of sum s cost s**2 times as much as weights of sum 1.
    """
    cost = np.linalg.norm(errors[:, 0]) / windows**0.5
    rows = np.concatenate([errors, cost * np.eye(errors.shape[1])[1:]])
    rows = np.concatenate([rows / (np.linalg.norm(rows) or 1.0), np.ones((1, errors.shape[1]))])
    weights = nnls(rows, np.eye(rows.shape[0])[-1])[0]
    return weights / weights.sum()


def _inside(x: HostArray, at: HostArray) -> Any:
    """Return 1, and how far inside gaps places are, as the variance of a random walk grows."""
    right = np.searchsorted(x, at, side="right")
    part = (at - x[right - 1]) / (x[right] - x[right - 1])
    return np.stack([np.ones_like(at), part * (1 - part)], axis=1)


def _hide_windows(x: HostArray, length: float) -> list[HostArray]:
    """Return which samples are hidden, in windows as long as a gap, some windows at once."""
    if x.size < 3:
        return []
    starts = np.arange(1, x.size - 1)
    stops = np.searchsorted(x, x[starts - 1] + length * (1 - _ROUNDED))
    stops = np.clip(stops, starts + 1, x.size - 1)
    true = x[stops] - x[starts - 1]
    long = true >= length * (1 - _ROUNDED)
    fits = np.flatnonzero(long & (true <= 1.5 * true[long].min()))
    samples = np.mean(stops[fits] - starts[fits])
    count = min(fits.size, max(_WINDOWS, ceil(_HIDDEN / samples)))
    drawn = np.sort(np.random.default_rng(0).choice(fits, count, replace=False))
    rounds = min(count, ceil(count * samples / (_AT_ONCE * x.size)))
    windows = []
    for first in range(rounds):
        hidden, last = np.zeros(x.size, dtype=bool), 0
        for i in drawn[first::rounds]:
            if starts[i] > last:  # its left neighbour is seen
                hidden[starts[i] : stops[i]], last = True, stops[i]
        windows.append(hidden)
    return windows


def _fit_season(season: Sequence[float], x: HostArray, y: HostArray) -> tuple[Any, HostArray]:
    """Return a season, and the straight line through the rest, as a function; and what is left.

    The season is fitted together with straight lines that meet; what is left is without both.
    """
    origin, span = x[0], (x[-1] - x[0]) or 1.0

    def waves(at: HostArray) -> Any:
        return np.exp(2j * pi * np.outer(at - origin, season)).view(np.float64)

    knots = np.linspace(0, 1, max(1, min(_LINES, x.size // _SAMPLES_OF_LINE)), endpoint=False)
    lines = np.maximum((x[:, None] - origin) / span - knots, 0.0)
    design = np.concatenate([waves(x), np.ones((x.size, 1)), lines], axis=1)
    found = np.linalg.lstsq(design, y)[0]
    sizes = found[: 2 * len(season)]
    line = np.polynomial.Polynomial.fit(x, y - waves(x) @ sizes, int(x.size > 2))
    return lambda at: waves(at) @ sizes + line(at), y - design @ found


def _gain(before: HostArray, after: HostArray, parameters: int, least: float) -> float:
    """Return by how much waves that leave less over lower the Bayesian information criterion.

    Correlated samples count as fewer independent ones, by what is left at neighbours.
    """
    power = float(after @ after) + least
    r = max(float(after[1:] @ after[:-1]) / power, 0.0)
    n = after.size * (1 - r) / (1 + r)
    return n * log((float(before @ before) + least) / power) - parameters * log(max(n, e))


def _find_season(x: HostArray, y: HostArray, calendar: Sequence[float]) -> list[float]:
    """Return the frequencies of a season, harmonics and all, that have the least BIC."""
    season: list[float] = []
    if x.size < _SAMPLES_OF_HARMONIC:
        return season
    span = float(x[-1] - x[0])
    step = max(float(np.median(np.diff(x))), span / (4 * x.size))
    lowest, highest = _CYCLES / span, 0.5 / step
    left, least = _fit_season(season, x, y)[1], _ROUNDED**2 * float(y @ y)
    for _ in range(_PERIODS):
        grid = np.bincount(np.round((x - x[0]) / step).astype(int), left)
        frequencies = np.fft.rfftfreq(_OVERSAMPLING * grid.size, step)
        power = np.abs(np.fft.rfft(grid, _OVERSAMPLING * grid.size)) * (frequencies >= lowest)
        peak = float(frequencies[power.argmax()])
        # The frequency of a peak is found, too, which counts as three (Djuric 1996).
        bases = [(peak, 3), *((1 / period, 0) for period in calendar)]
        best = 0.0
        for (base, found), n in product(bases, range(1, _HARMONICS + 1)):
            trial = [*season, *(base * k for k in range(1, n + 1))]
            is_known = x.size >= _SAMPLES_OF_HARMONIC * len(trial)
            if is_known and lowest <= base and base * n < highest:
                after = _fit_season(trial, x, y)[1]
                gain = _gain(left, after, found + 2 * n, least or 1.0)
                if gain > best:
                    best, chosen, over = gain, trial, after
        if not best:
            break
        season, left = chosen, over
    return season


@dataclass(repr=False, eq=False)
class GapFiller(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill missing values of columns by a regression on where the rows are.

    Without an estimator, and with one coordinate, gaps of each length are filled in the way that
    fills hidden windows of that length best.

    Parameters
    ----------
    estimator : regressor, optional
        Copied for each column with gaps. If None, gaps are filled as hidden gaps of the same length
        are filled best (see Notes); with positions of several columns, by an `AttentionRegressor`.
    positions : sequence of int or str, or "index", optional
        Columns that say where the rows are, such as times or places; they have no gaps, and are
        returned. "index" is the index of a pandas table or series, of one level. If None, rows
        follow one another at equal steps, whatever the index: row i of any table is at i.

    Attributes
    ----------
    estimators_ : list of regressor or None
        What fills each column; None for columns of positions, text and booleans.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `transform`, if `positions` are not columns of the table, or hold gaps; in
        `fit`, if nothing at all was measured in a column.

    See Also
    --------
    AttentionRegressor : The smoother, which fills gaps in several coordinates.

    Notes
    -----
    For gaps of each octave of lengths, windows of that length are hidden, at least 24 windows and
    240 samples, and candidates predict them: the straight line between the samples around a window;
    a season; a season, and the straight line of what it leaves over; a season, and an
    `AttentionRegressor` of that, 0.1, 0.5 and 2 lengths wide. Their weights are not negative, add
    up to 1, and have the least squared error in the windows. Gaps longer than half of the record
    are filled as gaps of half its length. Before the first sample and after the last one, a season
    and an `AttentionRegressor` of default options predict.

    A season is a straight trend and up to three harmonics each of up to three periods: parts of the
    calendar (day, week, year) where positions are times, or peaks of the periodogram. A period
    has three cycles or more in the record, six samples or more for each harmonic, and lowers the
    Bayesian information criterion of as many samples as the correlation of neighbours leaves
    independent.

    References
    ----------
    Breiman (1996), Stacked regressions; Djuric (1996), A model selection rule for sinusoids in
    white Gaussian noise.

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
    positions: Sequence[int] | Sequence[str] | str | None = None

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
            raise wrong_type("estimator", "be a regressor", shown(estimator))
        self._times: dict[str, list[frames.Column]] = {}
        table = frames.as_table(X)
        self._texts = _columns_of_text(table)
        values, places, at = self._read(table, reset=True)
        days = any(column.is_time for columns in self._times.values() for column in columns)
        self.estimators_: list[Any] = [None] * values.shape[1]
        for j in set(range(values.shape[1])).difference(at, self._texts):
            seen = ~np.isnan(values[:, j])
            if not seen.any():
                came = f"none in {self.get_feature_names_out()[j]}"
                raise wrong_value("X", "have a measurement in each column", came)
            known = places[seen, :], values[seen, j]
            if estimator is None and places.shape[1] == 1:
                self.estimators_[j] = KnownGaps(*known, places[~seen, :], days=days)
            else:
                own = AttentionRegressor() if estimator is None else clone(estimator)
                self.estimators_[j] = as_caller(own.fit, *known)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with its gaps filled.

        Parameters
        ----------
        X : table or series, shape (rows, columns)
            As in `fit`; rows may be elsewhere.

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
            filled[gap, j] = as_caller(estimator.predict, places)
        if not frames.is_frame(table):
            return filled
        table = frames.with_columns(table, {j: filled[:, j] for j in gaps})
        return table if table.shape == X.shape else frames.column_of(table, 0).rename(X.name)

    def transform_std(self, X: Any) -> HostArray:
        """Return the standard deviations of a measurement around what `transform` fills in.

        Parameters
        ----------
        X : table or series, shape (rows, columns)
            As in `transform`.

        Returns
        -------
        array, shape (rows, columns)
            The standard deviation where nothing was measured, and 0 elsewhere. In known gaps it is
            found in the hidden windows, and NaN if there are too few samples to hide any; else it
            is what the estimator predicts with ``return_std=True``.

        Raises
        ------
        TypeError
            If the estimator does not predict standard deviations.
        """
        values, gaps = self._gaps(frames.as_table(X))
        std: HostArray = np.zeros_like(values)
        for j, (estimator, gap, places) in gaps.items():
            if "return_std" not in signature(estimator.predict).parameters:
                what = "predict standard deviations, as by predict(X, return_std=True)"
                raise wrong_type("estimator", what, shown(self.estimator))
            std[gap, j] = as_caller(estimator.predict, places, return_std=True)[1]
        return std

    def _gaps(self, X: Any) -> tuple[HostArray, dict[int, Any]]:
        """Return a table as numbers; and what fills each column with gaps, and where they are."""
        check_is_fitted(self)
        values, places, _ = self._read(X, reset=False)
        gaps = enumerate(zip(self.estimators_, np.isnan(values).T, strict=True))
        found = {j: (e, at, places[at, :]) for j, (e, at) in gaps if e is not None and at.any()}
        return np.array(values), found

    def _read(self, X: Any, *, reset: bool) -> tuple[HostArray, HostArray, list[int]]:
        """Return a table as numbers, where its rows are, and the columns of positions."""
        table = X
        if self._texts and frames.is_frame(X):
            texts = [j for j in self._texts if j < X.shape[1]]
            table = frames.with_columns(X, {j: np.zeros(X.shape[0]) for j in texts})
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        values = validate_data(self, self._with_days("X", table), reset=reset, **options)
        at: list[int] = []
        if self.positions is None:
            index: Any = getattr(X, "index", None)
            is_time = getattr(getattr(index, "dtype", None), "kind", None) == "M"
            if is_time and not index.is_monotonic_increasing:
                what = 'be "index" for a table whose times are out of order'
                raise wrong_value("positions", what, "None")
            places = np.arange(values.shape[0], dtype=np.float64)[:, None]
        elif isinstance(self.positions, str) and self.positions == "index":
            places = self._index(X)
        else:
            at = self._positions_at(values.shape[1])
            places = values[:, at].astype(np.float64)
        if np.isnan(places).any():
            raise wrong_value("positions", "have no gaps", "NaN among them")
        return values, places, at

    def _index(self, X: Any) -> Any:
        """Return the index of a table as days or numbers, (rows, 1)."""
        if not hasattr(X, "iloc"):
            raise wrong_type("X", 'be a pandas table if `positions` is "index"', shown(X))
        if X.index.nlevels > 1:
            hint = " Fill each group on its own, or name the columns of positions."
            raise wrong_value("X.index", "have one level", f"{X.index.nlevels} levels", hint)
        rows = self._with_days("X.index", X.index)
        if rows.iloc[:, 0].dtype.kind not in "biuf":
            raise wrong_type("X.index", "hold numbers or times", str(X.index.dtype))
        return check_array(rows, dtype=np.float64, input_name="X.index")

    def _with_days(self, name: str, table: Any) -> Any:
        """Return a table with times as days, where `fit` saw times, too."""
        table, times = frames.with_days(table, name)
        frames.check_times(name, times, self._times.setdefault(name, times))
        return table

    def _positions_at(self, n_columns: int) -> list[int]:
        """Return the columns of positions as numbers."""
        if not isinstance(self.positions, list | tuple) or not self.positions:
            what = 'be a list of columns, "index" or None'
            raise wrong_value("positions", what, shown(self.positions))
        names = list(getattr(self, "feature_names_in_", ()))
        found = frames.indices_of("positions", self.positions, names, n_columns)
        for i, column in enumerate(found):
            if column in self._texts:
                what = "be a column of numbers or times"
                raise wrong_value(f"positions[{i}]", what, "one of text or booleans")
        return found


def _columns_of_text(table: Any) -> list[int]:
    """Return the columns of a table that hold text or booleans."""
    if not frames.is_frame(table) or len(table.shape) != 2:
        return []
    columns = enumerate(frames.column_of(table, j) for j in range(table.shape[1]))
    return [j for j, c in columns if any(isinstance(v, str | bool | np.bool_) for v in c)]
