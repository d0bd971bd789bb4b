"""Wrong inputs of relative positions and their biases, and the messages of their errors."""

from wrong_inputs import make_test

VALUE_ERRORS = {
    "alibi_bias(4, 3, query_positions=np.arange(3))": "`q_len` must be left out with `query_positions`, got 3.",
    "alibi_bias(10**30, 4)": f"`num_heads` must be at most 2**20, got {10**30}.",
    "alibi_slopes(0)": "`num_heads` must be a positive integer, got 0.",
    "alibi_slopes(10**30)": f"`num_heads` must be at most 2**20, got {10**30}.",
    "relative_positions(zeros((2, 2, 2)), zeros(2))": "`query_positions` must have shape (seq,) or (seq, batch), got (2, 2, 2).",
    "relative_positions(zeros((2, 2)), zeros((2, 3)))": "`key_positions` must have shape (key,), or (key, batch) with the batch of `query_positions` (2, 2), got (2, 3).",
    "relative_position_bucket(zeros(3, dtype=int), num_buckets=31)": "`num_buckets` must be a positive even integer, got 31.",
    "relative_position_bucket(zeros(3, dtype=int), num_buckets=10**30)": "`num_buckets` must be at most 1024, got 1000000000000000000000000000000.",
    "T5Bias(2, num_buckets=2)": "`num_buckets` must be 4 or more, got 2.",
    "T5Bias(2, max_distance=8)": "`max_distance` must be above 8, half of the buckets of a direction, got 8.",
    "T5Bias(10**30)": f"`num_heads` must be at most 2**20, got {10**30}.",
    "RelativePE(2, 10**30)": f"`embedding_size` must be at most 2**20, got {10**30}.",
    "RelativePE(10**30, 2)": f"`max_distance` must be at most 2**48, got {10**30}.",
    "kerple_bias(ones(3), ones(2), 4)": "`r2` must have shape (heads = 3), got (2,).",
    "kerple_bias(ones(3), ones(3), 4, variant='log')": "`variant` must be 'logarithmic' or 'power', got 'log'.",
    "fire_bias(ones(3), ones(3), ones((3, 2)), ones(2), 4, c=1, threshold=1)": "`output_weight` must have shape (heads, hidden = 3), got (3, 2).",
    "fire_bias(ones((3, 1)), ones(3), ones((3, 2)), ones(2), 4, c=1, threshold=1)": "`hidden_weight` must have shape (hidden), got (3, 1).",
    "fire_bias(ones(3), ones(3), ones((2, 3)), ones(2), 4, c=1, threshold=0)": "`threshold` must be a positive finite number, got 0.",
    "fire_bias(ones(3), ones(3), ones((2, 3)), ones(2), 4, c=np.asarray(-0.5), threshold=1)": "`c` must be a positive finite number, got -0.5.",
    "sandwich_bias(2, 4, dim=3)": "`dim` must be a positive even integer, got 3.",
    "sandwich_bias(10**30, 4)": f"`num_heads` must be at most 2**20, got {10**30}.",
    "sandwich_bias(2, 4, dim=10**30)": f"`dim` must be at most 2**20, got {10**30}.",
    "KERPLEBias(ones(2), ones(3))": "`r2` must have shape (heads = 2), got (3,).",
    "KERPLEBias(ones(2), ones(2), 'cubic')": "`variant` must be 'logarithmic' or 'power', got 'cubic'.",
    "FIREBias(ones(2), ones(2), ones((3, 2)), ones(3), c=0, threshold=1)": "`c` must be a positive finite number, got 0.",
    "FIREBias(ones(2), ones(2), ones((3, 4)), ones(3), c=1, threshold=1)": "`output_weight` must have shape (heads, hidden = 2), got (3, 4).",
    "SandwichBias(2, dim=3)": "`dim` must be a positive even integer, got 3.",
    "ALiBiBias(0)": "`num_heads` must be a positive integer, got 0.",
}
TYPE_ERRORS = {
    "alibi_bias(4)": "`q_len` or `query_positions` must be given, got neither.",
    "alibi_bias(4, key_positions=np.arange(3))": "`query_positions` must be given with `key_positions`, got None.",
    "alibi_bias(2, 4, causal=1)": "`causal` must be True or False, got 1.",
    "alibi_bias(4, query_positions=np.arange(3), xp=np)": "`xp` and `device` must be left out with `query_positions`.",
    "alibi_bias(2, query_positions=foreign('polars.series.series', 'Series'))": "`query_positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got polars.series.series.Series. Pass query_positions.to_numpy().",
    "relative_positions(week, week)": "`query_positions` must have an integer or real dtype, got datetime64[D]. Pass (query_positions - numpy.datetime64(0, 'D')) / numpy.timedelta64(1, 'D') for days since 1970-01-01.",
    "relative_position_bucket(zeros(3))": "`relative_position` must have a signed integer dtype, got float64.",
    "T5Bias(2)(query_positions=zeros(2))": "`query_positions` must have a signed integer dtype, got float64.",
    "RelativePE(2, 3)(query_positions=zeros(2))": "`query_positions` must have a signed integer dtype, got float64.",
    "kerple_bias(np.arange(3), ones(3), 4)": "`r1` must have a real floating-point dtype, got int64.",
    "fire_bias(*ones((2, 3)), ones((2, 3)), ones(2), 4, c=np.timedelta64(5, 'D'), threshold=1)": "`c` must have an integer or real dtype, got timedelta64[D]. Pass c / numpy.timedelta64(1, 'D') for days.",
    "ALiBiBias(2, 1)": "`causal` must be True or False, got 1.",
    "ALiBiBias(2)()": "`q_len` or `query_positions` must be given, got neither.",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS)
