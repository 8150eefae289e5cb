"""The published regime: outages drawn a global step, and told in global steps (rule 9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from sim.clock import Clock, stream
from sim.config import Cluster, PerGlobalStep
from sim.places import Place, Slot
from sim.roster import Roster
from sim.terms import Terms

PAGE_STEPS = 128


def allowed_stages(outages: PerGlobalStep, stages: int) -> list[int]:
    """Stages that the regime may take out (rule 14).

    Raises:
        ValueError: there is none, or a listed stage does not exist.
    """
    if not isinstance(outages.stages, str):
        wrong = [stage for stage in outages.stages if stage >= stages]
        if wrong:
            raise ValueError(f"with {stages} stages the last is {stages - 1} (got {wrong[0]})")
        return sorted(set(outages.stages))
    if outages.stages == "inner" and stages < 3:
        raise ValueError(f"inner stages need at least 3 stages (got {stages})")
    named = {
        "inner": range(1, stages - 1),
        "ends": sorted({0, stages - 1}),
        "all": range(stages),
    }
    return list(named[outages.stages])


class PublishedRegime:
    """A table of draws (u, stage) by global step and replica, and who is out for how long.

    Args:
        outages: probability p, duration D in global steps, allowed stages.
        cluster: R replicas of S stages.
        seed: draws of replica r come from the stream (seed, "per_global_step", r), two a step, so
            they are nested in p: what fails at p fails at every larger p, if all its slots are in.
    """

    def __init__(self, outages: PerGlobalStep, cluster: Cluster, seed: int) -> None:
        self.outages = outages
        self.allowed = allowed_stages(outages, cluster.stages)
        self._streams = [stream(seed, "per_global_step", r) for r in range(cluster.replicas)]
        self._page = np.empty((cluster.replicas, 0, 2))  # the part of the table that is in use
        self._left: dict[Slot, int] = {}

    def drawn(self, index: int) -> list[Slot]:
        """Slots that fail at the index if their replica is whole. Call once an index, in order."""
        line = index % PAGE_STEPS
        if line == 0:
            self._page = np.array([draws.random((PAGE_STEPS, 2)) for draws in self._streams])
        if index < self.outages.start_step:
            return []
        u, v = self._page[:, line].T
        fails = np.flatnonzero(u < self.outages.probability).tolist()
        return [(r, self.allowed[int(v[r] * len(self.allowed))]) for r in fails]

    def out(self, slot: Slot) -> None:
        """The slot is out for D rounds, the current one being the first."""
        self._left[slot] = self.outages.duration_global_steps

    @property
    def anyone_out(self) -> bool:
        return bool(self._left)

    def count_round(self) -> list[Slot]:
        """A round has passed; the slots whose time is over."""
        over = [slot for slot, left in self._left.items() if left == 1]
        self._left = {slot: left - 1 for slot, left in self._left.items() if left > 1}
        return over


class Strikes:
    """Applies the published regime to the slots of a job.

    Args:
        returned: called when a slot is back.
    """

    def __init__(
        self,
        regime: PublishedRegime,
        roster: Roster,
        terms: Terms,
        env: Clock,
        returned: Callable[[], None],
    ) -> None:
        self.regime, self.roster, self.terms, self.env = regime, roster, terms, env
        self._returned = returned
        self._out_s = regime.outages.duration_global_steps * terms.healthy_round_s(roster.kinds)

    def strike(self, index: int) -> None:
        """Take out who fails at the index. D rounds are so many healthy seconds where one waits."""
        now = self.env.now
        for r, s in self.regime.drawn(index):
            if not self.roster.joined[r].all():
                continue
            place = self.roster.row(r)[s]
            assert place.worker is not None, "a joined slot has a worker"
            self.roster.gone(place.worker, now, "per_global_step", is_known=True)
            if self.terms.keeps_state[s]:
                self.env.call_at(now + self._out_s, partial(self._take_back, place))
            else:
                self.regime.out((r, s))

    def count_round(self) -> None:
        """A round has passed, or a healthy round's seconds in which nobody could train."""
        for r, s in self.regime.count_round():
            self._take_back(self.roster.row(r)[s])

    def _take_back(self, place: Place) -> None:
        self.roster.take_back(place, self.env.now)
        self._returned()


def expected_degraded_share(outages: PerGlobalStep, global_steps: int | None = None) -> float:
    """Expected share of replica-rounds with a stage out: pD / (1 - p + pD) in the long run.

    Args:
        global_steps: with it, the finite sum of a run of that length that starts healthy.
    """
    p, d = outages.probability, outages.duration_global_steps
    if global_steps is None:
        return p * d / (1 - p + p * d)
    steps = max(global_steps - outages.start_step, 0)
    fails = np.zeros(steps)  # probability that an outage begins at each step
    for g in range(steps):
        fails[g] = p * (1 - fails[max(0, g - d + 1) : g].sum())
    degraded = sum(float(fails[max(0, g - d + 1) : g + 1].sum()) for g in range(steps))
    return degraded / global_steps
