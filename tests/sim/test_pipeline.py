"""Seconds of an inner step: the recursion against closed forms (validation 13, 15, 16)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network import Link
from sim.pipeline import StepTimes, hops, inner_step_s
from tests.sim.worlds import sizes

stage_seconds = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=8)
micro_batches = st.integers(1, 20)


@pytest.mark.parametrize(("stages", "m", "ms"), [(4, 8, 330), (4, 16, 570), (8, 8, 450)])
def test_validation_13_equal_stages(stages: int, m: int, ms: float) -> None:
    step_s = inner_step_s([0.010] * stages, [0.020] * stages, m)
    assert step_s * 1e3 == pytest.approx(ms)
    bubble = 1 - m * 0.030 / step_s
    assert bubble == pytest.approx((stages - 1) / (m + stages - 1))


@settings(deadline=None)
@given(stage_seconds, stage_seconds, micro_batches)
def test_validation_15_unequal_stages_are_the_sum_of_both_directions(
    forward_s: list[float], backward_s: list[float], m: int
) -> None:
    stages = min(len(forward_s), len(backward_s))
    f, b = forward_s[:stages], backward_s[:stages]
    closed_s = sum(f) + (m - 1) * max(f) + sum(b) + (m - 1) * max(b)
    assert inner_step_s(f, b, m) == pytest.approx(closed_s)


@settings(deadline=None)
@given(stage_seconds, micro_batches, st.floats(0.0, 5.0))
def test_validation_16_latency_adds_a_hop_each_way(t_s: list[float], m: int, c: float) -> None:
    plain_s = inner_step_s(t_s, t_s, m)
    assert inner_step_s(t_s, t_s, m, c) == pytest.approx(plain_s + 2 * (len(t_s) - 1) * c)


@settings(deadline=None)
@given(stage_seconds, micro_batches, st.floats(0.0, 20.0), st.floats(0.0, 5.0))
def test_validation_16_a_link_is_one_more_stage_each_direction_apart(
    t_s: list[float], m: int, transfer_s: float, c: float
) -> None:
    links_s = [transfer_s] * (len(t_s) - 1)
    one_way_s = sum(t_s) + sum(links_s) + (m - 1) * max(t_s + links_s)
    latency_s = 2 * (len(t_s) - 1) * c
    assert inner_step_s(t_s, t_s, m, c, transfer_s) == pytest.approx(2 * one_way_s + latency_s)


def test_skipping_a_stage_shortens_the_step_and_saves_a_hop() -> None:
    times = StepTimes(sizes(4, micro_batches=8, hop_bytes=800), Link(0.01, 1000.0, 0.0))
    whole, skipped = times.of((True,) * 4), times.of((True, False, True, True))
    # a link takes 0.1 s a micro-batch, less than a stage's 0.5 s
    assert whole == pytest.approx((11 + 6 * 0.11, 11))
    assert skipped == pytest.approx((10 + 4 * 0.11, 10))
    assert times.compute_s().tolist() == [8.0] * 4


@given(st.lists(st.booleans(), max_size=8))
def test_rule_11_hops_join_live_neighbours(mask: list[bool]) -> None:
    pairs = hops(tuple(mask))
    assert len(pairs) == max(sum(mask) - 1, 0)
    for a, b in pairs:
        assert mask[a]
        assert mask[b]
        assert not any(mask[a + 1 : b])
    assert all(first[1] == second[0] for first, second in itertools.pairwise(pairs))


def test_a_link_is_free_while_there_is_nothing_to_send() -> None:
    link = Link(0.03, 1e6, 2e-9)
    assert link.seconds(0) == 0.0
    assert link.seconds(500_000) == pytest.approx(0.53)
    assert link.transfer_s(500_000) == 0.5
