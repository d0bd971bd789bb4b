"""Each public name, called once on each backend, and compared with NumPy.

`--backend-table FILE` writes the outcomes as the table of docs/results/backends.md.
"""

import importlib

import numpy as np
import pytest

import positional_embeddings as pe
from backend_table import CELLS, public_names, rows_of_page
from backends import UNFIT, opened

lazy_xp_modules = [pe]

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 6))
Q, K, V = RNG.standard_normal((3, 8, 6, 2))
FILTERS = RNG.standard_normal((2, 3, 2, 2))
IMAGES = RNG.standard_normal((3, 4, 4, 2))
WEIGHTS = [RNG.standard_normal((8, 8)) for _ in range(4)]
LENGTHS, IDS = np.asarray([4, 2]), np.asarray([0, 0, 1, 1, 1])
POSITIONS = np.arange(6)
DATES = np.arange(5).astype("datetime64[D]")
POINTS = RNG.uniform(-3, 3, (2, 5))
HIDDEN = np.tril(np.ones((4, 4), dtype=bool), -1)
PATH = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
FIRE = [RNG.standard_normal(shape) for shape in ((3,), (3,), (2, 3), (2,))]
QUERIES, KEYS = np.arange(4)[:, None], np.arange(4)[None, :]
LONG = [1.0, 1.5, 2.0, 3.0]


def rope(**options):
    return lambda a, _: pe.RoPE(8, 9, **options)(a(X), offset=2)


def mask(value):
    return lambda a, _: value(a(QUERIES), a(KEYS))


def stored(a, new):
    """Store three tokens and two in a ring of four slots, and return all that a step gives."""
    cache, step = pe.KVCache.empty(2, 4, window=4, **new).step(3)
    buffer, _ = step.store(a(np.zeros((8, 4, 2))), a(Q[:, :3]))
    _, step = cache.step(2)
    return step.positions, step.key_positions, step.store(buffer, a(Q[:, 3:5]))[1]


