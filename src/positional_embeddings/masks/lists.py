"""Masks by lists of the keys that each query sees, such as neighbours, or edges of a graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays.errors import shown, wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.namespace import AnyArray, Array, HostArray, Length, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.masks.mask import Mask, frozen_integers, integers_of_list
from positional_embeddings.masks.points import Points

# Ascending queries; without gaps a range, which a compiler need not trace.
Queries: TypeAlias = range | HostArray


@dataclass(frozen=True, eq=False, repr=False)
class ListMask(Mask):
    """A query sees the keys of its list, such as neighbours.

    An attention gathers these keys: its time and memory grow as the lists, not as queries times
    keys. The same holds for ``ListMask(...) | mask``, with `mask` evaluated at the listed pairs
    alone. With ``&`` and ``~`` all pairs are evaluated, and an array of a mask takes queries times
    keys times the longest list.

    Lists belong to queries by their order, and a key is its index in the arrays: `offset` and
    `positions` move neither. There may be more queries than keys; other masks and biases beside
    the lists then ask for an `offset`.

    Parameters
    ----------
    indices : list, tuple or array of int, shape (query, m) or (query, m, batch)
        The keys that each query sees, in any order, each once; -1 for none. With `indptr`, shape
        (entries,): one list after another.
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
    # The largest key, if the host has the lists.
    _largest: int | None = field(default=None, init=False, compare=False)

    @classmethod
    def from_csr(cls, indptr: Sequence[int] | AnyArray, indices: AnyArray) -> "ListMask":
        """Return the mask of lists of any lengths, as a matrix in CSR format has them.

        An attention computes lists of like lengths together, so that a long one costs no others.

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
        indices: Array = self.indices
        if isinstance(indices, list | tuple | range):
            indices = integers_of_list("indices", indices)
        space = space_of(indices=indices)
        checks.signed_integers("indices", indices, space.xp)
        shape, is_csr = tuple(indices.shape), self.indptr is not None
        if len(shape) not in ((1,) if is_csr else (2, 3)) or (shape[0] == 0 and not is_csr):
            what = "(query, m) or (query, m, batch), of one query or more"
            what = "(entries,) beside `indptr`" if is_csr else what
            raise wrong_value("indices", f"have shape {what}", shape)
        if is_csr:
            bounds = checks.several("indptr", self.indptr)
            ends = bounds[:1], bounds[-1:]
            if len(bounds) < 2 or ends != ((0,), shape) or np.any(np.diff(bounds) < 0):
                what = f"ascend from 0 to the number of `indices`, {shape[0]}"
                raise wrong_value("indptr", what, shown(bounds))
            checks.set_fields(self, indptr=bounds)
        if 0 in shape:  # of which nothing can be taken
            like = {"dtype": space.integer, "device": space.device}
            indices = space.xp.full((self._count, 1, *shape[2:]), -1, **like)
            checks.set_fields(self, indptr=None)
        checks.set_fields(self, indices=frozen_integers(space.astype(indices, space.integer)))
        if space.is_readable(indices) and space.is_on_host(indices):
            self._check_values(space)
        if isinstance(indices, np.ndarray):
            checks.set_fields(self, _largest=int(self.indices.max(initial=-1)))

    def _check_values(self, space: Space) -> None:
        """Check that a list has no key twice, and none below 0 but -1 for none."""
        xp, least = space.xp, -1 if self.indptr is None else 0
        if space.is_true(xp.any(self.indices < least)):
            raise wrong_value("indices", f"be {least} or more", int(xp.min(self.indices)))
        for queries, longest in self._groups():
            lists = xp.sort(self._of(queries, longest, space), axis=1)
            are_twice = (lists[:, 1:, ...] == lists[:, :-1, ...]) & (lists[:, 1:, ...] >= 0)
            if space.is_true(xp.any(are_twice)):
                query = queries[space.to_numpy(are_twice).nonzero()[0][0]]
                raise wrong_value("indices", "list a key once", f"one twice for query {query}")

    # What an attention asks for.

    @property
    def _count(self) -> Length:
        """The number of lists."""
        return self.indices.shape[0] if self.indptr is None else len(self.indptr) - 1

    def _groups(self) -> list[tuple[Queries, int]]:
        """Return queries whose lists have like lengths, and the longest of these, of each group."""
        if self.indptr is None:
            return [(range(self._count), self.indices.shape[1])]
        lengths = np.diff(self.indptr)
        # The longest list of a group is less than 1.5 times as long as the shortest one.
        mantissa, exponent = np.frexp(lengths)
        kinds = 2 * exponent + (mantissa >= 0.75)
        groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
        return [(queries, max(1, int(lengths[queries].max()))) for queries in groups]

    def _of(self, queries: Queries, longest: int, space: Space) -> Array:
        """Return the lists of ascending queries, without gaps unless there is `indptr`."""
        if self.indptr is None:
            return self.indices[int(queries[0]) : int(queries[-1]) + 1, ...]
        bounds, xp = np.asarray(self.indptr), space.xp
        entries = bounds[queries][:, None] + np.arange(longest)
        is_listed = entries < bounds[1:][queries][:, None]
        like = {"dtype": space.integer, "device": space.device}
        keys = space.take_entries(self.indices, xp.asarray(entries * is_listed, **like), 0)
        return xp.where(xp.asarray(is_listed, device=space.device), keys, -1)

    def _in_library(self, space: Space, sequence: int | None = None) -> "ListMask":
        """Return the mask with its lists in a library, perhaps of one sequence, unchecked."""
        indices = Points(None, space, None).in_library(self.indices)
        indices = indices if sequence is None else indices[:, :, sequence]
        mask = object.__new__(type(self))
        checks.set_fields(mask, **vars(self) | {"indices": indices})
        return mask

    def _split_lists(self) -> tuple["ListMask", None]:
        return self, None

    # What all masks have.

    def _hides(self, q: Points, k: Points) -> Array:
        space, queries, keys = q.space, q.indices[..., 0], k.indices
        longest = max(longest for _, longest in self._groups())
        lists = self._in_library(space)._of(range(self._count), longest, space)
        lists = lists if lists.ndim > 2 else lists[..., None]
        has_list = (queries >= 0) & (queries < self._count)
        lists = space.take_entries(lists, space.xp.where(has_list, queries, 0), 0)
        is_listed = space.xp.any(lists == keys[..., None, :], axis=-2)
        return ~(is_listed & has_list[..., None] & (keys >= 0))

    def _check(self, queries: tuple[int, int], k_len: int, space: Space) -> None:
        n, largest = queries[1] - queries[0], self._largest
        if checks.known_to_differ(self._count, n):
            came = f"{self._count} lists"
            raise wrong_value("indices", f"have a list for each of {n} queries", came)
        if largest is None:
            space = space_of(indices=self.indices)
            are_read = space.is_on_host(self.indices)
            if are_read and space.is_true(space.xp.any(self.indices >= k_len)):
                largest = int(space.xp.max(self.indices))
        if largest is not None and largest >= k_len:
            raise wrong_value("indices", f"be below the number of keys, {k_len}", largest)

    def _batch(self) -> int | None:
        size = (*self.indices.shape, 1, 1)[2]
        return size if checks.is_known(size) else None
