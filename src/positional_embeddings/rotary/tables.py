"""Cosine and sine at the positions of a step, shared by the queries and keys of all layers."""

from dataclasses import dataclass, field
from typing import Any

from positional_embeddings.angles.pages import align_tables
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.weights import ArrayDataclass, array_field
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import call_key, frozen_copy, remember
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_type
from positional_embeddings.arrays.namespace import Array, ArrayT, Namespace, drop_none, np
from positional_embeddings.rotary.rotate import (
    full_width_tables,
    plan_rotation,
    rotate,
    rotate_full_width,
)


@dataclass(frozen=True, eq=False)
class RotaryTables(ArrayDataclass):
    """Cosine and sine at the positions of a step, for the queries and keys of all layers.

    ``RoPE.tables`` returns them.

    Parameters
    ----------
    rope : RoPE
        The layer, with the layout, rotated features and axes of the queries and keys.
    cos_sin : array, shape (2, pairs, ...)
        Cosine and sine of each rotated pair; the further axes are the axes of the positions. A
        NumPy array is copied; do not change another one.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import RoPE
    >>> rope = RoPE(64, 1024, feature_axis=-1, seq_axis=-2)
    >>> tables = rope.tables(np.asarray([[0, 1, 2], [5, 6, 7]]))  # (batch, seq)
    >>> q, k = np.ones((2, 8, 3, 64)), np.ones((2, 2, 3, 64))
    >>> tables(q).shape, tables(k).shape
    ((2, 8, 3, 64), (2, 2, 3, 64))
    """

    rope: Any
    cos_sin: Any = array_field()
    # Plans and aligned tables, by `call_key`.
    _plans: dict[Any, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tables = self.cos_sin
        if type(tables) is np.ndarray:  # plans copy its values
            tables = frozen_copy(tables)
        checks.set_fields(self, cos_sin=tables, _plans={})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    @property
    def cos(self) -> Any:
        """Cosines (pairs, ...), or (..., pairs) if features are last in the rope."""
        return self._with_features(0, get_backend(tables=self.cos_sin).xp)

    @property
    def sin(self) -> Any:
        """Sines in the shape of `cos`."""
        return self._with_features(1, get_backend(tables=self.cos_sin).xp)

    def __call__(self, x: ArrayT, /, *, inverse: bool = False, out: ArrayT | None = None) -> ArrayT:
        """Rotate queries or keys to the positions of the tables.

        Parameters
        ----------
        x : array
            As in a call of the rope.
        inverse : bool, default False
            Whether to rotate by the opposite angles.
        out : array, optional
            Array to write the result to, as in a call of the rope.

        Returns
        -------
        array
            Shape, dtype and memory order of `x`, or `out`.

        Raises
        ------
        TypeError, ValueError
            As in a call of the rope; also if the tables have a narrower dtype than the compute
            dtype of `x`.
        """
        inverse = checks.boolean("inverse", inverse)
        divisor = self.rope.attention_factor**2 if inverse else 1.0
        plan, cos, sin = self._prepare(x, out)
        return rotate(x, cos, sin, plan, inverse=inverse, divisor=divisor, out=out)

    def _prepare(self, x: Array, out: Array = None) -> tuple[Any, Array, Array]:
        """Check an array, and return its plan and its tables."""
        key = call_key(x, out)
        if prepared := self._plans.get(key):  # another thread may delete it after the call
            return prepared  # type: ignore[no-any-return]
        tables = self.cos_sin
        backend = get_backend(x=x, tables=tables, **drop_none(out=out))
        x_axes = self._input_axes(x, backend)
        plan = plan_rotation(x_axes.feature_axis, self.rope, backend, x, out, tables)
        with backend.compute_context(x):
            tables = backend.astype(tables, backend.dtype)
            tables = axes.repeat_for_heads(tables, x_axes.repeats, backend)
            cos, sin = align_tables(tables, x_axes, backend)
        if plan.kernel is rotate_full_width:
            cos, sin = full_width_tables(cos, sin, x_axes.feature_axis, backend.xp)
        # Copies in CuPy belong to the stream that made them.
        if backend.is_numpy or (tables is self.cos_sin and not backend.is_trainable(tables)):
            remember(self._plans, key, (plan, cos, sin))
        return plan, cos, sin

    def _input_axes(self, x: Array, backend: Backend) -> axes.InputAxes:
        """Check an array, and return its axes of features and positions."""
        x_axes = axes.input_axes(x, backend, self.rope, "head_size", complex_pairs=True)
        if backend.dtype != self.cos_sin.dtype and backend.dtype == backend.xp.float64:
            actual = dtypes.dtype_name(x.dtype)
            hint = " Make tables with dtype= of `x`."
            raise wrong_type("x", "have the dtype of the tables, float32, or less", actual, hint)
        shape = tuple(self.cos_sin.shape)[2:]
        heads = axes.repeats_of_positions(shape, x_axes)
        return x_axes.with_positions(shape, "positions", heads)

    def _with_features(self, index: int, xp: Namespace) -> Array:
        table = self.cos_sin[index, ...]
        order = (*range(1, table.ndim), 0)
        return xp.permute_dims(table, order) if axes.has_features_last(self.rope) else table
