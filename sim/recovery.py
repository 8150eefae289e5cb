"""What the job does about vacant slots, as a scenario tells it. Frozen; a line a field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sim.policies import Idle, Policy, Restart, Skip, Wait
from sim.strict import Strict

PolicyName = Literal["skip", "idle", "wait", "restart"]
UNLIMITED: dict[str, Policy] = {
    "skip": Skip(),
    "idle": Idle(),
    "wait": Wait(),
    "restart": Restart(),
}


class SkipLimits(Strict):
    """How far a replica may be skipped; where a limit is passed the next policy is asked."""

    at_most: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Slots of the replica skipped at once; with more, none is. null: all."
    )
    for_rounds: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Committed rounds that a slot has been skipped; null: for ever."
    )


class SkipWithin(Strict):
    """`skip: {at_most: 1, for_rounds: 50}`."""

    skip: SkipLimits = Field(description="Limits of skip.")

    def policy(self) -> Policy:
        """In the engine's terms."""
        return Skip(self.skip.at_most, self.skip.for_rounds)


class WaitLimits(Strict):
    """How long a replica waits; when that is over the next policy is asked."""

    at_most_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Seconds since the loss; null: for ever."
    )


class WaitWithin(Strict):
    """`wait: {at_most_s: 3600}`."""

    wait: WaitLimits = Field(description="Limits of wait.")

    def policy(self) -> Policy:
        """In the engine's terms."""
        return Wait(self.wait.at_most_s)


Entry = PolicyName | SkipWithin | WaitWithin

Rule = Literal["young", "daly", "auto", "never"]


class CheckpointKeys(Strict):
    """When a job under `restart` stores its whole state; it stands still meanwhile."""

    every_global_steps: Annotated[int, Field(ge=1)] | Rule = Field(
        "daly",
        description="Rounds between checkpoints. young, daly: by formula, from the mean time "
        "between losses; auto: the least time in simulations; never.",
    )
    every_h: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Hours of work between checkpoints instead, to the nearest round."
    )
    cost_s: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Seconds of a checkpoint; null: the slowest slot's upload of its state."
    )

    @property
    def needs_rate(self) -> bool:
        """Whether the interval depends on how often slots are lost."""
        named = isinstance(self.every_global_steps, str) and self.every_global_steps != "never"
        return named and self.every_h is None

    @model_validator(mode="after")
    def _one_interval(self) -> CheckpointKeys:
        if self.every_h is not None and self.every_global_steps != "daly":
            raise ValueError("give one of every_global_steps and every_h")
        return self


class Recovery(Strict):
    """What the job does about a vacant slot."""

    policy: Annotated[list[Entry], Field(min_length=1)] = Field(
        default_factory=lambda: list[Entry](("skip", "idle")),
        description="Ordered: the first that applies to the slot. Ends cannot be skipped.",
    )
    hand_over: bool = Field(
        False, description="A worker with notice hands its slot's state to a booted spare."
    )
    checkpoint: CheckpointKeys | None = Field(
        None, description="With restart: when the job stores its state."
    )

    @model_validator(mode="before")
    @classmethod
    def _restart_stores(cls, given: Any) -> Any:
        """Under `restart` the resolved scenario tells the checkpoints."""
        if isinstance(given, dict) and given.get("policy") == ["restart"]:
            checkpoint = given.get("checkpoint")
            return {**given, "checkpoint": {} if checkpoint is None else checkpoint}
        return given

    @model_validator(mode="after")
    def _ends_in_one_that_always_applies(self) -> Recovery:
        policies, names = self.policies(), self.names
        if "restart" in names and len(names) > 1:
            raise ValueError("restart stands alone: it rolls the whole job back")
        if "restart" in names and self.hand_over:
            raise ValueError("hand_over does nothing under restart: all slots load the checkpoint")
        pairs = zip(names, policies, strict=True)
        always = [name for name, policy in pairs if policy.settles(is_end=True)]
        if not always:
            raise ValueError(
                "the last policy must be idle or wait: skip never applies to ends"
                if all(isinstance(entry, str) for entry in self.policy)
                else "the last policy must be idle or wait without a limit"
            )
        if always[0] != names[-1]:
            raise ValueError(f"nothing after {always[0]} is ever reached")
        if len(set(names)) < len(names):
            raise ValueError("a policy is named twice")
        if self.checkpoint is not None and names != ["restart"]:
            raise ValueError("checkpoint is used only with policy [restart]")
        return self

    @property
    def names(self) -> list[str]:
        """The policies' names in order."""
        return [e if isinstance(e, str) else next(iter(type(e).model_fields)) for e in self.policy]

    def policies(self) -> tuple[Policy, ...]:
        """The policies in order."""
        return tuple(UNLIMITED[e] if isinstance(e, str) else e.policy() for e in self.policy)

    def storing_every(self, global_steps: int) -> Recovery:
        """The same with another interval between checkpoints."""
        assert self.checkpoint is not None, "only a job that rolls back stores its state"
        interval = {"every_global_steps": global_steps, "every_h": None}
        keys = self.checkpoint.model_copy(update=interval)
        return self.model_copy(update={"checkpoint": keys})
