"""A pool of as many threads as NumPy's BLAS has, each with a single thread of BLAS.

Small matrix products gain little from the threads of BLAS, and the elementwise work
between them nothing. Without threadpoolctl, which is optional, there is one thread.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar

from positional_embeddings.arrays.forks import finished_before_forks, register_at_fork
from positional_embeddings.arrays.namespace import is_host_array

Piece = TypeVar("Piece")


class _Blas:
    """The limit on the threads of BLAS, which holds for the whole process: hence the lock.

    A caller that does not get the lock works on its own thread, without a limit.
    """

    free = Lock()
    # BLAS libraries, each with its number of threads before the limit.
    limited: tuple[tuple[Any, int], ...] = ()


def _forget_threads() -> None:
    _Blas.free = Lock()
    for library, threads in _Blas.limited:
        library.set_num_threads(threads)
    _Blas.limited = ()


# A forked child has none of its parent's threads; one of them may have held the lock and
# would have lifted the limit.
register_at_fork(after_in_child=_forget_threads)


class Workers:
    """Threads that share pieces of work; only the calling one if there is no pool."""

    def __init__(self, count: int = 1, pool: ThreadPoolExecutor | None = None) -> None:
        self.count = count
        self._pool = pool

    def do(self, work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
        """Do all pieces of work; an error in one of them is raised here."""
        if self._pool is None:
            for piece in pieces:
                work(piece)
            return
        # numpy.errstate is part of the context, which threads do not inherit.
        futures = [self._pool.submit(copy_context().run, work, piece) for piece in pieces]
        try:
            for future in futures:
                future.result()
        finally:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def workers_for(x: Any) -> Iterator[Workers]:
    """Yield as many threads as BLAS has, for arrays like `x`, and limit BLAS to one in each."""
    blas = _blas() if is_host_array(x) else None
    free = _Blas.free
    if blas is None or not free.acquire(blocking=False):
        yield Workers()
        return
    try:
        count = max((library.num_threads for library in blas.lib_controllers), default=1)
        if count == 1:
            yield Workers()
            return
        # Some BLAS libraries have one limit for the process, others one for each thread: set both.
        one_thread = partial(blas.limit, limits=1)
        _Blas.limited = tuple((library, library.num_threads) for library in blas.lib_controllers)
        with one_thread(), ThreadPoolExecutor(count, initializer=one_thread) as pool:
            yield Workers(count, pool) if _takes_work(pool) else Workers()
    finally:
        _Blas.limited = ()
        free.release()


def _takes_work(pool: ThreadPoolExecutor) -> bool:
    """Tell whether a pool can start threads: not while the interpreter shuts down."""
    try:
        pool.submit(int)
    except RuntimeError:
        return False
    return True


@cache
@finished_before_forks
def _blas() -> Any:
    """Return the BLAS libraries; NumPy's is there once NumPy is imported."""
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
