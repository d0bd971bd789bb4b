"""Frequencies, and cosine and sine of angles, at positions up to 2^53."""

from typing import Any

from mpmath import cos, sin

from exact import Group, frequency, function, integers, reals, within

FUNCTIONS = {
    "frequencies": function(
        "Frequency i of `dim` features is base^(-2 i / dim) radians per position, "
        "for i = 0, 1, ..., ceil(dim / 2) - 1.",
        "Su et al. (2021), RoFormer, equation 15; Vaswani et al. (2017), section 3.5",
        parameters={"dim": "number of features", "base": "base of the frequencies"},
        inputs={},
        outputs={"frequencies": "(frequency,)"},
    ),
    "cos_sin": function(
        "Cosine and sine of position * base^(-2 i / dim), for i = 0, 1, ..., ceil(dim / 2) - 1. "
        "The angle is not rounded.",
        "Su et al. (2021), RoFormer, equations 15 and 34",
        parameters={"dim": "number of features", "base": "base of the frequencies"},
        inputs={"positions": "(position,), integer or real"},
        outputs={"cos": "(position, frequency)", "sin": "(position, frequency)"},
    ),
}

# Numerators of the continued fraction of pi: their distance from a multiple of pi is below 1 / p.
NEAR_PI = [22, 355, 103993, 104348, 312689, 833719, 5419351, 80143857, 245850922, 1068966896]

# slug, comment, flags, dim, base, positions
TABLES: list[tuple[str, str, str, int, float, list[Any]]] = [
    ("first", "The first positions.", "", 8, 10000, list(range(16))),
    ("head-64", "Some positions of a head of 64 features.", "", 64, 10000, [0, 1, 17, 511, 2047]),
    ("base-500000", "The base of Llama 3.", "", 16, 500000, [0, 1, 2, 100, 4000]),
    ("base-100", "A base of grids of patches.", "", 16, 100, [0, 1, 2, 15, 223]),
    ("base-below-one", "Frequencies that grow.", "", 6, 0.5, [0, 1, 2, 9]),
    ("two-features", "A single frequency, which is 1.", "", 2, 10000, [0, 1, 2, 3, 1000]),
    ("odd", "The last frequency of an odd number has no pair.", "OddFeatures", 7, 10000, [0, 1, 9]),
    ("negative", "Positions before 0.", "NegativePosition", 8, 10000, [-1, -2, -100, -4095]),
    (
        "to-65536",
        "Contexts of usual models.",
        "FarPosition",
        32,
        10000,
        [4096, 8191, 16384, 32767, 65536],
    ),
    ("to-2^20", "Long contexts.", "FarPosition", 32, 500000, [131071, 262144, 1048575, 1048576]),
    ("ten-million", "Contexts of ten million.", "FarPosition", 32, 500000, [10**7 - 1, 10**7]),
    (
        "around-2^24",
        "From 2^24 on a float32 position loses its last bit.",
        "FarPosition BeyondFloat32Integers",
        16,
        10000,
        [2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, 2**26 + 7],
    ),
    (
        "to-2^31",
        "The largest positions of 32 bits.",
        "FarPosition BeyondFloat32Integers NegativePosition",
        32,
        10000,
        [2**29 + 1, 2**30 - 1, 2**31 - 2, 2**31 - 1, -(2**31) + 1],
    ),
    (
        "from-2^31",
        "Positions that need 64 bits.",
        "FarPosition BeyondFloat32Integers Int64Position NegativePosition",
        32,
        10000,
        [2**31, 2**31 + 1, 2**32 + 1, 10**12 + 7, -(2**40) - 1],
    ),
    (
        "to-2^53",
        "The largest integers that float64 holds.",
        "FarPosition BeyondFloat32Integers Int64Position NegativePosition",
        32,
        10000,
        [2**52 + 1, 2**53 - 1, 2**53, -(2**53) + 1],
    ),
    (
        "near-multiples-of-pi",
        "Angles of frequency 1 that are close to a multiple of pi.",
        "FarPosition NearMultipleOfPi BeyondFloat32Integers",
        4,
        10000,
        NEAR_PI,
    ),
    (
        "real",
        "Times, or scaled positions; every dtype from float32 on holds them.",
        "RealPosition NegativePosition",
        16,
        10000,
        [0.5, 3.25, -0.125, 1000.375, 2047.9375],
    ),
    (
        "real-far",
        "Real positions that float32 holds, the last one with a unit of a half.",
        "RealPosition FarPosition",
        16,
        10000,
        [4096.5, 65535.75, 1048575.125, 8388607.5],
    ),
    (
        "real-float64",
        "Real positions that float64 holds alone.",
        "RealPosition FarPosition NegativePosition",
        16,
        10000,
        [0.1, 1 / 3, 1e-9, -7.7, 12345.6789, 123456789.123456789, 2.0**31 + 0.5],
    ),
    (
        "real-to-2^53",
        "Whole and half positions as float64, up to 2^53.",
        "RealPosition FarPosition",
        16,
        10000,
        [1e15, 2.0**51 + 0.5, 2.0**52 + 1, 2.0**53],
    ),
]


def group() -> Group:
    """Return the vectors."""
    made = Group("angles", "Frequencies, and cosine and sine of angles", FUNCTIONS)
    for slug, comment, dim, base in (
        ("frequencies-8", "Powers of ten.", 8, 10000),
        ("frequencies-128", "A head of 128 features.", 128, 10000),
        ("frequencies-odd", "Nine features have five frequencies.", 9, 10000),
        ("frequencies-500000", "The base of Llama 3.", 64, 500000),
        ("frequencies-1000000", "A base of a million, and a head of 80.", 80, 1000000),
        ("frequencies-two", "A single frequency, which is 1.", 2, 10000),
    ):
        values = [frequency(i, dim, base) for i in range((dim + 1) // 2)]
        made.add(
            slug,
            comment,
            "OddFeatures" if dim % 2 else "",
            function="frequencies",
            parameters={"dim": dim, "base": base},
            inputs={},
            # A power in the dtype itself, whose exponent is rounded, is within 8.
            expected={"frequencies": within(values, float64=8, float32=8)},
        )
    for slug, comment, flags, dim, base, positions in TABLES:
        angles = [[p * frequency(i, dim, base) for i in range((dim + 1) // 2)] for p in positions]
        array = integers if all(isinstance(p, int) for p in positions) else reals
        made.add(
            slug,
            comment,
            flags,
            function="cos_sin",
            parameters={"dim": dim, "base": base},
            inputs={"positions": array(positions)},
            expected={
                name: within([[f(a) for a in row] for row in angles], 1, float64=2, float32=1)
                for name, f in (("cos", cos), ("sin", sin))
            },
        )
    return made
