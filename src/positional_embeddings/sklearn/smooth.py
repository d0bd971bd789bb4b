"""Kernel smoothing of one function: attention of queries to samples.

A leaf is a set of neighbouring queries and the samples within its radius. Coordinates are relative
to a query of the leaf, in widths of the kernel, so that moments do not cancel.
"""

from collections.abc import Iterator
from functools import partial
from math import inf, isfinite, isinf, log, nan
from typing import Any, NamedTuple, TypeAlias

from scipy.sparse import csr_array
from scipy.spatial import KDTree

from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.sklearn.kernels import MIN_LOG_WEIGHT, Term

# A kernel widens where the distance D of the nearest sample is above 2 widths: its squared width
# grows to D**2 - _NEAR, which is 1 at 2 widths.
_NEAR = 3.0

# Weights below exp(-_NEGLIGIBLE) of the largest weight change nothing in float64.
_NEGLIGIBLE = 41.0

# The largest shift of a mean by a slope, in local standard deviations times the root of columns.
_MAX_SHIFT = 1.4

# The largest number of queries and of weights, and the largest extent in widths, of a leaf.
_MAX_QUERIES, _MAX_WEIGHTS, _MAX_EXTENT = 1024, 2**16, 64.0

# The smallest divisor, and the largest coordinate in widths, whose square is finite.
_MIN_DIVISOR, _MAX_WIDTHS = 1e-300, 1e150

# Widths added to a radius, since coordinates are rounded.
_SLACK = 1e-3

# The checked options of a regressor.
FitOptions: TypeAlias = dict[str, Any]


class Samples(NamedTuple):
    """Measurements at each location, or of each group at a location, with positive weights."""

    x: HostArray  # (columns, samples)
    y: HostArray  # (targets, samples): mean of the measurements
    weight: HostArray  # (samples,)
    variance: HostArray  # (targets, samples): variance of the measurements
    replicates: HostArray  # (samples,): number of measurements, 1 if all are equal

    def take(self, indices: HostArray) -> "Samples":
        """Return a subset of the samples."""
        return Samples(*(field[..., indices] for field in self))


class Visible(NamedTuple):
    """The visible part of each sample for each query, (queries, samples)."""

    weight: HostArray  # the fraction of the weight
    is_neighbour: HostArray  # whether the distance from the query counts
    squared_weight: HostArray  # the fraction of the sum of squared weights
    shift: HostArray | None = None  # (targets, queries, samples): change of the mean of y


_ALL_VISIBLE = Visible(np.ones(()), np.ones((), dtype=bool), np.ones(()))


class HoldOut(NamedTuple):
    """Hide the samples whose labels all differ by at most a radius from the query's labels."""

    query_labels: HostArray  # (labels, queries)
    sample_labels: HostArray  # (labels, samples)
    radius: float
    visible_part: HostArray  # (queries,): the fraction of the weight of a hidden sample that stays
    side: HostArray | None = None  # (queries,): 1 also hides samples of a larger first label

    def take(self, indices: HostArray) -> "HoldOut":
        """Return the same rule for a subset of the queries."""
        queries = self.query_labels[:, indices]
        return self._replace(query_labels=queries, visible_part=self.visible_part[indices])

    def restrict(self, indices: HostArray, observations: Samples) -> tuple[Samples, "HoldOut"]:
        """Return a subset of observations as samples, and the rule that hides each from itself."""
        labels = self.sample_labels[:, indices]
        return observations, self.take(indices)._replace(sample_labels=labels)

    @property
    def sees_location(self) -> Array:
        """Whether each query sees a part of the sample at its location."""
        return self.visible_part > 0

    def visible(self, queries: HostArray, columns: HostArray) -> Visible:
        """Return the visible parts of a subset of samples for a subset of queries."""
        offset = self.sample_labels[:, None, columns] - self.query_labels[:, queries, None]
        is_hidden = np.all(abs(offset) <= self.radius, axis=0)
        weight: HostArray = np.where(is_hidden, self.visible_part[queries, None], 1.0)
        if self.side is not None:
            weight = weight * (self.side[queries, None] * offset[0] <= 0)
        return Visible(weight, weight == 1, weight**2)


