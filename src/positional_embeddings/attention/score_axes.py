"""Layout of attention scores: axes of queries, keys, features and heads, and masks by block."""

from math import prod
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.biases.positions import Bias
from positional_embeddings.masks.mask import Mask


class ScoreLayout(NamedTuple):
    """The axes of queries, keys and values, and of their scores."""

    shape: tuple[Any, ...]  # of the queries, its further axes broadcast against the keys
    k_len: Any
    feature: int
    seq: int
    row_axes: tuple[int, ...]  # all others, one that is split last
    # Lengths that the last of them is split into: of key heads and the query heads that share
    # each, or of heads and batch.
    split: tuple[int, int] | None
    is_merged: bool = False

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    def to_rows(self, array: Any, last: tuple[int, int], space: Space) -> Any:
        """Move two axes last, and split shared heads into (key head, query head of it)."""
        array = space.xp.permute_dims(array, (*self.row_axes, *last))
        if self.split is None:
            return array
        *others, rows, n, m = array.shape
        axis, split = len(others), self.split if rows == prod(self.split) else (rows, 1)
        if rows > 0 and space.is_chunked and any(k % split[1] for k in space.chunks(array)[axis]):
            array = space.rechunk(array, {axis: (rows,)})  # else a part would be cut in two
        return space.reshape(array, (*others, *split, n, m))

    def from_rows(self, array: Any, last: tuple[int, int], space: Space) -> Any:
        """Undo `to_rows`."""
        order = (*self.row_axes, *last)
        if self.split is not None:
            rows = tuple(self.shape[axis] for axis in self.row_axes)
            array = space.reshape(array, (*rows, *array.shape[-2:]))
        return space.xp.permute_dims(array, tuple(map(order.index, range(len(order)))))

    def align(self, name: str, array: Any, q_len: Any, k_len: Any, space: Space) -> Any:
        """Check the shape of a mask or a bias, and return it with axes (..., query, key)."""
        if array.ndim < 2:
            # One axis could be the queries or the keys.
            message = f"`{name}` must have axes of queries and keys, got shape {tuple(array.shape)}"
            hint = f"; for the same keys everywhere pass {name}[None, :]"
            raise ValueError(message + (hint if name.isidentifier() and array.ndim else "") + ".")
        own = self.score_axes
        lengths = dict(zip(own, (q_len, k_len), strict=True))
        shape = tuple(lengths.get(axis, n) for axis, n in enumerate(self.shape))
        meaning = f"queries on axis {own[0]}, keys on axis {own[1]}"
        return self.to_rows(axes.align_axes(name, array, own, shape, meaning), own, space)

    def align_mask_or_bias(self, kind: str, array: Any, space: Space) -> Any:
        """Return what a `Mask` or a `Bias` gives, (query, key, batch or heads), as rows."""
        if array.shape[2] == 1:
            rows = len(self.row_axes) + (self.split is not None)
            return array[..., 0][(*(None,) * rows, ...)]
        axis = self.check_sequences_or_heads(kind, array.shape[2])
        if self.is_merged:
            array = space.xp.permute_dims(array, (2, 0, 1))
            return array[None, ...] if kind == "mask" else array[:, None, ...]
        own = self.score_axes
        array = axes.expand_to_axes(array, (*own, axis), len(self.shape), space.xp)
        return self.to_rows(array, own, space)

    def check_sequences_or_heads(self, kind: str, size: int) -> int:
        """Check the number of sequences of a mask, or of heads of a bias; return their axis.

        Heads come before the batch if features and sequence come first, else after it.
        """
        others, what = sorted(self.row_axes), "sequences" if kind == "mask" else "heads"
        if not others:
            one = "one sequence" if kind == "mask" else "one head"
            why = f"since `q` of {len(self.shape)} axes has none for more"
            raise wrong_value(kind, f"be for {one}, {why}", size)
        heads_first = self.score_axes == (0, 1)
        axis = others[0] if (kind == "bias") == heads_first else others[-1]
        n = self.shape[axis]
        if self.is_merged and self.split is not None:
            n = self.split[kind == "mask"]
            what += " in heads * batch"
        if checks.known_to_differ(size, n):
            raise wrong_value(kind, f"be for {n} {what}, as axis {axis} of `q` has", size)
        return axis


def score_layout(
    arrays: dict[str, Any], terms: dict[str, Any], feature: int, seq: int, *, enable_gqa: bool
) -> ScoreLayout:
    """Check the shapes of q, k and perhaps v, and return their layout.

    `terms` are the mask and the bias.
    """
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k)
    for name, array in arrays.items():
        if array.ndim != q.ndim:
            got = f"shape {tuple(array.shape)}"
            raise wrong_value(name, f"have as many axes as `q`, {q.ndim}", got)
    if checks.known_to_differ(k.shape[feature], q.shape[feature]):
        raise wrong_value(
            "k",
            f"have the features of `q`, {q.shape[feature]} on axis {feature}",
            f"shape {tuple(k.shape)}",
        )
    if any(checks.known_to_differ(k.shape[a], v.shape[a]) for a in range(k.ndim) if a != feature):
        raise wrong_value(
            "v",
            f"have the shape of `k` but for its features on axis {feature}",
            f"{tuple(v.shape)} with {tuple(k.shape)}",
        )
    shape = list(q.shape)
    split = None
    rows = [axis for axis in range(q.ndim) if axis not in (feature, seq)]
    differing = [axis for axis in rows if checks.known_to_differ(k.shape[axis], q.shape[axis])]
    grouped = [axis for axis in differing if 1 not in (q.shape[axis], k.shape[axis])]
    for axis in differing:
        n, m = q.shape[axis], k.shape[axis]
        if axis not in grouped:
            shape[axis] = n if m == 1 else m
        elif enable_gqa and len(grouped) == 1 and m > 0 and n % m == 0:
            split = m, n // m
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
    layout = ScoreLayout(tuple(shape), k.shape[seq], feature, seq, tuple(rows), split)
    return _with_sequences_and_heads(layout, terms, is_grouped=enable_gqa)


def _with_sequences_and_heads(
    layout: ScoreLayout, terms: dict[str, Any], *, is_grouped: bool
) -> ScoreLayout:
    """Check the sequences of a `Mask` and the heads of a `Bias`; split a merged axis by them."""
    mask, bias = terms["mask"], terms["bias"]
    batch: Any = mask._batch() if isinstance(mask, Mask) else 1
    heads = bias._heads() if isinstance(bias, Bias) else 1
    sizes: dict[str, Any] = {"mask": batch, "bias": heads}
    told = [kind for kind, size in sizes.items() if size not in (1, None)]
    axis = layout.row_axes[0] if len(layout.row_axes) == 1 else None
    if axis is not None and told and layout.score_axes == (0, 1) and not is_grouped:
        n = layout.shape[axis]
        for kind in told:
            if sizes[kind] * (n // max(1, sizes[kind])) != n:
                many = "sequences" if kind == "mask" else "heads"
                what = f"be for a number of {many} that divides axis {axis} of `q`, {n}"
                raise wrong_value(kind, f"{what} (heads * batch)", sizes[kind])
        if "bias" not in told:
            heads = n // max(1, sizes["mask"])
        if "mask" not in told or heads * sizes["mask"] != n:
            batch = n // max(1, heads)
        layout = layout._replace(split=(heads, batch), is_merged=True)
    elif axis is not None and len(told) == 2:
        what = "not be for several sequences if `bias` is for several heads"
        raise wrong_value("mask", f"{what} and `q` has one axis for both", sizes["mask"])
    for kind in told:
        layout.check_sequences_or_heads(kind, sizes[kind])
    return layout
