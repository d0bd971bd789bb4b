"""Positions of queries and keys, and lengths of sequences, as arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import namespace, values
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.library import library_of, library_of_namespace
from positional_embeddings.arrays.namespace import Array, Device, Dtype, Namespace, np


def farthest_position(dtype: Any, xp: Namespace) -> int:
    """Return the farthest position from 0 at which distances, and their doubles, fit a dtype."""
    return int(xp.iinfo(dtype).max) // 4


def position_interval(
    q_len: int, k_len: int | None, offset: int | None, xp: Namespace, device: Device | None
) -> tuple[tuple[int, int], int]:
    """Check lengths; return the positions of the first query and after the last, and `k_len`."""
    queries = checks.positive_integer("q_len", q_len)
    keys = queries if k_len is None else checks.positive_integer("k_len", k_len)
    start = keys - queries if offset is None else checks.integer("offset", offset)
    dtype = namespace.default_integer(xp, device)
    check_length("q_len", queries, dtype, xp)
    check_length("k_len", keys, dtype, xp)
    farthest = farthest_position(dtype, xp)
    if not -farthest <= start <= farthest - queries:
        raise wrong_value("offset", f"keep positions within {farthest}, {_why(dtype)}", start)
    return (start, start + queries), keys


def check_length(name: str, length: int, dtype: Dtype, xp: Namespace) -> None:
    """Check that a dtype holds all distances between this number of positions."""
    farthest = farthest_position(dtype, xp)
    if length > farthest:
        raise wrong_value(name, f"be at most {farthest}, {_why(dtype)}", shown(length))


def _why(dtype: Dtype) -> str:
    return f"so that {namespace.dtype_name(dtype)} holds all distances"


def position_array(name: str, positions: Any, xp: Namespace, device: Device | None) -> Any:
    """Return integer positions, an array or one number, as default integers of a library.

    Those in the memory of the host are checked: the dtype holds all distances between them.
    """
    dtype = namespace.default_integer(xp, device)
    farthest = farthest_position(dtype, xp)
    numbers = [positions]
    if not isinstance(positions, int):
        wide = xp.asarray(positions, dtype=dtype, device=device)
        # An unsigned number that the dtype does not hold has become a negative one.
        least = 0 if namespace.is_dtype(positions.dtype, "unsigned integer", xp) else -farthest
        if not (
            library_of(positions).is_readable(positions)
            and library_of(positions).is_on_host(positions)
        ):
            return wide
        if not values.is_concretely_true(xp.any((wide < least) | (wide > farthest))):
            return wide
        numbers = namespace.to_host(positions, xp).reshape(-1).tolist()
    for n in numbers:
        if abs(n) > farthest:
            what = f"hold positions within {farthest}, {_why(dtype)}"
            raise wrong_value(name, what, shown(n))
    return xp.asarray(positions, dtype=dtype, device=device)


def positions_of_ranges(
    ranges: Sequence[tuple[int, int]],
    xp: Namespace,
    device: Device | None,
    numbers: int = 1,
    dtype: Dtype | None = None,
) -> Any:
    """Return the positions from each start to before its stop as one array.

    What is made of pairs of them has this many numbers for each, such as heads. The dtype is the
    default integer unless another one is given.
    """
    dtype = namespace.default_integer(xp, device) if dtype is None else dtype
    if len(ranges) == 1:
        return library_of_namespace(xp).arange_for_pairs(*ranges[0], numbers, dtype, device, xp)
    starts, stops = np.asarray(ranges, dtype=np.int64).reshape(len(ranges), 2).T
    lengths = stops - starts
    ends = np.cumulative_sum(lengths)
    # Each range is shifted from where it is among all of them.
    positions = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
    return xp.asarray(positions, dtype=dtype, device=device)


# More ranges of an array are gathered by their indices.
_FEW_RANGES = 8


class Span(NamedTuple):
    """Queries or keys, by ascending ranges or by a start that only a trace knows."""

    ranges: tuple[tuple[int, int], ...] | None  # None if the start is traced
    size: Any  # how many there are
    start: Any = None  # 0-d array of int, with no ranges

    def shifted(self, by: int) -> "Span":
        """Return the span moved by a number of positions."""
        if self.ranges is None:
            return self._replace(start=self.start + by)
        return self._replace(ranges=tuple((a + by, b + by) for a, b in self.ranges))

    def positions(
        self, xp: Namespace, device: Device | None, numbers: int = 1, dtype: Dtype | None = None
    ) -> Any:
        """Return all positions as one array; see `positions_of_ranges`."""
        if self.ranges is not None:
            return positions_of_ranges(self.ranges, xp, device, numbers, dtype)
        dtype = namespace.default_integer(xp, device)
        return self.start + xp.arange(self.size, dtype=dtype, device=device)

    def take(self, array: Any, axis: int, xp: Namespace) -> Any:
        """Return these queries or keys of an array on axis -1 or -2; one for all broadcasts."""
        if array is None:
            return None
        size = array.shape[axis]
        if not checks.known_to_differ(self.size, size) or (size == 1 and self.size != 0):
            return array
        if self.ranges is None or len(self.ranges) > _FEW_RANGES:
            return xp.take(array, self.positions(xp, namespace.device_of(array)), axis=axis)
        after = (slice(None),) * (-1 - axis)
        parts = [array[(..., slice(start, stop), *after)] for start, stop in self.ranges]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=axis)


def span_of(*ranges: tuple[int, int]) -> Span:
    """Return the span of ascending ranges, an empty one if there is none."""
    return Span(ranges or ((0, 0),), sum(stop - start for start, stop in ranges))


def resolve_positions(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: Array | None,
    key_positions: Array | None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
    numbers: int = 1,
    **parameters: Array,
) -> tuple[Namespace, Any, Any]:
    """Return the namespace and the positions of queries and keys, from lengths or from arrays.

    `numbers` counts the numbers for each pair of positions, such as heads.
    The namespace comes from the positions and the learned `parameters`; without any, it is `xp`.
    """
    if query_positions is not None:
        for name, value in (("q_len", q_len), ("k_len", k_len), ("offset", offset)):
            if value is not None:
                raise wrong_value(name, "be left out with `query_positions`", value)
        if xp is not None or device is not None:
            message = "`xp` and `device` must be left out with `query_positions`."
            raise TypeError(message)
        given = namespace.drop_none(query_positions=query_positions, key_positions=key_positions)
        xp = namespace.namespace_of(**parameters, **given)
        return xp, query_positions, given.get("key_positions", query_positions)
    if key_positions is not None:
        raise wrong_type("query_positions", "be given with `key_positions`", "None")
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    if parameters:
        xp = namespace.namespace_of(**parameters)
        device = namespace.device_of(next(iter(parameters.values())))
        numbers = max([n for array in parameters.values() for n in array.shape] or [1])
    else:
        xp = namespace.namespace_or_numpy(xp)
    queries, keys = position_interval(q_len, k_len, offset, xp, device)
    query, key = (
        positions_of_ranges((interval,), xp, device, numbers) for interval in (queries, (0, keys))
    )
    return xp, query, key


def length_array(
    name: str,
    lengths: Any,
    xp: Namespace | None,
    device: Device | None,
    axis: str = "batch",
) -> tuple[Namespace, Any]:
    """Check lengths, 0 or more; return their namespace, and them as default integers."""
    if isinstance(lengths, list | tuple | range):
        xp = namespace.namespace_or_numpy(xp)
        numbers = checks.integers(name, lengths)
        dtype = namespace.default_integer(xp, device)
        _check_lengths(name, numbers, None, "", dtype, xp)
        return xp, xp.asarray(numbers, dtype=dtype, device=device)
    if xp is not None or device is not None:
        message = f"`xp` and `device` must be left out where `{name}` is an array."
        raise TypeError(message)
    xp = namespace.namespace_of(**{name: lengths})
    checks.integral(name, lengths, xp)
    if lengths.ndim != 1:
        raise wrong_value(name, f"have shape ({axis},)", tuple(lengths.shape))
    # uint64 wraps when it is cast, and does not compare with Python's integers everywhere.
    dtype = namespace.default_integer(xp, namespace.device_of(lengths))
    wide = xp.astype(lengths, dtype, copy=False)
    _check_array(name, lengths, wide, None, "", xp)
    return xp, wide


def check_largest(name: str, lengths: Any, most: int, most_name: str) -> None:
    """Check that lengths are at most a number, if they can be read."""
    _check_array(name, lengths, lengths, most, most_name, namespace.namespace_of(**{name: lengths}))


def _check_array(
    name: str, lengths: Any, wide: Any, most: int | None, most_name: str, xp: Namespace
) -> None:
    """Check an array of lengths, `wide` in a signed dtype, if it can be read."""
    largest = int(xp.iinfo(wide.dtype).max) if most is None else most
    if values.is_concretely_true(xp.any((wide < 0) | (wide > largest))):
        numbers = [int(lengths[i]) for i in range(lengths.shape[0])]
        _check_lengths(name, numbers, most, most_name, wide.dtype, xp)


def _check_lengths(
    name: str, lengths: Sequence[int], most: int | None, most_name: str, dtype: Dtype, xp: Namespace
) -> None:
    bound = "0 or more" if most is None else f"between 0 and {most_name} = {most}"
    largest = int(xp.iinfo(dtype).max)
    for i, n in enumerate(lengths):
        if n < 0 or (most is not None and n > most):
            raise wrong_value(name, f"be {bound}", f"{shown(n)} at index {i}")
        if n > largest:
            bound = f"between 0 and the largest {namespace.dtype_name(dtype)} = {largest}"
            raise wrong_value(name, f"be {bound}", f"{shown(n)} at index {i}")


def sequence_axis(name: str, array: Any, seq_axis: int) -> int:
    """Return the axis of the sequence, counted from 0, of an array with or without a batch."""
    if array.ndim not in (1, 2):
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
    return axes.axis_of("seq_axis", seq_axis, array.ndim, name)
