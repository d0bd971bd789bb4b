"""Rotation by the RotaryEmbedding operator of ONNX, run by ONNX Runtime."""

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from bench_rotation import BHSD, BSHD
from contenders import NoSuchLayoutError
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from bench_rotation import Rotation
    from contenders import HostArray
    from timing import Run

OPSET, IR = 23, 11


def session(axes: list[str], threads: int, **attributes: int) -> Any:
    """Return a model of this one operator."""
    node = helper.make_node(
        "RotaryEmbedding", ["x", "cos", "sin", "positions"], ["y"], **attributes
    )
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, axes),
        helper.make_tensor_value_info("cos", TensorProto.FLOAT, ["max", "pairs"]),
        helper.make_tensor_value_info("sin", TensorProto.FLOAT, ["max", "pairs"]),
        helper.make_tensor_value_info("positions", TensorProto.INT64, ["batch", "seq"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, axes)
    graph = helper.make_graph([node], "rotary", inputs, [output])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def ready(problem: "Rotation") -> tuple[Any, dict[str, "HostArray"]]:
    """Return the session and its inputs.

    The operator takes (batch, heads, seq, head), or (batch, seq, heads * head).
    """
    attributes = {"interleaved": int(problem.pairs == "interleaved")}
    x, axes = problem.x, ["batch", "heads", "seq", "head"]
    if problem.layout == BSHD:
        attributes["num_heads"] = x.shape[2]
        x, axes = x.reshape(*x.shape[:2], -1), ["batch", "seq", "features"]
    elif problem.layout != BHSD:
        message = f"takes no {problem.layout}"
        raise NoSuchLayoutError(message)
    positions = np.arange(problem.seq)[None].repeat(len(x), 0)
    cos, sin = (f(problem.angles).astype(np.float32) for f in (np.cos, np.sin))
    feed = {"x": x, "cos": cos, "sin": sin, "positions": positions}
    return session(axes, problem.threads, **attributes), feed


def rotary(problem: "Rotation") -> "Run":
    """Return the call on NumPy arrays."""
    rotate, feed = ready(problem)
    run, shape = rotate.run, problem.x.shape
    return lambda: run(None, feed)[0].reshape(shape)


def bound(problem: "Rotation") -> "Run":
    """Return the call on arrays that were handed over before, its output left there."""
    rotate, feed = ready(problem)
    binding = rotate.io_binding()
    for name, array in feed.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    binding.bind_output("y")

    def run() -> Any:
        rotate.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    return run
