"""Seconds of an inner step: the recursion against closed forms (validation 13 to 16b) and against
a pipeline that is played event by event."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network import Link
from sim.pipeline import StepTimes, Way, hops, in_flight, inner_step_s
from sim.records import Schedule
from tests.sim.naive_pipeline import played_s
from tests.sim.worlds import sizes

stage_seconds = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=8)
micro_batches = st.integers(1, 20)
few_s = st.one_of(st.just(0.0), st.floats(0.0, 5.0))
AT_ONCE = Way()


def step_s(
    forward_s: list[float],
    backward_s: list[float],
    m: int,
    way: Way = AT_ONCE,
    schedule: Schedule = "gpipe",
    **more: Any,
) -> float:
    """A step whose hops are all alike."""
    most, ways = in_flight(schedule, len(forward_s), m), [way] * (len(forward_s) - 1)
    return inner_step_s(forward_s, backward_s, m, most, there=ways, back=ways, **more)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "m", "ms"), [(4, 8, 330), (4, 16, 570), (8, 8, 450)])
def test_validation_13_equal_stages(stages: int, m: int, ms: float, schedule: Schedule) -> None:
    seconds = step_s([0.010] * stages, [0.020] * stages, m, schedule=schedule)
    assert seconds * 1e3 == pytest.approx(ms)
    bubble = 1 - m * 0.030 / seconds
    assert bubble == pytest.approx((stages - 1) / (m + stages - 1))


@pytest.mark.parametrize(("stages", "m", "ms"), [(4, 8, 410), (4, 16, 730), (8, 16, 850)])
def test_validation_14_gpipe_computes_again_before_the_gradient_arrives(
    stages: int, m: int, ms: float
) -> None:
    f, b = [0.010] * stages, [0.020] * stages
    assert step_s(f, b, m, recompute_s=f) * 1e3 == pytest.approx(ms)


@settings(deadline=None)
@given(stage_seconds, stage_seconds, micro_batches)
def test_validation_15_unequal_stages_are_the_sum_of_both_directions(
    forward_s: list[float], backward_s: list[float], m: int
) -> None:
    stages = min(len(forward_s), len(backward_s))
    f, b = forward_s[:stages], backward_s[:stages]
    closed_s = sum(f) + (m - 1) * max(f) + sum(b) + (m - 1) * max(b)
    assert step_s(f, b, m) == pytest.approx(closed_s)


@settings(deadline=None)
@given(stage_seconds, micro_batches, st.floats(0.0, 5.0))
def test_validation_16_latency_adds_a_hop_each_way(t_s: list[float], m: int, c: float) -> None:
    plain_s = step_s(t_s, t_s, m)
    assert step_s(t_s, t_s, m, Way(c)) == pytest.approx(plain_s + 2 * (len(t_s) - 1) * c)


@settings(deadline=None)
@given(stage_seconds, micro_batches, st.floats(0.0, 20.0), st.floats(0.0, 5.0))
def test_validation_16_a_link_is_one_more_stage_each_direction_apart(
    t_s: list[float], m: int, transfer_s: float, c: float
) -> None:
    links_s = [transfer_s] * (len(t_s) - 1)
    one_way_s = sum(t_s) + sum(links_s) + (m - 1) * max(t_s + links_s)
    latency_s = 2 * (len(t_s) - 1) * c
    # a NIC that is busy as long as the link changes nothing: directions have phases of their own
    for way in (Way(c, transfer_s), Way(c, transfer_s, transfer_s)):
        assert step_s(t_s, t_s, m, way) == pytest.approx(2 * one_way_s + latency_s)


@pytest.mark.parametrize(
    ("m", "c", "ms"),
    [
        *((8, 5, 410), (8, 20, 650), (8, 100, 1930)),
        *((16, 5, 710), (16, 20, 1130), (16, 100, 3370)),
        *((32, 5, 1310), (32, 20, 2090), (32, 100, 6250)),
    ],
)
def test_validation_16b_latency_returns_every_cycle_of_1f1b(m: int, c: int, ms: float) -> None:
    assert step_s([10.0] * 4, [20.0] * 4, m, Way(c), "1f1b") == ms


def test_more_in_flight_hides_latency() -> None:
    """Eager 1F1B at 5 ms a hop takes what GPipe takes: the latency is met once."""
    f, b, ways = [10.0] * 4, [20.0] * 4, [Way(5.0)] * 3
    eager = in_flight("1f1b", 4, 8, extra=1)
    assert eager == [7, 5, 3, 1]
    assert inner_step_s(f, b, 8, eager, there=ways, back=ways) == 360
    assert step_s(f, b, 8, Way(5.0)) == 360
    assert step_s(f, b, 8, Way(5.0), "1f1b") == 410


@st.composite
def pipelines(draw: Any) -> dict[str, Any]:
    """Arguments of `inner_step_s`: unequal stages, links and directions."""
    stages, m = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    exact = st.sampled_from([0.0, 0.5, 1.0, 2.0])
    seconds = st.one_of(exact, st.floats(0.0, 3.0))

    def some(what: Any, n: int) -> Any:
        return draw(st.lists(what, min_size=n, max_size=n))

    def ways() -> list[Way]:
        n = stages - 1
        ports = some(st.sampled_from([0.0, 0.3, 1.0]), n)
        each = zip(some(few_s, n), some(seconds, n), ports, strict=True)
        return [Way(c, busy_s, busy_s * port) for c, busy_s, port in each]

    schedule = draw(st.sampled_from(["gpipe", "1f1b"]))
    return {
        "forward_s": some(seconds, stages),
        "backward_s": some(seconds, stages),
        "micro_batches": m,
        "most": in_flight(schedule, stages, m, draw(st.integers(0, 2))),
        "recompute_s": some(st.one_of(st.just(0.0), seconds), stages),
        "there": ways(),
        "back": ways(),
    }


@settings(deadline=None, max_examples=60)
@given(pipelines())
def test_the_recursion_is_the_pipeline_played_event_by_event(case: Mapping[str, Any]) -> None:
    assert inner_step_s(**case) == pytest.approx(played_s(**case))


@settings(deadline=None, max_examples=60)
@given(pipelines(), st.data())
def test_nothing_that_gets_slower_makes_a_step_shorter(case: dict[str, Any], data: Any) -> None:
    slower = {**case}
    for key in ("forward_s", "backward_s", "recompute_s"):
        slower[key] = [each_s + data.draw(few_s) for each_s in case[key]]
    for key in ("there", "back"):
        slower[key] = [Way(*(each_s + data.draw(few_s) for each_s in way)) for way in case[key]]
    assert inner_step_s(**slower) >= inner_step_s(**case) - 1e-9


@settings(deadline=None, max_examples=60)
@given(pipelines())
def test_a_step_takes_at_least_what_its_busiest_stage_computes(case: dict[str, Any]) -> None:
    each_s = zip(case["forward_s"], case["recompute_s"], case["backward_s"], strict=True)
    busiest_s = case["micro_batches"] * max(map(sum, each_s))
    assert inner_step_s(**case) >= busiest_s * (1 - 1e-12)


def test_skipping_a_stage_shortens_the_step_and_saves_a_hop() -> None:
    times = StepTimes(sizes(4, micro_batches=8, hop_bytes=800), ((Link(0.01, 1000.0, 0.0),),))
    whole, skipped = times.of((True,) * 4), times.of((True, False, True, True))
    # a link takes 0.1 s a micro-batch, less than a stage's 0.5 s
    assert whole == pytest.approx((11 + 6 * 0.11, 11))
    assert skipped == pytest.approx((10 + 4 * 0.11, 10))
    assert times.compute_s().tolist() == [8.0] * 4


def test_what_is_computed_again_keeps_a_slot_busy() -> None:
    times = StepTimes(sizes(2, micro_batches=8, recompute_s=(0.5, 0.5)), ((Link(0.0, 1.0, 0.0),),))
    assert times.of((True, True))[1] == 8 * 1.5 + 1.0
    assert times.compute_s().tolist() == [12.0] * 2
    assert times.split((True, True)) == [[12.0] * 2, [0.0] * 2, [1.0] * 2]


def test_1f1b_of_64_stages_and_256_micro_batches_is_a_moment() -> None:
    """32,768 passes and as many sends; well under a second, or masks would be dear."""
    seconds = step_s([1.0] * 64, [2.0] * 64, 256, Way(0.0, 0.5), "1f1b")
    assert seconds > (256 + 63) * 3


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
