"""Every command of docs/guide/command_line.md is run, and prints what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from positional_embeddings.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/guide/command_line.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`(\S+)`:\n\n```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
CALLS = [
    call
    for block in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for call in re.findall(
        r"^\$ positional-embeddings (.*)\n((?:(?!\$ ).*\n)+)", block, re.MULTILINE
    )
]


def of_any_machine(line, printed):
    """Leave out what differs from machine to machine."""
    command = line.split()[0]
    if command == "info":
        # The names of the parts, and of what is in them; the version of this library.
        part = r"^(\S.*|  positional-embeddings +[\d.]+|  \w[\w-]*)"
        return re.findall(part, printed, re.MULTILINE)
    if command == "check":
        printed = re.sub(r"numpy [\d.]+", "numpy", printed)
        return re.sub(r"\d\.\de-\d\d, [\d.]+ s", "", printed)
    return printed


@pytest.mark.parametrize(("line", "expected"), CALLS, ids=[line for line, _ in CALLS])
def test_calls(monkeypatch, capsys, tmp_path, line, expected):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    status = main(shlex.split(line))
    out, err = capsys.readouterr()
    assert status == (2 if expected.startswith("positional-embeddings: error: ") else 0)
    found = of_any_machine(line, (out + err).rstrip())
    assert found == of_any_machine(line, expected.rstrip())


def test_the_page_has_every_command():
    commands = [line.split()[0] for line, _ in CALLS]
    assert set(commands) == {"info", "check", "mask", "rope"}
    wrong = [line for line, expected in CALLS if "error: " in expected.splitlines()[0]]
    assert len(wrong) >= 8
    assert list(FILES) == ["llama.json"]
