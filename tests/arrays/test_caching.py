"""Caches, keys of calls, and lengths of blocks."""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product
from math import prod
from threading import Barrier
from types import SimpleNamespace

import array_api_strict as strict
import numpy as np
import pytest

from positional_embeddings.arrays import blocks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import call_key, constant_array, get_or_compute, remember
from positional_embeddings.arrays.dispatch import backend_for, get_backend


def test_a_value_is_computed_once_for_its_key():
    calls, cache = [], {}

    def compute():
        calls.append(None)
        return len(calls)

    assert [get_or_compute(cache, key, compute) for key in "aabab"] == [1, 1, 2, 1, 2]
    # Nothing is cached without a key or a cache.
    assert [get_or_compute(cache, None, compute), get_or_compute(cache, None, compute)] == [3, 4]
    assert [get_or_compute(None, "a", compute), get_or_compute(None, "a", compute)] == [5, 6]
    assert cache == {"a": 1, "b": 2}


def test_constants_are_arrays_that_are_made_once():
    array_backend, made = backend_for(), []

    def numbers(*values):
        made.append(values)
        return list(values)

    def constant(*values, dtype=np.float64, library=array_backend):
        return constant_array(numbers, *values, dtype=dtype, backend=library)

    first = constant(1, 2)
    np.testing.assert_array_equal(first, [1.0, 2.0])
    assert constant(1, 2) is first
    assert constant(1, 2, dtype=np.float32).dtype == np.float32
    constant(2, 1)
    assert made == [(1, 2), (1, 2), (2, 1)]
    for i in range(70):  # drops the first values
        constant(i)
    assert constant(1, 2) is not first
    # A library whose arrays must not be cached.
    plain = Unknown(np, "cpu", np.float64, np.int64, np.float64, np.float64)
    assert constant(1, 2, library=plain) is not constant(1, 2, library=plain)


def test_the_oldest_values_are_dropped():
    cache = {}
    for key in range(5):
        remember(cache, key, -key, max_size=3)
    assert cache == {2: -2, 3: -3, 4: -4}


def test_threads_share_a_cache():
    cache, begin = {}, Barrier(4, timeout=60)

    def remember_many(thread):
        begin.wait()
        for number in range(40_000):
            remember(cache, (thread, number), number, max_size=64)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(remember_many, range(4))) == [None] * 4
    assert len(cache) <= 64
    remember(cache, "last", 0, max_size=64)
    assert "last" in cache


def test_keys_tell_arrays_apart_that_are_rotated_in_other_ways():
    x, buffer = np.zeros((2, 3)), np.zeros(50, "uint8")
    fixed = np.zeros((2, 3))
    fixed.flags.writeable = False
    unaligned = buffer[1:49].view("float64").reshape(2, 3)
    arrays = [x, x.T, x[:, :2], np.zeros((3, 2)).T, x.astype("float32"), unaligned]
    keys = [call_key(array, None) for array in arrays]
    keys += [call_key(x, out) for out in (*arrays, np.zeros((2, 3)), fixed)]
    assert len(set(keys)) == len(keys)
    assert call_key(np.ones((2, 3)), None) == keys[0]
    assert call_key(np.ones((2, 3)), np.ones((2, 3))) in keys


def test_arrays_of_other_libraries_have_no_key():
    x, other = np.zeros(3), strict.zeros(3)
    subclass = x.view(type("Marked", (np.ndarray,), {}))
    for array, out in product((x, other, subclass), (None, x, other, subclass)):
        is_plain = array is x and (out is None or out is x)
        assert (call_key(array, out) is not None) == is_plain


def test_a_call_key_has_dtypes_and_shapes_of_what_is_read():
    x, table, table_of_ints = np.zeros((2, 3)), np.zeros((1, 3)), np.zeros((1, 3), "int64")
    keys = [call_key(x, None, *inputs) for inputs in ((), (table,), (table_of_ints,), (x, table))]
    assert len({*keys, call_key(x, x, table)}) == 5
    assert call_key(x, None, None, table) == call_key(x, None, table[:, ::-1]) == keys[1]
    assert call_key(x, None, strict.zeros(3)) is None


def test_keys_of_cupy_have_a_device():
    class Cupy(np.ndarray):
        __module__ = "cupy"
        device_id = 0

        @property
        def data(self):
            return SimpleNamespace(device_id=self.device_id)

    x, here, there = (np.zeros((2, 3)).view(Cupy) for _ in range(3))
    there.device_id = 1
    keys = [call_key(x, None), call_key(there, None), call_key(x, here), call_key(x, x)]
    assert len({*keys, call_key(x, None, here)} - {None}) == 5
    assert call_key(here, None) == keys[0]
    assert call_key(x, there) is call_key(x, None, there) is call_key(x, np.zeros(3)) is None


def test_blocks_are_whole_on_the_last_axes():
    assert blocks.block_lengths((4, 4, 4), (0, 1, 2), 8) == {2: 4, 1: 2, 0: 1}
    assert blocks.block_lengths((4, 4, 4), (2, 1, 0), 4) == {0: 4, 1: 1, 2: 1}
    assert blocks.block_lengths((4, 0), (0, 1), 8) == {1: 1, 0: 4}
    for order, max_size in product(permutations(range(3)), range(1, 70)):
        lengths = blocks.block_lengths((3, 4, 5), order, max_size)
        assert prod(lengths.values()) <= max_size


def test_arrays_that_share_memory():
    """Whether writing to one array may change unread elements of the other."""
    array_backend, a = backend_for(), np.arange(6.0)
    assert array_backend.shares_memory(a[1:], a[:-1]) is True
    assert array_backend.shares_memory(a[::-1], a) is True
    assert array_backend.shares_memory(a.reshape(2, 3), a) is True
    for other in (a, a[:], a.copy()):
        assert array_backend.shares_memory(other, a) is False
    assert array_backend.shares_memory(a[:3], a[3:]) is False
    # A library that cannot compare memory.
    x = strict.zeros(3)
    assert not get_backend(x=x).shares_memory(x, x)
    assert get_backend(x=x).shares_memory(x, strict.zeros(3))


def test_values_on_the_host():
    x = strict.asarray([1.0, 2.0])
    np.testing.assert_array_equal(get_backend(x=x).values_on_host(x), [1, 2])
    elsewhere = strict.asarray([1.0], device=strict.Device("device1"))
    assert get_backend(x=elsewhere).values_on_host(elsewhere) is None


class Unknown(Backend):
    """A library of which nothing is known."""


class Recording(Backend):
    """A library whose arrays are read, but do not show that they are parts of a trace."""

    reads_values = True


@pytest.mark.parametrize("library", [Unknown, Recording])
def test_what_may_be_a_constant_of_a_trace_is_not_taken(library):
    array_backend = library(np, "cpu", np.float64, np.int64, np.float64, np.float64)
    assert array_backend.values_on_host(np.ones(1)) is None
    assert (
        array_backend.is_concrete(np.ones(1))
        == array_backend.concrete_bool(np.asarray(True))
        == array_backend.reads_values
    )
    assert array_backend.reads_values == (library is Recording)
