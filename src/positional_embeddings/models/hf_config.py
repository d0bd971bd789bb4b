"""Arguments of `RoPE` from the rotary parameters of Hugging Face configurations."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from positional_embeddings.angles.frequencies import inverse_frequencies
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.models import keys
from positional_embeddings.models.configuration import Config, Configuration, Values, without_none
from positional_embeddings.models.layers import ATTENTION_LAYERS, Layer, LayerConfig
from positional_embeddings.rotary import rope
from positional_embeddings.rotary.layouts import LAYOUTS
from positional_embeddings.rotary.scaling import SCALINGS, NTKScaling, Scaled, Scaling

Arguments = dict[str, Any]

# Types of rotary embeddings without scaling, and aliases of types.
_WITHOUT_SCALING = ("default", "mrope")
_ALIASES = {"su": "longrope", "deepseek_yarn": "yarn", "rope": "default", "rotary": "default"}

# Default number of positions in the table for patches of images.
_NUM_PATCHES = 1024


def layer_arguments(
    config: Config, seq_len: int | None, layout: str | None
) -> tuple[list[Layer], dict[Layer, Arguments]]:
    """Return the layers, and the arguments of `RoPE` for the layers that rotate."""
    model = RotaryConfig(config)
    layers = model.layers(model.num_layers())
    rotating = {layer for layer in layers if layer.rotates}
    return layers, {layer: model.arguments(layer, seq_len, layout) for layer in rotating}


def rope_arguments(
    config: Config, seq_len: int | None, layer_type: str | None, layout: str | None
) -> Arguments:
    """Return the arguments of the only `RoPE` of a model, or of its layers of a type."""
    model = RotaryConfig(config)
    if not model.is_rotary:
        raise _refused(model.name, "its configuration switches rotation off")
    layers = [x for x in model.layers() if x.rotates or x.type in ATTENTION_LAYERS]
    types = sorted({x.type for x in layers if x.rotates and x.type} or ATTENTION_LAYERS)
    if layer_type is not None:
        if layer_type not in types:
            raise wrong_value("layer_type", f"be None or one of {types}", f"{layer_type!r}")
        layers = [x for x in layers if x.type in (None, layer_type)]
    rotating = dict.fromkeys(x for x in layers if x.rotates)
    arguments = [model.arguments(layer, seq_len, layout) for layer in rotating]
    if arguments and all(x.rotates for x in layers) and all(x == arguments[0] for x in arguments):
        return arguments[0]
    uniform = [name for name in types if all(x.rotates for x in layers if x.type == name)]
    advice = f", or pass as `layer_type` one of {uniform}" if uniform and not layer_type else ""
    message = f"layers of {model.name} differ: call `RoPE.layers_from_hf_config`{advice}."
    raise ValueError(message)


rope.config_readers.update(rope=rope_arguments, layers=layer_arguments)


class RotaryConfig(LayerConfig):
    """Rotation of the layers of a model, from its configuration and the `ModelType` of its type."""

    def __init__(self, config: Config | Configuration, *, must_rotate: bool = True) -> None:
        config = config if isinstance(config, Configuration) else Configuration(config)
        is_rotary = _is_rotary(config, must_rotate=must_rotate)
        config.check_keys("rotation" if must_rotate else "attention")
        base_keys = [key for label in config.model_type.bases.values() for key in label[1:]]
        self.share_keys = (
            config.model_type.share_keys if config.model_type.is_listed else keys.SHARES
        )
        for key in {*keys.BASES, *self.share_keys, *base_keys} & config.values.keys():
            _check_number(key, config.values[key])
        super().__init__(config, _rotary_parameters(config), is_rotary=is_rotary)

    def arguments(self, layer: Layer, seq_len: int | None, layout: str | None) -> Arguments:
        """Return the arguments of `RoPE` for a layer."""
        layout = self._layout() if layout is None else checks.choice("layout", layout, LAYOUTS)
        parameters = self.parameters(layer)
        kind = parameters.get("rope_type") or parameters.get("type") or "default"
        kind = _ALIASES.get(str(kind), kind)
        name = "rope_type" if "rope_type" in parameters else "type"
        axial = self.model_type.axial
        if kind in ("gptj", "rope_gptj") and layout == "interleaved":
            kind = "default"
        scalings = SCALINGS if self.model_type.has_scaling else ()
        types = ["axial", "default"] if axial else sorted([*_WITHOUT_SCALING, *scalings])
        if kind not in types:
            raise wrong_value(name, f"be one of {types}", f"{kind!r}")
        # The fields of a scaling have the names of its parameters, except one of keys.COMMON.
        options = fields(SCALINGS[kind]) if kind in SCALINGS else ()
        allowed = {option.name for option in options} - {"original_max_position"} | keys.COMMON
        owner = f"of {kind!r}" if name in parameters else "without a 'rope_type'"
        allowed |= {*self.model_type.ignored, *self.model_type.more_parameters.get(kind, ())}
        for key in parameters.keys() - allowed:
            message = f"the rotary parameters {owner} must be of {sorted(allowed)}, got {key!r}."
            raise ValueError(message)
        head_size = self.head_size(layer)
        length = self._seq_len(seq_len, kind)
        if axial:
            rotary_dim, extra = _axial(head_size, **axial)
        else:
            rotary_dim = self._rotary_dim(kind, head_size, parameters["partial_rotary_factor"])
            extra = self._sections(parameters)
            extra["scaling"] = self._scaling(kind, options, parameters, length) if options else None
        return {
            "head_size": head_size,
            "seq_len": length,
            "base": parameters["rope_theta"],
            "layout": layout,
            "rotary_dim": None if rotary_dim == head_size else rotary_dim,
            **extra,
        }

    def _seq_len(self, seq_len: int | None, kind: str) -> int:
        """Return the number of positions in the table."""
        default = _NUM_PATCHES if self.model_type.axial else None
        max_position: Any = self.values.get(keys.LENGTH, default)
        reason = (
            "LongRoPE has other frequencies for long sequences: pass the length of the text"
            if kind == "longrope"
            else ""
        )
        if max_position is None:
            reason = f"the configuration has no {keys.LENGTH!r}"
        else:
            checks.position_count(keys.LENGTH, max_position)
        if seq_len is None and reason:
            message = f"`seq_len` must be given, as {reason}."
            raise ValueError(message)
        return max_position if seq_len is None else seq_len

    def _rotary_dim(self, kind: str, head_size: int, share: float) -> int:
        """Return the number of rotated features."""
        values, model_type = self.values, self.model_type
        if kind == "proportional":
            return head_size
        key = "rotary_dim" if share == 1 else "partial_rotary_factor"
        is_partial = share != 1 or "rotary_dim" in values
        if (
            is_partial
            and model_type.is_listed
            and not model_type.share
            and "rotary_dim" not in model_type.defaults
        ):
            requirement = f"be left out for {self.type!r}, which rotates all features"
            raise wrong_value(key, requirement, format_value(values.get(key, share)))
        if is_partial and not model_type.is_listed and "qk_rope_head_dim" in values:
            requirement = (
                f"be left out beside `qk_rope_head_dim` = {head_size}, if all of these rotate"
            )
            rotated = int(head_size * share) if share != 1 else values["rotary_dim"]
            hint = f" If some do, leave it out and pass rotary_dim={rotated}."
            raise wrong_value(key, requirement, format_value(values.get(key, share)), hint)
        if "qk_rope_head_dim" in model_type.defaults:
            return head_size
        if "rotary_dim" in values:
            return checks.positive_integer("rotary_dim", values["rotary_dim"], even=True)
        requirement = "int(head_dim * partial_rotary_factor)"
        return checks.positive_integer(requirement, int(head_size * share), even=True)

    def _sections(self, parameters: Values) -> Arguments:
        """Return the arguments for positions of several coordinates, if the model has sections."""
        sections = parameters.get("mrope_section", self.model_type.mrope_section)
        if sections is None:
            return {}
        order = self.model_type.sections or "contiguous"
        if order == "unknown":
            message = f"`mrope_section` of {self.type!r} has an order that is not known here."
            raise ValueError(message)
        if not isinstance(sections, list | tuple):
            raise wrong_type("mrope_section", "be a list of integers", f"{sections!r}")
        if "mrope_interleaved" in parameters:
            strided = checks.boolean("mrope_interleaved", parameters["mrope_interleaved"])
            order = "strided" if strided else "contiguous"
        if order == "first_last":  # Ernie lists the first coordinate last
            sections = (*sections[-1:], *sections[:-1])
        return {"sections": sections, "section_order": order}

    def _layout(self) -> str:
        """Return the layout of the model, or raise if it is not known."""
        config, model_type = self.values, self.model_type
        flag = checks.optional_boolean("rope_interleave", config.get("rope_interleave"))
        if flag is not None and model_type.interleave:
            return "interleaved" if flag else "half"
        if model_type.layout is not None:
            return model_type.layout
        advice = "pass layout='half' or layout='interleaved', whichever its code has"
        if self.type is None and "patch_size" in config:
            advice = "pass `config | {'model_type': ...}` with the type of its model"
        parts = [k for k, x in config.items() if isinstance(x, Mapping) and "model_type" in x]
        if parts:
            advice += f", or one of its parts, of {parts}"
        advice = model_type.ask or advice + self.config.classes
        message = f"the layout of {self.name} is not known: {advice}."
        raise ValueError(message)

    def parameters(self, layer: Layer) -> Arguments:
        """Return the rotary parameters of a layer, with defaults, without None."""
        config, bases, rotary = self.values, self.model_type.bases, self.rotary
        default: Any = self.model_type.defaults.get("rope_theta", 10_000)
        base_keys: Any = self.model_type.base_keys or keys.BASES
        if bases or self.labels:
            if layer.type not in (bases or self.labels):
                names = sorted(bases or self.labels)
                raise wrong_value("layer_type", f"be one of {names}", f"{layer.type!r}")
            if bases:
                default, *base_keys = bases[str(layer.type)]
            if self.labels:
                rotary = rotary.get(str(layer.type), {})
            elif layer.type not in self.model_type.scaled:
                rotary = {}
        elif keys.ORIGINAL in config:
            # As in transformers, the outer value has priority.
            rotary = {**rotary, keys.ORIGINAL: config[keys.ORIGINAL]}
        shares, share = self.share_keys, self.model_type.defaults.get("partial_rotary_factor", 1.0)
        parameters = {
            "rope_theta": next((config[key] for key in base_keys if key in config), default),
            "partial_rotary_factor": next((config[key] for key in shares if key in config), share),
            **without_none(rotary),
        }
        if rotary.get("truncate", True) is None:
            parameters["truncate"] = False  # as in transformers
        if layer.base is not None:
            parameters["rope_theta"] = layer.base
        for key in ("rope_theta", "partial_rotary_factor"):
            _check_number(key, parameters[key])
        return parameters

    def head_size(self, layer: Layer) -> int:
        """Return the number of features of a head, or of the part of it that rotates."""
        values = self.values if layer.head_size is None else {"head_dim": layer.head_size}
        for key in ("qk_rope_head_dim", "head_dim", "kv_channels"):
            if key in values:
                return checks.feature_count(key, values[key])
        heads, hidden = "num_attention_heads", "hidden_size"
        count = checks.feature_count(heads, self.config.require(heads))
        size = checks.feature_count(hidden, self.config.require(hidden))
        return checks.quotient(hidden, size, heads, count)

    def _scaling(self, kind: str, options: Any, parameters: Values, seq_len: int) -> Scaling:
        """Return the scaling of a type with the fields `options`."""
        names = [option.name for option in options]
        arguments = {name: parameters[name] for name in names if name in parameters}
        if kind == "dynamic" and "alpha" in parameters:  # Hunyuan scales from the first token
            return NTKScaling(checks.positive_number("alpha", parameters["alpha"]))
        if "original_max_position" in names:
            # As in transformers, dynamic scaling ignores it.
            if keys.ORIGINAL in parameters and kind != "dynamic":
                original = checks.position_count(keys.ORIGINAL, parameters[keys.ORIGINAL])
            else:
                original = self.config.require(keys.LENGTH)
            arguments["original_max_position"] = original
            if "short_mscale" in parameters:  # of PhiMoE
                name = "long_mscale" if seq_len > original else "short_mscale"
                arguments["attention_factor"] = checks.positive_number(name, parameters.get(name))
            is_implied = kind == "longrope" or (kind == "yarn" and keys.ORIGINAL in parameters)
            if is_implied and "factor" not in arguments:
                arguments["factor"] = self.config.require(keys.LENGTH) / original
        for option in options:
            name = option.name
            if name.startswith("beta") and not arguments.get(name):
                arguments.pop(name, None)  # as in transformers, 0 is a missing value
            elif option.default is MISSING and name not in arguments:
                actual = sorted(parameters.keys() - {"rope_theta", "partial_rotary_factor"})
                message = f"the rotary parameters of {kind!r} must have {name!r}, got {actual}."
                raise ValueError(message)
        return SCALINGS[kind](**arguments)  # type: ignore[no-any-return]


def _is_rotary(config: Configuration, *, must_rotate: bool) -> bool:
    """Return whether a configuration switches rotation on; raise if the model never rotates."""
    values, model_type = config.values, config.model_type
    usual: Any = "no" if model_type.optional else "rope"
    # The code of most known models does not read it.
    is_read = model_type.optional or not model_type.is_listed
    kind = values.get("position_embedding_type", usual) if is_read else usual
    kind = "alibi" if checks.boolean("alibi", values.get("alibi", False)) else kind
    kind = "no rotary" if model_type.unrotated else kind
    refused = model_type.refused
    if kind not in ("rope", "rotary") and must_rotate:
        refused = f"it has {kind} positions, so leave its queries and keys as they are"
        rotary = [key for key in config.published if keys.is_rotary(key)]
        if model_type.unrotated and rotary:
            refused = f"transformers does not rotate, but code that reads {rotary} may"
    if refused:
        raise _refused(config.name, refused)
    key, usual = model_type.rotary_switch
    is_on = values.get(key, usual)
    if is_on not in (0, 1):
        raise wrong_value(key, "be true or false", format_value(is_on))
    return kind in ("rope", "rotary") and bool(is_on)


def _refused(name: str, reason: str) -> ValueError:
    return ValueError(f"no `RoPE` rotates as {name} does: {reason}.")


def _rotary_parameters(config: Configuration) -> Values:
    """Return the rotary parameters of a configuration, or the default ones."""
    model_type = config.model_type
    for key in keys.PARAMETERS:
        parameters: Any = config.values.get(key, {})
        if not isinstance(parameters, Mapping):
            raise wrong_type(key, "be a dict", f"{parameters!r}")
        is_flat = model_type.bases and not model_type.bases.keys() & parameters.keys()
        if parameters and is_flat and not (key == "rope_scaling" and model_type.scaled):
            requirement = (
                f"hold a dict for each of {sorted(model_type.bases)}, the layers of {config.name}"
            )
            raise wrong_value(key, requirement, format_value(parameters))
        if parameters:
            return parameters
        if key == "rope_parameters" and key in config.values and key in model_type.defaults:
            requirement = f"hold parameters, or be left out for the usual ones of {config.type!r}"
            raise wrong_value(key, requirement, "{}")
    return model_type.defaults.get("rope_parameters", {})  # type: ignore[no-any-return]


def _axial(
    head_size: int, coordinates: int, frequencies: str = "restart", scale: float = 1.0
) -> tuple[int, Arguments]:
    """Return the number of features that rotate by positions in images, and more arguments."""
    sections = (head_size // (2 * coordinates),) * coordinates
    if frequencies == "alternating":
        return 2 * sum(sections), {"sections": sections, "scaling": alternating_frequencies}
    arguments = {"sections": sections, "section_frequencies": frequencies, "scale": scale}
    return 2 * sum(sections), arguments


def alternating_frequencies(dim: int, base: float, _: int, /) -> Scaled:
    """Return the frequencies of even index for the row of a patch, then of odd for its column."""
    frequencies = inverse_frequencies(dim, base)
    return np.concat([frequencies[::2], frequencies[1::2]]), 1.0


def _check_number(key: str, value: Array) -> None:
    """Check a base or a share of features."""
    if checks.positive_number(key, value) > 1 and key in keys.SHARES:
        raise wrong_value(key, "be at most 1", value)
