"""Tables follow the arrays, and none of them goes stale or leaks out of a trace."""

import numpy as np
import pytest

from positional_embeddings import AbsolutePE, RoPE
from positional_embeddings._namespace import host
from positional_embeddings._tables import _MOST_KEPT


def test_one_layer_serves_every_backend_dtype_and_device(backend):
    x = np.random.default_rng(0).standard_normal((8, 5, 2))
    for layer in (RoPE(8, 5), AbsolutePE(8, 5)):
        expected = layer(x)
        for name in backend.floats:
            got = layer(backend.array(x, name))
            assert got.dtype == getattr(backend.xp, name)
            np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance(name))
        np.testing.assert_array_equal(layer(x), expected)


def test_tables_are_kept_for_eager_arrays_only(backend):
    rope = RoPE(8, 5)
    x = backend.array(np.ones((8, 5)))
    rope(x)
    kept = {key[0] for key in rope._tables._kept}
    assert host in kept
    assert (backend.xp in kept) == backend.name.startswith(("strict", "torch", "cupy"))


def test_few_tables_are_kept():
    strict = pytest.importorskip("array_api_strict")
    rope = RoPE(4, 3)
    devices = strict.__array_namespace_info__().devices()
    for device in devices:
        for dtype in strict.__array_namespace_info__().dtypes(device=device, kind="real floating"):
            x = strict.ones((4, 3), dtype=getattr(strict, dtype), device=device)
            assert rope(x).device == device
    assert len(rope._tables._kept) == _MOST_KEPT
    x = np.ones((4, 3))
    np.testing.assert_array_equal(rope(x), RoPE(4, 3)(x))


def test_an_input_is_never_written_to(backend):
    for layer in (RoPE(8, 5), AbsolutePE(8, 5)):
        for name in backend.floats:
            x = np.random.default_rng(0).standard_normal((8, 5, 2)).astype(name)
            array = backend.array(x)
            layer(array)
            np.testing.assert_array_equal(backend.numpy(array), x)


def test_an_output_is_not_the_table(backend):
    layer = AbsolutePE(8, 5)
    first = backend.numpy(layer(backend.array(np.zeros((8, 5))))).copy()
    output = layer(backend.array(np.zeros((8, 5))))
    if backend.name in ("numpy", "torch", "cupy"):
        output += 1
    np.testing.assert_array_equal(backend.numpy(layer(backend.array(np.zeros((8, 5))))), first)
