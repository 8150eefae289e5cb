"""Where measured pools lie on the failure-rate axis: `docs/evidence/regimes/`, from facts alone.

    python benchmarks/regimes.py [OUT]

Reads the catalogue; writes regimes.csv, and the figure of it as PNG and SVG.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

from analysis.rates_axis import write_rates_axis
from scenarios.catalogue import Regime, regimes

OUT = Path("docs/evidence/regimes")
STEPS_MIN = (1, 5, 20)
INNER_SLOTS = 2
"""Of a replica of four stages: those that the published regime takes."""
COLUMNS = (
    "pool", "kind", "date", "source", "losses_per_worker_hour", "in_bulk", "in_bulk_is",
    *(f"p_per_replica_at_{minutes}_min" for minutes in STEPS_MIN),
)  # fmt: skip


def row(name: str, kind: str, of: Regime) -> list[object]:
    """One pool: P(a replica loses at least one of its inner slots in a step)."""
    rate = of.losses_per_worker_hour * INNER_SLOTS
    steps = [1 - math.exp(-rate * minutes / 60) for minutes in STEPS_MIN]
    is_measured = kind == "zone" and "lost_in_bulk2" in of.measured
    bulk = "measured" if is_measured else "assumed" if kind == "zone" else "of the regime"
    told = [f"{value:.4g}" for value in steps]
    return [name, kind, of.date, of.source, of.losses_per_worker_hour, of.in_bulk, bulk, *told]


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.mkdir(parents=True, exist_ok=True)
    rows = [row(name, "regime", of) for name, of in regimes().items() if name != "volunteer"]
    rows += [row(name, "zone", of) for name, of in regimes("zones").items()]
    with (out / "regimes.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    print(write_rates_axis(out))


if __name__ == "__main__":
    main()
