"""Every wrong input names the argument, what it must be, and what came."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import plotting

lazy_xp_modules = [pe]

f = np.zeros
ROPE = pe.RoPE(64, 10)
LAST = pe.RoPE(64, 10, feature_axis=-1, seq_axis=-2)
ADD = pe.AbsolutePE(6, 10)
MHA = pe.RoPEMultiHeadAttention(8, 2, 10, rng=0)
MASKED = np.ma.masked_array(f((64, 3)), mask=f((64, 3)))


def matrix():
    with pytest.warns(PendingDeprecationWarning):
        return np.matrix(f((64, 3)))


class Table:
    """As a table of another package: no array, but something that becomes one."""

    shape = (3, 2)

    def to_numpy(self):
        raise NotImplementedError

    data = to_numpy


def foreign(package, name):
    """Return an object of a package that need not be installed."""
    return type(name, (Table,), {"__module__": package})()


WEEK = np.arange(7).astype("datetime64[D]")


class NoAxes(np.ndarray):
    """An array whose library does not know one of its lengths."""

    @property
    def shape(self):
        return (64, float("nan"))


class ConfigObject:
    """What transformers has configurations as."""

    def to_dict(self):
        return {"head_dim": 8}


def hf(layer_type=None, **config):
    """Read a configuration of a known model."""
    config = {"model_type": "llama", "head_dim": 8} | config
    return pe.RoPE.from_hf_config(config, layer_type=layer_type)


CASES = {
    # out and fused
    "out of another dtype": (
        lambda: ROPE(f((64, 3)), out=f((64, 3), "float32")),
        TypeError,
        "`out` must have the dtype of `x`, float64, got float32.",
    ),
    "out of another shape": (
        lambda: ROPE(f((64, 3)), out=f((64, 4))),
        ValueError,
        "`out` must have the shape of `x`, (64, 3), got (64, 4).",
    ),
    "out that is read-only": (
        lambda: ROPE(f((64, 3)), out=np.frombuffer(bytes(64 * 3 * 8)).reshape(64, 3)),
        ValueError,
        "`out` must be an array that can be written to, got a read-only one.",
    ),
    "out whose elements share memory": (
        lambda: ROPE(f((64, 3)), out=np.lib.stride_tricks.as_strided(f(64), (64, 3), (8, 0))),
        ValueError,
        "`out` must be an array that can be written to, got one whose elements share memory.",
    ),
    "out that is no array": (
        lambda: ROPE(f((64, 3)), out=True),
        TypeError,
        "`out` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got bool.",
    ),
    "out of apply_rope": (
        lambda: pe.apply_rope(f((64, 3)), f((32, 3)), f((32, 3)), out=f((64, 4))),
        ValueError,
        "`out` must have the shape of `x`, (64, 3), got (64, 4).",
    ),
    "fused by number": (
        lambda: pe.RoPE(64, 10, fused=1),
        TypeError,
        "`fused` must be True, False or None, got 1.",
    ),
    # sizes
    "odd head": (
        lambda: pe.RoPE(63, 8),
        ValueError,
        "`head_size` must be a positive even integer, got 63.",
    ),
    "zero head": (
        lambda: pe.RoPE(0, 8),
        ValueError,
        "`head_size` must be a positive even integer, got 0.",
    ),
    "negative head": (
        lambda: pe.RoPE(-2, 8),
        ValueError,
        "`head_size` must be a positive even integer, got -2.",
    ),
    "real head": (
        lambda: pe.RoPE(64.0, 8),
        TypeError,
        "`head_size` must be a positive even integer, got 64.0 of type float.",
    ),
    "true head": (
        lambda: pe.RoPE(True, 8),
        TypeError,
        "`head_size` must be a positive even integer, got True of type bool.",
    ),
    "zero seq_len": (
        lambda: pe.RoPE(64, 0),
        ValueError,
        "`seq_len` must be a positive integer, got 0.",
    ),
    "zero base": (
        lambda: pe.RoPE(64, 8, 0),
        ValueError,
        "`base` must be a positive finite number, got 0.",
    ),
    "NaN base": (
        lambda: pe.RoPE(64, 8, np.nan),
        ValueError,
        "`base` must be a positive finite number, got nan.",
    ),
    "text base": (
        lambda: pe.RoPE(64, 8, "10"),
        TypeError,
        "`base` must be a positive finite number, got '10' of type str.",
    ),
    "infinite scale": (
        lambda: pe.RoPE(64, 8, scale=np.inf),
        ValueError,
        "`scale` must be a positive finite number, got inf.",
    ),
    "one axis twice": (
        lambda: pe.RoPE(64, 8, seq_axis=0),
        ValueError,
        "`feature_axis` and `seq_axis` must be two axes, got 0 for both.",
    ),
    "real axis": (
        lambda: pe.RoPE(64, 8, seq_axis=1.0),
        TypeError,
        "`seq_axis` must be an integer, got 1.0 of type float.",
    ),
    "zero dim": (
        lambda: pe.inverse_frequencies(0),
        ValueError,
        "`dim` must be a positive integer, got 0.",
    ),
    "zero positions": (
        lambda: pe.compute_frequencies(4, 0),
        ValueError,
        "`seq_len` must be a positive integer, got 0.",
    ),
    "text namespace": (
        lambda: pe.compute_frequencies(4, 2, xp="numpy"),
        TypeError,
        "`xp` must be an array namespace such as numpy or cupy, got 'numpy'.",
    ),
    "integer dtype": (
        lambda: pe.inverse_frequencies(4, dtype=np.int64),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got <class 'numpy.int64'>.",
    ),
    "text dtype": (
        lambda: pe.inverse_frequencies(4, dtype="float32"),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got 'float32'.",
    ),
    "dtype of no name": (
        lambda: pe.inverse_frequencies(4, dtype="half precision"),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got 'half precision'.",
    ),
    # arrays
    "list": (
        lambda: ROPE([[1.0]]),
        TypeError,
        "`x` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(x).",
    ),
    "number": (
        lambda: ROPE(1.0),
        TypeError,
        "`x` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got float.",
    ),
    "None": (
        lambda: ROPE(None),
        TypeError,
        "`x` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got None.",
    ),
    "masked array": (
        lambda: ROPE(MASKED),
        TypeError,
        "`x` must be a plain array, got numpy.ma.MaskedArray: its mask would be ignored. Pass x.filled(...) and a mask of its own.",
    ),
    "matrix": (
        lambda: ROPE(matrix()),
        TypeError,
        "`x` must be a plain array, got numpy.matrix: its product is another one. Pass numpy.asarray(x).",
    ),
    "integers": (
        lambda: ROPE(f((64, 3, 1), dtype=int)),
        TypeError,
        "`x` must have a floating-point dtype, got int64.",
    ),
    "complex": (
        lambda: ROPE(f((64, 3, 1), dtype=complex)),
        ValueError,
        "`x` must have 32 features (`head_size / 2`) on axis 0, got shape (64, 3, 1).",
    ),
    "one axis": (
        lambda: ROPE(f(64)),
        ValueError,
        "`x` must have at least 2 axes, one of features and one of the sequence, got shape (64,).",
    ),
    "wrong features": (
        lambda: ROPE(f((32, 3, 1))),
        ValueError,
        "`x` must have 64 features (`head_size`) on axis 0, got shape (32, 3, 1).",
    ),
    "swapped axes": (
        lambda: ROPE(f((3, 64, 1))),
        ValueError,
        "`x` must have 64 features (`head_size`) on axis 0, got shape (3, 64, 1). x has its sequence on axis 0 and its features on axis 1? pass feature_axis=1, seq_axis=0.",
    ),
    "features last": (
        lambda: ROPE(f((2, 3, 64))),
        ValueError,
        "`x` must have 64 features (`head_size`) on axis 0, got shape (2, 3, 64). x has its features on axis 2? pass feature_axis=2 and its seq_axis.",
    ),
    "axis out of range": (
        lambda: pe.RoPE(64, 8, feature_axis=3)(f((64, 3, 1))),
        ValueError,
        "`feature_axis` must be an axis of the 3-dimensional `x` (-3 to 2), got 3.",
    ),
    "axes that meet": (
        lambda: pe.RoPE(64, 8, feature_axis=-2)(f((3, 64, 1))),
        ValueError,
        "`feature_axis` and `seq_axis` must be two axes, got -2 and 1 for the 3-dimensional `x`.",
    ),
    "too long": (
        lambda: ROPE(f((64, 11, 1))),
        ValueError,
        "`x` must have at most 10 positions (`seq_len`) on axis 1, got 11 at offset 0.",
    ),
    "too far": (
        lambda: LAST(f((5, 64)), offset=6),
        ValueError,
        "`x` must have at most 10 positions (`seq_len`) on axis 0, got 5 at offset 6.",
    ),
    "unknown length": (
        lambda: ROPE(f((64, 3)).view(NoAxes)),
        ValueError,
        "`x` must have a known length on axis 1, got shape (64, nan).",
    ),
    "negative offset": (
        lambda: ROPE(f((64, 3, 1)), offset=-1),
        ValueError,
        "`offset` must be a non-negative integer, got -1.",
    ),
    "real offset": (
        lambda: ROPE(f((64, 3, 1)), offset=1.5),
        TypeError,
        "`offset` must be a non-negative integer, got 1.5 of type float.",
    ),
    "inverse": (
        lambda: ROPE(f((64, 3, 1)), inverse=1),
        TypeError,
        "`inverse` must be True or False, got 1.",
    ),
    "offset and positions": (
        lambda: ROPE(f((64, 3, 1)), positions=np.arange(3), offset=1),
        ValueError,
        "`offset` must be left out where `positions` are given, got 1.",
    ),
    "position list": (
        lambda: ROPE(f((64, 3, 1)), positions=[0, 1, 2]),
        TypeError,
        "`positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(positions).",
    ),
    "boolean positions": (
        lambda: ROPE(f((64, 3, 1)), positions=f(3, dtype=bool)),
        TypeError,
        "`positions` must have an integer or real dtype, got bool.",
    ),
    "complex positions": (
        lambda: ROPE(f((64, 3, 1)), positions=f(3, dtype=complex)),
        TypeError,
        "`positions` must have an integer or real dtype, got complex128.",
    ),
    "few positions": (
        lambda: ROPE(f((64, 3, 2)), positions=f(2)),
        ValueError,
        "`positions` must have shape (3,) or (3, 2), with 1 where it broadcasts, got (2,).",
    ),
    "one position": (
        lambda: ROPE(f((64, 3, 2)), positions=f(1)),
        ValueError,
        "`positions` must have shape (3,) or (3, 2), with 1 where it broadcasts, got (1,).",
    ),
    "many axes": (
        lambda: ROPE(f((64, 3, 2)), positions=f((3, 2, 1))),
        ValueError,
        "`positions` must have shape (3,) or (3, 2), with 1 where it broadcasts, got (3, 2, 1).",
    ),
    "no axes": (
        lambda: ROPE(f((64, 3)), positions=f(())),
        ValueError,
        "`positions` must have shape (3,), got ().",
    ),
    # neg_half, apply_rope
    "odd half": (
        lambda: pe.neg_half(f(3)),
        ValueError,
        "`x` must have an even length on axis 0, got shape (3,).",
    ),
    "half of nothing": (
        lambda: pe.neg_half(f(())),
        ValueError,
        "`x` must have at least one axis, got a 0-dimensional array.",
    ),
    "half of unsigned": (
        lambda: pe.neg_half(f(4, dtype="uint8")),
        TypeError,
        "`x` must have a dtype with negative numbers, got uint8.",
    ),
    "half of flags": (
        lambda: pe.neg_half(f(4, dtype=bool)),
        TypeError,
        "`x` must have a dtype with negative numbers, got bool.",
    ),
    "half beyond": (
        lambda: pe.neg_half(f(4), 1),
        ValueError,
        "`axis` must be an axis of the 1-dimensional `x` (-1 to 0), got 1.",
    ),
    "odd rotation": (
        lambda: pe.apply_rope(f((3, 2)), f((1, 2)), f((1, 2))),
        ValueError,
        "`x` must have an even length on axis 0, got shape (3, 2).",
    ),
    "whole table": (
        lambda: pe.apply_rope(f((4, 2)), f((4, 2)), f((2, 2))),
        ValueError,
        "`cos` must have shape (2, 2) (as `x`, with 2 pairs on axis 0), with 1 where it broadcasts, got (4, 2).",
    ),
    "table of one": (
        lambda: pe.apply_rope(f((4, 2)), f((2, 2)), f((1, 2))),
        ValueError,
        "`sin` must have length 2 on axis 0, got (1, 2).",
    ),
    "table in the middle": (
        lambda: pe.apply_rope(f((2, 4, 3)), f((2, 3)), f((2, 3)), feature_axis=1),
        ValueError,
        "`cos` must have shape (2, 2, 3) (as `x`, with 2 pairs on axis 1), with 1 where it broadcasts, got (2, 3).",
    ),
    "integer table": (
        lambda: pe.apply_rope(f((4, 2)), f((2, 2), dtype=int), f((2, 2))),
        TypeError,
        "`cos` must have a real floating-point dtype, got int64.",
    ),
    # absolute
    "absolute features": (
        lambda: ADD(f((5, 3))),
        ValueError,
        "`x` must have 6 features (`embedding_size`) on axis 0, got shape (5, 3).",
    ),
    "absolute length": (
        lambda: ADD(f((6, 3)), offset=8),
        ValueError,
        "`x` must have at most 10 positions (`max_len`) on axis 1, got 3 at offset 8.",
    ),
    "absolute integers": (
        lambda: ADD(f((6, 3), dtype=int)),
        TypeError,
        "`x` must have a real floating-point dtype, got int64.",
    ),
    "arrangement": (
        lambda: pe.AbsolutePE(6, 10, arrangement="cosine"),
        ValueError,
        "`arrangement` must be 'interleaved' or 'concatenated', got 'cosine'.",
    ),
    "encoding arrangement": (
        lambda: pe.sinusoidal_encoding(f(2), 4, arrangement="half"),
        ValueError,
        "`arrangement` must be 'interleaved' or 'concatenated', got 'half'.",
    ),
    "encoding size": (
        lambda: pe.AbsolutePE(-6, 10),
        ValueError,
        "`embedding_size` must be a positive integer, got -6.",
    ),
    "encoding length": (
        lambda: pe.AbsolutePE(6, 0),
        ValueError,
        "`max_len` must be a positive integer, got 0.",
    ),
    "encoded list": (
        lambda: pe.sinusoidal_encoding([1, 2], 4),
        TypeError,
        "`positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(positions).",
    ),
    "encoding dtype": (
        lambda: pe.sinusoidal_encoding(f(2), 4, dtype=int),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got <class 'int'>.",
    ),
    # masks
    "mask length": (
        lambda: pe.create_causal_mask(0),
        ValueError,
        "`q_len` must be a positive integer, got 0.",
    ),
    "mask keys": (
        lambda: pe.create_causal_mask(2, k_len=-1),
        ValueError,
        "`k_len` must be a positive integer, got -1.",
    ),
    "mask offset": (
        lambda: pe.create_causal_mask(2, offset=0.5),
        TypeError,
        "`offset` must be an integer, got 0.5 of type float.",
    ),
    "mask diagonal": (
        lambda: pe.create_causal_mask(2, mask_diagonal=None),
        TypeError,
        "`mask_diagonal` must be True or False, got None.",
    ),
    "real lengths": (
        lambda: pe.create_padding_mask([2.0, 3], 4),
        TypeError,
        "`lengths[0]` must be an integer, got 2.0 of type float.",
    ),
    "real length array": (
        lambda: pe.create_padding_mask(f(2), 4),
        TypeError,
        "`lengths` must have an integer dtype, got float64.",
    ),
    "boolean lengths": (
        lambda: pe.create_padding_mask(f(2, dtype=bool), 4),
        TypeError,
        "`lengths` must have an integer dtype, got bool.",
    ),
    "length above": (
        lambda: pe.create_padding_mask([2, 5], 4),
        ValueError,
        "`lengths` must be between 0 and `max_len` = 4, got 5 at index 1.",
    ),
    "length below": (
        lambda: pe.create_padding_mask(np.asarray([-1, 2]), 4),
        ValueError,
        "`lengths` must be between 0 and `max_len` = 4, got -1 at index 0.",
    ),
    "length huge": (
        lambda: pe.create_padding_mask(np.asarray([2**63], dtype="uint64"), 4),
        ValueError,
        f"`lengths` must be between 0 and `max_len` = 4, got {2**63} at index 0.",
    ),
    "length axes": (
        lambda: pe.create_padding_mask(f((2, 1), dtype=int), 4),
        ValueError,
        "`lengths` must have shape (batch,), got (2, 1).",
    ),
    "length of one": (
        lambda: pe.create_padding_mask(3, 4),
        TypeError,
        "`lengths` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got int.",
    ),
    "length and library": (
        lambda: pe.create_padding_mask(f(2, dtype=int), 4, xp=np),
        TypeError,
        "`xp` and `device` must be left out where `lengths` is an array.",
    ),
    "padding length": (
        lambda: pe.create_padding_mask([1], 0),
        ValueError,
        "`max_len` must be a positive integer, got 0.",
    ),
    "padding side": (
        lambda: pe.create_padding_mask([1], 2, side="top"),
        ValueError,
        "`side` must be 'right' or 'left', got 'top'.",
    ),
    "padding order": (
        lambda: pe.create_padding_mask([1], 2, batch_first=0),
        TypeError,
        "`batch_first` must be True or False, got 0.",
    ),
    "combined numbers": (
        lambda: pe.combine_masks(None, f((2, 2, 1))),
        TypeError,
        "`masks[1]` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "combined shapes": (
        lambda: pe.combine_masks(f((2, 2, 1), dtype=bool), f((3, 1), dtype=bool)),
        ValueError,
        "`masks` must have shapes that broadcast, got (2, 2, 1), (3, 1).",
    ),
    "three shapes": (
        lambda: pe.combine_masks(
            f((1, 1), dtype=bool), f((2, 1), dtype=bool), f((3, 1), dtype=bool)
        ),
        ValueError,
        "`masks` must have shapes that broadcast, got (1, 1), (2, 1), (3, 1).",
    ),
    "combined list": (
        lambda: pe.combine_masks([True]),
        TypeError,
        "`masks` must be given one by one, as combine_masks(*masks), got one list.",
    ),
    "bias of numbers": (
        lambda: pe.mask_to_bias(f(2)),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "bias dtype": (
        lambda: pe.mask_to_bias(f(2, dtype=bool), np.int8),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got <class 'numpy.int8'>.",
    ),
    "rows of numbers": (
        lambda: pe.fully_masked_rows(f((2, 2))),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "rows beyond": (
        lambda: pe.fully_masked_rows(f(2, dtype=bool)),
        ValueError,
        "`key_axis` must be an axis of the 1-dimensional `mask` (-1 to 0), got 1.",
    ),
    # attention
    "attention list": (
        lambda: pe.scaled_dot_product_attention(f((2, 2)), [[1]], f((2, 2))),
        TypeError,
        "`k` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(k).",
    ),
    "attention integers": (
        lambda: pe.scaled_dot_product_attention(f((2, 2), dtype=int), f((2, 2)), f((2, 2))),
        TypeError,
        "`q` must have a real floating-point dtype, got int64.",
    ),
    "attention dtypes": (
        lambda: pe.scaled_dot_product_attention(f((2, 2)), f((2, 2), dtype="float32"), f((2, 2))),
        TypeError,
        "`k` must have the dtype of `q`, float64, got float32.",
    ),
    "attention axes": (
        lambda: pe.scaled_dot_product_attention(f((2, 2)), f((2, 2, 1)), f((2, 2))),
        ValueError,
        "`k` must have as many axes as `q`, 2, got shape (2, 2, 1).",
    ),
    "attention features": (
        lambda: pe.scaled_dot_product_attention(f((2, 3)), f((4, 3)), f((2, 3))),
        ValueError,
        "`k` must have the features of `q`, 2 on axis 0, got shape (4, 3).",
    ),
    "attention values": (
        lambda: pe.scaled_dot_product_attention(f((2, 3)), f((2, 3)), f((2, 4))),
        ValueError,
        "`v` must have the shape of `k` but for its features on axis 0, got (2, 4) beside (2, 3).",
    ),
    "attention batch": (
        lambda: pe.scaled_dot_product_attention(f((2, 3, 4)), f((2, 3, 2)), f((2, 3, 2))),
        ValueError,
        "`k` must have length 4 or 1 on axis 2 as `q` has (or a divisor of it with enable_gqa=True), got shape (2, 3, 2).",
    ),
    "attention groups": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4)), f((2, 3, 3)), f((2, 3, 3)), enable_gqa=True
        ),
        ValueError,
        "`k` must have length 4 or 1 on axis 2 as `q` has, or a divisor of it on one axis only, got shape (2, 3, 3).",
    ),
    "attention two groups": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4, 4)), f((2, 3, 2, 2)), f((2, 3, 2, 2)), enable_gqa=True
        ),
        ValueError,
        "`k` must have length 4 or 1 on axis 2 as `q` has, or a divisor of it on one axis only, got shape (2, 3, 2, 2).",
    ),
    "attention flat": (
        lambda: pe.scaled_dot_product_attention(f(2), f(2), f(2)),
        ValueError,
        "`q` must have at least 2 axes, one of features and one of the sequence, got shape (2,).",
    ),
    "attention mask shape": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4)), f((2, 5, 4)), f((2, 5, 4)), mask=f((5, 3, 1), dtype=bool)
        ),
        ValueError,
        "`mask` must have shape (3, 5, 4) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (5, 3, 1). mask has its queries on axis 1 and its keys on axis 0? pass permute_dims(mask, (1, 0, 2)).",
    ),
    "attention mask axes": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4)),
            f((2, 3, 4)),
            f((2, 3, 4)),
            feature_axis=2,
            seq_axis=0,
            mask=f((2, 4), dtype=bool),
        ),
        ValueError,
        "`mask` must have shape (2, 3, 2) (queries on axis 0, keys on axis 2), with 1 where it broadcasts, got (2, 4).",
    ),
    "attention block of nothing": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), block_size=0),
        ValueError,
        "`block_size` must be a positive integer, got 0.",
    ),
    "attention block of a half": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), block_size=0.5),
        TypeError,
        "`block_size` must be a positive integer, got 0.5 of type float.",
    ),
    "attention blocks of weights": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), block_size=2, return_weights=True),
        ValueError,
        "`block_size` must be None with return_weights=True, which needs all weights at once, got 2.",
    ),
    "attention mask function dtype": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), mask=lambda i, j: i - j),
        TypeError,
        "`mask(q_idx, k_idx)` must have a boolean dtype, True where a query may not attend, got int64. Pass mask(q_idx, k_idx) == 0 if 1 marks what may be attended to.",
    ),
    "attention mask function of one answer": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), mask=lambda *_: np.asarray(True)),
        ValueError,
        "`mask(q_idx, k_idx)` must have axes of queries and keys, got shape ().",
    ),
    "attention mask function shape": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 3)), mask=lambda i, j: (j > i).T[:2], block_size=3
        ),
        ValueError,
        "`mask(q_idx, k_idx)` must have shape (3, 3) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (2, 3).",
    ),
    "attention bias function of numbers": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), bias=lambda *_: 1.0),
        TypeError,
        "`bias(q_idx, k_idx)` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got float.",
    ),
    "attention mask of keys": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3)), f((2, 3)), f((2, 3)), mask=f(3, dtype=bool)
        ),
        ValueError,
        "`mask` must have axes of queries and keys, got shape (3,); for the same keys everywhere pass mask[None, :].",
    ),
    "attention mask dtype": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3)), f((2, 3)), f((2, 3)), mask=f((3, 3), dtype=int)
        ),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got int64. Pass mask == 0 if 1 marks what may be attended to.",
    ),
    "attention bias dtype": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3)), f((2, 3)), f((2, 3)), bias=f((3, 3), dtype=bool)
        ),
        TypeError,
        "`bias` must have a real floating-point dtype, got bool.",
    ),
    "attention bias shape": (
        lambda: pe.scaled_dot_product_attention(f((2, 3)), f((2, 3)), f((2, 3)), bias=f((3, 3, 2))),
        ValueError,
        "`bias` must have shape (3, 3) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (3, 3, 2).",
    ),
    "attention scale": (
        lambda: pe.scaled_dot_product_attention(f((2, 3)), f((2, 3)), f((2, 3)), scale=0),
        ValueError,
        "`scale` must be a positive finite number, got 0.",
    ),
    "attention softcap": (
        lambda: pe.scaled_dot_product_attention(f((2, 3)), f((2, 3)), f((2, 3)), softcap=-1),
        ValueError,
        "`softcap` must be a positive finite number, got -1.",
    ),
    "attention flag": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3)), f((2, 3)), f((2, 3)), return_weights="yes"
        ),
        TypeError,
        "`return_weights` must be True or False, got 'yes'.",
    ),
    "attention groups flag": (
        lambda: pe.scaled_dot_product_attention(f((2, 3)), f((2, 3)), f((2, 3)), enable_gqa=2),
        TypeError,
        "`enable_gqa` must be True or False, got 2.",
    ),
    # more masks
    "window of one": (
        lambda: pe.create_sliding_window_mask(4, 2),
        TypeError,
        "`window` must be a pair (left, right) of counts beside the own position, None for all, got 2.",
    ),
    "window of three": (
        lambda: pe.create_sliding_window_mask(4, (1, 2, 3)),
        TypeError,
        "`window` must be a pair (left, right) of counts beside the own position, None for all, got (1, 2, 3).",
    ),
    "negative window": (
        lambda: pe.create_sliding_window_mask(4, (1, -2)),
        ValueError,
        "`window[1]` must be a non-negative integer, got -2.",
    ),
    "real window": (
        lambda: pe.create_sliding_window_mask(4, (0.5, None)),
        TypeError,
        "`window[0]` must be a non-negative integer, got 0.5 of type float.",
    ),
    "long prefix": (
        lambda: pe.create_prefix_mask(4, 5),
        ValueError,
        "`prefix_len` must be between 0 and the number of keys = 4, got 5 at index 0.",
    ),
    "negative prefix": (
        lambda: pe.create_prefix_mask(4, [0, -1]),
        ValueError,
        "`prefix_len` must be between 0 and the number of keys = 4, got -1 at index 1.",
    ),
    "real prefix": (
        lambda: pe.create_prefix_mask(4, 1.0),
        TypeError,
        "`prefix_len` must be an integer or a sequence of integers, got 1.0 of type float.",
    ),
    "zero chunk": (
        lambda: pe.create_chunked_mask(4, 0),
        ValueError,
        "`chunk_size` must be a positive integer, got 0.",
    ),
    "zero dilation": (
        lambda: pe.create_dilated_mask(4, 0),
        ValueError,
        "`dilation` must be a positive integer, got 0.",
    ),
    "too many queries": (
        lambda: pe.create_causal_mask(2**70, k_len=4),
        ValueError,
        f"`q_len` must be at most {2**61 - 1}, so that int64 holds all distances, got {2**70}.",
    ),
    "too many keys": (
        lambda: pe.create_causal_mask(4, k_len=2**70),
        ValueError,
        f"`k_len` must be at most {2**61 - 1}, so that int64 holds all distances, got {2**70}.",
    ),
    "far offset": (
        lambda: pe.create_causal_mask(4, offset=2**70),
        ValueError,
        f"`offset` must keep positions within {2**61 - 1}, so that int64 holds all distances, got {2**70}.",
    ),
    "real segments": (
        lambda: pe.create_segment_mask(f(3)),
        TypeError,
        "`segment_ids` must have a signed integer dtype, got float64.",
    ),
    "unsigned segments": (
        lambda: pe.create_segment_mask(f(3, dtype="uint8")),
        TypeError,
        "`segment_ids` must have a signed integer dtype, got uint8.",
    ),
    "segment axes": (
        lambda: pe.create_segment_mask(f((3, 2, 1), dtype=int)),
        ValueError,
        "`segment_ids` must have shape (seq,) or (seq, batch), got (3, 2, 1).",
    ),
    "segment batches": (
        lambda: pe.create_segment_mask(f((3, 2), dtype=int), f((3, 4), dtype=int)),
        ValueError,
        "`key_segment_ids` must have the batch of `segment_ids`, 2, got 4. The sequence is on axis 1 of both? Pass seq_axis=1.",
    ),
    "segment batches that nothing mends": (
        lambda: pe.create_segment_mask(f((3, 2), dtype=int), f((5, 4), dtype=int)),
        ValueError,
        "`key_segment_ids` must have the batch of `segment_ids`, 2, got 4.",
    ),
    "segment batches last": (
        lambda: pe.create_segment_mask(f((3, 2), dtype=int), f((4, 2), dtype=int), seq_axis=-1),
        ValueError,
        "`key_segment_ids` must have the batch of `segment_ids`, 3, got 4. The sequence is on axis 0 of both? Pass seq_axis=0.",
    ),
    "query segments transposed": (
        lambda: pe.create_segment_mask(f((2, 3), dtype=int), f((4, 2), dtype=int)),
        ValueError,
        "`key_segment_ids` must have the batch of `segment_ids`, 3, got 2. Pass the transpose of `segment_ids`?",
    ),
    "key segments transposed": (
        lambda: pe.create_segment_mask(f((3, 2), dtype=int), f((2, 4), dtype=int)),
        ValueError,
        "`key_segment_ids` must have the batch of `segment_ids`, 2, got 4. Pass the transpose of `key_segment_ids`?",
    ),
    "segments without the sequence's axis": (
        lambda: pe.create_segment_mask(f(3, dtype=int), seq_axis=1),
        ValueError,
        "`seq_axis` must be an axis of the 1-dimensional `segment_ids` (-1 to 0), got 1.",
    ),
    "picture of numbers": (
        lambda: pe.describe_mask(f((2, 2))),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "picture of a row": (
        lambda: pe.describe_mask(f(2, dtype=bool)),
        ValueError,
        "`mask` must have axes of queries and keys, got shape (2,).",
    ),
    "picture axis": (
        lambda: pe.describe_mask(f((2, 2), dtype=bool), key_axis=2),
        ValueError,
        "`key_axis` must be 1 or -1, got 2.",
    ),
    "picture batch": (
        lambda: pe.describe_mask(f((2, 2, 3), dtype=bool), batch=3),
        ValueError,
        "`batch` must be below 3, the batch of `mask`, got 3.",
    ),
    # segments
    "no total": (
        lambda: pe.segment_ids_from_lengths(f(2, dtype=int)),
        TypeError,
        "`total_len` must be given where `lengths` is an array.",
    ),
    "short total": (
        lambda: pe.segment_ids_from_lengths([2, 3], 4),
        ValueError,
        "`total_len` must be the sum of `lengths`, 5, or more, got 4.",
    ),
    "negative document": (
        lambda: pe.cumulative_lengths([2, -3]),
        ValueError,
        "`lengths` must be 0 or more, got -3 at index 1.",
    ),
    "negative documents": (
        lambda: pe.cumulative_lengths(np.asarray([-1])),
        ValueError,
        "`lengths` must be 0 or more, got -1 at index 0.",
    ),
    "real document": (
        lambda: pe.segment_ids_from_lengths([2.5]),
        TypeError,
        "`lengths[0]` must be an integer, got 2.5 of type float.",
    ),
    "segments of no axis": (
        lambda: pe.positions_from_segment_ids(f((), dtype=int)),
        ValueError,
        "`segment_ids` must have shape (seq,) or (seq, batch), got ().",
    ),
    "positions of numbers": (
        lambda: pe.positions_from_mask(f(3)),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "a tokenizer's mask": (
        lambda: pe.positions_from_mask(np.asarray([[0, 1, 1]]), seq_axis=1),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got int64. Pass mask == 0 if 1 marks what may be attended to.",
    ),
    "positions along no axis": (
        lambda: pe.positions_from_mask(f((4, 2), dtype=bool), seq_axis=2),
        ValueError,
        "`seq_axis` must be an axis of the 2-dimensional `mask` (-2 to 1), got 2.",
    ),
    "positions along a real axis": (
        lambda: pe.positions_from_segment_ids(f((4, 2), dtype=int), seq_axis=1.0),
        TypeError,
        "`seq_axis` must be an integer, got 1.0 of type float.",
    ),
    "lengths along no axis": (
        lambda: pe.lengths_from_segment_ids(f((4, 2), dtype=int), 1, seq_axis=-3),
        ValueError,
        "`seq_axis` must be an axis of the 2-dimensional `segment_ids` (-2 to 1), got -3.",
    ),
    "cumulative of reals": (
        lambda: pe.lengths_from_cumulative(f(3)),
        TypeError,
        "`cumulative` must have a signed integer dtype, got float64.",
    ),
    "cumulative of nothing": (
        lambda: pe.lengths_from_cumulative(f(0, dtype=int)),
        ValueError,
        "`cumulative` must have shape (documents + 1,), got (0,).",
    ),
    "few segments": (
        lambda: pe.lengths_from_segment_ids(np.asarray([0, 2]), 2),
        ValueError,
        "`num_segments` must be above every one of `segment_ids`, got 2.",
    ),
    # sinusoids
    "preset": (
        lambda: pe.sinusoidal_encoding(f(2), 4, preset="bert"),
        ValueError,
        "`preset` must be 'vaswani' or 'marian' or 'tensor2tensor' or 'whisper' or 'detr' or 'mlx', got 'bert'.",
    ),
    "detr": (
        lambda: pe.sinusoidal_encoding(f(2), 4, preset="detr"),
        ValueError,
        "`length` must be given with the preset 'detr', got None.",
    ),
    "length and turns": (
        lambda: pe.sinusoidal_encoding(f(2), 4, length=3, full_turns=True),
        ValueError,
        "`length` must be left out with `full_turns`, got 3.",
    ),
    "endpoint of one": (
        lambda: pe.sinusoidal_encoding(f(2), 1, endpoint=True),
        ValueError,
        "`dim` must be 2 or more with `endpoint`, got 1.",
    ),
    "amplitude": (
        lambda: pe.sinusoidal_encoding(f(2), 4, amplitude=0),
        ValueError,
        "`amplitude` must be a positive finite number, got 0.",
    ),
    "cosine first": (
        lambda: pe.sinusoidal_encoding(f(2), 4, cos_first=1),
        TypeError,
        "`cos_first` must be True or False, got 1.",
    ),
    "real start": (
        lambda: pe.sinusoidal_encoding(f(2), 4, start=0.5),
        TypeError,
        "`start` must be an integer, got 0.5 of type float.",
    ),
    "huge base": (
        lambda: pe.RoPE(4, 3, 10**400),
        ValueError,
        f"`base` must be a positive finite number, got {10**400}.",
    ),
    # adding
    "encoding shape": (
        lambda: pe.add_positional_encoding(f((4, 3, 2)), f((3, 4))),
        ValueError,
        "`encoding` must have shape (4, 3) (features, seq), with 1 where it broadcasts, got (3, 4).",
    ),
    "encoding axes": (
        lambda: pe.add_positional_encoding(f((4, 3, 2)), f((4, 3, 5))),
        ValueError,
        "`encoding` must have shape (4, 3, 2) (as `x`), with 1 where it broadcasts, got (4, 3, 5).",
    ),
    "encoding integers": (
        lambda: pe.add_positional_encoding(f((4, 3)), f((4, 3), dtype=int)),
        TypeError,
        "`encoding` must have a real floating-point dtype, got int64.",
    ),
    # dropout
    "dropout of all": (
        lambda: pe.AbsolutePE(4, 3, dropout=1),
        ValueError,
        "`dropout` must be 0 or more and below 1, got 1.",
    ),
    "dropout text": (
        lambda: pe.dropout(f(2), "a"),
        TypeError,
        "`rate` must be a number, got 'a' of type str.",
    ),
    "dropout seed": (
        lambda: pe.dropout(f(2), 0.5, rng=3),
        TypeError,
        "`rng` must be a generator, or a function from a shape to numbers, got 3.",
    ),
    "dropout shape": (
        lambda: pe.dropout(f(2), 0.5, rng=lambda _: f(3)),
        ValueError,
        "`rng` must give the shape it is asked for, (2,), got (3,).",
    ),
    "dropout list": (
        lambda: pe.dropout(f(2), 0.5, rng=lambda _: [0.5, 0.5]),
        TypeError,
        "`rng` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(rng).",
    ),
    "dropout integers": (
        lambda: pe.dropout(f(2, dtype=int), 0.5),
        TypeError,
        "`x` must have a real floating-point dtype, got int64.",
    ),
    # learned
    "table shape": (
        lambda: pe.LearnedPE(4, 3, embeddings=f((3, 4))),
        ValueError,
        "`embeddings` must have shape (4, 3), got (3, 4).",
    ),
    "padding index": (
        lambda: pe.LearnedPE(4, 3, padding_idx=3),
        ValueError,
        "`padding_idx` must be from 0 to 2, or None, got 3.",
    ),
    "padding of one kind": (
        lambda: pe.TokenEmbedding(4, 3, padding_idx=1.0),
        TypeError,
        "`padding_idx` must be an integer or None, got 1.0 of type float.",
    ),
    "deviation": (
        lambda: pe.LearnedPE(4, 3, init_std=0),
        ValueError,
        "`init_std` must be a positive finite number, got 0.",
    ),
    "real lookup": (
        lambda: pe.LearnedPE(4, 3)(f((4, 2)), positions=f(2)),
        TypeError,
        "`positions` must have an integer dtype, got float64.",
    ),
    "learned length": (
        lambda: pe.LearnedPE(4, 3)(f((4, 4))),
        ValueError,
        "`x` must have at most 3 positions (`max_len`) on axis 1, got 4 at offset 0.",
    ),
    "learned gradient": (
        lambda: pe.LearnedPE(4, 3).vjp(f((3, 4))),
        ValueError,
        "`grad` must have 4 features (`embedding_size`) on axis 0, got shape (3, 4). grad has its sequence on axis 0 and its features on axis 1? pass feature_axis=1, seq_axis=0.",
    ),
    "resize to nothing": (
        lambda: pe.LearnedPE(4, 3).resize(0),
        ValueError,
        "`max_len` must be a positive integer, got 0.",
    ),
    "resize with padding": (
        lambda: pe.LearnedPE(4, 3, padding_idx=1).resize(5),
        ValueError,
        "`padding_idx` must be None to resize, got 1.",
    ),
    "table and library": (
        lambda: pe.LearnedPE(4, 3, embeddings=f((4, 3)), xp=np),
        ValueError,
        f"`xp` must be left out where every array is given, got {np!r}.",
    ),
    "token out of range": (
        lambda: pe.TokenEmbedding(4, 3)(np.asarray([[0, 4]])),
        ValueError,
        "`ids` must be from 0 to 3, got 4.",
    ),
    "real tokens": (
        lambda: pe.TokenEmbedding(4, 3)(f(2)),
        TypeError,
        "`ids` must have an integer dtype, got float64.",
    ),
    "patches that do not divide": (
        lambda: pe.PatchEmbedding((8, 9), 4, 3, 5),
        ValueError,
        "`image_size` must be a multiple of `patch_size` = (4, 4), got (8, 9).",
    ),
    "sizes of three": (
        lambda: pe.PatchEmbedding((8, 8, 8), 4, 3, 5),
        ValueError,
        "`image_size` must be an integer or a pair (height, width), got (8, 8, 8).",
    ),
    "image shape": (
        lambda: pe.PatchEmbedding(8, 4, 3, 5)(f((8, 8, 3, 1))),
        ValueError,
        "`images` must have shape (3, 8, 8, batch), got (8, 8, 3, 1).",
    ),
    "image integers": (
        lambda: pe.PatchEmbedding(8, 4, 3, 5)(f((3, 8, 8, 1), dtype=int)),
        TypeError,
        "`images` must have a real floating-point dtype, got int64.",
    ),
    # relative
    "no lengths": (
        lambda: pe.alibi_bias(4),
        TypeError,
        "`q_len` or `query_positions` must be given, got neither.",
    ),
    "keys alone": (
        lambda: pe.alibi_bias(4, key_positions=np.arange(3)),
        TypeError,
        "`query_positions` must be given with `key_positions`, got None.",
    ),
    "lengths and positions": (
        lambda: pe.alibi_bias(4, 3, query_positions=np.arange(3)),
        ValueError,
        "`q_len` must be left out with `query_positions`, got 3.",
    ),
    "no heads of a bias": (
        lambda: pe.alibi_slopes(0),
        ValueError,
        "`num_heads` must be a positive integer, got 0.",
    ),
    "positions of three axes": (
        lambda: pe.relative_positions(f((2, 2, 2)), f(2)),
        ValueError,
        "`query_positions` must have shape (seq,) or (seq, batch), got (2, 2, 2).",
    ),
    "batches of positions": (
        lambda: pe.relative_positions(f((2, 2)), f((2, 3))),
        ValueError,
        "`key_positions` must have shape (key,), or (key, batch) with the batch of `query_positions` (2, 2), got (2, 3).",
    ),
    "real buckets": (
        lambda: pe.relative_position_bucket(f(3)),
        TypeError,
        "`relative_position` must have a signed integer dtype, got float64.",
    ),
    "odd buckets": (
        lambda: pe.relative_position_bucket(f(3, dtype=int), num_buckets=31),
        ValueError,
        "`num_buckets` must be a positive even integer, got 31.",
    ),
    "few buckets": (
        lambda: pe.T5Bias(2, num_buckets=2),
        ValueError,
        "`num_buckets` must be 4 or more, got 2.",
    ),
    "a sea of buckets": (
        lambda: pe.relative_position_bucket(f(3, dtype=int), num_buckets=10**30),
        ValueError,
        "`num_buckets` must be at most 1024, got 1000000000000000000000000000000.",
    ),
    "buckets of real positions": (
        lambda: pe.T5Bias(2)(query_positions=f(2)),
        TypeError,
        "`query_positions` must have a signed integer dtype, got float64.",
    ),
    "near buckets": (
        lambda: pe.T5Bias(2, max_distance=8),
        ValueError,
        "`max_distance` must be above 8, half of the buckets, got 8.",
    ),
    "real distances": (
        lambda: pe.RelativePE(2, 3)(query_positions=f(2)),
        TypeError,
        "`query_positions` must have a signed integer dtype, got float64.",
    ),
    "kerple shapes": (
        lambda: pe.kerple_bias(np.ones(3), np.ones(2), 4),
        ValueError,
        "`r2` must have shape (heads = 3), got (2,).",
    ),
    "kerple variant": (
        lambda: pe.kerple_bias(np.ones(3), np.ones(3), 4, variant="log"),
        ValueError,
        "`variant` must be 'logarithmic' or 'power', got 'log'.",
    ),
    "kerple integers": (
        lambda: pe.kerple_bias(np.arange(3), np.ones(3), 4),
        TypeError,
        "`r1` must have a real floating-point dtype, got int64.",
    ),
    "fire shapes": (
        lambda: pe.fire_bias(
            np.ones(3), np.ones(3), np.ones((3, 2)), np.ones(2), 4, c=1, threshold=1
        ),
        ValueError,
        "`output_weight` must have shape (heads, hidden = 3), got (3, 2).",
    ),
    "fire axes": (
        lambda: pe.fire_bias(
            np.ones((3, 1)), np.ones(3), np.ones((3, 2)), np.ones(2), 4, c=1, threshold=1
        ),
        ValueError,
        "`hidden_weight` must have shape (hidden), got (3, 1).",
    ),
    "fire threshold": (
        lambda: pe.fire_bias(
            np.ones(3), np.ones(3), np.ones((2, 3)), np.ones(2), 4, c=1, threshold=0
        ),
        ValueError,
        "`threshold` must be a positive finite number, got 0.",
    ),
    "sandwich size": (
        lambda: pe.sandwich_bias(2, 4, dim=3),
        ValueError,
        "`dim` must be a positive even integer, got 3.",
    ),
    "alibi causal": (
        lambda: pe.alibi_bias(2, 4, causal=1),
        TypeError,
        "`causal` must be True or False, got 1.",
    ),
    # layouts, scaling, sections, configurations
    "layout": (
        lambda: pe.RoPE(8, 3, layout="pairs"),
        ValueError,
        "`layout` must be 'half' or 'interleaved', got 'pairs'.",
    ),
    "layout of tables": (
        lambda: pe.apply_rope(f((4, 2)), f((2, 2)), f((2, 2)), layout=None),
        ValueError,
        "`layout` must be 'half' or 'interleaved', got None.",
    ),
    "odd rotary size": (
        lambda: pe.RoPE(8, 3, rotary_dim=3),
        ValueError,
        "`rotary_dim` must be a positive even integer, got 3.",
    ),
    "large rotary size": (
        lambda: pe.RoPE(8, 3, rotary_dim=10),
        ValueError,
        "`rotary_dim` must be at most `head_size` = 8, got 10.",
    ),
    "rotary size of tables": (
        lambda: pe.apply_rope(f((4, 2)), f((2, 2)), f((2, 2)), rotary_dim=6),
        ValueError,
        "`rotary_dim` must be at most 4, the features of `x`, got 6.",
    ),
    "half a table": (
        lambda: pe.apply_rope(f((4, 2)), f((1, 2)), f((1, 2))),
        ValueError,
        "`cos` must have length 2 on axis 0, got (1, 2).",
    ),
    "pairs of flags": (
        lambda: pe.rotate_pairs(f(4, dtype=bool)),
        TypeError,
        "`x` must have a dtype with negative numbers, got bool.",
    ),
    "complex of an odd head": (
        lambda: pe.RoPE(7, 3, rotary_dim=4)(f((3, 3), dtype=complex)),
        ValueError,
        "`head_size` must be a positive even integer, got 7.",
    ),
    "shift by text": (
        lambda: ROPE.shift(f((64, 3)), "5"),
        TypeError,
        "`delta` must be a finite number, got '5' of type str.",
    ),
    "shift to nowhere": (
        lambda: ROPE.shift(f((64, 3)), np.inf),
        ValueError,
        "`delta` must be a finite number, got inf.",
    ),
    "shift of a list": (
        lambda: ROPE.shift(f((64, 3)), [1, 2, 3]),
        TypeError,
        "`delta` must be a finite number, got [1, 2, 3] of type list.",
    ),
    "converted layout": (
        lambda: pe.convert_layout(f(4), "half", "other", axis=0),
        ValueError,
        "`target` must be 'half' or 'interleaved', got 'other'.",
    ),
    "converted heads": (
        lambda: pe.convert_layout(f(6), "half", "interleaved", axis=0, num_heads=4),
        ValueError,
        "`array` must have a multiple of `num_heads` = 4 on axis 0, got 6.",
    ),
    "converted odd heads": (
        lambda: pe.convert_layout(f(6), "half", "interleaved", axis=0, num_heads=2),
        ValueError,
        "`rotary_dim` must be a positive even integer, got 3.",
    ),
    "converted part": (
        lambda: pe.convert_layout(f(6), "half", "interleaved", axis=0, rotary_dim=8),
        ValueError,
        "`rotary_dim` must be at most 6, the head size, got 8.",
    ),
    "scaling by name": (
        lambda: pe.RoPE(8, 3, scaling="yarn"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'yarn'. Pass YaRNScaling(factor, original_max_position).",
    ),
    "zero factor": (
        lambda: pe.LinearScaling(0),
        ValueError,
        "`factor` must be a positive finite number, got 0.",
    ),
    "text factor": (
        lambda: pe.NTKScaling("2"),
        TypeError,
        "`factor` must be a positive finite number, got '2' of type str.",
    ),
    "ntk of two": (
        lambda: pe.RoPE(2, 3, scaling=pe.NTKScaling(2)),
        ValueError,
        "`dim` must be above 2 for NTK scaling, got 2.",
    ),
    "original length": (
        lambda: pe.DynamicNTKScaling(2, 0),
        ValueError,
        "`original_max_position` must be a positive integer, got 0.",
    ),
    "yarn magnitude": (
        lambda: pe.YaRNScaling(2, 8, mscale=-1),
        ValueError,
        "`mscale` must be a positive finite number, got -1.",
    ),
    "yarn factor": (
        lambda: pe.YaRNScaling(2, 8, attention_factor=0),
        ValueError,
        "`attention_factor` must be a positive finite number, got 0.",
    ),
    "yarn truncation": (
        lambda: pe.YaRNScaling(2, 8, truncate=None),
        TypeError,
        "`truncate` must be True or False, got None.",
    ),
    "llama3 bounds": (
        lambda: pe.Llama3Scaling(8, 4, 1, 8192),
        ValueError,
        "`high_freq_factor` must be `low_freq_factor` = 4 or more, got 1.",
    ),
    "longrope list": (
        lambda: pe.LongRoPEScaling(1.0, [1.0], 8),
        TypeError,
        "`short_factor` must be a list or tuple of numbers, got 1.0.",
    ),
    "longrope length": (
        lambda: pe.RoPE(8, 3, scaling=pe.LongRoPEScaling([1.0], [1.0], 8)),
        ValueError,
        "`short_factor` must have 4 numbers, half of `dim`, got 1.",
    ),
    "longrope factor": (
        lambda: pe.LongRoPEScaling([1.0], [1.0], 8, factor=0),
        ValueError,
        "`factor` must be a positive finite number, got 0.",
    ),
    "proportion": (
        lambda: pe.ProportionalScaling(1.5),
        ValueError,
        "`partial_rotary_factor` must be at most 1, got 1.5.",
    ),
    "sections that do not add up": (
        lambda: pe.RoPE(8, 3, sections=(2, 1)),
        ValueError,
        "`sections` must add up to 4, half of the rotated features, got (2, 1).",
    ),
    "sections of one": (
        lambda: pe.RoPE(8, 3, sections=4),
        TypeError,
        "`sections` must be a list or tuple of integers, got 4.",
    ),
    "strided sections": (
        lambda: pe.RoPE(8, 3, sections=(1, 3), section_order="strided"),
        ValueError,
        "`sections` must have as many pairs for the first coordinate as for any other in strided order, got (1, 3).",
    ),
    "section order": (
        lambda: pe.RoPE(8, 3, sections=(2, 2), section_order="mixed"),
        ValueError,
        "`section_order` must be 'contiguous' or 'strided', got 'mixed'.",
    ),
    "section frequencies": (
        lambda: pe.RoPE(8, 3, sections=(2, 2), section_frequencies="own"),
        ValueError,
        "`section_frequencies` must be 'shared' or 'restart', got 'own'.",
    ),
    "scaling that restarts": (
        lambda: pe.RoPE(
            8, 3, sections=(2, 2), section_frequencies="restart", scaling=pe.LinearScaling(2)
        ),
        ValueError,
        "`scaling` must be None with section_frequencies='restart'.",
    ),
    "positions of no coordinates": (
        lambda: pe.RoPE(8, 3, sections=(2, 2))(f((8, 3)), positions=f(3)),
        ValueError,
        "`positions` must have a leading axis of 2 coordinates, as `sections` has, got shape (3,).",
    ),
    "positions of three coordinates": (
        lambda: pe.RoPE(8, 3, sections=(2, 2))(f((8, 3)), positions=f((3, 3))),
        ValueError,
        "`positions` must have a leading axis of 2 coordinates, as `sections` has, got shape (3, 3).",
    ),
    "grid of a number": (
        lambda: pe.grid_positions(3),
        TypeError,
        "`shape` must be a list or tuple of integers, got 3.",
    ),
    "grid of nothing": (
        lambda: pe.grid_positions(()),
        ValueError,
        "`shape` must have one coordinate or more, got ().",
    ),
    "flat grid": (
        lambda: pe.grid_positions((3, 0)),
        ValueError,
        "`shape` must be a positive integer, got 0.",
    ),
    "xpos size": (
        lambda: pe.xpos_scale(f(2), 3),
        ValueError,
        "`dim` must be a positive even integer, got 3.",
    ),
    "xpos centre": (
        lambda: pe.xpos_scale(f(2), 4, center=np.nan),
        ValueError,
        "`center` must be a finite number, got nan.",
    ),
    "unknown type": (
        lambda: hf(rope_scaling={"type": "magic"}),
        ValueError,
        "`rope_type` must be one of ['default', 'dynamic', 'linear', 'llama3', 'longrope', 'mrope', 'ntk', 'proportional', 'yarn'], got 'magic'. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "unknown key": (
        lambda: hf(rope_scaling={"type": "linear", "factor": 2, "speed": 3}),
        ValueError,
        "the rotary parameters of 'linear' must be of ['factor', 'max_position_embeddings', 'mrope_interleaved', 'mrope_section', 'original_max_position_embeddings', 'partial_rotary_factor', 'rope_theta', 'rope_type', 'type'], got 'speed'. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "missing key": (
        lambda: hf(max_position_embeddings=9, rope_scaling={"type": "linear"}),
        ValueError,
        "the configuration must have 'factor', got ['partial_rotary_factor', 'rope_theta', 'type']. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8, 'max_position_embeddings': 9}.",
    ),
    "missing size": (
        lambda: hf(head_dim=None, num_attention_heads=8),
        ValueError,
        "the configuration must have 'hidden_size', got ['model_type', 'num_attention_heads']. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'num_attention_heads': 8}.",
    ),
    "missing layer type": (
        lambda: hf(rope_parameters={"full": {"factor": 1}, "sliding": {"factor": 1}}),
        ValueError,
        "`layer_type` must be one of ['full', 'sliding'], got None. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "layer type": (
        lambda: hf(layer_type="full"),
        ValueError,
        "`layer_type` must be None or of ['chunked_attention', 'full_attention', 'sliding_attention'], got 'full'. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "no configuration": (
        lambda: pe.RoPE.from_hf_config(5),
        TypeError,
        "`config` must be a dict or the path of a JSON object, got an object of type int.",
    ),
    "a configuration's object": (
        lambda: pe.RoPE.from_hf_config(ConfigObject()),
        TypeError,
        "`config` must be a dict or the path of a JSON object, got an object of type ConfigObject: pass config.to_dict().",
    ),
    "text of a configuration": (
        lambda: hf(text_config="a"),
        TypeError,
        "`text_config` must be a dict, got 'a'.",
    ),
    "model's type": (
        lambda: hf(model_type=["llama"]),
        TypeError,
        "`model_type` must be a string, got ['llama'].",
    ),
    "unknown model": (
        lambda: hf(model_type="my_model"),
        ValueError,
        "the layout of the model type 'my_model' is not known: pass layout='half' or layout='interleaved', whichever its code has. Or build `RoPE(...)` by hand, from {'model_type': 'my_model', 'head_dim': 8}.",
    ),
    "unnamed model": (
        lambda: hf(model_type=None),
        ValueError,
        "the layout of a configuration without `model_type` is not known: pass layout='half' or layout='interleaved', whichever its code has. Or build `RoPE(...)` by hand, from {'head_dim': 8}.",
    ),
    "unknown top key": (
        lambda: hf(rope_speed=3),
        ValueError,
        "the rotary keys must be of ['global_rope_theta', 'local_rope_theta', 'no_rope_layer_interval', 'no_rope_layers', 'partial_rotary_factor', 'qk_rope_head_dim', 'rope_embedding_base', 'rope_interleave', 'rope_local_base_freq', 'rope_parameters', 'rope_pct', 'rope_scaling', 'rope_theta', 'rotary_dim', 'rotary_emb_base', 'rotary_pct'], got 'rope_speed'. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "absolute model": (
        lambda: hf(position_embedding_type="absolute"),
        ValueError,
        "the model must have a rotary embedding, got the type 'llama' with 'absolute' positions: leave its queries and keys as they are.",
    ),
    "alibi model": (
        lambda: hf(alibi=True),
        ValueError,
        "the model must have a rotary embedding, got the type 'llama' with 'alibi' positions: leave its queries and keys as they are.",
    ),
    "model without rotation": (
        lambda: hf(model_type="gpt2"),
        ValueError,
        "the model must have a rotary embedding, got the type 'gpt2': leave its queries and keys as they are.",
    ),
    "model that may rotate": (
        lambda: hf(model_type="esm"),
        ValueError,
        "the model must have a rotary embedding, got the type 'esm' with 'absolute' positions: leave its queries and keys as they are.",
    ),
    "listed parameters": (
        lambda: hf(rope_scaling=[1]),
        TypeError,
        "the rotary parameters must be a dict, got [1].",
    ),
    "listed type": (
        lambda: hf(rope_scaling={"type": ["yarn"]}),
        ValueError,
        "`rope_type` must be one of ['default', 'dynamic', 'linear', 'llama3', 'longrope', 'mrope', 'ntk', 'proportional', 'yarn'], got ['yarn']. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "local layers": (
        lambda: hf(rope_local_base_freq=10),
        ValueError,
        "`layer_type` must be one of ['full_attention', 'sliding_attention'], got None. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'head_dim': 8}.",
    ),
    "layers of one kind": (
        lambda: hf(model_type="gemma3_text"),
        ValueError,
        "the rotary parameters of 'gemma3_text' must be a dict by type of layer. Or build `RoPE(...)` by hand, from {'model_type': 'gemma3_text', 'head_dim': 8}.",
    ),
    "real head size": (
        lambda: hf(head_dim=2.5),
        TypeError,
        "`head_dim` must be a positive integer, got 2.5 of type float.",
    ),
    "heads of a configuration": (
        lambda: hf(head_dim=None, hidden_size=8, num_attention_heads=0),
        ValueError,
        "`num_attention_heads` must be a positive integer, got 0. Or build `RoPE(...)` by hand, from {'model_type': 'llama', 'hidden_size': 8, 'num_attention_heads': 0}.",
    ),
    "odd rotated share": (
        lambda: hf(max_position_embeddings=9, partial_rotary_factor=0.4, model_type="phi3"),
        ValueError,
        "`rotary_dim` must be a positive even integer, got 3. Or build `RoPE(...)` by hand, from {'model_type': 'phi3', 'head_dim': 8, 'max_position_embeddings': 9, 'partial_rotary_factor': 0.4}.",
    ),
    "sections by number": (
        lambda: hf(rope_scaling={"type": "mrope", "mrope_section": 3}, max_position_embeddings=9),
        TypeError,
        "`mrope_section` must be a list of integers, got 3.",
    ),
    "layers by number": (
        lambda: hf(max_position_embeddings=9, layer_types=3, layer_type="full_attention"),
        TypeError,
        "`layer_types` must be a list of strings, got 3.",
    ),
    "share in words": (
        lambda: hf(partial_rotary_factor="all"),
        TypeError,
        "`partial_rotary_factor` must be a positive finite number, got 'all' of type str.",
    ),
    "sections of another order": (
        lambda: hf(
            model_type="ernie4_5_vl_moe_text",
            max_position_embeddings=9,
            rope_parameters={"rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        ),
        ValueError,
        "`mrope_section` of 'ernie4_5_vl_moe_text' has an order that is not known here. Or build `RoPE(...)` by hand, from {'model_type': 'ernie4_5_vl_moe_text', 'head_dim': 8, 'max_position_embeddings': 9}.",
    ),
    "interleaved in words": (
        lambda: hf(rope_interleave="no"),
        TypeError,
        "`rope_interleave` must be True, False or None, got 'no'.",
    ),
    "strided in words": (
        lambda: hf(
            max_position_embeddings=9,
            rope_parameters={"mrope_section": [4], "mrope_interleaved": 1},
        ),
        TypeError,
        "`mrope_interleaved` must be True or False, got 1.",
    ),
    "scaling of a class": (
        lambda: pe.RoPE(8, 3, scaling=pe.LinearScaling),
        TypeError,
        f"`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got {pe.LinearScaling!r}. Pass LinearScaling(factor).",
    ),
    "scaling of one thing": (
        lambda: pe.RoPE(8, 3, scaling=lambda *_: [1.0, 2.0, 3.0, 4.0]),
        TypeError,
        "`scaling` must return frequencies and a factor, got [1.0, 2.0, 3.0, 4.0].",
    ),
    "scaling of few": (
        lambda: pe.RoPE(8, 3, scaling=lambda *_: ([1.0], 1.0)),
        ValueError,
        "`scaling` must return 4 finite frequencies, got [1.0].",
    ),
    "scaling of NaN": (
        lambda: pe.RoPE(2, 3, scaling=lambda *_: ([np.nan], 1.0)),
        ValueError,
        "`scaling` must return 1 finite frequencies, got [nan].",
    ),
    "yarn of base 1": (
        lambda: pe.RoPE(16, 64, base=1.0, scaling=pe.YaRNScaling(4.0, 32)),
        ValueError,
        "`base` must be above 1 for YaRN, got 1.0.",
    ),
    "shift of another length": (
        lambda: ROPE.shift(f((64, 3)), f(2)),
        ValueError,
        "`delta` must have shape (3,), got (2,).",
    ),
    "shift by booleans": (
        lambda: ROPE.shift(f((64, 3)), f(3, dtype=bool)),
        TypeError,
        "`delta` must have an integer or real dtype, got bool.",
    ),
    "shift without coordinates": (
        lambda: pe.RoPE(8, 5, sections=(1, 3)).shift(f((8, 3)), f(3)),
        ValueError,
        "`delta` must have a leading axis of 2 coordinates, as `sections` has, got shape (3,).",
    ),
    "endless table": (
        lambda: pe.RoPE(8, 2**63 + 1),
        ValueError,
        f"`seq_len` must be at most 2**63, got {2**63 + 1}.",
    ),
    "far shift": (
        lambda: ROPE.shift(f((64, 3)), 2.0**61),
        ValueError,
        f"`delta` must be within 2**60 positions, got {2**61}.",
    ),
    "small grid": (
        lambda: pe.grid_positions((300, 10), dtype=np.int8),
        ValueError,
        f"`dtype` must hold the coordinates to 299, got {np.int8!r}.",
    ),
    "table of three axes": (
        lambda: pe.apply_rope(f((2, 2, 3, 4)), f((2, 3, 2)), f((2, 3, 2)), feature_axis=-1),
        ValueError,
        "`cos` must have at most 2 axes that are not 1, or all 4 of `x`, got shape (2, 3, 2); insert axes of 1 where it is repeated, as cos[:, None].",
    ),
    "positions and library": (
        lambda: pe.alibi_bias(4, query_positions=np.arange(3), xp=np),
        TypeError,
        "`xp` and `device` must be left out with `query_positions`.",
    ),
    "fire of an array": (
        lambda: pe.fire_bias(
            np.ones(3), np.ones(3), np.ones((2, 3)), np.ones(2), 4, c=np.asarray(-0.5), threshold=1
        ),
        ValueError,
        "`c` must be a positive finite number, got -0.5.",
    ),
    "padding of three axes": (
        lambda: pe.positions_from_mask(f((1, 4, 2), dtype=bool)),
        ValueError,
        "`mask` must have shape (seq,) or (seq, batch), got (1, 4, 2). Pass mask[0].",
    ),
    "prefix of text": (
        lambda: pe.create_prefix_mask(2, 4, k_len="a"),
        TypeError,
        "`k_len` must be a positive integer, got 'a' of type str.",
    ),
    # multi-head attention
    "heads": (
        lambda: pe.RoPEMultiHeadAttention(10, 4),
        ValueError,
        "`d_model` must be a multiple of `num_heads` = 4, got 10.",
    ),
    "odd heads": (
        lambda: pe.RoPEMultiHeadAttention(12, 4),
        ValueError,
        "`d_model` must be an even multiple of `num_heads` = 4, got 12.",
    ),
    "groups": (
        lambda: pe.RoPEMultiHeadAttention(16, 4, num_kv_heads=3),
        ValueError,
        "`num_heads` must be a multiple of `num_kv_heads` = 3, got 4.",
    ),
    "no heads": (
        lambda: pe.RoPEMultiHeadAttention(16, 0),
        ValueError,
        "`num_heads` must be a positive integer, got 0.",
    ),
    "seed": (
        lambda: pe.RoPEMultiHeadAttention(16, 4, rng="0"),
        TypeError,
        "`rng` must be a non-negative integer seed or a numpy.random.Generator, got '0'.",
    ),
    "negative seed": (
        lambda: pe.RoPEMultiHeadAttention(16, 4, rng=-1),
        ValueError,
        "`rng` must be a non-negative integer seed or a numpy.random.Generator, got -1.",
    ),
    "every weight and a library": (
        lambda: replace(MHA, dtype=np.float64),
        ValueError,
        "`dtype` must be left out where every array is given, got <class 'numpy.float64'>.",
    ),
    "weight shape": (
        lambda: replace(MHA, Wk=f((8, 4))),
        ValueError,
        "`Wk` must have shape (8, 8), got (8, 4).",
    ),
    "weight dtype": (
        lambda: replace(MHA, Wk=f((8, 8), dtype=int)),
        TypeError,
        "`Wk` must have a real floating-point dtype, got int64.",
    ),
    "weight list": (
        lambda: replace(MHA, Wk=[1]),
        TypeError,
        "`Wk` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(Wk).",
    ),
    "layer features": (
        lambda: MHA(f((7, 3, 1))),
        ValueError,
        "`x` must have shape (8, seq, batch), got (7, 3, 1).",
    ),
    "layer axes": (
        lambda: MHA(f((8, 3))),
        ValueError,
        "`x` must have shape (8, seq, batch), got (8, 3).",
    ),
    "layer length": (
        lambda: MHA(f((8, 11, 1))),
        ValueError,
        "`x` must have at most 10 positions (`max_len`) on axis 1, got 11 at offset 0.",
    ),
    "layer integers": (
        lambda: MHA(f((8, 3, 1), dtype=int)),
        TypeError,
        "`x` must have a real floating-point dtype, got int64.",
    ),
    "layer mask": (
        lambda: MHA(f((8, 3, 5)), f((3, 3, 2), dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (3, 3, 2).",
    ),
    "layer mask axes": (
        lambda: MHA(f((8, 3, 5)), f(3, dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (3,).",
    ),
    "layer mask function": (
        lambda: MHA(f((8, 3, 5)), lambda q_idx, k_idx: (q_idx < k_idx)[..., None, None, None]),
        ValueError,
        "`mask(q_idx, k_idx)` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (3, 3, 1, 1, 1).",
    ),
    "layer mask function kind": (
        lambda: MHA(f((8, 3, 5)), lambda q_idx, k_idx: True),  # noqa: ARG005
        TypeError,
        "`mask(q_idx, k_idx)` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got bool.",
    ),
    "layer bias function": (
        lambda: MHA(f((8, 3, 5)), bias=lambda q_idx, k_idx: q_idx - k_idx),
        TypeError,
        "`bias(q_idx, k_idx)` must have a real floating-point dtype, got int64.",
    ),
    "layer mask keys": (
        lambda: MHA(f((8, 3, 5)), f((3, 4, 1), dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (3, 4, 1).",
    ),
    "layer mask queries": (
        lambda: MHA(f((8, 3, 5)), f((2, 3), dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (2, 3).",
    ),
    "layer mask heads": (
        lambda: MHA(f((8, 3, 5)), f((3, 3, 5, 2), dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (3, 3, 5, 2). mask has its queries on axis 0 and its keys on axis 1? pass permute_dims(mask, (0, 1, 3, 2)).",
    ),
    "layer mask dtype": (
        lambda: MHA(f((8, 3, 5)), f((3, 3, 1))),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "layer bias": (
        lambda: MHA(f((8, 3, 5)), bias=f((3, 3, 5))),
        ValueError,
        "`bias` must have shape (3, 3), (3, 3, n), with n one of 1, 2 (heads) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (3, 3, 5).",
    ),
    # pictures
    "picture of a batch of encodings": (
        lambda: plotting.plot_encoding(f((4, 3, 2))),
        ValueError,
        "`encoding` must have shape (features, positions), got shape (4, 3, 2).",
    ),
    "picture of complex numbers": (
        lambda: plotting.plot_encoding(f((4, 3), complex)),
        TypeError,
        "`encoding` must have an integer or real dtype, got complex128.",
    ),
    "picture of nothing": (
        lambda: plotting.plot_encoding(f((4, 0))),
        ValueError,
        "`encoding` must not be empty, got shape (4, 0).",
    ),
    "picture of a bias as a mask": (
        lambda: plotting.plot_mask(f((4, 3))),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
    ),
    "picture of several heads": (
        lambda: pe.describe_mask(f((8, 4, 5, 5), bool), key_axis=-1, batch=2),
        ValueError,
        "`mask` must have length 1 on axes other than those of batch, queries and keys, got shape (8, 4, 5, 5): pass one of the masks, such as that of one head.",
    ),
    "picture of a mask of four axes": (
        lambda: plotting.plot_mask(f((2, 1, 4, 3), bool)),
        ValueError,
        "`key_axis` must be given for a mask of 4 axes, 1 for (query, key, ...), -1 for (..., query, key), got shape (2, 1, 4, 3).",
    ),
    "picture of a mask that is not there": (
        lambda: plotting.plot_mask(f((4, 3, 2), bool), batch=2),
        ValueError,
        "`batch` must be below 2, the batch of `mask`, got 2.",
    ),
    "picture of a bias of four axes": (
        lambda: plotting.plot_bias(f((1, 8, 4, 3))),
        ValueError,
        "`bias` must have shape (query, key) or (query, key, heads), got shape (1, 8, 4, 3).",
    ),
    "picture of a head that is not there": (
        lambda: plotting.plot_bias(f((4, 3, 8)), head=8),
        ValueError,
        "`head` must be below 8, the heads of `bias`, got 8.",
    ),
    "picture of the last head, counted from the end": (
        lambda: plotting.plot_bias(f((4, 3, 8)), head=-1),
        ValueError,
        "`head` must be a non-negative integer, got -1.",
    ),
    # sizes that no memory holds
    "huge head": (
        lambda: pe.RoPE(10**30, 10),
        ValueError,
        f"`head_size` must be at most 2**20, got {10**30}.",
    ),
    "huge part of a head": (
        lambda: pe.RoPE(10**30, 10, rotary_dim=8),
        ValueError,
        f"`head_size` must be at most 2**20, got {10**30}.",
    ),
    "huge table": (
        lambda: pe.RoPE(8, 10**30, scaling=pe.DynamicNTKScaling(2, 8)),
        ValueError,
        f"`seq_len` must be at most 2**63, got {10**30}.",
    ),
    "huge encoding": (
        lambda: pe.AbsolutePE(10**30, 10),
        ValueError,
        f"`embedding_size` must be at most 2**20, got {10**30}.",
    ),
    "huge length": (
        lambda: pe.AbsolutePE(8, 10**30),
        ValueError,
        f"`max_len` must be at most 2**63, got {10**30}.",
    ),
    "huge learned encoding": (
        lambda: pe.LearnedPE(10**30, 10),
        ValueError,
        f"`embedding_size` must be at most 2**20, got {10**30}.",
    ),
    "huge learned length": (
        lambda: pe.LearnedPE(8, 10**30),
        ValueError,
        f"`max_len` must be at most 2**48, got {10**30}.",
    ),
    "huge resize": (
        lambda: pe.LearnedPE(4, 3).resize(10**30),
        ValueError,
        f"`max_len` must be at most 2**48, got {10**30}.",
    ),
    "huge vocabulary": (
        lambda: pe.TokenEmbedding(10**30, 8),
        ValueError,
        f"`vocab_size` must be at most 2**48, got {10**30}.",
    ),
    "huge token": (
        lambda: pe.TokenEmbedding(8, 10**30),
        ValueError,
        f"`d_model` must be at most 2**20, got {10**30}.",
    ),
    "huge image": (
        lambda: pe.PatchEmbedding(10**30, 4, 3, 8),
        ValueError,
        f"`image_size` must be at most 2**20, got {10**30}.",
    ),
    "huge channels": (
        lambda: pe.PatchEmbedding(8, 4, 10**30, 8),
        ValueError,
        f"`num_channels` must be at most 2**20, got {10**30}.",
    ),
    "huge document": (
        lambda: pe.cumulative_lengths([2, 10**30]),
        ValueError,
        f"`lengths` must be between 0 and the largest int64 = {2**63 - 1}, got {10**30} at index 1.",
    ),
    "huge documents": (
        lambda: pe.cumulative_lengths([2**62] * 3),
        ValueError,
        f"`lengths` must add up to at most {2**63 - 1}, which int64 holds.",
    ),
    "huge packed sequence": (
        lambda: pe.segment_ids_from_lengths([2, 1], 10**30),
        ValueError,
        f"`total_len` must be at most 2**48, got {10**30}.",
    ),
    "huge number of documents": (
        lambda: pe.lengths_from_segment_ids(f(3, dtype=int), 10**30),
        ValueError,
        f"`num_segments` must be at most 2**48, got {10**30}.",
    ),
    "huge patch vector": (
        lambda: pe.PatchEmbedding(8, 4, 3, 10**30),
        ValueError,
        f"`d_model` must be at most 2**20, got {10**30}.",
    ),
    "huge relative vector": (
        lambda: pe.RelativePE(2, 10**30),
        ValueError,
        f"`embedding_size` must be at most 2**20, got {10**30}.",
    ),
    "huge relative distance": (
        lambda: pe.RelativePE(10**30, 2),
        ValueError,
        f"`max_distance` must be at most 2**48, got {10**30}.",
    ),
    "huge heads of buckets": (
        lambda: pe.T5Bias(10**30),
        ValueError,
        f"`num_heads` must be at most 2**20, got {10**30}.",
    ),
    "huge heads": (
        lambda: pe.alibi_slopes(10**30),
        ValueError,
        f"`num_heads` must be at most 2**20, got {10**30}.",
    ),
    "huge heads of a bias": (
        lambda: pe.alibi_bias(10**30, 4),
        ValueError,
        f"`num_heads` must be at most 2**20, got {10**30}.",
    ),
    "huge heads of sandwich": (
        lambda: pe.sandwich_bias(10**30, 4),
        ValueError,
        f"`num_heads` must be at most 2**20, got {10**30}.",
    ),
    "huge sandwich": (
        lambda: pe.sandwich_bias(2, 4, dim=10**30),
        ValueError,
        f"`dim` must be at most 2**20, got {10**30}.",
    ),
    "huge sinusoids": (
        lambda: pe.sinusoidal_encoding(f(2), 10**30),
        ValueError,
        f"`dim` must be at most 2**20, got {10**30}.",
    ),
    "huge frequencies": (
        lambda: pe.inverse_frequencies(10**30),
        ValueError,
        f"`dim` must be at most 2**20, got {10**30}.",
    ),
    "huge angles": (
        lambda: pe.compute_frequencies(10**30, 4),
        ValueError,
        f"`dim` must be at most 2**20, got {10**30}.",
    ),
    "huge positions": (
        lambda: pe.compute_frequencies(4, 10**30),
        ValueError,
        f"`seq_len` must be at most 2**48, got {10**30}.",
    ),
    "huge scaling": (
        lambda: pe.YaRNScaling(2, 8)(10**30, 100, 8),
        ValueError,
        f"`dim` must be at most 2**20, got {10**30}.",
    ),
    "huge scaled length": (
        lambda: pe.DynamicNTKScaling(2, 8)(8, 100, 10**30),
        ValueError,
        f"`seq_len` must be at most 2**63, got {10**30}.",
    ),
    "huge original length": (
        lambda: pe.DynamicNTKScaling(2, 10**30),
        ValueError,
        f"`original_max_position` must be at most 2**63, got {10**30}.",
    ),
    "huge xpos": (
        lambda: pe.xpos_scale(f(2), 10**30),
        ValueError,
        f"`dim` must be at most 2**20, got {10**30}.",
    ),
    "huge padding": (
        lambda: pe.create_padding_mask([1], 10**30),
        ValueError,
        f"`max_len` must be at most 2**48, got {10**30}.",
    ),
    "huge model": (
        lambda: pe.RoPEMultiHeadAttention(10**30, 2),
        ValueError,
        f"`d_model` must be at most 2**20, got {10**30}.",
    ),
    "huge number of heads": (
        lambda: pe.RoPEMultiHeadAttention(8, 10**30),
        ValueError,
        f"`num_heads` must be at most 2**20, got {10**30}.",
    ),
    "huge sequence": (
        lambda: pe.RoPEMultiHeadAttention(8, 2, 10**30),
        ValueError,
        f"`max_len` must be at most 2**63, got {10**30}.",
    ),
    "huge grid": (
        lambda: pe.grid_positions((10**15, 10**15)),
        ValueError,
        f"`prod(shape)` must be at most 2**48, got {10**30}.",
    ),
    "endless head": (
        lambda: pe.RoPE(10**5000, 10),
        ValueError,
        "`head_size` must be at most 2**20, got int of more digits than can be printed.",
    ),
    "far start": (
        lambda: pe.sinusoidal_encoding(f(2), 4, start=-(10**30)),
        ValueError,
        f"`start` must be within 2**60 positions, got {-(10**30)}.",
    ),
    # what is no option, or no number
    "listed axis of attention": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), feature_axis=[0]),
        TypeError,
        "`feature_axis` must be an integer, got [0] of type list.",
    ),
    "listed axis of an encoding": (
        lambda: pe.add_positional_encoding(f((4, 3)), f((4, 3)), seq_axis=[1]),
        TypeError,
        "`seq_axis` must be an integer, got [1] of type list.",
    ),
    "axis as an array": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 3)), seq_axis=np.asarray([1])),
        TypeError,
        "`seq_axis` must be an integer, got numpy.ndarray of shape (1,).",
    ),
    "listed dtype": (
        lambda: pe.inverse_frequencies(4, dtype=[np.float32]),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got [<class 'numpy.float32'>].",
    ),
    "dtype of many digits": (
        lambda: pe.inverse_frequencies(4, dtype=10**5000),
        TypeError,
        "`dtype` must be a real floating-point dtype of the library, got int of more digits than can be printed.",
    ),
    "listed dtype of a grid": (
        lambda: pe.grid_positions((2, 3), dtype=[np.int32]),
        TypeError,
        "`dtype` must be an integer or real dtype of the library, got [<class 'numpy.int32'>].",
    ),
    "mask of an array": (
        lambda: pe.create_causal_mask(f((3, 3))),
        TypeError,
        "`q_len` must be a positive integer, got numpy.ndarray of shape (3, 3).",
    ),
    "rate of an array": (
        lambda: pe.dropout(f(2), f(2)),
        TypeError,
        "`rate` must be a number, got numpy.ndarray of shape (2,).",
    ),
    "fused by an array": (
        lambda: pe.RoPE(8, 3, fused=f((2, 3))),
        TypeError,
        "`fused` must be True, False or None, got numpy.ndarray of shape (2, 3).",
    ),
    "long window": (
        lambda: pe.create_sliding_window_mask(4, [0] * 400),
        TypeError,
        f"`window` must be a pair (left, right) of counts beside the own position, None for all, got [{'0, ' * 166}0....",
    ),
    "listed magnitude": (
        lambda: pe.YaRNScaling(2, 8, mscale=[1]),
        TypeError,
        "`mscale` must be a finite number, got [1] of type list.",
    ),
    "listed base": (
        lambda: pe.YaRNScaling(2, 8)(8, [100], 8),
        TypeError,
        "`base` must be a positive finite number, got [100] of type list.",
    ),
    "half of dates": (
        lambda: pe.neg_half(WEEK[:4]),
        TypeError,
        "`x` must have a dtype with negative numbers, got datetime64[D].",
    ),
    "seed of a day": (
        lambda: pe.LearnedPE(4, 3, rng=np.timedelta64(1, "D")),
        TypeError,
        "`rng` must be a non-negative integer seed or a numpy.random.Generator, got np.timedelta64(1,'D').",
    ),
    "documents of documents": (
        lambda: pe.segment_ids_from_lengths([[3, 4], [5]]),
        TypeError,
        "`lengths[0]` must be an integer, got [3, 4] of type list.",
    ),
    "document of None": (
        lambda: pe.cumulative_lengths([3, None]),
        TypeError,
        "`lengths[1]` must be an integer, got None of type NoneType.",
    ),
    "length of a span": (
        lambda: pe.sinusoidal_encoding(f(2), 4, length=np.timedelta64(5, "D")),
        TypeError,
        "`length` must be a positive finite number, got np.timedelta64(5,'D') of type timedelta64. Pass length / numpy.timedelta64(1, 'D') for days.",
    ),
    "length of a date": (
        lambda: pe.sinusoidal_encoding(f(2), 4, length=np.datetime64(5, "D")),
        TypeError,
        "`length` must be a positive finite number, got np.datetime64('1970-01-06') of type datetime64.",
    ),
    "mask of a span": (
        lambda: pe.create_causal_mask(np.timedelta64(5, "D")),
        TypeError,
        "`q_len` must be a positive integer, got np.timedelta64(5,'D') of type timedelta64. Pass q_len // numpy.timedelta64(1, 'D') for days.",
    ),
    "shift by a span": (
        lambda: ROPE.shift(f((64, 3)), np.timedelta64(5, "D")),
        TypeError,
        "`delta` must have an integer or real dtype, got timedelta64[D]. Pass delta / numpy.timedelta64(1, 'D') for days.",
    ),
    "fire of a span": (
        lambda: pe.fire_bias(
            *np.ones((2, 3)), np.ones((2, 3)), np.ones(2), 4, c=np.timedelta64(5, "D"), threshold=1
        ),
        TypeError,
        "`c` must have an integer or real dtype, got timedelta64[D]. Pass c / numpy.timedelta64(1, 'D') for days.",
    ),
    "positions of dates": (
        lambda: pe.sinusoidal_encoding(WEEK, 4),
        TypeError,
        "`positions` must have an integer or real dtype, got datetime64[D]. Pass (positions - positions[0]) / numpy.timedelta64(1, 'D') for days.",
    ),
    "positions of spans": (
        lambda: ROPE(f((64, 7)), positions=WEEK - WEEK[0]),
        TypeError,
        "`positions` must have an integer or real dtype, got timedelta64[D]. Pass positions / numpy.timedelta64(1, 'D') for days.",
    ),
    "distances of dates": (
        lambda: pe.relative_positions(WEEK, WEEK),
        TypeError,
        "`query_positions` must have an integer or real dtype, got datetime64[D]. Pass (query_positions - query_positions[0]) / numpy.timedelta64(1, 'D') for days.",
    ),
    "segments of spans": (
        lambda: pe.create_segment_mask(WEEK - WEEK[0]),
        TypeError,
        "`segment_ids` must have a signed integer dtype, got timedelta64[D]. Pass segment_ids // numpy.timedelta64(1, 'D') for days.",
    ),
    "padding of spans": (
        lambda: pe.create_padding_mask(WEEK - WEEK[0], 9),
        TypeError,
        "`lengths` must have an integer dtype, got timedelta64[D]. Pass lengths // numpy.timedelta64(1, 'D') for days.",
    ),
    "positions of 4 bits": (
        lambda: ROPE(f((64, 3)), positions=f(3, ml_dtypes.int4)),
        TypeError,
        "`positions` must have an integer or real dtype, got int4.",
    ),
    "positions of 8 bits": (
        lambda: pe.sinusoidal_encoding(f(3, ml_dtypes.float8_e4m3fn), 4),
        TypeError,
        "`positions` must have an integer or real dtype, got float8_e4m3fn.",
    ),
    "lengths of 4 bits": (
        lambda: pe.create_padding_mask(f(3, ml_dtypes.int4), 4),
        TypeError,
        "`lengths` must have an integer dtype, got int4.",
    ),
    "segments of bfloat16": (
        lambda: pe.create_segment_mask(f(3, ml_dtypes.bfloat16)),
        TypeError,
        "`segment_ids` must have a signed integer dtype, got bfloat16.",
    ),
    "mask of bfloat16": (
        lambda: pe.mask_to_bias(f(3, ml_dtypes.bfloat16)),
        TypeError,
        "`mask` must have a boolean dtype, True where a query may not attend, got bfloat16.",
    ),
    "pandas Series of positions": (
        lambda: ROPE(f((64, 3)), positions=foreign("pandas", "Series")),
        TypeError,
        "`positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.Series. Pass positions.to_numpy().",
    ),
    "pandas Index of positions": (
        lambda: pe.sinusoidal_encoding(foreign("pandas", "Index"), 4),
        TypeError,
        "`positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.Index. Pass positions.to_numpy().",
    ),
    "pandas DataFrame of masks[0]": (
        lambda: pe.combine_masks(foreign("pandas.core.frame", "DataFrame")),
        TypeError,
        "`masks[0]` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.core.frame.DataFrame. Pass masks[0].to_numpy().",
    ),
    "pandas Series of lengths": (
        lambda: pe.create_padding_mask(foreign("pandas", "Series"), 4),
        TypeError,
        "`lengths` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.Series. Pass lengths.to_numpy().",
    ),
    "polars Series of query_positions": (
        lambda: pe.alibi_bias(2, query_positions=foreign("polars.series.series", "Series")),
        TypeError,
        "`query_positions` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got polars.series.series.Series. Pass query_positions.to_numpy().",
    ),
    "xarray DataArray of mask": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 3)), mask=foreign("xarray.core.dataarray", "DataArray")
        ),
        TypeError,
        "`mask` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got xarray.core.dataarray.DataArray. Pass mask.data.",
    ),
    # masks and biases whose axes are others
    "combined two and four axes": (
        lambda: pe.combine_masks(pe.create_causal_mask(4)[..., 0], f((2, 1, 4, 4), dtype=bool)),
        ValueError,
        "`masks` must have as many axes each, or 2 (query, key) and 3 (query, key, batch), got (4, 4), (2, 1, 4, 4). Insert axes of length 1: masks[0][:, :, None, None] if queries and keys come first, masks[0][None, None] if they come last.",
    ),
    "combined three and four axes": (
        lambda: pe.combine_masks(pe.create_causal_mask(4), f((2, 1, 4, 4), dtype=bool)),
        ValueError,
        "`masks` must have as many axes each, or 2 (query, key) and 3 (query, key, batch), got (4, 4, 1), (2, 1, 4, 4). Insert axes of length 1: masks[0][:, :, None] if queries and keys come first, masks[0][:, None] if they come last.",
    ),
    "combined one axis": (
        lambda: pe.combine_masks(pe.create_causal_mask(4), None, f(4, dtype=bool)),
        ValueError,
        "`masks` must have as many axes each, or 2 (query, key) and 3 (query, key, batch), got (4, 4, 1), (4,).",
    ),
    "combined keys first": (
        lambda: pe.combine_masks(pe.create_causal_mask(3, k_len=5), f((5, 3), dtype=bool)),
        ValueError,
        "`masks` must have shapes that broadcast, got (3, 5, 1), (5, 3). If masks[1] is (key, query), pass masks[1].T. If masks[1] is (key, batch), pass masks[1][None].",
    ),
    "combined padding": (
        lambda: pe.combine_masks(pe.create_causal_mask(4), f((2, 4), dtype=bool)),
        ValueError,
        "`masks` must have shapes that broadcast, got (4, 4, 1), (2, 4). If masks[1] is (batch, key), pass masks[1].T[None] (of a tokenizer's attention mask (attention_mask == 0).T[None]).",
    ),
    "combined padding of the batch": (
        lambda: pe.combine_masks(pe.create_causal_mask(4), f((4, 2), dtype=bool)),
        ValueError,
        "`masks` must have shapes that broadcast, got (4, 4, 1), (4, 2). If masks[1] is (key, batch), pass masks[1][None].",
    ),
    "combined tokens": (
        lambda: pe.combine_masks(pe.create_causal_mask(4), np.ones((2, 4), dtype=int)),
        TypeError,
        "`masks[1]` must have a boolean dtype, True where a query may not attend, got int64. Pass masks[1] == 0 if 1 marks what may be attended to.",
    ),
    "combined without a way": (
        lambda: pe.combine_masks(
            f((3, 4), dtype=bool), f((2, 4, 1), dtype=bool), f((3, 4, 1), dtype=bool)
        ),
        ValueError,
        "`masks` must have shapes that broadcast, got (3, 4), (2, 4, 1), (3, 4, 1).",
    ),
    "attention mask of torch": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4, 6)), *f((2, 2, 5, 4, 6)), mask=f((6, 1, 3, 5), dtype=bool)
        ),
        ValueError,
        "`mask` must have shape (3, 5, 4, 6) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (6, 1, 3, 5). mask has its queries on axis 2 and its keys on axis 3? pass permute_dims(mask, (2, 3, 1, 0)).",
    ),
    "attention bias of torch": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4, 6)), *f((2, 2, 5, 4, 6)), bias=f((1, 4, 3, 5))
        ),
        ValueError,
        "`bias` must have shape (3, 5, 4, 6) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (1, 4, 3, 5). bias has its queries on axis 2 and its keys on axis 3? pass permute_dims(bias, (2, 3, 1, 0)).",
    ),
    "attention bias keys first": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4, 6)), *f((2, 2, 5, 4, 6)), bias=f((5, 3))
        ),
        ValueError,
        "`bias` must have shape (3, 5, 4, 6) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (5, 3). bias has its keys on axis 0 and its queries on axis 1? pass bias.T.",
    ),
    "attention mask of two readings": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 5, 6, 6)), mask=f((6, 2, 5, 5), dtype=bool)
        ),
        ValueError,
        "`mask` must have shape (5, 5, 6, 6) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (6, 2, 5, 5).",
    ),
    "attention mask of a batch of heads": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 5, 6, 6)), mask=f((6, 1, 5, 5), dtype=bool)
        ),
        ValueError,
        "`mask` must have shape (5, 5, 6, 6) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (6, 1, 5, 5).",
    ),
    "attention mask of five axes": (
        lambda: pe.scaled_dot_product_attention(
            f((2, 3, 4, 6)), *f((2, 2, 5, 4, 6)), mask=f((1, 6, 1, 3, 5), dtype=bool)
        ),
        ValueError,
        "`mask` must have shape (3, 5, 4, 6) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (1, 6, 1, 3, 5).",
    ),
    "attention mask of this library, features last": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 8, 5, 4)), mask=pe.create_causal_mask(5), feature_axis=-1, seq_axis=-2
        ),
        ValueError,
        "`mask` must have shape (2, 8, 5, 5) (queries on axis 2, keys on axis 3), with 1 where it broadcasts, got (5, 5, 1). mask is (query, key, batch)? pass permute_dims(mask, (2, 0, 1))[:, None].",
    ),
    "attention mask of another batch, features last": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 8, 5, 4)), mask=f((5, 5, 3), dtype=bool), feature_axis=-1, seq_axis=-2
        ),
        ValueError,
        "`mask` must have shape (2, 8, 5, 5) (queries on axis 2, keys on axis 3), with 1 where it broadcasts, got (5, 5, 3).",
    ),
    "attention features that are not said to be last": (
        lambda: pe.scaled_dot_product_attention(
            *f((3, 2, 8, 5, 4)), mask=f((2, 1, 5, 5), dtype=bool)
        ),
        ValueError,
        "`mask` must have shape (8, 8, 5, 4) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (2, 1, 5, 5). q has its sequence on axis 2 and its features on axis 3? pass feature_axis=-1, seq_axis=-2.",
    ),
    "attention features that are not said to be last, mask of all": (
        lambda: pe.scaled_dot_product_attention(*f((3, 2, 8, 5, 4)), mask=f((5, 5), dtype=bool)),
        ValueError,
        "`mask` must have shape (8, 8, 5, 4) (queries on axis 0, keys on axis 1), with 1 where it broadcasts, got (5, 5). q has its sequence on axis 2 and its features on axis 3? pass feature_axis=-1, seq_axis=-2.",
    ),
    "layer mask of torch": (
        lambda: MHA(f((8, 3, 5)), f((5, 1, 3, 3), dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (5, 1, 3, 3). mask has its queries on axis 2 and its keys on axis 3? pass permute_dims(mask, (2, 3, 1, 0)).",
    ),
    "layer mask of Keras": (
        lambda: MHA(f((8, 3, 5)), f((5, 3, 3), dtype=bool)),
        ValueError,
        "`mask` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (5, 3, 3). mask has its queries on axis 1 and its keys on axis 2? pass permute_dims(mask, (1, 2, 0)).",
    ),
    "layer bias of torch": (
        lambda: MHA(f((8, 3, 5)), bias=f((2, 3, 3))),
        ValueError,
        "`bias` must have shape (3, 3), (3, 3, n), with n one of 1, 2 (heads) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (2, 3, 3). bias has its queries on axis 1 and its keys on axis 2? pass permute_dims(bias, (1, 2, 0)).",
    ),
    "layer mask function of torch": (
        lambda: MHA(f((8, 3, 5)), lambda i, j: (j > i)[None]),
        ValueError,
        "`mask(q_idx, k_idx)` must have shape (3, 3), (3, 3, n), with n one of 1, 5 (batch) and 10 (heads * batch), or (3, 3, 2, 5), with 1 where it broadcasts, got (1, 3, 3).",
    ),
    "picture of four axes": (
        lambda: pe.describe_mask(f((2, 1, 4, 4), dtype=bool)),
        ValueError,
        "`key_axis` must be given for a mask of 4 axes, 1 for (query, key, ...), -1 for (..., query, key), got shape (2, 1, 4, 4).",
    ),
    # sizes and scalings in the other form
    "scaling by the name linear": (
        lambda: pe.RoPE(8, 3, scaling="linear"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'linear'. Pass LinearScaling(factor).",
    ),
    "scaling by the name ntk": (
        lambda: pe.RoPE(8, 3, scaling="ntk"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'ntk'. Pass NTKScaling(factor).",
    ),
    "scaling by the name dynamic": (
        lambda: pe.RoPE(8, 3, scaling="dynamic"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'dynamic'. Pass DynamicNTKScaling(factor, original_max_position).",
    ),
    "scaling by the name DynamicNTK": (
        lambda: pe.RoPE(8, 3, scaling="DynamicNTK"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'DynamicNTK'. Pass DynamicNTKScaling(factor, original_max_position).",
    ),
    "scaling by the name llama3": (
        lambda: pe.RoPE(8, 3, scaling="llama3"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'llama3'. Pass Llama3Scaling(factor, low_freq_factor, high_freq_factor, original_max_position).",
    ),
    "scaling by the name longrope": (
        lambda: pe.RoPE(8, 3, scaling="longrope"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'longrope'. Pass LongRoPEScaling(short_factor, long_factor, original_max_position).",
    ),
    "scaling by the name proportional": (
        lambda: pe.RoPE(8, 3, scaling="proportional"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'proportional'. Pass ProportionalScaling(partial_rotary_factor).",
    ),
    "scaling by another name": (
        lambda: pe.RoPE(8, 3, scaling="magic"),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 'magic'.",
    ),
    "scaling by a number": (
        lambda: pe.RoPE(8, 3, scaling=2),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got 2.",
    ),
    "scaling by a dict": (
        lambda: pe.RoPE(8, 3, scaling={"type": "linear"}),
        TypeError,
        "`scaling` must be a function from (dim, base, seq_len) to frequencies and a factor, got {'type': 'linear'}. RoPE.from_hf_config reads it from a model's configuration.",
    ),
    "sizes swapped": (
        lambda: pe.RoPE(1024, 64)(f((64, 100))),
        ValueError,
        "`x` must have 1024 features (`head_size`) on axis 0, got shape (64, 100). x is for RoPE(64, 1024)? `head_size` comes before `seq_len`.",
    ),
    "sizes or axes swapped": (
        lambda: pe.RoPE(1024, 64)(f((64, 1024))),
        ValueError,
        "`x` must have 1024 features (`head_size`) on axis 0, got shape (64, 1024). x has its sequence on axis 0 and its features on axis 1? pass feature_axis=1, seq_axis=0. x is for RoPE(64, 1024)? `head_size` comes before `seq_len`.",
    ),
    "sizes that would be too short": (
        lambda: pe.RoPE(32, 64)(f((64, 100))),
        ValueError,
        "`x` must have 32 features (`head_size`) on axis 0, got shape (64, 100).",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_input(case):
    call, kind, message = CASES[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message
    assert type(caught.value) is kind


def test_an_object_that_raised_is_still_usable():
    x = np.ones((64, 5, 2))
    rope = pe.RoPE(64, 10)
    for wrong in (np.ones((64, 11, 2)), np.ones((3, 64, 2)), [1.0]):
        with pytest.raises((TypeError, ValueError)):
            rope(wrong)
    np.testing.assert_array_equal(rope(x), pe.RoPE(64, 10)(x))


def test_mixed_libraries():
    strict = pytest.importorskip("array_api_strict")
    x, y = f((64, 3)), strict.zeros((64, 3))
    message = "`x` and `positions` must come from one array library, got numpy.ndarray for `x`, array_api_strict.Array for `positions`."
    with pytest.raises(TypeError, match="^" + re.escape(message) + "$"):
        ROPE(x, positions=strict.zeros(3))
    with pytest.raises(TypeError, match=r"`q`, `k` and `v` must come from one array library"):
        pe.scaled_dot_product_attention(x, y, y)
    with pytest.raises(TypeError, match=r"`masks\[0\]` and `masks\[1\]` must come from one"):
        pe.combine_masks(f(2, dtype=bool), strict.zeros(2, dtype=strict.bool))
    with pytest.raises(TypeError, match=r"`x` and `Wq` must come from one array library"):
        MHA(strict.zeros((8, 3, 1)))
    with pytest.raises(TypeError, match=r"`Wq`, `Wk`, `Wv` and `Wo` must come from one"):
        replace(MHA, Wo=strict.zeros((8, 8)))


def test_float64_where_there_is_none(backend):
    if backend.wide == "float64":
        assert (
            pe.inverse_frequencies(
                4, xp=backend.xp, dtype=backend.xp.float64, device=backend.device
            ).dtype
            == backend.xp.float64
        )
        return
    message = "`dtype` must be a dtype that the device has, got float64."
    with pytest.raises(ValueError, match=message):
        pe.inverse_frequencies(4, xp=backend.xp, dtype=backend.xp.float64, device=backend.device)


def test_lengths_above_are_found_where_values_can_be_read(backend):
    if backend.lazy:
        # Neither dask nor a traced function has the values; the mask hides nothing then.
        mask = pe.create_padding_mask(backend.array([9, 2]), 4)
        np.testing.assert_array_equal(backend.numpy(mask)[0, :, 0], [False] * 4)
        return
    with pytest.raises(ValueError, match="`lengths` must be between 0 and `max_len` = 4, got"):
        pe.create_padding_mask(backend.array([9, 2]), 4)
