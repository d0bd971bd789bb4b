"""Absolute position encodings: vectors of sines and cosines that are added to features."""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Dtype,
    HostArray,
    Namespace,
    compute_dtype,
    default_float,
    default_integer,
    device_of,
    float_dtype,
    is_real_floating,
    namespace_of,
    present,
)
from positional_embeddings._tables import PositionTables
from positional_embeddings.frequencies import cos_sin, turns

Arrangement = Literal["interleaved", "concatenated"]
_ARRANGEMENTS = ("interleaved", "concatenated")


def sinusoidal_encoding(
    positions: Array,
    /,
    dim: int,
    *,
    base: float = 10_000,
    arrangement: Arrangement = "interleaved",
    dtype: Dtype | None = None,
) -> Any:
    r"""Return sines and cosines of positions, one frequency for each pair of features.

    Parameters
    ----------
    positions : array
        Integer or real positions of any shape, sign and order.
    dim : int
        Number of features, positive. An odd number ends with a sine of its own.
    base : float, default 10_000
        Base of the frequencies, positive.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each frequency side by side, or all sines and then all
        cosines.
    dtype : dtype, optional
        Real floating-point dtype of the result. Where it is None, that of real
        positions, or the library's default for integer ones.

    Returns
    -------
    array, shape (dim, *positions.shape)
        :math:`\sin(p\,\theta_i)` and :math:`\cos(p\,\theta_i)` with
        :math:`\theta_i = \mathrm{base}^{-2i/\mathrm{dim}}`, in the library and on
        the device of `positions`.

    Raises
    ------
    TypeError
        If `positions` is not an array of numbers, or an option is of the wrong kind.
    ValueError
        If `dim` or `base` is not positive, or `arrangement` is unknown.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> sinusoidal_encoding(np.arange(3), 4).round(2)
    array([[ 0.  ,  0.84,  0.91],
           [ 1.  ,  0.54, -0.42],
           [ 0.  ,  0.01,  0.02],
           [ 1.  ,  1.  ,  1.  ]])

    Positions may be real, such as times in years:

    >>> sinusoidal_encoding(np.asarray([1958.24, 2001.99]), 6, base=100).shape
    (6, 2)
    """
    xp = namespace_of(positions=positions)
    _checks.real("positions", positions, xp)
    dim = _checks.positive_integer("dim", dim)
    base = _checks.positive_number("base", base)
    _checks.choice("arrangement", arrangement, _ARRANGEMENTS)
    on = device_of(positions)
    default = positions.dtype if is_real_floating(positions.dtype, xp) else default_float(xp, on)
    dtype = float_dtype(dtype, default, xp, on)
    cos, sin = cos_sin(positions, turns(dim, base), compute_dtype(dtype, xp), xp)
    return xp.astype(_arranged(cos, sin, dim, arrangement, xp), dtype, copy=False)


@dataclass(frozen=True)
class AbsolutePE:
    """Sinusoidal position encoding, added to the features.

    Immutable and without arrays of a library: its table is made in the library, on
    the device and in the dtype of each `x` that it is called with.

    Parameters
    ----------
    embedding_size : int
        Number of features, positive, odd ones too.
    max_length : int
        Number of positions in the table, positive: the longest sequence that can
        be encoded without giving its `positions`.
    base : float, default 10_000
        Base of the frequencies, positive.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each frequency side by side, or all sines and then all
        cosines.
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
    feature_axis: int = 0
    seq_axis: int = 1
    _tables: PositionTables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        feature_axis, seq_axis = _axes.distinct_axes(self.feature_axis, self.seq_axis)
        size = _checks.positive_integer("embedding_size", self.embedding_size)
        max_length = _checks.positive_integer("max_length", self.max_length)
        base = _checks.positive_number("base", self.base)
        arrangement = _checks.choice("arrangement", self.arrangement, _ARRANGEMENTS)
        arrange = partial(_arranged_tables, dim=size, arrangement=arrangement)
        _checks.set_fields(
            self,
            embedding_size=size,
            max_length=max_length,
            base=base,
            feature_axis=feature_axis,
            seq_axis=seq_axis,
            _tables=PositionTables(turns(size, base), max_length, "max_length", arrange),
        )

    def __call__(self, x: ArrayT, /, *, positions: Array | None = None, offset: int = 0) -> ArrayT:
        """Add the encoding of each position to its features.

        Parameters
        ----------
        x : array
            Real floating-point numbers with `embedding_size` features along
            `feature_axis` and a sequence along `seq_axis`.
        positions : array, optional
            Integer or real positions of any sign and order. One axis belongs to
            the sequence; otherwise one axis fewer than `x` (the features left
            out), each as long as in `x` or 1. The table's length does not bound
            them.
        offset : int, default 0
            Position of the first element where `positions` is not given.

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
        wide = xp.astype(x, compute_dtype(x.dtype, xp), copy=False)
        encoded: ArrayT = xp.astype(wide + encoding, x.dtype, copy=False)
        return encoded

    @property
    def embeddings(self) -> HostArray:
        """Table, float64 NumPy array (embedding_size, max_length), read-only."""
        return self._tables.on_host()[0]


def _arranged_tables(
    cos: Any, sin: Any, xp: Namespace, *, dim: int, arrangement: str
) -> tuple[Any]:
    return (_arranged(cos, sin, dim, arrangement, xp),)


def _arranged(cos: Any, sin: Any, dim: int, arrangement: str, xp: Namespace) -> Any:
    """Put the rows of cosines and sines into one array of `dim` rows."""
    on, half = device_of(sin), (dim + 1) // 2
    rows = range(dim)
    interleaved = arrangement == "interleaved"
    frequency = [i // 2 if interleaved else i % half for i in rows]
    is_sine = [i % 2 == 0 if interleaved else i < half for i in rows]
    frequency = xp.asarray(frequency, dtype=default_integer(xp, on), device=on)
    is_sine = xp.asarray(is_sine, dtype=xp.bool, device=on)[(..., *(None,) * (sin.ndim - 1))]
    return xp.where(is_sine, xp.take(sin, frequency, axis=0), xp.take(cos, frequency, axis=0))
