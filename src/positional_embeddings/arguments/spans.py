"""Positions of queries and keys, and lengths of sequences, as arrays."""

from collections.abc import Iterator
from typing import NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.find import new_space, space_of
from positional_embeddings.arrays.namespace import AnyArray, Array, Device, Length, Namespace, np
from positional_embeddings.arrays.space import Space

_TOKENIZER_HINT = " Write PaddingMask.from_attention_mask(...) for the mask of a tokenizer."


def farthest_position(space: Space) -> int:
    """Return the farthest position from 0 at which integers hold distances, and their doubles."""
    return dtypes.largest_integer(space.integer, space.xp) // 4


def position_interval(
    q_len: int, k_len: int | None, offset: int | None, space: Space
) -> tuple[tuple[int, int], int]:
    """Check lengths; return the positions of the first query and after the last, and `k_len`."""
    q_len = checks.axis_length("q_len", q_len)
    k_len = q_len if k_len is None else checks.axis_length("k_len", k_len)
    start = first_position(q_len, k_len, offset, space)
    return (start, start + q_len), k_len


def first_position(q_len: int, k_len: int, offset: int | None, space: Space) -> int:
    """Return the position of the first query; check that integers hold all distances."""
    farthest = farthest_position(space)
    for name, length in (("q_len", q_len), ("k_len", k_len)):
        if not length <= farthest:  # NaN is a length that dask does not know
            raise wrong_value(name, f"be at most {farthest}, {_why(space)}", shown(length))
    start = k_len - q_len if offset is None else checks.integer("offset", offset)
    if not -farthest <= start <= farthest - q_len:
        raise wrong_value("offset", f"keep positions within {farthest}, {_why(space)}", start)
    return start


def _why(space: Space) -> str:
    return f"so that {dtypes.dtype_name(space.integer)} holds all distances"


def position_array(name: str, positions: Array, space: Space) -> Array:
    """Return integer positions, an array or one number, as default integers of a library.

    Those in the memory of the host are checked: the dtype holds all distances between them.
    """
    xp, farthest = space.xp, farthest_position(space)
    numbers = [positions]
    if not isinstance(positions, int):
        wide = xp.asarray(positions, dtype=space.integer, device=space.device)
        # An unsigned number that the dtype does not hold has become a negative one.
        least = 0 if dtypes.is_dtype(positions.dtype, "unsigned integer", xp) else -farthest
        is_there = space.is_readable(positions) and space.is_on_host(positions)
        if not (is_there and space.is_true(xp.any((wide < least) | (wide > farthest)))):
            return wide
        numbers = space.to_numpy(positions).ravel().tolist()
    for n in numbers:
        if abs(n) > farthest:
            raise wrong_value(name, f"hold positions within {farthest}, {_why(space)}", shown(n))
    return xp.asarray(positions, dtype=space.integer, device=space.device)


# Chunk (query, key) axes as an array of these lengths would be.
_MANY_PAIRS = 2**17, 2**17

# More ranges of an array are gathered by their indices.
_FEW_RANGES = 8


class Span(NamedTuple):
    """Queries or keys, by ascending ranges or by a start that only a trace knows."""

    ranges: tuple[tuple[int, int], ...] | None  # None if the start is traced
    size: Length  # how many there are
    start: Array = None  # 0-d array of int, with no ranges

    def shifted(self, by: int) -> "Span":
        """Return the span moved by a number of positions."""
        if self.ranges is None:
            return Span(None, self.size, self.start + by)
        return Span(tuple([(a + by, b + by) for a, b in self.ranges]), self.size)

    def positions(self, space: Space, numbers: int = 1) -> Array:
        """Return all positions as one array.

        What is made of pairs of them has this many numbers for each, such as heads.
        """
        if self.ranges is None:
            return self.start + space.xp.arange(self.size, dtype=space.integer, device=space.device)
        if len(self.ranges) == 1:
            return space.arange(*self.ranges[0], _MANY_PAIRS, 0, numbers, space.integer)
        positions = np.concat([np.arange(start, stop) for start, stop in self.ranges])
        return space.xp.asarray(positions, dtype=space.integer, device=space.device)

    def parts(self, results: Array) -> Iterator[tuple[slice, Array]]:
        """Yield each range and its part of results, (..., query, column), of these queries."""
        done = 0
        for start, stop in self.ranges or ():
            yield slice(start, stop), results[..., done : done + stop - start, :]
            done += stop - start

    def take(self, array: Array, axis: int, space: Space) -> Array:
        """Return these queries or keys of an array on axis -1 or -2; one for all broadcasts."""
        if array is None or self.size == array.shape[axis]:
            return array
        size = array.shape[axis]
        broadcasts = size == 1 and self.size != 0
        if broadcasts or not checks.known_to_differ(self.size, size):
            return array
        if self.ranges is None or len(self.ranges) > _FEW_RANGES:
            return space.xp.take(array, self.positions(space), axis=axis)
        after = (slice(None),) * (-1 - axis)
        parts = [array[(..., slice(start, stop), *after)] for start, stop in self.ranges]
        return parts[0] if len(parts) == 1 else space.xp.concat(parts, axis=axis)


