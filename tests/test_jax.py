"""What JAX's users expect beyond arrays: transformations, and nothing that leaks from them."""

import copy
import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    FIREBias,
    FunctionBias,
    FunctionMask,
    GlobalMask,
    KERPLEBias,
    KVCache,
    LearnedPE,
    NeighbourhoodMask,
    PaddingMask,
    PatchEmbedding,
    RelativePE,
    RoPE,
    RoPEMultiHeadAttention,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    TokenEmbedding,
    attention_weights,
    create_causal_mask,
    create_padding_mask,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)
from positional_embeddings.arrays.backends.jax import JAXBackend

X = np.random.default_rng(0).standard_normal((8, 5, 2))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("layer", [RoPE(8, 20), AbsolutePE(8, 20)])
def test_a_layer_works_inside_and_outside_of_jit(layer, x64):
    expected, tolerance = layer(X), 1e-12 if x64 else 2e-6
    with jax.enable_x64(x64):
        x = jnp.asarray(X)
        for call in (jax.jit(layer), layer, jax.jit(jax.vmap(layer, -1, -1)), layer):
            np.testing.assert_allclose(np.asarray(call(x)), expected, atol=tolerance)
        places = jnp.asarray([3, 1, 4, 1, 100_000])
        traced = jax.jit(lambda x, p: layer(x, positions=p))(x, places)
        exact = layer(X, positions=np.asarray(places))
        np.testing.assert_allclose(np.asarray(traced), exact, atol=tolerance)


@pytest.mark.parametrize("axes", [(0, 1), (-1, -2)])
@pytest.mark.parametrize("layer", [RoPE, AbsolutePE])
@pytest.mark.parametrize(
    "positions",
    [
        np.asarray([[0, 19, 3, 3, 7], [1, 2, 3, 4, 5]], dtype=np.uint8),
        np.asarray([19, 20, -1, 3, 10**6]),  # beyond the table
        np.asarray([2**32 - 1, 0, 1, 2, 3], dtype=np.uint32),
        np.asarray([-20, -1, 0, 1, 2]),
    ],
)
def test_traced_positions_have_the_same_tables(layer, axes, positions):
    x = np.broadcast_to(X[:, :, None], (8, 5, 3, 2)).astype(np.float32)
    if axes == (0, 1):
        positions = positions.T
    else:
        x = x.T
    x = jnp.asarray(x)
    rotated = layer(8, 20, feature_axis=axes[0], seq_axis=axes[1])
    expected = rotated(x, positions=jnp.asarray(positions))
    actual = jax.jit(lambda x, p: rotated(x, positions=p))(x, jnp.asarray(positions))
    np.testing.assert_allclose(actual, expected, atol=3e-7)


def test_tables_of_traced_positions_are_read_from_a_constant():
    """Unless the table is large, or positions are real or have several coordinates."""

    def gathers(rope, positions):
        text = str(jax.make_jaxpr(lambda p: rope.tables(p).cos)(positions))
        return "f32[2,4,20]" in text

    positions = jnp.zeros(5, dtype=jnp.int32)
    assert gathers(RoPE(8, 20), positions)
    assert not gathers(RoPE(8, 20), positions + 0.5)
    assert not gathers(RoPE(8, 2**30), positions)


