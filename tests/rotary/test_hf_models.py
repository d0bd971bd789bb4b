"""Every model of the installed transformers: the scores of its own code, or a refusal by name.

Generated from the folders of models. What `RoPE.from_hf_config` accepts is driven by
`hf_models.py`, and its scores of queries and keys are compared to 1e-4 of the largest one.
"""

import copy
import importlib
from collections import Counter

import pytest

import hf_models
from positional_embeddings import RoPE

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the models
    pytest.mark.library("torch", "transformers"),
]
FOLDERS = hf_models.folders()
THETAS = ("rope_theta", "rotary_emb_base", "rope_local_base_freq")
SIZES = ("head_dim", "qk_rope_head_dim", "kv_channels", "rotary_dim", "global_head_dim")


@pytest.fixture(autouse=True)
def _fetch_nothing(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def answers(config, asked):
    """Return an embedding, or the text of a refusal, for each type of layer asked for."""
    said = {}
    for layer_type in asked:
        try:
            said[layer_type] = RoPE.from_hf_config(
                config, 1000, layer_type=layer_type, feature_axis=-1, seq_axis=-2
            )
        except ValueError as error:
            said[layer_type] = str(error)
    return said


def layer_types(config):
    return [None, *dict.fromkeys(getattr(config, "layer_types", None) or ())]


def verdict(model_type, config):
    """Tell whether a configuration is accepted; a refusal names the type and the way on."""
    if config is None:  # a class without defaults
        config = model = {"model_type": model_type}
        asked = [None]
    else:
        model = getattr(config, "text_config", None)
        model = model if hasattr(model, "to_dict") else config
        asked = layer_types(model)
        config, model = config.to_dict(), model.to_dict()
    said = answers(config, asked)
    # A configuration of several models answers for the text's.
    assert said == answers(model, asked)
    if any(isinstance(rope, RoPE) for rope in said.values()):
        return "equal"
    for message in said.values():
        assert repr(model.get("model_type") or model_type) in message
        assert "by hand" in message or "leave its queries and keys as they are" in message
    return "refused"


def without(config, *names):
    """Return a configuration without some keys, wherever they are."""
    return {
        key: without(value, *names) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in names
    }


def check_scores(config):
    """Compare what is accepted with the model's own scores, at each of its attentions."""
    small = copy.deepcopy(config)
    hf_models.shrink(small)
    kinds = getattr(small, "layer_types", None)
    said = answers(small.to_dict(), layer_types(small))
    rotating = set()
    coordinates = any(getattr(rope, "sections", None) for rope in said.values())
    for module, pairs, positions in hf_models.seen(small, coordinates=coordinates):
        kind = kinds[module.layer_idx] if kinds and hasattr(module, "layer_idx") else None
        if hf_models.rotates(pairs):
            ropes = [said[key] for key in {None, kind} if isinstance(said[key], RoPE)]
            assert ropes, said[kind]
            for rope in ropes:
                assert hf_models.is_equal(rope, pairs, positions), (kind, rope)
            rotating.add(kind)
    assert rotating
    # There is no embedding of a type of layers that do not rotate.
    for kind, rope in said.items():
        assert isinstance(rope, str) or kind in (None, *rotating), kind


@pytest.mark.parametrize("folder", FOLDERS or ["transformers"])
def test_models_of(folder):
    for config_class, config in hf_models.configs(folder):
        if verdict(config_class.model_type, config) == "refused" or hasattr(config, "text_config"):
            continue
        check_scores(config)
        # What is not in a configuration is not guessed.
        asked = layer_types(config)
        said = answers(config.to_dict(), asked)
        for names in (THETAS, ("rope_parameters",), ("partial_rotary_factor",)):
            for kind, rope in answers(without(config.to_dict(), *names), asked).items():
                assert isinstance(rope, str) or rope == said[kind], names


@pytest.mark.parametrize("name", [*SIZES, "rope_parameters"])
@pytest.mark.parametrize("folder", FOLDERS or ["transformers"])
def test_defaults_of(folder, name):
    """A key that is left out: what transformers makes of it, or a refusal."""
    for config_class, config in hf_models.configs(folder):
        if config is None or hasattr(config, "text_config") or not config.to_dict().get(name):
            continue
        given = without(config.to_dict(), name)
        if name in SIZES:
            # Sizes that are not equal to a default by chance.
            heads = given.get("num_attention_heads", given.get("n_head"))
            given |= {
                key: heads * 24 for key in ("hidden_size", "n_embd") if isinstance(heads, int)
            }
        else:
            given |= bases(folder)
        check_defaults(config_class, given, layer_types(config))


EXTENDED = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}


