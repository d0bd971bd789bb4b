"""The axes of queries, keys and values, and of their scores."""

from functools import lru_cache
from math import prod, sqrt
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.spans import Span, whole_span
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, Namespace, np
from positional_embeddings.arrays.space import Space

# What is for several sequences, or for several heads, by its name, and how many there are.
Sizes = tuple[tuple[str, Any], ...]


class Layout(NamedTuple):
    """The axes of queries, keys and values, and of their scores."""

    shape: tuple[Any, ...]  # of the queries, its further axes broadcast against the keys
    queries: Span  # all of them, as are the keys
    keys: Span
    feature: int
    seq: int
    row_axes: tuple[int, ...]  # all others, one that is split last
    # Lengths that the last of them is split into: of key heads and the query heads that share
    # each, of heads and sequences, or of all three.
    split: tuple[int, ...] | None
    is_in_order: bool  # whether arrays have the axes (..., sequence, feature) as they are
    scores_per_key: Any  # NaN if a lazy library does not know a length
    default_scale: float
    is_merged: bool = False  # whether the axis that is split holds sequences, too

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    def rows(self, arrays: Any, space: Space) -> Any:
        """Return queries, keys and values as (..., sequence, feature)."""
        return [self._to_rows(array, (self.seq, self.feature), space) for array in arrays]

    def output(self, rows: Any, dtype: Dtype, space: Space) -> Any:
        """Return the output, (..., query, feature), with the axes of the queries."""
        return self._from_rows(rows, (self.seq, self.feature), dtype, space)

    def lse(self, rows: Any, space: Space) -> Any:
        """Return one number a query, (..., query, 1), with the axes of the queries but features."""
        lse = self._from_rows(rows, (self.seq, self.feature), space.dtype, space)
        return lse[(*(slice(None),) * self.feature, 0, ...)]

    def weights(self, rows: Any, dtype: Dtype, space: Space) -> Any:
        """Return weights, (..., query, key), with the axes of the scores."""
        return self._from_rows(rows, self.score_axes, dtype, space)

    def _to_rows(self, array: Array, last: tuple[int, int], space: Space) -> Any:
        """Move two axes last, and split the axis before them."""
        if self.is_in_order:
            return array
        array = space.xp.permute_dims(array, (*self.row_axes, *last))
        if self.split is None:
            return array
        *others, rows, n, m = array.shape
        axis, split = len(others), self._split_of(rows)
        inner = prod(split[1:])
        if rows > 0 and space.is_chunked and any(k % inner for k in space.chunks(array)[axis]):
            array = space.rechunk(array, {axis: (rows,)})  # else a part would be cut in two
        return space.reshape(array, (*others, *split, n, m))

    def _split_of(self, rows: int) -> tuple[int, ...]:
        """Return the lengths that this number of rows is split into: of queries, keys, or all."""
        heads, *others = self.split or (rows,)
        if rows == heads * prod(others):
            return (heads, *others)
        return (1,) * (1 + len(others)) if rows == 1 else (heads, 1, *others[1:])

    def _from_rows(self, array: Array, last: tuple[int, int], dtype: Dtype, space: Space) -> Any:
        """Undo `_to_rows`, in the dtype of the result."""
        if not self.is_in_order:
            order = (*self.row_axes, *last)
            if self.split is not None:
                rows = tuple(self.shape[axis] for axis in self.row_axes)
                array = space.reshape(array, (*rows, *array.shape[-2:]))
            array = space.xp.permute_dims(array, tuple(map(order.index, range(len(order)))))
        return space.astype(array, dtype)

    def align(self, name: str, array: Array, q_len: Any, k_len: Any, space: Space) -> Any:
        """Check the shape of a mask or a bias, and return it with axes (..., query, key)."""
        if array.ndim < 2:
            # One axis could be the queries or the keys.
            raise wrong_value(name, "have axes of queries and keys", f"shape {tuple(array.shape)}")
        own = self.score_axes
        shape = list(self.shape)
        shape[own[0]], shape[own[1]] = q_len, k_len
        meaning = f"queries on axis {own[0]}, keys on axis {own[1]}"
        return self._to_rows(axes.align_axes(name, array, own, tuple(shape), meaning), own, space)

    def align_mask_or_bias(self, kind: str, array: Array, space: Space) -> Any:
        """Return what a `Mask` or a `Bias` gives, (query, key, batch or heads), as rows.

        A `Bias` at positions of several sequences gives (query, key, batch, heads).
        """
        if array.ndim == 3:
            array = array[..., None] if kind == "mask" else array[:, :, None, :]
        several = [own for own in zip(("mask", kind), array.shape[2:], strict=True) if own[1] != 1]
        row_axes = [self.check_sequences_or_heads(*own) for own in several]
        if self.is_merged:
            q_len, k_len, batch, heads = array.shape
            rows = space.xp.permute_dims(array, (3, 2, 0, 1))
            *of_heads, _ = self.split if heads != 1 else (1,) * len(self.split)  # type: ignore[misc,arg-type]
            return space.reshape(rows, (*of_heads, batch, q_len, k_len))
        ones = (0 if n == 1 else slice(None) for n in array.shape[2:])
        array = array[(slice(None), slice(None), *ones)]
        array = axes.expand_to_axes(array, (*self.score_axes, *row_axes), len(self.shape), space.xp)
        return self._to_rows(array, self.score_axes, space)

    def check_sequences_or_heads(self, kind: str, size: int) -> int:
        """Check the number of sequences of a mask, or of heads of a bias; return their axis."""
        what = "sequences" if kind == "mask" else "heads"
        if not self.row_axes:
            why = f"since `q` of {len(self.shape)} axes has none for more"
            raise wrong_value(kind, f"be for one {what.rstrip('s')}, {why}", size)
        find = axes.head_axis if what == "heads" else axes.batch_axis
        axis: Any = find(len(self.shape), self.feature, self.seq)
        n = self.shape[axis]
        if self.is_merged and self.split is not None:
            *of_heads, batch = self.split
            n = batch if what == "sequences" else prod(of_heads)
            what += " in heads * batch"
        if checks.known_to_differ(size, n):
            raise wrong_value(kind, f"be for {n} {what}, as axis {axis} of `q` has", size)
        return int(axis)


