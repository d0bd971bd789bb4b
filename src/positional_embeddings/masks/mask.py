"""Masks as values: a rule on positions, how masks combine, and which keys a rule lets be seen.

True is masked out. A rule says which keys, at their positions, are hidden from which queries. It
is evaluated for single positions, for all of them as one array, or block by block.
"""

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
from positional_embeddings.masks import spans
from positional_embeddings.masks.points import ImplicitPositions, PositionBlock, hides_outside
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, complement, intersect, unite
from positional_embeddings.masks.spans import IndexRanges, index_ranges

# Numbers of an array that a `repr` spells out.
_MOST_SHOWN = 1000


class Mask(ArrayDataclass):
    """Base of masks that are small immutable values.

    A mask knows its rule, and which keys a query can see at all, so that an attention visits no
    others. Masks combine by ``|`` (hidden by either), ``&`` (hidden by both) and ``~``; they
    compare, have a hash, and their `repr` gives them back, but for functions, long arrays and
    arrays of other libraries than NumPy. A rule of your own is a `FunctionMask`, not a subclass.

    Arrays of lengths, segments and indices may be of any library, and must not be written to
    afterwards. Lists and NumPy arrays, which are copied, go with any library.

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

    # NumPy's `|` would combine each of its elements with the mask.
    __array_ufunc__ = None

    def __init__(self, *_: object, **__: object) -> None:
        message = "`Mask` is the base of masks, such as CausalMask() and FunctionMask(function)."
        raise TypeError(message)

    def __call__(self, q_pos: Any, k_pos: Any, /, *, k_len: int | None = None) -> Any:
        """Evaluate the rule at positions.

        Parameters
        ----------
        q_pos, k_pos : array of int, or int
            Positions of queries and of keys, which broadcast: ``q_pos[:, None]`` and
            ``k_pos[None, :]`` give each pair.
        k_len : int, optional
            Number of all keys, which padding on the left depends on.

        Returns
        -------
        array of bool
            True where the key is hidden from the query. It has one more axis, of sequences, if
            the mask tells several of them apart.

        Raises
        ------
        TypeError
            If positions are not integers, or their libraries differ.
        ValueError
            If the rule needs `k_len`, or it is not positive; if the integers of the library do
            not hold the distances between positions that are in the memory of the host.
        """
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
            spans.first_position(1, k_len, None, backend)
        q, k = (
            PositionBlock(spans.position_array(name, pos, backend)[..., None], backend, k_len)
            for name, pos in positions.items()
        )
        hidden = self._hides(q, k)
        return hidden[..., 0] if hidden.shape[-1] == 1 else hidden

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
            Numbers of queries and keys, positive; as many keys as queries if `k_len` is None.
        offset : int, optional
            Position of the first query among the keys. If None, ``k_len - q_len``: the last
            query is at the last key, as with cached keys.
        xp, device : optional
            Array library (NumPy if None) and device of the result; only if the mask holds no
            array of another library than NumPy.

        Returns
        -------
        array of bool, shape (q_len, k_len, 1 or batch)
            True where key j is hidden from query i.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a number is not positive, or the mask does not fit this number of queries and keys.
        """
        for name in self._arrays():
            checks.omitted(f"where `{name}` is an array", wrong_type, xp=xp, device=device)
        backend = self._backend(xp, device)
        queries, k_len = self._checked_interval(q_len, k_len, offset, backend)
        shape = (queries[1] - queries[0], k_len)
        queries_span, keys_span = (index_ranges((0, size)) for size in shape)
        hidden = self._between(
            queries_span, keys_span, ImplicitPositions(queries[0], k_len), backend
        )
        if tuple(hidden.shape[:2]) != shape:
            return hidden | backend.xp.zeros(
                (*shape, 1), dtype=backend.xp.bool, device=backend.device
            )
        return hidden

    def key_ranges(self, q_start: int, q_stop: int, k_len: int) -> Ranges:
        """Return the ranges of keys that some queries may see.

        Nothing is read from a device, and nothing is computed early: the answer is all keys
        if the mask cannot know, for lengths on a device, inside ``jax.jit`` or for a function.

        Parameters
        ----------
        q_start, q_stop : int
            Position of the first query, and the one after the last.
        k_len : int
            Number of keys, positive.

        Returns
        -------
        tuple of (int, int)
            Ascending ranges of keys (start, stop). No key outside them is seen by any of
            these queries. A dilated mask, a document in several parts, and thousands of rows of a
            grid give one range from the first to the last key.

        Raises
        ------
        TypeError
            If an argument is not an integer.
        ValueError
            If `q_stop` is before `q_start`, or `k_len` is not positive.
        """
        q_start = checks.integer("q_start", q_start)
        q_stop = checks.integer("q_stop", q_stop)
        k_len = checks.positive_integer("k_len", k_len)
        if q_stop < q_start:
            raise wrong_value("q_stop", f"be `q_start` = {format_value(q_start)} or more", q_stop)
        return self._visible_keys(((q_start, q_stop),), k_len).any_query if q_start < q_stop else ()

    def __reduce__(self) -> Any:
        # A new one, whose arrays nobody can write to.
        return type(self), tuple(getattr(self, f.name) for f in fields(self) if f.init)  # type: ignore[arg-type]

    def __or__(self, other: object) -> Any:
        return _combine(OrMask, self, other)

    def __and__(self, other: object) -> Any:
        return _combine(AndMask, self, other)

    __ror__, __rand__ = __or__, __and__  # of what is no mask, which is refused

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

    # What a kind of mask defines.

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:  # noqa: ARG002
        """Return the mask between positions, whose last axis is the batch."""
        name = type(self).__name__
        message = f"`{name}` has no rule of its own: pass yours as FunctionMask(function)."
        raise TypeError(message)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:  # noqa: ARG002
        """Return which keys the queries at some ranges of positions see."""
        return VisibleKeys(((0, k_len),), ())

    def _window(self) -> Any:
        """Return the window, if the mask hides the keys outside a window around each query."""

    def _global_queries(self) -> Ranges:
        """Return queries that see many more keys than their neighbours, if there are such."""
        return ()

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:
        """Check that the mask fits the positions of queries and the number of keys."""

    # What an attention has to know of a mask at positions, and in the ring of a cache.

    def _leaves(self) -> "tuple[Mask, ...]":
        """Return the masks that it is made of, itself if it is not combined."""
        return (self,)

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        """Check that the mask has a rule for queries and keys at positions of an attention.

        These have `queries` and `keys`, (position, batch or 1), tell whether they `are_indices`,
        and their `extent` if the host knows it.
        """

    def _check_ring(self, window: int) -> None:
        """Check that a window of the newest keys holds all visible keys, if only the mask knows."""

    def _probe_positions(self, far: int) -> tuple[int, ...]:
        """Return positions near `far`; the query before each sees as many keys as any that far out.

        The window of a ring is compared with what these see.
        """
        return (far,)

    def _batch(self) -> int | None:
        """Return the number of sequences that the mask tells apart, None if it is not known."""
        return 1

    # How it is evaluated.

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays of the mask that belong to a library other than NumPy."""
        arrays = super()._arrays().items() if self._array_names else ()
        return {name: a for name, a in arrays if not (a is None or isinstance(a, np.ndarray))}

    def _backend(
        self, xp: Namespace | None = None, device: Device | None = None, **positions: Array
    ) -> Backend:
        """Return the space of the mask's arrays and of positions; without any, a new one."""
        arrays = self._arrays() | positions
        return get_backend(**arrays) if arrays else backend_for(xp, device)

    def _checked_interval(
        self, q_len: int, k_len: int | None, offset: int | None, backend: Backend
    ) -> tuple[tuple[int, int], int]:
        """Check lengths; return the positions of all queries, as a range, and `k_len`."""
        queries, k_len = spans.position_interval(q_len, k_len, offset, backend)
        self._check(queries, k_len, backend)
        return queries, k_len

    def _between(
        self, queries: IndexRanges, keys: IndexRanges, positions: Any, backend: Backend
    ) -> Array:
        """Return the mask between queries and keys, (query, key, batch), or 1 on an axis.

        The `positions` are consecutive, or given.
        """
        with backend.without_chunk_warnings():
            return self._hides(*positions.points(queries, keys, backend, self._batch() or 1))

    def _split_lists(self) -> tuple[Any, "Mask | None"]:
        """Return the `ListMask` outside whose lists all keys are hidden, and what else hides."""
        return None, self


