"""Encode, rotate and attend over arrays several times as large as the memory of the workers.

Two worker processes of dask, restarted if they take more than their limit. With `--kill` one worker
is killed in the middle, and the result is still right.

    pip install "dask[array]" distributed zarr
    python examples/larger_than_memory.py
"""

import argparse
import logging
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from positional_embeddings import (
    CausalMask,
    RoPE,
    SlidingWindowMask,
    cyclic_encoding,
    fourier_encoding,
    octave_wavelengths,
    scaled_dot_product_attention,
    spherical_encoding,
)

HEAD_SIZE, HEADS, CHUNK, WINDOW = 64, 8, 2048, 512
CHUNK_SHAPE = (HEAD_SIZE, CHUNK, HEADS)  # features and heads whole, the sequence cut
MASK = CausalMask() | SlidingWindowMask(WINDOW - 1, None)
CHUNK_NUMBERS = HEAD_SIZE * CHUNK * HEADS  # of each result


def attend(q: Any, k: Any, v: Any, seq_len: int) -> Any:
    """Rotate queries and keys, and attend; the same lines for NumPy and dask."""
    rope = RoPE(HEAD_SIZE, seq_len)
    return scaled_dot_product_attention(rope(q), rope(k), v, mask=MASK)


def places(x: Any) -> Any:
    """Return the spherical harmonics of places on a spiral."""
    return spherical_encoding(x % 180 - 90, x, 7, dtype=np.float32)


# The encodings of coordinates, and their features.
ENCODINGS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "cyclic": (lambda x: cyclic_encoding(x, [24, 168, 8766], 4, dtype=np.float32), 24),
    "fourier": (lambda x: fourier_encoding(x, octave_wavelengths(12), dtype=np.float32), 24),
    "spherical": (places, 64),
}


def numbers(chunk: int, seed: int) -> np.ndarray:
    """Return a chunk of queries, keys or values, always the same."""
    rng = np.random.default_rng((seed, chunk))
    return rng.standard_normal(CHUNK_SHAPE, dtype=np.float32)


def one_chunk(block: np.ndarray, block_id: tuple[int, ...], seed: int) -> np.ndarray:
    """Return the numbers of a chunk; what dask calls for each."""
    del block
    return numbers(block_id[1], seed)


class Work(NamedTuple):
    """A lazy result, and the last of its chunks as NumPy computes it."""

    result: Any
    last: np.ndarray


def attention_on(map_blocks: Callable[..., Any], empty: Any) -> Work:
    """Return the attention over as many queries, keys and values as `empty` has."""
    chunks, seq_len = empty.shape[1] // CHUNK, empty.shape[1]
    result = attend(*(map_blocks(one_chunk, empty, seed=seed) for seed in range(3)), seq_len)
    # The last chunk sees the one before.
    pair = [(numbers(chunks - 2, seed), numbers(chunks - 1, seed)) for seed in range(3)]
    q, k, v = (np.concatenate(both, axis=1) for both in pair)
    rope = RoPE(HEAD_SIZE, seq_len)
    rotated = (rope(x, offset=seq_len - 2 * CHUNK) for x in (q, k))
    return Work(result, scaled_dot_product_attention(*rotated, v, mask=MASK)[:, CHUNK:])


def encoding_on_dask(name: str, chunks: int) -> Work:
    """Return an encoding in chunks of 4 MB: those of `x` are shorter by the features."""
    import dask.array as da

    encode, features = ENCODINGS[name]
    length = CHUNK_NUMBERS // features
    x = da.arange(chunks * length, dtype=np.float64, chunks=length)
    return Work(
        encode(x), encode(np.arange((chunks - 1) * length, chunks * length, dtype=np.float64))
    )


def peak(dask_worker: Any = None) -> float:
    """Return the most memory that this process held, in MB."""
    del dask_worker
    status = Path("/proc/self/status")
    if status.exists():  # `getrusage` starts from the peak of the parent
        (line,) = (s for s in status.read_text().splitlines() if s.startswith("VmHWM"))
        return int(line.split()[1]) / 1000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1000
    )


def on_dask(name: str, chunks: int, limit: str, path: Path, *, kill: bool) -> None:
    """Compute on two local workers with a limit, and show their peaks."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster, progress, wait

    if name == "attention":
        shape = (HEAD_SIZE, chunks * CHUNK, HEADS)
        empty = da.empty(shape, chunks=CHUNK_SHAPE, dtype=np.float32)
        meta = np.empty((0, 0, 0), np.float32)
        work = attention_on(
            lambda *args, **kw: da.map_blocks(*args, **kw, dtype=np.float32, meta=meta), empty
        )
    else:
        work = encoding_on_dask(name, chunks)
    tasks = len(dict(work.result.__dask_graph__()))
    print(
        f"dask, {name}: {work.result.nbytes / 1e9:.2f} GB out, {tasks} tasks, "
        f"two workers of {limit}"
    )
    with (
        dask.config.set({"temporary-directory": str(path)}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        store, start = path / "dask.zarr", time.perf_counter()
        stored = client.compute(work.result.to_zarr(str(store), compute=False))
        if kill:
            while not any(store.glob("c/**/*")):  # until a chunk is stored
                time.sleep(0.01)
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
            print("Worker 0 is killed")
        progress(stored, notebook=False)
        wait(stored)
        stored.result()
        print(f"\n{time.perf_counter() - start:.0f} s")
        for worker, megabytes in enumerate(client.run(peak).values()):
            print(f"Worker {worker}: peak of {megabytes:.0f} MB")
    got = da.from_zarr(str(store)).blocks[(0, -1, 0)[: work.result.ndim]].compute()
    print(f"Largest difference from NumPy: {np.abs(got - work.last).max():.1e}")


def main() -> None:
    """Run what is chosen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=128, help="chunks of 4 MB of the result")
    parser.add_argument("--limit", default="600MB", help="memory of a worker")
    parser.add_argument(
        "--work", choices=("attention", *ENCODINGS), default="attention", help="what dask computes"
    )
    parser.add_argument("--kill", action="store_true", help="kill a worker of dask in the middle")
    options = parser.parse_args()
    chunks = max(3, options.chunks)
    with tempfile.TemporaryDirectory() as folder:
        on_dask(options.work, chunks, options.limit, Path(folder), kill=options.kill)


if __name__ == "__main__":
    main()
