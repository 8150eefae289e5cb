"""What a loss costs: final losses against bills, a point a point of the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import rates, style
from analysis.families import families
from analysis.style import Drawn, Line
from analysis.sweep import Series, Sweep, value_of

LOSS = itemgetter("val_loss")


def bill(summary: Mapping[str, Any]) -> float:
    """Simulated dollars of the whole run."""
    return float(summary["usd"]["total"])


def cost_figure(sweep: Sweep) -> list[Drawn]:
    """Final loss against the bill: a line's points joined in their order, seeds faint."""
    lines = [line for line in sweep.series() if any(p.values(LOSS) for p in line.points)]
    if not any(p.mean(bill) for line in lines for p in line.points):
        return []
    look = rates.looks(sweep)
    caption = (
        "Final validation loss (measured) against the simulated bill of the same global steps, "
        "means over seeds. Lower and further left is better. Stars: without failures."
    )
    title = "What the same global steps cost, and the loss they end at"
    with style.paper():
        note = "means over seeds; faint points: seeds" if len(sweep.seeds) > 1 else ""
        cut = rates.cut_lines(sweep)
        figure = style.new_figure(7.6, 4.6, note or rates.how_sure(sweep), cut)
        axes = figure.subplots()
        for line in lines[: rates.MOST]:
            _line(axes, line, look[line.name], str(sweep.along))
        healthy = [[run for run in family.healthy if run.summary["val_loss"] is not None]
                   for family in families(sweep)]  # fmt: skip
        for k, entries in enumerate(filter(None, healthy)):
            x, y = (sum(map(read, (e.summary for e in entries))) / len(entries)
                    for read in (bill, LOSS))  # fmt: skip
            axes.plot(x, y, "*", color=style.INK, markersize=12, zorder=5,
                      label="no failure" if k == 0 else None)  # fmt: skip
        axes.set_xlabel("simulated dollars")
        axes.set_ylabel("final validation loss, nats per token")
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"${value:,.6g}"))
        axes.margins(0.08)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        style.heading(figure, title)
        return [style.render(figure, "loss_vs_cost", caption, f"{caption} {title}.")]


def _line(axes: Axes, line: Series, look: Line, along: str) -> None:
    done = [p for p in line.points if p.values(LOSS)]
    xs = [p.mean(bill) or 0.0 for p in done]
    ys = [p.mean(LOSS) or 0.0 for p in done]
    axes.plot(xs, ys, linestyle=look.dashes, marker=look.marker, markersize=6, color=look.colour,
              linewidth=1.2, label=look.name, zorder=3)  # fmt: skip
    told_at: list[float] = []
    room = 0.04 * (max(xs) - min(xs))
    for x, y, point in reversed(list(zip(xs, ys, done, strict=True))):
        if all(abs(x - other) > room for other in told_at):
            told_at.append(x)
            axes.annotate(value_of(along, point.parameters[along]), (x, y), (5, 4),
                          color=look.colour, textcoords="offset points", fontsize=8.5)  # fmt: skip
        if len(point.done) > 1:
            told = list(point.values(bill).values()), list(point.values(LOSS).values())
            axes.plot(*told, "o", markersize=3.5, alpha=0.35, color=look.colour, markeredgewidth=0)
