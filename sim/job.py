"""The job: rounds of training in the events of the provider; yields GlobalSteps.

The rules of a global step are numbered as in the README.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from sim.clock import Bell, Clock, Process
from sim.config import Cluster, Network, Outages, PerGlobalStep, Pool, PoolOutages, Recovery, Script
from sim.exchange import Exchange
from sim.ledger import Ledger
from sim.network import links
from sim.pace import WorkerPace, worker_pace
from sim.pipeline import StepTimes
from sim.places import NEVER_S, Place, Worker
from sim.provider import provider
from sim.records import Event, GlobalStep, Sizes, Spell
from sim.replicas import Replicas
from sim.roster import Roster
from sim.script import told_in_seconds, told_in_steps
from sim.strikes import PublishedRegime, Strikes
from sim.terms import Terms
from sim.traces.replay import Replay
from sim.via import via

LONGEST_ROUND_S = 365 * 86_400.0
MOST_LOSSES = 10_000
MOST_LOSSES_OF_A_WORKER = 100
"""A job is given up that cannot finish a round in a year, or in so many losses of its workers."""


class StalledError(Exception):
    """Nobody is able to train, and nothing will change that."""


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """All that the engine needs; `pools` have their workers filled in."""

    cluster: Cluster
    outages: Outages
    recovery: Recovery
    pools: dict[str, Pool]
    network: Network
    sizes: Sizes
    inner_steps: int
    global_steps: int
    seed: int
    replay: Replay | None = None
    """Of `outages.kind: trace`."""


class Job:
    """One simulated run. Iterate `global_steps()` once, then read spells and timeline."""

    def __init__(self, config: JobConfig) -> None:
        self.config = config
        self.R, self.S = config.cluster.replicas, config.cluster.stages
        self.links = links(config.network)
        self.times = StepTimes(config.sizes, self.links.hop)
        self.terms = Terms(
            replicas=self.R,
            stages=self.S,
            inner_steps=config.inner_steps,
            sizes=config.sizes,
            links=self.links,
            via=via(config.network),
            times=self.times,
            policies=config.recovery.policies(),
            pools=config.pools,
        )
        self.healthy_s = self.terms.healthy_round_s()
        self.roster = Roster(config.cluster, config.pools, self.terms.restore, self._pace)
        self.ledger = Ledger(self.terms, self.roster)
        self.timeline = self.ledger.timeline
        self.index = 0
        self.start_s = 0.0
        self._before_s = -NEVER_S
        self.replicas = Replicas(self.terms, self.roster)
        self._joiners: dict[Place, Worker] = {}
        self._no_joins = np.zeros((self.R, self.S), dtype=np.int8)
        self._no_joins.flags.writeable = False
        self._last_exchange: Exchange | None = None
        self._losses: list[Event] = []
        self._heard_losses = 0
        self._committed: list[GlobalStep] = []
        self._env = Clock()
        self._bell = Bell(self._env)
        self._is_stalled = False
        self._strikes: Strikes | None = None
        if isinstance(config.outages, PerGlobalStep):
            regime = PublishedRegime(config.outages, config.cluster, config.seed)
            self._strikes = Strikes(
                regime, self.roster, self.terms, self._env, self._ring_if_watched
            )
        self._env.process(self._rounds())
        self._env.process(self._listen(self._events()))

    # --- the face of it ---------------------------------------------------------------------

    def global_steps(self) -> Iterator[GlobalStep]:
        """Committed rounds in order; a round is yielded when nothing can undo it (rule 8).

        Raises:
            StalledError: nobody is able to train, and no event is left or a year has passed.
            LedgerError: the accounts do not close.
        """
        while self.index < self.config.global_steps:
            while not self._committed:
                if self._env.peek() == NEVER_S:
                    raise self._stalled("no event is left")
                self._env.step()
            yield self._committed.pop()

    def spells(self) -> list[Spell]:
        """Every outage up to now, by its start."""
        return sorted(
            self.roster.spells + self.roster.open_spells(), key=lambda x: (x.gone_s, x.worker)
        )

    def _pace(self, pool: str, index: int) -> WorkerPace | None:
        config = self.config
        return worker_pace(pool, index, config.pools[pool], config.inner_steps, config.seed)

    # --- events -----------------------------------------------------------------------------

    def _events(self) -> Iterable[Event]:
        """What the provider does to the workers, in time order."""
        if isinstance(self.config.outages, Script):
            return told_in_seconds(self.config.outages, self.roster)
        if isinstance(self.config.outages, PoolOutages):
            return provider(self.config.pools, self.config.seed)
        if self.config.replay is not None:
            notice_s = [worker.pool.notice_s for worker in self.roster.workers]
            return self.config.replay.events(notice_s, self.config.seed)
        return ()

    def _listen(self, events: Iterable[Event]) -> Process:
        for event in events:
            if event.t_s > self._env.now:
                yield self._env.at(event.t_s)
            self._hear(event)

    def _hear(self, event: Event) -> None:
        """Take note; a loss counts after everything else of its instant (rule 12)."""
        worker, now = self.roster.workers[event.worker], self._env.now
        if event.kind == "gone":
            self._losses.append(event)
            self._bell.ring()
        elif event.kind == "notice":
            self.roster.notice(worker, now, event.gone_s)
            if worker.place is not None and worker.place.joined:
                self.replicas.announce(worker.place, now)
                self._bell.ring()
        elif not worker.up and worker.cause == event.cause:  # a script may end what never began
            self.roster.back(worker, now)
            if worker.place is None:
                self._env.call_at(worker.booted_s, self._fill)
            self._ring_if_watched()

    def _take_losses(self, is_training: bool) -> None:
        """The losses of this instant; once a round's exchange has begun they are the next one's."""
        now, losses = self._env.now, sorted(self._losses, key=lambda event: event.worker)
        self._losses = []
        self._heard_losses += len(losses)
        for event in losses:
            worker = self.roster.workers[event.worker]
            if not worker.up:
                continue
            place, was_joined = worker.place, worker.place is not None and worker.place.joined
            self.roster.gone(worker, now, event.cause)
            if place is not None:
                self._env.call_at(place.known_s, self._fill)
                if was_joined and is_training:
                    self.replicas.lose(place, now)

    def _fill(self) -> None:
        self.roster.fill(self._env.now)
        self._ring_if_watched()

    def _ring_if_watched(self) -> None:
        """A slot may be ready sooner: tell those who wait for one."""
        if self._is_stalled or self.replicas.waiting:
            self._bell.ring()

    # --- rounds -----------------------------------------------------------------------------

    def _rounds(self) -> Process:
        while self.index < self.config.global_steps:
            self._open()
            exchange_s = yield from self._train()
            while exchange_s is None:
                yield from self._stall()  # rule 8: time passes, the index does not
                exchange_s = yield from self._train()
            yield from self._exchange(exchange_s)

    def _open(self) -> None:
        self._heard_losses = 0
        self._joiners.clear()
        self.replicas.own.clear()
        if not self._is_calm():
            self._move_to_ends()
            self._join_ready()
        if self._strikes is not None:
            self._strikes.strike(self.index)
        self.replicas.begin(self.index, self._env.now)
        if isinstance(self.config.outages, Script):
            now, script = self._env.now, self.config.outages
            for event in told_in_steps(script, self.index, now, self.roster, self.replicas):
                self._env.call_at(event.t_s, partial(self._hear, event))

    def _move_to_ends(self) -> None:
        if self.config.cluster.move_to_ends:
            self.roster.move_to_ends(self._env.now)

    def _join_ready(self) -> None:
        """Slots that are ready join at the boundary (rule 5)."""
        for place in [place for place in self._joiners if not place.joined]:
            del self._joiners[place]  # it joined for an attempt that came to nothing
        for r in sorted(self.roster.odd):
            for place in self.roster.row(r):
                if not place.joined and place.ready_s <= self._env.now:
                    self._joiners[place] = self.roster.join(place, self._env.now)

    def _train(self) -> Generator[simpy.Event, Any, float | None]:
        """Until everybody has uploaded or stopped: since when; None if all have stopped."""
        while True:
            self._take_losses(is_training=True)
            until_s = self.replicas.release_s()
            if self._last_exchange is not None and self._is_calm():
                until_s += self._last_exchange.seconds  # one timeout while nothing happens
            resumes_s = [self._resume_s(r) for r in self.replicas.waiting]
            yield from self._bell.sleep(min([until_s, *resumes_s]))
            self._resume_waiting()
            if self._env.now >= self.replicas.release_s():
                return self.replicas.release_s() if self.replicas.anyone_finishes() else None
            self._check_patience()

    def _resume_s(self, r: int) -> float:
        """When a waiting replica can start its round again: its last slot is ready (rule 7)."""
        ready_s = [p.ready_s for p in self.roster.row(r) if self.terms.waits[p.slot[1]]]
        return max(self.replicas[r].again_s, *ready_s)

    def _resume_waiting(self) -> None:
        now = self._env.now
        for r in sorted(self.replicas.waiting):
            if self._resume_s(r) <= now:
                for place in self.roster.row(r):
                    if not place.joined and self.terms.waits[place.slot[1]]:
                        self.roster.join(place, now)
                self.replicas.restart(r, now)

    def _stall(self) -> Process:
        """Nobody was able to train: wait for a slot, or a healthy round's seconds (rule 9)."""
        self._is_stalled = True
        while (ready_s := self.roster.next_ready_s()) > self._env.now:
            self._take_losses(is_training=False)
            self._move_to_ends()
            ready_s = self.roster.next_ready_s()
            if self._strikes is not None and self._strikes.regime.anyone_out:
                yield from self._bell.sleep(self._env.now + self.healthy_s)
                self._strikes.count_round()
            else:
                self._check_patience()
                yield from self._bell.sleep(ready_s)
        self._is_stalled = False
        self._join_ready()
        self.replicas.begin(self.index, self._env.now)

    def _exchange(self, start_s: float) -> Process:
        if self._last_exchange is not None and self._is_calm():
            exchange = self._last_exchange.at(start_s)
        else:
            exchange = Exchange.begin(start_s, self.terms, self.replicas, self.roster.joined)
        self._last_exchange = exchange
        while self._env.now < exchange.end_s:
            self._take_losses(is_training=False)
            yield from self._bell.sleep(exchange.end_s)
        self._committed.append(
            self.ledger.close(self.index, self.start_s, exchange, self.replicas, self._joins())
        )
        self._before_s = self.start_s
        self.index, self.start_s = self.index + 1, exchange.end_s
        if self._strikes is not None:
            self._strikes.count_round()

    def _is_calm(self) -> bool:
        """No slot has changed since before the last round: this one is like it."""
        return self.roster.is_calm_since(self._before_s)

    def _joins(self) -> NDArray[np.int8]:
        """[R, S] who joined for the round; under `wait` nothing happened to the slot (rule 7)."""
        if not self._joiners:
            return self._no_joins
        joins = self._no_joins.copy()
        for place, worker in self._joiners.items():
            if not self.terms.waits[place.slot[1]]:
                joins[place.slot] = 1 if worker is place.last else 2
            place.last = worker
        joins.flags.writeable = False
        return joins

    # --- when it is hopeless ------------------------------------------------------------------

    def _check_patience(self) -> None:
        most = MOST_LOSSES + MOST_LOSSES_OF_A_WORKER * len(self.roster.workers)
        if self._env.now - self.start_s > LONGEST_ROUND_S:
            raise self._stalled("a year has passed")
        if self._heard_losses > most:
            raise self._stalled(f"workers have been lost {most} times")

    def _stalled(self, why: str) -> StalledError:
        return StalledError(
            f"global step {self.index}: nobody has been able to train since {self.start_s:.0f} s "
            f"and {why} (simulated time {self._bell.woke_s:.0f} s)"
        )
