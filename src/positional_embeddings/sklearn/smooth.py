"""One smooth function: attention of queries to samples, by one kernel.

Queries near each other form a leaf, and see the samples within its reach. Coordinates are measured
from a query of the leaf, in widths of the kernel, so that no moment cancels.
"""

from collections.abc import Iterator
from functools import partial
from math import inf, isfinite, isinf, log, nan
from typing import Any, NamedTuple, TypeAlias

from scipy.sparse import csr_array
from scipy.spatial import KDTree

from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import LEAST_SCORE, Term

# A kernel widens where the nearest sample is D > 2 widths away: its squared width grows to
# D**2 - _NEAR, 1 at 2 widths.
_NEAR = 3.0

# Weights below exp(-_NOTHING) of the largest one change nothing in float64.
_NOTHING = 41.0

# The most that a slope moves a mean, in local standard deviations times the root of columns.
_MAX_SLOPE = 1.4

# The most queries, weights and widths of a leaf.
_MOST_QUERIES, _MOST_WEIGHTS, _MOST_EXTENT = 1024, 2**16, 64.0

# The least divisor, and the farthest place from 0 in widths, whose square is finite.
_TINY, _FARTHEST = 1e-300, 1e150

# Widths added to a reach, since places are rounded.
_SLACK = 1e-3

# The options of a regressor, checked.
FitOptions: TypeAlias = dict[str, Any]


class Samples(NamedTuple):
    """Places with a weight above 0, in float64, or the shares of groups in places."""

    x: HostArray  # (columns, samples)
    y: HostArray  # (targets, samples): means at a place
    weight: HostArray  # (samples,)
    within: HostArray  # (targets, samples): variances at a place
    repeats: HostArray  # (samples,): number of measurements at a place, 1 if they agree

    def at(self, some: HostArray) -> "Samples":
        """Return some of them."""
        return Samples(*(own[..., some] for own in self))


class Visible(NamedTuple):
    """What queries see of places, (queries, places), where samples are hidden from them."""

    weight: HostArray  # the fraction of the weight
    is_other: HostArray  # whether it is there, and none of it is what was left out at the query
    squares: HostArray  # the fraction of the sum of squared weights
    moved: HostArray | None = None  # (targets, queries, places): by which the mean of y differs


_ALL_VISIBLE = Visible(np.ones(()), np.ones((), dtype=bool), np.ones(()))


class HoldOut(NamedTuple):
    """Samples hidden from a query: all of their labels are within a radius of its own."""

    own: HostArray  # (labels, queries)
    labels: HostArray  # (labels, samples)
    radius: float
    kept: HostArray  # (queries,): the fraction of their weight that hidden samples keep
    side: HostArray | None = None  # (queries,): 1 hides samples of a larger first label, too

    def at(self, some: HostArray) -> "HoldOut":
        """Return what is hidden from some of the queries."""
        return self._replace(own=self.own[:, some], kept=self.kept[some])

    def among(self, some: HostArray, samples: Samples) -> tuple[Samples, "HoldOut"]:
        """Return some samples, and what is hidden of them from themselves."""
        return samples, self.at(some)._replace(labels=self.labels[:, some])

    @property
    def sees_place(self) -> Array:
        """Tell which queries see some of their own place."""
        return self.kept > 0

    def visible(self, rows: HostArray, columns: HostArray) -> Visible:
        """Return what each query of some rows sees of some places."""
        away = self.labels[:, None, columns] - self.own[:, rows, None]
        near = np.all(abs(away) <= self.radius, axis=0)
        weight: HostArray = np.where(near, self.kept[rows, None], 1.0)
        if self.side is not None:
            weight = weight * (self.side[rows, None] * away[0] <= 0)
        return Visible(weight, weight == 1, weight**2)


