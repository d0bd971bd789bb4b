"""A valid call of every public function, class and method, with a value for each parameter.

The names are discovered, so a test fails where one, or a parameter, has no entry here.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import positional_embeddings as pe
import positional_embeddings.sklearn as estimators
import positional_embeddings.xarray as labelled

MODULES = {"": pe, "sklearn.": estimators, "xarray.": labelled}
# Options that any call without arrays takes.
NEW = {"xp": np, "dtype": np.float64, "device": "cpu"}
PLACE = {"xp": np, "device": "cpu"}

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 6))
Q, K, V = RNG.standard_normal((3, 8, 6, 2))
POSITIONS = np.arange(6)
TIMES = RNG.uniform(0, 9, 5)
POINTS = RNG.uniform(-3, 3, (2, 5))
TABLE = POINTS.T
TARGETS = RNG.standard_normal(5)
LENGTHS, IDS = np.asarray([4, 2]), np.asarray([0, 0, 1, 1, 1])
HIDDEN = np.tril(np.ones((4, 4), dtype=bool), -1)
PATH = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
SQUARE = [RNG.standard_normal((8, 8)) for _ in range(4)]
QUERIES, KEYS = np.arange(4)[:, None], np.arange(4)[None, :]
SERIES = xr.DataArray(TIMES, coords={"t": TIMES}, dims="t")
FEATURES = xr.DataArray(X[:, :5].T, coords={"t": TIMES}, dims=("t", "feature"))

ROPE = pe.RoPE(8, 16)
ABSOLUTE = pe.AbsolutePE(8, 16)
LEARNED = pe.LearnedPE(8, 6, embeddings=X)
CACHE = pe.KVCache.empty(2, 4)
ATTENTION = pe.RoPEMultiHeadAttention(8, 2, 16, rng=0)
TABLES = ROPE.tables(POSITIONS)
CONFIG = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2}


@dataclass(frozen=True)
class Call:
    """A valid call: a function, its arguments by name, and what is then done with the result."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    use: Callable[[Any], Any] = lambda result: result
    # The argument of which each number makes one column of the result.
    loop: str | None = None

    def __call__(self, **changed: Any) -> Any:
        positional: list[Any] = []
        named = {}
        values = {**self.values, **changed}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name not in values:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.extend(values[name])
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(values[name])
            else:
                named[name] = values[name]
        return self.use(self.function(*positional, **named))


def dense(mask: Any) -> Any:
    return mask.dense(4)


def stored(buffer: Any, new: Any, /) -> Any:
    """Store by a step of its own, as a step stores once in a buffer."""
    return CACHE.rewind(0).step(3)[1].store(buffer, new)


def bias(value: Any) -> Any:
    return value(4)


def rotated(rope: Any) -> Any:
    return rope(X)


def with_scaling(scaling: Any) -> Any:
    return pe.RoPE(8, 16, scaling=scaling)(X)


def fitted(regressor: Any) -> Any:
    return regressor.fit(TABLE, TARGETS).predict(TABLE)


def encoded(encoder: Any) -> Any:
    return encoder.fit_transform(TABLE)


def of_kernel(kernel: Any) -> Any:
    return fitted(estimators.AttentionRegressor(kernel))


LONG = [1.0, 1.5, 2.0, 3.0]
GAPS = np.where(np.arange(10).reshape(5, 2) == 3, np.nan, TABLE)

REGRESSOR = estimators.AttentionRegressor(estimators.GaussianKernel(2.0)).fit(TABLE, TARGETS)
FILLER = estimators.GapFiller(REGRESSOR, positions=[0]).fit(GAPS)
ENCODER = estimators.PositionalEncoder(periods=7.0).fit(TABLE)
TWO_KERNELS = {
    "k1": estimators.GaussianKernel(2.0, columns=[0]),
    "k2": estimators.GaussianKernel(2.0, columns=[1]),
}

# What a function of the sequence takes next to the arrays.
AXES = {"feature_axis": 0, "seq_axis": 1}
DRAWN = {"rng": 0, "xp": np, "dtype": np.float64, "device": "cpu"}
SCORES = {
    "mask": pe.CausalMask(),
    "bias": pe.ALiBiBias(2),
    "scale": 0.5,
    "softcap": 3.0,
    "sinks": np.ones(2),
    "enable_gqa": False,
    **AXES,
}
HIDING = {"q_len": 4, "k_len": 5, "offset": 1}
BETWEEN = {"query_positions": POSITIONS, "key_positions": POSITIONS}


