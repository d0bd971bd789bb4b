"""Wrong inputs of frequencies and angles, and the messages of their errors."""

from wrong_inputs import make_test

VALUE_ERRORS = {}
TYPE_ERRORS = {}
# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "inverse_frequencies(0)": "dim",
    "compute_frequencies(4, 0)": "seq_len",
    "compute_frequencies(10**30, 4)": "dim",
    "inverse_frequencies(4, dtype=np.int64)": "dtype",
    "inverse_frequencies(4, dtype='float32')": "dtype",
    "inverse_frequencies(4, dtype=[np.float32])": "dtype",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, NAMED)
