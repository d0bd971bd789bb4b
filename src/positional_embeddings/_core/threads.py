"""Work on as many threads as NumPy's BLAS has, while BLAS takes one in each.

A product of small matrices gains little from BLAS's own threads, and what NumPy does
between two products nothing. Optional: without threadpoolctl there is one thread.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from positional_embeddings._core.capabilities import is_host_array

Piece = TypeVar("Piece")


class _Blas:
    """It has one number of threads for all who call it: one of them at a time changes it."""

    free = Lock()
    # Its libraries and the threads that each had before it was limited.
    limited: tuple[tuple[Any, int], ...] = ()


def _forget_threads() -> None:
    _Blas.free = Lock()
    for library, threads in _Blas.limited:
        library.set_num_threads(threads)
    _Blas.limited = ()


# A child process has none of its parent's threads, one of which may hold the lock or take
# the limit back.
getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_forget_threads)


class Workers:
    """Threads to work on, this one where there is no pool of them."""

    def __init__(self, count: int = 1, pool: ThreadPoolExecutor | None = None) -> None:
        self.count = count
        self._pool = pool

    def do(self, work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
        """Do all pieces of work, and raise what one of them raises."""
        if self._pool is None:
            for piece in pieces:
                work(piece)
            return
        # Each in a copy of the context, which holds numpy.errstate.
        futures = [self._pool.submit(copy_context().run, work, piece) for piece in pieces]
        try:
            for future in futures:
                future.result()
        finally:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def workers_for(x: Any) -> Iterator[Workers]:
    """Take the threads of BLAS for work on arrays like `x`."""
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
        # The first limit is that of the process, the others of a thread: it depends on the BLAS.
        one_thread = partial(blas.limit, limits=1)
        _Blas.limited = tuple((library, library.num_threads) for library in blas.lib_controllers)
        with one_thread(), ThreadPoolExecutor(count, initializer=one_thread) as pool:
            yield Workers(count, pool) if _takes_work(pool) else Workers()
    finally:
        _Blas.limited = ()
        free.release()


def _takes_work(pool: ThreadPoolExecutor) -> bool:
    """Tell whether a pool can start threads, which it cannot where the interpreter ends."""
    try:
        pool.submit(int)
    except RuntimeError:
        return False
    return True


def _blas() -> Any:
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
