"""Masks that depend on positions only: causal, windows, chunks, dilation, global tokens, grids."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, np
from positional_embeddings.masks import ranges
from positional_embeddings.masks.index_ranges import length_array
from positional_embeddings.masks.mask import Mask, frozen_integers
from positional_embeddings.masks.position_blocks import ALL_KEYS, PositionBlock, Window, window_mask
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, clip, hull

# More ranges in rows of a grid become one range, from the first to the last token.
_MAX_NEIGHBOUR_RANGES = 2**12

_Size = Annotated[int, checks.positive_integer]
_WindowSide = Annotated[int | None, checks.optional(checks.non_negative_integer)]


class _WindowMask(Mask):
    """Base of masks of the keys outside a window around each query."""

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        return window_mask(q, k, self._window())

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        left, right = self._window()
        any_query = clip(start - left, stop + right, k_len)
        return VisibleKeys(any_query, clip(stop - 1 - left, start + right + 1, k_len))


@dataclass(frozen=True, repr=False)
class CausalMask(_WindowMask):
    """A query attends to its own position and earlier positions.

    Parameters
    ----------
    mask_diagonal : bool, default False
        Also mask the position of the query.

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

    Queries 100 to 199 attend to no keys from 200 onwards:

    >>> CausalMask().key_ranges(100, 200, k_len=1000)
    ((0, 200),)
    """

    mask_diagonal: Annotated[bool, checks.boolean] = False

    def _window(self) -> Window:
        return ALL_KEYS, -1 if self.mask_diagonal else 0


@dataclass(frozen=True, repr=False)
class SlidingWindowMask(_WindowMask):
    """A query attends to a window around its position.

    Parameters
    ----------
    left, right : int or None
        Numbers of visible keys before and after the position of the query, zero or more; None
        for all. ``SlidingWindowMask.of(w)`` is the causal window of w keys.

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
    right: _WindowSide = ...  # type: ignore[assignment] # a missing one has an error with a remedy

    def __post_init__(self) -> None:
        if self.right is ...:  # type: ignore[comparison-overlap]
            hint = f" Pass SlidingWindowMask.of({self.left!r}) for that number of keys."
            if isinstance(self.left, list | tuple):
                hint = " Pass SlidingWindowMask(left, right)."
            raise wrong_type("right", "be an integer or None", "no value", hint)
        for name in ("left", "right"):
            if type(number := getattr(self, name)) is int and number == -1:
                hint = " Pass None for all keys."
                raise wrong_value(name, "be a non-negative integer or None", number, hint)
        self._check_fields()

    @classmethod
    def of(cls, keys: int) -> "SlidingWindowMask":
        """Return the window of a decoder, which ends at the position of the query.

        Parameters
        ----------
        keys : int
            Number of visible keys, positive, such as `sliding_window` of a configuration.

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
    """A query attends to the keys of its own chunk.

    The keys include later positions: a decoder needs ``CausalMask() | ChunkedMask(size)``.

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

    _uses_absolute_positions = True

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        xp, size = q.backend.xp, min(self.size, q.largest)
        return xp.floor_divide(q.values, size) != xp.floor_divide(k.values, size)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        first, last = start // self.size, (stop - 1) // self.size
        any_query = clip(first * self.size, (last + 1) * self.size, k_len)
        return VisibleKeys(any_query, any_query if first == last else ())

    def _probe_positions(self, position: int) -> tuple[int, ...]:
        # With a causal mask, the last query of a chunk attends to the most keys.
        chunk_start = position // self.size * self.size
        return (position, chunk_start) if self.size <= position else (position,)


@dataclass(frozen=True, repr=False)
class DilatedMask(Mask):
    """A query attends to every `step`-th position, relative to its own.

    Parameters
    ----------
    step : int
        Distance between visible keys, positive; 1 masks nothing.

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

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        xp, step = q.backend.xp, min(self.step, q.largest)
        return xp.remainder(q.values, step) != xp.remainder(k.values, step)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        # Numbers of masked keys at the beginning and at the end.
        before = _min_remainder(start, stop, self.step)
        after = _min_remainder(k_len - stop, k_len - start, self.step)
        return VisibleKeys(clip(before, k_len - after, k_len), ())


def _min_remainder(start: int, stop: int, divisor: int) -> int:
    """Return the smallest remainder of the numbers from `start` to before `stop`."""
    remainder = start % divisor
    return remainder if remainder + stop - start <= divisor else 0


@dataclass(frozen=True, eq=False, repr=False)
class GlobalMask(Mask):
    """Global tokens attend to all keys, and all queries attend to global tokens.

    All other pairs are masked.

    Combine it by ``&`` to add global tokens to another mask, as in Longformer and BigBird:
    ``SlidingWindowMask(256, 256) & GlobalMask([0, 1])`` masks a key only if both masks do.

    Parameters
    ----------
    indices : list, tuple or array of int, shape (tokens,)
        Positions of the global tokens, zero or more.

    Raises
    ------
    TypeError
        If `indices` are not integers.
    ValueError
        If `indices` do not have one axis, or an index is negative. Indices on a device, lazy or
        in a trace are not checked.

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

    _uses_absolute_positions = True

    # The ranges of the indices; None if they are not on the host.
    _ranges: Ranges | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        _, indices = length_array("indices", self.indices, None, None, axis="tokens")
        indices = frozen_integers(indices)
        checks.set_fields(self, indices=indices)
        if isinstance(indices, np.ndarray):
            checks.set_fields(self, _ranges=ranges.unite_arrays(indices, indices))

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        return ~(self._is_global(q) | self._is_global(k))

    def _is_global(self, block: PositionBlock) -> Array:
        """Return True at the positions of global tokens."""
        xp, positions = block.backend.xp, block.values
        if self._ranges is None or block.ranges is None or block.backend.is_compiling:
            return xp.any(positions[..., None] == block.in_library(self.indices), axis=-1)
        host_positions = np.concat([np.arange(*pair) for pair in block.ranges])
        edges = np.ravel(ranges.intersect(self._ranges, block.ranges))
        is_global = np.searchsorted(edges, host_positions, side="right") % 2 == 1
        return xp.asarray(is_global.reshape(positions.shape), device=block.backend.device)

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        all_keys = ((0, k_len),)
        if self._ranges is None:
            return VisibleKeys(all_keys, ())
        global_keys = ranges.intersect(self._ranges, all_keys)
        global_queries = ranges.intersect(self._ranges, queries)
        are_all_global = ranges.count_positions(global_queries) == ranges.count_positions(queries)
        return VisibleKeys(
            all_keys if global_queries else global_keys, all_keys if are_all_global else global_keys
        )

    def _global_queries(self) -> Ranges:
        return self._ranges or ()


