"""What a study takes here: what is trained and what is not any more, time, disk and memory."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.numbers import usd
from analysis.plain import aligned
from scenarios.agenda import Group, grouped
from scenarios.memory import machine_bytes, needed_bytes
from scenarios.outlook import MOST_SIMULATED, Outlook, look_ahead
from scenarios.plan import Plan
from scenarios.preview import size
from scenarios.schema import Scenario
from scenarios.speed import measured_speed
from scenarios.trained import KEPT_CHECKPOINTS
from trainer.memory import memory_bytes

ROW_BYTES, ROW_BYTES_A_SLOT = 1_500, 24
"""Of a global step in a run's files, and for each slot: measured on runs of 12 and 32 slots."""
ROUND_BYTES, ROUND_BYTES_A_SLOT = 330, 13
"""Of a global step in the record of a training, likewise."""


def outlay(planned: Plan, jobs: int, out: Path) -> dict[str, Any]:
    """What is left to do, against every cell trained by itself, and the seconds it takes here."""
    groups = [group for group in grouped(planned.runs.values()) if group.training is not None]
    todo = [group for group in groups if _is_left(group)]
    flops_per_s, source = measured_speed(out)
    each_s = [group.flops() / flops_per_s for group in todo]
    at_most = [min(jobs, _scenario(group).cluster.replicas) for group in todo]
    alone_s = [seconds / most for seconds, most in zip(each_s, at_most, strict=True)]
    return {
        "cells": len(planned.cells),
        "runs": len(planned.runs),
        "finished_before": len(planned.runs) - len(planned.todo()),
        "trainings": len(todo),
        "trained_before": len(groups) - len(todo),
        "naive_global_steps": sum(
            training.steps
            for folder in planned.cells.values()
            if (training := planned.runs[folder].training) is not None
        ),
        "distinct_global_steps": sum(group.steps() for group in groups),
        "trained_global_steps": sum(group.steps() for group in todo),
        "trained_inner_steps": sum(group.steps() * _inner_steps(group) for group in todo),
        "jobs": min(jobs, sum(at_most)),
        "seconds": max(sum(each_s) / jobs, *alone_s, 0.0),
        "source": source,
        "disk_bytes": disk_bytes(planned, todo, jobs),
        "memory_bytes": needed_bytes([_scenario(group) for group in todo], jobs),
        "machine_bytes": machine_bytes(),
    }


def _is_left(group: Group) -> bool:
    """Whether anything of it is to be trained."""
    training = group.runs[0].training
    unfinished = any(not run.folder.is_done for run in group.runs)
    return training is not None and unfinished and training.done() is None


def _scenario(group: Group) -> Scenario:
    return group.runs[0].scenario


def _inner_steps(group: Group) -> int:
    """Of all replicas in a global step."""
    return _scenario(group).method.inner_steps * _scenario(group).cluster.replicas


def disk_bytes(planned: Plan, todo: list[Group], jobs: int) -> int:
    """The most that the study holds: records, and checkpoints of what goes on side by side."""
    records = sum(_rows(run.scenario, ROW_BYTES, ROW_BYTES_A_SLOT) for run in planned.todo())
    records += sum(_rows(_scenario(g), ROUND_BYTES, ROUND_BYTES_A_SLOT) for g in todo)
    states = sorted((_state_bytes(_scenario(group)) for group in todo), reverse=True)
    checkpoints = (KEPT_CHECKPOINTS + 1) * sum(states[:jobs])
    for group in todo:
        training = group.runs[0].training
        if training is not None:
            checkpoints += len(training.keep_at) * _state_bytes(_scenario(group))
    return records + checkpoints


def _rows(scenario: Scenario, each: int, of_slot: int) -> int:
    slots = scenario.cluster.replicas * scenario.cluster.stages
    return scenario.global_steps * (each + of_slot * slots)


def _state_bytes(scenario: Scenario) -> int:
    """Of a checkpoint: the anchor, moments, and what the outer method remembers."""
    replicas = scenario.cluster.replicas
    assert scenario.train is not None, "trained"
    held = memory_bytes(scenario.train, scenario.method, replicas, scenario.cluster.stages)
    return held["parameters"] // (replicas + 2) + held["adam"] + held["outer"]


# --- in words -----------------------------------------------------------------------------------


def in_words(told: dict[str, Any]) -> str:
    """What is trained, and what that takes."""
    before = f"{told['finished_before']} of {told['runs']} runs finished before"
    if told["trained_before"]:
        before += f", {told['trained_before']} trainings are in the store"
    if not told["trainings"]:
        return f"nothing to train ({before})"
    saved = (
        f" instead of {told['naive_global_steps']:,}, each cell by itself"
        if told["distinct_global_steps"] < told["naive_global_steps"]
        else ""
    )
    return (
        f"{told['cells']} cells: trains {told['trainings']} runs, "
        f"{told['trained_global_steps']:,} global steps{saved} ({told['trained_inner_steps']:,} "
        f"inner steps); {before}\n"
        f"about {told['seconds'] / 60:.1f} min here in {told['jobs']} processes "
        f"({told['source']})\n"
        f"disk about {size(told['disk_bytes'])}, memory about {size(told['memory_bytes'])}, "
        f"this machine has {size(told['machine_bytes'])}"
        + (": TOO LITTLE" if told["memory_bytes"] > told["machine_bytes"] else "")
    )


def points_in_words(planned: Plan) -> list[str]:
    """A line a point: what its seeds' simulations come to on average."""
    rows = [("cell", "seeds", "outages", "degraded", "simulated hours", "dollars")]
    total_usd = 0.0
    for label, cells in planned.seeds.items():
        ahead = [look(planned, cell) for cell in cells]
        total_usd += sum(a.usd for a in ahead)
        rows.append(
            (
                label,
                str(len(cells)),
                f"{fmean(a.outages for a in ahead):.1f}",
                f"{fmean(a.degraded_share for a in ahead):.1%}",
                f"{fmean(a.hours for a in ahead):.4g}",
                usd(fmean(a.usd for a in ahead)),
            )
        )
    return [*aligned(rows), f"means over seeds; {usd(total_usd)} in all, simulated"]


def look(planned: Plan, cell: str) -> Outlook:
    """The simulation of a cell, that of the plan if there is one."""
    folder = planned.cells[cell]
    found = planned.outlooks.get(folder)
    return found or look_ahead(planned.runs[folder].scenario, MOST_SIMULATED)
