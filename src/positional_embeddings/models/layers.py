"""Layers of a model: types, rotation and sizes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.models import keys
from positional_embeddings.models.configuration import Configuration, Values
from positional_embeddings.models.model_types import layer_types

# Types of layers that rotate by default, and types without queries.
ATTENTION_LAYERS = ("chunked_attention", "full_attention", "sliding_attention")
_WITHOUT_QUERIES = ("conv", "linear_attention", "moe")


class Layer(NamedTuple):
    """Values that determine the rotary embedding and the attention of a layer."""

    type: str | None
    rotates: bool
    base: float | None
    num_heads: int | None
    head_size: int | None
    num_kv_heads: int | None
    value_size: int | None


# Keys of the last four fields of `Layer`.
_SIZES = ("num_attention_heads", "head_dim", "num_key_value_heads", "v_head_dim")


class LayerConfig:
    """Layers of a configuration with some rotary parameters."""

    def __init__(self, config: Configuration, rotary: Values, *, is_rotary: bool) -> None:
        self.config, self.type, self.name = config, config.type, config.name
        self.model_type, self.values = config.model_type, config.values
        self.rotary, self.is_rotary = rotary, is_rotary
        self.labels = [name for name, x in rotary.items() if isinstance(x, Mapping)]

    def num_layers(self) -> int:
        """Return the number of layers, or the length of the list of their types."""
        if keys.NUM_LAYERS not in self.values and (types := self._listed_types()):
            return len(types)
        return self.config.num_layers()

    def layers(
        self, count: int | None = None, rule: Callable[[int], Sequence[Any] | None] | None = None
    ) -> list[Layer]:
        """Return `count` layers, or layers of all types if `count` is None.

        A `rule` returns the types of a number of layers if the configuration lists none.
        """
        bases = self.config.layer_list("layer_rope_theta")
        flags = self.config.layer_list("no_rope_layers") or bases
        name = "no_rope_layer_interval"
        interval = checks.non_negative_integer(name, self.values.get(name, 0))
        listed = self._listed_types() or (rule and rule(count or 1))
        types = listed or self._default_types(count, flags, interval)
        flags = flags or [not interval or (i + 1) % interval for i in range(len(types))]
        entries, count = min(len(types), len(flags)), count or len(types)
        if entries < count:
            message = f"the lists of layers must have {count} entries, one a layer, got {entries}."
            raise ValueError(message)
        overrides, layer_bases = self._overrides(), bases if self.model_type.layer_bases else ()
        return [
            Layer(
                name,
                bool(flags[i]) and self.is_rotary and self._rotates(name),
                layer_bases[i] if i < len(layer_bases) else None,
                *self._sizes(str(name), overrides.get(i, {})),
            )
            for i, name in enumerate(types[:count])
        ]

    def _listed_types(self) -> list[str]:
        """Return the types of layers that the configuration lists, by their current names."""
        layers = layer_types()
        known_types = {
            *layers["names"],
            *self.labels,
            *self.model_type.bases,
            *(self.model_type.rotates or ()),
        }
        for key, meanings in layers["lists"].items():
            names = [meanings.get(str(name), name) for name in self.config.layer_list(key)]
            types = [layers["new_names"].get(str(name), name) for name in names]
            if unknown := [name for name in types if name not in known_types]:
                names = sorted({*known_types, *meanings})
                requirement = f"hold types of layers that are known, {names}"
                raise wrong_value(key, requirement, format_value(unknown[0]))
            if types:  # `block_types` is periodic
                count = self.config.num_layers() if key == "block_types" else len(types)
                return (types * count)[:count]
        for key, (other_type, first) in layers["full_lists"].items():
            if full := self.config.layer_list(key):
                numbers = range(first, first + self.config.num_layers())
                return ["full_attention" if i in full else other_type for i in numbers]
        return []

    def _default_types(self, count: int | None, flags: list[Any], interval: int) -> list[Any]:
        """Return the type of each layer, None if the configuration has one type only."""
        default = self.values.get(keys.NUM_LAYERS, interval or 1)
        number = count or len(flags) or checks.feature_count(keys.NUM_LAYERS, default)
        types = self.types_by_rule(self.model_type.types, number) if self.model_type.types else []
        if types and (count is not None or any(map(self._rotates, types))):
            return types
        names = [*(self.model_type.bases or self.labels)] or [*(self.model_type.rotates or ())]
        if names and count is not None:
            self.config.require("layer_types")
        return names or [None] * number

    def types_by_rule(self, rule: Values, count: int) -> list[str]:
        """Return the types of layers by a rule of `ModelType.types`."""
        period_key, offset_key = (rule.get(name, name) for name in ("period_key", "offset_key"))
        values: Any = {period_key: rule["period"], offset_key: rule["offset"], **self.values}
        period = checks.positive_integer(period_key, values[period_key])
        offset = checks.integer(offset_key, values[offset_key])
        flags = self.config.layer_list(rule.get("flags_key", ""))
        flags = flags or [(i - offset) % period != 0 for i in range(count)]
        types = [rule["other_type" if flag else "type"] for flag in flags]
        return [*types[:-1], rule.get("last_type", types[-1])]

    def _rotates(self, layer_type: str | None) -> bool:
        """Return whether a type of layers rotates; raise if it is not known."""
        if self.rotary.get(str(layer_type), self.rotary) is None:
            return False
        rotating: Any = self.model_type.rotates
        if rotating is None:
            rotating = (None, *ATTENTION_LAYERS, *self.labels)
        if self.model_type.windowless is not None and "sliding_window" not in self.values:
            rotating = self.model_type.windowless
        if layer_type in rotating or layer_type in (None, *ATTENTION_LAYERS, *_WITHOUT_QUERIES):
            return layer_type in rotating
        names = sorted({*ATTENTION_LAYERS, *_WITHOUT_QUERIES, *filter(None, rotating)})
        requirement = f"hold types of layers of which it is known whether {self.name} rotates them"
        hint = " Leave it out if all layers rotate alike, or make a `RoPE` for each by hand."
        raise wrong_value("layer_types", f"{requirement}, {names}", repr(layer_type), hint)

    def _overrides(self) -> dict[int, Values]:
        """Return the values of single layers, by the index of the layer."""
        name = "per_layer_config"
        items = self.values.get(name, {})
        layers: Any = items.items() if isinstance(items, Mapping) else [("", None)]
        if not all(str(i).isdecimal() and isinstance(x, Mapping) for i, x in layers):
            raise wrong_type(name, "be a dict from numbers of layers to dicts", format_value(items))
        heads = enumerate(self.config.layer_list("num_attention_heads_per_layer"))
        overrides: dict[int, Values] = {i: {"num_attention_heads": count} for i, count in heads}
        return overrides | {int(i): {**overrides.get(int(i), {}), **x} for i, x in layers}

    def _sizes(self, layer_type: str, overrides: Values) -> list[int | None]:
        """Return the sizes in the order of `_SIZES`, None for the sizes of the model."""
        size_keys = self.model_type.layer_sizes.get(layer_type, {})
        sizes = []
        for name in _SIZES:
            key = self.config.choose_key(size_keys.get(name))
            value = overrides.get(name, self.values.get(str(key)))
            sizes.append(checks.optional(checks.feature_count)(key or name, value))
        return sizes
