"""Whether the timed job fits the devices that it is timed on. Arithmetic; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.pipeline import in_flight
from trainer.device_memory import activation_bytes, state_on_device_bytes

if TYPE_CHECKING:
    from scenarios.schema import Scenario

GB = 1e9


@dataclass(frozen=True)
class Fit:
    """The fullest stage and the worker it is on."""

    stage: int
    state_bytes: int
    activation_bytes: int
    worker_bytes: float
    devices: str

    @property
    def is_too_large(self) -> bool:
        return self.state_bytes + self.activation_bytes > self.worker_bytes

    def __str__(self) -> str:
        state, activations = self.state_bytes / GB, self.activation_bytes / GB
        return (
            f"stage {self.stage} takes {state + activations:.1f} GB (weights, gradients and Adam "
            f"{state:.1f}, activations {activations:.1f}) of {self.worker_bytes / GB:g} on "
            f"{self.devices}"
        )


def fullest_stage(scenario: Scenario) -> Fit | None:
    """The stage that takes most memory; None where the device is not known.

    The devices of a worker share a stage evenly.
    """
    work, stages = scenario.work, scenario.cluster.stages
    row = scenario.catalogue.device(work.device) if work.device is not None else None
    if row is None or work.gpus is None:
        return None
    model = scenario.timed_model()
    tokens = scenario.timed_sequences() * model.seq // work.micro_batches
    most = in_flight(work.schedule, stages, work.micro_batches, work.extra_in_flight)
    state = state_on_device_bytes(model, stages, scenario.method.boundary)
    kept = activation_bytes(model, tokens, most, work.recompute)
    stage = max(range(stages), key=lambda s: state[s] + kept[s])
    devices = work.device if work.gpus == 1 else f"{work.gpus} x {work.device}"
    worker_bytes = work.gpus * row.memory_gb * GB
    return Fit(stage, state[stage], kept[stage], worker_bytes, str(devices))
