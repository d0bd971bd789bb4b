"""Check without a GPU that CuPy has every function that src/ calls, and compiles the kernels.

It needs CuPy with NVRTC and CUDA's headers (``pip install "cupy-cuda13x[ctk]"``), and no driver.
"""

import ast
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import product
from operator import attrgetter
from pathlib import Path

import cupy
import ml_dtypes  # noqa: F401 - names bfloat16
from cuda.pathfinder import find_nvidia_header_directory
from cupy._core import _kernel
from cupy._core._scalar import CScalar
from cupy.cuda import nvrtc

from positional_embeddings.angles import cupy_kernel as angle_kernel
from positional_embeddings.arrays import cuda
from positional_embeddings.attention.algorithms import cupy_kernels as attention_kernels
from positional_embeddings.rotary.kernels import cupy_kernel

BY_VECTORS = "by vectors"
SOURCE = Path(__file__).parents[1] / "src"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
# Types of numbers, each with the type of its angles.
NUMBERS = [(dtype, dtype if dtype == "float64" else "float32") for dtype in cupy_kernel.DTYPES]
INDICES = ("int32", "int64")
AXES = (1, 2, 3, 4)
# What CuPy itself asks of NVRTC.
OPTIONS = ("--std=c++17", "-ftz=true", "--device-as-default-execution-space")
HEADERS = ("complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h")
# The kinds of arguments of an ElementwiseKernel, as CuPy numbers them.
ARRAY, INDEXER, NUMBER = 1, 2, 3
# Integer positions or real ones, and the dtype of the tables.
TABLES = "float32", "float64"
ANGLES = tuple(product((True, False), TABLES))
# Extensions of the standard, whose functions are looked up.
NAMESPACES = ("cuda", "cuda.runtime", "fft", "linalg")


