"""Adding a positional encoding to features, and its gradient."""

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Namespace


def add_positional_encoding(
    x: ArrayT,
    encoding: AnyArray,
    /,
    *,
    feature_axis: int | None = None,
    seq_axis: int | None = None,
) -> ArrayT:
    """Add an encoding to the features of each position.

    Parameters
    ----------
    x : array
        Real floating-point numbers, features on `feature_axis`, positions on `seq_axis`.
    encoding : array, shape (features, seq), or the shape of `x`
        The encoding, repeated along the further axes of `x`; or in the layout of `x`, with length 1
        on axes that broadcast. With two axes it is always (features, seq). The result of
        `LearnedPE.encoding` is in the layout of `x` and needs no axes.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `x`: 0 and 1 by default for arrays of at most three
        axes. They are required for more axes and an encoding of two axes.

    Returns
    -------
    array
        Shape and dtype of `x`. The sum for half precision is computed in float32.

    Raises
    ------
    TypeError
        If an argument is not an array of real floating-point numbers, or their libraries differ.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    add_positional_encoding_vjp : The gradient.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import sinusoidal_encoding
    >>> x = np.zeros((4, 3, 2))
    >>> add_positional_encoding(x, sinusoidal_encoding(np.arange(3), 4))[:, 1, 0].round(2)
    array([0.84, 0.54, 0.01, 1.  ])
    """
    backend = get_backend(x=x, encoding=encoding)
    checks.real_floating(backend.xp, x=x, encoding=encoding)
    feature, seq = _axes(feature_axis, seq_axis, x, encoding, "x")
    return add_upcast(x, _align_encoding(encoding, x, feature, seq, backend.xp), backend)


def add_positional_encoding_vjp(
    grad: ArrayT,
    encoding: AnyArray,
    /,
    *,
    feature_axis: int | None = None,
    seq_axis: int | None = None,
) -> tuple[ArrayT, AnyArray]:
    """Return the gradients of `add_positional_encoding` with respect to its arguments.

    Parameters
    ----------
    grad : array
        Gradient with respect to the result, in its shape.
    encoding : array, shape (features, seq), or the shape of `grad`
        The encoding that was added.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `grad`, as in `add_positional_encoding`.

    Returns
    -------
    grad_x : array
        `grad` itself.
    grad_encoding : array
        Sum of `grad` over the axes along which `encoding` was repeated, in the shape of `encoding`.

    Raises
    ------
    TypeError
        If an argument is not an array of real floating-point numbers, or their libraries differ.
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> grad = np.ones((4, 3, 2))
    >>> grad_x, grad_encoding = add_positional_encoding_vjp(grad, np.zeros((4, 3)))
    >>> bool(np.all(grad_encoding == 2))
    True
    """
    backend = get_backend(grad=grad, encoding=encoding)
    xp = backend.xp
    checks.real_floating(xp, grad=grad, encoding=encoding)
    feature, seq = _axes(feature_axis, seq_axis, grad, encoding, "grad")
    shape = _align_encoding(encoding, grad, feature, seq, xp).shape
    repeated = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    with backend.compute_context(grad):
        upcast = backend.astype(grad, backend.dtype)
        total = xp.sum(upcast, axis=repeated, keepdims=True) if repeated else upcast
        if encoding.ndim == 2:
            index = tuple(slice(None) if i in (feature, seq) else 0 for i in range(grad.ndim))
            total = total[index]
            total = total if feature < seq else xp.permute_dims(total, (1, 0))
        return grad, backend.astype(total, encoding.dtype)


def _axes(
    feature_axis: int | None, seq_axis: int | None, x: Array, encoding: Array, name: str
) -> tuple[int, int]:
    if encoding.ndim != 2 and feature_axis is seq_axis is None:
        feature_axis, seq_axis = 0, 1  # unused
    return axes.feature_and_seq_axis(feature_axis, seq_axis, x, name)


def _align_encoding(encoding: Array, x: Array, feature: int, seq: int, xp: Namespace) -> Array:
    """Return an encoding with the axes of `x`."""
    if encoding.ndim == 2:
        target = (x.shape[feature], x.shape[seq])
        checks.broadcasts("encoding", tuple(encoding.shape), target, "features, seq")
        return axes.expand_to_axes(encoding, [feature, seq], x.ndim, xp)
    checks.broadcasts("encoding", tuple(encoding.shape), tuple(x.shape), "as `x`")
    return encoding


def add_upcast(x: ArrayT, encoding: Array, backend: Backend) -> ArrayT:
    """Add in the compute dtype, float32 for half precision, and return the dtype of `x`."""
    with backend.compute_context(x):
        features, encoding = (backend.astype(a, backend.dtype) for a in (x, encoding))
        return backend.astype(features + encoding, x.dtype)  # type: ignore[no-any-return]
