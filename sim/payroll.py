"""What workers cost: seconds from back to gone, or bought to given back; those outside a slot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sim.places import Worker
from sim.records import Spell


class Settled(NamedTuple):
    """What workers cost in a while, and which of their outages ended in it."""

    node_s: dict[str, float]
    """Worker-seconds by pool."""
    unused_s: dict[str, float]
    """By pool, what the bill's minimum adds for workers that were lost or given back."""
    spare_s: float
    restore_bytes: int
    spells: Sequence[Spell]

    def and_then(self, later: Settled) -> Settled:
        """In both of two whiles."""
        return Settled(
            {zone: s + later.node_s[zone] for zone, s in self.node_s.items()},
            {zone: s + later.unused_s[zone] for zone, s in self.unused_s.items()},
            self.spare_s + later.spare_s,
            self.restore_bytes + later.restore_bytes,
            [*self.spells, *later.spells],
        )


class Restores:
    """Bytes that workers load; a restore is billed whole when it begins."""

    def __init__(self) -> None:
        self._to_come: dict[int, tuple[float, int]] = {}  # start_s, bytes by worker
        self._begun_bytes = 0

    def expect(self, worker: Worker, t_s: float, start_s: float, nbytes: int) -> None:
        """A worker is told at t to load from a start on; what it has begun before it had."""
        self.stop(worker, t_s)
        self._to_come[worker.number] = start_s, nbytes

    def add(self, nbytes: int) -> None:
        """One begins now."""
        self._begun_bytes += nbytes

    def stop(self, worker: Worker, t_s: float) -> None:
        """What a worker has not begun to load by t it never will."""
        start_s, nbytes = self._to_come.pop(worker.number, (math.inf, 0))
        if start_s <= t_s:
            self._begun_bytes += nbytes

    def settle(self, t_s: float) -> int:
        """Bytes whose loading has begun by t, since the last call."""
        if self._to_come:
            begun = [number for number, (start_s, _) in self._to_come.items() if start_s <= t_s]
            self._begun_bytes += sum(self._to_come.pop(number)[1] for number in begun)
        nbytes, self._begun_bytes = self._begun_bytes, 0
        return nbytes


@dataclass(eq=False)
class Payroll:
    """Counts worker-seconds; bill up to an instant before anything changes in it."""

    paid: dict[str, int]
    """Workers that are paid, by pool."""
    spares: int
    """Of them, those outside a slot."""
    _spare_s: float = 0.0
    _since_s: float = 0.0

    def __post_init__(self) -> None:
        self._billed_s = dict.fromkeys(self.paid, 0.0)
        self._unused_s = dict.fromkeys(self.paid, 0.0)

    def hire(self, worker: Worker, t_s: float) -> None:
        """A worker is paid from t on."""
        self.bill(t_s)
        worker.is_paid, worker.paid_from_s = True, t_s
        self.paid[worker.zone] += 1

    def dismiss(self, worker: Worker, t_s: float) -> None:
        """A worker is paid no more, but for the minimum of the bill."""
        self.bill(t_s)
        worker.is_paid = False
        self.paid[worker.zone] -= 1
        short_s = worker.pool.billing_minimum_s - (t_s - worker.paid_from_s)
        self._unused_s[worker.zone] += max(0.0, short_s)

    def bill(self, t_s: float) -> None:
        """Count up to t."""
        elapsed_s = t_s - self._since_s
        for zone, paid in self.paid.items():
            self._billed_s[zone] += paid * elapsed_s
        self._spare_s += self.spares * elapsed_s
        self._since_s = t_s

    def settle(self, t_s: float, restore_bytes: int, ended: Sequence[Spell]) -> Settled:
        """Up to t, since the last call; with what was loaded and who came back meanwhile."""
        self.bill(t_s)
        settled = Settled(self._billed_s, self._unused_s, self._spare_s, restore_bytes, ended)
        self._billed_s, self._spare_s = dict.fromkeys(self.paid, 0.0), 0.0
        self._unused_s = dict.fromkeys(self.paid, 0.0)
        return settled
