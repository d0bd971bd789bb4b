"""Every line of the tables of docs/coming_from/ that name systems is run, beside plain loops."""

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import oracles

FOLDER = Path(__file__).parents[1] / "docs/coming_from"
TEXT = (FOLDER / "systems.md").read_text(encoding="utf-8")
JULIA = (FOLDER / "julia.md").read_text(encoding="utf-8")
TITLES = {
    "lean": "A Lean specification of positional encodings",
    "tutorial": "A PyTorch tutorial: sinusoidal, learned, rotary, relative",
    "attnax": "attnax (JAX)",
    "julia": "PositionalEmbeddings.jl, name by name",
    "module": "A PyTorch module: PositionalEncoding and LearnedPositionalEncoding",
    "before": "Version 0.2 of this library",
}
NAMED = {  # what the documents name, and the tables must have
    "lean": "pos add_positional_encoding_spec rotatePairs rope_apply_spec startPos θ",
    "tutorial": (
        "create_sinusoidal_encodings LearnedPositionalEncoding rotate_half apply_rotary_pos_emb "
        "RotaryPositionalEncoding RelativePositionalEncoding relative_position inv_freq cos sin "
        "ALiBi"
    ),
    "attnax": (
        "TokenEmbedding PositionalEncoding RotaryEmbedding cos_sin_for_positions apply_rope "
        "rope_cos_sin_table rope_cos_sin_from_positions rope_inv_freq PatchEmbedding "
        "LearnedPositionalEmbedding"
    ),
    "julia": (
        "AbsolutePE RoPE compute_frequencies create_causal_mask create_padding_mask neg_half "
        "RoPEMultiHeadAttention kaiming_normal split_heads join_heads apply_mask embeddings "
        "batched_mul batched_transpose softmax Functors"
    ),
    "module": "PositionalEncoding LearnedPositionalEncoding pe embeddings padding_idx Dropout",
    "before": (
        "create_prefix_mask create_segment_mask create_sliding_window_mask create_chunked_mask "
        "create_dilated_mask kerple_bias fire_bias sandwich_bias lengths_from_cumulative "
        "lengths_from_segment_ids to_keras to_bias"
    ),
}


# The page: sections, each with a set-up block and a table.


def sections():
    found = {}
    *_, table = re.split(r"^## ", JULIA, flags=re.MULTILINE)
    for part in [*re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:], table]:
        title, body = part.split("\n", 1)
        found[title] = body
    return {system: found.get(title, "") for system, title in TITLES.items()}, set(found)


def rows(body):
    table = re.search(
        r"^\| there \| here \| notes \|\n\| --- \| --- \| --- \|\n((?:\|.*\n?)+)",
        body,
        re.MULTILINE,
    )
    for line in table[1].splitlines() if table else ():
        there, here, _ = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        yield there.replace("`", "").replace("\\|", "|"), here


SECTIONS, FOUND_TITLES = sections()
LINES = [(system, *row) for system, body in SECTIONS.items() for row in rows(body)]
CHECKS = {}


def readable(text):
    return re.sub(r"[^\w.]+", "-", text.replace("θ", "theta")).strip("-")


def check(system, there):
    """Register the oracle of a line: from its inputs, what must come, or what tells of it."""

    def register(function):
        assert (system, there) not in CHECKS
        CHECKS[system, there] = function
        return function

    return register


class Inputs:
    """The names that a set-up block defined."""

    def __init__(self, names):
        self.__dict__.update(names)


def set_up(system):
    (code,) = re.findall(r"^```python\n(.*?)^```", SECTIONS[system], re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(code, f"set-up of {system}", "exec"), names)  # noqa: S102 - its own page
    return names


def same(value, expected, *, rtol=1e-12, atol=1e-12):
    if isinstance(expected, tuple):
        assert isinstance(value, tuple)
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            same(one, other, rtol=rtol, atol=atol)
        return
    expected = np.asarray(expected)
    assert np.shape(value) == expected.shape  # no broadcasting
    assert np.asarray(value).dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("system", "there", "here"),
    LINES,
    ids=[f"{system}-{readable(there)}" for system, there, _ in LINES],
)
def test_line_of_another_library(system, there, here):
    assert (system, there) in CHECKS, "this line of the page has no check"
    code = re.fullmatch(r"`([^`]+)`", here)
    assert code, f"not one line of code: {here}"
    value = eval(code[1], set_up(system))
    expected = CHECKS[system, there](Inputs(set_up(system)))
    if callable(expected):
        expected(value)
    else:
        assert expected is not None, "the check returns nothing to compare with"
        same(value, expected)


