"""What comes with the package: regimes and measured zones, each with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, TypeAdapter

from sim.config import LAW_KEYS, Name, Pool
from sim.durations import law, stretched
from sim.strict import Strict

FILES = {name: Path(__file__).parent / f"{name}.yaml" for name in ("regimes", "zones")}


class Regime(Strict):
    """Laws of a kind of pool, and where they come from."""

    source: str = Field(description="Who measured.")
    date: int | str = Field(description="When.")
    losses_per_worker_hour: float = Field(gt=0, description="Per hour up, all causes.")
    in_bulk: float = Field(ge=0, le=1, description="Share of them taken by shocks.")
    fitted: str = Field(description="What was fitted, to what.")
    assumed: str = Field(description="What was not.")
    measured: dict[str, float] = Field(
        default_factory=dict, description="Of a zone: what was counted; hours."
    )
    pool: Pool = Field(description="Only keys of laws.")


REGIMES: TypeAdapter[dict[Name, Regime]] = TypeAdapter(dict[Name, Regime])


@cache
def regimes(file: str = "regimes") -> dict[str, Regime]:
    """Kinds of pools, or with "zones" those that were measured; by name."""
    return REGIMES.validate_python(yaml.safe_load(FILES[file].read_text(encoding="utf-8")))


def find(name: str) -> Regime | None:
    """A regime or a measured zone."""
    return regimes().get(name) or regimes("zones").get(name)


def with_regime(pool: Pool) -> Pool:
    """A pool with the laws of its regime where it tells none itself, scaled as it says."""
    if pool.regime is None:
        return pool
    regime = find(pool.regime)
    if regime is None:
        return pool  # the scenario's consistency tells
    laws = _scaled(regime, pool)
    missing = [key for key in LAW_KEYS if key not in pool.model_fields_set]
    return pool.model_copy(update={key: getattr(laws, key) for key in missing})


def _scaled(regime: Regime, pool: Pool) -> Pool:
    """Laws of a regime, rarer or more frequent, shorter or longer; their shapes stay."""
    laws = regime.pool
    told: dict[str, Any] = {}
    if pool.losses_per_h is not None and laws.up_h is not None:
        rarer = regime.losses_per_worker_hour / pool.losses_per_h
        told["up_h"] = stretched(laws.up_h, rarer)
        if laws.shocks is not None:
            every_h = laws.shocks.every_h * rarer
            told["shocks"] = laws.shocks.model_copy(update={"every_h": every_h})
    if pool.mean_outage_h is not None and laws.outage_h is not None:
        told["outage_h"] = stretched(
            laws.outage_h, pool.mean_outage_h / law(laws.outage_h, 1.0).mean
        )
    return laws.model_copy(update=told)
