"""`plot`: pictures of encodings, masks, biases and rotary embeddings, written to a file."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from positional_embeddings._core.namespace import HostArray, host
from positional_embeddings.absolute.sinusoidal import sinusoidal_encoding
from positional_embeddings.cli import mask, rope
from positional_embeddings.cli.terminal import (
    Answer,
    CommandError,
    add_json,
    integer,
    named,
    number,
)
from positional_embeddings.relative.alibi import ALiBiBias
from positional_embeddings.relative.sandwich import SandwichBias
from positional_embeddings.rotary.rope import RoPE
from positional_embeddings.rotary.scaling import type_of

_BIASES: dict[str, Callable[[int], Any]] = {"alibi": ALiBiBias, "sandwich": SandwichBias}

_DESCRIPTION = """\
Plot to a file, which is overwritten; its suffix says the format: .png, .svg, .pdf, ... Each kind
has its own help, such as `positional-embeddings plot bias --help`. Arrays come from files .npy of
NumPy. Pictures need Matplotlib: pip install "positional-embeddings[plot]"; no display is needed.
"""
_EPILOG = """\
examples:
  positional-embeddings plot encoding 64 100 -o encoding.png
  positional-embeddings plot similarity 64 100 -o similarity.png
  positional-embeddings plot mask causal 12 --window 4 -o mask.png
  positional-embeddings plot bias alibi 8 64 --head 1 -o bias.png
  positional-embeddings plot attention weights.npy -o attention.png
  positional-embeddings plot decay --dim 128 --base 10000 --base 500000 -o decay.png
  positional-embeddings plot wavelengths config.json -o wavelengths.png
