"""Which tokens are cached, and the step that stores new ones in the buffers of the caller."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from inspect import Signature
from typing import Annotated, Any

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.weights import ArrayDataclass, array_field
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import get_or_compute, signature_of
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    type_name,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Device, Namespace, np
from positional_embeddings.attention.at_positions import ConcretePositions, ExplicitPositions
from positional_embeddings.attention.slots import NEW_HINT, NewTokens, Slots, Write
from positional_embeddings.attention.store import Branch, BufferAxes, Transition, WritePlan, verify
from positional_embeddings.masks.index_ranges import check_lengths, length_array
from positional_embeddings.masks.mask import frozen_integers

# The name of positions in errors about arrays of two libraries.
POSITIONS_LABEL = "positions` of a cache, whose library is its `xp="

# The way on, in errors, where tokens have no slots.
_FULL_HINT = (
    " Make the cache with as many slots as the longest sequence has tokens, or a `KVCache` with"
    " `window`, the number of newest keys that a query sees: a ring, which forgets the others."
)

# Lengths that a `repr` spells out.
_MAX_LENGTHS_SHOWN = 16


class _Value(ArrayDataclass):
    """Base of values: copies and pickles have read-only arrays, and know of no buffers."""

    def __getstate__(self) -> dict[str, Any]:
        return {n: x for n, x in super().__getstate__().items() if n != "_branch"}

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

    Without `window` and `num_sink_tokens` a cache keeps all tokens, and a full one takes no more.
    Where a trace does not know the lengths, `store` gives NaN for a sequence that is too long.

    With `window` or `num_sink_tokens` it is a ring: new tokens take the slots of the oldest ones,
    but for the first `num_sink_tokens` tokens, which stay. In an attention with ``positions=step``
    each query sees these tokens and the `window` newest keys up to its own, one token at a time and
    in chunks alike, except keys that the mask hides: no later ones, also without a `CausalMask`.
    Arrays and a `ListMask` are refused for chunks.

    Each step stores its tokens after the last ones. To continue an earlier cache in the same
    buffers, `rewind` it by 0. `store` refuses a cache whose tokens they hold no more: a branch that
    another one has overwritten, or a ring that went on.

    Parameters
    ----------
    capacity : int
        Number of slots, positive.
    num_sink_tokens : int, default 0
        Number of first tokens of each sequence that a ring keeps, less than `capacity`.
    window : int, optional
        Number of newest keys that a query of a ring sees, at most ``capacity - num_sink_tokens``,
        which is the default if there are `num_sink_tokens`. A ring with more slots than that can
        `rewind` as many tokens as it has more.
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
    `num_sink_tokens`; Jiang et al. (2023), Mistral 7B, section 2, for the ring.

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
    num_sink_tokens: Annotated[int, checks.non_negative_integer] = 0
    window: Annotated[int | None, checks.optional(checks.axis_length)] = None
    feature_axis: int | None = None
    seq_axis: int | None = None
    lengths: Any = array_field()
    # Position of the oldest token that the ring still has, in each sequence; the first tokens stay.
    _oldest: Array = field(default=None, init=False, metadata={"array": True})
    # `_needed` is the branch of tokens that a buffer must hold, and `_branch` the one that the next
    # step adds to. They are one if a step has made the cache; one that is rewound, taken or copied
    # begins a new `_branch`.
    _needed: Branch | None = field(default=None, init=False, compare=False)
    _branch: Branch | None = field(default=None, init=False, compare=False)
    # Of the library, dtype and device of positions.
    _prototype: Array = field(default=None, init=False, metadata={"array": True})
    _slots: Slots = field(init=False, repr=False)
    # Whether sequences come before slots in buffers of four axes.
    _is_batch_first: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_fields()
        axes.set_axes(self)
        is_ring = self.window is not None or self.num_sink_tokens > 0
        ring = self.capacity - self.num_sink_tokens  # also without one
        if ring <= 0:
            raise wrong_value(
                "num_sink_tokens", f"be below `capacity` = {self.capacity}", self.num_sink_tokens
            )
        if self.window is not None and self.window > ring:
            raise wrong_value(
                "window", f"be at most `capacity` - `num_sink_tokens` = {ring}", self.window
            )
        backend, lengths = length_array("lengths", self.lengths, None, None)
        lengths = as_integer_array("lengths", lengths)
        if lengths.shape[0] == 0:
            raise wrong_value("lengths", "be of one sequence or more", "none")
        bound = checks.max_position(backend), "the farthest position"
        if not is_ring:
            name = "`capacity` (of a cache without `window` and `num_sink_tokens`)"
            bound = self.capacity, name
        check_lengths("lengths", lengths, get_backend(lengths=lengths), *bound)
        oldest = lengths - ring
        feature, seq = axes.axes_in_4d(self)
        checks.set_fields(
            self,
            lengths=frozen_integers(lengths),
            _oldest=frozen_integers(oldest * (oldest > 0)),
            _prototype=_prototype(backend),
            _needed=Branch(),
            _slots=Slots(
                self.capacity, self.num_sink_tokens, (self.window or ring) if is_ring else None
            ),
            _is_batch_first=axes.batch_axis(4, feature, seq) < seq,  # type: ignore[operator]
        )

    @classmethod
    def empty(
        cls,
        batch: int,
        capacity: int,
        num_sink_tokens: int = 0,
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
        capacity, num_sink_tokens, window, feature_axis, seq_axis
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
        backend = backend_for(xp, device)
        lengths = np.zeros(checks.axis_length("batch", batch), dtype=np.int64)
        options = {"feature_axis": feature_axis, "seq_axis": seq_axis, "lengths": lengths}
        cache = cls(capacity=capacity, num_sink_tokens=num_sink_tokens, window=window, **options)
        checks.set_fields(cache, _prototype=_prototype(backend))
        return cache

    def __repr__(self) -> str:
        values = ((f, getattr(self, f.name)) for f in fields(self) if f.init and f.repr)
        options = [f"{f.name}={value}" for f, value in values if value != f.default]
        is_short = isinstance(self.lengths, np.ndarray) and self.lengths.size <= _MAX_LENGTHS_SHOWN
        lengths = self.lengths.tolist() if is_short else f"<{format_value(self.lengths)}>"
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
        backend = get_backend(like=self._prototype)
        first = None if is_sequence(tokens) else self._next_position(backend)
        if first is not None:
            stop = first + checks.axis_length("tokens", tokens)  # type: ignore[arg-type]
            if stop <= self.capacity:
                return self._uniform_step(first, stop, backend)
        new = self._new_tokens(tokens, backend)
        lengths, oldest = new.after[:, 0], new.oldest[:, 0]
        if self._slots.is_ring:
            oldest = new.host.xp.maximum(oldest, lengths - self._slots.ring)
        alike = self.lengths.shape[0] // lengths.shape[0]  # sequences that each row stands for
        if alike > 1:
            lengths, oldest = (new.host.xp.repeat(rows, alike) for rows in (lengths, oldest))
        cache = self._with(lengths, oldest, self._next_branch())
        return cache, self._step_to(cache, new)

    def _next_branch(self) -> Branch:
        """Return the branch that steps go on in."""
        if self._branch is None:
            checks.set_fields(self, _branch=Branch())
        return self._branch  # type: ignore[return-value]

    def _transition(self, branch: Branch, after: Array) -> Transition | None:
        """Return what a step needs, and stores in a branch; None in a trace."""
        if not isinstance(after, np.ndarray):
            return None
        needed = self._needed or Branch(), self.lengths, self._oldest
        return Transition.of(*needed, self._slots, branch, after)

    def _next_position(self, backend: Backend) -> int | None:
        """Return the next position of all sequences.

        None if these differ, in a ring, and where buffers cannot be written to.
        """
        if not isinstance(self.lengths, np.ndarray) or self._slots.is_ring:
            return None
        first, *remaining = {*self.lengths.tolist()}
        return first if backend.is_mutable and not remaining else None

    def _uniform_step(self, first: int, stop: int, backend: Backend) -> tuple["KVCache", "KVStep"]:
        """Return the next cache, and the step of tokens that are alike in all sequences."""
        cache = self._with(np.full(len(self.lengths), stop), self._oldest, self._next_branch())
        queries, keys = np.arange(first, stop)[:, None], np.arange(stop)[:, None]
        step = self._step(
            queries.T,
            keys.T,
            backend_for(),
            backend,
            _on_host=ConcretePositions(queries, keys, first, has_empty=False),
            _is_joined=False,
            _writes=(Write(0, first, 0, stop - first),),
            _source=None,
            _transition=self._transition(self._next_branch(), cache.lengths),
        )
        return cache, step

    def _new_tokens(self, tokens: Array, backend: Backend) -> NewTokens:
        """Check the tokens of a step, and return them at their positions."""
        mask: Array = None
        state = [self.lengths, self._oldest]
        if is_sequence(tokens):
            mask, batch = (
                as_integer_array("tokens", tokens, "bool", "integral"),
                self.lengths.shape[0],
            )
            if len(mask.shape) != 2 or mask.shape[0] != batch or mask.shape[1] == 0:
                raise wrong_value("tokens", f"have shape ({batch}, seq)", tuple(mask.shape))
            host, (lengths, oldest, mask) = in_one_library(backend, *state, mask)
            if host.has_host_arrays and not ((mask == 0) | (mask == 1)).all():
                raise wrong_value("tokens", "hold 1 at tokens and 0 at padding", "other numbers")
            before, oldest = lengths[:, None], oldest[:, None]
            positions = before + host.xp.cumulative_sum(mask, axis=1) - 1
        else:
            count = checks.axis_length("tokens", tokens)
            host, (lengths, oldest) = in_one_library(backend, *state)
            are_alike = host.has_host_arrays and (
                len({*lengths.tolist()}) == len({*oldest.tolist()}) == 1
            )
            rows = slice(1 if are_alike else None)
            before, oldest = lengths[rows, None], oldest[rows, None]
            count_options = {"dtype": lengths.dtype, "device": host.device}
            positions = before + host.xp.arange(count, **count_options)[None, :]
        after = positions[:, -1:] + 1
        if mask is not None:
            positions = host.xp.where(positions < 0, 0, positions)
        bound = max(after[:, 0].tolist()) if host.has_host_arrays else None
        new = NewTokens(self._slots, before, after, oldest, positions, mask, bound, host, backend)
        if bound is not None:
            self._check_capacity(new, bound)
        return new

    def _check_capacity(self, new: NewTokens, bound: int) -> None:
        """Check that new tokens have slots, and positions that integers hold."""
        is_ring = self._slots.is_ring
        limit = checks.max_position(new.backend) if is_ring else self.capacity
        if bound <= limit:
            return
        requirement, hint = f"keep positions below {limit}", ""
        if not is_ring:
            requirement = f"fit into the slots that `capacity` = {limit} leaves"
            hint = _FULL_HINT + NEW_HINT
        row = int(np.argmax(new.after))
        held = int(new.before[row, 0])
        raise wrong_value(
            "tokens", requirement, f"{bound - held} after {held} at index {row}", hint
        )

    def _step_to(self, cache: "KVCache", new: NewTokens) -> "KVStep":
        """Return the step to the next cache."""
        queries, keys, is_concrete = new.positions, new.key_positions(), new.max_length is not None
        is_written = is_concrete and new.backend.is_mutable
        on_host = ConcretePositions.of(queries.T, keys.T) if is_concrete else None
        if on_host is not None and new.mask is not None and not new.before.any():
            on_host = on_host._replace(is_token=new.mask.astype(bool))
        moved = new.targets if new.backend.supports_put else new.source
        return self._step(
            queries,
            keys,
            new.host,
            new.backend,
            _on_host=on_host,
            _is_joined=new.is_joined,
            _writes=tuple(new.writes()) if is_written else None,
            _source=None if is_written else moved(),
            _transition=self._transition(self._next_branch(), cache.lengths),
        )

    def _step(
        self, positions: Array, key_positions: Array, host: Backend, backend: Backend, **fields: Any
    ) -> "KVStep":
        """Return a step at positions (batch or 1, token) and (batch or 1, key) of a backend."""
        rows = [positions, key_positions]
        if not (host.has_host_arrays and backend.has_host_arrays):
            both = host.xp.concat(rows, axis=1)
            both = backend.xp.asarray(
                both, dtype=backend.int_dtype, device=backend.device
            )  # at one upload
            count = positions.shape[1]
            rows = [both[:, :count], both[:, count:]]
        if not self._is_batch_first:
            rows = [x.T for x in rows]
        queries, keys = map(frozen_integers, rows)
        step = object.__new__(KVStep)
        arrays = {"positions": queries, "key_positions": keys}
        checks.set_fields(step, **arrays, _cache=self, _plans={}, _last={}, **fields)
        return step

    def rewind(self, counts: int | Sequence[int] | AnyArray, /) -> "KVCache":
        """Return the cache without its last tokens, such as refused drafts.

        Steps of the result may overwrite later tokens in the buffers, whose caches are refused
        then. Rewind an earlier cache by 0 to continue it, in a ring while it has the keys of the
        next query.

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
        listed = counts if is_sequence(counts) else [checks.integer("counts", counts)]  # type: ignore[arg-type]
        numbers = as_integer_array("counts", listed)
        if tuple(numbers.shape) not in ((1,), tuple(self.lengths.shape)):
            requirement = f"have shape {tuple(self.lengths.shape)}"
            raise wrong_value("counts", requirement, tuple(numbers.shape))
        backend = get_backend(like=self._prototype)
        host, (numbers, lengths, oldest) = in_one_library(
            backend, numbers, self.lengths, self._oldest
        )
        after = lengths - numbers
        if host.has_host_arrays:
            for i, (count, bound) in enumerate(zip(lengths - after, lengths, strict=True)):
                if not 0 <= count <= bound:
                    raise wrong_value("counts", f"be from 0 to {bound}", f"{count} at index {i}")
            if numbers.any() and (count := self._slots.overwritten(oldest, after)):
                requirement = "leave the keys that the next query needs"
                actual = (
                    f"{format_value(numbers.tolist())}: the ring has overwritten {count} of them"
                )
                hint = " Make it with a `capacity` above `window`, or a DecoderCache with `drafts`."
                raise wrong_value("counts", requirement, actual, hint)
        return self._with(after, host.xp.minimum(oldest, after))

    def take(self, rows: Sequence[int] | AnyArray, /) -> "KVCache":
        """Return the cache of some sequences, such as the best beams.

        The buffers have to be taken in the same way, along their batch, as new arrays: `store`
        refuses those from which rows were not taken, unless `rows` are all in their order.

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
        indices = as_integer_array("rows", rows)
        if indices.ndim != 1 or indices.shape[0] == 0:
            requirement = "have shape (batch,), with one sequence or more"
            raise wrong_value("rows", requirement, tuple(indices.shape))
        backend = get_backend(like=self._prototype)
        host, (indices, lengths, oldest) = in_one_library(
            backend, indices, self.lengths, self._oldest
        )
        if host.has_host_arrays and not ((indices >= 0) & (indices < len(lengths))).all():
            raise wrong_value("rows", f"be from 0 to {len(lengths) - 1}", indices.tolist())
        xp = host.xp
        taken = self._with(xp.take(lengths, indices), xp.take(oldest, indices))
        if not (host.has_host_arrays and np.array_equal(indices, range(len(lengths)))):
            checks.set_fields(taken, _needed=Branch())  # which no buffer is known to hold
        return taken

    def _with(self, lengths: Array, oldest: Array, branch: Branch | None = None) -> "KVCache":
        """Return a cache of other tokens, and the branch it goes on in, if a step makes it."""
        cache = object.__new__(type(self))
        changed = {"lengths": frozen_integers(lengths), "_oldest": frozen_integers(oldest)}
        branches = {"_needed": branch or self._needed, "_branch": branch}
        checks.set_fields(cache, **(vars(self) | changed | branches))
        return cache


class MadeByCache(ArrayDataclass):
    """Base of steps, which `step` of a cache makes."""

    __signature__ = Signature()

    def __init__(self, *_: Any, **__: Any) -> None:
        message = f"A {type(self).__name__} is made by its cache: cache, step = cache.step(tokens)."
        raise TypeError(message)


@dataclass(frozen=True, eq=False, init=False)
class KVStep(MadeByCache, _Value):
    """New tokens of a `KVCache`: their positions, and what stores their keys and values.

    ``KVCache.step`` makes it.

    Attributes
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
    _cache: KVCache = field(init=False, metadata={"part": True})
    # Whether queries get the keys before the step, joined by the new ones: of a chunk in a ring.
    _is_joined: bool = field(init=False)
    # What to write to buffers. If they cannot be written to, or a trace does not know: slots of
    # the new tokens in a library with `put`, else where slots get their keys from.
    _writes: tuple[Write, ...] | None = field(init=False)
    _source: Array = field(init=False, metadata={"array": True})
    # What the host knows of the positions.
    _on_host: ConcretePositions | None = field(default=None, init=False, compare=False)
    # What is written, and what attends, by the keys of calls with arrays of NumPy.
    _plans: dict[Any, Any] | None = field(default=None, init=False, compare=False)
    # What it needs and stores, where the host knows the numbers.
    _transition: Transition | None = field(default=None, init=False, compare=False)
    # The state of the last buffer, "before" and "after" it.
    _last: dict[Any, Any] | None = field(default=None, init=False, compare=False)

    def __repr__(self) -> str:
        positions, keys = format_value(self.positions), format_value(self.key_positions)
        return f"KVStep(positions=<{positions}>, key_positions=<{keys}>)"

    def store(self, buffer: ArrayT, new: AnyArray, /) -> tuple[ArrayT, ArrayT]:
        """Store the keys or the values of the new tokens, and return all to attend to.

        Call it once for each buffer, which must hold the tokens before this step. A buffer of
        NumPy, CuPy and PyTorch is identified by its memory, one of JAX by its object. It is refused
        before anything is written if another step has written to it since; for a cache that was
        rewound, taken or copied, if one has overwritten tokens that the cache needs.

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
            Keys or values at `key_positions`: `buffer` or a part of it; for a chunk that overwrites
            slots of a ring, what was in `buffer` before, which its first tokens see, and then
            `new`. Where a trace does not know the lengths, both are NaN for a sequence with more
            tokens than a cache that is no ring has slots, if their dtype has it.

        Raises
        ------
        TypeError
            If the arrays come from different libraries, or their dtypes differ.
        ValueError
            If the shapes do not fit; where it can be known, if this step has stored in `buffer`
            already, or the tokens before the step are not in it.

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
        return self._write(buffer, new, self._write_plan(buffer, new))

    def _write(self, buffer: Array, new: Array, plan: WritePlan) -> tuple[Any, Any]:
        """Do what `store` does, by the plan of what moves."""
        written: Array = buffer
        joined: Array = None
        backend = plan.axes.backend
        held = verify(buffer, self._transition, backend, self._last)
        has_put = backend.supports_put
        if self._is_joined or not (has_put or plan.writes is not None):
            joined = backend.xp.concat([written[plan.read], new], axis=plan.axes.seq)
        if plan.writes is not None:
            for at, tokens in plan.writes:
                written[at] = new[tokens]
            return buffer, written[plan.read] if joined is None else joined
        may_lack = not (self._cache._slots.is_ring or isinstance(self._source, np.ndarray))
        if has_put:
            capacity = self._cache.capacity if may_lack else None
            stored = plan.axes.put(buffer, new, self._source, capacity)
            if held is not None:
                held.record_in(stored, backend)
            return stored, stored[plan.read] if joined is None else joined
        slots = plan.axes.take(joined, self._source, may_lack=may_lack)
        keys = joined if self._is_joined else slots
        if backend.is_mutable:
            written[plan.read] = slots
            return buffer, keys
        if (length := buffer.shape[plan.axes.seq]) > self._cache.capacity:
            remainder = plan.axes.part(self._cache.capacity, length)
            slots = backend.xp.concat([slots, written[remainder]], axis=plan.axes.seq)
        if held is not None:
            held.record_in(slots, backend)
        return slots, keys

    def _seen(self, buffer: Array, new: Array, plan: WritePlan) -> Array:
        """Return an array like what queries will get, to check an attention before `new` moves."""
        seen = buffer[plan.read]
        if self._is_joined:
            seen = plan.axes.backend.xp.concat([seen, new], axis=plan.axes.seq)
        return seen

    def _write_plan(self, buffer: Array, new: Array) -> WritePlan:
        """Return what to write to a buffer and what to read of it, as the plan of their form."""
        key: Any = signature_of(buffer, new)
        key = None if buffer is None else key and (*key, buffer.flags.writeable)
        return get_or_compute(self._plans, key, lambda: self._checked_plan(buffer, new))

    def _checked_plan(self, buffer: Array, new: Array) -> WritePlan:
        """Check a buffer and what is new, and return what to write and to read."""
        cache, buffer_axes = self._cache, self._checked_axes(buffer, new)
        seq = int(cache._is_batch_first)  # axis of the sequence in positions
        size, writes = cache.capacity, None
        if self._writes is not None and buffer_axes.backend.is_mutable:
            size = self.key_positions.shape[seq]
            size -= self.positions.shape[seq] if self._is_joined else 0
            rows = self.positions.shape[1 - seq]
            writes = [
                (buffer_axes.part(slot, n, row, rows), buffer_axes.part(token, n, row, rows))
                for row, slot, token, n in self._writes
            ]
        return WritePlan(buffer_axes, writes, buffer_axes.part(0, size))

    def _checked_axes(self, buffer: Array, new: Array) -> BufferAxes:
        """Check a buffer and what is new, and return the axes of slots and sequences."""
        cache = self._cache
        backend = get_backend(buffer=buffer, new=new, **{POSITIONS_LABEL: cache._prototype})
        shape = list(buffer.shape)
        feature, seq = axes.feature_and_seq_axis(
            cache.feature_axis, cache.seq_axis, buffer, "buffer", "Make the cache with"
        )
        batch: Any = axes.batch_axis(buffer.ndim, feature, seq)
        rows, requirement = cache.lengths.shape[0], ""
        if batch is None:
            requirement = "have an axis of sequences"
        elif (batch < seq) != cache._is_batch_first:
            requirement = "have the sequences on the same side of the slots as with 4 axes"
        elif shape[seq] < cache.capacity:
            requirement = f"have {plural(cache.capacity, 'slot')} (`capacity`) on axis {seq}"
        elif shape[batch] % rows or (shape[batch] != rows and (len(shape), batch) != (3, 2)):
            requirement = f"have {plural(rows, 'sequence')} on axis {batch}"
        if requirement:
            raise wrong_value("buffer", requirement, f"shape {tuple(shape)}")
        shape[seq] = self.positions.shape[int(cache._is_batch_first)]
        if tuple(new.shape) != tuple(shape):
            raise wrong_value("new", f"have shape {tuple(shape)}", tuple(new.shape), NEW_HINT)
        if new.dtype != buffer.dtype:
            required = f"have the dtype of `buffer`, {dtypes.dtype_name(buffer.dtype)}"
            raise wrong_type("new", required, dtypes.dtype_name(new.dtype))
        if not getattr(getattr(buffer, "flags", None), "writeable", True):
            raise wrong_value("buffer", "be an array that can be written to", "a read-only one")
        return BufferAxes(seq, batch, buffer.ndim, backend)

    def _axes_of(self, q: Array, feature_axis: int | None, seq_axis: int | None) -> tuple[int, int]:
        """Return the axes of an attention counted from 0, which the buffers have."""
        cache = self._cache
        feature = cache.feature_axis if feature_axis is None else feature_axis
        seq = cache.seq_axis if seq_axis is None else seq_axis
        indices = axes.feature_and_seq_axis(feature, seq, q, "q")
        if feature_axis is None and seq_axis is None:
            return indices
        cache_axes = axes.default_axes(cache.feature_axis, cache.seq_axis)
        options = ("feature_axis", feature_axis), ("seq_axis", seq_axis)
        for (name, axis), index, axis_of_cache in zip(options, indices, cache_axes, strict=True):
            if index != axis_of_cache % q.ndim:
                requirement = f"be left out, or {axis_of_cache} as in the cache of `positions`"
                raise wrong_value(
                    name, requirement, axis, " Make the cache with the axes of its buffers."
                )
        return indices

    def _positions_for(self, q: Array, k: Array, seq: int, backend: Backend) -> ExplicitPositions:
        """Return the positions of queries and keys in an attention, for as many as these are."""
        cache, queries, keys = self._cache, self.positions, self.key_positions
        if cache._is_batch_first:
            queries, keys = queries.T, keys.T
        for name, array, rows in (("q", q, queries), ("k", k, keys)):
            if checks.lengths_differ(array.shape[seq], rows.shape[0]):
                tokens = plural(rows.shape[0], "token")
                requirement = f"have {tokens} on axis {seq}, as the step in `positions`"
                hint = NEW_HINT if name == "q" else " Pass the keys that `store` returns."
                raise wrong_value(name, requirement, f"shape {tuple(array.shape)}", hint)
        # PyTorch would compile for each length anew.
        on_host = None if backend.is_compiling else self._on_host
        return ExplicitPositions(queries, keys, on_host, cache._slots)


def is_sequence(numbers: Any) -> bool:
    """Tell whether there is a list or an array, rather than a number."""
    return isinstance(numbers, list | tuple) or getattr(numbers, "shape", ()) != ()


def as_integer_array(name: str, values: Array, *kinds: str) -> Array:
    """Return integers, or what else is asked for, of a list or an array, as NumPy's if possible."""
    numbers: Array = values
    if isinstance(values, list | tuple):
        try:
            numbers = np.asarray(values) if len(values) else np.zeros(0, dtype=np.int64)
        except ValueError:  # lists of different lengths
            raise wrong_type(
                name, "be a list of numbers or of lists", format_value(values)
            ) from None
    backend = get_backend(**{name: numbers})
    if backend.is_chunked:
        raise wrong_type(name, "be a list or an array in memory", type_name(numbers))
    if not any(dtypes.is_dtype(numbers.dtype, kind, backend.xp) for kind in kinds or ("integral",)):
        requirement = "hold integers" + " or booleans" * ("bool" in kinds)
        raise wrong_type(name, requirement, dtypes.dtype_name(numbers.dtype))
    return backend.to_numpy(numbers) if backend.is_concrete(numbers) else numbers


def in_one_library(backend: Backend, *arrays: Array) -> tuple[Backend, list[Array]]:
    """Return a backend, and the arrays as its integers.

    It is NumPy's if the host can read all arrays, else the passed one, which traces.
    """
    if all(isinstance(x, np.ndarray) or backend.is_concrete(x) for x in arrays):
        on_host = [x if isinstance(x, np.ndarray) else backend.to_numpy(x) for x in arrays]
        return backend_for(), [np.asarray(x, dtype=np.int64) for x in on_host]
    on = {"dtype": backend.int_dtype, "device": backend.device}
    return backend, [backend.xp.asarray(x, **on) for x in arrays]


def _prototype(backend: Backend) -> Array:
    """Return an array that tells the library and the device of positions."""
    return backend.xp.zeros(1, dtype=backend.int_dtype, device=backend.device)
