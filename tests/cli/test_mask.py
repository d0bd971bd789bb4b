"""What `mask` draws and counts, compared with a rule for each pair."""

import json

import numpy as np
import pytest

import positional_embeddings as pe


def around(i, j):
    """Tell whether two tokens of a grid of 2 by 3 touch."""
    (a, b), (c, d) = divmod(i, 3), divmod(j, 3)
    return abs(a - c) <= 1 and abs(b - d) <= 1


# Each call, and which key j query i sees; positions are those among the keys.
RULES = {
    "full 3 5": lambda i, j: i >= 0 <= j,
    "causal 6": lambda i, j: j <= i,
    "causal 2 6": lambda i, j: j <= i,
    "causal 2 6 --offset 1": lambda i, j: j <= i,
    "causal 5 --hide-own": lambda i, j: j < i,
    "causal 12 --window 4": lambda i, j: i - 4 < j <= i,
    "window 7 --window 2": lambda i, j: i - 2 < j <= i,
    "window 7 --left 2 --right 0": lambda i, j: i - 2 <= j <= i,
    "window 7 --left 0": lambda i, j: j >= i,
    "window 7 --right 1": lambda i, j: j <= i + 1,
    "prefix 6 --prefix 3": lambda i, j: j <= i or j < 3,
    "prefix 6 --prefix 3,1 --batch 1": lambda i, j: j <= i or j < 1,
    "chunked 7 --chunk 3": lambda i, j: i // 3 == j // 3,
    "causal 7 --chunk 3": lambda i, j: i // 3 == j // 3 and j <= i,
    "dilated 7 --step 3": lambda i, j: (i - j) % 3 == 0,
    "global 5 --global 0,3": lambda i, j: {i, j} & {0, 3},
    "causal 6 --window 2 --global 0": lambda i, j: i - 2 < j <= i or 0 in (i, j),
    "grid 6 --grid 2,3": around,
    "grid 6 --grid 2,3 --around 0": lambda i, j: i == j,
    "padding 4 --lengths 2,3": lambda i, j: i >= 0 and j < 2,
    "padding 4 --lengths 2,3 --batch 1 --side left": lambda i, j: i >= 0 and j >= 1,
    "causal 8 --lengths 3,5 --batch 1": lambda i, j: j <= i and j < 5,
    "segment 7 --segments 2,4": lambda i, j: [0, 0, 1, 1, 1, 1, -1][i] == [0, 0, 1, 1, 1, 1, 9][j],
    "causal 7 --segments 2,5 --global 0": lambda i, j: (
        [0, 0, 1, 1, 1, 1, 1][i] == [0, 0, 1, 1, 1, 1, 1][j] and (j <= i or 0 in (i, j))
    ),
}


@pytest.mark.parametrize("line", RULES)
def test_every_pair(printed, line):
    data = json.loads(printed(f"mask {line} --json"))
    q_len, k_len, offset = data["q_len"], data["k_len"], data["offset"]
    expected = np.asarray(
        [[bool(RULES[line](i + offset, j)) for j in range(k_len)] for i in range(q_len)]
    )
    seen = np.zeros((q_len, k_len), dtype=bool)
    for row, ranges in zip(seen, data["visible_keys"], strict=True):
        for start, stop in ranges:
            row[start:stop] = True
    np.testing.assert_array_equal(seen, expected)
    assert data["visible"] == expected.sum()
    assert data["pairs"] == expected.size
    assert data["share_visible"] == pytest.approx(expected.mean())
    assert data["fully_masked_queries"] == [i for i, row in enumerate(expected) if not row.any()]
    mask = eval(data["python"], vars(pe))
    dense = mask.dense(q_len, k_len, offset=offset)[:, :, data["batch"] if mask._batch() else 0]
    np.testing.assert_array_equal(~dense, expected)
    drawn = pe.describe_mask(mask, q_len, k_len, offset=offset, batch=data["batch"])
    assert data["picture"] == drawn.splitlines()


def test_text(printed):
    assert printed("mask causal 4 --window 2") == (
        "      key\n"
        "      0123\n"
        "query\n"
        "    0 #...\n"
        "    1 ##..\n"
        "    2 .##.\n"
        "    3 ..##\n"
        "# attends   . masked   (4 queries, 4 keys)\n"
        "\n"
        "in Python: CausalMask() | SlidingWindowMask(1, 0)\n"
        "visible:   7 of 16 pairs, 43.8%; every query sees a key\n"
    )


def test_queries_that_see_no_key(printed):
    assert "these queries see no key: 2, 3\n" in printed("mask segment 4 --segments 2")
    many = "no key: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (18 queries)\n"
    assert many in printed("mask segment 20 --segments 2")


def test_long_masks(printed):
    text = printed("mask causal 5000 --most 6")
    assert "    :\n 4998 ##:#.\n 4999 ##:##\n" in text
    assert "visible:   12,502,500 of 25,000,000 pairs, 50.0%" in text
    text = printed("mask dilated 1000000 --step 2")
    assert "visible:   not counted, of 1,000,000,000,000 pairs\n" in text
