"""Cosine and sine of a step's positions, made once for the queries and keys of all layers."""

from dataclasses import dataclass, field
from typing import Any

from positional_embeddings.angles.pages import expand
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.weights import WeightedLayer, array_field
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.errors import wrong_type
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.kept import frozen_copy, numpy_key, once
from positional_embeddings.arrays.namespace import Array, ArrayT, Namespace, np
from positional_embeddings.rotary.rotate import rotate, rotate_doubled, run_for


@dataclass(frozen=True, eq=False)
class RotaryTables(WeightedLayer):
    """Cosine and sine at some positions, by which queries and keys of many layers are rotated.

    `RoPE.tables` makes them, once for each step of a model.

    Parameters
    ----------
    rope : RoPE
        Its layout, partial dimension and axes are those of what is rotated.
    cos_sin : array, shape (2, pairs, ...)
        Cosine and sine of each rotated pair, at the positions that follow. An array of NumPy is
        copied.

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
    # What is known of calls with arrays of NumPy; the tables in it are these.
    _known: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tables = self.cos_sin
        if type(tables) is np.ndarray:  # of which what is known of calls has copies
            tables = frozen_copy(tables)
        checks.set_fields(self, cos_sin=tables, _known={})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    @property
    def cos(self) -> Any:
        """Cosines (pairs, ...), or (..., pairs) if features come after positions in the rope."""
        return self._with_features(0, space_of(tables=self.cos_sin).xp)

    @property
    def sin(self) -> Any:
        """Sines in the shape of `cos`."""
        return self._with_features(1, space_of(tables=self.cos_sin).xp)

    def __call__(self, x: ArrayT, /, *, inverse: bool = False, out: ArrayT | None = None) -> ArrayT:
        """Rotate queries or keys to the positions of the tables.

        Parameters
        ----------
        x : array
            As in a call of the rope.
        inverse : bool, default False
            Rotate back what was rotated before.
        out : array, optional
            Array to write the result to, as in a call of the rope.

        Returns
        -------
        array
            Shape, dtype and order in memory of `x`, or `out`.

        Raises
        ------
        TypeError, ValueError
            The errors of calling the rope; if the tables are of a narrower dtype than `x` is
            rotated in.
        """
        inverse = checks.boolean("inverse", inverse)
        key = numpy_key(x, out)
        found = once(self._known, key, lambda: self._fit(x, out))
        space, axis, run, cos, sin = found
        if inverse:
            cos, sin = self.rope._without_factor(cos, sin, 2)  # noqa: SLF001
            sin = -sin
        return rotate(x, cos, sin, axis, self.rope.layout, space, run=run, out=out)

    def _fit(self, x: Array, out: Array) -> tuple[Any, ...]:
        """Check an array, and return its space and axis, what rotates it, and its tables."""
        rope = self.rope
        space = space_of(x=x, tables=self.cos_sin, **namespace.drop_none(out=out))
        target = axes.target_of(x, space, rope, "head_size", complex_pairs=True)
        if out is not None:
            checks.output(out, x, space)
        tables = self.cos_sin
        if space.dtype != tables.dtype and space.dtype == space.xp.float64:
            came = dtypes.dtype_name(x.dtype)
            hint = " Make tables with dtype= of `x`."
            raise wrong_type("x", "have the dtype of the tables, float32, or less", came, hint)
        tables = space.astype(tables, space.dtype)
        tables = axes.repeat_for_heads(tables, tables.ndim - 2, target, space)
        shape = tuple(tables.shape)[2:]
        own = axes.axes_of_positions(shape, target.shape, target.feature, target.seq, "positions")
        cos, sin = expand(tables, target, own, space)
        axis, layout = target.feature, rope.layout
        run = run_for(x, axis, cos.shape[axis], layout, space, cos, sin, fused=rope.fused, out=out)
        if run is rotate_doubled:
            cos, sin = np.concat([cos, cos], axis=axis), np.concat([-sin, sin], axis=axis)
        return space, axis, run, cos, sin

    def _with_features(self, which: int, xp: Namespace) -> Any:
        table = self.cos_sin[which, ...]
        last = (*range(1, table.ndim), 0)
        return xp.permute_dims(table, last) if axes.is_last(self.rope) else table
