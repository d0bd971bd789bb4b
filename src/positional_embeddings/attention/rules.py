"""What was asked of an attention, and its checks."""

from collections.abc import Callable
from typing import Any, NamedTuple

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.spans import first_position
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.namespace import Array, Namespace
from positional_embeddings.arrays.quiet import as_caller
from positional_embeddings.arrays.space import Space
from positional_embeddings.attention.at_positions import Positions, positions_of
from positional_embeddings.attention.cache import POSITIONS, KVStep
from positional_embeddings.attention.layout import Layout, check_axis_counts
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_sequence import PaddingMask
from positional_embeddings.masks.mask import Mask

# Called with the indices of queries, (query, 1), and of keys, (1, key): 0, 1, 2, ..., whatever
# their positions.
ScoreFunction = Callable[[Any, Any], Any]

_REMEDY = " Give `positions` and `key_positions`, below 0 for padding, as a KVCache does."
_ANOTHER = " If the keys are of another sequence, padded on the right, give offset=0."


class Rules(NamedTuple):
    """What was asked of the scores."""

    mask: Array = None
    bias: Array = None
    scale: Any = None
    softcap: Any = None
    offset: Any = None
    positions: Array = None
    key_positions: Array = None
    sinks: Array = None

    def arrays(self) -> dict[str, Any]:
        """Return the masks and biases that are arrays, and the arrays of others, by name."""
        arrays: dict[str, Any] = {}
        for name in ("mask", "bias", "positions", "key_positions", "sinks"):
            value = getattr(self, name)
            if isinstance(value, Mask | Bias):
                arrays |= {f"{name}.{key}": array for key, array in value._arrays().items()}
            elif isinstance(value, KVStep):
                arrays[POSITIONS] = value.positions
            elif not (value is None or (callable(value) and name in ("mask", "bias"))):
                arrays[name] = value
        return arrays

    def axes(self, q: Array, feature_axis: Any, seq_axis: Any) -> tuple[Any, Any]:
        """Return both axes; a step has those of its buffers."""
        if isinstance(self.positions, KVStep):
            return self.positions._axes_of(q, feature_axis, seq_axis)
        return feature_axis, seq_axis

    def places(self, q: Array, k: Array, axes: tuple[Any, Any], space: Space) -> Positions | None:
        """Return the positions of queries and keys, which a step has checked; None without."""
        given, of_keys = self.positions, self.key_positions
        if given is None and of_keys is None:
            return None
        check_axis_counts({"q": q, "k": k})
        if isinstance(of_keys, KVStep):
            hint = " Pass positions=step."
            raise wrong_type("key_positions", "be an array", shown(of_keys), hint)
        if isinstance(given, KVStep):
            if of_keys is not None:
                what = "be left out where `positions` is a step"
                raise wrong_type("key_positions", what, shown(of_keys))
            return given._places_of(q, k, axes[1], space)
        return positions_of(q, k, given, of_keys, axes, space)


def first_query(rules: Rules, q_len: int, k_len: int, space: Space) -> int:
    """Return the position of the first query among the keys, after checks of who is there."""
    mask, offset = rules.mask, rules.offset
    first = first_position(q_len, k_len, offset, space)
    if first + q_len > k_len >= q_len:
        what = f"be at most {k_len - q_len}, since the keys of the queries are among `k`"
        raise wrong_value("offset", what, offset, _REMEDY)
    if isinstance(mask, Mask):
        mask._check((first, first + q_len), k_len, space)
        if q_len < k_len:
            _check_padding(mask, offset, k_len, is_alone=not isinstance(rules.bias, Bias))
    return first


def _check_padding(mask: Mask, offset: int | None, k_len: int, *, is_alone: bool) -> None:
    """Check that padding does not count keys that the mask of a prompt did not know."""
    for part in getattr(mask, "masks", ()):
        _check_padding(part, offset, k_len, is_alone=False)
    if not isinstance(mask, PaddingMask):
        return
    if is_alone and offset is None:  # the keys may be of another sequence
        if mask._bounds is not None and mask._bounds[1] < k_len:
            what = f"have a length of all {k_len} keys, as the longest sequence has"
            raise wrong_value("mask", what, mask, _REMEDY + _ANOTHER)
        return
    if mask.side == "left":
        what = "have no PaddingMask on the left where queries are fewer than keys"
        raise wrong_value("mask", what, mask, _REMEDY)
    if offset is None:
        what = "have no PaddingMask where queries are fewer than keys, unless `offset` is given"
        raise wrong_value("mask", what, mask, _REMEDY)
    if mask._bounds is not None and mask._bounds[1] <= offset:
        what = f"have a length above `offset` = {offset}, so that a query is no padding"
        raise wrong_value("mask", what, mask, _REMEDY)


def number_of_sinks(sinks: Array, xp: Namespace) -> Any:
    """Check sinks, and return their number."""
    checks.real_floating(xp, sinks=sinks)
    if sinks.ndim != 1:
        raise wrong_value("sinks", "have shape (heads,)", tuple(sinks.shape))
    return sinks.shape[0]


def checked_mask_or_bias(name: str, given: Any, layout: Layout, space: Space) -> Any:
    """Check a function or an array, and return it, an array with the axes of scores."""
    other, rest = (Bias, "bias") if name == "mask" else (Mask, "mask")
    if isinstance(given, type) and issubclass(given, Mask | Bias):
        came = given.__name__
        raise wrong_type(name, f"be a {name}", f"the class {came}", f" Pass {came}(...).")
    if isinstance(given, other):
        raise wrong_type(name, f"be a {name}", shown(given), f" Pass it as `{rest}`.")
    if callable(given):
        return given
    checks.mask_or_bias(name, name, given, space.xp)
    return layout.align(name, given, layout.queries.size, layout.keys.size, space)


def call_score_function(kind: str, given: Any, q_idx: Array, k_idx: Array) -> tuple[str, Any]:
    """Call a mask or bias function, check its result, and return it after its name in messages."""
    name, array = f"{kind}(q_idx, k_idx)", as_caller(given, q_idx, k_idx)
    xp = space_of(q_idx=q_idx, **{name: array}).xp
    checks.mask_or_bias(kind, name, array, xp)
    return name, array
