"""Exact instants in SimPy, and one random stream per purpose."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

Process = Generator[simpy.Event, Any, None]


def delay(now_s: float, t_s: float) -> float:
    """A delay d >= 0 with now + d == t exactly in floating point.

    SimPy schedules at now + d. Rounded, `now + (t - now)` can miss t by a bit, and then two things
    that happen at one instant would not be seen at one instant.

    Raises:
        ValueError: t lies before now, or is not finite.
    """
    if not now_s <= t_s < math.inf:
        raise ValueError(f"an instant must be finite and not in the past (got {t_s} at {now_s})")
    d = t_s - now_s
    while now_s + d < t_s:
        d = math.nextafter(d, math.inf)
    while now_s + d > t_s:
        d = math.nextafter(d, 0.0)
    return d


def at(env: simpy.Environment, t_s: float) -> simpy.Timeout:
    """An event at the instant."""
    return env.timeout(delay(env.now, t_s))


def call_at(env: simpy.Environment, t_s: float, action: Callable[[], None]) -> None:
    """Do something at an instant."""

    def waiting() -> Process:
        yield at(env, t_s)
        action()

    env.process(waiting())


def stream(seed: int, purpose: str, *key: str | int) -> np.random.Generator:
    """The generator of one purpose; no two purposes or keys share draws."""
    text = "/".join([purpose, *map(str, key)])
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
    )
