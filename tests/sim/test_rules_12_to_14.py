"""Rules 12 to 14 of a global step: ties, seats, few stages. By hand, see `worlds`."""

from __future__ import annotations

import pytest

from sim.config import Cluster, PerGlobalStep, Pool, PoolOutages
from sim.strikes import allowed_stages
from tests.sim.worlds import (
    IDLE,
    MB,
    SKIP,
    WAIT,
    at,
    gone,
    job,
    rows_of,
    run,
    seconds,
    sizes,
)

ALL = [[4, 4, 4], [4, 4, 4]]


# --- 12. ties -------------------------------------------------------------------------------


def test_rule_12_a_loss_at_the_exact_end_of_a_step_finds_it_complete() -> None:
    step = run({"a": gone(0, 1, 6.0)})[0]
    assert step.steps[0].tolist() == [4, 2, 4]
    assert "lost" not in seconds(step)
    step = run({"a": gone(0, 1, 6.0)}, detect_s=1.0)[0]
    assert step.steps[0].tolist() == [4, 2, 4]
    assert seconds(step)["lost"] == 2


@pytest.mark.parametrize("step_s", [0.1, 0.3, 1 / 3, 0.7])
def test_rule_12_ends_of_steps_are_exact_where_seconds_are_not(step_s: float) -> None:
    """A script in steps strikes at the very end of a step, whatever the rounding."""
    of = sizes(forward_s=(step_s / 6,) * 3, backward_s=(step_s / 6,) * 3)
    for k in range(1, 12):
        script = {"a": at(0, 1, 1, k), "b": at(1, 2, 1, k)}
        step = run(script, steps=12, of=of)[1]
        assert step.steps.tolist() == [[12, k, 12], [0, 0, 0]]


def test_rule_12_a_loss_at_the_exact_end_of_the_upload_finds_it_complete() -> None:
    assert run({"a": gone(0, 1, 14.0)}, detect_s=9.0)[0].sends.all()
    of = sizes(update_bytes=(2 * MB, MB, 2 * MB))
    assert run({"a": gone(0, 1, 13.0)}, detect_s=9.0, of=of)[0].sends.all()
    step = run({"a": gone(0, 1, 12.0)})[0]
    assert step.steps.tolist() == ALL, "and at the end of H steps it costs the upload"
    assert not step.sends[0, 1]


def test_rule_12_a_loss_at_the_exact_end_of_the_round_is_the_next_one_s() -> None:
    first, second, _ = run({"a": gone(0, 1, 16.0)})
    assert first.end_s == 16.0
    assert "vacant" not in seconds(first)
    assert second.steps.tolist() == [[4, 0, 4], [4, 4, 4]]
    assert second.end_s == 32.0


def test_rule_12_ready_comes_before_the_end_of_the_round_and_that_before_a_loss() -> None:
    # (0, 1) is ready at 16, the boundary: it joins; another loss of it at 16 strikes after that
    script = {"a": gone(0, 1, 4.0, 13.0), "b": gone(0, 1, 16.0)}
    _, second, _ = run(script, detect_s=1.0)
    assert second.joins.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert second.steps[0].tolist() == [4, 0, 4]
    assert seconds(second)["lost"] == 2 * 1.0, "the replica began with it, until 17"


def test_rule_12_a_slot_ready_and_another_lost_at_one_instant_under_wait() -> None:
    script = {"a": gone(0, 1, 1.0, 2.0), "b": gone(0, 0, 7.0, 8.0)}
    step = run(script, policy=WAIT, detect_s=3.0)[0]
    # ready at 7: the round starts again, is lost at once and known at 10; ready at 13
    assert step.end_s == 13.0 + 16.0
    assert seconds(step)["lost"] == 1 + 4 + 4 + 3 + 3


def test_rule_12_losses_of_one_instant_count_once() -> None:
    script = {"a": gone(0, 1, 7.0), "b": gone(0, 2, 7.0), "c": gone(1, 1, 7.0)}
    for names in ("abc", "cba", "bac"):
        step = run({name: script[name] for name in names}, detect_s=1.0)[0]
        assert step.steps.tolist() == [[0, 0, 0], [4, 2, 4]]
        assert seconds(step)["lost"] == (8 + 7 + 7) + (2 + 1 + 2)


