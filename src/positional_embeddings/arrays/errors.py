"""Error messages: the name of the argument, what it must be, and what came."""

from typing import Any

# Characters of a value in a message.
_LONGEST_SHOWN = 500


def wrong_value(name: str, requirement: str, got: Any, hint: str = "") -> ValueError:
    """Return the error about a value or a shape; `got` is a value, or text about one."""
    return ValueError(_message(name, requirement, got, hint))


def wrong_type(name: str, requirement: str, got: Any, hint: str = "") -> TypeError:
    """Return the error about the kind of an argument; `got` is a value, or text about one."""
    return TypeError(_message(name, requirement, got, hint))


def _message(name: str, requirement: str, got: Any, hint: str) -> str:
    came = got if isinstance(got, str) else shown(got)
    return f"`{name}` must {requirement}, got {came}.{hint}"


def type_name(value: Any) -> str:
    """Return the type of a value as a user knows it, such as numpy.ndarray."""
    if value is None:
        return "None"
    kind = type(value)
    modules = [part for part in kind.__module__.split(".") if not part.startswith("_")]
    return ".".join([*(part for part in modules if part != "builtins"), kind.__qualname__])


def shown(value: Any) -> str:
    """Return a value as a message prints it: an array by kind and shape, and nothing long."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type_name(value)} of shape {tuple(shape)}"
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return f"{type_name(value)} of more digits than can be printed"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
