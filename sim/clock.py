"""Exact instants in SimPy, and one random stream per purpose."""

from __future__ import annotations

import hashlib
import heapq
import math
import struct
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

Process = Generator[simpy.Event, Any, None]

LATE = EventPriority(NORMAL + 1)
"""After what the provider does in an instant."""
LAST = EventPriority(NORMAL + 2)
"""After everything else of an instant, also what that instant itself sets off."""
RUNG = suppress(simpy.Interrupt)


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


class Bell:
    """Lets one process sleep until an instant is over, or until somebody rings.

    It wakes when everything else of the instant has been heard, and once for all of it (rule 12).
    """

    def __init__(self, env: Clock) -> None:
        self.woke_s = env.now
        self._env = env
        self._sleeper: simpy.Process | None = None
        self._has_rung = False

    def sleep(self, t_s: float) -> Process:
        """Until the end of the instant t, or of an earlier one in which somebody rings."""
        if t_s > self._env.now:
            self._sleeper = self._env.active_process
            with RUNG:
                yield self._env.at(t_s, LAST) if t_s < math.inf else self._env.event()
            self.woke_s = self._env.now

    def ring(self) -> None:
        """Wake the sleeper in this instant."""
        if not self._has_rung:
            self._has_rung = True
            self._env.call_at(self._env.now, self._wake, LAST)

    def _wake(self) -> None:
        self._has_rung = False
        if self._sleeper is not None:
            self._sleeper.interrupt()


def later(now_s: float, duration_s: float) -> float:
    """now + duration, and never the same instant: what has begun has a length."""
    return max(now_s + duration_s, math.nextafter(now_s, math.inf))


def stream(seed: int, purpose: str, *key: str | int) -> np.random.Generator:
    """The generator of one purpose; no two purposes or keys share draws."""
    text = "/".join([purpose, *map(str, key)])
    words = struct.unpack("<8I", hashlib.sha256(text.encode()).digest())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
