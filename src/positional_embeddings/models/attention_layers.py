"""Attention layers of models: `AttentionLayer`, and how it follows from a configuration."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import arrays_key, get_or_compute, remember
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Namespace, drop_none
from positional_embeddings.attention.at_positions import DISTANT_POSITION
from positional_embeddings.attention.attention import (
    PreparedCall,
    attend,
    attend_in_context,
    prepare,
    prepare_cached,
)
from positional_embeddings.attention.attention_arguments import AttentionArguments
from positional_embeddings.attention.cache import KVStep
from positional_embeddings.attention.store import WritePlan
from positional_embeddings.biases.alibi import ALiBiBias
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_position import CausalMask, ChunkedMask, SlidingWindowMask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.models.configuration import Config, Configuration
from positional_embeddings.models.hf_config import RotaryConfig
from positional_embeddings.models.layers import Layer
from positional_embeddings.models.model_types import LayerAttention
from positional_embeddings.rotary.layouts import LAYOUTS
from positional_embeddings.rotary.rope import RoPE
from positional_embeddings.rotary.scaling import YaRNScaling, yarn_magnitude

# From queries and keys to both as they are stored.
Rotate: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]

_UNKNOWN = (
    "its type was not compared; pass `config | {'model_type': ...}` with the type of a model of "
    "the same code, or make layers by hand"
)
# The remedy of a refusal whose reason names none.
_BY_HAND = " Make an `AttentionLayer` for each of its layers by hand, as its code attends."


def _optional_value(kind: type, name: str, value: object) -> Any:
    """Check that a field is an instance of a class of this library, or None."""
    if not (value is None or isinstance(value, kind)):
        raise wrong_type(name, f"be a `{kind.__name__}` or None", format_value(value))
    return value


@dataclass(frozen=True)
class AttentionLayer(checks.CheckedDataclass):
    """Attention of a layer of a model: rotation, mask, bias, scale and sizes.

    An immutable value. `attention_layers` makes it from the configuration of a model. The caller
    projects queries, keys and values.

    Parameters
    ----------
    num_heads : int
        Number of query heads, positive, at most 2**20.
    head_size : int
        Number of features of a query and of a key, positive, at most 2**20.
    num_kv_heads : int, optional
        Number of key and value heads, a divisor of `num_heads`; `num_heads` if None.
    value_size : int, optional
        Number of features of a value, `head_size` if None.
    rope : RoPE, optional
        Rotation of queries and keys. If it has fewer features than the queries, it rotates their
        last features, as in multi-head latent attention.
    mask : Mask, optional
        Mask of the keys; None if each query sees all keys.
    bias : Bias, optional
        Bias of the scores, such as `ALiBiBias`.
    scale : float, optional
        Factor on the scores, positive; ``1 / sqrt(head_size)`` if None.
    softcap : float, optional
        Bound of the scores, as in `scaled_dot_product_attention`.
    window : int, optional
        Number of newest keys that a cache must hold, positive; all if None. `mask` must hide
        all older keys.
    has_sinks : bool, default False
        Whether each head has a sink, the logit of a key without value. Each call passes these
        logits.
    feature_axis, seq_axis : int, optional
        Axes of features and positions: 0 and 1 by default for arrays of at most three axes,
        required for more axes: -1 and -2 for ``(batch, heads, seq, head)``. `rope` must have the
        same axes.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive or does not match the other sizes, or `rope` has more features
        than `head_size`, or other axes.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import CausalMask
    >>> axes = {"feature_axis": -1, "seq_axis": -2}
    >>> rope = RoPE(64, 1024, **axes)
    >>> layer = AttentionLayer(8, 64, num_kv_heads=2, rope=rope, mask=CausalMask(), **axes)
    >>> q, k, v = (np.ones((3, heads, 10, 64)) for heads in (8, 2, 2))
    >>> layer(q, k, v).shape
    (3, 8, 10, 64)
    """

    num_heads: checks.FeatureCount
    head_size: checks.FeatureCount
    _: KW_ONLY
    num_kv_heads: Annotated[int | None, checks.optional(checks.feature_count)] = None
    value_size: Annotated[int | None, checks.optional(checks.feature_count)] = None
    rope: Annotated[RoPE | None, partial(_optional_value, RoPE)] = None
    mask: Annotated[Mask | None, partial(_optional_value, Mask)] = None
    bias: Annotated[Bias | None, partial(_optional_value, Bias)] = None
    scale: checks.OptionalPositiveNumber = None
    softcap: checks.OptionalPositiveNumber = None
    window: Annotated[int | None, checks.optional(checks.positive_integer)] = None
    has_sinks: Annotated[bool, checks.boolean] = False
    feature_axis: int | None = None
    seq_axis: int | None = None

    def __post_init__(self) -> None:
        self._check_fields()
        axes.set_axes(self)
        num_kv_heads = self.num_kv_heads or self.num_heads
        checks.quotient("num_heads", self.num_heads, "num_kv_heads", num_kv_heads)
        value_size = self.value_size or self.head_size
        checks.set_fields(self, num_kv_heads=num_kv_heads, value_size=value_size)
        if self.window is not None:
            # The keys that the newest of many tokens sees.
            mask = SlidingWindowMask(None, None) if self.mask is None else self.mask
            for last in mask._probe_positions(DISTANT_POSITION):
                visible = mask._visible_keys(((last - 1, last),), last).any_query
                if any(start < last - self.window for start, _ in visible):
                    requirement = f"hide all keys but the {self.window} newest ones (`window`)"
                    hint = f" Pass mask=SlidingWindowMask.of({self.window}), or no `window`."
                    raise wrong_value("mask", requirement, format_value(self.mask), hint)
        rope = self.rope
        if rope is None:
            return
        if rope.head_size > self.head_size:
            requirement = f"have at most `head_size` = {self.head_size} features"
            raise wrong_value("rope", requirement, rope.head_size)
        for name in ("feature_axis", "seq_axis"):
            axis, other = getattr(self, name), getattr(rope, name)
            if axis != other:
                raise wrong_value(name, f"equal `rope.{name}` = {other}", format_value(axis))

    def __call__(
        self,
        q: ArrayT,
        k: AnyArray,
        v: AnyArray,
        /,
        *,
        positions: AnyArray | None = None,
        sinks: AnyArray | None = None,
    ) -> Any:
        """Rotate queries and keys of a whole sequence, and attend.

        Parameters
        ----------
        q : array, shape (head_size, seq, num_heads, batch)
            Queries, real floating-point, projected and normalized, without the factors of
            `scale`. With the axes -1 and -2, their shape is (batch, num_heads, seq, head_size).
            If `num_kv_heads` equals `num_heads`, heads and batch may share one axis, as in
            attention.
        k : array, shape (head_size, seq, num_kv_heads, batch)
            Keys.
        v : array, shape (value_size, seq, num_kv_heads, batch)
            Values.
        positions : array, optional
            Integer positions of the sequence, as for a call of `rope`, and below 0 for padding;
            counted from 0 if None. Positions of several coordinates only rotate: the mask then
            depends on the order of the sequence.
        sinks : array, shape (num_heads,), optional
            Logits of the sinks, if the layer `has_sinks`.

        Returns
        -------
        array
            In the layout of `q`, with `value_size` features.

        Raises
        ------
        TypeError, ValueError
            As `RoPE` and `scaled_dot_product_attention`; if an array does not have the features
            or heads of the layer; if `sinks` contradict `has_sinks`.

        Notes
        -----
        Options are keyword-only. Their names in other libraries are in the page
        :doc:`/coming_from/frameworks`.
        """
        self._check_sinks(sinks)
        backend = get_backend(q=q, k=k, v=v, **drop_none(positions=positions, sinks=sinks))
        checks.real_floating(backend.xp, q=q, k=k, v=v)
        self._check("q", q, self.head_size, self.num_heads)
        self._check("k", k, self.head_size, self.num_kv_heads)
        self._check("v", v, self.value_size, self.num_kv_heads)
        mask_positions: Any = positions
        if self.rope is not None:
            rotate = partial(self.rope, positions=positions)
            q, k = self._rotated(q, rotate, backend), self._rotated(k, rotate, backend)
            mask_positions = positions if self.rope.sections is None else None
        spec, algorithm = prepare(q, k, v, self._arguments(mask_positions, sinks))
        return attend(spec, algorithm, q, k, v)

    def _check(self, name: str, array: Array, size: int | None, heads: int | None) -> None:
        """Check the numbers of features and heads of an array."""
        feature, seq = axes.feature_and_seq_axis(
            self.feature_axis, self.seq_axis, array, name, "Make the layer with"
        )
        expected: dict[int, tuple[int | None, str]] = {feature: (size, "features")}
        if array.ndim == 4:
            head: Any = axes.head_axis(4, feature, seq)
            expected[head] = (heads, "heads")
        for axis, (count, unit) in expected.items():
            if checks.lengths_differ(array.shape[axis], count):
                actual = f"shape {tuple(array.shape)}"
                raise wrong_value(name, f"have {count} {unit} on axis {axis}", actual)

    def _attend_in_step(
        self, step: KVStep, number: int, q: Array, k: Array, v: Array, sinks: Array
    ) -> Any:
        """Rotate queries and keys, store keys and values in a step of a cache, and attend."""
        self._check_sinks(sinks)
        key: Any = arrays_key(q, k, v, sinks)
        key = key and (id(self), *key)
        plan = (step._plans or {}).get(key) or self._plan_in_step(step, number, q, k, v)
        with plan.writes.axes.backend.compute_context(q):
            q, k = plan.rotate(q, k)
            attention = plan.attention
            if attention is None:  # before anything is stored
                keys, values = step._seen(number, k, v, plan.writes)
                arguments = self._arguments(step.of(number), sinks)
                key = None if arguments.may_hold_tensors(q) else key
                make = prepare if key is None else prepare_cached
                attention = make(q, keys, values, arguments)
                remember(step._plans, key, plan._replace(attention=attention))
            keys, values = step._store(number, k, v, plan.writes)
            spec, algorithm = attention
            return attend_in_context(spec.with_sinks(sinks), algorithm, q, keys, values)

    def _plan_in_step(self, step: KVStep, number: int, q: Array, k: Array, v: Array) -> "_StepPlan":
        """Check new tokens, and return what rotates and stores them."""
        arrays = {
            "q": (q, self.num_heads, self.head_size),
            "k": (k, self.num_kv_heads, self.head_size),
            "v": (v, self.num_kv_heads, self.value_size),
        }
        writes = step._checked_plan(number, arrays)
        return _StepPlan(self._rotation_in_step(step, q, k, writes.axes.backend), writes)

    def _rotation_in_step(self, step: KVStep, q: Array, k: Array, backend: Backend) -> Rotate:
        """Return the function that rotates arrays like queries and keys of a step."""
        rope, positions = self.rope, step.positions
        if rope is None:
            return lambda q, k: (q, k)
        on_host = backend.values_on_host(positions) if backend.supports_inplace(q, k) else None
        if on_host is not None and on_host.size == 1 and rope.head_size == self.head_size:
            position = on_host.item()
            if 0 <= position < rope.seq_len:  # its tables are at hand
                return _token_rotation(rope, position, q, k, backend.xp)
        make = partial(rope.tables, positions, dtype=q.dtype)
        tables = get_or_compute(step._plans, (id(rope), backend.cache_key), make)
        rotated = partial(self._rotated, rotate=tables, backend=backend)
        return lambda q, k: (rotated(q), rotated(k))

    def _rotated(self, x: Array, rotate: Callable[[Array], Array], backend: Backend) -> Array:
        """Return an array with its last features, as many as `rope` has, rotated."""
        size = self.head_size if self.rope is None else self.rope.head_size
        if size == self.head_size:
            return rotate(x)
        feature, _ = axes.feature_and_seq_axis(self.feature_axis, self.seq_axis, x)
        head: list[slice] = [slice(None)] * x.ndim
        tail = [*head]
        head[feature], tail[feature] = slice(None, -size), slice(-size, None)
        return backend.xp.concat([x[tuple(head)], rotate(x[tuple(tail)])], axis=feature)

    def _check_sinks(self, sinks: Array) -> None:
        """Check that sinks are passed if and only if the layer `has_sinks`."""
        if self.has_sinks is (sinks is None):
            requirement = "be given, of shape (num_heads,)" if self.has_sinks else "be left out"
            requirement += f", as `has_sinks` is {self.has_sinks}"
            raise wrong_value("sinks", requirement, format_value(sinks))

    def _arguments(self, positions: Any, sinks: Array) -> AttentionArguments:
        """Return the arguments of the attention of queries and keys that are rotated."""
        is_grouped = self.num_kv_heads != self.num_heads
        options: dict[str, Any] = {"feature_axis": self.feature_axis, "seq_axis": self.seq_axis}
        options |= {"enable_gqa": is_grouped, "positions": positions, "sinks": sinks}
        return AttentionArguments(self.mask, self.bias, self.scale, self.softcap, **options)


class _StepPlan(NamedTuple):
    """What a step of a cache does with the tokens of layers that are alike."""

    rotate: Rotate
    writes: WritePlan
    attention: PreparedCall | None = None  # known after the first layer has stored


def _token_rotation(rope: RoPE, position: int, q: Array, k: Array, xp: Namespace) -> Rotate:
    """Return what rotates queries and keys like these of one token, which is at a position.

    Both are rotated together: for one token each call of the library takes as long as its numbers.
    """
    axis: Any = axes.head_axis(4, *axes.axes_in_4d(rope))
    both = xp.concat([q, k], axis=axis)
    plan, cos, sin = rope._prepare(both, None, position, out=both)
    kernel: Any = plan.kernel
    before, count = (slice(None),) * axis, q.shape[axis]
    queries, keys = (*before, slice(count), ...), (*before, slice(count, None), ...)

    def rotate_both(q: Array, k: Array) -> tuple[Array, Array]:
        both = xp.concat([q, k], axis=axis)
        kernel(both, cos, sin, both, plan, 1)
        return both[queries], both[keys]

    return rotate_both


def attention_layers(
    config: Config,
    seq_len: int | None = None,
    *,
    layout: str | None = None,
    feature_axis: int | None = None,
    seq_axis: int | None = None,
) -> list[AttentionLayer | None]:
    """Return the attention of each layer of a model from its Hugging Face ``config.json``.

    A layer computes the same output as the code of transformers from the same queries, keys and
    values before rotation: a program compared them for each model type. Other types are refused.
    So are keys that the code names, with values that were not compared, and `architectures` of
    another type.

    Parameters
    ----------
    config : dict or path
        The configuration, its file or its folder, as for `RoPE.from_hf_config`, with the number
        of layers. Missing keys have the defaults of transformers. Keys that the code of the type
        does not name are ignored. Of a model for text and images, the text model is read. Where
        tokens of images see each other, as in Gemma 3, replace `mask` by
        ``CausalMask() & SegmentMask(image)``, and with a window by this mask ``|
        SlidingWindowMask(window - 1, None)``.
    seq_len : int, optional
        Number of positions in the tables, as for `RoPE.from_hf_config`.
    layout : {"half", "interleaved"}, optional
        Layout of the queries and keys, if it differs from the layout in transformers:
        "interleaved" for a Llama in the GGUF format.
    feature_axis, seq_axis : int, optional
        Axes of features and positions, as for `AttentionLayer`.

    Returns
    -------
    list of AttentionLayer or None
        One entry per layer. Equal layers share an object. A layer without attention, as in
        Mamba, is None.

    Raises
    ------
    TypeError
        If the configuration is no dict, or a number or a flag in it has a wrong type.
    ValueError
        If the attention of the model is not known, if a key or a value of the configuration may
        change it, or if `layout` is wrong. The message names a remedy.

    See Also
    --------
    RoPE.layers_from_hf_config : Only the rotary embeddings, for more model types.

    Examples
    --------
    Gemma 2 has a window of 4,096 keys in every other layer, and caps its scores:

    >>> layers = attention_layers({"model_type": "gemma2", "num_hidden_layers": 4}, 8192)
    >>> [layer.window for layer in layers]
    [4096, None, 4096, None]
    >>> layers[0].scale, layers[0].softcap
    (0.0625, 50.0)
    """
    if layout is not None:
        checks.choice("layout", layout, LAYOUTS)
    axes = {"feature_axis": feature_axis, "seq_axis": seq_axis}
    return _LayerReader(Configuration(config), seq_len, layout, axes).layers()


class _LayerReader:
    """Reader of the attention layers of a configuration."""

    def __init__(
        self, config: Configuration, seq_len: int | None, layout: str | None, axes: dict[str, Any]
    ) -> None:
        self.config, self.values, self.attention = config, config.values, config.attention
        self._check_supported()
        self.model = RotaryConfig(config, must_rotate=False)
        self.seq_len, self.layout, self.axes = seq_len, layout, axes

    def _check_supported(self) -> None:
        """Refuse a model whose attention is not known."""
        model_type, reason = self.config.model_type, self.attention.refused
        if not model_type.is_listed:
            reason = _UNKNOWN + self.config.classes
        elif model_type.attention is None:
            reason = model_type.refused or "it was not compared"
        if reason:
            hint = "" if "by hand" in reason or ": " in reason else _BY_HAND
            message = f"No `AttentionLayer` attends as {self.config.name} does: {reason}.{hint}"
            raise ValueError(message)

    def layers(self) -> list[AttentionLayer | None]:
        layers = self.model.layers(self.model.num_layers(), self._default_types)
        attention_layers = {layer: self._layer(layer) for layer in dict.fromkeys(layers)}
        unique = {layer: layer for layer in attention_layers.values()}
        return [unique[attention_layers[layer]] for layer in layers]

    def _default_types(self, count: int) -> list[str] | None:
        """Return the types of layers of a configuration without a list, None without a rule."""
        attention = self.attention
        if attention.first is not None:
            first = checks.non_negative_integer(
                attention.first, self.config.require(attention.first)
            )
            first = first if self.config.is_on(attention.switch) else count
            return [("full" if i < first else "sliding") + "_attention" for i in range(count)]
        if attention.types:
            return self.model.types_by_rule(attention.types, count)
        is_uniform = len(attention.layers) == 1 and "" not in attention.layers
        return [*attention.layers] * count if is_uniform else None

    def _kind(self, layer: Layer) -> str:
        """Return the key of a layer's type in `ModelAttention.layers`."""
        layer_types, name = self.attention.layers, self.config.name
        for kind in (str(layer.type), ""):
            if kind in layer_types and layer.type in (None, "full_attention", kind):
                return kind
        if layer.type is None:
            self.config.require("layer_types")
        requirement = f"hold types of layers that {name} has, {sorted(layer_types)}"
        hint = " Pass `config | {'model_type': ...}` with the type of a model that has it."
        if [*layer_types] == [""]:
            requirement = f"be left out for {name}, whose code has one attention for all layers"
        raise wrong_value("layer_types", requirement, repr(layer.type), hint)

    def _layer(self, layer: Layer) -> AttentionLayer | None:
        attention, fields = self.attention, self.attention.layers[self._kind(layer)]
        if fields is None:
            return None
        rule, rope = LayerAttention(**fields), None
        if layer.rotates:
            rope = RoPE(**(self.model.arguments(layer, self.seq_len, self.layout) | self.axes))
        heads = layer.num_heads or self.config.require("num_attention_heads")
        heads = checks.feature_count("num_attention_heads", heads)
        size = self.model.head_size(layer)
        if attention.head is not None:
            size += checks.feature_count(attention.head, self.config.require(attention.head))
        kv_heads = layer.num_kv_heads or self._kv_heads(rule) or heads
        checks.quotient("num_attention_heads", heads, "num_key_value_heads", kv_heads)
        window, mask = self._mask(rule)
        return AttentionLayer(
            heads,
            size,
            num_kv_heads=kv_heads,
            value_size=layer.value_size or self._value_size(heads),
            rope=rope,
            mask=mask,
            bias=self._bias(heads, size),
            scale=self._scale(rope, size),
            softcap=self._number(attention.softcap),
            window=window,
            has_sinks=rule.has_sinks,
            **self.axes,
        )

    def _kv_heads(self, rule: LayerAttention) -> int | None:
        """Return the number of key heads, None if it equals the number of query heads."""
        key = self.config.choose_key(self.attention.kv_heads)
        count = key if isinstance(key, int) else self._number(key)
        if count is None:
            return None
        return rule.kv_times * checks.feature_count("num_key_value_heads", count)

    def _value_size(self, heads: int) -> int | None:
        key = self.attention.value
        if key is None or key in self.values:
            return self._number(key)  # type: ignore[no-any-return]
        hidden = checks.feature_count("hidden_size", self.config.require("hidden_size"))
        return checks.quotient("hidden_size", hidden, "num_attention_heads", heads)

    def _bias(self, heads: int, size: int) -> Bias | None:
        rule = self.attention.alibi
        if rule is None or not self.config.is_on(rule.get("switch")):
            return None
        bias = ALiBiBias(heads)
        return bias * size**-0.5 if rule.get("is_scaled") else bias

    def _number(self, key: str | None) -> Any:
        """Return the value of a key, None if it is missing; the layer checks it."""
        return None if key is None else self.values.get(key)

    def _mask(self, rule: LayerAttention) -> tuple[int | None, Mask | None]:
        """Return the number of keys that a cache must hold, and the mask."""
        flag = self.attention.bidirectional
        is_bidirectional = checks.optional_boolean(str(flag), self._number(flag))
        causal = CausalMask() if self.attention.is_causal and not is_bidirectional else None
        key = rule.chunk or rule.window
        size = self._number(key) if self.config.is_on(self.attention.switch) else None
        if key is None or size is None:
            return None, causal
        size = checks.positive_integer(key, size)
        if rule.before is not None and rule.before in self.values:
            size = checks.non_negative_integer(rule.before, self.values[rule.before]) + 1
        if causal is None:
            side = size if rule.is_of_each_side else size // 2
            return None, SlidingWindowMask(side, side)
        local = SlidingWindowMask(size - 1, 0) if rule.chunk is None else ChunkedMask(size)
        return size, causal | local

    def _scale(self, rope: RoPE | None, size: int) -> float | None:
        """Return the product of all factors on the scores; None for the default."""
        scale: Any = self.attention.scale
        if isinstance(scale, Sequence):
            key, power = scale
            value = self._number(key)
            scale = None if value is None else checks.positive_number(key, value) ** power
        factor = self._number(self.attention.times)
        factor = 1 if factor is None else checks.positive_number(str(self.attention.times), factor)
        scaling = None if rope is None else rope.scaling
        if (
            self.attention.has_mscale
            and isinstance(scaling, YaRNScaling)
            and scaling.mscale_all_dim
        ):
            factor *= yarn_magnitude(scaling.factor, scaling.mscale_all_dim) ** 2
        if scale is None and factor == 1:
            return None
        return float(factor * (size**-0.5 if scale is None else scale))