@dataclass(frozen=True, repr=False)
class _Compound(Mask):
    """Base of masks that are made of others."""

    masks: tuple[Mask, ...] = field(metadata={"part": True})  # leaves of JAX's pytrees

    def __post_init__(self) -> None:
        sizes: Any = {mask._batch() for mask in self.masks} - {1, None}
        if len(sizes) > 1:
            listed = " and ".join(map(str, sorted(sizes)))
            message = f"Masks must have one batch to be combined, got {listed} sequences."
            raise ValueError(message)

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:
        for mask in self.masks:
            mask._check(queries, k_len, backend)

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
    """What any of some masks hides: the result of ``|``."""

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        hidden = [mask._hides(q, k) for mask in self.masks if not mask._window()]
        windows = [mask._window() for mask in self.masks if mask._window()]
        if windows:
            left, right = map(min, zip(*windows, strict=True))
            hidden.append(hides_outside(q, k, (left, right)))
        return reduce(or_, hidden)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        any_query, every_query = self.masks[0]._visible_keys(queries, k_len)
        for mask in self.masks[1:]:
            visible_keys = mask._visible_keys(queries, k_len)
            any_query, every_query = (
                intersect(any_query, visible_keys[0]),
                intersect(every_query, visible_keys[1]),
            )
        return VisibleKeys(any_query, every_query)

    def _split_lists(self) -> tuple[Any, Mask | None]:
        for mask in self.masks:
            if mask._split_lists()[0] is mask:
                others = tuple(other for other in self.masks if other is not mask)
                return mask, OrMask(others) if others else None
        return None, self

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.masks))


