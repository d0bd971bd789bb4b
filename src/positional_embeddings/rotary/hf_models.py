"""How models of Hugging Face rotate, by `model_type`, if their configurations do not say it."""


def names(text: str) -> frozenset[str]:
    """Return the names that a text lists."""
    return frozenset(text.split())


# fmt: off
# Features i and i + n/2 form a pair.
HALF = names("""
    afmoe apertus arcee aria_text bamba bitnet csm cwm diffllama doge dots1 emu3_text_model esm
    esmc eurobert evolla exaone4 exaone_moe falcon falcon_h1 flex_olmo flint gemma gemma2
    gemma3_text gemma3n_text glm4_moe glm4v_moe_text glm_image_text gpt_neox gpt_neox_japanese
    gpt_oss gradium_phonon_tts granite granite4_vision_text granite_docling_text granitemoe
    granitemoehybrid granitemoeshared gte higgs_audio_v2 hrm_text hunyuan_v1_dense
    hunyuan_v1_moe hy_v3 hy_v4 hyperclovax jais2 jina_embeddings_v3 kolibri1 laguna lfm2
    lfm2_moe llama mellum mimi mimi_encoder mimo_v2_flash minicpm3 minimax minimax_m2 ministral
    mistral mixtral mllama_text_model modernbert modernbert-decoder moshi nemotron
    nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp
    nemotron3_diarization_audio neomme nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe
    paddleocr_vl_text persimmon phi phi3 phi4_multimodal phimoe pocket_tts
    pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_encoder qwen2 qwen2_5_omni_text
    qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_5_moe_text
    qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text
    recurrent_gemma seed_oss smollm3 solar_open stablelm starcoder2 ultrabert unlimited_ocr_text
    vaultgemma voxtral_realtime_encoder
""")

# Features 2i and 2i + 1 form a pair.
INTERLEAVED = names("""
    axk1 bailing_hybrid blt_global_transformer blt_patcher codegen cohere cohere2 cohere2_moe
    deepseek_v2 deepseek_v3 ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text glm glm4 glm4_moe_lite
    glm4v_text glm_moe_dsa glm_ocr_text gptj helium llama4_text longcat_flash
    openai_privacy_filter pe_audio_encoder youtu
""")

# Models with a layout that is known.
KNOWN = HALF | INTERLEAVED

# Models whose flag `rope_interleave`, if given, decides the layout; the others ignore it.
FLAGGED = names("axk1 deepseek_v3 glm4_moe_lite youtu")

# What to pass for models that one layout does not describe.
ADVICE = {
    "axk2": "pass layout='interleaved' for its attention, layout='half' for its indexer",
    "deepseek_v32": "pass layout='interleaved' for its attention, layout='half' for its indexer",
    "nanochat": "pass layout='half', and rotate by `rope(x, inverse=True)`: it rotates backwards",
}

# Models without a rotary embedding.
NO_ROTATION = names("""
    albert bart bert bloom clip_text_model deberta deberta-v2 distilbert electra gpt2
    gpt_bigcode gpt_neo inkling2_text inkling_text jamba kimi_linear m2m_100 marian mbart mpnet
    mpt mt5 nemotron_h opt pegasus roberta t5 umt5 whisper xglm xlm-roberta xlnet
""")

# Models with one only if `position_embedding_type` says so.
ROTATE_IF_SAID = names("esm granitemoehybrid")

# Models whose code has a default of its own for a key, which a configuration may leave out.
OWN = {
    "rope_theta": names("""
        apertus bailing_hybrid bitnet blt_global_transformer cohere csm cwm emu3_text_model ernie4_5
        ernie4_5_moe ernie4_5_vl_moe_text evolla flex_olmo gemma3_text gemma3n_text gpt_oss gte
        helium higgs_audio_v2 hy_v3 jina_embeddings_v3 laguna lfm2 lfm2_moe llama4_text
        longcat_flash mellum mimo_v2_flash minimax minimax_m2 mixtral mllama_text_model modernbert
        modernbert-decoder neomme nomic_bert olmo3 openai_privacy_filter paddleocr_vl_text
        pe_audio_encoder phimoe qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text
        qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text smollm3 solar_open ultrabert
    """),
    "partial_rotary_factor": names("""
        bamba glm glm4 glm4_moe glm4v_moe_text glm4v_text glm_image_text gpt_neox laguna
        mimo_v2_flash nemotron nemotron3_5_transcribe_asr_audio
        nemotron3_5_transcribe_word_timestamp neomme persimmon phi qwen3_5_moe_text qwen3_5_text
        qwen3_next recurrent_gemma stablelm
    """),
    "head_dim": names("""
        afmoe cohere2_moe cwm ernie4_5 flint gemma gemma2 gemma3_text gemma3n_text glm glm4 gpt_oss
        helium higgs_audio_v2 hrm_text hy_v3 kolibri1 laguna llama4_text mellum mimo_v2_flash
        minimax_m2 neomme openai_privacy_filter paddleocr_vl_text pe_audio_encoder qwen3
        qwen3_5_moe_text qwen3_5_text qwen3_next qwen3_vl_text seed_oss solar_open vaultgemma
        voxtral_realtime_encoder
    """),
    "qk_rope_head_dim": names("""
        axk1 bailing_hybrid deepseek_v2 deepseek_v3 glm4_moe_lite glm_moe_dsa hy_v4 longcat_flash
        minicpm3 youtu
    """),
    "rotary_dim": names("codegen gptj"),
    "rope_scaling": names("apertus cwm gpt_oss higgs_audio_v2 openai_privacy_filter"),
}

# Models that rotate the share of the features in their configuration; the others rotate all.
SHARE = OWN["partial_rotary_factor"] | names("""
    gpt_neox_japanese minimax_m2 nemotron3_diarization_audio phi3 phi4_multimodal
""")
ROTARY_DIM = SHARE | names("codegen gptj")

# Models with one embedding for each type of layer.
BY_LAYER = names("""
    gemma3_text gemma3n_text laguna mellum mimo_v2_flash modernbert modernbert-decoder neomme
    ultrabert
""")

# Models that extend layers of full attention only, where parameters are not by type of layer.
FULL_SCALED = names("olmo3")

# Models whose sections are strided if the configuration has no `mrope_interleaved`.
STRIDED = names("""
    qwen3_5_moe_text qwen3_5_text qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text
""")

# Models with sections in another order.
OTHER_SECTIONS = names("ernie4_5_vl_moe_text neomme")

# Models that rotate in all layers except layers of full attention.
FULL_WITHOUT = names("afmoe cohere2 cohere2_moe exaone4 exaone_moe flint kolibri1 llama4_text")


# fmt: on
