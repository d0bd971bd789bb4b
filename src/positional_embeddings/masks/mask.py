"""The base of masks, their combination by ``|``, ``&`` and ``~``, and masks from functions.

True is masked out. The rule of a mask is a function of the positions of a query and a key. It is
evaluated at single positions, as one array, or block by block.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import and_, or_
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import ArrayDataclass
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device, get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Device, HostArray, Namespace, np
from positional_embeddings.masks.index_ranges import (
    IndexRanges,
    index_ranges,
    position_array,
    position_interval,
    query_offset,
)
from positional_embeddings.masks.position_blocks import (
    ImplicitPositions,
    PositionBlock,
    window_mask,
)
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, complement, intersect, unite

# Larger arrays are abbreviated in a `repr`.
_MAX_REPR_SIZE = 1000

_LEFT_PADDING_HINT = (
    " Leave the PaddingMask out, and pass `positions`, from 0 at the first token, and -1 at "
    "padding, which are the `key_positions`, too. For an array, evaluate the mask at these"
)
_FOR_ALL_SEQUENCES = (
    ", p of shape (batch, seq): mask(p[:, :, None], p[:, None, :]) | (p < 0)[:, None, :]."
)
_FOR_EACH_SEQUENCE = (
    " for each sequence, p of shape (seq,) and the mask of this sequence alone: "
    "mask(p[:, None], p) | (p < 0)."
)


class Mask(ArrayDataclass):
    """Base class of masks, which are small immutable objects.

    A mask is a rule of positions, and the ranges of visible keys of a query: attention skips all
    other keys. Masks combine by ``|`` (masked by either), ``&`` (masked by both) and ``~``.
    They are hashable, and compare by value. ``eval(repr(mask))`` equals the mask, except for
    functions, long arrays and arrays of libraries other than NumPy. For your own rule, use a
    `FunctionMask`, not a subclass.

    Lengths, segments and indices may be arrays of any library. Do not write to them afterwards.
    Lists and NumPy arrays are copied, and work with any library.

    Examples
    --------
    >>> from positional_embeddings import CausalMask, PaddingMask, SlidingWindowMask
    >>> mask = CausalMask() | SlidingWindowMask(2, None) | PaddingMask([3, 5])
    >>> mask
    CausalMask() | SlidingWindowMask(2, None) | PaddingMask([3, 5])
    >>> mask.dense(5).shape
    (5, 5, 2)
    >>> mask.key_ranges(4, 5, k_len=5)
    ((2, 5),)
    >>> bool(CausalMask()(3, 4))
    True
    """

    # Whether the rule depends on positions themselves, not only on their differences.
    _uses_absolute_positions = False

    # Otherwise NumPy's `|` combines each element of an array with the mask.
    __array_ufunc__ = None

    def __init__(self, *_: object, **__: object) -> None:
        message = "`Mask` is the base of masks, such as CausalMask() and FunctionMask(function)."
        raise TypeError(message)

    def __array__(self, *_: object, **__: object) -> Any:
        """Refuse to become an array of objects."""
        message = (
            f"`{self!r}` has no shape; pass {self!r}.dense(q_len), an array (query, key, batch)."
        )
        raise TypeError(message)

    def __call__(self, q_pos: Any, k_pos: Any = None, /, *, k_len: int | None = None) -> Any:
        """Evaluate the rule at positions.

        Parameters
        ----------
        q_pos, k_pos : array of int, or int
            Positions of queries and of keys, which broadcast: ``q_pos[:, None]`` and
            ``k_pos[None, :]`` form all pairs.
        k_len : int, optional
            Total number of keys, required for padding on the left.

        Returns
        -------
        array of bool
            True where the query may not attend to the key, with a last axis for the batch if the
            mask differs between sequences.

        Raises
        ------
        TypeError
            If positions are not integers, or their libraries differ.
        ValueError
            If the rule requires `k_len`, or it is not positive; if positions on the host are too
            large for the integers of the library.
        """
        if k_pos is None:
            hint = " Call `dense(q_len)` for the mask of a number of queries and keys."
            raise wrong_type("k_pos", "be given with `q_pos`", "None", hint)
        positions = {"q_pos": q_pos, "k_pos": k_pos}
        for name, pos in positions.items():
            if namespace.is_real_number(pos) or (isinstance(pos, np.ndarray) and pos.ndim == 0):
                positions[name] = checks.integer(name, pos)
        arrays = {name: pos for name, pos in positions.items() if type(pos) is not int}
        backend = self._backend(**arrays)
        for name, pos in arrays.items():
            checks.integral(name, pos, backend.xp)
        shapes = [tuple(pos.shape) for pos in arrays.values()]
        if not checks.shapes_broadcast(shapes):
            raise wrong_value("k_pos", f"broadcast with `q_pos` of shape {shapes[0]}", shapes[1])
        if k_len is not None:
            k_len = checks.positive_integer("k_len", k_len)
            query_offset(1, k_len, None, backend)
            self._check_padding(k_len)
        q, k = (
            PositionBlock(position_array(name, pos, backend)[..., None], backend, k_len)
            for name, pos in positions.items()
        )
        mask = self._mask_at(q, k)
        return mask[..., 0] if mask.shape[-1] == 1 else mask

    @compute_on_device
    def dense(
        self,
        q_len: int,
        k_len: int | None = None,
        *,
        offset: int | None = None,
        xp: Namespace | None = None,
        device: Device | None = None,
    ) -> Any:
        """Return the mask of all queries and keys as one array.

        Parameters
        ----------
        q_len, k_len : int
            Numbers of queries and keys, positive. If `k_len` is None, it equals `q_len`.
        offset : int, optional
            Position of the first query among the keys. If None, ``k_len - q_len``: the last
            query is at the last key, as with cached keys.
        xp, device : optional
            Array library (NumPy if None) and device of the result. If the mask holds arrays of
            another library, `xp` is that library or None, and `device` is None.

        Returns
        -------
        array of bool, shape (q_len, k_len, 1 or batch)
            True where query i may not attend to key j.

        Raises
        ------
        TypeError
            If an argument is of the wrong type.
        ValueError
            If a number is not positive, or the mask does not match the numbers of queries and keys.
        """
        arrays = self._arrays()
        if arrays and xp is not None and backend_for(xp).xp is self._backend().xp:
            xp = None
        for name in arrays:
            checks.omitted(f"where `{name}` is an array", wrong_type, xp=xp, device=device)
        backend = self._backend(xp, device)
        queries, k_len = self._checked_interval(q_len, k_len, offset, backend)
        shape = (queries[1] - queries[0], k_len)
        query_range, key_range = (index_ranges((0, size)) for size in shape)
        mask = self._block(query_range, key_range, ImplicitPositions(queries[0], k_len), backend)
        if tuple(mask.shape[:2]) != shape:
            return mask | backend.xp.zeros(
                (*shape, 1), dtype=backend.xp.bool, device=backend.device
            )
        return mask

    def key_ranges(self, q_start: int, q_stop: int, k_len: int) -> Ranges:
        """Return the ranges of keys that a range of queries may attend to.

        Nothing is read from a device, and no lazy array is computed. The result is all keys for
        lengths on a device, inside ``jax.jit`` and for a function.

        Parameters
        ----------
        q_start, q_stop : int
            Position of the first query, and one more than the position of the last.
        k_len : int
            Number of keys, positive.

        Returns
        -------
        tuple of (int, int)
            Ascending ranges of keys (start, stop). No other key is visible. A
            dilated mask, a document in several parts, and thousands of rows of a grid have one
            range, from the first to the last visible key.

        Raises
        ------
        TypeError
            If an argument is not an integer.
        ValueError
            If `q_stop` is less than `q_start`, or `k_len` is not positive.
        """
        q_start = checks.integer("q_start", q_start)
        q_stop = checks.integer("q_stop", q_stop)
        k_len = checks.positive_integer("k_len", k_len)
        if q_stop < q_start:
            raise wrong_value("q_stop", f"be `q_start` = {format_value(q_start)} or more", q_stop)
        self._check_padding(k_len)
        return self._visible_keys(((q_start, q_stop),), k_len).any_query if q_start < q_stop else ()

    def __reduce__(self) -> Any:
        # The constructor copies the arrays, and makes them read-only.
        return type(self), tuple(getattr(self, f.name) for f in fields(self) if f.init)  # type: ignore[arg-type]

    def __or__(self, other: object) -> Any:
        return _combine(OrMask, self, other)

    def __and__(self, other: object) -> Any:
        return _combine(AndMask, self, other)

    __ror__, __rand__ = __or__, __and__  # for operands that are not masks: an error

    def __invert__(self) -> "Mask":
        return NotMask((self,))

    def __bool__(self) -> bool:
        # `and`, `or` and `not` would drop a mask.
        message = "A `Mask` is neither true nor false: combine masks by |, & and ~."
        raise TypeError(message)

    def __repr__(self) -> str:
        arguments = []
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if f.init and not (isinstance(value, type(f.default)) and value == f.default):
                arguments.append(_field_text(value))
        return f"{type(self).__name__}({', '.join(arguments)})"

    # Methods that subclasses override.

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:  # noqa: ARG002
        """Return True where a query may not attend to a key; the last axis is the batch."""
        name = type(self).__name__
        message = f"`{name}` has no rule of its own: pass yours as FunctionMask(function)."
        raise TypeError(message)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:  # noqa: ARG002
        """Return the keys that are visible to the queries in ranges of positions."""
        return VisibleKeys(((0, k_len),), ())

    def _window(self) -> Any:
        """Return the window if the mask is True exactly outside a window, else None."""

    def _global_queries(self) -> Ranges:
        """Return the queries that attend to many more keys than their neighbours."""
        return ()

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:
        """Check the mask against the range of query positions and the number of keys."""

    def _check_padding(self, k_len: int) -> None:
        """Check that no part counts padding on the left of another part."""

    # For attention with explicit positions, and for a cache with a ring buffer.

    def _leaves(self) -> "tuple[Mask, ...]":
        """Return the masks that are combined in this one, or the mask itself."""
        return (self,)

    def _is_padded_on_left(self, k_len: int) -> bool:  # noqa: ARG002
        """Return whether the mask may hide padding before the first token of a sequence."""
        return False

    def _map_leaves(self, function: Callable[["Mask"], "Mask"]) -> "Mask":
        """Return the mask with a function applied to each of the masks that it combines."""
        return function(self)

    def _by_token(self, is_token: Array) -> "Mask":  # noqa: ARG002
        """Return the mask for padded prompts, (batch, column), by token instead of by column."""
        return self

    def _by_column(self, positions: Any) -> "Mask":  # noqa: ARG002
        """Return the mask by the columns of queries and keys, if it is not by their positions.

        The attributes of the positions are those for `_check_positions`.
        """
        return self

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        """Check that the mask supports the explicit positions of an attention.

        Their attributes are `queries` and `keys`, (position, batch or 1), `is_shared`,
        `equal_indices`, and `extent` and `on_host`, which are None if they are not concrete.
        """

    def _check_ring(self, window: int) -> None:
        """Check that all visible keys are within a window of the newest keys."""

    def _probe_positions(self, position: int) -> tuple[int, ...]:
        """Return positions near a large one whose preceding query attends to the most keys.

        The window of a ring is compared with the visible keys of these queries.
        """
        return (position,)

    def _batch(self) -> int | None:
        """Return the batch size of the mask, or None if it is not static."""
        return 1

    # Evaluation.

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays of the mask that do not belong to NumPy."""
        arrays = super()._arrays().items() if self._array_names else ()
        return {name: a for name, a in arrays if not (a is None or isinstance(a, np.ndarray))}

    def _backend(
        self, xp: Namespace | None = None, device: Device | None = None, **positions: Array
    ) -> Backend:
        """Return the backend of the arrays and positions, or of `xp` and `device` without any."""
        arrays = self._arrays() | positions
        return get_backend(**arrays) if arrays else backend_for(xp, device)

    def _checked_interval(
        self, q_len: int, k_len: int | None, offset: int | None, backend: Backend
    ) -> tuple[tuple[int, int], int]:
        """Check the lengths; return the range of the query positions, and `k_len`."""
        queries, k_len = position_interval(q_len, k_len, offset, backend)
        self._check(queries, k_len, backend)
        return queries, k_len

    def _block(
        self, queries: IndexRanges, keys: IndexRanges, positions: Any, backend: Backend
    ) -> Array:
        """Return the mask between queries and keys, (query, key, batch), or 1 on an axis."""
        with backend.without_chunk_warnings():
            blocks = positions.position_blocks(queries, keys, backend, self._batch() or 1)
            return self._mask_at(*blocks)

    def _split_lists(self) -> tuple[Any, "Mask | None"]:
        """Return the `ListMask` that is combined by ``|``, and the remaining mask; else None."""
        return None, self


