"""How well pools of fitted laws and shocks live like their trace: simulated by the provider."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from sim.config import HOUR_S, Pool
from sim.provider import provider
from sim.records import Spell
from sim.traces.trace import Facts, Trace, facts, of_spells

RUNS = 20
TINY = 1e-6
BAND = 0.9
"""Of the simulated runs, those between low and high."""
Pools = Mapping[str, Mapping[str, Any]]
"""Blocks of a scenario by name: a pool for each zone."""


@dataclass(frozen=True)
class Match:
    """One quantity of the trace beside those of the simulated pools."""

    what: str
    unit: str
    trace: float
    simulated: float
    """Median over the runs."""
    low: float
    high: float

    @property
    def holds(self) -> bool:
        return self.low <= self.trace <= self.high

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "what": self.what,
            "unit": self.unit,
            "trace": self.trace,
            "simulated": self.simulated,
            "low": self.low,
            "high": self.high,
            "holds": self.holds,
        }


def quantile_h(share: float) -> Callable[[Facts], float]:
    """Of the outages that ended."""
    return lambda x: float(np.quantile(x.outages_h, share)) if x.outages_h else math.nan


QUANTITIES: dict[str, tuple[str, Callable[[Facts], float]]] = {
    "availability": ("of worker time", lambda x: x.availability),
    "loss rate": ("a worker-hour up", lambda x: x.losses_per_worker_hour),
    "bulk share": ("of the losses", lambda x: x.bulk_share),
    "mean bulk": ("losses an event", lambda x: x.mean_bulk),
    "outage P50": ("h", quantile_h(0.5)),
    "outage P90": ("h", quantile_h(0.9)),
}


def played(pools: Mapping[str, Pool], hours: float, seed: int) -> Trace:
    """So many hours of pools of these laws, as a trace of which each is a zone."""
    end_s = hours * HOUR_S
    zones = [name for name, pool in pools.items() for _ in range(pool.workers or 0)]
    away: dict[int, float] = {}
    spells = []
    for event in takewhile(lambda event: event.t_s <= end_s, provider(pools, seed)):
        if event.kind == "gone":
            away[event.worker] = event.t_s
        elif event.kind == "back":
            gone_s, zone = away.pop(event.worker), zones[event.worker]
            spells.append(Spell(event.worker, zone, gone_s, event.t_s, event.cause))
    for worker, t_s in away.items():
        spells.append(Spell(worker, zones[worker], t_s, math.nan, "open"))
    return of_spells(spells, zones, end_s)


def lived(pools: Mapping[str, Pool], hours: float, seed: int) -> Facts:
    """What it comes to."""
    return facts(played(pools, hours, seed))


def nearest(several: Sequence[Pools], found: Facts) -> tuple[Pools, list[Match]]:
    """Of several pools those whose medians differ least from the trace, in logarithms."""

    def apart(rows: Sequence[Match]) -> float:
        return sum(abs(math.log(max(x.simulated, TINY) / max(x.trace, TINY))) for x in rows)

    held = [(pools, matches(pools, found)) for pools in several]
    return min(held, key=lambda each: apart(each[1]))


def matches(blocks: Pools, found: Facts) -> list[Match]:
    """The trace beside RUNS simulations of the pools, as long as it; NaN values left out."""
    pools = {name: Pool.model_validate(dict(block)) for name, block in blocks.items()}
    simulated = [lived(pools, found.hours, seed) for seed in range(RUNS)]
    rows = []
    for what, (unit, value) in QUANTITIES.items():
        seen = np.array([value(each) for each in simulated])
        seen = seen[np.isfinite(seen)]
        if not len(seen) or not math.isfinite(value(found)):
            continue
        low, middle, high = np.quantile(seen, [(1 - BAND) / 2, 0.5, (1 + BAND) / 2]).tolist()
        rows.append(Match(what, unit, value(found), middle, low, high))
    return rows
