"""Links: seconds and dollars of a number of bytes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sim.config import GB, MONTH_S, Network, Peers, StageNetwork

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


@dataclass(frozen=True)
class Links:
    """The link classes of a job."""

    hop: Link
    up: Link
    down: Link
    stored_usd_per_byte_s: float
    """Price of holding a byte in the store for a second."""


def links(network: Network) -> Links:
    """Links in bytes and seconds from the network of a scenario."""
    store = network.store
    return Links(
        hop=peer_link(network.stages),
        up=_link(store.up_mbps, store.latency_ms, store.usd_per_gb),
        down=_link(store.down_mbps, store.latency_ms, store.usd_per_gb),
        stored_usd_per_byte_s=store.usd_per_gb_month / GB / MONTH_S,
    )


def peer_link(way: StageNetwork | Peers) -> Link:
    """The link from a worker to another one."""
    return _link(way.bandwidth_mbps, way.latency_ms, way.usd_per_gb)


def _link(mbps: float, latency_ms: float, usd_per_gb: float) -> Link:
    return Link(latency_ms / 1e3, mbps * 1e6 / BITS, usd_per_gb / GB)
