"""Write what the rotary models of the installed transformers do: `model_types.json` and a page.

Each model type is driven with random weights, as `tests/hf_models.py` says. What is written is what
makes the scores of `RoPE.layers_from_hf_config` equal to the model's own; a type for which nothing
does is refused, with the reason. Folders of models as arguments write their types alone.
"""

import copy
import inspect
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import hf_attention  # noqa: E402
import hf_models as driver  # noqa: E402
from positional_embeddings import RoPE  # noqa: E402
from positional_embeddings.models import configuration  # noqa: E402
from positional_embeddings.models import keys as known_keys  # noqa: E402
from positional_embeddings.models import model_types as known_types  # noqa: E402

OUTPUT = ROOT / "src/positional_embeddings/models/model_types.json"
EXPLORER = ROOT / "docs/explorer/hf_models.json"
VECTORS = ROOT / "vectors/models.json"
PAGE = ROOT / "docs/results/models.md"
LENGTH = 1000

# Keys that a configuration may leave out, with the default of its class.
PLAIN = (
    *("head_dim", "qk_rope_head_dim", "kv_channels", "global_head_dim", "hidden_size"),
    *("num_attention_heads", "num_hidden_layers", "max_position_embeddings", "rotary_dim"),
    *("no_rope_layer_interval", "rope_interleave", "position_embedding_type"),
)
BASES = ("rope_theta", "rotary_emb_base", "global_rope_theta", "rope_local_base_freq")
BASES += ("local_rope_theta", "swa_rope_theta")
# Where published configurations have a key whose value is the one that the code has.
SHARE_KEYS = {"mimo_v2_flash": ["partial_rotary_factor"]}
UNROTATED = ("defaults", "names")
LAYOUTS = ("half", "interleaved")
AXIAL = (
    {"coordinates": 2},
    {"coordinates": 3},
    {"coordinates": 2, "frequencies": "alternating"},
    {"coordinates": 2, "scale": 2 * math.pi},
)

# The keys of sizes that layers of a type have in place of the usual ones.
GLOBAL = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
GATED = GLOBAL | {"num_key_value_heads": [["attention_k_eq_v", "num_global_key_value_heads"]]}
SWA = {key: f"swa_{key}" for key in ("head_dim", "v_head_dim")}
SWA |= {key: f"swa_{key}" for key in ("num_attention_heads", "num_key_value_heads")}
OWN = {
    "diffusion_gemma_text": {"full_attention": GLOBAL},
    "embedding_gemma2_text": {"full_attention": GLOBAL},
    "gemma4_text": {"full_attention": GATED},
    "gemma4_unified_text": {"full_attention": GATED},
    "mimo_v2_flash": {"sliding_attention": SWA},
}

