"""One smooth function: attention of queries to samples, by one kernel.

Queries are taken in leaves of near ones, each with the samples within its reach. Coordinates are
distances from a query of the leaf, in widths of the kernel, so that no moment cancels.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, chain, pairwise
from math import inf, isfinite, isinf, log, nan
from operator import add, and_
from typing import Any, NamedTuple

from scipy.spatial import KDTree

from positional_embeddings._core.namespace import (
    HostArray,
    default_integer,
    device_of,
    host,
    namespace_of,
    to_host,
)
from positional_embeddings.sklearn.kernels import Kernel

# A kernel widens where the nearest sample is D > 2 widths away: its squared width grows to
# D**2 - _NEAR, 1 at 2 widths.
_NEAR = 3.0

# Weights below exp(-_NOTHING) of the largest one change nothing in float64.
_NOTHING = 41.0

# A slope moves a mean by so many local standard deviations, times the root of columns, at most.
_MOST_TILT = 1.4

# A leaf has so many queries, weights and widths at most.
_MOST_QUERIES, _MOST_WEIGHTS, _MOST_EXTENT = 256, 2**16, 64.0

# The least weight of a sample, as a part of the largest one, and what is added to no zero.
_LIGHTEST, _TINY = 1e-100, 1e-300

# Widths that a reach is larger, for places that are rounded.
_SLACK = 1e-3


class Samples(NamedTuple):
    """Places with a weight above 0, in the widest float."""

    x: Any  # (columns, samples)
    y: Any  # (targets, samples): means at a place
    weight: Any  # (samples,)
    within: Any  # (targets, samples): variances at a place


class Hidden(NamedTuple):
    """A query does not see the samples of which all labels are within a radius of its own."""

    own: Any  # (labels, queries)
    labels: Any  # (labels, samples)
    radius: float
    side: Any = None  # (queries,): 1 hides samples of a larger first label, too, -1 of a smaller

    def hides(self, rows: Any, columns: Any) -> Any:
        """Return which samples are hidden from which queries, (rows, columns)."""
        xp = namespace_of(own=self.own)
        own, labels = xp.take(self.own, rows, axis=1), xp.take(self.labels, columns, axis=1)
        away = [k[None, :] - q[:, None] for q, k in zip(_rows(own), _rows(labels), strict=True)]
        within = (xp.abs(a) <= self.radius if self.radius else a == 0 for a in away)
        hides = reduce(and_, within)
        if self.side is None:
            return hides
        return hides | (xp.take(self.side, rows)[:, None] * away[0] > 0)


class Predicted(NamedTuple):
    """A smooth function at queries; NaN where a query sees no sample."""

    mean: Any  # (ridges, targets, queries)
    squares: Any  # (queries,): sum of the squared weights, with the last ridge
    distance: Any  # (queries,): to the nearest sample that is seen, in widths
    lean: Any  # (queries,): 0 if samples are all around, 1 if all are on one side


class Smooth:
    """Attention of queries to samples, by one kernel."""

    def __init__(
        self, kernel: Kernel, samples: Samples, cutoff: float | None, most_queries: int | None
    ) -> None:
        xp = namespace_of(x=samples.x)
        self._kernel, self._most_queries = kernel, most_queries or _MOST_QUERIES
        scales = [factor._scales(samples.x.shape[0]) for factor in kernel._factors()]
        if all(factor._is_gaussian for factor in kernel._factors()):
            scales = [list(chain(*scales))]  # their product is one of all coordinates
        stops = list(accumulate(map(len, scales)))
        self._parts = [slice(start, stop) for start, stop in pairwise([0, *stops])]
        flat = xp.asarray(list(chain(*scales)), dtype=samples.x.dtype, device=device_of(samples.x))
        self._scale = flat[:, None]
        self._places = kernel._encode(samples.x, xp)
        self._weight = xp.clip(samples.weight / xp.max(samples.weight), _LIGHTEST, None)
        nothing = _NOTHING - log(float(xp.min(self._weight)))
        reach = max(factor._reach(nothing) for factor in kernel._factors())
        self._cutoff, self._is_cut = cutoff or reach, cutoff is not None
        self._tree = KDTree(self.points(samples.x))

    def points(self, x: Any) -> HostArray:
        """Return places in widths of the kernel, on the host, (queries, features)."""
        xp = namespace_of(x=x)
        points: HostArray = to_host(self._kernel._encode(x, xp) / self._scale, xp).T
        return points

    def predict(
        self,
        x: Any,
        y: Any,
        ridges: Sequence[float],
        hidden: Hidden | None = None,
        *,
        squares: bool = True,
    ) -> Predicted:
        """Return the function of samples y at x, for each ridge; squares where asked for."""
        xp = namespace_of(x=x)
        places, order, parts = self._kernel._encode(x, xp), [], []
        for at, middle, extent, first in self._leaves(self.points(x), hidden):
            rows, reach = self._index(at), first
            query = xp.take(places, rows, axis=1)
            while True:
                found = self._seen_from(middle, extent + reach)
                columns = self._index(found)
                hides = None if hidden is None else hidden.hides(rows, columns)
                needed, part = self._of_leaf(query, columns, y, ridges, hides, squares=squares)
                if hides is None or needed <= reach or found.shape[0] == y.shape[1]:
                    break
                reach = 4 * reach if isinf(needed) else needed + _SLACK
            order.append(at)
            parts.append(part)
        back = self._index(host.argsort(host.concatenate(order)))
        columns = (xp.concat(part, axis=-1) for part in zip(*parts, strict=True))
        return Predicted(*(xp.take(part, back, axis=-1) for part in columns))

    def _index(self, at: HostArray) -> Any:
        xp, on = namespace_of(places=self._places), device_of(self._places)
        return xp.asarray(at, dtype=default_integer(xp, on), device=on)

    def _leaves(
        self, points: HostArray, hidden: Hidden | None
    ) -> Iterator[tuple[HostArray, HostArray, float, float]]:
        """Return queries near each other, their middle and extent, and their reach."""
        nearest = 1 if hidden is None else min(2, self._places.shape[1])
        squared = self._tree.query(points, [nearest])[0][:, 0] ** 2
        widening = host.maximum(squared - _NEAR, 1.0)
        reaches = host.sqrt(squared + self._cutoff**2 * widening) + _SLACK
        stack = [host.arange(points.shape[0])]
        while stack:
            at = stack.pop()
            low, high = points[at].min(axis=0), points[at].max(axis=0)
            lengths, middle, half = high - low, (low + high) / 2, at.shape[0] // 2
            extent, reach = float(host.linalg.norm(lengths)) / 2, float(reaches[at].max())
            if half and (
                at.shape[0] > self._most_queries
                or lengths.max() > _MOST_EXTENT * widening[at].min() ** 0.5
                or at.shape[0] * self._count(middle, extent + reach) > _MOST_WEIGHTS
            ):
                order = host.argpartition(points[at, lengths.argmax()], half)
                stack += [at[order[:half]], at[order[half:]]]
            else:
                yield at, middle, extent, reach

    def _count(self, middle: HostArray, radius: float) -> int:
        return int(self._tree.query_ball_point(middle, radius, return_length=True))

    def _seen_from(self, middle: HostArray, radius: float) -> HostArray:
        """Return the indices of the samples within a radius, and perhaps of more."""
        if 4 * self._count(middle, radius) > self._tree.n:  # lists of them take longer than all
            found = range(self._tree.n)
        else:
            found = self._tree.query_ball_point(middle, radius, return_sorted=True)
        columns: HostArray = host.asarray(found, dtype=host.int64)
        return columns

    def _of_leaf(
        self,
        query: Any,
        columns: Any,
        y: Any,
        ridges: Sequence[float],
        hides: Any,
        *,
        squares: bool,
    ) -> tuple[float, Predicted]:
        """Return how far queries have to see, and the function at them, of the samples near."""
        xp, origin = namespace_of(query=query), query[:, :1]
        weight, y = xp.take(self._weight, columns), xp.take(y, columns, axis=1)
        sample = (xp.take(self._places, columns, axis=1) - origin) / self._scale
        query = (query - origin) / self._scale
        distances = [_squared(query[part, :], sample[part, :]) for part in self._parts]
        squared = reduce(add, distances)
        if hides is not None:
            squared = xp.where(hides, inf, squared)
        nearest = xp.clip(xp.min(squared, axis=1, keepdims=True), 0.0, None)
        sees = xp.isfinite(nearest)
        widening = xp.where(sees, xp.clip(nearest - _NEAR, 1.0, None), 1.0)
        limit = nearest + self._cutoff**2 * widening
        # The nearest is within two widths, so that its weight is no small number.
        p = self._kernel._weights(distances, widening)
        if self._is_cut:
            p = xp.where(squared <= limit, p, 0.0)
        if hides is not None:
            p = xp.where(hides & sees, 0.0, p)
        # The moments of the weights.
        f, t, m = sample.shape[0], y.shape[0], query.shape[1]
        is_linear = any(map(isfinite, ridges))
        second = [_products(sample, sample), _products(sample, y)] if is_linear else [sample**2]
        values = xp.concat([xp.ones_like(y[:1, :]), y, sample, *second], axis=0) * weight
        moments = p @ xp.matrix_transpose(values)
        total = moments[:, :1]
        moments = moments[:, 1:] / total
        mean_y, mean, second = moments[:, :t], moments[:, t : t + f], moments[:, t + f :]
        ratio = ((p * p) @ weight**2) / total[:, 0] ** 2
        away = mean - xp.matrix_transpose(query)
        if is_linear:
            cov = xp.reshape(second[:, : f * f], (m, f, f)) - mean[:, :, None] * mean[:, None, :]
            with_y = xp.reshape(second[:, f * f :], (m, f, t))
            cov_y = with_y - mean[:, :, None] * mean_y[:, None, :]
            spread = xp.linalg.trace(cov)
        else:
            spread = xp.sum(second - mean**2, axis=1)
        off = xp.sum(away**2, axis=1)
        lean = off / xp.clip(off + spread, _TINY, None)
        # A line for each ridge: what it adds to the mean, and to the weights.
        widening, means, tilt = widening[:, 0], [], None
        for ridge in ridges:
            if not isfinite(ridge):
                means.append(mean_y)
                tilt = None
                continue
            guard = ridge * widening * ratio + (widening - 1) * lean
            tilt = _tilt(cov, away, guard)
            means.append(mean_y + xp.sum(tilt * cov_y, axis=1))
        if squares and tilt is not None:
            slope = tilt[:, :, 0]
            p = p * (1 - xp.sum(slope * mean, axis=1, keepdims=True) + slope @ sample)
            ratio = ((p * p) @ weight**2) / total[:, 0] ** 2
        mean = xp.stack([xp.matrix_transpose(xp.where(sees, part, nan)) for part in means])
        return float(xp.max(xp.sqrt(limit))), Predicted(mean, ratio, xp.sqrt(nearest[:, 0]), lean)


def _tilt(cov: Any, away: Any, guard: Any) -> Any:
    """Return what a line adds to weights, for each distance from their mean, if it is not steep."""
    xp, f = namespace_of(cov=cov), away.shape[1]
    eye = xp.eye(f, dtype=cov.dtype, device=device_of(cov))
    tilt = -xp.linalg.solve(cov + guard[:, None, None] * eye, away[:, :, None])
    size = xp.sqrt(xp.clip(-xp.sum(tilt[:, :, 0] * away, axis=1), _TINY, None))
    return tilt * xp.clip(_MOST_TILT * f**0.5 / size, None, 1.0)[:, None, None]


def _squared(query: Any, sample: Any) -> Any:
    """Return the squared distances, (queries, samples), as one product; rounding may be below 0.

    Coordinates are from a query of the leaf, so that little cancels.
    """
    xp = namespace_of(query=query)
    q, k = (xp.sum(a * a, axis=0, keepdims=True) for a in (query, sample))
    queries = xp.concat([-2 * query, q, xp.ones_like(q)], axis=0)
    samples = xp.concat([sample, xp.ones_like(k), k], axis=0)
    return xp.matrix_transpose(queries) @ samples


def _rows(a: Any) -> list[Any]:
    return [a[i, :] for i in range(a.shape[0])]


def _products(a: Any, b: Any) -> Any:
    xp, n = namespace_of(a=a), a.shape[1]
    return xp.reshape(a[:, None, :] * b[None, :, :], (a.shape[0] * b.shape[0], n))
