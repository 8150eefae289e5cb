"""What every round of a run is planned and booked by. Fixed; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.config import Pool, Quorum
from sim.network import Links
from sim.pace import Slowness
from sim.pipeline import Mask, StepTimes
from sim.policies import Action, Policy, Vacancy, View, Wait, may_wait, replica_action
from sim.records import Sizes
from sim.via import Via


class Kind(NamedTuple):
    """Who is there, and how fast: replicas of a kind go through a round alike."""

    mask: Mask
    slow: Slowness = ()


class Course(NamedTuple):
    """A replica's round without events."""

    action: Action
    steps_s: float
    """H steps."""
    upload_s: float
    """The slowest upload."""

    def release_s(self, start_s: float) -> float:
        """When the exchange need no longer wait for the replica; never while it waits itself."""
        if self.action is Action.WAIT:
            return math.inf
        if self.action is Action.IDLE:
            return start_s
        return start_s + self.steps_s + self.upload_s


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Sizes, links, seconds, prices and answers of a run."""

    replicas: int
    """R."""
    stages: int
    """S."""
    inner_steps: int
    """H."""
    sizes: Sizes
    links: Links
    via: Via
    times: StepTimes
    policies: tuple[Policy, ...]
    pools: Mapping[str, Pool]
    quorum: Quorum | None = None
    _courses: dict[Kind, Course] = field(default_factory=dict)
    _answers: dict[Mask, Action] = field(default_factory=dict)

    @cached_property
    def whole(self) -> Kind:
        """All stages live, at nominal speed."""
        return Kind((True,) * self.stages)

    @cached_property
    def jitters(self) -> bool:
        """Whether steps vary from round to round."""
        return any(pool.jitter is not None for pool in self.pools.values())

    @cached_property
    def upload_s(self) -> tuple[float, ...]:
        """[S] seconds of a slot's upload."""
        return tuple(self.via.upload_s(nbytes) for nbytes in self.sizes.update_bytes)

    @cached_property
    def restarts(self) -> bool:
        """Whether the whole job rolls back."""
        return self.policies[0].action is Action.RESTART

    @cached_property
    def is_limited(self) -> bool:
        """Whether a policy has a limit, so that one answer may follow another."""
        return any(
            not p.settles(is_end=True) and not p.settles(is_end=False) for p in self.policies
        )

    @cached_property
    def ages(self) -> bool:
        """Whether an answer depends on how long slots have been vacant."""
        return any(policy.ages for policy in self.policies)

    @cached_property
    def keeps_state(self) -> tuple[bool, ...]:
        """[S] whether slots store their whole state, for one that is waited for (rule 7)."""
        ends = (View(self.stages).is_end(stage) for stage in range(self.stages))
        return tuple(may_wait(self.policies, is_end) for is_end in ends)

    def answer(
        self, here: Sequence[bool], now_s: float = 0.0, vacancies: Sequence[Vacancy] | None = None
    ) -> Action:
        """What a replica does, told by who is here; [S].

        Args:
            vacancies: [S] of those who are not; read only if answers age.
        """
        mask = tuple(here)
        if self.ages and vacancies is not None:
            vacant = {stage: vacancies[stage] for stage, on in enumerate(mask) if not on}
            return replica_action(self.policies, View(self.stages, now_s, vacant))
        if mask not in self._answers:
            fresh = {stage: Vacancy() for stage, on in enumerate(mask) if not on}
            self._answers[mask] = replica_action(self.policies, View(self.stages, 0.0, fresh))
        return self._answers[mask]

    def runs_out_s(self, vacancy: Vacancy) -> list[float]:
        """Instants at which a wait for the slot has been long enough."""
        waits = [policy for policy in self.policies if isinstance(policy, Wait)]
        return [wait.until_s(vacancy) for wait in waits if wait.ages]

    def course(self, kind: Kind) -> Course:
        """What a replica of this kind does in a round in which nothing hits it."""
        mask = kind.mask
        if kind not in self._courses:
            steps_s = self.inner_steps * self.times.of(*kind)[0] if any(mask) else 0.0
            uploads_s = [up_s for up_s, live in zip(self.upload_s, mask, strict=True) if live]
            course = Course(self.answer(mask), steps_s, max(uploads_s, default=0.0))
            self._courses[kind] = course
        return self._courses[kind]

    def restore(self, stage: int, is_left: bool = False) -> tuple[int, float]:
        """(bytes, seconds): the anchor, or the whole state where it may be waited for (rule 7).

        Args:
            is_left: rounds have been committed without the slot, so its state is of no use.
        """
        is_whole = self.keeps_state[stage] and not is_left
        nbytes = (self.sizes.state_bytes if is_whole else self.sizes.weights_bytes)[stage]
        return nbytes, self.links.down.seconds(nbytes)

    def transfer(self, stage: int) -> tuple[int, float]:
        """(bytes, seconds) of a slot's whole state: up one worker's link, down another's."""
        nbytes = self.sizes.state_bytes[stage]
        return nbytes, max(self.links.up.seconds(nbytes), self.links.down.seconds(nbytes))

    def healthy_round_s(self) -> float:
        """Seconds of a round in which nothing fails: steps, the slowest upload, the exchange."""
        everybody = np.ones((self.replicas, self.stages), dtype=np.bool_)
        exchange_s = self.via.seconds(everybody, everybody, self.sizes.update_bytes)
        return self.course(self.whole).release_s(0.0) + float(exchange_s.max())
