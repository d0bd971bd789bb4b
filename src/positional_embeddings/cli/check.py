"""Test that the array libraries which are installed compute here what they should.

A few results in float32, on each of their devices, are compared with plain loops over Python's own
numbers. A library that is not installed, or cannot work here, is listed with the reason; it is no
failure. The exit status is 1 if a result is wrong or a calculation stops with an error.

For example:
  positional-embeddings check
  positional-embeddings check --library cupy --library torch
"""

import argparse
import cmath
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

from positional_embeddings.arrays.library import library_of_namespace
from positional_embeddings.arrays.namespace import Device, Namespace, np, to_host
from positional_embeddings.attention.dot_product import scaled_dot_product_attention
from positional_embeddings.biases.alibi import alibi_bias
from positional_embeddings.cli.libraries import LIBRARIES, Place, find_library, reason_of
from positional_embeddings.cli.terminal import Answer, CommandError, add_command, table
from positional_embeddings.encodings.sinusoidal import sinusoidal_encoding
from positional_embeddings.masks.by_position import CausalMask, SlidingWindowMask
from positional_embeddings.rotary.rope import RoPE

# Results are of the size of 1, and computed in float32.
_TOLERANCE = 5e-6
_SEQ, _FEATURES, _BASE = 5, 8, 10_000

# The features of each position.
Vectors = list[list[float]]


def add_to(commands: Any) -> None:
    """Add the command to the commands of a parser."""
    summary = "test quickly that the array libraries here give right results"
    parser = add_command(commands, "check", run, summary, __doc__)
    parser.add_argument(
        "--library",
        action="append",
        metavar="NAME",
        choices=LIBRARIES,
        help="test this library only, which has to work; may be repeated",
    )


def run(arguments: argparse.Namespace) -> Answer:
    """Test the libraries that are there."""
    rows: list[dict[str, Any]] = []
    for name in arguments.library or LIBRARIES:
        library = find_library(name)
        for place in library.places or [Place("", reason=library.reason)]:
            where = ", ".join(filter(None, (library.title, place.name)))
            if place.xp is None:
                status = "failed" if arguments.library else "left out"
                row = {"status": status, "detail": place.reason, "errors": {}}
            else:
                row = _test(place)
            rows.append({"where": where} | row)
    statuses = [row["status"] for row in rows]
    passed, failed = statuses.count("passed"), statuses.count("failed")
    text = table([(row["status"], row["where"], row["detail"]) for row in rows])
    data = {"places": rows, "failed": failed}
    return Answer(f"{text}\n\n{passed} passed, {failed} failed", data, min(1, failed))


def _test(place: Place) -> dict[str, Any]:
    """Test a device, and return the error of each result, or why there is none."""
    start = time.perf_counter()
    errors: dict[str, Any] = {}
    for name, law in _LAWS.items():
        try:
            with (
                warnings.catch_warnings(action="ignore"),
                library_of_namespace(place.xp).current_device(place.device, place.xp),
            ):
                errors[name] = law(place.xp, place.device)
        except Exception as error:  # noqa: BLE001 - a driver or a compiler raises anything
            errors[name] = reason_of(error)
    wrong = [
        f"{name}: {error if isinstance(error, str) else f'an error of {error:.1e}'}"
        for name, error in errors.items()
        if isinstance(error, str) or not error <= _TOLERANCE
    ]
    if wrong:
        return {"status": "failed", "detail": "; ".join(wrong), "errors": errors}
    took, worst = time.perf_counter() - start, max(errors.values())
    detail = f"{len(errors)} results, largest error {worst:.1e}, {took:.1f} s"
    return {"status": "passed", "detail": detail, "errors": errors}


def _array(values: Any, xp: Namespace, on: Device) -> Any:
    """Return vectors as an array (features, positions)."""
    return xp.asarray(np.asarray(values, dtype=np.float32).T, dtype=xp.float32, device=on)


