"""Values are unpickled as they were, those that earlier releases pickled among them.

`python tests/test_pickles.py VERSION` stores the values of a version, before it is released; there
is no file before the first release.
"""

import base64
import inspect
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import positional_embeddings as pe
from samples import CATALOGUE, NEW, is_numbers

FOLDER = Path(__file__).parent / "pickles"


def written(name, values):
    """Return the expression of a class with values of its parameters."""
    arguments = [
        f"{parameter}={f'asarray({value.tolist()})' if is_numbers(value) else repr(value)}"
        for parameter, value in values.items()
        if parameter not in NEW
    ]
    return f"{name}({', '.join(arguments)})"


def is_class(name):
    return inspect.isclass(getattr(pe, name, None))


# Values that a sample does not have: combined, made by a method, or of a function that has a name.
FURTHER = [
    'CausalMask() | ~PaddingMask([1, 2], side="left")',
    "ChunkedMask(2) & DilatedMask(3)",
    "FunctionBias(max, 2)",
    "FunctionMask(max)",
    "0.5 * ALiBiBias(2)",
    "KVCache.empty([AttentionLayer(2, 4, feature_axis=0, seq_axis=1)], 2, 4)",
    "RoPE(12, 10, scaling=YaRNScaling(4, 16), sections=[2, 4], feature_axis=-1, seq_axis=-2)",
    "RoPE(8, 10).tables(arange(3))",
    "RoPE(8, 10, feature_axis=0, seq_axis=1)",
    "RoPE(8, 10, feature_axis=0, seq_axis=1).tables(arange(3))",
]
OF_SAMPLES = [
    written(name, call.values)
    for name, calls in CATALOGUE.items()
    if is_class(name)
    for call in calls
    if "function" not in call.values
]
VALUES = list(dict.fromkeys([*FURTHER, *OF_SAMPLES]))
STORED = [
    pytest.param(expression, stored, id=f"{file.stem}-{expression}")
    for file in sorted(FOLDER.glob("*.json"))
    for expression, stored in json.loads(file.read_text(encoding="utf-8")).items()
]


def value_of(expression):
    """Return the value of an expression of public names."""
    return eval(
        expression, vars(pe) | {"arange": np.arange, "asarray": np.asarray, "ones": np.ones}
    )


@pytest.mark.complete
def test_values_are_of_all_public_classes():
    classes = {getattr(pe, name) for name in pe.__all__ if is_class(name)} - {pe.Mask}
    assert classes <= {type(value_of(text)) for text in VALUES}


@pytest.mark.parametrize("expression", VALUES)
def test_a_value_is_unpickled(expression):
    value = value_of(expression)
    unpickled = pickle.loads(pickle.dumps(value, protocol=4))
    assert type(unpickled) is type(value)
    assert repr(unpickled) == repr(value)


@pytest.mark.parametrize(("expression", "stored"), STORED)
def test_stored_value_is_unpickled(expression, stored):
    unpickled = pickle.loads(base64.b85decode(stored))
    # Of the same shared objects as what is unpickled.
    expected = pickle.loads(pickle.dumps(value_of(expression), protocol=4))
    assert repr(unpickled) == repr(expected)
    assert pickle.dumps(unpickled) == pickle.dumps(expected)


@pytest.mark.parametrize("tables", ["", ".tables(arange(3))"])
def test_an_unpickled_rope_keeps_its_axes(tables):
    """It takes an array of four axes, which one without axes refuses."""
    rotate = value_of(f"RoPE(8, 10, feature_axis=0, seq_axis=1){tables}")
    unpickled = pickle.loads(pickle.dumps(rotate, protocol=4))
    x = np.random.default_rng(0).standard_normal((8, 3, 2, 2))
    rotated = unpickled(x)
    for pair, place in np.ndindex(4, 3):
        c, s = np.cos(place * 10.0**-pair), np.sin(place * 10.0**-pair)
        a, b = x[pair, place], x[pair + 4, place]
        np.testing.assert_allclose(rotated[pair, place], a * c - b * s, atol=1e-12)
        np.testing.assert_allclose(rotated[pair + 4, place], b * c + a * s, atol=1e-12)


def store(version):
    """Store the values of a version."""
    stored = {
        text: base64.b85encode(pickle.dumps(value_of(text), protocol=4)).decode() for text in VALUES
    }
    text = json.dumps(stored, indent=1)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{version}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    store(*sys.argv[1:])
