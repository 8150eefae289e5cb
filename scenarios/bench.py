"""Scenarios of `scenarios/validation`, played and looked at from outside: rounds and spells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenarios.cells import SINGLE
from scenarios.derive import job_config
from scenarios.load import load
from scenarios.schema import Scenario
from sim.config import HOUR_S
from sim.records import GlobalStep, Spell
from sim.watched import WatchedJob

FOLDER = Path(__file__).parent / "validation"
SIGMAS = 3.5
"""Of a normal: a right engine is outside for one seed in 2,150."""
KOLMOGOROV = 1.95
"""Over the root of n: a right engine is outside for one seed in 1,000."""
EXACT = 1e-6
"""Relative, for what leaves nothing to chance."""


@dataclass(frozen=True)
class Check:
    """One number of the engine against its formula."""

    row: str
    what: str
    scenario: str
    target: float
    value: float
    tolerance: float
    because: str
    """Where the tolerance comes from."""

    @property
    def holds(self) -> bool:
        return abs(self.value - self.target) <= self.tolerance


class Played:
    """A scenario whose rounds have been."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.job = WatchedJob(job_config(scenario))
        self.steps: list[GlobalStep] = list(self.job.global_steps())
        self.wall_s = self.steps[-1].end_s
        self.hours = self.wall_s / HOUR_S

    @cached_property
    def spells(self) -> list[Spell]:
        """Outages that began before the end."""
        return [spell for spell in self.job.spells() if spell.gone_s < self.wall_s]

    @cached_property
    def workers(self) -> int:
        return sum(pool.workers or 0 for pool in self.job.config.pools.values())

    @cached_property
    def up_h(self) -> float:
        """Worker-hours that were billed."""
        return sum(sum(step.node_s.values()) for step in self.steps) / HOUR_S

    @cached_property
    def finished_h(self) -> list[float]:
        """Hours from gone to back of the outages that ended."""
        return [
            (spell.back_s - spell.gone_s) / HOUR_S
            for spell in self.spells
            if math.isfinite(spell.back_s)
        ]

    def away_s(self, zone: str) -> float:
        """Worker-seconds from gone to back, cut at the end."""
        ends_s = [(s, self.wall_s if math.isnan(s.back_s) else s.back_s) for s in self.spells]
        return sum(min(end_s, self.wall_s) - s.gone_s for s, end_s in ends_s if s.zone == zone)

    def slot_share(self, name: str) -> float:
        """Of the slot-seconds, those of a class."""
        slots_s = self.job.R * self.job.S * self.wall_s
        return sum(step.slot_s[name] for step in self.steps) / slots_s


@dataclass(frozen=True)
class Bench:
    """Plays scenarios at a share of their length."""

    size: float = 1.0

    def scenario(self, name: str, arm: str = SINGLE) -> Scenario:
        return _cells(name)[arm]

    def play(self, name: str, arm: str = SINGLE) -> Played:
        """A scenario, or an arm of it."""
        scenario = self.scenario(name, arm)
        rounds = max(1, round(self.size * scenario.global_steps))
        return Played(scenario.model_copy(update={"global_steps": rounds}))

    def count(self, full: int) -> int:
        """Of seeds."""
        return max(10, round(self.size * full))


@cache
def _cells(name: str) -> dict[str, Scenario]:
    """A file is read once for all of its arms."""
    return load(FOLDER / f"{name}.yaml").cells


def ks_gap(drawn: Sequence[float], cdf: Callable[[float], float]) -> float:
    """Largest distance between the share of draws up to t and a continuous CDF."""
    n = len(drawn)
    below: NDArray[np.float64] = np.array([cdf(t) for t in sorted(drawn)])
    k = np.arange(n)
    return float(max((below - k / n).max(), ((k + 1) / n - below).max()))


def ks(row: str, what: str, scenario: str, gap: float, n: int) -> Check:
    """A Kolmogorov-Smirnov test as a check."""
    because = f"KS, {n:,} draws, 1/1000"
    return Check(row, what, scenario, 0.0, gap, KOLMOGOROV / math.sqrt(n), because)