@pytest.mark.parametrize("wrong", [None, "hidden key", "hidden value", "key", "value"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_compiled_attention_hides_what_is_not_finite(wrong, number):
    q, k, v = (jnp.asarray(X, dtype=jnp.float32),) * 3
    position = 4 if wrong and "hidden" in wrong else 2
    if wrong and "key" in wrong:
        k = k.at[3, position].set(number)
    elif wrong:
        v = v.at[3, position].set(number)

    def attend(q, k, v):
        options = {"mask": CausalMask(), "offset": 0, "return_lse": True}
        return scaled_dot_product_attention(q[:, :4], k, v, **options)

    for actual, expected in zip(jax.jit(attend)(q, k, v), attend(q, k, v), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_five_lengths_compile_as_often_as_the_textbook():
    """Only the caller's function is compiled, once for each length."""
    rope = RoPE(8, 64)

    def step(x):
        q = rope(x, positions=jnp.arange(x.shape[1]))
        encoding = sinusoidal_encoding(x[0, :, 0], 8)
        return scaled_dot_product_attention(q, q, x, mask=CausalMask()) + encoding[..., None]

    def textbook(x):
        weights = jax.nn.softmax(jnp.einsum("fqh,fkh->hqk", x, x))
        return jnp.einsum("hqk,fkh->fqh", weights, x)

    def compilations(function):
        events = []

        def count(event, *_, **__):
            events.append(event.rsplit("/")[-1])

        compiled = jax.jit(function)
        inputs = [jax.device_put(X[:, :1].repeat(n, axis=1)) for n in (3, 5, 8, 13, 21)]
        jax.monitoring.register_event_duration_secs_listener(count)
        for x in inputs * 2:
            compiled(x)
        jax.monitoring.unregister_event_duration_listener(count)
        return events.count("jaxpr_trace_duration"), events.count("backend_compile_duration")

    assert compilations(step) == compilations(textbook) == (5, 5)


def test_gradients():
    with jax.enable_x64(True):
        from jax.test_util import check_grads

        x, positions = jnp.asarray(X), jnp.asarray([0.5, 1, -3, 100, 7])
        check_grads(lambda x, p: RoPE(8, 5)(x, positions=p), (x, positions), order=1)
        check_grads(lambda p: sinusoidal_encoding(p, 7), (positions,), order=1)
        q, k, v = x, x[::-1], x[:3]
        mask = create_causal_mask(5, offset=-1, xp=jnp)  # the first query sees nothing
        check_grads(
            lambda *arrays: scaled_dot_product_attention(
                *map(jnp.asarray, arrays), mask=mask, softcap=2.0
            ),
            (q, k, v),
            order=1,
        )


def test_gradient_of_real_positions_without_float64():
    """The positions are cut into parts; their derivative must not be cut with them."""
    slope = jax.grad(lambda p: sinusoidal_encoding(p, 4, base=100.0)[0])(jnp.asarray(7.25))
    assert float(slope) == pytest.approx(np.cos(7.25), abs=1e-6)


def test_weights_may_be_traced():
    from dataclasses import replace

    mha = RoPEMultiHeadAttention(8, 2, rng=0, xp=jnp)
    x = jnp.asarray(X)

    def loss(weight):
        return jnp.sum(replace(mha, Wo=weight)(x) ** 2)

    gradient = jax.jit(jax.grad(loss))(mha.Wo)
    step = 1e-2 * jnp.sign(gradient)
    assert float(loss(mha.Wo - step)) < float(loss(mha.Wo))


def test_lengths_may_be_traced():
    mask = jax.jit(lambda n: create_padding_mask(n, 4))(jnp.asarray([1, 4], dtype=jnp.uint8))
    np.testing.assert_array_equal(mask[0, :, 0], [False, True, True, True])


@pytest.mark.parametrize("block_size", [None, 3])
def test_masked_garbage_reaches_no_gradient(block_size):
    k = jnp.asarray(X).at[:, 4].set(jnp.nan)
    mask = create_causal_mask(5, xp=jnp) | create_padding_mask([4], 5, xp=jnp)

    def total(q, k, v):
        return jnp.sum(scaled_dot_product_attention(q, k, v, mask=mask, block_size=block_size))

    for gradient in jax.grad(total, argnums=(0, 1, 2))(jnp.asarray(X), k, k):
        assert bool(jnp.all(jnp.isfinite(gradient)))


LOOPED = {
    "plain": {},
    "causal": {"mask": CausalMask()},
    "window and padding": {"mask": SlidingWindowMask(4, 1) | PaddingMask([31, 9]), "offset": 0},
    "global tokens": {"mask": SlidingWindowMask(3, 3) & GlobalMask([0, 17])},
    "documents": {"mask": SegmentMask([0] * 5 + [1] * 11 + [-1] * 3 + [2] * 12)},
    "array": {"mask": X[:, 0, :1] > 0, "bias": None},
    "bias": {"bias": ALiBiBias(4), "softcap": 3.0},
    "functions": {"mask": lambda i, j: (i + j) % 3 == 0, "bias": lambda i, j: 0.5 * (i - j)},
}


@pytest.mark.parametrize("lengths", [(31, 31), (24, 31)])
@pytest.mark.parametrize("name", LOOPED)
def test_attention_in_loops_is_that_of_numpy(name, lengths):
    rng = np.random.default_rng(1)
    sizes = (lengths[0], 4), (31, 2), (31, 2)
    q, k, v = (rng.standard_normal((6, *size, 2)) for size in sizes)
    options = LOOPED[name] | {"enable_gqa": True, "feature_axis": 0, "seq_axis": 1}
    if name == "array":
        options |= {
            "mask": rng.random(lengths) < 0.4,
            "bias": rng.standard_normal((*lengths, 4, 1)),
        }
    expected = scaled_dot_product_attention(q, k, v, **options)
    with jax.enable_x64(True):
        options |= {
            kind: jnp.asarray(given)
            for kind, given in options.items()
            if isinstance(given, np.ndarray)
        }

        def attend(*arrays):
            return scaled_dot_product_attention(*arrays, **options, block_size=7)

        arrays = [jnp.asarray(x) for x in (q, k, v)]
        np.testing.assert_allclose(np.asarray(jax.jit(attend)(*arrays)), expected, atol=1e-12)
        # Each of a batch by itself, but for what tells the sequences apart.
        if "padding" not in name:
            each = jax.jit(jax.vmap(attend, -1, -1))
            several = np.asarray(each(*(x[..., None, :] for x in arrays)))[..., 0, :]
            np.testing.assert_allclose(several, expected, atol=1e-12)


def test_a_batch_of_vmap_replaces_keys_only_if_one_of_them_is_not_finite():
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.standard_normal((3, n, 4)), jnp.float32) for n in (1, 6, 6))
    k = k.at[0, 1].set(jnp.nan).at[1, 5].set(jnp.inf)  # visible, masked

    def attend(q, k, v):
        options = {"mask": CausalMask(), "feature_axis": -1, "seq_axis": -2}
        return scaled_dot_product_attention(q, k, v, **options, offset=4)

    each = jnp.stack([attend(*arrays) for arrays in zip(q, k, v, strict=True)])
    assert jnp.isnan(each).all(axis=(1, 2)).tolist() == [True, False, False]
    np.testing.assert_allclose(jax.jit(jax.vmap(attend))(q, k, v), each, atol=1e-6)
    # Otherwise `vmap` would compute both functions, and select from their results.
    traced = str(jax.make_jaxpr(jax.jit(jax.vmap(attend)))(q, k, v))
    assert "cond[" in traced


def test_attention_in_loops_has_the_gradients_of_attention_at_once():
    rng = np.random.default_rng(2)
    q, k, v = (jnp.asarray(rng.standard_normal((4, 20, 3)), dtype=jnp.float32) for _ in range(3))
    k = k.at[:, 19].set(jnp.nan)  # which the mask hides

    def loss(arrays, table, block_size):
        mask, bias = CausalMask(mask_diagonal=True), lambda i, j: table[i - j + 19]
        options = {"mask": mask, "bias": bias, "block_size": block_size}
        return jnp.sum(scaled_dot_product_attention(*arrays, **options) ** 2)

    table = jnp.asarray(rng.standard_normal((39, 3)), dtype=jnp.float32)
    of_loops, at_once = (
        jax.jit(jax.grad(loss, argnums=(0, 1)), static_argnums=2)((q, k, v), table, size)
        for size in (6, None)
    )
    for got, expected in zip(jax.tree.leaves(of_loops), jax.tree.leaves(at_once), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)
        assert bool(jnp.all(jnp.isfinite(got)))


def test_one_block_is_no_loop():
    q, k, v = (
        jnp.asarray(x, dtype=jnp.float32)
        for x in np.random.default_rng(3).normal(size=(3, 4, 20, 3))
    )

    def attend(size):
        return scaled_dot_product_attention(q, k, v, mask=CausalMask(), block_size=size)

    assert "scan" in str(jax.make_jaxpr(lambda: attend(7))())
    assert "scan" not in str(jax.make_jaxpr(lambda: attend(20))())
    np.testing.assert_allclose(jax.jit(attend, static_argnums=0)(20), attend(7), atol=1e-6)


def test_many_scores_are_looped_over_and_bound_memory():
    """Neither what is compiled nor what it holds grows with the scores."""

    def compiled(n, **options):
        def attend(q):
            return scaled_dot_product_attention(q, q, q, mask=CausalMask(), **options)

        x = jax.ShapeDtypeStruct((8, n), jnp.float32)
        lowered = jax.jit(attend).lower(x)
        memory = lowered.compile().memory_analysis().temp_size_in_bytes
        return len(lowered.as_text()), memory

    text, memory = compiled(4096)
    assert memory < 4 * 4096**2 / 2
    longer, more = compiled(8192, block_size=1024)
    assert longer < 1.5 * text
    assert more < 4 * 8192**2 / 8


def test_a_window_is_looped_over_in_few_blocks():
    """Each block of queries takes the blocks of keys that it sees, and no others."""

    def attend(q):
        mask = CausalMask() | SlidingWindowMask(100, 0)
        return scaled_dot_product_attention(q, q, q, mask=mask, block_size=64)

    traced = str(jax.make_jaxpr(jax.jit(attend))(jax.ShapeDtypeStruct((8, 4096), jnp.float32)))
    assert "length=3" in traced  # blocks of keys
    assert "length=64" in traced  # blocks of queries: 4,096 / 64


def test_arrays_over_several_devices():
    """A sharding is made for the shape of its own array, and for no table."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.asarray(jax.devices()[:1]), ("batch",))
    x = jax.device_put(jnp.asarray(X), NamedSharding(mesh, PartitionSpec(None, None, "batch")))
    for layer in (RoPE(8, 5), AbsolutePE(8, 5)):
        np.testing.assert_allclose(np.asarray(layer(x)), layer(X), atol=2e-6)
    mask = create_causal_mask(5, xp=jnp)
    expected = scaled_dot_product_attention(X, X, X, mask=np.asarray(mask))
    got = scaled_dot_product_attention(x, x, x, mask=mask)
    np.testing.assert_allclose(np.asarray(got), expected, atol=2e-6)


ON_EIGHT_DEVICES = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from positional_embeddings import *

X = np.random.default_rng(0).standard_normal((8, 16, 24)).astype("float32")
PLACES, WEIGHTS = np.arange(0, 48, 3), X[:, :, 0]
AXES = {"heads": (None, None, "d"), "seq": (None, "d", None)}
layers = RoPE(8, 40), AbsolutePE(8, 40)


def same(call, spec, mesh):
    "A call on NumPy's arrays gives what it gives on arrays over all devices, eager and jitted."
    x = jax.device_put(jnp.asarray(X), NamedSharding(mesh, PartitionSpec(*spec)))
    for way in (call, jax.jit(call, static_argnums=1)):
        got = way(x, jnp)
        np.testing.assert_allclose(np.asarray(got), call(X, np), atol=3e-6)
        if got.shape == x.shape:
            kept = got.sharding.is_equivalent_to((x * x).sharding, x.ndim)
            assert kept, got.sharding
"""


def run_on_eight_devices(code):
    """Run code in a process of its own, where the CPU counts as eight devices."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run(
        [sys.executable, "-c", ON_EIGHT_DEVICES + code], env=os.environ | flags, check=True
    )


def test_arrays_over_eight_devices_meet_arrays_that_are_not_committed():
    """What has no place of its own goes where the others are, as in ``x * positions``."""
    run_on_eight_devices("""
def attend(x, **options):
    return scaled_dot_product_attention(x, x, x, **options)


calls = {
    "seq": [
        lambda x, xp: layers[0](x, positions=xp.arange(16)),
        lambda x, xp: layers[0].shift(x, xp.asarray(2)),
        lambda x, xp: layers[1](x, positions=xp.asarray(PLACES)),
        lambda x, xp: LearnedPE(8, 16, embeddings=xp.asarray(WEIGHTS))(x, positions=xp.arange(16)),
        lambda x, xp: x + sinusoidal_encoding(xp.arange(16), 8, dtype=xp.float32)[:, :, None],
    ],
    "heads": [
        lambda x, xp: layers[0](x, offset=3),
        lambda x, xp: attend(x, mask=create_causal_mask(16, xp=xp)),
        lambda x, xp: attend(x, mask=create_padding_mask(xp.arange(24) % 17, 16)),
        lambda x, xp: attend(x, bias=mask_to_bias(create_causal_mask(16, xp=xp), xp.float32)),
        lambda x, xp: attend(x, bias=alibi_bias(24, query_positions=xp.arange(16))),
        lambda x, xp: attend(x, bias=T5Bias(24, embeddings=xp.ones((32, 24)))(16)),
    ],
}
mesh = Mesh(np.asarray(jax.devices()), ("d",))
for axis, of_axis in calls.items():
    for call in of_axis:
        same(call, AXES[axis], mesh)
""")


SHARDED = """
Y = np.random.default_rng(0).standard_normal((8, 16, 8, 8)).astype("float32")
SPECS = {
    "heads": PartitionSpec(None, None, "d", None),
    "batch": PartitionSpec(None, None, None, "d"),
    "seq": PartitionSpec(None, "d", None, None),
}
lengths = jnp.asarray([16, 3, 9, 16, 7, 13, 16, 1])
first = {"feature_axis": 0, "seq_axis": 1}


def attend(q, k, **options):
    mask = CausalMask() | PaddingMask(lengths)
    return scaled_dot_product_attention(q, k, k, mask=mask, bias=ALiBiBias(8), **options, **first)


steps = {
    "rotation": lambda x, k: RoPE(8, 16, **first)(x),
    "attention at once": attend,
    "attention in loops": lambda x, k: attend(x, k, block_size=5),
    "attention in one block": lambda x, k: attend(x, k, block_size=16),
}

at_once = np.asarray(attend(jnp.asarray(Y), jnp.asarray(Y)))


def show(kind, axis, names):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(kind,))
    with jax.sharding.set_mesh(mesh):
        x = jax.device_put(jnp.asarray(Y), NamedSharding(mesh, SPECS[axis]))
        for name in names:
            got = jax.jit(steps[name])(x, x)
            print(kind.name, name, got.sharding.spec)
            assert got.sharding.is_equivalent_to(x.sharding, 4), got.sharding
            expected = steps[name](Y, Y) if name == "rotation" else at_once
            np.testing.assert_allclose(np.asarray(got), expected, atol=3e-6)
