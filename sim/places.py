"""A machine, and a slot that it can sit in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim.config import Pool
from sim.pace import WorkerPace
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
    up: bool = True
    place: Place | None = None
    old_place: Place | None = None
    back_s: float = 0.0
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

    slot: Slot
    worker: Worker | None
    last: Worker
    """Who trained here last; another one joins as a new worker."""
    log: list[LogEntry]
    joined: bool = True
    ready_s: float = 0.0
    known_s: float = NEVER_S
    """When the vacancy is known, so that others may take the slot."""
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
