"""A cache stores each token once, and refuses what its buffers do not hold."""

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from positional_embeddings import (
    AttentionLayer,
    CausalMask,
    KVCache,
    NeighbourhoodMask,
    SegmentMask,
    SlidingWindowMask,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.cache import KVStep
from positional_embeddings.attention.store import WritePlan

LAST = {"feature_axis": -1, "seq_axis": -2}
SIZES = {"num_kv_heads": 1, "head_size": 4, **LAST}
TOKENS = np.random.default_rng(0).standard_normal((3, 1, 1, 40, 4))  # queries, keys and values
WRITING = pytest.mark.only_on("numpy", "torch", "cupy")
LIBRARIES = pytest.mark.only_on("numpy", "torch", "jax", "cupy")
LOST = "`cache` must hold its tokens, to be copied or rewound.*copy.deepcopy"
STALE = r"`step` must be of the newest cache of its buffers.*cache\.rewind\(0\)"
MISSING = "`cache` must hold the tokens of its last step in all layers"


def empty(backend, layers=1, capacity=40, **options):
    dtype = getattr(backend.xp, backend.wide)
    new = {"xp": backend.xp, "dtype": dtype, "device": backend.device}
    return KVCache.empty(layers, 1, capacity, **SIZES, **new, **options)


def go_on(backend, cache, tokens):
    """Store some tokens, given by their indices; return the next cache and the output."""
    cache, step = cache.step(len(tokens))
    q, k, v = (backend.array(x[:, :, tokens]) for x in TOKENS)
    for layer in range(len(cache._form.layers)):
        keys, values = step.update(layer, k, v)
        output = scaled_dot_product_attention(q, keys, values, mask=CausalMask(), positions=step)
    return cache, backend.numpy(output)


def attended(tokens, window=None, sinks=0):
    """Return what the last of some tokens attends to, by the formula."""
    first = 0 if window is None else max(0, len(tokens) - window)
    seen = [t for at, t in enumerate(tokens) if at < sinks or at >= first]
    q, k, v = (x[0, 0] for x in TOKENS)
    weights = np.exp(k[seen] @ q[tokens[-1]] / 2)
    return weights / weights.sum() @ v[seen]


def pickled(value):
    return pickle.loads(pickle.dumps(value))


COPIES = {"take": lambda c: c.take([0]), "deepcopy": copy.deepcopy, "pickle": pickled}


@LIBRARIES
@pytest.mark.parametrize("chunks", [[1] * 12, [5, 1, 4, 2], [12], [1, 11]], ids=str)
@pytest.mark.parametrize(
    ("window", "sinks", "drafts"), [(None, 0, 0), (3, 0, 0), (3, 2, 0), (4, 1, 3)]
)
def test_tokens_and_chunks_see_what_they_may(backend, chunks, window, sinks, drafts):
    options = {} if window is None else {"window": window, "num_sink_tokens": sinks}
    cache = empty(backend, capacity=None if window else 12, drafts=drafts, **options)
    first = 0
    for count in chunks:
        cache, got = go_on(backend, cache, [*range(first, first + count)])
        for at in range(count):
            expected = attended([*range(first + at + 1)], window, sinks)
            np.testing.assert_allclose(got[0, 0, at], expected, atol=2e-6)
        first += count
    assert np.asarray(cache.lengths).tolist() == [12]


@LIBRARIES
def test_padding_is_not_stored(backend):
    cache = KVCache.empty(1, 2, 8, **SIZES, xp=backend.xp, device=backend.device)
    cache, step = cache.step([[0, 1, 1], [1, 1, 1]])
    assert backend.numpy(step.positions).tolist() == [[0, 0, 1], [0, 1, 2]]
    keys = backend.numpy(step.key_positions)[:, :3]
    assert keys.tolist() == [[0, 1, -1], [0, 1, 2]]
    assert np.asarray(cache.lengths).tolist() == [2, 3]


@WRITING
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_copies_go_on_by_themselves(backend, duplicate):
    cache, _ = go_on(backend, empty(backend), [0, 1, 2])
    branch = duplicate(cache)
    cache, _ = go_on(backend, cache, [3, 4])
    branch, got = go_on(backend, branch, [10])
    np.testing.assert_allclose(got[0, 0, 0], attended([0, 1, 2, 10]), atol=2e-6)
    _, got = go_on(backend, cache, [5])
    np.testing.assert_allclose(got[0, 0, 0], attended([*range(6)]), atol=2e-6)


@WRITING
def test_only_the_newest_cache_stores(backend):
    early, _ = go_on(backend, empty(backend), [0, 1, 2])
    late, _ = go_on(backend, early, [3, 4])
    with pytest.raises(ValueError, match=STALE):
        go_on(backend, early, [5])
    # Nothing was stored, and copies of both hold their tokens.
    for cache, held in ((early, [0, 1, 2]), (late, [*range(5)])):
        _, got = go_on(backend, copy.deepcopy(cache), [9])
        np.testing.assert_allclose(got[0, 0, 0], attended([*held, 9]), atol=2e-6)
    branch = early.rewind(0)
    with pytest.raises(ValueError, match=STALE):
        go_on(backend, late, [5])
    branch, got = go_on(backend, branch, [7])
    np.testing.assert_allclose(got[0, 0, 0], attended([0, 1, 2, 7]), atol=2e-6)
    for use in (*COPIES.values(), lambda cache: cache.rewind(0)):
        with pytest.raises(ValueError, match=LOST):
            use(late)


@WRITING
def test_a_ring_goes_back_by_its_drafts(backend):
    cache = empty(backend, capacity=None, window=3, drafts=2)
    caches = [cache]
    for token in range(8):
        caches.append(go_on(backend, caches[-1], [token])[0])
    with pytest.raises(ValueError, match=LOST):
        caches[4].rewind(0)
    with pytest.raises(ValueError, match=r"`counts` must leave the keys .* `drafts`"):
        caches[8].rewind(4)
    _, got = go_on(backend, caches[6].rewind(0), [20])
    np.testing.assert_allclose(got[0, 0, 0], attended([*range(6), 20], 3), atol=2e-6)


@LIBRARIES
@pytest.mark.parametrize("use", [*COPIES.values(), lambda c: c.rewind(0), "step"])
def test_a_layer_that_was_left_out_is_named(backend, use):
    cache, _ = go_on(backend, empty(backend, layers=3), [0, 1])
    late, step = cache.step(1)
    k = backend.array(TOKENS[1][:, :, :1])
    step.update(1, k, k)
    with pytest.raises(ValueError, match=f"{MISSING}, got one without layer 0, 2. Call `update`"):
        go_on(backend, late, [3]) if use == "step" else use(late)
    _, got = go_on(backend, cache.rewind(0), [7])
    np.testing.assert_allclose(got[0, 0, 0], attended([0, 1, 7]), atol=2e-6)


@LIBRARIES
def test_of_two_steps_only_the_stored_one_goes_on(backend):
    cache, _ = go_on(backend, empty(backend), [0, 1])
    forgotten, thrown_away = cache.step(1)
    stored, _ = go_on(backend, cache, [2])
    with pytest.raises(ValueError, match=MISSING):
        go_on(backend, forgotten, [3])
    if backend.name != "jax":
        k = backend.array(TOKENS[1][:, :, :1])
        with pytest.raises(ValueError, match=STALE):
            thrown_away.update(0, k, k)
    _, got = go_on(backend, stored, [3])
    np.testing.assert_allclose(got[0, 0, 0], attended([0, 1, 2, 3]), atol=2e-6)


def test_an_interrupted_step_is_not_used(monkeypatch):
    cache = KVCache.empty(2, 1, 8, **SIZES)
    cache, step = cache.step(2)
    x = np.ones((1, 1, 2, 4))
    step.update(0, x, x)
    store, calls = WritePlan.store, []

    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) == 2:  # the keys are stored, the values are not
            raise KeyboardInterrupt
        return store(*args, **options)

    monkeypatch.setattr(WritePlan, "store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step.update(1, x, x)
    for use in (*COPIES.values(), lambda cache: cache.step(1)[1].update(0, *[x[:, :, :1]] * 2)):
        with pytest.raises(ValueError, match=f"{MISSING}, got one without layer 1"):
            use(cache)


def test_each_layer_stores_once_in_any_order_from_threads():
    cache = KVCache.empty(16, 1, 8, **SIZES)
    x = np.ones((1, 1, 1, 4))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            cache, step = cache.step(1)
            layers = np.random.default_rng(0).permutation(16).tolist()
            keys = [*pool.map(lambda at, step=step: step.update(at, x * at, x)[0], layers)]
            assert all(np.all(k == at) for at, k in zip(layers, keys, strict=True))
    with pytest.raises(ValueError, match="`layer` must be another one in each call, got 3, which"):
        step.update(3, x, x)


def test_latents_and_small_integers_are_stored_as_they_are():
    cache = KVCache.empty(1, 2, 4, num_kv_heads=1, head_size=6, value_size=3, dtype=np.int8, **LAST)
    _, step = cache.step(2)
    k, v = np.arange(24, dtype=np.int8).reshape(2, 1, 2, 6), np.ones((2, 1, 2, 3), dtype=np.int8)
    keys, values = step.update(0, k, v)
    np.testing.assert_array_equal(keys, k)
    np.testing.assert_array_equal(values, v)


def test_layers_of_several_windows_have_positions_of_their_own():
    masks = {None: CausalMask(), 2: CausalMask() | SlidingWindowMask.of(2)}
    layers = [AttentionLayer(1, 4, mask=mask, window=n, **LAST) for n, mask in masks.items()]
    _, step = KVCache.empty(layers, 1, 8).step(5)
    assert step.of(0).key_positions.tolist() == [[*range(5)]]
    with pytest.raises(ValueError, match=r"`positions` must be of one layer.*step\.of\(layer\)"):
        _ = step.key_positions
    x = TOKENS[:, :, :, :5]
    keys, values = step.update(1, x[1], x[2])
    got = scaled_dot_product_attention(x[0], keys, values, mask=masks[2], positions=step.of(1))
    np.testing.assert_allclose(got[0, 0, -1], attended([*range(5)], 2), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    {
        lambda: KVCache.empty(2, 1, **SIZES): "`capacity` must be given for layers without",
        lambda: KVCache.empty(0, 1, 4, **SIZES): "`layers` must be",
        lambda: KVCache.empty(1, 1, 4, num_kv_heads=1, head_size=2): "`feature_axis` must be given",
        lambda: KVCache.empty(1, 1, 4, num_sink_tokens=1, **SIZES): "`window` must be given",
        lambda: KVCache.empty(
            1, 1, 4, num_kv_heads=1, head_size=2, feature_axis=3, seq_axis=-1
        ): "`seq_axis` must be another axis than `feature_axis` = 3",
        lambda: KVCache.empty(
            1, 1, 4, num_kv_heads=1, head_size=2, feature_axis=4, seq_axis=1
        ): "`feature_axis` must be one of four axes, from -4 to 3, got 4",
        lambda: KVCache.empty(1, 1, 4, value_size=0, **SIZES): "`value_size` must be a positive",
        lambda: KVCache.empty(1, 1, 4, window=4, **SIZES).step(5): "without `capacity` and with a",
        lambda: KVCache.empty(
            [AttentionLayer(1, 4, **LAST)], 1, 4, window=2
        ): "`window` must be le",
        lambda: KVCache.empty(1, 1, 4, **SIZES).step(5): "`tokens` must fit into the slots",
        lambda: KVCache.empty(1, 1, 4, **SIZES).step([[1, 2]]): "`tokens` must hold 1 at tokens",
        lambda: KVCache.empty(1, 2, 4, **SIZES).step([1, 1, 1]): (
            r"`tokens` must have shape \(2, seq\), got \(3,\)\. Without padding, pass the number"
        ),
        lambda: KVCache.empty(1, 2, 4, **SIZES).step([[]]): "`tokens` must have shape .*Without",
        lambda: KVCache.empty(1, 1, 4, **SIZES).rewind(1): "`counts` must be from 0 to 0",
        lambda: KVCache.empty(1, 1, 4, **SIZES).take([1]): "`rows` must be from 0 to 0",
        lambda: KVCache.empty(1, 1, 4, **SIZES).step(1)[1].of(1): "`layer` must be from 0 to 0",
        lambda: (
            KVCache.empty(1, 1, 4, **SIZES).step(1)[1].attend(0, *np.ones((3, 1, 1, 1, 4)))
        ): "`cache` must have AttentionLayers",
        lambda: (
            KVCache.empty(1, 1, 4, **SIZES).step(1)[1].update(0, *np.ones((2, 1, 1, 2, 4)))
        ): "`k` must have shape",
        lambda: copy.copy(KVCache.empty(1, 1, 4, **SIZES).step(1)[1]): "A KVStep cannot be copied",
        KVCache: r"A KVCache is made by KVCache\.empty",
        KVStep: r"A KVStep is made by cache\.step",
    }.items(),
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_grid_ends_in_later_steps_too():
    grid, cache = NeighbourhoodMask((2, 2), 1), KVCache.empty(1, 1, 8, **SIZES)
    x = np.ones((1, 1, 1, 4))
    for count in range(1, 6):
        cache, step = cache.step(1)
        keys, values = step.update(0, x, x)
        if count <= 4:
            scaled_dot_product_attention(x, keys, values, mask=grid, positions=step)
    with pytest.raises(ValueError, match="have a token for each query"):
        scaled_dot_product_attention(x, keys, values, mask=grid, positions=step)


@pytest.mark.parametrize("tokens", [[[0, 0, 1, 1, 1, 1], [1] * 6], [[1, 0, 1, 0, 1, 1], [1] * 6]])
def test_documents_of_a_padded_prompt_have_the_columns_of_its_attention_mask(backend, tokens):
    tokens, ids = np.asarray(tokens), np.asarray([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]])
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 1, 6, 4))
    dtype = getattr(backend.xp, backend.wide)
    on = {"xp": backend.xp, "dtype": dtype, "device": backend.device}
    _, step = KVCache.empty(1, 2, 8, **SIZES, **on).step(tokens)
    keys, values = step.update(0, backend.array(k), backend.array(v))
    longer = np.concat([ids, [[1], [1]]], axis=1)  # with the document of a later token
    for documents in (ids.T, backend.array(ids.T), longer.T):
        mask = CausalMask() | SegmentMask(documents)
        output = scaled_dot_product_attention(
            backend.array(q), keys, values, mask=mask, positions=step
        )
        for row, is_token in enumerate(tokens == 1):
            expected = scaled_dot_product_attention(
                *(x[row : row + 1, :, is_token] for x in (q, k, v)),
                mask=CausalMask() | SegmentMask(ids[row, is_token]),
                **LAST,
            )
            result = backend.numpy(output)[row : row + 1, :, is_token]
            np.testing.assert_allclose(result, expected, atol=backend.tolerance())


