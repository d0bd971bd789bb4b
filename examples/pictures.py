"""Draw the pictures of the README, by Matplotlib: the extra "plot".

overview.png shows an encoding, a mask and a bias, by `positional_embeddings.plotting`; co2.png
is what the demo draws.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from positional_embeddings import (
    alibi_bias,
    combine_masks,
    create_causal_mask,
    create_sliding_window_mask,
    mask_to_bias,
    sinusoidal_encoding,
)
from positional_embeddings.plotting import plot_bias, plot_encoding, plot_mask

HERE = Path(__file__).parent
COLOURS = 255  # enough for a colour map, and a small file


def overview() -> Figure:
    """Return a figure of one row: an encoding, a mask and a bias."""
    figure = Figure(figsize=(12.5, 3.3), layout="constrained")
    encoding, window, bias = figure.subplots(1, 3, width_ratios=(1.05, 1, 1))
    causal = create_causal_mask(32)

    plot_encoding(sinusoidal_encoding(np.arange(100), 64), ax=encoding)
    encoding.set_title("sinusoidal encoding")

    plot_mask(combine_masks(causal, create_sliding_window_mask(32, (7, 0))), ax=window)
    window.set_title("causal mask, window of 8")

    plot_bias(alibi_bias(8, 32) + mask_to_bias(causal), head=1, ax=bias)
    bias.set_title("ALiBi bias, causal")
    return figure


def shrink(path: Path) -> None:
    """Store a picture with few colours."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the README.")
    folder = HERE.parent / "docs" / "pictures"
    parser.add_argument("--output", type=Path, default=folder, help="folder of the PNGs")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    overview().savefig(output / "overview.png", dpi=130)
    demo = [sys.executable, str(HERE / "co2.py"), "--output", str(output / "co2.png")]
    subprocess.run(demo, check=True)  # noqa: S603 - the demo next to this file
    for name in ("overview.png", "co2.png"):
        shrink(output / name)
        print(f"{output / name}: {(output / name).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
