"""What the figures are read against. A target that is missed is shown, and fails nothing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

FUSED, PLAIN, OURS = "this library, fused", "this library, plain", "this library"
KEPT = "this library, fused, out="
Result = dict[str, Any]
Figure = tuple[str, float]


@dataclass(frozen=True)
class Verdict:
    """How far a target is met.

    Attributes
    ----------
    target : str
        The target in words.
    threads : int
        Number of threads.
    limit, worst : float
        The limit, and the figure that comes closest to it or is farthest beyond.
    where : str
        Case of that figure.
    met, cases : int
        Number of cases that meet the target, and of all.
    """

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
        found += [*_plain(chosen, threads), *_fused(chosen, threads), *_others(chosen, threads)]
    return found


def verdicts_of_gpu(results: list[Result]) -> list[Verdict]:
    """Judge the results of a run on a GPU."""
    large = [result for result in _topic(results, "rotation") if result["large"]]
    target = "fused, 64 MB and more: copies (0.9 of their bandwidth)"
    return list(_judge(1)(target, 1 / 0.9, _ratios(large, FUSED, "copy")))


def _plain(results: list[Result], threads: int) -> Iterator[Verdict]:
    if threads > 1:
        return
    half = [r for r in _topic(results, "rotation") if r.get("main")]
    large, small = [r for r in half if r["large"]], [r for r in half if not r["large"]]
    judge = _judge(threads)
    yield from judge("plain, 64 MB and more: copies", 3.5, _ratios(large, PLAIN, "copy"))
    rivals = ("torch eager", "torch.compile", "JAX jit", "rotary-embedding-torch")
    yield from judge(
        "plain, 64 MB and more: of the best of torch, JAX",
        1.0,
        _against_best(large, PLAIN, rivals),
    )
    yield from judge("plain, 16 MB: of the textbook", 0.7, _ratios(small, PLAIN, "textbook NumPy"))
    yield from judge(
        "plain, 16 MB: of the best of torch eager",
        1.0,
        _against_best(small, PLAIN, ("torch eager", "rotary-embedding-torch")),
    )
    complex_numbers = _topic(results, "complex")
    yield from judge("plain, complex: copies", 1.5, _ratios(complex_numbers, PLAIN, "copy"))


def _fused(results: list[Result], threads: int) -> Iterator[Verdict]:
    turned = _topic(results, "rotation")
    large = [r for r in turned if r["large"]]
    judge = _judge(threads)
    yield from judge("fused, 64 MB and more: copies", 1.3, _ratios(large, FUSED, "copy"))
    yield from judge("fused: of ONNX Runtime", 0.8, _ratios(turned, FUSED, "ONNX Runtime"))
    kept = "fused, out= (no target): of ONNX Runtime"
    yield from judge(kept, 0.8, _ratios(turned, KEPT, "ONNX Runtime"))
    yield from judge(
        "fused: of the better of torch.compile, JAX jit",
        1.0,
        _against_best(turned, FUSED, ("torch.compile", "JAX jit")),
    )


def _others(results: list[Result], threads: int) -> Iterator[Verdict]:
    judge = _judge(threads)
    token = _topic(results, "decoding")
    yield from judge("token, plain: of the textbook", 1.5, _ratios(token, PLAIN, "textbook NumPy"))
    yield from judge("token, fused: of ONNX Runtime", 1.0, _ratios(token, FUSED, "ONNX Runtime"))
    tables = _topic(results, "tables")
    cosines = "numpy.cos + numpy.sin, float64 angles"
    yield from judge("tables: of cosine and sine alone", 0.8, _ratios(tables, OURS, cosines))
    yield from judge("tables: peak memory in tables", 1.25, _peaks(tables, OURS))
    growing = [r for r in tables if "slowest token" in r]
    slowest = [(r["case"], r["slowest token"] / r["whole tables"]) for r in growing]
    # A token computes 4,096 positions at most, none of them twice, and moves none.
    yield from judge("growing decode: slowest token, of the whole tables", 0.15, slowest)
    attention = _topic(results, "attention")
    longest = max((r["tokens"] for r in attention if "tokens" in r), default=0)
    at_most = [r for r in attention if r.get("tokens") == longest]
    peaks = [(name, peak * r["bytes"] / 1e6) for r in at_most for name, peak in _peaks([r], OURS)]
    yield from judge("attention, longest: peak memory in MB", 64.0, peaks)
    whole = _ratios(attention, OURS, "this library, unblocked")
    yield from judge("attention: of the unblocked form", 1.1, whole)
    yield from judge("attention: of PyTorch's", 1.5, _ratios(attention, OURS, "torch SDPA"))


def _topic(results: list[Result], topic: str) -> list[Result]:
    return [result for result in results if result["topic"] == topic and "failed" not in result]


def _judge(threads: int) -> Callable[[str, float, Iterable[Figure]], Iterator[Verdict]]:
    def judge(target: str, limit: float, figures: Iterable[Figure]) -> Iterator[Verdict]:
        known = list(figures)
        if known:
            where, worst = max(known, key=lambda figure: figure[1])
            met = sum(figure <= limit for _, figure in known)
            yield Verdict(target, threads, limit, worst, where, met, len(known))

    return judge


def _median(result: Result, name: str) -> float | None:
    median: float | None = result["contenders"].get(name, {}).get("median")
    return median


def _ratios(results: list[Result], name: str, unit: str) -> Iterator[Figure]:
    """Yield the time of one contender in multiples of another's."""
    for result in results:
        time, other = _median(result, name), _median(result, unit)
        if time is not None and other is not None:
            yield place(result), time / other


def _against_best(results: list[Result], name: str, rivals: Iterable[str]) -> Iterator[Figure]:
    """Yield the time of one contender in multiples of the best of others."""
    for result in results:
        time, others = _median(result, name), [_median(result, rival) for rival in rivals]
        known = [other for other in others if other is not None]
        if time is not None and known:
            yield place(result), time / min(known)


def _peaks(results: list[Result], name: str) -> Iterator[Figure]:
    """Yield the peak memory in multiples of the size of a case."""
    for result in results:
        peak = result["contenders"].get(name, {}).get("peak_bytes")
        if peak is not None:
            yield place(result), peak / result["bytes"]


def place(result: Result) -> str:
    """Return the name of a case with its layout."""
    layout = f" {result['layout']}" if result["topic"] in {"rotation", "complex"} else ""
    return f"{result['case']}{layout}"
