"""Rotary embedding of vectors: layouts, a part of the features, inverse, complex numbers."""

from typing import Any

from mpmath import cos, mpf, sin

from exact import Group, drawn, frequency, function, integers, largest, reals, within

PAIRS = (
    "Pair i is the features (i, i + n / 2) in the layout 'half', and (2 i, 2 i + 1) in the layout "
    "'interleaved', n being the number of features that form pairs. "
)
TURN = (
    "A pair (a, b) at position p becomes (a cos t - b sin t, a sin t + b cos t) with t = p * "
    "frequency i; with `inverse` t = -p * frequency i."
)
FUNCTIONS = {
    "rotate": function(
        f"{PAIRS}{TURN} Without `proportion`, n = rotary_dim, the first features, frequency i is "
        "base^(-2 i / rotary_dim), and later features stay as they are. With `proportion`, n is "
        "the number of all features, frequency i is base^(-2 i / n) for the first floor(proportion "
        "* n / 2) pairs, and 0 for the others.",
        "Su et al. (2021), RoFormer, equations 15 and 34; the type 'proportional' of transformers",
        parameters={
            "layout": "'half' or 'interleaved'",
            "rotary_dim": "number of rotated features, even",
            "base": "base of the frequencies",
            "inverse": "whether to rotate back",
            "proportion": "share of the pairs that rotate, or null",
        },
        inputs={"x": "(..., sequence, feature)", "positions": "(..., sequence)"},
        outputs={"y": "(..., sequence, feature)"},
    ),
    "rotate_complex": function(
        "Feature i, a complex number, is multiplied by exp(sqrt(-1) * p * frequency i), p being "
        "the position and frequency i = base^(-2 i / n) = base^(-i / m) for n = 2 m, m being the "
        "number of complex features; with `inverse` by the conjugate.",
        "Su et al. (2021), RoFormer, equations 12 and 15",
        parameters={"base": "base of the frequencies", "inverse": "whether to rotate back"},
        inputs={
            "real": "(sequence, feature), the real parts",
            "imag": "(sequence, feature), the imaginary parts",
            "positions": "(sequence,)",
        },
        outputs={"real": "(sequence, feature)", "imag": "(sequence, feature)"},
    ),
}
# Tables within a unit, two products and a sum; half precision is rotated in float32 and rounded.
ULPS = {"float64": 4, "float32": 4, "float16": 1, "bfloat16": 1}


