"""The engine against formulas (validation.md). Seeds are fixed; each statistical test would fail
a right engine for fewer than one seed in a thousand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from sim import theory as theory_of
from sim.config import HOUR_S, PerGlobalStep, Pool, PoolOutages
from sim.provider import provider
from sim.records import GlobalStep
from sim.strikes import PublishedRegime, expected_degraded_share
from sim.watched import WatchedJob
from tests.sim.worlds import IDLE, MB, SKIP, WAIT, job, network, run, sizes

SIGMAS = 3.5  # two-sided false-alarm rate of a normal: 1 / 2150


def pool(workers: int, up_h: float, outage_h: float, **more: float) -> Pool:
    laws = {
        name: {"law": "exponential", "mean": mean}
        for name, mean in (("up_h", up_h), ("outage_h", outage_h))
    }
    return Pool.model_validate({"workers": workers, **laws, **more})


def published(probability: float, rounds_out: int, **more: object) -> PerGlobalStep:
    keys = {"probability": probability, "duration_global_steps": rounds_out}
    return PerGlobalStep.model_validate({"kind": "per_global_step", **keys, **more})


# --- pools ----------------------------------------------------------------------------------


def down_shares(a_pool: Pool, hours: float) -> np.ndarray:
    """[k] share of the time in which k workers are away, and so on to all."""
    shares, down, last_s = np.zeros((a_pool.workers or 0) + 1), 0, 0.0
    for event in provider({"a": a_pool}, seed=1):
        t_s = min(event.t_s, hours * HOUR_S)
        shares[down] += t_s - last_s
        down += 1 if event.kind == "gone" else -1
        last_s = t_s
        if event.t_s > hours * HOUR_S:
            return shares / (hours * HOUR_S)
    raise AssertionError("a pool has events for ever")


def test_validation_01_availability() -> None:
    up_h, outage_h, workers, hours = 24.492, 6.413, 50, 4000.0
    shares = down_shares(pool(workers, up_h, outage_h), hours)
    available = 1 - shares @ np.arange(workers + 1) / workers
    a = up_h / (up_h + outage_h)
    relaxation_h = up_h * outage_h / (up_h + outage_h)
    sigma = math.sqrt(2 * a * (1 - a) * relaxation_h / (workers * hours))
    assert a == pytest.approx(0.7925, abs=5e-5)
    assert abs(available - a) < SIGMAS * sigma < 0.015


def test_validation_02_workers_down_with_free_repair_are_binomial() -> None:
    hours, a = 20_000.0, 10 / 12
    shares = down_shares(pool(16, 10.0, 2.0), hours)
    mean = shares @ np.arange(17)
    sigma = math.sqrt(2 * 16 * a * (1 - a) * (20 / 12) / hours)
    assert abs(mean - 2.667) < SIGMAS * sigma < 0.12
    binomial = [math.comb(16, k) * (1 - a) ** k * a ** (16 - k) for k in range(17)]
    assert np.abs(shares - binomial).max() < 0.02


def test_the_scatter_of_free_repair_is_that_of_sixteen_coins() -> None:
    """Each is up or down, and forgets which in up x repair / (up + repair)."""
    single = 2 * (1 / 6) * (5 / 6) * (20 / 12)
    assert theory_of.down_scatter(16, 10.0, 2.0, 16) == pytest.approx(16 * single)


@pytest.mark.parametrize(("at_once", "expected"), [(2, 6.293), (4, 2.946), (16, 2.667)])
def test_validation_03_refill_at_once_is_the_machine_repairman(
    at_once: int, expected: float
) -> None:
    hours = 20_000.0
    a_pool = pool(16, 10.0, 2.0, refill_at_once=at_once)
    theory = theory_of.down_shares(16, 10.0, 2.0, at_once)
    assert theory @ np.arange(17) == pytest.approx(expected, abs=5e-4)
    shares = down_shares(a_pool, hours)
    sigma = math.sqrt(theory_of.down_scatter(16, 10.0, 2.0, at_once) / hours)
    assert abs(shares @ np.arange(17) - expected) < SIGMAS * sigma < 0.3
    assert np.abs(shares - theory).max() < 0.03


def test_validation_08_the_first_of_n_losses_comes_at_n_times_the_rate() -> None:
    first_h = sorted(
        next(provider({"a": pool(16, 10.0, 2.0)}, seed)).t_s / HOUR_S for seed in range(400)
    )
    cdf = [-math.expm1(-16 * t / 10.0) for t in first_h]
    gap = max(max(abs(c - k / 400), abs(c - (k + 1) / 400)) for k, c in enumerate(cdf))
    assert gap < 1.95 / math.sqrt(400), "Kolmogorov-Smirnov at 1/1000"


@pytest.fixture(scope="module")
def pooled() -> tuple[WatchedJob, list[GlobalStep]]:
    """20 x 4 slots, rounds of two hours, 1 h to boot and 0.5 h to restore; run."""
    of = sizes(4, forward_s=(225.0,) * 4, backward_s=(225.0,) * 4, weights_bytes=(1800 * MB,) * 4)
    a_job = job(
        outages=PoolOutages(kind="pools"),
        replicas=20,
        stages=4,
        rounds=900,
        policy=IDLE,
        of=of,
        pools={"a": pool(80, 24.492, 6.413, provision_s=HOUR_S)},
    )
    return a_job, list(a_job.global_steps())


def test_availability_of_slots_with_provisioning_and_restores(
    pooled: tuple[WatchedJob, list[GlobalStep]],
) -> None:
    """Each time up spends min(up, boot) booting, and so on; Exp(up) has no memory."""
    up_h, cycle_h = 24.492, 24.492 + 6.413
    expected = {
        "vacant": 6.413 / cycle_h,
        "provision": up_h * -math.expm1(-1.0 / up_h) / cycle_h,
        "restore": up_h * (math.exp(-1.0 / up_h) - math.exp(-1.5 / up_h)) / cycle_h,
    }
    steps = pooled[1]
    slots_s = 80 * steps[-1].end_s
    cycles = slots_s / HOUR_S / cycle_h
    for name, share in expected.items():
        found = sum(step.slot_s[name] for step in steps) / slots_s
        assert abs(found - share) < SIGMAS * 1.5 * share / math.sqrt(cycles), name


def test_validation_04_little(pooled: tuple[WatchedJob, list[GlobalStep]]) -> None:
    a_job, steps = pooled
    wall_s = steps[-1].end_s
    away_s = [min(s.back_s, wall_s) - s.gone_s for s in a_job.spells() if math.isfinite(s.back_s)]
    mean_down = sum(step.slot_s["vacant"] for step in steps) / wall_s
    by_little = len(a_job.spells()) / wall_s * np.mean(away_s)
    assert mean_down == pytest.approx(by_little, rel=0.01), "but for what is cut at the end"


def test_validation_23_the_bill_to_the_cent() -> None:
    """Worker-seconds from the spells, bytes from the masks, prices by hand."""
    of = sizes(4, hop_bytes=3000, micro_batches=2)
    links = network(usd_per_gb=0.09)
    hop = links.stages.model_copy(update={"usd_per_gb": 0.02})
    prices = {"use1": 3.0, "use2": 0.7}
    pools = {
        name: pool(21, 0.05, 0.02, provision_s=20.0, detect_s=3.0, usd_per_h=usd)
        for name, usd in prices.items()
    }
    a_job = job(
        outages=PoolOutages(kind="pools"),
        replicas=10,
        stages=4,
        rounds=60,
        pools=pools,
        of=of,
        links=links.model_copy(update={"stages": hop}),
    )
    steps = list(a_job.global_steps())
    wall_s = steps[-1].end_s
    for name, usd_per_h in prices.items():
        away_s = sum(
            min(wall_s, spell.back_s) - spell.gone_s
            if spell.back_s == spell.back_s
            else wall_s - spell.gone_s
            for spell in a_job.spells()
            if spell.zone == name
        )
        node_s = sum(step.node_s[name] for step in steps)
        assert node_s == pytest.approx(21 * wall_s - away_s)
        prices[name] = node_s / HOUR_S * usd_per_h
    nbytes = {key: sum(step.nbytes[key] for step in steps) for key in steps[0].nbytes}
    egress = (nbytes["boundary"] + nbytes["lost_boundary"]) * 0.02e-9
    store = ("sync", "lost_sync", "restore", "snapshot")
    egress += sum(nbytes[key] for key in store) * 0.09e-9
    assert sum(step.usd["compute"] for step in steps) == pytest.approx(sum(prices.values()))
    assert sum(step.usd["egress"] for step in steps) == pytest.approx(egress)
    assert len(a_job.spells()) > 40


# --- the published regime ---------------------------------------------------------------------


def test_validation_05_degraded_share_in_the_long_run() -> None:
    assert expected_degraded_share(published(0.05, 8)) == pytest.approx(0.2963, abs=5e-5)
    assert expected_degraded_share(published(0.05, 8), 100_000) == pytest.approx(0.2963, abs=2e-4)
    extends = 1 - (1 - 0.05) ** 8
    assert extends == pytest.approx(0.3366, abs=5e-5), "row 6: draws go on while out; not ours"


@pytest.mark.parametrize("rounds_out", [1, 2, 8])
@pytest.mark.parametrize("start", [0, 7])
def test_validation_05_the_finite_sum_is_that_of_the_chain(rounds_out: int, start: int) -> None:
    p, rounds = 0.13, 40
    chain = np.zeros(rounds_out)  # [k] probability of k rounds left; 0: whole
    chain[0], degraded = 1.0, 0.0
    for g in range(rounds):
        fails = p * chain[0] if g >= start else 0.0
        degraded += fails + chain[1:].sum()
        chain = np.append(chain[1:], 0.0) + np.eye(rounds_out)[0] * (chain[0] - fails)
        chain[rounds_out - 1] += fails
    share = expected_degraded_share(published(p, rounds_out, start_step=start), rounds)
    assert share == pytest.approx(degraded / rounds)


def test_validation_05_the_engines_degraded_share() -> None:
    outages = published(0.05, 8)
    steps = run(outages=outages, replicas=100, stages=4, rounds=250)
    degraded = np.array([(step.steps < 4).any(axis=1) for step in steps])  # [round, replica]
    by_replica = degraded.mean(axis=0)
    sigma = by_replica.std(ddof=1) / math.sqrt(100)
    assert abs(by_replica.mean() - expected_degraded_share(outages, 250)) < SIGMAS * sigma < 0.06


def failing_rounds(outages: PerGlobalStep, a_job: WatchedJob, rounds: int) -> int:
    regime = PublishedRegime(outages, a_job.config.cluster, a_job.config.seed)
    return sum(bool(regime.drawn(index)) for index in range(rounds))


@pytest.mark.parametrize(("policy", "replicas"), [(WAIT, 1), (WAIT, 3), (IDLE, 1)])
def test_ettr_when_every_failure_costs_d_healthy_rounds(
    policy: Sequence[str], replicas: int
) -> None:
    outages = published(0.1, 5, stages="all")
    a_job = job(outages=outages, policy=policy, replicas=replicas, rounds=200)
    wall_s = [step.end_s for step in a_job.global_steps()][-1]
    fails = failing_rounds(outages, a_job, 200)
    assert 5 < fails < 100
    assert 200 * a_job.healthy_s / wall_s == pytest.approx(200 / (200 + 5 * fails))


def test_ettr_is_one_without_failures_and_more_where_all_skip() -> None:
    for replicas, stages in itertools.product((1, 2, 5), (1, 2, 3, 6)):
        a_job = job(replicas=replicas, stages=stages, rounds=7)
        ends_s = [step.end_s for step in a_job.global_steps()]
        assert ends_s == pytest.approx([a_job.healthy_s * (k + 1) for k in range(7)])
    outages = published(1.0, 6, stages=[1])
    a_job = job(outages=outages, rounds=5)
    wall_s = [step.end_s for step in a_job.global_steps()][-1]
    assert 5 * a_job.healthy_s / wall_s == pytest.approx(16 / 12)


def test_skip_idle_and_wait_in_the_same_outages() -> None:
    outages = published(0.1, 3)  # never all replicas at once: an idle stall would count rounds
    found = {
        name: run(outages=outages, policy=policy, replicas=8, stages=5, rounds=150)
        for name, policy in (("skip", SKIP), ("idle", IDLE), ("wait", WAIT))
    }
    steps = {name: np.array([s.steps for s in of_policy]) for name, of_policy in found.items()}
    assert (steps["wait"] == 4).all()
    skip_out, idle_out = (steps["skip"] == 0).any(axis=2), (steps["idle"] == 0).any(axis=2)
    assert np.array_equal(skip_out, idle_out), "the same replicas are hit in the same rounds"
    assert ((steps["skip"] == 0).sum(axis=2) == skip_out).all(), "skip loses the stage"
    assert ((steps["idle"] == 0).sum(axis=2) == 5 * idle_out).all(), "idle loses the replica"
    walls_s = {name: of_policy[-1].end_s for name, of_policy in found.items()}
    assert max(walls_s["skip"], walls_s["idle"]) < walls_s["wait"]
