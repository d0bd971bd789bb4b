"""The caches of all layers of a model, and what a step of a decoder does with them."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.weights import ArrayDataclass, array_field
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import get_or_compute, remember, signature_of
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device, get_backend
from positional_embeddings.arrays.errors import format_value, plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Device, Dtype, Namespace, np
from positional_embeddings.attention.attention import (
    PreparedCall,
    attend,
    prepare,
    prepare_cached,
)
from positional_embeddings.attention.cache import (
    POSITIONS_LABEL,
    KVCache,
    KVStep,
    MadeByCache,
    as_integer_array,
    in_one_library,
    is_sequence,
)
from positional_embeddings.attention.slots import NEW_HINT
from positional_embeddings.attention.store import COPY, Branch, WritePlan, verify
from positional_embeddings.masks.mask import frozen_integers
from positional_embeddings.models.attention_layers import AttentionLayer
from positional_embeddings.rotary.rope import RoPE
from positional_embeddings.rotary.rotate import rotate

# From queries and keys to both as they are stored.
Rotate: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]

# The name of keys and values so far in errors about arrays of two libraries.
BUFFERS_LABEL = "buffers` of a cache, whose library is its `xp="


@dataclass(frozen=True, eq=False, repr=False)
class DecoderCache(ArrayDataclass):
    """The keys and values of all layers of a model, and where the positions of their tokens are.

    `empty` makes it. Each step stores its tokens after the last ones, and returns the next cache.
    NumPy, CuPy and PyTorch write to the same buffers in each step; to go on from an earlier cache,
    `rewind` it by 0. A cache whose tokens they hold no more is refused, also by `take`, copies and
    pickles. The buffers of JAX belong to one cache.

    Parameters
    ----------
    layers : tuple of AttentionLayer or None
        What the attention of each layer does; None for a layer without attention.
    caches : tuple of KVCache
        One for each distinct `window` of the layers; a window is a ring.
    buffers : list of tuple or None
        The keys and the values of each layer.
    ahead : array of int, shape (batch,), optional
        Where positions were given: by how much the next ones are ahead of the numbers of tokens.
    since : array of int, shape (batch,), optional
        Numbers of tokens after the last step that gave positions, which `rewind` leaves.

    Examples
    --------
    Two layers, a prompt of three tokens, and a token more:

    >>> import numpy as np
    >>> from positional_embeddings import AttentionLayer, CausalMask, RoPE
    >>> axes = {"feature_axis": -1, "seq_axis": -2}
    >>> layer = AttentionLayer(4, 8, rope=RoPE(8, 64, **axes), mask=CausalMask(), **axes)
    >>> cache = DecoderCache.empty([layer, layer], batch=1, capacity=16)
    >>> for count in (3, 1):
    ...     cache, step = cache.step(count)
    ...     for number in range(2):
    ...         q, k, v = np.ones((3, 1, 4, count, 8))  # (batch, heads, seq, head)
    ...         attended = step.attend(number, q, k, v)
    >>> step.positions, attended.shape
    (array([[3]]), (1, 4, 1, 8))
    """

    layers: tuple[AttentionLayer | None, ...]
    caches: tuple[KVCache, ...] = field(metadata={"part": True})
    buffers: list[tuple[Array, ...] | None] = field(metadata={"array": True})
    _: KW_ONLY
    ahead: Array = array_field(None)
    since: Array = array_field(None)
    # The cache of each layer, and how many coordinates positions have, 0 without their axis.
    _cache_of: tuple[int, ...] = field(init=False)
    _coordinates: int = field(init=False)

    def __post_init__(self) -> None:
        index = {cache.window: index for index, cache in enumerate(self.caches)}
        attending = [layer for layer in self.layers if layer is not None]
        coordinates = {len(layer.rope.sections or ()) for layer in attending if layer.rope}
        if len(coordinates) > 1:
            requirement = "rotate by as many coordinates as one another"
            raise wrong_value("layers", requirement, f"{sorted(coordinates)} `sections`")
        windows = [None if layer is None else layer.window for layer in self.layers]
        cache_of = tuple([index.get(w, index.get(None, 0)) for w in windows])
        checks.set_fields(self, _cache_of=cache_of, _coordinates=max(coordinates, default=0))

    @classmethod
    @compute_on_device
    def empty(
        cls,
        layers: Sequence[AttentionLayer | None],
        batch: int,
        capacity: int,
        *,
        drafts: int = 0,
        xp: Namespace | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
    ) -> "DecoderCache":
        """Return a cache without tokens.

        Parameters
        ----------
        layers : list or tuple of AttentionLayer or None
            What the attention of each layer does, as `attention_layers` reads it; None for a layer
            without. All have the same axes, and arrays of four.
        batch : int
            Number of sequences, positive.
        capacity : int
            Number of tokens of the longest sequence, positive. Layers with a `window` keep no more
            than that many keys.
        drafts : int, default 0
            Number of tokens that `rewind` can take back in layers with a window, 0 or more.
        xp, dtype, device : optional
            Array library (NumPy if None), real dtype (its default if None) and device of keys and
            values.

        Returns
        -------
        DecoderCache
            With zeros in all buffers.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a number is out of range, there is no layer, or layers have no axes, or other ones
            than one another.
        """
        backend = backend_for(xp, device)
        dtype = checks.float_dtype(dtype, backend.default_float_dtype, backend)
        batch = checks.axis_length("batch", batch)
        capacity = checks.axis_length("capacity", capacity)
        drafts = checks.non_negative_integer("drafts", drafts)
        if not isinstance(layers, list | tuple):
            raise wrong_type("layers", "be a list or tuple of AttentionLayer", format_value(layers))
        for index, layer in enumerate(layers):
            if not (layer is None or isinstance(layer, AttentionLayer)):
                raise wrong_type(
                    f"layers[{index}]", "be an AttentionLayer or None", format_value(layer)
                )
        alike = {layer: layer for layer in layers if layer is not None}  # equal ones share an `id`
        all_axes = {(layer.feature_axis, layer.seq_axis) for layer in alike}
        if len(all_axes) != 1 or None in next(iter(all_axes)):
            requirement = (
                "be one or more, with one `feature_axis` and one `seq_axis`, such as -1 and -2"
            )
            raise wrong_value("layers", requirement, f"axes {sorted(all_axes, key=str)}")
        ((feature_axis, seq_axis),) = all_axes
        options = {"feature_axis": feature_axis, "seq_axis": seq_axis, "xp": xp, "device": device}
        # A window that holds the longest sequence forgets nothing.
        windows = {x: x.window if (x.window or capacity) < capacity else None for x in alike}
        caches = {}
        for window in windows.values():
            slots = capacity if window is None else min(capacity, window + drafts)
            caches[window] = KVCache.empty(batch, slots, window=window, **options)
        capacities = {layer: caches[window].capacity for layer, window in windows.items()}
        shapes = [layer and _shapes_of(layer, batch, capacities[layer])[1:] for layer in layers]
        buffers = _buffers(shapes, partial(backend.xp.zeros, dtype=dtype, device=device), backend)
        shared_layers = tuple([layer and alike[layer] for layer in layers])
        return cls(shared_layers, tuple(caches.values()), buffers)

    def __repr__(self) -> str:
        lengths, layers = self.lengths, plural(len(self.layers), "layer")
        lengths = (
            lengths.tolist() if isinstance(lengths, np.ndarray) else f"<{format_value(lengths)}>"
        )
        return f"DecoderCache(<{layers}>, capacity={self.capacity}, lengths={lengths})"

    @property
    def capacity(self) -> int:
        """Number of slots of the layers that keep most."""
        return max(cache.capacity for cache in self.caches)

    @property
    def lengths(self) -> Array:
        """Number of tokens of each sequence so far, (batch,)."""
        return self.caches[0].lengths

    def step(
        self, tokens: int | AnyArray | Sequence[Any], /, *, positions: AnyArray | None = None
    ) -> tuple["DecoderCache", "DecoderStep"]:
        """Return the cache with new tokens, and what attends with them in each layer.

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
        cache : DecoderCache
            The cache after these tokens, once all layers have attended.
        step : DecoderStep
            What rotates, stores and attends in each layer.

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
        if any(cache._branch is None for cache in self.caches):  # no step has been made of it
            self._check_buffers(Branch())
        pairs = [cache.step(tokens) for cache in self.caches]
        ordinary = pairs[0][1].positions
        following = self._with(caches=tuple([cache for cache, _ in pairs]))
        if positions is not None:
            positions = self._checked_positions(positions, ordinary)
            checks.set_fields(following, **following._ahead_of(tokens, positions))
        elif self.ahead is None:
            positions = self._for_coordinates(ordinary, get_backend(positions=ordinary))
        else:
            backend = get_backend(positions=ordinary)
            ahead = backend.xp.asarray(self.ahead, dtype=ordinary.dtype, device=backend.device)
            rows = ahead[:, None] if self.caches[0]._is_batch_first else ahead[None, :]
            positions = self._for_coordinates(ordinary + rows, backend)
        step = object.__new__(DecoderStep)
        positions = positions if positions is ordinary else frozen_integers(positions)
        steps = tuple([one for _, one in pairs])
        checks.set_fields(step, positions=positions, _cache=following, _steps=steps, _plans={})
        return following, step

    def _check_buffers(self, branch: Branch) -> None:
        """Check that the buffers hold the tokens, for a step in a branch or for a copy."""
        pairs: list[Any] = [(x._transition(branch, x.lengths), {}) for x in self.caches]
        for pair, number in zip(self.buffers, self._cache_of, strict=True):
            for buffer in pair or ():
                transition, last = pairs[number]
                verify(buffer, transition, get_backend(buffer=buffer), last)

    def __getstate__(self) -> dict[str, object]:
        self._check_buffers(COPY)
        return super().__getstate__()

    def _for_coordinates(self, ordinary: Array, backend: Backend) -> Array:
        """Return positions that are the same in all coordinates."""
        return backend.xp.stack([ordinary] * self._coordinates) if self._coordinates else ordinary

    def _checked_positions(self, positions: Array, ordinary: Array) -> Array:
        """Check positions, and return them with as many axes as ordinary ones."""
        backend = get_backend(positions=positions, **{POSITIONS_LABEL: ordinary})
        checks.integral("positions", positions, backend.xp)
        seq_axis = int(self.caches[0]._is_batch_first)
        count, batch = ordinary.shape[seq_axis], self.lengths.shape[0]
        leading = (self._coordinates,) if self._coordinates else ()
        whole = (batch, count) if seq_axis else (count, batch)
        shape, token_shape = tuple(positions.shape), tuple(positions.shape)[len(leading) :]
        fits = token_shape == (count,) or (
            len(token_shape) == 2 and all(map(checks.broadcasts_to, token_shape, whole))
        )
        if (
            shape[: len(leading)] != leading
            or not fits
            or token_shape[-1 if len(token_shape) == 1 else seq_axis] != count
        ):
            requirement = f"have shape {(*leading, count)} or {(*leading, *whole)}"
            raise wrong_value("positions", requirement, shape, NEW_HINT)
        if len(token_shape) == 1:
            return positions[..., None, :] if seq_axis else positions[..., None]
        return positions

    def _ahead_of(self, tokens: Any, positions: Array) -> dict[str, Array]:
        """Return by how much the positions after these are ahead of the numbers of tokens."""
        mask = (
            as_integer_array("tokens", tokens, "bool", "integral") if is_sequence(tokens) else None
        )
        last = (0 * self.lengths,) * 2 if self.ahead is None else (self.ahead, self.since)
        arrays = [positions, self.lengths, *last] + ([] if mask is None else [mask])
        host, (positions, after, ahead, since, *masks) = in_one_library(
            get_backend(positions=positions), *arrays
        )
        xp = host.xp
        if self._coordinates:
            positions = xp.max(positions, axis=0)
        if not self.caches[0]._is_batch_first:
            positions = positions.T
        has_token = xp.ones_like(after) == 1
        for mask in masks:  # padding has no place, and without a token all stays
            positions = xp.where(mask == 1, positions, xp.min(positions))
            has_token = xp.any(mask == 1, axis=1)
        ahead = xp.where(has_token, xp.max(positions, axis=1) + 1 - after, ahead)
        return {"ahead": ahead, "since": xp.where(has_token, after, since)}

    def rewind(self, counts: int | Sequence[int] | AnyArray, /) -> "DecoderCache":
        """Return the cache without its last tokens, such as refused drafts.

        Parameters
        ----------
        counts : int, or list or array of int, shape (batch,)
            Number of tokens to forget, of all sequences or of each, from 0 to their number.

        Returns
        -------
        DecoderCache
            With the same buffers.

        Raises
        ------
        TypeError
            If `counts` are not integers.
        ValueError
            If `counts` have the wrong shape, or, where they can be read, one is out of range, a
            window has lost keys that the next query needs, or the tokens are some of those whose
            positions were given.
        """
        rewound = self._with(caches=tuple([cache.rewind(counts) for cache in self.caches]))
        after, since = rewound.lengths, self.since
        if (
            isinstance(after, np.ndarray)
            and isinstance(since, np.ndarray)
            and np.any(after < since)
        ):
            requirement = "leave all tokens whose `positions` were given"
            hint = " Go on from the cache before that step: rewind it by 0."
            raise wrong_value("counts", requirement, format_value(counts), hint)
        return rewound

    def take(self, rows: Sequence[int] | AnyArray, /) -> "DecoderCache":
        """Return the cache of some sequences, such as the best beams, with buffers of its own.

        Parameters
        ----------
        rows : list or array of int, shape (new_batch,)
            Index of the sequence that each new one continues.

        Returns
        -------
        DecoderCache
            With as many sequences as `rows`.

        Raises
        ------
        TypeError
            If `rows` are not integers.
        ValueError
            If `rows` do not have one axis, or, where it can be read, one is not a sequence; if the
            buffers no longer hold the tokens.
        """
        self._check_buffers(COPY)
        caches = tuple([cache.take(rows) for cache in self.caches])
        cache = self.caches[0]
        backend = get_backend(like=cache._prototype)
        indices = backend.xp.asarray(
            as_integer_array("rows", rows), dtype=backend.int_dtype, device=backend.device
        )
        batch: Any = axes.batch_axis(4, *axes.axes_in_4d(cache))
        buffers = [
            pair and tuple([backend.take_entries(buffer, indices, batch) for buffer in pair])
            for pair in self.buffers
        ]
        taken = self._with(caches=caches, buffers=buffers)
        if self.ahead is not None:
            host, (at, *counts) = in_one_library(backend, indices, self.ahead, self.since)
            ahead, since = (host.xp.take(numbers, at) for numbers in counts)
            checks.set_fields(taken, ahead=ahead, since=since)
        return taken

    def _with(self, **changed: Any) -> "DecoderCache":
        """Return another cache of the same layers, with a list of buffers of its own."""
        cache = object.__new__(type(self))
        checks.set_fields(cache, **(vars(self) | {"buffers": [*self.buffers]} | changed))
        return cache


