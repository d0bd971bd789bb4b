"""What `check` finds: nothing in libraries that are right, and each fault that is put into one."""

import json
import math
import re
import time

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.cli import check
from positional_embeddings.cli.libraries import Library, Place


def test_on_each_backend(backend):
    """Every result on the backends of the suite, but within a trace, where no value is read."""
    if "jit" in backend.name:
        pytest.skip("a check reads values")
    for name, law in check._LAWS.items():
        assert law(backend.xp, backend.device) <= check._TOLERANCE, name


def test_numpy_passes(printed):
    start = time.perf_counter()
    text = printed("check --library numpy")
    took = time.perf_counter() - start
    line = rf"passed  numpy {np.__version__}, cpu  5 results, largest error \de-\d\d, ([\d.]+) s"
    line = line.replace(r"\de", r"\d\.\de")
    found = re.fullmatch(rf"{line}\n\n1 passed, 0 failed\n", text)
    assert float(found[1]) < took + 0.06  # it is rounded
    data = json.loads(printed("check --library numpy --json"))
    (row,) = data["places"]
    assert data["failed"] == 0
    assert row["status"] == "passed"
    assert list(row["errors"]) == list(check._LAWS)
    assert all(0 <= error <= 1e-6 for error in row["errors"].values())


def astray(rope):
    """Return a rotation that does not find the way back."""
    return lambda x, *, offset, inverse=False: rope(x, offset=offset) * (1.00001 if inverse else 1)


# What each law has to find wrong, and by what a function of the library is replaced.
FAULTS = [
    ("rotation", "RoPE", lambda true: lambda n, seq, base: true(n, seq, base * 1.00001)),
    ("rotation", "RoPE", lambda true: lambda n, seq, base: true(n, seq, base, 1 - 1e-11)),
    ("rotation", "RoPE", lambda true: lambda *sizes: astray(true(*sizes))),
    (
        "attention",
        "scaled_dot_product_attention",
        lambda true: lambda q, k, v, mask: true(q, k, v * 1.0001, mask=mask),
    ),
    (
        "attention",
        "scaled_dot_product_attention",
        lambda true: lambda q, k, v, mask: true(q, k, v, mask=mask.masks[0]),
    ),
    ("mask", "CausalMask", lambda true: lambda: true(mask_diagonal=True)),
    ("ALiBi", "alibi_bias", lambda true: lambda *a, **o: -true(*a, **o)),
    ("sinusoidal encoding", "sinusoidal_encoding", lambda true: lambda x, n: true(x, n)[::-1]),
]


def test_every_law_has_a_fault():
    assert {law for law, _, _ in FAULTS} == set(check._LAWS)


@pytest.mark.parametrize(("law", "name", "fault"), FAULTS)
def test_faults_are_found(monkeypatch, call, law, name, fault):
    monkeypatch.setattr(pe, name, fault(getattr(pe, name)))
    status, out, err = call("check --library numpy --json")
    assert (status, err) == (1, "")
    data = json.loads(out)
    assert data["failed"] == 1
    error = data["places"][0]["errors"][law]
    assert isinstance(error, str) or error > check._TOLERANCE
    status, out, _ = call("check --library numpy")
    assert status == 1
    assert out.startswith(f"failed  numpy {np.__version__}, cpu  ")
    assert f"{law}:" in " ".join(out.split())
    assert out.endswith("\n\n0 passed, 1 failed\n")


def replace_laws(monkeypatch, **laws):
    monkeypatch.setattr(check, "_LAWS", laws)


def test_errors_and_numbers_that_are_none(monkeypatch, call):
    def fail(**_):
        message = "out of\nmemory"
        raise RuntimeError(message)

    replace_laws(
        monkeypatch,
        one=lambda **_: math.nan,
        two=fail,
        three=lambda **_: 0.0,
        four=lambda **_: 5e-6,
        five=lambda **_: 5.1e-6,
    )
    status, out, _ = call("check --library numpy")
    assert status == 1
    wrong = "one: an error of nan; two: RuntimeError: out of memory; five: an error of 5.1e-06"
    assert f"cpu {wrong} 0 passed" in " ".join(out.split())
    (row,) = json.loads(call("check --library numpy --json")[1])["places"]
    assert row["errors"] == {
        "one": None,
        "two": "RuntimeError: out of memory",
        "three": 0.0,
        "four": 5e-6,
        "five": 5.1e-6,
    }


def test_a_result_of_another_shape():
    with pytest.raises(check.CommandError, match=r"^the result has shape \(2,\), not \(3,\)$"):
        check._difference(np.zeros(2), np.zeros(3))


@pytest.fixture
def here(monkeypatch):
    """Have a part of these libraries, and one result."""
    found = {
        "cupy": Library("cupy", None, (Place("", reason="not installed: pip install cupy"),)),
        "torch": Library(
            "torch", "2.13", (Place("cpu", None, np), Place("cuda:0", reason="no driver"))
        ),
    }
    monkeypatch.setattr(check, "find_library", found.__getitem__)
    monkeypatch.setattr(check, "LIBRARIES", found)
    replace_laws(monkeypatch, zero=lambda **_: 0.0)


@pytest.mark.usefixtures("here")
def test_what_cannot_work_is_left_out(call):
    status, out, err = call("check")
    assert (status, err) == (0, "")
    assert re.sub(r"[\d.]+ s\n", "0 s\n", out) == (
        "left out  cupy                not installed: pip install cupy\n"
        "passed    torch 2.13, cpu     1 result, largest error 0.0e+00, 0 s\n"
        "left out  torch 2.13, cuda:0  no driver\n"
        "\n"
        "1 passed, 0 failed\n"
    )


@pytest.mark.usefixtures("here")
def test_what_is_asked_for_has_to_work(call):
    status, out, _ = call("check --library cupy --library torch")
    assert status == 1
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["failed", "passed", "failed"]
