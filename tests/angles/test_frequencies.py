"""Cosines and sines against many digits, and frequencies of models."""

import re
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from positional_embeddings import AbsolutePE, RoPE, compute_frequencies, inverse_frequencies
from positional_embeddings.angles import cos_sin as angles
from positional_embeddings.angles import cupy_kernel, pages
from positional_embeddings.angles.frequencies import geometric_frequencies
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.encodings.features import Sinusoids

LIMIT = 2**31


def cos_sin(positions, frequencies, dtype, factor=1.0):
    return angles.cos_sin(positions, frequencies, dtype, get_backend(positions=positions), factor)


def exact_angle(position, i, dim, base, scale=1.0):
    with mpmath.workdps(50):
        frequency = mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim)
        return mpmath.mpf(position) * frequency * mpmath.mpf(scale)


def error(value, exact):
    return abs(float(mpmath.mpf(float(value)) - exact))


@given(dim=st.integers(1, 40), base=st.floats(1.5, 1e6))
def test_inverse_frequencies_are_the_nearest_floats(dim, base):
    frequencies = inverse_frequencies(dim, base)
    assert frequencies.shape == ((dim + 1) // 2,)
    with mpmath.workdps(50):
        for i, frequency in enumerate(frequencies):
            assert float(frequency) == float(mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim))


def test_the_base_is_that_of_the_paper():
    assert inverse_frequencies(4).tolist() == [1.0, 0.01]
    assert compute_frequencies(4, 2).tolist() == [[0.0, 1.0], [0.0, 0.01]]


def test_frequencies_are_made_on_the_backend(backend):
    frequencies = inverse_frequencies(6, 100, xp=backend.xp, device=backend.device)
    assert frequencies.dtype == getattr(backend.xp, backend.wide)
    expected = [100 ** (-i / 3) for i in range(3)]
    np.testing.assert_allclose(backend.numpy(frequencies), expected, rtol=1e-6)
    narrow = compute_frequencies(
        5, 4, xp=backend.xp, dtype=backend.xp.float32, device=backend.device
    )
    assert narrow.dtype == backend.xp.float32
    expected = [[p * 10_000 ** (-2 * i / 5) for p in range(4)] for i in range(3)]
    np.testing.assert_allclose(backend.numpy(narrow), expected, rtol=1e-6)


@given(
    positions=st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4),
    real=st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=4),
)
def test_even_very_large_positions_are_exact_in_float64(positions, real):
    """Times in milliseconds, say: integers to 2**60, and reals that hold whole numbers."""
    for array in (np.asarray(positions), np.asarray(real, dtype="float64")):
        cos, sin = cos_sin(array, geometric_frequencies(6, 10_000, 7.5), np.float64)
        for i in range(3):
            for j, position in enumerate(array.tolist()):
                with mpmath.workdps(60):
                    exact = exact_angle(position, i, 6, 10_000, 7.5)
                    assert error(cos[i, j], mpmath.cos(exact)) < 2.5e-16
                    assert error(sin[i, j], mpmath.sin(exact)) < 2.5e-16


