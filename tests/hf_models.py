"""Rotated queries and keys of the models of the installed transformers.

A model with random weights runs three times: at position 0, without rotation; at other positions;
and at position 0 with linear layers that return 1, 2, 3, ..., which shows the order of the features
of queries and keys. A replacement of its attention records queries and keys and returns zeros, so
that the inputs of all layers are equal in every run.
"""

import dataclasses
import importlib
import importlib.util
import inspect
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

_ATTENTION = re.compile("Att|MLA")
_ROTARY = re.compile("Rotary|RoPE|Rope")
POSITIONS = np.asarray([0, 1, 3, 10, 50, 200, 700])
# Values of published configurations, for types whose defaults do not run.
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
    "llama4_text": {"attn_temperature_tuning": False},
    "laguna": {"layer_types": ["sliding_attention", "full_attention"] * 20},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")
_WIDTHS = re.compile(r"intermediate_size(_mlp)?$|ffn_(dim|hidden_size)$|^n_inner$")
_COUNTS = re.compile(r"^num_layers$|(en|de)coder_layers$")


def folders():
    """Return the folders of models, without importing transformers."""
    spec = importlib.util.find_spec("transformers")
    if spec is None:
        return []
    root = Path(spec.origin).parent / "models"
    return sorted(path.parent.name for path in root.glob("*/configuration_*.py"))


def config_classes(folder):
    """Return all classes of configurations of a folder."""
    from transformers import PreTrainedConfig

    classes = []
    package = importlib.import_module(f"transformers.models.{folder}")
    for path in sorted(Path(package.__path__[0]).glob("configuration_*.py")):
        module = importlib.import_module(f"{package.__name__}.{path.stem}")
        configs = [x for x in _classes_of(module) if issubclass(x, PreTrainedConfig)]
        classes += [x for x in configs if x.model_type]
    # An old name of a class is a subclass of the same type.
    old = [value for value in classes if value.model_type == super(value, value).model_type]
    return [value for value in dict.fromkeys(classes) if value not in old]


def _classes_of(module):
    """Return the classes that a module defines."""
    values = vars(module).values()
    return [x for x in values if inspect.isclass(x) and x.__module__ == module.__name__]


def class_defaults(config_class):
    """Return the default values of the fields of a class of configurations."""
    is_dataclass = dataclasses.is_dataclass(config_class)
    return {x.name: x.default for x in dataclasses.fields(config_class)} if is_dataclass else {}


def configs(folder):
    """Return pairs of a class of configurations and its default instance, None if it raises."""
    pairs = []
    for config_class in config_classes(folder):
        try:
            config = config_class(**CHANGES.get(config_class.model_type, {}))
        except Exception:  # noqa: BLE001 - some classes refuse their own defaults
            config = None
        else:
            # Otherwise, access to values that differ between layers raises, even in `hasattr`.
            config.allow_global_per_layer_attribute_access = True
        pairs.append((config_class, config))
    return pairs


def code_files(config_class):
    """Return the files of the models of a class of configurations.

    For a folder without models, this is the file of the class of `AutoModel`.
    """
    import transformers

    classes = [getattr(transformers, name) for name in _auto_class_names(config_class)[:1]]
    return _folder_code_files(config_class) + [Path(inspect.getfile(x)) for x in classes]


def code_of(config_class):
    """Return the code of the models of a class of configurations."""
    return "".join(path.read_text(encoding="utf-8") for path in code_files(config_class))


_READ_KEY = re.compile(
    r"""(?:config\w*\.|(?:get|has)attr\(\s*[\w.]*config[\w.]*,\s*")(\w+)(?:", (\w[\w.]*)\))?"""
)
_CLASS_KEY = re.compile(r"""(?:self\.|")(\w+)(?:", (\w[\w.]*)\))?""")
_LITERALS = {"True": True, "False": False}


@cache
def named_keys(config_class):
    """Return the keys that the code of a type reads from configurations, with their defaults."""
    classes = re.split(r"^(?=@|class |def )", code_of(config_class), flags=re.MULTILINE)
    inner = "".join(x for x in classes if not re.match(r"class \w+(For[A-Z]|LMHead)", x))
    files = {inspect.getfile(x) for x in config_class.__mro__ if ".models." in x.__module__}
    class_code = "".join(Path(file).read_text(encoding="utf-8") for file in sorted(files))
    class_code = re.sub(r'r?""".*?"""', "", class_code, flags=re.DOTALL)
    defaults = {}
    for name, default in _READ_KEY.findall(inner) + _CLASS_KEY.findall(class_code):
        is_number = default.replace(".", "", 1).isdecimal()
        value = float(default) if is_number else _LITERALS.get(default)
        defaults[name] = value if defaults.get(name) is None else defaults[name]
    return defaults


