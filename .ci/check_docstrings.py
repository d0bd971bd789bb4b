"""Validate the docstring of every public name against numpydoc's rules."""

import sys
from operator import attrgetter
from pathlib import Path

from numpydoc.validate import validate

import positional_embeddings
from positional_embeddings import plotting

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import contents

# No extended summary where the summary says it all, no See Also section as a duty,
# attributes and properties without sections, return values without a name.
IGNORED = {"ES01", "SA01", "SA04", "GL08", "RT02"}
IGNORED_ON_METHODS = {"EX01"}  # shown in the example of their class
IGNORED_ON_BASES = {"Mask": {"PR01"}}  # which refuse all arguments


def documented_names() -> list[str]:
    """Return every public name, and the call of every public class."""
    names = [f"plotting.{name}" for name in plotting.__all__]
    for name in (*positional_embeddings.__all__, *contents.BESIDE):
        target = attrgetter(name)(positional_embeddings)
        if callable(target):
            names.append(name)
        # What every scaling is called with is said once, in its module.
        scaling = getattr(target, "__module__", "").endswith("scaling")
        called = any("__call__" in vars(kind) for kind in getattr(target, "__mro__", ()))
        if called and not scaling:
            names.append(f"{name}.__call__")
        if isinstance(target, type):
            names += [
                f"{name}.{method}"
                for method, value in vars(target).items()
                if callable(value) and not method.startswith("_")
            ]
    return names


def main() -> int:
    """Print what is wrong, and return the exit status."""
    wrong = 0
    names = documented_names()
    for name in names:
        is_method = "." in name and name not in contents.BESIDE
        ignored = IGNORED | (IGNORED_ON_METHODS if is_method else set())
        ignored = ignored | IGNORED_ON_BASES.get(name, set())
        for code, message in validate(f"positional_embeddings.{name}")["errors"]:
            if code not in ignored:
                print(f"{name}: {code} {message}")
                wrong += 1
    print(f"{len(names)} docstrings checked, {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
