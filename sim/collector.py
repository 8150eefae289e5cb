"""Python's collector of cycles, at a pace that fits the engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000
"""New objects after which the collector looks at them; Python's own number is 700."""


@contextmanager
def collected_rarely() -> Iterator[None]:
    """While rounds are played.

    They make objects by the thousand, next to no cycles, and survivors enough that the collector
    goes over every worker again and again: a quarter of the time of a noisy job of 10,000.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < YOUNG:  # it is off, or another job's rounds are played beside these
        yield
        return
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
