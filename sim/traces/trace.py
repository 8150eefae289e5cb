"""What a trace says: who was up from when to when. One type for replay and fit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sim.config import HOUR_S
from sim.records import Spell

NO_LOSS = ""
"""Cause of a life that was not seen to end, or that its owner ended."""
CAP = "cap"
"""Cause of a life that ended at the provider's limit: it says nothing of the hazard after."""
ABSENT = "absent"
"""Cause of an outage that was there before the trace began: nobody was lost."""


class TraceError(ValueError):
    """A trace that cannot be read: `file:line: what is wrong (got ...)`."""

    def __init__(self, source: str, line: int, message: str) -> None:
        source = source if source.isprintable() else ascii(source)
        super().__init__(f"{source}:{line}: {message}" if line else f"{source}: {message}")


@dataclass(frozen=True, slots=True)
class Life:
    """A worker is up from `start_s` to `end_s`, seconds since the trace began."""

    worker: int
    start_s: float
    end_s: float
    cause: str
    """Why it was lost; NO_LOSS: it was not."""
    began: bool = True
    """False: it was up before the trace began, since when is not known."""

    @property
    def is_whole(self) -> bool:
        """Seen from its start to a loss; otherwise its length is censored."""
        return self.began and self.cause not in (NO_LOSS, CAP)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Workers and their lives, of each worker in order and apart."""

    form: str
    """Format it was read from."""
    zones: tuple[str, ...]
    """By worker."""
    lives: tuple[Life, ...]
    """By worker, then by start."""
    end_s: float
    named: bool = True
    """The trace says who leaves; False: it counts, and who leaves was drawn."""
    has_outages: bool = True
    """Workers come back, or their absence was seen; False: machines that live once."""

    @property
    def workers(self) -> int:
        """How many there are: of a count, its maximum."""
        return len(self.zones)

    def by_worker(self) -> list[list[Life]]:
        """Lives of each worker."""
        found: list[list[Life]] = [[] for _ in self.zones]
        for life in self.lives:
            found[life.worker].append(life)
        return found

    def spells(self) -> list[Spell]:
        """Every outage by its start; back NaN: it lasts to the end. Those there at first too."""
        found = []
        for worker, lives in enumerate(self.by_worker()):
            gone_s, cause = 0.0, ABSENT
            for life in lives:
                if life.start_s > gone_s:
                    found.append(Spell(worker, self.zones[worker], gone_s, life.start_s, cause))
                gone_s, cause = life.end_s, life.cause
            if gone_s < self.end_s or cause not in (NO_LOSS, ABSENT):
                found.append(Spell(worker, self.zones[worker], gone_s, math.nan, cause))
        return sorted(found, key=lambda spell: (spell.gone_s, spell.worker))

    def of_zone(self, zone: str) -> Trace:
        """The workers of a zone, numbered anew.

        Raises:
            ValueError: there are none.
        """
        kept = [worker for worker, name in enumerate(self.zones) if name == zone]
        if not kept:
            raise ValueError(f"no such zone; it has {', '.join(sorted(set(self.zones)))}")
        number = {worker: k for k, worker in enumerate(kept)}
        lives = (life for life in self.lives if life.worker in number)
        return Trace(
            form=self.form,
            zones=(zone,) * len(kept),
            lives=tuple(
                Life(number[x.worker], x.start_s, x.end_s, x.cause, x.began) for x in lives
            ),
            end_s=self.end_s,
            named=self.named,
            has_outages=self.has_outages,
        )


def of_spells(
    spells: Sequence[Spell], zones: Sequence[str], end_s: float, form: str = "intervals"
) -> Trace:
    """The trace of outages of workers that were all up at first, cut at `end_s`.

    Args:
        spells: of each worker apart and in order.
        zones: by worker.
    """
    lives: list[Life] = []
    by_worker = sorted((x for x in spells if x.gone_s <= end_s), key=lambda x: (x.worker, x.gone_s))
    found = {worker: list(own) for worker, own in groupby(by_worker, key=lambda x: x.worker)}
    for worker in range(len(zones)):
        up_s = 0.0
        for spell in found.get(worker, ()):
            lives.append(Life(worker, up_s, spell.gone_s, spell.cause))
            up_s = math.inf if math.isnan(spell.back_s) else spell.back_s
        if up_s <= end_s:
            lives.append(Life(worker, up_s, end_s, NO_LOSS))
    return Trace(form=form, zones=tuple(zones), lives=tuple(lives), end_s=end_s)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a trace comes to. Losses are those of workers that were up; caps among them."""

    workers: int
    hours: float
    up_h: float
    """Worker-hours up."""
    losses: int
    bulks: tuple[int, ...]
    """Losses of one zone at one instant, of each such event."""
    outages_h: tuple[float, ...]
    """Hours from a loss to the return, of those that ended, ascending."""

    @property
    def availability(self) -> float:
        return self.up_h / (self.workers * self.hours)

    @property
    def losses_per_worker_hour(self) -> float:
        """Per hour up."""
        return self.losses / self.up_h if self.up_h else math.nan

    @property
    def bulk_share(self) -> float:
        """Of the losses, those in events of two or more."""
        return sum(k for k in self.bulks if k > 1) / self.losses if self.losses else math.nan

    @property
    def mean_bulk(self) -> float:
        """Losses an event."""
        return self.losses / len(self.bulks) if self.bulks else math.nan

    @property
    def largest_bulk(self) -> int:
        return max(self.bulks, default=0)

    @property
    def mean_outage_h(self) -> float:
        return math.fsum(self.outages_h) / len(self.outages_h) if self.outages_h else math.nan


def facts(trace: Trace) -> Facts:
    """Count a trace."""
    lost = [x for x in trace.spells() if x.cause not in (NO_LOSS, ABSENT)]
    finished_h = ((x.back_s - x.gone_s) / HOUR_S for x in lost if not math.isnan(x.back_s))
    return Facts(
        workers=trace.workers,
        hours=trace.end_s / HOUR_S,
        up_h=math.fsum(x.end_s - x.start_s for x in trace.lives) / HOUR_S,
        losses=len(lost),
        bulks=tuple(Counter((x.zone, x.gone_s) for x in lost).values()),
        outages_h=tuple(sorted(finished_h)),
    )
