"""How fast workers are: a speed for each life, jitter for each round or inner step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sim.clock import stream
from sim.config import Pool
from sim.durations import law

Slowness = tuple[float, ...]
"""[S] seconds of each slot's work over the nominal ones; empty: all nominal."""
Pace = tuple[Slowness, ...]
"""[1 or H] slowness by inner step, one alone holds for all; empty: all nominal."""

PAGE_ROUNDS = 16
SLOWEST = 100.0
"""No speed and no jitter stretches work by more: a law's tail is not a dead worker."""
LEAST = 1e-9
"""Every step takes time, also with jitter that is drawn as 0."""


class WorkerPace:
    """Of one worker.

    Its speeds and its jitter have streams of their own, keyed by its pool and its index there:
    one draw a life, and one or H a global step, whether it works then or not. So what the job
    does re-deals neither.
    """

    def __init__(self, name: str, index: int, pool: Pool, inner_steps: int, seed: int) -> None:
        self._speed = None if pool.speed is None else law(pool.speed, 1.0)
        self._speeds = stream(seed, "speed", name, index)
        self._jitter = None if pool.jitter is None else law(pool.jitter.factor, 1.0)
        self._jitters = partial(stream, seed, "jitter", name, index)
        self._draws = inner_steps if pool.jitter and pool.jitter.per == "inner_step" else 1
        self._page = np.empty((0, self._draws))  # uniform draws of some rounds
        self._number = -1  # of the page
        self.begin_life()

    def begin_life(self) -> None:
        """The worker is up, from the start or again: it may be another machine."""
        speed = 1.0 if self._speed is None else self._speed.quantile(self._speeds.random())
        self._slowness = min(1.0 / max(speed, LEAST), SLOWEST)

    def slowness(self, index: int) -> tuple[float, ...]:
        """[1 or H] of its work in a global step; a job that rolls back asks for one again."""
        if self._jitter is None:
            return (self._slowness,)
        number, line = divmod(index, PAGE_ROUNDS)
        if number != self._number:
            self._page = self._jitters(number).random((PAGE_ROUNDS, self._draws))
            self._number = number
        drawn = (self._jitter.quantile(u) for u in self._page[line].tolist())
        return tuple(self._slowness * min(max(each, LEAST), SLOWEST) for each in drawn)


def worker_pace(
    name: str, index: int, pool: Pool, inner_steps: int, seed: int
) -> WorkerPace | None:
    """How fast a worker is; None: nominal, always."""
    if pool.speed is None and pool.jitter is None:
        return None
    return WorkerPace(name, index, pool, inner_steps, seed)


def together(of_slots: Sequence[tuple[float, ...]]) -> Pace:
    """The pace of a replica whose slots have these, each [1 or H]."""
    steps = max(map(len, of_slots))
    return tuple(zip(*(each * (steps // len(each)) for each in of_slots), strict=True))


def from_step(pace: Pace, done: int, inner_steps: int) -> tuple[Slowness, int]:
    """How slow slots are in the inner step after so many, and in how many from it on alike."""
    if not pace:
        return (), inner_steps - done
    return (pace[0], inner_steps - done) if len(pace) == 1 else (pace[done], 1)


def mean_slowness(pace: Pace, stage: int, steps: int) -> float:
    """Of a slot over its first inner steps in a round."""
    if not pace or not steps:
        return 1.0
    each = [pace[min(h, len(pace) - 1)][stage] for h in range(steps)]
    return sum(each) / steps
