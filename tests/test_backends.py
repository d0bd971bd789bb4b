"""Whether a backend can run here is found out by what it computes."""

import importlib.util
import sys
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace

import numpy as np
import pytest

from backends import _cupy_lacks, missing, opened


@pytest.fixture
def stand_in(monkeypatch):
    """Return a stand-in for CuPy, which is imported wherever its package is."""
    cupy = SimpleNamespace(arange=np.arange, empty=np.empty)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


def test_cupy_that_computes(stand_in):
    assert stand_in.empty(1).shape == (1,)
    assert missing("cupy") is None


def test_cupy_that_allocates_but_compiles_nothing(stand_in):
    class Array:
        def __add__(self, other):
            message = "no header of CUDA"
            raise RuntimeError(message)

    stand_in.arange = lambda _: Array()
    assert missing("cupy") == "CuPy cannot compute here: no header of CUDA"


def test_cupy_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert missing("cupy") == "cupy is not installed"


def test_what_a_part_of_cupy_lacks(stand_in):
    """An error, or a wrong result, of one part leaves the others."""
    lacks = _cupy_lacks.__wrapped__
    stand_in.asarray, stand_in.sort = np.asarray, np.sort
    stand_in.searchsorted = lambda _, values: values
    assert lacks("sort") is None
    assert lacks("searchsorted") == "CuPy's searchsorted gives wrong results here"
    assert lacks("eigh").startswith("CuPy has no eigh here: 'types.SimpleNamespace' object has no")


@pytest.mark.library("dask")
def test_no_two_tasks_of_dask_run_at_once():
    """They set the scheduler, and set it back: what they find depends on their order."""
    import dask

    barrier, met = Barrier(2), []

    def meet(_):
        try:
            met.append(barrier.wait(timeout=0.2))
        except BrokenBarrierError:
            barrier.reset()

    tasks = [dask.delayed(meet)(number) for number in range(4)]
    with opened("dask"):
        # The scheduler with which array-api-extra computes what a tagged function returns.
        dask.persist(tasks, scheduler="threads")
    assert not met
