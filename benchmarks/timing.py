"""Time functions side by side, and take the memory that they need."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from statistics import quantiles
from time import perf_counter, sleep
from typing import Any

Run = Callable[[], Any]


@dataclass(frozen=True)
class Rounds:
    """How often to time each contender.

    Attributes
    ----------
    least, most : int
        Bounds on the number of rounds.
    budget : float
        Seconds for a contender, within these bounds, with the calls that are not timed.
    sample : float
        Shortest time of one sample in seconds: quicker functions are called repeatedly.
    pause : float
        Seconds before each sample. Threads of one library keep spinning for some
        milliseconds after their work, in the way of those of the next one.
    """

    least: int = 5
    most: int = 100
    budget: float = 0.8
    sample: float = 1e-3
    pause: float = 0.0


QUICK = Rounds(least=3, most=3, budget=0.02, sample=2e-4)


def round_robin(
    runs: dict[str, Run], rounds: Rounds, sync: Callable[[], None] | None = None
) -> dict[str, dict[str, Any]]:
    """Time the functions in turns, so that what disturbs the machine disturbs all alike.

    Slow ones take part in fewer rounds, spread evenly over all of them. Each round
    starts with another function. Before each sample there is one call that is not timed:
    it wakes up threads, and gets back memory that a virtual machine may have given away.

    Parameters
    ----------
    runs : dict
        Functions by name.
    rounds : Rounds
        How often.
    sync : callable, optional
        Waits for a device, after the calls of each sample.

    Returns
    -------
    dict
        Median and quartiles of the seconds of a call, and the number of rounds and of
        calls in each, by name.
    """
    calls, counts = {}, {}
    for name, run in runs.items():
        calls[name], seconds = _calls_of_sample(run, rounds.sample, sync)
        affordable = int(rounds.budget / (seconds + seconds / calls[name] + rounds.pause))
        counts[name] = min(max(affordable, rounds.least), rounds.most)
    samples: dict[str, list[float]] = {name: [] for name in runs}
    names, total = list(runs), max(counts.values(), default=0)
    for turn in range(total):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            count = counts[name]
            if turn * count // total != (turn + 1) * count // total:
                sleep(rounds.pause)
                _sample(runs[name], 1, sync)
                samples[name].append(_sample(runs[name], calls[name], sync) / calls[name])
    return {name: _summary(samples[name], calls[name]) for name in names}


def _calls_of_sample(
    run: Run, shortest: float, sync: Callable[[], None] | None
) -> tuple[int, float]:
    """Return how many calls make a sample, and the seconds of that sample."""
    calls = 1
    seconds = _sample(run, calls, sync)
    while seconds < shortest:
        calls = max(2 * calls, ceil(calls * min(shortest / seconds, 10)))
        seconds = _sample(run, calls, sync)
    return calls, seconds


def _sample(run: Run, calls: int, sync: Callable[[], None] | None) -> float:
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


def _summary(samples: list[float], calls: int) -> dict[str, Any]:
    """Return median and quartiles."""
    q1, median, q3 = quantiles(samples, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3, "rounds": len(samples), "calls": calls}


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