# What no default of a class tells of its rotary keys.
OF_HUNYUAN = {"dynamic": ["alpha", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"]}
MORE = {
    "hunyuan_v1_dense": {"more_parameters": OF_HUNYUAN},
    "hunyuan_v1_moe": {"more_parameters": OF_HUNYUAN},
    "nomic_bert": {"rotary_switch": ["rotary_emb_fraction", True]},
    "phimoe": {"more_parameters": {"longrope": ["long_mscale", "short_mscale"]}},
    "qwen4_exp_text": {"rotates": ["indexed_attention"]},
    "zamba2": {"rotary_switch": ["use_mem_rope", False]},
}

# Lists of types of layers besides `layer_types`, and of the layers with full attention.
LISTS = {
    "layer_types": {},
    "layers_block_type": {},
    "block_types": {"recurrent": "linear_attention", "attention": "sliding_attention"},
    "attn_type_list": {"0": "linear_attention", "1": "full_attention"},
    "hybrid_layer_pattern": {"0": "full_attention", "1": "sliding_attention"},
    "hybrid_override_pattern": {"M": "mamba", "E": "moe", "*": "full_attention", "-": "moe"},
}
FULL_LISTS = {
    "attn_layer_indices": ["linear_attention", 0],
    "full_attn_idxs": ["conv", 0],
    "linear_attn_config.full_attn_layers": ["linear_attention", 1],
}

# Keys of the head's size where attributes of configurations have other names for it.
NAMES = {
    "bloom": {"hidden_size": "n_embed"},
    "exaone": {"num_hidden_layers": "num_layers"},
    "falcon": {"hidden_size": "n_embed"},
    "longcat_flash": {"num_hidden_layers": "num_layers"},
    "nemotron_h": {"head_dim": "attention_head_dim"},
    "nomic_bert": {
        "hidden_size": "n_embd",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    "qwen2_vl_vision": {"hidden_size": "embed_dim"},
}

# Rotary parameters that are no part of the rotation: a factor on queries, by their positions.
IGNORED = ("llama_4_scaling_beta",)

# Published types of models whose code is that of another type.
ALIASES = {"kimi_k2": "deepseek_v3"}

# Several models in one, none of which is the text's: its parts have types of their own.
SEVERAL = ("blt",)

# What the scores of attention do not show.
TWO = "pass layout='interleaved' for its attention, layout='half' for its indexer"
ASK = {
    "axk2": TWO,
    "deepseek_v32": TWO,
    "nanochat": "pass layout='half', and rotate by `rope(x, inverse=True)`: it rotates backwards",
}
PLACES = "it rotates by places in images, and its code was not run for this"
REFUSED = {
    "deepseek_v4": "it rotates its output back, too, and layers that compress keys have the base "
    "`compress_rope_theta`: build a `RoPE` for each kind of layers",
    "efficientloftr": PLACES,
    "dory": "its configuration lists attention and MLP as layers of their own, and layers in the "
    "middle attend several times: build a `RoPE` for each type of layers, of its own base",
    "gemma4_vision": "each half of a head rotates by one coordinate, as by two of half the size",
    "kimi_k25_vision": "its pairs are the column's and the row's in turns, of equal frequencies",
    "mistral_large4_text": "its frequencies are multiplied by weights, exp(rotary_emb.alpha)",
    "llama4_vision_model": "its first coordinate is the column, and places count from 1",
}
UNKNOWN = (
    "its code was not run for this, so pass layout='half' or layout='interleaved', whichever it has"
)
COLUMNS_FIRST = "its first coordinate is the column: build one, and pass `positions[::-1]`"


def main(folders: list[str]) -> None:
    """Write the types of all folders, or those of some; `--attention` keeps what rotates."""
    keeps = "--attention" in folders
    folders = [folder for folder in folders if folder != "--attention"]
    before = json.loads(OUTPUT.read_text())["models"]
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}
    import transformers  # noqa: PLC0415 - after these settings

    warnings.filterwarnings("ignore")
    found: dict[str, Any] = {}
    for folder in folders or driver.folders():
        for config_class, config in driver.configs(folder):
            name = config_class.model_type
            try:
                rotation = before.get(name) if keeps else facts_of(config_class, config)
                found[name] = rotation and completed(config_class, config, rotation)
            except Exception as error:
                error.add_note(name)
                raise
            if found[name] and kind_of(found[name]) in ("refused", "ask"):
                print(f"{name}: {found[name]}", flush=True)
    found |= {name: {"text": of} for name, of in ALIASES.items()}
    known = before if folders else {}
    known = {name: facts for name, facts in sorted((known | found).items()) if facts}
    short = {"sort_keys": True, "separators": (",", ":")}
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], **short)}" for name in known]
    version, body = json.dumps(transformers.__version__), ",\n".join(lines)
    head = f'"transformers": {version},\n"layer_types": {json.dumps(known_layer_types())}'
    OUTPUT.write_text(f'{{{head},\n"models": {{\n{body}\n}}}}\n')
    EXPLORER.write_text(OUTPUT.read_text())
    VECTORS.write_text(vectors(known, transformers.__version__))
    PAGE.write_text(page(known, transformers.__version__))


def vectors(known: dict[str, Any], version: str) -> str:
    """Return the file of facts for other projects: what its fields mean, and a line a type."""
    fields_of = {
        "models": described(known_types.ModelType),
        "attention": described(known_types.ModelAttention),
        "attention.layers": described(known_types.LayerAttention),
    }
    head = {
        "project": "positional-embeddings test vectors",
        "license": "CC0-1.0",
        "title": "What models of Hugging Face do with positions and in attention",
        "source": f"compared with the models of transformers {version}, run with random weights",
        "fields": fields_of,
    }
    text = json.dumps(head, indent=2)[:-2]
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], sort_keys=True)}" for name in known]
    return text + ',\n  "models": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def known_layer_types() -> dict[str, Any]:
    """Return what is known of types of layers."""
    from transformers import configuration_utils as utils  # noqa: PLC0415

    return {
        "known": sorted(utils.ALLOWED_ATTN_LAYER_TYPES),
        "new_names": utils._LEGACY_LAYER_TYPE_REMAP | {"mlp": "moe"},  # noqa: SLF001
        "lists": LISTS,
        "full_lists": FULL_LISTS,
    }


