"""How fast training went here the last time, to tell how long the next one will take."""

from __future__ import annotations

import json
import math
from pathlib import Path

from analysis.files import write_atomically
from scenarios.schema import Scenario
from scenarios.session import Run
from trainer import sizes as trainer_sizes

ASSUMED_FLOPS = 2e10
"""Training FLOP/s of one process where nothing has been measured yet."""
SPEED_FILE = ".speed.json"


def train_flops(scenario: Scenario, global_steps: int) -> float:
    """Floating-point operations of training; a backward pass counts as two forward ones."""
    if scenario.train is None:
        return 0.0
    model, stages = scenario.train.shape(), scenario.cluster.stages
    forward = sum(trainer_sizes.forward_flops_per_token(model, stages, scenario.method.boundary))
    tokens = scenario.train.inner.sequences * model.seq
    inner_steps = global_steps * scenario.method.inner_steps * scenario.cluster.replicas
    return 3.0 * forward * tokens * inner_steps


def remember_speed(run: Run, out: Path) -> None:
    """Keep the FLOP/s of a process of a run that has just ended, evaluation and checkpoints
    included."""
    told = json.loads((run.folder.path / "env.json").read_text("utf-8"))
    spent_s = told["process_s"]
    flops = train_flops(run.scenario, told["trained_to"] - told["trained_from"])
    if flops and spent_s:
        write_atomically(out / SPEED_FILE, json.dumps({"flops_per_s": flops / spent_s}))


def measured_speed(out: Path) -> tuple[float, str]:
    """(FLOP/s of one process, where that number is from)."""
    try:
        flops_per_s = float(json.loads((out / SPEED_FILE).read_text("utf-8"))["flops_per_s"])
    except (OSError, ValueError, KeyError, TypeError):
        flops_per_s = math.nan
    if flops_per_s > 0:
        return flops_per_s, "measured in the last run here"
    return ASSUMED_FLOPS, "assumed: nothing measured here yet"
