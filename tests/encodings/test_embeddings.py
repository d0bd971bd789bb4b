import copy
import pickle

import numpy as np
import pytest

from backends import peak_memory
from positional_embeddings import (
    ALiBiBias,
    KVCache,
    PatchEmbedding,
    RoPE,
    SegmentMask,
    TokenEmbedding,
)
from positional_embeddings.arguments.weights import embedding_lookup, truncated_normal
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.encodings.dropout import dropout


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
    """A convolution with a stride of the kernel size, patch by patch."""
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


def test_layers_are_equal_if_they_hold_the_same():
    table = np.asarray([[0.0, np.nan], [2.0, 3.0]])
    embed = TokenEmbedding(2, 2, embeddings=table)
    assert embed == TokenEmbedding(2, 2, embeddings=table.copy())
    for other in (np.asarray([[0.0, 1.0], [2.0, 3.0]]), np.full((2, 2), np.nan)):
        assert embed != TokenEmbedding(2, 2, embeddings=other)
        assert TokenEmbedding(2, 2, embeddings=other) != embed
    assert embed != TokenEmbedding(2, 2, embeddings=table.astype("float32"))
    # Arrays differ from other values, also as keys of a dict.
    one, two = SegmentMask([0, 0]), SegmentMask([0, 0], [0, 0])
    assert one != two
    assert two != one
    assert len({one, two, SegmentMask([0, 0], [0])}) == 3
    assert ALiBiBias(np.int64(2)) == ALiBiBias(2)


def test_copies_are_without_what_is_known_of_calls():
    sizes = {"num_kv_heads": 1, "head_size": 2, "feature_axis": 0, "seq_axis": 1}
    positions = (step := KVCache.empty(1, 1, 4, **sizes).step(1)[1]).of(0)
    step.update(0, *np.ones((2, 2, 1, 1, 1)))
    assert positions._plans
    for same in (copy.copy(positions), pickle.loads(pickle.dumps(positions))):
        assert same._plans == {}
    for layer in (TokenEmbedding(2, 3, rng=0), RoPE(4, 2)):
        assert vars(copy.copy(layer)).keys() == vars(layer).keys()


def test_an_array_is_drawn_beside_the_one_that_is_given(backend):
    kernel = backend.array(np.zeros((5, 3, 2, 2)))
    embed = PatchEmbedding(4, 2, 3, 5, kernel=kernel)
    array_backend = get_backend(kernel=kernel, bias=embed.bias)
    assert array_backend.single_device(embed.bias) == array_backend.single_device(kernel)
    assert embed.bias.dtype == kernel.dtype


def test_a_source_of_a_dropout_of_nothing_is_not_asked():
    x, rng = np.ones(3), np.random.default_rng(0)
    assert dropout(x, 0, rng=rng) is x
    assert rng.random() == np.random.default_rng(0).random()


def test_normal_numbers_are_drawn_again_beyond_two_deviations():
    class Drawn:
        def __init__(self):
            self.numbers = iter([2.0, -2.0, 2.5, -2.5, 3.0, 1.0, 0.5])

        def standard_normal(self, shape):
            return np.asarray([next(self.numbers) for _ in range(np.prod(shape))])

    np.testing.assert_array_equal(truncated_normal(0.5)(Drawn(), (4,)), [1, -1, 0.25, 0.5])


@pytest.mark.parametrize("size", [1, 5])
def test_columns_of_indices_out_of_range_are_nan_where_they_cannot_be_read(monkeypatch, size):
    monkeypatch.setattr(NumPyBackend, "is_compiling", True)
    table = np.arange(2.0 * size).reshape(2, size)
    got = embedding_lookup("ids", np.asarray([-1, 0, size - 1, size]), table, get_backend(x=table))
    np.testing.assert_array_equal(got, [[np.nan, *row[[0, -1]], np.nan] for row in table])


def test_layers_take_the_memory_of_a_few_results():
    def fraction(call, array):
        call()  # imports and caches
        return peak_memory(call) / array.nbytes

    x, ids, images = np.ones(10**5), np.zeros(10**5, dtype=int), np.ones((1, 400, 400, 1))
    assert fraction(lambda: dropout(x, 0.5, rng=np.random.default_rng(0)), x) < 3.5
    embed = TokenEmbedding(5, 1, rng=0)
    assert fraction(lambda: embed(ids), ids) < 0.9
    patches = PatchEmbedding(400, 1, 1, 4, rng=0, dtype=np.float64)
    assert fraction(lambda: patches(images), images) < 8.5
