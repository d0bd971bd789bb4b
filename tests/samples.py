"""Samples of each public name: valid calls, and values of all parameters.

A mask also has its rule, as a plain function of numbers, and strategies for its parameters. All
suites over public names use these samples: hostile input, floating-point errors, written arrays,
every backend, PyTorch's modes, pickles and random masks. A test discovers the public names, and
fails if a name or a parameter has no sample.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import positional_embeddings as pe
from positional_embeddings.attention.cache import KVStep
from positional_embeddings.encodings.dropout import dropout
from positional_embeddings.rotary.tables import RotaryTables

# Public names in modules: types of results, and `dropout`.
BESIDE = {
    "KVStep": KVStep,
    "RotaryTables": RotaryTables,
    "dropout": dropout,
}
# All of the library but its optional modules, by name.
NAMES = {name: getattr(pe, name) for name in pe.__all__} | BESIDE

# Modules with public names; optional ones are in it if the library that they need is installed.
MODULES = {"": pe}
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
IMAGES = RNG.standard_normal((3, 4, 4, 2))
LENGTHS, IDS = np.asarray([4, 2]), np.asarray([0, 0, 1, 1, 1])
HIDDEN = np.tril(np.ones((4, 4), dtype=bool), -1)
PATH = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
SQUARE = [RNG.standard_normal((8, 8)) for _ in range(4)]
LISTS = pe.ListMask([[0, 1], [2, -1], [4, 3], [-1, -1], [1, 4], [5, 0]])
QUERIES, KEYS = np.arange(4)[:, None], np.arange(4)[None, :]

ROPE = pe.RoPE(8, 16)
ABSOLUTE = pe.AbsolutePE(8, 16)
LEARNED = pe.LearnedPE(8, 6, embeddings=X)
ATTENTION = pe.RoPEMultiHeadAttention(8, 2, 16, rng=0)
TABLES = ROPE.tables(POSITIONS)
LAYER = pe.AttentionLayer(2, 8, rope=ROPE, mask=pe.CausalMask(), has_sinks=True)
TOKEN = Q[:, :1, None, :] * [[1.0], [2.0]]  # (head, seq, heads, batch)
LAYERS = [pe.AttentionLayer(2, 8, mask=pe.CausalMask(), has_sinks=True, feature_axis=0, seq_axis=1)]
CACHE = pe.KVCache.empty(LAYERS, 2, 8, drafts=2)
CONFIG = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2}


class Library(NamedTuple):
    """Where a call is made: what makes its arrays, and the options of calls without arrays."""

    array: Callable[[Any], Any] = lambda values: values
    new: Mapping[str, Any] = {}


HOST = Library()


@dataclass(frozen=True)
class Call:
    """A valid call: a function, its arguments by name, and a use of the result."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    use: Callable[[Any, Library], Any] = lambda result, _: result
    # The argument of which each number makes one column of the result.
    loop: str | None = None

    def __call__(self, **changed: Any) -> Any:
        return self.use(self.made({**self.values, **changed}), HOST)

    def on(self, library: Library) -> Any:
        """Return the result for arrays of a library, in its dtype."""
        return self.use(self.made(self.values_on(library)), library)

    def made(self, values: Mapping[str, Any]) -> Any:
        """Return the result of the function before its use."""
        positional: list[Any] = []
        named = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name not in values:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.extend(values[name])
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(values[name])
            else:
                named[name] = values[name]
        return self.function(*positional, **named)

    def values_on(self, library: Library) -> dict[str, Any]:
        """Return the arguments for a library, without NumPy's dtypes and outputs."""
        return {
            name: library.new[name] if name in PLACE else moved(name, value, library)
            for name, value in self.values.items()
            if name not in ("dtype", "out")
        }


