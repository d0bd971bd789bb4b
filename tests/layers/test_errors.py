"""Wrong inputs of dropout and embeddings, and the messages of their errors."""

from wrong_inputs import make_test

VALUE_ERRORS = {
    "dropout(zeros(2), 0.5, rng=lambda _: zeros(3))": "`rng` must give the shape it is asked for, (2,), got (3,).",
    "PatchEmbedding((8, 9), 4, 3, 5)": "`image_size` must be a multiple of `patch_size` = (4, 4), got (8, 9).",
    "PatchEmbedding((9, 8), 4, 3, 5)": "`image_size` must be a multiple of `patch_size` = (4, 4), got (9, 8).",
    "PatchEmbedding((4, 6), (3, 2), 3, 5)": "`image_size` must be a multiple of `patch_size` = (3, 2), got (4, 6).",
    "PatchEmbedding((6, 4), (2, 3), 3, 5)": "`image_size` must be a multiple of `patch_size` = (2, 3), got (6, 4).",
    "PatchEmbedding((8, 8, 8), 4, 3, 5)": "`image_size` must be an integer or a pair (height, width), got (8, 8, 8).",
    "PatchEmbedding(8, 4, 3, 5)(zeros((8, 8, 3, 1)))": "`images` must have shape (3, 8, 8, batch), got (8, 8, 3, 1).",
}
TYPE_ERRORS = {
    "dropout(zeros(2), 0, rng=3)": "`rng` must be a generator, or a function from a shape to numbers, got 3.",
}
# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "TokenEmbedding(10**30, 8)": "vocab_size",
    "TokenEmbedding(8, 10**30)": "d_model",
    "PatchEmbedding(10**30, 4, 3, 8)": "image_size",
    "PatchEmbedding(8, 4, 10**30, 8)": "num_channels",
    "PatchEmbedding(8, 4, 3, 10**30)": "d_model",
    "TokenEmbedding(2, 3, embeddings=ones((3, 2), int))": "embeddings",
    "TokenEmbedding(2, 3, embeddings=ones((3, 2)), rng='0')": "rng",
    "TokenEmbedding(2, 3, embeddings=ones((3, 2)), dtype=np.float32)": "dtype",
    "dropout(zeros(2), 0.5, rng=3)": "rng",
    "dropout(zeros(2, dtype=int), 0.5)": "x",
    "PatchEmbedding(8, 4, 3, 5)(zeros((3, 8, 8, 1), dtype=int))": "images",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, NAMED)
