"""Attention: all scores fit in memory, or do not, or are masked causally."""

from functools import partial
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, Settings, measured
from harness.inputs import CHECKED, AttentionInputs, HostArray
from harness.targets import OURS
from harness.timing import Rounds, Run
from peers import peer

from positional_embeddings import CausalMask, attention_weights, scaled_dot_product_attention

HEADS, HEAD = 8, 64
LAST = {"feature_axis": -1, "seq_axis": -2}


def attention(settings: Settings) -> list[Builder]:
    """Return three lengths, the last two also causal."""
    fits, middle, long = (256, 384, 512) if settings.quick else (2048, 4096, 8192)
    return [
        _builder(fits, whole=True),
        _builder(middle, causal=True),
        _builder(long, causal=True),
        _builder(long),
    ]


def _builder(n: int, **options: bool) -> Builder:
    name = f"{n:,} tokens" + (", causal" if "causal" in options else "")
    return f"attention {name}", partial(_measured, n, name, **options)


def _measured(
    n: int, name: str, rounds: Rounds, *, causal: bool = False, whole: bool = False
) -> dict[str, Any]:
    q, k, v = np.random.default_rng(0).standard_normal((3, HEADS, n, HEAD), dtype=np.float32)
    inputs = AttentionInputs(q, k, v, causal)
    # What prepares it, whether its memory is tracked, and its view.
    forms = {
        "torch SDPA": (peer("torch.attention", inputs), False, _rows),
        OURS: (partial(ours, inputs), True, _rows),
    }
    if whole:
        forms |= {
            f"{OURS}, (head, seq, heads)": (partial(features_first, inputs), True, _rows_of_first),
            f"{OURS}, unblocked": (partial(unblocked, inputs), True, _rows),
            "textbook NumPy": (peer("numpy.attention", inputs), True, _rows),
            "JAX jit": (peer("jax.attention", inputs), False, _rows),
        }
    expected = inputs.expected()
    contenders = [
        Contender(form, prepare, expected, tracked=tracked, view=view)
        for form, (prepare, tracked, view) in forms.items()
    ]
    return measured(Case("attention", name, q.nbytes, contenders, {"tokens": n}), rounds)


def ours(inputs: AttentionInputs) -> Run:
    """Return the call, which chooses its blocks."""
    q, k, v = (x[None] for x in (inputs.q, inputs.k, inputs.v))
    options = LAST | ({"mask": CausalMask()} if inputs.causal else {})
    return lambda: scaled_dot_product_attention(q, k, v, **options)[0]


def unblocked(inputs: AttentionInputs) -> Run:
    """Return the call that keeps all scores at once."""
    q, k, v = (x[None] for x in (inputs.q, inputs.k, inputs.v))
    return lambda: (attention_weights(q, k, **LAST) @ v)[0]


def features_first(inputs: AttentionInputs) -> Run:
    """Return the call on (head, seq, heads)."""
    q, k, v = (np.ascontiguousarray(x.transpose(2, 1, 0)) for x in (inputs.q, inputs.k, inputs.v))
    return lambda: scaled_dot_product_attention(q, k, v)


def _rows(output: Any) -> HostArray:
    return np.asarray(output)[:, ::CHECKED]


def _rows_of_first(output: Any) -> HostArray:
    return _rows(np.asarray(output).transpose(2, 1, 0))
