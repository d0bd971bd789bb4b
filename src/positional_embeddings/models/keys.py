"""Keys of Hugging Face configurations that have to do with positions, by what they mean."""

# Of two names, the first one counts: it is the one that the code of its models reads.
BASES = ("rotary_emb_base", "rope_theta", "rope_embedding_base")
SHARES = ("rotary_pct", "partial_rotary_factor", "rope_pct")
PARAMETERS = ("rope_scaling", "rope_parameters")
NUM_LAYERS, LENGTH = "num_hidden_layers", "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"

# What of rotation is read of every type, and what where the code of a type reads it, or nothing is
# known of the type.
READ_BY_ALL = ("rope_theta", "partial_rotary_factor", *PARAMETERS)
READ_BY_SOME = (
    *("qk_rope_head_dim", "head_dim", "kv_channels", "layer_rope_theta", "no_rope_layers"),
    *("no_rope_layer_interval", "rotary_emb_base", "rope_embedding_base", "rotary_pct"),
    *("rope_pct", "rotary_dim", "alibi", "num_attention_heads_per_layer"),
)
# Keys of the rotary parameters of all types; the others are the fields of the scaling.
COMMON = {
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"),
    *("mrope_interleaved", ORIGINAL, LENGTH),
}
# Dicts that are read elsewhere or not at all.
DICTS = (
    *(*PARAMETERS, "per_layer_config", "quantization_config", "vision_config", "audio_config"),
    "protein_encoder_config",
)
# What other formats of configurations call sizes.
OTHER_SIZES = {
    NUM_LAYERS: ("num_layers", "n_layers", "n_layer", "depth"),
    "hidden_size": ("hidden_dim", "d_model", "n_embd", "n_embed", "embed_dim", "dim"),
    "num_attention_heads": ("num_heads", "n_heads", "n_head", "attention_heads"),
}


def is_rotary(key: str) -> bool:
    """Tell whether a key is called like a part of rotation."""
    return any(part in key for part in ("rope", "rotary", "ntk"))
