"""Explain the rotary embedding of a model from its Hugging Face config.json.

Which features are rotated, how fast, to which length angles are exact, and what is easily done
wrong. A wavelength is the number of positions after which a pair of features has made a full cycle.
Pairs with wavelengths longer than the context never complete one: they tell positions apart by
their order; an extension of the context stretches them.

For example:
  positional-embeddings rope config.json
  positional-embeddings rope path/to/model --context 32768
  positional-embeddings rope gemma/config.json --layer-type sliding_attention
  cat config.json | positional-embeddings rope -
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import positional_embeddings as pe
from positional_embeddings.arrays.namespace import HostArray, np
from positional_embeddings.cli.terminal import Answer, CommandError, Parser, table, wrapped
from positional_embeddings.models.configuration import from_json, read_config
from positional_embeddings.models.hf_config import Model
from positional_embeddings.rotary.scaling import type_of

# Up to here float32 tables are within half a unit in the last place.
_EXACT_POSITIONS = 2**31

# What is known of a configuration or an embedding, by name.
Facts: TypeAlias = Mapping[str, Any]

# The first error of an angle in float32 above so many radians is looked for, at so many positions.
_LARGE_ERROR = 1e-3
_POSITIONS_SEARCHED = 2**20
_POSITIONS_OF_A_BLOCK = 2**13


SUMMARY = "explain the rotary embedding of a Hugging Face config.json"


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command to its parser."""
    add = parser.add_argument
    what = "a config.json of Hugging Face, a folder that has one, or - for stdin"
    add("config", metavar="CONFIG", help=what)
    add("--layer-type", metavar="TYPE", help="layers of one type only, such as sliding_attention")
    what = "number of positions (default: max_position_embeddings)"
    add("--context", dest="seq_len", type=int, metavar="N", help=what)
    what = "the layout of the weights (default: that of the model's own code)"
    add("--layout", choices=("half", "interleaved"), help=what)


def run(arguments: argparse.Namespace) -> Answer:
    """Explain the rotary embeddings of a configuration."""
    config = _load_config(arguments.config)
    ropes = _ropes_of(config, arguments)
    embeddings = [_explain(name, rope, config) for name, rope in ropes.items()]
    return Answer("\n\n".join(map(_text, embeddings)), {"embeddings": embeddings})


def _load_config(path: str) -> Facts:
    """Return the configuration of a file, of a folder, or of the standard input."""
    if path != "-":
        return read_config(path)
    if sys.stdin is None:
        raise CommandError("the standard input is closed")
    return read_config(from_json(sys.stdin.buffer.read(), "the standard input"))


def _ropes_of(config: Facts, arguments: argparse.Namespace) -> dict[str | None, pe.RoPE]:
    """Return the embedding of each type of layers that is asked for."""
    layer_type, layout = arguments.layer_type, arguments.layout
    seq_len = arguments.seq_len
    if seq_len is None:
        seq_len = config.get("max_position_embeddings")
    if layer_type is not None:
        rope = pe.RoPE.from_hf_config(config, seq_len, layer_type=layer_type, layout=layout)
        return {layer_type: rope}
    model = Model(config)
    layers = [layer for layer in model.layers() if layer.rotates]
    ropes = {x.type: pe.RoPE(**model.arguments(x, seq_len, layout)) for x in layers}
    return ropes if len(set(ropes.values())) > 1 else {None: next(iter(ropes.values()))}


def _explain(layer_type: str | None, rope: pe.RoPE, config: Facts) -> Facts:
    """Return the facts about an embedding."""
    if not np.any(rope.inv_freq):
        raise CommandError("the configuration rotates no pair of features")
    unscaled = replace(rope, scaling=None)
    original = getattr(rope.scaling, "original_max_position", None)
    rotated = rope.rotary_dim or rope.head_size
    is_scaled = ~np.isclose(rope.inv_freq, unscaled.inv_freq, rtol=1e-9, atol=0)
    at_end, first = float32_angle_errors(rope.inv_freq, rope.seq_len)
    notes = [*_about_layers(rope, config, layer_type), *_about_lengths(rope, config)]
    notes += _about_factors(rope)
    return {
        "model_type": config.get("model_type"),
        "layer_type": layer_type,
        "rope_type": type_of(rope.scaling),
        "layout": rope.layout,
        "head_size": rope.head_size,
        "rotated_features": rotated,
        "pairs": rotated // 2,
        "base": rope.base,
        "context": rope.seq_len,
        "original_context": original,
        "wavelengths": _wavelengths(rope, rope.seq_len),
        "wavelengths_unscaled": _wavelengths(unscaled, original or rope.seq_len),
        "pairs_scaled": int(np.sum(is_scaled)),
        "attention_factor": rope.attention_factor,
        "exact_up_to": _EXACT_POSITIONS,
        "float32_angles_error_in_context": at_end,
        "float32_angles_fail_from": first,
        "pitfalls": [" ".join(note.split()) for note in notes],
    }


def _wavelengths(rope: pe.RoPE, context: int) -> Facts:
    """Return the shortest and the longest wave in positions, and how many fit into a context."""
    waves = 2 * math.pi / rope.inv_freq[rope.inv_freq > 0]
    return {
        "shortest": float(waves.min()),
        "longest": float(waves.max()),
        "not_rotated": rope.inv_freq.size - waves.size,
        "context": context,
        "full_cycles": int(np.sum(waves <= context)),
    }


