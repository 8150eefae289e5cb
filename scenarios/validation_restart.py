"""Rows 9 to 12 of docs/validation.md: checkpoints, restart, and the interval between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from scenarios.bench import EXACT, SIGMAS, Bench, Check, Played
from scenarios.derive import job_config
from scenarios.schema import Scenario
from sim import theory
from sim.checkpoints import Checkpoints
from sim.config import HOUR_S
from sim.job import Job
from sim.laws import Weibull
from sim.recovery import Recovery

MINUTE_S = 60.0
ONE_PERCENT = 0.01
FIRST_ORDER = 0.02
"""Of the first-order formula against the exact one, at these points."""
FLAT = 0.01
"""Over the least time there is: the curve is flat at its bottom."""


def row_09(bench: Bench) -> Iterator[Check]:
    """The intervals of Young and Daly for C 2 min and M 180 min, to half a round."""
    for arm, minutes in (("young", 26.83), ("daly", 25.52)):
        job = Job(job_config(bench.scenario("intervals", arm)))
        found = stored(job).every * job.healthy_s / MINUTE_S
        tolerance = 0.005 + job.healthy_s / 2 / MINUTE_S
        yield Check("9", f"minutes, {arm}", "intervals", minutes, found, tolerance, "half a round")


def rows_10_and_11(bench: Bench) -> Iterator[Check]:
    """Time over work of a job that rolls back; losses strike work, checkpoint and restart alike."""
    for arm in ("tau_10", "tau_27", "tau_60"):
        run = bench.play("restart", arm)
        yield row_10(run, 180.0, 10.0)
        c, tau = stored(run.job).cost_s / MINUTE_S, segment_s(run) / MINUTE_S
        value, sigma = time_over_work(run)
        target = theory.restart_ettr(tau, c, 10.0, 180.0)
        tolerance = FIRST_ORDER * target + SIGMAS * sigma / value**2
        what, because = f"ETTR, first order, tau {tau:.2f} min", "2 %, and 3.5 sigma"
        yield Check("11", what, "restart", target, 1 / value, tolerance, because)


def row_10_spares(bench: Bench) -> Iterator[Check]:
    """The same where spares take the slots."""
    yield row_10(bench.play("restart_spares"), 120.0, 15.0)


def row_10(run: Played, m: float, r: float) -> Check:
    """Minutes between losses, and of a restart."""
    c, tau = stored(run.job).cost_s / MINUTE_S, segment_s(run) / MINUTE_S
    value, sigma = time_over_work(run)
    target = theory.restart_time(tau, c, r, m)
    tolerance, because = at_least(ONE_PERCENT * target, SIGMAS * sigma, "1 %")
    what = f"time / work, M {m:g}, C {c:g}, R {r:g}, tau {tau:.2f} min"
    return Check("10", what, run.scenario.name, target, value, tolerance, because)


def row_12(bench: Bench) -> Iterator[Check]:
    """Without checkpoints all work is done in one go: M (e^(W/M) - 1)."""
    scenario = bench.scenario("restart_never")
    took_h = [hours(scenario, seed) for seed in range(bench.count(2000))]
    job = Job(job_config(scenario))
    work_h = scenario.global_steps * job.healthy_s / HOUR_S
    target = theory.without_checkpoints(work_h, stored(job).mean_between_s / HOUR_S)
    sigma = float(np.std(took_h, ddof=1)) / math.sqrt(len(took_h))
    what, because = f"hours of {work_h:g} h of work under `never`", "3.5 sigma, from the seeds"
    value = float(np.mean(took_h))
    yield Check("12", what, "restart_never", target, value, SIGMAS * sigma, because)


def row_12_wait(bench: Bench) -> Iterator[Check]:
    """Expected hours of a round that starts anew after each loss: (M + R)(e^(W/M) - 1)."""
    run = bench.play("again")
    mean_h, detect_h, round_h = 4.0, 1 / 3, 2.0
    took_h = np.array([step.end_s - step.start_s for step in run.steps]) / HOUR_S
    sigma = took_h.std(ddof=1) / math.sqrt(len(took_h))
    target = (mean_h + detect_h) * math.expm1(round_h / mean_h)
    what, because = "hours of a round of 2 h under `wait`", "3.5 sigma, from the rounds"
    yield Check("12", what, "again", target, float(took_h.mean()), float(SIGMAS * sigma), because)


def row_09_auto(bench: Bench) -> Iterator[Check]:
    """`auto` against the best interval there is; what it saves over Daly's on the same seeds."""
    for arm, shape in (("exponential", 1.0), ("weibull", 0.6)):
        scenario = bench.scenario("interval_auto", arm)
        auto, daly = (with_interval(scenario, rule) for rule in ("auto", "daly"))
        of = {every: expected(scenario, every, shape) for every in range(1, 60)}
        auto_of, daly_of = (of[stored(Job(job_config(each))).every] for each in (auto, daly))
        least, what = min(of.values()), f"time / work at the interval of auto, {arm}"
        because = "1 % over the least"
        yield Check("9", what, "interval_auto", least, auto_of, FLAT * least, because)
        seeds = range(bench.count(24))
        pairs = [(hours(daly, seed), hours(auto, seed)) for seed in seeds]
        gain = np.array([slow / fast - 1 for slow, fast in pairs])
        sigma = float(gain.std(ddof=1)) / math.sqrt(len(gain))
        what, because = f"time saved over Daly's interval, {arm}", "3.5 sigma, pairs of runs"
        target, tolerance = daly_of / auto_of - 1, EXACT + SIGMAS * sigma
        yield Check("9", what, "interval_auto", target, float(gain.mean()), tolerance, because)


