"""`AttentionRegressor` against smoothers written with loops, and scikit-learn's own checks."""

import doctest
import importlib
import math
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn.base", reason="the group test lacks it")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    PeriodicKernel,
    ProductKernel,
    SphereKernel,
    SumKernel,
)


def gaussian(scales):
    return lambda a, b: math.exp(
        -sum(((x - y) / h) ** 2 for x, y, h in zip(a, b, scales, strict=True)) / 2
    )


def periodic(period, scale):
    unit = 2 * math.pi / period
    return lambda a, b: math.exp((math.cos(unit * (a[0] - b[0])) - 1) / (unit * scale) ** 2)


def on_sphere(scale):
    def place(p):
        lat, lon = map(math.radians, p)
        return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)

    def weight(a, b):
        cos = sum(x * y for x, y in zip(place(a), place(b), strict=True))
        return math.exp((cos - 1) / math.radians(scale) ** 2)

    return weight


def weights_at(q, x, kernel, linear_scales=None, counts=None):
    """Return the weight of each sample in the prediction at q."""
    counts = [1.0] * len(x) if counts is None else counts
    w = np.array([c * kernel(q, p) for p, c in zip(x, counts, strict=True)])
    w /= w.sum()
    if linear_scales is None:
        return w
    # Weighted least squares of a plane, by its normal equations.
    design = np.array([[1.0, *((np.asarray(p) - q) / linear_scales)] for p in x])
    ridge = np.diag([0.0] + [1e-6] * len(q))
    return np.linalg.solve(design.T @ (w[:, None] * design) + ridge, design.T * w)[0]


CASES = {
    "mean": (GaussianKernel(0.7, local_linear=False), gaussian([0.7]), None, 1),
    "line": (GaussianKernel(0.7), gaussian([0.7]), [0.7], 1),
    "plane": (GaussianKernel([0.9, 1.7]), gaussian([0.9, 1.7]), [0.9, 1.7], 2),
    "column": (
        GaussianKernel(0.8, columns=[1]),
        lambda a, b: gaussian([0.8])(a[1:], b[1:]),
        None,
        2,
    ),
    "periodic": (PeriodicKernel(2.0, 0.2), periodic(2.0, 0.2), None, 1),
    "product": (
        PeriodicKernel(2.0, 0.2) * GaussianKernel(3.0),
        lambda a, b: periodic(2.0, 0.2)(a, b) * gaussian([3.0])(a, b),
        None,
        1,
    ),
    "sphere": (SphereKernel(12.0), on_sphere(12.0), None, 2),
}


def samples(columns, n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, (n, columns))
    return x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block_size", [None, 7])
def test_predictions_and_their_spread(name, block_size):
    kernel, weight, linear, columns = CASES[name]
    if name == "column":
        kernel = kernel.set_params(local_linear=False)
    x, y = samples(columns)
    q = np.linspace(-5, 5, 11)[:, None] * np.ones(columns)
    model = AttentionRegressor(kernel, block_size=block_size).fit(x, y)
    mean, std = model.predict(q, return_std=True)
    rows = np.array([weights_at(p, x, weight, linear) for p in q])
    np.testing.assert_allclose(mean, rows @ y, rtol=1e-8, atol=1e-9)
    expected = model.noise_std_ * np.sqrt(1 + np.sum(rows**2, axis=1))
    np.testing.assert_allclose(std, expected, rtol=1e-7)
    np.testing.assert_array_equal(model.predict(q), mean)


