"""The whole attention of the models of the installed transformers, layer by layer.

A small model of random weights runs on two sequences, one of them padded on the left. Its attention
is its own; queries and keys, as they are before they are rotated, come from a run at position 0.
"""

import copy
import inspect
import math
import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hf_models as driver
from positional_embeddings.models import facts as known_facts
from positional_embeddings.models.attention_layers import MEANS_ATTENTION, attention_layers

TOKENS, PADDED, LONGER = 12, 3, 17
LONGEST = 64


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
    """A model whose positions are multiplied by a factor."""

    def __init__(self, config, model_class):
        super().__init__(config, model_class, 0)
        self.takes = inspect.signature(model_class.forward).parameters

    def place(self, module, args, kwargs):
        names = list(inspect.signature(module.forward).parameters)
        given = dict(zip(names, args, strict=False)) | kwargs
        return (), given | {"position_ids": given["position_ids"] * self.factor}

    def attend(self, factor, length, padded, *, rotates):
        import torch

        self.factor = factor if rotates else 1
        ids = 3 + torch.arange(2 * length).reshape(2, length) % 50
        mask = torch.ones_like(ids)
        mask[1, :padded] = 0
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        if "position_ids" in self.takes:
            inputs["position_ids"] = positions * (1 if self.rotaries else self.factor)
        inputs = {name: x for name, x in inputs.items() if name in self.takes}
        self.model(**inputs)
        return np.where(mask.numpy() == 1, positions.numpy(), -1)


def attended(config, lengths=((TOKENS, PADDED), (LONGER, 0)), *, rotates=True):
    """Return what each attention of a small model of a configuration does."""
    reasons = []
    for model_class in driver.model_classes(config):
        try:
            found = _attended(config, model_class, lengths, rotates=rotates)
        except Exception as error:  # noqa: BLE001 - whatever stops a model
            reasons.append(f"{model_class.__name__}: {type(error).__name__}: {error}")
        else:
            if found:
                return found
            reasons.append(f"{model_class.__name__}: no attention that can be replaced")
    raise driver.UndrivenError("\n".join(reasons))


def _attended(config, model_class, lengths, *, rotates):
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
    config._attn_implementation = "kept"
    run = _Run(config, model_class)
    found = []
    for length, padded in lengths:
        runs = []
        for factor, ramps in ((0, False), (1, False), (0, True)):
            hooks = _ramp(run.model) if ramps else []
            kept.clear()
            with torch.no_grad():
                positions = run.attend(factor, length, padded, rotates=rotates)
            for hook in hooks:
                hook.remove()
            runs.append(list(kept))
        found += [
            _of_layer(number, calls, positions)
            for number, calls in enumerate(zip(*runs, strict=True))
        ]
    return found


def _ramp(model):
    import torch
    from transformers.pytorch_utils import Conv1D

    def ramp(_module, _inputs, result):
        return torch.arange(1.0, 1 + result.shape[-1]).expand(result.shape).contiguous()

    attentions = [m for m in model.modules() if driver._ATTENTION.search(type(m).__name__)]
    parts = {part for attention in attentions for part in attention.modules()}
    return [
        part.register_forward_hook(ramp)
        for part in parts
        if isinstance(part, torch.nn.Linear | Conv1D)
    ]


def _of_layer(number, calls, positions):
    at_zero, rotated, ramped = calls
    if len({id(call[0]) for call in calls}) > 1:
        message = "its layers attend in another order"
        raise AssertionError(message)
    module, _, _, value, mask, scaling, options, output = rotated
    # What rotates is the same in all runs but for the positions.
    inputs = []
    for which in (1, 2):
        zero, turned, ramp = (call[which].double().numpy() for call in (at_zero, rotated, ramped))
        inputs.append(_as_projected(zero, turned, ramp))
    layer = getattr(module, "layer_idx", None)
    return Attended(
        number if layer is None else layer,
        *inputs,
        value.double().numpy(),
        output.double().numpy().swapaxes(1, 2),
        positions,
        None if mask is None else mask.float().numpy(),
        getattr(module, "scaling", None) if scaling is None else scaling,
        options,
    )


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
HEADS = re.compile("kv_heads|key_value_heads|num_query_groups|head_kv|multi_query_group")
AXES = {"feature_axis": -1, "seq_axis": -2}
RELATIVE_ERROR = 1e-4  # of float32, of the largest number

UNRUN = "its code was not run for this"

