"""What `mask` draws and counts, compared with a rule for each pair."""

import json

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.cli import mask
from positional_embeddings.cli.terminal import CommandError
from samples import MASKS, Pair, is_numbers


def around(i, j):
    """Tell whether two tokens of a grid of 2 by 3 touch."""
    (a, b), (c, d) = divmod(i, 3), divmod(j, 3)
    return abs(a - c) <= 1 and abs(b - d) <= 1


DOCUMENTS = "SegmentMask(segment_ids_from_lengths([2, 4], 7))"

# Each call, and which key j query i sees; positions are those among the keys.
RULES = {
    "full 3 5": lambda i, j: i >= 0 <= j,
    "causal 6": lambda i, j: j <= i,
    "causal 2 6": lambda i, j: j <= i,
    "causal 2 6 --offset 1": lambda i, j: j <= i,
    "' CausalMask(mask_diagonal=True)' 5": lambda i, j: j < i,
    "'CausalMask() | SlidingWindowMask(3, 0)' 12": lambda i, j: i - 4 < j <= i,
    "'SlidingWindowMask(2, 0)' 7": lambda i, j: i - 2 <= j <= i,
    "'SlidingWindowMask(left=0, right=None)' 7": lambda i, j: j >= i,
    "'PrefixMask(3)' 6": lambda i, j: j <= i or j < 3,
    "'PrefixMask([3, 1])' 6 --batch 1": lambda i, j: j <= i or j < 1,
    "'ChunkedMask(3)' 7": lambda i, j: i // 3 == j // 3,
    "'DilatedMask(3)' 7": lambda i, j: (i - j) % 3 == 0,
    "'GlobalMask([0, 3])' 5": lambda i, j: {i, j} & {0, 3},
    "'(CausalMask() | SlidingWindowMask(1, 0)) & GlobalMask((0,))' 6": lambda i, j: (
        i - 2 < j <= i or 0 in (i, j)
    ),
    "'CausalMask() | SlidingWindowMask(1, 0) & GlobalMask([0])' 6": lambda i, j: (
        j <= i and (i - 2 < j or 0 in (i, j))
    ),
    "'NeighbourhoodMask((2, 3), 1)' 6": around,
    "'~CausalMask()' 6": lambda i, j: j > i,
    "'~(~CausalMask() | ChunkedMask(2))' 6": lambda i, j: not (j > i and i // 2 == j // 2),
    "'PaddingMask([2, 3])' 4": lambda i, j: i >= 0 and j < 2,
    "'PaddingMask([2, 3], \"left\")' 4 --batch 1": lambda i, j: i >= 0 and j >= 1,
    "'CausalMask() | PaddingMask([3, 5])' 8 --batch 1": lambda i, j: j <= i and j < 5,
    "'SegmentMask([0, 0, 1, -1])' 4": lambda i, j: (i < 2 and j < 2) or i == j == 2,
    f"'{DOCUMENTS}' 7": lambda i, j: [0, 0, 1, 1, 1, 1, -1][i] == [0, 0, 1, 1, 1, 1, 9][j],
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
    value = eval(data["python"], vars(pe))
    dense = value.dense(q_len, k_len, offset=offset)[:, :, data["batch"]]
    np.testing.assert_array_equal(~dense, expected)
    drawn = pe.describe_mask(value, q_len, k_len, offset=offset, batch=data["batch"])
    assert data["picture"] == drawn.splitlines()


def test_text(printed):
    assert printed("mask 'CausalMask()|(SlidingWindowMask(1,0))' 4") == (
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
    assert "these queries see no key: 2, 3\n" in printed("mask 'SegmentMask([0, 0, -1, -1])' 4")
    many = "no key: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (18 queries)\n"
    ids = "segment_ids_from_lengths([2], 20)"
    assert many in printed(f"mask 'SegmentMask({ids})' 20")
    ten = "no key: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n"
    assert ten in printed("mask 'SegmentMask(segment_ids_from_lengths([2], 12))' 12")


def test_long_masks(printed):
    text = printed("mask causal 5000 --most 6")
    assert "    :\n 4998 ##:#.\n 4999 ##:##\n" in text
    assert "visible:   12,502,500 of 25,000,000 pairs, 50.0%" in text
    text = printed("mask 'DilatedMask(2)' 1000000")
    assert "visible:   not counted, of 1,000,000,000,000 pairs\n" in text
    data = json.loads(printed("mask 'DilatedMask(2)' 1000000 --json"))
    assert data["pairs"] == 10**12
    assert "visible" not in data


def test_pairs_are_counted_to_a_number_of_all_sequences(printed):
    """To 2**26; three sequences of 25,000,000 pairs are more."""
    text = printed(f"mask full 1 {2**26}")
    assert text.endswith(
        "\nvisible:   67,108,864 of 67,108,864 pairs, 100.0%; every query sees a key\n"
    )
    text = printed(f"mask full 1 {2**26 + 1}")
    assert text.endswith("\nvisible:   not counted, of 67,108,865 pairs\n")
    text = printed("mask 'PaddingMask([1, 2, 3])' 5000")
    assert text.endswith("\nvisible:   not counted, of 25,000,000 pairs\n")


def test_so_many_queries_are_drawn(printed):
    text = printed("mask causal 33")
    assert text == printed("mask causal 33 --most 32") != printed("mask causal 33 --most 33")


def test_a_mask_of_all_sequences_is_that_of_each(printed):
    assert printed("mask causal 3 --batch 1") == printed("mask causal 3")


@pytest.mark.complete
@pytest.mark.parametrize("kind", sorted(MASKS.keys() - {"FunctionMask"}))
def test_every_mask_of_the_library(printed, kind):
    """But those of a function, which is no literal."""
    hides, listed = MASKS[kind].hides, printed("mask --help")
    for values in MASKS[kind].values:
        literals = {
            name: np.asarray(v).tolist() if is_numbers(v) else v for name, v in values.items()
        }
        arguments = ", ".join(f"{name}={value!r}" for name, value in literals.items())
        data = json.loads(printed(f"""mask "{kind}({arguments})" 5 --json"""))
        for i, ranges in enumerate(data["visible_keys"]):
            seen = {j for start, stop in ranges for j in range(start, stop)}
            assert seen == {j for j in range(5) if not hides(Pair(i, j, 0, 5), **literals)}
    summary = getattr(pe, kind).__doc__.splitlines()[0]
    assert f"  {kind}({', '.join(values)})\n      {summary}\n" in listed


def test_what_can_be_called_is_a_mask_or_makes_one():
    assert mask._CALLABLE.keys() == MASKS.keys() - {"FunctionMask"} | {"segment_ids_from_lengths"}


@pytest.mark.parametrize(
    ("expression", "got"),
    [
        ("causl", "causl. Did you mean causal?"),
        ("CausalMask", "CausalMask. Did you mean CausalMask()?"),
        ("CausalMask() | CauslMask()", "CauslMask(). Did you mean CausalMask()?"),
        ("CausalMask() + CausalMask()", "CausalMask() + CausalMask()"),
        ("CausalMask() or CausalMask()", "CausalMask() or CausalMask()"),
        ("CausalMask().dense(3)", "CausalMask().dense(3)"),
        ("__import__('os').getcwd()", "__import__('os').getcwd()"),
        ("(lambda: CausalMask())()", "(lambda: CausalMask())()"),
        ("SlidingWindowMask(n, 0)", "n"),
        ("SlidingWindowMask(2 ** 9, 0)", "2 ** 9"),
        ("PaddingMask([n])", "[n]"),
        ("PaddingMask(*[3])", "*[3]"),
        ("CausalMask(", "'CausalMask(', which is no Python: '(' was never closed"),
        ("", "'', which is no Python: invalid syntax"),
        ("3 | 4", "3 | 4"),
        ("segment_ids_from_lengths([3])", "segment_ids_from_lengths([3])"),
    ],
)
def test_no_other_python(expression, got):
    with pytest.raises(CommandError) as raised:
        mask.read_mask(expression)
    assert str(raised.value) == (
        "MASK must be full, causal, or an expression of |, &, ~, literals and calls of masks "
        f"(--help lists them), such as 'CausalMask() | SlidingWindowMask(3, 0)', got {got}"
    )


@pytest.mark.parametrize("count", [5_000, 100_000])
def test_expressions_without_end(call, count):
    status, out, err = call(f"mask {'~' * count}CausalMask() 3")
    assert (status, out, err.count("\n")) == (2, "", 1)
