"""The library against implementations that nobody here wrote.

The packages are in the dependency group "backends"; CI runs with `--every-library`, which
makes a missing one an error.
"""

import numpy as np
import pytest

from positional_embeddings import (
    PrefixMask,
    RoPE,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    alibi_bias,
    alibi_slopes,
    combine_masks,
    create_causal_mask,
    create_padding_mask,
    grid_positions,
    mask_to_bias,
    relative_position_bucket,
    scaled_dot_product_attention,
    segment_ids_from_lengths,
    sinusoidal_encoding,
)


@pytest.mark.library("torch", "transformers")
@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets_of_transformers(bidirectional):
    import torch
    import transformers.models.t5.modeling_t5 as t5

    positions = np.arange(-2000, 2001)
    for num_buckets, max_distance in ((32, 128), (64, 256), (16, 50)):
        options = {
            "bidirectional": bidirectional,
            "num_buckets": num_buckets,
            "max_distance": max_distance,
        }
        ours = relative_position_bucket(positions, **options)
        theirs = t5.T5Attention._relative_position_bucket(torch.as_tensor(positions), **options)
        np.testing.assert_array_equal(ours, theirs.numpy())


@pytest.mark.library("torch", "transformers")
def test_t5_bias_of_transformers():
    import torch
    import transformers
    import transformers.models.t5.modeling_t5 as t5

    config = transformers.T5Config(num_heads=6, d_model=24, d_kv=4, is_decoder=True)
    attention = t5.T5Attention(config, has_relative_attention_bias=True)
    with torch.no_grad():
        theirs = attention.compute_bias(9, 9)[0].numpy()
    table = attention.relative_attention_bias.weight.detach().numpy()
    ours = T5Bias(6, bidirectional=False, embeddings=table)(9)
    np.testing.assert_array_equal(ours.transpose(2, 0, 1), theirs)


@pytest.mark.library("torch", "transformers")
@pytest.mark.parametrize("heads", [2, 8, 6, 20])
def test_alibi_of_transformers(heads):
    """Bloom's bias is slope times key position: the softmax does not see the difference."""
    import torch
    import transformers.models.bloom.modeling_bloom as bloom

    theirs = bloom.build_alibi_tensor(torch.ones((1, 7)), heads, torch.float32)
    theirs = theirs.reshape(heads, 7).numpy()
    np.testing.assert_allclose(alibi_slopes(heads), theirs[:, 1], rtol=1e-6)
    ours = alibi_bias(heads, 1, 7)[0].T
    np.testing.assert_allclose(ours - ours[:, :1], theirs, atol=1e-5)


def masks_and_biases():
    rng = np.random.default_rng(0)
    ids = segment_ids_from_lengths([3, 2], 6)
    masks = {
        "causal": create_causal_mask(4, k_len=6),
        "padding": create_padding_mask([6, 3], 6),
        "both": combine_masks(create_causal_mask(4, k_len=6), create_padding_mask([6, 2], 6)),
        "window": SlidingWindowMask(1, 1).dense(4, 6),
        "prefix": PrefixMask([0, 3]).dense(4, 6, offset=0),
        "segments": SegmentMask(ids[:4], ids).dense(4, 6),
    }
    bias = rng.standard_normal((4, 6, 3))
    return {name: (mask, None) for name, mask in masks.items()} | {
        "bias": (None, bias),
        "alibi under a causal mask": (masks["causal"], alibi_bias(3, 4, 6)),
    }


MASKS_AND_BIASES = masks_and_biases()


@pytest.mark.library("onnx", "torch")
@pytest.mark.parametrize("name", MASKS_AND_BIASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks_and_biases_through_attention(name, dtype):
    """(batch, heads, seq, head) against PyTorch and the ONNX reference; True attends there."""
    import torch

    mask, bias = MASKS_AND_BIASES[name]
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 3, n, 8)).astype(dtype) for n in (4, 6, 6))
    moved = None if mask is None else np.permute_dims(mask, (2, 0, 1))[:, None]
    moved_bias = None if bias is None else np.permute_dims(bias, (2, 0, 1))[None].astype(dtype)
    if mask is not None and bias is not None:
        added = mask_to_bias(moved, moved_bias.dtype) + moved_bias
    else:
        added = moved_bias
    ours = scaled_dot_product_attention(
        q, k, v, mask=moved, bias=moved_bias, feature_axis=-1, seq_axis=-2
    )
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    given = ~moved if added is None else added
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *(torch.as_tensor(a) for a in (q, k, v)), attn_mask=torch.as_tensor(given)
    )
    np.testing.assert_allclose(ours, np.nan_to_num(theirs.numpy()), atol=tolerance)
    if dtype == "float32":
        given = np.broadcast_to(given, (*given.shape[:2], 4, 6))
        np.testing.assert_allclose(ours, onnx_attention(q, k, v, given), atol=tolerance)


