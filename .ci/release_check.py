"""Build what a release publishes, and use it as somebody does who has nothing but that.

The sdist and the wheel are left in dist/. The wheel is installed with each extra into an empty
environment outside the checkout, where it is imported, its versions are printed, and the README's
code is run. Extras that bring CUDA (2 GB) are resolved only.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

from readme_renderer import markdown

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
NAME = "positional_embeddings"
# The modules that need what an extra brings.
MODULES = {
    "": [NAME],
    "fast": [f"{NAME}.rotary.kernels.numba_kernel"],
    "plot": [f"{NAME}.plotting"],
    "sklearn": [f"{NAME}.sklearn"],
    "xarray": [f"{NAME}.xarray"],
}
RESOLVED_ONLY = ("cupy", "cupy12")
BLOCKS = re.compile(r"^```python ?(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Runs in the environment of the wheel; what is printed last is read here.
USE = """
import importlib.util, json, sys, sysconfig
modules, blocks = json.load(sys.stdin)
for name in modules:
    file = importlib.import_module(name).__file__
    assert file.startswith(sysconfig.get_path("purelib")), f"{name} is imported from {file}"
ran = 0
for number, (library, code) in enumerate(blocks, 1):
    if library and importlib.util.find_spec(library) is None:
        print(f"block {number} of README.md: not run without {library}", flush=True)
        continue
    print(f"block {number} of README.md", flush=True)
    exec(compile(code, f"block {number} of README.md", "exec"), {"__name__": "__main__"})
    ran += 1
print(ran)
"""


class CheckError(Exception):
    """What is wrong, in one line."""


def run(*command: str | Path, cwd: Path = ROOT, stdin: str | None = None, show: bool = True) -> str:
    """Run a command, showing what it prints, and return that."""
    words = [str(word) for word in command]
    # Nothing of the checkout may be imported by accident.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("  $", *(word if len(word) < 100 else "..." for word in words), flush=True)
    started = subprocess.Popen(  # noqa: S603 - commands of this file
        words,
        cwd=cwd,
        env=clean | {"MPLBACKEND": "Agg", "PYTHONUTF8": "1"},
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    if started.stdin:
        started.stdin.write(stdin or "")
        started.stdin.close()
    lines = []
    for line in started.stdout or ():
        lines.append(line)
        if show:
            print(f"    {line}", end="", flush=True)
    if started.wait():
        if not show:
            print("".join(f"    {line}" for line in lines))
        last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing printed")
        message = f"{Path(words[0]).name} {' '.join(words[1:3])} ...: {last}"
        raise CheckError(message)
    return "".join(lines)


def require(holds: object, message: str) -> None:
    """Fail where something does not hold."""
    if not holds:
        raise CheckError(message)


def build() -> str:
    """Build the sdist, and the wheel out of it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    return ", ".join(f"{path.name} {path.stat().st_size / 1e3:,.0f} kB" for path in DIST.iterdir())


def the(pattern: str) -> Path:
    """Return the one file in dist/ of a kind."""
    (path,) = DIST.glob(pattern)
    return path


def check_metadata() -> str:
    """Let twine look at both."""
    run(sys.executable, "-m", "twine", "check", "--strict", the("*.tar.gz"), the("*.whl"))
    return "twine check --strict"


def check_sdist() -> str:
    """Look for each file that git tracks; without git, say so."""
    with tarfile.open(the("*.tar.gz")) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if not (ROOT / ".git").exists():
        return f"{len(held)} files; this is no git checkout to compare with"
    tracked = set(run("git", "ls-files", "-z", show=False).split("\0")) - {""}
    require(tracked <= held, f"not in the sdist: {sorted(tracked - held)}")
    extra = held - tracked - {"PKG-INFO", ""}
    require(not extra, f"in the sdist, and not tracked by git: {sorted(extra)}")
    return f"all {len(tracked)} files that git tracks"


