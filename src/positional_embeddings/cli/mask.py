"""Draw an attention mask: # where a query sees a key, . where it does not.

MASK is full, causal, or an expression of masks of the library, combined by | (hidden by either),
& (hidden by both) and ~ (the opposite). What a query sees:

  CausalMask()                      its own position and earlier ones
  SlidingWindowMask(left, right)    `left` keys before its position, `right` after; None for all
  PrefixMask(lengths)               the keys of a prefix, its own position and earlier ones
  ChunkedMask(size)                 its own chunk
  DilatedMask(step)                 every step-th key, counted from its own
  GlobalMask(indices)               global tokens; they see all
  NeighbourhoodMask(shape, window)  tokens of a grid, at most `window` steps away
  PaddingMask(lengths)              the first keys; with side="left" the last ones
  SegmentMask(ids)                  its own document

Lengths are a number for each sequence of a batch, such as [3, 5]. Ids of documents that are packed
one after another come from their lengths: segment_ids_from_lengths([4, 6], 12).

For example:
  positional-embeddings mask causal 4 12           4 new queries, 8 cached keys
  positional-embeddings mask "CausalMask() | SlidingWindowMask(3, 0)" 12
  positional-embeddings mask "SlidingWindowMask(2, 2) & GlobalMask([0])" 10
  positional-embeddings mask "CausalMask() | PaddingMask([3, 5])" 8 --batch 1
"""

import argparse
import ast
from typing import Any

from positional_embeddings.arrays.namespace import HostArray, np
from positional_embeddings.cli.terminal import Answer, CommandError, add_command
from positional_embeddings.masks import by_position, by_sequence, packing
from positional_embeddings.masks.describe import describe_mask
from positional_embeddings.masks.mask import Mask

_WORDS = {"full": "SlidingWindowMask(None, None)", "causal": "CausalMask()"}
_CALLABLE = {
    function.__name__: function
    for function in (
        by_position.CausalMask,
        by_position.SlidingWindowMask,
        by_sequence.PrefixMask,
        by_position.ChunkedMask,
        by_position.DilatedMask,
        by_position.GlobalMask,
        by_position.NeighbourhoodMask,
        by_sequence.PaddingMask,
        by_sequence.SegmentMask,
        packing.segment_ids_from_lengths,
    )
}

# Elements of a mask that are counted, and listed in JSON.
_MOST_COUNTED = 2**26
_MOST_IN_JSON = 2**22
_MOST_LISTED = 10


def add_to(commands: Any) -> None:
    """Add the command to the commands of a parser."""
    parser = add_command(commands, "mask", run, "draw an attention mask in characters", __doc__)
    add_arguments(parser)
    parser.add_argument(
        "--most",
        type=int,
        default=32,
        metavar="N",
        help="draw at most N queries and N keys, 4 or more (default 32)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a mask."""
    parser.add_argument("mask", metavar="MASK", help="full, causal, or an expression")
    parser.add_argument("q_len", metavar="Q_LEN", type=int, help="number of queries")
    parser.add_argument(
        "k_len", metavar="K_LEN", type=int, nargs="?", help="number of keys (default: Q_LEN)"
    )
    parser.add_argument(
        "--offset",
        type=int,
        metavar="N",
        help="position of the first query (default: K_LEN - Q_LEN)",
    )
    parser.add_argument(
        "--batch", type=int, default=0, metavar="I", help="which sequence, from 0 (default 0)"
    )


def run(arguments: argparse.Namespace) -> Answer:
    """Draw the mask, and count what queries see."""
    mask, python = read_mask(arguments.mask)
    q_len, k_len, offset = arguments.q_len, arguments.k_len, arguments.offset
    k_len = q_len if k_len is None else k_len
    offset = k_len - q_len if offset is None else offset
    picture = describe_mask(
        mask, q_len, k_len, offset=offset, batch=arguments.batch, most=arguments.most
    )
    pairs = q_len * k_len
    size = pairs * (mask._batch() or 1)
    if arguments.json and size > _MOST_IN_JSON:
        raise CommandError(f"--json is for masks of at most 2**22 elements, got {size:,}")
    text = f"{picture}\n\nin Python: {python}\nvisible:   "
    if size > _MOST_COUNTED:
        return Answer(f"{text}not counted, of {pairs:,} pairs", {})
    seen = ~mask.dense(q_len, k_len, offset=offset)
    seen = seen[:, :, arguments.batch if seen.shape[2] > 1 else 0]
    visible = int(seen.sum())
    blind = np.flatnonzero(~seen.any(axis=1)).tolist()
    text += f"{visible:,} of {pairs:,} pairs, {visible / pairs:.1%}; {_blind_text(blind)}"
    data = {
        "python": python,
        "q_len": q_len,
        "k_len": k_len,
        "offset": offset,
        "batch": arguments.batch,
        "pairs": pairs,
        "visible": visible,
        "share_visible": visible / pairs,
        "fully_masked_queries": blind,
        "visible_keys": [_ranges(row) for row in seen] if arguments.json else [],
        "picture": picture.splitlines(),
    }
    return Answer(text, data)


def read_mask(text: str) -> tuple[Mask, str]:
    """Return the mask that a word or an expression describes, and its Python."""
    try:
        expression = ast.parse(_WORDS.get(text, text).strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise _not_a_mask(f"{text!r}, which is no Python: {reason}") from None
    mask = _evaluate(expression)
    if not isinstance(mask, Mask):
        raise _not_a_mask(text)
    return mask, ast.unparse(expression)


def _evaluate(node: ast.expr) -> Any:
    """Return the value of an expression, without running it as Python."""
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return _evaluate(left) | _evaluate(right)
        case ast.BinOp(left, ast.BitAnd(), right):
            return _evaluate(left) & _evaluate(right)
        case ast.UnaryOp(ast.Invert(), operand):
            return ~_evaluate(operand)
        case ast.Call(ast.Name(name)) if name in _CALLABLE:
            options = {str(keyword.arg): _evaluate(keyword.value) for keyword in node.keywords}
            return _CALLABLE[name](*map(_evaluate, node.args), **options)
    try:
        return ast.literal_eval(node)
    except (TypeError, ValueError):
        raise _not_a_mask(ast.unparse(node)) from None


def _not_a_mask(got: str) -> CommandError:
    return CommandError(
        f"MASK must be {', '.join(_WORDS)}, or an expression of |, &, ~, literals and calls of "
        f"{', '.join(_CALLABLE)}, such as 'CausalMask() | SlidingWindowMask(3, 0)', got {got}"
    )


def _ranges(seen: HostArray) -> list[list[int]]:
    """Return the ranges (start, stop) in which a row is True."""
    steps = np.diff(seen, prepend=False, append=False)
    ranges: list[list[int]] = np.flatnonzero(steps).reshape(-1, 2).tolist()
    return ranges


def _blind_text(blind: list[int]) -> str:
    if not blind:
        return "every query sees a key"
    listed = ", ".join(map(str, blind[:_MOST_LISTED]))
    more = f", ... ({len(blind):,} queries)" if len(blind) > _MOST_LISTED else ""
    return f"these queries see no key: {listed}{more}"
