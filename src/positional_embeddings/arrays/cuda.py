"""Kernels of CUDA, for CuPy: each text is a file in the folder of the module that launches it."""

# A product is not fused with the sum that follows: NumPy rounds each.
OPTIONS = ("--fmad=false",)

# What CUDA calls a dtype, where it is not the name in CuPy's headers.
_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}


def cuda_text(*files: str, **constants: object) -> str:
    """Return the text of files such as `angles/cos_sin.cu`, after a `#define` for each constant.

    Names of dtypes become those of CUDA's types.
    """
    from importlib import resources  # noqa: PLC0415 - takes long to import

    defines = [f"#define {name} {_TYPES.get(str(x), x)}\n" for name, x in constants.items()]
    folder = resources.files("positional_embeddings")
    return "".join([*defines, *(folder.joinpath(file).read_text("utf-8") for file in files)])
