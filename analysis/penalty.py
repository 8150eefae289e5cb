"""What outages do to the loss of cells that were never trained, told from cells that were.

Where every slot's whole state is kept (`wait`, `restart`) the training is that of the no-failure
run to the bit: no penalty, by rule and not by fit. Else, per policy and codec, of trained points

    gap = x (a + b ln D)    x: degraded share, D: mean outage in global steps

by least squares: nothing degraded costs nothing. b needs two outage lengths. The error is what a
point is missed by when it is left out. Never used beyond the trained points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis.folders import find
from analysis.stats import root_mean_square
from analysis.sweep import gap as gap_of
from analysis.sweep import sweep_of
from analysis.whatif_grid import codec_of, mean_outage_rounds, policy_of, scenario_of

LOSSLESS = {"wait", "restart"}
FEWEST = 3
"""Trained points below which nothing is fitted."""
Kind = Literal["exact", "measured", "interpolated", "unknown"]


@dataclass(frozen=True)
class Trained:
    """A point of a study that was trained, over its seeds."""

    degraded_share: float
    outage_rounds: float
    gap: float


@dataclass(frozen=True)
class Response:
    """The fitted gap of a policy and codec."""

    policy: str
    codec: str
    per_share: float
    """a: nats where everything is degraded and outages last one global step."""
    per_log_round: float
    """b: nats more for every e-fold of the outage; 0 where one length was trained."""
    error: float
    """Root mean square of what the points are missed by when left out, nats."""
    points: int
    most_degraded: float
    rounds: tuple[float, float]
    """Shortest and longest mean outage that was trained."""

    def gap(self, degraded_share: float, outage_rounds: float | None) -> float | None:
        """Nats; None outside what was trained."""
        if degraded_share == 0.0:
            return 0.0
        shortest, longest = self.rounds
        if outage_rounds is None:
            return None
        if degraded_share > self.most_degraded or not shortest <= outage_rounds <= longest:
            return None
        return degraded_share * (self.per_share + self.per_log_round * math.log(outage_rounds))


@dataclass(frozen=True)
class Penalty:
    """Nats above the no-failure run, how it is known, and how well."""

    kind: Kind
    gap: float | None
    error: float | None
    why: str


def responses(folder: Path) -> tuple[Response, ...]:
    """What the trained points of a study say, per policy and codec.

    Raises:
        AnalysisError: no study, or a broken file.
    """
    sweep = sweep_of(find(folder))
    found: dict[tuple[str, str], list[Trained]] = {}
    codecs: dict[str | None, str] = {}
    for point in sweep.points if sweep is not None else ():
        gap, share, rounds = (
            point.mean(read) for read in (gap_of, _degraded_share, mean_outage_rounds)
        )
        if gap is None or not share or not rounds:
            continue
        entry = point.done[0].entry
        assert entry is not None, "done"
        if point.arm not in codecs:
            codecs[point.arm] = codec_of(scenario_of(entry))
        key = (policy_of(entry.summary), codecs[point.arm])
        found.setdefault(key, []).append(Trained(share, rounds, gap))
    return tuple(
        fit(policy, codec, points)
        for (policy, codec), points in found.items()
        if len(points) >= FEWEST
    )


def _degraded_share(summary: Mapping[str, Any]) -> float:
    return float(summary["degraded_share"])


def fit(policy: str, codec: str, points: Sequence[Trained]) -> Response:
    """The response of at least three trained points."""
    per_share, per_log_round = _solve(points)
    missed = []
    for i, point in enumerate(points):
        a, b = _solve([*points[:i], *points[i + 1 :]])
        told = point.degraded_share * (a + b * math.log(point.outage_rounds))
        missed.append(told - point.gap)
    lengths = [point.outage_rounds for point in points]
    return Response(
        policy=policy,
        codec=codec,
        per_share=per_share,
        per_log_round=per_log_round,
        error=root_mean_square(missed),
        points=len(points),
        most_degraded=max(point.degraded_share for point in points),
        rounds=(min(lengths), max(lengths)),
    )


def _solve(points: Sequence[Trained]) -> tuple[float, float]:
    """a and b by least squares; b is 0 where outages hardly differ in length."""
    xx = math.fsum(p.degraded_share**2 for p in points)
    xy = math.fsum(p.degraded_share * p.gap for p in points)
    lengths = [p.outage_rounds for p in points]
    if max(lengths) < 1.5 * min(lengths):
        return xy / xx, 0.0
    xz = math.fsum(p.degraded_share**2 * math.log(p.outage_rounds) for p in points)
    zz = math.fsum((p.degraded_share * math.log(p.outage_rounds)) ** 2 for p in points)
    zy = math.fsum(p.degraded_share * math.log(p.outage_rounds) * p.gap for p in points)
    determinant = xx * zz - xz * xz
    if determinant <= 1e-12 * xx * zz:
        return xy / xx, 0.0
    return (xy * zz - zy * xz) / determinant, (zy * xx - xy * xz) / determinant


def penalty(
    policy: str,
    codec: str,
    told: Sequence[Response],
    degraded_share: float,
    outage_rounds: float | None,
    measured: float | None = None,
    is_between: bool = False,
) -> Penalty:
    """The learning penalty of an option where it degrades so much of the training.

    Args:
        measured: the gap of its own trained runs there, if they were.
        is_between: the place lies between theirs, and so does that gap.
    """
    if set(policy.split()) <= LOSSLESS:
        return Penalty("exact", 0.0, 0.0, "trains as if nothing had failed")
    if measured is not None and is_between:
        return Penalty("interpolated", measured, None, "between its own trained runs")
    if measured is not None:
        return Penalty("measured", measured, None, "its own runs were trained")
    own = next((r for r in told if (r.policy, r.codec) == (policy, codec)), None)
    if own is None:
        why = "nothing trained" if not told else f"nothing trained with {policy}, codec {codec}"
        return Penalty("unknown", None, None, why)
    gap = own.gap(degraded_share, outage_rounds)
    if gap is None:
        return Penalty("unknown", None, None, "outside what was trained")
    return Penalty("interpolated", gap, own.error, f"from {own.points} trained points")
