"""Check the site that `make docs` built: every link inside, every anchor, every picture.

    python .ci/check_site.py build/site

A link has to lead to a file of the site, and its anchor to an element there. An image has to be
there, and to say in words what it shows; the thumbnails of the gallery stand beside their titles.
"""

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

MIN_EXAMPLES = 24


def read(path: Path) -> BeautifulSoup:
    """Return the elements of a page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def main() -> int:
    """Print what is wrong and what was checked, and return the exit status."""
    site = Path(sys.argv[1]).resolve()
    files = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: read(path) for path in files}
    anchors = {
        path: {tag[name] for name in ("id", "name") for tag in page.find_all(attrs={name: True})}
        for path, page in pages.items()
    }
    wrong: list[str] = []
    inside = outside = images = 0
    for path, page in pages.items():
        where = path.relative_to(site)
        targets = [tag["href"] for tag in page.find_all(["a", "link"], href=True)]
        targets += [tag["src"] for tag in page.find_all(["img", "script"], src=True)]
        for target in targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                outside += 1
                continue
            inside += 1
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if linked.is_dir():
                linked /= "index.html"
            if not linked.is_relative_to(site) or not linked.exists():
                wrong.append(f"{where}: no file {target}")
            elif parts.fragment and unquote(parts.fragment) not in anchors.get(linked, ()):
                wrong.append(f"{where}: no anchor {target}")
        for image in page.find_all("img"):
            images += 1
            thumbnail = image.find_parent(class_="sphx-glr-thumbcontainer")
            if not image.get("alt", "").strip() and not (thumbnail and image.has_attr("alt")):
                wrong.append(f"{where}: no words for {image['src']}")
    examples = len(list(site.glob("gallery/*.html"))) + len(list(site.glob("gallery/*/*.html")))
    if examples < MIN_EXAMPLES:
        wrong.append(f"{examples} pages of examples, not {MIN_EXAMPLES}")
    print("\n".join(wrong))
    print(
        f"{len(pages)} pages, {inside} links inside and {outside} to elsewhere, {images} images, "
        f"{len(wrong)} findings"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
