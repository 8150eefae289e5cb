"""What a replica does about a vacant slot: a view in, an action out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol


class Action(IntEnum):
    """What a replica does; a larger one is severer and wins over the others of its slots.

    Idle wins over wait: a replica with a slot that is given up cannot run, so it makes nobody
    wait for another of its slots.
    """

    RUN = 0
    SKIP = 1
    WAIT = 2
    IDLE = 3
    RESTART = 4
    """The whole job rolls back."""


@dataclass(frozen=True)
class Vacancy:
    """A slot that is not part of its replica now."""

    lost_s: float = 0.0
    skipped: int = 0
    """Committed rounds since then that its replica trained without it."""


@dataclass(frozen=True)
class View:
    """All that a policy may know of a replica."""

    stages: int
    now_s: float = 0.0
    vacant: dict[int, Vacancy] = field(default_factory=dict)
    """By stage."""

    def is_end(self, stage: int) -> bool:
        """Stages 0 and S-1 hold the embedding and the head."""
        return stage in (0, self.stages - 1)


class Policy(Protocol):
    """One answer to a vacant slot."""

    @property
    def action(self) -> Action: ...

    @property
    def ages(self) -> bool:
        """Whether it applies depends on how long a slot has been vacant."""
        ...

    def settles(self, is_end: bool) -> bool:
        """It applies to every vacancy of such a stage for ever: nothing after it is asked."""
        ...

    def applies(self, view: View, stage: int) -> bool:
        """Whether this policy can deal with the vacancy of the stage."""
        ...


@dataclass(frozen=True)
class Skip:
    """An inner stage is bypassed."""

    at_most: int | None = None
    """Slots of a replica that are skipped at once."""
    for_rounds: int | None = None
    """Committed rounds that a slot is skipped."""
    action = Action.SKIP

    @property
    def ages(self) -> bool:
        return self.for_rounds is not None

    def settles(self, is_end: bool) -> bool:
        return not is_end and self.at_most is None and self.for_rounds is None

    def applies(self, view: View, stage: int) -> bool:
        """With more of them than `at_most`, none is skipped."""
        could = [s for s, vacancy in view.vacant.items() if self._could(view, s, vacancy)]
        return stage in could and (self.at_most is None or len(could) <= self.at_most)

    def _could(self, view: View, stage: int, vacancy: Vacancy) -> bool:
        is_young = self.for_rounds is None or vacancy.skipped < self.for_rounds
        return is_young and not view.is_end(stage)


@dataclass(frozen=True)
class Idle:
    """The replica trains nothing, others go on."""

    action = Action.IDLE
    ages = False

    def settles(self, is_end: bool) -> bool:
        return True

    def applies(self, view: View, stage: int) -> bool:
        return True


@dataclass(frozen=True)
class Wait:
    """The replica starts its round again when the slot is ready."""

    at_most_s: float | None = None
    """Seconds since the loss; at that instant it applies no more."""
    action = Action.WAIT

    @property
    def ages(self) -> bool:
        return self.at_most_s is not None

    def settles(self, is_end: bool) -> bool:
        return self.at_most_s is None

    def until_s(self, vacancy: Vacancy) -> float:
        """When the wait for a slot runs out; never without a limit."""
        return math.inf if self.at_most_s is None else vacancy.lost_s + self.at_most_s

    def applies(self, view: View, stage: int) -> bool:
        return view.now_s < self.until_s(view.vacant[stage])


@dataclass(frozen=True)
class Restart:
    """The job rolls back to its last checkpoint."""

    action = Action.RESTART
    ages = False

    def settles(self, is_end: bool) -> bool:
        return True

    def applies(self, view: View, stage: int) -> bool:
        return True


def may_wait(policies: Sequence[Policy], is_end: bool) -> bool:
    """Whether a vacancy of such a stage can be waited for, or rolls the job back."""
    for policy in policies:
        if policy.action in (Action.WAIT, Action.RESTART):
            return True
        if policy.settles(is_end):
            return False
    return False


def slot_action(policies: Sequence[Policy], view: View, stage: int) -> Action:
    """Answer of the first policy that applies to the vacancy of the stage."""
    return next(policy.action for policy in policies if policy.applies(view, stage))


def replica_action(policies: Sequence[Policy], view: View) -> Action:
    """The severest answer over the replica's vacant stages; RUN without any."""
    return max((slot_action(policies, view, stage) for stage in view.vacant), default=Action.RUN)
