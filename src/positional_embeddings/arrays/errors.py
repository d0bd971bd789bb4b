"""Error messages: the argument, what it must be, what came, and what to pass in its place."""

import sys
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any
from warnings import warn

# Characters of a value in a message.
_MAX_CHARACTERS = 500

# Packages that a warning does not point into.
_NOT_THE_USER = "positional_embeddings", "sklearn"


def wrong_value(name: str, requirement: str, actual: object, hint: str = "") -> ValueError:
    """Return the error about a value or a shape; `actual` is a value, or text about one."""
    return ValueError(_message(name, requirement, actual, hint))


def wrong_type(name: str, requirement: str, actual: object, hint: str = "") -> TypeError:
    """Return the error about the kind of an argument; `actual` is a value, or text about one."""
    return TypeError(_message(name, requirement, actual, hint))


def _message(name: str, requirement: str, actual: object, hint: str) -> str:
    text = actual if isinstance(actual, str) else format_value(actual)
    return f"`{name}` must {requirement}, got {text}.{hint}"


def plural(count: object, noun: str) -> str:
    """Return how many things there are, such as "1 query" or "2 queries"."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count} {noun}"


def type_name(value: object) -> str:
    """Return the type of a value as a user knows it, such as numpy.ndarray."""
    if value is None:
        return "None"
    kind = type(value)
    modules = [part for part in kind.__module__.split(".") if not part.startswith("_")]
    return ".".join([*(part for part in modules if part != "builtins"), kind.__qualname__])


def format_value(value: object) -> str:
    """Return a value as a message prints it: an array by kind and shape, and nothing long."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and not callable(value):  # a mask may have a shape
        return f"{type_name(value)} of shape {tuple(shape)}"
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return f"{type_name(value)} of more digits than can be printed"
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."


def warn_caller(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn of a line of the user, below which all is of this library or of scikit-learn."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - before Python 3.12 there is no other way
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _NOT_THE_USER:
        frame, level = frame.f_back, level + 1
    warn(message, kind, stacklevel=level)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the question whether the nearest of some names is meant, "" if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - it is not needed without an error

    in_lower_case = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), in_lower_case, 1)
    return f" Did you mean {in_lower_case[near[0]]}?" if near else ""


def remedy_for(name: str, value: Any) -> str:
    """Return the sentence that tells how a value becomes an array, "" if that is not known.

    Libraries are known by attributes, so that none of them is imported.
    """
    is_xarray = hasattr(value, "dims") and hasattr(value, "data")
    if times := remedy_for_times(name, value.data if is_xarray else value):
        return times
    listed = value if isinstance(value, list | tuple) else ()
    is_count = isinstance(value, int) and name.endswith("positions") and 1 < value < 2**31
    lines = (
        (is_count, f"np.arange({value})" if is_count else ""),
        (is_xarray, f"{name}.data"),
        (hasattr(value, "to_numpy"), f"{name}.to_numpy()"),
        (hasattr(value, "toarray"), f"{name}.toarray()"),  # a sparse matrix of SciPy
        # A `Mask` is refused where a boolean one is wanted, or as something else.
        (name.startswith("mask") and hasattr(value, "key_ranges"), f"{name}.dense(q_len, k_len)"),
        (any(hasattr(x, "key_ranges") for x in listed), f"combine_masks(*{name})"),
        # What a cache returns for a step.
        (
            any(hasattr(x, "key_positions") for x in listed),
            "the second of the pair, step, after cache, step = cache.step(tokens)",
        ),
        (isinstance(value, list | tuple), f"numpy.asarray({name})"),
        (hasattr(value, "key_positions"), f"{name}.positions"),  # a step of a cache
    )
    return next((f" Pass {line}." for is_one, line in lines if is_one), "")


def remedy_for_times(name: str, value: object) -> str:
    """Return the sentence that tells how dates or spans of time become numbers, "" for others."""
    return f" Pass days_since({name})." if _holds_times(value) else ""


def _holds_times(value: Any) -> bool:
    """Tell whether a value is a date or a span of time, or the first one of several."""
    dtype = getattr(value, "dtype", None)
    is_several = isinstance(value, list | tuple) or str(dtype) in ("object", "Object")
    if is_several and getattr(value, "shape", None) != ():
        return _holds_times(next(iter(getattr(value, "flat", value)), None))
    is_named = str(dtype).startswith(("Date", "Duration"))  # of polars
    is_time = getattr(dtype, "kind", None) in ("m", "M") or isinstance(value, date | timedelta)
    return is_named or is_time or hasattr(value, "dayofyr")  # of cftime
