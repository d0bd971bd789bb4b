"""Every model of the installed transformers: the scores of its own code, or a refusal by name.

`RoPE.layers_from_hf_config` reads `model_types.json`. `.ci/write_models.py` writes the file: it
compares the scores of queries and keys with the scores of the model, to 1e-4 of the largest score.
"""

import importlib
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hf_models
from positional_embeddings import (
    CausalMask,
    RoPE,
    SegmentMask,
    SlidingWindowMask,
    attention_layers,
)
from positional_embeddings.models.model_types import models
from scripts import loaded

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the models
    pytest.mark.library("torch", "transformers"),
]
FOLDERS = hf_models.folders()
# Folders of each run; `--long` takes all folders, as `make models` does.
QUICK = ("cohere2", "gemma2", "gpt2", "qwen2")
SEED = os.environ.get("MODELS_SEED", "0")
DRAWN = random.Random(SEED).sample(FOLDERS, min(40, len(FOLDERS)))  # noqa: S311
SIZES = ("head_dim", "qk_rope_head_dim", "kv_channels", "rotary_dim")


@pytest.fixture(autouse=True, scope="module")
def _one_thread_and_no_hub():
    torch = importlib.import_module("torch")
    count = torch.get_num_threads()
    torch.set_num_threads(1)  # for many small arrays
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        importlib.import_module("transformers.modeling_utils")  # takes seconds
        yield
    torch.set_num_threads(count)


@pytest.fixture(scope="module")
def writer():
    yield from loaded(Path(__file__).parents[2] / ".ci/write_models.py")


def ropes_or_error(config):
    """Return the embeddings of the layers, or the common one, or the text of the error."""
    for function in (RoPE.layers_from_hf_config, RoPE.from_hf_config):
        try:
            return function(config, 1000)
        except (TypeError, ValueError) as error:
            refusal = str(error)
    return refusal


def without_keys(config, *names):
    """Return a configuration without some keys, at any depth."""
    return {
        key: without_keys(value, *names) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in names
    }


@pytest.mark.parametrize(
    "folders", [*[(name,) for name in QUICK], pytest.param(FOLDERS, marks=pytest.mark.long)]
)
def test_the_file_is_what_the_program_writes(folders, writer, monkeypatch):
    """Rotation, and attention of the queries, keys and values of the model's own code."""
    for folder in folders:
        for config_class, config in hf_models.configs(folder):
            name = config_class.model_type
            expected = models().get(name)
            with monkeypatch.context() as patch:
                patch.setitem(models(), name, expected)  # the program changes the entry
                fields = writer.describe_type(config_class, config)
                assert (fields and writer.complete(config_class, config, fields)) == expected
            if expected is None:
                models().pop(name, None)


def rotary_configs(folders):
    """Yield the types of folders that are read, with the defaults of the class."""
    for folder in folders:
        for config_class in hf_models.config_classes(folder):
            if "layout" in models().get(config_class.model_type, {}):
                yield config_class, config_class().to_dict()


YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}
FOLDER_SETS = [DRAWN, pytest.param(FOLDERS, marks=pytest.mark.long)]


@pytest.mark.parametrize("folders", FOLDER_SETS, ids=("drawn", "all"))
def test_missing_keys_have_the_defaults_of_transformers(folders):
    """A missing key has the default of transformers, or is refused."""
    for config_class, config in rotary_configs(folders):
        for names in (*((size,) for size in SIZES), ("rope_parameters",), SIZES):
            check(config_class, without_keys(config, *names))
        check(config_class, {"model_type": config_class.model_type})


@pytest.mark.parametrize("folders", FOLDER_SETS, ids=("drawn", "all"))
def test_older_forms_of(folders):
    """Configurations with `rope_scaling` and bases outside of it."""
    for config_class, config in rotary_configs(folders):
        for base in ({}, {"rope_theta": 12345.0}):
            check(config_class, without_keys(config, "rope_parameters") | base)
            # The configuration of Olmo 3 applies a base to only one of its two types.
            if config_class.model_type != "olmo3" or not base:
                values = without_keys(config, "rope_parameters") | base | {"rope_scaling": YARN}
                check(config_class, values)