def onnx_attention(q, k, v, attn_mask, **attributes):
    """Run the operator Attention of ONNX in its reference implementation."""
    import onnx
    from onnx import helper, reference

    kinds = {np.dtype("float32"): onnx.TensorProto.FLOAT, np.dtype(bool): onnx.TensorProto.BOOL}
    arrays = {"Q": q, "K": k, "V": v, "attn_mask": attn_mask}
    inputs = [
        helper.make_tensor_value_info(name, kinds[array.dtype], array.shape)
        for name, array in arrays.items()
    ]
    output = helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node("Attention", list(arrays), ["Y"], **attributes)
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    (result,) = reference.ReferenceEvaluator(model).run(None, arrays)
    return np.nan_to_num(result)


@pytest.mark.library("positional_encodings", "torch")
def test_sinusoids_of_positional_encodings():
    import positional_encodings.torch_encodings as library
    import torch

    for dim in (8, 10):
        theirs = library.PositionalEncoding1D(dim)(torch.zeros((1, 50, dim)))[0].numpy().T
        ours = sinusoidal_encoding(np.arange(50), dim, dtype=np.float32)
        # Its angles are of float32, and so are off by up to 50 roundings at position 50.
        np.testing.assert_allclose(ours, theirs, atol=4e-6)


@pytest.mark.library("torch", "transformers")
def test_sinusoids_of_whisper_and_marian():
    import torch
    import transformers.models.marian.modeling_marian as marian
    import transformers.models.whisper.modeling_whisper as whisper

    ours = sinusoidal_encoding(np.arange(20), 64, preset="whisper")
    np.testing.assert_allclose(ours, whisper.sinusoids(20, 64).numpy().T, atol=1e-6)
    for dim in (64, 7):
        table = marian.MarianSinusoidalPositionalEmbedding(100, dim)
        made = table.create_weight() if hasattr(table, "create_weight") else table.weight
        ours = sinusoidal_encoding(np.arange(100), dim, preset="marian")
        np.testing.assert_allclose(ours, torch.as_tensor(made).detach().numpy().T, atol=1e-6)


@pytest.mark.library("rotary_embedding_torch", "torch")
def test_rotary_embedding_torch():
    import rotary_embedding_torch as library
    import torch

    x = torch.as_tensor(np.random.default_rng(0).standard_normal((2, 3, 50, 16)))
    for rotary_dim in (16, 8):
        theirs = library.RotaryEmbedding(dim=rotary_dim).double()
        rope = RoPE(
            16, 60, layout="interleaved", rotary_dim=rotary_dim, feature_axis=-1, seq_axis=-2
        )
        for offset in (0, 7):
            expected = theirs.rotate_queries_or_keys(x, offset=offset)
            # Its frequencies are of float32.
            torch.testing.assert_close(rope(x, offset=offset), expected, atol=1e-5, rtol=0)


@pytest.mark.library("rotary_embedding_torch", "torch")
def test_axial_rotation_of_rotary_embedding_torch():
    import rotary_embedding_torch as library
    import torch

    x = torch.as_tensor(np.random.default_rng(0).standard_normal((1, 2, 4, 6, 16)))
    theirs = library.RotaryEmbedding(dim=8, freqs_for="lang").double()
    frequencies = theirs.get_axial_freqs(4, 6)
    expected = library.apply_rotary_emb(frequencies, x).reshape(1, 2, 24, 16)
    rope = RoPE(
        16,
        1,
        layout="interleaved",
        sections=(4, 4),
        section_frequencies="restart",
        feature_axis=-1,
        seq_axis=-2,
    )
    got = rope(x.reshape(1, 2, 24, 16), positions=grid_positions((4, 6), xp=torch))
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
