"""Positional encodings, rotary embeddings and attention masks, asked from the command line.

For example:
  positional-embeddings info
  positional-embeddings check
  positional-embeddings mask "CausalMask() | SlidingWindowMask(3, 0)" 12
  positional-embeddings rope config.json

Each command has its own help: positional-embeddings mask --help
"""

import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import positional_embeddings as pe
from positional_embeddings.cli import check, info, mask, rope
from positional_embeddings.cli.terminal import Answer, CommandError, Parser

_NAME = "positional-embeddings"

# What a wrong call raises, other than errors about arguments, and what files, numbers and
# expressions raise that are too large.
_ERRORS = (CommandError, ArithmeticError, MemoryError, OSError, RuntimeError)

_WRONG = 2
# Exit statuses of shells for a program that was interrupted, and for one whose output is unread.
_INTERRUPTED = 130
_UNREAD = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the name of the program; from `sys.argv` if None.

    Returns
    -------
    int
        0 if all is well, 1 if a check failed, 2 if the call was wrong; 130 after an
        interruption, and 141 if nobody reads the output, as in shells.
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
    """Print the answer of a command, or its error, and return the exit status."""
    try:
        arguments, unknown = _parser().parse_known_args(argv)
        if unknown:
            arguments.parser.refuse(unknown)
        answer: Answer = arguments.run(arguments)
    except SystemExit:  # after --help and --version
        return 0
    except (TypeError, ValueError) as error:
        message = arguments.parser.name_options(str(error))
    except _ERRORS as error:
        message = str(error) or "it does not fit into memory"
        if isinstance(error, OSError) and error.filename is not None:
            message = f"{error.filename}: {error.strerror}"
    else:
        _write(sys.stdout, _json(answer.data) if arguments.json else answer.text)
        return answer.status
    _write(sys.stderr, f"{_NAME}: error: {' '.join(message.split())}")
    return _WRONG


def _parser() -> Parser:
    parser = Parser(prog=_NAME, description=__doc__)
    parser.add_argument("--version", action="version", version=f"{_NAME} {pe.__version__}")
    parser.set_defaults(
        run=lambda _: Answer(parser.format_help().rstrip(), {}), parser=parser, json=False
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in (info, check, mask, rope):
        name = command.__name__.rpartition(".")[2]
        of_command: Parser = commands.add_parser(
            name, help=command.SUMMARY, description=command.__doc__
        )
        of_command.add_argument("--json", action="store_true", help="print the answer as JSON")
        of_command.set_defaults(run=command.run, parser=of_command)
        command.add_arguments(of_command)
    return parser


def _json(data: dict[str, Any]) -> str:
    """Return data as JSON, a line for each key, and null for what is not finite."""
    finite = json.loads(json.dumps(data), parse_constant=lambda _: None)
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in finite.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _write(stream: TextIO | None, text: str) -> None:
    """Write a line; characters that the terminal does not have are escaped."""
    if stream is None:  # it is closed
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
