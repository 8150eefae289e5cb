"""Dense outer methods: DiLoCo against torch's SGD, averaging against the mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.trainer.test_outer import COUNT, SHAPES, vectors
from trainer.config import Average, DiLoCo
from trainer.outer import outer_method


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_diloco_is_torch_sgd_with_nesterov_on_the_mean_pseudo_gradient(momentum: float) -> None:
    draw = np.random.default_rng(8)
    method = outer_method(DiLoCo(name="diloco", lr=0.7, momentum=momentum), SHAPES)
    theta = vectors(draw)
    reference = [t.clone().requires_grad_() for t in theta]
    optimizer = torch.optim.SGD(reference, lr=0.7, momentum=momentum, nesterov=momentum > 0)
    state = method.init(theta, 3)
    for g in range(5):
        local = [vectors(draw) for _ in range(3)]
        sends = draw.random((3, 3)) < 0.7
        sends[:, 1] = (
            g != 2
        )  # nobody sends stage 1 in round 2: torch skips a parameter without grad
        for s, parameter in enumerate(reference):
            present = np.flatnonzero(sends[:, s]).tolist()
            deltas = [theta[s] - local[m][s] for m in present]
            parameter.grad = torch.stack(deltas).mean(0) if deltas else None
        optimizer.step()
        theta, state, counts = method.step(theta, local, sends, state)
        for found, parameter in zip(theta, reference, strict=True):
            torch.testing.assert_close(found, parameter.detach(), rtol=1e-5, atol=1e-5)
        assert np.array_equal(counts.kept, sends * np.array(COUNT))


def test_a_join_leaves_the_momentum_that_all_share() -> None:
    draw = np.random.default_rng(9)
    method = outer_method(DiLoCo(name="diloco"), SHAPES)
    state = [vectors(draw)]
    assert method.join(state, np.ones((4, 3), dtype=bool)) is state


def test_average_is_the_mean_of_those_present() -> None:
    draw = np.random.default_rng(5)
    method = outer_method(Average(name="average", lr=0.5), SHAPES)
    theta, local = vectors(draw), [vectors(draw) for _ in range(3)]
    sends = np.array([[True] * 3, [False, True, True], [True] * 3])
    found, state, counts = method.step(theta, local, sends, method.init(theta, 3))
    mean = (local[0][0] + local[2][0]) / 2
    torch.testing.assert_close(found[0], theta[0] + 0.5 * (mean - theta[0]))
    assert state == []
    assert counts.kept.tolist() == [COUNT, [0, *COUNT[1:]], COUNT]
