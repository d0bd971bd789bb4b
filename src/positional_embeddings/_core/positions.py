"""Positions of queries and keys, and lengths of sequences, as arrays."""

from collections.abc import Sequence
from typing import Any

from positional_embeddings._core import axes, checks
from positional_embeddings._core.capabilities import (
    count_for_pairs,
    is_concretely_true,
    is_readable,
    on_the_host,
)
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    default_integer,
    device_of,
    drop_none,
    dtype_name,
    host,
    is_dtype,
    namespace_of,
    namespace_or_numpy,
    to_host,
)


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
    dtype = default_integer(xp, device)
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
    return f"so that {dtype_name(dtype)} holds all distances"


def position_array(name: str, positions: Any, xp: Namespace, device: Device | None) -> Any:
    """Return integer positions, an array or one number, as default integers of a library.

    Those in the memory of the host are checked: the dtype holds all distances between them.
    """
    dtype = default_integer(xp, device)
    farthest = farthest_position(dtype, xp)
    numbers = [positions]
    if not isinstance(positions, int):
        wide = xp.asarray(positions, dtype=dtype, device=device)
        # An unsigned number that the dtype does not hold has become a negative one.
        least = 0 if is_dtype(positions.dtype, "unsigned integer", xp) else -farthest
        is_read = is_readable(positions) and on_the_host(positions)
        if not (is_read and is_concretely_true(xp.any((wide < least) | (wide > farthest)))):
            return wide
        numbers = to_host(positions, xp).reshape(-1).tolist()
    for n in numbers:
        if abs(n) > farthest:
            what = f"hold positions within {farthest}, {_why(dtype)}"
            raise wrong_value(name, what, shown(n))
    return xp.asarray(positions, dtype=dtype, device=device)


def positions_from_lengths(
    q_len: int,
    k_len: int | None,
    offset: int | None,
    xp: Namespace,
    device: Device | None,
    numbers: int = 1,
) -> tuple[Any, Any]:
    """Return the positions of queries, from `offset` on, and of keys, from 0 on."""
    queries, keys = position_interval(q_len, k_len, offset, xp, device)
    return (
        positions_of_ranges((queries,), xp, device, numbers),
        positions_of_ranges(((0, keys),), xp, device, numbers),
    )


def positions_of_ranges(
    ranges: Sequence[tuple[int, int]],
    xp: Namespace,
    device: Device | None,
    numbers: int = 1,
    dtype: Dtype | None = None,
) -> Any:
    """Return the positions from each start to before its stop as one array.

    What is made of pairs of them has so many numbers each, such as heads. Their dtype is the
    default integer unless another one is given.
    """
    dtype = default_integer(xp, device) if dtype is None else dtype
    if len(ranges) == 1:
        return count_for_pairs(*ranges[0], numbers, dtype, device, xp)
    starts, stops = host.asarray(ranges, dtype=host.int64).reshape(len(ranges), 2).T
    lengths = stops - starts
    ends = host.cumulative_sum(lengths)
    # Each range is shifted from where it is among all of them.
    positions = host.arange(ends[-1]) + host.repeat(starts - (ends - lengths), lengths)
    return xp.asarray(positions, dtype=dtype, device=device)


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

    What is made of them has so many `numbers` for each pair, such as heads.
    The namespace is that of the positions and the learned `parameters`; without any, `xp`.
    """
    if query_positions is not None:
        for name, value in (("q_len", q_len), ("k_len", k_len), ("offset", offset)):
            if value is not None:
                raise wrong_value(name, "be left out with `query_positions`", value)
        if xp is not None or device is not None:
            message = "`xp` and `device` must be left out with `query_positions`."
            raise TypeError(message)
        given = drop_none(query_positions=query_positions, key_positions=key_positions)
        xp = namespace_of(**parameters, **given)
        return xp, query_positions, given.get("key_positions", query_positions)
    if key_positions is not None:
        raise wrong_type("query_positions", "be given with `key_positions`", "None")
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    if parameters:
        xp, device = namespace_of(**parameters), device_of(next(iter(parameters.values())))
        numbers = max([n for array in parameters.values() for n in array.shape] or [1])
    else:
        xp = namespace_or_numpy(xp)
    return xp, *positions_from_lengths(q_len, k_len, offset, xp, device, numbers)


def length_array(
    name: str,
    lengths: Any,
    xp: Namespace | None,
    device: Device | None,
    most: int | None = None,
    most_name: str = "",
    axis: str = "batch",
) -> tuple[Namespace, Any]:
    """Check lengths, from 0 to `most`; return their namespace, and them as default integers."""
    if isinstance(lengths, list | tuple | range):
        xp = namespace_or_numpy(xp)
        numbers = checks.integers(name, lengths)
        dtype = default_integer(xp, device)
        _check_lengths(name, numbers, most, most_name)
        _check_lengths(name, numbers, int(xp.iinfo(dtype).max), f"the largest {dtype_name(dtype)}")
        return xp, xp.asarray(numbers, dtype=dtype, device=device)
    if xp is not None or device is not None:
        message = f"`xp` and `device` must be left out where `{name}` is an array."
        raise TypeError(message)
    xp = namespace_of(**{name: lengths})
    checks.integral(name, lengths, xp)
    if lengths.ndim != 1:
        raise wrong_value(name, f"have shape ({axis},)", tuple(lengths.shape))
    # uint64 wraps when it is cast, and does not compare with Python's integers everywhere.
    wide = xp.astype(lengths, default_integer(xp, device_of(lengths)), copy=False)
    _check_array(name, lengths, wide, most, most_name, xp)
    return xp, wide


def check_largest(name: str, lengths: Any, most: int, most_name: str) -> None:
    """Check that lengths are at most a number, if they can be read."""
    _check_array(name, lengths, lengths, most, most_name, namespace_of(**{name: lengths}))


def _check_array(
    name: str, lengths: Any, wide: Any, most: int | None, most_name: str, xp: Namespace
) -> None:
    """Check an array of lengths, `wide` in a signed dtype, if it can be read."""
    largest = int(xp.iinfo(wide.dtype).max) if most is None else most
    if is_concretely_true(xp.any((wide < 0) | (wide > largest))):
        numbers = [int(lengths[i]) for i in range(lengths.shape[0])]
        _check_lengths(name, numbers, most, most_name)
        _check_lengths(name, numbers, largest, f"the largest {dtype_name(wide.dtype)}")


def _check_lengths(name: str, lengths: Sequence[int], most: int | None, most_name: str) -> None:
    bound = "0 or more" if most is None else f"between 0 and {most_name} = {most}"
    for i, n in enumerate(lengths):
        if n < 0 or (most is not None and n > most):
            raise wrong_value(name, f"be {bound}", f"{shown(n)} at index {i}")


def sequence_axis(name: str, array: Any, seq_axis: int) -> int:
    """Return the axis of the sequence, counted from 0, of an array with or without a batch."""
    if array.ndim not in (1, 2):
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
    return axes.axis_of("seq_axis", seq_axis, array.ndim, name)


def sequence_first(name: str, array: Any, seq_axis: int, xp: Namespace) -> Any:
    """Return an array with or without a batch as (seq,) or (seq, batch)."""
    axis = sequence_axis(name, array, seq_axis)
    return xp.permute_dims(array, (1, 0)) if axis == 1 else array