@pytest.mark.parametrize("folder", FOLDERS or ["transformers"])
def test_older_form_of(folder):
    """Configurations with `rope_scaling` and bases outside of it."""
    for config_class, config in hf_models.configs(folder):
        if config is None or hasattr(config, "text_config"):
            continue
        given = without(config.to_dict(), "rope_parameters") | bases(folder)
        given["rope_scaling"] = EXTENDED
        check_defaults(config_class, given, layer_types(config))


def bases(folder):
    """Return a base by its older names."""
    # Its configuration takes a base that is given for one of its two types of layers only.
    base = 500_000.0 if folder == "olmo3" else 12345.0
    return dict.fromkeys(("rope_theta", "rotary_emb_base"), base)


def check_defaults(config_class, given, asked):
    """Compare with the answers to what transformers makes of a configuration, but refusals."""
    said = answers(given, asked)
    if all(isinstance(rope, str) for rope in said.values()):
        return
    try:
        theirs = config_class(**given).to_dict()
    except Exception:  # noqa: BLE001 - it checks what it is given
        return
    whole = answers({"rope_theta": given.get("rope_theta", 1e4)} | theirs, asked)
    for kind, rope in said.items():
        if isinstance(rope, RoPE) and not isinstance(whole[kind], str):
            assert rope == whole[kind], config_class.model_type


@pytest.mark.parametrize("folder", FOLDERS or ["transformers"])
def test_shares_of(folder):
    """A share of rotated features, which some models read and the others do not."""
    for config_class, config in hf_models.configs(folder):
        if verdict(config_class.model_type, config) == "refused" or hasattr(config, "text_config"):
            continue
        given = getattr(config, "rope_parameters", None) or {}
        for parameters in [value for value in given.values() if isinstance(value, dict)] or [given]:
            parameters["partial_rotary_factor"] = 0.5
        said = answers(config.to_dict(), layer_types(config))
        if given and any(isinstance(rope, RoPE) for rope in said.values()):
            check_scores(config)


@pytest.mark.parametrize("folder", FOLDERS or ["transformers"])
def test_sections_of(folder):
    """Positions of three coordinates, where the model's code has sections."""
    for _, config in hf_models.configs(folder):
        if config is None or hasattr(config, "text_config") or not hf_models.has_sections(config):
            continue
        given = config.rope_parameters
        for parameters in [value for value in given.values() if isinstance(value, dict)] or [given]:
            parameters["mrope_section"] = sections_of(config, parameters)
        said = answers(config.to_dict(), layer_types(config))
        if any(isinstance(rope, RoPE) for rope in said.values()):
            assert all(isinstance(rope, str) or rope.sections for rope in said.values())
            check_scores(config)
        else:
            assert all(repr(config.model_type) in message for message in said.values())


def sections_of(config, parameters):
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    half = int(size * parameters.get("partial_rotary_factor", 1.0)) // 2
    side = 5 * half // 16
    return [half - 2 * side, side, side]


FACTORS = {"short_factor": [1.5] * 32, "long_factor": [2.0] * 32}
WAVES = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize("outer", [{}, {"original_max_position_embeddings": 1024}])
@pytest.mark.parametrize("nested", [{}, {"original_max_position_embeddings": 512}])
@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 8.0},
        {"rope_type": "yarn", "factor": 4.0},
        {"rope_type": "llama3", "factor": 8.0} | WAVES,
        {"rope_type": "longrope", "factor": 4.0} | FACTORS,
    ],
    ids=lambda parameters: parameters.get("rope_type"),
)
def test_types_and_lengths(parameters, nested, outer):
    """Which of the original lengths counts, for each type of parameters."""
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        head_dim=64,
        max_position_embeddings=8192,
        rope_parameters={"rope_theta": 1e4} | parameters | nested,
        **outer,
    )
    given = config.to_dict()
    # As it was written: transformers moves the outer length into the parameters.
    given["rope_parameters"] = {"rope_theta": 1e4} | parameters | nested
    hf_models.shrink(config)
    said = answers(given, [None])[None]
    for _, pairs, positions in hf_models.seen(config):
        assert hf_models.is_equal(said, pairs, positions)


def test_every_type_is_equal_or_refused():
    counts = Counter()
    for folder in FOLDERS:
        for config_class, config in hf_models.configs(folder):
            counts[verdict(config_class.model_type, config)] += 1
    print(f"equal {counts['equal']}, refused {counts['refused']}, of {counts.total()}")
    assert counts["equal"] > 150
    assert counts.total() == sum(len(hf_models.config_classes(folder)) for folder in FOLDERS)
