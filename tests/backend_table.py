"""The table of docs/results/backends.md: public names by backends, from a run of the tests."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import positional_embeddings as pe

PAGE = Path(__file__).parents[1] / "docs" / "results" / "backends.md"
CELLS = pytest.StashKey[dict[tuple[str, str], str]]()
PACKAGES = {
    "strict": "array-api-strict",
    "cupy": "cupy-cuda13x",
}
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"


def public_names() -> set[str]:
    return set(pe.__all__) - {"__version__"}


def rows_of_page() -> set[str]:
    """Return the names in the first column of the table."""
    return set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def write(path: Path, cells: dict[tuple[str, str], str]) -> None:
    """Put the outcomes into a page, between two comments."""
    backends = list(dict.fromkeys(backend for _, backend in cells))
    versions = ", ".join(dict.fromkeys(map(_with_version, backends)))
    lines = [
        f"{versions}.",
        "",
        f"| name | {' | '.join(backends)} |",
        "| --- |" + " --- |" * len(backends),
    ]
    for name in sorted(public_names(), key=str.lower):
        outcomes = (cells.get((name, backend), "no") for backend in backends)
        lines.append(f"| `{name}` | {' | '.join(outcomes)} |")
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    table = "\n".join([BEGIN, *lines, END])
    path.write_text(before + table + after, encoding="utf-8")


def _with_version(backend: str) -> str:
    library = backend.partition("-")[0]
    package = PACKAGES.get(library, library)
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package
