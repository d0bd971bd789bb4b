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
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from positional_embeddings.arrays.namespace import np
from positional_embeddings.biases.alibi import ALiBiBias
from positional_embeddings.biases.sandwich import SandwichBias
from positional_embeddings.cli import mask, rope
from positional_embeddings.cli.terminal import Answer, CommandError, Parser, add_command
from positional_embeddings.encodings.sinusoidal import sinusoidal_encoding
from positional_embeddings.rotary.rope import RoPE
from positional_embeddings.rotary.scaling import type_of

_BIASES: dict[str, Any] = {"alibi": ALiBiBias, "sandwich": SandwichBias}

# Positions of a rotary embedding that is described by its features and base.
_CONTEXT = 4096


def add_to(commands: Any) -> None:
    """Add the command to the commands of a parser."""
    summary = "plot encodings, masks, biases and rotary embeddings to a file"
    parser = commands.add_parser("plot", help=summary, description=__doc__)
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    for kind, (what, function, add_arguments, draw) in _KINDS.items():
        of_kind = add_command(kinds, kind, run, what, f"Plot {what}.")
        add_arguments(of_kind)
        of_kind.add_argument("--output", "-o", required=True, metavar="FILE", help="the picture")
        of_kind.set_defaults(function=function, draw=draw)


def run(arguments: argparse.Namespace) -> Answer:
    """Draw, and write the picture."""
    try:
        figure = import_module("matplotlib.figure").Figure(layout="constrained")
    except ImportError:
        message = 'Pictures need Matplotlib: pip install "positional-embeddings[plot]".'
        raise ImportError(message) from None
    function = getattr(import_module("positional_embeddings.plotting"), arguments.function)
    arguments.draw(partial(function, ax=figure.subplots()), arguments)
    path = Path(arguments.output)
    suffix = path.suffix.removeprefix(".").lower()
    figure.savefig(path, format=suffix, dpi=150)
    size = path.stat().st_size
    text = f"wrote {path}: {figure.canvas.get_supported_filetypes()[suffix]}, {size:,} bytes"
    return Answer(text, {"path": str(path), "format": suffix, "bytes": size})


def _add_encoding(parser: Parser) -> None:
    parser.add_argument(
        "dim",
        metavar="FEATURES|FILE.npy",
        type=partial(_array_or, "an integer", int),
        help="features of a sinusoidal encoding, or an array (features, positions)",
    )
    parser.add_argument(
        "positions", metavar="POSITIONS", type=int, nargs="?", help="number of positions"
    )
    parser.add_argument(
        "--base", type=float, metavar="B", help="base of the frequencies (default 10000)"
    )


def _draw_encoding(draw: Any, arguments: argparse.Namespace) -> None:
    encoding, positions, base = arguments.dim, arguments.positions, arguments.base
    if not isinstance(encoding, int):
        _check_left_out(arguments, "FILE.npy", "positions", "base")
    elif positions is None:
        raise CommandError("POSITIONS must be given with FEATURES")
    else:
        base = 10_000 if base is None else base
        encoding = sinusoidal_encoding(np.arange(positions), encoding, base=base)
    draw(encoding)


def _draw_mask(draw: Any, arguments: argparse.Namespace) -> None:
    value, _ = mask.read_mask(arguments.mask)
    lengths = arguments.q_len, arguments.k_len
    draw(value, *lengths, offset=arguments.offset, batch=arguments.batch)


def _add_bias(parser: Parser) -> None:
    parser.add_argument(
        "bias",
        metavar="NAME|FILE.npy",
        type=partial(_array_or, f"one of {', '.join(_BIASES)}", _BIASES.__getitem__),
        help=f"a bias of {', '.join(_BIASES)}, or an array (query, key, head)",
    )
    for name, metavar, what in (
        ("num_heads", "HEADS", "number of heads"),
        ("q_len", "Q_LEN", "number of queries"),
        ("k_len", "K_LEN", "number of keys (default: Q_LEN)"),
    ):
        parser.add_argument(name, metavar=metavar, type=int, nargs="?", help=what)
    parser.add_argument("--head", type=int, default=0, metavar="I", help="which head (default 0)")
    parser.add_argument(
        "--offset",
        type=int,
        metavar="N",
        help="position of the first query (default: K_LEN - Q_LEN)",
    )


