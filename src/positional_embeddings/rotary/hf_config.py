"""Rotary parameters of Hugging Face configurations."""

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import wrong_type, wrong_value
from positional_embeddings.rotary import hf_models
from positional_embeddings.rotary.scaling import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    ProportionalScaling,
    Scaling,
    YaRNScaling,
)

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
    "no_rope_layer_interval",
    "no_rope_layers",
    "qk_rope_head_dim",
    "rope_interleave",
    "rope_parameters",
    "rope_scaling",
    "rotary_dim",
}

# Types of layers that have queries and keys.
_ATTENTION_LAYERS = ("chunked_attention", "full_attention", "sliding_attention")

# What a refusal tells of a configuration, to build the embedding by hand.
_TOLD = (
    "model_type",
    "head_dim",
    "qk_rope_head_dim",
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
    "rope_theta",
    "partial_rotary_factor",
)


def rope_arguments(
    config: Mapping[str, Any] | str | PathLike[str],
    seq_len: int | None,
    layer_type: str | None,
    layout: str | None,
) -> dict[str, Any]:
    """Return the arguments of `RoPE` that a configuration stands for."""
    config = _read(config)
    model_type = _model_type(config)
    _check_rotates(config, model_type)
    try:
        if layout is None:
            layout = _layout(config, model_type)
        return _arguments(config, model_type, seq_len, layer_type) | {"layout": layout}
    except ValueError as error:
        told = {key: config[key] for key in _TOLD if key in config}
        message = f"{error} Or build `RoPE(...)` by hand, from {told}."
        raise ValueError(message) from None


def _arguments(
    config: Mapping[str, Any], model_type: str | None, seq_len: int | None, layer_type: str | None
) -> dict[str, Any]:
    """Return the arguments without the layout."""
    _check_names(config)
    parameters = _parameters(config, model_type, layer_type)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OTHER_NAMES.get(str(kind), kind)
    _check_keys(kind, parameters)
    head_size = _head_size(config, layer_type)
    share = checks.positive_number("partial_rotary_factor", parameters["partial_rotary_factor"])
    rotary_dim = config.get("rotary_dim", int(head_size * share))
    _check_share(config, model_type, kind, share)
    if kind == "proportional":
        rotary_dim = head_size
    rotary_dim = checks.positive_integer("rotary_dim", rotary_dim, even=True)
    if seq_len is None:
        seq_len = _needed(config, "max_position_embeddings", "n_positions")
    arguments = {
        "head_size": head_size,
        "seq_len": seq_len,
        "base": parameters["rope_theta"],
        "rotary_dim": None if rotary_dim == head_size else rotary_dim,
        "scaling": _SCALINGS[kind](parameters, config) if kind in _SCALINGS else None,
    }
    if "mrope_section" in parameters:
        if model_type in hf_models.OTHER_SECTIONS:
            message = f"`mrope_section` of {model_type!r} has an order that is not known here."
            raise ValueError(message)
        sections = parameters["mrope_section"]
        if not isinstance(sections, list | tuple):
            raise wrong_type("mrope_section", "be a list of integers", f"{sections!r}")
        arguments["sections"] = tuple(sections)
        strided = parameters.get("mrope_interleaved", model_type in hf_models.STRIDED)
        strided = checks.boolean("mrope_interleaved", strided)
        arguments["section_order"] = "strided" if strided else "contiguous"
    return arguments


def _check_share(
    config: Mapping[str, Any], model_type: str | None, kind: str, share: float
) -> None:
    """Refuse shares of rotated features that the model's code does not read."""
    known = model_type in hf_models.HALF | hf_models.INTERLEAVED
    for key, readers, given in (
        ("partial_rotary_factor", hf_models.SHARE, share != 1 and kind != "proportional"),
        ("rotary_dim", hf_models.ROTARY_DIM, "rotary_dim" in config),
    ):
        if known and given and model_type not in readers:
            message = f"`{key}` must be left out for {model_type!r}, which rotates all features."
            raise ValueError(message)


def _read(config: Mapping[str, Any] | str | PathLike[str]) -> dict[str, Any]:
    """Return a configuration as a dict, the text's where it has several."""
    if isinstance(config, str | PathLike):
        config = json.loads(Path(config).read_text(encoding="utf-8"))
    if not isinstance(config, Mapping):
        what = f"an object of type {type(config).__name__}"
        if hasattr(config, "to_dict"):
            what += ": pass config.to_dict()"
        raise wrong_type("config", "be a dict or the path of a JSON object", what)
    text = config.get("text_config")
    if text is not None and not isinstance(text, Mapping):
        raise wrong_type("text_config", "be a dict", f"{text!r}")
    text = {"model_type": config.get("model_type")} | dict(text or config)
    return {key: value for key, value in text.items() if value is not None}


