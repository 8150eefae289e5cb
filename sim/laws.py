"""Laws of durations, through their inverse CDFs: one uniform draw, one duration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Law(Protocol):
    """A distribution of seconds."""

    @property
    def mean(self) -> float:
        """Mean in seconds."""
        ...

    def quantile(self, u: float) -> float:
        """Seconds below which a share u in [0, 1) of the draws lies."""
        ...


@dataclass(frozen=True)
class Exponential:
    """Memoryless: -mean ln(1 - u)."""

    mean: float

    def __post_init__(self) -> None:
        if not self.mean > 0:
            raise ValueError(f"the mean must be above 0 s (got {self.mean})")

    def quantile(self, u: float) -> float:
        return -self.mean * math.log1p(-u)


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    mean: float

    def __post_init__(self) -> None:
        if not self.mean > 0:
            raise ValueError(f"a fixed duration must be above 0 s (got {self.mean})")

    def quantile(self, u: float) -> float:
        return self.mean
