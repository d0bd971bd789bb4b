"""On a GPU: rotation of the layouts, sizes and dtypes, decoding, given positions, attention."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, measured
from harness.inputs import BHSD, CHECKED, AttentionInputs, HostArray, random_rotation, shapes
from harness.targets import FUSED, OURS, PLAIN
from harness.timing import Rounds, Run
from peers import peer

from cases.rotation import by_positions, one_token_each, ours, packed
from positional_embeddings import CausalMask, scaled_dot_product_attention

SIZES = {"64 MB": (2, 32), "256 MB": (8, 32), "1024 MB": (8, 128)}
QUICK_SIZES = {"1 MB": (1, 1), "2 MB": (2, 1), "4 MB": (2, 2)}
# 256 MB, and quickly 2 MB, of numbers of two bytes.
HALF = ("256 MB", (8, 64)), ("2 MB", (2, 2))
# Half of what two adjacent numbers of up to 16 differ by, and a little more.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3.2e-2}
PEERS = {
    "CuPy textbook": ("cupy.textbook", {}),
    "CuPy kernel by hand": ("cupy.kernel", {}),
    "torch eager": ("torch.eager", {"device": "cuda"}),
    "torch.compile": ("torch.compiled", {"device": "cuda"}),
}


def all_cases(cupy: Any, *, quick: bool) -> list[Builder]:
    """Return the cases, each with its name; their arrays are made when they are measured."""
    return [
        *_rotations(cupy, quick=quick),
        *_tokens(cupy),
        *_positions(cupy, quick=quick),
        *_attention(cupy, quick=quick),
    ]


def _rotations(cupy: Any, *, quick: bool) -> list[Builder]:
    """Return the three layouts in three sizes; in one, interleaved and in half precision."""
    seq, head, labels = 2048, 128, {"large": True}
    sizes = QUICK_SIZES if quick else SIZES
    # Name, number of batches and of heads, dtype, and what is known besides.
    chosen = [(name, *size, "float32", {"main": True}) for name, size in sizes.items()]
    name, size = HALF[quick]
    chosen += [(f"{name}, {dtype}", *size, dtype, {}) for dtype in TOLERANCES]
    cases = [
        (case, layout, shape, labels | more, dtype)
        for case, batch, heads, dtype, more in chosen
        for layout, shape in shapes(batch, heads, seq, head).items()
    ]
    name, size = list(sizes.items())[1]
    cases.append((f"{name}, interleaved", BHSD, (*size, seq, head), labels, "float32"))
    return [(f"{case[0]} {case[1]}", partial(_rotated, cupy, "rotation", *case)) for case in cases]


def _tokens(cupy: Any) -> list[Builder]:
    """Return one token of 32 heads, in three dtypes; tables and charts show the first."""
    shape, labels = (1, 32, 1, 128), {"offset": 1000}
    cases = [("decoding", "one token", "float32")]
    cases += [("decoding in half precision", f"one token, {dtype}", dtype) for dtype in TOLERANCES]
    return [
        (name, partial(_rotated, cupy, topic, name, BHSD, shape, labels, dtype))
        for topic, name, dtype in cases
    ]


def _rotated(
    cupy: Any,
    topic: str,
    name: str,
    layout: str,
    shape: tuple[int, ...],
    labels: dict[str, Any],
    dtype: str,
    rounds: Rounds,
) -> dict[str, Any]:
    pairs = "interleaved" if "interleaved" in name else "half"
    inputs = random_rotation(layout, shape, offset=labels.get("offset", 0), pairs=pairs)
    inputs = replace(inputs, x=_rounded(cupy, inputs.x, dtype))
    expected, tolerance = inputs.expected(), TOLERANCES.get(dtype, 1e-5)
    calls: dict[str, Run] = {
        FUSED: partial(ours, inputs, fused=True, xp=cupy, dtype=dtype),
        PLAIN: partial(ours, inputs, fused=False, xp=cupy, dtype=dtype),
    }
    for form, (path, options) in PEERS.items():
        if dtype == "float32" and (pairs == "half" or path.startswith("torch")):
            calls[form] = peer(path, inputs, **options)
    contenders = [Contender("copy", peer("cupy.copy", inputs, dtype), inputs.x, view=on_host)]
    contenders += [
        Contender(form, call, expected, tolerance, view=on_host) for form, call in calls.items()
    ]
    size = inputs.x.size * (4 if dtype == "float32" else 2)
    case = Case(topic, name, size, contenders, {"layout": layout} | labels)
    return measured(case, rounds, _sync(cupy))


def _positions(cupy: Any, *, quick: bool) -> list[Builder]:
    """Return positions that are given on the device, against the same call by an offset."""
    seq = 512 if quick else 2048
    names = {"eight one-token sequences": one_token_each, f"{seq:,} packed": partial(packed, seq)}
    options = {"xp": cupy, "sync": _sync(cupy), "view": on_host}
    return [
        (f"positions {name}", partial(by_positions, name, given, None, **options))
        for name, given in names.items()
    ]


def _attention(cupy: Any, *, quick: bool) -> list[Builder]:
    """Return causal attention of a sequence, and that of one new token to all before it."""
    heads, head, queries, keys = (2, 64, 128, 256) if quick else (32, 128, 4096, 8192)
    return [
        (f"attention {name}", partial(_attended, cupy, name, (heads, n, head), keys_of, dtype))
        for dtype in ("float32", "float16")
        for name, n, keys_of in (
            (f"{queries:,} tokens, causal, {dtype}", queries, queries),
            (f"one token, {keys:,} keys, {dtype}", 1, keys),
        )
    ]


def _attended(
    cupy: Any, name: str, shape: tuple[int, int, int], keys: int, dtype: str, rounds: Rounds
) -> dict[str, Any]:
    heads, queries, head = shape
    rng = np.random.default_rng(0)
    arrays = [
        _rounded(cupy, rng.standard_normal((heads, n, head), dtype=np.float32), dtype)
        for n in (queries, keys, keys)
    ]
    inputs = AttentionInputs(*arrays, causal=queries > 1)
    on_device = {"device": "cuda", "dtype": dtype}
    forms = {
        "torch SDPA": peer("torch.attention", inputs, **on_device),
        OURS: partial(_ours, cupy, inputs, dtype),
    }
    tolerance = 1e-4 if dtype == "float32" else 4e-3
    expected = inputs.expected()
    copy = peer("cupy.copy_of_keys", inputs, dtype)
    contenders = [Contender("copy of the keys", copy, inputs.k, view=on_host)]
    contenders += [
        Contender(form, prepare, expected, tolerance, view=_rows) for form, prepare in forms.items()
    ]
    size = inputs.k.size * (4 if dtype == "float32" else 2)
    return measured(Case("attention on a GPU", name, size, contenders), rounds, _sync(cupy))


def _ours(cupy: Any, inputs: AttentionInputs, dtype: str) -> Run:
    q, k, v = (cupy.asarray(x)[None].astype(dtype) for x in (inputs.q, inputs.k, inputs.v))
    options: dict[str, Any] = {"feature_axis": -1, "seq_axis": -2}
    options |= {"mask": CausalMask()} if inputs.causal else {}
    return lambda: scaled_dot_product_attention(q, k, v, **options)[0]


def _rounded(cupy: Any, values: HostArray, dtype: str) -> HostArray:
    """Return the numbers of another dtype as float32, so that all start with the same."""
    if dtype == "float32":
        return values
    rounded: HostArray = cupy.asarray(values).astype(dtype).astype("float32").get()
    return rounded


def _sync(cupy: Any) -> Run:
    run: Run = cupy.cuda.Device().synchronize
    return run


def _rows(output: Any) -> HostArray:
    return on_host(output)[:, ::CHECKED]


def on_host(array: Any) -> HostArray:
    """Return an array of CuPy or PyTorch as one of NumPy, half precision as float32."""
    if hasattr(array, "get"):
        return array.astype("float32", copy=False).get()  # type: ignore[no-any-return]
    return np.asarray(array.float().cpu())
