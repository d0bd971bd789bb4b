"""Hostile inputs: what takes the place of a valid argument, and the plain value that it is."""

import math
import warnings
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple

import array_api_strict as strict
import numpy as np
import pandas as pd
import xarray as xr

from absent import Absent, pl

# There is no plain value: either it is refused, or the result is the function's own matter.
OPEN = object()


class Input(NamedTuple):
    """A hostile input."""

    group: str
    name: str
    value: Any
    # What it stands for as a plain number, list, or array in C order: the results are equal.
    plain: Any = OPEN


class Subclass(np.ndarray):
    """A subclass of NumPy's arrays that changes nothing."""


def plain(array: Any, dtype: Any) -> np.ndarray:
    """Return a new array in C order, by way of a list."""
    return np.array(np.asarray(array).tolist(), dtype=dtype).reshape(np.shape(array))


def inputs(value: Any) -> Iterator[Input]:
    """Yield what is to take the place of a valid value."""
    if isinstance(value, xr.DataArray):
        for one in of_array(value.data):
            if isinstance(one.value, np.ndarray) and one.value.shape == value.shape:
                known = one.plain is not OPEN
                yield one._replace(
                    value=value.copy(data=one.value),
                    plain=value.copy(data=one.plain) if known else OPEN,
                )
        yield Input("kinds", "its numbers", value.data)
    elif isinstance(value, np.ndarray):
        yield from of_array(value)
        yield from strangers(value)
    elif isinstance(value, bool):
        for one in (np.bool_(value), int(value), str(value), np.asarray(value), [value]):
            yield Input("kinds", f"{type(one).__name__}", one)
        yield from strangers(value)
    elif isinstance(value, int | float):
        yield from of_number(value)
        yield from strangers(value)
    elif isinstance(value, str):
        for one in ("", "wrong", f" {value}", value.upper(), "a" * 10**6, "\0", "`"):
            yield Input("strings", repr(one[:9]), one)
        yield Input("strings", "numpy.str_", np.str_(value), value)
        yield Input("strings", "bytes", value.encode())
        yield Input("kinds", "list of it", [value])
        yield from strangers(value)
    elif isinstance(value, list | tuple):
        yield from of_list(value)
        yield from strangers(value) if isinstance(value[0], Real) else ()
    else:
        yield from strangers(value)


def strangers(value: Any) -> Iterator[Input]:
    """Yield what is of no kind that a function takes for such a value."""
    others = {
        "None": None,
        "string": "3",
        "bytes": b"3",
        "object()": object(),
        "dict": {"a": 1},
        "set": {1, 2},
        "generator": (n for n in range(3)),
        "class": int,
        "Ellipsis": ...,
        "NotImplemented": NotImplemented,
        "complex": 1j,
        "nested list": [[1], [2, 3]],
        "datetime64": np.datetime64("2020-01-01"),
        "NaT": np.datetime64("NaT", "s"),
        "timedelta64": np.timedelta64(3, "D"),
        "pandas.NA": pd.NA,
        "pandas.Timestamp": pd.Timestamp("2020-01-01"),
        "module": math,
        "lambda": lambda: None,
        "numpy.ma.masked": np.ma.masked,
    }
    for name, one in others.items():
        if not (isinstance(value, str) and isinstance(one, str)):
            # An argument that is left out may need another one.
            yield Input("values" if one is None else "strangers", name, one)


def of_number(value: float) -> Iterator[Input]:
    """Yield what takes the place of an int or a float."""
    for one in (float("nan"), float("inf"), -float("inf"), 0, -1, -value, 0.5, 1e300, 5e-324):
        yield Input("values", repr(one), one)
    for name, one in {
        "2**53": 2**53,
        "2**63 - 1": 2**63 - 1,
        "2**63": 2**63,
        "-2**63": -(2**63),
        "2**64": 2**64,
        "10**30": 10**30,
        "10**400": 10**400,
        "10**5000": 10**5000,
        "uint64": np.uint64(2**64 - 1),
    }.items():
        yield Input("huge", name, one)
    for kind in (np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32, np.longdouble):
        one = np.asarray(min(value, 127)).astype(kind)[()]
        yield Input("dtypes", kind.__name__, one, type(value)(one))
    yield Input("dtypes", "bool", True)
    yield Input("dtypes", "numpy.bool", np.True_)
    yield Input("dtypes", "complex128", np.complex128(value))
    yield Input("kinds", "0-d array", np.asarray(value), value)
    yield Input("kinds", "0-d object", np.asarray(value, dtype=object), value)
    yield Input("kinds", "array", np.asarray([value]), OPEN)
    yield Input("kinds", "two numbers", np.asarray([value, value]), OPEN)
    yield Input("kinds", "empty list", [], OPEN)
    yield Input("kinds", "list", [value], OPEN)
    yield Input("kinds", "Fraction", Fraction(value), value)
    yield Input("kinds", "Decimal", Decimal(value), value)
    yield Input("tables", "pandas.Series", pd.Series([value]), OPEN)
    yield from of_polars("Series", [value])
    yield Input("libraries", "array_api_strict", strict.asarray(value), OPEN)


