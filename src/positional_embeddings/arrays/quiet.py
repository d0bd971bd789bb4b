"""The floating-point errors of NumPy: none in a public call, the caller's in what it calls back.

What is not finite, or too small for its dtype, is in a result, whatever `numpy.errstate` says.
"""

import sys
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import TypeVar

from positional_embeddings.arrays.namespace import np

Result = TypeVar("Result")

# The context that a public function was called in, None outside of public functions.
caller: ContextVar[Context | None] = ContextVar("caller", default=None)

# The variable of a context that holds what `numpy.errstate` says, and its value for no errors.
_quiet = Context()
_quiet.run(np.seterr, all="ignore")
((errors, IGNORED),) = _quiet.items()


def as_caller(function: Callable[..., Result], *args: object, **options: object) -> Result:
    """Call a function of the user with the floating-point errors that the user has chosen."""
    context = None if is_compiling() else caller.get()
    if context is None:
        return function(*args, **options)
    return context.copy().run(function, *args, **options)


def is_compiling(_: object = None) -> bool:
    """Tell whether PyTorch compiles what is called."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())
