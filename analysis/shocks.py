"""Losses in bulk on a timeline: when, how many of which zone, until when nobody came back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from analysis import numbers, style

TOLD = 4
"""Up to so many shocks are told in words; more are lines."""
ROOM = 0.62
"""Right of this share of the axes words stand to the left of their line."""


class Shock(NamedTuple):
    """Workers of a zone that were lost at one instant."""

    zone: str
    gone_s: float
    workers: int
    first_back_s: float
    """NaN: nobody by the end of the run."""

    @property
    def had_return(self) -> bool:
        return math.isfinite(self.first_back_s)

    def words(self) -> str:
        """One line."""
        workers = f"{numbers.count(self.workers)} worker{'s' * (self.workers > 1)}"
        takes = f"shock: {self.zone} loses {workers}"
        if not self.had_return:
            return f"{takes}, none is back by the end"
        return f"{takes}, none is back for {_minutes(self.first_back_s - self.gone_s)}"


def shocks(outages: pd.DataFrame, wall_s: float) -> list[Shock]:
    """Those of a run, in order. A worker that comes back after its end was not back."""
    struck = outages[(outages["cause"] == "shock") & (outages["gone_s"] < wall_s)]
    found: dict[tuple[float, str], list[float]] = {}
    for zone, gone_s, back_s in struck[["zone", "gone_s", "back_s"]].itertuples(index=False):
        found.setdefault((gone_s, zone), []).append(back_s)
    return [
        Shock(zone, gone_s, len(back_s), min((t for t in back_s if t <= wall_s), default=math.nan))
        for (gone_s, zone), back_s in sorted(found.items())
    ]


def _minutes(seconds: float) -> str:
    return f"{numbers.significant(seconds / 60, 2)} min"


def mark(axes: Axes, found: Sequence[Shock], unit_s: float, wall_s: float) -> int:
    """A line at each shock, and words above the axes; how many lines of words there are."""
    for shock in found:
        axes.axvline(shock.gone_s / unit_s, color=style.INK, linewidth=1.2)
    worded = list(found) if len(found) <= TOLD else []
    for row, shock in enumerate(reversed(worded)):
        is_left = shock.gone_s > ROOM * wall_s
        axes.annotate(
            f"{shock.words()} \u25be" if is_left else f"\u25be {shock.words()}",
            xy=(shock.gone_s / unit_s, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3 if is_left else -3, 3 + 12 * row),
            textcoords="offset points",
            ha="right" if is_left else "left",
            va="bottom",
            fontsize=9.5,
            color=style.INK,
        )
    return len(worded)
