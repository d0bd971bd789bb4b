"""Plot to a file, which is overwritten; its suffix is the format: .png, .svg, .pdf, ...

Each kind has its own help, such as positional-embeddings plot bias --help. Arrays come from files
.npy of NumPy. Pictures need Matplotlib, and no display: pip install "positional-embeddings[plot]".

For example:
  positional-embeddings plot encoding 64 100 -o encoding.png
  positional-embeddings plot similarity 64 100 -o similarity.png
  positional-embeddings plot mask "CausalMask() | SlidingWindowMask(3, 0)" 12 -o mask.png
  positional-embeddings plot bias alibi 8 64 --head 1 -o bias.png
  positional-embeddings plot attention weights.npy -o attention.png
  positional-embeddings plot decay --dim 128 --base 10000 --base 500000 -o decay.png
  positional-embeddings plot wavelengths config.json -o wavelengths.png
"""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import positional_embeddings as pe
from positional_embeddings import plotting
from positional_embeddings.arrays.namespace import np
from positional_embeddings.cli import mask, rope
from positional_embeddings.cli.terminal import (
    Answer,
    CommandError,
    Parser,
    add_command,
    add_offset,
    suggestion,
)
from positional_embeddings.plotting.axes import import_matplotlib
from positional_embeddings.rotary.scaling import type_of

_BIASES: dict[str, Any] = {"alibi": pe.ALiBiBias, "sandwich": pe.SandwichBias}

# Options that are passed on under their own names.
_OPTIONS = ("q_len", "k_len", "offset", "batch", "head", "index", "key_axis")

# Positions of a rotary embedding that is described by its features and base.
_CONTEXT = 4096


def add_to(commands: Any) -> None:
    """Add the command to the commands of a parser."""
    summary = "plot encodings, masks, biases and rotary embeddings to a file"
    parser = commands.add_parser("plot", help=summary, description=__doc__)
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    for kind, (what, function, add_arguments, read) in _KINDS.items():
        of_kind = add_command(kinds, kind, run, what, f"Plot {what}.")
        add_arguments(of_kind)
        of_kind.add_argument("--output", "-o", required=True, metavar="FILE", help="the picture")
        of_kind.set_defaults(function=function, read=read)


def run(arguments: argparse.Namespace) -> Answer:
    """Draw, and write the picture."""
    figure = import_matplotlib("figure").Figure(layout="constrained")
    options = {name: value for name, value in vars(arguments).items() if name in _OPTIONS}
    draw = getattr(plotting, arguments.function)
    draw(arguments.read(arguments), **options, ax=figure.subplots())
    path = Path(arguments.output)
    suffix = path.suffix.removeprefix(".").lower()
    figure.savefig(path, format=suffix, dpi=150)
    size = path.stat().st_size
    text = f"wrote {path}: {figure.canvas.get_supported_filetypes()[suffix]}, {size:,} bytes"
    return Answer(text, {"path": str(path), "format": suffix, "bytes": size})


def _add_encoding(parser: Parser) -> None:
    add = parser.add_argument
    size = partial(_array_or, "an integer", int)
    what = "features of a sinusoidal encoding, or an array (features, positions)"
    add("dim", metavar="FEATURES|FILE.npy", type=size, help=what)
    add("positions", metavar="POSITIONS", type=int, nargs="?", help="number of positions")
    add("--base", type=float, metavar="B", help="base of the frequencies (default 10000)")


def _read_encoding(arguments: argparse.Namespace) -> Any:
    encoding, positions, base = arguments.dim, arguments.positions, arguments.base
    if not isinstance(encoding, int):
        _check_left_out(arguments, "FILE.npy", "positions", "base")
        return encoding
    if positions is None:
        raise CommandError("POSITIONS must be given with FEATURES")
    base = 10_000 if base is None else base
    return pe.sinusoidal_encoding(np.arange(positions), encoding, base=base)


def _add_bias(parser: Parser) -> None:
    add = parser.add_argument
    bias = partial(_array_or, f"one of {', '.join(_BIASES)}", _BIASES.__getitem__, names=_BIASES)
    what = f"a bias of {', '.join(_BIASES)}, or an array (query, key, head)"
    add("bias", metavar="NAME|FILE.npy", type=bias, help=what)
    add("num_heads", metavar="HEADS", type=int, nargs="?", help="number of heads")
    add("q_len", metavar="Q_LEN", type=int, nargs="?", help="number of queries")
    add("k_len", metavar="K_LEN", type=int, nargs="?", help="number of keys (default: Q_LEN)")
    add("--head", type=int, default=0, metavar="I", help="which head (default 0)")
    add_offset(parser)


