"""Which position is in which slot of the buffers that keep keys and values."""

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Annotated, Any

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.positions import length_array
from positional_embeddings.arrays import memory, namespace
from positional_embeddings.arrays.errors import shown, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Array, ArrayT, Device, HostArray, Namespace, np
from positional_embeddings.arrays.space import new_space, space_of
from positional_embeddings.attention.places import Places, make_places
from positional_embeddings.layers.weights import WeightedLayer, array_field

# The name of positions in errors about arrays of two libraries.
POSITIONS = "positions` of a cache made with `xp="

# Lengths that a `repr` spells out.
_MOST_SHOWN = 16

# A row of the buffer, or None for all; the first slot, the first new token, and their number.
Run = tuple[int | None, int, int, int]


@dataclass(frozen=True, eq=False)
class KVCache(WeightedLayer):
    """The positions of cached keys and values, for all layers that keep the same tokens.

    An immutable value. The keys and values themselves are in buffers of the caller: plain arrays
    of any layout, dtype and library, one for the keys and one for the values of each layer, with
    `capacity` slots on the axis of the sequence. `empty` makes a cache.

    A cache that is smaller than the sequence is a ring: new tokens take the slots of the oldest
    ones, but for the first `sinks` tokens, which stay. A chunk of several tokens still attends to
    the keys that it overwrites, so that its first tokens see more than one token at a time would:
    a mask says which keys a query sees, such as ``CausalMask() | SlidingWindowMask(w - 1, 0)``, and
    the ring only forgets what no mask lets be seen any longer. With sinks that is
    ``CausalMask() | (SlidingWindowMask(w - 1, 0) & GlobalMask(range(sinks)))``.

    Parameters
    ----------
    capacity : int
        Number of slots, positive.
    sinks : int, default 0
        Number of first tokens of each sequence that a ring keeps, less than `capacity`.
    window : int, optional
        Number of newest keys that a query needs, at most ``capacity - sinks``, which it is if
        None. A ring with more slots than that can `rewind` as many tokens as it has more.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and slots in the buffers: -1 and -2 for
        ``(batch, heads, slots, head)``. Positions are (batch, seq) if the batch comes before
        the slots in buffers of four axes, else (seq, batch).
    lengths : list or array of int, shape (batch,)
        Number of tokens of each sequence so far: the position of its next one.

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
    >>> keys = step.store(buffer, np.ones((2, 4, 3, 16)))
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
    feature_axis: int = 0
    seq_axis: int = 1
    lengths: Any = array_field()
    # The lengths, or the ones before a `rewind` if slots still hold tokens that it forgot.
    _newest: Any = field(default=None, init=False, repr=False, metadata={"weight": True})
    # Without elements, of the library and device of positions.
    _like: Any = field(default=None, init=False, repr=False, metadata={"weight": True})

    def __post_init__(self) -> None:
        self.check_fields()
        axes.set_axes(self)
        space, lengths = length_array("lengths", self.lengths, None, None)
        like = space.xp.empty(0, dtype=space.integer, device=space.device)
        lengths = _numbers("lengths", lengths)
        if lengths.shape[0] == 0:
            raise wrong_value("lengths", "be of one sequence or more", "none")
        if isinstance(lengths, np.ndarray):
            lengths = memory.read_only(np.array(lengths, dtype=np.int64))
        checks.set_fields(self, lengths=lengths, _newest=lengths, _like=like)
        if self.sinks >= self.capacity:
            raise wrong_value("sinks", f"be below `capacity` = {self.capacity}", self.sinks)
        if self.window is not None and self.window > self._ring:
            what = f"be at most `capacity` - `sinks` = {self._ring}"
            raise wrong_value("window", what, self.window)

    @classmethod
    def empty(
        cls,
        batch: int,
        capacity: int,
        sinks: int = 0,
        *,
        window: int | None = None,
        feature_axis: int = 0,
        seq_axis: int = 1,
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
        like = space.xp.empty(0, dtype=space.integer, device=space.device)
        checks.set_fields(cache, _like=like)
        return cache

    def __repr__(self) -> str:
        given = ((f, getattr(self, f.name)) for f in fields(self) if f.init and f.repr)
        options = [f"{f.name}={value}" for f, value in given if value != f.default]
        is_short = isinstance(self.lengths, np.ndarray) and self.lengths.size <= _MOST_SHOWN
        lengths = self.lengths.tolist() if is_short else f"<{shown(self.lengths)}>"
        return f"KVCache({', '.join(options)}, lengths={lengths})"

    def step(self, tokens: int | Array | Sequence[Any], /) -> tuple["KVCache", "KVStep"]:
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
            can be read, other numbers than 0 and 1.
        """
        space = space_of(like=self._like)
        keep, count = None, 0
        if _is_several(tokens):
            keep = _numbers("tokens", tokens, "bool", "integral")
            batch, shape = self.lengths.shape[0], tuple(keep.shape)
            if len(shape) != 2 or shape[0] != batch or shape[1] == 0:
                raise wrong_value("tokens", f"have shape ({batch}, seq)", shape)
            count = shape[1]
        else:
            count = checks.axis_length("tokens", tokens)  # type: ignore[arg-type]
        (keep, lengths, newest), xp = self._on_host(space, keep, self.lengths, self._newest)
        is_known = xp is np
        is_one = is_known and keep is None and _all_same(lengths) and _all_same(newest)
        before = (lengths[:1] if is_one else lengths)[:, None]
        kept = newest[:1, None] if is_one else newest[:, None]
        rank, order = xp.arange(count, dtype=before.dtype)[None, :], None
        after = before + count
        if keep is not None:
            if is_known and not ((keep == 0) | (keep == 1)).all():
                raise wrong_value("tokens", "hold 1 at tokens and 0 at padding", "other numbers")
            rank = xp.cumulative_sum(keep, axis=1) - 1
            order = xp.argsort(1 - keep, axis=1, stable=True)
            after = before + rank[:, -1:] + 1
        positions = xp.where(before + rank < 0, 0, before + rank)
        key_positions, source = self._slots(before, kept, after, order, xp)
        most = max(int(after.max()), int(kept.max())) if is_known else self.capacity + 1
        runs = None
        if most > self.capacity and count > 1:
            older = self._overwritten(before, kept, after, count, order, xp)
            key_positions = xp.concat([key_positions, older[0]], axis=1)
            source = xp.concat([source, older[1]], axis=1)
        elif is_known:
            runs = _runs(source, self.capacity)
            if most <= self.capacity and space.can_write:  # without the empty slots at the end
                used = max(1, int(after.max()))
                key_positions, source = key_positions[:, :used], source[:, :used]
        newest = xp.maximum(newest, after[:, 0])
        cache = self._with(lengths + (after - before)[:, 0], newest)
        on_host = (positions.T, key_positions.T) if is_known else (None, None)
        step = KVStep(*(self._in_library(own, space) for own in (positions, key_positions)))
        checks.set_fields(step, _cache=self, _count=count, _source=source, _runs=runs)
        checks.set_fields(step, _places=step._make_places(space, on_host), _known={})
        return cache, step

    def rewind(self, counts: int | Sequence[int] | Array, /) -> "KVCache":
        """Return the cache without its last tokens, such as refused drafts.

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
        """
        space = space_of(like=self._like)
        several = counts if _is_several(counts) else [checks.integer("counts", counts)]  # type: ignore[arg-type]
        given = _numbers("counts", several)
        if tuple(given.shape) not in ((1,), tuple(self.lengths.shape)):
            raise wrong_value(
                "counts", f"have shape {tuple(self.lengths.shape)}", tuple(given.shape)
            )
        (given, length, newest), xp = self._on_host(space, given, self.lengths, self._newest)
        after = length - given
        if xp is np:
            for i, (n, most) in enumerate(zip(given + 0 * length, length, strict=True)):
                if not 0 <= n <= most:
                    raise wrong_value("counts", f"be from 0 to {most}", f"{n} at index {i}")
            oldest = after + 1 - (self.window or self._ring), newest - self._ring
            needed, held = (np.minimum(np.maximum(n, self.sinks), after) for n in oldest)
            lost = held - needed
            if given.any() and (lost > 0).any():
                what = "leave the keys that the next query needs"
                came = f"{shown(given.tolist())}: the ring has overwritten {lost.max()} of them"
                hint = " Give `empty` a `window`, and a `capacity` above it."
                raise wrong_value("counts", what, came, hint)
        # Of more tokens than the ring has slots, none of the slots holds an older one.
        return self._with(after, xp.minimum(newest, after + self._ring))

    def take(self, rows: Sequence[int] | Array, /) -> "KVCache":
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
        """
        space = space_of(like=self._like)
        given = _numbers("rows", rows)
        if given.ndim != 1 or given.shape[0] == 0:
            what = "have shape (batch,), with one sequence or more"
            raise wrong_value("rows", what, tuple(given.shape))
        (given, length, newest), xp = self._on_host(space, given, self.lengths, self._newest)
        if xp is np and not ((given >= 0) & (given < len(length))).all():
            raise wrong_value("rows", f"be from 0 to {len(length) - 1}", given.tolist())
        return self._with(xp.take(length, given), xp.take(newest, given))

    def _with(self, lengths: Any, newest: Any) -> "KVCache":
        cache = copy(self)
        checks.set_fields(cache, lengths=_frozen(lengths), _newest=_frozen(newest))
        return cache

    @property
    def _ring(self) -> int:
        """Number of slots that new tokens take the place of old ones in."""
        return self.capacity - self.sinks

    def _on_host(self, space: Space, *arrays: Any) -> tuple[list[Any], Any]:
        """Return arrays as NumPy's, if all can be read; else in the library, which traces."""
        given = [array for array in arrays if array is not None]
        if all(isinstance(array, np.ndarray) or space.is_readable(array) for array in given):
            xp, on = np, {"dtype": np.int64}
            given = [a if isinstance(a, np.ndarray) else space.to_numpy(a) for a in given]
        else:
            xp, on = space.xp, {"dtype": space.integer, "device": space.device}
        found = iter(given)
        return [None if a is None else xp.asarray(next(found), **on) for a in arrays], xp

    def _slots(self, length: Any, newest: Any, after: Any, order: Any, xp: Any) -> tuple[Any, Any]:
        """Return the position in each slot, -1 if it is empty, and where its key comes from.

        A number below `capacity` is the slot that the key is in already; the new tokens follow.
        """
        slots = xp.arange(self.capacity, dtype=length.dtype)[None, :]
        is_sink = slots < self.sinks
        newest_there = after - 1 - xp.remainder(after - 1 - slots, self._ring)
        positions = xp.where(is_sink, slots, newest_there)
        is_held = is_sink | (positions >= length) | (positions >= newest - self._ring)
        is_held = is_held & (positions >= slots) & (positions < after)
        new = self.capacity + _token(positions - length, order, xp)
        source = xp.where(positions < length, slots, new)
        return xp.where(is_held, positions, -1), xp.where(is_held, source, slots)

    def _overwritten(
        self, length: Any, newest: Any, after: Any, count: int, order: Any, xp: Any
    ) -> tuple[Any, Any]:
        """Return as `_slots` the keys that the first new tokens see and later ones overwrite."""
        positions = length + 1 - self._ring + xp.arange(count - 1, dtype=length.dtype)[None, :]
        is_new = positions >= length
        is_held = is_new | (positions >= newest - self._ring)
        is_held = is_held & (positions >= self.sinks) & (positions < after - self._ring)
        slots = self.sinks + xp.remainder(positions - self.sinks, self._ring)
        new = self.capacity + _token(positions - length, order, xp)
        return xp.where(is_held, positions, -1), xp.where(is_held & is_new, new, slots)

    def _in_library(self, positions: Any, space: Space) -> Any:
        """Return positions (batch, seq) in the order of the buffers' axes, in their library."""
        positions = positions if _is_batch_first(self) else positions.T
        return _frozen(space.xp.asarray(positions, dtype=space.integer, device=space.device))


