"""Positions of queries and keys, and lengths of sequences, as arrays."""

from collections.abc import Iterator
from typing import NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Device, Length, Namespace, np

_HINTS = {
    "batch": " Write PaddingMask.from_attention_mask(...) for the mask of a tokenizer.",
    "documents": " Stack the results of several sequences.",
    "tokens": " If they differ between sequences, pass FunctionMask(lambda q, k: ~(g[q] | g[k])), "
    "with g of shape (seq, batch), True at global tokens.",
}


def position_interval(
    q_len: int, k_len: int | None, offset: int | None, backend: Backend
) -> tuple[tuple[int, int], int]:
    """Check lengths; return the positions of the first query and after the last, and `k_len`."""
    q_len = checks.axis_length("q_len", q_len)
    k_len = q_len if k_len is None else checks.axis_length("k_len", k_len)
    start = query_offset(q_len, k_len, offset, backend)
    return (start, start + q_len), k_len


def query_offset(q_len: int, k_len: int, offset: int | None, backend: Backend) -> int:
    """Return the position of the first query; check that integers hold all distances."""
    max_position = checks.max_position(backend)
    for name, length in (("q_len", q_len), ("k_len", k_len)):
        if not length <= max_position:  # NaN is a length that dask does not know
            raise wrong_value(
                name, f"be at most {max_position}, {_why(backend)}", format_value(length)
            )
    start = k_len - q_len if offset is None else checks.integer("offset", offset)
    if not -max_position <= start <= max_position - q_len:
        raise wrong_value("offset", f"keep positions within {max_position}, {_why(backend)}", start)
    return start


def _why(backend: Backend) -> str:
    return f"so that {dtypes.dtype_name(backend.int_dtype)} holds all distances"


def position_array(name: str, positions: Array, backend: Backend) -> Array:
    """Return integer positions, an array or one number, as default integers of a library.

    Positions in the memory of the host are checked: the dtype holds all distances between them.
    """
    xp, max_position = backend.xp, checks.max_position(backend)
    numbers = [positions]
    if not isinstance(positions, int):
        converted = xp.asarray(positions, dtype=backend.int_dtype, device=backend.device)
        # An unsigned number that the dtype does not hold has become a negative one.
        is_unsigned = dtypes.is_dtype(positions.dtype, "unsigned integer", xp)
        if not (backend.is_concrete(positions) and backend.is_on_host(positions)):
            return converted
        too_far = (converted < (0 if is_unsigned else -max_position)) | (converted > max_position)
        if not backend.concrete_bool(xp.any(too_far)):
            return converted
        numbers = backend.to_numpy(positions).ravel().tolist()
    for n in numbers:
        if abs(n) > max_position:
            raise wrong_value(
                name, f"hold positions within {max_position}, {_why(backend)}", format_value(n)
            )
    return xp.asarray(positions, dtype=backend.int_dtype, device=backend.device)


# Chunk (query, key) axes as an array of these lengths would be.
_CHUNKED_SHAPE = 2**17, 2**17

# More ranges of an array are gathered by their indices.
_MAX_SLICED_RANGES = 8


class IndexRanges(NamedTuple):
    """Queries or keys, by ascending ranges or by a start that only a trace knows."""

    ranges: tuple[tuple[int, int], ...] | None  # None if the start is traced
    size: Length  # number of indices
    start: Array = None  # 0-d array of int, with no ranges

    def shifted(self, by: int) -> "IndexRanges":
        """Return the ranges moved by a number of positions."""
        if self.ranges is None:
            return IndexRanges(None, self.size, self.start + by)
        return IndexRanges(tuple([(a + by, b + by) for a, b in self.ranges]), self.size)

    def indices(self, backend: Backend, numbers: int = 1) -> Array:
        """Return all positions as one array.

        `numbers` is the number of values per query-key pair, used to choose chunk sizes.
        """
        if self.ranges is None:
            return self.start + backend.xp.arange(
                self.size, dtype=backend.int_dtype, device=backend.device
            )
        if len(self.ranges) == 1:
            return backend.arange(*self.ranges[0], _CHUNKED_SHAPE, 0, numbers, backend.int_dtype)
        positions = np.concat([np.arange(start, stop) for start, stop in self.ranges])
        return backend.xp.asarray(positions, dtype=backend.int_dtype, device=backend.device)

    def parts(self, results: Array) -> Iterator[tuple[slice, Array]]:
        """Yield each range and its part of results, (..., query, column), of these queries."""
        start_index = 0
        for start, stop in self.ranges or ():
            yield slice(start, stop), results[..., start_index : start_index + stop - start, :]
            start_index += stop - start

    def take(self, array: Array, axis: int, backend: Backend) -> Array:
        """Return these queries or keys of an array on axis -1 or -2; one for all broadcasts."""
        if array is None or self.size == array.shape[axis]:
            return array
        size = array.shape[axis]
        broadcasts = size == 1 and self.size != 0
        if broadcasts or not checks.lengths_differ(self.size, size):
            return array
        if self.ranges is None or len(self.ranges) > _MAX_SLICED_RANGES:
            return backend.xp.take(array, self.indices(backend), axis=axis)
        after = (slice(None),) * (-1 - axis)
        parts = [array[(..., slice(start, stop), *after)] for start, stop in self.ranges]
        return parts[0] if len(parts) == 1 else backend.xp.concat(parts, axis=axis)