def test_rule_12_a_return_comes_before_a_loss_of_the_same_worker() -> None:
    script = {"late": gone(0, 1, 9.0, 12.0), "early": gone(0, 1, 4.0, 9.0)}
    a_job = job(script, rounds=1)
    list(a_job.global_steps())
    assert [(spell.gone_s, spell.back_s) for spell in a_job.spells()] == [(4.0, 9.0), (9.0, 12.0)]


def test_rule_12_of_one_instant_the_spares_that_wait_come_first() -> None:
    """Worker 2 returns at 6, when the vacancy of stage 1 is known: the booted spare takes it."""
    script = {"a": gone(0, 2, 1.0, 6.0), "b": gone(0, 1, 4.0)}
    a_job = job(script, replicas=1, spares=2, detect_s=2.0, rounds=2)
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 2)[-1][0] == 3
    assert rows_of(a_job, 0, 1)[-1][0] == 4


# --- 13. who sits where ---------------------------------------------------------------------


def test_rule_13_workers_sit_in_file_order() -> None:
    pools = {"a": Pool(workers=2), "b": Pool(workers=5)}
    roster = job(pools=pools).roster
    seats = {w.number: (w.place and w.place.slot, w.zone) for w in roster.workers}
    assert seats == {
        0: ((0, 0), "a"),
        1: ((0, 1), "a"),
        2: ((0, 2), "b"),
        3: ((1, 0), "b"),
        4: ((1, 1), "b"),
        5: ((1, 2), "b"),
        6: (None, "b"),
    }


def test_rule_13_fewer_workers_than_slots_is_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"6 slots \(replicas x stages\) need at least 6 workers \(got 5\)"
    ):
        job(pools={"a": Pool(workers=5)})


def test_rule_13_a_spare_takes_a_vacant_slot_once_that_is_known() -> None:
    a_job = job({"a": gone(0, 1, 4.0)}, spares=1, detect_s=2.0, provision_s=50.0, rounds=2)
    first, second = a_job.global_steps()
    # a spare is booted, and has no weights: it restores from 6 to 9
    assert rows_of(a_job, 0, 1) == [
        (1, "train", 0.0, 3.0),
        (1, "lost", 3.0, 4.0),
        (-1, "vacant", 4.0, 6.0),
        (6, "restore", 6.0, 9.0),
        (6, "wait", 9.0, 16.0),
        (6, "train", 16.0, 32.0),
    ]
    assert second.joins.tolist() == [[0, 2, 0], [0, 0, 0]]
    assert (first.spare_s, second.spare_s) == (6.0, 0.0)
    assert first.node_s["default"] == 7 * 16.0 - 12.0
    assert first.node_s["default"] == 6 * 16.0 - 2.0 + 6.0, "slots x wall - vacant + spare"


def test_rule_13_a_returning_worker_takes_its_old_slot_another_or_none() -> None:
    script = {
        "old": gone(0, 1, 4.0, 5.0),  # before its loss is known
        "taken": gone(0, 2, 4.0, 40.0),  # the spare is there: it becomes one
        "other": gone(1, 2, 45.0),  # and takes this slot
    }
    a_job = job(script, spares=1, detect_s=2.0, provision_s=1.0, rounds=4)
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 1)[2][:3] == (1, "provision", 5.0)
    assert rows_of(a_job, 0, 2)[2] == (6, "restore", 6.0, 9.0)
    assert rows_of(a_job, 1, 2)[-2] == (2, "restore", 47.0, 50.0)


def test_rule_13_a_returning_worker_whose_slot_is_taken_boots_in_another() -> None:
    script = {"a": gone(0, 2, 4.0, 10.0), "b": gone(1, 1, 6.0)}
    a_job = job(script, spares=1, provision_s=2.0, rounds=2)
    list(a_job.global_steps())
    assert rows_of(a_job, 1, 1)[1:4] == [
        (-1, "vacant", 6.0, 10.0),
        (2, "provision", 10.0, 12.0),
        (2, "restore", 12.0, 15.0),
    ]


