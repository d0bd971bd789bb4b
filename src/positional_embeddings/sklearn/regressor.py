"""Attention as a regressor: means, and lines, of the samples that are near in a kernel."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from positional_embeddings._core import checks
from positional_embeddings._core.errors import kind_of, shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Namespace,
    default_integer,
    device_of,
    host,
    is_real_floating,
    namespace_of,
    widest_float,
)
from positional_embeddings.sklearn.columns import check_times, with_days
from positional_embeddings.sklearn.kernels import LOO, Factor, GaussianKernel, Kernel
from positional_embeddings.sklearn.smooth import Options, Samples, Smooth, Wanted, cut_factor

# The leave-one-out error is that of so many samples at most, drawn at random.
_MOST_LEFT_OUT = 2000

# A sample with more than this part of the weights around it is alone.
_ALONE = 1 - 1e-9

# Residuals with less than this part of the noise's square tell nothing of it.
_LEAST_SHARE = 1e-9

# Length scales that are tried, as factors of the first one, and of the best of these.
_COARSE = tuple(2.0**power for power in range(-7, 5))
_FINE = (2**-0.5, 2**0.5)
_LEAST_RATIO = 2.0**-24
_MUCH_LESS = 0.98
_ROUNDS = 2  # over the kernels of a product

_LEVERAGE = Wanted(leverage=True)


class AttentionRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Regression by attention: the mean of the samples, weighted by a kernel.

    Queries and keys are encodings of samples, values are what was measured, and nothing is
    trained but the widths of kernels: the estimator of Nadaraya and Watson, or a straight line
    fitted around each query. A sum of kernels gives a sum of smooth functions.

    Parameters
    ----------
    kernel : "gaussian" or Kernel, default "gaussian"
        Weight of a sample at a query: "gaussian" is ``GaussianKernel(length_scale)``. Kernels
        multiply and add: ``GaussianKernel(4.0) + PeriodicKernel(1.0, 0.02) *
        GaussianKernel(8.0)`` is a trend and a season that changes slowly.
    length_scale : float, sequence of float or "loo", default "loo"
        Width of the Gaussian kernel, in the unit of the columns: one number, or one for each
        column. "loo" takes the width of the least leave-one-out error, in the ratio of the
        columns' standard deviations. A kernel that is given has its own.
    local_linear : bool, default True
        Fit a line, or a plane, to the samples around a query, which follows slopes and edges;
        False takes their mean. Of Gaussian kernels; others always take the mean. Lines end some
        length scales beyond the samples, where only the last ones weigh anything: there the value
        of the nearest sample is returned. Planes take memory and time as the square of columns:
        take means of more than some ten.
    cutoff : float, optional
        Leave out samples that are farther from a query than so many length scales, but for the
        nearest ones: the time grows with the samples within reach. For kernels with a Gaussian
        kernel of one column. 6 leaves out weights below 1.6e-8.
    block_size : int, optional
        Queries and samples whose weights are computed at a time; chosen if None. All of them
        never exist together.
    max_iter : int, default 10
        Times that each function of a sum is smoothed from what the others leave over, at most.
    tol : float, default 1e-3
        A sum is done when no function changes by more than this part of the standard deviation
        of what was measured.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, its length scales being numbers.
    loo_error_ : array, shape (targets,) or ()
        Root of the mean square of the leave-one-out errors, of 2,000 samples at most, which are
        drawn at random, always the same ones.
    noise_std_ : array, shape (targets,) or ()
        Standard deviation of a measurement around the function, taken to be the same everywhere.
    n_iter_ : int
        Times that the functions of a sum were smoothed; `max_iter` if they did not settle.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    See Also
    --------
    PositionalEncoder : Encodings as columns, for other regressors.

    Notes
    -----
    Leaving a sample out changes its own prediction from :math:`\hat y_i` to one that misses
    :math:`y_i` by :math:`(y_i - \hat y_i) / (1 - S_{ii})`, where :math:`S_{ii}` is the weight of
    the sample in its own prediction. The noise is what residuals have of it, :math:`1 - 2 S_{ii} +
    \sum_j S_{ij}^2` of its square on average. For a sum of kernels both are approximate: the
    functions are taken one after the other, and their spreads to be independent.

    Weights of samples count repetitions: a sample of weight 2 is two samples, of which one is
    left out. A sample of a weight below 1 is left out as a whole, so that small weights may have
    any unit.

    The leave-one-out error is that among neighbours: a width that is chosen by it is too small for
    gaps that are wider. Give such gaps a kernel of their width.

    References
    ----------
    Nadaraya (1964), On estimating regression; Watson (1964), Smooth regression analysis. Hastie,
    Tibshirani and Friedman (2009), The Elements of Statistical Learning, 6.1 (local lines), 7.10
    (leaving one out) and 9.1 (backfitting).

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings.sklearn import AttentionRegressor
    >>> x = np.linspace(0, 10, 101)[:, None]
    >>> model = AttentionRegressor().fit(x, np.sin(x[:, 0]))
    >>> mean, std = model.predict([[1.0], [2.0]], return_std=True)
    >>> mean.round(2)
    array([0.84, 0.91])
    """

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        length_scale: Any = LOO,
        local_linear: bool = True,
        cutoff: float | None = None,
        block_size: int | None = None,
        max_iter: int = 10,
        tol: float = 1e-3,
    ) -> None:
        self.kernel = kernel
        self.length_scale = length_scale
        self.local_linear = local_linear
        self.cutoff = cutoff
        self.block_size = block_size
        self.max_iter = max_iter
        self.tol = tol

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    # What scikit-learn asks for.

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "AttentionRegressor":
        """Keep the samples, and choose the widths that are to be chosen.

        Parameters
        ----------
        X : array or table, shape (samples, columns)
            Where was measured. Columns of dates, of NumPy, pandas or polars, are taken as days
            since 1970-01-01 UTC.
        y : array, shape (samples,) or (samples, targets)
            What was measured.
        sample_weight : array, shape (samples,), optional
            How often each sample counts; 1 if None.

        Returns
        -------
        AttentionRegressor
            Itself.
        """
        before = dict(vars(self))
        try:
            return self._fit(X, y, sample_weight)
        except Exception:  # as it was, so that it still predicts
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> "AttentionRegressor":
        options = self._check_options()
        X, self._is_time = with_days(X)
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
        samples = _samples(X, y, sample_weight)
        kernel = self._check_kernel(samples.x.shape[0])
        self._is_flat = y.ndim == 1
        smoother = _Sum(kernel, samples, options)
        self.kernel_ = kernel
        self.n_iter_ = smoother.rounds
        self._smoother = smoother
        for name, errors in (("loo_error_", smoother.loo_error), ("noise_std_", smoother.noise)):
            setattr(self, name, errors[0] if self._is_flat else errors)
        return self

    def predict(self, X: Any, *, return_std: bool = False) -> Any:
        """Return the value of the smooth function.

        Parameters
        ----------
        X : array or table, shape (queries, columns)
            Where to tell it, as in `fit`.
        return_std : bool, default False
            Return the standard deviation of a new measurement as well: noise, and what the
            noise of the samples makes of the function. It does not know where the function
            itself is too smooth, nor how it goes on beyond the samples. For a sum of kernels it is
            approximate: see the Notes.

        Returns
        -------
        array, shape (queries,) or (queries, targets)
            The mean.
        array, shape (queries,) or (queries, targets)
            The standard deviation, if asked for.
        """
        check_is_fitted(self)
        return_std = checks.boolean("return_std", return_std)
        X, is_time = with_days(X)
        X = validate_data(self, X, reset=False)
        check_times("X", is_time, self._is_time)
        xp = self._check_library(X)
        dtype = X.dtype if is_real_floating(X.dtype, xp) else widest_float(xp, device_of(X))
        mean, squares = self._smoother.predict(_as_columns(X, xp), Wanted(squares=return_std))
        mean = self._restore(mean, dtype, xp)
        if not return_std:
            return mean
        noise = xp.reshape(self._smoother.noise, (-1, 1))
        return mean, self._restore(noise * xp.sqrt(1 + squares), dtype, xp)

    def predict_left_out(self) -> Any:
        """Return what is predicted for each sample by all others; of a sum, approximately.

        Returns
        -------
        array, shape (samples,) or (samples, targets)
            The predictions, in the order of the samples of `fit`, but for those of weight 0. A
            sample that is alone within its kernel gets the mean of all.
        """
        check_is_fitted(self)
        samples = self._smoother.samples
        left_out = self._smoother.left_out(samples, _LEVERAGE)
        return self._restore(samples.y - left_out.loo, samples.y.dtype, namespace_of(y=samples.y))

    def _restore(self, rows: Any, dtype: Any, xp: Namespace) -> Any:
        """Return (targets, queries) as scikit-learn has them."""
        rows = xp.astype(rows, dtype, copy=False)
        return rows[0, :] if self._is_flat else xp.permute_dims(rows, (1, 0))

    def _check_library(self, X: Any) -> Namespace:
        """Check that queries have the library and the device of the samples."""
        y = self._smoother.samples.y
        try:
            xp = namespace_of(X=X, y=y)
        except TypeError:
            xp = None
        if xp is None or device_of(X) != device_of(y):
            message = (
                f"X passed to {type(self).__name__}.predict() must use the same namespace and "
                f"device as in fit(), {kind_of(y)} on {device_of(y)}, got {kind_of(X)} on "
                f"{device_of(X)}."
            )
            raise ValueError(message)
        return xp

    def _check_options(self) -> Options:
        optional_number = checks.optional(checks.positive_number)
        return Options(
            checks.boolean("local_linear", self.local_linear),
            optional_number("cutoff", self.cutoff),
            checks.optional(checks.positive_integer)("block_size", self.block_size),
            checks.positive_integer("max_iter", self.max_iter),
            checks.positive_number("tol", self.tol),
        )

    def _check_kernel(self, columns: int) -> Kernel:
        """Return a copy of the kernel that may be changed."""
        if isinstance(self.kernel, Kernel):
            if not (isinstance(self.length_scale, str) and self.length_scale == LOO):
                what = 'be "loo" if `kernel` is a kernel, which has its own'
                raise wrong_value("length_scale", what, shown(self.length_scale))
            kernel: Kernel = clone(self.kernel)
        elif isinstance(self.kernel, str):
            checks.choice("kernel", self.kernel, ("gaussian",))
            kernel = GaussianKernel(self.length_scale)
        else:
            raise wrong_type("kernel", 'be "gaussian" or a kernel', shown(self.kernel))
        kernel._check(columns)
        if self.cutoff is not None:
            for term in kernel._terms():
                if cut_factor(term, columns) is None:
                    what = f"be None for {term!r}, which has no Gaussian kernel of one column"
                    raise wrong_value("cutoff", what, self.cutoff)
        return kernel


