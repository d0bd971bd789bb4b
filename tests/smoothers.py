"""Smoothers of `positional_embeddings.sklearn`, as loops over queries and all samples."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from positional_embeddings.sklearn import (
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
)


class Samples(NamedTuple):
    """The measurements at each location."""

    x: np.ndarray  # (columns, locations)
    y: np.ndarray  # (targets, locations): mean
    weight: np.ndarray  # (locations,): sum of the weights
    variance: np.ndarray  # (targets, locations)
    replicates: np.ndarray  # (locations,): number of measurements, 1 if all are equal


class Prediction(NamedTuple):
    mean: np.ndarray  # (ridges, targets, queries)
    leverage: np.ndarray  # (ridges, queries): derivative by a measurement at the query
    squares: np.ndarray  # (queries,): sum of the squared weights of measurements
    distance: np.ndarray  # (queries,): from the nearest neighbour, in widths
    asymmetry: np.ndarray  # (queries,): 0 with samples all around, 1 with all on one side


class Factor(NamedTuple):
    weight: Callable  # of the distance in widths
    features: Callable  # (columns, samples) as (features, samples) in widths


def bell(r):
    return np.exp(-(r**2) / 2)


def matern(r):
    return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)


def scaled(*scales):
    return lambda x: x / np.array(scales)[:, None]


def circle(period, scale):
    unit = 2 * np.pi / period
    return lambda x: np.stack([np.cos(unit * x[0]), np.sin(unit * x[0])]) / (unit * scale)


# A kernel, its factors, and its number of columns.
KERNELS = {
    "line": (GaussianKernel(0.7), [Factor(bell, scaled(0.7))], 1),
    "plane": (GaussianKernel([0.9, 1.7]), [Factor(bell, scaled(0.9, 1.7))], 2),
    "matern": (MaternKernel(0.8), [Factor(matern, scaled(0.8))], 1),
    "product of Gaussians": (
        PeriodicKernel(2.0, 0.2) * GaussianKernel(3.0),
        [Factor(bell, circle(2.0, 0.2)), Factor(bell, scaled(3.0))],
        1,
    ),
    "product of three": (
        PeriodicKernel(2.0, 0.3) * MaternKernel(3.0) * GaussianKernel(4.0),
        [Factor(bell, circle(2.0, 0.3)), Factor(matern, scaled(3.0)), Factor(bell, scaled(4.0))],
        1,
    ),
}


def draw_samples(columns, n, seed=0):
    """Return x, y of two targets and weights of samples in [0, 10), some of them replicates."""
    rng = np.random.default_rng(seed)
    locations = np.sort(rng.uniform(0, 10, (n, columns)), axis=0)
    locations[:, 1:] = rng.permutation(locations[:, 1:])
    location = np.repeat(np.arange(n), rng.integers(1, 4, n))
    x = locations[location]
    y = np.stack([np.sin(x[:, 0]), 10 * np.cos(2 * x[:, -1])], axis=1)
    agree = (location % 5 == 0)[:, None]
    y = y + np.where(agree, 0.0, rng.normal(0, 0.3, y.shape))
    return x, y, rng.uniform(0.2, 3, len(x))


def average_replicates(x, y, weight):
    """Return the sample at each location, and the location of each measurement."""
    weight = weight / weight.max()
    locations = sorted({tuple(row) for row in x}, key=lambda row: row[::-1])
    rows = []
    for point in locations:
        indices = [i for i, row in enumerate(x) if tuple(row) == point]
        w, values = weight[indices], y[indices]
        mean = w @ values / w.sum()
        differ = (values != values[0]).any()
        replicates = w.sum() ** 2 / (w @ w) if differ else 1.0
        rows.append((point, mean, w.sum(), w @ (values - mean) ** 2 / w.sum(), replicates))
    samples = Samples(*(np.array(part).T for part in zip(*rows, strict=True)))
    return samples, np.array([locations.index(tuple(row)) for row in x])


def visible_weights(query_labels, labels, radius, visible_part, side=None):
    """Return the fraction of the weight of each sample that each query sees."""
    visible = np.ones((query_labels.shape[1], labels.shape[1]))
    for i, row in enumerate(visible):
        offset = labels - query_labels[:, [i]]
        row[(abs(offset) <= radius).all(axis=0)] = visible_part[i]
        if side is not None:
            row[side[i] * offset[0] > 0] = 0
    return visible


def smooth(factors, samples, x, ridges, visible=None, cutoff=None):
    """Return the prediction at x, (columns, queries), with each ridge."""
    weight = samples.weight / samples.weight.max()
    parts = []
    for i in range(x.shape[1]):
        offset = [factor.features(samples.x) - factor.features(x[:, [i]]) for factor in factors]
        weights = np.ones_like(weight) if visible is None else visible[i]
        squared = (np.concatenate(offset) ** 2).sum(axis=0)
        if not weights.any():
            nothing = np.full(len(ridges), np.nan)
            means = np.full((len(ridges), len(samples.y)), np.nan)
            parts.append((means, nothing, np.nan, np.inf, np.nan))
            continue
        nearest = squared[weights > 0].min()
        widening = max(1.0, nearest - 3)
        p = weights * weight
        for factor, d in zip(factors, offset, strict=True):
            p = p * factor.weight(np.sqrt((d**2).sum(axis=0) / widening))
        if cutoff is not None:
            p[squared > nearest + cutoff**2 * widening] = 0
        distance = np.sqrt(squared[(weights == 1) & (p > 0)].min(initial=np.inf))
        total, u = p.sum(), np.concatenate(offset)
        p = p / total
        mean = u @ p
        cov = (u - mean[:, None]) * p @ (u - mean[:, None]).T
        off = mean @ mean
        asymmetry = off / (off + np.trace(cov)) if off > 0 else 0.0
        means, leverage = [], []
        for ridge in ridges:
            t = np.zeros_like(mean)
            if np.isfinite(ridge):
                local = ridge * widening * (p @ p) + (widening - 1) * asymmetry
                t = -np.linalg.solve(cov + local * np.eye(len(mean)), mean)
                size = np.sqrt(-t @ mean)
                t = t * min(1, 1.4 * np.sqrt(len(mean)) / size) if size > 0 else t
            sample_weight = p * (1 + t @ (u - mean[:, None]))
            means.append(samples.y @ sample_weight)
            leverage.append((1 - t @ mean) / total)
        squares = sample_weight**2 @ (1 / samples.replicates)
        parts.append((np.array(means), np.array(leverage), squares, distance, asymmetry))
    return Prediction(*(np.stack(part, axis=-1) for part in zip(*parts, strict=True)))
