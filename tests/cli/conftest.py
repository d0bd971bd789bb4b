"""Commands as a user types them."""

import shlex

import pytest

from positional_embeddings.cli.main import main


@pytest.fixture
def call(capsys):
    """Run a command, and return its exit status, what it printed, and its error."""

    def run(line):
        status = main(shlex.split(line.replace("\\", "\\\\")))  # paths of Windows
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def printed(call):
    """Run a command that must succeed, and return what it printed."""

    def run(line):
        status, out, err = call(line)
        assert (status, err) == (0, "")
        return out

    return run
