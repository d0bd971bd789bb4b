"""First uses of optional libraries, which the process does not fork in the middle of.

A forked child has none of its parent's other threads. What one of them was importing or
compiling is locked in the child for ever, and a call that needs it would never return.
"""

import concurrent.futures.thread  # noqa: F401 - logging, and a handler of its own
import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Windows does not fork.
register_at_fork = getattr(os, "register_at_fork", lambda **_: None)

# Handlers run in the reverse order of their registration. This one has to run before those that
# lock what a first use may need, such as logging.
_busy = RLock()
register_at_fork(before=_busy.acquire, after_in_parent=_busy.release, after_in_child=_busy.release)


def finished_before_forks(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let the process fork before or after a call of a function, not during one."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _busy:
            return function(*args, **options)

    return call