@dataclass(frozen=True, repr=False)
class AndMask(_Compound):
    """What all of some masks hide: the result of ``&``."""

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        return reduce(and_, (mask._hides(q, k) for mask in self.masks))

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        any_query, every_query = zip(
            *(mask._visible_keys(queries, k_len) for mask in self.masks), strict=True
        )
        return VisibleKeys(unite(sum(any_query, ())), unite(sum(every_query, ())))

    def __repr__(self) -> str:
        return " & ".join(f"({m!r})" if isinstance(m, OrMask) else repr(m) for m in self.masks)


@dataclass(frozen=True, repr=False)
class NotMask(_Compound):
    """What a mask does not hide: the result of ``~``."""

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        return ~self.masks[0]._hides(q, k)

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

    It is evaluated block by block. No keys are skipped, since any may be seen.

    Parameters
    ----------
    function : callable
        Gets positions of queries, (n, 1), and of keys, (1, m), as integers in the library of
        the arrays it is used with, and returns the mask between them, (n, m) or
        (n, m, batch): True where a key is hidden. Where an attention has positions of several
        sequences, it gets (n, 1, batch) and (1, m, batch), and returns (n, m, batch). Beside a
        `ListMask` each query has keys of its own, (n, m) or (n, m, batch).

    Raises
    ------
    TypeError
        If `function` is not a function; if it does not return a boolean array, when used.

    Examples
    --------
    >>> even = FunctionMask(lambda q_pos, k_pos: (q_pos - k_pos) % 2 == 1)
    >>> even.dense(3)[:, :, 0].astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """

    function: checks.PositionFunction

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        has_batch = q.values.shape[-1] != 1 or k.values.shape[-1] != 1
        positions = [at.values if has_batch else at.values[..., 0] for at in (q, k)]
        hidden = self.function(*positions)
        name = "function(q_pos, k_pos)"
        checks.mask(name, hidden, get_backend(q_pos=q.values, **{name: hidden}).xp)
        shape, q_shape, k_shape = (tuple(array.shape) for array in (hidden, *positions))
        rank = max(len(q_shape), len(k_shape))
        fits = hidden.ndim in ((rank,) if has_batch else (rank, rank + 1))
        if not (fits and checks.shapes_broadcast([shape[:rank], q_shape, k_shape])):
            requirement = f"have the shape of {q_shape} and {k_shape} together, or one more axis"
            raise wrong_value(name, requirement, shape)
        return hidden if has_batch or hidden.ndim > rank else hidden[..., None]

    def _batch(self) -> int | None:
        return None


def frozen_integers(array: Array) -> Array:
    """Return an array for a mask to hold: of one of NumPy a read-only copy."""
    if not isinstance(array, np.ndarray):
        return array
    copy = np.array(array, dtype=np.int64)
    copy.flags.writeable = False  # PyTorch refuses arrays that it cannot make writable
    return copy


def integers_of_list(name: str, numbers: Any) -> HostArray:
    """Return a list of numbers, or of lists of them, as an array."""
    try:
        array: HostArray = np.asarray(numbers)
    except ValueError:
        requirement = "be an array, a list of integers, or a list of such lists of one length"
        raise wrong_value(name, requirement, format_value(numbers)) from None
    return array if array.size else array.astype(np.int64)


def _combine(kind: type[_Compound], mask: Mask, other: object) -> Any:
    """Return two masks as one, in which the parts of one of the same kind take its place."""
    if isinstance(other, Mask):
        return kind(sum((m.masks if isinstance(m, kind) else (m,) for m in (mask, other)), ()))
    if not hasattr(other, "shape"):
        return NotImplemented
    message = (
        f"A `Mask` does not combine with {format_value(other)}, whose axes it cannot know. "
        "Combine arrays by combine_masks(mask.dense(q_len, k_len), array)."
    )
    raise TypeError(message)


def _field_text(value: Array) -> str:
    """Return a field as `repr` shows it."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= _MOST_SHOWN else f"<{format_value(value)}>"
    if isinstance(value, tuple) and len(value) > _MOST_SHOWN:
        return f"<{len(value)} numbers>"
    if callable(value) and getattr(value, "__name__", "<").isidentifier():
        return str(value.__name__)
    return f"<{format_value(value)}>" if hasattr(value, "shape") else repr(value)