# What runs of some tokens do not show.
AFTER = "its queries and keys are normalized after they are rotated"
FACTOR = "its queries and keys are multiplied by `qk_scale_factor` as they are normalized"
REFUSED = {
    "longcat_flash": "each of its layers has two attentions",
    "nemotron_h": "the types of its layers are in a pattern of letters that is not read here",
    "llama4_text": "its queries that do not rotate are multiplied by a factor of their position",
    "beam": "its queries that do not rotate are multiplied by a factor of their position",
    "diffllama": "its output is the difference of two attentions",
    "falcon_h1": "its keys are multiplied by `key_multiplier` before they are rotated",
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), AFTER),
    **dict.fromkeys(("muse_glimmer_text", "muse_spark_text"), FACTOR),
    **dict.fromkeys(
        ("kosmos_2_5_text_model", "opt"), "its queries are scaled as they are projected"
    ),
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
    keys = [key for key in base if WINDOWS.search(key) and not NO_WINDOWS.search(key)]
    given = {key: 4 + 2 * i for i, key in enumerate(keys) if isinstance(base[key], int | None)}
    for number, (key, value) in enumerate(base.items()):
        if SCALES.search(key) and not NO_SCALES.search(key) and type(value) in (int, float):
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
    if known_facts.facts_of(name).ignored:
        return {"refused": "its queries are multiplied by a factor of their position"}
    if any("index_topk" in key for key in config.to_dict()):
        return {"refused": "its queries see the keys that an indexer chooses"}
    if config.is_encoder_decoder:
        return {"refused": "it has an encoder and a decoder, whose layers differ"}
    try:
        facts = _facts_of(config_class, config, types)
    except Exception as error:  # noqa: BLE001 - whatever stops a model
        print(name, str(error)[:300].replace("\n", " // "), flush=True)
        return {"refused": UNRUN}
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
            if HEADS.search(key) and type(getattr(other, key, None)) in (int, type(None)):
                setattr(other, key, 2)
    small = copy.deepcopy(config)
    driver.shrink(small)
    rotates = not known_facts.facts_of(name).unrotated
    seen = attended(other, rotates=rotates)
    facts = described(config_class, other, given, seen)
    if "refused" in facts:
        return facts
    if types and "first" not in facts and "" not in facts["layers"]:
        facts["types"] = types
    variants = [(other, seen), (small, None)]
    if "mscale_all_dim" in inspect.getsource(sys.modules[model_module(config_class)]):
        facts["has_mscale"] = True
        long = copy.deepcopy(small)
        base = {"rope_theta": (long.rope_parameters or {}).get("rope_theta", 1e4)}
        long.rope_parameters = base | LONG
        variants.append((long, None))
    for each, what in variants:
        reason = difference(each, facts, what or attended(each, rotates=rotates))
        if reason:
            return {"refused": reason}
    if not defaults_are_read(config_class, facts):
        return {"refused": "what its configuration leaves out is in no rule that is known"}
    return facts


def defaults_are_read(config_class, facts):
    """Tell whether what a configuration leaves out is as in transformers."""
    name = config_class.model_type
    found = [answer(values, facts) for values in (values_of(config_class()), {"model_type": name})]
    return isinstance(found[1], str) or found[0] == found[1]


def answer(values, facts):
    """Return the layers that facts lead to, or why there are none."""
    known = known_facts.models()
    before = known.get(values["model_type"])
    known[values["model_type"]] = (before or {"unrotated": True}) | {"attention": facts}
    try:
        return attention_layers(values, LONGEST, **AXES)
    except (TypeError, ValueError) as error:
        return str(error).rstrip(".")
    finally:
        known[values["model_type"]] = before
        if before is None:
            del known[values["model_type"]]


LONG = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
LONG |= {"mscale": 1.0, "mscale_all_dim": 0.7, "beta_fast": 32, "beta_slow": 1}


def model_module(config_class):
    """Return the name of the module that has the models of a configuration."""
    return config_class.__module__.replace("configuration_", "modeling_")


