"""Hostile input over every public name works as plain input does, or raises the library's error.

README.md has the table of what works and what raises.
"""

import re
import signal
import time
from pathlib import Path

import pytest

import positional_embeddings as pe
from hostile import judge
from samples import CATALOGUE, NOT_CALLED, public
from hostile.judge import outcomes


def test_every_parameter_of_every_public_name_has_a_value():
    has = {
        name: {argument for call in calls for argument in call.values}
        for name, calls in CATALOGUE.items()
    }
    assert has == public()
    assert NOT_CALLED.keys() <= set(pe.__all__)


def test_the_page_has_every_name():
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)) == CATALOGUE.keys()


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
