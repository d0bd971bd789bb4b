"""Learned tables of relative positions, for attention scores and biases."""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from positional_embeddings import _checks
from positional_embeddings._namespace import Array, Device, Dtype, Namespace, namespace_of
from positional_embeddings._weights import WeightedLayer, looked_up, normal, set_weights, weight
from positional_embeddings.relative import bucket_index, check_buckets, distances


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

    max_distance: int
    embedding_size: int
    _: KW_ONLY
    init_std: float = 0.02
    rng: Any = field(default=None, compare=False)
    embeddings: Any = weight()
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    def __post_init__(
        self, xp: Namespace | None, dtype: Dtype | None, device: Device | None
    ) -> None:
        max_distance = _checks.positive_integer(
            "max_distance", self.max_distance, most=_checks.MOST_IN_MEMORY
        )
        size = _checks.feature_count("embedding_size", self.embedding_size)
        init_std = _checks.positive_number("init_std", self.init_std)
        _checks.set_fields(self, max_distance=max_distance, embedding_size=size, init_std=init_std)
        shapes = {"embeddings": (2 * max_distance + 1, size)}
        set_weights(self, shapes, normal(init_std), xp, dtype, device)

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
        _checks.signed_integers("query_positions", relative, xp)
        most = self.max_distance
        clipped = xp.clip(relative, -most, most) + most
        return _features_third(looked_up("positions", clipped, self.embeddings, 0, xp), xp)


@dataclass(frozen=True, eq=False)
class T5Bias(WeightedLayer):
    """The relative bias of T5: a number for each head and bucket of distances.

    Immutable: `dataclasses.replace` gives a copy with another table.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    bidirectional : bool, default True
        Whether keys after a query have buckets of their own: True in an encoder,
        False in a decoder.
    num_buckets : int, default 32
        Number of buckets, at most 1024.
    max_distance : int, default 128
        Distance from which on all share the last bucket.
    init_std : float, default 0.02
        Standard deviation of the normal numbers that the table starts from.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the table where it is not given.
    embeddings : array, shape (num_buckets, num_heads), optional
        The table, as checkpoints have it.
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
        If a size is too small or `num_buckets` too large, or the table has the wrong shape.

    References
    ----------
    Raffel et al. (2020), T5, section 2.1.

    Examples
    --------
    >>> bias = T5Bias(8, bidirectional=False, rng=0)
    >>> bias(1, 10).shape  # one query after nine cached keys
    (1, 10, 8)
    """

    num_heads: int
    _: KW_ONLY
    bidirectional: bool = True
    num_buckets: int = 32
    max_distance: int = 128
    init_std: float = 0.02
    rng: Any = field(default=None, compare=False)
    embeddings: Any = weight()
    xp: InitVar[Namespace | None] = None
    dtype: InitVar[Dtype | None] = None
    device: InitVar[Device | None] = None

    def __post_init__(
        self, xp: Namespace | None, dtype: Dtype | None, device: Device | None
    ) -> None:
        num_heads = _checks.feature_count("num_heads", self.num_heads)
        init_std = _checks.positive_number("init_std", self.init_std)
        num_buckets, max_distance = check_buckets(
            self.bidirectional, self.num_buckets, self.max_distance
        )
        _checks.set_fields(
            self,
            num_heads=num_heads,
            num_buckets=num_buckets,
            max_distance=max_distance,
            init_std=init_std,
        )
        shapes = {"embeddings": (num_buckets, num_heads)}
        set_weights(self, shapes, normal(init_std), xp, dtype, device)

    def __call__(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        offset: int | None = None,
        query_positions: Array | None = None,
        key_positions: Array | None = None,
    ) -> Any:
        """Return the bias of each query, key and head.

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
        array, shape (query, key, heads) or (query, key, heads, batch)
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
        _checks.signed_integers("query_positions", relative, xp)
        index, buckets = bucket_index(
            relative,
            xp,
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        table = self.embeddings if buckets is None else xp.take(self.embeddings, buckets, axis=0)
        return _features_third(looked_up("positions", index, table, 0, xp), xp)


def _features_third(array: Any, xp: Namespace) -> Any:
    """Move the last axis next to those of query and key."""
    return xp.permute_dims(array, (0, 1, 3, 2)) if array.ndim == 4 else array
