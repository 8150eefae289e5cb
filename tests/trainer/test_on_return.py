"""What a slot that joins starts with: every option against what it must hold, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trainer.config import Average, DiLoCo, OnReturn, SparseLoCo
from trainer.directive import Directive
from trainer.loop import Trainer

MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]
R, S = 1, 2
"""The slot that is away for a round and joins in the next, and is lost again before it trains: so
its state after that round is what it joined with."""
FULL = [3, 3, 3, 3]
AWAY = [3, 3, 0, 3]


def adam(trainer: Trainer, replica: int, stage: int) -> list[Tensor]:
    state = trainer.state.replicas[replica]
    return [v[stage].clone() for v in (state.first, state.second, state.counters)]


def error(trainer: Trainer, replica: int, stage: int) -> Tensor:
    return trainer.state.memory[replica][stage].clone()


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("joins", [1, 2])
@pytest.mark.parametrize("feedback", ["zero", "keep"])
@pytest.mark.parametrize("moments", ["zero", "keep", "peer"])
def test_every_option(
    make_trainer: MakeTrainer, directive: MakeDirective, moments: Any, feedback: Any, joins: int
) -> None:
    trainer = make_trainer(3, on_return=OnReturn(adam=moments, error_feedback=feedback))
    trainer.step(directive(0, [FULL, FULL, FULL]))
    trainer.step(directive(1, [FULL, AWAY, FULL]))
    own, peers, held = adam(trainer, R, S), adam(trainer, 0, S), error(trainer, R, S)
    others = [adam(trainer, r, s) for r, s in ((1, 1), (2, 2))]
    zeros = [torch.zeros_like(tensor) for tensor in own]
    assert not same(own, zeros)
    assert not same(own, peers)
    assert held.any()
    who = [[0, 0, 0, 0], [0, 0, joins, 0], [0, 0, 0, 0]]
    trainer.step(directive(2, [FULL, AWAY, [3, 0, 0, 3]], joins=who))
    is_same_worker = joins == 1
    expected = {"zero": zeros, "keep": own if is_same_worker else zeros, "peer": peers}[moments]
    assert same(adam(trainer, R, S), expected)
    kept = held if feedback == "keep" and is_same_worker else torch.zeros_like(held)
    assert torch.equal(error(trainer, R, S), kept)
    assert same(adam(trainer, 2, 2), others[1])  # out in this round, and did not join
    assert not same(adam(trainer, 1, 1), others[0])


def test_a_kept_slot_goes_on_as_if_it_had_been_out_without_joining(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    keep = make_trainer(on_return=OnReturn(adam="keep", error_feedback="keep"))
    zero = make_trainer()
    who = [[0, 0, 0, 0], [0, 0, 1, 0]]
    for g, (mask, joins) in enumerate([(FULL, None), (AWAY, None), (FULL, who)]):
        keep.step(directive(g, [FULL, mask], joins=joins))
        zero.step(directive(g, [FULL, mask]))  # the trainer is not told that it joins
    assert keep.anchor_sha256() == zero.anchor_sha256()
    told = make_trainer()
    for g, (mask, joins) in enumerate([(FULL, None), (AWAY, None), (FULL, who)]):
        told.step(directive(g, [FULL, mask], joins=joins))
    assert told.anchor_sha256() != keep.anchor_sha256()


@pytest.mark.parametrize(
    ("steps", "joins", "peer"),
    [
        ([FULL, FULL, FULL, FULL], {1: 2}, 0),
        ([AWAY, FULL, FULL, FULL], {1: 2}, 2),  # the first replica's slot is out
        ([FULL, FULL, FULL, FULL], {0: 1, 1: 2}, 2),  # it joins itself
        ([[0, 0, 0, 0], FULL, FULL, FULL], {1: 2}, 2),  # it idles
        ([FULL, FULL, FULL, FULL], {0: 1, 1: 1, 2: 2, 3: 2}, None),  # nobody has it
        ([FULL, FULL, AWAY, FULL], {0: 2, 1: 2}, 3),  # and all joiners take the same
    ],
)
def test_who_the_peer_is(
    make_trainer: MakeTrainer,
    directive: MakeDirective,
    steps: Any,
    joins: dict[int, int],
    peer: int | None,
) -> None:
    trainer = make_trainer(4, on_return=OnReturn(adam="peer"))
    trainer.step(directive(0, [FULL] * 4))
    before = [adam(trainer, r, S) for r in range(4)]
    who = [[0, 0, joins.get(r, 0), 0] for r in range(4)]
    trainer._join(directive(1, steps, joins=who))
    for r in joins:
        expected = [torch.zeros_like(t) for t in before[r]] if peer is None else before[peer]
        assert same(adam(trainer, r, S), expected)
    for r in set(range(4)) - set(joins):
        assert same(adam(trainer, r, S), before[r])


def test_a_peer_that_never_trained_the_stage_has_nothing_to_give(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    trainer = make_trainer(3, on_return=OnReturn(adam="peer"))
    trainer.step(directive(0, [AWAY, FULL, FULL]))
    before = adam(trainer, 2, S)
    trainer._join(directive(1, [FULL] * 3, joins=[[0, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]]))
    assert same(adam(trainer, 1, S), before)


@pytest.mark.parametrize("outer", [Average(name="average"), DiLoCo(name="diloco"), SparseLoCo()])
def test_methods_without_error_feedback_take_the_option_as_well(
    make_trainer: MakeTrainer, directive: MakeDirective, outer: Any
) -> None:
    trainer = make_trainer(outer=outer, on_return=OnReturn(error_feedback="keep"))
    trainer.step(directive(0, [FULL, AWAY]))
    trainer.step(directive(1, [FULL, FULL], joins=[[0, 0, 0, 0], [0, 0, 2, 0]]))
    assert trainer.committed == 2
