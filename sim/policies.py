"""What a replica does about a vacant slot: a view in, an action out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Action(IntEnum):
    """What a replica does; a larger one is severer and wins over the others of its slots."""

    RUN = 0
    SKIP = 1
    IDLE = 2
    WAIT = 3


@dataclass(frozen=True)
class View:
    """All that a policy may know."""

    stages: int

    def is_end(self, stage: int) -> bool:
        """Stages 0 and S-1 hold the embedding and the head."""
        return stage in (0, self.stages - 1)


@dataclass(frozen=True)
class Policy:
    """One answer to a vacant slot; `always` if it applies to ends as well."""

    name: str
    action: Action
    always: bool

    def applies(self, view: View, stage: int) -> bool:
        """Whether this policy can deal with a vacancy of the stage."""
        return self.always or not view.is_end(stage)


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("skip", Action.SKIP, always=False),
        Policy("idle", Action.IDLE, always=True),
        Policy("wait", Action.WAIT, always=True),
    )
}


def slot_action(policies: Sequence[Policy], view: View, stage: int) -> Action:
    """Answer of the first policy that applies to a vacancy of the stage."""
    return next(policy.action for policy in policies if policy.applies(view, stage))


def replica_action(policies: Sequence[Policy], view: View, vacant: Iterable[int]) -> Action:
    """The severest answer over the replica's vacant stages; RUN without any."""
    return max((slot_action(policies, view, stage) for stage in vacant), default=Action.RUN)
