"""Workers on call: bought for a slot that has lost its own, given back to a spare (rule 15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sim.payroll import Payroll
from sim.places import NEVER_S, Place, Worker
from sim.vacancies import Line, Queue, Vacancies


def falls_back(leaver: Worker, losses: int, t_s: float, known_s: float) -> tuple[str, float]:
    """(pool, instant) at which a slot falls back that a worker leaves at t; infinite: never.

    Args:
        losses: of the slot so far.
        known_s: from when on the job knows.
    """
    if leaver.on_call:
        return leaver.zone, known_s
    fallback = leaver.pool.fallback
    if fallback is None:
        return "", NEVER_S
    if fallback.after_losses is not None and losses >= fallback.after_losses:
        return fallback.pool, known_s
    wait_s = NEVER_S if fallback.after_wait_s is None else fallback.after_wait_s
    return fallback.pool, max(known_s, t_s + wait_s)


class OnCall:
    """Workers that can be bought, and vacant slots in line for them.

    Args:
        workers: by number.
    """

    def __init__(self, workers: Sequence[Worker], vacancies: Vacancies, payroll: Payroll) -> None:
        self._workers, self._payroll, self._rank = workers, payroll, vacancies.rank
        self._free: dict[str, Queue] = {}
        self._line: dict[str, Line] = {}
        self.bought = 0
        """Workers so far; one counts each time."""
        for worker in workers:
            if worker.on_call:
                self._free.setdefault(worker.zone, Queue()).add(0.0, worker.number)
                self._line.setdefault(worker.zone, vacancies.line())

    def is_vacant(self, place: Place) -> None:
        """A slot falls back in a while, unless somebody takes it before."""
        if place.due_s < NEVER_S:
            self._line[place.backup].add(place, place.due_s)

    def is_free(self, worker: Worker, t_s: float) -> None:
        """A worker can be bought from t on."""
        self._free[worker.zone].add(t_s, worker.number)

    def buy(self, t_s: float) -> Iterator[tuple[Worker, Place]]:
        """Workers that are bought now, and the slots that have been vacant long enough for them.

        Each must have been given its worker before the next is asked for.
        """
        while (pair := self._match(t_s)) is not None:
            worker, place = pair
            self._payroll.hire(worker, t_s)
            self.bought += 1
            yield worker, place

    def give_back(self, worker: Worker, t_s: float) -> None:
        """A spare has followed a worker, which can be bought again."""
        self._payroll.dismiss(worker, t_s)
        self.is_free(worker, t_s)

    def _match(self, t_s: float) -> tuple[Worker, Place] | None:
        """The first worker that a slot can have, and that slot."""
        for pool, queue in self._free.items():
            number = queue.first(t_s, self._can_be_bought)
            if number is not None and (due := self._due(pool, t_s)):
                return self._workers[number], min(due, key=self._rank)
        return None

    def _due(self, pool: str, t_s: float) -> list[Place]:
        """Slots that fall back on a pool and have been vacant long enough: the next is of these."""

        def is_due(place: Place) -> bool:
            return place.worker is None and place.backup == pool and place.due_s <= t_s

        return self._line[pool].heads(t_s, is_due)

    def _can_be_bought(self, number: int) -> bool:
        """One that is announced to leave is not sold any more."""
        worker = self._workers[number]
        return worker.up and worker.place is None and worker.leaves_s == NEVER_S
