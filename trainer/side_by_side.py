"""Replicas that do the same inner steps at once: each product one batched product.

A small model leaves a GPU idle most of the time; replicas next to each other fill it. What is
computed is what `Replica` computes one after another, up to the rounding of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from trainer.model import Pipeline, mean_nats
from trainer.replica import LocalRound, NonFiniteLoss, Replica, learning_rate, predicted
from trainer.state import ReplicaState, Vectors

Tensors = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Side:
    """A stage of some replicas: float32[replica, parameters of the stage]; count: steps of Adam,
    float32[replica, 1]."""

    local: Tensor
    first: Tensor
    second: Tensor
    count: Tensor

    @staticmethod
    def of(theta: Tensor, states: Sequence[ReplicaState], stage: int) -> Side:
        """From the anchor of the stage, with what each replica's Adam remembers."""
        return Side(
            local=theta.expand(len(states), -1).clone(),
            first=torch.stack([state.first[stage] for state in states]),
            second=torch.stack([state.second[stage] for state in states]),
            count=torch.stack([state.counters[stage][:1] for state in states]),
        )

    def keep(self, states: Sequence[ReplicaState], stage: int) -> None:
        """Put it back into the replicas' own vectors."""
        for row, state in enumerate(states):
            state.local[stage].copy_(self.local[row])
            state.first[stage].copy_(self.first[row])
            state.second[stage].copy_(self.second[row])
            state.counters[stage].copy_(self.count[row].expand_as(state.counters[stage]))


class SideBySide:
    """Inner steps of several replicas with equal `steps` and one codec."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.inner = replica.inner
        pipeline = self.pipeline = replica.pipeline
        decay = self.inner.weight_decay
        self._decay = [
            torch.cat([theta.new_full((math.prod(s),), decay * (len(s) == 2)) for s in of.values()])
            for theta, of in zip(pipeline.flat, pipeline.shapes, strict=True)
        ]

    def train(
        self,
        anchor: Vectors,
        states: dict[int, ReplicaState],
        steps: NDArray[np.int32],
        global_step: int,
        first: int,
        batch: Callable[[int, int], Tensor],
    ) -> list[LocalRound]:
        """As `Replica.train`, of the replicas numbered in `states`.

        batch: the sequences of (replica, inner step), int64[batch, time + 1].

        Raises NonFiniteLoss of the first of them that has one.
        """
        numbers, rows = list(states), list(states.values())
        sides = [Side.of(theta, rows, stage) for stage, theta in enumerate(anchor)]
        done = self.replica.count_anew()
        nats = [0.0] * len(rows)
        for h in range(int(steps.max(initial=0))):
            live = [int(s) for s in np.flatnonzero(steps > h)]
            sequences = torch.stack([batch(r, h) for r in numbers])
            grads, losses = self._gradients(sides, sequences, live, done)
            self._refuse_infinite("loss", losses, global_step, h, numbers)
            norms = torch.stack([grads[s].square().sum(1) for s in live]).sum(0).sqrt()
            self._refuse_infinite("gradient", norms, global_step, h, numbers)
            scale = (self.inner.clip / norms).clamp(max=1.0)[:, None]
            rate = learning_rate(self.inner, first + h, self.replica.total)
            for stage, grad in grads.items():
                self._adamw(sides[stage], grad * scale, rate, self._decay[stage])
            tokens = predicted(sequences[0])
            done.tokens += tokens
            nats = [a + b * tokens for a, b in zip(nats, losses.tolist(), strict=True)]
        spoiled = torch.stack([side.local.abs().amax(1) for side in sides]).amax(0)
        self._refuse_infinite("parameter", spoiled, global_step, int(steps.max()) - 1, numbers)
        for stage, side in enumerate(sides):
            side.keep(rows, stage)
        return [done.with_nats(each) for each in nats]

    def _gradients(
        self, sides: Sequence[Side], sequences: Tensor, live: list[int], done: LocalRound
    ) -> tuple[dict[int, Tensor], Tensor]:
        """Gradients float32[replica, parameters] of each live stage, and losses float32[replica].

        sequences: int64[replica, batch, time + 1].
        """
        pipeline = self.pipeline
        live_part = {s: _tensors(pipeline, s, sides[s].local) for s in live}
        wanted = {name: tensor for part in live_part.values() for name, tensor in part.items()}

        def loss(parameters: Tensors, mine: Tensor) -> Tensor:
            logits = functional_call(pipeline, parameters, (mine[:, :-1], live, done.hops))
            return mean_nats(logits, mine)

        with self.replica.precision():
            found, losses = vmap(grad_and_value(loss))(wanted, sequences)
        grads = {
            s: torch.cat([found[name].flatten(1) for name in part], 1)
            for s, part in live_part.items()
        }
        return grads, losses

    def _adamw(self, side: Side, grad: Tensor, rate: float, decay: Tensor) -> None:
        """One step of AdamW (Loshchilov and Hutter, 2019) in place, as torch does it."""
        beta1, beta2 = self.inner.beta1, self.inner.beta2
        side.count.add_(1)
        side.local.mul_(1 - rate * decay)
        side.first.lerp_(grad, 1 - beta1)
        side.second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = side.second.sqrt() / (1 - beta2**side.count).sqrt() + self.inner.eps
        side.local.sub_(side.first / root * (rate / (1 - beta1**side.count)))

    @staticmethod
    def _refuse_infinite(
        what: str, values: Tensor, global_step: int, inner_step: int, numbers: Sequence[int]
    ) -> None:
        """values: [replica]."""
        good: list[bool] = values.isfinite().tolist()
        if not all(good):
            raise NonFiniteLoss(what, global_step, inner_step, numbers[good.index(False)])


def _tensors(pipeline: Pipeline, stage: int, flat: Tensor) -> Tensors:
    """The parameters of a stage by their names in the pipeline, each [replica, ...]."""
    shapes = pipeline.shapes[stage]
    parts = torch.split(flat, [math.prod(shape) for shape in shapes.values()], 1)
    return {
        f"stages.{stage}.{name}": part.view(-1, *shapes[name])
        for name, part in zip(shapes, parts, strict=True)
    }
