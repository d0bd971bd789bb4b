"""Dropout with any source of random numbers."""

from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import ArrayT, np


def dropout(x: ArrayT, /, rate: float, *, rng: Any = None) -> ArrayT:
    """Set random elements to zero, and scale up the remaining ones.

    Parameters
    ----------
    x : array
        Real floating-point numbers.
    rate : float
        Probability that an element is set to zero, 0 or more and below 1.
    rng : numpy.random.Generator, cupy.random.Generator or callable, optional
        Source of random numbers: a generator, or a function from a shape to an array of numbers in
        [0, 1), such as ``torch.rand``. If None, `x` is returned unchanged.

    Returns
    -------
    array
        Zeros, else ``x / (1 - rate)``, in the shape and dtype of `x`. The expected value is `x`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `rate` is out of range, or `rng` returns another shape.

    References
    ----------
    Srivastava et al. (2014), Dropout, section 10, in the inverted form.

    Examples
    --------
    >>> import numpy as np
    >>> dropout(np.ones(8), 0.5, rng=np.random.default_rng(0))
    array([2., 0., 0., 0., 2., 2., 2., 2.])
    >>> dropout(np.ones(3), 0.5)
    array([1., 1., 1.])
    """
    backend = get_backend(x=x)
    xp = backend.xp
    checks.real_floating(xp, x=x)
    rate = checks.rate("rate", rate)
    draw = getattr(rng, "random", rng)
    if not (rng is None or callable(draw)):
        raise wrong_type(
            "rng", "be a generator, or a function from a shape to numbers", format_value(rng)
        )
    if rng is None or rate == 0:
        return x
    samples = draw(tuple(x.shape))
    if isinstance(samples, np.ndarray):
        samples = xp.asarray(samples, dtype=backend.dtype, device=backend.device)
    get_backend(x=x, rng=samples)  # a check
    if tuple(samples.shape) != tuple(x.shape):
        raise wrong_value("rng", f"return the requested shape {tuple(x.shape)}", samples.shape)
    with backend.compute_context(x):
        scaled = backend.astype(x, backend.dtype) / (1 - rate)
        return backend.astype(xp.where(samples >= rate, scaled, 0), x.dtype)  # type: ignore[no-any-return]
