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
from contextlib import suppress
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

# The process forks at each line of the library that a thread runs. Each child makes the same call.
AT_EACH_LINE = """
import os, signal, sys, threading
import numpy as np
from positional_embeddings import *

SET_UP, CALL = sys.argv[1:]
exec(SET_UP)
new_line, lines, num_forks = threading.Condition(), set(), 0

def trace(frame, event, argument):
    line = frame.f_code.co_filename, frame.f_lineno
    if "positional_embeddings" in line[0] and line not in lines:
        with new_line:
            lines.add(line)
            new_line.notify()
            new_line.wait_for(lambda: num_forks == len(lines), timeout=0.02)
    return trace

def traced_call():
    sys.settrace(trace)
    exec(CALL)
    sys.settrace(None)

signal.alarm(50)
thread = threading.Thread(target=traced_call)
thread.start()
while thread.is_alive():
    with new_line:
        new_line.wait_for(lambda: num_forks < len(lines), timeout=0.02)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        exec(CALL)
        os._exit(0)
    with new_line:
        num_forks = len(lines)
        new_line.notify()
    if os.waitpid(child, 0)[1]:
        sys.exit("a child failed at " + str(len(lines)))
sys.exit(len(lines) < 50)
"""

CACHE = "KVCache.empty(1, 1, 8, num_kv_heads=1, head_size=4, feature_axis=-1, seq_axis=-2)"
STEP = f"{CACHE}.step(1)[1].update(0, x, x)"

PLOT = "from positional_embeddings.plotting import plot_attention; plot_attention(CausalMask(), 3)"
TORCH = "RoPE(2, 4)(__import__('torch').ones((2, 4)))"
# A refused call: dask itself takes a lock for the name of each array, and does not release it in a
# child that was forked meanwhile.
DASK = "with suppress(ValueError): RoPE(2, 4)(__import__('dask.array').array.ones((1, 2)))"
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.parametrize(
    ("set_up", "call"),
    [("x = np.ones((1, 1, 1, 4))", STEP), ("x = np.ones((4, 2))", "RoPE(4, 8)(x)")],
)
def test_a_child_of_a_fork_at_each_line_of_a_call_makes_the_call(set_up, call):
    code = [sys.executable, "-W", "ignore", "-c", AT_EACH_LINE, set_up, call]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
