"""Attention as a regressor: means, and lines, of the samples that are near in a kernel."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from itertools import chain, product
from math import ceil, inf, isinf, log2, nan
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.isotonic import IsotonicRegression
from sklearn.preprocessing import LabelEncoder
from sklearn.utils._array_api import check_same_namespace
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.dtypes import dtype_name, is_real_floating
from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    warn_caller,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, ignore_fp_errors, np
from positional_embeddings.sklearn import frames, kernels
from positional_embeddings.sklearn.kernels import LOO, GaussianKernel, Kernel, Term, scale_of
from positional_embeddings.sklearn.smooth import (
    FitOptions,
    GroupParts,
    HoldOut,
    LeaveOut,
    Predicted,
    Samples,
    Smooth,
    merge_places,
)
from positional_embeddings.times.dates import is_missing

# The most samples that are left out, the most around which balls are hidden, and the number of
# balls around each.
_MOST_LEFT_OUT, _MOST_HIDDEN, _BALLS = 2000, 300, 7

# The fewest samples that a search for many widths leaves out, and the width, in extents of a
# column, beyond which wider kernels change nothing.
_LEAST_LEFT_OUT, _FLAT = 500, 4.0

# Ridges of lines, in squared widths times the sum of the squared weights; inf takes means.
_RIDGES = [0.25, 2.0, 16.0, inf]

# The widest and narrowest kernels of a search, in octaves of the first one; the ratio of errors
# below which one is less; and the most kernels that it tries one by one.
_WIDEST, _NARROWEST, _LESS, _MOST_TRIED = 10, -24, 0.999, 60

# The distance of the nearest other samples, in widths, beyond which narrower kernels change
# nothing: they widen, or other measurements at the place have all the weight.
_FARTHEST, _NO_WEIGHT = 2.0, 6.0

# With many samples wide kernels are slow, and seldom the best: the octave where a search begins.
_MANY, _START = 20_000, -3

# Local noise: the most squared errors that it is estimated from; its narrowest kernel, in octaves
# of the kernel of the function; the least number of octaves from there to the extent of the
# samples; the standard errors by which it has to be likelier than constant noise; and the
# measurements that the mean of all variances counts as in a local variance.
_MOST_OF_NOISE = 1000
_FIRST_OCTAVE, _OCTAVES, _MARGIN, _AS_MEASUREMENTS = -3, 6, 2.0, 2.0

_LEAST = 1e-3  # weight of an error in a fit by the lean

# The largest and smallest numbers whose squares are finite and normal, nearly, and the least weight
# relative to the largest.
_LARGEST, _SMALLEST, _LIGHTEST = 1e150, 1e-150, 1e-100

# Noise lasts where the squared error grows when the next places on either side are left out: by
# more than _LEAST_GROWTH of itself and _SURE standard errors, by less than _MOST_GROWTH of itself,
# and when the next two are left out, by less than _CONVEX times as much again. The error of a
# smooth function grows more, and faster. Fewer places than _FEWEST_IN_LINE do not tell.
_LEAST_GROWTH, _MOST_GROWTH, _SURE, _CONVEX = 0.2, 3.0, 3.0, 2.0
_FEWEST_IN_LINE = 20
_FAR_OUTSIDE = (
    "{} are farther outside of the samples, in a column, than a tenth of their range and a length "
    "scale: nothing is promised there, and bands may be far too narrow."
)
_NOISE_LASTS = (
    "Neighbouring errors are alike: without the next samples on either side, predictions are "
    "much worse, and not much worse again without the next two, as where noise lasts. Then "
    "widths are too small, and bands too narrow for the function. Pass `leave_out`, a span that is "
    "longer than the noise lasts, or `groups` to `fit`; or filter this warning if it is no noise."
)

# How far outside of the samples bands are checked, as a part of their range: a tenth of the record
# can be hidden ten times without an overlap.
_BEYOND = 0.1

# Samples that are few where they have nearly all of the weight.
_FEW = 10
_FEW_WEIGH = (
    f"Fewer than {_FEW} samples have nearly all of the `sample_weight`: widths and bands are "
    "chosen by them alone, and bands may be too narrow. Pass weights that differ less."
)

_OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    "local_linear": checks.boolean,
    "cutoff": checks.optional(checks.positive_number),
    "block_size": checks.optional(checks.positive_integer),
    "max_iter": checks.positive_integer,
    "tol": checks.positive_number,
}


@dataclass(repr=False, eq=False)
class AttentionRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Regression by attention: the mean of the samples, weighted by a kernel.

    Queries and keys are encodings of places, values are measurements, and only the widths of
    kernels are chosen: the estimator of Nadaraya and Watson, or a straight line fitted around each
    query. A sum of kernels gives a sum of smooth functions.

    Parameters
    ----------
    kernel : "gaussian" or Kernel, default "gaussian"
        Weight of a sample at a query: "gaussian" is ``GaussianKernel(length_scale)``. Kernels
        multiply and add: ``GaussianKernel(4.0) + PeriodicKernel(1.0, 0.02) *
        GaussianKernel(8.0)`` is a trend and a season that changes slowly.
    length_scale : float, span of time, sequence of these or "loo", default "loo"
        Width of the Gaussian kernel, in the unit of the columns: one number, or one for each
        column; spans such as "30D" for columns of times. "loo" chooses the width of each column by
        the least leave-one-out error; ``["loo", 2.0]`` chooses one of two. It is infinite for
        constant columns, which change nothing. A given kernel has widths of its own.
    local_linear : bool, default True
        Fit a line, or a plane, to the samples around a query, which follows slopes and edges;
        False takes their mean, as products and periods always do. Slopes shrink where few
        samples are near, and where a query leaves them; how much is chosen with the widths. Planes
        take memory and time as the square of columns: take means of more than some ten.
    leave_out : float or span of time, optional
        A sample is left out together with all samples within this distance, in the columns of
        times, or in all columns if none are times. "month" is the mean month of 30.436875 days,
        "year" 365.2425 days. Without it, noise that lasts some days is taken for a part of the
        function.
    cutoff : float, optional
        Leave out samples whose squared distance from a query exceeds the nearest sample's by more
        than ``cutoff**2`` squared widths, which takes less time. 6 leaves out weights below 1.6e-8
        of the largest one, None weights below 1.6e-18.
    block_size : int, optional
        The most queries whose weights are computed at a time; 1,024 if None.
    max_iter : int, default 10
        Largest number of times that each function of a sum is smoothed, after the others are
        subtracted.
    tol : float, default 1e-3
        A sum is done when no function changes by more than this fraction of the standard deviation
        of the measurements.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, with numbers as length scales.
    loo_error_ : array, shape (targets,) or ()
        Root mean square of the leave-one-out errors, at up to 2,000 places, which are drawn at
        random, always the same ones. NaN if there is one place.
    noise_std_ : array, shape (targets,) or ()
        Standard deviation of a measurement around the function: the root of its mean square, where
        it changes from place to place.
    n_iter_ : int
        Times that the functions of a sum were smoothed; `max_iter` if they did not settle.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    Warns
    -----
    UserWarning
        If widths are chosen without `leave_out` and groups, and noise lasts: leaving out the next
        samples on either side raises the error, and leaving out the next two raises it no faster.
        If fewer than ten samples, less than a quarter of all, have nearly all of the
        `sample_weight`. If a target looks like angles, such as a direction of wind: take its sine
        and cosine.

    See Also
    --------
    PositionalEncoder : Encodings as columns, for other regressors.

    Notes
    -----
    At a query, the widths of a kernel grow by a factor :math:`e` with :math:`e^2 = \max(1, D^2 -
    3)`, where :math:`D` is the distance of the nearest sample in widths. A query some time ahead
    of the samples thus gets the mean of about as long a time, and one far from all samples the
    mean of all. The kernel gives the weights :math:`p_i` of samples at :math:`x_i`; a line adds to
    their mean

    .. math::
        \min(1, 1.4 \sqrt{f} / M) \; t^T C, \quad t = -(V + \lambda I)^{-1} u, \quad M^2 = -t^T u,

    where, in :math:`f` columns in widths, :math:`u` is the mean of :math:`x_i` minus the query,
    :math:`V` the covariance of the :math:`x_i` and :math:`C` that with the measurements, and
    :math:`\lambda = e^2 k \sum p_i^2 + (e^2 - 1) |u|^2 / (|u|^2 + \mathrm{tr} V)`. The ridge
    :math:`k` is the best of 0.25, 2, 16 and infinity (a mean) if a width is chosen, else 0.25.

    Samples are left out by hiding them; where measurements at one place differ, one of them is left
    out, and the others stay. The square of the noise is the mean square of the leave-one-out errors
    divided by the mean of :math:`1 + \sum l_i^2`, where :math:`l_i` is the weight of sample
    :math:`i` in a prediction. It is a mean of these squares near a query, if that makes each of
    them, left out of it, more likely by twice its standard error (of normal errors). Its kernel is
    the one of :math:`2^{-3}, 2^{-2}, \ldots` times the length scales that makes them most likely,
    and two measurements with the mean of all are added to it. The variance of a new measurement is
    the variance of the noise times :math:`1 + \sum l_i^2`, plus the mean squared error at its
    distance from the samples, as found by hiding balls and half-spaces of samples, of each function
    of a sum; at most the spread of `y` around the prediction.

    Measurements at one place count as their mean, with one kernel weight; a sample of weight 2
    counts as two that agree. All measurements count alike, however far from the others: other
    weights would cost up to 3 % where noise grows, and a third of the rain in a record of daily
    rain.

    The leave-one-out error is that among neighbours: a width that is chosen by it is too small for
    wide gaps. Give such gaps a kernel of their width. Where nights or weekends were never measured,
    bands take them to be like the rest: `GapFiller` warns of them.

    References
    ----------
    Nadaraya (1964), On estimating regression; Watson (1964), Smooth regression analysis. Hastie,
    Tibshirani and Friedman (2009), The Elements of Statistical Learning, 6.1 (local lines), 7.10
    (leaving one out) and 9.1 (backfitting). Fan and Yao (1998), Efficient estimation of conditional
    variance functions in stochastic regression. Opsomer, Wang and Yang (2001), Nonparametric
    regression with correlated errors.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings.sklearn import AttentionRegressor
    >>> x = np.linspace(0, 10, 101)[:, None]
    >>> model = AttentionRegressor().fit(x, np.sin(x[:, 0]))
    >>> mean, std = model.predict([[1.0], [2.0]], return_std=True)
    >>> mean.round(2)
    array([0.84, 0.9 ])
    """

    kernel: str | Kernel = "gaussian"
    _: KW_ONLY
    length_scale: Any = LOO
    local_linear: bool = True
    leave_out: Any = None
    cutoff: float | None = None
    block_size: int | None = None
    max_iter: int = 10
    tol: float = 1e-3

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    # What scikit-learn asks for.

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> "AttentionRegressor":
        """Keep the samples, and choose the widths that are to be chosen.

        Parameters
        ----------
        X : array or table, shape (samples, columns)
            Where the samples were measured. Dates of NumPy, pandas or polars are taken as days
            since 1970-01-01: in UTC if they have a zone, else as the clock shows them.
        y : array, shape (samples,) or (samples, targets)
            The measurements.
        sample_weight : array, shape (samples,), optional
            How much each sample counts, in any unit; 1 if None. Two samples at one place count as
            one with the sum of their weights.
        groups : array, shape (samples,), optional
            Labels, such as of stations or years: the samples of a group are left out together.

        Returns
        -------
        AttentionRegressor
            Itself.
        """
        fitted = copy(self)  # a fit that fails leaves this one as it was
        with ignore_fp_errors():
            fitted._fit(X, y, sample_weight, groups)
            self.__dict__ = dict(vars(fitted))
            for target in self._smoother.samples.y:  # in the order of their places
                frames.warn_of_angles("A target", target)
            is_alone = self.leave_out is None and groups is None
            if is_alone and self._smoother.noise_is_correlated(self._times):
                warn_caller(_NOISE_LASTS)
        return self

    def _fit(self, X: Array, y: Array, sample_weight: Array, groups: Array) -> None:
        options = {name: check(name, getattr(self, name)) for name, check in _OPTIONS.items()}
        X, self._times = frames.with_days(X)
        with _text_refused("y"):  # in `X` it was refused before
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
        # Of NumPy, whatever the library of `X` is.
        samples, group, *self._places = _fold(X, y, sample_weight, groups)
        columns = self._times or [frames.Column(is_time=False, zone=None)] * X.shape[1]
        kernel = self._check_kernel(columns)
        parts = self._left_out_parts(samples, group, [column.is_time for column in columns])
        smoother = AdditiveModel(kernel._terms(), samples, parts, options)
        # Everything is computed by NumPy in float64; results have the library of the samples.
        self._is_flat = y.ndim == 1
        backend = get_backend(X=X)
        is_own = is_real_floating(X.dtype, backend.xp) and dtype_name(X.dtype) == dtype_name(
            y.dtype
        )
        dtype = X.dtype if is_own else backend.widest
        self._empty = backend.xp.empty(0, dtype=dtype, device=backend.device)
        self.kernel_, self.n_iter_, self._smoother = kernel, smoother.rounds, smoother
        self.loo_error_ = self._restore(smoother.loo_error)
        self.noise_std_ = self._restore(smoother.noise)

    def _left_out_parts(self, samples: Samples, group: Array, is_time: list[bool]) -> LeaveOut:
        """Return places, the place of each sample, and what is left out with it."""
        if group is not None:
            if self.leave_out is not None:
                requirement = "be None where `groups` are given"
                raise wrong_value("leave_out", requirement, format_value(self.leave_out))
            return merge_places(samples, group)
        place = np.arange(samples.weight.size)
        if self.leave_out is None:  # others at the place stay
            return samples, place, HoldOut(place[None], place[None], 0.0, 1 - 1 / samples.repeats)
        radius = scale_of("leave_out", self.leave_out, is_time=any(is_time), is_period=True)
        labels = samples.x[is_time] if any(is_time) else samples.x
        return samples, place, HoldOut(labels, labels, radius, np.zeros_like(samples.weight))

    def predict(self, X: Any, *, return_std: bool | str = False) -> Any:
        """Return the value of the smooth function.

        Parameters
        ----------
        X : array or table, shape (queries, columns)
            Where to predict, as in `fit`.
        return_std : bool or "mean", default False
            Also return the standard deviation of a new measurement: noise, the error that the noise
            of the samples causes, and the error far from samples. "mean" is that of the function,
            without the noise of a new measurement. Approximate for a sum of kernels; NaN if all
            samples are at one place and agree. Some 100 samples or more show where noise changes.
            With fewer than 10 samples it is too small: bands of 95 % for 2, 5 and 10 samples of a
            sine hold 53, 85 and 91 %.

        Returns
        -------
        array, shape (queries,) or (queries, targets)
            The mean, in the dtype of `X` and `y` together.
        array, shape (queries,) or (queries, targets)
            The standard deviation, if asked for.

        Warns
        -----
        UserWarning
            If a standard deviation is asked for, and a query is farther outside of the samples, in
            a column, than a tenth of their range and a length scale: nothing is promised there.
        """
        check_is_fitted(self)
        checks.choice("return_std", return_std, [True, False, "mean"])
        with ignore_fp_errors():
            X, times = frames.with_days(X)
            X = validate_data(self, X, reset=False)
            frames.check_times("X", times, self._times)
            check_same_namespace(X, self, attribute="_empty", method="predict")
            x = _columns_of("X", X)
            found = self._smoother.predict(x, squares=bool(return_std))
            mean = self._restore(found.mean, X.dtype)
            if not return_std:
                return mean
            if beyond := np.count_nonzero(self._smoother.is_beyond(x)):
                many = f"{beyond} of {plural(x.shape[1], 'query')}"
                warn_caller(_FAR_OUTSIDE.format(many))
            std = self._smoother.std(x, found, measurements=0 if return_std == "mean" else 1)
            return mean, self._restore(std, X.dtype)

    def predict_left_out(self) -> Any:
        """Return the prediction for each sample by the samples that are not left out with it.

        A regressor of the same widths, fitted to these other samples, predicts the same. For a sum
        of kernels it is approximate.

        Returns
        -------
        array, shape (samples,) or (samples, targets)
            The predictions, in the order of the samples of `fit` whose weight is not 0.
        """
        check_is_fitted(self)
        place, deviation = self._places
        with ignore_fp_errors():
            found = self._smoother.left_out(slice(None))
            moved = (found.leverage * self._smoother.repeat_weights)[place] * deviation
            return self._restore(found.mean[:, place] - moved)

    def _restore(self, rows: HostArray, dtype: Dtype = None) -> Array:
        """Return (targets, queries) as scikit-learn has them, in the library of the samples."""
        rows = rows[0, ...] if self._is_flat else rows.T
        backend = get_backend(X=self._empty)
        is_floating = dtype is not None and is_real_floating(dtype, backend.xp)
        # The numbers of `y` may be too large for the dtype of queries.
        dtype = backend.xp.result_type(dtype, self._empty.dtype) if is_floating else backend.widest
        return backend.xp.asarray(rows, dtype=dtype, device=backend.device)

    def _check_kernel(self, columns: list[frames.Column]) -> Kernel:
        """Return a copy of the kernel that may be changed."""
        if not isinstance(self.kernel, Kernel):
            if not (isinstance(self.kernel, str) and self.kernel == "gaussian"):
                raise kernels.wrong_kernel("kernel", 'be "gaussian" or a kernel', self.kernel)
            kernel = GaussianKernel(clone(self.length_scale, safe=False))
        elif isinstance(self.length_scale, str) and self.length_scale == LOO:
            kernel = clone(self.kernel)
        else:
            requirement = 'be "loo" if `kernel` is a kernel, which has its own'
            raise wrong_value("length_scale", requirement, format_value(self.length_scale))
        names = list(getattr(self, "feature_names_in_", ()))
        for factor in chain.from_iterable(kernel._terms()):
            factor._resolve(columns, names)
        return kernel


