"""A trace as events of a job's workers: by machine or by count, from an offset, around its end."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import NamedTuple

from sim.clock import stream
from sim.config import HOUR_S, TraceOutages
from sim.records import Event
from sim.traces.trace import ABSENT, NO_LOSS, Life, Trace

BY_COUNT = "count"
DEALT = "dealt"
"""Cause of a loss by count: who leaves was drawn."""


class Change(NamedTuple):
    """A worker of the job comes or goes at an instant of the trace."""

    t_s: float
    worker: int
    is_up: bool
    cause: str


@dataclass(frozen=True)
class Replay:
    """A trace, and how a job lives through it.

    By machine, worker i lives as worker i modulo N of the trace's N: of a job with more workers
    some share a fate, of one with fewer the trace's last are left out. By count, of n workers
    round(n x count / N) are there, and who leaves is drawn. All are up when the job begins; those
    that the trace does not have then are gone at 0 s.
    """

    trace: Trace
    outages: TraceOutages

    @property
    def by_count(self) -> bool:
        """By machine where the trace names them, unless told otherwise."""
        by = self.outages.by
        return not self.trace.named if by is None else by == BY_COUNT

    def events(self, notice_s: Sequence[float], seed: int) -> Iterator[Event]:
        """What happens to the workers of the job, in time order, lazily.

        Args:
            notice_s: [workers] warning before each is gone.
            seed: of who leaves, by count.
        """
        workers = len(notice_s)
        if self.by_count:
            cycle = _by_count(self.trace, workers, seed)
        else:
            cycle = _by_machine(self.trace, workers)
        cycle.sort(key=lambda change: (change.t_s, change.worker))
        return _announced(_around(cycle, self.trace.end_s, self.outages, workers), notice_s)


def _by_machine(trace: Trace, workers: int) -> list[Change]:
    """Each worker of the job with the lives of its worker of the trace, and its state at 0."""
    lives, changes = trace.by_worker(), []
    for worker in range(workers):
        own = lives[worker % trace.workers]
        if not own or own[0].start_s > 0:
            changes.append(Change(0.0, worker, False, ABSENT))
        for life in own:
            changes.append(Change(life.start_s, worker, True, NO_LOSS))
            if _leaves(life, trace):
                changes.append(Change(life.end_s, worker, False, life.cause))
    return changes


def _leaves(life: Life, trace: Trace) -> bool:
    """Whether it ends in the trace, and not with it."""
    return life.cause != NO_LOSS or life.end_s < trace.end_s


def _by_count(trace: Trace, workers: int, seed: int) -> list[Change]:
    """As many workers as the count says.

    Of those that were lost the first is back first; those that were never there come last.
    """
    steps = [(0.0, 0)] + [(life.start_s, 1) for life in trace.lives]
    steps += [(life.end_s, -1) for life in trace.lives if _leaves(life, trace)]
    draws = stream(seed, "trace")
    here, lost, absent = list(range(workers)), deque[int](), deque[int]()
    changes = [Change(0.0, worker, True, NO_LOSS) for worker in here]
    total = 0
    for t_s, same in groupby(sorted(steps), key=lambda step: step[0]):
        total += sum(delta for _, delta in same)
        wanted = math.floor(workers * total / trace.workers + 0.5)
        while len(here) > wanted:
            k = int(draws.random() * len(here))
            here[k], here[-1] = here[-1], here[k]
            worker = here.pop()
            (lost if t_s > 0 else absent).append(worker)
            changes.append(Change(t_s, worker, False, DEALT if t_s > 0 else ABSENT))
        while len(here) < wanted:
            here.append((lost or absent).popleft())
            changes.append(Change(t_s, here[-1], True, NO_LOSS))
    return changes


def _around(
    cycle: Sequence[Change], end_s: float, outages: TraceOutages, workers: int
) -> Iterator[Event]:
    """Losses and returns in the job's time. An outage lasts an instant at least."""
    offset_s, begin_s = outages.offset_h * HOUR_S, 0.0
    away: dict[int, tuple[float, str]] = {}
    if offset_s > 0:
        states = {change.worker: change.is_up for change in cycle if change.t_s <= offset_s}
        for worker in (worker for worker in range(workers) if not states[worker]):
            away[worker] = (0.0, ABSENT)
            yield Event(0.0, worker, "gone", ABSENT)
    while True:
        for at_s, worker, is_up, cause in cycle:
            t_s = begin_s + at_s - offset_s
            if t_s <= 0 < offset_s:
                continue
            if is_up and worker in away:
                gone_s, why = away.pop(worker)
                yield Event(max(t_s, math.nextafter(gone_s, math.inf)), worker, "back", why)
            elif not is_up and worker not in away:
                away[worker] = (t_s, cause)
                yield Event(t_s, worker, "gone", cause)
        begin_s += end_s
        if not outages.wrap or cycle[-1].t_s <= 0:  # the last: nothing ever changes
            return


def _announced(events: Iterator[Event], notice_s: Sequence[float]) -> Iterator[Event]:
    """The events in order, each loss announced where there is notice; none while it is away."""
    ahead_s = max(notice_s, default=0.0)
    up_since_s = [0.0] * len(notice_s)
    queue: list[tuple[float, int, int, Event]] = []
    order = count()

    def add(event: Event) -> None:
        heapq.heappush(queue, (event.t_s, event.worker, next(order), event))

    for event in events:
        while queue and queue[0][0] < event.t_s - ahead_s:
            yield heapq.heappop(queue)[-1]
        if event.kind == "back":
            up_since_s[event.worker] = event.t_s
        else:
            warned_s = max(event.t_s - notice_s[event.worker], up_since_s[event.worker])
            if warned_s < event.t_s:
                add(Event(warned_s, event.worker, "notice", event.cause, event.t_s))
        add(event)
    while queue:
        yield heapq.heappop(queue)[-1]