@pytest.mark.parametrize("name", ["mean", "line", "plane", "product", "sphere"])
def test_leaving_one_out_is_exact(name):
    kernel, weight, linear, columns = CASES[name]
    x, y = samples(columns)
    model = AttentionRegressor(kernel).fit(x, y)
    expected = []
    for i in range(len(x)):
        rest = np.arange(len(x)) != i
        expected.append(weights_at(x[i], x[rest], weight, linear) @ y[rest])
    np.testing.assert_allclose(model.predict_left_out(), expected, atol=1e-5)
    errors = y - model.predict_left_out()
    assert model.loo_error_ == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_noise_is_found():
    rng = np.random.default_rng(1)
    x = np.linspace(0, 10, 2500)[:, None]
    y = np.sin(x[:, 0]) + 0.3 * rng.standard_normal(2500)
    model = AttentionRegressor().fit(x, y)
    assert model.noise_std_ == pytest.approx(0.3, rel=0.05)
    new = rng.uniform(0, 10, (4000, 1))
    mean, std = model.predict(new, return_std=True)
    measured = np.sin(new[:, 0]) + 0.3 * rng.standard_normal(4000)
    assert np.mean(np.abs(measured - mean) < 1.96 * std) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("name", ["mean", "line", "plane", "product"])
@pytest.mark.parametrize("counted", [False, True])
def test_noise_is_what_residuals_have_of_it(name, counted):
    """Of a smoother S, residuals have 1 - 2 S_ii + sum_j S_ij**2 of its square."""
    kernel, weight, linear, columns = CASES[name]
    x, y = samples(columns)
    counts = np.random.default_rng(5).integers(1, 4, 40).astype(float) if counted else np.ones(40)
    s = np.array([weights_at(p, x, weight, linear, counts) for p in x])
    own = np.diag(s) / counts  # the weight of one of them
    share = 1 - 2 * own + np.sum(s**2 / counts, axis=1)
    expected = np.sqrt(np.sum(counts * (y - s @ y) ** 2) / np.sum(counts * share))
    model = AttentionRegressor(kernel).fit(x, y, sample_weight=counts)
    assert model.noise_std_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_noise_of_narrow_kernels(width):
    x = np.arange(4000.0)[:, None]
    y = np.random.default_rng(0).standard_normal(4000)
    for linear in (False, True):
        model = AttentionRegressor(GaussianKernel(width), local_linear=linear).fit(x, y)
        assert model.noise_std_ == pytest.approx(1, abs=0.06)


def test_errors_of_a_sum_are_near_those_of_refits():
    t = np.linspace(0, 8, 60)[:, None]
    y = 0.5 * t[:, 0] + np.sin(2 * np.pi * t[:, 0])
    y = y + 0.2 * np.random.default_rng(2).standard_normal(60)
    kernel = GaussianKernel(2.0) + PeriodicKernel(1.0, 0.05)
    model = AttentionRegressor(kernel, max_iter=50, tol=1e-6).fit(t, y)
    refits = []
    for i in range(60):
        rest = np.arange(60) != i
        refit = AttentionRegressor(kernel, max_iter=50, tol=1e-6).fit(t[rest], y[rest])
        refits.append(refit.predict(t[i : i + 1])[0])
    np.testing.assert_allclose(model.predict_left_out(), refits, atol=0.1 * np.std(y))
    rms = np.sqrt(np.mean((y - refits) ** 2))
    assert model.loo_error_ == pytest.approx(rms, rel=0.1)
    assert model.noise_std_ == pytest.approx(0.2, rel=0.25)


