"""What pictures show: the drawn numbers, where they stand, and what their axes say."""

import doctest
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import positional_embeddings as pe
from backends import missing
from positional_embeddings import plotting


def test_matplotlib_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = r'^Pictures need Matplotlib: pip install "positional-embeddings\[plot\]"\.$'
    for draw, array in (
        (plotting.plot_encoding, np.zeros((2, 3))),
        (plotting.plot_mask, np.zeros((2, 3), dtype=bool)),
        (plotting.plot_bias, np.zeros((2, 3))),
    ):
        with pytest.raises(ImportError, match=message):
            draw(array)


@pytest.fixture
def plt():
    reason = "the group test lacks Matplotlib"
    pytest.importorskip("matplotlib", reason=reason).use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture
def ax(plt):
    return plt.figure().add_subplot()


def drawn(ax):
    """Return the numbers of the one image, as it was given them, and as NaN where grey."""
    (image,) = ax.images
    return np.ma.filled(image.get_array().astype(float), np.nan)


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def colour_bar(ax):
    return ax.images[0].colorbar.ax.get_ylabel()


@pytest.mark.usefixtures("plt")
def test_examples():
    results = doctest.testmod(plotting, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted >= 10
    assert results.failed == 0


def test_encoding(ax, backend):
    numbers = np.asarray([[0.5, -2.0, 1.0], [0.0, 0.25, 1.5]])
    assert plotting.plot_encoding(backend.array(numbers), ax=ax) is ax
    np.testing.assert_array_equal(drawn(ax), numbers)
    assert labels(ax) == ("position", "feature")
    assert colour_bar(ax) == "encoding"
    assert ax.images[0].get_clim() == (-2.0, 2.0)  # white is 0
    # Cells stand around whole numbers, feature 0 at the top.
    assert ax.images[0].get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert (ax.get_xlim(), ax.get_ylim()) == ((-0.5, 2.5), (1.5, -0.5))


def test_mask(ax, backend):
    mask = np.asarray([[[0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0]]], dtype=bool)
    assert plotting.plot_mask(backend.array(mask), ax=ax, batch=1) is ax
    np.testing.assert_array_equal(drawn(ax), mask[:, :, 1])
    assert labels(ax) == ("key", "query")
    assert ax.get_aspect() == 1  # square cells


def test_bias(ax, backend):
    bias = np.arange(12.0).reshape(2, 3, 2) - 5
    assert plotting.plot_bias(backend.array(bias), ax=ax, head=1) is ax
    np.testing.assert_array_equal(drawn(ax), bias[:, :, 1])
    assert labels(ax) == ("key", "query")
    assert colour_bar(ax) == "bias of head 1"
    assert ax.images[0].get_clim() == (-4.0, 6.0)


def test_half_precision(ax, backend):
    numbers = np.asarray([[0.5, -2.0], [0.0, 1.5]])
    for dtype in backend.half_dtypes:
        ax.clear()
        plotting.plot_encoding(backend.xp.astype(backend.array(numbers), dtype), ax=ax)
        np.testing.assert_array_equal(drawn(ax), numbers)


def test_bfloat16_of_ml_dtypes(ax):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    plotting.plot_bias(np.asarray([[0.5, -2.0]], dtype=ml_dtypes.bfloat16), ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[0.5, -2.0]])


def test_tensors_with_gradients(ax):
    if reason := missing("torch"):
        pytest.skip(reason)
    import torch

    plotting.plot_bias(torch.tensor([[1.0, 2.0]], requires_grad=True), ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[1.0, 2.0]])


@pytest.mark.parametrize("key_axis", [None, 1, -1])
def test_one_mask_of_many(ax, key_axis):
    mask = np.random.default_rng(0).random((3, 4, 5)) < 0.5
    if key_axis == -1:
        expected, given = mask[:, :, 2], mask.transpose(2, 0, 1)[:, None]
    else:
        expected, given = mask[:, :, 2], mask
    plotting.plot_mask(given, ax=ax, batch=2, key_axis=key_axis)
    np.testing.assert_array_equal(drawn(ax), expected)


def test_one_bias_for_all_heads(ax):
    plotting.plot_bias(np.asarray([[[1.0], [2.0]]]), ax=ax, head=7)
    np.testing.assert_array_equal(drawn(ax), [[1.0, 2.0]])
    assert colour_bar(ax) == "bias of head 7"