def code_modules(config_class):
    """Return the modules of the models of a class of configurations."""
    names = [f"{path.parent.name}.{path.stem}" for path in code_files(config_class)]
    return [importlib.import_module(f"transformers.models.{name}") for name in names]


def _folder_code_files(config_class):
    return sorted(Path(inspect.getfile(config_class)).parent.glob("modeling_*.py"))


def _auto_class_names(config_class):
    """Return the names of the classes of `AutoModel` for a folder without models."""
    if _folder_code_files(config_class):
        return []
    from transformers.models.auto import modeling_auto as auto

    name = config_class.model_type
    mappings = auto.MODEL_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return [names[name] for names in mappings if name in names]


def has_sections(config):
    """Return whether the code of a model names sections of features."""
    parameters = getattr(config, "rope_parameters", None)
    return bool(parameters) and "mrope_section" in code_of(type(config))


def model_classes(config):
    """Return the classes of models of a configuration, those without heads first."""
    from torch import nn
    from transformers import PreTrainedModel

    auto_names = _auto_class_names(type(config))
    classes = [
        value
        for module in code_modules(type(config))
        for value in _classes_of(module)
        if issubclass(value, PreTrainedModel)
        and (value.config_class is type(config) or value.__name__ in auto_names)
        and value.forward is not nn.Module.forward
        and "PreTrained" not in value.__name__
    ]
    return sorted(classes, key=lambda c: (not c.__name__.endswith("Model"), len(c.__name__)))


def class_names(config_class):
    """Return the names of the classes of models of a class of configurations."""
    from transformers import PreTrainedModel
    from transformers.models.auto import modeling_auto as auto

    names = {
        value.__name__
        for module in code_modules(config_class)
        for value in _classes_of(module)
        if issubclass(value, PreTrainedModel) and value.config_class is config_class
    }
    for constant, mapping in vars(auto).items():
        if constant.startswith("MODEL_") and constant.endswith("_MAPPING_NAMES"):
            mapped = mapping.get(config_class.model_type, ())
            names |= {mapped} if isinstance(mapped, str) else {*mapped}
    return names


