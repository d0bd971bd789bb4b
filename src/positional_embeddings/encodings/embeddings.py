"""Embeddings of tokens and of image patches, features first."""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from math import prod, sqrt
from typing import Annotated, Any

from positional_embeddings.arguments import checks, weights
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_value
from positional_embeddings.arrays.namespace import Array, ArrayT, Device, Dtype, Namespace

Size = int | tuple[int, int]


def _pair(name: str, size: Size) -> tuple[int, int]:
    """Return height and width; an integer is both."""
    if not isinstance(size, tuple | list):
        size = (size, size)
    if len(size) != 2:
        raise wrong_value(name, "be an integer or a pair (height, width)", format_value(size))
    height, width = (checks.feature_count(name, n) for n in size)
    return height, width


@dataclass(frozen=True, eq=False)
class TokenEmbedding(weights.ArrayDataclass):
    """A vector for each token of a vocabulary.

    Immutable: `dataclasses.replace` returns a copy with another table. Transpose the table of a
    checkpoint, (token, feature). The result is not scaled; Gemma and the first transformer multiply
    vectors by ``d_model**0.5``.

    Parameters
    ----------
    vocab_size : int
        Number of tokens, positive, at most 2**48.
    d_model : int
        Number of features, positive, at most 2**20.
    padding_idx : int, optional
        Token with a vector of zeros and no gradient.
    init_std : float, default 0.02
        Standard deviation of the normal distribution of a drawn table.
    rng : int or numpy.random.Generator, optional
        Seed or generator for drawing the table.
    embeddings : array, shape (d_model, vocab_size), optional
        The table, of any library; drawn if None. A `torch.nn.Parameter` is not copied, so that an
        optimizer can train it.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (float32 if None) and device of a drawn table.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size is not positive, `padding_idx` is out of range, or the table has the wrong shape.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> embed = TokenEmbedding(100, 8, padding_idx=0, rng=0)
    >>> vectors = embed(np.asarray([[5, 7], [5, 0]]))
    >>> vectors.shape, bool(vectors[:, 1, 1].any())
    ((8, 2, 2), False)
    """

    vocab_size: checks.AxisLength
    d_model: checks.FeatureCount
    _: KW_ONLY
    padding_idx: int | None = None
    init_std: checks.PositiveNumber = 0.02
    rng: Any = field(default=None, compare=False)
    embeddings: Array = weights.array_field(None)
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    def __post_init__(self, xp: Namespace, dtype: Dtype, device: Device) -> None:
        self._check_fields()
        shape = (self.d_model, self.vocab_size)
        weights.set_padded_table(self, shape, weights.normal(self.init_std), xp, dtype, device)

    def __call__(self, ids: ArrayT, /) -> ArrayT:
        """Return the vectors of tokens.

        Parameters
        ----------
        ids : array of int
            Tokens from 0 to `vocab_size` - 1, of any shape, of the library of the table.

        Returns
        -------
        array, shape (d_model, *ids.shape)
            Their vectors, in the dtype of the table.

        Raises
        ------
        TypeError
            If `ids` are not integers, or not of the library of the table.
        ValueError
            If a token is out of range. On a GPU, and in lazy or traced arrays, the vector of such a
            token is NaN instead.
        """
        backend = get_backend(ids=ids, embeddings=self.embeddings)
        table, padding_idx = self.embeddings, self.padding_idx
        vectors: ArrayT = weights.embedding_lookup("ids", ids, table, backend, padding_idx)
        return vectors


