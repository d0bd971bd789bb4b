import copy
import math
import pickle
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import peak_memory
from positional_embeddings import (
    ALiBiBias,
    FIREBias,
    KERPLEBias,
    RelativePE,
    SandwichBias,
    T5Bias,
    alibi_bias,
    alibi_slopes,
    create_causal_mask,
    relative_position_bucket,
    relative_positions,
    scaled_dot_product_attention,
)
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.biases.t5 import bucket_limits
from positional_embeddings.masks.index_ranges import index_ranges

KINDS = ("alibi", "alibi symmetric", "kerple", "kerple power", "fire", "sandwich", "t5", "shaw")
PARAMETERS = np.random.default_rng(0).uniform(0.5, 1.5, (8, 3))
NETWORK = np.random.default_rng(1).standard_normal((4, 5))
TABLE = np.random.default_rng(2).standard_normal((32, 3))
CLIPPED = np.random.default_rng(3).standard_normal((9, 3))


def bias_of(kind, backend, *lengths, **positions):
    """Return a bias of one kind for three heads, in a library."""
    xp, device, dtype = backend.xp, backend.device, getattr(backend.xp, backend.wide)
    options = {} if "query_positions" in positions else {"xp": xp, "device": device}
    r1, r2 = backend.array(PARAMETERS[0]), backend.array(PARAMETERS[1])
    w1, b1, w2 = (backend.array(a) for a in (NETWORK[0], NETWORK[1], PARAMETERS[:5].T))
    b2 = backend.array(PARAMETERS[7])
    makers = {
        "alibi": lambda: alibi_bias(3, *lengths, dtype=dtype, **options, **positions),
        "alibi symmetric": lambda: alibi_bias(
            3, *lengths, causal=False, dtype=dtype, **options, **positions
        ),
        "kerple": lambda: KERPLEBias(r1, r2)(*lengths, **positions),
        "kerple power": lambda: KERPLEBias(r1, r2, "power")(*lengths, **positions),
        "fire": lambda: FIREBias(w1, b1, w2, b2, c=0.3, threshold=4.0)(*lengths, **positions),
        "sandwich": lambda: SandwichBias(3, dim=6)(*lengths, dtype=dtype, **options, **positions),
        "t5": lambda: T5Bias(3, embeddings=backend.array(TABLE))(*lengths, **positions),
        "shaw": lambda: RelativePE(4, 3, embeddings=backend.array(CLIPPED))(*lengths, **positions),
    }
    return makers[kind]()


def fire(d, i, h):
    ratio = math.log(0.3 * d + 1) / math.log(0.3 * max(4.0, i) + 1)
    hidden = [max(0.0, w * ratio + b) for w, b in zip(NETWORK[0], NETWORK[1], strict=True)]
    return sum(PARAMETERS[n, h] * value for n, value in enumerate(hidden)) + PARAMETERS[7, h]


def sandwich(d, h):
    return sum(math.cos(d / 10_000 ** (2 * n / 6)) for n in range(3)) * 3 / (8 * (h + 1))


def expected_bias(kind, i, j, h):
    """Evaluate the formula of a paper, for the query at i, the key at j and head h of three."""
    d = abs(i - j)
    slope = (2**-4, 2**-8, 2**-2)[h]  # two heads, and the first of four
    r1, r2 = PARAMETERS[0, h], PARAMETERS[1, h]
    return {
        "alibi": lambda: slope * (j - i),
        "alibi symmetric": lambda: -slope * d,
        "kerple": lambda: -r1 * math.log(1 + r2 * d),
        "kerple power": lambda: -r1 * d**r2,
        "fire": lambda: fire(d, i, h),
        "sandwich": lambda: sandwich(d, h),
        "t5": lambda: TABLE[bucket_by_fractions(j - i, bidirectional=True), h],
        "shaw": lambda: CLIPPED[max(-4, min(4, j - i)) + 4, h],
    }[kind]()


