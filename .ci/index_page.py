"""Make the page for the package index out of README.md, whose relative links lead nowhere there.

With the address of the repository, which pyproject.toml has in one line, links and pictures become
absolute, at the tag of the version. Without it links to files become their text, and pictures are
left out. Code stays as it is.
"""

import re
from pathlib import Path
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A paragraph ends at an empty line, and with it what may be a link.
WITHIN = r"(?!\n[ \t]*\n)"
REST_OF_TAG = r"\b(?:\"[^\"]*\"|'[^']*'|[^\"'>])*>"
# A text may have brackets in it, those of a picture among them.
TEXT = rf"(?P<text>(?:{WITHIN}[^\[\]]|\[[^\[\]]*\])*+)"
TARGET = r"(?P<target><[^<>\n]*>|[^\s()<>]*)(?P<title>\s+(?:\"[^\"]*\"|'[^']*'))?"
LINK = rf"(?<!\\)(?P<image>!?)\[{TEXT}\]\(\s*{TARGET}\s*\)"
CODE = "|".join(
    [
        r"^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?\n)??[ \t>]*(?P=fence)[`~]*[ \t]*$",
        rf"(?<!`)(?P<ticks>`+)(?!`)(?:{WITHIN}.)+?(?<!`)(?P=ticks)(?!`)",
        r"<!--.*?-->",
        r"<(?P<tag>pre|code)\b.*?</(?P=tag)>",
    ]
)
PIECES = re.compile(
    "|".join(
        [
            rf"(?P<code>{CODE})",
            r"(?P<picture><picture\b.*?</picture>)",
            rf"(?P<img><img{REST_OF_TAG})",
            rf"(?P<a><a{REST_OF_TAG})(?P<a_text>.*?)</a>",
            LINK,
            r"^(?P<label>[ ]{0,3}\[[^\[\]^][^\[\]]*\]:[ \t]*)(?P<defined>\S+)",
        ]
    ),
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
ATTRIBUTES = re.compile(r"\b(href|srcset|src)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)", re.IGNORECASE)


class Page:
    """A page in Markdown, rewritten for readers who have no files beside it."""

    def __init__(self, repository: str, version: str) -> None:
        self.repository = repository.rstrip("/")
        self.version = version

    def __call__(self, markdown: str) -> str:
        """Return the page."""
        return PIECES.sub(self._rewritten, markdown)

    def address(self, target: str, kind: str = "blob") -> str:
        """Return an absolute address; none for a file where the repository has no address."""
        if urlsplit(target).scheme or target.startswith("//"):
            return target
        if not self.repository:
            return ""
        path, hash_, anchor = target.partition("#")
        path = normpath(path).lstrip("/") if path else "README.md"
        return f"{self.repository}/{kind}/v{self.version}/{path}{hash_}{anchor}"

    def _rewritten(self, found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        if found["picture"] or found["img"]:
            return self._html(found[0])
        if found["a"]:
            text, opened = self(found["a_text"]), self._html(found["a"])
            return f"{opened}{text}</a>" if text.strip() and opened else text
        if found["label"]:
            return self._definition(found["label"], found["defined"])
        return self._link(found)

    def _link(self, found: re.Match[str]) -> str:
        target, title = found["target"].strip("<>"), found["title"] or ""
        if found["image"]:
            address = self.address(target, "raw")
            return f"![{found['text']}]({address}{title})" if address else ""
        text, address = self(found["text"]), self.address(target)
        # A link whose picture is left out has no text any more.
        return f"[{text}]({address}{title})" if text.strip() and address else text

    def _definition(self, label: str, target: str) -> str:
        address = self.address(target)
        if not address:
            message = f"README.md: write {label.strip()} {target} as links of the kind [text](path)"
            raise ValueError(message)
        return label + address

    def _html(self, html: str) -> str:
        """Return HTML with absolute addresses; nothing if one of them is not known."""
        unknown = False

        def absolute(found: re.Match[str]) -> str:
            nonlocal unknown
            name, value = found[1], found[2].strip("\"'")
            kind = "blob" if name.lower() == "href" else "raw"
            parts = value.split(",") if name.lower() == "srcset" else [value]
            listed = []
            for part in parts:
                target, _, size = part.strip().partition(" ")
                address = self.address(target, kind)
                unknown |= not address
                listed.append(f"{address} {size}".strip())
            return f'{name}="{", ".join(listed)}"'

        html = ATTRIBUTES.sub(absolute, html)
        return "" if unknown else html


def urls(repository: str) -> dict[str, str]:
    """Return the links that an index shows beside the page."""
    if not repository:
        return {}
    repository = repository.rstrip("/")
    return {
        "Source": repository,
        "Documentation": f"{repository}/tree/HEAD/docs",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class IndexPage(MetadataHookInterface):
    """The hook that hatchling calls for the fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields."""
        repository = self.config["repository"]
        if repository and not re.fullmatch(r"https://[^/\s]+/\S+", repository):
            message = f"repository in pyproject.toml must be an address, or empty: {repository!r}"
            raise ValueError(message)
        page = Page(repository, metadata["version"])
        markdown = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": page(markdown)}
        metadata["urls"] = urls(repository)
