"""Keys of the network that are right alone and wrong together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from sim.networks import Regions, Ring

if TYPE_CHECKING:
    from scenarios.schema import Scenario

Problem = tuple[tuple[str | int, ...], str]


def network_problems(scenario: Scenario) -> Iterator[Problem]:
    """Every (location, message)."""
    network, pools = scenario.network, scenario.pools
    if isinstance(network.replicas, Ring) and scenario.method.outer.name == "sparseloco":
        yield (
            ("network", "replicas", "via"),
            "a ring adds dense updates, sparseloco's are sparse: use allgather or store",
        )
    if network.regions is not None:
        yield from _regions(scenario, network.regions)
        return
    told = [(("pools", name, key), getattr(pool, key)) for name, pool in pools.items()
            for key in ("region", "provider")]  # fmt: skip
    told.append((("network", "store", "region"), network.store.region))
    for loc, value in told:
        if value is not None:
            yield loc, f"is used only with network.regions (got {value!r})"


def _regions(scenario: Scenario, regions: Regions) -> Iterator[Problem]:
    if regions.file is not None:
        yield (
            ("network", "regions", "file"),
            "is read with the scenario itself: an arm can only give links",
        )
        return
    nowhere = [name for name, pool in scenario.pools.items() if pool.region is None]
    for name in nowhere:
        yield ("pools", name, "region"), "is needed with network.regions"
    places = [pool.region for pool in scenario.pools.values()] + [scenario.network.store.region]
    used = dict.fromkeys(region for region in places if region is not None)
    missing = [f"{a} -> {b}" for a, b in combinations(used, 2) if not regions.between(a, b)]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        yield ("network", "regions", "links"), f"has no {', '.join(missing[:3])}{more}"
