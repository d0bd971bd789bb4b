"""Cases of attention: where the whole score matrix fits, where not, and under a causal mask."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from contenders import Builder, Case, Contender, HostArray, measured, needed
from timing import Rounds, Run

from positional_embeddings import scaled_dot_product_attention

HEADS, HEAD = 8, 64
LAST = {"feature_axis": -1, "seq_axis": -2}
UNBLOCKED = "this library, unblocked"
BLOCKED = "this library"
FEATURES_FIRST = "this library, (head, seq, heads)"
TORCH = "torch SDPA"
CHECKED = 16


@dataclass(frozen=True)
class Attention:
    """Queries, keys and values (heads, seq, head), and whether keys after a query are hidden."""

    q: HostArray
    k: HostArray
    v: HostArray
    causal: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """What the library is called with."""
        return {"mask": _after} if self.causal else {}


def attention(threads: int, *, quick: bool) -> list[Builder]:  # noqa: ARG001 - set from outside
    """Return three lengths, the middle one causal."""
    fits, middle, long = (256, 384, 512) if quick else (2048, 4096, 8192)
    return [
        _builder(fits, everything=True),
        _builder(middle, causal=True),
        _builder(long),
    ]


def _builder(n: int, *, causal: bool = False, everything: bool = False) -> Builder:
    name = f"{n:,} tokens" + (", causal" if causal else "")
    return f"attention {name}", lambda rounds: _measured(n, name, rounds, causal, everything)


def _measured(n: int, name: str, rounds: Rounds, causal: bool, everything: bool) -> dict[str, Any]:  # noqa: FBT001
    q, k, v = np.random.default_rng(0).standard_normal((3, HEADS, n, HEAD), dtype=np.float32)
    problem = Attention(q, k, v, causal)
    forms = {BLOCKED: (ours, True), TORCH: (by_torch, False)}
    if everything:
        forms |= {
            FEATURES_FIRST: (features_first, True),
            UNBLOCKED: (unblocked, True),
            "textbook NumPy": (textbook, True),
            "JAX jit": (by_jax, False),
        }
    right = expected(problem)
    contenders = [
        Contender(
            form,
            partial(prepare, problem),
            right,
            tracked=tracked,
            view=_rows_of_first if form == FEATURES_FIRST else _rows,
        )
        for form, (prepare, tracked) in sorted(forms.items(), key=lambda item: item[0] != TORCH)
    ]
    return measured(Case("attention", name, q.nbytes, contenders, {"tokens": n}), rounds)


def ours(problem: Attention) -> Run:
    """Return the call, which chooses its blocks."""
    q, k, v = problem.q[None], problem.k[None], problem.v[None]
    return lambda: scaled_dot_product_attention(q, k, v, **LAST, **problem.options)[0]


def unblocked(problem: Attention) -> Run:
    """Return the call that keeps all scores at once."""
    q, k, v = problem.q[None], problem.k[None], problem.v[None]
    options = LAST | {"return_weights": True}
    return lambda: scaled_dot_product_attention(q, k, v, **options)[0][0]


def features_first(problem: Attention) -> Run:
    """Return the call on (head, seq, heads)."""
    q, k, v = (
        np.ascontiguousarray(x.transpose(2, 1, 0)) for x in (problem.q, problem.k, problem.v)
    )
    return lambda: scaled_dot_product_attention(q, k, v)


def textbook(problem: Attention) -> Run:
    """Return the softmax of the scores times the values."""
    q, k, v = problem.q, problem.k, problem.v
    scale = np.float32(HEAD**-0.5)

    def attend() -> HostArray:
        scores = q @ k.swapaxes(-1, -2) * scale
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ v

    return attend


def by_torch(problem: Attention) -> Run:
    """Return PyTorch's kernel."""
    torch = needed("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (torch.from_numpy(x)[None] for x in (problem.q, problem.k, problem.v))
    return lambda: attend(q, k, v, is_causal=problem.causal)[0]


def by_jax(problem: Attention) -> Run:
    """Return JAX's function on (batch, seq, heads, head), compiled and waited for."""
    jax = needed("jax")
    q, k, v = (jax.numpy.asarray(x.swapaxes(0, 1)[None]) for x in (problem.q, problem.k, problem.v))
    attend = jax.jit(jax.nn.dot_product_attention)
    return lambda: attend(q, k, v)[0].swapaxes(0, 1).block_until_ready()


def expected(problem: Attention) -> HostArray:
    """Return every 16th row in float64."""
    q = problem.q[:, ::CHECKED].astype(np.float64)
    k, v = problem.k.astype(np.float64), problem.v.astype(np.float64)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(HEAD)
    if problem.causal:
        places = np.arange(k.shape[1])
        scores[:, places > places[::CHECKED, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


def _after(query: Any, key: Any) -> Any:
    return key > query


def _rows(output: Any) -> HostArray:
    return np.asarray(output)[:, ::CHECKED]


def _rows_of_first(output: Any) -> HostArray:
    return np.asarray(output).transpose(2, 1, 0)[:, ::CHECKED]