def test_legend_has_the_colours_of_the_mask(ax):
    from matplotlib.colors import to_rgba

    plotting.plot_mask(pe.create_causal_mask(2), ax=ax)
    legend = ax.get_legend()
    image = ax.images[0]
    for text, patch, masked in zip(
        legend.get_texts(), legend.get_patches(), (False, True), strict=True
    ):
        assert text.get_text() == ("masked" if masked else "attends")
        assert image.to_rgba(np.asarray([float(masked)]))[0] == pytest.approx(
            to_rgba(patch.get_facecolor()), abs=1 / 255
        )


def test_what_is_not_finite_is_grey(ax):
    bias = np.asarray([[1.0, -np.inf], [np.nan, 3.0]])
    plotting.plot_bias(bias, ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[1.0, np.nan], [np.nan, 3.0]])
    assert colour_bar(ax) == "bias (grey: not finite)"
    image = ax.images[0]
    assert image.get_clim() == (1.0, 3.0)
    red, green, blue, _ = image.to_rgba(image.get_array())[0, 1]
    assert red == green == blue


@pytest.mark.parametrize("value", [0.0, -np.inf])
def test_one_value_everywhere(ax, value):
    plotting.plot_encoding(np.full((3, 4), value), ax=ax)
    low, high = ax.images[0].get_clim()
    assert (low, high) == (-1.0, 1.0)
    ax.figure.canvas.draw()


def test_long_tables_are_drawn_as_means_of_blocks(ax):
    numbers = np.random.default_rng(0).standard_normal((3, 8003))
    plotting.plot_encoding(numbers, ax=ax)
    blocks = [numbers[:, start : start + 9].mean(axis=1) for start in range(0, 8003, 9)]
    np.testing.assert_allclose(drawn(ax), np.stack(blocks, axis=1), rtol=0, atol=1e-12)
    # The last block is one of two, and is cut where the positions end.
    assert ax.images[0].get_extent()[:2] == [-0.5, 890 * 9 - 0.5]
    assert ax.get_xlim() == (-0.5, 8002.5)


def test_fast_waves_do_not_look_like_slow_ones(ax):
    """Every eighth number of a wave of 8.01 positions would be a wave of 6,400."""
    wave = np.cos(2 * np.pi * np.arange(8000) / 8.01)
    assert np.abs(wave[::8]).max() > 0.99
    plotting.plot_encoding(wave[None, :], ax=ax)
    assert np.abs(drawn(ax)).max() < 0.01


def test_long_masks_are_drawn_as_shares(ax):
    mask = np.random.default_rng(0).random((2500, 1700)) < 0.3
    plotting.plot_mask(mask, ax=ax)
    rows = np.stack([mask[i : i + 3].mean(axis=0) for i in range(0, 2500, 3)])
    shares = np.stack([rows[:, j : j + 2].mean(axis=1) for j in range(0, 1700, 2)], axis=1)
    np.testing.assert_allclose(drawn(ax), shares, rtol=0, atol=1e-12)


def test_infinities_of_both_signs_in_a_block(ax):
    bias = np.zeros((1, 2000))
    bias[0, :2] = np.inf, -np.inf
    plotting.plot_bias(bias, ax=ax)
    np.testing.assert_array_equal(drawn(ax)[0, :3], [np.nan, 0.0, 0.0])


def test_one_query_is_no_line(ax):
    plotting.plot_bias(pe.alibi_bias(8, 1, 100), ax=ax)
    assert ax.get_aspect() == "auto"
    assert [place for place in ax.get_yticks() if abs(place) < 0.5] == [0]


def test_a_new_figure_for_each_picture(plt):
    first, second = (plotting.plot_mask(pe.create_causal_mask(3)) for _ in range(2))
    assert first.figure is not second.figure
    assert plt.fignum_exists(second.figure.number)


def test_axes_of_another_kind():
    pytest.importorskip("matplotlib", reason="the group test lacks Matplotlib")
    message = r"^`ax` must be a matplotlib\.axes\.Axes or None, got types\.SimpleNamespace\.$"
    with pytest.raises(TypeError, match=message):
        plotting.plot_mask(pe.create_causal_mask(3), ax=SimpleNamespace())
