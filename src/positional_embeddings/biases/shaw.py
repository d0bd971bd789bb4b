"""A learned vector for each relative position (Shaw et al., 2018)."""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field, normal, set_weights
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.namespace import Array, Device, Dtype, Namespace
from positional_embeddings.biases.bias import Bias, subtract_positions


@dataclass(frozen=True, eq=False)
class RelativePE(Bias):
    """A learned vector for each relative position, clipped to a maximum distance.

    Immutable: `dataclasses.replace` returns a copy with another table. It is a bias for attention
    if `embedding_size` is the number of heads. Otherwise it has the vectors of Shaw et al., to be
    multiplied with the queries.

    Parameters
    ----------
    max_distance : int
        Maximum distance, positive, at most 2**48. Larger distances share its vector, in each
        direction.
    embedding_size : int
        Number of features, positive, at most 2**20.
    init_std : float, default 0.02
        Standard deviation of the normal distribution from which the table is drawn.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the random table.
    embeddings : array, shape (2 * max_distance + 1, embedding_size), optional
        The table, in the order of key minus query; drawn if None.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (float32 if None) and device of a drawn table.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If a size is not positive, or the table has the wrong shape.

    References
    ----------
    Shaw et al. (2018), Self-Attention with Relative Position Representations, equation 3.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.asarray([[-1.0], [0.0], [1.0]])
    >>> RelativePE(1, 1, embeddings=table)(3)[:, :, 0]
    array([[ 0.,  1.,  1.],
           [-1.,  0.,  1.],
           [-1., -1.,  0.]])
    """

    max_distance: checks.AxisLength
    embedding_size: checks.FeatureCount
    _: KW_ONLY
    init_std: checks.PositiveNumber = 0.02
    rng: Any = field(default=None, compare=False)
    embeddings: Array = array_field(None)
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    _takes_integers = True

    def __post_init__(self, xp: Namespace, dtype: Dtype, device: Device) -> None:
        self._check_fields()
        shapes = {"embeddings": (2 * self.max_distance + 1, self.embedding_size)}
        set_weights(self, shapes, normal(self.init_std), xp, dtype, device)

    def _heads(self) -> int:
        return self.embedding_size

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        limit = self.max_distance
        rows = backend.clip(subtract_positions(query, key, backend), -limit, limit) + limit
        return backend.take_entries(self.embeddings, rows, 0)
