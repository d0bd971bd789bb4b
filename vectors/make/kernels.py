"""Kernels of distances, and the weighted means that they give."""

from fractions import Fraction
from typing import Any

from mpmath import cos, exp, mpf, pi, sin, sqrt

from exact import Group, function, largest, reals, within

KERNELS = {
    "gaussian": "exp(-r^2 / 2), r^2 being the sum of ((x - y) / length_scale)^2 over the columns.",
    "matern": (
        "exp(-r) for nu = 0.5, (1 + a) exp(-a) with a = sqrt(3) r for 1.5, (1 + a + a^2 / 3) "
        "exp(-a) with a = sqrt(5) r for 2.5, r as for 'gaussian'."
    ),
    "periodic": (
        "exp((cos a - 1) / b^2), a and b being 2 pi / period times x - y and times length_scale; "
        "the product over the columns."
    ),
    "sphere": (
        "exp((cos a - 1) / b^2), a being the angle between two places (latitude, longitude) in "
        "degrees, and b the length scale in radians: pi / 180 times length_scale."
    ),
    "product": "the product of the `factors`, each on its own columns.",
}
WORDS = "k(x, y) is, by kernel: " + " ".join(f"'{name}': {text}" for name, text in KERNELS.items())
SOURCE = (
    "Rasmussen and Williams (2006), Gaussian Processes, equations 4.9, 4.14, 4.17 and 4.31; "
    "Nadaraya (1964) and Watson (1964) for the mean"
)
PARAMETERS = {
    "kernel": "name of the kernel",
    "length_scale": "one number, or one for each column",
    "columns": "columns that it looks at",
    "nu": "of 'matern'",
    "period": "of 'periodic'",
    "factors": "of 'product': kernels with their parameters",
}
FUNCTIONS = {
    "kernel": function(
        WORDS,
        SOURCE,
        parameters=PARAMETERS,
        inputs={"x": "(column,)", "y": "(sample, column)"},
        outputs={"weight": "(sample,)"},
    ),
    "kernel_mean": function(
        f"The sum of k(query, sample) * value over the samples, divided by the sum of k. {WORDS}",
        SOURCE,
        parameters=PARAMETERS,
        inputs={
            "samples": "(sample, column)",
            "values": "(sample,)",
            "queries": "(query, column)",
        },
        outputs={"mean": "(query,)"},
    ),
}


