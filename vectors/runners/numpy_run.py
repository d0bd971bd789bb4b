"""Run the vectors on this library: `python vectors/runners/numpy_run.py --library torch`."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial, reduce
from importlib import import_module
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

import positional_embeddings as pe
from check import CannotError, Run, holds, main

LAST: dict[str, Any] = {"feature_axis": -1, "seq_axis": -2}
SCALINGS = {
    "linear": pe.LinearScaling,
    "ntk": pe.NTKScaling,
    "dynamic_ntk": pe.DynamicNTKScaling,
    "yarn": pe.YaRNScaling,
    "llama3": pe.Llama3Scaling,
    "longrope": pe.LongRoPEScaling,
    "proportional": pe.ProportionalScaling,
}
ON_HOST = ("scaled_frequencies", "calendar", "days_since", "kernel", "kernel_mean")


class Library(NamedTuple):
    """An array library: its namespace, its dtypes, and how arrays come in and out."""

    xp: Any
    device: Any
    integer: str
    wide: str
    array: Callable[[Any, str], Any]
    numpy: Callable[[Any], Any]


class Call(NamedTuple):
    """A test on one library in one dtype."""

    library: Library
    p: dict[str, Any]
    x: dict[str, Any]
    dtype: str

    def real(self, name: str) -> Any:
        """Return an input in the dtype of the test."""
        return self.library.array(self.x[name], self.dtype)

    def place(self, name: str) -> Any:
        """Return positions as integers, or as the widest float that the library has."""
        values = self.x[name]
        if values.dtype == np.int64:
            if np.any(np.abs(values) > np.iinfo(self.library.integer).max):
                raise CannotError("has integers of 32 bits alone")
            return self.library.array(values, self.library.integer)
        if not holds(values, self.library.wide):
            raise CannotError(f"has {self.library.wide} alone, which does not hold the inputs")
        return self.library.array(values, self.library.wide)

    def made(self) -> dict[str, Any]:
        """Return what makes an array of the library, for functions without arrays."""
        xp, device = self.library.xp, self.library.device
        return {"xp": xp, "dtype": getattr(xp, self.dtype), "device": device}

    def positions(self) -> dict[str, Any]:
        """Return positions of queries and keys, whose distances fit the integers, too."""
        names = ("query_positions", "key_positions")
        if (
            max(np.abs(self.x[name]).max() for name in names)
            > np.iinfo(self.library.integer).max // 4
        ):
            raise CannotError("has integers of 32 bits alone")
        return {name: self.place(name) for name in names}

    def out(self, **arrays: Any) -> dict[str, Any]:
        """Return results as NumPy arrays."""
        return {name: self.library.numpy(array) for name, array in arrays.items()}


def frequencies(call: Call) -> Any:
    return call.out(frequencies=pe.inverse_frequencies(**call.p, **call.made()))


def cos_sin(call: Call) -> Any:
    at, dim, base, dtype = call.place("positions"), *call.p.values(), call.made()["dtype"]
    if dim % 2 == 0:
        tables = pe.RoPE(dim, 1, base, **LAST).tables(at, dtype=dtype)
        return call.out(cos=tables.cos, sin=tables.sin)
    options, count = {"base": base, "arrangement": "concatenated", "dtype": dtype}, dim // 2 + 1
    waves = [
        pe.sinusoidal_encoding(at, dim, **options, cos_first=c).T[:, :count] for c in (True, False)
    ]
    return call.out(cos=waves[0], sin=waves[1])


def rotate(call: Call) -> Any:
    x, p = call.real("x"), dict(call.p)
    inverse, proportion = p.pop("inverse"), p.pop("proportion")
    if proportion is not None:
        p["scaling"] = pe.ProportionalScaling(proportion)
    rope = pe.RoPE(x.shape[-1], 1, **p, **LAST)
    return call.out(y=rope(x, positions=call.place("positions"), inverse=inverse))


def rotate_complex(call: Call) -> Any:
    both = call.x["real"] + 1j * call.x["imag"]
    x = call.library.array(both, {"float64": "complex128", "float32": "complex64"}[call.dtype])
    rope = pe.RoPE(2 * x.shape[-1], 1, call.p["base"], **LAST)
    y = rope(x, positions=call.place("positions"), inverse=call.p["inverse"])
    return call.out(real=call.library.xp.real(y), imag=call.library.xp.imag(y))


def rope_of(p: dict[str, Any]) -> pe.RoPE:
    scaling = SCALINGS[p["method"]](**p["options"])
    return pe.RoPE(p["dim"], p["seq_len"], p["base"], scaling=scaling, **LAST)


def scaled_frequencies(call: Call) -> Any:
    rope = rope_of(call.p)
    factor = np.asarray(rope.attention_factor)
    return {"frequencies": rope.inv_freq, "attention_factor": factor.astype(call.dtype)}


def scaled_score(call: Call) -> Any:
    xp, at = call.library.xp, call.place("positions")
    q, k = (
        rope_of(call.p)(call.real(n)[None, :], positions=at[i : i + 1]) for i, n in enumerate("qk")
    )
    return call.out(score=xp.asarray(xp.sum(q * k)))


def rotate_sections(call: Call) -> Any:
    x, p = call.real("x"), dict(call.p)
    options = {"section_frequencies": p.pop("frequencies"), "sections": p.pop("sections")}
    order = {"contiguous": "contiguous", "interleaved": "strided"}[p.pop("order")]
    rope = pe.RoPE(x.shape[-1], 1, **p, **options, section_order=order, **LAST)
    return call.out(y=rope(x, positions=call.place("positions")))


def sinusoid(call: Call) -> Any:
    dtype = call.made()["dtype"]
    return call.out(
        encoding=pe.sinusoidal_encoding(call.place("positions"), **call.p, dtype=dtype).T
    )


def t5_bucket(call: Call) -> Any:
    return call.out(bucket=pe.relative_position_bucket(call.place("relative"), **call.p))


def alibi_slopes(call: Call) -> Any:
    return call.out(slopes=pe.alibi_slopes(**call.p, **call.made()))


def heads_first(call: Call, bias: Any, **dtype: Any) -> Any:
    made = bias(**call.positions(), **dtype)
    return call.out(bias=call.library.xp.permute_dims(made, (2, 0, 1)))


def alibi_bias(call: Call) -> Any:
    return heads_first(call, pe.ALiBiBias(**call.p), dtype=call.made()["dtype"])


def kerple(call: Call) -> Any:
    return heads_first(call, pe.KERPLEBias(call.real("r1"), call.real("r2"), **call.p))


def fire(call: Call) -> Any:
    names = ("hidden_weight", "hidden_bias", "output_weight", "output_bias")
    return heads_first(call, pe.FIREBias(*map(call.real, names), **call.p))


def sandwich(call: Call) -> Any:
    return heads_first(call, pe.SandwichBias(**call.p), dtype=call.made()["dtype"])


def shaw(call: Call) -> Any:
    table = call.real("table")
    vectors = pe.RelativePE(call.p["max_distance"], table.shape[1], embeddings=table)
    return call.out(vectors=vectors(**call.positions()))


def xpos_scale(call: Call) -> Any:
    dtype = call.made()["dtype"]
    return call.out(scale=pe.xpos_scale(call.place("positions"), **call.p, dtype=dtype).T)


def xpos_scores(call: Call) -> Any:
    p, dtype = dict(call.p), call.made()["dtype"]
    rope = pe.RoPE(p["dim"], 1, p.pop("base"), **LAST)
    rotated = []
    for name, at, sign in zip("qk", call.positions().values(), (1, -1), strict=True):
        tables, scale = rope.tables(at, dtype=dtype), pe.xpos_scale(at, **p, dtype=dtype).T ** sign
        cos, sin = tables.cos * scale, tables.sin * scale
        rotated += [pe.apply_rope(call.real(name), cos, sin, layout="interleaved", feature_axis=-1)]
    return call.out(scores=rotated[0] @ rotated[1].T)


def rule_of(written: dict[str, Any]) -> pe.Mask:
    p = dict(written)
    name = p.pop("rule")
    if name == "any":
        return reduce(lambda a, b: a & b, map(rule_of, p["rules"]))
    if name == "causal":
        return pe.CausalMask(mask_diagonal=p["diagonal"])
    if name == "segments":
        return pe.SegmentMask(*(np.asarray(ids).T for ids in p.values()))
    masks = {"window": pe.SlidingWindowMask, "padding": pe.PaddingMask, "prefix": pe.PrefixMask}
    masks |= {"chunked": pe.ChunkedMask, "dilated": pe.DilatedMask, "global": pe.GlobalMask}
    return (masks | {"neighbourhood": pe.NeighbourhoodMask})[name](**p)


def mask(call: Call) -> Any:
    on, p = call.made(), call.p
    hidden = reduce(lambda a, b: a | b, map(rule_of, p["rules"]), pe.SlidingWindowMask(None, None))
    where = {"offset": p["offset"], "xp": on["xp"], "device": on["device"]}
    dense = hidden.dense(p["query_count"], p["key_count"], **where)
    return call.out(attends=on["xp"].permute_dims(~dense, (2, 0, 1)))


def attention(call: Call) -> Any:
    options = {name: call.real(name) for name in ("bias", "sinks") if name in call.x}
    if "attends" in call.x:
        options["mask"] = call.library.array(~call.x["attends"], "bool")[None, ...]
    if "bias" in options:
        options["bias"] = options["bias"][None, ...]
    q, k, v = (call.real(name)[None, ...] for name in "qkv")
    options |= call.p | {"enable_gqa": True, "return_lse": True} | LAST
    output, lse = pe.scaled_dot_product_attention(q, k, v, **options)
    return call.out(output=output[0, ...], lse=lse[0, ...])


def spherical_harmonics(call: Call) -> Any:
    degree, order = call.x["degree"], call.x["order"]
    places = call.place("latitude"), call.place("longitude")
    dtype = call.made()["dtype"]
    every = pe.spherical_encoding(*places, int(degree.max()), dtype=dtype)
    return {"harmonics": call.library.numpy(every)[degree**2 + degree + order]}


def calendar(call: Call) -> Any:
    from positional_embeddings.sklearn import PositionalEncoder

    zone, texts = call.p["time_zone"], call.x["times"]
    times = [datetime.fromisoformat(text) for text in texts]
    times = np.asarray([time.astimezone(UTC) for time in times] if zone else times, dtype=object)
    encoder = PositionalEncoder(
        periods=call.p["period"], harmonics=call.p["harmonics"], time_zone=zone, trend=False
    )
    return {"encoding": encoder.fit_transform(times[:, None])}


def days_since(call: Call) -> Any:
    origin, *times = map(datetime.fromisoformat, (call.p["origin"], *call.x["times"]))
    times = [time if time.tzinfo is None else time.astimezone(UTC) for time in times]
    return {"days": pe.days_since(times, origin)}


def cyclic(call: Call) -> Any:
    p, dtype = call.p, call.made()["dtype"]
    x = pe.cyclic_encoding(call.place("x"), p["periods"], p["harmonics"], dtype=dtype)
    return call.out(encoding=x.T)


def kernel_of(written: dict[str, Any]) -> Any:
    from positional_embeddings import sklearn

    p = dict(written)
    name = p.pop("kernel")
    if name == "product":
        return reduce(lambda a, b: a * b, map(kernel_of, p["factors"]))
    kernels = {"gaussian": sklearn.GaussianKernel, "matern": sklearn.MaternKernel}
    kernels["sphere"] = partial(sklearn.SphereKernel, kernel="gaussian")
    return (kernels | {"periodic": sklearn.PeriodicKernel})[name](**p)


def kernel_mean(call: Call) -> Any:
    from positional_embeddings.sklearn import AttentionRegressor

    model = AttentionRegressor(kernel_of(call.p), local_linear=False)
    model.fit(call.x["samples"], call.x["values"])
    return {"mean": model.predict(call.x["queries"])}


def kernel(call: Call) -> Any:
    # The mean of 0 at x, whose weight is 1, and of 1 at a sample of weight w is w / (1 + w).
    x, found = call.x["x"], []
    for sample in call.x["y"]:
        inputs = {"samples": np.stack([x, sample]), "values": np.asarray([0.0, 1.0])}
        mean = kernel_mean(call._replace(x=inputs | {"queries": x[None]}))["mean"][0]
        found.append(mean / (1 - mean))
    return {"weight": np.asarray(found)}


def runner(library: Library) -> Run:
    """Return what runs a test on a library."""

    def run(function: str, p: dict[str, Any], x: dict[str, Any], dtype: str) -> Any:
        if function in ON_HOST and library.xp is not np:
            raise CannotError("computed by NumPy, for all libraries")
        return globals()[function](Call(library, p, x, dtype))

    return run


def opened(name: str) -> tuple[Library, list[str]]:
    """Return a library, and the dtypes that it has."""
    module = import_module({"jax": "jax.numpy", "dask": "dask.array"}.get(name, name))
    xp = array_api_compat.array_namespace(module.empty(1))
    device = "cpu" if name == "torch" else None
    half = {"torch": ["float16", "bfloat16"], "jax": ["float16", "bfloat16"]}
    half |= {"numpy": ["float16"], "cupy": ["float16"]}
    has_float64 = "float64" in xp.__array_namespace_info__().dtypes()
    wide, integer = ("float64", "int64") if has_float64 else ("float32", "int32")

    def array(values: Any, dtype: str) -> Any:
        return xp.asarray(np.array(values), dtype=getattr(xp, dtype))

    def numpy(values: Any) -> Any:
        values = values.get() if hasattr(values, "get") else values
        if str(values.dtype).endswith("bfloat16"):
            values = xp.astype(values, xp.float32)
        return np.asarray(values)

    dtypes = ["float64"] * has_float64 + ["float32"] + half.get(name, [])
    return Library(np if name == "numpy" else xp, device, integer, wide, array, numpy), dtypes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["numpy", "array_api_strict", "torch", "jax", "dask", "cupy"]
    parser.add_argument("--library", choices=names, default="numpy")
    library, dtypes = opened(parser.parse_known_args()[0].library)
    main(runner(library), dtypes, parser)
