"""Write how many hostile inputs work and how many raise, by public name and kind of input.

From the folder `tests`: ``python -m hostile.table hostile/README.md``
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hostile.catalogue import CATALOGUE
from hostile.judge import outcomes

GROUPS = (
    "values",
    "huge",
    "dtypes",
    "layouts",
    "shapes",
    "kinds",
    "tables",
    "libraries",
    "strings",
    "strangers",
)
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"


def rows() -> Iterator[str]:
    """Yield the lines of the table, sums last."""
    yield f"| name | {' | '.join(GROUPS)} | all |"
    yield "| --- |" + " ---: |" * (len(GROUPS) + 1)
    total: Counter[tuple[str, str]] = Counter()
    for name in sorted(CATALOGUE, key=str.lower):
        counts = Counter((one.group, came) for _, _, one, came in outcomes(name))
        total += counts
        yield row(f"`{name}`", counts)
    yield row("all", total)


def row(title: str, counts: Counter[tuple[str, str]]) -> str:
    """Return a line of the table: in each cell how many work, and how many raise."""
    cells = [tuple(counts[group, came] for came in ("works", "raises")) for group in GROUPS]
    cells.append((sum(works for works, _ in cells), sum(raises for _, raises in cells)))
    texts = (f"{works} / {raises}" if works or raises else "" for works, raises in cells)
    return f"| {title} | {' | '.join(texts)} |"


def main(page: Path) -> None:
    """Put the table into a page, between two comments."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    table = "\n".join([BEGIN, "", *rows(), "", END])
    page.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