@settings(max_examples=25, deadline=None)
@given(
    slope=st.lists(st.floats(-5, 5), min_size=2, max_size=2),
    level=st.floats(-10, 10),
    scale=st.floats(0.5, 5),
)
def test_planes_are_reproduced(slope, level, scale):
    """A local plane is exact for a plane, at the edge of the samples and beyond it, too."""
    x, _ = samples(2, 60)
    model = AttentionRegressor(GaussianKernel(scale)).fit(x, x @ slope + level)
    q = np.array([[0.0, 0.0], [4.0, -4.0], [4.5, 4.5]])
    np.testing.assert_allclose(model.predict(q), q @ slope + level, atol=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_weights_of_samples_count_them(data):
    x, y = samples(1, 12)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12).filter(any))
    kernel = data.draw(st.sampled_from([GaussianKernel(1.0), CASES["product"][0]]))
    one = AttentionRegressor(kernel).fit(x, y, sample_weight=counts)
    many = AttentionRegressor(kernel).fit(np.repeat(x, counts, 0), np.repeat(y, counts))
    q = np.linspace(-4, 4, 9)[:, None]
    for a, b in zip(one.predict(q, return_std=True), many.predict(q, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert one.loo_error_ == pytest.approx(many.loo_error_, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kernel", [GaussianKernel(0.05), CASES["product"][0]])
@pytest.mark.parametrize("block_size", [None, 16])
def test_a_cutoff_leaves_out_what_weighs_nothing(kernel, block_size):
    x, y = samples(1, 300)
    q = np.random.default_rng(3).uniform(-4.1, 4.1, (70, 1))
    every = AttentionRegressor(kernel).fit(x, y)
    near = AttentionRegressor(kernel, cutoff=9.0, block_size=block_size).fit(x, y)
    for a, b in zip(
        near.predict(q, return_std=True), every.predict(q, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(near.predict_left_out(), every.predict_left_out(), atol=1e-6)


def test_a_query_beyond_the_cutoff_sees_its_neighbours():
    x, y = np.array([[0.0], [1.0], [9.0]]), np.array([1.0, 2.0, 4.0])
    model = AttentionRegressor(GaussianKernel(0.1, local_linear=False), cutoff=3.0).fit(x, y)
    np.testing.assert_allclose(model.predict([[4.0], [-50.0], [50.0]]), [2.0, 1.0, 4.0])


def test_a_sum_finds_trend_and_season():
    t = np.arange(0, 20, 1 / 24)
    trend, season = 0.5 * t, np.sin(2 * np.pi * t) + 0.5 * np.cos(4 * np.pi * t)
    kernel = GaussianKernel(2.0) + PeriodicKernel(1.0, 0.02)
    seen = (t < 9) | (t > 9.6)
    model = AttentionRegressor(kernel).fit(t[seen, None], (trend + season)[seen])
    assert 1 <= model.n_iter_ <= 10
    error = model.predict(t[:, None]) - trend - season
    assert np.abs(error[(t > 1) & (t < 19)]).max() < 0.06
    single = AttentionRegressor(GaussianKernel(2.0)).fit(t[seen, None], (trend + season)[seen])
    assert np.abs(single.predict(t[:, None]) - trend - season).max() > 0.9


def test_widths_are_chosen():
    x = np.linspace(0, 10, 400)[:, None]
    rng = np.random.default_rng(0)
    y = np.sin(4 * x[:, 0]) + 0.2 * rng.standard_normal(400)
    chosen = AttentionRegressor().fit(x, y)
    errors = {
        scale: AttentionRegressor(GaussianKernel(scale)).fit(x, y).loo_error_
        for scale in np.geomspace(0.01, 5, 40)
    }
    assert chosen.loo_error_ <= 1.02 * min(errors.values())
    assert chosen.loo_error_ < 0.9 * errors[max(errors)]


def test_widths_of_a_product_and_of_a_sum_are_chosen():
    t = np.arange(0, 12, 1 / 30)[:, None]
    y = (1 + 0.1 * t[:, 0]) * np.sin(2 * np.pi * t[:, 0]) + 0.3 * t[:, 0]
    y = y + 0.1 * np.random.default_rng(0).standard_normal(y.shape)
    kernel = GaussianKernel(2.0) + PeriodicKernel(1.0) * GaussianKernel()
    model = AttentionRegressor(kernel).fit(t, y)
    first, second = model.kernel_.k1, model.kernel_.k2
    assert first.length_scale == 2.0
    assert isinstance(second.k1.length_scale, float)
    assert len(second.k2.length_scale) == 1
    assert model.noise_std_ == pytest.approx(0.1, rel=0.15)
    assert kernel.k2.k1.length_scale == "loo"
    places = AttentionRegressor(SphereKernel()).fit(t * [1.0, 2.0], y)
    scale = places.kernel_.length_scale
    errors = {
        s: AttentionRegressor(SphereKernel(s)).fit(t * [1.0, 2.0], y).loo_error_
        for s in (scale / 2, scale, scale * 2)
    }
    assert min(errors, key=errors.get) == scale


def test_left_out_samples_are_not_in_phase_with_a_period():
    """Each eighth of 16,000 would be the same phase of the day."""
    t = np.arange(16_000) / 8
    y = np.sin(2 * np.pi * t) + 0.1 * np.random.default_rng(0).standard_normal(16_000)
    model = AttentionRegressor(GaussianKernel(0.5), cutoff=6.0).fit(t[:, None], y)
    assert model.loo_error_ == pytest.approx(np.std(y), rel=0.1)
    assert model.noise_std_ == pytest.approx(np.std(y), rel=0.1)


def test_narrow_widths_are_found():
    """Far below the rule of thumb that the search begins with."""
    x = np.arange(3000) / 24
    y = np.sin(2 * np.pi * x) + 0.1 * np.random.default_rng(0).standard_normal(3000)
    model = AttentionRegressor().fit(x[:, None], y)
    assert model.loo_error_ < 0.13
    places = 0.002 * np.random.default_rng(1).standard_normal((400, 2))
    height = np.sin(places[:, 0] / 0.0005)
    near = AttentionRegressor(SphereKernel()).fit(places, height)
    assert near.loo_error_ < 0.5 * np.std(height)


def test_targets_count_alike_in_any_unit():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 300))[:, None]
    fine = np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    coarse = x[:, 0] / 10 + 0.2 * rng.standard_normal(300)
    models = [AttentionRegressor().fit(x, np.stack([fine, unit * coarse], 1)) for unit in (1, 1e4)]
    assert models[0].kernel_.length_scale == models[1].kernel_.length_scale
    assert models[1].loo_error_.shape == (2,)
    np.testing.assert_allclose(models[1].loo_error_, models[0].loo_error_ * [1, 1e4])


@pytest.mark.parametrize("kernel", ["gaussian", GaussianKernel(0.3)])
def test_small_weights_have_no_unit(kernel):
    x, y = samples(1)
    rising = 1 + np.arange(40) % 3
    small, smaller = (
        AttentionRegressor(kernel).fit(x, y, sample_weight=unit * rising) for unit in (0.3, 0.003)
    )
    assert small.loo_error_ == pytest.approx(smaller.loo_error_)
    for a, b in zip(small.predict(x, return_std=True), smaller.predict(x, return_std=True)):  # noqa: B905
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_order_of_a_sum_does_not_matter():
    x = np.linspace(0, 10, 120)[:, None]
    y = x[:, 0] ** 2 / 10 + np.sin(2 * np.pi * x[:, 0])
    trend, season = GaussianKernel(2.0), PeriodicKernel(1.0, 0.05) * GaussianKernel(8.0)
    options = {"max_iter": 200, "tol": 1e-7}
    one, other = (
        AttentionRegressor(kernel, **options).fit(x, y)
        for kernel in (trend + season, season + trend)
    )
    assert max(one.n_iter_, other.n_iter_) < 200
    np.testing.assert_allclose(one.predict(x), other.predict(x), atol=1e-4)
    assert abs(np.mean(y - one.predict(x))) < 0.02


@pytest.mark.parametrize("cutoff", [None, 6.0])
def test_all_of_the_nearest_samples_count(cutoff):
    x, y = np.array([[0.0]] * 3 + [[9.0]] * 2), np.array([0.0, 3.0, 6.0, 1.0, 2.0])
    model = AttentionRegressor(length_scale=0.1, local_linear=False, cutoff=cutoff).fit(x, y)
    np.testing.assert_allclose(model.predict([[-4.0], [3.0], [6.0], [20.0]]), [3.0, 3.0, 1.5, 1.5])


def test_times_stay_times():
    pd = pytest.importorskip("pandas")
    y = np.arange(10.0)
    spans = pd.DataFrame({"t": pd.timedelta_range("0D", periods=10, freq="D")})
    model = AttentionRegressor(length_scale=3.0).fit(spans, y)
    later = pd.DataFrame({"t": pd.to_timedelta([4.4], "D")})
    assert model.predict(later) == pytest.approx(4.4, abs=1e-3)
    got = AttentionRegressor(length_scale=3.0).fit(spans.to_numpy(), y).predict(later.to_numpy())
    assert got == pytest.approx(4.4, abs=1e-3)
    message = "`X` must have times as in `fit`, in column 0, got them in no column"
    with pytest.raises(ValueError, match=message):
        model.predict(pd.DataFrame({"t": [4.4]}))
    numbers = AttentionRegressor(length_scale=3.0).fit(pd.DataFrame({"t": y}), y)
    with pytest.raises(ValueError, match="in no column, got them in column 0"):
        numbers.predict(later)


def test_a_failed_fit_leaves_it_as_it_was():
    x, y = samples(1)
    model = AttentionRegressor(length_scale=1.0).fit(x, y)
    before = model.predict(x)
    with pytest.raises(ValueError, match="length_scale"):
        model.set_params(length_scale=-1.0).fit(np.zeros((40, 2)), y)
    np.testing.assert_array_equal(model.predict(x), before)


def test_several_targets():
    x, y = samples(1)
    both = AttentionRegressor(GaussianKernel(0.7)).fit(x, np.stack([y, 2 * y + 1], axis=1))
    mean, std = both.predict(x, return_std=True)
    one, one_std = AttentionRegressor(GaussianKernel(0.7)).fit(x, y).predict(x, return_std=True)
    np.testing.assert_allclose(mean, np.stack([one, 2 * one + 1], axis=1))
    np.testing.assert_allclose(std, np.stack([one_std, 2 * one_std], axis=1))
    left_out = AttentionRegressor(GaussianKernel(0.7)).fit(x, y).predict_left_out()
    expected = np.stack([left_out, 2 * left_out + 1], axis=1)
    np.testing.assert_allclose(both.predict_left_out(), expected)


def test_samples_alone_in_their_kernel():
    x, y = np.array([[0.0], [100.0], [200.0]]), np.array([1.0, 2.0, 6.0])
    model = AttentionRegressor(GaussianKernel(1.0)).fit(x, y)
    np.testing.assert_allclose(model.predict(x), y)
    np.testing.assert_allclose(model.predict_left_out(), [3.0] * 3)
    one = AttentionRegressor().fit([[1.0]], [5.0])
    np.testing.assert_allclose(one.predict([[0.0], [3.0]]), [5.0, 5.0])


def test_float32_stays_float32():
    x, y = samples(1)
    model = AttentionRegressor(GaussianKernel(0.7)).fit(x.astype("f4"), y.astype("f4"))
    assert model.predict(x.astype("f4")).dtype == np.float32
    assert model.predict(np.arange(3)[:, None]).dtype == np.float64


ESTIMATORS = {
    "default": AttentionRegressor(),
    "mean": AttentionRegressor(local_linear=False, length_scale=0.5),
    "sum": AttentionRegressor(GaussianKernel(0.5) + GaussianKernel(1.0) * GaussianKernel(2.0)),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_scikit_learn_asks_of_an_estimator(name):
    results = check_estimator(ESTIMATORS[name], on_skip=None, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    # They want SCIPY_ARRAY_API=1 before SciPy is imported: see the next test.
    assert skipped <= {
        "check_array_api_input",
        "check_array_api_mixed_inputs",
        "check_array_api_same_namespace",
    }
    assert sum(r["status"] == "passed" for r in results) >= 50


def test_array_api_dispatch():
    script = """
        import warnings
        warnings.simplefilter("ignore")
        import numpy, sklearn, torch, array_api_strict as strict
        from sklearn.utils.estimator_checks import check_estimator
        from positional_embeddings.sklearn import AttentionRegressor
        results = check_estimator(AttentionRegressor(), on_skip=None, on_fail=None)
        of_arrays = [r for r in results if r["check_name"].startswith("check_array_api")]
        assert not [r for r in of_arrays if r["status"] == "failed"], of_arrays
        assert sum(r["status"] == "passed" for r in of_arrays) >= 4, of_arrays
        x = numpy.linspace(0, 6, 50)[:, None]
        y = numpy.sin(x[:, 0])
        expected = AttentionRegressor().fit(x, y).predict(x, return_std=True)
        with sklearn.config_context(array_api_dispatch=True):
            for xp in (torch, strict):
                for dtype in (xp.float64, xp.float32):
                    ax, ay = xp.asarray(x, dtype=dtype), xp.asarray(y, dtype=dtype)
                    model = AttentionRegressor(cutoff=9.0).fit(ax, ay)
                    for got, want in zip(model.predict(ax, return_std=True), expected):
                        assert type(got) is type(ax) and got.dtype == dtype
                        assert abs(numpy.asarray(got) - want).max() < 1e-4
    """
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_queries_of_another_library():
    torch = pytest.importorskip("torch")
    x, y = samples(1)
    model = AttentionRegressor(GaussianKernel(1.0)).fit(x, y)
    message = "must use the same namespace and device as in fit.*numpy.ndarray.*torch.Tensor"
    with pytest.raises(ValueError, match=message):
        model._check_library(torch.ones((3, 1)))


def test_scikit_learn_searches_and_copies_it():
    x, y = samples(1, 80)
    kernel = GaussianKernel(1.0) + PeriodicKernel(1.0, 0.5) * GaussianKernel(5.0)
    search = GridSearchCV(
        AttentionRegressor(kernel),
        {"kernel__k1__length_scale": [0.3, 30.0], "local_linear": [True, False]},
    ).fit(x, y)
    assert search.best_params_["kernel__k1__length_scale"] == 0.3
    model = search.best_estimator_
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(x), model.predict(x))
    assert clone(model).get_params()["kernel__k1__length_scale"] == 0.3
    assert cross_val_score(make_pipeline(FunctionTransformer(), model), x, y).mean() > 0.5
    assert eval(repr(kernel)).get_params().keys() == kernel.get_params().keys()


def test_kernels_combine():
    a, b, c = GaussianKernel(1.0), PeriodicKernel(2.0), SphereKernel()
    assert isinstance(a + b * c, SumKernel)
    assert isinstance(a * b, ProductKernel)
    for wrong in (lambda: a + 1, lambda: a * 2.0):
        with pytest.raises(TypeError):
            wrong()


def fitted(kernel="gaussian", x=None, weight=None, **options):
    x = np.zeros((4, 2)) + np.arange(4.0)[:, None] if x is None else x
    return AttentionRegressor(kernel, **options).fit(x, np.arange(4.0), weight)


ERRORS = {
    "kernel": (lambda: fitted(3), TypeError, r'`kernel` must be "gaussian" or a kernel, got 3'),
    "name": (lambda: fitted("rbf"), ValueError, "`kernel` must be 'gaussian', got 'rbf'"),
    "own scale": (
        lambda: fitted(GaussianKernel(1.0), length_scale=2.0),
        ValueError,
        r'`length_scale` must be "loo" if `kernel` is a kernel, which has its own, got 2.0',
    ),
    "scale": (lambda: fitted(length_scale=-1.0), ValueError, "`length_scale` must be .*, got -1.0"),
    "scale name": (
        lambda: fitted(length_scale="auto"),
        ValueError,
        "`length_scale` must be a positive number or \"loo\", got 'auto'",
    ),
    "scales": (
        lambda: fitted(length_scale=[1.0, 2.0, 3.0]),
        ValueError,
        "`length_scale` must be one number, or 2, one for each column, got 3",
    ),
    "one of the scales": (
        lambda: fitted(length_scale=[1.0, 0.0]),
        ValueError,
        r"`length_scale\[1\]` must be a positive",
    ),
    "kind of scale": (
        lambda: fitted(length_scale=None),
        TypeError,
        '`length_scale` must be a positive number, one for each column, or "loo", got None',
    ),
    "columns": (
        lambda: fitted(GaussianKernel(1.0, columns=0)),
        TypeError,
        "`columns` must be a list of integers or None, got 0",
    ),
    "column": (
        lambda: fitted(GaussianKernel(1.0, columns=[2])),
        ValueError,
        r"`columns\[0\]` must be 0 to 1, got 2",
    ),
    "places": (
        lambda: fitted(SphereKernel(1.0, columns=[1])),
        ValueError,
        "`columns` must be those of latitude and longitude",
    ),
    "one column": (
        lambda: fitted(SphereKernel(1.0), x=np.zeros((4, 1))),
        ValueError,
        r"`columns\[1\]` must be 0 to 0, got 1",
    ),
    "period": (lambda: fitted(PeriodicKernel(0.0)), ValueError, "`period` must be a positive"),
    "part": (
        lambda: fitted(SumKernel(GaussianKernel(), 2)),
        TypeError,
        "`k2` must be a kernel, got 2",
    ),
    "sum in a product": (
        lambda: fitted((GaussianKernel() + GaussianKernel()) * GaussianKernel()),
        TypeError,
        "`k1` must be no sum",
    ),
    "line in a product": (
        lambda: fitted(GaussianKernel(local_linear=True) * PeriodicKernel(1.0)),
        ValueError,
        "`local_linear` must be None or False in a product, got True",
    ),
    "cutoff": (
        lambda: fitted(cutoff=3.0),
        ValueError,
        r"`cutoff` must be None for GaussianKernel\(\), which has no Gaussian kernel of one column",
    ),
    "cutoff of 0": (
        lambda: fitted(cutoff=0.0),
        ValueError,
        "`cutoff` must be a positive finite number",
    ),
    "block": (lambda: fitted(block_size=0), ValueError, "`block_size` must be a positive integer"),
    "rounds": (lambda: fitted(max_iter=0), ValueError, "`max_iter` must be a positive integer"),
    "tolerance": (lambda: fitted(tol=0), ValueError, "`tol` must be a positive finite number"),
    "line": (lambda: fitted(local_linear=1), TypeError, "`local_linear` must be"),
    "weights": (
        lambda: fitted(weight=np.ones(3)),
        ValueError,
        r"`sample_weight` must have one number for each of 4 samples, got shape \(3,\)",
    ),
    "negative weight": (
        lambda: fitted(weight=np.array([1.0, -2.0, 1.0, 1.0])),
        ValueError,
        "`sample_weight` must be finite and zero or more, got -2.0 among them",
    ),
    "infinite weight": (
        lambda: fitted(weight=np.array([1.0, np.inf, 1.0, 1.0])),
        ValueError,
        "`sample_weight` must be finite and zero or more, got inf among them",
    ),
    "weight that is none": (
        lambda: fitted(weight=np.array([1.0, 1.0, np.nan, 1.0])),
        ValueError,
        "`sample_weight` must be finite and zero or more, got nan among them",
    ),
    "no weight": (
        lambda: fitted(weight=np.zeros(4)),
        ValueError,
        "`sample_weight` must have a weight above zero, got all zero",
    ),
    "std": (
        lambda: fitted().predict(np.zeros((1, 2)), return_std=1),
        TypeError,
        "`return_std` must be",
    ),
    "not finite": (lambda: fitted(x=np.full((4, 2), np.nan)), ValueError, "NaN"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("module", ["kernels", "regressor", "gap_filler"])
def test_examples(module):
    path = f"positional_embeddings.sklearn.{module}"
    failed, _ = doctest.testmod(
        importlib.import_module(path), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0
