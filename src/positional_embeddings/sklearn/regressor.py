"""Regression by attention: local means and lines, weighted by a kernel."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
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
from positional_embeddings.arrays.forks import cached_property
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, ignore_fp_errors, np
from positional_embeddings.sklearn import frames, kernels
from positional_embeddings.sklearn.kernels import LOO, GaussianKernel, Kernel, Term, scale_of
from positional_embeddings.sklearn.smooth import (
    FitOptions,
    GroupParts,
    HoldOut,
    KernelSmoother,
    LeaveOut,
    Prediction,
    Samples,
    merge_locations,
)
from positional_embeddings.times.dates import is_missing
from positional_embeddings.times.durations import latitude_sign

# The largest number of observations that are left out, of samples around which balls of samples are
# hidden, and of balls around each of these.
_MAX_LEFT_OUT, _MAX_CENTERS, _MAX_BALLS = 2000, 300, 7

# The smallest number of observations that a search for many widths leaves out, and the width, in
# extents of a column, beyond which wider kernels change nothing.
_MIN_LEFT_OUT, _MAX_EXTENTS = 500, 4.0

# Ridges of lines, in squared widths times the sum of the squared weights; inf gives means.
_RIDGES = [0.25, 2.0, 16.0, inf]

# The widest and narrowest kernels of a search, in octaves of the initial width; the largest ratio
# of errors that is an improvement; and the largest number of kernels.
_MAX_OCTAVE, _MIN_OCTAVE, _MAX_RATIO, _MAX_KERNELS = 10, -24, 0.999, 60

# The number of octaves by which one factor of a product becomes narrower in a search.
_MAX_START_OCTAVES = 10

# The distance of the nearest neighbour, in widths, beyond which narrower kernels change nothing,
# without and with replicates: kernels widen, or replicates have all of the weight.
_MAX_DISTANCE, _MAX_DISTANCE_REPLICATED = 2.0, 6.0

# With many samples wide kernels are slow, and rarely the best: the octave where a search starts.
_MANY_SAMPLES, _START_OCTAVE = 20_000, -3

# Local noise: the largest number of squared errors; the narrowest kernel, in octaves of the kernel
# of the function; the smallest number of octaves from there to the extent of the samples; the
# standard errors by which its likelihood has to exceed that of constant noise; and the number of
# measurements whose weight the mean of all variances has.
_MAX_NOISE_ERRORS = 1000
_NOISE_OCTAVE, _NOISE_OCTAVES, _NOISE_MARGIN, _PRIOR_MEASUREMENTS = -3, 6, 2.0, 2.0

# The weight of each error, and the smallest extent of samples, in widths.
_BASE_WEIGHT, _MIN_EXTENT = 1e-3, 1e-3

# The largest number and the smallest difference whose squares are finite and nearly normal, and the
# smallest weight relative to the largest.
_MAX_VALUE, _MIN_DIFFERENCE, _MIN_WEIGHT = 1e150, 1e-150, 1e-100

# Noise is correlated if the squared error grows without the next locations on either side: by more
# than _MIN_GROWTH of itself and _MIN_STANDARD_ERRORS, by less than _MAX_GROWTH of itself, and
# without the next two by less than _MAX_CONVEXITY times as much again. The error of a smooth
# function grows more, and faster. Fewer locations than _MIN_LOCATIONS are too few.
_MIN_GROWTH, _MAX_GROWTH, _MIN_STANDARD_ERRORS, _MAX_CONVEXITY = 0.2, 3.0, 3.0, 2.0
_MIN_LOCATIONS = 20
_FAR_OUTSIDE = (
    "{} are farther outside of the samples, in a column, than a tenth of their range and a length "
    "scale: predictions may be wrong there, and bands far too narrow."
)
_CORRELATED_NOISE = (
    "Neighbouring errors are alike: without the next samples on either side, predictions are "
    "much worse, and not much worse again without the next two, as with correlated noise. Then "
    "widths are too small, and bands too narrow for the function. Pass `leave_out`, a span that is "
    "longer than the correlation, or `groups` to `fit`. Filter this warning if it is no noise."
)

_FLAT_PLACES = (
    "Distances of {} are those of a flat map, and are wrong near poles and the date line. Pass "
    "kernel=SphereKernel(columns={}), times a GaussianKernel of the other columns. "
    'kernel="gaussian" omits this warning.'
)
_NEW_PLACES = (
    "{} of {} are at places without samples, beside {} places with {:.0f} samples on average: "
    "widths that leave out one sample suit the sampled places alone. Pass the places as `groups` "
    "to `fit`."
)
# The smallest mean number of samples at a place for that warning.
_MIN_SAMPLES_PER_PLACE = 10

# The latitude and the range of longitudes from which distances of a flat map are wrong, in degrees.
_MAX_FLAT_LATITUDE, _MAX_FLAT_RANGE = 75.0, 180.0

# The largest extrapolation of checked bands, as a part of the range of the samples: ten tenths of a
# record can be hidden without an overlap.
_MAX_EXTRAPOLATION = 0.1

# The number of samples that is small if they have nearly all of the weight.
_FEW_SAMPLES = 10
_FEW_WEIGH = (
    f"Fewer than {_FEW_SAMPLES} samples have nearly all of the `sample_weight`: they alone "
    "determine widths and bands, and bands may be too narrow. Pass weights that differ less."
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

    Queries and keys are encodings of coordinates, values are measurements, and only the widths of
    kernels are chosen. This is local linear regression with a ridge on the slopes, or the
    Nadaraya-Watson estimator. A sum of kernels gives a sum of smooth functions.

    Parameters
    ----------
    kernel : "auto", "gaussian" or Kernel, default "auto"
        Weight of a sample at a query: "gaussian" is ``GaussianKernel(length_scale)``. "auto" is
        ``SphereKernel()`` for two columns named as latitude and longitude, such as lat and lon, in
        degrees, if `length_scale` is "loo"; else "gaussian". Kernels multiply and add:
        ``GaussianKernel(4.0) + PeriodicKernel(1.0, 0.02) * GaussianKernel(8.0)`` is a trend and a
        season that changes slowly.
    length_scale : float, span of time, sequence of these or "loo", default "loo"
        Width of the Gaussian kernel, in the unit of the columns: one number, or one for each
        column; spans such as "30D" for columns of times. "loo" chooses the width of each column by
        the least leave-one-out error; ``["loo", 2.0]`` chooses one of two. It is infinite for
        constant columns, which change nothing. A `Kernel` has its own widths.
    local_linear : bool, default True
        Whether to fit a line, or a plane, to the samples around a query. If False, or with products
        and periods, predict their mean. Lines follow slopes and edges. Slopes shrink where samples
        are few, and outside of the samples; the ridge is chosen with the widths. The cost of planes
        grows with the square of the number of columns: use means for more than about ten.
    leave_out : float or span of time, optional
        A sample is left out together with all samples within this distance, in the columns of
        times, or in all columns if none are times. "month" is the mean month of 30.436875 days,
        "year" 365.2425 days. Without it, correlated noise is fitted as a part of the function.
    cutoff : float, optional
        Omit samples whose squared distance from a query exceeds that of the nearest sample by more
        than ``cutoff**2`` squared widths, which is faster. 6 omits weights below 1.6e-8 of the
        largest one, None weights below 1.6e-18.
    block_size : int, optional
        Largest number of queries whose weights are computed at a time; 1,024 if None.
    max_iter : int, default 10
        Largest number of iterations of backfitting, for a sum of kernels.
    tol : float, default 1e-3
        Backfitting stops when no function changes by more than this fraction of the standard
        deviation of the measurements.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, with numbers as length scales.
    loo_error_ : array, shape (targets,) or ()
        Root mean square of the leave-one-out errors, at up to 2,000 random locations, with a fixed
        seed. NaN if there is one location.
    noise_std_ : array, shape (targets,) or ()
        Standard deviation of a measurement around the function: the root of the mean variance, if
        the variance differs between locations.
    n_iter_ : int
        Number of iterations of backfitting; `max_iter` if it did not converge.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    Warns
    -----
    UserWarning
        If widths are chosen without `leave_out` and groups, and noise is correlated: leaving out
        the next samples on either side raises the error, and leaving out the next two raises it no
        faster. If fewer than ten samples, less than a quarter of all, have nearly all of the
        `sample_weight`. If a target looks like angles, such as a direction of wind: fit its sine
        and cosine. If the default kernel has columns of latitude and longitude beside others, near
        a pole or around the Earth. In `predict`, if a few places have many samples each, and a
        query is at another place: pass `groups`. Places are columns named as latitude and
        longitude, those beside dates, or columns that repeat at the same samples, such as x and y.

    See Also
    --------
    PositionalEncoder : Encodings as columns, for other regressors.

    Notes
    -----
    At a query, the widths of a kernel grow by a factor :math:`e` with :math:`e^2 = \max(1, D^2 -
    3)`, where :math:`D` is the distance of the nearest sample in widths. The prediction for a
    query ahead of the samples is thus the mean of about as long a time. Far from all samples it is
    the mean of all. The kernel gives the weights :math:`p_i` of samples at :math:`x_i`; a line adds
    to their mean

    .. math::
        \min(1, 1.4 \sqrt{f} / M) \; t^T C, \quad t = -(V + \lambda I)^{-1} u, \quad M^2 = -t^T u,

    where, in :math:`f` columns in widths, :math:`u` is the mean of :math:`x_i` minus the query,
    :math:`V` the covariance of the :math:`x_i` and :math:`C` that with the measurements, and
    :math:`\lambda = e^2 k \sum p_i^2 + (e^2 - 1) |u|^2 / (|u|^2 + \mathrm{tr} V)`. The ridge
    :math:`k` is the best of 0.25, 2, 16 and infinity (a mean) if a width is chosen, else 0.25.

    Leave-one-out predictions hide samples. Where replicates, the measurements at one location,
    differ, one of these is hidden at a time. The variance of the noise is the mean square of the
    leave-one-out errors divided by the mean of :math:`1 + \sum l_i^2`, where :math:`l_i` is the
    weight of sample :math:`i` in a prediction. It is a local mean of these squares if this raises
    their leave-one-out likelihood by twice its standard error (for normal errors). The kernel of
    this mean has the most likely of :math:`2^{-3}, 2^{-2}, \ldots` times the length scales, and the
    mean of all squares is added as two measurements.

    The variance of a new measurement is that of the noise times :math:`1 + \sum l_i^2`, plus the
    squared bias of each function at this distance from the samples. It is at most the spread of `y`
    around the prediction. Hiding balls and half-spaces of samples estimates the squared bias.

    Replicates count as their mean, with one kernel weight; a sample of weight 2 counts as two equal
    replicates. All measurements have the same weight, also outliers: other weights would cost up
    to 3 % where noise grows, and a third of the rain in a record of daily rain.

    The leave-one-out error is that among neighbours: a width that is chosen by it is too small for
    wide gaps. Use a separate kernel of their width for such gaps. Where nights or weekends have no
    measurements, bands assume the usual errors: `GapFiller` warns of such times.

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

    kernel: str | Kernel = "auto"
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

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> "AttentionRegressor":
        """Store the samples, and choose the widths.

        Parameters
        ----------
        X : array or table, shape (samples, columns)
            Coordinates of the samples. Dates of NumPy, pandas or polars are days since 1970-01-01:
            in UTC if they have a zone, else in local time.
        y : array, shape (samples,) or (samples, targets)
            The measurements.
        sample_weight : array, shape (samples,), optional
            Weight of each sample, in any unit; 1 if None. Two equal samples at one location count
            as one with the sum of their weights.
        groups : array, shape (samples,), optional
            Labels, such as of stations or years: the samples of a group are left out together.

        Returns
        -------
        AttentionRegressor
            The fitted regressor.
        """
        fitted = copy(self)  # a fit that fails does not change this one
        with ignore_fp_errors():
            fitted._fit(X, y, sample_weight, groups)
            self.__dict__ = dict(vars(fitted))
            for target in self._model.samples.y:  # in the order of their locations
                if message := frames.message_of_angles("A target", target):
                    warn_caller(message)
            leaves_one_out = self.leave_out is None and groups is None
            if leaves_one_out and self._model.noise_is_correlated(self._times):
                warn_caller(_CORRELATED_NOISE)
        return self

    def _fit(self, X: Array, y: Array, sample_weight: Array, groups: Array) -> None:
        options = {name: check(name, getattr(self, name)) for name, check in _OPTIONS.items()}
        X, self._times = frames.times_to_days(X)
        with _reject_text("y"):  # text in `X` is already rejected
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
        # NumPy arrays in float64, for any library of `X`; results have the library of the samples.
        observations, group, *self._replicates = _average_replicates(X, y, sample_weight, groups)
        columns = self._times or [frames.Column(is_time=False, zone=None)] * X.shape[1]
        kernel = self._resolved_kernel(columns, observations.x)
        leaves_one_out = self.leave_out is None and group is None
        self._places = None
        if leaves_one_out:
            num_samples = self._replicates[0].size
            self._places = self._sampled_places(observations.x, columns, num_samples)
        leave_out = self._leave_out_rule(observations, group, [c.is_time for c in columns])
        model = AdditiveModel(kernel._terms(), observations, leave_out, options)
        self._is_flat = y.ndim == 1
        backend = get_backend(X=X)
        has_common_dtype = dtype_name(X.dtype) == dtype_name(y.dtype)
        is_common = is_real_floating(X.dtype, backend.xp) and has_common_dtype
        dtype = X.dtype if is_common else backend.widest_float_dtype
        self._empty = backend.xp.empty(0, dtype=dtype, device=backend.device)
        self.kernel_, self.n_iter_, self._model = kernel, model.n_iter, model
        self.loo_error_ = self._restore(model.loo_error)
        self.noise_std_ = self._restore(model.noise)

    def _leave_out_rule(self, observations: Samples, group: Array, is_time: list[bool]) -> LeaveOut:
        if group is not None:
            if self.leave_out is not None:
                requirement = "be None where `groups` are given"
                raise wrong_value("leave_out", requirement, format_value(self.leave_out))
            return merge_locations(observations, group)
        location = np.arange(observations.weight.size)
        if self.leave_out is None:  # other replicates stay
            labels, visible_part = location[None], 1 - 1 / observations.replicates
            return observations, location, HoldOut(labels, labels, 0.0, visible_part)
        radius = scale_of("leave_out", self.leave_out, is_time=any(is_time), is_period=True)
        labels = observations.x[is_time] if any(is_time) else observations.x
        hidden = HoldOut(labels, labels, radius, np.zeros_like(observations.weight))
        return observations, location, hidden

    def predict(self, X: Any, *, return_std: bool | str = False) -> Any:
        """Return the value of the smooth function.

        Parameters
        ----------
        X : array or table, shape (queries, columns)
            Coordinates of the queries, as in `fit`.
        return_std : bool or "mean", default False
            Also return the standard deviation of a new measurement: noise, the error that the noise
            of the samples causes, and the error far from samples. "mean" is that of the function,
            without the noise of a new measurement. Approximate for a sum of kernels; NaN if all
            samples are equal replicates at one location. It takes about 100 samples to show where
            noise changes. With fewer than 10 samples it is too small: bands of 95 % for 2, 5 and 10
            samples of a sine hold 53, 85 and 91 %.

        Returns
        -------
        array, shape (queries,) or (queries, targets)
            The mean, in the dtype of `X` and `y` together.
        array, shape (queries,) or (queries, targets)
            The standard deviation, if requested.

        Warns
        -----
        UserWarning
            If a standard deviation is requested, and a query is farther outside of the samples, in
            a column, than a tenth of their range and a length scale.
        """
        check_is_fitted(self)
        checks.choice("return_std", return_std, [True, False, "mean"])
        with ignore_fp_errors():
            X, times = frames.times_to_days(X)
            X = validate_data(self, X, reset=False)
            frames.check_times("X", times, self._times)
            check_same_namespace(X, self, attribute="_empty", method="predict")
            x = _columns_of("X", X)
            self._warn_of_new_places(x)
            prediction = self._model.predict(x, squares=bool(return_std))
            mean = self._restore(prediction.mean, X.dtype)
            if not return_std:
                return mean
            if count := np.count_nonzero(self._model.is_far_outside(x)):
                warn_caller(_FAR_OUTSIDE.format(f"{count} of {plural(x.shape[1], 'query')}"))
            std = self._model.std(x, prediction, measurements=0 if return_std == "mean" else 1)
            return mean, self._restore(std, X.dtype)

    def predict_left_out(self) -> Any:
        """Return the leave-one-out prediction of each sample.

        A regressor of the same widths, fitted without the samples that are left out together,
        predicts the same. For a sum of kernels it is approximate.

        Returns
        -------
        array, shape (samples,) or (samples, targets)
            The predictions, in the order of the samples of `fit` whose weight is not 0.
        """
        check_is_fitted(self)
        observation, deviation = self._replicates
        with ignore_fp_errors():
            prediction = self._model.predict_left_out(slice(None))
            weight = prediction.leverage * self._model.replicate_weights
            return self._restore(prediction.mean[:, observation] - weight[observation] * deviation)

    def _restore(self, rows: HostArray, dtype: Dtype = None) -> Array:
        """Return (targets, queries) in scikit-learn's layout and the library of the samples."""
        rows = rows[0, ...] if self._is_flat else rows.T
        backend = get_backend(X=self._empty)
        is_floating = dtype is not None and is_real_floating(dtype, backend.xp)
        # The numbers of `y` may be too large for the dtype of queries.
        dtype = (
            backend.xp.result_type(dtype, self._empty.dtype)
            if is_floating
            else backend.widest_float_dtype
        )
        return backend.xp.asarray(rows, dtype=dtype, device=backend.device)

    def _sampled_places(
        self, x: HostArray, columns: list[frames.Column], num_samples: int
    ) -> tuple[list[int], set[Any], float] | None:
        """Return the columns of places, few places and their mean number of samples, or None."""
        indices = _place_columns(x, list(getattr(self, "feature_names_in_", ())))
        if not indices and any(column.is_date for column in columns):
            indices = [j for j, column in enumerate(columns) if not column.is_time]
        max_places = num_samples / _MIN_SAMPLES_PER_PLACE
        indices = indices or _columns_that_repeat_together(x, max_places)
        if not 2 <= len(indices) < x.shape[0]:
            return None
        places = set(map(tuple, x[indices].T.tolist()))
        is_few = 2 <= len(places) <= max_places
        return (indices, places, num_samples / len(places)) if is_few else None

    def _warn_of_new_places(self, x: HostArray) -> None:
        if self._places is None or not self._model.has_chosen_widths:
            return
        indices, places, mean_count = self._places
        if count := sum(place not in places for place in map(tuple, x[indices].T.tolist())):
            queries = plural(x.shape[1], "query")
            warn_caller(_NEW_PLACES.format(count, queries, len(places), mean_count))

    def _resolved_kernel(self, columns: list[frames.Column], x: HostArray) -> Kernel:
        """Return a checked copy of the kernel, with numbers for names and spans."""
        names = list(getattr(self, "feature_names_in_", ()))
        if not isinstance(self.kernel, Kernel):
            if not (isinstance(self.kernel, str) and self.kernel in ("auto", "gaussian")):
                raise kernels.wrong_kernel(
                    "kernel", 'be "auto", "gaussian" or a kernel', self.kernel
                )
            is_default = isinstance(self.length_scale, str) and self.length_scale == LOO
            kernel = GaussianKernel(clone(self.length_scale, safe=False))
            if self.kernel == "auto" and is_default and (places := _place_columns(x, names)):
                if x.shape[0] == 2:
                    kernel = kernels.SphereKernel()
                elif (
                    abs(x[places[0]]).max() > _MAX_FLAT_LATITUDE
                    or np.ptp(x[places[1]]) > _MAX_FLAT_RANGE
                ):
                    place_names = [names[i] for i in places]
                    warn_caller(_FLAT_PLACES.format(" and ".join(place_names), place_names))
        elif isinstance(self.length_scale, str) and self.length_scale == LOO:
            kernel = clone(self.kernel)
        else:
            requirement = 'be "loo" if `kernel` is a kernel, which has its own'
            raise wrong_value("length_scale", requirement, format_value(self.length_scale))
        for factor in chain.from_iterable(kernel._terms()):
            factor._resolve(columns, names)
        return kernel


