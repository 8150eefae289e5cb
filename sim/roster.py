"""Who sits where: workers, slots and spares. Knows events and instants, no rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from sim.config import Cluster, Pool
from sim.heirs import Heirs
from sim.pace import Pace, WorkerPace, together
from sim.payroll import Payroll, Settled
from sim.placement import Placement
from sim.places import NEVER_S, Place, Worker
from sim.records import Spell
from sim.vacancies import Queue, Vacancies


@dataclass(eq=False)
class Roster:
    """Workers in slots and outside, and what they cost (rule 13).

    Args:
        cluster: the slots, and who may sit in them.
        pools: their workers in file order.
        restore: (stage, kind of the worker, whether rounds went on without it) -> (bytes, seconds)
            of a restore.
        pace: (name of a pool, index in it) -> how fast the worker is; None: nominal.
        kinds: name of a pool -> which links its workers have.
        unlike: replicas that are like no other whoever works there.
        transfer: (stage, kinds of two workers) -> (bytes, seconds) of a slot's whole state from one
            to the other; None: none is handed over.
    """

    cluster: Cluster
    pools: Mapping[str, Pool]
    restore: Callable[[int, int, bool], tuple[int, float]]
    pace: Callable[[str, int], WorkerPace | None]
    kinds_of: Mapping[str, int]
    unlike: AbstractSet[int]
    transfer: Callable[[int, int, int], tuple[int, float]] | None = None
    workers: list[Worker] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """By r x S + s."""
    odd: set[int] = field(default_factory=set)
    """Replicas with a slot that is not joined or is announced to leave."""
    uneven: set[int] = field(default_factory=set)
    """Replicas with a worker whose speed or links may differ from the usual."""
    changed: set[int] = field(default_factory=set)
    """Replicas with a slot that has changed since the ledger closed a round."""
    unplanned: set[int] = field(default_factory=set)
    """Replicas with a slot that has changed since they were planned."""
    spells: list[Spell] = field(default_factory=list)
    losses: int = 0
    """Losses of joined slots so far."""
    calm_from_s: float = -math.inf
    """Nothing happens to a slot after this instant that is known now."""
    _restores: dict[int, tuple[float, int]] = field(default_factory=dict)  # start_s, bytes
    _restored_bytes: int = 0
    _coming: Queue = field(default_factory=Queue)  # slots, from when they are ready

    def __post_init__(self) -> None:
        self.stages = self.cluster.stages
        for name, pool in self.pools.items():
            for index in range(pool.workers or 0):
                number, pace = len(self.workers), self.pace(name, index)
                self.workers.append(Worker(number, name, pool, self.kinds_of[name], pace))
        self.placement = Placement(self.cluster, self.pools)
        for slot, number in enumerate(self.placement.seats):
            worker, log = self.workers[number], [(0.0, "joined", number)]
            place = Place(divmod(slot, self.stages), worker, worker, log)
            worker.place = worker.old_place = place
            self.places.append(place)
        kinds = [self.workers[number].kind for number in self.placement.seats]
        self.kinds = np.array(kinds, dtype=np.int64).reshape(-1, self.stages)
        has_pace = any(worker.pace is not None for worker in self.workers)
        self._has_uneven = has_pace or bool(self.unlike) or any(self.kinds_of.values())
        self.uneven = {r for r in range(self.cluster.replicas) if self._is_uneven(r)}
        self.unplanned |= self.uneven
        if self.cluster.quorum or any(pool.jitter for pool in self.pools.values()):
            self.calm_from_s = math.inf  # no round is like another
        self.joined = np.ones((self.cluster.replicas, self.stages), dtype=np.bool_)
        up = {name: pool.workers or 0 for name, pool in self.pools.items()}
        self.payroll = Payroll(up, spares=len(self.workers) - len(self.places))
        self.vacancies = Vacancies(
            self.placement, self.cluster.fill, self.stages, self.places, self.workers
        )
        self.heirs = None if self.transfer is None else Heirs(self.transfer, self.vacancies)

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
        if not any(paces):
            return ()
        return together([(1.0,) if pace is None else pace.slowness(index) for pace in paces])

    def next_ready_s(self) -> float:
        """When the first of the slots that have not joined will be ready."""
        rows = (self.row(r) for r in self.odd)
        ready_s = (place.ready_s for row in rows for place in row if not place.joined)
        return min(ready_s, default=NEVER_S)

    def ready(self, t_s: float) -> list[Place]:
        """Slots that are ready by t and have not joined, in order."""
        places = self.places
        numbers = self._coming.waiting(
            t_s, lambda n: not places[n].joined and places[n].ready_s <= t_s
        )
        return [places[number] for number in numbers]

    def last_ready_s(self) -> float:
        """When the last of them will be; infinite while one is vacant."""
        rows = (self.row(r) for r in self.odd)
        ready_s = (place.ready_s for row in rows for place in row if not place.joined)
        return max(ready_s, default=-NEVER_S)

    # --- events ---------------------------------------------------------------------------

    def gone(self, worker: Worker, t_s: float, cause: str, is_known: bool = False) -> None:
        """A worker is removed.

        A vacancy is known after the pool's detection time, at once if announced or `is_known`.
        """
        self.payroll.bill(t_s)
        if self.heirs is not None:
            self.heirs.forget(worker)
        known_s = t_s if is_known or worker.leaves_s <= t_s else t_s + worker.pool.detect_s
        worker.up, worker.gone_s, worker.cause, worker.leaves_s = False, t_s, cause, NEVER_S
        self.payroll.up[worker.zone] -= 1
        short_s = worker.pool.billing_minimum_s - (t_s - worker.back_s)
        self.payroll.unused_s[worker.zone] += max(0.0, short_s)
        place, worker.place = worker.place, None
        if place is None:
            self.payroll.spares -= 1
            return
        if place.joined:
            place.unseen_until_s = known_s
            self.losses += 1
        self._vacate(place, t_s, known_s)
        start_s, nbytes = self._restores.pop(worker.number, (NEVER_S, 0))
        if start_s <= t_s:
            self._restored_bytes += nbytes

    def notice(self, worker: Worker, t_s: float, gone_s: float) -> None:
        """A removal is announced."""
        assert t_s < gone_s, "a notice comes before the removal"
        worker.leaves_s = min(worker.leaves_s, gone_s)
        place = worker.place
        if place is not None:
            self._look_at(place, t_s)
            if self.heirs is not None and place.joined:
                self._restored_bytes += self.heirs.choose(place, t_s, worker.leaves_s)

    def hand_over(self, t_s: float) -> None:
        """At a boundary spares that have the state of a slot sit in it; for it nothing happened."""
        for place, heir in [] if self.heirs is None else self.heirs.take_over(t_s):
            self.payroll.bill(t_s)  # one leaves the spares, one is outside the slots until it goes
            assert place.worker is not None, "whoever hands over is there"
            place.worker.place, place.worker, place.last = None, heir, heir
            heir.place = heir.old_place = place
            self.kinds[place.slot] = heir.kind
            place.write((t_s, "joined"))
            self._look_at(place, t_s)

    def back(self, worker: Worker, t_s: float) -> None:
        """A worker is given back: it boots for a vacant slot, or as a spare."""
        self.fill(t_s)  # spares that wait come first, whichever event of this instant came first
        self._up_again(worker, t_s, t_s + worker.pool.provision_s)
        place = self.vacancies.place_for(worker, t_s)
        if place is None:
            self.payroll.spares += 1
            self.vacancies.is_idle(worker)
        else:
            self._take(place, worker, t_s)

    def take_back(self, place: Place, t_s: float) -> None:
        """The published regime's return: the slot's worker is there at once, bytes only."""
        self._up_again(place.last, t_s, t_s)
        place.worker, place.last.place, place.ready_s = place.last, place, t_s
        of_restore = place.slot[1], place.last.kind, place.missed > 0
        self._restored_bytes += self.restore(*of_restore)[0]
        place.write((t_s, "ready"))
        self._comes(place, t_s)

    def fill(self, t_s: float) -> None:
        """Booted spares take the slots that are known to be vacant."""
        while (pair := self.vacancies.match(t_s)) is not None:
            worker, place = pair
            self.payroll.bill(t_s)
            self.payroll.spares -= 1
            self._take(place, worker, t_s)

    def move_to_ends(self, t_s: float) -> None:
        """At a boundary healthy inner workers take the vacant ends of their replicas.

        Whoever could fill the end without that has had its turn. The inner slot that a worker
        leaves is known to be vacant at once.
        """
        for r in sorted(self.odd):
            row = self.row(r)
            for end in (row[0], row[-1]):
                if end.worker is None and end.known_s <= t_s:
                    self._move_to(end, row[1:-1], t_s)
        self.fill(t_s)

    def _move_to(self, end: Place, inner: list[Place], t_s: float) -> None:
        for place in inner:
            worker = place.worker
            if worker is None or not place.joined or worker.leaves_s < NEVER_S:
                continue
            if self.placement.serves(worker.zone, end.slot[1]):
                self._vacate(place, t_s, t_s)
                self._take(end, worker, t_s)
                return

    def join(self, place: Place, t_s: float) -> Worker:
        """The slot takes part from t on; returns its worker."""
        assert place.worker is not None, "only an occupied slot can join"
        place.joined, place.known_s = True, NEVER_S
        place.write((t_s, "joined"))
        self._look_at(place, t_s)
        return place.worker

    # --- who is free ----------------------------------------------------------------------

    def _up_again(self, worker: Worker, t_s: float, booted_s: float) -> None:
        self.payroll.bill(t_s)
        self.spells.append(worker.spell(t_s))
        worker.up, worker.back_s, worker.booted_s = True, t_s, booted_s
        if worker.pace is not None:
            worker.pace.begin_life()
        if worker.leaves_s <= t_s:
            worker.leaves_s = NEVER_S  # it was away by then
        self.payroll.up[worker.zone] += 1

    def _vacate(self, place: Place, t_s: float, known_s: float) -> None:
        if place.joined:
            place.lost_s, place.missed, place.skipped = t_s, 0, 0
        place.worker, place.joined, place.ready_s, place.known_s = None, False, NEVER_S, known_s
        place.write((t_s, "vacant"))
        self.vacancies.is_vacant(place)
        self._look_at(place, t_s)

    def _take(self, place: Place, worker: Worker, t_s: float) -> None:
        of_restore = place.slot[1], worker.kind, place.missed > 0
        nbytes, restore_s = self.restore(*of_restore)
        start_s = max(t_s, worker.booted_s)
        place.worker, worker.place, worker.old_place = worker, place, place
        self.kinds[place.slot] = worker.kind
        place.ready_s = start_s + restore_s
        self._restores[worker.number] = (start_s, nbytes)
        place.write((t_s, "provision"), (start_s, "restore"), (place.ready_s, "ready"))
        self._comes(place, t_s)

    def _comes(self, place: Place, t_s: float) -> None:
        r, stage = place.slot
        self._coming.add(place.ready_s, r * self.stages + stage)
        self._look_at(place, t_s)

    def stir(self, t_s: float) -> None:
        """Something other than a slot has changed at t, so that rounds need not repeat."""
        self.calm_from_s = max(self.calm_from_s, t_s)

    def _look_at(self, place: Place, t_s: float) -> None:
        """A place has changed at t: bring what is derived from it up to date."""
        r = place.slot[0]
        self.stir(t_s)
        for to_come_s in (place.ready_s, place.known_s, place.unseen_until_s, place.leaves_s):
            if self.calm_from_s < to_come_s < NEVER_S:
                self.calm_from_s = to_come_s
        self.changed.add(r)
        self.unplanned.add(r)
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
        if not self._has_uneven:
            return False
        workers = [place.worker for place in self.row(r)]
        has_pace = any(worker is not None and worker.pace is not None for worker in workers)
        return has_pace or r in self.unlike or bool(self.kinds[r].any())

    # --- money and bytes ------------------------------------------------------------------

    def settle(self, t_s: float) -> Settled:
        """What workers cost since the last call.

        A restore is billed whole when it begins.
        """
        billed, spare_s = self.payroll.settle(t_s)
        restored_bytes, self._restored_bytes = self._restored_bytes, 0
        if self._restores:
            begun = [number for number, (start_s, _) in self._restores.items() if start_s <= t_s]
            restored_bytes += sum(self._restores.pop(number)[1] for number in begun)
        return Settled(billed, self.payroll.settle_unused(), spare_s, restored_bytes)

    def open_spells(self) -> list[Spell]:
        """Spells of workers that are away now."""
        return [worker.spell(math.nan) for worker in self.workers if not worker.up]
