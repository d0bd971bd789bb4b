"""What models of Hugging Face do with positions and in attention, by `model_type`.

`facts.json` is written by `.ci/write_models.py`, which runs the models of transformers, and
compares their attention with `AttentionLayer`. `vectors/models.json` has the same for others.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """Which keys a query of a type of layers sees.

    Parameters
    ----------
    window : str, optional
        The configuration's key of the number of newest keys that a query sees, itself among them.
    has_sinks : bool, default False
        Whether each head has a weight that joins the softmax.
    """

    window: str | None = None
    has_sinks: bool = False


class Attention(NamedTuple):
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
        The rule for the types of layers, as `Facts` has it.
    defaults : mapping
        Values that its configuration may leave out.
    scale : number or sequence, optional
        The factor on the scores, or the key and the power of it; ``1 / sqrt(head_size)`` without.
    has_mscale : bool, default False
        Whether YaRN's `mscale_all_dim` multiplies the scores.
    softcap : str, optional
        The key of the bound of the scores.
    kv_heads : str, optional
        The key of the number of heads of keys; as many as of queries without.
    head : str, optional
        The key of the features of a head that do not rotate, which come before the others.
    value : str, optional
        The key of the number of features of a value; as many as of a query without.
    switch : str, optional
        The key that has to be true for any window.
    first : str, optional
        The key of the first layer that has a window, if the configuration lists no types.
    settled : mapping
        Keys that could mean attention, with the value for which it was compared.
    unread : sequence of str
        Keys that could mean attention, and are not read in the code of its layers.
    """

    refused: str | None = None
    is_causal: bool = True
    layers: Mapping[str, Mapping[str, Any] | None] = {}
    types: Mapping[str, Any] | None = None
    defaults: Mapping[str, Any] = {}
    scale: float | Sequence[Any] | None = None
    has_mscale: bool = False
    softcap: str | None = None
    kv_heads: str | None = None
    head: str | None = None
    value: str | None = None
    switch: str | None = None
    first: str | None = None
    settled: Mapping[str, Any] = {}
    unread: Sequence[str] = ()


class Facts(NamedTuple):
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
    ignored : sequence of str
        Rotary parameters that are no part of the rotation.
    types : mapping, optional
        The rule for layers where the configuration lists no types: one in `every` is a `type`,
        layer `at` the first, and the rest are `others`, but for the `last` layer; `key` is the key
        of another period.
    rotates : sequence of str, optional
        The types of layers that rotate, if not the usual ones.
    windowless : sequence of str, optional
        The types of layers that rotate without a sliding window.
    share : bool, default False
        Whether its code reads which share of the features rotates.
    share_keys : sequence of str
        The keys that set that share.
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
        The fields of its `Attention`.
    is_known : bool, default True
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
    ignored: Sequence[str] = ()
    types: Mapping[str, Any] | None = None
    rotates: Sequence[str] | None = None
    windowless: Sequence[str] | None = None
    share: bool = False
    share_keys: Sequence[str] = ("partial_rotary_factor",)
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
    is_known: bool = True


@cache
def models() -> dict[str, dict[str, Any]]:
    """Return what is known of each `model_type`."""
    import json  # noqa: PLC0415 - take long to import
    from importlib import resources  # noqa: PLC0415

    file = resources.files(__package__).joinpath("facts.json")
    return json.loads(file.read_bytes())["models"]  # type: ignore[no-any-return]


def facts_of(model_type: str | None) -> Facts:
    """Return what is known of a `model_type`."""
    known = models().get(str(model_type))
    return Facts(is_known=False) if known is None else Facts(**known)