def check(config_class, values):
    """Compare a configuration with the one that transformers makes of it, except refusals."""
    actual = ropes_or_error(values)
    if isinstance(actual, str):
        return
    try:
        expected = ropes_or_error(config_class(**values).to_dict())
    except Exception:  # noqa: BLE001 - some classes refuse the values
        return
    if not isinstance(expected, str) and isinstance(expected, list) == isinstance(actual, list):
        assert actual == expected, (config_class.model_type, values)


@pytest.mark.parametrize("folders", FOLDER_SETS, ids=("drawn", "all"))
def test_parts_of_images_with_the_type_of_the_whole_model(folders):
    """As in published configurations of Qwen3-VL: never the rotation of the text model."""
    for folder in {*folders, "qwen3_vl"}:
        for config_class, config in hf_models.configs(folder):
            vision = getattr(config, "vision_config", None)
            is_whole = "text" in models().get(config_class.model_type, {})
            if is_whole and hasattr(vision, "patch_size"):
                values = vision.to_dict()
                ropes = ropes_or_error(values | {"model_type": config_class.model_type})
                if isinstance(ropes, str):
                    assert isinstance(ropes_or_error(values), str)
                else:
                    assert ropes == ropes_or_error(values)


FACTORS = {"short_factor": [1.5] * 32, "long_factor": [2.0] * 32}
BANDS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize("outer", [{}, {"original_max_position_embeddings": 1024}])
@pytest.mark.parametrize("nested", [{}, {"original_max_position_embeddings": 512}])
@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 8.0},
        {"rope_type": "yarn", "factor": 4.0},
        {"rope_type": "llama3", "factor": 8.0} | BANDS,
        {"rope_type": "longrope", "factor": 4.0} | FACTORS,
    ],
    ids=lambda parameters: parameters.get("rope_type"),
)
def test_types_and_lengths(parameters, nested, outer):
    """The original length that has priority, for each type of parameters."""
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        head_dim=64,
        max_position_embeddings=8192,
        rope_parameters={"rope_theta": 1e4} | parameters | nested,
        **outer,
    )
    values = config.to_dict()
    # As published: transformers moves the outer length into the parameters.
    values["rope_parameters"] = {"rope_theta": 1e4} | parameters | nested
    hf_models.shrink(config)
    rope = RoPE.from_hf_config(values, 1000, feature_axis=-1, seq_axis=-2)
    for _, pairs, positions in hf_models.observe(config):
        assert hf_models.is_equal(rope, pairs, positions)


NOISE = np.random.default_rng(0).standard_normal((4, 1, 2, 5, 8))
RAMP = np.broadcast_to(np.arange(1.0, 9), (1, 2, 5, 8))


@pytest.mark.parametrize("order", [slice(None), [3, 1, 0, 2, 7, 5, 4, 6]])
@pytest.mark.parametrize("ramps", [(RAMP, RAMP), (NOISE[2], RAMP), (RAMP, NOISE[2])])
def test_projections_that_show_no_order_of_features(ramps, order):
    """Experts and convolutions: queries and keys have the same order of features."""
    axes = {"feature_axis": -1, "seq_axis": -2}
    rope, other = (RoPE(8, 9, layout=layout, **axes) for layout in ("half", "interleaved"))
    positions = np.asarray([0, 1, 3, 4, 8])
    arrays = [(x, rope(x, positions=positions)) for x in NOISE[:2]]
    pairs = [
        (x[..., order], rotated[..., order], ramp if ramp is NOISE[2] else ramp[..., order])
        for (x, rotated), ramp in zip(arrays, ramps, strict=True)
    ]
    assert hf_models.is_equal(rope, pairs, positions)
    assert not hf_models.is_equal(other, pairs, positions)


def test_projections_without_any_order_of_features():
    axes = {"feature_axis": -1, "seq_axis": -2}
    rope, positions = RoPE(8, 9, **axes), np.arange(5)
    pairs = [
        (x, rope(x, positions=positions), noise)
        for x, noise in zip(NOISE[:2], NOISE[2:], strict=True)
    ]
    assert hf_models.is_equal(rope, pairs, positions)
    assert not hf_models.is_equal(replace(rope, layout="interleaved"), pairs, positions)


