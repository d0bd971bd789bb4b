"""Imports, compilations and locks that the process must not fork during.

A forked child has one thread. A lock that another thread of the parent held, such as that of a
module being imported, is never released in the child, and a call that needs the lock hangs.
"""

import concurrent.futures.thread  # noqa: F401 - registers handlers, as logging does
import os
from collections.abc import Callable
from functools import wraps
from threading import Lock, RLock
from typing import Any, Generic, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Windows does not fork.
register_at_fork = getattr(os, "register_at_fork", lambda **_: None)


def _free_at_forks(lock: Any) -> Any:
    """Make the process fork only while no other thread holds a lock."""
    register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def fork_safe_lock() -> Any:
    """Return a lock that no thread holds in a forked child."""
    return _free_at_forks(Lock())


# Handlers run in reverse order of registration. This one has to run before handlers that take
# locks an import may need, such as the lock of logging.
_busy = _free_at_forks(RLock())


class cached_property(Generic[Result]):  # noqa: N801 - as in functools
    """A property that is computed once.

    Before Python 3.12, that of functools holds a lock meanwhile.
    """

    def __init__(self, function: Callable[[Any], Result]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, instance: object, owner: type[Any]) -> Result:
        result = self._function(instance)
        vars(instance)[self._name] = result
        return result


def finished_before_forks(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make the process fork before or after a call of a function, never during one."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _busy:
            return function(*args, **options)

    return call
