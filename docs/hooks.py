"""What the site does beyond its extensions: escapes, links of names, breaks, the explorer."""

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

import positional_embeddings.xarray
from positional_embeddings import plotting, sklearn

EXPLORER = Path(__file__).parent / "explorer"
LONGEST_WORD = 24  # characters of code in a table that stay in one line
NAMES = {
    name: f"{module.__name__}.{name}"
    for module in (positional_embeddings.xarray, sklearn, plotting, positional_embeddings)
    for name in module.__all__
}


def escape_shapes(*arguments: Any) -> None:
    """Keep the star of (dim, *x.shape) and the last line of (n_features_in_,) from being markup."""
    lines = arguments[-1]
    markup = re.compile(r"(?<=[( ])\*(?=[\w.\[:\]]+[,)])|(?<=\w)_(?=,?\))")
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = markup.sub(r"\\\g<0>", line)


def link_names(app: Any, page: nodes.document) -> None:
    """Link each public name in a page, such as `RoPE` or `RoPE(64, 8)`, to the reference."""
    if app.env.current_document.docname.startswith("coming_from/"):
        return  # which has names of other libraries
    for literal in list(page.findall(nodes.literal)):
        call = re.fullmatch(r"(\w+)(\.from_\w+)?(\([^()]*\))?", literal.astext())
        if call and call[1] in NAMES and type(literal.parent) in {nodes.paragraph, nodes.entry}:
            target = NAMES[call[1]] + (call[2] or "")
            where = {"refdomain": "py", "reftype": "obj", "reftarget": target}
            literal.replace_self(addnodes.pending_xref("", literal.deepcopy(), **where))


def break_calls(_app: Any, page: nodes.document) -> None:
    """Let a line of a table break in a long call: after a dot (not in `F.`), a bracket, or `=`."""
    for entry in page.findall(nodes.entry):
        for text in [t for code in entry.findall(nodes.literal) for t in code.findall(nodes.Text)]:
            parts = re.findall(r".{2,}?[.(=]|.+$", text.astext())
            if max(map(len, text.split()), default=0) > LONGEST_WORD and len(parts) > 1:
                broken = [
                    node
                    for part in parts
                    for node in (nodes.Text(part), nodes.raw("", "<wbr>", format="html"))
                ]
                text.parent.replace(text, broken[:-1])


def copy_explorer(app: Any, _error: Exception | None) -> None:
    """Put the explorer, a page without a builder, into a folder of the site."""
    if EXPLORER.exists():
        skip = shutil.ignore_patterns("node_modules")
        target = Path(app.outdir) / EXPLORER.name
        shutil.copytree(EXPLORER, target, ignore=skip, dirs_exist_ok=True)


def setup(app: Any) -> None:
    """Read docstrings after numpydoc has, and add the explorer where it is."""
    app.connect("autodoc-process-docstring", escape_shapes, priority=600)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", break_calls, priority=600)
    app.connect("build-finished", copy_explorer)
    if EXPLORER.exists():
        app.tags.add("explorer")
