"""Where the slot-seconds, bytes and dollars of a round went. It closes, or it raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.config import HOUR_S, Pool
from sim.exchange import Exchange
from sim.network import Links
from sim.pipeline import StepTimes, hops
from sim.records import CLASSES, TRAIN_STATE, GlobalStep, Sizes
from sim.replica import Interval, Phase, ReplicaRound
from sim.roster import LogEntry, Roster

ROUNDING = 1e-9
"""Relative error that sums of seconds in floating point may show."""


Tile = tuple[float, float, str, int]
"""(start_s, end_s, state, worker) of a slot; worker -1 in a vacant one."""


class LedgerError(Exception):
    """The engine's own accounts do not close: a bug, never the user's fault."""


def slot_tiles(
    log: Sequence[LogEntry], did: Sequence[Interval], start_s: float, end_s: float
) -> list[Tile]:
    """What a slot was in between start and end, without gaps.

    Args:
        log: `(since_s, state, worker)` with states vacant, provision, restore, ready, joined.
        did: what its replica did with it, in order; holds only while the slot is joined.

    Returns:
        Tiles of [start_s, end_s]: vacant, provision, restore, lost, steps, sync, and wait for the
        rest of a present slot's time.
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
            tiles.append((a, b, "wait" if state == "ready" else state, worker))
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


@dataclass
class Round:
    """The account of one committed round: slot-seconds by class, [class, R, S]."""

    times: StepTimes
    shape: tuple[int, int]
    seconds: NDArray[np.float64] = field(init=False)
    crossings: Counter[tuple[int, int]] = field(default_factory=Counter)
    lost_crossings: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.seconds = np.zeros((len(CLASSES), *self.shape))

    def add_slot(self, r: int, s: int, tiles: Iterable[Tile], phases: Sequence[Phase]) -> None:
        """Book a slot's intervals; steps are split into compute, boundary and bubble."""
        totals = dict.fromkeys(CLASSES, 0.0)
        steps_s = 0.0
        for a, b, what, _ in tiles:
            if what == "steps":
                steps_s += b - a
            else:
                totals[what] += b - a
        for phase in phases:
            if phase.mask[s]:
                with_links_s, without_s = self.times.of(phase.mask)
                compute_s = self.times.compute_s()[s]
                totals["compute"] += phase.steps * compute_s
                totals["boundary"] += phase.steps * (with_links_s - without_s)
                totals["bubble"] += phase.steps * (without_s - compute_s)
                steps_s -= phase.steps * phase.step_s
        if abs(steps_s) > ROUNDING * (1 + sum(p.end_s for p in phases)):
            raise LedgerError(f"slot ({r}, {s}): {steps_s} s of steps were not present")
        self.seconds[:, r, s] = [totals[name] for name in CLASSES]

    def add_traffic(self, replica: ReplicaRound) -> None:
        """Book the hops a replica's inner steps crossed, kept and thrown away."""
        for phase in replica.phases:
            for hop in hops(phase.mask):
                self.crossings[hop] += phase.steps
        for phase in replica.discarded:
            for hop in hops(phase.mask):
                self.lost_crossings[hop] += phase.steps

    def close(self, start_s: float, end_s: float, node_s: float, spare_s: float) -> None:
        """Assert that every slot-second and every node-second is accounted for once.

        Raises:
            LedgerError: they are not.
        """
        length_s = end_s - start_s
        slack_s = ROUNDING * (1.0 + end_s) * 10
        per_slot = self.seconds.sum(axis=0)
        if np.abs(per_slot - length_s).max() > slack_s or self.seconds.min() < -slack_s:
            raise LedgerError(f"slot-seconds do not sum to the {length_s} s of the round")
        present_s = per_slot.sum() - self.seconds[CLASSES.index("vacant")].sum()
        if abs(present_s + spare_s - node_s) > slack_s * per_slot.size:
            raise LedgerError(
                f"{node_s} node-seconds were billed, {present_s + spare_s} worked or waited"
            )


def dollars(
    node_s: Mapping[str, float],
    pools: Mapping[str, Pool],
    nbytes: Mapping[str, int],
    links: Links,
) -> dict[str, float]:
    """Node-seconds x price, and bytes x egress of their link class; lost bytes are billed too."""
    boundary = nbytes["boundary"] + nbytes["lost_boundary"]
    store = nbytes["sync"] + nbytes["lost_sync"] + nbytes["restore"] + nbytes["snapshot"]
    return {
        "compute": sum(node_s[name] * pools[name].usd_per_h / HOUR_S for name in node_s),
        "egress": boundary * links.hop.usd_per_byte + store * links.up.usd_per_byte,
    }


