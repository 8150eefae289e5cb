"""What the cluster is, what breaks, what then, what a step costs. Frozen; a line a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sim.durations import Duration
from sim.networks import Network as Network
from sim.strict import Name as Name
from sim.strict import Strict

HOUR_S = 3600.0
MONTH_S = 730 * HOUR_S
"""A month of the price lists."""
GB = 1e9
Seconds = Annotated[float, Field(ge=0)]
LOSS_KEYS = ("up_h", "life_cap_h", "shocks")
"""Keys of a pool that take workers away."""
SCALE_KEYS = ("losses_per_h", "mean_outage_h")
"""Keys of a pool that scale what its regime tells."""
LAW_KEYS = (*LOSS_KEYS, "outage_h", "refill_at_once")
"""Keys of a pool that only `outages.kind: pools` reads."""
Market = Literal["spot", "on_demand", "reserved"]
Fill = Literal["in_order", "ends_first", "fewest_missing_first"]
PoolNames = Name | Annotated[list[Name], Field(min_length=1)]


class Placing(Strict):
    """Which pools serve which slots, at the start and later."""

    ends: PoolNames | None = Field(
        None, description="Pools of the first and last stages; null: all not named for inner ones."
    )
    inner: PoolNames | None = Field(
        None, description="Pools of the inner stages; null: all not named for the ends."
    )
    zones: Literal["packed", "spread"] = Field(
        "packed",
        description="packed: a replica in one pool where it fits; spread: dealt over the pools.",
    )


class Quorum(Strict):
    """Whom the exchange of a round awaits."""

    replicas: int = Field(ge=1, description="So many that have uploaded are enough.")
    grace_s: Seconds = Field(0.0, description="From then on the others are awaited so long.")


class Cluster(Strict):
    """The slots of the job: replicas x stages; who sits in them."""

    replicas: int = Field(8, ge=1, le=100_000, description="R: data-parallel copies.")
    stages: int = Field(4, ge=1, le=1_000, description="S: pipeline stages of a replica.")
    place: Placing | None = Field(
        None, description="Pools by kind of slot; null: worker i in slot i, all pools serve all."
    )
    fill: Fill = Field("in_order", description="Which vacant slot a ready worker takes.")
    move_to_ends: bool = Field(
        False, description="At a boundary a healthy inner worker moves to a vacant end beside it."
    )
    quorum: Quorum | None = Field(
        None, description="The exchange leaves out who comes later; null: it awaits all."
    )


# --- pools ----------------------------------------------------------------------------------


class Shocks(Strict):
    """Losses that many workers of a pool share."""

    every_h: float = Field(gt=0, description="Mean hours between shocks; they have no memory.")
    share: float = Field(
        ge=0.001, le=1, description="Probability that a shock takes a worker that is up."
    )
    block_refill_h: Duration | None = Field(
        None, description="Law of the time after a shock in which nobody comes back; null: none."
    )


class Jitter(Strict):
    """What makes a worker's work longer or shorter, again and again."""

    factor: Duration = Field(
        description="Law of the factor on its computing seconds; mean 1 keeps their mean."
    )
    per: Literal["round", "inner_step"] = Field("round", description="How often it is drawn.")


class Fallback(Strict):
    """What fills a slot that a worker of the pool has left (rule 15)."""

    pool: Name = Field(description="Its workers are on call: bought for a slot, unpaid else.")
    after_wait_s: Seconds | None = Field(
        None, description="So long after the slot fell vacant; null: however long it is."
    )
    after_losses: Annotated[int, Field(ge=1)] | None = Field(
        None, description="At once from so many losses of the slot on; null: however many."
    )

    @model_validator(mode="after")
    def _some_day(self) -> Fallback:
        if self.after_wait_s is None and self.after_losses is None:
            raise ValueError("give after_wait_s, after_losses or both")
        return self


class Pool(Strict):
    """Workers under one price and one outage law."""

    workers: int | None = Field(
        None, ge=0, le=1_000_000, description="Machines; null: one a slot. More than slots: spares."
    )
    instance: Name | None = Field(
        None, description="A worker's machine in the catalogue: its price, notice and devices."
    )
    market: Market | None = Field(
        None, description="Which of the instance's prices; null: on_demand."
    )
    usd_per_h: float = Field(0.0, ge=0, description="Price of a worker-hour, back to gone.")
    billing_minimum_s: Seconds = Field(
        0.0, description="A worker that is gone sooner is billed for so long; by the second else."
    )
    regime: Name | None = Field(
        None, description="Laws of a kind of pool; those given beside it win."
    )
    losses_per_h: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Losses of the regime per worker-hour up; null: its own."
    )
    mean_outage_h: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Mean of the regime's law of outages; null: its own."
    )
    up_h: Duration | None = Field(None, description="Law of the time from back to gone.")
    outage_h: Duration | None = Field(None, description="Law of the time from gone to back.")
    life_cap_h: Annotated[float, Field(gt=0)] | None = Field(
        None, description="No worker stays up longer; null: no cap."
    )
    shocks: Shocks | None = Field(None, description="Losses in bulk; null: none.")
    refill_at_once: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Outages that end side by side, others queue; null: all."
    )
    fallback: Fallback | None = Field(
        None, description="Another pool, for slots that this one leaves vacant; null: none."
    )
    provision_s: Seconds = Field(0.0, description="Boot, from back until weights can load.")
    detect_s: Seconds = Field(0.0, description="From gone until the job knows.")
    notice_s: Seconds = Field(0.0, description="Warning before gone; 0: none.")
    region: Name | None = Field(None, description="Where it is, with network.regions.")
    provider: Name | None = Field(
        None, description="Whose it is: between two providers traffic pays the internet's price."
    )
    up_mbps: Annotated[float, Field(gt=0)] | None = Field(
        None, description="NIC or access line of a worker, all that it sends; null: no cap."
    )
    down_mbps: Annotated[float, Field(gt=0)] | None = Field(
        None, description="The same for what a transfer brings it; null: no cap."
    )
    speed: Duration | None = Field(
        None, description="Law of a worker's speed, drawn for each time up; null: 1, the nominal."
    )
    jitter: Jitter | None = Field(None, description="Luck of its steps; null: none.")

    @property
    def loses(self) -> tuple[str, ...]:
        """The keys by which it loses workers."""
        return tuple(key for key in LOSS_KEYS if getattr(self, key) is not None)