def _place_columns(x: HostArray, names: list[str]) -> list[int]:
    """Return the indices of one latitude and one longitude, by name and in degrees, or []."""
    signs = [*map(latitude_sign, names)]
    if signs.count(1) != 1 or signs.count(-1) != 1:
        return []
    places = [signs.index(1), signs.index(-1)]
    return places if (abs(x[places]).max(axis=1) <= (90.0, 360.0)).all() else []


def _columns_that_repeat_together(x: HostArray, max_values: float) -> list[int]:
    """Return the indices of columns with few values and equal at the same samples, or []."""
    columns: dict[bytes, list[int]] = {}
    for j, column in enumerate(x):
        _, first, inverse = np.unique(column, return_index=True, return_inverse=True)
        if 2 <= first.size <= max_values:
            columns.setdefault(first[inverse].tobytes(), []).append(j)
    return max(columns.values(), key=len, default=[])


def _columns_of(name: str, array: Array) -> HostArray:
    """Return an array of any library as a NumPy array in float64, (columns, rows)."""
    rows = get_backend(array=array).to_numpy(array)
    if rows.dtype.kind not in "biuf":
        raise wrong_type(name, "hold numbers", str(rows.dtype))
    exact, rows = rows, rows.astype(np.float64, copy=False).reshape(rows.shape[0], -1)
    max_value = abs(rows).max()
    if not max_value <= _MAX_VALUE:
        actual = "a missing number" if np.isnan(max_value) else f"{max_value} or beyond"
        raise wrong_value(name, f"be within {_MAX_VALUE} of 0", actual)
    if exact.dtype.kind in "iu" and max_value >= 2.0**53:  # float64 holds each smaller integer
        frames.check_distinct(name, exact, rows)
    return rows.T


