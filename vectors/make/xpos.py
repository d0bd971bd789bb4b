"""xPos: rotated queries and keys whose scores decay with distance."""

from mpmath import log, mpf

from exact import Group, drawn, frequency, function, integers, largest, reals, within
from rotation import turned

WORDS = (
    "The scale of pair i of dim / 2 at position p is z_i^((p - center) / scale_base), z_i = (2 i / "
    "dim + gamma) / (1 + gamma). "
)
SOURCE = "Sun et al. (2023), A Length-Extrapolatable Transformer, section 2.2 and algorithm 1"
PARAMETERS = {
    "dim": "number of rotated features",
    "scale_base": "distance over which a pair decays by its base",
    "center": "position whose scale is 1",
    "gamma": "keeps the base of the first pair above zero",
}
FUNCTIONS = {
    "xpos_scale": function(
        WORDS,
        SOURCE,
        parameters=PARAMETERS,
        inputs={"positions": "(position,)"},
        outputs={"scale": "(position, pair)"},
    ),
    "xpos_scores": function(
        f"{WORDS}The score of a query and a key is the scalar product of the rotated query, each "
        "pair times its scale, and the rotated key, each pair divided by its scale. Pairs are "
        "features (2 i, 2 i + 1), rotated by the position times base^(-2 i / dim).",
        SOURCE,
        parameters={**PARAMETERS, "base": "base of the frequencies"},
        inputs={
            "q": "(query, feature)",
            "k": "(key, feature)",
            "query_positions": "(query,)",
            "key_positions": "(key,)",
        },
        outputs={"scores": "(query, key)"},
    ),
}


def group() -> Group:
    """Return the vectors."""
    made = Group("xpos", "The decay of xPos", FUNCTIONS)
    for slug, comment, flags, dim, base, center, gamma, positions in (
        ("first", "The usual numbers.", "", 8, 512, 0, 0.4, [0, 1, 2, 100, 512]),
        ("center", "The middle is 1.", "", 8, 512, 8, 0.4, [0, 7, 8, 9, 16]),
        ("negative", "Positions before 0.", "NegativePosition", 8, 64, 0, 0.4, [-1, -64, -100]),
        ("gamma", "Another gamma.", "", 6, 256, 0, 0.5, [0, 10, 256, 300]),
        ("far", "Large powers.", "FarPosition", 8, 512, 0, 0.4, [4096, 8191, 16384]),
    ):
        zeta = [(mpf(2 * i) / dim + mpf(gamma)) / (1 + mpf(gamma)) for i in range(dim // 2)]
        powers = [(mpf(p) - center) / base for p in positions]
        most = max(abs(power) for power in powers)
        # A power multiplies the rounding of its base by its exponent, and of this by a logarithm.
        ulps = 4 + int(2 * most * (1 + max(abs(log(z)) for z in zeta)))
        made.add(
            slug,
            comment,
            flags,
            function="xpos_scale",
            parameters={"dim": dim, "scale_base": base, "center": center, "gamma": gamma},
            inputs={"positions": integers(positions)},
            expected={
                "scale": within([[z**p for z in zeta] for p in powers], float64=ulps, float32=ulps)
            },
        )
    for seed, (slug, comment, flags, base, center, query, key) in enumerate(
        (
            ("near", "Distances up to 6.", "", 512, 0, [0, 3, 6], [0, 1, 2, 6]),
            ("center", "One centre for both.", "", 64, 32, [20, 40, 63], [0, 10, 20, 63]),
            ("far", "Far positions.", "FarPosition", 512, 4608, [4096, 5000], [4095, 4096, 5120]),
        )
    ):
        dim, gamma = 8, 0.4
        zeta = [(mpf(2 * i) / dim + mpf(gamma)) / (1 + mpf(gamma)) for i in range(dim // 2)]
        theta = [frequency(i, dim, 10000) for i in range(dim // 2)]
        q, k = drawn(seed, len(query), dim), drawn(100 + seed, len(key), dim)
        scores, terms = [], []
        for x, n in zip(q, query, strict=True):
            a = turned(x, [n * f for f in theta], "interleaved")
            row = []
            for y, m in zip(k, key, strict=True):
                b = turned(y, [m * f for f in theta], "interleaved")
                factors = [zeta[i // 2] ** (mpf(n - m) / base) for i in range(dim)]
                parts = [u * v * f for u, v, f in zip(a, b, factors, strict=True)]
                row.append(sum(parts))
                terms.append(sum(map(abs, parts)))
            scores.append(row)
        made.add(
            f"scores-{slug}",
            comment,
            flags,
            function="xpos_scores",
            parameters={
                "dim": dim,
                "scale_base": base,
                "center": center,
                "gamma": gamma,
                "base": 10000,
            },
            inputs={
                "q": reals(q),
                "k": reals(k),
                "query_positions": integers(query),
                "key_positions": integers(key),
            },
            expected={"scores": within(scores, largest(terms), float64=8, float32=8)},
        )
    return made
