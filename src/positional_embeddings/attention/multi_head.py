"""Multi-head attention with rotary embeddings, built from this library's parts."""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from math import sqrt
from typing import Annotated, Any

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.checks import FeatureCount, PositionCount, PositiveNumber
from positional_embeddings.arguments.weights import ArrayDataclass, array_field, normal, set_weights
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Device, Dtype, Namespace
from positional_embeddings.attention.attention import scaled_dot_product_attention
from positional_embeddings.attention.attention_arguments import (
    AttentionArguments,
    ScoreFunction,
    call_score_function,
)
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.mask import Mask
from positional_embeddings.rotary.rope import RoPE

# Of (head_size, seq, heads, batch).
_AXES: Any = {"feature_axis": 0, "seq_axis": 1}


@dataclass(frozen=True, eq=False)
class RoPEMultiHeadAttention(ArrayDataclass):
    """Multi-head self-attention with rotary position embeddings.

    Immutable: `dataclasses.replace` gives a copy with other weights. Two layers are equal
    if their sizes and their weights are.

    Parameters
    ----------
    d_model : int
        Number of features, at most 2**20. Each head has ``d_model / num_heads`` of them,
        which must be an even integer.
    num_heads : int
        Number of query heads, positive, at most 2**20.
    max_len : int, default 1000
        Longest sequence, positive, at most 2**63.
    num_kv_heads : int, optional
        Number of key and value heads, a divisor of `num_heads`, which it equals if None,
        also after `dataclasses.replace` with another `num_heads`. Query head h reads key
        head ``h // (num_heads / num_kv_heads)``.
    base : float, default 10_000
        Base of the rotary frequencies, positive.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the drawn weights, which are normal with variance ``2 / d_model``, as
        by Kaiming.
    Wq : array, shape (d_model, d_model), optional
        Weights of the queries. All weights are (output, input), as in PyTorch's ``Linear``; kernels
        of Flax and Keras have to be transposed.
    Wk, Wv : array, shape (num_kv_heads * d_model / num_heads, d_model), optional
        Weights of the keys and of the values.
    Wo : array, shape (d_model, d_model), optional
        Weights of the output.
    xp : namespace, optional
        Array library of the drawn weights, NumPy if None.
    dtype : dtype, optional
        Real floating-point dtype of the drawn weights, float32 if None.
    device : device, optional
        Device of the drawn weights.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If sizes do not divide, or a weight has the wrong shape.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.2.2; Su et al. (2021),
    RoFormer, equation 16; Ainslie et al. (2023), GQA; He et al. (2015), equation 10,
    for the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import replace
    >>> mha = RoPEMultiHeadAttention(512, 8, rng=0)
    >>> mha
    RoPEMultiHeadAttention(d_model=512, num_heads=8, max_len=1000, num_kv_heads=None,
                           base=10000, rng=0)
    >>> x = np.random.default_rng(1).random((512, 20, 32))
    >>> mha(x).shape
    (512, 20, 32)
    >>> silent = replace(mha, Wo=np.zeros_like(mha.Wo))
    >>> bool(np.any(silent(x)))
    False
    """

    d_model: FeatureCount
    num_heads: FeatureCount
    max_len: PositionCount = 1000
    _: KW_ONLY
    num_kv_heads: Annotated[int | None, checks.optional(checks.feature_count)] = None
    base: PositiveNumber = 10_000
    rng: Any = field(default=None, compare=False)
    Wq: Array = array_field(None)
    Wk: Array = array_field(None)
    Wv: Array = array_field(None)
    Wo: Array = array_field(None)
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None
    _rope: RoPE = field(init=False, repr=False, compare=False)

    def __post_init__(self, xp: Namespace, dtype: Dtype, device: Device) -> None:
        self._check_fields()
        d_model, num_heads = self.d_model, self.num_heads
        head_size = checks.quotient("d_model", d_model, "num_heads", num_heads)
        checks.quotient("num_heads", num_heads, "num_kv_heads", self._kv_heads)
        if head_size % 2:
            required = f"be an even multiple of `num_heads` = {num_heads}"
            raise wrong_value("d_model", required, d_model)
        checks.set_fields(self, _rope=RoPE(head_size, self.max_len, self.base, **_AXES))
        kv_size = self._kv_heads * head_size
        square, kv_shape = (d_model, d_model), (kv_size, d_model)
        shapes = {"Wq": square, "Wk": kv_shape, "Wv": kv_shape, "Wo": square}
        set_weights(self, shapes, normal(sqrt(2 / d_model)), xp, dtype, device)

    def __call__(
        self,
        x: ArrayT,
        /,
        mask: AnyArray | Mask | ScoreFunction | None = None,
        *,
        bias: AnyArray | Bias | ScoreFunction | None = None,
    ) -> ArrayT:
        """Attend from each position of a sequence to all visible positions.

        Parameters
        ----------
        x : array, shape (d_model, seq, batch)
            Real floating-point, in the library of the weights.
        mask : Mask, array of bool or function, optional
            A value, such as ``CausalMask()``. Or an array, True where a query may not attend
            to a key, of shape (query, key), (query, key, 1), (query, key, batch),
            (query, key, heads, batch), or (query, key, heads * batch), which is the one
            before with its last two axes merged. The lengths of query and key may be 1. A
            function ``mask(q_idx, k_idx)`` gets the indices in `x` of some queries, (n, 1),
            and of some keys, (1, m), both counted from 0, and returns the mask between them;
            see `scaled_dot_product_attention`.
        bias : Bias, array or function, optional
            A value, such as ``ALiBiBias(num_heads)``. Or an array of real floating-point
            numbers that are added to the scores, of shape (query, key), (query, key, 1),
            (query, key, heads), (query, key, heads, batch) or (query, key, heads * batch).
            The lengths of query and key may be 1. A function is called as one for `mask` is.

        Returns
        -------
        array, shape (d_model, seq, batch)
            Dtype of `x`. Computed in the wider dtype of `x` and the weights; float16 and
            bfloat16 are computed in float32.

        Raises
        ------
        TypeError
            If an array has the wrong type or dtype, or is not in the library of the
            weights.
        ValueError
            If a shape does not fit, or the sequence is longer than `max_len`.
        """
        masks_and_biases = namespace.drop_none(mask=mask, bias=bias)
        backend = get_backend(x=x, **AttentionArguments(**masks_and_biases).arrays(), Wq=self.Wq)
        xp = backend.xp
        checks.real_floating(xp, x=x)
        if x.ndim != 3 or x.shape[0] != self.d_model:
            hint = " Pass permute_dims(x, (2, 1, 0)) of (batch, seq, features)."
            hint *= x.ndim == 3 and x.shape[2] == self.d_model
            raise wrong_value("x", f"have shape ({self.d_model}, seq, batch)", tuple(x.shape), hint)
        checks.within_table(axes.length(x, 1), 0, self.max_len, "max_len", 1)
        axes.length(x, 2)
        by_head = {
            name: self._per_head(name, value, x, xp) for name, value in masks_and_biases.items()
        }

        dtype = xp.result_type(backend.dtype, dtypes.compute_dtype(self.Wq.dtype, xp))
        with backend.compute_context(x):
            upcast = backend.astype(x, dtype)
        q = self._heads(self.Wq, upcast, self.num_heads, backend)
        k = self._heads(self.Wk, upcast, self._kv_heads, backend)
        v = self._heads(self.Wv, upcast, self._kv_heads, backend)
        q, k = self._rope(q), self._rope(k)
        attended = scaled_dot_product_attention(q, k, v, **by_head, enable_gqa=True, **_AXES)
        merged = xp.reshape(xp.permute_dims(attended, (2, 0, 1, 3)), x.shape)
        with backend.compute_context(x):
            return backend.astype(_project(self.Wo, merged, backend), x.dtype)  # type: ignore[no-any-return]

    @property
    def _kv_heads(self) -> int:
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    def _heads(self, weight: Array, x: Array, heads: int, backend: Backend) -> Array:
        """Project to (head_size, seq, heads, batch)."""
        projected = _project(weight, x, backend)
        shape = (heads, self._rope.head_size, *x.shape[1:])
        return backend.xp.permute_dims(backend.xp.reshape(projected, shape), (1, 2, 0, 3))

    def _per_head(self, argument_name: str, mask_or_bias: Any, x: Array, xp: Namespace) -> Any:
        """Return a mask or bias with the axes of attention, also in a function."""
        if isinstance(mask_or_bias, Mask | Bias):
            return mask_or_bias
        heads, batch = self.num_heads, x.shape[2]
        if not callable(mask_or_bias):
            return _with_heads(argument_name, argument_name, mask_or_bias, heads, batch, xp)

        def by_head(q_idx: Array, k_idx: Array) -> Array:
            name, array = call_score_function(argument_name, mask_or_bias, q_idx, k_idx)
            return _with_heads(argument_name, name, array, heads, batch, xp)

        return by_head


def _with_heads(
    argument_name: str, name: str, array: Array, heads: int, batch: int, xp: Namespace
) -> Array:
    """Return a mask or a bias, if it has three axes, as (query, key, heads, batch)."""
    if array.ndim != 3:
        return array
    shape = tuple(array.shape)
    third_length, meaning = (batch, "batch") if argument_name == "mask" else (heads, "heads")
    if shape[2] in (1, third_length):
        return array[:, :, None, :] if argument_name == "mask" else array[..., None]
    if shape[2] != heads * batch:
        lengths = f"1, {third_length} ({meaning}) or {heads * batch} (heads * batch)"
        raise wrong_value(name, f"have length {lengths} on axis 2", f"shape {shape}")
    return xp.reshape(array, (*shape[:2], heads, batch))


def _project(weight: Array, x: Array, backend: Backend) -> Array:
    with backend.compute_context(x):
        return backend.xp.tensordot(backend.astype(weight, x.dtype), x, axes=1)
