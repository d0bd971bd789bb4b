"""Positions of several coordinates, grids and xPos."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from positional_embeddings import RoPE, apply_rope, grid_positions, xpos_scale


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def coordinate_of_pair(sections, order):
    if order == "contiguous":
        return [c for c, n in enumerate(sections) for _ in range(n)]
    if order == "first_last":
        return [1 + i % (len(sections) - 1) for i in range(sum(sections[1:]))] + [0] * sections[0]
    owners, left = [], list(sections)
    for pair in range(sum(sections)):
        c = pair % len(sections)
        # The first coordinate replaces coordinates without remaining pairs.
        owner = c if c and left[c] else 0
        left[owner] -= 1
        owners.append(owner)
    return owners


def rotated_by_coordinates(x, positions, sections, frequencies, order):
    """x (head, seq) in the half layout, positions (coordinates, seq)."""
    half = sum(sections)
    owners = coordinate_of_pair(sections, order)
    seen = dict.fromkeys(range(len(sections)), 0)
    out = np.zeros_like(x)
    for i, c in enumerate(owners):
        n, rank = (half, i) if frequencies == "shared" else (sections[c], seen[c])
        seen[c] += 1
        angle = positions[c] * 10_000 ** (-rank / n)
        out[i] = x[i] * np.cos(angle) - x[i + half] * np.sin(angle)
        out[i + half] = x[i + half] * np.cos(angle) + x[i] * np.sin(angle)
    return out


@given(
    sections=st.sampled_from([(3, 3), (4, 2, 2), (3, 3, 2), (2, 1, 1, 1), (5,)]),
    frequencies=st.sampled_from(["shared", "restart"]),
    order=st.sampled_from(["contiguous", "strided", "first_last"]),
    batch=st.booleans(),
)
def test_each_coordinate_turns_its_pairs(backend, sections, frequencies, order, batch):
    head, count = 2 * sum(sections), len(sections)
    if order == "first_last":
        assume(len(set(sections[1:])) <= 1)
    rope = RoPE(head, 4, sections=sections, section_frequencies=frequencies, section_order=order)
    x = numbers(head, 3, 2)
    places = np.random.default_rng(1).integers(-20, 20, (count, 3, 2) if batch else (count, 3))
    got = backend.numpy(rope(backend.array(x), positions=backend.array(places)))
    for b in range(2):
        of_one = places[..., b] if batch else places
        expected = rotated_by_coordinates(x[..., b], of_one, sections, frequencies, order)
        np.testing.assert_allclose(got[..., b], expected, atol=2 * backend.tolerance())
    plural = backend.numpy(rope(backend.array(x), offset=1))
    same = np.broadcast_to(np.arange(1, 4), (count, 3))
    expected = rotated_by_coordinates(x[..., 0], same, sections, frequencies, order)
    np.testing.assert_allclose(plural[..., 0], expected, atol=2 * backend.tolerance())
    moved = rope.shift(rope(backend.array(x)), 2)
    expected = rope(backend.array(x), positions=backend.array(np.tile(np.arange(2, 5), (count, 1))))
    np.testing.assert_allclose(
        backend.numpy(moved), backend.numpy(expected), atol=5 * backend.tolerance()
    )


@pytest.mark.parametrize("order", ["contiguous", "strided"])
def test_one_pair_of_one_coordinate(order):
    rope = RoPE(2, 4, sections=(1,), section_order=order)
    np.testing.assert_array_equal(rope.inv_freq, [1.0])


def test_equal_coordinates_are_the_plain_rotation():
    """Text in a multimodal model."""
    x = numbers(128, 10)
    plain = RoPE(128, 10)(x)
    for order, sections in (("contiguous", (16, 24, 24)), ("strided", (24, 20, 20))):
        rope = RoPE(128, 10, sections=sections, section_order=order)
        np.testing.assert_array_equal(rope(x), plain)
        np.testing.assert_allclose(
            rope(x, positions=np.tile(np.arange(10), (3, 1))), plain, atol=1e-14
        )


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_grid_positions(backend, shape):
    got = backend.numpy(grid_positions(shape, xp=backend.xp, device=backend.device))
    np.testing.assert_array_equal(got, np.indices(shape).reshape(len(shape), -1))
    real = grid_positions(shape, xp=backend.xp, device=backend.device, dtype=backend.xp.float32)
    assert real.dtype == backend.xp.float32


def test_an_image_by_axial_rotation():
    """Scores depend only on the distances along both axes."""
    rope = RoPE(8, 1, sections=(2, 2), section_frequencies="restart")
    grid = grid_positions((3, 4))
    q, k = (np.repeat(numbers(8, 1, seed=s), 12, axis=1) for s in (1, 2))
    scores = rope(q, positions=grid).T @ rope(k, positions=grid)
    shifted = rope(q, positions=grid + 7).T @ rope(k, positions=grid + 7)
    np.testing.assert_allclose(scores, shifted, atol=1e-12)
    assert scores[0, 1] == pytest.approx(scores[4, 5])  # one to the right
    assert scores[0, 4] == pytest.approx(scores[7, 11])  # one down
    assert abs(scores[0, 1] - scores[0, 4]) > 1e-3 or abs(scores[0, 1] - scores[1, 0]) > 1e-3


def test_xpos(backend):
    positions = np.asarray([-3, 0, 40, 700])
    options = {"scale_base": 100, "center": 20, "gamma": 0.3}
    got = backend.numpy(xpos_scale(backend.array(positions, "float64"), 6, **options))
    expected = [
        [((2 * i / 6 + 0.3) / 1.3) ** ((p - 20) / 100) for p in positions] for i in range(3)
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-5 if backend.wide == "float32" else 1e-12)


def test_xpos_of_its_code():
    """Its scale_base is 512, and gamma 0.4 (Sun et al. 2022, and their code)."""
    expected = [((2 * i / 6 + 0.4) / 1.4) ** (100 / 512) for i in range(3)]
    got = xpos_scale(np.asarray([130.0]), 6, center=30)
    np.testing.assert_allclose(got[:, 0], expected, rtol=1e-14)


def test_xpos_scores_depend_on_the_distance_and_fall_with_it():
    positions = np.arange(600)
    rope, scale = RoPE(64, 600), xpos_scale(positions, 64, center=300)
    ones = np.ones((64, 600))
    q = apply_rope(ones, rope.cos * scale, rope.sin * scale)
    k = apply_rope(ones, rope.cos / scale, rope.sin / scale)
    scores = q.T @ k
    np.testing.assert_allclose(scores[500, 300:400], scores[550, 350:450], rtol=1e-9)
    assert abs(scores[599, 0]) < 0.5 * scores[599, 599]


def test_sections_and_shapes_may_be_arrays():
    assert RoPE(16, 9, sections=np.asarray([4, 4])) == RoPE(16, 9, sections=(4, 4))
    np.testing.assert_array_equal(grid_positions(np.asarray([2, 3])), grid_positions((2, 3)))
