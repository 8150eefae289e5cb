"""How likely a job is late or over its budget: the engine alone, over many seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.numbers import usd
from scenarios.derive import job_config
from scenarios.schema import Scenario
from scenarios.until import global_steps, tokens_of
from sim.config import HOUR_S
from sim.job import Job
from sim.news import StalledError

QUANTILES = (0.5, 0.9, 0.99)
CONFIDENCE_Z = 1.96
"""Of intervals of a probability: 95 %."""


@dataclass(frozen=True)
class Outcome:
    """What one seed came to. Where the job can never finish hours and dollars are infinite."""

    hours: float
    usd: float
    tokens_in_time: int
    """Committed by the deadline; all, if there is none."""
    tokens_for_usd: int
    """Committed before the bill was above the budget; all, if there is none."""
    is_cut: bool = False
    """`stop` ended it before its last global step."""


@dataclass(frozen=True)
class Odds:
    """The same job under many streams of outages."""

    outcomes: tuple[Outcome, ...]
    deadline_h: float | None
    budget_usd: float | None

    def late(self) -> int:
        """How many missed the deadline."""
        return sum(one.hours > (self.deadline_h or math.inf) for one in self.outcomes)

    def over(self) -> int:
        """How many cost more than the budget."""
        return sum(one.usd > (self.budget_usd or math.inf) for one in self.outcomes)


def odds(scenario: Scenario, seeds: int) -> Odds:
    """Simulate the scenario with so many seeds, those that a study of it would have."""
    target = scenario.target
    each = (scenario.model_copy(update={"seed": scenario.seed + i}) for i in range(seeds))
    return Odds(tuple(map(simulated, each)), target.deadline_h, target.usd)


def simulated(scenario: Scenario) -> Outcome:
    """One seed, to its end."""
    job, target = Job(job_config(scenario)), scenario.target
    deadline_s = math.inf if target.deadline_h is None else target.deadline_h * HOUR_S
    budget_usd = math.inf if target.usd is None else target.usd
    end_s, bill_usd, tokens, in_time, for_usd, rounds = 0.0, 0.0, 0, 0, 0, 0
    try:
        for g in global_steps(job, scenario.stop):
            rounds, end_s, bill_usd = rounds + 1, g.end_s, bill_usd + sum(g.usd.values())
            tokens += tokens_of(job, g)
            in_time = tokens if end_s <= deadline_s else in_time
            for_usd = tokens if bill_usd <= budget_usd else for_usd
    except StalledError:
        end_s = bill_usd = math.inf
    is_cut = end_s < math.inf and rounds < scenario.global_steps
    return Outcome(end_s / HOUR_S, bill_usd, in_time, for_usd, is_cut)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def interval(count: int, of: int) -> tuple[float, float]:
    """95 % interval of a probability seen `count` times in `of` tries (Wilson 1927)."""
    z2 = CONFIDENCE_Z**2
    middle = (count + z2 / 2) / (of + z2)
    half = CONFIDENCE_Z / (of + z2) * math.sqrt(count * (of - count) / of + z2 / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


# --- in words ---------------------------------------------------------------------------------


def in_words(found: Odds) -> list[str]:
    """Lines for a person."""
    outcomes, n = found.outcomes, len(found.outcomes)
    lines = [
        f"  odds               {n} seeds of the engine alone; P99 of fewer than 100 is the largest",
        f"  hours              {_spread([one.hours for one in outcomes], '{:,.4g}'.format)}",
        f"  dollars            {_spread([one.usd for one in outcomes], usd)}",
    ]
    cut = sum(one.is_cut for one in outcomes)
    if cut:
        lines.append(f"  stop               ends {cut} of {n} before their last global step")
    if found.deadline_h is not None:
        tokens = [float(one.tokens_in_time) for one in outcomes]
        lines.append(
            f"  deadline           {found.deadline_h:g} h missed with {_chance(found.late(), n)}; "
            f"by then {_bought(tokens)} tokens"
        )
    if found.budget_usd is not None:
        tokens = [float(one.tokens_for_usd) for one in outcomes]
        lines.append(
            f"  budget             {usd(found.budget_usd)} exceeded with "
            f"{_chance(found.over(), n)}; it buys {_bought(tokens)} tokens"
        )
    return lines


def _spread(values: Sequence[float], form: Callable[[float], str]) -> str:
    each = ((share, quantile(values, share)) for share in QUANTILES)
    return ", ".join(
        f"P{share * 100:g} {'never' if value == math.inf else form(value)}" for share, value in each
    )


def _bought(tokens: Sequence[float]) -> str:
    """What half of the seeds reach, and what nine in ten do."""
    return f"{quantile(tokens, 0.5):.4g} (nine in ten at least {quantile(tokens, 0.1):.4g})"


def _chance(count: int, of: int) -> str:
    low, high = interval(count, of)
    return f"probability {count / of:.0%} ({low:.1%} to {high:.1%})"
