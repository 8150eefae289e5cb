"""The provider: takes workers away and gives them back. Knows no policy and no global step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from sim.clock import Clock, Process, stream
from sim.config import Pool
from sim.fate import Fate, PoolFate
from sim.records import Event

Emit = Callable[[Event], None]


def worker_life(env: Clock, number: int, notice_s: float, fate: Fate, emit: Emit) -> Process:
    """up -> (notice) -> gone -> back, until it is never gone or never back."""
    while True:
        gone_s, cause = fate.gone(env.now)
        if gone_s == math.inf:
            return
        warned_s = max(gone_s - notice_s, env.now)
        if warned_s < gone_s:
            yield env.at(warned_s)
            emit(Event(env.now, number, "notice", cause, gone_s))
        yield env.at(gone_s)
        emit(Event(gone_s, number, "gone", cause))
        back_s = fate.back(gone_s)
        if back_s == math.inf:
            return
        yield env.at(back_s)
        emit(Event(back_s, number, "back", cause))


def provider(pools: Mapping[str, Pool], seed: int) -> Iterator[Event]:
    """What happens to the workers of the pools, in time order, lazily and for ever.

    Each worker draws from streams keyed (seed, purpose, pool name, index in the pool), so a change
    of policy, price or another pool never re-deals a draw.
    """
    env = Clock()
    news: list[Event] = []
    number = 0
    for name, pool in pools.items():
        shared = PoolFate(name, pool, seed)
        for index in range(pool.workers or 0):
            draws, struck = (stream(seed, what, name, index) for what in ("worker", "struck"))
            fate = Fate(shared, draws, struck)
            env.process(worker_life(env, number, pool.notice_s, fate, news.append))
            number += 1
    while (t_s := env.peek()) < math.inf:
        while env.peek() == t_s:
            env.step()
        yield from sorted(news, key=lambda event: event.worker)
        news.clear()
