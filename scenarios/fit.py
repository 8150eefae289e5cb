"""`stageout fit`: a trace read, fitted and held against a simulated pool; all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.fit_laws import Durations, Fitted, hazard, known, survival
from scenarios.fit_match import RUNS, Match, Pools, nearest
from scenarios.fit_trace import Fit, daily_rhythm, fit, pool_blocks, zone_correlation
from scenarios.traces import read_trace
from sim.traces.trace import TraceError

CURVE_POINTS = 60
"""Of a law in the figure."""
MOST_PLAYED = 20_000
"""Workers and losses of a trace that a pool is simulated against: more would take minutes."""


def fit_file(path: Path, zone: str | None = None, unit: str = "s") -> dict[str, Any]:
    """Read a trace, fit it, simulate the pool of it; all as JSON.

    Raises:
        TraceError: it cannot be read, or nobody is ever lost in it.
    """
    trace = read_trace(path, unit, zone)
    try:
        found = fit(trace, str(path))
    except ValueError as error:
        raise TraceError(str(path), 0, str(error)) from None
    several = pool_blocks(found)
    first = next(iter(several[0].values()))
    if not trace.has_outages or not {"up_h", "life_cap_h", "shocks"} & set(first):
        return told(found, several[0], [])
    if found.facts.workers + found.facts.losses > MOST_PLAYED:
        note = f"more than {MOST_PLAYED:,} workers and losses: the block is not held against them"
        found.notes.append(note)
        return told(found, several[0], [])
    return told(found, *nearest(several, found.facts))


def told(found: Fit, pools: Pools, match: Sequence[Match]) -> dict[str, Any]:
    """Everything as JSON; what is not known is null."""
    about = found.facts
    return {
        "source": found.source,
        "form": found.trace.form,
        "named": found.trace.named,
        "workers": about.workers,
        "zones": sorted(set(found.trace.zones)),
        "hours": about.hours,
        "availability": known(about.availability) if found.trace.has_outages else None,
        "losses": about.losses,
        "losses_per_worker_hour": known(about.losses_per_worker_hour),
        "bulk_share": known(about.bulk_share) if found.trace.has_outages else None,
        "mean_bulk": known(about.mean_bulk) if found.trace.has_outages else None,
        "largest_bulk": about.largest_bulk if found.trace.has_outages else None,
        "mean_outage_h": known(about.mean_outage_h),
        "autocorrelation_24h": daily_rhythm(found.trace) if found.trace.has_outages else None,
        "zone_correlation": zone_correlation(found.trace),
        "up": _durations(found.up, found.up_laws),
        "outage": _durations(found.outage, found.outage_laws),
        "own": _durations(found.own, found.own_laws) if found.own_laws else None,
        "pools": pools,
        "match": [row.told() for row in match],
        "runs": RUNS,
        "notes": found.notes,
    }


def _durations(seen: Durations, laws: Sequence[Fitted]) -> dict[str, Any]:
    curve = survival(seen) if len(seen.whole) else None
    return {
        "whole": len(seen.whole),
        "censored": len(seen.censored),
        "laws": [law.told() | {"curve": _curve(law, seen)} for law in laws],
        "survival": []
        if curve is None
        else [
            [known(float(x)) for x in row]
            for row in zip(curve.hours, curve.share, curve.low, curve.high, strict=True)
        ],
        "hazard": [list(row) for row in hazard(seen)],
    }


def _curve(law: Fitted, seen: Durations) -> list[list[float]]:
    """(hours, share that lasts longer) of a law, over what was seen."""
    hours = np.geomspace(seen.whole.min() / 3, seen.whole.max() * 1.3, CURVE_POINTS)
    return [[float(h), float(s)] for h, s in zip(hours, law.survival(hours), strict=True)]
