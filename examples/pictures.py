"""Draw the pictures of the README, by Matplotlib: the extra "plot".

overview.png shows an encoding, a mask and a bias, by `positional_embeddings.plotting`; science.png,
inference.png and masks.png what it is for; demo.png is what the demo draws.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from positional_embeddings import (
    CausalMask,
    GlobalMask,
    RoPE,
    SegmentMask,
    SlidingWindowMask,
    YaRNScaling,
    alibi_bias,
    create_causal_mask,
    cyclic_encoding,
    mask_to_bias,
    sinusoidal_encoding,
    spherical_encoding,
)
from positional_embeddings.plotting import (
    plot_attention,
    plot_encoding,
    plot_rope_decay,
    plot_similarity,
    plot_wavelengths,
)

HERE = Path(__file__).parent
COLOURS = 255  # enough for a colour map, and a small file


def shrink(path: Path) -> None:
    """Store a picture with few colours."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def overview() -> Figure:
    """Return a figure of one row: an encoding, a mask and a bias."""
    figure = Figure(figsize=(11, 3), layout="constrained")
    encoding, window, bias = figure.subplots(1, 3, width_ratios=(1.05, 1, 1))
    causal = create_causal_mask(32)

    plot_encoding(sinusoidal_encoding(np.arange(100), 64), ax=encoding)
    encoding.set_title("sinusoidal encoding")

    plot_attention(CausalMask() | SlidingWindowMask(7, None), 32, ax=window)
    window.set_title("causal mask, window of 8")

    plot_attention(alibi_bias(8, 32) + mask_to_bias(causal), kind="bias", index=1, ax=bias)
    bias.set_title("ALiBi bias, causal")
    return figure


def science() -> Figure:
    """Return a figure of an irregular time series with its fit, and of places on the sphere."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    # Panels of their own heights: the map has a colour bar below.
    panels = figure.subfigures(1, 2, width_ratios=(1, 1.2))
    series, world = (panel.subplots() for panel in panels)
    rng = np.random.default_rng(0)
    years = np.sort(rng.uniform(2015, 2024, 250))
    celsius = 10 + 0.1 * (years - 2015) - 8 * np.cos(2 * np.pi * years) + rng.normal(0, 1.5, 250)
    coefficients = np.linalg.lstsq(_trend_and_cycle(years).T, celsius)[0]
    series.plot(years, celsius, ".", color="#2b5c8a", markersize=3, label="measured")
    weeks = np.arange(2015, 2026, 1 / 52)
    fit = _trend_and_cycle(weeks).T @ coefficients
    series.plot(weeks, fit, color="#d55e00", linewidth=1.2, label="fit and forecast")
    series.set(xlabel="year", ylabel="temperature (°C)", ylim=(-3, 30))
    series.legend(loc="upper left", ncols=2, frameon=False)
    series.set_title("a trend and a yearly cycle")

    grid = np.meshgrid(np.arange(-88.5, 90, 3), np.arange(-178.5, 180, 3), indexing="ij")
    latitude, longitude = (axis.ravel() for axis in grid)
    auckland = int(np.argmin(np.hypot(latitude + 36.8, longitude - 174.7)))
    features = spherical_encoding(latitude, longitude, 6)
    plot_similarity(features, coordinates=(latitude, longitude), reference=auckland, ax=world)
    world.set_title("what is near Auckland")
    return figure


def _trend_and_cycle(years: np.ndarray) -> np.ndarray:
    """Return the features of the README's fit."""
    cycle = cyclic_encoding(years, period=1.0, harmonics=1)
    return np.stack([np.ones_like(years), years - 2020, *cycle])


def inference() -> Figure:
    """Return a figure of a rotary embedding before and after its context is extended."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    wavelengths, scores = figure.subplots(1, 2)
    extended = RoPE(64, 32_768, scaling=YaRNScaling(8.0, 4096))
    ropes = {"as trained": RoPE(64, 4096), "extended by YaRN": extended}
    plot_wavelengths(ropes, ax=wavelengths)
    wavelengths.set_title("wavelengths of the pairs")
    plot_rope_decay(ropes, max_distance=400, ax=scores)
    scores.set_title("scores at the first 400 distances")
    return figure


def masks() -> Figure:
    """Return a figure of three masks."""
    figure = Figure(figsize=(9, 3), layout="compressed")
    causal, window = CausalMask(), SlidingWindowMask(3, 3)
    format_value = {
        "causal, window of 4": causal | SlidingWindowMask(3, None),
        "window, 2 global tokens": window & GlobalMask([0, 12]),
        "3 packed documents": causal | SegmentMask([0] * 9 + [1] * 5 + [2] * 10),
    }
    panels = figure.subplots(1, 3)
    for ax, (title, mask) in zip(panels, format_value.items(), strict=True):
        plot_attention(mask, 24, ax=ax)
        ax.set_title(title)
    for ax in panels[:-1]:
        ax.get_legend().remove()
    return figure


def main() -> None:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the README.")
    folder = HERE.parent / "docs" / "pictures"
    parser.add_argument("--output", type=Path, default=folder, help="folder of the PNGs")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    overview().savefig(output / "overview.png", dpi=150)
    for draw in (science, inference, masks):
        draw().savefig(output / f"{draw.__name__}.png", dpi=110)
    demo = [sys.executable, str(HERE / "demo.py"), "--output", str(output / "demo.png")]
    subprocess.run(demo, check=True)  # noqa: S603 - the demo next to this file
    for name in ("overview.png", "science.png", "inference.png", "masks.png", "demo.png"):
        shrink(output / name)
        print(f"{output / name}: {(output / name).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
