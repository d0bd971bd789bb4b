"""A thread pool that shares tasks, and a limit on the threads of NumPy's BLAS.

A `KeyboardInterrupt` may occur between any two instructions of the calling thread. So threads
share lists and queues, whose operations are atomic, and `run_in_threads` ends a job twice.
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

Task = TypeVar("Task")


@cache
def _pool() -> "SimpleQueue[Callable[[], object]]":
    """Start a thread for each core, and return the queue of the calls for all threads."""
    calls: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def serve() -> None:
        while True:
            calls.get()()

    with suppress(RuntimeError):  # the interpreter is shutting down
        for _ in range(os.cpu_count() or 1):
            Thread(target=serve, name="positional_embeddings", daemon=True).start()
    return calls


def run_in_threads(
    work: Callable[[Task], None],
    tasks: Iterable[Task],
    threads: int,
    libraries: Sequence[Any] = (),
) -> None:
    """Do tasks on several threads, this one included, with one BLAS thread in each.

    An error of a task is raised here, after all threads have stopped. This thread never waits
    for another one to begin: the pool may be busy.
    """
    if threads < 2:
        for task in tasks:
            work(task)
        return
    job = _Job(work, deque(tasks), libraries)
    try:
        try:
            job.begin(threads)
        finally:
            job.finish()
    finally:
        job.finish()  # again, since an interrupt may have stopped the first call
    if job.errors:
        raise job.errors[0]


class _Job:
    """Tasks that threads share.

    The limit on BLAS holds for the whole process. While a job has set it, other jobs that need it
    run on their calling threads alone.
    """

    with_limit: ClassVar[list["_Job"]] = []
    # BLAS libraries, each with its number of threads before the limit.
    limited: ClassVar[tuple[tuple[Any, int], ...]] = ()

    def __init__(self, work: Callable[[Any], None], tasks: deque[Any], libraries: Any) -> None:
        self.work, self.tasks, self.libraries = work, tasks, libraries
        # An entry for each helper that has begun, one for each that has ended, and a notification.
        self.begun: list[None] = []
        self.ended: list[None] = []
        self.changes: SimpleQueue[None] = SimpleQueue()
        self.errors: list[BaseException] = []

    def begin(self, threads: int) -> None:
        """Start helpers, and do tasks on this thread."""
        if self.libraries:
            _Job.with_limit.append(self)
            if _Job.with_limit[0] is not self:
                threads = 1
            else:
                _Job.limited = tuple((blas, blas.num_threads) for blas in self.libraries)
                self.limit_blas()
        for _ in range(threads - 1):
            # The context holds numpy.errstate; threads do not inherit it.
            _pool().put(partial(copy_context().run, self.run_on_helper))
        self.run_tasks()

    def run_tasks(self) -> None:
        """Do tasks until none remains."""
        while True:
            try:
                task = self.tasks.popleft()
            except IndexError:
                return
            self.work(task)

    def run_on_helper(self) -> None:
        """Do tasks on another thread, if any remains."""
        self.begun.append(None)
        try:
            if self.tasks:
                self.limit_blas()
                self.run_tasks()
        except BaseException as error:  # noqa: BLE001 - the calling thread raises it
            self.errors.append(error)
            self.tasks.clear()
        finally:
            self.ended.append(None)
            self.changes.put(None)

    def finish(self) -> None:
        """Drop the remaining tasks, wait for the helpers that have begun, and lift the limit."""
        self.tasks.clear()
        while len(self.ended) < len(self.begun):
            try:
                self.changes.get()
            except BaseException as error:  # noqa: BLE001 - `run_in_threads` raises it
                self.errors.append(error)
        if _Job.with_limit[:1] == [self]:
            _lift_limit()
        # No test of `self in` the list: it may miss an entry while another thread removes one.
        with suppress(ValueError):
            _Job.with_limit.remove(self)

    def limit_blas(self) -> None:
        # Some BLAS libraries have a limit for the process, others a limit for each thread.
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


# A forked child has no threads of its parent, which may have limited BLAS.
register_at_fork(after_in_child=_forget_threads)


def threads_for(x: Array) -> tuple[int, tuple[Any, ...]]:
    """Return the number of threads of BLAS for arrays like `x`, and the BLAS libraries.

    Small matrix products gain little from threads of BLAS, and element-wise work gains nothing.
    Without threadpoolctl, which is optional, the number is 1.
    """
    blas = _blas() if type(x) is np.ndarray else None
    libraries = () if blas is None else tuple(blas.lib_controllers)
    return max((library.num_threads for library in libraries), default=1), libraries


@cache
@finished_before_forks
def _blas() -> Any:
    """Return the loaded BLAS libraries, among them NumPy's."""
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