"""


@pytest.mark.parametrize("axis", ["heads", "batch", "seq"])
def test_arrays_stay_sharded_through_rotation_masks_and_attention(axis):
    names = ["rotation", "attention at once", "attention in loops", "attention in one block"]
    if axis == "seq":
        names.remove("attention in loops")  # which gathers the sequence
    run_on_eight_devices(f"{SHARDED}\nshow(AxisType.Auto, '{axis}', {names})")


@pytest.mark.parametrize("axis", ["heads", "batch"])
def test_arrays_stay_sharded_over_an_explicit_mesh(axis):
    names = ["rotation", "attention at once", "attention in loops"]
    run_on_eight_devices(f"{SHARDED}\nshow(AxisType.Explicit, '{axis}', {names})")


def test_attention_in_blocks_over_an_explicit_mesh():
    run_on_eight_devices("""
mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Explicit,))


def attend(x, xp, **options):
    return scaled_dot_product_attention(x, x, x, block_size=8, **options)


with jax.sharding.set_mesh(mesh):
    same(attend, AXES["heads"], mesh)
    same(lambda x, xp: attend(x, xp, mask=lambda i, j: j > i), AXES["heads"], mesh)
    same(lambda x, xp: layers[0](x, positions=xp.arange(16)), AXES["seq"], mesh)
