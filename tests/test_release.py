"""What a release needs: a dated changelog, and metadata that is complete."""

import re
import tomllib
from datetime import date
from pathlib import Path

import positional_embeddings as pe

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def test_version_has_a_dated_section_in_the_changelog():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\S+)", heading) for heading in headings[1:]]
    assert all(released), headings
    assert released[0][1] == pe.__version__
    dates = [date.fromisoformat(section[2]) for section in released]
    assert dates == sorted(dates, reverse=True)


def test_classifiers_name_each_python():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert named == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
