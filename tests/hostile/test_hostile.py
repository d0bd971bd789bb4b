"""Hostile input over every public name works as plain input does, or raises the library's error.

README.md says what the inputs are.
"""

import signal
import time

import pytest

from hostile import judge
from hostile.judge import outcomes
from samples import CATALOGUE

pytestmark = pytest.mark.thread_unsafe  # a timer, and the memory, of the process


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_time_of_a_processor_is_what_counts(monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.2)
    with judge.time_limit():  # as on a machine that does other things
        time.sleep(0.5)

    def for_ever():
        while True:
            pass

    with pytest.raises(judge.Fault, match=r"takes more than 0\.2 s"), judge.time_limit():
        for_ever()


@pytest.mark.parametrize("name", CATALOGUE)
def test_hostile_input(name):
    faults = [
        f"{call}, {argument} = {one.group}, {one.name}: {came}"
        for call, argument, one, came in outcomes(name)
        if came not in ("works", "raises")
    ]
    assert not faults, "\n".join(faults)
