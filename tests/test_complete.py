"""The samples are of all public names."""

import pytest

import positional_embeddings as pe
from positional_embeddings.biases.bias import Bias
from samples import BIASES, CATALOGUE, MASKS, NAMES, NOT_CALLED, SCALINGS, public

pytestmark = pytest.mark.complete


def kinds_of(base):
    """Return the names of the public classes of a base, but for that."""
    named = {name: getattr(pe, name) for name in pe.__all__}
    kinds = {name: kind for name, kind in named.items() if isinstance(kind, type)}
    return {name for name, kind in kinds.items() if issubclass(kind, base) and kind is not base}


def test_every_parameter_of_every_public_name_has_a_value():
    has = {
        name: {argument for call in calls for argument in call.values}
        for name, calls in CATALOGUE.items()
    }
    assert has == public()
    assert NOT_CALLED.keys() <= NAMES.keys()


def test_every_public_name_has_a_sample():
    named = {name for name in CATALOGUE if "." not in name}
    assert named | NOT_CALLED.keys() == NAMES.keys() - {"__version__"}


def test_every_mask_has_a_rule():
    assert MASKS.keys() == kinds_of(pe.Mask)
    for sample in MASKS.values():
        assert sample.values


def test_every_bias_and_scaling_has_values():
    assert BIASES.keys() == kinds_of(Bias)
    assert SCALINGS.keys() == {name for name in pe.__all__ if name.endswith("Scaling")}
    assert all(BIASES.values())
    assert all(SCALINGS.values())
