"""When a job under `restart` stores its state, and what that costs: resolved before it starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sim.config import HOUR_S, Outages, PerGlobalStep, PoolOutages
from sim.fate import mean_up_s
from sim.interval_search import Work
from sim.recovery import CheckpointKeys
from sim.roster import Roster
from sim.terms import Terms
from sim.theory import daly_interval, young_interval


@dataclass(frozen=True)
class Checkpoints:
    """What a scenario's keys come to."""

    every: int
    """Rounds between two."""
    cost_s: float
    """Seconds that the job stands still for one."""
    mean_between_s: float
    """M: expected seconds of work between losses of any slot; infinite where none are expected."""
    rule: str
    """Where the interval comes from: given, young, daly, auto or never."""

    def told(self) -> dict[str, float | str | None]:
        """For a person and a file."""
        mean_s = self.mean_between_s
        return {
            "rule": self.rule,
            "every_global_steps": self.every,
            "cost_s": self.cost_s,
            "mean_between_losses_s": mean_s if math.isfinite(mean_s) else None,
        }


Search = Callable[[Work, int, float], int]
"""(work, an interval that is near, M) -> rounds between checkpoints."""


def resolve(
    keys: CheckpointKeys,
    outages: Outages,
    roster: Roster,
    terms: Terms,
    global_steps: int,
    search: Search,
) -> Checkpoints:
    """The interval in whole rounds, at least one, and the cost.

    Args:
        roster: at the start of the run, when every slot has its worker.
        search: what `auto` does.
    """
    round_s = terms.healthy_round_s(roster.kinds)
    cost_s = keys.cost_s
    if cost_s is None:
        ups = [terms.links.up[kind] for kind in set(roster.kinds.flat)]
        cost_s = max(up.seconds(nbytes) for up in ups for nbytes in terms.sizes.state_bytes)
    mean_s = mean_between_losses_s(outages, roster, round_s)

    def rounds(work_s: float) -> int:
        return global_steps if math.isinf(work_s) else max(1, round(work_s / round_s))

    rule = keys.every_global_steps
    if isinstance(rule, int):
        return Checkpoints(rule, cost_s, mean_s, "given")
    if keys.every_h is not None:
        return Checkpoints(rounds(keys.every_h * HOUR_S), cost_s, mean_s, "given")
    if rule == "never" or math.isinf(mean_s):
        return Checkpoints(global_steps, cost_s, mean_s, rule)
    if rule == "young":
        return Checkpoints(rounds(young_interval(cost_s, mean_s)), cost_s, mean_s, rule)
    every = rounds(daly_interval(cost_s, mean_s))
    if rule == "auto":
        every = search(Work(global_steps, round_s, cost_s), every, mean_s)
    return Checkpoints(every, cost_s, mean_s, rule)


def mean_between_losses_s(outages: Outages, roster: Roster, round_s: float) -> float:
    """M: 1 / the sum of the slots' loss rates, each 1 / its worker's mean time up.

    In the published regime a round is struck with probability 1 - (1 - p)^R.
    """
    rate = 0.0
    if isinstance(outages, PoolOutages):
        up_s = {name: mean_up_s(pool) for name, pool in roster.pools.items() if pool.loses}
        zones = [place.last.zone for place in roster.places]
        rate = math.fsum(1 / up_s[zone] for zone in zones if zone in up_s)
    elif isinstance(outages, PerGlobalStep):
        rate = (1 - (1 - outages.probability) ** roster.cluster.replicas) / round_s
    return 1 / rate if rate else math.inf
