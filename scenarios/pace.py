"""How long a study still takes, by what it has done so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from scenarios.agenda import Group
from scenarios.session import Run
from scenarios.speed import train_flops
from scenarios.store import RunFolder


class Pace:
    """FLOPs done since the beginning, and those left; what was known before counts as neither."""

    def __init__(
        self, groups: Iterable[Group], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._left = {group.runs[0].folder: group.flops() for group in groups}
        self._seen: dict[RunFolder, int] = {}
        self._done = 0.0
        self._clock = clock
        self._begin_s = clock()

    def row(self, run: Run, done: int) -> None:
        """A run has come to so many global steps."""
        if run.folder not in self._left:  # it trains nothing itself
            return
        since = self._seen.get(run.folder, done - 1)
        self._done += train_flops(run.scenario, max(0, done - since))
        self._seen[run.folder] = done
        steps = run.training.steps if run.training is not None else run.scenario.global_steps
        self._left[run.folder] = train_flops(run.scenario, steps - done)

    def end(self, run: Run) -> None:
        """A run has ended, well or not."""
        self._left.pop(run.folder, None)

    def left_s(self) -> float | None:
        """Seconds to go at the pace so far; None while that is unknown."""
        left = sum(self._left.values())
        if not left or not self._done:
            return None
        return left / self._done * (self._clock() - self._begin_s)
