"""Time functions in alternation, and measure their peak memory."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from statistics import quantiles
from time import perf_counter, process_time, sleep
from typing import Any

Run = Callable[[], Any]


@dataclass(frozen=True)
class Rounds:
    """How often to time each contender."""

    least: int = 5
    most: int = 100
    budget: float = 0.8  # seconds of a contender within these bounds, untimed calls included
    sample: float = 1e-3  # shortest time of a sample: quicker functions are called repeatedly
    # Seconds before each sample: threads of one library keep spinning for some milliseconds
    # after their work, which slows those of the next one.
    pause: float = 0.0


QUICK = Rounds(least=3, most=3, budget=0.02, sample=2e-4)


def round_robin(
    runs: dict[str, Run], rounds: Rounds, sync: Run | None = None
) -> dict[str, dict[str, float]]:
    """Alternate the functions, so that what disturbs the machine disturbs all alike.

    Slow ones take part in fewer rounds, spread evenly over all of them. Each round
    starts with another function; `sync` waits for a device. Before each sample there is
    one call that is not timed: it wakes up threads, and gets back memory that a virtual
    machine may have given away.
    """
    calls, counts = {}, {}
    for name, run in runs.items():
        calls[name], duration = _calls_of_sample(run, rounds.sample, sync)
        affordable = int(rounds.budget / (duration + duration / calls[name] + rounds.pause))
        counts[name] = min(max(affordable, rounds.least), rounds.most)
    samples: dict[str, list[float]] = {name: [] for name in runs}
    names, total = list(runs), max(counts.values(), default=0)
    for number in range(total):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            count = counts[name]
            if number * count // total != (number + 1) * count // total:
                sleep(rounds.pause)
                seconds(runs[name], 1, sync)
                samples[name].append(seconds(runs[name], calls[name], sync) / calls[name])
    return {name: summary(samples[name]) for name in names}


def _calls_of_sample(run: Run, shortest: float, sync: Run | None) -> tuple[int, float]:
    """Return how many calls make a sample, and the seconds of that sample."""
    calls = 1
    duration = seconds(run, calls, sync)
    while duration < shortest:
        calls = max(2 * calls, ceil(calls * min(shortest / duration, 10)))
        duration = seconds(run, calls, sync)
    return calls, duration


def seconds(run: Run, calls: int = 1, sync: Run | None = None) -> float:
    """Return the seconds that these calls take, without garbage collection."""
    gc.disable()
    try:
        start = perf_counter()
        for _ in range(calls):
            run()
        if sync is not None:
            sync()
        return perf_counter() - start
    finally:
        gc.enable()


def summary(samples: list[float]) -> dict[str, float]:
    """Return median and quartiles."""
    q1, median, q3 = quantiles(samples, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3}


def peak_memory(run: Run) -> int:
    """Return the largest number of bytes that Python and NumPy held during a call."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = run()
        _, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return peak - before


def least_times(calls: tuple[Run, Run], seconds: float) -> list[float]:
    """Return the least time of each call, made in turn for at least these seconds."""
    times: list[list[float]] = [[], []]
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[0]) < 3:
        for call, of_call in zip(calls, times, strict=True):
            start = process_time()
            call()
            of_call.append(process_time() - start)
    return list(map(min, times))
