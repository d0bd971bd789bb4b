"""Learned positional encodings: a table of vectors added to the features."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from math import isqrt, prod
from typing import Any

from positional_embeddings.arguments import axes, checks, weights
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_value
from positional_embeddings.arrays.namespace import Array, ArrayT, Device, Dtype, Namespace, np
from positional_embeddings.encodings.add import add_upcast
from positional_embeddings.encodings.dropout import dropout


@dataclass(frozen=True, eq=False)
class LearnedPE(weights.ArrayDataclass):
    """Learned positional encoding, added to the features.

    Immutable: `dataclasses.replace` returns a copy with another table. Load the table of a
    checkpoint by ``LearnedPE(size, length, embeddings=table)``; transpose a table
    (position, feature).

    Positions count from 0: pass ``offset=2`` for the table of OPT, whose first two rows are unused,
    and ``padding_idx + 1`` for RoBERTa. Left padding is counted, unless you pass `positions` such
    as the result of `positions_from_mask`.

    Parameters
    ----------
    embedding_size : int
        Number of features, positive, at most 2**20.
    max_len : int
        Number of positions, positive, at most 2**48.
    init_std : float, default 0.02
        Standard deviation of the normal distribution of a drawn table, truncated at two standard
        deviations.
    padding_idx : int, optional
        Position with a vector of zeros and no gradient.
    dropout : float, default 0.0
        Probability that a call with `rng` sets a feature to zero, 0 or more and below 1.
    rng : int or numpy.random.Generator, optional
        Seed or generator for drawing the table.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `x`: 0 and 1 by default for arrays of at most three
        axes, and required for more.
    embeddings : array, shape (embedding_size, max_len), optional
        The table, of any library; drawn if None. If both sizes are equal, a table
        (position, feature) that is not transposed raises no error. A `torch.nn.Parameter` is not
        copied, so that an optimizer can train it.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (float32 if None) and device of a drawn table.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size is not positive, `padding_idx` is out of range, or the table has the wrong shape.

    References
    ----------
    Gehring et al. (2017), Convolutional Sequence to Sequence Learning, section 3.1;
    Devlin et al. (2019), BERT, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> pe = LearnedPE(4, 10, rng=0)
    >>> pe
    LearnedPE(embedding_size=4, max_len=10, init_std=0.02, padding_idx=None, dropout=0.0,
              rng=0, feature_axis=None, seq_axis=None)
    >>> x = np.zeros((4, 3, 2), dtype=np.float32)
    >>> np.array_equal(pe(x)[:, :, 0], pe.embeddings[:, :3])
    True
    """

    embedding_size: checks.FeatureCount
    max_len: checks.AxisLength
    _: KW_ONLY
    init_std: checks.PositiveNumber = 0.02
    padding_idx: int | None = None
    dropout: checks.Rate = 0.0
    rng: Any = field(default=None, compare=False)
    feature_axis: int | None = None
    seq_axis: int | None = None
    embeddings: Array = weights.array_field(None)
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    def __post_init__(self, xp: Namespace, dtype: Dtype, device: Device) -> None:
        self._check_fields()
        axes.set_axes(self)
        shape = (self.embedding_size, self.max_len)
        draw = weights.truncated_normal(self.init_std)
        weights.set_padded_table(self, shape, draw, xp, dtype, device)

    def __call__(
        self, x: ArrayT, /, *, positions: Array | None = None, offset: int = 0, rng: Any = None
    ) -> ArrayT:
        """Add the vector of each position to its features.

        Parameters
        ----------
        x : array
            Real floating-point numbers of the library of the table, with `embedding_size` features
            on `feature_axis` and positions on `seq_axis`.
        positions : array, optional
            Integers from 0 to `max_len` - 1 in any order. The axes are (seq,); (batch, seq) or
            (seq, batch), in the axis order of `x`; or the axes of `x` without the features. Each
            has the length in `x`, or 1.
        offset : int, default 0
            Position of the first element if `positions` is None.
        rng : numpy.random.Generator, cupy.random.Generator or callable, optional
            Random numbers for `dropout`: a generator, or a function from a shape to an array of
            numbers in [0, 1). If None, there is no dropout.

        Returns
        -------
        array
            Shape and dtype of `x`. The sum for half precision is computed in float32.

        Raises
        ------
        TypeError
            If `x` is not real floating-point, `positions` are not integers, or either is not of the
            library of the table.
        ValueError
            If `x` or `positions` has the wrong shape, a position is outside the table, or both
            `positions` and `offset` are given. On a GPU, and in lazy or traced arrays, the vector
            of a position outside the table is NaN instead.
        """
        backend, vectors = self._vectors("x", x, positions, offset)
        encoded = add_upcast(x, vectors, backend)
        return encoded if rng is None else dropout(encoded, self.dropout, rng=rng)

    def encoding(self, x: ArrayT, /, *, positions: Array | None = None, offset: int = 0) -> ArrayT:
        """Return the vectors of the positions, to add to several arrays of the shape of `x`.

        Without dropout, ``pe(x)`` equals ``add_positional_encoding(x, pe.encoding(x))``.

        Parameters
        ----------
        x : array
            Array with the shape, library and dtype of the arrays to add the encoding to.
        positions, offset : optional
            As in a call.

        Returns
        -------
        array
            In the layout of `x`, with length 1 on axes along which the vectors are the same, and in
            its dtype, or in float32 for half precision.

        Raises
        ------
        TypeError, ValueError
            As in a call.

        Examples
        --------
        >>> import numpy as np
        >>> pe = LearnedPE(4, 10, rng=0, feature_axis=-1, seq_axis=-2)
        >>> x = np.zeros((2, 3, 4), dtype=np.float32)
        >>> encoding = pe.encoding(x)
        >>> encoding.shape, np.array_equal(x + encoding, pe(x))
        ((1, 3, 4), True)
        """
        backend, vectors = self._vectors("x", x, positions, offset)
        return backend.xp.astype(vectors, backend.dtype, copy=True)  # type: ignore[no-any-return]

    def vjp(
        self, grad: ArrayT, /, *, positions: Array | None = None, offset: int = 0
    ) -> tuple[ArrayT, Array]:
        """Return the gradients with respect to `x` and to the table, without dropout.

        Parameters
        ----------
        grad : array
            Gradient with respect to the result of the call, in its shape.
        positions, offset : optional
            As in the call.

        Returns
        -------
        grad_x : array
            `grad` itself.
        grad_embeddings : array, shape (embedding_size, max_len)
            Gradient of the table, in its dtype: summed over repeated positions, and zero at
            `padding_idx`.

        Raises
        ------
        TypeError, ValueError
            As in the call. Positions outside the table with a NaN vector have no gradient.
        """
        backend, columns, table_axes = self._lookup("grad", grad, positions, offset)
        xp = backend.xp
        # The vectors were repeated along the axes of the sum.
        repeated = tuple(i for i in range(grad.ndim) if i not in table_axes)
        with backend.compute_context(grad):
            total = backend.astype(grad, backend.dtype)
            total = xp.sum(total, axis=repeated, keepdims=True) if repeated else total
        lengths = tuple(grad.shape[axis] for axis in table_axes[1:])
        flat = xp.permute_dims(total, (*table_axes, *repeated))
        flat = xp.reshape(flat, (self.embedding_size, prod(lengths)))
        if positions is None:
            options: dict[str, Any] = {"dtype": backend.dtype, "device": backend.device}
            before = xp.zeros((self.embedding_size, columns.start), **options)
            after = xp.zeros((self.embedding_size, self.max_len - columns.stop), **options)
            total = xp.concat([before, flat, after], axis=1)
        else:
            indices = weights.checked_indices("positions", positions, self.max_len, backend)
            indices = xp.reshape(xp.broadcast_to(indices, lengths), (prod(lengths),))
            with backend.compute_context(grad):
                total = weights.segment_sum(flat, indices, self.max_len, backend)
        total = weights.zero_padding_idx(total, self.padding_idx, backend)
        with backend.compute_context(grad):
            return grad, backend.astype(total, self.embeddings.dtype)

    def resize(
        self,
        max_len: int | Sequence[int],
        *,
        grid: Sequence[int] | None = None,
        prefix: int = 0,
        antialias: bool = False,
    ) -> "LearnedPE":
        """Interpolate the table to another length or grid.

        Interpolation to a length is linear, and does not change the first and last vectors.
        Interpolation between grids, such as the patches of images, is bicubic and aligns the
        borders of the grids.

        Parameters
        ----------
        max_len : int or (int, int)
            New number of positions, positive; or height and width of the new grid, with positions
            in C order.
        grid : (int, int), optional
            Height and width of the old grid; a square if None. Only for a new grid.
        prefix : int, default 0
            Number of unchanged positions before the grid, such as 1 for a class token. Only for a
            new grid.
        antialias : bool, default False
            Whether to smooth a smaller grid by a wider cubic with Keys's parameter -0.5 in place of
            -0.75, as image libraries do. Only for a new grid.

        Returns
        -------
        LearnedPE
            A new layer with the interpolated table. In a grid, NaN or infinity in a feature
            removes all its finite numbers.

        Raises
        ------
        TypeError
            If a size is not an integer, or `antialias` is not a boolean.
        ValueError
            If a size is not positive, `prefix` and `grid` do not match the table, an option for
            grids is given with a length, or the layer has a `padding_idx`, whose zeros would change
            its neighbours.

        References
        ----------
        Keys (1981), Cubic convolution interpolation for digital image processing, equation 4;
        Dosovitskiy et al. (2021), An Image is Worth 16x16 Words, section 3.2.

        Examples
        --------
        >>> import numpy as np
        >>> pe = LearnedPE(1, 3, embeddings=np.asarray([[0.0, 1.0, 4.0]]))
        >>> pe.resize(5).embeddings
        array([[0. , 0.5, 1. , 2.5, 4. ]])

        The table of a class token and 14 x 14 patches, for images of 16 x 20 patches:

        >>> LearnedPE(8, 1 + 14 * 14, rng=0).resize((16, 20), prefix=1).max_len
        321
        """
        if self.padding_idx is not None:
            raise wrong_value("padding_idx", "be None to resize", self.padding_idx)
        backend = get_backend(embeddings=self.embeddings)
        xp, options = backend.xp, {"dtype": backend.dtype, "device": backend.device}
        with backend.compute_context(self.embeddings):
            table = backend.astype(self.embeddings, backend.dtype)
            if isinstance(max_len, tuple | list):
                height, width = _grid("max_len", max_len)
                prefix = checks.non_negative_integer("prefix", prefix)
                antialias = checks.boolean("antialias", antialias)
                count = self.max_len - prefix
                rows, columns = (isqrt(max(count, 0)),) * 2 if grid is None else _grid("grid", grid)
                if count < 1 or count != rows * columns:
                    requirement = "be the height and width of all positions after `prefix`"
                    sizes = "no square" if grid is None else (rows, columns)
                    actual = f"{sizes} for {format_value(count)}"
                    raise wrong_value("grid", requirement, actual)
                row_weights, column_weights = (
                    xp.asarray(_cubic_weights(old, new, antialias), **options)
                    for old, new in ((rows, height), (columns, width))
                )
                images = xp.reshape(table[:, prefix:], (self.embedding_size, rows, columns))
                images = row_weights @ (images @ column_weights.T)
                new = xp.reshape(images, (self.embedding_size, height * width))
                table = xp.concat([table[:, :prefix], new], axis=1)
            else:
                flags: Any = {"prefix": prefix or None, "antialias": antialias or None}
                checks.omitted("unless `max_len` is a grid", grid=grid, **flags)
                max_len = checks.axis_length("max_len", max_len)  # type: ignore[arg-type]
                # New position j corresponds to the old position j * (old - 1) / (new - 1).
                steps = max(max_len - 1, 1)
                lower, remainder = np.divmod(np.arange(max_len) * (self.max_len - 1), steps)
                upper = np.minimum(lower + 1, self.max_len - 1)
                fraction = xp.asarray(remainder / steps, **options)
                options["dtype"] = backend.int_dtype
                indices = (xp.asarray(index, **options) for index in (lower, upper))
                before, after = (xp.take(table, index, axis=1) for index in indices)
                # Zero times infinity would be NaN.
                after = xp.where(fraction > 0, after, 0)
                table = before * (1 - fraction) + after * fraction
            table = backend.astype(table, self.embeddings.dtype)
            return replace(self, max_len=table.shape[1], embeddings=table)

    def _vectors(
        self, name: str, x: Array, positions: Array | None, offset: int
    ) -> tuple[Backend, Array]:
        """Return the backend of a call, and the vectors of the positions on the axes of `x`."""
        backend, columns, table_axes = self._lookup(name, x, positions, offset)
        table, padding_idx = self.embeddings, self.padding_idx
        if positions is None:
            vectors = weights.zero_padding_idx(
                table[:, columns], padding_idx, backend, columns.start
            )
        else:
            vectors = weights.embedding_lookup("positions", positions, table, backend, padding_idx)
        return backend, axes.expand_to_axes(vectors, table_axes, x.ndim, backend.xp)

    def _lookup(
        self, name: str, x: Array, positions: Array | None, offset: int
    ) -> tuple[Backend, slice, list[int]]:
        """Check an array; return its backend, the columns at `offset`, and the table's axes."""
        arrays = namespace.drop_none(positions=positions)
        backend = get_backend(**{name: x}, **arrays, embeddings=self.embeddings)
        x_axes = axes.input_axes(x, backend, self, "embedding_size", name)
        feature, seq = x_axes.feature_axis, x_axes.seq_axis
        offset = checks.non_negative_integer("offset", offset)
        if positions is not None:
            checks.omitted("where `positions` are given", offset=offset or None)
            x_axes = x_axes.with_positions(tuple(positions.shape), "positions")
            return backend, slice(None), [feature, *x_axes.position_axes]
        size = axes.length(x, seq, name)
        checks.within_table(size, offset, self.max_len, "max_len", seq, name)
        return backend, slice(offset, offset + size), [feature, seq]


def _grid(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """Check the height and the width of a grid and return them."""
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise wrong_value(name, "have a height and a width", format_value(shape))
    height, width = (checks.axis_length(f"{name}[{i}]", n) for i, n in enumerate(shape))
    return height, width


def _cubic_weights(old: int, new: int, antialias: bool) -> Array:  # noqa: FBT001
    """Return the weights (new, old) of cubic interpolation between centres of equal cells.

    Without antialiasing the border cells are repeated twice beyond the border.
    """
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    distances = np.arange(-2, old + 2) - centres[:, None]
    spread = max(old / new, 1.0) if antialias else 1.0
    padded = _cubic(distances / spread, -0.5 if antialias else -0.75)
    weights = padded[:, 2:-2]
    if not antialias:
        weights[:, 0] += padded[:, 0] + padded[:, 1]
        weights[:, -1] += padded[:, -2] + padded[:, -1]
    return weights / np.sum(weights, axis=1, keepdims=True)


def _cubic(x: Array, a: float) -> Array:
    """Return Keys's cubic with parameter `a`, which is 0 for distances of 2 or more."""
    x = abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
