"""What checks accept and refuse at their bounds; classes derived from layers have them, too."""

import sys
from dataclasses import dataclass
from itertools import permutations
from types import SimpleNamespace
from typing import Annotated

import array_api_strict as strict
import numpy as np
import pytest

from positional_embeddings import (
    AbsolutePE,
    CausalMask,
    LearnedPE,
    RoPE,
    YaRNScaling,
    cumulative_lengths,
    relative_positions,
)
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.masks import index_ranges


class OwnRoPE(RoPE):
    """A class without fields of its own."""


@dataclass(frozen=True)
class OwnScaling(YaRNScaling):
    """A class with one more field."""

    step: Annotated[int, checks.feature_count] = 1


def test_checks_are_inherited():
    with pytest.raises(ValueError, match="`seq_len` must be a positive integer, got -3"):
        OwnRoPE(8, -3)
    with pytest.raises(ValueError, match="`factor` must be a positive finite number, got 0"):
        OwnScaling(0, 10)
    with pytest.raises(ValueError, match="`step` must be a positive integer, got 0"):
        OwnScaling(2, 10, step=0)
    assert OwnScaling(2, 10).step == 1
    with pytest.raises(ValueError, match="`factor` must be a positive finite number, got 0"):
        YaRNScaling(0, 10)


def test_bounds_are_accepted():
    for number in (sys.float_info.max, -sys.float_info.max):
        assert checks.finite_number("x", number) == number
    for count, power in (
        (checks.feature_count, 20),
        (checks.position_count, 63),
        (checks.axis_length, 48),
    ):
        assert count("x", 2**power) == 2**power
        with pytest.raises(ValueError, match=rf"`x` must be at most 2\*\*{power}, got"):
            count("x", 2**power + 1)
    assert cumulative_lengths([2**63 - 1]).tolist() == [0, 2**63 - 1]
    assert CausalMask()(0, 2**61 - 1)
    with pytest.raises(ValueError, match=f"`k_pos` must hold positions within {2**61 - 1}"):
        CausalMask()(0, 2**61)


def test_lengths_keep_distances_within_the_integers():
    """Of a library whose default integers have 32 bits."""
    backend, far = SimpleNamespace(int_dtype=np.int32, xp=np), 2**29 - 1
    assert index_ranges.query_offset(far, far, None, backend) == 0
    for lengths in ((far + 1, 1), (1, far + 1)):
        with pytest.raises(ValueError, match=f"_len` must be at most {far}, so that int32"):
            index_ranges.query_offset(*lengths, None, backend)
    for offset in (-far, far - 7):
        assert index_ranges.query_offset(7, 7, offset, backend) == offset
    for offset in (-far - 1, far - 6):
        with pytest.raises(ValueError, match=f"`offset` must keep positions within {far}"):
            index_ranges.query_offset(7, 7, offset, backend)


def test_lengths_that_are_not_known():
    assert checks.is_static(3)
    assert not checks.is_static(None)
    assert not checks.is_static(float("nan"))


@pytest.mark.parametrize(
    ("shape", "strides", "repeats"),
    [
        ((2, 3), (24, 8), False),
        ((2, 3), (8, 16), False),
        ((2, 3), (16, 8), True),
        ((2, 3), (8, 8), True),
        ((2, 3), (0, 8), True),
        ((2, 1), (8, 0), False),
        ((2, 1), (0, 0), True),
        ((2, 0), (0, 0), False),
    ],
)
def test_results_are_written_where_no_element_shares_memory(shape, strides, repeats):
    out = np.lib.stride_tricks.as_strided(np.zeros(20), shape, strides)
    rope, x = RoPE(2, 3), np.random.default_rng(0).standard_normal(shape)
    if repeats:
        with pytest.raises(ValueError, match="one whose elements share memory"):
            rope(x, out=out)
    else:
        np.testing.assert_array_equal(rope(x, out=out), rope(x))


