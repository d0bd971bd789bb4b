"""Rotate and attend over arrays that are several times as large as the memory of the workers.

dask: two worker processes, restarted if they take more than their limit. cubed: each task tells
what memory it needs before anything runs.

    pip install "dask[array]" distributed cubed zarr tqdm
    python examples/larger_than_memory.py
"""

import argparse
import logging
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from positional_embeddings import (
    CausalMask,
    RoPE,
    SlidingWindowMask,
    scaled_dot_product_attention,
)

HEAD_SIZE, HEADS, CHUNK, WINDOW = 64, 8, 2048, 512
CHUNK_SHAPE = (HEAD_SIZE, CHUNK, HEADS)  # features and heads whole, the sequence cut
MASK = CausalMask() | SlidingWindowMask(WINDOW - 1, 0)


def attend(q: Any, k: Any, v: Any, seq_len: int) -> Any:
    """Rotate queries and keys, and attend; the same lines for NumPy, dask and cubed."""
    rope = RoPE(HEAD_SIZE, seq_len)
    return scaled_dot_product_attention(rope(q), rope(k), v, mask=MASK)


def numbers(chunk: int, seed: int) -> np.ndarray:
    """Return a chunk of queries, keys or values, always the same."""
    rng = np.random.default_rng((seed, chunk))
    return rng.standard_normal(CHUNK_SHAPE, dtype=np.float32)


def one_chunk(block: np.ndarray, block_id: tuple[int, ...], seed: int) -> np.ndarray:
    """Return the numbers of a chunk; what dask and cubed call for each."""
    del block
    return numbers(block_id[1], seed)


def compare(got: np.ndarray, seq_len: int) -> float:
    """Return the largest difference from NumPy in the last chunk, which sees the one before."""
    last = seq_len // CHUNK - 1
    q, k, v = (
        np.concatenate([numbers(i, seed) for i in (last - 1, last)], axis=1) for seed in range(3)
    )
    rope = RoPE(HEAD_SIZE, seq_len)
    rotated = (rope(x, offset=seq_len - 2 * CHUNK) for x in (q, k))
    expected = scaled_dot_product_attention(*rotated, v, mask=MASK)
    return float(np.abs(got - expected[:, CHUNK:]).max())


def peak(dask_worker: Any = None) -> float:
    """Return the most memory that this process ever held, in MB."""
    del dask_worker
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def on_dask(seq_len: int, limit: str, path: Path) -> None:
    """Compute on two local workers with a limit, and show their peaks."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster, progress

    shape = (HEAD_SIZE, seq_len, HEADS)
    empty = da.empty(shape, chunks=CHUNK_SHAPE, dtype=np.float32)
    q, k, v = (
        empty.map_blocks(
            one_chunk, seed=seed, dtype=np.float32, meta=np.empty((0, 0, 0), np.float32)
        )
        for seed in range(3)
    )
    output = attend(q, k, v, seq_len)
    tasks = len(dict(output.__dask_graph__()))
    print(f"dask: {4 * q.nbytes / 1e9:.2f} GB in {tasks} tasks, two workers of {limit}")
    with (
        dask.config.set({"temporary-directory": str(path)}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        stored = output.to_zarr(str(path / "dask.zarr"), compute=False).persist()
        progress(stored, notebook=False)
        stored.compute()
        print()
        for worker, megabytes in enumerate(client.run(peak).values()):
            print(f"Worker {worker}: peak of {megabytes:.0f} MB")
    last = da.from_zarr(str(path / "dask.zarr"))[:, -CHUNK:].compute()
    print(f"Largest difference from NumPy: {compare(last, seq_len):.1e}")


def on_cubed(seq_len: int, limit: str, path: Path) -> None:
    """Compute in this process, each task within the memory allowed."""
    import cubed
    from cubed.diagnostics.tqdm import TqdmProgressBar

    setting = {"spec.work_dir": str(path), "spec.allowed_mem": limit, "spec.reserved_mem": "0"}
    with cubed.config.set(setting):
        empty = cubed.empty((HEAD_SIZE, seq_len, HEADS), dtype=cubed.float32, chunks=CHUNK_SHAPE)
        q, k, v = (
            cubed.map_blocks(one_chunk, empty, seed=seed, dtype=np.float32) for seed in range(3)
        )
        output = attend(q, k, v, seq_len)
        needed = output.plan().max_projected_mem / 1e6
        print(f"cubed: {4 * q.nbytes / 1e9:.2f} GB, {limit} allowed, {needed:.0f} MB needed")
        before = peak()
        store = str(path / "cubed.zarr")
        cubed.to_zarr(output, store, callbacks=[TqdmProgressBar()])
        print(f"This process: peak of {peak():.0f} MB, {before:.0f} MB before")
        last = np.asarray(cubed.from_zarr(store)[:, -CHUNK:].compute())
        print(f"Largest difference from NumPy: {compare(last, seq_len):.1e}")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=128, help="chunks of 2,048 positions, 4 MB")
    parser.add_argument("--limit", default="600MB", help="memory of a worker")
    parser.add_argument("--only", choices=("dask", "cubed"), help="one library, both if left out")
    options = parser.parse_args()
    # cubed counts a buffer for each chunk that is joined: half as many.
    chunks = max(3, options.chunks)
    runs = {"dask": (on_dask, chunks), "cubed": (on_cubed, max(3, chunks // 2))}
    for name, (run, count) in runs.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                run(count * CHUNK, options.limit, Path(folder))


if __name__ == "__main__":
    main()
