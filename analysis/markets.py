"""What workers, links and storage cost in a study's scenarios, and whose workers an arm has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.folders import AnalysisError


@dataclass(frozen=True)
class PoolPrice:
    """What a worker-hour of a pool costs in the scenario."""

    market: str
    usd_per_h: float


def prices_of(
    folder: Path, scenarios: Mapping[str | None, dict[str, Any]]
) -> tuple[dict[str, PoolPrice], dict[str, float], float]:
    """Prices of pools, links and storage, which all arms must have in common.

    Raises:
        AnalysisError: they have not.
    """
    found: dict[str, PoolPrice] = {}
    links: dict[str, float] = {}
    stored: set[float] = set()
    for scenario in scenarios.values():
        for name, pool in scenario["pools"].items():
            price = PoolPrice(pool["market"] or "on_demand", float(pool["usd_per_h"]))
            if found.setdefault(name, price) != price:
                text = "give every market a pool of its own, empty where it is not used"
                raise AnalysisError(f"{folder}: pool {name} has several prices: {text}")
        network = scenario["network"]
        if network.get("regions"):
            raise AnalysisError(f"{folder}: network.regions: bytes of one link have several prices")
        own = {"stages": network["stages"]["usd_per_gb"], "store": network["store"]["usd_per_gb"]}
        own["replicas"] = network["replicas"].get("usd_per_gb", 0.0)
        stored.add(float(network["store"]["usd_per_gb_month"]))
        if {**own, **links} != own or len(stored) > 1:
            raise AnalysisError(f"{folder}: prices of links or storage differ between arms")
        links = own
    return found, links, stored.pop()


def market_of(used: set[str], scenario: Mapping[str, Any], pools: Mapping[str, PoolPrice]) -> str:
    """Where the workers that an arm hires come from, those on call left out.

    Args:
        used: pools of which it paid anybody.
    """
    hired = used - {told["pool"] for told in _fallbacks(scenario)}
    markets = {pools[name].market.replace("_", "-") for name in hired}
    return markets.pop() if len(markets) == 1 else "mix"


def fallback_of(scenario: Mapping[str, Any], swept: Collection[str]) -> str:
    """Where a slot falls back, and when, in words; empty: nowhere.

    Args:
        swept: keys that the study varies, whose value here is only one of many.
    """
    found = []
    for told in _fallbacks(scenario):
        wait_s, losses, when = told["after_wait_s"], told["after_losses"], list[str]()
        if wait_s is not None:
            wait = "a swept wait" if _is_swept("after_wait_s", swept) else f"{wait_s:g} s"
            when.append(f"{wait} after it fell vacant")
        if losses is not None:
            number = "a swept number of" if _is_swept("after_losses", swept) else losses
            when.append(f"at once from {number} losses of the slot on")
        found.append(f"{told['pool']}, {' or '.join(when)}")
    return "; ".join(dict.fromkeys(found))


def _is_swept(key: str, swept: Collection[str]) -> bool:
    return any(each.endswith(f"fallback.{key}") for each in swept)


def _fallbacks(scenario: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from (pool["fallback"] for pool in scenario["pools"].values() if pool.get("fallback"))
