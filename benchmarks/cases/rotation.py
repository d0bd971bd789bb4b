"""Rotation: layouts and sizes, complex numbers, a decoding step, and given positions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, Settings, measured
from harness.inputs import BASE, BHSD, DSN, HostArray, RotationInputs, random_rotation, shapes
from harness.targets import (
    APPLY,
    APPLY_WITH_OUT,
    BY_OFFSET,
    BY_POSITIONS,
    BY_TABLES,
    COPY_TO,
    FUSED,
    LOOPS,
    LOOPS_WITH_OUT,
    PLAIN,
    TEXTBOOK_HALVES,
    WITH_OUT,
)
from harness.timing import Rounds, Run
from peers import peer

from positional_embeddings import RoPE, apply_rope

PEERS = {
    "textbook NumPy": "numpy.rotation",
    "torch eager": "torch.eager",
    "torch.compile": "torch.compiled",
    "JAX jit": "jax.rotation",
    "ONNX Runtime": "onnx.rotation",
    "rotary-embedding-torch": "rotary_embedding_torch.rotation",
    LOOPS: "numba.rotation",
    LOOPS_WITH_OUT: "numba.rotation_to_out",
}
TOKEN_PEERS = PEERS | {
    TEXTBOOK_HALVES: "numpy.rotation_by_halves",
    "ONNX Runtime, bound arrays": "onnx.bound",
}
COMPLEX_PEERS = {
    "textbook NumPy": "numpy.complex_product",
    "torch eager": "torch.complex_product",
    "JAX jit": "jax.complex_product",
}
TRACKED = ("textbook NumPy", LOOPS)
# These take no features first: they get as many bytes in BHSD.
FEATURES_LAST = ("ONNX Runtime", "rotary-embedding-torch")
# Its angles are of float32, off by 1e-4 at position 2,000.
TOLERANCES = {"rotary-embedding-torch": 1e-3}


def rotation(settings: Settings) -> list[Builder]:
    """Return the three layouts in three sizes, heads of 64, and interleaved pairs."""
    seq, unit, heads = (512, 1, 4) if settings.quick else (2048, 16, 16)
    built = []
    # 16, 64 and 256 MB.
    for batch, times in ((1, 1), (2, 2)) if settings.quick else ((1, 1), (2, 2), (8, 2)):
        name, labels = f"{unit * batch * times} MB", {"main": True, "large": batch > 1}
        for layout, shape in shapes(batch, heads * times, seq, 128).items():
            inputs = partial(random_rotation, layout, shape, threads=settings.threads)
            built.append(_builder("rotation", name, layout, inputs, **labels))
    inputs = partial(random_rotation, BHSD, (4, heads, seq // 2, 64), threads=settings.threads)
    built.append(_builder("rotation", f"{unit} MB, heads of 64", BHSD, inputs, large=False))
    shape = (2, 2 * heads, seq, 128)
    options = {"pairs": "interleaved", "threads": settings.threads}
    inputs = partial(random_rotation, BHSD, shape, **options)
    built.append(_builder("rotation", f"{unit * 4} MB, interleaved", BHSD, inputs, large=True))
    return built


def complex_numbers(settings: Settings) -> list[Builder]:
    """Return the three layouts of 64 MB of complex numbers."""
    seq, name, heads = (512, "4 MB", 8) if settings.quick else (2048, "64 MB", 32)
    options = {"dtype": np.complex64, "pairs": "interleaved", "threads": settings.threads}
    return [
        _builder("complex", name, layout, partial(random_rotation, layout, shape, **options))
        for layout, shape in shapes(2, heads, seq, 64).items()
    ]


def decoding(settings: Settings) -> list[Builder]:
    """Return one token of 32 heads at position 1,000."""
    options = {"offset": 1000, "threads": settings.threads}
    inputs = partial(random_rotation, BHSD, (1, 32, 1, 128), **options)
    return [_builder("decoding", "one token", BHSD, inputs)]


def _builder(
    topic: str, name: str, layout: str, inputs: Callable[[], RotationInputs], **labels: Any
) -> Builder:
    """Return the name of a case and what measures it; its arrays are made only then."""
    return f"{topic} {name} {layout}", lambda rounds: measured(
        _case(topic, name, inputs(), labels), rounds
    )


def _case(topic: str, name: str, inputs: RotationInputs, labels: dict[str, Any]) -> Case:
    """Return a rotation with its contenders, the copy first."""
    x, expected = inputs.x, inputs.expected()
    forms: dict[str, dict[str, Any]] = {FUSED: {"fused": True}}
    if topic != "complex":
        # Most of a copy's time goes into new memory, which some libraries reuse by themselves.
        forms[WITH_OUT] = {"fused": True, "with_out": True}
    if topic == "decoding":
        forms[APPLY] = {"by_tables": True}
        forms[APPLY_WITH_OUT] = {"by_tables": True, "with_out": True}
    forms[PLAIN] = {"fused": False}
    contenders = [Contender("copy", lambda: x.copy, x, tracked=True)]
    if topic == "rotation":
        contenders.append(Contender(COPY_TO, peer("numpy.copy_to_array", inputs), x))
    contenders += [
        Contender(form, partial(ours, inputs, **options), expected, tracked=True)
        for form, options in forms.items()
    ]
    peers = {"complex": COMPLEX_PEERS, "decoding": TOKEN_PEERS}.get(topic, PEERS)
    for label, path in peers.items():
        given, note = inputs, ""
        if label == "rotary-embedding-torch":
            given = replace(given, pairs="interleaved")
        if inputs.layout == DSN and label in FEATURES_LAST:
            head, seq, heads = x.shape
            given = replace(given, layout=BHSD, x=x.reshape(1, heads, seq, head))
            note = f"as many bytes in {BHSD}"
        values = expected if given is inputs else given.expected()
        tolerance, tracked = TOLERANCES.get(label, 1e-5), label in TRACKED
        contenders.append(Contender(label, peer(path, given), values, tolerance, tracked, note))
    return Case(topic, name, x.nbytes, contenders, {"layout": inputs.layout} | labels)


def ours(
    inputs: RotationInputs,
    *,
    fused: bool | None = None,
    with_out: bool = False,
    by_tables: bool = False,
    xp: Any = np,
    dtype: Any = None,
) -> Run:
    """Return the call of this library, which may write to an array that is there already."""
    rope = RoPE(
        inputs.head,
        inputs.offset + inputs.seq,
        BASE,
        layout=inputs.pairs,
        feature_axis=inputs.feature_axis,
        seq_axis=inputs.seq_axis,
        fused=fused,
    )
    x, offset = xp.asarray(inputs.x, dtype=dtype), inputs.offset
    options = {"out": xp.empty_like(x)} if with_out else {}
    if by_tables:
        tables = rope.tables(xp.arange(offset, offset + inputs.seq), dtype=x.dtype)
        options |= {"layout": inputs.pairs, "feature_axis": inputs.feature_axis}
        return partial(apply_rope, x, tables.cos, tables.sin, **options)
    options |= {"offset": offset} if offset else {}
    return lambda: rope(x, **options)


def positions(settings: Settings) -> list[Builder]:
    """Return positions that are given, against the same call by an offset."""
    seq = 512 if settings.quick else 2048
    names = {"eight one-token sequences": one_token_each, f"{seq:,} packed": partial(packed, seq)}
    return [
        (f"positions {name}, {how}", partial(by_positions, f"{name}, {how}", given, fused))
        for name, given in names.items()
        for how, fused in (("fused=False", False), ("default", None))
    ]


def one_token_each() -> tuple[RotationInputs, HostArray, HostArray]:
    """Return eight sequences, their positions (8, 1, 1), and what they should become."""
    tokens = random_rotation(BHSD, (8, 32, 1, 128), offset=1000)
    places = np.asarray([17, 100, 256, 511, 1000, 1023, 1500, 2047])
    as_one = replace(tokens, x=tokens.x.swapaxes(0, 2), positions=places)
    return tokens, places[:, None, None], as_one.expected().swapaxes(0, 2)


def packed(seq: int) -> tuple[RotationInputs, HostArray, HostArray]:
    """Return four sequences in a row, their positions, and what they should become."""
    inputs = random_rotation(BHSD, (1, 8, seq, 128))
    places = np.arange(seq) % (seq // 4)
    return inputs, places, replace(inputs, positions=places).expected()


def by_positions(
    name: str,
    given: Any,
    fused: Any,
    rounds: Rounds,
    *,
    xp: Any = np,
    sync: Run | None = None,
    view: Callable[[Any], HostArray] = np.asarray,
) -> dict[str, Any]:
    """Measure positions that are given against the same call by an offset."""
    inputs, places, expected = given()
    x, places, offset = xp.asarray(inputs.x), xp.asarray(places), inputs.offset
    rope = RoPE(inputs.head, 2048, BASE, feature_axis=-1, seq_axis=-2, fused=fused)

    def by_tables() -> Run:
        return partial(rope.tables(places, dtype=x.dtype), x)

    by_offset = partial(rope, x, offset=offset) if offset else partial(rope, x)
    runs = {
        BY_OFFSET: (lambda: by_offset, inputs.expected()),
        BY_POSITIONS: (lambda: partial(rope, x, positions=places), expected),
        BY_TABLES: (by_tables, expected),
    }
    contenders = [Contender(form, *run, tracked=xp is np, view=view) for form, run in runs.items()]
    return measured(Case("positions", name, inputs.x.nbytes, contenders), rounds, sync)
