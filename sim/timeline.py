"""What each slot was, and when: tiles of a round, rows of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sim.places import LogEntry, Slot
from sim.records import TRAIN_STATE, Row
from sim.replica import Interval

Tile = tuple[float, float, str, int]
"""(start_s, end_s, state, worker) of a slot; worker -1 in a vacant one."""


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
            tiles += ((x, y, what, worker) for x, y, what in _joined(did, a, b))
        else:
            tiles.append((a, b, state, worker))
    return tiles


def _joined(did: Sequence[Interval], a: float, b: float) -> Iterator[Interval]:
    now = a
    for begin_s, finish_s, what in did:
        x, y = max(begin_s, now), min(finish_s, b)
        if y <= x:
            continue
        if x > now:
            yield (now, x, "wait")
        yield (x, y, what)
        now = y
    if b > now:
        yield (now, b, "wait")


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
        self._open: dict[Slot, tuple[int, str, float]] = {}

    def add(self, slot: Slot, tiles: Iterable[Tile], trains_from_s: float) -> None:
        """Append a slot's tiles, which must follow those it has.

        Args:
            trains_from_s: when it had trained its last step; infinite if it did not get there.
        """
        for start_s, end_s, what, worker in tiles:
            is_short = what == "sync" or end_s - start_s <= self.longest_barrier_s
            takes_part = what in ("sync", "wait") and start_s >= trains_from_s and is_short
            is_train = what == "steps" or takes_part
            state = TRAIN_STATE if is_train else "wait" if what in ("sync", "ready") else what
            last = self._open.get(slot)
            if last is not None:
                if last[0] == worker and last[1] == state:
                    continue
                self._ended.append((*slot, *last, start_s))
            self._open[slot] = (worker, state, start_s)

    def take_ended(self) -> Sequence[Row]:
        """Rows that have ended since the last call."""
        if not self._ended:
            return ()
        ended, self._ended = self._ended, []
        return ended

    def open_rows(self) -> list[Row]:
        """The row that each slot is in, up to the last committed round."""
        return [(*slot, *last, self.end_s) for slot, last in self._open.items()]
