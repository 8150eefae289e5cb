"""What every option of a grid costs at a setting: exact multiplication of interpolated amounts.

`templates/whatif_model.js` does the same in the page; a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.interpolation import bracket, weights
from analysis.whatif_grid import GAP, LINKS, ROUNDS, Grid, Option, Values

MILLION, BILLION = 1e6, 1e9


@dataclass(frozen=True)
class Setting:
    """Where the knobs stand."""

    at: tuple[float, ...]
    """A value on each axis."""
    usd_per_h: Mapping[str, float]
    """By pool."""
    usd_per_gb: Mapping[str, float]
    """By link."""
    usd_per_gb_month: float


@dataclass(frozen=True)
class Outcome:
    """An option at a setting; all but the spread are means over seeds."""

    usd_by: Mapping[str, float]
    """Dollars of the job by what they paid for."""
    usd: float
    hours: float
    usd_per_mtok: float
    hours_per_gtok: float
    hours_p: tuple[float, float, float]
    """Of the job, the 10th, 50th and 90th percentile over seeds."""
    token_share: float
    full_depth_token_share: float
    degraded_share: float
    outage_rounds: float | None
    """None: there is a run in which no outage ended."""
    gap: float | None
    """Nats above the no-failure run, of runs that were trained."""
    cost_by_seed: tuple[float, ...]
    """Dollars per million tokens."""
    time_by_seed: tuple[float, ...]
    """Hours per billion tokens."""


def scenario_setting(grid: Grid) -> Setting:
    """The middle knots, and the scenario's own prices."""
    return Setting(
        at=tuple(axis.knots[(len(axis.knots) - 1) // 2] for axis in grid.axes),
        usd_per_h={name: pool.usd_per_h for name, pool in grid.pools.items()},
        usd_per_gb=grid.usd_per_gb,
        usd_per_gb_month=grid.usd_per_gb_month,
    )


def is_off_grid(grid: Grid, setting: Setting, axis: int) -> bool:
    """Whether a value lies between knots, so that results are interpolated."""
    one = grid.axes[axis]
    found = bracket(one.knots, setting.at[axis], one.scale)
    return found is not None and found[1] != 0.0


def runs_at(grid: Grid, option: Option, at: Sequence[float]) -> tuple[Values, ...] | None:
    """The runs of every seed at a place, interpolated; None outside, or where one is missing."""
    knots, scales = [axis.knots for axis in grid.axes], [axis.scale for axis in grid.axes]
    corners = weights(knots, scales, at)
    if corners is None:
        return None
    known: list[tuple[tuple[Values, ...], float]] = []
    for flat, weight in corners:
        cell = option.cells[flat]
        if cell is None:
            return None
        known.append((cell, weight))
    return tuple(
        {key: math.fsum(weight * cell[seed][key] for cell, weight in known)
         for key in first if all(key in cell[seed] for cell, _ in known)}
        for seed, first in enumerate(known[0][0])
    )  # fmt: skip


def dollars(grid: Grid, run: Values, setting: Setting) -> dict[str, float]:
    """The bill of a run by what was paid for: pools, links, storage."""
    rent = {name: run[f"node_h.{name}"] * setting.usd_per_h[name] for name in grid.pools}
    traffic = {f"egress {link}": run[f"gb.{link}"] * setting.usd_per_gb[link] for link in LINKS}
    return {**rent, **traffic, "storage": run["gb_months"] * setting.usd_per_gb_month}


def outcome(grid: Grid, option: Option, setting: Setting) -> Outcome | None:
    """What an option comes to; None where that is unknown."""
    runs = runs_at(grid, option, setting.at)
    if runs is None:
        return None
    bills = [dollars(grid, run, setting) for run in runs]
    totals = [math.fsum(bill.values()) for bill in bills]
    cost = tuple(usd / run["tokens"] * MILLION for usd, run in zip(totals, runs, strict=True))
    time = tuple(run["hours"] / run["tokens"] * BILLION for run in runs)
    hours = sorted(run["hours"] for run in runs)
    return Outcome(
        usd_by={key: mean([bill[key] for bill in bills]) for key in bills[0]},
        usd=mean(totals),
        hours=mean(hours),
        usd_per_mtok=mean(cost),
        hours_per_gtok=mean(time),
        hours_p=(quantile(hours, 0.1), quantile(hours, 0.5), quantile(hours, 0.9)),
        token_share=mean([run["token_share"] for run in runs]),
        full_depth_token_share=mean([run["full_depth_token_share"] for run in runs]),
        degraded_share=mean([run["degraded_share"] for run in runs]),
        outage_rounds=_mean_known(runs, ROUNDS),
        gap=_mean_known(runs, GAP),
        cost_by_seed=cost,
        time_by_seed=time,
    )


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return math.fsum(values) / len(values)


def _mean_known(runs: Sequence[Values], key: str) -> float | None:
    return mean([run[key] for run in runs]) if all(key in run for run in runs) else None


def quantile(ascending: Sequence[float], q: float) -> float:
    """Of sorted values, between neighbours by a straight line."""
    place = q * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)
