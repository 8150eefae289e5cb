"""A worker with notice hands its slot's state to a spare: in time, too late, in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.worlds import IDLE, MB, SKIP, WAIT, gone, job, rows_of, run

OTHERS = {"policy": SKIP, "spares": 1, "rounds": 3}
"""Rounds end at 16, 32 and 48 s where nothing happens; a state of 5 MB travels for 5 s."""


@pytest.mark.parametrize("policy", [SKIP, IDLE, WAIT])
def test_for_the_trainer_nothing_happened(policy: list[str]) -> None:
    """Notice at 10 s, the state is there at 15, the spare sits in at 16, the worker goes at 20."""
    a_job = job(
        {"o": gone(0, 1, 20.0)}, policy=policy, spares=1, rounds=3, hand_over=True, notice_s=10.0
    )
    steps = list(a_job.global_steps())
    assert [step.end_s for step in steps] == [16, 32, 48]
    for step in steps:
        assert (step.steps == 4).all()
        assert step.sends.all()
        assert not step.joins.any()
    assert [step.nbytes["restore"] for step in steps] == [5 * MB, 0, 0]
    assert [row[:2] for row in rows_of(a_job, 0, 1)] == [(1, "train"), (6, "train")]
    assert rows_of(a_job, 0, 1)[1][2] == 16.0
    assert [step.spare_s for step in steps] == [16, 4, 0], "then the one that is to leave"
    assert (a_job.roster.losses, len(a_job.spells())) == (0, 1)


def joined(**keys: Any) -> list[int]:
    """Of slot (0, 1), by round."""
    return [int(step.joins[0, 1]) for step in run(**{**OTHERS, "hand_over": True, **keys})]


def test_a_notice_that_is_too_short_is_as_before() -> None:
    """From 16 s on the state would take until 21 s; the spare loads the anchor from 20 s on."""
    script = {"o": gone(0, 1, 20.0)}
    steps = run(script, **OTHERS, hand_over=True, notice_s=4.0)
    assert [step.steps[0, 1] for step in steps] == [4, 1, 4]
    assert [step.nbytes["restore"] for step in steps] == [0, 3 * MB, 0]
    assert joined(script=script, notice_s=4.0) == [0, 0, 2]


def test_a_removal_before_the_boundary_frees_the_spare() -> None:
    """The state is there at 10 s, the worker goes at 12.5 in its upload, the round ends later:
    the spare takes the slot like any other and loads the anchor."""
    script = {"o": gone(0, 1, 12.5)}
    steps = run(script, **OTHERS, hand_over=True, notice_s=7.5)
    assert not steps[0].sends[0, 1]
    assert sum(step.nbytes["restore"] for step in steps) == (5 + 3) * MB
    assert joined(script=script, notice_s=7.5) == [0, 2, 0]


def test_without_a_booted_spare_that_stays_it_is_a_loss() -> None:
    script = {"o": gone(0, 1, 20.0)}
    assert joined(script=script, notice_s=10.0, spares=0) == [0, 0, 0]
    spare_goes = {**script, "spare": gone(2, 0, 12.0)}
    steps = run(spare_goes, **OTHERS, hand_over=True, notice_s=10.0)
    assert [step.steps[0, 1] for step in steps] == [4, 1, 0]


def test_two_that_leave_at_once_have_a_spare_each() -> None:
    script = {"a": gone(0, 1, 20.0), "b": gone(1, 0, 20.0)}
    a_job = job(script, policy=SKIP, spares=2, rounds=3, hand_over=True, notice_s=10.0)
    masks = np.array([step.steps for step in a_job.global_steps()])
    assert (masks == 4).all()
    assert [a_job.roster.places[slot].worker for slot in (1, 3)] == a_job.roster.workers[6:]


def test_a_shock_with_notice_finds_fewer_spares_than_slots() -> None:
    """The first in the line of workers gets the spare, the other slot is lost."""
    script = {"a": gone(0, 1, 20.0), "b": gone(1, 1, 20.0)}
    steps = run(script, **OTHERS, hand_over=True, notice_s=10.0)
    assert [step.steps[:, 1].tolist() for step in steps] == [[4, 4], [4, 1], [4, 0]]