@dataclass(frozen=True, eq=False)
class PatchEmbedding(weights.ArrayDataclass):
    """A vector for each patch of an image: a convolution with a stride of the kernel size.

    Immutable: `dataclasses.replace` returns a copy with other weights.

    Parameters
    ----------
    image_size : int or tuple of int
        Height and width of an image, positive, at most 2**20; an int is both.
    patch_size : int or tuple of int
        Height and width of a patch, which divide the size of the image.
    num_channels, d_model : int
        Numbers of channels and of features, positive, at most 2**20.
    rng : int or numpy.random.Generator, optional
        Seed or generator for drawing the kernel from a normal distribution, with variance 1 over
        the number of elements of a patch. The bias is zero.
    kernel : array, shape (d_model, num_channels, patch height, patch width), optional
        Weights of the projection, in the layout of a two-dimensional convolution.
    bias : array, shape (d_model,), optional
        Bias of the projection.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (float32 if None) and device of drawn weights.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size is not positive or does not divide another, or a weight has a wrong shape.

    References
    ----------
    Dosovitskiy et al. (2021), An Image is Worth 16x16 Words, equation 1.

    Examples
    --------
    >>> import numpy as np
    >>> embed = PatchEmbedding(32, (8, 16), num_channels=3, d_model=64, rng=0)
    >>> embed(np.zeros((3, 32, 32, 5))).shape
    (64, 8, 5)
    """

    image_size: Annotated[Size, _pair]
    patch_size: Annotated[Size, _pair]
    num_channels: checks.FeatureCount
    d_model: checks.FeatureCount
    _: KW_ONLY
    rng: Any = field(default=None, compare=False)
    kernel: Array = weights.array_field(None)
    bias: Array = weights.array_field(None)
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    def __post_init__(self, xp: Namespace, dtype: Dtype, device: Device) -> None:
        self._check_fields()
        image, patch = self._sizes
        if image[0] % patch[0] or image[1] % patch[1]:
            raise wrong_value("image_size", f"be a multiple of `patch_size` = {patch}", image)
        std = 1 / sqrt(self.num_channels * prod(patch))

        def draw(generator: Any, shape: tuple[int, ...]) -> Array:
            return generator.standard_normal(shape) * (std if len(shape) > 1 else 0.0)

        shapes = {"kernel": (self.d_model, self.num_channels, *patch), "bias": (self.d_model,)}
        weights.set_weights(self, shapes, draw, xp, dtype, device)

    @property
    def num_patches(self) -> int:
        """Number of patches of an image."""
        image, patch = self._sizes
        return (image[0] // patch[0]) * (image[1] // patch[1])

    def __call__(self, images: ArrayT, /) -> ArrayT:
        """Return the vectors of the patches of images.

        Parameters
        ----------
        images : array, shape (num_channels, height, width, batch)
            Real floating-point numbers, of the library of the weights.

        Returns
        -------
        array, shape (d_model, patches, batch)
            Vectors of the patches, row by row, in the dtype of `images`. Half precision is computed
            in float32.

        Raises
        ------
        TypeError
            If `images` is not real floating-point, or not of the library of the weights.
        ValueError
            If `images` has the wrong shape.
        """
        backend = get_backend(images=images, kernel=self.kernel, bias=self.bias)
        xp = backend.xp
        checks.real_floating(xp, images=images)
        (height, width), patch = self._sizes
        if images.ndim != 4 or tuple(images.shape[:3]) != (self.num_channels, height, width):
            requirement = f"have shape ({self.num_channels}, {height}, {width}, batch)"
            raise wrong_value("images", requirement, tuple(images.shape))
        dtype = xp.result_type(backend.dtype, dtypes.compute_dtype(self.kernel.dtype, xp))
        arrays = self.kernel, self.bias, images
        with backend.compute_context(images):
            kernel, bias, upcast = (backend.astype(array, dtype) for array in arrays)
        rows, columns, batch = height // patch[0], width // patch[1], images.shape[3]
        split = (self.num_channels, rows, patch[0], columns, patch[1], batch)
        patches = xp.permute_dims(xp.reshape(upcast, split), (0, 2, 4, 1, 3, 5))
        elements = self.num_channels * prod(patch)
        flat = xp.reshape(patches, (elements, rows * columns, batch))
        with backend.compute_context(flat):
            projected = xp.tensordot(xp.reshape(kernel, (self.d_model, elements)), flat, axes=1)
            embedded: ArrayT = backend.astype(projected + bias[:, None, None], images.dtype)
        return embedded

    @property
    def _sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return _pair("image_size", self.image_size), _pair("patch_size", self.patch_size)
