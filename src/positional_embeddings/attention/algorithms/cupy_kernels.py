"""The two kernels of an attention on CuPy's arrays, in CUDA, and how they are launched."""

from functools import cache
from typing import Any, NamedTuple

from positional_embeddings.arrays.cuda import OPTIONS, cuda_text
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.attention.algorithms.cublas import steps_of

# Of weights, which are 1 at most: small ones are no subnormal halves. bfloat16 has the exponents of
# float32.
SCALES_OF_HALVES = {"float16": 2**15}

KERNELS = "softmax", "add_sums"  # names of their files, too

_KEYS_A_THREAD = 4  # so that a block of 1,024 threads has 4,096 keys and more
_WARP, _MAX_THREADS = 32, 1024

# Farther from a query than any key.
FAR = 2**62


class KernelArguments(NamedTuple):
    """Arguments of the kernels: arrays, None if not needed, and numbers."""

    scores: Array  # (..., query, key): products; then weights, unless there are halves
    halves: Array = None  # (2, ..., query, key): the weights as a sum of two numbers
    state: Array = None  # (..., query, 2): highest score so far, and total relative to it
    sums: Array = None  # (..., query, feature) to add to the output; None if they are there
    mask: Array = None  # (..., query, key)
    bias: Array = None
    sinks: Array = None  # (..., 1, 1)
    key: Array = None  # (..., key, feature): the features that have to be finite
    value: Array = None
    output: Array = None  # (..., query, feature), whose features are contiguous
    lse: Array = None  # (..., query, 1)
    softcap: float | None = None
    low: int = -FAR  # keys from i + low to below i + high may be visible to query i
    high: int = FAR
    continues: bool = False  # whether there are the state and the output of earlier keys

    @property
    def has_mask_or_bias(self) -> bool:
        """Return whether keys may be masked."""
        return not (self.mask is self.bias is None and (self.low, self.high) == (-FAR, FAR))


# Which of the axes (query, key, feature) the arrays with steps lack: masks, keys and outputs.
_LACKS = (-1, -1, -1, -3, -3, -2, -2)


def launch(name: str, block: KernelArguments) -> None:
    """Launch one of the kernels, `softmax` or `add_sums`."""
    *arrays, softcap, low, high, continues = block
    dtype, (*batch, keys) = block.scores.dtype, block.scores.shape
    features = 0 if block.value is None else block.value.shape[-1]
    traversal = [*batch, keys, block.key.shape[-1], features, low, high, continues]
    for array, axis in zip(arrays[-len(_LACKS) :], _LACKS, strict=True):
        steps = [] if array is None else steps_of(array)
        steps.insert(max(0, len(steps) + 1 + axis), 0)
        traversal += [0] * (len(batch) + 2 - len(steps)) + steps
    struct = np.asarray(traversal, dtype="int64")
    largest = float(np.finfo(dtype).max)
    cap = np.inf if softcap is None or softcap > largest else softcap
    numbers = [dtype.type(number) for number in (cap, largest, np.inf)]
    pointers = [np.uintp(0) if array is None else array for array in arrays]
    along = -(-keys // _KEYS_A_THREAD) if name == "softmax" else features
    threads = min(-(-along // _WARP) * _WARP, _MAX_THREADS)
    compiled = kernel(name, dtype_name(dtype), dtype_name(block.key.dtype), len(batch))
    arguments = (*pointers, *numbers, struct.view(f"V{struct.nbytes}"))
    compiled((block.scores.size // keys,), (threads,), arguments)


@cache
def kernel(name: str, dtype: str, key_dtype: str, batch_axes: int) -> Any:
    """Return a kernel for these types, which is compiled when it is launched."""
    import cupy  # noqa: PLC0415

    text = source(name, dtype, key_dtype, batch_axes)
    # Without fused products, a score minus an equal maximum is exactly 0.
    return cupy.RawKernel(text, f"positional_embeddings_{name}", options=OPTIONS)


def source(name: str, dtype: str, key_dtype: str, batch_axes: int) -> str:
    """Return the source of a kernel: for scores of one dtype, and keys and values of another."""
    scale = SCALES_OF_HALVES.get(key_dtype, 1)
    constants = {
        "NUMBER": dtype,
        "GIVEN": key_dtype,
        "SCALE_OF_HALVES": scale,
        "ROW_AXES": batch_axes,
    }
    return cuda_text(
        "attention/algorithms/block.cu", f"attention/algorithms/{name}.cu", **constants
    )
