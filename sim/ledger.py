"""Where the slot-seconds, bytes and dollars of a round went. It closes, or it raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from sim.config import HOUR_S
from sim.exchange import Exchange
from sim.pipeline import hops
from sim.records import CLASSES, GlobalStep
from sim.replica import Interval, ReplicaRound
from sim.replicas import Replicas
from sim.roster import NEVER_S, Roster, Slot
from sim.terms import Terms
from sim.timeline import Tile, Timeline, slot_tiles

ROUNDING = 1e-8
"""Seconds by which sums of seconds may miss, per second of simulated time."""
COMPUTE, BOUNDARY, BUBBLE, VACANT = map(CLASSES.index, ("compute", "boundary", "bubble", "vacant"))


class LedgerError(Exception):
    """The engine's own accounts do not close: a bug, never the user's fault."""


class Account:
    """What a round came to, over the replicas booked so far."""

    def __init__(self, terms: Terms, start_s: float, end_s: float) -> None:
        self.terms, self.start_s, self.end_s = terms, start_s, end_s
        self.seconds = np.zeros(len(CLASSES))  # by class, summed over slots
        self.steps = np.zeros((terms.replicas, terms.stages), dtype=np.int32)
        self.compute_s = np.zeros((terms.replicas, terms.stages))
        self.crossings: Counter[tuple[int, int]] = Counter()
        self.hop_bytes = self.lost_hop_bytes = 0
        self.lost_uploads: Counter[int] = Counter()  # by stage
        self.slack_s = ROUNDING * (1.0 + end_s)

    def add(self, rows: Sequence[int], plan: ReplicaRound, tiles: Sequence[list[Tile]]) -> None:
        """Book replicas that did the same, by the plan and the [S] tiles of one.

        Raises:
            LedgerError: a slot's seconds do not sum to the round.
        """
        seconds = self._seconds(plan, tiles)
        miss_s = np.abs(seconds.sum(axis=0) - (self.end_s - self.start_s)).max()
        if max(miss_s, -seconds.min()) > self.slack_s:
            raise LedgerError(f"replica {rows[0]}: slot-seconds {seconds.tolist()} do not close")
        self.seconds += len(rows) * seconds.sum(axis=1)
        self.steps[rows], self.compute_s[rows] = plan.steps(), seconds[COMPUTE]
        hop_bytes = self.terms.sizes.both_ways(rows)
        for phase in plan.kept():
            self.crossings.update(dict.fromkeys(hops(phase.mask), len(rows) * phase.steps))
            self.hop_bytes += hop_bytes * phase.steps * len(hops(phase.mask))
        for phase in plan.discarded():
            self.lost_hop_bytes += hop_bytes * phase.steps * len(hops(phase.mask))
        self.lost_uploads.update(dict(Counter(plan.failed_uploads())))

    def _seconds(self, plan: ReplicaRound, tiles: Sequence[list[Tile]]) -> NDArray[np.float64]:
        """[class, S] seconds; steps are split into compute, boundary and bubble."""
        seconds = np.zeros((len(CLASSES), self.terms.stages))
        steps_s = np.zeros(self.terms.stages)
        for stage, of_slot in enumerate(tiles):
            for start_s, end_s, what, _ in of_slot:
                if what == "steps":
                    steps_s[stage] += end_s - start_s
                else:
                    seconds[CLASSES.index(what), stage] += end_s - start_s
        for phase in plan.kept():
            live, n = np.asarray(phase.mask), phase.steps
            with_links_s, without_s = self.terms.times.of(phase.mask)
            compute_s = self.terms.times.compute_s()
            seconds[COMPUTE] += live * n * compute_s
            seconds[BOUNDARY] += live * n * (with_links_s - without_s)
            seconds[BUBBLE] += live * n * (without_s - compute_s)
            steps_s -= live * n * phase.step_s
        if np.abs(steps_s).max() > self.slack_s:
            raise LedgerError(f"{steps_s.tolist()} s of steps that count were not present")
        return seconds

    def close(self, node_s: float, spare_s: float) -> None:
        """Assert that every billed worker-second is accounted for once.

        Raises:
            LedgerError: they are not.
        """
        self.steps.flags.writeable = self.compute_s.flags.writeable = False
        present_s = self.seconds.sum() - self.seconds[VACANT]
        if abs(present_s + spare_s - node_s) > self.slack_s * self.steps.size:
            raise LedgerError(
                f"{node_s} worker-seconds were billed, {present_s + spare_s} worked or waited"
            )


class Ledger:
    """Books the rounds of a run, and keeps the timeline.

    Replicas that went through a round alike are booked once, and a round in which no slot changed
    is the one before at other instants.
    """

    def __init__(self, terms: Terms, roster: Roster) -> None:
        self.terms, self.roster = terms, roster
        self.timeline = Timeline()
        self._untidy: AbstractSet[int] = set(range(terms.replicas))  # timeline not all in `train`
        self._last: GlobalStep | None = None

    def close(
        self,
        index: int,
        start_s: float,
        exchange: Exchange,
        replicas: Replicas,
        joins: NDArray[np.int8],
    ) -> GlobalStep:
        """The record of a committed round, from what its replicas did and its slots were.

        Raises:
            LedgerError: the accounts do not close.
        """
        end_s = self.timeline.end_s = exchange.end_s
        node_s, spare_s, restore_bytes = self.roster.settle(end_s)
        if self._last is not None and self.roster.is_calm_since(self._last.start_s):
            self._last = self._again(self._last, start_s, end_s, node_s, spare_s)
            return self._last
        account = Account(self.terms, start_s, end_s)
        hit = self.roster.odd | replicas.own.keys()
        restless, self._untidy = hit | self._untidy, hit
        for rows in self._alike(restless, start_s, end_s, replicas):
            self._book(account, rows, exchange, replicas, bool(restless.intersection(rows)))
        account.close(sum(node_s.values()), spare_s)
        nbytes = self._traffic(account, exchange, restore_bytes)
        self._last = GlobalStep(
            index=index,
            start_s=start_s,
            end_s=end_s,
            steps=account.steps,
            sends=exchange.sends,
            joins=joins,
            compute_s=account.compute_s,
            slot_s=dict(zip(CLASSES, account.seconds.tolist(), strict=True)),
            spare_s=spare_s,
            node_s=node_s,
            crossings={hop: count for hop, count in account.crossings.items() if count},
            nbytes=nbytes,
            usd=self._dollars(node_s, nbytes),
        )
        return self._last

    def _again(
        self,
        last: GlobalStep,
        start_s: float,
        end_s: float,
        node_s: dict[str, float],
        spare_s: float,
    ) -> GlobalStep:
        """A round in which no slot changed, after one like it: what is equal is shared."""
        return GlobalStep(
            index=last.index + 1,
            start_s=start_s,
            end_s=end_s,
            steps=last.steps,
            sends=last.sends,
            joins=last.joins,
            compute_s=last.compute_s,
            slot_s=last.slot_s,
            spare_s=spare_s,
            node_s=node_s,
            crossings=last.crossings,
            nbytes=last.nbytes,
            usd=self._dollars(node_s, last.nbytes),
        )

    # --- slots ------------------------------------------------------------------------------

    def _alike(
        self, restless: AbstractSet[int], start_s: float, end_s: float, replicas: Replicas
    ) -> Iterator[list[int]]:
        """Replicas by what happened to them, those alike together."""
        calm = [r for r in range(self.terms.replicas) if r not in restless]
        groups: dict[Hashable, list[int]] = {"calm": calm} if calm else {}
        for r in sorted(restless):
            states = tuple(place.only_state(start_s, end_s) for place in self.roster.row(r))
            is_alone = r in replicas.own or None in states
            groups.setdefault(r if is_alone else states, []).append(r)
        yield from groups.values()

    def _book(
        self,
        account: Account,
        rows: Sequence[int],
        exchange: Exchange,
        replicas: Replicas,
        is_restless: bool,
    ) -> None:
        """Book replicas that are alike, and their timelines unless they stay in `train`."""
        plan = replicas[rows[0]]
        tiles = [
            slot_tiles(
                place.log, self._did(plan, place.slot, exchange), account.start_s, account.end_s
            )
            for place in self.roster.row(rows[0])
        ]
        account.add(rows, plan, tiles)
        if is_restless:
            uploading = plan.uploading()
            for r in rows:
                for place, of_slot in zip(self.roster.row(r), tiles, strict=True):
                    s = place.slot[1]
                    own = of_slot if r == rows[0] else _of_worker(of_slot, place.log[0][2])
                    self.timeline.add(place.slot, own, plan.end_s if s in uploading else NEVER_S)

    def _did(self, plan: ReplicaRound, slot: Slot, exchange: Exchange) -> list[Interval]:
        """What a joined slot did: its part of the plan, and its download."""
        nbytes = int(exchange.downloads[slot]) * self.terms.sizes.update_bytes[slot[1]]
        fetched_s = exchange.start_s + self.terms.links.down.seconds(nbytes)
        return [*plan.intervals(slot[1]), (exchange.start_s, fetched_s, "sync")]

    # --- bytes and dollars ------------------------------------------------------------------

    def _traffic(self, account: Account, exchange: Exchange, restore_bytes: int) -> dict[str, int]:
        """Bytes by kind; uploads that were begun and thrown away are billed whole."""
        sizes = self.terms.sizes
        synced = exchange.sends.sum(axis=0) + exchange.downloads.sum(axis=0)
        lost = account.lost_uploads.items()
        stored = self.roster.joined.sum(axis=0) * self.terms.waits
        return {
            "boundary": account.hop_bytes,
            "sync": int(synced @ np.asarray(sizes.update_bytes)),
            "restore": restore_bytes,
            "snapshot": int(stored @ np.asarray(sizes.state_bytes)),
            "lost_boundary": account.lost_hop_bytes,
            "lost_sync": sum(count * sizes.update_bytes[stage] for stage, count in lost),
        }

    def _dollars(self, node_s: Mapping[str, float], nbytes: Mapping[str, int]) -> dict[str, float]:
        """Worker-seconds x price, and bytes x egress of their link; lost bytes are billed too."""
        pools, links = self.terms.pools, self.terms.links
        hops_bytes = nbytes["boundary"] + nbytes["lost_boundary"]
        store_bytes = nbytes["sync"] + nbytes["lost_sync"] + nbytes["restore"] + nbytes["snapshot"]
        return {
            "compute": sum(node_s[name] * pools[name].usd_per_h / HOUR_S for name in node_s),
            "egress": hops_bytes * links.hop.usd_per_byte + store_bytes * links.up.usd_per_byte,
        }


def _of_worker(tiles: Sequence[Tile], worker: int) -> list[Tile]:
    return [(start_s, end_s, what, worker) for start_s, end_s, what, _ in tiles]