def test_layers_hold_axes_as_ints():
    feature, seq = np.int64(-1), np.int64(0)
    options = {"feature_axis": feature, "seq_axis": seq}
    for layer in (RoPE(4, 3, **options), AbsolutePE(4, 3, **options), LearnedPE(4, 3, **options)):
        assert (layer.feature_axis, layer.seq_axis) == (-1, 0)
        assert type(layer.feature_axis) is type(layer.seq_axis) is int


def test_the_last_of_two_axes():
    """Tables have features after positions where arrays of the layer have."""
    order = range(4)
    for feature, seq in permutations(range(-4, 4), 2):
        tables = RoPE(4, 3, feature_axis=feature, seq_axis=seq).tables(np.arange(3))
        assert tables.cos.shape == ((3, 2) if order[feature] > order[seq] else (2, 3))


@pytest.mark.parametrize(
    ("shape", "own_axes", "aligned"),
    [
        ((3,), (0,), (3, 1, 1)),
        ((3, 1), (0,), (3, 1, 1)),
        ((4, 1), (1, 2), (1, 4, 1)),
        ((1, 5), (2,), (1, 1, 5)),
        ((3, 4, 1), (0,), (3, 4, 1)),
        ((5,), (2,), (1, 1, 5)),
        ((3, 5), (0, 2), (3, 1, 5)),
        ((3, 5), (0,), None),
        ((2, 5), (2,), None),
        ((3, 2), (0,), None),
    ],
)
def test_arrays_get_the_axes_that_they_lack(shape, own_axes, aligned):
    x = np.arange(np.prod(shape)).reshape(shape)
    if aligned is None:
        with pytest.raises(ValueError, match="`x` must have shape"):
            axes.align_axes("x", x, own_axes, (3, 4, 5), "the axes")
        return
    got = axes.align_axes("x", x, own_axes, (3, 4, 5), "the axes")
    np.testing.assert_array_equal(got, x.reshape(aligned), strict=True)


def test_spans_take_their_rows():
    x = np.arange(40).reshape(20, 2)
    backend = get_backend(x=x)
    one = index_ranges.index_ranges((3, 6)).take(x, -2, backend)
    np.testing.assert_array_equal(one, x[3:6], strict=True)
    assert np.shares_memory(one, x)
    for number in (2, 8, 9):
        ranges = [(2 * i, 2 * i + 1) for i in range(number)]
        got = index_ranges.index_ranges(*ranges).take(x, -2, backend)
        np.testing.assert_array_equal(got, x[: 2 * number : 2], strict=True)
    traced = index_ranges.IndexRanges(None, 3, np.asarray(4))
    np.testing.assert_array_equal(traced.take(x, -2, backend), x[4:7], strict=True)
    first = index_ranges.index_ranges((0, 1))
    np.testing.assert_array_equal(first.take(x.T, -1, backend), x.T[:, :1], strict=True)
    single, pair = x[:1], x[:2]
    for broadcast in (None, single):
        assert index_ranges.index_ranges((2, 5)).take(broadcast, -2, backend) is broadcast
    second = index_ranges.index_ranges((1, 2)).take(pair, -2, backend)
    np.testing.assert_array_equal(second, x[1:2], strict=True)
    empty = index_ranges.index_ranges()
    assert empty.take(x, -2, backend).shape == (0, 2)
    assert empty.take(single, -2, backend).shape == (0, 2)
    assert empty.indices(backend).shape == (0,)


def test_positions_on_another_device_are_not_read():
    """Those on the host are checked one by one; a device is not waited for."""
    on_device = strict.asarray([5, 2**61], device=strict.Device("device1"))
    assert relative_positions(on_device, on_device).shape == (2, 2)
    on_host = strict.asarray([5, 2**61])
    with pytest.raises(ValueError, match="`query_positions` must hold positions within"):
        relative_positions(on_host, on_host)
