"""The code of the README and of the pages of docs/ is run, and their links lead somewhere."""

import inspect
import re
from itertools import chain
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest

import positional_embeddings as pe
import positional_embeddings.xarray
from positional_embeddings import plotting, sklearn
from scripts import loaded

ROOT = Path(__file__).parents[1]
(write_pages,) = loaded(ROOT / ".ci" / "write_pages.py")
README = ROOT / "README.md"
# The code of these pages is run by tests of their own.
ELSEWHERE = ("larger_than_memory", "systems")
DOCS = sorted(page for page in ROOT.glob("docs/**/*.md") if "explorer" not in page.parts)
PAGES = [README, *(page for page in DOCS if page.stem not in ELSEWHERE)]
# A library, the code, and what it prints.
BLOCK = r"^```python ?(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?"
CODE = re.compile(BLOCK, re.MULTILINE | re.DOTALL)
# Libraries that blocks are marked by, and the dependency group "test" lacks.
LIBRARIES = (
    "cftime",
    "jax",
    "keras",
    "mlx",
    "rotary_embedding_torch",
    "torch",
    "transformers",
)
GPU = ("cupy",)  # which needs one, too
BLOCKS = [
    pytest.param(
        code,
        printed,
        id=f"{page.stem}-{number}",
        marks=pytest.mark.library(library) if library in LIBRARIES else (),
    )
    for page in PAGES
    for number, (library, code, printed) in enumerate(CODE.findall(page.read_text("utf-8")))
    if library not in GPU
]
ON_GPU = [
    pytest.param(library, code, marks=pytest.mark.needs("graphs") if "capture" in code else ())
    for library, code, _ in CODE.findall((ROOT / "docs/guide/cupy.md").read_text(encoding="utf-8"))
    if library in GPU
]
LINKED = [*ROOT.glob("*.md"), *DOCS, *ROOT.glob("examples/**/*.md")]


