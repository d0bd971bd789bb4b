"""Build the data of vectors/ as a wheel and as an npm package: `python vectors/packages.py FOLDER`.

Both hold the JSON files, their README and their licence, and no program. The wheel adds the path
of its folder; the npm package types for TypeScript, which are made of schema.json. The version is
that of the vectors. The wheel needs hatchling; without `npm` that package is left out.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.wheel import WheelBuilder

FOLDER = Path(__file__).resolve().parent
VERSION = json.loads((FOLDER / "masks.json").read_text(encoding="utf-8"))["version"]
SUMMARY = "Test vectors of positional encodings, rotary embeddings, masks and attention: data alone"
NAME = "positional-embeddings-vectors"
MODULE = NAME.replace("-", "_")
DATA = [*sorted(FOLDER.glob("*.json")), FOLDER / "LICENSE", FOLDER / "README.md"]

PYPROJECT = f"""\
[project]
name = "{NAME}"
version = "{VERSION}"
description = "{SUMMARY}"
readme = "{MODULE}/README.md"
license = "CC0-1.0"
license-files = ["{MODULE}/LICENSE"]
requires-python = ">=3.9"
"""
INIT = f'''\
"""{SUMMARY}."""

from pathlib import Path

__all__ = ["FOLDER"]
__version__ = "{VERSION}"

FOLDER = Path(__file__).parent
'''
# A file that is imported has its type at once: `import alibi from "NAME/alibi.json"`.
DECLARATIONS = {
    "file.d.ts": 'declare const file: import("./index").VectorFile;\nexport = file;\n',
    "other.d.ts": "declare const file: Record<string, unknown>;\nexport = file;\n",
}
PACKAGE = {
    "name": NAME,
    "version": VERSION,
    "description": SUMMARY,
    "license": "CC0-1.0",
    "types": "./index.d.ts",
    "exports": {
        ".": {"types": "./index.d.ts"},
        "./models.json": {"types": "./other.d.ts", "default": "./models.json"},
        "./schema.json": {"types": "./other.d.ts", "default": "./schema.json"},
        "./*.json": {"types": "./file.d.ts", "default": "./*.json"},
    },
}


def build_wheel(target: Path) -> Path:
    """Build the wheel, and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy_data(root / MODULE)
        (root / MODULE / "__init__.py").write_text(INIT, encoding="utf-8")
        (root / MODULE / "py.typed").touch()
        (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
        (built,) = WheelBuilder(folder).build(directory=str(target), versions=["standard"])
    return Path(built)


def build_npm(target: Path) -> Path | None:
    """Build the package of npm, and return its path, or None without npm."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        copy_data(Path(folder))
        schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
        package = json.dumps(PACKAGE, indent=2) + "\n"
        files = DECLARATIONS | {"index.d.ts": typescript(schema), "package.json": package}
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [npm, "pack", "--silent", "--pack-destination", str(target.resolve())]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return target / f"{NAME}-{VERSION}.tgz"


def copy_data(folder: Path) -> None:
    """Copy the files of the data into a folder that may be new."""
    folder.mkdir(exist_ok=True)
    for path in DATA:
        shutil.copyfile(path, folder / path.name)


# Types for TypeScript. What is read of a schema is what schema.json has, and the rest is an error.


def typescript(schema: dict[str, Any]) -> str:
    """Return the types of a file and of all that it is made of."""
    parts = {"vectorFile": schema} | schema["$defs"]
    lines = [f"// Made of schema.json, version {VERSION}."]
    for name, part in parts.items():
        if name == "data":  # the kinds of an array, which are written into inputs and outputs
            continue
        if "description" in part:
            lines.append(f"/** {part['description']} */")
        lines.append(f"export type {type_name(name)} = {type_of(part, schema)};")
    return "\n".join(lines) + "\n"


def type_name(name: str) -> str:
    """Return the name of a type: `texts` is `Texts`."""
    return name[0].upper() + name[1:]


def type_of(part: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the type of a part of the schema."""
    if "$ref" in part:
        return type_name(part["$ref"].rpartition("/")[2])
    values = part.get("enum", [part["const"]] if "const" in part else [])
    union = [*map(json.dumps, values), *(type_of(one, schema) for one in part.get("anyOf", ()))]
    if union:
        return " | ".join(union)
    if "allOf" in part:
        return array_type(part, schema)
    if part["type"] == "object":
        return object_type(part, schema)
    if part["type"] == "array":
        return f"Array<{type_of(part['items'], schema)}>"
    return {"string": "string", "integer": "number", "number": "number"}[part["type"]]


def object_type(part: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the type of an object: of known names, or of any names and one type of values."""
    if "properties" not in part:
        values = part.get("additionalProperties")
        return f"Record<string, {type_of(values, schema) if values else 'unknown'}>"
    required = part.get("required", ())
    fields = (
        f"  {name}{'' if name in required else '?'}: {type_of(value, schema)};\n"
        for name, value in part["properties"].items()
    )
    return "{\n" + "".join(fields) + "}"


def array_type(part: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the types of an array, one for each kind of its data."""
    kinds = []
    for kind in schema["$defs"]["data"]["oneOf"]:
        name = kind["properties"]["type"]["const"]
        if name not in part["properties"]["type"]["enum"]:
            continue
        properties = part["properties"] | kind["properties"]
        required = part["required"]
        if "if" in part:
            matches = part["if"]["properties"]["type"]["const"] == name
            required = required + part["then"]["required"] if matches else required
            left_out = {} if matches else part["else"]["properties"]
            properties = {key: value for key, value in properties.items() if key not in left_out}
        kinds.append(object_type({"properties": properties, "required": required}, schema))
    return " | ".join(kinds)


def main() -> None:
    """Build both, and say where they are."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for path in (build_wheel(target), build_npm(target)):
        size = f"{path} {path.stat().st_size / 1e3:,.0f} kB" if path else "no npm, and no package"
        print(size)


if __name__ == "__main__":
    main()
