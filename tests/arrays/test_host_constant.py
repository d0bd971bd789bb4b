"""Caching of constants that the host computes."""

import tracemalloc

import numpy as np

from positional_embeddings import random_fourier_encoding
from positional_embeddings.arrays import caching
from positional_embeddings.arrays.caching import cached_constant


def plural():
    """Return a constant, a text as long as its argument, and the arguments it was computed for."""
    computed = []

    @cached_constant
    def text(length):
        computed.append(length)
        return "a" * length

    return text, computed


def test_constants_are_computed_once():
    text, computed = plural()
    for length in (3, 4, 3, 4):
        assert text(length) == "a" * length
    assert computed == [3, 4]


def test_many_large_constants_are_not_kept(monkeypatch):
    monkeypatch.setattr(caching, "_MAX_BYTES", 10_000)
    text, computed = plural()
    for length in range(4000, 4006):
        text(length)
        text(length)
    assert computed == [*range(4000, 4006)]
    before = len(computed)
    for length in reversed(range(4000, 4006)):
        text(length)
    # Of some that are asked for again, not more than the limit holds were caching.
    assert len(computed) - before >= 4


def test_a_constant_larger_than_the_limit_serves_the_next_call(monkeypatch):
    monkeypatch.setattr(caching, "_MAX_BYTES", 10)
    text, computed = plural()
    assert text(1000) is text(1000)
    assert computed == [1000]


def test_lists_count_with_all_they_hold():
    numbers = np.linspace(1, 2, 1000).tolist()
    assert caching._memory_size([numbers, (1.5, "text")]) > 1000 * (8 + 24)


def test_frequencies_of_many_seeds_are_not_all_kept(monkeypatch):
    """The cached text of the frequencies of each seed, and the numbers from it."""
    monkeypatch.setattr(caching, "_MAX_BYTES", 2**19)
    x = np.ones((2, 1))
    tracemalloc.start()
    try:
        for seed in range(1000, 1012):
            random_fourier_encoding(x, 2**11, rng=seed)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Five such functions compute frequencies: their texts, largest numbers and three parts.
    assert held < 5 * 2**19
