"""`mask`: which keys each query sees, drawn in characters."""

import argparse
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any, NamedTuple

from positional_embeddings._core.namespace import HostArray, host
from positional_embeddings._core.positions import position_interval
from positional_embeddings.cli.terminal import (
    Answer,
    CommandError,
    add_json,
    integer,
    integers,
    named,
)
from positional_embeddings.masks.describe import describe_mask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.packing import segment_ids_from_lengths
from positional_embeddings.masks.sequences import PaddingMask, PrefixMask, SegmentMask
from positional_embeddings.masks.structured import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    GlobalMask,
    NeighbourhoodMask,
    SlidingWindowMask,
)

# Each kind, what it is, and the options one of which it needs.
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "full": ("every query sees every key", ()),
    "causal": ("a query sees its own position and earlier ones", ()),
    "window": ("a query sees keys near its position", ("window", "left", "right")),
    "prefix": ("causal, but all see the first keys", ("prefix",)),
    "chunked": ("a query sees its own chunk", ("chunk",)),
    "dilated": ("a query sees every N-th key, counted from its own", ("step",)),
    "global": ("only some tokens see, and are seen by, all", ("global",)),
    "grid": ("a token of a grid sees those around it", ("grid",)),
    "padding": ("no query sees the padding of a sequence", ("lengths",)),
    "segment": ("a query sees its own document of a packed row", ("segments",)),
}

_DESCRIPTION = """\
Draw an attention mask: # where a query sees a key, . where it does not.

kinds:
{kinds}

Every option hides further keys, so that kinds combine: `mask causal 12 --window 4` is causal and
has a window. Two do not: --global opens the rows and columns of its tokens again, and --prefix is
for the kind prefix alone. Padding and documents hide from global tokens, too.
"""
_EPILOG = """\
examples:
  positional-embeddings mask causal 12 --window 4
  positional-embeddings mask causal 4 12           4 new queries, 8 cached keys
  positional-embeddings mask window 10 --left 2 --right 2 --global 0
  positional-embeddings mask causal 8 --lengths 3,5 --batch 1
  positional-embeddings mask causal 12 --segments 4,8
"""

# Options by what they are in the library's messages.
_NAMES = {
    "`q_len`": "Q_LEN",
    "`k_len`": "K_LEN",
    "`offset`": "--offset",
    "`left`": "--left",
    "`right`": "--right",
    "`size`": "--chunk",
    "`step`": "--step",
    "`shape`": "--grid",
    "`window`": "--around",
    "`indices`": "--global",
}

# Pairs of a query and a key that are counted, listed in JSON, and evaluated at a time.
_MOST_COUNTED = 2**28
_MOST_IN_JSON = 2**22
_PAIRS_AT_A_TIME = 2**22
_MOST_LISTED = 10


# Positions of the queries, from and to, and the number of keys.
_Sizes = tuple[tuple[int, int], int]


