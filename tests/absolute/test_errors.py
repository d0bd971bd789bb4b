"""Wrong inputs of encodings that are added, and the messages of their errors."""

import numpy as np

from wrong_inputs import make_test

VALUE_ERRORS = {
    "AbsolutePE(6, 10).encoding(zeros((6, 11)))": "`like` must have at most 10 positions (`max_len`) on axis 1, got 11 at offset 0.",
    "AbsolutePE(6, 10).encoding(zeros((5, 3)))": "`like` must have 6 features (`embedding_size`) on axis 0, got shape (5, 3).",
    "AbsolutePE(6, 10)(zeros((5, 3)))": "`x` must have 6 features (`embedding_size`) on axis 0, got shape (5, 3).",
    "AbsolutePE(6, 10)(zeros((6, 3)), offset=8)": "`x` must have at most 10 positions (`max_len`) on axis 1, got 3 at offset 8.",
    "AbsolutePE(6, 10, arrangement='cosine')": "`arrangement` must be 'interleaved' or 'concatenated', got 'cosine'.",
    "AbsolutePE(-6, 10)": "`embedding_size` must be a positive integer, got -6.",
    "AbsolutePE(6, 0)": "`max_len` must be a positive integer, got 0.",
    "AbsolutePE(4, 3, dropout=1)": "`dropout` must be 0 or more and below 1, got 1.",
    "AbsolutePE(10**30, 10)": f"`embedding_size` must be at most 2**20, got {10**30}.",
    "AbsolutePE(8, 10**30)": f"`max_len` must be at most 2**63, got {10**30}.",
    "sinusoidal_encoding(zeros(2), 4, arrangement='half')": "`arrangement` must be 'interleaved' or 'concatenated', got 'half'.",
    "sinusoidal_encoding(zeros(2), 4, preset='bert')": "`preset` must be 'vaswani' or 'marian' or 'tensor2tensor' or 'whisper' or 'detr' or 'mlx', got 'bert'.",
    "sinusoidal_encoding(zeros(2), 4, preset='detr')": "`length` must be given with the preset 'detr', got None.",
    "sinusoidal_encoding(zeros(2), 4, length=3, full_turns=True)": "`length` must be left out with `full_turns`, got 3.",
    "sinusoidal_encoding(zeros(2), 1, endpoint=True)": "`dim` must be 2 or more with `endpoint`, got 1.",
    "sinusoidal_encoding(zeros(2), 4, amplitude=0)": "`amplitude` must be a positive finite number, got 0.",
    "sinusoidal_encoding(zeros(2), 10**30)": f"`dim` must be at most 2**20, got {10**30}.",
    "sinusoidal_encoding(zeros(2), 4, start=-(10**30))": f"`start` must be within 2**60 positions, got {-(10**30)}.",
    "add_positional_encoding(zeros((4, 3, 2)), zeros((3, 4)))": "`encoding` must have shape (4, 3) (features, seq), with 1 where it broadcasts, got (3, 4).",
    "add_positional_encoding(zeros((4, 3, 2)), zeros((4, 3, 5)))": "`encoding` must have shape (4, 3, 2) (as `x`), with 1 where it broadcasts, got (4, 3, 5).",
    "LearnedPE(4, 3, embeddings=zeros((3, 4)))": "`embeddings` must have shape (4, 3), got (3, 4).",
    "LearnedPE(4, 3, padding_idx=3)": "`padding_idx` must be from 0 to 2, or None, got 3.",
    "LearnedPE(4, 3, init_std=0)": "`init_std` must be a positive finite number, got 0.",
    "LearnedPE(4, 3)(zeros((4, 4)))": "`x` must have at most 3 positions (`max_len`) on axis 1, got 4 at offset 0.",
    "LearnedPE(4, 3).vjp(zeros((3, 4)))": "`grad` must have 4 features (`embedding_size`) on axis 0, got shape (3, 4). grad has its sequence on axis 0 and its features on axis 1? pass feature_axis=1, seq_axis=0.",
    "LearnedPE(4, 3).resize(0)": "`max_len` must be a positive integer, got 0.",
    "LearnedPE(4, 3, padding_idx=1).resize(5)": "`padding_idx` must be None to resize, got 1.",
    "LearnedPE(4, 3, embeddings=zeros((4, 3)), xp=np)": f"`xp` must be left out where every array is given, got {np!r}.",
    "LearnedPE(10**30, 10)": f"`embedding_size` must be at most 2**20, got {10**30}.",
    "LearnedPE(8, 10**30)": f"`max_len` must be at most 2**48, got {10**30}.",
    "LearnedPE(4, 3).resize(10**30)": f"`max_len` must be at most 2**48, got {10**30}.",
}
TYPE_ERRORS = {
    "AbsolutePE(6, 10)(zeros((6, 3), dtype=int))": "`x` must have a real floating-point dtype, got int64.",
    "sinusoidal_encoding([1, 2], 4)": "`positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(positions).",
    "sinusoidal_encoding(zeros(2), 4, dtype=int)": "`dtype` must be a real floating-point dtype of the library, got <class 'int'>.",
    "sinusoidal_encoding(zeros(2), 4, cos_first=1)": "`cos_first` must be True or False, got 1.",
    "sinusoidal_encoding(zeros(2), 4, start=0.5)": "`start` must be an integer, got 0.5 of type float.",
    "sinusoidal_encoding(zeros(2), 4, length=np.timedelta64(5, 'D'))": "`length` must be a positive finite number, got np.timedelta64(5,'D') of type timedelta64. Pass length / numpy.timedelta64(1, 'D') for days.",
    "sinusoidal_encoding(zeros(2), 4, length=np.datetime64(5, 'D'))": "`length` must be a positive finite number, got np.datetime64('1970-01-06') of type datetime64.",
    "sinusoidal_encoding(week, 4)": "`positions` must have an integer or real dtype, got datetime64[D]. Pass (positions - numpy.datetime64(0, 'D')) / numpy.timedelta64(1, 'D') for days since 1970-01-01.",
    "sinusoidal_encoding(zeros(3, ml_dtypes.float8_e4m3fn), 4)": "`positions` must have an integer or real dtype, got float8_e4m3fn.",
    "sinusoidal_encoding(foreign('pandas', 'Index'), 4)": "`positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.Index. Pass positions.to_numpy().",
    "add_positional_encoding(zeros((4, 3)), zeros((4, 3), dtype=int))": "`encoding` must have a real floating-point dtype, got int64.",
    "add_positional_encoding(zeros((4, 3)), zeros((4, 3)), seq_axis=[1])": "`seq_axis` must be an integer, got [1] of type list.",
    "LearnedPE(4, 3)(zeros((4, 2)), positions=zeros(2))": "`positions` must have an integer dtype, got float64.",
    "LearnedPE(4, 3, rng=np.timedelta64(1, 'D'))": "`rng` must be a non-negative integer seed or a numpy.random.Generator, got np.timedelta64(1,'D').",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS)
