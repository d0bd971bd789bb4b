"""Relative positions: distances of queries and keys, and tables of them.

A relative position is key minus query: negative for keys that lie before.
"""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from positional_embeddings import _checks
from positional_embeddings._axes import query_and_key_positions
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    Namespace,
    default_integer,
    device_of,
    is_real_floating,
    namespace_of,
    namespace_or_numpy,
    present,
)
from positional_embeddings._weights import WeightedLayer, looked_up, normal, set_weights, weight


def relative_positions(query_positions: ArrayT, key_positions: Array, /) -> ArrayT:
    """Return the position of each key as seen from each query.

    Parameters
    ----------
    query_positions : array, shape (query,) or (query, batch)
        Integer or real positions of the queries.
    key_positions : array, shape (key,) or (key, batch)
        Integer or real positions of the keys.

    Returns
    -------
    array, shape (query, key) or (query, key, batch)
        Key minus query. Integers come as the library's default integer, so that
        unsigned ones do not wrap.

    Raises
    ------
    TypeError
        If an argument is not an array of numbers, or they come from different
        libraries.
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> relative_positions(np.arange(2, 4), np.arange(4))
    array([[-2, -1,  0,  1],
           [-3, -2, -1,  0]])
    """
    xp = namespace_of(query_positions=query_positions, key_positions=key_positions)
    query, key = (
        _signed(name, array, xp)
        for name, array in (("query_positions", query_positions), ("key_positions", key_positions))
    )
    if query.ndim != key.ndim or (
        query.ndim == 2 and not _checks.shapes_broadcast([query.shape[1:], key.shape[1:]])
    ):
        message = (
            "`key_positions` must have shape (key,), or (key, batch) with the batch of "
            f"`query_positions` {tuple(query.shape)}, got {tuple(key.shape)}."
        )
        raise ValueError(message)
    relative: ArrayT = key[None, ...] - query[:, None, ...]
    return relative