def places(layout: str, n: int) -> list[tuple[int, int]]:
    """Return the features of each pair."""
    if layout == "half":
        return [(i, i + n // 2) for i in range(n // 2)]
    return [(2 * i, 2 * i + 1) for i in range(n // 2)]


def turned(row: list[Any], angles: list[Any], layout: str) -> list[Any]:
    """Rotate each pair of a row by its angle; later features stay."""
    out = list(row)
    for (i, j), t in zip(places(layout, 2 * len(angles)), angles, strict=True):
        a, b = mpf(row[i]), mpf(row[j])
        out[i], out[j] = a * cos(t) - b * sin(t), a * sin(t) + b * cos(t)
    return out


def rotated(x: Any, positions: Any, frequencies: list[Any], layout: str, sign: int) -> Any:
    """Rotate nested lists of rows at nested lists of positions."""
    if isinstance(positions, list):
        pairs = zip(x, positions, strict=True)
        return [rotated(part, at, frequencies, layout, sign) for part, at in pairs]
    return turned(x, [sign * positions * f for f in frequencies], layout)


def group() -> Group:
    """Return the vectors."""
    made = Group("rotation", "Rotary embedding of vectors", FUNCTIONS)
    seed = 0

    def add(
        slug: str,
        comment: str,
        flags: str = "",
        *,
        shape: tuple[int, ...] = (6, 8),
        positions: Any = None,
        rotary_dim: int | None = None,
        base: float = 10000,
        inverse: bool = False,
        proportion: float | None = None,
    ) -> None:
        nonlocal seed
        n = rotary_dim or shape[-1]
        frequencies: list[Any] = [frequency(i, n, base) for i in range(n // 2)]
        if proportion is not None:
            count = int(proportion * n // 2)
            frequencies[count:] = [mpf(0)] * (n // 2 - count)
        at: Any = list(range(shape[0])) if positions is None else positions
        is_real = any(isinstance(p, float) for p in at)
        for layout in ("half", "interleaved"):
            seed += 1
            x = drawn(seed, *shape)
            made.add(
                f"{layout}-{slug}",
                comment,
                flags,
                function="rotate",
                parameters={
                    "layout": layout,
                    "rotary_dim": n,
                    "base": base,
                    "inverse": inverse,
                    "proportion": proportion,
                },
                inputs={"x": reals(x), "positions": (reals if is_real else integers)(at)},
                expected={
                    "y": within(
                        rotated(x, at, frequencies, layout, -1 if inverse else 1),
                        largest(x),
                        **ULPS,
                    )
                },
            )

    add("first", "The first positions.")
    add("two-features", "One pair, where both layouts are the same.", shape=(4, 2))
    add("three-pairs", "An odd number of pairs.", shape=(4, 6))
    add("head-32", "More features.", shape=(3, 32), positions=[0, 7, 1000])
    add("base-500000", "The base of Llama 3.", base=500000, positions=[0, 1, 2, 50, 500, 4000])
    add(
        "unordered",
        "Positions in any order, one of them twice.",
        "UnorderedPosition",
        positions=[5, 0, 3, 3, 100, 1],
    )
    add("negative", "Positions before 0.", "NegativePosition", positions=[-1, -2, -3, -7, -50, 0])
    add(
        "batch",
        "Two sequences, each with positions of its own.",
        "UnorderedPosition",
        shape=(2, 3, 8),
        positions=[[0, 1, 2], [7, 8, 9]],
    )
    add(
        "cached",
        "One token after 100 cached ones.",
        "FewerQueriesThanKeys",
        shape=(1, 8),
        positions=[100],
    )
    add("partial", "The first 4 of 10 features.", "Partial", shape=(4, 10), rotary_dim=4)
    add(
        "partial-odd",
        "The first 4 of 7 features: a head may be odd.",
        "Partial OddFeatures",
        shape=(4, 7),
        rotary_dim=4,
    )
    add(
        "partial-quarter",
        "A quarter of the features, as in GPT-NeoX.",
        "Partial",
        shape=(3, 32),
        rotary_dim=8,
    )
    add(
        "proportional",
        "Half of the pairs, with the frequencies of the whole head.",
        "Proportional",
        shape=(4, 8),
        proportion=0.5,
    )
    add(
        "proportional-quarter",
        "A quarter of the pairs, with the frequencies of the whole head.",
        "Proportional",
        shape=(3, 32),
        proportion=0.25,
    )
    add("inverse", "Rotate back.", "", inverse=True)
    add(
        "inverse-far",
        "Rotate back from far positions.",
        "FarPosition",
        inverse=True,
        shape=(3, 8),
        positions=[4097, 131071, 1048575],
    )
    add(
        "inverse-partial",
        "Rotate back a part of the features.",
        "Partial",
        shape=(4, 10),
        rotary_dim=4,
        inverse=True,
    )
    add(
        "far",
        "Contexts of long models.",
        "FarPosition",
        positions=[4096, 32767, 65536, 131071, 1048575, 10**7],
    )
    add(
        "to-2^31",
        "The largest positions of 32 bits.",
        "FarPosition BeyondFloat32Integers",
        shape=(3, 16),
        positions=[2**24 + 1, 2**30 + 1, 2**31 - 1],
    )
    add(
        "to-2^53",
        "Positions that need 64 bits.",
        "FarPosition BeyondFloat32Integers Int64Position",
        shape=(3, 16),
        positions=[2**31, 2**40 + 1, 2**53],
    )
    add(
        "real",
        "Positions between integers.",
        "RealPosition NegativePosition",
        positions=[0.5, 1.25, -3.75, 100.125, 2000.5, 0.0],
    )
    add(
        "real-far",
        "Far positions between integers.",
        "RealPosition FarPosition",
        shape=(3, 8),
        positions=[4096.5, 1048575.125, 8388607.5],
    )
    for number, (slug, positions, flags, inverse) in enumerate(
        (
            ("first", [0, 1, 2, 3], "", False),
            ("inverse", [0, 1, 2, 30], "", True),
            ("far", [4096, 131071, 1048575, 2**31 - 1], "FarPosition BeyondFloat32Integers", False),
        )
    ):
        real, imag = drawn(1000 + number, 4, 4), drawn(2000 + number, 4, 4)
        y = rotated(
            [[*a, *b] for a, b in zip(real, imag, strict=True)],
            positions,
            [frequency(i, 8, 10000) for i in range(4)],
            "half",
            -1 if inverse else 1,
        )
        scale, ulps = largest([real, imag]), {"float64": 4, "float32": 4}
        made.add(
            f"complex-{slug}",
            "Each pair is one complex number.",
            flags,
            function="rotate_complex",
            parameters={"base": 10000, "inverse": inverse},
            inputs={"real": reals(real), "imag": reals(imag), "positions": integers(positions)},
            expected={
                "real": within([row[:4] for row in y], scale, **ulps),
                "imag": within([row[4:] for row in y], scale, **ulps),
            },
        )
    return made
