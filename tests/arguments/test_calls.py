"""Public calls that do not fit their parameters, and errors that come from within them."""

import inspect
import pickle
import re
import typing

import numpy as np
import pytest

import positional_embeddings as pe
import positional_embeddings.sklearn
from positional_embeddings.biases.bias import Bias

LAYERS = [name for name in pe.__all__ if isinstance(getattr(pe, name), type)]
FUNCTIONS = [name for name in pe.__all__ if inspect.isfunction(getattr(pe, name))]
NAMES = vars(pe) | {
    "np": np,
    "x": np.ones((4, 3)),
    "rope": pe.RoPE(4, 9),
    "bias": pe.ALiBiBias(4),
    "cache": pe.KVCache.empty(1, 8),
    "estimators": positional_embeddings.sklearn,
}
X = "numpy.ndarray of shape (4, 3)"
WINDOW = "Write SlidingWindowMask(left, right), such as SlidingWindowMask(1, 0)."
CAUSAL = "Write CausalMask(mask_diagonal=False)."
ERRORS = {
    "SlidingWindowMask(4)": (
        f"`SlidingWindowMask` needs `right`, got SlidingWindowMask(4). {WINDOW}"
    ),
    "SlidingWindowMask()": (
        f"`SlidingWindowMask` needs `left` and `right`, got SlidingWindowMask(). {WINDOW}"
    ),
    "SlidingWindowMask(1, 0, 3)": (
        "`SlidingWindowMask` does not fit: too many positional arguments, got "
        f"SlidingWindowMask(1, 0, 3). {WINDOW}"
    ),
    "SlidingWindowMask(1, 0, left=3)": (
        "`SlidingWindowMask` does not fit: multiple values for argument 'left', got "
        f"SlidingWindowMask(1, 0, left=3). {WINDOW}"
    ),
    "CausalMask(diagonal=True)": (
        "`CausalMask` has no parameter `diagonal`, got CausalMask(diagonal=True). Did you mean "
        f"mask_diagonal? {CAUSAL}"
    ),
    "CausalMask(zzz=np.ones(3))": (
        "`CausalMask` has no parameter `zzz`, got CausalMask(zzz=numpy.ndarray of shape (3,)). "
        f"{CAUSAL}"
    ),
    "KERPLEBias(np.ones(2))": (
        "`KERPLEBias` needs `r2`, got KERPLEBias(numpy.ndarray of shape (2,)). Write KERPLEBias("
        "r1, r2, variant='logarithmic'), such as KERPLEBias(np.asarray([1.0]), "
        'np.asarray([2.0]), "power").'
    ),
    "neg_half(x, dim=0)": (
        f"`neg_half` has no parameter `dim`, got neg_half({X}, dim=0). Did you mean axis? Write "
        "neg_half(x, /, axis=0), such as neg_half(np.asarray([1, 2, 3, 4]))."
    ),
    "rope(x, position_ids=3)": (
        f"`RoPE.__call__` has no parameter `position_ids`, got RoPE(...)({X}, position_ids=3). Did "
        "you mean positions? Write RoPE(...)(x, /, *, positions=None, offset=0, inverse=False, "
        "out=None)."
    ),
    "cache.step()": (
        "`KVCache.step` needs `tokens`, got KVCache(...).step(). Write KVCache(...).step(tokens, "
        "/), such as cache.step(1)."
    ),
    "KVCache.empty(1)": (
        "`KVCache.empty` needs `capacity`, got KVCache.empty(1). Write KVCache.empty(batch, "
        "capacity, sinks=0, *, window=None, feature_axis=None, seq_axis=None, xp=None, "
        "device=None), such as KVCache.empty(2, 8, feature_axis=-1, seq_axis=-2)."
    ),
    "RoPE.from_hf_config(rotary_dim=2)": (
        "`RoPE.from_hf_config` needs `config`, got RoPE.from_hf_config(rotary_dim=2). Write "
        "RoPE.from_hf_config(config, seq_len=None, **options), such as "
        'RoPE.from_hf_config({"model_type": "dinov3_vit", "hidden_size": 384}).'
    ),
    "combine_masks(x, axis=0)": (
        f"`combine_masks` has no parameter `axis`, got combine_masks({X}, axis=0). Write "
        "combine_masks(*masks), such as combine_masks(create_causal_mask(5), "
        "create_padding_mask([3, 4], 5), None)."
    ),
    "RoPE.__call__()": (
        "`__call__` needs `self` and `x`, got __call__(). Write __call__(self, x, /, *, "
        "positions=None, offset=0, inverse=False, out=None)."
    ),
}
# Beginnings: what follows are the parameters.
NAMED = {
    "RoPE(64)": "`RoPE` needs `seq_len`, got RoPE(64). Write RoPE(head_size, seq_len, base=10000",
    "RoPE(dim=64)": "`RoPE` has no parameter `dim`, got RoPE(dim=64). Did you mean head_size? ",
    "RoPE(64, 9, theta=5e5)": (
        "`RoPE` has no parameter `theta`, got RoPE(64, 9, theta=500000.0). Did you mean base? "
    ),
    "RoPE(64, max_position_embeddings=9)": (
        "`RoPE` has no parameter `max_position_embeddings`, got RoPE(64, "
        "max_position_embeddings=9). Did you mean seq_len? "
    ),
    "scaled_dot_product_attention(x, x, x, is_causal=True)": (
        "`scaled_dot_product_attention` has no parameter `is_causal`, got "
        f"scaled_dot_product_attention({X}, {X}, {X}, is_causal=True). Pass mask=CausalMask(). "
        "Write scaled_dot_product_attention(q, k, v, /, *, mask=None, bias=None, "
    ),
    "scaled_dot_product_attention(x, x, x, None)": (
        "`scaled_dot_product_attention` does not fit: too many positional arguments, got "
    ),
    "bias(query_length=3)": (
        "`ALiBiBias.__call__` has no parameter `query_length`, got ALiBiBias(...)(query_length=3). "
        "Did you mean q_len? Write ALiBiBias(...)(q_len=None, "
    ),
    "estimators.GapFiller(estimatr=3)": (
        "`GapFiller` has no parameter `estimatr`, got GapFiller(estimatr=3). Did you mean "
        "estimator? "
    ),
    "T5Bias()": "`T5Bias` needs `num_heads`, got T5Bias(). Write T5Bias(num_heads, *, bidirec",
    "TokenEmbedding(embedding_dim=3, num_embeddings=2)": (
        "`TokenEmbedding` has no parameter `embedding_dim`, got TokenEmbedding(embedding_dim=3, "
        "num_embeddings=2). Did you mean d_model? "
    ),
}


