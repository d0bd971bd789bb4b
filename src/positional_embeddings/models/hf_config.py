"""Arguments of `RoPE` from the rotary parameters of Hugging Face configurations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from os import PathLike
from typing import Any, NamedTuple, get_args

from positional_embeddings.angles.frequencies import inverse_frequencies
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.models.facts import OWN_KEYS, Attention, facts_of, layer_types
from positional_embeddings.rotary.layouts import Layout
from positional_embeddings.rotary.scaling import SCALINGS, NTKScaling, Scaled, Scaling

Values = Mapping[str, Any]
Arguments = dict[str, Any]
Config = Values | str | PathLike[str]

LAYOUTS = get_args(Layout)

# Types of rotary embeddings: those without scaling, and other names of scalings.
_WITHOUT_SCALING = ("default", "mrope")
_OTHER_NAMES = {"su": "longrope", "deepseek_yarn": "yarn"}

# Rotary keys outside the rotary parameters.
# Of two names, the first one counts: it is the one that the code of its models reads.
_BASES = ("rotary_emb_base", "rope_theta", "rope_embedding_base")
_SHARES = ("rotary_pct", "partial_rotary_factor", "rope_pct")
_PARAMETERS = ("rope_scaling", "rope_parameters")
_NUM_LAYERS, _LENGTH = "num_hidden_layers", "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"
TOP_KEYS = {
    *(*_BASES, *_SHARES, *_PARAMETERS, "rope_interleave", "rope_interleaved", "rotary"),
    "rotary_dim",
}

# Keys of the rotary parameters of all types; the others are the fields of the scaling.
_COMMON = {
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"),
    *("mrope_interleaved", _ORIGINAL, _LENGTH),
}

# Dicts that are read elsewhere or not at all.
_DICTS = (
    *(*_PARAMETERS, "per_layer_config", "quantization_config", "vision_config", "audio_config"),
    "protein_encoder_config",
)

# Types of layers that have queries and keys.
_ATTENTION_LAYERS = ("chunked_attention", "full_attention", "sliding_attention")

_UNKNOWN = (
    "its type is not among those that were compared; pass `config | {'model_type': ...}` with the "
    "type of a model of the same code, or make layers by hand"
)
# The way on, where the reason of a refusal does not say it.
_BY_HAND = " Make an `AttentionLayer` for each of its layers by hand, as its code attends."

# Number of positions in the table for patches of images, where a configuration has none.
_PATCHES = 1024


class Layer(NamedTuple):
    """What tells the rotary embedding of a layer."""

    type: str | None
    rotates: bool
    base: float | None
    num_heads: int | None
    head_size: int | None
    num_kv_heads: int | None


def layer_arguments(
    config: Config, seq_len: int | None, layout: str | None
) -> tuple[list[Layer], dict[Layer, Arguments]]:
    """Return the layers, and the arguments of the `RoPE` of the layers that rotate."""
    model = Model(config)
    layers = model.layers(model.count())
    rotating = {layer for layer in layers if layer.rotates}
    return layers, {layer: model.arguments(layer, seq_len, layout) for layer in rotating}


def rope_arguments(
    config: Config, seq_len: int | None, layer_type: str | None, layout: str | None
) -> Arguments:
    """Return the arguments of the one `RoPE` of a model, or of its layers of a type."""
    model = Model(config)
    if not model.is_rotary:
        message = (
            f"no `RoPE` rotates as {model.name} does: its configuration switches rotation off."
        )
        raise ValueError(message)
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

    def __init__(self, config: Config, *, must_rotate: bool = True) -> None:
        given = read_config(config)
        self.type = given.get("model_type")
        self.name = "a configuration without `model_type`"
        if self.type is not None:
            self.name = f"the model type {self.type!r}"
        self.facts = facts_of(self.type)
        self.attention = Attention(**(self.facts.attention or {}))
        self.defaults = self.facts.defaults
        if not must_rotate:
            self._check_attention(given.get("architectures"))
        names = self.facts.names
        given = given | {name: given[key] for name, key in names.items() if key in given}
        self.published = given
        # None takes the place of a default, but is no base and no share.
        rotary = (*_BASES, *_SHARES, *_PARAMETERS)
        plain = {key: value for key, value in self.defaults.items() if key not in rotary}
        self.config = without_none(plain | given)
        self.is_rotary = True
        self._check(must_rotate=must_rotate)
        self.given = self._given_parameters()
        self.labels = [name for name, value in self.given.items() if isinstance(value, Mapping)]

    def _check_attention(self, architectures: object) -> None:
        """Refuse a model whose attention is not known."""
        facts = self.facts
        reason = self.attention.refused
        if not facts.is_known:
            reason = _UNKNOWN
            reason += f"; its architectures are {shown(architectures)}" if architectures else ""
        elif facts.attention is None:
            reason = facts.refused or "it was not compared"
        if reason:
            way_on = "" if "by hand" in reason or ": " in reason else _BY_HAND
            message = f"no `AttentionLayer` attends as {self.name} does: {reason}.{way_on}"
            raise ValueError(message)

    def _check(self, *, must_rotate: bool) -> None:
        """Refuse a model without rotation if it must rotate, and keys that are not known here."""
        config, facts = self.config, self.facts
        # The code of most models that are known does not read it, whatever it says.
        is_read = not facts.is_known or facts.optional
        kind = config.get("position_embedding_type", "rope") if is_read else "rope"
        if checks.boolean("alibi", config.get("alibi", False)):
            kind = "alibi"
        kind = "no rotary" if facts.unrotated else kind
        self.is_rotary = kind in ("rope", "rotary") and self._is_on()
        rotary = [key for key in self.published if _is_rotary(key)]
        refused = facts.refused
        if kind not in ("rope", "rotary") and must_rotate:
            refused = f"it has {kind} positions, so leave its queries and keys as they are"
            if facts.unrotated and rotary:
                refused = f"transformers does not rotate, but code that reads {rotary} may"
        if refused:
            message = f"no `RoPE` rotates as {self.name} does: {refused}."
            raise ValueError(message)
        keys = [key for label in facts.bases.values() for key in label[1:]]
        known = {"rope_interleave", *self.known_keys(), *self.attention.unread}
        settled = self.attention.settled.items()
        known |= {key for key, x in settled if self.published.get(key) == x}
        own = OWN_KEYS if must_rotate else ()
        for key, value in {**self.published, **nested(self.published)}.items():
            if (_is_rotary(key) or key in own) and key not in known:
                raise unknown_key(key, value, self.name, "rotation")
        for key in {*_BASES, *_SHARES, *keys} & config.keys():
            _check_number(key, config[key])
        usual = self.defaults.get("partial_rotary_factor", 1)
        for key in _SHARES if facts.is_known else ():
            if key not in facts.share_keys and config.get(key, usual) != usual:
                what = f"be left out for {self.type!r}, whose share is in {[*facts.share_keys]}"
                raise wrong_value(key, what, shown(config[key]))

    def _is_on(self) -> bool:
        """Tell whether the configuration does not switch rotation off."""
        key, usual = self.facts.rotary_switch
        has_share = self.type != "nomic_bert" or self.config.get("rotary_emb_fraction") != 0
        return has_share and checks.boolean(key, self.config.get(key, usual))

    def known_keys(self) -> set[str]:
        """Return the keys that could mean positions, and are read here."""
        facts = self.facts
        of_bases = [key for label in facts.bases.values() for key in label[1:]]
        optional = ["position_embedding_type"] if facts.optional else []
        read = {*TOP_KEYS, _LENGTH, _ORIGINAL, *of_bases, *facts.names.values(), *optional}
        read |= {*facts.more_keys, facts.rotary_switch[0], *facts.reads, *facts.names}
        read |= {*layer_types().lists, *layer_types().full_lists}
        return read - {"rope_interleave"} if facts.interleave is False else read

    def _given_parameters(self) -> Values:
        """Return the rotary parameters as the configuration has them, or the default ones."""
        for key in _PARAMETERS:
            given = self.config.get(key, {})
            if not isinstance(given, Mapping):
                raise wrong_type(key, "be a dict", f"{given!r}")
            if given:
                return given
            if key == "rope_parameters" and key in self.config and key in self.defaults:
                what = f"hold parameters, or be left out for the usual ones of {self.type!r}"
                raise wrong_value(key, what, "{}")
        return self.defaults.get("rope_parameters", {})  # type: ignore[no-any-return]

    def layers(
        self, count: int | None = None, rule: Callable[[int], list[str] | None] | None = None
    ) -> list[Layer]:
        """Return the layers; if their number is not given, enough to see all kinds.

        A `rule` gives the types of layers where the configuration lists none.
        """
        config = self.config
        types: Sequence[Any] = self.layer_types()
        bases = self._listed("layer_rope_theta")
        flags = self._listed("no_rope_layers") or bases
        name = "no_rope_layer_interval"
        interval = checks.non_negative_integer(name, config.get(name, 0))
        some = config.get(_NUM_LAYERS, interval or 1)
        some = len(types or flags) or checks.feature_count(_NUM_LAYERS, some)
        types = (
            types
            or (rule and rule(count or some))
            or self._default_types(count or some, all_of_them=count is not None)
        )
        flags = flags or [not interval or (i + 1) % interval for i in range(len(types))]
        entries, count = min(len(types), len(flags)), count or len(types)
        if entries < count:
            message = f"the lists of layers must have {count} entries, one a layer, got {entries}."
            raise ValueError(message)
        own = self._own()
        own_bases = dict(enumerate(bases)) if self.facts.own_bases else {}
        heads = dict(enumerate(self._listed("num_attention_heads_per_layer")))
        found = []
        for i, name in enumerate(types[:count]):
            rotates = bool(flags[i]) and self.is_rotary and self._rotates(name)
            numbers = {"num_attention_heads_per_layer": heads.get(i)}
            numbers |= {key: own.get(i, {}).get(key) for key in ("head_dim", "num_key_value_heads")}
            sizes = [checks.optional(checks.feature_count)(*number) for number in numbers.items()]
            found.append(Layer(name, rotates, own_bases.get(i), *sizes))
        return found

    def count(self) -> int:
        """Return the number of layers, of the list of their types if the configuration has none."""
        if _NUM_LAYERS not in self.config and (types := self.layer_types()):
            return len(types)
        return self._count()

    def _count(self) -> int:
        return checks.feature_count(_NUM_LAYERS, self.needed(_NUM_LAYERS))

    def _own(self) -> dict[int, Values]:
        """Return what the configuration says of single layers."""
        name = "per_layer_config"
        own = self.config.get(name, {})
        layers: Any = own.items() if isinstance(own, Mapping) else [("", None)]
        if not all(str(i).isdecimal() and isinstance(x, Mapping) for i, x in layers):
            raise wrong_type(name, "be a dict from numbers of layers to dicts", shown(own))
        return {int(i): x for i, x in layers}

    def _listed(self, key: str) -> list[Any]:
        """Return a list with an entry for each layer, empty if the configuration has none."""
        name, _, inner = key.partition(".")
        value = self.config.get(name)
        if inner:
            value = value.get(inner) if isinstance(value, Mapping) else None
        kinds = (list, tuple, str) if key == "hybrid_override_pattern" else (list, tuple)
        if value is not None and not isinstance(value, kinds):
            raise wrong_type(key, "be a list with an entry for each layer", shown(value))
        return list(value or ())

    def layer_types(self) -> list[str]:
        """Return the types of layers that the configuration lists, by their newest names."""
        facts, layers = self.facts, layer_types()
        known = {*layers.known, *self.labels, *facts.bases, *(facts.rotates or ())}
        for key, meanings in layers.lists.items():
            listed = [meanings.get(str(name), name) for name in self._listed(key)]
            types = [layers.new_names.get(str(name), name) for name in listed]
            for name in types:
                if name not in known:
                    what = f"hold types of layers that are known, {sorted({*known, *meanings})}"
                    raise wrong_value(key, what, shown(name))
            if types and key == "block_types":  # again and again
                return (types * self._count())[: self._count()]
            if types:
                return types
        for key, (others, first) in layers.full_lists.items():
            if full := self._listed(key):
                numbers = range(first, first + self._count())
                return ["full_attention" if i in full else others for i in numbers]
        return []

    def _default_types(self, count: int, *, all_of_them: bool) -> list[str | None]:
        """Return the type of each layer, None if the configuration does not tell them apart."""
        types = self.types_by(self.facts.types, count) if self.facts.types else []
        if types and (all_of_them or any(map(self._rotates, types))):
            return [*types]
        names = [*(self.facts.bases or self.labels)] or [*(self.facts.rotates or ())]
        if names and all_of_them:
            self.needed("layer_types")
        return names or [None] * count

    def types_by(self, rule: Values, count: int) -> list[str]:
        """Return the types of layers by a rule."""
        key, at_key = (rule.get(name, name) for name in ("key", "at_key"))
        given: Any = self.config.get(key, rule["every"])
        every = checks.positive_integer(key, given)
        given = self.config.get(at_key, rule["at"])
        at = checks.integer(at_key, given) % every
        others = self._listed(rule.get("flags", "")) or [i % every != at for i in range(count)]
        types = [rule["others" if is_other else "type"] for is_other in others]
        return [*types[:-1], rule.get("last", types[-1])]

    def _rotates(self, layer_type: str | None) -> bool:
        if self.given.get(str(layer_type), self.given) is None:
            return False
        usual = (None, *_ATTENTION_LAYERS, *self.labels)
        types = usual if self.facts.rotates is None else self.facts.rotates
        if self.facts.windowless is not None and "sliding_window" not in self.config:
            types = self.facts.windowless
        return layer_type in types

    def arguments(self, layer: Layer, seq_len: int | None, layout: str | None) -> Arguments:
        """Return the arguments of the `RoPE` of a layer."""
        layout = self._layout() if layout is None else checks.choice("layout", layout, LAYOUTS)
        parameters = self.parameters(layer)
        kind = parameters.get("rope_type") or parameters.get("type") or "default"
        kind = _OTHER_NAMES.get(str(kind), kind)
        name = "rope_type" if "rope_type" in parameters else "type"
        axial = self.facts.axial
        if kind in layout_names(layout):
            kind = "default"
        scalings = SCALINGS if self.facts.has_scaling else ()
        types = ["axial", "default"] if axial else sorted([*_WITHOUT_SCALING, *scalings])
        if kind not in types:
            raise wrong_value(name, f"be one of {types}", f"{kind!r}")
        # The fields of a scaling have the names of its parameters, but for one in _COMMON.
        options = fields(SCALINGS[kind]) if kind in SCALINGS else ()
        known = {option.name for option in options} - {"original_max_position"} | _COMMON
        whose = f"of {kind!r}" if name in parameters else "without a 'rope_type'"
        known = known.union(self.facts.ignored, self.facts.more_parameters.get(kind, ()))
        for key in parameters.keys() - known:
            message = f"the rotary parameters {whose} must be of {sorted(known)}, got {key!r}."
            raise ValueError(message)
        head_size = self.head_size(layer)
        length = self._seq_len(seq_len, kind)
        if axial:
            rotary_dim, more = _axial(head_size, **axial)
        else:
            rotary_dim = self._rotary_dim(kind, head_size, parameters["partial_rotary_factor"])
            more = self._sections(parameters)
            more["scaling"] = self._scaling(kind, options, parameters, length) if options else None
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
        longest: Any = self.config.get(_LENGTH, _PATCHES if self.facts.axial else None)
        if longest is not None:
            checks.position_count(_LENGTH, longest)
        if given is not None:
            return given
        if longest is not None and kind != "longrope":
            return longest  # type: ignore[no-any-return]
        reason = "LongRoPE has other frequencies for long sequences"
        reason = f"the configuration has no {_LENGTH!r}" if longest is None else reason
        message = f"`seq_len` must be given, as {reason}."
        raise ValueError(message)

    def _rotary_dim(self, kind: str, head_size: int, share: float) -> int:
        """Return the number of rotated features."""
        config, facts = self.config, self.facts
        reads_share = not facts.is_known or facts.share or "rotary_dim" in self.defaults
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
        sections = parameters.get("mrope_section", self.facts.mrope_section)
        if sections is None:
            return {}
        order = self.facts.sections or "contiguous"
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
        if flag is not None and facts.interleave:
            return "interleaved" if flag else "half"
        stated = config.get("rope_interleaved")
        stated = checks.optional_boolean("rope_interleaved", stated)
        if facts.layout is not None:
            if stated is not None and stated is not (facts.layout == "interleaved"):
                what = f"agree with the layout of {self.name}, {facts.layout!r}"
                raise wrong_value("rope_interleaved", what, stated)
            return facts.layout
        advice = "pass layout='half' or layout='interleaved', whichever its code has"
        if self.type is None and "patch_size" in config:
            advice = "pass `config | {'model_type': ...}` with the type of its model"
        parts = {key: value for key, value in config.items() if isinstance(value, Mapping)}
        if names := [key for key, value in parts.items() if "model_type" in value]:
            advice += f", or one of its parts, of {names}"
        if not facts.is_known and config.get("architectures"):
            advice += f"; its architectures are {shown(config['architectures'])}"
        message = f"the layout of {self.name} is not known: {facts.ask or advice}."
        raise ValueError(message)

    def parameters(self, layer: Layer) -> Arguments:
        """Return the rotary parameters of a layer, with defaults, without None."""
        config, given = self.config, self.given
        default, keys = self.defaults.get("rope_theta", 10_000), self.facts.base_keys or _BASES
        bases = self.facts.bases
        if bases or self.labels:
            if layer.type not in (bases or self.labels):
                names = sorted(bases or self.labels)
                raise wrong_value("layer_type", f"be one of {names}", f"{layer.type!r}")
            if bases:
                default, *keys = bases[str(layer.type)]
            if self.labels:
                given = given.get(str(layer.type), {})
            elif layer.type not in self.facts.scaled:
                given = {}
        elif _ORIGINAL in config:
            # Like transformers, prefer the outer value if there are two.
            given = {**given, _ORIGINAL: config[_ORIGINAL]}
        shares = ("rotary_emb_fraction",) if self.type == "nomic_bert" else _SHARES
        share = _first(config, shares, self.defaults.get("partial_rotary_factor", 1.0))
        defaults = {"rope_theta": _first(config, keys, default), "partial_rotary_factor": share}
        parameters = defaults | without_none(given)
        if given.get("truncate", True) is None:
            parameters["truncate"] = False  # like transformers
        if layer.base is not None:
            parameters["rope_theta"] = layer.base
        for key in ("rope_theta", "partial_rotary_factor"):
            _check_number(key, parameters[key])
        return parameters

    def head_size(self, layer: Layer) -> int:
        """Return the number of features of a head, or of its part that rotates."""
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
            message = f"the configuration must have {key!r}: pass `config | {{{key!r}: ...}}`."
            raise ValueError(message)
        return self.config[key]

    def _scaling(self, kind: str, options: Any, parameters: Values, seq_len: int) -> Scaling:
        """Return the scaling of a type, whose fields are the options."""
        names = [option.name for option in options]
        given = {name: parameters[name] for name in names if name in parameters}
        if kind == "dynamic" and "alpha" in parameters:  # of Hunyuan, from the first token on
            return NTKScaling(checks.positive_number("alpha", parameters["alpha"]))
        if "original_max_position" in names:
            # Like transformers, dynamic scaling ignores it.
            if _ORIGINAL in parameters and kind != "dynamic":
                original = checks.position_count(_ORIGINAL, parameters[_ORIGINAL])
            else:
                original = self.needed(_LENGTH)
            given["original_max_position"] = original
            if "short_mscale" in parameters:  # of PhiMoE
                name = "long_mscale" if seq_len > original else "short_mscale"
                given["attention_factor"] = checks.positive_number(name, parameters.get(name))
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
        facts = facts_of(model_type)
        part = facts.vision if "patch_size" in found else facts.text
        found["model_type"] = part or model_type
    return found


def from_json(text: bytes, where: str) -> Any:
    """Return what a JSON text holds; `where` it came from is for the message."""
    import json  # noqa: PLC0415 - takes long to import

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        came = f"{where}, which is no JSON: {error}"
        raise wrong_value("config", "be a dict or the path of a JSON object", came) from None


def without_none(values: Values) -> Arguments:
    """Return what is not None: what a configuration says nothing of."""
    return {key: value for key, value in values.items() if value is not None}


def nested(config: Values) -> Arguments:
    """Return the keys of dicts that hold further keys of the same model, as ``dict.key``."""
    parts = {
        name: part
        for name, part in config.items()
        if isinstance(part, Mapping) and name not in _DICTS and not part.get("model_type")
    }
    return {f"{name}.{key}": x for name, part in parts.items() for key, x in part.items()}


def layout_names(layout: str | None) -> tuple[str, ...]:
    """Return what keys of published configurations call rotation in a layout."""
    return ("rope", "rotary", *(("rope_gptj", "gptj") if layout == "interleaved" else ()))


def unknown_key(key: str, value: object, name: str, what: str) -> ValueError:
    """Return an error for a key that could change what a model does; ignored, it would."""
    message = (
        f"`{key}` is not known of {name}, got {shown(value)}: its {what} may differ. Leave the key "
        "out if the code of the model does not read it."
    )
    return ValueError(message)


def _is_rotary(key: str) -> bool:
    return any(part in key for part in ("rope", "rotary", "ntk"))


def _check_number(key: str, value: Array) -> None:
    """Check a base, or the share of features that rotates."""
    if checks.positive_number(key, value) > 1 and key in _SHARES:
        raise wrong_value(key, "be at most 1", value)


def _first(values: Values, keys: Iterable[str], default: Any) -> Any:
    """Return the value of the first key that is there, or the default."""
    return next((values[key] for key in keys if key in values), default)
