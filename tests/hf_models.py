"""The models of the installed transformers, driven to see how they rotate queries and keys.

A model of random weights runs three times: at position 0, which rotates nothing; at other
positions; and at position 0 with linear layers that put out 1, 2, 3, ..., which shows where
features of the projections stand in queries and keys. Its attention is replaced by one that
keeps queries and keys and returns zeros, so that all layers see the same in every run.
"""

import importlib
import importlib.util
import inspect
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

_ATTENTION = re.compile("Att|MLA")
POSITIONS = np.asarray([0, 1, 3, 10, 50, 200, 700])
# Where defaults alone do not make a model that runs: what its published configurations have.
CHANGES = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "bamba": {"attn_layer_indices": [2]},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"] * 20},
    "dots1": {"num_key_value_heads": 4, "n_routed_experts": 8, "first_k_dense_replace": 8},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "glm4_moe": {"head_dim": 128},
    "glm4v_moe_text": {"head_dim": 128},
    "glm4v_text": {"partial_rotary_factor": 0.5},
    "glm_image_text": {"partial_rotary_factor": 0.5},
    "granitemoehybrid": {
        "position_embedding_type": "rope",
        "layer_types": ["attention", "mamba"] * 16,
    },
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")
_WIDTHS = (
    "expert_ffn_hidden_size",
    "intermediate_size",
    "intermediate_size_mlp",
    "ffn_dim",
    "ffn_hidden_size",
    "moe_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "n_inner",
    "prefix_dense_intermediate_size",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
)


def folders():
    """Return the folders of models, without importing transformers."""
    spec = importlib.util.find_spec("transformers")
    if spec is None:
        return []
    root = Path(spec.origin).parent / "models"
    return sorted(path.parent.name for path in root.glob("*/configuration_*.py"))


def config_classes(folder):
    """Return the classes of configurations of a folder, all of them."""
    from transformers import PreTrainedConfig

    found = []
    package = importlib.import_module(f"transformers.models.{folder}")
    for path in sorted(Path(package.__path__[0]).glob("configuration_*.py")):
        module = importlib.import_module(f"{package.__name__}.{path.stem}")
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and issubclass(value, PreTrainedConfig) and value.model_type:
                found.append(value)
    # An old name of a class is a subclass of the same type.
    old = [value for value in found if value.model_type == super(value, value).model_type]
    return [value for value in dict.fromkeys(found) if value not in old]


def configs(folder):
    """Return each class of configurations with one of its defaults, None where it has none."""
    found = []
    for config_class in config_classes(folder):
        try:
            found.append((config_class, config_class(**CHANGES.get(config_class.model_type, {}))))
        except Exception:  # noqa: BLE001 - it checks its own defaults, and refuses them
            found.append((config_class, None))
    return found


def has_sections(config):
    """Tell whether the code of a model speaks of sections of features."""
    folder = Path(inspect.getfile(type(config))).parent
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("modeling_*.py")]
    parameters = getattr(config, "rope_parameters", None)
    return bool(parameters) and any("mrope_section" in source for source in sources)


def model_classes(config):
    """Return the classes of models of a configuration, the plainest first."""
    from torch import nn
    from transformers import PreTrainedModel

    folder = type(config).__module__.rpartition(".")[0]
    found = []
    for path in sorted(Path(importlib.import_module(folder).__path__[0]).glob("modeling_*.py")):
        module = importlib.import_module(f"{folder}.{path.stem}")
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if (
                own
                and issubclass(value, PreTrainedModel)
                and value.config_class is type(config)
                and value.forward is not nn.Module.forward
                and "PreTrained" not in value.__name__
            ):
                found.append(value)
    return sorted(found, key=lambda c: (not c.__name__.endswith("Model"), len(c.__name__)))


