"""Smoothers of `positional_embeddings.sklearn`, as loops over queries that see all samples."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from positional_embeddings.sklearn import (
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
)


class Samples(NamedTuple):
    """The measurements at each place."""

    x: np.ndarray  # (columns, places)
    y: np.ndarray  # (targets, places): their mean
    weight: np.ndarray  # (places,): their weights together
    within: np.ndarray  # (targets, places): their variance
    repeats: np.ndarray  # (places,): their number, 1 if they agree


class Predicted(NamedTuple):
    mean: np.ndarray  # (ridges, targets, queries)
    leverage: np.ndarray  # (ridges, queries): what 1 measured at the query would add
    squares: np.ndarray  # (queries,): sum of the squared weights of measurements
    distance: np.ndarray  # (queries,): to the nearest sample that is seen whole, in widths
    asymmetry: np.ndarray  # (queries,): 0 if samples are all around, 1 if all are on one side


class Factor(NamedTuple):
    weight: Callable  # of the distance in widths
    places: Callable  # (columns, samples) as (features, samples) in widths


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


def drawn(columns, n, seed=0):
    """Return x, y of two targets and weights of samples in [0, 10), some at one place."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.uniform(0, 10, (n, columns)), axis=0)
    places[:, 1:] = rng.permutation(places[:, 1:])
    at = np.repeat(np.arange(n), rng.integers(1, 4, n))
    x = places[at]
    y = np.stack([np.sin(x[:, 0]), 10 * np.cos(2 * x[:, -1])], axis=1)
    agree = (at % 5 == 0)[:, None]
    y = y + np.where(agree, 0.0, rng.normal(0, 0.3, y.shape))
    return x, y, rng.uniform(0.2, 3, len(x))


def folded(x, y, weight):
    """Return the samples at each place, and the place of each measurement."""
    weight = weight / weight.max()
    places = sorted({tuple(row) for row in x}, key=lambda row: row[::-1])
    rows = []
    for place in places:
        own = [i for i, row in enumerate(x) if tuple(row) == place]
        w, of_place = weight[own], y[own]
        mean = w @ of_place / w.sum()
        differ = (of_place != of_place[0]).any()
        repeats = w.sum() ** 2 / (w @ w) if differ else 1.0
        rows.append((place, mean, w.sum(), w @ (of_place - mean) ** 2 / w.sum(), repeats))
    samples = Samples(*(np.array(part).T for part in zip(*rows, strict=True)))
    return samples, np.array([places.index(tuple(row)) for row in x])


def kept_of(own, labels, radius, left, side=None):
    """Return the fraction of its weight that each sample keeps for each query."""
    kept = np.ones((own.shape[1], labels.shape[1]))
    for i, row in enumerate(kept):
        away = labels - own[:, [i]]
        row[(abs(away) <= radius).all(axis=0)] = left[i]
        if side is not None:
            row[side[i] * away[0] > 0] = 0
    return kept


def smoothed(factors, samples, x, ridges, kept=None, cutoff=None):
    """Return what a smoother predicts at x, (columns, queries), with each ridge."""
    weight = samples.weight / samples.weight.max()
    parts = []
    for i in range(x.shape[1]):
        away = [factor.places(samples.x) - factor.places(x[:, [i]]) for factor in factors]
        own = np.ones_like(weight) if kept is None else kept[i]
        squared = (np.concatenate(away) ** 2).sum(axis=0)
        if not own.any():
            nothing = np.full(len(ridges), np.nan)
            means = np.full((len(ridges), len(samples.y)), np.nan)
            parts.append((means, nothing, np.nan, np.inf, np.nan))
            continue
        nearest = squared[own > 0].min()
        widening = max(1.0, nearest - 3)
        p = own * weight
        for factor, d in zip(factors, away, strict=True):
            p = p * factor.weight(np.sqrt((d**2).sum(axis=0) / widening))
        if cutoff is not None:
            p[squared > nearest + cutoff**2 * widening] = 0
        distance = np.sqrt(squared[(own == 1) & (p > 0)].min(initial=np.inf))
        total, u = p.sum(), np.concatenate(away)
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
            of_sample = p * (1 + t @ (u - mean[:, None]))
            means.append(samples.y @ of_sample)
            leverage.append((1 - t @ mean) / total)
        squares = of_sample**2 @ (1 / samples.repeats)
        parts.append((np.array(means), np.array(leverage), squares, distance, asymmetry))
    return Predicted(*(np.stack(part, axis=-1) for part in zip(*parts, strict=True)))
