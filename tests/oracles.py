"""Reference implementations of the papers in plain Python loops, independent of the library."""

import math
from itertools import product

import numpy as np


def angle(position, i, dim, base=10_000.0):
    return position * base ** (-2 * i / dim)


def rotated(x, positions, base=10_000.0, scale=1.0):
    """RoFormer equation 34 with pairs (i, i + n/2); x is (head, seq, ...), positions like x[0]."""
    out = np.zeros(x.shape)
    half = x.shape[0] // 2
    for index in product(*map(range, x.shape[1:])):
        for i in range(half):
            theta = scale * angle(float(positions[index]), i, 2 * half, base)
            a, b = float(x[(i, *index)]), float(x[(i + half, *index)])
            out[(i, *index)] = a * math.cos(theta) - b * math.sin(theta)
            out[(i + half, *index)] = b * math.cos(theta) + a * math.sin(theta)
    return out


def sinusoid(position, dim, base=10_000.0, arrangement="interleaved"):
    """Vaswani et al. section 3.5, one position."""
    frequencies = range((dim + 1) // 2)
    sines = [math.sin(angle(position, i, dim, base)) for i in frequencies]
    cosines = [math.cos(angle(position, i, dim, base)) for i in frequencies]
    if arrangement == "concatenated":
        return (sines + cosines)[:dim]
    return [value for pair in zip(sines, cosines, strict=True) for value in pair][:dim]


def attention(q, k, v, mask=None, bias=None, scale=None, softcap=None):
    """Equation 1 of Vaswani et al. on (head, seq, batch), one query at a time."""
    head, q_len, batch = q.shape
    k_len = k.shape[1]
    scale = 1 / math.sqrt(head) if scale is None else scale
    out = np.zeros((v.shape[0], q_len, batch))
    weights = np.zeros((q_len, k_len, batch))
    full = (q_len, k_len, batch)
    mask = np.broadcast_to(False if mask is None else mask, full)
    bias = np.broadcast_to(0.0 if bias is None else bias, full)
    for b, i in product(range(batch), range(q_len)):
        scores = {}
        for j in range(k_len):
            if mask[i, j, b] or bias[i, j, b] == -math.inf:
                continue
            score = scale * math.fsum(float(q[f, i, b]) * float(k[f, j, b]) for f in range(head))
            if softcap is not None:
                score = softcap * math.tanh(score / softcap)
            scores[j] = score + float(bias[i, j, b])
        if not scores:
            continue
        top = max(scores.values())
        total = math.fsum(math.exp(score - top) for score in scores.values())
        for j, score in scores.items():
            weights[i, j, b] = math.exp(score - top) / total
        for f in range(v.shape[0]):
            out[f, i, b] = sum(weights[i, j, b] * float(v[f, j, b]) for j in scores)
    return out, weights


def partly_infinite(rng):
    """Queries, keys, values with infinities and NaN, and a mask of some of these values."""
    q, k, v = (rng.standard_normal(shape) for shape in ((2, 3, 1), (2, 5, 1), (5, 5, 1)))
    v[0, 1], v[1, 1], v[2, 1] = np.nan, np.inf, -np.inf
    v[3, 0], v[3, 1] = -np.inf, np.inf
    mask = np.zeros((3, 5, 1), dtype=bool)
    mask[0, :2], mask[1, 0] = True, True
    return q, k, v, mask


def multi_head(x, layer, mask, bias=None, base=10_000.0):
    """Heads one by one on (d_model, seq, batch); mask and bias (q, k, heads, batch)."""
    d_model, seq, batch = x.shape
    heads = layer.num_heads
    groups = heads // (layer.num_kv_heads or heads)
    size = d_model // heads
    positions = np.arange(seq)[:, None] + np.zeros((1, batch))
    joined = np.zeros((d_model, seq, batch))
    full = (seq, seq, heads, batch)
    mask = np.broadcast_to(False if mask is None else mask, full)
    bias = np.broadcast_to(0.0 if bias is None else bias, full)
    weights = {
        name: np.asarray(getattr(layer, name), dtype=float) for name in ("Wq", "Wk", "Wv", "Wo")
    }

    def projected(name, head):
        rows = weights[name][head * size : (head + 1) * size]
        return np.einsum("fd,dsb->fsb", rows, x)

    for h in range(heads):
        q = rotated(projected("Wq", h), positions, base)
        k = rotated(projected("Wk", h // groups), positions, base)
        out, _ = attention(q, k, projected("Wv", h // groups), mask[:, :, h], bias[:, :, h])
        joined[h * size : (h + 1) * size] = out
    return np.einsum("ed,dsb->esb", weights["Wo"], joined)


def float32_angle_errors(frequencies, context, searched=2**20):
    """Return errors, in radians, of angles that are products in float32.

    These are the largest error at the last 8,192 positions of a context, and the first of the
    `searched` positions with an error above 1e-3, None if there is none.
    """
    largest = _angle_errors(frequencies, np.arange(max(0, context - 8192), context)).max()
    for start in range(0, searched, 8192):
        bad = _angle_errors(frequencies, np.arange(start, start + 8192)) > 1e-3
        if bad.any():
            return float(largest), start + int(bad.argmax())
    return float(largest), None


def _angle_errors(frequencies, positions):
    with np.errstate(over="ignore", invalid="ignore"):
        single = positions.astype(np.float32)[:, None] * frequencies.astype(np.float32)
        errors = np.abs(single - positions[:, None] * frequencies).max(axis=1)
    return np.where(np.isnan(errors), np.inf, errors)
