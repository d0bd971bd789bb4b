"""Arguments of `RoPE` from the rotary parameters of Hugging Face configurations."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from os import PathLike
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.rotary import hf_models
from positional_embeddings.rotary.scaling import SCALINGS, Scaling

Values = Mapping[str, Any]

# Types of rotary embeddings: those without scaling, and other names of scalings.
_WITHOUT_SCALING = ("default", "mrope")
_OTHER_NAMES = {"su": "longrope"}

# Keys of the rotary parameters of all types; the others are the fields of the scaling.
_COMMON = hf_models.names("""
    rope_type type rope_theta partial_rotary_factor mrope_section mrope_interleaved
    original_max_position_embeddings max_position_embeddings
""")

# Rotary keys outside the rotary parameters.
# Of two names, the first one counts: it is the one that the code of its models reads.
_BASES = ("rotary_emb_base", "rope_theta", "rope_embedding_base")
_SHARES = ("rotary_pct", "partial_rotary_factor", "rope_pct")
_LENGTHS = ("max_position_embeddings", "n_positions")
_LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta")
_TOP_KEYS = {*_BASES, *_SHARES, *_LOCAL_BASES} | hf_models.names("""
    global_rope_theta no_rope_layer_interval no_rope_layers qk_rope_head_dim rope_interleave
    rope_parameters rope_scaling rotary_dim
""")

# Types of layers that have queries and keys.
_ATTENTION_LAYERS = ("chunked_attention", "full_attention", "sliding_attention")

# Keys to build an embedding from by hand, which the message of a refusal shows.
_SHOWN = (
    *("model_type", "head_dim", "qk_rope_head_dim", "hidden_size", "num_attention_heads"),
    *("max_position_embeddings", "rope_theta", "partial_rotary_factor"),
)


def rope_arguments(
    config: Mapping[str, Any] | str | PathLike[str],
    seq_len: int | None,
    layer_type: str | None,
    layout: str | None,
) -> dict[str, Any]:
    """Return the arguments of the `RoPE` that a configuration describes."""
    config = read_config(config)
    _check_rotates(config)
    try:
        layout = _layout(config) if layout is None else layout
        return _arguments(config, seq_len, layer_type) | {"layout": layout}
    except ValueError as error:
        parts = {key: config[key] for key in _SHOWN if key in config}
        message = f"{error} Or build `RoPE(...)` by hand, from {shown(parts)}."
        raise ValueError(message) from None


def _arguments(config: Values, seq_len: int | None, layer_type: str | None) -> dict[str, Any]:
    """Return the arguments without the layout."""
    rotary = [key for key in config if "rope" in key or key.startswith("rotary")]
    _check_known("the rotary keys", rotary, _TOP_KEYS)
    parameters = _parameters(config, layer_type)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OTHER_NAMES.get(str(kind), kind)
    name = "rope_type" if "rope_type" in parameters else "type"
    types = sorted([*_WITHOUT_SCALING, *SCALINGS])
    if kind not in types:
        raise wrong_value(name, f"be one of {types}", f"{kind!r}")
    # The fields of a scaling have the names of its parameters, but for one in _COMMON.
    options = fields(SCALINGS[kind]) if kind in SCALINGS else ()
    names = {option.name for option in options} - {"original_max_position"}
    whose = f"of {kind!r}" if name in parameters else "without a 'rope_type'"
    _check_known(f"the rotary parameters {whose}", parameters, names | _COMMON)
    head_size = _head_size(config, layer_type)
    longest = _first(config, _LENGTHS)
    if longest is not None:
        checks.position_count(_LENGTHS[0], longest)
    elif seq_len is None:
        message = f"`seq_len` must be given, as the configuration has no {_LENGTHS[0]!r}."
        raise ValueError(message)
    share = parameters["partial_rotary_factor"]
    _check_share(config, kind, share)
    if kind == "proportional":
        rotary_dim = head_size
    elif "rotary_dim" in config:
        rotary_dim = checks.positive_integer("rotary_dim", config["rotary_dim"], even=True)
    else:
        what = "int(head_dim * partial_rotary_factor)"
        rotary_dim = checks.positive_integer(what, int(head_size * share), even=True)
    return {
        "head_size": head_size,
        "seq_len": longest if seq_len is None else seq_len,
        "base": parameters["rope_theta"],
        "rotary_dim": None if rotary_dim == head_size else rotary_dim,
        "scaling": _scaling(kind, options, parameters, config) if options else None,
        **_sections(parameters, config.get("model_type")),
    }


def _sections(parameters: Values, model_type: str | None) -> dict[str, Any]:
    """Return the arguments for positions of several coordinates, if the model has any."""
    if "mrope_section" not in parameters:
        return {}
    if model_type in hf_models.OTHER_SECTIONS:
        message = f"`mrope_section` of {model_type!r} has an order that is not known here."
        raise ValueError(message)
    sections = parameters["mrope_section"]
    if not isinstance(sections, list | tuple):
        raise wrong_type("mrope_section", "be a list of integers", f"{sections!r}")
    strided = parameters.get("mrope_interleaved", model_type in hf_models.STRIDED)
    strided = checks.boolean("mrope_interleaved", strided)
    order = "strided" if strided else "contiguous"
    return {"sections": sections, "section_order": order}


def _check_share(config: Values, kind: str, share: float) -> None:
    """Refuse shares of rotated features that the model's code does not read."""
    model_type = config.get("model_type")
    is_part = share != 1 and kind != "proportional"
    for key, is_given, models in (
        ("partial_rotary_factor", is_part, hf_models.SHARE),
        ("rotary_dim", "rotary_dim" in config, hf_models.ROTARY_DIM),
    ):
        if is_given and model_type in hf_models.KNOWN - models:
            message = f"`{key}` must be left out for {model_type!r}, which rotates all features."
            raise ValueError(message)


