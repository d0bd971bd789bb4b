"""Write `model_types.json`, and a page, from the models of the installed transformers.

The program runs each model type with random weights, as `tests/hf_models.py` describes. With the
written fields, `RoPE.layers_from_hf_config` gives the scores of the model. If no fields do, the
type is refused, with a reason. Folders of models as arguments update only their types.
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
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import hf_attention  # noqa: E402
import hf_models as driver  # noqa: E402
from positional_embeddings import RoPE  # noqa: E402
from positional_embeddings.models import configuration  # noqa: E402
from positional_embeddings.models import keys as known_keys  # noqa: E402
from positional_embeddings.models import model_types as catalog  # noqa: E402
from positional_embeddings.rotary.rope import SectionOrder  # noqa: E402

OUTPUT = ROOT / "src/positional_embeddings/models/model_types.json"
VECTORS = ROOT / "vectors/models.json"
PAGE = ROOT / "docs/results/models.md"
LENGTH = 1000

# Keys whose defaults are written, as the class of configurations has them.
DEFAULT_KEYS = (
    *("head_dim", "qk_rope_head_dim", "kv_channels", "global_head_dim", "hidden_size"),
    *("num_attention_heads", "num_hidden_layers", "max_position_embeddings", "rotary_dim"),
    *("no_rope_layer_interval", "rope_interleave", "position_embedding_type"),
)
BASES = ("rope_theta", "rotary_emb_base", "global_rope_theta", "rope_local_base_freq")
BASES += ("local_rope_theta", "swa_rope_theta")
# Keys of shares that published configurations have and the class lacks.
SHARE_KEYS = {"mimo_v2_flash": ["partial_rotary_factor"]}
UNROTATED_FIELDS = ("defaults", "names")
LAYOUTS = ("half", "interleaved")
AXIAL = (
    {"coordinates": 2},
    {"coordinates": 3},
    {"coordinates": 2, "frequencies": "alternating"},
    {"coordinates": 2, "scale": 2 * math.pi},
)

# Keys of sizes that replace the usual keys in layers of a type.
GLOBAL = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
SHARED_KV = GLOBAL | {"num_key_value_heads": [["attention_k_eq_v", "num_global_key_value_heads"]]}
SWA = {key: f"swa_{key}" for key in ("head_dim", "v_head_dim")}
SWA |= {key: f"swa_{key}" for key in ("num_attention_heads", "num_key_value_heads")}
LAYER_SIZES = {
    "diffusion_gemma_text": {"full_attention": GLOBAL},
    "embedding_gemma2_text": {"full_attention": GLOBAL},
    "gemma4_text": {"full_attention": SHARED_KV},
    "gemma4_unified_text": {"full_attention": SHARED_KV},
    "mimo_v2_flash": {"sliding_attention": SWA},
}

# Fields that do not follow from the defaults of a class.
HUNYUAN_PARAMETERS = {"dynamic": ["alpha", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"]}
EXTRA_FIELDS = {
    "hunyuan_v1_dense": {"more_parameters": HUNYUAN_PARAMETERS},
    "hunyuan_v1_moe": {"more_parameters": HUNYUAN_PARAMETERS},
    "nomic_bert": {"rotary_switch": ["rotary_emb_fraction", True]},
    "phimoe": {"more_parameters": {"longrope": ["long_mscale", "short_mscale"]}},
    "qwen4_exp_text": {"rotates": ["indexed_attention"]},
    "zamba2": {"rotary_switch": ["use_mem_rope", False]},
}

# Keys of lists of types of layers, and of lists of the layers with full attention.
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

# Keys of sizes that differ from the names of attributes.
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

# Rotary parameters that do not affect rotation: a factor on queries by their positions.
IGNORED = ("llama_4_scaling_beta",)

# Keys of a class of configurations that the code does not read.
UNREAD = {"minimax_m3_vl_text": ("rotary_dim",)}

# Published types of models with the code of another type.
ALIASES = {"kimi_k2": "deepseek_v3"}

# Types of several models without a text model: the parts have their own types.
COMPOSITE = ("blt",)

# Reasons that do not follow from the scores of attention.
TWO_LAYOUTS = "pass layout='interleaved' for its attention, layout='half' for its indexer"
ASK = {
    "axk2": TWO_LAYOUTS,
    "deepseek_v32": TWO_LAYOUTS,
    "nanochat": "pass layout='half', and rotate by `rope(x, inverse=True)`: it rotates backwards",
}
IMAGE_POSITIONS = "it rotates by positions in images, and its code was not run for this"
REFUSED = {
    "deepseek_v4": "it rotates the last `qk_rope_head_dim` features of a head, and rotates its "
    "output back: build a `RoPE` of that size with layout='interleaved' for each kind of layers, "
    "with the base `rope_theta` for a window, and `compress_rope_theta`, its scaling and "
    "attention_factor=1.0 for compressed keys",
    "efficientloftr": IMAGE_POSITIONS,
    "gemma4_vision": "each half of a head rotates by one coordinate, as by two of half the size",
    "kimi_k25_vision": "its pairs alternate between column and row: build one with "
    "section_order='strided' and section_frequencies='restart', and pass `positions[::-1]`",
    "mistral_large4_text": "its frequencies are multiplied by weights, exp(rotary_emb.alpha)",
    "qwen2_5_omni_dit": "it rotates only the first head of queries and keys: rotate that head by a "
    "`RoPE` with layout='interleaved'",
    "llama4_vision_model": "its first coordinate is the column, and positions count from 1: build "
    "one with layout='interleaved' and section_frequencies='restart', and pass "
    "`positions[::-1] + 1`",
    **dict.fromkeys(
        ("falcon_mamba", "fnet", "mamba", "mamba2", "rwkv", "xlstm"),
        "it has no attention and does not rotate: none of its layers has queries and keys",
    ),
}
UNRUN = (
    "its code was not run for this, so pass layout='half' or layout='interleaved', as in its code"
)
NOT_FOUND = (
    "no rotation was found that gives its scores; only half and interleaved pairs by its "
    "configuration were tried"
)
COLUMNS_FIRST = "its first coordinate is the column: build one, and pass `positions[::-1]`"


def main(folders: list[str]) -> None:
    """Write the types of all folders or of some; `--attention` does not measure rotation again."""
    keeps_rotation = "--attention" in folders
    folders = [folder for folder in folders if folder != "--attention"]
    written = json.loads(OUTPUT.read_text())["models"]
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}
    import transformers  # noqa: PLC0415 - after these settings

    warnings.filterwarnings("ignore")
    updated: dict[str, Any] = {}
    for folder in folders or driver.folders():
        for config_class, config in driver.configs(folder):
            name = config_class.model_type
            try:
                if keeps_rotation:
                    rotation = written.get(name)
                else:
                    rotation = describe_type(config_class, config)
                updated[name] = rotation and complete(config_class, config, rotation)
            except Exception as error:
                error.add_note(name)
                raise
            if updated[name] and status_of(updated[name]) in ("refused", "ask"):
                print(f"{name}: {updated[name]}", flush=True)
    updated |= {name: {"text": text} for name, text in ALIASES.items()}
    merged = (written if folders else {}) | updated
    model_types = {name: merged[name] for name in sorted(merged) if merged[name]}
    OUTPUT.write_text(data_file(transformers.__version__, layer_type_names(), model_types))
    VECTORS.write_text(vectors(model_types, transformers.__version__))
    PAGE.write_text(page(model_types, transformers.__version__))


def data_file(version: str, layer_types: dict[str, Any], model_types: dict[str, Any]) -> str:
    """Return the text of `model_types.json`, with a line for each type."""
    short = {"sort_keys": True, "separators": (",", ":")}
    lines = [f"{json.dumps(x)}: {json.dumps(fields, **short)}" for x, fields in model_types.items()]
    body = ",\n".join(lines)
    head = f'"transformers": {json.dumps(version)},\n"layer_types": {json.dumps(layer_types)}'
    return f'{{{head},\n"models": {{\n{body}\n}}}}\n'


def vectors(model_types: dict[str, Any], version: str) -> str:
    """Return the file for other projects: descriptions of the fields, and a line for each type."""
    descriptions = {
        "models": field_docs(catalog.ModelType),
        "attention": field_docs(catalog.ModelAttention),
        "attention.layers": field_docs(catalog.LayerAttention),
    }
    head = {
        "project": "positional-embeddings test vectors",
        "license": "CC0-1.0",
        "title": "Rotation and attention of models of Hugging Face",
        "source": f"compared with the models of transformers {version}, run with random weights",
        "fields": descriptions,
    }
    text = json.dumps(head, indent=2)[:-2]
    lines = [f"{json.dumps(x)}: {json.dumps(y, sort_keys=True)}" for x, y in model_types.items()]
    return text + ',\n  "models": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def layer_type_names() -> dict[str, Any]:
    """Return the names of types of layers, and the keys of their lists."""
    from transformers import configuration_utils as utils  # noqa: PLC0415

    return {
        "names": sorted(utils.ALLOWED_ATTN_LAYER_TYPES),
        "new_names": utils._LEGACY_LAYER_TYPE_REMAP | {"mlp": "moe"},  # noqa: SLF001
        "lists": LISTS,
        "full_lists": FULL_LISTS,
    }


def field_docs(record: Any) -> dict[str, str]:
    """Return the description of each field of a class from its docstring."""
    _, _, text = inspect.cleandoc(record.__doc__).partition("----------\n")
    docs: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", text):
        names, *lines = block.splitlines()
        for name in names.partition(" : ")[0].split(", "):
            docs[name] = " ".join(line.strip() for line in lines)
    return {name: docs[name] for name in record._fields if name in docs and name != "is_listed"}


def add_keys(config_class: Any, fields: dict[str, Any]) -> None:
    """Add the fields for keys that the class and the code name: shares, sections, lengths."""
    fields |= EXTRA_FIELDS.get(config_class.model_type, {})
    fields.pop("reads", None)
    fields |= keys_read(config_class)
    keys = []
    for key in ("rotary_pct", "partial_rotary_factor", "rope_pct"):
        nested = parameter_dicts(config_dict(config_class, **{key: 0.75}).get("rope_parameters"))
        keys += [key] * any(x.get("partial_rotary_factor") == 0.75 for x in nested)
    fields.pop("share_keys", None)
    if (keys := SHARE_KEYS.get(config_class.model_type, keys)) != ["partial_rotary_factor"]:
        fields["share_keys"] = keys
    _, code = code_of_config(config_class)
    if "ROPE_INIT_FUNCTIONS" not in code and "axial" not in fields:
        fields["has_scaling"] = False
    default = re.search(r'get\("mrope_section", (\[[\d, ]+\])\)', code)
    if default and "sections" in fields and fields["sections"] != "unknown":
        # The configuration has priority over the code.
        values = config_dict(config_class, rope_parameters={"rope_type": "default"})
        sections = (values.get("rope_parameters") or {}).get("mrope_section")
        fields["mrope_section"] = sections or json.loads(default[1])
    original = driver.class_defaults(config_class).get("original_max_position_embeddings")
    if isinstance(original, int):
        fields.setdefault("defaults", {})["original_max_position_embeddings"] = original


def parameter_dicts(parameters: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the dicts of rotary parameters: one for each type of layers, or one for all."""
    parameters = parameters or {}
    return [x for x in parameters.values() if isinstance(x, dict)] or [parameters]


