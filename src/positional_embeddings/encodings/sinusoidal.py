"""Sinusoidal encodings of positions, in the variants of common models."""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from math import sqrt
from typing import Annotated, Any, Literal, NamedTuple

from positional_embeddings.angles.frequencies import TWO_PI, geometric_frequencies
from positional_embeddings.angles.pages import PositionTables
from positional_embeddings.angles.pairs import join_pairs
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Dtype, HostArray
from positional_embeddings.encodings import features
from positional_embeddings.encodings.add import add_upcast
from positional_embeddings.encodings.dropout import dropout
from positional_embeddings.encodings.features import Arrangement

Preset = Literal["vaswani", "marian", "tensor2tensor", "whisper", "detr", "mlx"]

# Converted once, as PyTorch does not compile str(Decimal).
_TWO_PI_DIGITS = str(TWO_PI)

# Positions.
_MAX_START = 2**60


class _SinusoidOptions(NamedTuple):
    """Options of a family of sinusoids."""

    arrangement: str = "interleaved"
    endpoint: bool = False
    cos_first: bool = False
    full_turns: bool = False
    amplitude: float = 1.0
    start: int = 0


def sinusoidal_encoding(
    positions: AnyArray,
    /,
    dim: int,
    *,
    base: float = 10_000,
    arrangement: Arrangement | None = None,
    endpoint: bool | None = None,
    cos_first: bool | None = None,
    full_turns: bool | None = None,
    amplitude: float | None = None,
    start: int | None = None,
    length: float | None = None,
    preset: Preset | None = None,
    feature_axis: int = 0,
    dtype: Dtype | None = None,
) -> Array:
    r"""Return sines and cosines of positions, one frequency for each pair of features.

    The default is the encoding of Vaswani et al. A `preset` selects another family; options
    override it.

    Parameters
    ----------
    positions : array
        Integer or real positions of any shape, sign and order; real positions beyond 2**63 give
        NaN. Positions of float16 must be within 2047, and of bfloat16 within 255, beyond which not
        every integer exists. Traced, lazy and GPU values are not checked.
    dim : int
        Number of features, positive, at most 2**20. If odd, the last feature is a sine, or zero if
        `endpoint` is True.
    base : float, default 10_000
        Base of the frequencies, positive.
    arrangement : {"interleaved", "concatenated"}, optional
        Sine and cosine of each frequency side by side (default), or all sines and
        then all cosines.
    endpoint : bool, optional
        Whether frequencies are :math:`\mathrm{base}^{-i/(n-1)}` for n = dim // 2, so that the
        last is 1 / base, or :math:`\mathrm{base}^{-2i/\mathrm{dim}}` (default).
    cos_first : bool, optional
        Whether each cosine, or all cosines, are before the sines; False by default.
    full_turns : bool, optional
        Whether to multiply the angles by :math:`2\pi`: frequencies are then in cycles per position.
        False by default.
    amplitude : float, optional
        Factor on sines and cosines, positive, 1 by default.
    start : int, optional
        Number added to every position, 0 by default.
    length : float, optional
        Wavelength at frequency 1, which multiplies angles by :math:`2\pi / \mathrm{length}`.
        Excludes `full_turns`.
    preset : {"vaswani", "marian", "tensor2tensor", "whisper", "detr", "mlx"}, optional
        "vaswani": the default. "marian": concatenated. "tensor2tensor", "whisper":
        concatenated, with `endpoint`. "mlx": concatenated, with `endpoint` and
        amplitude :math:`\sqrt{2/\mathrm{dim}}`. "detr": positions from 1 and a
        required `length`, to which DETR adds 1e-6.
    feature_axis : int, default 0
        Axis of the features in the result; -1 for ``(*positions.shape, dim)``.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real positions, or
        the library's default for integer ones.

    Returns
    -------
    array, shape (dim, *positions.shape), with the features on `feature_axis`
        :math:`\sin(p\,\theta_i)` and :math:`\cos(p\,\theta_i)`, in the library and on
        the device of `positions`.

    Raises
    ------
    TypeError
        If `positions` is not an array of numbers, or an option is of the wrong kind.
    ValueError
        If a number is not positive, a choice is unknown, options exclude each other, or positions
        are too large for half precision.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.5; Vaswani et al.
    (2018), Tensor2Tensor; Radford et al. (2023), Whisper, section 2.2; Carion et al.
    (2020), DETR, appendix A.4.

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
    >>> sinusoidal_encoding(np.arange(1500), 384, preset="whisper").shape
    (384, 1500)
    """
    backend = get_backend(positions=positions)
    checks.positions("positions", positions, backend)
    dim = checks.feature_count("dim", dim)
    base = checks.positive_number("base", base)
    options = arrangement, endpoint, cos_first, full_turns, amplitude, start
    family = _family(preset, dim, dict(zip(_SinusoidOptions._fields, options, strict=True)))
    scale = _angle_scale(family, length, preset)
    dtype = checks.feature_dtype(positions, dtype, backend)
    frequencies = geometric_frequencies(dim, base, scale, family.endpoint)
    amplitude = float(family.amplitude)
    sinusoids = features.Sinusoids(frequencies, family.arrangement, amplitude, family.cos_first)
    if family.start:
        is_real = dtypes.is_real_floating(positions.dtype, backend.xp)
        wide_dtype = backend.widest_float_dtype if is_real else backend.int_dtype
        positions = backend.astype(positions, wide_dtype) + family.start
    encoding = sinusoids.encode("sinusoidal_encoding", positions, dtype, backend)
    if dim > encoding.shape[0]:  # with `endpoint`
        zeros = backend.xp.zeros_like(encoding[:1, ...])
        encoding = backend.xp.concat([encoding, zeros], axis=0)
    encoding = encoding[:dim, ...]
    axis = axes.axis_of("feature_axis", feature_axis, encoding.ndim, "encoding")
    return encoding if axis == 0 else backend.move_axis(encoding, 0, axis)