def read_config(config: Mapping[str, Any] | str | PathLike[str]) -> dict[str, Any]:
    """Return a configuration, or its text model's, as a dict without None."""
    if isinstance(config, str | PathLike):
        from pathlib import Path  # noqa: PLC0415 - takes long to import

        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        config = from_json(path.read_bytes(), repr(str(path)))
    if not isinstance(config, Mapping):
        what = f"an object of type {type(config).__name__}"
        if hasattr(config, "to_dict"):
            what += ": pass config.to_dict()"
        raise wrong_type("config", "be a dict or the path of a JSON object", what)
    text = config.get("text_config")
    if text is not None and not isinstance(text, Mapping):
        raise wrong_type("text_config", "be a dict", f"{text!r}")
    config = _without_none({"model_type": config.get("model_type")} | dict(text or config))
    if not isinstance(config.get("model_type", ""), str):
        raise wrong_type("model_type", "be a string", f"{config['model_type']!r}")
    return config


def from_json(text: bytes, where: str) -> Any:
    """Return what a JSON text holds; `where` it came from is for the message."""
    import json  # noqa: PLC0415 - takes long to import

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        came = f"{where}, which is no JSON: {error}"
        raise wrong_value("config", "be a dict or the path of a JSON object", came) from None


def _without_none(values: Values) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _layout(config: Values) -> str:
    """Return the layout, if it is known of the model."""
    model_type = config.get("model_type")
    flag = checks.optional_boolean("rope_interleave", config.get("rope_interleave"))
    if flag is None or model_type not in hf_models.FLAGGED:
        flag = model_type in hf_models.INTERLEAVED
    if model_type in hf_models.KNOWN:
        return "interleaved" if flag else "half"
    advice = "pass layout='half' or layout='interleaved', whichever its code has"
    parts = [
        key for key, value in config.items() if isinstance(value, Mapping) and "model_type" in value
    ]
    if parts:
        advice += f", or one of its parts, of {parts}"
    advice = hf_models.ADVICE.get(str(model_type), advice)
    known = model_type is not None
    what = f"the model type {model_type!r}" if known else "a configuration without `model_type`"
    message = f"the layout of {what} is not known: {advice}."
    raise ValueError(message)


def _check_rotates(config: Values) -> None:
    """Refuse models that have no rotary embedding."""
    model_type = config.get("model_type")
    kind = "absolute" if model_type in hf_models.ROTATE_IF_SAID else "rope"
    # The code of other models that are known does not read it, whatever it says.
    if model_type not in hf_models.KNOWN - hf_models.ROTATE_IF_SAID:
        kind = config.get("position_embedding_type", kind)
    if checks.boolean("alibi", config.get("alibi", False)):
        kind = "alibi"
    is_rotary = kind in ("rope", "rotary")
    if not is_rotary or model_type in hf_models.NO_ROTATION:
        positions = "" if is_rotary else f" with {kind!r} positions"
        message = (
            f"the model must have a rotary embedding, got the type {model_type!r}{positions}: "
            "leave its queries and keys as they are."
        )
        raise ValueError(message)


def _check_known(what: str, keys: Iterable[Any], known: Collection[str]) -> None:
    """Refuse keys that this module does not know: ignored, they could change the result."""
    for key in keys:
        if key not in known:
            message = f"{what} must be of {sorted(known)}, got {key!r}."
            raise ValueError(message)


def _parameters(config: Values, layer_type: str | None) -> dict[str, Any]:
    """Return the rotary parameters of a layer, with defaults, without None."""
    given = _read_parameters(config)
    _check_numbers(config)
    base, share = _first(config, _BASES), _first(config, _SHARES)
    by_layer = _by_layer(config, given, base)
    if by_layer:
        if layer_type not in list(by_layer):
            raise wrong_value("layer_type", f"be one of {sorted(by_layer)}", f"{layer_type!r}")
        parameters = by_layer[layer_type]
    else:
        _check_layer_type(config, layer_type)
        # Like transformers, prefer the outer value if there are two.
        key = "original_max_position_embeddings"
        parameters = {**given, key: config[key]} if key in config else given
    defaults = {"rope_theta": base, "partial_rotary_factor": share}
    parameters = _without_none(defaults) | _without_none(parameters)
    _check_numbers(parameters)
    present = {*config, *parameters} | ({"rope_scaling"} if given else set())
    if "rotary_dim" in config:
        present.add("partial_rotary_factor")
    for key, models in hf_models.OWN.items():
        if key not in present and config.get("model_type") in models:
            raise _left_out(repr(key), config)
    return {"rope_theta": 10_000, "partial_rotary_factor": 1.0} | parameters


