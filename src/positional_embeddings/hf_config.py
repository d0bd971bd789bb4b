"""Rotary parameters of Hugging Face configurations."""

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from positional_embeddings.scaling import NTK, DynamicNTK, Linear, Proportional, Scaling
from positional_embeddings.wavelength_scaling import Llama3, LongRoPE, YaRN

# Keys of the rotary parameters that each type has, beside those of all types.
_COMMON = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
    "original_max_position_embeddings",
    "max_position_embeddings",
}
_KEYS: dict[str, set[str]] = {
    "default": set(),
    "mrope": set(),
    "linear": {"factor"},
    "ntk": {"factor"},
    "dynamic": {"factor"},
    "yarn": {
        "factor",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    },
    "llama3": {"factor", "low_freq_factor", "high_freq_factor"},
    "longrope": {"factor", "short_factor", "long_factor", "attention_factor"},
    "proportional": {"factor"},
}
_OTHER_NAMES = {"su": "longrope"}

# Keys of a configuration itself that tell of its rotary embedding.
_BASES = ("rope_theta", "rotary_emb_base", "rope_embedding_base")
_SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct")
_LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta")
_TOP_KEYS = {
    *_BASES,
    *_SHARES,
    *_LOCAL_BASES,
    "global_rope_theta",
    "qk_rope_head_dim",
    "rope_interleave",
    "rope_parameters",
    "rope_scaling",
    "rotary_dim",
}
# Models whose configurations do not say that neighbours form a pair.
_INTERLEAVED_MODELS = {
    "codegen",
    "cohere",
    "cohere2",
    "deepseek_v2",
    "deepseek_v3",
    "glm",
    "glm4",
    "gptj",
    "llama4_text",
}


def rope_arguments(
    config: Mapping[str, Any] | str | PathLike[str], seq_len: int | None, layer_type: str | None
) -> dict[str, Any]:
    """Return the arguments of `RoPE` that a configuration stands for."""
    config = _read(config)
    _check_top_keys(config)
    parameters = _parameters(config, layer_type)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OTHER_NAMES.get(str(kind), kind)
    _check_keys(kind, parameters)
    head_size = _head_size(config, layer_type)
    share = parameters.get("partial_rotary_factor", 1.0)
    rotary_dim = config.get("rotary_dim") or int(head_size * share)
    if kind == "proportional":
        rotary_dim = head_size
    if seq_len is None:
        seq_len = _needed(config, "max_position_embeddings", "n_positions")
    interleaved = config.get("rope_interleave", config.get("model_type") in _INTERLEAVED_MODELS)
    arguments = {
        "head_size": head_size,
        "seq_len": seq_len,
        "base": parameters["rope_theta"],
        "rotary_dim": None if rotary_dim == head_size else rotary_dim,
        "scaling": _SCALINGS[kind](parameters, config) if kind in _SCALINGS else None,
        "layout": "interleaved" if interleaved else "half",
    }
    if "mrope_section" in parameters:
        arguments["sections"] = tuple(parameters["mrope_section"])
        strided = parameters.get("mrope_interleaved", False)
        arguments["section_order"] = "strided" if strided else "contiguous"
    return arguments


def _read(config: Mapping[str, Any] | str | PathLike[str]) -> Mapping[str, Any]:
    """Return a configuration as a mapping, the text's where it has several."""
    if isinstance(config, str | PathLike):
        config = json.loads(Path(config).read_text(encoding="utf-8"))
    if not isinstance(config, Mapping):
        message = f"`config` must be a dict or the path of a JSON object, got {config!r}."
        raise TypeError(message)
    text = config.get("text_config") or config
    return {key: value for key, value in text.items() if value is not None}


def _check_top_keys(config: Mapping[str, Any]) -> None:
    """Refuse what tells of rotary embeddings in words that are not known here."""
    for key in config:
        if ("rope" in key or key.startswith("rotary")) and key not in _TOP_KEYS:
            message = f"the rotary keys must be of {sorted(_TOP_KEYS)}, got {key!r}."
            raise ValueError(message)
    kind = config.get("position_embedding_type", "rope")
    if config.get("alibi") or kind not in ("rope", "rotary"):
        message = f"the configuration must be of a rotary model, got {kind!r} positions."
        raise ValueError(message.replace("'rope'", "'alibi'"))