@pytest.fixture(autouse=True)
def _in_the_clone(monkeypatch, tmp_path):
    """Blocks read files of the clone, and Keras writes its own elsewhere."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))


def run(code):
    exec(compile(code, "a block of code", "exec"), {})  # noqa: S102 - its own pages


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_code_block(code, printed, capsys):
    """It runs, and prints the text below it, or the comment of its line."""
    run(code)
    told = [f"{text}\n" for text in re.findall(r"^print\(.*  # (.*?): ", code, re.MULTILINE)]
    if printed or told:
        assert capsys.readouterr().out == (printed or "".join(told))


@pytest.mark.only_on("cupy")
@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("library", "code"), ON_GPU)
def test_code_block_on_a_gpu(library, code):
    pytest.importorskip(library)
    run(code)


@pytest.mark.only_on("cupy")
@pytest.mark.usefixtures("backend")
def test_cupy_differs_by_one_line():
    codes = [code for _, code, _ in CODE.findall(README.read_text(encoding="utf-8"))]
    codes = [code for code in codes if "import numpy as xp" in code]
    assert len(codes) == 2
    for code in codes:
        run(code.replace("import numpy as xp", "import cupy as xp"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_the_page(page):
    """The site has room for 100 columns on a screen of 1280 pixels."""
    code = [code for _, code, _ in CODE.findall(page.read_text(encoding="utf-8"))]
    assert [line for line in "".join(code).splitlines() if len(line) > 100] == []


def test_numbers_of_five_lines_of_numpy():
    """What the README says that they give, and what this library gives instead."""
    text = README.read_text(encoding="utf-8")
    table = text[text.index("## Why not") : text.index("## Install")]
    rows = [re.findall(r"(\d[\d.]*)", " ".join(row.split("|")[-3:])) for row in table.splitlines()]
    told = [[float(number.rstrip(".")) for number in row] for row in rows if row]

    def apart(features):
        return np.linalg.norm(features[..., 0] - features[..., 1])

    def circle(cycles):
        return np.stack([np.cos(2 * np.pi * cycles), np.sin(2 * np.pi * cycles)])

    utc = np.asarray([7, 6]) / 24  # 8:00 in Zurich, in winter and in summer
    zurich = pd.to_datetime(["2024-01-15T08:00", "2024-07-15T08:00"]).tz_localize("Europe/Zurich")
    days = pd.to_datetime(["2024-12-31", "2025-01-01"])
    clock, year = (
        sklearn.PositionalEncoder(periods=period, harmonics=1, trend=False).fit_transform(
            pd.DataFrame({"time": times})
        )
        for period, times in (("day", zurich), ("year", days))
    )
    line = pe.spherical_encoding(np.zeros(2), np.asarray([179.9, -179.9]), 6)
    pole = pe.spherical_encoding(np.full(2, 89.9), np.asarray([0.0, 180.0]), 6)
    frequencies = 10000.0 ** -(np.arange(64) / 64)
    exact = [mpmath.sin(100_000 * mpmath.mpf(10000) ** (-mpmath.mpf(i) / 64)) for i in range(64)]
    angles = np.float32(100_000) * frequencies.astype(np.float32)
    tables = pe.RoPE(128, 100_001).tables(np.asarray([100_000]), dtype=np.float32)
    off = [
        max(abs(float(sine - true)) for sine, true in zip(sines, exact, strict=True))
        for sines in (np.sin(angles).tolist(), np.asarray(tables.sin, float).ravel()[:64].tolist())
    ]
    found = [
        (apart(circle(utc)), apart(np.asarray(clock).T)),
        (apart(circle(np.asarray([366, 1]) / 365)), apart(np.asarray(year).T)),
        (179.9 + 179.9, apart(line)),
        (apart(circle(np.asarray([0, 0.5]))), apart(pole)),
        tuple(off),
    ]
    for (first, second), numbers in zip(found, told, strict=True):
        assert numbers[-2:] == pytest.approx([first, second], rel=0.05, abs=1e-12)
    q, mask = np.ones((2, 4)), np.tril(np.ones((4, 4), dtype=bool))
    assert not np.any(pe.attention_weights(q, q, mask=mask)[mask])
    assert not np.any(pe.attention_weights(q, q, mask=pe.CausalMask())[~mask])


def test_names_of_arguments_are_parameters():
    text = (ROOT / "docs/coming_from/frameworks.md").read_text(encoding="utf-8")
    table = text.partition("## Names of arguments")[2].partition("\n## ")[0]
    here = {
        name
        for row in re.findall(r"^\|.*\|(.*)\|$", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)=", row)
    }
    public = [getattr(pe, name) for name in pe.__all__ if name != "__version__"]
    public += [pe.RoPE.__call__, pe.PaddingMask.from_attention_mask]
    assert here <= {name for value in public for name in inspect.signature(value).parameters}


AXES = {"feature_axis": -1, "seq_axis": -2}
TOKENS = np.asarray([[1, 1, 1, 0], [1, 1, 1, 1]])
# Values of the names in the cells of "Frameworks".
VALUES = {name: getattr(pe, name) for name in pe.__all__} | {
    "np": np,
    "mx": np,
    "attention_mask": TOKENS,
    "ids": np.zeros(4, int),
    "config": {"model_type": "llama", "head_dim": 8, "max_position_embeddings": 9},
    "dim": 4,
    "dims": 8,
    "head": 8,
    "heads": 2,
    "num_heads": 2,
    "features": 8,
    "n": 9,
    "h": 2,
    "w": 3,
    "left": 1,
    "right": 2,
    "sliding_window": 3,
    "max_seq_len": 9,
    "sequence_length": 9,
    "batch_size": 2,
    "num_layers": 2,
    "layers": pe.attention_layers({"model_type": "llama", "num_hidden_layers": 1}, 9, **AXES),
    "sizes": {"num_kv_heads": 2, "head_size": 8, **AXES},
    "max_size": 9,
    "keep": 4,
    "chunk_size": 4,
    "q_len": 3,
    "k_len": 4,
    "base": 500.0,
    "max_wavelength": 500.0,
    "b": 500.0,
    "s": 0.5,
    "scaling_factor": 2.0,
    "causal": True,
    "mask": pe.CausalMask(),
    "o": 1,
    "weight": np.zeros((32, 2)),
    "positions": np.arange(4),
    "position_ids": np.arange(4),
    "input_pos": np.arange(4),
    "q": np.ones((2, 2, 4, 8)),
    "x": np.ones((2, 4, 2, 8)),
    "k": np.ones((2, 2, 4, 8)),
    "v": np.ones((2, 2, 4, 8)),
    "cos": np.ones((4, 4)),
    "sin": np.zeros((4, 4)),
    "partial_rotary_factor": 0.5,
    "head_size": 8,
    "attn_mask": np.ones((4, 4), dtype=bool),
}
# Arguments that a cell leaves out.
OMITTED = {"Llama3Scaling(...)": "Llama3Scaling(8.0, 1.0, 4.0, 8192)", ", ...)": ", **axes)"}
# What the cells of "Frameworks" rotate by.
LAYER = "rope = RoPE(8, 64, **axes)\ntables = rope.tables(positions)\n"
# Objects of this library that cells name.
OBJECTS = ("rope", "tables", "mha", "learned")
CALL = re.compile(rf"(?<![\w.])(?:{'|'.join([*pe.__all__, *OBJECTS])})[(.]")
OPTION = re.compile(r"(?!cache|drafts|positions=step)(\w+) ?= ?([^ ].*)")


def cells_of(page):
    """Yield the axes, the set-up and the code in the cells of each section, without "there"."""
    text = (ROOT / f"docs/coming_from/{page}.md").read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        seq_axis = re.search(r"`feature_axis=-1, seq_axis=(-?\d)`", section.partition("\n|")[0])
        axes = AXES | ({"seq_axis": int(seq_axis[1])} if seq_axis else {})
        blocks = [code for _, code, _ in CODE.findall(section)]
        set_up = LAYER if page == "frameworks" else "".join(blocks)
        for row in re.findall(r"^\|[^\n]*\|$", section, re.MULTILINE):
            for cell in re.split(r"(?<!\\)\|", row)[2:-1]:
                for code in re.findall("`([^`]+)`", cell):
                    yield axes, set_up, code.replace("\\|", "|")


CALLS = [
    pytest.param(axes, set_up, code, id=code)
    for page in ("frameworks", "index", "julia", "systems")
    for axes, set_up, code in cells_of(page)
    if CALL.search(code) or (page == "frameworks" and OPTION.fullmatch(code))
]


@pytest.mark.parametrize(("axes", "set_up", "code"), CALLS)
def test_call_in_a_cell_of_coming_from(axes, set_up, code):
    """The call runs; its options are options of an attention or of `RoPE`."""
    values = VALUES | {"axes": axes}
    exec(compile(set_up, "the set-up of a table", "exec"), values)  # noqa: S102 - its own page
    values = {"tables": pe.RoPE(6, 64, **AXES).tables(np.arange(4))} | values
    for omitted, text in OMITTED.items():
        code = code.replace(omitted, text)
    option = OPTION.fullmatch(code)
    if code.startswith("bias="):
        values["attn_mask"] = np.ones((4, 4))
    value = eval(option[2] if option else code, values)
    if not option or option[1] in ("m", "tables", "positions", "freqs_for"):
        return
    options = {option[1]: value}
    if option[1] in inspect.signature(pe.RoPE).parameters:
        pe.RoPE(8, 9, **options)
    else:
        q = np.ones((2, 2, 4, 8))
        pe.scaled_dot_product_attention(q, q, q, **options, **AXES)


def test_positions_of_an_attention_mask_in_frameworks():
    codes = [code for *_, code in cells_of("frameworks")]
    (code,) = (code for code in codes if code.startswith("positions_from_mask"))
    result = eval(code, dict(VALUES))
    np.testing.assert_array_equal(result, [[0, 1, 2, 2], [0, 1, 2, 3]])


@pytest.mark.complete
def test_every_public_name_has_a_page_in_the_reference():
    modules = (pe, plotting, sklearn, pe.xarray)
    public = [f"{module.__name__}.{name}" for module in modules for name in module.__all__]
    public.remove("positional_embeddings.__version__")
    public += [f"positional_embeddings.{name}" for name in write_pages.contents.BESIDE]
    assert sorted(write_pages.contents.all_names()) == sorted(public)


@pytest.mark.complete
@pytest.mark.parametrize("page", write_pages.PAGES)
def test_a_page_is_what_is_written(page):
    assert (ROOT / page).read_text(encoding="utf-8") == write_pages.written(page), "make pages"


def test_the_reference_of_the_site_lists_the_names(tmp_path):
    write_pages.contents.write_reference(tmp_path)
    listed = []
    for page in tmp_path.glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        (module,) = re.findall(r"^\.\. currentmodule:: (\S+)$", text, re.MULTILINE)
        for names in re.findall(r":nosignatures:\n\n((?:   [\w.]+\n)+)", text):
            listed += [f"{module}.{name}" for name in names.split()]
    assert sorted(listed) == sorted(write_pages.contents.all_names())
    index = (ROOT / "docs/reference/index.rst").read_text(encoding="utf-8")
    assert all(f"\n   {page.stem}\n" in index for page in tmp_path.glob("*.rst"))


def test_names_of_code_and_files_in_contributing_are_there():
    root = README.parent
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = root, root / "src/positional_embeddings", root / "tests"
    modules = [path for folder in folders[1:] for path in folder.rglob("*.py")]
    code = "".join(f"{path.stem}\n{path.read_text(encoding='utf-8')}" for path in modules)
    names = set(re.findall(r"`@?((?:\w+_|_[a-zA-Z])\w*)\b(?!\.\w|/)", text))
    files = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|js|md|json))`", text))
    assert len(names) > 20 < len(files)
    assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set()
    assert {f for f in files if not any((folder / f).is_file() for folder in folders)} == set()


def test_the_front_door_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 175


def test_pictures_are_there_and_small():
    links = re.findall(r"!\[[^\]]+\]\((\S+)\)", README.read_text(encoding="utf-8"))
    pictures = [
        f"docs/pictures/{name}.png" for name in ("overview", "science", "inference", "masks")
    ]
    assert links == [*pictures, "benchmarks/results/precision.png"]
    for link in links:
        png = (README.parent / link).read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(png) < 150_000


def anchors(page):
    """Return the anchors that a host of repositories makes of the headings of a page."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        if "/gallery/" in path:  # a page that the site makes of a script
            linked = ROOT / "examples" / f"gallery/{path.partition('/gallery/')[2]}"
            linked = linked.with_suffix(".py")
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def names_in(page):
    """Return the files that a page links to, and the pages that its tables of contents name."""
    text = page.read_text("utf-8")
    tables = "".join(re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    named = [f"{name}.md" for name in re.findall(r"^(?:.* <)?([\w/]+)>?$", tables, re.MULTILINE)]
    linked = re.findall(r"\]\(([\w./]+\.md)", text)
    return [*linked, *(name for name in named if (page.parent / name).exists())]


def test_every_page_can_be_reached():
    pages = {README}
    for _ in LINKED:
        linked = chain.from_iterable(
            ((page.parent / name).resolve() for name in names_in(page)) for page in pages
        )
        pages |= set(linked)
    assert {page.resolve() for page in DOCS} <= {page.resolve() for page in pages}
