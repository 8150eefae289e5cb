"""One replica in one global step: its steps, re-planned by arithmetic when a loss hits it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sim.pipeline import Mask, StepTimes
from sim.policies import Action
from sim.roster import NEVER_S

Interval = tuple[float, float, str]
"""(start_s, end_s, state) of a slot."""


@dataclass(frozen=True)
class Phase:
    """Some inner steps in a row through the same live stages."""

    start_s: float
    steps: int
    step_s: float
    mask: Mask

    @property
    def end_s(self) -> float:
        return self.start_s + self.steps * self.step_s

    def completed(self, t_s: float) -> int:
        """Steps that have ended by t; a loss at the exact end of a step finds it complete."""
        k = min(self.steps, max(0, math.floor((t_s - self.start_s) / self.step_s)))
        while k < self.steps and self.start_s + (k + 1) * self.step_s <= t_s:
            k += 1
        while k > 0 and self.start_s + k * self.step_s > t_s:
            k -= 1
        return k


@dataclass
class ReplicaRound:
    """What a replica does from the opening of a round to the exchange (rules 1-3, 7, 10).

    An attempt is a run of `inner_steps` steps. It ends finished, or stopped: then all its work
    is lost, and under `wait` another begins when the last slot is ready. Instants are exact.

    Args:
        inner_steps: H.
        times: inner-step seconds by mask.
        upload_s: [S] seconds of each slot's upload.
        answer: vacant stages -> what the policies do.
    """

    inner_steps: int
    times: StepTimes
    upload_s: Sequence[float]
    answer: Callable[[Sequence[int]], Action]
    phases: list[Phase] = field(default_factory=list)
    lost: list[tuple[float, float]] = field(default_factory=list)
    """Aborted or thrown-away time, detection included; over all attempts of the round."""
    discarded: list[Phase] = field(default_factory=list)
    """Steps that ran and were thrown away; their traffic was real."""
    discarded_uploads: list[int] = field(default_factory=list)
    """Stages whose upload was begun and thrown away."""
    finish_s: float = NEVER_S
    """Own H steps done; NEVER_S if idle, stopped or waiting."""
    waits: bool = False
    """Stopped or never started, and will start (again) when its slots are ready."""
    known_s: float = 0.0
    """No decision before: the last loss is noticed then."""
    _start_s: float = 0.0
    _present: list[bool] = field(default_factory=list)
    _leaves_s: list[float] = field(default_factory=list)
    _gone_s: list[float] = field(default_factory=list)

    # --- what happens to it ---------------------------------------------------------------

    def begin(self, t_s: float, present: Sequence[bool], leaves_s: Sequence[float]) -> None:
        """Start an attempt at t with the joined slots; announced removals are planned for."""
        self._start_s = self.known_s = t_s
        self._present = list(present)
        self._leaves_s = list(leaves_s)
        self._gone_s = [NEVER_S] * len(self._present)
        self.phases, self.finish_s, self.waits = [], NEVER_S, False
        action = self.answer(self._absent())
        if action is Action.WAIT:
            self.waits = True
        elif action is not Action.IDLE:
            self._plan(t_s, 0)

    def lose(self, stage: int, t_s: float, known_s: float) -> None:
        """The worker of a stage is gone at t, and the replica notices at `known_s`."""
        self._gone_s[stage] = t_s
        running = self.finish_s < NEVER_S
        if not running or self._has_left(stage, t_s):
            self._present[stage] = False
            return
        if t_s >= self.finish_s:
            self._lose_upload(stage, t_s, known_s)
            return
        self._present[stage] = False
        done, from_s = self._cut(t_s)
        known_s = max(known_s, from_s)
        if self.answer(self._absent()) > Action.SKIP:
            self._stop(known_s)
        else:
            self.lost.append((from_s, known_s))
            self._plan(known_s, done)

    def announce(self, stage: int, t_s: float, gone_s: float) -> None:
        """A notice at t: the slot starts no step that would end after its removal (rule 10)."""
        if not self._present[stage]:
            return
        self._leaves_s[stage] = gone_s
        if self.finished and t_s >= self.finish_s:  # an upload may have become hopeless just now
            self.known_s = max(self.known_s, t_s)
        elif self.finished:
            phase = self._phase_at(t_s)
            done = sum(p.steps for p in self.phases[: self.phases.index(phase)])
            k = phase.completed(t_s)
            if phase.start_s + (k + 1) * phase.step_s <= gone_s:
                self._replan_from(phase, k, done + k)
            else:  # the notice is too short for the step that runs
                self._present[stage] = not phase.mask[stage]
                done, from_s = self._cut(t_s)
                self.lost.append((from_s, max(t_s, from_s)))
                self._plan(max(t_s, from_s), done)

    # --- what it says ---------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return self.finish_s < NEVER_S

    @property
    def release_s(self) -> float:
        """When the exchange need no longer wait for it; NEVER_S while it waits itself."""
        if self.waits:
            return NEVER_S
        if not self.finished:
            return self.known_s
        sends = self.sends()
        ends_s = [self._upload_end_s(s) for s in self._uploading() if sends[s]]
        return max([self.known_s, self.finish_s, *ends_s])

    def planned_s(self, inner_step: int) -> float:
        """When the plan begins an inner step; the start of the attempt if it has no such step."""
        first = 0
        for phase in self.phases:
            if first <= inner_step < first + phase.steps:
                return phase.start_s + (inner_step - first) * phase.step_s
            first += phase.steps
        return self._start_s

    def steps(self) -> list[int]:
        """[S] inner steps of each slot that count."""
        if not self.finished:
            return [0] * len(self._present)
        return [
            sum(phase.steps for phase in self.phases if phase.mask[stage])
            for stage in range(len(self._present))
        ]

    def sends(self) -> list[bool]:
        """[S] whether each slot's upload is complete."""
        complete = [False] * len(self._present)
        for stage in self._uploading():
            complete[stage] = self._upload_end_s(stage) <= self._out_s(stage)
        return complete

    def failed_uploads(self) -> list[int]:
        """Stages whose upload was begun and not completed."""
        if not self.finished:
            return self.discarded_uploads
        sends = self.sends()
        broken = [s for s in self._uploading() if not sends[s]]
        return self.discarded_uploads + broken

    def intervals(self, stage: int) -> list[Interval]:
        """What the slot of a stage did, in order, gaps left out: steps, lost, sync.

        Intervals are not yet clipped to the time the slot was present.
        """
        found: list[Interval] = [(a, b, "lost") for a, b in self.lost]
        found += [(p.start_s, p.end_s, "steps") for p in self.phases if p.mask[stage]]
        if self.finished and stage in self._uploading():
            found.append((self.finish_s, self._upload_end_s(stage), "sync"))
        return sorted(found)

    # --- arithmetic -----------------------------------------------------------------------

    def _absent(self) -> list[int]:
        return [stage for stage, here in enumerate(self._present) if not here]

    def _out_s(self, stage: int) -> float:
        return min(self._gone_s[stage], self._leaves_s[stage])

    def _uploading(self) -> list[int]:
        """Stages that trained in the last inner step."""
        return [stage for stage, live in enumerate(self.phases[-1].mask) if live]

    def _upload_end_s(self, stage: int) -> float:
        return self.finish_s + self.upload_s[stage]

    def _has_left(self, stage: int, t_s: float) -> bool:
        """An announced removal that the plan already lives with."""
        return self._leaves_s[stage] <= t_s and not self.phases[-1].mask[stage]

    def _phase_at(self, t_s: float) -> Phase:
        """The phase that runs at t, or the next one if t lies in a detection."""
        return next(phase for phase in self.phases if t_s < phase.end_s)

    def _cut(self, t_s: float) -> tuple[int, float]:
        """Drop the plan after t; (steps done, end of the last complete one)."""
        phase = self._phase_at(t_s)
        position = self.phases.index(phase)
        k = phase.completed(t_s)
        kept = self.phases[:position]
        if k:
            kept.append(Phase(phase.start_s, k, phase.step_s, phase.mask))
        if t_s > phase.start_s + k * phase.step_s:
            self.discarded.append(Phase(phase.start_s + k * phase.step_s, 1, phase.step_s, phase.mask))
        self.phases = kept
        return sum(p.steps for p in kept), phase.start_s + k * phase.step_s

    def _replan_from(self, phase: Phase, k: int, done: int) -> None:
        self.phases = self.phases[: self.phases.index(phase)]
        if k:
            self.phases.append(Phase(phase.start_s, k, phase.step_s, phase.mask))
        self._plan(phase.start_s + k * phase.step_s, done)

    def _plan(self, t_s: float, done: int) -> None:
        """Lay the remaining steps from t on, leaving out announced removals in time."""
        while done < self.inner_steps:
            if self.answer(self._absent()) > Action.SKIP:
                self._stop(t_s)
                return
            mask = tuple(self._present)
            step_s, _ = self.times.of(mask)
            whole = Phase(t_s, self.inner_steps - done, step_s, mask)
            leaves_s = min(self._leaves_s[s] for s, live in enumerate(mask) if live)
            n = whole.completed(leaves_s) if leaves_s < NEVER_S else whole.steps
            if n:
                self.phases.append(Phase(t_s, n, step_s, mask))
                done, t_s = done + n, self.phases[-1].end_s
            if done < self.inner_steps:
                for stage, out_s in enumerate(self._leaves_s):
                    if t_s + step_s > out_s:
                        self._present[stage] = False
        self.finish_s = t_s

    def _stop(self, known_s: float) -> None:
        """The attempt is over, its work lost; the exchange waits until that is known."""
        self.discarded += self.phases
        self.lost = [(a, b) for a, b in self.lost if b <= self._start_s]
        self.lost.append((self._start_s, known_s))
        self.phases, self.finish_s = [], NEVER_S
        self.known_s = known_s
        self.waits = self.answer(self._absent()) is Action.WAIT

    def _lose_upload(self, stage: int, t_s: float, known_s: float) -> None:
        """A loss after H costs only the lost slot, and only if its own upload was unfinished.

        Under `wait` the slot's state of this round went with it, so the replica starts again.
        """
        unfinished = stage in self._uploading() and t_s < self._upload_end_s(stage)
        self._present[stage] = False
        if not unfinished:
            return
        if self.answer(self._absent()) is Action.WAIT:
            self.discarded_uploads += self._uploading()
            self._stop(known_s)
        else:
            self.known_s = max(self.known_s, known_s)
