"""Wrong inputs of relative positions and their biases, and the messages of their errors."""

import numpy as np

from wrong_inputs import make_test

VALUE_ERRORS = {
    "ALiBiBias()": "`num_heads` must be given, or `slopes`, got None.",
    "ALiBiBias(3, slopes=[1, 2])": "`slopes` must have 3 numbers (`num_heads`), got 2.",
    "relative_positions(zeros((2, 2, 2)), zeros(2))": "`query_positions` must have shape (seq,) or (seq, batch), got (2, 2, 2).",
    "relative_positions(zeros((2, 2)), zeros((2, 3)))": "`key_positions` must have shape (key,), or (key, batch) with the batch of `query_positions` (2, 2), got (2, 3).",
    "T5Bias(2, num_buckets=2)": "`num_buckets` must be 4 or more, got 2.",
    "T5Bias(2, max_distance=8)": "`max_distance` must be above 8, half of the buckets of a direction, got 8.",
    "relative_position_bucket(zeros(3, dtype=int), max_distance=2**128 + 1)": f"`max_distance` must be at most 2**128, got {2**128 + 1}.",
    "T5Bias(2, bidirectional=False, num_buckets=1025)": "`num_buckets` must be at most 2**10, got 1025.",
    "FIREBias(ones(3), ones(3), ones((2, 3)), ones(2), c=np.asarray(0.0), threshold=1)": "`c` must be a positive finite number, got 0.0.",
    "KERPLEBias(ones(3), ones(2))": "`r2` must have shape (heads = 3), got (2,).",
    "FIREBias(ones(3), ones(3), ones((3, 2)), ones(2), c=1, threshold=1)": "`output_weight` must have shape (heads, hidden = 3), got (3, 2).",
    "FIREBias(ones((3, 1)), ones(3), ones((3, 2)), ones(2), c=1, threshold=1)": "`hidden_weight` must have shape (hidden), got (3, 1).",
    "FIREBias(ones(3), ones(3), ones((2, 3)), ones(2), c=np.asarray(-0.5), threshold=1)": "`c` must be a positive finite number, got -0.5.",
}
TYPE_ERRORS = {
    "ALiBiBias(8)(np.arange(5))": "`q_len` must be a positive integer, got numpy.ndarray of shape (5,). Pass an array as `query_positions`.",
    "KERPLEBias(ones(2), ones(2))(4, dtype=np.float32)": f"`dtype` must be left out for a bias with its own arrays, got {np.float32!r}.",
    "T5Bias(ones((32, 4)))": "`num_heads` must be a positive integer, got numpy.ndarray of shape (32, 4). Pass an array as `embeddings` of a T5Bias, or `slopes` of an ALiBiBias.",
    "T5Bias(2)(4, xp=np)": f"`xp` must be left out for a bias with its own arrays, got {np!r}.",
    "ALiBiBias(slopes=0.5)": "`slopes` must be a list or tuple of numbers, got 0.5.",
}
# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "alibi_bias(10**30, 4)": "num_heads",
    "alibi_slopes(0)": "num_heads",
    "ALiBiBias(slopes=[])": "len(slopes)",
    "ALiBiBias(slopes=[1, None])": "slopes[1]",
    "ALiBiBias(2) * float('nan')": "factor",
    "ALiBiBias(2) * zeros(2)": "factor",
    "relative_position_bucket(zeros(3, dtype=int), num_buckets=31)": "num_buckets",
    "relative_position_bucket(zeros(3, dtype=int), num_buckets=1024, max_distance=10**5000)": "max_distance",
    "T5Bias(10**30)": "num_heads",
    "RelativePE(2, 10**30)": "embedding_size",
    "RelativePE(10**30, 2)": "max_distance",
    "FIREBias(ones(3), ones(3), ones((2, 3)), ones(2), c=1, threshold=0)": "threshold",
    "SandwichBias(2, dim=4, base=0)": "base",
    "SandwichBias(10**30)": "num_heads",
    "KERPLEBias(ones(2), ones(2), 'cubic')": "variant",
    "FIREBias(ones(2), ones(2), ones((3, 2)), ones(3), c=0, threshold=1)": "c",
    "FIREBias(ones(2), ones(2), ones((3, 4)), ones(3), c=1, threshold=1)": "output_weight",
    "SandwichBias(2, dim=3)": "dim",
    "ALiBiBias(0)": "num_heads",
    "alibi_bias(2, 4, causal=1)": "causal",
    "relative_position_bucket(zeros(3))": "relative_position",
    "T5Bias(2)(query_positions=zeros(2))": "query_positions",
    "RelativePE(2, 3)(query_positions=zeros(2))": "query_positions",
    "KERPLEBias(np.arange(3), ones(3))": "r1",
    "ALiBiBias(2, 1)": "causal",
    "ALiBiBias(2)()": "q_len",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, NAMED)
