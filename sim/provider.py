"""The provider: takes workers away and gives them back. Knows no policy and no global step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sim.clock import Clock, Process, later, stream
from sim.config import HOUR_S, Pool, law
from sim.records import Event

Emit = Callable[[Event], None]


def worker_life(
    env: Clock, number: int, pool: Pool, draws: np.random.Generator, emit: Emit
) -> Process:
    """up -> (notice) -> gone -> back, for ever; one uniform draw a duration."""
    if pool.up_h is None:
        return
    up = law(pool.up_h, HOUR_S)
    outage = None if pool.outage_h is None else law(pool.outage_h, HOUR_S)
    while True:
        gone_s = later(env.now, up.quantile(draws.random()))
        warned_s = max(gone_s - pool.notice_s, env.now)
        if warned_s < gone_s:
            yield env.at(warned_s)
            emit(Event(env.now, number, "notice", "law", gone_s))
        yield env.at(gone_s)
        emit(Event(gone_s, number, "gone", "law"))
        if outage is None:
            return
        yield env.at(later(gone_s, outage.quantile(draws.random())))
        emit(Event(env.now, number, "back", "law"))


def provider(pools: Mapping[str, Pool], seed: int) -> Iterator[Event]:
    """What happens to the workers of the pools, in time order, lazily and for ever.

    Each worker draws from a stream keyed (seed, pool name, index in the pool), so a change of
    policy, price or another pool never re-deals a draw.
    """
    env = Clock()
    news: list[Event] = []
    number = 0
    for name, pool in pools.items():
        for index in range(pool.workers or 0):
            draws = stream(seed, "worker", name, index)
            env.process(worker_life(env, number, pool, draws, news.append))
            number += 1
    while (t_s := env.peek()) < math.inf:
        while env.peek() == t_s:
            env.step()
        yield from sorted(news, key=lambda event: event.worker)
        news.clear()
