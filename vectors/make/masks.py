"""Which keys a query attends to, by rules that hide keys."""

from typing import Any

from exact import Group, booleans, function

RULES = {
    "causal": "hides k > q; with `diagonal` also k = q.",
    "window": "hides k < q - left and k > q + right; a side that is null hides nothing.",
    "padding": (
        "hides k >= lengths[b] of sequence b with the side 'right', and k < key_count - lengths[b] "
        "with 'left'."
    ),
    "prefix": "hides k > q where k >= lengths[b].",
    "segments": (
        "hides keys of another document: ids[q - start] != key_ids[k], and every pair of which one "
        "number is negative, which is padding; start = len(key_ids) - len(ids), so that the last "
        "of both are at one position."
    ),
    "chunked": "hides keys of another chunk: floor(q / size) != floor(k / size).",
    "dilated": "hides k unless q - k is a multiple of step.",
    "global": "hides pairs of which neither q nor k is one of `indices`.",
    "neighbourhood": (
        "numbers the tokens of a grid of `shape` in row-major order, and hides keys that are more "
        "than window[i] steps away on an axis i."
    ),
    "any": "hides what all of its `rules` hide: a query attends if one of them lets it.",
}
FUNCTIONS = {
    "mask": function(
        "`attends` is 1 (true) where the query may attend to the key, and 0 where it may not: true "
        "means TAKE PART. Query number i has the position q = offset + i, and key number j the "
        "position k = j. A query attends to a key that no rule of the list hides. By rule: "
        + " ".join(f"'{name}' {text}" for name, text in RULES.items()),
        "Vaswani et al. (2017), section 3.2.3 (causal); Raffel et al. (2020), T5, section 3.2.1 "
        "(prefix); Beltagy et al. (2020), Longformer, section 3.1 (window, dilated, global); Child "
        "et al. (2019), section 4 (chunked); Krell et al. (2021), section 3.2 (segments); Hassani "
        "et al. (2023), section 3.1 (neighbourhood, cut at the edges)",
        parameters={
            "query_count": "number of queries",
            "key_count": "number of keys",
            "offset": "position of the first query among the keys, which may be negative",
            "rules": "list of rules, each with its name as `rule` and its parameters",
        },
        inputs={},
        outputs={"attends": "(batch, query, key), booleans; batch is 1 if no rule has sequences"},
    )
}


def hides(rule: dict[str, Any], q: int, k: int, b: int, key_count: int) -> bool:
    """Tell whether a rule hides key k from query q of sequence b."""
    name = rule["rule"]
    if name == "causal":
        return k > q or (rule["diagonal"] and k == q)
    if name == "window":
        left, right = rule["left"], rule["right"]
        return (left is not None and k < q - left) or (right is not None and k > q + right)
    if name == "padding":
        length = rule["lengths"][b]
        return k >= length if rule["side"] == "right" else k < key_count - length
    if name == "prefix":
        return k > q and k >= rule["lengths"][b]
    if name == "segments":
        ids, key_ids = rule["ids"][b], rule["key_ids"][b]
        own, other = ids[q - (len(key_ids) - len(ids))], key_ids[k]
        return own != other or own < 0 or other < 0
    if name == "chunked":
        return q // rule["size"] != k // rule["size"]
    if name == "dilated":
        return (q - k) % rule["step"] != 0
    if name == "global":
        return q not in rule["indices"] and k not in rule["indices"]
    if name == "neighbourhood":
        return any(
            abs(a - c) > w
            for a, c, w in zip(
                place(q, rule["shape"]), place(k, rule["shape"]), rule["window"], strict=True
            )
        )
    return all(hides(part, q, k, b, key_count) for part in rule["rules"])


def place(token: int, shape: list[int]) -> list[int]:
    """Return the place of a token on each axis of a grid."""
    found = []
    for length in reversed(shape):
        token, rest = divmod(token, length)
        found.append(rest)
    return found[::-1]


def sequences(rules: list[dict[str, Any]]) -> int:
    """Return the number of sequences that the rules are for."""
    counts = [len(r[name]) for r in rules for name in ("lengths", "ids") if name in r]
    return max(counts, default=1)


