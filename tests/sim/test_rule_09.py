"""Rule 9 of a global step: the published regime. By hand, see `worlds`."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from sim.config import Cluster, PerGlobalStep
from sim.strikes import PublishedRegime
from tests.sim.worlds import (
    IDLE,
    MB,
    SKIP_WAIT,
    WAIT,
    at,
    job,
    run,
    seconds,
)

ALL = [[4, 4, 4], [4, 4, 4]]


def published(probability: float, rounds_out: int, **more: object) -> PerGlobalStep:
    return PerGlobalStep.model_validate(
        {
            "kind": "per_global_step",
            "probability": probability,
            "duration_global_steps": rounds_out,
            **more,
        }
    )


# --- 9. the published regime ------------------------------------------------------------------


def test_rule_09_one_stage_is_out_for_d_rounds_the_failing_one_first() -> None:
    first, second, third, fourth, fifth = run(
        outages=published(1.0, 2, stages=[1], start_step=1), rounds=5
    )
    assert first.steps.tolist() == ALL
    for step in (second, third, fourth, fifth):  # p = 1: it fails as soon as it may
        assert step.steps.tolist() == [[4, 0, 4], [4, 0, 4]]
        assert step.end_s - step.start_s == 8 + 2 + 2
    assert [step.joins.any() for step in (first, second, third, fourth, fifth)] == [
        False,
        False,
        False,
        True,
        False,
    ]
    restored = [step.nbytes["restore"] for step in (first, second, third, fourth, fifth)]
    assert restored == [0, 0, 0, 2 * 3 * MB, 0], "bytes only, where it joins"
    assert seconds(third) == {"vacant": 24, "compute": 16, "bubble": 16, "sync": 16}


def test_rule_09_detection_notice_and_provisioning_do_not_count() -> None:
    plain = run(outages=published(0.5, 2), rounds=20)
    slow = run(outages=published(0.5, 2), rounds=20, detect_s=9.0, notice_s=5.0, provision_s=7.0)
    assert any((step.steps == 0).any() for step in plain)
    for a, b in zip(plain, slow, strict=True):
        assert a.end_s == b.end_s
        assert a.steps.tolist() == b.steps.tolist()


def test_rule_09_only_a_whole_replica_fails_and_it_is_out_for_exactly_d() -> None:
    steps = np.array([s.steps for s in run(outages=published(0.3, 4), rounds=400, stages=5)])
    for r in range(2):
        out = [tuple(np.flatnonzero(row == 0)) for row in steps[:, r]]
        assert {len(stages) for stages in out} == {0, 1}
        assert {stage for stages in out for stage in stages} == {1, 2, 3}
        lengths = [len(list(group)) for stages, group in itertools.groupby(out) if stages]
        assert all(length % 4 == 0 for length in lengths[:-1])


def test_rule_09_draws_are_nested_in_p_and_drawn_once_an_index() -> None:
    def drawn(p: float, **more: object) -> list[set[tuple[int, int]]]:
        regime = PublishedRegime(published(p, 6, **more), Cluster(replicas=6, stages=5), seed=3)
        return [set(regime.drawn(index)) for index in range(300)]

    few, many, every = drawn(0.1), drawn(0.4), drawn(1.0)
    assert all(a <= b <= c for a, b, c in zip(few, many, every, strict=True))
    assert 0 < sum(map(len, few)) < sum(map(len, many)) < sum(map(len, every)) == 6 * 300
    stages = Counter(stage for slots in every for _, stage in slots)
    assert set(stages) == {1, 2, 3}
    assert all(abs(count - 600) < 5 * 20 for count in stages.values()), "uniform, 5 sigma"
    late = drawn(0.4, start_step=100)
    assert late[:100] == [set()] * 100
    assert late[100:] == many[100:]


def test_rule_09_while_nobody_can_train_healthy_seconds_pass_as_rounds_of_d() -> None:
    first, second = run(outages=published(1.0, 3, stages="ends"), replicas=1, rounds=2)
    # struck at 0, three healthy rounds of 14 s pass, then the round itself
    assert (first.end_s, second.end_s) == (3 * 14 + 14, 2 * (3 * 14 + 14))
    assert first.steps.tolist() == second.steps.tolist() == [[4, 4, 4]]
    assert seconds(first)["vacant"] == 3 * 14
    assert seconds(first)["wait"] == 2 * 3 * 14
    assert first.joins.sum() == second.joins.sum() == 1
    assert first.nbytes["restore"] == 3 * MB


def test_rule_09_a_stall_ends_with_the_first_to_return() -> None:
    """Replica 1 was struck two rounds before replica 0: D counts on through the stall."""
    outages = published(0.35, 4, stages="ends")
    a_job = job(outages=outages, rounds=60, policy=IDLE)
    left: dict[int, int] = {}
    regime = PublishedRegime(outages, Cluster(replicas=2, stages=3), seed=0)
    for step in a_job.global_steps():
        for r, _ in regime.drawn(step.index):
            left.setdefault(r, 4)
        stalls = min(left.values()) if len(left) == 2 else 0
        left = {r: n - stalls for r, n in left.items() if n > stalls}
        assert [r for r in range(2) if not step.steps[r].any()] == sorted(left)
        assert step.end_s - step.start_s == pytest.approx(16 * (stalls + 1))
        left = {r: n - 1 for r, n in left.items() if n > 1}


@pytest.mark.parametrize(("policy", "stages"), [(WAIT, "all"), (SKIP_WAIT, "ends")])
def test_rule_09_under_wait_the_slot_is_out_for_d_healthy_rounds_seconds(
    policy: list[str], stages: str
) -> None:
    outages = published(1.0, 3, stages=stages, start_step=1)
    first, second = run(outages=outages, policy=policy, rounds=2)
    assert first.end_s == 16.0
    assert second.end_s == 16.0 + 3 * 16 + 16
    assert second.steps.tolist() == ALL
    assert not second.joins.any()
    assert second.nbytes["restore"] == 2 * 5 * MB
    assert seconds(second)["vacant"] == 2 * 3 * 16
    assert "lost" not in seconds(second)


def test_rule_09_a_script_may_tell_an_outage_in_steps() -> None:
    first, second, third = run({"a": at(0, 1, 1, 2, outage_s=5.0)}, detect_s=1.0)
    assert first.steps.tolist() == ALL
    # planned start of step 2 of round 1: 16 + 6 = 22; noticed at 23, two steps until 27
    assert second.steps.tolist() == [[4, 2, 4], [4, 4, 4]]
    assert seconds(second)["vacant"] == 5
    assert seconds(second)["lost"] == 2 * 1
    assert third.joins.tolist() == [[0, 1, 0], [0, 0, 0]]
