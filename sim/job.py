"""The job: rounds of training in the events of the provider; yields GlobalSteps.

The rules of a global step are numbered as in the README.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from sim.checkpoints import Checkpoints, resolve
from sim.clock import Bell, Clock, Process
from sim.collector import collected_rarely
from sim.config import Cluster, Network, Outages, PerGlobalStep, Pool, PoolOutages, Script
from sim.exchange import Exchange
from sim.interval_search import searcher
from sim.ledger import Ledger
from sim.network import links
from sim.news import News
from sim.pace import WorkerPace, worker_pace
from sim.pipeline import StepTimes
from sim.places import NEVER_S, Place, Worker
from sim.policies import Action
from sim.provider import provider
from sim.records import Event, GlobalStep, Row, Sizes, Spell
from sim.recovery import Recovery
from sim.replicas import Replicas
from sim.rolled_back import RolledBack
from sim.roster import Roster
from sim.script import told_in_seconds
from sim.strikes import PublishedRegime, Strikes
from sim.terms import Terms
from sim.traces.replay import Replay
from sim.via import via
from sim.waiting import goes_on, may_join


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """All that the engine needs; `pools` have their workers filled in, those on call come last."""

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
    """One simulated run. Iterate `global_steps()` once; `rest()` is what they do not tell.

    What a round hands out is not kept, so a long run needs no more memory than a short one.
    """

    def __init__(self, config: JobConfig) -> None:
        self.config = config
        self.R, self.S = config.cluster.replicas, config.cluster.stages
        self.links = links(config.network, config.pools)
        self.times = StepTimes(config.sizes, self.links.hops, self.links.nics)
        self.terms = Terms(
            replicas=self.R,
            stages=self.S,
            inner_steps=config.inner_steps,
            sizes=config.sizes,
            links=self.links,
            via=via(config.network, self.links),
            times=self.times,
            policies=config.recovery.policies(),
            pools=config.pools,
            quorum=config.cluster.quorum,
        )
        self.roster = self._seats()
        self.healthy_s = self.terms.healthy_round_s(self.roster.kinds)
        self.ledger = Ledger(self.terms, self.roster)
        keys, steps = config.recovery.checkpoint, config.global_steps
        self.checkpoints: Checkpoints | None = None
        if keys is not None:
            search = searcher(config.outages, config.cluster, config.pools, self.terms, self._seats)
            self.checkpoints = resolve(keys, config.outages, self.roster, self.terms, steps, search)
        self.index = 0
        self.start_s = 0.0
        self._before_s = -NEVER_S
        self.replicas = Replicas(self.terms, self.roster)
        self._joiners: dict[Place, Worker] = {}
        self._no_joins = np.zeros((self.R, self.S), dtype=np.int8)
        self._no_joins.flags.writeable = False
        self._last_exchange: Exchange | None = None
        self._committed: deque[GlobalStep] = deque()
        self._env = Clock()
        self._bell = Bell(self._env)
        self.news = News(
            config.outages, self._env, self._bell, self.terms, self.roster, self.replicas
        )
        if isinstance(config.outages, PerGlobalStep):
            regime = PublishedRegime(config.outages, config.cluster, config.seed)
            self.news.strikes = Strikes(
                regime, self.roster, self.terms, self._env, self.news.ring_if_watched
            )
        self._env.process(self._rolled_back() if self.terms.restarts else self._rounds())
        self._env.process(self.news.listen(self._events()))

    # --- the face of it ---------------------------------------------------------------------

    def global_steps(self) -> Iterator[GlobalStep]:
        """Committed rounds in order; a round is yielded when nothing can undo it (rule 8).

        Raises:
            StalledError: nobody is able to train, and no event is left or a year has passed.
            LedgerError: the accounts do not close.
        """
        with collected_rarely():
            while self._committed or self.index < self.config.global_steps:
                while not self._committed:
                    if self._env.peek() == NEVER_S:
                        raise self.news.stalled(self.index, self.start_s, "no event is left")
                    self._env.step()
                yield self._committed.popleft()

    def rest(self) -> tuple[list[Row], list[Spell]]:
        """What no round that was yielded has told.

        Rows of the timeline up to the last committed round, and outages up to now, those that have
        ended first; who is on call has none.
        """
        rows = [row for step in self._committed for row in step.rows]
        spells = [spell for step in self._committed for spell in step.spells]
        rows += self.ledger.timeline.open_rows()
        return rows, [*spells, *self.roster.ended, *self.roster.open_spells()]

    def _seats(self) -> Roster:
        """Slots and workers at the start."""
        config = self.config
        return Roster(
            config.cluster,
            config.pools,
            self.terms.restore,
            self._pace,
            self.links.kinds,
            self.terms.unlike,
            self.terms.transfer,
            config.recovery.hand_over,
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
            notice_s = [worker.pool.notice_s for worker in self.roster.hired]
            return self.config.replay.events(notice_s, self.config.seed)
        return ()

    # --- rounds -----------------------------------------------------------------------------

    def _rounds(self) -> Process:
        while self.index < self.config.global_steps:
            self._open()
            exchange_s = yield from self._train()
            while exchange_s is None:
                yield from self._stall()  # rule 8: time passes, the index does not
                exchange_s = yield from self._train()
            yield from self._exchange(exchange_s)

    def _rolled_back(self) -> Process:
        """Rounds of a job that rolls back as a whole."""
        assert self.checkpoints is not None, "resolved under restart"
        return RolledBack(
            self.checkpoints,
            self.config.global_steps,
            self.terms,
            self.roster,
            self.ledger,
            self.news,
            self.replicas,
            self._commit,
        ).rounds()

    def _open(self) -> None:
        self._joiners.clear()
        self.replicas.open()
        if not self._is_calm():
            self._move_to_ends()
            self.roster.hand_over(self._env.now)
            self._join_ready()
        self.news.strike(self.index)
        self.replicas.begin(self.index, self._env.now)
        self.news.tell(self.index)

    def _move_to_ends(self) -> None:
        if self.config.cluster.move_to_ends:
            for place in self.roster.move_to_ends(self._env.now):
                self.news.is_vacant(place)

    def _join_ready(self) -> None:
        """Slots that are ready join at the boundary (rule 5)."""
        for place in [place for place in self._joiners if not place.joined]:
            del self._joiners[place]  # it joined for an attempt that came to nothing
        for place in self.roster.ready(self._env.now):
            self._join(place)

    def _join(self, place: Place) -> None:
        """A slot takes part; if its whole state is that of the last boundary, nothing happened."""
        worker = self.roster.join(place, self._env.now)
        if self.terms.keeps_state[place.slot[1]] and not place.missed:
            place.last = worker
        else:
            self._joiners[place] = worker

    def _train(self) -> Generator[simpy.Event, Any, float | None]:
        """Until everybody has uploaded or stopped: since when; None if all have stopped."""
        while True:
            self.news.take_losses(is_training=True)
            until_s = self.replicas.release_s()
            if self._last_exchange is not None and self._is_calm():
                until_s += self._last_exchange.seconds  # one timeout while nothing happens
            if self.replicas.waiting:
                until_s = min(until_s, *(self._goes_on(r)[0] for r in self.replicas.waiting))
            yield from self._bell.sleep(until_s)
            if self.replicas.waiting:
                self._resume_waiting()
            if self._env.now >= (start_s := self.replicas.release_s()):
                self.replicas.leave_out(start_s)
                return start_s if self.replicas.anyone_finishes() else None
            self.news.check_patience(self.index, self.start_s)

    def _goes_on(self, r: int) -> tuple[float, Action]:
        """When a waiting replica goes on, and what it does then (rule 7)."""
        return goes_on(self.roster.row(r), self.terms, self.replicas[r].again_s)

    def _resume_waiting(self) -> None:
        now = self._env.now
        for r in sorted(self.replicas.waiting):
            from_s, action = self._goes_on(r)
            if from_s > now:
                continue
            if action is Action.IDLE:
                self.replicas.give_up(r, now)
                continue
            for place in self.roster.row(r):
                if may_join(place, self.terms, now):
                    self._join(place)
            self.replicas.restart(r, now)

    def _stall(self) -> Process:
        """Nobody was able to train: wait for a slot, or a healthy round's seconds (rule 9)."""
        self.news.is_watched = True
        while (ready_s := self.roster.next_ready_s()) > self._env.now:
            self.news.take_losses(is_training=False)
            self._move_to_ends()
            ready_s = self.roster.next_ready_s()
            if self.news.strikes is not None and self.news.strikes.regime.anyone_out:
                yield from self._bell.sleep(self._env.now + self.healthy_s)
                self.news.strikes.count_round()
            else:
                self.news.check_patience(self.index, self.start_s)
                yield from self._bell.sleep(ready_s)
        self.news.is_watched = False
        self._join_ready()
        self.replicas.begin(self.index, self._env.now)

    def _exchange(self, start_s: float) -> Process:
        if self._last_exchange is not None and self._is_calm():
            exchange = self._last_exchange.at(start_s)
        else:
            exchange = Exchange.begin(
                start_s, self.terms, self.replicas, self.roster.joined, self.roster.kinds
            )
        self._last_exchange = exchange
        while self._env.now < exchange.end_s:
            self.news.take_losses(is_training=False)
            yield from self._bell.sleep(exchange.end_s)
        settled = self.roster.settle(exchange.end_s)
        self._commit(
            self.ledger.close(
                self.index, self.start_s, exchange, self.replicas, self._joins(), settled
            )
        )
        if self.terms.is_limited:
            self._count_missed(exchange)
        if self.news.strikes is not None:
            self.news.strikes.count_round()

    def _commit(self, step: GlobalStep) -> None:
        self._committed.append(step)
        self._before_s, self.news.heard = step.start_s, 0
        self.index, self.start_s = step.index + 1, step.end_s

    def _is_calm(self) -> bool:
        """No slot has changed since before the last round: this one is like it."""
        return self.roster.is_calm_since(self._before_s)

    def _joins(self) -> NDArray[np.int8]:
        """[R, S] who joined for the round."""
        if not self._joiners:
            return self._no_joins
        joins = self._no_joins.copy()
        for place, worker in self._joiners.items():
            joins[place.slot] = 1 if worker is place.last else 2
            place.last = worker
        joins.flags.writeable = False
        return joins

    def _count_missed(self, exchange: Exchange) -> None:
        """A round has gone on without some slots; where limits ask, that is a change to them."""
        for r in self.roster.odd:
            for place in self.roster.row(r):
                if not place.joined and not exchange.sends[place.slot]:
                    place.missed += 1
                    place.skipped += self.replicas[r].finished
                    self.roster.stir(exchange.end_s)
