"""Validation loss against tokens, time and dollars; the gap; progress where nothing is trained.

Under the axes lies a strip for every arm in which something was out: the outages as bands, with
the share of slots that were out, and of those that were held up by it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from analysis import numbers, scales, style, table
from analysis.load import Run, Study
from analysis.occupancy import HELD_UP, OUT, by_round
from analysis.reach import reach, target_loss
from analysis.scales import Scale
from analysis.style import Drawn, Line
from analysis.words import name

STRIPS = 6
"""No more strips than this; further arms are drawn as curves only."""
IN_AXES = 6
"""Curves with a legend among them; more have it below."""
BINS = 480
SIZE = (4.2, 4.1)
"""Inches of a single panel; readable on a telephone."""

Draw = Callable[[Axes, Run, Line, Scale], None]


def loss_figures(study: Study) -> list[Drawn]:
    """Loss against tokens, time and dollars, one figure each, and all side by side.

    Dollars are left out where nothing has a price; nothing is drawn without an evaluation.
    """
    if not study.has_losses:
        return []
    target = target_loss(study)
    panels = [
        (scales.trained_tokens(), "loss_vs_tokens", _tokens_title(study)),
        (scales.time(study.runs), "loss_vs_hours", _reach_title(study, target, "end_s")),
    ]
    if study.has_prices:
        usd = scales.dollars()
        panels.append((usd, "loss_vs_dollars", _reach_title(study, target, "usd")))
    found = []
    for scale, stem, title in panels:
        caption = f"Validation loss (measured) against {scale.label}. {_strip_caption(study)}"
        one = [(scale, title, "validation loss, nats per token", _loss)]
        found.append(_figure(study, one, stem, caption, SIZE))
    every = [(scale, title, "validation loss, nats per token", _loss) for scale, _, title in panels]
    caption = f"Validation loss (measured), three ways to count. {_strip_caption(study)}"
    found.append(_figure(study, every, "loss", caption, (4.3 * len(every), 4.6)))
    return found


def gap_figure(study: Study) -> list[Drawn]:
    """Each arm's loss minus its no-failure run's at the same global step."""
    runs = [run for run in study.faulty if len(_gaps(study, run)[0])]
    if not runs:
        return []
    ended = style.told({name(run): _gaps(study, run)[1][-1] for run in runs}, numbers.gap, " nats")
    caption = (
        "Gap (measured): validation loss minus that of the arm's own no-failure run at the same "
        f"global step. {_strip_caption(study)}"
    )

    def draw(axes: Axes, run: Run, line: Line, scale: Scale) -> None:
        if run.is_baseline:
            axes.axhline(0, color=line.colour, linestyle=line.dashes)
            return
        steps, gaps = _gaps(study, run)
        _plot(axes, steps, gaps, line, numbers.gap(gaps[-1]))

    panel = (scales.global_steps(), f"Final gap: {ended}",
             "loss minus no failure's, nats", draw)  # fmt: skip
    return [_figure(study, [panel], "gap", caption, SIZE)]


def progress_figures(study: Study) -> list[Drawn]:
    """Tokens, dollars and throughput against simulated time: the figures of a timing study."""
    time = scales.time(study.runs)
    rates = {name(run): float(run.summary["tokens_per_s"]) for run in study.runs}
    rate = style.told(rates, numbers.significant)
    panels = [
        ("progress_tokens", f"Tokens a second: {rate}", scales.timed_tokens()),
        ("progress_dollars", _bill_title(study), scales.dollars()),
    ]
    if not study.has_prices:
        panels.pop()
    found = []
    for stem, title, quantity in panels:

        def draw(axes: Axes, run: Run, line: Line, scale: Scale, y: Scale = quantity) -> None:
            told = run.cumulative()
            xs, ys = scale.of(told[scale.key]), y.of(told[y.key])
            on_top = 3 if line.is_reference else 2
            axes.plot(xs, ys, linestyle=line.dashes, color=line.colour, label=line.name,
                      zorder=on_top)  # fmt: skip
            axes.plot(xs[-1:], ys[-1:], line.marker, color=line.colour, zorder=on_top)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: y.show(value)))

        caption = f"{quantity.label.capitalize()} against {time.label}. {_strip_caption(study)}"
        panel = (time, title, quantity.label, draw)
        found.append(_figure(study, [panel], stem, caption, SIZE))
    return found


# --- one figure -----------------------------------------------------------------------------

Panel = tuple[Scale, str, str, Draw]
"""Horizontal axis, title, label of the vertical axis, what draws an arm."""


def _figure(
    study: Study, panels: Sequence[Panel], stem: str, caption: str, size: tuple[float, float]
) -> Drawn:
    looks = style.lines(study.runs)
    strips = _strip_runs(study)
    top = max((_held(run).max() for run in strips), default=0.0)
    columns = max(1, int(size[0] / 2))
    below = 0.0 if len(looks) <= IN_AXES else 0.22 * -(-len(looks) // columns) + 0.1
    bands = "strips: slots out (dark), waiting or lost (light)" if strips else ""
    with style.paper():
        height = size[1] + 0.46 * len(strips) + below
        notes = (bands, table.joined_labels(study.listing))
        figure = style.new_figure(size[0], height, *notes, below=below)
        heights = [size[1] - 1.3, *[0.42] * len(strips)]
        grid = figure.subplots(
            1 + len(strips), len(panels), squeeze=False, height_ratios=heights, sharex="col"
        )
        for k, (scale, title, label, draw) in enumerate(panels):
            axes = grid[0, k]
            for run in study.runs:
                draw(axes, run, looks[run.cell], scale)
            if len(panels) > 1:
                axes.set_title(textwrap.fill(title, 41), fontsize=10, pad=8)
            if k == 0:
                axes.set_ylabel(label)
            _limits(axes, study, scale)
            for row, run in enumerate(strips, start=1):
                _strip(grid[row, k], run, looks[run.cell], scale, float(top), k == 0)
            scale.dress(grid[-1, k])
        if len(panels) == 1:
            style.heading(figure, panels[0][1])
        _legend(figure, grid[0, -1], columns if below else 0)
        return style.render(figure, stem, caption, f"{caption} {panels[0][1]}.")


def _limits(axes: Axes, study: Study, scale: Scale) -> None:
    ends = [float(scale.of(run.cumulative()[scale.key])[-1]) for run in study.runs]
    most = max(ends)
    axes.set_xlim(0, most * 1.03 if most > 0 else 1)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Among the curves, or in so many columns in the room that was left below."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    if not columns:
        axes.legend(loc="best", handlelength=2.2)
        return
    layout = figure.get_layout_engine()
    assert layout is not None, "made by new_figure"
    top = layout.get()["rect"][1]
    legend = figure.legend(
        handles, labels, loc="upper center", ncols=columns, bbox_to_anchor=(0.5, top)
    )
    legend.set_in_layout(False)


def _plot(axes: Axes, xs: ArrayLike, ys: ArrayLike, line: Line, label: str) -> None:
    """A curve; a no-failure run dashed and on top, so that what it hides shows through."""
    marker = line.marker if not line.is_reference or np.size(xs) == 1 else ""
    axes.plot(
        xs,
        ys,
        linestyle=line.dashes,
        marker=marker,
        markeredgewidth=0,
        color=line.colour,
        zorder=3 if line.is_reference else 2,
        label=f"{line.name}  {label}".rstrip(),
    )


def _loss(axes: Axes, run: Run, line: Line, scale: Scale) -> None:
    seen = run.evaluated()
    if len(seen):
        xs = scale.of(seen[scale.key].to_numpy())
        ys = seen["val_loss"].to_numpy()
        _plot(axes, xs, ys, line, numbers.loss(float(ys[-1])))


# --- outages as bands -----------------------------------------------------------------------


def _strip_runs(study: Study) -> list[Run]:
    return [run for run in study.runs if run.had_outages][:STRIPS]


def _strip_caption(study: Study) -> str:
    strips = _strip_runs(study)
    if not strips:
        return "No slot was out."
    cut = sum(run.had_outages for run in study.runs) - len(strips)
    left = f" Strips of {cut} more arms are left out." if cut else ""
    return (
        "Strips below: share of slot time in each global step that was out (dark: vacant, booting, "
        f"loading) or held up (light: waiting, also at the barrier, or work lost).{left}"
    )


def _held(run: Run) -> NDArray[np.float64]:
    return by_round(run.steps, OUT + HELD_UP, BINS)[1]


def _strip(axes: Axes, run: Run, line: Line, scale: Scale, top: float, is_first: bool) -> None:
    """The band of one arm: out dark, held up light, on the scale of the figure's x axis."""
    edges_s, out = by_round(run.steps, OUT, BINS)
    edges = scale.at_times(run, edges_s)
    _stairs(axes, _held(run), edges, line.colour, 0.3)
    _stairs(axes, out, edges, line.colour, 1.0)
    axes.set_ylim(0, top * 1.05)
    axes.set_yticks([top], [numbers.percent(top)], fontsize=9)
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if is_first:
        axes.set_ylabel(style.short(run.cell, 10), rotation=0, ha="right", va="center",
                        color=line.colour, fontsize=9.5)  # fmt: skip


