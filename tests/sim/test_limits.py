"""Policies with limits: where one is passed, the next policy is asked. By hand, see `worlds`."""

from __future__ import annotations

from typing import Any

import pytest

from sim.policies import Action, Idle, Skip, Vacancy, View, Wait, replica_action
from sim.recovery import Recovery
from tests.sim.worlds import IDLE, MB, gone, job, run, seconds, sizes

SKIP_ONE_WAIT = [{"skip": {"at_most": 1}}, "wait"]
SKIP_TWO_ROUNDS = [{"skip": {"for_rounds": 2}}, "idle"]


def wait(at_most_s: float, *then: Any) -> list[Any]:
    return [{"wait": {"at_most_s": at_most_s}}, *then]


def test_skip_at_most_counts_the_slots_of_a_replica() -> None:
    script = {"a": gone(0, 1, 1.0, 12.0), "b": gone(0, 2, 4.0, 9.0), "other": gone(1, 1, 1.0, 12.0)}
    first, second, _ = run(script, stages=4, policy=SKIP_ONE_WAIT)
    # at 4 two are out: the replica waits. b is ready at 14, and one is skipped: 12 s of steps
    assert first.end_s == 14.0 + 12 + 2 + 2
    assert first.steps.tolist() == [[4, 0, 4, 4], [4, 0, 4, 4]]
    assert not first.joins.any(), "b holds its whole state: nothing happened to it"
    assert second.joins.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0]]
    assert seconds(first)["lost"] == (3 * 4 + 1) + 3 * 1 + 1


def test_skip_for_rounds_counts_committed_rounds() -> None:
    steps = run({"a": gone(0, 1, 1.0, 46.0)}, policy=SKIP_TWO_ROUNDS, rounds=5)
    assert [step.steps[0].tolist() for step in steps] == [[4, 0, 4]] * 2 + [[0, 0, 0]] * 2 + [
        [4, 4, 4]
    ]
    assert [step.end_s for step in steps] == [16.0, 32.0, 48.0, 64.0, 80.0]
    assert [step.joins[0, 1] for step in steps] == [0, 0, 0, 0, 1]


def test_skip_for_rounds_then_wait_joins_with_the_anchor() -> None:
    policy = [{"skip": {"for_rounds": 2}}, "wait"]
    steps = run({"a": gone(0, 1, 1.0, 60.0)}, policy=policy, rounds=4)
    # ready at 63, in the third round, which its replica has not begun
    assert [step.end_s for step in steps] == [16.0, 32.0, 63.0 + 16, 95.0]
    assert [step.joins[0, 1] for step in steps] == [0, 0, 1, 0]
    assert steps[2].nbytes["restore"] == 3 * MB


def test_a_wait_that_runs_out_falls_through_at_its_very_instant() -> None:
    first, second, third, _ = run({"a": gone(0, 1, 7.0, 40.0)}, policy=wait(20.0, "idle"), rounds=4)
    # given up at 27, and the other replica need wait no longer
    assert first.end_s == 27.0 + 2
    assert first.steps.tolist() == [[0, 0, 0], [4, 4, 4]]
    assert second.end_s == 45.0
    assert third.joins.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert first.nbytes["restore"] + second.nbytes["restore"] == 3 * MB, "the anchor"


def test_a_wait_that_runs_out_may_skip() -> None:
    first, second, *_ = run({"a": gone(0, 1, 7.0, 40.0)}, policy=wait(5.0, "skip", "idle"))
    assert first.end_s == 12.0 + 8 + 2 + 2
    assert first.steps.tolist() == [[4, 0, 4], [4, 4, 4]]
    assert second.steps.tolist() == [[4, 0, 4], [4, 4, 4]]


def test_a_slot_that_is_ready_at_the_last_instant_of_a_wait_joins() -> None:
    """Rule 12: what is ready comes first."""
    in_time, late = (
        run({"a": gone(0, 1, 7.0, back_s)}, policy=wait(20.0, "idle")) for back_s in (22.0, 23.0)
    )
    assert in_time[0].end_s == 27.0 + 16
    assert not any(step.joins.any() for step in in_time)
    assert late[0].end_s == 29.0
    assert late[1].joins[0, 1] == 1