def is_numbers(value: Any) -> bool:
    """Return whether a value is an array that each library can represent."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def moved(name: str, value: Any, library: Library) -> Any:
    """Return an argument of a call, with the arrays of a library."""
    if name in OF_HOST:
        return value
    if isinstance(value, list) and any(map(is_numbers, value)):
        return [library.array(one) for one in value]
    return library.array(value) if is_numbers(value) else value


def dense(mask: Any, library: Library) -> Any:
    """Return a mask as an array, and on another library than NumPy as one of positions, too."""
    queries = 5 if isinstance(mask, pe.ListMask) else 4
    if library is HOST:
        return mask.dense(queries)
    new = {} if mask._arrays() else library.new
    return mask.dense(queries, **new), mask(library.array(QUERIES), library.array(KEYS), k_len=4)


def held() -> Any:
    """Return a cache with buffers of its own."""
    return CACHE.take([0, 1])


def positions_of(layer: Any, /) -> Any:
    return held().step(1)[1].of(layer)


def updated(layer: Any, k: Any, v: Any, /) -> Any:
    """Store in a step of its own, in which a layer stores once."""
    return held().step(1)[1].update(layer, k, v)


def attended(layer: Any, q: Any, k: Any, v: Any, /, *, sinks: Any = None) -> Any:
    """Attend in a step of its own, in which a layer stores once."""
    return held().step(1)[1].attend(layer, q, k, v, sinks=sinks)


def bias(value: Any, library: Library) -> Any:
    return value(query_positions=library.array(POSITIONS[:4]))


def rotated(rope: Any, library: Library) -> Any:
    return rope(library.array(X))


def with_scaling(scaling: Any, library: Library) -> Any:
    return pe.RoPE(8, 16, scaling=scaling)(library.array(X))


def encoded_points(features: Any, library: Library) -> Any:
    return features.encode(library.array(POINTS))


def fitted(regressor: Any, _: Library = HOST) -> Any:
    return regressor.fit(TABLE, TARGETS).predict(TABLE)


def encoded(encoder: Any, _: Library) -> Any:
    return encoder.fit_transform(TABLE)


GAPS = np.where(np.arange(10).reshape(5, 2) == 3, np.nan, TABLE)

WAVES = pe.FourierFeatures.random(2, 8, length_scale=2.0, rng=0)
ENCODED = WAVES.encode(POINTS)

# Parameters whose arrays are NumPy arrays for all libraries.
OF_HOST = ("harmonics", "period", "wavelengths")
# Axes of functions of sequences.
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


class Pair(NamedTuple):
    """The positions of a query and of a key, in sequence b of n keys."""

    i: int
    j: int
    b: int
    n: int


class MaskSample(NamedTuple):
    """Values of the parameters of a mask, its rule, and strategies for its parameters."""

    # Values of all parameters for up to 6 positions; lists and arrays have a number for each of
    # two sequences, or for each of 5 positions.
    values: list[dict[str, Any]]
    # Function of a `Pair` and the parameters: whether the key is masked for the query.
    hides: Callable[..., bool]
    # Strategy of the parameters for n positions. Tests pass lists as arrays, too.
    draws: Callable[[int], st.SearchStrategy[dict[str, Any]]]
    # Whether `_visible_keys` is exact: without keys masked for all queries, with all common keys.
    is_tight: bool = True


def drawn(**strategies: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(strategies)


def a_sequence(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    """Return a strategy of a number for each sequence of a batch."""
    return st.lists(strategy, min_size=BATCH, max_size=BATCH)


def outside(at: Pair, shape: Any, window: Any) -> bool:
    """Return whether the distance of two tokens of a grid exceeds a window on some axis."""
    steps = window if isinstance(window, tuple) else (window,) * len(shape)
    pairs = zip(np.unravel_index(at.i, shape), np.unravel_index(at.j, shape), steps, strict=True)
    return any(abs(int(p) - int(q)) > step for p, q, step in pairs)


def grids(n: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of grids of n tokens or more, and of windows."""
    steps, shapes = st.integers(0, 2), [(n,), (2, -(-n // 2)), (-(-n // 3), 3), (2, 2, -(-n // 4))]
    assert all(prod(shape) >= n for shape in shapes)
    return st.sampled_from(shapes).flatmap(
        lambda shape: drawn(shape=st.just(shape), window=steps | st.tuples(*([steps] * len(shape))))
    )


def not_listed(at: Pair, indices: Any, indptr: Any = None) -> bool:
    """Return whether a key is not in the list of its query."""
    if indptr is not None:
        return at.j not in indices[indptr[at.i] : indptr[at.i + 1]]
    return not np.any(np.asarray(indices)[at.i].reshape(-1, 1) == at.j)


@st.composite
def lists(draw: Any, n: int) -> dict[str, Any]:
    """Draw a list of keys for each of n queries, padded or one after another."""
    keys_of_queries = [
        draw(st.lists(st.integers(0, n - 1), max_size=4, unique=True), label=f"list {i}")
        for i in range(n)
    ]
    if draw(st.booleans()):
        max_length = draw(st.integers(max(1, *map(len, keys_of_queries)), 5))
        return {"indices": [keys + [-1] * (max_length - len(keys)) for keys in keys_of_queries]}
    bounds = np.cumsum([0, *map(len, keys_of_queries)]).tolist()
    return {"indices": [key for keys in keys_of_queries for key in keys], "indptr": tuple(bounds)}


def apart(at: Pair, ids: Any, key_ids: Any = None) -> bool:
    """Return whether two tokens belong to different documents, or to none."""
    of = [
        np.asarray(own).reshape(len(own), -1) for own in (ids, ids if key_ids is None else key_ids)
    ]
    query, key = (
        int(own[place, at.b % own.shape[1]]) for own, place in zip(of, (at.i, at.j), strict=True)
    )
    return query != key or query < 0


def documents(n: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of documents of n tokens: packed one after another or not, alike or not."""
    number = st.integers(-1, 3)
    flat = st.lists(number, min_size=n, max_size=n)
    by_sequence = st.lists(a_sequence(number), min_size=n, max_size=n)
    in_order = by_sequence.map(lambda ids: np.sort(ids, axis=0).tolist())
    return drawn(ids=flat | flat.map(sorted) | by_sequence | in_order)


BATCH = 2
MASKS = {
    "CausalMask": MaskSample(
        [{"mask_diagonal": False}, {"mask_diagonal": True}],
        lambda at, mask_diagonal: at.j >= at.i if mask_diagonal else at.j > at.i,
        lambda _: drawn(mask_diagonal=st.booleans()),
    ),
    "ChunkedMask": MaskSample(
        [{"size": 2}],
        lambda at, size: at.i // size != at.j // size,
        lambda n: drawn(size=st.integers(1, n + 1)),
    ),
    "DilatedMask": MaskSample(
        [{"step": 2}],
        lambda at, step: (at.i - at.j) % step != 0,
        lambda n: drawn(step=st.integers(1, n + 1)),
        is_tight=False,
    ),
    "FunctionMask": MaskSample(
        [{"function": lambda q, k: q < k}],
        lambda at, function: function(at.i, at.j),
        lambda _: drawn(
            function=st.integers(1, 5).map(lambda m: lambda q, k: (m * q + k) % 3 == 0)
        ),
        is_tight=False,
    ),
    "GlobalMask": MaskSample(
        [{"indices": [1]}, {"indices": np.asarray([1, 3])}],
        lambda at, indices: not {at.i, at.j} & set(indices),
        lambda n: drawn(indices=st.lists(st.integers(0, n), max_size=3)),
    ),
    "ListMask": MaskSample(
        [
            {"indices": np.asarray([[0, 1], [2, -1], [4, 3], [-1, -1], [1, 4]]), "indptr": None},
            {"indices": [0, 1, 2, 3, 4], "indptr": (0, 2, 2, 3, 4, 5)},
        ],
        not_listed,
        lists,
        is_tight=False,
    ),
    "NeighbourhoodMask": MaskSample(
        [{"shape": (2, 3), "window": window} for window in (1, (0, 1))],
        outside,
        grids,
        is_tight=False,
    ),
    "PaddingMask": MaskSample(
        [{"lengths": lengths, "side": "right"} for lengths in ([4, 2], LENGTHS)],
        lambda at, lengths, side: (
            at.j >= lengths[at.b] if side == "right" else at.j < at.n - lengths[at.b]
        ),
        lambda n: drawn(
            lengths=a_sequence(st.integers(0, n)), side=st.sampled_from(["right", "left"])
        ),
    ),
    "PrefixMask": MaskSample(
        [{"lengths": lengths} for lengths in (2, [2, 1], LENGTHS)],
        lambda at, lengths: (
            at.j > at.i and at.j >= (lengths if type(lengths) is int else lengths[at.b])
        ),
        lambda n: drawn(lengths=st.integers(0, n) | a_sequence(st.integers(0, n))),
    ),
    "SegmentMask": MaskSample(
        [{"ids": IDS, "key_ids": key_ids} for key_ids in (None, IDS)],
        apart,
        documents,
        is_tight=False,
    ),
    "SlidingWindowMask": MaskSample(
        [{"left": 1, "right": 1}],
        lambda at, left, right: (
            (left is not None and at.j < at.i - left) or (right is not None and at.j > at.i + right)
        ),
        lambda n: drawn(
            left=st.none() | st.integers(0, n + 1), right=st.none() | st.integers(0, n + 1)
        ),
    ),
}

# Values of the parameters of each bias of two heads, or of one for all.
BIASES: dict[str, list[dict[str, Any]]] = {
    "ALiBiBias": [{"num_heads": 2, "causal": True}, {"num_heads": 2, "slopes": (0.5, 0.25)}],
    "FIREBias": [
        {
            "hidden_weight": X[0, :3],
            "hidden_bias": X[1, :3],
            "output_weight": X[:2, :3],
            "output_bias": X[2, :2],
            "c": 1.0,
            "threshold": 2.0,
        }
    ],
    "FunctionBias": [{"function": lambda q, k: 0.5 * (k - q), "num_heads": 1}],
    "KERPLEBias": [
        {"r1": np.ones(2), "r2": np.asarray([0.5, 1.5]), "variant": variant}
        for variant in ("logarithmic", "power")
    ],
    "RelativePE": [
        {"max_distance": 2, "embedding_size": 2, "init_std": 0.1, **DRAWN},
        {"max_distance": 2, "embedding_size": 2, "embeddings": X[:5, :2]},
    ],
    "SandwichBias": [{"num_heads": 2, "dim": 8, "base": 100.0}],
    "T5Bias": [
        {
            "num_heads": 2,
            "bidirectional": True,
            "num_buckets": 8,
            "max_distance": 16,
            "init_std": 0.1,
            **DRAWN,
        },
        {"num_heads": 2, "num_buckets": 8, "embeddings": X[:, :2]},
    ],
}

# Values of the parameters of each scaling.
SCALINGS: dict[str, list[dict[str, Any]]] = {
    "DynamicNTKScaling": [{"factor": 2.0, "original_max_position": 4}],
    "LinearScaling": [{"factor": 2.0}],
    "Llama3Scaling": [
        {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position": 8,
        }
    ],
    "LongRoPEScaling": [
        {
            "short_factor": [1.0, 1.5, 2.0, 3.0],
            "long_factor": [3.0, 3.0, 4.0, 5.0],
            "original_max_position": 4,
            **option,
        }
        for option in ({"factor": 2.0}, {"attention_factor": 1.5})
    ],
    "NTKScaling": [{"factor": 2.0}],
    "ProportionalScaling": [{"partial_rotary_factor": 0.5, "factor": 2.0}],
    "YaRNScaling": [
        {
            "factor": 2.0,
            "original_max_position": 4,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": True,
            **option,
        }
        for option in ({"attention_factor": 1.5}, {"mscale": 1.5, "mscale_all_dim": 0.5})
    ],
}


def made_of(kinds: Mapping[str, list[dict[str, Any]]]) -> list[Any]:
    """Return a value of each class of a table."""
    return [Call(getattr(pe, name), values[-1]).made(values[-1]) for name, values in kinds.items()]


CATALOGUE: dict[str, list[Call]] = {
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
            lambda layer, at: layer(at.array(X)),
        )
    ],
    "AbsolutePE.__call__": [
        Call(ABSOLUTE, {"x": X, "offset": 2, "rng": half}),
        Call(ABSOLUTE, {"x": X, "positions": POSITIONS}),
    ],
    "AbsolutePE.encoding": [
        Call(ABSOLUTE.encoding, {"x": X, "offset": 2}),
        Call(ABSOLUTE.encoding, {"x": X, "positions": POSITIONS}),
    ],
    "KVCache.empty": [
        Call(
            pe.KVCache.empty,
            {"layers": LAYERS, "batch": 2, "capacity": 4, "drafts": 1, **NEW},
            lambda cache, _: cache.step(1)[1].positions,
        ),
        Call(
            pe.KVCache.empty,
            {
                "layers": 2,
                "batch": 2,
                "window": 2,
                "num_sink_tokens": 1,
                "drafts": 1,
                "num_kv_heads": 2,
                "head_size": 8,
                "value_size": 3,
                **AXES,
                **NEW,
            },
            lambda cache, _: cache.step(1)[1].key_positions,
        ),
    ],
    "KVCache.rewind": [
        Call(lambda counts, /: held().rewind(counts), {"counts": counts}, lambda c, _: c.lengths)
        for counts in (0, [0, 0], np.asarray([0, 0]))
    ],
    "KVCache.step": [
        Call(CACHE.step, values, lambda both, _: both[1].positions)
        for values in (
            {"tokens": 3},
            {"tokens": np.ones((2, 3), dtype=bool)},
            {"tokens": np.ones((2, 6), int), "positions": POSITIONS},
        )
    ],
    "KVCache.take": [
        Call(CACHE.take, {"rows": rows}, lambda cache, _: cache.lengths)
        for rows in ([1, 0, 1], np.asarray([1, 0]))
    ],
    "KVStep.attend": [
        Call(attended, {"layer": 0, "q": TOKEN, "k": TOKEN, "v": TOKEN, "sinks": X[0, :2]})
    ],
    "KVStep.of": [Call(positions_of, {"layer": 0}, lambda at, _: at.key_positions)],
    "KVStep.update": [Call(updated, {"layer": 0, "k": TOKEN, "v": TOKEN})],
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
            lambda layer, at: layer(at.array(X)),
        ),
        Call(
            pe.LearnedPE,
            {"embedding_size": 8, "max_len": 6, "embeddings": X},
            lambda layer, at: layer(at.array(X)),
        ),
    ],
    "LearnedPE.__call__": [
        Call(LEARNED, {"x": X[:, :4], "offset": 2, "rng": half}),
        Call(LEARNED, {"x": X, "positions": POSITIONS}),
    ],
    "LearnedPE.encoding": [
        Call(LEARNED.encoding, {"x": X[:, :4], "offset": 2}),
        Call(LEARNED.encoding, {"x": X, "positions": POSITIONS}),
    ],
    "LearnedPE.resize": [
        Call(LEARNED.resize, {"max_len": 8}, lambda layer, _: layer.embeddings),
        Call(
            LEARNED.resize,
            {"max_len": (2, 4), "grid": (2, 3), "prefix": 0, "antialias": True},
            lambda layer, _: layer.embeddings,
        ),
    ],
    "LearnedPE.vjp": [
        Call(LEARNED.vjp, {"grad": X[:, :4], "offset": 2}),
        Call(LEARNED.vjp, {"grad": X, "positions": POSITIONS}),
    ],
    "Mask.__and__": [
        Call(lambda other: pe.CausalMask() & other, {"other": pe.ChunkedMask(2)}, dense)
    ],
    "Mask.__or__": [
        Call(lambda other: pe.CausalMask() | other, {"other": pe.ChunkedMask(2)}, dense)
    ],
    "Mask.dense": [Call(pe.CausalMask().dense, HIDING | PLACE)],
    "Mask.key_ranges": [Call(pe.CausalMask().key_ranges, {"q_start": 1, "q_stop": 3, "k_len": 4})],
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
            lambda layer, at: layer(at.array(IMAGES)),
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
            lambda layer, at: layer(at.array(IMAGES)),
        ),
    ],
    "PatchEmbedding.__call__": [Call(pe.PatchEmbedding(4, 2, 3, 2, rng=0), {"images": IMAGES})],
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
            lambda rope, at: rope(
                at.array(X), positions=at.array(np.stack([POSITIONS, POSITIONS]))
            ),
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
            lambda ropes, at: rotated(ropes[0], at),
        )
    ],
    "RoPE.shift": [Call(ROPE.shift, {"x": X, "delta": delta}) for delta in (2, POSITIONS)],
    "RoPE.tables": [
        Call(
            ROPE.tables,
            {"positions": POSITIONS, "dtype": np.float64},
            lambda tables, _: (tables.cos, tables.sin),
            loop="positions",
        ),
        Call(ROPE.tables, {"positions": [0, 1, 2], **NEW}),
    ],
    "AttentionLayer": [
        Call(
            pe.AttentionLayer,
            {
                "num_heads": 2,
                "head_size": 8,
                "num_kv_heads": 1,
                "value_size": 8,
                "rope": pe.RoPE(4, 16, **AXES),
                "mask": pe.SlidingWindowMask(2, 0),
                "bias": pe.ALiBiBias(2),
                "scale": 0.5,
                "softcap": 20.0,
                "window": 3,
                "has_sinks": False,
                **AXES,
            },
            lambda layer, at: layer(*(at.array(x[..., None]) for x in (Q, K[..., :1], V[..., :1]))),
        )
    ],
    "AttentionLayer.__call__": [
        Call(LAYER, {"q": Q, "k": K, "v": V, "positions": POSITIONS, "sinks": X[0, :2]}),
    ],
    "RoPEMultiHeadAttention": [
        Call(
            pe.RoPEMultiHeadAttention,
            {"d_model": 8, "num_heads": 2, "max_len": 16, "base": 100.0, "num_kv_heads": 1} | DRAWN,
            lambda layer, at: layer(at.array(Q)),
        ),
        Call(
            pe.RoPEMultiHeadAttention,
            {
                "d_model": 8,
                "num_heads": 2,
                **dict(zip(("Wq", "Wk", "Wv", "Wo"), SQUARE, strict=True)),
            },
            lambda layer, at: layer(at.array(Q)),
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
    "TokenEmbedding": [
        Call(
            pe.TokenEmbedding,
            {"vocab_size": 6, "d_model": 8, "padding_idx": 1, "init_std": 0.1, **DRAWN},
            lambda layer, at: layer(at.array(IDS)),
        ),
        Call(
            pe.TokenEmbedding,
            {"vocab_size": 6, "d_model": 8, "embeddings": X},
            lambda layer, at: layer(at.array(IDS)),
        ),
    ],
    "TokenEmbedding.__call__": [
        Call(pe.TokenEmbedding(6, 8, embeddings=X), {"ids": IDS}, loop="ids")
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
    "attention_layers": [
        Call(
            pe.attention_layers,
            {"config": CONFIG | {"num_hidden_layers": 2}, "seq_len": 16, "layout": "half", **AXES},
            lambda layers, at: layers[0](*(at.array(x) for x in (Q, K, V))),
        )
    ],
    "attention_weights": [
        Call(pe.attention_weights, {"q": Q, "k": K, "offset": 0, **SCORES}),
        Call(
            pe.attention_weights,
            {"q": Q, "k": K, "positions": POSITIONS, "key_positions": POSITIONS},
        ),
        Call(pe.attention_weights, {"q": Q, "k": K, "mask": LISTS, "listed": True}),
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
        Call(pe.describe_mask, {"mask": pe.CausalMask(), **HIDING, "max_size": 8}),
        Call(pe.describe_mask, {"mask": HIDDEN[..., None], "batch": 0, "key_axis": 1}),
    ],
    "dropout": [Call(dropout, {"x": X, "rate": 0.5, "rng": half})],
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
    "FourierFeatures": [
        Call(
            pe.FourierFeatures,
            {
                "frequencies": [[1.0, 0.5], [-2.0, 0.0]],
                "weights": [1.0, 2.0],
                "phases": [0.0, 0.5],
                "arrangement": "concatenated",
                "cos_first": True,
                "digits": None,
            },
            encoded_points,
        ),
        Call(pe.FourierFeatures, {"frequencies": [1.0, 0.25], "phases": 0.5}, encoded_points),
    ],
    "FourierFeatures.sinusoidal": [
        Call(pe.FourierFeatures.sinusoidal, {"dim": 4, "base": 100.0}, encoded_points)
    ],
    "FourierFeatures.from_wavelengths": [
        Call(pe.FourierFeatures.from_wavelengths, {"wavelengths": [1.0, 4.0]}, encoded_points)
    ],
    "FourierFeatures.octaves": [
        Call(pe.FourierFeatures.octaves, {"n": 3, "longest": 2.0}, encoded_points)
    ],
    "FourierFeatures.random": [
        Call(
            pe.FourierFeatures.random,
            {
                "coordinates": 2,
                "dim": 4,
                "length_scale": [1.0, 2.0],
                "kernel": "matern",
                "nu": 1.5,
                "orthogonal": True,
                "rng": 0,
            },
            encoded_points,
        ),
        Call(
            pe.FourierFeatures.random,
            {"coordinates": 2, "dim": 4, "kernel": "periodic", "period": [3.0, 4.0], "rng": 0},
            encoded_points,
        ),
    ],
    "FourierFeatures.hexagonal": [
        Call(
            pe.FourierFeatures.hexagonal,
            {"scales": [1.0, 2.0], "orientations": [0.0, 0.5], "offsets": (0.5, -1.0)},
            encoded_points,
        )
    ],
    "FourierFeatures.encode": [Call(WAVES.encode, {"points": POINTS, "dtype": np.float64})],
    "FourierFeatures.shift": [
        Call(WAVES.shift, {"encoding": ENCODED, "by": POINTS}),
        Call(WAVES.shift, {"encoding": ENCODED, "by": [1.0, 2.0]}),
    ],
    "FourierFeatures.unshift": [Call(WAVES.unshift, {"encoding": ENCODED, "by": POINTS})],
    "FourierFeatures.bind": [Call(WAVES.bind, {"a": ENCODED, "b": ENCODED})],
    "FourierFeatures.unbind": [Call(WAVES.unbind, {"a": ENCODED, "b": ENCODED})],
    "FourierFeatures.kernel": [Call(WAVES.kernel, {"difference": POINTS, "dtype": np.float64})],
    "FourierFeatures.decode": [
        Call(
            WAVES.decode,
            {
                "encoding": ENCODED,
                "bounds": [[-3.0, 3.0], [-3.0, 3.0]],
                "resolution": 8,
                "count": 2,
                "return_strength": True,
            },
        )
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
    "multimodal_positions": [
        Call(
            pe.multimodal_positions,
            {
                "parts": [(1, 2, 4), 2, (2, 2, 2, 0.5)],
                "start": 3,
                "spatial_merge_size": 2,
                "tokens_per_second": 4.0,
                **NEW,
            },
            lambda both, _: both[0],
        )
    ],
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
        Call(
            pe.scaled_dot_product_attention,
            {"q": Q, "k": K, "v": V, "mask": LISTS | pe.CausalMask()},
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
    + [
        Call(
            pe.sinusoidal_encoding,
            {"positions": POSITIONS, "dim": 8, "preset": "whisper", "feature_axis": -1},
        )
    ],
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
        ),
        Call(
            pe.spherical_encoding,
            {
                "latitude": POINTS[0],
                "longitude": POINTS[1],
                "kernel": "matern",
                "length_scale": 0.5,
                "length_unit": "radians",
                "nu": 1.5,
                "tolerance": 0.1,
            },
        ),
    ],
    "spherical_truncation_error": [
        Call(
            pe.spherical_truncation_error,
            {
                "degree": 2,
                "kernel": "matern",
                "length_scale": 3000.0,
                "length_unit": "km",
                "nu": 1.5,
            },
        )
    ],
    "to_attend": [
        Call(pe.to_attend, {"mask": pe.CausalMask(), **HIDING, **PLACE}),
        Call(pe.to_attend, {"mask": HIDDEN}),
    ],
    "to_block_ranges": [
        Call(
            pe.to_block_ranges,
            {"mask": pe.CausalMask(), **HIDING, "block_size": 2},
            lambda ranges, _: tuple(table.tolist() for table in ranges),
        )
    ],
    "xpos_scale": [
        Call(
            pe.xpos_scale,
            {
                "positions": positions,
                "dim": 8,
                "scale_base": 512.0,
                "center": 2.0,
                "gamma": 0.4,
                "dtype": np.float64,
            },
            loop="positions",
        )
        for positions in (POSITIONS, TIMES)
    ],
    **{
        name: [Call(getattr(pe, name), values, use) for values in samples]
        for use, kinds in (
            (dense, {name: sample.values for name, sample in MASKS.items()}),
            (bias, BIASES),
            (with_scaling, SCALINGS),
        )
        for name, samples in kinds.items()
    },
    "ListMask.from_csr": [
        Call(pe.ListMask.from_csr, {"indptr": [0, 2, 2, 3, 4, 5], "indices": POSITIONS[:5]}, dense)
    ],
    "SlidingWindowMask.of": [Call(pe.SlidingWindowMask.of, {"keys": 2}, dense)],
    "Mask.__call__": [
        Call(mask, {"q_pos": QUERIES, "k_pos": KEYS, "k_len": 4})
        for mask in (
            *made_of({name: sample.values for name, sample in MASKS.items()}),
            pe.CausalMask() & ~pe.ChunkedMask(2),
        )
    ],
    "Bias.__call__": [
        Call(bias, values)
        for bias in made_of(BIASES)
        for values in (HIDING if bias._arrays() else HIDING | NEW, BETWEEN)
    ],
    **{
        f"{type(scaling).__name__}.__call__": [
            Call(scaling, {"dim": 8, "base": 100.0, "seq_len": 16})
        ]
        for scaling in made_of(SCALINGS)
    },
}


def calls_of_sklearn() -> dict[str, list[Call]]:
    """Return the samples of `positional_embeddings.sklearn`."""
    import positional_embeddings.sklearn as estimators

    regressor = estimators.AttentionRegressor(estimators.GaussianKernel(2.0)).fit(TABLE, TARGETS)
    filler = estimators.GapFiller(regressor, positions=[0]).fit(GAPS)
    encoder = estimators.PositionalEncoder(periods=7.0).fit(TABLE)
    two_kernels = {
        "k1": estimators.GaussianKernel(2.0, columns=[0]),
        "k2": estimators.GaussianKernel(2.0, columns=[1]),
    }

    def of_kernel(kernel: Any, _: Library) -> Any:
        return fitted(estimators.AttentionRegressor(kernel))

    return {
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
                lambda model, _: model.predict(TABLE),
            )
        ],
        "sklearn.AttentionRegressor.predict": [
            Call(regressor.predict, {"X": TABLE, "return_std": True})
        ],
        "sklearn.GapFiller": [
            Call(
                estimators.GapFiller,
                {
                    "positions": [0],
                    "periods": "auto",
                    "time_zone": None,
                    "n_nearest_features": 2,
                },
                lambda fitted_filler, _: fitted_filler.fit_transform(GAPS),
            ),
            Call(
                estimators.GapFiller,
                {"estimator": regressor, "positions": [0]},
                lambda fitted_filler, _: fitted_filler.fit_transform(GAPS),
            ),
        ],
        "sklearn.GapFiller.fit": [
            Call(
                estimators.GapFiller(regressor, positions=[0]).fit,
                {"X": GAPS, "y": None},
                lambda fitted_filler, _: fitted_filler.transform(GAPS),
            )
        ],
        "sklearn.GapFiller.transform": [Call(filler.transform, {"X": GAPS})],
        "sklearn.GapFiller.transform_std": [Call(filler.transform_std, {"X": GAPS})],
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
                {"encoding": "auto", "trend": True},
                {"encoding": "fourier", "wavelengths": [1.0, 2.0], "missing": "error"},
                {"encoding": "spherical", "degree": 2, "unit": "degrees"},
            )
        ],
        "sklearn.PositionalEncoder.fit": [
            Call(
                estimators.PositionalEncoder(periods=7.0).fit,
                {"X": TABLE, "y": None},
                lambda fitted_encoder, _: fitted_encoder.transform(TABLE),
            )
        ],
        "sklearn.PositionalEncoder.get_feature_names_out": [
            Call(
                encoder.get_feature_names_out,
                {"input_features": ["a", "b"]},
                lambda names, _: tuple(names),
            )
        ],
        "sklearn.PositionalEncoder.transform": [Call(encoder.transform, {"X": TABLE})],
        "sklearn.ProductKernel": [Call(estimators.ProductKernel, two_kernels, of_kernel)],
        "sklearn.SphereKernel": [
            Call(
                estimators.SphereKernel,
                {
                    "length_scale": 2.0,
                    "columns": [0, 1],
                    "kernel": "matern",
                    "nu": 2.5,
                    "local_linear": True,
                },
                of_kernel,
            )
        ],
        "sklearn.SumKernel": [Call(estimators.SumKernel, two_kernels, of_kernel)],
    }


def calls_of_xarray() -> dict[str, list[Call]]:
    """Return the samples of `positional_embeddings.xarray`."""
    import xarray as xr

    import positional_embeddings.xarray as labelled

    series = xr.DataArray(TIMES, coords={"t": TIMES}, dims="t")
    return {
        "xarray.encode": [
            Call(
                partial(labelled.encode, periods=3.0),
                {
                    "da": series,
                    "dim": "t",
                    "encoding": "cyclic",
                    "feature_dim": "feature",
                    "chunks": None,
                    "time_zone": None,
                },
                lambda array, _: array.data,
            )
        ],
    }


for library, calls in (("sklearn", calls_of_sklearn), ("xarray", calls_of_xarray)):
    if find_spec(library):
        MODULES[f"{library}."] = import_module(f"positional_embeddings.{library}")
        CATALOGUE |= calls()

# Names that are not called with arguments of a user, and why.
NOT_CALLED = {
    "KVCache": "made by KVCache.empty",
    "KVStep": "made by KVCache.step",
    "Mask": "the base class of masks",
    "RotaryTables": "made by RoPE.tables",
    "show_versions": "prints, and has no arguments",
}


def parameters(function: Any) -> set[str]:
    """Return the names of the parameters of a function, except `**options`."""
    values = inspect.signature(function).parameters.values()
    return {p.name for p in values if p.kind is not p.VAR_KEYWORD and p.name != "self"}


def public() -> dict[str, set[str]]:
    """Return functions, classes and methods that take arguments, with their parameters.

    A method has the name of the class that defines it.
    """
    by_name = {}
    for prefix, module in MODULES.items():
        names = NAMES if module is pe else {name: getattr(module, name) for name in module.__all__}
        for name, value in names.items():
            if not callable(value):
                continue
            by_name[prefix + name] = parameters(value)
            for owner in value.__mro__ if isinstance(value, type) else ():
                if owner.__module__.startswith("positional_embeddings"):
                    by_name |= methods(owner, prefix)
    return {name: values for name, values in by_name.items() if values and name not in NOT_CALLED}


def methods(owner: type, prefix: str) -> dict[str, set[str]]:
    """Return the parameters of the public methods that a class defines."""
    by_name = {}
    for name, value in vars(owner).items():
        function = getattr(value, "__func__", value)
        is_public = not name.startswith("_") or name in ("__call__", "__and__", "__or__")
        if is_public and inspect.isfunction(function):
            # The qualified name has the class that defines the method, also in a subclass.
            by_name[prefix + function.__qualname__] = parameters(getattr(owner, name))
    return by_name
