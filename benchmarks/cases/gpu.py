"""Rotation on a GPU: the layouts in three sizes, and a decoding step."""

from functools import partial
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, measured
from harness.inputs import BHSD, HostArray, random_rotation, shapes
from harness.targets import FUSED, PLAIN
from harness.timing import Rounds, Run
from peers import peer

from cases.rotation import ours

SIZES = {"64 MB": (2, 32), "256 MB": (8, 32), "1024 MB": (8, 128)}
QUICK_SIZES = {"1 MB": (1, 1), "2 MB": (2, 1), "4 MB": (2, 2)}
PEERS = {
    "CuPy textbook": ("cupy.textbook", {}),
    "CuPy kernel by hand": ("cupy.kernel", {}),
    "torch eager": ("torch.eager", {"device": "cuda"}),
    "torch.compile": ("torch.compiled", {"device": "cuda"}),
}


def rotation_and_decoding(cupy: Any, *, quick: bool) -> list[Builder]:
    """Return the three layouts in three sizes, and one token of 32 heads."""
    labels = {"main": True, "large": True}
    built = [
        (name, partial(_measured, cupy, "rotation", name, layout, shape, labels))
        for name, (batch, heads) in (QUICK_SIZES if quick else SIZES).items()
        for layout, shape in shapes(batch, heads, 2048, 128).items()
    ]
    token = (1, 32, 1, 128)
    decoding = partial(_measured, cupy, "decoding", "one token", BHSD, token, {"offset": 1000})
    return [*built, ("one token", decoding)]


def _measured(
    cupy: Any,
    topic: str,
    name: str,
    layout: str,
    shape: tuple[int, ...],
    labels: dict[str, Any],
    rounds: Rounds,
) -> dict[str, Any]:
    inputs = random_rotation(layout, shape, offset=labels.get("offset", 0))
    x, expected = inputs.x, inputs.expected()
    calls: dict[str, Run] = {
        FUSED: partial(ours, inputs, fused=True, xp=cupy),
        PLAIN: partial(ours, inputs, fused=False, xp=cupy),
    }
    calls |= {form: peer(path, inputs, **more) for form, (path, more) in PEERS.items()}
    contenders = [Contender("copy", peer("cupy.copy", inputs), x, view=on_host)]
    contenders += [Contender(form, call, expected, view=on_host) for form, call in calls.items()]
    known = {"layout": layout, "shape": list(shape)} | labels
    sync = cupy.cuda.Device().synchronize
    return measured(Case(topic, name, x.nbytes, contenders, known), rounds, sync)


def on_host(array: Any) -> HostArray:
    """Return an array of CuPy or PyTorch as one of NumPy."""
    return np.asarray(array.get() if hasattr(array, "get") else array.cpu())
