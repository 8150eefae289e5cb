"""What a round came to: seconds by class, steps, traffic. It closes, or it raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from sim.pace import mean_slowness
from sim.phase import Phase
from sim.pipeline import hops
from sim.records import CLASSES
from sim.replica import ReplicaRound
from sim.terms import Terms
from sim.timeline import Tile
from sim.via import Billed

ROUNDING = 1e-8
"""Seconds by which sums of seconds may miss, per second of simulated time."""
ROW = {name: row for row, name in enumerate(CLASSES)}
STEPS = slice(ROW["compute"], ROW["bubble"] + 1)
"""Rows of what a step is made of: compute, boundary, bubble."""


class LedgerError(Exception):
    """The engine's own accounts do not close: a bug, never the user's fault."""


class Account:
    """Over the replicas booked so far.

    Args:
        before: of the round before, whose arrays hold for replicas that did the same again.
    """

    def __init__(
        self, terms: Terms, start_s: float, end_s: float, before: Account | None = None
    ) -> None:
        self.terms, self.start_s, self.end_s = terms, start_s, end_s
        self.seconds = np.zeros(len(CLASSES))  # by class, summed over slots; once closed
        self._booked: list[tuple[Collection[int], list[list[float]]]] = []  # [class][stage] of each
        self.ready_s = 0.0  # of wait: slots that had not joined
        if before is None:
            self.steps = np.zeros((terms.replicas, terms.stages), dtype=np.int32)
            self.compute_s = np.zeros((terms.replicas, terms.stages))
            self.slowness = np.ones((terms.replicas, terms.stages))
        else:
            self.steps, self.compute_s = before.steps.copy(), before.compute_s.copy()
            self.slowness = before.slowness.copy()
        self.crossings: Counter[tuple[int, int]] = Counter()
        self.hop_bytes = self.lost_hop_bytes = 0
        self.hop_billed: Billed = Counter()  # lost bytes too
        self.lost_uploads: Counter[int] = Counter()  # by stage
        self.slack_s = ROUNDING * (1.0 + end_s)

    def add(
        self,
        rows: Collection[int],
        plan: ReplicaRound,
        tiles: Sequence[list[Tile]],
        fresh: Collection[int],
    ) -> None:
        """Book replicas that did the same, by the plan and the [S] tiles of one.

        Args:
            fresh: those of them that may have done something else in the round before.
        """
        seconds = [[0.0] * self.terms.stages for _ in CLASSES]
        for stage, of_slot in enumerate(tiles):
            for start_s, end_s, what, _ in of_slot:
                if what == "ready":
                    self.ready_s += len(rows) * (end_s - start_s)
                if what != "steps":
                    row = ROW["wait" if what == "ready" else what]
                    seconds[row][stage] += end_s - start_s
        for phase in plan.kept():
            split_s = self.terms.times.split(phase.mask, phase.slow, plan.crew)
            for of_class, each_s in zip(seconds[STEPS], split_s, strict=True):
                for stage, step_s in enumerate(each_s):
                    of_class[stage] += phase.steps * step_s
            for hop in hops(phase.mask):
                self.crossings[hop] += len(rows) * phase.steps
            self.hop_bytes += self._carried(plan, phase, len(rows))
        self._booked.append((rows, seconds))
        if fresh:
            index, steps = list(fresh), plan.steps()
            slowness = [mean_slowness(plan.pace, *each) for each in enumerate(steps)]
            self.steps[index], self.compute_s[index] = steps, seconds[ROW["compute"]]
            self.slowness[index] = slowness
        for phase in plan.discarded():
            self.lost_hop_bytes += self._carried(plan, phase, len(rows))
        for stage in plan.failed_uploads():
            self.lost_uploads[stage] += len(rows)

    def _carried(self, plan: ReplicaRound, phase: Phase, replicas: int) -> int:
        """Bytes of some steps of replicas that did the same; they are billed."""
        billed = self.terms.carried(plan.crew, phase.mask, phase.steps * replicas)
        self.hop_billed.update(billed)
        return billed.total()

    def close(self, node_s: float, spare_s: float) -> None:
        """Assert that every slot-second falls in one class, and every billed one is there once.

        Raises:
            LedgerError: the seconds of a slot do not sum to the round, so that steps which
                count were not present, or something is counted twice; or those billed do not.
        """
        booked = np.array([seconds for _, seconds in self._booked])  # [group, class, stage]
        missed_s = np.abs(booked.sum(axis=1) - (self.end_s - self.start_s)).max(axis=1)
        worst = int(np.maximum(missed_s, -booked.min(axis=(1, 2))).argmax())
        if max(missed_s[worst], -booked[worst].min()) > self.slack_s:
            replica, seconds = min(self._booked[worst][0]), booked[worst].tolist()
            raise LedgerError(f"replica {replica}: slot-seconds {seconds} do not close")
        self.seconds = np.array([len(rows) for rows, _ in self._booked]) @ booked.sum(axis=2)
        for array in (self.steps, self.compute_s, self.slowness):
            array.flags.writeable = False
        present_s = self.seconds.sum() - self.seconds[ROW["vacant"]]
        if abs(present_s + spare_s - node_s) > self.slack_s * self.steps.size:
            raise LedgerError(
                f"{node_s} worker-seconds were billed, {present_s + spare_s} worked or waited"
            )
