"""The scores of queries and keys: their scale, softcap, bias and mask."""

from typing import NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, Namespace
from positional_embeddings.attention.at_positions import ExplicitPositions
from positional_embeddings.attention.attention_arguments import (
    AttentionArguments,
    call_score_function,
)
from positional_embeddings.attention.layout import QKVLayout, check_axis_counts, layout_of
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.index_ranges import IndexRanges, index_ranges
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.position_blocks import ImplicitPositions
from positional_embeddings.masks.ranges import Ranges, VisibleKeys

# With a larger softcap, tanh only rounds small scores.
_LARGE_SOFTCAP = 2.0**64


class ScoreSpec(NamedTuple):
    """The formula of the scores of queries and keys, with axes (..., query, key)."""

    backend: Backend
    layout: QKVLayout
    mask: Mask | Array  # a `Mask`, a function, or an array (..., query, key)
    bias: Bias | Array  # a `Bias`, a function, or an array (..., query, key)
    scale: float
    softcap: float | None
    sinks: Array  # logits of a key without value, (..., 1, 1), or None
    # Of queries and keys, for a `Mask` or a `Bias`.
    positions: ImplicitPositions | ExplicitPositions
    with_lse: bool  # whether to return the logarithm of the sum of exponentials
    block_size: int | None  # number of queries and of keys of a block, if passed
    visible_keys: IndexRanges  # ranges of keys; all other keys are masked
    is_masked: bool  # whether some of these may be masked

    @property
    def has_mask_or_bias(self) -> bool:
        """Return whether keys may be masked."""
        return self.mask is not None or self.bias is not None

    @property
    def is_unmodified_product(self) -> bool:
        """Return whether scores are unmasked products, without other terms and without `lse`."""
        has_no_terms = self.bias is self.softcap is self.sinks is None
        return has_no_terms and not (self.is_masked or self.with_lse)

    @property
    def has_visible_ranges(self) -> bool:
        """Return whether the mask has ranges of visible keys."""
        # PyTorch would recompile for each length, since the blocks depend on the length.
        return isinstance(self.mask, Mask) and not self.backend.is_compiling

    def visible_keys_of(self, queries: Ranges) -> VisibleKeys:
        """Return the keys that some queries attend to."""
        if not self.has_visible_ranges:
            return VisibleKeys(((0, self.layout.keys.size),), ())
        return self.positions.visible_keys(self.mask, queries)

    def global_queries(self) -> Ranges:
        """Return queries that attend to many more keys than their neighbours."""
        return self.positions.global_queries(self.mask) if self.has_visible_ranges else ()

    def with_sinks(self, sinks: Array) -> "ScoreSpec":
        """Return the specification with the logits (heads,) of a key without value, or None."""
        if sinks is not None:
            with self.backend.compute_context(sinks):
                sinks = self.backend.astype(sinks, self.backend.dtype)[None, None, :]
            sinks = self.layout.align_mask_or_bias("sinks", sinks, self.backend)
        return self if sinks is self.sinks else self._replace(sinks=sinks)

    def with_arrays(self) -> "ScoreSpec":
        """Return the specification with the mask and the bias of all visible keys as arrays."""
        queries, keys = self.layout.queries, self.visible_keys
        mask = self.mask_block(queries, keys) if self.is_masked else self.mask
        positions = ImplicitPositions(0, self.layout.keys.size)
        return self._replace(mask=mask, bias=self.bias_block(queries, keys), positions=positions)

    def mask_block(self, queries: IndexRanges, keys: IndexRanges) -> Array:
        """Return the mask, (..., query, key), or None."""
        if self.mask is None:
            return None
        mask = self._block("mask", self.mask, queries, keys)
        if not self.positions.may_have_empty_slots:
            return mask
        _, k = self.positions.position_blocks(queries, keys, self.backend)
        return mask | self.layout.align_mask_or_bias("mask", k.values < 0, self.backend)

    def bias_block(self, queries: IndexRanges, keys: IndexRanges) -> Array:
        """Return the bias, (..., query, key), or None."""
        return None if self.bias is None else self._block("bias", self.bias, queries, keys)

    def _block(
        self, name: str, mask_or_bias: Mask | Bias | Array, queries: IndexRanges, keys: IndexRanges
    ) -> Array:
        backend, layout = self.backend, self.layout
        if isinstance(mask_or_bias, Mask):
            array = mask_or_bias._block(queries, keys, self.positions, backend)
            return layout.align_mask_or_bias(name, array, backend)
        if isinstance(mask_or_bias, Bias):
            array = self.positions.bias_block(mask_or_bias, queries, keys, backend)
            return layout.align_mask_or_bias(name, array, backend)
        if callable(mask_or_bias):
            q_idx, k_idx = queries.indices(backend)[:, None], keys.indices(backend)[None, :]
            with backend.without_chunk_warnings():
                name, array = call_score_function(name, mask_or_bias, q_idx, k_idx)
            return layout.align(name, array, q_idx.shape[0], k_idx.shape[1], backend)
        return keys.take(queries.take(mask_or_bias, -2, backend), -1, backend)

    @property
    def has_lists(self) -> bool:
        """Return whether each query attends only to keys of a list, and lengths are known."""
        if not isinstance(self.mask, Mask) or self.mask._split_lists()[0] is None:
            return False
        return all(map(checks.is_static, (self.layout.queries.size, self.layout.keys.size)))

    def mask_and_bias(self, mask: Array, bias: Array) -> tuple[Array, Array]:
        """Return the mask, also True where the bias is minus infinity, and the bias."""
        if bias is None:
            return mask, None
        bias = self.bias_to_add(bias)
        bias_mask = bias == -float("inf")
        return bias_mask if mask is None else mask | bias_mask, bias

    def bias_to_add(self, bias: Array) -> Array:
        """Return a bias in the dtype of the scores; finite numbers stay finite."""
        xp, dtype = self.backend.xp, self.backend.dtype
        if dtype == xp.float32 and dtype_name(bias.dtype) == "float64":
            # A large bias neither masks a key nor gives other keys a weight of 0.
            largest = xp.finfo(dtype).max
            too_large = (xp.abs(bias) > largest) & ~xp.isinf(bias)
            bias = xp.where(too_large, xp.sign(bias) * largest, bias)
        return self.backend.astype(bias, dtype)

    def scores_from_products(
        self, products: Array, nonfinite: Array = None, mask: Array = None, bias: Array = None
    ) -> Array:
        """Return the scores from the products, which may be overwritten.

        A score is minus infinity where the mask is True, else NaN for keys that are `nonfinite`.
        """
        backend, scores = self.backend, products
        if nonfinite is not None:
            scores = backend.xp.where(nonfinite, float("nan"), scores)
        if self.softcap is not None:
            scores = _soft_capped(scores, self.softcap, backend.xp)
        if bias is not None:
            scores = backend.apply(backend.xp.add, scores, bias)
        return scores if mask is None else backend.fill(scores, mask, -float("inf"))