def test_rule_13_a_spare_that_boots_takes_no_slot_before() -> None:
    script = {"a": gone(0, 1, 4.0), "b": gone(0, 2, 5.0, 20.0), "c": gone(1, 1, 21.0)}
    a_job = job(script, spares=2, provision_s=6.0, rounds=3)
    list(a_job.global_steps())
    # worker 2 is back at 20, boots as a spare until 26, and then takes the slot lost at 21
    assert rows_of(a_job, 1, 1)[-4:-2] == [(-1, "vacant", 21.0, 26.0), (2, "restore", 26.0, 29.0)]


def test_rule_13_a_loss_in_the_restore_is_known_after_the_detection() -> None:
    script = {"a": gone(0, 1, 4.0), "b": {"replica": 2, "stage": 0, "gone_s": 7.0, "back_s": None}}
    a_job = job(script, spares=2, detect_s=2.0, rounds=2)  # worker 6 is the first spare
    (first, _) = a_job.global_steps()
    assert rows_of(a_job, 0, 1)[3:7] == [
        (6, "restore", 6.0, 7.0),
        (-1, "vacant", 7.0, 9.0),
        (7, "restore", 9.0, 12.0),
        (7, "wait", 12.0, 16.0),
    ]
    assert first.nbytes["restore"] == 2 * 3 * MB, "a begun restore is billed whole"
    assert a_job.roster.losses == 1, "losses of joined slots"


def test_rule_13_a_restore_that_never_began_is_not_billed() -> None:
    script = {"a": gone(0, 1, 4.0, 5.0), "b": gone(0, 1, 8.0)}
    assert run(script, provision_s=6.0)[0].nbytes["restore"] == 0


# --- 14. few stages -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "count", "allowed"),
    [
        ("inner", 4, [1, 2]),
        ("inner", 3, [1]),
        ("ends", 4, [0, 3]),
        ("ends", 2, [0, 1]),
        ("ends", 1, [0]),
        ("all", 3, [0, 1, 2]),
        ("all", 1, [0]),
        ([2, 0, 2], 3, [0, 2]),
    ],
)
def test_rule_14_which_stages_may_fail(
    stages: str | list[int], count: int, allowed: list[int]
) -> None:
    outages = PerGlobalStep.model_validate(
        {"kind": "per_global_step", "probability": 0.1, "stages": stages}
    )
    assert allowed_stages(outages, count) == allowed


@pytest.mark.parametrize(
    ("stages", "count", "message"),
    [
        ("inner", 2, r"inner stages need at least 3 stages \(got 2\)"),
        ("inner", 1, r"inner stages need at least 3 stages \(got 1\)"),
        ([1, 5], 3, r"with 3 stages the last is 2 \(got 5\)"),
    ],
)
def test_rule_14_stages_that_do_not_exist_are_an_error(
    stages: str | list[int], count: int, message: str
) -> None:
    outages = PerGlobalStep.model_validate(
        {"kind": "per_global_step", "probability": 0.1, "stages": stages}
    )
    with pytest.raises(ValueError, match=message):
        job(outages=outages, stages=count)


@pytest.mark.parametrize("stages", [1, 2])
def test_rule_14_with_one_or_two_stages_all_are_ends(stages: int) -> None:
    step = run({"a": gone(0, stages - 1, 1.0)}, stages=stages, policy=SKIP)[0]
    assert step.steps.tolist() == [[0] * stages, [4] * stages]
    assert step.crossings == ({} if stages == 1 else {(0, 1): 4})
    assert step.end_s == 4 * stages + 2 + (2 if stages == 2 else 0), "r0's other slot fetches"


def test_rule_14_one_slot_alone_is_a_job() -> None:
    outages = PoolOutages(kind="pools")
    up = {"law": "exponential", "mean": 0.01}
    laws = {"up_h": up, "outage_h": {"law": "exponential", "mean": 0.002}}
    for policy in (SKIP, IDLE, WAIT):
        steps = run(outages=outages, stages=1, replicas=1, rounds=30, policy=policy, **laws)
        assert all(step.steps.tolist() == [[4]] for step in steps)
        assert steps[-1].end_s > 30 * 6
    assert Cluster(replicas=1, stages=1).stages == 1
