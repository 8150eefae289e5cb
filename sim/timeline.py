"""What each slot was, and when: tiles of a round, rows of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sim.places import LogEntry, Slot
from sim.records import TRAIN_STATE, Row

Interval = tuple[float, float, str]
"""(start_s, end_s, state) of a slot."""
Tile = tuple[float, float, str, int]
"""(start_s, end_s, state, worker) of a slot; worker -1 in a vacant one."""
Stretch = tuple[int, str, float]
"""(worker, state, since_s): what a slot is until the next one."""


def slot_tiles(
    log: Sequence[LogEntry], did: Sequence[Interval], start_s: float, end_s: float
) -> list[Tile]:
    """What a slot was in between start and end, without gaps.

    Args:
        log: `(since_s, state, worker)` with states vacant, provision, restore, ready, joined.
        did: what its replica did with it, in order; holds only while the slot is joined.

    Returns:
        Tiles of [start_s, end_s]: vacant, provision, restore, ready, lost, steps, sync, and wait
        for the rest of a joined slot's time.
    """
    tiles: list[Tile] = []
    ends = [entry[0] for entry in log[1:]] + [end_s]
    for (since_s, state, worker), until_s in zip(log, ends, strict=True):
        a, b = max(since_s, start_s), min(until_s, end_s)
        if b <= a:
            continue
        if state == "joined":
            tiles += joined_tiles(did, a, b, worker)
        else:
            tiles.append((a, b, state, worker))
    return tiles


def joined_tiles(
    did: Sequence[Interval], start_s: float, until_s: float, worker: int
) -> list[Tile]:
    """What a slot was while it was joined; see `slot_tiles`."""
    tiles, now = list[Tile](), start_s
    for begin_s, finish_s, what in did:
        x = begin_s if begin_s > now else now
        y = finish_s if finish_s < until_s else until_s
        if y <= x:
            continue
        if x > now:
            tiles.append((now, x, "wait", worker))
        tiles.append((x, y, what, worker))
        now = y
    if until_s > now:
        tiles.append((now, until_s, "wait", worker))
    return tiles


class Timeline:
    """Rows tile [0, end of the last committed round] for every slot; equal neighbours are one.

    `train` is the steps of a slot and, from its last one on, upload, barrier and download. What
    else a joined slot does without losing it is `wait`: an idle replica, a restart to come, and a
    barrier longer than `longest_barrier_s`, at which one waits for somebody's outage.

    A row that has ended is handed out once, and forgotten.
    """

    def __init__(self, longest_barrier_s: float) -> None:
        self.longest_barrier_s = longest_barrier_s
        self.end_s = 0.0
        self._ended: list[Row] = []
        self._open: dict[Slot, Stretch] = {}

    def stretches(self, tiles: Iterable[Tile], trains_from_s: float) -> list[Stretch]:
        """Tiles of a slot in the timeline's states, equal neighbours as one.

        Args:
            trains_from_s: when it had trained its last step; infinite if it did not get there.
        """
        found: list[Stretch] = []
        for start_s, end_s, what, worker in tiles:
            state = what
            if what == "steps":
                state = TRAIN_STATE
            elif what in ("sync", "wait", "ready"):
                is_short = what == "sync" or end_s - start_s <= self.longest_barrier_s
                takes_part = what != "ready" and start_s >= trains_from_s and is_short
                state = TRAIN_STATE if takes_part else "wait"
            if not found or found[-1][:2] != (worker, state):
                found.append((worker, state, start_s))
        return found

    def add(self, slot: Slot, worker: int, state: str, since_s: float) -> None:
        """What a slot is from an instant on."""
        last = self._open.get(slot)
        if last is not None:
            if last[0] == worker and last[1] == state:
                return
            self._ended.append((*slot, *last, since_s))
        self._open[slot] = worker, state, since_s

    def take_ended(self) -> Sequence[Row]:
        """Rows that have ended since the last call."""
        if not self._ended:
            return ()
        ended, self._ended = self._ended, []
        return ended

    def open_rows(self) -> list[Row]:
        """The row that each slot is in, up to the last committed round."""
        return [(*slot, *last, self.end_s) for slot, last in self._open.items()]
