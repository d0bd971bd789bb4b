"""Learned positional encodings: a table of vectors to add to the features."""

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
from positional_embeddings.encodings.add import add_wide
from positional_embeddings.encodings.dropout import dropout


@dataclass(frozen=True, eq=False)
class LearnedPE(weights.ArrayDataclass):
    """Learned positional encoding, added to the features.

    Immutable: `dataclasses.replace` gives a copy with another table. Load the table of a
    checkpoint by ``LearnedPE(size, length, embeddings=table)``, transposed if it is stored as
    (position, feature).

    Positions count from 0: pass ``offset=2`` for the table of OPT, whose first two rows are of no
    position, and ``padding_idx + 1`` for RoBERTa. Padding on the left counts, too, unless
    `positions` are given, as `positions_from_mask` makes them.

    Parameters
    ----------
    embedding_size : int
        Number of features, positive, at most 2**20.
    max_len : int
        Number of positions, positive, at most 2**48.
    init_std : float, default 0.02
        Standard deviation of the normal distribution that the table is drawn from;
        numbers beyond two deviations are drawn again.
    padding_idx : int, optional
        Position whose vector is zero, and gets no gradient.
    dropout : float, default 0.0
        Probability that a call with `rng` sets a feature to zero, 0 or more and below 1.
    rng : int or numpy.random.Generator, optional
        Seed or generator for drawing the table.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `x`: 0 and 1 by default for arrays of at most three
        axes, and to be given for more.
    embeddings : array, shape (embedding_size, max_len), optional
        The table, of any library; drawn if None. A `torch.nn.Parameter` is kept as it is, so
        that an optimizer trains it.
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
            Real floating-point numbers in the library of the table, with `embedding_size` features
            on `feature_axis` and positions on `seq_axis`.
        positions : array, optional
            Integers from 0 to `max_len` - 1 in any order, of shape (seq,); (batch, seq) or
            (seq, batch), in the order of the axes of `x`; or with all axes of `x` but the feature
            axis; each of the length in `x` or 1.
        offset : int, default 0
            Position of the first element if `positions` is None.
        rng : numpy.random.Generator, cupy.random.Generator or callable, optional
            Random numbers for `dropout`: a generator, or a function from a shape to an array of
            numbers from 0 to below 1. If None, nothing is dropped.

        Returns
        -------
        array
            Shape and dtype of `x`. The sum for half precision is computed in float32.

        Raises
        ------
        TypeError
            If `x` is not real floating-point, `positions` are not integers, or either is of
            another library than the table.
        ValueError
            If `x` or `positions` has the wrong shape, a position lies outside the table, or both
            `positions` and `offset` are given. On a GPU, which is not waited for, and where arrays
            are lazy or traced, a position outside the table gives NaN.
        """
        backend, vectors = self._vectors("x", x, positions, offset)
        encoded = add_wide(x, vectors, backend)
        return encoded if rng is None else dropout(encoded, self.dropout, rng=rng)

    def encoding(
        self, like: ArrayT, /, *, positions: Array | None = None, offset: int = 0
    ) -> ArrayT:
        """Return the vectors of the positions, ready to be added to arrays like a given one.

        Computed once, they serve all arrays with the same positions: without dropout, ``pe(x)``
        is ``add_positional_encoding(x, pe.encoding(x))``.

        Parameters
        ----------
        like : array
            Array of the shape, library and dtype of those to add the encoding to.
        positions, offset : optional
            As in a call.

        Returns
        -------
        array
            In the layout of `like`, with length 1 on axes along which the vectors are the same, and
            in its dtype, or in float32 for half precision.

        Raises
        ------
        TypeError, ValueError
            As a call.

        Examples
        --------
        >>> import numpy as np
        >>> pe = LearnedPE(4, 10, rng=0, feature_axis=-1, seq_axis=-2)
        >>> x = np.zeros((2, 3, 4), dtype=np.float32)
        >>> encoding = pe.encoding(x)
        >>> encoding.shape, np.array_equal(x + encoding, pe(x))
        ((1, 3, 4), True)
        """
        backend, vectors = self._vectors("like", like, positions, offset)
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
            Those of the call.

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
            As the call; positions outside the table that give NaN there get no gradient here.
        """
        backend, columns, table_axes = self._lookup("grad", grad, positions, offset)
        xp = backend.xp
        # The sum over the axes that the vectors were repeated along.
        others = tuple(i for i in range(grad.ndim) if i not in table_axes)
        with backend.compute_context(grad):
            wide = backend.astype(grad, backend.dtype)
            wide = xp.sum(wide, axis=others, keepdims=True) if others else wide
        lengths = tuple(grad.shape[axis] for axis in table_axes[1:])
        flat = xp.permute_dims(wide, (*table_axes, *others))
        flat = xp.reshape(flat, (self.embedding_size, prod(lengths)))
        if positions is None:
            like: dict[str, Any] = {"dtype": backend.dtype, "device": backend.device}
            before = xp.zeros((self.embedding_size, columns.start), **like)
            after = xp.zeros((self.embedding_size, self.max_len - columns.stop), **like)
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
        """Return the encoding for another length or grid, by interpolation of the table.

        Between lengths it is linear, and the first and the last vector stay as they are. Between
        grids, such as the patches of images, it is bicubic, with the centres of patches in
        proportion.

        Parameters
        ----------
        max_len : int or (int, int)
            New number of positions, positive; or height and width of the new grid, whose
            positions are in C order.
        grid : (int, int), optional
            Height and width of the present grid; a square if None. For a new grid only.
        prefix : int, default 0
            Number of positions before the grid, such as the one of a class token, which stay as
            they are. For a new grid only.
        antialias : bool, default False
            Whether a smaller grid is averaged over what is left out, by a wider cubic of Keys's
            parameter -0.5 instead of -0.75, as image libraries do. For a new grid only.

        Returns
        -------
        LearnedPE
            A new layer with the interpolated table. In a grid, a feature with a number that is not
            finite has no finite numbers left.

        Raises
        ------
        TypeError
            If a size is not an integer, or `antialias` is not a boolean.
        ValueError
            If a size is not positive, the table does not have the positions of `prefix` and `grid`,
            an option for grids is given with a length, or the layer has a `padding_idx`, whose
            zeros would mix into its neighbours.

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
        xp, on = backend.xp, {"dtype": backend.dtype, "device": backend.device}
        with backend.compute_context(self.embeddings):
            wide = backend.astype(self.embeddings, backend.dtype)
            if isinstance(max_len, tuple | list):
                height, width = _grid("max_len", max_len)
                prefix = checks.non_negative_integer("prefix", prefix)
                antialias = checks.boolean("antialias", antialias)
                rest = self.max_len - prefix
                rows, columns = (isqrt(max(rest, 0)),) * 2 if grid is None else _grid("grid", grid)
                if rest < 1 or rest != rows * columns:
                    requirement = "be the height and width of all positions after `prefix`"
                    sizes = "no square" if grid is None else (rows, columns)
                    actual = f"{sizes} for {format_value(rest)}"
                    raise wrong_value("grid", requirement, actual)
                down, across = (
                    xp.asarray(_cubic_weights(old, new, antialias), **on)
                    for old, new in ((rows, height), (columns, width))
                )
                images = xp.reshape(wide[:, prefix:], (self.embedding_size, rows, columns))
                images = down @ (images @ across.T)
                new = xp.reshape(images, (self.embedding_size, height * width))
                wide = xp.concat([wide[:, :prefix], new], axis=1)
            else:
                flags: Any = {"prefix": prefix or None, "antialias": antialias or None}
                checks.omitted("unless `max_len` is a grid", grid=grid, **flags)
                max_len = checks.axis_length("max_len", max_len)  # type: ignore[arg-type]
                # New position j is at j * (old - 1) / (new - 1) among the old ones.
                steps = max(max_len - 1, 1)
                left, rest = np.divmod(np.arange(max_len) * (self.max_len - 1), steps)
                right = np.minimum(left + 1, self.max_len - 1)
                fraction = xp.asarray(rest / steps, **on)
                ends = (xp.asarray(end, **on | {"dtype": backend.integer}) for end in (left, right))
                before, after = (xp.take(wide, end, axis=1) for end in ends)
                # Zero times infinity would be NaN.
                after = xp.where(fraction > 0, after, 0)
                wide = before * (1 - fraction) + after * fraction
            table = backend.astype(wide, self.embeddings.dtype)
            return replace(self, max_len=wide.shape[1], embeddings=table)

    def _vectors(
        self, name: str, x: Array, positions: Array | None, offset: int
    ) -> tuple[Backend, Array]:
        """Return the space of a call, and the vectors of the positions of `x` on its axes."""
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
        """Check an array; return its space, the columns at an offset, and the axes of the table."""
        arrays = namespace.drop_none(positions=positions)
        backend = get_backend(**{name: x}, **arrays, embeddings=self.embeddings)
        x_axes = axes.input_axes(x, backend, self, "embedding_size", name)
        feature, seq = x_axes.feature, x_axes.seq
        offset = checks.non_negative_integer("offset", offset)
        if positions is not None:
            checks.omitted("where `positions` are given", offset=offset or None)
            x_axes = x_axes.with_positions(tuple(positions.shape), "positions")
            return backend, slice(None), [feature, *x_axes.positions]
        size = axes.length(x, seq, name)
        checks.within_table(size, offset, self.max_len, "max_len", seq, name)
        return backend, slice(offset, offset + size), [feature, seq]


def _grid(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """Check the height and the width of a grid."""
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise wrong_value(name, "have a height and a width", format_value(shape))
    height, width = (checks.axis_length(f"{name}[{i}]", n) for i, n in enumerate(shape))
    return height, width


def _cubic_weights(old: int, new: int, antialias: bool) -> Array:  # noqa: FBT001
    """Return the weights (new, old) of cubic interpolation between centres of equal cells.

    Without antialiasing the border cells go on for two cells beyond the border.
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
    """Return Keys's cubic of parameter `a`, which is 0 from 2 on."""
    x = abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