@contextmanager
def _reject_text(name: str) -> Iterator[None]:
    """Name the argument in the error for text; NumPy's error shows only the text."""
    try:
        yield
    except ValueError as error:
        if "could not convert" in str(error):
            raise wrong_type(name, "hold numbers", "text") from None
        raise


def _normalize_weight(sample_weight: Any, X: Array) -> Array:
    """Return the weight of each sample, at most 1, and none above 0 negligible."""
    kind = getattr(getattr(sample_weight, "dtype", None), "kind", "f")
    # scikit-learn would use the real part, or the counts of a unit.
    if isinstance(sample_weight, complex) or kind in "mM":
        raise wrong_type("sample_weight", "hold real numbers", format_value(sample_weight))
    with _reject_text("sample_weight"):
        weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    weight = get_backend(weight=weight).to_numpy(weight).astype(np.float64)
    weight = weight / weight.max()
    effective_size = weight.sum() ** 2 / (weight**2).sum()
    if effective_size < min(_FEW_SAMPLES, np.count_nonzero(weight) / 4):
        warn_caller(_FEW_WEIGH)
    return np.where(weight > 0, np.maximum(weight, _MIN_WEIGHT), 0)


def _encode_groups(groups: Any, X: Array) -> HostArray:
    """Return an integer for each label of groups."""
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


