"""The node tests of ONNX for Attention and RotaryEmbedding, on this library.

The package `onnx` carries the tests as programs, which make inputs and expected outputs when they
are imported. README.md has the counts.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import __version__, helper
from onnx.backend.test.case import node as node_tests
from onnx.backend.test.case.node import attention, rotaryembedding

import positional_embeddings as pe

assert attention, rotaryembedding  # importing them has filled the list of cases

# An "expanded" case is another one with the operator written out, on the same numbers.
CASES = {
    case.name.removeprefix("test_"): case
    for case in node_tests._NodeTestCases
    if "_expanded" not in case.name
}
AXES = {"feature_axis": -1, "seq_axis": -2}
# Scores before the softmax, at the stage that `qk_matmul_output_mode` names: this library returns
# the weights after it. The other outputs of these cases are compared.
STAGES = {0: "scaled products", 1: "scores under the softcap", 2: "scores with bias and softcap"}
UNMAPPED = {
    "attention_3d_with_past_and_present_qk_matmul": 0,
    "attention_3d_with_past_and_present_qk_matmul_bias": 2,
    "attention_3d_with_past_and_present_qk_matmul_softcap": 1,
    "attention_4d_with_past_and_present_qk_matmul": 0,
    "attention_4d_with_past_and_present_qk_matmul_bias": 2,
    "attention_4d_with_past_and_present_qk_matmul_bias_3d_mask": 2,
    "attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal": 2,
    "attention_4d_with_past_and_present_qk_matmul_bias_4d_mask": 2,
    "attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal": 2,
    "attention_4d_with_qk_matmul": 0,
    "attention_4d_with_qk_matmul_bias": 2,
    "attention_4d_with_qk_matmul_softcap": 1,
}
BACKENDS = {"numpy": "NumPy", "strict": "array-api-strict", "torch": "PyTorch", "jax": "JAX"}


def case_of(name):
    """Return the operator of a case, its options, and its inputs and outputs by name."""
    case = CASES[name]
    (node,) = case.model.graph.node
    options = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    ((inputs, outputs),) = case.data_sets
    # What a node leaves out has no name.
    inputs = dict(zip(filter(None, node.input), inputs, strict=True))
    return node.op_type, options, inputs, dict(zip(filter(None, node.output), outputs, strict=True))


def split_heads(x, heads, xp):
    """Return (batch, heads, seq, features) of (batch, seq, heads * features)."""
    return xp.permute_dims(xp.reshape(x, (*x.shape[:2], heads, -1)), (0, 2, 1, 3))


def merge_heads(x, xp):
    """Return (batch, seq, heads * features) of (batch, heads, seq, features)."""
    return xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (x.shape[0], x.shape[2], -1))


def attention_outputs(given, options, xp):
    """Return what this library has of the outputs of Attention, by name."""
    q, k, v = (given[name] for name in "QKV")
    merged = q.ndim == 3
    if merged:
        q = split_heads(q, options["q_num_heads"], xp)
        k, v = (split_heads(x, options["kv_num_heads"], xp) for x in (k, v))
    past = 0
    if "past_key" in given:
        past = given["past_key"].shape[2]
        k = xp.concat((given["past_key"], k), axis=2)
        v = xp.concat((given["past_value"], v), axis=2)
    q_len, k_len = q.shape[2], k.shape[2]

    rules = [pe.CausalMask()] if options.get("is_causal") else []
    window = (options.get(f"{side}_window_size", -1) for side in ("left", "right"))
    left, right = (None if size == -1 else size for size in window)
    if left is not None or right is not None:
        rules.append(pe.SlidingWindowMask(left, right))
    arguments = {"mask": pe.combine_masks(*rules), "scale": options.get("scale")}
    if "attn_mask" in given:
        added = given["attn_mask"]
        if added.dtype == xp.bool:  # True where a query attends
            added = pe.mask_to_bias(~added, q.dtype)
        lacking = xp.full((*added.shape[:-1], k_len - added.shape[-1]), -xp.inf, dtype=q.dtype)
        added = xp.concat((added, lacking), axis=-1)
        arguments["bias"] = xp.reshape(added, (*(1,) * (4 - added.ndim), *added.shape))
    if "nonpad_kv_seqlen" in given:
        # The last query is at the last of the keys that are there; -1 is an empty slot.
        lengths = given["nonpad_kv_seqlen"][:, None]
        keys = xp.arange(k_len)[None, :]
        arguments["positions"] = lengths - q_len + xp.arange(q_len)[None, :]
        arguments["key_positions"] = xp.where(keys < lengths, keys, -1)
    elif rules:  # queries may come after all keys
        arguments["positions"] = past + xp.arange(q_len)
        arguments["key_positions"] = xp.arange(k_len)
    arguments |= {"softcap": options.get("softcap"), "enable_gqa": q.shape[1] != k.shape[1]}

    y = pe.scaled_dot_product_attention(q, k, v, **arguments, **AXES)
    outputs = {"Y": merge_heads(y, xp) if merged else y, "present_key": k, "present_value": v}
    if options.get("qk_matmul_output_mode") == 3:
        outputs["qk_matmul_output"] = pe.attention_weights(q, k, **arguments, **AXES)
    return outputs


def rotary_outputs(given, options, xp):
    """Return the output of RotaryEmbedding, by name."""
    x, ids = given["input"], given.get("position_ids")
    cos, sin = (given[name] for name in ("cos_cache", "sin_cache"))
    if ids is not None:
        cos, sin = (
            xp.reshape(xp.take(table, xp.reshape(ids, (-1,)), axis=0), (*ids.shape, -1))
            for table in (cos, sin)
        )
    merged = x.ndim == 3
    x = split_heads(x, options["num_heads"], xp) if merged else x
    y = pe.apply_rope(
        x,
        cos[:, None, ...],  # (batch, 1, seq, pairs), for all heads
        sin[:, None, ...],
        layout="interleaved" if options.get("interleaved") else "half",
        rotary_dim=options.get("rotary_embedding_dim"),
        feature_axis=-1,
    )
    return {"output": merge_heads(y, xp) if merged else y}


OPERATORS = {"Attention": attention_outputs, "RotaryEmbedding": rotary_outputs}


def narrow(arrays):
    """Return the dtypes of arrays that the standard does not have."""
    return {a.dtype.name for a in arrays.values()} & {"float16", "bfloat16"}


def on(backend, array):
    """Return an array of NumPy on a backend, bfloat16 included."""
    if array.dtype != ml_dtypes.bfloat16:
        return backend.array(array)
    if backend.name == "numpy":
        return array
    return backend.xp.astype(backend.array(array.astype("float32")), backend.xp.bfloat16)


@pytest.mark.only_on(*BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_node(backend, name):
    operator, options, inputs, expected = case_of(name)
    if backend.name == "strict" and narrow(inputs):
        pytest.skip(f"array-api-strict has no {narrow(inputs)}")
    given = {key: on(backend, array) for key, array in inputs.items()}
    got = OPERATORS[operator](given, options, backend.xp)
    assert expected.keys() - got.keys() == ({"qk_matmul_output"} if name in UNMAPPED else set())
    for key in expected.keys() & got.keys():
        want = expected[key]
        # The tolerance of ONNX, or two roundings of a result that ONNX computes in half precision.
        relative = max(CASES[name].rtol, 2 * float(ml_dtypes.finfo(want.dtype).eps))
        result = backend.numpy(got[key])
        assert result.shape == want.shape
        np.testing.assert_allclose(
            result.astype("float64"),
            want.astype("float64"),
            rtol=relative,
            atol=CASES[name].atol,
            err_msg=key,
        )


def test_unmapped_cases_name_their_stage():
    stages = {name: case_of(name)[1].get("qk_matmul_output_mode", 0) for name in UNMAPPED}
    assert stages == UNMAPPED
    assert set(stages.values()) == STAGES.keys()


def test_the_page_has_the_counts():
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"onnx {__version__}" in page
    for backend, title in BACKENDS.items():
        lacks = {name for name in CASES if backend == "strict" and narrow(case_of(name)[2])}
        for operator in OPERATORS:
            names = {name for name in CASES if case_of(name)[0] == operator}
            passed = len(names - lacks - UNMAPPED.keys())
            assert f"| {title} | {operator} | {passed} of {len(names)} |" in page