def _draw_bias(draw: Any, arguments: argparse.Namespace) -> None:
    bias, lengths = arguments.bias, (arguments.q_len, arguments.k_len)
    if isinstance(bias, type):
        bias = bias(arguments.num_heads)
    else:
        _check_left_out(arguments, "FILE.npy", "num_heads")
    draw(bias, *lengths, offset=arguments.offset, head=arguments.head)


def _add_attention(parser: Parser) -> None:
    parser.add_argument(
        "weights", metavar="FILE.npy", type=_load, help="an array (query, key, ...)"
    )
    parser.add_argument(
        "--key-axis",
        type=int,
        metavar="N",
        help="-1 for an array (..., query, key), or 1; needed for four axes or more",
    )
    parser.add_argument(
        "--index", type=int, default=0, metavar="I", help="which head and sequence (default 0)"
    )


def _draw_attention(draw: Any, arguments: argparse.Namespace) -> None:
    draw(arguments.weights, index=arguments.index, key_axis=arguments.key_axis)


def _add_rope(parser: Parser) -> None:
    of = parser.add_mutually_exclusive_group(required=True)
    of.add_argument("config", nargs="?", metavar="CONFIG", help=rope.CONFIG_HELP)
    of.add_argument(
        "--dim", dest="head_size", type=int, metavar="N", help="rotated features, without CONFIG"
    )
    parser.add_argument(
        "--base",
        type=float,
        action="append",
        metavar="B",
        help="with --dim: base of the frequencies (default 10000); may be repeated",
    )
    rope.add_options(parser)


def _draw_rope(draw: Any, arguments: argparse.Namespace) -> None:
    """Draw rotary embeddings of sizes, or of a configuration with and without scaling."""
    ropes = {}
    if arguments.config is None:
        _check_left_out(arguments, "--dim", "layer_type", "layout")
        context = _CONTEXT if arguments.seq_len is None else arguments.seq_len
        for base in arguments.base or [10_000]:
            ropes[f"base {base:,.15g}"] = RoPE(arguments.head_size, context, base)
    else:
        _check_left_out(arguments, "CONFIG", "base")
        for layer_type, each in rope.ropes_of(rope.load_config(arguments), arguments).items():
            layers = f"{layer_type}, " if layer_type else ""
            if each.scaling is not None:
                original = getattr(each.scaling, "original_max_position", each.seq_len)
                ropes[f"{layers}without scaling"] = replace(each, scaling=None, seq_len=original)
            ropes[f"{layers}{type_of(each.scaling)}"] = each
    draw(ropes)


_ENCODING = (_add_encoding, _draw_encoding)
_ROPE = (_add_rope, _draw_rope)
# What each kind is, and the function of `plotting` that draws it.
_KINDS: dict[str, tuple[Any, ...]] = {
    "encoding": ("an encoding: features by positions", "plot_encoding", *_ENCODING),
    "similarity": ("how alike positions are in an encoding", "plot_similarity", *_ENCODING),
    "mask": ("a mask, as for the command mask", "plot_mask", mask.add_arguments, _draw_mask),
    "bias": ("a bias of attention scores: queries by keys", "plot_bias", _add_bias, _draw_bias),
    "attention": (
        "the weights of an attention: queries by keys",
        "plot_attention",
        _add_attention,
        _draw_attention,
    ),
    "decay": ("rotary scores by distance", "plot_rope_decay", *_ROPE),
    "wavelengths": ("wavelengths of a rotary embedding", "plot_wavelengths", *_ROPE),
}


def _check_left_out(arguments: argparse.Namespace, other: str, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) is not None:
            raise ValueError(f"`{name}` must be left out with {other}")


def _array_or(what: str, read: Any, text: str) -> Any:
    """Return the array of a file, or what else the text is."""
    if text.lower().endswith(".npy"):
        return _load(text)
    try:
        return read(text)
    except (KeyError, ValueError):
        message = f"must be {what} or a file .npy, got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _load(name: str) -> Any:
    """Return the array of a file of NumPy."""
    try:
        array = np.load(name, allow_pickle=False)
    except (EOFError, ValueError):
        raise CommandError(f"{name} must be a file .npy of NumPy, without objects") from None
    if not isinstance(array, np.ndarray):
        raise CommandError(f"{name} must hold one array, got {', '.join(array)}")
    return array