class GroupParts(NamedTuple):
    """Hide the observations of a query's group: the part of the group in each sample."""

    group: HostArray  # (queries,)
    location: HostArray  # (queries,): index of the sample at the query's location
    sees_location: HostArray  # (queries,): whether that sample has observations of other groups
    part_index: csr_array  # (groups, samples): from 1; 0 where a group has no observation
    # (2 + targets, 1 + parts): fractions of the weight and of the sum of squared weights that
    # hiding a part removes from its sample, and the changes of the means. Part 0 is empty.
    removed: HostArray
    visible_part: float = 0.0

    def take(self, indices: HostArray) -> "GroupParts":
        """Return the same rule for a subset of the queries."""
        group, location, sees_location = (field[indices] for field in self[:3])
        return self._replace(group=group, location=location, sees_location=sees_location)

    def restrict(self, indices: HostArray, observations: Samples) -> tuple[Samples, "GroupParts"]:
        """Return samples of a subset of observations, and the rule that hides their groups."""
        samples, _, hidden = merge_locations(observations, self.group[indices])
        return samples, hidden

    def visible(self, queries: HostArray, columns: HostArray) -> Visible:
        """Return the visible parts of a subset of samples for a subset of queries."""
        removed = self.removed[:, self.part_index[self.group[queries]][:, columns].toarray()]
        weight, squared_weight = 1 - removed[:2]
        is_neighbour = (weight > 0) & (columns != self.location[queries, None])
        return Visible(weight, is_neighbour, squared_weight, removed[2:])


# Samples, the index of the sample of each observation, and the rule of leave-one-out predictions.
LeaveOut: TypeAlias = tuple[Samples, HostArray, HoldOut | GroupParts]


def merge_locations(parts: Samples, group: HostArray) -> tuple[Samples, HostArray, GroupParts]:
    """Merge the parts of all groups at a location, which are adjacent, into one sample."""
    is_new = np.ones(group.size, dtype=bool)
    is_new[1:] = (parts.x[:, 1:] != parts.x[:, :-1]).any(axis=0)
    location, first = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
    total = partial(np.add.reduceat, indices=first, axis=-1)
    low, high = (f.reduceat(parts.y, first, axis=1) for f in (np.minimum, np.maximum))
    differ = (low < high).any(axis=0) | (np.maximum.reduceat(parts.replicates, first) > 1)
    weight, squared = total(parts.weight), parts.weight**2 / parts.replicates
    squares = np.where(differ, total(squared), weight**2)
    mean = total(parts.weight * parts.y) / weight
    deviation = parts.y - mean[:, location]
    variance = total(parts.weight * (parts.variance + deviation**2)) / weight
    samples = Samples(parts.x[:, first], mean, weight, variance, weight**2 / squares)
    is_shared = (np.bincount(location) > 1)[location]
    part = np.where(is_shared, parts.weight / weight[location], 1.0)
    squared_part = np.where(differ[location], squared / squares[location], 1 - (1 - part) ** 2)
    shift = -deviation * np.where(part < 1, part / np.maximum(1 - part, _MIN_DIVISOR), 0.0)
    removed = np.pad(np.stack([part, squared_part, *shift]), ((0, 0), (1, 0)))
    part_index = csr_array((np.arange(1, group.size + 1), (group, location)))
    return samples, location, GroupParts(group, location, part < 1, part_index, removed)


class Prediction(NamedTuple):
    """A smooth function at queries; NaN where no sample is visible."""

    mean: HostArray  # (ridges, targets, queries)
    leverage: HostArray  # (ridges, queries): derivative by a measurement at the query
    squares: HostArray  # (queries,): sum of the squared weights, for the last ridge
    distance: HostArray  # ([terms,] queries): from the nearest neighbour, in widths, or inf
    asymmetry: HostArray  # ([terms,] queries): 0 with samples all around, 1 with all on one side