def _left_out(what: str, config: Values) -> ValueError:
    """Return the error about what the model's code has a default for."""
    return ValueError(
        f"the configuration of {config['model_type']!r} must have {what}. The model's code has a "
        "default of its own: `to_dict()` of a configuration of transformers has it."
    )


def _read_parameters(config: Values) -> Values:
    """Return the rotary parameters as the configuration has them."""
    for key in ("rope_scaling", "rope_parameters"):
        given = config.get(key, {})
        if not isinstance(given, Mapping):
            raise wrong_type(key, "be a dict", f"{given!r}")
        if given:
            return given
    return {}


def layer_types(config: Values) -> list[str]:
    """Return the types of layers that have rotary parameters of their own, if there are such."""
    return sorted(_by_layer(config, _read_parameters(config), None))


def _check_numbers(values: Values) -> None:
    """Check the numbers that are arguments of another name, while their keys are known."""
    for key in values:
        if key in (*_BASES, *_SHARES, *_LOCAL_BASES, "global_rope_theta"):
            checks.positive_number(key, values[key])
        if key in _SHARES and values[key] > 1:
            raise wrong_value(key, "be at most 1", values[key])


def _first(values: Values, keys: Sequence[str]) -> Any:
    """Return the value of the first key that is there, or None."""
    return next((values[key] for key in keys if key in values), None)


def _by_layer(config: Values, given: Values, base: Any) -> dict[Any, Values]:
    """Return the rotary parameters by type of layer, if there are several."""
    by_layer = {name: value for name, value in given.items() if isinstance(value, Mapping)}
    local = _first(config, _LOCAL_BASES)
    if given and config.get("model_type") in hf_models.FULL_SCALED:
        local = base
    if local is None or by_layer:
        return by_layer
    # Older configurations of models with two types of layers.
    full = {"rope_theta": config.get("global_rope_theta", base)} | dict(given)
    return {"full_attention": full, "sliding_attention": {"rope_theta": local}}


def _check_layer_type(config: Values, layer_type: str | None) -> None:
    """Check the type of a layer in a model with one embedding for all layers."""
    model_type = config.get("model_type")
    if model_type in hf_models.BY_LAYER:
        what = "rotary parameters for each type of layer"
        raise _left_out(what, config)
    if layer_type is None:
        return
    in_model = config.get("layer_types", _ATTENTION_LAYERS)
    if not isinstance(in_model, list | tuple):
        raise wrong_type("layer_types", "be a list of strings", f"{in_model!r}")
    known = [name for name in _ATTENTION_LAYERS if name in in_model]
    if model_type in hf_models.FULL_WITHOUT and len(known) > 1:
        known.remove("full_attention")
    if layer_type not in known:
        raise wrong_value("layer_type", f"be None or one of {known}", f"{layer_type!r}")


def _head_size(config: Values, layer_type: str | None) -> int:
    if layer_type == "full_attention" and "global_head_dim" in config:
        return checks.feature_count("global_head_dim", config["global_head_dim"])
    for key in ("qk_rope_head_dim", "head_dim", "kv_channels"):
        if key in config:
            return checks.feature_count(key, config[key])
    heads = _needed(config, "num_attention_heads", "n_head")
    heads = checks.feature_count("num_attention_heads", heads)
    hidden = checks.feature_count("hidden_size", _needed(config, "hidden_size", "n_embd"))
    return checks.quotient("hidden_size", hidden, "num_attention_heads", heads)


def _needed(values: Values, *keys: str) -> Any:
    """Return the value of the first key that is there, or raise."""
    found = _first(values, keys)
    if found is None:
        message = f"the configuration must have {keys[0]!r}, got {sorted(values)}."
        raise ValueError(message)
    return found


def _scaling(kind: str, options: Any, parameters: Values, config: Values) -> Scaling:
    """Return the scaling of a type, whose fields are the options."""
    names = [option.name for option in options]
    given = {name: parameters[name] for name in names if name in parameters}
    if "original_max_position" in names:
        key = "original_max_position_embeddings"
        # Like transformers, dynamic scaling ignores it.
        if key in parameters and kind != "dynamic":
            original = checks.position_count(key, parameters[key])
        else:
            original = _needed(config, _LENGTHS[0])
        given["original_max_position"] = original
        if kind in ("yarn", "longrope") and "factor" not in given:
            given["factor"] = _needed(config, _LENGTHS[0]) / original
    for option in options:
        name = option.name
        if name.startswith("beta") and not given.get(name):
            given.pop(name, None)  # like transformers, take 0 as not given
        elif option.default is MISSING and name not in given:
            came = sorted(parameters.keys() - {"rope_theta", "partial_rotary_factor"})
            message = f"the rotary parameters of {kind!r} must have {name!r}, got {came}."
            raise ValueError(message)
    return SCALINGS[kind](**given)  # type: ignore[no-any-return]