def expected(scenario: Scenario, every: int, shape: float) -> float:
    """Expected time over work of validation/interval_auto with so many rounds a segment."""
    job = Job(job_config(scenario.model_copy(update={"recovery": Recovery()})))
    tau, restart = every * job.healthy_s / MINUTE_S, 2.0
    return theory.renewal_time(tau, 10.0, restart, Weibull.of_mean(30.0, shape))


def with_interval(scenario: Scenario, rule: str) -> Scenario:
    """The scenario with the number of rounds that a rule comes to, for all seeds."""
    assert scenario.recovery.checkpoint is not None, "a scenario with checkpoints"
    keys = scenario.recovery.checkpoint.model_copy(update={"every_global_steps": rule})
    recovery = scenario.recovery.model_copy(update={"checkpoint": keys})
    resolved = stored(Job(job_config(scenario.model_copy(update={"recovery": recovery}))))
    every = scenario.recovery.storing_every(resolved.every)
    return scenario.model_copy(update={"recovery": every})


def hours(scenario: Scenario, seed: int) -> float:
    """Of a run with another seed."""
    return Played(scenario.model_copy(update={"seed": seed})).hours


def stored(job: Job) -> Checkpoints:
    """The checkpoints of a job that has them."""
    assert job.checkpoints is not None, "a scenario with restart"
    return job.checkpoints


def segment_s(run: Played) -> float:
    """Work between two checkpoints."""
    return stored(run.job).every * run.job.healthy_s


def time_over_work(run: Played) -> tuple[float, float]:
    """And its standard error, from the scatter of segments; the run's end needs no checkpoint."""
    every, ends_s = stored(run.job).every, [step.end_s for step in run.steps]
    took_s = np.diff([0.0, *ends_s[every - 1 :: every]]) / segment_s(run)
    work_s = len(run.steps) * run.job.healthy_s
    value = (run.wall_s + stored(run.job).cost_s) / work_s
    return value, float(took_s.std(ddof=1)) / math.sqrt(len(took_s))


def at_least(tolerance: float, scatter: float, because: str) -> tuple[float, str]:
    """A fixed tolerance, or that of chance where a short run scatters more."""
    return (scatter, "3.5 sigma") if scatter > tolerance else (tolerance, because)


ROWS: tuple[Callable[[Bench], Iterator[Check]], ...] = (
    row_09,
    row_09_auto,
    rows_10_and_11,
    row_10_spares,
    row_12,
    row_12_wait,
)
