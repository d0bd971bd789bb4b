"""The pages of the reference: which public names are on which one, by the modules that define them.

A new name comes to the section of its module, or to that of its package. `docs/conf.py` writes the
pages of the site, and `.ci/write_pages.py` the tables of `docs/reference/contents.md`.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "positional_embeddings"

# What calls return and layers use, which is imported from its module.
BESIDE = (
    "attention.at_positions.StepPositions",
    "attention.cache.KVStep",
    "encodings.dropout.dropout",
    "rotary.tables.RotaryTables",
)


class Section(NamedTuple):
    """Names of a page: those that its modules, or the other modules of its packages, define."""

    title: str
    modules: str
    # Only classes, or only what is none.
    kind: str = ""


class Page(NamedTuple):
    """A page of the reference."""

    title: str
    text: str
    sections: list[Section]
    package: str = PACKAGE


PAGES = {
    "rotary": Page(
        "Rotary embeddings",
        "A `RoPE` rotates pairs of features by angles that grow with the position. The "
        ":doc:`guide </guide/rotary>` has layouts, tables and positions, and "
        ":doc:`/guide/extending` the values for the option `scaling`.",
        [
            Section("Layers and functions", "rotary.rope rotary.tables rotary.rotate rotary"),
            Section("Frequencies", "angles"),
            Section("Longer contexts", "rotary.scaling"),
        ],
    ),
    "encodings": Page(
        "Encodings",
        "Functions that turn positions, times, places and nodes of graphs into features, "
        "layers that add them to the features of tokens, and embeddings of tokens and patches. "
        "The guides are :doc:`/guide/coordinates` and :doc:`/guide/smoothing`.",
        [
            Section("Tokens", "encodings.sinusoidal encodings.learned encodings.add"),
            Section("Times and numbers", "times encodings"),
            Section(
                "Places",
                "encodings.sphere encodings.grid encodings.grid_cells encodings.multimodal",
            ),
            Section("Graphs", "encodings.graph"),
            Section("Embeddings", "encodings.embeddings encodings.dropout"),
        ],
    ),
    "biases": Page(
        "Biases",
        "Biases are added to the scores of an attention. Values such as `ALiBiBias` hold "
        "a formula and make an array when they are called; an attention takes the value "
        "itself.",
        [Section("Values", "biases", "class"), Section("Functions", "biases", "function")],
    ),
    "masks": Page(
        "Masks",
        "True is masked out. Every mask below is a `Mask`, has its methods, and combines "
        "with others by ``|``, ``&`` and ``~``. The :doc:`guide </guide/masks>` has the "
        "lines for PyTorch, JAX, ONNX and Keras.",
        [
            Section("Masks as values", "masks.mask masks"),
            Section("Masks as arrays", "masks.create masks.describe"),
            Section("Combined, and for other libraries", "masks.convert"),
            Section("Packed sequences", "masks.packing"),
        ],
    ),
    "attention": Page(
        "Attention",
        "An attention that computes many scores in blocks, and the bookkeeping of cached "
        "keys. The guides are :doc:`/guide/attention` and :doc:`/guide/decoding`.",
        [Section("Attention", "attention"), Section("Attention of a model", "models")],
    ),
    "versions": Page(
        "Versions", "What a report of a bug has to say.", [Section("Versions", "versions")]
    ),
    "plotting": Page(
        "Pictures",
        "Functions that draw encodings, masks, biases and rotary embeddings with "
        "Matplotlib, the extra ``plot``. Each one draws on the axes that it is given or "
        "on a new figure. The :doc:`gallery </gallery/index>` has their pictures.",
        [Section("Pictures", "plotting")],
        f"{PACKAGE}.plotting",
    ),
    "sklearn": Page(
        "scikit-learn",
        "Estimators that follow scikit-learn's rules, the extra ``sklearn``: they go into "
        "pipelines, searches and cross-validation. The guides are :doc:`/guide/pipeline` "
        "and :doc:`/guide/smoothing`.",
        [
            Section("Estimators", "sklearn"),
            Section("Kernels", "sklearn.kernels"),
        ],
        f"{PACKAGE}.sklearn",
    ),
    "xarray": Page(
        "xarray",
        "Encodings of named coordinates, the extra ``xarray``. The :doc:`guide "
        "</guide/coordinates>` has the lines of an attention over named dimensions.",
        [Section("xarray", "xarray")],
        f"{PACKAGE}.xarray",
    ),
}


def names_of(page: Page) -> Iterator[tuple[Section, list[str]]]:
    """Yield the sections of a page, and their names as the modules define them."""
    package = import_module(page.package)
    values = {name: getattr(package, name) for name in package.__all__ if name != "__version__"}
    if page.package == PACKAGE:
        values |= {name: attrgetter(name)(package) for name in BESIDE}
    for section in page.sections:
        places = {name: _place(value, page, section) for name, value in values.items()}
        found = [(place, name) for name, place in places.items() if place is not None]
        yield section, [name for _, name in sorted(found)]


def _place(value: Any, page: Page, section: Section) -> tuple[int, str, int] | None:
    """Return where a section has a value: by module, and by its place there; None if nowhere."""
    defined_in = value.__module__.removeprefix(f"{PACKAGE}.")
    packages = [name for section in page.sections for name in section.modules.split()]
    # The longest name says most: `masks` is what no other section has of that package.
    fitting = [name for name in packages if f"{defined_in}.".startswith(f"{name}.")]
    package = max(fitting, key=len, default="")
    own_kind = section.kind in ("", "class" if isinstance(value, type) else "function")
    if package not in section.modules.split() or not own_kind:
        return None
    in_module = list(vars(sys.modules[value.__module__])).index(value.__name__)
    return section.modules.split().index(package), defined_in, in_module


def all_names() -> list[str]:
    """Return the names of all pages, with their packages."""
    return [
        f"{page.package}.{name}"
        for page in PAGES.values()
        for _, names in names_of(page)
        for name in names
    ]


def summary(package: str, name: str) -> str:
    """Return the first line of the docstring of a name."""
    return (attrgetter(name)(import_module(package)).__doc__ or "").partition("\n")[0]


def tables() -> str:
    """Return all names and what they say of themselves, as tables in Markdown."""
    lines: list[str] = []
    for page in PAGES.values():
        note = "" if page.package == PACKAGE else f", in `{page.package}`"
        lines += [f"## {page.title}{note}", ""]
        for section, names in names_of(page):
            lines += [f"### {section.title}", ""] if len(page.sections) > 1 else []
            lines += ["| | |", "| --- | --- |"]
            said = [(name, summary(page.package, name).replace("|", "\\|")) for name in names]
            lines += [f"| `{name}` | {text} |" for name, text in said]
            lines.append("")
    return "\n".join(lines)


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n\n"


def rest(page: Page) -> str:
    """Return a page in reStructuredText."""
    text = _heading(page.title, "=")
    text += f".. currentmodule:: {page.package}\n\n{page.text}\n\n"
    for section, names in names_of(page):
        text += _heading(section.title, "-") if len(page.sections) > 1 else ""
        text += ".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n"
        text += "".join(f"   {name}\n" for name in names) + "\n"
    return text


def write_reference(folder: Path) -> None:
    """Write the pages of the site; those that stay as they are need no new build."""
    for name, page in PAGES.items():
        path, text = folder / f"{name}.rst", rest(page)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
