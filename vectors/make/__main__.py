"""Make the vectors: `python vectors/make [GROUP ...] [--check] [--digits N]`.

With `--check` nothing is written: the files have to be there already, equal to the last bit.
With `--digits 90` they are computed with more digits than 60, and are the same: a value that is not
is noise of the computation, such as the cosine of a quarter of a turn by a rounded pi.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from exact import mp

FOLDER = Path(__file__).resolve().parents[1]
# Each is a module of this folder with a function `group`.
GROUPS = (
    "angles",
    "rotation",
    "scaling",
    "sections",
    "sinusoids",
    "t5",
    "alibi",
    "kerple",
    "fire",
    "sandwich",
    "shaw",
    "xpos",
    "masks",
    "attention",
    "harmonics",
    "dates",
    "kernels",
)


def main() -> None:
    """Make the files, or compare them."""
    parser = argparse.ArgumentParser(description="Make the test vectors.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"one of {', '.join(GROUPS)}")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--digits", type=int, default=mp.dps, help="digits (default: %(default)s)")
    options = parser.parse_args()
    mp.dps = options.digits
    if wrong := set(options.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(wrong))}")
    different = []
    for name in options.groups or GROUPS:
        path = FOLDER / f"{name}.json"
        made = import_module(name).group()
        text = made.text().encode()
        if not options.check:
            path.write_bytes(text)
        elif not path.exists() or path.read_bytes() != text:
            different.append(path.name)
        print(f"{name:10} {len(made.tests):4} tests {len(text):8} bytes", flush=True)
    if different:
        sys.exit(f"not as they are made: {', '.join(different)}")


if __name__ == "__main__":
    main()
