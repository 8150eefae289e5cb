"""Between the points of a grid: multilinear, and never beyond it. Standard library only.

`templates/whatif_model.js` does the same in the page; a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Literal

Scale = Literal["linear", "log"]
Knots = Sequence[float]
"""Values of an axis, ascending."""
ON_KNOT = 1e-9
"""Relative distance within which a value is a knot."""


def bracket(knots: Knots, at: float, scale: Scale) -> tuple[int, float] | None:
    """(i, share): `at` lies so far from knot i to the next; None outside the knots.

    A share is 0 on a knot exactly, so that engine results there come out untouched.
    """
    for i, knot in enumerate(knots):
        if abs(at - knot) <= ON_KNOT * abs(knot):
            return i, 0.0
    for i, (low, high) in enumerate(pairwise(knots)):
        if low < at < high:
            of = math.log if scale == "log" else float
            return i, (of(at) - of(low)) / (of(high) - of(low))
    return None


def weights(
    axes: Sequence[Knots], scales: Sequence[Scale], at: Sequence[float]
) -> list[tuple[int, float]] | None:
    """Flat indices (last axis fastest) of the corners around a place, and their weights above 0.

    None outside the grid.
    """
    sides: list[list[tuple[int, float]]] = []
    for knots, scale, value in zip(axes, scales, at, strict=True):
        found = bracket(knots, value, scale)
        if found is None:
            return None
        i, share = found
        sides.append([(i, 1.0)] if share == 0.0 else [(i, 1.0 - share), (i + 1, share)])
    corners = []
    for corner in product(*sides):
        flat = 0
        for knots, (i, _) in zip(axes, corner, strict=True):
            flat = flat * len(knots) + i
        corners.append((flat, math.prod(weight for _, weight in corner)))
    return corners


def left_out(
    axes: Sequence[Knots], axis: int, scale: Scale, value: Callable[[int], float | None]
) -> Iterator[tuple[int, float]]:
    """(flat index, relative error) of inner knots of an axis, told from their two neighbours.

    The neighbours are twice as far apart as any two that are used, so this errs on the safe side.

    Args:
        value: a quantity by flat index; None where it is not known.
    """
    sizes = [len(knots) for knots in axes]
    stride = math.prod(sizes[axis + 1 :])
    of = math.log if scale == "log" else float
    for flat in range(math.prod(sizes)):
        i = flat // stride % sizes[axis]
        if not 0 < i < sizes[axis] - 1:
            continue
        low, here, high = (value(flat + step * stride) for step in (-1, 0, 1))
        if low is None or high is None or not here:
            continue
        a, b, c = (of(axes[axis][j]) for j in (i - 1, i, i + 1))
        yield flat, (low + (high - low) * (b - a) / (c - a)) / here - 1.0