@pytest.mark.parametrize("call", ERRORS)
def test_the_right_call_is_shown(call):
    with pytest.raises(TypeError) as error:
        eval(call, NAMES)
    assert str(error.value) == ERRORS[call]
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


@pytest.mark.parametrize("call", NAMED)
def test_the_parameter_is_named(call):
    with pytest.raises(TypeError, match=rf"^{re.escape(NAMED[call])}"):
        eval(call, NAMES)


# Names of other libraries, by function or class, and what the message says of each.
PORTED = {
    "scaled_dot_product_attention": {
        "is_causal": "Pass mask=CausalMask().",
        "causal": "Pass mask=CausalMask().",
        "attn_mask": "Pass mask=~attn_mask, or bias=attn_mask where it is added to scores.",
        "attention_mask": "Pass mask=PaddingMask.from_attention_mask(attention_mask).",
        "sliding_window": "Pass mask=SlidingWindowMask.of(sliding_window).",
        "alibi_slopes": "Pass bias=ALiBiBias(num_heads).",
        "attn_bias": "Did you mean bias?",
        "position_bias": "Did you mean bias?",
        "softmax_scale": "Did you mean scale?",
        "sm_scale": "Did you mean scale?",
        "attn_logit_softcapping": "Did you mean softcap?",
        "logits_soft_cap": "Did you mean softcap?",
        "s_aux": "Did you mean sinks?",
        "position_ids": "Did you mean positions?",
        "input_pos": "Did you mean positions?",
        "start_pos": "Did you mean offset?",
        "seqlen_offsets": "Did you mean offset?",
        "seq_dim": "Did you mean seq_axis?",
        "dropout_p": "",
    },
    "apply_rope": {
        "interleaved": "Pass layout='interleaved' or layout='half'.",
        "traditional": "Pass layout='interleaved' or layout='half'.",
        "is_neox_style": "Pass layout='half' or layout='interleaved'.",
    },
    "RoPE": {
        "rope_theta": "Did you mean base?",
        "max_seq_len": "Did you mean seq_len?",
        "partial_rotary_factor": "Pass rotary_dim=int(partial_rotary_factor * head_size).",
    },
    "RoPEMultiHeadAttention": {
        "num_key_value_heads": "Did you mean num_kv_heads?",
        "n_kv_heads": "Did you mean num_kv_heads?",
    },
    "T5Bias": {
        "n_heads": "Did you mean num_heads?",
        "relative_attention_num_buckets": "Did you mean num_buckets?",
        "relative_attention_max_distance": "Did you mean max_distance?",
        "seed": "Did you mean rng?",
        "generator": "Did you mean rng?",
        "random_state": "Did you mean rng?",
    },
    "alibi_bias": {
        "query_length": "Did you mean q_len?",
        "key_length": "Did you mean k_len?",
    },
}


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in PORTED for option in PORTED[name]]
)
def test_a_name_of_another_library_is_known(name, option):
    with pytest.raises(TypeError) as error:
        getattr(pe, name)(**{option: 1})
    hint = PORTED[name][option]
    expected = f"has no parameter `{option}`, got {name}({option}=1). {hint}{' ' * bool(hint)}Write"
    assert expected in str(error.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_answers_a_wrong_call(name):
    with pytest.raises(TypeError) as error:
        getattr(pe, name)(of_no_function=1)
    assert str(error.value).startswith(f"`{name}` has no parameter `of_no_function`, got {name}(")


def test_a_part_of_a_public_call_answers_too():
    mask = pe.FunctionMask(lambda *_: pe.neg_half(dim=0))
    with pytest.raises(TypeError, match=r"^`neg_half` has no parameter `dim`, got"):
        mask.dense(3)


def test_a_misfit_of_a_function_of_the_user_stays_its_own():
    with pytest.raises(
        TypeError, match=r"<lambda>\(\) takes 1 positional argument but 2 were given$"
    ):
        pe.FunctionMask(lambda _: None).dense(3)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "Mask"])