# Name, and a call on arrays that `a` makes; `new` is the library and device of what takes none.
CALLS = {
    "ALiBiBias": lambda _, new: pe.ALiBiBias(2)(4, **new),
    "AbsolutePE": lambda a, _: pe.AbsolutePE(8, 9)(a(X), offset=2),
    "CausalMask": mask(pe.CausalMask()),
    "ChunkedMask": mask(pe.ChunkedMask(2)),
    "DilatedMask": mask(pe.DilatedMask(2)),
    "DynamicNTKScaling": rope(scaling=pe.DynamicNTKScaling(2.0, 4)),
    "FIREBias": lambda a, _: pe.FIREBias(*map(a, FIRE), c=1.0, threshold=2.0)(4),
    "FunctionBias": lambda a, _: pe.FunctionBias(lambda q, k: abs(k - q))(
        query_positions=a(np.arange(4.0))
    ),
    "FunctionMask": mask(pe.FunctionMask(lambda q, k: q < k)),
    "GlobalMask": mask(pe.GlobalMask([1])),
    "KERPLEBias": lambda a, _: pe.KERPLEBias(a(np.ones(2)), a(np.asarray([0.5, 2])))(4),
    "KVCache": lambda a, new: stored(a, new)[:2],
    "KVStep": lambda a, new: stored(a, new)[2:],
    "LearnedPE": lambda a, _: pe.LearnedPE(8, 6, embeddings=a(X))(a(X), positions=a(POSITIONS)),
    "LinearScaling": rope(scaling=pe.LinearScaling(2.0)),
    "Llama3Scaling": rope(scaling=pe.Llama3Scaling(8.0, 1.0, 4.0, 8)),
    "LongRoPEScaling": rope(scaling=pe.LongRoPEScaling(LONG, LONG[::-1], 4, factor=2.0)),
    "Mask": lambda _, new: (pe.CausalMask() & pe.SlidingWindowMask(1, 0)).dense(4, **new),
    "NTKScaling": rope(scaling=pe.NTKScaling(2.0)),
    "NeighbourhoodMask": mask(pe.NeighbourhoodMask((2, 2), 1)),
    "PaddingMask": lambda a, _: pe.PaddingMask(a(LENGTHS)).dense(4),
    "PatchEmbedding": lambda a, _: pe.PatchEmbedding(
        4, 2, 3, 2, kernel=a(FILTERS), bias=a(np.ones(2))
    )(a(IMAGES)),
    "PrefixMask": lambda a, _: pe.PrefixMask(a(LENGTHS)).dense(4),
    "ProportionalScaling": rope(scaling=pe.ProportionalScaling(0.5)),
    "RelativePE": lambda a, _: pe.RelativePE(2, 3, embeddings=a(X[:5, :3]))(4),
    "RoPE": lambda a, _: pe.RoPE(8, 6)(a(X), positions=a(POSITIONS)),
    "RoPEMultiHeadAttention": lambda a, _: pe.RoPEMultiHeadAttention(
        8, 2, 6, **dict(zip(("Wq", "Wk", "Wv", "Wo"), map(a, WEIGHTS), strict=True))
    )(a(Q), pe.CausalMask()),
    "RotaryTables": lambda a, _: pe.RoPE(8, 6).tables(a(POSITIONS), dtype=a(X).dtype)(a(X)),
    "SandwichBias": lambda _, new: pe.SandwichBias(2, dim=8)(4, **new),
    "SegmentMask": lambda a, _: pe.SegmentMask(a(IDS)).dense(5),
    "SlidingWindowMask": mask(pe.SlidingWindowMask(1, 1)),
    "T5Bias": lambda a, _: pe.T5Bias(2, num_buckets=8, embeddings=a(X[:, :2]))(4),
    "TokenEmbedding": lambda a, _: pe.TokenEmbedding(6, 8, embeddings=a(X))(a(IDS)),
    "YaRNScaling": rope(scaling=pe.YaRNScaling(2.0, 4)),
    "add_positional_encoding": lambda a, _: pe.add_positional_encoding(a(Q), a(X)),
    "add_positional_encoding_vjp": lambda a, _: pe.add_positional_encoding_vjp(a(Q), a(X)),
    "alibi_bias": lambda _, new: pe.alibi_bias(2, 4, **new),
    "alibi_slopes": lambda _, new: pe.alibi_slopes(2, **new),
    "apply_rope": lambda a, _: pe.apply_rope(a(X), a(np.cos(X[:4])), a(np.sin(X[:4]))),
    "attention_weights": lambda a, _: pe.attention_weights(a(Q), a(K), mask=pe.CausalMask()),
    "combine_masks": lambda a, _: pe.combine_masks(a(HIDDEN), a(HIDDEN.T)),
    "compute_frequencies": lambda _, new: pe.compute_frequencies(8, 6, **new),
    "convert_layout": lambda a, _: pe.convert_layout(a(X), "half", "interleaved", axis=0),
    "create_causal_mask": lambda _, new: pe.create_causal_mask(4, **new),
    "create_padding_mask": lambda a, _: pe.create_padding_mask(a(LENGTHS), 4),
    "cumulative_lengths": lambda a, _: pe.cumulative_lengths(a(LENGTHS)),
    "cyclic_encoding": lambda a, _: pe.cyclic_encoding(a(POINTS[0]), 7.0, 2),
    "days_since": lambda a, _: pe.cyclic_encoding(a(pe.days_since(DATES)), 7.0),
    "describe_mask": lambda a, _: pe.describe_mask(a(HIDDEN)),
    "dropout": lambda a, _: pe.dropout(a(X), 0.5, rng=np.random.default_rng(0)),
    "fourier_encoding": lambda a, _: pe.fourier_encoding(a(POINTS), [1.0, 4.0]),
    "from_attend": lambda a, _: pe.from_attend(a(HIDDEN)),
    "fully_masked_rows": lambda a, _: pe.fully_masked_rows(a(HIDDEN)),
    "graph_laplacian_encoding": lambda a, _: pe.graph_laplacian_encoding(a(PATH), 3),
    "grid_cell_encoding": lambda a, _: pe.grid_cell_encoding(a(POINTS), [1.0, 2.0]),
    "grid_encoding": lambda _, new: pe.grid_encoding((2, 3), 8, **new),
    "grid_positions": lambda _, new: pe.grid_positions((2, 3), **new),
    "inverse_frequencies": lambda _, new: pe.inverse_frequencies(8, **new),
    "log_wavelengths": lambda a, _: pe.fourier_encoding(a(POINTS), pe.log_wavelengths(1, 8, 3)),
    "mask_to_bias": lambda a, _: pe.mask_to_bias(a(HIDDEN)),
    "neg_half": lambda a, _: pe.neg_half(a(X)),
    "octave_wavelengths": lambda a, _: pe.fourier_encoding(a(POINTS), pe.octave_wavelengths(3)),
    "positions_from_mask": lambda a, _: pe.positions_from_mask(a(HIDDEN)),
    "positions_from_segment_ids": lambda a, _: pe.positions_from_segment_ids(a(IDS)),
    "random_fourier_encoding": lambda a, _: pe.random_fourier_encoding(a(POINTS), 4, rng=0),
    "random_walk_encoding": lambda a, _: pe.random_walk_encoding(a(PATH), 3),
    "relative_position_bucket": lambda a, _: pe.relative_position_bucket(a(KEYS - QUERIES)),
    "relative_positions": lambda a, _: pe.relative_positions(a(POSITIONS), a(POSITIONS)),
    "rotate_pairs": lambda a, _: pe.rotate_pairs(a(X)),
    "scaled_dot_product_attention": lambda a, _: pe.scaled_dot_product_attention(
        a(Q), a(K), a(V), mask=pe.CausalMask()
    ),
    "segment_ids_from_lengths": lambda a, _: pe.segment_ids_from_lengths(a(LENGTHS), 7),
    "sinusoidal_encoding": lambda a, _: pe.sinusoidal_encoding(a(POSITIONS), 8),
    "spherical_encoding": lambda a, _: pe.spherical_encoding(a(POINTS[0]), a(POINTS[1]), 2),
    "to_attend": lambda a, _: pe.to_attend(a(HIDDEN)),
    "to_bias": lambda a, _: pe.to_bias(a(HIDDEN)),
    # Each block is seen in part, as it would be if the values could not be read.
    "to_block_ranges": lambda a, _: tuple(
        table.tolist()
        for table in pe.to_block_ranges(pe.SegmentMask(a([0, 1, 0, 1])), 4, block_size=2)
    ),
    "to_keras": lambda a, _: pe.to_keras(a(HIDDEN)),
    "xpos_scale": lambda a, _: pe.xpos_scale(a(POSITIONS), 8),
}