"""

_MOST_POSITIONS = 2**20
_MOST_NUMBERS = 2**27  # a gigabyte

# Positions of a rotary embedding that is described by its features and base.
_CONTEXT = 4096


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "plot",
        help="plot encodings, masks, biases and rotary embeddings to a file",
        usage="positional-embeddings plot KIND ... --output FILE",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    kinds = parser.add_subparsers(
        title="kinds", metavar="KIND", required=True, prog="positional-embeddings plot"
    )
    for kind in ("encoding", "similarity"):
        _add_encoding(kinds, kind)
    _add_mask(kinds)
    _add_bias(kinds)
    _add_attention(kinds)
    for kind in ("decay", "wavelengths"):
        _add_rope(kinds, kind)


def run(arguments: argparse.Namespace) -> Answer:
    """Draw, and write the picture."""
    try:
        figure = import_module("matplotlib.figure").Figure(layout="constrained")
    except ImportError:
        message = 'Pictures need Matplotlib: pip install "positional-embeddings[plot]".'
        raise ImportError(message) from None
    path = Path(arguments.output)
    formats = figure.canvas.get_supported_filetypes()
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in formats:
        names = ", ".join(f".{name}" for name in sorted(formats))
        raise CommandError(f"--output must end in one of {names}, got {arguments.output!r}")
    plotting = import_module("positional_embeddings.plotting")
    arguments.draw(plotting, figure.subplots(), arguments)
    try:
        figure.savefig(path, format=suffix, dpi=150)
    except RuntimeError as error:  # some formats need a program that may be missing
        raise CommandError(f"{path} cannot be written: {error}") from None
    size = path.stat().st_size
    text = f"wrote {path}: {formats[suffix]}, {size:,} bytes"
    return Answer(text, {"path": str(path), "format": suffix, "bytes": size})


def _add(kinds: Any, kind: str, draw: Callable[..., None], what: str, description: str) -> Any:
    """Add a kind of picture to the parser; what it is of follows."""
    parser = kinds.add_parser(
        kind,
        help=what,
        usage=f"positional-embeddings plot {kind} ... --output FILE",
        description=description,
    )
    parser.add_argument(
        "--output", "-o", required=True, metavar="FILE", help="where to write the picture"
    )
    add_json(parser)
    parser.set_defaults(run=run, draw=draw)
    return parser


def _add_encoding(kinds: Any, kind: str) -> None:
    draw, what = {
        "encoding": (_draw_encoding, "an encoding: features by positions"),
        "similarity": (_draw_similarity, "how alike positions are in an encoding"),
    }[kind]
    parser = _add(kinds, kind, draw, what, f"Plot {what}.\n")
    parser.add_argument(
        "of",
        nargs="+",
        metavar="FEATURES POSITIONS | FILE.npy",
        help="sizes of a sinusoidal encoding, or an array (features, positions)",
    )
    parser.add_argument(
        "--base", type=number, metavar="B", help="base of the frequencies (default 10000)"
    )


def _encoding(arguments: argparse.Namespace) -> HostArray:
    if _is_file(arguments.of):
        if arguments.base is not None:
            raise CommandError("--base goes with FEATURES and POSITIONS only")
        return _loaded(arguments.of[0])
    features, positions = _sizes(arguments.of, ("FEATURES", "POSITIONS"))
    if not 1 <= positions <= _MOST_POSITIONS:
        raise CommandError(f"POSITIONS must be 1 to 2**20, got {positions}")
    if features * positions > _MOST_NUMBERS:
        raise CommandError(
            f"FEATURES times POSITIONS must be at most 2**27, got {features * positions:,}"
        )
    base = 10_000 if arguments.base is None else arguments.base
    with named({"`dim`": "FEATURES", "`base`": "--base"}):
        encoding: HostArray = sinusoidal_encoding(host.arange(positions), features, base=base)
    return encoding


def _draw_encoding(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    plotting.plot_encoding(_encoding(arguments), ax=ax)


def _draw_similarity(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    plotting.plot_similarity(_encoding(arguments), ax=ax)


def _add_mask(kinds: Any) -> None:
    description = (
        f"Plot a mask, described as for the command mask.\n\nkinds:\n{mask.kinds_text()}\n"
    )
    parser = _add(kinds, "mask", _draw_mask, "a mask: queries by keys", description)
    mask.add_arguments(parser)


def _draw_mask(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    drawn = mask.drawn_mask(arguments)
    plotting.plot_mask(
        drawn.mask, drawn.q_len, drawn.k_len, offset=drawn.offset, batch=drawn.batch, ax=ax
    )


def _add_bias(kinds: Any) -> None:
    what = "a bias of attention scores: queries by keys"
    parser = _add(kinds, "bias", _draw_bias, what, f"Plot {what}.\n")
    parser.add_argument(
        "of",
        nargs="+",
        metavar="NAME HEADS Q_LEN [K_LEN] | FILE.npy",
        help=f"a bias of {', '.join(_BIASES)} with its sizes, or an array (query, key, head)",
    )
    parser.add_argument("--head", type=integer, default=0, metavar="I", help="from 0 (default 0)")
    parser.add_argument(
        "--offset", type=integer, metavar="N", help="position of the first query (K_LEN - Q_LEN)"
    )


def _draw_bias(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    name, *sizes = arguments.of
    if _is_file(arguments.of):
        if arguments.offset is not None:
            raise CommandError("--offset goes with a NAME only")
        plotting.plot_bias(_loaded(name), head=arguments.head, ax=ax)
        return
    if name not in _BIASES:
        raise CommandError(f"NAME must be one of {', '.join(_BIASES)}, got {name!r}")
    names = ("HEADS", "Q_LEN", "K_LEN") if len(sizes) == 3 else ("HEADS", "Q_LEN")
    heads, *lengths = _sizes(sizes, names)
    plotting.plot_bias(
        _BIASES[name](heads), *lengths, offset=arguments.offset, head=arguments.head, ax=ax
    )


def _add_attention(kinds: Any) -> None:
    what = "the weights of an attention: queries by keys"
    parser = _add(kinds, "attention", _draw_attention, what, f"Plot {what}.\n")
    parser.add_argument("of", metavar="FILE.npy", help="an array (query, key, ...)")
    parser.add_argument(
        "--key-axis",
        type=integer,
        choices=(1, -1),
        help="-1 for an array (..., query, key); needed for four axes or more",
    )
    parser.add_argument(
        "--index",
        type=integer,
        default=0,
        metavar="I",
        help="which of the heads and sequences, counted from 0 (default 0)",
    )


def _draw_attention(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    with named({"`index`": "--index", "`key_axis`": "--key-axis"}):
        plotting.plot_attention(
            _loaded(arguments.of), index=arguments.index, key_axis=arguments.key_axis, ax=ax
        )


def _add_rope(kinds: Any, kind: str) -> None:
    draw, what = {
        "decay": (_draw_decay, "rotary scores by distance"),
        "wavelengths": (_draw_wavelengths, "wavelengths of a rotary embedding"),
    }[kind]
    description = (
        f"Plot {what}: of a configuration, before and after the scaling of its context, or of\n"
        "--dim features and each --base.\n"
    )
    parser = _add(kinds, kind, draw, what, description)
    parser.add_argument(
        "config",
        nargs="?",
        metavar="CONFIG",
        help="a config.json of Hugging Face, a folder that has one, or - for stdin",
    )
    rope.add_options(parser)
    parser.add_argument("--dim", type=integer, metavar="N", help="number of rotated features")
    parser.add_argument(
        "--base",
        type=number,
        action="append",
        metavar="B",
        help="base of the frequencies (default 10000); may be repeated",
    )


def _draw_decay(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    plotting.plot_rope_decay(_ropes(arguments), ax=ax)


def _draw_wavelengths(plotting: Any, ax: Any, arguments: argparse.Namespace) -> None:
    plotting.plot_wavelengths(_ropes(arguments), ax=ax)


def _ropes(arguments: argparse.Namespace) -> dict[str, RoPE]:
    """Return rotary embeddings with their labels."""
    given = vars(arguments)
    of_config, of_sizes = ("config", "layer_type", "layout"), ("dim", "base")
    if arguments.config is None and arguments.dim is None:
        raise CommandError("CONFIG or --dim must be given")
    if arguments.config is not None and arguments.dim is not None:
        raise CommandError("--dim goes without CONFIG")
    wrong = of_sizes if arguments.dim is None else of_config
    for name in wrong:
        if given[name] is not None:
            partner = "--dim" if name == "base" else "CONFIG"
            raise CommandError(f"--{name.replace('_', '-')} goes with {partner} only")
    if arguments.dim is not None:
        context = _CONTEXT if arguments.context is None else arguments.context
        bases = arguments.base or [10_000.0]
        with named({"`head_size`": "--dim", "`seq_len`": "--context", "`base`": "--base"}):
            return {f"base {base:,.15g}": RoPE(arguments.dim, context, base) for base in bases}
    found = {}
    for layer_type, each in rope.ropes_of(arguments)[2].items():
        layers = f"{layer_type}, " if layer_type else ""
        if each.scaling is not None:
            original = getattr(each.scaling, "original_max_position", each.seq_len)
            trained = replace(each, scaling=None, seq_len=original)
            found[f"{layers}without scaling"] = trained
        found[f"{layers}{type_of(each.scaling)}"] = each
    return found


def _is_file(texts: list[str]) -> bool:
    return len(texts) == 1 and texts[0].lower().endswith(".npy")


def _sizes(texts: list[str], names: tuple[str, ...]) -> list[int]:
    """Return integers of the command line."""
    if len(texts) != len(names):
        got = " ".join(texts) or "nothing"
        raise CommandError(f"{' '.join(names)} must be given, or FILE.npy, got {got}")
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise CommandError(f"{', '.join(names)} must be integers, got {' '.join(texts)}") from None


def _loaded(name: str) -> HostArray:
    """Return the array of a file."""
    try:
        array: Any = host.load(name, allow_pickle=False)
    except (EOFError, ValueError):
        raise CommandError(f"{name} must be a file .npy of NumPy, without objects") from None
    if not isinstance(array, host.ndarray):
        raise CommandError(f"{name} must hold one array, got {', '.join(array)}")
    loaded: HostArray = array
    return loaded
