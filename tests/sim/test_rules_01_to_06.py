"""Rules 1 to 6 of a global step, each by hand in the standard world of `worlds`."""

from __future__ import annotations

import numpy as np
import pytest

from sim.config import Pool
from tests.sim.worlds import IDLE, MB, gone, job, live, network, rows_of, run, seconds, sizes

WHOLE = [[4, 4, 4], [4, 4, 4]]


def test_the_standard_world_without_failures() -> None:
    first, second = run(rounds=2, usd_per_h=3600.0)
    assert (first.start_s, first.end_s, second.end_s) == (0.0, 16.0, 32.0)
    assert first.steps.tolist() == WHOLE
    assert first.sends.all()
    assert not first.joins.any()
    assert seconds(first) == {"compute": 24, "bubble": 48, "sync": 24}
    assert first.node_s == {"default": 96.0}
    assert first.usd == {"compute": 96.0, "egress": 0.0, "storage": 0.0}
    assert first.nbytes["sync"] == 12 * 2 * MB
    assert job().healthy_s == 16.0


# --- 1. mask --------------------------------------------------------------------------------


def test_rule_01_steps_are_the_live_stage_mask() -> None:
    step = run({"a": gone(0, 1, 4.0)})[0]
    assert step.steps.tolist() == [[4, 1, 4], [4, 4, 4]]
    mask = live(step, 4)
    assert mask.shape == (4, 2, 3)
    assert mask[:, 0].tolist() == [[True] * 3] + [[True, False, True]] * 3
    assert step.steps.dtype == np.int32
    assert (step.sends.dtype, step.joins.dtype) == (np.bool_, np.int8)
    with pytest.raises(ValueError, match="read-only"):
        step.steps[0, 0] = 9


def test_rule_01_what_is_thrown_away_is_lost_and_not_in_steps() -> None:
    step = run({"a": gone(0, 1, 7.0)}, policy=IDLE)[0]
    assert step.steps.tolist() == [[0, 0, 0], [4, 4, 4]]
    assert step.sends.tolist() == [[False] * 3, [True] * 3]
    # r0: 2 steps and 1 s of the third in three slots; r1 sends, the two present slots fetch
    assert seconds(step) == {
        "vacant": 9,
        "compute": 12,
        "bubble": 24,
        "lost": 21,
        "sync": 6 + 4,
        "wait": 14 + 6,
    }
    assert step.compute_s.tolist() == [[0, 0, 0], [4, 4, 4]]


# --- 2. loss of an inner slot ---------------------------------------------------------------


def test_rule_02_loss_of_an_inner_slot_under_skip() -> None:
    a_job = job({"a": gone(0, 1, 4.0)}, rounds=1, detect_s=0.5)
    (step,) = a_job.global_steps()
    # noticed at 4.5 in step 1, which is repeated: three steps of 2 s until 10.5, upload until 12.5
    assert step.steps.tolist() == [[4, 1, 4], [4, 4, 4]]
    assert step.sends.tolist() == [[True, False, True], [True] * 3]
    assert (step.start_s, step.end_s) == (0.0, 16.0)
    assert seconds(step) == {
        "vacant": 12,
        "compute": 21,
        "bubble": 6 + 6 + 24,
        "lost": 1 + 1.5 + 1.5,
        "sync": 4 + 6 + 4 + 4,  # (1, 1) has nothing to fetch
        "wait": 1.5 + 1.5 + 2,
    }
    assert rows_of(a_job, 0, 0) == [
        (0, "train", 0.0, 3.0),
        (0, "lost", 3.0, 4.5),
        (0, "train", 4.5, 16.0),
    ]
    assert rows_of(a_job, 0, 1) == [
        (1, "train", 0.0, 3.0),
        (1, "lost", 3.0, 4.0),
        (-1, "vacant", 4.0, 16.0),
    ]


