"""What the slots were in one round, from their logs and from what their replicas did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.exchange import Exchange
from sim.places import Place, Slot
from sim.replica import ReplicaRound
from sim.timeline import Interval, Tile, joined_tiles, slot_tiles
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
        log = place.log
        _, state, worker = log[0]
        if len(log) > 1:
            has_joined = "joined" in [state for _, state, _ in log]
            did = self._slot_did(place.slot, plan) if has_joined else ()
            return slot_tiles(log, did, self.start_s, self.end_s)
        if state != "joined":
            return [(self.start_s, self.end_s, state, worker)]
        key = plan, place.slot[1]
        if key not in self._shared:
            did = self._slot_did(place.slot, plan)
            self._shared[key] = joined_tiles(did, self.start_s, self.end_s, worker)
        tiles = self._shared[key]
        if tiles[0][3] == worker:
            return tiles
        return [(start_s, end_s, what, worker) for start_s, end_s, what, _ in tiles]

    def _slot_did(self, slot: Slot, plan: ReplicaRound) -> Sequence[Interval]:
        """What a slot did, in order: its part of the plan, then it receives; see `slot_tiles`."""
        if plan not in self._did:
            self._did[plan] = plan.intervals()
        exchange, did = self.exchange, self._did[plan][slot[1]]
        received_s = exchange.start_s + float(exchange.slot_s[slot])
        did = [*self.undone.did(slot), *did, (exchange.start_s, received_s, "sync")]
        if exchange.checkpoint_s is not None:
            did.append((exchange.received_s, exchange.end_s, "sync"))
        return did
