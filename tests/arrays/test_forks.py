"""Forks while another thread makes the first call, in processes of their own."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thread_unsafe  # in processes of their own

# The thread that imports MODULE first goes on once the process has forked, or half a second after
# it has begun to.
# The child, which has no such thread, then makes the same call. Alarms end what hangs.
CODE = """
import os, signal, sys, threading
import numpy as np
from positional_embeddings import *

MODULE, CALL = sys.argv[1:]
importing, forking, forked = (threading.Event() for _ in range(3))
os.register_at_fork(before=forking.set)

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE and not importing.is_set():
            importing.set()
            forking.wait()
            forked.wait(0.5)

sys.meta_path.insert(0, Stop())
x = np.ones((64, 256), dtype="float32")

def call():
    exec(CALL, globals())

signal.alarm(40)
thread = threading.Thread(target=call)
thread.start()
assert importing.wait(15)
child = os.fork()
if child == 0:
    signal.alarm(20)
    call()
    os._exit(0)
forked.set()
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

PLOT = "from positional_embeddings.plotting import plot_attention; plot_attention(CausalMask(), 3)"
TORCH = "RoPE(2, 4)(__import__('torch').ones((2, 4)))"
DASK = "RoPE(2, 4)(__import__('dask.array').array.ones((2, 4)))"
ATTENTION = "scaled_dot_product_attention(x, x, x, block_size=64)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.parametrize(
    ("module", "call"),
    [
        pytest.param("numba", "RoPE(64, 256)(x)", marks=pytest.mark.library("numba")),
        ("threadpoolctl", ATTENTION),
        ("numpy.random", "LearnedPE(2, 4)"),
        pytest.param("array_api_compat.torch", TORCH, marks=pytest.mark.library("torch")),
        pytest.param("array_api_compat.dask", DASK, marks=pytest.mark.library("dask")),
        ("matplotlib.pyplot", PLOT),
    ],
)
def test_a_child_makes_the_call_that_its_parent_was_in(module, call):
    code = [sys.executable, "-W", "ignore", "-c", CODE, module, call]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