class DrawnMask(NamedTuple):
    """A mask with the sizes that it is evaluated for."""

    mask: Mask
    q_len: int
    k_len: int
    offset: int
    batch: int
    python: str  # what makes the mask


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "mask",
        help="draw an attention mask in characters",
        usage="positional-embeddings mask KIND Q_LEN [K_LEN] [options]",
        description=_DESCRIPTION.format(kinds=kinds_text()),
        epilog=_EPILOG,
    )
    add_arguments(parser)
    parser.add_argument(
        "--most",
        type=integer,
        default=32,
        metavar="N",
        help="draw at most so many queries and keys, 4 or more (default 32)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def kinds_text() -> str:
    """Return the kinds of masks, a line for each."""
    return "\n".join(f"  {kind:8}  {what}" for kind, (what, _) in _KINDS.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a mask."""
    parser.add_argument("kind", metavar="KIND", choices=_KINDS, help="one of the kinds above")
    parser.add_argument("q_len", metavar="Q_LEN", type=integer, help="number of queries")
    parser.add_argument(
        "k_len",
        metavar="K_LEN",
        type=integer,
        nargs="?",
        help="number of keys (default: as many as queries)",
    )
    for option, kind, metavar, text in (
        ("--offset", integer, "N", "position of the first query (default: K_LEN - Q_LEN)"),
        ("--window", integer, "N", "see N keys: the query's own and the N - 1 before it"),
        ("--left", integer, "N", "see the own key and at most N before it (default: all)"),
        ("--right", integer, "N", "see the own key and at most N after it (default: all)"),
        ("--chunk", integer, "N", "see the own chunk of N positions"),
        ("--step", integer, "N", "see every N-th key, counted from the own one"),
        ("--prefix", integers, "N,...", "keys that all see; one number for each sequence, or one"),
        ("--grid", integers, "N,N", "rows and columns of a grid of tokens; any number of axes"),
        ("--around", integer, "N", "with --grid: steps that a token sees around it (default 1)"),
        ("--global", integers, "I,...", "positions that see all keys and are seen by all queries"),
        ("--lengths", integers, "N,...", "lengths of padded sequences, one for each of a batch"),
        ("--segments", integers, "N,...", "lengths of documents packed one after another"),
        ("--batch", integer, "I", "which sequence of a batch to look at, from 0 (default 0)"),
    ):
        parser.add_argument(option, type=kind, metavar=metavar, help=text)
    parser.add_argument(
        "--side", choices=("right", "left"), help="with --lengths: side of the padding"
    )
    parser.add_argument(
        "--hide-own", action="store_true", help="with the kind causal: hide the own key, too"
    )


def run(arguments: argparse.Namespace) -> Answer:
    """Draw the mask that the arguments describe."""
    drawn = drawn_mask(arguments)
    pairs = drawn.q_len * drawn.k_len
    if arguments.json and pairs > _MOST_IN_JSON:
        raise CommandError(f"--json lists at most 2**22 pairs of query and key, got {pairs:,}")
    picture = describe_mask(
        drawn.mask,
        drawn.q_len,
        drawn.k_len,
        offset=drawn.offset,
        batch=drawn.batch,
        most=arguments.most,
    )
    text = f"{picture}\n\nin Python: {drawn.python}\nvisible:   "
    if pairs > _MOST_COUNTED:
        return Answer(f"{text}not counted, of {pairs:,} pairs", {})
    counts = [int(row.sum()) for row in _visible_rows(drawn)]
    blind = [query for query, count in enumerate(counts) if not count]
    share = f"{sum(counts):,} of {pairs:,} pairs, {sum(counts) / pairs:.1%}"
    text += f"{share}; {_blind_text(blind)}"
    return Answer(text, _data(drawn, counts, blind, picture) if arguments.json else {})


def _data(drawn: DrawnMask, counts: list[int], blind: list[int], picture: str) -> dict[str, Any]:
    pairs = drawn.q_len * drawn.k_len
    return {
        "python": drawn.python,
        "q_len": drawn.q_len,
        "k_len": drawn.k_len,
        "offset": drawn.offset,
        "batch": drawn.batch,
        "pairs": pairs,
        "visible": sum(counts),
        "share_visible": sum(counts) / pairs,
        "fully_masked_queries": blind,
        "visible_keys": [_ranges(row) for row in _visible_rows(drawn)],
        "picture": picture.splitlines(),
    }


def drawn_mask(arguments: argparse.Namespace) -> DrawnMask:
    """Return the mask that the arguments describe, with its sizes."""
    with named(_NAMES):
        queries, k_len = position_interval(
            arguments.q_len, arguments.k_len, arguments.offset, host, "cpu"
        )
    mask, python = _mask(arguments, (queries, k_len))
    batch = 0 if arguments.batch is None else arguments.batch
    last = (mask._batch() or 1) - 1
    if not 0 <= batch <= last:
        raise CommandError(f"--batch must be 0 to {last}, one of the sequences, got {batch}")
    return DrawnMask(mask, queries[1] - queries[0], k_len, queries[0], batch, python)


def _mask(arguments: argparse.Namespace, sizes: _Sizes) -> tuple[Mask, str]:
    """Return the mask, and what makes it in Python."""
    _check_options(arguments)
    hiding = list(_hiding_by_position(arguments, sizes))
    if vars(arguments)["global"] is not None:
        hiding = [_with_global(arguments, hiding, sizes)]
    if arguments.lengths is not None:
        side = arguments.side or "right"
        hiding.append(_made(sizes, PaddingMask, arguments.lengths, side))
    lines = list(map(repr, hiding))
    if arguments.segments is not None:
        hiding.append(_made(sizes, _segments, arguments.segments, sizes[1], lengths="--segments"))
        lines.append(f"SegmentMask(segment_ids_from_lengths({arguments.segments}, {sizes[1]}))")
    if not hiding:
        hiding = [SlidingWindowMask(None, None)]
        lines = [repr(hiding[0])]
    return reduce(or_, hiding), " | ".join(lines)


def _made(
    sizes: _Sizes, make: Callable[..., Mask], *values: Any, lengths: str = "--lengths"
) -> Mask:
    """Return a mask that fits the sizes; errors name options."""
    with named(_NAMES | {"`lengths`": lengths}):
        mask = make(*values)
        mask._check(*sizes)
    return mask


def _hiding_by_position(arguments: argparse.Namespace, sizes: _Sizes) -> Iterator[Mask]:
    if arguments.kind == "causal":
        yield CausalMask(mask_diagonal=arguments.hide_own)
    if arguments.prefix is not None:
        yield _made(sizes, PrefixMask, arguments.prefix, lengths="--prefix")
    if arguments.window is not None:
        yield SlidingWindowMask(_window(arguments.window) - 1, 0)
    if not (arguments.left is None and arguments.right is None):
        yield _made(sizes, SlidingWindowMask, arguments.left, arguments.right)
    if arguments.chunk is not None:
        yield _made(sizes, ChunkedMask, arguments.chunk)
    if arguments.step is not None:
        yield _made(sizes, DilatedMask, arguments.step)
    if arguments.grid is not None:
        around = 1 if arguments.around is None else arguments.around
        yield _made(sizes, NeighbourhoodMask, tuple(arguments.grid), around)


def _with_global(arguments: argparse.Namespace, hiding: list[Mask], sizes: _Sizes) -> Mask:
    """Return what is hidden by position, but for tokens that see all and are seen by all."""
    tokens = vars(arguments)["global"]
    positions = max(sizes[0][1], sizes[1])
    opened = _made(sizes, GlobalMask, tokens)
    if max(tokens) >= positions:
        message = f"--global must be positions below {positions}, of queries or keys"
        raise CommandError(f"{message}, got {max(tokens)}")
    if arguments.kind == "global" and not hiding:
        return opened
    if not hiding:
        message = (
            f"--global opens what is hidden by position: the kind {arguments.kind} hides nothing"
        )
        raise CommandError(f"{message} so; --window would, or the kind global")
    mask: Mask = reduce(or_, hiding) & opened
    return mask


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that are missing for a kind, or that would have no effect."""
    given = {
        name
        for name, value in vars(arguments).items()
        if value is not None and value is not False  # 0 is given
    }
    needed = _KINDS[arguments.kind][1]
    if needed and not given & set(needed):
        options = " or ".join(f"--{name}" for name in needed)
        raise CommandError(f"the kind {arguments.kind} needs {options}")
    for option, needs, what in (
        ("prefix", arguments.kind == "prefix", "the kind prefix"),
        ("hide_own", arguments.kind == "causal", "the kind causal"),
        ("side", "lengths" in given, "--lengths"),
        ("around", "grid" in given, "--grid"),
    ):
        if option in given and not needs:
            raise CommandError(f"--{option.replace('_', '-')} goes with {what} only")
    if "window" in given and given & {"left", "right"}:
        raise CommandError("--window goes without --left and --right")


def _window(size: int) -> int:
    if size < 1:
        raise CommandError(f"--window must be 1 or more, got {size}")
    return size


def _segments(lengths: list[int], k_len: int) -> Mask:
    if sum(lengths) > k_len:
        message = f"--segments must be at most {k_len} together, the keys, got {sum(lengths)}"
        raise CommandError(message)
    return SegmentMask(segment_ids_from_lengths(lengths, k_len))


def _visible_rows(drawn: DrawnMask) -> Iterator[HostArray]:
    """Yield which keys each query sees, computed block by block."""
    mask, q_len, k_len, offset, batch, _ = drawn
    step = max(1, _PAIRS_AT_A_TIME // k_len)
    for start in range(0, q_len, step):
        count = min(step, q_len - start)
        hidden = mask.dense(count, k_len, offset=offset + start)
        yield from ~hidden[:, :, batch]


def _ranges(seen: HostArray) -> list[list[int]]:
    """Return the ranges (start, stop) in which a row is True."""
    steps = host.diff(seen, prepend=False, append=False)
    ranges: list[list[int]] = host.flatnonzero(steps).reshape(-1, 2).tolist()
    return ranges


def _blind_text(blind: list[int]) -> str:
    if not blind:
        return "every query sees a key"
    listed = ", ".join(map(str, islice(blind, _MOST_LISTED)))
    more = f", ... ({len(blind):,} queries)" if len(blind) > _MOST_LISTED else ""
    return f"these queries see no key: {listed}{more}"
