"""Measured pools on the failure-rate axis, from a regimes.csv, against the published chance."""

from __future__ import annotations

import csv
from pathlib import Path

from matplotlib.ticker import FuncFormatter, NullFormatter

from analysis.style import ARMS, FAINT, INK, MARKERS, heading, new_figure, paper, render, save

STEM = "regimes"
PUBLISHED = 0.01
PREFIX, SUFFIX = "p_per_replica_at_", "_min"
HEIGHT = 0.19
"""Inches a pool."""


def write_rates_axis(folder: Path) -> Path:
    """Draw regimes.csv of a folder as regimes.png and regimes.svg beside it."""
    with (folder / f"{STEM}.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    rows.sort(key=lambda row: float(row["losses_per_worker_hour"]))
    keys = [key for key in rows[0] if key.startswith(PREFIX)]
    middle = keys[len(keys) // 2]
    above = sum(float(row[middle]) > PUBLISHED for row in rows)
    minutes = middle.removeprefix(PREFIX).removesuffix(SUFFIX)
    finding = (
        f"At a {minutes}-minute global step {above} of {len(rows)} measured pools and regimes "
        f"lie above the published {100 * PUBLISHED:g} %"
    )
    with paper():
        note = (
            "P = 1 - exp(-2 rate t), two inner slots of a replica; losses taken as independent. "
            "Right: share of losses in bulk, which the axis does not show; (a) assumed."
        )
        figure = new_figure(9.0, 1.6 + HEIGHT * len(rows), note)
        axes = figure.subplots()
        for k, key in enumerate(keys):
            step = key.removeprefix(PREFIX).removesuffix(SUFFIX)
            axes.plot(
                [float(row[key]) for row in rows],
                range(len(rows)),
                linestyle="none",
                marker=MARKERS[k],
                color=ARMS[k],
                label=f"{step} min a step",
                markersize=5,
            )
        axes.axvline(PUBLISHED, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
        axes.annotate("published 1 %", (PUBLISHED, len(rows) - 0.3), ha="center", fontsize=9)
        axes.set_yticks(range(len(rows)), [_name(row) for row in rows], fontsize=8)
        for at, row in enumerate(rows):
            mark = " (a)" if row["in_bulk_is"] == "assumed" else ""
            told = f"{float(row['in_bulk']):.0%}{mark}"
            axes.annotate(
                told,
                (1.01, at),
                xycoords=("axes fraction", "data"),
                fontsize=8,
                va="center",
                color=FAINT,
            )
        axes.set(xscale="log", xlim=(None, 1.0), ylim=(-0.7, len(rows) + 0.4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("chance that a replica loses an inner stage in a global step")
        axes.legend(loc="upper left")
        heading(figure, finding)
        alt = "Chance of a loss a global step of each measured pool at 1, 5 and 20 minute steps."
        save([render(figure, STEM, finding, alt)], folder)
    return folder / f"{STEM}.png"


def _name(row: dict[str, str]) -> str:
    return row["pool"].upper() if row["kind"] == "regime" else row["pool"]
