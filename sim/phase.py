"""Inner steps in a row: instants, exactly. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from sim.pace import Slowness
from sim.pipeline import Mask


class Phase(NamedTuple):
    """Some inner steps in a row through the same live stages."""

    start_s: float
    steps: int
    step_s: float
    mask: Mask
    slow: Slowness = ()

    def instant(self, k: int) -> float:
        """When the first k steps have ended."""
        return self.start_s + k * self.step_s

    def cut(self, steps: int) -> Phase:
        """As many of the steps, from the first on."""
        return Phase(self.start_s, steps, self.step_s, self.mask, self.slow)

    @property
    def end_s(self) -> float:
        return self.instant(self.steps)

    def completed(self, t_s: float) -> int:
        """Steps that have ended by t; a loss at the exact end of a step finds it complete."""
        if t_s >= self.end_s:
            return self.steps
        k = max(0, math.floor((t_s - self.start_s) / self.step_s))
        while self.instant(k + 1) <= t_s:
            k += 1
        while k > 0 and self.instant(k) > t_s:
            k -= 1
        return k

    def begun(self, t_s: float) -> int:
        """Steps that began before t."""
        k = self.completed(t_s)
        return k + (k < self.steps and self.instant(k) < t_s)


def step_begins_s(phases: Sequence[Phase], inner_step: int, otherwise_s: float) -> float:
    """When phases one after another begin an inner step, counted over all of them."""
    first = 0
    for phase in phases:
        if first <= inner_step < first + phase.steps:
            return phase.instant(inner_step - first)
        first += phase.steps
    return otherwise_s
