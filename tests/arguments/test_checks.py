"""Fields of layers are checked in classes that are derived from them, too."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from positional_embeddings import RoPE, YaRNScaling
from positional_embeddings.arguments import checks


class OwnRoPE(RoPE):
    """A class without fields of its own."""


@dataclass(frozen=True)
class OwnScaling(YaRNScaling):
    """A class with one more field."""

    step: Annotated[int, checks.feature_count] = 1


def test_checks_are_inherited():
    with pytest.raises(ValueError, match="`seq_len` must be a positive integer, got -3"):
        OwnRoPE(8, -3)
    with pytest.raises(ValueError, match="`factor` must be a positive finite number, got 0"):
        OwnScaling(0, 10)
    with pytest.raises(ValueError, match="`step` must be a positive integer, got 0"):
        OwnScaling(2, 10, step=0)
    assert OwnScaling(2, 10).step == 1
    with pytest.raises(ValueError, match="`factor` must be a positive finite number, got 0"):
        YaRNScaling(0, 10)
