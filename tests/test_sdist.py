"""The sdist holds what its own tests, demos and checks read."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="this is no git checkout"
)
def test_sdist_holds_all_that_git_tracks():
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - whichever git is there
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    tracked = {f"/{name.partition('/')[0]}" for name in listed.stdout.split("\0") if name}
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert set(targets["targets"]["sdist"]["include"]) == tracked