def _columns_of(name: str, array: Array) -> HostArray:
    """Return an array of any library as one of NumPy in float64, (columns, rows)."""
    rows = get_backend(array=array).to_numpy(array)
    if rows.dtype.kind not in "biuf":
        raise wrong_type(name, "hold numbers", str(rows.dtype))
    exact, rows = rows, rows.astype(np.float64, copy=False).reshape(rows.shape[0], -1)
    most = abs(rows).max()
    if not most <= _LARGEST:
        actual = "a missing number" if np.isnan(most) else f"{most} or beyond"
        raise wrong_value(name, f"be within {_LARGEST} of 0", actual)
    if exact.dtype.kind in "iu" and most >= 2.0**53:  # below, float64 holds each integer
        frames.check_apart(name, exact, rows)
    return rows.T


@contextmanager
def _text_refused(name: str) -> Iterator[None]:
    """Refuse text by the name of its argument: NumPy's error shows the text alone."""
    try:
        yield
    except ValueError as error:
        if "could not convert" in str(error):
            raise wrong_type(name, "hold numbers", "text") from None
        raise


def _weight_of(sample_weight: Any, X: Array) -> Array:
    """Return the weight of each sample, the largest 1, and none above 0 negligible."""
    kind = getattr(getattr(sample_weight, "dtype", None), "kind", "f")
    # Of these scikit-learn takes the real part, or counts of some unit.
    if isinstance(sample_weight, complex) or kind in "mM":
        raise wrong_type("sample_weight", "hold real numbers", format_value(sample_weight))
    with _text_refused("sample_weight"):
        weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    weight = get_backend(weight=weight).to_numpy(weight).astype(np.float64)
    weight = weight / weight.max()
    count = weight.sum() ** 2 / (weight**2).sum()  # of equal weights that are worth as much
    if count < min(_FEW, np.count_nonzero(weight) / 4):
        warn_caller(_FEW_WEIGH)
    return np.where(weight > 0, np.maximum(weight, _LIGHTEST), 0)


