"""Masks from lists of the visible keys of each query, such as neighbours or graph edges."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.dtypes import dtype_name, is_dtype
from positional_embeddings.arrays.errors import format_value, plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, HostArray, Length, np
from positional_embeddings.masks.index_ranges import IndexRanges
from positional_embeddings.masks.mask import Mask, frozen_integers, integers_of_list
from positional_embeddings.masks.position_blocks import PositionBlock

_CSR_HINT = "ListMask.from_csr(csr.indptr, csr.indices), where csr is"
_EDGES = f" Edges are {_CSR_HINT} scipy.sparse.csr_array((ones, (queries, keys)))."


@dataclass(frozen=True, eq=False, repr=False)
class ListMask(Mask):
    """A query attends to the keys of its list, such as neighbours.

    Attention gathers the listed keys: its time and memory grow with the total length of the
    lists, not with queries times keys. ``ListMask(...) | mask`` evaluates `mask` at the listed
    pairs only. With ``&`` and ``~`` all pairs are evaluated, as with a boolean array.

    List i belongs to query i, and keys are array indices, independent of `offset` and
    `positions`. With more queries than keys, other masks and biases need an `offset`.

    Parameters
    ----------
    indices : list, tuple or array of int, shape (query, m) or (query, m, batch)
        The visible keys of each query, in any order, without duplicates; -1 for no key. Or a list
        of lists of different lengths, or a NumPy array of dtype object, the result of a radius
        search. With `indptr`, shape (entries,): the concatenated lists.
    indptr : list, tuple or array of int, shape (queries + 1,), optional
        Index in `indices` at which each list begins, and the end of the last list, as in
        `from_csr`. Its values are read when the mask is made, which synchronizes with a GPU.

    Raises
    ------
    TypeError
        If `indices` are not signed integers, or `indptr` are not concrete integers.
    ValueError
        If an array has the wrong shape, or `indptr` does not ascend from 0 to the number of
        `indices`. If a key on the host is below -1, or is twice in a list. As an array or in an
        attention, if the number of lists is not the number of queries, or a key is too large.
        Lists on a GPU, lazy or in a trace are not checked: for a key that is too large, attention
        returns NaN, and a key that is twice in a list has twice its weight.

    Examples
    --------
    >>> mask = ListMask([[0, 1], [1, 2], [2, -1]])
    >>> mask.dense(3)[:, :, 0].astype(int)
    array([[0, 0, 1],
           [1, 0, 0],
           [1, 1, 0]])
    """

    indices: Array = array_field()
    indptr: Array = None
    # The largest key; None if the values are not checked.
    _largest: int | None = field(default=None, init=False, compare=False)

    @classmethod
    def from_csr(cls, indptr: Sequence[int] | AnyArray, indices: AnyArray) -> "ListMask":
        """Return the mask of lists of any lengths, from a matrix in CSR format.

        Attention processes lists of similar lengths together: a long list does not slow down
        shorter ones.

        Parameters
        ----------
        indptr : list, tuple or array of int, shape (queries + 1,)
            Index in `indices` at which each list begins, and the end of the last list.
        indices : list, tuple or array of int, shape (entries,)
            The concatenated lists of keys.

        Returns
        -------
        ListMask
            ``ListMask(indices, indptr)``.

        Raises
        ------
        TypeError, ValueError
            The errors of the class.

        Examples
        --------
        >>> ListMask.from_csr([0, 1, 3], [1, 0, 1]).dense(2)[:, :, 0].astype(int)
        array([[1, 0],
               [0, 0]])

        For a SciPy ``csr_array``: ``ListMask.from_csr(graph.indptr, graph.indices)``.
        """
        return cls(indices, indptr)

    def __post_init__(self) -> None:
        indices, indptr = self.indices, self.indptr
        if indptr is None and _are_ragged(indices):
            lists = [integers_of_list(f"indices[{i}]", list(x)) for i, x in enumerate(indices)]
            wrong = [i for i, x in enumerate(lists) if x.ndim != 1 or x.dtype.kind != "i"]
            if wrong:
                name, requirement = f"indices[{wrong[0]}]", "be a list or an array of integers"
                raise wrong_type(name, requirement, format_value(indices[wrong[0]]))
            indices, indptr = np.concat(lists), np.cumsum([0, *map(len, lists)])
        elif isinstance(indices, list | tuple | range):
            indices = integers_of_list("indices", indices)
        if type(indices).__module__.startswith("scipy.sparse"):
            hint = f" Pass {_CSR_HINT} indices.tocsr()."
            raise wrong_type("indices", "be an array", format_value(indices), hint)
        backend = get_backend(indices=indices)
        if not is_dtype(indices.dtype, "signed integer", backend.xp):
            actual = dtype_name(indices.dtype)
            pairs_hint = f" A matrix of pairs is {_CSR_HINT} scipy.sparse.csr_array(matrix)."
            objects_hint = " Each list is a list, a tuple or an array of integers."
            hint = {"bool": pairs_hint, "object": objects_hint}.get(actual, "")
            raise wrong_type("indices", "have a signed integer dtype", actual, hint)
        shape, is_csr = tuple(indices.shape), indptr is not None
        if len(shape) not in ((1,) if is_csr else (2, 3)) or (shape[0] == 0 and not is_csr):
            requirement = "(query, m) or (query, m, batch), of one query or more"
            requirement = "(entries,) with `indptr`" if is_csr else requirement
            raise wrong_value("indices", f"have shape {requirement}", shape)
        if is_csr:
            indptr = checks.sequence_of("indptr", indptr)
            ends = indptr[:1], indptr[-1:]
            if len(indptr) < 2 or ends != ((0,), shape) or np.any(np.diff(indptr) < 0):
                requirement = f"ascend from 0 to the number of `indices`, {shape[0]}"
                raise wrong_value("indptr", requirement, format_value(indptr))
        if 0 in shape:  # libraries cannot take entries of an empty array
            count = len(indptr) - 1 if is_csr else shape[0]
            options = {"dtype": backend.int_dtype, "device": backend.device}
            indices, indptr = backend.xp.full((count, 1, *shape[2:]), -1, **options), None
        indices = frozen_integers(backend.astype(indices, backend.int_dtype))
        checks.set_fields(self, indices=indices, indptr=indptr)
        if backend.is_concrete(indices) and backend.is_on_host(indices):
            self._check_values(backend)
            checks.set_fields(self, _largest=int(backend.xp.max(indices)))

    def _check_values(self, backend: Backend) -> None:
        """Check that no list has a key twice, and no key is below 0, or -1 for no key."""
        xp, min_key = backend.xp, -1 if self.indptr is None else 0
        if backend.concrete_bool(xp.any(self.indices < min_key)):
            raise wrong_value("indices", f"be {min_key} or more", int(xp.min(self.indices)))
        for queries, lists in self._groups():
            keys = xp.sort(lists, axis=1)
            is_duplicate = (keys[:, 1:, ...] == keys[:, :-1, ...]) & (keys[:, 1:, ...] >= 0)
            if backend.concrete_bool(xp.any(is_duplicate)):
                index = tuple(np.argwhere(backend.to_numpy(is_duplicate))[0].tolist())
                key, query = int(keys[index]), index[0] if queries is None else queries[index[0]]
                hint = _EDGES if self.indptr is None and self._count == 2 else _no_key_hint(key)
                hint = " The axes are (query, m, batch)." if self.indices.ndim == 3 else hint
                actual = f"{key} twice for query {query}"
                raise wrong_value("indices", "list a key once", actual, hint)

    # For attention.

    @property
    def _count(self) -> Length:
        """Return the number of lists."""
        return self.indices.shape[0] if self.indptr is None else len(self.indptr) - 1

    def _groups(self) -> list[tuple[HostArray | None, Array]]:
        """Return groups of similar length: their queries, None for all, and their lists.

        Lists have shape (query, key, batch or 1).
        """
        if self.indptr is None:
            return [(None, self._padded())]
        # In a group, the longest list is less than 1.5 times as long as the shortest one.
        mantissa, exponent = np.frexp(np.diff(self.indptr))
        labels, backend = 2 * exponent + (mantissa >= 0.75), get_backend(indices=self.indices)
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        return [(queries, self._lists_of(queries, backend)) for queries in groups]

    def _padded(self) -> Array:
        """Return all lists, (query, key, batch or 1), in their library."""
        if self.indptr is None:
            return self.indices if self.indices.ndim > 2 else self.indices[..., None]
        return self._lists_of(np.arange(self._count), get_backend(indices=self.indices))

    def _lists_of(self, queries: Array, backend: Backend) -> Array:
        """Return the lists of some queries, (*queries.shape, key, batch or 1)."""
        xp, in_library = backend.xp, PositionBlock(None, backend, None).in_library
        if self.indptr is None:
            return backend.take_entries(in_library(self._padded()), queries, 0)
        lengths = np.diff(self.indptr)
        list_lengths = lengths[queries] if isinstance(queries, np.ndarray) else lengths
        max_length = int(list_lengths.max(initial=1))  # at least 1, even without queries
        options = {"dtype": backend.int_dtype, "device": backend.device}
        bounds, queries = in_library(np.asarray(self.indptr)), xp.asarray(queries, **options)
        first, stop = (
            backend.take_entries(bounds, i, 0)[..., None] for i in (queries, queries + 1)
        )
        entries = first + xp.arange(max_length, **options)
        keys = backend.take_entries(
            in_library(self.indices), xp.where(entries < stop, entries, 0), 0
        )
        return xp.where(entries < stop, keys, -1)[..., None]

    def _split_lists(self) -> tuple["ListMask", None]:
        return self, None

    # Methods of `Mask`.

    def _sorted(self, q: PositionBlock) -> Array:
        """Return the sorted lists of queries, (*queries, batch or 1, key)."""
        backend, queries, ranges = q.backend, q.indices[..., 0], q.indices_at
        is_numpy = isinstance(self.indices, np.ndarray)
        if is_numpy and isinstance(ranges, IndexRanges) and ranges.ranges:
            backend = backend_for()  # NumPy: not all libraries have a sort
            queries = ranges.indices(backend)[:, None]
        queries = backend.xp.where((queries >= 0) & (queries < self._count), queries, 0)
        lists = backend.transpose(self._lists_of(queries, backend))
        return q.in_library(backend.xp.sort(lists, axis=-1))

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        backend, queries, keys = q.backend, q.indices[..., 0], k.indices
        xp, lists = backend.xp, self._sorted(q)
        *rows, length = lists.shape
        table = backend.reshape(lists, (prod(lists.shape),))
        index = xp.arange(prod(rows), dtype=backend.int_dtype, device=backend.device) * length
        index = backend.reshape(index, tuple(rows))
        while length > 1:  # binary search in the sorted list of each query
            half = length // 2
            middle = index + half
            index = xp.where(backend.take_entries(table, middle, 0) <= keys, middle, index)
            length -= half
        is_listed = backend.take_entries(table, index, 0) == keys
        has_list = (queries >= 0) & (queries < self._count)
        return ~(is_listed & has_list[..., None] & (keys >= 0))

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:  # noqa: ARG002
        q_len, largest = queries[1] - queries[0], self._largest
        if checks.lengths_differ(self._count, q_len):
            is_transposed = self.indptr is None and self.indices.shape[1] == q_len
            hint = " Pass indices.T if it is (m, query)." if is_transposed else ""
            requirement = f"have a list for each of {plural(q_len, 'query')}"
            raise wrong_value("indices", requirement, plural(self._count, "list"), hint)
        if largest is not None and largest >= k_len:
            requirement, hint = f"be below the number of keys, {k_len}", _no_key_hint(largest)
            raise wrong_value("indices", requirement, largest, hint if largest == k_len else "")

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        if not positions.equal_indices:
            requirement = "have no ListMask with a step whose slots may be no positions"
            raise wrong_value("mask", requirement, self)
        self._check((0, positions.queries.shape[0]), positions.keys.shape[0], backend)

    def _batch(self) -> int | None:
        size = (*self.indices.shape, 1, 1)[2]
        return size if checks.is_static(size) else None


def _are_ragged(lists: Any) -> bool:
    """Return whether lists differ in length, or are an array of objects from a radius search."""
    are_objects = isinstance(lists, np.ndarray) and lists.dtype == object and lists.ndim == 1
    if not ((are_objects or isinstance(lists, list | tuple)) and len(lists)):
        return False
    if not all(
        isinstance(keys, list | tuple | range) or getattr(keys, "shape", ()) for keys in lists
    ):
        return False
    return are_objects or len(set(map(len, lists))) > 1


def _no_key_hint(key: int) -> str:
    """Return the remedy if a number stands for no key, as in SciPy's trees."""
    return f" If {key} stands for none, pass np.where(indices == {key}, -1, indices)."
