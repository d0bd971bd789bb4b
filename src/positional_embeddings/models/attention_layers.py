"""The attention of each layer of a model, as a value, and from a configuration."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.checks import FeatureCount, OptionalPositiveNumber
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, drop_none
from positional_embeddings.arrays.space import Space
from positional_embeddings.attention.attention import Prepared, attend, prepared
from positional_embeddings.attention.rules import Options, Rules
from positional_embeddings.biases.alibi import ALiBiBias
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_position import CausalMask, ChunkedMask, SlidingWindowMask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.models.facts import Attention, Seen
from positional_embeddings.models.hf_config import (
    LAYOUTS,
    Config,
    Layer,
    Model,
    layout_names,
    nested,
    unknown_key,
    without_none,
)
from positional_embeddings.rotary.rope import RoPE
from positional_embeddings.rotary.scaling import YaRNScaling, yarn_magnitude

# So many tokens that a window holds few of them.
_FAR = 2**40


def _optional_value(kind: type, name: str, value: object) -> Any:
    """Check that a field is a value of this library, or None."""
    if not (value is None or isinstance(value, kind)):
        raise wrong_type(name, f"be a `{kind.__name__}` or None", shown(value))
    return value


@dataclass(frozen=True)
class AttentionLayer(checks.CheckedLayer):
    """What the attention of a layer of a model does: rotation, mask, bias, scale and sizes.

    An immutable value, as `attention_layers` makes it from the configuration of a model; the
    projections of queries, keys and values are the caller's.

    Parameters
    ----------
    num_heads : int
        Number of query heads, positive, at most 2**20.
    head_size : int
        Number of features of a query and of a key, positive, at most 2**20.
    num_kv_heads : int, optional
        Number of heads of keys and values, a divisor of `num_heads`, which it equals if None.
    value_size : int, optional
        Number of features of a value, `head_size` if None.
    rope : RoPE, optional
        What rotates queries and keys. If it has fewer features than they, it rotates the last
        ones, as in multi-head latent attention.
    mask : Mask, optional
        What the layer hides; None if each query sees all keys.
    bias : Bias, optional
        What it adds to the scores, such as `ALiBiBias`.
    scale : float, optional
        Factor on the scores, positive; ``1 / sqrt(head_size)`` if None.
    softcap : float, optional
        Bound of the scores, as in `scaled_dot_product_attention`.
    window : int, optional
        Number of newest keys that a cache has to keep, positive; all if None. `mask` has to hide
        the others.
    has_sinks : bool, default False
        Whether each head has a weight that joins the softmax, and is given in each call.
    feature_axis, seq_axis : int, optional
        Axes of features and positions: 0 and 1 by default for arrays of at most three axes, and
        to be given for more: -1 and -2 for ``(batch, heads, seq, head)``. Those of `rope` have
        to be the same.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive or does not fit the others, or `rope` has more features than
        `head_size`, or other axes.

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

    num_heads: FeatureCount
    head_size: FeatureCount
    _: KW_ONLY
    num_kv_heads: Annotated[int | None, checks.optional(checks.feature_count)] = None
    value_size: Annotated[int | None, checks.optional(checks.feature_count)] = None
    rope: Annotated[RoPE | None, partial(_optional_value, RoPE)] = None
    mask: Annotated[Mask | None, partial(_optional_value, Mask)] = None
    bias: Annotated[Bias | None, partial(_optional_value, Bias)] = None
    scale: OptionalPositiveNumber = None
    softcap: OptionalPositiveNumber = None
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
            # What the newest of many tokens sees.
            mask = SlidingWindowMask(None, None) if self.mask is None else self.mask
            seen = mask._reach(((_FAR - 1, _FAR),), _FAR).seen_by_any
            if any(start < _FAR - self.window for start, _ in seen):
                what = f"hide all keys but the {self.window} newest ones (`window`)"
                hint = f" Pass mask=SlidingWindowMask.of({self.window}), or no `window`."
                raise wrong_value("mask", what, shown(self.mask), hint)
        rope = self.rope
        if rope is None:
            return
        if rope.head_size > self.head_size:
            what = f"have at most `head_size` = {self.head_size} features"
            raise wrong_value("rope", what, rope.head_size)
        for name in ("feature_axis", "seq_axis"):
            axis, own = getattr(self, name), getattr(rope, name)
            if axis != own:
                raise wrong_value(name, f"be the `{name}` of `rope`, {own}", shown(axis))

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
            Queries, real floating-point, as they are projected and normalized, without factors
            that `scale` has. With the axes -1 and -2, their shape is (batch, num_heads, seq,
            head_size). If the layer has as many heads of keys as of queries, heads and batch may
            be one axis, as in attention.
        k : array, shape (head_size, seq, num_kv_heads, batch)
            Keys.
        v : array, shape (value_size, seq, num_kv_heads, batch)
            Values.
        positions : array, optional
            Integer positions of the sequence, as a call of `rope` takes them, and below 0 for
            padding; if None, the sequence is counted from 0. Positions of several coordinates
            only rotate: what a query sees then depends on the order of the sequence.
        sinks : array, shape (num_heads,), optional
            Weights of the heads, if the layer `has_sinks`.

        Returns
        -------
        array
            In the layout of `q`, with `value_size` features.

        Raises
        ------
        TypeError, ValueError
            The errors of `RoPE` and of `scaled_dot_product_attention`; if an array does not have
            the features or heads of the layer; if `sinks` are given or left out against
            `has_sinks`.
        """
        self._check_sinks(sinks)
        space = space_of(q=q, k=k, v=v, **drop_none(positions=positions, sinks=sinks))
        checks.real_floating(space.xp, q=q, k=k, v=v)
        self._check("q", q, self.head_size, self.num_heads)
        self._check("k", k, self.head_size, self.num_kv_heads)
        self._check("v", v, self.value_size, self.num_kv_heads)
        own: Any = positions
        if self.rope is not None:
            rotate = partial(self.rope, positions=positions)
            q, k = self._rotated(q, rotate, space), self._rotated(k, rotate, space)
            own = positions if self.rope.sections is None else None
        return attend(*self._prepared(q, k, v, sinks, own), q, k, v)

    def _check(self, name: str, array: Array, size: int | None, heads: int | None) -> None:
        """Check the numbers of features and of heads of an array."""
        feature, seq = axes.feature_and_seq_axis(
            self.feature_axis, self.seq_axis, array, name, "Make the layer with"
        )
        wanted: dict[int, tuple[int | None, str]] = {feature: (size, "features")}
        if array.ndim == 4:
            head: Any = axes.head_axis(4, feature, seq)
            wanted[head] = (heads, "heads")
        for axis, (count, what) in wanted.items():
            if checks.known_to_differ(array.shape[axis], count):
                came = f"shape {tuple(array.shape)}"
                raise wrong_value(name, f"have {count} {what} on axis {axis}", came)

    def _rotated(self, x: Array, rotate: Callable[[Array], Array], space: Space) -> Array:
        """Return what `rope`, or tables of it, makes of the features that rotate."""
        size = self.head_size if self.rope is None else self.rope.head_size
        if size == self.head_size:
            return rotate(x)
        feature, _ = axes.feature_and_seq_axis(self.feature_axis, self.seq_axis, x)
        before: list[slice] = [slice(None)] * x.ndim
        last = [*before]
        before[feature], last[feature] = slice(None, -size), slice(-size, None)
        return space.xp.concat([x[tuple(before)], rotate(x[tuple(last)])], axis=feature)

    def _check_sinks(self, sinks: Array) -> None:
        """Check that sinks are given as `has_sinks` says."""
        if self.has_sinks is (sinks is None):
            what = "be given, of shape (num_heads,)" if self.has_sinks else "be left out"
            raise wrong_value("sinks", f"{what}, as `has_sinks` is {self.has_sinks}", shown(sinks))

    def _prepared(
        self, q: Array, k: Array, v: Array, sinks: Array, positions: Any, *, is_kept: bool = False
    ) -> Prepared:
        """Check an attention of queries and keys that are rotated, and return what computes it."""
        of_scores = self.mask, self.bias, self.scale, self.softcap
        rules = Rules(*of_scores, positions=positions, sinks=sinks)
        options = Options(self.feature_axis, self.seq_axis, self.num_kv_heads != self.num_heads)
        return prepared(q, k, v, rules, options, is_kept=is_kept)


def attention_layers(
    config: Config,
    seq_len: int | None = None,
    *,
    layout: str | None = None,
    feature_axis: int | None = None,
    seq_axis: int | None = None,
) -> list[AttentionLayer | None]:
    """Return the attention of each layer of a model from its Hugging Face ``config.json``.

    What a layer computes is what the code of transformers computes from the same queries, keys
    and values, as they are before it rotates: a program compared it for each model type. A type
    for which it is not known is refused, as are keys that could change it and are not known.

    Parameters
    ----------
    config : dict or path
        The configuration, its file, or the folder of it, as `RoPE.from_hf_config` takes it, with
        the number of layers. What it leaves out is as in transformers. Of a model for text and
        images its text is read, where a mask for the tokens of images is the caller's.
    seq_len : int, optional
        Number of positions in the tables, as for `RoPE.from_hf_config`.
    layout : {"half", "interleaved"}, optional
        Layout of the queries and keys, if the weights have another one than the model in
        transformers: "interleaved" for a Llama in the GGUF format.
    feature_axis, seq_axis : int, optional
        Axes of features and positions, as for `AttentionLayer`.

    Returns
    -------
    list of AttentionLayer or None
        One a layer. Layers that are alike share one; a layer without attention, such as a state
        space model's, is None.

    Raises
    ------
    TypeError
        If the configuration is no dict, or a number or a flag in it is of another kind.
    ValueError
        If the attention of the model is not known, or a key or a value of the configuration that
        could change it, or if `layout` is neither. The message says what to do instead.

    See Also
    --------
    RoPE.layers_from_hf_config : The rotary embeddings alone, of more model types.

    Examples
    --------
    Gemma 2 sees 4,096 keys in every other layer, and bounds its scores:

    >>> layers = attention_layers({"model_type": "gemma2", "num_hidden_layers": 4}, 8192)
    >>> [layer.window for layer in layers]
    [4096, None, 4096, None]
    >>> layers[0].scale, layers[0].softcap
    (0.0625, 50.0)
    """
    if layout is not None:
        checks.choice("layout", layout, LAYOUTS)
    axes = {"feature_axis": feature_axis, "seq_axis": seq_axis}
    return _Reader(Model(config, must_rotate=False), seq_len, layout, axes).layers()


class _Reader:
    """What a configuration says of the attention of its model."""

    def __init__(
        self, model: Model, seq_len: int | None, layout: str | None, axes: dict[str, Any]
    ) -> None:
        self.model, self.facts = model, model.attention
        self.seq_len, self.layout, self.axes = seq_len, layout, axes
        published = {**model.published, **nested(model.published)}
        self.values = without_none({**self.facts.defaults, **published})
        self._check_keys(published)

    def layers(self) -> list[AttentionLayer | None]:
        layers = self.model.layers(self.model.count(), self._types)
        made = {layer: self._layer(layer) for layer in dict.fromkeys(layers)}
        alike = {layer: layer for layer in made.values()}
        return [alike[made[layer]] for layer in layers]

    def _types(self, count: int) -> list[str] | None:
        """Return the types of layers where the configuration lists none, if there is a rule."""
        facts = self.facts
        if facts.first is not None:
            first = checks.non_negative_integer(facts.first, self._needed(facts.first))
            first = first if self._is_on(facts.switch) else count
            return [("full" if i < first else "sliding") + "_attention" for i in range(count)]
        if facts.types:
            return self.model.types_by(facts.types, count)
        return (
            [*facts.layers] * count if len(facts.layers) == 1 and "" not in facts.layers else None
        )

    def _is_on(self, switch: str | None) -> bool:
        return switch is None or checks.boolean(switch, self._needed(switch))

    def _kind(self, layer: Layer) -> str:
        """Return what the facts call the type of a layer."""
        known = self.facts.layers
        for kind in (str(layer.type), ""):
            if kind in known and layer.type in (None, "full_attention", kind):
                return kind
        if layer.type is None:
            self.model.needed("layer_types")
        what = f"hold types of layers that {self.model.name} has, {sorted(known)}"
        hint = " Pass `config | {'model_type': ...}` with the type of a model that has it."
        if [*known] == [""]:
            what = f"be left out for {self.model.name}, whose code has one attention for all layers"
        raise wrong_value("layer_types", what, repr(layer.type), hint)

    def _layer(self, layer: Layer) -> AttentionLayer | None:
        facts, seen = self.facts, self.facts.layers[self._kind(layer)]
        if seen is None:
            return None
        rule, rope = Seen(**seen), None
        if layer.rotates:
            rope = RoPE(**(self.model.arguments(layer, self.seq_len, self.layout) | self.axes))
        heads = layer.num_heads or self.model.needed("num_attention_heads")
        heads = checks.feature_count("num_attention_heads", heads)
        size = self.model.head_size(layer)
        if facts.head is not None:
            size += checks.feature_count(facts.head, self._needed(facts.head))
        kv_heads = layer.num_kv_heads or self._kv_heads(rule) or heads
        checks.quotient("num_attention_heads", heads, "num_key_value_heads", kv_heads)
        window, mask = self._mask(rule)
        return AttentionLayer(
            heads,
            size,
            num_kv_heads=kv_heads,
            value_size=self._value_size(heads),
            rope=rope,
            mask=mask,
            bias=self._bias(heads, size),
            scale=self._scale(rope, size),
            softcap=self._number(facts.softcap),
            window=window,
            has_sinks=rule.has_sinks,
            **self.axes,
        )

    def _kv_heads(self, rule: Seen) -> int | None:
        """Return the number of heads of keys, None if there are as many as of queries."""
        own, count = (self._chosen(key) for key in (rule.kv_heads, self.facts.kv_heads))
        if own is not None or count is None:
            return own  # type: ignore[no-any-return]
        return rule.kv_times * checks.feature_count("num_key_value_heads", count)

    def _chosen(self, key: Any) -> Any:
        """Return the number of a key, or of the first pair whose switch is true."""
        if isinstance(key, Sequence) and not isinstance(key, str):
            key = next((number for switch, number in key if self._is_on(switch)), None)
        return key if isinstance(key, int) else self._number(key)

    def _value_size(self, heads: int) -> int | None:
        key = self.facts.value
        if key is None or key in self.values:
            return self._number(key)  # type: ignore[no-any-return]
        hidden = checks.feature_count("hidden_size", self.model.needed("hidden_size"))
        return checks.quotient("hidden_size", hidden, "num_attention_heads", heads)

    def _bias(self, heads: int, size: int) -> Bias | None:
        rule = self.facts.alibi
        if rule is None or not self._is_on(rule.get("switch")):
            return None
        bias = ALiBiBias(heads)
        return bias * size**-0.5 if rule.get("is_scaled") else bias

    def _needed(self, key: str) -> Any:
        """Return a value that the configuration has, or its class by default; an error without."""
        return self.values[key] if key in self.values else self.model.needed(key)

    def _number(self, key: str | None) -> Any:
        """Return the value of a key, None without; the layer checks it."""
        return None if key is None else self.values.get(key)

    def _mask(self, rule: Seen) -> tuple[int | None, Mask | None]:
        """Return the keys that a cache has to keep, and the mask."""
        causal = CausalMask() if self.facts.is_causal else None
        key = rule.chunk or rule.window
        number = self._number(key) if self._is_on(self.facts.switch) else None
        if key is None or number is None:
            return None, causal
        number = checks.positive_integer(key, number)
        if rule.before is not None and rule.before in self.values:
            number = checks.non_negative_integer(rule.before, self.values[rule.before]) + 1
        if causal is None:
            side = number if rule.is_of_each_side else number // 2
            return None, SlidingWindowMask(side, side)
        inner = SlidingWindowMask(number - 1, 0) if rule.chunk is None else ChunkedMask(number)
        return number, causal | inner

    def _scale(self, rope: RoPE | None, size: int) -> float | None:
        """Return the factor on the scores, with all that the code of the model multiplies."""
        scale: Any = self.facts.scale
        if isinstance(scale, Sequence):
            key, power = scale
            given = self._number(key)
            scale = None if given is None else checks.positive_number(key, given) ** power
        times = self._number(self.facts.times)
        times = 1 if times is None else checks.positive_number(str(self.facts.times), times)
        scaling = None if rope is None else rope.scaling
        if self.facts.has_mscale and isinstance(scaling, YaRNScaling) and scaling.mscale_all_dim:
            times *= yarn_magnitude(scaling.factor, scaling.mscale_all_dim) ** 2
        if scale is None and times == 1:
            return None
        return float(times * (size**-0.5 if scale is None else scale))

    def _check_keys(self, published: Mapping[str, Any]) -> None:
        """Refuse keys that could mean positions or attention, and are not known of the model."""
        facts, model = self.facts, self.model
        read = {*facts.unread, *model.known_keys(), *keys_of(facts), *_OF_OTHERS}
        settled = {**_HARMLESS, **facts.settled}
        for key, value in {**facts.defaults, **published}.items():
            if key in read or not (key in settled or MEANS_ATTENTION.search(key)):
                continue
            usual = ("absolute",) if model.facts.unrotated else layout_names(model.facts.layout)
            if key == "position_embedding_type" and value in usual:
                continue
            if KV_HEADS.search(key) and value == model.config.get("num_attention_heads"):
                continue
            if key not in settled:
                raise unknown_key(key, value, model.name, "attention")
            if value != settled[key]:
                what = f"be {settled[key]!r}, with which {model.name} was compared"
                advice = facts.advice.get(key, "With another value make layers by hand.")
                raise wrong_value(key, what, shown(value), f" {advice}")


def keys_of(facts: Attention) -> set[str]:
    """Return the keys that facts read, with other words of their rules."""
    rules = facts._replace(refused=None, defaults={}, settled={}, advice={}, unread=())
    return set(re.findall("'([^']*)'", repr(rules)))


# What a key is called that could mean positions or attention.
MEANS_ATTENTION = re.compile(
    "^(?!.*(moe|router|mamba|linear_.*head)).*(rotary|rope|alibi|position|relative_|rel_pos|window"
    "|sink|scale|scalar|soft_?cap|logits?_cap|interleave|ntk|logn|causal|bidirectional|is_decoder"
    "|prefix_lm|k_eq_v|kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query|head_dim"
    "|kv_channels|attention_head_size|temperature_tuning|use_nope|index_topk|compress_ratio"
    "|sparse_(att|config)|local_att|chunked_att|attn_layer_|attn_every|full_attn_(idx|layers)"
    "|att(ention|n)_(chunk|interval|temp|types?)|(att(ention|n)|key|qk|query)_multiplier"
    "|(att(ention|n)|key|layer|log|qk|query|softmax)_scaling"
    "|^(attention_heads|head_size|n_heads?|n_layers?|num_heads)$)"
)
# What a key is called that has the number of heads of keys: if it is that of queries, no code has
# to read it.
KV_HEADS = re.compile("kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query_group")
# Values in old configurations of all types that change nothing where no code reads them.
_HARMLESS = {"is_decoder": False, "scale_attn_weights": True, "sliding_window": None}
# Keys that say nothing of attention: how long a text is that a runtime serves, and one of BLOOM's.
_OF_OTHERS = ("context_window_size", "offset_alibi")
