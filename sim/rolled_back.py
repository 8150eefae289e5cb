"""Rounds of a job that rolls back as a whole: `restart` (rule 7)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import simpy

from sim.checkpoints import Checkpoints
from sim.clock import Process
from sim.exchange import Exchange
from sim.ledger import Ledger
from sim.news import News
from sim.payroll import Settled
from sim.records import GlobalStep
from sim.replicas import Replicas
from sim.roster import Roster
from sim.terms import Terms
from sim.undone import Undone
from sim.whole import Whole


@dataclass(frozen=True)
class Lap:
    """A round that has been, and that nothing but a rollback can undo."""

    index: int
    begun_s: float
    exchange: Exchange
    settled: Settled


@dataclass(eq=False)
class RolledBack:
    """All slots train, or none does; after a loss they go on from the last checkpoint.

    Between checkpoints rounds are kept back; a checkpoint, or the end of the run, makes them final.
    """

    checkpoints: Checkpoints
    global_steps: int
    terms: Terms
    roster: Roster
    ledger: Ledger
    news: News
    replicas: Replicas
    commit: Callable[[GlobalStep], None]
    _stored: int = 0
    """Rounds that a checkpoint holds."""
    _stored_s: float = 0.0
    _seen: int = 0
    """Rounds that have been opened; those that are done again break nothing new (rule 9)."""
    _carried: list[Settled] = field(default_factory=list)
    """What workers cost in rounds that were undone."""

    def __post_init__(self) -> None:
        self._whole = Whole(self.terms, self.roster, self.news)
        self._undone = Undone()
        self._joins = np.zeros((self.terms.replicas, self.terms.stages), dtype=np.int8)
        self._joins.flags.writeable = False
        self._exchange = Exchange.of_all(self.terms, self.roster.kinds)

    def rounds(self) -> Process:
        """The process; commits rounds when they are final."""
        while self._stored < self.global_steps:
            laps = yield from self._attempt()
            while laps is None:
                yield from self._whole.recover(self._reload, self._check_patience)
                self._exchange = Exchange.of_all(self.terms, self.roster.kinds)
                laps = yield from self._attempt()
            self._store(laps)

    def _attempt(self) -> Generator[simpy.Event, Any, list[Lap] | None]:
        """Rounds from the last checkpoint to the next, or to the end; None if a slot is lost."""
        begun_s, laps = self.news.env.now, list[Lap]()
        if self.roster.hand_over(begun_s):
            self._exchange = Exchange.of_all(self.terms, self.roster.kinds)
        last = min(self._stored + self.checkpoints.every, self.global_steps) - 1
        for index in range(self._stored, last + 1):
            lap_s = self.news.env.now
            self._open(index)
            is_stored = index == last and index + 1 < self.global_steps
            checkpoint_s = self.checkpoints.cost_s if is_stored else None
            exchange = self._exchange.at(self.replicas.release_s(), checkpoint_s)
            is_whole = self._whole.is_now  # nobody was struck as it began
            if not is_whole or not (yield from self._whole.lasts(exchange.end_s)):
                self._undo(begun_s, laps, exchange)
                return None
            laps.append(Lap(index, lap_s, exchange, self.roster.settle(exchange.end_s)))
        return laps

    def _open(self, index: int) -> None:
        is_new = index == self._seen
        if is_new:
            self._seen += 1
            self.news.strike(index)
        self.replicas.open()
        self.replicas.begin(index, self.news.env.now)
        if is_new:
            self.news.tell(index)

    def _undo(self, begun_s: float, laps: list[Lap], exchange: Exchange) -> None:
        """A slot has been lost now: what was done since the checkpoint is of no use."""
        now = self.news.env.now
        self._undone.lose(begun_s, self._whole.known_s)
        self._undone.traffic(self.terms, self.replicas, exchange, now, len(laps))
        self._carried += [lap.settled for lap in laps]

    def _reload(self, known_s: float) -> float:
        """Who is there loads the checkpoint; the published regime returns at once (rule 9)."""
        takes_time = self.news.strikes is None
        there, kinds = self.roster.joined, self.roster.kinds
        return self._undone.reload(self.terms, known_s, there, kinds, takes_time)

    def _check_patience(self) -> None:
        self.news.check_patience(self._stored, self._stored_s)

    def _store(self, laps: list[Lap]) -> None:
        """Nothing can undo these rounds any more."""
        for lap in laps:
            settled = reduce(Settled.and_then, [*self._carried, lap.settled])
            self.replicas.open()
            self.replicas.begin(lap.index, lap.begun_s)
            step = self.ledger.close(
                lap.index,
                self._stored_s,
                lap.exchange,
                self.replicas,
                self._joins,
                settled,
                self._undone,
            )
            self.commit(step)
            self._undone, self._carried = Undone(), []
            self._stored, self._stored_s = lap.index + 1, step.end_s
