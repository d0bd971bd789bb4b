"""Seasons by attention over cycles: what the other cycles say at the same phase.

The samples of a period lie in cells (cycle, phase). The season of a cell is the mean of the cells
of its phase in other cycles, weighted by how far away they are. Its own cycle is left out, so that
a measured cell and one inside a gap have the same error.
"""

from collections.abc import Sequence
from math import ceil, inf, pi

from scipy.fft import irfft, next_fast_len, rfft

from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import PeriodicKernel

# Widths of the attention, in cycles: of a season that changes, and of one that stays as it is.
WIDTHS = (1.0, inf)

# Neighbouring samples share a phase until it has about this many of them in all cycles.
_SAMPLES_OF_PHASE = 20
# Of samples without a common step: the most phases, the fewest samples of a trend, and the number
# of cells for a sample above which neighbouring cycles are joined.
_PHASES, _SAMPLES_OF_TREND, _CELLS_OF_SAMPLE = 24, 4, 8

# The most passes of backfitting, and the change, in standard deviations, below which it is done.
_PASSES, _SETTLED = 20, 1e-3

# Sums of weights below this one are rounding of the Fourier transform.
_NO_WEIGHT = 1e-9

# Phases are taken as never measured if the probability that they are missing by chance is less.
_BY_CHANCE = 0.01

# The spread of two neighbouring cells is 1/2; a line needs as much.
_LEAST_SPREAD = 0.25


