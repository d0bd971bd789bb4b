"""Attention of the models of the installed transformers, layer by layer.

A small model with random weights runs on two sequences, one padded on the left, with its own
attention. A run at position 0 shows queries and keys before rotation. If the attention of a model
cannot be replaced, its products and softmaxes are observed.
"""

import copy
import inspect
import math
import re
import sys
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import hf_models as driver
from positional_embeddings.models import keys
from positional_embeddings.models import model_types as catalog
from positional_embeddings.models.attention_layers import attention_layers
from positional_embeddings.models.configuration import nested_keys

TOKENS, PADDED, LONGER = 12, 3, 17
MAX_LENGTH, FAR_POSITION = 64, 5000
FAR_ERROR = 5e-3  # transformers computes angles in float32


class ObservedAttention(NamedTuple):
    """The arguments and the output of the attention of a layer."""

    layer: int
    q: np.ndarray  # (batch, heads, seq, features), projected, before rotation
    k: np.ndarray
    v: np.ndarray
    output: np.ndarray
    positions: np.ndarray  # (batch, seq), below 0 for padding
    mask: np.ndarray | None  # (batch, 1, query, key), added to scores
    scaling: float | None
    options: dict[str, Any]


class _Run(driver._FullModel):
    """A model with random weights, whose positions are multiplied by a factor and shifted."""

    def __init__(self, config, model_class):
        super().__init__(config, model_class, 0)
        self.parameters = inspect.signature(model_class.forward).parameters
        _draw_vectors(self.model)
        scalings = [x for m in self.rotaries for k, x in vars(m).items() if k.endswith("_scaling")]
        self.rotary_factors = {float(x) for x in scalings} | {1.0}

    def set_positions(self, module, args, kwargs):
        names = list(inspect.signature(module.forward).parameters)
        arguments = dict(zip(names, args, strict=False)) | kwargs
        positions = (arguments["position_ids"] + self.start) * self.factor
        return (), arguments | {"position_ids": positions}

    def attend(self, factor, length, padded, start, *, rotates):
        import torch

        self.factor, self.start = factor if rotates else 1, start
        ids = 3 + torch.arange(2 * length).reshape(2, length) % 50
        mask = torch.ones_like(ids)
        mask[1, :padded] = 0
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        if "position_ids" in self.parameters:
            scaled = (positions + start) * self.factor
            inputs["position_ids"] = positions if self.rotaries else scaled
        inputs = {name: x for name, x in inputs.items() if name in self.parameters}
        self.model(**inputs)
        return np.where(mask.numpy() == 1, positions.numpy() + start, -1)


def _draw_vectors(model):
    """Set weights of one axis to random values, positive for scales of norms."""
    import torch

    torch.manual_seed(2)
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or "norm" in name:
            values = torch.rand(weight.shape)
            weight.data = 0.1 * values if "bias" in name else 0.5 + values


# (number of tokens, number of padding tokens, first position) of each sequence.
SEQUENCES = ((TOKENS, PADDED, 0), (LONGER, 0, 0))


def observe(config, sequences=SEQUENCES, *, rotates=True):
    """Return the observed attention of each layer of a small model of a configuration."""
    reasons = []
    for implementation in ("recorded", "sdpa", "eager"):
        for model_class in driver.model_classes(config):
            try:
                layers = _observe(config, model_class, implementation, sequences, rotates=rotates)
            except Exception as error:  # noqa: BLE001 - models raise many types
                reasons.append(f"{model_class.__name__}: {type(error).__name__}: {error}")
            else:
                if layers:
                    return layers
                reasons.append(f"{model_class.__name__}: no attention that can be replaced")
    raise driver.UndrivenError("\n".join(reasons))


