"""Positions of queries and keys, from lengths, offsets and arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from positional_embeddings._core import axes, checks
from positional_embeddings._core.capabilities import is_concretely_true
from positional_embeddings._core.errors import wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Namespace,
    default_integer,
    device_of,
    drop_none,
    dtype_name,
    namespace_of,
    namespace_or_numpy,
)


def farthest_position(dtype: Any, xp: Namespace) -> int:
    """Return the farthest position from 0: any distance, and as much again, is still a number."""
    return int(xp.iinfo(dtype).max) // 4


def query_and_key_positions(
    q_len: int, k_len: int | None, offset: int | None, xp: Namespace, device: Device | None
) -> tuple[Any, Any]:
    """Return the positions of queries and of keys.

    The first query is at `offset`; if None, the last query is at the last key.
    """
    queries = checks.positive_integer("q_len", q_len)
    keys = queries if k_len is None else checks.positive_integer("k_len", k_len)
    start = keys - queries if offset is None else checks.integer("offset", offset)
    dtype = default_integer(xp, device)
    farthest = farthest_position(dtype, xp)
    why = f"so that {dtype_name(dtype)} holds all distances"
    for name, n in (("q_len", queries), ("k_len", keys)):
        if n > farthest:
            raise wrong_value(name, f"be at most {farthest}, {why}", n)
    if not -farthest <= start <= farthest - queries:
        raise wrong_value("offset", f"keep positions within {farthest}, {why}", start)
    return (
        xp.arange(start, start + queries, dtype=dtype, device=device),
        xp.arange(keys, dtype=dtype, device=device),
    )


def both_positions(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: Array | None,
    key_positions: Array | None,
    like: Array | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> tuple[Any, Any]:
    """Return the positions of queries and keys from what a caller gave of them."""
    if query_positions is not None:
        for name, value in (("q_len", q_len), ("k_len", k_len), ("offset", offset)):
            if value is not None:
                raise wrong_value(name, "be left out with `query_positions`", value)
        if like is None and (xp is not None or device is not None):
            message = "`xp` and `device` must be left out with `query_positions`."
            raise TypeError(message)
        key = query_positions if key_positions is None else key_positions
        namespace_of(query_positions=query_positions, key_positions=key, **drop_none(like=like))
        return query_positions, key
    if key_positions is not None:
        raise wrong_type("query_positions", "be given with `key_positions`", "None")
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    if like is not None:
        xp, device = namespace_of(like=like), device_of(like)
    xp = namespace_or_numpy(xp)
    return query_and_key_positions(q_len, k_len, offset, xp, device)


class Bounds(NamedTuple):
    """What lengths may be, and what the upper bound is called."""

    least: int = 0
    most: int | None = None
    most_name: str = ""

    def check(self, name: str, lengths: Sequence[int]) -> None:
        """Raise at the first length out of bounds."""
        for i, n in enumerate(lengths):
            if n < self.least or (self.most is not None and n > self.most):
                bound = f"between {self.least} and {self.most_name} = {self.most}"
                bound = f"{self.least} or more" if self.most is None else bound
                raise wrong_value(name, f"be {bound}", f"{n} at index {i}")


def length_array(
    name: str, lengths: Any, bounds: Bounds, xp: Namespace | None, device: Device | None
) -> tuple[Namespace, Any]:
    """Return the namespace of the lengths, and the lengths as one of its arrays."""
    if isinstance(lengths, list | tuple | range):
        xp = namespace_or_numpy(xp)
        numbers = checks.integers(name, lengths)
        dtype = default_integer(xp, device)
        bounds.check(name, numbers)
        most = int(xp.iinfo(dtype).max)
        Bounds(bounds.least, most, f"the largest {dtype_name(dtype)}").check(name, numbers)
        return xp, xp.asarray(numbers, dtype=dtype, device=device)
    if xp is not None or device is not None:
        message = f"`xp` and `device` must be left out where `{name}` is an array."
        raise TypeError(message)
    xp = namespace_of(**{name: lengths})
    checks.integral(name, lengths, xp)
    if lengths.ndim != 1:
        raise wrong_value(name, "have shape (batch,)", tuple(lengths.shape))
    # uint64 does not compare with Python's integers everywhere, and wraps when it is cast.
    wide = xp.astype(lengths, default_integer(xp, device_of(lengths)), copy=False)
    most = xp.iinfo(wide.dtype).max if bounds.most is None else bounds.most
    if is_concretely_true(xp.any((wide < bounds.least) | (wide > most))):
        bounds.check(name, [int(lengths[i]) for i in range(lengths.shape[0])])
    return xp, lengths


def sequence_axis(name: str, array: Any, seq_axis: int) -> int:
    """Return the axis of the sequence, counted from 0, of an array with or without a batch."""
    if array.ndim not in (1, 2):
        shape = tuple(array.shape)
        hint = f" Pass {name}[0]." if array.ndim == 3 and shape[0] == 1 else ""
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", shape, hint)
    return axes.axis_of("seq_axis", seq_axis, array.ndim, name)


def sequence_first(array: Any, axis: int, xp: Namespace) -> Any:
    """Return an array with its sequence on axis `axis` as (seq,) or (seq, batch)."""
    return xp.permute_dims(array, (1, 0)) if axis == 1 else array
