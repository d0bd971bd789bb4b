"""The vectors of relative positions of Shaw et al."""

from exact import Group, drawn, function, integers, reals, within

FUNCTIONS = {
    "shaw": function(
        "The vector of a pair is row r + max_distance of the table, r being key minus query, held "
        "between -max_distance and max_distance.",
        "Shaw et al. (2018), Self-Attention with Relative Position Representations, equation 3",
        parameters={"max_distance": "distance from which on all pairs of a side share a vector"},
        inputs={
            "table": "(2 * max_distance + 1, feature)",
            "query_positions": "(query,)",
            "key_positions": "(key,)",
        },
        outputs={"vectors": "(query, key, feature)"},
    )
}
# No arithmetic: the numbers themselves.
ULPS = {"float64": 0, "float32": 0, "float16": 0, "bfloat16": 0}


def group() -> Group:
    """Return the vectors."""
    made = Group("shaw", "Vectors of relative positions (Shaw)", FUNCTIONS)
    near, far = list(range(6)), [0, 7, 131072, 2**31 - 1]
    for seed, (slug, comment, flags, most, features, query, key) in enumerate(
        (
            ("square", "Distances up to 5, clipped at 2.", "", 2, 3, near, near),
            ("unclipped", "All distances have vectors.", "", 8, 2, near, near),
            ("cached", "The last queries.", "FewerQueriesThanKeys", 2, 3, near[4:], near),
            ("one-feature", "A bias for one head.", "", 3, 1, near, near),
            ("far", "Far positions.", "FarPosition BeyondFloat32Integers", 8, 2, far, far),
        )
    ):
        table = drawn(seed, 2 * most + 1, features)
        rows = [[max(-most, min(most, k - q)) + most for k in key] for q in query]
        made.add(
            slug,
            comment,
            flags,
            function="shaw",
            parameters={"max_distance": most},
            inputs={
                "table": reals(table),
                "query_positions": integers(query),
                "key_positions": integers(key),
            },
            expected={"vectors": within([[table[r] for r in row] for row in rows], **ULPS)},
        )
    return made
