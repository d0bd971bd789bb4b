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


def rope_arguments(
    config: Mapping[str, Any] | str | PathLike[str], seq_len: int | None, layer_type: str | None
) -> dict[str, Any]:
    """Return the arguments of `RoPE` that a configuration stands for."""
    config = _read(config)
    parameters = _parameters(config, layer_type)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OTHER_NAMES.get(kind, kind)
    _check_keys(kind, parameters)
    head_size = _head_size(config)
    share = parameters.get("partial_rotary_factor", 1.0)
    rotary_dim = head_size if kind == "proportional" else int(head_size * share)
    scaling = _SCALINGS[kind](parameters, config) if kind in _SCALINGS else None
    arguments = {
        "head_size": head_size,
        "seq_len": seq_len if seq_len is not None else _needed(config, "max_position_embeddings"),
        "base": parameters["rope_theta"],
        "rotary_dim": rotary_dim,
        "scaling": scaling,
        "layout": "interleaved" if config.get("rope_interleave") else "half",
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
    text: Mapping[str, Any] = config.get("text_config") or config
    return text


def _parameters(config: Mapping[str, Any], layer_type: str | None) -> dict[str, Any]:
    """Return the rotary parameters in one form, whichever the configuration has."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    by_layer = {name: value for name, value in parameters.items() if isinstance(value, Mapping)}
    if by_layer:
        if layer_type not in by_layer:
            message = f"`layer_type` must be one of {sorted(by_layer)}, got {layer_type!r}."
            raise ValueError(message)
        parameters = dict(by_layer[layer_type])
    elif layer_type is not None:
        message = f"`layer_type` must be None for parameters of one type, got {layer_type!r}."
        raise ValueError(message)
    base = config.get("rope_theta", config.get("rotary_emb_base", 10_000))
    parameters.setdefault("rope_theta", base)
    share = config.get("partial_rotary_factor", config.get("rotary_pct"))
    if share is not None:
        parameters.setdefault("partial_rotary_factor", share)
    return parameters


def _check_keys(kind: str, parameters: Mapping[str, Any]) -> None:
    if kind not in _KEYS:
        message = f"`rope_type` must be one of {sorted(_KEYS)}, got {kind!r}."
        raise ValueError(message)
    known = _KEYS[kind] | _COMMON
    for key in parameters:
        if key not in known:
            message = f"the rotary parameters of {kind!r} must be of {sorted(known)}, got {key!r}."
            raise ValueError(message)


def _head_size(config: Mapping[str, Any]) -> int:
    for key in ("qk_rope_head_dim", "head_dim"):
        if config.get(key):
            return int(config[key])
    return int(_needed(config, "hidden_size") // _needed(config, "num_attention_heads"))


def _needed(values: Mapping[str, Any], key: str) -> Any:
    if values.get(key) is None:
        message = f"the configuration must have {key!r}, got {sorted(values)}."
        raise ValueError(message)
    return values[key]


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
