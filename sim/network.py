"""Links: seconds and dollars of a number of bytes, and which one joins whom. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sim.config import GB, MONTH_S, Pool
from sim.networks import Network, Peers, StageNetwork

BITS = 8.0


@dataclass(frozen=True)
class Link:
    """Latency, then bytes at a rate."""

    latency_s: float
    bytes_per_s: float
    usd_per_byte: float

    def transfer_s(self, nbytes: float) -> float:
        """Seconds in which the link is busy with the bytes."""
        return nbytes / self.bytes_per_s

    def seconds(self, nbytes: float) -> float:
        """Seconds until the last byte has arrived; nothing to send takes none."""
        return self.latency_s + self.transfer_s(nbytes) if nbytes else 0.0


Table = tuple[tuple[Link, ...], ...]


@dataclass(frozen=True)
class Links:
    """The links of a job by the kind of worker at each end.

    Where the network tells no workers apart there is one kind, 0; else each pool is one.
    """

    kinds: Mapping[str, int]
    """Of the workers of a pool."""
    hops: Table
    """[K][K] between stages of a replica, from -> to."""
    peers: Table
    """[K][K] between replicas, from -> to."""
    up: tuple[Link, ...]
    """[K] to the store."""
    down: tuple[Link, ...]
    """[K] from the store."""
    nics: tuple[float, ...]
    """[K] bytes a second that a worker sends to all others together; infinite: no cap."""
    stored_usd_per_byte_s: float
    """Price of holding a byte in the store for a second."""

    @property
    def store_usd_per_byte(self) -> float:
        return self.up[0].usd_per_byte


def links(network: Network, pools: Mapping[str, Pool]) -> Links:
    """Links in bytes and seconds from the network of a scenario.

    A transfer between regions goes at min(NICs, streams x what a stream gets); one inside a region
    at that of its link class, capped by the NICs.
    """
    are_capped = any(pool.up_mbps or pool.down_mbps for pool in pools.values())
    told_apart = network.regions is not None or are_capped
    of = list(pools.items()) if told_apart else list(pools.items())[:1]
    replicas = network.replicas if isinstance(network.replicas, Peers) else network.stages

    def table(way: StageNetwork | Peers) -> Table:
        base = _link(way.bandwidth_mbps, way.latency_ms, way.usd_per_gb)
        return tuple(tuple(_between(network, base, a, b) for b in of) for a in of)

    return Links(
        kinds={name: k if told_apart else 0 for k, name in enumerate(pools)},
        hops=table(network.stages),
        peers=table(replicas),
        up=tuple(_to_store(network, pool, is_up=True) for _, pool in of),
        down=tuple(_to_store(network, pool, is_up=False) for _, pool in of),
        nics=tuple(_cap(pool.up_mbps) for _, pool in of),
        stored_usd_per_byte_s=network.store.usd_per_gb_month / GB / MONTH_S,
    )


def _between(network: Network, base: Link, a: tuple[str, Pool], b: tuple[str, Pool]) -> Link:
    """The link from a worker of one pool to one of another, or of the same."""
    (_, sender), (_, receiver) = a, b
    latency_s, rate, usd = base.latency_s, base.bytes_per_s, base.usd_per_byte
    if network.regions is not None:
        told = network.regions.between(sender.region or "", receiver.region or "")
        by_class = _class_price(network, a, b)
        usd = usd if by_class is None else by_class / GB
        if told is not None:
            latency_s = (told.rtt_ms or 0.0) / 2e3
            rate = network.regions.stream_mbps(told) * 1e6 / BITS
            usd = usd if told.usd_per_gb is None else told.usd_per_gb / GB
    return Link(latency_s, min(rate, _cap(sender.up_mbps), _cap(receiver.down_mbps)), usd)


def _class_price(network: Network, a: tuple[str, Pool], b: tuple[str, Pool]) -> float | None:
    assert network.regions is not None, "prices by class are of regions"
    prices, (zone, sender), (other, receiver) = network.regions.usd_per_gb, a, b
    if sender.provider != receiver.provider:
        return prices.internet
    if sender.region != receiver.region:
        return prices.cross_region
    return prices.same_zone if zone == other else prices.same_region


def _to_store(network: Network, pool: Pool, is_up: bool) -> Link:
    """A worker's link to the store or from it, over the regions between them."""
    store, regions = network.store, network.regions
    link = _link(store.up_mbps if is_up else store.down_mbps, store.latency_ms, store.usd_per_gb)
    latency_s = link.latency_s
    rate = min(link.bytes_per_s, _cap(pool.up_mbps if is_up else pool.down_mbps))
    if regions is not None and store.region is not None:
        ends = (pool.region or "", store.region)
        told = regions.between(*(ends if is_up else ends[::-1]))
        if told is not None:
            latency_s += (told.rtt_ms or 0.0) / 2e3
            rate = min(rate, regions.stream_mbps(told) * 1e6 / BITS)
    return Link(latency_s, rate, link.usd_per_byte)


def _cap(mbps: float | None) -> float:
    return math.inf if mbps is None else mbps * 1e6 / BITS


def _link(mbps: float, latency_ms: float, usd_per_gb: float) -> Link:
    return Link(latency_ms / 1e3, mbps * 1e6 / BITS, usd_per_gb / GB)