def on_call(pools: Mapping[str, Pool]) -> set[str]:
    """Pools that others fall back on."""
    return {pool.fallback.pool for pool in pools.values() if pool.fallback is not None}


# --- what breaks ----------------------------------------------------------------------------


class NoOutages(Strict):
    """Nothing breaks."""

    kind: Literal["none"] = "none"


class PerGlobalStep(Strict):
    """The published regime: a probability per replica and global step (rule 9)."""

    kind: Literal["per_global_step"]
    probability: float = Field(ge=0, le=1, description="p: a whole replica loses one stage.")
    duration_global_steps: int = Field(6, ge=1, description="D: rounds out, the first included.")
    stages: (
        Literal["inner", "ends", "all"]
        | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    ) = Field("inner", description="Which stages can be lost.")
    start_step: int = Field(0, ge=0, description="First global step that can fail.")


class At(Strict):
    """An instant told in steps: the planned start of an inner step."""

    global_step: int = Field(ge=0, description="Index of the committed round.")
    inner_step: int = Field(0, ge=0, description="The slot has completed this many by then.")


class ScriptedOutage(Strict):
    """One outage of the worker that starts in slot (replica, stage)."""

    replica: int = Field(ge=0, description="Replica of the worker's first slot.")
    stage: int = Field(ge=0, description="Stage of the worker's first slot.")
    gone_s: Seconds | None = Field(None, description="Instant of the loss.")
    back_s: Seconds | None = Field(None, description="Instant of the return; null: never.")
    at: At | None = Field(None, description="The loss in steps, instead of gone_s.")
    outage_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="With `at`: seconds from gone to back; null: never."
    )

    @model_validator(mode="after")
    def _one_clock(self) -> ScriptedOutage:
        if (self.gone_s is None) == (self.at is None):
            raise ValueError("give exactly one of gone_s and at")
        if self.at is not None and self.back_s is not None:
            raise ValueError("with at, say outage_s instead of back_s")
        if self.at is None and self.outage_s is not None:
            raise ValueError("with gone_s, say back_s instead of outage_s")
        if self.back_s is not None and self.gone_s is not None and self.back_s <= self.gone_s:
            raise ValueError(f"back_s must be later than gone_s (got {self.back_s})")
        return self


class Script(Strict):
    """Outages written down by hand."""

    kind: Literal["script"]
    script: dict[Name, ScriptedOutage] = Field(default_factory=dict, description="Outages by name.")


class PoolOutages(Strict):
    """The laws of the pools."""

    kind: Literal["pools"]


class TraceOutages(Strict):
    """Who was up when in a trace file, replayed."""

    kind: Literal["trace"]
    path: str = Field(description="Trace file; relative to the scenario file.")
    by: Literal["machine", "count"] | None = Field(
        None, description="What is replayed; null: by machine where the trace names them."
    )
    zone: str | None = Field(None, description="Only the trace's workers of this zone; null: all.")
    unit: Literal["ms", "s", "h"] = Field(
        "s", description="Of the times of a time,count file whose header tells none."
    )
    offset_h: float = Field(0.0, ge=0, description="Hours into the trace at which the job begins.")
    wrap: bool = Field(True, description="Begin the trace again at its end; false: then calm.")


Outages = Annotated[
    NoOutages | PerGlobalStep | Script | PoolOutages | TraceOutages, Field(discriminator="kind")
]


# --- what a step costs ----------------------------------------------------------------------


class StageSeconds(Strict):
    """Seconds of one micro-batch in a stage, given instead of derived."""

    forward_s: float | list[float] = Field(description="One number, or one a stage.")
    backward_s: float | list[float] = Field(description="One number, or one a stage.")

    @model_validator(mode="after")
    def _positive(self) -> StageSeconds:
        for name, given in (("forward_s", self.forward_s), ("backward_s", self.backward_s)):
            values = given if isinstance(given, list) else [given]
            if not values or min(values) <= 0:
                raise ValueError(f"{name} must be above 0 (got {given})")
        return self