""")


def test_the_same_weights_are_the_same_wherever_they_lie():
    free = jnp.asarray(X[:, :, 0])
    on_device = jax.device_put(free, jax.devices()[0])
    assert LearnedPE(8, 5, embeddings=free) == LearnedPE(8, 5, embeddings=on_device)


def test_half_precision_positions_in_a_trace_are_taken_as_they_are():
    """Outside of it they are an error from 256 on, since integers are missing there."""
    near, far = (jnp.asarray([1, n], dtype=jnp.bfloat16) for n in (255, 300))
    for call in (lambda p: sinusoidal_encoding(p, 4), lambda p: RoPE(4, 8).tables(p).cos):
        assert np.isfinite(np.asarray(jax.jit(call)(far), dtype="float32")).all()
        call(near)
        with pytest.raises(ValueError, match="must be within 255 in bfloat16"):
            call(far)


def test_large_unsigned_positions_do_not_wrap():
    positions = np.asarray([2**31 + 5], dtype="uint32")
    got = sinusoidal_encoding(jnp.asarray(positions), 4)
    np.testing.assert_allclose(np.asarray(got), sinusoidal_encoding(positions, 4), atol=2e-7)
    with pytest.raises(
        ValueError, match="`offset` must keep positions within 536870911, so that int32"
    ):
        create_causal_mask(2, offset=2**40, xp=jnp)


def test_a_layer_of_weights_may_be_jitted():
    mha = RoPEMultiHeadAttention(8, 2, rng=0, xp=jnp)
    x = jnp.asarray(X)
    np.testing.assert_allclose(np.asarray(jax.jit(mha)(x)), np.asarray(mha(x)), atol=2e-6)


LAYERS = {
    "RoPE": lambda: RoPE(8, 5),
    "AbsolutePE": lambda: AbsolutePE(8, 5),
    "LearnedPE": lambda: LearnedPE(8, 5, rng=0, padding_idx=1),
    "TokenEmbedding": lambda: TokenEmbedding(7, 4, rng=0),
    "PatchEmbedding": lambda: PatchEmbedding(4, 2, 3, 5, rng=0),
    "RelativePE": lambda: RelativePE(3, 4, rng=0),
    "T5Bias": lambda: T5Bias(2, rng=0),
    "ALiBiBias": lambda: ALiBiBias(2),
    "KERPLEBias": lambda: KERPLEBias(np.ones(2), np.full(2, 0.5)),
    "FIREBias": lambda: FIREBias(
        np.ones(1), np.zeros(1), -np.ones((2, 1)), np.zeros(2), c=0.1, threshold=16.0
    ),
    "RoPEMultiHeadAttention": lambda: RoPEMultiHeadAttention(8, 2, rng=0),
    "masks": lambda: ~(CausalMask() & GlobalMask([0, 3])) | PaddingMask([3, 5]),
    "SegmentMask": lambda: SegmentMask([0, 0, 1, -1]),
    "FunctionMask": lambda: FunctionMask(max),
    "FunctionBias": lambda: FunctionBias(max),
}
LEAVES = {"PatchEmbedding": 2, "KERPLEBias": 2, "FIREBias": 6, "RoPEMultiHeadAttention": 4}
LEAVES |= dict.fromkeys(["RoPE", "AbsolutePE", "ALiBiBias", "FunctionMask", "FunctionBias"], 0) | {
    "masks": 2
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_pytrees_whose_leaves_are_their_arrays(name):
    layer, other = LAYERS[name](), LAYERS[name]()
    leaves, structure = jax.tree.flatten(layer)
    assert len(leaves) == LEAVES.get(name, 1)
    assert jax.tree.unflatten(structure, leaves) == layer
    if name != "FunctionMask":
        assert structure == jax.tree.structure(other)
        assert hash(structure) == hash(jax.tree.structure(other))
    # Neither checked nor drawn again, whatever the leaves are.
    assert jax.tree.leaves(jax.tree.unflatten(structure, [object] * len(leaves))) == [object] * len(
        leaves
    )
    names = [str(path[-1]) for path, _ in jax.tree.flatten_with_path(layer)[0]]
    wanted = {"masks": [".indices", ".lengths"], "PatchEmbedding": [".kernel", ".bias"]}
    assert names == wanted.get(name, names)


def test_a_seed_does_not_go_with_other_arrays():
    doubled = jax.tree.map(lambda weight: 2 * weight, LearnedPE(4, 6, rng=0))
    assert doubled.rng is None
    assert "rng=0" not in repr(doubled)


def test_a_layer_is_compiled_once_for_its_options_and_not_for_its_weights():
    traced = []

    @jax.jit
    def call(layer, x):
        traced.append(layer)
        return layer(x)

    x = jnp.asarray(X, dtype=jnp.float32)
    for rng in (0, 1):
        layer = LearnedPE(8, 5, rng=rng, xp=jnp)
        np.testing.assert_allclose(call(layer, x), layer(x), atol=1e-6)
    assert len(traced) == 1
    for _ in range(2):
        call(RoPE(8, 5), x)
    assert len(traced) == 2
    call(RoPE(8, 6), x)
    assert len(traced) == 3


def test_masks_may_be_arguments_of_what_is_compiled():
    @jax.jit
    def dense(mask):
        return mask.dense(4)

    for mask in (SegmentMask([0, 0, 1, -1]), SegmentMask([0, 1, 1, 1])):
        np.testing.assert_array_equal(dense(mask), mask.dense(4))
        both = mask | GlobalMask([2]) | PaddingMask([1, 3])
        np.testing.assert_array_equal(dense(both), both.dense(4))
    assert dense._cache_size() == 2

    @jax.jit
    def attend(mask, x):
        return scaled_dot_product_attention(x, x, x, mask=mask)

    x = jnp.asarray(X, dtype=jnp.float32)
    mask = PaddingMask([2, 5]) & GlobalMask([1])
    np.testing.assert_allclose(
        attend(mask, x), scaled_dot_product_attention(x, x, x, mask=mask), atol=1e-6
    )


def test_layers_under_the_transformations_of_jax():
    x = jnp.asarray(X, dtype=jnp.float32)
    mha = RoPEMultiHeadAttention(8, 2, rng=0, xp=jnp)

    def loss(layers, x):
        return jnp.sum(layers["mha"](layers["pe"](x), CausalMask(), bias=layers["bias"]) ** 2)

    layers = {"mha": mha, "pe": LearnedPE(8, 5, rng=1, xp=jnp), "bias": T5Bias(2, rng=2, xp=jnp)}
    gradient = jax.jit(jax.grad(loss))(layers, x)
    assert isinstance(gradient["bias"], T5Bias)
    lower = jax.tree.map(lambda weight, slope: weight - 1e-4 * slope, layers, gradient)
    assert float(loss(lower, x)) < float(loss(layers, x))

    several = [RoPEMultiHeadAttention(8, 2, rng=seed, xp=jnp) for seed in range(3)]
    stacked = jax.tree.map(lambda *weights: jnp.stack(weights), *several)
    each = jax.vmap(lambda layer: layer(x))(stacked)
    deep, _ = jax.lax.scan(lambda x, layer: (layer(x), None), x, stacked)
    after = x
    for layer, alone in zip(several, each, strict=True):
        np.testing.assert_allclose(alone, layer(x), atol=1e-5)
        after = layer(after)
    np.testing.assert_allclose(deep, after, atol=1e-4)


def test_layers_are_pytrees_if_jax_is_imported_after_the_library():
    code = """
