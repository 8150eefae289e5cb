"""Workers of unequal speed, and jitter: what they cost, and whose draws they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim import theory
from sim.config import Pool
from sim.pace import SLOWEST, WorkerPace, mean_slowness, together
from tests.sim.worlds import (
    IDLE,
    MB,
    SKIP,
    WAIT,
    gone,
    job,
    network,
    rows_of,
    run,
    seconds,
    sizes,
)

EXPONENTIAL = {"law": "exponential", "mean": 1}


def two_pools(first: int, second: int, **slow: Any) -> dict[str, Pool]:
    """Nominal workers, then others."""
    return {
        "a": Pool(workers=first),
        "b": Pool.model_validate({"workers": second, **slow}),
    }


def test_a_slow_replica_keeps_the_others_waiting() -> None:
    """Replica 1 at half the speed: steps of 6 s until 24, upload 26, download 28."""
    first, second = run(pools=two_pools(3, 3, speed=0.5), rounds=2)
    assert (first.end_s, second.end_s) == (28, 56)
    assert first.slowness.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert first.compute_s.tolist() == [[4, 4, 4], [8, 8, 8]]
    assert seconds(first) == {
        "compute": 3 * 4 + 3 * 8,
        "bubble": 3 * 8 + 3 * 16,
        "sync": 6 * 4,
        "wait": 3 * 12,
    }
    assert (second.steps == 4).all()
    assert second.slot_s == first.slot_s


def test_the_slowest_stage_dominates_its_replica() -> None:
    """Four micro-batches: GPipe's recursion over 0.5, 0.5, 1.0 s a stage, each way."""
    of = sizes(micro_batches=4)
    step = run(pools=two_pools(5, 1, speed=0.5), of=of, rounds=1)[0]
    stage_s = [0.5, 0.5, 1.0]
    assert 2 * theory.gpipe_s(4, stage_s) == 10
    assert step.end_s == 4 * 10 + 2 + 2
    assert step.compute_s.tolist() == [[16, 16, 16], [16, 16, 32]]


def test_under_skip_a_slow_inner_stage_that_leaves_slows_nobody() -> None:
    """The slow worker of stage 1 is lost at 4 s, in the first step; the others need 2 s a step."""
    pools = {"a": Pool(workers=1), "b": Pool(workers=1, speed=0.1), "c": Pool(workers=1)}
    steps = run({"o": gone(0, 1, 4.0)}, replicas=1, pools=pools, policy=SKIP, rounds=1)
    assert (steps[0].steps.tolist(), steps[0].end_s) == ([[4, 0, 4]], 4 + 4 * 2 + 2)


def test_a_speed_is_for_a_life() -> None:
    """Lost and back: another machine, another speed; the boundary is where it begins to count."""
    law = {"law": "empirical", "values": [0.5, 1.0, 2.0, 4.0]}
    pools = {"a": Pool.model_validate({"workers": 3, "speed": law})}
    a_job = job({"o": gone(0, 1, 1.0, 2.0)}, replicas=1, pools=pools, policy=WAIT, seed=3)
    before = [worker.pace.slowness(0)[0] for worker in a_job.roster.workers if worker.pace]
    steps = list(a_job.global_steps())
    after = steps[0].slowness.tolist()[0]
    assert after == steps[1].slowness.tolist()[0]
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]


def draws(pace: WorkerPace, rounds: Any) -> list[tuple[float, ...]]:
    return [pace.slowness(index) for index in rounds]


def test_draws_belong_to_a_worker_and_a_round() -> None:
    pool = Pool.model_validate(
        {"workers": 2, "speed": EXPONENTIAL, "jitter": {"factor": EXPONENTIAL, "per": "inner_step"}}
    )

    def pace(name: str, index: int, of: Pool = pool) -> WorkerPace:
        return WorkerPace(name, index, of, 3, seed=5)

    every = draws(pace("a", 0), range(100))
    assert {len(each) for each in every} == {3}
    assert draws(pace("a", 0), range(7, 100, 31)) == every[7::31], "rounds it sat out are drawn"
    assert draws(pace("a", 1), range(100)) != every
    assert draws(pace("b", 0), range(100)) != every
    quicker = pool.model_copy(update={"speed": 2.0, "provision_s": 9.0})
    factors = np.array(every) / np.array(draws(pace("a", 0, quicker), range(100)))
    assert factors == pytest.approx(np.full((100, 3), factors[0, 0])), "a speed re-deals no jitter"


def test_no_tail_is_a_dead_worker() -> None:
    law = {"law": "lognormal", "mean": 1, "sigma": 10}
    pool = Pool.model_validate({"workers": 1, "speed": law, "jitter": {"factor": law}})
    found = [each for (each,) in draws(WorkerPace("a", 0, pool, 1, 0), range(500))]
    assert min(found) > 0
    assert max(found) <= SLOWEST**2


