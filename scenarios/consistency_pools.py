"""Keys of the pools that are right alone and wrong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scenarios.catalogue import find, regimes
from scenarios.catalogue.prices import unknown
from sim.config import (
    LAW_KEYS,
    LOSS_KEYS,
    SCALE_KEYS,
    PerGlobalStep,
    Pool,
    PoolOutages,
    on_call,
)
from sim.durations import law
from sim.placement import Placement

if TYPE_CHECKING:
    from scenarios.schema import Scenario

Problem = tuple[tuple[str | int, ...], str]

LONGEST_BLOCK = 5.0
"""Mean block of refill in mean distances of shocks; it lasts about exp(this) shocks."""


def pool_problems(scenario: Scenario) -> Iterator[Problem]:
    """Every (location, message)."""
    pools = scenario.pools
    if not pools:
        yield ("pools",), "needs a pool; leave the key out for one of as many workers as slots"
        return
    chains = list(_fallbacks(scenario))
    yield from chains or _seats(scenario)
    for name, pool in pools.items():
        yield from _shocks(name, pool)
    yield from _laws(scenario)


def _seats(scenario: Scenario) -> Iterator[Problem]:
    """Whether the workers fill the slots."""
    bought = on_call(scenario.pools)
    hired = {name: pool for name, pool in scenario.pools.items() if name not in bought}
    nameless = [name for name, pool in hired.items() if pool.workers is None]
    if len(hired) > 1 and nameless:
        for name in nameless:
            yield ("pools", name, "workers"), "is needed when there is more than one pool"
        return
    try:
        Placement(scenario.cluster, scenario.resolved_pools())
    except ValueError as error:
        yield ("pools",) if scenario.cluster.place is None else ("cluster", "place"), str(error)


def _fallbacks(scenario: Scenario) -> Iterator[Problem]:
    """Pools that fall back on what cannot be bought; on call is who has no fallback itself."""
    pools = scenario.pools
    falling = {name: pool.fallback for name, pool in pools.items() if pool.fallback is not None}
    for name, fallback in falling.items():
        loc, other = ("pools", name, "fallback", "pool"), fallback.pool
        if other not in pools:
            yield loc, f"no such pool (got {other}; there are {list(pools)})"
        elif other == name:
            yield loc, f"a pool cannot fall back on itself (got {other})"
        elif other in falling:
            yield loc, f"{other} falls back itself, on {falling[other].pool}: name a last resort"
        elif pools[other].workers == 0:
            yield loc, f"{other} has nobody to be bought: it needs workers (got 0)"
        if isinstance(scenario.outages, PerGlobalStep):
            text = "needs outages.kind pools, trace or script: here everybody returns to their slot"
            yield ("pools", name, "fallback"), text
    keys = scenario.recovery.checkpoint
    if falling and keys is not None and keys.needs_rate and keys.every_global_steps == "auto":
        yield (
            ("recovery", "checkpoint", "every_global_steps"),
            "does not foresee slots that fall back: give a number, young, daly or never (got auto)",
        )


def _laws(scenario: Scenario) -> Iterator[Problem]:
    """Laws that nothing reads, and some that need others."""
    pools = scenario.pools
    by_law = isinstance(scenario.outages, PoolOutages)
    nowhere = {name: p.regime for name, p in pools.items() if p.regime and find(p.regime) is None}
    for name, regime in nowhere.items() if by_law else ():
        yield ("pools", name, "regime"), unknown(regime, {**regimes(), **regimes("zones")})
    for name, pool in pools.items():
        for key in ("regime", *SCALE_KEYS, *LAW_KEYS):
            if not by_law and getattr(pool, key) is not None:
                yield (
                    ("pools", name, key),
                    f"is used only with outages.kind: pools (got {scenario.outages.kind})",
                )
        for key in SCALE_KEYS:
            if getattr(pool, key) is not None and pool.regime is None:
                yield ("pools", name, key), "needs a regime beside it, whose laws it scales"
        if by_law and pool.outage_h is not None and not pool.loses:
            yield (
                ("pools", name, "outage_h"),
                f"needs {' or '.join(LOSS_KEYS)} beside it: this pool never fails",
            )
        if by_law and pool.refill_at_once is not None and pool.outage_h is None:
            yield ("pools", name, "refill_at_once"), "needs outage_h beside it: nobody comes back"
    if by_law and not nowhere and not any(pool.loses for pool in pools.values()):
        yield (
            ("outages", "kind"),
            f"no pool has {' or '.join(LOSS_KEYS)}, so nothing would ever fail",
        )


def _shocks(name: str, pool: Pool) -> Iterator[Problem]:
    """Blocks that the next shocks prolong before they end would hardly ever end."""
    if pool.shocks is None or pool.shocks.block_refill_h is None:
        return
    block_h, every_h = law(pool.shocks.block_refill_h, 1.0).mean, pool.shocks.every_h
    if block_h > LONGEST_BLOCK * every_h:
        yield (
            ("pools", name, "shocks", "block_refill_h"),
            f"blocks of {block_h:g} h under a shock every {every_h:g} h hardly ever end, and "
            f"nobody would come back: give at most {LONGEST_BLOCK:g} x every_h",
        )
