"""What all commands share: answers and errors, the parser, numbers of options, and tables."""

import argparse
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
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
        # Lists such as -1,2 and numbers such as -1e3 are no options either.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Raise the error about wrong arguments."""
        raise CommandError(f"{message} (see {self.prog} --help)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and let no command hand arguments that it does not know to the next parser."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            close = get_close_matches(unknown[0], options, 1)
            hint = f"; is {close[0]} meant?" if close else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"must be one of {names}, got {value!r}")


@contextmanager
def named(names: Mapping[str, str]) -> Iterator[None]:
    """Put names of the command line into errors, in place of those of the library."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = re.sub(r"(\[\d+\])`", r"`\1", str(error))  # `name[0]` has the option of `name`
        for name, option in names.items():
            text = text.replace(name, option)
        raise CommandError(text) from None


def count_of(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


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
