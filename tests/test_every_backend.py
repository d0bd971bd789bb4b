"""Each public name, called on each backend, and compared with NumPy.

`python .ci/write_pages.py` writes what is said of it here into docs/results/backends.md.
"""

import importlib

import numpy as np
import pytest

import positional_embeddings as pe
from backends import ERRORS, UNFIT, opened
from positional_embeddings.encodings.dropout import dropout
from samples import AXES, CATALOGUE, POSITIONS, K, Library, Q, V, X
from samples import NAMES as PUBLIC

lazy_xp_modules = [pe]

DATES = np.arange(5).astype("datetime64[D]")


def of_layers(at):
    """Attend to two tokens, and to one more."""
    layers = [pe.AttentionLayer(2, 8, rope=pe.RoPE(8, 9, **AXES), mask=pe.CausalMask(), **AXES)]
    new = {**at.new, "dtype": at.array(X).dtype}
    cache, step = pe.KVCache.empty(layers, 2, 4, **new).step(2)
    step.attend(0, *(at.array(x[:, :2, None] * [[1], [1]]) for x in (Q, K, V)))
    cache, step = cache.step(1, positions=at.array(np.asarray([5])))
    q, k, v = (at.array(x[:, 2:3, None] * [[1], [1]]) for x in (Q, K, V))
    return cache, step.positions, step.attend(0, q, k, v)


# Of names whose sample has no arrays of a library, or needs float64: a call that has, or does not.
OWN = {
    "FunctionBias": lambda at: pe.FunctionBias(lambda q, k: abs(k - q))(
        query_positions=at.array(np.arange(4.0))
    ),
    "KVCache": lambda at: of_layers(at)[0].take([1, 0])._buffers[0],
    "KVStep": lambda at: of_layers(at)[1:],
    "Mask": lambda at: (pe.CausalMask() & pe.SlidingWindowMask(1, 0)).dense(4, **at.new),
    "RotaryTables": lambda at: pe.RoPE(8, 6).tables(at.array(POSITIONS), dtype=at.array(X).dtype)(
        at.array(X)
    ),
    "days_since": lambda at: pe.cyclic_encoding(at.array(pe.days_since(DATES)), 7.0),
    "dropout": lambda at: dropout(at.array(X), 0.5, rng=np.random.default_rng(0)),
    "fourier_encoding": lambda at: pe.fourier_encoding(at.array(X), [1.0, 4.0]),
    "log_wavelengths": lambda at: pe.fourier_encoding(at.array(X), pe.log_wavelengths(1, 8, 3)),
    "octave_wavelengths": lambda at: pe.fourier_encoding(at.array(X), pe.octave_wavelengths(3)),
    "spherical_truncation_error": lambda at: pe.fourier_encoding(
        at.array(X), [pe.spherical_truncation_error(2, kernel="gaussian", length_scale=3000.0)]
    ),
    # Each block is seen in part, as it would be if the values could not be read.
    "to_block_ranges": lambda at: tuple(
        table.tolist()
        for table in pe.to_block_ranges(pe.SegmentMask(at.array([0, 1, 0, 1])), 4, block_size=2)
    ),
}
NAMES = sorted(PUBLIC.keys() - {"__version__", "show_versions"})


def results_of(name, at):
    """Yield what the calls of a name give for the arrays of a library."""
    if name in OWN:
        yield OWN[name](at)
    else:
        for call in CATALOGUE[name]:
            yield call.on(at)


def flat(results, backend):
    """Return results as a list of NumPy arrays and of other values."""
    parts = [one for r in results for one in (r if isinstance(r, tuple) else (r,))]
    return [backend.numpy(one) if hasattr(one, "dtype") else one for one in parts]


def library_of(backend):
    return Library(backend.array, {"xp": backend.xp, "device": backend.device})


@pytest.fixture(scope="module")
def expected():
    """What NumPy gives for each name."""
    with opened("numpy") as numpy:
        at = library_of(numpy)
        return {name: flat(results_of(name, at), numpy) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_equals_numpy(backend, name, expected):
    at = library_of(backend)
    if (name, backend.name) in ERRORS:
        with pytest.raises((AttributeError, TypeError), match=ERRORS[name, backend.name]):
            flat(results_of(name, at), backend)
        return
    ability = {"graph_laplacian_encoding": "eigh", "ListMask": "sort"}.get(name)
    if ability is not None and (reason := backend.lacks(ability)) is not None:
        pytest.skip(reason)
    for got, want in zip(flat(results_of(name, at), backend), expected[name], strict=True):
        if not isinstance(want, np.ndarray):
            assert got == want
            continue
        bound = backend.tolerance(got.dtype.name)
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.library(name)) for name in UNFIT]
)
def test_libraries_that_do_not_keep_the_standard_are_refused(library, name):
    xp = importlib.import_module(library)
    at = Library(xp.asarray, {"xp": xp, "device": None})
    with pytest.raises(TypeError, match=r"must be a (plain array|namespace of plain arrays), got"):
        list(results_of(name, at))
