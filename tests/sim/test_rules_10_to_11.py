"""Rules 10 and 11 of a global step: notice and bypass. By hand, see `worlds`."""

from __future__ import annotations

import pytest

from sim.config import Pool
from tests.sim.worlds import (
    MB,
    WAIT,
    at,
    gone,
    job,
    live,
    network,
    rows_of,
    run,
    seconds,
    sizes,
)

ALL = [[4, 4, 4], [4, 4, 4]]


# --- 10. notice -----------------------------------------------------------------------------


@pytest.mark.parametrize("gone_s", [6.0, 7.0, 8.0])
def test_rule_10_it_starts_no_step_that_would_end_after_its_removal(gone_s: float) -> None:
    step = run({"a": gone(0, 1, gone_s)}, notice_s=5.0, detect_s=9.0)[0]
    # two steps until 6, and two of 2 s without the slot: no loss, no detection
    assert step.steps[0].tolist() == [4, 2, 4]
    classes = seconds(step)
    assert "lost" not in classes
    assert classes["vacant"] == 16 - gone_s
    assert classes["wait"] == (gone_s - 6) + 2 * 2 + 2, "until removal; barrier 12-14; (1, 1)"
    assert step.end_s == 16.0


def test_rule_10_the_notice_covers_the_detection_even_if_too_short_for_the_step() -> None:
    step = run({"a": gone(0, 1, 7.5)}, notice_s=1.0, detect_s=9.0)[0]
    # told at 6.5 in the step of 6-9: it goes on until the removal, and is repeated at once
    assert step.steps[0].tolist() == [4, 2, 4]
    assert seconds(step)["lost"] == 3 * 1.5
    assert step.end_s == 16.0, "two steps until 11.5, upload until 13.5; r1 is later"


def test_rule_10_a_notice_may_come_in_the_round_before() -> None:
    first, second, _ = run({"a": gone(0, 1, 20.0)}, notice_s=5.0)
    assert first.steps.tolist() == ALL
    # one step of 16-19, then three of 2 s
    assert second.steps.tolist() == [[4, 1, 4], [4, 4, 4]]
    assert "lost" not in seconds(second)


def test_rule_10_a_notice_of_the_first_instants_of_a_round() -> None:
    second = run({"a": gone(0, 1, 18.0)}, notice_s=5.0)[1]
    assert second.steps.tolist() == [[4, 0, 4], [4, 4, 4]]
    assert seconds(second)["vacant"] == 14
    assert "lost" not in seconds(second)


def test_rule_10_an_upload_that_the_notice_makes_hopeless_is_not_waited_for() -> None:
    of = sizes(update_bytes=(MB, 2 * MB, MB))
    step = run({"a": gone(0, 1, 13.5)}, replicas=1, notice_s=1.0, detect_s=9.0, of=of)[0]
    assert step.steps.tolist() == [[4, 4, 4]]
    assert step.sends.tolist() == [[True, False, True]]
    assert step.end_s == 13.0
    assert step.nbytes["lost_sync"] == 2 * MB
    step = run({"a": gone(0, 1, 13.5)}, replicas=1, notice_s=0.25, detect_s=9.0, of=of)[0]
    assert step.end_s == 13.25, "told then"


def test_rule_10_an_end_works_until_it_cannot_and_leaves_without_detection() -> None:
    step = run({"a": gone(0, 0, 7.0)}, notice_s=5.0, detect_s=20.0)[0]
    assert step.steps.tolist() == [[0, 0, 0], [4, 4, 4]]
    assert step.end_s == 16.0
    assert seconds(step)["lost"] == 3 * 6, "two steps that come to nothing"


def test_rule_10_under_wait_it_works_until_it_cannot_and_then_waits() -> None:
    step = run({"a": gone(0, 1, 7.0, 8.0)}, policy=WAIT, notice_s=5.0, detect_s=20.0)[0]
    # stops at 6; ready at 13
    assert step.end_s == 13.0 + 16.0
    assert seconds(step)["lost"] == 3 * 6
    assert step.steps.tolist() == ALL


def test_rule_10_under_wait_a_hopeless_upload_holds_the_exchange() -> None:
    of = sizes(update_bytes=(MB, 2 * MB, MB))
    script = {"a": gone(0, 1, 13.5, 14.0)}
    step = run(script, replicas=1, policy=WAIT, notice_s=1.0, of=of)[0]
    assert step.end_s == 19.0 + 14.0
    assert step.sends.all()
    assert seconds(step)["lost"] == 3 * 13.5