def _model_type(config: Mapping[str, Any]) -> str | None:
    """Return the type of the model, if the configuration says it."""
    model_type = config.get("model_type")
    if not (model_type is None or isinstance(model_type, str)):
        raise wrong_type("model_type", "be a string", f"{model_type!r}")
    return model_type


def _layout(config: Mapping[str, Any], model_type: str | None) -> str:
    """Return which features form a pair, if it is known of the model."""
    flag = checks.optional_boolean("rope_interleave", config.get("rope_interleave"))
    if flag is not None and model_type in hf_models.FLAGGED:
        return "interleaved" if flag else "half"
    if model_type in hf_models.INTERLEAVED:
        return "interleaved"
    if model_type in hf_models.HALF:
        return "half"
    advice = "pass layout='half' or layout='interleaved', whichever its code has"
    parts = [
        key for key, value in config.items() if isinstance(value, Mapping) and "model_type" in value
    ]
    if parts:
        advice += f", or one of its parts, of {parts}"
    advice = hf_models.ADVICE.get(str(model_type), advice)
    what = "a configuration without `model_type`"
    what = what if model_type is None else f"the model type {model_type!r}"
    message = f"the layout of {what} is not known: {advice}."
    raise ValueError(message)


def _check_rotates(config: Mapping[str, Any], model_type: str | None) -> None:
    """Refuse models that have no rotary embedding."""
    default = "absolute" if model_type in hf_models.ROTATE_IF_SAID else "rope"
    kind = config.get("position_embedding_type", default)
    if checks.boolean("alibi", config.get("alibi", False)):
        kind = "alibi"
    if kind not in ("rope", "rotary") or model_type in hf_models.NO_ROTATION:
        positions = f" with {kind!r} positions" if kind not in ("rope", "rotary") else ""
        message = (
            f"the model must have a rotary embedding, got the type {model_type!r}{positions}: "
            "leave its queries and keys as they are."
        )
        raise ValueError(message)


def _check_names(config: Mapping[str, Any]) -> None:
    """Refuse what tells of rotary embeddings in words that are not known here."""
    for key in config:
        if ("rope" in key or key.startswith("rotary")) and key not in _TOP_KEYS:
            message = f"the rotary keys must be of {sorted(_TOP_KEYS)}, got {key!r}."
            raise ValueError(message)


def _parameters(
    config: Mapping[str, Any], model_type: str | None, layer_type: str | None
) -> dict[str, Any]:
    """Return the rotary parameters in one form, whichever the configuration has."""
    given = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(given, Mapping):
        message = f"the rotary parameters must be a dict, got {given!r}."
        raise TypeError(message)
    parameters = dict(given)
    base = next((config[key] for key in _BASES if key in config), None)
    by_layer = {name: value for name, value in parameters.items() if isinstance(value, Mapping)}
    local = next((config[key] for key in _LOCAL_BASES if key in config), None)
    if local is not None and not by_layer:
        # Older configurations of models with two kinds of layers.
        full = {"rope_theta": config.get("global_rope_theta", base)} | parameters
        by_layer = {"full_attention": full, "sliding_attention": {"rope_theta": local}}
    if by_layer:
        if layer_type not in list(by_layer):
            raise wrong_value("layer_type", f"be one of {sorted(by_layer)}", f"{layer_type!r}")
        parameters = dict(by_layer[layer_type])
    else:
        _check_layer_type(config, model_type, layer_type)
        # Stands in both places at times; transformers takes the outer one.
        key = "original_max_position_embeddings"
        parameters |= {key: config[key]} if key in config else {}
    share = next((config[key] for key in _SHARES if key in config), None)
    defaults = {"rope_theta": base, "partial_rotary_factor": share}
    parameters = {key: value for key, value in parameters.items() if value is not None}
    parameters = {key: value for key, value in defaults.items() if value is not None} | parameters
    if model_type in hf_models.OWN_SHARE and "rotary_dim" not in config:
        _needed(parameters, "partial_rotary_factor")
    if model_type in hf_models.OWN_BASE:
        _needed(parameters, "rope_theta")
    return {"rope_theta": 10_000, "partial_rotary_factor": 1.0} | parameters


