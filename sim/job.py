"""The job: rounds of training in the events of the provider; yields GlobalSteps.

The rules of a global step are numbered as in the README.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from sim.clock import Process, at, call_at
from sim.config import Cluster, Network, Outages, PerGlobalStep, Pool, PoolOutages, Recovery, Script
from sim.exchange import Exchange, healthy_round_s
from sim.ledger import Timeline, close_round
from sim.network import links
from sim.pipeline import StepTimes
from sim.policies import Action, View, replica_action, slot_action
from sim.provider import provider, scripted
from sim.records import Event, GlobalStep, Sizes, Spell
from sim.replica import ReplicaRound
from sim.roster import NEVER_S, Place, Roster, Worker
from sim.strikes import PublishedRegime

LONGEST_STALL_S = 365 * 86_400.0
"""A job that cannot finish a round for a year is given up."""


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


def events_of(config: JobConfig) -> Iterable[Event]:
    """What the provider does to the workers, in time order."""
    if isinstance(config.outages, Script):
        return scripted(config.outages, config.cluster.stages)
    if isinstance(config.outages, PoolOutages):
        return provider(config.pools, config.seed)
    return ()


class Job:
    """One simulated run. Iterate `global_steps()` once, then read spells and timeline."""

    def __init__(self, config: JobConfig) -> None:
        self.config = config
        self.R, self.S = config.cluster.replicas, config.cluster.stages
        self.links = links(config.network)
        self.times = StepTimes(config.sizes, self.links.hop)
        self.upload_s = [self.links.up.seconds(n) for n in config.sizes.update_bytes]
        self.policies, self.view = config.recovery.policies(), View(self.S)
        self.waits = [slot_action(self.policies, self.view, s) is Action.WAIT for s in range(self.S)]
        zones = [(zone, pool) for zone, pool in config.pools.items() for _ in range(pool.workers or 0)]
        workers = [Worker(number, zone, pool) for number, (zone, pool) in enumerate(zones)]
        self.roster = Roster(self.R, self.S, workers, self._restore)
        self.places = list(self.roster.places.values())
        self.replicas: list[ReplicaRound] = []
        self.timeline = Timeline(blink_s=self.times.of((True,) * self.S)[0])
        self.regime = (
            PublishedRegime(config.outages, config.cluster, config.seed)
            if isinstance(config.outages, PerGlobalStep)
            else None
        )
        self.healthy_s = healthy_round_s(
            config.sizes, self.times, self.links, self.R, config.inner_steps
        )
        self.index = 0
        self.start_s = 0.0
        self.joins = np.zeros((self.R, self.S), dtype=np.int8)
        self._losses: list[Place] = []
        self.env = simpy.Environment()
        self._bell = self.env.event()
        self._committed = self.env.event()

    # --- the face of it ---------------------------------------------------------------------

    def global_steps(self) -> Iterator[GlobalStep]:
        """Committed rounds in order; a round is yielded when nothing can undo it (rule 8).

        Raises:
            StalledError: nobody is able to train, and no event is left or a year has passed.
            LedgerError: the accounts do not close.
        """
        self.env.process(self._listen(events_of(self.config)))
        self.env.process(self._rounds())
        while self.index < self.config.global_steps:
            self._committed = self.env.event()
            try:
                step = self.env.run(until=self._committed)
            except RuntimeError as error:
                if self.env.peek() < NEVER_S:
                    raise
                raise self._stalled("no event is left") from error
            yield step

    def spells(self) -> list[Spell]:
        """Every outage up to now, by its start."""
        return sorted(
            self.roster.spells + self.roster.open_spells(), key=lambda x: (x.gone_s, x.worker)
        )

    # --- events -----------------------------------------------------------------------------

    def _listen(self, events: Iterable[Event]) -> Process:
        for event in events:
            yield at(self.env, event.t_s)
            self._hear(event)

    def _hear(self, event: Event) -> None:
        now = self.env.now
        if event.kind == "back":
            if self.roster.back(event.worker, now, event.cause):
                call_at(self.env, self.roster.workers[event.worker].booted_s, self._fill)
        elif event.kind == "notice":
            place = self.roster.notice(event.worker, event.gone_s)
            if place is not None and place.joined:
                r, s = place.slot
                self.replicas[r].announce(s, now, event.gone_s)
        else:
            losses = self.roster.losses
            place = self.roster.gone(event.worker, now, event.cause)
            if place is not None:
                if self.roster.losses > losses:
                    self._losses.append(place)
                call_at(self.env, place.known_s, self._fill)
        self._ring()

    def _fill(self) -> None:
        self.roster.fill(self.env.now)
        self._ring()

    def _ring(self) -> None:
        """Wake the job: things of one instant ring once (rule 12)."""
        if not self._bell.triggered:
            self._bell.succeed()

    def _sleep(self, t_s: float) -> Process:
        """Until t, or until the bell rings."""
        if self._bell.triggered:
            self._bell = self.env.event()
        if t_s == NEVER_S:
            yield self._bell
        elif t_s > self.env.now:
            yield self.env.any_of([at(self.env, t_s), self._bell])

    # --- rounds -----------------------------------------------------------------------------

    def _rounds(self) -> Process:
        while self.index < self.config.global_steps:
            self.joins = np.zeros((self.R, self.S), dtype=np.int8)
            self.replicas = [
                ReplicaRound(self.config.inner_steps, self.times, self.upload_s, self._answer)
                for _ in range(self.R)
            ]
            self._join_ready()
            self._strike()
            self._begin_all()
            self._script()
            exchange = yield from self._train()
            while exchange is None:
                yield from self._stall()  # rule 8: time passes, the index does not
                exchange = yield from self._train()
            self._commit(exchange)

    def _join_ready(self) -> None:
        """Slots that are ready join at the boundary (rule 5)."""
        self._losses.clear()  # the roster remembers what is not noticed yet
        for place in self.places:
            if not place.joined and place.ready_s <= self.env.now:
                self._join(place)
            if not place.joined:
                self.joins[place.slot] = 0  # joined for an attempt that came to nothing

    def _begin_all(self) -> None:
        for r in range(self.R):
            self._begin(r)

    def _begin(self, r: int) -> None:
        """Start an attempt of a replica; a loss not yet noticed strikes at its first instant."""
        now = self.env.now
        row = self._row(r)
        unnoticed = [place for place in row if place.lost_unnoticed(now)]
        self.replicas[r].begin(
            now,
            [place.joined or place in unnoticed for place in row],
            [place.leaves_s for place in row],
        )
        for place in unnoticed:
            self.replicas[r].lose(place.slot[1], now, place.unseen_until_s)

    def _join(self, place: Place) -> None:
        is_new = self.roster.join(place, self.env.now)
        if not self.waits[place.slot[1]]:  # under wait it loaded the whole state: nothing happened
            self.joins[place.slot] = 2 if is_new else 1

    def _stall(self) -> Process:
        """Nobody was able to train: wait for a slot, or a healthy round's seconds (rule 9)."""
        self._check_patience()
        if self.regime is not None and self.regime.anyone_out:
            yield at(self.env, self.env.now + self.healthy_s)
            self._count_round()
        else:
            yield from self._sleep(
                min((p.ready_s for p in self.places if not p.joined), default=NEVER_S)
            )
        self._join_ready()
        self._begin_all()

    def _train(self) -> Generator[simpy.Event, Any, Exchange | None]:
        """Until the exchange is over, or until every replica has stopped: then None."""
        while True:
            exchange, exchange_s = None, max(replica.release_s for replica in self.replicas)
            if exchange_s < NEVER_S and any(replica.finished for replica in self.replicas):
                updates = self.config.sizes.update_bytes
                exchange = Exchange.begin(
                    exchange_s, self.replicas, self.places, updates, self.links
                )
            end_s = exchange.end_s if exchange else exchange_s
            yield from self._sleep(min(end_s, *(self._resume_s(r) for r in range(self.R))))
            if not self._replan(exchange_s) and self.env.now >= end_s:
                return exchange
            self._check_patience()

    def _replan(self, exchange_s: float) -> bool:
        """Ready first, then the end of the steps, then losses (rule 12); whether anything hit."""
        now = self.env.now
        hit = False
        for r in range(self.R):
            if self._resume_s(r) <= now:
                for place in self._row(r):
                    if not place.joined and self.waits[place.slot[1]]:
                        self._join(place)
                self._begin(r)
                hit = True
        for place in self._losses:
            if now < exchange_s:
                r, s = place.slot
                self.replicas[r].lose(s, now, place.unseen_until_s)
                hit = True
        self._losses.clear()
        return hit

    def _resume_s(self, r: int) -> float:
        """When a waiting replica can start its round again: its last slot is ready (rule 7)."""
        if not self.replicas[r].waits:
            return NEVER_S
        resume_s = self.replicas[r].known_s
        for place in self._row(r):
            if self.waits[place.slot[1]]:
                resume_s = max(resume_s, NEVER_S if place.leaves_s < NEVER_S else place.ready_s)
        return resume_s

    def _commit(self, exchange: Exchange) -> None:
        step = close_round(
            self.index,
            self.start_s,
            exchange,
            self.replicas,
            self.joins,
            self.roster,
            self.timeline,
            self.config.sizes,
            self.config.pools,
            self.times,
            self.links,
            self._snapshot_bytes(),
        )
        self.index, self.start_s = self.index + 1, exchange.end_s
        self._count_round()
        self._committed.succeed(step)

    # --- outages told in steps (rule 9) -------------------------------------------------------

    def _strike(self) -> None:
        if self.regime is None:
            return
        for slot in self.regime.drawn(self.index):
            if not all(place.joined for place in self._row(slot[0])):
                continue
            place = self.roster.places[slot]
            assert place.worker is not None, "a joined slot has a worker"
            self.roster.gone(place.worker, self.env.now, "per_global_step", is_known=True)
            if self.waits[slot[1]]:
                rounds = self.regime.outages.duration_global_steps
                self._return_at(self.env.now + rounds * self.healthy_s, place)
            else:
                self.regime.out(slot)

    def _count_round(self) -> None:
        if self.regime is not None:
            for slot in self.regime.count_round():
                self.roster.take_back(self.roster.places[slot], self.env.now)

    def _return_at(self, t_s: float, place: Place) -> None:
        def back() -> None:
            self.roster.take_back(place, self.env.now)
            self._ring()

        call_at(self.env, t_s, back)

    def _script(self) -> None:
        """Date this round's scripted losses by the plan of their replica."""
        if not isinstance(self.config.outages, Script):
            return
        for name, outage in self.config.outages.script.items():
            if outage.at is None or outage.at.global_step != self.index:
                continue
            worker = outage.replica * self.S + outage.stage
            slot = self.roster.workers[worker].slot
            if slot is not None:
                gone_s = self.replicas[slot[0]].planned_s(outage.at.inner_step)
                self._hear_at(Event(gone_s, worker, "gone", name))
                if outage.outage_s is not None:
                    self._hear_at(Event(gone_s + outage.outage_s, worker, "back", name))

    def _hear_at(self, event: Event) -> None:
        call_at(self.env, event.t_s, lambda: self._hear(event))

    # --- arithmetic ---------------------------------------------------------------------------

    def _row(self, r: int) -> list[Place]:
        return self.places[r * self.S : (r + 1) * self.S]

    def _answer(self, vacant: Iterable[int]) -> Action:
        return replica_action(self.policies, self.view, vacant)

    def _restore(self, stage: int) -> tuple[int, float]:
        """(bytes, seconds): the anchor, or the whole state where the replica waits (rule 7)."""
        sizes = self.config.sizes
        nbytes = (sizes.state_bytes if self.waits[stage] else sizes.weights_bytes)[stage]
        return nbytes, self.links.down.seconds(nbytes)

    def _snapshot_bytes(self) -> int:
        """Under wait every joined slot stores its whole state at the boundary (rule 7)."""
        stages = (place.slot[1] for place in self.places if place.joined)
        return sum(self.config.sizes.state_bytes[s] for s in stages if self.waits[s])

    def _check_patience(self) -> None:
        if self.env.now - self.start_s > LONGEST_STALL_S:
            raise self._stalled("a year has passed")

    def _stalled(self, why: str) -> StalledError:
        return StalledError(
            f"global step {self.index}: nobody has been able to train since {self.start_s:.0f} s "
            f"and {why} (simulated time {self.env.now:.0f} s)"
        )