def described(record: Any) -> dict[str, str]:
    """Return what a docstring says of each field of a record."""
    _, _, text = inspect.cleandoc(record.__doc__).partition("----------\n")
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", text):
        names, *lines = block.splitlines()
        for name in names.partition(" : ")[0].split(", "):
            found[name] = " ".join(line.strip() for line in lines)
    return {name: found[name] for name in record._fields if name in found and name != "is_listed"}


def add_keys(config_class: Any, facts: dict[str, Any]) -> None:
    """Add what the class and the code of a configuration say of keys: shares, sections, lengths."""
    facts |= MORE.get(config_class.model_type, {})
    facts.pop("reads", None)
    facts |= reads(config_class)
    keys = []
    for key in ("rotary_pct", "partial_rotary_factor", "rope_pct"):
        found = made(config_class, **{key: 0.75}).get("rope_parameters") or {}
        nested = [x for x in found.values() if isinstance(x, dict)] or [found]
        keys += [key] * any(each.get("partial_rotary_factor") == 0.75 for each in nested)
    facts.pop("share_keys", None)
    if (keys := SHARE_KEYS.get(config_class.model_type, keys)) != ["partial_rotary_factor"]:
        facts["share_keys"] = keys
    _, code = code_of(config_class)
    if "ROPE_INIT_FUNCTIONS" not in code and "axial" not in facts:
        facts["has_scaling"] = False
    default = re.search(r'get\("mrope_section", (\[[\d, ]+\])\)', code)
    if default and "sections" in facts and facts["sections"] != "unknown":
        # That of the configuration comes before the code's.
        plain = made(config_class, rope_parameters={"rope_type": "default"})
        own = (plain.get("rope_parameters") or {}).get("mrope_section")
        facts["mrope_section"] = own or json.loads(default[1])
    values = {x.name: x.default for x in fields(config_class)} if is_dataclass(config_class) else {}
    original = values.get("original_max_position_embeddings")
    if isinstance(original, int):
        facts.setdefault("defaults", {})["original_max_position_embeddings"] = original


def code_of(config_class: Any) -> tuple[str, str]:
    """Return the code of a class of configurations, and that of its models."""
    path = Path(inspect.getfile(config_class))
    name = path.name.replace("configuration_", "modeling_")
    files = driver.code_files(config_class)
    # A folder with several files has one for each of its configurations.
    own = [code for code in files if code.name == name or code.parent != path.parent]
    return path.read_text(), "".join(code.read_text() for code in own)


def reads(config_class: Any) -> dict[str, Any]:
    """Return which of the keys that are of some types alone the code of a type reads."""
    own, code = code_of(config_class)
    keys = [
        key
        for key in known_keys.READ_BY_SOME
        if re.search(rf"\b{key}\b", own) or re.search(rf'config\.{key}\b|"{key}"', code)
    ]
    return {} if keys == [*known_types.ModelType().reads] else {"reads": keys}


