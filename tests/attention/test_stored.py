"""A buffer is known to hold the tokens of a cache, or the cache is refused before it stores."""

import copy
import gc
import pickle
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    FunctionMask,
    KVCache,
    ListMask,
    SlidingWindowMask,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.cache import KVStep
from positional_embeddings.attention.store import _records

LAST = {"feature_axis": -1, "seq_axis": -2}
TOKENS = np.random.default_rng(0).standard_normal((3, 1, 1, 40, 4))  # of queries, keys and values
LIBRARIES = pytest.mark.only_on("numpy", "torch", "jax", "cupy")
WRITING = pytest.mark.only_on("numpy", "torch", "cupy")
REFUSED = "`buffer` must hold the tokens before the step"


class Layer:
    """One layer, whose buffers its caches share."""

    def __init__(self, backend, capacity=40, window=None):
        self.backend = backend
        self.empty = KVCache.empty(
            1, capacity, window=window, xp=backend.xp, device=backend.device, **LAST
        )
        self.buffers = [backend.array(np.zeros((1, 1, capacity, 4))) for _ in range(2)]

    def go_on(self, cache, tokens, mask=None):
        """Store some tokens, given by their indices, and return the next cache and the output."""
        cache, step = cache.step(len(tokens))
        q, k, v = (self.backend.array(x[:, :, tokens]) for x in TOKENS)
        stored = [step.store(*pair) for pair in zip(self.buffers, (k, v), strict=True)]
        self.buffers = [buffer for buffer, _ in stored]
        keys, values = (keys for _, keys in stored)
        mask = CausalMask() if mask is None else mask
        got = scaled_dot_product_attention(q, keys, values, mask=mask, positions=step)
        return cache, self.backend.numpy(got)


def attended(tokens, window=None):
    """Return what the last of some tokens attends to, by the formula."""
    first = 0 if window is None else max(0, len(tokens) - window)
    q, k, v = (x[0, 0, tokens] for x in TOKENS)
    weights = np.exp(k[first:] @ q[-1] / 2)
    return weights / weights.sum() @ v[first:]


def pickled(value):
    return pickle.loads(pickle.dumps(value))


