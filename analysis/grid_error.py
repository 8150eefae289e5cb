"""How far off interpolation is: knots are left out, and told from their neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from analysis.interpolation import Scale, left_out
from analysis.whatif_grid import Grid, Option, Values


def with_scales(grid: Grid) -> Grid:
    """Each axis straight or logarithmic, whichever errs less over all options."""
    axes = []
    for i, axis in enumerate(grid.axes):
        scales: tuple[Scale, ...] = ("linear", "log") if axis.knots[0] > 0 else ("linear",)
        axes.append(replace(axis, scale=min(scales, key=lambda scale: _total(grid, i, scale))))
    return replace(grid, axes=tuple(axes))


def stated_error(grid: Grid, option: Option, i: int) -> float | None:
    """The largest relative error of hours or rent a token along an axis; None of two knots.

    Of rent at the scenario's prices. Seeds are averaged first.
    """
    errors = _errors(grid, option, i, grid.axes[i].scale)
    return max(errors, default=None)


def _total(grid: Grid, i: int, scale: Scale) -> float:
    return math.fsum(error for each in grid.options for error in _errors(grid, each, i, scale))


def _errors(grid: Grid, option: Option, i: int, scale: Scale) -> list[float]:
    knots = [axis.knots for axis in grid.axes]

    def hours(flat: int) -> float | None:
        return _mean(option, flat, lambda run: run["hours"] / run["tokens"])

    def rent(flat: int) -> float | None:
        return _mean(option, flat, lambda run: _rent(grid, run) / run["tokens"])

    return [abs(error) for value in (hours, rent) for error in left_out(knots, i, scale, value)]


def _rent(grid: Grid, run: Values) -> float:
    return math.fsum(run[f"node_h.{name}"] * pool.usd_per_h for name, pool in grid.pools.items())


def _mean(option: Option, flat: int, of: Callable[[Values], float]) -> float | None:
    runs = option.cells[flat]
    return None if runs is None else math.fsum(map(of, runs)) / len(runs)
