"""Masks by position alone: causal, windows, chunks, dilation, global tokens, neighbourhoods."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import plural, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, np
from positional_embeddings.masks import ranges
from positional_embeddings.masks.mask import Mask, frozen_integers
from positional_embeddings.masks.points import ALL_KEYS, PositionBlock, Window, hides_outside
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, clip, hull
from positional_embeddings.masks.spans import length_array

# Ranges of neighbours in rows of a grid; more become one range, from the first to the last.
_MOST_RANGES_OF_NEIGHBOURS = 2**12

_Size = Annotated[int, checks.positive_integer]
_WindowSide = Annotated[int | None, checks.optional(checks.non_negative_integer)]


class _WindowMask(Mask):
    """Base of masks that hide the keys outside a window around each query."""

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        return hides_outside(q, k, self._window())

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        left, right = self._window()
        any_query = clip(start - left, stop + right, k_len)
        return VisibleKeys(any_query, clip(stop - 1 - left, start + right + 1, k_len))


@dataclass(frozen=True, repr=False)
class CausalMask(_WindowMask):
    """A query sees its own position and earlier ones.

    Parameters
    ----------
    mask_diagonal : bool, default False
        Also hide its own position.

    Raises
    ------
    TypeError
        If `mask_diagonal` is neither True nor False.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.2.3.

    Examples
    --------
    >>> CausalMask().dense(3)[:, :, 0].astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])

    Queries 100 to 199 see no key from 200 on:

    >>> CausalMask().key_ranges(100, 200, k_len=1000)
    ((0, 200),)
    """

    mask_diagonal: Annotated[bool, checks.boolean] = False

    def _window(self) -> Window:
        return ALL_KEYS, -1 if self.mask_diagonal else 0


@dataclass(frozen=True, repr=False)
class SlidingWindowMask(_WindowMask):
    """A query sees a window around its position.

    Parameters
    ----------
    left, right : int or None
        Numbers of keys before and after its own position that a query sees, zero or more;
        None for all. ``SlidingWindowMask.of(w)`` is the causal window of w keys.

    Raises
    ------
    TypeError
        If a number is not an integer.
    ValueError
        If a number is negative.

    References
    ----------
    Beltagy et al. (2020), Longformer, section 3.1.

    Examples
    --------
    >>> SlidingWindowMask(1, 0).dense(4)[:, :, 0].astype(int)
    array([[0, 1, 1, 1],
           [0, 0, 1, 1],
           [1, 0, 0, 1],
           [1, 1, 0, 0]])
    """

    left: _WindowSide
    right: _WindowSide

    @classmethod
    def of(cls, keys: int) -> "SlidingWindowMask":
        """Return the window of a decoder, in which each query sees its own key and those before.

        Parameters
        ----------
        keys : int
            Number of keys that a query sees, positive, such as `sliding_window` of a configuration.

        Returns
        -------
        SlidingWindowMask
            ``SlidingWindowMask(keys - 1, 0)``.

        Raises
        ------
        TypeError, ValueError
            If `keys` is not a positive integer.

        Examples
        --------
        >>> SlidingWindowMask.of(2)
        SlidingWindowMask(1, 0)
        """
        return cls(checks.position_count("keys", keys) - 1, 0)

    def _window(self) -> Window:
        left, right = self.left, self.right
        return ALL_KEYS if left is None else left, ALL_KEYS if right is None else right


@dataclass(frozen=True, repr=False)
class ChunkedMask(Mask):
    """A query sees the keys of its own chunk.

    Later keys of the chunk, too: a decoder needs ``CausalMask() | ChunkedMask(size)``.

    Parameters
    ----------
    size : int
        Number of positions in a chunk, positive.

    Raises
    ------
    TypeError
        If `size` is not an integer.
    ValueError
        If `size` is not positive.

    References
    ----------
    Child et al. (2019), Generating Long Sequences with Sparse Transformers, section 4.

    Examples
    --------
    >>> ChunkedMask(2).dense(4)[:, :, 0].astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1],
           [1, 1, 0, 0],
           [1, 1, 0, 0]])
    """

    size: _Size

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        xp, size = q.backend.xp, min(self.size, q.largest)
        return xp.floor_divide(q.values, size) != xp.floor_divide(k.values, size)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        first, last = start // self.size, (stop - 1) // self.size
        any_query = clip(first * self.size, (last + 1) * self.size, k_len)
        return VisibleKeys(any_query, any_query if first == last else ())

    def _probe_positions(self, far: int) -> tuple[int, ...]:
        # The last query of a chunk sees most of it.
        return (far, far // self.size * self.size) if self.size <= far else (far,)


@dataclass(frozen=True, repr=False)
class DilatedMask(Mask):
    """A query sees every `step`-th position, counted from its own.

    Parameters
    ----------
    step : int
        Step between the keys that a query sees, positive; 1 hides nothing.

    Raises
    ------
    TypeError
        If `step` is not an integer.
    ValueError
        If `step` is not positive.

    References
    ----------
    Beltagy et al. (2020), Longformer, section 3.1.

    Examples
    --------
    >>> DilatedMask(2).dense(4)[:, :, 0].astype(int)
    array([[0, 1, 0, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1],
           [1, 0, 1, 0]])
    """

    step: _Size

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        xp, step = q.backend.xp, min(self.step, q.largest)
        return xp.remainder(q.values, step) != xp.remainder(k.values, step)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        # How far the nearest key that a query sees is from the first and from the last key.
        before = _least_remainder(start, stop, self.step)
        after = _least_remainder(k_len - stop, k_len - start, self.step)
        return VisibleKeys(clip(before, k_len - after, k_len), ())


def _least_remainder(start: int, stop: int, divisor: int) -> int:
    """Return the least remainder of the numbers from `start` to before `stop`."""
    remainder = start % divisor
    return remainder if remainder + stop - start <= divisor else 0


@dataclass(frozen=True, eq=False, repr=False)
class GlobalMask(Mask):
    """Global tokens see all keys and are seen by all queries; every other pair is hidden.

    By ``&`` it opens another mask for its tokens: ``SlidingWindowMask(256, 256) &
    GlobalMask([0, 1])`` hides what both hide, as in Longformer and BigBird.

    Parameters
    ----------
    indices : list, tuple or array of int, shape (tokens,)
        Positions of the global tokens, zero or more.

    Raises
    ------
    TypeError
        If `indices` are not integers.
    ValueError
        If they do not have one axis, or one is negative, where it can be read. Indices on a
        device are not read.

    References
    ----------
    Beltagy et al. (2020), Longformer, section 3.1; Zaheer et al. (2020), Big Bird, section 2.

    Examples
    --------
    >>> pattern = SlidingWindowMask(1, 1) & GlobalMask([0])
    >>> pattern.dense(5)[:, :, 0].astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 1, 1],
           [0, 0, 0, 0, 1],
           [0, 1, 0, 0, 0],
           [0, 1, 1, 0, 0]])
    >>> pattern.key_ranges(3, 5, k_len=5)
    ((0, 1), (2, 5))
    """

    indices: Sequence[int] | AnyArray = array_field()

    # Of indices that the host has.
    _ranges: Ranges | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        _, indices = length_array("indices", self.indices, None, None, axis="tokens")
        indices = frozen_integers(indices)
        checks.set_fields(self, indices=indices)
        if isinstance(indices, np.ndarray):
            checks.set_fields(self, _ranges=ranges.unite_arrays(indices, indices))

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        return ~(self._is_global(q) | self._is_global(k))

    def _is_global(self, points: PositionBlock) -> Array:
        """Tell which positions have global tokens."""
        xp, positions = points.backend.xp, points.values
        if self._ranges is None or points.ranges is None or points.backend.is_compiling:
            return xp.any(positions[..., None] == points.in_library(self.indices), axis=-1)
        on_host = np.concat([np.arange(*pair) for pair in points.ranges])
        edges = np.ravel(ranges.intersect(self._ranges, points.ranges))
        is_global = np.searchsorted(edges, on_host, side="right") % 2 == 1
        return xp.asarray(is_global.reshape(positions.shape), device=points.backend.device)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        whole = ((0, k_len),)
        if self._ranges is None:
            return VisibleKeys(whole, ())
        tokens = ranges.intersect(self._ranges, whole)
        global_queries = ranges.intersect(self._ranges, queries)
        are_all_global = ranges.count_positions(global_queries) == ranges.count_positions(queries)
        return VisibleKeys(whole if global_queries else tokens, whole if are_all_global else tokens)

    def _global_queries(self) -> Ranges:
        return self._ranges or ()


@dataclass(frozen=True, repr=False)
class NeighbourhoodMask(Mask):
    """A token of a grid sees the tokens around it.

    The tokens of the grid are in C order: position ``row * width + column`` in two dimensions.

    Parameters
    ----------
    shape : tuple of int
        Lengths of the axes of the grid, positive.
    window : int or tuple of int
        How many steps away a token is seen, zero or more: on each axis, or one number for all.

    Raises
    ------
    TypeError
        If a length or a number of steps is not an integer.
    ValueError
        If a number is out of range, or there are not as many in `window` as in `shape`; as an
        array or in an attention, if there are more queries or keys than tokens.

    References
    ----------
    Hassani et al. (2023), Neighborhood Attention Transformer, section 3.1; at the edges of the
    grid a neighbourhood is cut here, and moved inwards there.

    Examples
    --------
    The token in the middle of a grid of 3 by 4:

    >>> mask = NeighbourhoodMask((3, 4), window=1)
    >>> mask.dense(12)[5, :, 0].reshape(3, 4).astype(int)
    array([[0, 0, 0, 1],
           [0, 0, 0, 1],
           [0, 0, 0, 1]])
    """

    shape: tuple[int, ...]
    window: int | tuple[int, ...]

    def __post_init__(self) -> None:
        window: Any = self.window
        shape = checks.sequence_of("shape", self.shape, checks.positive_integer)
        if not shape:
            raise wrong_value("shape", "have one length or more", "()")
        if not isinstance(window, tuple | list):
            window = checks.non_negative_integer("window", window)
        elif len(window) != len(shape):
            requirement = f"have {plural(len(shape), 'number')}, as `shape` has"
            raise wrong_value("window", requirement, window)
        else:
            window = checks.sequence_of("window", window, checks.non_negative_integer)
        checks.set_fields(self, shape=shape, window=window)

    @property
    def _steps(self) -> tuple[int, ...]:
        return self.window if isinstance(self.window, tuple) else (self.window,) * len(self.shape)

    def _check(self, queries: tuple[int, int], k_len: int, backend: Backend) -> None:  # noqa: ARG002
        (start, stop), tokens = queries, prod(self.shape)
        if k_len > tokens or start < 0 or stop > tokens:
            places = f"queries from position {start} to {stop - 1} and {plural(k_len, 'key')}"
            actual = f"{self.shape}, {plural(tokens, 'token')}, for {places}"
            raise wrong_value("shape", "have a token for each query and key", actual)

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        if positions.extent is not None:
            queries, k_len = positions.extent
            self._check(queries, k_len, backend)

    def _check_ring(self, window: int) -> None:
        if (size := prod(self.shape)) > window:  # its windows have no end
            requirement = f"have grids of at most {window} tokens, as many as the ring keeps"
            hint = f" Make the cache with window={size}, or without a ring."
            raise wrong_value("mask", requirement, self, hint)

    def _hides(self, q: PositionBlock, k: PositionBlock) -> Array:
        # Positions are smaller, so that larger sizes make no difference.
        xp, most = q.backend.xp, q.largest
        tokens = min(prod(self.shape), most)
        hidden = (q.values < 0) | (q.values >= tokens) | (k.values < 0) | (k.values >= tokens)
        stride = prod(self.shape)
        for n, steps in zip(self.shape, self._steps, strict=True):
            stride //= n
            query_place, key_place = (
                xp.remainder(xp.floor_divide(points.values, min(stride, most)), min(n, most))
                for points in (q, k)
            )
            hidden = hidden | (xp.abs(query_place - key_place) > min(steps, most))
        return hidden

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        start, stop = max(start, 0), min(stop, prod(self.shape))
        rows_with_keys = -(-k_len // prod(self.shape[1:]))
        shape = (min(self.shape[0], rows_with_keys), *self.shape[1:])
        seen = _neighbours(shape, self._steps, start, stop) if start < stop else ()
        return VisibleKeys(ranges.intersect(seen, ((0, k_len),)), ())


def _neighbours(shape: tuple[int, ...], steps: tuple[int, ...], start: int, stop: int) -> Ranges:
    """Return the tokens of a grid that are neighbours of those from `start` to before `stop`.

    Of tokens in several rows they are whole rows, perhaps more than they see.
    """
    (rows, *row_shape), (step, *row_steps) = shape, steps
    width = prod(row_shape)
    first, last = start // width, (stop - 1) // width
    near = range(max(first - step, 0), min(last + step + 1, rows))
    if row_shape and first == last:
        begin = first * width
        seen = _neighbours(tuple(row_shape), tuple(row_steps), start - begin, stop - begin)
        if (near.stop - near.start) * len(seen) <= _MOST_RANGES_OF_NEIGHBOURS:
            return ranges.unite((i * width + a, i * width + b) for i in near for a, b in seen)
    return ranges.unite([(near.start * width, near.stop * width)])


# Hides nothing.
HIDES_NOTHING = SlidingWindowMask(None, None)


def outside_ring(window: int, num_sink_tokens: int) -> Mask:
    """Return the mask that hides later keys, and all earlier ones but the newest and the first."""
    newest = SlidingWindowMask(window - 1, 0)
    return CausalMask() | newest & GlobalMask(range(num_sink_tokens)) if num_sink_tokens else newest
