"""Leaving inner stages out on purpose while training, as a preparation for outages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer.directive import Directive
from trainer.loop import Trainer

MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]
FULL = [[3, 3, 3, 3], [3, 3, 3, 3]]


def draws(trainer: Trainer, rounds: int = 200) -> np.ndarray[Any, Any]:
    """What is left out, [global step, replica, inner step]; 0 for nothing."""
    drop = trainer.worker._drop
    return np.array(
        [[[drop(r, g, h) or 0 for h in range(3)] for r in range(2)] for g in range(rounds)]
    )


def test_draws_are_uniform_independent_and_pure(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(stage_drop=0.3)
    drawn = draws(trainer)
    n = drawn.size
    assert (drawn > 0).mean() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / n) ** 0.5)
    assert set(np.unique(drawn)) == {0, 1, 2}
    assert (drawn == 1).sum() / (drawn > 0).sum() == pytest.approx(
        0.5, abs=4 * 0.5 / (0.3 * n) ** 0.5
    )
    both = ((drawn[:, 0] > 0) & (drawn[:, 1] > 0)).mean()
    assert both == pytest.approx(0.09, abs=4 * (0.09 * 0.91 / (n / 2)) ** 0.5)
    assert np.array_equal(drawn, draws(make_trainer(stage_drop=0.3)))
    assert not np.array_equal(drawn, draws(make_trainer(stage_drop=0.3, seed=1)))


def test_a_smaller_chance_drops_a_part_of_what_a_larger_one_does(
    make_trainer: MakeTrainer,
) -> None:
    few, many = (draws(make_trainer(stage_drop=p), 60) for p in (0.2, 0.7))
    assert (few > 0).sum() < (many > 0).sum()
    assert np.array_equal(few, np.where(few > 0, many, 0))


def test_none_and_always(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    plain, none, always = make_trainer(), make_trainer(stage_drop=0.0), make_trainer(stage_drop=1.0)
    for trainer in (plain, none):
        assert trainer.step(directive(0, FULL)).dropped.sum() == 0
    assert plain.anchor_sha256() == none.anchor_sha256()
    done = always.step(directive(0, FULL))
    assert done.dropped.sum(axis=1).tolist() == [3, 3]
    assert done.dropped[:, [0, 3]].sum() == 0
    assert always.anchor_sha256() != plain.anchor_sha256()


def test_calls_and_drops_make_up_the_steps_and_hops_count_as_undropped(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    """Also where a stage is out already: then leaving it out changes nothing."""
    steps = [[3, 3, 3, 3], [3, 0, 2, 3]]
    dropping, plain = make_trainer(stage_drop=0.8), make_trainer()
    total = 0
    for g in range(6):
        done, other = (each.step(directive(g, steps)) for each in (dropping, plain))
        assert (done.forward_calls + done.dropped).tolist() == steps
        assert done.hop_tokens == other.hop_tokens
        assert done.train_tokens == other.train_tokens
        assert np.array_equal(done.kept_values, other.kept_values)
        assert done.dropped[1, 1] == 0
        total += int(done.dropped.sum())
    assert total > 6


def test_a_dropped_step_trains_as_if_the_stage_had_been_out(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    """Always dropped, of three stages: the one inner stage gets no step at all."""
    sends = [[True, False, True]] * 2
    dropped = make_trainer(2, 3, stage_drop=1.0)
    out = make_trainer(2, 3)
    one = dropped.step(directive(0, [[3, 3, 3]] * 2, sends))
    other = out.step(directive(0, [[3, 0, 3]] * 2, sends))
    assert one.train_loss == other.train_loss
    assert dropped.anchor_sha256() == out.anchor_sha256()
    for mine, theirs in zip(dropped.state.replicas, out.state.replicas, strict=True):
        assert not mine.has_trained(1)
        assert mine.counters[0].equal(theirs.counters[0])
    assert one.hop_tokens == {(0, 1): 96, (1, 2): 96}
    assert other.hop_tokens == {(0, 2): 96}


def test_it_needs_an_inner_stage(make_trainer: MakeTrainer) -> None:
    with pytest.raises(ValueError, match=r"stage_drop needs an inner stage \(got 2 stages\)"):
        make_trainer(stages=2, stage_drop=0.1)
