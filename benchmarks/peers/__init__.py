"""What other libraries, and textbooks, do in this library's place: one module a library."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def peer(path: str, *args: Any, **options: Any) -> Callable[[], Any]:
    """Return the call of a peer, say "torch.eager"; imported only then: it may be missing."""
    module, function = path.split(".")
    return lambda: getattr(import_module(f"peers.{module}"), function)(*args, **options)
