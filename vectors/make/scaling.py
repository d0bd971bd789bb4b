"""Frequencies of longer contexts, their attention factors, and scores with them."""

from typing import Any

from mpmath import ceil, floor, log, mpf, pi, sqrt

from exact import Group, drawn, frequency, function, integers, largest, reals, within
from rotation import turned

METHODS = {
    "linear": "theta_i / factor; attention factor 1.",
    "ntk": "theta_i of the base `base * factor^(dim / (dim - 2))`; attention factor 1.",
    "dynamic_ntk": (
        "as 'ntk' with the factor `factor * n - (factor - 1)`, n = max(seq_len, "
        "original_max_position) / original_max_position; attention factor 1."
    ),
    "yarn": (
        "theta_i * (1 - r_i) + theta_i / factor * r_i, r_i = (i - low) / (high - low) held between "
        "0 and 1; low and high are c(beta_fast) and c(beta_slow), c(b) = dim * ln("
        "original_max_position / (2 pi b)) / (2 ln base); with `truncate` low is rounded down and "
        "high up; then low is at least 0 and high at most dim - 1, and high grows by 0.001 if both "
        "are equal. The attention factor is `attention_factor` if given; else m(mscale) / "
        "m(mscale_all_dim) if both are given and not 0; else m(1); with m(s) = 0.1 * s * ln "
        "factor + 1, or 1 if factor is at most 1."
    ),
    "llama3": (
        "theta_i * s_i + theta_i / factor * (1 - s_i), s_i = (c_i - low_freq_factor) / ("
        "high_freq_factor - low_freq_factor) held between 0 and 1, c_i = original_max_position * "
        "theta_i / (2 pi) being the number of cycles; attention factor 1."
    ),
    "longrope": (
        "theta_i / long_factor[i] if seq_len > original_max_position, else theta_i / "
        "short_factor[i]. The attention factor is `attention_factor` if given, else sqrt(1 + ln f "
        "/ ln original_max_position), or 1 if f is at most 1, f being `factor` if given, else "
        "seq_len / original_max_position."
    ),
    "proportional": (
        "theta_i / factor for the first floor(partial_rotary_factor * dim / 2) frequencies, 0 for "
        "the others; attention factor 1."
    ),
}
PARAMETERS = {
    "method": "one of the names above",
    "dim": "number of rotated features",
    "base": "base of the frequencies",
    "seq_len": "length of the sequence",
    "options": "the parameters of the method; those that are left out are null",
}
WORDS = "With theta_i = base^(-2 i / dim), frequency i is, by method: " + " ".join(
    f"'{name}': {text}" for name, text in METHODS.items()
)
SOURCE = (
    "linear: Chen et al. (2023), equation 3; ntk, dynamic_ntk, yarn: Peng et al. (2024), YaRN, "
    "sections 3.1 to 3.3 and equation 22; llama3: the published code of Llama 3.1; longrope: Ding "
    "et al. (2024), section 3, Abdin et al. (2024), Phi-3, section 2; proportional: transformers"
)
FUNCTIONS = {
    "scaled_frequencies": function(
        WORDS,
        SOURCE,
        parameters=PARAMETERS,
        inputs={},
        outputs={"frequencies": "(dim / 2,)", "attention_factor": "one number"},
    ),
    "scaled_score": function(
        "The scalar product of a query and a key, after each pair (i, i + dim / 2) of each was "
        "rotated by its position times frequency i of `scaled_frequencies`, and multiplied by the "
        "attention factor: the factor is in the product twice.",
        SOURCE,
        parameters=PARAMETERS,
        inputs={
            "q": "(feature,)",
            "k": "(feature,)",
            "positions": "(2,): those of the query and of the key",
        },
        outputs={"score": "one number"},
    ),
}


