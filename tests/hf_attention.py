"""The whole attention of the models of the installed transformers, layer by layer.

A small model of random weights runs on two sequences, one of them padded on the left. Its attention
is its own; queries and keys, as they are before they are rotated, come from a run at position 0. A
model that calls no attention which can be replaced is seen by its products and softmaxes.
"""

import copy
import inspect
import math
import re
import sys
from contextlib import nullcontext, suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import hf_models as driver
from positional_embeddings.models import keys
from positional_embeddings.models import model_types as known_types
from positional_embeddings.models.attention_layers import attention_layers
from positional_embeddings.models.configuration import nested

TOKENS, PADDED, LONGER = 12, 3, 17
LONGEST, FAR = 64, 5000
FAR_ERROR = 5e-3  # angles of transformers are of float32


class Attended(NamedTuple):
    """What the attention of a layer was given, and what it returned."""

    layer: int
    q: np.ndarray  # (batch, heads, seq, features), not rotated, as projected
    k: np.ndarray
    v: np.ndarray
    output: np.ndarray
    positions: np.ndarray  # (batch, seq), below 0 for padding
    hides: np.ndarray | None  # (batch, 1, query, key), what is added to scores
    scaling: float | None
    options: dict[str, Any]


class _Run(driver._Whole):
    """A model of random weights whose positions are multiplied by a factor, and shifted."""

    def __init__(self, config, model_class):
        super().__init__(config, model_class, 0)
        self.takes = inspect.signature(model_class.forward).parameters
        _draw_vectors(self.model)
        scalings = [x for m in self.rotaries for k, x in vars(m).items() if k.endswith("_scaling")]
        self.of_rotation = {float(x) for x in scalings} | {1.0}

    def place(self, module, args, kwargs):
        names = list(inspect.signature(module.forward).parameters)
        given = dict(zip(names, args, strict=False)) | kwargs
        return (), given | {"position_ids": (given["position_ids"] + self.start) * self.factor}

    def attend(self, factor, length, padded, start, *, rotates):
        import torch

        self.factor, self.start = factor if rotates else 1, start
        ids = 3 + torch.arange(2 * length).reshape(2, length) % 50
        mask = torch.ones_like(ids)
        mask[1, :padded] = 0
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        if "position_ids" in self.takes:
            moved = positions if self.rotaries else (positions + start) * self.factor
            inputs["position_ids"] = moved
        inputs = {name: x for name, x in inputs.items() if name in self.takes}
        self.model(**inputs)
        return np.where(mask.numpy() == 1, positions.numpy() + start, -1)


def _draw_vectors(model):
    """Give weights of one axis random values, positive ones in scales of norms."""
    import torch

    torch.manual_seed(2)
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or "norm" in name:
            drawn = torch.rand(weight.shape)
            weight.data = 0.1 * drawn if "bias" in name else 0.5 + drawn


# Numbers of tokens, how many of them are padding, and the position of the first one.
SEQUENCES = ((TOKENS, PADDED, 0), (LONGER, 0, 0))


def attended(config, sequences=SEQUENCES, *, rotates=True):
    """Return what each attention of a small model of a configuration does."""
    reasons = []
    for implementation in ("kept", "sdpa", "eager"):
        for model_class in driver.model_classes(config):
            try:
                found = _attended(config, model_class, implementation, sequences, rotates=rotates)
            except Exception as error:  # noqa: BLE001 - whatever stops a model
                reasons.append(f"{model_class.__name__}: {type(error).__name__}: {error}")
            else:
                if found:
                    return found
                reasons.append(f"{model_class.__name__}: no attention that can be replaced")
    raise driver.UndrivenError("\n".join(reasons))


