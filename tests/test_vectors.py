"""The test vectors are well formed, are made again to the bit, and pass on every backend."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import mpmath
import numpy as np
import pytest

import check
import numpy_run
from scripts import loaded

VECTORS = Path(__file__).parents[1] / "vectors"
FILES = {group: check.read(group) for group in check.GROUPS}


def listed(group):
    return FILES[group]["tests"]


@pytest.mark.parametrize("group", check.GROUPS)
def test_file_follows_the_schema(group):
    from jsonschema import Draft202012Validator

    schema = json.loads((VECTORS / "schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(FILES[group])


def test_files_are_strict_json():
    def refuse(text):
        raise ValueError(text)

    for group in check.GROUPS:
        json.loads((VECTORS / f"{group}.json").read_text("utf-8"), parse_constant=refuse)


@pytest.mark.parametrize("group", check.GROUPS)
def test_file_says_what_its_tests_use(group):
    file = FILES[group]
    assert file["group"] == group
    assert file["numberOfTests"] == len(listed(group))
    assert set(file["notes"]) == {flag for test in listed(group) for flag in test["flags"]}
    assert set(file["functions"]) == {test["function"] for test in listed(group)}
    for test in listed(group):
        function = file["functions"][test["function"]]
        assert test["id"].startswith(f"{group}/")
        assert set(test["parameters"]) <= set(function["parameters"])
        assert set(test["inputs"]) <= set(function["inputs"])
        assert set(test["expected"]) <= set(function["outputs"])
        for array in (*test["inputs"].values(), *test["expected"].values()):
            assert np.prod(array["shape"], dtype=int) == len(array["data"])


def test_ids_are_unique():
    ids = [test["id"] for group in check.GROUPS for test in listed(group)]
    assert len(set(ids)) == len(ids)


def test_versions_agree():
    versions = {file["version"] for file in FILES.values()}
    assert len(versions) == 1
    assert f"Version {versions.pop()}," in (VECTORS / "README.md").read_text(encoding="utf-8")


def test_vectors_are_small():
    assert sum(path.stat().st_size for path in VECTORS.glob("*.json")) < 3_000_000


def test_files_are_made_again_to_the_bit():
    make = [sys.executable, VECTORS / "make", "--check"]
    made = subprocess.run(make, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert [line.split()[0] for line in made.stdout.splitlines()] != []
    assert {line.split()[0] for line in made.stdout.splitlines()} == set(check.GROUPS)


def test_no_value_is_noise():
    """More digits change none: what is left of a zero, 1e-61 of 60 digits, would be another one."""
    make = [sys.executable, VECTORS / "make", "--check", "--digits", "90"]
    made = subprocess.run(make, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_check_finds_noise(tmp_path):
    shutil.copytree(VECTORS, tmp_path / "vectors")
    path = tmp_path / "vectors" / "make" / "sinusoids.py"
    rounded = "waves = (lambda x: sin(mp.pi * x)), (lambda x: cos(mp.pi * x))"
    text = path.read_text().replace("waves = sinpi, cospi", rounded)
    path.write_text(text.replace("from mpmath import", "from mpmath import mp,"))
    make = [sys.executable, tmp_path / "vectors" / "make", "sinusoids"]
    subprocess.run(make, capture_output=True, check=True)
    for digits, status in (("60", 0), ("90", 1)):
        again = [*make, "--check", "--digits", digits]
        assert subprocess.run(again, capture_output=True, check=False).returncode == status


def test_zeros_of_quarter_turns_are_exact():
    """Harmonics on the equator, and sinusoids of whole turns, where 41 values were noise."""
    for group, name, what in (
        ("harmonics", "quadrants", "harmonics"),
        ("sinusoids", "full-turns", "encoding"),
        ("sinusoids", "detr", "encoding"),
    ):
        (test,) = (t for t in listed(group) if t["id"] == f"{group}/{name}")
        values = np.abs(check.array(test["expected"][what]))
        assert (values == 0).any()
        assert values[values > 0].min() > 1e-6


def test_check_finds_a_changed_file(tmp_path):
    shutil.copytree(VECTORS, tmp_path / "vectors")
    path = tmp_path / "vectors" / "shaw.json"
    path.write_text(path.read_text().replace("-0.5", "-0.25", 1))
    make = [sys.executable, tmp_path / "vectors" / "make", "--check", "shaw", "kerple"]
    made = subprocess.run(make, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert made.stderr == "not as they are made: shaw.json\n"


def test_maker_knows_no_library():
    for path in (VECTORS / "make").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not any(f"import {name}" in text for name in ("numpy", "positional_embeddings"))


# Oracles of mpmath's own.


def test_harmonics_are_those_of_mpmath():
    for test in listed("harmonics"):
        x = {name: check.array(a) for name, a in test["inputs"].items()}
        values = check.array(test["expected"]["harmonics"])
        for i in range(0, len(values), 3):
            n, m = int(x["degree"][i]), int(x["order"][i])
            if n > 8:
                continue
            for j, (b, east) in enumerate(zip(x["latitude"], x["longitude"], strict=True)):
                with mpmath.workdps(40):
                    angle = (90 - mpmath.mpf(float(b))) * mpmath.pi / 180
                    phase = mpmath.mpf(float(east)) * mpmath.pi / 180
                    y = mpmath.spherharm(n, abs(m), angle, phase) * (-1) ** m
                    y = y.real if m == 0 else mpmath.sqrt(2) * (y.imag if m < 0 else y.real)
                assert abs(float(y) - values[i, j]) < 1e-15


def test_clocks_are_those_of_the_time_zones():
    from datetime import datetime
    from zoneinfo import ZoneInfo

    for test in listed("dates"):
        if zone := test["parameters"].get("time_zone"):
            for text in test["inputs"]["times"]["data"]:
                time = datetime.fromisoformat(text)
                assert time.astimezone(ZoneInfo(zone)).isoformat() == time.isoformat()


# Comparison.


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_unit_is_the_distance_to_the_next_number(dtype):
    numbers = np.asarray([1, 1.5, 2, 3.99, 1e-3, 1e4, 6e-5, 1e-7, 0], dtype=dtype)
    units = check.ulp(numbers.astype(np.float64), dtype)
    np.testing.assert_array_equal(units, np.spacing(numbers).astype(np.float64))


def test_unit_of_bfloat16():
    np.testing.assert_array_equal(check.ulp([1.0, 300.0, 0.75], "bfloat16"), [2**-7, 2, 2**-8])


def test_error_counts_units():
    written = {"type": "real", "shape": [2], "data": [0.25, "NaN"], "scale": 1.0, "ulps": {}}
    assert check.error(np.asarray([0.25 + 2**-51, np.nan]), written, "float64") == 2
    assert check.error(np.asarray([0.25, 1.0]), written, "float64") == np.inf
    assert check.error(np.asarray([np.inf, np.nan]), written, "float64") == np.inf
    assert check.error(np.asarray([0.25]), written, "float64") == np.inf
    exact = {"type": "integer", "shape": [2], "data": [1, 2]}
    assert check.error(np.asarray([1, 2]), exact, "float64") == 0
    assert check.error(np.asarray([1, 3]), exact, "float64") == np.inf


def test_dtype_holds_its_numbers_alone():
    assert check.holds([0.0, -1.5, np.nan, np.inf, 2.0**24], "float32")
    assert not check.holds([2.0**24 + 1], "float32")
    assert not check.holds([0.1], "float32")
    assert check.holds([0.1], "float64")


# This library.


def library_of(backend):
    def array(values, dtype):
        if backend.name == "dask":
            return backend.array(values, dtype)
        dtype = getattr(backend.xp, dtype)
        return backend.xp.asarray(np.array(values), dtype=dtype, device=backend.device)

    has_int64 = "no_x64" not in backend.name and backend.has_int64
    integer = "int64" if has_int64 else "int32"
    own = backend.xp, backend.device, integer, backend.wide, array, backend.numpy
    return numpy_run.Library(*own)


@pytest.mark.parametrize("group", check.GROUPS)
def test_library_passes(backend, group, request):
    dtypes = sorted(backend.floats, reverse=True)
    dtypes += [str(dtype).rpartition(".")[2].strip("'>") for dtype in backend.half_dtypes]
    tests = listed(group)
    if backend.name.startswith("jax") and not request.config.getoption("--long"):
        # It compiles each step for each shape: a fifth of the tests, and no high degrees.
        tests = [test for test in tests if "HighDegree" not in test["flags"]][::5]
    outputs = {name: f["outputs"].keys() for name, f in FILES[group]["functions"].items()}
    run_test, passed = numpy_run.runner(library_of(backend)), 0

    def run(function, parameters, inputs, dtype):
        came = run_test(function, parameters, inputs, dtype)
        assert came.keys() == outputs[function]
        return came

    for test, dtype, outcome, reason in check.verdicts(run, dtypes, tests):
        assert outcome != "fail", f"{test['id']} {dtype}: {reason}"
        passed += outcome == "pass"
        if backend.name == "numpy":
            assert outcome == "pass", reason
    assert passed > 0 or {test["function"] for test in tests} <= {*numpy_run.ON_HOST}


def test_runner_prints_its_counts():
    runner = [sys.executable, VECTORS / "runners" / "numpy_run.py", "--group", "shaw", "--verbose"]
    ran = subprocess.run(runner, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    counts = [line.split() for line in ran.stdout.splitlines()]
    passed = str(len(listed("shaw")))
    assert counts[1:] == [
        ["shaw", dtype, passed, "0", "0"] for dtype in ("float64", "float32", "float16")
    ]


# Runners of others, and the table.


def cell(run, dtype, group, flags):
    """Return the outcomes of tests with a flag, or of those without any."""
    tests = [
        test for test in listed(group) if flags in test["flags"] or not (flags or test["flags"])
    ]
    return {verdict.outcome for verdict in check.verdicts(run, [dtype], tests)}


@pytest.mark.library("torch")
def test_torch_runner_passes_what_its_dtype_allows():
    import torch_run

    assert cell(torch_run.run, "float64", "attention", "GroupedHeads") == {"pass", "cannot"}
    assert cell(torch_run.run, "float32", "alibi", "OddHeads") == {"pass", "cannot"}
    found = check.verdicts(torch_run.run, ["float64", "float32"], listed("rotation")[:4])
    assert {verdict.outcome for verdict in found} == {"pass"}
    assert "fail" in cell(torch_run.run, "float32", "angles", "FarPosition")


@pytest.mark.library("jax")
def test_jax_runner_passes_what_its_dtype_allows():
    import jax_run

    found = check.verdicts(jax_run.run, ["float32"], listed("rotation")[:2])
    assert {verdict.outcome for verdict in found} == {"pass"}
    assert cell(jax_run.run, "float32", "angles", "Int64Position") == {"cannot"}
    assert "fail" in cell(jax_run.run, "float32", "angles", "NearMultipleOfPi")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C is there")
def test_c_runner_passes_what_its_angles_allow(tmp_path):
    source, program = VECTORS / "runners" / "c" / "run.c", tmp_path / "run"
    warnings = ["-Wall", "-Wextra", "-Werror", "-std=c11"]
    compiler = shutil.which("cc")
    subprocess.run([compiler, "-O2", *warnings, "-o", program, source, "-lm"], check=True)
    groups = ("angles", "rotation", "alibi", "attention", "t5")
    paths = [VECTORS / f"{group}.json" for group in groups]
    ran = subprocess.run([program, *paths], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    flags = {test["id"]: test["flags"] for group in groups for test in listed(group)}
    failed = [line.split()[0] for line in ran.stdout.splitlines() if " fails in " in line]
    rounded = {"FarPosition", "RealPosition", "NearMultipleOfPi"}
    assert all(rounded & set(flags[name]) for name in failed), failed
    assert f"attention.json float64: {len(listed('attention'))} pass, 0 fail" in ran.stdout
    assert f"t5.json float64: 0 pass, 0 fail, {len(listed('t5'))} cannot" in ran.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C is there")
def test_c_of_the_page_passes_what_its_angles_allow(tmp_path):
    page = VECTORS.parent / "docs" / "guide" / "check_your_own.md"
    (code,) = re.findall(r"^```c\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    source, program = tmp_path / "check.c", tmp_path / "check"
    source.write_text(code, encoding="utf-8")
    include = f"-I{VECTORS.parent}"
    compiler = shutil.which("cc")
    subprocess.run([compiler, "-O2", include, "-o", program, source, "-lm"], check=True)
    command = [program, VECTORS / "rotation.json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    *_, failed, counts = ran.stdout.splitlines()
    assert failed == "rotation/half-to-2^53 fails in float32"
    assert counts.endswith("rotation.json float32: 13 pass, 1 fail, 33 cannot")


@pytest.mark.parametrize(
    ("peer", "group"),
    [
        pytest.param("transformers", "scaling", marks=pytest.mark.library("transformers")),
        pytest.param(
            "rotary_embedding_torch",
            "rotation",
            marks=pytest.mark.library("rotary_embedding_torch"),
        ),
        pytest.param(
            "positional_encodings",
            "sinusoids",
            marks=pytest.mark.library("positional_encodings", "torch"),
        ),
        pytest.param("onnx", "attention", marks=pytest.mark.library("onnxruntime")),
        pytest.param("keras", "attention", marks=pytest.mark.library("keras")),
        pytest.param("pandas", "dates"),
        pytest.param("scipy", "harmonics"),
        pytest.param("sklearn", "kernels"),
    ],
)
def test_peers_still_do_what_they_can(peer, group):
    command = [sys.executable, VECTORS / "table.py", "--peer", peer]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (line,) = (row for row in ran.stdout.splitlines() if row.startswith(f"{peer} {group}:"))
    assert re.search(r"\b[1-9]\d*/|\*\*", line), line


def test_page_has_a_row_of_each_group():
    page = (VECTORS.parent / "docs" / "results" / "vectors.md").read_text(encoding="utf-8")
    text = page.partition("<!-- table -->")[2].partition("<!-- end of the table -->")[0]
    rows = [line.strip("|").split("|")[0].strip() for line in text.splitlines() if line[:1] == "|"]
    assert set(filter(None, rows)) - {"group", "---"} == set(check.GROUPS)


# The data as packages of others.


@pytest.fixture(scope="module")
def packages():
    yield from loaded(VECTORS / "packages.py")


def data():
    """Return the files that a package has to hold, by name."""
    paths = [*VECTORS.glob("*.json"), VECTORS / "LICENSE", VECTORS / "README.md"]
    return {path.name: path.read_bytes() for path in paths}


def test_wheel_holds_the_vectors(packages, tmp_path):
    with ZipFile(packages.build_wheel(tmp_path)) as wheel:
        wheel.extractall(tmp_path)  # noqa: S202 - which was built here
        metadata = wheel.read(f"{packages.MODULE}-{packages.VERSION}.dist-info/METADATA").decode()
    code = "import positional_embeddings_vectors as v; print(v.__version__, v.FOLDER)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    version, folder = ran.stdout.split()
    held = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    assert {name: held.pop(name) for name in data()} == data()
    assert held.keys() == {"__init__.py", "py.typed"}
    assert version == FILES["masks"]["version"]
    assert "\nLicense-Expression: CC0-1.0\n" in metadata
    assert "Requires-Dist" not in metadata


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm is there")
def test_package_of_npm_holds_the_vectors(packages, tmp_path):
    with tarfile.open(packages.build_npm(tmp_path)) as archive:
        held = {
            name.removeprefix("package/"): archive.extractfile(name).read()
            for name in archive.getnames()
        }
    assert {name: held.pop(name) for name in data()} == data()
    assert held.keys() == {"package.json", "index.d.ts", "file.d.ts", "other.d.ts"}
    package = json.loads(held["package.json"])
    assert (package["version"], package["license"]) == (FILES["masks"]["version"], "CC0-1.0")
    named = [entry["types"].removeprefix("./") for entry in package["exports"].values()]
    assert set(named) == held.keys() - {"package.json"}


def test_without_npm_there_is_no_package(packages, monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert packages.build_npm(tmp_path) is None


def test_types_are_those_of_the_schema(packages):
    schema = json.loads((VECTORS / "schema.json").read_text(encoding="utf-8"))
    types = packages.typescript(schema)
    named = set(re.findall(r"^export type (\w+) = ", types, re.MULTILINE))
    used = set(re.findall(r"\b[A-Z]\w+\b", re.sub(r'//.*|"[^"]*"|/\*.*?\*/', "", types)))
    assert used - {"Array", "Record"} == named
    for name in schema["properties"]:
        assert f"\n  {name}: " in types  # required
    real, integer = (
        re.search(rf'  type: "{kind}";[^}}]*', types.partition("type Output")[2])[0]
        for kind in ("real", "integer")
    )
    assert "  scale: number;" in real
    assert "  float16?: number;" in real
    assert "scale" not in integer
    with pytest.raises(KeyError):
        packages.typescript(schema | {"type": "null"})


@pytest.mark.skipif(shutil.which("tsc") is None, reason="no compiler of TypeScript is there")
def test_types_compile(packages, tmp_path):
    schema = json.loads((VECTORS / "schema.json").read_text(encoding="utf-8"))
    (tmp_path / "index.d.ts").write_text(packages.typescript(schema), encoding="utf-8")
    for name, text in packages.DECLARATIONS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [shutil.which("tsc"), "--noEmit", "--strict", *tmp_path.glob("*.d.ts")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
