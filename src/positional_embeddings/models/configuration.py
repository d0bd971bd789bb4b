"""Configurations of Hugging Face models, as the code of their type reads them."""

import re
from collections.abc import Mapping
from os import PathLike
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.models import keys
from positional_embeddings.models.model_types import ModelAttention, get_model_type

Values = Mapping[str, Any]
Config = Values | str | PathLike[str]

# Suffixes of the types of parts of a model.
_PART = re.compile("[_-](text|vision|audio|vision_encoder|encoder|decoder)(_model)?$")
# Name of a repository of the Hub.
_REPOSITORY = re.compile(r"[\w.-]+/(?!.*\.json$)[\w.-]+")
# Names of flags that switch the rotation of an unknown type.
_SWITCH = re.compile("^(use_|apply_|with_|has_)?(rope|rotary)(_pos)?(_emb[a-z]*)?$")


class Configuration:
    """A configuration and the `ModelType` of its type.

    `values` holds the keys that the code of the type reads, with its defaults, without None.
    """

    def __init__(self, config: Config) -> None:
        published = read_config(config)
        self.type = published.get("model_type")
        self.name = "a configuration without `model_type`"
        if self.type is not None:
            self.name = f"the model type {self.type!r}"
        self.model_type = get_model_type(self.type)
        self.attention = ModelAttention(**(self.model_type.attention or {}))
        classes = published.get("architectures")
        self.classes = f"; its architectures are {format_value(classes)}" if classes else ""
        self._check_sizes(published)
        names = self.model_type.names
        published |= {name: published[key] for name, key in names.items() if key in published}
        self.published = published | nested_keys(published)
        unread = {*keys.READ_BY_SOME} - {*self.model_type.reads}
        read = {key: x for key, x in self.published.items() if key not in unread}
        # None replaces a default, except for bases and shares.
        rotary = (*keys.BASES, *keys.SHARES, *keys.PARAMETERS)
        defaults = {**self.attention.defaults, **self.model_type.defaults}
        defaults = {key: value for key, value in defaults.items() if key not in rotary}
        self.values = without_none(defaults | read)

    def _check_sizes(self, published: Values) -> None:
        """Refuse sizes under the names of another format."""
        names, missing = self.model_type.names, {}
        for name, other_names in keys.OTHER_SIZES.items() if self.model_type.is_listed else ():
            read_names = dict.fromkeys([name, names.get(name, name)])
            unread = [key for key in other_names if key in published and key not in names.values()]
            if unread and not published.keys() & read_names:
                missing[" or ".join(map(repr, read_names))] = unread[0]
        if missing:
            message = f"the configuration has {[*missing.values()]}, which are no keys of "
            message += f"{self.name}: it must have {', '.join(missing)}."
            raise ValueError(message)

    def check_keys(self, requirement: str) -> None:
        """Refuse keys that the code names if their values were not compared.

        Keys that the code of the type does not name have no effect.
        """
        values = {**self.attention.defaults, **self.published}
        # Code that all types share reads `is_causal`.
        named = {"is_causal": True} if self.attention.is_causal else {}
        for key, usual in {**named, **self.model_type.named}.items():
            if key in values and (requirement == "attention" or keys.is_rotary(key)):
                self._check_key(key, values[key], usual, requirement)
        rotary_switch, _ = self.model_type.rotary_switch
        for key, value in {} if self.model_type.is_listed else values.items():
            is_read = key in {*keys.READ_BY_ALL, *keys.READ_BY_SOME, rotary_switch}
            # False switches nothing on, and None is a missing value.
            is_off = value is (_SWITCH.match(key) is not None) or value is None
            if keys.is_rotary(key) and not (is_read or is_off):
                message = f"`{key}` is not known of {self.name}, got {format_value(value)}: "
                message += f"its {requirement} may differ. "
                message += "Leave the key out if the model's code does not read it."
                raise ValueError(message)

    def _check_key(self, key: str, value: Any, usual: Any, requirement: str) -> None:
        """Refuse a value of a key if it was not compared."""
        compared = usual if isinstance(usual, list) else [usual]
        compared = [self.values.get(x, x) if isinstance(x, str) else x for x in compared]
        equal = (None, False) if value is None or value is False else (value,)
        if not any(x in compared for x in equal):
            usual = f"be {' or '.join(map(repr, compared))}, with which {self.name} was compared"
            advice = f"With another value its {requirement} may differ: make layers by hand."
            advice = self.attention.advice.get(key, advice)
            raise wrong_value(key, usual, format_value(value), f" {advice}")

    def require(self, key: str) -> Any:
        """Return a value, or raise if it is missing."""
        if key not in self.values:
            message = f"the configuration must have {key!r}: pass `config | {{{key!r}: ...}}`."
            raise ValueError(message)
        return self.values[key]

    def layer_list(self, key: str) -> list[Any]:
        """Return a list with an entry for each layer, empty if the key is missing."""
        value = self.values.get(key)
        kinds = (list, tuple, str) if key == "hybrid_override_pattern" else (list, tuple)
        if value is not None and not isinstance(value, kinds):
            raise wrong_type(key, "be a list with an entry for each layer", format_value(value))
        return list(value or ())

    def is_on(self, switch: str | None) -> bool:
        """Return whether a flag is true; True if `switch` is None."""
        return switch is None or checks.boolean(switch, self.require(switch))

    def choose_key(self, key: Any) -> Any:
        """Return a key; of pairs of a switch and a key, the first key whose switch is true."""
        if isinstance(key, str | None):
            return key
        return next((name for switch, name in key if self.is_on(switch)), None)

    def num_layers(self) -> int:
        """Return the number of layers."""
        return checks.feature_count(keys.NUM_LAYERS, self.require(keys.NUM_LAYERS))


