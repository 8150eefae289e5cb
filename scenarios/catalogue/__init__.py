"""What comes with the package: named regimes, each with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import get_args

import yaml
from pydantic import Field, TypeAdapter

from sim.config import LAW_KEYS, Pool, RegimeName
from sim.strict import Strict

FILE = Path(__file__).parent / "regimes.yaml"


class Regime(Strict):
    """Laws of a kind of pool, and where they come from."""

    source: str = Field(description="Who measured.")
    date: int | str = Field(description="When.")
    losses_per_worker_hour: float = Field(gt=0, description="Per hour up, all causes.")
    in_bulk: float = Field(ge=0, le=1, description="Share of them taken by shocks.")
    fitted: str = Field(description="What was fitted, to what.")
    assumed: str = Field(description="What was not.")
    pool: Pool = Field(description="Only keys of laws.")


REGIMES: TypeAdapter[dict[RegimeName, Regime]] = TypeAdapter(dict[RegimeName, Regime])


@cache
def regimes() -> dict[RegimeName, Regime]:
    """All of them, by name."""
    found = REGIMES.validate_python(yaml.safe_load(FILE.read_text(encoding="utf-8")))
    assert set(found) == set(get_args(RegimeName)), "every name has its laws"
    return found


def with_regime(pool: Pool) -> Pool:
    """A pool with the laws of its regime where it tells none itself."""
    if pool.regime is None:
        return pool
    laws = regimes()[pool.regime].pool
    missing = [key for key in LAW_KEYS if key not in pool.model_fields_set]
    return pool.model_copy(update={key: getattr(laws, key) for key in missing})
