"""Phases of calendar times and times since an origin, by Python's own datetime and integers."""

# ruff: noqa: E501 - one line for each message

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from positional_embeddings.times.calendar import cycles_of, days_between
from wrong_inputs import make_test

MICROSECOND = timedelta(microseconds=1)
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9998, 12, 31))  # noqa: DTZ001 - wall clocks
SPANS = st.timedeltas(MICROSECOND, timedelta(days=800))


def exact_phase(time, period):
    """Return the phase by whole microseconds."""
    if period in (parts := {"month": 1, "quarter": 3, "year": 12}):
        months = parts[period]
        first = (time.month - 1) // months * months
        start = datetime(time.year, first + 1, 1)  # noqa: DTZ001
        last = first + months
        end = datetime(time.year + last // 12, last % 12 + 1, 1)  # noqa: DTZ001
        return Fraction((time - start) // MICROSECOND, (end - start) // MICROSECOND)
    midnight = datetime(time.year, time.month, time.day)  # noqa: DTZ001
    if period == "day":
        return Fraction((time - midnight) // MICROSECOND, 86_400 * 10**6)
    if period == "week":
        since = (time - midnight) + timedelta(days=time.weekday())
        return Fraction(since // MICROSECOND, 7 * 86_400 * 10**6)
    since = (time - datetime(1970, 1, 1)) // MICROSECOND  # noqa: DTZ001
    return Fraction(since, period // MICROSECOND) % 1


@given(TIMES, st.sampled_from(["day", "week", "month", "quarter", "year"]) | SPANS)
def test_phases_are_those_of_exact_fractions(time, period):
    (phase,) = cycles_of(np.asarray([time], dtype="datetime64[us]"), period)
    assert 0 <= phase < 1
    assert abs(Fraction(float(phase)) - exact_phase(time, period)) <= Fraction(1, 2**53)


@given(TIMES, TIMES)
@example(datetime(1999, 12, 31, 23, 59, 59, 999_999), datetime(2000, 1, 1))  # noqa: DTZ001
def test_days_since_an_origin_are_those_of_exact_fractions(time, origin):
    since = days_between(np.asarray(time, dtype="datetime64[us]"), np.datetime64(origin))
    exact = Fraction((time - origin) // MICROSECOND, 86_400 * 10**6)
    assert abs(Fraction(float(since)) - exact) <= abs(exact) / 2**52


LENGTHS = {"as": 1, "fs": 10**3, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15}
LENGTHS |= {"s": 10**18, "m": 60 * 10**18, "h": 3600 * 10**18, "D": 24 * 3600 * 10**18}
LENGTHS |= {"W": 7 * LENGTHS["D"]}
TICKS = st.integers(-(2**62), 2**62)


@given(TICKS, st.sampled_from([*LENGTHS]), TICKS, st.sampled_from([*LENGTHS]), st.booleans())
@example(128_678, "ps", -(2**58), "D", False)
@example(0, "s", 2**40, "D", True)
@example(0, "D", -5_970_536_931, "as", True)
def test_every_unit_since_an_origin(tick, unit, origin, origin_unit, is_vector):
    time = np.asarray([tick] if is_vector else tick).astype(f"datetime64[{unit}]")
    since = days_between(time, np.datetime64(origin, origin_unit))
    assert since.shape == time.shape
    length = tick * LENGTHS[unit] - origin * LENGTHS[origin_unit]
    exact = Fraction(length, LENGTHS["D"])
    assert abs(Fraction(float(since.sum())) - exact) <= 3 * abs(exact) / 2**53


def phase_of_attoseconds(since, period):
    """Return the phase of a number of attoseconds since 1970, by integers and `datetime.date`."""
    days, rest = divmod(since, LENGTHS["D"])
    day = date(1970, 1, 1) + timedelta(days % 146_097)  # the calendar repeats after 400 years
    start, end = {
        "day": (day, day + timedelta(1)),
        "week": (day - timedelta(day.weekday()), day + timedelta(7 - day.weekday())),
        "year": (date(day.year, 1, 1), date(day.year + 1, 1, 1)),
    }[period]
    return Fraction((day - start).days * LENGTHS["D"] + rest, (end - start).days * LENGTHS["D"])


LAST = 2**63 - 1


@pytest.mark.parametrize("unit", LENGTHS)
@pytest.mark.parametrize("tick", [-LAST, 1 - LAST, -1, 0, 1, LAST - 1, LAST])
def test_first_and_last_times_of_every_unit(tick, unit):
    one, since = np.datetime64(tick, unit), tick * LENGTHS[unit]
    missing = np.datetime64("NaT", unit)
    for times in (one, np.asarray(one), np.asarray([one]), np.asarray([[one, missing]])):
        for period in ("day", "week", "year"):
            phases = cycles_of(times, period)
            assert isinstance(phases, np.ndarray)
            assert (phases.shape, phases.dtype) == (times.shape, np.float64)
            phase = Fraction(float(phases.flat[0]))
            assert phase < 1
            assert abs(phase - phase_of_attoseconds(since, period)) <= Fraction(1, 2**52)
            assert np.isnan(phases.flat[1:]).all()
        for origin, origin_unit in ((-LAST, "W"), (LAST, "ns"), (tick, unit), (-LAST, unit)):
            counts = days_between(times, np.asarray(np.datetime64(origin, origin_unit)))
            assert isinstance(counts, np.ndarray)
            assert (counts.shape, counts.dtype) == (times.shape, np.float64)
            exact = Fraction(since - origin * LENGTHS[origin_unit], LENGTHS["D"])
            assert abs(Fraction(float(counts.flat[0])) - exact) <= 3 * abs(exact) / 2**53
            assert np.isnan(counts.flat[1:]).all()


# NumPy 2.5 deprecates times without a unit.
without_a_unit = pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")


@without_a_unit
@pytest.mark.parametrize("unit", [*LENGTHS, "Y", "M", "generic"])
def test_one_missing_time(unit):
    for missing in (np.datetime64("NaT", unit), np.asarray(np.datetime64("NaT", unit))):
        for period in ("day", "week", "year", timedelta(hours=5)):
            assert np.isnan(cycles_of(missing, period)).shape == ()
            assert np.isnan(cycles_of(missing, period))
        assert np.isnan(days_between(missing, np.datetime64(0, "s")))


UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "7D", "25s", "5M"]


@pytest.mark.parametrize("unit", UNITS)
@without_a_unit
@pytest.mark.parametrize("period", ["day", "week", "year", timedelta(hours=36, seconds=7)])
def test_every_unit_of_numpy(unit, period):
    ticks = np.arange(-7, 8) * (1_234_567 if unit in ("s", "25s", "m") else 1)
    times = ticks.astype(f"datetime64[{unit}]")
    expected = [
        float(exact_phase(time, period)) for time in times.astype("datetime64[us]").tolist()
    ]
    got = cycles_of(times, period)
    if unit == "ns":  # finer than Python's microseconds
        assert np.abs((got - expected + 0.5) % 1 - 0.5).max() < 2e-11
    else:
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-15)


def test_nanoseconds_and_finer():
    times = np.asarray([-1, 0, 1], dtype="datetime64[ns]")
    day, year = 86_400 * 10**9, 365 * 86_400 * 10**9
    assert cycles_of(times, "day").tolist() == [(day - 1) / day, 0, 1 / day]
    assert cycles_of(times, "year").tolist() == [np.nextafter(1, 0), 0, 1 / year]
    assert cycles_of(times.astype("datetime64[as]"), "year")[2] == 1 / year
    assert days_between(times, np.datetime64("1970-01-01")).tolist() == [-1 / day, 0, 1 / day]


def test_a_year_is_as_long_as_it_is():
    times = np.asarray(["2023-07-02T12", "2024-07-02", "1900-07-02T12", "2000-07-02"], "M8[h]")
    assert cycles_of(times, "year").tolist() == [0.5] * 4


def test_far_years_are_exact():
    far = np.datetime64(400 * 10**13, "Y")
    for period in ("day", "week", "year"):
        near = cycles_of(np.asarray("2024-05-06T07", "M8[h]"), period)
        shifted = np.asarray(
            far.astype("M8[D]") + (np.datetime64("2024-05-06") - np.datetime64(0, "D"))
        )
        hour = 7 / 24 / {"day": 1, "week": 7, "year": 366}[period]
        np.testing.assert_allclose(cycles_of(shifted, period) + hour, near, atol=1e-15)


def test_shapes_and_missing_times():
    times = np.asarray([["2024-01-01T06", "NaT"]], dtype="datetime64[h]")
    np.testing.assert_array_equal(cycles_of(times, "day"), [[0.25, np.nan]])
    np.testing.assert_array_equal(
        days_between(times, np.datetime64("2024-01-01")), [[0.25, np.nan]]
    )
    for period in ("day", "year"):
        assert cycles_of(times[0, 0], period).shape == ()
        assert cycles_of(times[:, :0], period).shape == (1, 0)
        assert cycles_of(times, period).dtype == np.float64
    assert np.isnan(cycles_of(np.asarray(["NaT"], "datetime64[s]"), "week")).all()


def test_pandas_spans_count_nanoseconds():
    import pandas as pd

    times = np.asarray([1, 2], dtype="datetime64[ns]")
    assert cycles_of(times, pd.Timedelta(4, "ns")).tolist() == [0.25, 0.5]
    assert cycles_of(times, pd.Timedelta("12h").as_unit("s"))[0] > 0


def test_utc_time_stamps():
    now = datetime(2031, 8, 9, 10, 11, 12, tzinfo=UTC)
    days = days_between(np.datetime64(now.replace(tzinfo=None)), np.datetime64(0, "s"))
    assert days == now.timestamp() / 86_400


DATES = np.asarray(["2024-01-01"], dtype="datetime64[D]")
VALUE_ERRORS = {
    "cycles_of(DATES, timedelta(0))": "`period` must be above zero, got datetime.timedelta(0).",
    "cycles_of(DATES, np.timedelta64(1, 'M'))": "`period` must be a span of time of fixed length, got np.timedelta64(1,'M').",
    "cycles_of(DATES, np.timedelta64('NaT', 's'))": "`period` must be a span of time of fixed length, got np.timedelta64('NaT','s').",
    "cycles_of(np.asarray([10**17], 'M8[Y]'), 'day')": "`times` must be within the years of datetime64[D], got dtype datetime64[Y].",
    "cycles_of(np.zeros((), 'M8'), 'day')": "`times` must have a unit, got dtype datetime64.",
    "days_between(DATES, DATES)": "`origin` must be one date, got numpy.ndarray of shape (1,).",
    "days_between(DATES, np.datetime64('NaT', 's'))": f"`origin` must be one date, got {np.datetime64('NaT', 's')!r}.",
}
TYPE_ERRORS = {
    "cycles_of(ones(3), 'day')": "`times` must be NumPy datetime64, got numpy.ndarray of shape (3,).",
    "cycles_of('2024', 'day')": "`times` must be NumPy datetime64, got '2024'.",
    "days_between(DATES, 0)": "`origin` must be NumPy datetime64, got 0.",
}

test_messages = make_test(
    VALUE_ERRORS,
    TYPE_ERRORS,
    cycles_of=cycles_of,
    days_between=days_between,
    DATES=DATES,
    timedelta=timedelta,
)


def test_times_since_an_origin_at_the_ends_of_64_bits():
    """Sums beyond 64 bits are exact, and each number is rounded once."""
    last, before = np.datetime64(2**63 - 1, "as"), np.datetime64(-1, "as")
    assert days_between(last, before) == 2**63 / LENGTHS["D"]
    tick = 2**54 + 3
    assert days_between(np.datetime64(tick, "D"), np.datetime64(0, "ns")) == float(tick)
