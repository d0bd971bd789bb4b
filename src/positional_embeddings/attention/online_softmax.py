"""Attention with axes (..., sequence, feature): with all scores at once, or block after block.

A mask and a bias are asked for by the queries and the keys of a block, so that neither
has to exist whole.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import isqrt, log, prod
from typing import Any, NamedTuple

from array_api_compat import is_torch_array

from positional_embeddings._core.capabilities import (
    exp_in_place,
    is_concretely_true,
    is_readable,
    on_the_host,
    strides_of,
    supports_inplace,
)
from positional_embeddings._core.memory import (
    block_lengths,
    cuts,
    row_product,
)
from positional_embeddings._core.namespace import Namespace, device_of, dtype_name, without_warnings
from positional_embeddings._core.threads import workers_for

# Scores of a block: few enough for a core's cache, or enough for a launch to be worth it.
HOST_BLOCK = 2**18
ACCELERATOR_BLOCK = 2**24

# How far a score may lie above the number that is subtracted from those of its row, ...
_ROOM = 25.0

# ... unless there are values beyond this: weighted by up to exp(_ROOM) they might overflow.
_LARGE = 2.0**64

# Scores are few where the keys are so many times as many numbers.
_FEW = 8
ALL = slice(None)

# The mask or the bias between some queries and some keys, with axes (..., query, key).
PerBlock = Callable[[slice, slice], Any]


class AttentionInputs(NamedTuple):
    """What is asked for."""

    query: Any  # (..., query, feature)
    key: Any  # (..., key, feature)
    value: Any  # (..., key, feature)
    mask: PerBlock | None
    bias: PerBlock | None
    scale: float
    softcap: float | None
    dtype: Any  # to compute in


class Sanitized(NamedTuple):
    """Keys and values to compute with, finite where something may hide them."""

    key: Any
    broken: Any  # True for a key that is not finite, (..., 1, key); None where all are finite
    values: tuple[Any, ...]  # beside broken ones where they are inf or NaN, and -inf or NaN


class KeyValueBlocks(NamedTuple):
    """What blocks of keys and values are cut from."""

    key: Any
    broken: Any
    columns: Any  # those of all values, and one of ones, whose sum is that of the weights
    longest: Any  # squared length of the longest key, None where no score need be small
    room: float  # how far a score may lie above the reference of its row


def attend(problem: AttentionInputs, xp: Namespace) -> tuple[Any, Any]:
    """Return output and weights, with all scores at once."""
    query, key, value = (
        xp.astype(array, problem.dtype, copy=False)
        for array in (problem.query, problem.key, problem.value)
    )
    mask, bias = (ask and ask(ALL, ALL) for ask in (problem.mask, problem.bias))
    hidden, added = _mask_and_bias(mask, bias, problem.dtype, xp)

    def attended(guarded: Sanitized, *, if_finite: bool) -> tuple[Any, Any] | None:
        scores = _product(query * problem.scale, xp.matrix_transpose(guarded.key), xp)
        if if_finite and not is_concretely_true(xp.all(xp.isfinite(scores))):
            return None
        scores = _scores(scores, guarded.broken, hidden, added, problem.softcap, xp)
        weights = _softmax(scores, xp)
        output = _output([_product(weights, values, xp) for values in guarded.values], xp)
        if if_finite and not is_concretely_true(xp.all(xp.isfinite(output))):
            return None
        return output, weights

    found = None
    plain = Sanitized(key, None, (value,))
    if not _may_hide(problem):
        found = attended(plain, if_finite=False)
    elif is_readable(query):
        # Finite results have met no key and no value that is not finite: they are much smaller
        # than the keys and the values of a decoding step, which need not be looked through.
        with without_warnings():
            found = attended(plain, if_finite=True)
    return found or attended(_sanitize(key, value, xp), if_finite=False)  # type: ignore[return-value]


def _may_hide(problem: AttentionInputs) -> bool:
    return problem.mask is not None or problem.bias is not None


def fit_at_once(problem: AttentionInputs, scores: int) -> bool:
    """Tell whether so many scores are better computed at once.

    Those of a decoding step are many, but few beside the keys, which blocks would copy.
    """
    lazy = not supports_inplace(problem.query, problem.key, problem.value)
    return lazy or scores <= max(_most(problem.query), prod(problem.key.shape) // _FEW)


def _most(x: Any) -> int:
    return HOST_BLOCK if on_the_host(x) else ACCELERATOR_BLOCK


def attend_in_blocks(
    problem: AttentionInputs, rows: Sequence[int], block_size: int | None, xp: Namespace
) -> Any:
    """Return the output, (*rows, query, feature), with the scores of one block at a time."""
    eager = supports_inplace(problem.query, problem.key, problem.value)
    q_len, k_len, most = problem.query.shape[-2], problem.key.shape[-2], _most(problem.query)
    q_block = min(q_len, block_size or isqrt(most))
    k_block = min(k_len, block_size or most // q_block)
    lengths = block_lengths(rows, range(len(rows)), max(1, most // (q_block * k_block)))
    groups = list(product(*(cuts(n, lengths[a] if eager else n) for a, n in enumerate(rows))))

    keys = _key_value_blocks(problem, xp)
    at_queries, at_keys = cuts(q_len, q_block), cuts(k_len, k_block)
    if not eager:
        parts = [_attend_rows(problem, keys, groups, at, at_keys, xp)[0] for at in at_queries]
        return xp.concat(parts, axis=-2)

    shape = (*rows, q_len, problem.value.shape[-1])
    output = xp.empty(shape, dtype=problem.dtype, device=device_of(problem.value))

    def work(piece: tuple[slice, list[tuple[slice, ...]]]) -> None:
        queries, some = piece
        parts = _attend_rows(problem, keys, some, queries, at_keys, xp)
        for group, part in zip(some, parts, strict=True):
            output[(*group, queries, ALL)] = part

    with workers_for(output) as workers:
        # A mask is asked for once for all groups of a piece: there are no more than needed.
        shares = -(-workers.count // max(1, len(at_queries)))
        workers.do(work, [(at, groups[i::shares]) for at in at_queries for i in range(shares)])
    return output


def _key_value_blocks(problem: AttentionInputs, xp: Namespace) -> KeyValueBlocks:
    key, value = (_features_contiguous(x, problem.dtype, xp) for x in (problem.key, problem.value))
    key, broken, values = (
        _sanitize(key, value, xp) if _may_hide(problem) else Sanitized(key, None, (value,))
    )
    ones = xp.ones_like(value[..., :1])
    columns = xp.concat([*values, ones], axis=-1)
    if not is_concretely_true(xp.max(xp.abs(values[0])) <= _LARGE):
        # Powers of at most 1 / (2 * keys), so that no sum is beyond the largest value.
        return KeyValueBlocks(key, broken, columns, None, -log(2 * key.shape[-2]))
    longest = xp.max(xp.vecdot(key, key)) if problem.bias is None else None
    return KeyValueBlocks(key, broken, columns, longest, _ROOM)


def _attend_rows(
    problem: AttentionInputs,
    keys: KeyValueBlocks,
    groups: Sequence[tuple[slice, ...]],
    queries: slice,
    at_keys: Sequence[slice],
    xp: Namespace,
) -> list[Any]:
    """Return the output of a block of queries, of each group of rows.

    Hidden blocks of keys are passed over, but for PyTorch's last one: the zeros of a query
    that sees nothing have a gradient, too.
    """
    sums = []
    for group in groups:
        query = part_of(problem.query, (*group, queries, ALL))
        query = _features_contiguous(query, problem.dtype, xp) * problem.scale
        shape = (*(rows.stop - rows.start for rows in group), query.shape[-2])
        sums.append(OnlineSoftmax(query, shape, keys, xp))
    for at in at_keys:
        mask, bias = (ask and ask(queries, at) for ask in (problem.mask, problem.bias))
        # What is the same for all groups is looked through once.
        same = all(set(part.shape[:-2]) <= {1} for part in (mask, bias) if part is not None)
        of_all = _seen(mask, bias, problem.dtype, xp) if same else None
        for group, of_rows in zip(groups, sums, strict=True):
            here = (*group, ALL, ALL)
            any_seen, hidden, added = of_all or _seen(
                part_of(mask, here), part_of(bias, here), problem.dtype, xp
            )
            if not any_seen and not (is_torch_array(problem.query) and at is at_keys[-1]):
                continue
            key = part_of(keys.key, (*group, at, ALL))
            broken = part_of(keys.broken, (*group, ALL, at))
            columns = part_of(keys.columns, (*group, at, ALL))
            scores = _product(of_rows.query, xp.matrix_transpose(key), xp)
            scores = _scores(scores, broken, hidden, added, problem.softcap, xp)
            of_rows.add(scores, columns, xp)
    features = problem.value.shape[-1]
    return [_output(of_rows.means(features, xp), xp) for of_rows in sums]


class OnlineSoftmax:
    """What the keys so far add up to: for each query, exp(score - reference) times the columns.

    The reference of a query is minus infinity before it has seen a key. From then on it
    is so near its highest score that no power overflows, and that score's does not vanish.
    """

    def __init__(
        self, query: Any, shape: tuple[int, ...], keys: KeyValueBlocks, xp: Namespace
    ) -> None:
        kind = {"dtype": query.dtype, "device": device_of(query)}
        self.query = query
        self._sums = xp.zeros((*shape, keys.columns.shape[-1]), **kind)
        self._reference = xp.full((*shape, 1), -float("inf"), **kind)
        self._room = keys.room
        self._settled = False
        # Scores that are all small need no reference but 0.
        self._small = keys.longest is not None and is_concretely_true(
            xp.max(xp.vecdot(query, query)) * keys.longest <= _ROOM**2
        )

    def add(self, scores: Any, columns: Any, xp: Namespace) -> None:
        """Add the keys of a block; `scores` may be overwritten."""
        powers = exp_in_place(scores if self._small else self._referred(scores, xp), xp)
        self._sums = self._sums + powers @ columns

    def _referred(self, scores: Any, xp: Namespace) -> Any:
        """Subtract the reference of each query, after raising it where a score is too high."""
        if self._settled:
            # Most of the time the reference of the first block does for all.
            referred = scores - self._reference
            if is_concretely_true(xp.max(referred) <= self._room):
                return referred
        highest = xp.max(scores, axis=-1, keepdims=True) + max(0.0, -self._room)
        reference = xp.maximum(self._reference, highest)
        subtracted = _or_zero(reference, xp)
        self._sums = self._sums * xp.exp(self._reference - subtracted)
        self._reference = reference
        self._settled = is_concretely_true(xp.all(reference > -float("inf")))
        return scores - subtracted

    def means(self, features: int, xp: Namespace) -> list[Any]:
        """Return the weighted means of the values, zeros where every key was hidden."""
        means = self._sums / _or_one(self._sums[..., -1:], xp)
        return [means[..., at] for at in cuts(means.shape[-1] - 1, features)]


def part_of(array: Any, where: tuple[slice, ...]) -> Any:
    """Return a part of an array that broadcasts where its length is 1."""
    if array is None:
        return None
    return array[tuple(ALL if n == 1 else at for n, at in zip(array.shape, where, strict=True))]


def _features_contiguous(array: Any, dtype: Any, xp: Namespace) -> Any:
    """Return an array of a dtype, with its features side by side in memory as BLAS wants them."""
    array = xp.astype(array, dtype, copy=False)
    strides = strides_of(array)
    if strides is None or not supports_inplace(array):
        return array
    rows = xp.empty(array.shape, dtype=dtype, device=device_of(array))
    if strides[-1] == strides_of(rows)[-1]:  # type: ignore[index]
        return array
    rows[...] = array
    return rows


def _sanitize(key: Any, value: Any, xp: Namespace) -> Sanitized:
    """Take numbers that are not finite out of the products, to be put back where they are seen.

    0 * NaN is NaN, and would let a key that is hidden reach the output.
    """
    finite_key, finite_value = xp.isfinite(key), xp.isfinite(value)
    if is_concretely_true(xp.all(finite_key) & xp.all(finite_value)):
        return Sanitized(key, None, (value,))
    zero = _number(0.0, key, xp)
    rising, falling = (
        xp.astype(xp.isnan(value) | (value == infinity), value.dtype)
        for infinity in (float("inf"), -float("inf"))
    )
    return Sanitized(
        xp.where(finite_key, key, zero),
        ~xp.all(finite_key, axis=-1)[..., None, :],
        (xp.where(finite_value, value, zero), rising, falling),
    )


def _seen(mask: Any, bias: Any, dtype: Any, xp: Namespace) -> tuple[bool, Any, Any]:
    """Return whether any key is seen, where one is hidden, and what else is added."""
    hidden, added = _mask_and_bias(mask, bias, dtype, xp)
    return hidden is None or not is_concretely_true(xp.all(hidden)), hidden, added


def _mask_and_bias(mask: Any, bias: Any, dtype: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return where a key is hidden, None where none is, and what else is added to the scores."""
    hidden = mask
    if bias is not None:
        shut = bias == -float("inf")
        hidden = shut if mask is None else mask | shut
        if dtype == xp.float32 and dtype_name(bias.dtype) == "float64":
            # Its large numbers are finite: they neither hide a key nor are all there is.
            largest = xp.finfo(dtype).max
            bias = xp.where(xp.isinf(bias), bias, xp.clip(bias, min=-largest, max=largest))
        bias = xp.astype(bias, dtype, copy=False)
    if hidden is not None and is_concretely_true(~xp.any(hidden)):
        hidden = None
    return hidden, bias


