"""Sinusoidal encodings in the arrangements of models."""

from typing import Any

from mpmath import cos, cospi, mpf, sin, sinpi

from exact import Group, frequency, function, integers, reals, within

FUNCTIONS = {
    "sinusoid": function(
        "The angle of frequency i at position p is t = (p + start) * f_i * s. Without `endpoint` "
        "there are ceil(dim / 2) frequencies f_i = base^(-2 i / dim); with it dim // 2 of them, "
        "f_i = base^(-i / (dim // 2 - 1)), or 1 if there is one. The factor s is 2 pi with "
        "`full_turns`, 2 pi / length with a `length`, else 1. Features are amplitude * sin t and "
        "amplitude * cos t. In the arrangement 'interleaved' the sine and the cosine of a "
        "frequency follow each other; in 'concatenated' all cosines follow all sines. With "
        "`cos_first` sines and cosines change places. An odd `dim` leaves out the last feature, "
        "or with `endpoint` has a 0 after the last one.",
        "Vaswani et al. (2017), section 3.5; Vaswani et al. (2018), Tensor2Tensor; Radford et al. "
        "(2023), Whisper, section 2.2; Carion et al. (2020), DETR, appendix A.4",
        parameters={
            "dim": "number of features",
            "base": "base of the frequencies",
            "arrangement": "'interleaved' or 'concatenated'",
            "endpoint": "whether the last frequency is 1 / base",
            "cos_first": "whether cosines come before sines",
            "full_turns": "whether frequencies are in cycles",
            "amplitude": "factor on sines and cosines",
            "start": "added to every position",
            "length": "wavelength at frequency 1, or null",
        },
        inputs={"positions": "(position,), integer or real"},
        outputs={"encoding": "(position, feature)"},
    )
}
DEFAULTS: dict[str, Any] = {
    "dim": 8,
    "base": 10000,
    "arrangement": "interleaved",
    "endpoint": False,
    "cos_first": False,
    "full_turns": False,
    "amplitude": 1,
    "start": 0,
    "length": None,
}


def encoded(position: Any, o: dict[str, Any]) -> list[Any]:
    """Return the features of a position."""
    dim, base = o["dim"], o["base"]
    if o["endpoint"]:
        count = dim // 2
        theta = [mpf(base) ** (-mpf(i) / max(count - 1, 1)) for i in range(count)]
    else:
        theta = [frequency(i, dim, base) for i in range((dim + 1) // 2)]
    places = [(mpf(position) + o["start"]) * f for f in theta]
    waves = sin, cos
    if o["full_turns"] or o["length"]:
        # In half turns, so that quarters are exact.
        places = [2 * place / (o["length"] or 1) for place in places]
        waves = sinpi, cospi
    first, second = ([o["amplitude"] * wave(place) for place in places] for wave in waves)
    if o["cos_first"]:
        first, second = second, first
    if o["arrangement"] == "concatenated":
        features = first + second
    else:
        features = [value for pair in zip(first, second, strict=True) for value in pair]
    return [*features, mpf(0)][:dim] if o["endpoint"] else features[:dim]


NEAR = [0, 1, 2, 3, 10, 100, 1000]
# slug, comment, flags, positions, options
CASES: list[tuple[str, str, str, list[Any], dict[str, Any]]] = [
    ("vaswani", "Sine and cosine of each frequency side by side.", "", NEAR, {}),
    ("vaswani-64", "More features.", "", NEAR, {"dim": 64}),
    ("marian", "All sines, then all cosines.", "", NEAR, {"arrangement": "concatenated"}),
    (
        "tensor2tensor",
        "All sines, then all cosines; the last frequency is 1 / base. Also of Whisper.",
        "OtherFrequencies",
        NEAR,
        {"arrangement": "concatenated", "endpoint": True},
    ),
    (
        "whisper-odd",
        "An odd number of features ends with a zero.",
        "OtherFrequencies OddFeatures",
        NEAR,
        {"arrangement": "concatenated", "endpoint": True, "dim": 9},
    ),
    ("odd", "The last cosine is left out.", "OddFeatures", NEAR, {"dim": 7}),
    (
        "odd-concatenated",
        "The last cosine is left out.",
        "OddFeatures",
        NEAR,
        {"dim": 7, "arrangement": "concatenated"},
    ),
    ("one-feature", "A sine alone.", "OddFeatures", NEAR, {"dim": 1}),
    (
        "cosine-first",
        "All cosines, then all sines, as in diffusion models.",
        "CosineFirst",
        NEAR,
        {"arrangement": "concatenated", "cos_first": True},
    ),
    ("cosine-first-interleaved", "Cosine, sine.", "CosineFirst", NEAR, {"cos_first": True}),
    (
        "mlx",
        "An amplitude for which encodings have the length 1.",
        "OtherFrequencies",
        NEAR,
        {"arrangement": "concatenated", "endpoint": True, "amplitude": 0.5, "dim": 8},
    ),
    (
        "detr",
        "Positions from 1, the last of 16 being a whole turn.",
        "FullTurns",
        [0, 1, 2, 7, 15],
        {"start": 1, "length": 16},
    ),
    (
        "full-turns",
        "Angles times 2 pi.",
        "FullTurns RealPosition",
        [0.0, 0.125, 0.5, 0.75, 3.25],
        {"full_turns": True},
    ),
    ("base-100", "Another base.", "", NEAR, {"base": 100}),
    (
        "real",
        "Times in diffusion models are real.",
        "RealPosition NegativePosition",
        [0.5, 999.25, -3.75, 0.0625],
        {},
    ),
    (
        "far",
        "Far positions.",
        "FarPosition BeyondFloat32Integers",
        [4096, 65535, 1048575, 2**24 + 1, 2**31 - 1],
        {"dim": 16},
    ),
    (
        "far-concatenated",
        "Far positions, frequencies that end at 1 / base.",
        "FarPosition OtherFrequencies",
        [4096, 65535, 1048575, 10**7],
        {"dim": 16, "arrangement": "concatenated", "endpoint": True},
    ),
    ("negative", "Positions before 0.", "NegativePosition", [-1, -5, -1000], {}),
]


def group() -> Group:
    """Return the vectors."""
    made = Group("sinusoids", "Sinusoidal encodings of positions", FUNCTIONS)
    for slug, comment, flags, positions, options in CASES:
        own = DEFAULTS | options
        array = reals if any(isinstance(p, float) for p in positions) else integers
        encoding = [encoded(p, own) for p in positions]
        made.add(
            slug,
            comment,
            flags,
            function="sinusoid",
            parameters=own,
            inputs={"positions": array(positions)},
            expected={"encoding": within(encoding, own["amplitude"], float64=2, float32=1)},
        )
    return made