@dataclass(frozen=True, repr=False)
class _Compound(Mask):
    """Base of combined masks."""

    masks: tuple[Mask, ...] = field(metadata={"part": True})  # leaves of JAX's pytrees

    def __post_init__(self) -> None:
        sizes: Any = {mask._batch() for mask in self.masks} - {1, None}
        if len(sizes) > 1:
            listed = " and ".join(map(str, sorted(sizes)))
            message = f"Combined masks must have the same batch size, got {listed}."
            raise ValueError(message)

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:
        for mask in self.masks:
            mask._check(queries, k_len, backend)
        self._check_padding(k_len)

    def _check_padding(self, k_len: int) -> None:
        counting = [mask for mask in self._leaves() if mask._uses_absolute_positions]
        if counting and any(mask._is_padded_on_left(k_len) for mask in self._leaves()):
            requirement = f"have no padding on the left with {counting[0]!r}, which would count it"
            rules = [mask for mask in self._leaves() if not mask._is_padded_on_left(k_len)]
            is_shared = all(mask._batch() in (1, None) for mask in rules)
            rule = _FOR_ALL_SEQUENCES if is_shared else _FOR_EACH_SEQUENCE
            raise wrong_value("mask", requirement, self, _LEFT_PADDING_HINT + rule)

    def _map_leaves(self, function: Callable[[Mask], Mask]) -> Mask:
        return type(self)(tuple(mask._map_leaves(function) for mask in self.masks))

    def _leaves(self) -> tuple[Mask, ...]:
        return sum((mask._leaves() for mask in self.masks), ())

    def _arrays(self) -> dict[str, Array]:
        return {
            f"masks[{i}].{name}": array
            for i, mask in enumerate(self.masks)
            for name, array in mask._arrays().items()
        }

    def _batch(self) -> int | None:
        sizes = {mask._batch() for mask in self.masks} - {1}
        return next(iter(sizes - {None} or sizes), 1)

    def _global_queries(self) -> Ranges:
        return unite(sum((mask._global_queries() for mask in self.masks), ()))


