"""What all commands share: answers and errors, the parser, and columns of text."""

import argparse
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from positional_embeddings.arrays.errors import did_you_mean

_WIDTH = 88


class CommandError(Exception):
    """What stops a command: one line for the terminal."""


class Answer(NamedTuple):
    """The answer of a command, to be read, and as data for `--json`."""

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

    def name_options(self, message: str) -> str:
        """Return a message of the library with options in place of the names of parameters."""
        for action in self._actions:
            option = str(action.option_strings[0] if action.option_strings else action.metavar)
            message = message.replace(f"`{action.dest}`", option)
            message = re.sub(rf"\b{action.dest}='(\w+)'", rf"{option} \1", message)
        return message

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names, hint = ", ".join(action.choices), suggestion(value, action.choices)
            raise argparse.ArgumentError(action, f"must be one of {names}, got {value!r}{hint}")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise the error about words that are no arguments, with the options that may be meant."""
        options = [option for action in self._actions for option in action.option_strings]
        # Before Python 3.14 the values of unknown options are among the words.
        named = [word for word in unknown if word.startswith("-")] or unknown
        hint = suggestion(named[0].partition("=")[0], options)
        self.error(f"unrecognized arguments: {' '.join(named)}{hint}")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the end of an error that asks for the nearest name, "" if none is near."""
    hint = did_you_mean(name, names)
    return f".{hint}" if hint else ""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in columns; the last column is wrapped."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines = []
    for *cells, last in rows:
        start = "".join(f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True))
        lines.append(wrapped(last, start))
    return "\n".join(lines)


def wrapped(text: str, start: str) -> str:
    """Return a text that begins with `start`, wrapped at blanks and indented below it."""
    lines = textwrap.wrap(
        " ".join(text.split()).replace("pip install ", "pip\0install\0"),  # a line to copy
        _WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\0", " ")