def test_page_has_all_systems_and_nothing_else():
    assert set(TITLES.values()) == FOUND_TITLES


@pytest.mark.parametrize("system", TITLES)
def test_section_has_a_text_a_block_and_a_table(system):
    body = SECTIONS[system]
    assert body.count("```python\n") == 1
    assert len(re.findall(r"^\| there \|", body, re.MULTILINE)) == 1
    assert len(list(rows(body))) == len(re.findall(r"^\| (?!there|---)", body, re.MULTILINE)) > 5
    assert len(body.split("```")[0].split()) > 15


def test_every_check_has_its_line():
    lines = [(system, there) for system, there, _ in LINES]
    assert len(set(lines)) == len(lines)
    assert set(lines) == set(CHECKS)


@pytest.mark.parametrize(
    ("system", "name"), [(system, name) for system in NAMED for name in NAMED[system].split()]
)
def test_name_is_in_the_table(system, name):
    there = [there for of, there, _ in LINES if of == system]
    assert any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for text in there)


def test_links_of_the_page_lead_somewhere():
    titles = FOUND_TITLES - {TITLES["julia"]}
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) == anchors


# Plain formulas, next to those of oracles.py.


def angles(dim, positions, base=10_000.0, scale=1.0):
    """Return (positions, dim / 2)."""
    frequencies = range((dim + 1) // 2)
    return np.asarray(
        [[scale * oracles.angle(p, i, dim, base) for i in frequencies] for p in positions]
    )


def sinusoids(positions, dim):
    """Return (positions, dim)."""
    return np.asarray([oracles.sinusoid(p, dim) for p in positions])


def rotated_halves(x, positions, *, inverse=False):
    """Rotate (..., dim); positions are of the shape x.shape[:-1]."""
    out = np.empty(x.shape)
    half = x.shape[-1] // 2
    for place in product(*map(range, x.shape[:-1])):
        for i in range(half):
            theta = oracles.angle(float(positions[place]), i, 2 * half) * (-1 if inverse else 1)
            pair = complex(x[(*place, i)], x[(*place, i + half)]) * complex(
                math.cos(theta), math.sin(theta)
            )
            out[(*place, i)], out[(*place, i + half)] = pair.real, pair.imag
    return out


def rotated_pairs(x, start):
    """Rotate neighbours of (..., seq, dim), the first position at `start`."""
    out = np.empty(x.shape)
    for place in product(*map(range, x.shape[:-1])):
        for i in range(x.shape[-1] // 2):
            theta = oracles.angle(start + place[-1], i, x.shape[-1])
            pair = complex(*x[(*place, slice(2 * i, 2 * i + 2))]) * complex(
                math.cos(theta), math.sin(theta)
            )
            out[(*place, 2 * i)], out[(*place, 2 * i + 1)] = pair.real, pair.imag
    return out


def pairs_rotated_by_90_degrees(x):
    out = x.copy()
    for i in range(x.shape[-1] // 2):
        out[..., 2 * i], out[..., 2 * i + 1] = -x[..., 2 * i + 1], x[..., 2 * i]
    return out


def dropped(x, rate, seed):
    drawn = np.random.default_rng(seed).random(x.shape)
    kept = [
        value / (1 - rate) if draw >= rate else 0.0
        for value, draw in zip(x.flat, drawn.flat, strict=True)
    ]
    assert 0 < kept.count(0.0) < x.size
    return np.asarray(kept).reshape(x.shape)


def drawn_from(shape, spread, within_one):
    """Return what tells of normal numbers: their spread, and the share within one `sigma`."""

    def tell(value):
        sigma, bound = spread
        assert value.shape == shape
        assert np.abs(value).max() <= bound
        assert abs(value.mean()) < 5 * sigma / math.sqrt(value.size)
        share = float(np.mean(np.abs(value) < sigma))
        assert abs(share - within_one) < 5 * math.sqrt(within_one / value.size)
        assert len(np.unique(value)) > 0.9 * value.size

    return tell


def hidden_after(length, least):
    """Return the mask (query, key, 1) that hides keys `least` or more after the query."""
    return np.asarray(
        [[[key - query >= least] for key in range(length)] for query in range(length)]
    )


# A Lean specification.


@check("lean", "the learnable parameters, a structure with the field pos")
def sum_with_learned_positions(of):
    return of.x + of.pos


@check("lean", "add_positional_encoding_spec")
def sum_row_by_row(of):
    return np.asarray(
        [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(of.x, of.pos, strict=True)]
    )


@check("lean", "the gradient (VJP) of add_positional_encoding_spec")
def gradients_of_the_sum(of):
    return of.grad, of.grad.T


@check("lean", "θ(pos, i; embedDim)")
def one_angle(_of):
    return 3 * 10_000 ** (-2 / 6)


@check("lean", "the sinusoidal tensor (seqLen, embedDim) from startPos on")
def sinusoids_from_a_start(_of):
    return sinusoids([5, 6, 7, 8], 6)


@check("lean", "the sinusoidal tensor for odd embedDim")
def sinusoids_of_odd_size(_of):
    return sinusoids([0, 1, 2, 3], 5)


@check("lean", "the sum of an input and the sinusoidal tensor")
def sum_with_sinusoids_from_a_start(of):
    return of.x + sinusoids([5, 6, 7, 8], 6)


@check("lean", "rotatePairs")
def neighbours_rotated_by_90_degrees(of):
    return pairs_rotated_by_90_degrees(of.x)


@check("lean", "rotatePairs for odd headDim")
def neighbours_of_odd_size_rotated_by_90_degrees(of):
    rotated = pairs_rotated_by_90_degrees(of.x[:, :4])
    return np.asarray([[*row, last] for row, last in zip(rotated, of.x[:, 4], strict=True)])


@check("lean", "the cosines of one position, for all of headDim")
def cosines_of_one_position(_of):
    return np.asarray([math.cos(oracles.angle(3, j // 2, 6)) for j in range(6)])


@check("lean", "the sines of one position, for all of headDim")
def sines_of_one_position(_of):
    return np.asarray([math.sin(oracles.angle(3, j // 2, 6)) for j in range(6)])


@check("lean", "rope_apply_spec")
def rotated_neighbours_from_a_start(of):
    return rotated_pairs(of.x, 5)


@check("lean", "the identity behind rope_apply_spec")
@check("lean", "the same with tables of one's own")
def rotated_neighbours(of):
    return rotated_pairs(of.x, 0)


@check("lean", "rope_apply_spec for each of several heads")
def rotated_neighbours_of_each_head(of):
    return np.asarray([rotated_pairs(head, 5) for head in of.heads])


# A PyTorch tutorial.


@check("tutorial", "create_sinusoidal_encodings(4, 6)")
def table_of_sinusoids(_of):
    return sinusoids(range(4), 6)


@check("tutorial", "sequence + positional_encodings")
def sequence_with_sinusoids(of):
    return of.sequence + sinusoids(range(4), 6)


@check("tutorial", "LearnedPositionalEncoding(10, 6)")
def sequence_with_learned_positions(of):
    return np.asarray([[v + of.weight[p] for p, v in enumerate(one)] for one in of.sequence])


@check("tutorial", "rotate_half")
def halves_rotated_by_90_degrees(of):
    return np.stack([*(-of.x[..., i] for i in (3, 4, 5)), *(of.x[..., i] for i in (0, 1, 2))], -1)


def placed_on_axis_1(x):
    return np.broadcast_to(np.arange(x.shape[1])[None, :, None], x.shape[:-1])


@check("tutorial", "apply_rotary_pos_emb(x, cos, sin)")
@check("tutorial", "RotaryPositionalEncoding(6)")
def rotated_halves_of_sequence(of):
    return rotated_halves(of.x, placed_on_axis_1(of.x))


@check("tutorial", "the rotation as the tutorial's formula has it")
def rotated_halves_backwards(of):
    return rotated_halves(of.x, placed_on_axis_1(of.x), inverse=True)


@check("tutorial", "inv_freq of RotaryPositionalEncoding")
def inverse_frequencies(_of):
    return angles(6, [1])[0]


@check("tutorial", "cos of RotaryPositionalEncoding")
def cosines_of_512_positions(_of):
    return np.cos(angles(6, range(512)))


@check("tutorial", "sin of RotaryPositionalEncoding")
def sines_of_512_positions(_of):
    return np.sin(angles(6, range(512)))


@check("tutorial", "RelativePositionalEncoding(2, 6)")
def relative_embeddings_of_clipped_distances(of):
    row = lambda query, key: of.relative_attention_bias[2 + max(-2, min(2, key - query))]  # noqa: E731
    return np.asarray([[row(query, key) for key in range(4)] for query in range(4)])


@check("tutorial", "relative_position")
def distances_from_query_to_key(_of):
    return np.asarray([[0, 1, 2, 3], [-1, 0, 1, 2], [-2, -1, 0, 1], [-3, -2, -1, 0]])


@check("tutorial", "the factor of ALiBi for each head")
def alibi_slopes(_of):
    return np.asarray([1 / 2 ** (8 * h / 8) for h in range(1, 9)])


@check("tutorial", "ALiBi, scaled distances added to the scores")
def alibi_bias(_of):
    slopes = [1 / 2**h for h in range(1, 9)]
    return np.asarray([[[m * (j - i) for m in slopes] for j in range(4)] for i in range(4)])


# attnax.


@check("attnax", "TokenEmbedding")
def token_vectors(of):
    return np.asarray([[of.vocabulary[token] for token in row] for row in of.token_ids])


@check("attnax", "PositionalEncoding")
def batch_with_sinusoids(of):
    return of.x + sinusoids(range(4), 6)


@check("attnax", "RotaryEmbedding")
@check("attnax", "apply_rope")
def rotated_halves_at_position_ids(of):
    return rotated_halves(of.x, of.position_ids)


@check("attnax", "RotaryEmbedding.cos_sin_for_positions")
@check("attnax", "rope_cos_sin_from_positions")
def cosines_and_sines_at_position_ids(of):
    theta = np.asarray([angles(6, row) for row in of.position_ids])
    return np.cos(theta), np.sin(theta)


@check("attnax", "rope_cos_sin_table")
def cosines_and_sines_of_100_positions(_of):
    theta = angles(6, range(100))
    return np.cos(theta), np.sin(theta)


@check("attnax", "rope_inv_freq")
def inverse_frequencies_in_float32(_of):
    return np.asarray([10_000 ** (-2 * i / 6) for i in range(3)], dtype=np.float32)


@check("attnax", "PatchEmbedding")
def patch_vectors(of):
    vectors = []
    for image in of.images:
        patches = [image[a : a + 2, b : b + 3] for a in (0, 2) for b in (0, 3)]
        vectors.append([np.einsum("hwc,hwcd->d", patch, of.kernel) + of.bias for patch in patches])
    return np.asarray(vectors)


@check("attnax", "LearnedPositionalEmbedding")
def batch_with_learned_positions(of):
    return np.asarray([[v + of.learned[p] for p, v in enumerate(one)] for one in of.x])


@check("attnax", "LearnedPositionalEmbedding(..., init_std)")
def truncated_normal_numbers(_of):
    within = [math.erf(sigmas / math.sqrt(2)) for sigmas in (1, 2)]
    return drawn_from((64, 1000), (0.5, 2 * 0.5), within[0] / within[1])


# PositionalEmbeddings.jl.


def along_axis_1(x):
    return np.broadcast_to(np.arange(x.shape[1])[:, None], x.shape[1:])


@check("julia", "AbsolutePE(6, 1000)(x)")
def features_first_with_sinusoids(of):
    return of.encoded + np.asarray(sinusoids(range(4), 6))[:, :, None]


@check("julia", "AbsolutePE(6, 1000).embeddings")
def features_first_sinusoids(_of):
    return sinusoids(range(1000), 6).T


@check("julia", "RoPE(6, 1024)")
def features_first_rotated(of):
    return oracles.rotated(of.q, along_axis_1(of.q))


@check("julia", "RoPE(6, 1024; base=500, scale=0.5)")
def features_first_rotated_with_base_and_scale(of):
    return oracles.rotated(of.q, along_axis_1(of.q), base=500, scale=0.5)


@check("julia", "compute_frequencies(6, 4)")
def angles_of_4_positions(_of):
    return angles(6, range(4)).T


@check("julia", "compute_frequencies(6, 4, 500)")
def angles_with_base_500(_of):
    return angles(6, range(4), base=500).T


@check("julia", "create_causal_mask(4)")
def causal_mask_that_masks_the_diagonal(_of):
    return hidden_after(4, 0)


@check("julia", "create_causal_mask(4), as it is described")
def causal_mask(_of):
    return hidden_after(4, 1)


@check("julia", "create_padding_mask([2, 3], 4)")
def padding_mask(_of):
    return np.asarray([[0, 0, 1, 1], [0, 0, 0, 1]], dtype=bool)[:, :, None]


@check("julia", "create_padding_mask([2, 3], 4), to be combined")
def padding_mask_with_query_axis(_of):
    return np.asarray([[[0, 0], [0, 0], [1, 0], [1, 1]]], dtype=bool)


@check("julia", "causal .| padding")
def causal_and_padding_mask(_of):
    lengths = (2, 3)
    hides = [[[j > i or j >= n for n in lengths] for j in range(4)] for i in range(4)]
    return np.asarray(hides)


@check("julia", "neg_half(x)")
def negated_half_of_features(of):
    return np.asarray([-of.q[3], -of.q[4], -of.q[5], of.q[0], of.q[1], of.q[2]])


@check("julia", "neg_half(x, 2)")
def negated_half_of_axis_1(of):
    return np.stack([-of.q[:, 2], -of.q[:, 3], of.q[:, 0], of.q[:, 1]], 1)


@check("julia", "RoPEMultiHeadAttention(12, 2)")
def multi_head_attention(of):
    return oracles.multi_head(of.x, of.mha, None)


@check("julia", "RoPEMultiHeadAttention(12, 2) with a causal mask")
def causal_multi_head_attention(of):
    """Return the outputs of the documented code: scores (key, query), True keeps."""
    original = hidden_after(4, 0)[:, :, 0]
    ours = ~original.T
    return oracles.multi_head(of.x, of.mha, ours[:, :, None, None])


@check("julia", "kaiming_normal")
def kaiming_normal_numbers(_of):
    return drawn_from((128, 128), (math.sqrt(2 / 128), math.inf), math.erf(1 / math.sqrt(2)))


@check("julia", "Functors.@functor")
def multi_head_attention_with_mapped_weights(of):
    return 2 * oracles.multi_head(of.x, of.mha, None)


@check("julia", "split_heads")
def split_heads(of):
    out = np.empty((6, 4, 6))
    for f, s, h, b in product(range(6), range(4), range(2), range(3)):
        out[f, s, h * 3 + b] = of.x[h * 6 + f, s, b]
    return out


@check("julia", "join_heads")
def merged_heads(of):
    out = np.empty((12, 4, 3))
    for f, s, h, b in product(range(6), range(4), range(2), range(3)):
        out[h * 6 + f, s, b] = of.merged[f, s, h * 3 + b]
    return out


def hidden_where(mask, logits):
    out = np.full(logits.shape, -math.inf)
    for i, j, b in product(*map(range, logits.shape)):
        if not mask[i, j, 0]:
            out[i, j, b] = logits[i, j, b]
    return out


@check("julia", "apply_mask")
def logits_masked_where_false(of):
    return hidden_where(~hidden_after(4, 0), of.logits)


@check("julia", "apply_mask, with True for what is hidden")
def logits_masked_where_true(of):
    return hidden_where(hidden_after(4, 1), of.logits)


@check("julia", "NNlib.batched_mul, NNlib.batched_transpose and softmax in its attention")
def attention_outputs(of):
    return oracles.attention(of.q, of.k, of.v)[0]


# A PyTorch module.


@check("module", "PositionalEncoding(6).eval()")
def evaluated_with_sinusoids(of):
    return of.x + sinusoids(range(4), 6)


@check("module", "PositionalEncoding(6) while training")
def dropped_sum_with_sinusoids(of):
    return dropped(of.x + sinusoids(range(4), 6), 0.1, seed=1)


@check("module", "PositionalEncoding(6).pe")
def batch_of_5000_sinusoids(_of):
    return sinusoids(range(5000), 6)[None]


@check("module", "LearnedPositionalEncoding(6).eval()")
def evaluated_with_learned_positions(of):
    return of.x + of.weight[:4]


@check("module", "LearnedPositionalEncoding(6) while training")
def dropped_sum_with_learned_positions(of):
    return dropped(of.x + of.weight[:4], 0.1, seed=1)


@check("module", "LearnedPositionalEncoding(6).embeddings")
def learned_table(of):
    return of.weight


@check("module", "LearnedPositionalEncoding(6, padding_idx=1)")
def learned_positions_but_for_padding_idx(of):
    return np.stack([of.x[:, p] + (0 if p == 1 else of.weight[p]) for p in range(4)], 1)


@check("module", "nn.Dropout(p=0.1)")
def dropped_inputs(of):
    return dropped(of.x, 0.1, seed=1)


# Version 0.2 of this library.


def hidden_unless(sees, queries, keys):
    """Return the mask (query, key, 1) of a rule on positions."""
    return np.asarray([[[not sees(query, key)] for key in keys] for query in queries])


def by_pairs(of_pair, queries, keys):
    """Return the bias (query, key, heads) of a rule on positions."""
    return np.asarray(
        [[[of_pair(query, key, h) for h in range(3)] for key in keys] for query in queries]
    )


@check("before", "create_prefix_mask(3, 2)")
def causal_but_for_a_prefix(_of):
    return hidden_unless(lambda query, key: key <= query or key < 2, range(3), range(3))


@check("before", "create_prefix_mask(2, [1, 3], k_len=4)")
def causal_but_for_two_prefixes(_of):
    of_length = [
        hidden_unless(lambda query, key, n=n: key <= query or key < n, (2, 3), range(4))
        for n in (1, 3)
    ]
    return np.concatenate(of_length, axis=2)


def of_one_document(ids):
    return lambda query, key: ids[query] == ids[key] >= 0


@check("before", "create_segment_mask(ids)")
def documents_apart(of):
    return hidden_unless(of_one_document(of.ids), range(4), range(4))


@check("before", "create_segment_mask(ids[:2], ids)")
def documents_of_queries_and_keys_apart(of):
    return hidden_unless(of_one_document(of.ids), range(2), range(4))


@check("before", "create_segment_mask(batch_ids, seq_axis=1)")
def documents_of_a_batch_apart(of):
    each = [hidden_unless(of_one_document(ids), range(4), range(4)) for ids in of.batch_ids]
    return np.concatenate(each, axis=2)


@check("before", "create_sliding_window_mask(4, (1, None))")
def one_key_before_and_all_after(_of):
    return hidden_unless(lambda query, key: key >= query - 1, range(4), range(4))


@check("before", "create_chunked_mask(4, 2)")
def chunks_apart(_of):
    return hidden_unless(lambda query, key: query // 2 == key // 2, range(4), range(4))


@check("before", "create_dilated_mask(4, 2, offset=1)")
def every_other_key(_of):
    return hidden_unless(lambda query, key: (query - key) % 2 == 0, range(1, 5), range(4))


@check("before", 'kerple_bias(r1, r2, 2, 4, variant="power")')
def powers_of_distances(of):
    return by_pairs(lambda i, j, h: -of.r1[h] * abs(i - j) ** of.r2[h], (2, 3), range(4))


@check("before", "fire_bias(w1, b1, w2, b2, 4, c=0.1, threshold=2.0)")
def network_of_distances(of):
    def of_pair(i, j, h):
        ratio = math.log(0.1 * abs(i - j) + 1) / math.log(0.1 * max(2.0, i) + 1)
        hidden = [max(0.0, w * ratio + b) for w, b in zip(of.w1, of.b1, strict=True)]
        return sum(w * n for w, n in zip(of.w2[h], hidden, strict=True)) + of.b2[h]

    return by_pairs(of_pair, range(4), range(4))


@check("before", "sandwich_bias(3, query_positions=np.arange(2), dim=4)")
def products_of_sinusoids(_of):
    def of_pair(i, j, h):
        return 3 / (8 * (h + 1)) * sum(math.cos((i - j) / 100**n) for n in range(2))

    return by_pairs(of_pair, range(2), range(2))


@check("before", "to_keras(CausalMask(), 3)")
def attending_without_heads(_of):
    return [[[j <= i for j in range(3)] for i in range(3)]]


@check("before", "to_bias(CausalMask(), 2, dtype=np.float64)")
def minus_infinity_where_hidden(_of):
    return [[[[0.0, -math.inf], [0.0, 0.0]]]]


@check("before", "lengths_from_cumulative(cumulative)")
def lengths_between_ends(_of):
    return np.asarray([2, 0, 3])


@check("before", "lengths_from_segment_ids(ids, 3)")
def counted_documents(_of):
    return np.asarray([2, 1, 0])
