"""From a scenario to what the engine needs, and the numbers one wants to see before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scenarios.schema import Scenario
from scenarios.traces import replay_of
from sim.config import NoOutages, Pool, on_call
from sim.job import JobConfig
from sim.records import Sizes
from sim.recovery import Recovery
from trainer import sizes as trainer_sizes
from trainer.config import OnReturn


def timed_sizes(scenario: Scenario) -> Sizes:
    """The timed job in plain numbers: seconds from FLOPs, bytes from shapes."""
    model, stages = scenario.timed_model(), scenario.cluster.stages
    of = trainer_sizes.sizes(model, stages, scenario.method)
    work, boundary = scenario.work, scenario.method.boundary
    tokens = scenario.timed_sequences() * model.seq
    if work.stage_seconds is not None:
        forward_s = _per_stage(work.stage_seconds.forward_s, stages)
        backward_s = _per_stage(work.stage_seconds.backward_s, stages)
    else:
        flops_per_s = work.peak_tflops * 1e12 * work.utilisation
        per_token_s = tokens / work.micro_batches / flops_per_s
        forward_s = tuple(flops * per_token_s for flops in of.forward_flops_per_token)
        backward_s = tuple(flops * per_token_s for flops in of.backward_flops_per_token)
    per_token = [
        trainer_sizes.boundary_bytes_per_token(model, boundary, replica)
        for replica in range(scenario.cluster.replicas)
    ]
    return Sizes(
        forward_s=forward_s,
        backward_s=backward_s,
        recompute_s=forward_s if work.recompute else (),
        micro_batches=work.micro_batches,
        schedule=work.schedule,
        extra_in_flight=work.extra_in_flight,
        tokens=tokens,
        hop_bytes=tokens * max(map(max, per_token)),
        ways_bytes=tuple((tokens * there, tokens * back) for there, back in per_token),
        update_bytes=of.upload_bytes,
        weights_bytes=_restore_bytes(scenario, of),
        state_bytes=of.state_bytes,
    )


def _restore_bytes(scenario: Scenario, of: trainer_sizes.Sizes) -> tuple[int, ...]:
    """What a slot that joins loads: with `on_return.adam: peer` both moments too; what it keeps,
    it has."""
    if scenario.train is None or scenario.train.on_return.adam != "peer":
        return of.restore_bytes
    moments = [2 * trainer_sizes.FP32_BYTES * count for count in of.parameters]
    return tuple(sum(pair) for pair in zip(of.restore_bytes, moments, strict=True))


def _per_stage(given: float | Sequence[float], stages: int) -> tuple[float, ...]:
    values = [given] * stages if isinstance(given, int | float) else given
    return tuple(float(value) for value in values)


def job_config(scenario: Scenario) -> JobConfig:
    """All that the engine needs; a trace is read.

    Raises:
        TraceError: it cannot be.
    """
    return JobConfig(
        cluster=scenario.cluster,
        outages=scenario.outages,
        recovery=scenario.recovery,
        pools=scenario.resolved_pools(),
        network=scenario.network,
        sizes=timed_sizes(scenario),
        inner_steps=scenario.method.inner_steps,
        global_steps=scenario.global_steps,
        seed=scenario.seed,
        replay=replay_of(scenario.outages),
    )


def no_failure(scenario: Scenario) -> Scenario:
    """The run a scenario is compared with: the same job and seed, nothing breaks.

    What only matters when something breaks is back at its default, and so is `train.jitter`, so
    that all arms of a study share the run and a jittered run without failures shows the noise.
    Slow workers are no failure: it has them too.
    """
    bought = ("workers", "instance", "market", "usd_per_h", "speed", "jitter")
    kept = (*bought, "region", "provider", "up_mbps", "down_mbps")
    pools = {
        name: Pool(**{key: getattr(pool, key) for key in kept})
        for name, pool in scenario.pools.items()
    }
    for name in on_call(scenario.pools):
        pools[name] = pools[name].model_copy(update={"workers": 0})  # nobody is bought
    seats: dict[str, Any] = {"fill": "in_order", "move_to_ends": False, "quorum": None}
    if all(pool.speed is None and pool.jitter is None for pool in pools.values()):
        seats["place"] = None  # who sits where is felt by nobody
    changes: dict[str, Any] = {
        "cluster": scenario.cluster.model_copy(update=seats),
        "outages": NoOutages(),
        "recovery": Recovery(),
        "expect": {},
        "pools": pools,
    }
    if scenario.train is not None:
        defaults = {"on_return": OnReturn(), "jitter": 0.0}
        changes["train"] = scenario.train.model_copy(update=defaults)
    return scenario.model_copy(update=changes)
