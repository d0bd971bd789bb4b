"""What importing the package costs."""

import ast
import functools
import inspect
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import array_api_compat  # noqa: F401 - it must be installed
import pytest

ARRAYS = ("cupy", "torch", "jax", "dask", "array_api_strict")
LIBRARIES = (*ARRAYS, "matplotlib", "numba", "pandas", "polars", "scipy", "sklearn", "xarray")


OPTIONAL_ROOMS = ("plotting", "sklearn")

ROOT = Path(__file__).parent.parent
PACKAGE = "positional_embeddings"


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_import_loads_no_array_library_of_its_own():
    ours = modules_after("import positional_embeddings")
    theirs = modules_after("import array_api_compat, numpy")
    assert not ours & set(LIBRARIES) - theirs
    # Heavy parts of NumPy that its own import leaves out.
    assert not {name for name in ours - theirs if name.startswith("numpy.")}


def test_matplotlib_is_loaded_by_the_first_plot():
    assert "matplotlib" not in modules_after("import positional_embeddings.plotting")


@pytest.mark.complete
def test_public_names_are_there():
    import positional_embeddings

    assert dir(positional_embeddings) == sorted(positional_embeddings.__all__)
    for name in positional_embeddings.__all__:
        assert getattr(positional_embeddings, name) is not None
    assert len(set(positional_embeddings.__all__)) == len(positional_embeddings.__all__)


@pytest.mark.complete
def test_names_that_are_not_there_are_answered():
    import positional_embeddings

    for package, names in positional_embeddings._ELSEWHERE.items():
        module = import_module(f"{PACKAGE}.{package}")
        assert names.split() == sorted(getattr(module, "__all__", names.split()))
        for name in names.split():
            assert hasattr(module, name)
            remedy = f"`{name}`. Import it from {PACKAGE}.{package}."
            with pytest.raises(AttributeError, match=remedy):
                getattr(positional_embeddings, name)
        with pytest.raises(AttributeError, match=f"`{package}`. Import {PACKAGE}.{package}."):
            positional_embeddings.__getattr__(package)
    with pytest.raises(AttributeError, match=r"`CausalMasc`. Did you mean CausalMask\?$"):
        positional_embeddings.CausalMasc  # noqa: B018
    with pytest.raises(AttributeError, match=r"`GapFilla`. Did you mean GapFiller\?$"):
        positional_embeddings.GapFilla  # noqa: B018
    with pytest.raises(AttributeError, match=r"`Rope`. Did you mean RoPE\?$"):
        positional_embeddings.Rope  # noqa: B018
    for name, remedy in (
        ("rotate_half", "neg_half(x, axis=-1)"),
        ("past_key_values", "KVCache"),
        ("T5RelativeBias", "T5Bias"),
        ("LlamaRotaryEmbedding", "RoPE"),
        ("apply_rotary_pos_emb", "RoPE"),
        ("PositionalEncoding", "AbsolutePE or sinusoidal_encoding"),
        ("CausalSelfAttention", "RoPEMultiHeadAttention or scaled_dot_product_attention"),
        ("sliding_window", "SlidingWindowMask.of(keys)"),
        ("DynamicCache", "KVCache"),
        ("plot_mask", "positional_embeddings.plotting.plot_attention(mask, q_len)"),
    ):
        with pytest.raises(AttributeError, match=re.escape(f"`{name}`. Did you mean {remedy}?")):
            getattr(positional_embeddings, name)
    for remedy in positional_embeddings._OTHER_NAMES.values():
        for found in remedy.split(" or "):
            names = re.match(r"[\w.]+", found)[0].removeprefix(f"{PACKAGE}.").split(".")
            assert functools.reduce(getattr, names, positional_embeddings)
    with pytest.raises(ImportError, match=r"`GapFiller`. Import it from .*\.sklearn\.$"):
        from positional_embeddings import GapFiller  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'zzz'"):
        from positional_embeddings import zzz  # noqa: F401
    from positional_embeddings import sklearn

    assert sklearn.GapFiller
    with pytest.raises(AttributeError, match=r"no attribute `zzz`\.$"):
        positional_embeddings.zzz  # noqa: B018


@pytest.mark.complete
def test_what_the_source_says_is_what_runs():
    """No function is replaced but by a decorator that stands before it."""
    import positional_embeddings

    public = [getattr(positional_embeddings, name) for name in positional_embeddings.__all__]
    owners = {base for value in public for base in getattr(value, "__mro__", ())}
    methods = [value for base in owners for value in vars(base).values()]
    for value in [*public, *methods]:
        function = getattr(value, "__func__", value)
        if not inspect.isfunction(function) or hasattr(function, "_lazy_xp_function"):
            continue  # the latter is of conftest.py
        source = inspect.unwrap(function).__code__.co_filename
        if source.startswith(str(ROOT / "src")) and hasattr(function, "__wrapped__"):
            assert inspect.getsource(inspect.unwrap(function)).lstrip()[0] == "@", function


def imported_by(path):
    """Yield the modules of this package that a module imports, at its top or within."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith(PACKAGE))
        elif isinstance(node, ast.ImportFrom) and node.module.startswith(PACKAGE):
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else node.module


def name_of(path):
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


MODULES = {
    name_of(path): path
    for path in (ROOT / "src" / PACKAGE).rglob("*.py")
    if path.name != "__init__.py"
}


# Imports within functions.
IN_CALLS = {f"{PACKAGE}.versions": {PACKAGE}}


def package_of(name):
    return name.split(".")[1]


def packages():
    """Return the packages of the table in CONTRIBUTING, and the other modules, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("| package | contents |\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.complete
def test_data_flows_down_the_table_of_rooms():
    order = packages()
    assert sorted(order) == sorted({package_of(name) for name in MODULES})
    for name, path in MODULES.items():
        above = {package_of(other) for other in set(imported_by(path)) - IN_CALLS.get(name, set())}
        assert above <= {*order[: order.index(package_of(name)) + 1]}, name


@pytest.mark.complete
def test_no_modules_import_one_another():
    """There is an order in which each module imports only those before it."""
    imports = {name: set(imported_by(path)) & MODULES.keys() for name, path in MODULES.items()}
    order = list(TopologicalSorter(imports).static_order())  # an error, where there is a circle
    assert sorted(order) == sorted(MODULES)


def test_rooms_have_nothing_in_their_own_init():
    """The flat surface is the API; a name in a package would have two addresses.

    What is optional is not in the flat surface, and has its address in its package.
    """
    for path in (ROOT / "src" / PACKAGE).rglob("*/__init__.py"):
        if path.parent.name in OPTIONAL_ROOMS:
            continue
        (docstring,) = ast.parse(path.read_text()).body
        assert isinstance(docstring, ast.Expr), path