class Cells:
    """The cells (cycle, phase) of a period, one cycle behind the other, and places among them."""

    def __init__(
        self, period: PeriodicKernel, x: HostArray, seen: HostArray, step: float | None
    ) -> None:
        """Lay out cells for samples, the places that are `seen`, at equal steps, or without."""
        self.period, cycles = period, period._cycles_before(x)
        self.is_regular, samples, together = step is not None, np.count_nonzero(seen), 1
        if step is None:
            self.is_joined = True
            self.phases = min(max(2, samples // _SAMPLES_OF_PHASE), _PHASES)
            together = ceil(np.ptp(cycles[seen]) * self.phases / (_CELLS_OF_SAMPLE * samples))
        else:
            length, count = period._length() / step, np.unique(np.floor(cycles[seen])).size
            joined = ceil(length / (_SAMPLES_OF_PHASE * count))
            self.is_joined, self.phases = joined > 1, max(2, round(length / joined))
        # Samples are in the middle of cells, on average.
        turns = np.exp(2j * pi * self.phases * cycles[seen]).mean()
        at = np.round(cycles * self.phases - np.angle(turns) / (2 * pi) + 0.5, 6)
        cycle, phase = np.divmod(at, self.phases)
        # One more cycle at each end stands for all beyond.
        cycle = (cycle - cycle[seen].min()) // together + 1
        self.cycles = int(cycle[seen].max()) + 2
        self.size = self.cycles * self.phases
        at = np.clip(cycle, 0, self.cycles - 1) * self.phases + phase - 0.5
        self._at = np.clip(at, 0, self.size - 1)
        self.cell = np.round(self._at).astype(np.int64)
        # Of each place, whether its phase was never measured, if this is not by chance.
        measured = np.bincount(self.cell[seen], minlength=self.size) > 0
        extent = 1 + np.ptp(np.flatnonzero(measured))
        missing = 1 - measured.sum() / extent
        # Cells on either side of one, through which the line of a trend is fitted.
        few = 0 if self.is_regular else ceil(_SAMPLES_OF_TREND / 2 * extent / samples)
        self._half = max(self.phases // 2, few)
        never = ~measured.reshape(self.cycles, self.phases).any(axis=0)
        is_chance = self.phases * missing ** (extent // self.phases) >= _BY_CHANCE
        self.is_never = never[self.cell % self.phases] & (not is_chance)

    def at_places(self, season: HostArray) -> Array:
        """Return a season at the places; straight lines join phases of several samples."""
        if self.is_joined:
            return np.interp(self._at, np.arange(self.size), season)
        return season[self.cell]

    def means(self, seen: HostArray, y: HostArray) -> Array:
        """Return the mean of the samples in each cell, NaN where there is none."""
        count, total = (np.bincount(self.cell[seen], w, self.size) for w in (None, y[seen]))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def fit(self, means: HostArray, width: float, before: HostArray | None) -> tuple[Array, Array]:
        """Return the season in cells, and measurements there without a trend, NaN without any.

        Gaps are filled with the season `before`, and straight lines between what it leaves over.
        """
        measured = ~np.isnan(means)
        known, cell = np.flatnonzero(measured), np.arange(self.size)
        season = np.zeros_like(means) if before is None else before
        filled = np.where(measured, means, season + np.interp(cell, known, (means - season)[known]))
        weight = measured
        if self.is_regular and before is not None:
            weight = (cell >= known[0]) & (cell <= known[-1])
        rest = filled - _local_line(filled - season, weight, self._half)
        is_known = measured.reshape(self.cycles, self.phases).any(axis=0)
        season = self._other_cycles(rest, weight & np.tile(is_known, self.cycles), width)
        return season, np.where(measured, rest, np.nan)

    def _other_cycles(self, values: HostArray, weight: HostArray, width: float) -> Array:
        """Return what the other cycles say of each cell; straight lines where they say nothing."""
        rows = np.stack([weight * values, weight]).reshape(2, self.cycles, self.phases)
        distance = np.arange(1 - self.cycles, self.cycles)
        kernel = np.where(distance == 0, 0.0, (1 + (distance / width) ** 2) ** -2.0)
        size = next_fast_len(3 * self.cycles, real=True)
        product = rfft(rows, size, axis=1) * rfft(kernel, size)[:, None]
        sums = irfft(product, size, axis=1)[:, self.cycles - 1 : 2 * self.cycles - 1]
        said, total = sums.reshape(2, -1)
        known = np.flatnonzero(total > _NO_WEIGHT)
        return np.interp(np.arange(values.size), known, said[known] / total[known])


def fit_seasons(
    layout: Sequence[Cells], seen: HostArray, y: HostArray, width: float
) -> tuple[Array, bool]:
    """Return seasons at all places, (periods, places), each fitted to what the others leave over.

    Also whether the last one exists: whether other cycles predict cells better than their level
    does, beyond chance.
    """
    parts = np.zeros((len(layout), y.size))
    seasons: list[Array] = [None] * len(layout)
    for _ in range(_PASSES):
        before = parts.copy()
        for i, cells in enumerate(layout):
            means = cells.means(seen, y - parts.sum(axis=0) + parts[i])
            seasons[i], rest = cells.fit(means, width, seasons[i])
            parts[i] = cells.at_places(seasons[i])
        if abs(parts - before).max() <= _SETTLED * y[seen].std():
            break
    measured = np.flatnonzero(~np.isnan(rest))
    error = ((rest - seasons[-1])[measured] ** 2).mean()
    cycles = np.unique(measured // layout[-1].phases).size
    return parts, bool(error < (1 - cycles**-0.5) * rest[measured].var())


def _local_line(y: HostArray, weight: HostArray, half: int) -> Array:
    """Return the straight line through the cells that are within `half` of each, at it."""
    at, width = np.arange(y.size) - y.size / 2, 2 * half + 1
    rows = weight * np.stack([np.ones_like(at), at, at * at, y, at * y])
    sums = np.pad(rows, ((0, 0), (half + 1, half))).cumsum(axis=1)
    count, sum_at, square, sum_y, product = sums[:, width:] - sums[:, :-width]
    count = np.maximum(count, 1.0)
    mean_at, mean_y = sum_at / count, sum_y / count
    spread = square - sum_at * mean_at
    slope = np.where(spread > _LEAST_SPREAD, product - sum_at * mean_y, 0.0)
    return mean_y + slope / np.maximum(spread, _LEAST_SPREAD) * (at - mean_at)
