"""The figure of a fit: how long workers stay and stay away, and the hazard; from its fit.json."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis.style import ARMS, DASHES, FAINT, INK, heading, new_figure, paper, render, save

STEM = "fit"
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
ROWS = {"up": "up", "outage": "away"}
"""Kinds of durations, and how the axis calls them."""


def write_fit_figure(folder: Path) -> Path | None:
    """Draw `fit.json` of a folder as fit.svg, fit.png, and its points as fit.csv.

    None where it has no whole duration.
    """
    told = json.loads((folder / "fit.json").read_text("utf-8"))
    kinds = [kind for kind in ROWS if told[kind]["whole"]]
    if not kinds:
        return None
    with paper():
        note = "Kaplan-Meier with pointwise 95 % intervals; hazard between quantiles of the losses."
        inferred = "Who leaves was drawn: single lives are inferred." if not told["named"] else ""
        figure = new_figure(9.0, 0.6 + 3.0 * len(kinds), note, *([inferred] if inferred else []))
        grid = figure.subplots(len(kinds), 2, squeeze=False)
        for (left, right), kind in zip(grid, kinds, strict=True):
            _survival(left, kind, told[kind])
            _hazard(right, kind, told[kind])
        heading(figure, _finding(told))
        alt = f"Survival and hazard of {' and '.join(kinds)} times of {told['source']}."
        save([render(figure, STEM, _finding(told), alt)], folder)
    _write_points(folder / f"{STEM}.csv", told, kinds)
    return folder / f"{STEM}.png"


def _finding(told: Mapping[str, Any]) -> str:
    parts = []
    for kind, word in ROWS.items():
        if told[kind]["laws"]:
            best = told[kind]["laws"][0]
            size = next(name for name in best["interval_95"])
            parts.append(f"{word}: {best['law']} fits best, {size} {best[size]:.3g} h")
    return f"{Path(told['source']).name}. {'; '.join(parts) or 'too few losses for a law'}"


def _survival(axes: Axes, kind: str, of: Mapping[str, Any]) -> None:
    hours, share, low, high = zip(*of["survival"], strict=True)
    start = min(hours) / 3
    axes.step([start, *hours], [1.0, *share], where="post", color=INK, label="seen")
    axes.fill_between(
        [start, *hours],
        [1.0, *_filled(low, share)],
        [1.0, *_filled(high, share)],
        step="post",
        color=INK,
        alpha=0.12,
        linewidth=0,
    )
    for k, law in enumerate(of["laws"]):
        x, y = zip(*law["curve"], strict=True)
        axes.plot(x, y, color=ARMS[k], linestyle=DASHES[k], linewidth=1.4, label=law["law"])
    axes.set(xscale="log", ylim=(0, 1.02), xlim=(start, max(hours) * 1.3))
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(f"hours {ROWS[kind]}")
    axes.set_ylabel("share that lasts longer")
    axes.legend(loc="lower left")
    axes.set_title(f"{of['whole']} whole, {of['censored']} censored", fontsize=10)


def _filled(bounds: tuple[float | None, ...], share: tuple[float, ...]) -> list[float]:
    """Bounds, the estimate itself where there is none."""
    return [s if b is None else b for b, s in zip(bounds, share, strict=True)]


def _hazard(axes: Axes, kind: str, of: Mapping[str, Any]) -> None:
    for low, high, ends, at_risk in of["hazard"]:
        rate, error = ends / at_risk, ends**0.5 / at_risk
        low = max(low, high / 10)  # the first begins at 0, which this axis has not
        middle = (low * high) ** 0.5
        axes.plot([low, high], [rate, rate], color=ARMS[0])
        axes.plot([middle, middle], [max(rate - error, rate / 10), rate + error], color=FAINT)
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(PLAIN)
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"hours {ROWS[kind]}")
    axes.set_ylabel("ends per hour at risk")
    axes.set_title("hazard, with its standard error", fontsize=10)


def _write_points(path: Path, told: Mapping[str, Any], kinds: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["durations", "what", "hours", "to_hours", "value", "low", "high"])
        for kind in kinds:
            for hours, share, low, high in told[kind]["survival"]:
                writer.writerow([kind, "survival", hours, "", share, low, high])
            for start, end, ends, at_risk in told[kind]["hazard"]:
                writer.writerow([kind, "hazard_per_h", start, end, ends / at_risk, "", ""])
            for law in told[kind]["laws"]:
                for hours, share in law["curve"]:
                    writer.writerow([kind, f"survival_{law['law']}", hours, "", share, "", ""])
