"""Trainer.step and evaluate: what is committed, and what is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from trainer.config import Average, Model, SparseLoCo
from trainer.directive import Directive
from trainer.loop import Trainer
from trainer.replica import NonFiniteLoss, learning_rate
from trainer.sizes import kept_values

H, SEQ, SEQUENCES = 3, 8, 2
MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]

FULL = [[3, 3, 3, 3], [3, 3, 3, 3]]


def bits(trainer: Trainer) -> list[bytes]:
    return [flat.numpy().tobytes() for flat in trainer.model.flat]


def test_counts_are_those_of_the_mask(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    trainer = make_trainer(replicas=4)
    steps = [[3, 3, 3, 3], [3, 0, 2, 3], [0, 0, 0, 0], [3, 3, 1, 3]]
    done = trainer.step(directive(0, steps))
    assert done.forward_calls.tolist() == steps
    tokens = SEQUENCES * SEQ
    hops = {(0, 1): 6, (1, 2): 4, (2, 3): 4 + 2, (0, 2): 2, (0, 3): 1, (1, 3): 2}
    assert done.hop_tokens == {hop: count * tokens for hop, count in hops.items()}
    assert done.train_tokens == 9 * tokens
    kept = np.array(kept_values(trainer.train.shape(), 4, trainer.method))
    assert np.array_equal(done.kept_values, kept * (np.array(steps) == H))
    assert done.train_loss == pytest.approx(math.log(300), rel=0.02)


def test_evaluation_is_not_counted(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    trainer = make_trainer()
    trainer.step(directive(0, FULL))
    trainer.evaluate()
    assert trainer.step(directive(1, FULL)).forward_calls.tolist() == FULL


def test_nobody_trains(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    trainer = make_trainer()
    before = bits(trainer)
    done = trainer.step(directive(0, np.zeros((2, 4))))
    assert math.isnan(done.train_loss)
    assert done.train_tokens == 0
    assert done.hop_tokens == {}
    assert bits(trainer) == before
    assert trainer.committed == 1


def test_the_loss_of_a_step_is_over_what_took_part(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    """A shrunken batch must not look like a jump of the loss."""
    both = make_trainer().step(directive(0, FULL)).train_loss
    first = make_trainer().step(directive(0, [[3] * 4, [0] * 4])).train_loss
    second = make_trainer().step(directive(0, [[0] * 4, [3] * 4])).train_loss
    assert both == pytest.approx((first + second) / 2, rel=1e-6)


def test_one_replica_averaged_with_rate_one_is_a_plain_torch_loop(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    settings = {"lr": 2e-3, "clip": 0.7, "weight_decay": 0.2}
    trainer = make_trainer(1, 4, outer=Average(name="average"), inner=settings)
    plain = make_trainer(1, 1, inner=settings)
    inner = plain.train.inner
    named = plain.model.named(0)
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in named.values() if p.ndim == 2]},
            {"params": [p for p in named.values() if p.ndim == 1], "weight_decay": 0.0},
        ],
        betas=(inner.beta1, inner.beta2),
        eps=inner.eps,
        weight_decay=inner.weight_decay,
    )
    for g in range(6):
        losses = []
        for h in range(H):
            tokens = torch.from_numpy(
                plain.corpus.batch(SEQUENCES, SEQ, seed=0, replica=0, global_step=g, inner_step=h)
            )
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(inner, g * H + h, 6 * H)
            logits = plain.model(tokens[:, :-1], [0])
            loss = torch.nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1)
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(named.values(), inner.clip)
            optimizer.step()
            losses.append(loss.item())
        done = trainer.step(directive(g, [[3, 3, 3, 3]]))
        assert done.train_loss == pytest.approx(sum(losses) / H, rel=1e-4)
    for s in range(4):
        for name, tensor in trainer.model.named(s).items():
            torch.testing.assert_close(tensor, named[name], rtol=2e-3, atol=2e-5)
    assert trainer.evaluate().val_loss == pytest.approx(plain.evaluate().val_loss, rel=1e-4)
    assert trainer.evaluate().val_loss < math.log(300) - 0.1  # it did learn


def test_an_idle_replica_changes_nothing_in_the_batches_of_others(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    """Replica 1 idles a round; with its sends left out of both runs they are equal by bits."""
    alone, beside = make_trainer(), make_trainer()
    sends = [[True] * 4, [False] * 4]
    alone.step(directive(0, [[3] * 4, [0] * 4], sends))
    beside.step(directive(0, FULL, sends))
    assert bits(alone) == bits(beside)
    joins = [[0] * 4, [2] * 4]  # forget that only one of them trained in round 0
    alone.step(directive(1, FULL, joins=joins))
    beside.step(directive(1, FULL, joins=joins))
    assert bits(alone) == bits(beside)


def test_each_replica_learns_from_its_own_batches(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    only = []
    for r in range(2):
        trainer = make_trainer(outer=Average(name="average"))
        trainer.step(directive(0, FULL, sends=[[m == r] * 4 for m in range(2)]))
        only.append(bits(trainer))
    assert only[0] != only[1]


def test_a_stage_that_nobody_sends_stays(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    trainer = make_trainer()
    before = bits(trainer)
    trainer.step(directive(0, [[3, 0, 3, 3], [3, 1, 3, 3]]))
    assert [a == b for a, b in zip(before, bits(trainer), strict=True)] == [
        False,
        True,
        False,
        False,
    ]


def test_a_join_resets_moments_and_error_feedback(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    trainer = make_trainer()
    trainer.step(directive(0, FULL))
    assert trainer.state.memory[1][2].abs().max() > 0
    joins = [[0, 0, 0, 0], [0, 0, 1, 0]]
    trainer.step(directive(1, [[3] * 4, [3, 3, 0, 3]], joins=joins))
    assert trainer.state.memory[1][2].abs().max() == 0
    assert trainer.state.memory[0][2].abs().max() > 0
    assert [r.counters[2].unique().tolist() for r in trainer.state.replicas] == [[6], [0]]


def test_equal_directives_give_equal_bits(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    runs = []
    for seed in (0, 0, 1):
        trainer = make_trainer(seed=seed)
        results = [trainer.step(directive(g, [[3, 1, 3, 3], [3] * 4])) for g in range(2)]
        runs.append((bits(trainer), [r.train_loss for r in results], trainer.evaluate()))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize(
    ("outer", "inner", "what"),
    [
        (SparseLoCo(lr=1e300), {}, "anchor at global step 0, inner step 2, the outer step"),
        (SparseLoCo(lr=1e30), {}, "loss at global step 1, inner step 0, replica 0"),
    ],
)
def test_a_step_that_is_not_finite_is_not_committed(
    make_trainer: MakeTrainer,
    directive: MakeDirective,
    outer: SparseLoCo,
    inner: dict[str, Any],
    what: str,
) -> None:
    trainer = make_trainer(outer=outer, inner=inner)
    good = int("step 1" in what)
    for g in range(good):
        trainer.step(directive(g, FULL))
    before = bits(trainer)
    with pytest.raises(NonFiniteLoss, match=f"non-finite {what}"):
        trainer.step(directive(good, FULL))
    assert bits(trainer) == before
    assert trainer.committed == good
    with pytest.raises(RuntimeError, match="not committed: load a checkpoint first"):
        trainer.step(directive(trainer.committed, FULL))


def test_an_anchor_that_cannot_be_evaluated_is_told(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    """It is finite, so the outer step has passed it."""
    trainer = make_trainer(outer=SparseLoCo(lr=1e30))
    trainer.step(directive(0, FULL))
    with pytest.raises(NonFiniteLoss, match="validation loss at global step 0, inner step 2"):
        trainer.evaluate()


@pytest.mark.parametrize(
    ("index", "steps", "message"),
    [
        (1, FULL, "global step 1 cannot follow 0"),
        (0, [[3, 3, 3]], "shape"),
        (0, [[3] * 4, [4] * 4], r"steps must lie in 0\.\.3"),
        (0, [[3] * 4, [2, 3, 3, 3]], "only inner stages can be skipped"),
        (0, [[3] * 4, [3, 3, 3, 0]], "only inner stages can be skipped"),
    ],
)
def test_a_directive_that_cannot_be_carried_out_is_refused_untouched(
    make_trainer: MakeTrainer, directive: MakeDirective, index: int, steps: Any, message: str
) -> None:
    trainer = make_trainer()
    with pytest.raises(ValueError, match=message):
        trainer.step(directive(index, steps))
    trainer.step(directive(0, FULL))


def test_no_step_follows_the_last(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    trainer = make_trainer(global_steps=1)
    trainer.step(directive(0, FULL))
    with pytest.raises(ValueError, match="global step 1 cannot follow 1 committed ones of 1"):
        trainer.step(directive(1, FULL))


def test_evaluation_is_the_mean_over_the_held_out_sequences(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(stages=4, eval_sequences=37)  # more than a pass takes
    found = trainer.evaluate()
    held_out = torch.from_numpy(trainer.corpus.held_out(37, SEQ))
    with torch.no_grad():
        whole = trainer.model.loss(held_out, [0, 1, 2, 3]).item()
        skipped = {1: [0, 2, 3], 2: [0, 1, 3]}
        losses = {s: trainer.model.loss(held_out, live).item() for s, live in skipped.items()}
    assert found.val_loss == pytest.approx(whole, rel=1e-6)
    assert found.skip_stage_loss == pytest.approx(losses, rel=1e-6)
    assert losses[1] != whole
    predicted = held_out[:, 1:].numpy()
    nats = whole * predicted.size
    expected = nats / math.log(2) / trainer.corpus.bytes_of(predicted)
    assert found.val_bits_per_byte == pytest.approx(expected, rel=1e-6)
    assert make_trainer(stages=2).evaluate().skip_stage_loss == {}


def test_an_evaluation_changes_nothing(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    trainer = make_trainer()
    trainer.step(directive(0, FULL))
    before = bits(trainer)
    assert trainer.evaluate() == trainer.evaluate()
    assert bits(trainer) == before


def test_fewer_layers_than_stages_is_an_error(make_trainer: MakeTrainer) -> None:
    with pytest.raises(ValueError, match="4 layers cannot fill 5 stages"):
        make_trainer(stages=5)


def test_training_learns(make_trainer: MakeTrainer, directive: MakeDirective) -> None:
    shape = Model(d=32, layers=4, heads=2, ffn=48, seq=SEQ)
    trainer = make_trainer(global_steps=20, model=shape, inner={"lr": 1e-2})
    before = trainer.evaluate()
    for g in range(20):
        trainer.step(directive(g, FULL))
    after = trainer.evaluate()
    assert after.val_loss < 0.75 * before.val_loss
    assert after.val_bits_per_byte < 0.75 * before.val_bits_per_byte
