"""Make a call with a hostile input: it works, or raises the right error, or there is a fault."""

import signal
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from hostile.inputs import OPEN, Input, inputs
from samples import CATALOGUE, Call

# Of a processor, on all threads: each call takes some milliseconds.
SECONDS = 10
# What a refusal may allocate; the arguments of valid calls take less than a tenth of it.
BYTES = 2**20
# Inputs that may be wrong only next to another argument, which is then the one that is named.
RELATIVE = ("values", "huge", "shapes", "libraries")
# Arguments that may be a function of the user's, whose errors are the user's, too.
FUNCTIONS = ("mask", "bias", "function", "rng", "scaling")


class Fault(Exception):  # noqa: N818 - it is no error of the test
    """What is wrong with what came of a call."""


def outcomes(name: str) -> Iterator[tuple[str, str, Input, str]]:
    """Yield for each argument of the calls of a name, and each input, what comes of it.

    That is "works", "raises", or what is wrong.
    """
    for i, call in enumerate(CATALOGUE[name]):
        expected = call()
        for argument, value in call.values.items():
            for one in inputs(value):
                if argument in FUNCTIONS and callable(one.value):
                    continue
                try:
                    came = judge(name, call, argument, one)
                except Fault as fault:
                    came = str(fault)
                yield f"{name}[{i}]", argument, one, came
            if not same(call(), expected):
                came = "the valid call gives another result afterwards"
                yield f"{name}[{i}]", argument, Input("values", "all", None), came


def judge(name: str, call: Call, argument: str, one: Input) -> str:
    """Return "works" or "raises", or raise a `Fault`."""
    with time_limit(), warnings.catch_warnings(action="error"):
        # Of weights that differ too much for bands.
        warnings.filterwarnings("ignore", "Fewer than 10 samples")
        warnings.filterwarnings("ignore", ".* farther outside of the samples")
        warnings.filterwarnings("ignore", ".* wider than the sphere")
        if one.group in ("huge", "values"):
            tracemalloc.start()
        try:
            result = call(**{argument: one.value})
        except Fault:
            raise
        except Exception as error:  # any that is not the library's own is a fault
            peak = tracemalloc.get_traced_memory()[1]
            check_error(error, name, argument, one)
            if peak > BYTES:
                message = f"allocates {peak} bytes before {error}"
                raise Fault(message) from error
        else:
            check_result(call, argument, one, result)
            return "works"
        finally:
            tracemalloc.stop()
    return "raises"


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise in this thread when the time is up, where the system has timers of processors.

    Time on the clock would depend on what else the machine does.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: Any) -> None:
        message = f"takes more than {SECONDS} s of a processor"
        raise Fault(message)

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check_error(error: Exception, name: str, argument: str, one: Input) -> None:
    """Check that an error is the library's own, and names the argument."""
    text = str(error)
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename
    if is_convention(error, text, file, name):
        return
    # Without the backtick of a name the message may be NumPy's.
    is_relative = one.group in RELATIVE or name.startswith("sklearn.")
    named = "`" if is_relative else f"`{argument}"
    if type(error) not in (ValueError, TypeError):
        message = f"raises {type(error).__name__}: {text}"
    elif "positional_embeddings" not in file:
        message = f"raises in {file}: {text}"
    elif named not in text:
        message = f"does not name `{argument}`: {text}"
    else:
        return
    raise Fault(message) from error


def is_convention(error: Exception, text: str, file: str, name: str) -> bool:
    """Tell whether an error is worded by another library or by Python, as its users expect."""
    if name.startswith("sklearn.") and "positional_embeddings" not in file:
        # Its checks of tables, and its copies of parameters.
        parts = ("/sklearn/", "/copy.py", "array_api_strict", "pandas", "numpy/random")
        return any(part in file for part in parts)
    if name.startswith("xarray."):  # whose names of dimensions are not arguments of a function
        return "/xarray/" in file or file.startswith("pandas") or "must have the dimension" in text
    if name in ("Mask.__and__", "Mask.__or__"):  # whose operands have no names
        return type(error) is TypeError and ("unsupported operand" in text or "`Mask`" in text)
    if name.endswith("_hf_config") or name == "attention_layers":
        missing = isinstance(error, FileNotFoundError)
        return missing or (type(error) is ValueError and "configuration" in text)
    return False


def check_result(call: Call, argument: str, one: Input, result: Any) -> None:
    """Check that a result equals that of the plain value, and that of a loop over the values."""
    if one.plain is OPEN:
        return
    want = call(**{argument: one.plain})
    if not same(result, want, exactly=False):
        message = f"gives {result!r:.300} for what is {want!r:.300} as a plain value"
        raise Fault(message)
    if call.loop == argument and np.ndim(one.plain) == 1:
        columns = [parts(call(**{argument: one.plain[i : i + 1]})) for i in range(len(one.plain))]
        loop = [np.concatenate(own, axis=-1) for own in zip(*columns, strict=True)]
        if not same(result, loop, exactly=False):
            message = f"gives {result!r:.300}, in a loop {loop!r:.300}"
            raise Fault(message)


def parts(result: Any) -> list[Any]:
    """Return the arrays and other values that a result has."""
    if isinstance(result, tuple | list):
        return [part for one in result for part in parts(one)]
    if is_dataclass(result) and not hasattr(result, "dense"):
        return [part for f in fields(result) for part in parts(getattr(result, f.name))]
    return [result]


def same(result: Any, want: Any, *, exactly: bool = True) -> bool:
    """Tell whether two results are equal, or nearly so, in the narrower of their dtypes."""
    results, wants = parts(result), parts(want)
    if len(results) != len(wants):
        return False
    return all(_same_part(a, b, exactly) for a, b in zip(results, wants, strict=True))


def _same_part(a: Any, b: Any, exactly: bool) -> bool:  # noqa: FBT001
    if not (hasattr(a, "dtype") and hasattr(b, "dtype")):
        return a is b or bool(a == b)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if exactly or not {a.dtype.kind, b.dtype.kind} <= set("fiub"):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    floats = [x.dtype for x in (a, b) if x.dtype.kind == "f"]
    error = 16 * max((float(np.finfo(dtype).eps) for dtype in floats), default=0.0)
    wide = b.astype("float64")
    scale = np.max(np.abs(wide), initial=0, where=np.isfinite(wide))
    with np.errstate(all="ignore"):
        return np.allclose(a.astype("float64"), wide, error, error * scale, equal_nan=True)
