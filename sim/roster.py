"""Who sits where: workers, slots and spares. Knows events and instants, no rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sim.config import Pool
from sim.records import Spell

Slot = tuple[int, int]
LogEntry = tuple[float, str, int]
"""(since_s, state, worker): vacant (worker -1), provision, restore, ready, joined."""
NEVER_S = math.inf
NOBODY = -1


@dataclass
class Worker:
    """A machine, seen by the job."""

    number: int
    zone: str
    pool: Pool
    up: bool = True
    slot: Slot | None = None
    old_slot: Slot | None = None
    booted_s: float = 0.0
    gone_s: float = 0.0
    cause: str = ""


@dataclass
class Place:
    """A slot `(r, s)`: its worker, and a log of what it was since when."""

    slot: Slot
    worker: int | None
    last_worker: int
    log: list[LogEntry] = field(default_factory=list)
    joined: bool = True
    ready_s: float = 0.0
    gone_s: float = NEVER_S
    known_s: float = NEVER_S
    """When the vacancy is known, so that others may take the slot; NEVER_S while joined."""
    unseen_until_s: float = 0.0
    """Until then the job takes a lost joined worker for present."""
    leaves_s: float = NEVER_S
    """The removal that a notice announced."""

    @property
    def vacant(self) -> bool:
        return self.worker is None

    def lost_unnoticed(self, t_s: float) -> bool:
        """A joined worker was lost and the job has not seen it by t."""
        return not self.joined and self.unseen_until_s > t_s

    def log_from(self, t_s: float, states: Sequence[tuple[float, str]]) -> None:
        """Rewrite what was planned from t on."""
        while self.log and self.log[-1][0] >= t_s:
            self.log.pop()
        worker = NOBODY if self.worker is None else self.worker
        self.log.extend((since_s, state, worker) for since_s, state in states)

    def forget_before(self, t_s: float) -> None:
        """Drop what ended by t."""
        while len(self.log) > 1 and self.log[1][0] <= t_s:
            self.log.pop(0)


@dataclass
class Roster:
    """Workers in slots and outside, and what they cost (rule 13).

    Args:
        replicas, stages: the slots.
        workers: by number; the first R x S sit in the slots, in order.
        restore: stage -> (bytes, seconds) of a restore.
    """

    replicas: int
    stages: int
    workers: list[Worker]
    restore: Callable[[int], tuple[int, float]]
    places: dict[Slot, Place] = field(default_factory=dict)
    spells: list[Spell] = field(default_factory=list)
    losses: int = 0
    """Losses of joined slots so far."""
    _restores: list[tuple[float, int, int]] = field(default_factory=list)
    _billed_s: dict[str, float] = field(default_factory=dict)
    _up: dict[str, int] = field(default_factory=dict)
    _spare_s: float = 0.0
    _spares: int = 0
    _since_s: float = 0.0

    def __post_init__(self) -> None:
        slots = [(r, s) for r in range(self.replicas) for s in range(self.stages)]
        if len(self.workers) < len(slots):
            raise ValueError(
                f"{len(slots)} slots need at least as many workers (got {len(self.workers)})"
            )
        for worker in self.workers:
            self._up[worker.zone] = self._up.get(worker.zone, 0) + 1
            self._billed_s.setdefault(worker.zone, 0.0)
        for worker, slot in zip(self.workers, slots, strict=False):
            worker.slot = worker.old_slot = slot
            self.places[slot] = Place(slot, worker.number, worker.number, [(0.0, "joined", worker.number)])
        self._spares = len(self.workers) - len(slots)

    # --- events ---------------------------------------------------------------------------

    def gone(
        self, number: int, t_s: float, cause: str, is_known: bool = False
    ) -> Place | None:
        """A worker is removed; returns the slot that is vacant now, if it held one.

        The vacancy is known after the pool's detection time, at once if announced or `is_known`.
        """
        worker = self.workers[number]
        if not worker.up:
            return None
        self.bill(t_s)
        worker.up, worker.gone_s, worker.cause = False, t_s, cause
        self._up[worker.zone] -= 1
        if worker.slot is None:
            self._spares -= 1
            return None
        place = self.places[worker.slot]
        is_known = is_known or place.leaves_s <= t_s
        was_joined = place.joined
        worker.slot, place.worker = None, None
        place.log_from(t_s, [(t_s, "vacant")])
        place.joined, place.ready_s, place.gone_s = False, NEVER_S, t_s
        place.known_s = t_s if is_known else t_s + worker.pool.detect_s
        place.leaves_s = NEVER_S
        self._restores = [r for r in self._restores if r[1] != number or r[0] <= t_s]
        if was_joined:
            place.unseen_until_s = place.known_s
            self.losses += 1
        return place

    def notice(self, number: int, gone_s: float) -> Place | None:
        """A removal is announced; returns the slot it will hit."""
        worker = self.workers[number]
        if worker.slot is None:
            return None
        place = self.places[worker.slot]
        place.leaves_s = gone_s
        return place

    def back(self, number: int, t_s: float, cause: str) -> bool:
        """A worker is given back: it boots for its old slot, another vacant one, or as a spare.

        Returns False if it was not away for that cause: a script may end what never began.
        """
        worker = self.workers[number]
        if worker.up or worker.cause != cause:
            return False
        self.bill(t_s)
        self.spells.append(Spell(number, worker.zone, worker.gone_s, t_s, worker.cause))
        worker.up = True
        self._up[worker.zone] += 1
        worker.booted_s = t_s + worker.pool.provision_s
        old = self.places[worker.old_slot] if worker.old_slot is not None else None
        place = old if old is not None and old.vacant else self._first_vacant(t_s)
        if place is None:
            self._spares += 1
        else:
            self._take(place, worker, t_s)
        return True

    def fill(self, t_s: float) -> None:
        """Booted spares take the slots that are known to be vacant, both in order."""
        for worker in self.workers[:]:
            if worker.up and worker.slot is None and worker.booted_s <= t_s:
                place = self._first_vacant(t_s)
                if place is None:
                    return
                self.bill(t_s)
                self._spares -= 1
                self._take(place, worker, t_s)

    def _first_vacant(self, t_s: float) -> Place | None:
        known = (p for p in self.places.values() if p.vacant and p.known_s <= t_s)
        return next(known, None)

    def _take(self, place: Place, worker: Worker, t_s: float) -> None:
        nbytes, restore_s = self.restore(place.slot[1])
        start_s = max(t_s, worker.booted_s)
        place.worker, worker.slot, worker.old_slot = worker.number, place.slot, place.slot
        place.ready_s = start_s + restore_s
        self._restores.append((start_s, worker.number, nbytes))
        place.log_from(
            t_s, [(t_s, "provision"), (start_s, "restore"), (place.ready_s, "ready")]
        )

    def take_back(self, place: Place, t_s: float) -> None:
        """The published regime's return: the slot's worker is there at once, bytes only."""
        worker = self.workers[place.last_worker]
        self.bill(t_s)
        self.spells.append(Spell(worker.number, worker.zone, worker.gone_s, t_s, worker.cause))
        worker.up, worker.slot, worker.booted_s = True, place.slot, t_s
        self._up[worker.zone] += 1
        place.worker, place.ready_s = worker.number, t_s
        self._restores.append((t_s, worker.number, self.restore(place.slot[1])[0]))
        place.log_from(t_s, [(t_s, "ready")])

    def join(self, place: Place, t_s: float) -> bool:
        """The slot takes part from t on; returns whether its worker is a new one."""
        is_new = place.worker != place.last_worker
        assert place.worker is not None, "only an occupied slot can join"
        place.last_worker = place.worker
        place.joined, place.known_s, place.gone_s = True, NEVER_S, NEVER_S
        place.log_from(t_s, [(t_s, "joined")])
        return is_new

    # --- money and bytes ------------------------------------------------------------------

    def bill(self, t_s: float) -> None:
        """Count worker-seconds up to t: billed from back to gone, spare outside a slot."""
        elapsed_s = t_s - self._since_s
        for zone, up in self._up.items():
            self._billed_s[zone] += up * elapsed_s
        self._spare_s += self._spares * elapsed_s
        self._since_s = t_s

    def settle(self, t_s: float) -> tuple[dict[str, float], float, int]:
        """(billed worker-seconds by pool, spare seconds, restore bytes) since the last call."""
        self.bill(t_s)
        begun = sum(nbytes for start_s, _, nbytes in self._restores if start_s <= t_s)
        self._restores = [r for r in self._restores if r[0] > t_s]
        billed, spare_s = dict(self._billed_s), self._spare_s
        self._billed_s, self._spare_s = dict.fromkeys(billed, 0.0), 0.0
        return billed, spare_s, begun

    def open_spells(self) -> list[Spell]:
        """Spells of workers that are away now."""
        return [
            Spell(w.number, w.zone, w.gone_s, math.nan, w.cause) for w in self.workers if not w.up
        ]
