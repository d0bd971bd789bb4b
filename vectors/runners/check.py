"""What runners share: the vectors are read, and results compared with them."""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
GROUPS = sorted(
    path.stem for path in FOLDER.glob("*.json") if path.stem not in ("models", "schema")
)
COLUMNS = ("pass", "fail", "cannot")
# Digits of the significand, and the exponent of the smallest normal number.
DTYPES = {
    "float64": (53, -1022),
    "float32": (24, -126),
    "float16": (11, -14),
    "bfloat16": (8, -126),
}
# From function, parameters, inputs and dtype to the outputs by name.
Run = Callable[[str, dict[str, Any], dict[str, Any], str], dict[str, Any]]


class CannotError(Exception):
    """What is tested does not have this function, parameter or dtype."""


class Verdict(NamedTuple):
    """How a test ended in one dtype: pass, fail or cannot, and why."""

    test: dict[str, Any]
    dtype: str
    outcome: str
    reason: str


def read(group: str) -> dict[str, Any]:
    """Return a file."""
    content: dict[str, Any] = json.loads((FOLDER / f"{group}.json").read_text(encoding="utf-8"))
    return content


def array(written: dict[str, Any]) -> Any:
    """Return an array of a file: of float64, int64, bool, or of texts for times."""
    dtypes = {"real": np.float64, "integer": np.int64, "boolean": np.bool_, "time": np.str_}
    data = [float(x) for x in written["data"]] if written["type"] == "real" else written["data"]
    return np.asarray(data, dtype=dtypes[written["type"]]).reshape(written["shape"])


def ulp(x: Any, dtype: str) -> Any:
    """Return the unit in the last place of numbers: their distance to the next one of the dtype."""
    digits, least = DTYPES[dtype]
    exponent = np.frexp(np.maximum(np.abs(x), 2.0**least))[1] - 1
    return np.ldexp(1.0, exponent - digits + 1)


def holds(values: Any, dtype: str) -> bool:
    """Tell whether a dtype has these very numbers."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    return bool(np.all(finite % np.where(finite == 0, 1, ulp(finite, dtype)) == 0))


def error(came: Any, written: dict[str, Any], dtype: str) -> float:
    """Return the largest error in units, or infinity for another shape, NaN or infinity."""
    expected = array(written)
    if np.shape(came) != expected.shape:
        return float("inf")
    if "ulps" not in written:
        return 0.0 if np.array_equal(came, expected) else float("inf")
    came = np.asarray(came, dtype=np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(came[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    if not np.all(np.isfinite(came[finite])):
        return float("inf")
    size = np.maximum(np.abs(expected[finite]), written["scale"])
    return float(np.max(np.abs(came[finite] - expected[finite]) / ulp(size, dtype), initial=0))


def verdicts(run: Run, dtypes: list[str], tests: Iterable[dict[str, Any]]) -> Iterator[Verdict]:
    """Run tests in these dtypes; what has no error to allow is run in the first one."""
    for test in tests:
        outputs = test["expected"]
        allowed = [output["ulps"].keys() for output in outputs.values() if "ulps" in output]
        for dtype in dtypes if allowed else dtypes[:1]:
            own = {n: o for n, o in outputs.items() if "ulps" not in o or dtype in o["ulps"]}
            if not own:
                continue
            inputs = {name: array(written) for name, written in test["inputs"].items()}
            try:
                came = run(test["function"], test["parameters"], inputs, dtype)
            except CannotError as cannot:
                yield Verdict(test, dtype, "cannot", str(cannot))
                continue
            wrong = []
            # A library may lack one of several outputs, such as the lse of an attention.
            judged = {name: output for name, output in own.items() if name in came}
            for name, output in judged.items():
                found, most = error(came[name], output, dtype), output.get("ulps", {}).get(dtype, 0)
                if not found <= most:
                    wrong.append(f"{name} is {found:.3g} units off, {most} allowed")
            outcome = "fail" if wrong else "pass" if judged else "cannot"
            yield Verdict(test, dtype, outcome, "; ".join(wrong))


def main(run: Run, dtypes: list[str], parser: argparse.ArgumentParser | None = None) -> None:
    """Print how many tests of each group pass, fail, and cannot be run; and which, if asked."""
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--group", choices=GROUPS, action="append", help="run these alone")
    parser.add_argument("--verbose", action="store_true", help="list all tests that do not pass")
    options = parser.parse_args()
    print(f"{'group':12}{'dtype':10}{'pass':>6}{'fail':>6}{'cannot':>8}")
    failed = 0
    for group in options.group or GROUPS:
        found = list(verdicts(run, dtypes, read(group)["tests"]))
        for dtype in dict.fromkeys(verdict.dtype for verdict in found):
            counts = Counter(verdict.outcome for verdict in found if verdict.dtype == dtype)
            row = "".join(f"{counts[name]:{n}}" for name, n in zip(COLUMNS, (6, 6, 8), strict=True))
            print(f"{group:12}{dtype:10}{row}")
            failed += counts["fail"]
        for test, dtype, outcome, reason in found:
            if options.verbose and outcome != "pass":
                print(f"  {test['id']} {dtype}: {outcome}: {reason}")
    raise SystemExit(failed > 0)
