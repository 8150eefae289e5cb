"""The rows of docs/validation.md: what is measured, and what theory says of it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from scenarios.bench import EXACT, SIGMAS, Bench, Check, Played, ks, ks_gap
from scenarios.cells import SINGLE
from scenarios.derive import job_config
from sim import theory
from sim.config import GB, HOUR_S, PerGlobalStep
from sim.network import BITS
from sim.strikes import expected_degraded_share
from sim.watched import WatchedJob

RENEWAL = "3.5 sigma of the renewal process"


def row_01(bench: Bench) -> Iterator[Check]:
    """Availability: up / (up + outage), and with boots, restores, a cap."""
    up_h, outage_h, cap_h, boot_h = 24.492, 6.413, 24.0, 1.0
    x = cap_h / up_h
    capped_h = up_h * -math.expm1(-x)
    capped_square = 2 * up_h**2 * (1 - math.exp(-x) * (1 + x))
    lives = [
        ("1", "availability", "availability", up_h, up_h**2),
        ("1c", "availability with a life cap", "cap", capped_h, capped_square - capped_h**2),
    ]
    for row, what, name, mean_h, variance in lives:
        run = bench.play(name)
        worker_h, cycle_h = run.workers * run.hours, mean_h + outage_h
        scatter = (variance * outage_h**2 + outage_h**2 * mean_h**2) / cycle_h**3
        sigma = math.sqrt(scatter / worker_h)
        target = theory.availability(mean_h, outage_h)
        yield Check(row, what, name, target, run.up_h / worker_h, SIGMAS * sigma, RENEWAL)

    run = bench.play("boot")
    bits_per_h = run.scenario.network.store.down_mbps * 1e6 / BITS * HOUR_S
    restore_h = run.job.config.sizes.weights_bytes[0] / bits_per_h
    cycle_h = up_h + outage_h
    booting = up_h * -math.expm1(-boot_h / up_h)
    restoring = up_h * (math.exp(-boot_h / up_h) - math.exp(-(boot_h + restore_h) / up_h))
    cycles = run.workers * run.hours / cycle_h
    for name, hours in (("provision", booting), ("restore", restoring)):
        share = hours / cycle_h
        tolerance = SIGMAS * math.sqrt(2 / cycles) * share
        what, because = f"share of slot-seconds in `{name}`", f"3.5 sigma, {cycles:.0f} cycles"
        yield Check("1b", what, "boot", share, run.slot_share(name), tolerance, because)


def row_02_to_04(bench: Bench) -> Iterator[Check]:
    """Sixteen workers, 10 h up, 2 h away: how many are down, and Little's law."""
    for row, name, arm, at_once in (
        ("2", "repair", SINGLE, 16),
        ("3", "repair_few", "four", 4),
        ("3", "repair_few", "two", 2),
    ):
        run = bench.play(name, arm)
        down = run.workers - run.up_h / run.hours
        target = theory.mean_down(16, 10.0, 2.0, at_once)
        sigma = math.sqrt(theory.down_scatter(16, 10.0, 2.0, at_once) / run.hours)
        room = "free repair" if at_once == 16 else f"{at_once} at once"
        because = "3.5 sigma of the chain"
        yield Check(row, f"down, {room}", name, target, down, SIGMAS * sigma, because)
        mean_h = sum(run.finished_h) / len(run.finished_h)
        little = len(run.spells) / run.hours * mean_h
        edge = run.workers * max(run.finished_h) / run.hours
        what = f"loss rate x mean outage, {room}"
        yield Check("4", what, name, down, little, edge, "outages open at the end")


def row_05(bench: Bench) -> Iterator[Check]:
    """Degraded share of the published regime, the failing step being the first bad one."""
    run = bench.play("published")
    outages = run.job.config.outages
    assert isinstance(outages, PerGlobalStep), "published.yaml tells the published regime"
    steps = np.array([step.steps for step in run.steps])
    by_replica = (steps < run.job.config.inner_steps).any(axis=2).mean(axis=0)
    sigma = by_replica.std(ddof=1) / math.sqrt(len(by_replica))
    target = expected_degraded_share(outages, len(run.steps))
    what = f"degraded share (long run {expected_degraded_share(outages):.4f})"
    value, because = float(by_replica.mean()), "3.5 sigma, from the scatter of replicas"
    yield Check("5", what, "published", target, value, float(SIGMAS * sigma), because)


def row_07(bench: Bench) -> Iterator[Check]:
    """From an hour to a global step of 91.3 s: a rate is no probability."""
    step_h = 91.3 / HOUR_S
    for arm, target in (
        ("rate", -math.expm1(-0.10 * step_h)),
        ("probability", 1 - 0.90**step_h),
    ):
        run = bench.play("hourly", arm)
        lost, trials = _lost_in_a_step(run)
        sigma = math.sqrt(target * (1 - target) / trials)
        what = f"lost in a global step, 0.10 an hour as a {arm}"
        because = f"3.5 sigma, {trials / 1e6:.2g}M worker-rounds"
        yield Check("7", what, "hourly", target, lost / trials, SIGMAS * sigma, because)