def test_every_layer_answers_a_wrong_call(name):
    layer = getattr(pe, name)
    with pytest.raises(TypeError) as error:
        layer(of_no_layer=1)
    beginning = f"`{name}` has no parameter `of_no_layer`, got {name}(of_no_layer=1). Write {name}("
    assert str(error.value).startswith(beginning)
    # Each parameter is shown, and the example is one that the class can be called with.
    parameters = inspect.signature(layer).parameters
    assert all(re.search(rf"[( ]{p}[=,)]", str(error.value)) for p in parameters)
    if ", such as " in str(error.value):
        example = str(error.value).partition(", such as ")[2].removesuffix(".")
        names = {"np": np, "table": np.zeros((3, 1)), **vars(pe)}
        assert isinstance(eval(example, names), layer)


def test_without_docstrings_there_is_no_example(monkeypatch):
    monkeypatch.setattr(pe.ChunkedMask, "__doc__", None)
    with pytest.raises(TypeError, match=r"Write ChunkedMask\(size\)\.$"):
        pe.ChunkedMask()


def test_errors_within_a_call_stay_as_they_are():
    with pytest.raises(TypeError, match=r"^`head_size` must be a positive even integer, got 64\.5"):
        pe.RoPE(64.5, 8)
    for wrong in ((), (3,)):
        with pytest.raises(TypeError, match=r"^`Mask` is the base of masks, such as"):
            pe.Mask(*wrong)


def test_signatures_stay_as_they_are():
    assert str(inspect.signature(pe.ChunkedMask)) == "(size: int) -> None"
    assert typing.get_type_hints(pe.ChunkedMask.__init__)["size"] is int
    assert pickle.loads(pickle.dumps(pe.ChunkedMask(3))) == pe.ChunkedMask(size=3)


class OwnMask(pe.Mask):
    """As someone may write it who takes the base for the way to a rule of their own."""

    def __init__(self):
        pass


class OwnBias(Bias):
    pass


def test_masks_without_a_rule(backend):
    mask, q = OwnMask(), backend.array(np.ones((4, 3, 2)))
    calls = (
        lambda: mask(0, 1),
        lambda: mask.dense(3),
        lambda: (~mask | pe.CausalMask()).dense(3),
        lambda: pe.describe_mask(mask, 3),
        lambda: backend.numpy(pe.scaled_dot_product_attention(q, q, q, mask=mask)),
    )
    message = r"^`OwnMask` has no rule of its own: pass yours as FunctionMask\(function\)\.$"
    for call in calls:
        with pytest.raises(TypeError, match=message):
            call()


def test_biases_without_a_formula(backend):
    bias, q = OwnBias(), backend.array(np.ones((4, 3, 2)))
    calls = (
        lambda: bias(3),
        lambda: backend.numpy(bias(query_positions=backend.array([0, 1]))),
        lambda: backend.numpy(pe.scaled_dot_product_attention(q, q, q, bias=bias)),
    )
    message = r"^`OwnBias` has no formula of its own: pass a FunctionBias or an array instead"
    for call in calls:
        with pytest.raises(TypeError, match=message):
            call()