import positional_embeddings as pe
early = pe.RoPE(8, 5)
import jax, jax.numpy as jnp
assert jax.tree.leaves(early) == [early]
assert jax.tree.leaves(pe.LearnedPE(8, 5, xp=jnp))[0].shape == (8, 5)
assert jax.tree.leaves(early) == []
"""
    subprocess.run([sys.executable, "-c", code], check=True)


AXES = {"feature_axis": -1, "seq_axis": -2}


SIZES = {"num_kv_heads": 1, "head_size": 4, **AXES}


@pytest.fixture(params=[True, False], ids=["in place", "anew"])
def way_to_store(request, monkeypatch):
    """Store in place, or make new buffers, as for a library without assignment."""
    monkeypatch.setattr(JAXBackend, "supports_put", request.param)


def stored(cache, tokens, new):
    cache, step = cache.step(tokens)
    return cache, step.update(0, new, new)[0], step.positions, step.key_positions


@pytest.mark.usefixtures("way_to_store")
@pytest.mark.parametrize("seq_axis", [-2, 1])
@pytest.mark.parametrize("window", [None, 5])
def test_a_cache_in_jit_is_that_outside(window, seq_axis):
    steps = [[[0, 1, 1], [1, 1, 1]], [[1], [1]], [[1, 0], [0, 1]], [[1, 1], [1, 1]], [[0], [1]]]
    options = {"window": window, "num_sink_tokens": 1, "drafts": 2} if window else {"capacity": 12}
    options |= SIZES | {"seq_axis": seq_axis}
    cache = traced = KVCache.empty(1, 2, xp=jnp, dtype=jnp.float32, **options)
    rng, call = np.random.default_rng(0), jax.jit(stored)
    for i, tokens in enumerate(steps):
        new = jnp.asarray(rng.standard_normal((2, 1, len(tokens[0]), 4)), dtype=jnp.float32)
        new = jnp.moveaxis(new, 2, seq_axis)
        cache, keys, *positions = stored(cache, tokens, new)
        traced, traced_keys, *own = call(traced, jnp.asarray(tokens), new)
        np.testing.assert_array_equal(positions[0], own[0])
        for row in range(2):
            there, in_trace = (
                {int(p): keys[row, :, at] for at, p in enumerate(places[row]) if p >= 0}
                for keys, (_, places) in (
                    (jnp.moveaxis(keys, seq_axis, 2), positions),
                    (jnp.moveaxis(traced_keys, seq_axis, 2), own),
                )
            )
            assert there.keys() == in_trace.keys()
            for position, key in there.items():
                np.testing.assert_array_equal(key, in_trace[position])
        if i == 2:
            cache, traced = (
                cache.rewind([1, 0]),
                jax.jit(KVCache.rewind)(traced, jnp.asarray([1, 0])),
            )
            cache, traced = cache.take([1, 0]), jax.jit(KVCache.take)(traced, jnp.asarray([1, 0]))
    np.testing.assert_array_equal(cache.lengths, traced.lengths)


@pytest.mark.usefixtures("way_to_store")
def test_what_comes_out_of_jit_goes_on_outside():
    """A cache, also pickled, and a step, which stores in a cache that has room."""
    new = jnp.arange(24.0).reshape(2, 1, 3, 4)
    mask, cache = jnp.asarray([[0, 1, 1], [1, 1, 1]]), KVCache.empty(1, 2, 4, xp=jnp, **SIZES)
    after = jax.jit(lambda cache: stored(cache, mask, new)[0])(cache)
    for one in (after, pickle.loads(pickle.dumps(after))):
        keys = stored(one, 1, new[:, :, :1])[1]
        np.testing.assert_array_equal(keys[0, 0, :, 0], [4, 8, 0, 0])
        np.testing.assert_array_equal(keys[1, 0, :, 0], [12, 16, 20, 12])
    step = jax.jit(lambda mask: cache.step(mask)[1])(mask)
    np.testing.assert_array_equal(step.update(0, new, new)[0][0, 0, :2], new[0, 0, 1:])
    step = jax.jit(lambda after: after.step(mask)[1])(after)
    keys, _ = step.update(0, new, new)
    np.testing.assert_array_equal(jnp.isnan(keys[:, 0, 0, 0]), [False, True])


@pytest.mark.usefixtures("way_to_store")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_full_cache_gives_nan_where_nobody_can_read_its_lengths(dtype):
    """And stays so, after a rewind as well; the other sequence goes on."""

    @jax.jit
    def token(cache, tokens):
        new = jnp.ones((2, 1, tokens.shape[1], 4), dtype=dtype)
        cache, step = cache.step(tokens)
        keys, values = step.update(0, new, new)
        return cache, scaled_dot_product_attention(
            new, keys, values, mask=CausalMask(), positions=step
        )

    empty = KVCache.empty(1, 2, 4, xp=jnp, dtype=jnp.dtype(dtype), **SIZES)
    cache, output = token(empty, jnp.asarray([[1, 1, 1], [0, 0, 1]]))
    assert jnp.all(jnp.isfinite(output))
    for tokens in ([[1], [1]], [[1], [1]], [[0], [0]]):
        cache, output = token(cache, jnp.asarray(tokens))
        is_full = bool(cache.lengths[0] > 4)
        assert bool(jnp.all(jnp.isnan(output[0]))) == is_full
        assert jnp.all(output[1] == 1)
    back = jax.jit(KVCache.rewind)(cache, jnp.asarray([3, 0]))
    output = token(back, jnp.asarray([[1], [0]]))[1]
    assert jnp.all(jnp.isnan(output[0]))
    with pytest.raises(ValueError, match="`tokens` must fit into the slots that `capacity` = 4"):
        cache.step(1)
    assert jnp.all(jnp.isnan(token(empty, jnp.ones((2, 5), dtype=int))[1]))


@pytest.mark.usefixtures("way_to_store")
def test_integers_of_a_cache_have_no_nan():
    new = jnp.ones((1, 1, 3, 4), dtype=int)
    cache = KVCache.empty(1, 1, 2, xp=jnp, dtype=new.dtype, **SIZES)
    keys = jax.jit(stored)(cache, jnp.ones((1, 3), dtype=int), new)[1]
    assert keys.dtype == new.dtype


@pytest.mark.usefixtures("way_to_store")
def test_a_ring_hides_in_jit_what_it_hides_outside():
    """Of chunks, and of slots that are there for a `rewind`, by its own rule and by NumPy's."""

    def attend(cache, new):
        cache, step = cache.step(new.shape[2])
        keys, values = step.update(0, new, new)
        return cache, scaled_dot_product_attention(new, keys, values, positions=step)

    rng, in_jit = np.random.default_rng(0), jax.jit(attend)
    for drafts in (0, 2):
        options = {"num_sink_tokens": 1, "window": 3, "drafts": drafts, **SIZES}
        caches = [KVCache.empty(1, 2, xp=xp, dtype=xp.float32, **options) for xp in (np, jnp)]
        for count in (2, 3, 1, 1, 6, 1):
            new = rng.standard_normal((2, 1, count, 4)).astype("float32")
            caches[1], got = in_jit(caches[1], jnp.asarray(new))
            caches[0], expected = attend(caches[0], new)
            np.testing.assert_allclose(got, expected, atol=1e-6)
    step, wide = caches[1].step(1)[1], CausalMask() | SlidingWindowMask(3, 0)
    keys = jnp.ones((2, 1, step.key_positions.shape[1], 4))
    with pytest.raises(ValueError, match="`mask` must show the 3 newest keys of the ring"):
        jax.jit(lambda q, k: attention_weights(q, k, mask=wide, positions=step))(new, keys)


