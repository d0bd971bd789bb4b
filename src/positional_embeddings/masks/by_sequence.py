"""Masks by sequence: padding, prefixes, and the segments of packed documents."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Literal, NamedTuple, get_args

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, HostArray, np
from positional_embeddings.masks import spans
from positional_embeddings.masks.mask import Mask, frozen_integers, integers_of_list
from positional_embeddings.masks.points import PositionBlock
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
class _ByLength(Mask):
    """Base of masks by a length of each sequence."""

    lengths: Array = array_field()
    # The least and the largest length, if the host has them.
    _bounds: tuple[int, int] | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        self._check_fields()
        lengths = frozen_integers(spans.length_array("lengths", self.lengths, None, None)[1])
        checks.set_fields(self, lengths=lengths)
        if isinstance(lengths, np.ndarray) and lengths.size:
            checks.set_fields(self, _bounds=(int(lengths.min()), int(lengths.max())))

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:  # noqa: ARG002
        # PyTorch would compile anew for each number that is read while it compiles.
        if isinstance(self.lengths, np.ndarray) and backend.is_compiling:
            return
        if self._bounds is None or self._bounds[1] > k_len:
            backend = get_backend(lengths=self.lengths)
            if backend.is_on_host(self.lengths):
                spans.check_lengths("lengths", self.lengths, backend, k_len, "the number of keys")

    def _batch(self) -> int | None:
        size = self.lengths.shape[0]
        return size if checks.is_static(size) else None


@dataclass(frozen=True, eq=False, repr=False)
class PaddingMask(_ByLength):
    """No query sees the padding of sequences of different lengths.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (batch,)
        Lengths of the sequences without padding, zero or more.
    side : {"right", "left"}, default "right"
        Side that the padding is on. Lengths do not tell it; `from_attention_mask` checks it.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If `lengths` do not have one axis, or one is negative; as an array or in an attention, if
        one is above the number of keys. Lengths on a GPU, lazy or in a trace are not read: there
        a negative one hides all keys, and one above the number of keys hides none.

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
            Side that the padding is on.

        Returns
        -------
        PaddingMask
            With the number of tokens of each sequence.

        Raises
        ------
        TypeError
            If `attention_mask` holds neither integers nor booleans.
        ValueError
            If it does not have two axes, or, where it can be read, holds other numbers than 0
            and 1, or padding anywhere but on that side.

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
            token = xp.astype(numbers, xp.bool)
            earlier, later = token[:, :-1], token[:, 1:]
            other = xp.any(numbers != xp.astype(token, numbers.dtype))
            elsewhere = {"right": xp.any(later & ~earlier), "left": xp.any(earlier & ~later)}
            if backend.concrete_bool(other | elsewhere.pop(side)):  # a device is waited for once
                if backend.concrete_bool(other):
                    raise wrong_value(name, "hold 1 at tokens and 0 at padding", "other numbers")
                requirement = f"have its padding on the {side} of each sequence, as `side` says"
                hint = f" SegmentMask({name}.T - 1) has its padding anywhere."
                for other_side, is_elsewhere in elsewhere.items():
                    if not backend.concrete_bool(is_elsewhere):
                        hint = f" Pass side={other_side!r}, where it is."
                raise wrong_value(name, requirement, "padding elsewhere", hint)
        lengths = xp.sum(xp.astype(numbers, backend.integer), axis=1, dtype=backend.integer)
        return cls(lengths, side)

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        lengths = q.in_library(self.lengths)
        if self.side == "right":
            return k.values >= lengths
        if k.k_len is None:
            raise wrong_value("k_len", "be given for padding on the left", "None")
        return k.values < k.k_len - lengths

    def _check_positions(self, positions: Any, backend: Backend) -> None:  # noqa: ARG002
        hint = " Give padding a key position below 0."
        raise wrong_value("mask", "have no PaddingMask where positions are given", self, hint)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:  # noqa: ARG002
        least, most = self._bounds or (0, k_len)
        if self.side == "left":
            return VisibleKeys(clip(k_len - most, k_len, k_len), clip(k_len - least, k_len, k_len))
        return VisibleKeys(clip(0, most, k_len), clip(0, least, k_len))


