"""Means over seeds and how sure they are. Standard library only.

Arms of a study meet the same outages, data and initial weights seed by seed (common random
numbers), so what is compared are differences within a seed; an interval is over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95
"""Of every interval here."""
METHOD = "95 % intervals: Student's t over seeds, paired"


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and the half width of its 95 % interval."""

    mean: float
    half_width: float | None
    """None with a single value: nothing is known of the spread."""
    n: int

    @property
    def side(self) -> str:
        """Whether zero lies outside: `above`, `below`; or `level`, or `unknown` with one value."""
        if self.half_width is None:
            return "unknown"
        if abs(self.mean) <= self.half_width:
            return "level"
        return "above" if self.mean > 0 else "below"


def interval(values: Iterable[float]) -> Interval | None:
    """Mean and Student's t interval of independent values; None of none."""
    found = list(values)
    n = len(found)
    if not n:
        return None
    mean = math.fsum(found) / n
    if n == 1:
        return Interval(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in found) / (n - 1)
    return Interval(mean, t_quantile(LEVEL, n - 1) * math.sqrt(variance / n), n)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Interval | None:
    """The interval of first minus second, over the seeds that both have; None if there is none."""
    return interval(first[seed] - second[seed] for seed in first if seed in second)


def root_mean_square(values: Iterable[float]) -> float:
    """Spread of values whose mean is zero by design, such as repeats minus what they repeat."""
    found = list(values)
    return math.sqrt(math.fsum(value * value for value in found) / len(found))


@cache
def t_quantile(level: float, freedom: int) -> float:
    """t with P(|T| <= t) = level for Student's T with so many degrees of freedom.

    By bisection of the closed form for whole degrees of freedom, in theta = atan(t / sqrt(nu)):
    Abramowitz and Stegun 26.7.3 and 26.7.4.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _within(theta: float, freedom: int) -> float:
    """P(|T| <= sqrt(nu) tan(theta))."""
    sine, cosine = math.sin(theta), math.cos(theta)
    is_odd = freedom % 2
    term = cosine if is_odd else 1.0
    total = 0.0
    for k in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (theta + sine * total) if is_odd else sine * total