def bucket_by_fractions(relative, *, bidirectional, num_buckets=32, max_distance=128):
    """Evaluate the rule of the paper with powers of exact fractions, without a logarithm."""
    bucket = 0
    if bidirectional:
        num_buckets //= 2
        bucket = num_buckets if relative > 0 else 0
        distance = abs(relative)
    else:
        distance = max(-relative, 0)
    exact = num_buckets // 2
    if distance < exact:
        return bucket + distance
    logarithmic = num_buckets - exact
    steps = 0
    while steps < logarithmic - 1 and (
        Fraction(distance, exact) ** logarithmic >= Fraction(max_distance, exact) ** (steps + 1)
    ):
        steps += 1
    return bucket + exact + steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("lengths", "offset"), [((5,), None), ((2, 6), None), ((3, 4), 7)])
def test_biases_are_the_papers(backend, kind, lengths, offset):
    q_len, k_len = lengths[0], lengths[-1]
    start = k_len - q_len if offset is None else offset
    got = backend.numpy(bias_of(kind, backend, *lengths, offset=offset))
    assert got.dtype == backend.wide
    expected = [
        [[expected_bias(kind, i + start, j, h) for h in range(3)] for j in range(k_len)]
        for i in range(q_len)
    ]
    np.testing.assert_allclose(got, expected, atol=10 * backend.tolerance())


@pytest.mark.parametrize("kind", KINDS)
def test_biases_of_given_positions(backend, kind):
    """For cached keys, packed sequences and left padding."""
    query, key = np.asarray([[4, 9], [5, 0]]), np.asarray([[0, 9], [1, 8], [5, 0]])
    got = bias_of(
        kind, backend, query_positions=backend.array(query), key_positions=backend.array(key)
    )
    expected = np.zeros((2, 3, 3, 2))
    for a, b, h, n in np.ndindex(expected.shape):
        expected[a, b, h, n] = expected_bias(kind, int(query[a, n]), int(key[b, n]), h)
    np.testing.assert_allclose(backend.numpy(got), expected, atol=10 * backend.tolerance())
    shared = bias_of(kind, backend, query_positions=backend.array(query[:, 0]))
    expected = np.zeros((2, 2, 3))
    for a, b, h in np.ndindex(expected.shape):
        expected[a, b, h] = expected_bias(kind, int(query[a, 0]), int(query[b, 0]), h)
    np.testing.assert_allclose(backend.numpy(shared), expected, atol=10 * backend.tolerance())


@pytest.mark.parametrize("kind", KINDS)
def test_biases_go_into_attention_in_both_layouts(backend, kind):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 3)) for n in (2, 5, 5))
    bias = bias_of(kind, backend, 2, 5)
    mask = create_causal_mask(2, k_len=5, xp=backend.xp, device=backend.device)
    first = scaled_dot_product_attention(
        *(backend.array(a) for a in (q, k, v)), bias=bias, mask=mask
    )
    permute = backend.xp.permute_dims
    last = scaled_dot_product_attention(
        *(backend.array(a.transpose(2, 1, 0)) for a in (q, k, v)),
        bias=permute(bias, (2, 0, 1)),
        mask=mask[..., 0],
        feature_axis=-1,
        seq_axis=-2,
    )
    scores = np.einsum("dqh,dkh->qkh", q, k) / math.sqrt(2) + backend.numpy(bias)
    scores = np.where(backend.numpy(mask), -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    expected = np.einsum("qkh,dkh->dqh", weights, v)
    tolerance = 10 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(first), expected, atol=tolerance)
    np.testing.assert_allclose(backend.numpy(last).transpose(2, 1, 0), expected, atol=tolerance)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int32"])
def test_relative_positions(backend, dtype):
    query, key = [3, 0], [0, 5, 3]
    got = relative_positions(backend.array(query, dtype), backend.array(key, dtype))
    np.testing.assert_array_equal(backend.numpy(got), np.subtract.outer(key, query).T)
    real = relative_positions(backend.array([0.5]), backend.array([2.0, -1.0]))
    np.testing.assert_array_equal(backend.numpy(real), [[1.5, -1.5]])


def test_real_positions_have_biases_too(backend):
    positions = {"query_positions": backend.array([0.5, 2.25])}
    got = backend.numpy(bias_of("alibi symmetric", backend, **positions))
    np.testing.assert_allclose(got[0, 1], [-1.75 * s for s in (2**-4, 2**-8, 2**-2)], rtol=1e-6)


