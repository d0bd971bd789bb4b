"""Gaps of columns along one coordinate, filled by stacked regressions."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import ceil, inf, log2, nan
from typing import NamedTuple, TypeAlias

from scipy.optimize import nnls
from scipy.stats import rankdata

from positional_embeddings.arrays.forks import cached_property
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import PeriodicKernel
from positional_embeddings.sklearn.seasons import WIDTHS, Cells, fit_seasons
from positional_embeddings.times.named import count_harmonics, have_common_step

# For each octave of lengths, the number of hidden windows or of hidden samples, whichever is more;
# the largest part of all samples in a split; and the number of ends of the record.
_NUM_WINDOWS, _NUM_HIDDEN, _MAX_HIDDEN_PART, _NUM_ENDS = 64, 640, 0.2, 16

# The largest part of samples that windows of all octaves hide, of which seasons are fitted once.
_MAX_SHARED_PART = 0.05

# The smallest number of pairs of neighbouring samples, and the smallest ratio of their squared
# differences to those of any two samples, without an order; for the ranks of a table, that ratio,
# and the standard errors below and above 1.
_MIN_NEIGHBOURS, _MIN_RATIO_WITHOUT_ORDER = 20, 0.8
_MIN_RANK_RATIO, _ERRORS_BELOW, _ERRORS_ABOVE = 0.85, 1.5, 3

# The largest extrapolation without a warning, as a part of the record.
_MAX_EXTRAPOLATION = 0.1

# The smallest number of cycles of a period, and of steps in a period; the number of samples of a
# mean on either side of a gap.
_MIN_CYCLES, _MIN_STEPS, _NUM_MEAN = 2.5, 2.5, 8

# The number of harmonics, of which irregular samples have to resolve one.
_NUM_HARMONICS = 3

_ROUNDING = 1e-9  # relative rounding error of a length and of a residual

# Other columns: the smallest part of hidden samples with a measurement, and the octave of the
# remaining variance without a measurement; the number of blocks of time, and of windows of the
# whole record that are added to a block to estimate its variance.
_MIN_MEASURED_PART, _NO_OTHERS, _NUM_BLOCKS, _NUM_SHARED_WINDOWS = 0.1, 1, 5, 4

# The largest lag of another column in steps, and its rounding error; the smallest gain of the
# correlation of changes, and the same in standard errors.
_MAX_LAG, _MAX_SHIFT_ERROR, _MIN_LAG_GAIN, _MIN_LAG_ERRORS = 3, 1e-3, 0.1, 4

# The number of estimates of a ridge, the smallest part of the variance that remains, and the
# smallest variance.
_NUM_RIDGES, _MIN_PART, _TINY = 3, 2.0**-10, 1e-300

# Whether each sample is visible, and the indices of the hidden samples to predict.
Splits: TypeAlias = Iterator[tuple[HostArray, HostArray]]

# A function of sample positions, samples and queries.
Bridge: TypeAlias = Callable[[HostArray, HostArray, HostArray], Array]


class Mixture(NamedTuple):
    """Weights of the candidates that fill gaps of a length, and their variances."""

    length: float
    weights: HostArray  # (candidates,)
    variances: HostArray  # (powers, 2): of the mixture; and of straight lines in the worst phase


class Windows(NamedTuple):
    """Hidden samples, and the errors of their predictions from the visible samples."""

    length: float
    num_windows: int
    blocks: HostArray  # (samples,): of time
    terms: HostArray  # (samples, powers): of a variance
    phases: list[HostArray]  # (samples,), for each period
    errors: HostArray  # (seasons, bridges, samples)
    predictors: HostArray  # (bridges, other columns, samples): errors, NaN for missing values


class SeriesFiller:
    """Fill gaps of a column along one coordinate with the best predictors of hidden gaps."""

    def __init__(self, x: HostArray, y: HostArray, periods: Sequence[PeriodicKernel]) -> None:
        self._x, first, indices, counts = np.unique(
            x[:, 0], return_index=True, return_inverse=True, return_counts=True
        )
        # Subtracting the level reduces rounding, and squares of scaled numbers are finite.
        self._level = y.mean()
        self._scale = abs(y - self._level).max() or 1.0
        self._y = np.bincount(indices, (y - self._level) / self._scale) / counts
        # Samples that differ at a position are of several sources, and fill no gap there.
        self._measured = y[first] if (y == y[first][indices]).all() else np.full(counts.shape, nan)
        n, span = self._x.size, self._x[-1] - self._x[0]
        self._median_step = np.median(np.diff(self._x)) if n > 2 else span
        self._step = max(self._median_step, span / (4 * n))  # of the cells
        self._is_regular = n < 3 or have_common_step(np.diff(self._x))
        self.max_extrapolation = max(_MAX_EXTRAPOLATION * span, self._median_step)
        self._max_period = span / _MIN_CYCLES
        self.periods = [p for p in periods if not self._reason_unresolved(p)]
        self._columns: Sequence[tuple[SeriesFiller, int]] = ()  # other columns, and their lags
        # The number of bridges of candidates without other columns.
        self._num_bridges = 3 if has_no_order(self._x, self._y) else 2
        self._regressions: dict[tuple[int, int], Regression] = {}
        self._mixtures: dict[tuple[int, int, int], Mixture] = {}

    @property
    def _bridges(self) -> "Sequence[Bridge]":
        return _BRIDGES[: 3 if self._columns else self._num_bridges]

    @cached_property
    def _seasons(self) -> tuple[list[list[int]], HostArray]:
        """Return the periods with a season after the previous ones, by width; the residuals."""
        visible, cells = np.full(self._x.size, fill_value=True), self._cells(self._x)
        selected: list[list[int]] = [[] for _ in WIDTHS]
        best = self._y  # without the seasons of the best width
        for (periods, width), i in product(zip(selected, WIDTHS, strict=True), range(len(cells))):
            parts, exists = fit_seasons([cells[j] for j in [*periods, i]], visible, self._y, width)
            if exists:
                periods.append(i)
                best = min(best, self._y - parts.sum(axis=0), key=np.var)
        return selected, best

    def fit(self, queries: HostArray, columns: "Sequence[tuple[SeriesFiller, int]]") -> None:
        """Fit the mixtures for gaps at some positions, with other columns at lags as predictors."""
        self._columns = columns
        grid = np.union1d(self._x, queries[:, 0])
        visible, rows = np.isin(grid, self._x), np.searchsorted(grid, queries[:, 0])
        errors = self._other_errors(grid, self._other_residuals(grid), visible, rows)
        list(self._mixed(queries, errors, self._regressions, self._mixtures))

    def predict(self, x: HostArray, *, return_std: bool = False) -> Array:
        """Return the mean, and the standard deviation of a measurement if requested.

        At the position of a sample, they are the sample and 0 if no samples of a position differ.
        """
        mean, std = np.full((2, x.shape[0]), nan)
        grid = np.union1d(self._x, x[:, 0])
        rows, y = np.searchsorted(grid, x[:, 0]), np.zeros_like(grid)
        visible = np.isin(grid, self._x)
        y[visible] = self._y
        cells = self._cells(grid)
        seasons = self._fit_seasons(cells, y, visible)
        values = self._candidates(seasons, grid, y, visible, rows)
        errors = self._other_errors(grid, self._other_residuals(grid), visible, rows)
        is_unsampled = np.any([np.zeros(rows.size), *(c.is_unsampled[rows] for c in cells)], axis=0)
        fitted = dict(self._regressions), dict(self._mixtures)
        for mixture, corrections, gap in self._mixed(x, errors, *fitted):
            candidates = self._corrected(values[:, :, gap], corrections)
            # No hidden window represents an unsampled phase: straight lines fill it.
            mixed = mixture.weights @ candidates
            mean[gap] = np.where(is_unsampled[gap], candidates[0], mixed)
            variances = _variance_terms(self._x, x[gap, 0], mixture.length) @ mixture.variances
            std[gap] = np.sqrt(np.where(is_unsampled[gap], variances[:, 1], variances[:, 0]))
        measured = self._at(self._measured, x[:, 0])
        is_gap = np.isnan(measured)
        mean = np.where(is_gap, self._level + self._scale * mean, measured)
        return (mean, np.where(is_gap, self._scale * std, 0.0)) if return_std else mean

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
        is_selected = any(self.periods.index(period) in selected for selected in self._seasons[0])
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

    def _mixed(
        self,
        queries: HostArray,
        errors: HostArray,
        regressions: "dict[tuple[int, int], Regression]",
        mixtures: dict[tuple[int, int, int], Mixture],
    ) -> Iterator[tuple[Mixture, HostArray | None, HostArray]]:
        """Yield mixture, corrections and indices of positions in similar gaps.

        Similar gaps have the same side, octave of lengths, and octave of the variance that remains
        with the `errors` of the other columns. Missing regressions and mixtures are added.
        """
        gaps = list(self._gaps(queries))
        hidden: dict[tuple[int, int], Windows] = {}
        for side in (-1, 0, 1):
            new = {k: length for k, length, _ in gaps if k[0] == side and k not in regressions}
            if new:
                hidden |= zip(new, self._hide(side, list(new.values())), strict=True)
        regressions |= {key: Regression(windows) for key, windows in hidden.items()}
        for (side, octave), _, gap in gaps:
            regression = regressions[side, octave]
            scaled = regression.scale(errors[:, :, gap])
            corrections, remaining = regression.predict(scaled)
            for key in np.unique(remaining).tolist():
                subset = remaining == key
                if (side, octave, key) not in mixtures:
                    windows = hidden.get((side, octave)) or self._hide(side, [regression.length])[0]
                    measured = ~np.isnan(scaled[0][:, subset])
                    mixtures[side, octave, key] = self._mix(windows, regression, measured)
                correction = corrections[:, :, subset] if key < _NO_OTHERS else None
                yield mixtures[side, octave, key], correction, gap[subset]

    def _fit_seasons(self, cells: list[Cells], y: HostArray, visible: HostArray) -> Array:
        """Return the sums of the first seasons of each width, (seasons, positions), none first."""
        seasons = [np.zeros((1, y.size))]
        for selected, width in zip(self._seasons[0], WIDTHS, strict=True):
            if selected:
                parts, _ = fit_seasons([cells[i] for i in selected], visible, y, width)
                seasons.append(parts.cumsum(axis=0))
        return np.concatenate(seasons)

    def _candidates(
        self, seasons: HostArray, x: HostArray, y: HostArray, visible: HostArray, rows: HostArray
    ) -> Array:
        """Return the predictions in rows, (seasons, bridges, rows), the straight line first."""
        x_visible, residuals = x[visible], (y - seasons)[:, visible]
        bridged = [[bridge(x_visible, r, x[rows]) for bridge in self._bridges] for r in residuals]
        return seasons[:, None, rows] + np.array(bridged)

    def _corrected(self, values: HostArray, corrections: HostArray | None) -> Array:
        """Return the candidates, (candidates, rows), the corrected ones last."""
        candidates = [*values[:, : self._num_bridges]]
        if corrections is not None:
            candidates += [*(values - corrections)]
        return np.asfortranarray(np.concatenate(candidates))

    def _other_residuals(self, x: HostArray) -> Array:
        """Return the other columns without their seasons, (columns, positions), NaN in gaps."""
        rows = [column.residuals_at(x, lag) for column, lag in self._columns]
        return np.reshape(rows, (-1, x.size))

    def residuals_at(self, x: HostArray, lag: int = 0) -> Array:
        """Return the samples some steps after positions, without seasons, NaN if there is none."""
        return self._at(self._seasons[1], x, lag)

    def _at(self, values: HostArray, x: HostArray, lag: int = 0) -> Array:
        """Return the values of samples some steps after positions, NaN if there is none."""
        shift, tolerance = lag * self._median_step, abs(lag) * _MAX_SHIFT_ERROR * self._median_step
        indices = np.searchsorted(self._x, x + shift - tolerance)
        indices = np.minimum(indices, self._x.size - 1)
        is_sample = abs(self._x[indices] - x - shift) <= tolerance
        return np.where(is_sample, values[indices], nan)

    def _other_errors(
        self, x: HostArray, residuals: HostArray, visible: HostArray, rows: HostArray
    ) -> Array:
        """Return the errors of the bridges in the other columns, (bridges, columns, rows)."""
        errors = np.full((len(self._bridges), residuals.shape[0], rows.size), nan)
        for k, y in enumerate(residuals):
            is_visible = visible & ~np.isnan(y)
            if is_visible.any():
                x_visible, y_visible = x[is_visible], y[is_visible]
                bridged = [bridge(x_visible, y_visible, x[rows]) for bridge in self._bridges]
                errors[:, k] = np.stack(bridged) - y[rows]
        return errors

    def _hide(self, side: int, lengths: Sequence[float]) -> list[Windows]:
        """Predict hidden windows of each length, or hidden ends of the record."""
        x, y, cells = self._x, self._y, self._cells(self._x)
        residuals, unhidden = self._other_residuals(x), np.full(x.size, fill_value=True)
        windows, shared = [], None
        hide = partial(_hide_ends, side=side) if side else _hide_windows
        all_splits = [
            list(hide(x, length)) or [(unhidden, np.zeros(0, np.int64))] for length in lengths
        ]
        is_visible = np.all([visible for splits in all_splits for visible, _ in splits], axis=0)
        if not side and np.mean(is_visible) >= 1 - _MAX_SHARED_PART:
            shared = self._fit_seasons(cells, y, is_visible)
        for length, splits in zip(lengths, all_splits, strict=True):
            errors, predictors, terms = [], [], []
            for visible, rows in splits:
                seasons = self._fit_seasons(cells, y, visible) if shared is None else shared
                errors.append(self._candidates(seasons, x, y, visible, rows) - y[rows])
                predictors.append(self._other_errors(x, residuals, visible, rows))
                terms.append(_variance_terms(x[visible], x[rows], length))
            count = sum(1 + np.count_nonzero(abs(np.diff(rows)) > 1) for _, rows in splits)
            indices = np.concatenate([rows for _, rows in splits])
            blocks = _NUM_BLOCKS * indices // x.size
            phases = [layout.cell[indices] % layout.phases for layout in cells]
            parts = (
                np.concatenate(terms),
                phases,
                *(np.concatenate(e, axis=2) for e in (errors, predictors)),
            )
            windows.append(Windows(length, count, blocks, *parts))
        return windows

    def _mix(self, windows: Windows, regression: "Regression", measured: HostArray) -> Mixture:
        """Fit a mixture to hidden samples, at which other columns are `measured` as in gaps."""
        corrections, sample_weights = None, 1.0
        if measured.any():
            corrections = regression.cross_predict(windows, measured)
            sample_weights = regression.sample_weights[:, None]
        errors = self._corrected(windows.errors, corrections).T
        if not windows.blocks.size:
            return Mixture(windows.length, np.eye(errors.shape[1])[0], np.full((2, 2), nan))
        weights = _stacking_weights(sample_weights * errors, windows.num_windows)
        freedom = max(windows.num_windows - np.count_nonzero(weights), 1)  # degrees of freedom
        squares = [windows.num_windows / freedom * (errors @ weights) ** 2, errors[:, 0] ** 2]
        variances = np.stack([nnls(windows.terms, square)[0] for square in squares], axis=1)
        # An unsampled phase has the mean squared error of the worst phase.
        mean = worst = squares[1].mean() or 1.0
        for phase in windows.phases:
            means = np.bincount(phase, squares[1]) / np.maximum(np.bincount(phase), 1)
            worst = max(worst, means.max())
        return Mixture(windows.length, weights, variances * np.array([1.0, worst / mean]))


class Moments(NamedTuple):
    """Second moments of the errors of candidates, and of their bridges in other columns."""

    products: HostArray  # (bridges, columns, columns)
    cross: HostArray  # (bridges, columns, seasons)
    variance: HostArray  # (bridges, seasons)


class Regression:
    """Regressions of the errors of candidates on the errors of the bridges in other columns."""

    def __init__(self, windows: Windows) -> None:
        self.length = windows.length
        errors = np.nan_to_num(windows.predictors)
        count = np.count_nonzero(~np.isnan(windows.predictors[:1]), axis=2, keepdims=True)
        rms = np.sqrt((errors**2).sum(axis=2, keepdims=True) / np.maximum(count, 1))
        is_measured = count >= _MIN_MEASURED_PART * windows.blocks.size
        is_usable = is_measured & (rms > _ROUNDING).all(axis=0)
        self._scale = np.where(is_usable, rms, nan)
        self._limit = abs(errors).max(axis=2, keepdims=True, initial=0.0)
        self._ridge = np.count_nonzero(is_usable) / windows.num_windows
        errors, scaled = windows.errors, self.scale(windows.predictors)
        predicted, _ = self.predict(scaled, _moments(errors, scaled, np.ones(errors.shape[2])))
        self.sample_weights = _sample_weights(windows, errors - predicted)
        self._moments = _moments(errors, scaled, self.sample_weights)

    def scale(self, errors: HostArray) -> Array:
        """Return scaled errors in other columns, clipped to the windows, NaN in unused columns."""
        is_outlier = (abs(errors) > 2 * self._limit).any(axis=0)
        scaled = np.clip(errors, -self._limit, self._limit) / self._scale
        return np.where(is_outlier, nan, scaled)

    def predict(self, scaled: HostArray, moments: Moments | None = None) -> tuple[Array, Array]:
        """Return predicted errors, (seasons, bridges, rows), and octaves of remaining variance."""
        products, cross, variance = moments or self._moments
        predicted = np.zeros((*variance.T.shape, scaled.shape[2]))
        remaining = np.full(scaled.shape[2], _NO_OTHERS)
        min_variance = max(variance.min(), _TINY)
        masks, inverse = np.unique(~np.isnan(scaled[0]), axis=1, return_inverse=True)
        for i, mask in enumerate(masks.T):
            if mask.any():
                k, rows, part = np.flatnonzero(mask), np.flatnonzero(inverse == i), 0.5
                square, diagonal = products[:, k[:, None], k], np.eye(k.size)
                for _ in range(_NUM_RIDGES):
                    ridge = self._ridge * part / (1 - part)
                    slopes = np.linalg.solve(square + ridge * diagonal, cross[:, k])
                    part = (variance - (cross[:, k] * slopes).sum(axis=1)).min() / min_variance
                    part = min(max(part, _MIN_PART), 1 - _MIN_PART)
                predicted[:, :, rows] = (slopes.mT @ scaled[:, k[:, None], rows]).swapaxes(0, 1)
                remaining[rows] = round(log2(part))
        return predicted, remaining

    def cross_predict(self, windows: Windows, measured: HostArray) -> Array:
        """Return the errors that the regression without their block of time predicts.

        Each hidden sample has the measured columns of a random gap, a column of `measured`.
        """
        masks, counts = np.unique(measured, axis=1, return_counts=True)
        blocks, rng = windows.blocks, np.random.default_rng(0)
        draws = rng.choice(counts.size, blocks.size, p=counts / counts.sum())
        errors, scaled = windows.errors, self.scale(windows.predictors)
        predicted = np.zeros_like(errors)
        drawn = np.where(masks[:, draws], scaled, nan)
        for block in np.unique(blocks):
            rows = blocks == block
            fitted = ~rows | rows.all()  # a single block predicts itself
            samples = errors[:, :, fitted], scaled[:, :, fitted], self.sample_weights[fitted]
            predicted[:, :, rows], _ = self.predict(drawn[:, :, rows], _moments(*samples))
        return predicted


def _sample_weights(windows: Windows, errors: HostArray) -> Array:
    """Return weights of hidden samples, inverse to the best errors in their block of time.

    The floor of the variance is the median: a quiet time does not determine the slopes of others.
    """
    blocks, totals = windows.blocks, (errors**2).sum(axis=2)
    if not blocks.size:
        return np.zeros(0)
    best = errors[np.unravel_index(totals.argmin(), totals.shape)] ** 2
    num_shared = _NUM_SHARED_WINDOWS * blocks.size / windows.num_windows
    variances = np.bincount(blocks, best) + num_shared * (best.mean() or 1.0)
    variances = (variances / (np.bincount(blocks) + num_shared))[blocks]
    weights = 1 / np.sqrt(np.maximum(variances, np.median(variances)))
    return weights * (blocks.size**0.5 / np.linalg.norm(weights))


def _moments(errors: HostArray, scaled: HostArray, weights: HostArray) -> Moments:
    """Return the second moments of errors, (seasons, bridges, samples), and of other columns.

    The product of two columns is over the samples with both, relative to the squared errors there.
    If these are few, the columns are independent given the target.
    """
    measured, errors, filled = 1.0 * ~np.isnan(scaled[0]), weights * errors, weights * scaled
    filled, squares, total = np.nan_to_num(filled), errors**2, (weights**2).sum() or 1.0
    counts, variance = (weights**2 * measured) @ measured.T, squares.sum(axis=2).T / total
    # The variance of the first candidate, relative to its sum of squares at the samples with both.
    first, sums = variance[:, :1, None], (measured * squares[0][:, None]) @ measured.T
    ratio = first / np.maximum(sums, _MIN_PART * first * counts + _TINY)
    cross = filled @ errors.transpose(1, 2, 0) * ratio.diagonal(axis1=1, axis2=2)[:, :, None]
    products = filled @ filled.mT * ratio
    part = cross[:, :, :1] / np.sqrt(np.maximum(variance[:, None, :1], _TINY))
    is_rare = (counts < _MIN_MEASURED_PART * total) & ~np.eye(len(counts), dtype=bool)
    values, vectors = np.linalg.eigh(np.where(is_rare, part * part.mT, products))
    # Negative eigenvalues of means over different samples show the size of their errors.
    values = np.maximum(values, np.maximum(-values[:, :1], 0.0))
    products = (vectors * values[:, None]) @ vectors.mT
    return Moments(products, cross, variance)


def fit_columns(
    fillers: "Sequence[SeriesFiller]", queries: Sequence[HostArray], max_columns: int
) -> None:
    """Fit the mixtures of each column, with the columns of the largest correlation."""
    if not any(x.size for x in queries):
        return
    grid = np.unique(np.concatenate([filler._x for filler in fillers]))
    y = np.stack([filler.residuals_at(grid) for filler in fillers])
    mean, std = np.nanmean(y, axis=1, keepdims=True), np.nanstd(y, axis=1, keepdims=True)
    y = (y - mean) / np.where(std > 0, std, inf)
    lags = _lags(np.nan_to_num(np.diff(y, axis=1)))
    y = np.nan_to_num(y)
    products = abs(y @ y.T)  # of the samples of both columns
    np.fill_diagonal(products, 0.0)
    for filler, x, row, lag in zip(fillers, queries, products, lags, strict=True):
        nearest = np.argsort(-row, kind="stable")[:max_columns]
        filler.fit(x, [(fillers[k], int(lag[k])) for k in nearest if row[k]])


def _lags(changes: HostArray) -> Array:
    """Return the steps by which column k follows column i, (i, k), 0 unless it clearly does."""
    norms = np.linalg.norm(changes, axis=1, keepdims=True)
    changes = changes / np.where(norms > 0, norms, inf)
    padded = np.pad(changes, ((0, 0), (_MAX_LAG, _MAX_LAG)))
    n, lags = changes.shape[1], sorted(range(-_MAX_LAG, _MAX_LAG + 1), key=abs)
    similarity = [abs(changes @ padded[:, _MAX_LAG + k : _MAX_LAG + k + n].T) for k in lags]
    min_gain = max(_MIN_LAG_GAIN, _MIN_LAG_ERRORS / max(n, 1) ** 0.5)
    is_late = np.max(similarity, axis=0) > similarity[0] + min_gain
    return np.where(is_late, np.array(lags)[np.argmax(similarity, axis=0)], 0)


def has_no_order(x: HostArray, y: HostArray) -> bool:
    """Return whether squared differences of neighbours are as large as of any two samples."""
    ratio, count = _neighbour_ratio(x, y)
    return count >= _MIN_NEIGHBOURS and ratio > max(_MIN_RATIO_WITHOUT_ORDER, 1 - 2 / count**0.5)


def columns_without_order(columns: dict[int, HostArray]) -> list[int]:
    """Return the unsorted columns of samples, (samples, 2), if these show no order of rows, or [].

    Their mean rank ratio of von Neumann (Bartels 1982) is then near 1. Alternating rows have more.
    """
    ratios, counts = {}, []
    for j, (x, y) in ((j, samples.T) for j, samples in columns.items()):
        steps = np.diff(y)
        if (steps < 0).any() and (steps > 0).any():  # not sorted
            ratios[j], count = _neighbour_ratio(x, rankdata(y))
            counts.append(count)
    if not ratios or (count := np.mean(counts)) < _MIN_NEIGHBOURS:
        return []
    error, ratio = count**-0.5, np.mean([*ratios.values()])
    low, high = max(_MIN_RANK_RATIO, 1 - _ERRORS_BELOW * error), 1 + _ERRORS_ABOVE * error
    return [*ratios] if low < ratio < high else []


def _neighbour_ratio(x: HostArray, y: HostArray) -> tuple[float, int]:
    """Return the mean squared difference of neighbours over twice the variance; their number."""
    steps, variance = np.diff(x), y.var()
    squares = np.diff(y)[steps <= steps.min(initial=inf) * (1 + _ROUNDING)] ** 2
    ratio = squares.mean() / (2 * variance) if squares.size and variance > _TINY else 0.0
    return float(ratio), squares.size


# Bridges over gaps.


def _interpolate(x: HostArray, y: HostArray, queries: HostArray) -> Array:
    return np.interp(queries, x, y)


def _interpolate_means(x: HostArray, y: HostArray, queries: HostArray) -> Array:
    """Return the line through the means of some samples on either side; outside, their mean."""
    x, queries = x - x[0], queries - x[0]  # limits the rounding of sums
    sums = np.concatenate([np.zeros((2, 1)), np.stack([x, y]).cumsum(axis=1)], axis=1)
    right = np.searchsorted(x, queries, side="right")
    first, last = np.maximum(right - _NUM_MEAN, 0), np.minimum(right + _NUM_MEAN, x.size)
    (x0, y0), (x1, y1) = (
        (sums[:, stop] - sums[:, start]) / np.maximum(stop - start, 1)
        for start, stop in ((first, right), (right, last))
    )
    is_inside = (right > 0) & (right < x.size)
    part = (queries - x0) / np.where(is_inside, x1 - x0, 1.0)
    return y0 + np.where(is_inside, part, right == 0) * (y1 - y0)


def _mean(x: HostArray, y: HostArray, queries: HostArray) -> Array:  # noqa: ARG001 - a bridge
    return np.full(queries.shape, y.mean())


_BRIDGES = (_interpolate, _interpolate_means, _mean)


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
    weights = nnls(rows, np.pad([1.0], (rows.shape[0] - 1, 0)))[0]
    return weights / weights.sum()
