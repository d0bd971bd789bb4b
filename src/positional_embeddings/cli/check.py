"""`check`: a self-test of each array library that is there, against plain loops over numbers."""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from positional_embeddings._core.capabilities import current_device
from positional_embeddings._core.namespace import Device, Namespace, host, to_host
from positional_embeddings.absolute.sinusoidal import sinusoidal_encoding
from positional_embeddings.attention.dot_product import scaled_dot_product_attention
from positional_embeddings.cli.libraries import Library, Place, libraries, quiet, reason_of
from positional_embeddings.cli.terminal import Answer, CommandError, add_json, table
from positional_embeddings.masks.structured import CausalMask, SlidingWindowMask
from positional_embeddings.relative.alibi import alibi_bias
from positional_embeddings.rotary.rope import RoPE

_DESCRIPTION = """\
Test that the array libraries which are installed compute here what they should: a few results in
float32, on each of their devices, against plain loops over Python's own numbers.

A library that is not installed, or cannot work here, is told with the reason; it is no failure.
The exit status is 1 if a result is wrong or a calculation stops with an error.
"""
_EPILOG = """\
examples:
  positional-embeddings check
  positional-embeddings check --library cupy --library torch
"""

# Results are of the size of 1, and computed in float32.
_TOLERANCE = 5e-6
_SEQ, _FEATURES, _BASE = 5, 8, 10_000

Numbers = list[list[float]]


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "check",
        help="test quickly that the array libraries here give right results",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--library",
        action="append",
        metavar="NAME",
        help="test this library only, which has to work; may be repeated",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Answer:
    """Test the libraries that are there."""
    rows: list[dict[str, Any]] = []
    for library in libraries(arguments.library):
        rows += _rows_of(library, demanded=arguments.library is not None)
    failed = [row for row in rows if row["status"] == "failed"]
    passed = sum(row["status"] == "passed" for row in rows)
    text = table([(row["status"], row["where"], row["detail"]) for row in rows])
    summary = f"{passed} passed, {len(failed)} failed"
    return Answer(
        f"{text}\n\n{summary}", {"places": rows, "failed": len(failed)}, min(1, len(failed))
    )


def _rows_of(library: Library, *, demanded: bool) -> list[dict[str, Any]]:
    """Test all devices of a library."""
    name = " ".join(filter(None, (library.name, library.version)))
    if not library.places:
        status = "failed" if demanded else "left out"
        return [{"status": status, "where": name, "detail": library.reason, "errors": {}}]
    return [_row(f"{name}, {place.name}", place, demanded=demanded) for place in library.places]


def _row(where: str, place: Place, *, demanded: bool) -> dict[str, Any]:
    if place.xp is None:
        status = "failed" if demanded else "left out"
        return {"status": status, "where": where, "detail": place.reason, "errors": {}}
    start = time.perf_counter()
    errors: dict[str, float | str] = {}
    with quiet():
        for name, law in _LAWS.items():
            try:
                with current_device(place.xp, place.device):
                    errors[name] = law(place.xp, place.device)
            except Exception as error:  # noqa: BLE001 - a driver or a compiler raises anything
                errors[name] = reason_of(error)
    wrong = {name: error for name, error in errors.items() if not _is_right(error)}
    worst = max((error for error in errors.values() if isinstance(error, float)), default=math.nan)
    took = time.perf_counter() - start
    detail = f"{len(errors)} results, largest error {worst:.1e}, {took:.1f} s"
    if wrong:
        detail = "; ".join(f"{name}: {_error_text(error)}" for name, error in wrong.items())
    return {
        "status": "failed" if wrong else "passed",
        "where": where,
        "detail": detail,
        "errors": {name: _finite(error) for name, error in errors.items()},
    }


def _is_right(error: float | str) -> bool:
    return isinstance(error, float) and error <= _TOLERANCE


def _error_text(error: float | str) -> str:
    return error if isinstance(error, str) else f"an error of {error:.1e}"


def _finite(error: float | str) -> float | str:
    """Return an error as JSON has it, which knows no NaN."""
    return error if isinstance(error, str) or math.isfinite(error) else str(error)


def _array(values: Any, xp: Namespace, on: Device) -> Any:
    return xp.asarray(host.asarray(values, dtype=host.float32), dtype=xp.float32, device=on)


def _difference(found: Any, expected: Any, xp: Namespace) -> float:
    """Return the largest difference of two tables; that to NaN is NaN."""
    numbers = host.asarray(to_host(found, xp), dtype=host.float64)
    table_of = host.asarray(expected, dtype=host.float64)
    if numbers.shape != table_of.shape:
        raise CommandError(f"the result has shape {numbers.shape}, not {table_of.shape}")
    return float(host.max(host.abs(numbers - table_of)))


