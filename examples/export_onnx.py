"""Export rotation and causal attention to an ONNX file that takes sequences of any length.

ndonnx has the functions of the Array API standard, but records a graph instead of computing. The
function that computes with NumPy is called with its arrays, and the graph is saved for
onnxruntime. The length of the sequence is not known while the graph is recorded, so that
positions are counted within it, and `CausalMask` is evaluated at them.

    pip install ndonnx onnx onnxruntime
    python examples/export_onnx.py

Prints the file, its size, and the difference from NumPy at two lengths.
"""

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import ndonnx as ndx
import numpy as np
import onnx
import onnxruntime

from positional_embeddings import CausalMask, RoPE, scaled_dot_product_attention

HEADS, HEAD_SIZE = 4, 16
LENGTHS = 7, 100  # that the file is run at
TOLERANCE = 1e-6  # what float32 rounds reaches this at some hundred positions
OUTPUT = Path(__file__).parent / "output" / "attention.onnx"

rope = RoPE(HEAD_SIZE, max(LENGTHS), feature_axis=-1, seq_axis=-2)  # positions may be beyond


def attend(q: Any, k: Any, v: Any, positions: Any) -> Any:
    """Return the outputs (batch, heads, seq, head) of any library."""
    q, k = rope(q, positions=positions), rope(k, positions=positions)
    mask = CausalMask()(positions[:, None], positions[None, :])
    return scaled_dot_product_attention(q, k, v, mask=mask, feature_axis=-1, seq_axis=-2)


def record() -> onnx.ModelProto:
    """Return the graph of `attend`, with any number of sequences of any length."""
    shape = ("batch", HEADS, "seq", HEAD_SIZE)
    q, k, v = (ndx.argument(shape=shape, dtype=ndx.float32) for _ in range(3))
    ones = ndx.ones_like(q[0, 0, :, 0], dtype=ndx.int64)
    positions = ndx.cumulative_sum(ones) - 1  # 0, 1, 2, ...
    with warnings.catch_warnings():
        # onnxruntime has cosine and sine in float32 alone, the dtype of q.
        warnings.filterwarnings("ignore", "'(cos|sin)' is not implemented for 'float64'")
        output = attend(q, k, v, positions)
    return ndx.build({"q": q, "k": k, "v": v}, {"output": output})


def main() -> int:
    """Export, and return 0 if onnxruntime gives what NumPy does."""
    parser = argparse.ArgumentParser(description="Export attention to ONNX.")
    parser.add_argument("file", nargs="?", type=Path, default=OUTPUT, help="where to save it")
    file = parser.parse_args().file
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(record(), file)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")

    session = onnxruntime.InferenceSession(file)
    rng = np.random.default_rng(0)
    largest = 0.0
    for length in LENGTHS:
        q, k, v = rng.standard_normal((3, 2, HEADS, length, HEAD_SIZE), dtype=np.float32)
        (output,) = session.run(None, {"q": q, "k": k, "v": v})
        difference = float(np.abs(output - attend(q, k, v, np.arange(length))).max())
        print(f"Length {length:3d}: output {output.shape}, difference {difference:.1e}")
        largest = max(largest, difference)
    print(f"Largest difference from NumPy: {largest:.1e}")
    return int(not largest <= TOLERANCE)  # NaN fails too


if __name__ == "__main__":
    sys.exit(main())
