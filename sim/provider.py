"""The provider: takes workers away and gives them back. Knows no policy and no global step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from sim.clock import Clock, Process, later, stream
from sim.config import HOUR_S, Pool, Script, law
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
        if pool.notice_s:
            yield env.at(max(env.now, gone_s - pool.notice_s))
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


def scripted(script: Script, stages: int, pools: Sequence[Pool]) -> list[Event]:
    """The outages that a script dates in seconds, in time order; a worker is named by its slot.

    Args:
        pools: by worker, for the notice; a worker gets none while it is away.
    """
    events = []
    back_s: dict[int, float] = {}
    dated = [(o.gone_s, name, o) for name, o in script.script.items() if o.gone_s is not None]
    for gone_s, name, outage in sorted(dated, key=lambda each: each[0]):
        worker = outage.replica * stages + outage.stage
        notice_s = pools[worker].notice_s
        if notice_s:
            warned_s = max(gone_s - notice_s, back_s.get(worker, 0.0))
            events.append(Event(warned_s, worker, "notice", name, gone_s))
        events.append(Event(gone_s, worker, "gone", name))
        if outage.back_s is not None:
            events.append(Event(outage.back_s, worker, "back", name))
            back_s[worker] = outage.back_s
    return sorted(events, key=lambda event: (event.t_s, event.worker))
