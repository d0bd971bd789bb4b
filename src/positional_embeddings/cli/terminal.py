"""What all commands share: answers and errors, the parser, numbers of options, and tables."""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

Number = TypeVar("Number")

_WIDTH = 88
_TO_COPY = "pip install "
_BLANK = "\0"  # no space for textwrap


class CommandError(Exception):
    """What stops a command: one line for the terminal."""


class Answer(NamedTuple):
    """What a command found out, to be read, and as data for `--json`."""

    text: str
    data: dict[str, Any]
    status: int = 0


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, the same in all versions of Python."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the error about wrong arguments."""
        raise CommandError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"must be one of {names}, got {value!r}")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option of all commands that has them answer in JSON."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def integer(text: str) -> int:
    """Return an integer of the command line."""
    return _number(text, int, "an integer")


def number(text: str) -> float:
    """Return a number of the command line."""
    return _number(text, float, "a number")


def integers(text: str) -> list[int]:
    """Return a list of integers, separated by commas, of the command line."""
    return [_number(part, int, "integers separated by commas", text) for part in text.split(",")]


def _number(text: str, kind: Callable[[str], Number], what: str, whole: str = "") -> Number:
    try:
        return kind(text)
    except ValueError:
        message = f"must be {what}, got {whole or text!r}"
        raise argparse.ArgumentTypeError(message) from None


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in columns; the last one is wrapped."""
    columns = list(zip(*rows, strict=True))[:-1]
    widths = [max(map(len, column)) for column in columns]
    lines: list[str] = []
    for *cells, last in rows:
        start = "".join(f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True))
        lines += paragraph(last, start, " " * len(start))
    return "\n".join(lines)


def paragraph(text: str, start: str = "", indent: str = "") -> list[str]:
    """Return the lines of a text, wrapped at blanks, but for those of a line to copy."""
    lines = textwrap.wrap(
        text.replace(_TO_COPY, _TO_COPY.replace(" ", _BLANK)),
        _WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_BLANK, " ") for line in lines] or [start.rstrip()]
