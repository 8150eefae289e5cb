"""Curves over training, averaged over seeds: a column an arm, a colour a point of the sweep."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from analysis import rates, scales, style
from analysis.families import families
from analysis.load import Study
from analysis.scales import Scale
from analysis.stats import interval
from analysis.style import Drawn
from analysis.sweep import Point, Sweep

ARMS, POINTS = 4, 6
"""No more arms with a column, nor points with a curve in it, than these."""
SKIPPED = 0.25
"""Part of the evaluations, the first ones, that may leave the picture at the top."""


@dataclass(frozen=True)
class Curve:
    """Means over seeds at the global steps at which all of them were evaluated."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]
    """Zero where there is one seed."""


def mean_curve(frames: Sequence[pd.DataFrame], x: str, y: str) -> Curve:
    """Averages of columns over frames that are aligned by their column `global_steps`."""
    aligned = [frame.set_index("global_steps", drop=False) for frame in frames]
    shared = aligned[0].index
    for frame in aligned[1:]:
        shared = shared.intersection(frame.index)
    ys = np.array([frame.loc[shared, y].to_numpy(np.float64) for frame in aligned])
    xs = np.array([frame.loc[shared, x].to_numpy(np.float64) for frame in aligned])
    told = [interval(column.tolist()) for column in ys.T]
    means = np.array([found.mean for found in told if found])
    half = np.array([found.half_width or 0.0 for found in told if found])
    return Curve(xs.mean(axis=0), means, half)


@dataclass(frozen=True)
class Column:
    """An arm: its no-failure runs, of each family, and its points; evaluations, a frame a seed."""

    arm: str | None
    healthy: tuple[tuple[pd.DataFrame, ...], ...]
    points: dict[str, tuple[pd.DataFrame, ...]]
    """By name; `gap` is the loss minus that of the no-failure run of the same seed."""
    of: int
    """How many points there are; of many, some are left out."""


def columns_of(study: Study, sweep: Sweep) -> list[Column]:
    """The arms that have been evaluated; of many points the first, the last, some between."""
    seen = {run.path: run.evaluated() for run in study.runs}
    found = []
    for arm in sweep.arms or (None,):
        points = [(p, f) for p in sweep.points if p.arm == arm and (f := _frames(p, seen))]
        count = len(points)
        if count > POINTS:
            points = [points[round(k * (count - 1) / (POINTS - 1))] for k in range(POINTS)]
        named = {sweep.name(None, p.parameters) if p.parameters else "with failures": frames
                 for p, frames in points}  # fmt: skip
        if named:
            own = [f for f in families(sweep) if any(f.holds(point) for point, _ in points)]
            healthy = (tuple(seen[e.path] for e in f.healthy if len(seen[e.path])) for f in own)
            found.append(Column(arm, tuple(filter(None, healthy)), named, count))
    return found


def _frames(point: Point, seen: Mapping[Path, pd.DataFrame]) -> tuple[pd.DataFrame, ...]:
    found = []
    for cell in point.cells:
        if cell.entry is not None and cell.healthy is not None and len(seen[cell.entry.path]):
            other = seen[cell.healthy.path].set_index("global_steps")["val_loss"]
            frame = seen[cell.entry.path]
            gap = frame["val_loss"] - frame["global_steps"].map(other)
            found.append(frame.assign(gap=gap))
    return tuple(found)


def training_figures(study: Study, sweep: Sweep) -> list[Drawn]:
    """Each arm against its own baseline over training, and against tokens, hours and dollars."""
    columns = columns_of(study, sweep)
    if not columns:
        return []
    told = "means over seeds" if len(sweep.seeds) > 1 else "one seed"
    caption = (
        f"Each arm against its own no-failure run over training (measured), {told}; below, the "
        "difference of the two, paired by seed."
    )
    title = "Each arm against its own no-failure run"
    steps = scales.global_steps()
    found = [_columns(sweep, columns, steps, "training", title, caption, has_gap=True)]
    ways = [scales.trained_tokens(), scales.time(study.runs)]
    ways += [scales.dollars()] if study.has_prices else []
    for scale, of in zip(ways, ("tokens", "hours", "dollars"), strict=False):
        caption = f"Validation loss (measured) against {scale.label}, {told} at equal global steps."
        title = f"Loss against {scale.label}"
        found.append(
            _columns(sweep, columns, scale, f"loss_vs_{of}", title, caption, has_gap=False)
        )
    return found


