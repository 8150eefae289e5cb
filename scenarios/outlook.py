"""What a run will be: its simulation, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.derive import job_config
from scenarios.directives import chained, directive
from scenarios.schema import Scenario
from scenarios.until import global_steps
from sim.config import HOUR_S
from sim.job import Job
from sim.news import StalledError

MOST_SIMULATED = 1000
"""Where only totals are asked for, so many global steps are simulated and the rest is scaled."""


@dataclass(frozen=True)
class Outlook:
    """Totals of a run's simulation; of a part of it where that was enough."""

    global_steps: int
    """Simulated ones."""
    hours: float
    usd: float
    outages: float
    degraded_share: float
    """Of its replica-rounds those in which a slot did not train all the way."""
    directives: str
    """Digest of all Directives that were simulated."""
    healthy_steps: int
    """Global steps before the first in which anything is missing or joins."""
    stalled: str
    """Why the job can never go on; empty if it can."""


def start_of(scenario: Scenario, steps: int) -> Scenario:
    """A run's first global steps, with the checkpoint interval of the whole run."""
    start = scenario.model_copy(update={"global_steps": steps})
    if steps == scenario.global_steps or scenario.recovery.checkpoint is None:
        return start
    whole = Job(job_config(scenario)).checkpoints
    assert whole is not None, "resolved where there are keys for it"
    return start.model_copy(update={"recovery": scenario.recovery.storing_every(whole.every)})


def look_ahead(scenario: Scenario, most: int | None = None) -> Outlook:
    """Simulate a scenario, or its first `most` global steps scaled to its length."""
    steps = min(scenario.global_steps, most or scenario.global_steps)
    job = Job(job_config(start_of(scenario, steps)))
    degraded, usd, end_s, directives, healthy, done, stalled = 0, 0.0, 0.0, "", 0, 0, ""
    try:
        for g in global_steps(job, scenario.stop):
            missing = g.steps < job.config.inner_steps
            degraded += int(missing.any(axis=1).sum())
            usd += sum(g.usd.values())
            end_s = g.end_s
            directives = chained(directives, directive(g))
            is_healthy = bool(not missing.any() and g.sends.all() and not g.joins.any())
            healthy += int(is_healthy and healthy == g.index)
            done = g.index + 1
    except StalledError as error:
        stalled = str(error)
    scale = scenario.global_steps / steps if done == steps else 1.0
    return Outlook(
        global_steps=done,
        hours=end_s / HOUR_S * scale,
        usd=usd * scale,
        outages=job.roster.losses * scale,
        degraded_share=degraded / (done * job.R) if done else 0.0,
        directives=directives,
        healthy_steps=healthy,
        stalled=stalled,
    )
