"""Layout of attention: axes of queries, keys and features, of heads, and of the scores."""

from functools import lru_cache
from math import prod, sqrt
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.positions import Span, whole_span
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import dtype_name, np
from positional_embeddings.biases.positions import Bias
from positional_embeddings.masks.mask import Mask


class Layout(NamedTuple):
    """The axes of queries, keys and values, and of their scores."""

    shape: tuple[Any, ...]  # of the queries, its further axes broadcast against the keys
    queries: Span  # all of them, as are the keys
    keys: Span
    feature: int
    seq: int
    row_axes: tuple[int, ...]  # all others, one that is split last
    # Lengths that the last of them is split into: of key heads and the query heads that share
    # each, or of heads and batch.
    split: tuple[int, int] | None
    is_in_order: bool  # whether arrays have the axes (..., sequence, feature) as they are
    scores_per_key: Any  # NaN if a lazy library does not know a length
    default_scale: float
    is_merged: bool = False  # whether it is split into heads and batch

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    def rows(self, arrays: Any, space: Space) -> Any:
        """Return queries, keys and values as (..., sequence, feature)."""
        if self.is_in_order:
            return arrays
        return [self.to_rows(array, (self.seq, self.feature), space) for array in arrays]

    def to_rows(self, array: Any, last: tuple[int, int], space: Space) -> Any:
        """Move two axes last, and split shared heads into (key head, query head of it)."""
        if self.is_in_order:
            return array
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
        if not self.is_in_order:
            order = (*self.row_axes, *last)
            if self.split is not None:
                rows = tuple(self.shape[axis] for axis in self.row_axes)
                array = space.reshape(array, (*rows, *array.shape[-2:]))
            array = space.xp.permute_dims(array, tuple(map(order.index, range(len(order)))))
        return space.astype(array, dtype)

    def align(self, name: str, array: Any, q_len: Any, k_len: Any, space: Space) -> Any:
        """Check the shape of a mask or a bias, and return it with axes (..., query, key)."""
        if array.ndim < 2:
            # One axis could be the queries or the keys.
            raise wrong_value(name, "have axes of queries and keys", f"shape {tuple(array.shape)}")
        own = self.score_axes
        shape = list(self.shape)
        shape[own[0]], shape[own[1]] = q_len, k_len
        meaning = f"queries on axis {own[0]}, keys on axis {own[1]}"
        return self.to_rows(axes.align_axes(name, array, own, tuple(shape), meaning), own, space)

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
    arrays: dict[str, Any], mask: Any, bias: Any, options: tuple[int, int, bool], space: Space
) -> Layout:
    """Check dtypes and shapes of `arrays`, q, k and perhaps v, and return their layout.

    The options are `feature_axis`, `seq_axis` and `enable_gqa`.
    """
    forms = tuple([(name, x.dtype, tuple(x.shape)) for name, x in arrays.items()])
    sequences = mask._batch() if isinstance(mask, Mask) else 1
    heads = bias._heads() if isinstance(bias, Bias) else 1
    are_keys = space.xp is np and [*map(type, options)] == [int, int, bool]
    find = _numpy_layout if are_keys else _layout
    return find(forms, options, sequences, heads, space.xp)


def _layout(
    forms: tuple[Any, ...], options: tuple[int, int, bool], sequences: Any, heads: Any, xp: Any
) -> Layout:
    feature_axis, seq_axis, is_grouped = options
    arrays = {name: axes.Form(dtype, shape, len(shape)) for name, dtype, shape in forms}
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k)
    feature, seq = axes.feature_and_seq_axis(feature_axis, seq_axis, q, "q")
    checks.real_floating(xp, **arrays)
    checks.boolean("enable_gqa", is_grouped)
    for name, array in arrays.items():
        dtype = array.dtype
        if dtype != q.dtype and dtype_name(dtype) != dtype_name(q.dtype):
            required = f"have the dtype of `q`, {dtype_name(q.dtype)}"
            raise wrong_type(name, required, dtype_name(dtype))
        if array.ndim != q.ndim:
            raise wrong_value(name, f"have as many axes as `q`, {q.ndim}", f"shape {array.shape}")
    shape, k_shape, v_shape = q.shape, k.shape, v.shape
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
        elif is_grouped and split is None and m > 0 and n % m == 0:
            split = m, n // m
            rows.remove(axis)
            rows.append(axis)
        else:
            without_gqa = " (or a divisor of it with enable_gqa=True)"
            divisor = ", or a divisor of it on one axis only" if is_grouped else without_gqa
            required = f"have length {n} or 1 on axis {axis} as `q` has{divisor}"
            raise wrong_value("k", required, f"shape {k_shape}")
    lengths = [n for axis, n in enumerate(broadcast) if axis != feature]
    scores_per_key = float("nan") if None in lengths else prod(lengths)
    scale = 1 / sqrt(max(axes.length(q, feature, "q"), 1))
    is_in_order = split is None and (seq, feature) == (q.ndim - 2, q.ndim - 1)
    own = tuple(broadcast), whole_span(shape[seq]), whole_span(k_shape[seq])
    layout = Layout(*own, feature, seq, tuple(rows), split, is_in_order, scores_per_key, scale)
    return _split_by(layout, {"mask": sequences, "bias": heads}, is_grouped=is_grouped)


# Checks take as long as the attention of a token. Lengths of other libraries may be no keys.
_numpy_layout = lru_cache(maxsize=256)(_layout)


def _split_by(layout: Layout, sizes: dict[str, Any], *, is_grouped: bool) -> Layout:
    """Check the sequences of a `Mask` and the heads of a `Bias`; split a merged axis by them."""
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
