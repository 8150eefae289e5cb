"""Laws of durations that are partly seen: maximum likelihood by scipy, AIC, intervals, survival.

A duration is whole, or censored: it was still going on, or its start was not seen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
CONFIDENCE = 0.95
FEWEST = 5
"""Whole durations below which a law of two parameters is not fitted."""
LEAST, MOST = {"shape": 0.1, "sigma": 1e-3}, {"shape": 100.0, "sigma": 10.0}
"""What a scenario may say: a law that is narrower is told as the narrowest, one that is wider
is another law."""
STEP = 1e-3
"""Of the numerical second derivative, in logarithms of the parameters."""


@dataclass(frozen=True)
class Durations:
    """Hours; those of no length are left out, since no law here has them."""

    whole: Array
    censored: Array

    @staticmethod
    def of(whole: Sequence[float], censored: Sequence[float]) -> Durations:
        """From hours in any order."""
        kept = [np.array([h for h in hours if h > 0.0]) for hours in (whole, censored)]
        return Durations(*kept)

    @property
    def rate(self) -> float:
        """Ends per hour: the exponential's estimate."""
        return len(self.whole) / float(self.whole.sum() + self.censored.sum())

    def for_scipy(self) -> stats.CensoredData:
        return stats.CensoredData(uncensored=self.whole, right=self.censored)


@dataclass(frozen=True)
class Family:
    """A law of which a scenario can tell: scipy's distribution, and its parameters by name."""

    name: str
    distribution: Any
    names: tuple[str, ...]
    """Of the parameters that are fitted, in the order of their logarithms."""
    shapes: Callable[..., dict[str, float]]
    """Parameters -> arguments of the distribution."""
    read: Callable[[Sequence[float]], tuple[float, ...]]
    """What scipy's `fit` returns -> parameters."""


FAMILIES = (
    Family("exponential", stats.expon, ("mean",), lambda m: {"scale": m}, lambda f: (f[1],)),
    Family(
        "weibull",
        stats.weibull_min,
        ("scale", "shape"),
        lambda scale, shape: {"c": shape, "scale": scale},
        lambda f: (f[2], f[0]),
    ),
    Family(
        "lognormal",
        stats.lognorm,
        ("median", "sigma"),
        lambda median, sigma: {"s": sigma, "scale": median},
        lambda f: (f[2], f[0]),
    ),
)


@dataclass(frozen=True)
class Fitted:
    """A law with its parameters; hours."""

    family: Family
    parameters: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    log_likelihood: float

    @property
    def aic(self) -> float:
        return 2 * len(self.parameters) - 2 * self.log_likelihood

    @property
    def mean(self) -> float:
        """Infinite where it is too large to be told."""
        with np.errstate(all="ignore"):
            return float(self.family.distribution.mean(**self.family.shapes(*self.parameters)))

    @property
    def is_too_wide(self) -> bool:
        """Whether no scenario can tell it."""
        told = dict(zip(self.family.names, self.parameters, strict=True))
        return told.get("shape", math.inf) < LEAST["shape"] or (
            told.get("sigma", 0.0) > MOST["sigma"]
        )

    def survival(self, hours: Array) -> Array:
        """P(longer)."""
        arguments = self.family.shapes(*self.parameters)
        with np.errstate(all="ignore"):
            return np.asarray(self.family.distribution.sf(hours, **arguments))

    def told(self) -> dict[str, Any]:
        """As JSON."""
        names = self.family.names
        return {
            "law": self.family.name,
            **dict(zip(names, self.parameters, strict=True)),
            "mean": known(self.mean),
            "interval_95": {
                name: [known(low), known(high)]
                for name, low, high in zip(names, self.low, self.high, strict=True)
            },
            "aic": self.aic,
        }

    def block(self) -> dict[str, Any]:
        """As a scenario tells it."""
        if self.family.name == "exponential":
            return {"law": "exponential", "mean": self.mean}
        name = self.family.names[1]
        value = min(max(self.parameters[1], LEAST[name]), MOST[name])
        return {"law": self.family.name, "mean": self.mean, name: value}


