"""What holds of every round of every job, on random ones (design section 9)."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.config import HOUR_S, Pool, on_call
from sim.ledger import Ledger
from sim.networks import Network, Peers, Ring
from sim.records import CLASSES, TIMELINE_STATES, GlobalStep
from sim.replicas import Replicas
from sim.roster import Roster
from sim.watched import WatchedJob
from tests.sim.scenarios import POLICIES, Case, cases, ran, seating
from tests.sim.worlds import RESTART, WAIT, live, network

pytestmark = pytest.mark.usefixtures("impatience")
randomly = settings(
    deadline=None,
    max_examples=100,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-6)


@randomly
@given(cases())
def test_every_round_is_sound(case: Case) -> None:
    a_job = case.job()
    steps = ran(a_job)
    R, S, H = case.replicas, case.stages, case.steps
    start_s = 0.0
    for index, step in enumerate(steps):
        assert (step.index, step.start_s) == (index, start_s)
        assert step.end_s > start_s
        start_s = step.end_s
        for array in (step.steps, step.sends, step.joins, step.compute_s, step.slowness):
            assert array.shape == (R, S)
            assert not array.flags.writeable
        assert step.steps.min() >= 0
        assert step.steps.max() == H, "a round without a replica that trained it is no round"
        assert set(step.steps.max(axis=1)) <= {0, H}, "a replica completes H steps or counts none"
        assert np.all(step.steps[step.sends] == H)
        assert set(np.unique(step.joins)) <= {0, 1, 2}
        if case.policy in (WAIT, RESTART):
            assert (step.steps == H).all()
            assert step.sends.all()
            assert not step.joins.any()
        check_sums(step, a_job)
        check_traffic(step, a_job)
    check_timeline(a_job, steps)
    check_workers(a_job, steps)


def check_sums(step: GlobalStep, a_job: WatchedJob) -> None:
    """Seconds and dollars."""
    wall_s, config = step.end_s - step.start_s, a_job.config
    assert tuple(step.slot_s) == CLASSES
    assert min(step.slot_s.values()) >= -1e-6
    slots = step.steps.size
    assert sum(step.slot_s.values()) == near(slots * wall_s)
    billed_s = slots * wall_s - step.slot_s["vacant"] + step.spare_s
    assert sum(step.node_s.values()) == near(billed_s)
    both = np.add(config.sizes.forward_s, config.sizes.backward_s)
    assert step.compute_s == near(step.steps * step.slowness * config.sizes.micro_batches * both)
    assert step.compute_s.sum() == near(step.slot_s["compute"])
    prices = {name: pool.usd_per_h / HOUR_S for name, pool in config.pools.items()}
    assert step.usd["compute"] == near(sum(step.node_s[name] * prices[name] for name in prices))
    check_egress(step, config.network, a_job.terms.restarts)


def check_egress(step: GlobalStep, network: Network, restarts: bool) -> None:
    """Bytes x price of their link class; between regions the price is one of a few."""
    store, nbytes = network.store.usd_per_gb, step.nbytes
    by_store = nbytes["restore"] + nbytes["snapshot"]
    hops, peers = nbytes["boundary"] + nbytes["lost_boundary"], 0
    if isinstance(network.replicas, Peers):
        assert nbytes["lost_sync"] == 0 or restarts, "what was not uploaded was not sent"
        peers = nbytes["sync"] + nbytes["lost_sync"]
    else:
        by_store += nbytes["sync"] + nbytes["lost_sync"]
    rest = step.usd["egress"] - by_store * store / 1e9
    if network.regions is None:
        peer_price = network.replicas.usd_per_gb if isinstance(network.replicas, Peers) else 0.0
        assert rest == near((hops * network.stages.usd_per_gb + peers * peer_price) / 1e9)
    else:
        assert -1e-12 <= rest <= (hops + peers) / 1e9 + 1e-9


def check_traffic(step: GlobalStep, a_job: WatchedJob) -> None:
    """Crossings and bytes, from the masks alone."""
    sizes, H = a_job.config.sizes, a_job.config.inner_steps
    crossings: Counter[tuple[int, int]] = Counter()
    for mask in live(step, H).reshape(-1, step.steps.shape[1]):
        crossings.update(itertools.pairwise(np.flatnonzero(mask).tolist()))
    assert step.crossings == crossings
    assert step.nbytes["boundary"] == 2 * sizes.hop_bytes * crossings.total()
    sent = step.sends.sum(axis=0)
    most = step.sends.sum() + (sent * step.steps.shape[0] - sent).sum()
    if isinstance(a_job.config.network.replicas, Ring):
        most = 2 * (step.steps.shape[0] - 1) * step.steps.shape[1]
    assert step.nbytes["sync"] <= most * max(sizes.update_bytes)
    assert min(step.nbytes.values()) >= 0


def check_timeline(a_job: WatchedJob, steps: list[GlobalStep]) -> None:
    """Rows tile [0, wall] for each slot, and say what the ledger says."""
    rows = a_job.timeline()
    wall_s = steps[-1].end_s if steps else 0.0
    booked = dict.fromkeys(TIMELINE_STATES, 0.0)
    for r, s in itertools.product(range(a_job.R), range(a_job.S)):
        of_slot = [row[2:] for row in rows if row[:2] == (r, s)]
        now = 0.0
        for k, (worker, state, start_s, end_s) in enumerate(of_slot):
            assert start_s == now < end_s
            assert of_slot[k + 1 : k + 2] == [] or of_slot[k + 1][:2] != (worker, state)
            assert (worker == -1) == (state == "vacant")
            booked[state] += end_s - start_s
            now = end_s
            pool = a_job.roster.workers[worker].pool
            if state == "provision":
                assert end_s - start_s <= pool.provision_s + 1e-6
            if state == "restore":
                kind = a_job.roster.workers[worker].kind
                of_both = [a_job.terms.restore(s, kind, is_left) for is_left in (False, True)]
                assert end_s - start_s <= max(seconds for _, seconds in of_both) + 1e-6
        assert now == wall_s
    for state in ("vacant", "provision", "restore", "lost"):
        assert booked[state] == near(sum(step.slot_s[state] for step in steps))


def check_workers(a_job: WatchedJob, steps: list[GlobalStep]) -> None:
    """Each worker is in one place, and is paid from back to gone; one on call in its slot only."""
    seats = [place.worker for place in a_job.roster.places if place.worker is not None]
    assert len(set(seats)) == len(seats)
    assert all(worker.up and worker.place is not None for worker in seats)
    wall_s = steps[-1].end_s if steps else 0.0
    bought = on_call(a_job.config.pools)
    for name, pool in a_job.config.pools.items():
        if name in bought:
            of_pool = [worker.number for worker in a_job.roster.workers if worker.zone == name]
            rows = [row[4:] for row in a_job.timeline() if row[2] in of_pool]
            in_slots_s = sum(end_s - start_s for start_s, end_s in rows)
            assert sum(step.node_s[name] for step in steps) == near(in_slots_s)
            continue
        away_s = 0.0
        for spell in a_job.spells():
            if spell.zone == name and spell.gone_s < wall_s:
                away_s += min(wall_s, spell.back_s) - spell.gone_s  # NaN: not back
        node_s = sum(step.node_s[name] for step in steps)
        assert node_s == near((pool.workers or 0) * wall_s - away_s)


def told(steps: list[GlobalStep]) -> list[tuple[Any, ...]]:
    """Everything of some rounds that must repeat to the bit."""
    return [
        (
            step.index,
            step.start_s,
            step.end_s,
            step.steps.tolist(),
            step.sends.tolist(),
            step.joins.tolist(),
            step.crossings,
            step.nbytes,
        )
        for step in steps
    ]


@randomly
@given(cases())
def test_the_same_seed_gives_the_same_run(case: Case) -> None:
    first, second = case.job(), case.job()
    a, b = ran(first), ran(second)
    assert told(a) == told(b)
    assert [(g.slot_s, g.node_s, g.usd) for g in a] == [(g.slot_s, g.node_s, g.usd) for g in b]
    assert repr(first.spells()) == repr(second.spells())
    assert first.timeline() == second.timeline()


@randomly
@given(cases())
def test_short_cuts_change_nothing(case: Case) -> None:
    """Rounds that repeat, plans that are shared, replicas booked together: against none of it."""
    a_job = case.job()
    steps = ran(a_job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Roster, "is_calm_since", lambda self, t_s: False)
        patch.setattr(Ledger, "_alike", lambda self, *_: ([r] for r in range(case.replicas)))
        begin = Replicas.begin

        def begin_alone(self: Replicas, index: int, t_s: float) -> None:
            begin(self, index, t_s)
            for r in range(case.replicas):
                self._own(r)

        patch.setattr(Replicas, "begin", begin_alone)
        slow_job = case.job()
        slow = ran(slow_job)
    assert told(steps) == told(slow)
    for a, b in zip(steps, slow, strict=True):
        assert a.slot_s == near(b.slot_s)
        assert a.usd == near(b.usd)
        assert np.array_equal(a.compute_s, b.compute_s)
        assert np.array_equal(a.slowness, b.slowness)
    assert a_job.timeline() == slow_job.timeline()


@randomly
@given(cases(kinds=("pools",)), st.data())
def test_the_outages_are_the_same_whatever_is_done_about_them(case: Case, data: Any) -> None:
    """To the bit, as far as both runs go: policy, seats, prices, links, boot, a pool behind."""
    dear = {
        name: pool.model_copy(
            update={"usd_per_h": 99.0, "provision_s": 7.0, "detect_s": 1.0, "notice_s": 2.5}
        )
        for name, pool in case.pools.items()
    }
    backup = {"backup": dear.pop("backup")} if "backup" in dear else {}
    policy = data.draw(st.sampled_from(POLICIES))
    other = case.but(
        policy=policy,
        hand_over=not case.hand_over,
        cluster=data.draw(seating([*case.pools, "z"], "pools", policy, case.replicas)),
        pools={**dear, "z": Pool(workers=2, up_h=0.01, outage_h=0.02), **backup},
        links=network(hop_mbps=100.0, up_mbps=3.0),
        steps=case.steps + 1,
        replicas=max(1, case.replicas - 1),
    )
    jobs = [case.job(), other.job()]
    walls_s = [steps[-1].end_s if (steps := ran(a_job)) else 0.0 for a_job in jobs]
    horizon_s = min(walls_s)
    found = [
        [
            (spell.worker, spell.zone, spell.gone_s, min(horizon_s, spell.back_s))
            for spell in a_job.spells()
            if spell.gone_s < horizon_s and spell.zone != "z"
        ]
        for a_job in jobs
    ]
    assert found[0] == found[1]
