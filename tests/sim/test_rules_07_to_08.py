"""Rules 7 and 8 of a global step: wait, and the index. By hand, see `worlds`."""

from __future__ import annotations

import itertools

import pytest

from sim.config import PoolOutages
from sim.news import StalledError
from tests.sim.worlds import (
    IDLE,
    MB,
    SKIP,
    SKIP_WAIT,
    WAIT,
    gone,
    job,
    rows_of,
    run,
    seconds,
    sizes,
)

ALL = [[4, 4, 4], [4, 4, 4]]


# --- 7. wait --------------------------------------------------------------------------------


def test_rule_07_wait_restarts_the_round_when_the_last_slot_is_ready() -> None:
    a_job = job({"a": gone(0, 1, 7.0, 10.0)}, policy=WAIT, detect_s=1.0, provision_s=1.0, rounds=2)
    first, second = a_job.global_steps()
    # booted at 11, 5 s of state: ready at 16, steps until 28, upload until 30, download until 32
    assert (first.end_s, second.end_s) == (32.0, 48.0)
    assert first.steps.tolist() == ALL
    assert first.sends.all()
    assert not first.joins.any()
    assert not second.joins.any()
    assert seconds(first) == {
        "vacant": 3,
        "provision": 1,
        "restore": 5,
        "compute": 24,
        "bubble": 48,
        "lost": 7 + 8 + 8,
        "sync": 24,
        "wait": 8 + 8 + 3 * 16,  # (0, 0), (0, 2) until 16; r1 from 14 to 30
    }
    assert first.nbytes["restore"] == 5 * MB
    assert first.nbytes["snapshot"] == 6 * 5 * MB
    assert rows_of(a_job, 0, 0) == [
        (0, "lost", 0.0, 8.0),
        (0, "wait", 8.0, 16.0),
        (0, "train", 16.0, 48.0),
    ]
    assert rows_of(a_job, 1, 0) == [(3, "train", 0.0, 48.0)], "a barrier is part of the round"


def test_rule_07_a_long_barrier_is_seen_as_a_wait() -> None:
    a_job = job({"a": gone(0, 1, 7.0, 50.0)}, policy=WAIT, detect_s=1.0, provision_s=1.0, rounds=2)
    first, second = a_job.global_steps()
    assert (first.end_s, second.end_s) == (72.0, 88.0)  # restored at 56, a round of 16 from there
    assert rows_of(a_job, 1, 0) == [
        (3, "train", 0.0, 14.0),
        (3, "wait", 14.0, 70.0),
        (3, "train", 70.0, 88.0),
    ]


def test_rule_07_a_second_loss_while_waiting_makes_it_wait_for_both() -> None:
    script = {"a": gone(0, 1, 7.0, 10.0), "b": gone(0, 0, 12.0, 20.0)}
    step = run(script, policy=WAIT, detect_s=1.0, provision_s=1.0)[0]
    # the second is ready at 26
    assert step.end_s == 26.0 + 16.0
    assert step.steps.tolist() == ALL
    assert seconds(step)["lost"] == 23


def test_rule_07_the_same_slot_lost_again_in_its_restore() -> None:
    script = {"a": gone(0, 1, 7.0, 10.0), "b": gone(0, 1, 13.0, 20.0)}
    step = run(script, policy=WAIT)[0]
    assert step.end_s == 25.0 + 16.0
    assert step.nbytes["restore"] == 2 * 5 * MB, "a begun restore is billed whole"


def test_rule_07_a_second_loss_after_the_restart() -> None:
    script = {"a": gone(0, 1, 2.0, 3.0), "b": gone(0, 2, 12.0, 15.0)}
    step = run(script, policy=WAIT)[0]
    # ready at 8, lost at 12, ready at 20
    assert step.end_s == 20.0 + 16.0
    assert seconds(step)["lost"] == 3 * 2 + 3 * 4


def test_rule_07_a_return_before_the_loss_is_noticed_waits_for_that() -> None:
    step = run({"a": gone(0, 1, 7.0, 7.5)}, policy=WAIT, detect_s=9.0)[0]
    assert step.end_s == 16.0 + 16.0
    assert seconds(step)["lost"] == 7 + 16 + 16


def test_rule_07_a_loss_in_the_upload_starts_the_round_again() -> None:
    step = run({"a": gone(0, 1, 13.0, 14.0)}, policy=WAIT)[0]
    assert step.end_s == 19.0 + 16.0
    assert step.nbytes["lost_sync"] == 3 * 2 * MB
    assert seconds(step)["lost"] == 3 * 13


def test_rule_07_a_finished_upload_keeps_the_slot_and_its_round() -> None:
    script = {"late": gone(1, 1, 4.0, 5.0), "a": gone(0, 0, 15.0, 16.0)}
    first, second, _ = run(script, policy=WAIT)
    # r1 starts again at 10: 22, 24, 26. r0's slot is ready at 21
    assert first.end_s == 26.0
    assert first.sends.all()
    assert second.end_s == 42.0
    assert seconds(first)["lost"] == 3 * 4


def test_rule_07_a_loss_in_the_download_waits_in_the_next_round() -> None:
    first, second, _ = run({"a": gone(0, 0, 15.0, 18.0)}, policy=WAIT)
    assert first.end_s == 16.0
    assert first.nbytes["snapshot"] == 5 * 5 * MB
    assert second.end_s == 23.0 + 16.0
    assert second.steps.tolist() == ALL
    assert not second.joins.any()


