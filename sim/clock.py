"""Exact instants in SimPy, and one random stream per purpose."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

Process = Generator[simpy.Event, Any, None]

LAST = EventPriority(NORMAL + 1)
"""After everything else of an instant, also what that instant itself sets off."""


class Clock(simpy.Environment):
    """SimPy with absolute instants.

    SimPy schedules at now + delay, and for 3 % of the pairs (now, t) no floating-point delay
    has now + delay == t. Things that happen at one instant must be seen at one instant, and the
    provider's instants must not depend on when the job heard of them.
    """

    def at(self, t_s: float, priority: EventPriority = NORMAL) -> simpy.Event:
        """An event at exactly t.

        Raises:
            ValueError: t lies before now, or is not finite.
        """
        if not self._now <= t_s < math.inf:
            raise ValueError(f"an instant must be finite and not past (got {t_s} at {self._now})")
        event = simpy.Event(self)
        event._ok, event._value = True, None  # triggered, as a simpy.Timeout is from its birth
        heapq.heappush(self._queue, (t_s, priority, next(self._eid), event))
        return event

    def call_at(
        self, t_s: float, action: Callable[[], None], priority: EventPriority = NORMAL
    ) -> None:
        """Do something at exactly t."""
        callbacks = self.at(t_s, priority).callbacks
        assert callbacks is not None, "an event that is not processed has callbacks"
        callbacks.append(lambda _: action())


def later(now_s: float, duration_s: float) -> float:
    """now + duration, and never the same instant: what has begun has a length."""
    return max(now_s + duration_s, math.nextafter(now_s, math.inf))


def stream(seed: int, purpose: str, *key: str | int) -> np.random.Generator:
    """The generator of one purpose; no two purposes or keys share draws."""
    text = "/".join([purpose, *map(str, key)])
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
    )
