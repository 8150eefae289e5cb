"""Instants are exact, and streams independent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.clock import LAST, Clock, later, stream

instants = st.floats(0.0, 1e12, allow_nan=False)


@settings(deadline=None, max_examples=300)
@given(st.lists(instants, min_size=1, max_size=5))
def test_events_come_at_exactly_their_instants(when: list[float]) -> None:
    env, seen = Clock(), []

    def process() -> simpy.events.ProcessGenerator:
        for t_s in sorted(when):
            yield env.at(t_s)
            seen.append(env.now)

    env.process(process())
    for t_s in when:
        env.call_at(t_s, lambda: seen.append(env.now))
    env.run()
    assert sorted(seen) == sorted(when * 2)


def test_a_delay_could_not_do_that() -> None:
    now, t_s = 128.02792379551914, 660.7125814177704
    near = t_s - now
    delays = [near, np.nextafter(near, 0.0), np.nextafter(near, 1e9)]
    assert t_s not in [now + delay for delay in delays]


@pytest.mark.parametrize("t_s", [9.0, float("inf"), float("nan")])
def test_the_past_and_never_are_no_instants(t_s: float) -> None:
    env = Clock()
    env.run(until=env.at(10.0))
    with pytest.raises(ValueError, match="must be finite and not past"):
        env.at(t_s)


def test_last_comes_after_all_that_an_instant_sets_off() -> None:
    env, seen = Clock(), []

    def chain(left: int) -> None:
        seen.append(left)
        if left:
            env.call_at(env.now, lambda: chain(left - 1))

    env.call_at(5.0, lambda: seen.append("last"), LAST)
    env.call_at(5.0, lambda: chain(3))
    env.call_at(5.0, lambda: seen.append("beside"))
    env.run()
    assert seen == [3, "beside", 2, 1, 0, "last"]


@settings(deadline=None)
@given(instants, st.floats(0.0, 1e6))
def test_what_begins_ends_later(now_s: float, duration_s: float) -> None:
    end_s = later(now_s, duration_s)
    assert end_s > now_s
    assert end_s >= now_s + duration_s


def test_streams_differ_by_seed_purpose_and_key_and_repeat() -> None:
    keys = [
        (seed, purpose, *key)
        for seed in (0, 1)
        for purpose in ("worker", "per_global_step")
        for key in [("a", 0), ("a", 1), ("b", 0), (0,), (1,), ()]
    ]
    draws = [stream(*key).random(4000) for key in keys]
    assert np.array_equal(draws[3], stream(*keys[3]).random(4000))
    for a, b in itertools.combinations(draws, 2):
        assert not np.any(a == b)
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(4000)
