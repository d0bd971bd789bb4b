"""Seasons by attention over cycles: the mean of the other cycles at the same phase.

A cell (cycle, phase) holds the samples of a period. The season of a cell is the mean of its phase
in the other cycles, weighted by their distance. As the cell's cycle is excluded, a measured cell
and a cell inside a gap have the same error.
"""

from collections.abc import Sequence
from math import ceil, inf, pi
from typing import NamedTuple

from scipy.fft import irfft, next_fast_len, rfft

from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import PeriodicKernel

# Widths of the attention, in cycles: of a season that changes, and of a constant season.
WIDTHS = (1.0, inf)

# The number of samples in all cycles up to which neighbouring samples share a phase.
_SAMPLES_PER_PHASE = 20
# Without a common step: the largest number of phases, the smallest number of samples of a trend,
# and the largest number of cells per sample without merging neighbouring cycles.
_MAX_PHASES, _MIN_TREND_SAMPLES, _MAX_CELLS_PER_SAMPLE = 24, 4, 8

# The largest number of iterations of backfitting, and its tolerance in standard deviations.
_MAX_ITER, _TOLERANCE = 20, 1e-3

# Smaller sums of weights are rounding errors of the Fourier transform.
_MIN_WEIGHT = 1e-9

# The significance level of a test whether phases without samples are missing by chance.
_SIGNIFICANCE = 0.01

# The smallest spread of a line; two neighbouring cells have 1/2.
_MIN_SPREAD = 0.25