@dataclass(frozen=True, eq=False, repr=False)
class PrefixMask(_ByLength):
    """A query sees the keys of a prefix, its own position, and earlier ones (prefix LM).

    Use it without `CausalMask`, which would hide the prefix again.

    Parameters
    ----------
    lengths : int, or list, tuple or array of int, shape (batch,)
        Number of keys of the prefix, zero or more, the same for all sequences or one for each.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If one is negative; as an array or in an attention, if one is above the number of keys.
        Lengths on a GPU, lazy or in a trace are not read.

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

    def __post_init__(self) -> None:
        lengths: Array = self.lengths
        if isinstance(lengths, Real):
            requirement = "an integer or a sequence of integers"
            lengths = [checks.integer("lengths", lengths, requirement)]  # type: ignore[arg-type]
        elif getattr(lengths, "shape", None) == ():
            lengths = lengths[None]
        checks.set_fields(self, lengths=lengths)
        super().__post_init__()

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        return (k.values > q.values) & (k.values >= q.in_library(self.lengths))

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        least, most = self._bounds or (0, k_len)
        return VisibleKeys(clip(0, max(stop, most), k_len), clip(0, max(start + 1, least), k_len))


@dataclass(frozen=True, eq=False, repr=False)
class SegmentMask(Mask):
    """A query sees the keys of its own document, among documents packed into one sequence.

    Parameters
    ----------
    ids : list, tuple or array of int, shape (seq,) or (seq, batch)
        The document of each position; a negative number is padding, which sees nothing and is
        seen by nobody.
    key_ids : list, tuple or array of int, shape (key,) or (key, batch), optional
        The document of each key, `ids` if None. With it the queries are at the
        last positions: the last query is at the last key, as with cached keys.

    Raises
    ------
    TypeError
        If an array does not hold signed integers, or their libraries differ.
    ValueError
        If an array has the wrong number of axes, or the batches differ; as an array or in an
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
    # The documents of the keys, if the host has them.
    _documents: "_Documents | None" = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {"ids": self.ids} | namespace.drop_none(key_ids=self.key_ids)
        for name, ids in by_name.items():
            if isinstance(ids, list | tuple | range):
                by_name[name] = integers_of_list(name, ids)
        xp = get_backend(**by_name).xp
        for name, ids in by_name.items():
            checks.signed_integers(name, ids, xp)
            spans.sequence_axis(name, ids, 0)
        checks.set_fields(self, **{name: frozen_integers(ids) for name, ids in by_name.items()})
        query, key = self._documents_of()
        if not checks.shapes_broadcast([query.shape[1:], key.shape[1:]]):
            raise wrong_value("key_ids", f"have the batch of `ids`, {query.shape[1]}", key.shape[1])
        if isinstance(key, np.ndarray):
            checks.set_fields(self, _documents=_Documents.of(key))

    def _documents_of(self) -> tuple[Array, ...]:
        """Return the documents of queries and of keys as (position, batch)."""
        query, key = self.ids, self.ids if self.key_ids is None else self.key_ids
        return tuple(ids[:, None] if ids.ndim == 1 else ids for ids in (query, key))

    def _start(self) -> int:
        """Return the position of the first of `ids`."""
        return 0 if self.key_ids is None else self.key_ids.shape[0] - self.ids.shape[0]

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        query_documents, key_documents = self._documents_of()
        query, key = q.take(query_documents, self._start(), -1), k.take(key_documents, 0, -1)
        return (query != key) | (query < 0)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        if self._documents is None:
            return VisibleKeys(((0, k_len),), ())
        start, stop = hull(queries)
        query, _ = self._documents_of()
        query = query[max(start - self._start(), 0) : max(stop - self._start(), 0), :]
        visible_keys = self._documents.visible_keys(query, k_len)
        return (
            visible_keys
            if query.shape[0] == stop - start
            else VisibleKeys(visible_keys.any_query, ())
        )

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:  # noqa: ARG002
        first, last = self._start(), self._start() + self.ids.shape[0]
        start, stop = queries
        if checks.is_static(last) and (start < first or last < stop):
            requirement = (
                "have shape (seq,) or (seq, batch), with a document for each query, at positions"
            )
            actual = f"shape {tuple(self.ids.shape)}, of positions {first} to {last - 1}"
            raise wrong_value("ids", f"{requirement} {start} to {stop - 1}", actual)
        name = "ids" if self.key_ids is None else "key_ids"
        key = getattr(self, name)
        if checks.is_static(key.shape[0]) and k_len > key.shape[0]:
            requirement = (
                f"have shape (key,) or (key, batch), with a document for each of {k_len} keys"
            )
            raise wrong_value(name, requirement, tuple(key.shape))

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        if positions.extent is not None:
            queries, k_len = positions.extent
            self._check(queries, k_len, backend)

    def _batch(self) -> int | None:
        sizes = [ids.shape[1] for ids in self._documents_of()]
        size = next((size for size in sizes if size != 1), 1)
        return size if checks.is_static(size) else None


