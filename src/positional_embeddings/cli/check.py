"""Test that the array libraries which are installed compute here what they should.

A few results in float32, on each of their devices, are compared with plain formulas in float64 of
NumPy. A library that is not installed, or cannot work here, is listed with the reason; it is no
failure. The exit status is 1 if a result is wrong or a calculation stops with an error.

For example:
  positional-embeddings check
  positional-embeddings check --library cupy --library torch
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import positional_embeddings as pe
from positional_embeddings.arrays.errors import counted
from positional_embeddings.arrays.find import on_given_device, space_of
from positional_embeddings.arrays.namespace import Array, Device, HostArray, Namespace, np
from positional_embeddings.cli.libraries import LIBRARIES, Place, find_library, reason_of
from positional_embeddings.cli.terminal import Answer, CommandError, Parser, table

# Results are of the size of 1, and computed in float32.
_TOLERANCE = 5e-6
_SEQ, _FEATURES, _BASE = 5, 8, 10_000
_FREQUENCIES = _BASE ** (-np.arange(0, _FEATURES, 2) / _FEATURES)
# Each query sees its own key and the one before it.
_SEEN = np.eye(_SEQ, dtype=bool) | np.eye(_SEQ, k=-1, dtype=bool)


SUMMARY = "test quickly that the array libraries here give right results"


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command to its parser."""
    what = "test this library only, which has to work; may be repeated"
    parser.add_argument("--library", action="append", metavar="NAME", choices=LIBRARIES, help=what)


def run(arguments: argparse.Namespace) -> Answer:
    """Test the libraries that are there."""
    missing = "failed" if arguments.library else "left out"
    rows = [
        {"where": ", ".join(filter(None, (library.title, place.name)))} | _test(place, missing)
        for library in map(find_library, arguments.library or LIBRARIES)
        for place in library.places
    ]
    statuses = [row["status"] for row in rows]
    passed, failed = statuses.count("passed"), statuses.count("failed")
    text = table([(row["status"], row["where"], row["detail"]) for row in rows])
    data = {"places": rows, "failed": failed}
    return Answer(f"{text}\n\n{passed} passed, {failed} failed", data, min(1, failed))


def _test(place: Place, missing: str) -> dict[str, Any]:
    """Test a device, and return the error of each result, or why there is none."""
    if place.xp is None:
        return {"status": missing, "detail": place.reason, "errors": {}}
    start = time.perf_counter()
    errors = {name: _error(law, place) for name, law in _LAWS.items()}
    took = time.perf_counter() - start
    wrong = [
        f"{name}: {error if isinstance(error, str) else f'an error of {error:.1e}'}"
        for name, error in errors.items()
        if isinstance(error, str) or not error <= _TOLERANCE
    ]
    detail = "; ".join(wrong)
    if not wrong:
        results, largest = counted(len(errors), "result"), max(errors.values())
        detail = f"{results}, largest error {largest:.1e}, {took:.1f} s"
    return {"status": "failed" if wrong else "passed", "detail": detail, "errors": errors}


def _error(law: Callable[..., float], place: Place) -> float | str:
    """Return the error of a result, or why there is none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return on_given_device(law)(xp=place.xp, device=place.device)
    except Exception as error:  # noqa: BLE001 - a driver or a compiler raises anything
        return reason_of(error)


def _array(values: HostArray, xp: Namespace, device: Device) -> Array:
    return xp.asarray(values.astype(np.float32), device=device)


def _difference(result: Array, expected: HostArray) -> float:
    """Return the largest difference to an array of NumPy; that to NaN is NaN."""
    numbers = np.asarray(space_of(result=result).to_numpy(result), dtype=np.float64)
    if numbers.shape != expected.shape:
        raise CommandError(f"the result has shape {numbers.shape}, not {expected.shape}")
    return float(np.max(np.abs(numbers - expected)))


def _sample(seed: int) -> Array:
    """Return numbers of -1 to 1, (features, positions), the same ones on all machines."""
    feature, position = np.ogrid[:_FEATURES, :_SEQ]
    return np.sin(seed + 3 * feature + 7 * position)


def _check_rotation(xp: Namespace, device: Device) -> float:
    """Compare a rotation, and the rotation back, where float32 angles are off by a hundredth."""
    x, first = _sample(0), 2**20 - 3
    half = _FEATURES // 2
    angles = np.outer(_FREQUENCIES, first + np.arange(_SEQ))
    pairs = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    rope = pe.RoPE(_FEATURES, first + _SEQ, _BASE)
    result = rope(_array(x, xp, device), offset=first)
    back = rope(result, offset=first, inverse=True)
    expected = np.stack([np.concat([pairs.real, pairs.imag]), x])
    return _difference(xp.stack([result, back]), expected)


def _check_attention(xp: Namespace, device: Device) -> float:
    """Compare causal attention in a window of 2 keys."""
    q, k, v = (_sample(seed) for seed in (3, 4, 5))
    weights = np.exp(q.T @ k / np.sqrt(_FEATURES)) * _SEEN
    expected = v @ (weights / np.sum(weights, axis=1, keepdims=True)).T
    mask = pe.CausalMask() | pe.SlidingWindowMask(1, 0)
    arrays = (_array(x, xp, device) for x in (q, k, v))
    return _difference(pe.scaled_dot_product_attention(*arrays, mask=mask), expected)


def _check_mask(xp: Namespace, device: Device) -> float:
    mask = pe.CausalMask() | pe.SlidingWindowMask(1, 0)
    result = xp.astype(mask.dense(_SEQ, xp=xp, device=device), xp.float32)
    return _difference(result, ~_SEEN[:, :, None])


def _check_alibi(xp: Namespace, device: Device) -> float:
    query, key = np.ogrid[:_SEQ, :_SEQ]
    expected = (key - query)[:, :, None] * np.asarray([2.0**-4, 2.0**-8])
    return _difference(pe.alibi_bias(2, _SEQ, xp=xp, dtype=xp.float32, device=device), expected)


def _check_sinusoidal(xp: Namespace, device: Device) -> float:
    positions = np.asarray([0, 1, 1000, 2**20 - 3])
    angles = np.outer(_FREQUENCIES, positions)
    expected = np.stack([np.sin(angles), np.cos(angles)], axis=1).reshape(_FEATURES, -1)
    return _difference(pe.sinusoidal_encoding(_array(positions, xp, device), _FEATURES), expected)


_LAWS: dict[str, Callable[..., float]] = {
    "rotation": _check_rotation,
    "attention": _check_attention,
    "mask": _check_mask,
    "ALiBi": _check_alibi,
    "sinusoidal encoding": _check_sinusoidal,
}