def shrink(config):
    """Make a configuration small where rotation does not depend on it."""

    def put(**values):
        for name, value in values.items():
            if getattr(config, name, None) is not None:
                with suppress(AttributeError):  # a property, made of others
                    setattr(config, name, value)

    heads, hidden = (getattr(config, k, None) for k in ("num_attention_heads", "hidden_size"))
    size = getattr(config, "head_dim", None)
    if isinstance(heads, int) and isinstance(hidden, int) and heads > 4 and hidden > 512:
        own = size is not None and hidden != heads * size
        kv_heads = getattr(config, "num_key_value_heads", None)
        put(num_attention_heads=4, hidden_size=256 if own else 4 * (size or hidden // heads))
        put(num_key_value_heads=4 if kv_heads == heads else 2)
        if getattr(config, "mamba_expand", None) and getattr(config, "mamba_n_heads", None):
            put(mamba_n_heads=4, mamba_d_head=config.hidden_size * config.mamba_expand // 4)
    for name, value in list(vars(config).items()):
        if name in _WIDTHS:
            put(**{name: [32] * len(value) if isinstance(value, list) else 32})
        elif name in _EXPERTS and isinstance(value, int) and value > 16:
            put(**{name: 16})
        elif name == "num_layers" and isinstance(value, int):
            put(num_layers=2)
        elif "vocab_size" in name and isinstance(value, int) and value > 1000:
            put(**{name: 1000})
        elif name.endswith("_token_id") and isinstance(value, int) and value > 2:
            put(**{name: 1})
    put(num_kv_shared_layers=0)
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int):
        kinds = getattr(config, "layer_types", None)
        first = [kinds.index(kind) for kind in set(kinds)] if kinds else [3]
        layers = min(layers, 1 + max(first))
        put(num_hidden_layers=layers)
        if kinds:
            put(layer_types=kinds[:layers])
    for name in getattr(type(config), "sub_configs", {}):
        if getattr(config, name, None) is not None:
            shrink(getattr(config, name))


class UndrivenError(AssertionError):
    """No class of models of a configuration runs here; says why."""


def seen(config, *, coordinates=False):
    """Return what each attention of a small model of a configuration sees."""
    reasons = []
    for implementation in ("kept", "eager"):
        for model_class in model_classes(config):
            try:
                found = _seen_of(config, model_class, implementation, coordinates=coordinates)
            except Exception as error:  # noqa: BLE001 - whatever stops a model
                reasons.append(f"{model_class.__name__}: {type(error).__name__}: {error}")
            else:
                if found:
                    return found
                reasons.append(f"{model_class.__name__}: no attention")
    raise UndrivenError("\n".join(reasons))


def _seen_of(config, model_class, implementation, *, coordinates):
    import torch
    from torch.overrides import TorchFunctionMode
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.pytorch_utils import Conv1D

    kept = []

    def keep(module, query, key, value, *_, **__):
        kept.append([module, *(x.detach().double().numpy() for x in (query, key))])
        batch, heads, seq, _ = query.shape
        return value.new_zeros(batch, seq, heads, value.shape[-1]), None

    class Products(TorchFunctionMode):
        """Keep the operands of scores, of models that call no replaceable attention."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            name = getattr(function, "__name__", "")
            if implementation == "eager" and name in ("matmul", "__matmul__", "baddbmm"):
                a, b = args[-2:]
                if a.shape[-2] == b.shape[-1] == len(POSITIONS):
                    a, b = (x.reshape(1, -1, *x.shape[-2:]) for x in (a, b.mT))
                    kept.append([None, a.double().numpy(), b.double().numpy()])
                    return torch.zeros_like(result)
            return result

    ALL_ATTENTION_FUNCTIONS.register("kept", keep)
    ALL_MASK_ATTENTION_FUNCTIONS.register("kept", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    config._attn_implementation = implementation
    inputs = _inputs(config, model_class)
    torch.manual_seed(0)
    model = model_class(config).eval().float()
    factor = 0

    def place(module, args, kwargs):
        names = list(inspect.signature(module.forward).parameters)
        given = dict(zip(names, args, strict=False)) | kwargs
        shape = given["position_ids"].shape
        positions = torch.from_numpy(_positions(shape[-1], coordinates) * factor)
        if coordinates:
            assert shape[0] == len(positions)
            positions = positions[:, None]
        return (), given | {"position_ids": positions.expand(shape)}

    def ramp(_module, _inputs, result):
        return torch.arange(1.0, 1 + result.shape[-1]).expand(result.shape).contiguous()

    rotaries = [m for m in model.modules() if "Rotary" in type(m).__name__]
    rotaries = [m for m in rotaries if "position_ids" in inspect.signature(m.forward).parameters]
    for module in rotaries:
        module.register_forward_pre_hook(place, with_kwargs=True)
    if not rotaries and "position_ids" not in inspect.signature(model_class.forward).parameters:
        return []
    runs = []
    for factor, ramps in ((0, False), (1, False), (0, True)):
        if ramps:
            attentions = [m for m in model.modules() if _ATTENTION.search(type(m).__name__)]
            for module in {part for attention in attentions for part in attention.modules()}:
                if isinstance(module, torch.nn.Linear | Conv1D):
                    module.register_forward_hook(ramp)
        if not rotaries:
            inputs["position_ids"] = torch.from_numpy(POSITIONS)[None] * factor
        kept.clear()
        with torch.no_grad(), Products():
            model(**inputs)
        runs.append(list(kept))
    found = []
    for at_zero, rotated, ramped in zip(*runs, strict=True):
        pairs = list(zip(at_zero[1:], rotated[1:], ramped[1:], strict=True))
        found.append((at_zero[0], pairs, _positions(at_zero[1].shape[2], coordinates)))
    return found


def _positions(seq, coordinates):
    """Return the positions of a sequence: the ones above, or others where it has another length."""
    positions = POSITIONS if seq == len(POSITIONS) else 40 * np.arange(seq)
    return np.stack([positions, positions[::-1], positions // 3]) if coordinates else positions


def _inputs(config, model_class):
    import torch

    torch.manual_seed(1)
    parameters = inspect.signature(model_class.forward).parameters
    seq = len(POSITIONS)
    ids = torch.arange(3, 3 + seq)[None]
    hidden = getattr(config, "hidden_size", None) or 8
    makers = {
        "input_ids": lambda: ids,
        "inputs_embeds": lambda: torch.randn(1, seq, hidden),
        "hidden_states": lambda: torch.randn(1, seq, hidden),
        "input_values": lambda: torch.randn(1, 1, 1920 * seq),
    }
    name = next((name for name in makers if name in parameters), None)
    if name is None:
        message = f"takes {list(parameters)}"
        raise TypeError(message)
    inputs = {name: makers[name]()}
    if name == "input_ids" and "attention_mask" in parameters:
        inputs["attention_mask"] = torch.ones_like(ids)
    if "decoder_input_ids" in parameters:
        inputs["decoder_input_ids"] = ids
    if "use_cache" in parameters:
        inputs["use_cache"] = False
    return inputs


def scores(queries, keys):
    """Return the products of queries and keys, whose heads serve several of the queries'."""
    keys = np.repeat(keys, queries.shape[1] // keys.shape[1], axis=1)
    return queries @ np.swapaxes(keys, -1, -2)


def in_order(x, ramped):
    """Put features into the order of the projection."""
    first = ramped[0, :, 0]
    order = np.argsort(first, axis=-1)
    assert (np.diff(np.sort(first, axis=-1)) > 0).all(), "two features of one value"
    return np.take_along_axis(x, order[None, :, None, :], axis=-1)


def is_equal(rope, pairs, positions):
    """Tell whether an embedding gives the scores of a model, to 1e-4 of the largest."""
    size, own = rope.head_size, rope.rotary_dim or rope.head_size
    mine, theirs = [], []
    for zero, rotated, ramped in pairs:
        width = zero.shape[-1]
        if size > width or not np.allclose(zero[..., :-size], rotated[..., :-size], atol=1e-6):
            return False
        x = in_order(zero[..., width - size :], ramped[..., width - size :])
        x = np.concatenate([x[..., :own] / rope.attention_factor, x[..., own:]], axis=-1)
        mine.append(rope(x, positions=positions))
        theirs.append(rotated[..., width - size :])
    expected = scores(*theirs)
    return abs(scores(*mine) - expected).max() <= 1e-4 * abs(expected).max()


def rotates(pairs):
    """Tell whether a model rotated at all."""
    return not all(np.allclose(zero, rotated, atol=1e-6) for zero, rotated, _ in pairs)
