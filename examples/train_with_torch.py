"""Train a learned encoding, a relative bias and an embedding with PyTorch's optimizer.

Each query has to recall the token three places before it. The parameters are registered with
a `torch.nn.Module` as any others; the layers of this library hold the same tensors, so that
`optimizer.step()`, `load_state_dict` and `to(device)` reach them. (Where a tool swaps the
parameters of a module, as `torch.func.functional_call` does, make the layers in `forward`: that
takes microseconds.)

    pip install torch
    python examples/train_with_torch.py

Prints the loss every 10 steps, and how the attention of the last query came to look back.
"""

import sys

import torch

from positional_embeddings import (
    CausalMask,
    LearnedPE,
    T5Bias,
    TokenEmbedding,
    attention_weights,
    scaled_dot_product_attention,
)

VOCABULARY, FEATURES, LENGTH, BATCH = 16, 32, 24, 32
BACK = 3  # how many places before a query its answer is
STEPS = 60


class Recall(torch.nn.Module):
    """One attention over embedded tokens, whose bias and encodings are learned."""

    def __init__(self) -> None:
        super().__init__()
        tokens = TokenEmbedding(VOCABULARY, FEATURES, init_std=0.5, rng=0, xp=torch).embeddings
        places = LearnedPE(FEATURES, LENGTH, rng=1, xp=torch).embeddings
        self.tokens = torch.nn.Parameter(tokens)  # (feature, token)
        self.places = torch.nn.Parameter(places)  # (feature, position)
        self.by_distance = torch.nn.Parameter(torch.zeros(32, 1))  # (bucket, head)
        # The layers keep these very tensors.
        self.embed = TokenEmbedding(VOCABULARY, FEATURES, embeddings=self.tokens)
        self.encode = LearnedPE(FEATURES, LENGTH, embeddings=self.places)
        self.bias = T5Bias(1, bidirectional=False, embeddings=self.by_distance)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return scores (seq, batch, token) of the tokens that `ids` (seq, batch) ask for."""
        x = self.embed(ids)  # (feature, seq, batch)
        placed = self.encode(x)
        found = scaled_dot_product_attention(placed, placed, x, mask=CausalMask(), bias=self.bias)
        return torch.tensordot(found, self.tokens, dims=([0], [0]))

    def looks_back(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the weights with which the last query sees each distance, 0 first."""
        placed = self.encode(self.embed(ids))
        weights = attention_weights(placed, placed, mask=CausalMask(), bias=self.bias)
        return weights[-1, :, :].mean(dim=1).flip(0)


def train(steps: int = STEPS) -> tuple[Recall, list[float]]:
    """Return the trained model, and its loss before each step."""
    torch.manual_seed(0)
    model = Recall()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        ids = torch.randint(0, VOCABULARY, (LENGTH, BATCH))
        scores = model(ids)[BACK:].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(scores, ids[:-BACK].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if step % 10 == 0 or step == steps - 1:
            print(f"step {step:>4}   loss {losses[-1]:.3f}")
    return model, losses


def main() -> int:
    """Run the example; return 0 if the loss fell to a tenth."""
    model, losses = train()
    with torch.inference_mode():
        weights = model.looks_back(torch.randint(0, VOCABULARY, (LENGTH, BATCH)))
    print("\nThe last query looks back by  0     1     2     3     4     5")
    print("with the weights         " + "".join(f"{weight:6.2f}" for weight in weights[:6]))
    return int(not losses[-1] < losses[0] / 10)  # NaN fails too


if __name__ == "__main__":
    sys.exit(main())
