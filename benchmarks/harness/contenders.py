"""Contenders of a case: prepared, compared with the expected values, then timed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.timing import Rounds, Run, peak_memory, round_robin

# The name of a case, and what measures it.
Builder = tuple[str, Callable[[Rounds], dict[str, Any]]]
CHUNK = 1 << 22

PIP_NAMES = {
    "rotary_embedding_torch": "rotary-embedding-torch",
    "onnx": "onnx onnxruntime",
    "cupy": "cupy-cuda13x[ctk]",
}


@dataclass(frozen=True)
class Settings:
    """Number of threads of a process, and whether its cases are small, only to be tried."""

    threads: int
    quick: bool


@dataclass(frozen=True)
class Contender:
    """One way to do what a case asks for."""

    name: str
    prepare: Callable[[], Run]  # makes everything ready, and returns what is timed
    expected: Any = None  # if None, nothing is compared
    tolerance: float = 1e-5  # largest absolute error
    tracked: bool = False  # whether its memory is NumPy's, which tracemalloc sees
    note: str = ""  # what a reader has to know, such as another layout
    view: Callable[[Any], Any] = np.asarray  # takes from the result what is compared


@dataclass(frozen=True)
class Case:
    """What all its contenders compute; the first one's time is the unit of the others'."""

    topic: str
    name: str
    size: int  # bytes, the unit of peak memory
    contenders: list[Contender]
    labels: dict[str, Any] = field(default_factory=dict)


class NotOfferedError(Exception):
    """A library does not offer what a case asks for."""


def measured(case: Case, rounds: Rounds, sync: Run | None = None) -> dict[str, Any]:
    """Compare the contenders of a case with what they should return, and time them."""
    runs: dict[str, Run] = {}
    entries: dict[str, dict[str, Any]] = {}
    for contender in case.contenders:
        entries[contender.name], run = _prepared(contender)
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


def _prepared(contender: Contender) -> tuple[dict[str, Any], Run | None]:
    """Return what is known of a contender, and its function if that works and is right."""
    entry: dict[str, Any] = {"note": contender.note} if contender.note else {}
    try:
        run = contender.prepare()
        result = run()
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        return entry | {"missing": PIP_NAMES.get(package, package or str(error))}, None
    except NotOfferedError as error:
        return entry | {"absent": str(error)}, None
    except Exception as error:  # noqa: BLE001 - a peer that fails must not end the run
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return entry | {"failed": f"{type(error).__name__}: {first[:200]}"}, None
    if contender.expected is not None:
        error = _largest_error(contender.view(result), contender.expected)
        # Not `>`: an error that is NaN is wrong too.
        if not error <= contender.tolerance:
            return entry | {"wrong": f"error {error:.1e}"}, None
    return entry, run


def _largest_error(result: Any, expected: Any) -> float:
    """Return the largest absolute difference, infinity if the shapes differ."""
    array = np.asarray(result)
    if array.shape != expected.shape:
        return float("inf")
    if array.dtype == np.bool:
        return float((array != expected).any())
    ours, theirs = (np.ascontiguousarray(x).reshape(-1) for x in (array, expected))
    starts = range(0, len(ours), CHUNK)
    return max(float(np.abs(ours[i : i + CHUNK] - theirs[i : i + CHUNK]).max()) for i in starts)
