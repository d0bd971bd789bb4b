"""The logarithmic and the power bias of KERPLE."""

from mpmath import log, mpf

from exact import Group, function, integers, reals, within

FUNCTIONS = {
    "kerple": function(
        "With d = |key - query|, the variant 'logarithmic' is -r1 * ln(1 + r2 * d), and 'power' is "
        "-r1 * d^r2, for r1 and r2 of each head.",
        "Chi et al. (2022), KERPLE, section 4.2",
        parameters={"variant": "'logarithmic' or 'power'"},
        inputs={
            "r1": "(head,), positive",
            "r2": "(head,), positive",
            "query_positions": "(query,)",
            "key_positions": "(key,)",
        },
        outputs={"bias": "(head, query, key)"},
    )
}
NEAR, FAR = [0, 1, 2, 3, 7, 50], [0, 1, 4096, 1048575]


def group() -> Group:
    """Return the vectors."""
    made = Group("kerple", "The bias of KERPLE", FUNCTIONS)
    for variant in ("logarithmic", "power"):
        for slug, comment, flags, query, key, r1, r2 in (
            ("near", "Some distances.", "", NEAR, NEAR, [1.0, 0.5, 2.25], [1.0, 0.25, 1.5]),
            (
                "cached",
                "The last queries.",
                "FewerQueriesThanKeys",
                NEAR[4:],
                NEAR,
                [1.5, 0.125],
                [2.0, 0.75],
            ),
            ("far", "Far distances.", "FarPosition", FAR, FAR, [0.25, 1.0], [0.5, 1.25]),
        ):
            bias = []
            for a, b in zip(r1, r2, strict=True):
                d = [[mpf(abs(k - q)) for k in key] for q in query]
                if variant == "logarithmic":
                    bias.append([[-a * log(1 + b * x) for x in row] for row in d])
                else:
                    bias.append([[-a * x ** mpf(b) for x in row] for row in d])
            made.add(
                f"{variant}-{slug}",
                comment,
                flags,
                function="kerple",
                parameters={"variant": variant},
                inputs={
                    "r1": reals(r1),
                    "r2": reals(r2),
                    "query_positions": integers(query),
                    "key_positions": integers(key),
                },
                # A logarithm or a power: functions of a few units in usual libraries.
                expected={"bias": within(bias, float64=8, float32=8)},
            )
    return made