class KernelSmoother:
    """Attention of queries to samples, with a product of kernels."""

    def __init__(
        self,
        factors: Term,
        samples: Samples,
        ridges: list[float],
        options: FitOptions,
        width_factor: float = 1.0,
    ) -> None:
        self.factors, self.y, self.ridges = factors, samples.y, ridges
        self._is_linear = any(map(isfinite, ridges))
        cutoff = options["cutoff"]
        self._max_queries = options["block_size"] or _MAX_QUERIES
        scales = [factor._scales() for factor in factors]
        self._scale = width_factor * np.concatenate(scales)[:, None]
        self._splits = np.cumsum([len(widths) for widths in scales])[:-1]  # between factors
        self._features = self._encode(samples.x)
        self._weight = samples.weight / samples.weight.max()
        self._squared_weight = self._weight**2 / samples.replicates
        self.mean_weight = np.mean(samples.weight / samples.replicates) / samples.weight.max()
        negligible = _NEGLIGIBLE - log(self._weight.min())
        radius = cutoff or max(factor._radius(negligible) for factor in factors)
        self._cutoff = min(radius, _MAX_WIDTHS)
        self._is_cut = cutoff is not None
        # Columns that are not constant.
        self._dims = max(1, np.count_nonzero(np.ptp(self._features, axis=1)))
        self._tree = KDTree(self.points(samples.x))

    def _encode(self, x: HostArray) -> Array:
        """Return features, (features, samples), of x, (columns, samples)."""
        return np.concatenate([factor._encode(x) for factor in self.factors])

    def points(self, x: HostArray) -> HostArray:
        """Return features in widths of the kernel, (queries, features)."""
        points: HostArray = (self._encode(x) / self._scale).T
        if abs(points).max() > _MAX_WIDTHS:
            raise wrong_value("X", f"be within {_MAX_WIDTHS} widths of the kernel from 0", "more")
        return points

    def predict(
        self, x: HostArray, hidden: HoldOut | GroupParts | None, *, squares: bool
    ) -> Prediction:
        """Return the function at x for each ridge, and the squared weights if requested."""
        features, order, parts = self._encode(x), [], []
        for rows, center, extent, start in self._leaves(self.points(x), hidden):
            radius = start
            while True:
                columns = self._within(center, extent + radius)
                visible = _ALL_VISIBLE if hidden is None else hidden.visible(rows, columns)
                query = features[:, rows]
                required, part = self._predict_leaf(query, columns, visible, squares=squares)
                if required <= radius or columns.size == self._tree.n:
                    break
                radius = 4 * radius if isinf(required) else required + _SLACK
            order.append(rows)
            parts.append(part)
        inverse = np.argsort(np.concatenate(order))
        fields = (np.concatenate(leaves, axis=-1) for leaves in zip(*parts, strict=True))
        return Prediction(*(field[..., inverse] for field in fields))

    def _leaves(
        self, points: HostArray, hidden: HoldOut | GroupParts | None
    ) -> Iterator[tuple[Array, ...]]:
        """Yield the queries, center, extent and radius of each leaf."""
        nearest = self._tree.query(points, [1, min(2, self._tree.n)])[0] ** 2
        sees_nearest = hidden is None or hidden.sees_location
        squared = np.where(sees_nearest, nearest[:, 0], nearest[:, 1])
        widening = np.maximum(squared - _NEAR, 1.0)
        radii = np.sqrt(squared + self._cutoff**2 * widening) + _SLACK
        stack = [np.arange(points.shape[0])]
        while stack:
            rows = stack.pop()
            low, high = points[rows].min(axis=0), points[rows].max(axis=0)
            lengths, center, half = high - low, (low + high) / 2, rows.size // 2
            extent, radius = float(np.linalg.norm(lengths)) / 2, float(radii[rows].max())
            if half and (
                rows.size > self._max_queries
                or lengths.max() > _MAX_EXTENT * widening[rows].min() ** 0.5
                or rows.size * self._count_within(center, extent + radius) > _MAX_WEIGHTS
            ):
                order = np.argpartition(points[rows, lengths.argmax()], half)
                stack += [rows[order[:half]], rows[order[half:]]]
            else:
                yield rows, center, extent, radius

    def _count_within(self, center: HostArray, radius: float) -> int:
        return int(self._tree.query_ball_point(center, radius, return_length=True))

    def _within(self, center: HostArray, radius: float) -> Array:
        """Return indices of samples that include all samples within a radius."""
        if 4 * self._count_within(center, radius) > self._tree.n:  # long lists are slower
            return np.arange(self._tree.n)
        indices = self._tree.query_ball_point(center, radius, return_sorted=True)
        return np.asarray(indices, dtype=np.int64)

    def _predict_leaf(
        self, query: HostArray, columns: HostArray, visible: Visible, *, squares: bool
    ) -> tuple[float, Prediction]:
        """Return the radius that the queries of a leaf require, and their prediction."""
        origin = query[:, :1]
        sample = (self._features[:, columns] - origin) / self._scale
        query = (query - origin) / self._scale
        parts = (np.split(coordinates, self._splits) for coordinates in (query, sample))
        distances = [_squared_distances(q, k) for q, k in zip(*parts, strict=True)]
        squared = np.where(visible.weight > 0, sum(distances[1:], distances[0]), inf)
        nearest = np.maximum(squared.min(axis=1, keepdims=True), 0.0)
        sees_sample = np.isfinite(nearest)
        widening = np.where(sees_sample, np.maximum(nearest - _NEAR, 1.0), 1.0)
        limit = nearest + self._cutoff**2 * widening
        # The nearest sample is within two widths, so that its weight is not small.
        scores = [f._log_weight(d, widening) for f, d in zip(self.factors, distances, strict=True)]
        # Exponentials that underflow, and products of small numbers, are several times slower.
        kernel_weight = np.exp(np.maximum(sum(scores[1:], scores[0]), MIN_LOG_WEIGHT))
        if self._is_cut:
            kernel_weight = np.where(squared <= limit, kernel_weight, 0.0)
        p = kernel_weight * np.where(sees_sample, visible.weight, 1.0)
        total, means, second = self._moments(p, sample, columns, visible.shift)
        mean, mean_y = np.split(means, [len(sample)], axis=1)
        ratio = ((p * self._weight[columns]) ** 2).sum(axis=1) / total[:, 0] ** 2
        offset = mean - query.T
        if self._is_linear:
            second = second - mean[:, :, None] * means[:, None, :]
            cov, cov_y = np.split(second, [len(sample)], axis=2)
            spread = np.trace(cov, axis1=1, axis2=2)
        else:
            spread = (second - mean**2).sum(axis=1)
        squared_offset = (offset**2).sum(axis=1)
        asymmetry = squared_offset / np.maximum(squared_offset + spread, _MIN_DIVISOR)
        widening, offset = widening[:, 0], offset[:, :, None]
        extra = (widening - 1) * asymmetry
        local_ridges = (ridge * widening * ratio + extra for ridge in self.ridges)
        slopes = [
            _slope(cov, offset, local, self._dims) if isfinite(ridge) else np.zeros_like(offset)
            for ridge, local in zip(self.ridges, local_ridges, strict=True)
        ]
        values = [mean_y + (t * cov_y).sum(axis=1) if self._is_linear else mean_y for t in slopes]
        values = np.stack([np.where(sees_sample, value, nan).T for value in values])
        leverage = [(1 - (slope * offset).sum(axis=(1, 2))) / total[:, 0] for slope in slopes]
        if squares:
            slope = slopes[-1][:, :, 0]
            line = 1 - (slope * mean).sum(axis=1, keepdims=True) + slope @ sample
            p = (kernel_weight * line) ** 2 * visible.squared_weight
            ratio = p @ self._squared_weight[columns] / total[:, 0] ** 2
        # A leaf may include samples beyond the limit of a query.
        squared = np.where(visible.is_neighbour & (squared <= limit), squared, inf)
        distance = np.sqrt(np.maximum(squared.min(axis=1), 0.0))
        prediction = Prediction(values, np.stack(leverage), ratio, distance, asymmetry)
        return np.sqrt(limit).max(), prediction

    def _moments(
        self, p: HostArray, sample: HostArray, columns: HostArray, shift: HostArray | None
    ) -> tuple[Array, Array, Array]:
        """Return the sum of weights, the means of columns and targets, and second moments.

        Second moments are (queries, columns, columns + targets), or without lines (queries,
        columns), the moment of each column with itself.
        """
        weight, y, f = self._weight[columns], self.y[:, columns], len(sample)
        data = np.concatenate([sample, y])
        second = (sample[:, None] * data).reshape(-1, y.shape[1]) if self._is_linear else sample**2
        moments = p @ (np.concatenate([np.ones_like(y[:1]), data, second]) * weight).T
        total = moments[:, :1]
        means, second = np.split(moments[:, 1:] / total, [len(data)], axis=1)
        if self._is_linear:
            second = second.reshape(len(p), f, len(data))
        if shift is not None:
            shifts = p * weight * shift / total  # (targets, queries, samples)
            means[:, f:] += shifts.sum(axis=2).T
            if self._is_linear:
                second[:, :, f:] += (shifts @ sample.T).transpose(1, 2, 0)
        return total, means, second


def _slope(cov: HostArray, offset: HostArray, ridge: HostArray, dimensions: int) -> Array:
    """Return the vector t of a local line: it multiplies a weight by 1 + t @ (x - mean)."""
    slope = -np.linalg.solve(cov + ridge[:, None, None] * np.eye(offset.shape[1]), offset)
    size = np.sqrt(np.maximum(-(slope * offset).sum(axis=1, keepdims=True), _MIN_DIVISOR))
    return slope * np.minimum(_MAX_SHIFT * dimensions**0.5 / size, 1.0)


def _squared_distances(query: HostArray, sample: HostArray) -> Array:
    """Return the squared distances, (queries, samples), as one matrix product.

    Coordinates are relative to a query of the leaf, which limits cancellation. Rounding may give
    negative numbers.
    """
    q, k = ((a * a).sum(axis=0, keepdims=True) for a in (query, sample))
    queries = np.concatenate([-2 * query, q, np.ones_like(q)])
    return queries.T @ np.concatenate([sample, np.ones_like(k), k])
