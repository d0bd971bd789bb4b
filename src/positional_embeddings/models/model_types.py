"""What models of Hugging Face do with positions and in attention, by `model_type`.

`model_types.json` is written by `.ci/write_models.py`, which runs the models of transformers, and
compares their attention with `AttentionLayer`. `vectors/models.json` has the same for others.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from positional_embeddings.models import keys


class LayerAttention(NamedTuple):
    """Which keys a query of a type of layers sees.

    Parameters
    ----------
    window : str, optional
        The configuration's key of the number of newest keys that a query sees, itself among them;
        without causality, of the keys that it sees in all, or on each side.
    before : str, optional
        The key of the number of keys before the query's own, which counts if it is there.
    is_of_each_side : bool, default False
        Whether it is the number on each side.
    chunk : str, optional
        The key of the number of positions in a chunk: a query sees the keys of its own chunk.
    kv_times : int, default 1
        How many times as many heads of keys as other layers it has, if the configuration says
        nothing of it.
    has_sinks : bool, default False
        Whether each head has a weight that joins the softmax.
    """

    window: str | None = None
    before: str | None = None
    is_of_each_side: bool = False
    chunk: str | None = None
    kv_times: int = 1
    has_sinks: bool = False


class ModelAttention(NamedTuple):
    """What the attention of a model does.

    Parameters
    ----------
    refused : str, optional
        Why no `AttentionLayer` is made.
    is_causal : bool, default True
        Whether a query sees no later keys.
    layers : mapping
        For each type of layers what its queries see, None if it has no attention; the type "" is
        for models whose configuration does not tell layers apart.
    types : mapping, optional
        The rule for the types of layers, as `ModelType` has it.
    defaults : mapping
        Values that its configuration may leave out.
    scale : number or sequence, optional
        The factor on the scores, or the key and the power of it; ``1 / sqrt(head_size)`` without.
    times : str, optional
        The key of a further factor on the scores.
    has_mscale : bool, default False
        Whether YaRN's `mscale_all_dim` multiplies the scores.
    softcap : str, optional
        The key of the bound of the scores.
    alibi : mapping, optional
        If ALiBi is added to the scores: the key `switch` that has to be true for it, and whether
        it `is_scaled` by ``1 / sqrt(head_size)``.
    kv_heads : str or sequence, optional
        The key of the number of heads of keys; or pairs of a switch, and the key or the number that
        holds if it is the first that is true. As many as of queries without.
    head : str, optional
        The key of the features of a head that do not rotate, which come before the others.
    value : str, optional
        The key of the number of features of a value, which is ``hidden_size / num_attention_heads``
        if the configuration does not have it; as many as of a query without.
    switch : str, optional
        The key that has to be true for any window.
    first : str, optional
        The key of the first layer that has a window, if the configuration lists no types.
    advice : mapping
        What to do where one of the keys that are `named` has another value.
    """

    refused: str | None = None
    is_causal: bool = True
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
    """What is known of a model type.

    Parameters
    ----------
    layout : str, optional
        "half" or "interleaved".
    interleave : bool, default False
        Whether its code reads ``rope_interleave``.
    defaults : mapping
        Values that its configuration may leave out.
    names : mapping
        The keys that its configuration has in place of the usual ones.
    bases : mapping
        For each type of layers the default of its base, and the keys that set it.
    scaled : sequence of str
        The types of layers that ``rope_scaling`` is for.
    base_keys : sequence of str, optional
        The keys that set the base of all layers, if not the usual ones.
    own_bases : bool, default False
        Whether ``layer_rope_theta`` sets the base of each layer.
    reads : sequence of str
        Which of the keys that only some types have its code reads: `head_dim`, `kv_channels`,
        `qk_rope_head_dim`, `layer_rope_theta`, `no_rope_layers`, `no_rope_layer_interval`,
        `rotary_emb_base`, `rope_embedding_base`, `rotary_pct`, `rope_pct`, `rotary_dim`, `alibi`,
        `num_attention_heads_per_layer`.
    named : mapping
        The other keys that its code names and that could mean positions or attention, with the
        value with which it was compared: None where it may be left out, null or false, a list of
        values, or the key that has the value.
    own : mapping
        For each type of layers that has sizes of its own, the keys of them in place of the usual
        ones, or pairs of a switch and such a key.
    classes : sequence of str
        How the names of its classes begin, if not like the type.
    ignored : sequence of str
        Rotary parameters that are no part of the rotation.
    more_parameters : mapping
        Further parameters of types of rotary embeddings.
    rotary_switch : sequence
        The key that switches rotation on or off, if there is one, and its usual value.
    types : mapping, optional
        The rule for layers where the configuration lists no types: one in `every` is a `type`,
        layer `at` the first, and the rest are `others`, but for the `last` layer; `key` and
        `at_key` are the keys of another period, and of another first one, and `flags` is the key
        of a list that is false for layers that are a `type`.
    rotates : sequence of str, optional
        The types of layers that rotate, if not the usual ones.
    windowless : sequence of str, optional
        The types of layers that rotate without a sliding window.
    share : bool, default False
        Whether its code reads which share of the features rotates.
    share_keys : sequence of str
        The keys that set that share.
    has_scaling : bool, default True
        Whether its code reads a type of scaling.
    sections : str, optional
        The order of sections.
    mrope_section : sequence of int, optional
        The sections, if the configuration has none.
    axial : mapping, optional
        The number of coordinates, and the frequencies.
    optional : bool, default False
        Whether it rotates only if ``position_embedding_type`` says so.
    unrotated : bool, default False
        Whether it does not rotate at all.
    text, vision : str, optional
        The `model_type` of its text model, and of its model of images if that rotates.
    ask, refused : str, optional
        Why no `RoPE` is made without a `layout`, or at all.
    attention : mapping, optional
        The fields of its `ModelAttention`.
    is_listed : bool, default True
        Whether anything is known of the type.
    """

    layout: str | None = None
    interleave: bool = False
    defaults: Mapping[str, Any] = {}
    names: Mapping[str, str] = {}
    bases: Mapping[str, Sequence[Any]] = {}
    scaled: Sequence[str] = ()
    base_keys: Sequence[str] | None = None
    own_bases: bool = False
    reads: Sequence[str] = ("head_dim",)
    named: Mapping[str, Any] = {}
    own: Mapping[str, Mapping[str, Any]] = {}
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


# What is read of an unknown type.
_UNKNOWN = ModelType(
    own_bases=True,
    reads=keys.READ_BY_SOME,
    own={"full_attention": {"head_dim": "global_head_dim"}}
    | {"sliding_attention": {"head_dim": "swa_head_dim"}},
    rotary_switch=("use_rotary_pos_emb", True),
    is_listed=False,
)


@cache
def _file() -> dict[str, Any]:
    import json  # noqa: PLC0415 - take long to import
    from importlib import resources  # noqa: PLC0415

    file = resources.files(__package__).joinpath("model_types.json")
    return json.loads(file.read_bytes())  # type: ignore[no-any-return]


def models() -> dict[str, dict[str, Any]]:
    """Return what is known of each `model_type`."""
    return _file()["models"]  # type: ignore[no-any-return]


def layer_types() -> dict[str, Any]:
    """Return what is known of types of layers.

    That is the types in transformers (`known`), their names for older ones (`new_names`), the keys
    of lists of types, with what their entries mean if they are no types (`lists`), and the keys of
    lists of the layers with full attention, with the type of the others and the number of the first
    layer (`full_lists`).
    """
    return _file()["layer_types"]  # type: ignore[no-any-return]


def get_model_type(name: str | None) -> ModelType:
    """Return the description of a `model_type`."""
    fields = models().get(str(name))
    return _UNKNOWN if fields is None else ModelType(**fields)
