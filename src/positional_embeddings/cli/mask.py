"""Draw an attention mask: # where a query sees a key, . where it does not.

MASK is full, causal, or an expression of masks of the library, combined by | (hidden by either),
& (hidden by both) and ~ (the opposite):

{masks}

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
import re
from functools import partial
from inspect import signature
from typing import Any

import positional_embeddings as pe
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.cli.terminal import Answer, CommandError, Parser, suggestion

_WORDS = {"full": "SlidingWindowMask(None, None)", "causal": "CausalMask()"}
_MASKS = {name: getattr(pe, name) for name in pe.__all__ if name.endswith("Mask")}
del _MASKS["Mask"], _MASKS["FunctionMask"]  # which no literals make
_CALLABLE = _MASKS | {"segment_ids_from_lengths": pe.segment_ids_from_lengths}

# Elements of a mask that are counted: each takes a byte.
_MOST_COUNTED = 2**26
_MOST_LISTED = 10

# Operations within one another: Python ends in an error of its own where there are many more.
_DEEPEST = 200
_TOO_DEEP = f"MASK must have at most {_DEEPEST} operations within one another, got more"


SUMMARY = "draw an attention mask in characters"


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command to its parser, and what masks there are to its text."""
    masks = "\n".join(map(_described, _MASKS.values()))
    parser.description = (__doc__ or "").replace("{masks}", masks)
    add = parser.add_argument
    add("mask", metavar="MASK", help="full, causal, or an expression")
    add("q_len", metavar="Q_LEN", type=int, help="number of queries")
    add("k_len", metavar="K_LEN", type=int, nargs="?", help="number of keys (default: Q_LEN)")
    what = "position of the first query (default: K_LEN - Q_LEN)"
    add("--offset", type=int, metavar="N", help=what)
    add("--batch", type=int, default=0, metavar="I", help="which sequence, from 0 (default 0)")
    what = "draw at most N queries and N keys, 4 or more (default 32)"
    add("--most", type=int, default=32, metavar="N", help=what)


def _described(kind: type[pe.Mask]) -> str:
    """Return a line with the call of a mask, and one with what it says of itself."""
    summary = (kind.__doc__ or "").partition("\n")[0]
    return f"  {kind.__name__}({', '.join(signature(kind).parameters)})\n      {summary}"


def run(arguments: argparse.Namespace) -> Answer:
    """Draw the mask, and count what queries see."""
    mask, python = read_mask(arguments.mask)
    q_len, k_len, offset = arguments.q_len, arguments.k_len, arguments.offset
    k_len = q_len if k_len is None else k_len
    offset = k_len - q_len if offset is None else offset
    options = {"offset": offset, "batch": arguments.batch}
    picture = pe.describe_mask(mask, q_len, k_len, **options, most=arguments.most)
    pairs = q_len * k_len
    summary = f"not counted, of {pairs:,} pairs"
    data = {"python": python, "q_len": q_len, "k_len": k_len, **options, "pairs": pairs}
    if pairs * (mask._batch() or 1) <= _MOST_COUNTED:
        seen = ~mask.dense(q_len, k_len, offset=offset)
        seen = seen[:, :, arguments.batch if seen.shape[2] > 1 else 0]
        visible = int(seen.sum())
        blind = np.flatnonzero(~seen.any(axis=1)).tolist()
        summary = f"{visible:,} of {pairs:,} pairs, {visible / pairs:.1%}; {_blind_text(blind)}"
        data |= {
            "visible": visible,
            "share_visible": visible / pairs,
            "fully_masked_queries": blind,
            "visible_keys": [_ranges(row) for row in seen] if arguments.json else [],
        }
    data["picture"] = picture.splitlines()
    return Answer(f"{picture}\n\nin Python: {python}\nvisible:   {summary}", data)


def read_mask(text: str) -> tuple[pe.Mask, str]:
    """Return the mask that a word or an expression describes, and its Python."""
    try:
        expression = ast.parse(_WORDS.get(text, text).strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise _not_a_mask(f"{text!r}, which is no Python: {reason}") from None
    except (MemoryError, RecursionError):
        raise CommandError(_TOO_DEEP) from None
    mask = _evaluate(expression, 0)
    if not isinstance(mask, pe.Mask):
        raise _not_a_mask(text)
    return mask, ast.unparse(expression)


def _evaluate(node: ast.expr, depth: int) -> Any:
    """Return the value of an expression, without running it as Python."""
    if depth > _DEEPEST:
        raise CommandError(_TOO_DEEP)
    value_of = partial(_evaluate, depth=depth + 1)
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return value_of(left) | value_of(right)
        case ast.BinOp(left, ast.BitAnd(), right):
            return value_of(left) & value_of(right)
        case ast.UnaryOp(ast.Invert(), operand):
            return ~value_of(operand)
        case ast.Call(ast.Name(name)) if name in _CALLABLE:
            options = {str(keyword.arg): value_of(keyword.value) for keyword in node.keywords}
            return _CALLABLE[name](*map(value_of, node.args), **options)
    try:
        return ast.literal_eval(node)
    except (TypeError, ValueError):
        is_name = isinstance(node, ast.Name) or isinstance(getattr(node, "func", None), ast.Name)
        name = re.sub(r"\(.*", "()", ast.unparse(node), flags=re.DOTALL) if is_name else ""
        hint = suggestion(name, [*_WORDS, *(f"{known}()" for known in _CALLABLE)])
        raise _not_a_mask(f"{ast.unparse(node)}{hint}") from None


def _not_a_mask(got: str) -> CommandError:
    return CommandError(
        f"MASK must be {', '.join(_WORDS)}, or an expression of |, &, ~, literals and calls of "
        f"masks (--help lists them), such as 'CausalMask() | SlidingWindowMask(3, 0)', got {got}"
    )


def _ranges(seen: HostArray) -> Array:
    """Return the ranges (start, stop) in which a row is True."""
    return np.flatnonzero(np.diff(seen, prepend=False, append=False)).reshape(-1, 2).tolist()


def _blind_text(blind: list[int]) -> str:
    if not blind:
        return "every query sees a key"
    listed = ", ".join(map(str, blind[:_MOST_LISTED]))
    more = f", ... ({len(blind):,} queries)" if len(blind) > _MOST_LISTED else ""
    return f"these queries see no key: {listed}{more}"
