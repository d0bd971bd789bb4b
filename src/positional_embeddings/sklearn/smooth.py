"""One smooth function: attention of queries to samples, by one kernel.

Means of samples and of their products, weighted by the kernel, come from the same attention. They
give a plane around each query, the weight of a sample in its own prediction, and what the noise of
the samples makes of the function.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from positional_embeddings._core.memory import cuts
from positional_embeddings._core.namespace import (
    HostArray,
    Namespace,
    device_of,
    host,
    namespace_of,
    to_host,
)
from positional_embeddings.attention.dot_product import scaled_dot_product_attention
from positional_embeddings.masks.mask import Mask, Points
from positional_embeddings.masks.ranges import Ranges, Reach, clip, hull, unite
from positional_embeddings.sklearn.kernels import GaussianKernel, Kernel

# Added to the variances of samples around a query, in squared length scales: a plane through
# samples that are all at one place is level.
_RIDGE = 1e-6

# Numbers of which the means around queries are computed together.
_MOST_MEANS = 2**22


class Options(NamedTuple):
    """The checked options of an `AttentionRegressor`."""

    local_linear: bool
    cutoff: float | None
    block_size: int | None
    max_iter: int
    tol: float


class Samples(NamedTuple):
    """Samples of a weight above 0, in the widest float."""

    x: Any  # (columns, samples)
    y: Any  # (targets, samples)
    weight: Any  # (samples,)


class Wanted(NamedTuple):
    """What is wanted of a smooth function beside its mean."""

    leverage: bool = False
    squares: bool = False


class Predicted(NamedTuple):
    """A smooth function at queries."""

    mean: Any  # (targets, queries)
    leverage: Any  # (queries,): weight of the sample itself; None if not asked for
    squares: Any  # (queries,): sum of the squared weights; None if not asked for


class _Local(NamedTuple):
    """Means around queries, weighted by the kernel."""

    total: Any  # (queries,): sum of the weights, in units of exp(reference)
    y: Any  # (targets, queries)
    u: Any  # (features, queries)
    cov: Any  # (queries, features, features); (queries,) in all where no plane is fitted
    cov_y: Any  # (features, targets, queries); None where no plane is fitted


class Smooth:
    """Attention of queries to samples, by one kernel."""

    def __init__(self, kernel: Kernel, samples: Samples, options: Options) -> None:
        xp = namespace_of(x=samples.x)
        self._kernel, self._options = kernel, options
        self._is_linear = isinstance(kernel, GaussianKernel) and (
            options.local_linear if kernel.local_linear is None else kernel.local_linear
        )
        self._cut: Any = None
        self._places: Any = None  # of the samples, ascending; on the host
        x, weight = samples.x, samples.weight
        if options.cutoff is not None:
            self._cut = cut_factor(kernel, x.shape[0])
            self._order = xp.argsort(self._place(x))
            x, weight = (xp.take(a, self._order, axis=-1) for a in (x, weight))
            self._places = to_host(self._place(x), xp)
        u = kernel._encode(x, xp)
        # Products of large numbers would leave few digits to their variance.
        self._centre = xp.mean(u, axis=1, keepdims=True)
        self._u = u - self._centre
        self._log_weight = xp.log(weight)
        # Of repetitions each has its own noise; a weight below 1 is that of one sample.
        self._log_squared_weight = self._log_weight + xp.log(xp.where(weight < 1, weight, 1.0))

    @property
    def _xp(self) -> Namespace:
        return namespace_of(u=self._u)

    def _place(self, x: Any) -> Any:
        """Return samples or queries in the unit of the kernel that the cutoff is for."""
        return self._cut._encode(x, namespace_of(x=x))[0, :]

    def predict(self, x: Any, y: Any, wanted: Wanted) -> Predicted:
        """Return the function of samples y at x, which are samples where leverage is wanted."""
        xp = self._xp
        if self._cut is None:
            return self._in_chunks(x, y, wanted)
        order = xp.argsort(self._place(x))
        back = xp.argsort(order)
        y = xp.take(y, self._order, axis=1)
        ascending = self._in_chunks(xp.take(x, order, axis=1), y, wanted)
        return Predicted(*(None if a is None else xp.take(a, back, axis=-1) for a in ascending))

    def _in_chunks(self, x: Any, y: Any, wanted: Wanted) -> Predicted:
        xp = self._xp
        features, targets = self._u.shape[0], y.shape[0]
        means = 2 + (features + targets) * (features + 1 if self._is_linear else 1)
        length = max(1, _MOST_MEANS // means)
        parts = [self._predict(x[:, at], y, wanted) for at in cuts(x.shape[1], length)]
        return Predicted(
            *(
                None if of_parts[0] is None else xp.concat(of_parts, axis=-1)
                for of_parts in zip(*parts, strict=True)
            )
        )

    def _predict(self, x: Any, y: Any, wanted: Wanted) -> Predicted:
        xp = self._xp
        query = self._kernel._encode(x, xp) - self._centre
        near = None if self._cut is None else self._mask(to_host(self._place(x), xp))
        # A sample weighs 1 for itself: the unit in which its share of all weights is wanted.
        local = self._around(query, y, near, reference=0.0 if wanted.leverage else None)
        tilt = self._tilt(query, local)
        mean = local.y
        if tilt is not None:
            mean = mean + xp.sum(tilt[:, None, :] * local.cov_y, axis=0)
        leverage = squares = None
        if wanted.leverage:
            offset = 0.0 if tilt is None else xp.sum(tilt * (query - local.u), axis=0)
            leverage = (1 + offset) / local.total
        if wanted.squares:
            squares = self._squares(query, local, tilt, near)
        return Predicted(mean, leverage, squares)

    def _around(
        self, query: Any, y: Any, near: Mask | None, *, reference: Any, power: int = 1
    ) -> _Local:
        """Return the means around queries of weights to a power.

        One more key, of a score that is known, tells the sum of all weights.
        """
        xp, u = self._xp, self._u
        f, t = u.shape[0], y.shape[0]
        ones = xp.ones_like(u[:1, :])
        half = xp.sum(u * u, axis=0, keepdims=True) / 2
        log_weight = self._log_weight if power == 1 else self._log_squared_weight
        keys = [u, log_weight[None, :] - power * half]
        queries = [power * query, xp.ones_like(query[:1, :])]
        second = 2 * half
        if self._is_linear:
            n = u.shape[1]
            second = xp.reshape(u[:, None, :] * u[None, :, :], (f * f, n))
            second = xp.concat(
                [second, xp.reshape(u[:, None, :] * y[None, :, :], (f * t, n))], axis=0
            )
        values = xp.concat([ones, y, u, second], axis=0)
        if reference is not None:
            above = power * xp.sum(query * query, axis=0, keepdims=True) / 2
            queries.append(reference + above)
            keys.append(xp.zeros_like(ones))
        key = xp.concat(keys, axis=0)
        if reference is not None:
            known = xp.concat([xp.zeros_like(key[:-1, :1]), xp.ones_like(key[-1:, :1])], axis=0)
            key = xp.concat([key, known], axis=1)
            values = xp.concat([values, xp.zeros_like(values[:, :1])], axis=1)
        output = scaled_dot_product_attention(
            xp.concat(queries, axis=0),
            key,
            values,
            scale=1.0,
            mask=near,
            offset=None if near is None else 0,
            block_size=self._options.block_size,
        )
        seen, m = output[0, :], query.shape[1]
        means = output[1:, :] / seen
        total = None if reference is None else seen / (1 - seen)
        mean_y, mean_u, second = means[:t, :], means[t : t + f, :], means[t + f :, :]
        if not self._is_linear:
            return _Local(total, mean_y, mean_u, second[0, :] - xp.sum(mean_u**2, axis=0), None)
        square = xp.reshape(second[: f * f, :], (f, f, m)) - mean_u[:, None, :] * mean_u[None, :, :]
        cross = xp.reshape(second[f * f :, :], (f, t, m)) - mean_u[:, None, :] * mean_y[None, :, :]
        return _Local(total, mean_y, mean_u, xp.permute_dims(square, (2, 0, 1)), cross)

    def _tilt(self, query: Any, local: _Local) -> Any:
        """Return what a plane adds to the weight of a sample, per distance from their mean."""
        if not self._is_linear:
            return None
        xp = self._xp
        f = query.shape[0]
        ridge = _RIDGE * xp.eye(f, dtype=query.dtype, device=device_of(query))
        away = xp.permute_dims(query - local.u, (1, 0))[..., None]
        return xp.permute_dims(xp.linalg.solve(local.cov + ridge, away)[..., 0], (1, 0))

    def _squares(self, query: Any, local: _Local, tilt: Any, near: Mask | None) -> Any:
        """Return the sum of the squared weights of all samples, of each query."""
        xp = self._xp
        reference, total, no_targets = 0.0, local.total, self._u[:0, :]
        if total is None:
            spread = xp.linalg.trace(local.cov) if self._is_linear else local.cov
            # The mean score is below the logarithm of the sum of weights, by log(n) at most.
            reference = -(xp.sum((query - local.u) ** 2, axis=0) + spread)[None, :] / 2
            total = self._around(query, no_targets, near, reference=reference).total
        squared = self._around(query, no_targets, near, reference=2 * reference, power=2)
        ratio = squared.total / total**2
        if tilt is None:
            return ratio
        level = 1 + xp.sum(tilt * (squared.u - local.u), axis=0)
        rows = xp.permute_dims(tilt, (1, 0))[:, None, :]
        slope = rows @ squared.cov @ xp.matrix_transpose(rows)
        return ratio * (level**2 + xp.reshape(slope, (query.shape[1],)))

    def _mask(self, queries: HostArray) -> "_BetweenMask":
        """Return the mask of samples beyond the cutoff, but for the nearest on each side."""
        places, cutoff = self._places, self._options.cutoff
        n = places.shape[0]
        at = host.searchsorted(places, queries)
        before, after = (places[host.clip(i, 0, n - 1)] for i in (at - 1, at))
        starts = host.searchsorted(places, host.minimum(queries - cutoff, before))
        stops = host.searchsorted(places, host.maximum(queries + cutoff, after), side="right")
        return _BetweenMask(starts, stops, n)


def cut_factor(kernel: Kernel, columns: int) -> GaussianKernel | None:
    """Return the factor of a kernel whose one column tells which samples are far."""
    for factor in kernel._factors():
        if isinstance(factor, GaussianKernel) and len(factor._own_columns(columns)) == 1:
            return factor
    return None


@dataclass(frozen=True, eq=False, repr=False)
class _BetweenMask(Mask):
    """Query i sees the samples from starts[i] to before stops[i], and what comes after them all."""

    starts: HostArray  # ascending, as stops are
    stops: HostArray
    samples: int

    def _hides(self, q: Points, k: Points) -> Any:
        starts, stops = (q.take(a[:, None], 0, 0) for a in (self.starts, self.stops))
        outside = (k.values < starts) | (k.values >= stops)
        return outside & (k.values < self.samples)

    def _reach(self, queries: Ranges, k_len: int) -> Reach:
        start, stop = hull(queries)
        starts, stops = self.starts[start:stop], self.stops[start:stop]
        after = clip(self.samples, k_len, k_len)
        return Reach(
            unite([(int(starts[0]), int(stops[-1])), *after]),
            unite([(int(starts[-1]), int(stops[0])), *after]),
        )