@pytest.mark.parametrize(
    ("model_type", "rotary_dim"), [("jetmoe", None), ("minimax_m3_vl_text", None), ("zaya", 64)]
)
def test_types_that_rotate_halves_without_a_known_order(model_type, rotary_dim):
    """The projections of JetMoE and Zaya show no order; MiniMax-M3 ignores its `rotary_dim`."""
    ropes = RoPE.layers_from_hf_config({"model_type": model_type, "num_hidden_layers": 2}, 64)
    assert {(x.layout, x.head_size, x.rotary_dim) for x in ropes} == {("half", 128, rotary_dim)}


@pytest.mark.long
def test_most_types_with_rotary_keys_are_read():
    counts, refused = Counter(), []
    for folder in FOLDERS:
        for config_class, config in hf_models.configs(folder):
            values = {} if config is None else config.to_dict()
            if not any(values[key] for key in values if "rope" in key or "rotary" in key):
                continue
            ropes = ropes_or_error(values)
            counts["refused" if isinstance(ropes, str) else "read"] += 1
            if isinstance(ropes, str):
                refused.append(f"{config_class.model_type}: {ropes}")
                names = (repr(config_class.model_type), "text_config", "hidden_size")
                assert any(name in ropes for name in names), ropes
    print(counts, *refused, sep="\n")
    assert counts["read"] >= 195


def test_the_page_is_written_with_the_file(writer):
    data = json.loads(writer.OUTPUT.read_text())
    assert writer.OUTPUT.read_text() == writer.data_file(*data.values())
    assert writer.PAGE.read_text() == writer.page(data["models"], data["transformers"])
    assert writer.VECTORS.read_text() == writer.vectors(data["models"], data["transformers"])


def release(version):
    """Return the first two numbers of a version."""
    return tuple(int(number) for number in version.split(".")[:2])


@pytest.mark.long
def test_types_that_are_known_are_types_of_the_installed_version(writer):
    """A newer version than the version of the file may have more types: `make models`."""
    installed = importlib.import_module("transformers").__version__
    written = json.loads(writer.OUTPUT.read_text())["transformers"]
    if release(installed) < release(written):
        pytest.skip(f"transformers {installed} has not all types of {written}")
    classes = [x for folder in FOLDERS for x in hf_models.config_classes(folder)]
    types = models().keys() - writer.ALIASES.keys()
    assert types <= {config_class.model_type for config_class in classes}


def test_the_window_of_modernbert_decoder_counts_before_its_local_attention():
    [config_class] = hf_models.config_classes("modernbert_decoder")
    for values in ({}, {"sliding_window": 32}, {"local_attention": 128, "sliding_window": 32}):
        layers = attention_layers({"model_type": config_class.model_type, **values})
        window = config_class(**values).sliding_window
        assert {layer.window for layer in layers} == {None, window}


def test_tokens_of_images_see_what_the_guide_of_masks_says():
    """Masks of Gemma 3 for a prompt with two images, with and without a window of four tokens."""
    torch = importlib.import_module("torch")
    gemma3 = importlib.import_module("transformers.models.gemma3.modeling_gemma3")
    config = importlib.import_module("transformers").Gemma3TextConfig(sliding_window=4)
    config._attn_implementation = "eager"
    image = gemma3.get_block_sequence_ids_for_mask(torch.tensor([[0, 1, 1, 1, 1, 1, 0, 1, 1, 0]]))
    expected = gemma3.create_masks_for_vision_model(
        config=config,
        inputs_embeds=torch.zeros(1, 10, 8),
        attention_mask=None,
        cache=None,
        position_ids=torch.arange(10)[None],
        block_sequence_ids=image,
    )
    mask = CausalMask() & SegmentMask(image[0].numpy())
    windowed = mask | SlidingWindowMask(4 - 1, None)
    for name, actual in (("full_attention", mask), ("sliding_attention", windowed)):
        assert ((expected[name][0, 0].numpy() < 0) == actual.dense(10)[:, :, 0]).all()