def _observe(config, model_class, implementation, sequences, *, rotates):
    import torch
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    calls = []

    def record(module, query, key, value, attention_mask=None, scaling=None, **options):
        attend = sys.modules[type(module).__module__].eager_attention_forward
        arguments = options if scaling is None else options | {"scaling": scaling}
        output, _ = attend(module, query, key, value, attention_mask, **arguments)
        calls.append((module, query, key, value, attention_mask, scaling, options, output))
        return torch.zeros_like(output), None

    ALL_ATTENTION_FUNCTIONS.register("recorded", record)
    ALL_MASK_ATTENTION_FUNCTIONS.register("recorded", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    for function in driver._functions(config):
        driver._set_defaults(function, chunk_size=8)  # of linear attention, to save time
    config._attn_implementation = implementation
    model = _Run(config, model_class)
    layers = []
    for length, padded, start in sequences:
        runs = []
        recorder = _product_recorder(calls, length)
        recorder = nullcontext() if implementation == "recorded" else recorder
        for factor, ramps in ((0, False), (1, False), (0, True)):
            hooks = _add_ramps(model.model) if ramps else []
            calls.clear()
            with torch.no_grad(), recorder:
                positions = model.attend(factor, length, padded, start, rotates=rotates)
            for hook in hooks:
                hook.remove()
            runs.append(list(calls))
        layers += [
            _observed_layer(number, of_layer, positions, model.rotary_factors)
            for number, of_layer in enumerate(zip(*runs, strict=True))
        ]
    return layers


def _product_recorder(calls, length):
    """Return a mode that records the operands of attention, and returns zeros as its output."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Products(TorchFunctionMode):
        operands = None  # queries and keys, until their scores are multiplied by values
        logits = None

        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            if name == "scaled_dot_product_attention":
                return self.attend(*args, **(kwargs or {}))
            result = function(*args, **(kwargs or {}))
            if name in ("matmul", "__matmul__", "baddbmm", "bmm"):
                batches = [x for key, x in (kwargs or {}).items() if key.startswith("batch")]
                a, b = (*args, *batches)[-2:]
                if result.shape[-2:] == (length, length) and a.shape[-1] == b.shape[-2]:
                    self.operands = [_split_heads(x) for x in (a, b.mT)]
                elif a.shape[-2:] == (length, length) and self.logits is not None:
                    self.record(_split_heads(b), self.logits, _split_heads(result))
                    return torch.zeros_like(result)
            elif name == "softmax" and args[0].shape[-2:] == (length, length) and self.operands:
                self.logits = _split_heads(args[0])
            return result

        def attend(self, q, k, v, attn_mask=None, *, is_causal=False, scale=None, **_):
            logits = (q @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
            if is_causal:
                attn_mask = torch.ones(length, length, dtype=torch.bool).tril()
            if attn_mask is not None and attn_mask.dtype == torch.bool:
                logits = logits.masked_fill(~attn_mask, torch.finfo(logits.dtype).min)
            elif attn_mask is not None:
                logits = logits + attn_mask
            result = torch.softmax(logits, dim=-1) @ v
            self.operands = [q, k]
            self.record(v, logits, result)
            return torch.zeros_like(result)

        def record(self, v, logits, output):
            q, k = self.operands
            scaling, slopes, mask = _split_logits(q, k, logits)
            options = {"slopes": slopes} if slopes.any() else {}
            calls.append((None, q, k, v, mask, scaling, options, output.transpose(1, 2)))
            self.operands = self.logits = None

    return Products()


def _split_heads(x):
    """Return an array as (batch, heads, seq, features), of two sequences."""
    return x if x.ndim == 4 else x.reshape(2, -1, *x.shape[-2:])


def _split_logits(q, k, logits):
    """Return the scale of scores, the slope of each head, and the mask.

    The mask contains the remainder of the logits: a bias that is not known.
    """
    import torch

    products = (q @ k.mT).double()
    is_visible = logits > -1e30
    j = torch.arange(logits.shape[-1]).double().expand(logits.shape)
    counts = is_visible.sum(-1, keepdim=True).clamp(min=1)

    def centre(x):
        x = torch.where(is_visible, x.double(), 0)
        return torch.where(is_visible, x - x.sum(-1, keepdim=True) / counts, 0)

    y, columns = centre(logits), torch.stack([centre(products), centre(j)], -1)
    solutions = []
    for head in range(logits.shape[1]):
        design, target = columns[:, head].reshape(-1, 2), y[:, head].reshape(-1, 1)
        solutions.append(torch.linalg.lstsq(design, target).solution[:, 0])
    scale, slope = torch.stack(solutions, -1)
    bias = y - scale[:, None, None] * columns[..., 0] - slope[:, None, None] * columns[..., 1]
    bias = torch.where(abs(bias) > 1e-4 * abs(y).max(), bias, 0.0)
    mask = torch.where(is_visible, bias, torch.finfo(torch.float32).min)
    slopes = torch.where(abs(slope) > 1e-5, slope, 0.0)
    is_shared = (mask == mask[:, :1]).all()
    return float(scale.mean()), slopes.numpy(), mask[:, :1] if is_shared else mask


def _add_ramps(model):
    import torch
    from transformers.pytorch_utils import Conv1D

    def ramp(_module, _inputs, result):
        return torch.arange(1.0, 1 + result.shape[-1]).expand(result.shape).contiguous()

    def skip(_module, inputs, result):
        return inputs[0].reshape(result.shape)

    attentions = [m for m in model.modules() if driver._ATTENTION.search(type(m).__name__)]
    parts = {part for attention in attentions for part in attention.modules()}
    linear = [part for part in parts if isinstance(part, torch.nn.Linear | Conv1D)]
    # Norms may change the order of features.
    norms = [part for part in parts if type(part).__name__.endswith("Norm")]
    return [part.register_forward_hook(ramp) for part in linear] + [
        part.register_forward_hook(skip) for part in norms
    ]


def _observed_layer(number, calls, positions, rotary_factors):
    zero, rotated, ramped = calls
    if len({id(call[0]) for call in calls}) > 1:
        message = "the order of its layers differs between runs"
        raise AssertionError(message)
    module, _, _, value, mask, scaling, options, output = rotated
    # The runs differ only in the positions.
    inputs = []
    scaling = getattr(module, "scaling", None) if scaling is None else scaling
    for operand in (1, 2):
        arrays = [call[operand].double().numpy() for call in (zero, rotated, ramped)]
        factor = _ramp_factor(arrays[-1])
        if factor is None and module is None:
            message = "its factor on queries and keys is not known"
            raise AssertionError(message)
        # The factor of a scaling is part of the rotation.
        if factor is None or any(math.isclose(factor, x, rel_tol=1e-3) for x in rotary_factors):
            factor = 1
        factor /= max(rotary_factors) if factor != 1 else 1
        inputs.append(_projected_order(*arrays) / factor)
        scaling = None if scaling is None else scaling * factor
    layer = getattr(module, "layer_idx", None)
    return ObservedAttention(
        number if layer is None else layer,
        *inputs,
        value.double().numpy(),
        output.double().numpy().swapaxes(1, 2),
        positions,
        None if mask is None else mask.float().numpy(),
        scaling,
        options,
    )


def _ramp_factor(ramp):
    """Return the factor on the values 1, 2, 3, ... of the projections, None without one."""
    values = np.sort(ramp[0, 0, 0])
    factor = np.diff(values).min() if len(values) > 1 else 1
    multiples = values / factor if factor > 0 else [0.5]
    return factor if np.allclose(multiples, np.round(multiples), atol=1e-3) else None


def _projected_order(zero, rotated, ramp):
    """Return features with the rotating ones in the order of their projection."""
    if np.allclose(zero, rotated, atol=1e-6):
        return zero
    is_rotated = np.abs(zero - rotated).max(axis=(0, 1, 2)) > 1e-6
    first = int(np.argmax(is_rotated))
    # The last features of a head rotate, or all features.
    for start in (first, 0):
        values = ramp[..., start:][0, :, 0]
        if (np.diff(np.sort(values, axis=-1)) > 0).all():
            return np.concatenate(
                [zero[..., :start], driver.sort_features(zero[..., start:], ramp[..., start:])],
                axis=-1,
            )
    message = "two features of equal value"
    raise AssertionError(message)


# Keys of attention in configurations.

WINDOWS = re.compile("window|chunk_size$|local_attention$")
NOT_WINDOWS = re.compile("pattern|layers|^use_|chunk_size_|mamba|linear|conv|audio|ssm|gdn|kda")
SCALES = re.compile("scal|multiplier|mscale|softcap")
NOT_SCALES = re.compile(
    "value|^rope_|router|routed|init|^layer_|final_logit|embedding|residual|lm_head|logits"
)
AXES = {"feature_axis": -1, "seq_axis": -2}
RELATIVE_ERROR = 1e-4  # of float32, of the largest number

UNRUN = "its code was not run for this"

# Reasons that short runs do not show, with a remedy.
NORMALIZED_AFTER = (
    "its queries and keys are normalized after they are rotated: rotate by "
    "`RoPE.layers_from_hf_config`, normalize, and attend by `AttentionLayer`s without `rope`"
)
SCALED_AFTER = (
    "its queries are multiplied by weights after they are rotated, and layers in the middle attend "
    "several times: rotate by `RoPE.layers_from_hf_config`, and attend by layers without `rope`"
)
SCALED_QUERIES = "its queries and keys are multiplied by `qk_scale_factor` as they are normalized"
SPARSE = "its attention to long sequences is sparse, or an approximation"
BY_POSITION = "its queries are multiplied by a factor of their position: attend by layers by hand"
DISTANCE_BIAS = "a learned bias of the distance of tokens is added to its scores"
REFUSED = {
    **dict.fromkeys(("deberta", "deberta-v2"), "relative positions add terms to its scores"),
    **dict.fromkeys(("inkling_text", "inkling2_text", "inkling2_loop_text"), DISTANCE_BIAS),
    "dory": SCALED_AFTER,
    "longcat_flash": "each of its layers has two attentions",
    "beam": BY_POSITION,
    **dict.fromkeys(("big_bird", "canine", "longformer", "mra", "nystromformer", "yoso"), SPARSE),
    "blip_text_model": "its calls determine whether it is causal",
    "jetmoe": "its query heads are experts: head i attends to key head i modulo their number",
    "trocr": "it also attends to the output of an encoder",
    "diffllama": "its output is the difference of two attentions",
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), NORMALIZED_AFTER),
    **dict.fromkeys(("muse_glimmer_text", "muse_spark_text"), SCALED_QUERIES),
    "unlimited_ocr_text": "its queries see the full prompt and a window of later keys",
}
# Fields that do not follow from a default configuration; the comparison tests them.
RULES = {
    "bloom": {"alibi": {"is_scaled": False}},
    "falcon": {
        "alibi": {"switch": "alibi", "is_scaled": True},
        "kv_heads": [["new_decoder_architecture", "num_kv_heads"], ["multi_query", 1]],
    },
    "falcon_h1": {"times": "key_multiplier"},
    "gemma4_text": {
        "advice": {
            "use_bidirectional_attention": "For text alone, 'vision' equals None: pass "
            "`text_config | {'use_bidirectional_attention': None}`; the guide to masks describes "
            "the masks of images."
        }
    },
    "gemma3_text": {"bidirectional": "use_bidirectional_attention"},
    "gpt_bigcode": {"kv_heads": [["multi_query", 1]]},
    "llama4_text": {
        "advice": {
            "attn_temperature_tuning": "Multiply the queries of layers that do not rotate by its "
            "factor of their positions yourself, and pass False."
        }
    },
    "mpt": {
        "advice": {
            "attn_config.alibi_bias_max": "The code of transformers always has 8: leave it out, "
            "and replace the layers' `bias` by an `ALiBiBias` with other slopes."
        },
        "alibi": {"is_scaled": False},
        "scale": ["attn_config.softmax_scale", 1],
    },
}
# Values with which a type was compared, if no other value is supported.
COMPARED_VALUES = {
    "dbrx": {"attn_config.rope_theta": None},
    "gemma4_unified_text": {"use_bidirectional_attention": ["vision", None]},
    "kimi_linear": {"mla_use_nope": True},
    "llama4_text": {"attn_temperature_tuning": False},
    "modernbert-decoder": {"local_attention": 128},
    "mimo_v2_flash": {
        "add_full_attention_sink_bias": False,
        "add_swa_attention_sink_bias": True,
    },
    "mpt": {
        "attn_config.alibi": True,
        "attn_config.alibi_bias_max": 8,
        "attn_config.attn_type": "multihead_attention",
        "attn_config.prefix_lm": False,
        "attn_config.qk_ln": False,
    },
}
# Fields of types of layers.
LAYER_RULES = {
    "mimo_v2_flash": {"sliding_attention": {"kv_times": 2, "before": "sliding_window_size"}}
}
# Further configurations to compare.
VARIANTS = {
    "falcon": [
        {"alibi": True},
        {"alibi": True, "multi_query": False},
        {"new_decoder_architecture": True, "num_kv_heads": 2},
    ],
    "gemma4_text": [{"attention_k_eq_v": True, "num_global_key_value_heads": 1}],
    "gemma4_unified_text": [{"attention_k_eq_v": True, "num_global_key_value_heads": 1}],
    "gemma3_text": [{"use_bidirectional_attention": True, "sliding_window": 8}],
    "gpt_bigcode": [{"multi_query": False}],
    "laguna": [{"num_attention_heads_per_layer": [8, 4] * 20}],
    "mpt": [{"attn_config": {"softmax_scale": 0.3}, "n_heads": 6, "d_model": 96}],
}
# Types whose windows follow no known rule: compared without windows.
WINDOWLESS = ("qwen2_moe", "smollm3")


def values_of(config):
    """Return a configuration as a dict, as in published files."""
    values = config.to_dict() | layers_without_mlp(config)
    if getattr(config, "layer_types", None):
        values["layer_types"] = config.layer_types
    return values


def layers_without_mlp(config):
    """Return the layers of the code of a type whose files list attention and MLP separately."""
    layers, listed = getattr(config, "layer_types", None), config.to_dict().get("layer_types")
    if not (layers and listed) or len(layers) == len(listed):
        return {}
    return {"layer_types": layers, "num_hidden_layers": config.num_hidden_layers}


def changed_config(config_class, changes):
    """Return a configuration with small windows and other scales, and these values."""
    base = config_class(**changes).to_dict()
    fixed = COMPARED_VALUES.get(config_class.model_type, {})
    keys = [x for x in base if WINDOWS.search(x) and not NOT_WINDOWS.search(x) and x not in fixed]
    values = {key: 4 + 2 * i for i, key in enumerate(keys) if isinstance(base[key], int | None)}
    values |= {"floor_scale": 4} if "floor_scale" in base else {}
    for number, (key, value) in enumerate(base.items()):
        is_scale = SCALES.search(key) and not NOT_SCALES.search(key) and key not in fixed
        if is_scale and key not in values and type(value) in (int, float):
            values[key] = value * (1.5 + number / 64) if isinstance(value, float) else value + 7
    if values and "use_sliding_window" in base:
        values |= {"max_window_layers": 1} if "max_window_layers" in base else {}
        values |= {"use_sliding_window": True} if config_class.model_type not in WINDOWLESS else {}
    return config_class(**changes | values), values


def describe_attention(config_class, config, types):
    """Return the fields of the attention of a model, or the reason why it is refused.

    `types` is the rule for the types of layers of a configuration without a list.
    """
    name = config_class.model_type
    if name in REFUSED:
        return {"refused": REFUSED[name]}
    if catalog.get_model_type(name).ignored:
        return {"refused": BY_POSITION}
    if any("index_topk" in key for key in config.to_dict()):
        return {"refused": "its queries see the keys that an indexer chooses"}
    if config.is_encoder_decoder:
        return {"refused": "it has an encoder and a decoder, whose layers differ"}
    try:
        fields = _describe_attention(config_class, config, types)
    except Exception as error:  # noqa: BLE001 - models raise many types
        print(name, str(error)[:300].replace("\n", " // "), flush=True)
        return {"refused": UNRUN}
    return without_empty(fields)


def without_empty(fields):
    """Return fields without empty values, as they are written."""
    return {key: value for key, value in fields.items() if value not in ([], {}, None)}


def _describe_attention(config_class, config, types):
    name = config_class.model_type
    changes = driver.CHANGES.get(name, {})
    try:
        other, changed = changed_config(config_class, changes)
    except Exception:  # noqa: BLE001 - some classes refuse the values
        other, changed = config_class(**changes), {}
    driver.shrink(other)
    heads = getattr(other, "num_attention_heads", None)
    if heads == 4 and not getattr(other, "qk_nope_head_dim", None):
        for key in other.to_dict():
            if KV_HEADS.search(key) and type(getattr(other, key, None)) in (int, type(None)):
                setattr(other, key, 2)
    rotates = not catalog.get_model_type(name).unrotated
    observed = observe(other, rotates=rotates)
    fields = without_empty(infer_fields(config_class, other, changed, observed))
    if "refused" in fields:
        return fields
    if types and "first" not in fields and "" not in fields["layers"]:
        fields["types"] = types
        read = words_in({"attention": fields})
        fields["named"] = {key: x for key, x in fields.get("named", {}).items() if key not in read}
    small = shrunk(config)
    variants = [shrunk(config_class(**changes | more)) for more in VARIANTS.get(name, ())]
    variants = [small, *variants]
    if "mscale_all_dim" in driver.code_of(config_class):
        fields["has_mscale"] = True
        long = copy.deepcopy(small)
        base = {"rope_theta": (long.rope_parameters or {}).get("rope_theta", 1e4)}
        long.rope_parameters = base | YARN
        variants.append(long)
    reason = difference(other, fields, observed)
    for variant in variants:
        reason = reason or difference(variant, fields, observe(variant, rotates=rotates))
    if reason:
        return {"refused": reason}
    if rotates and not agrees_at_far_positions(small, fields):
        return {"refused": "its output differs at far positions"}
    flags = unsupported_flags(config_class, changes, fields, rotates=rotates)
    fields["named"] = fields.get("named", {}) | flags
    if not has_same_defaults(config_class, fields):
        return {"refused": "the defaults of its configuration follow no known rule"}
    return fields


def shrunk(config):
    """Return a copy of a configuration with smaller sizes where they do not affect attention."""
    small = copy.deepcopy(config)
    driver.shrink(small)
    return small


def agrees_at_far_positions(config, fields):
    """Return whether attention agrees at positions far from 0."""
    max_position = getattr(config, "max_position_embeddings", None)
    for start in (FAR_POSITION, min(FAR_POSITION, (max_position or FAR_POSITION) - LONGER)):
        with suppress(driver.UndrivenError):  # some models have a table of limited length
            observed = observe(config, ((LONGER, 0, start),))
            return not difference(config, fields, observed, start + LONGER, error=FAR_ERROR)
    return False


def unsupported_flags(config_class, changes, fields, *, rotates):
    """Return the flags of a configuration with an unknown effect on its attention."""
    from transformers import PreTrainedConfig

    values = with_nested(config_class(**changes).to_dict())
    common = PreTrainedConfig().to_dict().keys()
    handled = common | words_in(fields) | fields.get("named", {}).keys()
    code = driver.code_of(config_class)
    flags = {
        key: x
        for key, x in values.items()
        if type(x) is bool
        and key not in handled
        and re.search(rf"\b{key.rpartition('.')[-1]}\b", code)
    }

    def differs(keys):
        """Return whether attention differs with flags inverted, None if the model does not run."""
        inverted = {key: not flags[key] for key in keys if "." not in key}
        try:
            other = shrunk(config_class(**changes | inverted))
            observed = observe(other, SEQUENCES[:1], rotates=rotates)
        except Exception:  # noqa: BLE001 - models raise many types
            return None
        return bool(difference(other, fields, observed))

    if not flags or differs(flags) is False:
        return {}
    classes = re.split(r"^(?=class )", code, flags=re.MULTILINE)
    attentions = "".join(x for x in classes if driver._ATTENTION.search(x.partition("(")[0]))
    results = {key: differs([key]) for key in flags}
    return {
        key: flags[key]
        for key, result in results.items()
        if result or (result is None and re.search(rf"\b{key}\b", attentions))
    }


def with_nested(values):
    """Return a configuration together with its nested keys."""
    return values | nested_keys(values)


def has_same_defaults(config_class, fields):
    """Return whether missing keys of a configuration have the defaults of transformers."""
    full = layers_or_error(values_of(config_class()), fields)
    empty = layers_or_error({"model_type": config_class.model_type}, fields)
    if isinstance(full, str) or isinstance(empty, str):
        return isinstance(empty, str)
    full, empty = ([layer and with_explicit_scale(layer) for layer in x] for x in (full, empty))
    return full == empty


def with_explicit_scale(layer):
    """Return a layer with its default scale as a number."""
    return replace(layer, scale=layer.head_size**-0.5) if layer.scale is None else layer


def layers_or_error(values, attention, max_length=MAX_LENGTH):
    """Return the layers with some fields of attention, or the text of the error."""
    name = values["model_type"]
    fields = catalog.models().get(name) or {"unrotated": True}
    with fields_as(name, with_attention(fields, attention)):
        try:
            return attention_layers(values, max_length, **AXES)
        except (TypeError, ValueError) as error:
            return str(error).rstrip(".")


@contextmanager
def fields_as(name, fields):
    """Replace the fields of a model type for a while."""
    models = catalog.models()
    before = models.get(name)
    models[name] = fields
    try:
        yield
    finally:
        models[name] = before
        if before is None:
            del models[name]


def with_attention(fields, attention):
    """Return the fields of a type with the fields of its attention, `named` moved to the type."""
    attention = dict(attention)
    named = {"named": attention.pop("named")} if "named" in attention else {}
    return fields | {"attention": attention} | named


YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
YARN |= {"mscale": 1.0, "mscale_all_dim": 0.7, "beta_fast": 32, "beta_slow": 1}


def infer_fields(config_class, config, changed, observed):  # noqa: PLR0911, PLR0912, PLR0915
    """Return fields that agree with the observed attention of a changed configuration."""
    values, defaults = values_of(config), with_nested(config_class().to_dict())
    name, first = config_class.model_type, observed[0]
    if any("slopes" in x.options for x in observed) and "alibi" not in RULES.get(name, {}):
        return {"refused": "a bias is added to its scores"}
    windows = {key: x for key, x in changed.items() if WINDOWS.search(key) and type(x) is int}
    layers = {}
    for layer in observed:
        kind = (values.get("layer_types") or {}) and values["layer_types"][layer.layer]
        rule = visibility_rule(layer, windows)
        if isinstance(rule, str):
            return {"refused": rule}
        if layers.setdefault(kind or "", rule) != rule:
            return {"refused": "layers of one type see different keys"}
    causal = {rule.pop("is_causal") for rule in {id(r): r for r in layers.values()}.values()}
    if len(causal) > 1:
        return {"refused": "only some of its layers are causal"}
    for kind in set(values.get("layer_types") or ()) - layers.keys():
        layers[kind] = None
    fields = {"is_causal": causal.pop(), "layers": layers}
    heads, kv_heads = first.q.shape[1], first.k.shape[1]
    layer_rules = LAYER_RULES.get(name, {})
    for kind, rule in layer_rules.items():
        layers[kind] = layers[kind] | rule
    numbers = {(x.q.shape[1], x.k.shape[1]) for x in observed}
    by_layer = ("num_attention_heads_per_layer", "per_layer_config")
    if len(numbers) > 1 and not layer_rules and not any(values.get(key) for key in by_layer):
        return {"refused": "its layers differ in their numbers of heads"}
    rules = RULES.get(name, {})
    fields |= rules
    keys = [key for key in values if KV_HEADS.search(key) and values[key] == kv_heads]
    if "kv_heads" in rules:
        pass
    elif keys and kv_heads != heads:
        fields["kv_heads"] = keys[0]
    elif kv_heads != heads:
        return {"refused": "no known key has its number of key heads"}
    size, value_size = first.q.shape[-1], first.v.shape[-1]
    if values.get("qk_nope_head_dim") and values.get("qk_rope_head_dim"):
        fields["head"] = "qk_nope_head_dim"
    if values.get("v_head_dim") == value_size:
        fields["value"] = "v_head_dim"
    elif value_size != size:
        return {"refused": "no known key has the size of its values"}
    scales = {x.scaling for x in observed}
    if None in scales or max(scales) > 1.001 * min(scales):
        return {"refused": "the scale of its scores differs between layers, or is not known"}
    scale = scales.pop() / values.get(rules.get("times"), 1)
    if not math.isclose(scale, size**-0.5, rel_tol=1e-3) and "scale" not in rules:
        candidates = [
            [key, power]
            for key, value in values.items()
            if isinstance(value, int | float) and type(value) is not bool and value > 0
            for power in (1, -0.5, -1)
            if math.isclose(value**power, scale, rel_tol=1e-3)
            and (SCALES.search(key) or "scalar" in key)
        ]
        if candidates:
            fields["scale"] = candidates[0]
        elif math.isclose(scale, 1, rel_tol=1e-3):
            fields["scale"] = 1.0
        else:
            return {"refused": "no known key has the factor on its scores"}
    caps = {x.options.get("softcap") for x in observed} - {None}
    if caps:
        keys = [key for key, value in values.items() if "softcap" in key and value in caps]
        if not keys:
            return {"refused": "no known key has the bound of its scores"}
        fields["softcap"] = keys[0]
    has_window = any(rule and rule.get("window") for rule in layers.values())
    if has_window and defaults.get("use_sliding_window") is not None:
        fields["switch"] = "use_sliding_window"
        if "max_window_layers" in defaults and "" not in layers:
            fields["first"] = "max_window_layers"
    fields["defaults"] = defaults_of(config_class, fields, defaults)
    type_fields = catalog.models().get(name, {}) | {"attention": fields}
    return fields | {"named": named_keys(config_class, type_fields, changed)}


def named_keys(config_class, fields, changed_keys=()):
    """Return keys in the code of a type that may affect attention or positions.

    Keys that the fields read, and changed keys, are omitted: attention was compared with them. The
    values are the defaults, or None if they are not known.
    """
    defaults = with_nested(config_class().to_dict())
    class_defaults = driver.class_defaults(config_class)
    read, literal = words_in(fields) | READ_KEYS, driver.named_keys(config_class)
    read |= {"rope_interleave"} if fields.get("interleave") else set()
    read |= {"position_embedding_type"} if fields.get("optional") else set()
    parts = {key.rpartition(".")[-1] for key in literal}
    inner = {key for key in defaults if "." in key and key.rpartition(".")[-1] in parts}
    derived = {"qk_head_dim", *UNREAD_KEYS.get(config_class.model_type, ()), *changed_keys}
    keys = {
        key
        for key in {*literal, *inner} - read - derived
        if ATTENTION_KEYS.search(key) and not NOT_ATTENTION.search(key)
        if not callable(getattr(config_class, key, None))
    }
    usual = literal | class_defaults | defaults
    values = {key: usual.get(key) for key in sorted(keys)}
    heads = defaults.get("num_attention_heads")
    for key, value in values.items():
        if KV_HEADS.search(key) and value in (heads, None):
            values[key] = "num_attention_heads"
        elif isinstance(value, list):
            values[key] = [value]
    values = {key: x for key, x in values.items() if isinstance(x, int | float | str | list | None)}
    return values | COMPARED_VALUES.get(config_class.model_type, {})


def words_in(fields):
    """Return the strings in some fields: the keys that they read, and other words."""
    omitted = ("refused", "ask", "defaults", "named", "advice", "attention", "layer_sizes")
    parts = (fields, fields.get("attention") or {})
    values = [x for part in parts for key, x in part.items() if key not in omitted]
    values += [[*sizes.values()] for sizes in fields.get("layer_sizes", {}).values()]
    return {*re.findall("'([^']*)'", repr(values))}


# Names of keys that may affect positions or attention.
ATTENTION_KEYS = re.compile(
    "^(?!.*(moe|router|mamba|linear_.*head)).*(rotary|rope|alibi|position|relative_|rel_pos|window"
    "|sink|scale|scalar|soft_?cap|logits?_cap|interleave|ntk|logn|causal|bidirectional|is_decoder"
    "|prefix_lm|k_eq_v|kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query|head_dim"
    "|kv_channels|attention_head_size|temperature_tuning|use_nope|index_topk|compress_ratio"
    "|sparse_(att|config)|local_att|chunked_att|attn_layer_|attn_every|full_attn_(idx|layers)"
    "|att(ention|n)_(chunk|interval|temp|types?)|(att(ention|n)|key|qk|query)_multiplier"
    "|(att(ention|n)|key|layer|log|qk|query|softmax)_scaling"
    "|^(attention_heads|head_size|n_heads?|n_layers?|num_heads)$)"
)
# Names of keys that do not: initial values, embeddings and residuals; and names that are no keys.
NOT_ATTENTION = re.compile("^_|init|residual|scale_emb|logit_scale|layer_?scale|causal_conv1d")
# Names of keys for the number of key heads.
KV_HEADS = re.compile("kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query_group")
# Keys that all or some types read, and words that are no keys.
READ_KEYS = {*keys.READ_BY_ALL, keys.LENGTH, keys.ORIGINAL, *keys.READ_BY_SOME}
READ_KEYS |= {*catalog.layer_types()["lists"], *catalog.layer_types()["full_lists"]}
READ_KEYS |= {"is_causal", "longrope", "mrope", "position_ids", "rope_type", "rotary_pos_emb"}
READ_KEYS |= {"mrope_interleaved", "mrope_section", "standardize_rope_params"}
# Keys in the code of types that do not affect attention: keys of an indexer, and derived values.
UNREAD_KEYS = {
    "glm_moe_dsa": ["indexer_rope_interleave"],
    "gpt_bigcode": ["num_key_value_heads"],
    "sarvam_mla": ["q_head_dim"],
}


def defaults_of(config_class, fields, defaults):
    """Return the default values of the keys in some fields."""
    sizes = catalog.get_model_type(config_class.model_type).layer_sizes
    keys = words_in({"attention": fields, "layer_sizes": sizes})
    keys |= COMPARED_VALUES.get(config_class.model_type, {}).keys()
    values = defaults | driver.class_defaults(config_class)
    values = {key: values[key] for key in sorted(keys & values.keys())}
    return {key: x for key, x in values.items() if isinstance(x, int | float | bool)}


def visibility_rule(observed, windows):  # noqa: PLR0911 - a rule each
    """Return the fields for the visible keys of a query, or the reason why there are none."""
    length, mask = observed.q.shape[2], observed.mask
    visible = np.ones((length, length), dtype=bool)
    if mask is not None:
        if mask.shape[1] != 1:
            return "its mask differs between heads, or is a bias"
        visible = mask[0, 0] > -1
        if not np.isin(mask[0, 0], (0, mask.min())).all():
            return "a bias is added to its scores"
    rule = {"has_sinks": True} if observed.options.get("s_aux") is not None else {}
    i, j = np.indices((length, length))
    is_causal = not visible[i < j].any()
    if (visible == (i >= j)).all() or visible.all():
        return rule | {"is_causal": is_causal}
    for key, size in windows.items():
        if is_causal and (visible == ((i >= j) & (i - j < size))).all():
            return rule | {"is_causal": True, "window": key}
        if is_causal and (visible == ((i >= j) & (i // size == j // size))).all():
            return rule | {"is_causal": True, "chunk": key}
        if not is_causal and (visible == (abs(i - j) <= size // 2)).all():
            return rule | {"is_causal": False, "window": key}
        if not is_causal and (visible == (abs(i - j) <= size)).all():
            return rule | {"is_causal": False, "window": key, "is_of_each_side": True}
    return "the visible keys of its queries follow from no known key"


def difference(config, fields, observed, max_length=MAX_LENGTH, error=RELATIVE_ERROR):
    """Return how attention differs from the observed attention, "" if it does not."""
    layers = layers_or_error(values_of(config), fields, max_length)
    if isinstance(layers, str):
        return layers
    for x in observed:
        layer = layers[x.layer]
        if layer is None:
            return "a layer without attention attends"
        try:
            is_equal = attends_equally(layer, x, error)
        except (TypeError, ValueError):
            return "its heads differ from the known keys of its configuration"
        if not is_equal:
            return "its output follows from no known rule"
    return ""


def _without_factor(rope, x):
    """Return features without the factor of the rotating ones at position 0."""
    if rope is None or rope.attention_factor == 1:
        return x
    first = x.shape[-1] - rope.head_size
    last = first + (rope.rotary_dim or rope.head_size)
    index = np.arange(x.shape[-1])
    return np.where((index >= first) & (index < last), x / rope.attention_factor, x)


def attends_equally(layer, observed, relative_error):
    """Return whether a layer returns the observed output."""
    positions, rows = observed.positions, slice(None)
    sinks = observed.options.get("s_aux")
    sinks = None if sinks is None else sinks.detach().double().numpy().reshape(-1)
    if layer.rope is not None and layer.rope.sections is not None:
        rows = slice(0, 1)  # coordinates have no padding
        positions = np.stack([positions[rows]] * len(layer.rope.sections))
    q, k = (_without_factor(layer.rope, x[rows]) for x in (observed.q, observed.k))
    # Falcon repeats its keys for the queries of a group.
    step = max(1, k.shape[1] // layer.num_kv_heads)
    k, v = (x[:, ::step] for x in (k, observed.v[rows]))
    actual = layer(q, k, v, positions=positions, sinks=sinks)
    is_token = np.broadcast_to(observed.positions[rows][:, None, :, None] >= 0, actual.shape)
    desired = np.where(is_token, observed.output[rows], 0)
    error = abs(np.where(is_token, actual, 0) - desired).max()
    return bool(error <= relative_error * abs(desired).max())
