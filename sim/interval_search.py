"""`auto`: the checkpoint interval that the engine itself finishes soonest with, by simulation.

When all slots of a job are there does not depend on how often it stores its state. So that is
simulated once, from random streams of its own, and every interval is tried on the same stretches
by arithmetic: common random numbers. Laws need not be exponential.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sim.clock import Bell, Clock, Process, stream
from sim.config import Cluster, NoOutages, Outages, PerGlobalStep, Pool
from sim.news import News, StalledError
from sim.provider import provider
from sim.records import Event
from sim.replicas import Replicas
from sim.roster import Roster
from sim.strikes import PublishedRegime
from sim.terms import Terms
from sim.undone import Undone
from sim.whole import Whole

Stretch = tuple[float, float]
"""(from_s, until_s) in which a job has all its slots."""
Floats = NDArray[np.float64]

LOSSES = 3_000
"""Of the job, that a search looks at: about half a second, for a few tenths of a percent."""
MOST_RUNS = 64
MORE = 2
"""Times as many stretches as a formula's interval needs are simulated; what needs more is worse."""
GRID = tuple(2 ** (k / 4) for k in range(-16, 17))
"""Intervals that are tried first, over that of the formula."""
FINER = tuple(2 ** (k / 8) for k in range(-10, 11))
"""Intervals that are tried then, over the best of the grid."""
ENOUGH = 6
"""Intervals to fit a cubic to."""


@dataclass(frozen=True)
class Work:
    """A job in the search's terms."""

    rounds: int
    """To be committed."""
    round_s: float
    """When nothing is slow."""
    cost_s: float
    """Of a checkpoint."""


def searcher(
    outages: Outages,
    cluster: Cluster,
    pools: Mapping[str, Pool],
    terms: Terms,
    seats: Callable[[], Roster],
) -> Callable[[Work, int, float], int]:
    """What `auto` does: (work, an interval that is near, mean seconds between losses) -> rounds.

    Of a long run its first LOSSES losses are looked at.

    Args:
        seats: slots and workers at the start of a run.
    """

    def search(work: Work, near: int, mean_s: float) -> int:
        seen = min(work.rounds, max(1, round(LOSSES * mean_s / work.round_s)))
        some, most = replace(work, rounds=seen), work.rounds
        if isinstance(outages, PerGlobalStep):
            regime = PublishedRegime(outages, cluster, next(search_seeds()))
            return best_interval(most, near, ByGlobalStep(some, regime).expected_s)

        def simulate(seed: int) -> Iterator[Stretch]:
            return stretches(terms, seats(), provider(pools, seed))

        return best_interval(most, near, ByTheClock(some, simulate, near).expected_s)

    return search


def best_interval(most: int, near: int, expected_s: Callable[[int], float]) -> int:
    """The rounds, at most so many, with the least expected time.

    The least on a grid around `near`; then the least of a cubic in the logarithm of the interval
    that is fitted around that: the curve is smooth and flat there, and what is simulated rough.
    """
    tried: dict[int, float] = {}

    def times(around: int, factors: Iterable[float]) -> dict[int, float]:
        intervals = {min(max(1, round(around * factor)), most) for factor in factors}
        for every in sorted(intervals - tried.keys()):
            tried[every] = expected_s(every)
        return {every: tried[every] for every in sorted(intervals) if tried[every] < math.inf}

    on_grid = times(near, GRID)
    if not on_grid:
        return min(near, most)
    best = min(on_grid, key=on_grid.__getitem__)
    around = times(best, FINER)
    if best == most or len(around) < ENOUGH:
        return min(around, key=around.__getitem__)
    curve = np.polynomial.Polynomial.fit(np.log(list(around)), list(around.values()), 3)
    fitted = curve(np.log(np.arange(min(around), max(around) + 1)))
    return min(around) + int(np.argmin(fitted))


def search_seeds() -> Iterator[int]:
    """Of the runs of a search. All seeds of a study share them, and so the interval."""
    draws = stream(0, "checkpoint interval")
    while True:
        yield int(draws.integers(2**32))