@dataclass(frozen=True, repr=False)
class OrMask(_Compound):
    """The union of masks, the result of ``|``: a key is masked if any mask is True."""

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        terms = [mask._mask_at(q, k) for mask in self.masks if not mask._window()]
        windows = [mask._window() for mask in self.masks if mask._window()]
        if windows:
            left, right = map(min, zip(*windows, strict=True))
            terms.append(window_mask(q, k, (left, right)))
        return reduce(or_, terms)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        any_query, every_query = self.masks[0]._visible_keys(queries, k_len)
        for mask in self.masks[1:]:
            visible = mask._visible_keys(queries, k_len)
            any_query = intersect(any_query, visible.any_query)
            every_query = intersect(every_query, visible.every_query)
        return VisibleKeys(any_query, every_query)

    def _split_lists(self) -> tuple[Any, Mask | None]:
        for mask in self.masks:
            if mask._split_lists()[0] is mask:
                remaining = tuple(other for other in self.masks if other is not mask)
                return mask, OrMask(remaining) if remaining else None
        return None, self

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.masks))


@dataclass(frozen=True, repr=False)
class AndMask(_Compound):
    """The intersection of masks, the result of ``&``: a key is masked if all masks are True."""

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        return reduce(and_, (mask._mask_at(q, k) for mask in self.masks))

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        visible = [mask._visible_keys(queries, k_len) for mask in self.masks]
        any_query, every_query = (unite(sum(ranges, ())) for ranges in zip(*visible, strict=True))
        return VisibleKeys(any_query, every_query)

    def __repr__(self) -> str:
        return " & ".join(f"({m!r})" if isinstance(m, OrMask) else repr(m) for m in self.masks)


