"""Laws of durations, through their inverse CDFs: one uniform draw, one duration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Protocol

NORMAL = NormalDist()


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


@dataclass(frozen=True)
class Weibull:
    """scale (-ln(1 - u))^(1/shape); mean scale Gamma(1 + 1/shape)."""

    scale: float
    shape: float

    def __post_init__(self) -> None:
        if not (self.scale > 0 and self.shape > 0):
            raise ValueError(
                f"scale and shape must be above 0 s and 0 (got {self.scale}, {self.shape})"
            )

    @classmethod
    def of_mean(cls, mean: float, shape: float) -> Weibull:
        """The one with this mean."""
        return cls(mean / math.gamma(1 + 1 / shape), shape)

    @property
    def mean(self) -> float:
        return self.scale * math.gamma(1 + 1 / self.shape)

    def quantile(self, u: float) -> float:
        return float(self.scale * (-math.log1p(-u)) ** (1 / self.shape))


@dataclass(frozen=True)
class LogNormal:
    """exp(mu + sigma z(u)) with mu = ln mean - sigma^2 / 2."""

    mean: float
    sigma: float

    def __post_init__(self) -> None:
        if not (self.mean > 0 and self.sigma > 0):
            raise ValueError(
                f"mean and sigma must be above 0 s and 0 (got {self.mean}, {self.sigma})"
            )

    def quantile(self, u: float) -> float:
        if u <= 0:
            return 0.0
        return self.mean * math.exp(self.sigma * (NORMAL.inv_cdf(u) - self.sigma / 2))


@dataclass(frozen=True)
class Empirical:
    """Durations that were seen, each as likely as any other."""

    values: tuple[float, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.values or not min(self.values) > 0:
            raise ValueError("an empirical law needs values, all of them above 0 s")

    @cached_property
    def _ascending(self) -> list[float]:
        return sorted(self.values)

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    def quantile(self, u: float) -> float:
        return self._ascending[int(u * len(self.values))]
