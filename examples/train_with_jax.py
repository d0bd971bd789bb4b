"""Train a position encoding and a relative bias by gradient descent, with JAX.

Each sequence holds random tokens, and the task is to name, at each position, the token three
places before it. Attention alone cannot: without positions all orders of the tokens are one to
it. A `LearnedPE` is added to the tokens, a `T5Bias` to the scores, and both learn to tell which
key is three places away. Layers are pytrees: a dict of them is what `jax.grad` differentiates
by, and what it returns is a dict of layers that hold the gradients.

    pip install jax
    python examples/train_with_jax.py
"""

from typing import Any

import jax
import jax.numpy as jnp

from positional_embeddings import (
    CausalMask,
    LearnedPE,
    T5Bias,
    TokenEmbedding,
    scaled_dot_product_attention,
)

TOKENS, LENGTH, FEATURES, HEADS, BATCH = 8, 24, 16, 2, 32
BACK = 3
STEPS, RATE = 140, 0.02


def make_layers() -> dict[str, Any]:
    """Return the layers of the model, with weights that JAX holds."""
    return {
        "tokens": TokenEmbedding(TOKENS, FEATURES, init_std=0.5, rng=0, xp=jnp),
        "positions": LearnedPE(FEATURES, LENGTH, rng=1, xp=jnp),
        "bias": T5Bias(HEADS, bidirectional=False, rng=2, xp=jnp),
    }


def predict(layers: dict[str, Any], tokens: jax.Array) -> jax.Array:
    """Return a score for each token of the vocabulary, (vocabulary, LENGTH, BATCH)."""
    values = layers["tokens"](tokens)
    x = layers["positions"](values)
    q, v = (jnp.reshape(a, (HEADS, -1, *a.shape[1:])) for a in (x, values))
    q, v = (jnp.permute_dims(a, (1, 2, 0, 3)) for a in (q, v))  # (head, seq, heads, batch)
    axes = {"feature_axis": 0, "seq_axis": 1}
    found = scaled_dot_product_attention(q, q, v, mask=CausalMask(), bias=layers["bias"], **axes)
    found = jnp.reshape(jnp.permute_dims(found, (2, 0, 1, 3)), values.shape)
    return jnp.tensordot(layers["tokens"].embeddings.T, found, axes=1)


def loss(layers: dict[str, Any], tokens: jax.Array) -> jax.Array:
    """Return how surprising the tokens three places before are, in nats."""
    log_probability = jax.nn.log_softmax(predict(layers, tokens), axis=0)
    wanted = jnp.take_along_axis(log_probability[:, BACK:], tokens[None, :-BACK], axis=0)
    return -jnp.mean(wanted)


@jax.jit
def step(layers: dict[str, Any], momentum: dict[str, Any], tokens: jax.Array) -> Any:
    """Return the layers and the momentum after a step of gradient descent, and the loss."""
    value, gradient = jax.value_and_grad(loss)(layers, tokens)
    # The sign of the momentum: large and small gradients move a weight as far.
    momentum = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, momentum, gradient)
    layers = jax.tree.map(lambda weight, m: weight - RATE * jnp.sign(m), layers, momentum)
    return layers, momentum, value


def main() -> None:
    """Train, and print the loss."""
    layers = make_layers()
    momentum = jax.tree.map(jnp.zeros_like, layers)
    print(f"Guessing: {jnp.log(TOKENS):.3f}")
    for i in range(STEPS):
        tokens = jax.random.randint(jax.random.key(i), (LENGTH, BATCH), 0, TOKENS)
        layers, momentum, value = step(layers, momentum, tokens)
        if i % 20 == 0 or i == STEPS - 1:
            print(f"step {i:3d}  loss {value:.3f}")
    distances = layers["bias"](1, LENGTH)[0, ::-1, :]  # of one query to each key before it
    print(f"The bias is largest {int(jnp.argmax(jnp.max(distances, axis=1)))} places before.")


if __name__ == "__main__":
    main()