def traffic(
    account: Round,
    sizes: Sizes,
    sends: NDArray[np.bool_],
    downloads: NDArray[np.int64],
    failed_uploads: Iterable[int],
) -> dict[str, int]:
    """Bytes of a round by kind, restores and snapshots apart.

    Args:
        sends: [R, S] complete uploads.
        downloads: [R, S] updates of other replicas that the slot fetched.
        failed_uploads: stages of uploads that were begun and thrown away, billed whole.
    """
    both_ways = 2 * sizes.hop_bytes
    update = np.asarray(sizes.update_bytes, dtype=np.int64)
    return {
        "boundary": both_ways * sum(account.crossings.values()),
        "lost_boundary": both_ways * sum(account.lost_crossings.values()),
        "sync": int(((sends.sum(axis=0) + downloads.sum(axis=0)) * update).sum()),
        "lost_sync": sum(sizes.update_bytes[stage] for stage in failed_uploads),
    }


def close_round(
    index: int,
    start_s: float,
    exchange: Exchange,
    replicas: Sequence[ReplicaRound],
    joins: NDArray[np.int8],
    roster: Roster,
    timeline: Timeline,
    sizes: Sizes,
    pools: Mapping[str, Pool],
    times: StepTimes,
    links: Links,
    snapshot_bytes: int,
) -> GlobalStep:
    """The record of a committed round, from what its replicas did and its slots were.

    Raises:
        LedgerError: the accounts do not close.
    """
    account = Round(times, (roster.replicas, roster.stages))
    for (r, s), place in roster.places.items():
        did = replicas[r].intervals(s)
        fetch_s = links.down.seconds(int(exchange.downloads[r, s]) * sizes.update_bytes[s])
        did.append((exchange.start_s, exchange.start_s + fetch_s, "sync"))
        tiles = slot_tiles(place.log, did, start_s, exchange.end_s)
        account.add_slot(r, s, tiles, replicas[r].phases)
        timeline.add(r, s, tiles)
        place.forget_before(exchange.end_s)
    for replica in replicas:
        account.add_traffic(replica)
    node_s, spare_s, restore_bytes = roster.settle(exchange.end_s)
    account.close(start_s, exchange.end_s, sum(node_s.values()), spare_s)
    failed = [stage for replica in replicas for stage in replica.failed_uploads()]
    nbytes = traffic(account, sizes, exchange.sends, exchange.downloads, failed)
    nbytes |= {"restore": restore_bytes, "snapshot": snapshot_bytes}
    step = GlobalStep(
        index=index,
        start_s=start_s,
        end_s=exchange.end_s,
        steps=np.array([replica.steps() for replica in replicas], dtype=np.int32),
        sends=exchange.sends,
        joins=joins,
        compute_s=account.seconds[CLASSES.index("compute")],
        slot_s=dict(zip(CLASSES, account.seconds.sum(axis=(1, 2)).tolist(), strict=True)),
        spare_s=spare_s,
        node_s=node_s,
        crossings=dict(account.crossings),
        nbytes=nbytes,
        usd=dollars(node_s, pools, nbytes, links),
    )
    for array in (step.steps, step.sends, step.joins, step.compute_s):
        array.flags.writeable = False
    return step


@dataclass
class Timeline:
    """Rows `(replica, stage, worker, state, start_s, end_s)`, equal neighbours merged.

    Steps and exchange are both `train`, and so is a wait shorter than `blink_s`, the small change
    of every barrier.
    """

    blink_s: float
    rows: list[tuple[int, int, int, str, float, float]] = field(default_factory=list)
    _open: dict[tuple[int, int], tuple[int, str, float, float]] = field(default_factory=dict)

    def add(self, r: int, s: int, tiles: Iterable[Tile]) -> None:
        """Append a slot's tiles, which must follow those it has."""
        for a, b, what, worker in tiles:
            is_train = what in ("steps", "sync") or (what == "wait" and b - a < self.blink_s)
            state = TRAIN_STATE if is_train else what
            last = self._open.get((r, s))
            if last is not None and last[:2] == (worker, state):
                self._open[r, s] = (worker, state, last[2], b)
                continue
            if last is not None:
                self.rows.append((r, s, *last))
            self._open[r, s] = (worker, state, a, b)

    def all_rows(self) -> list[tuple[int, int, int, str, float, float]]:
        """All rows up to now, by slot and time."""
        still_open = [(r, s, *row) for (r, s), row in self._open.items()]
        return sorted(self.rows + still_open, key=lambda row: (row[0], row[1], row[4]))