@dataclass(frozen=True, repr=False)
class NotMask(_Compound):
    """The complement of a mask, the result of ``~``."""

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        return ~self.masks[0]._mask_at(q, k)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        any_query, every_query = self.masks[0]._visible_keys(queries, k_len)
        return VisibleKeys(complement(every_query, k_len), complement(any_query, k_len))

    def __invert__(self) -> Mask:
        return self.masks[0]

    def __repr__(self) -> str:
        (mask,) = self.masks
        return f"~({mask!r})" if isinstance(mask, OrMask | AndMask) else f"~{mask!r}"


@dataclass(frozen=True, eq=False, repr=False)
class FunctionMask(Mask):
    """A mask from a function of positions.

    Attention evaluates it block by block, and skips no keys.

    Parameters
    ----------
    function : callable
        Takes positions of queries, (n, 1), and of keys, (1, m), as integer arrays of the library
        of the call. Returns a boolean array, (n, m) or (n, m, batch): True where a key is masked.
        If the positions in an attention differ between sequences, it takes (n, 1, batch) and
        (1, m, batch), and returns (n, m, batch). If it is combined with a `ListMask`, the keys
        have shape (n, m) or (n, m, batch).

    Raises
    ------
    TypeError
        If `function` is not a function, or, in a call, does not return a boolean array.

    Examples
    --------
    >>> even = FunctionMask(lambda q_pos, k_pos: (q_pos - k_pos) % 2 == 1)
    >>> even.dense(3)[:, :, 0].astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """

    function: checks.PositionFunction

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        has_batch = q.values.shape[-1] != 1 or k.values.shape[-1] != 1
        positions = [p.values if has_batch else p.values[..., 0] for p in (q, k)]
        mask = self.function(*positions)
        name = "function(q_pos, k_pos)"
        checks.mask(name, mask, get_backend(q_pos=q.values, **{name: mask}).xp)
        shape, q_shape, k_shape = (tuple(array.shape) for array in (mask, *positions))
        rank = max(len(q_shape), len(k_shape))
        fits = mask.ndim in ((rank,) if has_batch else (rank, rank + 1))
        if not (fits and checks.shapes_broadcast([shape[:rank], q_shape, k_shape])):
            requirement = f"have the broadcast shape of {q_shape} and {k_shape}, or one more axis"
            raise wrong_value(name, requirement, shape)
        return mask if has_batch or mask.ndim > rank else mask[..., None]

    def _batch(self) -> int | None:
        return None


