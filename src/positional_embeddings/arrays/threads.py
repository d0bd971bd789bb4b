"""A pool of threads that share pieces of work, and the limit on the threads of NumPy's BLAS.

An interrupt (`KeyboardInterrupt`) may come between any two instructions of the calling thread. So
threads share lists and queues, which change in single operations, and a call is ended twice.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, ClassVar, TypeVar

from positional_embeddings.arrays.forks import finished_before_forks, register_at_fork
from positional_embeddings.arrays.namespace import Array, np

Piece = TypeVar("Piece")


@cache
def _pool() -> "SimpleQueue[Callable[[], object]]":
    """Start a thread for each core, and return the queue of what they are to call."""
    calls: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def serve() -> None:
        while True:
            calls.get()()

    with suppress(RuntimeError):  # the interpreter shuts down, and starts none
        for _ in range(os.cpu_count() or 1):
            Thread(target=serve, name="positional_embeddings", daemon=True).start()
    return calls


def share(
    work: Callable[[Piece], None],
    pieces: Iterable[Piece],
    threads: int,
    libraries: Sequence[Any] = (),
) -> None:
    """Do pieces of work on this thread and others, with one thread of BLAS libraries in each.

    What one of them raises is raised here, once no other one is at work. This thread never waits
    for another one to begin: the pool may be busy.
    """
    if threads < 2:
        for piece in pieces:
            work(piece)
        return
    job = _Job(work, deque(pieces), libraries)
    try:
        try:
            job.begin(threads)
        finally:
            job.end()
    finally:
        job.end()  # what an interrupt of the first one has left
    if job.errors:
        raise job.errors[0]


class _Job:
    """Pieces of work that threads share.

    The limit on BLAS holds for the whole process. A job that is not the first one to ask for it
    has no other threads, and no limit.
    """

    with_limit: ClassVar[list["_Job"]] = []
    # BLAS libraries, each with its number of threads before the limit.
    limited: ClassVar[tuple[tuple[Any, int], ...]] = ()

    def __init__(self, work: Callable[[Any], None], left: deque[Any], libraries: Any) -> None:
        self.work, self.left, self.libraries = work, left, libraries
        # An entry for each helper that has begun, and that has ended, and a call to look again.
        self.begun: list[None] = []
        self.ended: list[None] = []
        self.changes: SimpleQueue[None] = SimpleQueue()
        self.errors: list[BaseException] = []

    def begin(self, threads: int) -> None:
        """Do pieces on this thread, and let helpers do others."""
        if self.libraries:
            _Job.with_limit.append(self)
            if _Job.with_limit[0] is not self:
                threads = 1
            else:
                _Job.limited = tuple((blas, blas.num_threads) for blas in self.libraries)
                self.limit_blas()
        for _ in range(threads - 1):
            # numpy.errstate is part of the context, which threads do not inherit.
            _pool().put(partial(copy_context().run, self.help))
        self.take()

    def take(self) -> None:
        """Do pieces until none is left."""
        while True:
            try:
                piece = self.left.popleft()
            except IndexError:
                return
            self.work(piece)

    def help(self) -> None:
        """Do pieces on another thread, if there are any when it begins."""
        self.begun.append(None)
        try:
            if self.left:
                self.limit_blas()
                self.take()
        except BaseException as error:  # noqa: BLE001 - it is raised by the calling thread
            self.errors.append(error)
            self.left.clear()
        finally:
            self.ended.append(None)
            self.changes.put(None)

    def end(self) -> None:
        """Wait for the helpers that have begun, and lift the limit."""
        self.left.clear()
        while len(self.ended) < len(self.begun):
            try:
                self.changes.get()
            except BaseException as error:  # noqa: BLE001 - it is raised once they have ended
                self.errors.append(error)
        if _Job.with_limit[:1] == [self]:
            _lift_limit()
        # Not where `self in` it, which may miss one that moves up as another thread ends a job.
        with suppress(ValueError):
            _Job.with_limit.remove(self)

    def limit_blas(self) -> None:
        # Some BLAS libraries have one limit for the process, others one for each thread.
        for library in self.libraries:
            library.set_num_threads(1)


def _lift_limit() -> None:
    for library, threads in _Job.limited:
        library.set_num_threads(threads)
    _Job.limited = ()


def _forget_threads() -> None:
    _pool.cache_clear()
    _lift_limit()
    _Job.with_limit.clear()


# A forked child has none of its parent's threads, one of which may have limited BLAS.
register_at_fork(after_in_child=_forget_threads)


def threads_for(x: Array) -> tuple[int, tuple[Any, ...]]:
    """Return how many threads BLAS has, for arrays like `x`, and its libraries.

    Small matrix products gain little from the threads of BLAS, and the elementwise work between
    them nothing. Without threadpoolctl, which is optional, there is one thread.
    """
    blas = _blas() if type(x) is np.ndarray else None
    libraries = () if blas is None else tuple(blas.lib_controllers)
    return max((library.num_threads for library in libraries), default=1), libraries


@cache
@finished_before_forks
def _blas() -> Any:
    """Return the BLAS libraries; NumPy's is there once NumPy is imported."""
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