def _sample(seed: int) -> Numbers:
    """Return numbers of -1 to 1, (features, sequence), the same ones on all machines."""
    return [[math.sin(seed + 3 * i + 7 * j) for j in range(_SEQ)] for i in range(_FEATURES)]


def _columns(rows: Numbers) -> Numbers:
    return [list(column) for column in zip(*rows, strict=True)]


def _rotated(x: Numbers, positions: Sequence[int]) -> Numbers:
    """Rotate features i and i + n/2 of each position by a loop."""
    half = _FEATURES // 2
    result = [[0.0] * len(positions) for _ in range(_FEATURES)]
    for j, position in enumerate(positions):
        for i in range(half):
            angle = position * _BASE ** (-2 * i / _FEATURES)
            cos, sin = math.cos(angle), math.sin(angle)
            a, b = x[i][j], x[i + half][j]
            result[i][j] = a * cos - b * sin
            result[i + half][j] = b * cos + a * sin
    return result


def _check_rotation(xp: Namespace, on: Device) -> float:
    x = _sample(0)
    found = RoPE(_FEATURES, _SEQ, _BASE)(_array(x, xp, on))
    return _difference(found, _rotated(x, range(_SEQ)), xp)


def _check_large_positions(xp: Namespace, on: Device) -> float:
    """Compare angles far away, where products in float32 are off by a hundredth."""
    x, first = _sample(1), 2**20 - 3
    found = RoPE(_FEATURES, first + _SEQ, _BASE)(_array(x, xp, on), offset=first)
    return _difference(found, _rotated(x, range(first, first + _SEQ)), xp)


def _check_norm(xp: Namespace, on: Device) -> float:
    """Compare the norms before and after a rotation, and a rotation back."""
    x = _sample(2)
    rope = RoPE(_FEATURES, _SEQ, _BASE)
    rotated = rope(_array(x, xp, on))
    norms = [math.fsum(a * a for a in column) for column in _columns(x)]
    kept = _difference(xp.sum(rotated * rotated, axis=0), norms, xp)
    return max(kept, _difference(rope(rotated, inverse=True), x, xp))


def _attended(q: Numbers, k: Numbers, v: Numbers, window: int) -> Numbers:
    """Return causal attention with a window by a loop."""
    q, k, v = _columns(q), _columns(k), _columns(v)
    result = []
    for i, query in enumerate(q):
        seen = range(max(0, i - window + 1), i + 1)
        scores = [math.fsum(a * b for a, b in zip(query, k[j], strict=True)) for j in seen]
        weights = [math.exp(score / math.sqrt(_FEATURES)) for score in scores]
        values = [
            math.fsum(w * v[j][d] for w, j in zip(weights, seen, strict=True))
            for d in range(_FEATURES)
        ]
        result.append([value / math.fsum(weights) for value in values])
    return _columns(result)


def _check_attention(window: int, mask: Any) -> Callable[[Namespace, Device], float]:
    def check(xp: Namespace, on: Device) -> float:
        q, k, v = (_sample(seed) for seed in (3, 4, 5))
        found = scaled_dot_product_attention(*(_array(x, xp, on) for x in (q, k, v)), mask=mask)
        return _difference(found, _attended(q, k, v, window), xp)

    return check


def _check_mask(xp: Namespace, on: Device) -> float:
    found = (CausalMask() | SlidingWindowMask(1, 0)).dense(_SEQ, xp=xp, device=on)
    expected = [[[float(not i - 2 < j <= i)] for j in range(_SEQ)] for i in range(_SEQ)]
    return _difference(xp.astype(found, xp.float32), expected, xp)


def _check_alibi(xp: Namespace, on: Device) -> float:
    found = alibi_bias(2, _SEQ, xp=xp, dtype=xp.float32, device=on)
    expected = [
        [[(j - i) * 2.0 ** (-4 * (h + 1)) for h in range(2)] for j in range(_SEQ)]
        for i in range(_SEQ)
    ]
    return _difference(found, expected, xp)


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
    return _difference(found, expected, xp)


_LAWS: dict[str, Callable[[Namespace, Device], float]] = {
    "rotation": _check_rotation,
    "rotation at position 1,048,573": _check_large_positions,
    "norm after a rotation": _check_norm,
    "causal attention": _check_attention(_SEQ, CausalMask()),
    "attention in a window": _check_attention(2, SlidingWindowMask(1, 0)),
    "mask": _check_mask,
    "ALiBi": _check_alibi,
    "sinusoidal encoding": _check_sinusoidal,
}