def _parameters(config: Mapping[str, Any], layer_type: str | None) -> dict[str, Any]:
    """Return the rotary parameters in one form, whichever the configuration has."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        message = f"the rotary parameters must be a dict, got {given!r}."
        raise TypeError(message)
    parameters = dict(given)
    base = next((config[key] for key in _BASES if key in config), 10_000)
    by_layer = {name: value for name, value in parameters.items() if isinstance(value, Mapping)}
    local = next((config[key] for key in _LOCAL_BASES if key in config), None)
    if local is not None and not by_layer:
        # Older configurations of models with two kinds of layers.
        full = {"rope_theta": config.get("global_rope_theta", base)} | parameters
        by_layer = {"full_attention": full, "sliding_attention": {"rope_theta": local}}
    if by_layer:
        if layer_type not in by_layer:
            message = f"`layer_type` must be one of {sorted(by_layer)}, got {layer_type!r}."
            raise ValueError(message)
        parameters = dict(by_layer[layer_type])
    elif layer_type is not None:
        message = f"`layer_type` must be None for parameters of one type, got {layer_type!r}."
        raise ValueError(message)
    if parameters.get("rope_theta") is None:
        parameters["rope_theta"] = base
    share = next((config[key] for key in _SHARES if key in config), None)
    if share is not None:
        parameters.setdefault("partial_rotary_factor", share)
    return parameters


def _check_keys(kind: Any, parameters: Mapping[str, Any]) -> None:
    if not isinstance(kind, str) or kind not in _KEYS:
        message = f"`rope_type` must be one of {sorted(_KEYS)}, got {kind!r}."
        raise ValueError(message)
    known = _KEYS[kind] | _COMMON
    for key in parameters:
        if key not in known:
            message = f"the rotary parameters of {kind!r} must be of {sorted(known)}, got {key!r}."
            raise ValueError(message)


def _head_size(config: Mapping[str, Any], layer_type: str | None) -> int:
    if layer_type == "full_attention" and "global_head_dim" in config:
        return int(config["global_head_dim"])
    for key in ("qk_rope_head_dim", "head_dim"):
        if key in config:
            return int(config[key])
    heads = _needed(config, "num_attention_heads", "n_head")
    return int(_needed(config, "hidden_size", "n_embd") // heads)


def _needed(values: Mapping[str, Any], *keys: str) -> Any:
    """Return what stands under the first of the keys that is there."""
    for key in keys:
        if values.get(key) is not None:
            return values[key]
    message = f"the configuration must have {keys[0]!r}, got {sorted(values)}."
    raise ValueError(message)


def _original(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Return the length of training."""
    for values in (parameters, config):
        if values.get("original_max_position_embeddings"):
            return int(values["original_max_position_embeddings"])
    return int(_needed(config, "max_position_embeddings"))


def _extension(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> float:
    """Return how many times longer the context becomes."""
    if parameters.get("factor") is not None:
        return float(parameters["factor"])
    return float(_needed(config, "max_position_embeddings") / _original(parameters, config))


def _yarn(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> YaRN:
    return YaRN(
        _extension(parameters, config),
        _original(parameters, config),
        beta_fast=parameters.get("beta_fast") or 32.0,
        beta_slow=parameters.get("beta_slow") or 1.0,
        attention_factor=parameters.get("attention_factor"),
        mscale=parameters.get("mscale"),
        mscale_all_dim=parameters.get("mscale_all_dim"),
        truncate=parameters.get("truncate", True),
    )


def _llama3(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Llama3:
    return Llama3(
        _needed(parameters, "factor"),
        _needed(parameters, "low_freq_factor"),
        _needed(parameters, "high_freq_factor"),
        _original(parameters, config),
    )


def _longrope(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> LongRoPE:
    return LongRoPE(
        _needed(parameters, "short_factor"),
        _needed(parameters, "long_factor"),
        _original(parameters, config),
        factor=_extension(parameters, config),
        attention_factor=parameters.get("attention_factor"),
    )


_SCALINGS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Scaling]] = {
    "linear": lambda parameters, _: Linear(_needed(parameters, "factor")),
    "ntk": lambda parameters, _: NTK(_needed(parameters, "factor")),
    "dynamic": lambda parameters, config: DynamicNTK(
        _needed(parameters, "factor"), _original(parameters, config)
    ),
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": lambda parameters, _: Proportional(
        parameters.get("partial_rotary_factor", 1.0), parameters.get("factor", 1.0)
    ),
}
