"""Sources of kernels are files of the package, after their dependencies."""

from importlib import resources

import pytest

from positional_embeddings.arrays.cuda import cuda_text


def test_constants_come_before_the_files():
    names = "attention/algorithms/block.cu", "attention/algorithms/softmax.cu"
    text = cuda_text(*names, NUMBER="float32", ROW_AXES=3)
    files = [
        resources.files("positional_embeddings").joinpath(name).read_text("utf-8") for name in names
    ]
    assert text == "".join(["#define NUMBER float\n#define ROW_AXES 3\n", *files])


@pytest.mark.parametrize(
    "dtype, name", [("float64", "double"), ("int64", "long long"), ("bfloat16", "bfloat16")]
)
def test_dtypes_are_named_as_in_cuda(dtype, name):
    assert cuda_text(TYPE=dtype) == f"#define TYPE {name}\n"
