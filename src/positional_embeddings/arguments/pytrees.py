"""Layers as pytrees of JAX: their arrays are leaves, and all other fields are static.

This module does not import JAX. Classes are registered when the first layer is constructed after
JAX has been imported. So a layer of that class must have been constructed after the import,
before `jax.jit` takes a layer as an argument.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

from positional_embeddings.arrays.namespace import Array

# Classes of layers that are not registered yet.
pending: list[type] = []


def register_pending() -> None:
    """Register the pending classes if JAX has been imported."""
    tree = sys.modules.get("jax.tree_util") if pending else None
    register = getattr(tree, "register_pytree_with_keys", None)
    while register is not None and pending:
        flatten = partial(_flatten, tree.GetAttrKey)  # type: ignore[union-attr]
        register(pending.pop(), flatten, _unflatten)


def _flatten(key: Callable[[str], object], layer: Any) -> tuple[list[tuple[object, Array]], Any]:
    """Return the arrays of a layer, each with its key, and the layer without them."""
    names, derived = _names(type(layer))
    if not names:
        return [], layer
    # Equal options have an equal static layer with one hash: it has no field derived from arrays.
    static = object.__new__(type(layer))
    # Nor a seed, which determines only the arrays that were drawn from it.
    seed = {"rng": None} if "rng" in layer.__dict__ else {}
    static.__dict__.update(layer.__dict__ | dict.fromkeys(names) | derived | seed)
    return [(key(name), getattr(layer, name)) for name in names], static


def _unflatten(static: Any, children: Iterable[Array]) -> Any:
    """Return a layer with unchecked leaves: traced arrays, or objects that JAX puts there."""
    layer = object.__new__(type(static))
    names = _names(type(static))[0]
    layer.__dict__.update(static.__dict__ | dict(zip(names, children, strict=True)))
    return layer


def _names(layer_type: type[Any]) -> tuple[list[str], dict[str, object]]:
    """Return the names of the leaves, and the defaults of the fields derived from them."""
    names = [f.name for f in fields(layer_type) if any(map(f.metadata.get, ("array", "part")))]
    derived = {
        f.name: f.default for f in fields(layer_type) if not f.init and f.default is not MISSING
    }
    return names, derived
