"""Pack three documents into one row, and show that attention keeps them apart.

Short documents in a padded batch waste space. Packed one after another they fill one row,
which gives the same outputs as a call for each document if

    the mask hides every key of another document, and those after the query;
    the positions start from 0 in each document, as they would in a call of its own.

(The scores of RoPE depend on distances alone, so that here the second only saves a longer
table and rounding errors; an encoding that is added to the features would be wrong without it.)

Prints the mask, both results for each token, and the largest difference between them.
"""

import sys
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from positional_embeddings import (
    CausalMask,
    Mask,
    RoPE,
    SegmentMask,
    cumulative_lengths,
    describe_mask,
    positions_from_segment_ids,
    scaled_dot_product_attention,
    segment_ids_from_lengths,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

LENGTHS = [4, 2, 5]  # tokens of each document
HEAD, HEADS = 8, 2
SHOWN = 4  # features that are printed, of the first head
TOLERANCE = 1e-12

rope = RoPE(HEAD, max(LENGTHS))  # the table need not reach the end of the row


def packed(q: Array, k: Array, v: Array) -> tuple[Array, Mask]:
    """Return the outputs (head, tokens, heads) of one call for all documents, and its mask."""
    segments = segment_ids_from_lengths(LENGTHS)
    positions = positions_from_segment_ids(segments)
    mask = CausalMask() | SegmentMask(segments)
    q, k = rope(q, positions=positions), rope(k, positions=positions)
    return scaled_dot_product_attention(q, k, v, mask=mask), mask


def alone(q: Array, k: Array, v: Array) -> Array:
    """Return the outputs (head, tokens, heads) of one document."""
    return scaled_dot_product_attention(rope(q), rope(k), v, mask=CausalMask())


def numbers(values: Array) -> str:
    """Return a few numbers in columns."""
    return "".join(f"{value:8.4f}" for value in values)


def main() -> int:
    """Run the example; return 0 if both ways agree."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, HEAD, sum(LENGTHS), HEADS))

    together, mask = packed(q, k, v)
    print(f"Documents of {', '.join(map(str, LENGTHS))} tokens, packed in one row:\n")
    print(describe_mask(mask, sum(LENGTHS)))

    largest = 0.0
    bounds = cumulative_lengths(LENGTHS)
    for document, (start, stop) in enumerate(pairwise(bounds)):
        separate = alone(*(x[:, start:stop, :] for x in (q, k, v)))
        of_packed = together[:, start:stop, :]
        largest = max(largest, float(np.abs(of_packed - separate).max()))
        heading = f"document {document}"
        print(f"\n{heading:<14}{'packed':<{8 * SHOWN}}    alone")
        for token in range(stop - start):
            left, right = (numbers(x[:SHOWN, token, 0]) for x in (of_packed, separate))
            print(f"  token {token:<4}{left}  |{right}")

    print(f"\nLargest difference, over all features and heads: {largest:.1e}")
    return int(not largest <= TOLERANCE)  # NaN fails too


if __name__ == "__main__":
    sys.exit(main())
