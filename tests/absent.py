"""Optional libraries of tables: without one, only the tests of its tables are left out."""

from importlib import import_module
from typing import Any


class Absent:
    """A placeholder for a library that is not installed, and for all of its objects.

    `conftest.py` leaves out tests with such a parameter, and tests that use a name of `NAMES`.
    """

    def __init__(self, library: str) -> None:
        self.library = library

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> "Absent":
        return self


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return Absent(name)


NAMES = {"pl": "polars", "xarray": "xarray"}
pl, xarray = map(_library, NAMES.values())
