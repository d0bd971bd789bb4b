"""Loops of a library over blocks of equal length, for attention that is traced and compiled.

A loop of Python would be unrolled: as long to compile as there are blocks, and with the memory of
all of them. In a loop of the library the blocks have one shape, and begin where the trace counts.
"""

from typing import Any, NamedTuple, TypeAlias

from positional_embeddings._core.memory import cuts
from positional_embeddings._core.namespace import Namespace, default_integer
from positional_embeddings.attention.blocks import Indices, Visibility

# Shorter blocks than so many queries or keys are not worth a step of a loop.
_LEAST = 128
_MULTIPLE = 64


class Stretch(NamedTuple):
    """Queries or keys one after another, of which a trace knows the number alone."""

    start: Any  # 0-d array of int
    size: int

    def indices(self, xp: Namespace, device: Any) -> Any:
        """Return the indices of all of them."""
        dtype = default_integer(xp, device)
        return self.start + xp.arange(self.size, dtype=dtype, device=device)


# Not a union in annotations of functions within functions, which PyTorch cannot compile.
Block: TypeAlias = Indices | Stretch


class LoopPlan(NamedTuple):
    """Blocks of equal length, and which blocks of keys each block of queries visits.

    What equal blocks leave over of queries or of keys is a shorter block of its own, the last.
    """

    q_block: int
    k_block: int
    keys: list[list[int]]  # for each block of queries, which whole blocks of keys, all as many
    visited: list[list[bool]]  # which of them are not there to fill up the list
    visits_rest: list[bool]  # whether it visits the keys left over


def block_size_of_loops(most: int, rows: int) -> int:
    """Return how many queries and keys have about `most` scores in all rows together."""
    return max(_LEAST, int((most / rows) ** 0.5) // _MULTIPLE * _MULTIPLE)


def plan_loops(q_len: int, k_len: int, size: int, visibility: Visibility | None) -> LoopPlan:
    """Return blocks of at most `size` queries and keys, without those that a mask hides."""
    q_block, k_block = (-(-n // -(-n // min(n, size))) for n in (q_len, k_len))
    whole = k_len // k_block
    keys, visits_rest = [], []
    for at in cuts(q_len, q_block):
        queries = ((at.start, at.stop),)
        seen = visibility.reach(queries).at_most if visibility else ((0, k_len),)
        some = {j for start, stop in seen for j in range(start // k_block, -(-stop // k_block))}
        keys.append(sorted(some - {whole}))
        visits_rest.append(whole in some)
    longest = max(map(len, keys))
    visited = [[j < len(some) for j in range(longest)] for some in keys]
    filled = [some + [0] * (longest - len(some)) for some in keys]
    return LoopPlan(q_block, k_block, filled, visited, visits_rest)


def in_blocks(array: Any, axis: int, length: int, xp: Namespace) -> tuple[Any, Any]:
    """Return the whole blocks of an array on axis -1 or -2, first (block, ...), and the rest."""
    size = array.shape[axis]
    whole = size // length
    after = (slice(None),) * (-1 - axis)
    shape = list(array.shape)
    at = len(shape) + axis
    shape[at : at + 1] = whole, length
    blocks = xp.reshape(array[(..., slice(0, whole * length), *after)], tuple(shape))
    others = (i for i in range(len(shape)) if i != at)
    return xp.permute_dims(blocks, (at, *others)), array[(..., slice(whole * length, size), *after)]


def from_blocks(blocks: Any, xp: Namespace) -> Any:
    """Return blocks (block, ..., query, feature) as one array (..., query, feature)."""
    last = blocks.ndim - 1
    moved = xp.permute_dims(blocks, (*range(1, last - 1), 0, last - 1, last))
    *rows, count, length, features = moved.shape
    return xp.reshape(moved, (*rows, count * length, features))
