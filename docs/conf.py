"""The site: pages in Markdown, the reference from docstrings, the gallery from scripts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import contents
import hooks
import look

import positional_embeddings

project = "positional-embeddings"
author = "The positional-embeddings developers"
project_copyright = author
version = release = positional_embeddings.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "hooks",
]
exclude_patterns = ["explorer", "gallery/*.ipynb", "gallery/*.py", "tour/*.ipynb", "tour/*.py"]
nitpicky = True

# Pages

myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"

# The reference

contents.write_reference(Path(__file__).parent / "reference")
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_ignore_module_all = False
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    "array": ":term:`array`",
    "arrays": ":term:`arrays <array>`",
    "matplotlib.axes.Axes": ":class:`matplotlib.axes.Axes`",
    "bool": ":class:`python:bool`",
    "callable": ":func:`callable <python:callable>`",
    "sequence": ":class:`sequence <python:collections.abc.Sequence>`",
} | {name: f":class:`~{path}`" for name, path in hooks.NAMES.items() if name[0].isupper()}
nitpick_ignore_regex = [("py:obj", r"[^.]+|torch\..*")]  # names of parameters, and of PyTorch
add_module_names = False

# Lists of a few names each, so that a build needs no network.
intersphinx_mapping = {
    name: (address, f"inventories/{name}.inv")
    for name, address in {
        "matplotlib": "https://matplotlib.org/stable/",
        "numpy": "https://numpy.org/doc/stable/",
        "python": "https://docs.python.org/3/",
        "sklearn": "https://scikit-learn.org/stable/",
        "xarray": "https://docs.xarray.dev/en/stable/",
    }.items()
}

# Pictures

plot_rcparams = look.RC
plot_apply_rcparams = True
plot_formats = [("png", 144)]
plot_html_show_formats = False
plot_html_show_source_link = False
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tour", "../examples/gallery"],
    "gallery_dirs": ["tour", "gallery"],
    "filename_pattern": r"\.py$",
    "backreferences_dir": "reference/generated",
    "doc_module": ("positional_embeddings",),
    "reference_url": {"positional_embeddings": None},
    "prefer_full_module": {r"positional_embeddings\.(plotting|sklearn|xarray)"},
    "reset_modules": ("look.apply",),
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": [
        f"../examples/gallery/{name}"
        for name in ("encodings", "science", "rotary", "masks", "attention")
    ],
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "thumbnail_size": (600, 300),
    "image_srcset": ["2x"],
}

# The look

html_theme = "pydata_sphinx_theme"
html_title = project
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static", *map(str, look.FONTS)]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "logo": {"text": project},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
