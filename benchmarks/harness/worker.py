"""A process of its own for each number of threads: what measures in it, and what hears of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from harness.contenders import Builder, Settings
from harness.machine import limited
from harness.timing import QUICK, Rounds

PAUSE = 5e-3
Topic = Callable[[Settings], list[Builder]]


def messages(topics: list[Topic], settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield the number of cases, each case's name and its result, and last the exit code."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, topics, settings))
    with limited(settings.threads):
        process.start()
    sender.close()
    try:
        while True:
            yield receiver.recv()
    except EOFError:
        process.join()
    yield "exit", process.exitcode


def _work(connection: Connection, topics: list[Topic], settings: Settings) -> None:
    """Measure the topics, and send what `messages` yields."""
    threads = settings.threads
    rounds = replace(QUICK if settings.quick else Rounds(), pause=0 if threads == 1 else PAUSE)
    with ExitStack() as stack:
        _limit_torch(threads, stack)
        builders = [builder for topic in topics for builder in topic(settings)]
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
