"""Seconds of one inner step of a pipeline, by the recursion of who waits for whom. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.network import Table
from sim.pace import Slowness
from sim.records import Schedule, Sizes

Mask = tuple[bool, ...]
"""Live stages of a replica, [S]."""
Key = tuple[Mask, Slowness, "Crew | None"]
MOST_CACHED = 4096
"""Step times that are remembered; jitter and speeds make new ones without end."""


class Crew(NamedTuple):
    """What of a replica decides how long its hops take."""

    kinds: tuple[int, ...]
    """[S] kind of the worker in each slot."""
    ways_bytes: tuple[int, int]
    """Bytes of an inner step over a hop, there and back."""


def usual_crew(sizes: Sizes) -> Crew:
    """That of replica 0 where all workers are of kind 0."""
    return Crew((0,) * len(sizes.forward_s), sizes.ways(0))


class Way(NamedTuple):
    """What a micro-batch takes from a stage to the next one, in one direction."""

    latency_s: float = 0.0
    busy_s: float = 0.0
    """The link carries one micro-batch at a time for so long, beside the stages."""
    port_s: float = 0.0
    """For so long of it, it keeps the sender's NIC, which both directions share."""


def in_flight(schedule: Schedule, stages: int, micro_batches: int, extra: int = 0) -> list[int]:
    """[S] micro-batches whose backward is to come that a stage holds at most.

    GPipe holds them all. 1F1B (arXiv 2006.09503) holds one and another for every stage that
    follows, S - s; with `extra` so many more for each of those. One more is eager 1F1B
    (arXiv 2211.05322), whose latencies overlap.
    """
    if schedule == "gpipe":
        return [micro_batches] * stages
    following = range(stages - 1, -1, -1)
    return [min(micro_batches, 1 + after * (1 + extra)) for after in following]


def inner_step_s(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    micro_batches: int,
    most: Sequence[int],
    *,
    recompute_s: Sequence[float] = (),
    there: Sequence[Way] = (),
    back: Sequence[Way] = (),
) -> float:
    """Seconds of a step, by the recursion of who waits for whom.

    A stage runs forward until it holds `most` micro-batches, then a backward and a forward in
    turn, then the backwards that are left. It begins each as soon as it has done the one before
    and the micro-batch has arrived. That order is fixed, so nothing that gets slower can make the
    step shorter. Activations are computed again before a backward, without waiting for the
    gradient. What a stage sends it sends in the order it was made; links are FIFO.

    Args:
        forward_s, backward_s: [L] seconds of a micro-batch in each live stage, first to last.
        most: [L] micro-batches in flight, see `in_flight`; never more in a later stage.
        recompute_s: [L] seconds of computing activations again; empty: they are kept.
        there, back: [L - 1] the hop after each stage, and the way back over it; empty: no time.
    """
    last = len(forward_s) - 1
    again_s = recompute_s or [0.0] * (last + 1)
    free_s, port_s = [0.0] * (last + 1), [0.0] * (last + 1)  # stages and NICs, of what they began
    there, back = there or [Way()] * last, back or [Way()] * last
    there_s, back_s = [0.0] * last, [0.0] * last  # links, of what they were given

    def send(stage: int, made_s: float, way: Way, link_s: list[float], hop: int) -> float:
        """Instant of arrival."""
        start_s = max(port_s[stage], made_s)
        port_s[stage] = start_s + way.port_s
        link_s[hop] = max(link_s[hop], start_s) + way.busy_s
        return link_s[hop] + way.latency_s

    gradients: list[list[float]] = [[] for _ in range(last)]  # instants of arrival
    for i in range(micro_batches + most[0]):
        for s in range(last, -1, -1):
            j = i - most[s]
            if 0 <= j < micro_batches:
                arrived_s = gradients[s][j] if s < last else 0.0
                free_s[s] = max(free_s[s] + again_s[s], arrived_s) + backward_s[s]
                if s:
                    gradients[s - 1].append(send(s, free_s[s], back[s - 1], back_s, s - 1))
        if i < micro_batches:
            arrived_s = 0.0
            for s in range(last + 1):
                free_s[s] = max(free_s[s], arrived_s) + forward_s[s]
                if s < last:
                    arrived_s = send(s, free_s[s], there[s], there_s, s)
    return free_s[0]