def _codes_of(groups: Any, X: Array) -> HostArray:
    """Return a number for each label of groups."""
    try:
        labels = np.asarray(groups)
    except ValueError:  # lists of different lengths
        raise wrong_value("groups", "be an array", format_value(groups)) from None
    if labels.shape != (X.shape[0],):
        requirement = f"have one value for each of {plural(X.shape[0], 'sample')}"
        raise wrong_value("groups", requirement, f"shape {labels.shape}")
    if labels.dtype.kind in "fO" and any(map(is_missing, labels)):
        raise wrong_value("groups", "have no missing labels", "None or NaN")
    codes: HostArray = LabelEncoder().fit_transform(labels)
    if not codes.any():
        raise wrong_value("groups", "have two or more different labels", "one")
    return codes


def _fold(
    X: Array, y: Array, sample_weight: Array, groups: Array
) -> tuple[Samples, HostArray | None, HostArray, HostArray]:
    """Return the mean, weight and variance of the samples at each place.

    Also the groups of the places; and of each sample of a weight above 0 its place,
    and how far it is from the mean there, (targets, samples).
    """
    x, y = _columns_of("X", X), _columns_of("y", y)
    for name, numbers in ("X", x), ("y", y):
        frames.check_extents(name, numbers, _SMALLEST)
    columns, weight = x.shape[0], _weight_of(sample_weight, X)
    # Groups that share a place follow one another.
    rows = x if groups is None else np.concatenate([_codes_of(groups, X)[None], x])
    kept = np.flatnonzero(weight)
    order = np.lexsort(rows[:, kept])
    rows, y, weight = (a[..., kept[order]] for a in (rows, y, weight))
    is_new = np.concatenate([[True], (rows[:, 1:] != rows[:, :-1]).any(axis=0)])
    at, starts = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
    total = np.add.reduceat(weight, starts)
    mean = np.add.reduceat(weight * y, starts, axis=1) / total
    deviation = y - mean[:, at]
    within = np.add.reduceat(weight * deviation**2, starts, axis=1) / total
    # Measurements that agree exactly count as one, as a weight of 2 does.
    least, most = (f.reduceat(y, starts, axis=1) for f in (np.minimum, np.maximum))
    equal = total**2 / np.add.reduceat(weight**2, starts)
    repeats = np.where((least < most).any(axis=0), equal, 1.0)
    group = None if groups is None else rows[0, starts].astype(np.int64)
    samples = Samples(rows[-columns:, starts], mean, total, within, repeats)
    back = np.argsort(order)
    return samples, group, at[back], deviation[:, back]


