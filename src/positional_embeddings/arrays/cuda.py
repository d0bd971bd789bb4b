"""Sources of CUDA kernels for CuPy; each is a file next to the module that launches it."""

# Without fused multiply-add: NumPy rounds products and sums separately.
OPTIONS = ("--fmad=false",)

# CUDA's names of dtypes, if they differ from the names in CuPy's headers.
_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}


def cuda_text(*files: str, **constants: object) -> str:
    """Return the text of files such as `angles/cos_sin.cu`, after a `#define` for each constant.

    Names of dtypes become names of CUDA types.
    """
    from importlib import resources  # noqa: PLC0415 - takes long to import

    defines = [f"#define {name} {_TYPES.get(str(x), x)}\n" for name, x in constants.items()]
    folder = resources.files("positional_embeddings")
    return "".join([*defines, *(folder.joinpath(file).read_text("utf-8") for file in files)])
