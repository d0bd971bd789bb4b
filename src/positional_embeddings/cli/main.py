"""The commands, and how their answers and errors come to the terminal."""

import errno
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from math import isfinite
from typing import Any, TextIO

from positional_embeddings.cli import check, info, mask, plot, rope
from positional_embeddings.cli.terminal import Answer, CommandError, Parser

_NAME = "positional-embeddings"
_COMMANDS = (info, check, mask, rope, plot)

_DESCRIPTION = """\
Positional encodings, rotary embeddings and attention masks, asked from the command line.
"""
_EPILOG = """\
examples:
  positional-embeddings info
  positional-embeddings check
  positional-embeddings mask causal 12 --window 4
  positional-embeddings rope config.json
  positional-embeddings plot encoding 64 100 -o encoding.png

Each command has its own help: positional-embeddings mask --help
"""

# What a wrong call raises, and what numbers or files that are too large or missing do.
_CALL = (CommandError, ImportError, TypeError, ValueError)
_ERRORS = (*_CALL, ArithmeticError, MemoryError, OSError)

_WRONG = 2
# As shells tell of a program that was interrupted, and of one whose output nobody reads.
_INTERRUPTED = 130
_UNREAD = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the name of the program, those of `sys.argv` if None.

    Returns
    -------
    int
        0 if all is well, 1 if a check failed, 2 if the call was wrong; 130 after an
        interruption, and 141 if nobody reads the output, as shells tell of both.
    """
    try:
        status = _run(argv)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except OSError as error:  # of the output
        # Python would write what is left when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError) or error.errno == errno.EINVAL:  # on Windows
            return _UNREAD
        _write(sys.stderr, f"{_NAME}: error: the output cannot be written: {error.strerror}")
        return _WRONG
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _run(argv: Sequence[str] | None) -> int:
    try:
        answer, as_json = _answer(argv)
    except SystemExit as done:  # after --help and --version
        return int(done.code or 0)
    except _ERRORS as error:
        _write(sys.stderr, f"{_NAME}: error: {_message(error)}")
        return _WRONG
    _write(sys.stdout, _json(answer.data) if as_json else answer.text)
    return answer.status


def _answer(argv: Sequence[str] | None) -> tuple[Answer, bool]:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        return Answer(parser.format_help().rstrip(), {}), False
    answer: Answer = arguments.run(arguments)
    return answer, arguments.json


def _parser() -> Parser:
    version = import_module("positional_embeddings").__version__
    parser = Parser(prog=_NAME, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"{_NAME} {version}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser


def _json(data: dict[str, Any]) -> str:
    """Return data as JSON, a line for each key, and null for what is not finite."""
    lines = (f"  {json.dumps(key)}: {json.dumps(_finite(value))}" for key, value in data.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _message(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    return " ".join(str(error).split())


def _write(stream: TextIO | None, text: str) -> None:
    """Write a line; what the terminal has no characters for is escaped."""
    if stream is None:  # it is closed
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