def _family(preset: str | None, dim: int, options: dict[str, Any]) -> _SinusoidOptions:
    """Return the family of a preset and the options that override it."""
    with_endpoint = _SinusoidOptions("concatenated", endpoint=True)
    presets = {
        "vaswani": _SinusoidOptions(),
        "marian": _SinusoidOptions("concatenated"),
        "tensor2tensor": with_endpoint,
        "whisper": with_endpoint,
        "detr": _SinusoidOptions(start=1),
        "mlx": with_endpoint._replace(amplitude=sqrt(2 / dim)),
    }
    if preset is not None:
        checks.choice("preset", preset, tuple(presets))
    family = presets[preset or "vaswani"]._replace(**namespace.drop_none(**options))
    checks.choice("arrangement", family.arrangement, features.ARRANGEMENTS)
    for name in ("endpoint", "cos_first", "full_turns"):
        checks.boolean(name, getattr(family, name))
    checks.positive_number("amplitude", family.amplitude)
    if abs(checks.integer("start", family.start)) > _MAX_START:
        raise wrong_value("start", "be within 2**60 positions", format_value(family.start))
    if family.endpoint and dim < 2:
        raise wrong_value("dim", "be 2 or more with `endpoint`", dim)
    return family


def _angle_scale(family: _SinusoidOptions, length: float | None, preset: str | None) -> str:
    """Return the digits of the factor on the angles."""
    if length is None:
        if preset == "detr":
            raise wrong_value("length", "be given with the preset 'detr'", "None")
        return _TWO_PI_DIGITS if family.full_turns else "1"
    length = features.wavelength("length", length)
    if family.full_turns:
        raise wrong_value("length", "be left out with `full_turns`", length)
    return features.cycles(_TWO_PI_DIGITS, length + 1e-6 if preset == "detr" else length)


