"""Where a run ends before its last global step: `stop`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scenarios.schema import Stop
from sim.config import HOUR_S
from sim.job import Job
from sim.records import GlobalStep


def global_steps(job: Job, stop: Stop) -> Iterator[GlobalStep]:
    """Those of a job, until its hours, dollars or tokens are reached: with the one that does.

    Raises:
        StalledError, LedgerError: as the job's own.
    """
    most_s, most_usd, most_tokens = (
        math.inf if bound is None else bound for bound in (stop.hours, stop.usd, stop.tokens)
    )
    usd, tokens = 0.0, 0
    for g in job.global_steps():
        yield g
        usd += sum(g.usd.values())
        tokens += tokens_of(job, g)
        if g.end_s >= most_s * HOUR_S or usd >= most_usd or tokens >= most_tokens:
            return


def tokens_of(job: Job, g: GlobalStep) -> int:
    """Tokens of the timed job that went through any depth."""
    return int(g.steps.max(axis=1).sum()) * job.config.sizes.tokens
