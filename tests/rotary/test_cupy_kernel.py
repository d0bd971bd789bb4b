"""CuPy's kernels equal plain code to the bit; without CuPy, by stand-ins."""

import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from array_api_compat import array_namespace
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided

from backends import missing
from positional_embeddings import RoPE, YaRNScaling, apply_rope
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.rotary.kernels import cupy_kernel
from positional_embeddings.rotary.rotate import (
    RotationPlan,
    compiled_kernel_for,
    rotate,
)

DTYPES = ["float16", "bfloat16", "float32", "float64"]
NUMBERS = np.random.default_rng(0).standard_normal(2**12)


class Array(np.ndarray):
    """NumPy array with the attributes of CuPy arrays that the kernels need."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self):
        return nullcontext()


class ElementwiseKernel:
    """Stand-in of CuPy's class: an elementwise operation on arrays that broadcast."""

    def __init__(self, inputs, outputs, operation, name, preamble, options):
        assert [part.split()[0] for part in inputs.split(", ")] == ["T", "T", "C", "C"]
        assert [part.split()[0] for part in outputs.split(", ")] == ["T", "T"]
        names = [part.split()[1] for part in (*inputs.split(", "), *outputs.split(", "))]
        assert operation == f"rotate_pair({', '.join(names)})"
        assert "a * cos - b * sin" in preamble
        assert "b * cos + a * sin" in preamble
        assert name.isidentifier()
        assert options == ("--fmad=false",)

    def __call__(self, first, second, cos, sin, rotated_first, rotated_second):
        a, b = first.astype(cos.dtype), second.astype(cos.dtype)
        rotated_first[...], rotated_second[...] = a * cos - b * sin, b * cos + a * sin


class RawKernel:
    """Stand-in of CuPy's class for one source, with views of NumPy for its struct."""

    def __init__(self, source, name, options):
        assert f"void {name}(" in source
        assert options == ("--fmad=false",)
        constants = dict(re.findall(r"^#define (\w+) (.+)$", source, re.MULTILINE))
        self.side_by_side, self.angle_step = (
            int(constants[name]) for name in ("SIDE_BY_SIDE", "ANGLE_STEP")
        )
        self.alignment, self.sign = int(constants["ANGLE_ALIGNMENT"]), int(constants["SIGN"])
        self.index = {"int": "int32", "long long": "int64"}[constants["INDEX"]]

    def __call__(self, grid, block, arguments):
        *arrays, traversal = arguments
        *axes, parts, x_second, out_second = traversal.view(self.index).tolist()
        lengths, *steps = np.reshape(axes, (4, 5)).T
        self.check_launch(lengths, parts, grid, block)
        numbers = 16 // arrays[0].itemsize
        pairs = numbers // 2 if self.side_by_side else numbers

        def vectors(array, own, second, count, step):
            """Return pairs, or a table if `second` is None, with the axes of the kernel."""
            shape, strides = (*lengths, count), np.asarray((*own, step)) * array.itemsize
            if second is not None:
                shape, strides = (2, *shape), (second * array.itemsize, *strides)
            return as_strided(array, shape, strides)

        x, out, cos, sin = arrays
        apart = 1 + self.side_by_side
        first, second = vectors(x, steps[0], x_second, pairs, apart)
        to = vectors(out, steps[1], out_second, pairs, apart)
        c = vectors(cos, steps[2], None, pairs, self.angle_step)
        s = self.sign * vectors(sin, steps[3], None, pairs, self.angle_step)
        for table, of_axes in ((cos, steps[2]), (sin, steps[3])):
            starts = [table.ctypes.data, *(of_axes * table.itemsize)]
            assert not any(start % self.alignment for start in starts)
        a, b = first.astype(c.dtype), second.astype(c.dtype)
        to[0], to[1] = a * c - b * s, b * c + a * s

    @staticmethod
    def check_launch(lengths, parts, grid, block):
        """The threads cover all elements: x and y of a block directly, z by loops."""
        vectors, rows, groups, repeats = lengths
        assert np.prod(block) <= 256
        assert block[2] <= 64
        assert max(grid[1:]) <= 65535
        assert parts * block[0] >= vectors
        assert grid[0] // parts * block[1] >= rows
        assert grid[0] % parts == 0
        assert (grid[1] - 1) * block[2] < groups
        assert grid[2] <= repeats