def code_of_config(config_class: Any) -> tuple[str, str]:
    """Return the code of a class of configurations, and the code of its models."""
    path = Path(inspect.getfile(config_class))
    name = path.name.replace("configuration_", "modeling_")
    files = driver.code_files(config_class)
    # A folder with several files has one file for each configuration.
    files = [code for code in files if code.name == name or code.parent != path.parent]
    return path.read_text(), "".join(code.read_text() for code in files)


def keys_read(config_class: Any) -> dict[str, Any]:
    """Return the field `reads`: the keys of `READ_BY_SOME` that the code of a type reads."""
    class_code, code = code_of_config(config_class)
    keys = [
        key
        for key in known_keys.READ_BY_SOME
        if key not in UNREAD.get(config_class.model_type, ())
        if re.search(rf"\b{key}\b", class_code) or re.search(rf'config\.{key}\b|"{key}"', code)
    ]
    return {} if keys == [*catalog.ModelType().reads] else {"reads": keys}


def complete(config_class: Any, config: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Add the fields of attention and of keys to the fields of rotation, and return all fields."""
    if status_of(fields) in ("read", "ask"):
        add_keys(config_class, fields)
    add_attention(config_class, config, fields)
    add_names(config_class, fields)
    return fields


def add_attention(config_class: Any, config: Any, fields: dict[str, Any]) -> None:
    """Add the fields of the attention of a type, if it is a type of text."""
    name = config_class.model_type
    if config is None or status_of(fields) not in ("read", "unrotated"):
        return
    if "axial" in fields:
        fields["attention"] = {"refused": "it attends to positions in images"}
        return
    if status_of(fields) == "unrotated":
        defaults = defaults_of(config_class)
        fields |= {key: defaults[key] for key in UNROTATED_FIELDS if key in defaults}
        fields |= keys_read(config_class)
    with hf_attention.fields_as(name, fields):
        rule = layer_type_rule(config_class)
        attention = hf_attention.describe_attention(config_class, config, rule)
        fields |= hf_attention.with_attention({}, attention)


def add_names(config_class: Any, fields: dict[str, Any]) -> None:
    """Add the keys that the code of a type names, and the prefixes of the names of its classes."""
    name = config_class.model_type
    is_compared = "refused" not in fields.get("attention", {"refused": ""})
    if not is_compared and status_of(fields) in ("read", "ask"):
        named = hf_attention.named_keys(config_class, fields)
        fields["named"] = {key: x for key, x in named.items() if known_keys.is_rotary(key)}
    prefix = configuration.normalize_name(name)
    classes = {
        x for x in driver.class_names(config_class) if not x.lower().startswith("pretrained")
    }
    classes = {x for x in classes if not configuration.normalize_name(x).startswith(prefix)}
    suffix = "(?=Config|For[A-Z]|Model|PreTrained|Encoder|Decoder|$)"
    fields["classes"] = sorted({re.match(rf"\w+?{suffix}", x)[0] for x in classes})
    for key in ("named", "classes"):
        if not fields.get(key):
            fields.pop(key, None)


def page(model_types: dict[str, Any], version: str) -> str:
    """Return the page of the supported model types, and of the reasons why others are refused."""
    names: dict[str, list[str]] = {
        status: [] for status in ("read", "unrun", "refused", "text", "unrotated")
    }
    for name, fields in model_types.items():
        status = status_of(fields)
        if status == "ask":
            status = "unrun" if fields["ask"] == UNRUN else "refused"
        names[status].append(name)
    lists = {status: ", ".join(f"`{name}`" for name in names[status]) for status in names}
    rows = [
        f"| `{name}` | {model_types[name].get('ask') or model_types[name]['refused']} |"
        for name in names["refused"]
    ]
    compared: list[str] = []
    refused: dict[str, list[str]] = {}
    for name, fields in model_types.items():
        unknown = {"refused": fields.get("refused", "it was not compared")}
        attention = fields.get("attention", unknown)
        if "text" not in fields:
            reason = attention.get("refused")
            group = compared if reason is None else refused.setdefault(reason, [])
            group.append(f"`{name}`")
    return f"""# Models of Hugging Face

`RoPE.from_hf_config` makes the rotary embedding of a model from its `config.json`.
`RoPE.layers_from_hf_config` makes one for each layer, and None for layers that do not rotate.
Missing keys have the defaults of transformers {version}:

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

Vision models, such as DINOv3, Pixtral and the `vision_config` of Qwen2-VL, rotate by the row and
the column of a patch. Pass positions of two coordinates, `grid_positions((height, width))`, in the
order of the model's patches. DINOv3 uses the centres of patches from -1 to 1 instead, as the
example of `RoPE.from_hf_config` shows.

The lists below are measured: `.ci/write_models.py` runs each model of transformers with random
weights, and compares the scores of its queries and keys with the scores of a `RoPE`. From a
configuration of several models, the text model is read; for another part, pass that part. Keys that
the code of the type does not name are ignored. Keys that it names, and that may affect positions or
attention, are refused if their values were not compared.

## {len(names["read"])} types are read

{lists["read"]}.

## {len(names["unrun"])} types need a layout

The program cannot run these types alone. Pass `layout="half"` or `layout="interleaved"`, as in
their code: {lists["unrun"]}.

## {len(names["refused"])} types are refused

| model type | reason |
| --- | --- |
{chr(10).join(rows)}

## The attention of {len(compared)} types is read

`attention_layers` makes the attention of these types. The program passed the queries, keys and
values of the models to `AttentionLayer`, and compared the outputs. It used random weights of norms,
two lengths, padding, positions from 0 and from 5,000, changed windows and scales, and both values
of each flag that is not refused: {", ".join(compared)}.

The attention of the remaining types is refused:

| reason | model types |
| --- | --- |
{chr(10).join(f"| {reason} | {', '.join(refused[reason])} |" for reason in sorted(refused))}
"""


def status_of(fields: dict[str, Any]) -> str:
    """Return "read", or the field for which a type is not read."""
    statuses = ("refused", "unrotated", "ask", "text")
    return next((status for status in statuses if status in fields), "read")


def describe_type(config_class: Any, config: Any) -> dict[str, Any] | None:
    """Return the fields of the rotation of a type, None if the type is not written."""
    text = getattr(config, "text_config", None)
    if hasattr(text, "to_dict"):
        parts = {"text": text, "vision": getattr(config, "vision_config", None)}
        parts = {key: x.model_type for key, x in parts.items() if x and is_rotary(type(x))}
        return parts if "text" in parts else None
    name = config_class.model_type
    if name in REFUSED:
        return {"refused": REFUSED[name]}
    if not is_rotary(config_class):
        if hasattr(config, "num_attention_heads") and driver.model_classes(config):
            return {"unrotated": True}
        return None
    if config is None or name in COMPOSITE:
        return None
    catalog.models().pop(name, None)
    small = copy.deepcopy(config)
    driver.shrink(small)
    fields = defaults_of(config_class) | keys_read(config_class)
    try:
        fields = measure_rotation(small, fields)
        if fields.keys().isdisjoint(("bases", "rotates")) and not hasattr(config, "no_rope_layers"):
            fields.pop("types", None)
        if "windowless" in fields:
            fields["defaults"]["sliding_window"] = config_class.sliding_window
        if status_of(fields) == "read":
            check_defaults(config_class, fields)
    except driver.UndrivenError as error:
        # With a layout, `RoPE` would rotate by one coordinate.
        is_image = hasattr(small, "image_size")
        fields = {"refused": IMAGE_POSITIONS} if is_image else fields | {"ask": UNRUN}
        print(name, str(error)[:600].replace("\n", " // "), flush=True)
    finally:
        catalog.models().pop(name, None)
    has_keys = any("rope" in key or "rotary" in key for key in config.to_dict())
    return fields if has_keys or status_of(fields) in ("read", "unrotated") else None


def check_defaults(config_class: Any, fields: dict[str, Any]) -> None:
    """Check that an empty configuration has the defaults of transformers."""
    results: list[Any] = []
    for values in (config_dict(config_class), {}):
        catalog.models()[config_class.model_type] = fields
        config = {"model_type": config_class.model_type} | values
        try:
            results.append(RoPE.layers_from_hf_config(config, LENGTH))
        except (TypeError, ValueError) as error:
            results.append(str(error)[:200])
    if results[0] != results[1] and not any(isinstance(result, str) for result in results):
        message = f"its defaults differ from transformers: {fields}, {results}"
        raise AssertionError(message)


def is_rotary(config_class: Any) -> bool:
    """Return whether the code of the models of a configuration names rotation."""
    return bool(re.search("[Rr]otary|rope_|RoPE|Rope", driver.code_of(config_class)))


def ropes_of(config: Any, fields: dict[str, Any]) -> list[RoPE | None] | str:
    """Return the embeddings that follow from some fields, or the text of the error."""
    values = hf_attention.values_of(config)
    named = hf_attention.named_keys(type(config), fields)
    catalog.models()[values["model_type"]] = fields | {"named": named}
    try:
        return RoPE.layers_from_hf_config(values, LENGTH, feature_axis=-1, seq_axis=-2)
    except (ValueError, TypeError) as error:
        return str(error)


def is_equal(ropes: list[RoPE | None] | str, observed: list[Any]) -> bool:
    """Return whether embeddings give the observed scores in each layer."""
    if isinstance(ropes, str):
        return False
    for module, pairs, positions in observed:
        index = getattr(module, "layer_idx", None)
        if index is None:
            rope = next((rope for rope in ropes if rope is not None), None)
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


def measure_rotation(config: Any, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912
    """Return the fields for which the embeddings of a configuration give the observed scores."""
    name = config.model_type
    parameters = getattr(config, "rope_parameters", None) or {}
    is_axial = parameters.get("rope_type") == "axial"
    has_patches = hasattr(config, "image_size") or hasattr(config, "patch_size")
    nested = parameter_dicts(parameters)
    if any(x.get("partial_rotary_factor", 1) != 1 for x in nested):
        fields["share"] = True
    if "position_embedding_type" in driver.CHANGES.get(name, {}):
        # The code rotates only for some values.
        default = type(config).position_embedding_type or "absolute"
        fields |= {
            "optional": True,
            "defaults": fields["defaults"] | {"position_embedding_type": default},
        }
    ignored = [key for key in IGNORED if any(key in x for x in nested)]
    fields |= {"ignored": ignored} if ignored else {}
    reasons = []
    has_sections = any("mrope_section" in x for x in nested)
    counts = (2, 3) if is_axial else (2, 3, 0) if has_patches else (3,) if has_sections else (0,)
    for count in counts:
        try:
            observed = driver.observe(config, coordinates=count)
        except driver.UndrivenError as error:
            reasons.append(error)
            continue
        if not any(driver.rotates(pairs) for _, pairs, _ in observed):
            return {"unrotated": True}
        fields |= rotating_types(config, observed)
        options: list[dict[str, Any]] = [{}]
        if count and (is_axial or has_patches):
            options = [{"axial": axial} for axial in AXIAL if axial["coordinates"] == count]
        for option in options:
            for layout in LAYOUTS:
                candidate = fields | option | {"layout": layout}
                ropes = ropes_of(config, candidate)
                strided = candidate | {"sections": "strided"}
                if isinstance(ropes, str):
                    reasons.append(ropes)
                elif is_equal(ropes, observed):
                    return add_optional(config, candidate, ropes)
                elif is_equal(ropes_of(config, strided), observed):
                    return add_optional(config, strided, ropes)
                elif option and is_equal(ropes, [(m, x, p[::-1]) for m, x, p in observed]):
                    return {"refused": COLUMNS_FIRST}
    if name in ASK:
        return fields | {"ask": ASK[name]}
    if reasons and all(isinstance(reason, driver.UndrivenError) for reason in reasons):
        raise reasons[0]
    texts = [reason.rstrip(".") for reason in reasons if isinstance(reason, str)]
    reason = texts[0] if texts else NOT_FOUND
    unknown = re.match(r"the rotary parameters .*must be of \[.*\], got '(\w+)'", reason)
    unknown = unknown or re.match(r"`([\w.]+)` is not known of", reason)
    return {"refused": f"its code reads `{unknown[1]}`" if unknown else reason}


def rotating_types(config: Any, observed: list[Any]) -> dict[str, Any]:
    """Return the fields for the types of layers that rotate, if not all types do."""
    types = getattr(config, "layer_types", None)
    if not types:
        return {}
    if not any(hasattr(module, "layer_idx") for module, *_ in observed):
        rotating = {name for name in types if "attention" in name and "linear" not in name}
        return {} if set(types) == {"full_attention"} else {"rotates": sorted(rotating)}
    by_type: dict[str, set[bool]] = {name: set() for name in types}
    for module, pairs, _ in observed:
        index = getattr(module, "layer_idx", None)
        if index is not None:
            by_type[types[index]].add(driver.rotates(pairs))
    usual = {"attention", "chunked_attention", "full_attention", "sliding_attention"}
    rotating = {name for name, flags in by_type.items() if True in flags}
    if "attention" in rotating:
        rotating = rotating - {"attention"} | {"full_attention"}
    if rotating == set(types) and rotating <= usual:
        return {}
    if hasattr(config, "no_rope_layers") or any(len(flags) > 1 for flags in by_type.values()):
        return {} if rotating <= usual else {"rotates": sorted(rotating)}
    fields: dict[str, Any] = {"rotates": sorted(rotating)}
    if getattr(config, "sliding_window", None) is not None and "full_attention" in types:
        other = copy.deepcopy(config)
        with suppress(Exception):  # some types require a window
            other.sliding_window = None
            other.layer_types = ["full_attention"] * len(types)
            is_rotating = any(driver.rotates(pairs) for _, pairs, _ in driver.observe(other))
            fields["windowless"] = ["full_attention"] * is_rotating
    return fields


def add_optional(config: Any, fields: dict[str, Any], ropes: list[RoPE | None]) -> dict[str, Any]:
    """Return the fields, with the fields for optional keys that the code of a model reads."""
    name = config.model_type
    if name in ASK:
        return {key: value for key, value in fields.items() if key != "layout"} | {"ask": ASK[name]}
    parameters = getattr(config, "rope_parameters", None) or {}
    if "axial" not in fields and parameters:
        other = copy.deepcopy(config)
        for nested in parameter_dicts(other.rope_parameters):
            nested["partial_rotary_factor"] = 0.5
        with suppress(driver.UndrivenError):
            candidate = fields | {"share": True}
            observed, partial = driver.observe(other), ropes_of(other, candidate)
            if partial != ropes and is_equal(partial, observed):
                fields = candidate
    if driver.has_sections(config) and not {"axial", "sections"} & fields.keys():
        fields = fields | {"sections": order_of_sections(config, fields)}
    if hasattr(config, "rope_interleave"):
        other = copy.deepcopy(config)
        other.rope_interleave = not config.rope_interleave
        candidate = fields | {"interleave": True}
        with suppress(driver.UndrivenError):
            if is_equal(ropes_of(other, candidate), driver.observe(other)):
                fields = candidate
    if getattr(config, "layer_rope_theta", None):
        other = copy.deepcopy(config)
        other.layer_rope_theta = [
            base and 500.0 + i for i, base in enumerate(config.layer_rope_theta)
        ]
        candidate = fields | {"layer_bases": True}
        if is_equal(ropes_of(other, candidate), driver.observe(other)):
            fields = candidate
    return fields


def order_of_sections(config: Any, fields: dict[str, Any]) -> str:
    """Return the order of sections that gives the scores of three coordinates."""
    for order in get_args(SectionOrder):
        other = copy.deepcopy(config)
        for nested in parameter_dicts(other.rope_parameters):
            first, *sections = driver.sections_of(config, nested)
            sections.insert(len(sections) if order == "first_last" else 0, first)
            nested["mrope_section"] = sections
            nested.pop("mrope_interleaved", None)
        with suppress(driver.UndrivenError):
            observed = driver.observe(other, coordinates=3)
            if is_equal(ropes_of(other, fields | {"sections": order}), observed):
                return order
    return "unknown"


# Defaults of configurations.


def config_dict(config_class: Any, **values: Any) -> dict[str, Any]:
    """Return the configuration that transformers makes of some values; empty if it raises."""
    with suppress(Exception):
        config = config_class(**values)
        return dict(config.to_dict()) | hf_attention.layers_without_mlp(config)
    return {}


def defaults_of(config_class: Any) -> dict[str, Any]:
    """Return the fields for the defaults of a class of configurations."""
    fields: dict[str, Any] = {}
    names = dict(getattr(config_class, "attribute_map", {})) | NAMES.get(
        config_class.model_type, {}
    )
    names = {name: names[name] for name in DEFAULT_KEYS if name in names}
    if names:
        fields["names"] = names
    values = driver.class_defaults(config_class)
    read = [name for name in DEFAULT_KEYS if name not in UNREAD.get(config_class.model_type, ())]
    defaults = {name: values.get(names.get(name), values.get(name)) for name in read}
    config = config_dict(config_class)
    parameters = config.get("rope_parameters") or {}
    nested = {key: x for key, x in parameters.items() if isinstance(x, dict)}
    if nested:
        fields |= bases_of(config_class, nested)
        if config_class.model_type in LAYER_SIZES:
            fields["layer_sizes"] = LAYER_SIZES[config_class.model_type]
        layers = config.get("per_layer_config") or {}
        sizes = {layer.get("head_dim") for layer in layers.values()} - {None}
        if len(sizes) == 1:
            defaults["global_head_dim"] = sizes.pop()
        defaults["rope_parameters"] = {
            key: None if x is None else without_usual(x, fields["bases"][key][0])
            for key, x in parameters.items()
        }
    elif parameters:
        defaults |= defaults_of_all_layers(config_class, parameters)
        if base_keys(config_class) == ["rotary_emb_base"]:
            fields["base_keys"] = ["rotary_emb_base"]
    else:
        defaults["rope_theta"] = values.get("rope_theta")
    count = defaults["num_hidden_layers"]
    defaults["num_hidden_layers"] = count and config.get("num_hidden_layers", count)
    flags = config.get("no_rope_layers") or []
    for interval in range(2, len(flags)):
        if flags == [int((i + 1) % interval != 0) for i in range(len(flags))]:
            defaults["no_rope_layer_interval"] = interval
    defaults = {key: value for key, value in defaults.items() if value not in (None, {})}
    if defaults.get("rope_theta") == 10_000:
        del defaults["rope_theta"]
    if defaults:
        fields["defaults"] = defaults
    rule = layer_type_rule(config_class)
    if rule:
        fields["types"] = rule
    return fields


def defaults_of_all_layers(config_class: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of keys that rotary parameters lack, and the default parameters."""
    kind = "axial" if parameters.get("rope_type") == "axial" else "default"
    config = config_dict(config_class, rope_parameters={"rope_type": kind})
    usual = config.get("rope_parameters") or {}
    defaults = {key: usual.get(key) for key in ("rope_theta", "partial_rotary_factor")}
    specific = without_usual(parameters, None)
    specific = {key: x for key, x in specific.items() if defaults.get(key) != x}
    specific.pop("rope_theta", None)
    if not base_keys(config_class):
        specific["rope_theta"] = parameters["rope_theta"]
    return defaults | {"rope_parameters": specific}


def base_keys(config_class: Any) -> list[str]:
    """Return the keys that set the base of a configuration without rotary parameters."""
    keys = []
    for key in ("rotary_emb_base", "rope_theta"):
        parameters = config_dict(config_class, **{key: 777.0}).get("rope_parameters") or {}
        keys += [key] * (parameters.get("rope_theta") == 777)
    return keys


def without_usual(parameters: dict[str, Any], base: float | None) -> dict[str, Any]:
    """Return rotary parameters without default values."""
    return {
        key: value
        for key, value in parameters.items()
        if value is not None
        and (key, value)
        not in (("rope_type", "default"), ("rope_theta", base), ("partial_rotary_factor", 1.0))
    }


def bases_of(config_class: Any, nested: dict[str, Any]) -> dict[str, Any]:
    """Return the default base of each type of layers, and the keys that set it."""

    def parameters_with(**values: Any) -> dict[str, Any]:
        parameters = config_dict(config_class, **values).get("rope_parameters") or {}
        return {key: parameters.get(key) or {} for key in nested}

    bases: dict[str, Any] = {key: [x.get("rope_theta")] for key, x in nested.items()}
    if config_class.model_type == "mimo_v2_flash":  # the key of published configurations
        bases["sliding_attention"].append("swa_rope_theta")
    for name in BASES:
        parameters = parameters_with(**{name: 777.0})
        for key, base in bases.items():
            if parameters[key].get("rope_theta") == 777:
                base.append(name)
    parameters = parameters_with(rope_parameters={key: {"rope_type": "default"} for key in nested})
    for key, base in bases.items():
        base[0] = parameters[key].get("rope_theta") or base[0]
    parameters = parameters_with(rope_scaling={"rope_type": "linear", "factor": 7.0})
    scaled = sorted(key for key in nested if parameters[key].get("factor") == 7)
    return {"bases": bases} | ({"scaled": scaled} if scaled else {})


def layer_type_rule(config_class: Any) -> dict[str, Any] | None:
    """Return the rule for the types of layers of a configuration without a list, None if none."""
    lengths = (7, 8, 12, 13, 24, 31)
    lists = [layer_types(config_class, num_hidden_layers=n) for n in lengths]
    if not all(lists) or any(len(types) != n for types, n in zip(lists, lengths, strict=True)):
        return None
    rules = (rule for rule in candidate_rules(lists[-1]) if all(matches(rule, x) for x in lists))
    rule = next(rules, None)
    if rule is None or len(set(lists[-1])) == 1:
        return rule
    source = Path(inspect.getfile(config_class)).read_text()
    names = set(re.findall(r"\w*(?:pattern|interval|every|period|offset|group_size)\w*", source))
    for field, step in (("period", 1), ("offset", -1)):
        changed = rule | {field: rule[field] + step}
        for name in sorted(names):
            types = layer_types(config_class, **{name: changed[field]}, num_hidden_layers=24)
            if types and matches(changed, types):
                rule = rule | {f"{field}_key": name}
                break
    flags = [1, 0, 0, 1] * 6
    types = layer_types(config_class, no_rope_layers=flags, num_hidden_layers=24)
    if types == [rule["other_type" if flag else "type"] for flag in flags]:
        return rule | {"flags_key": "no_rope_layers"}
    return rule


def layer_types(config_class: Any, **values: Any) -> list[str]:
    """Return the types of layers that transformers makes of some values; empty if none."""
    with suppress(Exception):
        return list(config_class(**values).layer_types)
    return []


def candidate_rules(types: list[str]) -> Iterator[dict[str, Any]]:
    """Yield rules that may give some types of layers."""
    for period in range(1, 9):
        for offset in range(-1, period - 1):
            kind, other = types[offset % period], types[(offset + 1) % period]
            rule = {"period": period, "offset": offset, "type": kind, "other_type": other}
            yield rule
            yield rule | {"last_type": types[-1]}


def matches(rule: dict[str, Any], types: list[str]) -> bool:
    """Return whether a rule gives some types of layers."""
    period, offset = rule["period"], rule["offset"] % rule["period"]
    expected = [rule["type" if i % period == offset else "other_type"] for i in range(len(types))]
    return types == [*expected[:-1], rule.get("last_type", expected[-1])]


if __name__ == "__main__":
    main(sys.argv[1:])
