"""What every round of a run is planned and booked by. Fixed; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.config import Pool, Quorum
from sim.network import Links
from sim.pace import Slowness
from sim.pipeline import MOST_CACHED, Crew, Mask, StepTimes, hops, usual_crew
from sim.policies import Action, Policy, Vacancy, View, Wait, may_wait, replica_action
from sim.records import Sizes
from sim.via import Billed, Kinds, Members, Via


class Kind(NamedTuple):
    """Who is there, and how fast: replicas of a kind go through a round alike."""

    mask: Mask
    slow: Slowness = ()
    crew: Crew | None = None
    """None: the usual one."""


class Course(NamedTuple):
    """A replica's round without events."""

    action: Action
    steps_s: float
    """H steps."""
    upload_s: float
    """The slowest upload."""
    sends: Mask
    """[S] whose update is in the exchange."""

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
    _uploads_s: dict[Crew | None, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def whole(self) -> Kind:
        """All stages live, at nominal speed."""
        return Kind((True,) * self.stages)

    @cached_property
    def jitters(self) -> bool:
        """Whether steps vary from round to round."""
        return any(pool.jitter is not None for pool in self.pools.values())

    @cached_property
    def usual_crew(self) -> Crew:
        """Of a replica that is like replica 0, of workers of kind 0."""
        return usual_crew(self.sizes)

    @cached_property
    def unlike(self) -> frozenset[int]:
        """Replicas whose hops carry other bytes than those of replica 0."""
        replicas = range(len(self.sizes.ways_bytes))
        return frozenset(r for r in replicas if self.sizes.ways(r) != self.sizes.ways(0))

    def crew(self, r: int, kinds: Sequence[int]) -> Crew | None:
        """The crew of a replica, by the kinds of its workers; None: the usual one."""
        crew = Crew(tuple(kinds), self.sizes.ways(r))
        return None if crew == self.usual_crew else crew

    def uploads_s(self, crew: Crew | None) -> tuple[float, ...]:
        """[S] seconds of the uploads of a replica's slots."""
        if crew not in self._uploads_s:
            kinds = (crew or self.usual_crew).kinds
            each = zip(self.sizes.update_bytes, kinds, strict=True)
            self._uploads_s[crew] = tuple(self.via.upload_s(nbytes, kind) for nbytes, kind in each)
        return self._uploads_s[crew]

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
            if len(self._courses) >= MOST_CACHED:
                self._courses.clear()
            steps_s = self.inner_steps * self.times.of(*kind)[0] if any(mask) else 0.0
            uploads_s = [s for s, live in zip(self.uploads_s(kind.crew), mask, strict=True) if live]
            action = self.answer(mask)
            sends = mask if action <= Action.SKIP else (False,) * self.stages
            course = Course(action, steps_s, max(uploads_s, default=0.0), sends)
            self._courses[kind] = course
        return self._courses[kind]

    def restore(self, stage: int, kind: int, is_left: bool = False) -> tuple[int, float]:
        """(bytes, seconds): the anchor, or the whole state where it may be waited for (rule 7).

        Args:
            kind: of the worker, by which its link is found.
            is_left: rounds have been committed without the slot, so its state is of no use.
        """
        is_whole = self.keeps_state[stage] and not is_left
        nbytes = (self.sizes.state_bytes if is_whole else self.sizes.weights_bytes)[stage]
        return nbytes, self.links.down[kind].seconds(nbytes)

    def transfer(self, stage: int, sender: int, receiver: int) -> tuple[int, float]:
        """(bytes, seconds) of a slot's whole state: up one worker's link, down another's.

        Args:
            sender, receiver: kinds of the two workers.
        """
        nbytes, up, down = self.sizes.state_bytes[stage], self.links.up, self.links.down
        return nbytes, max(up[sender].seconds(nbytes), down[receiver].seconds(nbytes))

    def crews(self, kinds: Kinds) -> Counter[Crew | None]:
        """How many replicas have each crew; kinds: [R, S]."""
        if not self.unlike and not kinds.any():
            return Counter({None: self.replicas})
        return Counter(self.crew(r, row) for r, row in enumerate(kinds.tolist()))

    def training_s(self, kinds: Kinds) -> float:
        """Seconds of H steps and an upload of the slowest replica, all there; kinds: [R, S]."""
        all_there = [Kind(self.whole.mask, (), crew) for crew in self.crews(kinds)]
        return max(self.course(kind).release_s(0.0) for kind in all_there)

    def healthy_round_s(self, kinds: Kinds) -> float:
        """Seconds of a round in which nothing fails: steps, the slowest upload, the exchange."""
        return self.training_s(kinds) + float(self.via.seconds(self.everybody(kinds)).max())

    def everybody(self, kinds: Kinds) -> Members:
        """The members of an exchange in which all are there."""
        all_slots = np.ones((self.replicas, self.stages), dtype=np.bool_)
        all_slots.flags.writeable = False
        return Members(all_slots, all_slots, kinds, self.sizes.update_bytes)

    def carried(self, crew: Crew | None, mask: Mask, steps: int) -> Billed:
        """Bytes of some inner steps over all hops, there and back."""
        kinds, ways_bytes = crew or self.usual_crew
        found: Billed = Counter()
        for a, b in hops(mask):
            there, back = self.links.hops[kinds[a]][kinds[b]], self.links.hops[kinds[b]][kinds[a]]
            found[there.usd_per_byte] += steps * ways_bytes[0]
            found[back.usd_per_byte] += steps * ways_bytes[1]
        return found
