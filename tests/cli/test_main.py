"""How commands are found, and how they end."""

import errno
import io
import os
import runpy
import subprocess
import sys

import pytest

import positional_embeddings as pe
from positional_embeddings.cli.main import main
from positional_embeddings.cli.terminal import wrapped


def test_without_arguments_comes_the_help(printed):
    text = printed("")
    assert text == printed("--help")
    assert "positional-embeddings rope config.json" in text


def test_version(printed):
    assert printed("--version") == f"positional-embeddings {pe.__version__}\n"


@pytest.mark.parametrize("command", ["info", "check", "mask", "rope"])
def test_help_has_examples(printed, command):
    text = printed(f"{command} --help")
    assert text.startswith(f"usage: positional-embeddings {command} ")
    assert f"\nFor example:\n  positional-embeddings {command}" in text
    assert text.isascii()


def test_as_a_module():
    command = [sys.executable, "-m", "positional_embeddings"]
    done = subprocess.run(
        [*command, "mask", "full", "1"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("visible:   1 of 1 pairs, 100.0%; every query sees a key\n")
    done = subprocess.run([*command, "mask"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_the_module_runs_the_commands(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["positional_embeddings", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("positional_embeddings", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"positional-embeddings {pe.__version__}\n"


def test_importing_the_package_leaves_the_commands_out():
    code = "import positional_embeddings, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = done.stdout.split()
    assert not [name for name in modules if name.startswith("positional_embeddings.cli")]


def test_output_that_nobody_reads():
    """The other end of the pipe is closed before anything is written."""
    code = "import sys; from positional_embeddings.cli.main import main; input(); sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, "mask", "full", "3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        run.stdout.close()
        run.stdin.write(b"\n")
        run.stdin.flush()
        assert run.stderr.read() == b""
    assert run.returncode == 141


@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        (errno.EPIPE, 141, ""),
        (errno.EINVAL, 141, ""),  # a broken pipe on Windows
        (errno.ENOSPC, 2, f"the output cannot be written: {os.strerror(errno.ENOSPC)}"),
    ],
)
def test_output_that_cannot_be_written(monkeypatch, capsys, tmp_path, number, status, message):
    path = tmp_path / "output"
    with path.open("w") as file:

        class Stream(io.StringIO):
            encoding = None

            def flush(self):
                raise OSError(number, os.strerror(number))

            def fileno(self):
                return file.fileno()

        monkeypatch.setattr(sys, "stdout", Stream())
        assert main(["mask", "full", "3"]) == status
        file.write("what Python writes when it exits")
    assert path.read_text() == ""
    assert capsys.readouterr().err == (message and f"positional-embeddings: error: {message}\n")


def test_output_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["mask", "full", "3"]) == 0
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["mask", "full", "0"]) == 2


def test_an_interrupted_command(monkeypatch, call):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pe, "describe_mask", interrupt)
    assert call("mask full 3") == (130, "", "")


def test_memory_that_is_not_there(monkeypatch, call):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(pe, "describe_mask", fail)
    message = "positional-embeddings: error: it does not fit into memory\n"
    assert call("mask full 3") == (2, "", message)


def test_a_word_longer_than_a_line_stays_whole():
    """A path, or what is to be copied."""
    word = "/".join(["folder"] * 20)
    assert wrapped(f"see {word} first", "- ") == f"- see\n  {word}\n  first"
    line = " ".join(["word"] * 18)
    assert wrapped(line, "") == line[:-5] + "\nword"


def test_characters_that_a_terminal_lacks(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["mask", "causal", "\N{LATIN SMALL LETTER E WITH ACUTE}"]) == 2
    sys.stderr.flush()
    assert b"argument Q_LEN: invalid int value: '\\xe9' (see " in raw.getvalue()
