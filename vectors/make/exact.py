"""What all groups share: exact arithmetic, the flags, and how a test is written.

Everything is computed by mpmath with 60 digits, in loops over numbers, and rounded once to float64.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mpmath import mp, mpf

mp.dps = 60
VERSION = "1.0.0"

FLAGS = {
    "AxialCoordinates": "Each coordinate has a full range of frequencies of its own.",
    "BeyondFloat32Integers": "Above 2^24 float32 does not hold every integer.",
    "BoundaryOfBucket": "The first distance of a bucket, where a rounded logarithm errs.",
    "ChangeOfClock": "The clock of the time zone is put forward or back on this day.",
    "CosineFirst": "The cosine comes before the sine.",
    "DateLine": "A place at 180 degrees east is the same place at 180 degrees west.",
    "EmptyRow": "A query attends to no key: its output is zeros, its lse minus infinity.",
    "FarDistance": "Distances up to 2^31 - 1.",
    "FarPosition": "Positions from 4096 on, where angles rounded to float32 lose digits.",
    "FewerQueriesThanKeys": "The queries are not the first positions, as with cached keys.",
    "FullTurns": "Frequencies are in cycles per position.",
    "GroupedHeads": "Several query heads read one key head.",
    "HiddenNaN": "NaN or infinity at a key that no query attends to must not reach the output.",
    "HighDegree": "A degree at which the usual recurrences underflow or lose digits.",
    "InterleavedSections": "Pairs of coordinates alternate.",
    "Int64Position": "Positions from 2^31 on do not fit a signed integer of 32 bits.",
    "LargeScore": "The exponential of a score overflows unless the largest score is subtracted.",
    "LeapYear": "A leap year, or a year that a rule of four years takes for one.",
    "ManyKeys": "More keys than a block of usual implementations has.",
    "NearMultipleOfPi": "The angle is very close to a multiple of pi.",
    "NegativePosition": "Positions below zero.",
    "OddFeatures": "An odd number of features.",
    "OddHeads": "The number of heads is no power of two.",
    "OtherFrequencies": "Frequencies that end at 1 / base.",
    "Partial": "Only the first features are rotated; frequencies count these alone.",
    "Pole": "A place at a pole, or very near.",
    "Proportional": "Frequencies count all features, and those of the last pairs are zero.",
    "RealPosition": "Positions between integers.",
    "ScoreFactor": "The method also multiplies cosine and sine by an attention factor.",
    "UnorderedPosition": "Positions in any order, some of them twice.",
    "Unscaled": "The sequence is short enough that the method changes nothing.",
    "VisibleNaN": "A query that attends to a NaN has the output NaN.",
}


@dataclass
class Group:
    """One file of vectors."""

    name: str
    title: str
    functions: dict[str, dict[str, Any]]
    tests: list[dict[str, Any]] = field(default_factory=list)

    def add(self, slug: str, comment: str, flags: str = "", **parts: Any) -> None:
        """Add a test: its function, parameters, inputs and expected outputs."""
        names = flags.split()
        head = {"id": f"{self.name}/{slug}", "comment": comment, "flags": names}
        self.tests.append(head | {"function": parts.pop("function")} | parts)

    def text(self) -> str:
        """Return the file."""
        used = sorted({flag for test in self.tests for flag in test["flags"]})
        content = {
            "$schema": "schema.json",
            "project": "positional-embeddings test vectors",
            "version": VERSION,
            "license": "CC0-1.0",
            "group": self.name,
            "title": self.title,
            "functions": self.functions,
            "notes": {flag: FLAGS[flag] for flag in used},
            "numberOfTests": len(self.tests),
            "tests": self.tests,
        }
        return "".join(_lines(content)) + "\n"


def function(definition: str, source: str, **names: dict[str, str]) -> dict[str, Any]:
    """Return what a file says of a function: `parameters`, `inputs` and `outputs` by name."""
    return {"source": source, "definition": definition} | names


def reals(values: Any) -> dict[str, Any]:
    """Return nested lists of numbers as an array."""
    return {"type": "real", "shape": _shape(values), "data": [_number(x) for x in _flat(values)]}


def integers(values: Any) -> dict[str, Any]:
    """Return nested lists of integers as an array."""
    return {"type": "integer", "shape": _shape(values), "data": [int(x) for x in _flat(values)]}


def booleans(values: Any) -> dict[str, Any]:
    """Return nested lists of booleans as an array of 0 and 1."""
    return integers(values) | {"type": "boolean"}


def times(values: list[str]) -> dict[str, Any]:
    """Return texts of times as an array."""
    return {"type": "time", "shape": [len(values)], "data": values}


def within(values: Any, scale: Any = 0, **ulps: int) -> dict[str, Any]:
    """Return an expected array of reals, with the error that each dtype allows."""
    return reals(values) | {"scale": float(scale), "ulps": ulps}


def largest(values: Any) -> float:
    """Return the largest finite absolute value of nested lists."""
    return max((abs(float(x)) for x in _flat(values) if mp.isfinite(x)), default=0.0)


def draws(seed: int) -> Iterator[float]:
    """Yield multiples of 1/32 from -4 to 4, which bfloat16 holds exactly, by a congruence."""
    state = seed
    while True:
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        yield ((state >> 33) % 257 - 128) / 32


def drawn(seed: int, *shape: int) -> Any:
    """Return nested lists of such numbers."""
    numbers = draws(seed)

    def fill(lengths: tuple[int, ...]) -> Any:
        return [fill(lengths[1:]) for _ in range(lengths[0])] if lengths else next(numbers)

    return fill(shape)


def frequency(i: int, dim: int, base: Any) -> mpf:
    """Return base^(-2 i / dim), in radians per position."""
    return mpf(base) ** (-mpf(2 * i) / dim)


def _shape(values: Any) -> list[int]:
    return [len(values), *_shape(values[0])] if isinstance(values, list) else []


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    return [x for part in values for x in _flat(part)]


def _number(x: Any) -> float | str:
    number = float(x)
    if number != number:  # noqa: PLR0124 - NaN
        return "NaN"
    if abs(number) == float("inf"):
        return "Infinity" if number > 0 else "-Infinity"
    return number + 0.0  # no negative zero


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """Yield JSON in which an array, and a list of plain values, takes one line."""
    deeper = indent + " "
    if isinstance(value, dict) and "data" not in value and value:
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield f"{',' if number else ''}\n{deeper}{json.dumps(key)}: "
            yield from _lines(item, deeper)
        yield f"\n{indent}}}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield "["
        for number, item in enumerate(value):
            yield f"{',' if number else ''}\n{deeper}"
            yield from _lines(item, deeper)
        yield f"\n{indent}]"
    else:
        yield json.dumps(value, allow_nan=False)
