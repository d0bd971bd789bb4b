"""Call the library for ten minutes from threads and forked processes, and watch its memory.

Each thread rotates and attends with new shapes, dtypes, bases and far positions, so that each cache
has to grow and to evict; every few seconds a child is forked, which does the same. A fixed call is
repeated, whose values must not change. `results/soak.png` shows the memory.

OpenBLAS has to run without threads of its own (OPENBLAS_NUM_THREADS=1): it waits forever where one
thread forks while others multiply, with or without this library.
"""

import argparse
import os
import platform
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import matplotlib as mpl
import numpy as np
from tqdm import tqdm

import positional_embeddings as pe

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results"
PAGE = os.sysconf("SC_PAGE_SIZE")
ROPE = pe.RoPE(64, 4096)
X = np.random.default_rng(0).standard_normal((64, 32, 4)).astype(np.float32)
ROTATED = ROPE(X, offset=100)
# Memory may grow by this part from the second third of the run to the last.
GROWTH = 0.05


def memory() -> float:
    """Return the memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE / 1e6


def call_some(rng: np.random.Generator) -> None:
    """Make a few calls of random shapes; all of them are checked by a law."""
    size, tokens = 2 * int(rng.integers(2, 65)), int(rng.integers(1, 500))
    rope = pe.RoPE(size, 2**17, base=float(rng.uniform(1e3, 1e6)))
    dtype = rng.choice([np.float32, np.float64])
    x = rng.standard_normal((size, tokens, 2)).astype(dtype)
    for rope_, x_ in ((rope, x), (ROPE, rng.standard_normal((64, tokens, 1)))):
        offset = int(rng.integers(0, rope_.seq_len - tokens))
        rotated = rope_(x_, offset=offset)
        norms = np.linalg.norm(x_, axis=0)
        np.testing.assert_allclose(np.linalg.norm(rotated, axis=0), norms, rtol=1e-4)
    mask = pe.CausalMask() | pe.SlidingWindowMask(int(rng.integers(1, 200)), 0)
    ones = np.ones_like(x)
    out = pe.scaled_dot_product_attention(x, x, ones, mask=mask, bias=None)
    np.testing.assert_allclose(out, ones, rtol=1e-4)
    pe.sinusoidal_encoding(rng.uniform(0, 1e6, tokens), size)
    pe.ALiBiBias(int(rng.integers(1, 9)))(tokens)


def rotate_again() -> None:
    """Repeat one call, whose values must stay."""
    np.testing.assert_array_equal(ROPE(X, offset=100), ROTATED)


def call_until(stop: threading.Event, seed: int, errors: list[BaseException]) -> None:
    """Call until told to stop."""
    rng = np.random.default_rng(seed)
    try:
        while not stop.is_set():
            call_some(rng)
            rotate_again()
    except BaseException as error:  # noqa: BLE001 - reported by the main thread
        errors.append(error)
        stop.set()


def fork_once(seed: int) -> None:
    """Let a forked child make the same calls, and wait for it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            rotate_again()
            call_some(np.random.default_rng(seed))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        message = f"the forked child {seed} failed: status {status}"
        raise RuntimeError(message)


def soak(minutes: float, threads: int) -> tuple[np.ndarray, int]:
    """Return seconds and MB of memory, two columns, and the number of forks."""
    stop, errors, samples, forks = threading.Event(), [], [], 0
    workers = [
        threading.Thread(target=call_until, args=(stop, seed, errors)) for seed in range(threads)
    ]
    for worker in workers:
        worker.start()
    start = time.monotonic()
    try:
        for second in tqdm(range(round(60 * minutes)), unit="s", disable=not sys.stderr.isatty()):
            stop.wait(max(0.0, start + second - time.monotonic()))
            samples.append((time.monotonic() - start, memory()))
            if second % 5 == 0 and not stop.is_set():
                fork_once(second)
                forks += 1
            if stop.is_set():
                break
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    if errors:
        raise errors[0]
    return np.asarray(samples), forks


def draw(samples: np.ndarray, path: Path) -> None:
    """Draw the curve of memory."""
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.plot(samples[:, 0] / 60, samples[:, 1], color="#0072B2", linewidth=1)
    axes.set(xlabel="minutes", ylabel="memory (MB)", ylim=(0, None))
    axes.set_title("Memory while threads and forked processes call")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Soak, draw, and fail if memory has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--threads", type=int, default=4, help="how many threads (4)")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the results go")
    options = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        sys.exit("Set OPENBLAS_NUM_THREADS=1, as `make soak` does.")
    samples, forks = soak(options.minutes, options.threads)
    draw(samples, options.folder / "soak.png")
    first, middle, last = (float(np.mean(part[:, 1])) for part in np.array_split(samples, 3))
    line = (
        f"{datetime.now(UTC):%Y-%m-%d}: {options.minutes:g} minutes, {options.threads} threads, "
        f"{forks} forks; memory of each third of the run {first:.0f}, {middle:.0f} and {last:.0f} "
        f"MB. Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores."
    )
    print(line)
    page = f"# Ten minutes of calls\n\n{line}\n\n![Memory over time](soak.png)\n"
    (options.folder / "soak.md").write_text(page, encoding="utf-8")
    if last > (1 + GROWTH) * middle:
        sys.exit(f"Memory has grown from {middle:.0f} to {last:.0f} MB.")


if __name__ == "__main__":
    main()
