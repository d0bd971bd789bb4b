"""What the site does beyond its extensions: escapes, links of names, breaks, the explorer."""

import html
import re
import shutil
from pathlib import Path
from typing import Any

import contents
from docutils import nodes
from sphinx import addnodes

import positional_embeddings.xarray
from positional_embeddings import plotting, sklearn

EXPLORER = Path(__file__).parent / "explorer"
MODEL_TYPES = EXPLORER.parents[1] / "src/positional_embeddings/models/model_types.json"
LONGEST_WORD = 24  # characters of code in a table that stay in one line
PHONE_BREAK = '<wbr class="phone">'
NAMES = {
    name: f"{module.__name__}.{name}"
    for module in (positional_embeddings.xarray, sklearn, plotting, positional_embeddings)
    for name in module.__all__
} | {name.rpartition(".")[2]: f"positional_embeddings.{name}" for name in contents.BESIDE}


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


def break_code(_app: Any, _name: str, _template: str, context: dict[str, Any], _page: Any) -> None:
    """Let code in tables break in the finished page, whose words a search has found whole."""
    code = re.compile(r'(?<=<span class="pre">)[^<]+')
    context["body"] = re.sub(
        r"<td.*?</td>",
        lambda cell: code.sub(_with_breaks, cell[0]),
        context.get("body", ""),
        flags=re.DOTALL,
    )


def _with_breaks(code: re.Match[str]) -> str:
    """Break a long word after a dot (not in `F.`), a bracket or `=`; on phones in names, too."""
    parts = re.findall(r".{2,}?[.(=]|.+$", code[0])
    wide = "<wbr>" if len(html.unescape(code[0])) > LONGEST_WORD else PHONE_BREAK
    return wide.join(re.sub(r"(?<=\w_)(?=\w)|(?<=[a-z])(?=[A-Z])", PHONE_BREAK, p) for p in parts)


def copy_explorer(app: Any, _error: Exception | None) -> None:
    """Copy the explorer, a page without a build, and its model types into a folder of the site."""
    if EXPLORER.exists():
        skip = shutil.ignore_patterns("node_modules")
        target = Path(app.outdir) / EXPLORER.name
        shutil.copytree(EXPLORER, target, ignore=skip, dirs_exist_ok=True)
        shutil.copy(MODEL_TYPES, target)


def setup(app: Any) -> None:
    """Read docstrings after numpydoc has, and add the explorer where it is."""
    app.connect("autodoc-process-docstring", escape_shapes, priority=600)
    app.connect("doctree-read", link_names)
    app.connect("html-page-context", break_code)
    app.connect("build-finished", copy_explorer)
    if EXPLORER.exists():
        app.tags.add("explorer")
