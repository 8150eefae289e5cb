"""What every round of a run is planned and booked by. Fixed; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.config import Pool
from sim.network import Links
from sim.pace import Slowness
from sim.pipeline import Mask, StepTimes
from sim.policies import Action, Policy, View, replica_action, slot_action
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
    def actions(self) -> tuple[Action, ...]:
        """[S] what a replica does about a vacancy of the stage alone."""
        view = View(self.stages)
        return tuple(slot_action(self.policies, view, stage) for stage in range(self.stages))

    @cached_property
    def waits(self) -> tuple[bool, ...]:
        """[S] whether a vacancy of the stage makes its replica wait."""
        return tuple(action is Action.WAIT for action in self.actions)

    @cached_property
    def stops(self) -> tuple[bool, ...]:
        """[S] whether a vacancy of the stage stops its replica."""
        return tuple(action > Action.SKIP for action in self.actions)

    def answer(self, here: Sequence[bool]) -> Action:
        """What a replica does, told by who is here; [S]."""
        mask = tuple(here)
        if mask not in self._answers:
            vacant = [stage for stage, is_here in enumerate(mask) if not is_here]
            self._answers[mask] = replica_action(self.policies, View(self.stages), vacant)
        return self._answers[mask]

    def course(self, kind: Kind) -> Course:
        """What a replica of this kind does in a round in which nothing hits it."""
        mask = kind.mask
        if kind not in self._courses:
            steps_s = self.inner_steps * self.times.of(*kind)[0] if any(mask) else 0.0
            uploads_s = [up_s for up_s, live in zip(self.upload_s, mask, strict=True) if live]
            course = Course(self.answer(mask), steps_s, max(uploads_s, default=0.0))
            self._courses[kind] = course
        return self._courses[kind]

    def restore(self, stage: int) -> tuple[int, float]:
        """(bytes, seconds): the anchor, or the whole state where the replica waits (rule 7)."""
        sizes = self.sizes
        nbytes = (sizes.state_bytes if self.waits[stage] else sizes.weights_bytes)[stage]
        return nbytes, self.links.down.seconds(nbytes)

    def healthy_round_s(self) -> float:
        """Seconds of a round in which nothing fails: steps, the slowest upload, the exchange."""
        everybody = np.ones((self.replicas, self.stages), dtype=np.bool_)
        exchange_s = self.via.seconds(everybody, everybody, self.sizes.update_bytes)
        return self.course(self.whole).release_s(0.0) + float(exchange_s.max())
