"""Wrong calls of commands, and the one line that each of them prints."""

import io
import sys

import pytest

KINDS = "full, causal, window, prefix, chunked, dilated, global, grid, padding, segment"
ERRORS = {
    "draw": "argument COMMAND: must be one of info, check, mask, rope, plot, got 'draw' (see positional-embeddings --help)",
    "info --jsn": "unrecognized arguments: --jsn; is --json meant? (see positional-embeddings info --help)",
    "check --library pytorch": "--library must be one of numpy, cupy, torch, jax, dask, cubed, ndonnx, mlx, array_api_strict, got 'pytorch'",
    "plot": "the following arguments are required: KIND (see positional-embeddings plot --help)",
    "plot map 3": "argument KIND: must be one of encoding, similarity, mask, bias, attention, decay, wavelengths, got 'map' (see positional-embeddings plot --help)",
    "plot encoding 3 4": "the following arguments are required: --output/-o (see positional-embeddings plot encoding --help)",
    "rope": "the following arguments are required: CONFIG (see positional-embeddings rope --help)",
    "mask": "the following arguments are required: KIND, Q_LEN (see positional-embeddings mask --help)",
    "mask causl 3": f"argument KIND: must be one of {KINDS}, got 'causl' (see positional-embeddings mask --help)",
    "mask causal three": "argument Q_LEN: must be an integer, got 'three' (see positional-embeddings mask --help)",
    "mask causal 3 --wind 2": "unrecognized arguments: --wind 2; is --window meant? (see positional-embeddings mask --help)",
    "mask causal 3 --window": "argument --window: expected one argument (see positional-embeddings mask --help)",
    "mask padding 3 --lengths 1,x": "argument --lengths: must be integers separated by commas, got '1,x' (see positional-embeddings mask --help)",
    "mask padding 3 --lengths 1 --side up": "argument --side: must be one of right, left, got 'up' (see positional-embeddings mask --help)",
    "mask causal 0": "Q_LEN must be a positive integer, got 0.",
    "mask causal 3 --most 3": "`most` must be 4 or more, got 3.",
    "mask causal 3 --window 0": "--window must be 1 or more, got 0",
    "mask causal 3 --window 2 --left 0": "--window goes without --left and --right",
    "mask window 3": "the kind window needs --window or --left or --right",
    "mask window 3 --left -1": "--left must be a non-negative integer, got -1.",
    "mask segment 3": "the kind segment needs --segments",
    "mask segment 3 --segments 2,2": "--segments must be at most 3 together, the keys, got 4",
    "mask causal 3 --prefix 2": "--prefix goes with the kind prefix only",
    "mask full 3 --hide-own": "--hide-own goes with the kind causal only",
    "mask causal 3 --side left": "--side goes with --lengths only",
    "mask causal 3 --around 0": "--around goes with --grid only",
    "mask padding 3 --lengths 2,3 --batch 2": "--batch must be 0 to 1, one of the sequences, got 2",
    "mask padding 3 --lengths 5": "--lengths must be between 0 and the number of keys = 3, got 5 at index 0.",
    "mask full 6 --global 0": "--global opens what is hidden by position: the kind full hides nothing so; --window would, or the kind global",
    "mask causal 6 --global 9": "--global must be positions below 6, of queries or keys, got 9",
    "mask grid 6 --grid 2,2": "--grid must have a token for each query and key, got (2, 2), 4 tokens, for queries from position 0 to 5 and 6 keys.",
    "mask prefix 6 --prefix 7": "--prefix must be between 0 and the number of keys = 6, got 7 at index 0.",
    "mask chunked 6 --chunk 0": "--chunk must be a positive integer, got 0.",
    "mask segment 6 --segments 3,-1": "--segments must be 0 or more, got -1 at index 1.",
    "mask segment 6 --segments -1,2": "--segments must be 0 or more, got -1 at index 0.",
    "mask grid 6 --grid -2,3": "--grid[0] must be a positive integer, got -2.",
    "plot encoding 8 9 --base -1e3 -o x.png": "--base must be a positive finite number, got -1000.0.",
    "mask causal 4096 --json": "--json lists at most 2**22 pairs of query and key, got 16,777,216",
}


@pytest.mark.parametrize("line", ERRORS)
def test_one_line(call, line):
    assert call(line) == (2, "", f"positional-embeddings: error: {ERRORS[line]}\n")


CONFIG_ERRORS = {
    "[1, 2]": "the standard input must hold a JSON object, got [1, 2]",
    '{"model_type": "bert"}': "the model must have a rotary embedding, got the type 'bert': leave its queries and keys as they are.",
    '{"model_type": "llama", "head_dim": 8}': "--context must be given, as the configuration has no 'max_position_embeddings'.",
    '{"model_type": "new", "head_dim": 8}': "the layout of the model type 'new' is not known: pass --layout half or --layout interleaved, whichever its code has.",
    '{"model_type": "llama", "rope_scaling": 8}': "`rope_scaling` must be a dict, got 8.",
    '{"text_config": 8}': "`text_config` must be a dict, got 8.",
    "": "`config` must be a dict or the path of a JSON object, got the standard input, which is no JSON: Expecting value: line 1 column 1 (char 0).",
}


@pytest.mark.parametrize("text", CONFIG_ERRORS)
def test_wrong_configurations(monkeypatch, call, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert call("rope -") == (2, "", f"positional-embeddings: error: {CONFIG_ERRORS[text]}\n")