def _as_columns(X: Any, xp: Namespace) -> Any:
    X = xp.astype(X, widest_float(xp, device_of(X)), copy=False)
    return xp.permute_dims(X, (1, 0))


def _samples(X: Any, y: Any, sample_weight: Any) -> Samples:
    """Return the samples, with their columns first."""
    xp = namespace_of(X=X)
    x = _as_columns(X, xp)
    y = xp.astype(xp.asarray(y, device=device_of(X)), x.dtype, copy=False)
    y = y[None, :] if y.ndim == 1 else xp.permute_dims(y, (1, 0))
    if sample_weight is None:
        return Samples(x, y, xp.ones(x.shape[1], dtype=x.dtype, device=device_of(x)))
    weight = xp.asarray(sample_weight, dtype=x.dtype, device=device_of(x))
    if tuple(weight.shape) != (x.shape[1],):
        what = f"have one number for each of {x.shape[1]} samples"
        raise wrong_value("sample_weight", what, f"shape {tuple(weight.shape)}")
    wrong = xp.astype(~(weight >= 0) | xp.isinf(weight), xp.int8)
    if bool(xp.any(wrong != 0)):
        came = f"{float(weight[int(xp.argmax(wrong))])!r} among them"
        raise wrong_value("sample_weight", "be finite and zero or more", came)
    (kept,) = xp.nonzero(weight)
    if kept.shape[0] == 0:
        raise wrong_value("sample_weight", "have a weight above zero", "all zero")
    return Samples(*(xp.take(part, kept, axis=-1) for part in (x, y, weight)))


