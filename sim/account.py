"""What a round came to: seconds by class, steps, traffic. It closes, or it raises."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from sim.pace import mean_slowness
from sim.pipeline import Crew, Mask, hops
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


class Did(NamedTuple):
    """What a replica that goes through a round by a plan does; [S] each."""

    steps: list[int]
    step_s: list[list[float]]
    """[3] seconds of its steps: compute, boundary, bubble."""
    slowness: list[float]

    @staticmethod
    def by(plan: ReplicaRound) -> Did:
        steps, step_s = plan.steps(), [[0.0] * plan.terms.stages for _ in range(3)]
        for phase in plan.kept():
            split_s = plan.terms.times.split(phase.mask, phase.slow, plan.crew)
            for of_class, each_s in zip(step_s, split_s, strict=True):
                for stage, each in enumerate(each_s):
                    of_class[stage] += phase.steps * each
        slowness = [1.0] * len(steps)
        if plan.pace:
            slowness = [mean_slowness(plan.pace, *each) for each in enumerate(steps)]
        return Did(steps, step_s, slowness)


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
        self._did: dict[ReplicaRound, Did] = {}
        self._replicas: Counter[ReplicaRound] = Counter()  # that went by each plan
        self._fresh: list[tuple[int, Did]] = []
        self._booked: list[tuple[Collection[int], list[float]]] = []  # by class and stage, of each
        self.ready_s = 0.0  # of wait: slots that had not joined
        if before is None:
            self.steps = np.zeros((terms.replicas, terms.stages), dtype=np.int32)
            self.compute_s = np.zeros((terms.replicas, terms.stages))
            self.slowness = np.ones((terms.replicas, terms.stages))
        else:
            self.steps, self.compute_s = before.steps.copy(), before.compute_s.copy()
            self.slowness = before.slowness.copy()
        self._went: Counter[tuple[Crew | None, Mask, bool]] = Counter()  # steps; whether they count
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
        if plan not in self._did:
            self._did[plan] = Did.by(plan)
        did = self._did[plan]
        self._replicas[plan] += len(rows)
        stages = self.terms.stages
        seconds = [0.0] * (len(CLASSES) * stages)
        seconds[STEPS.start * stages : STEPS.stop * stages] = itertools.chain(*did.step_s)
        for stage, of_slot in enumerate(tiles):
            for start_s, end_s, what, _ in of_slot:
                if what == "steps":
                    continue
                if what == "ready":
                    what = "wait"
                    self.ready_s += len(rows) * (end_s - start_s)
                seconds[ROW[what] * stages + stage] += end_s - start_s
        self._booked.append((rows, seconds))
        self._fresh += [(r, did) for r in fresh]

    def _go(self, plan: ReplicaRound, replicas: int) -> None:
        """Count the steps of replicas that went by a plan, and uploads that failed."""
        for phase in plan.kept():
            self._went[plan.crew, phase.mask, True] += replicas * phase.steps
        for phase in plan.discarded():
            self._went[plan.crew, phase.mask, False] += replicas * phase.steps
        for stage in plan.failed_uploads():
            self.lost_uploads[stage] += replicas

    def _carry(self) -> None:
        """Count what all those steps sent; what was lost is billed too."""
        for (crew, mask, counts), steps in self._went.items():
            billed = self.terms.carried(crew, mask, steps)
            self.hop_billed.update(billed)
            if not counts:
                self.lost_hop_bytes += billed.total()
                continue
            self.hop_bytes += billed.total()
            for hop in hops(mask):
                self.crossings[hop] += steps

    def close(self, node_s: float, spare_s: float) -> None:
        """Assert that every slot-second falls in one class, and every billed one is there once.

        Raises:
            LedgerError: the seconds of a slot do not sum to the round, so that steps which
                count were not present, or something is counted twice; or those billed do not.
        """
        booked = np.array([seconds for _, seconds in self._booked])
        booked = booked.reshape(-1, len(CLASSES), self.terms.stages)
        missed_s = np.abs(booked.sum(axis=1) - (self.end_s - self.start_s)).max(axis=1)
        worst = int(np.maximum(missed_s, -booked.min(axis=(1, 2))).argmax())
        if max(missed_s[worst], -booked[worst].min()) > self.slack_s:
            replica, seconds = min(self._booked[worst][0]), booked[worst].tolist()
            raise LedgerError(f"replica {replica}: slot-seconds {seconds} do not close")
        self.seconds = np.array([len(rows) for rows, _ in self._booked]) @ booked.sum(axis=2)
        for plan, replicas in self._replicas.items():
            self._go(plan, replicas)
        self._carry()
        self._write()
        present_s = self.seconds.sum() - self.seconds[ROW["vacant"]]
        if abs(present_s + spare_s - node_s) > self.slack_s * self.steps.size:
            raise LedgerError(
                f"{node_s} worker-seconds were billed, {present_s + spare_s} worked or waited"
            )

    def _write(self) -> None:
        """Bring the arrays up to date; all at once, since writing to one costs a microsecond."""
        arrays = self.steps, self.compute_s, self.slowness
        if self._fresh:
            rows = [r for r, _ in self._fresh]
            self.steps[rows] = [did.steps for _, did in self._fresh]
            self.compute_s[rows] = [did.step_s[0] for _, did in self._fresh]
            self.slowness[rows] = [did.slowness for _, did in self._fresh]
        for array in arrays:
            array.flags.writeable = False