def layout_of(
    arrays: dict[str, Any],
    options: tuple[int | None, int | None, bool],
    sizes: Sizes,
    sequences: int | None,
    space: Space,
    *,
    needs_lengths: bool,
) -> Layout:
    """Check dtypes and shapes of q, k and perhaps v, and return their layout.

    The options are `feature_axis`, `seq_axis` and `enable_gqa`; the number of `sequences` may not
    be known.
    """
    forms = tuple([(name, x.dtype, tuple(x.shape)) for name, x in arrays.items()])
    # Lengths of other libraries may be no keys, and True would be found as 1.
    are_keys = space.xp is np and [*map(type, options)] in _TYPES_OF_OPTIONS
    find = _numpy_layout if are_keys else _layout
    return find(forms, options, sizes, sequences, needs_lengths, space.xp)


_TYPES_OF_OPTIONS = [int, int, bool], [type(None), type(None), bool]


def _layout(
    forms: tuple[Any, ...],
    options: tuple[int | None, int | None, bool],
    sizes: Sizes,
    sequences: int | None,
    needs_lengths: bool,  # noqa: FBT001
    xp: Namespace,
) -> Layout:
    feature_axis, seq_axis, is_grouped = options
    arrays = {name: axes.Form(dtype, shape, len(shape)) for name, dtype, shape in forms}
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k)
    feature, seq = axes.feature_and_seq_axis(feature_axis, seq_axis, q, "q")
    checks.real_floating(xp, **arrays)
    checks.boolean("enable_gqa", is_grouped)
    for name, array in arrays.items():
        if dtype_name(array.dtype) != dtype_name(q.dtype):
            required = f"have the dtype of `q`, {dtype_name(q.dtype)}"
            raise wrong_type(name, required, dtype_name(array.dtype))
    check_axis_counts(arrays)
    if needs_lengths:
        axes.length(q, seq, "q")
        axes.length(k, seq, "k")
    shape, k_shape, v_shape = q.shape, k.shape, v.shape
    rows = sorted({*range(q.ndim)} - {feature, seq})
    if checks.known_to_differ(k_shape[feature], shape[feature]):
        required = f"have the features of `q`, {shape[feature]} on axis {feature}"
        raise wrong_value("k", required, f"shape {k_shape}")
    if any(checks.known_to_differ(v_shape[axis], k_shape[axis]) for axis in (*rows, seq)):
        required = f"have the shape of `k` but for its features on axis {feature}"
        raise wrong_value("v", required, f"{v_shape} with {k_shape}")
    heads = axes.head_axis(q.ndim, feature, seq)
    broadcast, key_heads = list(shape), None
    for axis in rows:
        n, m = shape[axis], k_shape[axis]
        if not checks.known_to_differ(n, m):
            continue
        if 1 in (n, m):
            broadcast[axis] = n * m
        elif is_grouped and axis == heads and m > 0 and n % m == 0:
            key_heads = m
        else:
            required = f"have length {n} or 1 on axis {axis} as `q` has"
            if axis == heads:
                required += ", or a divisor of it" + " with enable_gqa=True" * (not is_grouped)
            elif is_grouped:
                required += f": heads alone are grouped, on axis {heads}"
            raise wrong_value("k", required, f"shape {k_shape}")
    lengths = [n for axis, n in enumerate(broadcast) if axis != feature]
    scores_per_key = float("nan") if None in lengths else prod(lengths)
    scale = 1 / sqrt(max(axes.length(q, feature, "q"), 1))
    own = tuple(broadcast), whole_span(shape[seq]), whole_span(k_shape[seq]), feature, seq
    is_in_order = (seq, feature) == (q.ndim - 2, q.ndim - 1)
    layout = Layout(*own, tuple(rows), None, is_in_order, scores_per_key, scale)
    return _split_by(layout, heads, key_heads, sizes, sequences)


