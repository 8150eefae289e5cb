"""What workers cost: seconds from back to gone, and those outside a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Settled(NamedTuple):
    """What workers cost in a while."""

    node_s: dict[str, float]
    """Worker-seconds by pool, from back to gone."""
    unused_s: dict[str, float]
    """By pool, what the bill's minimum adds for workers that were lost."""
    spare_s: float
    restore_bytes: int

    def and_then(self, later: Settled) -> Settled:
        """In both of two whiles."""
        return Settled(
            {zone: s + later.node_s[zone] for zone, s in self.node_s.items()},
            {zone: s + later.unused_s[zone] for zone, s in self.unused_s.items()},
            self.spare_s + later.spare_s,
            self.restore_bytes + later.restore_bytes,
        )


@dataclass(eq=False)
class Payroll:
    """Counts worker-seconds; bill up to an instant before anything changes in it."""

    up: dict[str, int]
    """Workers that are up, by pool."""
    spares: int
    """Of them, those outside a slot."""
    _spare_s: float = 0.0
    _since_s: float = 0.0

    def __post_init__(self) -> None:
        self._billed_s = dict.fromkeys(self.up, 0.0)
        self.unused_s = dict.fromkeys(self.up, 0.0)
        """What the bill's minimum adds for workers that were lost too soon, by pool."""

    def bill(self, t_s: float) -> None:
        """Count up to t."""
        elapsed_s = t_s - self._since_s
        for zone, up in self.up.items():
            self._billed_s[zone] += up * elapsed_s
        self._spare_s += self.spares * elapsed_s
        self._since_s = t_s

    def settle(self, t_s: float) -> tuple[dict[str, float], float]:
        """(billed worker-seconds by pool, spare seconds) since the last call."""
        self.bill(t_s)
        billed, spare_s = self._billed_s, self._spare_s
        self._billed_s, self._spare_s = dict.fromkeys(self.up, 0.0), 0.0
        return billed, spare_s

    def settle_unused(self) -> dict[str, float]:
        """Seconds by pool that the bill's minimum has added since the last call."""
        unused_s, self.unused_s = self.unused_s, dict.fromkeys(self.up, 0.0)
        return unused_s