def _attended(config, model_class, implementation, sequences, *, rotates):
    import torch
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    kept = []

    def keep(module, query, key, value, attention_mask=None, scaling=None, **options):
        own = sys.modules[type(module).__module__].eager_attention_forward
        given = options if scaling is None else options | {"scaling": scaling}
        output, _ = own(module, query, key, value, attention_mask, **given)
        kept.append((module, query, key, value, attention_mask, scaling, options, output))
        return torch.zeros_like(output), None

    ALL_ATTENTION_FUNCTIONS.register("kept", keep)
    ALL_MASK_ATTENTION_FUNCTIONS.register("kept", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    for function in driver._functions(config):
        driver._count_by(function, chunk_size=8)  # of linear attention, which takes long
    config._attn_implementation = implementation
    run = _Run(config, model_class)
    found = []
    for length, padded, start in sequences:
        runs = []
        watch = nullcontext() if implementation == "kept" else _products(kept, length)
        for factor, ramps in ((0, False), (1, False), (0, True)):
            hooks = _ramp(run.model) if ramps else []
            kept.clear()
            with torch.no_grad(), watch:
                positions = run.attend(factor, length, padded, start, rotates=rotates)
            for hook in hooks:
                hook.remove()
            runs.append(list(kept))
        found += [
            _of_layer(number, calls, positions, run.of_rotation)
            for number, calls in enumerate(zip(*runs, strict=True))
        ]
    return found


def _products(kept, length):
    """Return a mode that keeps what attention multiplies, and puts out zeros as `keep` does."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Products(TorchFunctionMode):
        started = None  # queries and keys, until their scores have been multiplied with values
        logits = None

        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            if name == "scaled_dot_product_attention":
                return self.attend(*args, **(kwargs or {}))
            result = function(*args, **(kwargs or {}))
            if name in ("matmul", "__matmul__", "baddbmm", "bmm"):
                named = [x for key, x in (kwargs or {}).items() if key.startswith("batch")]
                a, b = (*args, *named)[-2:]
                if result.shape[-2:] == (length, length) and a.shape[-1] == b.shape[-2]:
                    self.started = [_by_heads(x) for x in (a, b.mT)]
                elif a.shape[-2:] == (length, length) and self.logits is not None:
                    self.keep(_by_heads(b), self.logits, _by_heads(result))
                    return torch.zeros_like(result)
            elif name == "softmax" and args[0].shape[-2:] == (length, length) and self.started:
                self.logits = _by_heads(args[0])
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
            self.started = [q, k]
            self.keep(v, logits, result)
            return torch.zeros_like(result)

        def keep(self, v, logits, output):
            q, k = self.started
            scaling, slopes, hides = _parts_of(q, k, logits)
            options = {"slopes": slopes} if slopes.any() else {}
            kept.append((None, q, k, v, hides, scaling, options, output.transpose(1, 2)))
            self.started = self.logits = None

    return Products()


def _by_heads(x):
    """Return an array as (batch, heads, seq, features), of two sequences."""
    return x if x.ndim == 4 else x.reshape(2, -1, *x.shape[-2:])


def _parts_of(q, k, logits):
    """Return the scale of scores, the slope of each head, and what hides keys.

    What remains of the logits besides is left in what hides keys: a bias that is not known.
    """
    import torch

    products = (q @ k.mT).double()
    is_seen = logits > -1e30
    j = torch.arange(logits.shape[-1]).double().expand(logits.shape)
    counts = is_seen.sum(-1, keepdim=True).clamp(min=1)

    def centred(x):
        x = torch.where(is_seen, x.double(), 0)
        return torch.where(is_seen, x - x.sum(-1, keepdim=True) / counts, 0)

    y, columns = centred(logits), torch.stack([centred(products), centred(j)], -1)
    found = []
    for head in range(logits.shape[1]):
        design, target = columns[:, head].reshape(-1, 2), y[:, head].reshape(-1, 1)
        found.append(torch.linalg.lstsq(design, target).solution[:, 0])
    scale, slope = torch.stack(found, -1)
    rest = y - scale[:, None, None] * columns[..., 0] - slope[:, None, None] * columns[..., 1]
    is_rest = abs(rest) > 1e-4 * abs(y).max()
    hides = torch.where(is_seen, torch.where(is_rest, rest, 0.0), torch.finfo(torch.float32).min)
    slopes = torch.where(abs(slope) > 1e-5, slope, 0.0)
    same = (hides == hides[:, :1]).all()
    return float(scale.mean()), slopes.numpy(), hides[:, :1] if same else hides


def _ramp(model):
    import torch
    from transformers.pytorch_utils import Conv1D

    def ramp(_module, _inputs, result):
        return torch.arange(1.0, 1 + result.shape[-1]).expand(result.shape).contiguous()

    def skip(_module, inputs, result):
        return inputs[0].reshape(result.shape)

    attentions = [m for m in model.modules() if driver._ATTENTION.search(type(m).__name__)]
    parts = {part for attention in attentions for part in attention.modules()}
    linear = [part for part in parts if isinstance(part, torch.nn.Linear | Conv1D)]
    norms = [part for part in parts if type(part).__name__.endswith("Norm")]  # may change the order
    return [part.register_forward_hook(ramp) for part in linear] + [
        part.register_forward_hook(skip) for part in norms
    ]


def _of_layer(number, calls, positions, of_rotation):
    at_zero, rotated, ramped = calls
    if len({id(call[0]) for call in calls}) > 1:
        message = "its layers attend in another order"
        raise AssertionError(message)
    module, _, _, value, mask, scaling, options, output = rotated
    # What rotates is the same in all runs but for the positions.
    inputs = []
    scaling = getattr(module, "scaling", None) if scaling is None else scaling
    for which in (1, 2):
        zero, turned, ramp = (call[which].double().numpy() for call in (at_zero, rotated, ramped))
        factor = _factor_of(ramp)
        if factor is None and module is None:
            message = "what it multiplies with queries and keys is not known"
            raise AssertionError(message)
        # The factor of a scaling is part of the rotation.
        if factor is None or any(math.isclose(factor, x, rel_tol=1e-3) for x in of_rotation):
            factor = 1
        factor /= max(of_rotation) if factor != 1 else 1
        inputs.append(_as_projected(zero, turned, ramp) / factor)
        scaling = None if scaling is None else scaling * factor
    layer = getattr(module, "layer_idx", None)
    return Attended(
        number if layer is None else layer,
        *inputs,
        value.double().numpy(),
        output.double().numpy().swapaxes(1, 2),
        positions,
        None if mask is None else mask.float().numpy(),
        scaling,
        options,
    )


def _factor_of(ramp):
    """Return the factor of multiples of 1, 2, 3, ..., which are what a model projects."""
    values = np.sort(ramp[0, 0, 0])
    factor = np.diff(values).min() if len(values) > 1 else 1
    multiples = values / factor if factor > 0 else [0.5]
    return factor if np.allclose(multiples, np.round(multiples), atol=1e-3) else None


def _as_projected(zero, turned, ramp):
    """Return features in the order of their projection, those that rotate."""
    if np.allclose(zero, turned, atol=1e-6):
        return zero
    moved = np.abs(zero - turned).max(axis=(0, 1, 2)) > 1e-6
    first = int(np.argmax(moved))
    # The features that rotate are the last ones, or all of a head.
    for start in (first, 0):
        values = ramp[..., start:][0, :, 0]
        if (np.diff(np.sort(values, axis=-1)) > 0).all():
            return np.concatenate(
                [zero[..., :start], driver.in_order(zero[..., start:], ramp[..., start:])], axis=-1
            )
    message = "two features of one value"
    raise AssertionError(message)


# What a configuration says of attention.

WINDOWS = re.compile("window|chunk_size$|local_attention$")
NO_WINDOWS = re.compile("pattern|layers|^use_|chunk_size_|mamba|linear|conv|audio|ssm|gdn|kda")
SCALES = re.compile("scal|multiplier|mscale|softcap")
NO_SCALES = re.compile(
    "value|^rope_|router|routed|init|^layer_|final_logit|embedding|residual|lm_head|logits"
)
AXES = {"feature_axis": -1, "seq_axis": -2}
RELATIVE_ERROR = 1e-4  # of float32, of the largest number

UNRUN = "its code was not run for this"

# What runs of some tokens do not show, and what to do.
AFTER = (
    "its queries and keys are normalized after they are rotated: rotate by "
    "`RoPE.layers_from_hf_config`, normalize, and attend by `AttentionLayer`s without `rope`"
)
FACTOR = "its queries and keys are multiplied by `qk_scale_factor` as they are normalized"
SPARSE = "its attention to long sequences is sparse, or an approximation"
BY_POSITION = "its queries are multiplied by a factor of their position: attend by layers by hand"
DISTANCES = "a learned bias of the distance of tokens is added to its scores"
REFUSED = {
    **dict.fromkeys(("deberta", "deberta-v2"), "terms of relative positions add to its scores"),
    **dict.fromkeys(("inkling_text", "inkling2_text", "inkling2_loop_text"), DISTANCES),
    "longcat_flash": "each of its layers has two attentions",
    "beam": BY_POSITION,
    **dict.fromkeys(("big_bird", "canine", "longformer", "mra", "nystromformer", "yoso"), SPARSE),
    "blip_text_model": "whether it is causal is said in its calls",
    "diffllama": "its output is the difference of two attentions",
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), AFTER),
    **dict.fromkeys(("muse_glimmer_text", "muse_spark_text"), FACTOR),
    "unlimited_ocr_text": "its queries see the whole prompt, and of later keys the newest",
}
# Rules that no key of a default configuration tells; the comparison holds them to the models.
RULES = {
    "bloom": {"alibi": {"is_scaled": False}},
    "falcon": {
        "alibi": {"switch": "alibi", "is_scaled": True},
        "kv_heads": [["new_decoder_architecture", "num_kv_heads"], ["multi_query", 1]],
    },
    "falcon_h1": {"times": "key_multiplier"},
    "gemma4_text": {
        "advice": {
            "use_bidirectional_attention": "Of 'vision' the attention to text alone is that of "
            "None: pass `text_config | {'use_bidirectional_attention': None}`; the guide of masks "
            "says what tokens of images see."
        }
    },
    "gpt_bigcode": {"kv_heads": [["multi_query", 1]]},
    "llama4_text": {
        "advice": {
            "attn_temperature_tuning": "Multiply the queries of layers that do not rotate by its "
            "factor of their positions yourself, and pass False."
        }
    },
    "mpt": {
        "advice": {
            "attn_config.alibi_bias_max": "The code of transformers has 8 whatever it says: leave "
            "it out, and replace the layers' `bias` by an `ALiBiBias` with other slopes."
        },
        "alibi": {"is_scaled": False},
        "scale": ["attn_config.softmax_scale", 1],
    },
}
# Values for which alone a type is known.
SETTLED = {
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
# Rules of types of layers.
OWN_RULES = {
    "mimo_v2_flash": {"sliding_attention": {"kv_times": 2, "before": "sliding_window_size"}}
}
# Configurations that are compared besides.
VARIANTS = {
    "falcon": [
        {"alibi": True},
        {"alibi": True, "multi_query": False},
        {"new_decoder_architecture": True, "num_kv_heads": 2},
    ],
    "gemma4_text": [{"attention_k_eq_v": True, "num_global_key_value_heads": 1}],
    "gemma4_unified_text": [{"attention_k_eq_v": True, "num_global_key_value_heads": 1}],
    "gpt_bigcode": [{"multi_query": False}],
    "laguna": [{"num_attention_heads_per_layer": [8, 4] * 20}],
    "mpt": [{"attn_config": {"softmax_scale": 0.3}, "n_heads": 6, "d_model": 96}],
}
# Types with windows by a rule of their own, which are known without windows alone.
WINDOWLESS = ("qwen2_moe", "smollm3")


def values_of(config):
    """Return a configuration as a dict, as it is published."""
    values = config.to_dict()
    if getattr(config, "layer_types", None):
        values["layer_types"] = config.layer_types
    return values


def changed(config_class, changes):
    """Return a configuration with small windows and other scales, and what these are."""
    base = config_class(**changes).to_dict()
    known = SETTLED.get(config_class.model_type, {})
    keys = [x for x in base if WINDOWS.search(x) and not NO_WINDOWS.search(x) and x not in known]
    given = {key: 4 + 2 * i for i, key in enumerate(keys) if isinstance(base[key], int | None)}
    given |= {"floor_scale": 4} if "floor_scale" in base else {}
    for number, (key, value) in enumerate(base.items()):
        is_scale = SCALES.search(key) and not NO_SCALES.search(key) and key not in known
        if is_scale and key not in given and type(value) in (int, float):
            given[key] = value * (1.5 + number / 64) if isinstance(value, float) else value + 7
    if given and "use_sliding_window" in base:
        given |= {"max_window_layers": 1} if "max_window_layers" in base else {}
        given |= {"use_sliding_window": True} if config_class.model_type not in WINDOWLESS else {}
    return config_class(**changes | given), given


def facts_of(config_class, config, types):
    """Return what the attention of a model does, or why that is not known.

    Its layers have types by a rule if the configuration lists none.
    """
    name = config_class.model_type
    if name in REFUSED:
        return {"refused": REFUSED[name]}
    if known_types.get_model_type(name).ignored:
        return {"refused": BY_POSITION}
    if any("index_topk" in key for key in config.to_dict()):
        return {"refused": "its queries see the keys that an indexer chooses"}
    if config.is_encoder_decoder:
        return {"refused": "it has an encoder and a decoder, whose layers differ"}
    try:
        facts = _facts_of(config_class, config, types)
    except Exception as error:  # noqa: BLE001 - whatever stops a model
        print(name, str(error)[:300].replace("\n", " // "), flush=True)
        return {"refused": UNRUN}
    return filled(facts)


def filled(facts):
    """Return facts without what is empty, as they are written."""
    return {key: value for key, value in facts.items() if value not in ([], {}, None)}


def _facts_of(config_class, config, types):
    name = config_class.model_type
    changes = driver.CHANGES.get(name, {})
    try:
        other, given = changed(config_class, changes)
    except Exception:  # noqa: BLE001 - it checks what it is given
        other, given = config_class(**changes), {}
    driver.shrink(other)
    heads = getattr(other, "num_attention_heads", None)
    if heads == 4 and not getattr(other, "qk_nope_head_dim", None):
        for key in other.to_dict():
            if KV_HEADS.search(key) and type(getattr(other, key, None)) in (int, type(None)):
                setattr(other, key, 2)
    rotates = not known_types.get_model_type(name).unrotated
    seen = attended(other, rotates=rotates)
    facts = filled(described(config_class, other, given, seen))
    if "refused" in facts:
        return facts
    if types and "first" not in facts and "" not in facts["layers"]:
        facts["types"] = types
        read = words_of({"attention": facts})
        facts["named"] = {key: x for key, x in facts.get("named", {}).items() if key not in read}
    small = smaller(config)
    variants = [(other, seen), (small, None)]
    others = VARIANTS.get(name, ())
    variants += [(smaller(config_class(**changes | more)), None) for more in others]
    if "mscale_all_dim" in driver.code_of(config_class):
        facts["has_mscale"] = True
        long = copy.deepcopy(small)
        base = {"rope_theta": (long.rope_parameters or {}).get("rope_theta", 1e4)}
        long.rope_parameters = base | LONG
        variants.append((long, None))
    for each, what in variants:
        reason = difference(each, facts, what or attended(each, rotates=rotates))
        if reason:
            return {"refused": reason}
    if rotates and not agrees_far(small, facts):
        return {"refused": "its output at far positions differs from that of its table"}
    flags = turned(config_class, changes, facts, rotates=rotates)
    facts["named"] = facts.get("named", {}) | flags
    if not defaults_are_read(config_class, facts):
        return {"refused": "what its configuration leaves out is in no rule that is known"}
    return facts


def smaller(config):
    """Return a copy of a configuration that is small where attention does not depend on it."""
    small = copy.deepcopy(config)
    driver.shrink(small)
    return small


def agrees_far(config, facts):
    """Tell whether attention by facts agrees at positions far from 0."""
    longest = getattr(config, "max_position_embeddings", None)
    for start in (FAR, min(FAR, (longest or FAR) - LONGER)):
        with suppress(driver.UndrivenError):  # some have a table of a length
            seen = attended(config, ((LONGER, 0, start),))
            return not difference(config, facts, seen, start + LONGER, error=FAR_ERROR)
    return False


def turned(config_class, changes, facts, *, rotates):
    """Return the flags of a configuration that change its attention in no way that is known."""
    from transformers import PreTrainedConfig

    whole = flat(config_class(**changes).to_dict())
    plain = PreTrainedConfig().to_dict().keys()
    known = plain | words_of(facts) | facts.get("named", {}).keys()
    code = driver.code_of(config_class)
    flags = {
        key: x
        for key, x in whole.items()
        if type(x) is bool
        and key not in known
        and re.search(rf"\b{key.rpartition('.')[-1]}\b", code)
    }

    def differs(keys):
        """Tell whether attention differs with flags turned, None if that does not run."""
        given = {key: not flags[key] for key in keys if "." not in key}
        try:
            other = smaller(config_class(**changes | given))
            seen = attended(other, SEQUENCES[:1], rotates=rotates)
        except Exception:  # noqa: BLE001 - whatever stops a model
            return None
        return bool(difference(other, facts, seen))

    if not flags or differs(flags) is False:
        return {}
    classes = re.split(r"^(?=class )", code, flags=re.MULTILINE)
    attentions = "".join(x for x in classes if driver._ATTENTION.search(x.partition("(")[0]))
    found = {key: differs([key]) for key in flags}
    return {
        key: flags[key]
        for key, answered in found.items()
        if answered or (answered is None and re.search(rf"\b{key}\b", attentions))
    }


def flat(values):
    """Return a configuration with its nested keys, too."""
    return values | nested(values)


def defaults_are_read(config_class, facts):
    """Tell whether what a configuration leaves out is as in transformers."""
    name = config_class.model_type
    found = [answer(values, facts) for values in (values_of(config_class()), {"model_type": name})]
    if isinstance(found[0], str) or isinstance(found[1], str):
        return isinstance(found[1], str)
    whole, left_out = ([layer and with_scale(layer) for layer in layers] for layers in found)
    return whole == left_out


def with_scale(layer):
    """Return a layer with the scale that it has if none is given."""
    return replace(layer, scale=layer.head_size**-0.5) if layer.scale is None else layer


def answer(values, facts, longest=LONGEST):
    """Return the layers that facts lead to, or why there are none."""
    known = known_types.models()
    before = known.get(values["model_type"])
    known[values["model_type"]] = with_attention(before or {"unrotated": True}, facts)
    try:
        return attention_layers(values, longest, **AXES)
    except (TypeError, ValueError) as error:
        return str(error).rstrip(".")
    finally:
        known[values["model_type"]] = before
        if before is None:
            del known[values["model_type"]]


def with_attention(facts, attention):
    """Return the facts of a type with those of its attention, from which `named` is taken out."""
    own = {key: x for key, x in attention.items() if key != "named"}
    return (
        facts | {"attention": own} | ({"named": attention["named"]} if "named" in attention else {})
    )


LONG = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
LONG |= {"mscale": 1.0, "mscale_all_dim": 0.7, "beta_fast": 32, "beta_slow": 1}


def described(config_class, config, given, seen):  # noqa: PLR0911, PLR0912, PLR0915 - a reason each
    """Return facts that agree with what was seen of a changed configuration."""
    values, whole = values_of(config), flat(config_class().to_dict())
    name, first = config_class.model_type, seen[0]
    if any("slopes" in each.options for each in seen) and "alibi" not in RULES.get(name, {}):
        return {"refused": "a bias is added to its scores"}
    visible = {}
    for each in seen:
        kind = (values.get("layer_types") or {}) and values["layer_types"][each.layer]
        windows = {key: x for key, x in given.items() if WINDOWS.search(key) and type(x) is int}
        found = rule_of(each, windows)
        if isinstance(found, str):
            return {"refused": found}
        if visible.setdefault(kind or "", found) != found:
            return {"refused": "layers of one type see different keys"}
    causal = {rule.pop("is_causal") for rule in {id(r): r for r in visible.values()}.values()}
    if len(causal) > 1:
        return {"refused": "some of its layers are causal, others not"}
    for kind in set(values.get("layer_types") or ()) - visible.keys():
        visible[kind] = None
    facts = {"is_causal": causal.pop(), "layers": visible}
    heads, kv_heads = first.q.shape[1], first.k.shape[1]
    own = OWN_RULES.get(name, {})
    for kind, more in own.items():
        visible[kind] = visible[kind] | more
    numbers = {(each.q.shape[1], each.k.shape[1]) for each in seen}
    by_layer = ("num_attention_heads_per_layer", "per_layer_config")
    if len(numbers) > 1 and not own and not any(values.get(key) for key in by_layer):
        return {"refused": "its layers differ in their numbers of heads"}
    rules = RULES.get(name, {})
    facts |= rules
    keys = [key for key in values if KV_HEADS.search(key) and values[key] == kv_heads]
    if "kv_heads" in rules:
        pass
    elif keys and kv_heads != heads:
        facts["kv_heads"] = keys[0]
    elif kv_heads != heads:
        return {"refused": "the number of its heads of keys is not in a known key"}
    size, value_size = first.q.shape[-1], first.v.shape[-1]
    if values.get("qk_nope_head_dim") and values.get("qk_rope_head_dim"):
        facts["head"] = "qk_nope_head_dim"
    if values.get("v_head_dim") == value_size:
        facts["value"] = "v_head_dim"
    elif value_size != size:
        return {"refused": "the size of its values is not in a known key"}
    scales = {each.scaling for each in seen}
    if None in scales or max(scales) > 1.001 * min(scales):
        return {"refused": "the scale of its scores differs between layers, or is not told"}
    scale = scales.pop() / values.get(rules.get("times"), 1)
    if not math.isclose(scale, size**-0.5, rel_tol=1e-3) and "scale" not in rules:
        found = [
            [key, power]
            for key, value in values.items()
            if isinstance(value, int | float) and type(value) is not bool and value > 0
            for power in (1, -0.5, -1)
            if math.isclose(value**power, scale, rel_tol=1e-3)
            and (SCALES.search(key) or "scalar" in key)
        ]
        if found:
            facts["scale"] = found[0]
        elif math.isclose(scale, 1, rel_tol=1e-3):
            facts["scale"] = 1.0
        else:
            return {"refused": "the factor on its scores is in no key that is known"}
    caps = {each.options.get("softcap") for each in seen} - {None}
    if caps:
        keys = [key for key, value in values.items() if "softcap" in key and value in caps]
        if not keys:
            return {"refused": "the bound of its scores is in no key that is known"}
        facts["softcap"] = keys[0]
    if whole.get("use_sliding_window") is not None and any(
        r and r.get("window") for r in visible.values()
    ):
        facts["switch"] = "use_sliding_window"
        if "max_window_layers" in whole and "" not in visible:
            facts["first"] = "max_window_layers"
    facts["defaults"] = defaults_of(config_class, facts, whole)
    every = known_types.models().get(name, {}) | {"attention": facts}
    return facts | {"named": named(config_class, every, given)}


def named(config_class, facts, changed_keys=()):
    """Return the keys that the code of a type names, and that could mean attention or positions.

    Those that the facts read are left out, and those that were changed: attention is compared with
    them. Their values are the usual ones, which are None where nothing tells them.
    """
    whole = flat(config_class().to_dict())
    own = {x.name: x.default for x in fields(config_class)} if is_dataclass(config_class) else {}
    read, literal = words_of(facts) | READ, driver.named(config_class)
    read |= {"rope_interleave"} if facts.get("interleave") else set()
    read |= {"position_embedding_type"} if facts.get("optional") else set()
    parts = {key.rpartition(".")[-1] for key in literal}
    found = {key for key in whole if "." in key and key.rpartition(".")[-1] in parts}
    derived = {"qk_head_dim", *UNREAD.get(config_class.model_type, ()), *changed_keys}
    keys = {
        key
        for key in {*literal, *found} - read - derived
        if MEANS_ATTENTION.search(key) and not NO_ATTENTION.search(key)
        if not callable(getattr(config_class, key, None))
    }
    values = {key: whole.get(key, own.get(key, literal.get(key))) for key in sorted(keys)}
    heads = whole.get("num_attention_heads")
    for key, value in values.items():
        if KV_HEADS.search(key) and value in (heads, None):
            values[key] = "num_attention_heads"
        elif isinstance(value, list):
            values[key] = [value]
    values = {key: x for key, x in values.items() if isinstance(x, int | float | str | list | None)}
    return values | SETTLED.get(config_class.model_type, {})


def words_of(facts):
    """Return the words of facts, and with them the keys that they read."""
    left_out = ("refused", "ask", "defaults", "named", "advice", "attention", "own")
    parts = (facts, facts.get("attention") or {})
    rules = [x for part in parts for key, x in part.items() if key not in left_out]
    rules += [[*sizes.values()] for sizes in facts.get("own", {}).values()]
    return {*re.findall("'([^']*)'", repr(rules))}


# What a key is called that could mean positions or attention.
MEANS_ATTENTION = re.compile(
    "^(?!.*(moe|router|mamba|linear_.*head)).*(rotary|rope|alibi|position|relative_|rel_pos|window"
    "|sink|scale|scalar|soft_?cap|logits?_cap|interleave|ntk|logn|causal|bidirectional|is_decoder"
    "|prefix_lm|k_eq_v|kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query|head_dim"
    "|kv_channels|attention_head_size|temperature_tuning|use_nope|index_topk|compress_ratio"
    "|sparse_(att|config)|local_att|chunked_att|attn_layer_|attn_every|full_attn_(idx|layers)"
    "|att(ention|n)_(chunk|interval|temp|types?)|(att(ention|n)|key|qk|query)_multiplier"
    "|(att(ention|n)|key|layer|log|qk|query|softmax)_scaling"
    "|^(attention_heads|head_size|n_heads?|n_layers?|num_heads)$)"
)
# What one is called that does not: initial values, embeddings and residuals; and no keys.
NO_ATTENTION = re.compile("^_|init|residual|scale_emb|logit_scale|layer_?scale|causal_conv1d")
# What a key is called that has the number of heads of keys.
KV_HEADS = re.compile("kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query_group")
# Keys that are read of all types, or of those whose code reads them, and words that are no keys.
READ = {*keys.READ_BY_ALL, keys.LENGTH, keys.ORIGINAL, *keys.READ_BY_SOME}
READ |= {*known_types.layer_types()["lists"], *known_types.layer_types()["full_lists"]}
READ |= {"is_causal", "longrope", "mrope", "position_ids", "rope_type", "rotary_pos_emb"}
READ |= {"mrope_interleaved", "mrope_section", "standardize_rope_params"}
# Keys that the code of types names, and that change no attention which is compared: of an indexer,
# or computed from others.
UNREAD = {
    "glm_moe_dsa": ["indexer_rope_interleave"],
    "gpt_bigcode": ["num_key_value_heads"],
    "sarvam_mla": ["q_head_dim"],
}


def defaults_of(config_class, facts, whole):
    """Return the default values of the keys that facts name."""
    sizes = known_types.get_model_type(config_class.model_type).own
    keys = words_of({"attention": facts, "own": sizes})
    own = {x.name: x.default for x in fields(config_class)} if is_dataclass(config_class) else {}
    keys |= SETTLED.get(config_class.model_type, {}).keys()
    found = {key: own.get(key, whole.get(key)) for key in keys if key in own or key in whole}
    return {key: x for key, x in sorted(found.items()) if isinstance(x, int | float | bool)}


def rule_of(each, windows):  # noqa: PLR0911 - a rule each
    """Return which keys a query sees, or why no rule tells it."""
    length = each.q.shape[2]
    sees = np.ones((length, length), dtype=bool)
    if each.hides is not None:
        if each.hides.shape[1] != 1:
            return "its mask differs between heads, or is a bias"
        sees = each.hides[0, 0] > -1
        if not np.isin(each.hides[0, 0], (0, each.hides.min())).all():
            return "a bias is added to its scores"
    rule = {}
    if "s_aux" in each.options and each.options["s_aux"] is not None:
        rule["has_sinks"] = True
    i, j = np.indices((length, length))
    is_causal = not sees[i < j].any()
    for causal in (True, False):
        inner = (i >= j) if causal else True
        if (sees == (np.ones_like(sees) & inner)).all():
            return rule | {"is_causal": causal}
    for key, number in windows.items():
        if is_causal and (sees == ((i >= j) & (i - j < number))).all():
            return rule | {"is_causal": True, "window": key}
        if is_causal and (sees == ((i >= j) & (i // number == j // number))).all():
            return rule | {"is_causal": True, "chunk": key}
        if not is_causal and (sees == (abs(i - j) <= number // 2)).all():
            return rule | {"is_causal": False, "window": key}
        if not is_causal and (sees == (abs(i - j) <= number)).all():
            return rule | {"is_causal": False, "window": key, "is_of_each_side": True}
    return "which keys its queries see follows from no key that is known"


def difference(config, facts, seen, longest=LONGEST, error=RELATIVE_ERROR):
    """Return how attention by facts differs from what was seen, nothing if it does not."""
    layers = answer(values_of(config), facts, longest)
    if isinstance(layers, str):
        return layers
    for each in seen:
        layer = layers[each.layer]
        if layer is None:
            return "a layer without attention has some"
        try:
            is_equal = attends_as(layer, each, error)
        except (TypeError, ValueError):
            return "its heads are not as its configuration says in known keys"
        if not is_equal:
            return "its output differs from that of the rules that are known"
    return ""


def _without_factor(rope, x):
    """Return features without the factor that those that rotate have at position 0, too."""
    if rope is None or rope.attention_factor == 1:
        return x
    first = x.shape[-1] - rope.head_size
    last = first + (rope.rotary_dim or rope.head_size)
    at = np.arange(x.shape[-1])
    return np.where((at >= first) & (at < last), x / rope.attention_factor, x)


def attends_as(layer, each, relative_error):
    """Tell whether a layer returns what was seen."""
    positions, rows = each.positions, slice(None)
    sinks = each.options.get("s_aux")
    sinks = None if sinks is None else sinks.detach().double().numpy().reshape(-1)
    if layer.rope is not None and layer.rope.sections is not None:
        rows = slice(0, 1)  # coordinates do not tell padding
        positions = np.stack([positions[rows]] * len(layer.rope.sections))
    q, k = (_without_factor(layer.rope, x[rows]) for x in (each.q, each.k))
    # Falcon's keys are repeated for the queries of their group.
    step = max(1, k.shape[1] // layer.num_kv_heads)
    k, v = (x[:, ::step] for x in (k, each.v[rows]))
    found = layer(q, k, v, positions=positions, sinks=sinks)
    is_real = np.broadcast_to(each.positions[rows][:, None, :, None] >= 0, found.shape)
    wanted = np.where(is_real, each.output[rows], 0)
    error = abs(np.where(is_real, found, 0) - wanted).max()
    return bool(error <= relative_error * abs(wanted).max())
