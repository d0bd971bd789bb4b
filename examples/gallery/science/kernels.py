"""
Kernels of the smoother
=======================

The weight of a sample by its distance from the query. Each line is the prediction of an
``AttentionRegressor`` for samples of 0 and a single sample of 1, up to a factor.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
)

KERNELS = {
    "Gaussian": GaussianKernel(1.0),
    "Matern, nu=0.5": MaternKernel(1.0, nu=0.5),
    "Matern, nu=1.5": MaternKernel(1.0),
    "Matern, nu=2.5": MaternKernel(1.0, nu=2.5),
    "periodic": PeriodicKernel(4.0, 0.15),
    "periodic times Gaussian": PeriodicKernel(4.0, 0.15) * GaussianKernel(3.0),
}
samples = np.arange(-30, 30.01, 0.1)[:, None]
spike = (np.abs(samples[:, 0]) < 0.05).astype(float)
at = np.linspace(-6, 6, 601)[:, None]

figure, axes = plt.subplots(2, 3, figsize=(9, 4), sharex=True, sharey=True)
for ax, (name, kernel) in zip(axes.flat, KERNELS.items(), strict=True):
    weights = AttentionRegressor(kernel, local_linear=False).fit(samples, spike).predict(at)
    ax.plot(at, weights / weights.max())
    ax.set_title(name)
for ax in axes[1]:
    ax.set_xlabel("distance")
figure.supylabel("weight of a sample")
