"""Where features, sequence and heads lie in the arrays of an attention, and in its scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from positional_embeddings._core import axes, checks
from positional_embeddings._core.namespace import (
    Namespace,
    default_integer,
    device_of,
    drop_none,
    namespace_of,
)
from positional_embeddings.attention.online_softmax import ALL, PerBlock, part_of
from positional_embeddings.masks.convert import check_mask

# Called with the indices of queries, (query, 1), and of keys, (1, key): 0, 1, 2, ..., whatever
# their positions.
ScoreFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class ScoreLayout:
    """The axes of queries, keys and values, and those of their scores."""

    shape: tuple[Any, ...]  # of the queries, with further axes broadcast against those of the keys
    k_len: Any
    feature: int
    seq: int
    key_heads: int | None = None  # where each serves several query heads
    head_axis: int | None = None  # the axis of these heads

    @property
    def row_axes(self) -> list[int]:
        """Return the further axes, that of grouped heads last."""
        axes = [axis for axis in range(len(self.shape)) if axis not in (self.feature, self.seq)]
        return sorted(axes, key=lambda axis: axis == self.head_axis)

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    @property
    def rows(self) -> tuple[Any, ...]:
        """Return the shape of the further axes, heads cut into groups."""
        return self._cut([self.shape[axis] for axis in self.row_axes])

    def by_row(self, array: Any, xp: Namespace) -> Any:
        """Return queries, keys or values with axes (..., sequence, feature)."""
        moved = xp.permute_dims(array, (*self.row_axes, self.seq, self.feature))
        return self._with_groups(moved, xp)

    def by_score(self, name: str, array: Any, q_len: Any, k_len: Any, xp: Namespace) -> Any:
        """Return the mask or the bias of a block with axes (..., query, key)."""
        if array.ndim < 2:
            # One axis could be that of the queries or that of the keys.
            message = f"`{name}` must have axes of queries and keys, got shape {tuple(array.shape)}"
            hint = f"; for the same keys everywhere pass {name}[None, :]"
            raise ValueError(message + (hint if name.isidentifier() and array.ndim else "") + ".")
        own = self.score_axes
        lengths = dict(zip(own, (q_len, k_len), strict=True))
        shape = tuple(lengths.get(axis, n) for axis, n in enumerate(self.shape))
        meaning = f"queries on axis {own[0]}, keys on axis {own[1]}"
        try:
            array = axes.align_axes(name, array, own, shape, meaning)
        except ValueError as error:
            message = f"{error}{self._hint(name, tuple(array.shape), shape)}"
            raise ValueError(message) from None
        return self._with_groups(xp.permute_dims(array, (*self.row_axes, *own)), xp)

    def _hint(self, name: str, given: tuple[Any, ...], shape: tuple[Any, ...]) -> str:
        """Return what would make the shape of a mask or a bias fit, if the shape tells it."""
        if not name.isidentifier():
            return ""
        n = self.shape[-2]
        others = self.shape[: len(given) - 2] if len(given) == len(shape) else ()
        fits_last = given[len(others) :] == (n, n) and all(map(checks.fits, given, others))
        if len(shape) > 2 and self.score_axes == (0, 1) and fits_last:
            return (
                f" q has its sequence on axis {len(shape) - 2} and its features on axis "
                f"{len(shape) - 1}? pass feature_axis=-1, seq_axis=-2."
            )
        return axes.other_order(name, given, self.score_axes, shape)

    def output(self, array: Any, xp: Namespace) -> Any:
        """Return the output from axes (..., query, feature), in the layout of the queries."""
        return self._restored(array, (self.seq, self.feature), xp)

    def weights(self, array: Any, xp: Namespace) -> Any:
        """Return the weights from axes (..., query, key), in the layout of the scores."""
        return self._restored(array, self.score_axes, xp)

    def _cut(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """Return the lengths of the further axes, with the heads cut into groups."""
        if self.key_heads is None:
            return tuple(rows)
        *others, heads = rows
        cut = (1, 1) if heads == 1 else (self.key_heads, heads // self.key_heads)
        return (*others, *cut)

    def _with_groups(self, array: Any, xp: Namespace) -> Any:
        """Cut the axis of heads into those of the keys and the queries of each."""
        shape = (*self._cut(array.shape[:-2]), *array.shape[-2:])
        return array if len(shape) == array.ndim else xp.reshape(array, shape)

    def _restored(self, array: Any, last: tuple[int, int], xp: Namespace) -> Any:
        """Merge the groups, and move the axes back."""
        order = (*self.row_axes, *last)
        if self.key_heads is not None:
            shape = tuple(self.shape[axis] for axis in self.row_axes)
            array = xp.reshape(array, (*shape, *array.shape[-2:]))
        return xp.permute_dims(array, tuple(order.index(axis) for axis in range(len(order))))


def per_block(kind: str, given: Any, layout: ScoreLayout, q: Any, xp: Namespace) -> PerBlock:
    """Return the mask or bias of each block, from a whole array or a function of indices."""
    if callable(given):
        return _asked(kind, given, layout, q, xp)
    whole = layout.by_score(kind, given, q.shape[layout.seq], layout.k_len, xp)
    rows = (ALL,) * (whole.ndim - 2)
    return lambda queries, keys: part_of(whole, (*rows, queries, keys))


def _asked(
    kind: str, function: ScoreFunction, layout: ScoreLayout, q: Any, xp: Namespace
) -> PerBlock:
    q_len, k_len = axes.length(q, layout.seq, "q"), layout.k_len
    on = device_of(q)
    integers = {"dtype": default_integer(xp, on), "device": on}

    def ask(queries: slice, keys: slice) -> Any:
        q_idx = xp.arange(*queries.indices(q_len), **integers)
        k_idx = xp.arange(*keys.indices(k_len), **integers)
        name, array = call_score_function(kind, function, q_idx[:, None], k_idx[None, :], xp, q=q)
        return layout.by_score(name, array, q_idx.shape[0], k_idx.shape[0], xp)

    return ask


def arrays_among(**given: Any) -> dict[str, Any]:
    """Return the masks and biases that are arrays, by name: no functions, and not None."""
    return {name: array for name, array in drop_none(**given).items() if not callable(array)}


def call_score_function(
    kind: str, function: ScoreFunction, q_idx: Any, k_idx: Any, xp: Namespace, **beside: Any
) -> tuple[str, Any]:
    """Return what a function says of indices, checked, and what messages call it."""
    name, array = f"{kind}(q_idx, k_idx)", function(q_idx, k_idx)
    namespace_of(**beside, **{name: array})
    check_kind(kind, name, array, xp)
    return name, array


def check_kind(kind: str, name: str, array: Any, xp: Namespace) -> None:
    """Check that a mask is boolean, and that a bias holds real numbers."""
    if kind == "mask":
        check_mask(name, array, xp)
    else:
        checks.real_floating(xp, **{name: array})
