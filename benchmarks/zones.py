"""Statistics of measured zones -> `scenarios/catalogue/zones.yaml`: facts, and laws by one rule.

    python benchmarks/zones.py DERIVED > scenarios/catalogue/zones.yaml

DERIVED is a folder with spot_regime_fits.csv (single machines) and spot_multinode_bulk_stats.csv
(several). A pool loses what the zone lost: `every_h` of shocks is share / (in_bulk x losses), and
the mean of `up_h` is such that law and shocks together lose so many.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from sim.config import Pool
from sim.fate import mean_up_s

COMMIT = "221da1a"
SOURCE = f"SkyPilot spot traces (github.com/skypilot-org/spot-traces, {COMMIT})"
BULK_OF_SINGLES, SHARE_OF_SINGLES = 0.98, 0.9
"""Assumed of zones in which one machine was watched: zones of sixteen lost 0.98-0.99 in bulk."""
BLOCK_H = 0.18
"""Median time to the first return after bulk losses of other pools; assumed everywhere."""
HEADER = """\
# Measured zones as regimes (`pools.NAME.regime`), AWS spot, by zone, machine, date. Facts: our
# own statistics, computed 2026-11-29, of a repository that has no licence, so no row of it is
# here. `measured` is what was counted (hours), `pool` the laws that `benchmarks/zones.py` makes of
# it. Spells shorter than the sampling gap (32-600 s) are invisible.
"""
TEXTS = ("regime", "kind", "up_best", "down_best")
SINGLE_FACTS = [
    "hours",
    "availability",
    "mtbf_h",
    "up_weibull_shape",
    "mttr_h",
    "down_median_h",
    "down_lognorm_sigma",
    "acf_24h",
]
SEVERAL_FACTS = [
    "hours",
    "mean_nodes",
    "frac_full",
    "frac_zero",
    "events",
    "lost",
    "rate_per_node_h",
    "mean_bulk",
    "lost_in_bulk2",
    "full_up_wb_k",
    "full_dn_mean_h",
    "full_dn_med_h",
    "acf24h",
]
SINGLE = {
    "fitted": "of one machine: rate, Weibull shape of times up, mean and sigma of outages",
    "assumed": "in_bulk, after zones of sixteen; share of a shock; 0.18 h of blocked refill",
}
SEVERAL = {
    "fitted": "rate; in_bulk; share: mean bulk over the machines there; shape of full spells",
    "assumed": "outages last as long as the pool is not full; 0.18 h of blocked refill",
}


def name_of(series: str) -> str:
    """`..._aws-02-15-2023_us-east-1a_v100_1` or `.../aws-08-27-2023/us-east-2b_v100_1.json`."""
    nodes, month, _, year, zone, machine, count = re.fullmatch(
        r".*[_/](\d+)-node[_/]aws-(\d+)-(\d+)-(\d+)[_/]([a-z0-9-]+)_([a-z0-9]+)_(\d+)(?:\.json)?",
        series,
    ).groups()  # type: ignore[union-attr]
    kind = machine if count == "1" or machine == "intel" else f"{count}x{machine}"
    several = "" if nodes == "1" else f"-{nodes}-nodes"
    return f"{zone}-{kind}-{year}-{month}{several}"


def pool_of(
    losses: float, in_bulk: float, share: float, shape: float, outage: dict[str, Any]
) -> dict[str, Any]:
    """Laws that lose `losses` a worker-hour up, `in_bulk` of them by shocks."""
    every_h = float(f"{share / (in_bulk * losses):.4g}")
    shocks = {"every_h": every_h, "share": share}
    block = BLOCK_H if every_h >= BLOCK_H else None
    shocks |= {"block_refill_h": block} if block else {}

    def lost(mean_h: float) -> float:
        law = {"law": "weibull", "mean": mean_h, "shape": shape}
        of = {key: value for key, value in shocks.items() if key != "block_refill_h"}
        return 3600.0 / mean_up_s(Pool.model_validate({"up_h": law, "shocks": of}))

    low, high = 1.0 / losses, 1e5 / losses
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if lost(middle) > losses else (low, middle)
    up = {"law": "weibull", "mean": float(f"{low:.3g}"), "shape": shape}
    return {"up_h": up, "outage_h": outage, "shocks": shocks}


def singles(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Zones in which one machine was watched."""
    for row in csv.DictReader(path.open(encoding="utf-8")):
        number = {key: float(row[key]) for key in row if key not in TEXTS}
        losses = float(f"{1 / number['mtbf_h']:.4g}")
        sigma, shape = number["down_lognorm_sigma"], number["up_weibull_shape"]
        outage = {"law": "lognormal", "mean": number["mttr_h"], "sigma": sigma}
        yield (
            name_of(row["regime"]),
            {
                "source": SOURCE,
                "date": date_of(row["regime"]),
                "losses_per_worker_hour": losses,
                "in_bulk": BULK_OF_SINGLES,
                **SINGLE,
                "measured": {key: number[key] for key in SINGLE_FACTS},
                "pool": pool_of(losses, BULK_OF_SINGLES, SHARE_OF_SINGLES, shape, outage),
            },
        )


def several(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Zones in which four or sixteen machines were watched."""
    for row in csv.DictReader(path.open(encoding="utf-8")):
        number = {key: float(row[key]) for key in row if key != "trace"}
        there = number["mean_nodes"] / (1 - number["frac_zero"])
        bulk = number["lost_in_bulk2"] * number["lost"] / (number["ev_ge2"] * number["events"])
        share = float(f"{min(1.0, bulk / there):.3g}")
        mean, median = number["full_dn_mean_h"], number["full_dn_med_h"]
        sigma = float(f"{math.sqrt(2 * math.log(mean / median)):.3g}")
        losses, in_bulk = number["rate_per_node_h"], number["lost_in_bulk2"]
        outage = {"law": "lognormal", "mean": mean, "sigma": sigma}
        yield (
            name_of(row["trace"]),
            {
                "source": SOURCE,
                "date": date_of(row["trace"]),
                "losses_per_worker_hour": losses,
                "in_bulk": in_bulk,
                **SEVERAL,
                "measured": {key: number[key] for key in SEVERAL_FACTS},
                "pool": pool_of(losses, in_bulk, share, number["full_up_wb_k"], outage),
            },
        )


def date_of(series: str) -> str:
    """The first day."""
    month, day, year = re.search(r"aws-(\d+)-(\d+)-(\d+)", series).groups()  # type: ignore[union-attr]
    return f"{year}-{month}-{day}"


def main() -> None:
    derived = Path(sys.argv[1])
    found = dict(singles(derived / "spot_regime_fits.csv"))
    found |= dict(several(derived / "spot_multinode_bulk_stats.csv"))
    text = yaml.safe_dump(found, sort_keys=False, width=110, default_flow_style=None)
    print(HEADER + text, end="")


if __name__ == "__main__":
    main()