@dataclass(frozen=True, eq=False, repr=False, init=False)
class DecoderStep(MadeByCache):
    """New tokens of a `DecoderCache`: their positions, and the attention of each layer to them.

    ``DecoderCache.step`` makes it. With NumPy layers that are alike ask their mask and their bias
    once, also the arrays and functions in these.

    Attributes
    ----------
    positions : array of int
        Position of each new token, which queries and keys are rotated to: (batch, seq), or (seq,
        batch) if features come first, after an axis of coordinates if the layers rotate by several.
        The batch is 1 if they are the same for all sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import AttentionLayer, CausalMask
    >>> layer = AttentionLayer(4, 8, mask=CausalMask(), feature_axis=-1, seq_axis=-2)
    >>> cache, step = DecoderCache.empty([layer], batch=2, capacity=16).step(3)
    >>> step.attend(0, *np.ones((3, 2, 4, 3, 8))).shape
    (2, 4, 3, 8)
    """

    positions: Array = field(metadata={"array": True})
    # After the step, and the steps of its caches.
    _cache: DecoderCache = field(init=False, metadata={"part": True})
    _steps: tuple[KVStep, ...] = field(init=False, metadata={"part": True})
    # The tables of each rotary embedding by its `id`, and the plan of layers that are alike
    # by the form of their arrays, if these are NumPy's.
    _plans: dict[Any, Any] | None = field(default=None, init=False, compare=False)

    def __repr__(self) -> str:
        return f"DecoderStep(positions=<{format_value(self.positions)}>)"

    def attend(
        self, layer: int, q: Array, k: Array, v: Array, /, *, sinks: AnyArray | None = None
    ) -> Any:
        """Rotate queries and keys, store keys and values, and attend to all so far.

        Once for each layer.

        Parameters
        ----------
        layer : int
            Number of the layer, from 0.
        q : array, shape (batch, num_heads, seq, head_size)
            Queries of the new tokens, in the dtype of the cache. The axes are in the order that the
            layers have, such as (head_size, seq, num_heads, batch).
        k : array, shape (batch, num_kv_heads, seq, head_size)
            Keys of the new tokens.
        v : array, shape (batch, num_kv_heads, seq, value_size)
            Values of the new tokens.
        sinks : array, shape (num_heads,), optional
            Weights of the heads, if the layer `has_sinks`.

        Returns
        -------
        array, shape (batch, num_heads, seq, value_size)
            The output of the attention.

        Raises
        ------
        TypeError
            If an array is of another library or dtype than the cache.
        ValueError
            If a shape does not fit, or there is no such layer; where it can be known, if the layer
            has attended in this step already, or its last tokens are not those before the step.
        """
        cache, number = self._cache, checks.non_negative_integer("layer", layer)
        if number >= len(cache.layers):
            raise wrong_value("layer", f"be from 0 to {len(cache.layers) - 1}", format_value(layer))
        rule, pair = cache.layers[number], cache.buffers[number]
        if rule is None or pair is None:
            raise wrong_value("layer", "have an attention", f"{number}, whose layer is None")
        rule._check_sinks(sinks)
        step, (keys, values) = self._steps[cache._cache_of[number]], pair
        key: Any = signature_of(q, k, v, keys, values, sinks)
        key = key and (id(rule), *key, keys.flags.writeable, values.flags.writeable)
        plan = (self._plans or {}).get(key) or self._checked(rule, step, q, k, v, pair)
        q, k = plan.rotate(q, k)
        attention = plan.attention
        if attention is None:  # before anything is stored
            seen = step._seen(keys, k, plan.keys), step._seen(values, v, plan.values)
            arguments = rule._arguments(step, sinks)
            if key is None:
                attention = prepare(q, *seen, arguments)
            else:
                attention = prepare_cached(q, *seen, arguments)
            remember(self._plans, key, plan._replace(attention=attention))
        keys, seen_keys = step._write(keys, k, plan.keys)
        values, seen_values = step._write(values, v, plan.values)
        cache.buffers[number] = keys, values
        spec, algorithm = attention
        return attend(spec.with_sinks(sinks), algorithm, q, seen_keys, seen_values)

    def _checked(
        self,
        rule: AttentionLayer,
        step: KVStep,
        q: Array,
        k: Array,
        v: Array,
        buffers: tuple[Array, ...],
    ) -> "_Plan":
        """Check new tokens, and return what rotates and moves such tokens."""
        cache, (keys, values) = self._cache, buffers
        backend = get_backend(q=q, k=k, v=v, **{BUFFERS_LABEL: keys})
        count = step.positions.shape[int(cache.caches[0]._is_batch_first)]
        shapes = _shapes_of(rule, cache.lengths.shape[0], count)
        for name, array, shape in zip("qkv", (q, k, v), shapes, strict=True):
            if tuple(array.shape) != shape:
                hint = NEW_HINT * (count not in array.shape)
                raise wrong_value(name, f"have shape {shape}", tuple(array.shape), hint)
            if array.dtype != keys.dtype:
                requirement = f"have the dtype of the cache, {dtypes.dtype_name(keys.dtype)}"
                hint = f" Make the cache with dtype={name}.dtype."
                raise wrong_type(name, requirement, dtypes.dtype_name(array.dtype), hint)
        rotate = self._rotate(rule, q, k, backend)
        return _Plan(rotate, step._write_plan(keys, k), step._write_plan(values, v))

    def _rotate(self, rule: AttentionLayer, q: Array, k: Array, backend: Backend) -> Rotate:
        """Return what rotates arrays like queries and keys."""
        rope, positions = rule.rope, self.positions
        if rope is None:
            return lambda q, k: (q, k)
        if backend.has_host_arrays and positions.size == 1 and rope.head_size == rule.head_size:
            at = positions.item()
            if 0 <= at < rope.seq_len:  # its tables are at hand
                return _token_rotation(rope, at, q, k)
        make = partial(rope.tables, positions, dtype=q.dtype)
        tables = get_or_compute(self._plans, id(rope), make)
        rotated = partial(rule._rotated, rotate=tables, backend=backend)
        return lambda q, k: (rotated(q), rotated(k))


