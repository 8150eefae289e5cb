"""How workers talk: links by class, or from a table of regions. Frozen; a line a field."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sim.strict import Name, Strict

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class StageNetwork(Strict):
    """Every hop between two stages of a replica; full duplex."""

    bandwidth_mbps: float = Field(5000.0, gt=0, description="Megabits a second, each way.")
    latency_ms: float = Field(0.5, ge=0, description="Added to every transfer.")
    usd_per_gb: float = Field(0.0, ge=0, description="Egress price of a gigabyte (1e9 bytes).")


class ByStore(Strict):
    """Every slot uploads its update to the object store and fetches those of the others."""

    via: Literal["store"] = "store"


class Peers(Strict):
    """The way from a slot to the same stage of another replica."""

    bandwidth_mbps: float = Field(1000.0, gt=0, description="Megabits a second, each way.")
    latency_ms: float = Field(30.0, ge=0, description="Added to every transfer.")
    usd_per_gb: float = Field(0.0, ge=0, description="Egress price of a gigabyte (1e9 bytes).")


class Ring(Peers):
    """Ring all-reduce: updates are added on the way; they must be dense."""

    via: Literal["ring"]


class AllGather(Peers):
    """Every slot gets every update from the slot that made it."""

    via: Literal["allgather"]


ReplicaNetwork = Annotated[ByStore | Ring | AllGather, Field(discriminator="via")]


class StoreNetwork(Strict):
    """A worker's way to and from the object store."""

    up_mbps: float = Field(1000.0, gt=0, description="Megabits a second, upload.")
    down_mbps: float = Field(2000.0, gt=0, description="Megabits a second, download.")
    latency_ms: float = Field(30.0, ge=0, description="Added to every transfer.")
    usd_per_gb: float = Field(0.0, ge=0, description="Price of a gigabyte (1e9 bytes), up or down.")
    usd_per_gb_month: float = Field(
        0.0, ge=0, description="Price of holding a gigabyte for 730 hours."
    )
    region: Name | None = Field(
        None, description="Where it is, with network.regions; null: equally near to all."
    )


class RegionLink(Strict):
    """From one region to another."""

    rtt_ms: NotNegative | None = Field(None, description="There and back; half of it is latency.")
    mbps: Positive | None = Field(
        None, description="Megabits a second of one TCP stream; null: window / RTT."
    )
    usd_per_gb: NotNegative | None = Field(
        None, description="Egress price of a gigabyte; null: by class."
    )

    @model_validator(mode="after")
    def _has_a_rate(self) -> RegionLink:
        if self.mbps is None and not self.rtt_ms:
            raise ValueError("needs mbps, or an rtt_ms above 0 to derive it from")
        return self


class Egress(Strict):
    """Price of a gigabyte between two workers by where they are; null: that of the link class."""

    same_zone: NotNegative | None = Field(None, description="Workers of one pool.")
    same_region: NotNegative | None = Field(None, description="Two pools of a region.")
    cross_region: NotNegative | None = Field(None, description="Two regions.")
    internet: NotNegative | None = Field(None, description="Two providers.")


class Regions(Strict):
    """Links between workers of different regions; `pools.X.region` says where a worker is."""

    links: dict[Name, dict[Name, RegionLink]] = Field(
        default_factory=dict, description="From -> to; what is not told holds both ways."
    )
    file: str | None = Field(
        None, description="CSV of more links, beside the scenario: read when that is loaded."
    )
    where: dict[str, str] = Field(
        default_factory=dict, description="Lines of the file to keep: column -> text."
    )
    streams: int = Field(1, ge=1, description="TCP streams of a transfer, side by side.")
    window_mbit: float = Field(
        21.5,
        gt=0,
        description="Megabits a TCP stream has under way: its rate is this / RTT.",
    )
    usd_per_gb: Egress = Field(default_factory=Egress, description="Egress by class.")

    def between(self, a: str, b: str) -> RegionLink | None:
        """The link from a region to another one, or the one back where only that is told."""
        return self.links.get(a, {}).get(b) or self.links.get(b, {}).get(a)

    def stream_mbps(self, link: RegionLink) -> float:
        """Megabits a second of all streams together, before any NIC."""
        one = link.mbps if link.mbps is not None else self.window_mbit * 1e3 / (link.rtt_ms or 1.0)
        return self.streams * one


class Network(Strict):
    """Links by class; between regions from a table."""

    stages: StageNetwork = Field(default_factory=StageNetwork, description="Between stages.")
    replicas: ReplicaNetwork = Field(default_factory=ByStore, description="Exchange.")
    store: StoreNetwork = Field(default_factory=StoreNetwork, description="Object store.")
    regions: Regions | None = Field(None, description="Links between regions; null: all are alike.")