# The smooth functions of a sum.


class _LeftOut(NamedTuple):
    """Some samples and the errors of their predictions, (targets, samples)."""

    y: Any
    weight: Any
    residual: Any
    loo: Any  # the error if the sample is left out
    share: Any  # part of the noise's square that residuals have on average; None if not asked for


def _left_out(
    terms: Sequence[Smooth], targets: Sequence[Any], samples: Samples, some: Samples, wanted: Wanted
) -> _LeftOut:
    """Return errors of some samples, whose `y` is what all terms have added up to, without each."""
    xp = namespace_of(x=samples.x)
    parts = [term.predict(some.x, r, wanted) for term, r in zip(terms, targets, strict=True)]
    residual = some.y - sum(part.mean for part in parts)
    # Weights below 1 are no repetitions: the whole sample is left out.
    own = [xp.where(some.weight < 1, some.weight, 1.0) * part.leverage for part in parts]
    alone = reduce(or_, (share > _ALONE for share in own))
    # Of functions that are each smoothed from what the others leave over.
    others = 1 / (1 + sum(share / xp.where(alone, 1.0, 1 - share) for share in own))
    everyone = _weighted_mean(samples.y, samples.weight, xp)
    loo = xp.where(alone, some.y - everyone, residual / others)
    share = None
    if wanted.squares:
        # A residual is y - S y, of which the mean square is 1 - 2 S_ii + sum_j S_ij**2.
        share = 2 * others - 1 + sum(part.squares for part in parts)
    return _LeftOut(some.y, some.weight, residual, loo, share)


