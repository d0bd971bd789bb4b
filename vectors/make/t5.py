"""The buckets of relative positions of T5."""

from exact import Group, function, integers

FUNCTIONS = {
    "t5_bucket": function(
        "The relative position is key minus query. With `bidirectional` there are n = num_buckets "
        "/ 2 buckets for a direction, a key after the query has n added to its bucket, and the "
        "distance d is the absolute value; else n = num_buckets and d = max(0, query - key). With "
        "e = floor(n / 2), the bucket of d < e is d, and that of d >= e is min(n - 1, e + "
        "floor((n - e) * ln(d / e) / ln(max_distance / e))), of exact logarithms.",
        "Raffel et al. (2020), T5, section 2.1, and the code of mesh_tensorflow",
        parameters={
            "bidirectional": "whether keys after the query have buckets",
            "num_buckets": "number of all buckets",
            "max_distance": "distance from which on all are in the last bucket",
        },
        inputs={"relative": "(n,), key minus query"},
        outputs={"bucket": "(n,), integers"},
    )
}


def bucket(relative: int, count: int, most: int, *, bidirectional: bool) -> int:
    """Return the bucket; the powers compared are integers, so that no logarithm is rounded."""
    n = count // 2 if bidirectional else count
    base = n if bidirectional and relative > 0 else 0
    d = abs(relative) if bidirectional else max(0, -relative)
    e = n // 2
    if d < e:
        return base + d
    step = 0
    # floor((n - e) ln(d / e) / ln(most / e)) >= s exactly if (d / e)^(n - e) >= (most / e)^s.
    while step < n - e and d ** (n - e) * e ** (step + 1) >= most ** (step + 1) * e ** (n - e):
        step += 1
    return base + min(n - 1, e + step)


NEAR = list(range(-40, 41))
EDGES = [sign * d for d in (63, 64, 65, 90, 91, 127, 128, 129, 1000) for sign in (-1, 1)]
FAR = [sign * d for d in (2**20, 2**24 + 1, 2**31 - 1) for sign in (-1, 1)]
# slug, comment, buckets, farthest distance
KINDS = (
    ("32-128", "The numbers of T5.", 32, 128),
    ("64-256", "More buckets.", 64, 256),
    ("20-100", "Numbers that are no powers of two.", 20, 100),
    ("4-2", "The fewest buckets, of which two are for a direction.", 4, 2),
    ("32-1000000", "A far distance.", 32, 10**6),
)


def group() -> Group:
    """Return the vectors."""
    made = Group("t5", "Buckets of relative positions (T5)", FUNCTIONS)
    for slug, comment, count, most in KINDS:
        for bidirectional in (True, False):
            if not bidirectional and most <= count // 2:
                continue
            n = count // (1 + bidirectional)
            last = min(most, 2000)
            own = [bucket(-d, count, most, bidirectional=bidirectional) for d in range(last + 1)]
            starts = [d for d in range(1, last + 1) if own[d] > own[d - 1] >= n // 2 - 1]
            limits = [sign * (d - k) for d in starts for k in (0, 1) for sign in (-1, 1)]
            for part, flags, relative in (
                ("near", "", NEAR),
                ("limits", "BoundaryOfBucket", limits),
                ("far", "FarDistance BeyondFloat32Integers", EDGES + FAR),
            ):
                found = [bucket(r, count, most, bidirectional=bidirectional) for r in relative]
                made.add(
                    f"{'bidirectional' if bidirectional else 'causal'}-{slug}-{part}",
                    comment,
                    flags,
                    function="t5_bucket",
                    parameters={
                        "bidirectional": bidirectional,
                        "num_buckets": count,
                        "max_distance": most,
                    },
                    inputs={"relative": integers(relative)},
                    expected={"bucket": integers(found)},
                )
    return made
