"""More seeds where the interval of a point's gap is wide, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.stats import interval
from scenarios.consistency import NO_FAILURE
from scenarios.plan import Plan
from scenarios.schema import SeedsUntil


def wanted(planned: Plan, summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """By label without seed: how many seeds a point shall have beyond the first ones, where that is
    one more than it has.

    The interval is over the seeds' gaps, each to the no-failure run of its own seed. A point of
    which a run failed, or that has no gap, is left as it is.
    """
    until = planned.sweep.seeds
    found: dict[str, int] = {}
    if not isinstance(until, SeedsUntil):
        return found
    for label, cells in planned.seeds.items():
        gaps = [summaries[cell]["val_loss_gap"] for cell in cells if cell in summaries]
        is_whole = len(gaps) == len(cells) and None not in gaps
        if planned.points[cells[0]].control == NO_FAILURE or not is_whole:
            continue
        so_far = interval(gaps)
        assert so_far is not None, "min is at least two"
        is_wide = so_far.half_width is not None and so_far.half_width > until.half_width
        if is_wide and len(cells) < until.max:
            found[label] = len(cells) + 1 - until.min
    return found
