"""Absolute position encodings, added to the features."""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    HostArray,
    Namespace,
    compute_dtype,
    namespace_of,
    present,
)
from positional_embeddings._tables import PositionTables
from positional_embeddings.dropouts import dropout
from positional_embeddings.frequencies import turns
from positional_embeddings.sinusoidal import ARRANGEMENTS, Arrangement, arranged


def add_positional_encoding(
    x: ArrayT, encoding: Array, /, *, feature_axis: int = 0, seq_axis: int = 1
) -> ArrayT:
    """Add an encoding to the features of each position.

    Parameters
    ----------
    x : array
        Real floating-point numbers with features along `feature_axis` and a sequence
        along `seq_axis`.
    encoding : array, shape (features, seq), or that of `x`
        What to add, the same for every further axis of `x`, or in the layout of `x`
        with 1 where it broadcasts. One of two axes is always (features, seq), whatever
        the layout of `x`.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `x`.

    Returns
    -------
    array
        Shape and dtype of `x`. Half precision is added to in float32.

    Raises
    ------
    TypeError
        If an argument is not an array of real floating-point numbers, or they come
        from different libraries.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    add_positional_encoding_vjp : The gradient.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import sinusoidal_encoding
    >>> x = np.zeros((4, 3, 2))
    >>> add_positional_encoding(x, sinusoidal_encoding(np.arange(3), 4))[:, 1, 0].round(2)
    array([0.84, 0.54, 0.01, 1.  ])
    """
    xp = namespace_of(x=x, encoding=encoding)
    _checks.real_floating(xp, x=x, encoding=encoding)
    feature, seq = _axes.feature_and_seq_axis(feature_axis, seq_axis, x)
    return add_wide(x, _lined_up(encoding, x, feature, seq, xp), xp)


def add_positional_encoding_vjp(
    grad: ArrayT, encoding: Array, /, *, feature_axis: int = 0, seq_axis: int = 1
) -> tuple[ArrayT, Array]:
    """Return the gradients of `add_positional_encoding` with respect to its arguments.

    Parameters
    ----------
    grad : array
        Gradient with respect to the result, in its shape.
    encoding : array, shape (features, seq), or that of `grad`
        What was added.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `grad`.

    Returns
    -------
    grad_x : array
        `grad` itself.
    grad_encoding : array
        `grad`, added up over the axes that `encoding` was repeated along; in the
        shape of `encoding`.

    Raises
    ------
    TypeError
        If an argument is not an array of real floating-point numbers, or they come
        from different libraries.
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> grad = np.ones((4, 3, 2))
    >>> grad_x, grad_encoding = add_positional_encoding_vjp(grad, np.zeros((4, 3)))
    >>> bool(np.all(grad_encoding == 2))
    True
    """
    xp = namespace_of(grad=grad, encoding=encoding)
    _checks.real_floating(xp, grad=grad, encoding=encoding)
    feature, seq = _axes.feature_and_seq_axis(feature_axis, seq_axis, grad, "grad")
    shape = _lined_up(encoding, grad, feature, seq, xp).shape
    repeated = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    wide = xp.astype(grad, compute_dtype(grad.dtype, xp), copy=False)
    total = xp.sum(wide, axis=repeated, keepdims=True) if repeated else wide
    if encoding.ndim == 2:
        total = total[tuple(slice(None) if i in (feature, seq) else 0 for i in range(grad.ndim))]
        total = total if feature < seq else xp.permute_dims(total, (1, 0))
    return grad, xp.astype(total, encoding.dtype, copy=False)


def _lined_up(encoding: Any, x: Any, feature: int, seq: int, xp: Namespace) -> Any:
    """Give an encoding the axes of `x`."""
    if encoding.ndim == 2:
        target = (x.shape[feature], x.shape[seq])
        _checks.broadcasts("encoding", tuple(encoding.shape), target, "features, seq")
        return _axes.placed(encoding, [feature, seq], x.ndim, xp)
    _checks.broadcasts("encoding", tuple(encoding.shape), tuple(x.shape), "as `x`")
    return encoding


