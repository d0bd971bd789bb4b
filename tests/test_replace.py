"""`dataclasses.replace` gives the layer that building it anew with the same fields gives."""

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

import positional_embeddings as pe

X = np.random.default_rng(0).standard_normal((8, 6, 2))
GROUPED = pe.RoPEMultiHeadAttention(8, 4, num_kv_heads=2, rng=0)
LONG = pe.LongRoPEScaling([1.0, 2.0], [3.0, 4.0], 4)

# A layer, what changes, what it is built anew from, and what tells two layers apart.
CASES = {
    "size of a head": (
        pe.RoPE(4, 10, base=100),
        {"head_size": 8},
        lambda: pe.RoPE(8, 10, base=100),
        lambda rope: rope(X),
    ),
    "part of a head": (
        pe.RoPE(4, 10, rotary_dim=4),
        {"head_size": 8},
        lambda: pe.RoPE(8, 10, rotary_dim=4),
        lambda rope: rope(X),
    ),
    "all of a head": (
        pe.RoPE(8, 10, rotary_dim=4),
        {"rotary_dim": None},
        lambda: pe.RoPE(8, 10),
        lambda rope: rope(X),
    ),
    "scaling": (
        pe.RoPE(8, 10),
        {"scaling": pe.NTKScaling(2), "head_size": 6},
        lambda: pe.RoPE(6, 10, scaling=pe.NTKScaling(2)),
        lambda rope: rope(X[:6]),
    ),
    "sections": (
        pe.RoPE(8, 10, sections=[1, 3]),
        {"section_order": "contiguous", "sections": [2, 2]},
        lambda: pe.RoPE(8, 10, sections=[2, 2]),
        lambda rope: rope(X, positions=np.arange(12).reshape(2, 6)),
    ),
    "absolute": (
        pe.AbsolutePE(4, 10),
        {"embedding_size": 8, "arrangement": "concatenated"},
        lambda: pe.AbsolutePE(8, 10, arrangement="concatenated"),
        lambda layer: layer(X),
    ),
    "number of heads": (
        pe.RoPEMultiHeadAttention(8, 2, rng=0),
        {"num_heads": 4},
        lambda: pe.RoPEMultiHeadAttention(8, 4, rng=0),
        lambda layer: layer(X),
    ),
    "number of key heads": (
        GROUPED,
        {"num_kv_heads": None, "num_heads": 2, "Wk": np.eye(8), "Wv": np.eye(8)},
        lambda: pe.RoPEMultiHeadAttention(
            8, 2, Wq=GROUPED.Wq, Wk=np.eye(8), Wv=np.eye(8), Wo=GROUPED.Wo
        ),
        lambda layer: layer(X),
    ),
    "learned": (
        pe.LearnedPE(8, 6, rng=0),
        {"padding_idx": 1, "dropout": 0.5},
        lambda: pe.LearnedPE(8, 6, rng=0, padding_idx=1, dropout=0.5),
        lambda layer: layer(X),
    ),
    "tokens": (
        pe.TokenEmbedding(6, 3, rng=0),
        {"padding_idx": 2},
        lambda: pe.TokenEmbedding(6, 3, rng=0, padding_idx=2),
        lambda layer: layer(np.arange(6)),
    ),
    "patches": (
        pe.PatchEmbedding(4, 2, 3, 5, rng=0),
        {"image_size": (4, 6)},
        lambda: pe.PatchEmbedding((4, 6), 2, 3, 5, rng=0),
        lambda layer: layer(np.ones((3, 4, 6, 1))),
    ),
    "relative": (
        pe.RelativePE(2, 3, rng=0),
        {"embeddings": np.ones((5, 3))},
        lambda: pe.RelativePE(2, 3, embeddings=np.ones((5, 3))),
        lambda layer: layer(4),
    ),
    "buckets": (
        pe.T5Bias(3, rng=0),
        {"max_distance": 64, "bidirectional": False},
        lambda: pe.T5Bias(3, rng=0, max_distance=64, bidirectional=False),
        lambda layer: layer(90),
    ),
    "linear": (
        pe.LinearScaling(2),
        {"factor": 4},
        lambda: pe.LinearScaling(4),
        lambda scaling: scaling(4, 100, 8)[0],
    ),
    "longrope": (
        LONG,
        {"long_factor": [5.0, 6.0]},
        lambda: pe.LongRoPEScaling([1.0, 2.0], [5.0, 6.0], 4),
        lambda scaling: scaling(4, 100, 8)[0],
    ),
    "yarn": (
        pe.YaRNScaling(2, 8),
        {"factor": 4},
        lambda: pe.YaRNScaling(4, 8),
        lambda scaling: np.asarray(scaling(4, 100, 8)[1]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_replaced_is_built_anew(case):
    layer, changes, anew, told_by = CASES[case]
    replaced, expected = replace(layer, **changes), anew()
    np.testing.assert_array_equal(told_by(replaced), told_by(expected))
    for twin in (expected, pickle.loads(pickle.dumps(replaced)), copy.deepcopy(replaced)):
        assert twin == replaced
        assert hash(twin) == hash(replaced)
    assert replaced != layer


@pytest.mark.parametrize("case", CASES)
def test_replacing_back_gives_the_layer(case):
    layer, changes, *_ = CASES[case]
    back = {name: getattr(layer, name) for name in changes}
    back |= {f.name: getattr(layer, f.name) for f in fields(layer) if "array" in f.metadata}
    assert replace(replace(layer, **changes), **back) == layer


def test_fields_hold_what_was_given():
    assert pe.RoPE(64, 10).rotary_dim is None
    assert pe.RoPE(64, 10, rotary_dim=64).rotary_dim == 64
    assert pe.RoPEMultiHeadAttention(8, 2).num_kv_heads is None
    assert "num_kv_heads=1" in repr(pe.RoPEMultiHeadAttention(8, 2, num_kv_heads=1))