@dataclass(frozen=True)
class AbsolutePE(checks.CheckedDataclass):
    """Sinusoidal position encoding, added to the features.

    Immutable, and independent of the array library: its table is computed and cached for the
    library, device and dtype of each `x`, as in `RoPE`.

    Parameters
    ----------
    embedding_size : int
        Number of features, positive, at most 2**20; may be odd.
    max_len : int
        Number of positions in the table, positive, at most 2**63. Longer sequences need explicit
        `positions`.
    base : float, default 10_000
        Base of the frequencies, positive.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each frequency side by side, or all sines and then all
        cosines.
    dropout : float, default 0.0
        Probability that a call with `rng` sets a feature to zero, 0 or more and below 1.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `x`: 0 and 1 by default for arrays of at most three
        axes, and required for more; -1 and -2 for ``(batch, seq, features)``.

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

    embedding_size: checks.FeatureCount
    max_len: checks.PositionCount
    base: checks.PositiveNumber = 10_000
    _: KW_ONLY
    arrangement: Annotated[Arrangement, checks.one_of(Arrangement)] = "interleaved"
    dropout: checks.Rate = 0.0
    feature_axis: int | None = None
    seq_axis: int | None = None
    _tables: PositionTables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_fields()
        axes.set_axes(self)
        arrange = partial(_arranged_tables, dim=self.embedding_size, arrangement=self.arrangement)
        frequencies = geometric_frequencies(self.embedding_size, self.base)
        tables = PositionTables(frequencies, self.max_len, "max_len", arrange)
        checks.set_fields(self, _tables=tables)

    def __call__(
        self, x: ArrayT, /, *, positions: AnyArray | None = None, offset: int = 0, rng: Any = None
    ) -> ArrayT:
        """Add the encoding of each position to its features.

        Parameters
        ----------
        x : array
            Real floating-point numbers with `embedding_size` features along
            `feature_axis` and a sequence along `seq_axis`.
        positions : array, optional
            Integer or real positions of any sign and order, also beyond the table. Real positions
            beyond 2**63 give NaN; half precision has the limits of `sinusoidal_encoding`. The axes
            are (seq,), (seq, batch) in the axis order of `x`, or the axes of `x` without the
            features. Each has the length in `x`, or 1.
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
            If `x` is not real floating-point, or `positions` are of another library or are not
            numbers.
        ValueError
            If `x` or `positions` has the wrong shape, the sequence exceeds the table, positions are
            too large for half precision, or both `positions` and `offset` are given.
        """
        offset = checks.non_negative_integer("offset", offset)
        backend = get_backend(x=x, **namespace.drop_none(positions=positions))
        x_axes = axes.input_axes(x, backend, self, "embedding_size")
        x_axes = self._tables.with_positions(x_axes, positions, backend)
        (encoding,) = self._tables.aligned_tables(x_axes, positions, offset, backend)
        encoded = add_upcast(x, encoding, backend)
        return encoded if rng is None else dropout(encoded, self.dropout, rng=rng)

    def encoding(
        self, x: ArrayT, /, *, positions: AnyArray | None = None, offset: int = 0
    ) -> ArrayT:
        """Return the encoding for `add_positional_encoding`, to add to several arrays.

        Parameters
        ----------
        x : array
            Array with the shape, dtype, library and device of the arrays to add the encoding to.
        positions : array, optional
            Positions, as in a call of the layer.
        offset : int, default 0
            Position of the first element if `positions` is None.

        Returns
        -------
        array
            Features and positions on their axes of `x`, and length 1 on its further axes; in the
            library, on the device and in the compute dtype of `x`: float32 for half precision.

        Raises
        ------
        TypeError, ValueError
            As in a call of the layer.

        Examples
        --------
        >>> import numpy as np
        >>> from positional_embeddings import add_positional_encoding
        >>> pe, x = AbsolutePE(512, 1000), np.ones((512, 100, 32))
        >>> encoding = pe.encoding(x, offset=5)
        >>> encoding.shape
        (512, 100, 1)
        >>> np.array_equal(add_positional_encoding(x, encoding), pe(x, offset=5))
        True
        """
        offset = checks.non_negative_integer("offset", offset)
        backend = get_backend(x=x, **namespace.drop_none(positions=positions))
        x_axes = axes.input_axes(x, backend, self, "embedding_size")
        x_axes = self._tables.with_positions(x_axes, positions, backend)
        (encoding,) = self._tables.aligned_copies(x_axes, positions, offset, backend)
        return encoding  # type: ignore[no-any-return]

    @property
    def embeddings(self) -> HostArray:
        """Table, float64 NumPy array (embedding_size, max_len), read-only."""
        return self._tables.full_tables()[0]


def _arranged_tables(
    cos: Array, sin: Array, xp: namespace.Namespace, *, dim: int, arrangement: str
) -> tuple[Array]:
    return (join_pairs(sin, cos, 0, features.PAIR_LAYOUTS[arrangement], xp)[:dim, ...],)
