"""Instances and devices: what a machine costs, what it holds, how fast it is, who says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from scenarios.strict_yaml import decode, read
from sim.config import Market, Name, Pool
from sim.strict import Strict

FOLDER = Path(__file__).parent
Price = Annotated[float, Field(ge=0)]
T = TypeVar("T")
STALE = timedelta(days=365)
"""A price older than this says so in every output."""


def day(told: str) -> date:
    """The day of a date that may leave out day and month: the first of them.

    Raises:
        ValueError, TypeError: it is no date.
    """
    parts = [int(part) for part in told.split("-")]
    return date(*parts, *[1] * (3 - len(parts)))


def _is_a_date(told: str) -> str:
    try:
        day(told)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"must be a date such as 2026-07-20 or 2026-07 (got {told!r})") from None
    return told


Date = Annotated[
    str,
    BeforeValidator(lambda told: str(told) if type(told) is int else told),
    AfterValidator(_is_a_date),
]


class Device(Strict):
    """A GPU."""

    dense_tflops: float = Field(gt=0, description="Dense bf16 peak; fp16 where there is no bf16.")
    memory_gb: float = Field(gt=0, description="Memory, 1e9 bytes.")
    date: Date = Field(description="When that was so: 2026, 2026-07 or 2026-07-20.")
    source: str = Field(description="Who says so.")


class Instance(Strict):
    """A machine that can be rented, whole."""

    cloud: str = Field("own", description="Who rents it out.")
    region: str | None = Field(None, description="Where it costs that.")
    gpus: int = Field(1, ge=1, description="Devices in it.")
    device: Name = Field(description="Name of a device.")
    on_demand_usd_per_h: Price | None = Field(None, description="List price of the machine.")
    spot_usd_per_h: Price | None = Field(None, description="Spot price of the machine.")
    spot_seen_usd_per_h: Annotated[list[Price], Field(min_length=2, max_length=2)] | None = Field(
        None, description="Lowest and highest spot price seen."
    )
    spot_series: str | None = Field(
        None, description="CSV of time and spot price, instead of the two; read when loaded."
    )
    reserved_usd_per_h: Price | None = Field(None, description="Price under a contract.")
    notice_s: Annotated[float, Field(ge=0)] = Field(
        0.0, description="Warning before a spot machine is taken away."
    )
    date: Date = Field(description="When that was so: 2026, 2026-07 or 2026-07-20.")
    source: str = Field(description="Who says so.")

    @model_validator(mode="after")
    def _one_spot_price(self) -> Instance:
        if self.spot_series is not None and self.spot_usd_per_h is not None:
            raise ValueError("give one of spot_usd_per_h and spot_series")
        return self

    def usd_per_h(self, market: Market) -> float | None:
        """Its price in a market; None where the row has none."""
        found: float | None = getattr(self, f"{market}_usd_per_h")
        return found


class Vms(Strict):
    """A `vms.csv` of SkyPilot's catalogue, of one cloud."""

    file: str = Field(description="The file, beside the one that names it.")
    cloud: str = Field("own", description="Whose prices these are.")
    region: str = Field(description="The region to take; of its zones the cheapest spot price.")
    date: Date = Field(description="When the prices were so; the file does not tell.")
    notice_s: Annotated[float, Field(ge=0)] = Field(0.0, description="Of its spot machines.")


class Catalogue(Strict):
    """Rows on top of those that come with the package; a resolved scenario has those it used."""

    file: str | None = Field(
        None, description="YAML of this form, beside the scenario; read when loaded."
    )
    vms: Vms | None = Field(None, description="SkyPilot's vms.csv; read when loaded.")
    instances: dict[Name, Instance] = Field(default_factory=dict, description="By name.")
    devices: dict[Name, Device] = Field(default_factory=dict, description="By name.")

    def instance(self, name: str) -> Instance | None:
        """A row of one's own, else the package's."""
        return self.instances.get(name) or instances().get(name)

    def device(self, name: str) -> Device | None:
        """A row of one's own, else the package's."""
        return self.devices.get(name) or devices().get(name)

    def with_used(self, of_pools: set[str], device: str | None) -> Catalogue:
        """With the package's rows of some names, so that a resolved file says what it rests on."""
        own = {name: self.instance(name) for name in sorted(of_pools)}
        its = {device: self.device(device)} if device is not None else {}
        return self.model_copy(
            update={
                "instances": {**self.instances, **_known(own)},
                "devices": {**self.devices, **_known(its)},
            }
        )


def _known(rows: Mapping[str, T | None]) -> dict[str, T]:
    return {name: row for name, row in rows.items() if row is not None}


@cache
def instances() -> Mapping[str, Instance]:
    """The package's instances by name."""
    return TypeAdapter(dict[Name, Instance]).validate_python(_plain("instances.yaml"))


@cache
def devices() -> Mapping[str, Device]:
    """The package's devices by name."""
    return TypeAdapter(dict[Name, Device]).validate_python(_plain("devices.yaml"))


def _plain(name: str) -> object:
    file = FOLDER / name
    node, problems = read(decode(file.read_bytes(), str(file)), str(file))
    assert not problems, "it comes with the package, and a test reads it"
    return node.plain()


# --- what rows say of pools ---------------------------------------------------------------------


def with_instance(pool: Pool, catalogue: Catalogue) -> Pool:
    """A pool with price and notice of its instance, where it tells none itself."""
    row = catalogue.instance(pool.instance) if pool.instance is not None else None
    if row is None:
        return pool
    market = pool.market or "on_demand"
    found: dict[str, object] = {"market": market, "usd_per_h": row.usd_per_h(market)}
    if market == "spot":
        found["notice_s"] = row.notice_s
    told = {k: v for k, v in found.items() if v is not None and k not in pool.model_fields_set}
    return pool.model_copy(update={**told, "market": market})


def machines(pools: Mapping[str, Pool], catalogue: Catalogue) -> set[tuple[str, int]]:
    """(device, how many) of the instances of the pools."""
    rows = (catalogue.instance(pool.instance) for pool in pools.values() if pool.instance)
    return {(row.device, row.gpus) for row in rows if row is not None}


def stale(pools: Mapping[str, Pool], catalogue: Catalogue, today: date) -> list[str]:
    """A sentence for each instance of which a pool pays a price of more than a year ago, or of a
    day to come."""
    found: dict[str, None] = {}
    for pool in pools.values():
        row = catalogue.instance(pool.instance) if pool.instance is not None else None
        if row is None or pool.usd_per_h != row.usd_per_h(pool.market or "on_demand"):
            continue
        if today - day(row.date) > STALE:
            found[f"the price of {pool.instance} is of {row.date}, more than a year old"] = None
        elif day(row.date) > today:
            found[f"the price of {pool.instance} is of {row.date}, a day to come"] = None
    return list(found)


def wrong_with(pool: Pool, catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """(key, message) of what the catalogue cannot tell of a pool."""
    if pool.instance is None:
        if pool.market is not None:
            yield "market", "is used only with instance: it chooses one of the instance's prices"
        return
    row = catalogue.instance(pool.instance)
    if row is None:
        yield "instance", unknown(pool.instance, {**instances(), **catalogue.instances})
        return
    market = pool.market or "on_demand"
    if row.usd_per_h(market) is None and "usd_per_h" not in pool.model_fields_set:
        yield (
            "market",
            f"{pool.instance} has no {market} price in the catalogue: give usd_per_h, or a row of "
            f"your own in catalogue.instances",
        )


def unknown(name: str, known: Mapping[str, object]) -> str:
    """What to say of a name that the catalogue does not have."""
    near = get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"is not in the catalogue (got '{name}'){hint}"
