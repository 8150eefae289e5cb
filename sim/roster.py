"""Who sits where: workers, slots and spares. Knows events and instants, no rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from sim.config import Cluster, Pool
from sim.heirs import Heirs
from sim.on_call import OnCall, falls_back
from sim.pace import Pace, WorkerPace
from sim.payroll import Payroll, Restores, Settled
from sim.placement import Placement
from sim.places import NEVER_S, Place, Worker, pace_of, seated, workers_of
from sim.records import Spell
from sim.vacancies import Queue, Vacancies


@dataclass(eq=False)
class Roster:
    """Workers in slots and outside, and what they cost (rules 13 and 15).

    Args:
        cluster: the slots, and who may sit in them.
        pools: their workers in file order.
        restore: (stage, kind of the worker, whether rounds went on without it) -> (bytes, seconds)
            of a restore.
        pace: (name of a pool, index in it) -> how fast the worker is; None: nominal.
        kinds: name of a pool -> which links its workers have.
        unlike: replicas that are like no other whoever works there.
        transfer: (stage, kinds of two workers) -> (bytes, seconds) of a slot's whole state from one
            to the other.
        hands_over: whether one that is announced to leave hands its slot's state to a spare.
    """

    cluster: Cluster
    pools: Mapping[str, Pool]
    restore: Callable[[int, int, bool], tuple[int, float]]
    pace: Callable[[str, int], WorkerPace | None]
    kinds_of: Mapping[str, int]
    unlike: AbstractSet[int]
    transfer: Callable[[int, int, int], tuple[int, float]]
    hands_over: bool = False
    odd: set[int] = field(default_factory=set)
    """Replicas with a slot that is not joined or is announced to leave."""
    uneven: set[int] = field(default_factory=set)
    """Replicas with a worker whose speed or links may differ from the usual."""
    changed: set[int] = field(default_factory=set)
    """Replicas with a slot that has changed since the ledger closed a round."""
    unplanned: set[int] = field(default_factory=set)
    """Replicas with a slot that has changed since they were planned."""
    ended: list[Spell] = field(default_factory=list)
    """Outages that have ended since the last settlement; who is on call has none."""
    losses: int = 0
    """Losses of joined slots so far."""
    calm_from_s: float = -math.inf
    """Nothing happens to a slot after this instant that is known now."""
    _restores: Restores = field(default_factory=Restores)
    _coming: Queue = field(default_factory=Queue)  # slots, from when they are ready

    def __post_init__(self) -> None:
        self.stages = self.cluster.stages
        self.workers = workers_of(self.pools, self.pace, self.kinds_of)
        self.placement = Placement(self.cluster, self.pools)
        self.places = seated([self.workers[n] for n in self.placement.seats], self.stages)
        kinds = [self.workers[number].kind for number in self.placement.seats]
        self.kinds = np.array(kinds, dtype=np.int64).reshape(-1, self.stages)
        has_pace = any(worker.pace is not None for worker in self.workers)
        self._has_uneven = has_pace or bool(self.unlike) or any(self.kinds_of.values())
        self.uneven = {r for r in range(self.cluster.replicas) if self._is_uneven(r)}
        self.unplanned |= self.uneven
        if self.cluster.quorum or any(pool.jitter for pool in self.pools.values()):
            self.calm_from_s = math.inf  # no round is like another
        self.joined = np.ones((self.cluster.replicas, self.stages), dtype=np.bool_)
        self.vacancies = Vacancies(
            self.placement, self.cluster.fill, self.stages, self.places, self.workers
        )
        self.heirs = Heirs(self.transfer, self.vacancies)
        self.payroll = Payroll(dict.fromkeys(self.pools, 0), len(self.placement.spares))
        self.hired = [worker for worker in self.workers if not worker.on_call]
        for worker in self.hired:
            self.payroll.hire(worker, 0.0)
        self.on_call = OnCall(self.workers, self.vacancies, self.payroll)

    def is_calm_since(self, t_s: float) -> bool:
        """No slot has changed since before t, and none will unless an event comes."""
        return self.calm_from_s < t_s

    def row(self, r: int) -> list[Place]:
        """The slots of a replica."""
        return self.places[r * self.stages : (r + 1) * self.stages]

    def pace_of(self, r: int, index: int) -> Pace:
        """How fast the workers of a replica are in a global step."""
        return pace_of(self.row(r), index) if r in self.uneven else ()

    def next_ready_s(self) -> float:
        """When the first of the slots that have not joined will be ready."""
        return min(self._ready_s(), default=NEVER_S)

    def ready(self, t_s: float) -> list[Place]:
        """Slots that are ready by t and have not joined, in order."""
        places = self.places
        numbers = self._coming.waiting(
            t_s, lambda n: not places[n].joined and places[n].ready_s <= t_s
        )
        return [places[number] for number in numbers]

    def last_ready_s(self) -> float:
        """When the last of them will be; infinite while one is vacant."""
        return max(self._ready_s(), default=-NEVER_S)

    def _ready_s(self) -> Iterator[float]:
        rows = (self.row(r) for r in self.odd)
        return (place.ready_s for row in rows for place in row if not place.joined)

    # --- events ---------------------------------------------------------------------------

    def gone(self, worker: Worker, t_s: float, cause: str, is_known: bool = False) -> None:
        """A worker is removed.

        A vacancy is known after the pool's detection time, at once if announced or `is_known`.
        """
        known_s = t_s if is_known or worker.leaves_s <= t_s else t_s + worker.pool.detect_s
        worker.up, worker.gone_s, worker.cause, worker.leaves_s = False, t_s, cause, NEVER_S
        if not worker.is_paid:
            return  # it was on call, and nobody had bought it
        if self.heirs.forget(worker):
            self.stir(t_s)  # another spare may take its part
        self.payroll.dismiss(worker, t_s)
        place = worker.place
        if place is None:
            self.payroll.spares -= 1
            return
        place.losses += not worker.on_call
        if place.joined:
            place.unseen_until_s = known_s
            self.losses += 1
        self._vacate(place, worker, t_s, known_s)
        self._restores.stop(worker, t_s)

    def notice(self, worker: Worker, t_s: float, gone_s: float) -> None:
        """A removal is announced."""
        assert t_s < gone_s, "a notice comes before the removal"
        worker.leaves_s = min(worker.leaves_s, gone_s)
        self.heirs.announced(worker)
        place = worker.place
        if place is not None:
            self._look_at(place, t_s)
            if self.hands_over and place.joined:
                self._restores.add(self.heirs.choose(place, t_s))

    def hand_over(self, t_s: float) -> bool:
        """At a boundary spares that have the state of a slot sit in it; for it nothing happened.

        Returns:
            Whether anybody did.
        """
        due = self.heirs.take_over(t_s)
        for place, heir in due:
            self.payroll.bill(t_s)
            leaver = place.pass_on(heir, t_s)
            self.kinds[place.slot] = heir.kind
            self._look_at(place, t_s)
            if leaver.on_call:
                self.payroll.spares -= 1
                self.on_call.give_back(leaver, t_s)
            # else one leaves the spares and one is outside the slots until it goes
        self.buy(t_s)
        self._relieve(t_s)
        return bool(due)

    def back(self, worker: Worker, t_s: float) -> None:
        """A worker is given back: it boots for a vacant slot, or as a spare; or it is on call."""
        self.fill(t_s)  # spares that wait come first, whichever event of this instant came first
        self._up_again(worker, t_s, t_s + worker.pool.provision_s)
        if worker.on_call:
            self.on_call.is_free(worker, t_s)
            return
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
        self._restores.add(self.restore(*of_restore)[0])
        place.write((t_s, "ready"))
        self._comes(place, t_s)

    def fill(self, t_s: float) -> None:
        """Booted spares take the slots that are known to be vacant."""
        while (pair := self.vacancies.match(t_s)) is not None:
            worker, place = pair
            self.payroll.bill(t_s)
            self.payroll.spares -= 1
            self._take(place, worker, t_s)
        self._relieve(t_s)

    def buy(self, t_s: float) -> None:
        """Slots that have been vacant long enough get a worker of the pool they fall back on."""
        for worker, place in self.on_call.buy(t_s):
            worker.booted_s = t_s + worker.pool.provision_s
            self._take(place, worker, t_s)

    def _relieve(self, t_s: float) -> None:
        """Spares that no vacant slot needs get ready to follow workers that were bought."""
        if self.on_call.bought:
            self._restores.add(self.heirs.relieve(t_s))
            self.stir(self.heirs.last_s)

    def move_to_ends(self, t_s: float) -> list[Place]:
        """At a boundary healthy inner workers take the vacant ends of their replicas.

        Whoever could fill the end without that has had its turn. The inner slots that they leave,
        which are returned, are known to be vacant at once.
        """
        left = []
        for r in sorted(self.odd):
            row = self.row(r)
            for end in (row[0], row[-1]):
                worker = self.vacancies.mover_to(end, row[1:-1], t_s)
                if worker is not None and worker.place is not None:
                    left.append(worker.place)
                    self._vacate(worker.place, worker, t_s, t_s)
                    self._take(end, worker, t_s)
        self.fill(t_s)
        return left

    def join(self, place: Place, t_s: float) -> Worker:
        """The slot takes part from t on; returns its worker."""
        assert place.worker is not None, "only an occupied slot can join"
        place.joined, place.known_s = True, NEVER_S
        place.write((t_s, "joined"))
        self._look_at(place, t_s)
        if place.worker.on_call:
            self.heirs.want(place)
            self._relieve(t_s)
        return place.worker

    # --- who is free ----------------------------------------------------------------------

    def _up_again(self, worker: Worker, t_s: float, booted_s: float) -> None:
        worker.up, worker.booted_s = True, booted_s
        if worker.pace is not None:
            worker.pace.begin_life()
        if worker.leaves_s <= t_s:
            worker.leaves_s = NEVER_S  # it was away by then
        if not worker.on_call:
            self.ended.append(worker.spell(t_s))
            self.payroll.hire(worker, t_s)

    def _vacate(self, place: Place, leaver: Worker, t_s: float, known_s: float) -> None:
        if place.joined:
            place.lost_s, place.missed, place.skipped = t_s, 0, 0
        leaver.place = place.worker = None
        place.joined, place.ready_s, place.known_s = False, NEVER_S, known_s
        place.backup, place.due_s = falls_back(leaver, place.losses, t_s, known_s)
        place.write((t_s, "vacant"))
        self.vacancies.is_vacant(place)
        self.on_call.is_vacant(place)
        self._look_at(place, t_s)

    def _take(self, place: Place, worker: Worker, t_s: float) -> None:
        of_restore = place.slot[1], worker.kind, place.missed > 0
        nbytes, restore_s = self.restore(*of_restore)
        start_s = max(t_s, worker.booted_s)
        place.worker, worker.place, worker.old_place = worker, place, place
        self.kinds[place.slot] = worker.kind
        place.ready_s = start_s + restore_s
        self._restores.expect(worker, t_s, start_s, nbytes)
        place.write((t_s, "provision"), (start_s, "restore"), (place.ready_s, "ready"))
        self._comes(place, t_s)

    def _comes(self, place: Place, t_s: float) -> None:
        self._coming.add(place.ready_s, place.number)
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
        """What workers cost since the last call, and outages that ended."""
        ended, self.ended = self.ended, []
        return self.payroll.settle(t_s, self._restores.settle(t_s), ended)

    def open_spells(self) -> list[Spell]:
        """Outages of workers that are away now."""
        return [worker.spell(math.nan) for worker in self.hired if not worker.up]