def test_rule_07_wait_for_the_ends_and_skip_the_inner_stages() -> None:
    script = {"inner": gone(0, 1, 1.0, 2.0), "end": gone(0, 0, 4.0, 6.0)}
    first, second, _ = run(script, policy=SKIP_WAIT)
    # the end is ready at 11 and the round starts again; the inner slot is ready, and joins later
    assert first.end_s == 11.0 + 8 + 2 + 2
    assert first.steps.tolist() == [[4, 0, 4], [4, 4, 4]]
    assert first.nbytes["restore"] == (3 + 5) * MB
    assert first.nbytes["snapshot"] == 4 * 5 * MB, "only ends are stored"
    assert second.joins.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert second.steps.tolist() == ALL


def test_rule_07_after_an_ends_finished_upload_an_inner_loss_restarts_nothing() -> None:
    of = sizes(update_bytes=(MB, 4 * MB, MB))
    script = {"end": gone(0, 0, 14.0, 30.0), "inner": gone(0, 1, 15.0, 30.0)}
    step = run(script, policy=SKIP_WAIT, of=of)[0]
    # uploads end at 13, 16, 13
    assert step.steps.tolist() == ALL
    assert step.sends.tolist() == [[True, False, True], [True] * 3]
    assert step.end_s == 16.0 + 1.0, "(0, 1) is gone, and (1, 1) has nothing to fetch"


# --- 8. index -------------------------------------------------------------------------------


def test_rule_08_a_stall_passes_time_and_no_index() -> None:
    a_job = job({"a": gone(0, 0, 5.0, 9.0)}, replicas=1, detect_s=1.0, rounds=2)
    first, second = a_job.global_steps()
    # stopped at 6, ready at 12; a new attempt: until 24, upload until 26, no download
    assert (first.index, first.start_s, first.end_s) == (0, 0.0, 26.0)
    assert (second.index, second.start_s, second.end_s) == (1, 26.0, 40.0)
    assert first.steps.tolist() == [[4, 4, 4]]
    assert first.joins.tolist() == [[1, 0, 0]]
    assert not second.joins.any()
    assert seconds(first) == {
        "vacant": 4,
        "restore": 3,
        "compute": 12,
        "bubble": 24,
        "lost": 5 + 6 + 6,
        "sync": 6,
        "wait": 12,
    }


def test_rule_08_rounds_tile_time() -> None:
    script = {"a": gone(0, 0, 5.0, 40.0), "b": gone(1, 0, 20.0, 41.0), "c": gone(1, 1, 90.0, 95.0)}
    steps = run(script, rounds=6)
    assert steps[0].start_s == 0.0
    for before, after in itertools.pairwise(steps):
        assert after.start_s == before.end_s
        assert after.index == before.index + 1


def test_rule_08_a_new_worker_that_joined_for_nothing_is_new_still() -> None:
    # worker 3, the spare, restores 1-4 and joins at 4; lost at 6, back at 8, it joins at 11
    script = {"old": gone(0, 0, 1.0), "spare": gone(1, 0, 6.0, 8.0)}
    step = run(script, replicas=1, spares=1, policy=IDLE, rounds=1)[0]
    assert step.end_s == 11.0 + 14.0
    assert step.joins.tolist() == [[2, 0, 0]]
    assert step.steps.tolist() == [[4, 4, 4]]
    assert seconds(step)["lost"] == 3 * 1 + 3 * 2


def test_rule_08_in_a_stall_the_first_whole_replica_starts_alone() -> None:
    script = {"a": gone(0, 0, 1.0), "b": gone(1, 0, 2.0, 6.0)}
    step = run(script, spares=1, policy=IDLE, rounds=1)[0]
    # all stopped at 2; the spare is ready at 4, r0 trains 4-16; (1, 0) is ready at 9, too late
    assert step.joins.tolist() == [[2, 0, 0], [0, 0, 0]]
    assert step.steps.tolist() == [[4, 4, 4], [0, 0, 0]]
    assert step.end_s == 4.0 + 14 + 2


def test_rule_08_a_stage_nobody_sends_still_commits_the_round() -> None:
    step = run({"a": gone(0, 0, 13.0)}, replicas=1, policy=IDLE, rounds=1)[0]
    assert step.steps.tolist() == [[4, 4, 4]]
    assert step.sends.tolist() == [[False, True, True]]


@pytest.mark.parametrize("policy", [SKIP, IDLE, WAIT, SKIP_WAIT])
def test_rule_08_nobody_able_and_no_event_left_is_an_error_with_the_time(
    policy: list[str],
) -> None:
    steps = job({"a": gone(0, 0, 21.0)}, replicas=1, policy=policy, detect_s=2.0).global_steps()
    assert next(steps).end_s == 14.0
    with pytest.raises(StalledError, match=r"global step 1\b.* since 14 s .*no event.* time 23 s"):
        next(steps)


def test_rule_08_a_year_without_a_round_is_given_up() -> None:
    script = {str(k): gone(0, 0, k * 1e6, k * 1e6 + 9e5) for k in range(1, 60)}
    script["never"] = gone(0, 1, 5.0)
    with pytest.raises(StalledError, match="a year has passed"):
        run(script, replicas=1, policy=WAIT)


def test_rule_08_a_pool_that_never_lasts_a_round_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round takes 14 s; nobody stays up for longer than 9 s."""
    monkeypatch.setattr("sim.news.MOST_LOSSES", 700)
    laws = {"up_h": 9 / 3600, "outage_h": 1 / 3600}
    for policy in (SKIP, WAIT):
        with pytest.raises(StalledError, match="workers have been lost 1000 times"):
            run(outages=PoolOutages(kind="pools"), replicas=1, policy=policy, **laws)