def cosine_of_degrees(x: Fraction) -> Any:
    """Return a cosine, exact at whole quarters of a circle."""
    if x % 90 == 0:
        return mpf((1, 0, -1, 0)[int(x) // 90 % 4])
    return cos(pi * x.numerator / x.denominator / 180)


def weight(o: dict[str, Any], x: Any, y: Any) -> Any:
    """Return a kernel of two samples."""
    name = o["kernel"]
    if name == "product":
        found = mpf(1)
        for factor in o["factors"]:
            found *= weight(factor, x, y)
        return found
    columns, scale = o["columns"], o["length_scale"]
    if name == "sphere":
        (b1, l1), (b2, l2) = ([Fraction(p[i]) for i in columns] for p in (x, y))
        sines = [cosine_of_degrees((90 - b) % 360) for b in (b1, b2)]
        cosines = [cosine_of_degrees(b % 360) for b in (b1, b2)]
        cosine = sines[0] * sines[1] + cosines[0] * cosines[1] * cosine_of_degrees((l1 - l2) % 360)
        return exp((cosine - 1) / (pi * mpf(scale) / 180) ** 2)
    if name == "periodic":
        found, b = mpf(1), 2 * pi * mpf(scale) / mpf(o["period"])
        for i in columns:
            # (cos a - 1) = -2 sin(a / 2)^2
            half = pi * (mpf(x[i]) - mpf(y[i])) / mpf(o["period"])
            found *= exp(-2 * sin(half) ** 2 / b**2)
        return found
    scales = scale if isinstance(scale, list) else [scale] * len(columns)
    pairs = zip(columns, scales, strict=True)
    r = sqrt(sum(((mpf(x[i]) - mpf(y[i])) / mpf(s)) ** 2 for i, s in pairs))
    if name == "gaussian":
        return exp(-(r**2) / 2)
    a = sqrt(mpf(2 * o["nu"])) * r
    return {0.5: mpf(1), 1.5: 1 + a, 2.5: 1 + a + a**2 / 3}[o["nu"]] * exp(-a)


def one(name: str, scale: Any, columns: list[int], **own: Any) -> dict[str, Any]:
    """Return the parameters of a kernel."""
    return {"kernel": name, "length_scale": scale, "columns": columns} | own


LINE = [[0.0], [0.5], [1.0], [1.75], [2.5], [4.0], [5.25]]
PLANE = [[0.0, 0.0], [1.0, 0.5], [0.25, -0.75], [2.0, 2.0], [-1.5, 0.0]]
PLACES = [[0.0, 0.0], [10.0, 0.5], [-16.5, 179.5], [-16.5, -179.5], [89.0, 12.0], [90.0, 0.0]]
# slug, comment, flags, parameters, samples, queries
CASES: list[tuple[str, str, str, dict[str, Any], list[Any], list[Any]]] = [
    ("gaussian", "One column.", "", one("gaussian", 1, [0]), LINE, [[0.25], [1.5], [3.0]]),
    (
        "gaussian-wide",
        "A wide kernel.",
        "",
        one("gaussian", 8, [0]),
        LINE,
        [[0.25], [2.75], [5.5]],
    ),
    (
        "gaussian-plane",
        "A scale for each column.",
        "",
        one("gaussian", [1, 2], [0, 1]),
        PLANE,
        [[0.5, 0.25], [1.0, 1.0]],
    ),
    (
        "gaussian-column",
        "The second column alone.",
        "",
        one("gaussian", 0.75, [1]),
        PLANE,
        [[7.0, 0.25], [-7.0, 1.0]],
    ),
    *(
        (
            f"matern-{nu}",
            "One column.",
            "",
            one("matern", 1.25, [0], nu=nu),
            LINE,
            [[0.25], [1.5], [3.0]],
        )
        for nu in (0.5, 1.5, 2.5)
    ),
    (
        "matern-plane",
        "Two columns.",
        "",
        one("matern", [1, 0.5], [0, 1], nu=1.5),
        PLANE,
        [[0.5, 0.25], [1.0, 1.0]],
    ),
    (
        "periodic",
        "Samples a period away weigh as much.",
        "",
        one("periodic", 0.25, [0], period=2),
        LINE,
        [[0.25], [1.5], [3.0]],
    ),
    (
        "periodic-year",
        "A width of 20 days in a year.",
        "",
        one("periodic", 20, [0], period=365.25),
        [[0.0], [100.0], [181.0], [280.0], [364.0], [730.5]],
        [[3.0], [90.0], [-10.0]],
    ),
    (
        "sphere",
        "Across the date line and near a pole.",
        "DateLine Pole",
        one("sphere", 20, [0, 1]),
        PLACES,
        [[5.0, 2.0], [-20.0, 180.0], [85.0, -100.0]],
    ),
    (
        "product",
        "A season that changes slowly.",
        "",
        {
            "kernel": "product",
            "factors": [one("periodic", 0.25, [0], period=1), one("gaussian", 2, [0])],
        },
        LINE,
        [[0.125], [1.5], [2.25]],
    ),
    (
        "product-columns",
        "A kernel of each column.",
        "",
        {
            "kernel": "product",
            "factors": [one("matern", 1, [0], nu=0.5), one("gaussian", 1.5, [1])],
        },
        PLANE,
        [[0.5, 0.25], [1.0, 1.0]],
    ),
]


def group() -> Group:
    """Return the vectors."""
    made = Group("kernels", "Kernels of distances, and weighted means", FUNCTIONS)
    for slug, comment, flags, parameters, samples, queries in CASES:
        weights = [[weight(parameters, x, y) for y in samples] for x in queries]
        made.add(
            slug,
            comment,
            flags,
            function="kernel",
            parameters=parameters,
            inputs={"x": reals(queries[0]), "y": reals(samples)},
            # A squared distance in widths, its exponential, and a quotient.
            expected={"weight": within(weights[0], 1, float64=8)},
        )
        values = [float((7 * i) % 5 - 2) for i in range(len(samples))]
        means = [sum(w * v for w, v in zip(row, values, strict=True)) / sum(row) for row in weights]
        made.add(
            f"mean-{slug}",
            comment,
            flags,
            function="kernel_mean",
            parameters=parameters,
            inputs={
                "samples": reals(samples),
                "values": reals(values),
                "queries": reals(queries),
            },
            expected={"mean": within(means, largest(values), float64=16)},
        )
    return made
