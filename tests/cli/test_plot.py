"""What `plot` hands to the functions that draw, and the files that it writes."""

import json
import struct
import sys

import numpy as np
import pytest

from positional_embeddings import ALiBiBias, RoPE, SandwichBias, plotting, sinusoidal_encoding

LLAMA = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 512}
SCALED = LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 32,
    "max_position_embeddings": 64,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
}


@pytest.fixture
def drawn(monkeypatch, tmp_path, call):
    """Return what a function of `plotting` is called with, and check what is written."""

    def run(function, line):
        calls = []
        monkeypatch.setattr(
            plotting,
            function,
            lambda *args, **options: calls.append((args, options)),
            raising=False,
        )
        path = tmp_path / "picture.svg"
        status, out, err = call(f"plot {line} --output {path} --json")
        assert (status, err) == (0, "")
        assert json.loads(out) == {
            "path": str(path),
            "format": "svg",
            "bytes": len(path.read_bytes()),
        }
        ((args, options),) = calls
        assert options.pop("ax").figure.get_axes()
        return args, options

    return run


@pytest.fixture
def save(tmp_path):
    def write(name, array):
        path = tmp_path / name
        np.save(path, array)
        return path

    return write


@pytest.mark.parametrize("kind", ["encoding", "similarity"])
def test_encodings(drawn, save, kind):
    (encoding,), options = drawn(f"plot_{kind}", f"{kind} 6 9")
    np.testing.assert_array_equal(encoding, sinusoidal_encoding(np.arange(9), 6))
    assert options == {}
    (encoding,), _ = drawn(f"plot_{kind}", f"{kind} 6 9 --base 5.5")
    np.testing.assert_array_equal(encoding, sinusoidal_encoding(np.arange(9), 6, base=5.5))
    table = np.arange(12.0).reshape(3, 4)
    (encoding,), _ = drawn(f"plot_{kind}", f"{kind} {save('own.npy', table)}")
    np.testing.assert_array_equal(encoding, table)


def test_masks(drawn):
    (mask,), options = drawn("plot_mask", "mask 'CausalMask() | PaddingMask([9, 8])' 4 9")
    assert repr(mask) == "CausalMask() | PaddingMask([9, 8])"
    assert options == {"q_len": 4, "k_len": 9, "offset": None, "batch": 0}
    _, options = drawn("plot_mask", "mask causal 4 --offset 5 --batch 1")
    assert options == {"q_len": 4, "k_len": None, "offset": 5, "batch": 1}


def test_biases(drawn, save):
    (bias,), options = drawn("plot_bias", "bias alibi 8 64 --head 1")
    assert bias == ALiBiBias(8)
    assert options == {"q_len": 64, "k_len": None, "offset": None, "head": 1}
    (bias,), options = drawn("plot_bias", "bias sandwich 2 3 9 --offset 1")
    assert bias == SandwichBias(2)
    assert options == {"q_len": 3, "k_len": 9, "offset": 1, "head": 0}
    (bias,), options = drawn("plot_bias", f"bias {save('bias.npy', np.eye(3))} --head 2")
    np.testing.assert_array_equal(bias, np.eye(3))
    assert options == {"q_len": None, "k_len": None, "offset": None, "head": 2}


def test_attention(drawn, save):
    path = save("weights.npy", np.ones((2, 3, 4)) / 3)
    (weights,), options = drawn("plot_attention", f"attention {path} --index 3")
    np.testing.assert_array_equal(weights, np.ones((2, 3, 4)) / 3)
    assert options == {"index": 3, "key_axis": None}
    _, options = drawn("plot_attention", f"attention {path} --key-axis -1")
    assert options == {"index": 0, "key_axis": -1}


@pytest.mark.parametrize("kind", ["decay", "wavelengths"])
def test_rotary_embeddings(drawn, tmp_path, kind):
    function = {"decay": "plot_rope_decay", "wavelengths": "plot_wavelengths"}[kind]

    def of(line, distance):
        (ropes,), options = drawn(function, f"{kind} {line}")
        assert options == {}
        assert {rope.seq_len for rope in ropes.values()} == {distance}
        return ropes

    assert of("--dim 64", 4096) == {"base 10,000": RoPE(64, 4096)}
    two = of("--dim 64 --base 10000 --base 5e5 --context 99", 99)
    assert two == {"base 10,000": RoPE(64, 99), "base 500,000": RoPE(64, 99, 5e5)}
    near = of("--dim 64 --base 1234567 --base 1234568", 4096)
    assert [rope.base for rope in near.values()] == [1234567, 1234568]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert of(f"{path} --context 8", 8) == {"default": RoPE(64, 8)}
    path.write_text(json.dumps(SCALED))
    scaled = RoPE.from_hf_config(SCALED)
    assert of(tmp_path, 512) == {"without scaling": RoPE(64, 512), "linear": scaled}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    path.write_text(json.dumps(LLAMA | {"rope_scaling": yarn}))
    ropes, _ = drawn(function, f"{kind} {path}")
    assert [rope.seq_len for rope in ropes[0].values()] == [128, LLAMA["max_position_embeddings"]]
    path.write_text(json.dumps(GEMMA))
    assert of(tmp_path, 64) == {
        "full_attention, default": RoPE(32, 64, 1e6),
        "sliding_attention, default": RoPE(32, 64, 1e4),
    }
    only = of(f"{tmp_path} --layer-type sliding_attention", 64)
    assert only == {"sliding_attention, default": RoPE(32, 64, 1e4)}


