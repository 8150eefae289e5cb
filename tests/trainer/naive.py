"""A second, naive implementation of what travels; slow, and plain to read."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


def naive_chunks(shape: Shape) -> list[list[int]]:
    """Places of each chunk in row-major order, by walking over the tensor."""
    if len(shape) == 1:
        return [list(range(a, min(a + 4096, shape[0]))) for a in range(0, shape[0], 4096)]
    rows, columns = shape
    return [
        [
            r * columns + c
            for r in range(top, min(top + 64, rows))
            for c in range(left, min(left + 64, columns))
        ]
        for top in range(0, rows, 64)
        for left in range(0, columns, 64)
    ]


def naive_kept(vector: NDArray[np.float32], shapes: list[Shape], density: float) -> list[list[int]]:
    """Kept places in the flat vector, tensor by tensor; of a tie the earlier place of a chunk."""
    kept, at = [], 0
    for shape in shapes:
        mine: list[int] = []
        for chunk in naive_chunks(shape):
            k = max(1, round(density * len(chunk)))
            order = sorted(range(len(chunk)), key=lambda i: (-abs(vector[at + chunk[i]]), i))
            mine += [at + chunk[i] for i in order[:k]]
        kept.append(mine)
        at += math.prod(shape)
    return kept


def naive_two_bit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """algorithms.md, one tensor."""
    mu, sigma = values.mean(), values.std()
    if sigma == 0:
        return np.full_like(values, mu)
    codes = np.clip(np.round((values - mu) / (6 * sigma / 4) + 2), 0, 3)
    table = {c: (values[codes == c] - mu).mean() for c in set(codes)}
    return np.array([mu + table[c] for c in codes])