def read_config(config: Config) -> dict[str, Any]:
    """Return a configuration, or its part for the text model, as a dict."""
    if isinstance(config, str | PathLike):
        import json  # noqa: PLC0415 - take long to import
        from pathlib import Path  # noqa: PLC0415

        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(path.read_bytes())
        except FileNotFoundError:
            actual = f"{str(path)!r}, which is no file"
            hint = f" Of a repository, pass hf_hub_download({str(path)!r}, 'config.json')."
            hint = hint if _REPOSITORY.fullmatch(str(path)) else ""
            requirement = "be a dict or the path of a JSON object"
            raise FileNotFoundError(wrong_value("config", requirement, actual, hint)) from None
        except (ValueError, RecursionError) as error:
            actual = f"{str(path)!r}, which is no JSON: {error}"
            raise wrong_value("config", "be a dict or the path of a JSON object", actual) from None
    if not isinstance(config, Mapping):
        actual = f"an object of type {type(config).__name__}"
        if hasattr(config, "to_dict"):
            actual += ": pass config.to_dict()"
        raise wrong_type("config", "be a dict or the path of a JSON object", actual)
    thinker: Any = config.get("thinker_config")  # of a model that also speaks
    model: Values = thinker if isinstance(thinker, Mapping) else config
    text = model.get("text_config")
    if text is not None and not isinstance(text, Mapping):
        raise wrong_type("text_config", "be a dict", f"{text!r}")
    values = {"model_type": model.get("model_type")} | dict(text or model)
    for part in (model, values) if text else (values,):
        _check_classes(part)
    name = values.pop("model_type")
    if name is not None:
        model_type = get_model_type(name)
        if model_type.is_listed:
            values.pop("architectures", None)
        # Published configurations of vision models have the type of the full model.
        part_type = model_type.vision if "patch_size" in values else model_type.text
        values["model_type"] = part_type or name
    return values


def _check_classes(config: Values) -> None:
    """Refuse a configuration whose classes are of another type, with other code."""
    type_name, classes = config.get("model_type"), config.get("architectures")
    if type_name is not None and not isinstance(type_name, str):
        raise wrong_type("model_type", "be a string", f"{type_name!r}")
    model_type = get_model_type(type_name)
    if classes is None or not model_type.is_listed:
        return
    if not isinstance(classes, list | tuple):
        raise wrong_type("architectures", "be a list of names of classes", format_value(classes))
    types = [name for name in (type_name, model_type.text, model_type.vision) if name]
    names = [x for name in types for x in (name, *get_model_type(name).classes)]
    prefixes = tuple(map(normalize_name, names))
    if not all(normalize_name(str(name)).startswith(prefixes) for name in classes):
        requirement = f"be classes of the model type {type_name!r}, whose names begin with it"
        hint = " Pass the configuration without `architectures` to read it as that type's."
        raise wrong_value("architectures", requirement, format_value(classes), hint)


def normalize_name(name: str) -> str:
    """Return the letters and digits of the name of a type or class, without the suffix `_PART`."""
    return re.sub("[^a-z0-9]", "", _PART.sub("", name).lower())


def without_none(values: Values) -> dict[str, Any]:
    """Return the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def nested_keys(config: Values) -> dict[str, Any]:
    """Return the keys of nested dicts of the same model, as ``dict.key``."""
    parts = {
        name: part
        for name, part in config.items()
        if isinstance(part, Mapping) and name not in keys.DICTS and not part.get("model_type")
    }
    return {f"{name}.{key}": x for name, part in parts.items() for key, x in part.items()}