@pytest.mark.usefixtures("way_to_store")
def test_a_cache_goes_through_scan():
    def body(cache, new):
        cache, keys, *positions = stored(cache, 1, new)
        return cache, (keys, *positions)

    new = jnp.arange(9.0).reshape(9, 1, 1, 1, 1) * jnp.ones((2, 1, 1, 4))
    start = KVCache.empty(1, 2, window=3, num_sink_tokens=1, xp=jnp, dtype=new.dtype, **SIZES)
    scan = jax.jit(lambda start, new: jax.lax.scan(body, start, new))
    cache, (keys, positions, key_positions) = scan(start, new)
    np.testing.assert_array_equal(positions[:, 0, 0], np.arange(9))
    np.testing.assert_array_equal(key_positions[-1], [[0, 7, 8, 6]] * 2)
    np.testing.assert_array_equal(keys[-1, 0, 0, :, 0], [0, 7, 8, 6])
    np.testing.assert_array_equal(cache.lengths, [9, 9])


def test_a_compiled_step_writes_its_new_tokens_alone():
    cache, new = KVCache.empty(1, 2, 8, xp=jnp, **SIZES), jnp.zeros((2, 1, 1, 4))
    program = str(jax.make_jaxpr(lambda cache: stored(cache, 1, new))(cache))
    assert "scatter" in program
    assert "gather" not in program