def frozen_integers(array: Array) -> Array:
    """Return a read-only copy of a NumPy array; other arrays are returned unchanged."""
    if not isinstance(array, np.ndarray):
        return array
    copy = np.array(array, dtype=np.int64)
    copy.flags.writeable = False  # the flag can be reset, as PyTorch requires
    return copy


def integers_of_list(name: str, numbers: Any) -> HostArray:
    """Return a list of integers, or of lists of integers, as an array."""
    try:
        array: HostArray = np.asarray(numbers)
    except ValueError:
        requirement = "be an array, a list of integers, or a list of lists of one length"
        raise wrong_value(name, requirement, format_value(numbers)) from None
    return array if array.size else array.astype(np.int64)


def _combine(kind: type[_Compound], mask: Mask, other: object) -> Any:
    """Return the combination of two masks; nested combinations of one kind are flattened."""
    if isinstance(other, Mask):
        return kind(sum((m.masks if isinstance(m, kind) else (m,) for m in (mask, other)), ()))
    if callable(other) and not isinstance(other, type):
        message = "A `Mask` does not combine with a function: pass FunctionMask(function)."
        raise TypeError(message)
    if other is None:
        message = "A `Mask` does not combine with None: combine_masks(mask, None) is the mask."
        raise TypeError(message)
    if not hasattr(other, "shape"):
        return NotImplemented
    message = (
        f"A `Mask` does not combine with {format_value(other)}, whose axes are ambiguous. "
        "Combine arrays by combine_masks(mask.dense(q_len, k_len), array) if their axes are "
        "(query, key, batch), and by ~to_attend(mask, q_len, k_len) | array if these are "
        "(batch, 1, query, key)."
    )
    raise TypeError(message)


def _field_text(value: Array) -> str:
    """Return the text of a field in a `repr`."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= _MAX_REPR_SIZE else f"<{format_value(value)}>"
    if isinstance(value, tuple) and len(value) > _MAX_REPR_SIZE:
        return f"<{len(value)} numbers>"
    if callable(value) and getattr(value, "__name__", "<").isidentifier():
        return str(value.__name__)
    return f"<{format_value(value)}>" if hasattr(value, "shape") else repr(value)
