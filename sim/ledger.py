"""Where the slot-seconds, bytes and dollars of a round went. It closes, or it raises."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from sim.account import Account
from sim.config import HOUR_S
from sim.exchange import Exchange
from sim.places import NEVER_S, Slot
from sim.records import CLASSES, GlobalStep
from sim.replica import Interval
from sim.replicas import Replicas
from sim.roster import Roster
from sim.terms import Terms
from sim.timeline import Tile, Timeline, slot_tiles

LONG_ROUNDS = 2.0
"""The timeline shows a barrier as `wait` if it is longer than this many healthy rounds."""


class Ledger:
    """Books the rounds of a run, and keeps the timeline.

    Replicas that went through a round alike are booked once, and a round in which no slot changed
    is the one before at other instants.
    """

    def __init__(self, terms: Terms, roster: Roster) -> None:
        self.terms, self.roster = terms, roster
        self.timeline = Timeline(LONG_ROUNDS * terms.course(terms.whole).release_s(0.0))
        self._stirred: set[int] = set(range(terms.replicas))  # in the last round
        self._last: GlobalStep | None = None
        self._snapshot_bytes = self._held_bytes = 0

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
        unused_s = self.roster.payroll.settle_unused()
        if self._last is not None and self.roster.is_calm_since(self._last.start_s):
            self._last = self._again(self._last, start_s, end_s, node_s, unused_s, spare_s)
            return self._last
        account = Account(self.terms, start_s, end_s)
        stirred = self.roster.changed | replicas.own.keys()
        if exchange.start_s - start_s > self.timeline.longest_barrier_s:
            stirred |= set(range(self.terms.replicas))  # somebody kept all of them waiting
        for rows in self._alike(stirred, start_s, end_s, replicas):
            self._book(account, rows, exchange, replicas, stirred)
        self._stirred, self.roster.changed = stirred, set()
        account.close(sum(node_s.values()), spare_s)
        nbytes = self._traffic(account, exchange, restore_bytes)
        self._held_bytes = self._held(exchange, nbytes)
        self._last = GlobalStep(
            index=index,
            start_s=start_s,
            end_s=end_s,
            steps=account.steps,
            sends=exchange.sends,
            joins=joins,
            compute_s=account.compute_s,
            slowness=account.slowness,
            slot_s=dict(zip(CLASSES, account.seconds.tolist(), strict=True)),
            ready_s=account.ready_s,
            spare_s=spare_s,
            node_s=node_s,
            unused_s=sum(unused_s.values()),
            stored_byte_s=self._held_bytes * (end_s - start_s),
            crossings={hop: count for hop, count in account.crossings.items() if count},
            nbytes=nbytes,
            usd=self._bill(end_s - start_s, node_s, unused_s, nbytes),
        )
        return self._last

    def _again(
        self,
        last: GlobalStep,
        start_s: float,
        end_s: float,
        node_s: dict[str, float],
        unused_s: dict[str, float],
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
            slowness=last.slowness,
            slot_s=last.slot_s,
            ready_s=last.ready_s,
            spare_s=spare_s,
            node_s=node_s,
            unused_s=sum(unused_s.values()),
            stored_byte_s=self._held_bytes * (end_s - start_s),
            crossings=last.crossings,
            nbytes=last.nbytes,
            usd=self._bill(end_s - start_s, node_s, unused_s, last.nbytes),
        )

    # --- slots ------------------------------------------------------------------------------

    def _alike(
        self, stirred: set[int], start_s: float, end_s: float, replicas: Replicas
    ) -> Iterator[list[int]]:
        """Replicas by what happened to them, those alike together."""
        special = self.roster.odd | self.roster.uneven | stirred | self._stirred
        whole = [r for r in range(self.terms.replicas) if r not in special]
        groups: dict[Hashable, list[int]] = {"whole": whole} if whole else {}
        for r in sorted(special):
            states = tuple(place.only_state(start_s, end_s) for place in self.roster.row(r))
            if None in states:
                stirred.add(r)
            is_alone = r in replicas.own or None in states
            groups.setdefault(r if is_alone else (states, replicas.kind(r)), []).append(r)
        yield from groups.values()

    def _book(
        self,
        account: Account,
        rows: Sequence[int],
        exchange: Exchange,
        replicas: Replicas,
        stirred: AbstractSet[int],
    ) -> None:
        """Book replicas that are alike, and their timelines where these may have changed."""
        plan, start_s, end_s = replicas[rows[0]], account.start_s, account.end_s
        tiles = [
            slot_tiles(place.log, [*did, self._fetched(place.slot, exchange)], start_s, end_s)
            for place, did in zip(self.roster.row(rows[0]), plan.intervals(), strict=True)
        ]
        account.add(rows, plan, tiles)
        uploading = plan.uploading()
        trains_from_s = [plan.end_s if s in uploading else NEVER_S for s in range(len(tiles))]
        for r in rows:
            if r in stirred or r in self._stirred:
                for s, place in enumerate(self.roster.row(r)):
                    own = tiles[s] if r == rows[0] else _of_worker(tiles[s], place.log[0][2])
                    self.timeline.add(place.slot, own, trains_from_s[s])

    def _fetched(self, slot: Slot, exchange: Exchange) -> Interval:
        """When a slot receives."""
        return exchange.start_s, exchange.start_s + float(exchange.slot_s[slot]), "sync"

    # --- bytes and dollars ------------------------------------------------------------------

    def _traffic(self, account: Account, exchange: Exchange, restore_bytes: int) -> dict[str, int]:
        """Bytes by kind; uploads that were begun and thrown away are billed whole."""
        sizes = self.terms.sizes
        stored = self.roster.joined.sum(axis=0) * self.terms.waits
        lost = [account.lost_uploads[stage] for stage in range(self.terms.stages)]
        return {
            "boundary": account.hop_bytes,
            "sync": exchange.nbytes,
            "restore": restore_bytes,
            "snapshot": _bytes(stored.tolist(), sizes.state_bytes),
            "lost_boundary": account.lost_hop_bytes,
            "lost_sync": _bytes(lost, sizes.update_bytes),
        }

    def _held(self, exchange: Exchange, nbytes: Mapping[str, int]) -> int:
        """Bytes in the store: the anchor, the uploads of the round, the newest snapshot."""
        sizes = self.terms.sizes
        self._snapshot_bytes = nbytes["snapshot"] or self._snapshot_bytes
        sends = exchange.sends.sum(axis=0) * self.terms.via.uploads
        uploads = _bytes(sends.tolist(), sizes.update_bytes)
        return sum(sizes.weights_bytes) + uploads + self._snapshot_bytes

    def _bill(
        self,
        round_s: float,
        node_s: Mapping[str, float],
        unused_s: Mapping[str, float],
        nbytes: Mapping[str, int],
    ) -> dict[str, float]:
        """Dollars of a round by what was paid for."""
        billed_s = {name: node_s[name] + unused_s[name] for name in node_s}
        held = self._held_bytes * round_s * self.terms.links.stored_usd_per_byte_s
        return {**self._dollars(billed_s, nbytes), "storage": held}

    def _dollars(self, node_s: Mapping[str, float], nbytes: Mapping[str, int]) -> dict[str, float]:
        """Worker-seconds x price, and bytes x egress of their link; lost bytes are billed too."""
        pools, links = self.terms.pools, self.terms.links
        hops_bytes = nbytes["boundary"] + nbytes["lost_boundary"]
        sync_bytes = nbytes["sync"] + nbytes["lost_sync"]
        store_bytes = nbytes["restore"] + nbytes["snapshot"]
        if self.terms.via.uploads:
            sync_bytes, store_bytes = 0, store_bytes + sync_bytes
        egress = hops_bytes * links.hop.usd_per_byte + store_bytes * links.up.usd_per_byte
        return {
            "compute": sum(node_s[name] * pools[name].usd_per_h / HOUR_S for name in node_s),
            "egress": egress + sync_bytes * self.terms.via.usd_per_byte,
        }


def _of_worker(tiles: Sequence[Tile], worker: int) -> list[Tile]:
    return [(start_s, end_s, what, worker) for start_s, end_s, what, _ in tiles]


def _bytes(counts: Sequence[int], each: Sequence[int]) -> int:
    return sum(count * nbytes for count, nbytes in zip(counts, each, strict=True))
