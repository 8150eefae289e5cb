"""The collector's pace is its old one again when no rounds are played any more."""

from __future__ import annotations

import gc

from sim.collector import YOUNG, collected_rarely


def test_jobs_that_are_played_in_turn_leave_the_pace_as_it_was() -> None:
    before = gc.get_threshold()
    first, second = collected_rarely(), collected_rarely()
    first.__enter__()
    assert gc.get_threshold()[0] == YOUNG
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
