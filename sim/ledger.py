"""Where the slot-seconds, bytes and dollars of a round went. It closes, or it raises."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sim.account import Account
from sim.config import HOUR_S
from sim.exchange import Exchange
from sim.payroll import Settled
from sim.places import NEVER_S
from sim.records import CLASSES, GlobalStep
from sim.replicas import Replicas
from sim.roster import Roster
from sim.round_tiles import RoundTiles
from sim.terms import Terms
from sim.timeline import Timeline
from sim.undone import Undone
from sim.via import usd_of

LONG_ROUNDS = 2.0
"""The timeline shows a barrier as `wait` if it is longer than this many healthy rounds."""


class Ledger:
    """Books the rounds of a run, and tells their timeline.

    Replicas that went through a round alike are booked once, and stay together until something
    happens to one. A round in which no slot changed is the one before at other instants.
    """

    def __init__(self, terms: Terms, roster: Roster) -> None:
        self.terms, self.roster = terms, roster
        self.timeline = Timeline(LONG_ROUNDS * terms.training_s(roster.kinds))
        self._alone: set[int] = set(range(terms.replicas))  # in the last round
        self._turns: list[tuple[float, int]] = []  # when a slot of a replica turns by itself
        self._waited_long = False  # in the last round
        self._group_of: list[Hashable] = [None] * terms.replicas
        self._groups: dict[Hashable, set[int]] = {}
        self._account: Account | None = None  # of the last round
        self._last: GlobalStep | None = None
        self._snapshot_bytes = self._held_bytes = 0

    def close(
        self,
        index: int,
        start_s: float,
        exchange: Exchange,
        replicas: Replicas,
        joins: NDArray[np.int8],
        settled: Settled,
        undone: Undone | None = None,
    ) -> GlobalStep:
        """The record of a committed round, from what its replicas did and its slots were.

        Args:
            settled: what the roster says of the workers since the round before.
            undone: what was thrown away since then with a whole job that rolled back.

        Raises:
            LedgerError: the accounts do not close.
        """
        end_s = self.timeline.end_s = exchange.end_s
        is_undone = undone is not None and undone.happened
        waits_long = exchange.start_s - start_s > self.timeline.longest_barrier_s
        is_plain = exchange.checkpoint_s is None and not is_undone and not waits_long
        if is_plain and self._last is not None and self.roster.is_calm_since(self._last.start_s):
            self._last = self._again(self._last, start_s, end_s, settled)
            return self._last
        node_s, spare_s = settled.node_s, settled.spare_s
        undone = undone or Undone()
        account = Account(self.terms, start_s, end_s, self._account)
        stirred = self.roster.changed | replicas.own.keys()
        if waits_long or is_undone or self._waited_long:
            stirred |= set(range(self.terms.replicas))  # somebody kept all of them waiting
        tiles = RoundTiles(start_s, end_s, exchange, undone)
        for rows in self._alike(stirred, start_s, end_s, replicas):
            self._book(account, rows, replicas, stirred, tiles)
        self._waited_long = waits_long or is_undone
        self._account, self.roster.changed = account, set()
        account.close(sum(node_s.values()), spare_s)
        nbytes = self._traffic(account, exchange, settled, undone)
        self._held_bytes = self._held(exchange)
        egress = self._egress(account, exchange, nbytes, undone)
        billed_s = _billed_s(settled)
        step = GlobalStep(
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
            unused_s=sum(settled.unused_s.values()),
            billed_s=billed_s,
            link_bytes=self._link_bytes(nbytes),
            stored_byte_s=self._held_bytes * (end_s - start_s),
            crossings={hop: count for hop, count in account.crossings.items() if count},
            nbytes=nbytes,
            usd=self._bill(end_s - start_s, billed_s, egress),
            rows=self.timeline.take_ended(),
            spells=settled.spells,
        )
        self._last = step if is_plain else None  # what is out of the ordinary is not repeated
        return step

    def _again(
        self,
        last: GlobalStep,
        start_s: float,
        end_s: float,
        settled: Settled,
    ) -> GlobalStep:
        """A round in which no slot changed, after one like it: what is equal is shared."""
        billed_s = _billed_s(settled)
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
            spare_s=settled.spare_s,
            node_s=settled.node_s,
            unused_s=sum(settled.unused_s.values()),
            billed_s=billed_s,
            link_bytes=last.link_bytes,
            stored_byte_s=self._held_bytes * (end_s - start_s),
            crossings=last.crossings,
            nbytes=last.nbytes,
            usd=self._bill(end_s - start_s, billed_s, last.usd["egress"]),
            rows=(),
            spells=settled.spells,
        )

    # --- slots ------------------------------------------------------------------------------

    def _alike(
        self, stirred: set[int], start_s: float, end_s: float, replicas: Replicas
    ) -> Iterable[Collection[int]]:
        """Replicas by what happened to them, those alike together.

        Args:
            stirred: those to which something has happened; gets those that are not as in the
                round before.
        """
        doubtful = stirred | self._alone
        self._alone.clear()
        while self._turns and self._turns[0][0] < end_s:
            doubtful.add(heapq.heappop(self._turns)[1])
        for r in sorted(doubtful):
            row = self.roster.row(r)
            states = tuple([place.only_state(start_s, end_s) for place in row])
            if r in replicas.own or None in states:
                self._alone.add(r)  # and looked at again in the next round
                stirred.add(r)
                self._put(r, r)
                continue
            for place in row:
                if len(place.log) > 1:
                    heapq.heappush(self._turns, (place.log[1][0], r))
            if self._put(r, (states, replicas.kind(r))):
                stirred.add(r)
        return self._groups.values()

    def _put(self, r: int, group: Hashable) -> bool:
        """Whether the replica was in another group before."""
        before = self._group_of[r]
        if group == before:
            return False
        if before is not None:
            self._groups[before].remove(r)
            if not self._groups[before]:
                del self._groups[before]
        self._group_of[r] = group
        self._groups.setdefault(group, set()).add(r)
        return True

    def _book(
        self,
        account: Account,
        rows: Collection[int],
        replicas: Replicas,
        stirred: set[int],
        tiles: RoundTiles,
    ) -> None:
        """Book replicas that are alike, and their timelines where these may have changed."""
        first = next(iter(rows))
        plan = replicas[first]
        of_first = [tiles.of(place, plan) for place in self.roster.row(first)]
        fresh = stirred.intersection(rows)
        account.add(rows, plan, of_first, fresh)
        if not fresh:
            return
        uploading, stages = plan.uploading(), self.terms.stages
        for stage, of_slot in enumerate(of_first):
            trains_from_s = plan.end_s if stage in uploading else NEVER_S
            stretches = self.timeline.stretches(of_slot, trains_from_s)
            for r in fresh:
                place = self.roster.places[r * stages + stage]
                for worker, state, since_s in stretches:
                    who = worker if r == first else place.log[0][2]  # who is alike has one worker
                    self.timeline.add(place.slot, who, state, since_s)

    # --- bytes and dollars ------------------------------------------------------------------

    def _traffic(
        self, account: Account, exchange: Exchange, settled: Settled, undone: Undone
    ) -> dict[str, int]:
        """Bytes by kind; uploads that were begun and thrown away are billed whole."""
        sizes = self.terms.sizes
        lost = [account.lost_uploads[stage] for stage in range(self.terms.stages)]
        return {
            "boundary": account.hop_bytes,
            "sync": exchange.billed.total(),
            "restore": settled.restore_bytes + undone.restore_bytes,
            "snapshot": self._stored(exchange) + undone.snapshot_bytes,
            "lost_boundary": account.lost_hop_bytes + undone.hop_billed.total(),
            "lost_sync": _bytes(lost, sizes.update_bytes) + undone.sync_billed.total(),
        }

    def _stored(self, exchange: Exchange) -> int:
        """Bytes of the states that slots store at the end of the round (rule 7)."""
        is_due = exchange.checkpoint_s is not None or not self.terms.restarts
        if not is_due or not any(self.terms.keeps_state):
            return 0
        stored = self.roster.joined.sum(axis=0) * self.terms.keeps_state
        return _bytes(stored.tolist(), self.terms.sizes.state_bytes)

    def _held(self, exchange: Exchange) -> int:
        """Bytes in the store: the anchor, the uploads of the round, the newest snapshot."""
        sizes = self.terms.sizes
        self._snapshot_bytes = self._stored(exchange) or self._snapshot_bytes
        sends = exchange.sends.sum(axis=0) * self.terms.via.uploads
        uploads = _bytes(sends.tolist(), sizes.update_bytes)
        return sum(sizes.weights_bytes) + uploads + self._snapshot_bytes

    def _bill(
        self, round_s: float, billed_s: Mapping[str, float], egress: float
    ) -> dict[str, float]:
        """Dollars of a round by what was paid for."""
        pools = self.terms.pools
        return {
            "compute": sum(s * pools[name].usd_per_h / HOUR_S for name, s in billed_s.items()),
            "egress": egress,
            "storage": self._held_bytes * round_s * self.terms.links.stored_usd_per_byte_s,
        }

    def _egress(
        self, account: Account, exchange: Exchange, nbytes: Mapping[str, int], undone: Undone
    ) -> float:
        """Dollars of bytes x price of their link; lost bytes are billed too."""
        uploads = nbytes["lost_sync"] - undone.sync_billed.total()
        stored = uploads + nbytes["restore"] + nbytes["snapshot"]
        by_store = Counter({self.terms.links.store_usd_per_byte: stored})
        hops_usd = usd_of(account.hop_billed + undone.hop_billed)
        return hops_usd + usd_of(exchange.billed + undone.sync_billed + by_store)

    def _link_bytes(self, nbytes: Mapping[str, int]) -> dict[str, int]:
        """Bytes by class of link; those thrown away are billed too."""
        store = nbytes["restore"] + nbytes["snapshot"]
        sync = nbytes["sync"] + nbytes["lost_sync"]
        by_store = self.terms.via.uploads
        return {
            "stages": nbytes["boundary"] + nbytes["lost_boundary"],
            "store": store + sync if by_store else store,
            "replicas": 0 if by_store else sync,
        }


def _billed_s(settled: Settled) -> dict[str, float]:
    """Worker-seconds by pool that are paid for."""
    return {name: s + settled.unused_s[name] for name, s in settled.node_s.items()}


def _bytes(counts: Sequence[int], each: Sequence[int]) -> int:
    return sum(count * nbytes for count, nbytes in zip(counts, each, strict=True))
