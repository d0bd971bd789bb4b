"""The scores of queries and keys: their axes and lengths, their softcap, bias and mask."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod, sqrt
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.positions import Span, first_position, whole_span
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Namespace, dtype_name, np
from positional_embeddings.arrays.space import space_of
from positional_embeddings.attention.kv_cache import POSITIONS, KVStep
from positional_embeddings.attention.places import Places, places_of
from positional_embeddings.biases.positions import Bias
from positional_embeddings.masks.by_sequence import PaddingMask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.ranges import Ranges, Reach, intersect, shift

# Called with the indices of queries, (query, 1), and of keys, (1, key): 0, 1, 2, ..., whatever
# their positions.
ScoreFunction = Callable[[Any, Any], Any]

_REMEDY = " Give `positions` and `key_positions`, below 0 for padding, as a KVCache does."
_ANOTHER = " If the keys are of another sequence, padded on the right, give offset=0."

# Above this, tanh would only round small scores.
_LARGE_SOFTCAP = 2.0**64


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
        """Return what a `Mask` or a `Bias` gives, (query, key, batch or heads), as rows.

        A `Bias` at positions of several sequences gives (query, key, batch, heads).
        """
        if array.ndim == 3:
            array = array[..., None] if kind == "mask" else array[:, :, None, :]
        several = [own for own in zip(("mask", kind), array.shape[2:], strict=True) if own[1] != 1]
        row_axes = [self.check_sequences_or_heads(*own) for own in several]
        if self.is_merged:
            return space.xp.permute_dims(array, (3, 2, 0, 1))
        ones = (0 if n == 1 else slice(None) for n in array.shape[2:])
        array = array[(slice(None), slice(None), *ones)]
        array = axes.expand_to_axes(array, (*self.score_axes, *row_axes), len(self.shape), space.xp)
        return self.to_rows(array, self.score_axes, space)

    def check_sequences_or_heads(self, kind: str, size: int) -> int:
        """Check the number of sequences of a mask, or of heads of a bias; return their axis.

        Heads come before the batch if features and sequence come first, else after it.
        """
        others = sorted(self.row_axes)
        what = "sequences" if kind == "mask" else "heads"
        if not others:
            why = f"since `q` of {len(self.shape)} axes has none for more"
            raise wrong_value(kind, f"be for one {what.rstrip('s')}, {why}", size)
        heads_first = self.score_axes == (0, 1)
        axis = others[0] if (what == "heads") == heads_first else others[-1]
        n = self.shape[axis]
        if self.is_merged and self.split is not None:
            n = self.split[what == "sequences"]
            what += " in heads * batch"
        if checks.known_to_differ(size, n):
            raise wrong_value(kind, f"be for {n} {what}, as axis {axis} of `q` has", size)
        return axis


class Scores(NamedTuple):
    """What makes scores of queries and keys, with axes (..., query, key)."""

    layout: Layout
    mask: Any  # a `Mask`, a function, or an array (..., query, key)
    bias: Any  # a `Bias`, a function, or an array (..., query, key)
    scale: float
    softcap: float | None
    offset: int  # position of the first query, for a `Mask` or a `Bias`
    has_reach: bool  # whether the mask says which keys the queries see
    space: Space
    with_lse: bool  # whether the output ends with the logarithm of the sum of exponentials
    sinks: Any  # logits of no key, (..., 1, 1), or None
    empty: Any = None  # which keys are empty slots, (..., 1, key), where the mask is no `Mask`
    # The rows and the keys of a part of all scores.
    rows: tuple[slice, ...] = ()
    keys: tuple[int, int] | None = None

    @property
    def may_hide(self) -> bool:
        """Return whether a key may be hidden from a query."""
        return self.mask is not None or self.bias is not None

    def reach(self, queries: Ranges) -> Reach:
        """Return which keys some queries see."""
        k_len, own = self.layout.keys.size, self.keys
        start, stop = own or (0, k_len)
        if not self.has_reach:
            return Reach(((0, stop - start),), ())
        at = tuple([(a + self.offset, b + self.offset) for a, b in queries])
        reach: Reach = self.mask._reach(at, k_len)
        if own is None:
            return reach
        return Reach(*(shift(intersect(ranges, (own,)), -start) for ranges in reach))

    def global_queries(self) -> Ranges:
        """Return queries that see many more keys than those beside them."""
        return shift(self.mask._global_queries(), -self.offset) if self.has_reach else ()

    def mask_and_bias(self, queries: Span, keys: Span, *, is_masked: bool = True) -> Any:
        """Return the mask, if some keys are masked, and the bias, (..., query, key) or None."""
        mask = self.mask if is_masked else None
        mask = None if mask is None else self._between("mask", mask, queries, keys)
        bias = None if self.bias is None else self._between("bias", self.bias, queries, keys)
        if self.empty is not None:
            mask = mask | keys.take(self.empty, -1, self.space)
        return mask, bias

    def _between(self, name: str, given: Any, queries: Span, keys: Span) -> Any:
        space, layout = self.space, self.layout
        if isinstance(given, Mask | Bias):
            queries = queries.shifted(self.offset) if self.offset else queries
            keys = keys if self.keys is None else keys.shifted(self.keys[0])
            k_len = (layout.keys.size,) if name == "mask" else ()
            between: Any = given._between
            found = between(queries, keys, *k_len, space)
            found = layout.align_mask_or_bias(name, found, space)
            return slice_broadcast(found, self.rows) if self.rows else found
        if callable(given):
            q_idx, k_idx = queries.positions(space)[:, None], keys.positions(space)[None, :]
            with space.without_chunk_warnings():
                name, found = call_score_function(name, given, q_idx, k_idx)
            return layout.align(name, found, q_idx.shape[0], k_idx.shape[1], space)
        return keys.take(queries.take(given, -2, space), -1, space)

    def hidden_and_bias(self, mask: Any, bias: Any) -> tuple[Any, Any]:
        """Return the mask with what a bias of minus infinity hides, and the bias to add."""
        if bias is None:
            return mask, None
        bias = self.bias_to_add(bias)
        hidden = bias == -float("inf")
        return hidden if mask is None else mask | hidden, bias

    def bias_to_add(self, bias: Any) -> Any:
        """Return a bias in the dtype of the scores; what is finite stays so."""
        xp, dtype = self.space.xp, self.space.dtype
        if dtype == xp.float32 and dtype_name(bias.dtype) == "float64":
            # Its large numbers neither hide a key nor outweigh all others.
            largest = xp.finfo(dtype).max
            too_large = (xp.abs(bias) > largest) & ~xp.isinf(bias)
            bias = xp.where(too_large, xp.sign(bias) * largest, bias)
        return self.space.astype(bias, dtype)

    def of(self, products: Any, nonfinite: Any = None, mask: Any = None, bias: Any = None) -> Any:
        """Return the scores from the products, which it may overwrite.

        A score is minus infinity where the mask is True, else NaN for keys that are `nonfinite`.
        """
        space, scores = self.space, products
        if nonfinite is not None:
            scores = space.xp.where(nonfinite, float("nan"), scores)
        if self.softcap is not None:
            scores = _soft_capped(scores, self.softcap, space.xp)
        if bias is not None:
            scores = space.into(space.xp.add, scores, bias)
        return scores if mask is None else space.fill(scores, mask, -float("inf"))

    def share_of_keys(self, lse: Any) -> Any:
        """Return the part of the weights that the keys have beside the sinks."""
        return self.space.xp.exp(lse - self.space.xp.logaddexp(lse, self.sinks))


def _soft_capped(scores: Any, softcap: float, xp: Namespace) -> Any:
    """Return ``softcap * tanh(scores / softcap)``."""
    if softcap > float(xp.finfo(scores.dtype).max):
        return scores
    capped = softcap * xp.tanh(scores / softcap)
    if softcap < _LARGE_SOFTCAP:
        return capped
    # A score divided by a large cap may underflow; the cap changes no such score.
    return xp.where(xp.abs(scores) < softcap * 2.0**-32, scores, capped)


def without_nonfinite(key: Any, value: Any, space: Space) -> tuple[Any, Any, Any]:
    """Return keys and values with 0 for what is not finite, and which had such, None if none.

    0 * NaN is NaN: a hidden key or value that is not finite would reach the output of a product.
    """
    xp = space.xp
    finite_key, finite_value = xp.isfinite(key), xp.isfinite(value)
    finite = xp.all(finite_key, axis=-1) & xp.all(finite_value, axis=-1)
    if space.is_true(xp.all(finite)):
        return key, value, None
    key, value = xp.where(finite_key, key, 0.0), xp.where(finite_value, value, 0.0)
    return key, value, ~finite[..., None, :]


def slice_broadcast(array: Any, where: Sequence[slice]) -> Any:
    """Slice the first axes of an array, or None; axes of length 1 broadcast, and stay."""
    if array is None:
        return None
    own = (slice(None) if n == 1 else at for n, at in zip(array.shape, where, strict=False))
    return array[(*own, ...)]


def scores_of(
    arrays: dict[str, Any],
    mask: Any,
    bias: Any,
    scale: Any,
    softcap: Any,
    offset: Any,
    positions: tuple[Any, Any],
    sinks: Any,
    options: tuple[Any, Any, bool],
    *,
    with_lse: bool = False,
) -> Scores:
    """Check `arrays`, q, k and perhaps v, and all that makes their scores, and return these.

    The positions are of queries and of keys, the options `feature_axis`, `seq_axis` and
    `enable_gqa`.
    """
    given = {"mask": mask, "bias": bias, "positions": positions[0], "key_positions": positions[1]}
    space = space_of(**arrays, **given_arrays(given | {"sinks": sinks}))
    if isinstance(positions[0], KVStep):
        options = *positions[0]._axes_of(arrays["q"], *options[:2]), options[2]
    places, empty, batch = _places(arrays, positions, options[:2], space), None, 1
    if places is not None:
        mask, bias, offset, empty = places.apply(mask, bias, offset, space)
        batch = places.batch
    forms = tuple([(name, x.dtype, tuple(x.shape)) for name, x in arrays.items()])
    is_mask, is_bias = isinstance(mask, Mask), isinstance(bias, Bias)
    sizes = [("mask", mask._batch() if is_mask else batch)]
    if is_bias:
        sizes.append(("bias", bias._heads()))
    if sinks is not None:
        sizes.append(("sinks", _number_of_sinks(sinks, space.xp)))
    needs_lengths = callable(mask) or callable(bias)  # a `Mask` and a `Bias` are functions, too
    are_keys = space.xp is np and [*map(type, options)] == [int, int, bool]
    find = _numpy_layout if are_keys else _layout
    layout = find(forms, options, tuple(sizes), needs_lengths, space.xp)
    first, q_len, k_len = 0, layout.queries.size, layout.keys.size
    if not (is_mask or is_bias):
        if offset is not None:
            what = "be left out unless `mask` is a `Mask` or `bias` is a `Bias`"
            raise wrong_value("offset", what, offset)
    elif places is not None:
        first = offset
    elif 0 not in (q_len, k_len):  # else there are no scores, and perhaps no rule for the queries
        first = _first_position(mask, bias, offset, q_len, k_len, space)
    if not (is_mask or mask is None):
        mask = _checked("mask", mask, layout, space)
    if not (is_bias or bias is None):
        bias = _checked("bias", bias, layout, space)
    softcap = None if softcap is None else checks.positive_number("softcap", softcap)
    scale = layout.default_scale if scale is None else checks.positive_number("scale", scale)
    # PyTorch would compile for each length anew, whose blocks differ.
    has_reach = isinstance(mask, Mask) and not space.is_compiling
    if empty is not None:
        empty = layout.align_mask_or_bias("mask", empty, space)
    if sinks is not None:
        sinks = space.astype(sinks, space.dtype)[None, None, :]
        sinks, with_lse = layout.align_mask_or_bias("sinks", sinks, space), True
    own = layout, mask, bias, scale, softcap, first, has_reach, space
    return Scores(*own, with_lse, sinks, empty)


def given_arrays(given: dict[str, Any]) -> dict[str, Any]:
    """Return the masks and biases that are arrays, and the arrays of others, by name."""
    arrays: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mask | Bias):
            for key, array in value._arrays().items():
                arrays[f"{name}.{key}"] = array
        elif isinstance(value, KVStep):
            arrays[POSITIONS] = value.positions
        elif not (value is None or (callable(value) and name in ("mask", "bias"))):
            arrays[name] = value
    return arrays


def _places(
    arrays: dict[str, Any], positions: tuple[Any, Any], options: tuple[int, int], space: Space
) -> Places | None:
    """Return the positions of queries and keys, which a step has checked; None without."""
    given, of_keys = positions
    if given is None and of_keys is None:
        return None
    _check_axes(arrays)
    if isinstance(of_keys, KVStep):
        raise wrong_type("key_positions", "be an array", shown(of_keys), " Pass positions=step.")
    if isinstance(given, KVStep):
        if of_keys is not None:
            what = "be left out where `positions` is a step"
            raise wrong_type("key_positions", what, shown(of_keys))
        return given._places_of(arrays["q"], arrays["k"], options[1], space)
    return places_of(arrays["q"], arrays["k"], given, of_keys, options, space)


def _first_position(mask: Any, bias: Any, offset: Any, q_len: int, k_len: int, space: Space) -> int:
    """Return the position of the first query among the keys, after checks of who is there."""
    first = first_position(q_len, k_len, offset, space)
    if first + q_len > k_len >= q_len:
        what = f"be at most {k_len - q_len}, since the keys of the queries are among `k`"
        raise wrong_value("offset", what, offset, _REMEDY)
    if isinstance(mask, Mask):
        mask._check((first, first + q_len), k_len, space)
        if q_len < k_len:
            _check_padding(mask, offset, k_len, is_alone=not isinstance(bias, Bias))
    return first


def _check_padding(mask: Mask, offset: int | None, k_len: int, *, is_alone: bool) -> None:
    """Check that padding does not count keys that the mask of a prompt did not know."""
    for part in getattr(mask, "masks", ()):
        _check_padding(part, offset, k_len, is_alone=False)
    if not isinstance(mask, PaddingMask):
        return
    if is_alone and offset is None:  # the keys may be of another sequence
        if mask._bounds is not None and mask._bounds[1] < k_len:
            what = f"have a length of all {k_len} keys, as the longest sequence has"
            raise wrong_value("mask", what, mask, _REMEDY + _ANOTHER)
        return
    if mask.side == "left":
        what = "have no PaddingMask on the left where queries are fewer than keys"
        raise wrong_value("mask", what, mask, _REMEDY)
    if offset is None:
        what = "have no PaddingMask where queries are fewer than keys, unless `offset` is given"
        raise wrong_value("mask", what, mask, _REMEDY)
    if mask._bounds is not None and mask._bounds[1] <= offset:
        what = f"have a length above `offset` = {offset}, so that a query is no padding"
        raise wrong_value("mask", what, mask, _REMEDY)


def _number_of_sinks(sinks: Any, xp: Namespace) -> Any:
    """Check sinks, and return their number."""
    checks.real_floating(xp, sinks=sinks)
    if sinks.ndim != 1:
        raise wrong_value("sinks", "have shape (heads,)", tuple(sinks.shape))
    return sinks.shape[0]


def _check_axes(arrays: dict[str, Any]) -> None:
    """Check that all arrays have as many axes as `q`."""
    count = arrays["q"].ndim
    for name, array in arrays.items():
        if array.ndim != count:
            came = f"shape {tuple(array.shape)}"
            raise wrong_value(name, f"have as many axes as `q`, {count}", came)


def _layout(
    forms: tuple[Any, ...],
    options: tuple[int, int, bool],
    sizes: tuple[tuple[str, Any], ...],
    needs_lengths: bool,  # noqa: FBT001
    xp: Namespace,
) -> Layout:
    """Check dtypes and shapes of q, k and perhaps v, and return their layout."""
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
    _check_axes(arrays)
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
    return _split_by(layout, sizes, is_grouped=is_grouped)


# Checks take as long as the attention of a token. Lengths of other libraries may be no keys.
_numpy_layout = lru_cache(maxsize=256)(_layout)


def _split_by(layout: Layout, sizes: tuple[tuple[str, Any], ...], *, is_grouped: bool) -> Layout:
    """Check the sequences of a `Mask` and the heads of others; split a merged axis by them."""
    several = {kind: size for kind, size in sizes if size not in (1, None)}
    if len(layout.row_axes) == 1 and several:
        axis = layout.row_axes[0]
        if layout.score_axes == (0, 1) and not is_grouped:
            split = _heads_and_batch(several, layout.shape[axis], axis)
            layout = layout._replace(split=split, is_merged=True)
        elif "mask" in several and len(several) > 1:
            what = "not be for several sequences if `bias` is for several heads"
            raise wrong_value("mask", f"{what} and `q` has one axis for both", several["mask"])
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
    heads = next((m for kind, m in several.items() if kind != "mask"), None)
    heads = n // max(1, several["mask"]) if heads is None else heads
    if "mask" in several and heads * several["mask"] == n:
        return heads, several["mask"]
    return heads, n // max(1, heads)


def _checked(name: str, given: Any, layout: Layout, space: Space) -> Any:
    """Check a function or an array, and return it, an array with the axes of scores."""
    other, rest = (Bias, "bias") if name == "mask" else (Mask, "mask")
    if isinstance(given, type) and issubclass(given, Mask | Bias):
        came = given.__name__
        raise wrong_type(name, f"be a {name}", f"the class {came}", f" Pass {came}(...).")
    if isinstance(given, other):
        raise wrong_type(name, f"be a {name}", shown(given), f" Pass it as `{rest}`.")
    if callable(given):
        return given
    checks.mask_or_bias(name, name, given, space.xp)
    return layout.align(name, given, layout.queries.size, layout.keys.size, space)


def call_score_function(kind: str, given: Any, q_idx: Any, k_idx: Any) -> tuple[str, Any]:
    """Call a mask or bias function, check its result, and return it after its name in messages."""
    name, array = f"{kind}(q_idx, k_idx)", given(q_idx, k_idx)
    xp = space_of(q_idx=q_idx, **{name: array}).xp
    checks.mask_or_bias(kind, name, array, xp)
    return name, array
