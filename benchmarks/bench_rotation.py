"""Cases of rotation: three layouts in three sizes, complex numbers, a decoding step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from contenders import (
    Builder,
    Case,
    Contender,
    HostArray,
    NoSuchLayoutError,
    measured,
    needed,
)
from targets import FUSED, KEPT, PLAIN
from timing import Run

from positional_embeddings import RoPE

BASE = 10_000
DSN = "(head, seq, heads * batch)"
BHSD = "(batch, heads, seq, head)"
BSHD = "(batch, seq, heads, head)"
AXES = {DSN: (0, 1), BHSD: (-1, -2), BSHD: (-1, -3)}
# Features lie first here, which these libraries do not take: they get as many bytes in BHSD.
ELSEWHERE = ("ONNX Runtime", "rotary-embedding-torch")
# Angles of float32, as this library computes them, are off by 1e-4 at position 2,000.
COARSE = 1e-3


@dataclass(frozen=True)
class Rotation:
    """What to rotate, and how.

    Attributes
    ----------
    layout : str
        Order of the axes of `x`.
    x : array
        Float32, or complex64 with a number for each pair.
    threads : int
        Threads that a contender may use.
    offset : int, default 0
        Position of the first element.
    pairs : {"half", "interleaved"}, default "half"
        Which features form a pair.
    """

    layout: str
    x: HostArray
    threads: int
    offset: int = 0
    pairs: str = "half"

    @property
    def feature_axis(self) -> int:
        """Axis of the features in `x`."""
        return AXES[self.layout][0]

    @property
    def seq_axis(self) -> int:
        """Axis of the positions in `x`."""
        return AXES[self.layout][1]

    @property
    def seq(self) -> int:
        """Number of positions."""
        return self.x.shape[self.seq_axis]

    @property
    def head(self) -> int:
        """Number of real features."""
        return self.x.shape[self.feature_axis] * (2 if np.iscomplexobj(self.x) else 1)

    @cached_property
    def angles(self) -> HostArray:
        """Angles (seq, head / 2) in float64."""
        frequencies = BASE ** (-np.arange(0, self.head, 2) / self.head)
        return np.arange(self.offset, self.offset + self.seq)[:, None] * frequencies

    def placed(self, table: HostArray) -> HostArray:
        """Give a table (seq, features) the axes to broadcast against `x`."""
        if self.layout == DSN:
            return np.ascontiguousarray(table.T)[:, :, None]
        return table[:, None, :] if self.layout == BSHD else table

    def repeated(self, table: HostArray) -> HostArray:
        """Give a table (seq, head / 2) every feature, placed, in float32."""
        both = (
            np.concatenate([table, table], axis=-1)
            if self.pairs == "half"
            else np.repeat(table, 2, axis=-1)
        )
        return self.placed(both.astype(np.float32))

    @property
    def cos(self) -> HostArray:
        """Cosine of every feature, ready to be multiplied by `x`."""
        return self.repeated(np.cos(self.angles))

    @property
    def sin(self) -> HostArray:
        """Sine of every feature."""
        return self.repeated(np.sin(self.angles))

    @property
    def turns(self) -> HostArray:
        """Complex number of absolute value 1 for every pair."""
        return self.placed(np.exp(1j * self.angles).astype(np.complex64))


def expected(problem: Rotation) -> HostArray:
    """Rotate in float64, pair by pair as complex numbers."""
    out = np.empty_like(problem.x)
    feature, seq = problem.feature_axis, problem.seq_axis
    source, target = (np.moveaxis(array, (seq, feature), (0, -1)) for array in (problem.x, out))
    half = problem.head // 2
    first, second = (
        (slice(half), slice(half, None))
        if problem.pairs == "half"
        else (slice(0, None, 2), slice(1, None, 2))
    )
    for i, angles in enumerate(problem.angles):
        turn = np.exp(1j * angles)
        if np.iscomplexobj(problem.x):
            target[i] = source[i] * turn
        else:
            row = source[i].astype(np.float64)
            turned = (row[..., first] + 1j * row[..., second]) * turn
            target[i][..., first], target[i][..., second] = turned.real, turned.imag
    return out


def ours(problem: Rotation, *, fused: bool, kept: bool = False, xp: Any = np) -> Run:
    """Return the call of this library, which may write to an array that is kept."""
    rope = RoPE(
        problem.head,
        problem.offset + problem.seq,
        BASE,
        layout=problem.pairs,
        feature_axis=problem.feature_axis,
        seq_axis=problem.seq_axis,
        fused=fused,
    )
    x, offset = xp.asarray(problem.x), problem.offset
    if kept:
        out = xp.empty_like(x)
        return lambda: rope(x, out=out)
    return (lambda: rope(x, offset=offset)) if offset else (lambda: rope(x))


def peer(module: str, function: str, problem: Rotation) -> Run:
    """Return the call of a peer, whose module is imported only here."""
    return getattr(needed(module), function)(problem)


def rotation_case(topic: str, name: str, problem: Rotation, labels: dict[str, Any]) -> Case:
    """Return a rotation with its contenders, the copy first."""
    x, right = problem.x, expected(problem)
    made = [Contender("copy", lambda: x.copy, x, tracked=True)]
    made.append(Contender(FUSED, partial(ours, problem, fused=True), right, tracked=True))
    if topic == "rotation":
        # Most of a copy's time goes into fresh memory, which some libraries keep by themselves.
        prepare = partial(ours, problem, fused=True, kept=True)
        made.append(Contender(KEPT, prepare, right, tracked=True))
    made.append(Contender(PLAIN, partial(ours, problem, fused=False), right, tracked=True))
    for label, module, function, tracked in _peers(problem):
        given, values, note = problem, right, ""
        if label == "rotary-embedding-torch":
            given = replace(problem, pairs="interleaved")
        if problem.layout == DSN and label in ELSEWHERE:
            given = _in_bhsd(given)
            note = f"as many bytes in {BHSD}"
        if given is not problem:
            values = expected(given)
        tolerance = COARSE if label == "rotary-embedding-torch" else 1e-5
        prepare = partial(peer, module, function, given)
        made.append(Contender(label, prepare, values, tolerance, tracked=tracked, note=note))
    known = {"layout": problem.layout, "shape": list(x.shape), "pairs": problem.pairs}
    return Case(topic, name, x.nbytes, made, known | labels)


def _peers(problem: Rotation) -> Iterator[tuple[str, str, str, bool]]:
    """Yield name, module, function and whether its memory can be measured."""
    if np.iscomplexobj(problem.x):
        yield "textbook NumPy", "peer_numpy", "complex_product", True
        yield "torch eager", "peer_torch", "complex_product", False
        yield "JAX jit", "peer_jax", "complex_product", False
        return
    yield "textbook NumPy", "peer_numpy", "textbook", True
    yield "torch eager", "peer_torch", "eager", False
    yield "torch.compile", "peer_torch", "compiled", False
    yield "JAX jit", "peer_jax", "jitted", False
    yield "ONNX Runtime", "peer_onnx", "rotary", False
    yield "rotary-embedding-torch", "peer_rotary", "rotary", False
    yield "numba by hand", "peer_numba", "by_hand", True
    if problem.seq == 1:
        yield "ONNX Runtime, bound arrays", "peer_onnx", "bound", False


def _in_bhsd(problem: Rotation) -> Rotation:
    """Return as many numbers in the layout that these libraries take."""
    if problem.x.ndim != 3:
        message = f"takes no {problem.layout}"
        raise NoSuchLayoutError(message)
    head, seq, heads = problem.x.shape
    return replace(problem, layout=BHSD, x=problem.x.reshape(1, heads, seq, head))


def _problem(
    layout: str, shape: tuple[int, ...], threads: int, dtype: type = np.float32, **options: Any
) -> Rotation:
    """Return normally distributed numbers to rotate."""
    rng = np.random.default_rng(0)
    parts = 2 if dtype is np.complex64 else 1
    x = rng.standard_normal((*shape, parts), dtype=np.float32).view(dtype)[..., 0]
    return Rotation(layout, x, threads, **options)


def _built(
    topic: str,
    name: str,
    problem: Callable[[], Rotation],
    layout: str,
    **labels: Any,
) -> Builder:
    """Return the name of a case and what measures it, its arrays made only then."""
    return f"{topic} {name} {layout}", lambda rounds: measured(
        rotation_case(topic, name, problem(), labels), rounds
    )


def shapes(batch: int, heads: int, seq: int, head: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of as many numbers in each layout."""
    return {
        DSN: (head, seq, heads * batch),
        BHSD: (batch, heads, seq, head),
        BSHD: (batch, seq, heads, head),
    }