def float32_angle_errors(frequencies: HostArray, context: int) -> tuple[float, int | None]:
    """Return by how much angles err that are products in float32.

    Parameters
    ----------
    frequencies : array of float64, shape (pairs,)
        Frequencies in radians per position, which are rounded to float32.
    context : int
        Number of positions.

    Returns
    -------
    largest : float
        The largest error of the last 8,192 positions of the context, in radians: errors grow
        with the position.
    first : int or None
        The first position with an error above 1e-3, None if there is none below 2**20.
    """
    last = np.arange(max(0, context - _POSITIONS_OF_A_BLOCK), context)
    largest = float(_errors(frequencies, last).max())
    for start in range(0, _POSITIONS_SEARCHED, _POSITIONS_OF_A_BLOCK):
        bad = _errors(frequencies, np.arange(start, start + _POSITIONS_OF_A_BLOCK)) > _LARGE_ERROR
        if bad.any():
            return largest, start + int(bad.argmax())
    return largest, None


def _errors(frequencies: HostArray, positions: HostArray) -> HostArray:
    """Return the largest error of the pairs at each position; infinite where float32 is."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = positions.astype(np.float32)[:, None] * frequencies.astype(np.float32)
        exact = positions.astype(np.float64)[:, None] * frequencies
        errors = np.abs(single - exact).max(axis=1)
    return np.where(np.isnan(errors), math.inf, errors)  # type: ignore[no-any-return]


def _text(facts: Facts) -> str:
    pairs, head, rotated = facts["pairs"], facts["head_size"], facts["rotated_features"]
    original, factor = facts["original_context"], facts["attention_factor"]
    scaled = facts["rope_type"] != "default"
    members = f"i and i + {pairs}" if facts["layout"] == "half" else "2i and 2i + 1"
    extended = f", extended from {original:,}" if original and original < facts["context"] else ""
    # Half the distance of float32 numbers just below the largest of the tables.
    half_unit = 2.0 ** (math.ceil(math.log2(factor)) - 25)
    times = " times the attention factor" if factor != 1 else ""
    of_scaling = " of the float64 frequencies of this scaling" if scaled else ""
    first, at_end = facts["float32_angles_fail_from"], facts["float32_angles_error_in_context"]
    fails = f"not above 0.001 at the first {_POSITIONS_SEARCHED:,} positions"
    if first is not None:
        fails = f"first above 0.001 at position {first:,}"
    waves = _waves_text(facts["wavelengths_unscaled"], pairs)
    rows = {
        "model": f"{facts['model_type'] or 'not named'}; "
        f"layers: {facts['layer_type'] or 'all that rotate'}",
        "type": facts["rope_type"] if scaled else "default, without scaling",
        "layout": f"{facts['layout']}: features {members} form a pair",
        "head": f"{head} features, {'all' if rotated == head else rotated} of them rotated, "
        f"in {_count(pairs)}",
        "base": f"{facts['base']:,.12g}",
        "context": f"{facts['context']:,} positions{extended}",
        "wavelengths": f"{waves}, before scaling" if scaled else waves,
        "scaled": f"{_waves_text(facts['wavelengths'], pairs)}; "
        f"{_count(pairs - facts['pairs_scaled'])} as before",
        "attention factor": f"{factor:.6g}",
        "exact": f"""to position {_EXACT_POSITIONS:,} (2^31): float32 tables of this library are
            within {half_unit:.2g} of cosine and sine{times}{of_scaling}, half a unit in the last
            place""",
        "float32 angles": f"""products of a position and a rounded frequency in float32 err by up to
            {at_end:.2g} radians at the end of the context, {fails}; code that also computes its
            frequencies in float32, as most does, may err more""",
    }
    if not scaled:
        del rows["scaled"]
    notes = [wrapped(note, "- ") for note in facts["pitfalls"]]
    facts_table = table([(f"{name}:", row) for name, row in rows.items()])
    return "\n".join([facts_table, "", "pitfalls:", *notes])


def _count(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs:,} pairs"


def _waves_text(waves: Facts, pairs: int) -> str:
    longest = waves["longest"]
    longest = f"{longest:,.0f}" if 1000 <= longest < 1e15 else f"{longest:.4g}"
    still = f", {waves['not_rotated']} not rotated" if waves["not_rotated"] else ""
    return (
        f"{waves['shortest']:,.4g} to {longest} positions; "
        f"{waves['full_cycles']} of {pairs} fit into {waves['context']:,}{still}"
    )


# What is easily done wrong.


def _about_layers(rope: pe.RoPE, config: Facts, layer_type: str | None) -> Iterator[str]:
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
    model = Model(config)
    if rope.sections is not None:
        where = "In plain text all coordinates are equal."
        if model.facts.axial:
            where = "They are places of patches in an image: grid_positions."
        yield f"""A position has {len(rope.sections)} coordinates, which rotate
            {", ".join(map(str, rope.sections))} pairs ({rope.section_order}): pass positions with a
            leading axis. {where}"""
    types = model.facts.bases or model.labels
    others = ", ".join(name for name in types if name != layer_type)
    if others:
        yield f"""Layers of another type ({others}) have parameters of their own: one RoPE for each
            type."""
    if not all(layer.rotates for layer in model.layers()):
        yield """Some layers do not rotate: RoPE.layers_from_hf_config has None for them."""


def _about_lengths(rope: pe.RoPE, config: Facts) -> Iterator[str]:
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
    mscale, extension = (getattr(rope.scaling, name, None) for name in ("mscale_all_dim", "factor"))
    if mscale and extension and extension > 1:
        grown = 0.1 * mscale * math.log(extension) + 1
        yield f"""Models with mscale_all_dim also multiply their scores by {grown * grown:.4g},
            which is no part of the rotation: multiply the `scale` of the attention by it."""
