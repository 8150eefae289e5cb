"""Quantities of a study against the parameter that was swept: lines, bands, seeds as points."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from analysis import numbers, style
from analysis.stats import LEVEL
from analysis.style import Drawn, Line
from analysis.sweep import PROBABILITY, Read, Series, Sweep, value_of

SURE = f"{100 * LEVEL:.0f} % intervals over seeds (Student's t, paired)"
MOST, STAGES = 6, 4
"""No more lines in a figure, nor stages with a panel, than these."""
APART_POINTS = 3.5
"""Lines are drawn so far aside, or those of equal values would hide each other."""
WIDE_SPAN = 5.0
"""Values that span more than this are spaced by their logarithm."""


@dataclass(frozen=True)
class Axis:
    """The swept parameter as the axis of a figure."""

    key: str
    values: tuple[float, ...]

    @property
    def label(self) -> str:
        """What it is, for people."""
        if self.key == PROBABILITY:
            return "failure rate: chance per replica and global step"
        return self.key

    def scale(self, axes: Axes) -> None:
        """By the logarithm where values lie far apart; from the smallest down to 0 straight."""
        known = [value for value in self.values if value > 0]
        is_wide = known and min(self.values) >= 0 and max(known) > WIDE_SPAN * min(known)
        if is_wide and 0 in self.values:
            axes.set_xscale("symlog", linthresh=min(known), linscale=0.6)
            axes.set_xlim(-0.25 * min(known), max(known) * 1.35)
        elif is_wide:
            axes.set_xscale("log")
            axes.set_xlim(min(known) / 1.35, max(known) * 1.35)
        else:
            room = 0.05 * (max(self.values) - min(self.values))
            axes.set_xlim(min(self.values) - room, max(self.values) + room)
        axes.xaxis.set_minor_locator(NullLocator())

    def dress(self, axes: Axes, below: Mapping[float, str] | None = None) -> None:
        """Scale and ticks: one at each value, with a note under it where there is one."""
        self.scale(axes)
        notes = below or {}
        ticks = [f"{value_of(self.key, v)}\n{notes.get(v, '')}".rstrip() for v in self.values]
        axes.set_xticks(list(self.values), ticks)


def axis_of(sweep: Sweep) -> Axis | None:
    """The axis, where a parameter is numeric."""
    if sweep.along is None:
        return None
    return Axis(sweep.along, tuple(sorted(set(sweep.parameters[sweep.along]))))


def looks(sweep: Sweep) -> dict[str, Line]:
    """How each line is drawn, in all figures alike."""
    return {line.name: style.look_of(line.name, k) for k, line in enumerate(sweep.series())}


def draw_lines(axes: Axes, sweep: Sweep, key: str, read: Read) -> None:
    """Every line with its band, its intervals and its seeds, a little apart from the others."""
    look, drawn = looks(sweep), sweep.series()[:MOST]
    for k, series in enumerate(drawn):
        points = APART_POINTS * (k - (len(drawn) - 1) / 2)
        _line(axes, series, look[series.name], key, read, points)


def _line(
    axes: Axes, series: Series, line: Line, key: str, read: Read, aside_points: float
) -> None:
    figure = axes.get_figure()
    assert figure is not None, "axes of a figure"
    aside = axes.transData + ScaledTranslation(aside_points / 72, 0, figure.dpi_scale_trans)
    told = [(float(p.parameters[key]), p.interval(read), p.values(read)) for p in series.points]
    known = [(x, mean, seeds) for x, mean, seeds in told if mean is not None]
    if not known:
        return
    xs = np.array([x for x, _, _ in known])
    means = np.array([found.mean for _, found, _ in known])
    half = np.array([found.half_width or 0.0 for _, found, _ in known])
    look: dict[str, Any] = {"color": line.colour, "transform": aside}
    axes.fill_between(xs, means - half, means + half, alpha=0.11, linewidth=0, **look)
    axes.vlines(xs, means - half, means + half, linewidth=1.2, alpha=0.8, zorder=2, **look)
    axes.plot(xs, means, linestyle=line.dashes, marker=line.marker, markersize=5.5, label=line.name,
              zorder=4, **look)  # fmt: skip
    lows, highs = (means - half).tolist(), (means + half).tolist()
    axes.update_datalim([*zip(xs, lows, strict=True), *zip(xs, highs, strict=True)])
    axes.autoscale_view(scalex=False)  # what is drawn aside does not count by itself
    for x, found, seeds in known:
        if found.n > 1:
            axes.plot([x] * len(seeds), list(seeds.values()), "o", markersize=3.5, alpha=0.35,
                      markeredgewidth=0, zorder=3, **look)  # fmt: skip


def degraded_notes(sweep: Sweep, axis: Axis) -> dict[float, str]:
    """Realised degraded share at each value of the axis: of all arms alike, or its span."""
    found: dict[float, list[float]] = {}
    for point in sweep.points:
        mean = point.mean(itemgetter("degraded_share"))
        if mean is not None:
            found.setdefault(point.parameters[axis.key], []).append(mean)
    return {value: span(shares, numbers.percent) for value, shares in found.items()}


def span(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The one value, or the lowest to the highest."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def how_sure(sweep: Sweep, drawn: str = "bands") -> str:
    """What the bands of a figure are; without repeats there are none."""
    return f"{drawn}: {SURE}" if len(sweep.seeds) > 1 else "one seed, not evidence"


def footnotes(sweep: Sweep) -> tuple[str, ...]:
    """What stands small under a figure along the swept parameter."""
    seeds = "; faint points: seeds" if len(sweep.seeds) > 1 else ""
    return (f"{how_sure(sweep)}{seeds}", cut_lines(sweep))


def cut_lines(sweep: Sweep) -> str:
    """What a figure says of the lines that it has no room for."""
    return style.left_out(len(sweep.series()), MOST, "line")


# --- figures --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One quantity of a figure."""

    head: str
    label: str
    read: Read
    has_zero: bool
    """Zero is drawn as a line."""


