"""Random walks over caches: each step is right by plain loops, or an error refuses it.

Caches branch from earlier ones, are rewound, taken and copied, steps leave out layers or are never
stored, and calls are wrong. For each cache the walk knows the tokens that it should hold. The
newest cache of its buffers is never refused.
"""

import copy
import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import (
    AttentionLayer,
    CausalMask,
    KVCache,
    RoPE,
    SlidingWindowMask,
)

HEADS, SIZE, CAPACITY = 2, 4, 24
LAST = {"feature_axis": -1, "seq_axis": -2}
COPIES = [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))]


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
class Buffers:
    """The buffers that caches share, and the one of them that may store."""

    newest: object = None


@dataclass(eq=False)
class Known:
    """A cache, and for each sequence the tokens that it should hold and its next position."""

    cache: object
    buffers: Buffers
    tokens: list
    following: list
    is_whole: bool = True  # whether its last step has stored all layers


class Walk:
    """Calls at random on caches of layers that attend, each of which is right or refused."""

    KINDS = (Kind(is_rotated=True), Kind(3), Kind(5, is_rotated=True))

    def __init__(self, backend, seed):
        self.backend, self.rng = backend, np.random.default_rng(seed)
        self.known = []
        self.steps = self.branches = self.refused = 0
        self.dtype = getattr(backend.xp, backend.wide)
        self.atol = 1e-9 if backend.has_float64 else 1e-5

    def go(self, steps):
        while self.steps < steps:
            if not self.known or self.rng.random() < 0.03:
                self.add(self.new(), is_newest=True)
            newest = [x for x in self.known if x.buffers.newest is x]
            some = newest if newest and self.rng.random() < 0.6 else self.known
            self.move(some[self.rng.integers(len(some))])

    def add(self, known, *, is_newest):
        """Keep a cache, and forget one if there are many."""
        if len(self.known) > 12:
            del self.known[self.rng.integers(len(self.known))]
        self.known.append(known)
        if is_newest:
            known.buffers.newest = known

    def move(self, known):
        rng, batch = self.rng, len(known.tokens)
        kind = rng.choice(["step"] * 12 + ["rewind"] * 4 + ["take", "copy", "copy"])
        can_store = known.is_whole and known.buffers.newest is known
        must_go = can_store and max(map(len, known.tokens)) <= CAPACITY - 6
        try:
            if kind == "step":
                self.step(known)
                self.branches += not can_store
            elif kind == "rewind":
                counts = rng.integers(0, 3, batch) * rng.integers(0, 2)
                counts = counts + rng.integers(0, 4) * (rng.random() < 0.2)
                must_go = must_go and not counts.any()
                self.rewind(known, counts)
            elif kind == "take":
                self.take(known, rng.integers(0, batch, rng.integers(1, 4)))
            else:
                self.copy(known, COPIES[rng.integers(len(COPIES))])
        except (TypeError, ValueError) as error:
            if must_go:
                raise AssertionError from error
            self.refused += 1

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
        options = {"drafts": drafts, "xp": self.backend.xp, "dtype": self.dtype}
        cache = KVCache.empty(layers, batch, CAPACITY, **options)
        return Known(cache, Buffers(), [[] for _ in range(batch)], [0] * batch)

    def arrays(self, qkv):
        return [self.backend.array(x) for x in np.moveaxis(qkv, (2, 1), (0, 3))]

    def step(self, known):
        rng, batch = self.rng, len(known.tokens)
        count = int(rng.choice([1, 1, 1, 2, 3, 6]))
        asked, mask = count, np.ones((batch, count), dtype=int)
        if rng.random() < 0.3:
            asked = mask = rng.integers(0, 2, (batch, count)) * rng.integers(0, 2, (batch, 1))
        qkv = rng.standard_normal((batch, count, 3, HEADS, SIZE))
        positions = np.asarray(known.following)[:, None] + np.cumsum(mask, axis=1) - 1
        options = self.options(positions, mask)
        positions = options.pop("known", positions)
        cache, step = known.cache.step(asked, **options)
        after = [[*row] for row in known.tokens]
        following = [*known.following]
        for row, at in np.argwhere(mask):
            after[row].append(Token(qkv[row, at], int(positions[row, at])))
            following[row] = int(positions[row, at]) + 1
        layers = rng.permutation(len(known.cache._form.layers))
        left_out = rng.choice([0] * 12 + [1, len(layers)])
        arrays, result = self.arrays(qkv), Known(cache, known.buffers, after, following)
        result.is_whole = not left_out
        for number in layers[left_out:].tolist():
            if rng.random() < 0.1:
                self.wrong(step, number, *arrays)
            got = self.backend.numpy(self.attended(step, number, *arrays))
            if known.buffers.newest is known and self.backend.name != "jax":
                known.buffers.newest = result  # from the first layer on
            kind = self.kind(known, number)
            for row in range(batch):
                held = len(known.tokens[row])
                for at in np.flatnonzero(mask[row]):
                    held += 1
                    expected = kind.output(after[row][:held])
                    np.testing.assert_allclose(got[row, :, at], expected, atol=self.atol)
            if rng.random() < 0.05:
                with pytest.raises(ValueError, match="`layer` must be another one in each call"):
                    self.attended(step, number, *arrays)
        if left_out < len(layers):
            self.steps += 1
        if self.backend.name == "jax":  # branches are free
            result.buffers = Buffers(result)
        self.add(result, is_newest=False)

    def kind(self, _known, number):
        return self.KINDS[number]

    def options(self, positions, mask):
        if self.rng.random() > 0.1:
            return {}
        ahead = positions + self.rng.integers(0, 3, (len(mask), 1))
        # Padding has any position.
        return {"known": ahead, "positions": self.backend.array(np.where(mask, ahead, 50))}

    def sinks(self, number):
        no_sinks = self.backend.array(np.full(HEADS, -np.inf))
        return no_sinks if self.KINDS[number].is_rotated else None

    def attended(self, step, number, q, k, v):
        return step.attend(number, q, k, v, sinks=self.sinks(number))

    def wrong(self, step, number, q, k, v):
        wrong = self.backend.array(np.zeros(HEADS + 1))
        for arrays, sinks in (((q, k, v), wrong), ((q, k, v[:, :1]), self.sinks(number))):
            with pytest.raises(ValueError, match=r"`sinks`|`v`"):
                step.attend(number, *arrays, sinks=sinks)

    def rewind(self, known, counts):
        cache = known.cache.rewind(counts)
        tokens = [row[: len(row) - n] for row, n in zip(known.tokens, counts, strict=True)]
        following = [at - int(n) for at, n in zip(known.following, counts, strict=True)]
        buffers = Buffers() if self.backend.name == "jax" else known.buffers
        self.add(Known(cache, buffers, tokens, following), is_newest=True)

    def take(self, known, rows):
        taken = ([known.tokens[row] for row in rows], [known.following[row] for row in rows])
        self.add(Known(known.cache.take(rows), Buffers(), *taken), is_newest=True)

    def copy(self, known, duplicate):
        cache = duplicate(known.cache)
        if cache is not known.cache:
            self.add(Known(cache, Buffers(), known.tokens, known.following), is_newest=True)