@dataclass(frozen=True, repr=False)
class NeighbourhoodMask(Mask):
    """A token of a grid attends to the tokens around it.

    The tokens are in C order: position ``row * width + column`` in two dimensions.

    Parameters
    ----------
    shape : tuple of int
        Lengths of the axes of the grid, positive.
    window : int or tuple of int
        Maximum distance of a visible token, zero or more: of each axis, or one number for all.

    Raises
    ------
    TypeError
        If a length or a distance is not an integer.
    ValueError
        If a number is out of range, or the lengths of `window` and `shape` differ; as an array or
        in an attention, if there are more queries or keys than tokens.

    References
    ----------
    Hassani et al. (2023), Neighborhood Attention Transformer, section 3.1. At the edges of the
    grid the paper shifts a neighbourhood inwards, and this mask clips it.

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

    _uses_absolute_positions = True

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
            lengths = f"queries from position {start} to {stop - 1} and {plural(k_len, 'key')}"
            actual = f"{self.shape}, {plural(tokens, 'token')}, for {lengths}"
            raise wrong_value("shape", "have a token for each query and key", actual)

    def _check_positions(self, positions: Any, backend: Backend) -> None:
        if positions.extent is not None:
            queries, k_len = positions.extent
            self._check(queries, k_len, backend)

    def _check_ring(self, window: int) -> None:
        if (size := prod(self.shape)) > window:  # the probed positions are outside the grid
            requirement = f"have grids of at most {window} tokens, the window of the ring"
            hint = f" Make the cache with window={size}, or without a ring."
            raise wrong_value("mask", requirement, self, hint)

    def _mask_at(self, q: PositionBlock, k: PositionBlock) -> Array:
        # Larger sizes than the largest position have the same result.
        xp, largest = q.backend.xp, q.largest
        tokens = min(prod(self.shape), largest)
        is_masked = (q.values < 0) | (q.values >= tokens) | (k.values < 0) | (k.values >= tokens)
        stride = prod(self.shape)
        for n, steps in zip(self.shape, self._steps, strict=True):
            stride //= n
            q_index, k_index = (
                xp.remainder(xp.floor_divide(p.values, min(stride, largest)), min(n, largest))
                for p in (q, k)
            )
            is_masked = is_masked | (xp.abs(q_index - k_index) > min(steps, largest))
        return is_masked

    def _visible_keys(self, queries: Ranges, k_len: int) -> VisibleKeys:
        start, stop = hull(queries)
        start, stop = max(start, 0), min(stop, prod(self.shape))
        rows_with_keys = -(-k_len // prod(self.shape[1:]))
        shape = (min(self.shape[0], rows_with_keys), *self.shape[1:])
        visible = _neighbours(shape, self._steps, start, stop) if start < stop else ()
        return VisibleKeys(ranges.intersect(visible, ((0, k_len),)), ())


def _neighbours(shape: tuple[int, ...], steps: tuple[int, ...], start: int, stop: int) -> Ranges:
    """Return the neighbours of the tokens from `start` to before `stop` in a grid.

    For tokens in several rows the result is complete rows, a superset of the neighbours.
    """
    (rows, *row_shape), (step, *row_steps) = shape, steps
    width = prod(row_shape)
    first, last = start // width, (stop - 1) // width
    window = range(max(first - step, 0), min(last + step + 1, rows))
    if row_shape and first == last:
        begin = first * width
        columns = _neighbours(tuple(row_shape), tuple(row_steps), start - begin, stop - begin)
        if (window.stop - window.start) * len(columns) <= _MAX_NEIGHBOUR_RANGES:
            return ranges.unite((i * width + a, i * width + b) for i in window for a, b in columns)
    return ranges.unite([(window.start * width, window.stop * width)])


# All keys are visible.
NO_MASK = SlidingWindowMask(None, None)


def ring_window_mask(window: int, num_sink_tokens: int, is_causal: bool) -> Mask:  # noqa: FBT001
    """Return the mask of a window, which later keys may be in, and of sink tokens."""
    mask: Mask = SlidingWindowMask(window - 1, 0 if is_causal else None)
    if num_sink_tokens:
        mask = mask & GlobalMask(range(num_sink_tokens))
    return CausalMask() | mask if is_causal and num_sink_tokens else mask
