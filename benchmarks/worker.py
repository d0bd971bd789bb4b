"""The process that measures under one limit of threads."""

from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing import QUICK, Rounds

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

PAUSE = 5e-3
# Module and function of each topic, and whether threads make a difference to it.
TOPICS = {
    "rotation": ("bench_rotation", "rotation", True),
    "complex": ("bench_rotation", "complex_numbers", True),
    "decoding": ("bench_rotation", "decoding", True),
    "attention": ("bench_attention", "attention", True),
    "tables": ("bench_tables", "tables", False),
    "masks": ("bench_masks", "masks", False),
    "biases": ("bench_masks", "biases", False),
    "import": ("bench_import", "importing", False),
}


def work(connection: "Connection", topics: list[str], threads: int, *, quick: bool) -> None:
    """Measure the topics, and send the number of cases, each case's name and its result."""
    rounds = replace(QUICK if quick else Rounds(), pause=0 if threads == 1 else PAUSE)
    with ExitStack() as stack:
        _limit_torch(threads, stack)
        builders = []
        for topic in topics:
            module, function, _ = TOPICS[topic]
            builders += getattr(import_module(module), function)(threads, quick=quick)
        connection.send(("total", len(builders)))
        for name, measure in builders:
            connection.send(("case", name))
            connection.send(("result", _outcome(name, measure, rounds) | {"threads": threads}))
    connection.close()


def _limit_torch(threads: int, stack: ExitStack) -> None:
    """Set PyTorch's threads, and enter inference mode: to do so by call costs a microsecond."""
    try:
        torch = import_module("torch")
    except ImportError:
        return
    torch.set_num_threads(threads)
    stack.enter_context(torch.inference_mode())


def _outcome(name: str, measure: Any, rounds: Rounds) -> dict[str, Any]:
    try:
        outcome: dict[str, Any] = measure(rounds)
    except Exception as error:  # noqa: BLE001 - the other cases are worth having
        topic = name.partition(" ")[0]
        failed = f"{type(error).__name__}: {error}"
        return {"topic": topic, "case": name, "failed": failed, "contenders": {}}
    return outcome