CAUSAL = {"rule": "causal", "diagonal": False}
STRICT = {"rule": "causal", "diagonal": True}
# slug, comment, flags, queries, keys, offset, rules
CASES: list[tuple[str, str, str, int, int, int, list[dict[str, Any]]]] = [
    ("none", "Nothing is hidden.", "", 3, 4, 1, []),
    ("causal", "As many queries as keys.", "", 6, 6, 0, [CAUSAL]),
    (
        "causal-cached",
        "The last query is at the last key.",
        "FewerQueriesThanKeys",
        2,
        6,
        4,
        [CAUSAL],
    ),
    (
        "causal-first",
        "The first query is at the first key.",
        "FewerQueriesThanKeys",
        2,
        6,
        0,
        [CAUSAL],
    ),
    ("causal-middle", "Queries in the middle.", "FewerQueriesThanKeys", 2, 6, 2, [CAUSAL]),
    ("causal-one", "One token after five.", "FewerQueriesThanKeys", 1, 6, 5, [CAUSAL]),
    (
        "causal-more-queries",
        "The last query is at the last key, so that the first queries see none.",
        "EmptyRow",
        5,
        3,
        -2,
        [CAUSAL],
    ),
    (
        "strict",
        "Without its own position the first query sees none.",
        "EmptyRow",
        5,
        5,
        0,
        [STRICT],
    ),
]
for LEFT, RIGHT in ((2, 0), (0, 2), (1, 1), (0, 0), (None, 1), (3, None), (None, None), (9, 9)):
    CASES += [
        (
            f"window-{LEFT}-{RIGHT}",
            "Keys before and after the own position.",
            "",
            6,
            6,
            0,
            [{"rule": "window", "left": LEFT, "right": RIGHT}],
        )
    ]
