"""The relative position buckets and the bias of T5."""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from math import exp, log, prod
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field, normal, set_weights
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.caching import cached_constant, constant_array
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, ArrayT, Device, Dtype, Namespace, np
from positional_embeddings.biases import bias

# The limits of more buckets take seconds to compute, from powers of exact integers.
_MAX_BUCKETS = 1024
_MAX_DISTANCE = 2**128  # larger than any integer dtype
# With fewer pairs, a look-up takes less time than a test for consecutive positions.
_MIN_COMPARED_PAIRS = 2**15
_COMPARED_ROWS = 64  # per comparison, which then stays in the processor's cache
_RELATIVE_ROUNDING = 1e-12  # above the error of exp(log(x)), for logarithms to 100

_Buckets: TypeAlias = tuple[int, int, bool]  # num_buckets, max_distance, bidirectional


def relative_position_bucket(
    relative_position: ArrayT,
    /,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> ArrayT:
    r"""Return the bucket of T5 for each relative position.

    Half of the buckets are single distances, and the other half are ranges that grow with the
    distance. The limits are exact integers, without the rounding of a logarithm.

    Parameters
    ----------
    relative_position : array of int
        Key minus query, of any shape.
    bidirectional : bool, default True
        If True, the upper half of the buckets is for keys after the query. If False, these keys
        share bucket 0 with the position of the query.
    num_buckets : int, default 32
        Number of buckets, 2 to 1024; with `bidirectional` even, and 4 or more.
    max_distance : int, default 128
        Distances from this one on share the last bucket. At most 2**128, and above half of the
        number of buckets of a direction.

    Returns
    -------
    array of int
        Same shape as `relative_position`, values from 0 to `num_buckets` - 1.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If `num_buckets` or `max_distance` is too small or too large.

    References
    ----------
    Raffel et al. (2020), T5, section 2.1: with n buckets, of which e are exact, the bucket of a
    distance d of e or more is
    :math:`e + \lfloor (n - e)\,\ln(d/e) / \ln(\mathrm{max\_distance}/e) \rfloor`.

    Examples
    --------
    >>> import numpy as np
    >>> relative_position_bucket(np.asarray([-200, -64, -8, -1, 0, 1, 64]))
    array([15, 14,  8,  1,  0, 17, 30])
    """
    backend = get_backend(relative_position=relative_position)
    checks.signed_integers("relative_position", relative_position, backend.xp)
    options = _check_buckets(num_buckets, max_distance, bidirectional)
    pairs: Array = relative_position
    is_comparable = pairs.ndim == 2 and bias.supports_strided_views(backend)
    if is_comparable and pairs.size >= _MIN_COMPARED_PAIRS:
        relative = np.concat([pairs[:0:-1, 0], pairs[0, :]])
        expected = bias.toeplitz(relative, *pairs.shape)
        rows = block_slices(pairs.shape[0], _COMPARED_ROWS)
        # The comparison with a copy, which is contiguous, takes less time.
        if all(np.array_equal(pairs[part, :], expected[part].copy()) for part in rows):
            buckets = _look_up(None, relative, options, backend)
            return bias.toeplitz(buckets, *pairs.shape).copy()  # type: ignore[no-any-return]
    return _look_up(None, pairs, options, backend)  # type: ignore[no-any-return]


def _check_buckets(num_buckets: int, max_distance: int, bidirectional: bool) -> _Buckets:  # noqa: FBT001
    """Check and return the options of the buckets of T5."""
    bidirectional = checks.boolean("bidirectional", bidirectional)
    num_buckets = checks.positive_integer(
        "num_buckets", num_buckets, even=bidirectional, max_value=_MAX_BUCKETS
    )
    min_buckets = 4 if bidirectional else 2
    if num_buckets < min_buckets:
        raise wrong_value("num_buckets", f"be {min_buckets} or more", num_buckets)
    exact = num_buckets // min_buckets
    max_distance = checks.positive_integer("max_distance", max_distance, max_value=_MAX_DISTANCE)
    if max_distance <= exact:
        requirement = f"be above {exact}, half of the buckets of a direction"
        raise wrong_value("max_distance", requirement, max_distance)
    return num_buckets, max_distance, bidirectional


def _look_up(table: Array | None, relative: Array, options: _Buckets, backend: Backend) -> Array:
    """Return the entries of a table at the buckets of relative positions; buckets if None."""
    xp = backend.xp
    limits = bucket_limits(*options, int(xp.iinfo(backend.int_dtype).max))
    last = limits.last_distance
    relative = backend.astype(relative, backend.int_dtype)
    if prod(relative.shape) > 2 * last + 1 and not backend.is_chunked:
        # Look up each distance up to the last bucket once, then take entries by distance.
        distances = xp.arange(-last, last + 1, dtype=backend.int_dtype, device=backend.device)
        index = backend.clip(relative, -last, last) + last
        return backend.take_entries(_look_up(table, distances, options, backend), index, 0)
    starts = constant_array(list, limits.starts, dtype=backend.int_dtype, backend=backend)
    from_query = backend.searchsorted(starts, relative, side="right") - limits.count_before
    buckets = xp.where(from_query > 0, from_query + limits.per_direction, -from_query)
    return buckets if table is None else backend.take_entries(table, buckets, 0)


class _Limits(NamedTuple):
    """Limits of the buckets of T5, in relative positions."""

    starts: tuple[int, ...]  # ascending first positions of the buckets, without the first bucket
    count_before: int  # number of starts before the query
    last_distance: int  # smallest distance in the last bucket of a direction
    per_direction: int  # number of buckets of a direction


@cached_constant
def bucket_limits(
    num_buckets: int,
    max_distance: int,
    bidirectional: bool,  # noqa: FBT001
    max_integer: int,
) -> _Limits:
    """Return the limits of buckets, without limits beyond `max_integer`.

    Of n buckets of a direction, e = n // 2 are exact. Logarithmic bucket s = 1, 2, ... begins at
    the smallest integer d with (d / e) ** (n - e) >= (max_distance / e) ** s.
    """
    per_direction = num_buckets // (1 + bidirectional)
    exact = per_direction // 2
    logarithmic = per_direction - exact
    limits = list(range(1, exact + 1))
    for step in range(1, logarithmic):
        power = exact ** (logarithmic - step) * max_distance**step
        # Bisect between bounds from floats; integers of arrays are below 2**64.
        estimate = exact * exp(step / logarithmic * log(max_distance / exact))
        low = max(limits[-1], min(int(estimate * (1 - _RELATIVE_ROUNDING)), 2**64))
        high = min(int(estimate * (1 + _RELATIVE_ROUNDING)) + 1, max_distance, 2**64)
        while low < high:  # PyTorch cannot compile `bisect_left`
            middle = (low + high) // 2
            low, high = (middle + 1, high) if middle**logarithmic < power else (low, middle)
        limits.append(low)
    # Omit limits that the integer dtype does not include.
    before = [1 - limit for limit in reversed(limits) if limit <= max_integer + 2]
    after = [limit for limit in limits if bidirectional and limit <= max_integer]
    return _Limits((*before, *after), len(before), limits[-1], per_direction)


@dataclass(frozen=True, eq=False)
class T5Bias(bias.Bias):
    """The relative bias of T5: a learned number for each head and bucket of relative positions.

    The table of a checkpoint is `embeddings`. A decoder has ``bidirectional=False``. The scale of
    T5's attention is 1, ``scale=1.0``. Immutable: `dataclasses.replace` returns a copy with another
    table.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    bidirectional : bool, default True
        Whether keys after a query have separate buckets: True in an encoder, False in a
        decoder.
    num_buckets : int, default 32
        Number of buckets, at most 1024.
    max_distance : int, default 128
        Distances from this one on share the last bucket; at most 2**128.
    init_std : float, default 0.02
        Standard deviation of the normal distribution from which the table is drawn.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the random table.
    embeddings : array, shape (num_buckets, num_heads), optional
        The table, as in checkpoints; drawn if None.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (float32 if None) and device of a drawn table.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If a size is too small or `num_buckets` too large, or the table has the wrong shape.

    References
    ----------
    Raffel et al. (2020), T5, section 2.1.

    Examples
    --------
    >>> bias = T5Bias(8, bidirectional=False, rng=0)
    >>> bias(1, 10).shape  # one query after nine cached keys
    (1, 10, 8)
    """

    num_heads: checks.FeatureCount
    _: KW_ONLY
    bidirectional: bool = True
    num_buckets: int = 32
    max_distance: int = 128
    init_std: checks.PositiveNumber = 0.02
    rng: Any = field(default=None, compare=False)
    embeddings: Array = array_field(None)
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    _takes_integers = True

    def __post_init__(self, xp: Namespace, dtype: Dtype, device: Device) -> None:
        self._check_fields()
        options = _check_buckets(self.num_buckets, self.max_distance, self.bidirectional)
        num_buckets, max_distance, _ = options
        checks.set_fields(self, num_buckets=num_buckets, max_distance=max_distance)
        shapes = {"embeddings": (num_buckets, self.num_heads)}
        set_weights(self, shapes, normal(self.init_std), xp, dtype, device)

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        relative = bias.subtract_positions(query, key, backend)
        options = self.num_buckets, self.max_distance, self.bidirectional
        return _look_up(self.embeddings, relative, options, backend)
