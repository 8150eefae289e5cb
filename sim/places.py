"""A machine, and a slot that it can sit in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sim.config import Pool, on_call
from sim.pace import Pace, WorkerPace, together
from sim.policies import Vacancy
from sim.records import Spell

Slot = tuple[int, int]
LogEntry = tuple[float, str, int]
"""(since_s, state, worker): vacant (worker -1), provision, restore, ready, joined."""
NEVER_S = math.inf
NOBODY = -1


@dataclass(eq=False)
class Worker:
    """A machine, seen by the job."""

    number: int
    zone: str
    pool: Pool
    kind: int = 0
    """Which links are its own."""
    pace: WorkerPace | None = None
    """None: nominal, always."""
    on_call: bool = False
    """Its pool is one to fall back on: it sits nowhere, unpaid, until it is bought for a slot."""
    up: bool = True
    place: Place | None = None
    old_place: Place | None = None
    is_paid: bool = False
    paid_from_s: float = 0.0
    booted_s: float = 0.0
    gone_s: float = 0.0
    cause: str = ""
    leaves_s: float = NEVER_S
    """The removal that a notice announced."""
    is_heir: bool = False
    """A spare that loads the state of a slot whose worker is announced to leave."""

    def spell(self, back_s: float) -> Spell:
        """The outage that ends at `back_s`."""
        return Spell(self.number, self.zone, self.gone_s, back_s, self.cause)


@dataclass(eq=False)
class Place:
    """A slot `(r, s)`: its worker, and a log of what it was since when."""

    number: int
    """r x S + s."""
    slot: Slot
    worker: Worker | None
    last: Worker
    """Who trained here last; another one joins as a new worker."""
    log: list[LogEntry]
    joined: bool = True
    ready_s: float = 0.0
    known_s: float = NEVER_S
    """When the vacancy is known, so that others may take the slot."""
    backup: str = ""
    """The pool that the vacancy falls back on."""
    due_s: float = NEVER_S
    """When it does."""
    losses: int = 0
    """Workers that were lost in it; those that were bought left out."""
    unseen_until_s: float = 0.0
    """Until then the job takes a lost joined worker for present."""
    lost_s: float = 0.0
    """When its last joined worker was lost."""
    missed: int = 0
    """Rounds committed since then to which the slot sent nothing."""
    skipped: int = 0
    """Of these, those that its replica trained without it."""

    @property
    def leaves_s(self) -> float:
        """When the worker is announced to leave."""
        return NEVER_S if self.worker is None else self.worker.leaves_s

    @property
    def vacancy(self) -> Vacancy:
        """What a policy may know of a slot that has not joined, or is announced to leave."""
        return Vacancy(self.leaves_s) if self.joined else Vacancy(self.lost_s, self.skipped)

    def lost_unnoticed(self, t_s: float) -> bool:
        """A joined worker was lost and the job has not seen it by t."""
        return not self.joined and self.unseen_until_s > t_s

    def pass_on(self, heir: Worker, t_s: float) -> Worker:
        """Another worker sits here from t on, and nothing happened; returns the one that did."""
        leaver = self.worker
        assert leaver is not None, "whoever hands over is there"
        leaver.place, heir.place, heir.old_place = None, self, self
        self.worker = self.last = heir
        self.write((t_s, "joined"))
        return leaver

    def write(self, *states: tuple[float, str]) -> None:
        """Log states from their instants on, in place of what was planned from the first on."""
        while self.log and self.log[-1][0] >= states[0][0]:
            self.log.pop()
        worker = NOBODY if self.worker is None else self.worker.number
        self.log.extend((since_s, state, worker) for since_s, state in states)

    def only_state(self, start_s: float, end_s: float) -> str | None:
        """The state it was in all the time, None if there were more; forgets what was before."""
        log = self.log
        if len(log) == 1:
            return log[0][1]
        while len(log) > 1 and log[1][0] <= start_s:
            log.pop(0)
        return log[0][1] if len(log) == 1 or log[1][0] >= end_s else None


def workers_of(
    pools: Mapping[str, Pool],
    pace: Callable[[str, int], WorkerPace | None],
    kinds_of: Mapping[str, int],
) -> list[Worker]:
    """The workers of the pools by number, in their order.

    Args:
        pace: (name of a pool, index in it) -> how fast the worker is.
        kinds_of: name of a pool -> which links its workers have.
    """
    bought, found = on_call(pools), list[Worker]()
    for name, pool in pools.items():
        for index in range(pool.workers or 0):
            worker = Worker(len(found), name, pool, kinds_of[name], pace(name, index))
            worker.on_call = name in bought
            found.append(worker)
    return found


def seated(workers: Sequence[Worker], stages: int) -> list[Place]:
    """Slots by number with these workers, all joined at 0 s."""
    places = []
    for number, worker in enumerate(workers):
        log = [(0.0, "joined", worker.number)]
        places.append(Place(number, divmod(number, stages), worker, worker, log))
        worker.place = worker.old_place = places[-1]
    return places


def pace_of(row: Sequence[Place], index: int) -> Pace:
    """How fast the workers of a replica's slots are in a global step."""
    paces = [None if place.worker is None else place.worker.pace for place in row]
    if not any(paces):
        return ()
    return together([(1.0,) if pace is None else pace.slowness(index) for pace in paces])