def _stairs(
    axes: Axes, values: NDArray[np.float64], edges: NDArray[np.float64], colour: str, alpha: float
) -> None:
    """Filled steps, equal neighbours merged."""
    starts = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    corners = edges[np.append(starts, len(values))]
    axes.stairs(values[starts], corners, fill=True, color=colour, alpha=alpha, linewidth=0)


# --- words ----------------------------------------------------------------------------------


def _gaps(study: Study, run: Run) -> tuple[list[float], list[float]]:
    """Global steps at which the run and its no-failure run were both evaluated, and the gaps."""
    baseline = study.baseline_of(run)
    if baseline is None:
        return [], []
    mine, other = (r.evaluated().set_index("global_steps")["val_loss"] for r in (run, baseline))
    gaps = (mine - other).dropna()
    return [float(step) for step in gaps.index], [float(gap) for gap in gaps]


def _tokens_title(study: Study) -> str:
    seen = {name(run): float(run.summary["train_tokens"]) for run in study.runs}
    return f"Tokens: {style.told(seen, numbers.count)}"


def _reach_title(study: Study, target: float | None, key: str) -> str:
    what = "time" if key == "end_s" else "dollars"
    found = {} if target is None else {name(run): reach(run, target) for run in study.runs}
    needed = {cell: float(getattr(r, key)) for cell, r in found.items() if r is not None}
    if target is None or len(needed) < 2:
        return f"Loss against simulated {what}"
    show = scales.durations(max(needed.values())) if key == "end_s" else numbers.usd
    return f"To a loss of {numbers.loss(target)}: {style.told(needed, show)}"


def _bill_title(study: Study) -> str:
    bills = {name(run): float(run.summary["usd"]["total"]) for run in study.runs}
    return f"The bill: {style.told(bills, numbers.usd)}"