def test_a_layer_that_was_left_out_in_jit_is_named_outside():
    def forgetful(cache, new):
        cache, step = cache.step(1)
        step.update(1, new, new)
        return cache

    new = jnp.ones((2, 1, 1, 4))
    empty = KVCache.empty(3, 2, 8, xp=jnp, **SIZES)
    cache = jax.jit(forgetful)(empty, new)
    for use in (stored, jax.jit(stored, static_argnums=1)):
        with pytest.raises(ValueError, match="got one without layer 0, 2"):
            use(cache, 1, new)
    with pytest.raises(ValueError, match="got one without layer 0, 2"):
        cache.take([0])

    with pytest.raises(TypeError, match=r"KVCache\(<3 layers>, .* missing_layers=\[0, 2\]\)"):
        jax.lax.scan(lambda cache, new: (forgetful(cache, new), 0), empty, new[None])


LOST = "`cache` must be rewound and taken within range in compiled functions, too, .* sequence 1"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("options", [{"capacity": 14}, {"window": 3, "drafts": 1}], ids=str)
def test_what_is_out_of_range_in_jit_is_nan_there_and_refused_outside(options, count):
    """The other sequence goes on."""

    @jax.jit
    def chunk(cache):
        cache, step = cache.step(count)
        new = jnp.ones((2, 1, count, 4))
        keys, values = step.update(0, new, new)
        return cache, scaled_dot_product_attention(
            new, keys, values, mask=SlidingWindowMask(0, 0), positions=step
        )

    cache = KVCache.empty(1, 2, xp=jnp, **options, **SIZES)
    for _ in range(6):
        cache, output = chunk(cache)
    assert jnp.all(output == 1)
    counts = [[0, -1], [1, 13]] + [[0, 3]] * ("window" in options)
    lost = [jax.jit(KVCache.rewind)(cache, jnp.asarray(numbers)) for numbers in counts]
    lost += [jax.jit(KVCache.take)(cache, jnp.asarray(rows)) for rows in ([0, -1], [1, 2])]
    for one in lost:
        after, output = chunk(one)
        np.testing.assert_array_equal(
            jnp.isnan(output[:, 0, :, 0]), [[False] * count, [True] * count]
        )
        for cache_out_of_jit in (one, after):
            for use in (copy.deepcopy, lambda c: c.step(1), lambda c: c.rewind(0)):
                with pytest.raises(ValueError, match=LOST):
                    use(cache_out_of_jit)
    with pytest.raises(ValueError, match="`rows` must be from 0 to 1"):
        jax.jit(lambda cache: cache.take([-1]))(cache)


