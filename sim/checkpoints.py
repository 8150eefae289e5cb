"""When a job under `restart` stores its state, and what that costs: resolved before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim.config import HOUR_S, Outages, PerGlobalStep, PoolOutages
from sim.fate import mean_up_s
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

    def told(self) -> dict[str, float | None]:
        """For a person and a file."""
        mean_s = self.mean_between_s
        return {
            "every_global_steps": self.every,
            "cost_s": self.cost_s,
            "mean_between_losses_s": mean_s if math.isfinite(mean_s) else None,
        }


def resolve(
    keys: CheckpointKeys, outages: Outages, roster: Roster, terms: Terms, global_steps: int
) -> Checkpoints:
    """The interval in whole rounds, at least one, and the cost.

    Args:
        roster: at the start of the run, when every slot has its worker.
    """
    round_s = terms.healthy_round_s(roster.kinds)
    cost_s = keys.cost_s
    if cost_s is None:
        ups = [terms.links.up[kind] for kind in set(roster.kinds.flat)]
        cost_s = max(up.seconds(nbytes) for up in ups for nbytes in terms.sizes.state_bytes)
    mean_s = mean_between_losses_s(outages, roster, round_s)
    given = keys.every_global_steps
    if isinstance(given, int):
        return Checkpoints(given, cost_s, mean_s)
    if keys.every_h is not None:
        work_s = keys.every_h * HOUR_S
    elif given == "never" or math.isinf(mean_s):
        work_s = math.inf
    else:
        work_s = (young_interval if given == "young" else daly_interval)(cost_s, mean_s)
    every = global_steps if math.isinf(work_s) else max(1, round(work_s / round_s))
    return Checkpoints(every, cost_s, mean_s)


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