def test_a_wait_shorter_than_the_detection_is_none() -> None:
    first, *_ = run({"a": gone(0, 1, 7.0, 9.0)}, policy=wait(5.0, "idle"), detect_s=10.0)
    assert first.steps.tolist() == [[0, 0, 0], [4, 4, 4]]
    assert first.end_s == 17.0 + 2


def test_a_wait_that_ran_out_before_any_round_was_committed_leaves_no_trace() -> None:
    """Alone, the replica stands still anyway: its slot loads the whole state, and goes on."""
    first, _ = run({"a": gone(0, 0, 5.0, 40.0)}, policy=wait(20.0, "idle"), replicas=1, rounds=2)
    assert first.end_s == 45.0 + 14
    assert not first.joins.any()


def test_a_replica_with_a_slot_that_is_given_up_waits_for_no_other() -> None:
    script = {"a": gone(0, 1, 7.0, 100.0), "b": gone(0, 0, 33.0, 35.0)}
    first, second, third = run(script, policy=wait(20.0, "idle"))
    assert [step.end_s for step in (first, second, third)] == [29.0, 45.0, 61.0]
    assert third.steps.tolist() == [[0, 0, 0], [4, 4, 4]]


def test_the_published_regime_counts_seconds_where_one_may_wait() -> None:
    outages = {"kind": "per_global_step", "probability": 1.0, "duration_global_steps": 3}
    first, *_ = run(outages=outages, policy=wait(30.0, "idle"), rounds=2)
    # both given up at 30; back at 48, and a round begins
    assert first.end_s == 3 * 16 + 16


def test_limits_that_are_never_reached_change_nothing() -> None:
    """But for what an inner slot stores and loads, since it may be waited for."""
    script = {"a": gone(0, 1, 7.0, 12.0), "b": gone(1, 2, 30.0, 41.0)}
    of = sizes(weights_bytes=(5 * MB,) * 3)
    wide = [{"skip": {"at_most": 9, "for_rounds": 99}}, {"wait": {"at_most_s": 999.0}}, "idle"]
    for limited, plain in ((wide, ["skip", "wait"]), (wide[1:], ["wait"])):
        a, b = (run(script, policy=policy, rounds=5, of=of) for policy in (limited, plain))
        assert [x.end_s for x in a] == [x.end_s for x in b]
        assert [x.joins.tolist() for x in a] == [x.joins.tolist() for x in b]


def test_the_answer_is_the_first_that_applies_and_the_severest() -> None:
    policies = (Skip(at_most=1, for_rounds=5), Wait(at_most_s=60.0), Idle())

    def action(now_s: float, **vacant: Vacancy) -> Action:
        return replica_action(
            policies, View(5, now_s, {int(stage[1:]): v for stage, v in vacant.items()})
        )

    young, tired = Vacancy(10.0), Vacancy(10.0, skipped=5)
    assert action(20.0) is Action.RUN
    assert action(20.0, s1=young) is Action.SKIP
    assert action(20.0, s0=young) is Action.WAIT
    assert action(70.0, s0=young) is Action.IDLE
    assert action(20.0, s1=young, s2=young) is Action.WAIT
    assert action(20.0, s1=young, s2=tired) is Action.WAIT
    assert action(70.0, s1=young, s2=tired) is Action.IDLE
    assert action(70.0, s1=young) is Action.SKIP


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (wait(5.0), "the last policy must be idle or wait without a limit"),
        ([{"skip": {}}, "skip", "idle"], "a policy is named twice"),
        (["wait", *SKIP_TWO_ROUNDS], "nothing after wait is ever reached"),
    ],
)
def test_lists_that_are_refused(policy: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Recovery.model_validate({"policy": policy})


def test_plain_names_and_empty_limits_are_the_same() -> None:
    plain, empty = (
        Recovery.model_validate({"policy": policy}).policies()
        for policy in (["skip", "wait"], [{"skip": {}}, {"wait": {}}])
    )
    assert plain == empty
    assert job(policy=IDLE).terms.keeps_state == (False,) * 3
