"""Masks by lists of the keys that each query sees, such as neighbours, or edges of a graph."""

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
from positional_embeddings.masks.mask import Mask, frozen_integers, integers_of_list
from positional_embeddings.masks.points import PositionBlock
from positional_embeddings.masks.spans import IndexRanges

_CSR_HINT = "ListMask.from_csr(csr.indptr, csr.indices), where csr is"
_EDGES = f" Edges are {_CSR_HINT} scipy.sparse.csr_array((ones, (queries, keys)))."


@dataclass(frozen=True, eq=False, repr=False)
class ListMask(Mask):
    """A query sees the keys of its list, such as neighbours.

    An attention gathers these keys: its time and memory grow as the lists, not as queries times
    keys. The same holds for ``ListMask(...) | mask``, with `mask` evaluated at the listed pairs
    alone. With ``&`` and ``~`` all pairs are evaluated, as for an array of a mask.

    Lists belong to queries by their order, and a key is its index in the arrays: `offset` and
    `positions` move neither. There may be more queries than keys; other masks and biases then
    need an `offset`.

    Parameters
    ----------
    indices : list, tuple or array of int, shape (query, m) or (query, m, batch)
        The keys that each query sees, in any order, each once; -1 for none. Or a list of lists of
        several lengths, or NumPy's array of such, as searches in a radius return them. With
        `indptr`, shape (entries,): one list after another.
    indptr : list, tuple or array of int, shape (queries + 1,), optional
        Where each list begins in `indices`, and where the last one ends, as `from_csr` takes it.
        These numbers are read at once; a GPU is waited for.

    Raises
    ------
    TypeError
        If `indices` are not signed integers, or `indptr` are no integers that can be read.
    ValueError
        If an array has the wrong shape, `indptr` does not ascend from 0 to the number of
        `indices`, or a key is twice in a list or below -1, where that can be read; as an array or
        in an attention, if there is not one list for each query, or a key is not among the keys.
        Lists on a GPU, lazy or in a trace are not read: an attention gives NaN for a query with a
        key that is not there, and counts a key twice that is twice in a list.

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
    # The largest key, if the lists are checked.
    _largest: int | None = field(default=None, init=False, compare=False)

    @classmethod
    def from_csr(cls, indptr: Sequence[int] | AnyArray, indices: AnyArray) -> "ListMask":
        """Return the mask of lists of any lengths, as a matrix in CSR format has them.

        An attention computes lists of like lengths together, so that a long one slows no others.

        Parameters
        ----------
        indptr : list, tuple or array of int, shape (queries + 1,)
            Where each list begins in `indices`, and where the last one ends.
        indices : list, tuple or array of int, shape (entries,)
            The keys of the first list, then those of the second one, and so on.

        Returns
        -------
        ListMask
            ``ListMask(indices, indptr)``.

        Raises
        ------
        TypeError, ValueError
            As by the class.

        Examples
        --------
        >>> ListMask.from_csr([0, 1, 3], [1, 0, 1]).dense(2)[:, :, 0].astype(int)
        array([[1, 0],
               [0, 0]])

        A graph of SciPy, ``csr_array``, gives ``ListMask.from_csr(graph.indptr, graph.indices)``.
        """
        return cls(indices, indptr)

    def __post_init__(self) -> None:
        indices, indptr = self.indices, self.indptr
        if indptr is None and _are_of_any_lengths(indices):
            lists = [integers_of_list(f"indices[{i}]", list(x)) for i, x in enumerate(indices)]
            odd = [i for i, x in enumerate(lists) if x.ndim != 1 or x.dtype.kind != "i"]
            if odd:
                requirement = "be a list or an array of integers"
                raise wrong_type(f"indices[{odd[0]}]", requirement, format_value(indices[odd[0]]))
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
        if 0 in shape:  # of which nothing can be taken
            count = len(indptr) - 1 if is_csr else shape[0]
            like = {"dtype": backend.integer, "device": backend.device}
            indices, indptr = backend.xp.full((count, 1, *shape[2:]), -1, **like), None
        indices = frozen_integers(backend.astype(indices, backend.integer))
        checks.set_fields(self, indices=indices, indptr=indptr)
        if backend.is_concrete(indices) and backend.is_on_host(indices):
            self._check_values(backend)
            checks.set_fields(self, _largest=int(backend.xp.max(indices)))

    def _check_values(self, backend: Backend) -> None:
        """Check that a list has no key twice, and none below 0 but -1 for none."""
        xp, least = backend.xp, -1 if self.indptr is None else 0
        if backend.concrete_bool(xp.any(self.indices < least)):
            raise wrong_value("indices", f"be {least} or more", int(xp.min(self.indices)))
        for queries, lists in self._groups():
            keys = xp.sort(lists, axis=1)
            are_twice = (keys[:, 1:, ...] == keys[:, :-1, ...]) & (keys[:, 1:, ...] >= 0)
            if backend.concrete_bool(xp.any(are_twice)):
                place = tuple(np.argwhere(backend.to_numpy(are_twice))[0].tolist())
                key, query = int(keys[place]), place[0] if queries is None else queries[place[0]]
                hint = _EDGES if self.indptr is None and self._count == 2 else _for_none(key)
                actual = f"{key} twice for query {query}"
                raise wrong_value("indices", "list a key once", actual, hint)

    # What an attention asks for.

    @property
    def _count(self) -> Length:
        """The number of lists."""
        return self.indices.shape[0] if self.indptr is None else len(self.indptr) - 1

    def _groups(self) -> list[tuple[HostArray | None, Array]]:
        """Return the lists, (query, key, batch or 1), and the queries of groups of like lengths.

        None are all queries.
        """
        if self.indptr is None:
            return [(None, self._padded())]
        # The longest list of a group is less than 1.5 times as long as the shortest one.
        mantissa, exponent = np.frexp(np.diff(self.indptr))
        kinds, backend = 2 * exponent + (mantissa >= 0.75), get_backend(indices=self.indices)
        groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
        return [(queries, self._of(queries, backend)) for queries in groups]

    def _padded(self) -> Array:
        """Return all lists, (query, key, batch or 1), in the library that has them."""
        if self.indptr is None:
            return self.indices if self.indices.ndim > 2 else self.indices[..., None]
        return self._of(np.arange(self._count), get_backend(indices=self.indices))

    def _of(self, queries: Array, backend: Backend) -> Array:
        """Return the lists of some queries, (*queries.shape, key, batch or 1)."""
        xp, in_library = backend.xp, PositionBlock(None, backend, None).in_library
        if self.indptr is None:
            return backend.take_entries(in_library(self._padded()), queries, 0)
        lengths = np.diff(self.indptr)
        list_lengths = lengths[queries] if isinstance(queries, np.ndarray) else lengths
        longest = list_lengths.max(initial=1)  # there may be no queries
        like = {"dtype": backend.integer, "device": backend.device}
        bounds, queries = in_library(np.asarray(self.indptr)), xp.asarray(queries, **like)
        first, stop = (
            backend.take_entries(bounds, i, 0)[..., None] for i in (queries, queries + 1)
        )
        entries = first + xp.arange(int(longest), **like)
        keys = backend.take_entries(
            in_library(self.indices), xp.where(entries < stop, entries, 0), 0
        )
        return xp.where(entries < stop, keys, -1)[..., None]

    def _split_lists(self) -> tuple["ListMask", None]:
        return self, None

    # What all masks have.

    def _sorted(self, q: PositionBlock) -> Array:
        """Return the sorted lists of queries, (*queries, batch or 1, key)."""
        backend, queries, span = q.backend, q.indices[..., 0], q.indices_at
        if isinstance(self.indices, np.ndarray) and isinstance(span, IndexRanges) and span.ranges:
            backend = backend_for()  # on the host: not every library sorts
            queries = span.positions(backend)[:, None]
        queries = backend.xp.where((queries >= 0) & (queries < self._count), queries, 0)
        lists = backend.transpose(self._of(queries, backend))
        return q.in_library(backend.xp.sort(lists, axis=-1))

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        backend, queries, keys = q.backend, q.indices[..., 0], k.indices
        xp, lists = backend.xp, self._sorted(q)
        *rows, length = lists.shape
        table = backend.reshape(lists, (prod(lists.shape),))
        place = xp.arange(prod(rows), dtype=backend.integer, device=backend.device) * length
        place = backend.reshape(place, tuple(rows))
        while length > 1:  # a search in the sorted list of each query
            half = length // 2
            further = place + half
            place = xp.where(backend.take_entries(table, further, 0) <= keys, further, place)
            length -= half
        is_listed = backend.take_entries(table, place, 0) == keys
        has_list = (queries >= 0) & (queries < self._count)
        return ~(is_listed & has_list[..., None] & (keys >= 0))

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:  # noqa: ARG002
        n, largest = queries[1] - queries[0], self._largest
        if checks.lengths_differ(self._count, n):
            is_turned = self.indptr is None and self.indices.shape[1] == n
            hint = " Pass indices.T if it is (m, query)." if is_turned else ""
            requirement = f"have a list for each of {plural(n, 'query')}"
            raise wrong_value("indices", requirement, plural(self._count, "list"), hint)
        if largest is not None and largest >= k_len:
            requirement, hint = f"be below the number of keys, {k_len}", _for_none(largest)
            raise wrong_value("indices", requirement, largest, hint if largest == k_len else "")

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        if not positions.are_indices:
            requirement = "have no ListMask with a step whose slots may be no positions"
            raise wrong_value("mask", requirement, self)
        self._check((0, positions.queries.shape[0]), positions.keys.shape[0], backend)

    def _batch(self) -> int | None:
        size = (*self.indices.shape, 1, 1)[2]
        return size if checks.is_static(size) else None


def _are_of_any_lengths(lists: Any) -> bool:
    """Tell whether these are lists of several lengths, or the arrays of a search in a radius."""
    is_of_objects = isinstance(lists, np.ndarray) and lists.dtype == object and lists.ndim == 1
    if not ((is_of_objects or isinstance(lists, list | tuple)) and len(lists)):
        return False
    if not all(
        isinstance(keys, list | tuple | range) or getattr(keys, "shape", ()) for keys in lists
    ):
        return False
    return is_of_objects or len(set(map(len, lists))) > 1


def _for_none(key: int) -> str:
    """Return the way on if a key stands for none, as in SciPy's trees."""
    return f" If {key} stands for none, pass np.where(indices == {key}, -1, indices)."