def half(shape: Any) -> Any:
    return np.full(shape, 0.5)


CATALOGUE: dict[str, list[Call]] = {
    "ALiBiBias": [Call(pe.ALiBiBias, {"num_heads": 2, "causal": True}, bias)],
    "AbsolutePE": [
        Call(
            pe.AbsolutePE,
            {
                "embedding_size": 8,
                "max_len": 16,
                "base": 100.0,
                "arrangement": "interleaved",
                "dropout": 0.0,
                **AXES,
            },
            lambda layer: layer(X),
        )
    ],
    "AbsolutePE.__call__": [
        Call(ABSOLUTE, {"x": X, "offset": 2, "rng": half}),
        Call(ABSOLUTE, {"x": X, "positions": POSITIONS}),
    ],
    "AbsolutePE.encoding": [
        Call(ABSOLUTE.encoding, {"like": X, "offset": 2}),
        Call(ABSOLUTE.encoding, {"like": X, "positions": POSITIONS}),
    ],
    "Bias.__call__": [
        Call(layer, values)
        for layer, options in {
            pe.ALiBiBias(2): NEW,
            pe.SandwichBias(2, dim=8): NEW,
            pe.KERPLEBias(np.ones(2), np.ones(2)): {},
            pe.FIREBias(*map(np.ones, ((3,), (3,), (2, 3), (2,))), c=1.0, threshold=2.0): {},
            pe.RelativePE(2, 3, rng=0): {},
            pe.T5Bias(2, num_buckets=8, rng=0): {},
        }.items()
        for values in (HIDING | options, BETWEEN)
    ],
    "CausalMask": [Call(pe.CausalMask, {"mask_diagonal": True}, dense)],
    "ChunkedMask": [Call(pe.ChunkedMask, {"size": 2}, dense)],
    "DilatedMask": [Call(pe.DilatedMask, {"step": 2}, dense)],
    "DynamicNTKScaling": [
        Call(pe.DynamicNTKScaling, {"factor": 2.0, "original_max_position": 4}, with_scaling)
    ],
    "FIREBias": [
        Call(
            pe.FIREBias,
            {
                "hidden_weight": X[0, :3],
                "hidden_bias": X[1, :3],
                "output_weight": X[:2, :3],
                "output_bias": X[2, :2],
                "c": 1.0,
                "threshold": 2.0,
            },
            bias,
        )
    ],
    "FunctionBias": [
        Call(pe.FunctionBias, {"function": lambda q, k: 0.5 * (k - q), "num_heads": 1}, bias)
    ],
    "FunctionMask": [Call(pe.FunctionMask, {"function": lambda q, k: q < k}, dense)],
    "GlobalMask": [
        Call(pe.GlobalMask, {"indices": [1]}, dense),
        Call(pe.GlobalMask, {"indices": np.asarray([1, 3])}, dense),
    ],
    "KERPLEBias": [
        Call(
            pe.KERPLEBias,
            {"r1": np.ones(2), "r2": np.asarray([0.5, 2]), "variant": variant},
            bias,
        )
        for variant in ("logarithmic", "power")
    ],
    "KVCache": [
        Call(
            pe.KVCache,
            {"capacity": 4, "sinks": 1, "window": 2, **AXES, "lengths": LENGTHS},
            lambda cache: cache.step(1)[1].key_positions,
        )
    ],
    "KVCache.empty": [
        Call(
            pe.KVCache.empty,
            {"batch": 2, "capacity": 4, "sinks": 1, "window": 2, **AXES, **PLACE},
            lambda cache: cache.step(1)[1].key_positions,
        )
    ],
    "KVCache.rewind": [
        Call(
            CACHE.step(3)[0].rewind,
            {"counts": counts},
            lambda cache: cache.step(1)[1].key_positions,
        )
        for counts in (1, [1, 2], np.asarray([1, 2]))
    ],
    "KVCache.step": [
        Call(CACHE.step, {"tokens": tokens}, lambda both: both[1].key_positions)
        for tokens in (3, np.ones((2, 3), dtype=bool))
    ],
    "KVCache.take": [
        Call(CACHE.take, {"rows": rows}, lambda cache: cache.step(1)[1].key_positions)
        for rows in ([1, 0], np.asarray([1, 0]))
    ],
    "KVStep.store": [
        Call(stored, {"buffer": np.zeros((8, 4, 2)), "new": Q[:, :3]}),
    ],
    "LearnedPE": [
        Call(
            pe.LearnedPE,
            {
                "embedding_size": 8,
                "max_len": 16,
                "init_std": 0.1,
                "padding_idx": 1,
                "dropout": 0.0,
                **AXES,
                **DRAWN,
            },
            lambda layer: layer(X),
        ),
        Call(
            pe.LearnedPE,
            {"embedding_size": 8, "max_len": 6, "embeddings": X},
            lambda layer: layer(X),
        ),
    ],
    "LearnedPE.__call__": [
        Call(LEARNED, {"x": X[:, :4], "offset": 2, "rng": half}),
        Call(LEARNED, {"x": X, "positions": POSITIONS}),
    ],
    "LearnedPE.encoding": [
        Call(LEARNED.encoding, {"like": X[:, :4], "offset": 2}),
        Call(LEARNED.encoding, {"like": X, "positions": POSITIONS}),
    ],
    "LearnedPE.resize": [
        Call(LEARNED.resize, {"max_len": 8}, lambda layer: layer.embeddings),
        Call(
            LEARNED.resize,
            {"max_len": (2, 4), "grid": (2, 3), "prefix": 0, "antialias": True},
            lambda layer: layer.embeddings,
        ),
    ],
    "LearnedPE.vjp": [
        Call(LEARNED.vjp, {"grad": X[:, :4], "offset": 2}),
        Call(LEARNED.vjp, {"grad": X, "positions": POSITIONS}),
    ],
    "LinearScaling": [Call(pe.LinearScaling, {"factor": 2.0}, with_scaling)],
    "Llama3Scaling": [
        Call(
            pe.Llama3Scaling,
            {
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position": 8,
            },
            with_scaling,
        )
    ],
    "LongRoPEScaling": [
        Call(
            pe.LongRoPEScaling,
            {
                "short_factor": [1.0, 1.5, 2.0, 3.0],
                "long_factor": [3.0, 3.0, 4.0, 5.0],
                "original_max_position": 4,
                **option,
            },
            with_scaling,
        )
        for option in ({"factor": 2.0}, {"attention_factor": 1.5})
    ],
    "Mask.__and__": [
        Call(lambda other: pe.CausalMask() & other, {"other": pe.ChunkedMask(2)}, dense)
    ],
    "Mask.__or__": [
        Call(lambda other: pe.CausalMask() | other, {"other": pe.ChunkedMask(2)}, dense)
    ],
    "Mask.__call__": [
        Call(mask, {"q_pos": QUERIES, "k_pos": KEYS, "k_len": 4})
        for mask in (
            pe.CausalMask(),
            pe.ChunkedMask(2),
            pe.DilatedMask(2),
            pe.FunctionMask(lambda q, k: q < k),
            pe.GlobalMask([1]),
            pe.NeighbourhoodMask((2, 2), 1),
            pe.PaddingMask(LENGTHS),
            pe.PrefixMask(LENGTHS),
            pe.SegmentMask(IDS),
            pe.SlidingWindowMask(1, 1),
            pe.CausalMask() & ~pe.ChunkedMask(2),
        )
    ],
    "Mask.dense": [Call(pe.CausalMask().dense, HIDING | PLACE)],
    "Mask.key_ranges": [Call(pe.CausalMask().key_ranges, {"q_start": 1, "q_stop": 3, "k_len": 4})],
    "NTKScaling": [Call(pe.NTKScaling, {"factor": 2.0}, with_scaling)],
    "NeighbourhoodMask": [
        Call(pe.NeighbourhoodMask, {"shape": (2, 2), "window": window}, dense)
        for window in (1, (0, 1))
    ],
    "PaddingMask": [
        Call(pe.PaddingMask, {"lengths": lengths, "side": "right"}, dense)
        for lengths in ([4, 2], LENGTHS)
    ],
    "PaddingMask.from_attention_mask": [
        Call(
            pe.PaddingMask.from_attention_mask,
            {"attention_mask": np.asarray([[1, 1, 1, 1], [1, 1, 0, 0]]), "side": "right"},
            dense,
        )
    ],
    "PatchEmbedding": [
        Call(
            pe.PatchEmbedding,
            {"image_size": 4, "patch_size": 2, "num_channels": 3, "d_model": 2, **DRAWN},
            lambda layer: layer(np.ones((3, 4, 4, 2))),
        ),
        Call(
            pe.PatchEmbedding,
            {
                "image_size": (4, 4),
                "patch_size": (2, 2),
                "num_channels": 3,
                "d_model": 2,
                "kernel": np.ones((2, 3, 2, 2)),
                "bias": np.ones(2),
            },
            lambda layer: layer(np.ones((3, 4, 4, 2))),
        ),
    ],
    "PatchEmbedding.__call__": [
        Call(pe.PatchEmbedding(4, 2, 3, 2, rng=0), {"images": RNG.standard_normal((3, 4, 4, 2))})
    ],
    "PrefixMask": [
        Call(pe.PrefixMask, {"lengths": lengths}, dense) for lengths in (2, [2, 1], LENGTHS)
    ],
    "ProportionalScaling": [
        Call(
            pe.ProportionalScaling,
            {"partial_rotary_factor": 0.5, "factor": 2.0},
            with_scaling,
        )
    ],
    "RelativePE": [
        Call(
            pe.RelativePE, {"max_distance": 2, "embedding_size": 3, "init_std": 0.1, **DRAWN}, bias
        ),
        Call(
            pe.RelativePE,
            {"max_distance": 2, "embedding_size": 3, "embeddings": X[:5, :3]},
            bias,
        ),
    ],
    "RoPE": [
        Call(
            pe.RoPE,
            {
                "head_size": 8,
                "seq_len": 16,
                "base": 100.0,
                "scale": 2.0,
                "layout": "half",
                "rotary_dim": 4,
                "scaling": pe.LinearScaling(2.0),
                "fused": False,
                **AXES,
            },
            rotated,
        ),
        Call(
            pe.RoPE,
            {
                "head_size": 8,
                "seq_len": 16,
                "sections": [1, 3],
                "section_frequencies": "shared",
                "section_order": "contiguous",
            },
            lambda rope: rope(X, positions=np.stack([POSITIONS, POSITIONS])),
        ),
    ],
    "RoPE.__call__": [
        Call(ROPE, {"x": X, "offset": 2, "inverse": False, "out": np.empty_like(X)}),
        Call(ROPE, {"x": X, "positions": POSITIONS}),
        Call(ROPE, {"x": Q, "positions": np.stack([POSITIONS, POSITIONS], axis=1)}),
    ],
    "RoPE.from_hf_config": [
        Call(pe.RoPE.from_hf_config, {"config": CONFIG, "seq_len": 16}, rotated)
    ],
    "RoPE.layers_from_hf_config": [
        Call(
            pe.RoPE.layers_from_hf_config,
            {"config": CONFIG | {"num_hidden_layers": 2}, "seq_len": 16},
            lambda ropes: rotated(ropes[0]),
        )
    ],
    "RoPE.shift": [Call(ROPE.shift, {"x": X, "delta": delta}) for delta in (2, POSITIONS)],
    "RoPE.tables": [
        Call(
            ROPE.tables,
            {"positions": POSITIONS, "dtype": np.float64},
            lambda tables: (tables.cos, tables.sin),
            loop="positions",
        ),
        Call(ROPE.tables, {"positions": [0, 1, 2], **NEW}),
    ],
    "RoPEMultiHeadAttention": [
        Call(
            pe.RoPEMultiHeadAttention,
            {"d_model": 8, "num_heads": 2, "max_len": 16, "base": 100.0, "num_kv_heads": 1} | DRAWN,
            lambda layer: layer(Q),
        ),
        Call(
            pe.RoPEMultiHeadAttention,
            {
                "d_model": 8,
                "num_heads": 2,
                **dict(zip(("Wq", "Wk", "Wv", "Wo"), SQUARE, strict=True)),
            },
            lambda layer: layer(Q),
        ),
    ],
    "RoPEMultiHeadAttention.__call__": [
        Call(ATTENTION, {"x": Q, "mask": pe.CausalMask(), "bias": pe.ALiBiBias(2)}),
        Call(ATTENTION, {"x": Q[:, :4], "mask": HIDDEN, "bias": X[:4, :4]}),
    ],
    "RotaryTables.__call__": [
        Call(TABLES, {"x": X, "inverse": False, "out": np.empty_like(X)}),
    ],
    "SandwichBias": [Call(pe.SandwichBias, {"num_heads": 2, "dim": 8, "base": 100.0}, bias)],
    "SegmentMask": [
        Call(pe.SegmentMask, {"ids": IDS, "key_ids": key_ids}, lambda mask: mask.dense(5))
        for key_ids in (None, IDS)
    ],
    "SlidingWindowMask": [Call(pe.SlidingWindowMask, {"left": 1, "right": 1}, dense)],
    "T5Bias": [
        Call(
            pe.T5Bias,
            {
                "num_heads": 2,
                "bidirectional": True,
                "num_buckets": 8,
                "max_distance": 16,
                "init_std": 0.1,
                **DRAWN,
            },
            bias,
        ),
        Call(pe.T5Bias, {"num_heads": 2, "num_buckets": 8, "embeddings": X[:, :2]}, bias),
    ],
    "TokenEmbedding": [
        Call(
            pe.TokenEmbedding,
            {"vocab_size": 6, "d_model": 8, "padding_idx": 1, "init_std": 0.1, **DRAWN},
            lambda layer: layer(IDS),
        ),
        Call(
            pe.TokenEmbedding,
            {"vocab_size": 6, "d_model": 8, "embeddings": X},
            lambda layer: layer(IDS),
        ),
    ],
    "TokenEmbedding.__call__": [
        Call(pe.TokenEmbedding(6, 8, embeddings=X), {"ids": IDS}, loop="ids")
    ],
    "YaRNScaling": [
        Call(
            pe.YaRNScaling,
            {
                "factor": 2.0,
                "original_max_position": 4,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": True,
                **option,
            },
            with_scaling,
        )
        for option in ({"attention_factor": 1.5}, {"mscale": 1.5, "mscale_all_dim": 0.5})
    ],
    "add_positional_encoding": [Call(pe.add_positional_encoding, {"x": Q, "encoding": X, **AXES})],
    "add_positional_encoding_vjp": [
        Call(pe.add_positional_encoding_vjp, {"grad": Q, "encoding": X, **AXES})
    ],
    "alibi_bias": [
        Call(pe.alibi_bias, {"num_heads": 2, "q_len": 4, "k_len": 5, "offset": 1, **NEW}),
        Call(
            pe.alibi_bias,
            {
                "num_heads": 2,
                "query_positions": POSITIONS,
                "key_positions": POSITIONS,
                "causal": False,
            },
        ),
    ],
    "alibi_slopes": [Call(pe.alibi_slopes, {"num_heads": 6, **NEW})],
    "apply_rope": [
        Call(
            pe.apply_rope,
            {
                "x": X,
                "cos": np.cos(X[:2]),
                "sin": np.sin(X[:2]),
                "layout": "half",
                "rotary_dim": 4,
                "feature_axis": 0,
                "inverse": False,
                "out": np.empty_like(X),
            },
        )
    ],
    "attention_weights": [
        Call(pe.attention_weights, {"q": Q, "k": K, "offset": 0, **SCORES}),
        Call(
            pe.attention_weights,
            {"q": Q, "k": K, "positions": POSITIONS, "key_positions": POSITIONS},
        ),
    ],
    "combine_masks": [
        Call(pe.combine_masks, {"masks": [HIDDEN, HIDDEN.T]}),
    ],
    "compute_frequencies": [
        Call(pe.compute_frequencies, {"dim": 8, "seq_len": 6, "base": 100.0, **NEW})
    ],
    "convert_layout": [
        Call(
            pe.convert_layout,
            {
                "array": X,
                "source": "half",
                "target": "interleaved",
                "axis": 0,
                "num_heads": 2,
                "rotary_dim": 2,
            },
        )
    ],
    "create_causal_mask": [
        Call(pe.create_causal_mask, {**HIDING, "mask_diagonal": False, **PLACE})
    ],
    "create_padding_mask": [
        Call(pe.create_padding_mask, {"lengths": LENGTHS, "max_len": 5, "side": "right"}),
        Call(
            pe.create_padding_mask,
            {"lengths": [4, 2], "max_len": 5, "batch_first": True, **PLACE},
        ),
    ],
    "cumulative_lengths": [
        Call(pe.cumulative_lengths, {"lengths": LENGTHS}),
        Call(pe.cumulative_lengths, {"lengths": [4, 2], **PLACE}),
    ],
    "cyclic_encoding": [
        Call(
            pe.cyclic_encoding,
            {"x": TIMES, "period": 7.0, "harmonics": 2, "dtype": np.float64},
            loop="x",
        ),
        Call(
            pe.cyclic_encoding,
            {"x": TIMES, "period": np.asarray([7.0, 3.0]), "harmonics": np.asarray([2, 1])},
        ),
    ],
    "days_since": [
        Call(
            pe.days_since,
            {"x": np.arange(5).astype("datetime64[D]"), "origin": "2020-01-01"},
            loop="x",
        )
    ],
    "describe_mask": [
        Call(pe.describe_mask, {"mask": pe.CausalMask(), **HIDING, "most": 8}),
        Call(pe.describe_mask, {"mask": HIDDEN[..., None], "batch": 0, "key_axis": 1}),
    ],
    "dropout": [Call(pe.dropout, {"x": X, "rate": 0.5, "rng": half})],
    "fourier_encoding": [
        Call(
            pe.fourier_encoding,
            {
                "x": POINTS,
                "wavelengths": np.asarray([1.0, 4.0]),
                "arrangement": "interleaved",
                "dtype": np.float64,
            },
        ),
        Call(pe.fourier_encoding, {"x": POINTS, "preset": "nerf"}),
    ],
    "from_attend": [Call(pe.from_attend, {"attend": HIDDEN})],
    "fully_masked_rows": [Call(pe.fully_masked_rows, {"mask": HIDDEN, "key_axis": 1})],
    "graph_laplacian_encoding": [
        Call(
            pe.graph_laplacian_encoding,
            {"adjacency": PATH, "k": 3, "laplacian": "normalized", "dtype": np.float64},
        )
    ],
    "grid_cell_encoding": [
        Call(
            pe.grid_cell_encoding,
            {"points": POINTS, "wavelengths": [1.0, 2.0], "kind": "theory", "dtype": np.float64},
        )
    ],
    "grid_encoding": [
        Call(pe.grid_encoding, {"shape": (2, 3), "dim": 8, "base": 100.0, **NEW}),
    ],
    "grid_positions": [Call(pe.grid_positions, {"shape": (2, 3), **NEW})],
    "inverse_frequencies": [Call(pe.inverse_frequencies, {"dim": 8, "base": 100.0, **NEW})],
    "log_wavelengths": [Call(pe.log_wavelengths, {"shortest": 1.0, "longest": 8.0, "n": 3})],
    "mask_to_bias": [Call(pe.mask_to_bias, {"mask": HIDDEN, "dtype": np.float64})],
    "neg_half": [Call(pe.neg_half, {"x": X, "axis": 0})],
    "octave_wavelengths": [Call(pe.octave_wavelengths, {"n": 3, "longest": 2.0})],
    "positions_from_mask": [Call(pe.positions_from_mask, {"mask": HIDDEN, "seq_axis": 0})],
    "positions_from_segment_ids": [
        Call(pe.positions_from_segment_ids, {"segment_ids": IDS, "seq_axis": 0})
    ],
    "random_fourier_encoding": [
        Call(
            pe.random_fourier_encoding,
            {
                "x": POINTS,
                "dim": 4,
                "length_scale": 1.5,
                "kernel": "matern",
                "nu": 1.5,
                "orthogonal": False,
                "rng": 0,
                "dtype": np.float64,
            },
        ),
        Call(
            pe.random_fourier_encoding,
            {
                "x": POINTS,
                "dim": 4,
                "length_scale": [1.0, 2.0],
                "kernel": "periodic",
                "period": [3.0, 4.0],
                "rng": 0,
            },
        ),
    ],
    "random_walk_encoding": [
        Call(pe.random_walk_encoding, {"adjacency": PATH, "steps": 3, "dtype": np.float64})
    ],
    "relative_position_bucket": [
        Call(
            pe.relative_position_bucket,
            {
                "relative_position": POSITIONS - 3,
                "bidirectional": True,
                "num_buckets": 8,
                "max_distance": 16,
            },
            loop="relative_position",
        )
    ],
    "relative_positions": [
        Call(pe.relative_positions, {"query_positions": POSITIONS, "key_positions": POSITIONS})
    ],
    "rotate_pairs": [Call(pe.rotate_pairs, {"x": X, "axis": 0})],
    "scaled_dot_product_attention": [
        Call(
            pe.scaled_dot_product_attention,
            {"q": Q, "k": K, "v": V, "offset": 0, "block_size": 2, "return_lse": True, **SCORES},
        ),
        Call(
            pe.scaled_dot_product_attention,
            {
                "q": Q,
                "k": K,
                "v": V,
                "mask": np.tril(np.ones((6, 6), dtype=bool), -1),
                "bias": X[:6, :6],
            },
        ),
        Call(
            pe.scaled_dot_product_attention,
            {
                "q": Q,
                "k": K,
                "v": V,
                "mask": pe.CausalMask(),
                "positions": POSITIONS,
                "key_positions": POSITIONS,
            },
        ),
    ],
    "segment_ids_from_lengths": [
        Call(pe.segment_ids_from_lengths, {"lengths": LENGTHS, "total_len": 7}),
        Call(pe.segment_ids_from_lengths, {"lengths": [4, 2], "total_len": 7, **PLACE}),
    ],
    "sinusoidal_encoding": [
        Call(
            pe.sinusoidal_encoding,
            {
                "positions": positions,
                "dim": 8,
                "base": 100.0,
                "arrangement": "interleaved",
                "endpoint": True,
                "cos_first": False,
                "full_turns": False,
                "amplitude": 1.0,
                "start": 1,
                "length": 1.0,
                "dtype": np.float64,
            },
            loop="positions",
        )
        for positions in (POSITIONS, TIMES)
    ]
    + [Call(pe.sinusoidal_encoding, {"positions": POSITIONS, "dim": 8, "preset": "whisper"})],
    "spherical_encoding": [
        Call(
            pe.spherical_encoding,
            {
                "latitude": POINTS[0],
                "longitude": POINTS[1],
                "degree": 2,
                "unit": "degrees",
                "dtype": np.float64,
            },
        )
    ],
    "to_attend": [
        Call(pe.to_attend, {"mask": pe.CausalMask(), **HIDING, **PLACE}),
        Call(pe.to_attend, {"mask": HIDDEN}),
    ],
    "to_bias": [
        Call(pe.to_bias, {"mask": pe.CausalMask(), **HIDING, **NEW}),
        Call(pe.to_bias, {"mask": HIDDEN}),
    ],
    "to_block_ranges": [
        Call(
            pe.to_block_ranges,
            {"mask": pe.CausalMask(), **HIDING, "block_size": 2},
            lambda ranges: tuple(table.tolist() for table in ranges),
        )
    ],
    "to_keras": [
        Call(pe.to_keras, {"mask": pe.CausalMask(), **HIDING, **PLACE}),
        Call(pe.to_keras, {"mask": HIDDEN}),
    ],
    "xpos_scale": [
        Call(
            pe.xpos_scale,
            {
                "positions": POSITIONS,
                "dim": 8,
                "scale_base": 512.0,
                "center": 2.0,
                "gamma": 0.4,
                "dtype": np.float64,
            },
            loop="positions",
        )
    ],
    "sklearn.AttentionRegressor": [
        Call(
            estimators.AttentionRegressor,
            {
                "kernel": "gaussian",
                "length_scale": 2.0,
                "local_linear": True,
                "leave_out": 1.0,
                "cutoff": 4.0,
                "block_size": 2,
                "max_iter": 2,
                "tol": 0.01,
            },
            fitted,
        ),
        Call(
            estimators.AttentionRegressor,
            {"kernel": estimators.GaussianKernel(2.0)},
            fitted,
        ),
    ],
    "sklearn.AttentionRegressor.fit": [
        Call(
            estimators.AttentionRegressor(length_scale=2.0).fit,
            {"X": TABLE, "y": TARGETS, "sample_weight": np.ones(5), "groups": IDS},
            lambda fitted: fitted.predict(TABLE),
        )
    ],
    "sklearn.AttentionRegressor.predict": [
        Call(REGRESSOR.predict, {"X": TABLE, "return_std": True})
    ],
    "sklearn.CompactKernel": [
        Call(
            estimators.CompactKernel,
            {"length_scale": 9.0, "columns": [0, 1], "local_linear": True},
            of_kernel,
        )
    ],
    "sklearn.GapFiller": [
        Call(
            estimators.GapFiller,
            {"estimator": REGRESSOR, "positions": [0]},
            lambda filler: filler.fit_transform(GAPS),
        )
    ],
    "sklearn.GapFiller.fit": [
        Call(
            estimators.GapFiller(REGRESSOR, positions=[0]).fit,
            {"X": GAPS, "y": None},
            lambda filler: filler.transform(GAPS),
        )
    ],
    "sklearn.GapFiller.transform": [Call(FILLER.transform, {"X": GAPS})],
    "sklearn.GapFiller.transform_std": [Call(FILLER.transform_std, {"X": GAPS})],
    "sklearn.GaussianKernel": [
        Call(
            estimators.GaussianKernel,
            {"length_scale": 2.0, "columns": [0, 1], "local_linear": True},
            of_kernel,
        )
    ],
    "sklearn.MaternKernel": [
        Call(
            estimators.MaternKernel,
            {"length_scale": 2.0, "columns": [0, 1], "local_linear": True, "nu": 1.5},
            of_kernel,
        )
    ],
    "sklearn.PeriodicKernel": [
        Call(
            estimators.PeriodicKernel,
            {"period": 7.0, "length_scale": 2.0, "columns": [0, 1], "time_zone": None},
            of_kernel,
        )
    ],
    "sklearn.PositionalEncoder": [
        Call(estimators.PositionalEncoder, options, encoded)
        for options in (
            {"encoding": "cyclic", "periods": 7.0, "harmonics": 2, "time_zone": None},
            {"encoding": "fourier", "wavelengths": [1.0, 2.0], "missing": "error"},
            {"encoding": "sinusoidal", "dim": 4},
            {"encoding": "spherical", "degree": 2, "unit": "degrees"},
            {
                "encoding": "random_fourier",
                "dim": 4,
                "length_scale": 2.0,
                "kernel": "gaussian",
                "random_state": 0,
            },
        )
    ],
    "sklearn.PositionalEncoder.fit": [
        Call(
            estimators.PositionalEncoder(periods=7.0).fit,
            {"X": TABLE, "y": None},
            lambda encoder: encoder.transform(TABLE),
        )
    ],
    "sklearn.PositionalEncoder.get_feature_names_out": [
        Call(
            ENCODER.get_feature_names_out,
            {"input_features": ["a", "b"]},
            tuple,
        )
    ],
    "sklearn.PositionalEncoder.transform": [Call(ENCODER.transform, {"X": TABLE})],
    "sklearn.ProductKernel": [Call(estimators.ProductKernel, TWO_KERNELS, of_kernel)],
    "sklearn.SphereKernel": [
        Call(estimators.SphereKernel, {"length_scale": 2.0, "columns": [0, 1]}, of_kernel)
    ],
    "sklearn.SumKernel": [Call(estimators.SumKernel, TWO_KERNELS, of_kernel)],
    "xarray.attention": [
        Call(
            labelled.attention,
            {
                "query": FEATURES,
                "key": FEATURES,
                "value": SERIES,
                "dim": "t",
                "feature_dim": "feature",
                "mask": pe.CausalMask(),
                "bias": None,
                "scale": 0.5,
                "softcap": 3.0,
                "offset": 0,
                "block_size": 2,
                "fill_value": 0.0,
            },
            lambda array: array.data,
        )
    ],
    "xarray.encode": [
        Call(
            partial(labelled.encode, periods=3.0),
            {
                "da": SERIES,
                "dim": "t",
                "encoding": "cyclic",
                "feature_dim": "feature",
                "chunks": None,
            },
            lambda array: array.data,
        )
    ],
    **{
        f"{type(scaling).__name__}.__call__": [
            Call(scaling, {"dim": 8, "base": 100.0, "seq_len": 16})
        ]
        for scaling in (
            pe.DynamicNTKScaling(2.0, 4),
            pe.LinearScaling(2.0),
            pe.Llama3Scaling(8.0, 1.0, 4.0, 8),
            pe.LongRoPEScaling(LONG, LONG, 4, factor=2.0),
            pe.NTKScaling(2.0),
            pe.ProportionalScaling(0.5),
            pe.YaRNScaling(2.0, 4),
        )
    },
}

