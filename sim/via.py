"""How replicas exchange the updates of a stage: through a store, or among themselves. Pure.

Arrays are [replica, stage]: `sends`, whose update is in the aggregate; `here`, who receives it;
`kinds`, which kind of worker sits there, by which links are found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.network import Link, Links, Table
from sim.networks import AllGather, Network, Ring

Slots = NDArray[np.bool_]
Kinds = NDArray[np.int64]
Seconds = NDArray[np.float64]
Billed = Counter[float]
"""Bytes by their price, dollars a byte."""


def usd_of(billed: Billed) -> float:
    """Dollars of bytes x their price."""
    return sum(nbytes * usd_per_byte for usd_per_byte, nbytes in billed.items())


@dataclass(frozen=True)
class Members:
    """Who takes part in an exchange, and with what."""

    sends: Slots
    here: Slots
    kinds: Kinds
    update_bytes: Sequence[int]
    """[S]"""

    @cached_property
    def fetched(self) -> NDArray[np.int64]:
        """[R, S] updates of other replicas that a slot receives."""
        return np.asarray((self.sends.sum(axis=0) - self.sends) * self.here, dtype=np.int64)


class Via(Protocol):
    """A way to exchange updates."""

    @property
    def uploads(self) -> bool:
        """Whether a slot hands its update over as soon as it has it, and others fetch it later.

        If not, it keeps it until all are there, and a slot that is lost before has sent nothing.
        """

    def upload_s(self, nbytes: int, kind: int) -> float:
        """Seconds until an update has left the slot; 0 where the exchange takes it along."""

    def seconds(self, of: Members) -> Seconds:
        """[R, S] seconds from the start of the exchange until a slot has what it needs."""

    def billed(self, of: Members) -> Billed:
        """Bytes of all of it, uploads included."""


@dataclass(frozen=True)
class ByStore:
    """Every slot uploads its update, and fetches those of the other replicas in one go."""

    up: tuple[Link, ...]
    down: tuple[Link, ...]
    uploads: bool = True

    def upload_s(self, nbytes: int, kind: int) -> float:
        return self.up[kind].seconds(nbytes)

    def seconds(self, of: Members) -> Seconds:
        nbytes = of.fetched * np.asarray(of.update_bytes)
        latency_s = np.array([link.latency_s for link in self.down])[of.kinds]
        bytes_per_s = np.array([link.bytes_per_s for link in self.down])[of.kinds]
        return np.where(nbytes, latency_s + nbytes / bytes_per_s, 0.0)

    def billed(self, of: Members) -> Billed:
        both_ways = of.sends.sum(axis=0) + of.fetched.sum(axis=0)
        return Counter({self.up[0].usd_per_byte: int(both_ways @ np.asarray(of.update_bytes))})


@dataclass(frozen=True)
class ByAllGather:
    """Every slot gets the update of every sender from that sender, one after another.

    A sender gives it to all the others through one NIC, so none is done before that is.
    """

    peers: Table
    nics: tuple[float, ...]
    uploads: bool = False

    def upload_s(self, nbytes: int, kind: int) -> float:
        return 0.0

    def seconds(self, of: Members) -> Seconds:
        each_s = np.array(
            [[[link.seconds(n) for n in of.update_bytes] for link in row] for row in self.peers]
        )
        got_s = np.zeros(of.sends.shape)
        stages = np.arange(of.sends.shape[1])
        for kind, to in enumerate(each_s):  # [K, S] seconds from a sender of this kind
            from_kind = of.sends & (of.kinds == kind)
            got_s += (from_kind.sum(axis=0) - from_kind) * to[of.kinds, stages]
        others = of.here.sum(axis=0) - of.here
        nic_s = of.sends * others * np.asarray(of.update_bytes) / np.array(self.nics)[of.kinds]
        return np.asarray((of.fetched > 0) * np.maximum(got_s, nic_s.max(axis=0)))

    def billed(self, of: Members) -> Billed:
        found: Billed = Counter()
        for a, row in enumerate(self.peers):
            senders = of.sends & (of.kinds == a)
            for b, link in enumerate(row):
                receivers = of.here & (of.kinds == b)
                count = (senders.sum(axis=0) - senders) * receivers
                found[link.usd_per_byte] += int(count.sum(axis=0) @ np.asarray(of.update_bytes))
        return found


@dataclass(frozen=True)
class ByRing:
    """Ring all-reduce of dense updates: all who are here pass on parts, twice around.

    Those that send nothing take part with zeros, since they need the sum too. The ring goes by the
    number of the replica, and its slowest link sets the pace. Bandwidth-optimal ring: Patarasuk and
    Yuan, J. Parallel Distrib. Comput. 69 (2009).
    """

    peers: Table
    uploads: bool = False

    def upload_s(self, nbytes: int, kind: int) -> float:
        return 0.0

    def seconds(self, of: Members) -> Seconds:
        around_s = np.zeros(of.sends.shape[1])
        for stage, crossed in self._rings(of):
            n = crossed.total()
            part = of.update_bytes[stage] / n
            around_s[stage] = 2 * (n - 1) * max(link.seconds(part) for link in crossed)
        return np.asarray(of.here * around_s, dtype=np.float64)

    def billed(self, of: Members) -> Billed:
        found: Billed = Counter()
        for stage, crossed in self._rings(of):
            n, by_price = crossed.total(), Counter[float]()
            for link, count in crossed.items():
                by_price[link.usd_per_byte] += count
            for usd_per_byte, count in by_price.items():
                found[usd_per_byte] += 2 * (n - 1) * of.update_bytes[stage] * count // n
        return found

    def _rings(self, of: Members) -> list[tuple[int, Counter[Link]]]:
        """(stage, how often each link is in its ring), of the stages that somebody sends."""
        found = []
        for stage in np.flatnonzero(of.sends.any(axis=0) & of.here.any(axis=0)).tolist():
            kinds = of.kinds[of.here[:, stage], stage]
            pairs = Counter(zip(kinds.tolist(), np.roll(kinds, -1).tolist(), strict=True))
            crossed: Counter[Link] = Counter()
            for (a, b), count in pairs.items():
                crossed[self.peers[a][b]] += count
            found.append((stage, crossed))
        return found


def via(network: Network, links: Links) -> Via:
    """The exchange of a scenario."""
    if isinstance(network.replicas, Ring):
        return ByRing(links.peers)
    if isinstance(network.replicas, AllGather):
        return ByAllGather(links.peers, links.nics)
    return ByStore(links.up, links.down)