def wheel_metadata() -> Message:
    """Return the METADATA of the wheel."""
    with ZipFile(the("*.whl")) as wheel:
        (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
        return message_from_string(wheel.read(name).decode("utf-8"))


def check_wheel() -> str:
    """Look for the package, its licence, and nothing else."""
    with ZipFile(the("*.whl")) as wheel:
        names = wheel.namelist()
        folder = next(n.partition("/")[0] for n in names if n.endswith("/METADATA"))
        package = {name for name in names if name.startswith(f"{NAME}/")}
        files = [path.relative_to(ROOT / "src") for path in (ROOT / "src" / NAME).rglob("*.*")]
        wanted = {path.as_posix() for path in files if "__pycache__" not in path.parts}
        require(package == wanted, f"more or less than src/: {sorted(package ^ wanted)}")
        rest = {name.removeprefix(f"{folder}/") for name in names if name not in package}
        known = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE", "entry_points.txt"}
        require(rest <= known, f"not of the package: {sorted(rest - known)}")
        licence = wheel.read(f"{folder}/licenses/LICENSE")
    require(licence == (ROOT / "LICENSE").read_bytes(), "LICENSE is another one")
    metadata = wheel_metadata()
    require(metadata["License-Expression"] == "MIT", "no licence in METADATA")
    return f"{len(package)} files, py.typed and the licence; version {metadata['Version']}"


def check_page() -> str:
    """Render the page as the index does, and look for addresses that lead nowhere there."""
    html = markdown.render(wheel_metadata().get_payload())
    require(html, "the page could not be rendered")
    links = re.findall(r'(?:href|src)="([^"]*)"', html)
    relative = [link for link in links if not link.startswith(("https://", "#user-content-"))]
    require(not relative, f"relative: {relative}")
    if "<img" not in html:
        return "NO address of the repository in pyproject.toml, so no pictures"
    return f"{len(links)} links, all absolute"


def environment(folder: Path) -> Path:
    """Make an empty environment, and return its Python."""
    run(sys.executable, "-m", "venv", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def check_resolves(extra: str, folder: Path) -> str:
    """Let pip say what it would install."""
    python = environment(folder / "venv")
    wanted = f"{the('*.whl')}[{extra}]"
    said = run(python, "-m", "pip", "install", "--dry-run", wanted, cwd=folder)
    (found,) = re.findall(r"^Would install (.*)$", said, re.MULTILINE)
    require("cupy-cuda" in found, f"no CuPy in {found}")
    return f"resolved only: {len(found.split())} packages"


def check_use(extra: str, folder: Path) -> str:
    """Install the wheel with an extra, import it, print versions, and run the README's code."""
    require(extra in MODULES, f"name in MODULES what needs the extra {extra}")
    python = environment(folder / "venv")
    run(python, "-m", "pip", "install", f"{the('*.whl')}[{extra}]" if extra else the("*.whl"))
    run(python, "-m", "pip", "check")
    blocks = BLOCKS.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    stdin = json.dumps([[NAME, *MODULES[extra]], blocks])
    said = run(python, "-I", "-c", USE, cwd=folder, stdin=stdin)
    run(python, "-m", NAME, cwd=folder)
    return f"{said.splitlines()[-1]} of {len(blocks)} blocks of README.md"


def main() -> int:
    """Print how each step goes and a table, and return the exit status."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    table: list[tuple[str, str, float, str]] = []

    def step(name: str, check: Callable[[], str]) -> bool:
        print(f"\n==> {name}", flush=True)
        start = time.perf_counter()
        try:
            result, note = "ok", check()
        except CheckError as error:
            result, note = "FAILED", str(error)
        seconds = time.perf_counter() - start
        print(f"  {result} in {seconds:.0f} s: {note}", flush=True)
        table.append((name, result, seconds, note))
        return result == "ok"

    if step("build", build):
        step("metadata", check_metadata)
        step("sdist", check_sdist)
        step("wheel", check_wheel)
        step("page for the index", check_page)
        for extra in ("", *wheel_metadata().get_all("Provides-Extra", [])):
            check = check_resolves if extra in RESOLVED_ONLY else check_use
            with tempfile.TemporaryDirectory(prefix="release-check-") as folder:
                step(
                    f"extra {extra}" if extra else "without extras",
                    lambda check=check, extra=extra, folder=Path(folder): check(extra, folder),  # type: ignore[misc]
                )

    width = max(len(name) for name, *_ in table)
    print()
    for name, result, seconds, note in table:
        print(f"{name:{width}}  {result:6}  {seconds:4.0f} s  {note}")
    failed = sum(result != "ok" for _, result, *_ in table)
    print(f"\n{failed} of {len(table)} failed" if failed else f"\nAll is well: publish {DIST}/*")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