class _Documents(NamedTuple):
    """The documents of sequences of keys, and where each of them is.

    Documents have numbers, from the first sequence to the last.
    """

    ids: HostArray  # of all sequences, ascending
    batch: int
    numbers: HostArray  # sequence * len(ids) + index into ids
    firsts: HostArray
    lasts: HostArray
    contiguous: HostArray

    @classmethod
    def of(cls, ids: HostArray) -> "_Documents":
        """Return the documents of ids (key, batch)."""
        keys, batch = ids.shape
        documents, index = np.unique(ids.T.ravel(), return_inverse=True)
        numbers = np.repeat(np.arange(batch), keys) * len(documents) + index
        order = np.argsort(numbers, stable=True)
        order = order[documents[index[order]] >= 0]
        numbers, begin, counts = np.unique(numbers[order], return_index=True, return_counts=True)
        firsts, lasts = order[begin] % keys, order[begin + counts - 1] % keys
        return cls(documents, batch, numbers, firsts, lasts, lasts - firsts == counts - 1)

    def visible_keys(self, queries: HostArray, k_len: int) -> VisibleKeys:
        """Return which keys are seen by queries, whose documents (query, batch) are given."""
        batch = queries.shape[1] if self.batch == 1 else self.batch
        queries = np.broadcast_to(queries, (len(queries), batch))
        index, has_document = _look_up(self.ids, queries)
        numbers = np.arange(batch) % self.batch * len(self.ids) + index
        seen, has_keys = _look_up(self.numbers, np.unique(numbers[has_document]))
        seen = seen[has_keys]
        firsts, lasts = self.firsts[seen], self.lasts[seen]
        any_query = intersect(unite_arrays(firsts, lasts), ((0, k_len),))
        # All queries of a sequence see one document, which has no gap.
        same = np.all(has_document & (numbers == numbers[:1, :])) and np.all(has_keys)
        if not (seen.size and same and np.all(self.contiguous[seen])):
            return VisibleKeys(any_query, ())
        return VisibleKeys(any_query, clip(int(firsts.max()), int(lasts.min()) + 1, k_len))


def _look_up(ordered: HostArray, values: HostArray) -> tuple[HostArray, HostArray]:
    """Return where values are in an ordered array, and whether they are."""
    at = np.searchsorted(ordered, values)
    is_there = at < len(ordered)
    is_there[is_there] = ordered[at[is_there]] == values[is_there]
    return at, is_there
