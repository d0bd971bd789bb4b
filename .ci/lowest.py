"""Print constraints for pip: the oldest versions that the package and its extras take.

Other packages have the versions of constraints.txt.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lowest() -> dict[str, str]:
    """Return the oldest version of each package that a user may bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [one for some in project["optional-dependencies"].values() for one in some]
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)", one) for one in project["dependencies"] + extras]
    return {match[1]: match[2] for match in found if match}


def main() -> None:
    """Print a line for each package."""
    oldest = lowest()
    # The newest array-api-extra does not take the oldest array-api-compat.
    left_out = {*oldest, "array-api-extra"}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.partition("==")[0] not in left_out:
            print(line)
    for name, version in oldest.items():
        print(f"{name}=={version}")
    print("pyparsing<3.3")  # newer ones warn of how the oldest Matplotlib calls them


if __name__ == "__main__":
    main()
