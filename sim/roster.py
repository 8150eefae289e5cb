"""Who sits where: workers, slots and spares. Knows events and instants, no rounds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.config import Pool
from sim.pace import Pace, WorkerPace, together
from sim.places import NEVER_S, Place, Worker
from sim.records import Spell


class Queue:
    """Numbers that wait for their turn, each from an instant on; the lowest comes first."""

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self._now = list(numbers)
        self._later: list[tuple[float, int]] = []

    def add(self, from_s: float, number: int) -> None:
        heapq.heappush(self._later, (from_s, number))

    def first(self, t_s: float, is_waiting: Callable[[int], bool]) -> int | None:
        """The lowest number whose instant has come; those that wait no more are dropped."""
        while self._later and self._later[0][0] <= t_s:
            heapq.heappush(self._now, heapq.heappop(self._later)[1])
        while self._now and not is_waiting(self._now[0]):
            heapq.heappop(self._now)
        return self._now[0] if self._now else None


@dataclass(eq=False)
class Roster:
    """Workers in slots and outside, and what they cost (rule 13).

    Args:
        replicas, stages: the slots.
        pools: their workers in file order; the first R x S sit in the slots.
        restore: stage -> (bytes, seconds) of a restore.
        pace: (name of a pool, index in it) -> how fast the worker is; None: nominal.
    """

    replicas: int
    stages: int
    pools: Mapping[str, Pool]
    restore: Callable[[int], tuple[int, float]]
    pace: Callable[[str, int], WorkerPace | None]
    workers: list[Worker] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """By r x S + s."""
    odd: set[int] = field(default_factory=set)
    """Replicas with a slot that is not joined or is announced to leave."""
    uneven: set[int] = field(default_factory=set)
    """Replicas with a worker whose speed may differ from the nominal."""
    changed: set[int] = field(default_factory=set)
    """Replicas with a slot that has changed since whoever reads this cleared it."""
    spells: list[Spell] = field(default_factory=list)
    losses: int = 0
    """Losses of joined slots so far."""
    calm_from_s: float = -math.inf
    """Nothing happens to a slot after this instant that is known now."""
    _restores: dict[int, tuple[float, int]] = field(default_factory=dict)  # start_s, bytes
    _restored_bytes: int = 0
    _billed_s: dict[str, float] = field(default_factory=dict)
    _unused_s: dict[str, float] = field(default_factory=dict)
    _up: dict[str, int] = field(default_factory=dict)
    _spare_s: float = 0.0
    _spares: int = 0
    _since_s: float = 0.0

    def __post_init__(self) -> None:
        for name, pool in self.pools.items():
            self._up[name] = pool.workers or 0
            self._billed_s[name] = self._unused_s[name] = 0.0
            for index in range(pool.workers or 0):
                number, pace = len(self.workers), self.pace(name, index)
                self.workers.append(Worker(number, name, pool, pace))
        slots = self.replicas * self.stages
        if len(self.workers) < slots:
            raise ValueError(
                f"{slots} slots need at least as many workers (got {len(self.workers)})"
            )
        for worker in self.workers[:slots]:
            log = [(0.0, "joined", worker.number)]
            place = Place(divmod(worker.number, self.stages), worker, worker, log)
            worker.place = worker.old_place = place
            self.places.append(place)
        self.uneven = {r for r in range(self.replicas) if self._is_uneven(r)}
        if any(pool.jitter is not None for pool in self.pools.values()):
            self.calm_from_s = math.inf  # no round is like another
        self.joined = np.ones((self.replicas, self.stages), dtype=np.bool_)
        self._spares = len(self.workers) - slots
        self._idle = Queue(range(slots, len(self.workers)))
        self._open = Queue()

    def is_calm_since(self, t_s: float) -> bool:
        """No slot has changed since before t, and none will unless an event comes."""
        return self.calm_from_s < t_s

    def row(self, r: int) -> list[Place]:
        """The slots of a replica."""
        return self.places[r * self.stages : (r + 1) * self.stages]

    def pace_of(self, r: int, index: int) -> Pace:
        """How fast the workers of a replica are in a global step."""
        if r not in self.uneven:
            return ()
        workers = [place.worker for place in self.row(r)]
        paces = [None if worker is None else worker.pace for worker in workers]
        return together([(1.0,) if pace is None else pace.slowness(index) for pace in paces])

    def next_ready_s(self) -> float:
        """When the first of the slots that have not joined will be ready."""
        rows = (self.row(r) for r in self.odd)
        ready_s = (place.ready_s for row in rows for place in row if not place.joined)
        return min(ready_s, default=NEVER_S)

    # --- events ---------------------------------------------------------------------------

    def gone(self, worker: Worker, t_s: float, cause: str, is_known: bool = False) -> None:
        """A worker is removed.

        A vacancy is known after the pool's detection time, at once if announced or `is_known`.
        """
        self.bill(t_s)
        known_s = t_s if is_known or worker.leaves_s <= t_s else t_s + worker.pool.detect_s
        worker.up, worker.gone_s, worker.cause, worker.leaves_s = False, t_s, cause, NEVER_S
        self._up[worker.zone] -= 1
        short_s = worker.pool.billing_minimum_s - (t_s - worker.back_s)
        self._unused_s[worker.zone] += max(0.0, short_s)
        place, worker.place = worker.place, None
        if place is None:
            self._spares -= 1
            return
        if place.joined:
            place.unseen_until_s = known_s
            self.losses += 1
        place.worker, place.joined, place.ready_s, place.known_s = None, False, NEVER_S, known_s
        place.write((t_s, "vacant"))
        self._open.add(known_s, self._number(place))
        start_s, nbytes = self._restores.pop(worker.number, (NEVER_S, 0))
        if start_s <= t_s:
            self._restored_bytes += nbytes
        self._look_at(place, t_s)

    def notice(self, worker: Worker, t_s: float, gone_s: float) -> None:
        """A removal is announced."""
        assert t_s < gone_s, "a notice comes before the removal"
        worker.leaves_s = min(worker.leaves_s, gone_s)
        if worker.place is not None:
            self._look_at(worker.place, t_s)

    def back(self, worker: Worker, t_s: float) -> None:
        """A worker is given back: it boots for its old slot, another vacant one, or as a spare."""
        self.fill(t_s)  # spares that wait come first, whichever event of this instant came first
        self._up_again(worker, t_s, t_s + worker.pool.provision_s)
        if worker.old_place is not None and worker.old_place.worker is None:
            place: Place | None = worker.old_place
        else:
            place = self._first_open(t_s)
        if place is None:
            self._spares += 1
            self._idle.add(worker.booted_s, worker.number)
        else:
            self._take(place, worker, t_s)

    def take_back(self, place: Place, t_s: float) -> None:
        """The published regime's return: the slot's worker is there at once, bytes only."""
        self._up_again(place.last, t_s, t_s)
        place.worker, place.last.place, place.ready_s = place.last, place, t_s
        self._restored_bytes += self.restore(place.slot[1])[0]
        place.write((t_s, "ready"))
        self._look_at(place, t_s)

    def fill(self, t_s: float) -> None:
        """Booted spares take the slots that are known to be vacant, both in order."""
        while (place := self._first_open(t_s)) is not None:
            number = self._idle.first(t_s, lambda n: self._is_spare(self.workers[n], t_s))
            if number is None:
                return
            self.bill(t_s)
            self._spares -= 1
            self._take(place, self.workers[number], t_s)

    def join(self, place: Place, t_s: float) -> Worker:
        """The slot takes part from t on; returns its worker."""
        assert place.worker is not None, "only an occupied slot can join"
        place.joined, place.known_s = True, NEVER_S
        place.write((t_s, "joined"))
        self._look_at(place, t_s)
        return place.worker

    # --- who is free ----------------------------------------------------------------------

    def _up_again(self, worker: Worker, t_s: float, booted_s: float) -> None:
        self.bill(t_s)
        self.spells.append(worker.spell(t_s))
        worker.up, worker.back_s, worker.booted_s = True, t_s, booted_s
        if worker.pace is not None:
            worker.pace.begin_life()
        if worker.leaves_s <= t_s:
            worker.leaves_s = NEVER_S  # it was away by then
        self._up[worker.zone] += 1

    def _take(self, place: Place, worker: Worker, t_s: float) -> None:
        nbytes, restore_s = self.restore(place.slot[1])
        start_s = max(t_s, worker.booted_s)
        place.worker, worker.place, worker.old_place = worker, place, place
        place.ready_s = start_s + restore_s
        self._restores[worker.number] = (start_s, nbytes)
        place.write((t_s, "provision"), (start_s, "restore"), (place.ready_s, "ready"))
        self._look_at(place, t_s)

    def _look_at(self, place: Place, t_s: float) -> None:
        """A place has changed at t: bring what is derived from it up to date."""
        r = place.slot[0]
        to_come_s = (place.ready_s, place.unseen_until_s, place.leaves_s)
        known_s = [instant for instant in to_come_s if instant < NEVER_S]
        self.calm_from_s = max([self.calm_from_s, t_s, *known_s])
        self.changed.add(r)
        self.joined[place.slot] = place.joined
        if all(p.joined and p.leaves_s == NEVER_S for p in self.row(r)):
            self.odd.discard(r)
        else:
            self.odd.add(r)
        if self._is_uneven(r):
            self.uneven.add(r)
        else:
            self.uneven.discard(r)

    def _is_uneven(self, r: int) -> bool:
        workers = (place.worker for place in self.row(r))
        return any(worker is not None and worker.pace is not None for worker in workers)

    def _first_open(self, t_s: float) -> Place | None:
        number = self._open.first(t_s, lambda n: self._is_open(self.places[n], t_s))
        return None if number is None else self.places[number]

    @staticmethod
    def _is_open(place: Place, t_s: float) -> bool:
        return place.worker is None and place.known_s <= t_s

    @staticmethod
    def _is_spare(worker: Worker, t_s: float) -> bool:
        return worker.up and worker.place is None and worker.booted_s <= t_s

    def _number(self, place: Place) -> int:
        r, s = place.slot
        return r * self.stages + s

    # --- money and bytes ------------------------------------------------------------------

    def bill(self, t_s: float) -> None:
        """Count worker-seconds up to t: billed from back to gone, spare outside a slot."""
        elapsed_s = t_s - self._since_s
        for zone, up in self._up.items():
            self._billed_s[zone] += up * elapsed_s
        self._spare_s += self._spares * elapsed_s
        self._since_s = t_s

    def settle(self, t_s: float) -> tuple[dict[str, float], float, int]:
        """(billed worker-seconds by pool, spare seconds, restore bytes) since the last call.

        A restore is billed whole when it begins.
        """
        self.bill(t_s)
        begun = [number for number, (start_s, _) in self._restores.items() if start_s <= t_s]
        restored_bytes = self._restored_bytes
        restored_bytes += sum(self._restores.pop(number)[1] for number in begun)
        billed, spare_s = self._billed_s, self._spare_s
        self._billed_s, self._spare_s = dict.fromkeys(billed, 0.0), 0.0
        self._restored_bytes = 0
        return billed, spare_s, restored_bytes

    def settle_unused(self) -> dict[str, float]:
        """Seconds by pool that the bill's minimum adds for workers lost since the last call."""
        unused_s, self._unused_s = self._unused_s, dict.fromkeys(self._unused_s, 0.0)
        return unused_s

    def open_spells(self) -> list[Spell]:
        """Spells of workers that are away now."""
        return [worker.spell(math.nan) for worker in self.workers if not worker.up]
