"""The pool of threads: who does the work, and what becomes of errors."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace

import array_api_strict as strict
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from positional_embeddings.arrays import threads

# The limit on BLAS is of the process, and calls of other threads would have it.
pytestmark = pytest.mark.thread_unsafe


def test_two_threads_share_the_pieces():
    meet, done = threading.Barrier(2, timeout=60), []

    def work(piece):
        if piece < 2:
            meet.wait()  # which one thread alone never passes
        done.append(piece)

    blas = Blas(4)
    threads.run_in_threads(work, range(9), 2, [blas])
    assert sorted(done) == list(range(9))
    # Each thread limits it, the first one gives it its own back.
    assert blas.set == [
        (threading.current_thread().name, 1),
        ("positional_embeddings", 1),
        (threading.current_thread().name, 4),
    ]


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
        threads.run_in_threads(work, range(10**6), 2)
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
        threads.run_in_threads(work, range(2), 2)
    assert len(done) == 1


def test_threads_of_blas_are_for_arrays_of_numpy(monkeypatch):
    libraries = Blas(1), Blas(3)
    monkeypatch.setattr(threads, "_blas", lambda: SimpleNamespace(lib_controllers=libraries))
    assert threads.threads_for(np.ones(2)) == (3, libraries)
    assert threads.threads_for(strict.ones(2)) == (1, ())


def test_a_pool_that_is_busy_leaves_the_work_to_this_thread(monkeypatch):
    calls, done, blas = SimpleQueue(), [], Blas(4)
    monkeypatch.setattr(threads, "_pool", lambda: calls)
    threads.run_in_threads(done.append, range(3), 2, [blas])
    assert done == [0, 1, 2]
    before = list(blas.set)
    calls.get()()  # a helper that begins too late changes nothing
    assert (done, blas.set) == ([0, 1, 2], before)


def test_a_call_within_another_works_on_its_own_thread_without_a_limit():
    blas, names, done = Blas(4), set(), []

    def inner(piece):
        names.add(threading.current_thread().name)
        done.append(piece)

    def outer(_):
        before = set(names)
        names.clear()
        threads.run_in_threads(inner, range(3), 2, [blas])
        assert names == {threading.current_thread().name}
        names.update(before)

    threads.run_in_threads(outer, range(1), 2, [blas])
    assert done == [0, 1, 2]
    assert [number for _, number in blas.set][-1] == 4
    assert threads._Job.with_limit == []


def test_jobs_of_many_threads_leave_no_limit():
    """Each is first, or not, or becomes the first as another one ends."""
    blas, begin, done = Blas(4), threading.Barrier(4, timeout=60), []

    def share_often(_):
        begin.wait()
        for _ in range(3000):
            threads.run_in_threads(done.append, range(2), 2, [blas])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(share_often, range(4)))
    assert done.count(0) == done.count(1) == 4 * 3000
    assert (threads._Job.with_limit, threads._Job.limited) == ([], ())
    assert blas.num_threads == 4


class Blas:
    """A library whose number of threads is set."""

    def __init__(self, number):
        self.num_threads, self.set = number, []

    def set_num_threads(self, number):
        self.set.append((threading.current_thread().name, number))
        self.num_threads = number


def interrupted(call, where):
    """Call a function, interrupt it at an instruction of threads.py, and return whether it did."""
    count = itertools.count()

    def trace(frame, event, _):
        if frame.f_code.co_filename != threads.__file__:
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "opcode") and next(count) == where:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return next(count) > where


def test_an_interrupt_anywhere_leaves_nothing_behind():
    """At each instruction of the calling thread, while a helper is at work, or waits, or ends.

    In a thread of its own: an interrupt within a handler leaves it an exception that is handled.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(interrupt_everywhere).result()


def interrupt_everywhere():
    for where in itertools.count():
        blas, at_work, done = Blas(4), [], []

        def work(piece, blas=blas, at_work=at_work, done=done):
            assert blas.num_threads == 1
            at_work.append(piece)
            time.sleep(0.0002)
            done.append(piece)
            at_work.remove(piece)

        call = partial(threads.run_in_threads, work, range(4), 2, [blas])
        was_interrupted = interrupted(call, where)
        assert blas.num_threads == 4, where
        assert at_work == [], where
        assert (threads._Job.with_limit, threads._Job.limited) == ([], ()), where
        call()  # it has the limit again
        assert blas.num_threads == 4, where
        if not was_interrupted:
            break
    assert where > 200
    assert sorted(done) == sorted([*range(4)] * 2)


@pytest.fixture
def _interrupts():
    """Raise KeyboardInterrupt also where a shell in the background lets processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_interrupts_while_others_work_are_raised_once_they_have_ended():
    here, done = threading.current_thread(), []
    kill = getattr(signal, "pthread_kill", lambda _, number: signal.raise_signal(number))
    interrupt = partial(kill, here.ident, signal.SIGINT)
    meet = threading.Barrier(2, timeout=60)

    def work(piece):
        meet.wait()
        if threading.current_thread() is not here:
            for _ in range(5):
                time.sleep(0.01)
                interrupt()
            done.append(piece)

    with pytest.raises(KeyboardInterrupt):
        threads.run_in_threads(work, range(2), 2, [Blas(4)])
    assert len(done) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="does not fork")
def test_a_forked_process_has_threads_of_its_own():
    """In a process of its own, where nothing else has threads."""
    code = (
        "import os, queue, signal; from positional_embeddings.arrays import threads; "
        "called = queue.SimpleQueue(); "
        "call = lambda: (threads._pool().put(lambda: called.put(1)), called.get(timeout=30)); "
        "signal.alarm(60); call(); child = os.fork(); child or (call(), os._exit(0)); "
        "raise SystemExit(os.waitpid(child, 0)[1])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)


def test_threads_are_those_of_numpys_products():
    def numbers():
        return [
            library.num_threads
            for library in ThreadpoolController().select(user_api="blas").lib_controllers
        ]

    before, during = numbers(), []
    count, libraries = threads.threads_for(np.zeros(1))
    assert count == max(before)
    threads.run_in_threads(lambda _: during.append(set(numbers())), range(1), 2, libraries)
    assert during == [{1}]
    assert numbers() == before
