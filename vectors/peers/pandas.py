"""pandas: cycles of dates from its periods, as a recipe."""

from typing import Any

import numpy as np
import pandas as pd

TITLE = "pandas"
PACKAGES = ("pandas",)
DTYPES = ["float64"]
FREQUENCIES = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}


def calendar(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    times = pd.to_datetime(x["times"], utc=p["time_zone"] is not None, format="ISO8601")
    if p["time_zone"]:
        times = times.tz_convert(p["time_zone"]).tz_localize(None)
    period = times.to_period(FREQUENCIES[p["period"]])
    start, end = period.start_time, (period + 1).start_time
    angle = 2 * np.pi * np.asarray((times - start) / (end - start))
    waves = [f(h * angle) for h in range(1, p["harmonics"] + 1) for f in (np.sin, np.cos)]
    return {"encoding": np.stack(waves, axis=1)}


def days_since(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    is_utc = "+" in p["origin"]
    times = pd.to_datetime([p["origin"], *x["times"]], utc=is_utc, format="ISO8601")
    return {"days": np.asarray((times[1:] - times[0]) / pd.Timedelta(days=1))}


FUNCTIONS = {"calendar": calendar, "days_since": days_since}