class _Plan(NamedTuple):
    """What a step does with the tokens of layers that are alike."""

    rotate: Rotate
    keys: WritePlan
    values: WritePlan
    attention: PreparedCall | None = None  # known after the first layer has stored


def _token_rotation(rope: RoPE, at: int, q: Array, k: Array) -> Rotate:
    """Return what rotates queries and keys like these of one token, which is at a position.

    Both are rotated together: for one token each call of NumPy takes as long as its numbers.
    """
    axis: Any = axes.head_axis(4, *axes.axes_in_4d(rope))
    plan, cos, sin = rope._prepare(np.concat([q, k], axis=axis), None, at)
    before, count = (slice(None),) * axis, q.shape[axis]
    queries, keys = (*before, slice(count)), (*before, slice(count, None))

    def rotate_both(q: Array, k: Array) -> tuple[Array, Array]:
        both = rotate(np.concat([q, k], axis=axis), cos, sin, plan)
        return both[queries], both[keys]

    return rotate_both


def _buffers(
    shapes: list[list[tuple[int, ...]] | None], zeros: Callable[..., Array], backend: Backend
) -> list[tuple[Array, ...] | None]:
    """Return the buffers of each layer.

    Those of NumPy are parts of one array, for which a system may take large pages: a step of 12
    layers of 12 heads over 2,048 keys takes some 3 % less time.
    """
    if not backend.has_host_arrays:
        return [None if pair is None else tuple(map(zeros, pair)) for pair in shapes]
    ends = [*accumulate(prod(shape) for pair in shapes for shape in pair or ())]
    parts = iter(np.split(zeros(ends[-1]), ends[:-1]))
    made = [tuple(next(parts).reshape(shape) for shape in pair or ()) for pair in shapes]
    return [pair or None for pair in made]


def _shapes_of(layer: AttentionLayer, batch: int, count: int) -> list[tuple[int, ...]]:
    """Return the shapes of queries, keys and values of some tokens."""
    feature, seq = axes.axes_in_4d(layer)
    batch_axis, head_axis = axes.batch_axis(4, feature, seq), axes.head_axis(4, feature, seq)
    groups, size = layer.num_kv_heads, layer.head_size
    shapes: list[Any] = []
    for heads, features in ((layer.num_heads, size), (groups, size), (groups, layer.value_size)):
        shape = {seq: count, batch_axis: batch, feature: features, head_axis: heads}
        shapes.append((shape[0], shape[1], shape[2], shape[3]))
    return shapes
