"""The scores of queries and keys: their scale, softcap, bias and mask."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.spans import Span
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.namespace import Array, Namespace
from positional_embeddings.arrays.space import Space
from positional_embeddings.attention.layout import Layout, layout_of
from positional_embeddings.attention.rules import (
    Rules,
    call_score_function,
    checked_mask_or_bias,
    first_query,
    number_of_sinks,
)
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.ranges import Ranges, Reach, intersect, shift

# Above this, tanh would only round small scores.
_LARGE_SOFTCAP = 2.0**64


class Scores(NamedTuple):
    """What makes scores of queries and keys, with axes (..., query, key)."""

    layout: Layout
    mask: Array  # a `Mask`, a function, or an array (..., query, key)
    bias: Array  # a `Bias`, a function, or an array (..., query, key)
    scale: float
    softcap: float | None
    offset: int  # position of the first query, for a `Mask` or a `Bias`
    has_reach: bool  # whether the mask says which keys the queries see
    space: Space
    with_lse: bool  # whether the logarithm of the sum of exponentials is asked for
    sinks: Array  # logits of a key without value, (..., 1, 1), or None
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

    def mask_between(self, queries: Span, keys: Span) -> Any:
        """Return the mask, (..., query, key), or None."""
        mask = None if self.mask is None else self._between("mask", self.mask, queries, keys)
        return mask if self.empty is None else mask | keys.take(self.empty, -1, self.space)

    def bias_between(self, queries: Span, keys: Span) -> Any:
        """Return the bias, (..., query, key), or None."""
        return None if self.bias is None else self._between("bias", self.bias, queries, keys)

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

    def hidden_and_bias(self, mask: Array, bias: Array) -> tuple[Any, Any]:
        """Return the mask with what a bias of minus infinity hides, and the bias to add."""
        if bias is None:
            return mask, None
        bias = self.bias_to_add(bias)
        hidden = bias == -float("inf")
        return hidden if mask is None else mask | hidden, bias

    def bias_to_add(self, bias: Array) -> Any:
        """Return a bias in the dtype of the scores; what is finite stays so."""
        xp, dtype = self.space.xp, self.space.dtype
        if dtype == xp.float32 and dtype_name(bias.dtype) == "float64":
            # Its large numbers neither hide a key nor outweigh all others.
            largest = xp.finfo(dtype).max
            too_large = (xp.abs(bias) > largest) & ~xp.isinf(bias)
            bias = xp.where(too_large, xp.sign(bias) * largest, bias)
        return self.space.astype(bias, dtype)

    def of(
        self, products: Array, nonfinite: Array = None, mask: Array = None, bias: Array = None
    ) -> Any:
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


def _soft_capped(scores: Array, softcap: float, xp: Namespace) -> Any:
    """Return ``softcap * tanh(scores / softcap)``."""
    if softcap > float(xp.finfo(scores.dtype).max):
        return scores
    capped = softcap * xp.tanh(scores / softcap)
    if softcap < _LARGE_SOFTCAP:
        return capped
    # A score divided by a large cap may underflow; the cap changes no such score.
    return xp.where(xp.abs(scores) < softcap * 2.0**-32, scores, capped)


def without_nonfinite(key: Array, value: Array, space: Space) -> tuple[Any, Any, Any]:
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


def slice_broadcast(array: Array, where: Sequence[slice]) -> Any:
    """Slice the first axes of an array, or None; axes of length 1 broadcast, and stay."""
    if array is None:
        return None
    own = (slice(None) if n == 1 else at for n, at in zip(array.shape, where, strict=False))
    return array[(*own, ...)]


def scores_of(
    arrays: dict[str, Any],
    rules: Rules,
    options: tuple[int | None, int | None, bool],
    *,
    with_lse: bool = False,
) -> Scores:
    """Check `arrays`, q, k and perhaps v, and all that makes their scores, and return these.

    The options are `feature_axis`, `seq_axis` and `enable_gqa`.
    """
    space = space_of(**arrays, **rules.arrays())
    feature_axis, seq_axis, is_grouped = options
    own_axes = rules.axes(arrays["q"], feature_axis, seq_axis)
    places = rules.places(arrays["q"], arrays["k"], own_axes, space)
    options = *own_axes, is_grouped
    empty, batch, sequences = None, 1, None
    if places is not None:
        rules, empty = places.apply(rules, space)
        batch, sequences = places.batch, places.sequences
    mask, bias, sinks = rules.mask, rules.bias, rules.sinks
    is_mask, is_bias = isinstance(mask, Mask), isinstance(bias, Bias)
    sizes = [("mask", mask._batch() if is_mask else batch)]
    if is_bias:
        sizes.append(("bias", bias._heads()))
    if sinks is not None:
        sizes.append(("sinks", number_of_sinks(sinks, space.xp)))
    needs_lengths = callable(mask) or callable(bias)  # a `Mask` and a `Bias` are functions, too
    known = tuple(sizes), sequences
    layout = layout_of(arrays, options, *known, space, needs_lengths=needs_lengths)
    first, q_len, k_len = 0, layout.queries.size, layout.keys.size
    if not (is_mask or is_bias):
        if rules.offset is not None:
            what = "be left out unless `mask` is a `Mask` or `bias` is a `Bias`"
            raise wrong_value("offset", what, rules.offset)
    elif places is not None:
        first = rules.offset
    elif 0 not in (q_len, k_len):  # else there are no scores, and perhaps no rule for the queries
        first = first_query(rules, q_len, k_len, space)
    if not (is_mask or mask is None):
        mask = checked_mask_or_bias("mask", mask, layout, space)
    if not (is_bias or bias is None):
        bias = checked_mask_or_bias("bias", bias, layout, space)
    softcap, scale = rules.softcap, rules.scale
    softcap = None if softcap is None else checks.positive_number("softcap", softcap)
    scale = layout.default_scale if scale is None else checks.positive_number("scale", scale)
    # PyTorch would compile for each length anew, whose blocks differ.
    has_reach = isinstance(mask, Mask) and not space.is_compiling
    if empty is not None:
        empty = layout.align_mask_or_bias("mask", empty, space)
    if sinks is not None:
        sinks = space.astype(sinks, space.dtype)[None, None, :]
        sinks = layout.align_mask_or_bias("sinks", sinks, space)
    own = layout, mask, bias, scale, softcap, first, has_reach, space
    return Scores(*own, with_lse, sinks, empty)
