"""The bias of FIRE, by a small network of normalised distances."""

from mpmath import log, mpf

from exact import Group, drawn, function, integers, largest, reals, within

FUNCTIONS = {
    "fire": function(
        "With psi(x) = ln(c x + 1), the number z = psi(|query - key|) / psi(max(threshold, query)) "
        "goes through a network of one hidden layer: the bias of a head is output_bias[head] + sum "
        "over i of output_weight[head, i] * max(0, hidden_weight[i] * z + hidden_bias[i]).",
        "Li et al. (2024), Functional Interpolation for Relative Positions, equation 5",
        parameters={"c": "positive", "threshold": "positive"},
        inputs={
            "hidden_weight": "(hidden,)",
            "hidden_bias": "(hidden,)",
            "output_weight": "(head, hidden)",
            "output_bias": "(head,)",
            "query_positions": "(query,)",
            "key_positions": "(key,)",
        },
        outputs={"bias": "(head, query, key)"},
    )
}


def group() -> Group:
    """Return the vectors."""
    made = Group("fire", "The bias of FIRE", FUNCTIONS)
    near, far = list(range(7)), [0, 100, 5000, 131072]
    for seed, (slug, comment, flags, query, key, c, threshold) in enumerate(
        (
            ("below-threshold", "All queries are below the threshold.", "", near, near, 0.125, 16),
            ("above-threshold", "Most queries are above the threshold.", "", near, near, 0.5, 2),
            (
                "cached",
                "The last queries.",
                "FewerQueriesThanKeys",
                near[4:],
                near,
                1,
                4,
            ),
            ("far", "Far positions.", "FarPosition", far, far, 0.25, 512),
        )
    ):
        w1, b1, w2, b2 = (
            drawn(10 * seed, 5),
            drawn(10 * seed + 1, 5),
            drawn(10 * seed + 2, 3, 5),
            drawn(10 * seed + 3, 3),
        )
        bias, terms = [], []
        for weights, own in zip(w2, b2, strict=True):
            rows = []
            for q in query:
                row = []
                for k in key:
                    z = log(mpf(c) * abs(q - k) + 1) / log(mpf(c) * max(threshold, q) + 1)
                    hidden = [max(0, w * z + b) for w, b in zip(w1, b1, strict=True)]
                    products = [w * h for w, h in zip(weights, hidden, strict=True)]
                    row.append(own + sum(products))
                    # What rounds: the parts of hidden numbers, which may cancel.
                    parts = (
                        abs(w) * (abs(v) * z + abs(b))
                        for w, v, b in zip(weights, w1, b1, strict=True)
                    )
                    terms.append(abs(own) + sum(parts))
                rows.append(row)
            bias.append(rows)
        made.add(
            slug,
            comment,
            flags,
            function="fire",
            parameters={"c": c, "threshold": threshold},
            inputs={
                "hidden_weight": reals(w1),
                "hidden_bias": reals(b1),
                "output_weight": reals(w2),
                "output_bias": reals(b2),
                "query_positions": integers(query),
                "key_positions": integers(key),
            },
            expected={"bias": within(bias, largest(terms), float64=8, float32=8)},
        )
    return made
