"""What a trace says of a pool: laws, bulks, rhythm, and the block of a scenario."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenarios.explain import NAME_PATTERN
from scenarios.fit_laws import Durations, Fitted, best, fit_laws
from sim.config import HOUR_S
from sim.records import Spell
from sim.traces.trace import ABSENT, CAP, NO_LOSS, Facts, Life, Trace, facts

DAY_H = 24
SAMPLE_H = 1.0
"""Of the count of workers, for rhythm and correlation."""
FEWEST_DAYS = 2
MOST_ZONES = 20
"""Whose correlations somebody would read."""
LONGEST_BLOCK = 4.0
"""Mean block of refill in mean distances of shocks that a pool can have, and a margin."""
ONE_POOL = "fitted"
"""Name of the pool of a trace with one zone."""
LEAST_SHARE = 0.001
"""Of a pool that a shock takes: what a scenario may say."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """All that was found; hours."""

    source: str
    trace: Trace
    facts: Facts
    up: Durations
    """Lives that began in the trace, those in bulk ended like any other."""
    own: Durations
    """Lives; one that a bulk ended is censored: another cause was faster."""
    outage: Durations
    up_laws: list[Fitted]
    own_laws: list[Fitted]
    outage_laws: list[Fitted]
    shocks: dict[str, Any] | None
    cap_h: float | None
    notes: list[str] = field(default_factory=list)


def fit(trace: Trace, source: str) -> Fit:
    """Fit the lives, the outages and the bulks of a trace.

    Raises:
        ValueError: nobody is ever lost in it.
    """
    found = facts(trace)
    if not found.losses:
        raise ValueError("nobody is ever lost in it, so there is nothing to fit")
    spells = [spell for spell in trace.spells() if spell.cause not in (NO_LOSS, ABSENT)]
    bulk = _bulk_instants(spells) if trace.has_outages else {}
    up, own = lives_of(trace), lives_of(trace, bulk)
    outage = Durations.of([], [])
    if trace.has_outages:
        ended = [s for s in spells if not math.isnan(s.back_s)]
        outage = Durations.of(
            [(s.back_s - s.gone_s) / HOUR_S for s in ended],
            [(trace.end_s - s.gone_s) / HOUR_S for s in spells if math.isnan(s.back_s)],
        )
    capped = [(x.end_s - x.start_s) / HOUR_S for x in trace.lives if x.cause == CAP and x.began]
    up_laws, outage_laws = fit_laws(up), fit_laws(outage)
    return Fit(
        source=source,
        trace=trace,
        facts=found,
        up=up,
        own=own,
        outage=outage,
        up_laws=up_laws,
        own_laws=fit_laws(own) if bulk else [],
        outage_laws=outage_laws,
        shocks=_shocks(trace, spells, bulk),
        cap_h=min(capped) if capped else None,
        notes=_notes(trace, up_laws, outage_laws),
    )


def lives_of(trace: Trace, but: Container[tuple[str, float]] = ()) -> Durations:
    """Lives that began in the trace; what its end or a cap cuts off is censored.

    Those that were going on when it began are left out: as censored ones they would count as if
    they had begun then, and pools would look steadier than they are.

    Args:
        but: (zone, instant) of losses by another cause, which censor as well.
    """
    whole: list[float] = []
    censored: list[float] = []
    for life in trace.lives:
        if life.began:
            is_own = life.is_whole and (trace.zones[life.worker], life.end_s) not in but
            (whole if is_own else censored).append((life.end_s - life.start_s) / HOUR_S)
    return Durations.of(whole, censored)


def _notes(trace: Trace, up: Sequence[Fitted], outage: Sequence[Fitted]) -> list[str]:
    """What the trace cannot show."""
    notes = []
    before = sum(not life.began for life in trace.lives)
    if before:
        notes.append(f"{before} lives began before the trace: no law has them, nobody knows when")
    if not up:
        notes.append("no life was seen from its start to a loss: the block tells no law of them")
    if not outage:
        notes.append(
            "no outage was seen to its end: without an outage_h of yours nobody comes back"
        )
    if not trace.named:
        notes.append(
            "the trace only counts: who leaves was drawn, so lives and outages of single workers "
            "are inferred; counts, losses and bulks are measured"
        )
    if trace.has_outages and trace.workers == 1:
        notes.append("one machine: how many would be lost at once cannot be seen; no shocks below")
    if trace.has_outages and len(set(trace.zones)) > MOST_ZONES:
        notes.append(f"more than {MOST_ZONES} zones: the block is one pool, and a shock takes all")
    if not trace.has_outages:
        notes.append("machines live once: outages and bulks cannot be seen")
    return notes


# --- bulks ------------------------------------------------------------------------------------


def _bulk_instants(spells: Sequence[Spell]) -> dict[tuple[str, float], int]:
    """(zone, instant) -> losses, where there were two or more."""
    events = Counter((spell.zone, spell.gone_s) for spell in spells)
    return {event: count for event, count in events.items() if count > 1}


def _shocks(
    trace: Trace, spells: Sequence[Spell], bulk: dict[tuple[str, float], int]
) -> dict[str, Any] | None:
    """Bulks as the shocks of a pool: how often, which share, how long nobody comes back.

    A share is losses in bulk over workers that were up just before; a block lasts from a bulk to
    the zone's first return, and is censored by the zone's next bulk and by the end.
    """
    if not bulk:
        return None
    zones = set(trace.zones)
    every_h = trace.end_s * len(zones) / len(bulk) / HOUR_S
    share = sum(bulk.values()) / _up_before(trace, bulk)
    if share < LEAST_SHARE:
        return None
    whole, censored = _blocks(trace, spells, bulk)
    laws = fit_laws(Durations.of(whole, censored))
    law = best(laws)
    block = law.block() if law and law.mean <= LONGEST_BLOCK * every_h else None
    return {
        "every_h": every_h,
        "share": share,
        "block_refill_h": block,
    }


def _up_before(trace: Trace, bulk: Iterable[tuple[str, float]]) -> int:
    """Workers of the zone that are up just before each bulk, in all.

    Who comes and is lost at its very instant is among them, as among the losses.
    """
    lives: dict[str, list[Life]] = defaultdict(list)
    for life in trace.lives:
        lives[trace.zones[life.worker]].append(life)
    instants_s: dict[str, list[float]] = defaultdict(list)
    for zone, t_s in bulk:
        instants_s[zone].append(t_s)
    count = 0
    for zone, at_s in instants_s.items():
        starts, ends = (
            np.sort([getattr(life, end) for life in lives[zone]]) for end in ("start_s", "end_s")
        )
        count += int((np.searchsorted(starts, at_s) - np.searchsorted(ends, at_s)).sum())
        blinks = Counter(x.end_s for x in lives[zone] if x.start_s == x.end_s and x.cause)
        count += sum(blinks[t_s] for t_s in at_s)
    return count


def _blocks(
    trace: Trace, spells: Sequence[Spell], bulk: dict[tuple[str, float], int]
) -> tuple[list[float], list[float]]:
    """Hours (whole, censored) from each bulk to the first return in its zone."""
    whole: list[float] = []
    censored: list[float] = []
    returns_s: dict[str, list[float]] = defaultdict(list)
    for back_s, zone in sorted((s.back_s, s.zone) for s in spells if not math.isnan(s.back_s)):
        returns_s[zone].append(back_s)
    for zone, same in groupby(sorted(bulk), key=lambda event: event[0]):
        bulks_s = [t_s for _, t_s in same]
        for t_s, next_s in zip(bulks_s, [*bulks_s[1:], trace.end_s], strict=True):
            k = bisect_right(returns_s[zone], t_s)
            first_s = returns_s[zone][k] if k < len(returns_s[zone]) else math.inf
            hours = (min(first_s, next_s) - t_s) / HOUR_S
            (whole if first_s <= next_s else censored).append(hours)
    return whole, censored


# --- rhythm -----------------------------------------------------------------------------------


def counts(trace: Trace, zone: str | None = None) -> NDArray[np.float64]:
    """Workers that are up at every SAMPLE_H, in a zone or in all."""
    times_s = np.arange(0.0, trace.end_s, SAMPLE_H * HOUR_S)
    kept = [x for x in trace.lives if zone is None or trace.zones[x.worker] == zone]
    starts = np.sort([life.start_s for life in kept])
    ends = np.sort([life.end_s for life in kept])
    here = np.searchsorted(starts, times_s, "right") - np.searchsorted(ends, times_s, "right")
    return np.asarray(here, dtype=np.float64)


def daily_rhythm(trace: Trace) -> float | None:
    """Autocorrelation of the count at 24 h; None below two days, and where it never changes."""
    series = counts(trace) - counts(trace).mean()
    lag, power = int(DAY_H / SAMPLE_H), float((series**2).sum())
    if len(series) < FEWEST_DAYS * lag or power == 0:
        return None
    return float((series[lag:] * series[:-lag]).sum() / power)


def zone_correlation(trace: Trace) -> dict[str, float]:
    """Correlation of the counts of each two zones; those that never change are left out.

    Nothing where there are more than MOST_ZONES.
    """
    zones = sorted(set(trace.zones))
    if len(zones) > MOST_ZONES:
        return {}
    series = {zone: counts(trace, zone) for zone in zones} if trace.has_outages else {}
    moving = [zone for zone in series if series[zone].std() > 0]
    return {
        f"{a}, {b}": float(np.corrcoef(series[a], series[b])[0, 1])
        for k, a in enumerate(moving)
        for b in moving[k + 1 :]
    }


# --- what to paste ----------------------------------------------------------------------------


def pool_blocks(found: Fit) -> list[dict[str, dict[str, Any]]]:
    """Pools, by name, that live like the trace, as far as laws and shocks can say; one a zone.

    Outages overlap with blocks of refill, which prolong them: of two answers, one blocks refill
    after a shock and one does not. Which is nearer, a simulation tells.
    """
    whole = _pools(found, found.shocks)
    if found.shocks is None or found.shocks["block_refill_h"] is None:
        return [whole]
    return [whole, _pools(found, found.shocks | {"block_refill_h": None})]


def _pools(found: Fit, shocks: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The same laws in each zone: they were fitted to all, and a shock strikes one zone."""
    zones = Counter(found.trace.zones)
    if not found.trace.has_outages:
        return {ONE_POOL: _laws(found, shocks)}
    if len(zones) == 1 or len(zones) > MOST_ZONES:
        zones = Counter({ONE_POOL: found.trace.workers})
    elif not all(re.fullmatch(NAME_PATTERN, zone) for zone in zones):
        zones = Counter({f"{ONE_POOL}_{k}": zones[zone] for k, zone in enumerate(zones, start=1)})
    return {name: {"workers": count, **_laws(found, shocks)} for name, count in zones.items()}


def _laws(found: Fit, shocks: dict[str, Any] | None) -> dict[str, Any]:
    block: dict[str, Any] = {}
    up = best(found.own_laws if found.shocks is not None else found.up_laws)
    if up is not None:
        block["up_h"] = up.block()
    outage = best(found.outage_laws)
    if outage is not None:
        block["outage_h"] = outage.block()
    if found.cap_h is not None:
        block["life_cap_h"] = found.cap_h
    if shocks is not None:
        block["shocks"] = {key: value for key, value in shocks.items() if value is not None}
    return {key: _rounded(value) for key, value in block.items()}


def _rounded(value: Any) -> Any:
    """Four digits are more than any of it is worth."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value