def test_rule_02_the_aborted_step_is_billed_as_lost_traffic() -> None:
    of, links = sizes(hop_bytes=MB), network(hop_mbps=64.0)
    step = run({"a": gone(0, 1, 4.0)}, rounds=1, of=of, links=links)[0]
    # 0.125 s a hop and way: 3.5 s a step, 2.25 s with one hop. Lost at 4.0 in step 1
    assert step.steps[0].tolist() == [4, 1, 4]
    assert step.crossings == {(0, 1): 1 + 4, (1, 2): 1 + 4, (0, 2): 3}
    assert step.nbytes["boundary"] == 2 * MB * 13
    assert step.nbytes["lost_boundary"] == 2 * MB * 2
    # r1: 4 steps x 0.5 in three slots; r0: one of 0.5 in three, three of 0.25 in two
    assert seconds(step)["boundary"] == 4 * 0.5 * 3 + 0.5 * 3 + 3 * 0.25 * 2
    assert step.end_s == 14.0 + 2.0 + 2.0


def test_rule_02_a_second_loss_and_one_in_the_detection() -> None:
    step = run({"a": gone(0, 1, 4.0), "b": gone(0, 2, 7.0)}, stages=4, detect_s=1.0)[0]
    # a step of 4 s until 4; step 1 at once lost, known at 5; one of 3 s lost at 7, known at 8
    assert step.steps[0].tolist() == [4, 1, 1, 4]
    assert seconds(step)["lost"] == 4 + 4 + 3, "until 8 in stages 0 and 3, until 7 in stage 2"
    a_job = job({"a": gone(0, 1, 4.0), "b": gone(0, 2, 4.5)}, stages=4, detect_s=1.0)
    within = next(a_job.global_steps())
    assert within.steps[0].tolist() == [4, 1, 1, 4]
    # known at 5 and 5.5: three steps of 2 s from 5.5
    assert seconds(within)["lost"] == 1.5 + 1.5 + 0.5
    assert rows_of(a_job, 0, 0)[1:3] == [(0, "lost", 4.0, 5.5), (0, "train", 5.5, 20.0)]


def test_rule_02_what_is_known_later_holds_the_replica_longer() -> None:
    """Two pools: the loss of stage 1 is known after 3 s, a later one of an end after 0.5 s."""
    pools = {
        "slow": Pool(workers=2, detect_s=3.0),
        "fast": Pool(workers=6, detect_s=0.5),
    }
    script = {"a": gone(0, 1, 4.0), "b": gone(0, 2, 5.0)}
    step = next(job(script, stages=4, pools=pools).global_steps())
    # both known by 7, and then three steps of 2 s
    assert step.steps[0].tolist() == [4, 1, 1, 4]
    assert seconds(step)["lost"] == 3 + 3 + 1
    script = {"a": gone(0, 1, 4.0), "b": gone(0, 3, 5.0)}
    step = next(job(script, stages=4, pools=pools).global_steps())
    # an end is known lost at 5.5: that is the end of it
    assert step.steps[0].tolist() == [0, 0, 0, 0]
    assert seconds(step)["lost"] == 4 + 5.5 + 5.5 + 5


# --- 3. loss of an end, after H, in the download ---------------------------------------------


def test_rule_03_loss_of_an_end_stops_the_whole_replica() -> None:
    step = run({"a": gone(0, 0, 7.0)}, detect_s=1.0)[0]
    assert step.steps.tolist() == [[0, 0, 0], [4, 4, 4]]
    assert step.sends.tolist() == [[False] * 3, [True] * 3]
    assert step.end_s == 16.0
    # lost until noticed at 8 in the slots that were present; they fetch r1's updates
    assert seconds(step) == {
        "vacant": 9,
        "compute": 12,
        "bubble": 24,
        "lost": 7 + 8 + 8,
        "sync": 6 + 4,
        "wait": 6 + 6 + 6,
    }


