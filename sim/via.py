"""How replicas exchange the updates of a stage: through a store, or among themselves. Pure.

Arrays are [replica, stage]: `sends`, whose update is in the aggregate; `here`, who receives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.config import AllGather, Network, Ring
from sim.network import Link, links, peer_link

Slots = NDArray[np.bool_]
Seconds = NDArray[np.float64]


class Via(Protocol):
    """A way to exchange updates."""

    @property
    def uploads(self) -> bool:
        """Whether a slot hands its update over as soon as it has it, and others fetch it later.

        If not, it keeps it until all are there, and a slot that is lost before has sent nothing.
        """

    @property
    def usd_per_byte(self) -> float:
        """Price of a byte that is exchanged."""

    def upload_s(self, nbytes: int) -> float:
        """Seconds until an update has left the slot; 0 where the exchange takes it along."""

    def seconds(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> Seconds:
        """[R, S] seconds from the start of the exchange until a slot has what it needs."""

    def nbytes(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> int:
        """Bytes that are billed."""


@dataclass(frozen=True)
class ByStore:
    """Every slot uploads its update, and fetches those of the other replicas in one go."""

    up: Link
    down: Link
    uploads: bool = True

    @property
    def usd_per_byte(self) -> float:
        return self.up.usd_per_byte

    def upload_s(self, nbytes: int) -> float:
        return self.up.seconds(nbytes)

    def seconds(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> Seconds:
        nbytes = fetched(sends, here) * np.asarray(update_bytes)
        return np.where(nbytes, self.down.latency_s + nbytes / self.down.bytes_per_s, 0.0)

    def nbytes(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> int:
        both_ways = sends.sum(axis=0) + fetched(sends, here).sum(axis=0)
        return int(both_ways @ np.asarray(update_bytes))


@dataclass(frozen=True)
class ByAllGather:
    """Every slot gets the update of every sender from that sender, one after another."""

    link: Link
    uploads: bool = False

    @property
    def usd_per_byte(self) -> float:
        return self.link.usd_per_byte

    def upload_s(self, nbytes: int) -> float:
        return 0.0

    def seconds(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> Seconds:
        each_s = np.array([self.link.seconds(nbytes) for nbytes in update_bytes])
        return np.asarray(fetched(sends, here) * each_s, dtype=np.float64)

    def nbytes(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> int:
        return int(fetched(sends, here).sum(axis=0) @ np.asarray(update_bytes))


@dataclass(frozen=True)
class ByRing:
    """Ring all-reduce of dense updates: all who are here pass on parts, twice around.

    Those that send nothing take part with zeros, since they need the sum too. Bandwidth-optimal
    ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009).
    """

    link: Link
    uploads: bool = False

    @property
    def usd_per_byte(self) -> float:
        return self.link.usd_per_byte

    def upload_s(self, nbytes: int) -> float:
        return 0.0

    def seconds(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> Seconds:
        members = _members(sends, here)
        parts = np.asarray(update_bytes) / np.maximum(members, 1)
        each_s = self.link.latency_s + parts / self.link.bytes_per_s
        around_s = 2 * (members - 1).clip(min=0) * each_s
        return np.asarray(here * around_s, dtype=np.float64)

    def nbytes(self, sends: Slots, here: Slots, update_bytes: Sequence[int]) -> int:
        rounds = 2 * (_members(sends, here) - 1).clip(min=0)
        return int(rounds @ np.asarray(update_bytes))


def fetched(sends: Slots, here: Slots) -> NDArray[np.int64]:
    """[R, S] updates of other replicas that a slot receives."""
    return np.asarray((sends.sum(axis=0) - sends) * here, dtype=np.int64)


def _members(sends: Slots, here: Slots) -> NDArray[np.int64]:
    """[S] slots in the ring of a stage; none where nobody sends."""
    return np.asarray(here.sum(axis=0) * sends.any(axis=0), dtype=np.int64)


def via(network: Network) -> Via:
    """The exchange of a scenario."""
    if isinstance(network.replicas, Ring):
        return ByRing(peer_link(network.replicas))
    if isinstance(network.replicas, AllGather):
        return ByAllGather(peer_link(network.replicas))
    of = links(network)
    return ByStore(of.up, of.down)
