"""The examples are run, and give the results that they tell of."""

import importlib.util
import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import oracles

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def packed_output():
    command = [sys.executable, "-W", "error", str(EXAMPLES / "packed_attention.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def co2():
    yield from loaded("co2")


@pytest.fixture(scope="module")
def pictures():
    pytest.importorskip("matplotlib", reason="the group test lacks Matplotlib")
    yield from loaded("pictures")


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


def test_co2_record(co2):
    dates, record = co2.read_record(co2.DATA)
    assert len(dates) == record.years.size == record.co2.size == 2284
    assert np.isnan(record.co2).sum() == 59
    assert np.all(np.diff(record.years) > 0)


def test_co2_attention_beats_a_straight_line_in_gaps_of_a_season(co2):
    _, record = co2.read_record(co2.DATA)
    missing = np.isnan(record.co2)
    gap = co2.cut_gaps(missing.size, 13, 1, np.random.default_rng(0))
    hidden, wanted = gap | missing, gap & ~missing
    assert wanted.sum() > 100
    truth = record.co2[wanted]
    # What lies in the gaps must not be read.
    blank = co2.Record(record.years, np.where(hidden, np.nan, record.co2))
    filled = co2.fill(blank, hidden, wanted, co2.Widths(2, 0.01, 8, 0.2))
    seen = ~hidden
    line = np.interp(record.years[wanted], record.years[seen], record.co2[seen])

    def error(guess):
        return np.sqrt(np.mean((guess - truth) ** 2))

    assert error(filled) < 0.75 * error(line)
    assert error(filled) < 0.6  # ppm


@pytest.fixture
def clock(co2, monkeypatch):
    """Return a clock of the example that goes forward by hand."""
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(co2, "time", clock)
    return clock


def test_co2_choosing_tells_how_far_it_is(co2, clock, monkeypatch, capsys):
    """One line after each of two widths, on stderr: what it prints for people stays as it is."""
    _, host = co2.read_record(co2.DATA)
    gap = co2.cut_gaps(host.co2.size, 13, 0, np.random.default_rng(0))
    for name, widths in {"TREND": (2.0, 8.0), "SEASON": (0.01,), "MEMORY": (8.0,)}.items():
        monkeypatch.setattr(co2, f"{name}_WIDTHS", widths)
    monkeypatch.setattr(co2, "LOCAL_WIDTHS", (0.2,))
    trend = co2.trend

    def slow(*arguments):
        clock.now += 4
        return trend(*arguments)

    monkeypatch.setattr(co2, "trend", slow)
    chosen = co2.choose_widths(host, host, [gap])
    assert chosen == co2.Widths(2.0, 0.01, 8.0, 0.2)
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.split("\n") == [
        "   50% done, about 4 s left",
        "  100% done, about 0 s left",
        "",
    ]


def test_progress_is_a_line_every_few_seconds_in_a_log(co2, clock, capsys):
    items = list("abcdefgh")
    seen = []
    for item in co2.show_progress(items):
        seen.append(item)
        clock.now += 1.25
    assert seen == items
    assert capsys.readouterr().err.splitlines() == [
        "   38% done, about 6 s left",
        "   75% done, about 2 s left",
    ]


def test_progress_is_a_bar_on_a_terminal(co2, clock, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in co2.show_progress(range(3)):
        clock.now += 1
    *_, first, second, last, blank, end = terminal.getvalue().split("\r")
    assert first.rstrip() == f"  [{10 * '#'}{20 * '.'}]   33% done, about 2 s left"
    assert second.rstrip() == f"  [{20 * '#'}{10 * '.'}]   67% done, about 1 s left"
    assert last.rstrip() == f"  [{30 * '#'}]  100% done, about 0 s left"
    assert not blank.strip()
    assert len(blank) >= len(last)
    assert not end


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
    path = tmp_path / "overview.png"
    pictures.overview().savefig(path, dpi=130)
    before, size = pictures.Image.open(path).convert("RGB"), path.stat().st_size
    pictures.shrink(path)
    after = pictures.Image.open(path).convert("RGB")
    assert path.stat().st_size < size / 2
    assert np.abs(np.asarray(after, dtype=int) - np.asarray(before, dtype=int)).mean() < 1
