"""Wrong inputs of rotary embeddings and model configurations, and the messages of their errors."""

import numpy as np
import pytest

from positional_embeddings import LinearScaling, RoPE
from wrong_inputs import make_test


def matrix():
    with pytest.warns(PendingDeprecationWarning):
        return np.matrix(np.zeros((64, 3)))


class NoAxes(np.ndarray):
    """An array with an unknown length."""

    @property
    def shape(self):
        return (64, float("nan"))


class ConfigObject:
    """Stand-in of the configurations of transformers."""

    def to_dict(self):
        return {"head_dim": 8}


def hf(layer_type=None, **config):
    """Read a configuration of a known model."""
    config = {"model_type": "llama", "head_dim": 8} | config
    return RoPE.from_hf_config(config, layer_type=layer_type)


VALUE_ERRORS = {
    "RoPE(8, 3)(zeros((8, 4)))": "`x` must have at most 3 positions (`seq_len`) on axis 1, got 4 at offset 0. Make the layer with seq_len=4 or more.",
    "apply_rope(zeros((2, 5, 8)), zeros((5, 4)), zeros((5, 4)))": "`cos` must have shape (1, 5, 8) (as `x`, with one number for each of 1 pairs on axis 0), with 1 where it broadcasts, got (5, 4). Pass feature_axis=-1 if features are last.",
    "convert_layout(ones(4), 'half', 'interleaved', axis=0, num_heads=10**5000)": "`array.shape[0]` must be a multiple of `num_heads` = int of more digits than can be printed, got 4.",
    "rope(zeros((64, 3)), out=np.lib.stride_tricks.as_strided(zeros(64), (64, 3), (8, 0)))": "`out` must be an array that can be written to, got one whose elements share memory.",
    "rope(zeros((2, 3, 64)))": "`x` must have 64 features (`head_size`) on axis 0, got shape (2, 3, 64). Make the layer with feature_axis=-1, seq_axis=-2 if features are last.",
    "RoPE(1024, 64)(zeros((64, 100)))": "`x` must have 1024 features (`head_size`) on axis 0, got shape (64, 100).",
    "RoPE(1024, 64)(zeros((64, 1024)))": "`x` must have 1024 features (`head_size`) on axis 0, got shape (64, 1024). Make the layer with feature_axis=-1, seq_axis=-2 if features are last.",
    "rope(zeros((64, 3)), out=zeros((64, 4)))": "`out` must have the shape of `x`, (64, 3), got (64, 4).",
    "rope(zeros((64, 3)), out=np.frombuffer(bytes(64 * 3 * 8)).reshape(64, 3))": "`out` must be an array that can be written to, got a read-only one.",
    "RoPE(64, 8, seq_axis=0)": "`seq_axis` must be another axis than `feature_axis` = 0, got 0.",
    "rope(zeros((64, 3, 1), dtype=complex))": "`x` must have 32 features (`head_size / 2`) on axis 0, got shape (64, 3, 1).",
    "rope(zeros((32, 3, 1)))": "`x` must have 64 features (`head_size`) on axis 0, got shape (32, 3, 1).",
    "RoPE(64, 8, feature_axis=3)(zeros((64, 3, 1)))": "`feature_axis` must be an axis of the 3-dimensional `x` (-3 to 2), got 3.",
    "RoPE(64, 8, feature_axis=-2)(zeros((3, 64, 1)))": "`seq_axis` must be another axis of the 3-dimensional `x` than `feature_axis` = -2, got 1.",
    "rope.tables(zeros(()))": "`positions` must have one axis or more, got shape ().",
    "rope.tables(zeros(4))(zeros((64, 3)))": "`positions` must have shape (seq,) = (3,), got (4,).",
    "rope(zeros((64, 3)), positions=zeros(3), offset=1)": "`offset` must be left out where `positions` are given, got 1.",
    "rope(zeros((64, 3)).view(NoAxes))": "`x` must have a known length on axis 1, got shape (64, nan). Call x.compute_chunk_sizes() first.",
    "rope(zeros((64, 3, 6)), positions=zeros((3, 4)))": "`positions` must have shape (seq,) = (3,) or (seq, batch) = (3, 6), with 1 where it broadcasts, got (3, 4).",
    "rope(zeros((64, 3, 2)), positions=zeros(2))": "`positions` must have shape (seq,) = (3,) or (seq, batch) = (3, 2), with 1 where it broadcasts, got (2,).",
    "RoPE(8, 3, layout='pairs')": "`layout` must be 'half' or 'interleaved', got 'pairs'. GPT-NeoX and Llama in transformers have 'half', GPT-J and Meta's Llama 'interleaved'.",
    "RoPE(8, 3, rotary_dim=10)": "`rotary_dim` must be at most `head_size` = 8, got 10.",
    "rope.shift(zeros((64, 3)), np.inf)": "`delta` must be a finite number, got inf.",
    "RoPE(2, 3, scaling=NTKScaling(2))": "`dim` must be above 2 for NTK scaling, got 2.",
    "RoPE(8, 3, scaling=LongRoPEScaling([1.0], [1.0], 8))": "`short_factor` must have 4 numbers, half of `dim`, got 1.",
    "RoPE(8, 3, sections=(2, 1))": "`sections` must add up to 4, half of the rotated features, got (2, 1).",
    "RoPE(8, 3, sections=(1, 3), section_order='strided')": "`sections` must have no coordinate with more pairs than the first in strided order, got (1, 3).",
    "RoPE(12, 3, sections=(1, 2, 3), section_order='first_last')": "`sections` must have equal sections after the first in order 'first_last', got (1, 2, 3).",
    "RoPE(8, 3, sections=(2, 2), section_order='mixed')": "`section_order` must be 'contiguous' or 'strided' or 'first_last', got 'mixed'.",
    "RoPE(8, 3, sections=(2, 2), section_frequencies='own')": "`section_frequencies` must be 'shared' or 'restart', got 'own'.",
    "RoPE(8, 3, sections=(2, 2), section_frequencies='restart', scaling=LinearScaling(2))": "`scaling` must be None with section_frequencies='restart', got LinearScaling(factor=2).",
    "RoPE(8, 3, sections=(2, 2))(zeros((8, 3)), positions=zeros(3))": "`positions` must have a leading axis of 2 coordinates, as `sections` has, got shape (3,).",
    "RoPE(8, 3, scaling=lambda *_: ([1.0], 1.0))": "`scaling` must return 4 finite frequencies, got [1.0].",
    "RoPE(16, 64, base=1.0, scaling=YaRNScaling(4.0, 32))": "`base` must be above 1 for YaRN, got 1.0.",
    "rope.shift(zeros((64, 3)), 2**60 + 1)": f"`delta` must be within 2**60 positions, got {2**60 + 1}.",
    "apply_rope(zeros((3, 2)), zeros((1, 2)), zeros((1, 2)))": "`x` must have an even length on axis 0, got shape (3, 2).",
    "apply_rope(zeros((4, 2)), zeros((4, 2)), zeros((2, 2)))": "`cos` must have shape (2, 2) (as `x`, with one number for each of 2 pairs on axis 0), with 1 where it broadcasts, got (4, 2).",
    "apply_rope(zeros((4, 2)), zeros((2, 2)), zeros((1, 2)))": "`sin` must have length 2 on axis 0, got (1, 2).",
    "apply_rope(zeros((2, 4, 3)), zeros((2, 3)), zeros((2, 3)), feature_axis=1)": "`cos` must have shape (2, 2, 3) (as `x`, with one number for each of 2 pairs on axis 1), with 1 where it broadcasts, got (2, 3).",
    "apply_rope(zeros((4, 2)), zeros((2, 2)), zeros((2, 2)), rotary_dim=6)": "`rotary_dim` must be at most 4, the features of `x`, got 6.",
    "apply_rope(zeros((2, 2, 3, 4)), zeros((2, 3, 2)), zeros((2, 3, 2)), feature_axis=-1)": "`cos` must have at most 2 axes that are not 1, or all 4 of `x`, got shape (2, 3, 2); insert axes of 1 where it is repeated, as cos[:, None].",
    "neg_half(zeros(()))": "`x` must have at least one axis, got a 0-dimensional array.",
    "convert_layout(zeros(6), 'half', 'interleaved', axis=0, num_heads=4)": "`array.shape[0]` must be a multiple of `num_heads` = 4, got 6.",
    "convert_layout(zeros(6), 'half', 'interleaved', axis=0, rotary_dim=8)": "`rotary_dim` must be at most 6, the head size, got 8.",
    "Llama3Scaling(8, 4, 1, 8192)": "`high_freq_factor` must be `low_freq_factor` = 4 or more, got 1.",
    "LongRoPEScaling([1.0], [1.0], 1)(2, 1e4, 8)": "`original_max_position` must be 2 or more, or `attention_factor` given: its logarithm divides, got 1.",
    "NTKScaling(1e-300)(4, 1e-10, 8)": "`factor` must keep `base` = 1e-10 a finite number above 0, got 1e-300.",
    "ProportionalScaling(1.5)": "`partial_rotary_factor` must be at most 1, got 1.5.",
    "hf(model_type='smollm3', layer_types=['full_attention'] * 2, no_rope_layers=[1])": "the lists of layers must have 2 entries, one a layer, got 1.",
    "hf(head_dim=10**5000)": "`head_dim` must be at most 2**20, got int of more digits than can be printed.",
    "hf(rope_scaling={'type': 'magic'})": "`type` must be one of ['default', 'dynamic', 'linear', 'llama3', 'longrope', 'mrope', 'ntk', 'proportional', 'yarn'], got 'magic'.",
    "hf(rope_scaling={'type': 'linear', 'factor': 2, 'speed': 3})": "the rotary parameters of 'linear' must be of ['factor', 'max_position_embeddings', 'mrope_interleaved', 'mrope_section', 'original_max_position_embeddings', 'partial_rotary_factor', 'rope_theta', 'rope_type', 'type'], got 'speed'.",
    "hf(max_position_embeddings=9, rope_scaling={'type': 'yarn'})": "the rotary parameters of 'yarn' must have 'factor', got ['type'].",
    "hf(max_position_embeddings=9, rope_scaling={'type': 'linear'})": "the rotary parameters of 'linear' must have 'factor', got ['type'].",
    "RoPE.from_hf_config({'num_attention_heads': 8}, layout='half')": "the configuration must have 'hidden_size': pass `config | {'hidden_size': ...}`.",
    "hf(rope_parameters={'full': {'factor': 1}, 'sliding': {'factor': 1}})": "the rotary parameters without a 'rope_type' must be of ['max_position_embeddings', 'mrope_interleaved', 'mrope_section', 'original_max_position_embeddings', 'partial_rotary_factor', 'rope_theta', 'rope_type', 'type'], got 'factor'.",
    "hf(layer_type='full')": "`layer_type` must be None or one of ['chunked_attention', 'full_attention', 'sliding_attention'], got 'full'.",
    "hf(model_type='my_model')": "the layout of the model type 'my_model' is not known: pass layout='half' or layout='interleaved', whichever its code has.",
    "hf(model_type=None)": "the layout of a configuration without `model_type` is not known: pass layout='half' or layout='interleaved', whichever its code has.",
    "hf(model_type='mine', rope_speed=3)": "`rope_speed` is not known of the model type 'mine', got 3: its rotation may differ. Leave the key out if the model's code does not read it.",
    "hf(model_type='mine', position_embedding_type='absolute')": "no `RoPE` rotates as the model type 'mine' does: it has absolute positions, so leave its queries and keys as they are.",
    "hf(model_type='mine', alibi=True)": "no `RoPE` rotates as the model type 'mine' does: it has alibi positions, so leave its queries and keys as they are.",
    "hf(model_type='gpt2')": "no `RoPE` rotates as the model type 'gpt2' does: it has no rotary positions, so leave its queries and keys as they are.",
    "hf(model_type='esm')": "no `RoPE` rotates as the model type 'esm' does: it has absolute positions, so leave its queries and keys as they are.",
    "hf(model_type='mine', rope_local_base_freq=10)": "`rope_local_base_freq` is not known of the model type 'mine', got 10: its rotation may differ. Leave the key out if the model's code does not read it.",
    "hf(model_type='gemma3_text')": "layers of the model type 'gemma3_text' differ: call `RoPE.layers_from_hf_config`, or pass as `layer_type` one of ['full_attention', 'sliding_attention'].",
    "hf(head_dim=None, hidden_size=8, num_attention_heads=0)": "`num_attention_heads` must be a positive integer, got 0.",
    "hf(max_position_embeddings=9, partial_rotary_factor=1.5, model_type='phi3')": "`partial_rotary_factor` must be at most 1, got 1.5.",
    "hf(max_position_embeddings=9, partial_rotary_factor=0.4, model_type='phi3')": "`int(head_dim * partial_rotary_factor)` must be a positive even integer, got 3.",
    "hf(model_type='neomme', layer_types=['full_attention'], num_hidden_layers=1, rope_parameters={'full_attention': {'mrope_section': [1, 1, 2]}})": "`mrope_section` of 'neomme' has an order that is not known here.",
}
TYPE_ERRORS = {
    "RoPE(8, 3, rotary_dim=0.5)": "`rotary_dim` must be a positive even integer, got 0.5 of type float. Pass int(factor * head_size) for a factor.",
    "neg_half(zeros(4, 'V8'))": "`x` must have a dtype with negative numbers, got void64.",
    "RoPE.from_hf_config(ConfigObject())": "`config` must be a dict or the path of a JSON object, got an object of type ConfigObject: pass config.to_dict().",
    "rope.tables([1.0])": "`positions[0]` must be an integer, got 1.0 of type float.",
    "rope.tables(np.arange(3))(zeros((64, 3), int))": "`x` must have a floating-point dtype, got int64.",
    "rope(zeros((64, 3)), out=zeros((64, 3), 'float32'))": "`out` must have the dtype of `x`, float64, got float32.",
    "RoPE(64, 10, fused=1)": "`fused` must be True, False or None, got 1.",
    "rope(np.ma.masked_array(zeros((64, 3)), mask=zeros((64, 3))))": "`x` must be a plain array, got numpy.ma.MaskedArray: its mask would be ignored. Pass x.filled(...) and a mask of its own.",
    "rope(matrix())": "`x` must be a plain array, got numpy.matrix: its product is another one. Pass numpy.asarray(x).",
    "rope.shift(zeros((64, 3)), '5')": "`delta` must be a finite number, got '5' of type str.",
    "RoPE(8, 3, scaling='yarn')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'yarn'.",
    "RoPE(8, 3, sections=4)": "`sections` must be a list or tuple of integers, got 4.",
    "RoPE.from_hf_config(5)": "`config` must be a dict or the path of a JSON object, got an object of type int.",
    "RoPE(8, 3, scaling=LinearScaling)": f"`scaling` must be a function such as LinearScaling(4.0), or None, got {LinearScaling!r}.",
    "RoPE(8, 3, scaling=lambda *_: [1.0, 2.0, 3.0, 4.0])": "`scaling` must return frequencies and a factor, got [1.0, 2.0, 3.0, 4.0].",
    "rope.shift(zeros((64, 3)), np.timedelta64(5, 'D'))": "`delta` must have an integer or real dtype, got timedelta64[D]. Pass days_since(delta).",
    "rope(zeros((64, 7)), positions=week - week[0])": "`positions` must have an integer or real dtype, got timedelta64[D]. Pass days_since(positions).",
    "RoPE(8, 3, scaling='ntk')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'ntk'.",
    "RoPE(8, 3, scaling='dynamic')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'dynamic'.",
    "RoPE(8, 3, scaling='llama3')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'llama3'.",
    "RoPE(8, 3, scaling='longrope')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'longrope'.",
    "RoPE(8, 3, scaling='proportional')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'proportional'.",
    "RoPE(8, 3, scaling='magic')": "`scaling` must be a function such as LinearScaling(4.0), or None, got 'magic'.",
    "RoPE(8, 3, scaling={'type': 'linear'})": "`scaling` must be a function such as LinearScaling(4.0), or None, got {'type': 'linear'}. `RoPE.from_hf_config` reads a configuration.",
    "neg_half(zeros(4, dtype='uint8'))": "`x` must have a dtype with negative numbers, got uint8.",
    "LongRoPEScaling(1.0, [1.0], 8)": "`short_factor` must be a list or tuple of numbers, got 1.0.",
    "hf(text_config='a')": "`text_config` must be a dict, got 'a'.",
    "hf(model_type=['llama'])": "`model_type` must be a string, got ['llama'].",
    "hf(rope_scaling=[1])": "`rope_scaling` must be a dict, got [1].",
    "hf(rope_scaling={'type': 'mrope', 'mrope_section': 3}, max_position_embeddings=9)": "`mrope_section` must be a list of integers, got 3.",
    "hf(max_position_embeddings=9, layer_types=3, layer_type='full_attention')": "`layer_types` must be a list with an entry for each layer, got 3.",
}
# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "DynamicNTKScaling(2.0, 4)(8, 1e4, '9')": "seq_len",
    "rope(zeros((64, 3)), out=np.lib.stride_tricks.as_strided(zeros(64), (64, 3), (8, 0)))": "out",
    "RoPE(63, 8)": "head_size",
    "RoPE(64, 0)": "seq_len",
    "RoPE(64, 8, 0)": "base",
    "rope.tables(np.arange(3), xp=np)": "xp",
    "rope.tables(range(3))(zeros((3, 64)))": "x",
    "RoPE(64, 8, np.nan)": "base",
    "RoPE(64, 8, scale=np.inf)": "scale",
    "rope(zeros(64))": "x",
    "RoPE(64, 10, feature_axis=-1, seq_axis=-2)(zeros((5, 64)), offset=6)": "x",
    "rope(zeros((64, 3, 1)), offset=-1)": "offset",
    "rope(zeros((64, 3, 2)), positions=zeros(1))": "positions",
    "RoPE(8, 3, rotary_dim=3)": "rotary_dim",
    "RoPE(6, 3, sections=(1, 2), section_order='strided')": "sections",
    "RoPE(8, 3, sections=(2, 2))(zeros((8, 3)), positions=zeros((3, 3)))": "positions",
    "RoPE(2, 3, scaling=lambda *_: ([np.nan], 1.0))": "scaling",
    "rope.shift(zeros((64, 3)), zeros(2))": "delta",
    "RoPE(8, 5, sections=(1, 3)).shift(zeros((8, 3)), zeros(3))": "delta",
    "RoPE(8, 10**30, scaling=DynamicNTKScaling(2, 8))": "seq_len",
    "apply_rope(zeros((64, 3)), zeros((32, 3)), zeros((32, 3)), out=zeros((64, 4)))": "out",
    "apply_rope(zeros((4, 2)), zeros((2, 2)), zeros((2, 2)), layout=None)": "layout",
    "apply_rope(zeros((4, 2)), zeros((1, 2)), zeros((1, 2)))": "cos",
    "apply_rope(zeros((4, 2), int), zeros((2, 2)), zeros((2, 2)))": "x",
    "neg_half(zeros(3))": "x",
    "neg_half(zeros(4), 1)": "axis",
    "convert_layout(zeros(4), 'half', 'other', axis=0)": "target",
    "convert_layout(zeros(6), 'half', 'interleaved', axis=0, num_heads=2)": "rotary_dim",
    "convert_layout(zeros(6), 'half', 'interleaved', axis=0, rotary_dim=3)": "rotary_dim",
    "LinearScaling(0)": "factor",
    "LinearScaling(2)(7, 100, 8)": "dim",
    "LinearScaling(2)(8, 100, 0)": "seq_len",
    "DynamicNTKScaling(2, 0)": "original_max_position",
    "DynamicNTKScaling(2, 8)(8, 100, 10**30)": "seq_len",
    "YaRNScaling(2, 8, mscale=-1)": "mscale",
    "YaRNScaling(2, 8, attention_factor=0)": "attention_factor",
    "YaRNScaling(2, 8)(10**30, 100, 8)": "dim",
    "LongRoPEScaling([1.0], [1.0], 8, factor=0)": "factor",
    "xpos_scale(zeros(2), 3)": "dim",
    "xpos_scale(zeros(2), 4, center=np.nan)": "center",
    "hf(rope_scaling={'type': ['yarn']})": "type",
    "rope(zeros((64, 3)), out=True)": "out",
    "RoPE(64, 8, seq_axis=1.0)": "seq_axis",
    "rope(zeros((64, 3, 1)), inverse=1)": "inverse",
    "RoPE(8, 3, fused=zeros((2, 3)))": "fused",
    "rope(zeros((64, 3)), positions=zeros(3, ml_dtypes.int4))": "positions",
    "rope(zeros((64, 3)), positions=foreign('pandas', 'Series'))": "positions",
    "RoPE(8, 3, scaling='linear')": "scaling",
    "neg_half(week[:4])": "x",
    "rotate_pairs(zeros(4, dtype=bool))": "x",
    "NTKScaling('2')": "factor",
    "YaRNScaling(2, 8, truncate=None)": "truncate",
    "YaRNScaling(2, 8)(8, [100], 8)": "base",
    "hf(head_dim=2.5)": "head_dim",
    "RoPE.from_hf_config({'head_dim': 5, 'rotary_dim': 5}, 9, layout='half')": "rotary_dim",
    "hf(max_position_embeddings=9, rope_parameters={'rope_theta': 0})": "rope_theta",
    "hf(partial_rotary_factor='all')": "partial_rotary_factor",
    "hf(rope_interleave='no')": "rope_interleave",
    "hf(max_position_embeddings=9, rope_parameters={'mrope_section': [4], 'mrope_interleaved': 1})": "mrope_interleaved",
}

test_messages = make_test(
    VALUE_ERRORS,
    TYPE_ERRORS,
    NAMED,
    rope=RoPE(64, 10),
    matrix=matrix,
    NoAxes=NoAxes,
    ConfigObject=ConfigObject,
    hf=hf,
)


def test_an_object_that_raised_is_still_usable():
    x = np.ones((64, 5, 2))
    rope = RoPE(64, 10)
    for wrong in (np.ones((64, 11, 2)), np.ones((3, 64, 2)), [1.0]):
        with pytest.raises((TypeError, ValueError)):
            rope(wrong)
    np.testing.assert_array_equal(rope(x), RoPE(64, 10)(x))
