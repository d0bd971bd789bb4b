"""Positions of text, images and videos, against plain loops and transformers."""

import importlib
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import RoPE, multimodal_positions

MERGE = 2
sides = st.integers(1, 3).map(lambda n: MERGE * n)
texts = st.integers(1, 5)
images = st.tuples(st.just(1), sides, sides)
videos = st.tuples(st.integers(1, 6), sides, sides)
SECONDS = st.floats(1 / 64, 4, width=32)


def plural(parts, start=0, pace=None):
    """Return the positions of each token as the papers say, and the next one."""
    found, begin = [], start
    for part in parts:
        if isinstance(part, int):
            found += [(begin + i,) * 3 for i in range(part)]
            begin += part
            continue
        frames, height, width = part[0], part[1] // MERGE, part[2] // MERGE
        # Rounded to float32; Python's products of 24-bit numbers are exact.
        step = np.float32(pace * part[3]) if len(part) == 4 else np.float32(1)
        for t in range(frames):
            at = int(np.float32(t * float(step)))
            found += [
                (begin + at, begin + y, begin + x) for y in range(height) for x in range(width)
            ]
        begin += max(height, width)
    return found, max([start, *(max(token) + 1 for token in found)])


@given(
    parts=st.lists(texts | images | videos | st.builds(lambda v, s: (*v, s), videos, SECONDS)),
    start=st.integers(0, 99),
    pace=st.sampled_from([2, 25, 0.75]),
)
def test_every_token_is_counted_as_in_a_loop(parts, start, pace):
    expected, following = plural(parts, start, pace)
    got = multimodal_positions(parts, start=start, spatial_merge_size=MERGE, tokens_per_second=pace)
    np.testing.assert_array_equal(got[0], np.reshape(expected, (-1, 3)).T)
    assert got[1] == following


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_positions_on_every_library(backend, dtype):
    on = {"xp": backend.xp, "device": backend.device, "dtype": dtype and getattr(backend.xp, dtype)}
    parts = [3, np.asarray([1, 2, 4]), [2, 2, 2, 0.5], 2]
    got, following = multimodal_positions(parts, tokens_per_second=6, **on)
    expected, _ = multimodal_positions(parts, tokens_per_second=6)
    np.testing.assert_array_equal(backend.numpy(got), expected)
    assert following == 11
    if dtype:
        assert got.dtype == on["dtype"]


def test_parts_go_on_where_others_end():
    parts = [4, (1, 2, 6), 3, (1, 4, 2), 2]
    whole, end = multimodal_positions(parts, spatial_merge_size=2)
    first, begin = multimodal_positions(parts[:3], spatial_merge_size=2)
    rest, last = multimodal_positions(parts[3:], start=begin, spatial_merge_size=2)
    np.testing.assert_array_equal(np.concatenate([first, rest], axis=1), whole)
    assert last == end


def test_text_is_rotated_as_without_coordinates():
    q = np.random.default_rng(0).standard_normal((8, 5))
    rope = RoPE(8, 16, sections=(1, 1, 2))
    positions, _ = multimodal_positions([5])
    np.testing.assert_array_equal(rope(q, positions=positions), RoPE(8, 16)(q))


# Class and configured positions per second of each model.
MODELS = {
    "qwen2_vl": ("Qwen2VLModel", None),
    "qwen2_5_vl": ("Qwen2_5_VLModel", 2),
    "qwen3_vl": ("Qwen3VLModel", None),
}
KINDS = {"text": 0, "image": 1, "video": 2}


@pytest.mark.library("torch", "transformers")
@pytest.mark.parametrize("name", MODELS)
def test_positions_of_transformers(name):
    """Random mixtures, each with a padded one."""
    import torch

    class_name, pace = MODELS[name]
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    model = getattr(module, class_name)
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=pace)
    of_grid = partial(model.get_vision_position_ids, None)
    me = SimpleNamespace(
        config=SimpleNamespace(vision_config=vision), get_vision_position_ids=of_grid
    )
    rng = np.random.default_rng(0)
    for _ in range(30):
        kinds, parts, grids, seconds = [], [], {"image": [], "video": []}, []
        for kind in rng.choice(["image", "video"], rng.integers(1, 5)):
            grid = (int(rng.integers(1, 6)) if kind == "video" else 1, *2 * rng.integers(1, 5, 2))
            grids[kind].append(grid)
            if kind == "video" and pace:
                seconds.append(np.float32(rng.choice([1 / 3, 0.5, 1 / 24, 1.7])))
                grid = (*grid, float(seconds[-1]))
            is_in_frames = name == "qwen3_vl"  # with text between them
            for frame in [(1, *grid[1:])] * grid[0] if is_in_frames else [grid]:
                parts += [int(rng.integers(1, 4)), frame]
                kinds += [0] * parts[-2] + [KINDS[kind]] * (np.prod(frame[:3]) // MERGE**2)
        parts.append(2)
        kinds += [0, 0]
        ours, following = multimodal_positions(
            parts, spatial_merge_size=MERGE, tokens_per_second=pace
        )
        mask = torch.asarray([[0] * 3 + [1] * len(kinds)])
        options = {
            f"{kind}_grid_thw": torch.asarray(np.asarray(of_kind))
            for kind, of_kind in grids.items()
            if of_kind
        }
        if pace:
            options["second_per_grid_ts"] = torch.asarray(np.asarray(seconds))
        kinds = torch.asarray([[0] * 3 + kinds])
        theirs, delta = model.get_rope_index(
            me, torch.ones_like(kinds), kinds, attention_mask=mask, **options
        )
        np.testing.assert_array_equal(ours, theirs[:, 0, 3:])
        assert following == ours.shape[1] + int(delta)
