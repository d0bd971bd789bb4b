"""Wrong inputs of dropout and embeddings, and the messages of their errors."""

from wrong_inputs import make_test

VALUE_ERRORS = {
    "dropout(zeros(2), 0.5, rng=lambda _: zeros(3))": "`rng` must give the shape it is asked for, (2,), got (3,).",
    "TokenEmbedding(4, 3)(np.asarray([[0, 4]]))": "`ids` must be from 0 to 3, got 4.",
    "TokenEmbedding(10**30, 8)": f"`vocab_size` must be at most 2**48, got {10**30}.",
    "TokenEmbedding(8, 10**30)": f"`d_model` must be at most 2**20, got {10**30}.",
    "PatchEmbedding((8, 9), 4, 3, 5)": "`image_size` must be a multiple of `patch_size` = (4, 4), got (8, 9).",
    "PatchEmbedding((8, 8, 8), 4, 3, 5)": "`image_size` must be an integer or a pair (height, width), got (8, 8, 8).",
    "PatchEmbedding(8, 4, 3, 5)(zeros((8, 8, 3, 1)))": "`images` must have shape (3, 8, 8, batch), got (8, 8, 3, 1).",
    "PatchEmbedding(10**30, 4, 3, 8)": f"`image_size` must be at most 2**20, got {10**30}.",
    "PatchEmbedding(8, 4, 10**30, 8)": f"`num_channels` must be at most 2**20, got {10**30}.",
    "PatchEmbedding(8, 4, 3, 10**30)": f"`d_model` must be at most 2**20, got {10**30}.",
}
TYPE_ERRORS = {
    "dropout(zeros(2), 'a')": "`rate` must be a number, got 'a' of type str.",
    "dropout(zeros(2), 0, rng=3)": "`rng` must be a generator, or a function from a shape to numbers, got 3.",
    "dropout(zeros(2), 0.5, rng=3)": "`rng` must be a generator, or a function from a shape to numbers, got 3.",
    "dropout(zeros(2), 0.5, rng=lambda _: [0.5, 0.5])": "`rng` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(rng).",
    "dropout(zeros(2, dtype=int), 0.5)": "`x` must have a real floating-point dtype, got int64.",
    "dropout(zeros(2), zeros(2))": "`rate` must be a number, got numpy.ndarray of shape (2,).",
    "TokenEmbedding(4, 3, padding_idx=1.0)": "`padding_idx` must be an integer or None, got 1.0 of type float.",
    "TokenEmbedding(4, 3)(zeros(2))": "`ids` must have an integer dtype, got float64.",
    "PatchEmbedding(8, 4, 3, 5)(zeros((3, 8, 8, 1), dtype=int))": "`images` must have a real floating-point dtype, got int64.",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS)