class Library(NamedTuple):
    """CuPy, or NumPy with arrays for the stand-ins."""

    xp: Any
    array: Callable[[np.ndarray], Any]


@pytest.fixture
def library(monkeypatch):
    if missing("cupy") is None:
        import cupy

        yield Library(array_namespace(cupy.empty(0)), cupy.asarray)
        return
    kernels = {"ElementwiseKernel": ElementwiseKernel, "RawKernel": RawKernel}
    # `find_spec` then reports CuPy as installed.
    stand_in = SimpleNamespace(__spec__=ModuleSpec("cupy", None), **kernels)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.setattr(NumPyBackend, "rotation_kernel", "cupy")
    rotate_cupy = cupy_kernel.rotate_cupy

    def with_tables(x, cos, sin, *others, **options):
        rotate_cupy(x, cos.view(Array), sin.view(Array), *others, **options)

    monkeypatch.setattr(cupy_kernel, "rotate_cupy", with_tables)
    caches = cupy_kernel.elementwise_kernel, cupy_kernel._raw_kernel
    for function in caches:
        function.cache_clear()
    # Device allocations start at multiples of 512 bytes, host allocations anywhere.
    yield Library(np, lambda values: _aligned(values).view(Array))
    for function in caches:
        function.cache_clear()


def _aligned(values):
    memory = np.empty(values.nbytes + 512, "uint8")
    start = -memory.ctypes.data % 512
    array = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def bits(array):
    array = array.get() if hasattr(array, "get") else np.asarray(array)
    return array.dtype, array.shape, array.tobytes()


def numbers(count, dtype):
    return np.resize(NUMBERS, count).astype(bfloat16 if dtype == "bfloat16" else dtype)


class Case(NamedTuple):
    """An input: axes in memory order, with slices; tables with some axes of length 1."""

    dtype: str
    layout: str
    axis: int
    pairs: int
    lengths: tuple[int, ...]  # of x
    order: tuple[int, ...]
    steps: tuple[int, ...]
    start: int  # number of elements before x
    repeated: tuple[bool, ...]  # axes of 1 in the tables
    table_order: tuple[int, ...]
    in_place: bool

    def arrays(self, library) -> tuple[Any, Any, Any]:
        x = self._laid_out(library, self.dtype, self.lengths, self.order, self.steps, self.start)
        wide = "float64" if self.dtype == "float64" else "float32"
        shape = [1 if one else n for n, one in zip(self.lengths, self.repeated, strict=True)]
        shape[self.axis] = self.pairs
        ones = (1,) * len(shape)
        tables = (
            self._laid_out(library, wide, shape, self.table_order, ones, start)
            for start in (0, 4 * (self.start % 2))
        )
        return x, *tables

    @staticmethod
    def _laid_out(library, dtype, lengths, order, steps, start):
        """Return an array whose axes are in some order in memory."""
        room = [n * abs(step) for n, step in zip(lengths, steps, strict=True)]
        flat = library.array(numbers(int(np.prod(room)) + start, dtype))[start:]
        array = flat.reshape([room[a] for a in order]).transpose(np.argsort(order).tolist())
        return array[tuple(slice(None, None, step) for step in steps)]


@st.composite
def cases(draw):
    ndim = draw(st.integers(1, 4))
    axis = draw(st.integers(0, ndim - 1))
    pairs = draw(st.sampled_from([1, 2, 3, 4, 8, 8, 16, 24]))
    lengths = [draw(st.sampled_from([0, 1, 2, 3, 5, 8, 8])) for _ in range(ndim)]
    lengths[axis] = 2 * pairs + draw(st.sampled_from([0, 0, 0, 3, 8]))
    ordered = st.permutations(range(ndim)) | st.just(list(range(ndim)))
    step = st.sampled_from([1, 1, 1, 1, 2, -1])
    return Case(
        draw(st.sampled_from(DTYPES)),
        draw(st.sampled_from(["half", "interleaved"])),
        axis,
        pairs,
        tuple(lengths),
        tuple(draw(ordered)),
        tuple(draw(step) for _ in range(ndim)),
        draw(st.sampled_from([0, 0, 0, 8, 1])),
        tuple(draw(st.booleans()) for _ in range(ndim)),
        tuple(draw(ordered)),
        draw(st.booleans()),
    )


