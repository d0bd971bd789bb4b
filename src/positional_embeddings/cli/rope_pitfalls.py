"""What is easily done wrong with the rotary embedding of a model."""

import math
from collections.abc import Iterator
from typing import Any

import positional_embeddings as pe
from positional_embeddings.rotary import hf_models
from positional_embeddings.rotary.hf_config import Values, layer_types


def pitfalls(rope: pe.RoPE, config: Values, layer_type: str | None) -> list[str]:
    """Return sentences about the embedding of a type of layers."""
    notes = [*_about_layers(rope, config, layer_type), *_about_lengths(rope, config)]
    notes += _about_factors(rope)
    return [" ".join(note.split()) for note in notes]


def _about_layers(rope: pe.RoPE, config: Values, layer_type: str | None) -> Iterator[str]:
    rotated = rope.rotary_dim or rope.head_size
    if rope.layout == "half":
        yield f"""Features i and i + {rotated // 2} form a pair. Weights of queries and keys that
            were made for pairs of neighbours, as Meta's own files of Llama are, have to be put into
            this order: convert_layout."""
    else:
        yield """Features 2i and 2i + 1 form a pair. Code that rotates halves (rotate_half) raises
            no error and gives wrong scores: convert_layout puts weights into the other order."""
    if rope.rotary_dim is not None:
        yield f"""Only the first {rotated} of {rope.head_size} features are rotated; the others pass
            as they are."""
    if "qk_rope_head_dim" in config:
        yield f"""These {rope.head_size} features are the rotated part of a head: keep them apart
            from those without a position (qk_nope_head_dim)."""
    if rope.sections is not None:
        yield f"""A position has {len(rope.sections)} coordinates, which rotate
            {", ".join(map(str, rope.sections))} pairs ({rope.section_order}): pass positions with a
            leading axis. In plain text all coordinates are equal."""
    others = ", ".join(name for name in layer_types(config) if name != layer_type)
    if others:
        yield f"""Layers of another type ({others}) have parameters of their own: one RoPE for each
            type."""
    if config.get("model_type") in hf_models.FULL_WITHOUT:
        yield """Layers of full attention do not rotate where the model has layers of another
            attention, too."""
    if "no_rope_layers" in config or "no_rope_layer_interval" in config:
        yield "Some layers do not rotate: see no_rope_layers or no_rope_layer_interval."


def _about_lengths(rope: pe.RoPE, config: Values) -> Iterator[str]:
    longest, scaling = config.get("max_position_embeddings"), rope.scaling
    original: Any = getattr(scaling, "original_max_position", None)
    factor: Any = getattr(scaling, "factor", None)
    if isinstance(scaling, pe.DynamicNTKScaling):
        yield f"""Beyond {original:,} positions the frequencies change with the length: build a RoPE
            for each length, and rotate cached keys anew."""
        return
    if isinstance(scaling, pe.LongRoPEScaling):
        used = "long" if rope.seq_len > original else "short"
        yield f"""Sequences of more than {original:,} positions have other divisors than shorter
            ones: these are the {used} ones, for {rope.seq_len:,}. Keys that were cached before the
            sequence grew past that length do not fit."""
    elif isinstance(scaling, pe.LinearScaling):
        yield """Configurations with linear scaling do not say whether max_position_embeddings is
            the length before or after it."""
    elif None not in (original, factor, longest) and round(factor * original) != longest:
        yield f"""The factor {factor:g} times the original {original:,} positions is
            {round(factor * original):,}, while max_position_embeddings is {longest:,}; the
            frequencies follow the factor."""
    if longest is not None and rope.seq_len > longest:
        yield f"""The configuration is for {longest:,} positions: the model has not seen those
            beyond, up to {rope.seq_len:,}."""
    if original is not None and not isinstance(scaling, pe.LongRoPEScaling):
        yield f"The scaling also holds for sequences shorter than the original {original:,}."


def _about_factors(rope: pe.RoPE) -> Iterator[str]:
    factor = rope.attention_factor
    if factor != 1:
        yield f"""Cosine and sine are multiplied by {factor:.4g}: queries and keys both, so that
            products of rotated features grow by {factor * factor:.4g}. RoPE does it; code that
            takes its own cosine and sine has to."""
    every, extension = (getattr(rope.scaling, name, None) for name in ("mscale_all_dim", "factor"))
    if every and extension and extension > 1:
        grown = 0.1 * every * math.log(extension) + 1
        yield f"""Models with mscale_all_dim also multiply their scores by {grown * grown:.4g},
            which is no part of the rotation: multiply the `scale` of the attention by it."""