@dataclass(frozen=True)
class AbsolutePE:
    """Sinusoidal position encoding, added to the features.

    Immutable and without arrays of a library: its table is made in the library, on
    the device and in the dtype of each `x` that it is called with.

    Parameters
    ----------
    embedding_size : int
        Number of features, positive, at most 2**20, odd ones too.
    max_length : int
        Number of positions in the table, positive, at most 2**63: the longest sequence that can
        be encoded without giving its `positions`.
    base : float, default 10_000
        Base of the frequencies, positive.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each frequency side by side, or all sines and then all
        cosines.
    dropout : float, default 0.0
        Rate of the features that a call with `rng` sets to zero, 0 or more and below 1.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `x`: -1 and -2 for
        ``(batch, seq, features)``.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size or `base` is not positive, `arrangement` is unknown, or both axes
        are the same.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> pe = AbsolutePE(512, 1000)
    >>> x = np.zeros((512, 100, 32), dtype=np.float32)
    >>> pe(x).shape
    (512, 100, 32)
    >>> np.array_equal(pe(x)[:, :, 0], pe.embeddings[:, :100].astype(np.float32))
    True
    """

    embedding_size: int
    max_length: int
    base: float = 10_000
    _: KW_ONLY
    arrangement: Arrangement = "interleaved"
    dropout: float = 0.0
    feature_axis: int = 0
    seq_axis: int = 1
    _tables: PositionTables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        feature_axis, seq_axis = _axes.distinct_axes(self.feature_axis, self.seq_axis)
        size = _checks.feature_count("embedding_size", self.embedding_size)
        max_length = _checks.positive_integer(
            "max_length", self.max_length, most=_checks.MOST_POSITIONS
        )
        base = _checks.positive_number("base", self.base)
        arrangement = _checks.choice("arrangement", self.arrangement, ARRANGEMENTS)
        arrange = partial(_arranged_tables, dim=size, arrangement=arrangement)
        _checks.set_fields(
            self,
            embedding_size=size,
            max_length=max_length,
            base=base,
            dropout=_checks.rate("dropout", self.dropout),
            feature_axis=feature_axis,
            seq_axis=seq_axis,
            _tables=PositionTables(turns(size, base), max_length, "max_length", arrange),
        )

    def __call__(
        self,
        x: ArrayT,
        /,
        *,
        positions: Array | None = None,
        offset: int = 0,
        rng: Any = None,
    ) -> ArrayT:
        """Add the encoding of each position to its features.

        Parameters
        ----------
        x : array
            Real floating-point numbers with `embedding_size` features along
            `feature_axis` and a sequence along `seq_axis`.
        positions : array, optional
            Integer or real positions of any sign and order; real ones beyond
            2**63 give NaN. One axis belongs to the sequence; two or more are
            those of `x` without the features, each as long as in `x` or 1. The
            table's length does not bound them.
        offset : int, default 0
            Position of the first element where `positions` is not given.
        rng : numpy.random.Generator, cupy.random.Generator or callable, optional
            Source of the random numbers of `dropout`: a generator, or a function
            from a shape to an array of numbers between 0 and 1. Without it nothing
            is dropped.

        Returns
        -------
        array
            Shape and dtype of `x`. Half precision is added to in float32.

        Raises
        ------
        TypeError
            If `x` does not hold real floating-point numbers, or `positions` come
            from another library or are not numbers.
        ValueError
            If `x` or `positions` has the wrong shape, the sequence reaches past the
            table, or both `positions` and `offset` are given.
        """
        xp = namespace_of(x=x, **present(positions=positions))
        _checks.real_floating(xp, x=x)
        offset = _checks.non_negative_integer("offset", offset)
        feature, seq = _axes.feature_and_seq_axis(self.feature_axis, self.seq_axis, x)
        _axes.features(x, self.embedding_size, "embedding_size", feature, seq)
        (encoding,) = self._tables.beside(x, positions, offset, feature, seq, xp)
        return dropout(add_wide(x, encoding, xp), self.dropout, rng=rng)

    @property
    def embeddings(self) -> HostArray:
        """Table, float64 NumPy array (embedding_size, max_length), read-only."""
        return self._tables.on_host()[0]


def add_wide(x: ArrayT, encoding: Any, xp: Namespace) -> ArrayT:
    """Add in float32 where `x` is of half precision, and return the dtype of `x`."""
    dtype = compute_dtype(x.dtype, xp)
    wide = xp.astype(x, dtype, copy=False) + xp.astype(encoding, dtype, copy=False)
    encoded: ArrayT = xp.astype(wide, x.dtype, copy=False)
    return encoded


def _arranged_tables(
    cos: Any, sin: Any, xp: Namespace, *, dim: int, arrangement: str
) -> tuple[Any]:
    return (arranged(cos, sin, dim, arrangement, xp),)