@given(case=cases())
def test_any_arrays(library, case):
    check(library, case)


def check(library, case):
    x, cos, sin = case.arrays(library)
    options = x, cos, sin, case.axis, case.layout
    expected, back = plain(*options), plain(*options, inverse=True)
    kernel = rotation(x, case.axis, case.layout, cupy_kernel.rotate_cupy)
    assert bits(rotate(x, cos, sin, kernel, inverse=True)) == bits(back)
    out = x if case.in_place else None
    assert bits(rotate(x, cos, sin, kernel, out=out)) == bits(expected)


def rotation(x, axis, layout, way=None):
    return RotationPlan(get_backend(x=x), axis, layout, way)


def plain(x, cos, sin, axis, layout, **options):
    return rotate(x, cos, sin, rotation(x, axis, layout), **options)


SHAPES = {
    # Lengths of x, its feature axis, axes along which angles are repeated.
    "head": ((32,), 0, (0,)),
    "seq, head": ((5, 32), 1, (0, 0)),
    "batch, heads, seq, head": ((2, 3, 5, 32), 3, (1, 1, 0, 0)),
    "batch, seq, heads, head": ((2, 5, 3, 32), 3, (1, 0, 1, 0)),
    "an angle for each head": ((2, 3, 5, 32), 3, (1, 0, 0, 0)),
    "an angle for each batch": ((2, 3, 5, 32), 3, (0, 1, 0, 0)),
    "one token": ((2, 3, 1, 32), 3, (1, 1, 0, 0)),
    "head, seq": ((32, 16), 0, (0, 0)),
    "head, seq, heads * batch": ((32, 5, 16), 0, (0, 0, 1)),
    "head, seq, heads, batch": ((32, 5, 3, 16), 0, (0, 0, 1, 1)),
    "long rows": ((2, 3, 8192), 2, (1, 0, 0)),
    "a long sequence": ((16, 8192), 0, (0, 0)),
    "many": ((3, 3, 280, 32), 3, (1, 0, 0, 0)),
    "part of the features": ((2, 3, 5, 48), 3, (1, 1, 0, 0)),
}


def contiguous(name, dtype="float32", layout="half", **changes):
    lengths, axis, repeated = SHAPES[name]
    order, ones = tuple(range(len(lengths))), (1,) * len(lengths)
    pairs = 16 if lengths[axis] == 48 else lengths[axis] // 2
    case = Case(
        dtype, layout, axis, pairs, lengths, order, ones, 0, repeated, order, in_place=False
    )
    return case._replace(**changes)


@pytest.fixture
def by_vectors_only(library, monkeypatch):
    monkeypatch.setattr(cupy_kernel, "elementwise_kernel", None)
    return library


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_contiguous_goes_by_vectors(by_vectors_only, name, dtype, layout, in_place):
    check(by_vectors_only, contiguous(name, dtype, layout, in_place=in_place))


