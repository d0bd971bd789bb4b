"""The scores of queries and keys: their product, softcap, bias and mask."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.positions import Span, first_position
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Namespace, dtype_name
from positional_embeddings.arrays.space import space_of
from positional_embeddings.attention.layout import Layout
from positional_embeddings.attention.plan import KeyBlock
from positional_embeddings.biases.positions import Bias
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.ranges import Ranges, Reach, intersect, shift

# Called with the indices of queries, (query, 1), and of keys, (1, key): 0, 1, 2, ..., whatever
# their positions.
ScoreFunction = Callable[[Any, Any], Any]

# Above this, tanh would only round small scores.
_LARGE_SOFTCAP = 2.0**64


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
        some, every = self.mask._reach(at, k_len)
        if own is None:
            return Reach(some, every)
        return Reach(*(shift(intersect(ranges, (own,)), -start) for ranges in (some, every)))

    def global_queries(self) -> Ranges:
        """Return queries that see many more keys than those beside them."""
        return shift(self.mask._global_queries(), -self.offset) if self.has_reach else ()

    def mask_and_bias(self, queries: Span, block: KeyBlock) -> tuple[Any, Any]:
        """Return the mask, if some keys are masked, and the bias, (..., query, key) or None."""
        mask = self.mask if block.is_masked else None
        return (
            None if mask is None else self._between("mask", mask, queries, block.keys),
            None if self.bias is None else self._between("bias", self.bias, queries, block.keys),
        )

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
    if array is None or not where:
        return array
    own = (slice(None) if n == 1 else at for n, at in zip(array.shape, where, strict=False))
    return array[(*own, ...)]


def scores_of(
    layout: Layout, mask: Any, bias: Any, scale: Any, softcap: Any, offset: Any, space: Space
) -> Scores:
    """Check the arguments that make scores, and return them."""
    first, q_len, k_len = 0, layout.queries.size, layout.keys.size
    is_mask, is_bias = isinstance(mask, Mask), isinstance(bias, Bias)
    if not (is_mask or is_bias):
        if offset is not None:
            what = "be left out unless `mask` is a `Mask` or `bias` is a `Bias`"
            raise wrong_value("offset", what, offset)
    elif 0 not in (axes.length(layout, layout.seq, "q"), k_len):
        first = first_position(q_len, k_len, offset, space)
        if is_mask:
            mask._check((first, first + q_len), k_len, space)
    if not (is_mask or mask is None):
        mask = _checked("mask", mask, layout, space)
    if not (is_bias or bias is None):
        bias = _checked("bias", bias, layout, space)
    if softcap is not None:
        softcap = checks.positive_number("softcap", softcap)
    scale = layout.default_scale if scale is None else checks.positive_number("scale", scale)
    # PyTorch would compile for each length anew, whose blocks differ.
    has_reach = is_mask and not space.is_compiling
    return Scores(layout, mask, bias, scale, softcap, first, has_reach, space)


def _checked(name: str, given: Any, layout: Layout, space: Space) -> Any:
    """Check a function or an array, and return it, an array with the axes of scores."""
    other, rest = (Bias, "bias") if name == "mask" else (Mask, "mask")
    if isinstance(given, type) and issubclass(given, Mask | Bias):
        came = given.__name__
        raise wrong_type(name, f"be a {name}", f"the class {came}", f" Pass {came}(...).")
    if isinstance(given, other):
        raise wrong_type(name, f"be a {name}", shown(given), f" Pass it as `{rest}`.")
    if callable(given):
        axes.length(layout, layout.seq, "q")
        return given
    checks.mask_or_bias(name, name, given, space.xp)
    return layout.align(name, given, layout.queries.size, layout.keys.size, space)


def call_score_function(kind: str, given: Any, q_idx: Any, k_idx: Any) -> tuple[str, Any]:
    """Call a mask or bias function, check its result, and return it after its name in messages."""
    name, array = f"{kind}(q_idx, k_idx)", given(q_idx, k_idx)
    xp = space_of(q_idx=q_idx, **{name: array}).xp
    checks.mask_or_bias(kind, name, array, xp)
    return name, array