@pytest.mark.needs("searchsorted")
@given(
    positions=st.lists(st.integers(-300, 300), min_size=1, max_size=20),
    bidirectional=st.booleans(),
    num_buckets=st.sampled_from([4, 8, 32, 64]),
    max_distance=st.sampled_from([33, 128, 200]),
)
def test_buckets_are_exact(backend, positions, bidirectional, num_buckets, max_distance):
    options = {
        "bidirectional": bidirectional,
        "num_buckets": num_buckets,
        "max_distance": max_distance,
    }
    got = backend.numpy(relative_position_bucket(backend.array(positions), **options))
    np.testing.assert_array_equal(got, [bucket_by_fractions(p, **options) for p in positions])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("start", [0, 6, 2**23 - 3, -(2**25) - 1])
@pytest.mark.parametrize("queries", [((0, 1),), ((0, 3),), ((1, 2), (4, 6))])
def test_alibi_between_ranges_is_that_between_positions(backend, queries, start, causal):
    """To the bit, also at positions that are not exact in float32."""
    xp, bias = backend.xp, ALiBiBias(3, causal=causal)
    queries = tuple((first + start, last + start) for first, last in queries)
    keys = (0, 5), (7, 9)
    positions = [
        backend.array(np.concatenate([np.arange(*pair) for pair in ranges]))
        for ranges in (queries, keys)
    ]
    array_backend = get_backend(positions=positions[0]).with_dtype(xp.float32)
    got = bias._block(index_ranges(*queries), index_ranges(*keys), array_backend)
    assert got.dtype == xp.float32
    expected = bias(query_positions=positions[0], key_positions=positions[1], dtype=xp.float32)
    np.testing.assert_array_equal(backend.numpy(got), backend.numpy(expected))


def test_a_bias_times_a_number(backend):
    table = backend.array(TABLE)
    biases = ALiBiBias(3), T5Bias(3, embeddings=table), KERPLEBias(table[0, :], table[1, :] ** 2)
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 5, 3))
    for bias in biases:
        scaled, options = -0.5 * bias, {} if bias._arrays() else {"xp": backend.xp}
        assert scaled == bias * -0.5 != bias
        assert hash(scaled) == hash(bias * -0.5)
        assert repr(scaled) == f"-0.5 * {bias!r}"
        if options:
            options["device"] = backend.device
        for arguments in (
            {"q_len": 5, **options},
            {"query_positions": backend.array(np.arange(5))},
        ):
            expected = -0.5 * backend.numpy(bias(**arguments))
            np.testing.assert_allclose(backend.numpy(scaled(**arguments)), expected, rtol=1e-6)
        got = scaled_dot_product_attention(*map(backend.array, (q, k, v)), bias=scaled)
        desired = scaled_dot_product_attention(q, k, v, bias=expected)
        np.testing.assert_allclose(backend.numpy(got), desired, atol=backend.tolerance("float32"))
    copied = pickle.loads(pickle.dumps(0.5 * ALiBiBias(3)))
    assert copied == 0.5 * ALiBiBias(3)


def test_alibi_of_given_slopes(backend):
    options = {"xp": backend.xp, "device": backend.device}
    for slopes in ([0.5, -2.0], (0.5, -2), np.asarray([0.5, -2.0])):
        bias = ALiBiBias(slopes=slopes, causal=False)
        assert bias == ALiBiBias(2, causal=False, slopes=(0.5, -2.0))
        expected = [[[-s * abs(j - i) for s in (0.5, -2.0)] for j in range(3)] for i in range(3)]
        np.testing.assert_array_equal(backend.numpy(bias(3, **options)), expected)
    default = ALiBiBias(slopes=alibi_slopes(6))
    np.testing.assert_array_equal(backend.numpy(default(4, **options)), ALiBiBias(6)(4))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 8, 12, 16, 20, 25])
