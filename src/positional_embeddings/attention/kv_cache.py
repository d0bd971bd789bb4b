"""Which position is in which slot of the buffers that keep keys and values."""

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Annotated, Any
from weakref import ref

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.spans import check_lengths, farthest_position, length_array
from positional_embeddings.arguments.weights import WeightedLayer, array_field
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.errors import shown, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.find import new_space, space_of
from positional_embeddings.arrays.kept import keep, numpy_key, once
from positional_embeddings.arrays.namespace import (
    AnyArray,
    Array,
    ArrayT,
    Device,
    HostArray,
    Namespace,
    np,
)
from positional_embeddings.arrays.space import Space
from positional_embeddings.attention.at_positions import Places, Ring
from positional_embeddings.masks.mask import frozen_integers

# The name of positions in errors about arrays of two libraries.
POSITIONS = "positions` of a cache, whose library is its `xp="

# The way on, in errors: where slots or numbers of tokens do not fit,
_FULL = (
    " Make the cache with as many slots as the longest sequence has tokens, or with `window`, the"
    " number of newest keys that a query sees: as a ring, which forgets the others."
)
_NEW = " The `tokens` of a step are the new ones alone, also those of an attention mask."
# and where a buffer has been stored in by this step, by a later one, or not by the one before.
_TWICE = " Each token, or chunk of tokens, has a step of its own."
_AHEAD = (
    " The cache that `step` returned was not kept, an earlier step was used again, or the buffer is"
    " used for another sequence: write cache, step = cache.step(tokens), or start over with"
    " KVCache.empty. To go back on purpose, rewind the cache, by 0 to go on from an earlier one."
)
_BEHIND = (
    " Call `step` once for all layers, and store its tokens in each of their buffers. If the buffer"
    " got them in another way, such as a copy, rewind the cache by 0."
)

# Buffers whose last tokens are known, twice.
_MOST_BUFFERS = 2**12

# Lengths that a `repr` spells out.
_MOST_SHOWN = 16

# The row of the buffer, the first slot, the first new token, and their number.
Run = tuple[int, int, int, int]


