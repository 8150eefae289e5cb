"""Keys of a scenario that are right alone and wrong together, each with its cure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from scenarios.catalogue.prices import devices, machines, unknown, wrong_with
from scenarios.consistency_network import network_problems
from scenarios.consistency_pools import pool_problems
from scenarios.fits import fullest_stage
from sim.config import PerGlobalStep, Script, TraceOutages
from sim.strikes import allowed_stages
from trainer.sizes import layers_per_stage

if TYPE_CHECKING:
    from scenarios.schema import Scenario

Loc = tuple[str | int, ...]
Problem = tuple[Loc, str]

NO_FAILURE = "no_failure"
"""The cell of the run in which nothing breaks."""
BOUND = re.compile(r"^\s*(<=|>=|==|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*$")
"""An `expect` bound: operator and number."""


def inconsistencies(scenario: Scenario) -> Iterator[Problem]:
    """Every (location, message); none in a scenario that can run."""
    yield from _model(scenario)
    yield from _work(scenario)
    yield from _catalogue(scenario)
    yield from pool_problems(scenario)
    yield from _weak_replicas(scenario)
    yield from _moves(scenario)
    yield from _quorum(scenario)
    for block in ("stop", "target"):
        if getattr(scenario, block).val_loss is not None and scenario.train is None:
            yield (block, "val_loss"), "needs a model that is trained: train is null"
    if scenario.recovery.hand_over and not any(p.notice_s for p in scenario.pools.values()):
        yield ("recovery", "hand_over"), "needs notice_s in a pool: nobody is announced to leave"
    yield from network_problems(scenario)
    outages = scenario.outages
    if isinstance(outages, PerGlobalStep):
        try:
            allowed_stages(outages, scenario.cluster.stages)
        except ValueError as error:
            yield ("outages", "stages"), str(error)
    if isinstance(outages, Script):
        yield from _script(scenario, outages)
    keys = scenario.recovery.checkpoint
    if isinstance(outages, Script | TraceOutages) and keys is not None and keys.needs_rate:
        yield (
            ("recovery", "checkpoint", "every_global_steps"),
            f"needs to know how often slots are lost, which a {outages.kind} does not tell: give a "
            f"number, or never (got {keys.every_global_steps!r})",
        )
    for arm in (scenario.sweep.arms or ()) if scenario.sweep is not None else ():
        if arm == NO_FAILURE:
            yield ("sweep", "arms", arm), "is the name of the no-failure run; choose another"
    for key, bound in scenario.expect.items():
        if not BOUND.match(bound):
            yield ("expect", key), f"must be like '< 0.02' or '>= 3' (got {bound!r})"


def _model(scenario: Scenario) -> Iterator[Problem]:
    stages = scenario.cluster.stages
    models = [(("work", "model"), scenario.timed_model())]
    if scenario.train is not None:
        models.append((("train", "model"), scenario.train.shape()))
    for loc, model in models:
        try:
            layers_per_stage(model.layers, stages)
        except ValueError as error:
            yield loc, str(error)
            return
    if scenario.train is not None and scenario.train.stage_drop and stages < 3:
        yield ("train", "stage_drop"), f"needs an inner stage: three stages (got {stages})"


def _weak_replicas(scenario: Scenario) -> Iterator[Problem]:
    weak, replicas = scenario.method.boundary.weak_replicas, scenario.cluster.replicas
    loc = ("method", "boundary", "weak_replicas")
    if isinstance(weak, int) and weak > replicas:
        yield loc, f"must be at most {replicas}, the number of replicas (got {weak})"
    if isinstance(weak, list) and max(weak) >= replicas:
        yield loc, f"must be below {replicas}, the number of replicas (got {max(weak)})"


def _work(scenario: Scenario) -> Iterator[Problem]:
    work, sequences = scenario.work, scenario.timed_sequences()
    if sequences % work.micro_batches:
        yield (
            ("work", "micro_batches"),
            f"must divide the {sequences} sequences of an inner step (got {work.micro_batches})",
        )
    if work.extra_in_flight and work.schedule != "1f1b":
        yield ("work", "extra_in_flight"), f"is used only with schedule: 1f1b (got {work.schedule})"
    yield from _memory(scenario)
    if work.stage_seconds is not None:
        stages = scenario.cluster.stages
        for key in ("forward_s", "backward_s"):
            given = getattr(work.stage_seconds, key)
            if isinstance(given, list) and len(given) != stages:
                yield (
                    ("work", "stage_seconds", key),
                    f"must be one number or {stages}, one a stage (got {len(given)})",
                )


def _memory(scenario: Scenario) -> Iterator[Problem]:
    if scenario.work.fits == "ignore" or scenario.timed_model().layers < scenario.cluster.stages:
        return
    found = fullest_stage(scenario)
    if found is not None and found.is_too_large:
        yield (
            ("work",),
            f"{found}: take more stages or micro_batches, schedule 1f1b, recompute, or say "
            "fits: ignore",
        )


def _catalogue(scenario: Scenario) -> Iterator[Problem]:
    """Names that no row has, and pools that do not say which device a step is timed on."""
    rows, work = scenario.catalogue, scenario.work
    for name, pool in scenario.pools.items():
        for key, message in wrong_with(pool, rows):
            yield ("pools", name, key), message
    told = {"device", "peak_tflops", "stage_seconds"} & work.model_fields_set
    found = machines(scenario.pools, rows)
    if len(found) > 1 and not told:
        each = ", ".join(f"{gpus} x {device}" for device, gpus in sorted(found))
        yield (
            ("work",),
            f"the pools' instances differ ({each}): say work.device or work.peak_tflops",
        )
    device = work.device or next(iter(found))[0] if len(found) == 1 else work.device
    if device is not None and rows.device(device) is None:
        yield ("work", "device"), unknown(device, {**devices(), **rows.devices})


def _moves(scenario: Scenario) -> Iterator[Problem]:
    """Who moves leaves a vacancy, and its old slot."""
    if not scenario.cluster.move_to_ends:
        return
    loc = ("cluster", "move_to_ends")
    if "skip" not in scenario.recovery.names:
        got = scenario.recovery.names
        yield loc, f"needs skip in recovery.policy: an inner slot would be vacant (got {got})"
    if isinstance(scenario.outages, PerGlobalStep):
        yield loc, "needs outages.kind pools or script: here every worker returns to its own slot"


def _quorum(scenario: Scenario) -> Iterator[Problem]:
    quorum, replicas = scenario.cluster.quorum, scenario.cluster.replicas
    if quorum is None:
        return
    if quorum.replicas > replicas:
        loc = ("cluster", "quorum", "replicas")
        yield loc, f"must be at most {replicas}, the number of replicas (got {quorum.replicas})"
    for name in {"wait", "restart"}.intersection(scenario.recovery.names):
        yield ("cluster", "quorum"), f"needs a policy that leaves others out (got {name})"


def _script(scenario: Scenario, script: Script) -> Iterator[Problem]:
    cluster = scenario.cluster
    dated: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for name, outage in script.script.items():
        loc = ("outages", "script", name)
        for key, limit in (("replica", cluster.replicas), ("stage", cluster.stages)):
            if getattr(outage, key) >= limit:
                yield (*loc, key), f"must be below {limit} (got {getattr(outage, key)})"
        if outage.at is not None:
            if outage.at.global_step >= scenario.global_steps:
                yield (
                    (*loc, "at", "global_step"),
                    f"must be below global_steps {scenario.global_steps} "
                    f"(got {outage.at.global_step})",
                )
            if outage.at.inner_step >= scenario.method.inner_steps:
                yield (
                    (*loc, "at", "inner_step"),
                    f"must be below method.inner_steps {scenario.method.inner_steps} "
                    f"(got {outage.at.inner_step})",
                )
        if outage.gone_s is not None:
            back_s = float("inf") if outage.back_s is None else outage.back_s
            dated.setdefault((outage.replica, outage.stage), []).append(
                (outage.gone_s, back_s, name)
            )
    for spells in dated.values():
        spells.sort()
        for (_, back_s, before), (gone_s, _, name) in pairwise(spells):
            if gone_s < back_s:
                yield (
                    ("outages", "script", name, "gone_s"),
                    f"the worker is still away then, by {before} (got {gone_s})",
                )
