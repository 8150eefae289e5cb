"""A long run needs no more memory than a short one, while its rounds are read one by one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from sim.config import Fallback, Pool
from sim.job import Job
from tests.sim.worlds import RESTART, SKIP, SKIP_WAIT, WAIT, job

ROUNDS = 450
FREE_LISTS_BYTES = 40_000
"""Python keeps some small objects that are free; these lists fill slowly."""
LOSSES: dict[str, Any] = {
    "outages": {"kind": "pools"},
    "replicas": 2,
    "spares": 1,
    "up_h": {"law": "exponential", "mean": 0.05},
    "outage_h": {"law": "exponential", "mean": 0.01},
    "notice_s": 5.0,
    "provision_s": 2.0,
    "detect_s": 1.0,
}
"""A worker or two are lost in a round."""
LIVES = {key: LOSSES[key] for key in ("up_h", "outage_h", "detect_s")}
FALLS_BACK = {
    "spot": Pool(workers=6, **LIVES, fallback=Fallback(pool="backup", after_wait_s=5.0)),
    "backup": Pool(workers=3, **LIVES),
}


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {**LOSSES, "policy": SKIP},
        {**LOSSES, "policy": SKIP_WAIT},
        {**LOSSES, "policy": WAIT, "hand_over": True},
        {"outages": {"kind": "pools"}, "pools": FALLS_BACK, "policy": SKIP},
        {**LOSSES, "policy": RESTART, "checkpoint": {"every_global_steps": 1}},
        {"outages": {"kind": "per_global_step", "probability": 0.9, "duration_global_steps": 1}},
    ],
    ids=["quiet", "skip", "skip and wait", "wait", "fallback", "restart", "published regime"],
)
def test_memory_does_not_grow_with_rounds(keys: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        peaks = peaks_bytes(Job(job(rounds=ROUNDS, **keys).config))
    finally:
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + FREE_LISTS_BYTES, "the first third still meets what is new"


def peaks_bytes(a_job: Job) -> list[int]:
    """Of each third of the rounds, which are read and let go."""
    found = []
    for step in a_job.global_steps():
        if (step.index + 1) % (ROUNDS // 3) == 0:
            found.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
    return found
