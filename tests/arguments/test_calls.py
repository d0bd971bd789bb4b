"""Calls that do not fit the parameters of a class, and errors that come from within it."""

import inspect
import pickle
import re
import typing

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.biases.bias import Bias

LAYERS = [name for name in pe.__all__ if isinstance(getattr(pe, name), type)]
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
    "T5Bias()": "`T5Bias` needs `num_heads`, got T5Bias(). Write T5Bias(num_heads, *, bidirec",
    "TokenEmbedding(embedding_dim=3, num_embeddings=2)": (
        "`TokenEmbedding` has no parameter `embedding_dim`, got TokenEmbedding(embedding_dim=3, "
        "num_embeddings=2). Did you mean d_model? "
    ),
}


@pytest.mark.parametrize("call", ERRORS)
def test_the_right_call_is_shown(call):
    with pytest.raises(TypeError) as error:
        eval(f"pe.{call}")
    assert str(error.value) == ERRORS[call]
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


@pytest.mark.parametrize("call", NAMED)
def test_the_parameter_is_named(call):
    with pytest.raises(TypeError, match=rf"^{re.escape(NAMED[call])}"):
        eval(f"pe.{call}")


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