def test_alibi_slopes_of_any_number_of_heads(backend, n):
    def of_power(power):
        return [2 ** (-8 * (h + 1) / power) for h in range(power)]

    lower = 2 ** int(math.log2(n))
    expected = of_power(lower) + of_power(2 * lower)[0::2][: n - lower]
    got = alibi_slopes(n, xp=backend.xp, device=backend.device)
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=1e-6)


def test_fire_takes_learned_numbers(backend):
    ones = backend.array(np.ones(2))
    weight, bias = backend.array(np.ones((3, 2))), backend.array(np.zeros(3))
    network = partial(FIREBias, ones, ones, weight, bias)
    plain = network(c=0.5, threshold=2)(4)
    learned = network(c=backend.array(0.5), threshold=backend.array(2.0))(4)
    np.testing.assert_allclose(backend.numpy(learned), backend.numpy(plain), rtol=1e-6)


@pytest.mark.parametrize("layer", [RelativePE(3, 4, rng=1), T5Bias(4, bidirectional=False, rng=1)])
def test_layers_are_values(layer):
    for duplicate in (eval(repr(layer)), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert duplicate == layer
        np.testing.assert_array_equal(duplicate(3, 5), layer(3, 5))
    assert np.std(RelativePE(500, 40, init_std=0.3, rng=0).embeddings) == pytest.approx(
        0.3, rel=0.02
    )
    assert T5Bias(4, rng=1) != T5Bias(4, rng=2)


def test_shaw_clips_at_any_length():
    layer = RelativePE(2, 3, rng=0)
    got = layer(1, 100)[0]
    np.testing.assert_array_equal(got[:98], np.broadcast_to(layer.embeddings[0], (98, 3)))
    np.testing.assert_array_equal(got[98:], layer.embeddings[1:3])


def test_shaws_attention_is_two_products():
    """Equation 4: the vectors are multiplied with the queries and added to the scores."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 5, 2))
    vectors = RelativePE(2, 4, rng=0, dtype=np.float64, init_std=1.0)(5)
    bias = np.einsum("fib,ijf->ijb", q, vectors) / math.sqrt(4)
    got = scaled_dot_product_attention(q, k, v, bias=bias)
    for b in range(2):
        for i in range(5):
            scores = [
                sum(q[f, i, b] * (k[f, j, b] + vectors[i, j, f]) for f in range(4)) / 2
                for j in range(5)
            ]
            weights = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(got[:, i, b], v[:, :, b] @ weights, atol=1e-12)


def test_half_precision_is_computed_in_float32(backend):
    far = {"query_positions": backend.array([70_000]), "key_positions": backend.array([0, 69_000])}
    for dtype in backend.half_dtypes:
        ones = backend.array(np.ones(1), dtype)
        weight = backend.array(np.ones((1, 1)), dtype)
        results = (
            (KERPLEBias(ones, ones)(**far), [-np.log1p(70_000), -np.log1p(1_000)]),
            (
                FIREBias(ones, 0 * ones, weight, 0 * ones, c=0.1, threshold=16.0)(**far),
                [1.0, np.log1p(100) / np.log1p(7_000)],
            ),
            (alibi_bias(8, dtype=dtype, **far)[..., 2:3], [-8750.0, -125.0]),
        )
        for got, expected in results:
            assert got.dtype == dtype
            numbers = backend.numpy(got).astype("float64").ravel()
            np.testing.assert_allclose(numbers, expected, rtol=2**-7)


def test_positions_of_half_precision_are_subtracted_in_float32(backend):
    for dtype in backend.half_dtypes:
        got = relative_positions(backend.array([200], dtype), backend.array([199, 200, 201]))
        np.testing.assert_array_equal(backend.numpy(got), [[-1, 0, 1]])


def test_the_lowest_integer_has_a_bucket(backend):
    lowest = np.iinfo("int32").min
    got = relative_position_bucket(backend.array([lowest, -lowest - 1], "int32"))
    np.testing.assert_array_equal(backend.numpy(got), [15, 31])


@pytest.mark.needs("searchsorted")
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    "max_distance", [128, 10**6, 2**31, 2**63 - 1, 2**63, 2**63 + 1, 2**63 + 2, 10**30]
)
def test_buckets_of_any_reach(backend, bidirectional, max_distance):
    """From the smallest to the largest integers, in small and large arrays."""
    max_integer = 2**63 - 1 if backend.has_int64 else 2**31 - 1
    options = {"bidirectional": bidirectional, "num_buckets": 32, "max_distance": max_distance}
    positions = [0, 1, 7, 8, 9, 15, 16, 100, 127, 128, 10**5, max_integer - 1, max_integer]
    positions = [*positions, *(-p for p in positions), -max_integer - 1]
    expected = [bucket_by_fractions(p, **options) for p in positions]
    for repeats in (1, 40):
        array = backend.array(np.tile(positions, (repeats, 1)))
        got = backend.numpy(relative_position_bucket(array, **options))
        np.testing.assert_array_equal(got, np.tile(expected, (repeats, 1)))
        swapped = backend.xp.permute_dims(array, (1, 0))
        got = backend.numpy(relative_position_bucket(swapped, **options))
        np.testing.assert_array_equal(got, np.tile(expected, (repeats, 1)).T)
    consecutive = backend.array(np.subtract.outer(np.arange(3, 90), np.arange(100, 120)).T)
    for nearly in (consecutive, backend.xp.where(consecutive == -30, 5, consecutive)):
        got = backend.numpy(relative_position_bucket(nearly, **options))
        flat = backend.numpy(nearly).ravel().tolist()
        assert got.ravel().tolist() == [bucket_by_fractions(p, **options) for p in flat]
    single = backend.numpy(relative_position_bucket(backend.array(-9), **options))
    assert single.shape == ()
    assert single == bucket_by_fractions(-9, **options)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (4, 5), (300, 400)])
def test_results_may_be_written_to(shape):
    distances = np.arange(shape[1]) - np.arange(shape[0])[:, None]
    results = relative_position_bucket(distances), T5Bias(2, rng=0)(*shape), ALiBiBias(2)(*shape)
    for result in results:
        assert result.flags.c_contiguous
        before = result.copy()
        result[-1, -1] = 7
        assert np.count_nonzero(np.any(np.atleast_3d(result != before), axis=-1)) == 1


@pytest.mark.parametrize("num_buckets", [2, 3, 31, 512, 1024])
def test_buckets_of_any_number(num_buckets):
    options = {"num_buckets": num_buckets, "max_distance": 10**6, "bidirectional": False}
    starts, before, last, _ = bucket_limits(num_buckets, 10**6, False, 2**63 - 1)
    assert len(starts) == before == num_buckets - 1
    limits = [1 - start for start in reversed(starts)]
    assert limits[-1] == last
    chosen = {*limits[:3], *limits[:: num_buckets // 7 + 1], limits[-1]}
    for limit in sorted(chosen):
        got = relative_position_bucket(np.asarray([1 - limit, -limit]), **options)
        expected = [bucket_by_fractions(p, **options) for p in (1 - limit, -limit)]
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("limit", range(2**63 - 3, 2**63 + 4))
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_bucket_that_begins_at_the_farthest_integers(bidirectional, limit):
    """The limit is the smallest d with (d / 2) ** 2 >= max_distance / 2."""
    options = {
        "bidirectional": bidirectional,
        "num_buckets": 4 * (1 + bidirectional),
        "max_distance": limit**2 // 2,
    }
    positions = [-(2**63), 1 - 2**63, 2 - 2**63, 2**63 - 3, 2**63 - 2, 2**63 - 1]
    expected = [
        2 + (-p >= limit) if p < 0 else bidirectional * (6 + (p >= limit)) for p in positions
    ]
    np.testing.assert_array_equal(
        relative_position_bucket(np.asarray(positions), **options), expected
    )


@pytest.mark.parametrize("max_distance", [10**15, 10**18, 2**63 - 1])
def test_limits_of_far_buckets_are_exact(max_distance):
    """Each limit is the smallest distance that satisfies the rule."""
    starts, before, *_ = bucket_limits(32, max_distance, False, 2**63 - 1)
    assert before == 31
    limits = [1 - start for start in reversed(starts)]
    assert limits[:16] == list(range(1, 17))
    for step, limit in enumerate(limits[16:], start=1):
        power = 16 ** (16 - step) * max_distance**step
        assert limit**16 >= power > (limit - 1) ** 16


def test_buckets_of_any_shape():
    """Almost consecutive positions, more axes, and no elements."""
    consecutive = np.arange(20) - np.arange(90)[:, None]
    for index in ((89, 3), (40, 0), (0, 19), (64, 7)):
        nearly = consecutive.copy()
        nearly[index] = 5
        expected = [bucket_by_fractions(p, bidirectional=True) for p in nearly.ravel().tolist()]
        assert relative_position_bucket(nearly).ravel().tolist() == expected
        stacked = relative_position_bucket(np.stack([nearly, nearly]))
        assert stacked.ravel().tolist() == expected * 2
    for shape in ((0, 5), (5, 0), (0,), (2, 0, 3)):
        empty = relative_position_bucket(np.zeros(shape, dtype=int))
        assert (empty.shape, empty.dtype) == (shape, np.dtype(int))
    last = relative_position_bucket(
        np.asarray([-1]), num_buckets=2, max_distance=2**128, bidirectional=False
    )
    assert last.tolist() == [1]


def test_consecutive_positions_take_little_memory():
    """Each distance is looked up once, and the bias of consecutive positions is a view."""
    relative = np.arange(500) - np.arange(400)[:, None]
    relative_position_bucket(relative)
    assert peak_memory(lambda: relative_position_bucket(relative)) < 1.8 * relative.nbytes
    shuffled = np.random.default_rng(0).permuted(relative, axis=1)
    peak = peak_memory(lambda: relative_position_bucket(shuffled))
    assert peak < 3.5 * shuffled.nbytes
    array_backend, bias = get_backend(relative=relative).with_dtype(np.float64), ALiBiBias(4)
    queries, keys = index_ranges((3, 403)), index_ranges((0, 500))
    assert peak_memory(lambda: bias._block(queries, keys, array_backend)) < relative.nbytes
    view = bias._block(queries, keys, array_backend)
    assert view.shape == (400, 500, 4)
    assert not view.flags.writeable
    assert view[0, 5, 0] == 2 * 0.25


def test_far_queries_have_the_bias_of_their_distance():
    """Distances that are not exact in float32 are rounded once."""
    for offset in (2**25 + 1, 2**24 - 1, -(2**25) - 1):
        got = alibi_bias(2, 4, 5, offset=offset, dtype=np.float32)
        for i, j in np.ndindex(4, 5):
            distance = np.float32(j - i - offset)
            np.testing.assert_array_equal(got[i, j], distance * np.float32([2**-4, 2**-8]))


def test_attention_names_the_heads_of_a_bias():
    x, ones = np.ones((4, 3, 2, 1)), np.ones(3)
    network = FIREBias(ones, ones, np.ones((5, 3)), np.ones(5), c=1, threshold=1)
    for bias in (network, ALiBiBias(5)):
        with pytest.raises(ValueError, match="5") as error:
            scaled_dot_product_attention(x, x, x, bias=bias, feature_axis=0, seq_axis=1)
        assert "`bias`" in str(error.value)


@pytest.mark.parametrize("kind", ["alibi", "fire", "shaw"])
def test_heads_of_a_bias_split_an_axis_of_heads_and_batch(kind):
    ones = np.ones(2)
    bias = {
        "alibi": ALiBiBias(3),
        "fire": FIREBias(ones, ones, PARAMETERS[:2].T, PARAMETERS[2], c=1, threshold=1),
        "shaw": RelativePE(4, 3, embeddings=CLIPPED),
    }[kind]
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 5, 3, 2))
    axes = {"feature_axis": 0, "seq_axis": 1}
    expected = scaled_dot_product_attention(q, k, v, bias=bias(5)[..., None], **axes)
    together = scaled_dot_product_attention(*(x.reshape(4, 5, 6) for x in (q, k, v)), bias=bias)
    np.testing.assert_allclose(together, expected.reshape(4, 5, 6), atol=1e-14)


@pytest.mark.needs("searchsorted")
@pytest.mark.parametrize("max_distance", [128, 10**6])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_looks_up_the_few_distances(backend, bidirectional, max_distance):
    options = {"bidirectional": bidirectional, "max_distance": max_distance}
    layer = T5Bias(3, embeddings=backend.array(TABLE), **options)
    for lengths in ((2, 3), (20, 30)):
        got = backend.numpy(layer(*lengths))
        start = lengths[1] - lengths[0]
        for i, j in np.ndindex(lengths):
            bucket = bucket_by_fractions(j - i - start, **options)
            np.testing.assert_array_equal(got[i, j], TABLE[bucket].astype(got.dtype))


def test_half_precision_tables_of_t5(backend):
    for dtype in backend.half_dtypes:
        bias = T5Bias(3, embeddings=backend.array(TABLE, dtype))(20, 30)
        assert bias.dtype == dtype
        got = backend.numpy(bias).astype("float64")
        expected = backend.numpy(backend.array(TABLE, dtype)).astype("float64")
        for i, j in np.ndindex(20, 30):
            bucket = bucket_by_fractions(j - i - 10, bidirectional=True)
            np.testing.assert_array_equal(got[i, j], expected[bucket])


def test_many_buckets_take_no_more_than_few():
    """Distances are looked up, not compared with all limits, and limits are cached."""
    positions = np.arange(300)
    relative = positions - positions[:, None]
    for num_buckets in (32, 512):
        call = partial(relative_position_bucket, relative, num_buckets=num_buckets)
        call(max_distance=129)
        assert peak_memory(lambda call=call: call(max_distance=129)) < 4 * relative.nbytes
    limits = [bucket_limits(512, 129, True, 2**63 - 1) for _ in range(2)]
    assert limits[0] is limits[1]


@pytest.mark.library("dask")
def test_dask_keeps_the_chunks_of_relative_positions():
    import dask.array as da

    relative = da.ones((40, 60), dtype="int64", chunks=(20, 15))
    assert relative_position_bucket(relative).chunks == relative.chunks


def test_parameters_set_the_dtype_of_a_bias():
    single, double = np.ones(2, dtype="float32"), np.ones(2)
    assert KERPLEBias(single, double)(3).dtype == np.float32
    network = (single, single, np.ones((2, 2), dtype="float32"), single)
    bias = FIREBias(*network, c=np.asarray(0.1), threshold=np.float64(2))
    assert bias(3).dtype == np.float32


def test_far_positions_have_exact_distances_or_are_refused(backend):
    far = 2**61 - 1 if backend.has_int64 else 2**29 - 1
    edges = [-far, -1, 0, far]
    relative = backend.numpy(relative_positions(backend.array(edges), backend.array(edges)))
    assert relative.tolist() == [[k - q for k in edges] for q in edges]
    near = backend.array([5])
    if not (backend.reads_values and get_backend(near=near).is_on_host(near)):
        return
    unsigned = "uint64" if backend.has_int64 else "uint32"
    max_value = 2 ** (64 if backend.has_int64 else 32) - 1
    beyond = [np.asarray([5, far + 1]), np.asarray([-far - 1, 5])]
    if hasattr(backend.xp, unsigned):
        beyond.append(np.asarray([5, max_value], dtype=unsigned))
    requirement = f"_positions` must hold positions within {far}, so that int"
    for positions in map(backend.array, beyond):
        for q, k in ((positions, near), (near, positions)):
            with pytest.raises(ValueError, match=requirement):
                relative_positions(q, k)
            for kind in KINDS:
                with pytest.raises(ValueError, match=requirement):
                    bias_of(kind, backend, query_positions=q, key_positions=k)


def test_half_precision_hides_no_far_key():
    ones = np.ones((1, 1, 1, 8), dtype=np.float16)
    p, r = np.ones(1, dtype=np.float16), np.full(1, 2, dtype=np.float16)
    options = {"positions": np.asarray([300]), "key_positions": np.asarray([0])}
    options |= {"feature_axis": -1, "seq_axis": -2}
    far = scaled_dot_product_attention(ones, ones, ones, bias=KERPLEBias(p, r, "power"), **options)
    np.testing.assert_array_equal(far, ones)  # the only key, 300 positions away
