"""Seconds of one inner step of a pipeline, by the recursion of who waits for whom. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sim.network import Link
from sim.records import Sizes

Mask = tuple[bool, ...]
"""Live stages of a replica, [S]."""


def sweep_s(
    ready_s: Sequence[float],
    stage_s: Sequence[float],
    latency_s: float,
    transfer_s: float,
) -> list[float]:
    """Instants at which the micro-batches leave the last of some stages in a row.

    Each stage and each link works on one micro-batch at a time, in order (FIFO). A link is
    busy for `transfer_s` a micro-batch and delivers `latency_s` later; it works beside the
    stages, so a slow one is one more stage.

    Args:
        ready_s: instants at which the micro-batches may enter the first stage, ascending.
        stage_s: seconds of a micro-batch in each stage, in the order they are passed.
    """
    instants = list(ready_s)
    for position, work_s in enumerate(stage_s):
        if position:
            free_s = 0.0
            for i, instant in enumerate(instants):
                free_s = max(free_s, instant) + transfer_s
                instants[i] = free_s + latency_s
        free_s = 0.0
        for i, instant in enumerate(instants):
            free_s = max(free_s, instant) + work_s
            instants[i] = free_s
    return instants


def inner_step_s(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    micro_batches: int,
    latency_s: float = 0.0,
    transfer_s: float = 0.0,
) -> float:
    """Seconds of a GPipe step: all micro-batches forward, then all backward.

    Args:
        forward_s, backward_s: seconds of a micro-batch in each live stage, first to last.
        micro_batches: parts of the batch.
        latency_s, transfer_s: of one micro-batch over one hop, each way.

    Without links and with equal stages this is (m + S - 1)(f + b).
    """
    forward = sweep_s([0.0] * micro_batches, forward_s, latency_s, transfer_s)
    # GPipe flushes: the last stage turns round only when its last micro-batch is through. Earlier
    # stages are through by then, so their first backward waits for the gradient alone.
    turn = [forward[-1]] * micro_batches
    return sweep_s(turn, list(reversed(backward_s)), latency_s, transfer_s)[-1]


@dataclass
class StepTimes:
    """Inner-step seconds of a job by live-stage mask, cached."""

    sizes: Sizes
    hop: Link
    _cache: dict[Mask, tuple[float, float]] = field(default_factory=dict)
    _split: dict[Mask, list[list[float]]] = field(default_factory=dict)

    def of(self, mask: Mask) -> tuple[float, float]:
        """(with links, without links) seconds of an inner step through the live stages."""
        if mask not in self._cache:
            forward = [f for f, live in zip(self.sizes.forward_s, mask, strict=True) if live]
            backward = [b for b, live in zip(self.sizes.backward_s, mask, strict=True) if live]
            m = self.sizes.micro_batches
            transfer_s = self.hop.transfer_s(self.sizes.hop_bytes / m)
            self._cache[mask] = (
                inner_step_s(forward, backward, m, self.hop.latency_s, transfer_s),
                inner_step_s(forward, backward, m),
            )
        return self._cache[mask]

    def split(self, mask: Mask) -> list[list[float]]:
        """[3][S] seconds of a step in each live slot: computing, on links, in the bubble."""
        if mask not in self._split:
            with_links_s, without_s = self.of(mask)
            compute_s = self.compute_s()
            links_s = np.full(len(mask), with_links_s - without_s)
            split_s = np.array([compute_s, links_s, without_s - compute_s]) * mask
            self._split[mask] = split_s.tolist()
        return self._split[mask]

    def compute_s(self) -> NDArray[np.float64]:
        """[S] computing seconds of a slot in one inner step: micro-batches x (f + b)."""
        both = np.add(self.sizes.forward_s, self.sizes.backward_s)
        return np.asarray(self.sizes.micro_batches * both, dtype=np.float64)


def hops(mask: Mask) -> list[tuple[int, int]]:
    """Pairs of live stages that talk: a skipped stage's neighbours talk directly (rule 11)."""
    live = [stage for stage, is_live in enumerate(mask) if is_live]
    return list(pairwise(live))
