"""What the examples of pictures share: where they are stored, in few colours."""

import argparse
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

COLOURS = 255  # enough for a colour map, and a small file


def shrink(path: Path) -> None:
    """Store a picture with few colours."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def save(figure: Figure, script: str, about: str | None) -> None:
    """Store the figure of a script beside it, or where --output says."""
    parser = argparse.ArgumentParser(description=about)
    default = Path(script).with_suffix(".png")
    parser.add_argument("--output", type=Path, default=default, help="PNG")
    path = parser.parse_args().output
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    shrink(path)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