class GroupParts(NamedTuple):
    """Shares of groups in places. A query does not see the shares of its own group."""

    group: HostArray  # (queries,)
    place: HostArray  # (queries,)
    sees_place: HostArray  # (queries,): whether other groups share the place
    share: csr_array  # (groups, places): which one a group has in a place, from 1
    # (2 + targets, 1 + shares): the fractions of the weight and of the sum of squared weights of a
    # place that a share has, and how far each mean there moves without it; first an empty share.
    taken: HostArray
    kept: float = 0.0  # nothing of a share is kept

    def at(self, some: HostArray) -> "GroupParts":
        """Return what is hidden from some of the queries."""
        group, place, sees_place = (own[some] for own in self[:3])
        return self._replace(group=group, place=place, sees_place=sees_place)

    def among(self, some: HostArray, shares: Samples) -> tuple[Samples, "GroupParts"]:
        """Return the places of some shares, and what is hidden of them from these."""
        places, _, hidden = merge_places(shares, self.group[some])
        return places, hidden

    def visible(self, rows: HostArray, columns: HostArray) -> Visible:
        """Return what each query of some rows sees of some places."""
        taken = self.taken[:, self.share[self.group[rows]][:, columns].toarray()]
        weight, squares = 1 - taken[:2]
        is_other = (weight > 0) & (columns != self.place[rows, None])
        return Visible(weight, is_other, squares, taken[2:])


# Places, the place of each share, and what is hidden from a query at each share.
LeaveOut: TypeAlias = tuple[Samples, HostArray, HoldOut | GroupParts]


def merge_places(shares: Samples, group: HostArray) -> tuple[Samples, HostArray, GroupParts]:
    """Return places of shares of groups, the place of each, and which are hidden from each.

    Shares of one place follow one another.
    """
    is_new = np.ones(group.size, dtype=bool)
    is_new[1:] = (shares.x[:, 1:] != shares.x[:, :-1]).any(axis=0)
    place, first = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
    total = partial(np.add.reduceat, indices=first, axis=-1)
    least, most = (f.reduceat(shares.y, first, axis=1) for f in (np.minimum, np.maximum))
    differ = (least < most).any(axis=0) | (np.maximum.reduceat(shares.repeats, first) > 1)
    weight, squared = total(shares.weight), shares.weight**2 / shares.repeats
    squares = np.where(differ, total(squared), weight**2)
    mean = total(shares.weight * shares.y) / weight
    off = shares.y - mean[:, place]
    within = total(shares.weight * (shares.within + off**2)) / weight
    places = Samples(shares.x[:, first], mean, weight, within, weight**2 / squares)
    is_shared = (np.bincount(place) > 1)[place]
    part = np.where(is_shared, shares.weight / weight[place], 1.0)
    square_part = np.where(differ[place], squared / squares[place], 1 - (1 - part) ** 2)
    moved = -off * np.where(part < 1, part / np.maximum(1 - part, _TINY), 0.0)
    taken = np.pad(np.stack([part, square_part, *moved]), ((0, 0), (1, 0)))
    share = csr_array((np.arange(1, group.size + 1), (group, place)))
    return places, place, GroupParts(group, place, part < 1, share, taken)


class Predicted(NamedTuple):
    """A smooth function at queries; NaN where a query sees no sample."""

    mean: HostArray  # (ridges, targets, queries)
    leverage: HostArray  # (ridges, queries): what 1 measured at the query alone would add
    squares: HostArray  # (queries,): sum of the squared weights, with the last ridge
    distance: HostArray  # ([terms,] queries): to the nearest sample seen whole, in widths, or inf
    asymmetry: (
        HostArray  # ([terms,] queries): 0 if samples are all around, 1 if all are on one side
    )


