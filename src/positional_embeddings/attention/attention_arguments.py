"""Arguments of an attention, and their checks."""

from collections.abc import Callable
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.attention.at_positions import (
    ExplicitPositions,
    StepPositions,
    positions_of,
)
from positional_embeddings.attention.cache import POSITIONS_LABEL
from positional_embeddings.attention.layout import QKVLayout
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_sequence import PaddingMask
from positional_embeddings.masks.index_ranges import query_offset
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.position_blocks import ImplicitPositions

# Takes the indices of queries, (query, 1), and of keys, (1, key), which count from 0.
ScoreFunction = Callable[[Any, Any], Any]

_POSITIONS_HINT = " Give `positions` and `key_positions`, below 0 for padding, as a KVCache does."
_ANOTHER = " If the keys are of another sequence, padded on the right, give offset=0."


class AttentionArguments(NamedTuple):
    """Arguments of attention, except queries, keys and values.

    In a step of a cache, calls with the same plan differ only in `positions` and `sinks`.
    """

    mask: Mask | Array = None
    bias: Bias | Array = None
    scale: float | None = None
    softcap: float | None = None
    offset: int | None = None
    key_positions: Array = None
    block_size: int | None = None
    enable_gqa: bool = False
    return_lse: bool = False
    feature_axis: int | None = None
    seq_axis: int | None = None
    positions: StepPositions | Array = None
    sinks: Array = None

    def arrays(self) -> dict[str, Array]:
        """Return all arrays among the arguments, including those in masks and biases, by name."""
        arrays: dict[str, Array] = {}
        for name in ("mask", "bias", "positions", "key_positions", "sinks"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, Mask | Bias):
                for field, array in value._arrays().items():
                    arrays[f"{name}.{field}"] = array
            elif isinstance(value, StepPositions):
                arrays[POSITIONS_LABEL] = value.positions
            elif not (callable(value) and name in ("mask", "bias")):
                arrays[name] = value
        return arrays

    def may_hold_tensors(self, q: Array) -> bool:
        """Return whether a mask or a bias may hold tensors, which change or have gradients."""
        if type(q) is np.ndarray:
            return False
        bias = self.bias
        calls_function = bias._calls_function if isinstance(bias, Bias) else callable(bias)
        return calls_function or bool(self._replace(positions=None, sinks=None).arrays())

    def check(self, q: Array, k: Array, backend: Backend) -> tuple[Any, ...]:
        """Check the options, masks and biases; return `scale`, `softcap` and `block_size`."""
        scale, softcap, block_size = self.scale, self.softcap, self.block_size
        _check_mask_or_bias("mask", self.mask, backend)
        _check_mask_or_bias("bias", self.bias, backend)
        if self.sinks is not None:
            checks.real_floating(backend.xp, sinks=self.sinks)
            if self.sinks.ndim != 1:
                raise wrong_value("sinks", "have shape (heads,)", tuple(self.sinks.shape))
        if scale is not None:
            scale = checks.positive_number("scale", scale)
        if softcap is not None:
            softcap = checks.positive_number("softcap", softcap)
        checks.boolean("enable_gqa", self.enable_gqa)
        checks.boolean("return_lse", self.return_lse)
        if block_size is not None:  # blocks need known lengths
            for name, array in (("q", q), ("k", k)):
                for axis in range(array.ndim):
                    axes.length(array, axis, name)
            block_size = checks.positive_integer("block_size", block_size)
        return scale, softcap, block_size

    def feature_and_seq_axis(self, q: Array) -> tuple[int, int]:
        """Check and return the axes of features and sequence, counted from 0."""
        if isinstance(self.positions, StepPositions):
            return self.positions._axes_of(q, self.feature_axis, self.seq_axis)
        return axes.feature_and_seq_axis(self.feature_axis, self.seq_axis, q, "q")

    def explicit_positions(
        self, q: Array, k: Array, layout: QKVLayout, backend: Backend
    ) -> ExplicitPositions | None:
        """Check and return explicit positions; None if positions follow from the indices."""
        positions, key_positions = self.positions, self.key_positions
        if positions is None and key_positions is None:
            return None
        if not isinstance(positions, StepPositions):
            q_axes = layout.feature, layout.seq
            return positions_of(q, k, positions, key_positions, q_axes, backend)
        if key_positions is not None:
            requirement = "be left out where `positions` is a step"
            raise wrong_type("key_positions", requirement, format_value(key_positions))
        return positions._positions_for(q, k, layout.seq, backend)

    def mask_and_positions(
        self, explicit: ExplicitPositions | None, layout: QKVLayout, backend: Backend
    ) -> tuple[Mask | Array, ImplicitPositions | ExplicitPositions]:
        """Return the mask, combined with the window of a ring, and the positions."""
        if explicit is None:
            offset = self._query_offset(layout, backend)
            return self.mask, ImplicitPositions(offset, layout.keys.size)
        if self.offset is not None:
            checks.omitted("where `positions` are given", offset=self.offset)
        return explicit.with_ring_mask(self.mask, self.bias, backend)

    def batch_and_head_sizes(self, explicit: ExplicitPositions | None) -> dict[str, int]:
        """Return the numbers of sequences and of heads, by the argument that has them.

        The positions or else the mask have sequences; the bias and the sinks have heads. Sizes of
        1 are omitted.
        """
        mask, bias, sinks = self.mask, self.bias, self.sinks
        sizes: dict[str, int | None] = {}
        if explicit is not None and explicit.batch != 1:
            has_batch = explicit.queries.shape[1] != 1
            sizes["positions" if has_batch else "key_positions"] = explicit.batch
        elif isinstance(mask, Mask):
            sizes["mask"] = mask._batch()
        if isinstance(bias, Bias):
            sizes["bias"] = bias._heads()
        if sinks is not None:
            sizes["sinks"] = sinks.shape[0]
        return {name: size for name, size in sizes.items() if size not in (1, None)}

    @property
    def needs_lengths(self) -> bool:
        """Return whether the lengths of the sequences must be known."""
        is_evaluated = callable(self.mask) or callable(self.bias)  # so are `Mask` and `Bias`
        return is_evaluated or not self.positions is self.key_positions is None

    @property
    def sequences(self) -> int | None:
        """Return the number of sequences of a step, None without a step."""
        step = self.positions
        return step._batch if isinstance(step, StepPositions) else None

    def _check_lists(self) -> None:
        """Check that a `ListMask` is not combined with masks or biases of positions.

        This applies if the offset is not passed.
        """
        lists, other_masks = (
            self.mask._split_lists() if isinstance(self.mask, Mask) else (None, None)
        )
        if lists is not None and (other_masks is not None or isinstance(self.bias, Bias)):
            requirement = "be given with a `ListMask` unless there are as many queries as keys"
            hint = " Pass 0 to count queries and keys alike, or the position of the first query."
            raise wrong_value("offset", requirement, "None", hint)

    def _query_offset(self, layout: QKVLayout, backend: Backend) -> int:
        """Return the position of the first query among the keys, after checks of the lengths."""
        mask, bias, offset = self.mask, self.bias, self.offset
        q_len, k_len = layout.queries.size, layout.keys.size
        if not (isinstance(mask, Mask) or isinstance(bias, Bias)):
            if offset is not None:
                requirement = "be left out unless `mask` is a `Mask` or `bias` is a `Bias`"
                raise wrong_value("offset", requirement, offset)
            return 0
        if 0 in (q_len, k_len):  # there are no scores
            return 0
        if offset is None and q_len != k_len:
            self._check_lists()
        start = query_offset(q_len, k_len, offset, backend)
        if start + q_len > k_len >= q_len:
            requirement = f"be at most {k_len - q_len}, since the keys of the queries are among `k`"
            raise wrong_value("offset", requirement, offset, _POSITIONS_HINT)
        if isinstance(mask, Mask):
            mask._check((start, start + q_len), k_len, backend)
            if q_len < k_len:
                _check_padding(mask, offset, k_len, is_alone=not isinstance(bias, Bias))
        return start