REAL = [
    "encoding 6 9",
    "similarity 6 9",
    "mask 'CausalMask() | SlidingWindowMask(1, 0)' 6",
    "bias alibi 4 9 --head 1",
    "attention {}",
    "decay --dim 16 --context 50",
    "wavelengths --dim 16 --base 100 --base 1000",
]


@pytest.mark.parametrize("line", REAL)
def test_pictures(printed, save, tmp_path, line):
    line = line.format(save("own.npy", np.eye(3)))
    path = tmp_path / "own.PNG"
    path.write_text("overwritten")
    text = printed(f"plot {line} -o {path}")
    png = path.read_bytes()
    assert text == f"wrote {path}: Portable Network Graphics, {len(png):,} bytes\n"
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height) == (960, 720)


def test_matplotlib_is_asked_for(monkeypatch, call):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    message = 'Pictures need Matplotlib: pip install "positional-embeddings[plot]".'
    expected = f"positional-embeddings: error: {message}\n"
    assert call("plot encoding 6 9 -o picture.png") == (2, "", expected)


def test_no_state_of_pyplot_is_left(printed, tmp_path):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    printed(f"plot encoding 6 9 -o {tmp_path / 'a.svg'}")
    assert plt.get_fignums() == before


def test_a_format_whose_program_is_missing(monkeypatch, call, tmp_path):
    from matplotlib.figure import Figure

    def fail(*_, **__):
        message = "xelatex not found"
        raise RuntimeError(message)

    monkeypatch.setattr(Figure, "savefig", fail)
    path = tmp_path / "a.pgf"
    expected = "positional-embeddings: error: xelatex not found\n"
    assert call(f"plot encoding 6 9 -o {path}") == (2, "", expected)


WRONG = {
    "encoding 6 9 -o {0}/a": "Format '' is not supported (supported formats: ",
    "encoding 6 9 -o {0}/a.docx": "Format 'docx' is not supported (supported formats: ",
    "encoding 6 9 -o {0}/none/a.svg": "{0}/none/a.svg: No such file or directory",
    "encoding 6 -o {0}/a.svg": "POSITIONS must be given with FEATURES",
    "encoding six 9 -o {0}/a.svg": "argument FEATURES|FILE.npy: must be an integer or a file",
    "encoding 6 0 -o {0}/a.svg": "`encoding` must not be empty, got shape (6, 0).",
    "encoding -3 9 -o {0}/a.svg": "FEATURES|FILE.npy must be a positive integer, got -3.",
    "encoding {0}/no.npy -o {0}/a.svg": "{0}/no.npy: No such file or directory",
    "encoding {0}/text.npy -o {0}/a.svg": "{0}/text.npy must be a file .npy of NumPy",
    "encoding {0}/empty.npy -o {0}/a.svg": "{0}/empty.npy must be a file .npy of NumPy",
    "encoding {0}/two.npy -o {0}/a.svg": "`encoding` must be an array (NumPy, ",
    "encoding {0}/one.npy 9 -o {0}/a.svg": "POSITIONS must be left out with FILE.npy",
    "encoding {0}/one.npy --base 9 -o {0}/a.svg": "--base must be left out with FILE.npy",
    "encoding {0}/one.npy -o {0}/a.svg": "`encoding` must have shape (features, positions), got",
    "bias alibi -o {0}/a.svg": "HEADS must be a positive integer, got None",
    "bias alibi 8 -o {0}/a.svg": "Q_LEN must be a positive integer, got None",
    "bias t5 8 64 -o {0}/a.svg": "argument NAME|FILE.npy: must be one of alibi, sandwich or a",
    "bias {0}/one.npy 3 -o {0}/a.svg": "HEADS must be left out with FILE.npy",
    "bias {0}/one.npy --offset 3 -o {0}/a.svg": "--offset must be left out where NAME|FILE.npy is ",
    "attention {0}/square.npy --key-axis 3 -o {0}/a.svg": "--key-axis must be 1 or -1, got 3.",
    "mask causl 3 -o {0}/a.svg": "MASK must be full, causal, or an expression of ",
    "decay -o {0}/a.svg": "one of the arguments CONFIG --dim is required (see ",
    "decay {0} --dim 8 -o {0}/a.svg": "argument --dim: not allowed with argument CONFIG (see ",
    "decay {0} --base 8 -o {0}/a.svg": "--base must be left out with CONFIG",
    "decay --dim 8 --layout half -o {0}/a.svg": "--layout must be left out with --dim",
    "decay --dim 8 --layer-type a -o {0}/a.svg": "--layer-type must be left out with --dim",
    "decay --dim 7 -o {0}/a.svg": "--dim must be a positive even integer, got 7.",
    "decay --dim 8 --context 0 -o {0}/a.svg": "--context must be a positive integer, got 0.",
    "decay --dim 8 --base x -o {0}/a.svg": "argument --base: invalid float value: 'x' (see ",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_calls(call, tmp_path, line):
    (tmp_path / "text.npy").write_text("text")
    (tmp_path / "empty.npy").touch()
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.save(tmp_path / "square.npy", np.eye(3))
    with (tmp_path / "two.npy").open("wb") as file:
        np.savez(file, a=np.zeros(1), b=np.zeros(1))
    before = sorted(tmp_path.iterdir())
    status, out, err = call(f"plot {line.format(tmp_path)}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    expected = f"positional-embeddings: error: {WRONG[line].format(tmp_path)}"
    assert err.replace("\\", "/").startswith(expected.replace("\\", "/"))
    assert sorted(tmp_path.iterdir()) == before
