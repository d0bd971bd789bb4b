"""What a release needs: a dated changelog, metadata that is complete, and workflows that fit it."""

import json
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml
from hatch_fancy_pypi_readme.hooks import FancyReadmeMetadataHook
from readme_renderer import markdown

import positional_embeddings as pe
from scripts import loaded

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def sections():
    """Return the versions in the changelog and their dates, None of what is not released."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (.+)", heading) for heading in headings[1:]]
    assert all(found), headings
    dates = [None if one[2] == "not released" else date.fromisoformat(one[2]) for one in found]
    return list(zip((one[1] for one in found), dates, strict=True))


def parsed(path):
    """Return what a file of YAML says."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


WORKFLOWS = sorted(path.name for path in (ROOT / ".github" / "workflows").glob("*.yml"))


def test_version_has_a_section_in_the_changelog_and_those_before_it_a_date():
    (newest, released), *earlier = sections()
    assert newest == pe.__version__
    dates = [when for _, when in earlier]
    if released is not None:
        dates.insert(0, released)
    assert all(when <= date.today() for when in dates)  # noqa: DTZ011 - of no zone
    assert dates == sorted(dates, reverse=True)


def test_metadata_is_of_the_newest_section():
    version, released = sections()[0]
    citation = parsed("CITATION.cff")
    assert (citation["version"], citation.get("date-released")) == (version, released)
    codemeta, zenodo = (
        json.loads((ROOT / name).read_text(encoding="utf-8"))
        for name in ("codemeta.json", ".zenodo.json")
    )
    day = released and str(released)
    assert (codemeta["version"], codemeta.get("dateModified")) == (version, day)
    assert (zenodo["version"], zenodo.get("publication_date")) == (version, day)
    assert citation["title"] == codemeta["name"] == zenodo["title"] == PROJECT["name"]
    assert citation["abstract"] == codemeta["description"] == zenodo["description"]
    assert citation["license"] == zenodo["license"] == PROJECT["license"]
    assert codemeta["license"] == f"https://spdx.org/licenses/{PROJECT['license']}"
    assert citation["keywords"] == codemeta["keywords"] == zenodo["keywords"]
    assert codemeta["runtimePlatform"] == f"Python {PROJECT['requires-python']}"
    assert codemeta["softwareRequirements"] == [
        re.split(">=", d)[0] for d in PROJECT["dependencies"]
    ]


def test_recipe_asks_for_what_the_project_asks_for():
    recipe = parsed("conda/recipe.yaml")
    assert recipe["context"]["version"] == sections()[0][0]
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]

    def plain(packages):
        names = [one.replace(" ", "").replace("matplotlib-base", "matplotlib") for one in packages]
        return sorted(one for one in names if not one.startswith(("python", "pip")))

    extras = PROJECT["optional-dependencies"]
    on_host = [one for name in extras if not name.startswith("cupy") for one in extras[name]]
    needs = recipe["requirements"]
    assert plain(needs["run"]) == plain(PROJECT["dependencies"])
    assert plain(needs["run_constraints"]) == plain(on_host)
    assert plain(needs["host"]) == plain(tomllib.loads(PYPROJECT)["build-system"]["requires"])


