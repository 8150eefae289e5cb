"""Rule 7 of a global step under `restart`. By hand, see `worlds`: 16 s a round, 5 s a state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.news import StalledError
from sim.recovery import Recovery
from sim.watched import WatchedJob
from tests.sim.scenarios import PER_STEP, Case, cases, ran
from tests.sim.test_properties import near, randomly
from tests.sim.worlds import IDLE, MB, RESTART, at, gone, job, rows_of, run, seconds

EVERY_TWO = {"every_global_steps": 2, "cost_s": 3.0}
HEALTHY = {"compute": 24, "bubble": 48, "sync": 24}


def restarting(*args: Any, **kwargs: Any) -> WatchedJob:
    return job(*args, **{"policy": RESTART, "checkpoint": EVERY_TWO, "rounds": 5, **kwargs})


def ends(a_job: WatchedJob) -> list[float]:
    return [step.end_s for step in a_job.global_steps()]


def test_rule_07_restart_rolls_back_to_the_last_checkpoint() -> None:
    """Golden: checkpoints at 32-35 and later; (0, 1) is lost in the round after the first."""
    script = {"a": gone(0, 1, 37.0, 40.0)}
    a_job = restarting(script, detect_s=1.0, provision_s=1.0)
    steps = list(a_job.global_steps())
    # known at 38; the others have loaded at 43; it is back at 40, booted at 41, ready at 46
    assert [step.end_s for step in steps] == [16.0, 35.0, 46.0 + 16, 62.0 + 16 + 3, 97.0]
    assert [seconds(step) for step in steps] == [
        HEALTHY,
        HEALTHY | {"sync": 24 + 6 * 3},
        HEALTHY
        | {"lost": 2 + 5 * 3, "vacant": 3, "provision": 1, "restore": 5 + 5 * 5, "wait": 5 * 3},
        HEALTHY | {"sync": 24 + 6 * 3},
        HEALTHY,
    ]
    assert [step.nbytes["snapshot"] for step in steps] == [0, 30 * MB, 0, 30 * MB, 0]
    assert [step.nbytes["restore"] for step in steps] == [0, 0, 30 * MB, 0, 0]
    assert rows_of(a_job, 0, 1) == [
        (1, "train", 0.0, 35.0),
        (1, "lost", 35.0, 37.0),
        (-1, "vacant", 37.0, 40.0),
        (1, "provision", 40.0, 41.0),
        (1, "restore", 41.0, 46.0),
        (1, "train", 46.0, 97.0),
    ]
    assert rows_of(a_job, 1, 0) == [
        (3, "train", 0.0, 35.0),
        (3, "lost", 35.0, 38.0),
        (3, "restore", 38.0, 43.0),
        (3, "wait", 43.0, 46.0),
        (3, "train", 46.0, 97.0),
    ]


def test_rule_07_restart_loses_whole_rounds_with_all_they_sent() -> None:
    first, second = run({"a": gone(0, 1, 27.0, 28.0)}, policy=RESTART, rounds=2, checkpoint={})
    # nothing is expected to fail, so nothing is stored: one round and three steps are lost
    assert (first.end_s, second.end_s) == (33.0 + 16, 49.0 + 16)
    assert seconds(first)["lost"] == 6 * 27
    assert first.nbytes["lost_sync"] == 6 * 2 * MB * 2, "uploads and downloads of round 0"
    assert seconds(second) == HEALTHY


@pytest.mark.parametrize(
    ("gone_s", "sent", "stored"),
    [(13.0, 6 * 2, 0), (14.5, 6 * 2 * 2, 0), (16.5, 6 * 2 * 2, 6 * 5)],
    ids=["upload", "download", "checkpoint"],
)
def test_rule_07_restart_bills_what_was_begun_whole(gone_s: float, sent: int, stored: int) -> None:
    checkpoint = {"every_global_steps": 1, "cost_s": 2.0}
    first, _ = run({"a": gone(0, 0, gone_s, 20.0)}, policy=RESTART, rounds=2, checkpoint=checkpoint)
    assert first.end_s == 25.0 + 16 + 2
    assert first.nbytes["lost_sync"] == sent * MB
    assert first.nbytes["snapshot"] == (6 * 5 + stored) * MB
    assert seconds(first)["lost"] == 6 * gone_s


def test_rule_07_restart_a_loss_at_the_end_of_a_checkpoint_finds_it_complete() -> None:
    """Rule 12: the end of a round comes before the losses of its instant."""
    steps = list(restarting({"a": gone(0, 0, 35.0, 36.0)}).global_steps())
    assert [step.end_s for step in steps][:3] == [16.0, 35.0, 41.0 + 16]
    assert "lost" not in seconds(steps[2])


def test_rule_07_restart_a_second_loss_while_it_restarts() -> None:
    script = {"a": gone(0, 1, 37.0, 40.0), "b": gone(1, 0, 39.0, 60.0)}
    a_job = restarting(script)
    steps = list(a_job.global_steps())
    assert steps[2].end_s == 65.0 + 16
    assert seconds(steps[2])["lost"] == 6 * 2, "what is lost is lost once"
    # the five that are left load at 37; (1, 0) is cut off after 2 s, and loads when it is back
    assert seconds(steps[2])["restore"] == 4 * 5 + 2 + 5 + 5
    assert steps[2].nbytes["restore"] == 7 * 5 * MB


def test_rule_07_restart_a_loss_at_its_first_instant() -> None:
    script = {"a": gone(0, 1, 37.0, 40.0), "b": gone(1, 0, 45.0, 45.5)}
    steps = list(restarting(script).global_steps())
    # ready at 45, which comes first; lost then, known at once, back at 45.5, ready at 50.5
    assert steps[2].end_s == 50.5 + 16


def test_rule_07_restart_a_spare_takes_the_slot_when_the_loss_is_known() -> None:
    a_job = restarting({"a": gone(0, 1, 37.0)}, spares=1, detect_s=2.0)
    steps = list(a_job.global_steps())
    assert steps[2].end_s == 37.0 + 2 + 5 + 16
    assert rows_of(a_job, 0, 1)[-1][0] == 6
    assert not any(step.joins.any() for step in steps)


def test_rule_07_restart_a_notice_saves_the_detection() -> None:
    script = {"a": gone(0, 1, 37.0, 38.0)}
    late, warned = (ends(restarting(script, detect_s=9.0, notice_s=n)) for n in (0.0, 5.0))
    assert late[2] == 37.0 + 9 + 5 + 16
    assert warned[2] == 38.0 + 5 + 16


def test_rule_09_under_restart_the_slot_is_out_for_d_healthy_rounds_seconds() -> None:
    outages = PER_STEP | {"probability": 1.0, "duration_global_steps": 3, "start_step": 3}
    steps = list(restarting(outages=outages, detect_s=9.0, provision_s=9.0).global_steps())
    # struck at the start of round 3: round 2 is undone; three healthy rounds later both go again
    assert [step.end_s for step in steps][:2] == [16.0, 35.0]
    assert steps[2].end_s == 51.0 + 3 * 16 + 16
    assert seconds(steps[2])["lost"] == 6 * 16
    assert steps[2].nbytes["restore"] == 6 * 5 * MB, "bytes only"
    # round 4 is struck too; the rounds that are done again are not
    assert [steps[3].end_s, steps[4].end_s] == [134.0, 134.0 + 3 * 16 + 16]


def test_rule_09_a_script_in_steps_happens_once() -> None:
    a_job = restarting({"a": at(0, 1, 3, 2, outage_s=5.0)})
    assert ends(a_job) == [16.0, 35.0, 67.0 + 16, 83.0 + 16 + 3, 118.0]
    assert a_job.roster.losses == 1


def test_rule_08_a_checkpoint_that_is_never_reached_is_given_up() -> None:
    script = {str(k): gone(0, 0, k * 1e6, k * 1e6 + 9e5) for k in range(40)}
    with pytest.raises(StalledError, match="no checkpoint has been completed since 0 s and a year"):
        list(restarting(script, steps=400_000).global_steps())


@randomly
@given(cases(), st.sampled_from([1, 2, 7]))
def test_rule_07_restart_tells_the_trainer_nothing(case: Case, every: int) -> None:
    """Directives are those of the run without failures, and so is the time if nothing fails."""
    keys = {"every_global_steps": every, "cost_s": 0.0}
    cluster = {key: value for key, value in case.cluster.items() if key != "quorum"}
    case = case.but(policy=RESTART, checkpoint=keys, cluster=cluster)
    steps, healthy = ran(case.job()), ran(case.but(script=None, outages=None, policy=IDLE).job())
    for step, other in zip(steps, healthy, strict=False):
        assert step.steps.tolist() == other.steps.tolist()
        assert step.sends.tolist() == other.sends.tolist()
        assert step.joins.tolist() == other.joins.tolist()
        assert step.crossings == other.crossings
        assert step.nbytes["sync"] == other.nbytes["sync"]
    quiet = ran(case.but(script=None, outages=None).job())
    assert [step.end_s for step in quiet] == near([step.end_s for step in healthy])


@pytest.mark.parametrize(
    ("keys", "every"),
    [
        ({"every_global_steps": 7}, 7),
        ({"every_global_steps": "never"}, 8),
        ({"every_h": 50 / 3600}, 3),
        ({"every_h": 1e-6}, 1),
        ({"every_global_steps": "young"}, 5),  # sqrt(2 x 10 x 300) = 77.5 s
        ({"every_global_steps": "daly", "cost_s": 90.0}, 11),  # 232.4 x 1.1392 - 90 = 174.7 s
    ],
)
def test_the_interval_is_a_multiple_of_a_round(keys: dict[str, Any], every: int) -> None:
    """Six slots that are each lost every half hour: M is 300 s; a round takes 16 s."""
    a_job = job(
        outages={"kind": "pools"},
        policy=RESTART,
        checkpoint={"cost_s": 10.0, **keys},
        rounds=8 if keys == {"every_global_steps": "never"} else 100,
        up_h={"law": "exponential", "mean": 0.5},
        outage_h=0.01,
    )
    assert a_job.checkpoints is not None
    assert a_job.checkpoints.every == every
    assert a_job.checkpoints.mean_between_s == pytest.approx(300.0)


def test_a_checkpoint_costs_the_slowest_upload_of_a_state_unless_told() -> None:
    a_job = restarting(checkpoint={"every_global_steps": 1})
    assert a_job.checkpoints is not None
    assert a_job.checkpoints.cost_s == 5.0
    assert ends(a_job)[:2] == [21.0, 42.0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"policy": ["restart", "idle"]}, "restart stands alone"),
        ({"policy": ["restart"], "hand_over": True}, "hand_over does nothing under restart"),
        ({"policy": ["idle"], "checkpoint": {}}, "checkpoint is used only with policy .restart."),
        (
            {"policy": ["restart"], "checkpoint": {"every_global_steps": 2, "every_h": 1.0}},
            "give one of every_global_steps and every_h",
        ),
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Recovery.model_validate(given)