def test_a_pace_is_that_of_each_step() -> None:
    pace = together([(1.0,), (2.0, 3.0)])
    assert pace == ((1.0, 2.0), (1.0, 3.0))
    assert [mean_slowness(pace, 1, steps) for steps in (0, 1, 2)] == [1.0, 2.0, 2.5]
    assert mean_slowness((), 0, 2) == 1.0


def test_jitter_is_drawn_each_round_or_each_step() -> None:
    """One slot: a round lasts H steps of a second x its luck, upload 2 s."""
    for per, least in (("round", 1), ("inner_step", 4)):
        jitter = {"factor": EXPONENTIAL, "per": per}
        pools = {"a": Pool.model_validate({"workers": 1, "jitter": jitter})}
        a_job = job(replicas=1, stages=1, pools=pools, rounds=20, links=network(up_mbps=8.0))
        steps = list(a_job.global_steps())
        of_round = WorkerPace("a", 0, pools["a"], 4, seed=0)
        for step in steps:
            factors = of_round.slowness(step.index)
            assert len(factors) == least
            work_s = 4 * sum(factors) / len(factors)
            assert step.end_s - step.start_s == pytest.approx(work_s + 2)
            assert step.compute_s[0, 0] == pytest.approx(work_s)
        assert len({step.end_s - step.start_s for step in steps}) == 20


def test_an_attempt_that_is_repeated_has_the_luck_of_its_round() -> None:
    """Under `wait` the round begins anew: the spell costs time, no other draw."""
    pools = {"a": Pool.model_validate({"workers": 3, "jitter": {"factor": EXPONENTIAL}})}
    calm = run(replicas=1, pools=pools, policy=WAIT)
    hit = run({"o": gone(0, 0, 3.0, 20.0)}, replicas=1, pools=pools, policy=WAIT)
    assert [s.slowness.tolist() for s in hit] == [s.slowness.tolist() for s in calm]
    assert hit[0].end_s == pytest.approx(20 + 5 + calm[0].end_s)


def test_nominal_speeds_change_nothing() -> None:
    nominal = {"a": Pool.model_validate({"workers": 6, "speed": 1.0, "jitter": {"factor": 1.0}})}
    script = {"o": gone(0, 1, 4.0, 9.0), "p": gone(1, 0, 20.0, 21.0)}
    for policy in (SKIP, IDLE, WAIT):
        plain = run(script, policy=policy, rounds=5)
        slow = run(script, policy=policy, rounds=5, pools=nominal)
        for a, b in zip(plain, slow, strict=True):
            assert (a.end_s, a.steps.tolist(), a.sends.tolist()) == (
                pytest.approx(b.end_s),
                b.steps.tolist(),
                b.sends.tolist(),
            )
            assert a.slot_s == pytest.approx(b.slot_s)


def test_the_largest_of_some_sums() -> None:
    harmonic = sum(1 / k for k in range(1, 9))
    assert theory.largest_of_gamma(8, 1) == pytest.approx(harmonic, rel=1e-6)
    assert harmonic == pytest.approx(2.718, abs=1e-3)
    assert theory.largest_of_gamma(1, 5) == pytest.approx(5, rel=1e-6)
    assert theory.largest_of_gamma(1, 5, power=2) == pytest.approx(5 + 25, rel=1e-6)
    squares = sum(1 / k**2 for k in range(1, 9))
    assert theory.largest_of_gamma(8, 1, power=2) == pytest.approx(squares + harmonic**2, rel=1e-6)
    rng = np.random.default_rng(0)
    drawn = rng.gamma(4, size=(200_000, 8)).max(axis=1)
    assert theory.largest_of_gamma(8, 4) == pytest.approx(drawn.mean(), rel=3e-3)


def test_bytes_do_not_depend_on_speed() -> None:
    of = sizes(hop_bytes=MB)
    plain, slow = (run(of=of, pools=two_pools(3, 3, speed=v), rounds=1)[0] for v in (1.0, 0.5))
    assert plain.nbytes == slow.nbytes
    assert plain.crossings == slow.crossings


def test_a_fast_replica_is_shown_to_wait_in_every_round_though_no_slot_changes() -> None:
    """A round of 4 s at 1 s a step and one of 40 s: 4 s of training, 36 s at the barrier."""
    pools = {"fast": Pool(workers=1), "slow": Pool(workers=1, speed=0.1)}
    nothing = sizes(1, update_bytes=(0,))
    a_job = job(replicas=2, stages=1, pools=pools, of=nothing, rounds=3)
    assert [step.end_s for step in a_job.global_steps()] == [40.0, 80.0, 120.0]
    states = [(state, start_s) for _, state, start_s, _ in rows_of(a_job, 0, 0)]
    each = [("train", 0.0), ("wait", 4.0)]
    assert states == [(what, 40.0 * k + t_s) for k in range(3) for what, t_s in each]
