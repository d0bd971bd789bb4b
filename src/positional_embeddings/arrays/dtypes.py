"""Names and kinds of the dtypes of all libraries."""

from positional_embeddings.arrays.errors import format_value, wrong_type
from positional_embeddings.arrays.namespace import Dtype, Namespace, cached_lookup

# Each dtype represents all integers up to this one.
MAX_EXACT_INTEGERS = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24}
HALF = "bfloat16", "float16"

_NARROW_DTYPES = ("float16", "bfloat16", "float8_", "float6_", "float4_")


@cached_lookup
def dtype_name(dtype: Dtype) -> str:
    """Return the name of a dtype without its library, such as "float32"."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


@cached_lookup
def is_dtype(dtype: Dtype, kind: str, xp: Namespace) -> bool:
    """Return whether a dtype has a kind of the standard; NumPy gives ml_dtypes no kind."""
    try:
        return bool(xp.isdtype(dtype, kind))
    except (AttributeError, TypeError):
        return False


@cached_lookup
def is_real_floating(dtype: Dtype, xp: Namespace) -> bool:
    """Return whether a dtype is real floating-point; bfloat16 of ml_dtypes is."""
    is_bfloat16 = not isinstance(dtype, str) and dtype_name(dtype) == "bfloat16"
    return is_bfloat16 or is_dtype(dtype, "real floating", xp)


def check_real_dtype(
    dtype: Dtype, requirement: str, xp: Namespace, other_kind: str = "real floating"
) -> None:
    """Check that an option is a real floating-point dtype, or a dtype of another kind."""
    if not _is_real_dtype(dtype, xp, other_kind):
        library = xp.__name__.removeprefix("array_api_compat.")
        name = getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
        is_other = _is_real_dtype(getattr(xp, name, None), xp, other_kind)
        hint = f" Pass {library}.{name}." if is_other else ""
        raise wrong_type("dtype", f"be {requirement} of the library", format_value(dtype), hint)


def _is_real_dtype(dtype: Dtype, xp: Namespace, other_kind: str) -> bool:
    """Return whether a value is a real floating-point dtype, or a dtype of another kind."""
    try:
        return is_real_floating(dtype, xp) or is_dtype(dtype, other_kind, xp)
    except (TypeError, ValueError):  # without a hash, the option is no dtype
        return False


@cached_lookup
def largest_integer(dtype: Dtype, xp: Namespace) -> int:
    """Return the largest value of an integer dtype."""
    return int(xp.iinfo(dtype).max)


@cached_lookup
def is_complex(dtype: Dtype) -> bool:
    """Return whether a dtype is complex floating-point."""
    return dtype_name(dtype) in ("complex64", "complex128")


@cached_lookup
def compute_dtype(dtype: Dtype, xp: Namespace) -> Dtype:
    """Return the real dtype to compute in, in native byte order: float32 for half and complex64."""
    name = dtype_name(dtype)
    if name in ("float64", "complex128"):
        return xp.float64
    narrow = name in ("float32", "complex64") or name.startswith(_NARROW_DTYPES)
    return xp.float32 if narrow else dtype
