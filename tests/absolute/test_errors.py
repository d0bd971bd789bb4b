"""Wrong inputs of encodings that are added, and the messages of their errors."""

from wrong_inputs import make_test

VALUE_ERRORS = {
    "LearnedPE(4, 3).vjp(zeros((3, 4)))": "`grad` must have 4 features (`embedding_size`) on axis 0, got shape (3, 4).",
    "sinusoidal_encoding(zeros(2), 4, preset='detr')": "`length` must be given with the preset 'detr', got None.",
    "sinusoidal_encoding(zeros(2), 4, length=3, full_turns=True)": "`length` must be left out with `full_turns`, got 3.",
    "sinusoidal_encoding(zeros(2), 1, endpoint=True)": "`dim` must be 2 or more with `endpoint`, got 1.",
    "sinusoidal_encoding(zeros(2), 4, start=-(10**30))": f"`start` must be within 2**60 positions, got {-(10**30)}.",
    "LearnedPE(4, 3, padding_idx=1).resize(5)": "`padding_idx` must be None to resize, got 1.",
}
TYPE_ERRORS = {}
# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "AbsolutePE(6, 10)(zeros((5, 3)))": "x",
    "AbsolutePE(6, 0)": "max_len",
    "sinusoidal_encoding(zeros(2), 4, arrangement='half')": "arrangement",
    "sinusoidal_encoding(zeros(2), 10**30)": "dim",
    "LearnedPE(4, 3, init_std=0)": "init_std",
    "LearnedPE(4, 3)(zeros((4, 4)))": "x",
    "LearnedPE(4, 3).resize(0)": "max_len",
    "LearnedPE(10**30, 10)": "embedding_size",
    "LearnedPE(8, 10**30)": "max_len",
    "add_positional_encoding(zeros((4, 3)), zeros((4, 3)), seq_axis=[1])": "seq_axis",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, NAMED)
