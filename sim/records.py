"""What goes into the engine and what comes out: plain, immutable records.

Arrays are [replica, stage]; R replicas, S stages, H inner steps of a global step.
Seconds, bytes and dollars, with the unit in the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

EventKind = Literal["notice", "gone", "back"]
Schedule = Literal["gpipe", "1f1b"]

CLASSES = (
    "vacant",
    "provision",
    "restore",
    "compute",
    "boundary",
    "bubble",
    "lost",
    "sync",
    "wait",
)
"""Every slot-second falls in exactly one of these; README says what each means."""

TRAIN_STATE = "train"
TIMELINE_STATES = (TRAIN_STATE, "wait", "lost", "vacant", "provision", "restore")
"""States of the slot timeline: `train` is steps, exchange and barrier of a committed round."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The timed job in plain numbers; lists are one entry a stage."""

    forward_s: tuple[float, ...]
    """Seconds of one micro-batch, forward."""
    backward_s: tuple[float, ...]
    """Seconds of one micro-batch, backward."""
    recompute_s: tuple[float, ...] = ()
    """Seconds of computing the activations of one micro-batch again; empty: they are kept."""
    micro_batches: int
    schedule: Schedule = "gpipe"
    extra_in_flight: int = 0
    """Under 1F1B, micro-batches more in flight for each stage that follows."""
    tokens: int
    """Tokens of one replica's inner step."""
    hop_bytes: int
    """Bytes of one inner step over one hop, in the direction and the replica that sends most."""
    ways_bytes: tuple[tuple[int, int], ...] = ()
    """[R] bytes of one inner step over one hop, (there, back); empty: hop_bytes each."""
    update_bytes: tuple[int, ...]
    """Bytes of one slot's upload."""
    weights_bytes: tuple[int, ...]
    """Bytes that a joining slot restores: the anchor of its stage."""
    state_bytes: tuple[int, ...]
    """Bytes of a slot's whole state: parameters, moments, error feedback."""

    def ways(self, replica: int) -> tuple[int, int]:
        """Bytes of one inner step over one hop of a replica, (there, back)."""
        return self.ways_bytes[replica] if self.ways_bytes else (self.hop_bytes, self.hop_bytes)

    def __post_init__(self) -> None:
        if self.tokens % self.micro_batches:
            raise ValueError(
                f"micro_batches must divide the tokens of an inner step "
                f"(got {self.micro_batches} and {self.tokens})"
            )


@dataclass(frozen=True, slots=True)
class Event:
    """Something the provider does to a worker. A notice says when the worker will be gone."""

    t_s: float
    worker: int
    kind: EventKind
    cause: str
    gone_s: float = np.nan


Row = tuple[int, int, int, str, float, float]
"""(replica, stage, worker, state, start_s, end_s) of the timeline; worker -1 in a vacant slot."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A worker was away from `gone_s` until `back_s` (NaN: not back by the end)."""

    worker: int
    zone: str
    gone_s: float
    back_s: float
    cause: str


@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalStep:
    """One committed round. `start_s` is the end of the round before; stalls are inside."""

    index: int
    start_s: float
    end_s: float
    steps: NDArray[np.int32]
    """[R, S] inner steps of the slot in this round, 0..H."""
    sends: NDArray[np.bool_]
    """[R, S] the slot's pseudo-gradient is in the aggregate."""
    joins: NDArray[np.int8]
    """[R, S] 0 no, 1 the same worker, 2 a new one; at the boundary that opens the round."""
    compute_s: NDArray[np.float64]
    """[R, S] computing seconds: steps x slowness x nominal seconds of a step."""
    slowness: NDArray[np.float64]
    """[R, S] how much longer than nominal the slot's steps took to compute, on average."""
    slot_s: dict[str, float]
    """Slot-seconds by class, summed over slots."""
    ready_s: float
    """Slot-seconds, of the class wait: ready and not joined."""
    spare_s: float
    """Worker-seconds outside slots."""
    node_s: dict[str, float]
    """Worker-seconds by pool."""
    unused_s: float
    """Worker-seconds billed on top, of workers that were gone before the minimum of the bill."""
    billed_s: dict[str, float]
    """Worker-seconds by pool that are paid for: node_s, and those on top."""
    link_bytes: dict[str, int]
    """Bytes by class of link: stages, store, replicas; thrown away or not."""
    stored_byte_s: float
    """Bytes in the store x seconds."""
    crossings: dict[tuple[int, int], int]
    """Replica inner steps over each hop that were kept, forward."""
    nbytes: dict[str, int]
    """Bytes: boundary, sync, restore, snapshot, lost_boundary, lost_sync."""
    usd: dict[str, float]
    """Dollars: compute, egress, storage."""
    rows: Sequence[Row]
    """Of the timeline, those that have ended since the round before; of a slot in order."""
    spells: Sequence[Spell]
    """Outages that have ended since the round before."""
