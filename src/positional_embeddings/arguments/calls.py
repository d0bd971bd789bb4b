"""Calls of a class that do not fit its parameters, answered by one that does."""

import re
from collections.abc import Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

from positional_embeddings.arrays.errors import did_you_mean, shown

# Names that libraries have for one thing.
_SAME = (
    {"dim", "d_model", "head_dim", "head_size", "embed_dim", "embedding_dim", "embedding_size"},
    {"seq_len", "max_len", "max_position_embeddings", "block_size", "n_positions"},
    {"max_len", "num_embeddings"},
    {"side", "padding_side"},
    {"base", "theta", "rope_theta"},
    {"num_heads", "n_heads", "nhead", "num_attention_heads"},
    {"vocab_size", "num_embeddings"},
)


def answer_wrong_calls(layer: type[Any]) -> None:
    """Let a class name the parameters that a call lacks, or does not have."""
    make = layer.__init__

    @wraps(make)
    def init(self: Any, *args: Any, **options: Any) -> None:
        try:
            make(self, *args, **options)
        except TypeError:
            expected = signature(make)
            if len(expected.parameters) == 1:  # of a base, which says that it cannot be made
                make(self)
            try:
                expected.bind(self, *args, **options)
            except TypeError as error:
                misfit = _misfit(layer, expected, (args, options), str(error))
            else:  # the error is not of the call
                raise
            raise TypeError(misfit) from None

    layer.__init__ = init


def _misfit(layer: type[Any], expected: Signature, came: Any, reason: str) -> str:
    """Return the message about a call, whose arguments and options came."""
    _, *parameters = [p.replace(annotation=Parameter.empty) for p in expected.parameters.values()]
    names, (args, options) = [p.name for p in parameters], came
    missing = [
        f"`{p.name}`"
        for p in parameters[len(args) :]
        if p.default is Parameter.empty and p.name not in options
    ]
    hint = ""
    if unknown := [name for name in options if name not in names]:
        what = f"has no parameter `{unknown[0]}`"
        hint = did_you_mean(_usual(unknown[0], names), names)
    else:
        what = f"needs {' and '.join(missing)}" if missing else f"does not fit: {reason}"
    text = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in options.items())])
    call = f"{layer.__name__}{Signature(parameters)}"
    # The first call of its examples that has arguments.
    examples = (layer.__doc__ or "").partition("Examples")[2]
    found = re.search(rf"\b{layer.__name__}\((?:[^()]|\([^()]*\))+\)", examples)
    such_as = f", such as {found[0]}" if found else ""
    return f"`{layer.__name__}` {what}, got {layer.__name__}({text}).{hint} Write {call}{such_as}."


def _usual(name: str, names: Sequence[str]) -> str:
    """Return the one of some names that means the same as another one, or that itself."""
    same = (other for alike in _SAME if name in alike for other in names if other in alike)
    return next(same, name)
