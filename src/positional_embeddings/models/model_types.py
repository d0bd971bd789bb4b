"""Rotation and attention of the models of Hugging Face, by `model_type`.

`.ci/write_models.py` writes `model_types.json`: it runs the models of transformers, and compares
their attention with `AttentionLayer`. `vectors/models.json` is the same for other projects.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from positional_embeddings.models import keys


class LayerAttention(NamedTuple):
    """Attention of one type of layers.

    Parameters
    ----------
    window : str, optional
        Key of the configuration for the size of the window: the number of visible keys, including
        the query's position. Without causality, the number of keys on both sides together.
    before : str, optional
        Key for the number of visible keys before the query. It has priority over `window`.
    is_of_each_side : bool, default False
        Whether `window` is the number of keys on each side.
    chunk : str, optional
        Key for the number of positions in a chunk: a query sees the keys of its chunk.
    kv_times : int, default 1
        Default number of key heads, relative to other layers.
    has_sinks : bool, default False
        Whether each head has a sink, the logit of a key without value.
    """

    window: str | None = None
    before: str | None = None
    is_of_each_side: bool = False
    chunk: str | None = None
    kv_times: int = 1
    has_sinks: bool = False


class ModelAttention(NamedTuple):
    """Attention of a model.

    Parameters
    ----------
    refused : str, optional
        Reason why there is no `AttentionLayer`.
    is_causal : bool, default True
        Whether later keys are masked.
    bidirectional : str, optional
        Key of a flag that, if true, makes the attention not causal.
    layers : mapping
        Fields of `LayerAttention` for each type of layers, None for layers without attention. The
        type "" is for models with one type of layers.
    types : mapping, optional
        Rule for the types of layers, as in `ModelType`.
    defaults : mapping
        Default values of the configuration.
    scale : number or sequence, optional
        Factor on the scores, or its key and power; ``1 / sqrt(head_size)`` if missing.
    times : str, optional
        Key for a second factor on the scores.
    has_mscale : bool, default False
        Whether YaRN's `mscale_all_dim` multiplies the scores.
    softcap : str, optional
        Key for the bound of the scores.
    alibi : mapping, optional
        ALiBi is added to the scores if the key `switch` is true. `is_scaled` is whether it is
        multiplied by ``1 / sqrt(head_size)``.
    kv_heads : str or sequence, optional
        Key for the number of key heads; or pairs of a switch and a key or number, of which the
        first with a true switch counts. The number of query heads if missing.
    head : str, optional
        Key for the number of features of a head that do not rotate, before the rotated features.
    value : str, optional
        Key for the number of features of a value, with the default
        ``hidden_size / num_attention_heads``. If this field is missing, the number of features of
        a query.
    switch : str, optional
        Key that must be true for any window.
    first : str, optional
        Key for the first layer with a window, if the configuration lists no types.
    advice : mapping
        Remedies for the keys in `named` with other values.
    """

    refused: str | None = None
    is_causal: bool = True
    bidirectional: str | None = None
    layers: Mapping[str, Mapping[str, Any] | None] = {}
    types: Mapping[str, Any] | None = None
    defaults: Mapping[str, Any] = {}
    scale: float | Sequence[Any] | None = None
    times: str | None = None
    has_mscale: bool = False
    softcap: str | None = None
    alibi: Mapping[str, Any] | None = None
    kv_heads: str | Sequence[Any] | None = None
    head: str | None = None
    value: str | None = None
    switch: str | None = None
    first: str | None = None
    advice: Mapping[str, str] = {}


class ModelType(NamedTuple):
    """Description of a model type.

    Parameters
    ----------
    layout : str, optional
        "half" or "interleaved".
    interleave : bool, default False
        Whether its code reads ``rope_interleave``.
    defaults : mapping
        Default values of the configuration.
    names : mapping
        Keys of the configuration that replace usual keys.
    bases : mapping
        For each type of layers, the default base and the keys that set it.
    scaled : sequence of str
        Types of layers to which ``rope_scaling`` applies.
    base_keys : sequence of str, optional
        Keys that set the base of all layers, if not the usual keys.
    layer_bases : bool, default False
        Whether ``layer_rope_theta`` sets the base of each layer.
    reads : sequence of str
        Keys that the code reads, out of the keys that only some types have: `head_dim`,
        `kv_channels`, `qk_rope_head_dim`, `layer_rope_theta`, `no_rope_layers`,
        `no_rope_layer_interval`, `rotary_emb_base`, `rope_embedding_base`, `rotary_pct`,
        `rope_pct`, `rotary_dim`, `alibi`, `num_attention_heads_per_layer`.
    named : mapping
        Further keys that the code names and that may affect positions or attention, with the
        compared value: None for a missing key, null or false; a list of values; or the key that
        holds the value.
    layer_sizes : mapping
        For each type of layers with other sizes, the keys that replace the usual keys, or pairs of
        a switch and such a key.
    classes : sequence of str
        Prefixes of the names of its classes, if they differ from the type.
    ignored : sequence of str
        Rotary parameters that do not affect rotation.
    more_parameters : mapping
        Additional parameters for types of rotary embeddings.
    rotary_switch : sequence
        Key that switches rotation on or off, and its default value.
    types : mapping, optional
        Rule for the types of layers if the configuration lists none: each layer `offset` + i *
        `period` has the `type`, all further layers the `other_type`, and the final layer the
        `last_type`. `period_key` and `offset_key` are the keys for these numbers, and `flags_key`
        is the key of a list that is false for layers of the `type`.
    rotates : sequence of str, optional
        Types of layers that rotate, if not the usual types.
    windowless : sequence of str, optional
        Types of layers that rotate if there is no sliding window.
    share : bool, default False
        Whether the code reads the share of features that rotate.
    share_keys : sequence of str
        Keys that set the share.
    has_scaling : bool, default True
        Whether the code reads a type of scaling.
    sections : str, optional
        Order of the sections.
    mrope_section : sequence of int, optional
        Default sections.
    axial : mapping, optional
        Number of coordinates, and frequencies.
    optional : bool, default False
        Whether rotation depends on ``position_embedding_type``.
    unrotated : bool, default False
        Whether the model never rotates.
    text, vision : str, optional
        The `model_type` of its text model, and of its vision model if that rotates.
    ask, refused : str, optional
        Reason why `RoPE` needs a `layout`, or why there is none.
    attention : mapping, optional
        Fields of its `ModelAttention`.
    is_listed : bool, default True
        Whether `model_types.json` has the type.
    """

    layout: str | None = None
    interleave: bool = False
    defaults: Mapping[str, Any] = {}
    names: Mapping[str, str] = {}
    bases: Mapping[str, Sequence[Any]] = {}
    scaled: Sequence[str] = ()
    base_keys: Sequence[str] | None = None
    layer_bases: bool = False
    reads: Sequence[str] = ("head_dim",)
    named: Mapping[str, Any] = {}
    layer_sizes: Mapping[str, Mapping[str, Any]] = {}
    classes: Sequence[str] = ()
    ignored: Sequence[str] = ()
    more_parameters: Mapping[str, Sequence[str]] = {}
    rotary_switch: tuple[str, bool] = ("", True)
    types: Mapping[str, Any] | None = None
    rotates: Sequence[str] | None = None
    windowless: Sequence[str] | None = None
    share: bool = False
    share_keys: Sequence[str] = ("partial_rotary_factor",)
    has_scaling: bool = True
    sections: str | None = None
    mrope_section: Sequence[int] | None = None
    axial: Mapping[str, Any] | None = None
    optional: bool = False
    unrotated: bool = False
    text: str | None = None
    vision: str | None = None
    ask: str | None = None
    refused: str | None = None
    attention: Mapping[str, Any] | None = None
    is_listed: bool = True


# Description of an unknown type.
_UNKNOWN = ModelType(
    layer_bases=True,
    reads=keys.READ_BY_SOME,
    layer_sizes={"full_attention": {"head_dim": "global_head_dim"}}
    | {"sliding_attention": {"head_dim": "swa_head_dim"}},
    rotary_switch=("use_rotary_pos_emb", True),
    is_listed=False,
)


@cache
def _load() -> dict[str, Any]:
    import json  # noqa: PLC0415 - take long to import
    from importlib import resources  # noqa: PLC0415

    file = resources.files(__package__).joinpath("model_types.json")
    return json.loads(file.read_bytes())  # type: ignore[no-any-return]


def models() -> dict[str, dict[str, Any]]:
    """Return the fields of the `ModelType` of each type."""
    return _load()["models"]  # type: ignore[no-any-return]


def layer_types() -> dict[str, Any]:
    """Return the names of types of layers, and the keys of their lists.

    `names` holds the types in transformers, and `new_names` maps older names to them. `lists` maps
    keys of lists of types to the types of their entries. `full_lists` maps keys of lists of layers
    with full attention to the type of all further layers and the number of the first layer.
    """
    return _load()["layer_types"]  # type: ignore[no-any-return]


def get_model_type(name: str | None) -> ModelType:
    """Return the description of a `model_type`."""
    fields = models().get(str(name))
    return _UNKNOWN if fields is None else ModelType(**fields)
