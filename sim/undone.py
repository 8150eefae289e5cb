"""What a job that rolled back had done since its last checkpoint: seconds and bytes of no use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sim.exchange import Exchange
from sim.replica import Interval
from sim.replicas import Replicas
from sim.terms import Terms
from sim.via import Billed, Kinds, Slots


@dataclass(eq=False)
class Undone:
    """Grows with each attempt that comes to nothing; is booked with the round after it."""

    did: list[list[Interval]]
    """[S] what a slot that was there all the time did: lost, then restore; in order."""
    hop_billed: Billed = field(default_factory=Counter)
    """Between stages."""
    sync_billed: Billed = field(default_factory=Counter)
    """Exchanged; uploads and exchanges that were begun, whole."""
    snapshot_bytes: int = 0
    """Of checkpoints that were begun, whole."""
    restore_bytes: int = 0
    """Loaded by the slots that were there."""
    happened: bool = False

    @staticmethod
    def nothing(stages: int) -> Undone:
        return Undone([[] for _ in range(stages)])

    def lose(self, begun_s: float, known_s: float) -> None:
        """An attempt since `begun_s` is over, and one knows at `known_s`."""
        self.happened = True
        for stage in self.did:
            stage.append((begun_s, known_s, "lost"))

    def reload(
        self, terms: Terms, known_s: float, there: Slots, kinds: Kinds, takes_time: bool
    ) -> float:
        """Slots that are there load the checkpoint: since when they have.

        Those of a stage take the time of the slowest.

        Args:
            there: [R, S] which those are. kinds: [R, S] of their workers.
        """
        ends_s = [known_s]
        for stage in range(terms.stages):
            of_kinds = kinds[there[:, stage], stage].tolist()
            loads = [terms.restore(stage, kind) for kind in of_kinds]
            self.restore_bytes += sum(nbytes for nbytes, _ in loads)
            if takes_time and loads:
                ends_s.append(known_s + max(restore_s for _, restore_s in loads))
                self.did[stage].append((known_s, ends_s[-1], "restore"))
        return max(ends_s)

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
