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


class Line:
    """Slots that wait for a worker, each from an instant on.

    Args:
        places: by number, r x S + s.
    """

    def __init__(self, stages: int, places: Sequence[Place], fill: Fill) -> None:
        self._places = places
        self._by_stage = [Queue() for _ in range(stages)]
        self._all_count = fill == "fewest_missing_first"

    def add(self, place: Place, from_s: float) -> None:
        """A slot waits from then on."""
        self._by_stage[place.slot[1]].add(from_s, place.number)

    def heads(
        self,
        t_s: float,
        is_waiting: Callable[[Place], bool],
        serves: Callable[[int], bool] = lambda stage: True,
    ) -> list[Place]:
        """Whoever may be the next: of each stage that is served the first, or all where that
        depends on more. Those that wait no more are dropped."""
        places, found = self._places, list[int]()
        for stage, queue in enumerate(self._by_stage):
            if not serves(stage):
                continue
            if self._all_count:
                found += queue.waiting(t_s, lambda n: is_waiting(places[n]))
            elif (number := queue.first(t_s, lambda n: is_waiting(places[n]))) is not None:
                found.append(number)
        return [places[number] for number in found]


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
        self._open = Line(stages, places, fill)
        self._idle: dict[str, Queue] = {}
        for worker in workers:
            self._idle.setdefault(worker.zone, Queue())
            if worker.place is None and not worker.on_call:
                self._idle[worker.zone].add(worker.booted_s, worker.number)

    def is_vacant(self, place: Place) -> None:
        """A slot waits, from when its vacancy is known."""
        self._open.add(place, place.known_s)

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

    def line(self) -> Line:
        """Another line of slots, in the same order."""
        return Line(self._stages, self._places, self._fill)

    def spare_for(self, stage: int, t_s: float) -> Worker | None:
        """The first booted spare that may sit in a stage and is not announced to leave itself."""
        found = [
            self._first_to_stay(queue, t_s)
            for pool, queue in self._idle.items()
            if self._placement.serves(pool, stage)
        ]
        staying = (worker for worker in found if worker is not None)
        return min(staying, key=lambda worker: worker.number, default=None)

    def _first_to_stay(self, queue: Queue, t_s: float) -> Worker | None:
        number = queue.first(t_s, lambda n: self._is_spare(n, t_s))
        if number is None:
            return None
        if self._workers[number].leaves_s == NEVER_S:
            return self._workers[number]  # nearly always, and the others need not be looked at
        numbers = queue.waiting(t_s, lambda n: self._is_spare(n, t_s))
        spares = (self._workers[number] for number in numbers)
        return next((worker for worker in spares if worker.leaves_s == NEVER_S), None)

    def mover_to(self, end: Place, inner: Sequence[Place], t_s: float) -> Worker | None:
        """The first healthy worker of these slots that may sit in a vacant end of its replica."""
        if not self._is_open(end, t_s):
            return None
        for place in inner:
            worker = place.worker
            if worker is None or not place.joined or worker.leaves_s < NEVER_S:
                continue
            if self._placement.serves(worker.zone, end.slot[1]):
                return worker
        return None

    def _best(self, worker: Worker, t_s: float, old: Place | None) -> Place | None:
        found = self._open.heads(
            t_s,
            lambda place: self._is_open(place, t_s),
            lambda stage: self._placement.serves(worker.zone, stage),
        )
        if old is not None and old.worker is None:
            found.append(old)
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

    def _is_open(self, place: Place, t_s: float) -> bool:
        return place.worker is None and place.known_s <= t_s

    def _is_spare(self, number: int, t_s: float) -> bool:
        worker = self._workers[number]
        is_free = worker.place is None and not worker.is_heir
        return worker.up and is_free and worker.booted_s <= t_s