@dataclass
class StepTimes:
    """Inner-step seconds of a job by live-stage mask, slowness and crew, cached.

    hops: [K][K] links between the kinds of workers. nics: [K] bytes a second of what each sends.
    """

    sizes: Sizes
    hops: Table
    nics: Sequence[float] = (math.inf,)
    _cache: dict[Key, tuple[float, float]] = field(default_factory=dict)
    _split: dict[Key, list[list[float]]] = field(default_factory=dict)

    def of(self, mask: Mask, slow: Slowness = (), crew: Crew | None = None) -> tuple[float, float]:
        """(with links, without links) seconds of an inner step through the live stages."""
        key = mask, slow, crew
        if key not in self._cache:
            if len(self._cache) >= MOST_CACHED:
                self._cache.clear()
            sizes, m = self.sizes, self.sizes.micro_batches
            forward = self._live(sizes.forward_s, mask, slow)
            backward = self._live(sizes.backward_s, mask, slow)
            again = self._live(sizes.recompute_s, mask, slow)
            most = in_flight(sizes.schedule, len(forward), m, sizes.extra_in_flight)
            there, back = self._ways(mask, crew or usual_crew(sizes))
            without_s = inner_step_s(forward, backward, m, most, recompute_s=again)
            with_s = inner_step_s(
                forward, backward, m, most, recompute_s=again, there=there, back=back
            )
            self._cache[key] = with_s, without_s
        return self._cache[key]

    def split(self, mask: Mask, slow: Slowness = (), crew: Crew | None = None) -> list[list[float]]:
        """[3][S] seconds of a step in each live slot: computing, on links, in the bubble."""
        key = mask, slow, crew
        if key not in self._split:
            if len(self._split) >= MOST_CACHED:
                self._split.clear()
            with_links_s, without_s = self.of(mask, slow, crew)
            compute_s = self.compute_s() * (slow or 1.0)
            links_s = np.full(len(mask), with_links_s - without_s)
            split_s = np.array([compute_s, links_s, without_s - compute_s]) * mask
            self._split[key] = split_s.tolist()
        return self._split[key]

    def _ways(self, mask: Mask, crew: Crew) -> tuple[list[Way], list[Way]]:
        """The hops between live neighbours, there and back."""
        there, back = (nbytes / self.sizes.micro_batches for nbytes in crew.ways_bytes)
        pairs = [(crew.kinds[a], crew.kinds[b]) for a, b in hops(mask)]
        return (
            [self._way(a, b, there) for a, b in pairs],
            [self._way(b, a, back) for a, b in pairs],
        )

    def _way(self, sender: int, receiver: int, nbytes: float) -> Way:
        link = self.hops[sender][receiver]
        return Way(link.latency_s, link.transfer_s(nbytes), nbytes / self.nics[sender])

    @staticmethod
    def _live(stage_s: Sequence[float], mask: Mask, slow: Slowness) -> list[float]:
        """Seconds of a micro-batch in each live stage."""
        factors = slow or (1.0,) * len(mask)
        return [
            each_s * factor
            for each_s, live, factor in zip(stage_s, mask, factors, strict=False)
            if live
        ]

    def compute_s(self) -> NDArray[np.float64]:
        """[S] nominal computing seconds of a slot in one inner step: micro-batches x (f + b).

        What is computed again counts, it keeps the worker busy.
        """
        each_s = np.add(self.sizes.forward_s, self.sizes.backward_s)
        if self.sizes.recompute_s:
            each_s = each_s + self.sizes.recompute_s
        return np.asarray(self.sizes.micro_batches * each_s, dtype=np.float64)


def hops(mask: Mask) -> list[tuple[int, int]]:
    """Pairs of live stages that talk: a skipped stage's neighbours talk directly (rule 11)."""
    live = [stage for stage, is_live in enumerate(mask) if is_live]
    return list(pairwise(live))
