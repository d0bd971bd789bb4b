"""Tables of wrong inputs: calls, as text, and the messages of the errors that they raise."""

import ml_dtypes
import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.encodings.dropout import dropout


class Table:
    """As a table of another package: no array, but something that becomes one."""

    shape = (3, 2)

    def to_numpy(self):
        raise NotImplementedError


def foreign(package, name):
    """Return an object of a package that need not be installed."""
    return type(name, (Table,), {"__module__": package})()


# What every call may name; `week` is seven dates.
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
    """Return the test that every call raises this very type of error, with the whole message.

    The tables are dicts from calls to messages; `names` are further names of the calls. A
    message of a check that several calls share is in one table only; `named` are the other
    calls, and the argument that their messages name.
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