def scaled(method: str, dim: int, base: Any, seq_len: int, options: dict[str, Any]) -> Any:
    """Return frequencies and attention factor."""
    o = {
        key: mpf(v) if isinstance(v, int | float) and not isinstance(v, bool) else v
        for key, v in options.items()
    }
    theta = [frequency(i, dim, base) for i in range(dim // 2)]
    one = mpf(1)
    if method == "linear":
        return [t / o["factor"] for t in theta], one
    if method in ("ntk", "dynamic_ntk"):
        factor = o["factor"]
        if method == "dynamic_ntk":
            original = o["original_max_position"]
            factor = factor * max(mpf(seq_len), original) / original - (factor - 1)
        larger = base * factor ** (mpf(dim) / (dim - 2))
        return [frequency(i, dim, larger) for i in range(dim // 2)], one
    if method == "yarn":
        return yarn(theta, dim, base, o)
    if method == "llama3":
        low, high = o["low_freq_factor"], o["high_freq_factor"]
        found = []
        for t in theta:
            cycles = o["original_max_position"] * t / (2 * pi)
            s = min(max((cycles - low) / (high - low), 0), 1)
            found.append(t * s + t / o["factor"] * (1 - s))
        return found, one
    if method == "longrope":
        original = o["original_max_position"]
        name = "long_factor" if seq_len > original else "short_factor"
        f = o.get("factor") or seq_len / original
        factor = sqrt(1 + log(f) / log(original)) if f > 1 else one
        found = [t / mpf(d) for t, d in zip(theta, o[name], strict=True)]
        return found, o.get("attention_factor") or factor
    count = int(options["partial_rotary_factor"] * dim // 2)
    found = [t / o.get("factor", one) for t in theta]
    return [t if i < count else mpf(0) for i, t in enumerate(found)], one


def yarn(theta: list[Any], dim: int, base: Any, o: dict[str, Any]) -> Any:
    """Return frequencies and attention factor of YaRN."""

    def index(cycles: Any) -> Any:
        return dim * log(o["original_max_position"] / (2 * pi * cycles)) / (2 * log(mpf(base)))

    def magnitude(mscale: Any) -> Any:
        return mpf(mscale) * log(o["factor"]) / 10 + 1 if o["factor"] > 1 else mpf(1)

    low, high = index(o.get("beta_fast", mpf(32))), index(o.get("beta_slow", mpf(1)))
    if o.get("truncate", True):
        low, high = floor(low), ceil(high)
    low, high = max(low, mpf(0)), min(high, mpf(dim - 1))
    if low == high:
        high += mpf("0.001")
    found = []
    for i, t in enumerate(theta):
        r = min(max((i - low) / (high - low), 0), 1)
        found.append(t * (1 - r) + t / o["factor"] * r)
    if o.get("attention_factor") is not None:
        return found, o["attention_factor"]
    if o.get("mscale") and o.get("mscale_all_dim"):
        return found, magnitude(o["mscale"]) / magnitude(o["mscale_all_dim"])
    return found, magnitude(1)


def divisors(count: int, most: int) -> list[float]:
    """Return divisors that grow, of three binary digits."""
    return [round(8 * (1 + (most - 1) * i / (count - 1))) / 8 for i in range(count)]


# slug, comment, flags, method, dim, base, seq_len, options
CASES: list[tuple[str, str, str, str, int, float, int, dict[str, Any]]] = [
    ("linear-4", "Position interpolation.", "", "linear", 16, 10000, 8192, {"factor": 4}),
    ("linear-2.5", "A factor that is no integer.", "", "linear", 16, 500000, 5120, {"factor": 2.5}),
    ("ntk-4", "A larger base.", "", "ntk", 16, 10000, 8192, {"factor": 4}),
    ("ntk-8-head-64", "A larger base.", "", "ntk", 64, 10000, 16384, {"factor": 8}),
    (
        "dynamic-short",
        "A sequence as long as in training.",
        "Unscaled",
        "dynamic_ntk",
        16,
        10000,
        2048,
        {"factor": 2, "original_max_position": 2048},
    ),
    (
        "dynamic-long",
        "A sequence four times as long.",
        "",
        "dynamic_ntk",
        16,
        10000,
        8192,
        {"factor": 2, "original_max_position": 2048},
    ),
    (
        "dynamic-a-little",
        "A sequence one position too long.",
        "",
        "dynamic_ntk",
        16,
        10000,
        2049,
        {"factor": 4, "original_max_position": 2048},
    ),
    (
        "yarn",
        "Both ends and the ramp between; the factor follows from the scale.",
        "ScoreFactor",
        "yarn",
        64,
        10000,
        16384,
        {"factor": 4, "original_max_position": 4096},
    ),
    (
        "yarn-qwen",
        "The configuration of Qwen 2.5.",
        "ScoreFactor",
        "yarn",
        128,
        1000000,
        131072,
        {"factor": 4, "original_max_position": 32768},
    ),
    (
        "yarn-not-truncated",
        "Ends of the ramp between indices, as in gpt-oss.",
        "ScoreFactor",
        "yarn",
        64,
        150000,
        131072,
        {"factor": 32, "original_max_position": 4096, "truncate": False},
    ),
    (
        "yarn-betas",
        "Other numbers of cycles.",
        "ScoreFactor",
        "yarn",
        32,
        10000,
        8192,
        {"factor": 2, "original_max_position": 4096, "beta_fast": 16, "beta_slow": 2},
    ),
    (
        "yarn-factor",
        "A factor that is given.",
        "ScoreFactor",
        "yarn",
        32,
        10000,
        8192,
        {"factor": 8, "original_max_position": 1024, "attention_factor": 1.25},
    ),
    (
        "yarn-mscale",
        "Two magnitudes that differ, as in DeepSeek V2.",
        "ScoreFactor",
        "yarn",
        64,
        10000,
        163840,
        {"factor": 40, "original_max_position": 4096, "mscale": 1, "mscale_all_dim": 0.5},
    ),
    (
        "yarn-mscale-equal",
        "Two equal magnitudes: the factor is 1, as in DeepSeek V3.",
        "",
        "yarn",
        64,
        10000,
        163840,
        {"factor": 40, "original_max_position": 4096, "mscale": 1, "mscale_all_dim": 1},
    ),
    (
        "yarn-all-fast",
        "Low is held at 0 where the context in training is short.",
        "ScoreFactor",
        "yarn",
        16,
        10000,
        1024,
        {"factor": 4, "original_max_position": 128},
    ),
    (
        "llama3",
        "The configuration of Llama 3.1.",
        "",
        "llama3",
        128,
        500000,
        131072,
        {
            "factor": 8,
            "low_freq_factor": 1,
            "high_freq_factor": 4,
            "original_max_position": 8192,
        },
    ),
    (
        "llama3-32",
        "The configuration of Llama 3.2.",
        "",
        "llama3",
        64,
        500000,
        131072,
        {
            "factor": 32,
            "low_freq_factor": 1,
            "high_freq_factor": 4,
            "original_max_position": 8192,
        },
    ),
    (
        "longrope-short",
        "A sequence as long as in training takes the short divisors.",
        "ScoreFactor",
        "longrope",
        16,
        10000,
        4096,
        {
            "short_factor": divisors(8, 2),
            "long_factor": divisors(8, 32),
            "original_max_position": 4096,
            "factor": 32,
        },
    ),
    (
        "longrope-long",
        "A sequence one position longer takes the long divisors.",
        "ScoreFactor",
        "longrope",
        16,
        10000,
        4097,
        {
            "short_factor": divisors(8, 2),
            "long_factor": divisors(8, 32),
            "original_max_position": 4096,
            "factor": 32,
        },
    ),
    (
        "longrope-ratio",
        "Without a factor the lengths give it.",
        "ScoreFactor",
        "longrope",
        16,
        10000,
        131072,
        {
            "short_factor": divisors(8, 2),
            "long_factor": divisors(8, 32),
            "original_max_position": 4096,
        },
    ),
    (
        "longrope-factor",
        "A factor that is given.",
        "ScoreFactor",
        "longrope",
        16,
        10000,
        8192,
        {
            "short_factor": divisors(8, 2),
            "long_factor": divisors(8, 32),
            "original_max_position": 4096,
            "attention_factor": 1.25,
        },
    ),
    (
        "proportional",
        "Half of the frequencies.",
        "Proportional",
        "proportional",
        16,
        10000,
        4096,
        {"partial_rotary_factor": 0.5},
    ),
    (
        "proportional-quarter",
        "A quarter of them, divided by 8.",
        "Proportional",
        "proportional",
        32,
        1000000,
        131072,
        {"partial_rotary_factor": 0.25, "factor": 8},
    ),
]


def group() -> Group:
    """Return the vectors."""
    made = Group("scaling", "Scaling of rotary frequencies for longer contexts", FUNCTIONS)
    for slug, comment, flags, method, dim, base, seq_len, options in CASES:
        found, factor = scaled(method, dim, base, seq_len, options)
        # Two powers in the dtype itself. The share of a frequency that is kept, next to 0, errs by
        # a unit of 1, and what it is added to is divided by the factor.
        ulps = 16 + int(options["factor"] if method in ("yarn", "llama3") else 0)
        made.add(
            slug,
            comment,
            flags,
            function="scaled_frequencies",
            parameters={
                "method": method,
                "dim": dim,
                "base": base,
                "seq_len": seq_len,
                "options": options,
            },
            inputs={},
            expected={
                "frequencies": within(found, float64=ulps, float32=ulps),
                "attention_factor": within(factor, float64=4, float32=4),
            },
        )
    for number, (slug, comment, flags, method, dim, base, seq_len, options) in enumerate(CASES):
        if dim > 64:
            continue
        found, factor = scaled(method, dim, base, seq_len, options)
        q, k, positions = drawn(number, dim), drawn(100 + number, dim), [21, 4]
        a, b = (
            turned(x, [p * f for f in found], "half")
            for x, p in zip((q, k), positions, strict=True)
        )
        score = factor**2 * sum(x * y for x, y in zip(a, b, strict=True))
        scale = factor**2 * sum(abs(x * y) for x, y in zip(a, b, strict=True))
        made.add(
            f"score-{slug}",
            comment,
            flags,
            function="scaled_score",
            parameters={
                "method": method,
                "dim": dim,
                "base": base,
                "seq_len": seq_len,
                "options": options,
            },
            inputs={"q": reals(q), "k": reals(k), "positions": integers(positions)},
            # An angle up to 21 inherits the error of its frequency.
            expected={"score": within(score, largest(scale), float64=64, float32=64)},
        )
    return made
