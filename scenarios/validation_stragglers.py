"""Row 19 of docs/validation.md: a barrier waits for the slowest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from scenarios.bench import SIGMAS, Bench, Check
from sim import theory


def row_19(bench: Bench) -> Iterator[Check]:
    """Mean of the largest of n: exponential times where a round is drawn, Gamma where a step is."""
    for arm, what, draws in (
        ("round", "barrier of 8, jitter a round, x its mean", 1),
        ("inner_step", "barrier of 8, jitter an inner step, x its mean", 4),
    ):
        run = bench.play("stragglers", arm)
        mean, square = (
            theory.largest_of_gamma(run.job.R, draws, power) / draws**power for power in (1, 2)
        )
        sigma = math.sqrt((square - mean**2) / len(run.steps))
        value = run.wall_s / len(run.steps) / run.job.healthy_s
        because = f"3.5 sigma, {len(run.steps):,} rounds"
        yield Check("19", what, "stragglers", mean, value, SIGMAS * sigma, because)


ROWS: tuple[Callable[[Bench], Iterator[Check]], ...] = (row_19,)
