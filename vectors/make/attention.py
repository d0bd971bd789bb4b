"""Scaled dot-product attention, and what models add to it."""

from typing import Any

from mpmath import exp, inf, isnan, log, mpf, nan, sqrt, tanh

from exact import Group, booleans, drawn, function, largest, reals, within

FUNCTIONS = {
    "attention": function(
        "The score of query i of head h and key j is scale * q[h, i] . k[g, j], g = floor(h * "
        "key_heads / heads); with `softcap` s it becomes s * tanh(score / s); then bias[h, i, j] "
        "is added. Where `attends` is 0 (false), or the bias minus infinity, the key is hidden: it "
        "has no part in the output, even if its key or value is NaN or infinite. The weights of "
        "the others are exp(score - lse), lse = ln(sum of exp(score)); with `sinks` the sum has "
        "the further term exp(sinks[h]), which has no value. The output is the sum of weight * "
        "v[g, j]; of a query without keys it is 0. Its lse is minus infinity, or sinks[h]. Inputs "
        "that are left out hide, add and cap nothing. Tests with a visible NaN have no lse.",
        "Vaswani et al. (2017), equation 1; Gemma 2 (softcap, before the mask); Ainslie et al. "
        "(2023), GQA; gpt-oss (sinks); Dao et al. (2022), FlashAttention (lse)",
        parameters={
            "scale": "factor on the scores",
            "softcap": "bound of the scores, or null",
        },
        inputs={
            "q": "(head, query, feature)",
            "k": "(key_head, key, feature)",
            "v": "(key_head, key, value)",
            "attends": "(1 or head, query, key), booleans; optional",
            "bias": "(1 or head, query, key); optional",
            "sinks": "(head,); optional",
        },
        outputs={"output": "(head, query, value)", "lse": "(head, query)"},
    )
}


