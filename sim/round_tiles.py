"""What the slots were in one round, from their logs and from what their replicas did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.exchange import Exchange
from sim.places import Place, Slot
from sim.replica import Interval, ReplicaRound
from sim.timeline import Tile, slot_tiles
from sim.undone import Undone


@dataclass(eq=False)
class RoundTiles:
    """Slots of a stage that are joined all the time and follow one plan share their tiles.

    Args:
        undone: what was thrown away before the round, and is booked with it.
    """

    start_s: float
    end_s: float
    exchange: Exchange
    undone: Undone
    _did: dict[ReplicaRound, list[list[Interval]]] = field(default_factory=dict)
    _shared: dict[tuple[ReplicaRound, int], list[Tile]] = field(default_factory=dict)

    def of(self, place: Place, plan: ReplicaRound) -> list[Tile]:
        """Tiles of a slot whose replica went through the round by the plan."""
        log, key = place.log, (plan, place.slot[1])
        if len(log) > 1:
            has_joined = "joined" in [state for _, state, _ in log]
            did = self._slot_did(place.slot, plan) if has_joined else ()
            return slot_tiles(log, did, self.start_s, self.end_s)
        if log[0][1] != "joined":
            return [(self.start_s, self.end_s, log[0][1], log[0][2])]
        if key not in self._shared:
            did = self._slot_did(place.slot, plan)
            self._shared[key] = slot_tiles(log, did, self.start_s, self.end_s)
        tiles, worker = self._shared[key], log[0][2]
        if tiles[0][3] == worker:
            return tiles
        return [(start_s, end_s, what, worker) for start_s, end_s, what, _ in tiles]

    def _slot_did(self, slot: Slot, plan: ReplicaRound) -> Sequence[Interval]:
        """What a slot did, in order: its part of the plan, then it receives; see `slot_tiles`."""
        if plan not in self._did:
            self._did[plan] = plan.intervals()
        exchange, stage = self.exchange, slot[1]
        received_s = exchange.start_s + float(exchange.slot_s[slot])
        return [
            *self.undone.did(slot),
            *self._did[plan][stage],
            (exchange.start_s, received_s, "sync"),
            (exchange.received_s, exchange.end_s, "sync"),  # the checkpoint
        ]
