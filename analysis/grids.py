"""Gaps over two swept parameters, and of points that no axis orders."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

from analysis import numbers, rates, style
from analysis.point_table import side
from analysis.rates import Axis
from analysis.style import Drawn
from analysis.sweep import Point, Sweep, short, value_of

ARMS, POINTS = 4, 40
"""No more arms as maps, nor points as rows, than these."""


def heat_figure(sweep: Sweep) -> list[Drawn]:
    """Mean gap over two parameters, a map for each arm; only where exactly two are numbers."""
    if len(sweep.numeric) != 2 or len(sweep.parameters) != 2:
        return []
    across = rates.axis_of(sweep)
    assert across is not None, "two parameters are numeric"
    down = next(key for key in sweep.numeric if key != across.key)
    arms = [a for a in sweep.arms or (None,) if any(p.values() for p in sweep.points if p.arm == a)]
    if not arms:
        return []
    rows = sorted(set(sweep.parameters[down]))
    caption = (
        f"Mean gap to the own no-failure run (measured) over {across.key} and {down}; below it the "
        "half width of its 95 % interval. Grey numbers: zero lies within, or repeats without "
        "failures differ by as much. Empty: not finished."
    )
    sure = "±: half width of the 95 % interval over seeds; grey: cannot be told from no failure"
    note = sure if len(sweep.seeds) > 1 else rates.how_sure(sweep)
    names = [short(key, sweep.parameters) for key in (across.key, down)]
    title = f"Gap over {names[0]} and {names[1]}"
    with style.paper():
        count = len(arms[:ARMS])
        width = 1.6 + count * max(2.2, 0.75 * len(across.values))
        cut = style.left_out(len(arms), ARMS, "arm")
        figure = style.new_figure(width, 1.9 + 0.62 * len(rows), note, cut)
        grid = figure.subplots(1, count, squeeze=False, sharey=True)[0]
        for axes, arm in zip(grid, arms, strict=False):
            _map(axes, sweep, arm, across, down, rows)
            axes.set_title(style.short(arm or "", 24), fontsize=10)
            values = [value_of(across.key, value) for value in across.values]
            axes.set_xticks(range(len(values)), values)
            axes.set_xlabel(names[0])
        grid[0].set_yticks(range(len(rows)), [value_of(down, value) for value in rows])
        grid[0].set_ylabel(names[1])
        style.heading(figure, title)
        return [style.render(figure, "gap_map", caption, f"{caption} {title}.")]


def _most(sweep: Sweep) -> float:
    """The largest gap on either side, for one scale of colours."""
    return max(abs(t.mean) for p in sweep.points if (t := p.interval()) is not None) or 1.0


def _map(
    axes: Axes, sweep: Sweep, arm: str | None, across: Axis, down: str, rows: list[float]
) -> None:
    means, most = np.full((len(rows), len(across.values)), np.nan), _most(sweep)
    for point in sweep.points:
        told = point.interval()
        if point.arm != arm or told is None:
            continue
        row = rows.index(point.parameters[down])
        column = across.values.index(point.parameters[across.key])
        means[row, column] = told.mean
        is_dark = abs(told.mean) > 0.55 * most
        is_level = side(told, sweep.noise(arm)) == "level"
        colour = "white" if is_dark else style.FAINT if is_level else style.INK
        half = "" if told.half_width is None else f"\n± {told.half_width:.3f}"
        axes.text(column, row, f"{numbers.mean_gap(told.mean)}{half}", ha="center", va="center",
                  fontsize=8.5, color=colour)  # fmt: skip
    axes.imshow(means, cmap="PuOr_r", norm=TwoSlopeNorm(0, -most, most), aspect="auto",
                origin="lower")  # fmt: skip
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def points_figure(sweep: Sweep) -> list[Drawn]:
    """A row for each point: its gap with interval and seeds. Where no number was swept."""
    known = [p for p in sweep.points if p.values()]
    points = known[:POINTS]
    if sweep.along is not None or not points:
        return []
    looks = {arm: style.look_of(arm or "", k) for k, arm in enumerate(sweep.arms or (None,))}
    caption = "Gap to the own no-failure run (measured) of every point, with its 95 % interval."
    told = {sweep.name(p.arm, p.parameters): t.mean for p in points if (t := p.interval())}
    title = f"Gap: {style.told(told, numbers.mean_gap, ' nats')}"
    with style.paper():
        cut = style.left_out(len(known), POINTS, "point")
        sure = rates.how_sure(sweep, "bars")
        figure = style.new_figure(8.6, 1.7 + 0.36 * len(points), sure, cut)
        axes = figure.subplots()
        for row, point in enumerate(points):
            _row(axes, row, point, looks[point.arm].colour)
        noise = sweep.noise()
        if noise is not None:
            axes.axvspan(-noise, noise, color=style.GRID, linewidth=0, zorder=0,
                         label=f"repeats without failures: up to {noise:.3f}")  # fmt: skip
            axes.legend(loc="best")
        axes.axvline(0, color=style.INK, linewidth=0.9, zorder=1)
        names = [style.short(sweep.name(p.arm, p.parameters), 40) for p in points]
        axes.set_yticks(range(len(points)), names)
        axes.set_ylim(len(points) - 0.5, -0.5)
        axes.set_xlabel("loss minus own no-failure run's, nats")
        style.heading(figure, title)
        return [style.render(figure, "gap_by_point", caption, f"{caption} {title}.")]


def _row(axes: Axes, row: int, point: Point, colour: str) -> None:
    told = point.interval()
    assert told is not None, "has values"
    seeds = list(point.values().values())
    axes.plot(seeds, [row] * len(seeds), "o", markersize=4, alpha=0.35, color=colour,
              markeredgewidth=0)  # fmt: skip
    axes.errorbar(told.mean, row, xerr=told.half_width, fmt="D", markersize=5.5, color=colour,
                  capsize=3)  # fmt: skip