VIEWS = {
    "every other position": {"steps": (1, 1, 2, 1)},
    "reversed positions and heads": {"steps": (1, -1, -1, 1)},
    "axes in another order": {"order": (2, 0, 1, 3)},
    "from the ninth number on": {"start": 8},
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_that_go_by_vectors(by_vectors_only, view):
    check(by_vectors_only, contiguous("batch, heads, seq, head", **VIEWS[view]))


def test_64_bits_of_index(by_vectors_only, monkeypatch):
    kind = ("float32", "float32"), ((2**27, 32), (1, 16))
    strides = ((2**7, 4), (2**7, 4), (2**6, 4), (2**6, 4))
    kinds, *_, traversal = cupy_kernel._launch(*kind, strides, (0, 0, 0, 0), 1, "half")
    assert kinds[2] == "int64"
    assert traversal.view("int64")[5] == 2**27
    monkeypatch.setattr(cupy_kernel, "INT32_LIMIT", 0)
    cupy_kernel._launch.cache_clear()
    try:
        for layout in ("half", "interleaved"):
            check(by_vectors_only, contiguous("batch, seq, heads, head", layout=layout))
    finally:
        cupy_kernel._launch.cache_clear()


def test_a_grid_has_at_most_65535_blocks_beyond_its_first_axis():
    grid, block, parts = cupy_kernel._grid(16, 16, 2**20, 2**20)
    assert (grid, block, parts) == ((1, 65535, 65535), (16, 16, 1), 1)


def test_large_grids_rotate_some_repeats_in_one_thread(by_vectors_only, monkeypatch):
    monkeypatch.setattr(cupy_kernel, "BUSY_THREADS", 1)
    monkeypatch.setattr(cupy_kernel, "MAX_BLOCKS_YZ", 2)
    monkeypatch.setattr(cupy_kernel, "BLOCK_THREADS", 8)
    cupy_kernel._launch.cache_clear()
    try:
        for name in SHAPES:
            check(by_vectors_only, contiguous(name))
    finally:
        cupy_kernel._launch.cache_clear()


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rope_uses_them(library, dtype, layout):
    x = library.array(numbers(2 * 3 * 70 * 16, dtype)).reshape(2, 3, 70, 16)
    plain, default, fused = (
        RoPE(16, 100, layout=layout, feature_axis=-1, seq_axis=-2, fused=choice)
        for choice in (False, None, True)
    )
    assert compiled_kernel_for(x, get_backend(x=x)) is cupy_kernel.rotate_cupy
    for options in ({}, {"offset": 3}, {"inverse": True}):
        expected = bits(plain(x, **options))
        assert bits(default(x, **options)) == bits(fused(x, **options)) == expected


def test_what_has_no_kernel(library):
    x = library.array(np.zeros((8, 5), "int32"))
    assert compiled_kernel_for(x, get_backend(x=x)) is None
    x = library.array(np.zeros((8, 5), "float32"))
    out = library.array(np.zeros((8, 5), "float64"))
    with pytest.raises(TypeError, match="and bfloat16 on CuPy"):
        compiled_kernel_for(x, get_backend(x=x), out, fused=True)


def test_angles_of_another_precision(library):
    """They are rotated pair by pair; RoPE never makes them."""
    x = library.array(numbers(8 * 32, "float32")).reshape(8, 32)
    cos, sin = (library.array(numbers(n, "float64"))[-16:].reshape(1, 16) for n in (16, 32))
    out = library.xp.empty_like(x)
    cupy_kernel.rotate_cupy(x, cos, sin, out, rotation(x, 1, "half"), 1)
    assert bits(out) == bits(plain(x, cos, sin, 1, "half"))


ODD = {
    "begins at an odd number": contiguous("batch, heads, seq, head", start=1),
    "odd number of pairs": contiguous("seq, head", lengths=(5, 18), pairs=9),
    "every other feature": contiguous("seq, head", steps=(1, 2)),
    "reversed features": contiguous("seq, head", steps=(1, -1)),
    "odd rows": contiguous("head, seq", layout="interleaved", lengths=(32, 15)),
    "a pair at an odd distance": contiguous("head, seq", lengths=(3, 8), pairs=1, order=(1, 0)),
    "tables in another order": contiguous("seq, head", table_order=(1, 0)),
    "too many axes": contiguous(
        "head",
        axis=4,
        lengths=(2, 3, 2, 3, 32),
        order=(0, 1, 2, 3, 4),
        steps=(1, 2, 2, 2, 1),
        repeated=(0, 1, 0, 1, 0),
        table_order=(0, 1, 2, 3, 4),
    ),
}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odd", ODD)
def test_what_goes_pair_by_pair(library, odd, dtype, in_place, monkeypatch):
    monkeypatch.setattr(cupy_kernel, "_raw_kernel", None)
    check(library, ODD[odd]._replace(dtype=dtype, in_place=in_place))


# Shape, and axes of features and sequence.
LAYOUTS = {
    "batch, heads, seq, head": ((8, 3, 40, 32), -1, -2),
    "batch, seq, heads, head": ((8, 40, 3, 32), -1, 1),
    "seq, head": ((40, 32), -1, -2),
    "head, seq": ((32, 40), 0, 1),
    "head, seq, heads * batch": ((32, 40, 8), 0, 1),
    "head, seq, heads, batch": ((32, 40, 3, 8), 0, 1),
}


@pytest.mark.only_on("cupy")
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("case", LAYOUTS)
def test_calls_go_by_vectors(backend, case, order, dtype, layout, monkeypatch):
    """For any memory order, and any place of the positions in a page."""
    monkeypatch.setattr(cupy_kernel, "elementwise_kernel", None)
    shape, feature, seq = LAYOUTS[case]
    rope = RoPE(32, 1001, layout=layout, feature_axis=feature, seq_axis=seq)
    numbers = np.resize(NUMBERS, shape).astype(dtype)
    x = backend.xp.asarray(backend.array(numbers), order=order)
    at = backend.array(np.arange(7, 47))
    expected, back = rope(numbers, offset=7), rope(numbers, offset=7, inverse=True)
    rotated = [rope(x, offset=7), rope(x, positions=at), rope.shift(rope(x), 7)]
    rotated_back = [rope(x, offset=7, inverse=True), rope(x, positions=at, inverse=True)]
    if order == "C":  # cached tables have the layout for arrays in C order
        tables = rope.tables(at, dtype=x.dtype)
        rotated, rotated_back = [*rotated, tables(x)], [*rotated_back, tables(x, inverse=True)]
    atol = {"float16": 1e-2, "float32": 4e-6, "float64": 1e-14}[dtype]
    for arrays, wanted in ((rotated, expected), (rotated_back, back)):
        for got in arrays:
            np.testing.assert_allclose(backend.numpy(got), wanted, atol=atol)


@pytest.mark.only_on("cupy")
@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("fused", [False, None])
def test_calls_compute_on_the_device_of_the_array(fused, monkeypatch):
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one device")
    scaling = YaRNScaling(4.0, 16)
    rope = RoPE(16, 100, scaling=scaling, feature_axis=-1, seq_axis=-2, fused=fused)
    numbers = np.resize(NUMBERS, (2, 5, 24)).astype("float32")[..., :16]
    launched, allocated = [], []
    raw_kernel, pool = cupy_kernel._raw_kernel, cupy.cuda.get_allocator()

    def watched(*kinds):
        launched.append(cupy.cuda.runtime.getDevice())
        return raw_kernel(*kinds)

    def allocate(size):
        allocated.append(cupy.cuda.runtime.getDevice())
        return pool(size)

    with cupy.cuda.Device(1):
        x, at, out = cupy.asarray(numbers), cupy.arange(5), cupy.empty(numbers.shape, "float32")
        wide = rope.tables(at, dtype=cupy.float64)
        cos, sin = wide.cos, wide.sin
    monkeypatch.setattr(cupy_kernel, "_raw_kernel", watched)
    with cupy.cuda.Device(0), cupy.cuda.using_allocator(allocate):
        rotated = [
            *(rope(x), rope(x, out=out), rope(x, positions=at), rope.tables(at)(x), wide(x)),
            apply_rope(x, cos, sin, feature_axis=-1),
        ]
        back = rope(rotated[0], inverse=True), wide(rotated[0], inverse=True)
        again = rope.shift(rotated[0], 3)
        assert cupy.cuda.runtime.getDevice() == 0
    assert set(allocated) == {1}
    assert set(launched) <= {1}
    assert launched or fused is False
    expected = [(rotated, rope(numbers)), (back, numbers), ([again], rope(numbers, offset=3))]
    for arrays, wanted in expected:
        for got in arrays:
            assert got.device.id == 1
            with cupy.cuda.Device(1):
                np.testing.assert_allclose(got.get(), wanted, atol=4e-6)
