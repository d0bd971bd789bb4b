import pickle

import numpy as np
import pytest

from positional_embeddings import PatchEmbedding, TokenEmbedding


def options_on(backend):
    return {
        "rng": 0,
        "xp": backend.xp,
        "device": backend.device,
        "dtype": getattr(backend.xp, backend.wide),
    }


@pytest.mark.parametrize("ids", [[3, 0, 3], [[1, 2], [4, 4]], [[[0]]], 3])
def test_tokens_are_looked_up(backend, ids):
    embed = TokenEmbedding(5, 4, padding_idx=4, **options_on(backend))
    table = backend.numpy(embed.embeddings)
    assert not table[:, 4].any()
    got = backend.numpy(embed(backend.array(np.asarray(ids))))
    np.testing.assert_array_equal(got, table[:, np.asarray(ids)])


@pytest.mark.library("torch")
def test_tokens_agree_with_torchs_embedding():
    import torch

    theirs = torch.nn.Embedding(10, 4, padding_idx=2)
    embed = TokenEmbedding(10, 4, padding_idx=2, embeddings=theirs.weight.detach().T)
    ids = torch.as_tensor([[1, 2, 3], [9, 2, 0]])
    torch.testing.assert_close(embed(ids).movedim(0, -1), theirs(ids))


def test_token_table_is_normal_and_seeded():
    embed = TokenEmbedding(1000, 64, init_std=0.1, rng=3)
    assert np.std(embed.embeddings) == pytest.approx(0.1, rel=0.02)
    assert embed == TokenEmbedding(1000, 64, init_std=0.1, rng=3)
    assert embed != TokenEmbedding(1000, 64, init_std=0.1, rng=4)
    assert eval(repr(embed)) == embed
    assert pickle.loads(pickle.dumps(embed)) == embed


def convolution(images, kernel, bias):
    """A convolution whose stride is its kernel, patch by patch."""
    _, _, high, wide = kernel.shape
    rows, columns = images.shape[1] // high, images.shape[2] // wide
    out = np.zeros((kernel.shape[0], rows * columns, images.shape[3]))
    for r in range(rows):
        for c in range(columns):
            patch = images[:, r * high : (r + 1) * high, c * wide : (c + 1) * wide]
            out[:, r * columns + c] = np.einsum("fchw,chwb->fb", kernel, patch) + bias[:, None]
    return out


@pytest.mark.parametrize(("image", "patch"), [(8, 4), ((4, 6), (2, 3)), ((6, 4), 2)])
def test_patches_are_a_convolution(backend, image, patch):
    rng = np.random.default_rng(0)
    drawn = PatchEmbedding(image, patch, 3, 5, **options_on(backend))
    bias = rng.standard_normal(5)
    embed = PatchEmbedding(image, patch, 3, 5, kernel=drawn.kernel, bias=backend.array(bias))
    height, width = embed.image_size
    images = rng.standard_normal((3, height, width, 2))
    got = backend.numpy(embed(backend.array(images)))
    assert got.shape == (5, embed.num_patches, 2)
    expected = convolution(images, backend.numpy(drawn.kernel), bias)
    np.testing.assert_allclose(got, expected, atol=10 * backend.tolerance())


@pytest.mark.library("torch")
def test_patches_agree_with_torchs_convolution():
    import torch

    theirs = torch.nn.Conv2d(3, 8, kernel_size=(4, 2), stride=(4, 2), dtype=torch.float64)
    embed = PatchEmbedding(
        (8, 6), (4, 2), 3, 8, kernel=theirs.weight.detach(), bias=theirs.bias.detach()
    )
    images = torch.rand((5, 3, 8, 6), dtype=torch.float64)
    ours = embed(images.movedim(0, -1)).movedim(-1, 0)
    torch.testing.assert_close(ours, theirs(images).flatten(2).detach(), atol=1e-12, rtol=0)


def test_half_precision_images(backend):
    embed = PatchEmbedding(4, 2, 1, 3, **options_on(backend))
    images = np.random.default_rng(0).standard_normal((1, 4, 4, 2))
    for dtype in backend.half_dtypes:
        half = backend.array(images, dtype)
        got = embed(half)
        assert got.dtype == dtype
        wide = embed(backend.xp.astype(half, getattr(backend.xp, backend.wide)))
        np.testing.assert_allclose(
            backend.numpy(got).astype("float64"), backend.numpy(wide), rtol=2**-7, atol=1e-2
        )


def test_patch_embedding_is_a_value():
    embed = PatchEmbedding(8, (2, 4), 3, 6, rng=2)
    assert eval(repr(embed)) == embed
    assert pickle.loads(pickle.dumps(embed)) == embed
    assert not embed.bias.any()
    assert np.std(embed.kernel) == pytest.approx(1 / np.sqrt(24), rel=0.15)
    assert embed != PatchEmbedding(8, (4, 2), 3, 6, rng=2)
