"""Codecs inside a trainer: what crosses is counted, and nothing leaves the subspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from trainer.boundary import Codec, Residual
from trainer.config import Average, Boundary
from trainer.directive import Directive
from trainer.loop import Trainer

BOUND = ("constrained", "shared", "independent")


def bound(name: Any, ratio: float = 0.25) -> Boundary:
    return Boundary(codec=name, ratio=ratio)


@dataclass(frozen=True, eq=False)
class Weighing:
    """A codec that counts the numbers it encodes."""

    inner: Codec
    numbers: list[int] = field(default_factory=list)

    @property
    def residual(self) -> Residual:
        return self.inner.residual

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        c = self.inner.encode(x, x0, boundary)
        self.numbers.append(c.numel())
        return c

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        return self.inner.decode(c, x0, boundary)

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        return self.inner.bypass(c, before, after)

    def bytes(self, tokens: int) -> tuple[int, int]:
        return self.inner.bytes(tokens)


MASK = [[3, 3, 3, 3], [3, 1, 3, 3]]


@pytest.mark.parametrize("name", ["none", *BOUND])
def test_numbers_that_cross_are_tokens_times_width(
    make_trainer: Callable[..., Trainer], directive: Callable[..., Directive], name: str
) -> None:
    boundary = Boundary(codec=name, ratio=0.25, weak_replicas=[1])  # type: ignore[arg-type]
    trainer = make_trainer(boundary=boundary)
    weighing = [Weighing(link) for link in trainer.worker.links]
    trainer.worker.links[:] = weighing
    done = trainer.step(directive(0, MASK))
    tokens = 2 * 8  # sequences x seq
    assert done.hop_tokens == {(0, 1): 4 * tokens, (0, 2): 2 * tokens} | {
        (1, 2): 4 * tokens,
        (2, 3): 6 * tokens,
    }
    widths = [16, 4 if boundary.cuts else 16]
    hops = [3 + 3 + 3, 1 + 1 + 3 + 2]
    for link, width, count in zip(weighing, widths, hops, strict=True):
        assert sum(link.numbers) == count * tokens * width


def test_who_compresses_does_not_matter_under_shared(
    make_trainer: Callable[..., Trainer], directive: Callable[..., Directive]
) -> None:
    losses = []
    for weak in (None, 1, [1], 0):
        trainer = make_trainer(
            boundary=Boundary(codec="shared", ratio=0.25, weak_replicas=weak),
            outer=Average(name="average"),
        )
        for g in range(3):
            trainer.step(directive(g, MASK))
        losses.append(trainer.evaluate().val_loss)
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-5)


@pytest.mark.parametrize("name", BOUND)
def test_nothing_leaves_the_subspace_in_training(
    make_trainer: Callable[..., Trainer], directive: Callable[..., Directive], name: str
) -> None:
    """In the B U^T form there is no drift: the model stays equal to its free twin."""
    trainer = make_trainer(boundary=bound(name, 1.0 if name == "independent" else 0.25))
    for g in range(3):
        trainer.step(directive(g, MASK))
    tokens = torch.randint(0, 200, (2, 8), generator=torch.manual_seed(0))
    residual = trainer.model.codec.residual
    x0 = residual.x0(tokens)
    assert x0 is not None
    x = trainer.model.stages[0](tokens, x0)
    u = residual.bases[0]
    assert u is not None
    torch.testing.assert_close((x - x0) @ u @ u.T, x - x0, rtol=1e-4, atol=1e-5)


def test_a_trainer_hands_the_option_to_its_replicas(
    make_trainer: Callable[..., Trainer], directive: Callable[..., Directive]
) -> None:
    trainer = make_trainer(rescale_survivors=True)
    assert all(link.residual.rescale for link in trainer.worker.links)
    plain = make_trainer()
    for each in (trainer, plain):
        each.step(directive(0, MASK))
    assert trainer.anchor_sha256() != plain.anchor_sha256()
    assert (
        make_trainer(rescale_survivors=True).evaluate().val_loss
        == make_trainer().evaluate().val_loss
    )