# The smooth functions of a sum.


_mean: Any = partial(np.average, axis=-1, keepdims=True)


def _drawn(n: int, most: int) -> Array:
    """Return all indices, or some drawn at random: steps would be in phase with periods."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, most), replace=False))


def _shrunk(found: Predicted, smooth: Smooth) -> Array:
    """Return local variances over their mean, which counts as some measurements."""
    part = _AS_MEASUREMENTS * smooth.mean_weight * found.leverage[0]
    return (found.mean[0] + part) / (1 + part)


class _Misfit(NamedTuple):
    """Squared errors of a term beyond the noise, over the spread, as functions of the distance."""

    around: Callable[[HostArray], HostArray]  # of a query with samples all around
    aside: Callable[[HostArray], HostArray]  # with samples on one side


class AdditiveModel:
    """Smooth functions, each with a kernel, that add up to what was measured."""

    def __init__(
        self, terms: list[Term], shares: Samples, parts: LeaveOut, options: FitOptions
    ) -> None:
        """Smooth places; `shares` are what is left out of them, each at its place."""
        self.samples, self._place, self._hidden = parts
        samples, self.shares, self._options, self.rounds = self.samples, shares, options, 1
        self._n = samples.x.shape[1]
        self._off = shares.y - samples.y[:, self._place]
        self._local_noise: tuple[Smooth, Array] | None = None
        # Fractions of all weights that are left of a place without one measurement; and how much
        # they lack of it, for each unit of its deviation from the mean there.
        replicates = np.maximum(shares.repeats - 1, 1.0)
        self.repeat_weights = self._hidden.kept * shares.weight / samples.weight.max() / replicates
        # The functions have a mean of 0, so that none of them has a share in the level.
        self._level = _mean(samples.y, weights=samples.weight)
        y = samples.y - self._level
        self._spread = _mean(y**2 + samples.within, weights=samples.weight)
        # Targets count alike, whatever their units.
        self._unit = np.where(self._spread > 0, self._spread, 1.0)
        widths = [[w for f in term for w in _begin(f, samples)] for term in terms]
        self._terms = [self._smooth(term, y) for term in terms]
        self._backfit()
        self.is_chosen = any(widths)
        if self.is_chosen:
            for i, term in enumerate(self._terms):
                if widths[i]:
                    ridge = self._choose(term, widths[i])
                    self._terms[i] = self._smooth(term.factors, term.y, [ridge])
            self._backfit()
        self._find_errors()

    def _smooth(self, term: Term, y: HostArray, ridges: list[float] | None = None) -> Smooth:
        ridges = ridges or [_RIDGES[0] if self._is_linear(term) else inf]
        return Smooth(term, self.samples._replace(y=y), ridges, self._options)

    def _is_linear(self, term: Term) -> bool:
        """Tell whether lines are fitted: by radial kernels that are no product."""
        own: bool | None = getattr(term[0], "local_linear", False) if len(term) == 1 else False
        return self._options["local_linear"] if own is None else own

    def _backfit(self) -> None:
        """Smooth each function from what the others leave over, until none of them changes."""
        y = self.samples.y - self._level
        fitted = np.zeros((len(self._terms), *y.shape))
        limit = self._options["tol"] * self._spread.max() ** 0.5
        most = self._options["max_iter"] if len(self._terms) > 1 else 0
        for rounds in range(1, most + 1):
            self.rounds, before = rounds, fitted.copy()
            for i, term in enumerate(self._terms):
                term.y = y - (fitted.sum(axis=0) - fitted[i])
                found = term.predict(self.samples.x, None, squares=False).mean[0]
                offset = _mean(found, weights=self.samples.weight)
                fitted[i], term.y = found - offset, term.y - offset
            if abs(fitted - before).max() <= limit:
                break
        # What each function is of, after all the others.
        self._rests = y - (fitted.sum(axis=0) - fitted)

    def _choose(self, term: Smooth, widths: list["_Width"]) -> float:
        """Set widths of a term by the least leave-one-out error; return the ridge."""
        at = _drawn(self._place.size, max(_LEAST_LEFT_OUT, _MOST_LEFT_OUT // len(widths)))
        x, weight, hidden = self.shares.x[:, at], self.shares.weight[at], self._hidden.at(at)
        farthest = np.where(hidden.sees_place, _NO_WEIGHT, _FARTHEST)
        ridges = _RIDGES if self._is_linear(term.factors) else [inf]

        def error() -> tuple[float, float]:
            found = self._smooth(term.factors, term.y, ridges).predict(x, hidden, squares=False)
            if np.median(found.distance / farthest) > 1:
                return inf, inf
            squares = self._squared_errors(found, term.y, at)
            errors = (_mean(squares, weights=weight) / self._unit).sum(axis=(1, 2))
            best = int(errors.argmin())
            return float(errors[best]), ridges[best]

        return _search(widths, error, _START if self._n > _MANY else 0)

    def _squared_errors(self, found: Predicted, y: HostArray, at: HostArray) -> Array:
        """Return the squared errors of shares that were left out, (..., targets, shares)."""
        moved = (found.leverage * self.repeat_weights[at])[..., None, :]
        y = y[:, self._place[at]] + self._off[:, at]
        return (found.mean - y) ** 2 + self.shares.within[:, at] * (1 + moved) ** 2

    def predict(
        self, x: HostArray, hidden: HoldOut | GroupParts | None = None, *, squares: bool
    ) -> Predicted:
        """Return the function (targets, queries), squared weights added over its terms."""
        parts = [term.predict(x, hidden, squares=squares) for term in self._terms]
        means, leverage, squared, distances, skews = map(np.stack, zip(*parts, strict=True))
        mean = self._level + means[:, 0].sum(axis=0)
        return Predicted(mean, leverage[:, 0].sum(axis=0), squared.sum(axis=0), distances, skews)

    def left_out(self, at: Array) -> Predicted:
        """Return what the other samples predict at some shares; of a sum, nearly."""
        return self.predict(self.shares.x[:, at], self._hidden.at(at), squares=True)

    def _find_errors(self) -> None:
        """Find the leave-one-out errors and the noise."""
        shares = self.shares
        if shares.weight.size == 1 and shares.repeats[0] == 1:
            self.loo_error = self.noise = np.full(shares.y.shape[0], nan)
            return
        at = _drawn(shares.weight.size, _MOST_LEFT_OUT)
        found = self.left_out(at)
        if np.isnan(found.mean).any():
            requirement = "leave each sample another one that predicts it"
            raise wrong_value("leave_out", requirement, "none for some sample")
        errors = self._squared_errors(found, self.samples.y, at)
        # What the other measurements at a place add to the squared weights.
        replicates = (found.leverage * self.repeat_weights[at]) ** 2 * (1 - 1 / shares.repeats[at])
        parts = 1 + found.squares + replicates
        square, part = (_mean(a, weights=shares.weight[at]) for a in (errors, parts))
        self.loo_error, self.noise = np.sqrt(square)[:, 0], np.sqrt(square / part)[:, 0]
        noise = np.where(square > 0, square / part, 1.0)
        ratios = np.where(square > 0, errors / parts / noise, 1.0)
        few = _drawn(at.size, _MOST_OF_NOISE)
        self._find_local_noise(at[few], ratios[:, few])

    def _find_local_noise(self, at: Array, ratios: HostArray) -> None:
        """Smooth squared errors over their mean, if others of them predict each one better so."""
        shares = self.shares.at(at)._replace(y=ratios, within=np.zeros_like(ratios))
        samples, hidden = self._hidden.among(at, shares)
        repeat_weights, least = self.repeat_weights[at], 0.0
        for term in self._terms:
            extent = np.ptp(term.points(samples.x), axis=0).max()
            last = ceil(log2(max(extent, _LEAST)))
            for octave in range(min(_FIRST_OCTAVE, last - _OCTAVES), last + 1):
                smooth = Smooth(term.factors, samples, [inf], self._options, 2.0**octave)
                found = smooth.predict(shares.x, hidden, squares=False)
                noise = _shrunk(found, smooth)
                # The logarithm of the likelihood, times -2, beyond that of the same noise
                # everywhere. The last term is for what a measurement says of its own place.
                own = 2 * found.leverage[0] * repeat_weights * (ratios / noise) ** 2
                score = np.log(noise) + ratios / noise - ratios + own
                mean = _mean(score, weights=shares.weight)
                within = 2 * (ratios / noise - ratios) ** 2 * (1 - 1 / shares.repeats)
                square = _mean((score - mean) ** 2 + within, weights=shares.weight)
                error = np.sqrt(square / shares.repeats.sum())
                is_local = mean + _MARGIN * error < 0
                gain = mean[is_local].sum()
                if gain < least:
                    least, self._local_noise = gain, (smooth, is_local)

    def _noise_ratios(self, x: HostArray) -> Array:
        """Return the variance of a measurement over its mean, (targets, queries)."""
        if self._local_noise is None:
            return np.ones((1, 1))
        smooth, is_local = self._local_noise
        local = _shrunk(smooth.predict(x, None, squares=False), smooth)
        return np.where(is_local, local, 1.0)

    def noise_is_correlated(self, columns: list[frames.Column] | None) -> bool:
        """Tell whether errors of neighbours are alike in the only column, or that of times."""
        x = self.samples.x
        line = x[[column.is_time for column in columns]] if columns else x
        line = line[np.ptp(line, axis=1) > 0]
        rank = np.unique(line, return_inverse=True)[1].reshape(line.shape).astype(np.float64)
        if not self.is_chosen or line.shape[0] != 1 or rank.max() < _FEWEST_IN_LINE:
            return False
        at, errors = _drawn(self._n, _LEAST_LEFT_OUT), []
        for neighbours in (0, 1, 2):
            hidden = HoldOut(rank[:, at], rank, neighbours, np.zeros(at.size))
            found = self.predict(x[:, at], hidden, squares=False)
            squares = (found.mean - self.samples.y[:, at]) ** 2 + self.samples.within[:, at]
            errors.append((squares / self._unit).sum(axis=0))
        weight = self.samples.weight[at] / self.samples.weight[at].sum()
        error, first, second = np.stack([errors[0], *np.diff(errors, axis=0)]) @ weight
        standard_error = np.linalg.norm(weight * (errors[1] - errors[0] - first))
        least = max(_LEAST_GROWTH * error, _SURE * standard_error)
        return bool(least < first < _MOST_GROWTH * error and second < _CONVEX * first)

    @cached_property
    def _misfits(self) -> list[_Misfit]:
        return [*map(self._misfit_of, self._terms, self._rests)]

    def _misfit_of(self, term: Smooth, y: HostArray) -> _Misfit:
        """Return how wrong a term is, beyond the noise, the farther samples are from a query.

        Growing balls and half-spaces of samples around some of them are hidden.
        """
        thinned, rng = _drawn(self._n, _MOST_LEFT_OUT), np.random.default_rng(0)
        samples = self.samples.at(thinned)._replace(y=y[:, thinned])
        smooth = Smooth(term.factors, samples, term.ridges, self._options)
        at = _drawn(thinned.size, _MOST_HIDDEN)
        # Equal phases are one place of the kernel, however they are rounded.
        points = term.points(samples.x).T.round(6)
        varies = np.ptp(points, axis=1) > 0
        points = points[varies | ~varies.any()]
        place = np.unique(points, axis=1, return_inverse=True)[1].ravel()
        measured = np.bincount(place, samples.repeats)[place]
        ratios = self._noise_ratios(samples.x[:, at])
        variance = self.noise[:, None] ** 2 * ratios
        # Errors where there is much noise tell little.
        trust = np.broadcast_to(1 / ratios.mean(axis=0) ** 2, at.shape)
        last, none_left = float(np.ptp(points, axis=1).max()), np.zeros(at.size)

        def errors(i: int, radius: float) -> Array:
            """Return errors beyond the noise, distances, leans and trust; one radius is hidden."""
            labels, side = np.roll(points, i, axis=0), rng.integers(-1, 2, at.size)
            hidden = HoldOut(labels[:, at], labels, radius, none_left, side)
            found = smooth.predict(samples.x[:, at], hidden, squares=True)
            noise = variance * (1 / samples.repeats[at] + found.squares)
            missed = (samples.y[:, at] - found.mean[0]) ** 2 - noise
            return np.stack(
                [(missed / self._unit).mean(axis=0), found.distance, found.asymmetry, trust]
            )

        rows = [errors(0, 0.0)]
        first = float(np.median(rows[0][1]))
        # At repeated places there is no error beyond the noise.
        rows.append(np.repeat([[0.0], [0.0], [0.0], [1.0]], (measured[at] > 1).sum(), axis=1))
        radii = np.geomspace(first / 2, last / 2, _BALLS) if 0 < first < last else ()
        rows += [errors(i, radius) for i, radius in enumerate(radii, 1)]
        rows = np.concatenate(rows, axis=1)
        missed, distance, asymmetry, trust = rows[:, np.isfinite(rows[0])]
        if not missed.size:  # all samples are at one place of the kernel
            return _Misfit(np.zeros_like, np.zeros_like)
        # Distances at equal steps are one, however they are rounded.
        distance = np.round(distance, 3)
        fits = [IsotonicRegression(y_min=0.0, out_of_bounds="clip") for _ in range(2)]
        weights = trust * (_LEAST + 1 - asymmetry), trust * (_LEAST + asymmetry)
        fitted = [f.fit(distance, missed, w) for f, w in zip(fits, weights, strict=True)]
        return _Misfit(*(fit.predict for fit in fitted))

    def is_beyond(self, x: HostArray) -> Array:
        """Tell which queries are farther outside of the samples than bands are checked."""
        found = np.zeros(x.shape[1], dtype=bool)
        for term in self._terms:
            samples, queries = term.points(self.samples.x), term.points(x)
            low, high = samples.min(axis=0), samples.max(axis=0)
            visible_keys = np.maximum(_BEYOND * (high - low), 1.0)
            found |= ((queries < low - visible_keys) | (queries > high + visible_keys)).any(axis=1)
        return found

    def std(self, x: HostArray, found: Predicted, measurements: int) -> Array:
        """Return the standard deviations of the function, or of new measurements, at x."""
        ratios = self._noise_ratios(x)
        variance = self.noise[:, None] ** 2 * ratios * (measurements + found.squares)
        for misfit, distance, asymmetry in zip(
            self._misfits, found.distance, found.asymmetry, strict=True
        ):
            missed = (1 - asymmetry) * misfit.around(distance) + asymmetry * misfit.aside(distance)
            variance = variance + self._spread * missed
        most = self._spread + (found.mean - self._level) ** 2
        return np.sqrt(np.minimum(variance, most * np.maximum(ratios, 1.0)))


# Choosing widths.


class _Width(NamedTuple):
    """A length scale that is chosen, of a factor or of one of its columns."""

    factor: kernels.Factor
    column: int | None
    first: float  # where a search begins
    most: int  # half octaves that it grows from there, at most

    def set(self, half_octaves: int) -> None:
        scale = self.first * 2 ** (half_octaves / 2)
        if self.column is None:
            self.factor.length_scale = scale
        else:
            self.factor.length_scale[self.column] = scale


def _begin(factor: kernels.Factor, samples: Samples) -> list[_Width]:
    """Set the length scales that are to be chosen to where a search begins; return them."""
    given = factor.length_scale if isinstance(factor.length_scale, list) else [factor.length_scale]
    if LOO not in given:
        return []
    first = factor._first_scale(samples.x, samples.weight)
    if not isinstance(first, list):
        factor.length_scale = first
        return [_Width(factor, None, first, 2 * _WIDEST)]
    given = given if len(given) > 1 else given * len(first)
    factor.length_scale = [f if g == LOO else g for f, g in zip(first, given, strict=True)]
    extents = np.ptp(factor._encode(samples.x), axis=1)
    most = [int(2 * log2(max(1.0, _FLAT * e / f))) for e, f in zip(extents, first, strict=True)]
    chosen = [i for i, g in enumerate(given) if g == LOO and first[i] < inf]
    return [_Width(factor, i, first[i], most[i]) for i in chosen]


def _search(widths: list[_Width], error: Callable[[], tuple[float, float]], start: int) -> float:
    """Set widths by the least error, by coordinate descent; return the ridge.

    Steps are half octaves. First all widths change together, from `start` to narrower ones, and to
    wider ones while these are better; then one after another, from the best, by the first step that
    is better, until enough are tried. A width that has grown by its most stays there.
    """
    tried: dict[tuple[int, ...], tuple[float, float]] = {}

    def put(steps: tuple[int, ...]) -> None:
        for width, step in zip(widths, steps, strict=True):
            width.set(step)

    def at(steps: tuple[int, ...]) -> float:
        if steps not in tried:
            put(steps)
            tried[steps] = error()
        return tried[steps][0]

    def alike(octave: int) -> tuple[int, ...]:
        return tuple(min(2 * octave, width.most) for width in widths)

    def beside(steps: tuple[int, ...], i: int, by: int) -> tuple[int, ...]:
        return (*steps[:i], min(steps[i] + by, widths[i].most), *steps[i + 1 :])

    narrow = wide = start
    while narrow > _NARROWEST and not isinf(at(alike(narrow))):
        narrow -= 1
    while wide < _WIDEST and at(alike(wide + 1)) < at(alike(wide)):
        wide += 1
    best = min(map(alike, range(wide, narrow - 1, -1)), key=at)
    for by in (4, 2, 1):
        before = None
        while before != best:
            before = best
            for i, move in product(range(len(widths)), (by, -by)):
                if len(tried) < _MOST_TRIED and at(beside(best, i, move)) < _LESS * at(best):
                    best = beside(best, i, move)
    put(best)
    return tried[best][1]