def rotation(threads: int, *, quick: bool) -> list[Builder]:
    """Return the three layouts in three sizes, heads of 64, and pairs of neighbours."""
    seq, unit, heads = (512, 1, 4) if quick else (2048, 16, 16)
    built = []
    # 16, 64 and 256 MB.
    for batch, times in ((1, 1), (2, 2)) if quick else ((1, 1), (2, 2), (8, 2)):
        name, large = f"{unit * batch * times} MB", batch > 1
        for layout, shape in shapes(batch, heads * times, seq, 128).items():
            problem = partial(_problem, layout, shape, threads)
            built.append(_built("rotation", name, problem, layout, main=True, large=large))
    problem = partial(_problem, BHSD, (4, heads, seq // 2, 64), threads)
    built.append(_built("rotation", f"{unit} MB, heads of 64", problem, BHSD, large=False))
    shape = (2, 2 * heads, seq, 128)
    problem = partial(_problem, BHSD, shape, threads, pairs="interleaved")
    built.append(_built("rotation", f"{unit * 4} MB, interleaved", problem, BHSD, large=True))
    return built


def complex_numbers(threads: int, *, quick: bool) -> list[Builder]:
    """Return the three layouts of 64 MB of complex numbers."""
    seq, name, heads = (512, "4 MB", 8) if quick else (2048, "64 MB", 32)
    built = []
    for layout, shape in shapes(2, heads, seq, 64).items():
        problem = partial(_problem, layout, shape, threads, pairs="interleaved", dtype=np.complex64)
        built.append(_built("complex", name, problem, layout))
    return built


def decoding(threads: int, *, quick: bool) -> list[Builder]:  # noqa: ARG001 - small as it is
    """Return one token of 32 heads at position 1,000."""
    problem = partial(_problem, BHSD, (1, 32, 1, 128), threads, offset=1000)
    return [_built("decoding", "one token", problem, BHSD)]