def span_of(*ranges: tuple[int, int]) -> Span:
    """Return the span of ascending ranges, an empty one if there is none."""
    return Span(ranges or ((0, 0),), sum([stop - start for start, stop in ranges]))


def whole_span(size: Length) -> Span:
    """Return the span of all positions of an axis, whose length may not be known."""
    return Span(((0, size),), size)


def resolve_positions(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: AnyArray | None,
    key_positions: AnyArray | None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
    **parameters: AnyArray,
) -> tuple[Space, Array, Array]:
    """Return the space and the positions of queries and keys, spans of lengths or arrays.

    The library is that of the positions and the learned `parameters`; without any, it is `xp`.
    """
    if query_positions is not None:
        checks.left_out("with `query_positions`", q_len=q_len, k_len=k_len, offset=offset)
        checks.left_out("with `query_positions`", wrong_type, xp=xp, device=device)
        given = namespace.drop_none(query_positions=query_positions, key_positions=key_positions)
        keys = given.get("key_positions", query_positions)
        return space_of(**parameters, **given), query_positions, keys
    if key_positions is not None:
        raise wrong_type("query_positions", "be given with `key_positions`", "None")
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    space = space_of(**parameters) if parameters else new_space(xp, device)
    interval, size = position_interval(q_len, k_len, offset, space)
    return space, span_of(interval), span_of((0, size))


def length_array(
    name: str, lengths: Array, xp: Namespace | None, device: Device | None, axis: str = "batch"
) -> tuple[Space, Array]:
    """Check lengths, 0 or more; return their space, and them as default integers.

    Lengths on a device are not read, which would wait for it.
    """
    hint = _TOKENIZER_HINT * (axis == "batch")
    if hint and isinstance(lengths, list | tuple) and any(isinstance(n, list) for n in lengths):
        raise wrong_value(name, f"have shape ({axis},)", shown(lengths), hint)
    if isinstance(lengths, list | tuple | range):
        space = new_space(xp, device)
        numbers = list(checks.several(name, lengths))
        check_lengths(name, numbers, space)
        return space, space.xp.asarray(numbers, dtype=space.integer, device=device)
    checks.left_out(f"where `{name}` is an array", wrong_type, xp=xp, device=device)
    space = space_of(**{name: lengths})
    checks.integral(name, lengths, space.xp)
    if lengths.ndim != 1:
        raise wrong_value(name, f"have shape ({axis},)", tuple(lengths.shape), hint)
    if space.is_on_host(lengths):
        check_lengths(name, lengths, space)
    return space, space.astype(lengths, space.integer)


def check_lengths(
    name: str, lengths: Array, space: Space, most: int | None = None, most_name: str = ""
) -> None:
    """Check that lengths, a list or an array that can be read, are 0 to `most`."""
    largest = dtypes.largest_integer(space.integer, space.xp)
    farthest = largest if most is None else most
    if not isinstance(lengths, list):
        # uint64 wraps when it is cast, and does not compare with Python's integers everywhere.
        wide = space.astype(lengths, space.integer)
        if not space.is_true(space.xp.any((wide < 0) | (wide > farthest))):
            return
        lengths = [int(lengths[i]) for i in range(lengths.shape[0])]
    bound = "0 or more" if most is None else f"between 0 and {most_name} = {most}"
    for i, n in enumerate(lengths):
        if n < 0 or (most is not None and n > most):
            raise wrong_value(name, f"be {bound}", f"{shown(n)} at index {i}")
        if n > largest:
            bound = f"between 0 and the largest {dtypes.dtype_name(space.integer)} = {largest}"
            raise wrong_value(name, f"be {bound}", f"{shown(n)} at index {i}")


def sequence_axis(name: str, array: Array, seq_axis: int) -> int:
    """Return the axis of the sequence, counted from 0, of an array with or without a batch."""
    if array.ndim not in (1, 2):
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
    return axes.axis_of("seq_axis", seq_axis, array.ndim, name)
