"""Arguments of `RoPE` from the rotary parameters of Hugging Face configurations."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from os import PathLike
from typing import Any, NamedTuple

from positional_embeddings.angles.frequencies import inverse_frequencies
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.models.facts import facts_of
from positional_embeddings.rotary.scaling import SCALINGS, Scaled, Scaling

Values = Mapping[str, Any]
Arguments = dict[str, Any]
Config = Values | str | PathLike[str]

# Types of rotary embeddings: those without scaling, and other names of scalings.
_WITHOUT_SCALING = ("default", "mrope")
_OTHER_NAMES = {"su": "longrope"}

# Rotary keys outside the rotary parameters.
# Of two names, the first one counts: it is the one that the code of its models reads.
_BASES = ("rotary_emb_base", "rope_theta", "rope_embedding_base")
_SHARES = ("rotary_pct", "partial_rotary_factor", "rope_pct")
_PARAMETERS = ("rope_scaling", "rope_parameters")
_LAYERS, _LENGTH = "num_hidden_layers", "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"
_TOP_KEYS = {
    *(*_BASES, *_SHARES, *_PARAMETERS, "layer_rope_theta", "no_rope_layer_interval"),
    *("no_rope_layers", "qk_rope_head_dim", "rope_interleave", "rotary", "rotary_dim"),
}

# Keys of the rotary parameters of all types; the others are the fields of the scaling.
_COMMON = {
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"),
    *("mrope_interleaved", _ORIGINAL, _LENGTH),
}

# Lists of layers with attention, by which transformers sets `layer_types`.
_LISTS = ("attn_layer_indices", "attn_type_list", "full_attn_idxs", "hybrid_layer_pattern")

# Types of layers that have queries and keys.
_ATTENTION_LAYERS = ("chunked_attention", "full_attention", "sliding_attention")

# Number of positions in the table for patches of images, where a configuration has none.
_PATCHES = 1024


class Layer(NamedTuple):
    """What tells the rotary embedding of a layer."""

    type: str | None
    rotates: bool
    base: float | None
    head_size: int | None


def layer_arguments(
    config: Config, seq_len: int | None, layout: str | None
) -> tuple[list[Layer], dict[Layer, Arguments]]:
    """Return the layers, and the arguments of the `RoPE` of the layers that rotate."""
    model = Model(config)
    layers = model.layers(checks.positive_integer(_LAYERS, model.needed(_LAYERS)))
    rotating = {layer for layer in layers if layer.rotates}
    return layers, {layer: model.arguments(layer, seq_len, layout) for layer in rotating}


def rope_arguments(
    config: Config, seq_len: int | None, layer_type: str | None, layout: str | None
) -> Arguments:
    """Return the arguments of the one `RoPE` of a model, or of its layers of a type."""
    model = Model(config)
    layers = [x for x in model.layers() if x.rotates or x.type in _ATTENTION_LAYERS]
    types = sorted({x.type for x in layers if x.rotates and x.type} or _ATTENTION_LAYERS)
    if layer_type is not None:
        if layer_type not in types:
            raise wrong_value("layer_type", f"be None or one of {types}", f"{layer_type!r}")
        layers = [x for x in layers if x.type in (None, layer_type)]
    rotating = dict.fromkeys(x for x in layers if x.rotates)
    found = [model.arguments(layer, seq_len, layout) for layer in rotating]
    if found and all(x.rotates for x in layers) and all(x == found[0] for x in found):
        return found[0]
    alike = [name for name in types if all(x.rotates for x in layers if x.type == name)]
    advice = f", or pass as `layer_type` one of {alike}" if alike and layer_type is None else ""
    message = f"layers of {model.name} differ: call `RoPE.layers_from_hf_config`{advice}."
    raise ValueError(message)


class Model:
    """A configuration with the defaults of its model, and what is known of the model."""

    def __init__(self, config: Config) -> None:
        given = read_config(config)
        self.type = given.get("model_type")
        self.name = "a configuration without `model_type`"
        if self.type is not None:
            self.name = f"the model type {self.type!r}"
        self.facts = facts_of(self.type)
        self.defaults = self.facts.get("defaults", {})
        names = self.facts.get("names", {})
        given = given | {name: given[key] for name, key in names.items() if key in given}
        # None takes the place of a default, but is no base and no share.
        rotary = (*_BASES, *_SHARES, *_PARAMETERS)
        plain = {key: value for key, value in self.defaults.items() if key not in rotary}
        self.config = _without_none(plain | given)
        self._check()
        self.given = self._given_parameters()
        self.labels = [name for name, value in self.given.items() if isinstance(value, Mapping)]

    def _check(self) -> None:
        """Refuse a model without rotation, and keys that are not known here."""
        config, facts = self.config, self.facts
        # The code of most models that are known does not read it, whatever it says.
        is_read = not facts or "optional" in facts
        kind = config.get("position_embedding_type", "rope") if is_read else "rope"
        if checks.boolean("alibi", config.get("alibi", False)):
            kind = "alibi"
        kind = "no rotary" if "unrotated" in facts else kind
        refused = facts.get("refused")
        if kind not in ("rope", "rotary"):
            refused = f"it has {kind} positions, so leave its queries and keys as they are"
        if refused:
            message = f"no `RoPE` rotates as {self.name} does: {refused}."
            raise ValueError(message)
        rotary = [key for key in config if "rope" in key or key.startswith("rotary")]
        keys = [key for label in facts.get("bases", {}).values() for key in label[1:]]
        given = [key for key in rotary if config[key]]
        _check_known(f"the rotary keys of {self.name}", given, _TOP_KEYS.union(keys))
        for key in {*_BASES, *_SHARES, *keys} & config.keys():
            _check_number(key, config[key])

    def _given_parameters(self) -> Values:
        """Return the rotary parameters as the configuration has them, or the default ones."""
        for key in _PARAMETERS:
            given = self.config.get(key, {})
            if not isinstance(given, Mapping):
                raise wrong_type(key, "be a dict", f"{given!r}")
            if given:
                return given
        return self.defaults.get("rope_parameters", {})  # type: ignore[no-any-return]

    def layers(self, count: int | None = None) -> list[Layer]:
        """Return the layers; if their number is not given, enough to see all kinds."""
        config = self.config
        types, bases = self._listed("layer_types"), self._listed("layer_rope_theta")
        flags = self._listed("no_rope_layers") or bases
        name = "no_rope_layer_interval"
        interval = checks.non_negative_integer(name, config.get(name, 0))
        some = config.get(_LAYERS, interval or 1)
        some = len(types or flags) or checks.positive_integer(_LAYERS, some)
        types = types or self._default_types(count or some, all_of_them=count is not None)
        flags = flags or [not interval or (i + 1) % interval for i in range(len(types))]
        if min(len(types), len(flags)) < (count or len(types)):
            message = f"the lists of layers must have {count or len(types)} entries."
            raise ValueError(message)
        sizes = {int(i): x.get("head_dim") for i, x in config.get("per_layer_config", {}).items()}
        own = dict(enumerate(bases)) if "own_bases" in self.facts else {}
        return [
            Layer(name, bool(flags[i]) and self._rotates(name), own.get(i), sizes.get(i))
            for i, name in enumerate(types[:count])
        ]

    def _listed(self, key: str) -> list[Any]:
        """Return a list with an entry for each layer, empty if the configuration has none."""
        value = self.config.get(key)
        if value is not None and not isinstance(value, list | tuple):
            raise wrong_type(key, "be a list with an entry for each layer", shown(value))
        return ["full_attention" if name == "attention" else name for name in value or ()]

    def _default_types(self, count: int, *, all_of_them: bool) -> list[str | None]:
        """Return the type of each layer, None if the configuration does not tell them apart."""
        rule = self.facts.get("types")
        if all_of_them and any(self.config.get(key) for key in _LISTS):
            self.needed("layer_types")
        if rule:
            key = rule.get("key", "period")
            every = checks.positive_integer(key, self.config.get(key, rule["every"]))
            at = rule["at"] % every
            types = [rule["type" if i % every == at else "others"] for i in range(count)]
            return [*types[:-1], rule.get("last", types[-1])]
        names = [*self.facts.get("bases", self.labels)] or [*self.facts.get("rotates", ())]
        if names and all_of_them:
            self.needed("layer_types")
        return names or [None] * count

    def _rotates(self, layer_type: str | None) -> bool:
        if self.given.get(str(layer_type), self.given) is None:
            return False
        types = self.facts.get("rotates", (None, *_ATTENTION_LAYERS, *self.labels))
        if "windowless" in self.facts and "sliding_window" not in self.config:
            types = self.facts["windowless"]
        return layer_type in types

    def arguments(self, layer: Layer, seq_len: int | None, layout: str | None) -> Arguments:
        """Return the arguments of the `RoPE` of a layer."""
        layout = self._layout() if layout is None else layout
        parameters = self._parameters(layer)
        kind = parameters.get("rope_type") or parameters.get("type") or "default"
        kind = _OTHER_NAMES.get(str(kind), kind)
        name = "rope_type" if "rope_type" in parameters else "type"
        axial = self.facts.get("axial")
        types = ["axial", "default"] if axial else sorted([*_WITHOUT_SCALING, *SCALINGS])
        if kind not in types:
            raise wrong_value(name, f"be one of {types}", f"{kind!r}")
        # The fields of a scaling have the names of its parameters, but for one in _COMMON.
        options = fields(SCALINGS[kind]) if kind in SCALINGS else ()
        known = {option.name for option in options} - {"original_max_position"} | _COMMON
        whose = f"of {kind!r}" if name in parameters else "without a 'rope_type'"
        known = known.union(self.facts.get("ignored", ()))
        _check_known(f"the rotary parameters {whose}", parameters, known)
        head_size = self._head_size(layer)
        length = self._seq_len(seq_len, kind)
        if axial:
            rotary_dim, more = _axial(head_size, **axial)
        else:
            rotary_dim = self._rotary_dim(kind, head_size, parameters["partial_rotary_factor"])
            more = self._sections(parameters)
            more["scaling"] = self._scaling(kind, options, parameters) if options else None
        return {
            "head_size": head_size,
            "seq_len": length,
            "base": parameters["rope_theta"],
            "layout": layout,
            "rotary_dim": None if rotary_dim == head_size else rotary_dim,
            **more,
        }

    def _seq_len(self, given: int | None, kind: str) -> int:
        """Return the number of positions in the table."""
        longest: Any = self.config.get(_LENGTH, _PATCHES if "axial" in self.facts else None)
        reason = "" if kind != "longrope" else "LongRoPE has other frequencies for long sequences"
        if longest is None:
            reason = f"the configuration has no {_LENGTH!r}"
        else:
            checks.position_count(_LENGTH, longest)
        if given is None and reason:
            message = f"`seq_len` must be given, as {reason}."
            raise ValueError(message)
        return longest if given is None else given

    def _rotary_dim(self, kind: str, head_size: int, share: float) -> int:
        """Return the number of rotated features."""
        config, facts = self.config, self.facts
        reads_share = not facts or "share" in facts or "rotary_dim" in self.defaults
        if (share != 1 or "rotary_dim" in config) and not reads_share and kind != "proportional":
            key = "rotary_dim" if share == 1 else "partial_rotary_factor"
            message = f"`{key}` must be left out for {self.type!r}, which rotates all features."
            raise ValueError(message)
        if kind == "proportional" or "qk_rope_head_dim" in self.defaults:
            return head_size
        if "rotary_dim" in config:
            return checks.positive_integer("rotary_dim", config["rotary_dim"], even=True)
        what = "int(head_dim * partial_rotary_factor)"
        return checks.positive_integer(what, int(head_size * share), even=True)

    def _sections(self, parameters: Values) -> Arguments:
        """Return the arguments for positions of several coordinates, if the model has any."""
        if "mrope_section" not in parameters:
            return {}
        order, sections = self.facts.get("sections", "contiguous"), parameters["mrope_section"]
        if order == "unknown":
            message = f"`mrope_section` of {self.type!r} has an order that is not known here."
            raise ValueError(message)
        if not isinstance(sections, list | tuple):
            raise wrong_type("mrope_section", "be a list of integers", f"{sections!r}")
        if "mrope_interleaved" in parameters:
            strided = checks.boolean("mrope_interleaved", parameters["mrope_interleaved"])
            order = "strided" if strided else "contiguous"
        return {"sections": sections, "section_order": order}

    def _layout(self) -> str:
        """Return the layout, if it is known of the model."""
        config, facts = self.config, self.facts
        flag = checks.optional_boolean("rope_interleave", config.get("rope_interleave"))
        if flag is not None and "interleave" in facts:
            return "interleaved" if flag else "half"
        if "layout" in facts:
            return str(facts["layout"])
        advice = "pass layout='half' or layout='interleaved', whichever its code has"
        if self.type is None and "patch_size" in config:
            advice = "pass `config | {'model_type': ...}` with the type of its model"
        parts = {key: value for key, value in config.items() if isinstance(value, Mapping)}
        if names := [key for key, value in parts.items() if "model_type" in value]:
            advice += f", or one of its parts, of {names}"
        message = f"the layout of {self.name} is not known: {facts.get('ask', advice)}."
        raise ValueError(message)

    def _parameters(self, layer: Layer) -> Arguments:
        """Return the rotary parameters of a layer, with defaults, without None."""
        config, given = self.config, self.given
        default, keys = self.defaults.get("rope_theta", 10_000), self.facts.get("base_keys", _BASES)
        bases = self.facts.get("bases", {})
        if bases or self.labels:
            if layer.type not in (bases or self.labels):
                names = sorted(bases or self.labels)
                raise wrong_value("layer_type", f"be one of {names}", f"{layer.type!r}")
            if bases:
                default, *keys = bases[layer.type]
            if self.labels:
                given = given.get(str(layer.type), {})
            elif layer.type not in self.facts.get("scaled", ()):
                given = {}
        elif _ORIGINAL in config:
            # Like transformers, prefer the outer value if there are two.
            given = {**given, _ORIGINAL: config[_ORIGINAL]}
        share = _first(config, _SHARES, self.defaults.get("partial_rotary_factor", 1.0))
        defaults = {"rope_theta": _first(config, keys, default), "partial_rotary_factor": share}
        parameters = defaults | _without_none(given)
        if layer.base is not None:
            parameters["rope_theta"] = layer.base
        for key in ("rope_theta", "partial_rotary_factor"):
            _check_number(key, parameters[key])
        return parameters

    def _head_size(self, layer: Layer) -> int:
        config = self.config if layer.head_size is None else {"head_dim": layer.head_size}
        of_full = ("global_head_dim",) * (layer.type == "full_attention")
        for key in (*of_full, "qk_rope_head_dim", "head_dim", "kv_channels"):
            if key in config:
                return checks.feature_count(key, config[key])
        heads, hidden = "num_attention_heads", "hidden_size"
        count = checks.feature_count(heads, self.needed(heads))
        size = checks.feature_count(hidden, self.needed(hidden))
        return checks.quotient(hidden, size, heads, count)

    def needed(self, key: str) -> Any:
        """Return a value of the configuration, or raise."""
        if key not in self.config:
            message = f"the configuration must have {key!r}, got {sorted(self.config)}."
            raise ValueError(message)
        return self.config[key]

    def _scaling(self, kind: str, options: Any, parameters: Values) -> Scaling:
        """Return the scaling of a type, whose fields are the options."""
        names = [option.name for option in options]
        given = {name: parameters[name] for name in names if name in parameters}
        if "original_max_position" in names:
            # Like transformers, dynamic scaling ignores it.
            if _ORIGINAL in parameters and kind != "dynamic":
                original = checks.position_count(_ORIGINAL, parameters[_ORIGINAL])
            else:
                original = self.needed(_LENGTH)
            given["original_max_position"] = original
            if kind in ("yarn", "longrope") and "factor" not in given:
                given["factor"] = self.needed(_LENGTH) / original
        for option in options:
            name = option.name
            if name.startswith("beta") and not given.get(name):
                given.pop(name, None)  # like transformers, take 0 as not given
            elif option.default is MISSING and name not in given:
                came = sorted(parameters.keys() - {"rope_theta", "partial_rotary_factor"})
                message = f"the rotary parameters of {kind!r} must have {name!r}, got {came}."
                raise ValueError(message)
        return SCALINGS[kind](**given)  # type: ignore[no-any-return]


def _axial(
    head_size: int, coordinates: int, frequencies: str = "restart", scale: float = 1.0
) -> tuple[int, Arguments]:
    """Return how many features rotate by places in images, and the arguments for it."""
    sections = (head_size // (2 * coordinates),) * coordinates
    if frequencies == "alternating":
        return 2 * sum(sections), {"sections": sections, "scaling": alternating_frequencies}
    more = {"sections": sections, "section_frequencies": frequencies, "scale": scale}
    return 2 * sum(sections), more


def alternating_frequencies(dim: int, base: float, _: int, /) -> Scaled:
    """Return every other frequency for the row of a patch, then the others for its column."""
    frequencies = inverse_frequencies(dim, base)
    return np.concat([frequencies[::2], frequencies[1::2]]), 1.0


def read_config(config: Config) -> Arguments:
    """Return a configuration, or its text model's, as a dict."""
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
    found = {"model_type": config.get("model_type")} | dict(text or config)
    model_type = found.pop("model_type")
    if model_type is not None:
        if not isinstance(model_type, str):
            raise wrong_type("model_type", "be a string", f"{model_type!r}")
        # Published parts of a model that are for images have the type of the whole model.
        part = "vision" if "patch_size" in found else "text"
        found["model_type"] = facts_of(model_type).get(part, model_type)
    return found


def from_json(text: bytes, where: str) -> Any:
    """Return what a JSON text holds; `where` it came from is for the message."""
    import json  # noqa: PLC0415 - takes long to import

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        came = f"{where}, which is no JSON: {error}"
        raise wrong_value("config", "be a dict or the path of a JSON object", came) from None


def _without_none(values: Values) -> Arguments:
    return {key: value for key, value in values.items() if value is not None}


def _check_known(what: str, keys: Iterable[str], known: Collection[str]) -> None:
    """Refuse keys that this module does not know: ignored, they could change the result."""
    for key in keys:
        if key not in known:
            message = f"{what} must be of {sorted(known)}, got {key!r}."
            raise ValueError(message)


def _check_number(key: str, value: Array) -> None:
    """Check a base, or the share of features that rotates."""
    if checks.positive_number(key, value) > 1 and key in _SHARES:
        raise wrong_value(key, "be at most 1", value)


def _first(values: Values, keys: Iterable[str], default: Any) -> Any:
    """Return the value of the first key that is there, or the default."""
    return next((values[key] for key in keys if key in values), default)