def _columns(
    sweep: Sweep,
    columns: Sequence[Column],
    scale: Scale,
    stem: str,
    title: str,
    caption: str,
    *,
    has_gap: bool,
) -> Drawn:
    drawn = columns[:ARMS]
    left = style.left_out(len(columns), ARMS, "arm")
    cut = style.left_out(max(column.of for column in drawn), POINTS, "point")
    colours = _colours(drawn)
    rows = 2 if has_gap else 1
    with style.paper():
        width = max(5.6, 1.9 + 2.5 * len(drawn))
        figure = style.new_figure(width, 2.2 + 1.9 * rows, rates.how_sure(sweep), left, cut)
        grid = figure.subplots(rows, len(drawn), squeeze=False, sharex=True, sharey="row",
                               height_ratios=(1.3, 1)[:rows])  # fmt: skip
        for k, column in enumerate(drawn):
            for name, frames in column.points.items():
                for row, key in enumerate(("val_loss", "gap")[:rows]):
                    _draw(grid[row, k], mean_curve(frames, scale.key, key), scale, colours[name])
            for frames in column.healthy:
                healthy = mean_curve(frames, scale.key, "val_loss")
                grid[0, k].plot(scale.of(healthy.x), healthy.mean, linestyle=style.REFERENCE,
                                linewidth=1.4, color=style.INK, zorder=4)  # fmt: skip
            grid[0, k].set_title(style.short(column.arm or "", 22), fontsize=10)
            scale.dress(grid[-1, k])
            grid[-1, k].xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            grid[-1, k].set_xlabel(textwrap.fill(scale.label, 24))
        grid[0, 0].set_ylim(_ends(drawn))
        grid[0, 0].set_ylabel("validation loss, nats")
        if has_gap:
            grid[1, 0].set_ylabel("gap, nats")
            for axes in grid[1]:
                axes.axhline(0, color=style.INK, linestyle=style.REFERENCE, linewidth=1.2)
        _legend(figure, colours)
        style.heading(figure, title)
        return style.render(figure, stem, caption, f"{caption} {title}.")


def _colours(columns: Sequence[Column]) -> dict[str, str]:
    names = list(dict.fromkeys(name for column in columns for name in column.points))
    return dict(zip(names, style.shades(len(names)), strict=True))


def _draw(axes: Axes, curve: Curve, scale: Scale, colour: str) -> None:
    xs = scale.of(curve.x)
    low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
    axes.fill_between(xs, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(xs, curve.mean, color=colour, linewidth=1.6)


def _ends(columns: Sequence[Column]) -> tuple[float, float]:
    """The start of training, where all curves are one, may leave the picture at the top."""
    losses = [mean_curve(frames, "global_steps", "val_loss").mean
              for column in columns for frames in column.points.values()]  # fmt: skip
    low = min(float(loss.min()) for loss in losses)
    high = max(float(loss[int(SKIPPED * (len(loss) - 1))]) for loss in losses)
    room = 0.05 * (high - low) or 0.1
    return low - room, high + room


def _legend(figure: Figure, colours: Mapping[str, str]) -> None:
    handles = [Line2D([], [], color=colour) for colour in colours.values()]
    handles.append(Line2D([], [], color=style.INK, linestyle=style.REFERENCE))
    names = [textwrap.fill(name, 22) for name in (*colours, "no failure")]
    figure.legend(handles, names, loc="outside right upper", handlelength=1.8)
