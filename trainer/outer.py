"""How replicas agree after their inner steps: init -> state, step -> (anchor, state, counts).

Nothing is changed in place: a step that is not taken over leaves no trace. Vectors are flat,
one per stage; P_s = {m : sends[m, s]}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer import config
from trainer.compress import Compressor, Encoded
from trainer.sizes import Shape

Vectors = list[Tensor]
"""A flat vector per stage."""
State = list[Vectors]
"""A flat vector per replica and stage; empty for a method that remembers nothing."""
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


class OuterMethod(Protocol):
    """The outer step, and what it remembers of each slot."""

    def init(self, anchor: Vectors, replicas: int) -> State:
        """The memory of replicas that have sent nothing yet."""

    def join(self, state: State, joins: Mask) -> State:
        """The memory after slots have joined: a joiner's starts afresh. joins: bool[R, S]."""

    def step(
        self, anchor: Vectors, local: Sequence[Vectors], sends: Mask, state: State
    ) -> tuple[Vectors, State, Counts]:
        """The next anchor and memory, and the values each slot sent.

        anchor: theta, per stage; local: theta_m, per replica and stage; sends: bool[R, S].
        counts: int64[R, S], 0 where a slot did not send.
        """


@dataclass(frozen=True, eq=False)
class SparseLoCo:
    """Chunked top-k of the pseudo-gradient with error feedback (arXiv 2508.15706).

    The error feedback of a slot holds what it has not been able to send yet.
    """

    method: config.SparseLoCo
    compressors: tuple[Compressor, ...]

    def init(self, anchor: Vectors, replicas: int) -> State:
        return [[torch.zeros_like(theta) for theta in anchor] for _ in range(replicas)]

    def join(self, state: State, joins: Mask) -> State:
        return [
            [torch.zeros_like(error) if joins[m, s] else error for s, error in enumerate(errors)]
            for m, errors in enumerate(state)
        ]

    def step(
        self, anchor: Vectors, local: Sequence[Vectors], sends: Mask, state: State
    ) -> tuple[Vectors, State, Counts]:
        counts = np.zeros(sends.shape, dtype=np.int64)
        state = [list(errors) for errors in state]
        thetas: Vectors = []
        for s, theta in enumerate(anchor):
            uploads: list[Encoded] = []
            for m in np.flatnonzero(sends[:, s]).tolist():
                upload, state[m][s] = self.upload(s, theta, local[m][s], state[m][s])
                counts[m, s] = upload.kept
                uploads.append(upload)
            thetas.append(self.merge(theta, uploads) if uploads else theta)
        return thetas, state, counts

    def upload(
        self, stage: int, theta: Tensor, theta_m: Tensor, error: Tensor
    ) -> tuple[Encoded, Tensor]:
        """What one slot sends, and the error feedback it keeps."""
        held = error * self.method.error_feedback + (theta - theta_m)  # a_m = beta e_m + Delta_m
        sent = self.compressors[stage].encode(held)  # s_m = Q(TopK_chunk(a_m))
        held[sent.index] -= sent.value  # e_m = a_m - s_m
        return sent, held

    def merge(self, theta: Tensor, uploads: Sequence[Encoded]) -> Tensor:
        """theta - alpha x Agg s_m, summed in the order of the replicas."""
        total = torch.zeros_like(theta)
        for upload in uploads:
            total[upload.index] += upload.value
        if self.method.aggregate == "mean_present":
            return theta - total * (self.method.lr / len(uploads))
        senders = torch.zeros_like(theta)
        for upload in uploads:
            senders[upload.index] += 1
        return theta - total / senders.clamp_(min=1) * self.method.lr


@dataclass(frozen=True)
class Average:
    """Dense averaging of the pseudo-gradients of the senders; remembers nothing."""

    method: config.Average

    def init(self, anchor: Vectors, replicas: int) -> State:
        return []

    def join(self, state: State, joins: Mask) -> State:
        return state

    def step(
        self, anchor: Vectors, local: Sequence[Vectors], sends: Mask, state: State
    ) -> tuple[Vectors, State, Counts]:
        counts = np.zeros(sends.shape, dtype=np.int64)
        thetas: Vectors = []
        for s, theta in enumerate(anchor):
            senders = np.flatnonzero(sends[:, s]).tolist()
            total = torch.zeros_like(theta)
            for m in senders:
                delta = theta - local[m][s]
                counts[m, s] = delta.numel()
                total += delta
            step = self.method.lr / len(senders) if len(senders) else 0.0
            thetas.append(theta - total * step if len(senders) else theta)
        return thetas, state, counts


def outer_method(outer: config.Outer, shapes: Sequence[Mapping[str, Shape]]) -> OuterMethod:
    """The outer method a scenario asks for. shapes: the tensors of each stage, in flat order."""
    if isinstance(outer, config.Average):
        return Average(outer)
    compressors = tuple(Compressor(stage, outer.density, outer.bits) for stage in shapes)
    return SparseLoCo(outer, compressors)
