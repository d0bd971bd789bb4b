"""Seasons by attention over cycles: the mean of the other cycles at the same phase.

A cell (cycle, phase) holds the samples of a period. The season of a cell is the mean of its phase
in the other cycles, weighted by their distance. As the cell's cycle is excluded, a measured cell
and a cell inside a gap have the same error.
"""

from collections.abc import Sequence
from math import ceil, inf, pi

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

    def means(self, visible: HostArray, y: HostArray) -> Array:
        """Return the mean of the samples in each cell, NaN in empty cells."""
        count, total = (np.bincount(self.cell[visible], w, self.size) for w in (None, y[visible]))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def fit(self, means: HostArray, width: float, initial: HostArray | None) -> tuple[Array, Array]:
        """Return the season of each cell, and the means without the trend, NaN in empty cells.

        The initial season, plus linear interpolation of its residuals, fills empty cells.
        """
        measured = ~np.isnan(means)
        indices, cell = np.flatnonzero(measured), np.arange(self.size)
        season = np.zeros_like(means) if initial is None else initial
        residuals = np.interp(cell, indices, (means - season)[indices])
        filled = np.where(measured, means, season + residuals)
        weight = measured
        if self.is_regular and initial is not None:
            weight = (cell >= indices[0]) & (cell <= indices[-1])
        detrended = filled - _local_line(filled - season, weight, self._half_width)
        is_sampled = measured.reshape(self.cycles, self.phases).any(axis=0)
        season = self._other_cycles(detrended, weight & np.tile(is_sampled, self.cycles), width)
        return season, np.where(measured, detrended, np.nan)

    def _other_cycles(self, values: HostArray, weight: HostArray, width: float) -> Array:
        """Return the mean of the other cycles for each cell, interpolated where it is undefined."""
        rows = np.stack([weight * values, weight]).reshape(2, self.cycles, self.phases)
        distance = np.arange(1 - self.cycles, self.cycles)
        kernel = np.where(distance == 0, 0.0, (1 + (distance / width) ** 2) ** -2.0)
        size = next_fast_len(3 * self.cycles, real=True)
        product = rfft(rows, size, axis=1) * rfft(kernel, size)[:, None]
        sums = irfft(product, size, axis=1)[:, self.cycles - 1 : 2 * self.cycles - 1]
        numerator, total = sums.reshape(2, -1)
        indices = np.flatnonzero(total > _MIN_WEIGHT)
        return np.interp(np.arange(values.size), indices, numerator[indices] / total[indices])


def fit_seasons(
    cells: Sequence[Cells], visible: HostArray, y: HostArray, width: float
) -> tuple[Array, bool]:
    """Return seasons at all positions, (periods, positions), by backfitting.

    Also return whether the last season exists: whether other cycles predict its cells better than
    their mean, beyond chance.
    """
    parts = np.zeros((len(cells), y.size))
    seasons: list[Array] = [None] * len(cells)
    for _ in range(_MAX_ITER):
        previous = parts.copy()
        for i, layout in enumerate(cells):
            means = layout.means(visible, y - parts.sum(axis=0) + parts[i])
            seasons[i], detrended = layout.fit(means, width, seasons[i])
            parts[i] = layout.at_positions(seasons[i])
        if abs(parts - previous).max() <= _TOLERANCE * y[visible].std():
            break
    measured = np.flatnonzero(~np.isnan(detrended))
    error = ((detrended - seasons[-1])[measured] ** 2).mean()
    num_cycles = np.unique(measured // cells[-1].phases).size
    return parts, bool(error < (1 - num_cycles**-0.5) * detrended[measured].var())


def _local_line(y: HostArray, weight: HostArray, half_width: int) -> Array:
    """Return local linear regression with a rectangular window, at each cell."""
    x, width = np.arange(y.size) - y.size / 2, 2 * half_width + 1
    rows = weight * np.stack([np.ones_like(x), x, x * x, y, x * y])
    sums = np.pad(rows, ((0, 0), (half_width + 1, half_width))).cumsum(axis=1)
    count, sum_x, square, sum_y, product = sums[:, width:] - sums[:, :-width]
    count = np.maximum(count, 1.0)
    mean_x, mean_y = sum_x / count, sum_y / count
    spread = square - sum_x * mean_x
    slope = np.where(spread > _MIN_SPREAD, product - sum_x * mean_y, 0.0)
    return mean_y + slope / np.maximum(spread, _MIN_SPREAD) * (x - mean_x)
