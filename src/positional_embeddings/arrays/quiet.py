"""The floating-point errors of NumPy: none in a public call, the caller's in what it calls back.

What is not finite, or too small for its dtype, is in a result, whatever `numpy.errstate` says.
"""

import sys
from collections.abc import Callable
from contextvars import Context, ContextVar
from functools import partial
from typing import TypeVar
from warnings import warn

from positional_embeddings.arrays.namespace import np

Result = TypeVar("Result")

_NOT_THE_USER = ("positional_embeddings", "sklearn")

# The context that a public function was called in, None outside of public functions.
caller: ContextVar[Context | None] = ContextVar("caller", default=None)

# A context that nothing but `numpy.seterr` has changed holds one variable, where NumPy keeps its
# errors in one: setting that takes a tenth of the time.
_changed = Context()
_changed.run(np.seterr, all="ignore")
_variables = list(_changed.items())
ignore_errors: Callable[[], object] = partial(np.seterr, all="ignore")
for variable, no_errors in _variables if len(_variables) == 1 else ():
    ignore_errors = partial(variable.set, no_errors)


def as_caller(function: Callable[..., Result], *args: object, **options: object) -> Result:
    """Call a function of the user with the floating-point errors that the user has chosen."""
    context = None if is_compiling() else caller.get()
    if context is None:
        return function(*args, **options)
    return context.copy().run(function, *args, **options)


def warn_caller(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn of a line of the user, below which all is of this library or of scikit-learn."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - before Python 3.12 there is no other way
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _NOT_THE_USER:
        frame, level = frame.f_back, level + 1
    warn(message, kind, stacklevel=level)


def is_compiling(_: object = None) -> bool:
    """Tell whether PyTorch compiles what is called."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())