def results_of(call, backend):
    """Return what a call gives on a backend, as a list of NumPy arrays or of other values."""
    new = {"xp": backend.xp, "device": backend.device}
    result = call(backend.array, new)
    results = result if isinstance(result, tuple) else (result,)
    return [backend.numpy(r) if hasattr(r, "dtype") else r for r in results]


@pytest.fixture(scope="module")
def expected():
    """What NumPy gives for each call."""
    with opened("numpy") as numpy:
        return {name: results_of(call, numpy) for name, call in CALLS.items()}


# Names that a library cannot compute, and the error that says so.
ERRORS = {
    ("graph_laplacian_encoding", library): r"a library with `linalg\.eigh`, got"
    for library in ("dask", "cubed", "ndonnx")
}


@pytest.mark.parametrize("name", CALLS)
def test_equals_numpy(backend, name, expected, request):
    if (name, backend.name) in ERRORS:
        with pytest.raises((AttributeError, TypeError), match=ERRORS[name, backend.name]):
            results_of(CALLS[name], backend)
        request.config.stash[CELLS][name, backend.name] = "error"
        return
    for got, want in zip(results_of(CALLS[name], backend), expected[name], strict=True):
        if not isinstance(want, np.ndarray):
            assert got == want
            continue
        bound = backend.tolerance(got.dtype.name)
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound)
    request.config.stash[CELLS][name, backend.name] = "yes"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.library(name)) for name in UNFIT]
)
def test_libraries_that_do_not_keep_the_standard_are_refused(library, name, request):
    xp = importlib.import_module(library)
    with pytest.raises(TypeError, match=r"must be a (plain array|namespace of plain arrays), got"):
        CALLS[name](xp.asarray, {"xp": xp, "device": None})
    request.config.stash[CELLS][name, library] = "error"


def test_every_public_name_is_called():
    assert set(CALLS) == public_names()


def test_the_page_has_every_public_name():
    assert rows_of_page() == public_names()