@dataclass(frozen=True, eq=False)
class KVStep(WeightedLayer):
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
    >>> step.store(np.zeros((64, 8, 2)), np.ones((64, 3, 2))).shape
    (64, 3, 2)
    """

    positions: Any = array_field()
    key_positions: Any = array_field()
    # Before the step.
    _cache: Any = field(init=False, repr=False, metadata={"part": True})
    _count: int = field(init=False, repr=False)  # of the new tokens
    # Where the key of each slot comes from.
    _source: Any = field(init=False, repr=False, metadata={"weight": True})
    # What to write, if that suffices.
    _runs: tuple[Run, ...] | None = field(init=False, repr=False)
    # Positions as attention takes them, and what is known of buffers of NumPy.
    _places: Places | None = field(default=None, init=False, repr=False, compare=False)
    _known: Any = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        given = (
            f"{name}=<{shown(getattr(self, name))}>" for name in ("positions", "key_positions")
        )
        return f"KVStep({', '.join(given)})"

    def store(self, buffer: ArrayT, new: Array, /) -> ArrayT:
        """Store the keys or the values of the new tokens, and return all to attend to.

        Once for each buffer: a chunk of a ring overwrites what it has read.

        Parameters
        ----------
        buffer : array
            Keys or values so far, with `capacity` slots on `seq_axis`, or more, of which the first
            ones are read. It is written to if its library can.
        new : array
            Keys or values of the new tokens: the shape of `buffer` with the tokens on `seq_axis`.

        Returns
        -------
        array
            Keys or values at `key_positions`: `buffer` or a part of it, if it could be written to.
            Elsewhere, as in JAX, the first `capacity` slots of the result are the buffer of the
            next step: all of them, unless keys follow that a chunk of tokens overwrites in a ring,
            or might, where a trace does not know the lengths.

        Raises
        ------
        TypeError
            If the arrays come from different libraries, or their dtypes differ.
        ValueError
            If the shapes do not fit.
        """
        given: Any = buffer
        plain = type(given) is type(new) is np.ndarray
        key = (given.dtype, given.shape, new.dtype, new.shape) if plain else None
        known = (self._known or {}).get(key)
        if known is None:
            space = space_of(buffer=given, new=new, **{POSITIONS: self._cache._like})
            known = self._fit(given, new, space)
            memory.keep({} if self._known is None else self._known, key, known)
        space, seq, batch, writes, read = known
        if writes is not None:
            for at, part in writes:
                given[at] = new[part]
            return given[read]  # type: ignore[no-any-return]
        keys: ArrayT = self._gather(
            space.xp.concat([given[read], new], axis=seq), seq, batch, space
        )
        if space.can_write:
            given[read] = keys[read]
        return keys

    def _fit(self, buffer: Any, new: Any, space: Space) -> tuple[Any, ...]:
        """Check a buffer and what is new, and return their space and axes, and what to do.

        That is the parts of the buffer to write, with the parts of `new`, and the part to read;
        None to write and all slots if keys have to be gathered.
        """
        _, seq, batch = _axes(self._cache, buffer)
        self._check(buffer, new, seq, batch)

        def part(start: int, count: int, row: int | None = None) -> tuple[slice, ...]:
            # Heads and batch may share an axis, the batch last.
            rows = slice(row, None, None if row is None else self._cache.lengths.shape[0])
            slices = {batch: rows, seq: slice(start, start + count)}
            return tuple([slices.get(axis, slice(None)) for axis in range(buffer.ndim)])

        if self._runs is None or not space.can_write:
            return space, seq, batch, None, part(0, self._cache.capacity)
        writes = [(part(slot, n, row), part(token, n, row)) for row, slot, token, n in self._runs]
        return space, seq, batch, writes, part(0, self._source.shape[1])

    def _make_places(self, space: Space, on_host: Any = (None, None)) -> Places:
        """Return the positions as (position, batch or 1), with what the host knows of them."""
        queries, keys = self.positions, self.key_positions
        if _is_batch_first(self._cache):
            queries, keys = queries.T, keys.T
        return make_places(queries, keys, on_host, keeps=space.xp is np)

    def _places_of(self, q: Any, k: Any, options: tuple[int, int], space: Space) -> Places:
        """Return the positions of queries and keys in an attention, for as many as these are."""
        # PyTorch would compile for each length anew.
        places = None if space.is_compiling else self._places
        if places is None:
            places = self._make_places(space)
        _, seq = axes.feature_and_seq_axis(*options, q, "q")
        for name, array, rows in (("q", q, places.queries), ("k", k, places.keys)):
            if checks.known_to_differ(array.shape[seq], rows.shape[0]):
                what = f"have {rows.shape[0]} tokens on axis {seq}, as the step in `positions`"
                raise wrong_value(name, what, f"shape {tuple(array.shape)}")
        return places

    def _gather(self, known: Any, seq: int, batch: int, space: Space) -> Any:
        """Return the keys of a buffer and the new ones after it that queries attend to."""
        xp, source = space.xp, self._source
        count, length = source.shape
        if isinstance(source, np.ndarray):
            on = {"dtype": space.integer, "device": space.device}
            taken = []
            for row, own in enumerate(source):
                # Heads and batch may share an axis, the batch last.
                part = known[(*(slice(None),) * batch, slice(row, None, count), ...)]
                taken.append(xp.take(part, xp.asarray(own, **on), axis=seq))
            if count == 1:
                return taken[0]
            shape = [*known.shape]
            shape[seq] = length
            return space.reshape(xp.stack(taken, axis=batch + 1), tuple(shape))
        shape, own = [*known.shape], [1] * known.ndim
        own[batch], own[seq], shape[seq] = count, length, length
        index = xp.reshape(source if batch < seq else source.T, tuple(own))
        return xp.take_along_axis(known, xp.broadcast_to(index, tuple(shape)), axis=seq)

    def _check(self, buffer: Any, new: Any, seq: int, batch: int) -> None:
        """Check the shapes and dtypes of a buffer and of new keys or values."""
        cache, shape = self._cache, list(buffer.shape)
        if (batch < seq) != _is_batch_first(cache):
            what = "have the sequences on the same side of the slots as with 4 axes"
            raise wrong_value("buffer", what, f"shape {tuple(shape)}")
        if shape[seq] < cache.capacity:
            what = f"have {cache.capacity} slots (`capacity`) on axis {seq}"
            raise wrong_value("buffer", what, f"shape {tuple(shape)}")
        rows = cache.lengths.shape[0]
        is_merged = len(shape) == 3 and (seq, batch) == (1, 2)
        if shape[batch] % rows if is_merged else shape[batch] != rows:
            what = f"have {rows} sequences on axis {batch}"
            raise wrong_value("buffer", what, f"shape {tuple(shape)}")
        shape[seq] = self._count
        if tuple(new.shape) != tuple(shape):
            raise wrong_value("new", f"have shape {tuple(shape)}", tuple(new.shape))
        if new.dtype != buffer.dtype:
            dtype = namespace.dtype_name(buffer.dtype)
            required = f"have the dtype of `buffer`, {dtype}"
            raise wrong_type("new", required, namespace.dtype_name(new.dtype))
        if not getattr(getattr(buffer, "flags", None), "writeable", True):
            raise wrong_value("buffer", "be an array that can be written to", "a read-only one")


def _axes(cache: KVCache, buffer: Any) -> tuple[int, int, int]:
    """Return the axes of features, slots and sequences in a buffer."""
    feature, seq = axes.feature_and_seq_axis(cache.feature_axis, cache.seq_axis, buffer, "buffer")
    batch = axes.batch_axis(buffer.ndim, feature, seq)
    if batch is None:
        raise wrong_value("buffer", "have an axis of sequences", f"shape {tuple(buffer.shape)}")
    return feature, seq, batch


def _is_batch_first(cache: KVCache) -> bool:
    """Tell whether sequences come before slots in buffers of four axes."""
    feature, seq = cache.feature_axis % 4, cache.seq_axis % 4
    return bool(axes.batch_axis(4, feature, seq) < seq)  # type: ignore[operator]


def _is_several(numbers: Any) -> bool:
    return isinstance(numbers, list | tuple) or getattr(numbers, "shape", ()) != ()


def _frozen(array: Any) -> Any:
    """Return an array that nobody writes to, if it is NumPy's."""
    return memory.read_only(array) if isinstance(array, np.ndarray) else array


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
    if not any(namespace.is_dtype(given.dtype, kind, space.xp) for kind in kinds or ("integral",)):
        what = "hold integers" + " or booleans" * ("bool" in kinds)
        raise wrong_type(name, what, namespace.dtype_name(given.dtype))
    return space.to_numpy(given) if space.is_readable(given) else given


def _token(rank: Any, order: Any, xp: Any) -> Any:
    """Return the index of a new token, whose `rank` may be out of range; `order` lists tokens."""
    if order is None:
        return rank
    last = order.shape[1] - 1
    rank = xp.where(rank < 0, 0, xp.where(rank > last, last, rank))
    return xp.take_along_axis(order, rank, axis=1)


def _runs(source: HostArray, capacity: int) -> tuple[Run, ...]:
    """Return neighbouring slots that take neighbouring new tokens."""
    runs: list[Run] = []
    for row, own in enumerate(source):
        slots = np.flatnonzero(own >= capacity)
        tokens = own[slots] - capacity
        last = (np.diff(slots) != 1) | (np.diff(tokens) != 1)
        for at in np.split(np.arange(len(slots)), np.flatnonzero(last) + 1):
            if len(at):
                index = None if len(source) == 1 else row
                runs.append((index, int(slots[at[0]]), int(tokens[at[0]]), len(at)))
    return tuple(runs)


def _all_same(numbers: HostArray) -> bool:
    return bool((numbers == numbers[0]).all())
