"""Random walks over caches: what each step gives is right by plain loops, or an error refuses it.

Caches leave the straight way: they branch from earlier ones, are copied, share buffers with others,
and get calls that are wrong. For each cache the walk knows the tokens that it should hold.
"""

import copy
import math
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import (
    AttentionLayer,
    CausalMask,
    DecoderCache,
    KVCache,
    RoPE,
    SlidingWindowMask,
)

HEADS, SIZE, CAPACITY = 2, 4, 24
LAST = {"feature_axis": -1, "seq_axis": -2}
COPIES = [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache)), replace]


@dataclass(frozen=True, eq=False)
class Token:
    """Query, key and value of a token, (3, head, feature), and the position they are rotated to."""

    qkv: np.ndarray
    position: int


@dataclass(frozen=True)
class Kind:
    """What the queries of a layer see, their own token among it."""

    window: int | None = None
    sinks: int = 0
    is_rotated: bool = False

    def output(self, tokens):
        """Return what the last of some tokens attends to, (head, feature)."""
        first = 0 if self.window is None else len(tokens) - self.window
        seen = [token for at, token in enumerate(tokens) if at < self.sinks or at >= first]
        out = np.zeros((HEADS, SIZE))
        for head in range(HEADS):
            query = self.turned(tokens[-1], 0, head)
            keys = [self.turned(token, 1, head) for token in seen]
            scores = [
                math.fsum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(SIZE)
                for key in keys
            ]
            weights = [math.exp(score - max(scores)) for score in scores]
            for weight, token in zip(weights, seen, strict=True):
                out[head] += weight / math.fsum(weights) * token.qkv[2, head]
        return out

    def turned(self, token, which, head):
        x = token.qkv[which, head].tolist()
        half, turned = SIZE // 2, [0.0] * SIZE
        for i in range(half):
            angle = token.position * 100.0 ** (-i / half) if self.is_rotated else 0.0
            turned[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
            turned[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
        return turned


@dataclass(eq=False)
class Known:
    """A cache, its buffers, and for each sequence what it should hold and its next position."""

    cache: object
    buffers: list
    tokens: list
    following: list


class Walk:
    """Calls at random, each of which is right or refused."""

    def __init__(self, backend, seed):
        self.backend, self.rng = backend, np.random.default_rng(seed)
        self.known, self.stored_last = [], {}
        self.steps = self.branches = self.refused = 0
        self.atol = 1e-9 if backend.has_float64 else 1e-5

    def go(self, steps):
        while self.steps < steps:
            if not self.known or self.rng.random() < 0.03:
                self.add(self.new())
            self.move(self.known[self.rng.integers(len(self.known))])

    def add(self, known):
        """Keep a cache, and forget one if there are many."""
        if len(self.known) > 12:
            del self.known[self.rng.integers(len(self.known))]
        self.known.append(known)

    def move(self, known):
        rng, batch = self.rng, len(known.tokens)
        kind = rng.choice(["step"] * 12 + ["rewind"] * 5 + ["take", "copy", "copy", "start over"])
        goes_on = kind == "step" and self.stored_last.get(id(known.buffers)) == known
        try:
            if kind == "step":
                self.step(known)
                self.branches += not goes_on
            elif kind == "rewind":
                counts = rng.integers(0, 3, batch) * rng.integers(0, 2)
                self.rewind(known, counts + rng.integers(0, 4) * (rng.random() < 0.2))
            elif kind == "take":
                rows = rng.integers(0, batch, rng.integers(1, 4))
                self.take(known, np.arange(batch) if rng.random() < 0.3 else rows)
            elif kind == "copy":
                self.copy(known, COPIES[rng.integers(len(COPIES))])
            else:
                self.start_over(known)
        except (TypeError, ValueError) as error:
            is_full = max(map(len, known.tokens)) > known.cache.capacity - 6
            if goes_on and not is_full:
                raise AssertionError from error
            self.refused += 1

    def new_tokens(self, known):
        """Return the tokens of a step, and these as a mask, as arrays, and at their positions."""
        rng, batch = self.rng, len(known.tokens)
        count = int(rng.choice([1, 1, 1, 2, 3, 6]))
        asked, mask = count, np.ones((batch, count), dtype=int)
        if rng.random() < 0.3:
            asked = mask = rng.integers(0, 2, (batch, count)) * rng.integers(0, 2, (batch, 1))
        qkv = rng.standard_normal((batch, count, 3, HEADS, SIZE))
        positions = np.asarray(known.following)[:, None] + np.cumsum(mask, axis=1) - 1
        return asked, mask, qkv, positions

    def arrays(self, qkv):
        return [self.backend.array(x) for x in np.moveaxis(qkv, (2, 1), (0, 3))]

    def checked(self, kind, known, mask, qkv, positions, got):
        """Compare an output with the oracle, and return the tokens after the step."""
        after, got = [[*row] for row in known.tokens], self.backend.numpy(got)
        for row, at in np.argwhere(mask):
            after[row].append(Token(qkv[row, at], int(positions[row, at])))
            np.testing.assert_allclose(got[row, :, at], kind.output(after[row]), atol=self.atol)
        return after

    def after_step(self, known, cache, tokens, positions, mask):
        following = [*known.following]
        for row, at in np.argwhere(mask):
            following[row] = int(positions[row, at]) + 1
        self.steps += 1
        self.add(Known(cache, known.buffers, tokens, following))
        self.stored_last[id(known.buffers)] = self.known[-1]

    def rewind(self, known, counts):
        cache = known.cache.rewind(counts)
        tokens = [row[: len(row) - n] for row, n in zip(known.tokens, counts, strict=True)]
        following = [at - int(n) for at, n in zip(known.following, counts, strict=True)]
        self.add(Known(cache, known.buffers, tokens, following))


class WalkByHand(Walk):
    """Caches of a layer whose buffers are arrays of the caller, full or with a window and sinks."""

    def new(self):
        rng, batch = self.rng, int(self.rng.integers(1, 4))
        if rng.random() < 0.3:
            return self.of(batch, CAPACITY, 0, None)
        sinks, window, more = (int(rng.integers(*ends)) for ends in ((0, 3), (1, 5), (0, 4)))
        return self.of(batch, sinks + window + more, sinks, window)

    def of(self, batch, capacity, sinks, window, buffers=None):
        options = {"window": window, "xp": self.backend.xp, **LAST}
        cache = KVCache.empty(batch, capacity, sinks, **options)
        if buffers is None:
            empty = np.zeros((2, batch, HEADS, capacity, SIZE))
            buffers = [self.backend.array(x) for x in empty]
        return Known(cache, buffers, [[] for _ in range(batch)], [0] * batch)

    def start_over(self, known):
        """Begin with other sequences in the same buffers, perhaps with fewer slots."""
        old = known.cache
        has_more = old.capacity > 1 + old.num_sink_tokens + (old.window or 0)
        capacity = old.capacity - int(self.rng.integers(0, 1 + has_more))
        self.add(
            self.of(len(known.tokens), capacity, old.num_sink_tokens, old.window, known.buffers)
        )

    def step(self, known):
        asked, mask, qkv, positions = self.new_tokens(known)
        cache, step = known.cache.step(asked)
        q, k, v = self.arrays(qkv)
        buffers = known.buffers
        if self.rng.random() < 0.1:
            with pytest.raises(ValueError, match="`new` must have shape"):
                step.store(buffers[0], k[:, :1, :, :-1])
        stored = [step.store(*pair) for pair in zip(buffers, (k, v), strict=True)]
        buffers[:] = [buffer for buffer, _ in stored]
        window, sinks = cache.window, cache.num_sink_tokens
        masks = [CausalMask(), None, SlidingWindowMask(None, None)]
        hidden = masks[self.rng.integers(3)] if window else CausalMask()
        got = pe.scaled_dot_product_attention(
            q, *(seen for _, seen in stored), mask=hidden, positions=step
        )
        tokens = self.checked(Kind(window, sinks), known, mask, qkv, positions, got)
        self.after_step(known, cache, tokens, positions, mask)

    def take(self, known, rows):
        buffers = known.buffers
        if rows.tolist() != [*range(len(known.tokens))]:
            if not self.is_held(known):
                return  # nobody knows from which buffers rows come
            buffers = [self.backend.array(self.backend.numpy(x)[rows]) for x in buffers]
        taken = ([known.tokens[row] for row in rows], [known.following[row] for row in rows])
        self.add(Known(known.cache.take(rows), buffers, *taken))

    def copy(self, known, duplicate):
        buffers = known.buffers
        if self.rng.random() < 0.3 and self.is_held(known):
            buffers = [copy.deepcopy(x) for x in buffers]
        self.add(Known(duplicate(known.cache), buffers, known.tokens, known.following))

    def is_held(self, known):
        """Tell by their numbers whether buffers hold all tokens that a cache has slots for."""
        capacity, sinks = known.cache.capacity, known.cache.num_sink_tokens
        for which, buffer in zip((1, 2), known.buffers, strict=True):
            held = self.backend.numpy(buffer)
            for row, tokens in enumerate(known.tokens):
                for at, token in enumerate(tokens):
                    slot = at if at < sinks else sinks + (at - sinks) % (capacity - sinks)
                    has_slot = at < sinks or at >= len(tokens) - (capacity - sinks)
                    key = self.backend.numpy(self.backend.array(token.qkv[which]))
                    if has_slot and not np.array_equal(held[row, :, slot], key):
                        return False
        return True


class WalkOfLayers(Walk):
    """Caches of a layer that sees all tokens, and of two with windows."""

    KINDS = (Kind(is_rotated=True), Kind(3), Kind(5, is_rotated=True))

    def new(self):
        rope = RoPE(SIZE, 64, base=100.0, **LAST)
        layers = [
            AttentionLayer(
                HEADS,
                SIZE,
                rope=rope if kind.is_rotated else None,
                mask=CausalMask() | SlidingWindowMask(kind.window and kind.window - 1, None),
                window=kind.window,
                has_sinks=kind.is_rotated,
                **LAST,
            )
            for kind in self.KINDS
        ]
        batch, drafts = (int(self.rng.integers(*ends)) for ends in ((1, 4), (0, 3)))
        dtype = getattr(self.backend.xp, self.backend.wide)
        options = {"drafts": drafts, "xp": self.backend.xp, "dtype": dtype}
        cache = DecoderCache.empty(layers, batch, CAPACITY, **options)
        return Known(cache, [], [[] for _ in range(batch)], [0] * batch)

    def start_over(self, known):
        """Begin with other sequences in the same buffers."""
        batch = len(known.tokens)
        empty = [
            KVCache.empty(batch, c.capacity, window=c.window, xp=self.backend.xp, **LAST)
            for c in known.cache.caches
        ]
        cache = DecoderCache(known.cache.layers, tuple(empty), known.cache.buffers)
        self.add(Known(cache, known.buffers, [[] for _ in range(batch)], [0] * batch))

    def step(self, known):
        asked, mask, qkv, positions = self.new_tokens(known)
        options = {}
        if self.rng.random() < 0.1:  # padding has any
            positions = positions + self.rng.integers(0, 3, (len(mask), 1))
            options["positions"] = self.backend.array(np.where(mask, positions, 50))
        cache, step = known.cache.step(asked, **options)
        q, k, v = self.arrays(qkv)
        no_sinks = self.backend.array(np.full(HEADS, -np.inf))
        is_whole = self.rng.random() < 0.95
        self.stored_last.pop(id(known.buffers), None)  # until all layers have stored
        for number, kind in enumerate(self.KINDS):
            sinks = no_sinks if kind.is_rotated else None
            if self.rng.random() < 0.1:
                wrong = self.backend.array(np.zeros(HEADS + 1))
                for arrays, given in (((q, k, v), wrong), ((q, k, v[:, :1]), sinks)):
                    with pytest.raises(ValueError, match=r"`sinks`|`v`|`buffer`"):
                        step.attend(number, *arrays, sinks=given)
            if is_whole or self.rng.random() < 0.5:
                got = step.attend(number, q, k, v, sinks=sinks)
                tokens = self.checked(kind, known, mask, qkv, positions, got)
        if is_whole:
            self.after_step(known, cache, tokens, positions, mask)

    def take(self, known, rows):
        taken = ([known.tokens[row] for row in rows], [known.following[row] for row in rows])
        self.add(Known(known.cache.take(rows), [], *taken))

    def copy(self, known, duplicate):
        buffers = known.buffers if duplicate in (copy.copy, replace) else []
        self.add(Known(duplicate(known.cache), buffers, known.tokens, known.following))


@pytest.mark.only_on("numpy", "torch")
@pytest.mark.parametrize("kind", [WalkByHand, WalkOfLayers])
def test_caches_are_right_or_refuse(backend, kind):
    walk = kind(backend, 0)
    walk.go(60)
    assert walk.branches > 20


@pytest.mark.long
@pytest.mark.only_on("numpy", "torch", "jax")
@pytest.mark.parametrize("kind", [WalkByHand, WalkOfLayers])
def test_caches_are_right_or_refuse_in_long_walks(backend, kind):
    walk = kind(backend, 1)
    walk.go(300 if backend.name == "jax" else 10_000)
    assert walk.branches > walk.steps / 3
    assert walk.refused < 5 * walk.steps
