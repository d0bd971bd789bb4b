"""The look of the site's pictures: its font, and colours that colour-blind people tell apart."""

import warnings
from pathlib import Path
from typing import Any

import font_source_sans_pro
import matplotlib as mpl
from cycler import cycler
from matplotlib import font_manager

FOLDER = Path(font_source_sans_pro.__file__).parent / "files"
FONTS = [FOLDER / f"SourceSansPro-{weight}.ttf" for weight in ("Regular", "It", "Semibold")]
for file in FONTS:
    font_manager.fontManager.addfont(file)

# Okabe and Ito's colours, as in `positional_embeddings.plotting`.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
INK = "#323232"
LIBRARIES = "positional_embeddings|matplotlib|numpy|pandas|scipy|sklearn|statsmodels"
RC = {
    "axes.edgecolor": INK,
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "figure.constrained_layout.use": True,
    "figure.figsize": (7.2, 3.6),
    "font.family": ["Source Sans Pro", "DejaVu Sans"],  # the second one has more signs
    "font.size": 11,
    "image.cmap": "viridis",
    "legend.frameon": False,
    "savefig.dpi": 110,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def apply(_config: dict[str, Any] | None = None, _script: str = "") -> None:
    """Set the look before each script of the gallery, and let no warning pass."""
    mpl.rcdefaults()
    mpl.use("agg")
    mpl.rcParams.update(RC)
    warnings.filterwarnings("error", module=f"__main__|{LIBRARIES}")
