"""A pool of threads that share pieces of work, and the limit on the threads of NumPy's BLAS."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar

from positional_embeddings.arrays.forks import finished_before_forks, register_at_fork
from positional_embeddings.arrays.namespace import np

Piece = TypeVar("Piece")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="positional_embeddings")


def share(
    work: Callable[[Piece], None],
    pieces: Iterable[Piece],
    threads: int,
    prepare: Callable[[], Any] = int,
) -> None:
    """Do pieces of work on this thread and others, which call `prepare` first.

    What one of them raises is raised here. This thread never waits for another one to begin:
    the pool may be busy, and starts no threads while the interpreter shuts down.
    """
    if threads < 2:
        for piece in pieces:
            work(piece)
        return
    left, lock = deque(pieces), Lock()

    def take() -> None:
        try:
            while True:
                with lock:
                    if not left:
                        return
                    piece = left.popleft()
                work(piece)
        except BaseException:
            with lock:
                left.clear()
            raise

    def help_out() -> None:
        prepare()
        take()

    helpers: list[Future[None]] = []
    with suppress(RuntimeError):
        for _ in range(threads - 1):
            # numpy.errstate is part of the context, which threads do not inherit.
            helpers.append(_pool().submit(copy_context().run, help_out))  # noqa: PERF401
    try:
        take()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


class _Blas:
    """The limit on the threads of BLAS, which holds for the whole process: hence the lock.

    A caller that does not get the lock works on its own thread, without a limit.
    """

    free = Lock()
    # BLAS libraries, each with its number of threads before the limit.
    limited: tuple[tuple[Any, int], ...] = ()


def _forget_threads() -> None:
    _pool.cache_clear()
    _Blas.free = Lock()
    for library, threads in _Blas.limited:
        library.set_num_threads(threads)
    _Blas.limited = ()


# A forked child has none of its parent's threads; one of them may have held the lock and
# would have lifted the limit.
register_at_fork(after_in_child=_forget_threads)


@contextmanager
def threads_for(x: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Yield how many threads BLAS has, for arrays like `x`, and what limits it to one in each.

    Small matrix products gain little from the threads of BLAS, and the elementwise work between
    them nothing. Without threadpoolctl, which is optional, there is one thread.
    """
    blas = _blas() if type(x) is np.ndarray else None
    free = _Blas.free
    if blas is None or not free.acquire(blocking=False):
        yield 1, int
        return
    try:
        count = max((library.num_threads for library in blas.lib_controllers), default=1)
        if count == 1:
            yield 1, int
            return
        # Some BLAS libraries have one limit for the process, others one for each thread: set both.
        one_thread = partial(blas.limit, limits=1)
        _Blas.limited = tuple((library, library.num_threads) for library in blas.lib_controllers)
        with one_thread():
            yield count, one_thread
    finally:
        _Blas.limited = ()
        free.release()


@cache
@finished_before_forks
def _blas() -> Any:
    """Return the BLAS libraries; NumPy's is there once NumPy is imported."""
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