def _some_of(samples: Samples) -> Samples:
    """Return all samples, or some of them drawn at random: steps would be in phase with periods."""
    n, xp = samples.x.shape[1], namespace_of(x=samples.x)
    if n <= _MOST_LEFT_OUT:
        return samples
    drawn = host.sort(host.random.default_rng(0).choice(n, _MOST_LEFT_OUT, replace=False))
    on = device_of(samples.x)
    index = xp.asarray(drawn, dtype=default_integer(xp, on), device=on)
    return Samples(*(xp.take(part, index, axis=-1) for part in samples))


def _weighted_mean(values: Any, weight: Any, xp: Namespace) -> Any:
    return xp.sum(weight * values, axis=-1, keepdims=True) / xp.sum(weight)


def _mean_squares(left_out: _LeftOut, xp: Namespace) -> Any:
    """Return the mean square of the leave-one-out errors of each target."""
    return _weighted_mean(left_out.loo**2, left_out.weight, xp)[:, 0]


class _Sum:
    """Smooth functions, each with a kernel, that add up to what was measured."""

    def __init__(self, kernel: Kernel, samples: Samples, options: Options) -> None:
        xp = namespace_of(x=samples.x)
        self.samples = samples
        self._options = options
        self.rounds = 1
        kernels = kernel._terms()
        chosen = [[f for f in k._factors() if _is_loo(f)] for k in kernels]
        for factor in filter(_is_loo, kernel._factors()):
            factor.length_scale = factor._first_scale(samples.x, samples.weight, xp)
        self._terms = [Smooth(k, samples, options) for k in kernels]
        # The functions of a sum have a mean of 0, so that none of them has a share in the level.
        everyone = _weighted_mean(samples.y, samples.weight, xp)
        self._level = everyone if len(self._terms) > 1 else xp.zeros_like(everyone)
        self._offsets = [xp.zeros_like(everyone) for _ in self._terms]
        self._targets = [samples.y] * len(self._terms)
        if len(self._terms) > 1:
            self._backfit()
        if any(chosen):
            for i, (k, factors) in enumerate(zip(kernels, chosen, strict=True)):
                _choose_scales(k, factors, samples._replace(y=self._targets[i]), options)
                self._terms[i] = Smooth(k, samples, options)
            if len(self._terms) > 1:
                self._backfit()
        self.loo_error, self.noise = self._errors()

    @property
    def _xp(self) -> Namespace:
        return namespace_of(x=self.samples.x)

    def _backfit(self) -> None:
        """Smooth each function from what the others leave over, until none of them changes."""
        xp, y = self._xp, self.samples.y - self._level
        fitted = [xp.zeros_like(y) for _ in self._terms]
        variance = _weighted_mean(y**2, self.samples.weight, xp)
        limit = self._options.tol * float(xp.max(variance)) ** 0.5
        for rounds in range(1, self._options.max_iter + 1):
            self.rounds, change = rounds, 0.0
            for i, term in enumerate(self._terms):
                others = sum((f for j, f in enumerate(fitted) if j != i), xp.zeros_like(y))
                self._targets[i] = y - others
                new = term.predict(self.samples.x, self._targets[i], Wanted()).mean
                self._offsets[i] = _weighted_mean(new, self.samples.weight, xp)
                new = new - self._offsets[i]
                change = max(change, float(xp.max(xp.abs(new - fitted[i]))))
                fitted[i] = new
            if change <= limit:
                return

    def predict(self, x: Any, wanted: Wanted) -> tuple[Any, Any]:
        """Return the function (targets, queries), and the squared weights added over its terms."""
        terms = zip(self._terms, self._targets, strict=True)
        parts = [term.predict(x, target, wanted) for term, target in terms]
        squares = sum(part.squares for part in parts) if wanted.squares else None
        return self._level - sum(self._offsets) + sum(part.mean for part in parts), squares

    def left_out(self, some: Samples, wanted: Wanted) -> _LeftOut:
        """Return errors of some samples, with and without them."""
        level = self._level - sum(self._offsets)
        every, some = (part._replace(y=part.y - level) for part in (self.samples, some))
        return _left_out(self._terms, self._targets, every, some, wanted)

    def _errors(self) -> tuple[Any, Any]:
        """Return the leave-one-out errors, and the standard deviations of the noise."""
        xp = self._xp
        some = self.left_out(_some_of(self.samples), Wanted(leverage=True, squares=True))
        share = float(_weighted_mean(some.share, some.weight, xp)[0])
        if share > _LEAST_SHARE:
            variance = _weighted_mean(some.residual**2, some.weight, xp) / share
        else:  # the function goes through all samples, which tell nothing of the noise
            variance = _weighted_mean(some.loo**2, some.weight, xp)
        return xp.sqrt(_mean_squares(some, xp)), xp.sqrt(variance)[:, 0]