def test_page_of_installing_has_each_extra_and_what_conda_needs():
    page = (ROOT / "docs/guide/installing.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(PROJECT["optional-dependencies"])
    assert f"Python {PYTHONS[0]} or newer" in page
    (numpy,) = (one for one in PROJECT["dependencies"] if one.startswith("numpy"))
    assert f"NumPy {numpy.partition('>=')[2]} or newer" in page
    needs = parsed("conda/recipe.yaml")["requirements"]
    wanted = {one.split()[0] for one in needs["run"] + needs["run_constraints"]} - {"python"}
    (by_conda,) = re.findall(r"^conda create (.*?)^conda activate", page, re.MULTILINE | re.DOTALL)
    assert wanted <= set(re.findall(r"[\w-]+", by_conda))


def test_supported_versions_are_those_of_the_project():
    page = (ROOT / "docs/reference/support.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w[\w-]*).*? \| ([\d.]+) \|", page, re.MULTILINE)
    named = [(name.lower(), version) for name, version in rows]
    named += re.findall(r"`([\w-]+)` \(from ([\d.]+)\)", page)
    for module in loaded(ROOT / ".ci/lowest.py"):
        assert dict(named) == {"python": PYTHONS[0], **module.lowest()}


@pytest.mark.parametrize("address", ["ADDRESS", "https://example.org/owner/name"])
def test_page_for_the_package_index_has_no_relative_link(address, monkeypatch):
    monkeypatch.chdir(ROOT)
    line = re.compile(r'^(replacement = "\]\().*?/blob/', re.MULTILINE)
    config, found = line.subn(rf"\g<1>{address}/blob/", PYPROJECT)
    assert found == 1
    hooks = tomllib.loads(config)["tool"]["hatch"]["metadata"]["hooks"]
    metadata = {"version": pe.__version__}
    FancyReadmeMetadataHook(str(ROOT), hooks["fancy-pypi-readme"]).update(metadata)
    page, readme = metadata["readme"]["text"], (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.compile(r"^```.*?^```|`[^`]+`", re.MULTILINE | re.DOTALL)
    assert code.findall(page) == code.findall(readme)

    def links(text):
        return re.findall(r'(?:href|src)="(?!#user-content-)([^"]*)"', markdown.render(text))

    expected = []
    for link in links(readme):
        if link.startswith("https:"):
            expected.append(link)
        elif address.startswith("https:"):
            query = "?raw=true" if link.endswith(".png") else ""
            expected.append(f"{address}/blob/v{pe.__version__}/{link}{query}")
    assert links(page) == expected


def test_model_types_are_of_the_version_that_is_tested():
    """A newer version in constraints.txt requires `make models`."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    model_types = ROOT / "src/positional_embeddings/models/model_types.json"
    version = json.loads(model_types.read_text(encoding="utf-8"))["transformers"]
    assert f"\ntransformers=={version}\n" in constraints, "make models"


def test_classifiers_name_each_python():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert named == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_suite_runs_on_each_python_and_system():
    matrix = parsed(".github/workflows/tests.yml")["jobs"]["suite"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert matrix["system"] == ["ubuntu-latest", "macos-latest", "windows-latest"]


def test_suite_on_windows_runs_the_commands_of_the_makefile():
    steps = parsed(".github/workflows/tests.yml")["jobs"]["suite"]["steps"]
    (by_hand,) = [step["run"] for step in steps if step.get("if") == "runner.os == 'Windows'"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^\t@?(\$\((?:PYTHON|VENV)\).*-m .*)$", makefile, re.MULTILINE)
    wanted = ["-m venv", "--upgrade", "--editable . --group", "-m pytest"]
    ours = [next(line for line in commands if part in line) for part in wanted]
    names = {
        "$(PYTHON)": "python",
        "$(VENV)": ".venv",
        "$*": "test",
        "$(CONSTRAINTS)": "constraints.txt",
        "bin/": "Scripts/",
        "$(DRAW)": re.search(r"^DRAW := (.*)$", makefile, re.MULTILINE)[1],
        " $(PYTEST) $(PACKAGE:%=tests/%)": "",
    }
    for name, value in names.items():
        ours = [line.replace(name, value) for line in ours]
    plain = [line.replace("--quiet ", "").replace("--clear ", "") for line in ours]
    assert by_hand.splitlines() == plain


def test_steps_are_shared_out_among_machines():
    jobs = parsed(".github/workflows/tests.yml")["jobs"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps, lanes, backends = (
        re.search(rf"^{name}=\((.*)\)$", script, re.MULTILINE)[1].replace('"', "")
        for name in ("STEPS", "LANES", "BACKENDS")
    )
    shared = " ".join(jobs["steps"]["strategy"]["matrix"]["step"]).split()
    assert sorted([*shared, "coverage"]) == sorted(
        f"{lanes} {steps}".replace("backends", backends).split()
    )
    assert jobs["coverage"]["needs"] == "steps"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_is_guarded(name):
    workflow = parsed(f".github/workflows/{name}")
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert "group" in workflow["concurrency"]
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 180
        used = [step for step in job["steps"] if "uses" in step]
        for step in used:
            action, _, version = step["uses"].partition("@")
            known = action == "pypa/gh-action-pypi-publish"  # goes with the index
            assert re.fullmatch("release/v1" if known else "[0-9a-f]{40}", version)
            if action == "actions/checkout":
                assert step["with"]["persist-credentials"] is False
        # What others write, such as the name of a branch, is never put into a script.
        assert not any("${{" in step.get("run", "") for step in job["steps"])


def test_release_asks_for_nothing_but_its_identity():
    workflow = parsed(".github/workflows/release.yml")
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert workflow["jobs"]["publish"]["environment"] == "pypi"
    assert workflow["jobs"]["publish"]["needs"] == "build"
    # YAML reads the key `on` as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}}


def test_issue_forms_are_whole():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = [path for path in folder.glob("*.yml") if path.stem != "config"]
    assert len(forms) == 3
    for path in forms:
        form = parsed(path.relative_to(ROOT))
        assert {"name", "description", "labels", "body"} == set(form)
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        names = [field["id"] for field in fields]
        assert len(set(names)) == len(names)
        assert all(field["attributes"]["label"] for field in fields)
