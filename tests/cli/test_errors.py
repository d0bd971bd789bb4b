"""Wrong calls of commands, and the one line that each of them prints."""

import io
import sys

import pytest

ERRORS = {
    "draw": "argument COMMAND: must be one of info, check, mask, rope, got 'draw' (see positional-embeddings --help)",
    "info --jsn": "unrecognized arguments: --jsn. Did you mean --json? (see positional-embeddings info --help)",
    "check --library pytorch": "argument --library: must be one of numpy, cupy, torch, jax, dask, cubed, ndonnx, mlx, array_api_strict, got 'pytorch'. Did you mean torch? (see positional-embeddings check --help)",
    "rope": "the following arguments are required: CONFIG (see positional-embeddings rope --help)",
    "mask": "the following arguments are required: MASK, Q_LEN (see positional-embeddings mask --help)",
    "mask causal three": "argument Q_LEN: invalid int value: 'three' (see positional-embeddings mask --help)",
    "mask causal 3 --off 2": "unrecognized arguments: --off. Did you mean --offset? (see positional-embeddings mask --help)",
    "mask causal 3 --offset": "argument --offset: expected one argument (see positional-embeddings mask --help)",
    "mask causal 0": "Q_LEN must be a positive integer, got 0.",
    "mask causal 3 -4": "K_LEN must be a positive integer, got -4.",
    "mask causal 3 --most 3": "--most must be 4 or more, got 3.",
    "mask causal 3 --batch -1": "--batch must be a non-negative integer, got -1.",
    "mask 'PaddingMask([2, 3])' 3 --batch 2": "--batch must be below 2, got 2.",
    "mask 'SlidingWindowMask(-1, 0)' 3": "`left` must be a non-negative integer, got -1.",
    "mask 'SlidingWindowMask(3)' 3": "`SlidingWindowMask` needs `right`, got SlidingWindowMask(3). Write SlidingWindowMask(left, right), such as SlidingWindowMask(1, 0).",
    "mask 'PaddingMask([5])' 3": "`lengths` must be between 0 and the number of keys = 3, got 5 at index 0.",
    "mask 'PaddingMask([2]) | PaddingMask([1, 2, 3]) | PaddingMask([1, 2])' 3": "Masks must have one batch to be combined, got 2 and 3 sequences.",
    "mask '[3] | CausalMask()' 3": "unsupported operand type(s) for |: 'list' and 'CausalMask'",
    "maks causal 3": "argument COMMAND: must be one of info, check, mask, rope, got 'maks'. Did you mean mask? (see positional-embeddings --help)",
    "mask causal 3 --bacth=1": "unrecognized arguments: --bacth=1. Did you mean --batch? (see positional-embeddings mask --help)",
    "mask casual 3": "MASK must be full, causal, or an expression of |, &, ~, literals and calls of masks (--help lists them), such as 'CausalMask() | SlidingWindowMask(3, 0)', got casual. Did you mean causal?",
    "mask 'CausalMask() | ChunkMask(2)' 3": "MASK must be full, causal, or an expression of |, &, ~, literals and calls of masks (--help lists them), such as 'CausalMask() | SlidingWindowMask(3, 0)', got ChunkMask(2). Did you mean ChunkedMask()?",
    "mask 'SegmentMask(segment_ids_from_length([1, 2], 3))' 3": "MASK must be full, causal, or an expression of |, &, ~, literals and calls of masks (--help lists them), such as 'CausalMask() | SlidingWindowMask(3, 0)', got segment_ids_from_length([1, 2], 3). Did you mean segment_ids_from_lengths()?",
    "mask 'len([3])' 3": "MASK must be full, causal, or an expression of |, &, ~, literals and calls of masks (--help lists them), such as 'CausalMask() | SlidingWindowMask(3, 0)', got len([3])",
}


@pytest.mark.parametrize("line", ERRORS)
def test_one_line(call, line):
    assert call(line) == (2, "", f"positional-embeddings: error: {ERRORS[line]}\n")


@pytest.mark.parametrize(
    "mask",
    [
        "~" * 201 + "causal",
        "~" * 3000 + "CausalMask()",
        "~" * 30_000 + "CausalMask()",
        "|".join(["CausalMask()"] * 202),
        "|".join(["CausalMask()"] * 3000),
    ],
)
def test_expressions_that_are_too_deep(call, mask):
    message = "MASK must have at most 200 operations within one another, got more"
    assert call(f"mask '{mask}' 3") == (2, "", f"positional-embeddings: error: {message}\n")


def test_deep_expressions(printed):
    picture = printed("mask causal 3").partition("in Python")[0]
    assert printed(f"mask '{'~' * 200}CausalMask()' 3").startswith(picture)
    nested = "(" * 50 + "CausalMask()" + " | CausalMask()) & CausalMask()" * 50
    assert printed(f"mask '{nested}' 3").startswith(picture)


CONFIG_ERRORS = {
    "[1, 2]": "CONFIG must be a dict or the path of a JSON object, got an object of type list.",
    '{"model_type": "bert"}': "no `RoPE` rotates as the model type 'bert' does: it has no rotary positions, so leave its queries and keys as they are.",
    '{"model_type": "recurrent_gemma", "head_dim": 8}': "--context must be given, as the configuration has no 'max_position_embeddings'.",
    '{"model_type": "new", "head_dim": 8}': "the layout of the model type 'new' is not known: pass --layout half or --layout interleaved, whichever its code has.",
    '{"model_type": "llama", "rope_scaling": 8}': "`rope_scaling` must be a dict, got 8.",
    '{"text_config": 8}': "`text_config` must be a dict, got 8.",
    "": "CONFIG must be a dict or the path of a JSON object, got the standard input, which is no JSON: Expecting value: line 1 column 1 (char 0).",
}


@pytest.mark.parametrize("text", CONFIG_ERRORS)
def test_wrong_configurations(monkeypatch, call, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert call("rope -") == (2, "", f"positional-embeddings: error: {CONFIG_ERRORS[text]}\n")