class WalkByHand(Walk):
    """Caches of a number of layers, whose caller attends."""

    def new(self):
        rng = self.rng
        batch, layers = (int(rng.integers(1, 4)) for _ in range(2))
        sinks, window, drafts = (int(rng.integers(*ends)) for ends in ((0, 3), (1, 5), (0, 4)))
        options = {"num_kv_heads": HEADS, "head_size": SIZE, "dtype": self.dtype, **LAST}
        if rng.random() < 0.7:
            options |= {"window": window, "num_sink_tokens": sinks, "drafts": drafts}
        capacity = CAPACITY if "window" not in options else None
        cache = KVCache.empty(layers, batch, capacity, xp=self.backend.xp, **options)
        return Known(cache, Buffers(), [[] for _ in range(batch)], [0] * batch)

    def kind(self, known, _number):
        slots = known.cache._form.slots[0]
        return Kind(slots.window, slots.num_sink_tokens)

    def options(self, _positions, _mask):
        return {}

    def attended(self, step, number, q, k, v):
        keys, values = step.update(number, k, v)
        is_ring = step.of(number)._slots.is_ring
        mask = None if is_ring and self.rng.random() < 0.5 else CausalMask()
        return pe.scaled_dot_product_attention(q, keys, values, mask=mask, positions=step)

    def wrong(self, step, number, _q, k, v):
        with pytest.raises(ValueError, match="`k` must have shape"):
            step.update(number, k[:, :1, :, :-1], v)


@pytest.mark.only_on("numpy", "torch", "jax")
@pytest.mark.parametrize("kind", [WalkByHand, Walk])
def test_caches_are_right_or_refuse(backend, kind):
    walk = kind(backend, 0)
    walk.go(20 if backend.name == "jax" else 100)
    assert walk.refused > 5 or backend.name == "jax"  # whose branches are free


@pytest.mark.long
@pytest.mark.only_on("numpy", "torch", "jax")
@pytest.mark.parametrize("kind", [WalkByHand, Walk])
def test_caches_are_right_or_refuse_in_long_walks(backend, kind):
    walk = kind(backend, 1)
    walk.go({"numpy": 5_000, "torch": 1_000}.get(backend.name, 150))
    assert walk.refused < 5 * walk.steps