def _soft_capped(scores: Array, softcap: float, xp: Namespace) -> Array:
    """Return ``softcap * tanh(scores / softcap)``."""
    if softcap > float(xp.finfo(scores.dtype).max):
        return scores
    capped = softcap * xp.tanh(scores / softcap)
    if softcap < _LARGE_SOFTCAP:
        return capped
    # A score divided by a large cap may underflow; the cap changes no such score.
    return xp.where(xp.abs(scores) < softcap * 2.0**-32, scores, capped)


def without_nonfinite(key: Array, value: Array, backend: Backend) -> tuple[Array, Array, Array]:
    """Return keys and values with 0 for non-finite numbers, and a mask of such keys or None.

    0 * NaN is NaN: a masked key or value that is not finite would affect a product.
    """
    xp = backend.xp
    finite_key, finite_value = xp.isfinite(key), xp.isfinite(value)
    finite = xp.all(finite_key, axis=-1) & xp.all(finite_value, axis=-1)
    # On CuPy, reading the value would synchronize.
    if not backend.has_cuda_kernels and backend.concrete_bool(xp.all(finite)):
        return key, value, None
    key, value = xp.where(finite_key, key, 0.0), xp.where(finite_value, value, 0.0)
    return key, value, ~finite[..., None, :]


def prepare_scores(q: Array, k: Array, v: Array, arguments: AttentionArguments) -> ScoreSpec:
    """Check the arguments and return the specification of the scores. `v` may be None."""
    arrays = {"q": q, "k": k} if v is None else {"q": q, "k": k, "v": v}
    backend = get_backend(**arrays, **arguments.arrays())

    # Check the arrays and the options.
    q_axes = arguments.feature_and_seq_axis(q)
    check_axis_counts(arrays)
    scale, softcap, block_size = arguments.check(q, k, backend)
    layout = layout_of(q, k, v, q_axes, backend, is_grouped=arguments.enable_gqa)
    q_len, k_len = layout.queries.size, layout.keys.size
    if arguments.needs_lengths and not (checks.is_static(q_len) and checks.is_static(k_len)):
        axes.length(q, layout.seq, "q")
        axes.length(k, layout.seq, "k")
    scale = layout.default_scale if scale is None else scale

    # Check the positions, and split an axis of heads * batch.
    explicit = arguments.explicit_positions(q, k, layout, backend)
    sizes = arguments.batch_and_head_sizes(explicit)
    if sizes or (layout.key_heads is not None and layout.split is None):
        layout = layout.split_merged_axis(sizes, arguments.sequences)
    has_batch = any(name in sizes for name in ("mask", "positions", "key_positions"))
    if backend.is_chunked and (layout.split is not None or has_batch):
        for name, array in arrays.items():  # chunks of the batch are aligned
            for axis in range(array.ndim):
                axes.length(array, axis, name)

    # Align arrays with the scores.
    mask, positions = arguments.mask_and_positions(explicit, layout, backend)
    bias = arguments.bias
    if not (mask is None or callable(mask)):
        mask = layout.align("mask", mask, q_len, k_len, backend)
    if not (bias is None or callable(bias)):
        bias = layout.align("bias", bias, q_len, k_len, backend)

    # Find the keys that a query attends to.
    visible_keys, is_masked = layout.keys, mask is not None
    if isinstance(mask, Mask) and not backend.is_compiling:
        any_query, every_query = positions.visible_keys(mask, ((0, q_len),))
        if any_query != visible_keys.ranges:
            visible_keys = index_ranges(*any_query)
        is_masked = any_query != every_query

    spec = ScoreSpec(
        backend=backend,
        layout=layout,
        mask=mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        sinks=None,
        positions=positions,
        with_lse=arguments.return_lse,
        block_size=block_size,
        visible_keys=visible_keys,
        is_masked=is_masked,
    )
    return spec.with_sinks(arguments.sinks)
