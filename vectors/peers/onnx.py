"""ONNX Runtime: the operators RotaryEmbedding and Attention of ONNX (opset 23).

RotaryEmbedding takes tables, which are made in float64 here: its rotation alone is judged.
"""

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

from check import CannotError

TITLE = "ONNX Runtime"
PACKAGES = ("onnxruntime", "onnx")
DTYPES = ["float32", "float16"]
OPSET, IR = 23, 11


@cache
def session(operator: str, inputs: tuple[tuple[str, str], ...], **attributes: Any) -> Any:
    """Return a model of one operator; an input that is left out has no name."""
    node = helper.make_node(operator, [name for name, _ in inputs], ["y"], **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
        for name, dtype in inputs
        if name
    ]
    output = helper.make_tensor_value_info("y", infos[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "one", infos, [output])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR)
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)


def computed(operator: str, feed: dict[str, Any], order: list[str], **attributes: Any) -> Any:
    inputs = tuple((n if n in feed else "", str(feed[n].dtype) if n in feed else "") for n in order)
    return session(operator, inputs, **attributes).run(None, feed)[0]


def rotate(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["inverse"] or p["proportion"] is not None:
        raise CannotError("tables are given: their sign and their zeros are the caller's")
    given, n = x["x"].astype(dtype), p["rotary_dim"]
    if given.shape[-1] % 2:
        raise CannotError("even numbers of features alone")
    at = x["positions"].reshape(-1, given.shape[-2])
    angles = at.reshape(-1, 1).astype(np.longdouble) * p["base"] ** (-np.arange(0, n, 2) / n)
    if np.abs(angles).max() > 2**20:
        raise CannotError("tables are given: those of far positions are the caller's")
    feed = {"x": given.reshape(-1, 1, *given.shape[-2:])}
    feed |= {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
    feed["at"] = np.arange(at.size).reshape(at.shape)
    options = {"interleaved": int(p["layout"] == "interleaved")}
    if n < given.shape[-1]:
        options |= {"rotary_embedding_dim": n, "num_heads": 1}
    y = computed("RotaryEmbedding", feed, ["x", "cos", "sin", "at"], **options)
    return {"y": y.reshape(given.shape)}


def attention(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if "sinks" in x:
        raise CannotError("no sinks")
    feed = {name: x[name].astype(dtype)[None] for name in "qkv"}
    if "attends" in x:
        feed["mask"] = x["attends"][None]
    if "bias" in x:
        bias = x["bias"].astype(dtype)[None]
        hidden = ~feed.get("mask", np.ones(1, dtype=bool))
        feed["mask"] = np.where(hidden, np.asarray(-np.inf, dtype), bias)
    options = {"scale": p["scale"]}
    if p["softcap"] is not None:
        options["softcap"] = p["softcap"]
    return {"output": computed("Attention", feed, ["q", "k", "v", "mask"], **options)[0]}


FUNCTIONS = {"rotate": rotate, "attention": attention}