@given(
    positions=st.lists(st.integers(-LIMIT, LIMIT), min_size=1, max_size=8),
    dim=st.integers(1, 16).map(lambda n: 2 * n),
    base=st.sampled_from([10.0, 10_000.0, 500_000.0, 1e6]),
    scale=st.sampled_from([1.0, 0.25, 1 / 3, 1e6]),
)
def test_integer_positions_are_exact_in_float64(positions, dim, base, scale):
    cos, sin = cos_sin(np.asarray(positions), geometric_frequencies(dim, base, scale), np.float64)
    for i in range(dim // 2):
        for j, position in enumerate(positions):
            with mpmath.workdps(50):
                exact = exact_angle(position, i, dim, base, scale)
                assert error(cos[i, j], mpmath.cos(exact)) < 2.5e-16
                assert error(sin[i, j], mpmath.sin(exact)) < 2.5e-16


@given(positions=st.lists(st.integers(-LIMIT + 1, LIMIT - 1), min_size=3, max_size=3))
def test_integer_positions_on_every_device(backend, positions):
    array = backend.array(positions, "int64")
    dtype = getattr(backend.xp, backend.wide)
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 3.0e-8
    cos, sin = (backend.numpy(t) for t in cos_sin(array, geometric_frequencies(8, 10_000), dtype))
    for i in range(4):
        for j, position in enumerate(positions):
            with mpmath.workdps(50):
                exact = exact_angle(position, i, 8, 10_000)
                assert error(cos[i, j], mpmath.cos(exact)) < bound
                assert error(sin[i, j], mpmath.sin(exact)) < bound


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_integer_positions_of_every_width(backend, dtype):
    if dtype == "uint64" and not backend.has_int64:
        dtype = "uint32"
    positions = backend.array([0, 1, 100], dtype)
    cos, _ = cos_sin(positions, geometric_frequencies(4, 100), backend.xp.float32)
    expected = np.cos([[0, 1, 100], [0, 0.1, 10]])
    np.testing.assert_allclose(backend.numpy(cos), expected, atol=1e-6)


@given(positions=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8))
@example(positions=[2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1])
def test_positions_of_64_bits_without_a_sign(positions):
    cos, sin = cos_sin(np.asarray(positions, "uint64"), geometric_frequencies(8, 100), np.float64)
    for i in range(4):
        for j, position in enumerate(positions):
            with mpmath.workdps(60):
                exact = exact_angle(position, i, 8, 100)
                assert error(cos[i, j], mpmath.cos(exact)) < 2.5e-16
                assert error(sin[i, j], mpmath.sin(exact)) < 2.5e-16


