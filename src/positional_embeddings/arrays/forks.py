"""Imports and compilations that the process must not fork during.

A forked child has one thread. If another thread of the parent was importing or compiling, its
lock is never released in the child, and a call that needs the lock hangs.
"""

import concurrent.futures.thread  # noqa: F401 - registers handlers, as logging does
import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Windows does not fork.
register_at_fork = getattr(os, "register_at_fork", lambda **_: None)

# Handlers run in reverse order of registration. This one has to run before handlers that take
# locks an import may need, such as the lock of logging.
_busy = RLock()
register_at_fork(before=_busy.acquire, after_in_parent=_busy.release, after_in_child=_busy.release)


def finished_before_forks(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make the process fork before or after a call of a function, never during one."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _busy:
            return function(*args, **options)

    return call