def test_a_window_shows_that_a_sequence_is_too_long():
    cache, new = KVCache.empty(1, 1, 4, xp=jnp, **SIZES), jnp.ones((1, 1, 3, 4))

    @jax.jit
    def chunk(cache):
        cache, step = cache.step(3)
        keys, values = step.update(0, new, new)
        return cache, scaled_dot_product_attention(
            new, keys, values, mask=SlidingWindowMask(0, 0), positions=step
        )

    for is_full in (False, True, True):
        cache, output = chunk(cache)
        assert bool(jnp.all(jnp.isnan(output) if is_full else output == 1))


def test_errors_of_a_cache_name_what_a_trace_needs():
    cache, new = KVCache.empty(1, 2, 8, xp=jnp, **SIZES), jnp.ones((2, 1, 1, 4))
    with pytest.raises(TypeError, match=r"`tokens` must be a positive .* static_argnames"):
        jax.jit(lambda number: cache.step(number)[0])(1)
    with pytest.raises(TypeError, match=r"`counts` must be an integer.*array of shape \(batch,\)"):
        jax.jit(cache.rewind)(0)
    after = jax.jit(lambda cache: stored(cache, 1, new)[0], donate_argnums=0)(cache)
    for use in (lambda cache: cache.step(1), lambda cache: cache.take([0]), copy.deepcopy):
        with pytest.raises(
            ValueError, match=r"`cache` must not be donated .* Go on with the cache"
        ):
            use(cache)
    assert repr(cache) == repr(after).replace("<jaxlib.ArrayImpl of shape (2,)>", "[0, 0]")


@pytest.mark.parametrize("tokens", [3, [[0, 1, 1], [1, 1, 1]]])
def test_attention_takes_a_step_inside_and_outside_of_jit(tokens):
    step = KVCache.empty(1, 2, 8, xp=jnp, **SIZES).step(tokens)[1]
    rng, k_len = np.random.default_rng(0), step.key_positions.shape[1]
    q, k = (jnp.asarray(rng.standard_normal((2, 3, n, 4)), dtype="float32") for n in (3, k_len))
    places = {"positions": step.positions, "key_positions": step.key_positions}
    expected = scaled_dot_product_attention(q, k, k, mask=CausalMask(), **places, **AXES)

    def attend(q, k, step):
        return scaled_dot_product_attention(q, k, k, mask=CausalMask(), positions=step, **AXES)

    constant = jax.jit(lambda q, k: attend(q, k, step))
    for got in (attend(q, k, step), jax.jit(attend)(q, k, step), constant(q, k), constant(q, k)):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_complex_numbers_are_rotated():
    x = np.random.default_rng(0).standard_normal((4, 5, 2)).view(complex)[..., 0]
    rotated = RoPE(8, 5)(jnp.asarray(x, dtype=jnp.complex64))
    np.testing.assert_allclose(rotated, RoPE(8, 5)(x), atol=1e-6)


@pytest.mark.parametrize(
    "mask", [SegmentMask([0, 0, 1, 1]), NeighbourhoodMask((2, 2), 1)], ids=["segments", "grid"]
)
def test_masks_of_tokens_take_positions_of_a_trace(mask):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 4, 3)))

    def attend(positions):
        return scaled_dot_product_attention(x, x, x, mask=mask, positions=positions)

    positions = jnp.asarray([0, 1, 3, 2])
    np.testing.assert_allclose(jax.jit(attend)(positions), attend(positions), atol=1e-6)


@pytest.mark.parametrize("is_made_outside", [True, False])
def test_documents_of_a_padded_prompt_in_a_trace(is_made_outside):
    tokens, ids = (
        jnp.asarray([[0, 1, 1, 1], [1, 0, 1, 1]]),
        jnp.asarray([[0, 0, 1, 1], [0, 1, 0, 1]]),
    )
    axes = {"feature_axis": -1, "seq_axis": -2}
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 1, 4, 3)), dtype=jnp.float32)
    empty = KVCache.empty(1, 2, 8, num_kv_heads=1, head_size=3, xp=jnp, dtype=x.dtype, **axes)

    def outputs(tokens, ids, cache):
        for _ in range(2):  # the later step has ids of tokens
            cache, step = cache.step(tokens)
            keys, values = step.update(0, x, x)
            mask = CausalMask() | SegmentMask(jnp.concat([ids.T, ids.T]))
            yield scaled_dot_product_attention(x, keys, values, mask=mask, positions=step)

    def compute(tokens, ids, cache=empty):
        return [y * tokens[:, None, :, None] for y in outputs(tokens, ids, cache)]

    arrays = (tokens, ids, empty) if is_made_outside else (tokens, ids)
    for actual, desired in zip(jax.jit(compute)(*arrays), compute(tokens, ids), strict=True):
        np.testing.assert_allclose(actual, desired, atol=1e-6)
