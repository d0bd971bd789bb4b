"""Rotary position embeddings (RoPE).

Feature i and feature i + n/2 of each position form a pair that is turned by an
angle proportional to the position, so that the scalar product of two rotated
vectors depends on the distance of their positions only (Su et al. 2021).
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    HostArray,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    dtype_name,
    namespace_of,
    present,
    read_only,
)
from positional_embeddings._tables import PositionTables
from positional_embeddings.frequencies import inverse_frequencies, turns


def neg_half(x: ArrayT, /, axis: int = 0) -> ArrayT:
    """Return the negated second half of the features, followed by the first half.

    It is the quarter turn of the half layout: ``x * cos + neg_half(x) * sin`` turns
    the pairs (i, i + n/2).

    Parameters
    ----------
    x : array
        Numbers of a signed integer, real or complex dtype, of an even length n
        along `axis`.
    axis : int, default 0
        Axis of the features.

    Returns
    -------
    array
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is no array, or its dtype has no negative numbers.
    ValueError
        If `axis` is out of range, or odd in length.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34, for pairs (i, i + n/2).

    Examples
    --------
    >>> import numpy as np
    >>> neg_half(np.asarray([1, 2, 3, 4]))
    array([-3, -4,  1,  2])
    """
    xp = namespace_of(x=x)
    name = dtype_name(x.dtype)
    if name == "bool" or name.startswith("uint"):
        message = f"`x` must have a dtype with negative numbers, got {name}."
        raise TypeError(message)
    axis = _axes.axis_of("axis", axis, x.ndim)
    first, second = _halves(x, axis)
    negated: ArrayT = _joined(-second, first, axis, xp)
    return negated


def apply_rope(
    x: ArrayT,
    cos: Array,
    sin: Array,
    /,
    *,
    feature_axis: int = 0,
    inverse: bool = False,
) -> ArrayT:
    """Rotate the pairs (i, i + n/2) of the features by given angles.

    Parameters
    ----------
    x : array
        Real floating-point numbers with n features, n even, along `feature_axis`.
    cos, sin : array
        Cosine and sine of the angles: n/2 along `feature_axis`, and on every other
        axis the length of `x`, or 1. They may have fewer axes than `x`: where the
        features of `x` lie first, theirs do too, and they are repeated over the
        trailing axes of `x`; where they lie last, over the leading ones. No axis is
        taken for that of the sequence: give them all axes where the sequence does not
        lie beside the features.
    feature_axis : int, default 0
        Axis of the features in `x`.
    inverse : bool, default False
        Turn back instead.

    Returns
    -------
    array
        Shape and dtype of `x`. Half precision is rotated in float32.

    Raises
    ------
    TypeError
        If an argument is not an array of real floating-point numbers, or the
        arrays come from different libraries.
    ValueError
        If `feature_axis` is out of range or odd in length, or `cos` and `sin` do
        not fit.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34, for pairs (i, i + n/2).

    Examples
    --------
    A quarter turn takes the first half of the features to the second:

    >>> import numpy as np
    >>> x = np.asarray([[1.0, 2.0], [0.0, 0.0]])
    >>> apply_rope(x, np.zeros((1, 2)), np.ones((1, 2)))
    array([[0., 0.],
           [1., 2.]])
    """
    xp = namespace_of(x=x, cos=cos, sin=sin)
    _checks.real_floating(xp, x=x, cos=cos, sin=sin)
    inverse = _checks.boolean("inverse", inverse)
    axis = _axes.axis_of("feature_axis", feature_axis, x.ndim)
    _check_even(x, axis)
    dtype = compute_dtype(x.dtype, xp)
    cosine, sine = (
        xp.astype(_lined_up(name, table, x, axis), dtype, copy=False)
        for name, table in (("cos", cos), ("sin", sin))
    )
    return _rotated(x, cosine, -sine if inverse else sine, axis, xp)


@dataclass(frozen=True)
class RoPE:
    """Rotary position embeddings for queries and keys.

    Immutable and without arrays of its own: tables are made in the library, on the
    device and in the dtype of each `x` that it is called with.

    Parameters
    ----------
    head_size : int
        Number of features of a head, positive and even.
    seq_len : int
        Number of positions in the table, positive: the longest sequence that can
        be rotated without giving its `positions`.
    base : float, default 10_000
        Base of the frequencies, positive.
    scale : float, default 1.0
        Factor on the frequencies, positive: 0.5 makes each position half a step
        (linear position interpolation).
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `x`: -1 and -2 for
        ``(batch, heads, seq, head)``.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `head_size` is odd, a size is not positive, `base` or `scale` is not
        positive, or both axes are the same.

    References
    ----------
    Su et al. (2021), RoFormer, equations 15 and 34, for pairs (i, i + n/2).

    Examples
    --------
    >>> import numpy as np
    >>> rope = RoPE(64, 1024)
    >>> q = np.random.default_rng(0).standard_normal((64, 100, 8))
    >>> rope(q).shape
    (64, 100, 8)
    >>> rope
    RoPE(head_size=64, seq_len=1024, base=10000, scale=1.0, feature_axis=0, seq_axis=1)

    The next token of a cached sequence stands at position 100:

    >>> token = q[:, :1, :]
    >>> np.allclose(rope(token, offset=100), rope(token, positions=np.asarray([100])))
    True
    """

    head_size: int
    seq_len: int
    base: float = 10_000
    scale: float = 1.0
    _: KW_ONLY
    feature_axis: int = 0
    seq_axis: int = 1
    _tables: PositionTables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        feature_axis, seq_axis = _axes.distinct_axes(self.feature_axis, self.seq_axis)
        head_size = _checks.positive_integer("head_size", self.head_size, even=True)
        seq_len = _checks.positive_integer("seq_len", self.seq_len)
        base = _checks.positive_number("base", self.base)
        scale = _checks.positive_number("scale", self.scale)
        _checks.set_fields(
            self,
            head_size=head_size,
            seq_len=seq_len,
            base=base,
            scale=scale,
            feature_axis=feature_axis,
            seq_axis=seq_axis,
            _tables=PositionTables(turns(head_size, base, scale), seq_len, "seq_len", _as_they_are),
        )

    def __call__(
        self,
        x: ArrayT,
        /,
        *,
        positions: Array | None = None,
        offset: int = 0,
        inverse: bool = False,
    ) -> ArrayT:
        """Rotate queries or keys to their positions.

        Parameters
        ----------
        x : array
            Real floating-point numbers with `head_size` features along
            `feature_axis` and a sequence along `seq_axis`.
        positions : array, optional
            Integer or real positions of any sign and order. One axis belongs to
            the sequence; otherwise one axis fewer than `x` (the features left
            out), each as long as in `x` or 1. The table's length does not bound
            them.
        offset : int, default 0
            Position of the first element where `positions` is not given.
        inverse : bool, default False
            Turn back what was rotated before.

        Returns
        -------
        array
            Shape and dtype of `x`. Half precision is rotated in float32.

        Raises
        ------
        TypeError
            If `x` does not hold real floating-point numbers, `positions` come from
            another library or are not numbers, or an option is of the wrong kind.
        ValueError
            If `x` or `positions` has the wrong shape, the sequence reaches past the
            table, or both `positions` and `offset` are given.
        """
        xp = namespace_of(x=x, **present(positions=positions))
        _checks.real_floating(xp, x=x)
        inverse = _checks.boolean("inverse", inverse)
        offset = _checks.non_negative_integer("offset", offset)
        feature, seq = _axes.feature_and_seq_axis(self.feature_axis, self.seq_axis, x)
        _axes.features(x, self.head_size, "head_size", feature, seq)
        cos, sin = self._tables.beside(x, positions, offset, feature, seq, xp)
        return _rotated(x, cos, -sin if inverse else sin, feature, xp)

    @property
    def inv_freq(self) -> HostArray:
        """Frequencies in radians per position, float64 NumPy array (head_size / 2,)."""
        return read_only(inverse_frequencies(self.head_size, self.base) * self.scale)

    @property
    def cos(self) -> HostArray:
        """Cosine table, float64 NumPy array (head_size / 2, seq_len), read-only."""
        return self._tables.on_host()[0]

    @property
    def sin(self) -> HostArray:
        """Sine table, float64 NumPy array (head_size / 2, seq_len), read-only."""
        return self._tables.on_host()[1]


def _as_they_are(cos: Any, sin: Any, _xp: Namespace) -> tuple[Any, Any]:
    return cos, sin


def _rotated(x: ArrayT, cos: Any, sin: Any, axis: int, xp: Namespace) -> ArrayT:
    """Rotate the pairs of the half layout; tables broadcast against half of `x`."""
    first, second = _halves(xp.astype(x, compute_dtype(x.dtype, xp), copy=False), axis)
    turned = _joined(first * cos - second * sin, second * cos + first * sin, axis, xp)
    rotated: ArrayT = xp.astype(turned, x.dtype, copy=False)
    return rotated


def _halves(x: Any, axis: int) -> tuple[Any, Any]:
    _check_even(x, axis)
    before = (slice(None),) * axis
    half = x.shape[axis] // 2
    return x[(*before, slice(None, half), ...)], x[(*before, slice(half, None), ...)]


def _joined(first: Any, second: Any, axis: int, xp: Namespace) -> Any:
    """Put two halves of one shape together along an axis."""
    if all(_checks.is_known(n) for n in first.shape):
        return xp.concat([first, second], axis=axis)
    # dask concatenates nothing of unknown length, but selects from it.
    half, on = first.shape[axis], device_of(first)
    order = xp.asarray([*range(half)] * 2, dtype=default_integer(xp, on), device=on)
    of_first = xp.asarray([True] * half + [False] * half, dtype=xp.bool, device=on)
    of_first = of_first[(..., *(None,) * (first.ndim - axis - 1))]
    return xp.where(of_first, xp.take(first, order, axis=axis), xp.take(second, order, axis=axis))


def _check_even(x: Array, axis: int) -> None:
    if x.shape[axis] % 2:
        message = f"`x` must have an even length on axis {axis}, got shape {tuple(x.shape)}."
        raise ValueError(message)


def _lined_up(name: str, table: Any, x: Array, axis: int) -> Any:
    """Give a table the axes that it lacks, on the side away from the features."""
    half = x.shape[axis] // 2
    shape = (*x.shape[:axis], half, *x.shape[axis + 1 :])
    lacking = (None,) * (x.ndim - table.ndim)
    lined_up = table
    if lacking and table.ndim > 0 and axis == 0:
        lined_up = table[(..., *lacking)]
    elif lacking and table.ndim > 0 and axis == x.ndim - 1:
        lined_up = table[(*lacking, ...)]
    meaning = f"as `x`, but {half} of its features on axis {axis}"
    _checks.broadcasts(name, tuple(lined_up.shape), shape, meaning, tuple(table.shape))
    if lined_up.shape[axis] != half:
        message = f"`{name}` must have length {half} on axis {axis}, got {tuple(table.shape)}."
        raise ValueError(message)
    return lined_up
