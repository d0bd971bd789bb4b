"""Check the site that `make docs` built: every link inside, every anchor, every picture.

    python .ci/check_site.py build/site

A link has to lead to a file of the site, and its anchor to an element there. An image has to be
there, and to say in words what it shows; the thumbnails of the gallery stand beside their titles.
Where there is Node, the search of the site has to find first what `SEARCHES` says.
"""

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MIN_EXAMPLES = 24
SEARCH = Path(__file__).with_name("search_site.js")
# What visitors look for, and the page that answers it.
SEARCHES = {
    "fill gaps": "guide/gaps",
    "fill gaps of a series": "guide/gaps",
    "fill gaps in a time series": "guide/gaps",
    "missing values time series": "guide/gaps",
    "check my own RoPE": "guide/check_your_own",
    "verify my RoPE": "guide/check_your_own",
    "causal and padding mask for torch": "guide/masks",
    "causal mask": "guide/masks",
    "sliding window": "guide/masks",
    "cross attention": "guide/attention",
    "rotary embedding": "guide/rotary",
    "rotary embedding pytorch": "guide/rotary",
    "RoPE scaling": "guide/extending",
    "flash attention": "guide/cupy",
    "GPU": "guide/cupy",
    "dask": "guide/larger_than_memory",
    "install": "guide/installing",
    "install CUDA": "guide/installing",
    "conda": "guide/installing",
    "config.json": "guide/models",
    "read a model's attention from config.json": "guide/models",
    "attention of a model from config.json": "guide/models",
    "encode latitude longitude dates scikit-learn": "guide/coordinates",
    "latitude longitude": "guide/coordinates",
    "encode dates scikit-learn": "guide/coordinates",
    "PositionalEmbeddings.jl": "coming_from/julia",
    "coming from Julia": "coming_from/julia",
    "julia": "coming_from/julia",
    "kv cache": "guide/decoding",
    "nearest neighbours": "guide/neighbours",
    "neighbours within a radius": "guide/neighbours",
}


class Page(HTMLParser):
    """What a page links to, the anchors that it has, and its images."""

    def __init__(self, path: Path) -> None:
        """Read a page."""
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what an element says."""
        found = dict(attrs)
        link = found.get("href" if tag in {"a", "link"} else "src")
        if link and tag in {"a", "link", "img", "script"}:
            self.targets.append(link)
        self.anchors |= {name for key in ("id", "name") if (name := found.get(key))}
        if tag == "img":
            self.images.append(found)


def searched(site: Path, searches: dict[str, str]) -> list[str]:
    """Return which searches of a site do not find their page first."""
    node = shutil.which("node")
    if node is None:
        print("The search is not tried: there is no Node.")
        return []
    command = [node, str(SEARCH), str(site)]
    phrases = json.dumps([*searches])
    answer = subprocess.run(command, input=phrases, capture_output=True, text=True, check=True)  # noqa: S603
    found = zip(searches.items(), json.loads(answer.stdout), strict=True)
    return [
        f'the search for "{phrase}" finds {first}, not {page}'
        for (phrase, page), first in found
        if first != page
    ]


def check(site: Path, examples: int = MIN_EXAMPLES) -> tuple[list[str], str]:
    """Return what is wrong with a site, and how much was checked."""
    site = site.resolve()
    files = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: Page(path) for path in files}
    wrong: list[str] = []
    inside = outside = images = 0
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                outside += 1
                continue
            inside += 1
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            linked = linked / "index.html" if linked.is_dir() else linked
            if not linked.is_relative_to(site) or not linked.exists():
                wrong.append(f"{where}: no file {target}")
            elif where.startswith("_modules/"):
                continue  # Sphinx takes one name of a module for the anchors of all its links
            elif parts.fragment and (
                linked not in pages or unquote(parts.fragment) not in pages[linked].anchors
            ):
                wrong.append(f"{where}: no anchor {target}")
        images += len(page.images)
        for image in page.images:
            words, source = image.get("alt"), image.get("src") or ""
            if not words and not (words == "" and source.endswith("_thumb.png")):
                wrong.append(f"{where}: no words for {source}")
    scripts = (path for path in pages if path.name != "index.html")
    drawn = sum(path.parent.parent.name == "gallery" for path in scripts)
    if drawn < examples:
        wrong.append(f"{drawn} pages of examples, not {examples}")
    counts = f"{len(pages)} pages, {inside} links inside and {outside} to elsewhere"
    return wrong, f"{counts}, {images} images"


def main() -> int:
    """Print what is wrong and what was checked, and return the exit status."""
    site = Path(sys.argv[1])
    wrong, counts = check(site)
    wrong += searched(site, SEARCHES)
    print(*wrong, counts, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
