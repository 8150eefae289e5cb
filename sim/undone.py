"""What a job that rolled back had done since its last checkpoint: seconds and bytes of no use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.exchange import Exchange
from sim.places import Slot
from sim.replica import Span
from sim.replicas import Replicas
from sim.terms import Terms
from sim.timeline import Interval
from sim.via import Billed, Kinds, Slots


@dataclass(eq=False)
class Undone:
    """Grows with each attempt that comes to nothing; is booked with the round after it."""

    hop_billed: Billed = field(default_factory=Counter)
    """Between stages."""
    sync_billed: Billed = field(default_factory=Counter)
    """Exchanged; uploads and exchanges that were begun, whole."""
    snapshot_bytes: int = 0
    """Of checkpoints that were begun, whole."""
    restore_bytes: int = 0
    """Loaded by the slots that were there."""
    _lost: list[Span] = field(default_factory=list)
    """Attempts, from their start until one knew that they were over."""
    _loaded_s: list[NDArray[np.float64]] = field(default_factory=list)
    """[R, S] until when a slot that was there loaded the checkpoint then; one each attempt."""

    @property
    def happened(self) -> bool:
        return bool(self._lost)

    def did(self, slot: Slot) -> list[Interval]:
        """What a slot that was there all the time did: lost, then restore; in order."""
        intervals: list[Interval] = []
        for (begun_s, known_s), loaded_s in zip(self._lost, self._loaded_s, strict=True):
            until_s = float(loaded_s[slot])
            intervals += [(begun_s, known_s, "lost"), (known_s, until_s, "restore")]
        return intervals

    def lose(self, begun_s: float, known_s: float) -> None:
        """An attempt since `begun_s` is over, and one knows at `known_s`."""
        self._lost.append((begun_s, known_s))

    def reload(
        self, terms: Terms, known_s: float, there: Slots, kinds: Kinds, takes_time: bool
    ) -> float:
        """Slots that are there load the checkpoint: since when all have.

        Args:
            there: [R, S] which those are. kinds: [R, S] of their workers.
        """
        took_s = np.zeros(there.shape)
        for stage in range(terms.stages):
            for kind in np.unique(kinds[there[:, stage], stage]).tolist():
                nbytes, restore_s = terms.restore(stage, kind)
                loads = there[:, stage] & (kinds[:, stage] == kind)
                self.restore_bytes += nbytes * int(loads.sum())
                took_s[loads, stage] = restore_s * takes_time
        self._loaded_s.append(known_s + took_s)
        return known_s + float(took_s.max())

    def traffic(
        self, terms: Terms, replicas: Replicas, exchange: Exchange, t_s: float, rounds: int
    ) -> None:
        """Count what was sent in whole rounds, and until t in the one that was planned so."""
        sizes, price = terms.sizes, terms.links.store_usd_per_byte
        upload_bytes = sum(sizes.update_bytes) if terms.via.uploads else 0
        for usd_per_byte, nbytes in exchange.billed.items():
            self.sync_billed[usd_per_byte] += rounds * nbytes
        for r in range(terms.replicas):
            plan = replicas[r]
            begun = sum(phase.begun(t_s) for phase in plan.kept())
            steps = rounds * terms.inner_steps + begun
            self.hop_billed.update(terms.carried(plan.crew, terms.whole.mask, steps))
            self.sync_billed[price] += upload_bytes if t_s > plan.end_s else 0
        if t_s > exchange.start_s:
            self.sync_billed.update(exchange.billed)
            self.sync_billed[price] -= upload_bytes * terms.replicas
        if exchange.checkpoint_s is not None and t_s > exchange.received_s:
            self.snapshot_bytes += sum(sizes.state_bytes) * terms.replicas
