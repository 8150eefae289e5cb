"""All that training changes, in vectors that lie wherever the caller cuts them.

One flat float32 vector per stage, in the order of the stage's tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.model import Pipeline
from trainer.sizes import Shape

Vectors = list[Tensor]
Shapes = Sequence[Mapping[str, Shape]]
"""Name and shape of the tensors of each stage."""

ADAM_PARTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, eq=False)
class ReplicaState:
    """A replica's local parameters and what its AdamW remembers.

    counters: per stage float32[tensors], Adam's steps of each tensor; all tensors of a stage count
    alike. A slot that has never trained has zeros throughout.
    """

    local: Vectors
    first: Vectors
    second: Vectors
    counters: Vectors

    def has_trained(self, stage: int) -> bool:
        """Since it last started afresh."""
        return bool(self.counters[stage].any())

    def forget(self, stage: int) -> None:
        """Start the moments and step counters of a stage afresh."""
        for vectors in (self.first, self.second, self.counters):
            vectors[stage].zero_()

    def remember(self, stage: int, other: ReplicaState) -> None:
        """Take over the moments and step counters of a stage of another replica."""
        for mine, theirs in (
            (self.first, other.first),
            (self.second, other.second),
            (self.counters, other.counters),
        ):
            mine[stage].copy_(theirs[stage])

    def moments(self, shapes: Shapes) -> dict[str, Tensor]:
        """Views of Adam's state by "tensor name/part"."""
        return {
            f"{name}/{part}": tensor
            for stage, tensors in enumerate(shapes)
            for name, state in self.adam(stage, tensors).items()
            for part, tensor in state.items()
        }

    def adam(self, stage: int, shapes: Mapping[str, Shape]) -> dict[str, dict[str, Tensor]]:
        """Views of a stage's state as torch's AdamW keeps it, by tensor."""
        first, second = views(self.first[stage], shapes), views(self.second[stage], shapes)
        counters = self.counters[stage].unbind()
        return {
            name: dict(zip(ADAM_PARTS, (counter, first[name], second[name]), strict=True))
            for name, counter in zip(shapes, counters, strict=True)
        }


@dataclass(frozen=True, eq=False)
class State:
    """Everything.

    anchor: theta. fresh: what the outer step makes of it, before that is committed.
    memory: what the outer method remembers, in rows of a vector per stage.
    """

    anchor: Vectors
    fresh: Vectors
    replicas: list[ReplicaState]
    memory: list[Vectors]


def lay_out(cut: Callable[[int], Tensor], shapes: Shapes, replicas: int, rows: int) -> State:
    """The state of a job. cut: gives a float32 vector of a length; rows: of the outer memory."""
    sizes = [sum(map(math.prod, stage.values())) for stage in shapes]
    tensors = [len(stage) for stage in shapes]

    def row(lengths: Sequence[int] = sizes) -> Vectors:
        return [cut(length) for length in lengths]

    return State(
        anchor=row(),
        fresh=row(),
        replicas=[ReplicaState(row(), row(), row(), row(tensors)) for _ in range(replicas)],
        memory=[row() for _ in range(rows)],
    )


def views(flat: Tensor, shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """A stage's vector as its tensors."""
    parts = torch.split(flat, [math.prod(shape) for shape in shapes.values()])
    return {name: part.view(shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def bind(pipeline: Pipeline, flat: Vectors) -> None:
    """Make a model's parameters views of other vectors."""
    for stage, vector in enumerate(flat):
        tensors = pipeline.named(stage)
        for name, view in views(vector, pipeline.shapes[stage]).items():
            tensors[name].data = view
        pipeline.flat[stage] = vector
