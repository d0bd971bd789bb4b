"""Gaps of a column along one coordinate, filled in the way that fills hidden gaps best."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, nan
from typing import NamedTuple, TypeAlias

from scipy.optimize import nnls

from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import PeriodicKernel
from positional_embeddings.sklearn.seasons import WIDTHS, Cells, fit_seasons
from positional_embeddings.times.named import count_harmonics, have_common_step

# For gaps of each octave of lengths, this many windows or samples are hidden, whichever is more,
# and at once at most this fraction of all samples; outside, this many ends of the record.
_WINDOWS, _HIDDEN, _AT_ONCE, _ENDS = 64, 640, 0.2, 16

# Beyond the record by more than this part of it nothing is promised.
_FARTHEST_PART = 0.1

# Cycles of a period, and steps in it, at least; samples of a mean on either side of a gap.
_CYCLES, _STEPS, _BESIDE = 2.5, 2.5, 8

# Harmonics whose phases are looked for at irregular times.
_HARMONICS = 3

_ROUNDED = 1e-9  # part of a length that is due to rounding

# Which samples are seen, and indices of those that are predicted from them.
Splits: TypeAlias = Iterator[tuple[HostArray, HostArray]]


class Mixture(NamedTuple):
    """How gaps of a length are filled."""

    length: float
    weights: HostArray  # (candidates,)
    variances: HostArray  # (powers, 2): of the errors; and of straight lines in the worst phase


class SeriesFiller:
    """A column along one coordinate, its gaps filled as hidden ones were filled best."""

    def __init__(
        self, places: HostArray, y: HostArray, wanted: HostArray, periods: Sequence[PeriodicKernel]
    ) -> None:
        self._x, at, counts = np.unique(places[:, 0], return_inverse=True, return_counts=True)
        # A level apart, so that no season is lost in its rounding, and numbers with normal squares.
        self._level = y.mean()
        self._unit = abs(y - self._level).max() or 1.0
        self._y = np.bincount(at, (y - self._level) / self._unit) / counts
        n, span = self._x.size, self._x[-1] - self._x[0]
        self._median_step = np.median(np.diff(self._x)) if n > 2 else span
        self._step = max(self._median_step, span / (4 * n))  # a cell for each
        self._is_regular = n < 3 or have_common_step(np.diff(self._x))
        self.farthest = max(_FARTHEST_PART * span, self._median_step)
        most = span / _CYCLES
        self.periods = [p for p in periods if p._length() <= most and self._tells(p)]
        seen = np.full(n, fill_value=True)
        layout = self._layout_of(self._x)
        # The periods that are there after the ones before are taken out, for each width.
        self._known: list[list[int]] = [[] for _ in WIDTHS]
        for (known, width), i in product(zip(self._known, WIDTHS, strict=True), range(len(layout))):
            if fit_seasons([layout[j] for j in [*known, i]], seen, self._y, width)[1]:
                known.append(i)
        self._mixtures = {k: self._learn(layout, k[0], n) for k, n, _ in self._gaps(wanted)}

    def predict(self, places: HostArray, *, return_std: bool = False) -> Array:
        """Return the mean, and the standard deviation of a measurement if asked for."""
        mean, std = np.full((2, places.shape[0]), nan)
        x = np.union1d(self._x, places[:, 0])
        at, seen, y = np.searchsorted(x, places[:, 0]), np.isin(x, self._x), np.zeros_like(x)
        y[seen] = self._y
        layout = self._layout_of(x)
        filled = self._candidates(layout, x, y, seen)[:, at]
        is_never = np.any([np.zeros(at.size), *(cells.is_never[at] for cells in layout)], axis=0)
        for key, n, gap in self._gaps(places):
            mixture = self._mixtures.get(key) or self._learn(self._layout_of(self._x), key[0], n)
            # Where a phase was never measured, hidden windows speak of others: a straight line.
            mean[gap] = np.where(is_never[gap], filled[0, gap], mixture.weights @ filled[:, gap])
            variances = _powers(self._x, places[gap, 0], mixture.length) @ mixture.variances
            std[gap] = np.sqrt(np.where(is_never[gap], variances[:, 1], variances[:, 0]))
        mean = self._level + self._unit * mean
        return (mean, self._unit * std) if return_std else mean

    def never_measured(self, places: HostArray) -> list[PeriodicKernel]:
        """Return the periods that have phases at these places which were never measured."""
        layout = self._layout_of(np.union1d(self._x, places[:, 0]))
        return [cells.period for cells in layout if cells.is_never.any()]

    def beyond(self, places: HostArray) -> Array:
        """Return how far places are before or after the record, 0 inside."""
        return _beyond(self._x, places[:, 0]) * (1 - _ROUNDED)

    def _tells(self, period: PeriodicKernel) -> bool:
        """Tell whether samples are at enough phases of a period."""
        if self._is_regular:
            return bool(period._length() >= _STEPS * self._step)
        phases = period._cycles_before(self._x) % 1
        return count_harmonics(self._x, phases, period._length(), _HARMONICS) > 0

    def _layout_of(self, x: HostArray) -> list[Cells]:
        seen, step = np.isin(x, self._x), self._step if self._is_regular else None
        return [Cells(period, x, seen, step) for period in self.periods]

    def _gaps(self, places: HostArray) -> Iterator[tuple[tuple[int, int], float, HostArray]]:
        """Return side and octave, median length, and indices of the places of gaps alike.

        The side is -1 before the record, 0 inside and 1 after it.
        """
        before, after = _distances(self._x, places[:, 0])
        is_inside, half = np.isfinite(before + after), (self._x[-1] - self._x[0]) / 2
        lengths = np.where(is_inside, before + after, np.minimum(before, after))
        sides = np.where(is_inside, 0, np.where(before < after, 1, -1))
        for side in (-1, 1):  # as far as the farthest place
            lengths[sides == side] = lengths[sides == side].max(initial=0.0)
        lengths = np.clip(lengths, self._median_step / 2 or 1.0, half or 1.0)
        octaves = np.round(np.log2(lengths)).astype(int)
        for side, octave in np.unique([sides, octaves], axis=1).T.tolist():
            at = np.flatnonzero((sides == side) & (octaves == octave))
            yield (side, octave), float(np.median(lengths[at])), at

    def _candidates(
        self, layout: list[Cells], x: HostArray, y: HostArray, seen: HostArray
    ) -> Array:
        """Return what each candidate says at all places, the straight line first."""
        seasons = [np.zeros((1, x.size))]
        for known, width in zip(self._known, WIDTHS, strict=True):
            if known:
                parts, _ = fit_seasons([layout[i] for i in known], seen, y, width)
                seasons.append(parts.cumsum(axis=0))
        pairs = product(np.concatenate(seasons), _BRIDGES)
        filled = [season + bridge(x[seen], (y - season)[seen], x) for season, bridge in pairs]
        return np.stack(filled)

    def _learn(self, layout: list[Cells], side: int, length: float) -> Mixture:
        """Return how to fill gaps of a length, by hidden windows or ends of the record."""
        x, y = self._x, self._y
        rounds = list(_hide_ends(x, length, side) if side else _hide_windows(x, length))
        if not rounds:
            candidates = len(_BRIDGES) * (1 + sum(map(len, self._known)))
            return Mixture(length, np.eye(candidates)[0], np.full((2, 2), nan))
        wanted = np.concatenate([at for _, at in rounds])
        filled = [self._candidates(layout, x, y, seen)[:, at] for seen, at in rounds]
        errors = (np.concatenate(filled, axis=1) - y[wanted]).T
        powers = np.concatenate([_powers(x[seen], x[at], length) for seen, at in rounds])
        windows = sum(1 + np.count_nonzero(abs(np.diff(at)) > 1) for _, at in rounds)
        weights = _convex(errors, windows)
        freedom = max(windows - np.count_nonzero(weights), 1)
        squares = np.stack([windows / freedom * (errors @ weights) ** 2, errors[:, 0] ** 2])
        variances = np.stack([nnls(powers, square)[0] for square in squares], axis=1)
        # With nothing measured in a phase, its errors may be as large as the worst phase's.
        mean = worst = squares[1].mean() or 1.0
        for cells in layout:
            phase = cells.cell[wanted] % cells.phases
            means = np.bincount(phase, squares[1]) / np.maximum(np.bincount(phase), 1)
            worst = max(worst, means.max())
        return Mixture(length, weights, variances * np.array([1.0, worst / mean]))


# Bridges over gaps.


def _line(x: HostArray, y: HostArray, at: HostArray) -> Array:
    return np.interp(at, x, y)


def _line_of_means(x: HostArray, y: HostArray, at: HostArray) -> Array:
    """Return the line through the means of some samples on either side; outside, their mean."""
    x, at = x - x[0], at - x[0]  # sums of far places would round
    sums = np.concatenate([np.zeros((2, 1)), np.stack([x, y]).cumsum(axis=1)], axis=1)
    right = np.searchsorted(x, at, side="right")
    first, last = np.maximum(right - _BESIDE, 0), np.minimum(right + _BESIDE, x.size)
    (x0, y0), (x1, y1) = (
        (sums[:, high] - sums[:, low]) / np.maximum(high - low, 1)
        for low, high in ((first, right), (right, last))
    )
    is_inside = (right > 0) & (right < x.size)
    part = (at - x0) / np.where(is_inside, x1 - x0, 1.0)
    return y0 + np.where(is_inside, part, right == 0) * (y1 - y0)


_BRIDGES = (_line, _line_of_means)


# What is hidden, and what is learned from it.


def _distances(x: HostArray, at: HostArray) -> tuple[HostArray, HostArray]:
    """Return the distances from the samples before and after places, inf where there is none."""
    right = np.searchsorted(x, at, side="right")
    padded = np.concatenate([[-np.inf], x, [np.inf]])
    return at - padded[right], padded[right + 1] - at


def _powers(x: HostArray, at: HostArray, length: float) -> Array:
    """Return 1, and how far places are beyond the record, in lengths."""
    return np.stack([np.ones_like(at), _beyond(x, at) / length], axis=1)


def _beyond(x: HostArray, at: HostArray) -> Array:
    """Return how far places are before the first sample or after the last one, 0 between them."""
    return np.maximum(np.maximum(x[0] - at, at - x[-1]), 0.0)


def _hide_windows(x: HostArray, length: float) -> Splits:
    """Yield which samples are seen, and hidden ones, in windows as long as a gap, some at once."""
    if x.size < 3:
        return
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
    for first in range(rounds):
        seen, last = np.full(x.size, fill_value=True), 0
        for i in drawn[first::rounds]:
            if starts[i] > last:  # its left neighbour is seen
                seen[starts[i] : stops[i]], last = False, stops[i]
        yield seen, np.flatnonzero(~seen)


def _hide_ends(x: HostArray, length: float, side: int) -> Splits:
    """Yield which samples are seen before an end of the record, and those a length beyond it."""
    if side < 0:
        hidden = _hide_ends(-x[::-1], length, 1)
        yield from ((seen[::-1], x.size - 1 - wanted) for seen, wanted in hidden)
        return
    ends = np.arange(x.size)
    stops = np.searchsorted(x, x + length * (1 + _ROUNDED), side="right")
    fits = ends[(ends >= x.size // 3) & (x + length * (1 - _ROUNDED) <= x[-1]) & (stops > ends + 1)]
    for end in fits[:: max(1, fits.size // _ENDS)].tolist():
        yield ends <= end, np.arange(end + 1, stops[end])


def _convex(errors: HostArray, windows: int) -> Array:
    """Return the weights of candidates, not negative and of sum 1, of the least squared error.

    Few windows show little: the squared weight of all but the first candidate costs the squared
    error of the best one in a window. Weights of sum s cost s**2 times as much as of sum 1.
    """
    sizes = np.linalg.norm(errors, axis=0)
    rows = np.concatenate([errors, sizes.min() / windows**0.5 * np.eye(sizes.size)[1:]])
    rows = np.concatenate([rows / (np.linalg.norm(rows) or 1.0), np.ones((1, sizes.size))])
    weights = nnls(rows, np.eye(rows.shape[0])[-1])[0]
    return weights / weights.sum()
