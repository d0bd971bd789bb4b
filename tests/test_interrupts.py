"""Interrupts, and processes that are started while the library has threads, as in users' programs.

Each in a process of its own, with two threads of BLAS.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thread_unsafe  # in processes of their own

CALLS = """
import numpy as np
from positional_embeddings import CausalMask, RoPE, scaled_dot_product_attention
from positional_embeddings.arrays import threads

x = np.random.default_rng(0).standard_normal((4, 1500, 64)).astype("float32")
axes = {"feature_axis": -1, "seq_axis": -2}

def attend():
    return scaled_dot_product_attention(x, x, x, mask=CausalMask(), block_size=128, **axes)
"""

# The timer comes at last as nothing is called any more.
INTERRUPTS = """
import _thread, signal, threading, time

signal.signal(signal.SIGINT, signal.default_int_handler)

def is_interrupted(call, delay):
    timer, is_done = threading.Timer(delay, _thread.interrupt_main), False
    try:
        timer.start()
        call()
        is_done = True
        while True:
            time.sleep(0.001)
    except KeyboardInterrupt:
        return not is_done

def blas():
    return [library.num_threads for library in threads._blas().lib_controllers]

rope = RoPE(64, 100_000, **axes)
positions = np.linspace(0, 99_999, 1500)
calls = {
    "attention": attend,
    "rotation": lambda: rope(x, offset=50_000),
    "positions": lambda: rope(x, positions=positions),
}
for name, call in calls.items():
    start = time.perf_counter()
    expected = call()  # starts threads, and reads what is imported late
    taken = time.perf_counter() - start
    count, before = 0, blas()
    for i in range(12):
        rope = RoPE(64, 100_000, **axes)  # without tables
        count += is_interrupted(call, taken * i / 8)
        assert (threads._Job.with_limit, threads._Job.limited, blas()) == ([], (), before)
        np.testing.assert_array_equal(call(), expected)
    assert count > 0, name
print("all is well")
"""

# With all that the parent has used: threads, tables, what is known of calls.
PROCESSES = """
import multiprocessing, sys

ROPE = RoPE(64, 5000, **axes)

def call(_):
    return attend(), ROPE(x, offset=4)

if __name__ == "__main__":
    expected = call(0)
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        for results in pool.map_async(call, range(4)).get(timeout=60):
            for got, result in zip(results, expected, strict=True):
                np.testing.assert_array_equal(got, result)
    print("all is well")
"""

# A child may begin at any instruction of another thread that attends.
FORKS = """
import os, threading

expected, is_over = attend(), threading.Event()

def attend_often():
    while not is_over.is_set():
        attend()

worker = threading.Thread(target=attend_often)
worker.start()
try:
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(not np.array_equal(attend(), expected))
        assert os.waitpid(child, 0)[1] == 0
finally:
    is_over.set()
    worker.join()
print("all is well")
"""


def run(folder, code, *arguments, blas_threads):
    """Run a script; forks of a process with threads are what Python warns of."""
    script = folder / "script.py"
    script.write_text(CALLS + code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *arguments],
        env=os.environ | {"OPENBLAS_NUM_THREADS": str(blas_threads)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("all is well\n", "")


def test_what_is_interrupted_can_be_called_again(tmp_path):
    run(tmp_path, INTERRUPTS, blas_threads=2)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools_of_processes_compute_the_same(method, tmp_path):
    run(tmp_path, PROCESSES, method, blas_threads=2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_forks_while_a_thread_attends(tmp_path):
    # With threads of its own, OpenBLAS itself may hang where a thread forks as others multiply.
    run(tmp_path, FORKS, blas_threads=1)
