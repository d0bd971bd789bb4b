"""Grid-cell encodings of points of a plane (Space2Vec)."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from math import cos, sin
from typing import Literal, get_args

from positional_embeddings.angles.frequencies import DIGITS
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, HostArray
from positional_embeddings.encodings import features

Kind = Literal["theory", "grid"]

_SIN_60 = "0.866025403784438646763723170752936183471402626905190314027903"  # degrees
# Unit vectors of the directions of waves, in digits.
_DIRECTIONS = {
    "theory": [("1", "0"), ("-0.5", _SIN_60), ("-0.5", f"-{_SIN_60}")],
    "grid": [("1", "0"), ("0", "1")],
}


def grid_cell_encoding(
    points: AnyArray,
    /,
    wavelengths: float | Sequence[float] | HostArray,
    *,
    kind: Kind = "theory",
    dtype: Dtype | None = None,
) -> Array:
    r"""Return sines and cosines of points of a plane at several scales, as in grid cells.

    Parameters
    ----------
    points : array, shape (2, *S)
        Integer or real coordinates of points in a plane, in one unit. Real coordinates beyond 2**63
        give NaN.
    wavelengths : float, or list, tuple or 1-D NumPy array of floats
        One or n wavelengths, one for each scale, in the unit of `points`, from 2**-64 to 2**100.
        There are at most 2**20 features.
    kind : {"theory", "grid"}, default "theory"
        "theory": waves in three directions at angles of 120 degrees; their sum is a hexagonal
        pattern. "grid": waves along both coordinates.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real points, or the
        library's default for integer ones.

    Returns
    -------
    array, shape (6 * n, *S) for "theory", (4 * n, *S) for "grid"
        :math:`\sin(2\pi\,p_j / w_s)` and :math:`\cos(2\pi\,p_j / w_s)`, side by side, for each
        direction :math:`j` of each scale :math:`s`; the directions of a scale are contiguous. For
        "theory" :math:`p_j` is the scalar product with :math:`a_1 = (1, 0)`,
        :math:`a_2 = (-1/2, \sqrt{3}/2)` and :math:`a_3 = (-1/2, -\sqrt{3}/2)`; for "grid" it is
        the coordinate :math:`j`. Angles are exact at any distance from the origin.

    Raises
    ------
    TypeError
        If `points` is not an array of numbers, or `wavelengths` are neither a number nor a
        sequence of numbers.
    ValueError
        If `points` does not have 2 coordinates on its first axis, there are no wavelengths, a
        wavelength is out of range, or `kind` is unknown.

    Notes
    -----
    Scalar products of two encodings depend only on the difference of the points.

    The paper divides by :math:`\lambda_{\min}\,g^{s/(S-1)}` with
    :math:`g = \lambda_{\max} / \lambda_{\min}` and without :math:`2\pi`: its :math:`S` scales are
    the wavelengths :math:`2\pi\,\lambda_{\min}\,g^{s/(S-1)}`, from short to long, with features in
    the same order. The authors' program (gengchenmai/space2vec) also puts each sine before its
    cosine. For "grid" it puts all scales of the first coordinate before the second.

    References
    ----------
    Mai et al. (2020), Multi-Scale Representation Learning for Spatial Feature Distributions using
    Grid Cells, ICLR, section 4, the point encoder, Theorem 1 ("theory") and the variant "grid".

    Examples
    --------
    >>> import numpy as np
    >>> points = np.asarray([[0.0, 125.0], [0.0, 0.0]])  # x and y in km
    >>> grid_cell_encoding(points, [1000, 100]).shape
    (12, 2)
    >>> grid_cell_encoding(points, [1000], kind="grid").round(2)
    array([[0.  , 0.71],
           [1.  , 0.71],
           [0.  , 0.  ],
           [1.  , 1.  ]])
    """
    backend, dtype = features.real_coordinates("points", points, dtype)
    features.check_first_axis("points", points, 2, "both coordinates")
    lengths = features.scalar_or_sequence("wavelengths", wavelengths, features.wavelength)
    checks.choice("kind", kind, get_args(Kind))
    size = 6 if kind == "theory" else 4
    checks.feature_count(f"{size} * len(wavelengths)", size * len(lengths))
    sinusoids = features.Sinusoids(
        directional_frequencies(kind, tuple(lengths), (0.0,) * len(lengths))
    )
    return sinusoids.encode("grid_cell_encoding", points, dtype, backend)


@cached_constant
def directional_frequencies(
    kind: str, wavelengths: tuple[float, ...], orientations: tuple[float, ...]
) -> tuple[str, ...]:
    """Return the digits of frequencies for all directions of each wavelength, by coordinate."""
    vectors = []
    with localcontext(DIGITS):
        for length, angle in zip(wavelengths, orientations, strict=True):
            c, s = Decimal(cos(angle)), Decimal(sin(angle))
            for x, y in _DIRECTIONS[kind]:
                along = c * Decimal(x) - s * Decimal(y), s * Decimal(x) + c * Decimal(y)
                vectors.append([str(part / Decimal(length)) for part in along])
    return tuple(map(" ".join, zip(*vectors, strict=True)))