def _product(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table``; a table that several groups of rows share is read once for all."""
    shared = table.ndim > 2 and table.shape[-3] == 1 and rows.shape[-3] != 1
    if not shared:
        return row_product(rows, table, xp)
    *others, groups, count, inner = rows.shape
    merged = xp.reshape(rows, (*others, groups * count, inner))
    whole = row_product(merged, table[..., 0, :, :], xp)
    return xp.reshape(whole, (*whole.shape[:-2], groups, count, table.shape[-1]))


def _capped(scores: Any, softcap: float, xp: Namespace) -> Any:
    """Return ``softcap * tanh(scores / softcap)``."""
    if softcap > float(xp.finfo(scores.dtype).max):
        return scores
    capped = softcap * xp.tanh(scores / softcap)
    if softcap < _LARGE:
        return capped
    # A score over a large cap may be too small a number; the cap changes no such score.
    return xp.where(xp.abs(scores) < softcap * 2.0**-32, scores, capped)


def _scores(
    scores: Any,
    broken: Any,
    hidden: Any,
    added: Any,
    softcap: float | None,
    xp: Namespace,
) -> Any:
    """Return the scores from the scaled products, minus infinity where a key is hidden."""
    if broken is not None:
        scores = xp.where(broken, _number(float("nan"), scores, xp), scores)
    if softcap is not None:
        scores = _capped(scores, softcap, xp)
    if added is not None:
        scores = scores + added
    if hidden is not None:
        scores = xp.where(hidden, _number(-float("inf"), scores, xp), scores)
    return scores


def _softmax(scores: Any, xp: Namespace) -> Any:
    """Softmax over the last axis; a row of minus infinity gives zeros."""
    if 0 in scores.shape:
        return scores
    powers = xp.exp(scores - _or_zero(xp.max(scores, axis=-1, keepdims=True), xp))
    return powers / _or_one(xp.sum(powers, axis=-1, keepdims=True), xp)


def _output(means: Sequence[Any], xp: Namespace) -> Any:
    """Return the means of the values, and those that are not finite where they are seen."""
    output = means[0]
    if len(means) == 1:
        return output
    infinity, nan = (_number(value, output, xp) for value in (float("inf"), float("nan")))
    rising, falling = (seen > 0 for seen in means[1:])
    output = xp.where(rising, infinity, output)
    return xp.where(falling, xp.where(rising, nan, -infinity), output)


def _or_zero(highest: Any, xp: Namespace) -> Any:
    """Return the highest score of each row, 0 where all are hidden."""
    hidden = highest == -float("inf")
    return xp.where(hidden, _number(0.0, highest, xp), highest)


def _or_one(total: Any, xp: Namespace) -> Any:
    """Return what to divide the sums of each row by, 1 where all are 0."""
    return xp.where(total == 0, _number(1.0, total, xp), total)


def _number(value: float, beside: Any, xp: Namespace) -> Any:
    return xp.asarray(value, dtype=beside.dtype, device=device_of(beside))
