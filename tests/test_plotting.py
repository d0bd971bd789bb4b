"""What pictures show: the drawn numbers, where they stand, and what their axes say."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import plotting

pytestmark = pytest.mark.thread_unsafe  # the figures of pyplot belong to the process


def test_matplotlib_is_asked_for_where_it_is_missing(monkeypatch):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    message = r'^Pictures need Matplotlib: pip install "positional-embeddings\[plot\]"\.$'
    for draw, array in (
        (plotting.plot_encoding, np.zeros((2, 3))),
        (plotting.plot_attention, np.zeros((2, 3), dtype=bool)),
        (plotting.plot_attention, np.zeros((2, 3))),
        (plotting.plot_rope_decay, pe.RoPE(2, 3)),
        (plotting.plot_wavelengths, pe.RoPE(2, 3)),
        (plotting.plot_similarity, np.ones((2, 3))),
        (lambda features: plotting.plot_kernel(features, 1.0), pe.FourierFeatures([1.0])),
    ):
        with pytest.raises(ImportError, match=message):
            draw(array)


@pytest.fixture
def plt():
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture
def ax(plt):
    return plt.figure().add_subplot()


def drawn(ax, shape=None):
    """Return the numbers of the one image, NaN where grey; each once if they are repeated."""
    (image,) = ax.images
    cells = np.ma.filled(image.get_array().astype(float), np.nan)
    if shape is None:
        return cells
    lengths = [size // few for size, few in zip(cells.shape, shape, strict=True)]
    once = cells[:: lengths[0], :: lengths[1]]
    np.testing.assert_array_equal(cells, once.repeat(lengths[0], 0).repeat(lengths[1], 1))
    return once


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def colour_bar(ax):
    return ax.images[0].colorbar.ax.get_ylabel()


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
    assert plotting.plot_attention(backend.array(mask), ax=ax, index=1) is ax
    np.testing.assert_array_equal(drawn(ax), mask[:, :, 1])
    assert labels(ax) == ("key", "query")
    assert ax.get_aspect() == 1  # square cells


def test_bias(ax, backend):
    bias = np.arange(12.0).reshape(2, 3, 2) - 5
    assert plotting.plot_attention(backend.array(bias), kind="bias", ax=ax, index=1) is ax
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
    import ml_dtypes

    plotting.plot_attention(np.asarray([[0.5, -2.0]], dtype=ml_dtypes.bfloat16), kind="bias", ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[0.5, -2.0]])


@pytest.mark.library("torch")
def test_tensors_with_gradients(ax):
    import torch

    plotting.plot_attention(torch.tensor([[1.0, 2.0]], requires_grad=True), kind="bias", ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[1.0, 2.0]])


@pytest.mark.parametrize("key_axis", [None, 1, -1])
def test_one_mask_of_many(ax, key_axis):
    mask = np.random.default_rng(0).random((3, 4, 5)) < 0.5
    if key_axis == -1:
        expected, given = mask[:, :, 2], mask.transpose(2, 0, 1)[:, None]
    else:
        expected, given = mask[:, :, 2], mask
    plotting.plot_attention(given, ax=ax, index=2, key_axis=key_axis)
    np.testing.assert_array_equal(drawn(ax), expected)


def test_one_mask_of_many_of_each_sequence(ax):
    mask = np.random.default_rng(0).random((2, 3, 4, 5)) < 0.5
    plotting.plot_attention(mask, index=(1, 2), key_axis=-1, ax=ax)
    np.testing.assert_array_equal(drawn(ax), mask[1, 2])


def test_one_mask_for_all_sequences(ax):
    mask = np.asarray([[[True], [False]]])
    plotting.plot_attention(mask, index=3, ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[1.0, 0.0]])


def test_one_bias_for_all_heads(ax):
    plotting.plot_attention(np.asarray([[[1.0], [2.0]]]), kind="bias", ax=ax, index=7)
    np.testing.assert_array_equal(drawn(ax), [[1.0, 2.0]])
    assert colour_bar(ax) == "bias of head 7"


def test_legend_has_the_colours_of_the_mask(ax):
    from matplotlib.colors import to_rgba

    plotting.plot_attention(pe.create_causal_mask(2), ax=ax)
    legend = ax.get_legend()
    image = ax.images[0]
    for text, patch, masked in zip(
        legend.get_texts(), legend.get_patches(), (False, True), strict=True
    ):
        assert text.get_text() == ("masked" if masked else "attends")
        assert image.to_rgba(np.asarray([float(masked)]))[0] == pytest.approx(
            to_rgba(patch.get_facecolor()), abs=1 / 255
        )


def test_legend_does_not_cover_a_neighbour(plt):
    figure, (ax, _) = plt.subplots(1, 2)
    plotting.plot_attention(pe.create_causal_mask(2), ax=ax)
    figure.canvas.draw()
    legend, own = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert own.contains(legend.x0, legend.y0)
    assert own.contains(legend.x1, legend.y1)


def test_what_is_not_finite_is_grey(ax):
    bias = np.asarray([[1.0, -np.inf], [np.nan, 3.0]])
    plotting.plot_attention(bias, kind="bias", ax=ax)
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
    np.testing.assert_allclose(drawn(ax, (3, 890)), np.stack(blocks, axis=1), rtol=0, atol=1e-12)
    assert colour_bar(ax) == "encoding (means of 9 positions)"
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
    plotting.plot_attention(mask, ax=ax)
    rows = np.stack([mask[i : i + 3].mean(axis=0) for i in range(0, 2500, 3)])
    shares = np.stack([rows[:, j : j + 2].mean(axis=1) for j in range(0, 1700, 2)], axis=1)
    np.testing.assert_allclose(drawn(ax), shares, rtol=0, atol=1e-12)


def test_infinities_of_both_signs_in_a_block(ax):
    bias = np.zeros((1, 2000))
    bias[0, :2] = np.inf, -np.inf
    plotting.plot_attention(bias, kind="bias", ax=ax)
    np.testing.assert_array_equal(drawn(ax)[0, :3], [np.nan, 0.0, 0.0])


def test_one_query_is_no_line(ax):
    plotting.plot_attention(pe.alibi_bias(8, 1, 100), kind="bias", ax=ax)
    assert ax.get_aspect() == "auto"
    assert [place for place in ax.get_yticks() if abs(place) < 0.5] == [0]


def test_a_new_figure_for_each_picture(plt):
    first, second = (plotting.plot_attention(pe.create_causal_mask(3)) for _ in range(2))
    assert first.figure is not second.figure
    assert plt.fignum_exists(second.figure.number)


def test_axes_of_another_kind():
    message = r"^`ax` must be a matplotlib\.axes\.Axes or None, got types\.SimpleNamespace\.$"
    with pytest.raises(TypeError, match=message):
        plotting.plot_attention(pe.create_causal_mask(3), ax=SimpleNamespace())


def test_encoding_at_times(ax, backend):
    numbers = np.asarray([[0.5, -2.0, 1.0], [0.0, 0.25, 1.5]])
    times = backend.array(np.asarray([1.0, 2.0, 6.0]))
    plotting.plot_encoding(backend.array(numbers), coordinates=times, label="time (years)", ax=ax)
    middles = 0.5 + 7.5 / 1000 * (np.arange(1000) + 0.5)
    clear = np.min(np.abs(middles[:, None] - [1.5, 4.0]), axis=1) > 0.005
    expected = numbers[:, np.searchsorted([1.5, 4.0], middles)]
    cells = drawn(ax, (2, 1000))
    np.testing.assert_allclose(cells[:, clear], expected[:, clear], rtol=0, atol=1e-9)
    assert clear.mean() > 0.99
    assert labels(ax) == ("time (years)", "feature")
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.5, 8.0), (1.5, -0.5))
    image = ax.images[0]
    under = [image.get_cursor_data(Event(ax, x, 0)) for x in (1.4, 1.6, 3.9, 4.1)]
    assert under == pytest.approx([0.5, -2.0, -2.0, 1.0])


def Event(ax, x, y):  # noqa: N802 - it stands for Matplotlib's
    """Return the text of Matplotlib for a mouse at some coordinates."""
    pixel = ax.transData.transform((x, y))
    return SimpleNamespace(x=pixel[0], y=pixel[1], xdata=x, ydata=y, inaxes=ax)


def test_long_encoding_at_times(ax):
    numbers = np.random.default_rng(0).standard_normal((3, 2001))
    times = np.arange(2001) ** 2 / 4
    plotting.plot_encoding(numbers, coordinates=times, ax=ax)
    blocks = np.stack([numbers[:, start : start + 3].mean(axis=1) for start in range(0, 2001, 3)])
    right = (2000**2 + (2 * 2000 - 1) / 2) / 4
    edges = np.concatenate([[-0.125], (times[2:-1:3] + times[3::3]) / 2, [right]])
    expected = []
    for column in range(1000):
        start, stop = (edges[0] + (right - edges[0]) * (column + i) / 1000 for i in range(2))
        shares = np.clip(np.minimum(edges[1:], stop) - np.maximum(edges[:-1], start), 0, None)
        expected.append(shares @ blocks / shares.sum())
    cells = drawn(ax, (3, 1000))
    np.testing.assert_allclose(cells, np.stack(expected, axis=1), rtol=0, atol=1e-7)
    assert ax.get_xlim() == (-0.125, right)


@pytest.mark.parametrize("times", [np.arange(8000.0), np.arange(8000) ** 1.01])
def test_fast_waves_at_times_do_not_look_like_slow_ones(ax, times):
    """On the screen, of fewer pixels than there are cells."""
    plotting.plot_encoding(
        np.sin(2 * np.pi * np.arange(8000) / 16.5)[None, :], coordinates=times, ax=ax
    )
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())
    box = ax.get_window_extent()
    row = pixels[int(box.y0 + box.y1) // 2, int(box.x0) + 9 : int(box.x1) - 9, 0].astype(float)
    assert row.std() < 15


def test_few_rows_of_many_columns_do_not_fade_into_one_another(ax):
    mask = np.zeros((4, 300), dtype=bool)
    mask[::2] = True
    plotting.plot_attention(mask, ax=ax)
    figure = ax.figure
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1]
    box = ax.get_window_extent()
    column = pixels[int(box.y0) + 2 : int(box.y1) - 2, int(box.x0 + box.x1) // 2, :3]
    plain = [(column == colour).all(axis=1).mean() for colour in ((230, 230, 230), (43, 92, 138))]
    assert sum(plain) > 0.95


def test_numbers_that_are_not_finite_at_uneven_times(ax):
    numbers = np.asarray([[1.0, np.nan, 3.0, np.inf, 5.0]])
    plotting.plot_encoding(numbers, coordinates=np.asarray([0.0, 1.0, 3.0, 4.0, 9.0]), ax=ax)
    cells = drawn(ax, (1, 1000))[0]
    edges, middles = [0.5, 2.0, 3.5, 6.5], -0.5 + 12 / 1000 * (np.arange(1000) + 0.5)
    clear = np.min(np.abs(middles[:, None] - edges), axis=1) > 0.01
    expected = np.where(np.isfinite(numbers), numbers, np.nan)[0, np.searchsorted(edges, middles)]
    np.testing.assert_allclose(cells[clear], expected[clear], rtol=0, atol=1e-9)
    # Neither do they count in a cell that has a part of them.
    finite = cells[np.isfinite(cells)]
    assert np.min(np.abs(finite[:, None] - [1.0, 3.0, 5.0]), axis=1).max() < 1e-9


def test_encoding_at_one_time(ax):
    plotting.plot_encoding(np.ones((2, 1)), coordinates=np.asarray([3.0]), ax=ax)
    assert ax.get_xlim() == (2.5, 3.5)


def test_mask_value(ax):
    mask = pe.CausalMask() | pe.PaddingMask([3, 5])
    plotting.plot_attention(mask, 4, 6, offset=1, index=1, ax=ax)
    expected = [[k > q + 1 or k >= 5 for k in range(6)] for q in range(4)]
    np.testing.assert_array_equal(drawn(ax), expected)
    assert len(ax.xaxis.get_minorticklocs()) == 7  # the borders of cells


def test_long_mask_value_is_drawn_as_shares(ax):
    plotting.plot_attention(pe.CausalMask() | pe.SlidingWindowMask(700, 0), 8003, ax=ax)
    q, k = np.arange(2 * 9, 3 * 9)[:, None], np.arange(8003)
    shares = ((k > q) | (k < q - 700)).mean(axis=0)
    expected = [shares[start : start + 9].mean() for start in range(0, 8003, 9)]
    np.testing.assert_allclose(drawn(ax)[2], expected, rtol=0, atol=1e-12)
    assert len(ax.xaxis.get_minorticklocs()) == 0


def test_mask_value_of_no_query_in_particular(ax):
    plotting.plot_attention(pe.PaddingMask([2]), 3, ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[False, False, True]] * 3)


@pytest.mark.parametrize("kind", ["alibi", "kerple", "t5"])
def test_bias_value(ax, backend, kind):
    bias = {
        "alibi": lambda: pe.ALiBiBias(2),
        "kerple": lambda: pe.KERPLEBias(
            *(backend.array(np.asarray(r)) for r in ([1.0, 2.0], [0.5, 0.25]))
        ),
        "t5": lambda: pe.T5Bias(2, embeddings=backend.array(np.arange(64.0).reshape(32, 2))),
    }[kind]()
    plotting.plot_attention(bias, 3, 5, offset=1, index=1, ax=ax)
    full = bias(3, 5, offset=1)
    expected = (full if kind == "alibi" else backend.numpy(full))[:, :, 1]
    np.testing.assert_array_equal(drawn(ax), expected)
    assert colour_bar(ax) == "bias of head 1"


def test_long_bias_value_is_that_of_the_middle_queries(ax):
    plotting.plot_attention(pe.ALiBiBias(8), 2500, 10, ax=ax)
    slope = 0.5
    middles = [min(start + 1, 2499) for start in range(0, 2500, 3)]
    expected = [[slope * (k - (q - 2490)) for k in range(10)] for q in middles]
    np.testing.assert_allclose(drawn(ax, (834, 10)), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("key_axis", [1, -1])
def test_plot_attention_of_weights(ax, backend, key_axis):
    weights = np.random.default_rng(0).random((3, 4, 2, 5)) / 4
    given = weights.transpose(2, 3, 0, 1) if key_axis == -1 else weights
    plotting.plot_attention(backend.array(given), index=(1, 3), key_axis=key_axis, ax=ax)
    np.testing.assert_allclose(drawn(ax), weights[:, :, 1, 3], rtol=1e-6)
    assert labels(ax) == ("key", "query")
    assert colour_bar(ax) == "attention weight"
    norm = ax.images[0].norm
    assert norm.vmin == 0.0
    assert float(norm(norm.vmax / 1000)) == pytest.approx(0.1)


def test_queries_that_see_nothing_are_grey(ax):
    plotting.plot_attention(np.asarray([[0.0, 0.0], [0.001, 0.999]]), ax=ax)
    np.testing.assert_array_equal(drawn(ax), [[np.nan, np.nan], [0.001, 0.999]])
    assert colour_bar(ax) == "attention weight (grey: sees no key)"
    assert ax.patch.get_hatch() == "////"


def test_the_decay_of_a_billion_distances_is_no_slow_wave(ax):
    """Steps of 710 positions are almost whole cycles of a pair that rotates by 1 a position."""
    plotting.plot_rope_decay(pe.RoPE(2, 10), max_distance=709_999_999, ax=ax)
    (line,) = ax.get_lines()
    assert np.abs(line.get_ydata()).max() < 0.02
    (band,) = ax.collections
    assert np.abs(band.get_paths()[0].vertices[:, 1]).max() > 0.99


@pytest.mark.parametrize("start", [-180.0, 0.0])
def test_grids_that_reach_over_the_date_line_are_drawn_on_both_sides(ax, start):
    longitude, latitude = np.meshgrid(start + 60 * np.arange(6), [-60.0, 0.0, 60.0])
    points = latitude.ravel(), longitude.ravel()
    features = pe.spherical_encoding(*points, 3)
    plotting.plot_similarity(features, coordinates=points, reference=4, ax=ax)
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[::-1]
    for y in (-50, 10, 70):
        points = [ax.transData.transform((x, y)).astype(int) for x in (-178, -160, 160, 178)]
        colours = {tuple(pixels[row, column].tolist()) for column, row in points}
        assert len(colours) == 1
        assert (255, 255, 255, 255) not in colours


def test_regional_grids_over_the_date_line_leave_the_rest_of_the_map_empty(ax):
    latitude, longitude = np.meshgrid([-20.0, 0.0, 20.0], [-160.0, 160.0, 170.0], indexing="ij")
    points = latitude.ravel(), longitude.ravel()
    features = pe.spherical_encoding(*points, 3)
    plotting.plot_similarity(features, coordinates=points, reference=4, ax=ax)
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[::-1]
    empty = {}
    for x in (-178, -170, -150, -140, 0, 150, 160, 170, 178):
        column, row = ax.transData.transform((x, 5)).astype(int)
        empty[x] = pixels[row, column].tolist() == [255, 255, 255, 255]
    assert [x for x in empty if empty[x]] == [-140, 0, 150]


def test_a_query_of_many_that_sees_nothing_is_grey(ax):
    weights = np.full((2000, 4), 0.25)
    weights[11] = 0
    plotting.plot_attention(weights, ax=ax)
    assert np.flatnonzero(np.isnan(drawn(ax)[:, 0])).tolist() == [5]


def test_no_query_sees_anything(ax):
    plotting.plot_attention(np.zeros((2, 2)), ax=ax)
    ax.figure.canvas.draw()
    assert ax.images[0].get_clim() == (0.0, 1.0)


def test_rope_decay(ax):
    plotting.plot_rope_decay(pe.RoPE(8, 100), ax=ax)
    (line,) = ax.get_lines()
    expected = [sum(math.cos(d * 10_000 ** (-i / 4)) for i in range(4)) / 4 for d in range(101)]
    np.testing.assert_array_equal(line.get_xdata(), range(101))
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-13)
    assert labels(ax) == ("distance (positions)", "score of equal unit vectors")
    assert not ax.collections
    assert ax.get_legend() is None


def test_rope_decay_of_many_distances_has_a_band(ax):
    yarn = pe.YaRNScaling(4.0, 1000)
    plotting.plot_rope_decay({"YaRN": pe.RoPE(8, 100, scaling=yarn)}, max_distance=4999, ax=ax)
    scaled = pe.RoPE(8, 100, scaling=yarn)
    scores = [
        scaled.attention_factor**2 * sum(math.cos(d * f) for f in scaled.inv_freq.tolist()) / 4
        for d in range(5000)
    ]
    blocks = np.reshape(scores, (1000, 5))
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_ydata(), blocks.mean(axis=1), rtol=0, atol=1e-12)
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx(blocks.min())
    assert edges.max() == pytest.approx(blocks.max())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["YaRN"]


@pytest.mark.parametrize("draw", [plotting.plot_rope_decay, plotting.plot_wavelengths])
def test_labels_that_matplotlib_hides_are_in_the_legend(ax, draw):
    draw({"_before": pe.RoPE(8, 100), "after": pe.RoPE(8, 100, 500_000)}, ax=ax)
    format_value = [text.get_text().strip() for text in ax.get_legend().get_texts()]
    assert format_value == ["_before", "after"]


def test_lines_differ_without_colours(ax):
    plotting.plot_rope_decay({base: pe.RoPE(8, 9, int(base)) for base in ("10", "100")}, ax=ax)
    first, second = ax.get_lines()
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_color() != second.get_color()


def test_wavelengths(ax):
    ropes = {"short": pe.RoPE(8, 4096), "long": pe.RoPE(8, 8192, 500_000)}
    plotting.plot_wavelengths(ropes, ax=ax)
    short, long, *contexts = ax.get_lines()
    expected = [2 * math.pi * 10_000 ** (i / 4) for i in range(4)]
    np.testing.assert_allclose(short.get_ydata(), expected, rtol=1e-14)
    expected = [2 * math.pi * 500_000 ** (i / 4) for i in range(4)]
    np.testing.assert_allclose(long.get_ydata(), expected, rtol=1e-14)
    assert [line.get_ydata()[0] for line in contexts] == [4096, 8192]
    assert [text.get_text() for text in ax.texts] == ["context of 4,096", "context of 8,192"]
    assert labels(ax) == ("pair of features", "wavelength (positions)")
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize(
    ("share", "label", "text"),
    [
        (0.5, "", "2 pairs not rotated"),
        (0.75, "", "1 pair not rotated"),
        (0.75, "p", "p: 1 pair not rotated"),
    ],
)
def test_pairs_that_are_not_rotated_are_told(ax, share, label, text):
    still = pe.RoPE(8, 100, scaling=pe.ProportionalScaling(share))
    plotting.plot_wavelengths({label: still} if label else still, ax=ax)
    lengths, marks, _ = ax.get_lines()
    np.testing.assert_array_equal(marks.get_xdata(), range(int(4 * share), 4))
    assert np.isnan(lengths.get_ydata()).sum() == 4 - 4 * share
    assert text in [t.get_text() for t in ax.get_legend().get_texts()]


def cosine(a, b):
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


def test_similarity(ax, backend):
    numbers = np.random.default_rng(0).standard_normal((3, 4))
    plotting.plot_similarity(backend.array(numbers), ax=ax)
    expected = [[cosine(a, b) for b in numbers.T] for a in numbers.T]
    np.testing.assert_allclose(drawn(ax), expected, rtol=0, atol=1e-6)
    assert labels(ax) == ("position", "position")
    assert colour_bar(ax) == "cosine similarity"
    assert ax.images[0].get_clim() == (-1.0, 1.0)
    assert not ax.yaxis_inverted()  # position 0 is below, as in a plot


def test_similarity_of_very_large_and_small_numbers(ax):
    plotting.plot_similarity(np.asarray([[1e200, 1e-200], [1e200, 0.0]]), ax=ax)
    np.testing.assert_allclose(drawn(ax), [[1, 0.5**0.5], [0.5**0.5, 1]], rtol=1e-12)


def test_long_similarity_is_drawn_as_means_of_blocks(ax):
    numbers = np.random.default_rng(0).standard_normal((3, 1501))
    times = np.arange(1501.0)
    plotting.plot_similarity(numbers, coordinates=times, label="time (s)", ax=ax)
    pairs = [cosine(a, b) for a in numbers[:, 2:4].T for b in numbers[:, 10:12].T]
    assert drawn(ax)[1, 5] == pytest.approx(sum(pairs) / 4)
    last = [cosine(a, numbers[:, 1500]) for a in numbers[:, 2:4].T]
    assert drawn(ax)[1, -1] == pytest.approx(sum(last) / 2)
    assert labels(ax) == ("time (s)", "time (s)")
    assert ax.get_xlim() == ax.get_ylim() == (-0.5, 1500.5)


@pytest.mark.parametrize("times", [None, [1.0, 2.5, 7.0]])
def test_similarity_to_one(ax, times):
    numbers = np.random.default_rng(0).standard_normal((4, 3))
    given = {} if times is None else {"coordinates": np.asarray(times), "label": "time (s)"}
    plotting.plot_similarity(numbers, reference=1, ax=ax, **given)
    line, mark = ax.get_lines()
    expected = [cosine(a, numbers[:, 1]) for a in numbers.T]
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-12)
    expected = [0, 1, 2] if times is None else times
    np.testing.assert_array_equal(line.get_xdata(), expected)
    assert mark.get_xdata()[0] == expected[1]
    name = "position 1" if times is None else "time 2.5"
    assert ax.get_ylabel() == f"cosine similarity to {name}"


def test_map_of_places(ax):
    latitude, longitude = np.asarray([47.4, -33.9, 10.0]), np.asarray([8.5, 151.2, 350.0])
    features = pe.spherical_encoding(latitude, longitude, 4)
    plotting.plot_similarity(features, coordinates=(latitude, longitude), reference=2, ax=ax)
    (dots,) = ax.collections[:1]
    expected = [[8.5, 47.4], [151.2, -33.9], [-10.0, 10.0]]
    np.testing.assert_allclose(dots.get_offsets(), expected)
    similar = [cosine(a, features[:, 2]) for a in features.T]
    np.testing.assert_allclose(dots.get_array(), similar, rtol=0, atol=1e-12)
    (star,) = ax.get_lines()
    assert (star.get_xdata(), star.get_ydata()) == ([-10.0], [10.0])
    assert (ax.get_xlim(), ax.get_ylim()) == ((-180, 180), (-90, 90))
    assert ax.get_xticks().tolist() == [-180, -120, -60, 0, 60, 120, 180]
    assert ax.get_yticks().tolist() == [-90, -60, -30, 0, 30, 60, 90]
    assert labels(ax) == ("longitude (degrees east)", "latitude (degrees north)")


def test_map_of_a_grid(ax):
    latitude, longitude = (c.ravel() for c in np.meshgrid([60, -60, 0], [0, 90], indexing="ij"))
    features = pe.spherical_encoding(latitude, longitude, 2)
    plotting.plot_similarity(features, coordinates=[latitude, longitude], reference=1, ax=ax)
    expected = [[cosine(features[:, i], features[:, 1]) for i in row] for row in ((2, 3), (4, 5))]
    np.testing.assert_allclose(drawn(ax)[:2], expected, rtol=0, atol=1e-12)
    (star,) = ax.get_lines()
    assert (star.get_xdata(), star.get_ydata()) == ([90.0], [60.0])


def test_global_state_is_left_as_it_was(plt):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plotting.plot_wavelengths(pe.RoPE(8, 100))
    plotting.plot_attention(np.zeros((2, 2)))
    assert dict(mpl.rcParams) == before
    assert len(plt.get_fignums()) == 2


def inside(ax, axis="x"):
    """Return the places of the ticks of an axis that are drawn."""
    low, high = sorted(getattr(ax, f"get_{axis}lim")())
    return [tick for tick in getattr(ax, f"get_{axis}ticks")() if low <= tick <= high]


def test_ticks_are_at_whole_positions_and_features(ax):
    plotting.plot_encoding(np.ones((3, 3)), ax=ax)
    assert (inside(ax), inside(ax, "y")) == ([0, 1, 2], [0, 1, 2])
    ax.clear()
    plotting.plot_encoding(np.ones((3, 3)), coordinates=np.asarray([0.1, 0.2, 0.3]), ax=ax)
    assert len(inside(ax)) > 2
    assert inside(ax, "y") == [0, 1, 2]
    ax.clear()
    assert plotting.plot_similarity(np.ones((3, 3)), ax=ax) is ax
    assert (inside(ax), inside(ax, "y")) == ([0, 1, 2], [0, 1, 2])
    ax.clear()
    plotting.plot_similarity(np.ones((3, 3)), coordinates=np.asarray([0.1, 0.2, 0.3]), ax=ax)
    assert len(inside(ax)) > 2
    for draw in (plotting.plot_rope_decay, plotting.plot_wavelengths):
        ax.clear()
        assert draw(pe.RoPE(6, 2), ax=ax) is ax
        assert inside(ax) == [0, 1, 2]


def test_markers_of_few_points(ax):
    for count, marker in ((32, "."), (33, "")):
        ax.clear()
        assert plotting.plot_similarity(np.ones((2, count)), reference=3, ax=ax) is ax
        assert ax.get_lines()[0].get_marker() == marker
        assert ax.get_xlim() == (0, count - 1)
    for pairs, marker in ((128, "."), (129, "")):
        ax.clear()
        plotting.plot_wavelengths(pe.RoPE(2 * pairs, 10), ax=ax)
        assert ax.get_lines()[0].get_marker() == marker


@pytest.mark.parametrize("size", [32, 33])
def test_cells_of_short_masks_have_borders(ax, size):
    plotting.plot_attention(pe.CausalMask(), 3, size, ax=ax)
    if size == 33:
        assert len(ax.xaxis.get_minorticklocs()) == 0
        return
    np.testing.assert_array_equal(ax.xaxis.get_minorticklocs(), np.arange(33) - 0.5)
    np.testing.assert_array_equal(ax.yaxis.get_minorticklocs(), np.arange(4) - 0.5)
    for tick in (*ax.xaxis.get_minor_ticks(), *ax.yaxis.get_minor_ticks()):
        assert tick.gridline.get_visible()
        assert tick.tick1line.get_markersize() == 0


def test_first_sequence_head_and_index_are_the_default(ax):
    numbers = np.arange(12.0).reshape(2, 2, 3) / 12
    plotting.plot_attention(numbers, kind="bias", ax=ax)
    np.testing.assert_array_equal(drawn(ax), numbers[:, :, 0])
    ax.clear()
    plotting.plot_attention(numbers, ax=ax)
    np.testing.assert_array_equal(drawn(ax), numbers[:, :, 0])
    ax.clear()
    plotting.plot_attention(numbers > 0.5, ax=ax)
    np.testing.assert_array_equal(drawn(ax), numbers[:, :, 0] > 0.5)


def test_colours_of_weights(ax):
    """Ticks are a tenth of the cube roots apart, and at digits 1, 2 and 5, whatever is largest."""
    assert plotting.plot_attention(np.asarray([[0.01, 1.0]]), ax=ax) is ax
    bar = ax.images[0].colorbar
    assert bar.get_ticks().tolist() == pytest.approx([0, 0.001, 0.01, 0.05, 0.2, 0.5, 1])
    ax.figure.canvas.draw()
    texts = [text.get_text() for text in bar.ax.get_yticklabels()]
    assert texts == ["0", "0.001", "0.01", "0.05", "0.2", "0.5", "1"]
    ax.clear()
    plotting.plot_attention(np.full((2, 4), 0.25), ax=ax)
    assert ax.images[0].get_clim() == (0.0, 0.25)
    ticks = ax.images[0].colorbar.get_ticks().tolist()
    assert ticks == pytest.approx([0, 0.001, 0.01, 0.05, 0.2])
    ax.clear()
    plotting.plot_attention(np.full((2, 4000), 0.00025), ax=ax)
    ticks = ax.images[0].colorbar.get_ticks().tolist()
    assert ticks == pytest.approx([0, 1e-6, 1e-5, 5e-5, 2e-4])
    ax.clear()
    plotting.plot_attention(np.asarray([[0.0, 1.01]]), ax=ax)  # of half precision
    for wrong in (1.02, -0.01):
        with pytest.raises(ValueError, match="`table` must be from 0 to 1, got numbers from "):
            plotting.plot_attention(np.asarray([[0.5, wrong]]), ax=ax)


@pytest.mark.parametrize("size", [100, 101])
def test_few_cells_are_sharp(ax, size):
    plotting.plot_encoding(np.ones((100, size)), ax=ax)
    assert ax.images[0].get_interpolation() == ("nearest" if size == 100 else "auto")
    assert tuple(ax.images[0].get_cmap().get_bad()) == (0, 0, 0, 0)


@pytest.mark.parametrize(("size", "means"), [(1000, ""), (1001, " (means of 2 positions)")])
def test_as_many_cells_as_a_picture_has(ax, size, means):
    plotting.plot_encoding(np.ones((1, size)), ax=ax)
    assert colour_bar(ax) == f"encoding{means}"


def test_distances_of_blocks(ax):
    for max_distance, count, first, last in (
        (999, 1000, 0, 999),
        (1000, 501, 0.5, 1000),
        (999_999, 1000, 499.5, 999_499.5),
        (2**40, 1000, None, None),
    ):
        ax.clear()
        plotting.plot_rope_decay(pe.RoPE(2, 10), max_distance=max_distance, ax=ax)
        distances = ax.get_lines()[0].get_xdata()
        assert len(distances) == count
        if first is None:
            assert distances[0] == pytest.approx(max_distance / 2000, rel=0.01)
        else:
            assert distances[[0, -1]].tolist() == [first, last]
        assert len(ax.collections) == (max_distance >= 1000)
        assert ax.get_xlim() == (0, max_distance)
    with pytest.raises(ValueError, match="`max_distance` must be at most 2"):
        plotting.plot_rope_decay(pe.RoPE(2, 10), max_distance=2**40 + 1, ax=ax)
    ax.clear()
    plotting.plot_rope_decay(pe.RoPE(2, 10), max_distance=4000, ax=ax)
    ax.figure.canvas.draw()
    assert "2,000" in [text.get_text() for text in ax.get_xticklabels()]


def test_contexts_are_named_where_few_lines_cross(ax):
    """At the left if most wavelengths are below; the lower one below its line."""
    ropes = {"a": pe.RoPE(8, 10), "b": pe.RoPE(8, 10_000)}
    plotting.plot_wavelengths(ropes, ax=ax)
    low, high = ax.texts
    assert (low.xy, low.get_ha(), low.get_va(), low.xyann) == ((0.98, 10), "right", "top", (0, -2))
    assert (high.xy, high.get_ha(), high.get_va()) == ((0.02, 10_000), "left", "bottom")
    assert high.xyann == (0, 2)
    ax.clear()
    # Two of four wavelengths are below 700: 6.3, 63, 628, 6283 positions.
    plotting.plot_wavelengths(pe.RoPE(8, 100), ax=ax)
    assert ax.texts[0].get_ha() == "right"
    # The wavelength is 6.3 positions.
    for length, side in ((6, "right"), (7, "left")):
        ax.clear()
        plotting.plot_wavelengths(pe.RoPE(2, length), ax=ax)
        assert ax.texts[0].get_ha() == side


def test_pairs_that_are_not_rotated_stand_at_the_top(ax):
    still = pe.RoPE(8, 100, scaling=pe.ProportionalScaling(0.5))
    plotting.plot_wavelengths(still, ax=ax)
    marks = ax.get_lines()[1]
    assert marks.get_ydata().tolist() == [0.97, 0.97]
    assert marks.get_transform() == ax.get_xaxis_transform()
    assert marks.get_fillstyle() == "none"
    assert not marks.get_clip_on()
    assert marks.get_color() == ax.get_lines()[0].get_color()


def test_steps_that_differ_are_drawn_at_their_places(ax):
    """Of steps of one size one column is drawn each; a last block may be longer than the others."""
    for times, right, count in (
        (np.arange(100) * 1e6 / 3, 99.5e6 / 3, 100),
        (np.asarray([0.0, 1.0, 3.0, 3.5]), 3.75, 1000),
        (np.asarray([0.0, 1.0, 2.0, 2.5]), 2.75, 1000),
        (np.asarray([0.0, 2.0, 4.0, 7.0]), 8.5, 1000),
        (np.asarray([*range(1999), 2000]), 2001, 1000),
    ):
        ax.clear()
        numbers = np.arange(float(times.size))
        plotting.plot_encoding(numbers[None], coordinates=times, ax=ax)
        assert drawn(ax, (1, count)).shape == (1, count)
        assert ax.images[0].get_extent()[1] == pytest.approx(right, rel=1e-5)
        if times.size > 4:
            continue
        for x, number in zip(times, numbers, strict=True):
            assert ax.images[0].get_cursor_data(Event(ax, x, 0)) == pytest.approx(number)


def test_one_place_has_one_tick(ax):
    plotting.plot_encoding(np.ones((1, 1)), ax=ax)
    assert (inside(ax), inside(ax, "y")) == ([0], [0])
    ax.clear()
    plotting.plot_wavelengths(pe.RoPE(2, 9), ax=ax)
    assert inside(ax) == [0]


def test_the_distances_of_a_long_block_are_uneven(ax):
    """From 1,001 distances on, a block is drawn by 1,000 of them, by the golden ratio."""
    plotting.plot_rope_decay(pe.RoPE(2, 10), max_distance=1_000_999, ax=ax)
    golden = (1 + math.sqrt(5)) / 2
    distances = [math.floor(1001 * (i * golden % 1)) for i in range(1000)]
    (line,) = ax.get_lines()
    assert line.get_xdata()[0] == pytest.approx(sum(distances) / 1000, rel=1e-12)
    score = sum(map(math.cos, distances)) / 1000
    assert line.get_ydata()[0] == pytest.approx(score, abs=1e-12)


def test_styles_of_many_lines(ax):
    """28 lines differ in colour or dashes, and those that follow are like the first ones."""
    plotting.plot_rope_decay({f"{i}": pe.RoPE(2, 9) for i in range(30)}, ax=ax)
    styles = [(line.get_color(), line.get_linestyle()) for line in ax.get_lines()]
    assert len(set(styles)) == 28
    assert styles[28:] == styles[:2]


def test_scores_are_square_up_to_four_times_as_many_keys(ax):
    for keys, aspect in ((8, 1), (9, "auto")):
        ax.clear()
        plotting.plot_attention(np.zeros((2, keys)), kind="bias", ax=ax)
        assert ax.get_aspect() == aspect


@pytest.mark.parametrize("keys", [8000, 2**22 + 2])
def test_long_masks_take_little_memory(ax, monkeypatch, keys):
    """Of at most 2**22 numbers, or one row of cells, at a time."""
    parts = []

    def dense(_, q_len, *_lengths, **_options):
        parts.append(q_len)
        return np.zeros((q_len, 1, 1), dtype=bool).repeat(2, axis=1)

    monkeypatch.setattr(pe.CausalMask, "dense", dense)
    queries = 8000 if keys == 8000 else 3
    plotting.plot_attention(pe.CausalMask(), queries, keys, ax=ax)
    assert sum(parts) == queries
    if keys == 8000:
        # 8 queries are a row of cells, and 65 rows the most below the bound.
        assert parts == [520] * 15 + [200]
    else:
        assert parts == [1, 1, 1]


def test_index_of_the_first_of_several_axes(ax):
    weights = np.arange(24.0).reshape(2, 3, 2, 2) / 24
    plotting.plot_attention(weights, index=1, key_axis=1, ax=ax)
    np.testing.assert_array_equal(drawn(ax), weights[:, :, 1, 0])


def test_map_of_a_few_or_many_dots(ax):
    """Dots at the border are whole, and smaller and without edges where they are many."""
    latitude = np.asarray([90.0, -90.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    longitude = np.asarray([180.0, -180.0, 180.5, -180.5, 200.0, 361.0, 0.5])
    features = np.random.default_rng(0).standard_normal((3, 7))
    plotting.plot_similarity(features, coordinates=(latitude, longitude), reference=0, ax=ax)
    expected = [180.0, -180.0, -179.5, 179.5, -160.0, 1.0, 0.5]
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], expected)
    np.testing.assert_array_equal(ax.collections[0].get_offsets()[:, 1], latitude)
    (star,) = ax.get_lines()
    assert not star.get_clip_on()
    bar = ax.collections[0].colorbar
    assert bar.ax.get_xlabel() == "cosine similarity to the star"
    for count, size in ((3, 120), (1000, 60), (1001, 60_000 / 1001), (20_000, 6)):
        ax.clear()
        # On one latitude they are no grid.
        points = np.full(count, 10.0), np.linspace(-170, 170, count)
        plotting.plot_similarity(np.ones((2, count)), coordinates=points, reference=0, ax=ax)
        assert not ax.images
        (dots,) = ax.collections
        assert dots.get_sizes().tolist() == pytest.approx([size], rel=1e-12)
        assert len(dots.get_edgecolors()) == (count <= 1000)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        # -180 and 180 degrees are one place.
        (
            [-180, -90, 0, 90, 180],
            {-179: 0, -136: 0, -134: 1, -46: 1, -44: 2, 46: 3, 134: 3, 136: 0, 179: 0},
        ),
        # A region ends half a step after its last column, also beyond the date line.
        (
            [100, 140, 179],
            {79: None, 81: 0, 121: 1, 179: 2, -179: 2, -161.7: 2, -161.4: None, 0: None},
        ),
        # A region that begins before the date line, and ends after it.
        (
            [-140, -100, 150],
            {114.5: None, 115.2: 2, 179: 2, -179: 2, -175.5: 2, -174.5: 0}
            | {-120.5: 0, -119.5: 1, -80.5: 1, -79.5: None, 0: None},
        ),
        # A grid around the Earth begins after its widest gap.
        (
            [-180, -119.5, -60, 0, 60, 120],
            {-150.5: 0, -149.6: None, -149: 1, -90: 1, -89: 2, 89: 4, 91: 5, 149: 5, 151: 0},
        ),
    ],
)
def test_columns_of_a_map(ax, columns, expected):
    latitude, longitude = np.meshgrid([-45.0, 45.0], columns, indexing="ij")
    features = np.random.default_rng(0).standard_normal((4, longitude.size))
    points = latitude.ravel(), longitude.ravel()
    plotting.plot_similarity(features, coordinates=points, reference=1, ax=ax)
    for x, column in expected.items():
        for row, y in enumerate((-44, 44)):
            over = [i for i in ax.images if i.get_extent()[0] < x < i.get_extent()[1]]
            format_value = [image.get_cursor_data(Event(ax, x, y)) for image in over]
            if column is None:
                assert not format_value
            else:
                number = row * len(columns) + column
                similar = cosine(features[:, number], features[:, 1])
                assert format_value == pytest.approx([similar] * len(format_value), abs=1e-12)
                assert format_value


def test_weights_of_heads_need_the_axis_of_the_keys(ax):
    weights = pe.attention_weights(np.eye(16), np.eye(16))
    heads = np.stack([weights] * 8)
    with pytest.raises(
        ValueError, match=r"for an ambiguous shape, got \(8, 16, 16\). Pass key_axis=-1"
    ):
        plotting.plot_attention(heads, ax=ax)
    plotting.plot_attention(heads, key_axis=-1, ax=ax)


def test_weights_that_sum_to_one_along_the_last_axis_need_the_axis_of_the_keys(ax):
    rng = np.random.default_rng(0)
    weights = pe.attention_weights(*rng.standard_normal((2, 8, 12)))[:10]
    with pytest.raises(ValueError, match=r"for an ambiguous shape, got \(4, 10, 12\)"):
        plotting.plot_attention(np.stack([weights] * 4), ax=ax)
    plotting.plot_attention(np.stack([weights] * 4, axis=-1), ax=ax)


@pytest.mark.parametrize("kind", ["weights", "uniform", "mask", "bias"])
def test_as_many_heads_as_positions_need_the_axis_of_the_keys(ax, kind):
    """Weights of (query, key, heads) are told by their sums, if these are not 1 by both axes."""
    rng = np.random.default_rng(0)
    weights = pe.attention_weights(*rng.standard_normal((2, 8, 10)))
    table = {
        "weights": weights,
        "uniform": np.full((10, 10), 0.1),
        "mask": weights > 0.1,
        "bias": np.log(weights),
    }[kind]
    options = {"kind": "bias"} if kind == "bias" else {}
    heads_first, heads_last = (np.stack([table] * 10, axis=i) for i in (0, -1))
    for heads in (heads_first, heads_last)[: 1 if kind == "weights" else 2]:
        with pytest.raises(ValueError, match=r"`key_axis` must be given .*, got \(10, 10, 10\)"):
            plotting.plot_attention(heads, ax=ax, **options)
    plotting.plot_attention(heads_first, key_axis=-1, ax=ax, **options)
    np.testing.assert_array_equal(drawn(ax), table)
    ax.clear()
    options |= {} if kind == "weights" else {"key_axis": 1}
    plotting.plot_attention(heads_last, ax=ax, **options)
    np.testing.assert_array_equal(drawn(ax), table)


def test_an_encoding_that_is_no_array_names_its_embeddings(ax):
    with pytest.raises(
        TypeError, match=r"must be an array, got .*AbsolutePE. Pass encoding.embeddi"
    ):
        plotting.plot_encoding(pe.AbsolutePE(8, 16), ax=ax)


@pytest.mark.parametrize("frequencies", [[1.0, 0.3], [[1.0], [0.3]]])
def test_a_kernel_of_one_coordinate_is_a_line(ax, frequencies):
    features = pe.FourierFeatures(frequencies, weights=[1.0, 3.0], phases=2.0)
    assert plotting.plot_kernel(features, 20, label="difference (days)", ax=ax) is ax
    ((x, y),) = (line.get_data() for line in ax.get_lines())
    assert (x[0], x[1000], x[-1]) == (-20, 0, 20)
    np.testing.assert_allclose(y, (np.cos(x) + 3 * np.cos(0.3 * x)) / 4, rtol=0, atol=1e-14)
    assert labels(ax) == ("difference (days)", "kernel")


def test_a_kernel_of_a_plane_is_a_map(ax):
    features = pe.FourierFeatures([[1.0, 0.5], [0.0, 2.0]])
    plotting.plot_kernel(features, 3, ax=ax)
    for x, y in ((0, 0), (1, 2), (-2.5, 0.4)):
        values = [image.get_cursor_data(Event(ax, x, y)) for image in ax.images]
        assert values == pytest.approx([(math.cos(x + y / 2) + math.cos(2 * y)) / 2], abs=0.05)
    assert labels(ax) == ("difference, x", "difference, y")
    assert colour_bar(ax) == "kernel"


def test_kernels_of_the_regressor_are_lines(ax):
    skl = pytest.importorskip("positional_embeddings.sklearn")
    kernel = skl.GaussianKernel("4D") + skl.PeriodicKernel("week", "2D")
    plotting.plot_kernel(kernel, 20, ax=ax)
    (x, gaussian), (_, periodic) = (line.get_data() for line in ax.get_lines())
    np.testing.assert_allclose(gaussian, np.exp(-(x**2) / 32), rtol=0, atol=1e-12)
    angle, width = 2 * np.pi * x / 7, 2 * np.pi * 2 / 7
    np.testing.assert_allclose(periodic, np.exp((np.cos(angle) - 1) / width**2), rtol=0, atol=1e-9)
    assert labels(ax) == ("difference", "weight")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "GaussianKernel(length_scale='4D')",
        "PeriodicKernel(length_scale='2D', period='week')",
    ]


def test_a_kernel_of_the_sphere_is_a_line_of_degrees(ax):
    skl = pytest.importorskip("positional_embeddings.sklearn")
    plotting.plot_kernel(
        skl.SphereKernel(9.0, columns=["lon", "lat"], kernel="gaussian"), 90, ax=ax
    )
    ((x, y),) = (line.get_data() for line in ax.get_lines())
    chord = 2 * np.sin(np.radians(x) / 2) / np.radians(9)
    np.testing.assert_allclose(y, np.exp(-(chord**2) / 2), rtol=0, atol=1e-12)
    plotting.plot_kernel(skl.MaternKernel([1.0, 2.0], nu=0.5), 3, ax=ax)
    assert ax.get_lines()[-1].get_label().endswith(", column 1")
    with pytest.raises(ValueError, match=r"must be a number or a span, got 'loo'. Pass `kernel_`"):
        plotting.plot_kernel(skl.GaussianKernel(), 3, ax=ax)
