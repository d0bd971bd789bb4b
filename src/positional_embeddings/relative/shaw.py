"""A learned vector for each relative position (Shaw et al. 2018)."""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.checks import FeatureCount, LengthInMemory, PositiveNumber
from positional_embeddings._core.namespace import Array, Device, Dtype, Namespace, namespace_of
from positional_embeddings._core.weights import (
    WeightedLayer,
    embedding_lookup,
    normal,
    set_weights,
    weight,
)
from positional_embeddings.relative.positions import _features_third, distances


@dataclass(frozen=True, eq=False)
class RelativePE(WeightedLayer):
    """A learned vector for each relative position, clipped at a distance.

    Immutable: `dataclasses.replace` gives a copy with another table. With as many
    features as heads it is a bias for attention; otherwise the vectors of Shaw et al.,
    to be multiplied with the queries.

    Parameters
    ----------
    max_distance : int
        Distance beyond which all share a vector, positive, at most 2**48.
    embedding_size : int
        Number of features, positive, at most 2**20.
    init_std : float, default 0.02
        Standard deviation of the normal numbers that the table starts from.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the table where it is not given.
    embeddings : array, shape (2 * max_distance + 1, embedding_size), optional
        The table, from the farthest key before the query to the farthest after it.
    xp : namespace, optional
        Array library of a drawn table, NumPy where it is None.
    dtype : dtype, optional
        Real floating-point dtype of a drawn table, float32 where it is None.
    device : device, optional
        Device of a drawn table.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
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

    max_distance: LengthInMemory
    embedding_size: FeatureCount
    _: KW_ONLY
    init_std: PositiveNumber = 0.02
    rng: Any = field(default=None, compare=False)
    embeddings: Any = weight()
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    def __post_init__(
        self, xp: Namespace | None, dtype: Dtype | None, device: Device | None
    ) -> None:
        self.check_fields()
        shapes = {"embeddings": (2 * self.max_distance + 1, self.embedding_size)}
        set_weights(self, shapes, normal(self.init_std), xp, dtype, device)

    def __call__(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        offset: int | None = None,
        query_positions: Array | None = None,
        key_positions: Array | None = None,
    ) -> Any:
        """Return the vector of each query and key.

        Parameters
        ----------
        q_len : int, optional
            Number of queries, positive. Left out where `query_positions` are given.
        k_len : int, optional
            Number of keys, positive; as many as queries where it is None.
        offset : int, optional
            Position of the first query among the keys, ``k_len - q_len`` where it is
            None: the last query stands at the last key.
        query_positions : array, shape (query,) or (query, batch), optional
            Integer positions of the queries.
        key_positions : array, shape (key,) or (key, batch), optional
            Integer positions of the keys, those of the queries where it is None.

        Returns
        -------
        array, shape (query, key, embedding_size) or (query, key, embedding_size, batch)
            In the library and the dtype of the table.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a number is not positive, shapes do not fit, or both lengths and positions
            are given.
        """
        relative = distances(q_len, k_len, offset, query_positions, key_positions, self.embeddings)
        xp = namespace_of(relative=relative)
        checks.signed_integers("query_positions", relative, xp)
        most = self.max_distance
        clipped = xp.clip(relative, -most, most) + most
        return _features_third(embedding_lookup("positions", clipped, self.embeddings, 0, xp), xp)
