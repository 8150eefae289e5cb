"""Random numbers that depend on what they are for, and on nothing drawn before them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; a number is never given to a second purpose."""

    INIT = 1
    BATCH = 2
    BASIS = 3
    TABLE = 4
    DROP = 5
    JITTER = 6


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The stream of (seed, purpose, key): equal arguments give equal draws, in any order."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))
