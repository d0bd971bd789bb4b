"""Sources of kernels are files of the package, after their dependencies."""

from importlib import resources

import pytest

from positional_embeddings.arrays.cuda import cuda_text


def test_constants_come_before_the_files():
    text = cuda_text("attention/block.cu", "attention/softmax.cu", NUMBER="float32", ROW_AXES=3)
    folder = resources.files("positional_embeddings") / "attention"
    files = [(folder / name).read_text("utf-8") for name in ("block.cu", "softmax.cu")]
    assert text == "".join(["#define NUMBER float\n#define ROW_AXES 3\n", *files])


@pytest.mark.parametrize(
    "dtype, name", [("float64", "double"), ("int64", "long long"), ("bfloat16", "bfloat16")]
)
def test_dtypes_are_named_as_in_cuda(dtype, name):
    assert cuda_text(TYPE=dtype) == f"#define TYPE {name}\n"
