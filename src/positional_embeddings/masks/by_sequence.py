"""Masks that differ between sequences: padding, prefixes, and segments of packed documents."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Literal, NamedTuple, get_args

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, HostArray, np
from positional_embeddings.masks.index_ranges import check_lengths, length_array, sequence_axis
from positional_embeddings.masks.mask import Mask, frozen_integers, integers_of_list
from positional_embeddings.masks.position_blocks import PositionBlock
from positional_embeddings.masks.ranges import (
    Ranges,
    VisibleKeys,
    clip,
    hull,
    intersect,
    unite_arrays,
)

Side = Literal["right", "left"]


@dataclass(frozen=True, eq=False, repr=False)
class _LengthMask(Mask):
    """Base of masks from one length of each sequence."""

    lengths: Array = array_field()
    # The smallest and the largest length; None if they are not on the host.
    _bounds: tuple[int, int] | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        self._check_fields()
        lengths = frozen_integers(length_array("lengths", self.lengths, None, None)[1])
        checks.set_fields(self, lengths=lengths)
        if isinstance(lengths, np.ndarray) and lengths.size:
            checks.set_fields(self, _bounds=(int(lengths.min()), int(lengths.max())))

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:  # noqa: ARG002
        # A value that is read during compilation makes PyTorch recompile for each new value.
        if isinstance(self.lengths, np.ndarray) and backend.is_compiling:
            return
        if self._bounds is None or self._bounds[1] > k_len:
            backend = get_backend(lengths=self.lengths)
            if backend.is_on_host(self.lengths):
                check_lengths("lengths", self.lengths, backend, k_len, "the number of keys")

    def _batch(self) -> int | None:
        size = self.lengths.shape[0]
        return size if checks.is_static(size) else None


@dataclass(frozen=True, eq=False, repr=False)
class PaddingMask(_LengthMask):
    """No query attends to padding, in sequences of different lengths.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (batch,)
        Lengths of the sequences without padding, zero or more.
    side : {"right", "left"}, default "right"
        Side of the padding, which `from_attention_mask` checks. Masks of chunks, prefixes, global
        tokens and grids would count padding on the left, which is an error: pass `positions`.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If `lengths` do not have one axis, or a length is negative; as an array or in an
        attention, if a length exceeds the number of keys. Lengths on a GPU, lazy or in a trace
        are not checked: a negative length masks all keys, and too large a length masks none.

    Examples
    --------
    >>> PaddingMask([2, 3]).dense(1, 4)[0].astype(int)
    array([[0, 0],
           [0, 0],
           [1, 0],
           [1, 1]])
    """

    lengths: Sequence[int] | AnyArray = array_field()
    side: Annotated[Side, checks.one_of(Side)] = "right"

    @classmethod
    def from_attention_mask(
        cls, attention_mask: AnyArray, /, side: Side = "right"
    ) -> "PaddingMask":
        """Return the mask of a tokenizer's `attention_mask`.

        Parameters
        ----------
        attention_mask : array of int or bool, shape (batch, seq)
            1 at tokens, and 0 at padding.
        side : {"right", "left"}, default "right"
            Side of the padding.

        Returns
        -------
        PaddingMask
            Its lengths are the numbers of tokens of the sequences.

        Raises
        ------
        TypeError
            If `attention_mask` holds neither integers nor booleans.
        ValueError
            If `attention_mask` does not have two axes. If its values are concrete, and are not 0
            and 1, or have padding on the other side or between tokens.

        Examples
        --------
        >>> import numpy as np
        >>> PaddingMask.from_attention_mask(np.asarray([[1, 1, 0], [1, 1, 1]]))
        PaddingMask([2, 3])
        """
        name, numbers = "attention_mask", attention_mask
        backend = get_backend(attention_mask=numbers)
        xp = backend.xp
        checks.choice("side", side, get_args(Side))
        if not any(dtypes.is_dtype(numbers.dtype, kind, xp) for kind in ("bool", "integral")):
            hint = f" Pass {name} == 1, or {name} == 0 if it is added to scores."
            requirement = "have an integer or boolean dtype"
            raise wrong_type(name, requirement, dtypes.dtype_name(numbers.dtype), hint)
        if numbers.ndim != 2:
            raise wrong_value(name, "have shape (batch, seq)", tuple(numbers.shape))
        if backend.is_concrete(numbers):
            is_token = xp.astype(numbers, xp.bool)
            earlier, later = is_token[:, :-1], is_token[:, 1:]
            has_other_numbers = xp.any(numbers != xp.astype(is_token, numbers.dtype))
            is_wrong = {"right": xp.any(later & ~earlier), "left": xp.any(earlier & ~later)}
            if backend.concrete_bool(has_other_numbers | is_wrong.pop(side)):  # one synchronization
                if backend.concrete_bool(has_other_numbers):
                    raise wrong_value(name, "hold 1 at tokens and 0 at padding", "other numbers")
                requirement = f"have its padding on the {side} of each sequence (`side`)"
                hint = f" SegmentMask({name}.T - 1) supports padding at any position."
                for other_side, is_other_wrong in is_wrong.items():
                    if not backend.concrete_bool(is_other_wrong):
                        hint = f" Pass side={other_side!r}."
                        if dtypes.is_dtype(numbers.dtype, "bool", xp):
                            hint = f" Pass ~{name} if True is padding, else side={other_side!r}."
                raise wrong_value(name, requirement, "padding elsewhere", hint)
        lengths = xp.sum(xp.astype(numbers, backend.int_dtype), axis=1, dtype=backend.int_dtype)
        return cls(lengths, side)

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        lengths = q.in_library(self.lengths)
        if self.side == "right":
            return k.values >= lengths
        if k.k_len is None:
            raise wrong_value("k_len", "be given for padding on the left", "None")
        return k.values < k.k_len - lengths

    def _is_padded_on_left(self, k_len: int) -> bool:
        return self.side == "left" and (self._bounds is None or self._bounds[0] < k_len)

    def _check_positions(self, positions: Any, backend: Backend) -> None:  # noqa: ARG002
        hint = " Set the key positions of padding to -1."
        raise wrong_value("mask", "have no PaddingMask with explicit positions", self, hint)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:  # noqa: ARG002
        lengths = reversed(self._bounds or (0, k_len))
        if self.side == "left":
            return VisibleKeys(*(clip(k_len - length, k_len, k_len) for length in lengths))
        return VisibleKeys(*(clip(0, length, k_len) for length in lengths))


@dataclass(frozen=True, eq=False, repr=False)
class PrefixMask(_LengthMask):
    """A query attends to a prefix, its own position, and earlier positions (prefix LM).

    Do not combine it with `CausalMask` by ``|``, which masks later keys of the prefix.

    Parameters
    ----------
    lengths : int, or list, tuple or array of int, shape (batch,)
        Number of keys of the prefix, zero or more, of all sequences or of each sequence.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If a length is negative; as an array or in an attention, if a length exceeds the number
        of keys. Lengths on a GPU, lazy or in a trace are not checked.

    References
    ----------
    Raffel et al. (2020), T5, section 3.2.1.

    Examples
    --------
    >>> PrefixMask(2).dense(3)[:, :, 0].astype(int)
    array([[0, 0, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """

    lengths: int | Sequence[int] | AnyArray = array_field()

    _uses_absolute_positions = True

    def __post_init__(self) -> None:
        lengths: Array = self.lengths
        if isinstance(lengths, Real):
            requirement = "an integer or a sequence of integers"
            lengths = [checks.integer("lengths", lengths, requirement)]  # type: ignore[arg-type]
        elif getattr(lengths, "shape", None) == ():
            lengths = lengths[None]
        checks.set_fields(self, lengths=lengths)
        super().__post_init__()

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        return (k.values > q.values) & (k.values >= q.in_library(self.lengths))

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        min_length, max_length = self._bounds or (0, k_len)
        any_query = clip(0, max(stop, max_length), k_len)
        return VisibleKeys(any_query, clip(0, max(start + 1, min_length), k_len))


@dataclass(frozen=True, eq=False, repr=False)
class SegmentMask(Mask):
    """A query attends to the keys of its own document, in a sequence of packed documents.

    Parameters
    ----------
    ids : list, tuple or array of int, shape (seq,) or (seq, batch)
        Document of each position. A negative number is padding, which attends to no keys and
        is masked. In an attention with `positions` alone, or with `key_ids`, they are the
        documents of the columns, if there are as many, so that positions may restart. The first
        step of a cache takes the documents of the columns of an attention mask. Later steps take
        those of all tokens so far, without padding.
    key_ids : list, tuple or array of int, shape (key,) or (key, batch), optional
        Document of each key, `ids` if None. With `key_ids`, the last query is at the last key,
        as with cached keys.

    Raises
    ------
    TypeError
        If an array does not hold signed integers, or their libraries differ.
    ValueError
        If an array has the wrong number of axes, or the batch sizes differ; as an array or in an
        attention, if a query or a key has no document.

    See Also
    --------
    segment_ids_from_lengths : The segments of documents packed one after another.

    References
    ----------
    Krell et al. (2021), Efficient Sequence Packing, section 3.2.

    Examples
    --------
    >>> mask = SegmentMask([0, 0, 1, -1])
    >>> mask.dense(4)[:, :, 0].astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1],
           [1, 1, 0, 1],
           [1, 1, 1, 1]])
    >>> mask.key_ranges(2, 3, k_len=4)
    ((2, 3),)
    """

    ids: Array = array_field()
    key_ids: Array = array_field(None)
    # The documents of the keys; None if they are not on the host.
    _documents: "_Documents | None" = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {"ids": self.ids} | namespace.drop_none(key_ids=self.key_ids)
        for name, ids in by_name.items():
            if isinstance(ids, list | tuple | range):
                by_name[name] = integers_of_list(name, ids)
        xp = get_backend(**by_name).xp
        for name, ids in by_name.items():
            checks.signed_integers(name, ids, xp)
            sequence_axis(name, ids, 0)
        checks.set_fields(self, **{name: frozen_integers(ids) for name, ids in by_name.items()})
        query, key = self._documents_of()
        if not checks.shapes_broadcast([query.shape[1:], key.shape[1:]]):
            raise wrong_value("key_ids", f"have the batch of `ids`, {query.shape[1]}", key.shape[1])
        if isinstance(key, np.ndarray):
            checks.set_fields(self, _documents=_Documents.of(key))

    def _documents_of(self) -> tuple[Array, ...]:
        """Return the documents of queries and of keys, (position, batch)."""
        query, key = self.ids, self.ids if self.key_ids is None else self.key_ids
        return tuple(ids[:, None] if ids.ndim == 1 else ids for ids in (query, key))

    def _by_token(self, is_token: Array) -> Mask:
        columns = is_token.shape[1]
        arrays = [ids for ids in (self.ids, self.key_ids) if ids is not None]
        if any(ids.shape[0] < columns for ids in arrays):
            return self
        return SegmentMask(*(_ids_by_token(ids, is_token) for ids in arrays))

    def _by_column(self, positions: Any) -> Mask:
        has_columns = positions.is_shared or self.key_ids is not None
        pairs = zip(self._documents_of(), (positions.queries, positions.keys), strict=True)
        if not has_columns or any(
            checks.lengths_differ(ids.shape[0], table.shape[0]) for ids, table in pairs
        ):
            return self
        return _SegmentsOfColumns(*self._documents_of())

    def _start(self) -> int:
        """Return the position of `ids[0]`."""
        return 0 if self.key_ids is None else self.key_ids.shape[0] - self.ids.shape[0]

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        query_documents, key_documents = self._documents_of()
        query, key = q.lookup(query_documents, self._start(), -1), k.lookup(key_documents, 0, -1)
        return (query != key) | (query < 0)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        if self._documents is None:
            return VisibleKeys(((0, k_len),), ())
        start, stop = hull(queries)
        query, _ = self._documents_of()
        query = query[max(start - self._start(), 0) : max(stop - self._start(), 0), :]
        visible = self._documents.visible_keys(query, k_len)
        has_documents = query.shape[0] == stop - start
        return visible if has_documents else VisibleKeys(visible.any_query, ())

    def _check(
        self,
        queries: tuple[int, int],
        k_len: int,
        backend: Backend,  # noqa: ARG002
        hint: str = "",
    ) -> None:
        first, last = self._start(), self._start() + self.ids.shape[0]
        start, stop = queries
        if checks.is_static(last) and (start < first or last < stop):
            requirement = "have shape (seq,) or (seq, batch), and include the query positions"
            actual = f"shape {tuple(self.ids.shape)}, for positions {first} to {last - 1}"
            if not hint and self.ids.ndim == 2 and stop <= (self.ids.shape[1] or 0):
                hint = " Pass ids.T if they are (batch, seq)."
            raise wrong_value("ids", f"{requirement} {start} to {stop - 1}", actual, hint)
        name = "ids" if self.key_ids is None else "key_ids"
        key = getattr(self, name)
        if checks.is_static(key.shape[0]) and k_len > key.shape[0]:
            requirement = f"have shape (key,) or (key, batch), with {plural(k_len, 'key')} or more"
            raise wrong_value(name, requirement, tuple(key.shape))

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        if positions.extent is not None:
            if positions.slots is None:
                _check_distinct(positions.on_host.keys)
            queries, k_len = positions.extent
            first = self._start()
            hint = " A `CausalMask` is enough if each sequence is one text: padding is not stored."
            is_later = positions.slots is not None and queries[1] > first + self.ids.shape[0]
            self._check(queries, k_len, backend, hint * is_later)

    def _batch(self) -> int | None:
        return _batch_of(*self._documents_of())


def _batch_of(*documents: Array) -> int | None:
    """Return the batch size of documents (position, batch), or None if it is not static."""
    sizes = [ids.shape[1] for ids in documents]
    size = next((size for size in sizes if size != 1), 1)
    return size if checks.is_static(size) else None


def _check_distinct(keys: HostArray) -> None:
    """Check that keys of a sequence, (key, batch), have positions of their own, or below 0."""
    ordered = np.sort(keys, axis=0)
    repeated = ordered[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)]
    if repeated.size:
        requirement = "differ from each other, since ids of a SegmentMask are those of positions"
        hint = " Pass SegmentMask(ids, key_ids), with the documents of the queries and of the keys."
        raise wrong_value("key_positions", requirement, f"{repeated[0]} twice", hint)


@dataclass(frozen=True, repr=False)
class _SegmentsOfColumns(Mask):
    """A `SegmentMask` with the documents of columns, (column, batch), at any positions."""

    queries: Array = array_field()
    keys: Array = array_field()

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        columns = [PositionBlock(p.indices, p.backend, None) for p in (q, k)]
        tables = self.queries, self.keys
        query, key = (at.lookup(t, 0, -1) for at, t in zip(columns, tables, strict=True))
        return (query != key) | (query < 0)

    def _batch(self) -> int | None:
        return _batch_of(self.queries, self.keys)


def _ids_by_token(ids: Array, is_token: Array) -> Array:
    """Return the ids of columns (column,) or (column, batch) by token, (token, batch)."""
    host = get_backend(is_token=is_token)
    backend = host if isinstance(ids, np.ndarray) else get_backend(ids=ids)
    xp, device = backend.xp, backend.device
    ids = PositionBlock(None, backend, None).in_library(ids if ids.ndim > 1 else ids[:, None])
    (count, batch), (rows, columns) = ids.shape, is_token.shape
    on_host = {"dtype": host.int_dtype, "device": host.device}
    later = host.xp.ones((rows, count - columns), **on_host)  # later ids are of tokens
    numbers = host.xp.concat([host.xp.astype(is_token, host.int_dtype), later], axis=1)
    order = host.xp.argsort(-numbers, axis=1, stable=True).T
    index = order * batch + host.xp.arange(rows, **on_host) % batch
    has_token = host.xp.arange(count, **on_host)[:, None] < host.xp.sum(numbers, axis=1)
    index = xp.asarray(host.xp.reshape(index, (-1,)), dtype=backend.int_dtype, device=device)
    by_token = xp.reshape(xp.take(xp.reshape(ids, (-1,)), index, axis=0), (count, rows))
    return xp.where(xp.asarray(has_token, device=device), by_token, -1)


class _Documents(NamedTuple):
    """The documents of the keys, and the range of keys of each document."""

    ids: HostArray  # the sorted ids of all sequences
    batch: int
    numbers: HostArray  # sequence * len(ids) + index into ids, ascending
    firsts: HostArray
    lasts: HostArray
    is_contiguous: HostArray

    @classmethod
    def of(cls, ids: HostArray) -> "_Documents":
        """Return the documents of an array of ids, (key, batch)."""
        keys, batch = ids.shape
        documents, index = np.unique(ids.T.ravel(), return_inverse=True)
        numbers = np.repeat(np.arange(batch), keys) * len(documents) + index
        order = np.argsort(numbers, stable=True)
        order = order[documents[index[order]] >= 0]
        numbers, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
        firsts, lasts = order[starts] % keys, order[starts + counts - 1] % keys
        return cls(documents, batch, numbers, firsts, lasts, lasts - firsts == counts - 1)

    def visible_keys(self, queries: HostArray, k_len: int) -> VisibleKeys:
        """Return the visible keys of queries, from the documents (query, batch) of the queries."""
        batch = queries.shape[1] if self.batch == 1 else self.batch
        queries = np.broadcast_to(queries, (len(queries), batch))
        index, has_document = _look_up(self.ids, queries)
        numbers = np.arange(batch) % self.batch * len(self.ids) + index
        visible, has_keys = _look_up(self.numbers, np.unique(numbers[has_document]))
        visible = visible[has_keys]
        firsts, lasts = self.firsts[visible], self.lasts[visible]
        any_query = intersect(unite_arrays(firsts, lasts), ((0, k_len),))
        # Whether all queries of a sequence attend to one document, which has no gap.
        are_equal = np.all(has_document & (numbers == numbers[:1, :])) and np.all(has_keys)
        if not (visible.size and are_equal and np.all(self.is_contiguous[visible])):
            return VisibleKeys(any_query, ())
        return VisibleKeys(any_query, clip(int(firsts.max()), int(lasts.min()) + 1, k_len))


def _look_up(table: HostArray, values: HostArray) -> tuple[HostArray, HostArray]:
    """Return the indices of values in a sorted table, and whether the table includes them."""
    index = np.searchsorted(table, values)
    is_included = index < len(table)
    is_included[is_included] = table[index[is_included]] == values[is_included]
    return index, is_included
