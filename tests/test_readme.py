"""The README's code is run, and its CuPy example is the NumPy one but for the import."""

import importlib.util
import re
from pathlib import Path

import pytest

from backends import missing

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python ?(\w*)\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_block(number):
    library, code = BLOCKS[number]
    if library == "cupy" and (reason := missing("cupy")):
        pytest.skip(reason)
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    exec(compile(code, f"README block {number}", "exec"), {})  # noqa: S102 - its own README


def test_cupy_differs_by_one_line():
    plain = [code for library, code in BLOCKS if not library]
    (cupy,) = [code for library, code in BLOCKS if library == "cupy"]
    assert cupy.replace("import cupy as xp", "import numpy as xp") in plain


def test_the_picture_is_what_is_printed(capsys):
    (code,) = [code for _, code in BLOCKS if "describe_mask" in code]
    exec(compile(code, "README picture", "exec"), {})  # noqa: S102 - its own README
    assert capsys.readouterr().out in README.read_text()


def test_pictures_are_there_and_small():
    links = re.findall(r"!\[[^\]]+\]\((\S+)\)", README.read_text())
    assert links == ["docs/pictures/overview.png", "docs/pictures/co2.png"]
    for link in links:
        png = (README.parent / link).read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(png) < 150_000
