"""Contenders of a case: made ready, compared with the expected values, then timed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from timing import Rounds, Run, peak_memory, round_robin

HostArray = np.ndarray[Any, np.dtype[Any]]
# The name of a case, and what measures it.
Builder = tuple[str, Callable[[Rounds], dict[str, Any]]]
CHUNK = 1 << 22

PIP_NAMES = {
    "rotary_embedding_torch": "rotary-embedding-torch",
    "onnx": "onnx onnxruntime",
    "cupy": "cupy-cuda13x",
}


@dataclass(frozen=True)
class Contender:
    """One way to do what a case asks for.

    Attributes
    ----------
    name : str
        What reports call it.
    prepare : callable
        Makes everything ready, and returns the function that is timed.
    expected : array, optional
        What the function has to return; nothing is compared where it is None.
    tolerance : float, default 1e-5
        Largest absolute error that is accepted.
    tracked : bool, default False
        Whether its memory is NumPy's, which `tracemalloc` sees.
    note : str, default ""
        What a reader has to know, such as another layout.
    view : callable, default numpy.asarray
        Takes from the result what is compared.
    """

    name: str
    prepare: Callable[[], Run]
    expected: Any = None
    tolerance: float = 1e-5
    tracked: bool = False
    note: str = ""
    view: Callable[[Any], Any] = np.asarray


@dataclass(frozen=True)
class Case:
    """What all its contenders compute.

    Attributes
    ----------
    topic, name : str
        Group and name in reports.
    size : int
        Bytes that `peak memory` is given in multiples of.
    contenders : list of Contender
        The first one is the unit of the others.
    labels : dict
        What tells the case from others of its topic.
    """

    topic: str
    name: str
    size: int
    contenders: list[Contender]
    labels: dict[str, Any] = field(default_factory=dict)


class NoSuchLayoutError(Exception):
    """A library does not take the arrays of a case."""


def needed(module: str) -> Any:
    """Import a peer's module where it is asked for: its library may be missing."""
    return import_module(module)


def measured(case: Case, rounds: Rounds, sync: Callable[[], None] | None = None) -> dict[str, Any]:
    """Compare the contenders of a case with what they should return, and time them."""
    runs: dict[str, Run] = {}
    entries: dict[str, dict[str, Any]] = {}
    for contender in case.contenders:
        entry, run = _made(contender)
        entries[contender.name] = entry
        if run is not None:
            runs[contender.name] = run
    for name, times in round_robin(runs, rounds, sync).items():
        entries[name] |= times
    unit = entries[case.contenders[0].name].get("median")
    for contender in case.contenders:
        entry = entries[contender.name]
        if unit and "median" in entry:
            entry["ratio"] = entry["median"] / unit
        if contender.tracked and contender.name in runs:
            entry["peak_bytes"] = peak_memory(runs[contender.name])
    return {
        "topic": case.topic,
        "case": case.name,
        "bytes": case.size,
        **case.labels,
        "unit": case.contenders[0].name,
        "contenders": entries,
    }


def _made(contender: Contender) -> tuple[dict[str, Any], Run | None]:
    """Return what is known of a contender, and its function where it works and is right."""
    entry: dict[str, Any] = {"note": contender.note} if contender.note else {}
    try:
        run = contender.prepare()
        result = run()
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        return entry | {"missing": PIP_NAMES.get(package, package or str(error))}, None
    except NoSuchLayoutError as error:
        return entry | {"absent": str(error)}, None
    except Exception as error:  # noqa: BLE001 - a peer that fails must not end the run
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return entry | {"failed": f"{type(error).__name__}: {first[:200]}"}, None
    if contender.expected is not None:
        entry["error"] = largest_error(contender.view(result), contender.expected)
        # Not `>`: an error that is NaN is wrong too.
        if not entry["error"] <= contender.tolerance:
            return entry | {"wrong": f"error {entry['error']:.1e}"}, None
    return entry, run


def largest_error(result: Any, expected: Any) -> float:
    """Return the largest absolute difference, infinity where the shapes differ."""
    array = np.asarray(result)
    if array.shape != expected.shape:
        return float("inf")
    if array.dtype == np.bool:
        return float((array != expected).any())
    ours, theirs = (np.ascontiguousarray(x).reshape(-1) for x in (array, expected))
    starts = range(0, len(ours), CHUNK)
    return max(float(np.abs(ours[i : i + CHUNK] - theirs[i : i + CHUNK]).max()) for i in starts)