def test_rule_03_the_exchange_starts_when_the_last_one_awaited_is_known_lost() -> None:
    assert run({"a": gone(0, 0, 11.0)}, detect_s=5.0)[0].end_s == 16.0 + 2.0
    assert run({"a": gone(0, 0, 11.0)}, detect_s=3.0)[0].end_s == 14.0 + 2.0
    assert run({"a": gone(0, 2, 11.0)}, detect_s=5.0)[0].end_s == 16.0 + 2.0


def test_rule_03_of_two_losses_the_one_that_is_known_first_counts() -> None:
    pools = {"slow": Pool(workers=1, detect_s=9.0), "fast": Pool(workers=5, detect_s=1.0)}
    # stage 0 is known lost at 19, stage 2 at 12
    script = {"slow": gone(0, 0, 10.0), "fast": gone(0, 2, 11.0)}
    first = run(script, pools=pools)[0]
    assert first.end_s == 14.0 + 2.0
    assert seconds(first)["lost"] == 10 + 12 + 11
    # in the download: stage 0 is known lost at 24, stage 2 at 16.5
    script = {"slow": gone(0, 0, 15.0), "fast": gone(0, 2, 15.5)}
    second = run(script, pools=pools)[1]
    assert seconds(second)["lost"] == 0.5
    # stage 2 is known lost at the boundary: the replica does not begin
    script = {"slow": gone(0, 0, 15.0), "fast": gone(0, 2, 15.0)}
    assert "lost" not in seconds(run(script, pools=pools)[1])


def test_rule_03_a_loss_after_h_costs_the_slot_if_its_upload_is_unfinished() -> None:
    step = run({"a": gone(0, 1, 13.0)}, detect_s=0.5)[0]
    assert step.steps.tolist() == WHOLE
    assert step.sends.tolist() == [[True, False, True], [True] * 3]
    assert step.end_s == 16.0
    assert step.nbytes["lost_sync"] == 2 * MB
    # 5 uploads; stage 0 and 2: two fetch one; stage 1: (0, 1) is gone, (1, 1) fetches nothing
    assert step.nbytes["sync"] == (5 + 4) * 2 * MB
    assert seconds(step)["sync"] == 5 * 2 + 1 + 4 * 2


def test_rule_03_an_end_lost_in_its_upload_costs_the_slot_only() -> None:
    step = run({"a": gone(0, 0, 13.0)}, detect_s=3.0)[0]
    assert step.steps.tolist() == WHOLE
    assert step.sends.tolist() == [[False, True, True], [True] * 3]
    assert step.end_s == 16.0 + 2.0, "known lost at 16"


def test_rule_03_a_loss_after_the_own_upload_costs_nothing_now() -> None:
    # r1 is late: lost at 4, known at 10, three steps until 16, upload until 18
    script = {"late": gone(1, 1, 4.0), "a": gone(0, 0, 15.0)}
    first, second, _ = run(script, detect_s=6.0)
    assert first.steps.tolist() == [[4, 4, 4], [4, 1, 4]]
    assert first.sends.tolist() == [[True] * 3, [True, False, True]]
    assert first.end_s == 20.0
    # the replica did not look yet: it begins the next round and notices at 15 + 6
    assert second.steps.tolist() == [[0, 0, 0], [4, 0, 4]]
    assert seconds(second)["lost"] == 2 * 1.0


def test_rule_03_a_loss_in_the_download_belongs_to_the_next_round() -> None:
    first, second, _ = run({"a": gone(0, 1, 15.0)}, detect_s=4.0)
    assert first.sends.all()
    assert (first.end_s, second.start_s) == (16.0, 16.0)
    assert first.nbytes["sync"] == 12 * 2 * MB, "its download is billed whole"
    assert seconds(first) == {"vacant": 1, "compute": 24, "bubble": 48, "sync": 23}
    # step 0 runs from 16 and would end at 19, when the loss is noticed: it is repeated
    assert second.steps.tolist() == [[4, 0, 4], [4, 4, 4]]
    assert seconds(second)["lost"] == 2 * 3.0
    assert second.end_s == 16.0 + 12 + 2 + 2, "r0: 3 + 4 x 2 s of steps"


