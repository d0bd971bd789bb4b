"""The floating-point errors of NumPy: none in what is public, the caller's in what is called back.

What is not finite, or too small for its dtype, is in a result, whatever `numpy.errstate` says.
"""

import sys
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from positional_embeddings.arrays.namespace import caller, np

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Functions that `quiet_names` leaves as they are.
_quiet: set[Any] = set()


def quiet(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let NumPy neither warn nor raise in a function."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        if is_compiling() or caller.get() is not None:
            return function(*args, **options)
        # What an interrupt leaves set ends with the copy of the context.
        context = copy_context()
        result: Result = context.copy().run(_call, context, function, args, options)
        return result

    return not_wrapped(call)


@np.errstate(all="ignore")  # type: ignore[untyped-decorator]
def _call(context: Context, function: Callable[..., Any], args: Any, options: Any) -> Any:
    caller.set(context)
    return function(*args, **options)


def not_wrapped(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Leave a function as it is, whose parts are `quiet` themselves."""
    _quiet.add(function)
    return function


def as_caller(function: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Call a function of the user with the floating-point errors that the user has chosen."""
    context = None if is_compiling() else caller.get()
    if context is None:
        return function(*args, **options)
    return context.copy().run(function, *args, **options)


def is_compiling() -> bool:
    """Tell whether PyTorch compiles what is called."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def quiet_names(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make functions and the public methods of classes `quiet`, in all modules that have them."""
    for name in names:
        value = namespace[name]
        if isinstance(value, FunctionType) and value not in _quiet:
            # Pickles look for a function where it was defined.
            namespace[name] = quiet(value)
            setattr(sys.modules[value.__module__], name, namespace[name])
        for owner in getattr(value, "__mro__", ()):
            if owner.__module__.startswith("positional_embeddings"):
                _quiet_methods(owner)


def _quiet_methods(owner: type) -> None:
    for name, value in list(vars(owner).items()):
        function = getattr(value, "__func__", value)
        is_public = name == "__call__" or not name.startswith("_")
        if is_public and isinstance(function, FunctionType) and function not in _quiet:
            method = quiet(function)
            setattr(owner, name, method if value is function else type(value)(method))
