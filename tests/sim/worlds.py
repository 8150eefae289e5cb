"""Tiny clusters whose every number can be worked out by hand.

The standard world: 2 replicas x 3 stages, H = 4. A micro-batch takes 0.5 s forward and 0.5 s
backward in each stage, one micro-batch a step, no hop time: a step takes 3 s, 2 s with the inner
stage skipped, 1 s of it computing. Upload 2 s, download 2 s an update, restore 3 s (anchor) or
5 s (state). So a healthy round is 12 s of steps, upload until 14 s, download until 16 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from sim.config import Cluster, Network, Outages, Pool, Script
from sim.job import JobConfig
from sim.records import CLASSES, GlobalStep, Sizes
from sim.recovery import Recovery
from sim.traces.replay import Replay
from sim.watched import WatchedJob

MB = 1_000_000
SKIP, IDLE, WAIT, SKIP_WAIT = ["skip", "idle"], ["idle"], ["wait"], ["skip", "wait"]
RESTART = ["restart"]
Outage = Mapping[str, Any]


def sizes(stages: int = 3, **changes: Any) -> Sizes:
    """Sizes of the standard world."""
    standard: dict[str, Any] = {
        "forward_s": (0.5,) * stages,
        "backward_s": (0.5,) * stages,
        "micro_batches": 1,
        "tokens": 8,
        "hop_bytes": 0,
        "update_bytes": (2 * MB,) * stages,
        "weights_bytes": (3 * MB,) * stages,
        "state_bytes": (5 * MB,) * stages,
    }
    return Sizes(**{**standard, **changes})


def network(hop_mbps: float = 64.0, **store: float) -> Network:
    """8 Mb/s, that is 1 MB/s, to and from the store; 8 MB/s a hop; no latency."""
    links = {"up_mbps": 8.0, "down_mbps": 8.0, "latency_ms": 0.0, **store}
    return Network.model_validate(
        {"stages": {"bandwidth_mbps": hop_mbps, "latency_ms": 0.0}, "store": links}
    )


OUTAGES: TypeAdapter[Outages] = TypeAdapter(Outages)


def job(
    script: Mapping[str, Outage] | None = None,
    *,
    replicas: int = 2,
    stages: int = 3,
    steps: int = 4,
    rounds: int = 3,
    policy: Sequence[Any] = ("skip", "idle"),
    checkpoint: Mapping[str, Any] | None = None,
    outages: Outages | Mapping[str, Any] | None = None,
    spares: int = 0,
    pools: Mapping[str, Pool] | None = None,
    of: Sizes | None = None,
    links: Network | None = None,
    seed: int = 0,
    cluster: Mapping[str, Any] | None = None,
    hand_over: bool = False,
    replay: Replay | None = None,
    **pool: Any,
) -> WatchedJob:
    """A job in the standard world, with changes; `pool` are keys of its only pool."""
    if script is not None:
        outages = Script.model_validate({"kind": "script", "script": dict(script)})
    one = {"default": Pool(workers=replicas * stages + spares, **pool)}
    return WatchedJob(
        JobConfig(
            cluster=Cluster.model_validate(
                {"replicas": replicas, "stages": stages, **(cluster or {})}
            ),
            outages=OUTAGES.validate_python(outages or {"kind": "none"}),
            recovery=Recovery.model_validate(
                {"policy": list(policy), "checkpoint": checkpoint, "hand_over": hand_over}
            ),
            pools=dict(pools or one),
            network=links or network(),
            sizes=of or sizes(stages),
            inner_steps=steps,
            global_steps=rounds,
            seed=seed,
            replay=replay,
        )
    )


def run(*args: Any, **kwargs: Any) -> list[GlobalStep]:
    """All rounds of such a job."""
    return list(job(*args, **kwargs).global_steps())


def gone(replica: int, stage: int, gone_s: float, back_s: float | None = None) -> Outage:
    """A scripted outage."""
    return {"replica": replica, "stage": stage, "gone_s": gone_s, "back_s": back_s}


def at(
    replica: int, stage: int, global_step: int, inner_step: int, outage_s: float | None = None
) -> Outage:
    """A scripted outage told in steps."""
    when = {"global_step": global_step, "inner_step": inner_step}
    return {"replica": replica, "stage": stage, "at": when, "outage_s": outage_s}


def seconds(step: GlobalStep) -> dict[str, float]:
    """Slot-seconds of the classes that occur, rounded to a microsecond."""
    assert tuple(step.slot_s) == CLASSES
    rounded = {name: round(value, 6) for name, value in step.slot_s.items()}
    return {name: value for name, value in rounded.items() if value}


def rows_of(a_job: WatchedJob, replica: int, stage: int) -> list[tuple[int, str, float, float]]:
    """(worker, state, start_s, end_s) of a slot."""
    rows = a_job.timeline()
    return [row[2:] for row in rows if row[:2] == (replica, stage)]


def live(step: GlobalStep, inner_steps: int) -> np.ndarray:
    """[H, R, S] live-stage masks, as the trainer derives them."""
    return np.arange(inner_steps)[:, None, None] < step.steps
