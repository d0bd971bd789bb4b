"""What the figures are judged by. A target that is missed is shown, and fails nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

FUSED, PLAIN, OURS = "this library, fused", "this library, plain", "this library"
BY_HAND = "plain NumPy by hand"
WITH_OUT, LOOPS, LOOPS_WITH_OUT = (
    "this library, fused, out=",
    "numba by hand",
    "numba by hand, out=",
)
COPY_TO, TEXTBOOK_HALVES = "copy to an array", "textbook NumPy, halves"
APPLY, APPLY_WITH_OUT = "this library, apply_rope", "this library, apply_rope, out="
TOKEN_FORMS = FUSED, WITH_OUT, APPLY, APPLY_WITH_OUT
BY_OFFSET, BY_POSITIONS, BY_TABLES = "offset=", "positions=", "tables made once"
COSINES = "numpy.cos + numpy.sin, float64 angles"
Result = dict[str, Any]
Figure = tuple[str, float]
Target = tuple[str, float, Iterable[Figure]]


@dataclass(frozen=True)
class Verdict:
    """How far a target is met: the figure that is worst, and the number of cases that meet it."""

    target: str
    threads: int
    limit: float
    worst: float
    where: str
    met: int
    cases: int


def verdicts(results: list[Result]) -> list[Verdict]:
    """Judge all results of a run."""
    found = []
    for threads in dict.fromkeys(result["threads"] for result in results):
        chosen = [result for result in results if result["threads"] == threads]
        plain = _plain(chosen) if threads == 1 else ()
        found += _judged(threads, [*plain, *_fused(chosen), *_others(chosen)])
    return found


def gpu_verdicts(results: list[Result]) -> list[Verdict]:
    """Judge the results of a run on a GPU."""
    large = [result for result in _of_topic(results, "rotation") if result["large"]]
    target = "fused, 64 MB and more: copies (0.9 of their bandwidth)"
    return _judged(1, [(target, 1 / 0.9, _ratios(large, FUSED, "copy"))])


def _judged(threads: int, targets: Iterable[Target]) -> list[Verdict]:
    found = []
    for target, limit, figures in targets:
        known = list(figures)
        if known:
            where, worst = max(known, key=lambda figure: figure[1])
            met = sum(figure <= limit for _, figure in known)
            found.append(Verdict(target, threads, limit, worst, where, met, len(known)))
    return found


def _plain(results: list[Result]) -> Iterator[Target]:
    main = [r for r in _of_topic(results, "rotation") if r.get("main")]
    large, small = [r for r in main if r["large"]], [r for r in main if not r["large"]]
    complex_numbers = _of_topic(results, "complex")
    torch = ("torch eager", "rotary-embedding-torch")
    best = _ratios(large, PLAIN, *torch, "torch.compile", "JAX jit")
    yield "plain, 64 MB and more: copies", 3.5, _ratios(large, PLAIN, "copy")
    yield "plain, 64 MB and more: of the best of torch, JAX", 1.0, best
    yield "plain, 16 MB: of the textbook", 0.7, _ratios(small, PLAIN, "textbook NumPy")
    yield "plain, 16 MB: of the best of torch eager", 1.0, _ratios(small, PLAIN, *torch)
    yield "plain, complex: copies", 1.5, _ratios(complex_numbers, PLAIN, "copy")


def _fused(results: list[Result]) -> Iterator[Target]:
    rotations = _of_topic(results, "rotation")
    large, small = [r for r in rotations if r["large"]], [r for r in rotations if not r["large"]]
    compiled = "fused: of the better of torch.compile, JAX jit"
    with_out = _ratios(rotations, WITH_OUT, "ONNX Runtime")
    yield "fused, 16 MB and more: copies", 1.25, _ratios(rotations, FUSED, "copy")
    yield "fused: of ONNX Runtime", 0.8, _ratios(rotations, FUSED, "ONNX Runtime")
    yield "fused: of numba by hand", 1.2, _ratios(rotations, FUSED, LOOPS)
    yield "fused, out= (no target): of ONNX Runtime", 0.8, with_out
    yield "fused, out=, 16 MB: of numba by hand", 1.1, _ratios(small, WITH_OUT, LOOPS_WITH_OUT)
    yield "fused, out=, 64 MB and more: of copyto", 1.15, _ratios(large, WITH_OUT, COPY_TO)
    yield compiled, 1.0, _ratios(rotations, FUSED, "torch.compile", "JAX jit")


def _others(results: list[Result]) -> Iterator[Target]:
    token = _of_topic(results, "decoding")
    textbook = ("textbook NumPy", TEXTBOOK_HALVES)
    ours = [figure for name in TOKEN_FORMS for figure in _ratios(token, name, *textbook)]
    yield "token, plain: of the textbook", 1.5, _ratios(token, PLAIN, *textbook)
    yield "token, fused and apply_rope, also with out=: of the textbook", 1.0, ours
    yield "token, fused: of ONNX Runtime", 1.0, _ratios(token, FUSED, "ONNX Runtime")
    given = _of_topic(results, "positions")
    yield "positions=: of offset=", 2.0, _ratios(given, BY_POSITIONS, BY_OFFSET)
    yield "positions, tables made once: of offset=", 1.3, _ratios(given, BY_TABLES, BY_OFFSET)
    tables = _of_topic(results, "tables")
    yield "tables: of cosine and sine alone", 0.8, _ratios(tables, OURS, COSINES)
    yield "tables: peak memory in tables", 1.25, _peaks(tables, OURS)
    growing = [r for r in tables if "slowest token" in r]
    slowest = [(r["case"], r["slowest token"] / r["whole tables"]) for r in growing]
    # A token makes one page of 4,096 positions at most, and the pages before it stay as they are.
    yield "growing decode: slowest token, of the whole tables", 0.15, slowest
    attention = _of_topic(results, "attention")
    longest = max((r["tokens"] for r in attention if "tokens" in r), default=0)
    at_most = [r for r in attention if r.get("tokens") == longest]
    peaks = [(name, peak * r["bytes"] / 1e6) for r in at_most for name, peak in _peaks([r], OURS)]
    unblocked = _ratios(attention, OURS, "this library, unblocked")
    yield "attention, longest: peak memory in MB", 64.0, peaks
    yield "attention: of the unblocked form", 1.1, unblocked
    causal = [r for r in attention if "causal" in r["case"]]
    yield "attention: of PyTorch's", 1.2, _ratios(attention, OURS, "torch SDPA")
    yield "attention, causal: of PyTorch's", 1.1, _ratios(causal, OURS, "torch SDPA")
    few = _of_topic(results, "few queries")
    yield "one query, 16 keys: of plain NumPy", 2.0, _ratios(few, OURS, BY_HAND)
    for mask, most in (("causal", 5.0), ("padding", 10.0)):
        more = [
            (case_name(r), 1e6 * (medians[f"{OURS}, {mask}"] - medians[OURS]))
            for r in few
            if {OURS, f"{OURS}, {mask}"} <= (medians := _medians(r)).keys()
        ]
        yield f"one query, 16 keys, {mask}: us more than without", most, more
    step = _of_topic(results, "decoding step")
    yield "decoding step: of plain NumPy", 1.03, _ratios(step, OURS, BY_HAND)
    cached = _of_topic(results, "cached step")
    few_keys = [result for result in cached if " 64 keys" in result["case"]]
    yield (
        "attention of a cached step, 64 keys: of plain NumPy",
        1.6,
        _ratios(few_keys, OURS, BY_HAND),
    )
    yield from _sparse(_of_topic(results, "sparse"))


def _sparse(results: list[Result]) -> Iterator[Target]:
    """Yield the targets of masks that show a query a few keys."""
    if len(results) < 2:
        return
    short, long = sorted(results, key=lambda result: result["tokens"])
    names = [name for name, entry in long["contenders"].items() if "peak_bytes" in entry]
    ratios = [(name, long["contenders"][name]["ratio"]) for name in names]
    peaks = [
        (name, peak * long["bytes"] / 1e6) for name in names for _, peak in _peaks([long], name)
    ]
    growth = [
        (name, long["contenders"][name]["median"] / short["contenders"][name]["median"])
        for name in names
    ]
    yield "sparse, longest: of 1,024 keys without a mask", 1.5, ratios
    yield "sparse, longest: peak memory in MB, with the output", 64.0, peaks
    yield "sparse: time at four times the length", 4.4, growth


def _of_topic(results: list[Result], topic: str) -> list[Result]:
    return [result for result in results if result["topic"] == topic and "failed" not in result]


def _ratios(results: list[Result], name: str, *rivals: str) -> Iterator[Figure]:
    """Yield the time of one contender in multiples of the best of others."""
    for result in results:
        medians = _medians(result)
        known = [medians[rival] for rival in rivals if rival in medians]
        if name in medians and known:
            yield case_name(result), medians[name] / min(known)


def _medians(result: Result) -> dict[str, float]:
    """Return the time of each contender that was timed."""
    return {n: e["median"] for n, e in result["contenders"].items() if "median" in e}


def _peaks(results: list[Result], name: str) -> Iterator[Figure]:
    """Yield the peak memory in multiples of the size of a case."""
    for result in results:
        peak = result["contenders"].get(name, {}).get("peak_bytes")
        if peak is not None:
            yield case_name(result), peak / result["bytes"]


def case_name(result: Result) -> str:
    """Return the name of a case with its layout."""
    layout = f" {result['layout']}" if result["topic"] in {"rotation", "complex"} else ""
    return f"{result['case']}{layout}"
