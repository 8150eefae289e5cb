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
from trainer.compress import CODES, Compressor, Encoded
from trainer.sizes import Shape

Vectors = list[Tensor]
"""A flat vector per stage."""
State = list[Vectors]
"""Rows of a flat vector per stage: one a replica, one for all, or none, as the method remembers."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Counts:
    """What was sent.

    kept: int64[R, S], values in each slot's upload; 0 where it did not send.
    codes: int64[4], how often each 2-bit code was sent; zeros if none are.
    """

    kept: NDArray[np.int64]
    codes: NDArray[np.int64]

    @staticmethod
    def of(sends: Mask) -> Counts:
        """Nothing yet."""
        return Counts(np.zeros(sends.shape, dtype=np.int64), np.zeros(CODES, dtype=np.int64))


class OuterMethod(Protocol):
    """The outer step, and what it remembers of each slot."""

    def init(self, anchor: Vectors, replicas: int) -> State:
        """The memory of replicas that have sent nothing yet."""

    def join(self, state: State, joins: Mask) -> State:
        """The memory after slots have joined: a joiner's starts afresh. joins: bool[R, S]."""

    def step(
        self, anchor: Vectors, local: Sequence[Vectors], sends: Mask, state: State
    ) -> tuple[Vectors, State, Counts]:
        """The next anchor and memory, and what was sent.

        anchor: theta, per stage; local: theta_m, per replica and stage; sends: bool[R, S].
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
        counts = Counts.of(sends)
        state = [list(errors) for errors in state]
        thetas: Vectors = []
        for s, theta in enumerate(anchor):
            uploads: list[Encoded] = []
            for m in np.flatnonzero(sends[:, s]).tolist():
                upload, state[m][s] = self.upload(s, theta, local[m][s], state[m][s])
                counts.kept[m, s] = upload.kept
                counts.codes[:] += upload.codes.cpu().numpy()
                uploads.append(upload)
            thetas.append(self.merge(s, theta, uploads, len(sends)) if uploads else theta)
        return thetas, state, counts

    def upload(
        self, stage: int, theta: Tensor, theta_m: Tensor, error: Tensor
    ) -> tuple[Encoded, Tensor]:
        """What one slot sends, and the error feedback it keeps."""
        held = error * self.method.error_feedback  # a_m = beta e_m + Delta_m
        held += theta - theta_m
        sent = self.compressors[stage].encode(held)  # s_m = Q(TopK_chunk(a_m))
        held.index_add_(0, sent.index, sent.value, alpha=-1)  # e_m = a_m - s_m
        return sent, held

    def merge(self, stage: int, theta: Tensor, uploads: Sequence[Encoded], replicas: int) -> Tensor:
        """theta - alpha x Agg s_m, summed in the order of the replicas."""
        values = [upload.value for upload in uploads]
        if self.method.clip_to_median:
            values = self.compressors[stage].clip_to_median(uploads)
        total = torch.zeros_like(theta)
        for upload, value in zip(uploads, values, strict=True):
            total.index_add_(0, upload.index, value)
        if self.method.aggregate == "mean_senders":
            senders = torch.zeros_like(theta)
            for upload in uploads:
                senders[upload.index] += 1
            return theta - total / senders.clamp_(min=1) * self.method.lr
        by = replicas if self.method.aggregate == "mean_all" else len(uploads)
        return theta - total * (self.method.lr / by)


@dataclass(frozen=True)
class DiLoCo:
    """SGD with Nesterov momentum on the mean pseudo-gradient of the senders (arXiv 2311.08105).

    Remembers one momentum per stage, which every replica holds alike; where nobody sends, it
    stays as the stage does.
    """

    method: config.DiLoCo

    def init(self, anchor: Vectors, replicas: int) -> State:
        return [[torch.zeros_like(theta) for theta in anchor]]

    def join(self, state: State, joins: Mask) -> State:
        return state

    def step(
        self, anchor: Vectors, local: Sequence[Vectors], sends: Mask, state: State
    ) -> tuple[Vectors, State, Counts]:
        means, counts = _means(anchor, local, sends)
        beta, lr = self.method.momentum, self.method.lr
        momenta, thetas = list(state[0]), list(anchor)
        for s, mean in means.items():
            momenta[s] = momenta[s] * beta + mean  # b = beta b + g
            thetas[s] = anchor[s] - (mean + momenta[s] * beta) * lr  # theta - lr (g + beta b)
        return thetas, [momenta], counts


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
        means, counts = _means(anchor, local, sends)
        thetas = list(anchor)
        for s, mean in means.items():
            thetas[s] = anchor[s] - mean * self.method.lr
        return thetas, state, counts


def _means(
    anchor: Vectors, local: Sequence[Vectors], sends: Mask
) -> tuple[dict[int, Tensor], Counts]:
    """Mean pseudo-gradient of the senders of each stage that has any, and what was sent."""
    counts = Counts.of(sends)
    means: dict[int, Tensor] = {}
    for s, theta in enumerate(anchor):
        senders = np.flatnonzero(sends[:, s]).tolist()
        if not senders:
            continue
        means[s] = torch.zeros_like(theta)
        for m in senders:
            delta = theta - local[m][s]
            counts.kept[m, s] = delta.numel()
            means[s] += delta
        means[s] /= len(senders)
    return means, counts


def outer_method(outer: config.Outer, shapes: Sequence[Mapping[str, Shape]]) -> OuterMethod:
    """The outer method a scenario asks for. shapes: the tensors of each stage, in flat order."""
    if isinstance(outer, config.Average):
        return Average(outer)
    if isinstance(outer, config.DiLoCo):
        return DiLoCo(outer)
    compressors = tuple(Compressor(stage, outer.density, outer.bits) for stage in shapes)
    return SparseLoCo(outer, compressors)
