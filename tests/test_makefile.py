"""The Makefile passes on what it is given."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or os.name == "nt", reason="needs make and a POSIX shell"
)

# Stands in for the interpreter of an environment, and writes its arguments down.
STUB = """#!/bin/sh
exec "{python}" -c 'import json, sys; print("arguments:", json.dumps(sys.argv[1:]))' "$@"
"""

PROMPTS = [
    "Why is the sky blue?",
    'say "hi" $(date) `id`',
    'a "b" $(date) `date` \\ % \\n',
    "it's 'quoted' \\' \" \\\"",
    "$(shell touch here) $(error stop) $$ $HOME ${HOME} $@ $< $5 $",
    "`touch here`; touch here & touch here | touch here > here < here \\",
    "# no comment, = no := assignment, * ? [a] ~ ! {x} {}",
    "--help",
    "-",
    "two\nlines\tand a tab",
    "Warum ist der Himmel blau? 空はなぜ青いの? 🌈",
    "trailing  blanks  ",
    "",
]


@pytest.fixture
def stand_in(tmp_path):
    """Return a folder with the Makefile and an environment of nothing but a stub."""
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv" / "demo-llm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STUB.format(python=sys.executable))
    python.chmod(0o755)
    (tmp_path / ".venv" / "demo-llm" / "ready").touch()
    return tmp_path


def prompt_received(folder, *command, **environment):
    """Run make, and return the prompt as the script reads it from its arguments."""
    # The suite itself may be run by make, which tells its own variables on.
    ours = {n: v for n, v in os.environ.items() if not n.startswith("MAKE") and n != "PROMPT"}
    done = subprocess.run(
        ["make", "demo-llm", *command],  # noqa: S607 - whichever make is there
        cwd=folder,
        env=ours | environment,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert not (folder / "here").exists(), "a part of the prompt was run"
    *_, last = (line for line in done.stdout.splitlines() if line.startswith("arguments: "))
    script, *options = json.loads(last.removeprefix("arguments: "))
    assert script == "examples/smollm2.py"
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompt")
    return parser.parse_args(options).prompt


@pytest.mark.parametrize("prompt", PROMPTS)
def test_prompt_is_passed_as_it_is(stand_in, prompt):
    assert prompt_received(stand_in, f"PROMPT={prompt}") == prompt


@pytest.mark.parametrize("prompt", [*PROMPTS, "  leading blanks"])
def test_prompt_of_the_environment_is_passed_as_it_is(stand_in, prompt):
    assert prompt_received(stand_in, PROMPT=prompt) == prompt


def test_prompts_of_the_script_are_the_default(stand_in):
    assert prompt_received(stand_in) is None
