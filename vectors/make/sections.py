"""Rotary embedding of positions with several coordinates."""

from typing import Any

from exact import Group, drawn, frequency, function, integers, largest, reals, within
from rotation import PAIRS, TURN, ULPS, turned

FUNCTIONS = {
    "rotate_sections": function(
        f"{PAIRS}Here n is the number of all features. {TURN} The position p of a pair is one "
        "coordinate, and `sections` has the number of pairs of each coordinate. In the order "
        "'contiguous' the first sections[0] pairs have coordinate 0, the next sections[1] pairs "
        "coordinate 1, and so on. In the order 'interleaved', with m coordinates, pair i has "
        "coordinate i mod m if floor(i / m) < sections[i mod m], else coordinate 0. With the "
        "frequencies 'shared', frequency i of pair i is base^(-2 i / n), whatever its coordinate. "
        "With 'restart' the j-th pair of coordinate c has frequency base^(-j / sections[c]).",
        "Wang et al. (2024), Qwen2-VL, section 2.1; the code of Qwen3-VL for 'interleaved'; "
        "Heo et al. (2024), Rotary Position Embedding for Vision Transformer, equation 12, for "
        "'restart'",
        parameters={
            "layout": "'half' or 'interleaved'",
            "base": "base of the frequencies",
            "sections": "number of pairs of each coordinate",
            "frequencies": "'shared' or 'restart'",
            "order": "'contiguous' or 'interleaved'",
        },
        inputs={"x": "(sequence, feature)", "positions": "(coordinate, sequence)"},
        outputs={"y": "(sequence, feature)"},
    )
}


def coordinates(sections: list[int], order: str) -> list[int]:
    """Return the coordinate of each pair."""
    if order == "contiguous":
        return [c for c, count in enumerate(sections) for _ in range(count)]
    m = len(sections)
    return [i % m if i // m < sections[i % m] else 0 for i in range(sum(sections))]


def frequencies(own: list[int], sections: list[int], base: float, kind: str) -> list[Any]:
    """Return the frequency of each pair."""
    if kind == "shared":
        return [frequency(i, 2 * len(own), base) for i in range(len(own))]
    return [frequency(own[:i].count(c), 2 * sections[c], base) for i, c in enumerate(own)]


# Two texts, an image of 2 by 3 patches, and a text after it, as in Qwen2-VL.
IMAGE = [
    [0, 1, 2, 2, 2, 2, 2, 2, 5],
    [0, 1, 2, 2, 2, 3, 3, 3, 5],
    [0, 1, 2, 3, 4, 2, 3, 4, 5],
]
GRID = [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
FAR = [[4096, 131071, 1048575], [7, 65536, 2**31 - 1]]


def group() -> Group:
    """Return the vectors."""
    made = Group("sections", "Rotary embedding of several coordinates", FUNCTIONS)
    seed = 0
    for slug, comment, flags, positions, sections, kinds in (
        ("mrope", "Time, height and width of tokens.", "", IMAGE, [2, 3, 3], ["shared"]),
        ("mrope-equal", "As many pairs of each.", "", IMAGE, [2, 2, 2], ["shared"]),
        ("axial", "Rows and columns.", "", GRID, [3, 3], ["shared", "restart"]),
        ("axial-unequal", "More pairs of rows.", "", GRID, [4, 2], ["shared", "restart"]),
        ("volume", "Three coordinates.", "", IMAGE, [3, 2, 1], ["restart"]),
        ("far", "Far coordinates.", "FarPosition BeyondFloat32Integers", FAR, [2, 2], ["shared"]),
    ):
        for order in ("contiguous", "interleaved"):
            # In the order 'interleaved' the first coordinate has what the others leave.
            if order == "interleaved" and sections == [2, 3, 3]:
                sections = [4, 2, 2]  # noqa: PLW2901 - as in Qwen3-VL
            for kind in kinds:
                for layout in ("half", "interleaved"):
                    seed += 1
                    own = coordinates(sections, order)
                    theta = frequencies(own, sections, 10000, kind)
                    x = drawn(seed, len(positions[0]), 2 * len(own))
                    y = [
                        turned(
                            row,
                            [positions[c][t] * f for c, f in zip(own, theta, strict=True)],
                            layout,
                        )
                        for t, row in enumerate(x)
                    ]
                    extra = " AxialCoordinates" * (kind == "restart")
                    extra += " InterleavedSections" * (order == "interleaved")
                    made.add(
                        f"{layout}-{slug}-{order}-{kind}",
                        comment,
                        flags + extra,
                        function="rotate_sections",
                        parameters={
                            "layout": layout,
                            "base": 10000,
                            "sections": sections,
                            "frequencies": kind,
                            "order": order,
                        },
                        inputs={"x": reals(x), "positions": integers(positions)},
                        expected={"y": within(y, largest(x), **ULPS)},
                    )
    return made
