"""The cached keys and values of the layers of a model, and the step that stores new ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple
from weakref import ref

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import arrays_key, get_or_compute
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device, get_backend
from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    type_name,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.forks import fork_safe_lock
from positional_embeddings.arrays.namespace import (
    AnyArray,
    Array,
    ArrayT,
    Device,
    Dtype,
    HostArray,
    Namespace,
    np,
)
from positional_embeddings.attention.at_positions import (
    ConcretePositions,
    MadeByCache,
    StepPositions,
)
from positional_embeddings.attention.slots import NEW_HINT, NewTokens, Slots
from positional_embeddings.attention.store import BufferAxes, WritePlan
from positional_embeddings.masks.mask import frozen_integers

# Names in errors about arrays of two libraries.
POSITIONS_LABEL = "positions of the cache"
BUFFERS_LABEL = "buffers of the cache"

_FULL_HINT = (
    " Make the cache with a `capacity` of as many tokens as the longest sequence has, or without"
    " `capacity` and with a `window`, the number of newest keys that a query sees."
)
_STALE_HINT = (
    " Go on with the cache that the last `step` or `rewind` returned. To go back to an earlier"
    " cache, rewind it: cache.rewind(0). For two branches, take copy.deepcopy(cache) first."
)
_LOST_HINT = (
    " Take copy.deepcopy(cache) before other tokens are stored; a window goes back by as many"
    " tokens as the cache has `drafts`."
)
_MISSING_HINT = (
    " Call `update` or `attend` of its step once for each layer; to leave out the step, go on from"
    " the cache before it: cache.rewind(0)."
)
_TOKENS_HINT = " Without padding, pass the number of new tokens of a sequence: cache.step(1)."
_COUNTS_HINT = " Pass a number that a trace knows, or an array of shape (batch,) or (1,)."
_RANGE_HINT = (
    " Pass `rewind` counts from 0 to `lengths`, in layers with a window up to `drafts`, and `take`"
    " rows from 0 to one below the number of sequences."
)


class LayerShape(NamedTuple):
    """Sizes of the keys and values of a layer without an `AttentionLayer`."""

    num_kv_heads: int
    head_size: int
    value_size: int
    window: int | None

    def _attend_in_step(self, *_: Any) -> None:
        hint = " Make it with KVCache.empty([AttentionLayer(...), ...]), or call `update`."
        raise wrong_type("cache", "have AttentionLayers", "one of a number of layers", hint)


class CacheForm(NamedTuple):
    """What the caches of a sequence of steps have in common."""

    layers: tuple[Any, ...]  # an AttentionLayer, a LayerShape, or None
    slots: tuple[Slots, ...]  # of each distinct window
    slots_of: tuple[int, ...]  # index of the slots of each layer
    feature_axis: int
    seq_axis: int
    order: tuple[int, ...]  # axes of batch, heads, slots and features in buffers
    num_coordinates: int  # of the positions of the layers, 0 without their axis
    attending: frozenset[int]  # indices of the layers that are not None
    max_length: int  # number of tokens that slots and positions can hold

    @property
    def is_batch_first(self) -> bool:
        """Whether sequences are before slots in buffers."""
        return self.order[0] < self.order[2]

    def shape(self, *lengths: int) -> tuple[int, ...]:
        """Return the shape of an array of some sequences, heads, tokens and features."""
        return tuple([lengths[self.order.index(axis)] for axis in range(4)])


class BufferOwner:
    """The newest of the caches that share buffers, and the caches whose tokens are still there."""

    def __init__(self, cache: "KVCache") -> None:
        self.oldest = cache._oldest  # position of the oldest token in each ring
        self.newest = ref(cache)
        self.intact = [self.newest]

    def pass_to(self, cache: "KVCache") -> None:
        """Make a cache the newest one."""
        self.newest = ref(cache)
        self.intact = [intact for intact in self.intact if intact()] + [self.newest]

    def begin(self, before: "KVCache", after: "KVCache") -> None:
        """Record that a step between two caches begins to store."""
        self.intact = [
            intact
            for intact in self.intact
            if (cache := intact()) and not (cache.lengths > before.lengths).any()
        ]
        held = zip(after._form.slots, self.oldest, after._oldest, strict=True)
        self.oldest = tuple(
            np.maximum(np.minimum(now, before.lengths), then) if slots.is_ring else now
            for slots, now, then in held
        )
        self.pass_to(after)


# Held while the owners of buffers and the layers of a step are changed.
_LOCK = fork_safe_lock()


@dataclass(frozen=True, eq=False, repr=False, init=False)
class KVCache(MadeByCache):
    """The cached keys and values of all layers of a model, and the lengths of its sequences.

    `empty` makes a cache. `step` returns the next cache, and a step that stores keys and values
    in the buffers of the cache. NumPy, CuPy and PyTorch write to the same buffers in each step:
    only the newest cache stores, and an earlier one is refused. `rewind` makes a cache the newest
    one again. `take`, ``copy.deepcopy`` and `pickle` make caches with buffers of their own. In JAX
    each cache has its own arrays.

    Without a window a cache holds all tokens. A layer with a `window` has a ring: new tokens
    overwrite the oldest ones, except the first `num_sink_tokens` tokens. Each query then sees
    these tokens and the `window` newest keys up to its own. With a mask, it also sees the later
    tokens of its step that the mask does not hide, such as those of an image.

    Attributes
    ----------
    lengths : array of int, shape (batch,)
        Number of tokens of each sequence.

    References
    ----------
    Xiao et al. (2024), Efficient Streaming Language Models with Attention Sinks, section 3.2, for
    `num_sink_tokens`; Jiang et al. (2023), Mistral 7B, section 2, for the ring.

    Examples
    --------
    Two layers, two prompts padded on the left, and a token more:

    >>> import numpy as np
    >>> from positional_embeddings import AttentionLayer, CausalMask, RoPE
    >>> axes = {"feature_axis": -1, "seq_axis": -2}
    >>> layer = AttentionLayer(4, 8, rope=RoPE(8, 64, **axes), mask=CausalMask(), **axes)
    >>> cache = KVCache.empty([layer, layer], batch=2, capacity=16)
    >>> for tokens in ([[0, 1, 1], [1, 1, 1]], 1):
    ...     cache, step = cache.step(tokens)
    ...     for number in range(2):
    ...         q, k, v = np.ones((3, 2, 4, step.positions.shape[1], 8))
    ...         output = step.attend(number, q, k, v)
    >>> step.positions[:, 0], output.shape
    (array([2, 3]), (2, 4, 1, 8))
    """

    _form: CacheForm
    _missing: frozenset[int]  # layers that the last step has not stored
    lengths: Array = array_field()
    _buffers: list[Any] = array_field()  # keys and values of each layer, or None
    # Position of the oldest token in each ring; the first tokens stay.
    _oldest: tuple[Array, ...] = array_field()
    # Where positions were passed: by how much the next ones are ahead of the numbers of tokens, and
    # the numbers of tokens after the last step with positions.
    _lead: tuple[Array, ...] = array_field()
    _prototype: Array = array_field()  # of the library and device of positions
    _owner: BufferOwner | None = field(default=None, init=False, compare=False)

    @classmethod
    @compute_on_device
    def empty(
        cls,
        layers: int | Sequence[Any],
        batch: int,
        capacity: int | None = None,
        *,
        num_kv_heads: int | None = None,
        head_size: int | None = None,
        value_size: int | None = None,
        window: int | None = None,
        num_sink_tokens: int = 0,
        drafts: int = 0,
        feature_axis: int | None = None,
        seq_axis: int | None = None,
        xp: Namespace | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
    ) -> "KVCache":
        """Return a cache without tokens.

        Parameters
        ----------
        layers : int, or list or tuple of AttentionLayer or None
            Number of layers of the same sizes; or what the attention of each layer does, as
            `attention_layers` reads it, and None for a layer without attention.
        batch : int
            Number of sequences, positive.
        capacity : int, optional
            Number of tokens of the longest sequence, positive. None if each layer has a window, of
            any length; a window of `capacity` or more overwrites nothing.
        num_kv_heads, head_size, value_size, window, feature_axis, seq_axis : int, optional
            Sizes, window and axes of the layers, if `layers` is a number: as the parameters of
            `AttentionLayer`. `num_kv_heads`, `head_size` and both axes are then required.
        num_sink_tokens : int, default 0
            Number of first tokens that a window keeps, if `layers` is a number.
        drafts : int, default 0
            Number of tokens that `rewind` can take back in layers with a window, 0 or more.
        xp, dtype, device : optional
            Array library (NumPy if None), dtype (its default real dtype if None) and device of
            keys and values.

        Returns
        -------
        KVCache
            With a length of 0 for each sequence.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a number is out of range, there is no layer, or layers have other axes than one
            another.
        """
        backend = backend_for(xp, device)
        dtype = backend.default_float_dtype if dtype is None else dtype
        dtypes.check_real_dtype(dtype, "a real dtype", backend.xp, "integral")
        batch = checks.axis_length("batch", batch)
        capacity = None if capacity is None else checks.axis_length("capacity", capacity)
        drafts = checks.non_negative_integer("drafts", drafts, max_value=2**48)
        sinks = checks.non_negative_integer("num_sink_tokens", num_sink_tokens, max_value=2**48)
        if isinstance(layers, list | tuple):
            sizes: Any = {"num_kv_heads": num_kv_heads, "head_size": head_size, "window": window}
            sizes |= {"value_size": value_size, "num_sink_tokens": num_sink_tokens or None}
            sizes |= {"feature_axis": feature_axis, "seq_axis": seq_axis}
            checks.omitted("where `layers` are AttentionLayers", **sizes)
            feature_axis, seq_axis = _axes_of_layers(layers)
        else:
            number = checks.feature_count("layers", layers)  # type: ignore[arg-type]
            if num_kv_heads is None:
                requirement = "be a positive integer where `layers` is a number"
                hint = " Pass head_size, feature_axis and seq_axis, too, or a list of layers."
                raise wrong_type("num_kv_heads", requirement, "no value", hint)
            heads = checks.feature_count("num_kv_heads", num_kv_heads)
            size = checks.feature_count("head_size", head_size)  # type: ignore[arg-type]
            value_size = size if value_size is None else value_size
            value_size = checks.feature_count("value_size", value_size)
            window = None if window is None else checks.axis_length("window", window)
            if sinks and window is None:
                raise wrong_type("window", "be given with `num_sink_tokens`", "None")
            layers = [LayerShape(heads, size, value_size, window)] * number
        limit = checks.max_position(backend)
        form = _form_of(layers, capacity, sinks, drafts, feature_axis, seq_axis, limit)
        lengths = frozen_integers(np.zeros(batch, dtype=np.int64))
        cache = object.__new__(cls)
        prototype = backend.xp.zeros(1, dtype=backend.int_dtype, device=backend.device)
        checks.set_fields(
            cache,
            lengths=lengths,
            _form=form,
            _buffers=_empty_buffers(form, batch, backend, dtype, device),
            _oldest=(lengths,) * len(form.slots),
            _lead=(),
            _prototype=prototype,
            _missing=frozenset(),
        )
        cache._own_buffers(backend)
        return cache

    def _own_buffers(self, backend: Backend) -> None:
        """Make the cache the only one of its buffers."""
        checks.set_fields(self, _owner=BufferOwner(self) if backend.is_mutable else None)

    def __repr__(self) -> str:
        lengths, layers = self.lengths, plural(len(self._form.layers), "layer")
        capacity = max(slots.capacity for slots in self._form.slots)
        is_host = isinstance(lengths, np.ndarray)
        text = lengths.tolist() if is_host else f"<{format_value(lengths)}>"
        # Trees of JAX that differ are told apart by it.
        missing = f", missing_layers={sorted(self._missing)}" if self._missing else ""
        return f"KVCache(<{layers}>, capacity={capacity}, lengths={text}{missing})"

    def __copy__(self) -> "KVCache":
        return self

    def __getstate__(self) -> dict[str, object]:
        state = {n: x for n, x in super().__getstate__().items() if n != "_owner"}
        return state | {"_oldest": self._check_copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        checks.set_fields(self, **state | {"lengths": frozen_integers(state["lengths"])})
        self._own_buffers(get_backend(like=self._prototype))

    def _check_copy(self) -> tuple[Array, ...]:
        """Check that the buffers hold the tokens; return the oldest ones in rings."""
        check_stored(self._missing)
        self._check_found()
        owner = self._owner
        if owner is None:
            return self._oldest
        with _LOCK:
            is_intact = any(intact() is self for intact in owner.intact)
            oldest = tuple(
                np.minimum(np.maximum(own, now), self.lengths)
                for own, now in zip(self._oldest, owner.oldest, strict=True)
            )
        pairs = zip(self._form.slots, oldest, strict=True)
        overwritten = [slots.overwritten(at, self.lengths, np).any() for slots, at in pairs]
        if not is_intact or any(overwritten):
            requirement = "hold its tokens, to be copied or rewound"
            actual = "one whose tokens a later step has overwritten"
            raise wrong_value("cache", requirement, actual, _LOST_HINT)
        return oldest

    def _backend(self) -> Backend:
        """Return the backend of the arrays, which still have their memory."""
        try:
            return get_backend(like=self._prototype)
        except RuntimeError:  # of a deleted array of JAX
            requirement = "not be donated to a compiled function before"
            hint = " Go on with the cache that this function returned, or do not donate this one."
            raise wrong_value("cache", requirement, "one without memory", hint) from None

    def _check_found(self) -> None:
        """Check that no compiled function has lost a sequence, where lengths can be read."""
        lengths, backend = self.lengths, self._backend()
        if isinstance(lengths, np.ndarray) or not backend.is_concrete(lengths):
            return
        lost = np.flatnonzero(backend.to_numpy(lengths) > checks.max_position(backend))
        if lost.size:
            requirement = "be rewound and taken within range in compiled functions, too"
            actual = f"a count or a row out of range for sequence {lost[0]}"
            raise wrong_value("cache", requirement, actual, _RANGE_HINT)

    def _with(self, **changed: Any) -> "KVCache":
        """Return another cache of the same buffers, in a list of its own."""
        cache = object.__new__(type(self))
        vars(cache).update(vars(self) | {"_buffers": [*self._buffers]} | changed)
        return cache

    # Steps.

    def step(
        self, tokens: int | AnyArray | Sequence[Any], /, positions: AnyArray | None = None
    ) -> tuple["KVCache", "KVStep"]:
        """Return the cache with new tokens, and the step that stores and attends in each layer.

        Parameters
        ----------
        tokens : int, or list or array of int or bool, shape (batch, seq)
            Number of new tokens of each sequence, positive; or a tokenizer's attention mask, 1 at
            tokens and 0 at padding, which may be anywhere.
        positions : array of int, optional
            Positions that queries and keys are rotated to, such as `multimodal_positions` gives:
            of shape (seq,), or (batch, seq) or (seq, batch) in the order of the axes of queries,
            after an axis of coordinates if the layers rotate by several. If None, tokens count on
            from the last ones, in all coordinates. What a query sees, and a bias, go by the order
            of the tokens.

        Returns
        -------
        cache : KVCache
            The cache after these tokens, once all layers have stored them.
        step : KVStep
            The positions of the tokens, and what stores them and attends to them.

        Raises
        ------
        TypeError
            If `tokens` are neither a number nor integers or booleans, or `positions` no integers of
            the library of the cache.
        ValueError
            If the number is not positive, or the mask has another batch, no tokens, or, where it
            can be read, other numbers than 0 and 1; if there are too few slots; if `positions` have
            another shape.
        """
        backend = self._backend()
        new, oldest = self._new_tokens(tokens, backend)
        self._check_capacity(new)
        rows = new.after.shape[0]  # one if the sequences are alike
        lengths = new.host.xp.repeat(new.after[:, 0], self.lengths.shape[0] // rows)
        groups, oldest_after = [], []
        for slots, first in zip(self._form.slots, oldest, strict=True):
            groups.append(self._group(new._replace(slots=slots, oldest=first[:rows, None])))
            if slots.is_ring:
                first = frozen_integers(new.host.xp.maximum(first, lengths - slots.ring))  # noqa: PLW2901
            oldest_after.append(first)
        missing = self._form.attending
        held = tuple(oldest_after)
        cache = self._with(lengths=frozen_integers(lengths), _oldest=held, _missing=missing)
        ordinary = groups[0].positions
        if positions is not None:
            positions = self._checked_positions(positions, ordinary)
            checks.set_fields(cache, _lead=self._lead_after(new.mask, positions, cache.lengths))
        else:
            positions = self._next_positions(ordinary)
        step = object.__new__(KVStep)
        checks.set_fields(
            step,
            positions=positions if positions is ordinary else frozen_integers(positions),
            _cache=cache,
            _groups=tuple(groups),
            _missing_before=self._missing,
            _remaining=missing,
            _before=self,
            _plans={},
        )
        return cache, step

    def _group(self, new: NewTokens) -> StepPositions:
        """Return the positions of new tokens and all keys in slots, as arrays of the backend."""
        backend, host, form = new.backend, new.host, self._form
        queries, is_concrete = new.positions, new.max_length is not None
        on_host: ConcretePositions | None = None
        if is_concrete and new.is_uniform:
            first, stop = int(queries[0, 0]), int(new.after[0, 0])
            keys = np.arange(stop)[None, :]
            on_host = ConcretePositions(queries.T, keys.T, first, has_empty=False)
        else:
            keys = new.key_positions()
            if is_concrete:
                on_host = ConcretePositions.of(queries.T, keys.T)
        is_written = is_concrete and backend.is_mutable
        source = new.targets if backend.supports_put else new.source
        rows = [queries, keys]
        if not (host.is_numpy and backend.is_numpy):
            both = host.xp.concat(rows, axis=1)
            both = backend.xp.asarray(both, dtype=backend.int_dtype, device=backend.device)
            rows = [both[:, : queries.shape[1]], both[:, queries.shape[1] :]]
        if not form.is_batch_first:
            rows = [x.T for x in rows]
        group = object.__new__(StepPositions)
        checks.set_fields(
            group,
            positions=frozen_integers(rows[0]),
            key_positions=frozen_integers(rows[1]),
            _batch=self.lengths.shape[0],
            _feature_axis=form.feature_axis,
            _seq_axis=form.seq_axis,
            _is_batch_first=form.is_batch_first,
            _slots=new.slots,
            _is_joined=new.is_joined,
            _writes=tuple(new.writes()) if is_written else None,
            _source=None if is_written else source(),
            _is_token=new.prompt_tokens(),
            _on_host=on_host,
            _plans={},
        )
        return group

    def _new_tokens(self, tokens: Any, backend: Backend) -> tuple[NewTokens, list[Array]]:
        """Check the tokens of a step; return them at their positions, and the oldest tokens."""
        mask: Array = None
        state = [self.lengths, *self._oldest]
        if is_sequence(tokens):
            mask = as_integer_array("tokens", tokens, "bool", "integral")
            batch = self.lengths.shape[0]
            if len(mask.shape) != 2 or mask.shape[0] != batch or mask.shape[1] == 0:
                shape = tuple(mask.shape)
                raise wrong_value("tokens", f"have shape ({batch}, seq)", shape, _TOKENS_HINT)
            host, (lengths, *oldest, mask) = in_one_library(backend, *state, mask)
            if host.is_numpy and not ((mask == 0) | (mask == 1)).all():
                raise wrong_value("tokens", "hold 1 at tokens and 0 at padding", "other numbers")
            before = lengths[:, None]
            positions = before + host.xp.cumulative_sum(mask, axis=1) - 1
        else:
            number = checks.axis_length("tokens", tokens)
            host, (lengths, *oldest) = in_one_library(backend, *state)
            are_alike = host.is_numpy and all(
                len({*numbers.tolist()}) == 1 for numbers in (lengths, *oldest)
            )
            before = lengths[: 1 if are_alike else None, None]
            options = {"dtype": lengths.dtype, "device": host.device}
            positions = before + host.xp.arange(number, **options)[None, :]
        after = positions[:, -1:] + 1
        if mask is not None:
            positions = host.xp.where(positions < 0, 0, positions)
        bound = max(after[:, 0].tolist()) if host.is_numpy else None
        slots = self._form.slots[0]
        new = NewTokens(slots, before, after, None, positions, mask, bound, host, backend)
        return new, oldest

    def _check_capacity(self, new: NewTokens) -> None:
        """Check that new tokens have slots, and positions that integers hold."""
        bound, limit = new.max_length, self._form.max_length
        if bound is None or bound <= limit:
            return
        self._check_found()
        row = int(np.argmax(new.after))
        held = int(new.before[row, 0])
        actual = f"{bound - held} after {held} at index {row}"
        requirement = f"fit into the slots that `capacity` = {limit} leaves"
        raise wrong_value("tokens", requirement, actual, _FULL_HINT + NEW_HINT)

    def _next_positions(self, ordinary: Array) -> Array:
        """Return the positions that tokens are rotated to, which count on from the last ones."""
        coordinates = self._form.num_coordinates
        if self._lead:
            backend = get_backend(positions=ordinary)
            ahead = backend.xp.asarray(self._lead[0], dtype=ordinary.dtype, device=backend.device)
            ordinary = ordinary + (ahead[:, None] if self._form.is_batch_first else ahead[None, :])
        if not coordinates:
            return ordinary
        return get_backend(positions=ordinary).xp.stack([ordinary] * coordinates)

    def _checked_positions(self, positions: Array, ordinary: Array) -> Array:
        """Check positions, and return them with as many axes as ordinary ones."""
        backend = get_backend(positions=positions, **{POSITIONS_LABEL: ordinary})
        checks.integral("positions", positions, backend.xp)
        is_batch_first, coordinates = self._form.is_batch_first, self._form.num_coordinates
        count, batch = ordinary.shape[int(is_batch_first)], self.lengths.shape[0]
        pairs = [(1, count), (batch, count)] if is_batch_first else [(count, 1), (count, batch)]
        leading = (coordinates,) if coordinates else ()
        without_batch, *with_batch = ((*leading, *shape) for shape in ((count,), *pairs))
        shape = tuple(positions.shape)
        if shape == without_batch:
            return positions[..., None, :] if is_batch_first else positions[..., None]
        if shape not in with_batch:
            requirement = f"have shape {without_batch} or {with_batch[-1]}"
            raise wrong_value("positions", requirement, shape, NEW_HINT)
        return positions

    def _lead_after(self, mask: Array, positions: Array, lengths: Array) -> tuple[Array, ...]:
        """Return by how much the positions after these are ahead, and since which lengths."""
        lead = self._lead or (0 * lengths,) * 2
        arrays = [positions, lengths, *lead] + ([] if mask is None else [mask])
        host, (positions, after, ahead, since, *masks) = in_one_library(
            get_backend(positions=positions), *arrays
        )
        xp = host.xp
        if self._form.num_coordinates:
            positions = xp.max(positions, axis=0)
        if not self._form.is_batch_first:
            positions = positions.T
        has_token = xp.ones_like(after) == 1
        for tokens in masks:  # padding has no place, and without a token all stays
            positions = xp.where(tokens == 1, positions, xp.min(positions))
            has_token = xp.any(tokens == 1, axis=1)
        ahead = xp.where(has_token, xp.max(positions, axis=1) + 1 - after, ahead)
        return ahead, xp.where(has_token, after, since)

    # Other caches.

    def rewind(self, counts: int | Sequence[int] | AnyArray, /) -> "KVCache":
        """Return the cache without its last tokens, such as refused drafts, as the newest cache.

        To go on from an earlier cache, rewind it by 0.

        Parameters
        ----------
        counts : int, or list or array of int, shape (batch,)
            Number of tokens to forget, of all sequences or of each, from 0 to `lengths`.

        Returns
        -------
        KVCache
            With the same buffers. The cache before is refused from then on.

        Raises
        ------
        TypeError
            If `counts` are not integers.
        ValueError
            If `counts` have the wrong shape, or, where they can be read, one is out of range, a
            window has lost keys that the next query needs, or the tokens are some of those whose
            positions were given; if the buffers no longer hold the tokens of the cache.

        Examples
        --------
        >>> axes = {"feature_axis": -1, "seq_axis": -2}
        >>> cache = KVCache.empty(1, 2, 8, num_kv_heads=1, head_size=4, **axes)
        >>> cache, step = cache.step(5)
        >>> keys, values = step.update(0, *np.ones((2, 2, 1, 5, 4)))
        >>> cache.rewind([0, 2]).lengths
        array([5, 3])
        """
        listed: Any = counts
        if not is_sequence(counts):
            listed = [checks.integer("counts", listed, hint=_COUNTS_HINT)]
        numbers = as_integer_array("counts", listed)
        if tuple(numbers.shape) not in ((1,), tuple(self.lengths.shape)):
            requirement = f"have shape {tuple(self.lengths.shape)}"
            raise wrong_value("counts", requirement, tuple(numbers.shape))
        held, backend = self._check_copy(), self._backend()
        host, (numbers, lengths, *oldest) = in_one_library(backend, numbers, self.lengths, *held)
        after = lengths - numbers
        pairs = zip(self._form.slots, oldest, strict=True)
        lost = [slots.overwritten(first, after, host.xp) for slots, first in pairs]
        if host.is_numpy:
            self._check_rewind(lengths, after, int(np.max(lost)), counts)
        else:
            is_lost = (sum(lost) > 0) | (numbers < 0) | (after < 0)
            after = host.xp.where(is_lost, 2 * checks.max_position(backend), after)
        held = tuple([frozen_integers(host.xp.minimum(first, after)) for first in oldest])
        rewound = self._with(lengths=frozen_integers(after), _oldest=held)
        if self._owner is not None:
            with _LOCK:
                self._owner.pass_to(rewound)
        return rewound

    def _check_rewind(self, lengths: HostArray, after: HostArray, lost: int, counts: Any) -> None:
        """Check that the tokens up to lengths `after` can be gone back to."""
        for i, (length, bound) in enumerate(zip(after, lengths, strict=True)):
            if not 0 <= length <= bound:
                actual = f"{int(bound) - int(length)} at index {i}"
                raise wrong_value("counts", f"be from 0 to {bound}", actual)
        if lost:
            requirement = "leave the keys that the next query needs"
            actual = f"{format_value(counts)}: the ring has overwritten {lost} of them"
            hint = " Make the cache with `drafts`, the largest number of tokens to take back."
            raise wrong_value("counts", requirement, actual, hint)
        since = self._lead[1] if self._lead else 0
        if isinstance(since, np.ndarray) and np.any(after < since):
            requirement = "leave all tokens whose `positions` were given"
            hint = " Go on from the cache before that step: rewind it by 0."
            raise wrong_value("counts", requirement, format_value(counts), hint)

    def take(self, rows: Sequence[int] | AnyArray, /) -> "KVCache":
        """Return the cache of some sequences, such as the best beams, with buffers of its own.

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
            If `rows` do not have one axis, or, where it can be read, one is not a sequence; if the
            buffers no longer hold the tokens.
        """
        indices = as_integer_array("rows", rows)
        if indices.ndim != 1 or indices.shape[0] == 0:
            requirement = "have shape (batch,), with one sequence or more"
            raise wrong_value("rows", requirement, tuple(indices.shape))
        oldest, backend = self._check_copy(), self._backend()
        is_lost = (indices < 0) | (indices >= self.lengths.shape[0])
        if isinstance(indices, np.ndarray) and is_lost.any():
            requirement = f"be from 0 to {self.lengths.shape[0] - 1}"
            raise wrong_value("rows", requirement, indices.tolist())
        host, (indices, is_lost, lengths, *arrays) = in_one_library(
            backend, indices, is_lost, self.lengths, *oldest, *self._lead
        )
        indices = host.xp.where(is_lost == 1, 0, indices)
        lengths, *arrays = (host.xp.take(x, indices) for x in (lengths, *arrays))
        lengths = host.xp.where(is_lost == 1, 2 * checks.max_position(backend), lengths)
        held, lead = arrays[: len(oldest)], arrays[len(oldest) :]
        index = backend.xp.asarray(indices, dtype=backend.int_dtype, device=backend.device)
        axis = self._form.order[0]
        buffers = [
            pair and tuple([backend.take_entries(buffer, index, axis) for buffer in pair])
            for pair in self._buffers
        ]
        taken = self._with(
            lengths=frozen_integers(lengths),
            _oldest=tuple(map(frozen_integers, held)),
            _lead=tuple(lead),
            _buffers=buffers,
        )
        taken._own_buffers(backend)
        return taken


@dataclass(frozen=True, eq=False, repr=False, init=False)
class KVStep(MadeByCache):
    """New tokens of a `KVCache`: their positions, and what stores and attends in each layer.

    ``KVCache.step`` makes it.

    Attributes
    ----------
    positions : array of int
        Position of each new token, which queries and keys are rotated to: (batch, seq), or (seq,
        batch) if features come first, after an axis of coordinates if the layers rotate by several.
        The batch is 1 if they are the same for all sequences. Padding has the position of the token
        before it, or 0.

    Examples
    --------
    An attention of one's own:

    >>> import numpy as np
    >>> from positional_embeddings import CausalMask, scaled_dot_product_attention
    >>> axes = {"feature_axis": -1, "seq_axis": -2}
    >>> cache = KVCache.empty(1, 2, 8, num_kv_heads=4, head_size=16, **axes)
    >>> cache, step = cache.step(3)
    >>> q, k, v = np.ones((3, 2, 4, 3, 16))
    >>> keys, values = step.update(0, k, v)
    >>> scaled_dot_product_attention(q, keys, values, mask=CausalMask(), positions=step).shape
    (2, 4, 3, 16)
    """

    _missing_before: frozenset[int]
    _remaining: frozenset[int]  # layers that have not begun to store
    positions: Array = array_field()
    _cache: KVCache = field(init=False, metadata={"part": True})  # after the step
    _groups: tuple[StepPositions, ...] = field(init=False, metadata={"part": True})
    _before: KVCache | None = field(default=None, init=False, compare=False)
    # The tables of each rotary embedding by its `id`, and the plan of layers that are alike
    # by the form of their arrays, if these are NumPy's.
    _plans: dict[Any, Any] | None = field(default=None, init=False, compare=False)

    def __repr__(self) -> str:
        return f"KVStep(positions=<{format_value(self.positions)}>)"

    def __reduce__(self) -> Any:
        message = "A KVStep cannot be copied: copy the cache, and make a step of the copy."
        raise TypeError(message)

    @property
    def key_positions(self) -> Array:
        """Position of each key that `update` returns; -1 where a slot is empty.

        If layers have several windows, ``step.of(layer).key_positions`` has those of a layer.
        """
        return self._only_group().key_positions

    def of(self, layer: int, /) -> StepPositions:
        """Return the positions of queries and keys of a layer, for ``positions=`` of an attention.

        Parameters
        ----------
        layer : int
            Number of the layer, from 0.

        Returns
        -------
        StepPositions
            With `positions` and `key_positions`.
        """
        return self._groups[self._cache._form.slots_of[self._index(layer)]]

    def update(self, layer: int, k: ArrayT, v: AnyArray, /) -> tuple[ArrayT, ArrayT]:
        """Store the keys and values of the new tokens, and return all to attend to.

        Once for each layer.

        Parameters
        ----------
        layer : int
            Number of the layer, from 0.
        k : array, shape (batch, num_kv_heads, seq, head_size)
            Keys of the new tokens, in the dtype of the cache. The axes are in the order of the
            cache, such as (head_size, seq, num_kv_heads, batch).
        v : array, shape (batch, num_kv_heads, seq, value_size)
            Values of the new tokens.

        Returns
        -------
        keys, values : array
            Keys and values at `key_positions`: the buffers or parts of them; for a chunk that
            overwrites slots of a ring, the keys before the step and the new ones. A trace that
            does not know the lengths returns NaN for a sequence with more tokens than slots, or
            whose `rewind` or `take` was out of range. Dtypes without NaN have no such mark.

        Raises
        ------
        TypeError
            If an array is of another library or dtype than the cache.
        ValueError
            If a shape does not fit, or there is no such layer; where it can be known, if the layer
            has stored in this step already, or the cache of the step is not the newest one.
        """
        number = self._index(layer)
        layer_shape = self._cache._form.layers[number]
        heads = layer_shape.num_kv_heads
        arrays = {"k": (k, heads, layer_shape.head_size), "v": (v, heads, layer_shape.value_size)}
        key: Any = arrays_key(k, v)
        key = key and (id(layer_shape), *key)
        plans = self._groups[self._cache._form.slots_of[number]]._plans
        plan = get_or_compute(plans, key, lambda: self._checked_plan(number, arrays))
        return self._store(number, k, v, plan)

    def attend(
        self, layer: int, q: ArrayT, k: AnyArray, v: AnyArray, /, *, sinks: AnyArray | None = None
    ) -> ArrayT:
        """Rotate queries and keys, store keys and values, and attend to all so far.

        Once for each layer of a cache of AttentionLayers.

        Parameters
        ----------
        layer : int
            Number of the layer, from 0.
        q : array, shape (batch, num_heads, seq, head_size)
            Queries of the new tokens, in the dtype of the cache. The axes are in the order that the
            layers have, such as (head_size, seq, num_heads, batch).
        k, v : array
            Keys and values of the new tokens, as for `update`, before rotation.
        sinks : array, shape (num_heads,), optional
            Logits of the sinks, if the layer `has_sinks`.

        Returns
        -------
        array, shape (batch, num_heads, seq, value_size)
            The output of the attention.

        Raises
        ------
        TypeError, ValueError
            As `update`; if the cache was made of a number of layers.
        """
        number = self._index(layer)
        layer_spec = self._cache._form.layers[number]
        return layer_spec._attend_in_step(self, number, q, k, v, sinks)  # type: ignore[no-any-return]

    def _index(self, layer: int) -> int:
        """Check the number of a layer with attention."""
        layers = self._cache._form.layers
        number = layer if type(layer) is int else checks.non_negative_integer("layer", layer)
        if not 0 <= number < len(layers):
            raise wrong_value("layer", f"be from 0 to {len(layers) - 1}", format_value(layer))
        if layers[number] is None:
            raise wrong_value("layer", "have an attention", f"{number}, whose layer is None")
        return number

    def _only_group(self) -> StepPositions:
        """Return the positions if they are the same for all layers."""
        if len(self._groups) > 1:
            hint = " Pass step.of(layer)."
            raise wrong_value("positions", "be of one layer", "a step of several windows", hint)
        return self._groups[0]

    def _checked_plan(self, number: int, arrays: dict[str, tuple[Array, Any, Any]]) -> WritePlan:
        """Check arrays of new tokens, each with its heads and features, and return their plan."""
        cache, group = self._cache, self.of(number)
        form, buffer = cache._form, cache._buffers[number][0]
        named = {name: array for name, (array, _, _) in arrays.items()}
        backend = get_backend(**named | {BUFFERS_LABEL: buffer})
        axis, batch = int(form.is_batch_first), cache.lengths.shape[0]
        tokens = group.positions.shape[axis]
        for name, (array, heads, size) in arrays.items():
            shape = form.shape(batch, heads, tokens, size)
            if tuple(array.shape) != shape:
                hint = NEW_HINT * (tokens not in array.shape)
                raise wrong_value(name, f"have shape {shape}", tuple(array.shape), hint)
            if array.dtype != buffer.dtype:
                requirement = f"have the dtype of the cache, {dtypes.dtype_name(buffer.dtype)}"
                hint = f" Make the cache with dtype={name}.dtype."
                raise wrong_type(name, requirement, dtypes.dtype_name(array.dtype), hint)
        if backend.is_read_only(buffer):
            requirement = "be used in torch.inference_mode, in which it was made"
            hint = " Make it outside of that mode, or copy it outside: copy.deepcopy(cache)."
            raise wrong_value("cache", requirement, "a step outside of it", hint)
        buffer_axes = BufferAxes(form.order[2], form.order[0], backend)
        rows = group.positions.shape[1 - axis]
        writes: Any = group._writes and [
            (buffer_axes.part(slot, n, row, rows), buffer_axes.part(token, n, row, rows))
            for row, slot, token, n in group._writes
        ]
        size = group.key_positions.shape[axis] - tokens * group._is_joined
        return WritePlan(buffer_axes, writes, buffer_axes.part(0, size))

    def _seen(self, number: int, k: Array, v: Array, plan: WritePlan) -> list[Array]:
        """Return arrays like the ones that queries will get, before anything is stored."""
        is_joined, buffers = self.of(number)._is_joined, self._cache._buffers[number]
        pairs = zip(buffers, (k, v), strict=True)
        return [plan.seen(buffer, new, is_joined=is_joined) for buffer, new in pairs]

    def _store(self, number: int, k: Array, v: Array, plan: WritePlan) -> tuple[Any, Any]:
        """Store checked keys and values of a layer, and return all to attend to."""
        cache, group = self._cache, self._groups[self._cache._form.slots_of[number]]
        self._begin(number, plan.axes.backend)
        keys, values = cache._buffers[number]
        keys, seen_keys = plan.store(keys, k, group)
        values, seen_values = plan.store(values, v, group)
        cache._buffers[number] = keys, values
        with _LOCK:
            vars(cache)["_missing"] = cache._missing - {number}
        return seen_keys, seen_values

    def _begin(self, number: int, backend: Backend) -> None:
        """Check that a layer may store, and record it."""
        after, before, owner = self._cache, self._before, self._cache._owner
        with _LOCK:
            has_begun = self._remaining != after._form.attending
            if number not in self._remaining:
                actual = f"{number}, which has stored in this step"
                hint = " Each token, or chunk of tokens, has a step of its own."
                raise wrong_value("layer", "be another one in each call", actual, hint)
            if not has_begun:
                check_stored(self._missing_before)
            if owner is not None and before is not None and not backend.is_compiling:
                if owner.newest() is not (after if has_begun else before):
                    requirement = "be of the newest cache of its buffers"
                    actual = "one of an earlier cache"
                    raise wrong_value("step", requirement, actual, _STALE_HINT)
                if not has_begun:
                    owner.begin(before, after)
            vars(self)["_remaining"] = self._remaining - {number}


def check_stored(missing: frozenset[int]) -> None:
    """Check that a step has stored all layers."""
    if missing:
        layers = f"without layer {', '.join(map(str, sorted(missing)))}"
        requirement = "hold the tokens of its last step in all layers"
        raise wrong_value("cache", requirement, f"one {layers}", _MISSING_HINT)


def positions_in_step(positions: Any, key_positions: Any) -> Any:
    """Return the positions of a step if its layers have the same, and other positions as is."""
    if isinstance(key_positions, KVStep | StepPositions):
        hint = " Pass positions=step."
        raise wrong_type("key_positions", "be an array", format_value(key_positions), hint)
    return positions._only_group() if isinstance(positions, KVStep) else positions


def _axes_of_layers(layers: Sequence[Any]) -> tuple[int, int]:
    """Check that all layers have the same two axes, and return these."""
    for index, layer in enumerate(layers):
        if not (layer is None or hasattr(layer, "_attend_in_step")):
            requirement = "be an AttentionLayer or None"
            raise wrong_type(f"layers[{index}]", requirement, format_value(layer))
    all_axes = {(layer.feature_axis, layer.seq_axis) for layer in layers if layer is not None}
    if not all_axes:
        hint = " Pass [layer] * count for a model of equal layers."
        raise wrong_value("layers", "hold an AttentionLayer", format_value(layers), hint)
    if len(all_axes) != 1 or None in next(iter(all_axes)):
        requirement = "have one `feature_axis` and one `seq_axis`, such as -1 and -2"
        raise wrong_value("layers", requirement, f"axes {sorted(all_axes, key=str)}")
    return next(iter(all_axes))


def _axis_in_4d(name: str, axis: int | None) -> int:
    """Check the axis of features or slots in buffers of four axes, and count it from 0."""
    if axis is None:
        hint = " For (batch, heads, seq, head), pass feature_axis=-1, seq_axis=-2."
        raise wrong_type(name, "be given for a number of layers", "None", hint)
    number = checks.integer(name, axis)
    if not -4 <= number < 4:
        raise wrong_value(name, "be one of four axes, from -4 to 3", format_value(axis))
    return number % 4


def _slots_of(window: int | None, capacity: int | None, sinks: int, drafts: int) -> Slots:
    """Return the slots of a layer; a window of the longest sequence overwrites nothing."""
    if window is None or (capacity is not None and sinks + window >= capacity):
        if capacity is None:
            hint = " It is the number of tokens of the longest sequence."
            raise wrong_type("capacity", "be given for layers without `window`", "None", hint)
        return Slots(capacity, 0, None)
    total = sinks + window + drafts
    return Slots(total if capacity is None else min(capacity, total), sinks, window)


def _form_of(
    layers: Sequence[Any],
    capacity: int | None,
    sinks: int,
    drafts: int,
    feature_axis: int | None,
    seq_axis: int | None,
    max_length: int,
) -> CacheForm:
    """Return the slots and axes of a cache of some layers."""
    unique = {layer: layer for layer in layers if layer is not None}
    slots_of = {layer: _slots_of(layer.window, capacity, sinks, drafts) for layer in unique}
    slots = list(dict.fromkeys(slots_of.values()))
    coordinates = {len(x.rope.sections or ()) for x in unique if getattr(x, "rope", None)}
    if len(coordinates) > 1:
        requirement = "rotate by as many coordinates as one another"
        raise wrong_value("layers", requirement, f"{sorted(coordinates)} `sections`")
    feature, seq = _axis_in_4d("feature_axis", feature_axis), _axis_in_4d("seq_axis", seq_axis)
    if feature == seq:
        raise wrong_value("seq_axis", f"be another axis than `feature_axis` = {feature}", seq_axis)
    batch: Any = axes.batch_axis(4, feature, seq)
    head: Any = axes.head_axis(4, feature, seq)
    return CacheForm(
        tuple([layer and unique[layer] for layer in layers]),
        tuple(slots),
        tuple([0 if layer is None else slots.index(slots_of[layer]) for layer in layers]),
        feature_axis,  # type: ignore[arg-type]
        seq_axis,  # type: ignore[arg-type]
        (batch, head, seq, feature),
        max(coordinates, default=0),
        frozenset([number for number, layer in enumerate(layers) if layer is not None]),
        min([max_length, *(each.capacity for each in slots if not each.is_ring)]),
    )


def _empty_buffers(
    form: CacheForm, batch: int, backend: Backend, dtype: Dtype, device: Device
) -> list[Any]:
    """Return zeros for the keys and values of each layer.

    Those of NumPy are parts of one array, for which a system may take large pages: a step of 12
    layers of 12 heads over 2,048 keys takes some 3 % less time.
    """
    shapes = [
        form.shape(batch, layer.num_kv_heads, form.slots[index].capacity, size)
        for layer, index in zip(form.layers, form.slots_of, strict=True)
        if layer is not None
        for size in (layer.head_size, layer.value_size)
    ]
    zeros = partial(backend.xp.zeros, dtype=dtype, device=device)
    if backend.is_numpy:
        ends = [*accumulate(map(prod, shapes))]
        parts = np.split(zeros(ends[-1]), ends[:-1])
        buffers = iter([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])
    else:
        buffers = map(zeros, shapes)
    return [layer and (next(buffers), next(buffers)) for layer in form.layers]


def is_sequence(numbers: Any) -> bool:
    """Tell whether there is a list or an array, rather than a number."""
    return isinstance(numbers, list | tuple) or getattr(numbers, "shape", ()) != ()


def as_integer_array(name: str, values: Array, *kinds: str) -> Array:
    """Return integers, or what else is asked for, of a list or an array, as NumPy's if possible."""
    numbers: Array = values
    if isinstance(values, list | tuple):
        try:
            numbers = np.asarray(values)
            numbers = numbers if numbers.size else numbers.astype(np.int64)
        except ValueError:  # lists of different lengths
            requirement = "be a list of numbers or of lists"
            raise wrong_type(name, requirement, format_value(values)) from None
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
    known = [isinstance(x, np.ndarray) or backend.is_concrete(x) for x in arrays]
    if all(known):
        on_host = [x if isinstance(x, np.ndarray) else backend.to_numpy(x) for x in arrays]
        return backend_for(), [np.asarray(x, dtype=np.int64) for x in on_host]
    on = {"dtype": backend.int_dtype, "device": backend.device}
    # Copies, since PyTorch warns of arrays that are read-only.
    arrays = tuple(np.array(x) if isinstance(x, np.ndarray) else x for x in arrays)
    return backend, [backend.xp.asarray(x, **on) for x in arrays]