def _average_replicates(
    X: Array, y: Array, sample_weight: Array, groups: Array
) -> tuple[Samples, HostArray | None, HostArray, HostArray]:
    """Return the mean, weight and variance of the samples of each location (and group).

    Also return the groups of these observations. For each sample with a weight above 0, return its
    observation and its deviation from the mean, (targets, samples).
    """
    x, y = _columns_of("X", X), _columns_of("y", y)
    for name, numbers in ("X", x), ("y", y):
        frames.check_extents(name, numbers, _MIN_DIFFERENCE)
    num_columns, weight = x.shape[0], _normalize_weight(sample_weight, X)
    # Sorted by location, then by group.
    keys = x if groups is None else np.concatenate([_encode_groups(groups, X)[None], x])
    positive = np.flatnonzero(weight)
    order = np.lexsort(keys[:, positive])
    keys, y, weight = (a[..., positive[order]] for a in (keys, y, weight))
    is_new = np.concatenate([[True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    observation, starts = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
    total = np.add.reduceat(weight, starts)
    mean = np.add.reduceat(weight * y, starts, axis=1) / total
    deviation = y - mean[:, observation]
    variance = np.add.reduceat(weight * deviation**2, starts, axis=1) / total
    # Equal measurements count as one, as a weight of 2 does.
    low, high = (f.reduceat(y, starts, axis=1) for f in (np.minimum, np.maximum))
    effective_size = total**2 / np.add.reduceat(weight**2, starts)
    replicates = np.where((low < high).any(axis=0), effective_size, 1.0)
    group = None if groups is None else keys[0, starts].astype(np.int64)
    observations = Samples(keys[-num_columns:, starts], mean, total, variance, replicates)
    inverse = np.argsort(order)
    return observations, group, observation[inverse], deviation[:, inverse]


# The smooth functions of a sum.


_mean: Any = partial(np.average, axis=-1, keepdims=True)


def _random_subset(size: int, max_size: int) -> Array:
    """Return all indices, or a random subset; regular steps could be in phase with periods."""
    return np.sort(np.random.default_rng(0).choice(size, min(size, max_size), replace=False))


def _shrink(prediction: Prediction, smoother: KernelSmoother) -> Array:
    """Return local variances over their mean, shrunk towards 1."""
    weight = _PRIOR_MEASUREMENTS * smoother.mean_weight * prediction.leverage[0]
    return (prediction.mean[0] + weight) / (1 + weight)


class _SquaredBias(NamedTuple):
    """Squared errors of a term beyond the noise, over the spread, as functions of the distance."""

    interior: Callable[[HostArray], HostArray]  # of a query with samples all around
    boundary: Callable[[HostArray], HostArray]  # of a query with samples on one side


class AdditiveModel:
    """A sum of smooth functions of the coordinates, each with a kernel."""

    def __init__(
        self, terms: list[Term], observations: Samples, leave_out: LeaveOut, options: FitOptions
    ) -> None:
        """Fit the sum to samples, which `leave_out` forms from the observations."""
        self.samples, self._location, self._hidden = leave_out
        self.observations, self._options, self.n_iter = observations, options, 1
        samples = self.samples
        self._size = samples.x.shape[1]
        self._deviation = observations.y - samples.y[:, self._location]
        self._local_noise: tuple[KernelSmoother, Array] | None = None
        # Hiding one replicate of deviation d subtracts this times the leverage times d.
        weight = self._hidden.visible_part * observations.weight / samples.weight.max()
        self.replicate_weights = weight / np.maximum(observations.replicates - 1, 1.0)
        # The functions have a mean of 0, so that they do not depend on the level.
        self._level = _mean(samples.y, weights=samples.weight)
        y = samples.y - self._level
        self._spread = _mean(y**2 + samples.variance, weights=samples.weight)
        # All targets have the same weight, for any units.
        self._scale = np.where(self._spread > 0, self._spread, 1.0)
        widths = [[w for f in term for w in _initial_widths(f, samples)] for term in terms]
        self._terms = [self._smoother(term, y) for term in terms]
        self._backfit()
        self.has_chosen_widths = any(widths)
        if self.has_chosen_widths:
            for i, term in enumerate(self._terms):
                if widths[i]:
                    ridge = self._choose_widths(term, widths[i])
                    self._terms[i] = self._smoother(term.factors, term.y, [ridge])
            self._backfit()
        self._estimate_noise()

    def _smoother(self, term: Term, y: HostArray, ridges: Any = None) -> KernelSmoother:
        ridges = ridges or [_RIDGES[0] if self._is_linear(term) else inf]
        return KernelSmoother(term, self.samples._replace(y=y), ridges, self._options)

    def _is_linear(self, term: Term) -> bool:
        """Whether to fit lines, which only radial kernels outside of products do."""
        option: bool | None = getattr(term[0], "local_linear", False) if len(term) == 1 else False
        return self._options["local_linear"] if option is None else option

    def _backfit(self) -> None:
        """Fit each function in turn to its partial residuals, until all converge."""
        y = self.samples.y - self._level
        fitted = np.zeros((len(self._terms), *y.shape))
        tolerance = self._options["tol"] * self._spread.max() ** 0.5
        max_iter = self._options["max_iter"] if len(self._terms) > 1 else 0
        for n_iter in range(1, max_iter + 1):
            self.n_iter, previous = n_iter, fitted.copy()
            for i, term in enumerate(self._terms):
                term.y = y - (fitted.sum(axis=0) - fitted[i])
                mean = term.predict(self.samples.x, None, squares=False).mean[0]
                level = _mean(mean, weights=self.samples.weight)
                fitted[i], term.y = mean - level, term.y - level
            if abs(fitted - previous).max() <= tolerance:
                break
        self._partial_residuals = y - (fitted.sum(axis=0) - fitted)

    def _choose_widths(self, term: KernelSmoother, widths: list["_Width"]) -> float:
        """Set the widths of a term with the least leave-one-out error; return the ridge."""
        size = max(_MIN_LEFT_OUT, _MAX_LEFT_OUT // len(widths))
        rows = _random_subset(self._location.size, size)
        observations, hidden = self.observations.take(rows), self._hidden.take(rows)
        max_distance = np.where(hidden.sees_location, _MAX_DISTANCE_REPLICATED, _MAX_DISTANCE)
        ridges = _RIDGES if self._is_linear(term.factors) else [inf]

        def error() -> tuple[float, float]:
            smoother = self._smoother(term.factors, term.y, ridges)
            prediction = smoother.predict(observations.x, hidden, squares=False)
            if np.median(prediction.distance / max_distance) > 1:
                return inf, inf
            squares = self._squared_errors(prediction, term.y, rows)
            errors = (_mean(squares, weights=observations.weight) / self._scale).sum(axis=(1, 2))
            best = int(errors.argmin())
            return float(errors[best]), ridges[best]

        return _search(widths, error, _START_OCTAVE if self._size > _MANY_SAMPLES else 0)

    def _squared_errors(self, prediction: Prediction, y: HostArray, rows: HostArray) -> Array:
        """Return squared leave-one-out errors, (..., targets, observations)."""
        weight = (prediction.leverage * self.replicate_weights[rows])[..., None, :]
        y = y[:, self._location[rows]] + self._deviation[:, rows]
        variance = self.observations.variance[:, rows] * (1 + weight) ** 2
        return (prediction.mean - y) ** 2 + variance

    def predict(
        self, x: HostArray, hidden: HoldOut | GroupParts | None = None, *, squares: bool
    ) -> Prediction:
        """Return the sum of the functions, (targets, queries), and of their squared weights."""
        parts = [term.predict(x, hidden, squares=squares) for term in self._terms]
        means, leverage, square, distance, asymmetry = map(np.stack, zip(*parts, strict=True))
        mean = self._level + means[:, 0].sum(axis=0)
        return Prediction(mean, leverage[:, 0].sum(axis=0), square.sum(axis=0), distance, asymmetry)

    def predict_left_out(self, rows: Array) -> Prediction:
        """Return leave-one-out predictions of some observations, approximate for a sum."""
        return self.predict(self.observations.x[:, rows], self._hidden.take(rows), squares=True)

    def _estimate_noise(self) -> None:
        """Set the leave-one-out error and the standard deviation of the noise."""
        observations = self.observations
        if observations.weight.size == 1 and observations.replicates[0] == 1:
            self.loo_error = self.noise = np.full(observations.y.shape[0], nan)
            return
        rows = _random_subset(observations.weight.size, _MAX_LEFT_OUT)
        prediction = self.predict_left_out(rows)
        if np.isnan(prediction.mean).any():
            requirement = "leave each sample another one that predicts it"
            raise wrong_value("leave_out", requirement, "none for some sample")
        errors = self._squared_errors(prediction, self.samples.y, rows)
        # The squared weights of the other replicates at a location.
        weight = prediction.leverage * self.replicate_weights[rows]
        replicates = weight**2 * (1 - 1 / observations.replicates[rows])
        factors = 1 + prediction.squares + replicates
        square, factor = (_mean(a, weights=observations.weight[rows]) for a in (errors, factors))
        self.loo_error, self.noise = np.sqrt(square)[:, 0], np.sqrt(square / factor)[:, 0]
        noise = np.where(square > 0, square / factor, 1.0)
        ratios = np.where(square > 0, errors / factors / noise, 1.0)
        subset = _random_subset(rows.size, _MAX_NOISE_ERRORS)
        self._estimate_local_noise(rows[subset], ratios[:, subset])

    def _estimate_local_noise(self, rows: Array, ratios: HostArray) -> None:
        """Smooth relative squared errors, if this raises their cross-validated likelihood."""
        observations = self.observations.take(rows)
        observations = observations._replace(y=ratios, variance=np.zeros_like(ratios))
        samples, hidden = self._hidden.restrict(rows, observations)
        replicate_weights, min_score = self.replicate_weights[rows], 0.0
        for term in self._terms:
            extent = np.ptp(term.points(samples.x), axis=0).max()
            last = ceil(log2(max(extent, _MIN_EXTENT)))
            for octave in range(min(_NOISE_OCTAVE, last - _NOISE_OCTAVES), last + 1):
                smoother = KernelSmoother(term.factors, samples, [inf], self._options, 2.0**octave)
                prediction = smoother.predict(observations.x, hidden, squares=False)
                noise = _shrink(prediction, smoother)
                # -2 times the log-likelihood relative to constant noise, and a correction for the
                # weight of the other replicates.
                squared_ratio = (ratios / noise) ** 2
                correction = 2 * prediction.leverage[0] * replicate_weights * squared_ratio
                scores = np.log(noise) + ratios / noise - ratios + correction
                mean = _mean(scores, weights=observations.weight)
                variance = 2 * (ratios / noise - ratios) ** 2 * (1 - 1 / observations.replicates)
                square = _mean((scores - mean) ** 2 + variance, weights=observations.weight)
                standard_error = np.sqrt(square / observations.replicates.sum())
                is_local = mean + _NOISE_MARGIN * standard_error < 0
                score = mean[is_local].sum()
                if score < min_score:
                    min_score, self._local_noise = score, (smoother, is_local)

    def _noise_ratios(self, x: HostArray) -> Array:
        """Return the variance of a measurement over its mean, (targets, queries)."""
        if self._local_noise is None:
            return np.ones((1, 1))
        smoother, is_local = self._local_noise
        local = _shrink(smoother.predict(x, None, squares=False), smoother)
        return np.where(is_local, local, 1.0)

    def noise_is_correlated(self, columns: list[frames.Column] | None) -> bool:
        """Return whether neighbouring errors correlate along the only column, or that of times."""
        x = self.samples.x
        line = x[[column.is_time for column in columns]] if columns else x
        line = line[np.ptp(line, axis=1) > 0]
        rank = np.unique(line, return_inverse=True)[1].reshape(line.shape).astype(np.float64)
        if not self.has_chosen_widths or line.shape[0] != 1 or rank.max() < _MIN_LOCATIONS:
            return False
        rows, errors = _random_subset(self._size, _MIN_LEFT_OUT), []
        samples = self.samples.take(rows)
        for num_neighbours in (0, 1, 2):
            hidden = HoldOut(rank[:, rows], rank, num_neighbours, np.zeros(rows.size))
            mean = self.predict(samples.x, hidden, squares=False).mean
            squared_errors = (mean - samples.y) ** 2 + samples.variance
            errors.append((squared_errors / self._scale).sum(axis=0))
        weight = samples.weight / samples.weight.sum()
        error, first, second = np.stack([errors[0], *np.diff(errors, axis=0)]) @ weight
        standard_error = np.linalg.norm(weight * (errors[1] - errors[0] - first))
        min_growth = max(_MIN_GROWTH * error, _MIN_STANDARD_ERRORS * standard_error)
        return bool(min_growth < first < _MAX_GROWTH * error and second < _MAX_CONVEXITY * first)

    @cached_property
    def _squared_biases(self) -> list[_SquaredBias]:
        return [*map(self._squared_bias, self._terms, self._partial_residuals)]

    def _squared_bias(self, term: KernelSmoother, y: HostArray) -> _SquaredBias:
        """Return the squared bias of a term as a function of the distance of the nearest samples.

        Errors are measured at some samples, with growing balls or half-balls around them hidden.
        """
        subset, rng = _random_subset(self._size, _MAX_LEFT_OUT), np.random.default_rng(0)
        samples = self.samples.take(subset)._replace(y=y[:, subset])
        smoother = KernelSmoother(term.factors, samples, term.ridges, self._options)
        rows = _random_subset(subset.size, _MAX_CENTERS)
        # Equal phases are one point of the kernel, for any rounding.
        points = term.points(samples.x).T.round(6)
        varies = np.ptp(points, axis=1) > 0
        points = points[varies | ~varies.any()]
        point = np.unique(points, axis=1, return_inverse=True)[1].ravel()
        replicates = np.bincount(point, samples.replicates)[point]
        ratios = self._noise_ratios(samples.x[:, rows])
        variance = self.noise[:, None] ** 2 * ratios
        # Weights by the precision of the errors.
        precision = np.broadcast_to(1 / ratios.mean(axis=0) ** 2, rows.shape)
        max_radius, nothing = float(np.ptp(points, axis=1).max()), np.zeros(rows.size)

        def errors(axis: int, radius: float) -> Array:
            """Return squared biases, distances, asymmetries and precisions for one radius."""
            labels, side = np.roll(points, axis, axis=0), rng.integers(-1, 2, rows.size)
            hidden = HoldOut(labels[:, rows], labels, radius, nothing, side)
            prediction = smoother.predict(samples.x[:, rows], hidden, squares=True)
            noise = variance * (1 / samples.replicates[rows] + prediction.squares)
            bias = (samples.y[:, rows] - prediction.mean[0]) ** 2 - noise
            bias = (bias / self._scale).mean(axis=0)
            return np.stack([bias, prediction.distance, prediction.asymmetry, precision])

        table = [errors(0, 0.0)]
        min_distance = float(np.median(table[0][1]))
        # Replicated points have no bias at a distance of 0.
        num_replicated = (replicates[rows] > 1).sum()
        table.append(np.repeat([[0.0], [0.0], [0.0], [1.0]], num_replicated, axis=1))
        has_radii = 0 < min_distance < max_radius
        radii = np.geomspace(min_distance / 2, max_radius / 2, _MAX_BALLS) if has_radii else ()
        table += [errors(i, radius) for i, radius in enumerate(radii, 1)]
        table = np.concatenate(table, axis=1)
        bias, distance, asymmetry, precision = table[:, np.isfinite(table[0])]
        if not bias.size:  # all samples are at one point of the kernel
            return _SquaredBias(np.zeros_like, np.zeros_like)
        # Equal steps have equal distances, for any rounding.
        distance = np.round(distance, 3)
        fits = [IsotonicRegression(y_min=0.0, out_of_bounds="clip") for _ in range(2)]
        weights = precision * (_BASE_WEIGHT + 1 - asymmetry), precision * (_BASE_WEIGHT + asymmetry)
        fitted = [f.fit(distance, bias, w) for f, w in zip(fits, weights, strict=True)]
        return _SquaredBias(*(fit.predict for fit in fitted))

    def is_far_outside(self, x: HostArray) -> Array:
        """Return whether each query is farther outside of the samples than checked bands."""
        is_far = np.zeros(x.shape[1], dtype=bool)
        for term in self._terms:
            samples, queries = term.points(self.samples.x), term.points(x)
            low, high = samples.min(axis=0), samples.max(axis=0)
            margin = np.maximum(_MAX_EXTRAPOLATION * (high - low), 1.0)
            is_far |= ((queries < low - margin) | (queries > high + margin)).any(axis=1)
        return is_far

    def std(self, x: HostArray, prediction: Prediction, measurements: int) -> Array:
        """Return the standard deviations of the function, or of new measurements, at x."""
        ratios = self._noise_ratios(x)
        variance = self.noise[:, None] ** 2 * ratios * (measurements + prediction.squares)
        parts = zip(self._squared_biases, prediction.distance, prediction.asymmetry, strict=True)
        for bias, distance, asymmetry in parts:
            interior, boundary = bias.interior(distance), bias.boundary(distance)
            squared_bias = (1 - asymmetry) * interior + asymmetry * boundary
            variance = variance + self._spread * squared_bias
        max_variance = self._spread + (prediction.mean - self._level) ** 2
        return np.sqrt(np.minimum(variance, max_variance * np.maximum(ratios, 1.0)))


# Choosing widths.


class _Width(NamedTuple):
    """A length scale to be chosen, of a factor or of one of its columns."""

    factor: kernels.Factor
    column: int | None
    initial: float
    max_step: int  # largest number of half octaves above the initial width

    def set(self, half_octaves: int) -> None:
        scale = self.initial * 2 ** (half_octaves / 2)
        if self.column is None:
            self.factor.length_scale = scale
        else:
            self.factor.length_scale[self.column] = scale


def _initial_widths(factor: kernels.Factor, samples: Samples) -> list[_Width]:
    """Set the length scales to be chosen to their initial values; return them."""
    scales = factor.length_scale if isinstance(factor.length_scale, list) else [factor.length_scale]
    if LOO not in scales:
        return []
    initial = factor._initial_scale(samples.x, samples.weight)
    if not isinstance(initial, list):
        factor.length_scale = initial
        return [_Width(factor, None, initial, 2 * _MAX_OCTAVE)]
    scales = scales if len(scales) > 1 else scales * len(initial)
    factor.length_scale = [f if s == LOO else s for f, s in zip(initial, scales, strict=True)]
    extents = np.ptp(factor._encode(samples.x), axis=1)
    ratios = [max(1.0, _MAX_EXTENTS * e / f) for e, f in zip(extents, initial, strict=True)]
    chosen = [i for i, scale in enumerate(scales) if scale == LOO and initial[i] < inf]
    return [_Width(factor, i, initial[i], int(2 * log2(ratios[i]))) for i in chosen]


def _search(widths: list[_Width], error: Callable[[], tuple[float, float]], start: int) -> float:
    """Set widths with the least error, by coordinate descent; return the ridge.

    A step is half an octave. First all widths change together, from `start` to narrower widths, and
    to wider ones while the error falls. Then the widths change one after another, by the first step
    that improves the error, for a limited number of errors. No width exceeds its maximum. In a
    product, this also starts from one narrow factor, and others as wide as possible, where this
    start has a smaller error.
    """
    errors: dict[tuple[int, ...], tuple[float, float]] = {}

    def set_widths(steps: tuple[int, ...]) -> None:
        for width, step in zip(widths, steps, strict=True):
            width.set(step)

    def error_of(steps: tuple[int, ...]) -> float:
        if steps not in errors:
            set_widths(steps)
            errors[steps] = error()
        return errors[steps][0]

    def uniform(octave: int) -> tuple[int, ...]:
        return tuple(min(2 * octave, width.max_step) for width in widths)

    def neighbour(steps: tuple[int, ...], i: int, step: int) -> tuple[int, ...]:
        return (*steps[:i], min(steps[i] + step, widths[i].max_step), *steps[i + 1 :])

    low = high = start
    while low > _MIN_OCTAVE and not isinf(error_of(uniform(low))):
        low -= 1
    while high < _MAX_OCTAVE and error_of(uniform(high + 1)) < error_of(uniform(high)):
        high += 1

    def descend(best: tuple[int, ...]) -> tuple[int, ...]:
        for size in (4, 2, 1):
            previous = None
            while previous != best:
                previous = best
                for i, step in product(range(len(widths)), (size, -size)):
                    steps = neighbour(best, i, step)
                    if len(errors) < _MAX_KERNELS and error_of(steps) < _MAX_RATIO * error_of(best):
                        best = steps
        return best

    best = descend(min(map(uniform, range(high, low - 1, -1)), key=error_of))
    factors = list({id(width.factor): width.factor for width in widths}.values())
    starts = []
    for factor in factors if len(factors) > 1 else ():
        for octave in range(start, start - _MAX_START_OCTAVES, -2):
            pairs = zip(widths, uniform(octave), strict=True)
            steps = tuple(s if width.factor is factor else width.max_step for width, s in pairs)
            if len(errors) >= _MAX_KERNELS or isinf(error_of(steps)):
                break
            starts.append(steps)
    if starts and error_of(other := min(starts, key=error_of)) < _MAX_RATIO * error_of(best):
        best = descend(other)
    set_widths(best)
    return errors[best][1]
