"""Row 25 of docs/validation.md: slots that fall back on another market."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from scenarios.bench import EXACT, SIGMAS, Bench, Check, Played
from sim import theory
from sim.config import HOUR_S
from sim.durations import law


def row_25(bench: Bench) -> Iterator[Check]:
    """The bill of two markets, by hand and in the long run."""
    yield _once(bench.play("fallback", "once"))
    yield _on_and_on(bench.play("fallback", "on_and_on"))


def _once(run: Played) -> Check:
    """All workers go for good 18 s into a round of 60 s: it is begun again with those bought."""
    pools, slots = run.job.config.pools, run.job.R
    spot, on_demand = pools["spot"], pools["on_demand"]
    assert isinstance(spot.up_h, float), "told as a number"
    assert spot.fallback is not None, "told as well"
    up_s, wait_s = spot.up_h * HOUR_S, spot.fallback.after_wait_s or 0.0
    lost_s = up_s % run.job.healthy_s
    wall_s = len(run.steps) * run.job.healthy_s + lost_s + wait_s + on_demand.provision_s
    bought_s = wall_s - up_s - wait_s
    usd = slots / HOUR_S * (up_s * spot.usd_per_h + bought_s * on_demand.usd_per_h)
    paid = sum(step.usd["compute"] for step in run.steps)
    what = "spot until it goes, on-demand after a wait, $"
    return Check("25", what, "fallback", usd, paid, EXACT * usd, "arithmetic")


def _on_and_on(run: Played) -> Check:
    """A lone slot, whose spot worker is up and away for exponential times."""
    spot = run.job.config.pools["spot"]
    assert spot.up_h is not None, "told as a law"
    assert spot.outage_h is not None, "as well"
    assert spot.fallback is not None, "as well"
    wait_s = spot.fallback.after_wait_s or 0.0
    laws_h = law(spot.up_h, 1.0).mean, law(spot.outage_h, 1.0).mean, wait_s / HOUR_S
    bought_h = sum(step.node_s["on_demand"] for step in run.steps) / HOUR_S
    share = theory.fallen_back(*laws_h, run.job.healthy_s / HOUR_S)
    sigma = math.sqrt(theory.fallen_back_scatter(*laws_h) / run.hours)
    what, because = "share of the time on on-demand", "3.5 sigma of the renewal process"
    value = bought_h / run.hours
    return Check("25", what, "fallback", share, value, SIGMAS * sigma, because)


ROWS: tuple[Callable[[Bench], Iterator[Check]], ...] = (row_25,)
