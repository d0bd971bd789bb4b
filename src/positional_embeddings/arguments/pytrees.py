"""Layers as pytrees of JAX: their arrays are leaves, and all else is what they are compiled for.

JAX is not imported for it. Classes wait here until a layer is made while JAX is there, which is
before any layer can hold an array of JAX. A layer that was made before JAX was imported, and
is to be an argument of `jax.jit`, needs another layer made after it.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

from positional_embeddings.arrays.namespace import Array

# Classes of layers that are registered once a layer is made while JAX is there.
waiting: list[type] = []


def register_waiting() -> None:
    """Register the classes that wait, if JAX has been imported."""
    tree = sys.modules.get("jax.tree_util") if waiting else None
    register = getattr(tree, "register_pytree_with_keys", None)
    while register is not None and waiting:
        flatten = partial(_flatten, tree.GetAttrKey)  # type: ignore[union-attr]
        register(waiting.pop(), flatten, _unflatten)


def _flatten(key: Callable[[str], object], layer: Any) -> tuple[list[tuple[object, Array]], Any]:
    """Return the arrays of a layer, each with its key, and the layer without them."""
    names, derived = _names(type(layer))
    if not names:
        return [], layer
    # Equal, and with one hash, if the options are; what is known of the arrays goes with them.
    rest = object.__new__(type(layer))
    # A seed belongs to the arrays that were drawn from it, not to others.
    seed = {"rng": None} if "rng" in layer.__dict__ else {}
    rest.__dict__.update(layer.__dict__ | dict.fromkeys(names) | derived | seed)
    return [(key(name), getattr(layer, name)) for name in names], rest


def _unflatten(rest: Any, children: Iterable[Array]) -> Any:
    """Return a layer with other arrays, which may be traced, or no arrays at all: unchecked."""
    layer = object.__new__(type(rest))
    names = _names(type(rest))[0]
    layer.__dict__.update(rest.__dict__ | dict(zip(names, children, strict=True)))
    return layer


def _names(layer_type: type[Any]) -> tuple[list[str], dict[str, object]]:
    """Return the fields that are leaves, and those that are derived from these, without them."""
    names = [f.name for f in fields(layer_type) if any(map(f.metadata.get, ("array", "part")))]
    derived = {
        f.name: f.default for f in fields(layer_type) if not f.init and f.default is not MISSING
    }
    return names, derived
