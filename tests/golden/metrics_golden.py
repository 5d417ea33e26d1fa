#!/usr/bin/env python3
"""Golden values of the metrics, in float64 by NumPy and SciPy; independent of slift.

    /usr/bin/python3 tests/golden/metrics_golden.py > tests/golden/metrics_golden.json

Written from the definitions (the headers in src/metrics), each in the plainest way there is: double
loops, sums over all modes, quantile functions on a merged grid. Every input stands in the file next
to what comes out. Inputs are multiples of 1/64 made from u(k) = frac(2654435761 k / 2^32), so they
and the squares of their differences are exact in float32.
"""
import json

import numpy as np
from scipy.optimize import linear_sum_assignment


def draws(count, seed, low=-4.0, high=4.0):
    k = 1 + 1009 * seed + np.arange(count, dtype=np.int64)
    u = (2654435761 * k) % 2**32 / 2**32
    return np.round(64 * (low + (high - low) * u)) / 64


def ascending(count, seed, low=-4.0, high=4.0):
    return np.sort(draws(count, seed, low, high))


def fair_crps(x, y):
    n = len(x)
    between = sum(abs(a - b) for a in x for b in y) / (n * len(y))
    within = sum(abs(a - b) for a in x for b in x) / (2 * n * (n - 1))
    return between - within


def crps_case(n, m, seed):
    x, y = ascending(n, seed), ascending(m, seed + 1, -3, 5)
    return {"ensemble": x, "verifications": y, "value": fair_crps(x, y)}


def spread_skill_case(sizes, seed):
    groups = [{"ensemble": draws(n, seed + 2 * g), "verifications": draws(m, seed + 2 * g + 1, -3, 5)}
              for g, (n, m) in enumerate(sizes)]
    spread = np.mean([(1 + 1 / len(g["ensemble"])) * np.var(g["ensemble"], ddof=1) for g in groups])
    error = np.mean([np.mean((g["verifications"] - np.mean(g["ensemble"]))**2) for g in groups])
    return {"groups": groups, "spread": np.sqrt(spread), "error": np.sqrt(error)}


def rank_case(n, m, bins, seed):
    """Members and verifications never meet, and no place is near the edge of a bin."""
    x = ascending(n, seed)
    y, u = draws(m, seed + 1, -6, 6) + 1 / 128, draws(m, seed + 2, 1 / 64, 63 / 64)
    places = ((x[None, :] < y[:, None]).sum(1) + u) / (n + 1)
    edges = places * bins
    assert np.abs(edges - np.round(edges)).min() > 1e-9
    counts = np.histogram(places, bins=bins, range=(0, 1))[0]
    return {"ensemble": x, "verifications": y, "uniforms": u, "counts": counts,
            "unevenness": np.sqrt(np.mean((counts / m * bins - 1)**2))}


def spectrum_case(height, width, seed):
    field = draws(height * width, seed).reshape(height, width)
    power = np.abs(np.fft.fft2(field))**2 / field.size**2
    length = np.hypot(np.fft.fftfreq(height, 1 / height)[:, None],
                      np.fft.fftfreq(width, 1 / width)[None, :])
    last = min(height, width) // 2
    energy = [power[(length >= k - 0.5) & ((length < k + 0.5) | (k == last))].sum()
              for k in range(last + 1)]
    assert np.isclose(sum(energy), np.mean(field**2), rtol=1e-14)
    return {"height": height, "width": width, "field": field.ravel(), "energy": energy}


def w2_squared(a, b):
    """The integral over u of the squared difference of the quantile functions."""
    grid = np.unique(np.round(np.concatenate(
        [np.arange(len(x) + 1) / len(x) for x in (a, b)]), 12))
    middle = (grid[1:] + grid[:-1]) / 2
    quantile = [np.sort(x)[np.floor(middle * len(x)).astype(int)] for x in (a, b)]
    return np.sum(np.diff(grid) * (quantile[0] - quantile[1])**2)


def w2_case(n, m, seed):
    a, b = ascending(n, seed), ascending(m, seed + 1, -3, 5)
    return {"a": a, "b": b, "squared": w2_squared(a, b)}


def exact_w2_case(n, dim, seed):
    a, b = draws(n * dim, seed).reshape(n, dim), draws(n * dim, seed + 1, -3, 5).reshape(n, dim)
    cost = ((a[:, None, :] - b[None, :, :])**2).sum(2)
    return {"dim": dim, "a": a.ravel(), "b": b.ravel(),
            "value": np.sqrt(cost[linear_sum_assignment(cost)].mean())}


def sliced_w2_case(n, m, directions, seed):
    directions = np.array(directions, dtype=float)
    dim = directions.shape[1]
    a, b = draws(n * dim, seed).reshape(n, dim), draws(m * dim, seed + 1, -3, 5).reshape(m, dim)
    squared = np.mean([w2_squared(a @ d, b @ d) for d in directions])
    return {"dim": dim, "a": a.ravel(), "b": b.ravel(), "directions": directions.ravel(),
            "value": np.sqrt(squared)}


def quantile_case(n, seed):
    sample = ascending(n, seed)
    levels = np.array([0, 0.05, 0.25, 0.3, 0.5, 0.77, 0.95, 1])
    return {"sample": sample, "levels": levels, "values": np.quantile(sample, levels)}


def crossing_case(steps, height, width, threshold, seed):
    """A growing field whose border is watched; no time if it never gets above."""
    x = draws(steps * height * width, seed, 0, 2).reshape(steps, height, width)
    x = np.round(64 * x * np.linspace(0, 1, steps)[:, None, None]) / 64
    border = np.ones((height, width), bool)
    border[1:-1, 1:-1] = False
    above = x[:, border].max(1) > threshold
    time = above.argmax() / (steps - 1) if above.any() else None
    return {"steps": steps, "height": height, "width": width, "threshold": threshold,
            "states": x.ravel(), "time": time}


def main():
    values = {
        "fair_crps": [crps_case(2, 1, 0), crps_case(12, 9, 10), crps_case(9, 20, 20)],
        "spread_skill": [spread_skill_case([(2, 1)], 100),
                         spread_skill_case([(5, 3), (5, 1), (8, 4)], 110)],
        "rank_histogram": [rank_case(9, 30, 10, 200), rank_case(5, 20, 3, 210)],
        "radial_spectrum": [spectrum_case(8, 8, 300), spectrum_case(7, 7, 310),
                            spectrum_case(6, 10, 320), spectrum_case(9, 4, 330)],
        "w2": [w2_case(7, 7, 400), w2_case(8, 5, 410), w2_case(6, 15, 420)],
        "exact_w2": [exact_w2_case(12, 1, 500), exact_w2_case(16, 2, 510),
                     exact_w2_case(10, 3, 520)],
        "sliced_w2": [sliced_w2_case(9, 9, [[1, 0], [0.6, 0.8], [-0.8, 0.6]], 600),
                      sliced_w2_case(8, 6, [[0, 1, 0], [0.48, -0.6, 0.64]], 610)],
        "quantiles": [quantile_case(1, 708), quantile_case(10, 710), quantile_case(21, 720)],
        "crossing": [crossing_case(6, 4, 3, t, 800 + i) for i, t in enumerate([0.5, 1.0, 1.75, 2.0])],
    }
    text = json.dumps(values, default=lambda x: x.tolist())
    print(text.replace('{"', '\n{"'))  # a line per case


if __name__ == "__main__":
    main()