# Checks take as long as the attention of a token.
_numpy_layout = lru_cache(maxsize=256)(_layout)


def check_axis_counts(arrays: dict[str, Any]) -> None:
    """Check that all arrays have as many axes as `q`."""
    count = arrays["q"].ndim
    for name, array in arrays.items():
        if array.ndim != count:
            came = f"shape {tuple(array.shape)}"
            raise wrong_value(name, f"have as many axes as `q`, {count}", came)


def _split_by(
    layout: Layout, heads: int | None, key_heads: int | None, sizes: Sizes, sequences: int | None
) -> Layout:
    """Split the heads by the key heads that they share, and a merged axis of heads and batch.

    Check the sequences of a `Mask` and the heads of others.
    """
    several = {kind: size for kind, size in sizes if size not in (1, None)}
    split: tuple[int, ...] | None = None
    rows, is_merged = list(layout.row_axes), False
    if len(rows) == 1 and layout.score_axes == (0, 1) and (several or key_heads is not None):
        n, is_merged = layout.shape[rows[0]], True
        split = _heads_and_batch(several, n, rows[0])
        if key_heads is not None:
            batch = split[1] if several else sequences
            split = _key_heads_of(key_heads, n, batch, rows[0])
    elif len(rows) == 1 and "mask" in several and (len(several) > 1 or key_heads is not None):
        what = "not be for several sequences, where `q` has one axis for sequences or heads"
        raise wrong_value("mask", what, several["mask"])
    elif key_heads is not None:
        split = key_heads, layout.shape[heads] // key_heads  # type: ignore[index]
        rows.remove(heads)  # type: ignore[arg-type]
        rows.append(heads)  # type: ignore[arg-type]
    if split is not None:
        layout = layout._replace(row_axes=tuple(rows), split=split)
        layout = layout._replace(is_merged=is_merged, is_in_order=False)
    for kind, size in several.items():
        layout.check_sequences_or_heads(kind, size)
    return layout


def _heads_and_batch(several: dict[str, Any], n: Any, axis: int) -> tuple[int, int]:
    """Return the lengths that one axis of ``heads * batch`` is split into."""
    for kind, size in several.items():
        if size * (n // max(1, size)) != n:
            many = "sequences" if kind == "mask" else "heads"
            what = f"be for a number of {many} that divides axis {axis} of `q`, {n}"
            raise wrong_value(kind, f"{what} (heads * batch)", size)
    sequences = several.get("mask")
    heads = next((size for kind, size in several.items() if kind != "mask"), None)
    if heads is None:
        heads = n // max(1, sequences or 1)
    if sequences is not None and heads * sequences == n:
        return heads, sequences
    return heads, n // max(1, heads)


def _key_heads_of(key_rows: int, n: int, batch: int | None, axis: int) -> tuple[int, int, int]:
    """Return the lengths that an axis of ``heads * batch`` with shared heads is split into."""
    came = f"{n} and {key_rows} on axis {axis}"
    if batch is None:
        what = "be False for an axis of heads * batch, whose heads are not known"
        hint = " Give heads and batch an axis each, such as (head, seq, heads, batch)."
        raise wrong_value("enable_gqa", what, came, hint)
    batch = max(1, batch)
    heads = n // batch
    if n % batch or key_rows % batch or heads % (key_rows // batch):
        what = f"have a divisor of the {heads} heads of `q` for each of {batch} sequences"
        raise wrong_value("k", what, came)
    return key_rows // batch, n // key_rows, batch
