"""Layout of attention scores: axes of queries, keys, features and heads, and masks by block."""

from collections.abc import Callable
from typing import Any, NamedTuple

from positional_embeddings._core import axes, checks
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import (
    Namespace,
    drop_none,
    namespace_of,
)
from positional_embeddings.attention.online_softmax import ALL, BlockFunction, slice_broadcast

# Called with the indices of queries, (query, 1), and of keys, (1, key): 0, 1, 2, ..., whatever
# their positions.
ScoreFunction = Callable[[Any, Any], Any]


class ScoreLayout(NamedTuple):
    """The axes of queries, keys and values, and those of their scores."""

    shape: tuple[Any, ...]  # of the queries, its further axes broadcast against those of the keys
    k_len: Any
    feature: int
    seq: int
    row_axes: tuple[int, ...]  # all others, that of shared key heads last
    key_heads: int | None  # if several query heads share a key head

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    def to_rows(self, array: Any, last: tuple[int, int], xp: Namespace) -> Any:
        """Move two axes last, and split shared heads into (key head, query head of it)."""
        array = xp.permute_dims(array, (*self.row_axes, *last))
        if self.key_heads is None:
            return array
        *others, heads, n, m = array.shape
        key_heads = min(heads, self.key_heads)
        return xp.reshape(array, (*others, key_heads, heads // key_heads, n, m))

    def from_rows(self, array: Any, last: tuple[int, int], xp: Namespace) -> Any:
        """Undo `to_rows`."""
        order = (*self.row_axes, *last)
        if self.key_heads is not None:
            rows = tuple(self.shape[axis] for axis in self.row_axes)
            array = xp.reshape(array, (*rows, *array.shape[-2:]))
        return xp.permute_dims(array, tuple(map(order.index, range(len(order)))))

    def align(self, name: str, array: Any, q_len: Any, k_len: Any, xp: Namespace) -> Any:
        """Check the shape of a mask or a bias, and return it with axes (..., query, key)."""
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
        return self.to_rows(array, own, xp)

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


def score_layout(
    arrays: dict[str, Any], feature: int, seq: int, *, enable_gqa: bool
) -> ScoreLayout:
    """Check the shapes of q, k and perhaps v, and return their layout."""
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k)
    for name, array in arrays.items():
        if array.ndim != q.ndim:
            got = f"shape {tuple(array.shape)}"
            raise wrong_value(name, f"have as many axes as `q`, {q.ndim}", got)
    if checks.differ(k.shape[feature], q.shape[feature]):
        raise wrong_value(
            "k",
            f"have the features of `q`, {q.shape[feature]} on axis {feature}",
            f"shape {tuple(k.shape)}",
        )
    if any(checks.differ(k.shape[a], v.shape[a]) for a in range(k.ndim) if a != feature):
        raise wrong_value(
            "v",
            f"have the shape of `k` but for its features on axis {feature}",
            f"{tuple(v.shape)} with {tuple(k.shape)}",
        )
    shape = list(q.shape)
    key_heads = None
    rows = [axis for axis in range(q.ndim) if axis not in (feature, seq)]
    differing = [axis for axis in rows if checks.differ(k.shape[axis], q.shape[axis])]
    grouped = [axis for axis in differing if 1 not in (q.shape[axis], k.shape[axis])]
    for axis in differing:
        n, m = q.shape[axis], k.shape[axis]
        if axis not in grouped:
            shape[axis] = n if m == 1 else m
        elif enable_gqa and len(grouped) == 1 and m > 0 and n % m == 0:
            key_heads = m
            rows.append(rows.pop(rows.index(axis)))
        else:
            hint = (
                ", or a divisor of it on one axis only"
                if enable_gqa
                else " (or a divisor of it with enable_gqa=True)"
            )
            raise wrong_value(
                "k",
                f"have length {n} or 1 on axis {axis} as `q` has{hint}",
                f"shape {tuple(k.shape)}",
            )
    return ScoreLayout(tuple(shape), k.shape[seq], feature, seq, tuple(rows), key_heads)


def by_block(
    kind: str, given: Any, layout: ScoreLayout, q: Any, indices: dict[str, Any], xp: Namespace
) -> BlockFunction:
    """Return the function that gives the mask or the bias of a block, (..., query, key).

    `indices` holds dtype and device of what a function of the user is called with.
    """
    q_len, k_len = q.shape[layout.seq], layout.k_len
    if not callable(given):
        aligned = layout.align(kind, given, q_len, k_len, xp)
        rows = (ALL,) * (aligned.ndim - 2)
        return lambda queries, keys: slice_broadcast(aligned, (*rows, queries, keys))

    def block(queries: slice, keys: slice) -> Any:
        q_idx = xp.arange(*queries.indices(q_len), **indices)
        k_idx = xp.arange(*keys.indices(k_len), **indices)
        name, array = call_score_function(kind, given, q_idx[:, None], k_idx[None, :], xp, q=q)
        return layout.align(name, array, q_idx.shape[0], k_idx.shape[0], xp)

    return block


def given_arrays(**given: Any) -> dict[str, Any]:
    """Return the masks and biases that are arrays, by name: no functions, and not None."""
    return {name: array for name, array in drop_none(**given).items() if not callable(array)}


def call_score_function(
    kind: str, function: ScoreFunction, q_idx: Any, k_idx: Any, xp: Namespace, **like: Any
) -> tuple[str, Any]:
    """Call a mask or bias function, check its result, and return it after its name in messages."""
    name, array = f"{kind}(q_idx, k_idx)", function(q_idx, k_idx)
    namespace_of(**like, **{name: array})
    checks.mask_or_bias(kind, name, array, xp)
    return name, array