def test_rule_10_under_wait_an_attempt_that_ends_before_the_removal_goes_through() -> None:
    script = {"a": gone(0, 1, 1.0, 2.0), "b": gone(0, 0, 22.0, 30.0)}
    first, second, _ = run(script, policy=WAIT, notice_s=100.0)
    # b is told at 0. Ready at 7, and the upload is through at 21: before the removal
    assert first.end_s == 7.0 + 16.0
    assert second.end_s == 35.0 + 16.0


def test_rule_10_two_notices_each_slot_works_until_its_own_removal() -> None:
    script = {"a": gone(0, 1, 13.0), "b": gone(0, 2, 9.0)}
    step = run(script, stages=4, notice_s=8.0)[0]
    # steps of 4 s: 0-4, 4-8; stage 2 leaves: 3 s, 8-11; stage 1 leaves: 2 s, 11-13
    assert step.steps[0].tolist() == [4, 3, 2, 4]
    assert "lost" not in seconds(step)


def test_rule_10_a_loss_after_a_notice_leaves_the_announced_slot_at_work() -> None:
    script = {"a": gone(0, 1, 12.0), "b": gone(0, 2, 5.0)}
    pools = {
        "told": Pool(workers=2, notice_s=8.0),
        "untold": Pool(workers=6, detect_s=1.0),
    }
    step = next(job(script, stages=4, pools=pools).global_steps())
    # lost at 5 in step 1 (4-8), known at 6; 3 s with stage 1: 6-9, 9-12; one step of 2 s
    assert step.steps[0].tolist() == [4, 3, 1, 4]


def test_rule_10_a_removal_told_in_steps_has_its_notice() -> None:
    step = run({"a": at(0, 1, 1, 2)}, notice_s=4.0, detect_s=9.0)[1]
    assert step.steps[0].tolist() == [4, 2, 4]
    assert "lost" not in seconds(step)


def test_rule_10_a_slot_that_restores_is_announced_too() -> None:
    script = {"a": gone(0, 1, 1.0, 2.0), "b": gone(0, 1, 20.0)}
    _, second, _ = run(script, notice_s=18.0)
    # told at 2 when it is back, ready at 5, joins at 16 and leaves after the step of 16-19
    assert second.joins[0, 1] == 1
    assert second.steps[0].tolist() == [4, 1, 4]
    assert "lost" not in seconds(second)


def test_rule_10_after_an_announced_leave_a_spare_comes_at_once() -> None:
    a_job = job({"a": gone(0, 1, 7.0)}, spares=1, notice_s=5.0, detect_s=20.0)
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 1)[2:4] == [(6, "restore", 7.0, 10.0), (6, "wait", 10.0, 16.0)]


# --- 11. bypass -----------------------------------------------------------------------------


def test_rule_11_bypass_takes_one_hop_fewer() -> None:
    of, links = sizes(4, hop_bytes=MB), network(hop_mbps=32.0)
    step = run({"a": gone(0, 2, 0.0)}, replicas=1, stages=4, rounds=1, of=of, links=links)[0]
    assert step.steps.tolist() == [[4, 4, 0, 4]]
    assert step.crossings == {(0, 1): 4, (1, 3): 4}
    assert step.nbytes["boundary"] == 2 * MB * 8
    # 3 s and two hops of 0.25 s each way
    assert seconds(step)["boundary"] == 3 * 4 * 2 * 2 * 0.25
    assert step.end_s == 4 * 4.0 + 2


def test_rule_11_two_neighbours_out_leave_one_hop() -> None:
    step = run({"a": gone(0, 1, 0.0), "b": gone(0, 2, 0.0)}, stages=4, replicas=1)[0]
    assert step.crossings == {(0, 3): 4}
    assert live(step, 4)[0, 0].tolist() == [True, False, False, True]


def test_rule_10_under_wait_a_spare_may_come_in_the_step_that_the_removal_cuts() -> None:
    of = sizes(state_bytes=(0, 0, 0))
    step = run({"a": gone(0, 1, 7.5)}, policy=WAIT, spares=1, notice_s=1.0, of=of)[0]
    # told at 6.5, gone in the step of 6-9; the spare is there at once
    assert step.end_s == 7.5 + 16.0
    assert seconds(step)["lost"] == 3 * 7.5