class _Value(WeightedLayer):
    """Base of values: copies and pickles have read-only arrays, and know of no buffers."""

    def __getstate__(self) -> dict[str, Any]:
        return {n: x for n, x in super().__getstate__().items() if n not in ("_stored", "_lengths")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, x in state.items():
            is_open = isinstance(x, np.ndarray) and x.flags.writeable
            checks.set_fields(self, **{name: frozen_integers(x) if is_open else x})


@dataclass(frozen=True, eq=False)
class KVCache(_Value):
    """The positions of cached keys and values, for all layers that keep the same tokens.

    An immutable value. The keys and values themselves are in buffers of the caller: plain arrays
    of any layout, dtype and library, one for the keys and one for the values of each layer, with
    `capacity` slots on the axis of the sequence. `empty` makes a cache.

    Without `window` and `sinks` a cache keeps all tokens, and one that is full takes no more. Where
    a trace does not know the lengths, `store` gives NaN for a sequence that is too long.

    With `window` or `sinks` it is a ring: new tokens take the slots of the oldest ones, but for the
    first `sinks` tokens, which stay. In an attention with ``positions=step`` each query sees the
    `window` newest keys up to its own and the sinks, one token at a time and in chunks alike, and
    of these what the mask lets it see.

    Each step stores its tokens after the last ones. To go on from an earlier cache in the same
    buffers, `rewind` it, by 0 if it is the one to go on from.

    Parameters
    ----------
    capacity : int
        Number of slots, positive.
    sinks : int, default 0
        Number of first tokens of each sequence that a ring keeps, less than `capacity`.
    window : int, optional
        Number of newest keys that a query of a ring sees, at most ``capacity - sinks``, which it
        is if None and there are `sinks`. A ring with more slots than that can `rewind` as many
        tokens as it has more.
    feature_axis, seq_axis : int, optional
        Axes of features and slots in the buffers: -1 and -2 for ``(batch, heads, slots, head)``.
        0 and 1 if None; buffers of more than three axes need both. Attention takes them from a
        step. Positions are (batch, seq) if the batch comes before the slots in buffers of four
        axes, else (seq, batch).
    lengths : list or array of int, shape (batch,)
        Number of tokens of each sequence so far: the position of its next one. At most `capacity`
        unless the cache is a ring.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is out of range, or both axes are the same.

    References
    ----------
    Xiao et al. (2024), Efficient Streaming Language Models with Attention Sinks, section 3.2, for
    `sinks`; Jiang et al. (2023), Mistral 7B, section 2, for the ring.

    Examples
    --------
    Two prompts, padded on the left, and a token more:

    >>> import numpy as np
    >>> cache = KVCache.empty(2, 8, feature_axis=-1, seq_axis=-2)
    >>> cache, step = cache.step([[0, 1, 1], [1, 1, 1]])
    >>> step.positions
    array([[0, 0, 1],
           [0, 1, 2]])
    >>> step.key_positions
    array([[ 0,  1, -1],
           [ 0,  1,  2]])
    >>> buffer = np.zeros((2, 4, 8, 16))  # (batch, heads, slots, features)
    >>> buffer, keys = step.store(buffer, np.ones((2, 4, 3, 16)))
    >>> keys.shape
    (2, 4, 3, 16)
    >>> cache, step = cache.step(1)
    >>> step.positions
    array([[2],
           [3]])
    """

    _: KW_ONLY
    capacity: checks.AxisLength
    sinks: Annotated[int, checks.non_negative_integer] = 0
    window: Annotated[int | None, checks.optional(checks.axis_length)] = None
    feature_axis: int | None = None
    seq_axis: int | None = None
    lengths: Any = array_field()
    # Position of the oldest token that the ring still holds; one below 0 never was.
    _oldest: Any = field(default=None, init=False, metadata={"weight": True})
    # Of each buffer that a step of this cache, or of one before or after it, has stored in: the
    # lengths after the last of them, by the address and by the array, with a weak reference to
    # it. A cache that goes back on purpose has a new one.
    _stored: Any = field(default=None, init=False, compare=False)
    # Of the library, dtype and device of positions.
    _like: Any = field(default=None, init=False, metadata={"weight": True})

    def __post_init__(self) -> None:
        self.check_fields()
        axes.set_axes(self)
        space, lengths = length_array("lengths", self.lengths, None, None)
        like = space.xp.zeros(1, dtype=space.integer, device=space.device)
        lengths = _numbers("lengths", lengths)
        if lengths.shape[0] == 0:
            raise wrong_value("lengths", "be of one sequence or more", "none")
        if self.sinks >= self.capacity:
            raise wrong_value("sinks", f"be below `capacity` = {self.capacity}", self.sinks)
        if self.window is not None and self.window > self._ring:
            what = f"be at most `capacity` - `sinks` = {self._ring}"
            raise wrong_value("window", what, self.window)
        most = farthest_position(space), "the farthest position"
        if not self._is_ring:
            most = self.capacity, "`capacity` (of a cache without `window` and `sinks`)"
        check_lengths("lengths", lengths, space_of(lengths=lengths), *most)
        oldest = lengths - self._ring
        lengths, oldest = frozen_integers(lengths), frozen_integers(oldest)
        checks.set_fields(self, lengths=lengths, _oldest=oldest, _like=like)

    @classmethod
    def empty(
        cls,
        batch: int,
        capacity: int,
        sinks: int = 0,
        *,
        window: int | None = None,
        feature_axis: int | None = None,
        seq_axis: int | None = None,
        xp: Namespace | None = None,
        device: Device | None = None,
    ) -> "KVCache":
        """Return a cache without tokens.

        Parameters
        ----------
        batch : int
            Number of sequences, positive.
        capacity, sinks, window, feature_axis, seq_axis
            As the parameters of the class.
        xp, device : optional
            Array library (NumPy if None) and device of positions.

        Returns
        -------
        KVCache
            With a length of 0 for each sequence.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a number is out of range, or both axes are the same.
        """
        space = new_space(xp, device)
        cache = cls(
            capacity=capacity,
            sinks=sinks,
            window=window,
            feature_axis=feature_axis,
            seq_axis=seq_axis,
            lengths=np.zeros(checks.axis_length("batch", batch), dtype=np.int64),
        )
        like = space.xp.zeros(1, dtype=space.integer, device=space.device)
        checks.set_fields(cache, _like=like)
        return cache

    def __repr__(self) -> str:
        given = ((f, getattr(self, f.name)) for f in fields(self) if f.init and f.repr)
        options = [f"{f.name}={value}" for f, value in given if value != f.default]
        is_short = isinstance(self.lengths, np.ndarray) and self.lengths.size <= _MOST_SHOWN
        lengths = self.lengths.tolist() if is_short else f"<{shown(self.lengths)}>"
        return f"KVCache({', '.join(options)}, lengths={lengths})"

    def step(self, tokens: int | AnyArray | Sequence[Any], /) -> tuple["KVCache", "KVStep"]:
        """Return the cache with new tokens, and where they are.

        Parameters
        ----------
        tokens : int, or list or array of int or bool, shape (batch, seq)
            Number of new tokens of each sequence, positive; or a tokenizer's attention mask, 1 at
            tokens and 0 at padding, which may be anywhere.

        Returns
        -------
        cache : KVCache
            The cache after these tokens.
        step : KVStep
            The positions of the tokens and of all keys, and what stores keys and values.

        Raises
        ------
        TypeError
            If `tokens` are neither a number nor integers or booleans.
        ValueError
            If the number is not positive, or the mask has another batch, no tokens, or, where it
            can be read, other numbers than 0 and 1; if a cache that is no ring has too few slots.

        Examples
        --------
        A prompt with padding, and a token more:

        >>> cache, step = KVCache.empty(1, 8).step([[0, 1, 1]])
        >>> step.positions[:, 0]
        array([0, 0, 1])
        >>> cache, step = cache.step(1)
        >>> step.key_positions[:, 0]
        array([0, 1, 2])
        """
        space, batch = space_of(like=self._like), self.lengths.shape[0]
        is_mask = _is_several(tokens)
        if is_mask:
            given = _numbers("tokens", tokens, "bool", "integral")
            shape = tuple(given.shape)
            if len(shape) != 2 or shape[0] != batch or shape[1] == 0:
                raise wrong_value("tokens", f"have shape ({batch}, seq)", shape)
        else:
            count = checks.axis_length("tokens", tokens)  # type: ignore[arg-type]
            given = np.ones((batch, count), dtype=np.int64)
        xp, keep, lengths, oldest = self._read(given, space)
        is_known, rows = xp is np, slice(None)
        if is_known:
            if not ((keep == 0) | (keep == 1)).all():
                raise wrong_value("tokens", "hold 1 at tokens and 0 at padding", "other numbers")
            if not is_mask and (lengths == lengths[:1]).all() and (oldest == oldest[:1]).all():
                rows = slice(1)  # stands for all of them
        before, keep = lengths[rows, None], keep[rows, ...]
        rank = xp.cumulative_sum(keep, axis=1) - 1
        after = before + rank[:, -1:] + 1
        if is_known:
            self._check_room(before, after, space)
        positions = xp.where(before + rank < 0, 0, before + rank)
        key_positions, source = self._keys(before, after, oldest[rows, None], keep, space, xp)
        if not (is_known or self._is_ring):
            source = xp.where(after > self.capacity, -1, source)  # which `store` makes NaN
        # A chunk of a ring, and what a trace does not know, has to be gathered.
        is_short = is_known and key_positions.shape[1] <= self.capacity
        oldest = xp.maximum(oldest, after[:, 0] - self._ring)
        cache = self._with(lengths + rank[:, -1] + 1, oldest)
        if is_known:
            stored = {} if self._stored is None else self._stored
            for own in (self, cache):
                checks.set_fields(own, _stored=stored)
        step = KVStep(*(self._in_library(own, space) for own in (positions, key_positions)))
        checks.set_fields(
            step,
            _cache=self,
            _source=source,
            _runs=_runs(source, self.capacity) if is_short else None,
            _on_host=(positions.T, key_positions.T) if is_known else None,
            _known={},
            _lengths=(lengths, cache.lengths) if is_known else None,
        )
        return cache, step

    def _check_room(self, before: HostArray, after: HostArray, space: Space) -> None:
        """Check that new tokens have slots, and positions that integers hold."""
        most = farthest_position(space) if self._is_ring else self.capacity
        row = int(np.argmax(after))
        if after[row, 0] <= most:
            return
        what, hint = f"keep positions below {most}", ""
        if not self._is_ring:
            what, hint = f"fit into the slots that `capacity` = {most} leaves", _FULL + _NEW
        count, held = (int(n) for n in (after[row, 0] - before[row, 0], before[row, 0]))
        raise wrong_value("tokens", what, f"{count} beside {held} at index {row}", hint)

    def rewind(self, counts: int | Sequence[int] | AnyArray, /) -> "KVCache":
        """Return the cache without its last tokens, such as refused drafts.

        A step of the result may be stored whatever the buffers got after these tokens: 0 goes on
        from an earlier cache.

        Parameters
        ----------
        counts : int, or list or array of int, shape (batch,)
            Number of tokens to forget, of all sequences or of each, from 0 to `lengths`.

        Returns
        -------
        KVCache
            Its slots are empty again; the buffers stay as they are.

        Raises
        ------
        TypeError
            If `counts` are not integers.
        ValueError
            If `counts` have the wrong shape, or, where they can be read, one is out of range, or
            the ring has overwritten keys that a query at the new position needs.

        Examples
        --------
        >>> cache, _ = KVCache.empty(2, 8).step(5)
        >>> cache.rewind([0, 2]).lengths
        array([5, 3])
        """
        space = space_of(like=self._like)
        several = counts if _is_several(counts) else [checks.integer("counts", counts)]  # type: ignore[arg-type]
        given = _numbers("counts", several)
        if tuple(given.shape) not in ((1,), tuple(self.lengths.shape)):
            what = f"have shape {tuple(self.lengths.shape)}"
            raise wrong_value("counts", what, tuple(given.shape))
        xp, given, lengths, oldest = self._read(given, space)
        after = lengths - given
        if xp is np:
            for i, (n, most) in enumerate(zip(lengths - after, lengths, strict=True)):
                if not 0 <= n <= most:
                    raise wrong_value("counts", f"be from 0 to {most}", f"{n} at index {i}")
            needed = np.clip(after + 1 - self._window, self.sinks, after)
            lost = np.max(np.clip(oldest, self.sinks, after) - needed)
            if given.any() and lost > 0:
                what = "leave the keys that the next query needs"
                came = f"{shown(given.tolist())}: the ring has overwritten {lost} of them"
                hint = " Give `empty` a `window`, and a `capacity` above it."
                raise wrong_value("counts", what, came, hint)
        return self._with(after, xp.minimum(oldest, after))

    def take(self, rows: Sequence[int] | AnyArray, /) -> "KVCache":
        """Return the cache of some sequences, such as the best beams.

        The buffers have to be taken in the same way, along their batch.

        Parameters
        ----------
        rows : list or array of int, shape (new_batch,)
            Index of the sequence that each new one continues.

        Returns
        -------
        KVCache
            With as many sequences as `rows`.

        Raises
        ------
        TypeError
            If `rows` are not integers.
        ValueError
            If `rows` do not have one axis, or, where it can be read, one is not a sequence.

        Examples
        --------
        >>> cache, _ = KVCache.empty(2, 8).step([[1, 1, 1], [0, 1, 1]])
        >>> cache.take([1, 1, 0]).lengths
        array([2, 2, 3])
        """
        space = space_of(like=self._like)
        given = _numbers("rows", rows)
        if given.ndim != 1 or given.shape[0] == 0:
            what = "have shape (batch,), with one sequence or more"
            raise wrong_value("rows", what, tuple(given.shape))
        xp, given, lengths, oldest = self._read(given, space)
        if xp is np and not ((given >= 0) & (given < len(lengths))).all():
            raise wrong_value("rows", f"be from 0 to {len(lengths) - 1}", given.tolist())
        return self._with(xp.take(lengths, given), xp.take(oldest, given))

    def _with(self, lengths: Any, oldest: Any) -> "KVCache":
        cache = copy(self)
        checks.set_fields(cache, lengths=frozen_integers(lengths), _oldest=frozen_integers(oldest))
        return cache

    @property
    def _ring(self) -> int:
        """Number of slots that new tokens take the place of old ones in."""
        return self.capacity - self.sinks

    @property
    def _window(self) -> int:
        """Number of newest keys that a query sees."""
        return self.window or self._ring

    @property
    def _is_ring(self) -> bool:
        return self.window is not None or self.sinks > 0

    @property
    def _axes(self) -> tuple[int, int]:
        """Axes of features and slots, as they are counted where none are given."""
        feature, seq = axes.or_first(self.feature_axis, self.seq_axis)
        return feature, seq

    @property
    def _is_batch_first(self) -> bool:
        """Whether sequences come before slots in buffers of four axes."""
        feature, seq = (axis % 4 for axis in self._axes)
        return bool(axes.batch_axis(4, feature, seq) < seq)  # type: ignore[operator]

    def _read(self, given: Any, space: Space) -> tuple[Any, Any, Any, Any]:
        """Return a namespace, and in it what is given, the lengths and the oldest positions.

        It is NumPy if all of them can be read, else the library, which traces.
        """
        arrays = [given, self.lengths, self._oldest]
        xp, on = space.xp, {"dtype": space.integer, "device": space.device}
        if all(isinstance(a, np.ndarray) or space.is_readable(a) for a in arrays):
            xp, on = np, {"dtype": np.int64}
            arrays = [a if isinstance(a, np.ndarray) else space.to_numpy(a) for a in arrays]
        given, lengths, oldest = (xp.asarray(a, **on) for a in arrays)
        return xp, given, lengths, oldest

    def _keys(
        self, before: Any, after: Any, oldest: Any, keep: Any, space: Space, xp: Namespace
    ) -> tuple[Any, Any]:
        """Return the position of each key that `store` returns, -1 if empty, and its source.

        That is the slot which holds it already, or `capacity` and the index of a new token.
        Before and after the tokens are numbers of tokens, (batch or 1, 1).
        """
        size, count = self.capacity, keep.shape[1]
        most = int(after.max()) if xp is np else size + 1
        overwrites = count > 1 and most > size
        if space.can_write:  # without the empty slots at the end
            size = min(size, max(1, most))
        slots = xp.arange(size, dtype=before.dtype)[None, :]
        newest = after - 1 - xp.remainder(after - 1 - slots, self._ring)
        positions = xp.where(slots < self.sinks, slots, newest)
        if overwrites:
            # What the first new tokens see, and later ones overwrite.
            older = before + 1 - self._ring + xp.arange(count - 1, dtype=before.dtype)[None, :]
            their = self.sinks + xp.remainder(older - self.sinks, self._ring)
            older = xp.where(older < after - self._ring, older, -1)
            slots = xp.concat([xp.broadcast_to(slots, positions.shape), their], axis=1)
            positions = xp.concat([positions, older], axis=1)
        is_held = (slots < self.sinks) | (positions >= oldest)
        is_held = is_held & (positions >= slots) & (positions < after)
        order = xp.argsort(1 - keep, axis=1, stable=True)  # padding last
        token = xp.take_along_axis(order, xp.clip(positions - before, 0, count - 1), axis=1)
        is_new = is_held & (positions >= before)
        source = xp.where(is_new, self.capacity + token, slots)
        return xp.where(is_held, positions, -1), source

    def _in_library(self, positions: Array, space: Space) -> Any:
        """Return positions (batch, seq) in the order of the buffers' axes, in their library."""
        positions = positions if self._is_batch_first else positions.T
        return frozen_integers(
            space.xp.asarray(positions, dtype=space.integer, device=space.device)
        )


@dataclass(frozen=True, eq=False)
class KVStep(_Value):
    """New tokens of a `KVCache`: their positions, and what stores their keys and values.

    `KVCache.step` makes it.

    Parameters
    ----------
    positions : array of int, shape (seq, batch) or (batch, seq)
        Position of each new token, for `RoPE` and attention. The batch is 1 if it is the same for
        all sequences. Padding has the position of the token before it, or 0.
    key_positions : array of int, shape (keys, batch) or (batch, keys)
        Position of each key that `store` returns, for attention; -1 where a slot is empty.

    Examples
    --------
    >>> import numpy as np
    >>> _, step = KVCache.empty(2, 8).step(3)
    >>> step.positions.shape
    (3, 1)
    >>> buffer, keys = step.store(np.zeros((64, 8, 2)), np.ones((64, 3, 2)))
    >>> buffer.shape, keys.shape
    ((64, 8, 2), (64, 3, 2))
    """

    positions: Array = array_field()
    key_positions: Array = array_field()
    # Before the step.
    _cache: Any = field(init=False, metadata={"part": True})
    # Where the key of each slot comes from.
    _source: Any = field(init=False, metadata={"weight": True})
    # What to write, if that suffices.
    _runs: tuple[Run, ...] | None = field(init=False)
    # Both positions, (position, batch or 1), if the host has them.
    _on_host: Any = field(default=None, init=False, compare=False)
    # What is known of calls with arrays of NumPy.
    _known: Any = field(default=None, init=False, compare=False)
    # The lengths before and after the step, if they are known.
    _lengths: Any = field(default=None, init=False, compare=False)

    def __repr__(self) -> str:
        positions, keys = shown(self.positions), shown(self.key_positions)
        return f"KVStep(positions=<{positions}>, key_positions=<{keys}>)"

    def store(self, buffer: ArrayT, new: AnyArray, /) -> tuple[ArrayT, ArrayT]:
        """Store the keys or the values of the new tokens, and return all to attend to.

        Once for each buffer, whose last tokens are those before the step. An array of NumPy, CuPy
        and PyTorch is known by its memory, and refused if another step has stored in it since.

        Parameters
        ----------
        buffer : array
            Keys or values so far, with `capacity` slots on `seq_axis`, or more, of which the first
            ones are read. It is written to if its library can.
        new : array
            Keys or values of the new tokens: the shape of `buffer` with the tokens on `seq_axis`.

        Returns
        -------
        buffer : array
            The buffer for the next step: the same one if it could be written to.
        keys : array
            Keys or values at `key_positions`: `buffer` or a part of it, but for a chunk in a ring,
            whose tokens also see keys that it overwrites. Where a trace does not know the lengths,
            both are NaN for a sequence with more tokens than a cache that is no ring has slots, if
            their dtype has it.

        Raises
        ------
        TypeError
            If the arrays come from different libraries, or their dtypes differ.
        ValueError
            If the shapes do not fit; where it can be known, if this step has stored in `buffer`
            already, or the last tokens in it are not those before the step.

        Examples
        --------
        >>> import numpy as np
        >>> buffer = np.zeros((4, 8, 1))  # (head, slots, batch)
        >>> _, step = KVCache.empty(1, 8).step(2)
        >>> buffer, keys = step.store(buffer, np.ones((4, 2, 1)))
        >>> keys[0, :, 0]
        array([1., 1.])
        >>> buffer[0, :, 0]
        array([1., 1., 0., 0., 0., 0., 0., 0.])
        """
        given: Any = buffer
        key = numpy_key(new, buffer)  # which tells whether the buffer can be written to
        found = once(self._known, key, lambda: self._fit(buffer, new))
        space, seq, batch, writes, read = found
        self._follow(buffer, space)
        if writes is not None:
            for at, part in writes:
                given[at] = new[part]
            return buffer, given[read]
        keys: Any = self._gather(space.xp.concat([given[read], new], axis=seq), seq, batch, space)
        if space.can_write:
            given[read] = keys[read]
            return buffer, keys
        kept, capacity = keys[read], self._cache.capacity
        if buffer.shape[seq] > capacity:
            rest = given[(*(slice(None),) * seq, slice(capacity, None), ...)]
            kept = space.xp.concat([kept, rest], axis=seq)
        return kept, keys

    def _follow(self, buffer: Array, space: Space) -> None:
        """Check that a buffer, if its memory is known, ends where the step begins; move its end."""
        if self._lengths is None or space.is_compiling:
            return
        before, after = self._lengths
        owner, end = self._cache._stored.get(id(buffer), (None, None))
        if owner is None or owner() is not buffer:
            end = self._end_of(buffer, space)
        last = before if end is None else end[0]
        if last is after:
            what = "be another one for keys, for values and for each layer"
            raise wrong_value("buffer", what, "one that this step has stored in already", _TWICE)
        if last is not None and last is not before and not np.array_equal(last, before):
            is_ahead = bool(np.any(last > before))
            came = f"one of {last.tolist()} tokens for a step after {before.tolist()}"
            hint = _AHEAD if is_ahead else _BEHIND
            raise wrong_value("buffer", "hold the tokens before the step", came, hint)
        if end is not None:
            end[0] = after

    def _end_of(self, buffer: Array, space: Space) -> list[Any] | None:
        """Return what holds the lengths after the last step that has stored in the same memory."""
        stored, address = self._cache._stored, space.address(buffer)
        if not address:  # 0 of no memory
            return None
        owner, end = stored.get((address,), (None, None))
        if owner is None or owner() is None:
            base = getattr(buffer, "base", getattr(buffer, "_base", None))
            owner, end = ref(base if isinstance(base, type(buffer)) else buffer), [None]
            keep(stored, (address,), (owner, end), _MOST_BUFFERS)
        keep(stored, id(buffer), (ref(buffer), end), _MOST_BUFFERS)
        return end  # type: ignore[no-any-return]

    def _fit(self, buffer: Array, new: Any) -> tuple[Any, ...]:
        """Check a buffer and what is new, and return their space and axes, and what to do.

        That is the parts of the buffer to write, with the parts of `new`, and the part to read;
        None to write and all slots if keys have to be gathered.
        """
        cache = self._cache
        space = space_of(buffer=buffer, new=new, **{POSITIONS: cache._like})
        seq, batch = self._check(buffer, new)

        def part(start: int, count: int, row: int = 0, rows: int = 1) -> tuple[slice, ...]:
            # Heads and batch may share an axis, the batch last.
            slices = {batch: slice(row, None, rows), seq: slice(start, start + count)}
            return tuple([slices.get(axis, slice(None)) for axis in range(buffer.ndim)])

        if self._runs is None or not space.can_write:
            return space, seq, batch, None, part(0, cache.capacity)
        rows, used = self._source.shape
        writes = [
            (part(slot, n, row, rows), part(token, n, row, rows))
            for row, slot, token, n in self._runs
        ]
        return space, seq, batch, writes, part(0, used)

    def _check(self, buffer: Array, new: Any) -> tuple[int, int]:
        """Check a buffer and what is new, and return the axes of slots and sequences."""
        cache, shape = self._cache, list(buffer.shape)
        own = cache.feature_axis, cache.seq_axis
        feature, seq = axes.feature_and_seq_axis(*own, buffer, "buffer", "Make the cache with")
        batch, rows = axes.batch_axis(buffer.ndim, feature, seq), cache.lengths.shape[0]

        came = f"shape {tuple(shape)}"
        if batch is None:
            raise wrong_value("buffer", "have an axis of sequences", came)
        if (batch < seq) != cache._is_batch_first:
            what = "have the sequences on the same side of the slots as with 4 axes"
            raise wrong_value("buffer", what, came)
        if shape[seq] < cache.capacity:
            what = f"have {cache.capacity} slots (`capacity`) on axis {seq}"
            raise wrong_value("buffer", what, came)
        if shape[batch] % rows or (shape[batch] != rows and (len(shape), batch) != (3, 2)):
            raise wrong_value("buffer", f"have {rows} sequences on axis {batch}", came)
        shape[seq] = self.positions.shape[int(cache._is_batch_first)]
        if tuple(new.shape) != tuple(shape):
            raise wrong_value("new", f"have shape {tuple(shape)}", tuple(new.shape), _NEW)
        if new.dtype != buffer.dtype:
            required = f"have the dtype of `buffer`, {dtypes.dtype_name(buffer.dtype)}"
            raise wrong_type("new", required, dtypes.dtype_name(new.dtype))
        if not getattr(getattr(buffer, "flags", None), "writeable", True):
            raise wrong_value("buffer", "be an array that can be written to", "a read-only one")
        return seq, batch

    def _gather(self, known: Any, seq: int, batch: int, space: Space) -> Any:
        """Return the keys that queries attend to, of a buffer with the new ones after it."""
        xp, source = space.xp, self._source
        rows, length = source.shape
        shape = (*known.shape[:seq], length, *known.shape[seq + 1 :])
        if isinstance(source, np.ndarray):
            before = (slice(None),) * batch
            # Heads and batch may share an axis, the batch last.
            on = {"dtype": space.integer, "device": space.device}
            taken = [
                xp.take(
                    known[(*before, slice(i, None, rows), ...)], xp.asarray(own, **on), axis=seq
                )
                for i, own in enumerate(source)
            ]
            return taken[0] if rows == 1 else space.reshape(xp.stack(taken, axis=batch + 1), shape)
        source = xp.tile(source, (shape[batch] // rows, 1))
        index = axes.expand_to_axes(source, (batch, seq), known.ndim, xp)
        at = xp.broadcast_to(xp.where(index < 0, 0, index), shape)
        taken = xp.take_along_axis(known, at, axis=seq)
        if self._cache._is_ring or not dtypes.is_real_floating(known.dtype, xp):
            return taken
        return namespace.select(index >= 0, taken, float("nan"), xp)

    def _axes_of(self, q: Array, feature_axis: Any, seq_axis: Any) -> tuple[int, int]:
        """Return the axes of an attention counted from 0: those of the buffers."""
        cache = self._cache
        given = (("feature_axis", feature_axis), ("seq_axis", seq_axis))
        feature, seq = (getattr(cache, name) if n is None else n for name, n in given)
        found = axes.feature_and_seq_axis(feature, seq, q, "q")
        for (name, n), at, own in zip(given, found, cache._axes, strict=True):
            if at != own % q.ndim:
                what = f"be left out, or {own} as in the cache of `positions`"
                raise wrong_value(name, what, n, " Make the cache with the axes of its buffers.")
        return found

    def _places_of(self, q: Array, k: Array, seq: int, space: Space) -> Places:
        """Return the positions of queries and keys in an attention, for as many as these are."""
        cache, queries, keys = self._cache, self.positions, self.key_positions
        if cache._is_batch_first:
            queries, keys = queries.T, keys.T
        for name, array, rows in (("q", q, queries), ("k", k, keys)):
            if checks.known_to_differ(array.shape[seq], rows.shape[0]):
                what = f"have {rows.shape[0]} tokens on axis {seq}, as the step in `positions`"
                hint = _NEW if name == "q" else " Pass the keys that `store` returns."
                raise wrong_value(name, what, f"shape {tuple(array.shape)}", hint)
        # PyTorch would compile for each length anew.
        on_host = None if space.is_compiling else self._on_host
        ring = Ring(cache.sinks, cache._window) if cache._is_ring else None
        sequences = cache.lengths.shape[0]
        return Places(queries, keys, on_host, is_step=True, ring=ring, sequences=sequences)


def _is_several(numbers: Any) -> bool:
    return isinstance(numbers, list | tuple) or getattr(numbers, "shape", ()) != ()


def _numbers(name: str, given: Any, *kinds: str) -> Any:
    """Return integers, or what else is asked for, of a list or an array, as NumPy's if possible."""
    if isinstance(given, list | tuple):
        try:
            given = np.asarray(given) if len(given) else np.zeros(0, dtype=np.int64)
        except ValueError:  # lists of different lengths
            raise wrong_type(name, "be a list of numbers or of lists", shown(given)) from None
    space = space_of(**{name: given})
    if space.is_chunked:
        raise wrong_type(name, "be a list or an array in memory", type_name(given))
    if not any(dtypes.is_dtype(given.dtype, kind, space.xp) for kind in kinds or ("integral",)):
        what = "hold integers" + " or booleans" * ("bool" in kinds)
        raise wrong_type(name, what, dtypes.dtype_name(given.dtype))
    return space.to_numpy(given) if space.is_readable(given) else given


def _runs(source: HostArray, capacity: int) -> tuple[Run, ...]:
    """Return neighbouring slots that take neighbouring new tokens."""
    runs: list[Run] = []
    for row, own in enumerate(source):
        slots = np.flatnonzero(own >= capacity)
        gaps = (np.diff(slots) != 1) | (np.diff(own[slots]) != 1)
        parts = (at for at in np.split(slots, np.flatnonzero(gaps) + 1) if at.size)
        runs += [(row, int(at[0]), int(own[at[0]]) - capacity, at.size) for at in parts]
    return tuple(runs)
