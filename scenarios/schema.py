"""The scenario: one frozen object that composes what the cluster and the trainer need."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from scenarios.catalogue import with_regime
from scenarios.catalogue.prices import Catalogue, machines, with_instance
from scenarios.consistency import Problem, inconsistencies
from sim.config import (
    Cluster,
    Name,
    Network,
    NoOutages,
    Outages,
    Pool,
    PoolOutages,
    StageSeconds,
    on_call,
)
from sim.records import Schedule
from sim.recovery import Recovery
from sim.strict import Strict
from trainer.config import RECIPE_INNER_STEPS, Method, Model, ModelSpec, Train, shape

DEFAULT_POOL = "default"
TIMED_BY_DEFAULT: ModelSpec = "178m"
"""Timed where nothing is trained and no model is named."""
SEQUENCES_BY_DEFAULT = 32
MOST_SEED = 2**32 - 1
MOST_ADAPTIVE_SEEDS = 30

Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Count = Annotated[int, Field(ge=1)]


class Work(Strict):
    """The job that is timed and billed; by default the model that is trained."""

    model: ModelSpec | None = Field(None, description="Shape to time; null: the trained one.")
    sequences: int | None = Field(
        None, ge=1, description="Sequences of a replica's inner step; null: the trained ones."
    )
    micro_batches: int = Field(2, ge=1, description="Parts that flow through the pipeline.")
    schedule: Schedule = Field(
        "gpipe",
        description="gpipe: all forward, then all backward; 1f1b: in turn, S - s in flight.",
    )
    extra_in_flight: int = Field(
        0, ge=0, description="1f1b: micro-batches more in flight for each stage that follows."
    )
    recompute: bool = Field(False, description="Activations are computed again, not kept.")
    device: Name | None = Field(
        None, description="In the catalogue; null: that of the pools' instances, if they agree."
    )
    gpus: int | None = Field(
        None, ge=1, description="Devices of a worker; null: those of its instance, else one."
    )
    peak_tflops: float = Field(
        125.0, gt=0, description="Dense half-precision peak of a worker; by default its devices'."
    )
    utilisation: float = Field(0.4, gt=0, le=1, description="Share of the peak that is reached.")
    fits: Literal["check", "ignore"] = Field(
        "check", description="ignore: time it also where a stage is larger than its device."
    )
    stage_seconds: StageSeconds | None = Field(
        None, description="Seconds a micro-batch, instead of FLOPs / (peak x utilisation)."
    )


def with_device(work: Work, catalogue: Catalogue, of_pools: set[tuple[str, int]]) -> Work:
    """The work with device, number and peak of its workers where it tells none itself.

    of_pools: (device, how many) of the pools' instances; only where they agree they say anything.
    """
    its = next(iter(of_pools)) if len(of_pools) == 1 else (None, 1)
    device = work.device or its[0]
    row = catalogue.device(device) if device is not None else None
    if row is None:
        return work
    gpus = work.gpus or its[1]
    told: dict[str, Any] = {"device": device, "gpus": gpus}
    if "peak_tflops" not in work.model_fields_set:
        told["peak_tflops"] = gpus * row.dense_tflops
    return work.model_copy(update=told)


class Stop(Strict):
    """What ends a run before `global_steps`, with the global step that reaches it."""

    hours: float | None = Field(None, gt=0, description="Simulated hours.")
    usd: float | None = Field(None, gt=0, description="Dollars of the bill.")
    tokens: int | None = Field(None, ge=1, description="Tokens of the timed job.")
    val_loss: float | None = Field(None, gt=0, description="An evaluation at or below it.")


class Target(Strict):
    """What is asked of the job. It changes nothing that the job does."""

    val_loss: float | None = Field(
        None, gt=0, description="What it takes to come to this loss, told by summary and report."
    )
    deadline_h: float | None = Field(
        None, gt=0, description="The chance to be later, told by `check --odds`."
    )
    usd: float | None = Field(
        None, gt=0, description="A budget: what it buys, told by `check --odds`."
    )


class SeedsUntil(Strict):
    """Seeds are added to a point until the interval of its gap is narrow."""

    min: int = Field(3, ge=2, le=MOST_ADAPTIVE_SEEDS, description="Seeds of every point.")
    max: int = Field(10, ge=2, le=MOST_ADAPTIVE_SEEDS, description="Seeds of a point at most.")
    half_width: float = Field(
        gt=0, description="Nats: half of the paired 95 % interval of val_loss_gap to reach."
    )

    @model_validator(mode="after")
    def _some_to_add(self) -> SeedsUntil:
        if self.max < self.min:
            raise ValueError(f"max must be at least min (got {self.max} and {self.min})")
        return self


class Sweep(Strict):
    """What to vary. Cells are arms x parameter points x seeds."""

    arms: dict[Name, dict[str, Any]] | None = Field(
        None, min_length=1, description="Settings by name: key.path -> value."
    )
    parameters: dict[str, Annotated[list[Any], Field(min_length=1)]] | None = Field(
        None, min_length=1, description="key.path -> values; all are crossed."
    )
    seeds: Count | Annotated[list[Seed], Field(min_length=1)] | SeedsUntil = Field(
        1,
        description="So many from the scenario's on; or these; or {min, max, half_width}: more "
        "while intervals are wide.",
    )
    controls: dict[Name, dict[str, Any]] | None = Field(
        None,
        min_length=1,
        description="By name: key.path -> value over every no-failure run, which it is compared "
        "with.",
    )

    @model_validator(mode="after")
    def _varies_something(self) -> Sweep:
        if not self.model_fields_set:
            raise ValueError("needs arms, parameters, seeds or controls (got {})")
        return self

    def first_seeds(self, seed: int) -> list[int]:
        """Seeds that every point has, in a scenario with this one."""
        if isinstance(self.seeds, list):
            return self.seeds
        count = self.seeds.min if isinstance(self.seeds, SeedsUntil) else self.seeds
        return [seed + i for i in range(count)]

    @property
    def most_seeds(self) -> int:
        """Seeds that a point may come to."""
        if isinstance(self.seeds, list):
            return len(self.seeds)
        return self.seeds.max if isinstance(self.seeds, SeedsUntil) else self.seeds


class Scenario(Strict):
    """A scenario file, defaults filled in."""

    name: Name = Field(description="Names the run folder.")
    seed: Seed = Field(0, description="Of every random stream.")
    global_steps: int = Field(45, ge=1, le=10_000_000, description="Rounds; also the LR horizon.")
    cluster: Cluster = Field(default_factory=Cluster, description="Where.")
    outages: Outages = Field(default_factory=NoOutages, description="What breaks.")
    recovery: Recovery = Field(default_factory=Recovery, description="What then.")
    method: Method = Field(default_factory=Method, description="How replicas learn together.")
    train: Train | None = Field(
        default_factory=Train, description="What is learned; null: a timing and cost study."
    )
    work: Work = Field(default_factory=Work, description="What a step costs.")
    pools: dict[Name, Pool] = Field(
        default_factory=lambda: {DEFAULT_POOL: Pool()}, description="Workers by pool."
    )
    network: Network = Field(default_factory=Network, description="How they talk.")
    catalogue: Catalogue = Field(
        default_factory=Catalogue, description="Prices and devices of one's own."
    )
    stop: Stop = Field(default_factory=Stop, description="What ends it earlier; LR unmoved.")
    target: Target = Field(default_factory=Target, description="What is asked of it.")
    expect: dict[str, str] = Field(
        default_factory=dict, description="Summary key -> bound such as '< 0.02'; else exit 3."
    )
    sweep: Sweep | None = Field(None, description="What to vary.")

    def timed_model(self) -> Model:
        """Shape of the model that is timed: `work.model`, else the trained one."""
        if self.work.model is not None:
            return shape(self.work.model)
        return self.train.shape() if self.train is not None else shape(TIMED_BY_DEFAULT)

    def timed_sequences(self) -> int:
        """Sequences of a replica's inner step in the timed job."""
        if self.work.sequences is not None:
            return self.work.sequences
        return self.train.inner.sequences if self.train is not None else SEQUENCES_BY_DEFAULT

    def resolved_pools(self) -> dict[str, Pool]:
        """Pools with their workers filled in: one alone, or on call, has one a slot.

        Those on call come last, so that the others' workers have their numbers with and without.
        """
        slots, last = self.cluster.replicas * self.cluster.stages, on_call(self.pools)
        return {
            name: pool if pool.workers is not None else pool.model_copy(update={"workers": slots})
            for name, pool in sorted(self.pools.items(), key=lambda item: item[0] in last)
        }

    @property
    def is_proxy(self) -> bool:
        """Whether another model is timed than the one that is trained."""
        if self.train is None:
            return False
        is_same = self.timed_model() == self.train.shape()
        return not (is_same and self.timed_sequences() == self.train.inner.sequences)

    @model_validator(mode="before")
    @classmethod
    def _recipe(cls, given: Any) -> Any:
        """H of a published preset that is trained, where `method.inner_steps` is left out."""
        if not isinstance(given, dict):
            return given
        train, method = given.get("train", {}), given.get("method", {})
        if not isinstance(train, dict) or not isinstance(method, dict):
            return given
        steps = RECIPE_INNER_STEPS.get(str(train.get("model")))
        if steps is None or "inner_steps" in method:
            return given
        return {**given, "method": {**method, "inner_steps": steps}}

    @field_validator("pools", mode="after")
    @classmethod
    def _laws_of_regimes(cls, pools: dict[str, Pool], info: ValidationInfo) -> dict[str, Pool]:
        """A regime's laws become the pool's own, so that the resolved file tells them."""
        if not isinstance(info.data.get("outages"), PoolOutages):
            return pools
        return {name: with_regime(pool) for name, pool in pools.items()}

    @model_validator(mode="after")
    def _of_the_catalogue(self) -> Scenario:
        """What the rows of the catalogue say of pools and devices becomes the scenario's own."""
        rows = self.catalogue
        pools = {name: with_instance(pool, rows) for name, pool in self.pools.items()}
        work = with_device(self.work, rows, machines(pools, rows))
        names = {pool.instance for pool in pools.values() if pool.instance is not None}
        told = {"pools": pools, "work": work, "catalogue": rows.with_used(names, work.device)}
        for key, value in told.items():
            object.__setattr__(self, key, value)  # it is frozen
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        problems = list(inconsistencies(self))
        if problems:
            raise Inconsistent(problems)
        return self


class Inconsistent(ValueError):
    """Keys that are right alone and wrong together."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(message for _, message in problems))