def lean_of(stage: str) -> Read:
    """Rise of the final loss when an inner stage is skipped at evaluation."""

    def read(summary: Mapping[str, Any]) -> float | None:
        leans = summary["skip_stage_loss"] or {}
        return leans[stage] - summary["val_loss"] if stage in leans else None

    return read


def inner_stages(sweep: Sweep) -> list[str]:
    """Inner stages that were skipped at evaluation, in any run."""
    found = {stage for point in sweep.points for cell in point.done if cell.entry
             for stage in cell.entry.summary["skip_stage_loss"] or ()}  # fmt: skip
    return sorted(found, key=int)


def lean_figure(sweep: Sweep) -> list[Drawn]:
    """How much the loss rises when an inner stage is skipped at evaluation; a panel a stage."""
    stages = inner_stages(sweep)
    panels = [
        Panel(f"inner stage {stage} skipped", "rise of the loss, nats", lean_of(stage), True)
        for stage in stages[:STAGES]
    ]
    caption = (
        "Rise of the validation loss (measured) when one inner stage of the final model is skipped "
        "everywhere at evaluation: how much the network still leans on it."
    )
    title = "How much the network leans on its inner stages"
    cut = style.left_out(len(stages), STAGES, "stage")
    return _figure(sweep, panels, "lean_vs_rate", title, caption, cut)


def clock_figure(sweep: Sweep) -> list[Drawn]:
    """Throughput, full-depth tokens and dollars against the swept parameter."""
    panels = [
        Panel("speed", "ETTR", itemgetter("ettr"), False),
        Panel("tokens through all stages", "share of the no-failure run's",
              itemgetter("full_depth_token_share"), False),
    ]  # fmt: skip
    if any(cell.entry and cell.entry.summary["usd"]["total"] > 0 for cell in sweep.cells):
        label = "simulated dollars per million tokens"
        panels.append(Panel("price", label, itemgetter("usd_per_million_tokens"), False))
    caption = (
        "Simulated: seconds of the no-failure run over those it took (ETTR), tokens that went "
        "through all stages, and dollars per million tokens at the assumed prices."
    )
    return _figure(sweep, panels, "clock_vs_rate", "What failures do to speed and price", caption)


def _figure(
    sweep: Sweep, panels: Sequence[Panel], stem: str, title: str, caption: str, cut: str = ""
) -> list[Drawn]:
    """Panels side by side along the swept parameter, lines as everywhere."""
    axis = axis_of(sweep)
    if axis is None or not panels or not any(point.done for point in sweep.points):
        return []
    with style.paper():
        figure = style.new_figure(max(5.2, 3.5 * len(panels)), 4.2, *footnotes(sweep), cut)
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            draw_lines(axes, sweep, axis.key, panel.read)
            axis.dress(axes)
            axes.set_title(panel.head, fontsize=10)
            axes.set_ylabel(panel.label)
            axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
            if panel.has_zero:
                axes.axhline(0, color=style.FAINT, linewidth=0.8, zorder=1)
            axes.set_xlabel(textwrap.fill(axis.label, 34))
        grid[0].legend(loc="best", handlelength=2.2)
        style.heading(figure, title)
        return [style.render(figure, stem, caption, f"{caption} {title}.")]
