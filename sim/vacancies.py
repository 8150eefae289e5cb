"""Vacant slots and spares that wait for each other: which slot a ready worker takes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from sim.config import Fill
from sim.placement import Placement
from sim.places import NEVER_S, Place, Worker
from sim.policies import View

FEW = 16
"""So many numbers may be in a queue in vain before it is made anew."""


class Queue:
    """Numbers that wait for their turn, each from an instant on; the lowest comes first.

    A number waits from the instant on that it was added with last. It stays until somebody looks
    at it, but is there only once, however often it was added.
    """

    def __init__(self) -> None:
        self._now: list[int] = []
        self._are_now: set[int] = set()
        self._later: list[tuple[float, int]] = []
        self._from_s: dict[int, float] = {}  # of those that are to come

    def add(self, from_s: float, number: int) -> None:
        heapq.heappush(self._later, (from_s, number))
        self._from_s[number] = from_s
        if len(self._later) > 2 * len(self._from_s) + FEW:
            self._later = sorted((from_s, number) for number, from_s in self._from_s.items())

    def first(self, t_s: float, is_waiting: Callable[[int], bool]) -> int | None:
        """The lowest number whose instant has come; those that wait no more are dropped."""
        self._come(t_s)
        while self._now and not is_waiting(self._now[0]):
            self._are_now.remove(heapq.heappop(self._now))
        return self._now[0] if self._now else None

    def waiting(self, t_s: float, is_waiting: Callable[[int], bool]) -> list[int]:
        """All whose instant has come, in order; those that wait no more are dropped."""
        self._come(t_s)
        self._now = sorted(filter(is_waiting, self._now))
        self._are_now = set(self._now)
        return self._now

    def _come(self, t_s: float) -> None:
        while self._later and self._later[0][0] <= t_s:
            from_s, number = heapq.heappop(self._later)
            if self._from_s.get(number) != from_s:
                continue  # added again since
            del self._from_s[number]
            if number not in self._are_now:
                self._are_now.add(number)
                heapq.heappush(self._now, number)


class Vacancies:
    """Slots and spares in line (rule 13).

    Args:
        places: by number, r x S + s.
        workers: by number.
    """

    def __init__(
        self,
        placement: Placement,
        fill: Fill,
        stages: int,
        places: Sequence[Place],
        workers: Sequence[Worker],
    ) -> None:
        self._placement, self._fill, self._stages = placement, fill, stages
        self._places, self._workers = places, workers
        self._view = View(stages)
        self._open = [Queue() for _ in range(stages)]
        self._idle: dict[str, Queue] = {}
        for worker in workers:
            self._idle.setdefault(worker.zone, Queue())
            if worker.place is None and not worker.on_call:
                self._idle[worker.zone].add(worker.booted_s, worker.number)

    def is_vacant(self, place: Place) -> None:
        """A slot waits, from when its vacancy is known."""
        self._open[place.slot[1]].add(place.known_s, place.number)

    def is_idle(self, worker: Worker) -> None:
        """A worker waits, from when it is booted."""
        self._idle[worker.zone].add(worker.booted_s, worker.number)

    def place_for(self, worker: Worker, t_s: float) -> Place | None:
        """Where a worker that is given back goes; its old slot wins among equals."""
        return self._best(worker, t_s, worker.old_place)

    def match(self, t_s: float) -> tuple[Worker, Place] | None:
        """The first booted spare that has a slot to take, and that slot."""
        heads = [
            queue.first(t_s, lambda n: self._is_spare(n, t_s)) for queue in self._idle.values()
        ]
        for number in sorted(number for number in heads if number is not None):
            worker = self._workers[number]
            place = self._best(worker, t_s, None)
            if place is not None:
                return worker, place
        return None

    def spare_for(self, place: Place, t_s: float) -> Worker | None:
        """The first booted spare that may sit in a slot and is not announced to leave itself."""
        stage, found = place.slot[1], list[Worker]()
        for pool, queue in self._idle.items():
            if self._placement.serves(pool, stage):
                numbers = queue.waiting(t_s, lambda n: self._is_spare(n, t_s))
                found += [self._workers[number] for number in numbers]
        staying = [worker for worker in found if worker.leaves_s == NEVER_S]
        return min(staying, key=lambda worker: worker.number, default=None)

    def mover_to(self, end: Place, inner: Sequence[Place], t_s: float) -> Worker | None:
        """The first healthy worker of these slots that may sit in a vacant end of its replica."""
        if not self._is_open(end.number, t_s):
            return None
        for place in inner:
            worker = place.worker
            if worker is None or not place.joined or worker.leaves_s < NEVER_S:
                continue
            if self._placement.serves(worker.zone, end.slot[1]):
                return worker
        return None

    def _best(self, worker: Worker, t_s: float, old: Place | None) -> Place | None:
        found = [] if old is None or old.worker is not None else [old]
        for stage, queue in enumerate(self._open):
            if not self._placement.serves(worker.zone, stage):
                continue
            if self._fill == "fewest_missing_first":
                numbers = queue.waiting(t_s, lambda n: self._is_open(n, t_s))
                found += [self._places[number] for number in numbers]
            elif (number := queue.first(t_s, lambda n: self._is_open(n, t_s))) is not None:
                found.append(self._places[number])
        return min(found, key=lambda place: self.rank(place, old), default=None)

    def rank(self, place: Place, old: Place | None = None) -> tuple[int, bool, int]:
        """Those that rank lowest are filled first."""
        r, stage = place.slot
        first = 0
        if self._fill == "ends_first":
            first = int(not self._view.is_end(stage))
        elif self._fill == "fewest_missing_first":
            row = self._places[r * self._stages : (r + 1) * self._stages]
            first = sum(each.worker is None for each in row)
        return first, place is not old, place.number

    def _is_open(self, number: int, t_s: float) -> bool:
        place = self._places[number]
        return place.worker is None and place.known_s <= t_s

    def _is_spare(self, number: int, t_s: float) -> bool:
        worker = self._workers[number]
        is_free = worker.place is None and not worker.is_heir
        return worker.up and is_free and worker.booted_s <= t_s
