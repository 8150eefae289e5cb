"""Where a measured curve first comes down to a value: between two points, never beyond them."""

from __future__ import annotations

from collections.abc import Sequence


def first_at(losses: Sequence[float], target: float) -> tuple[int, float] | None:
    """(k, part): the target lies `part` of the way from point k - 1 to point k, in a straight line.

    k is the first point at or below it; part is 1 for the first point of all, which may have been
    there before it was looked at. None: no point is at or below.
    """
    k = next((i for i, loss in enumerate(losses) if loss <= target), None)
    if k is None:
        return None
    return k, (losses[k - 1] - target) / (losses[k - 1] - losses[k]) if k else 1.0
