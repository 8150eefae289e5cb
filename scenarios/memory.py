"""Whether what is to be trained fits into this machine's memory. Arithmetic; no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from scenarios.schema import Scenario
from scenarios.texts import corpus_bytes
from trainer.memory import memory_bytes

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's limit is, versions 2 and 1."""
NVIDIA = Path("/dev/nvidiactl")
"""There where a driver is; asking torch would take seconds."""
GB = 1e9


def machine_bytes() -> int:
    """Memory of this machine, or what its container may use if that is less."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in map(Path, CGROUP_LIMITS):
        try:
            whole = min(whole, int(path.read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return whole


def trains_elsewhere(device: str) -> bool:
    """Whether `train.device` means a GPU here, whose memory is not the machine's."""
    return device == "cuda" or (device == "auto" and NVIDIA.exists())


def training_bytes(scenario: Scenario, processes: int) -> int:
    """Memory of one run with so many processes; 0 where nothing is trained, or not on the CPU."""
    return sum(_parts(scenario, processes).values())


def _parts(scenario: Scenario, processes: int) -> dict[str, int]:
    if scenario.train is None or trains_elsewhere(scenario.train.device):
        return {}
    replicas, stages = scenario.cluster.replicas, scenario.cluster.stages
    at_most = max(1, min(processes, replicas))
    corpus = corpus_bytes(scenario.train.data)
    return memory_bytes(scenario.train, scenario.method, replicas, stages, at_most, corpus)


def needed_bytes(scenarios: Sequence[Scenario], jobs: int) -> int:
    """The most that runs take which go side by side in `jobs` processes in all."""
    together = max(1, min(jobs, len(scenarios)))
    each = (training_bytes(scenario, jobs // together) for scenario in scenarios)
    return sum(sorted(each, reverse=True)[:together])


def too_large(scenarios: Sequence[Scenario], jobs: int) -> str | None:
    """Why runs do not fit here and what to do, or None if they fit."""
    here, needed = machine_bytes(), needed_bytes(scenarios, jobs)
    if needed <= here:
        return None
    alone = max(training_bytes(scenario, 1) for scenario in scenarios)
    cure = "use fewer --jobs"
    if alone > here:
        cure = (
            "train a smaller train.model or fewer train.inner.sequences, and time the large one "
            "by work.model"
        )
        text = max(_parts(scenario, 1).get("text", 0) for scenario in scenarios)
        if alone - text < here:
            cure = f"give less text, it takes {text / GB:.1f} GB of that"
    return (
        f"training needs about {needed / GB:.1f} GB of memory in {jobs} processes, "
        f"{alone / GB:.1f} GB in one; this machine has {here / GB:.1f} GB: {cure}"
    )