def names_called() -> dict[str, str]:
    """Return what `src/` calls of a namespace, such as xp.exp and xp.linalg.eigh, and where."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = _name_in_namespace(node)
            if name:
                found.setdefault(name, f"{path.relative_to(SOURCE)}:{node.lineno}")
    return {name: at for name, at in found.items() if name not in (*NAMESPACES, "__name__")}


def _name_in_namespace(node: ast.AST) -> str:
    """Return the name of an attribute of `xp`, of the `xp` of an object, or of a part of `xp`."""
    if not isinstance(node, ast.Attribute):
        return ""
    owner = node.value
    if getattr(owner, "id", "") == "xp" or getattr(owner, "attr", "") == "xp":
        return node.attr
    part = _name_in_namespace(owner)
    return f"{part}.{node.attr}" if part in NAMESPACES else ""


def missing_names() -> list[str]:
    """Return the names that CuPy lacks, or that cannot be called."""
    xp = import_module("array_api_compat.cupy")
    missing = []
    for name, where in names_called().items():
        try:
            there = callable(attrgetter(name)(xp))
        except AttributeError:
            there = False
        if not there:
            missing.append(f"{where}: array_api_compat.cupy has no function {name}")
    return missing


def vector_kernels() -> list[tuple[str, str]]:
    """Return a name and the source of the kernel by vectors, for each way that it is made."""
    made = []
    for (number, angle), index in product(NUMBERS, INDICES):
        alignments = (8 if angle == "float64" else 4), 16
        for constants in product((0, 1), (0, 1), alignments, (1, -1)):
            name = ", ".join(map(str, (BY_VECTORS, number, index, *constants)))
            made.append((name, cupy_kernel.raw_source(number, angle, index, *constants)))
    return made


def kernels_of_attention() -> list[tuple[str, str]]:
    """Return a name and the source of each kernel of an attention, for each way it is made."""
    return [
        (
            f"{name}, {given}, {axes} axes",
            attention_kernels.source(name, number, given, axes),
        )
        for name, (given, number), axes in product(attention_kernels.KERNELS, NUMBERS, AXES)
    ]


def elementwise_kernels() -> list[tuple[str, str]]:
    """Return a name and the source that CuPy makes of each kernel element by element."""
    made = []
    for (number, angle), ndim, index in product(NUMBERS, AXES, INDICES):
        kinds = (number, number, angle, angle, number, number)
        made.append(_source(cupy_kernel.elementwise_kernel(), kinds, ndim, index))
    for (integral, table), ndim, index in product(ANGLES, AXES, INDICES):
        parts = ["float64"] * (3 if integral else 5)
        kinds = ("int64" if integral else "float64", *parts, NUMBER, table, table)
        kernel = angle_kernel.kernel_of(cupy, integral=integral)
        made.append(_source(kernel, kinds, ndim, index))
    for x, table, index in product(("uint8", "int64", "float64"), TABLES, INDICES):
        kinds = (x, "float64", NUMBER, NUMBER, NUMBER, table, table)
        made.append(_source(angle_kernel.sum_kernel_of(cupy), kinds, 2, index))
    return made


def _source(kernel: cupy.ElementwiseKernel, kinds: tuple, ndim: int, index: str) -> tuple[str, str]:
    """Return a name and the source of a kernel for arrays, by their dtypes, and numbers."""
    is_32_bits, count = index == "int32", kernel.nin
    given = [None if kind is NUMBER else cupy.dtype(kind).type for kind in kinds]
    inputs, outputs, types = kernel._decide_params_type(  # noqa: SLF001
        tuple(given[:count]), tuple(given[count:])
    )
    infos = [
        _kernel._ArgInfo(NUMBER, CScalar, dtype, 0, True, False)  # noqa: SLF001, FBT003
        if kind is NUMBER
        else _kernel._ArgInfo(ARRAY, cupy.ndarray, dtype, ndim, False, is_32_bits)  # noqa: SLF001, FBT003
        for kind, dtype in zip(kinds, (*inputs, *outputs), strict=True)
    ]
    infos.append(_kernel._ArgInfo(INDEXER, None, None, ndim, True, is_32_bits))  # noqa: SLF001, FBT003
    code = _kernel._get_elementwise_kernel_code(  # noqa: SLF001
        tuple(infos), types, kernel.params, kernel.operation, kernel.name, kernel.preamble
    )
    headers = "".join(f"#include <cupy/{header}>\n" for header in HEADERS)
    return f"{kernel.name}, {kinds}, {index}, {ndim} axes", headers + code


def compiled(source: str, architecture: str) -> str:
    """Compile a kernel for an architecture, down to its machine code, and return its PTX."""
    own = Path(cupy.__file__).parent / "_core/include"
    folders = [own, *(own / "cupy/_cccl" / part for part in ("cub", "thrust", "libcudacxx"))]
    folders.append(find_nvidia_header_directory("cudart"))
    options = [
        *OPTIONS,
        *cuda.OPTIONS,
        *(f"-I{f}" for f in folders),
        f"-arch={architecture}",
    ]
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        nvrtc.getCUBIN(program)
        return nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError as error:
        message = f"{error}\n{nvrtc.getProgramLog(program)}"
        raise RuntimeError(message) from None
    finally:
        nvrtc.destroyProgram(program)


def faults(name: str, source: str, architecture: str) -> list[str]:
    """Return what is wrong with a compiled kernel."""
    try:
        code = compiled(source, architecture)
    except RuntimeError as error:
        return [f"{name}, {architecture}: {error}"]
    found = []
    rotates = name.startswith((BY_VECTORS, cupy_kernel.elementwise_kernel().name))
    if rotates and re.search(r"\bfma\.rn", code):
        found.append("rounds a product and a sum at once, NumPy each")
    if name.startswith(BY_VECTORS):
        stores = re.findall(r"\bst\.global\S*", code)
        if not all(re.search(r"\.v4\.\w32|\.v2\.\w64", store) for store in stores):
            found.append(f"does not store 16 bytes at a time: {stores}")
        if len(re.findall(r"\b(?:div|rem)\.", code)) > 1:
            found.append("divides more than once")
    return [f"{name}, {architecture}: {fault}" for fault in found]


def main() -> int:
    """Print what is wrong, and return the exit status."""
    wrong = missing_names()
    print(f"{len(names_called())} names that src/ calls, {len(wrong)} missing")
    start = time.perf_counter()
    version = ".".join(map(str, nvrtc.getVersion()))
    kernels = [*vector_kernels(), *kernels_of_attention(), *elementwise_kernels()]
    programs = [(*kernel, of) for kernel in kernels for of in ARCHITECTURES]
    with ThreadPoolExecutor() as pool:
        wrong += [
            fault for some in pool.map(faults, *zip(*programs, strict=True)) for fault in some
        ]
    seconds = time.perf_counter() - start
    print(f"{len(programs)} kernels compiled by NVRTC {version} in {seconds:.0f} s")
    for fault in wrong:
        print(fault)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
