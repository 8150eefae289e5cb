"""The provider: takes workers away and gives them back. Knows no policy and no global step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import simpy

from sim.clock import Process, stream
from sim.config import HOUR_S, Pool, Script, law
from sim.records import Event

Emit = Callable[[Event], None]


def worker_life(
    env: simpy.Environment,
    number: int,
    pool: Pool,
    draws: np.random.Generator,
    emit: Emit,
) -> Process:
    """up -> (notice) -> gone -> back, for ever; one uniform draw a duration."""
    if pool.up_h is None:
        return
    up, outage = law(pool.up_h, HOUR_S), pool.outage_h and law(pool.outage_h, HOUR_S)
    while True:
        up_s = up.quantile(draws.random())
        if pool.notice_s:
            warning_s = min(pool.notice_s, up_s)
            yield env.timeout(up_s - warning_s)
            emit(Event(env.now, number, "notice", "law", gone_s=env.now + warning_s))
            yield env.timeout(warning_s)
        else:
            yield env.timeout(up_s)
        emit(Event(env.now, number, "gone", "law"))
        if outage is None:
            return
        yield env.timeout(outage.quantile(draws.random()))
        emit(Event(env.now, number, "back", "law"))


def provider(pools: Mapping[str, Pool], seed: int) -> Iterator[Event]:
    """What happens to the workers of the pools, in time order, lazily and for ever.

    Each worker draws from a stream keyed (seed, pool name, index in the pool), so a change of
    policy, price or another pool never re-deals a draw.
    """
    env = simpy.Environment()
    news: list[Event] = []
    number = 0
    for name, pool in pools.items():
        for index in range(pool.workers or 0):
            draws = stream(seed, "worker", name, index)
            env.process(worker_life(env, number, pool, draws, news.append))
            number += 1
    while env.peek() < np.inf:
        env.step()
        yield from news
        news.clear()


def scripted(script: Script, stages: int) -> Iterable[Event]:
    """The outages that a script dates in seconds, in time order; a worker is named by its slot."""
    events = []
    for name, outage in script.script.items():
        worker = outage.replica * stages + outage.stage
        if outage.gone_s is not None:
            events.append(Event(outage.gone_s, worker, "gone", name))
        if outage.back_s is not None:
            events.append(Event(outage.back_s, worker, "back", name))
    return sorted(events, key=lambda event: event.t_s)