def _read_bias(arguments: argparse.Namespace) -> Any:
    if isinstance(arguments.bias, type):
        return arguments.bias(arguments.num_heads)
    _check_left_out(arguments, "FILE.npy", "num_heads")
    return arguments.bias


def _add_attention(parser: Parser) -> None:
    add = parser.add_argument
    add("weights", metavar="FILE.npy", type=_load, help="an array (query, key, ...)")
    what = "-1 for an array (..., query, key), or 1; needed for four axes or more"
    add("--key-axis", type=int, metavar="N", help=what)
    add("--index", type=int, default=0, metavar="I", help="which head and sequence (default 0)")


def _add_rope(parser: Parser) -> None:
    of = parser.add_mutually_exclusive_group(required=True)
    of.add_argument("config", nargs="?", metavar="CONFIG", help=rope.CONFIG_HELP)
    what = "rotated features, without CONFIG"
    of.add_argument("--dim", dest="head_size", type=int, metavar="N", help=what)
    what = "with --dim: base of the frequencies (default 10000); may be repeated"
    parser.add_argument("--base", type=float, action="append", metavar="B", help=what)
    rope.add_options(parser)


def _read_ropes(arguments: argparse.Namespace) -> dict[str, pe.RoPE]:
    """Return rotary embeddings of sizes, or of a configuration with and without scaling."""
    if arguments.config is None:
        _check_left_out(arguments, "--dim", "layer_type", "layout")
        context = _CONTEXT if arguments.seq_len is None else arguments.seq_len
        bases = arguments.base or [10_000]
        return {f"base {b:,.15g}": pe.RoPE(arguments.head_size, context, b) for b in bases}
    _check_left_out(arguments, "CONFIG", "base")
    ropes = {}
    for layer_type, each in rope.ropes_of(rope.load_config(arguments), arguments).items():
        layers = f"{layer_type}, " if layer_type else ""
        if each.scaling is not None:
            original = getattr(each.scaling, "original_max_position", each.seq_len)
            ropes[f"{layers}without scaling"] = replace(each, scaling=None, seq_len=original)
        ropes[f"{layers}{type_of(each.scaling)}"] = each
    return ropes


def _check_left_out(arguments: argparse.Namespace, other: str, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) is not None:
            raise ValueError(f"`{name}` must be left out with {other}")


def _array_or(what: str, read: Any, text: str, names: Iterable[str] = ()) -> Any:
    """Return the array of a file, or what else the text is."""
    if text.lower().endswith(".npy"):
        return _load(text)
    try:
        return read(text)
    except (KeyError, ValueError):
        message = f"must be {what} or a file .npy, got {text!r}{suggestion(text, names)}"
        raise argparse.ArgumentTypeError(message) from None


def _load(name: str) -> Any:
    """Return the array of a file of NumPy."""
    try:
        return np.load(name, allow_pickle=False)
    except (EOFError, ValueError):
        raise CommandError(f"{name} must be a file .npy of NumPy, without objects") from None


# What adds the arguments of a kind, and what reads the first argument of its function.
_ENCODING = (_add_encoding, _read_encoding)
_MASK = (mask.add_arguments, lambda given: mask.read_mask(given.mask)[0])
_ATTENTION = (_add_attention, lambda given: given.weights)
_ROPES = (_add_rope, _read_ropes)
_KINDS: dict[str, tuple[Any, ...]] = {
    "encoding": ("an encoding: features by positions", "plot_encoding", *_ENCODING),
    "similarity": ("how alike positions are in an encoding", "plot_similarity", *_ENCODING),
    "mask": ("a mask, as for the command mask", "plot_mask", *_MASK),
    "bias": ("a bias of attention scores: queries by keys", "plot_bias", _add_bias, _read_bias),
    "attention": ("the weights of an attention: queries by keys", "plot_attention", *_ATTENTION),
    "decay": ("rotary scores by distance", "plot_rope_decay", *_ROPES),
    "wavelengths": ("wavelengths of a rotary embedding", "plot_wavelengths", *_ROPES),
}