def test_documents_after_a_prompt_and_of_keys():
    x = np.random.default_rng(0).standard_normal((2, 1, 3, 4))
    cache, step = KVCache.empty(1, 2, 4, **SIZES).step([[0, 1, 1], [1, 1, 1]])
    keys, _ = step.update(0, x, x)
    same = [
        scaled_dot_product_attention(
            x, keys, keys, mask=SegmentMask([0, 0, 0], key_ids), positions=step
        )
        for key_ids in (None, [0, 0, 0])
    ]
    np.testing.assert_allclose(*(output[:, :, 1:] for output in same))
    with pytest.raises(ValueError, match=r"include the query positions 0 to 2, got shape \(2,\)"):
        scaled_dot_product_attention(x, keys, keys, mask=SegmentMask([0, 0]), positions=step)
    message = r"positions 2 to 3, .* A `CausalMask` is enough if each sequence is one text"
    _, step = cache.step(1)
    x = x[:, :, :1]
    keys, _ = step.update(0, x, x)
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(x, keys, keys, mask=SegmentMask([0, 0, 0]), positions=step)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process")
def test_a_forked_process_goes_on_by_itself():
    """In a process of its own, where no library has threads."""
    code = """
import os
import numpy as np
from positional_embeddings import KVCache
axes = {"feature_axis": -1, "seq_axis": -2}
cache, step = KVCache.empty(1, 1, 8, num_kv_heads=1, head_size=4, **axes).step(2)
step.update(0, *np.ones((2, 1, 1, 2, 4)))
child = os.fork()
keys, _ = cache.step(1)[1].update(0, *np.full((2, 1, 1, 1, 4), 2.0 if child else 3.0))
assert keys[0, 0, :, 0].tolist() == [1, 1, 2.0 if child else 3.0]
assert not child or os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
