"""The bias of Sandwich, by products of sinusoids."""

from mpmath import cos, mpf

from exact import Group, frequency, function, integers, within

FUNCTIONS = {
    "sandwich": function(
        "The bias of head h = 1, ..., n is n / (8 h) times the sum over i = 0, ..., dim / 2 - 1 of "
        "cos((query - key) * base^(-2 i / dim)), n being the number of heads. "
        "A constant of each head, by which some programs make the largest bias 0, is left out: it "
        "changes no softmax.",
        "Chi et al. (2023), Dissecting Transformer Length Extrapolation, section 5",
        parameters={
            "num_heads": "number of heads",
            "dim": "number of features of the sinusoids, even",
            "base": "base of the frequencies",
        },
        inputs={"query_positions": "(query,)", "key_positions": "(key,)"},
        outputs={"bias": "(head, query, key)"},
    )
}


def group() -> Group:
    """Return the vectors."""
    made = Group("sandwich", "The bias of Sandwich", FUNCTIONS)
    near, far = list(range(6)), [0, 4095, 131071, 2**24 + 1]
    for slug, comment, flags, heads, dim, base, query, key in (
        ("square", "The first positions.", "", 4, 16, 10000, near, near),
        ("odd-heads", "Three heads.", "OddHeads", 3, 16, 10000, near, near),
        ("two-features", "A single cosine.", "", 2, 2, 10000, near, near),
        ("base-100", "Another base.", "", 2, 8, 100, near, near),
        ("cached", "The last queries.", "FewerQueriesThanKeys", 2, 8, 10000, near[4:], near),
        ("far", "Far positions.", "FarPosition BeyondFloat32Integers", 2, 16, 10000, far, far),
    ):
        theta = [frequency(i, dim, base) for i in range(dim // 2)]
        sums = [[sum(cos((q - k) * f) for f in theta) for k in key] for q in query]
        bias = [
            [[mpf(heads) / (8 * h) * s for s in row] for row in sums] for h in range(1, heads + 1)
        ]
        made.add(
            slug,
            comment,
            flags,
            function="sandwich",
            parameters={"num_heads": heads, "dim": dim, "base": base},
            inputs={"query_positions": integers(query), "key_positions": integers(key)},
            # Sums of products of tables, each within a unit; smaller heads are no better.
            expected={"bias": within(bias, heads * dim / 16, float64=4, float32=4)},
        )
    return made