def log_likelihood(family: Family, logs: Sequence[float], seen: Durations) -> float:
    """Of parameters told by their logarithms: densities of whole, survival of censored ones."""
    arguments = family.shapes(*(math.exp(x) for x in logs))
    whole = family.distribution.logpdf(seen.whole, **arguments).sum()
    return float(whole + family.distribution.logsf(seen.censored, **arguments).sum())


def fit_law(family: Family, seen: Durations) -> Fitted:
    """Maximum likelihood, and intervals from the observed information in the logarithms.

    Raises:
        ValueError: there are fewer whole durations than parameters.
    """
    if len(seen.whole) < len(family.names):
        raise ValueError(f"{len(seen.whole)} whole durations are too few for a law")
    if family.name == "exponential":
        found: tuple[float, ...] = (1 / seen.rate,)
    else:
        found = family.read(family.distribution.fit(seen.for_scipy(), floc=0))
    logs = [math.log(value) for value in found]
    half = stats.norm.ppf((1 + CONFIDENCE) / 2) * _deviations(family, logs, seen)
    return Fitted(
        family=family,
        parameters=tuple(float(value) for value in found),
        low=tuple(float(value) for value in np.exp(logs - half)),
        high=tuple(float(value) for value in np.exp(logs + half)),
        log_likelihood=log_likelihood(family, logs, seen),
    )


def _deviations(family: Family, logs: Sequence[float], seen: Durations) -> Array:
    """Standard errors of the logarithms: root of the diagonal of the inverse information."""
    count = len(logs)
    information = np.zeros((count, count))

    def at(*moves: tuple[int, float]) -> float:
        moved = list(logs)
        for k, step in moves:
            moved[k] += step
        return log_likelihood(family, moved, seen)

    for i in range(count):
        for j in range(count):
            corners = [a * b * at((i, a * STEP), (j, b * STEP)) for a in (1, -1) for b in (1, -1)]
            information[i, j] = -sum(corners) / (4 * STEP * STEP)
    with np.errstate(invalid="ignore"):
        found: Array = np.sqrt(np.diag(np.linalg.pinv(information)))
    return found


def fit_laws(seen: Durations) -> list[Fitted]:
    """Every law that there are enough durations for, the best by AIC first."""
    if not len(seen.whole):
        return []
    families = FAMILIES if len(np.unique(seen.whole)) >= FEWEST else FAMILIES[:1]
    found = []
    for family in families:
        with suppress(stats.FitError), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # durations that are almost equal
            found.append(fit_law(family, seen))  # FitError: no maximum inside
    return sorted(found, key=lambda law: law.aic)


def best(laws: Sequence[Fitted]) -> Fitted | None:
    """The best by AIC that a scenario can tell."""
    return next((law for law in laws if not law.is_too_wide), None)


def known(value: float) -> float | None:
    """A number for JSON; None: not known, or too large."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Survival:
    """Kaplan and Meier's estimate: a step at each whole duration."""

    hours: Array
    share: Array
    low: Array
    high: Array


def survival(seen: Durations) -> Survival:
    """P(longer than t), with pointwise 95 % intervals (log-log)."""
    found = stats.ecdf(seen.for_scipy()).sf
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # none where nobody or everybody is left
        interval = found.confidence_interval(CONFIDENCE, method="log-log")
    return Survival(
        found.quantiles,
        found.probabilities,
        interval.low.probabilities,
        interval.high.probabilities,
    )


def hazard(seen: Durations, bins: int = 8) -> list[tuple[float, float, int, float]]:
    """(from, to, ends, hours at risk) between quantiles of the whole durations."""
    if not len(seen.whole):
        return []
    edges = np.unique(np.quantile(seen.whole, np.linspace(0, 1, bins + 1)))
    edges[0] = 0.0
    every = np.concatenate([seen.whole, seen.censored])
    rows = []
    for low, high in pairwise(edges):
        ends = int(((seen.whole > low) & (seen.whole <= high)).sum())
        at_risk = float(np.clip(every, low, high).sum() - low * len(every))
        rows.append((float(low), float(high), ends, at_risk))
    return rows