COPIES = {
    "rewind": lambda cache: cache.rewind(0),
    "take": lambda cache: cache.take([0]),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@LIBRARIES
@pytest.mark.parametrize("prompt", [2, 6])
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_an_earlier_cache_of_a_ring_is_refused_once_its_keys_are_overwritten(
    backend, duplicate, prompt
):
    """Until then, by as many tokens as there are slots beyond the window, it goes on."""
    layer, tokens = Layer(backend, 4, window=3), [*range(prompt)]
    early, _ = layer.go_on(layer.empty, tokens)
    cache, _ = layer.go_on(early, [20])
    branch, got = layer.go_on(duplicate(early), [30])
    np.testing.assert_allclose(got[0, 0, 0], attended([*tokens, 30], 3), atol=2e-6)
    for token in range(31, 35):
        branch, _ = layer.go_on(branch, [token])
    for wrong in (duplicate(early), duplicate(cache), cache):
        with pytest.raises(ValueError, match=f"{REFUSED}.* ring overwrote some"):
            layer.go_on(wrong, [36])
    with pytest.raises(ValueError, match="the ring has overwritten"):
        branch.rewind(3)
    _, got = layer.go_on(branch.rewind(1), [37])
    np.testing.assert_allclose(got[0, 0, 0], attended([*tokens, *range(30, 34), 37], 3), atol=2e-6)


@LIBRARIES
def test_the_longer_of_two_branches_is_refused_once_the_other_has_stored(backend):
    layer, prompt = Layer(backend), [*range(5)]
    early, _ = layer.go_on(layer.empty, prompt)
    longer, _ = layer.go_on(early, [*range(20, 29)])
    branch, got = layer.go_on(early.rewind(0), [30, 31, 32])
    np.testing.assert_allclose(got[0, 0, -1], attended([*prompt, 30, 31, 32]), atol=2e-6)
    for wrong in (longer, longer.rewind(0), longer.rewind(8), longer.take([0])):
        with pytest.raises(ValueError, match=REFUSED):
            layer.go_on(wrong, [33])
    # What both have in common is still there, and what the branch has.
    _, got = layer.go_on(longer.rewind(9), [34])
    np.testing.assert_allclose(got[0, 0, 0], attended([*prompt, 34]), atol=2e-6)
    with pytest.raises(ValueError, match=REFUSED):
        layer.go_on(branch, [35])


@LIBRARIES
def test_two_caches_in_one_buffer(backend):
    layer = Layer(backend)
    first, _ = layer.go_on(layer.empty, [0, 1, 2, 3, 4])
    second, _ = layer.go_on(layer.empty.rewind(0), [10, 11, 12])
    for wrong in (first, first.rewind(0), first.rewind(2)):
        with pytest.raises(ValueError, match=REFUSED):
            layer.go_on(wrong, [20])
    _, got = layer.go_on(second, [13])
    np.testing.assert_allclose(got[0, 0, 0], attended([10, 11, 12, 13]), atol=2e-6)


@WRITING
def test_a_step_of_an_earlier_cache_is_refused_whoever_stored_since(backend):
    """Also the step of a cache without tokens, and of one with another number of sequences."""
    layer = Layer(backend)
    cache, _ = layer.go_on(layer.empty, [0, 1, 2])
    branch = cache.rewind(1)
    layer.go_on(branch, [3])
    layer.go_on(cache.rewind(2), [4])
    for wrong in (branch, layer.empty, pickled(cache), pickled(branch)):
        with pytest.raises(ValueError, match=REFUSED):
            layer.go_on(wrong, [5])
    wide = backend.array(np.zeros((2, 1, 40, 4)))
    other, step = KVCache.empty(2, 40, xp=backend.xp, device=backend.device, **LAST).step(1)
    wide, _ = step.store(wide, backend.array(np.ones((2, 1, 1, 4))))
    layer.buffers = [wide[:1, ...], wide[:1, ...]]
    with pytest.raises(ValueError, match=REFUSED):
        layer.go_on(cache.rewind(0), [6])
    _, step = layer.empty.rewind(0).step(1)
    step.store(wide[:1, ...], backend.array(np.ones((1, 1, 1, 4))))
    with pytest.raises(ValueError, match=REFUSED):
        other.step(1)[1].store(wide, backend.array(np.ones((2, 1, 1, 4))))


@WRITING
def test_rows_are_taken_along_as_new_arrays(backend):
    cache, step = KVCache.empty(2, 8, xp=backend.xp, device=backend.device).step([[1, 1], [0, 1]])
    buffer, _ = step.store(backend.array(np.zeros((4, 8, 2))), backend.array(np.ones((4, 2, 2))))
    taken, new = cache.take([1, 0]), backend.array(np.ones((4, 1, 2)))
    with pytest.raises(ValueError, match=f"{REFUSED}.* rows that were not taken along"):
        taken.step(1)[1].store(buffer, new)
    rows = backend.array(backend.numpy(buffer)[:, :, [1, 0]])
    assert backend.numpy(taken.step(1)[1].store(rows, new)[1]).shape == (4, 3, 2)


@WRITING
def test_memory_that_is_used_again_is_not_taken_for_what_was_there(backend):
    """Neither does a new buffer hold what a buffer held that is gone, nor is one forgotten."""
    shape, kept = (1, 1, 40, 4), Layer(backend)
    cache, _ = kept.go_on(kept.empty, [0, 1, 2])
    kept.go_on(cache.rewind(0), [4])
    for _ in range(20):
        layer = Layer(backend)
        layer.go_on(layer.empty, [0, 1, 2])
        layer.buffers = [backend.array(np.zeros(shape)) for _ in range(2)]
        layer.go_on(cache, [3])
    with pytest.raises(ValueError, match=REFUSED):
        kept.go_on(cache, [3])
    del kept, layer
    gc.collect()
    before = len(_records)
    layer = Layer(backend)
    layer.go_on(layer.empty, [0])
    assert len(_records) == before + 4  # by the arrays, and by their places
    del layer
    gc.collect()
    assert len(_records) == before


@WRITING
def test_a_buffer_is_known_by_its_memory_through_views(backend):
    """Whatever views there are, also of PyTorch in inference mode, which do not name their base."""
    mode = backend.xp.inference_mode() if backend.name == "torch" else nullcontext()
    with mode:
        both = backend.array(np.zeros((2, 1, 1, 40, 4)))
        cache, step = KVCache.empty(1, 40, xp=backend.xp, device=backend.device, **LAST).step(2)
        new = backend.array(np.ones((1, 1, 2, 4)))
        for part in (both[0, ...], both[1, ...]):
            step.store(part, new)
        _, later = cache.step(2)
        later.store(both[0, ...][:, :, :, :], new)
        for wrong in (later, cache.step(2)[1], step):
            with pytest.raises(ValueError, match=r"`buffer` must"):
                wrong.store(both[0, ...], new)
        later.store(both[1, ...], new)


MASKS = {
    "none": None,
    "window": SlidingWindowMask(3, None),
    "not causal": ~CausalMask(),
    "function": FunctionMask(lambda q, k: (q + k) % 3 == 1),
    "chunks": ChunkedMask(4),
}


@LIBRARIES
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("capacity", [6, 8])
def test_a_ring_shows_chunks_what_it_shows_single_tokens(backend, mask, capacity):
    """No later tokens, whatever the mask."""
    outputs = []
    for parts in ([[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]], [[token] for token in range(10)]):
        layer, got = Layer(backend, capacity, window=6), []
        cache = layer.empty
        for tokens in parts:
            cache, step = cache.step(len(tokens))
            q, k, v = (backend.array(x[:, :, tokens]) for x in TOKENS)
            stored = [step.store(*pair) for pair in zip(layer.buffers, (k, v), strict=True)]
            layer.buffers = [buffer for buffer, _ in stored]
            of_step = {"mask": mask, "positions": step}
            output = scaled_dot_product_attention(q, stored[0][1], stored[1][1], **of_step)
            got.append(backend.numpy(output))
        outputs.append(np.concatenate(got, axis=2))
    np.testing.assert_allclose(*outputs, atol=2e-6)


def test_a_ring_takes_no_masks_of_indices_for_chunks():
    x = np.ones((1, 1, 4, 4))
    _, step = KVCache.empty(1, 8, window=6, **LAST).step(4)
    for mask, error in (
        (np.zeros((4, 4), dtype=bool), TypeError),
        (ListMask(np.tile(np.arange(4), (4, 1))), ValueError),
        (lambda q, k: k > q, TypeError),
    ):
        with pytest.raises(error, match="`mask` must"):
            scaled_dot_product_attention(x, x, x, mask=mask, positions=step)


def test_a_step_is_made_by_a_cache():
    _, step = KVCache.empty(1, 8).step(1)
    for make in (
        KVStep,
        lambda: KVStep(step.positions, step.key_positions),
        lambda: replace(step, positions=step.positions + 1),
    ):
        with pytest.raises(
            TypeError, match=r"A KVStep is made by its cache: cache, step = cache\.step"
        ):
            make()
