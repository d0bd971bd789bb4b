"""Error messages: the argument, the requirement, the actual value, and a remedy."""

import sys
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any
from warnings import warn

# Characters of a value in a message.
_MAX_CHARACTERS = 500

# A warning points to the first caller outside of these packages.
_LIBRARY_PACKAGES = "positional_embeddings", "sklearn"

# Remedies by argument, for messages without another one.
_REMEDIES = {
    "layout": "GPT-NeoX and Llama in transformers have 'half', GPT-J and Meta's Llama "
    "'interleaved'.",
    "mask_diagonal": "A mask object has no size: CausalMask().dense(q_len) is an array.",
}


def wrong_value(name: str, requirement: str, actual: object, hint: str = "") -> ValueError:
    """Return the error about a value or a shape; `actual` is a value, or a description of it."""
    return ValueError(_message(name, requirement, actual, hint))


def wrong_type(name: str, requirement: str, actual: object, hint: str = "") -> TypeError:
    """Return the error about the type of an argument; `actual` is a value, or a description."""
    return TypeError(_message(name, requirement, actual, hint))


def _message(name: str, requirement: str, actual: object, hint: str) -> str:
    text = actual if isinstance(actual, str) else format_value(actual)
    remedy = hint or (f" {_REMEDIES[name]}" if name in _REMEDIES else "")
    return f"`{name}` must {requirement}, got {text}.{remedy}"


def plural(count: object, noun: str) -> str:
    """Return how many things there are, such as "1 query" or "2 queries"."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count} {noun}"


def type_name(value: object) -> str:
    """Return the public name of the type of a value, such as numpy.ndarray."""
    if value is None:
        return "None"
    kind = type(value)
    modules = [part for part in kind.__module__.split(".") if not part.startswith("_")]
    return ".".join([*(part for part in modules if part != "builtins"), kind.__qualname__])


def format_value(value: object) -> str:
    """Return a value as text for a message: an array as type and shape, and long text cut off."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and not callable(value):  # a mask may have a shape
        return f"{type_name(value)} of shape {tuple(shape)}"
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return f"{type_name(value)} of more digits than can be printed"
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."


def warn_caller(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller that is neither in this library nor in scikit-learn."""
    # `skip_file_prefixes` needs Python 3.12.
    frame, level = sys._getframe(1), 2  # noqa: SLF001
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARY_PACKAGES:
        frame, level = frame.f_back, level + 1
    warn(message, kind, stacklevel=level)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question with the closest of some names, "" if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - for errors only

    by_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = get_close_matches(name.lower(), by_lower_case, 1)
    return f" Did you mean {by_lower_case[matches[0]]}?" if matches else ""


# Arguments of one axis, which may be lists.
_LISTS = ("ids", "indices", "key_ids", "lengths")
# Objects that other libraries name by a string, such as mask="causal".
_OBJECTS = {"mask": "an object such as CausalMask()", "bias": "an object such as ALiBiBias(heads)"}


def remedy_for(name: str, value: Any, library: str = "numpy") -> str:
    """Return a sentence with an expression that makes an array of a value, or "".

    A list or a number becomes an array of the namespace `library`.

    Attributes identify libraries, so that none is imported.
    """
    is_xarray = hasattr(value, "dims") and hasattr(value, "data")
    if times := remedy_for_times(name, value.data if is_xarray else value):
        return times
    listed = value if isinstance(value, list | tuple) else ()
    prefix = "np" if library == "numpy" else library
    is_number = type(value) in (int, float) and name.isidentifier() and abs(value) < 2**63
    is_count = isinstance(value, int) and name.endswith("positions") and 1 < value < 2**31
    expressions = (
        (is_count, f"{prefix}.arange({value})" if is_count else ""),
        (is_xarray, f"{name}.data"),
        (hasattr(value, "to_numpy"), f"{name}.to_numpy()"),
        (hasattr(value, "toarray"), f"{name}.toarray()"),  # a sparse matrix of SciPy
        # A `Mask` in place of a boolean array.
        (name.startswith("mask") and hasattr(value, "key_ranges"), f"{name}.dense(q_len, k_len)"),
        (any(hasattr(x, "key_ranges") for x in listed), f"combine_masks(*{name})"),
        (isinstance(value, str) and name in _OBJECTS, _OBJECTS.get(name, "")),
        # The result of `KVCache.step`.
        (
            any(hasattr(x, "key_positions") for x in listed),
            "the second of the pair, step, after cache, step = cache.step(tokens)",
        ),
        (is_number and name == "sinks", "a logit of each head; num_sink_tokens is of a KVCache"),
        (is_number and name in _LISTS, f"[{value}]" if is_number else ""),
        (isinstance(value, list | tuple) or is_number, f"{library}.asarray({name})"),
        (hasattr(value, "key_positions"), f"{name}.positions"),  # a step of a cache
        # A `Mask` and a data set of xarray have `__array__`, which raises.
        (
            hasattr(value, "__array__")
            and not (hasattr(value, "key_ranges") or hasattr(value, "dims")),
            f"{library}.asarray({name})",
        ),
    )
    return next((f" Pass {expression}." for fits, expression in expressions if fits), "")


def remedy_for_times(name: str, value: object) -> str:
    """Return a sentence with an expression that makes numbers of dates or durations, else ""."""
    return f" Pass days_since({name})." if _holds_times(value) else ""


def _holds_times(value: Any) -> bool:
    """Return whether a value, or the first value of a sequence, is a date or a duration."""
    dtype = getattr(value, "dtype", None)
    is_sequence = isinstance(value, list | tuple) or str(dtype) in ("object", "Object")
    if is_sequence and getattr(value, "shape", None) != ():
        return _holds_times(next(iter(getattr(value, "flat", value)), None))
    is_polars = str(dtype).startswith(("Date", "Duration"))
    is_time = getattr(dtype, "kind", None) in ("m", "M") or isinstance(value, date | timedelta)
    return is_polars or is_time or hasattr(value, "dayofyr")  # cftime