def index_ranges(*ranges: tuple[int, int]) -> IndexRanges:
    """Return the indices of ascending ranges, an empty one if there is none."""
    return IndexRanges(ranges or ((0, 0),), sum([stop - start for start, stop in ranges]))


def full_range(size: Length) -> IndexRanges:
    """Return the indices of all positions of an axis, whose length may not be known."""
    return IndexRanges(((0, size),), size)


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
) -> tuple[Backend, Array, Array]:
    """Return the backend and the positions of queries and keys, ranges of lengths or arrays.

    The library is the one of the positions and the learned `parameters`, else `xp`.
    """
    if query_positions is not None:
        checks.omitted("with `query_positions`", q_len=q_len, k_len=k_len, offset=offset)
        checks.omitted("with `query_positions`", wrong_type, xp=xp, device=device)
        passed = namespace.drop_none(query_positions=query_positions, key_positions=key_positions)
        keys = passed.get("key_positions", query_positions)
        return get_backend(**parameters, **passed), query_positions, keys
    if key_positions is not None:
        raise wrong_type("query_positions", "be given with `key_positions`", "None")
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    backend = get_backend(**parameters) if parameters else backend_for(xp, device)
    interval, size = position_interval(q_len, k_len, offset, backend)
    return backend, index_ranges(interval), index_ranges((0, size))


def length_array(
    name: str, lengths: Array, xp: Namespace | None, device: Device | None, axis: str = "batch"
) -> tuple[Backend, Array]:
    """Check lengths, 0 or more; return their backend, and the lengths as default integers.

    Lengths on a device are not read, which would wait for it.
    """
    hint = _HINTS[axis]
    if isinstance(lengths, list | tuple) and any(isinstance(n, list) for n in lengths):
        raise wrong_value(name, f"have shape ({axis},)", format_value(lengths), hint)
    if isinstance(lengths, list | tuple | range):
        backend = backend_for(xp, device)
        numbers = list(checks.sequence_of(name, lengths))
        check_lengths(name, numbers, backend)
        return backend, backend.xp.asarray(numbers, dtype=backend.int_dtype, device=device)
    checks.omitted(f"where `{name}` is an array", wrong_type, xp=xp, device=device)
    backend = get_backend(**{name: lengths})
    if lengths.ndim != 1:
        raise wrong_value(name, f"have shape ({axis},)", tuple(lengths.shape), hint)
    checks.integral(name, lengths, backend.xp)
    if backend.is_on_host(lengths):
        check_lengths(name, lengths, backend)
    return backend, backend.astype(lengths, backend.int_dtype)


def check_lengths(
    name: str, lengths: Array, backend: Backend, max_length: int | None = None, max_name: str = ""
) -> None:
    """Check that lengths, a list or an array that can be read, are 0 to `max_length`."""
    largest = dtypes.largest_integer(backend.int_dtype, backend.xp)
    limit = largest if max_length is None else max_length
    if not isinstance(lengths, list):
        # uint64 wraps when it is cast, and does not compare with Python's integers everywhere.
        converted = backend.astype(lengths, backend.int_dtype)
        if not backend.concrete_bool(backend.xp.any((converted < 0) | (converted > limit))):
            return
        lengths = [int(lengths[i]) for i in range(lengths.shape[0])]
    bound = "0 or more" if max_length is None else f"between 0 and {max_name} = {max_length}"
    for i, n in enumerate(lengths):
        if n < 0 or (max_length is not None and n > max_length):
            raise wrong_value(name, f"be {bound}", f"{format_value(n)} at index {i}")
        if n > largest:
            bound = f"between 0 and the largest {dtypes.dtype_name(backend.int_dtype)} = {largest}"
            raise wrong_value(name, f"be {bound}", f"{format_value(n)} at index {i}")


def sequence_axis(name: str, array: Array, seq_axis: int) -> int:
    """Return the axis of the sequence, counted from 0, of an array with or without a batch."""
    if array.ndim not in (1, 2):
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
    return axes.axis_of("seq_axis", seq_axis, array.ndim, name)
