"""Where the slot-seconds and the dollars went: the drivers of the bill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis import numbers, style, table
from analysis.folders import CLASSES
from analysis.load import Run, Study
from analysis.style import Drawn
from analysis.words import name

ARMS = 24
"""No more arms than this are drawn."""
LETTER = 0.0115
"""Width of a digit in a bar, of the widest bar; parts wide enough carry their number."""


def slot_hours(run: Run) -> dict[str, float]:
    """Slot-hours by class; spare workers' hours beside them."""
    told = {name: float(run.summary["slot_s"][name]) / 3600 for name in CLASSES}
    return told | {"spare": float(run.steps["spare_s"].sum()) / 3600}


def dollars(run: Run) -> dict[str, float]:
    """Dollars by what was paid for; sums to the bill.

    Billed worker-time is everything but vacant, and spares; compute dollars are split in its
    proportion, which is exact where all workers cost the same.
    """
    hours = slot_hours(run) | {"vacant": 0.0}
    billed = sum(hours.values())
    rent = float(run.summary["usd"]["compute"])
    split = {key: rent * value / billed if billed else 0.0 for key, value in hours.items()}
    return split | {key: float(run.summary["usd"][key]) for key in ("egress", "storage")}


def money_figures(study: Study) -> list[Drawn]:
    """Slot-hours by class and, where something has a price, dollars."""
    runs = study.runs[:ARMS]
    cut = "" if len(runs) == len(study.runs) else f" The first {ARMS} arms."
    useful = style.told({name(run): _compute_share(run) for run in runs}, numbers.percent)
    caption = f"Slot-hours of each arm by class (simulated); spare workers beside them.{cut}"
    found = [
        _bars(study, runs, [slot_hours(run) for run in runs], "slot_hours", caption,
              f"Slot time that computed: {useful}", "simulated slot-hours"),
    ]  # fmt: skip
    if study.has_prices:
        paid = [dollars(run) for run in runs]
        cost = style.told({name(run): _per_million(run) for run in runs}, numbers.usd)
        caption = (
            "Dollars of each arm by what they paid for (simulated at assumed prices). A vacant "
            f"slot is not billed; rent is split by worker-time.{cut}"
        )
        title = f"Dollars per million tokens: {cost}"
        found.append(_bars(study, runs, paid, "bill", caption, title, "simulated dollars"))
    return found


def _compute_share(run: Run) -> float:
    told = run.summary["slot_s"]
    return float(told["compute"]) / sum(float(told[key]) for key in CLASSES)


def _per_million(run: Run) -> float:
    return float(run.summary["usd_per_million_tokens"])


def _bars(
    study: Study,
    runs: Sequence[Run],
    parts: Sequence[dict[str, float]],
    stem: str,
    caption: str,
    title: str,
    label: str,
) -> Drawn:
    seen = [key for key in parts[0] if any(part[key] > 0 for part in parts)]
    with style.paper():
        figure = style.new_figure(9.6, 1.75 + 0.42 * len(runs), table.joined_labels(study.listing))
        axes = figure.subplots()
        left = np.zeros(len(runs))
        widest = max(sum(part.values()) for part in parts) or 1.0
        for key in seen:
            width = np.array([part[key] for part in parts])
            axes.barh(range(len(runs)), width, 0.66, left, color=style.CLASS_COLOURS[key],
                      edgecolor="white", linewidth=0.6)  # fmt: skip
            _numbers(axes, key, left, width, widest)
            left += width
        for row, total in enumerate(left):
            text = numbers.usd(total) if stem == "bill" else numbers.significant(total)
            axes.text(total + widest * 0.01, row, text, va="center", fontsize=9.5)
        axes.set_yticks(range(len(runs)), [style.short(run.cell) for run in runs])
        axes.set_ylim(len(runs) - 0.5, -0.5)
        axes.set_xlim(0, widest * 1.09)
        axes.grid(False)
        axes.set_xlabel(label)
        axes.set_title(title, pad=8)
        figure.legend(
            handles=[Patch(facecolor=style.CLASS_COLOURS[key]) for key in seen],
            labels=seen,
            loc="outside right upper",
        )
        return style.render(figure, stem, caption, f"{caption} {title}.")


def _numbers(axes: Axes, key: str, left: np.ndarray, width: np.ndarray, widest: float) -> None:
    """A part's share of its bar, inside it where there is room."""
    dark = key in ("compute", "vacant", "lost", "restore", "egress", "storage")
    for row, (begin, wide) in enumerate(zip(left, width, strict=True)):
        text = numbers.significant(float(wide))
        if wide >= LETTER * (len(text) + 1) * widest:
            axes.text(begin + wide / 2, row, text, ha="center", va="center", fontsize=9,
                      color="white" if dark else style.INK)  # fmt: skip