# Choosing widths.


def _is_loo(factor: Factor) -> bool:
    return isinstance(factor.length_scale, str)


def _choose_scales(
    kernel: Kernel, factors: list[Factor], samples: Samples, options: Options
) -> None:
    """Set length scales of a kernel to those of the least leave-one-out error."""
    xp, some = namespace_of(x=samples.x), _some_of(samples)
    # Targets count alike, whatever their units.
    everyone = _weighted_mean(samples.y, samples.weight, xp)
    variance = _weighted_mean((samples.y - everyone) ** 2, samples.weight, xp)[:, 0]
    variance = xp.where(variance > 0, variance, 1.0)

    def error(factor: Factor, scale: Any) -> float:
        factor.length_scale = scale
        terms = [Smooth(kernel, samples, options)]
        left_out = _left_out(terms, [samples.y], samples, some, _LEVERAGE)
        return float(xp.sum(_mean_squares(left_out, xp) / variance))

    for _ in range(_ROUNDS if len(factors) > 1 else 1):
        for factor in factors:
            first = factor.length_scale
            errors = {ratio: error(factor, _scaled(first, ratio)) for ratio in _COARSE}
            best = min(errors, key=errors.__getitem__)
            # Further down, while that pays.
            while best == min(errors) > _LEAST_RATIO:
                errors[best / 2] = error(factor, _scaled(first, best / 2))
                if errors[best / 2] < _MUCH_LESS * errors[best]:
                    best = best / 2
            errors |= {best * r: error(factor, _scaled(first, best * r)) for r in _FINE}
            factor.length_scale = _scaled(first, min(errors, key=errors.__getitem__))


def _scaled(scale: Any, ratio: float) -> Any:
    return [ratio * s for s in scale] if isinstance(scale, list) else ratio * scale