def of_list(values: Any) -> Iterator[Input]:
    """Yield what takes the place of a list or tuple, of numbers or of arrays."""
    first, rest = values[0], list(values[1:])
    if not isinstance(first, Real):
        for one in inputs(first):
            known = one.plain is not OPEN
            plain = [one.plain, *rest] if known else OPEN
            yield one._replace(value=[one.value, *rest], plain=plain)
        return
    yield Input("shapes", "empty list", [])
    yield Input("shapes", "empty tuple", ())
    yield Input("shapes", "one", values[:1])
    yield Input("shapes", "twice", [*values, *values])
    yield Input("shapes", "nested", [list(values)])
    yield Input("shapes", "2**8 numbers", [1] * 2**8)
    for one in of_number(first):
        known = one.plain is not OPEN
        plain = [one.plain, *rest] if known else OPEN
        yield one._replace(value=[one.value, *rest], plain=plain)
    for one in strangers(first):
        if one.value is not np.ma.masked:  # of which NumPy itself warns in a list
            yield one._replace(value=[one.value, *rest])
    listed = list(values)
    yield Input("kinds", "list", listed, values)
    yield Input("kinds", "tuple", tuple(values), values)
    yield Input("kinds", "array", np.asarray(listed), values)
    yield Input("kinds", "array of objects", np.asarray(listed, dtype=object), values)
    yield Input("kinds", "masked array", np.ma.masked_array(listed), values)
    yield Input("kinds", "generator", iter(listed), values)
    yield Input("kinds", "dict", dict.fromkeys(listed), OPEN)
    yield Input("tables", "pandas.Series", pd.Series(listed), values)
    yield from of_polars("Series", listed, values)
    yield Input("libraries", "array_api_strict", strict.asarray(listed), OPEN)


def of_polars(kind: str, values: Any, plain: Any = OPEN) -> Iterator[Input]:
    """Yield a table of polars, where it is installed."""
    if not isinstance(pl, Absent):
        yield Input("tables", f"polars.{kind}", getattr(pl, kind)(values), plain)


def of_array(x: np.ndarray) -> Iterator[Input]:
    """Yield what takes the place of an array."""
    yield from _values(x)
    yield from _dtypes(x)
    yield from _layouts(x)
    yield from _shapes(x)
    yield from _containers(x)


def _values(x: np.ndarray) -> Iterator[Input]:
    names = {
        "f": ("nan", "inf", "-inf", "1e300", "-1e300", "2.0**53", "5e-324", "-0.0"),
        "i": ("2**53", "2**62", "2**63 - 1", "-2**63", "-1", "2**31", "1000"),
        "M": ("NaT",),
    }.get(x.dtype.kind, ())
    names = () if x.dtype == np.int32 else names
    for name in names:
        number = (
            np.datetime64("NaT", "s")
            if name == "NaT"
            else eval(name, {"nan": np.nan, "inf": np.inf})
        )
        for place, index in (("first", 0), ("last", -1)):
            changed = x.copy()
            changed.reshape(-1)[index] = number
            yield Input("values", f"{name} {place}", changed, plain(changed, x.dtype))
        yield Input("values", f"all {name}", np.full_like(x, number))