# --- where slots are lost by the clock ----------------------------------------------------------


def stretches(terms: Terms, roster: Roster, events: Iterable[Event]) -> Iterator[Stretch]:
    """When a job under `restart` has all its slots, until that is hopeless; the last may last."""
    env, found = Clock(), deque[Stretch]()
    news = News(NoOutages(), env, Bell(env), terms, roster, Replicas(terms, roster))
    whole = Whole(terms, roster, news)

    def reload(known_s: float) -> float:
        return Undone().reload(terms, known_s, roster.joined, roster.kinds, takes_time=True)

    def live() -> Process:
        while True:
            from_s = env.now
            yield from whole.lasts(math.inf)
            found.append((from_s, env.now))
            news.heard = 0
            yield from whole.recover(reload, partial(news.check_patience, 0, env.now))

    env.process(live())
    env.process(news.listen(events))
    try:
        while env.peek() < math.inf:
            env.step()
            while found:
                yield found.popleft()
    except StalledError:
        return
    if whole.is_now:
        yield env.now, math.inf


class ByTheClock:
    """Expected seconds of a job by its interval, over runs that are simulated first.

    Args:
        simulate: stretches by seed.
        near: an interval not far from the best.
    """

    def __init__(self, work: Work, simulate: Callable[[int], Iterator[Stretch]], near: int) -> None:
        self.work = work
        self._runs: list[tuple[Floats, Floats]] = []
        losses = 0
        for seed in islice(search_seeds(), MOST_RUNS):
            self._runs.append(self._enough(simulate(seed), near))
            losses += len(self._runs[-1][0])
            if losses >= LOSSES:
                break

    def expected_s(self, every: int) -> float:
        """Mean time to the end; infinite if a run does not end in what was simulated."""
        return math.fsum(finish_s(self.work, every, *run) for run in self._runs) / len(self._runs)

    def _enough(self, found: Iterator[Stretch], near: int) -> tuple[Floats, Floats]:
        """(starts, lengths) of some stretches of a run."""
        ends, taken = (np.empty(0), np.empty(0)), list[Stretch]()
        while math.isinf(finish_s(self.work, near, *ends)) and len(taken) < MORE * LOSSES:
            more = list(islice(found, max(8, len(taken) * (MORE - 1))))
            if not more:
                break
            taken += more
            from_s, until_s = np.array(taken).T
            ends = from_s, until_s - from_s
        return ends


def finish_s(work: Work, every: int, from_s: Floats, long_s: Floats) -> float:
    """When a run is done that is whole in these stretches; infinite if they are not enough.

    A stretch holds as many segments, rounds and their checkpoint, as fit whole; a part of one is
    lost. The last rounds of the run need no checkpoint.

    Args:
        every: rounds between checkpoints.
        from_s, long_s: start and length of each stretch.
    """
    stored = every * np.floor(long_s / (every * work.round_s + work.cost_s))
    left = work.rounds - (np.cumsum(stored) - stored)
    needs_s = left * work.round_s + (np.ceil(left / every) - 1) * work.cost_s
    done = np.flatnonzero(needs_s <= long_s)
    return float(from_s[done[0]] + needs_s[done[0]]) if len(done) else math.inf


# --- where they are struck at global steps ------------------------------------------------------


class ByGlobalStep:
    """The same in the published regime: a strike at g undoes the rounds since a checkpoint."""

    def __init__(self, work: Work, regime: PublishedRegime) -> None:
        self.work = work
        self.struck = np.array([g for g in range(work.rounds) if regime.drawn(g)])

    def expected_s(self, every: int) -> float:
        """Seconds to the end, without those in which slots are away: they are the same for all."""
        undone = float((self.struck % every).sum()) if len(self.struck) else 0.0
        checkpoints = math.ceil(self.work.rounds / every) - 1
        return (self.work.rounds + undone) * self.work.round_s + checkpoints * self.work.cost_s