def _check_mask_or_bias(name: str, mask_or_bias: Mask | Bias | Array, backend: Backend) -> None:
    """Check that a mask is a `Mask`, a function or an array, or a bias likewise."""
    other, other_kind = ("bias", Bias) if name == "mask" else ("mask", Mask)
    if isinstance(mask_or_bias, type) and issubclass(mask_or_bias, Mask | Bias):
        actual = mask_or_bias.__name__
        raise wrong_type(name, f"be a {name}", f"the class {actual}", f" Pass {actual}(...).")
    if isinstance(mask_or_bias, other_kind):
        actual = format_value(mask_or_bias)
        raise wrong_type(name, f"be a {name}", actual, f" Pass it as `{other}`.")
    if callable(mask_or_bias):
        checks.two_arguments(name, mask_or_bias)
    elif mask_or_bias is not None:
        checks.mask_or_bias(name, name, mask_or_bias, backend.xp)


def _check_padding(mask: Mask, offset: int | None, k_len: int, *, is_alone: bool) -> None:
    """Check that the lengths of a `PaddingMask` cover the cached keys."""
    for part in getattr(mask, "masks", ()):
        _check_padding(part, offset, k_len, is_alone=False)
    if not isinstance(mask, PaddingMask):
        return
    max_length, requirement, hint = (mask._bounds or (0, k_len))[1], "", _POSITIONS_HINT
    if is_alone and offset is None:  # the keys may be of another sequence
        if max_length < k_len:
            requirement = f"have a length of all {k_len} keys, as the longest sequence has"
            hint += _ANOTHER
    elif mask.side == "left":
        requirement = "have no PaddingMask on the left where queries are fewer than keys"
    elif offset is None:
        requirement = (
            "have no PaddingMask where queries are fewer than keys, unless `offset` is given"
        )
    elif max_length <= offset:
        requirement = f"have a length above `offset` = {offset}, so that a query is no padding"
    if requirement:
        raise wrong_value("mask", requirement, mask, hint)


def call_score_function(
    argument_name: str, function: ScoreFunction, q_idx: Array, k_idx: Array
) -> tuple[str, Array]:
    """Call and check a mask or bias function; return its name in messages, and its result."""
    name, array = f"{argument_name}(q_idx, k_idx)", function(q_idx, k_idx)
    xp = get_backend(q_idx=q_idx, **{name: array}).xp
    checks.mask_or_bias(argument_name, name, array, xp)
    return name, array