def completed(config_class: Any, config: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of the rotation of a type with its attention, and the keys of both."""
    if kind_of(facts) in ("read", "ask"):
        add_keys(config_class, facts)
    add_attention(config_class, config, facts)
    add_names(config_class, facts)
    return facts


def add_attention(config_class: Any, config: Any, facts: dict[str, Any]) -> None:
    """Add what the attention of a type does to what is known of it, if it is a type of text."""
    name = config_class.model_type
    if config is None or kind_of(facts) not in ("read", "unrotated"):
        return
    if "axial" in facts:
        facts["attention"] = {"refused": "it attends to places in images"}
        return
    if kind_of(facts) == "unrotated":
        facts |= {key: x for key, x in defaults_of(config_class).items() if key in UNROTATED}
        facts |= reads(config_class)
    models = known_types.models()
    before = models.get(name)
    models[name] = facts
    try:
        attention = hf_attention.facts_of(config_class, config, types_of(config_class))
        facts |= hf_attention.with_attention({}, attention)
    finally:
        models[name] = before  # type: ignore[assignment]
        if before is None:
            del models[name]


def add_names(config_class: Any, facts: dict[str, Any]) -> None:
    """Add which keys the code of a type names, and how the names of its classes begin."""
    name = config_class.model_type
    is_compared = "refused" not in facts.get("attention", {"refused": ""})
    if not is_compared and kind_of(facts) in ("read", "ask"):
        named = hf_attention.named(config_class, facts)
        facts["named"] = {key: x for key, x in named.items() if known_keys.is_rotary(key)}
    begins = configuration.plain(name)
    classes = {
        x for x in driver.class_names(config_class) if not x.lower().startswith("pretrained")
    }
    others = {x for x in classes if not configuration.plain(x).startswith(begins)}
    ends = "(?=Config|For[A-Z]|Model|PreTrained|Encoder|Decoder|$)"
    facts["classes"] = sorted({re.match(rf"\w+?{ends}", x)[0] for x in others})
    for key in ("named", "classes"):
        if not facts.get(key):
            facts.pop(key, None)


def page(known: dict[str, Any], version: str) -> str:
    """Return the page that says which model types are read, and why others are not."""
    names: dict[str, list[str]] = {
        kind: [] for kind in ("read", "unrun", "why", "text", "unrotated")
    }
    for name, facts in known.items():
        kind = kind_of(facts)
        if kind in ("ask", "refused"):
            kind = "unrun" if facts.get("ask") == UNKNOWN else "why"
        names[kind].append(name)
    listed = {kind: ", ".join(f"`{name}`" for name in found) for kind, found in names.items()}
    rows = [
        f"| `{name}` | {known[name].get('ask') or known[name]['refused']} |"
        for name in names["why"]
    ]
    attends: list[str] = []
    differs: dict[str, list[str]] = {}
    for name, facts in known.items():
        attention = facts.get("attention", {"refused": "it was not compared"})
        if "text" not in facts:
            reason = attention.get("refused")
            of = attends if reason is None else differs.setdefault(reason, [])
            of.append(f"`{name}`")
    return f"""# Models of Hugging Face

`RoPE.from_hf_config` makes the rotary embedding of a model from its `config.json`;
`RoPE.layers_from_hf_config` makes one for each layer, and None for layers that do not rotate. What
the configuration leaves out is as in transformers {version}:

```python
from positional_embeddings import RoPE

axes = {{"feature_axis": -1, "seq_axis": -2}}
config = {{"model_type": "gemma3_text", "num_hidden_layers": 12}}  # or the path of a config.json
ropes = RoPE.layers_from_hf_config(config, **axes)
assert [rope.base for rope in ropes[4:7]] == [10_000, 1_000_000, 10_000]

config = {{"model_type": "smollm3", "num_hidden_layers": 8}}
ropes = RoPE.layers_from_hf_config(config, seq_len=32_768, **axes)
assert [rope is None for rope in ropes] == [False, False, False, True] * 2
```

Models of images, such as DINOv3, Pixtral and the `vision_config` of Qwen2-VL, rotate by the row and
the column of a patch: pass positions of two coordinates, `grid_positions((height, width))`, in the
order in which the model has its patches. DINOv3 has the centres of patches from -1 to 1 instead, as
the example of `RoPE.from_hf_config` shows.

The lists below are measured: `.ci/write_models.py` runs each model of transformers with random
weights, and compares the scores of its queries and keys with the scores of a `RoPE`. A
configuration of several models is read as its text model; for another part, pass that part. A key
that the code of the type does not name is not read; one that it names, and that could mean
positions or attention, is refused where its value is not the one that was compared.

## {len(names["read"])} types are read

{listed["read"]}.

## {len(names["unrun"])} types need a layout

The program cannot run these alone. Pass `layout="half"` or `layout="interleaved"`, whichever their
code has: {listed["unrun"]}.

## {len(names["why"])} types are refused

| model type | reason |
| --- | --- |
{chr(10).join(rows)}

## The attention of {len(attends)} types is read

`attention_layers` makes their whole attention. The program gave the queries, keys and values of the
models to `AttentionLayer`, and compared what it returns: with random weights of norms, for two
lengths, one of them padded, from position 0 and from 5,000 on, with windows and scales other than
the usual ones, and with each flag of the configuration turned that is not refused:
{", ".join(attends)}.

The attention of the others is refused:

| reason | model types |
| --- | --- |
{chr(10).join(f"| {reason} | {', '.join(differs[reason])} |" for reason in sorted(differs))}
"""


def kind_of(facts: dict[str, Any]) -> str:
    """Return whether a type is read, refused, or something else."""
    kinds = ("refused", "unrotated", "ask", "text")
    return next((kind for kind in kinds if kind in facts), "read")


def facts_of(config_class: Any, config: Any) -> dict[str, Any] | None:
    """Return what is to be written of a type, None if that is nothing."""
    text = getattr(config, "text_config", None)
    if hasattr(text, "to_dict"):
        parts = {"text": text, "vision": getattr(config, "vision_config", None)}
        parts = {key: x.model_type for key, x in parts.items() if x and is_rotary(type(x))}
        return parts if "text" in parts else None
    if not is_rotary(config_class):
        if hasattr(config, "num_attention_heads") and driver.model_classes(config):
            return {"unrotated": True}
        return None
    if config is None or config_class.model_type in SEVERAL:
        return None
    name = config.model_type
    if name in REFUSED:
        return {"refused": REFUSED[name]}
    known_types.models().pop(name, None)
    small = copy.deepcopy(config)
    driver.shrink(small)
    facts = defaults_of(config_class) | reads(config_class)
    try:
        facts = measured(small, facts)
        if facts.keys().isdisjoint(("bases", "rotates")) and not hasattr(config, "no_rope_layers"):
            facts.pop("types", None)
        if "windowless" in facts:
            facts["defaults"]["sliding_window"] = config_class.sliding_window
        if kind_of(facts) == "read":
            check_defaults(config_class, facts)
    except driver.UndrivenError as error:
        # A layout alone would make a rotation by one coordinate.
        facts = {"refused": PLACES} if hasattr(small, "image_size") else facts | {"ask": UNKNOWN}
        print(name, str(error)[:600].replace("\n", " // "), flush=True)
    finally:
        known_types.models().pop(name, None)
    has_keys = any("rope" in key or "rotary" in key for key in config.to_dict())
    return facts if has_keys or kind_of(facts) in ("read", "unrotated") else None


def check_defaults(config_class: Any, facts: dict[str, Any]) -> None:
    """Say if a configuration that says nothing is not read as transformers reads it."""
    given: list[Any] = []
    for values in (made(config_class), {}):
        known_types.models()[config_class.model_type] = facts
        try:
            found = RoPE.layers_from_hf_config(
                {"model_type": config_class.model_type} | values, LENGTH
            )
        except (TypeError, ValueError) as error:
            given.append(str(error)[:200])
        else:
            given.append(found)
    if given[0] != given[1] and not any(isinstance(each, str) for each in given):
        message = f"its defaults are not as transformers has them: {facts}, {given}"
        raise AssertionError(message)


def is_rotary(config_class: Any) -> bool:
    """Tell whether the code of a configuration's models speaks of rotation."""
    return bool(re.search("[Rr]otary|rope_|RoPE|Rope", driver.code_of(config_class)))


def ropes_of(config: Any, facts: dict[str, Any]) -> list[RoPE | None] | str:
    """Return the embeddings that facts lead to, or why there are none."""
    values = hf_attention.values_of(config)
    named = hf_attention.named(type(config), facts)
    known_types.models()[values["model_type"]] = facts | {"named": named}
    try:
        return RoPE.layers_from_hf_config(values, LENGTH, feature_axis=-1, seq_axis=-2)
    except (ValueError, TypeError) as error:
        return str(error)


def is_equal(ropes: list[RoPE | None] | str, seen: list[Any]) -> bool:
    """Tell whether embeddings give the scores that were seen, layer by layer."""
    if isinstance(ropes, str):
        return False
    for module, pairs, positions in seen:
        index = getattr(module, "layer_idx", None)
        if index is None:
            rope = next((each for each in ropes if each is not None), None)
        else:
            rope = ropes[min(index, len(ropes) - 1)]
        if rope is None and driver.rotates(pairs):
            return False
        try:
            if rope is not None and not driver.is_equal(rope, pairs, positions):
                return False
        except (ValueError, AssertionError):
            return False
    return True


def measured(config: Any, facts: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912
    """Return the facts that make the embeddings of a configuration equal to what is seen."""
    name = config.model_type
    parameters = getattr(config, "rope_parameters", None) or {}
    is_axial = parameters.get("rope_type") == "axial"
    has_patches = hasattr(config, "image_size") or hasattr(config, "patch_size")
    nested = [value for value in parameters.values() if isinstance(value, dict)] or [parameters]
    if any(each.get("partial_rotary_factor", 1) != 1 for each in nested):
        facts["share"] = True
    if "position_embedding_type" in driver.CHANGES.get(name, {}):
        # Its code rotates only if it says so.
        default = type(config).position_embedding_type or "absolute"
        facts |= {
            "optional": True,
            "defaults": facts["defaults"] | {"position_embedding_type": default},
        }
    ignored = [key for key in IGNORED if any(key in each for each in nested)]
    facts |= {"ignored": ignored} if ignored else {}
    reasons = []
    has_sections = any("mrope_section" in each for each in nested)
    counts = (2, 3) if is_axial else (2, 3, 0) if has_patches else (3,) if has_sections else (0,)
    for count in counts:
        try:
            seen = driver.seen(config, coordinates=count)
        except driver.UndrivenError as error:
            reasons.append(error)
            continue
        if not any(driver.rotates(pairs) for _, pairs, _ in seen):
            return {"unrotated": True}
        facts |= rotating_types(config, seen)
        options: list[dict[str, Any]] = [{}]
        if count and (is_axial or has_patches):
            options = [{"axial": each} for each in AXIAL if each["coordinates"] == count]
        for more in options:
            for layout in LAYOUTS:
                found = facts | more | {"layout": layout}
                ropes = ropes_of(config, found)
                if isinstance(ropes, str):
                    reasons.append(ropes)
                elif is_equal(ropes, seen):
                    return details(config, found, ropes)
                elif is_equal(ropes_of(config, found | {"sections": "strided"}), seen):
                    return details(config, found | {"sections": "strided"}, ropes)
                elif more and is_equal(ropes, [(*one, places[::-1]) for *one, places in seen]):
                    return {"refused": COLUMNS_FIRST}
    if name in ASK:
        return facts | {"ask": ASK[name]}
    if reasons and all(isinstance(reason, driver.UndrivenError) for reason in reasons):
        raise reasons[0]
    texts = [reason.rstrip(".") for reason in reasons if isinstance(reason, str)]
    reason = texts[0] if texts else "no layout of pairs gives its scores"
    unknown = re.match(r"the rotary parameters .*must be of \[.*\], got '(\w+)'", reason)
    unknown = unknown or re.match(r"`([\w.]+)` is not known of", reason)
    return {"refused": f"its code reads `{unknown[1]}`" if unknown else reason}


def rotating_types(config: Any, seen: list[Any]) -> dict[str, Any]:
    """Return the types of layers that rotate, if not all do."""
    types = getattr(config, "layer_types", None)
    if not types:
        return {}
    if not any(hasattr(module, "layer_idx") for module, *_ in seen):
        rotating = {name for name in types if "attention" in name and "linear" not in name}
        return {} if set(types) == {"full_attention"} else {"rotates": sorted(rotating)}
    by_type: dict[str, set[bool]] = {name: set() for name in types}
    for module, pairs, _ in seen:
        index = getattr(module, "layer_idx", None)
        if index is not None:
            by_type[types[index]].add(driver.rotates(pairs))
    usual = {"attention", "chunked_attention", "full_attention", "sliding_attention"}
    rotating = {name for name, found in by_type.items() if True in found}
    if "attention" in rotating:
        rotating = rotating - {"attention"} | {"full_attention"}
    if rotating == set(types) and rotating <= usual:
        return {}
    if hasattr(config, "no_rope_layers") or any(len(found) > 1 for found in by_type.values()):
        return {} if rotating <= usual else {"rotates": sorted(rotating)}
    facts: dict[str, Any] = {"rotates": sorted(rotating)}
    if getattr(config, "sliding_window", None) is not None and "full_attention" in types:
        other = copy.deepcopy(config)
        with suppress(Exception):  # some have to have a window
            other.sliding_window = None
            other.layer_types = ["full_attention"] * len(types)
            seen = driver.seen(other)
            facts["windowless"] = ["full_attention"] * any(driver.rotates(x[1]) for x in seen)
    return facts


def details(config: Any, facts: dict[str, Any], ropes: list[RoPE | None]) -> dict[str, Any]:
    """Return the facts with what else the code of a model reads."""
    name = config.model_type
    if name in ASK:
        return {key: value for key, value in facts.items() if key != "layout"} | {"ask": ASK[name]}
    parameters = getattr(config, "rope_parameters", None) or {}
    if "axial" not in facts and parameters:
        other = copy.deepcopy(config)
        given = other.rope_parameters
        for each in [value for value in given.values() if isinstance(value, dict)] or [given]:
            each["partial_rotary_factor"] = 0.5
        with suppress(driver.UndrivenError):
            seen, found = driver.seen(other), facts | {"share": True}
            if ropes_of(other, found) != ropes and is_equal(ropes_of(other, found), seen):
                facts = found
    if driver.has_sections(config) and not {"axial", "sections"} & facts.keys():
        facts = facts | {"sections": order_of_sections(config, facts)}
    if hasattr(config, "rope_interleave"):
        other = copy.deepcopy(config)
        other.rope_interleave = not config.rope_interleave
        found = facts | {"interleave": True}
        with suppress(driver.UndrivenError):
            if is_equal(ropes_of(other, found), driver.seen(other)):
                facts = found
    if getattr(config, "layer_rope_theta", None):
        other = copy.deepcopy(config)
        other.layer_rope_theta = [
            base and 500.0 + i for i, base in enumerate(config.layer_rope_theta)
        ]
        found = facts | {"own_bases": True}
        if is_equal(ropes_of(other, found), driver.seen(other)):
            facts = found
    return facts


def order_of_sections(config: Any, facts: dict[str, Any]) -> str:
    """Return the order of sections that gives the scores of three coordinates."""
    other = copy.deepcopy(config)
    given = other.rope_parameters
    for each in [value for value in given.values() if isinstance(value, dict)] or [given]:
        each["mrope_section"] = driver.sections_of(config, each)
        each.pop("mrope_interleaved", None)
    with suppress(driver.UndrivenError):
        seen = driver.seen(other, coordinates=3)
        for order in ("contiguous", "strided"):
            if is_equal(ropes_of(other, facts | {"sections": order}), seen):
                return order
    return "unknown"


# Defaults, and what a configuration that says nothing has.


def made(config_class: Any, **given: Any) -> dict[str, Any]:
    """Return what transformers makes of a configuration, nothing if it refuses it."""
    with suppress(Exception):
        return dict(config_class(**given).to_dict())
    return {}


def defaults_of(config_class: Any) -> dict[str, Any]:
    """Return the defaults of a class of configurations."""
    facts: dict[str, Any] = {}
    names = dict(getattr(config_class, "attribute_map", {})) | NAMES.get(
        config_class.model_type, {}
    )
    own = {name: names[name] for name in PLAIN if name in names}
    if own:
        facts["names"] = own
    values = {x.name: x.default for x in fields(config_class)} if is_dataclass(config_class) else {}
    defaults = {name: values.get(own.get(name), values.get(name)) for name in PLAIN}
    whole = made(config_class)
    parameters = whole.get("rope_parameters") or {}
    nested = {key: each for key, each in parameters.items() if isinstance(each, dict)}
    if nested:
        facts |= bases_of(config_class, nested)
        facts |= {"own": OWN[config_class.model_type]} if config_class.model_type in OWN else {}
        heads = whole.get("per_layer_config") or {}
        sizes = {each.get("head_dim") for each in heads.values()} - {None}
        if len(sizes) == 1:
            defaults["global_head_dim"] = sizes.pop()
        defaults["rope_parameters"] = {
            key: None if each is None else bare(each, facts["bases"][key][0])
            for key, each in parameters.items()
        }
    elif parameters:
        defaults |= defaults_of_all_layers(config_class, parameters)
        if base_keys(config_class) == ["rotary_emb_base"]:
            facts["base_keys"] = ["rotary_emb_base"]
    else:
        defaults["rope_theta"] = values.get("rope_theta")
    if defaults["num_hidden_layers"]:
        defaults["num_hidden_layers"] = whole.get(
            "num_hidden_layers", defaults["num_hidden_layers"]
        )
    flags = whole.get("no_rope_layers") or []
    for interval in range(2, len(flags)):
        if flags == [int((i + 1) % interval != 0) for i in range(len(flags))]:
            defaults["no_rope_layer_interval"] = interval
    defaults = {key: value for key, value in defaults.items() if value not in (None, {})}
    if defaults.get("rope_theta") == 10_000:
        del defaults["rope_theta"]
    if defaults:
        facts["defaults"] = defaults
    rule = types_of(config_class)
    if rule:
        facts["types"] = rule
    return facts


def defaults_of_all_layers(config_class: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what rotary parameters that say nothing mean, and the default ones."""
    kind = "axial" if parameters.get("rope_type") == "axial" else "default"
    plain = made(config_class, rope_parameters={"rope_type": kind}).get("rope_parameters") or {}
    defaults = {key: plain.get(key) for key in ("rope_theta", "partial_rotary_factor")}
    given = {key: x for key, x in bare(parameters, None).items() if defaults.get(key) != x}
    given.pop("rope_theta", None)
    if not base_keys(config_class):
        given["rope_theta"] = parameters["rope_theta"]
    return defaults | {"rope_parameters": given}


def base_keys(config_class: Any) -> list[str]:
    """Return the keys that set the base where there are no rotary parameters."""
    keys = []
    for key in ("rotary_emb_base", "rope_theta"):
        found = made(config_class, **{key: 777.0}).get("rope_parameters") or {}
        keys += [key] * (found.get("rope_theta") == 777)
    return keys


def bare(parameters: dict[str, Any], base: float | None) -> dict[str, Any]:
    """Return rotary parameters without what is so if they say nothing."""
    return {
        key: value
        for key, value in parameters.items()
        if value is not None
        and (key, value)
        not in (("rope_type", "default"), ("rope_theta", base), ("partial_rotary_factor", 1.0))
    }


def bases_of(config_class: Any, nested: dict[str, Any]) -> dict[str, Any]:
    """Return the default base of each type of layers, and the keys that set it."""
    bases: dict[str, Any] = {key: [each.get("rope_theta")] for key, each in nested.items()}
    if config_class.model_type == "mimo_v2_flash":  # whose code has the base of what is published
        bases["sliding_attention"].append("swa_rope_theta")
    for name in BASES:
        found = made(config_class, **{name: 777.0}).get("rope_parameters") or {}
        for key, base in bases.items():
            if (found.get(key) or {}).get("rope_theta") == 777:
                base.append(name)
    for key, base in bases.items():
        given = {name: {"rope_type": "default"} for name in nested}
        found = made(config_class, rope_parameters=given).get("rope_parameters") or {}
        base[0] = (found.get(key) or {}).get("rope_theta") or base[0]
    scaled = made(config_class, rope_scaling={"rope_type": "linear", "factor": 7.0})
    scaled = scaled.get("rope_parameters") or {}
    of = sorted(key for key in nested if (scaled.get(key) or {}).get("factor") == 7)
    return {"bases": bases} | ({"scaled": of} if of else {})


def types_of(config_class: Any) -> dict[str, Any] | None:
    """Return the rule for the types of layers of a configuration that does not list them."""
    lengths = (7, 8, 12, 13, 24, 31)
    lists = [layer_types(config_class, num_hidden_layers=n) for n in lengths]
    if not all(lists) or any(len(each) != n for each, n in zip(lists, lengths, strict=True)):
        return None
    rule = next((rule for rule in rules(lists[-1]) if all(map(rule_gives(rule), lists))), None)
    if rule is None or len(set(lists[-1])) == 1:
        return rule
    source = Path(inspect.getfile(config_class)).read_text()
    names = set(re.findall(r"\w*(?:pattern|interval|every|period|offset|group_size)\w*", source))
    for key, of, more in (("key", "every", 1), ("at_key", "at", -1)):
        changed = rule | {of: rule[of] + more}
        for name in sorted(names):
            other = layer_types(config_class, **{name: changed[of]}, num_hidden_layers=24)
            if other and rule_gives(changed)(other):
                rule = rule | {key: name}
                break
    flags = [1, 0, 0, 1] * 6
    other = layer_types(config_class, no_rope_layers=flags, num_hidden_layers=24)
    if other == [rule["others" if flag else "type"] for flag in flags]:
        return rule | {"flags": "no_rope_layers"}
    return rule


def layer_types(config_class: Any, **given: Any) -> list[str]:
    """Return the types of layers that transformers makes of a configuration, if it makes any."""
    with suppress(Exception):
        return list(config_class(**given).layer_types)
    return []


def rules(types: list[str]) -> Iterator[dict[str, Any]]:
    """Yield rules that may give types of layers."""
    for every in range(1, 9):
        for at in range(-1, every - 1):
            kind, others = types[at % every], types[(at + 1) % every]
            rule = {"every": every, "at": at, "type": kind, "others": others}
            yield rule
            yield rule | {"last": types[-1]}


def rule_gives(rule: dict[str, Any]) -> Any:
    """Return a function that tells whether a rule gives types of layers."""
    every, at = rule["every"], rule["at"] % rule["every"]

    def gives(types: list[str]) -> bool:
        found = [rule["type" if i % every == at else "others"] for i in range(len(types))]
        return types == [*found[:-1], rule.get("last", found[-1])]

    return gives


if __name__ == "__main__":
    main(sys.argv[1:])
