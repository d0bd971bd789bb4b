"""Tests of tables of invalid calls, as text, with the messages of their errors."""

import ml_dtypes
import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.encodings.dropout import dropout


class Table:
    """A table of another package: not an array, but convertible to one."""

    shape = (3, 2)

    def to_numpy(self):
        raise NotImplementedError


def foreign(package, name):
    """Return an object of a package that need not be installed."""
    return type(name, (Table,), {"__module__": package})()


# Names for all calls; `week` is seven dates.
NAMES = vars(pe) | {
    "dropout": dropout,
    "np": np,
    "zeros": np.zeros,
    "ones": np.ones,
    "ml_dtypes": ml_dtypes,
    "week": np.arange(7).astype("datetime64[D]"),
    "foreign": foreign,
}


def make_test(value_errors, type_errors, named=None, **names):
    """Return the test that each call raises this type of error, with this message.

    The tables are dicts from calls to messages; `names` are further names for the calls. If
    several calls share a check, only one table has its message: `named` maps the other calls to
    the argument in the message.
    """
    tables = {ValueError: value_errors, TypeError: type_errors}
    either = (ValueError, TypeError)
    cases = [(call, kind, tables[kind][call]) for kind in tables for call in tables[kind]]
    cases += [(call, either, f"`{argument}` ") for call, argument in (named or {}).items()]

    @pytest.mark.parametrize(("call", "kind", "message"), cases, ids=[case[0] for case in cases])
    def raises(call, kind, message):
        with pytest.raises(kind) as caught:
            eval(call, NAMES | names)
        if isinstance(kind, tuple):
            assert str(caught.value).startswith(message)
        else:
            assert type(caught.value) is kind
            assert str(caught.value) == message

    return raises