def test_large_positions_without_a_sign_in_every_library(backend):
    bits = 64 if backend.has_int64 else 32
    positions = [1, 2 ** (bits // 2) + 1, 2 ** (bits - 1) + 5, 2**bits - 1]
    array = backend.array(np.asarray(positions, f"uint{bits}"))
    cos, _ = cos_sin(array, geometric_frequencies(4, 100), backend.xp.float32)
    expected = [[mpmath.cos(exact_angle(p, i, 4, 100)) for p in positions] for i in range(2)]
    np.testing.assert_allclose(backend.numpy(cos), np.asarray(expected, dtype=float), atol=1e-6)


@pytest.mark.parametrize(
    ("position", "base", "i"),
    [
        (-317.98895263671875, 10, 12),
        (-62.9958610534668, 10_000, 3),
        (-160.96925354003906, 10_000, 3),
    ],
)
def test_parts_of_negative_real_positions_add_up_exactly(backend, position, base, i):
    """They have many large parts, whose sum must not outgrow a float32's digits."""
    array = backend.array(np.asarray([position], dtype=np.float32))
    dtype = getattr(backend.xp, backend.wide)
    tables = cos_sin(array, geometric_frequencies(128, base, 2.0), dtype)
    cos, sin = (backend.numpy(table)[i, 0] for table in tables)
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 3.02e-8
    with mpmath.workdps(50):
        exact = exact_angle(mpmath.mpf(position), i, 128, base, 2.0)
        assert error(cos, mpmath.cos(exact)) < bound
        assert error(sin, mpmath.sin(exact)) < bound


def test_far_real_positions(backend):
    """The result is NaN for positions without exact limbs."""
    valid = [2.0**24 + 2, 1.25 * 2**34, -1.75 * 2**36, 2.0**50, 1.5 * 2**62, -(2.0**63)]
    invalid = [2.0**64, -1e30, float("inf"), -float("inf"), float("nan")]
    positions = backend.array(np.asarray(valid + invalid, dtype=np.float32))
    dtype = getattr(backend.xp, backend.wide)
    got = [backend.numpy(t) for t in cos_sin(positions, geometric_frequencies(8, 10_000), dtype)]
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 3.02e-8
    for j, position in enumerate(valid):
        for i in range(4):
            with mpmath.workdps(60):
                exact = exact_angle(mpmath.mpf(position), i, 8, 10_000)
                assert error(got[0][i, j], mpmath.cos(exact)) < bound
                assert error(got[1][i, j], mpmath.sin(exact)) < bound
    assert np.isnan(got[0][:, len(valid) :]).all()
    assert np.isnan(got[1][:, len(valid) :]).all()


@given(positions=st.lists(st.floats(-3000, 3000, width=32), min_size=3, max_size=3))
def test_real_positions_on_every_device(backend, positions):
    """float32 holds the given positions exactly, so that the angle's own error remains."""
    array = backend.array(positions, "float32")
    dtype = getattr(backend.xp, backend.wide)
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 3.02e-8
    cos, sin = (backend.numpy(t) for t in cos_sin(array, geometric_frequencies(8, 10_000), dtype))
    for i in range(4):
        for j, position in enumerate(positions):
            with mpmath.workdps(50):
                exact = exact_angle(position, i, 8, 10_000)
                assert error(cos[i, j], mpmath.cos(exact)) < bound
                assert error(sin[i, j], mpmath.sin(exact)) < bound


@given(
    positions=st.lists(st.floats(-3000, 3000, width=32), min_size=3, max_size=3),
    base=st.sampled_from([1e-3, 1e-9, 1e4]),
    scale=st.sampled_from([1.0, 1e3, 1e9]),
)
@example(positions=[-0.49142376, -1e-10, 0.95917356], base=1e-3, scale=1.0)
@example(positions=[-28.222513, 1e-20, 2010.6211], base=1e-9, scale=1e9)
def test_real_positions_at_high_frequencies(backend, positions, base, scale):
    """A part of a position is many cycles at a frequency above 1, and no less exact."""
    array = backend.array(np.asarray(positions, "float32"), "float32")
    dtype = getattr(backend.xp, backend.wide)
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 3.02e-8
    tables = cos_sin(array, geometric_frequencies(4, base, scale), dtype)
    cos, sin = (backend.numpy(table) for table in tables)
    for i in range(2):
        for j, position in enumerate(np.asarray(positions, "float32").tolist()):
            with mpmath.workdps(60):
                exact = exact_angle(position, i, 4, base, scale)
                assert error(cos[i, j], mpmath.cos(exact)) < bound
                assert error(sin[i, j], mpmath.sin(exact)) < bound


def test_real_positions_at_high_frequencies_in_float32():
    """Parts of a position are cut off until little of a cycle is left."""
    import array_api_strict as strict

    device = strict.Device("no_float64")
    positions = np.linspace(1, 2, 300, dtype="float32")
    array = strict.asarray(positions, dtype=strict.float32, device=device)
    for scale in (30.0, 100.0, 250.0):
        tables = cos_sin(array, geometric_frequencies(2, 10_000, scale), strict.float32)
        cpu = strict.Device("CPU_DEVICE")
        cos, sin = (np.asarray(table.to_device(cpu))[0] for table in tables)
        for j, position in enumerate(positions.tolist()):
            exact = exact_angle(position, 0, 2, 10_000, scale)
            assert error(cos[j], mpmath.cos(exact)) < 3.02e-8
            assert error(sin[j], mpmath.sin(exact)) < 3.02e-8


def test_many_small_parts_of_a_sum_are_not_small():
    """Here all of the parts below the finest grid have one sign."""
    count, position, frequencies = 512, LIMIT - 1, geometric_frequencies(8, 10_000)
    coordinates = [np.asarray([position])] * count
    array_backend = get_backend(x=coordinates[0])
    cos, sin = angles.cos_sin_of_sum(
        coordinates, [frequencies] * count, np.float64, array_backend, 1.0
    )
    for i in range(4):
        with mpmath.workdps(50):
            exact = exact_angle(count * position, i, 8, 10_000)
            assert error(cos[i, 0], mpmath.cos(exact)) < 2.5e-16
            assert error(sin[i, 0], mpmath.sin(exact)) < 2.5e-16


def test_what_is_rounded_off_an_angle():
    """Cosine and sine are put right by it: here they are 0 and 1, so that it alone remains."""
    xp = SimpleNamespace(cos=np.zeros_like, sin=np.ones_like)
    high = np.random.default_rng(0).uniform(-0.125, 0.125, 200)
    low = high * np.random.default_rng(1).uniform(-1e-12, 1e-12, 200)
    minus_residual, _ = angles._cos_sin_float64(high, low, xp)
    two_pi = Fraction(6283185307179586476925286766559005768394, 10**39)
    for residual, a, b in zip(-minus_residual, high, low, strict=True):
        exact = two_pi * (Fraction(a) + Fraction(b)) - Fraction(2 * np.pi * (a + b))
        assert abs(Fraction(residual) - exact) < Fraction(1, 2**78)


@pytest.mark.parametrize(
    ("kind", "bound", "limit"),
    [
        ("int64", "SUM_BLOCK_NUMBERS", 20 * 3),
        ("float64", "SUM_BLOCK_NUMBERS", 20 * 3),
        ("int64", "SUM_BLOCK_PRODUCTS", 20 * 3 * 2 * 3),
        ("float64", "SUM_BLOCK_PRODUCTS", 20 * 3 * 2 * 4),
    ],
)
@pytest.mark.parametrize(("by_quadrant", "largest"), [(False, 2e-15), (True, 5e-16)])
def test_sums_by_matrix_products_are_exact(kind, bound, limit, by_quadrant, largest, monkeypatch):
    """In blocks of few numbers, and of few products of frequencies, coordinates and limbs."""
    blocks = []
    monkeypatch.setattr(angles, bound, limit)
    monkeypatch.setattr(
        angles,
        "block_slices",
        lambda *size: blocks.extend(slices := pages.block_slices(*size)) or slices,
    )
    scales = (1.0, 30.0)
    frequencies = [geometric_frequencies(6, 50, scale) for scale in scales]
    coordinates = np.random.default_rng(0).uniform(-1e6, 1e6, (2, 40)).astype(kind)
    cos, sin = np.empty((2, 3, 40))
    angles.fill_cos_sin_of_sum(coordinates, frequencies, 2.0, cos, sin, by_quadrant=by_quadrant)
    for i in range(3):
        for j, point in enumerate(coordinates.T.tolist()):
            with mpmath.workdps(50):
                parts = zip(point, scales, strict=True)
                exact = mpmath.fsum(exact_angle(place, i, 6, 50, scale) for place, scale in parts)
                assert error(cos[i, j], 2 * mpmath.cos(exact)) < largest
                assert error(sin[i, j], 2 * mpmath.sin(exact)) < largest
    assert [block.stop - block.start for block in blocks] == [20, 20]


@pytest.mark.parametrize(("by_quadrant", "largest"), [(False, 1e-15), (True, 0)])
def test_sums_that_are_half_a_cycle(by_quadrant, largest):
    coordinates = np.asarray([[1, -1, 2, 3, 1], [0, 2, 0, 2, 1]])
    cos, sin = np.empty((2, 1, 5))
    frequencies = ["0.5", "0.25"]
    angles.fill_cos_sin_of_sum(coordinates, frequencies, 2.0, cos, sin, by_quadrant=by_quadrant)
    np.testing.assert_allclose(cos, [[-2, 2, 2, 2, 0]], rtol=0, atol=largest)
    np.testing.assert_allclose(sin, [[0, 0, 0, 0, -2]], rtol=0, atol=largest)


def test_frequencies_in_fixed_point():
    """Two parts of 32 bits and a remainder are a frequency without whole cycles."""
    frequencies = geometric_frequencies(8, 1e6, 700.0)
    upper, lower, remainders, rounded, errors = cupy_kernel._in_fixed_point(frequencies)
    for i, text in enumerate(frequencies.split()):
        cycles = Fraction(text)
        assert 0 <= upper[i] < 2**32
        assert 0 <= lower[i] < 2**32
        fixed = Fraction(upper[i]) / 2**32 + Fraction(lower[i]) / 2**64 + Fraction(remainders[i])
        apart = cycles - fixed
        assert abs(apart - round(apart)) < Fraction(1, 2**110)
        assert abs(Fraction(remainders[i])) <= Fraction(1, 2**65)
        assert abs(cycles - Fraction(rounded[i]) - Fraction(errors[i])) < Fraction(1, 2**98)


def test_float32_table_is_exact_at_long_positions():
    """Half a unit in the last place, where float32 angles are off by 1e-3 at 131,071."""
    rope = RoPE(8, 131_072, base=500_000)
    table = rope(np.concatenate([np.ones((4, 131_072)), np.zeros((4, 131_072))]).astype("float32"))
    worst = 0.0
    for position in (1, 4_097, 65_537, 131_071):
        for i in range(4):
            with mpmath.workdps(50):
                exact = exact_angle(position, i, 8, 500_000)
                worst = max(worst, error(table[i, position], mpmath.cos(exact)))
                worst = max(worst, error(table[i + 4, position], mpmath.sin(exact)))
    assert worst < 3e-8


@pytest.mark.parametrize("base", [10_000, 500_000])
def test_float64_table_is_exact_at_long_positions(base):
    rope = RoPE(128, 131_072, base=base)
    rng = np.random.default_rng(1)
    positions = np.append(rng.integers(0, 131_072, 200), [0, 255, 256, 131_071])
    for i in range(0, 64, 9):
        for position in positions.tolist():
            with mpmath.workdps(50):
                exact = exact_angle(position, i, 128, base)
                assert error(rope.cos[i, position], mpmath.cos(exact)) < 3.5e-16
                assert error(rope.sin[i, position], mpmath.sin(exact)) < 3.5e-16


def test_float32_positions_to_ten_million():
    rng = np.random.default_rng(0)
    positions = np.append(rng.integers(0, 10_000_000, 300), [1_048_575, 10_000_000])
    cos, sin = cos_sin(positions, geometric_frequencies(128, 10_000), np.float32)
    for i in range(0, 64, 7):
        for j, position in enumerate(positions.tolist()):
            with mpmath.workdps(50):
                exact = exact_angle(position, i, 128, 10_000)
                assert error(cos[i, j], mpmath.cos(exact)) < 3e-8
                assert error(sin[i, j], mpmath.sin(exact)) < 3e-8


def test_float64_where_there_is_none(backend):
    if backend.wide == "float64":
        assert (
            inverse_frequencies(
                4, xp=backend.xp, dtype=backend.xp.float64, device=backend.device
            ).dtype
            == backend.xp.float64
        )
        return
    message = "`dtype` must be a dtype that the device has, got float64."
    with pytest.raises(ValueError, match=message):
        inverse_frequencies(4, xp=backend.xp, dtype=backend.xp.float64, device=backend.device)


KERNEL_POSITIONS = [
    np.asarray([0, 1, -1, 2**31, -(2**31), 2**53 + 1, 3**37, -(2**63), 2**63 - 1]),
    np.asarray([-128, 127], dtype="int8"),
    np.asarray([2**31, 2**63, 2**63 + 5], dtype="uint64"),
    np.asarray([0.0, 0.5, -0.25, 1e-9, -12345.678, 1e6 + 1 / 3, 2.0**52 + 1, -(2.0**63)]),
    np.asarray([-1.5, 1000.1], dtype="float32"),
]


def assert_exact(cos, sin, positions, frequencies, scale=1.0):
    turns = [mpmath.mpf(digits) * 2 * mpmath.pi for digits in frequencies.split()]
    for i, turn in enumerate(turns):
        for j, position in enumerate(positions.tolist()):
            exact = mpmath.mpf(position) * turn
            assert error(cos[i, j], scale * mpmath.cos(exact)) < 2.5e-16 * scale
            assert error(sin[i, j], scale * mpmath.sin(exact)) < 2.5e-16 * scale


@pytest.mark.parametrize("positions", KERNEL_POSITIONS, ids=lambda p: p.dtype.name)
def test_one_kernel_is_as_exact_as_many_steps(backend, positions):
    if backend.name not in ("numpy", "cupy"):
        return
    for scale in (7.5, -1234.5):
        frequencies = geometric_frequencies(6, 10_000, scale)
        array = backend.array(positions)
        tables = cos_sin(array, frequencies, backend.xp.float64)
        with mpmath.workdps(60):
            assert_exact(*map(backend.numpy, tables), positions, frequencies)
            tables = cos_sin(array, frequencies, backend.xp.float64, 2.0)
            assert_exact(*map(backend.numpy, tables), positions, frequencies, 2.0)
    (far, nan) = cos_sin(backend.array([1e19, np.nan, -np.inf]), frequencies, backend.xp.float32)
    assert np.isnan(backend.numpy(far)).all()
    assert np.isnan(backend.numpy(nan)).all()


class KernelInPython:
    """Stands in for CuPy's class: what its kernels compute, by mpmath from their arguments."""

    def __init__(self, inputs, outputs, code, name, preamble, options):
        self.names = [declared.split()[1] for declared in inputs.split(",")]
        assert outputs == "T cosine, T sine"
        kind = "real" if "cycles" in self.names else "integer"
        assert name == f"positional_embeddings_cos_sin_of_{kind}"
        assert set(self.names[1:-1]) <= set(re.findall(r"\w+", code))
        assert "modulo_2_64" in preamble
        assert options == ("--fmad=false",)  # or what is rounded off would be added twice

    def __call__(self, *arguments):
        *inputs, cosine, sine = arguments
        assert inputs[0].dtype.name == ("float64" if "cycles" in self.names else "int64")
        for index in np.ndindex(cosine.shape):
            values = (np.broadcast_to(array, cosine.shape)[index].item() for array in inputs)
            arguments = dict(zip(self.names, values, strict=True))
            with mpmath.workdps(60):
                turns = mpmath.mpf(arguments["position"]) * self.frequency(arguments)
                cosine[index] = arguments["factor"] * mpmath.cos(2 * mpmath.pi * turns)
                sine[index] = arguments["factor"] * mpmath.sin(2 * mpmath.pi * turns)

    @staticmethod
    def frequency(arguments):
        if "cycles" in arguments:
            return mpmath.mpf(arguments["cycles"]) + arguments["cycles_rest"]
        bits = int(arguments["bits"]) * 2**32 + int(arguments["more_bits"])
        return mpmath.mpf(bits) / 2**64 + arguments["rest"]


@pytest.mark.parametrize("sections", [None, (1, 2, 1)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_kernels_get_parts_and_positions(monkeypatch, sections, last, kind):
    """With a stand-in for CuPy, whose own kernels the tests on that backend compare."""
    monkeypatch.setattr(np, "ElementwiseKernel", KernelInPython, raising=False)
    options = {"feature_axis": -1, "seq_axis": 0} if last else {}
    rope = RoPE(8, 100, sections=sections, fused=False, **options)
    x = np.random.default_rng(0).standard_normal((5, 3, 8) if last else (8, 5, 3))
    rows = x.shape[:-1] if last else x.shape[1:]
    positions = np.random.default_rng(1).integers(-9, 2**31, (3, *rows) if sections else rows)
    positions = positions.astype(kind)
    compute, order, array_backend = rope._tables._compute, "F" if last else "C", get_backend(x=x)
    plain = compute(positions, order, array_backend)
    monkeypatch.setattr(NumPyBackend, "has_cuda_kernels", True)
    try:
        for _ in range(2):  # the second time with what was kept
            for got, wanted in zip(compute(positions, order, array_backend), plain, strict=True):
                np.testing.assert_allclose(got, wanted, atol=3e-16)
                assert got.strides == wanted.strides
        if sections is None:
            got = cos_sin(positions, rope._tables.frequencies, np.float64)
            np.testing.assert_allclose(got[0], plain[0])
    finally:
        cupy_kernel.kernel_of.cache_clear()


def test_kernels_make_tables_that_are_arranged(monkeypatch):
    monkeypatch.setattr(np, "ElementwiseKernel", KernelInPython, raising=False)
    encode, x = AbsolutePE(6, 10), np.zeros((6, 4))
    features_last = AbsolutePE(6, 10, feature_axis=1, seq_axis=0)
    positions = np.asarray([0.5, 3.0, -2.25, 1e6])
    wanted = encode(x, positions=positions)
    monkeypatch.setattr(NumPyBackend, "has_cuda_kernels", True)
    try:
        np.testing.assert_allclose(encode(x, positions=positions), wanted, atol=3e-16)
        got = features_last(x.T.copy(), positions=positions)
        np.testing.assert_allclose(got, wanted.T, atol=3e-16)
    finally:
        cupy_kernel.kernel_of.cache_clear()


def test_kernels_have_the_parts_of_frequencies_of_their_stream(monkeypatch):
    monkeypatch.setattr(np, "ElementwiseKernel", KernelInPython, raising=False)
    monkeypatch.setattr(NumPyBackend, "has_cuda_kernels", True)
    rope, x = RoPE(8, 100), np.ones((8, 3))
    positions = np.asarray([0, 7, 2**31])
    angles = inverse_frequencies(8)[:, None] * positions.astype("longdouble")
    parts = []
    try:
        for stream in (0, 1, 0):
            monkeypatch.setattr(NumPyBackend, "cache_key", (np, "cpu", stream))
            cos, sin = rope._tables._compute(positions, "C", get_backend(x=x))
            np.testing.assert_allclose(cos, np.cos(angles).astype(float), atol=2e-7)
            np.testing.assert_allclose(sin, np.sin(angles).astype(float), atol=2e-7)
            parts.append(cupy_kernel.frequency_parts(rope._tables.frequencies, get_backend(x=x)))
    finally:
        cupy_kernel.kernel_of.cache_clear()
    assert parts[0] is parts[2] is not parts[1]


class SumKernelInPython:
    """Stands in for CuPy's class: what its kernel of sums computes, by mpmath."""

    def __init__(self, inputs, outputs, code, name, preamble, options):
        assert inputs == "raw P points, raw float64 parts, int64 count, int64 size, float64 factor"
        assert outputs == "T cosine, T sine"
        assert name == "positional_embeddings_cos_sin_of_sum"
        assert name.removeprefix("positional_embeddings_") in code
        assert "modulo_2_64" in preamble
        assert options == ("--fmad=false",)

    def __call__(self, points, parts, count, size, factor, cosine, sine):
        assert parts.shape == (*cosine.shape[:1], count, 5)
        for wave, index in np.ndindex(cosine.shape):
            upper, lower, remainder, *_ = (parts[wave, :, i].tolist() for i in range(5))
            with mpmath.workdps(60):
                cycles = [
                    (mpmath.mpf(int(u) * 2**32 + int(v)) / 2**64 + r)
                    * points.ravel()[index + i * size]
                    for i, (u, v, r) in enumerate(zip(upper, lower, remainder, strict=True))
                ]
                angle = 2 * mpmath.pi * mpmath.fsum(cycles)
                factors = np.broadcast_to(factor, cosine.shape)[wave, index]
                cosine[wave, index], sine[wave, index] = (
                    factors * mpmath.cos(angle),
                    factors * mpmath.sin(angle),
                )


@pytest.mark.parametrize("kind", ["int64", "float32"])
@pytest.mark.parametrize("factor", [0.5, (0.5, 2.0, 1.5)])
def test_the_kernel_of_sums_gets_parts_and_points(monkeypatch, kind, factor):
    """With a stand-in for CuPy; the tests of encodings on that backend compare its own kernel."""
    monkeypatch.setattr(np, "ElementwiseKernel", SumKernelInPython, raising=False)
    frequencies = tuple(geometric_frequencies(6, 50, scale) for scale in (1.0, 30.0))
    sinusoids = Sinusoids(frequencies, amplitude=factor)
    points = np.random.default_rng(0).integers(-9, 2**20, (2, 3, 4)).astype(kind)
    arguments = points, np.float64, get_backend(x=points)
    wanted = sinusoids.encode_chunk(*arguments)
    monkeypatch.setattr(NumPyBackend, "has_cuda_kernels", True)
    try:
        got = sinusoids.encode_chunk(*arguments)
        assert got.shape == (6, 3, 4)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-15)
    finally:
        cupy_kernel.sum_kernel_of.cache_clear()
