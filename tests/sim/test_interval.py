"""`checkpoint: auto`: the search's arithmetic is the engine's, and its draws are its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.config import Cluster, PerGlobalStep
from sim.interval_search import (
    ByGlobalStep,
    ByTheClock,
    Stretch,
    Work,
    best_interval,
    finish_s,
    stretches,
)
from sim.provider import provider
from sim.strikes import PublishedRegime
from sim.watched import WatchedJob
from tests.sim.scenarios import PER_STEP
from tests.sim.worlds import RESTART, job

LAWS: list[dict[str, Any]] = [
    {"up_h": {"law": "exponential", "mean": 0.2}, "outage_h": 0.01},
    {"up_h": {"law": "weibull", "mean": 0.2, "shape": 0.6}, "outage_h": 0.01, "provision_s": 9.0},
    {"up_h": 0.07, "outage_h": 0.02, "detect_s": 5.0},
    {"shocks": {"every_h": 0.05, "share": 0.4}, "outage_h": 0.01, "notice_s": 3.0, "spares": 2},
]


def restarting(every: int | str, rounds: int = 60, **more: Any) -> WatchedJob:
    keys = {"every_global_steps": every, "cost_s": 10.0}
    outages = more.pop("outages", {"kind": "pools"})
    return job(outages=outages, policy=RESTART, checkpoint=keys, rounds=rounds, **more)


def intervals_of(a_job: WatchedJob) -> int:
    assert a_job.checkpoints is not None
    return a_job.checkpoints.every


def test_a_stretch_holds_what_fits_whole() -> None:
    work = Work(rounds=6, round_s=10.0, cost_s=3.0)
    from_s, long_s = np.array([0.0, 100.0, 200.0]), np.array([45.0, 23.0, 90.0])
    # segments of 23 s: one in 45 s, one in 23 s; the last two rounds need no checkpoint
    assert finish_s(work, 2, from_s, long_s) == 220.0
    # segments of 13 s: three, one; then two rounds and the checkpoint between them
    assert finish_s(work, 1, from_s, long_s) == 223.0
    assert finish_s(work, 6, from_s, long_s) == 260.0
    assert math.isinf(finish_s(work, 6, from_s[:2], long_s[:2]))


@pytest.mark.parametrize("laws", LAWS, ids=["exponential", "weibull", "fixed", "shocks"])
@pytest.mark.parametrize("every", [1, 3, 8, 60])
def test_the_engine_ends_when_the_search_says(laws: dict[str, Any], every: int) -> None:
    a_job = restarting(every, seed=7, **laws)
    fresh = restarting(every, seed=7, **laws)
    found = stretches(a_job.terms, fresh.roster, provider(a_job.config.pools, 7))
    from_s, until_s = np.array(list(itertools.islice(found, 4000))).T
    work = Work(rounds=60, round_s=a_job.healthy_s, cost_s=10.0)
    end_s = finish_s(work, every, from_s, until_s - from_s)
    if every == 60 and math.isinf(end_s):
        pytest.skip("no stretch is that long")
    assert list(a_job.global_steps())[-1].end_s == pytest.approx(end_s, rel=1e-12)


def test_in_the_published_regime_intervals_differ_by_what_they_undo() -> None:
    outages = PER_STEP | {"probability": 0.1, "duration_global_steps": 2, "stages": "all"}
    regime = PublishedRegime(
        PerGlobalStep.model_validate(outages), Cluster(replicas=2, stages=3), seed=5
    )
    search = ByGlobalStep(Work(rounds=60, round_s=16.0, cost_s=10.0), regime)
    assert len(search.struck) > 5
    ends = [
        list(restarting(every, outages=outages, seed=5).global_steps())[-1].end_s
        - search.expected_s(every)
        for every in (1, 4, 7, 60)
    ]
    assert ends == pytest.approx([len(search.struck) * 2 * 16.0] * 4)


def test_auto_is_the_same_for_all_seeds_and_touches_no_draw_of_the_run() -> None:
    auto = [restarting("auto", seed=seed, **LAWS[1]) for seed in (1, 2)]
    assert intervals_of(auto[0]) == intervals_of(auto[1])
    given_number = restarting(intervals_of(auto[0]), seed=1, **LAWS[1])
    a, b = (list(each.global_steps()) for each in (auto[0], given_number))
    assert [step.end_s for step in a] == [step.end_s for step in b]
    assert repr(auto[0].spells()) == repr(given_number.spells())


def test_two_policies_share_identical_spells() -> None:
    jobs = [restarting(2, seed=3, **LAWS[0])]
    jobs += [job(outages={"kind": "pools"}, policy=["wait"], rounds=60, seed=3, **LAWS[0])]
    horizon_s = min(list(each.global_steps())[-1].end_s for each in jobs)
    told = [
        [
            (s.worker, s.gone_s, min(horizon_s, s.back_s))
            for s in each.spells()
            if s.gone_s < horizon_s
        ]
        for each in jobs
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 2


def test_auto_of_a_job_in_which_next_to_nothing_fails_stores_nothing() -> None:
    rare = {"up_h": {"law": "exponential", "mean": 1e5}, "outage_h": 0.01}
    assert intervals_of(restarting("auto", **rare)) == 60
    assert intervals_of(restarting("auto", outages={"kind": "none"})) == 60


def test_auto_where_nobody_comes_back_is_as_near_as_a_formula() -> None:
    gone_for_ever = {"up_h": {"law": "exponential", "mean": 0.1}}
    daly = intervals_of(restarting("daly", rounds=10_000, **gone_for_ever))
    assert intervals_of(restarting("auto", rounds=10_000, **gone_for_ever)) == daly


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 2000))
def test_the_search_finds_the_bottom_of_a_smooth_curve(bottom: int, near: int, most: int) -> None:
    """C/tau + tau/2M, from wherever it begins, to within the flat part."""

    def expected_s(every: int) -> float:
        return bottom / every + every / bottom

    best = min(bottom, most)
    if best / 8 <= near <= best * 8:
        found = best_interval(most, near, expected_s)
        assert 1 <= found <= most
        assert expected_s(found) <= 1.002 * expected_s(best) + 1e-9


def test_a_run_is_simulated_as_far_as_is_needed() -> None:
    taken = 0

    def simulate(seed: int) -> Iterator[Stretch]:
        nonlocal taken
        for k in itertools.count():
            taken += 1
            yield 100.0 * k, 100.0 * k + 50.0

    search = ByTheClock(Work(rounds=8, round_s=10.0, cost_s=1.0), simulate, near=2)
    assert search.expected_s(2) == 100.0 + 41, "four rounds in each stretch"
    assert math.isinf(search.expected_s(6))
    assert taken <= 64 * 16