def _check_layer_type(
    config: Mapping[str, Any], model_type: str | None, layer_type: str | None
) -> None:
    """Check the type of a layer in a model with one embedding for all of them."""
    if model_type in hf_models.BY_LAYER:
        message = f"the rotary parameters of {model_type!r} must be a dict by type of layer."
        raise ValueError(message)
    if layer_type is None:
        return
    in_model = config.get("layer_types", _ATTENTION_LAYERS)
    if not isinstance(in_model, list | tuple):
        raise wrong_type("layer_types", "be a list of strings", f"{in_model!r}")
    known = [name for name in _ATTENTION_LAYERS if name in in_model]
    if model_type in hf_models.FULL_WITHOUT and len(known) > 1:
        known.remove("full_attention")
    if layer_type not in known:
        raise wrong_value("layer_type", f"be None or of {known}", f"{layer_type!r}")


def _check_keys(kind: Any, parameters: Mapping[str, Any]) -> None:
    if not isinstance(kind, str) or kind not in _KEYS:
        raise wrong_value("rope_type", f"be one of {sorted(_KEYS)}", f"{kind!r}")
    known = _KEYS[kind] | _COMMON
    for key in parameters:
        if key not in known:
            message = f"the rotary parameters of {kind!r} must be of {sorted(known)}, got {key!r}."
            raise ValueError(message)


def _head_size(config: Mapping[str, Any], layer_type: str | None) -> int:
    if layer_type == "full_attention" and "global_head_dim" in config:
        return checks.positive_integer("global_head_dim", config["global_head_dim"])
    for key in ("qk_rope_head_dim", "head_dim", "kv_channels"):
        if key in config:
            return checks.positive_integer(key, config[key])
    heads = _needed(config, "num_attention_heads", "n_head")
    heads = checks.positive_integer("num_attention_heads", heads)
    return checks.positive_integer("hidden_size", _needed(config, "hidden_size", "n_embd")) // heads


def _needed(values: Mapping[str, Any], *keys: str) -> Any:
    """Return what stands under the first of the keys that is there."""
    for key in keys:
        if key in values:
            return values[key]
    message = f"the configuration must have {keys[0]!r}, got {sorted(values)}."
    raise ValueError(message)


def _original(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Return the length of training."""
    key = "original_max_position_embeddings"
    return parameters[key] if key in parameters else _needed(config, "max_position_embeddings")


def _extension(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Return how many times longer the context becomes."""
    if "factor" in parameters:
        return parameters["factor"]
    longest = checks.positive_number(
        "max_position_embeddings", _needed(config, "max_position_embeddings")
    )
    return longest / checks.positive_number(
        "original_max_position_embeddings", _original(parameters, config)
    )


def _yarn(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> YaRNScaling:
    return YaRNScaling(
        _extension(parameters, config),
        _original(parameters, config),
        beta_fast=parameters.get("beta_fast") or 32.0,
        beta_slow=parameters.get("beta_slow") or 1.0,
        attention_factor=parameters.get("attention_factor"),
        mscale=parameters.get("mscale"),
        mscale_all_dim=parameters.get("mscale_all_dim"),
        truncate=parameters.get("truncate", True),
    )


def _llama3(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Llama3Scaling:
    return Llama3Scaling(
        _needed(parameters, "factor"),
        _needed(parameters, "low_freq_factor"),
        _needed(parameters, "high_freq_factor"),
        _original(parameters, config),
    )


def _longrope(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> LongRoPEScaling:
    return LongRoPEScaling(
        _needed(parameters, "short_factor"),
        _needed(parameters, "long_factor"),
        _original(parameters, config),
        factor=_extension(parameters, config),
        attention_factor=parameters.get("attention_factor"),
    )


_SCALINGS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Scaling]] = {
    "linear": lambda parameters, _: LinearScaling(_needed(parameters, "factor")),
    "ntk": lambda parameters, _: NTKScaling(_needed(parameters, "factor")),
    # Also where there is an original length, as transformers does.
    "dynamic": lambda parameters, config: DynamicNTKScaling(
        _needed(parameters, "factor"), _needed(config, "max_position_embeddings")
    ),
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": lambda parameters, _: ProportionalScaling(
        parameters["partial_rotary_factor"], parameters.get("factor", 1.0)
    ),
}
