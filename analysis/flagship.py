"""The gap to the own no-failure run against the failure rate, with all that it must be read by."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import numbers, rates, style
from analysis.families import depths
from analysis.load import Run, Study
from analysis.rates import Axis
from analysis.regimes import REGIMES
from analysis.style import Drawn
from analysis.sweep import NOISE, PROBABILITY, Sweep, gap, value_of, values_of

SIZE = (9.6, 5.4)
"""Inches: the shape of a slide."""
ALIKE_NATS = 0.005
"""Depth values that differ by less are drawn as one line."""
ALIKE_ROUNDS = 1.01
"""Rounds of arms that differ by less are told as one."""
ROUND_RATES = tuple(digit * 10.0**power for power in range(-5, 4) for digit in (1, 3))
BARS = "bars: losses per worker-hour seen in real pools; dark came alone, light all, bulk included"
NOISE_COLOUR, REGIME_COLOUR = "#d9d9d9", "#8a6d3b"


@dataclass(frozen=True)
class Clock:
    """What turns a chance per replica and global step into losses of a slot per hour."""

    slots: int
    """Slots of a replica that can be lost."""
    round_s: float
    """Simulated seconds of a round without failures."""
    is_inner: bool
    arm: str | None = None
    """Whose round it is, where arms differ in it."""
    all_s: tuple[float, float] = (0.0, 0.0)
    """Then the shortest and the longest of all arms."""

    def per_hour(self, probability: float) -> float:
        """Losses per hour of a slot that can be lost: p / slots / hours of a round."""
        return probability / self.slots / (self.round_s / 3600)


def clock_of(study: Study, sweep: Sweep) -> Clock | None:
    """Of the first arm with a failure rate and a finished no-failure run; None in other regimes."""
    runs = {run.path: run for run in study.runs}
    clocks: dict[str | None, Clock] = {}
    for cell in sweep.cells:
        if cell.control is None and cell.entry is not None and cell.healthy is not None:
            law = runs[cell.entry.path].scenario.get("outages") or {}
            slots = _exposed(law.get("stages"), runs[cell.entry.path])
            if law.get("kind") == "per_global_step" and slots:
                healthy = cell.healthy.summary
                round_s = healthy["wall_s"] / healthy["global_steps"]
                clocks.setdefault(cell.arm, Clock(slots, round_s, law.get("stages") == "inner"))
    if not clocks:
        return None
    (arm, first), *_ = clocks.items()
    all_s = min(c.round_s for c in clocks.values()), max(c.round_s for c in clocks.values())
    return first if all_s[1] < ALIKE_ROUNDS * all_s[0] else replace(first, arm=arm, all_s=all_s)


def _exposed(stages: object, run: Run) -> int:
    """How many slots of a replica an `outages.stages` names."""
    count = int(run.summary["stages"])
    if isinstance(stages, list):
        return len(stages)
    return {"inner": count - 2, "ends": min(count, 2), "all": count}.get(str(stages), 0)


def flagship(study: Study, sweep: Sweep) -> list[Drawn]:
    """The figure; empty where no number was swept or nothing has a gap."""
    axis = rates.axis_of(sweep)
    if axis is None or not any(point.values() for point in sweep.points):
        return []
    clock = clock_of(study, sweep) if axis.key == PROBABILITY else None
    if axis.key == PROBABILITY and sweep.noise() is not None:  # repeats are runs at 0 %
        axis = Axis(axis.key, tuple(sorted({0.0, *axis.values})))
    with style.paper():
        figure = style.new_figure(*SIZE, *rates.footnotes(sweep), *([BARS] if clock else []))
        if clock is None:
            axes = figure.subplots()
        else:
            strip, axes = figure.subplots(2, 1, height_ratios=(1, 3.4), sharex=True)
        rates.draw_lines(axes, sweep, axis.key, gap)
        _noise(axes, sweep, axis)
        _depth(axes, sweep)
        _dress(axes, sweep, axis)
        if clock is not None:
            _regimes(strip, axis, clock)
        _legend(axes)
        style.heading(figure, _title(sweep, axis))
        caption = _caption(sweep, clock)
        stem = "loss_vs_failure_rate" if axis.key == PROBABILITY else "loss_vs_parameter"
        return [style.render(figure, stem, caption, f"{caption} {_title(sweep, axis)}.")]


def _noise(axes: Axes, sweep: Sweep, axis: Axis) -> None:
    """What repeats without failures differ by: on either side, since their sign is chance."""
    most = sweep.noise()
    if most is None:
        return
    axes.axhspan(-most, most, color=NOISE_COLOUR, alpha=0.6, linewidth=0, zorder=0,
                 label=f"repeats without failures: up to {most:.3f}")  # fmt: skip
    if axis.values[0] == 0:
        moved = values_of(sweep.control(NOISE))
        axes.plot([0.0] * len(moved), moved, "x", markersize=5, color=style.FAINT, zorder=2)


def _depth(axes: Axes, sweep: Sweep) -> None:
    """The depth value: one line where families agree, else one in the colour of each."""
    known = depths(sweep)
    means = [told.mean for _, told in known]
    if not means:
        return
    look: dict[str, Any] = {"linestyle": style.REFERENCE, "linewidth": 1.3, "zorder": 1}
    if max(means) - min(means) <= max(sweep.noise() or 0.0, ALIKE_NATS):
        label = f"without inner stages: {rates.span(means, numbers.gap)}"
        axes.axhline(fmean(means), color=style.INK, label=label, **look)
        return
    lines = rates.looks(sweep)
    for family, told in known:
        colour = next(lines[series.name].colour for series in sweep.series()
                      if any(map(family.holds, series.points)))  # fmt: skip
        whose = family.named(", ".join(family.arms))
        label = f"without inner stages: {numbers.gap(told.mean)} ({whose})"
        axes.axhline(told.mean, color=colour, label=label, **look)


def _dress(axes: Axes, sweep: Sweep, axis: Axis) -> None:
    axis.dress(axes, rates.degraded_notes(sweep, axis))
    axes.set_xlabel(f"{axis.label}\nbelow it: realised share of replica-rounds degraded")
    axes.set_ylabel("loss minus own no-failure run's, nats")
    axes.axhline(0, color=style.INK, linewidth=0.9, zorder=1)
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    wrapped = [textwrap.fill(label, 26) for label in labels]
    axes.legend(handles, wrapped, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.0)


def _regimes(strip: Axes, axis: Axis, clock: Clock) -> None:
    """Bars above the curve: where real pools lose workers, on the axis of losses per hour."""
    left, right = strip.get_xlim()
    per_p = clock.per_hour(1.0)
    for row, regime in enumerate(REGIMES):
        for (low, high), alpha in (((regime.low, regime.high), 0.28), (regime.independent, 1.0)):
            begin, end = max(low / per_p, left), min(high / per_p, right)
            if begin < end:
                strip.barh(row, end - begin, 0.62, begin, color=REGIME_COLOUR, alpha=alpha,
                           linewidth=1.2, edgecolor=REGIME_COLOUR)  # fmt: skip
            else:  # beyond the axis, on this side
                edge, sign = (left, "\N{LEFTWARDS ARROW}") if high / per_p <= left else (
                    right, "\N{RIGHTWARDS ARROW}")  # fmt: skip
                strip.text(edge, row, sign, color=REGIME_COLOUR, alpha=alpha, va="center",
                           ha="left" if edge == left else "right")  # fmt: skip
    names = [f"{r.name}, {numbers.percent(r.in_bulk)} in bulk" for r in REGIMES]
    strip.yaxis.tick_right()
    strip.set_yticks(range(len(REGIMES)), names, fontsize=8.5)
    strip.set_ylim(len(REGIMES) - 0.4, -0.6)
    strip.tick_params(axis="both", length=0, labelbottom=False)
    strip.set_xlim(left, right)
    strip.spines[["left", "bottom"]].set_visible(False)
    top = strip.twiny()
    axis.scale(top)
    smallest = min(value for value in axis.values if value > 0)
    lowest = smallest / 4 if 0 in axis.values else left
    ticks = [0.0] * (0 in axis.values) + [r for r in ROUND_RATES if lowest <= r / per_p <= right]
    top.set_xticks([rate / per_p for rate in ticks], [f"{rate:g}" for rate in ticks])
    top.set_xlim(left, right)
    top.grid(False)
    top.spines[["left", "bottom"]].set_visible(False)
    which = "inner-slot-hour" if clock.is_inner else "hour of a slot that can be lost"
    top.set_xlabel(f"losses per {which}, at {round_words(clock)} a round (simulated)")


def round_words(clock: Clock) -> str:
    """Seconds of a round as people say them, and whose they are if that makes a difference."""
    unit_s, unit = (1, "s") if clock.round_s < 120 else (60, "min")
    own = f"{numbers.significant(clock.round_s / unit_s)} {unit}"
    if clock.arm is None:
        return own
    low, high = (numbers.significant(seconds / unit_s) for seconds in clock.all_s)
    return f"{own} ({style.short(clock.arm)}; all arms {low} to {high} {unit})"


def _title(sweep: Sweep, axis: Axis) -> str:
    top = axis.values[-1]
    ends = {
        line.name: told.mean
        for line in sweep.series()
        for point in line.points
        if point.parameters[axis.key] == top and (told := point.interval()) is not None
    }
    if not ends:
        return "Loss against the failure rate"
    return f"Gap at {value_of(axis.key, top)}: {style.told(ends, numbers.mean_gap, ' nats')}"


def _caption(sweep: Sweep, clock: Clock | None) -> str:
    parts = [
        "Gap (measured): final validation loss minus that of the arm's own no-failure run, same "
        "seed. Grey, and crosses at 0 %: how far repeats without failures differ. Dashed: a model "
        "without inner stages."
    ]
    if clock is not None:
        of = "; ".join(f"{r.name} {r.low:g}-{r.high:g}, {r.source}" for r in REGIMES)
        parts.append(
            "Bars: losses per worker-hour seen in real pools; dark the independent part, which is "
            "what this sweep draws, light with the losses in bulk, which it does not show "
            f"({of}). Second axis: p / {clock.slots} / hours of a round."
        )
    return " ".join(parts)
