"""What the job hears of workers, and when that leaves it no hope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from sim.clock import LATE, Bell, Clock, Process
from sim.config import Outages, Script
from sim.places import NEVER_S, Place
from sim.records import Event
from sim.replicas import Replicas
from sim.roster import Roster
from sim.script import told_in_steps
from sim.strikes import Strikes
from sim.terms import Terms

LONGEST_ROUND_S = 365 * 86_400.0
MOST_LOSSES = 10_000
MOST_LOSSES_OF_A_WORKER = 100
"""A job is given up that cannot finish a round in a year, or in so many losses of its workers."""


class StalledError(Exception):
    """Nobody is able to train, and nothing will change that."""


@dataclass(eq=False)
class News:
    """Takes events to the roster as they come, and losses to the plans when the job asks for them.

    Args:
        strikes: the published regime, where it is what breaks.
    """

    outages: Outages
    env: Clock
    bell: Bell
    terms: Terms
    roster: Roster
    replicas: Replicas
    strikes: Strikes | None = None
    is_watched: bool = False
    """Somebody waits for a slot, besides replicas that do."""
    heard: int = 0
    """Losses since the last committed round."""
    _losses: list[Event] = field(default_factory=list)

    def listen(self, events: Iterable[Event]) -> Process:
        """A process that hears what happens to the workers, in time order."""
        for event in events:
            if event.t_s > self.env.now:
                yield self.env.at(event.t_s)
            self._hear(event)

    def strike(self, index: int) -> None:
        """Who fails at a global step in the published regime; once for each, in order."""
        if self.strikes is not None:
            self.strikes.strike(index)

    def tell(self, index: int) -> None:
        """What a script tells in steps of a round that has been planned."""
        if isinstance(self.outages, Script):
            now = self.env.now
            for event in told_in_steps(self.outages, index, now, self.roster, self.replicas):
                self.env.call_at(event.t_s, partial(self._hear, event))

    def take_losses(self, is_training: bool) -> None:
        """The losses of this instant; once a round's exchange has begun they are the next one's."""
        now, losses = self.env.now, sorted(self._losses, key=lambda event: event.worker)
        self._losses = []
        for event in losses:
            worker = self.roster.workers[event.worker]
            if not worker.up:
                continue
            self.heard += not worker.on_call
            place, was_joined = worker.place, worker.place is not None and worker.place.joined
            self.roster.gone(worker, now, event.cause)
            if place is not None:
                self.env.call_at(place.known_s, self._fill)
                self.is_vacant(place)
                if was_joined and is_training:
                    self.replicas.lose(place, now)

    def is_vacant(self, place: Place) -> None:
        """A slot falls back in a while, after spot workers that come at that very instant."""
        if place.due_s < NEVER_S:
            self.env.call_at(place.due_s, self._buy, LATE)

    def ring_if_watched(self) -> None:
        """A slot may be ready sooner: tell those who wait for one."""
        if self.is_watched or self.replicas.waiting:
            self.bell.ring()

    def _hear(self, event: Event) -> None:
        """Take note; a loss counts after everything else of its instant (rule 12)."""
        worker, now = self.roster.workers[event.worker], self.env.now
        if event.kind == "gone":
            self._losses.append(event)
            self.bell.ring()
        elif event.kind == "notice":
            self.roster.notice(worker, now, event.gone_s)
            is_in = worker.place is not None and worker.place.joined
            if worker.place is not None and is_in and not self.terms.restarts:
                self.replicas.announce(worker.place, now)
                self.bell.ring()
        elif not worker.up and worker.cause == event.cause:  # a script may end what never began
            self.roster.back(worker, now)
            if worker.on_call:
                self.env.call_at(now, self._buy, LATE)
            elif worker.place is None:
                self.env.call_at(worker.booted_s, self._fill)
            self.ring_if_watched()

    def _fill(self) -> None:
        self.roster.fill(self.env.now)
        self.ring_if_watched()

    def _buy(self) -> None:
        self.roster.buy(self.env.now)
        self.ring_if_watched()

    # --- when it is hopeless ------------------------------------------------------------------

    def check_patience(self, index: int, since_s: float) -> None:
        """Raises StalledError if a global step has taken too long or too many losses."""
        most = MOST_LOSSES + MOST_LOSSES_OF_A_WORKER * len(self.roster.hired)
        if self.env.now - since_s > LONGEST_ROUND_S:
            raise self.stalled(index, since_s, "a year has passed")
        if self.heard > most:
            raise self.stalled(index, since_s, f"workers have been lost {most} times")

    def stalled(self, index: int, since_s: float, why: str) -> StalledError:
        """The error that says since when, and why, nothing goes on."""
        what = "nobody has been able to train"
        if self.terms.restarts:
            what = "no checkpoint has been completed"
        return StalledError(
            f"global step {index}: {what} since {since_s:.0f} s "
            f"and {why} (simulated time {self.bell.woke_s:.0f} s)"
        )