def _dtypes(x: np.ndarray) -> Iterator[Input]:
    if x.dtype.kind == "M":
        for unit in ("ns", "s", "Y"):
            yield Input("dtypes", f"datetime64[{unit}]", x.astype(f"M8[{unit}]"))
        yield Input("dtypes", "datetime64", np.zeros(x.shape, "M8"))
    # Numbers that each dtype holds.
    numbers = np.rint(np.clip(np.nan_to_num(x.astype("float64")), 0, 7))
    for name in ("i1", "u1", "i2", "u4", "u8", "i4", "f2", "f4", "g", "c8", "c16", "?"):
        changed = numbers.astype(name)
        dtype = x.dtype if x.dtype.kind in "fiM" and name not in ("c8", "c16", "?") else None
        stands = OPEN if dtype is None else plain(changed, _wide(name))
        yield Input("dtypes", np.dtype(name).name, changed, stands)
    swapped = x.astype(x.dtype.newbyteorder(">"))
    yield Input("dtypes", "big-endian", swapped, plain(x, x.dtype) if x.dtype.kind != "M" else x)
    yield Input("dtypes", "uint64 above int64", np.full(x.shape, 2**64 - 1, dtype="u8"))
    yield Input("dtypes", "object", x.astype(object))
    yield Input("values", "object of None", np.full(x.shape, None))
    yield Input("dtypes", "datetime64", numbers.astype("i8").astype("M8[D]"))
    yield Input("dtypes", "timedelta64", numbers.astype("i8").astype("m8[h]"))
    yield Input("dtypes", "str", numbers.astype(str))
    yield Input("dtypes", "bytes", numbers.astype("S"))
    yield Input("dtypes", "void", np.zeros(x.shape, "V8"))
    yield Input("dtypes", "structured", np.zeros(x.shape, [("a", float), ("b", int)]))


def _wide(name: str) -> Any:
    """Return float64 for numbers of floating-point dtypes, else int64."""
    return np.float64 if np.dtype(name).kind == "f" else np.int64


def _layouts(x: np.ndarray) -> Iterator[Input]:
    buffer = np.empty(x.nbytes + 1, dtype=np.uint8)
    unaligned = buffer[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    spaced = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::2]
    spaced[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    repeated = np.broadcast_to(x[..., :1], x.shape)
    flipped = np.flip(np.flip(x).copy())
    for name, one in {
        "Fortran": np.asfortranarray(x),
        "read-only": frozen,
        "unaligned": unaligned,
        "stride 0": repeated,
        "negative strides": flipped,
        "every second": spaced,
        "transposed twice": np.ascontiguousarray(x.T).T,
        "subclass": x.copy().view(Subclass),
        "memmap": x.copy().view(np.memmap),
    }.items():
        yield Input("layouts", name, one, np.array(one, order="C", subok=False))


def _shapes(x: np.ndarray) -> Iterator[Input]:
    for axis in range(x.ndim):
        for size in (0, 1):
            index = (*(slice(None),) * axis, slice(size))
            yield Input("shapes", f"length {size} on axis {axis}", x[index])
        yield Input("shapes", f"longer on axis {axis}", np.concatenate([x, x], axis=axis))
    yield Input("shapes", "0-d", x.reshape(-1)[0].reshape(()) if x.dtype.kind != "M" else x[0])
    yield Input("shapes", "empty", np.empty((0,) * x.ndim, x.dtype))
    yield Input("shapes", "one more axis", x[None])
    yield Input("shapes", "one axis of 1 more", x[..., None])
    yield Input("shapes", "flat", x.reshape(-1))
    yield Input("shapes", "9 axes", x.reshape(*(1,) * (9 - x.ndim), *x.shape))


def _containers(x: np.ndarray) -> Iterator[Input]:
    hidden = np.zeros(x.shape, dtype=bool)
    hidden.reshape(-1)[0] = True
    yield Input("tables", "masked array", np.ma.masked_array(x, hidden))
    yield Input("tables", "masked array without a mask", np.ma.masked_array(x), x)
    yield Input("tables", "list", x.tolist(), x)
    yield Input("tables", "tuple", tuple(x.tolist()), x)
    if x.dtype.kind != "M":
        yield Input("tables", "memoryview", memoryview(x))
    yield Input("tables", "xarray", xr.DataArray(x), x)
    if x.ndim <= 2:
        table = x.reshape(x.shape[0], -1)
        with warnings.catch_warnings(action="ignore"):  # there will be no matrices one day
            matrix = np.matrix(table)
        yield Input("tables", "matrix", matrix)
        yield Input("tables", "pandas.DataFrame", pd.DataFrame(table))
        yield from of_polars("DataFrame", table)
        yield Input("tables", "record array", np.rec.array(x))
    if x.ndim == 1:
        yield Input("tables", "pandas.Series", pd.Series(x), x)
        yield Input("tables", "pandas.Index", pd.Index(x), x)
        yield from of_polars("Series", x, x)
    yield Input("tables", "0-d object with it", _boxed(x))
    if x.dtype.kind in "fib":
        yield Input("libraries", "array_api_strict", strict.asarray(x))
        device = strict.Device("device1")
        yield Input("libraries", "array_api_strict on device1", strict.asarray(x, device=device))


def _boxed(x: np.ndarray) -> np.ndarray:
    box = np.empty((), dtype=object)
    box[()] = x
    return box
