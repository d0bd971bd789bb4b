"""The layers of a model: their types, which of them rotate, and sizes of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.models import keys
from positional_embeddings.models.configuration import Configuration, Values
from positional_embeddings.models.model_types import layer_types

# Types of layers whose queries and keys rotate if nothing else is known, and those without any.
ATTENTION_LAYERS = ("chunked_attention", "full_attention", "sliding_attention")
_WITHOUT_QUERIES = ("conv", "linear_attention", "moe")


class Layer(NamedTuple):
    """What tells the rotary embedding and the attention of a layer."""

    type: str | None
    rotates: bool
    base: float | None
    num_heads: int | None
    head_size: int | None
    num_kv_heads: int | None
    value_size: int | None


# The keys of the last four.
_SIZES = ("num_attention_heads", "head_dim", "num_key_value_heads", "v_head_dim")


class LayerConfig:
    """The layers of a configuration, whose rotary parameters are `given`."""

    def __init__(self, config: Configuration, given: Values, *, is_rotary: bool) -> None:
        self.config, self.type, self.name = config, config.type, config.name
        self.model_type, self.values, self.given = config.model_type, config.values, given
        self.is_rotary = is_rotary
        self.labels = [name for name, x in given.items() if isinstance(x, Mapping)]

    def count(self) -> int:
        """Return the number of layers, of the list of their types if the configuration has none."""
        if keys.NUM_LAYERS not in self.values and (types := self._listed()):
            return len(types)
        return self.config.number_of_layers()

    def layers(
        self, count: int | None = None, rule: Callable[[int], Sequence[Any] | None] | None = None
    ) -> list[Layer]:
        """Return the layers; if their number is not given, enough to see all kinds.

        A `rule` gives the types of that many layers where the configuration lists none.
        """
        bases = self.config.listed("layer_rope_theta")
        flags = self.config.listed("no_rope_layers") or bases
        name = "no_rope_layer_interval"
        interval = checks.non_negative_integer(name, self.values.get(name, 0))
        types = self._listed() or (rule and rule(count or 1))
        types = types or self._default_types(count, flags, interval)
        flags = flags or [not interval or (i + 1) % interval for i in range(len(types))]
        entries, count = min(len(types), len(flags)), count or len(types)
        if entries < count:
            message = f"the lists of layers must have {count} entries, one a layer, got {entries}."
            raise ValueError(message)
        own, own_bases = self._own(), dict(enumerate(bases)) if self.model_type.own_bases else {}
        return [
            Layer(
                name,
                bool(flags[i]) and self.is_rotary and self._rotates(name),
                own_bases.get(i),
                *self._sizes(str(name), own.get(i, {})),
            )
            for i, name in enumerate(types[:count])
        ]

    def _listed(self) -> list[str]:
        """Return the types of layers that the configuration lists, by their newest names."""
        layers = layer_types()
        known = {
            *layers["known"],
            *self.labels,
            *self.model_type.bases,
            *(self.model_type.rotates or ()),
        }
        for key, meanings in layers["lists"].items():
            names = [meanings.get(str(name), name) for name in self.config.listed(key)]
            types = [layers["new_names"].get(str(name), name) for name in names]
            if unknown := [name for name in types if name not in known]:
                requirement = f"hold types of layers that are known, {sorted({*known, *meanings})}"
                raise wrong_value(key, requirement, format_value(unknown[0]))
            if types:  # which blocks have again and again
                count = self.config.number_of_layers() if key == "block_types" else len(types)
                return (types * count)[:count]
        for key, (others, first) in layers["full_lists"].items():
            if full := self.config.listed(key):
                numbers = range(first, first + self.config.number_of_layers())
                return ["full_attention" if i in full else others for i in numbers]
        return []

    def _default_types(self, count: int | None, flags: list[Any], interval: int) -> list[Any]:
        """Return the type of each layer, None if the configuration does not tell them apart."""
        usual = self.values.get(keys.NUM_LAYERS, interval or 1)
        number = count or len(flags) or checks.feature_count(keys.NUM_LAYERS, usual)
        types = self.types_by(self.model_type.types, number) if self.model_type.types else []
        if types and (count is not None or any(map(self._rotates, types))):
            return types
        names = [*(self.model_type.bases or self.labels)] or [*(self.model_type.rotates or ())]
        if names and count is not None:
            self.config.needed("layer_types")
        return names or [None] * number

    def types_by(self, rule: Values, count: int) -> list[str]:
        """Return the types of layers by a rule."""
        key, at_key = (rule.get(name, name) for name in ("key", "at_key"))
        given: Any = {key: rule["every"], at_key: rule["at"], **self.values}
        period = checks.positive_integer(key, given[key])
        first = checks.integer(at_key, given[at_key])
        others = self.config.listed(rule.get("flags", ""))
        others = others or [(i - first) % period != 0 for i in range(count)]
        types = [rule["others" if is_other else "type"] for is_other in others]
        return [*types[:-1], rule.get("last", types[-1])]

    def _rotates(self, layer_type: str | None) -> bool:
        """Tell whether a type of layers rotates; an error if it may, and nothing is known."""
        if self.given.get(str(layer_type), self.given) is None:
            return False
        rotating: Any = self.model_type.rotates
        if rotating is None:
            rotating = (None, *ATTENTION_LAYERS, *self.labels)
        if self.model_type.windowless is not None and "sliding_window" not in self.values:
            rotating = self.model_type.windowless
        if layer_type in rotating or layer_type in (None, *ATTENTION_LAYERS, *_WITHOUT_QUERIES):
            return layer_type in rotating
        known = sorted({*ATTENTION_LAYERS, *_WITHOUT_QUERIES, *filter(None, rotating)})
        requirement = f"hold types of layers of which it is known whether {self.name} rotates them"
        hint = " Leave it out if all layers rotate alike, or make a `RoPE` for each by hand."
        raise wrong_value("layer_types", f"{requirement}, {known}", repr(layer_type), hint)

    def _own(self) -> dict[int, Values]:
        """Return what the configuration says of single layers."""
        name = "per_layer_config"
        own = self.values.get(name, {})
        layers: Any = own.items() if isinstance(own, Mapping) else [("", None)]
        if not all(str(i).isdecimal() and isinstance(x, Mapping) for i, x in layers):
            raise wrong_type(name, "be a dict from numbers of layers to dicts", format_value(own))
        heads = enumerate(self.config.listed("num_attention_heads_per_layer"))
        found: dict[int, Values] = {i: {"num_attention_heads": count} for i, count in heads}
        return found | {int(i): {**found.get(int(i), {}), **x} for i, x in layers}

    def _sizes(self, layer_type: str, own: Values) -> list[int | None]:
        """Return the sizes of a layer that differ from the others, else None."""
        own_keys = self.model_type.own.get(layer_type, {})
        found = []
        for name in _SIZES:
            key = self.config.chosen(own_keys.get(name))
            value = own.get(name, self.values.get(str(key)))
            found.append(checks.optional(checks.feature_count)(key or name, value))
        return found