def test_rule_03_a_loss_of_an_end_at_the_boundary_is_felt_by_the_next_round() -> None:
    first, second, _ = run({"a": gone(0, 0, 16.0)}, detect_s=4.0)
    assert first.end_s == 16.0
    assert "vacant" not in seconds(first)
    assert second.steps[0].tolist() == [0, 0, 0]
    assert seconds(second)["lost"] == 2 * 4.0


# --- 4. sends -------------------------------------------------------------------------------


def test_rule_04_a_stage_that_nobody_sends_has_no_update_to_fetch() -> None:
    step = run({"a": gone(0, 1, 1.0), "b": gone(1, 1, 2.0)})[0]
    assert step.sends.tolist() == [[True, False, True]] * 2
    assert step.nbytes["sync"] == 8 * 2 * MB
    # r1 restarts step 0 at 2: 2 + 8 + 2 + 2
    assert step.end_s == 14.0


def test_rule_04_a_slot_sends_only_after_h_steps_of_its_replica() -> None:
    step = run({"a": gone(0, 1, 11.5)})[0]
    assert step.steps[0].tolist() == [4, 3, 4]
    assert step.sends[0].tolist() == [True, False, True]


# --- 5. joins -------------------------------------------------------------------------------


@pytest.mark.parametrize(("back_s", "joins_in"), [(9.0, 1), (11.0, 1), (11.5, 2), (26.5, 2)])
def test_rule_05_a_slot_ready_by_the_end_joins_there(back_s: float, joins_in: int) -> None:
    steps = run({"a": gone(0, 1, 4.0, back_s)}, provision_s=2.0)
    assert [step.end_s for step in steps] == [16.0, 32.0, 48.0]
    for step in steps:
        joins = [[0, int(step.index == joins_in), 0], [0, 0, 0]]
        assert step.joins.tolist() == joins
        assert bool(step.steps[0, 1]) == (step.index in (0, *range(joins_in, 3)))


def test_rule_05_the_restore_overlaps_the_running_round() -> None:
    step = run({"a": gone(0, 1, 4.0, 9.0)}, provision_s=2.0)[0]
    classes = seconds(step)
    assert (classes["vacant"], classes["provision"], classes["restore"]) == (5, 2, 3)
    assert classes["wait"] == 2 + 2 + 2 + 2, "ready 14-16; (0, 0), (0, 2) 12-14; (1, 1) 14-16"
    assert step.nbytes["restore"] == 3 * MB
    assert step.node_s == {"default": 96.0 - 5.0}


def test_rule_05_a_new_worker_is_told_from_the_same_one() -> None:
    second = run({"a": gone(0, 1, 4.0), "b": gone(1, 1, 4.0, 6.0)}, spares=1)[1]
    assert second.joins.tolist() == [[0, 2, 0], [0, 1, 0]]


# --- 6. idle --------------------------------------------------------------------------------


def test_rule_06_an_idle_replica_loses_its_data_and_gets_every_update() -> None:
    _, second, third = run({"a": gone(0, 1, 4.0)}, policy=IDLE)
    for step in (second, third):
        assert step.steps.tolist() == [[0, 0, 0], [4, 4, 4]]
        assert step.sends.tolist() == [[False] * 3, [True] * 3]
        assert step.nbytes["sync"] == (3 + 2) * 2 * MB
        assert seconds(step) == {
            "vacant": 16,
            "compute": 12,
            "bubble": 24,
            "sync": 6 + 4,
            "wait": 28 + 6,
        }


def test_rule_06_an_idle_replica_holds_nobody_up() -> None:
    ends_s = [step.end_s for step in run({"a": gone(0, 0, 4.0)}, policy=IDLE)]
    assert ends_s == [16.0, 32.0, 48.0]
