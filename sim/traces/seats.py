"""Seats: machines that come and go become workers that are lost and come back."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np

from sim.clock import stream
from sim.traces.text import MOST_CHANGES, MOST_WORKERS, Line
from sim.traces.trace import NO_LOSS, Life, Trace

LOST = "trace"
"""Cause of a loss of which the trace says no more."""


class Seats:
    """Puts each machine that comes into the seat that is vacant longest, else into a new one.

    So there are as many workers as machines at the most, and an outage lasts from a loss until the
    provider gives the next machine, an instant at least. A machine that comes back under its name
    takes its own seat if that is vacant. Where a trace only counts, who leaves is drawn.
    """

    def __init__(self, form: str, zone: str = "trace", named: bool = True) -> None:
        self._form, self._zone, self._named = form, zone, named
        self._draws: np.random.Generator = stream(0, "trace")
        self._vacant: OrderedDict[int, float] = OrderedDict()
        self._seat: dict[str, int] = {}
        self._here: list[str] = []
        self._since: dict[str, tuple[float, bool]] = {}
        self._lives: list[Life] = []
        self._seats = 0
        self._names = 0

    @property
    def present(self) -> int:
        """Machines that are here now."""
        return len(self._since)

    def come(self, t_s: float, name: str, line: Line, began: bool = True) -> None:
        """A machine is given."""
        if name in self._since:
            line.fail("is added, and is there already", name)
        old = self._seat.get(name)
        if old is not None and old in self._vacant:
            seat, since_s = old, self._vacant.pop(old)
        elif self._vacant:
            seat, since_s = self._vacant.popitem(last=False)
        else:
            seat, since_s, self._seats = self._seats, -math.inf, self._seats + 1
        if self._seats > MOST_WORKERS:
            line.fail(f"more than {MOST_WORKERS} machines at once")
        self._seat[name] = seat
        self._since[name] = (max(t_s, math.nextafter(since_s, math.inf)), began)

    def go(self, t_s: float, name: str, line: Line) -> None:
        """A machine is taken."""
        if name not in self._since:
            line.fail("is removed, and is not there", name)
        if len(self._lives) > MOST_CHANGES:
            line.fail(f"more than {MOST_CHANGES} losses")
        self._end(t_s, name, LOST)
        self._vacant[self._seat[name]] = t_s

    def become(self, t_s: float, count: int, line: Line, began: bool = True) -> None:
        """So many machines are here from t on; who leaves is drawn."""
        while self.present < count:
            self._names += 1
            name = str(self._names)
            self.come(t_s, name, line, began)
            self._here.append(name)
        for _ in range(self.present - count):
            k = int(self._draws.random() * len(self._here))
            self._here[k], self._here[-1] = self._here[-1], self._here[k]
            self.go(t_s, self._here.pop(), line)

    def close(self, end_s: float, line: Line) -> Trace:
        """The trace that ends now."""
        for name in list(self._since):
            self._end(end_s, name, NO_LOSS)
        if not self._seats or end_s <= 0:
            line.fail("the trace ends before any machine has been there for a while")
        lives = sorted(self._lives, key=lambda life: (life.worker, life.start_s))
        return Trace(
            form=self._form,
            zones=(self._zone,) * self._seats,
            lives=tuple(lives),
            end_s=end_s,
            named=self._named,
        )

    def _end(self, t_s: float, name: str, cause: str) -> None:
        start_s, began = self._since.pop(name)
        self._lives.append(Life(self._seat[name], min(start_s, t_s), t_s, cause, began))
