"""Wrong inputs of frequencies and angles, and the messages of their errors."""

from wrong_inputs import make_test

VALUE_ERRORS = {
    "inverse_frequencies(0)": "`dim` must be a positive integer, got 0.",
    "inverse_frequencies(10**30)": f"`dim` must be at most 2**20, got {10**30}.",
    "compute_frequencies(4, 0)": "`seq_len` must be a positive integer, got 0.",
    "compute_frequencies(10**30, 4)": f"`dim` must be at most 2**20, got {10**30}.",
    "compute_frequencies(4, 10**30)": f"`seq_len` must be at most 2**48, got {10**30}.",
}
TYPE_ERRORS = {
    "inverse_frequencies(4, dtype=np.int64)": "`dtype` must be a real floating-point dtype of the library, got <class 'numpy.int64'>.",
    "inverse_frequencies(4, dtype='float32')": "`dtype` must be a real floating-point dtype of the library, got 'float32'.",
    "inverse_frequencies(4, dtype='half precision')": "`dtype` must be a real floating-point dtype of the library, got 'half precision'.",
    "inverse_frequencies(4, dtype=[np.float32])": "`dtype` must be a real floating-point dtype of the library, got [<class 'numpy.float32'>].",
    "inverse_frequencies(4, dtype=10**5000)": "`dtype` must be a real floating-point dtype of the library, got int of more digits than can be printed.",
    "compute_frequencies(4, 2, xp='numpy')": "`xp` must be an array namespace such as numpy or cupy, got 'numpy'.",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS)
