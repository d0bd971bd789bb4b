"""Write what pages say of all public names and backends, between two comments of each page.

`make pages` runs this; a test checks that the pages on disk are what it writes.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tests")]

import contents  # noqa: E402

from backends import ERRORS, NAMES, UNFIT  # noqa: E402

BEGIN, END = "<!-- begin of what .ci/write_pages.py writes -->", "<!-- end of it -->"


def backends() -> str:
    """Return which names work on which backend, as tests/test_every_backend.py asserts."""
    pinned = "".join(
        (ROOT / name).read_text("utf-8") for name in ("constraints.txt", "pyproject.toml")
    )
    versions = dict(re.findall(r"([\w-]+)==([\w.]+)", pinned))
    lines = ["| backend | version | public names that work |", "| --- | --- | --- |"]
    for name, module in (NAMES | dict(zip(UNFIT, UNFIT, strict=True))).items():
        if name == "cupy":  # which needs a GPU
            continue
        package = module.replace("_", "-")
        failing = " ".join(f"`{one}`" for one, backend in ERRORS if backend == name)
        works = f"all but {failing}" if failing else "all"
        works = "none: its arrays are refused" if name in UNFIT else works
        lines.append(f"| `{name}` | {package} {versions[package]} | {works} |")
    return "\n".join(lines)


PAGES = {"docs/reference/contents.md": contents.tables, "docs/results/backends.md": backends}


def written(page: str) -> str:
    """Return a page with what is written into it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{PAGES[page]().strip()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / page).write_text(written(page), encoding="utf-8")