# Names that are not called with arguments of a user, and why.
NOT_CALLED = {
    "KVStep": "made by KVCache.step",
    "Mask": "the base class of masks",
    "RotaryTables": "made by RoPE.tables",
}


def parameters(function: Any) -> set[str]:
    """Return the names of what a function is called with, without its open options."""
    given = inspect.signature(function).parameters.values()
    return {p.name for p in given if p.kind is not p.VAR_KEYWORD and p.name != "self"}


def public() -> dict[str, set[str]]:
    """Return functions, classes and methods that take arguments, with their parameters.

    A method has the name of the class that defines it.
    """
    found = {}
    for prefix, module in MODULES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value):
                continue
            found[prefix + name] = parameters(value)
            for owner in value.__mro__ if isinstance(value, type) else ():
                if owner.__module__.startswith("positional_embeddings"):
                    found |= methods(owner, prefix)
    return {name: given for name, given in found.items() if given and name not in NOT_CALLED}


def methods(owner: type, prefix: str) -> dict[str, set[str]]:
    """Return the parameters of the public methods that a class defines."""
    found = {}
    for name, value in vars(owner).items():
        function = getattr(value, "__func__", value)
        is_public = not name.startswith("_") or name in ("__call__", "__and__", "__or__")
        if is_public and inspect.isfunction(function):
            # Its own name tells the class that defines it, also where a subclass has a copy.
            found[prefix + function.__qualname__] = parameters(getattr(owner, name))
    return found
