"""The linear bias of ALiBi, for any number of heads."""

from typing import Any

from mpmath import floor, log, mpf

from exact import Group, function, integers, within

FUNCTIONS = {
    "alibi_slopes": function(
        "With n = 2^floor(log2 num_heads), the slopes of the first n heads are 2^(-8 h / n), h = "
        "1, ..., n. Further heads have every other slope of 2 n heads: 2^(-8 h / (2 n)), h = 1, 3, "
        "5, ...",
        "Press et al. (2022), ALiBi, section 3, and its code for other numbers of heads",
        parameters={"num_heads": "number of heads"},
        inputs={},
        outputs={"slopes": "(head,)"},
    ),
    "alibi_bias": function(
        "slope * (key - query) with `causal`, positive for keys after the query, which a causal "
        "mask hides; else -slope * |key - query|.",
        "Press et al. (2022), ALiBi, section 3",
        parameters={"num_heads": "number of heads", "causal": "which of both formulas"},
        inputs={"query_positions": "(query,)", "key_positions": "(key,)"},
        outputs={"bias": "(head, query, key)"},
    ),
}


def slopes(heads: int) -> list[Any]:
    """Return the slope of each head."""
    n = 2 ** int(floor(log(mpf(heads), 2)))
    first = [mpf(2) ** (-mpf(8 * h) / n) for h in range(1, n + 1)]
    between = [mpf(2) ** (-mpf(8 * h) / (2 * n)) for h in range(1, 2 * n, 2)]
    return (first + between)[:heads]


def group() -> Group:
    """Return the vectors."""
    made = Group("alibi", "The linear bias of ALiBi", FUNCTIONS)
    for heads in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 32, 71, 112):
        is_power = heads & (heads - 1) == 0
        made.add(
            f"slopes-{heads}",
            "A power of two." if is_power else "Heads between two powers of two.",
            "" if is_power else "OddHeads",
            function="alibi_slopes",
            parameters={"num_heads": heads},
            inputs={},
            expected={"slopes": within(slopes(heads), float64=4, float32=4, float16=1, bfloat16=1)},
        )
    near, far = list(range(6)), [0, 4095, 131072]
    for heads, causal, query, key, flags, slug in (
        (4, True, near, near, "", "square"),
        (4, False, near, near, "", "square"),
        (3, True, near, near, "OddHeads", "square"),
        (6, False, near, near, "OddHeads", "square"),
        (12, True, near[3:], near, "OddHeads FewerQueriesThanKeys", "cached"),
        (12, False, near[3:], near, "OddHeads FewerQueriesThanKeys", "cached"),
        (5, True, far, far, "OddHeads FarPosition", "far"),
        (8, False, far, far, "FarPosition", "far"),
    ):
        bias = [
            [[s * (k - q) if causal else -s * abs(k - q) for k in key] for q in query]
            for s in slopes(heads)
        ]
        made.add(
            f"bias-{heads}-{'causal' if causal else 'both-sides'}-{slug}",
            "Slope times relative position." if causal else "Minus slope times distance.",
            flags,
            function="alibi_bias",
            parameters={"num_heads": heads, "causal": causal},
            inputs={"query_positions": integers(query), "key_positions": integers(key)},
            expected={"bias": within(bias, float64=4, float32=4)},
        )
    return made
