"""A quorum with a grace window: the exchange leaves out who comes later (rules 1 and 3)."""

from __future__ import annotations

from typing import Any

import pytest

from sim.config import Pool
from sim.pace import WorkerPace
from tests.sim.worlds import MB, gone, job, rows_of, run, seconds, sizes

SLOW = {"a": Pool(workers=6), "b": Pool(workers=3, speed=0.5)}


def three(quorum: int, grace_s: float, script: Any = None, **more: Any) -> Any:
    """Three replicas; the last works at half the speed: steps until 24 s, upload until 26 s."""
    cluster = {"quorum": {"replicas": quorum, "grace_s": grace_s}}
    return job(script, replicas=3, pools=SLOW, cluster=cluster, rounds=2, **more)


def test_a_late_replica_idled_for_the_trainer_and_its_seconds_are_lost() -> None:
    """Two have uploaded at 14 s; the window ends at 17 s, in the third step of the last replica."""
    a_job = three(2, 3.0, of=sizes(hop_bytes=MB))
    first, second = a_job.global_steps()
    step_s = a_job.times.of((True,) * 3)[0]
    start_s = 4 * step_s + 2 + 3
    assert first.steps.tolist() == [[4, 4, 4], [4, 4, 4], [0, 0, 0]]
    assert first.sends.tolist() == [[True] * 3, [True] * 3, [False] * 3]
    assert first.end_s == start_s + 2 * 2, "it fetches both updates"
    assert first.slot_s["lost"] == pytest.approx(3 * start_s)
    slow_step_s = a_job.times.of((True,) * 3, (2.0,) * 3)[0]
    begun = -int(-start_s // slow_step_s)
    assert first.nbytes["lost_boundary"] == begun * 2 * 2 * MB
    assert first.nbytes["lost_sync"] == 0
    assert second.steps.tolist() == first.steps.tolist(), "and again"
    assert second.joins.sum() == 0
    lost = [row[1:] for row in rows_of(a_job, 2, 0)]
    assert lost[0] == ("lost", 0.0, start_s)


def test_the_window_decides_at_its_last_instant() -> None:
    """The last upload ends at 26 s, twelve after the second: in time, to the very instant."""
    for grace_s, sent, start_s in ((12.0, 3, 26), (11.5, 2, 25.5), (100.0, 3, 26)):
        first, _ = three(2, grace_s).global_steps()
        assert first.sends.any(axis=1).sum() == sent
        assert first.end_s == start_s + 2 * 2
        assert first.nbytes["lost_sync"] == (0 if sent == 3 else 3 * 2 * MB), "begun at 24 s"


def test_a_quorum_that_is_not_met_awaits_all() -> None:
    """Replica 0 stops: only two can upload, and three are asked for."""
    first, _ = three(3, 0.0, {"o": gone(0, 0, 1.0)}).global_steps()
    assert first.sends.any(axis=1).tolist() == [False, True, True]
    assert first.end_s == 26 + 2 * 2


def test_a_replica_that_stops_is_no_part_of_a_quorum() -> None:
    """Replica 0 is known to have stopped at 1 s: the first to upload is replica 1, at 14 s."""
    first, _ = three(1, 0.0, {"o": gone(0, 0, 1.0)}).global_steps()
    assert first.sends.any(axis=1).tolist() == [False, True, False]
    assert first.end_s == 14 + 2


def test_a_round_with_jitter_ends_by_the_order_of_the_uploads() -> None:
    """One stage, four replicas: the third upload and two seconds, or the last one."""
    jitter = {"factor": {"law": "exponential", "mean": 1}}
    pools = {"a": Pool.model_validate({"workers": 4, "jitter": jitter})}
    cluster = {"quorum": {"replicas": 3, "grace_s": 2.0}}
    rounds = run(replicas=4, stages=1, pools=pools, cluster=cluster, rounds=40)
    paces = [WorkerPace("a", index, pools["a"], 4, seed=0) for index in range(4)]
    late = 0
    for step in rounds:
        work_s = sorted(4 * pace.slowness(step.index)[0] for pace in paces)
        start_s = min(work_s[3], work_s[2] + 2) + 2
        sent = sum(each_s + 2 <= start_s for each_s in work_s)
        assert step.end_s - step.start_s == pytest.approx(start_s + 2 * min(sent, 3))
        assert step.sends.sum() == sent
        late += 4 - sent
        assert seconds(step)["wait"] >= 0
    assert 10 < late < 35
