"""Rule 15: a slot falls back on a pool on call, and is given to a spare again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.config import Fallback, Pool
from sim.records import GlobalStep
from sim.watched import WatchedJob
from tests.sim.scenarios import Case, cases, ran
from tests.sim.worlds import IDLE, MB, RESTART, SKIP, WAIT, gone, job, rows_of, seconds

pytestmark = pytest.mark.usefixtures("impatience")
NEVER = {"after_wait_s": 1e12}
Backup = dict[str, Any]


def falling(
    script: dict[str, Any] | None,
    after: dict[str, Any],
    backup: Backup | None = None,
    spot: dict[str, Any] | None = None,
    **keys: Any,
) -> WatchedJob:
    """A job of spot workers 0 to 5 that falls back on workers from 6 on, which boot for 2 s."""
    pools = {
        "spot": Pool(
            **{"workers": 6, "fallback": Fallback(pool="backup", **after), **(spot or {})}
        ),
        "backup": Pool(**{"workers": 6, "provision_s": 2.0, "usd_per_h": 3600.0, **(backup or {})}),
    }
    return job(script, pools=pools, **keys)


def paid_s(steps: list[GlobalStep]) -> list[float]:
    """Seconds of workers that were bought, by round."""
    return [step.node_s["backup"] for step in steps]


def test_rule_15_after_a_wait_a_worker_is_bought_for_the_slot() -> None:
    """Lost at 1 s, known at 2, bought at 11, booted at 13, restored at 16, where it joins."""
    a_job = falling(
        {"o": gone(0, 1, 1.0)}, {"after_wait_s": 10.0}, policy=SKIP, spot={"detect_s": 1.0}
    )
    steps = list(a_job.global_steps())
    assert rows_of(a_job, 0, 1)[1:] == [
        (-1, "vacant", 1.0, 11.0),
        (6, "provision", 11.0, 13.0),
        (6, "restore", 13.0, 16.0),
        (6, "train", 16.0, 48.0),
    ]
    assert [step.joins[0, 1] for step in steps] == [0, 2, 0]
    assert paid_s(steps) == [5, 16, 16]
    assert [step.usd["compute"] for step in steps] == [5, 16, 16], "a dollar a second"
    assert a_job.roster.on_call.bought == 1


def test_rule_15_nobody_on_call_is_paid_and_nobody_works() -> None:
    steps = list(falling(None, {"after_wait_s": 0.0}).global_steps())
    assert paid_s(steps) == [0, 0, 0]
    assert [step.spare_s for step in steps] == [0, 0, 0]


@pytest.mark.parametrize(("after_wait_s", "bought_s"), [(0.0, 4.0), (2.0, 4.0), (3.5, 4.5)])
def test_rule_15_the_wait_is_from_the_loss_and_nothing_is_done_before_it_is_known(
    after_wait_s: float, bought_s: float
) -> None:
    a_job = falling(
        {"o": gone(0, 1, 1.0)}, {"after_wait_s": after_wait_s}, spot={"detect_s": 3.0}, rounds=1
    )
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 1)[1] == (-1, "vacant", 1.0, bought_s)


def test_rule_15_from_the_nth_loss_of_a_slot_on_it_falls_back_at_once() -> None:
    """The first loss waits for its worker, the second does not; slots count each for itself."""
    script = {
        "first": gone(0, 1, 1.0, 9.0),
        "second": gone(0, 1, 20.0),
        "elsewhere": gone(1, 1, 20.0),
    }
    a_job = falling(script, {"after_losses": 2}, policy=SKIP)
    list(a_job.global_steps())
    vacant = [(row[2], row[3]) for row in rows_of(a_job, 0, 1) if row[1] == "vacant"]
    assert vacant == [(1.0, 9.0)]
    assert (6, "provision", 20.0, 22.0) in rows_of(a_job, 0, 1)
    assert rows_of(a_job, 1, 1)[-1][:3] == (-1, "vacant", 20.0)


def test_rule_15_of_one_instant_spot_workers_come_first() -> None:
    """The worker is back at the very instant at which its slot falls back."""
    script = {"o": gone(0, 1, 1.0, 11.0)}
    a_job = falling(script, {"after_wait_s": 10.0}, policy=SKIP)
    assert paid_s(list(a_job.global_steps())) == [0, 0, 0]
    late = {"o": gone(0, 1, 1.0, 11.000001)}
    a_job = falling(late, {"after_wait_s": 10.0}, policy=SKIP, rounds=1)
    assert paid_s(list(a_job.global_steps())) == [5]


@pytest.mark.parametrize("policy", [SKIP, IDLE, WAIT])
def test_rule_15_a_spare_takes_over_and_for_the_trainer_nothing_happened(policy: list[str]) -> None:
    """Bought at 1 s for slot (0, 1). Its old worker is back at 20 s, and after 3 s of booting
    loads the state for 5 s beside the round; at the boundary after that it sits in the slot."""
    a_job = falling(
        {"o": gone(0, 1, 1.0, 20.0)},
        {"after_wait_s": 0.0},
        {"billing_minimum_s": 40.0},
        {"provision_s": 3.0},
        policy=policy,
        rounds=4,
    )
    steps = list(a_job.global_steps())
    boundary_s = next(step.start_s for step in steps if step.start_s >= 28.0)
    assert rows_of(a_job, 0, 1)[-2:] == [
        (6, "train", rows_of(a_job, 0, 1)[-2][2], boundary_s),
        (1, "train", boundary_s, steps[-1].end_s),
    ]
    after = [step for step in steps if step.start_s >= boundary_s]
    assert not any(step.joins.any() for step in after)
    assert all((step.steps == 4).all() and step.sends.all() for step in after)
    assert sum(paid_s(steps)) == boundary_s - 1.0
    assert sum(step.unused_s for step in steps) == max(0.0, 40.0 - (boundary_s - 1.0))
    assert sum(step.spare_s for step in steps) == boundary_s - 20.0
    restored = sum(step.nbytes["restore"] for step in steps)
    assert restored == (5 if policy == WAIT else 3) * MB + 5 * MB


def test_rule_15_a_spare_that_a_vacant_slot_needs_goes_there_first() -> None:
    """Worker 1 is back at 20 s, where slot (1, 1) waits: its own has been bought a worker."""
    script = {"own": gone(0, 1, 1.0, 20.0), "other": gone(1, 1, 15.0)}
    a_job = falling(script, {"after_wait_s": 8.0}, policy=SKIP, rounds=4)
    list(a_job.global_steps())
    assert rows_of(a_job, 1, 1)[-1][0] == 1
    assert rows_of(a_job, 0, 1)[-1][0] == 6


def test_rule_15_a_spare_that_is_lost_or_announced_to_leave_takes_over_nothing() -> None:
    """Back at 20 s, it has the state at 25 s and is lost at 26, or is announced to be."""
    script = {"o": gone(0, 1, 1.0, 20.0), "again": gone(0, 1, 26.0)}
    for spot in ({}, {"notice_s": 2.0}):
        a_job = falling(script, {"after_wait_s": 0.0}, spot=spot, policy=SKIP, rounds=4)
        steps = list(a_job.global_steps())
        assert rows_of(a_job, 0, 1)[-1][:2] == (6, "train")
        assert sum(step.joins.sum() for step in steps) == 2, "once, a new one"
    stays = {**script, "again": gone(0, 1, 100.0)}
    a_job = falling(stays, {"after_wait_s": 0.0}, spot={"notice_s": 60.0}, policy=SKIP, rounds=4)
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 1)[-1][:2] == (1, "train"), "announced when it sat there"


def test_rule_15_one_that_was_bought_and_lost_is_followed_by_another_at_once() -> None:
    """Spot workers go after a minute for good; those on call last minutes."""
    up = {"law": "exponential", "mean": 0.05}
    backup = {"workers": 30, "detect_s": 4.0, "up_h": up, "outage_h": 0.001}
    pools = {"kind": "pools"}
    a_job = falling(
        None,
        {"after_wait_s": 30.0},
        backup,
        {"up_h": 1 / 60},
        policy=SKIP,
        rounds=30,
        outages=pools,
    )
    wall_s = list(a_job.global_steps())[-1].end_s
    rows = [row[2:] for row in a_job.timeline() if row[3] == "vacant" or row[2] >= 6]
    vacant = [end_s - start_s for worker, _, start_s, end_s in rows if worker < 0 < end_s < wall_s]
    assert vacant[0] == 30.0
    assert len(vacant) > 12
    assert {round(s, 6) for s in vacant} == {30.0, 4.0}
    assert {spell.zone for spell in a_job.spells()} == {"spot"}


def test_rule_15_a_loss_while_nobody_pays_is_none_of_the_job() -> None:
    up = {"law": "exponential", "mean": 0.002}
    backup = {"up_h": up, "outage_h": up}
    a_job = falling(None, {"after_wait_s": 0.0}, backup, outages={"kind": "pools"}, rounds=20)
    steps = list(a_job.global_steps())
    assert a_job.spells() == []
    assert a_job.roster.losses == 0
    assert sum(paid_s(steps)) == 0


@pytest.mark.parametrize(("fill", "slot"), [("in_order", (0, 1)), ("ends_first", (1, 2))])
def test_rule_15_the_slot_that_is_filled_first_is_bought_a_worker_first(
    fill: str, slot: tuple[int, int]
) -> None:
    script = {"inner": gone(0, 1, 1.0), "end": gone(1, 2, 1.0)}
    cluster = {"fill": fill}
    a_job = falling(script, {"after_wait_s": 4.0}, {"workers": 1}, policy=SKIP, cluster=cluster)
    list(a_job.global_steps())
    assert {row[:2] for row in a_job.timeline() if row[2] == 6} == {slot}


def test_rule_15_who_is_given_back_is_bought_again_for_a_slot_in_line() -> None:
    """One worker for an inner slot and an end; the inner worker is back at 20 s for its kind."""
    fallback = Fallback(pool="backup", after_wait_s=0.0)
    pools = {
        "s": Pool(workers=2, fallback=fallback),
        "d": Pool(workers=4, fallback=fallback),
        "backup": Pool(workers=1),
    }
    script = {"inner": gone(0, 1, 1.0, 20.0), "end": gone(1, 2, 1.0)}
    cluster = {"place": {"ends": "d", "inner": "s"}}
    a_job = job(script, pools=pools, cluster=cluster, policy=SKIP, rounds=6)
    steps = list(a_job.global_steps())
    assert rows_of(a_job, 0, 1)[-2:] == [(6, "train", 13.0, 29.0), (0, "train", 29.0, 93.0)]
    assert rows_of(a_job, 1, 2)[1:3] == [(-1, "vacant", 1.0, 29.0), (6, "restore", 29.0, 32.0)]
    assert a_job.roster.on_call.bought == 2
    assert sum(step.node_s["backup"] for step in steps) == steps[-1].end_s - 1.0


def test_rule_15_under_restart_a_spare_takes_over_at_a_checkpoint() -> None:
    """Lost at 20 s: all load the checkpoint, the one bought after booting, from 22 to 27 s. The
    old worker is back at 30 and has the state at 35; rounds end at 43, and with the checkpoint
    of 4 s at 63."""
    a_job = falling(
        {"o": gone(0, 1, 20.0, 30.0)},
        {"after_wait_s": 0.0},
        policy=RESTART,
        checkpoint={"every_global_steps": 2, "cost_s": 4.0},
        rounds=4,
    )
    steps = list(a_job.global_steps())
    assert [step.end_s for step in steps] == [43, 63, 79, 95]
    assert rows_of(a_job, 0, 1)[1:] == [
        (6, "provision", 20.0, 22.0),
        (6, "restore", 22.0, 27.0),
        (6, "train", 27.0, 63.0),
        (1, "train", 63.0, 95.0),
    ]
    assert sum(paid_s(steps)) == 43
    assert not any(step.joins.any() for step in steps)


def test_rule_15_a_slot_falls_back_on_what_its_last_workers_pool_names() -> None:
    """Ends on one pool, which names none; inner stages on another."""
    pools = {
        "d": Pool(workers=4),
        "s": Pool(workers=2, fallback=Fallback(pool="backup", after_wait_s=0.0)),
        "backup": Pool(workers=6),
    }
    script = {"end": gone(0, 0, 1.0), "inner": gone(1, 1, 1.0)}
    place = {"ends": "d", "inner": "s"}
    a_job = job(script, pools=pools, cluster={"place": place}, policy=SKIP, rounds=2)
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 0)[-1][:2] == (-1, "vacant")
    assert rows_of(a_job, 1, 1)[-1][0] == 6


def test_rule_15_who_was_bought_for_a_slot_stays_there() -> None:
    """A worker that was bought for (0, 1) does not move to an end that is vacant beside it; the
    slot of one that moves falls back as well, from then on."""
    script = {"inner": gone(0, 1, 1.0), "end": gone(0, 2, 40.0), "other": gone(1, 2, 40.0)}
    a_job = falling(
        script, {"after_wait_s": 20.0}, policy=SKIP, cluster={"move_to_ends": True}, rounds=6
    )
    list(a_job.global_steps())
    assert {row[0] for row in rows_of(a_job, 0, 1)[2:]} == {6}
    assert (-1, "vacant", 40.0, 60.0) in rows_of(a_job, 0, 2)
    moved_s = next(row[2] for row in rows_of(a_job, 1, 2) if row[0] == 4)
    assert (-1, "vacant", moved_s, moved_s + 20.0) in rows_of(a_job, 1, 1)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(cases(kinds=("pools",)))
def test_rule_15_at_once_and_without_boot_every_slot_always_has_its_worker(case: Case) -> None:
    """Nothing to detect or to load either: whatever is lost, nobody is away for an instant."""
    at_once = {"detect_s": 0.0, "fallback": Fallback(pool="backup", after_wait_s=0.0)}
    hired = {name: pool for name, pool in case.pools.items() if name != "backup"}
    slots = case.replicas * case.stages
    backup = Pool(workers=slots, region=hired["a"].region)
    bare = {"weights_bytes": (0,) * case.stages, "state_bytes": (0,) * case.stages}
    a_job = case.but(
        pools={n: p.model_copy(update=at_once) for n, p in hired.items()} | {"backup": backup},
        sizes=case.sizes | bare,
    ).job()
    for step in ran(a_job):
        assert not {"vacant", "provision", "restore"} & seconds(step).keys()
        if case.policy == RESTART:
            assert step.ready_s == 0.0


@settings(deadline=None, max_examples=40, derandomize=True)
@given(cases(kinds=("none", "script", "pools")), st.sampled_from([NEVER, {"after_losses": 10**9}]))
def test_rule_15_never_is_as_without(case: Case, after: dict[str, Any]) -> None:
    """A wait that never ends, a loss that never comes: all is to the bit as without a fallback."""
    hired = {name: pool for name, pool in case.pools.items() if name != "backup"}
    plain, falls = {}, {"fallback": Fallback(pool="backup", **after)}
    for name, pool in hired.items():
        plain[name] = pool.model_copy(update={"fallback": None})
    falling_back = {name: pool.model_copy(update=falls) for name, pool in plain.items()}
    backup = {"backup": Pool(workers=2, region=hired["a"].region)}
    jobs = case.but(pools=plain).job(), case.but(pools=falling_back | backup).job()
    for a, b in zip(*map(ran, jobs), strict=True):
        assert (a.start_s, a.end_s, a.slot_s, a.ready_s) == (
            b.start_s,
            b.end_s,
            b.slot_s,
            b.ready_s,
        )
        assert (a.nbytes, a.usd, a.spare_s) == (b.nbytes, b.usd, b.spare_s)
        for key in ("steps", "sends", "joins", "compute_s"):
            assert np.array_equal(getattr(a, key), getattr(b, key))
    assert repr(jobs[0].spells()) == repr(jobs[1].spells())
    assert jobs[0].timeline() == jobs[1].timeline()
