"""Replicas trained as one batched product against the same ones trained in turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from trainer.config import Boundary
from trainer.directive import Directive
from trainer.loop import Trainer
from trainer.replica import NonFiniteLoss

MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]
WHOLE, SKIPS, CUT, IDLE = [3] * 4, [3, 0, 3, 3], [3, 3, 1, 3], [0] * 4


@pytest.fixture(autouse=True)
def _fallbacks_of_the_cpu_are_no_news() -> None:
    """Attention has no batched kernel on the CPU: torch loops over the replicas, and warns once."""
    torch._C._functorch._set_vmap_fallback_warning_enabled(False)


@pytest.mark.parametrize("codec", ["none", "shared", "independent"])
def test_it_computes_what_replicas_in_turn_compute(
    make_trainer: MakeTrainer, directive: MakeDirective, codec: str
) -> None:
    rounds = [[WHOLE, WHOLE, SKIPS, SKIPS], [WHOLE, CUT, WHOLE, IDLE], [WHOLE] * 4]
    told = []
    for together in (False, True):
        trainer = make_trainer(replicas=4, boundary=Boundary(codec=codec, ratio=0.25))
        trainer.worker.is_side_by_side = together
        results = [trainer.step(directive(g, steps)) for g, steps in enumerate(rounds)]
        told.append((trainer, results))
    (one, in_turn), (other, at_once) = told
    for a, b in zip(in_turn, at_once, strict=True):
        assert a.train_loss == pytest.approx(b.train_loss, rel=1e-5)
        assert np.array_equal(a.forward_calls, b.forward_calls)
        assert (a.hop_tokens, a.train_tokens) == (b.hop_tokens, b.train_tokens)
    for mine, theirs in zip(one.state.replicas, other.state.replicas, strict=True):
        for s in range(4):
            assert torch.equal(mine.counters[s], theirs.counters[s])
            assert torch.allclose(mine.local[s], theirs.local[s], rtol=1e-3, atol=1e-5)
            assert torch.allclose(mine.first[s], theirs.first[s], rtol=1e-3, atol=1e-6)


def test_those_that_do_not_compress_are_together_too(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(4, boundary=Boundary(codec="shared", weak_replicas=[1]))
    told = Directive(0, *(np.zeros((4, 4), kind) for kind in (np.int32, np.bool_, np.int8)))
    trainer.worker.is_side_by_side = True
    assert trainer.worker._alike(told, range(4)) == [[0, 2, 3], [1]]


def test_the_replica_that_is_not_finite_is_named(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    trainer = make_trainer(replicas=3)
    trainer.worker.is_side_by_side = True
    trainer.step(directive(0, [WHOLE] * 3))
    trainer.state.replicas[1].second[2].fill_(torch.nan)
    with pytest.raises(NonFiniteLoss, match="loss at global step 1, inner step 1, replica 1"):
        trainer.step(directive(1, [WHOLE] * 3))
