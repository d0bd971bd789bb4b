"""Gaps of a column along one coordinate, filled by stacked regressions."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, nan
from typing import NamedTuple, TypeAlias

from scipy.optimize import nnls

from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import PeriodicKernel
from positional_embeddings.sklearn.seasons import WIDTHS, Cells, fit_seasons
from positional_embeddings.times.named import count_harmonics, have_common_step

# For each octave of lengths, the number of hidden windows or of hidden samples, whichever is more;
# the largest part of all samples in a split; and the number of ends of the record.
_NUM_WINDOWS, _NUM_HIDDEN, _MAX_HIDDEN_PART, _NUM_ENDS = 64, 640, 0.2, 16

# The largest extrapolation without a warning, as a part of the record.
_MAX_EXTRAPOLATION = 0.1

# The smallest number of cycles of a period, and of steps in a period; the number of samples of a
# mean on either side of a gap.
_MIN_CYCLES, _MIN_STEPS, _NEIGHBOURS = 2.5, 2.5, 8

# The number of harmonics, of which irregular samples have to resolve one.
_NUM_HARMONICS = 3

_ROUNDING = 1e-9  # relative rounding error of a length

# Whether each sample is visible, and the indices of the hidden samples to predict.
Splits: TypeAlias = Iterator[tuple[HostArray, HostArray]]


class Mixture(NamedTuple):
    """Weights of the candidates that fill gaps of a length, and their variances."""

    length: float
    weights: HostArray  # (candidates,)
    variances: HostArray  # (powers, 2): of the mixture; and of straight lines in the worst phase


class SeriesFiller:
    """Fill gaps of a column along one coordinate with the best predictors of hidden gaps."""

    def __init__(
        self, x: HostArray, y: HostArray, queries: HostArray, periods: Sequence[PeriodicKernel]
    ) -> None:
        self._x, indices, counts = np.unique(x[:, 0], return_inverse=True, return_counts=True)
        # Subtracting the level reduces rounding, and squares of scaled numbers are finite.
        self._level = y.mean()
        self._scale = abs(y - self._level).max() or 1.0
        self._y = np.bincount(indices, (y - self._level) / self._scale) / counts
        n, span = self._x.size, self._x[-1] - self._x[0]
        self._median_step = np.median(np.diff(self._x)) if n > 2 else span
        self._step = max(self._median_step, span / (4 * n))  # of the cells
        self._is_regular = n < 3 or have_common_step(np.diff(self._x))
        self.max_extrapolation = max(_MAX_EXTRAPOLATION * span, self._median_step)
        self._max_period = span / _MIN_CYCLES
        self.periods = [p for p in periods if not self._reason_unresolved(p)]
        visible = np.full(n, fill_value=True)
        cells = self._cells(self._x)
        # For each width, the periods with a season after the previous seasons are removed.
        self._selected: list[list[int]] = [[] for _ in WIDTHS]
        pairs = product(zip(self._selected, WIDTHS, strict=True), range(len(cells)))
        for (selected, width), i in pairs:
            if fit_seasons([cells[j] for j in [*selected, i]], visible, self._y, width)[1]:
                selected.append(i)
        self._mixtures = {k: self._fit(cells, k[0], n) for k, n, _ in self._gaps(queries)}

    def predict(self, x: HostArray, *, return_std: bool = False) -> Array:
        """Return the mean, and the standard deviation of a measurement if requested."""
        mean, std = np.full((2, x.shape[0]), nan)
        grid = np.union1d(self._x, x[:, 0])
        rows, y = np.searchsorted(grid, x[:, 0]), np.zeros_like(grid)
        visible = np.isin(grid, self._x)
        y[visible] = self._y
        cells = self._cells(grid)
        values = self._candidates(cells, grid, y, visible)[:, rows]
        is_unsampled = np.any([np.zeros(rows.size), *(c.is_unsampled[rows] for c in cells)], axis=0)
        for key, length, gap in self._gaps(x):
            mixture = self._mixtures.get(key) or self._fit(self._cells(self._x), key[0], length)
            # No hidden window represents an unsampled phase: straight lines fill it.
            mixed = mixture.weights @ values[:, gap]
            mean[gap] = np.where(is_unsampled[gap], values[0, gap], mixed)
            variances = _variance_terms(self._x, x[gap, 0], mixture.length) @ mixture.variances
            std[gap] = np.sqrt(np.where(is_unsampled[gap], variances[:, 1], variances[:, 0]))
        mean = self._level + self._scale * mean
        return (mean, self._scale * std) if return_std else mean

    def unsampled_periods(self, x: HostArray) -> list[PeriodicKernel]:
        """Return the periods with an unsampled phase among the positions."""
        cells = self._cells(np.union1d(self._x, x[:, 0]))
        return [layout.period for layout in cells if layout.is_unsampled.any()]

    def extrapolation(self, x: HostArray) -> Array:
        """Return the distance of positions from the record, 0 inside."""
        return _extrapolation(self._x, x[:, 0]) * (1 - _ROUNDING)

    def reason_unused(self, period: PeriodicKernel) -> str:
        """Return why no candidate has a season of a period, "" if one does."""
        if reason := self._reason_unresolved(period):
            return reason
        is_selected = any(self.periods.index(period) in selected for selected in self._selected)
        return "" if is_selected else "it has no season"

    def _reason_unresolved(self, period: PeriodicKernel) -> str:
        """Return why the record does not resolve a period, "" if it does."""
        if period._mean_length() > self._max_period:
            return f"the record has fewer than {_MIN_CYCLES} cycles"
        return "" if self._resolves(period) else "the positions do not resolve its phases"

    def _resolves(self, period: PeriodicKernel) -> bool:
        """Return whether the phases of the samples resolve a period."""
        if self._is_regular:
            return bool(period._mean_length() >= _MIN_STEPS * self._step)
        phases = period._cycles(self._x) % 1
        return count_harmonics(self._x, phases, period._mean_length(), _NUM_HARMONICS) > 0

    def _cells(self, x: HostArray) -> list[Cells]:
        visible, step = np.isin(x, self._x), self._step if self._is_regular else None
        return [Cells(period, x, visible, step) for period in self.periods]

    def _gaps(self, x: HostArray) -> Iterator[tuple[tuple[int, int], float, HostArray]]:
        """Yield side and octave, median length, and indices of positions in similar gaps.

        The side is -1 before the record, 0 inside and 1 after it.
        """
        before, after = _distances(self._x, x[:, 0])
        is_inside, half = np.isfinite(before + after), (self._x[-1] - self._x[0]) / 2
        lengths = np.where(is_inside, before + after, np.minimum(before, after))
        sides = np.where(is_inside, 0, np.where(before < after, 1, -1))
        for side in (-1, 1):  # the largest distance from the record
            lengths[sides == side] = lengths[sides == side].max(initial=0.0)
        lengths = np.clip(lengths, self._median_step / 2 or 1.0, half or 1.0)
        octaves = np.round(np.log2(lengths)).astype(int)
        for side, octave in np.unique([sides, octaves], axis=1).T.tolist():
            indices = np.flatnonzero((sides == side) & (octaves == octave))
            yield (side, octave), float(np.median(lengths[indices])), indices

    def _candidates(
        self, cells: list[Cells], x: HostArray, y: HostArray, visible: HostArray
    ) -> Array:
        """Return the prediction of each candidate at all positions, the straight line first."""
        seasons = [np.zeros((1, x.size))]
        for selected, width in zip(self._selected, WIDTHS, strict=True):
            if selected:
                parts, _ = fit_seasons([cells[i] for i in selected], visible, y, width)
                seasons.append(parts.cumsum(axis=0))
        pairs = product(np.concatenate(seasons), _BRIDGES)
        values = [season + bridge(x[visible], (y - season)[visible], x) for season, bridge in pairs]
        return np.stack(values)

    def _fit(self, cells: list[Cells], side: int, length: float) -> Mixture:
        """Fit a mixture to hidden windows of a length, or to hidden ends of the record."""
        x, y = self._x, self._y
        splits = list(_hide_ends(x, length, side) if side else _hide_windows(x, length))
        if not splits:
            num_candidates = len(_BRIDGES) * (1 + sum(map(len, self._selected)))
            return Mixture(length, np.eye(num_candidates)[0], np.full((2, 2), nan))
        indices = np.concatenate([hidden for _, hidden in splits])
        values = [self._candidates(cells, x, y, visible)[:, hidden] for visible, hidden in splits]
        errors = (np.concatenate(values, axis=1) - y[indices]).T
        terms = [_variance_terms(x[visible], x[hidden], length) for visible, hidden in splits]
        terms = np.concatenate(terms)
        windows = sum(1 + np.count_nonzero(abs(np.diff(hidden)) > 1) for _, hidden in splits)
        weights = _stacking_weights(errors, windows)
        freedom = max(windows - np.count_nonzero(weights), 1)  # degrees of freedom
        squares = np.stack([windows / freedom * (errors @ weights) ** 2, errors[:, 0] ** 2])
        variances = np.stack([nnls(terms, square)[0] for square in squares], axis=1)
        # An unsampled phase has the mean squared error of the worst phase.
        mean = worst = squares[1].mean() or 1.0
        for layout in cells:
            phase = layout.cell[indices] % layout.phases
            means = np.bincount(phase, squares[1]) / np.maximum(np.bincount(phase), 1)
            worst = max(worst, means.max())
        return Mixture(length, weights, variances * np.array([1.0, worst / mean]))


# Bridges over gaps.


def _interpolate(x: HostArray, y: HostArray, queries: HostArray) -> Array:
    return np.interp(queries, x, y)


def _interpolate_means(x: HostArray, y: HostArray, queries: HostArray) -> Array:
    """Return the line through the means of some samples on either side; outside, their mean."""
    x, queries = x - x[0], queries - x[0]  # limits the rounding of sums
    sums = np.concatenate([np.zeros((2, 1)), np.stack([x, y]).cumsum(axis=1)], axis=1)
    right = np.searchsorted(x, queries, side="right")
    first, last = np.maximum(right - _NEIGHBOURS, 0), np.minimum(right + _NEIGHBOURS, x.size)
    (x0, y0), (x1, y1) = (
        (sums[:, stop] - sums[:, start]) / np.maximum(stop - start, 1)
        for start, stop in ((first, right), (right, last))
    )
    is_inside = (right > 0) & (right < x.size)
    part = (queries - x0) / np.where(is_inside, x1 - x0, 1.0)
    return y0 + np.where(is_inside, part, right == 0) * (y1 - y0)


_BRIDGES = (_interpolate, _interpolate_means)


# Hidden windows and ends, and the weights and variances that they give.


def _distances(x: HostArray, queries: HostArray) -> tuple[HostArray, HostArray]:
    """Return the distances from the previous and the next sample, inf where there is none."""
    right = np.searchsorted(x, queries, side="right")
    padded = np.concatenate([[-np.inf], x, [np.inf]])
    return queries - padded[right], padded[right + 1] - queries


def _variance_terms(x: HostArray, queries: HostArray, length: float) -> Array:
    """Return the terms of a variance: 1, and the distance from the record in lengths."""
    return np.stack([np.ones_like(queries), _extrapolation(x, queries) / length], axis=1)


def _extrapolation(x: HostArray, queries: HostArray) -> Array:
    """Return the distance before the first sample or after the last one, 0 between them."""
    return np.maximum(np.maximum(x[0] - queries, queries - x[-1]), 0.0)


def _hide_windows(x: HostArray, length: float) -> Splits:
    """Yield splits that hide random windows of a length, several in each split."""
    if x.size < 3:
        return
    starts = np.arange(1, x.size - 1)
    stops = np.searchsorted(x, x[starts - 1] + length * (1 - _ROUNDING))
    stops = np.clip(stops, starts + 1, x.size - 1)
    lengths = x[stops] - x[starts - 1]
    is_long = lengths >= length * (1 - _ROUNDING)
    windows = np.flatnonzero(is_long & (lengths <= 1.5 * lengths[is_long].min()))
    mean_size = np.mean(stops[windows] - starts[windows])
    count = min(windows.size, max(_NUM_WINDOWS, ceil(_NUM_HIDDEN / mean_size)))
    subset = np.sort(np.random.default_rng(0).choice(windows, count, replace=False))
    num_splits = min(count, ceil(count * mean_size / (_MAX_HIDDEN_PART * x.size)))
    for first in range(num_splits):
        visible, last = np.full(x.size, fill_value=True), 0
        for i in subset[first::num_splits]:
            if starts[i] > last:  # a visible sample separates windows
                visible[starts[i] : stops[i]], last = False, stops[i]
        yield visible, np.flatnonzero(~visible)


def _hide_ends(x: HostArray, length: float, side: int) -> Splits:
    """Yield splits that hide an end of the record, and predict its samples within a length."""
    if side < 0:
        splits = _hide_ends(-x[::-1], length, 1)
        yield from ((visible[::-1], x.size - 1 - hidden) for visible, hidden in splits)
        return
    indices = np.arange(x.size)
    stops = np.searchsorted(x, x + length * (1 + _ROUNDING), side="right")
    is_inside = x + length * (1 - _ROUNDING) <= x[-1]
    ends = indices[(indices >= x.size // 3) & is_inside & (stops > indices + 1)]
    for end in ends[:: max(1, ends.size // _NUM_ENDS)].tolist():
        yield indices <= end, np.arange(end + 1, stops[end])


def _stacking_weights(errors: HostArray, windows: int) -> Array:
    """Return nonnegative weights of the candidates, of sum 1, with the least squared error.

    A penalty favours the first candidate if windows are few: the squared weights of the other
    candidates times the mean squared error of the best candidate in a window. The error is
    quadratic in the weights, so that scaling their sum to 1 leaves them optimal.
    """
    norms = np.linalg.norm(errors, axis=0)
    rows = np.concatenate([errors, norms.min() / windows**0.5 * np.eye(norms.size)[1:]])
    rows = np.concatenate([rows / (np.linalg.norm(rows) or 1.0), np.ones((1, norms.size))])
    weights = nnls(rows, np.eye(rows.shape[0])[-1])[0]
    return weights / weights.sum()