def _lost_in_a_step(run: Played) -> tuple[int, int]:
    """Of the workers that were up when a round began: those lost in it, and all."""
    starts_s = np.array([step.start_s for step in run.steps])
    back_s: dict[int, float] = {}
    lost, trials = 0, run.workers * len(starts_s)
    for spell in run.spells:
        begun = int(np.searchsorted(starts_s, spell.gone_s, "right")) - 1
        lost += back_s.get(spell.worker, 0.0) <= starts_s[begun]
        back_s[spell.worker] = end_s = run.wall_s if math.isnan(spell.back_s) else spell.back_s
        trials -= int(np.searchsorted(starts_s, end_s, "left")) - begun - 1
    return lost, trials


def row_08(bench: Bench) -> Iterator[Check]:
    """The first of sixteen losses."""
    seeds = bench.count(400)
    for arm, cdf in (
        ("exponential", lambda t: theory.first_of_exponential(t, 16, 10.0)),
        ("weibull", lambda t: theory.first_of_weibull(t, 16, 10.0, 0.6)),
    ):
        scenario = bench.scenario("first", arm)
        first_h = []
        for seed in range(seeds):
            job = WatchedJob(job_config(scenario.model_copy(update={"seed": seed})))
            rounds = job.global_steps()
            while not job.spells():
                next(rounds)
            first_h.append(job.spells()[0].gone_s / HOUR_S)
        yield ks("8", f"first of 16 losses, {arm}", "first", ks_gap(first_h, cdf), seeds)


def row_21(bench: Bench) -> Iterator[Check]:
    """A common shock at rate z that takes a share q, beside a worker's own rate l."""
    run = bench.play("shocks")
    every_h, share, up_h = 8.0, 0.6, 20.0
    bulks = Counter(spell.gone_s for spell in run.spells if spell.cause == "shock")
    own = len(run.spells) - bulks.total()
    scatter = own + sum(taken**2 for taken in bulks.values())
    target = theory.worker_rate(up_h, every_h, share)
    rate, because = len(run.spells) / run.up_h, "3.5 sigma, each shock being one chance"
    tolerance = SIGMAS * math.sqrt(scatter) / run.up_h
    yield Check("21", "losses an hour up: qz + l", "shocks", target, rate, tolerance, because)
    gaps_h = [(b - a) / HOUR_S for a, b in itertools.pairwise([0.0, *sorted(bulks)])]
    gap = ks_gap(gaps_h, lambda t: theory.shock_by(t, every_h))
    yield ks("21", "a shock by t: 1 - exp(-zt)", "shocks", gap, len(gaps_h))
    taken = sum(bulks.values()) / len(bulks)
    up = run.up_h / run.hours
    sigma = math.sqrt(sum((k - taken) ** 2 for k in bulks.values())) / len(bulks)
    what = "workers that a shock takes: q x those up"
    yield Check(
        "21", what, "shocks", share * up, taken, SIGMAS * sigma, "3.5 sigma, from the shocks"
    )


def row_23(bench: Bench) -> Iterator[Check]:
    """The bill, from spells, masks and restores alone; thrown-away traffic as the engine says."""
    run = bench.play("bill")
    sizes, network = run.job.config.sizes, run.scenario.network
    compute = sum(
        ((pool.workers or 0) * run.wall_s - run.away_s(name)) / HOUR_S * pool.usd_per_h
        for name, pool in run.job.config.pools.items()
    )
    usd = sum(step.usd["compute"] for step in run.steps)
    yield Check("23", "node-seconds x price, $", "bill", compute, usd, 0.005, "half a cent")
    crossed = sum(
        int((step.steps.sum(axis=1) - step.steps.max(axis=1)).sum()) for step in run.steps
    )
    nbytes = Counter[str]()
    for step in run.steps:
        nbytes.update(step.nbytes)
    hop_bytes = 2 * sizes.hop_bytes * crossed + nbytes["lost_boundary"]
    store_bytes = nbytes["sync"] + nbytes["lost_sync"] + nbytes["snapshot"]
    for _, stage, _, state, _, _ in run.job.timeline():
        store_bytes += sizes.weights_bytes[stage] if state == "restore" else 0
    egress = (hop_bytes * network.stages.usd_per_gb + store_bytes * network.store.usd_per_gb) / GB
    usd = sum(step.usd["egress"] for step in run.steps)
    yield Check("23", "bytes x egress, $", "bill", egress, usd, EXACT * egress, "arithmetic")


ROWS: tuple[Callable[[Bench], Iterator[Check]], ...] = (
    row_01,
    row_02_to_04,
    row_05,
    row_07,
    row_08,
    row_21,
    row_23,
)
