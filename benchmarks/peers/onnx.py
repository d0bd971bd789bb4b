"""ONNX Runtime: the operator RotaryEmbedding of ONNX."""

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from harness.contenders import NotOfferedError
from harness.inputs import BHSD, BSHD, HostArray, RotationInputs
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from harness.timing import Run

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


def prepared(inputs: RotationInputs) -> tuple[Any, dict[str, HostArray]]:
    """Return the session and its inputs.

    The operator takes (batch, heads, seq, head), or (batch, seq, heads * head).
    """
    attributes = {"interleaved": int(inputs.pairs == "interleaved")}
    x, axes = inputs.x, ["batch", "heads", "seq", "head"]
    if inputs.layout == BSHD:
        attributes["num_heads"] = x.shape[2]
        x, axes = x.reshape(*x.shape[:2], -1), ["batch", "seq", "features"]
    elif inputs.layout != BHSD:
        message = f"takes no {inputs.layout}"
        raise NotOfferedError(message)
    positions = np.arange(inputs.seq)[None].repeat(len(x), 0)
    cos, sin = inputs.tables
    feed = {"x": x, "cos": cos, "sin": sin, "positions": positions}
    return session(axes, inputs.threads, **attributes), feed


def rotation(inputs: RotationInputs) -> "Run":
    """Return the call on NumPy arrays."""
    rotate, feed = prepared(inputs)
    run, shape = rotate.run, inputs.x.shape
    return lambda: run(None, feed)[0].reshape(shape)


def bound(inputs: RotationInputs) -> "Run":
    """Return the call on arrays that were bound before, its output left there."""
    rotate, feed = prepared(inputs)
    binding = rotate.io_binding()
    for name, array in feed.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    binding.bind_output("y")

    def run() -> Any:
        rotate.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    return run
