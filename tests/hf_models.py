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
from functools import cache
from pathlib import Path

import numpy as np

_ATTENTION = re.compile("Att|MLA")
_ROTARY = re.compile("Rotary|RoPE|Rope")
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
            config = config_class(**CHANGES.get(config_class.model_type, {}))
        except Exception:  # noqa: BLE001 - it checks its own defaults, and refuses them
            config = None
        else:
            # Else what differs between layers raises where it is read, even by `hasattr`.
            config.allow_global_per_layer_attribute_access = True
        found.append((config_class, config))
    return found


def code_files(config_class):
    """Return the files of the models of a class of configurations.

    A folder without models has those of another folder, which `AutoModel` makes for it.
    """
    import transformers

    others = [getattr(transformers, name) for name in _names_of_others(config_class)[:1]]
    return _own_code_files(config_class) + [Path(inspect.getfile(other)) for other in others]


def code_of(config_class):
    """Return the code of the models of a class of configurations."""
    return "".join(path.read_text(encoding="utf-8") for path in code_files(config_class))


_READS = re.compile(
    r"""(?:config\w*\.|(?:get|has)attr\(\s*[\w.]*config[\w.]*,\s*")(\w+)(?:", (\w[\w.]*)\))?"""
)
_CONVERTS = re.compile(r"""(?:self\.|")(\w+)(?:", (\w[\w.]*)\))?""")
_LITERALS = {"True": True, "False": False}


@cache
def named(config_class):
    """Return what the code of a type names like keys of configurations, with their defaults."""
    classes = re.split(r"^(?=@|class |def )", code_of(config_class), flags=re.MULTILINE)
    inner = "".join(x for x in classes if not re.match(r"class \w+(For[A-Z]|LMHead)", x))
    files = {inspect.getfile(x) for x in config_class.__mro__ if ".models." in x.__module__}
    own = "".join(Path(file).read_text(encoding="utf-8") for file in sorted(files))
    own = re.sub(r'r?""".*?"""', "", own, flags=re.DOTALL)
    found = {}
    for name, default in _READS.findall(inner) + _CONVERTS.findall(own):
        is_number = default.replace(".", "", 1).isdecimal()
        value = float(default) if is_number else _LITERALS.get(default)
        found[name] = value if found.get(name) is None else found[name]
    return found


def code_modules(config_class):
    """Return the modules of the models of a class of configurations."""
    names = [f"{path.parent.name}.{path.stem}" for path in code_files(config_class)]
    return [importlib.import_module(f"transformers.models.{name}") for name in names]


def _own_code_files(config_class):
    return sorted(Path(inspect.getfile(config_class)).parent.glob("modeling_*.py"))


def _names_of_others(config_class):
    """Return the names of the classes of models of a folder that has none."""
    if _own_code_files(config_class):
        return []
    from transformers.models.auto import modeling_auto as auto

    name = config_class.model_type
    mappings = auto.MODEL_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return [names[name] for names in mappings if name in names]


def has_sections(config):
    """Tell whether the code of a model speaks of sections of features."""
    parameters = getattr(config, "rope_parameters", None)
    return bool(parameters) and "mrope_section" in code_of(type(config))


def model_classes(config):
    """Return the classes of models of a configuration, the plainest first."""
    from torch import nn
    from transformers import PreTrainedModel

    others = _names_of_others(type(config))
    found = []
    for module in code_modules(type(config)):
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if (
                own
                and issubclass(value, PreTrainedModel)
                and (value.config_class is type(config) or value.__name__ in others)
                and value.forward is not nn.Module.forward
                and "PreTrained" not in value.__name__
            ):
                found.append(value)
    return sorted(found, key=lambda c: (not c.__name__.endswith("Model"), len(c.__name__)))


def class_names(config_class):
    """Return the names of the classes of models of a class of configurations."""
    from transformers import PreTrainedModel
    from transformers.models.auto import modeling_auto as auto

    found = {
        value.__name__
        for module in code_modules(config_class)
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
        if issubclass(value, PreTrainedModel) and value.config_class is config_class
    }
    for name, mapping in vars(auto).items():
        if name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES"):
            names = mapping.get(config_class.model_type, ())
            found |= {names} if isinstance(names, str) else {*names}
    return found


