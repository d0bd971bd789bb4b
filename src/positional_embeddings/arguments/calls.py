"""Public calls: the one wrapper of functions, classes and methods, and what it answers."""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import wraps
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from positional_embeddings.arrays.errors import did_you_mean, shown
from positional_embeddings.arrays.quiet import caller, ignore_errors, is_compiling

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# What `answered` has returned.
_wrapped: set[Callable[..., Any]] = set()


def answered(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function that computes nothing, or little, one that users call.

    A call that does not fit the parameters is a TypeError that names the parameter and the call to
    write. Nothing is checked before: only where a TypeError comes, the signature is asked whether
    it is of the call itself.
    """

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            return function(*args, **options)
        except TypeError:
            if misfit := _misfit(function, args, options):
                raise TypeError(misfit) from None
            raise

    _wrapped.add(call)
    return call


def public(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function, or a method, one that users call: `answered`, and without warnings.

    In a public call NumPy neither warns nor raises of floating-point numbers, whatever
    `numpy.errstate` says: it runs in a context of its own, which keeps the context of its
    caller for `as_caller`. Within a public call further ones change nothing.
    """

    @answered
    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        if is_compiling() or caller.get() is not None:
            return function(*args, **options)
        # What an interrupt leaves set ends with the copy of the context.
        context = copy_context()
        quiet = context.copy()
        quiet.run(caller.set, context)
        quiet.run(ignore_errors)
        return quiet.run(function, *args, **options)

    return call


def make_public(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make functions, and classes with their methods, `public` in all modules that have them."""
    for name in names:
        value = namespace[name]
        if isinstance(value, FunctionType):
            # Pickles look for a function where it was defined.
            namespace[name] = public(value)
            setattr(sys.modules[value.__module__], name, namespace[name])
        for owner in getattr(value, "__mro__", ()):
            if owner.__module__.startswith("positional_embeddings"):
                _make_methods_public(owner)


def _make_methods_public(owner: type) -> None:
    for name, value in list(vars(owner).items()):
        function = getattr(value, "__func__", value)  # of a class method
        is_named = name in ("__init__", "__call__") or not name.startswith("_")
        if is_named and isinstance(function, FunctionType) and function not in _wrapped:
            # What computes as an object is made, is public itself.
            method = (answered if name == "__init__" else public)(function)
            setattr(owner, name, method if value is function else type(value)(method))


# Names that libraries have for one thing.
_SAME = (
    {"dim", "d_model", "head_dim", "head_size", "embed_dim", "embedding_dim", "embedding_size"},
    {"seq_len", "max_len", "max_seq_len", "max_position_embeddings", "block_size", "n_positions"},
    {"max_len", "num_embeddings"},
    {"side", "padding_side"},
    {"base", "theta", "rope_theta"},
    {"num_heads", "n_heads", "nhead", "num_attention_heads"},
    {"num_kv_heads", "n_kv_heads", "num_key_value_heads"},
    {"vocab_size", "num_embeddings"},
    {"positions", "position_ids", "input_pos"},
    {"offset", "seqlen_offsets", "start_pos"},
    {"bias", "attn_bias", "position_bias"},
    {"scale", "softmax_scale", "sm_scale"},
    {"softcap", "attn_logit_softcapping", "logits_soft_cap"},
    {"sinks", "s_aux"},
    {"rng", "generator", "random_state", "seed"},
    {"axis", "dim"},
    {"seq_axis", "seq_dim"},
    {"q_len", "query_length"},
    {"k_len", "key_length"},
    {"num_buckets", "relative_attention_num_buckets"},
    {"max_distance", "relative_attention_max_distance"},
)

# Parameters of other libraries whose values are others here: the parameter, and how to write it.
_OTHER_VALUES = {
    "is_causal": ("mask", "mask=CausalMask()"),
    "causal": ("mask", "mask=CausalMask()"),
    "attn_mask": ("mask", "mask=~attn_mask, or bias=attn_mask where it is added to scores"),
    "attention_mask": ("mask", "mask=PaddingMask.from_attention_mask(attention_mask)"),
    "sliding_window": ("mask", "mask=SlidingWindowMask.of(sliding_window)"),
    "alibi_slopes": ("bias", "bias=ALiBiBias(num_heads)"),
    "interleaved": ("layout", "layout='interleaved' or layout='half'"),
    "traditional": ("layout", "layout='interleaved' or layout='half'"),
    "is_neox_style": ("layout", "layout='half' or layout='interleaved'"),
    "partial_rotary_factor": ("rotary_dim", "rotary_dim=int(partial_rotary_factor * head_size)"),
}


def _misfit(function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> str:
    """Return the message about a call that does not fit, "" if it does."""
    expected = signature(function)
    try:
        expected.bind(*args, **options)
    except TypeError as error:
        reason = str(error)
    else:
        return ""
    parameters = [p.replace(annotation=Parameter.empty) for p in expected.parameters.values()]
    called = _Called(function.__name__, function.__name__, function.__name__, function.__doc__)
    if args and parameters and parameters[0].name in ("self", "cls"):
        called = _method_of(args[0], function)
        args, parameters = args[1:], parameters[1:]
    names = [p.name for p in parameters]
    missing = [
        f"`{p.name}`"
        for p in parameters[len(args) :]
        if p.default is Parameter.empty and p.name not in options and p.kind not in _ANY_NUMBER
    ]
    takes_any_name = Parameter.VAR_KEYWORD in [p.kind for p in parameters]
    unknown = [name for name in options if name not in names and not takes_any_name]
    if unknown:
        what = f"has no parameter `{unknown[0]}`"
    else:
        what = f"needs {' and '.join(missing)}" if missing else f"does not fit: {reason}"
    hint = _hint(unknown[0], names) if unknown else ""
    came = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in options.items())])
    right = f"{called.call}{Signature(parameters)}{called.example()}"
    return f"`{called.name}` {what}, got {called.call}({came}).{hint} Write {right}."


# Kinds of parameters that a call may leave out without a default.
_ANY_NUMBER = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD


class _Called(NamedTuple):
    """What was called, as messages name it."""

    name: str  # such as KVCache.step
    call: str  # what arguments are written behind, such as KVCache(...).step
    pattern: str  # of the same in examples, such as cache.step
    docstring: str | None

    def example(self) -> str:
        """Return the first call of the examples that has arguments, "" if there is none."""
        _, _, examples = (self.docstring or "").partition("Examples")
        call = re.search(rf"\b{self.pattern}\(([^()\n]|\([^()\n]*\))+\)", examples)
        return f", such as {call[0]}" if call else ""


def _method_of(owner: Any, function: Callable[..., Any]) -> _Called:
    """Return how messages name a method of an instance or of a class."""
    is_class, name = isinstance(owner, type), function.__name__
    kind = owner.__name__ if is_class else type(owner).__name__
    docstring = (function.__doc__ or "") + (owner.__doc__ or "")
    if name == "__init__":
        return _Called(kind, kind, kind, docstring)
    instance = kind if is_class else f"{kind}(...)"
    call = instance if name == "__call__" else f"{instance}.{name}"
    return _Called(f"{kind}.{name}", call, rf"\w+\.{name}", docstring)


def _hint(unknown: str, names: Sequence[str]) -> str:
    """Return the sentence that says which parameter is meant, "" if none is near."""
    parameter, line = _OTHER_VALUES.get(unknown, ("", ""))
    if parameter in names:
        return f" Pass {line}."
    same = (name for alike in _SAME if unknown in alike for name in names if name in alike)
    return did_you_mean(next(same, unknown), names)
