"""Nothing that is written to arrays, given or returned, changes what a later call returns.

The weights of layers are left out: they are the caller's, who may train them.
"""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import positional_embeddings as pe
from hostile.judge import parts, same
from positional_embeddings.arrays.caching import frozen_copy, read_only
from positional_embeddings.attention.at_positions import StepPositions
from positional_embeddings.attention.cache import KVStep
from positional_embeddings.rotary.tables import RotaryTables
from samples import CATALOGUE, HOST

CALLS = {f"{name}[{i}]": call for name, calls in CATALOGUE.items() for i, call in enumerate(calls)}
# Values whose arrays nobody can write to, but by force.
HOLDERS = pe.KVCache | KVStep | StepPositions | pe.Mask
each_call = pytest.mark.parametrize("name", CALLS)


def copied(values):
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}


def overwrite(array, *, force=True):
    """Write to an array, or to what it is a view of, by all that NumPy lets a user do."""
    while array is not None:
        array = array[0] if type(array) is tuple else array
        for view in (array, np.asarray(array)):
            try:
                view.flags.writeable = view.flags.writeable or force
                view[...] = 1
            except (AttributeError, TypeError, ValueError):
                continue
        array = getattr(array, "base", None)


def weights_of(value):
    """Return the names of the weights of a layer."""
    names = getattr(value, "_array_names", ())
    return () if isinstance(value, HOLDERS | RotaryTables) else names


def overwrite_attributes(value):
    """Write to the arrays that are public attributes of a value, or of its class."""
    names = {*dir(type(value)), *getattr(value, "__dict__", ())} - set(weights_of(value))
    # Where PyTorch compiles, it refuses arrays of masks and caches that it cannot make writable.
    force = not isinstance(value, HOLDERS)
    for name in names:
        if not name.startswith("_"):
            overwrite_parts(getattr(value, name, None), force=force)


def overwrite_parts(value, *, force=True):
    for part in parts(value):
        if isinstance(part, np.ndarray):
            overwrite(part, force=force)


def snapshot(result):
    return [copy.copy(part) if isinstance(part, np.ndarray) else part for part in parts(result)]


@each_call
def test_writing_to_what_was_returned(name):
    call = CALLS[name]
    given = copied(call.values)
    expected = snapshot(call(**copied(given)))
    overwrite_parts(call(**copied(given)))
    assert same(call(**given), expected)


@each_call
def test_writing_to_what_was_given_and_to_attributes(name):
    call = CALLS[name]
    make, given = replace(call, use=lambda made, _: made), copied(call.values)
    expected = snapshot(call(**copied(given)))
    made = make(**given)
    if type(made).__module__.startswith("positional_embeddings") and not isinstance(made, tuple):
        for argument in given.keys() - set(weights_of(made)):
            overwrite_parts(given[argument])
        overwrite_attributes(made)
    elif not name.startswith("sklearn."):  # whose estimators let their users do so
        overwrite_attributes(getattr(call.function, "__self__", call.function))
        made = make(**copied(call.values))
    assert same(call.use(made, HOST), expected)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize(
    "mask",
    [
        pe.PaddingMask([2, 1]),
        pe.PrefixMask([2, 1]),
        pe.SegmentMask([0, 1], key_ids=[1, 0, 1]),
        pe.GlobalMask([1]) | pe.PaddingMask([2, 1]),
    ],
)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_writing_to_a_copied_or_pickled_mask(mask, duplicate):
    same_mask = duplicate(mask)
    for part in getattr(same_mask, "masks", (same_mask,)):
        overwrite_attributes(part)
    assert same_mask == mask
    assert hash(same_mask) == hash(mask)


@pytest.mark.parametrize("duplicate", [lambda t: t, copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_writing_to_tables_made_by_hand(dtype, order, duplicate):
    rope, x = pe.RoPE(4, 8), np.ones((4, 3), dtype)
    cos_sin = np.asarray(rope.tables(np.arange(3)).cos_sin, order=order).copy(order=order)
    tables = duplicate(RotaryTables(rope, cos_sin))
    for _ in range(2):
        np.testing.assert_array_equal(tables(x), rope(x))
        cos_sin[...] = 7
        overwrite_attributes(tables)


def test_a_read_only_view_takes_no_copy_and_stays_so():
    array = np.arange(24.0).reshape(2, 3, 4)
    for own in (array, array.T, array[::-1, :, ::2], array[:0], array[0, 0, 0:1], array > 3):
        view = read_only(own)
        np.testing.assert_array_equal(view, own)
        assert (view.dtype, view.strides) == (own.dtype, own.strides)
        assert view.size == 0 or np.shares_memory(view, own)
        assert frozen_copy(view) is view
        for array_of in (view, view[...], view.T, np.asarray(view.base[0])):
            with pytest.raises(ValueError, match="WRITEABLE"):
                array_of.flags.writeable = True
    np.testing.assert_array_equal(frozen_copy(array.T), array.T)
    assert not np.shares_memory(frozen_copy(array), array)


def test_cosines_of_a_rope_cannot_be_made_writable():
    rope, x = pe.RoPE(4, 8), np.ones((4, 8))
    expected = rope(x)
    for table in (rope.cos, rope.sin, rope.inv_freq, pe.AbsolutePE(4, 8).embeddings):
        with pytest.raises(ValueError, match="WRITEABLE"):
            table.flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            table[...] = 7
    np.testing.assert_array_equal(rope(x), expected)
