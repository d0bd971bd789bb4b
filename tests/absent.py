"""polars, which Python without the GIL lacks: tests of its tables are left out there."""

from typing import Any


class Absent:
    """Stands for a library that is not installed, and for all that it would make.

    `conftest.py` leaves out tests that take one as a parameter, or name `pl` themselves.
    """

    def __init__(self, library: str) -> None:
        self.library = library

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> "Absent":
        return self


try:
    import polars as pl
except ModuleNotFoundError:
    pl = Absent("polars")
