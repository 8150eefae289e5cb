"""Exchanges among the replicas, beside the store (validation 17, 18; rules 3, 6, 7, 10)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.config import Network
from sim.job import Job
from sim.network import Link
from sim.via import ByAllGather, ByRing, ByStore, Members
from tests.sim.worlds import IDLE, MB, SKIP, WAIT, Outage, gone, job, seconds, sizes

NET = ((Link(0.001, 1.25e9, 0.0),),)  # 10 Gb/s, 1 ms
NO_CAP = (math.inf,)
PEERS = ["ring", "allgather"]


def members(sends: list[bool], nbytes: int = MB, kinds: list[int] | None = None) -> Members:
    """Of one stage; all are here."""
    slots = np.array(sends)[:, None]
    of = np.array(kinds or [0] * len(sends))[:, None]
    return Members(slots, np.ones_like(slots), of, [nbytes])


def peers(via: str, **store: float) -> Network:
    """8 Mb/s, that is 1 MB/s, between replicas; no hop time."""
    slow = {"up_mbps": 8.0, "down_mbps": 8.0, "latency_ms": 0.0}
    return Network.model_validate(
        {
            "stages": {"bandwidth_mbps": 64.0, "latency_ms": 0.0},
            "replicas": {"via": via, "bandwidth_mbps": 8.0, "latency_ms": 0.0, "usd_per_gb": 1.0},
            "store": slow | store,
        }
    )


def world(via: str, script: Mapping[str, Outage] | None = None, **more: Any) -> Job:
    """The standard world: steps until 12 s, then a MB/s between replicas."""
    return job(script or {}, links=peers(via), **more)


def test_validation_17_ring_all_reduce() -> None:
    ring, eight = ByRing(NET), members([True] * 8, nbytes=10**9)
    assert ring.seconds(eight).max() == pytest.approx(1.414)
    assert ring.billed(eight) == {0.0: 8 * 2 * 7 / 8 * 10**9}


def test_validation_18_sparse_all_gather() -> None:
    gather, eight = ByAllGather(NET, NO_CAP), members([True] * 8, nbytes=10 * MB)
    assert gather.seconds(eight).max() == pytest.approx(0.063)
    assert gather.billed(eight) == {0.0: 8 * 7 * 10 * MB}


@given(st.integers(2, 6).flatmap(lambda n: st.lists(st.booleans(), min_size=n, max_size=n)))
def test_fewer_senders_are_never_slower_and_a_lone_one_needs_nobody(mask: list[bool]) -> None:
    """Who is here and sends nothing still receives; a stage that nobody sends takes no time."""
    some, everybody = members(mask), members([True] * len(mask))
    for way in (ByRing(NET), ByAllGather(NET, NO_CAP)):
        took_s = way.seconds(some)
        assert took_s.max() <= way.seconds(everybody).max()
        assert (took_s.max() > 0) == any(mask)
        assert (way.billed(some).total() > 0) == any(mask)
        assert not way.seconds(members([True])).any()


SLOW = Link(0.5, 1e6, 3e-9)
FAST = Link(0.0, 4e6, 1e-9)
MIXED = ((FAST, SLOW), (FAST, FAST))  # kind 0 sends to kind 1 slowly
TWO = [0, 1]


def test_a_ring_goes_at_the_pace_of_its_slowest_link() -> None:
    ring = ByRing(MIXED)
    three = members([True] * 3, nbytes=3 * MB, kinds=[0, 0, 1])
    assert ring.seconds(three).tolist() == [[4 * 1.5]] * 3
    assert ring.billed(three) == {1e-9: 4 * MB * 2, 3e-9: 4 * MB}
    back = members([True] * 3, nbytes=3 * MB, kinds=[1, 1, 1])
    assert ring.seconds(back).tolist() == [[4 * 0.25]] * 3


def test_an_all_gather_takes_each_update_over_its_own_link() -> None:
    three = members([True] * 3, nbytes=4 * MB, kinds=[0, 0, 1])
    gather = ByAllGather(MIXED, (math.inf, math.inf))
    assert gather.seconds(three).tolist() == [[1.0 + 1.0], [1.0 + 1.0], [4.5 + 4.5]]
    assert gather.billed(three) == {1e-9: 4 * 4 * MB, 3e-9: 2 * 4 * MB}


def test_a_sender_gives_its_update_to_all_through_one_nic() -> None:
    """Worker 2 sends 1 MB/s in all, so its two copies of 4 MB take 8 s, whoever gets them."""
    three = members([True] * 3, nbytes=4 * MB, kinds=[0, 0, 1])
    gather = ByAllGather(MIXED, (math.inf, 1e6))
    assert gather.seconds(three).tolist() == [[8.0], [8.0], [9.0]]


def test_an_exchange_by_store_takes_each_workers_own_link() -> None:
    store = ByStore((FAST, SLOW), (FAST, SLOW))
    two = members([True, True], nbytes=4 * MB, kinds=TWO)
    assert store.seconds(two).tolist() == [[1.0], [4.5]]
    assert [store.upload_s(4 * MB, kind) for kind in TWO] == [1.0, 4.5]


@pytest.mark.parametrize("via", PEERS)
def test_the_exchange_starts_when_all_have_their_steps_and_costs_no_upload(via: str) -> None:
    a_job = world(via)
    first = next(a_job.global_steps())
    # two replicas: of 2 MB, the other's update, or twice half of it around the ring
    assert first.end_s == a_job.healthy_s == 12 + 2
    assert first.sends.all()
    assert first.nbytes["sync"] == 2 * 3 * 2 * MB
    assert first.usd["egress"] == pytest.approx(12e6 / 1e9 * 1.0)
    assert seconds(first) == {"compute": 24.0, "bubble": 48.0, "sync": 12.0}


@pytest.mark.parametrize("via", PEERS)
def test_rule_03_who_is_lost_between_its_steps_and_the_exchange_has_sent_nothing(via: str) -> None:
    """Replica 0 skips a stage and is done at 10 s; its stage 2 is lost at 11 s, known at 14 s."""
    script = {"a": gone(0, 1, 0.0, 100.0), "b": gone(0, 2, 11.0, 100.0)}
    done, *_ = world(via, script, policy=SKIP, detect_s=3.0).global_steps()
    assert done.steps.tolist() == [[4, 0, 4], [4, 4, 4]]
    assert done.sends.tolist() == [[True, False, False], [True, True, True]]
    # the others wait until the loss is known; stage 0 has two senders, 2 MB each way
    assert done.end_s == 14 + 2
    assert done.nbytes["lost_sync"] == 0


@pytest.mark.parametrize("via", PEERS)
def test_rule_03_a_loss_in_the_exchange_belongs_to_the_next_round(via: str) -> None:
    first, second, *_ = world(via, {"a": gone(0, 1, 13.0, 100.0)}, policy=SKIP).global_steps()
    assert first.sends.all()
    assert first.end_s == 14
    assert second.steps.tolist() == [[4, 0, 4], [4, 4, 4]]


@pytest.mark.parametrize("via", PEERS)
def test_rule_06_an_idle_replica_receives_what_the_others_send(via: str) -> None:
    script = {"a": gone(0, 0, 1.0, 100.0)}
    first = next(world(via, script, policy=IDLE, replicas=3).global_steps())
    assert first.sends.tolist() == [[False] * 3, [True] * 3, [True] * 3]
    # stages 1 and 2 of replica 0 are here, take part and get two updates
    received = 2 * MB * (2 + 4 + 4) if via == "allgather" else 2 * MB * 2 * (1 + 2 + 2)
    assert first.nbytes["sync"] == received
    assert first.end_s == 12 + (4 if via == "allgather" else 4 * 2 / 3)


@pytest.mark.parametrize("via", PEERS)
def test_rule_07_under_wait_a_loss_before_the_exchange_repeats_the_round(via: str) -> None:
    """Nothing of the round is stored yet: it begins again when the slot is ready, at 25 s."""
    script = {"a": gone(0, 1, 20.0, 20.0 + 5.0), "b": gone(1, 2, 3.0, 12.0)}
    a_job = world(via, script, policy=WAIT)
    first, *_ = a_job.global_steps()
    # replica 1 starts again at 12 + 5 and is done at 29 s; replica 0 was done at 12 s
    assert first.steps.tolist() == [[4, 4, 4], [4, 4, 4]]
    assert first.end_s == 20 + 5 + 5 + 12 + 2
    assert first.nbytes["lost_sync"] == 0


def test_rule_10_who_leaves_with_notice_sends_if_it_is_there_when_the_exchange_begins() -> None:
    """Done at 12 s in a world where the other replica is done at 12 s too; gone at 13 s."""
    for gone_s, sent in ((13.0, True), (12.0, True), (11.5, False)):
        script = {"a": gone(0, 1, gone_s, 100.0)}
        first = next(world("ring", script, policy=SKIP, notice_s=5.0).global_steps())
        assert first.sends[0, 1] == sent


def test_an_exchange_of_nothing_takes_no_time() -> None:
    of = sizes(update_bytes=(0, 0, 0))
    for via in PEERS:
        assert world(via, of=of).healthy_s == 12.0
