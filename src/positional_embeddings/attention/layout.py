"""Layout of attention: axes of queries, keys and features, of heads, and of the scores."""

from math import prod
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import dtype_name
from positional_embeddings.biases.positions import Bias
from positional_embeddings.masks.mask import Mask


class Layout(NamedTuple):
    """The axes of queries, keys and values, and of their scores."""

    shape: tuple[Any, ...]  # of the queries, its further axes broadcast against the keys
    k_len: Any
    feature: int
    seq: int
    row_axes: tuple[int, ...]  # all others, one that is split last
    # Lengths that the last of them is split into: of key heads and the query heads that share
    # each, or of heads and batch.
    split: tuple[int, int] | None
    is_merged: bool = False  # whether it is split into heads and batch

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    def rows(self, arrays: Any, space: Space) -> list[Any]:
        """Return queries, keys and values as (..., sequence, feature)."""
        return [self.to_rows(array, (self.seq, self.feature), space) for array in arrays]

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

    def back(self, array: Any, last: tuple[int, int], dtype: Any, space: Space) -> Any:
        """Undo `to_rows`, in the dtype of the result."""
        order = (*self.row_axes, *last)
        if self.split is not None:
            rows = tuple(self.shape[axis] for axis in self.row_axes)
            array = space.reshape(array, (*rows, *array.shape[-2:]))
        array = space.xp.permute_dims(array, tuple(map(order.index, range(len(order)))))
        return space.xp.astype(array, dtype, copy=False)

    def align(self, name: str, array: Any, q_len: Any, k_len: Any, space: Space) -> Any:
        """Check the shape of a mask or a bias, and return it with axes (..., query, key)."""
        if array.ndim < 2:
            # One axis could be the queries or the keys.
            raise wrong_value(name, "have axes of queries and keys", f"shape {tuple(array.shape)}")
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
            why = f"since `q` of {len(self.shape)} axes has none for more"
            raise wrong_value(kind, f"be for one {what.rstrip('s')}, {why}", size)
        heads_first = self.score_axes == (0, 1)
        axis = others[0] if (kind == "bias") == heads_first else others[-1]
        n = self.shape[axis]
        if self.is_merged and self.split is not None:
            n = self.split[kind == "mask"]
            what += " in heads * batch"
        if checks.known_to_differ(size, n):
            raise wrong_value(kind, f"be for {n} {what}, as axis {axis} of `q` has", size)
        return axis


def layout_of(
    arrays: dict[str, Any],
    mask: Any,
    bias: Any,
    feature_axis: int,
    seq_axis: int,
    enable_gqa: Any,
    space: Space,
) -> Layout:
    """Check dtypes and shapes of `arrays`, q, k and perhaps v, and return their layout."""
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k)
    feature, seq = axes.feature_and_seq_axis(feature_axis, seq_axis, q, "q")
    checks.real_floating(space.xp, **arrays)
    checks.boolean("enable_gqa", enable_gqa)
    for name, array in arrays.items():
        dtype = array.dtype
        if dtype != q.dtype and dtype_name(dtype) != dtype_name(q.dtype):
            required = f"have the dtype of `q`, {dtype_name(q.dtype)}"
            raise wrong_type(name, required, dtype_name(dtype))
        if array.ndim != q.ndim:
            got = f"shape {tuple(array.shape)}"
            raise wrong_value(name, f"have as many axes as `q`, {q.ndim}", got)
    shape, k_shape, v_shape = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    rows = sorted({*range(q.ndim)} - {feature, seq})
    if checks.known_to_differ(k_shape[feature], shape[feature]):
        required = f"have the features of `q`, {shape[feature]} on axis {feature}"
        raise wrong_value("k", required, f"shape {k_shape}")
    if v_shape != k_shape and any(
        checks.known_to_differ(v_shape[axis], k_shape[axis]) for axis in (*rows, seq)
    ):
        required = f"have the shape of `k` but for its features on axis {feature}"
        raise wrong_value("v", required, f"{v_shape} with {k_shape}")
    broadcast, split = list(shape), None
    for axis in rows.copy():
        n, m = shape[axis], k_shape[axis]
        if not checks.known_to_differ(n, m):
            continue
        if 1 in (n, m):
            broadcast[axis] = n * m
        elif enable_gqa and split is None and m > 0 and n % m == 0:
            split = m, n // m
            rows.remove(axis)
            rows.append(axis)
        else:
            without_gqa = " (or a divisor of it with enable_gqa=True)"
            divisor = ", or a divisor of it on one axis only" if enable_gqa else without_gqa
            required = f"have length {n} or 1 on axis {axis} as `q` has{divisor}"
            raise wrong_value("k", required, f"shape {k_shape}")
    layout = Layout(tuple(broadcast), k_shape[seq], feature, seq, tuple(rows), split)
    if isinstance(mask, Mask) or isinstance(bias, Bias):
        layout = _split_by(layout, mask, bias, is_grouped=enable_gqa)
    return layout


def _split_by(layout: Layout, mask: Any, bias: Any, *, is_grouped: bool) -> Layout:
    """Check the sequences of a `Mask` and the heads of a `Bias`; split a merged axis by them."""
    sizes: dict[str, Any] = {
        "mask": mask._batch() if isinstance(mask, Mask) else 1,
        "bias": bias._heads() if isinstance(bias, Bias) else 1,
    }
    several = {kind: size for kind, size in sizes.items() if size not in (1, None)}
    if len(layout.row_axes) == 1 and several:
        axis = layout.row_axes[0]
        if layout.score_axes == (0, 1) and not is_grouped:
            split = _heads_and_batch(several, layout.shape[axis], axis)
            layout = layout._replace(split=split, is_merged=True)
        elif len(several) == 2:
            what = "not be for several sequences if `bias` is for several heads"
            raise wrong_value("mask", f"{what} and `q` has one axis for both", sizes["mask"])
    for kind, size in several.items():
        layout.check_sequences_or_heads(kind, size)
    return layout


def _heads_and_batch(several: dict[str, Any], n: Any, axis: int) -> tuple[Any, Any]:
    """Return the lengths that one axis of ``heads * batch`` is split into."""
    for kind, size in several.items():
        if size * (n // max(1, size)) != n:
            many = "sequences" if kind == "mask" else "heads"
            what = f"be for a number of {many} that divides axis {axis} of `q`, {n}"
            raise wrong_value(kind, f"{what} (heads * batch)", size)
    heads = several["bias"] if "bias" in several else n // max(1, several["mask"])
    if "mask" in several and heads * several["mask"] == n:
        return heads, several["mask"]
    return heads, n // max(1, heads)
