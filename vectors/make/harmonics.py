"""Real spherical harmonics to degree 200, at the poles and on the date line."""

from fractions import Fraction
from typing import Any

from mpmath import cospi, mpf, pi, sinpi, sqrt

from exact import Group, function, integers, reals, within

FUNCTIONS = {
    "spherical_harmonics": function(
        "The real harmonic of degree l and order m, -l <= m <= l, at latitude B and longitude L in "
        "degrees, with t = 90 - B: sqrt(2) * N(l, |m|) * P(l, |m|, cos t) * sin(|m| L) for m < 0, "
        "N(l, 0) * P(l, 0, cos t) for m = 0, and sqrt(2) * N(l, m) * P(l, m, cos t) * cos(m L) for "
        "m > 0; N(l, m) = sqrt((2 l + 1) / (4 pi) * (l - m)! / (l + m)!), and P(l, m, x) = (1 - "
        "x^2)^(m / 2) * (d/dx)^m P_l(x), without the phase (-1)^m of Condon and Shortley. The "
        "integral of its square over the unit sphere is 1.",
        "Holmes and Featherstone (2002), Journal of Geodesy 76, equations 1 to 3, with unit norm",
        parameters={},
        inputs={
            "latitude": "(place,), degrees north",
            "longitude": "(place,), degrees east, of any size",
            "degree": "(n,)",
            "order": "(n,)",
        },
        outputs={"harmonics": "(n, place)"},
    )
}


def legendre(degree: int, order: int, latitude: float) -> Any:
    """Return N * P by the recurrence over degrees, which 60 digits carry to any degree here."""
    t = (90 - mpf(latitude)) / 180  # in half turns, so that quarters are exact
    x, y = cospi(t), sinpi(t)
    value = 1 / sqrt(4 * pi)
    for m in range(1, order + 1):
        value = y * sqrt(mpf(2 * m + 1) / (2 * m)) * value
    before = mpf(0)
    for n in range(order + 1, degree + 1):
        a = sqrt(mpf(4 * n * n - 1) / (n * n - order * order))
        b = sqrt(mpf((2 * n + 1) * ((n - 1) ** 2 - order**2)) / ((2 * n - 3) * (n**2 - order**2)))
        before, value = value, a * x * value - b * before
    return value


def harmonic(degree: int, order: int, latitude: float, longitude: float) -> Any:
    """Return a real harmonic at a place."""
    both = legendre(degree, abs(order), latitude)
    # Whole degrees are left out in rationals, so that quadrants are exact.
    turned = Fraction(longitude) * abs(order) % 360
    angle = mpf(turned.numerator) / turned.denominator / 180
    if order == 0:
        return both
    return sqrt(mpf(2)) * both * (sinpi(angle) if order < 0 else cospi(angle))


PLACES = [(47.375, 8.5625), (-33.875, 151.25), (0.5, -0.25), (64.125, -21.9375)]
EDGES = [(90.0, 0.0), (-90.0, 0.0), (90.0, 77.0), (89.9990234375, 45.0), (-89.9990234375, 200.0)]
LINE = [(-16.5, 180.0), (-16.5, -180.0), (-16.5, 179.9990234375), (-16.5, 540.0), (-16.5, -539.0)]
ROUND = [(0.0, 0.0), (0.0, 90.0), (0.0, 180.0), (0.0, 270.0), (45.0, -90.0), (30.0, 45.0)]
FINE = [(47.3769, 8.5417), (89.99999999, 12.3), (-1e-9, 179.99999999), (51.4779, -0.0015)]
HIGH = [(47.375, 8.5625), (89.5, 100.0), (0.0, 33.25), (-75.25, -120.5), (90.0, 0.0)]


def group() -> Group:
    """Return the vectors."""
    made = Group("harmonics", "Real spherical harmonics of places", FUNCTIONS)
    low = [(n, m) for n in range(5) for m in range(-n, n + 1)]
    some = [(n, m) for n in (8, 20) for m in (-n, 1 - n, -n // 2, -1, 0, 1, 2, n // 2, n - 1, n)]

    def of(n: int) -> list[tuple[int, int]]:
        return [(n, m) for m in (-n, -n // 2, -20, -1, 0, 1, 2, 17, n // 2, n - 1, n)]

    for slug, comment, flags, places, orders in (
        ("places", "All harmonics to degree 4.", "", PLACES, low),
        ("poles", "At a pole only the order 0 is left.", "Pole", EDGES, low),
        ("date-line", "180 degrees east and west.", "DateLine", LINE, low),
        ("quadrants", "Whole quarters of a circle, whose sines are 0 and 1.", "", ROUND, low),
        ("float64-places", "Places that float64 holds alone.", "Pole DateLine", FINE, low),
        ("degree-20", "Degrees 8 and 20.", "", PLACES + EDGES[3:], some),
        ("degree-60", "Degree 60.", "HighDegree Pole", HIGH, of(60)),
        ("degree-120", "Degree 120.", "HighDegree Pole", HIGH, of(120)),
        ("degree-200", "Degree 200.", "HighDegree Pole", HIGH, of(200)),
        ("degree-200-date-line", "Degree 200.", "HighDegree DateLine", LINE, of(200)),
    ):
        values = [[harmonic(n, m, *place) for place in places] for n, m in orders]
        most = max(n for n, _ in orders)
        # A unit for each degree of a recurrence and of a multiple of the longitude.
        ulps = 8 + 2 * most
        made.add(
            slug,
            comment,
            flags,
            function="spherical_harmonics",
            parameters={},
            inputs={
                "latitude": reals([latitude for latitude, _ in places]),
                "longitude": reals([longitude for _, longitude in places]),
                "degree": integers([n for n, _ in orders]),
                "order": integers([m for _, m in orders]),
            },
            expected={"harmonics": within(values, 1, float64=ulps, float32=ulps)},
        )
    return made
