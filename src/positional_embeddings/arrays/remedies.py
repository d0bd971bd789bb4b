"""Remedies: what to pass in place of a table, a list or dates.

Libraries are known by attributes, so that none of them is imported.
"""

from datetime import date, timedelta
from typing import Any


def remedy_for(name: str, value: Any) -> str:
    """Return the sentence that tells how a value becomes an array, "" if that is not known."""
    of_xarray = hasattr(value, "dims") and hasattr(value, "data")
    if times := remedy_for_times(name, value.data if of_xarray else value):
        return times
    lines = (
        (of_xarray, f"{name}.data"),
        (hasattr(value, "to_numpy"), f"{name}.to_numpy()"),
        (hasattr(value, "toarray"), f"{name}.toarray()"),  # a sparse matrix of SciPy
        # A `Mask` is refused where a boolean one is wanted, or as something else.
        (name.startswith("mask") and hasattr(value, "key_ranges"), f"{name}.dense(q_len, k_len)"),
        (isinstance(value, list | tuple), f"numpy.asarray({name})"),
    )
    return next((f" Pass {line}." for is_one, line in lines if is_one), "")


def remedy_for_times(name: str, value: Any) -> str:
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
    return is_named or is_time
