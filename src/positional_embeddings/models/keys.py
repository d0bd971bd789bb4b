"""Keys of Hugging Face configurations for positions, by their meaning."""

# Of several names, the first has priority: the code of its models reads it.
BASES = ("rotary_emb_base", "rope_theta", "rope_embedding_base")
SHARES = ("rotary_pct", "partial_rotary_factor", "rope_pct")
PARAMETERS = ("rope_scaling", "rope_parameters")
NUM_LAYERS, LENGTH = "num_hidden_layers", "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"

# Rotary keys that all types read; keys that some types, and all unknown types, read.
READ_BY_ALL = ("rope_theta", "partial_rotary_factor", *PARAMETERS)
READ_BY_SOME = (
    *("qk_rope_head_dim", "head_dim", "kv_channels", "layer_rope_theta", "no_rope_layers"),
    *("no_rope_layer_interval", "rotary_emb_base", "rope_embedding_base", "rotary_pct"),
    *("rope_pct", "rotary_dim", "alibi", "num_attention_heads_per_layer"),
)
# Rotary parameters of all types; further ones are the fields of the scaling.
COMMON = {
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"),
    *("mrope_interleaved", ORIGINAL, LENGTH),
}
# Dicts without keys of the same model.
DICTS = (
    *(*PARAMETERS, "per_layer_config", "quantization_config", "vision_config", "audio_config"),
    "protein_encoder_config",
)
# Names of sizes in other formats of configurations.
OTHER_SIZES = {
    NUM_LAYERS: ("num_layers", "n_layers", "n_layer", "depth"),
    "hidden_size": ("hidden_dim", "d_model", "n_embd", "n_embed", "embed_dim", "dim"),
    "num_attention_heads": ("num_heads", "n_heads", "n_head", "attention_heads"),
}


def is_rotary(key: str) -> bool:
    """Return whether the name of a key denotes rotation."""
    return any(part in key for part in ("rope", "rotary", "ntk"))
