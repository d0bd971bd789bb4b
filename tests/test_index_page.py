"""The page for the package index stands without the files beside README.md."""

import importlib.util
import re
import shutil
from email import message_from_string
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hatchling.build import prepare_metadata_for_build_wheel

import positional_embeddings as pe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
URLS = ("Source", "Documentation", "Changelog", "Issues")
REPOSITORY = "https://example.org/owner/name"
BLOB, RAW = (f"{REPOSITORY}/{kind}/v1.2.3" for kind in ("blob", "raw"))


def opened(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INDEX_PAGE = opened(ROOT / ".ci" / "index_page.py")
IMG = f'<img src="{RAW}/a.png">'

# Markdown, what is left of it without an address, and with one.
PIECES = [
    ("[docs/x.md](docs/x.md)", "docs/x.md", f"[docs/x.md]({BLOB}/docs/x.md)"),
    ("see [the *x*](./docs/x.md#a-b).", "see the *x*.", f"see [the *x*]({BLOB}/docs/x.md#a-b)."),
    ("[below](#speed)", "below", f"[below]({BLOB}/README.md#speed)"),
    ("[two\nlines](<docs/x.md> 'x')", "two\nlines", f"[two\nlines]({BLOB}/docs/x.md 'x')"),
    ("[`a[0]`](docs/x.md)", "`a[0]`", f"[`a[0]`]({BLOB}/docs/x.md)"),
    ("[x](https://a.org/b#c)", "[x](https://a.org/b#c)", "[x](https://a.org/b#c)"),
    ("[x](mailto:a@b.org)", "[x](mailto:a@b.org)", "[x](mailto:a@b.org)"),
    ("a ![alt\ntext](docs/x.png) b", "a  b", f"a ![alt\ntext]({RAW}/docs/x.png) b"),
    ("![x](https://a.org/x.svg)", "![x](https://a.org/x.svg)", "![x](https://a.org/x.svg)"),
    ("[![x](x.png)](docs/x.md)", "", f"[![x]({RAW}/x.png)]({BLOB}/docs/x.md)"),
    (
        "[![x](https://a.org/x.svg)](docs/x.md)",
        "![x](https://a.org/x.svg)",
        f"[![x](https://a.org/x.svg)]({BLOB}/docs/x.md)",
    ),
    ("[![x](x.png)](https://a.org)", "", f"[![x]({RAW}/x.png)](https://a.org)"),
    (
        '<a href="docs/x.md">x <b>y</b></a>',
        "x <b>y</b>",
        f'<a href="{BLOB}/docs/x.md">x <b>y</b></a>',
    ),
    (
        "<a href='https://a.org'><img src='x.png'></a>",
        "",
        f'<a href="https://a.org"><img src="{RAW}/x.png"></a>',
    ),
    (
        '<p><img alt="a > b" width=80 src=docs/x.png></p>',
        "<p></p>",
        f'<p><img alt="a > b" width=80 src="{RAW}/docs/x.png"></p>',
    ),
    ('<img src="https://a.org/x.png">',) * 3,
    (
        '<picture>\n<source srcset="a.png 1x, b.png 2x">\n<img src="a.png">\n</picture>',
        "",
        f'<picture>\n<source srcset="{RAW}/a.png 1x, {RAW}/b.png 2x">\n{IMG}\n</picture>',
    ),
    ("`[x](y)` and ``a ` [x](y)``",) * 3,
    ("```python\nx = [a](b)\n```",) * 3,
    ("~~~\n[a](b)\n```\n[a](b)\n~~~",) * 3,
    ("- x\n\n  ```sh\n  ![a](b)\n  ```\n",) * 3,
    ("```\n```\n",) * 3,
    ("<!-- [a](b) -->",) * 3,
    ("a [b] (c), d[e], \\[f](g), - [ ] h, [i]\n\n(j)",) * 3,
    ("one ` tick\n\n[x](y)", "one ` tick\n\nx", f"one ` tick\n\n[x]({BLOB}/y)"),
    ("[x]: https://a.org",) * 3,
]


@pytest.mark.parametrize("markdown, without, with_address", PIECES)
def test_piece(markdown, without, with_address):
    assert INDEX_PAGE.Page("", "1.2.3")(markdown) == without
    for repository in (REPOSITORY, f"{REPOSITORY}/"):
        assert INDEX_PAGE.Page(repository, "1.2.3")(markdown) == with_address


def test_definition_without_address_is_refused():
    assert INDEX_PAGE.Page(REPOSITORY, "1.2.3")("[x]: y.md") == f"[x]: {BLOB}/y.md"
    with pytest.raises(ValueError, match=r"write \[x\]: y\.md as links of the kind"):
        INDEX_PAGE.Page("", "1.2.3")("[x]: y.md")


class Targets(HTMLParser):
    """Every address of a page."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, _tag, attrs):
        for name, value in attrs:
            if name == "srcset":
                self.found += [part.split()[0] for part in value.split(",")]
            elif name in {"href", "src"}:
                self.found.append(value)


@pytest.fixture(params=["", REPOSITORY], ids=["no address", "an address"])
def metadata(request, tmp_path, monkeypatch):
    """Return the metadata that is built, with the address in its one line."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    line = re.compile(r'^repository = ".*"$', re.MULTILINE)
    assert len(line.findall(pyproject)) == 1
    source = tmp_path / "source"
    package = source / "src" / "positional_embeddings"
    package.mkdir(parents=True)
    (source / ".ci").mkdir()
    (source / "pyproject.toml").write_text(
        line.sub(f'repository = "{request.param}"', pyproject), encoding="utf-8"
    )
    for name in (
        ".ci/index_page.py",
        "LICENSE",
        "README.md",
        "src/positional_embeddings/__init__.py",
    ):
        shutil.copy(ROOT / name, source / name)
    monkeypatch.chdir(source)
    folder = prepare_metadata_for_build_wheel(str(tmp_path))
    built = message_from_string((tmp_path / folder / "METADATA").read_text(encoding="utf-8"))
    return request.param, built


def test_metadata(metadata):
    repository, built = metadata
    page = built.get_payload()
    assert built["Version"] == pe.__version__
    assert built["Description-Content-Type"] == "text/markdown"
    urls = dict(line.split(", ") for line in built.get_all("Project-URL", []))
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    assert set(urls) == (
        {"Source", "Documentation", "Changelog", "Issues"} if repository else set()
    )

    blocks = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert blocks.findall(page) == blocks.findall(README)
    prose = re.sub(r"`[^`]+`", "", blocks.sub("", page))
    links = re.findall(r"\]\(\s*([^)\s]*)", prose) + Targets(prose).found
    assert links or not repository
    assert [link for link in links if not urlsplit(link).scheme] == []
    if repository:
        picture = re.compile(r"!\[[^\]]*\]\(|<img\b")
        assert len(picture.findall(page)) == len(picture.findall(README))


def test_rendered_page_has_no_relative_address(metadata):
    from readme_renderer import markdown

    repository, built = metadata
    rendered = markdown.render(built.get_payload())
    targets = Targets(rendered).found
    # But for the anchors that the renderer gives to headings.
    relative = [target for target in targets if not urlsplit(target).scheme]
    assert [target for target in relative if not target.startswith("#user-content-")] == []
    assert any(target.startswith(REPOSITORY) for target in targets) == bool(repository)


def test_address_must_be_one(tmp_path):
    (tmp_path / "README.md").touch()
    hook = INDEX_PAGE.IndexPage(str(tmp_path), {"repository": "owner/name"})
    with pytest.raises(ValueError, match="must be an address, or empty: 'owner/name'"):
        hook.update({"version": "1.2.3"})