def shrink(config):
    """Reduce sizes of a configuration that do not affect rotation."""
    config.allow_global_per_layer_attribute_access = True

    def set_values(**values):
        for name, value in values.items():
            if getattr(config, name, None) is not None:
                with suppress(AttributeError):  # a property
                    setattr(config, name, value)

    heads, hidden = (getattr(config, k, None) for k in ("num_attention_heads", "hidden_size"))
    size = getattr(config, "head_dim", None)
    if isinstance(heads, int) and isinstance(hidden, int) and heads > 4 and hidden > 512:
        is_free = size is not None and hidden != heads * size
        hidden_size = 256 if is_free else 4 * (size or hidden // heads)
        kv_heads = getattr(config, "num_key_value_heads", None)
        set_values(num_attention_heads=4, hidden_size=hidden_size)
        set_values(num_key_value_heads=4 if kv_heads == heads else 2)
        set_values(num_kv_heads=4 if getattr(config, "num_kv_heads", None) == heads else 2)
        per_layer = getattr(config, "num_key_value_heads_per_layer", None) or []
        set_values(num_key_value_heads_per_layer=[2] * len(per_layer))
        if getattr(config, "mamba_expand", None) and getattr(config, "mamba_n_heads", None):
            set_values(mamba_n_heads=4, mamba_d_head=config.hidden_size * config.mamba_expand // 4)
    for name, value in list(vars(config).items()):
        if _WIDTHS.search(name):
            set_values(**{name: [32] * len(value) if isinstance(value, list) else 32})
        elif name in _EXPERTS and isinstance(value, int) and value > 16:
            set_values(**{name: 16})
        elif _COUNTS.search(name) and isinstance(value, int):
            set_values(**{name: min(value, 2)})
        elif "vocab_size" in name and isinstance(value, int) and value > 1000:
            set_values(**{name: 1000})
        elif name.endswith("_token_id") and isinstance(value, int) and value > 2:
            set_values(**{name: 1})
    set_values(num_kv_shared_layers=0)
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int):
        kinds = getattr(config, "layer_types", None)
        first = [kinds.index(kind) for kind in set(kinds)] if kinds else [3]
        layers = min(layers, 1 + max(first))
        set_values(num_hidden_layers=layers)
        if kinds:
            set_values(layer_types=kinds[:layers])
    for name in getattr(type(config), "sub_configs", {}):
        if getattr(config, name, None) is not None:
            shrink(getattr(config, name))


class UndrivenError(AssertionError):
    """No class of models of a configuration runs; the message has the reasons."""


def observe(config, *, coordinates=0):
    """Return (module, (zero, rotated, ramped) of queries and keys, positions) of each attention.

    A small model of a configuration runs, or else its rotary embedding and attention alone.
    """
    reasons = []
    for implementation in ("recorded", "eager"):
        candidates = [(_FullModel, x) for x in model_classes(config)]
        candidates += [(_ModelParts, x) for x in part_classes(config)]
        for runner, parts in candidates:
            try:
                observed = _observe(config, runner, parts, implementation, coordinates)
            except Exception as error:  # noqa: BLE001 - models raise many types
                reasons.append(f"{parts}: {type(error).__name__}: {error}")
            else:
                if observed:
                    return observed
                reasons.append(f"{parts}: no attention")
    raise UndrivenError("\n".join(reasons))


def part_classes(config):
    """Return pairs of classes of a rotary embedding and an attention for a configuration."""
    from torch import nn

    rotaries, attentions = [], []  # of pairs (class, whether it takes this configuration)
    for module in code_modules(type(config)):
        for value in vars(module).values():
            if not inspect.isclass(value) or not issubclass(value, nn.Module):
                continue
            parameter = inspect.signature(value.__init__).parameters.get("config")
            names = inspect.signature(value.forward).parameters
            is_attention = bool(_ATTENTION.search(value.__name__)) and not value.__name__.endswith(
                "Layer"
            )
            if parameter is None or not (is_attention or _ROTARY.search(value.__name__)):
                continue
            if not is_attention or "position_embeddings" in names:
                is_typed = parameter.annotation in (type(config), inspect.Parameter.empty)
                (attentions if is_attention else rotaries).append((value, is_typed))

    def usable(classes):
        """Return the classes for this configuration, or the only class there is."""
        return [value for value, is_typed in classes if is_typed or len(classes) == 1]

    return [(rotary, attention) for rotary in usable(rotaries) for attention in usable(attentions)]


def _draw_weights(model):
    """Set the weights of a model to random numbers, repeated to save time."""
    import torch

    torch.manual_seed(0)
    numbers = torch.randn(2**16 + 1)  # an odd size, so that all rows differ
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or "norm" in name:  # norms must not change the order of features
            weight.data = torch.full(weight.shape, float("bias" not in name))
        else:
            repeated = numbers.repeat(weight.numel() // len(numbers) + 1)[: weight.numel()]
            weight.data = (repeated * 0.02).reshape(weight.shape)
    return model.eval().float()


class _FullModel:
    """A model with other positions for its rotary embeddings."""

    def __init__(self, config, model_class, coordinates):
        from transformers.initialization import no_init_weights

        self.inputs = _inputs(config, model_class)
        with no_init_weights():
            self.model = _draw_weights(model_class(config))
        self.coordinates = coordinates
        rotaries = [m for m in self.model.modules() if "Rotary" in type(m).__name__]
        self.rotaries = [
            m for m in rotaries if "position_ids" in inspect.signature(m.forward).parameters
        ]
        for module in self.rotaries:
            module.register_forward_pre_hook(self.set_positions, with_kwargs=True)
        parameters = inspect.signature(model_class.forward).parameters
        self.can_run = bool(self.rotaries) or "position_ids" in parameters

    def set_positions(self, module, args, kwargs):
        import torch

        names = list(inspect.signature(module.forward).parameters)
        arguments = dict(zip(names, args, strict=False)) | kwargs
        shape = arguments["position_ids"].shape
        positions = torch.from_numpy(_positions(shape[-1], self.coordinates) * self.factor)
        if self.coordinates:
            assert shape[0] == len(positions)
            positions = positions[:, None]
        return (), arguments | {"position_ids": positions.expand(shape)}

    def run(self, factor):
        import torch

        self.factor = factor
        if not self.rotaries:
            self.inputs["position_ids"] = torch.from_numpy(POSITIONS)[None] * factor
        self.model(**self.inputs)

    def positions(self, seq):
        return _positions(seq, self.coordinates)


class _ModelParts:
    """A rotary embedding, and an attention for each type of layers, without a model."""

    GRID = (2, 3)  # patches of an image, for rotary embeddings of images

    def __init__(self, config, classes, coordinates):
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.config, self.coordinates, self.can_run = config, coordinates, True
        rotary, attention = classes
        names = inspect.signature(attention.__init__).parameters
        types = getattr(config, "layer_types", None) or []
        self.types = types[:1] or [None]
        if {"layer_idx", "layer_type"} & names.keys():
            attending = [x for x in dict.fromkeys(types) if "attention" in x and "linear" not in x]
            self.types = attending or self.types
        attentions = []
        for name in self.types:
            arguments = {"layer_idx": types.index(name) if types else 0, "layer_type": name}
            arguments = {key: value for key, value in arguments.items() if key in names}
            attentions.append(attention(config, **arguments))
        self.model = nn.ModuleDict({"rotary": rotary(config), "all": nn.ModuleList(attentions)})
        _draw_weights(self.model)
        parts = attentions[0].modules()
        width = next(part.in_features for part in parts if hasattr(part, "in_features"))
        self.parameters = inspect.signature(attention.forward).parameters
        self.has_image_input = "pixel_values" in inspect.signature(rotary.forward).parameters
        seq = self.GRID[0] * self.GRID[1] if self.has_image_input else len(POSITIONS)
        shape = (seq, width) if "cu_seqlens" in self.parameters else (1, seq, width)
        self.hidden = torch.randn(shape)

    def tables(self, factor, layer_type):
        import torch

        rotary = self.model["rotary"]
        if self.has_image_input:
            size = self.config.patch_size
            patch = (size, size) if isinstance(size, int) else size
            image = torch.zeros(1, 3, *(n * m for n, m in zip(self.GRID, patch, strict=True)))
            inverse = rotary.inv_freq.clone()
            rotary.inv_freq.mul_(factor)
            tables = rotary(image)
            rotary.inv_freq.copy_(inverse)
            return tables
        positions = torch.from_numpy(_positions(len(POSITIONS), self.coordinates)) * factor
        shapes = [positions.mT, positions.mT[None]] if self.coordinates else [positions[None]]
        names = inspect.signature(rotary.forward).parameters
        options = {"layer_type": layer_type} if "layer_type" in names else {}
        for shaped in shapes:
            with suppress(IndexError, RuntimeError):
                return rotary(self.hidden, shaped, **options)
        message = "it takes positions of no known shape"
        raise TypeError(message)

    def run(self, factor):
        import torch

        names = {"attention_mask", "past_key_values"} & self.parameters.keys()
        options = dict.fromkeys(names)
        if "cu_seqlens" in self.parameters:
            options["cu_seqlens"] = torch.tensor([0, len(self.hidden)], dtype=torch.int32)
        for name, attention in zip(self.types, self.model["all"], strict=True):
            tables = self.tables(factor, name)
            attention(self.hidden, position_embeddings=tables, **options)

    def positions(self, seq):
        if self.has_image_input:
            indices = np.indices(self.GRID).reshape(2, -1)
            return (2 * indices + 1) / np.asarray(self.GRID)[:, None] - 1
        return _positions(seq, self.coordinates)


def _observe(config, runner, parts, implementation, coordinates):
    import torch
    from torch.overrides import TorchFunctionMode
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.pytorch_utils import Conv1D

    calls = []

    def record(module, query, key, value, *_, **__):
        calls.append([module, *(x.detach().double().numpy() for x in (query, key))])
        batch, heads, seq, _ = query.shape
        return value.new_zeros(batch, seq, heads, value.shape[-1]), None

    class Products(TorchFunctionMode):
        """Record the operands of scores of models without a replaceable attention."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            name = getattr(function, "__name__", "")
            if implementation == "eager" and name in ("matmul", "__matmul__", "baddbmm"):
                a, b = args[-2:]
                if a.shape[-2] == b.shape[-1] == len(POSITIONS):
                    a, b = (x.reshape(1, -1, *x.shape[-2:]) for x in (a, b.mT))
                    calls.append([None, a.double().numpy(), b.double().numpy()])
                    return torch.zeros_like(result)
            return result

    for function in _functions(config):
        _set_defaults(function, chunk_size=8)  # instead of 64: there are 7 tokens
    ALL_ATTENTION_FUNCTIONS.register("recorded", record)
    ALL_MASK_ATTENTION_FUNCTIONS.register("recorded", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    config._attn_implementation = implementation
    model = runner(config, parts, coordinates)
    if not model.can_run:
        return []

    def ramp(_module, _inputs, result):
        return torch.arange(1.0, 1 + result.shape[-1]).expand(result.shape).contiguous()

    runs = []
    for factor, ramps in ((0, False), (1, False), (0, True)):
        if ramps:
            attentions = [m for m in model.model.modules() if _ATTENTION.search(type(m).__name__)]
            for module in {part for attention in attentions for part in attention.modules()}:
                if isinstance(module, torch.nn.Linear | Conv1D):
                    module.register_forward_hook(ramp)
        calls.clear()
        with torch.no_grad(), Products():
            model.run(factor)
        runs.append(list(calls))
    observed = []
    for zero, rotated, ramped in zip(*runs, strict=True):
        pairs = list(zip(zero[1:], rotated[1:], ramped[1:], strict=True))
        observed.append((zero[0], pairs, model.positions(zero[1].shape[2])))
    return observed


def _functions(config):
    """Yield the functions of the modules of a model."""
    for module in code_modules(type(config)):
        yield from filter(inspect.isfunction, vars(module).values())


def _set_defaults(function, **sizes):
    """Change the defaults of the parameters of a function that are not keyword-only."""
    function = inspect.unwrap(function)
    parameters = inspect.signature(function).parameters.values()
    parameters = [x for x in parameters if x.default is not x.empty and x.kind != x.KEYWORD_ONLY]
    if parameters:
        function.__defaults__ = tuple(sizes.get(x.name, x.default) for x in parameters)


def _positions(seq, coordinates):
    """Return the positions of a sequence: `POSITIONS`, or multiples of 40 for another length."""
    positions = POSITIONS if seq == len(POSITIONS) else 40 * np.arange(seq)
    rows = [positions, positions[::-1], positions // 3]
    return np.stack(rows[:coordinates]) if coordinates else positions


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
        message = f"it takes {list(parameters)}"
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
    """Return the products of queries and keys; a key head serves a group of query heads."""
    keys = np.repeat(keys, queries.shape[1] // keys.shape[1], axis=1)
    return queries @ np.swapaxes(keys, -1, -2)


def sort_features(x, ramped):
    """Return features in the order of the projection."""
    first = ramped[0, :, 0]
    order = np.argsort(first, axis=-1)
    assert (np.diff(np.sort(first, axis=-1)) > 0).all(), "two features of equal value"
    return np.take_along_axis(x, order[None, :, None, :], axis=-1)


def is_equal(rope, pairs, positions):
    """Return whether an embedding gives the scores of a model, to 1e-4 of the largest score."""
    size = rope.head_size
    for zero, rotated, _ in pairs:
        if size > zero.shape[-1]:
            return False
        if not np.allclose(zero[..., :-size], rotated[..., :-size], atol=1e-6):
            return False
    tails = [[x[..., x.shape[-1] - size :] for x in arrays] for arrays in pairs]
    return any(_gives_scores(rope, x, positions) for x in (tails, _with_common_order(tails)) if x)


def _gives_scores(rope, pairs, positions):
    # Rotated features have the factor at position 0, too.
    rotary_dim = rope.rotary_dim or rope.head_size
    factor = np.where(np.arange(rope.head_size) < rotary_dim, rope.attention_factor, 1.0)
    try:
        inputs = [sort_features(zero / factor, ramp / factor) for zero, _, ramp in pairs]
    except AssertionError:
        return False
    expected = scores(*(rotated for _, rotated, _ in pairs))
    actual = scores(*(rope(x, positions=positions) for x in inputs))
    return abs(actual - expected).max() <= 1e-4 * abs(expected).max()


def _with_common_order(pairs):
    """Return queries and keys in one order of features, None if both have known orders.

    Projections that are no linear layers, such as experts, show no order. Scores are products of
    queries and keys, so that both have the same order: that of the other, or else their own.
    """
    known = [ramp[:, :1, :1] for *_, ramp in pairs if _is_ramp(ramp)]
    if len(known) == len(pairs):
        return None
    order = known[0] if known else np.arange(1.0, 1 + pairs[0][0].shape[-1])
    return [(zero, rotated, np.broadcast_to(order, zero.shape)) for zero, rotated, _ in pairs]


def _is_ramp(ramped):
    """Return whether the values of each head are evenly spaced, in any order."""
    steps = np.diff(np.sort(ramped[0, :, 0], axis=-1))
    return bool(steps.min() > 0 and np.allclose(steps, steps[:, :1], rtol=1e-2))


def rotates(pairs):
    """Return whether a model rotated any feature."""
    return not all(np.allclose(zero, rotated, atol=1e-6) for zero, rotated, _ in pairs)


def sections_of(config, parameters):
    """Return sections of three coordinates, most pairs in the first section."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    half = int(size * parameters.get("partial_rotary_factor", 1.0)) // 2
    side = 5 * half // 16
    return [half - 2 * side, side, side]
