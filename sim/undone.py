"""What a job that rolled back had done since its last checkpoint: seconds and bytes of no use."""

from __future__ import annotations

from dataclasses import dataclass

from sim.exchange import Exchange
from sim.replica import Interval
from sim.replicas import Replicas
from sim.terms import Terms


@dataclass(eq=False)
class Undone:
    """Grows with each attempt that comes to nothing; is booked with the round after it."""

    did: list[list[Interval]]
    """[S] what a slot that was there all the time did: lost, then restore; in order."""
    hop_bytes: int = 0
    """Between stages."""
    sync_bytes: int = 0
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

    def reload(self, terms: Terms, known_s: float, there: list[int], takes_time: bool) -> float:
        """Slots that are there load the checkpoint: since when they have.

        Args:
            there: [S] slots by stage.
        """
        ends_s = [known_s]
        for stage, count in enumerate(there):
            nbytes, restore_s = terms.restore(stage)
            self.restore_bytes += count * nbytes
            if takes_time and count:
                ends_s.append(known_s + restore_s)
                self.did[stage].append((known_s, ends_s[-1], "restore"))
        return max(ends_s)

    def traffic(
        self, terms: Terms, replicas: Replicas, exchange: Exchange, t_s: float, rounds: int
    ) -> None:
        """Count what was sent in whole rounds, and until t in the one that was planned so."""
        sizes, whole, hops = terms.sizes, range(terms.replicas), terms.stages - 1
        upload_bytes = sum(sizes.update_bytes) if terms.via.uploads else 0
        self.hop_bytes += rounds * terms.inner_steps * hops * sizes.both_ways(whole)
        self.sync_bytes += rounds * exchange.nbytes
        for r in whole:
            plan = replicas[r]
            begun = sum(phase.begun(t_s) for phase in plan.kept())
            self.hop_bytes += begun * hops * sizes.both_ways([r])
            self.sync_bytes += upload_bytes if t_s > plan.end_s else 0
        if t_s > exchange.start_s:
            self.sync_bytes += exchange.nbytes - upload_bytes * terms.replicas
        if exchange.checkpoint_s is not None and t_s > exchange.received_s:
            self.snapshot_bytes += sum(sizes.state_bytes) * terms.replicas
