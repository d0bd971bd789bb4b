"""The check of the built site finds what is broken."""

from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[1]
WHOLE = {
    "index.html": '<a href="guide/#top">A guide</a> <a href="https://example.org/x#y">elsewhere</a>',
    "guide/index.html": '<h1 id="top">A guide</h1> <img src="../a%20b.png" alt="Two lines">',
    "a b.png": "",
    "t_thumb.png": "",
    "gallery/masks/one.html": '<img src="../../t_thumb.png" alt=""> <a href="#here" id="here"></a>',
    "_static/macros.html": '<a href="{{ what a theme fills in }}"></a>',
}


@pytest.fixture(scope="module")
def script():
    yield from loaded(ROOT / ".ci" / "check_site.py")


def written(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_whole_site_passes(script, tmp_path):
    wrong, counts = script.check(written(tmp_path, WHOLE), examples=1)
    assert wrong == []
    assert counts == "3 pages, 4 links inside and 1 to elsewhere, 2 images"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ('<a href="other.html">x</a>', "no file other.html"),
        ('<a href="../../outside.html">x</a>', "no file ../../outside.html"),
        ('<a href="guide/#bottom">x</a>', "no anchor guide/#bottom"),
        ('<a href="#bottom">x</a>', "no anchor #bottom"),
        ('<script src="gone.js"></script>', "no file gone.js"),
        ('<img src="gone.png" alt="x">', "no file gone.png"),
        ('<img src="a b.png">', "no words for a b.png"),
        ('<img src="a b.png" alt="">', "no words for a b.png"),
        ('<img src="t_thumb.png">', "no words for t_thumb.png"),
    ],
)
def test_what_is_broken_is_found(script, tmp_path, text, finding):
    wrong, _ = script.check(written(tmp_path, WHOLE | {"index.html": text}), examples=1)
    assert wrong == [f"index.html: {finding}"]


def test_a_small_gallery_is_found(script, monkeypatch, capsys, tmp_path):
    written(tmp_path, WHOLE)
    monkeypatch.setattr("sys.argv", ["check_site.py", str(tmp_path)])
    monkeypatch.setattr(script, "searched", lambda _site, _searches: [])
    assert script.main() == 1
    assert "1 pages of examples, not 24" in capsys.readouterr().out


SEARCHING = {  # as Sphinx writes it, in short: the best page of a list comes last
    "_static/language_data.js": 'window.stopwords = new Set(["a"]);',
    "_static/searchtools.js": """const Search = {
  setIndex: (index) => { Search._index = index; },
  _parseQuery: (query) => [query, query.split(" ").filter((word) => !window.stopwords.has(word))],
  _performSearch: (_query, words) =>
    Search._index.filter(([, text]) => words.every((word) => text.includes(word))),
};""",
    "searchindex.js": """Search.setIndex([
  ["guide/other", "masks, gaps"],
  ["guide/gaps", "fill gaps"],
])""",
}


@pytest.mark.library("node")
def test_the_search_finds_the_page_of_a_phrase(script, tmp_path):
    site = written(tmp_path, SEARCHING)
    assert script.searched(site, {"a gaps": "guide/gaps", "masks": "guide/other"}) == []
    assert script.searched(site, {"gaps": "guide/other", "nothing": "guide/gaps"}) == [
        'the search for "gaps" finds guide/gaps, not guide/other',
        'the search for "nothing" finds None, not guide/gaps',
    ]


def test_without_node_the_search_is_not_tried(script, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(script.shutil, "which", lambda _program: None)
    assert script.searched(tmp_path, {"gaps": "guide/gaps"}) == []
    assert capsys.readouterr().out == "The search is not tried: there is no Node.\n"