def relative_position_bucket(
    relative_position: ArrayT,
    /,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> ArrayT:
    r"""Return the bucket of T5 for each relative position.

    Half of the buckets hold one distance each, the others ranges that grow with the
    distance. Their limits are exact integers, so that the rounding of a logarithm
    moves no bucket.

    Parameters
    ----------
    relative_position : array of int
        Key minus query, of any shape.
    bidirectional : bool, default True
        Use the upper half of the buckets for keys behind the query. Otherwise all
        of these fall into bucket 0, with the query's own position.
    num_buckets : int, default 32
        Number of buckets; with `bidirectional` even and 4 or more, else 2 or more.
    max_distance : int, default 128
        Distance from which on all share the last bucket; above half of the buckets of
        a direction.

    Returns
    -------
    array of int
        Shape of `relative_position`, from 0 to `num_buckets` - 1.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `num_buckets` or `max_distance` is too small.

    References
    ----------
    Raffel et al. (2020), T5, section 2.1: beyond e exact buckets of n, distance d falls into
    :math:`e + \lfloor (n - e)\,\ln(d/e) / \ln(\mathrm{max\_distance}/e) \rfloor`.

    Examples
    --------
    >>> import numpy as np
    >>> relative_position_bucket(np.asarray([-200, -64, -8, -1, 0, 1, 64]))
    array([15, 14,  8,  1,  0, 17, 30])
    """
    xp = namespace_of(relative_position=relative_position)
    _checks.signed_integers("relative_position", relative_position, xp)
    limits, per_direction = _bucket_limits(bidirectional, num_buckets, max_distance)
    dtype = default_integer(xp, device_of(relative_position))
    position = xp.astype(relative_position, dtype, copy=False)
    zero = xp.zeros_like(position)
    distance = xp.abs(position) if bidirectional else xp.maximum(-position, zero)
    bucket = zero
    for limit in limits:
        bucket = bucket + xp.astype(distance >= limit, dtype)
    if bidirectional:
        bucket = bucket + per_direction * xp.astype(position > 0, dtype)
    found: ArrayT = bucket
    return found


def _bucket_limits(
    bidirectional: bool,  # noqa: FBT001 - checked here
    num_buckets: int,
    max_distance: int,
) -> tuple[list[int], int]:
    """Return the least distance of each bucket after the first, and their number."""
    bidirectional = _checks.boolean("bidirectional", bidirectional)
    num_buckets = _checks.positive_integer("num_buckets", num_buckets, even=bidirectional)
    per_direction = num_buckets // 2 if bidirectional else num_buckets
    if per_direction < 2:
        message = f"`num_buckets` must be {4 if bidirectional else 2} or more, got {num_buckets}."
        raise ValueError(message)
    exact = per_direction // 2
    max_distance = _checks.positive_integer("max_distance", max_distance)
    if max_distance <= exact:
        message = f"`max_distance` must be above {exact}, half of the buckets, got {max_distance}."
        raise ValueError(message)
    wide = per_direction - exact
    limits = list(range(1, exact + 1))
    for step in range(1, wide):
        # The least d with (d / exact) ** wide >= (max_distance / exact) ** step.
        least = exact
        while least**wide < exact ** (wide - step) * max_distance**step:
            least += 1
        limits.append(least)
    return limits, per_direction


@dataclass(frozen=True, eq=False)
class RelativePE(WeightedLayer):
    """A learned vector for each relative position, clipped at a distance.

    Immutable: `dataclasses.replace` gives a copy with another table. With as many
    features as heads it is a bias for attention; otherwise the vectors of Shaw et al.,
    to be multiplied with the queries.

    Parameters
    ----------
    max_distance : int
        Distance beyond which all share a vector, positive.
    embedding_size : int
        Number of features, positive.
    init_std : float, default 0.02
        Standard deviation of the normal numbers that the table starts from.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the table where it is not given.
    embeddings : array, shape (2 * max_distance + 1, embedding_size), optional
        The table, from the farthest key before to the farthest key behind.
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
        max_distance = _checks.positive_integer("max_distance", self.max_distance)
        size = _checks.positive_integer("embedding_size", self.embedding_size)
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
            Integer or real positions of the queries.
        key_positions : array, shape (key,) or (key, batch), optional
            Integer or real positions of the keys, those of the queries where it is None.

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
        return features_third(looked_up("positions", clipped, self.embeddings, 0, xp), xp)


@dataclass(frozen=True, eq=False)
class T5Bias(WeightedLayer):
    """The relative bias of T5: a number for each head and bucket of distances.

    Immutable: `dataclasses.replace` gives a copy with another table.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive.
    bidirectional : bool, default True
        Whether keys behind a query have buckets of their own: True in an encoder,
        False in a decoder.
    num_buckets : int, default 32
        Number of buckets.
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
        If a size is too small, or the table has the wrong shape.

    References
    ----------
    Raffel et al. (2020), T5, section 2.1.

    Examples
    --------
    >>> bias = T5Bias(8, bidirectional=False, rng=0)
    >>> bias(1, 10).shape  # one query behind nine cached keys
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
        num_heads = _checks.positive_integer("num_heads", self.num_heads)
        init_std = _checks.positive_number("init_std", self.init_std)
        _bucket_limits(self.bidirectional, self.num_buckets, self.max_distance)
        num_buckets = _checks.positive_integer("num_buckets", self.num_buckets)
        max_distance = _checks.positive_integer("max_distance", self.max_distance)
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
            Integer or real positions of the queries.
        key_positions : array, shape (key,) or (key, batch), optional
            Integer or real positions of the keys, those of the queries where it is None.

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
        bucket = relative_position_bucket(
            relative,
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        return features_third(looked_up("positions", bucket, self.embeddings, 0, xp), xp)


def distances(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: Array | None,
    key_positions: Array | None,
    like: Array | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the relative positions of lengths or of positions, beside the array `like`."""
    query, key = both_positions(
        q_len, k_len, offset, query_positions, key_positions, like, xp=xp, device=device
    )
    return relative_positions(query, key)


def both_positions(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: Array | None,
    key_positions: Array | None,
    like: Array | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> tuple[Any, Any]:
    """Return the positions of queries and keys from what a caller gave of them."""
    if query_positions is not None:
        for name, value in (("q_len", q_len), ("k_len", k_len), ("offset", offset)):
            if value is not None:
                message = f"`{name}` must be left out with `query_positions`, got {value}."
                raise ValueError(message)
        key = query_positions if key_positions is None else key_positions
        namespace_of(query_positions=query_positions, key_positions=key, **present(like=like))
        return query_positions, key
    if key_positions is not None:
        message = "`query_positions` must be given with `key_positions`, got None."
        raise TypeError(message)
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    if like is not None:
        xp, device = namespace_of(like=like), device_of(like)
    xp = namespace_or_numpy(xp)
    return query_and_key_positions(("q_len", q_len), ("k_len", k_len), offset, xp, device)


def features_third(array: Any, xp: Namespace) -> Any:
    """Move the last axis behind those of query and key."""
    return xp.permute_dims(array, (0, 1, 3, 2)) if array.ndim == 4 else array


def _signed(name: str, array: Any, xp: Namespace) -> Any:
    """Check positions, and return integers as ones that may be negative."""
    _checks.real(name, array, xp)
    if array.ndim not in (1, 2):
        message = f"`{name}` must have shape (seq,) or (seq, batch), got {tuple(array.shape)}."
        raise ValueError(message)
    if is_real_floating(array.dtype, xp):
        return array
    return xp.astype(array, default_integer(xp, device_of(array)), copy=False)
