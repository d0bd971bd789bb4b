"""Backends as fixtures.

`--backend NAME` (repeatable) demands one; without it, all that are installed run, but for those
of `ON_DEMAND`.
"""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from array_api_extra.testing import lazy_xp_function, patch_lazy_xp_functions
from hypothesis import HealthCheck, settings

import backend_table
import positional_embeddings as pe
from backends import NAMES, ON_DEMAND, Backend, missing, opened

settings.register_profile(
    "default",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Each example on cubed writes and reads files.
settings.register_profile("few", settings.get_profile("default"), max_examples=2)
settings.load_profile("default")
pytest.register_assert_rewrite("wrong_inputs")

# Jitted where a backend is called jax-jit, and forbidden to compute on dask.
for name in pe.__all__:
    function = getattr(pe, name)
    draws = name == "describe_mask"  # which has to read values
    if callable(function) and not isinstance(function, type) and not draws:
        lazy_xp_function(function)
for name in pe.__all__:
    layer = getattr(pe, name)
    if isinstance(layer, type):
        lazy_xp_function((layer, "__call__"))
lazy_xp_function((pe.Mask, "dense"))
lazy_xp_function((pe.RoPE, "cos_sin"))
lazy_xp_function((pe.AbsolutePE, "encoding"))
lazy_xp_function((pe.LearnedPE, "vjp"))
lazy_xp_function((pe.LearnedPE, "encoding"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=sorted(NAMES),
        help="run on this backend, and fail where it cannot run; may be repeated",
    )
    parser.addoption(
        "--backend-table",
        type=Path,
        help="page to put the table of tests/test_every_backend.py into; not with xdist",
    )
    parser.addoption(
        "--oracles",
        action="store_true",
        help="fail, not skip, where another library to compare with is not installed",
    )
    parser.addoption(
        "--counter",
        help="C function `long SYMBOL(int kind)` of a library that is loaded before CUDA's and "
        "counts its calls, as benchmarks/bench_launches.py wants it",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(ability): skip where the backend lacks it")
    config.stash[backend_table.CELLS] = {}
    for name in config.getoption("--backend") or []:
        if (reason := missing(name)) is not None:
            message = f"--backend {name}: {reason}"
            raise pytest.UsageError(message)
    if config.getoption("--backend") == ["cubed"]:
        settings.load_profile("few")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (page := session.config.getoption("--backend-table")) is not None:
        backend_table.write(page, session.config.stash[backend_table.CELLS])


def _chosen(config: pytest.Config) -> list[str]:
    return config.getoption("--backend") or [
        name for name in NAMES if name not in ON_DEMAND and missing(name) is None
    ]


def pytest_report_header(config: pytest.Config) -> list[str]:
    chosen = _chosen(config)
    left_out = [f"{name} ({missing(name) or 'not asked for'})" for name in NAMES]
    left_out = [text for name, text in zip(NAMES, left_out, strict=True) if name not in chosen]
    return [f"backends: {', '.join(chosen)}", f"left out: {', '.join(left_out) or 'none'}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", _chosen(metafunc.config), indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with opened(request.param) as backend:
        for marker in request.node.iter_markers("needs"):
            if (reason := backend.lacks(*marker.args)) is not None:
                pytest.skip(reason)
        if not backend.lazy:
            yield backend
            return
        with patch_lazy_xp_functions(request, xp=backend.xp):
            yield backend


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Import a library to compare with, or skip if it is not demanded."""

    def load(name: str) -> Any:
        if request.config.getoption("--oracles"):
            return importlib.import_module(name)
        return pytest.importorskip(name, reason="an oracle; CI runs with --oracles")

    return load
