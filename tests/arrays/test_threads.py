"""The pool of threads: who does the work, and what becomes of errors."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import array_api_strict as strict
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from positional_embeddings.arrays import threads


def test_two_threads_share_the_pieces():
    meet, done = threading.Barrier(2, timeout=60), []

    def work(piece):
        if piece < 2:
            meet.wait()  # which one thread alone never passes
        done.append(piece)

    prepared = []
    threads.share(work, range(9), 2, lambda: prepared.append(threading.current_thread().name))
    assert sorted(done) == list(range(9))
    assert [name.startswith("positional_embeddings") for name in prepared] == [True]


@pytest.mark.parametrize("failing", ["this thread", "the other one"])
def test_an_error_ends_the_work_of_both_threads(failing):
    meet, done = threading.Barrier(2, timeout=60), []

    def work(piece):
        if piece < 2:
            meet.wait()
            is_this = threading.current_thread() is threading.main_thread()
            if is_this == (failing == "this thread"):
                raise ZeroDivisionError
        done.append(piece)

    with pytest.raises(ZeroDivisionError):
        threads.share(work, range(10**6), 2)
    assert len(done) < 10**6 - 1  # the piece that failed is not the only one that is left


def test_no_thread_is_at_work_after_an_error():
    meet, done = threading.Barrier(2, timeout=60), []

    def work(piece):
        meet.wait()
        if threading.current_thread() is threading.main_thread():
            raise ZeroDivisionError
        time.sleep(0.2)
        done.append(piece)

    with pytest.raises(ZeroDivisionError):
        threads.share(work, range(2), 2)
    assert len(done) == 1


def test_threads_of_blas_are_for_arrays_of_numpy(monkeypatch):
    class Blas:
        lib_controllers = tuple(SimpleNamespace(num_threads=n) for n in (1, 3))

        def limit(self, *, limits):
            return nullcontext(limits)

    monkeypatch.setattr(threads, "_blas", Blas)
    counts = []
    for x in (np.ones(2), strict.ones(2)):
        with threads.threads_for(x) as (count, limit):
            counts.append(count)
            limit()
    assert counts == [3, 1]


def test_a_pool_that_is_busy_leaves_the_work_to_this_thread(monkeypatch):
    pool, free = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    pool.submit(free.wait)
    done = []
    try:
        threads.share(done.append, range(3), 2)
    finally:
        free.set()
    assert done == [0, 1, 2]
    pool.shutdown()
    threads.share(done.append, range(3), 2)
    assert done == [0, 1, 2, 0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="does not fork")
def test_a_forked_process_has_threads_of_its_own():
    """In a process of its own, where nothing else has threads."""
    code = (
        "import os, signal; from positional_embeddings.arrays import threads; "
        "signal.alarm(60); threads._pool().submit(int).result(); child = os.fork(); "
        "child or os._exit(threads._pool().submit(int).result(timeout=30)); "
        "raise SystemExit(os.waitpid(child, 0)[1])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)


def test_threads_are_those_of_numpys_products():
    def numbers():
        return [
            own.num_threads
            for own in ThreadpoolController().select(user_api="blas").lib_controllers
        ]

    before = numbers()
    with threads.threads_for(np.zeros(1)) as (count, _):
        assert count == max(before)
        assert set(numbers()) == {1}
    assert numbers() == before
    with threads.threads_for(strict.zeros(1)) as (count, _):
        assert count == 1
        assert numbers() == before