def _difference(found: Any, expected: Any, xp: Namespace) -> float:
    """Return the largest difference to an array of NumPy; that to NaN is NaN."""
    numbers = np.asarray(to_host(found, xp), dtype=np.float64)
    if numbers.shape != expected.shape:
        raise CommandError(f"the result has shape {numbers.shape}, not {expected.shape}")
    return float(np.max(np.abs(numbers - expected)))


def _sample(seed: int) -> Vectors:
    """Return numbers of -1 to 1, the same ones on all machines."""
    return [[math.sin(seed + 3 * i + 7 * j) for i in range(_FEATURES)] for j in range(_SEQ)]


def _check_rotation(xp: Namespace, on: Device) -> float:
    """Compare a rotation, and the rotation back, where float32 angles are off by a hundredth."""
    vectors, half, first = _sample(0), _FEATURES // 2, 2**20 - 3
    expected = []
    for position, vector in enumerate(vectors, first):
        turned = [
            complex(vector[i], vector[i + half])
            * cmath.rect(1, position * _BASE ** (-2 * i / _FEATURES))
            for i in range(half)
        ]
        expected.append([z.real for z in turned] + [z.imag for z in turned])
    rope = RoPE(_FEATURES, first + _SEQ, _BASE)
    found = rope(_array(vectors, xp, on), offset=first)
    back = rope(found, offset=first, inverse=True)
    return max(
        _difference(found, np.asarray(expected).T, xp),
        _difference(back, np.asarray(vectors).T, xp),
    )


def _check_attention(xp: Namespace, on: Device) -> float:
    """Compare causal attention in a window of 2 keys."""
    queries, keys, values = (_sample(seed) for seed in (3, 4, 5))
    expected = []
    for i, query in enumerate(queries):
        seen = range(max(0, i - 1), i + 1)
        scores = [math.fsum(a * b for a, b in zip(query, keys[j], strict=True)) for j in seen]
        weights = [math.exp(score / math.sqrt(_FEATURES)) for score in scores]
        sums = [
            math.fsum(w * values[j][d] for w, j in zip(weights, seen, strict=True))
            for d in range(_FEATURES)
        ]
        expected.append([number / math.fsum(weights) for number in sums])
    q, k, v = (_array(vectors, xp, on) for vectors in (queries, keys, values))
    found = scaled_dot_product_attention(q, k, v, mask=CausalMask() | SlidingWindowMask(1, 0))
    return _difference(found, np.asarray(expected).T, xp)


def _check_mask(xp: Namespace, on: Device) -> float:
    found = (CausalMask() | SlidingWindowMask(1, 0)).dense(_SEQ, xp=xp, device=on)
    hidden = [[[not i - 2 < j <= i] for j in range(_SEQ)] for i in range(_SEQ)]
    return _difference(xp.astype(found, xp.float32), np.asarray(hidden), xp)


def _check_alibi(xp: Namespace, on: Device) -> float:
    found = alibi_bias(2, _SEQ, xp=xp, dtype=xp.float32, device=on)
    expected = [
        [[(j - i) * 2.0 ** (-4 * (h + 1)) for h in range(2)] for j in range(_SEQ)]
        for i in range(_SEQ)
    ]
    return _difference(found, np.asarray(expected), xp)


def _check_sinusoidal(xp: Namespace, on: Device) -> float:
    positions = [0, 1, 1000, 2**20 - 3]
    found = sinusoidal_encoding(_array(positions, xp, on), _FEATURES)
    expected = [
        [
            (math.cos if i % 2 else math.sin)(position * _BASE ** (-(i - i % 2) / _FEATURES))
            for position in positions
        ]
        for i in range(_FEATURES)
    ]
    return _difference(found, np.asarray(expected), xp)


_LAWS: dict[str, Callable[[Namespace, Device], float]] = {
    "rotation": _check_rotation,
    "attention": _check_attention,
    "mask": _check_mask,
    "ALiBi": _check_alibi,
    "sinusoidal encoding": _check_sinusoidal,
}
