"""Dtypes of any library."""

from functools import lru_cache

from positional_embeddings.arrays.errors import format_value, wrong_type
from positional_embeddings.arrays.namespace import Dtype, Namespace

# Floats are all integers up to here, and only some of them beyond.
ALL_INTEGERS = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24}
HALF = "bfloat16", "float16"

_NARROW_DTYPES = ("float16", "bfloat16", "float8_", "float6_", "float4_")


@lru_cache(maxsize=256, typed=True)
def dtype_name(dtype: Dtype) -> str:
    """Return the bare name of a dtype of any library, such as "float32"."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


@lru_cache(maxsize=256, typed=True)
def is_dtype(dtype: Dtype, kind: str, xp: Namespace) -> bool:
    """Tell whether `dtype` is of a kind of the standard; ml_dtypes' are of none in NumPy."""
    try:
        return bool(xp.isdtype(dtype, kind))
    except (AttributeError, TypeError):
        return False


@lru_cache(maxsize=256, typed=True)
def is_real_floating(dtype: Dtype, xp: Namespace) -> bool:
    """Tell whether `dtype` holds real floating-point numbers, ml_dtypes' bfloat16 included."""
    # NumPy does not know the kind of ml_dtypes' types.
    is_bfloat16 = not isinstance(dtype, str) and dtype_name(dtype) == "bfloat16"
    return is_bfloat16 or is_dtype(dtype, "real floating", xp)


def check_real_dtype(
    dtype: Dtype, requirement: str, xp: Namespace, other_kind: str = "real floating"
) -> None:
    """Check that an option is a dtype of real numbers, or of another kind."""
    try:
        fits = is_real_floating(dtype, xp) or is_dtype(dtype, other_kind, xp)
    except (TypeError, ValueError):  # what has no hash is no dtype
        fits = False
    if not fits:
        raise wrong_type("dtype", f"be {requirement} of the library", format_value(dtype))


@lru_cache(maxsize=256, typed=True)
def largest_integer(dtype: Dtype, xp: Namespace) -> int:
    """Return the largest number of an integer dtype."""
    return int(xp.iinfo(dtype).max)


@lru_cache(maxsize=256, typed=True)
def is_complex(dtype: Dtype) -> bool:
    """Tell whether `dtype` holds complex floating-point numbers."""
    return dtype_name(dtype) in ("complex64", "complex128")


@lru_cache(maxsize=256, typed=True)
def compute_dtype(dtype: Dtype, xp: Namespace) -> Dtype:
    """Return the real dtype to compute in: float32 for half precision and complex64.

    It is in the byte order of the machine.
    """
    name = dtype_name(dtype)
    if name in ("float64", "complex128"):
        return xp.float64
    narrow = name in ("float32", "complex64") or name.startswith(_NARROW_DTYPES)
    return xp.float32 if narrow else dtype