def described(config_class, config, given, seen):  # noqa: PLR0911, PLR0912 - a reason each
    """Return facts that agree with what was seen of a changed configuration."""
    values, whole = values_of(config), config_class().to_dict()
    first = seen[0]
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
    if len({(each.q.shape[1], each.k.shape[1]) for each in seen}) > 1:
        return {"refused": "its layers differ in their numbers of heads"}
    keys = [key for key in values if HEADS.search(key) and values[key] == kv_heads]
    if keys and kv_heads != heads:
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
    if len(scales) != 1 or None in scales:
        return {"refused": "the scale of its scores differs between layers, or is not told"}
    scale = scales.pop()
    if not math.isclose(scale, size**-0.5, rel_tol=1e-6):
        found = [
            [key, power]
            for key, value in values.items()
            if isinstance(value, int | float) and type(value) is not bool and value > 0
            for power in (1, -0.5, -1)
            if math.isclose(value**power, scale, rel_tol=1e-6)
            and (SCALES.search(key) or "scalar" in key)
        ]
        if found:
            facts["scale"] = found[0]
        elif scale == 1:
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
    return facts | settled(config_class, facts, whole, given)


def settled(config_class, facts, whole, changed_keys):
    """Return the keys that could mean attention, and what is known of them.

    Keys that were changed, and are in no rule, are not read: attention is compared with them.
    """
    own = {x.name: x.default for x in fields(config_class)} if is_dataclass(config_class) else {}
    keys = {key for key in {*whole, *own} if MEANS_ATTENTION.search(key)}
    folder = Path(inspect.getfile(config_class)).parent
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("modeling_*.py"))
    classes = re.split(r"^(?=@|class |def )", code, flags=re.MULTILINE)
    inner = "".join(x for x in classes if not re.match(r"class \w+(For[A-Z]|LMHead)", x))
    converted = Path(inspect.getfile(config_class)).read_text(encoding="utf-8")
    read = {rule.get("window") for rule in facts["layers"].values() if rule}
    rules = ("softcap", "switch", "first", "kv_heads", "head", "value")
    read |= {facts.get(rule) for rule in rules} | {*READ}
    read |= set(facts["scale"][:1]) if isinstance(facts.get("scale"), list) else set()
    unread = [
        key
        for key in sorted(keys - read)
        if key in changed_keys
        or not (re.search(rf"\b{key}\b", inner) or re.search(rf"self\.{key}\b", converted))
    ]
    values = {key: whole.get(key, own.get(key)) for key in sorted(keys - {*unread, *read})}
    kinds = int | float | str | None
    return {
        "unread": unread,
        "settled": {key: x for key, x in values.items() if isinstance(x, kinds)},
    }


READ = ("rope_parameters", "rope_scaling", "rope_theta", "max_position_embeddings")


def defaults_of(config_class, facts, whole):
    """Return the default values of the keys that facts name."""
    rules = [rule for rule in facts["layers"].values() if rule]
    keys = {rule.get("window") for rule in rules}
    keys |= {
        facts.get(name) for name in ("kv_heads", "head", "value", "softcap", "switch", "first")
    }
    keys |= set(facts["scale"][:1]) if isinstance(facts.get("scale"), list) else set()
    own = {x.name: x.default for x in fields(config_class)} if is_dataclass(config_class) else {}
    found = {key: own.get(key, whole.get(key)) for key in keys - {None}}
    return {key: x for key, x in sorted(found.items()) if isinstance(x, int | float | bool)}


def rule_of(each, windows):
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
        if not is_causal and (sees == (abs(i - j) <= number // 2)).all():
            return rule | {"is_causal": False, "window": key}
    return "which keys its queries see follows from no key that is known"


def difference(config, facts, seen):
    """Return how attention by facts differs from what was seen, nothing if it does not."""
    layers = answer(values_of(config), facts)
    if isinstance(layers, str):
        return layers
    for each in seen:
        layer = layers[each.layer]
        if layer is None:
            return "a layer without attention has some"
        try:
            is_equal = attends_as(layer, each)
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


def attends_as(layer, each):
    """Tell whether a layer returns what was seen."""
    positions, rows = each.positions, slice(None)
    sinks = each.options.get("s_aux")
    sinks = None if sinks is None else sinks.detach().double().numpy().reshape(-1)
    if layer.rope is not None and layer.rope.sections is not None:
        rows = slice(0, 1)  # coordinates do not tell padding
        positions = np.stack([positions[rows]] * len(layer.rope.sections))
    q, k = (_without_factor(layer.rope, x[rows]) for x in (each.q, each.k))
    found = layer(q, k, each.v[rows], positions=positions, sinks=sinks)
    is_real = np.broadcast_to(each.positions[rows][:, None, :, None] >= 0, found.shape)
    wanted = np.where(is_real, each.output[rows], 0)
    error = abs(np.where(is_real, found, 0) - wanted).max()
    return bool(error <= RELATIVE_ERROR * abs(wanted).max())