CASES += [
    (
        "window-cached",
        "The last queries.",
        "FewerQueriesThanKeys",
        2,
        7,
        5,
        [{"rule": "window", "left": 2, "right": 0}],
    ),
    (
        "window-beyond",
        "Queries so far after the keys that some see none.",
        "EmptyRow",
        4,
        4,
        3,
        [{"rule": "window", "left": 1, "right": 0}],
    ),
    (
        "causal-window",
        "A window of three keys.",
        "FewerQueriesThanKeys",
        4,
        6,
        2,
        [CAUSAL, {"rule": "window", "left": 2, "right": None}],
    ),
    (
        "padding-right",
        "Three lengths, one of them 0.",
        "EmptyRow",
        2,
        5,
        0,
        [{"rule": "padding", "lengths": [5, 3, 0], "side": "right"}],
    ),
    (
        "padding-left",
        "Three lengths, one of them 0.",
        "EmptyRow",
        2,
        5,
        0,
        [{"rule": "padding", "lengths": [5, 3, 0], "side": "left"}],
    ),
    (
        "causal-padding-left",
        "Queries of the padding see none.",
        "EmptyRow",
        5,
        5,
        0,
        [CAUSAL, {"rule": "padding", "lengths": [5, 3], "side": "left"}],
    ),
    (
        "causal-padding-right",
        "Queries of the padding see the tokens.",
        "",
        5,
        5,
        0,
        [CAUSAL, {"rule": "padding", "lengths": [5, 3], "side": "right"}],
    ),
    (
        "prefix",
        "A prefix of each sequence is seen by all.",
        "",
        6,
        6,
        0,
        [{"rule": "prefix", "lengths": [0, 1, 3, 6]}],
    ),
    (
        "prefix-cached",
        "The last queries.",
        "FewerQueriesThanKeys",
        3,
        6,
        1,
        [{"rule": "prefix", "lengths": [4, 2]}],
    ),
    (
        "segments",
        "Documents one after another, and padding.",
        "EmptyRow",
        7,
        7,
        0,
        [
            {
                "rule": "segments",
                "ids": [[0, 0, 1, 1, 1, 2, -1], [5, 5, 5, 5, 7, 7, 7]],
                "key_ids": [[0, 0, 1, 1, 1, 2, -1], [5, 5, 5, 5, 7, 7, 7]],
            }
        ],
    ),
    (
        "segments-mixed",
        "Documents whose tokens alternate.",
        "",
        6,
        6,
        0,
        [{"rule": "segments", "ids": [[0, 1, 0, 2, 1, 0]], "key_ids": [[0, 1, 0, 2, 1, 0]]}],
    ),
    (
        "segments-cached",
        "The last queries.",
        "FewerQueriesThanKeys",
        2,
        6,
        4,
        [{"rule": "segments", "ids": [[1, 2]], "key_ids": [[0, 0, 1, 1, 1, 2]]}],
    ),
    (
        "causal-segments",
        "Packed documents of a decoder.",
        "",
        6,
        6,
        0,
        [
            CAUSAL,
            {"rule": "segments", "ids": [[0, 0, 0, 1, 1, 1]], "key_ids": [[0, 0, 0, 1, 1, 1]]},
        ],
    ),
    ("chunked", "Chunks of three.", "", 8, 8, 0, [{"rule": "chunked", "size": 3}]),
    (
        "causal-chunked-cached",
        "Chunks of four, as in Llama 4.",
        "FewerQueriesThanKeys",
        3,
        9,
        6,
        [CAUSAL, {"rule": "chunked", "size": 4}],
    ),
    (
        "chunked-negative",
        "Positions below zero are in chunks before the first one.",
        "EmptyRow NegativePosition",
        5,
        3,
        -2,
        [{"rule": "chunked", "size": 2}],
    ),
    ("dilated", "Every third key.", "", 7, 7, 0, [{"rule": "dilated", "step": 3}]),
    (
        "dilated-cached",
        "Every other key, from the own one.",
        "FewerQueriesThanKeys",
        2,
        7,
        5,
        [{"rule": "dilated", "step": 2}],
    ),
    ("dilated-1", "Every key.", "", 3, 3, 0, [{"rule": "dilated", "step": 1}]),
    (
        "causal-window-dilated",
        "A dilated window.",
        "",
        8,
        8,
        0,
        [CAUSAL, {"rule": "window", "left": 4, "right": None}, {"rule": "dilated", "step": 2}],
    ),
    (
        "window-or-global",
        "A window, and a token that sees and is seen by all.",
        "",
        7,
        7,
        0,
        [
            {
                "rule": "any",
                "rules": [
                    {"rule": "window", "left": 1, "right": 1},
                    {"rule": "global", "indices": [0, 4]},
                ],
            }
        ],
    ),
    (
        "causal-window-or-prefix",
        "A window and the first tokens (attention sinks).",
        "FewerQueriesThanKeys",
        3,
        8,
        5,
        [
            CAUSAL,
            {
                "rule": "any",
                "rules": [
                    {"rule": "window", "left": 2, "right": 0},
                    {"rule": "global", "indices": [0, 1]},
                ],
            },
        ],
    ),
    (
        "neighbourhood",
        "A grid of 3 by 4.",
        "",
        12,
        12,
        0,
        [{"rule": "neighbourhood", "shape": [3, 4], "window": [1, 1]}],
    ),
    (
        "neighbourhood-volume",
        "A grid of 2 by 2 by 3, with other steps on each axis.",
        "",
        12,
        12,
        0,
        [{"rule": "neighbourhood", "shape": [2, 2, 3], "window": [1, 0, 1]}],
    ),
]


def group() -> Group:
    """Return the vectors."""
    made = Group("masks", "Attention masks; true means that a query attends", FUNCTIONS)
    for slug, comment, flags, queries, keys, offset, rules in CASES:
        attends = [
            [
                [
                    not any(hides(rule, offset + i, j, b, keys) for rule in rules)
                    for j in range(keys)
                ]
                for i in range(queries)
            ]
            for b in range(sequences(rules))
        ]
        made.add(
            slug,
            comment,
            flags,
            function="mask",
            parameters={
                "query_count": queries,
                "key_count": keys,
                "offset": offset,
                "rules": rules,
            },
            inputs={},
            expected={"attends": booleans(attends)},
        )
    return made