class Smooth:
    """Attention of queries to samples, by one product of kernels."""

    def __init__(
        self,
        factors: Term,
        samples: Samples,
        ridges: list[float],
        options: FitOptions,
        widened: float = 1.0,
    ) -> None:
        """Smooth samples by kernels whose widths are multiplied by `widened`."""
        self.factors, self.y, self.ridges = factors, samples.y, ridges
        self._is_linear = any(map(isfinite, ridges))
        cutoff = options["cutoff"]
        self._most_queries = options["block_size"] or _MOST_QUERIES
        scales = [factor._scales() for factor in factors]
        self._scale = widened * np.concatenate(scales)[:, None]
        self._stops = np.cumsum([len(own) for own in scales])[:-1]  # between factors' coordinates
        self._places = self._encode(samples.x)
        self._weight = samples.weight / samples.weight.max()
        self._squared_weight = self._weight**2 / samples.repeats
        self.mean_weight = np.mean(samples.weight / samples.repeats) / samples.weight.max()
        nothing = _NOTHING - log(self._weight.min())
        self._cutoff = min(
            cutoff or max(factor._visible_keys(nothing) for factor in factors), _FARTHEST
        )
        self._is_cut = cutoff is not None
        # Columns in which samples differ, the others have no slope.
        self._slopes = max(1, np.count_nonzero(np.ptp(self._places, axis=1)))
        self._tree = KDTree(self.points(samples.x))

    def _encode(self, x: HostArray) -> Array:
        """Return the coordinates, (features, samples), of samples (columns, samples)."""
        return np.concatenate([factor._encode(x) for factor in self.factors])

    def points(self, x: HostArray) -> HostArray:
        """Return places in widths of the kernel, (queries, features)."""
        points: HostArray = (self._encode(x) / self._scale).T
        if abs(points).max() > _FARTHEST:
            raise wrong_value("X", f"be within {_FARTHEST} widths of the kernel from 0", "more")
        return points

    def predict(
        self, x: HostArray, hidden: HoldOut | GroupParts | None, *, squares: bool
    ) -> Predicted:
        """Return the function at x for each ridge, and squares where asked for."""
        places, order, parts = self._encode(x), [], []
        for rows, middle, extent, first in self._leaves(self.points(x), hidden):
            visible_keys = first
            while True:
                columns = self._seen_from(middle, extent + visible_keys)
                visible = _ALL_VISIBLE if hidden is None else hidden.visible(rows, columns)
                needed, part = self._in_leaf(places[:, rows], columns, visible, squares=squares)
                if needed <= visible_keys or columns.size == self._tree.n:
                    break
                visible_keys = 4 * visible_keys if isinf(needed) else needed + _SLACK
            order.append(rows)
            parts.append(part)
        back = np.argsort(np.concatenate(order))
        joined = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        return Predicted(*(part[..., back] for part in joined))

    def _leaves(
        self, points: HostArray, hidden: HoldOut | GroupParts | None
    ) -> Iterator[tuple[Array, ...]]:
        """Return queries near each other, their middle and extent, and their reach."""
        nearest = self._tree.query(points, [1, min(2, self._tree.n)])[0] ** 2
        sees_nearest = hidden is None or hidden.sees_place
        squared = np.where(sees_nearest, nearest[:, 0], nearest[:, 1])
        widening = np.maximum(squared - _NEAR, 1.0)
        reaches = np.sqrt(squared + self._cutoff**2 * widening) + _SLACK
        stack = [np.arange(points.shape[0])]
        while stack:
            at = stack.pop()
            low, high = points[at].min(axis=0), points[at].max(axis=0)
            lengths, middle, half = high - low, (low + high) / 2, at.size // 2
            extent, visible_keys = float(np.linalg.norm(lengths)) / 2, float(reaches[at].max())
            if half and (
                at.size > self._most_queries
                or lengths.max() > _MOST_EXTENT * widening[at].min() ** 0.5
                or at.size * self._count(middle, extent + visible_keys) > _MOST_WEIGHTS
            ):
                order = np.argpartition(points[at, lengths.argmax()], half)
                stack += [at[order[:half]], at[order[half:]]]
            else:
                yield at, middle, extent, visible_keys

    def _count(self, middle: HostArray, radius: float) -> int:
        return int(self._tree.query_ball_point(middle, radius, return_length=True))

    def _seen_from(self, middle: HostArray, radius: float) -> Array:
        """Return the indices of the samples within a radius, and perhaps of more."""
        if 4 * self._count(middle, radius) > self._tree.n:  # lists of them take longer than all
            return np.arange(self._tree.n)
        found = self._tree.query_ball_point(middle, radius, return_sorted=True)
        return np.asarray(found, dtype=np.int64)

    def _in_leaf(
        self, query: HostArray, columns: HostArray, visible: Visible, *, squares: bool
    ) -> tuple[float, Predicted]:
        """Return how far queries have to see, and the function at them, of the samples near."""
        origin = query[:, :1]
        sample = (self._places[:, columns] - origin) / self._scale
        query = (query - origin) / self._scale
        parts = (np.split(coordinates, self._stops) for coordinates in (query, sample))
        distances = [_squared(q, k) for q, k in zip(*parts, strict=True)]
        squared = np.where(visible.weight > 0, sum(distances[1:], distances[0]), inf)
        nearest = np.maximum(squared.min(axis=1, keepdims=True), 0.0)
        sees = np.isfinite(nearest)
        widening = np.where(sees, np.maximum(nearest - _NEAR, 1.0), 1.0)
        limit = nearest + self._cutoff**2 * widening
        # The nearest is within two widths, so that its weight is no small number.
        scores = [f._score(d, widening) for f, d in zip(self.factors, distances, strict=True)]
        # Exponentials that underflow, and products of small numbers, take many times as long.
        whole = np.exp(np.maximum(sum(scores[1:], scores[0]), LEAST_SCORE))
        if self._is_cut:
            whole = np.where(squared <= limit, whole, 0.0)
        p = whole * np.where(sees, visible.weight, 1.0)
        total, means, second = self._moments(p, sample, columns, visible.moved)
        mean, mean_y = np.split(means, [len(sample)], axis=1)
        ratio = ((p * self._weight[columns]) ** 2).sum(axis=1) / total[:, 0] ** 2
        away = mean - query.T
        if self._is_linear:
            second = second - mean[:, :, None] * means[:, None, :]
            cov, cov_y = np.split(second, [len(sample)], axis=2)
            spread = np.trace(cov, axis1=1, axis2=2)
        else:
            spread = (second - mean**2).sum(axis=1)
        off = (away**2).sum(axis=1)
        asymmetry = off / np.maximum(off + spread, _TINY)
        # A line for each ridge: what it adds to the mean, and to the weights.
        widening, away = widening[:, 0], away[:, :, None]
        local_ridges = (
            ridge * widening * ratio + (widening - 1) * asymmetry for ridge in self.ridges
        )
        slopes = [
            _slope(cov, away, local, self._slopes) if isfinite(ridge) else np.zeros_like(away)
            for ridge, local in zip(self.ridges, local_ridges, strict=True)
        ]
        found = [mean_y + (t * cov_y).sum(axis=1) if self._is_linear else mean_y for t in slopes]
        found = np.stack([np.where(sees, part, nan).T for part in found])
        leverage = [(1 - (slope * away).sum(axis=(1, 2))) / total[:, 0] for slope in slopes]
        if squares:
            slope = slopes[-1][:, :, 0]
            line = 1 - (slope * mean).sum(axis=1, keepdims=True) + slope @ sample
            p = (whole * line) ** 2 * visible.squares
            ratio = p @ self._squared_weight[columns] / total[:, 0] ** 2
        # A leaf may see what is beyond the limit of a query.
        squared = np.where(visible.is_other & (squared <= limit), squared, inf)
        distance = np.sqrt(np.maximum(squared.min(axis=1), 0.0))
        return np.sqrt(limit).max(), Predicted(
            found, np.stack(leverage), ratio, distance, asymmetry
        )

    def _moments(
        self, p: HostArray, sample: HostArray, columns: HostArray, moved: HostArray | None
    ) -> tuple[Array, Array, Array]:
        """Return the sum of weights, the means of columns and targets, and second moments.

        These are of columns with columns and targets, (queries, columns, columns + targets), or of
        each column with itself.
        """
        weight, y, f = self._weight[columns], self.y[:, columns], len(sample)
        both = np.concatenate([sample, y])
        second = (sample[:, None] * both).reshape(-1, y.shape[1]) if self._is_linear else sample**2
        moments = p @ (np.concatenate([np.ones_like(y[:1]), both, second]) * weight).T
        total = moments[:, :1]
        means, second = np.split(moments[:, 1:] / total, [len(both)], axis=1)
        if self._is_linear:
            second = second.reshape(len(p), f, len(both))
        if moved is not None:
            shifts = p * weight * moved / total  # (targets, queries, places)
            means[:, f:] += shifts.sum(axis=2).T
            if self._is_linear:
                second[:, :, f:] += (shifts @ sample.T).transpose(1, 2, 0)
        return total, means, second


def _slope(cov: HostArray, away: HostArray, ridge: HostArray, slopes: int) -> Array:
    """Return what a line adds to weights, for each distance from their mean, if it is not steep."""
    slope = -np.linalg.solve(cov + ridge[:, None, None] * np.eye(away.shape[1]), away)
    size = np.sqrt(np.maximum(-(slope * away).sum(axis=1, keepdims=True), _TINY))
    return slope * np.minimum(_MAX_SLOPE * slopes**0.5 / size, 1.0)


def _squared(query: HostArray, sample: HostArray) -> Array:
    """Return the squared distances, (queries, samples), as one product; rounding may be below 0.

    Coordinates are from a query of the leaf, so that little cancels.
    """
    q, k = ((a * a).sum(axis=0, keepdims=True) for a in (query, sample))
    queries = np.concatenate([-2 * query, q, np.ones_like(q)])
    return queries.T @ np.concatenate([sample, np.ones_like(k), k])