def attend(
    q: Any, k: Any, v: Any, o: dict[str, Any]
) -> tuple[list[list[list[Any]]], list[list[Any]], Any]:
    """Return output, lse, and the largest sum of the absolute products of a score."""
    heads, groups = len(q), len(q) // len(k)
    attends, bias, sinks = o.get("attends"), o.get("bias"), o.get("sinks")
    output, lses, most = [], [], mpf(0)
    for h in range(heads):
        keys, values, rows, lse_row = k[h // groups], v[h // groups], [], []
        for i, query in enumerate(q[h]):
            scores = {}
            for j, key in enumerate(keys):
                added = mpf(0) if bias is None else mpf(bias[h % len(bias)][i][j])
                if added == -inf or (attends and not attends[h % len(attends)][i][j]):
                    continue
                products = [mpf(a) * b for a, b in zip(query, key, strict=True)]
                score = o["scale"] * sum(products)
                if not isnan(score):
                    most = max(most, o["scale"] * sum(map(abs, products)) + abs(added))
                if o["softcap"] is not None:
                    score = o["softcap"] * tanh(score / o["softcap"])
                scores[j] = score + added
            terms = list(scores.values()) + ([] if sinks is None else [mpf(sinks[h])])
            lse = log(sum(map(exp, terms))) if terms else -inf
            lse_row.append(lse)
            row = [mpf(0)] * len(values[0])
            for j, score in scores.items():
                weight = nan if isnan(lse) else exp(score - lse)
                row = [total + weight * x for total, x in zip(row, values[j], strict=True)]
            rows.append(row)
        output.append(rows)
        lses.append(lse_row)
    return output, lses, most


def causal(queries: int, keys: int) -> list[list[list[bool]]]:
    """Return the mask whose last query is at the last key."""
    return [[[j <= i + keys - queries for j in range(keys)] for i in range(queries)]]


def put(values: Any, index: tuple[int, ...], value: float) -> Any:
    """Return nested lists with another value at an index."""
    copy = list(values)
    copy[index[0]] = put(copy[index[0]], index[1:], value) if len(index) > 1 else value
    return copy


def group() -> Group:
    """Return the vectors."""
    made = Group("attention", "Scaled dot-product attention", FUNCTIONS)

    def add(
        slug: str,
        comment: str,
        flags: str = "",
        *,
        shape: tuple[int, int, int, int, int, int] = (2, 2, 3, 5, 4, 4),
        q: Any = None,
        k: Any = None,
        v: Any = None,
        **options: Any,
    ) -> None:
        seed = 10 * len(made.tests)
        heads, key_heads, queries, keys, features, values = shape
        q = drawn(seed, heads, queries, features) if q is None else q
        k = drawn(seed + 1, key_heads, keys, features) if k is None else k
        v = drawn(seed + 2, key_heads, keys, values) if v is None else v
        o = {"scale": 1 / sqrt(mpf(features)), "softcap": None} | options
        o["scale"] = float(o["scale"])
        output, lse, most = attend(q, k, v, o)
        inputs = {"q": reals(q), "k": reals(k), "v": reals(v)}
        if "attends" in o:
            inputs["attends"] = booleans(o["attends"])
        inputs |= {name: reals(o[name]) for name in ("bias", "sinks") if name in o}
        # A score errs by units of its products, and its exponential by as many.
        ulps, scale = 4 + 2 * int(most), largest(v)
        expected = {
            "output": within(output, scale, float64=ulps, float32=ulps, float16=1, bfloat16=1)
        }
        if not any(isnan(x) for rows in output for row in rows for x in row):
            top = max(largest(lse), float(most), 1)
            expected["lse"] = within(lse, top, float64=8, float32=8)
        made.add(
            slug,
            comment,
            flags,
            function="attention",
            parameters={"scale": o["scale"], "softcap": o["softcap"]},
            inputs=inputs,
            expected=expected,
        )

    add("plain", "Two heads, fewer queries than keys, nothing hidden.", "FewerQueriesThanKeys")
    add("one-key", "The output is the value.", shape=(1, 1, 2, 1, 4, 3))
    add("value-size", "Values of another length than keys.", shape=(2, 2, 3, 5, 4, 6))
    add("head-32", "A usual head.", shape=(1, 1, 4, 8, 32, 8))
    add("odd-features", "Seven features.", shape=(1, 1, 3, 4, 7, 5))
    add("scale-1", "A scale of 1.", scale=1)
    add("scale-quarter", "A scale of 1/4.", scale=0.25)
    add("many-keys", "More keys than a block.", "ManyKeys", shape=(1, 1, 2, 300, 4, 4))
    add(
        "equal-scores",
        "Queries of zeros: the mean of the values.",
        q=[[[0.0] * 4] * 3] * 2,
    )
    add("causal", "As many queries as keys.", shape=(2, 2, 5, 5, 4, 4), attends=causal(5, 5))
    add(
        "causal-cached",
        "The last query is at the last key.",
        "FewerQueriesThanKeys",
        attends=causal(3, 5),
    )
    add(
        "causal-one",
        "One token after cached ones.",
        "FewerQueriesThanKeys",
        shape=(2, 2, 1, 6, 4, 4),
        attends=causal(1, 6),
    )
    by_head = [[[(i + j + h) % 3 != 0 for j in range(5)] for i in range(3)] for h in range(2)]
    add("mask-by-head", "A mask of each head.", attends=by_head)
    nothing = [[[i != 1 and j != 2 for j in range(5)] for i in range(3)]]
    add("empty-row", "A query that sees no key has zeros.", "EmptyRow", attends=nothing)
    add(
        "empty-rows-causal",
        "More queries than keys: the first queries see none.",
        "EmptyRow",
        shape=(1, 1, 5, 3, 4, 4),
        attends=causal(5, 3),
    )
    add("all-empty", "No query sees a key.", "EmptyRow", attends=[[[False] * 5] * 3])
    add("softcap", "Scores within 5.", softcap=5.0)
    add("softcap-small", "Scores that the cap makes nearly equal.", softcap=0.5)
    add(
        "softcap-causal",
        "The cap comes before the mask.",
        softcap=2.0,
        shape=(2, 2, 5, 5, 4, 4),
        attends=causal(5, 5),
    )
    add("bias", "A bias of all heads.", bias=drawn(7, 1, 3, 5))
    add("bias-by-head", "A bias of each head.", bias=drawn(8, 2, 3, 5))
    hidden = put(drawn(9, 1, 3, 5), (0, 0, 2), float("-inf"))
    add("bias-minus-infinity", "Minus infinity hides a key.", bias=hidden)
    gone = put(drawn(9, 1, 3, 5), (0, 1), [float("-inf")] * 5)
    add("bias-empty-row", "Minus infinity hides all keys of a query.", "EmptyRow", bias=gone)
    add("softcap-bias", "The bias comes after the cap.", softcap=2.0, bias=drawn(8, 2, 3, 5))
    add("softcap-bias-mask", "All three.", softcap=2.0, bias=drawn(8, 2, 3, 5), attends=by_head)
    add("sinks", "A logit without value in each head.", sinks=[0.5, -1.25])
    add("sinks-causal", "With a mask.", sinks=[1.5, 0.25], attends=causal(3, 5))
    add(
        "sinks-empty-row",
        "A query that sees nothing but the sink has zeros; its lse is the sink.",
        "EmptyRow",
        sinks=[1.5, 0.25],
        attends=nothing,
    )
    add("sinks-large", "A sink that takes all weight.", sinks=[200.0, 0.0])
    add(
        "sinks-softcap",
        "Sinks are neither scaled nor capped.",
        sinks=[3.0, 2.0],
        softcap=1.0,
    )
    add(
        "grouped",
        "Four query heads, two key heads.",
        "GroupedHeads",
        shape=(4, 2, 3, 5, 4, 4),
    )
    add(
        "multi-query",
        "Three query heads, one key head.",
        "GroupedHeads OddHeads",
        shape=(3, 1, 3, 5, 4, 4),
    )
    add(
        "grouped-causal-sinks",
        "Six query heads, two key heads.",
        "GroupedHeads OddHeads FewerQueriesThanKeys",
        shape=(6, 2, 3, 5, 4, 4),
        attends=causal(3, 5),
        sinks=[0.0, 0.5, 1.0, -1.0, 2.0, -2.0],
    )
    large = [[[100.0, -100.0, 100.0, 50.0], [100.0, 100.0, 100.0, 100.0]]]
    add(
        "large-scores",
        "Scores of thousands, all but one of whose weights are zero.",
        "LargeScore",
        shape=(1, 1, 2, 4, 4, 4),
        q=large,
        k=drawn(71, 1, 4, 4),
    )
    add(
        "large-equal-scores",
        "Equal scores of thousands: the mean of the values.",
        "LargeScore",
        shape=(1, 1, 1, 3, 4, 4),
        q=[[[64.0] * 4]],
        k=[[[32.0] * 4] * 3],
    )
    add(
        "large-negative-scores",
        "Equal scores of minus thousands.",
        "LargeScore",
        shape=(1, 1, 1, 3, 4, 4),
        q=[[[64.0] * 4]],
        k=[[[-32.0] * 4] * 3],
    )
    for value in (float("nan"), float("inf"), float("-inf")):
        name = {"nan": "nan", "inf": "infinity", "-inf": "minus-infinity"}[str(value)]
        mask = [[[j != 2 for j in range(5)]] * 3]
        flags = "HiddenNaN"
        add(
            f"hidden-{name}-key",
            "A key that is not finite, and that nobody sees.",
            flags,
            k=put(drawn(81, 2, 5, 4), (0, 2, 1), value),
            attends=mask,
        )
        add(
            f"hidden-{name}-value",
            "A value that is not finite, and that nobody sees.",
            flags,
            v=put(drawn(82, 2, 5, 4), (1, 2, 3), value),
            attends=mask,
        )
    add(
        "hidden-nan-by-bias",
        "Hidden by minus infinity.",
        "HiddenNaN",
        v=put(drawn(83, 2, 5, 4), (1, 2, 3), float("nan")),
        bias=[[[float("-inf") if j == 2 else 0.0 for j in range(5)]] * 3],
    )
    add(
        "hidden-nan-causal",
        "A last value that only the last query sees: its output alone is NaN.",
        "HiddenNaN VisibleNaN",
        shape=(1, 1, 4, 4, 4, 4),
        v=put(drawn(84, 1, 4, 4), (0, 3), [float("nan")] * 4),
        attends=causal(4, 4),
    )
    add(
        "hidden-nan-empty-row",
        "All keys are hidden, and NaN.",
        "HiddenNaN EmptyRow",
        shape=(1, 1, 2, 2, 4, 4),
        k=[[[float("nan")] * 4] * 2],
        v=[[[float("nan")] * 4] * 2],
        attends=[[[False] * 2] * 2],
    )
    add(
        "visible-nan-key",
        "A key of NaN that the last query alone sees.",
        "HiddenNaN VisibleNaN",
        shape=(1, 1, 3, 3, 4, 4),
        k=put(drawn(85, 1, 3, 4), (0, 2), [float("nan")] * 4),
        attends=causal(3, 3),
    )
    return made