class Cells:
    """The cells (cycle, phase) of a period, in order of time, and the positions in these cells."""

    def __init__(
        self, period: PeriodicKernel, x: HostArray, visible: HostArray, step: float | None
    ) -> None:
        """Define cells for samples, the `visible` positions, with or without a common step."""
        self.period, cycles = period, period._cycles(x)
        self.is_regular, num_samples, num_merged = step is not None, np.count_nonzero(visible), 1
        if step is None:
            self.has_wide_phases = True
            self.phases = min(max(2, num_samples // _SAMPLES_PER_PHASE), _MAX_PHASES)
            max_cells = _MAX_CELLS_PER_SAMPLE * num_samples
            num_merged = ceil(np.ptp(cycles[visible]) * self.phases / max_cells)
        else:
            length = period._mean_length() / step
            num_cycles = np.unique(np.floor(cycles[visible])).size
            steps = ceil(length / (_SAMPLES_PER_PHASE * num_cycles))
            self.has_wide_phases, self.phases = steps > 1, max(2, round(length / steps))
        # Samples are on average at the centers of cells.
        phasor = np.exp(2j * pi * self.phases * cycles[visible]).mean()
        position = np.round(cycles * self.phases - np.angle(phasor) / (2 * pi) + 0.5, 6)
        cycle, phase = np.divmod(position, self.phases)
        # One extra cycle at each end holds all positions beyond.
        cycle = (cycle - cycle[visible].min()) // num_merged + 1
        self.cycles = int(cycle[visible].max()) + 2
        self.size = self.cycles * self.phases
        position = np.clip(cycle, 0, self.cycles - 1) * self.phases + phase - 0.5
        self._position = np.clip(position, 0, self.size - 1)
        self.cell = np.round(self._position).astype(np.int64)
        # Whether the phase of a position has no sample, and not by chance.
        measured = np.bincount(self.cell[visible], minlength=self.size) > 0
        extent = 1 + np.ptp(np.flatnonzero(measured))
        missing = 1 - measured.sum() / extent
        # The line of a trend is fitted to this number of cells on either side of a cell.
        trend = 0 if self.is_regular else ceil(_MIN_TREND_SAMPLES / 2 * extent / num_samples)
        self._half_width = max(self.phases // 2, trend)
        unsampled = ~measured.reshape(self.cycles, self.phases).any(axis=0)
        is_chance = self.phases * missing ** (extent // self.phases) >= _SIGNIFICANCE
        self.is_unsampled = unsampled[self.cell % self.phases] & (not is_chance)

    def at_positions(self, season: HostArray) -> Array:
        """Return a season at the positions, with linear interpolation between wide phases."""
        if self.has_wide_phases:
            return np.interp(self._position, np.arange(self.size), season)
        return season[self.cell]

    def smoother(self, visible: HostArray, width: float, *, is_first: bool) -> "Smoother":
        """Return the smoother of an iteration; the first one ignores cells without a sample."""
        count = np.bincount(self.cell[visible], minlength=self.size)
        empty, measured = np.flatnonzero(count == 0), np.flatnonzero(count)
        weight = count > 0
        is_sampled = weight.reshape(self.cycles, self.phases).any(axis=0)
        if self.is_regular and not is_first:
            weight[measured[0] : measured[-1] + 1] = True
        line = LocalLine(weight, self._half_width)
        other_cycles = OtherCycles(weight.reshape(self.cycles, self.phases) & is_sampled, width)
        return Smoother(count[measured], measured, empty, line, other_cycles)


class Smoother(NamedTuple):
    """The trend and the season of the cells of a period."""

    num_samples: HostArray  # of each measured cell
    measured: HostArray  # cells
    empty: HostArray  # cells
    line: "LocalLine"
    other_cycles: "OtherCycles"

    def fit(self, totals: HostArray, season: HostArray) -> tuple[Array, Array]:
        """Return the season of each cell, and the means without the trend of measured cells.

        The previous season, plus linear interpolation of its residuals, fills empty cells.
        """
        filled, means = season.copy(), totals[self.measured] / self.num_samples
        residuals = means - season[self.measured]
        filled[self.empty] += np.interp(self.empty, self.measured, residuals)
        filled[self.measured] = means
        detrended = filled - self.line.fit(filled - season)
        return self.other_cycles.fit(detrended), detrended[self.measured]


class LocalLine:
    """Local linear regression with a rectangular window, at each cell."""

    def __init__(self, weight: HostArray, half_width: int) -> None:
        self._half_width, self._weight = half_width, weight
        self._x = x = np.arange(weight.size) - weight.size / 2
        count, sum_x, square = self._sums(np.stack([np.ones_like(x), x, x * x]))
        self._count = np.maximum(count, 1.0)
        self._sum_x, self._mean_x = sum_x, sum_x / self._count
        self._spread = square - sum_x * self._mean_x

    def fit(self, y: HostArray) -> Array:
        """Return the line at each cell."""
        sum_y, product = self._sums(np.stack([y, self._x * y]))
        mean_y = sum_y / self._count
        slope = np.where(self._spread > _MIN_SPREAD, product - self._sum_x * mean_y, 0.0)
        slope /= np.maximum(self._spread, _MIN_SPREAD)
        return mean_y + slope * (self._x - self._mean_x)

    def _sums(self, rows: HostArray) -> Array:
        half, width = self._half_width, 2 * self._half_width + 1
        sums = np.pad(self._weight * rows, ((0, 0), (half + 1, half))).cumsum(axis=1)
        return sums[:, width:] - sums[:, :-width]


class OtherCycles:
    """The mean of the other cycles for each cell, interpolated where it is undefined."""

    def __init__(self, weight: HostArray, width: float) -> None:
        cycles = weight.shape[0]
        self._weight, self._size = weight, next_fast_len(2 * cycles, real=True)
        distance = np.arange(1 - cycles, cycles)
        kernel = np.where(distance == 0, 0.0, (1 + (distance / width) ** 2) ** -2.0)
        self._spectrum = rfft(kernel, self._size)[:, None]
        total = self._sums(1.0 * weight)
        self._defined = np.flatnonzero(total > _MIN_WEIGHT)
        self._undefined = np.flatnonzero(total <= _MIN_WEIGHT)
        self._total = np.maximum(total, _MIN_WEIGHT)

    def fit(self, values: HostArray) -> Array:
        """Return the mean for each cell."""
        means = self._sums(self._weight * values.reshape(self._weight.shape)) / self._total
        means[self._undefined] = np.interp(self._undefined, self._defined, means[self._defined])
        return means

    def _sums(self, rows: HostArray) -> Array:
        """Return the weighted sum of the other cycles, by a Fourier transform."""
        cycles = rows.shape[0]
        sums = irfft(rfft(rows, self._size, axis=0) * self._spectrum, self._size, axis=0)
        return sums[cycles - 1 : 2 * cycles - 1].ravel()


def fit_seasons(
    cells: Sequence[Cells], visible: HostArray, y: HostArray, width: float
) -> tuple[Array, bool]:
    """Return seasons at all positions, (periods, positions), by backfitting.

    Also return whether the last season exists: whether other cycles predict its cells better than
    their mean, beyond chance.
    """
    parts = np.zeros((len(cells), y.size))
    seasons: list[Array] = [np.zeros(layout.size) for layout in cells]
    for iteration in range(_MAX_ITER):
        previous = parts.copy()
        if iteration <= 1:
            smoothers = [c.smoother(visible, width, is_first=iteration == 0) for c in cells]
        for i, (layout, smoother) in enumerate(zip(cells, smoothers, strict=True)):
            residuals = (y - parts.sum(axis=0) + parts[i])[visible]
            totals = np.bincount(layout.cell[visible], residuals, layout.size)
            seasons[i], detrended = smoother.fit(totals, seasons[i])
            parts[i] = layout.at_positions(seasons[i])
        if abs(parts - previous).max() <= _TOLERANCE * y[visible].std():
            break
    error = ((detrended - seasons[-1][smoother.measured]) ** 2).mean()
    num_cycles = np.unique(smoother.measured // layout.phases).size
    return parts, bool(error < (1 - num_cycles**-0.5) * detrended.var())
