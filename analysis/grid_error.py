"""How far off interpolation is: knots are left out, and told from their neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from analysis.interpolation import Scale, bracket, left_out, weights
from analysis.whatif_grid import Grid, Option, Values


def with_scales(grid: Grid) -> Grid:
    """Each axis straight or logarithmic, whichever errs less over all options."""
    axes = []
    for i, axis in enumerate(grid.axes):
        scales: tuple[Scale, ...] = ("linear", "log") if axis.knots[0] > 0 else ("linear",)
        axes.append(replace(axis, scale=min(scales, key=lambda scale: _total(grid, i, scale))))
    return replace(grid, axes=tuple(axes))


def knot_errors(grid: Grid, option: Option, i: int) -> dict[int, float]:
    """By flat index of an inner knot of an axis, the largest relative error of leaving it out.

    Of hours or rent a token (at the scenario's prices), seed by seed: a single run is told worse
    than the mean of several.
    """
    found: dict[int, float] = {}
    for flat, error in _errors(grid, option, i, grid.axes[i].scale):
        found[flat] = max(error, found.get(flat, 0.0))
    return found


def stated_error(grid: Grid, option: Option, at: Sequence[float]) -> float | None:
    """How far off an interpolated outcome may be, relative; 0 on a knot, None where unknown.

    Over the axes between whose knots the place lies the sum of the largest error of a corner.
    """
    knots, scales = [axis.knots for axis in grid.axes], [axis.scale for axis in grid.axes]
    corners = weights(knots, scales, at)
    if corners is None:
        return None
    total = 0.0
    for i, value in enumerate(at):
        found = bracket(knots[i], value, scales[i])
        if found is None or found[1] == 0.0:
            continue
        errors = knot_errors(grid, option, i)
        near = [errors[flat] for flat, _ in corners if flat in errors]
        if not near:
            return None
        total += max(near)
    return total


def _total(grid: Grid, i: int, scale: Scale) -> float:
    return math.fsum(e for option in grid.options for _, e in _errors(grid, option, i, scale))


def _errors(grid: Grid, option: Option, i: int, scale: Scale) -> list[tuple[int, float]]:
    knots = [axis.knots for axis in grid.axes]

    def of(what: Callable[[Values], float], seed: int) -> Callable[[int], float | None]:
        def told(flat: int) -> float | None:
            runs = option.cells[flat]
            return None if runs is None else what(runs[seed]) / runs[seed]["tokens"]

        return told

    quantities = (lambda run: run["hours"], lambda run: _rent(grid, run))
    return [
        (flat, abs(error))
        for what in quantities
        for seed in range(len(grid.seeds))
        for flat, error in left_out(knots, i, scale, of(what, seed))
    ]


def _rent(grid: Grid, run: Values) -> float:
    return math.fsum(run[f"node_h.{name}"] * pool.usd_per_h for name, pool in grid.pools.items())