def shrink(config):
    """Make a configuration small where rotation does not depend on it."""
    config.allow_global_per_layer_attribute_access = True

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
        put(num_kv_heads=4 if getattr(config, "num_kv_heads", None) == heads else 2)
        if getattr(config, "mamba_expand", None) and getattr(config, "mamba_n_heads", None):
            put(mamba_n_heads=4, mamba_d_head=config.hidden_size * config.mamba_expand // 4)
    for name, value in list(vars(config).items()):
        if _WIDTHS.search(name):
            put(**{name: [32] * len(value) if isinstance(value, list) else 32})
        elif name in _EXPERTS and isinstance(value, int) and value > 16:
            put(**{name: 16})
        elif _COUNTS.search(name) and isinstance(value, int):
            put(**{name: min(value, 2)})
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


def seen(config, *, coordinates=0):
    """Return what each attention of a small model of a configuration sees.

    If no model runs, its attention and its rotary embedding run by themselves.
    """
    reasons = []
    for implementation in ("kept", "eager"):
        for drive, classes in ((_Whole, model_classes(config)), (_Parts, part_classes(config))):
            for parts in classes:
                try:
                    found = _seen_of(config, drive, parts, implementation, coordinates)
                except Exception as error:  # noqa: BLE001 - whatever stops a model
                    reasons.append(f"{parts}: {type(error).__name__}: {error}")
                else:
                    if found:
                        return found
                    reasons.append(f"{parts}: no attention")
    raise UndrivenError("\n".join(reasons))


def part_classes(config):
    """Return pairs of a rotary embedding and an attention that take a configuration."""
    from torch import nn

    found = []  # as (kind, class, whether it takes this configuration)
    for module in code_modules(type(config)):
        for value in vars(module).values():
            if not inspect.isclass(value) or not issubclass(value, nn.Module):
                continue
            taken = inspect.signature(value.__init__).parameters.get("config")
            names = inspect.signature(value.forward).parameters
            is_attention = bool(_ATTENTION.search(value.__name__)) and not value.__name__.endswith(
                "Layer"
            )
            if taken is None or not (is_attention or _ROTARY.search(value.__name__)):
                continue
            if not is_attention or "position_embeddings" in names:
                fits = taken.annotation in (type(config), inspect.Parameter.empty)
                found.append((is_attention, value, fits))
    both = []
    for kind in (False, True):
        of_kind = [(value, fits) for is_attention, value, fits in found if is_attention is kind]
        # What takes another configuration counts if there is no choice.
        both.append([value for value, fits in of_kind if fits or len(of_kind) == 1])
    return [(rotary, attention) for rotary in both[0] for attention in both[1]]


def _draw(model):
    """Give a model random weights, the same numbers again and again, which takes no time."""
    import torch

    torch.manual_seed(0)
    numbers = torch.randn(2**16 + 1)  # so that no two rows are alike
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or "norm" in name:  # which must not change the order of features
            weight.data = torch.full(weight.shape, float("bias" not in name))
        else:
            repeated = numbers.repeat(weight.numel() // len(numbers) + 1)[: weight.numel()]
            weight.data = (repeated * 0.02).reshape(weight.shape)
    return model.eval().float()


class _Whole:
    """A model, whose rotary embeddings get other positions."""

    def __init__(self, config, model_class, coordinates):
        from transformers.initialization import no_init_weights

        self.inputs = _inputs(config, model_class)
        with no_init_weights():
            self.model = _draw(model_class(config))
        self.coordinates = coordinates
        rotaries = [m for m in self.model.modules() if "Rotary" in type(m).__name__]
        self.rotaries = [
            m for m in rotaries if "position_ids" in inspect.signature(m.forward).parameters
        ]
        for module in self.rotaries:
            module.register_forward_pre_hook(self.place, with_kwargs=True)
        takes = inspect.signature(model_class.forward).parameters
        self.can_run = bool(self.rotaries) or "position_ids" in takes

    def place(self, module, args, kwargs):
        import torch

        names = list(inspect.signature(module.forward).parameters)
        given = dict(zip(names, args, strict=False)) | kwargs
        shape = given["position_ids"].shape
        positions = torch.from_numpy(_positions(shape[-1], self.coordinates) * self.factor)
        if self.coordinates:
            assert shape[0] == len(positions)
            positions = positions[:, None]
        return (), given | {"position_ids": positions.expand(shape)}

    def run(self, factor):
        import torch

        self.factor = factor
        if not self.rotaries:
            self.inputs["position_ids"] = torch.from_numpy(POSITIONS)[None] * factor
        self.model(**self.inputs)

    def positions(self, seq):
        return _positions(seq, self.coordinates)


class _Parts:
    """A rotary embedding, and an attention of each type of layers that takes what it returns."""

    GRID = (2, 3)  # of patches, where a rotary embedding takes an image

    def __init__(self, config, classes, coordinates):
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.config, self.coordinates, self.can_run = config, coordinates, True
        rotary, attention = classes
        names = inspect.signature(attention.__init__).parameters
        types = getattr(config, "layer_types", None) or []
        known = [x for x in dict.fromkeys(types) if "attention" in x and "linear" not in x]
        self.types = known if {"layer_idx", "layer_type"} & names.keys() and known else types[:1]
        self.types = self.types or [None]
        attentions = []
        for name in self.types:
            given = {"layer_idx": types.index(name) if types else 0, "layer_type": name}
            given = {key: value for key, value in given.items() if key in names}
            attentions.append(attention(config, **given))
        self.model = nn.ModuleDict({"rotary": rotary(config), "all": nn.ModuleList(attentions)})
        _draw(self.model)
        parts = attentions[0].modules()
        width = next(part.in_features for part in parts if hasattr(part, "in_features"))
        self.takes = inspect.signature(attention.forward).parameters
        self.takes_image = "pixel_values" in inspect.signature(rotary.forward).parameters
        seq = self.GRID[0] * self.GRID[1] if self.takes_image else len(POSITIONS)
        shape = (seq, width) if "cu_seqlens" in self.takes else (1, seq, width)
        self.hidden = torch.randn(shape)

    def tables(self, factor, layer_type):
        import torch

        rotary = self.model["rotary"]
        if self.takes_image:
            size = self.config.patch_size
            patch = (size, size) if isinstance(size, int) else size
            image = torch.zeros(1, 3, *(n * m for n, m in zip(self.GRID, patch, strict=True)))
            inverse = rotary.inv_freq.clone()
            rotary.inv_freq.mul_(factor)
            found = rotary(image)
            rotary.inv_freq.copy_(inverse)
            return found
        positions = torch.from_numpy(_positions(len(POSITIONS), self.coordinates)) * factor
        shapes = [positions.mT, positions.mT[None]] if self.coordinates else [positions[None]]
        names = inspect.signature(rotary.forward).parameters
        more = {"layer_type": layer_type} if "layer_type" in names else {}
        for shape in shapes:
            with suppress(IndexError, RuntimeError):
                return rotary(self.hidden, shape, **more)
        message = "no shape of positions fits"
        raise TypeError(message)

    def run(self, factor):
        import torch

        more = {name: None for name in ("attention_mask", "past_key_values") if name in self.takes}
        if "cu_seqlens" in self.takes:
            more["cu_seqlens"] = torch.tensor([0, len(self.hidden)], dtype=torch.int32)
        for name, attention in zip(self.types, self.model["all"], strict=True):
            tables = self.tables(factor, name)
            attention(self.hidden, position_embeddings=tables, **more)

    def positions(self, seq):
        if self.takes_image:
            places = np.stack(np.meshgrid(*map(np.arange, self.GRID), indexing="ij")).reshape(2, -1)
            return (2 * places + 1) / np.asarray(self.GRID)[:, None] - 1
        return _positions(seq, self.coordinates)


def _seen_of(config, drive, parts, implementation, coordinates):
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

    for function in _functions(config):
        _count_by(function, chunk_size=8)  # not 64, for 7 tokens
    ALL_ATTENTION_FUNCTIONS.register("kept", keep)
    ALL_MASK_ATTENTION_FUNCTIONS.register("kept", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    config._attn_implementation = implementation
    driven = drive(config, parts, coordinates)
    if not driven.can_run:
        return []

    def ramp(_module, _inputs, result):
        return torch.arange(1.0, 1 + result.shape[-1]).expand(result.shape).contiguous()

    runs = []
    for factor, ramps in ((0, False), (1, False), (0, True)):
        if ramps:
            attentions = [m for m in driven.model.modules() if _ATTENTION.search(type(m).__name__)]
            for module in {part for attention in attentions for part in attention.modules()}:
                if isinstance(module, torch.nn.Linear | Conv1D):
                    module.register_forward_hook(ramp)
        kept.clear()
        with torch.no_grad(), Products():
            driven.run(factor)
        runs.append(list(kept))
    found = []
    for at_zero, rotated, ramped in zip(*runs, strict=True):
        pairs = list(zip(at_zero[1:], rotated[1:], ramped[1:], strict=True))
        found.append((at_zero[0], pairs, driven.positions(at_zero[1].shape[2])))
    return found


def _functions(config):
    """Yield the functions of the modules of a model."""
    for module in code_modules(type(config)):
        yield from filter(inspect.isfunction, vars(module).values())


def _count_by(function, **sizes):
    """Change the defaults of a function."""
    function = inspect.unwrap(function)
    defaults = inspect.signature(function).parameters
    given = [x for x in defaults.values() if x.default is not x.empty and x.kind != x.KEYWORD_ONLY]
    if given:
        function.__defaults__ = tuple(sizes.get(x.name, x.default) for x in given)


def _positions(seq, coordinates):
    """Return the positions of a sequence: the ones above, or others where it has another length."""
    positions = POSITIONS if seq == len(POSITIONS) else 40 * np.arange(seq)
    every = [positions, positions[::-1], positions // 3]
    return np.stack(every[:coordinates]) if coordinates else positions


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
        # Features that are rotated have the factor at position 0 too.
        factor = np.where(np.arange(size) < own, rope.attention_factor, 1.0)
        x = in_order(*(a[..., width - size :] / factor for a in (zero, ramped)))
        mine.append(rope(x, positions=positions))
        theirs.append(rotated[..., width - size :])
    expected = scores(*theirs)
    return abs(scores(*mine) - expected).max() <= 1e-4 * abs(expected).max()


def rotates(pairs):
    """Tell whether a model rotated at all."""
    return not all(np.allclose(zero, rotated, atol=1e-6) for zero, rotated, _ in pairs)


def sections_of(config, parameters):
    """Return sections of three coordinates, the first of which has the most pairs."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    half = int(size * parameters.get("partial_rotary_factor", 1.0)) // 2
    side = 5 * half // 16
    return [half - 2 * side, side, side]
