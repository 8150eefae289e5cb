"""Laws: the inverse CDF, its mean, and what cannot be a law."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sim.clock import stream
from sim.durations import Duration, ExponentialLaw, law
from sim.laws import Empirical, Exponential, Fixed, Law, LogNormal, Weibull

SEEN = Empirical((4.0, 0.5, 1.0, 1.0))
LAWS = [
    Exponential(3.0),
    Exponential(1e-3),
    Fixed(2.5),
    Weibull(2.0, 1.5),
    Weibull.of_mean(3.0, 0.7),
    LogNormal(3.0, 1.0),
    SEEN,
]
shares = st.floats(0.0, 1.0, exclude_max=True)


@pytest.mark.parametrize("a_law", LAWS, ids=str)
def test_the_mean_is_the_mean_of_the_quantiles(a_law: Law) -> None:
    u = (np.arange(100_000) + 0.5) / 100_000
    assert np.mean([a_law.quantile(x) for x in u]) == pytest.approx(a_law.mean, rel=1e-3)


@pytest.mark.parametrize("a_law", LAWS, ids=str)
@given(shares, shares)
def test_quantiles_are_finite_and_ascend(a_law: Law, u: float, v: float) -> None:
    low, high = a_law.quantile(min(u, v)), a_law.quantile(max(u, v))
    assert 0 <= low <= high < math.inf


@given(st.floats(1e-3, 1e6), shares)
def test_exponential_quantile_inverts_the_cdf(mean: float, u: float) -> None:
    assert -math.expm1(-Exponential(mean).quantile(u) / mean) == pytest.approx(u, abs=1e-12)


def test_exponential_median() -> None:
    assert Exponential(10.0).quantile(0.5) == pytest.approx(10 * math.log(2))


@pytest.mark.parametrize("mean", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("kind", [Exponential, Fixed])
def test_a_law_without_a_length_cannot_exist(kind: type, mean: float) -> None:
    with pytest.raises(ValueError, match="must be above 0 s"):
        kind(mean)


def test_a_law_of_a_scenario_is_in_seconds() -> None:
    assert law(2.0, 3600.0) == Fixed(7200.0)
    assert law(ExponentialLaw(mean=0.5), 3600.0) == Exponential(1800.0)
    assert law(as_told(law="weibull", mean=2.0, shape=0.5), 60.0) == Weibull(60.0, 0.5)
    assert law(as_told(law="weibull", scale=2.0, shape=0.5), 60.0) == Weibull(120.0, 0.5)
    assert law(as_told(law="lognormal", mean=2.0, sigma=0.5), 60.0) == LogNormal(120.0, 0.5)
    assert law(as_told(law="empirical", values=[2, 1]), 60.0) == Empirical((120.0, 60.0))


DURATION: TypeAdapter[Duration] = TypeAdapter(Duration)


def as_told(**keys: object) -> Duration:
    return DURATION.validate_python(keys)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"law": "weibull", "shape": 1.0}, "exactly one of mean and scale"),
        ({"law": "weibull", "shape": 1.0, "mean": 1.0, "scale": 1.0}, "exactly one of mean"),
        ({"law": "weibull", "mean": 1.0, "shape": 0.0}, "greater than or equal to 0.1"),
        ({"law": "lognormal", "mean": 1.0, "sigma": 0.0}, "greater than 0"),
        ({"law": "lognormal", "mean": 1.0, "shape": 1.0}, "sigma"),
        ({"law": "empirical", "values": []}, "at least 1"),
        ({"law": "empirical", "values": [1.0, 0.0]}, "greater than 0"),
        ({"law": "normal", "mean": 1.0}, "'exponential', 'weibull', 'lognormal', 'empirical'"),
    ],
)
def test_a_law_that_cannot_be_is_refused(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        as_told(**keys)


@given(st.floats(0.1, 10.0), st.floats(0.3, 5.0), st.floats(1e-9, 1 - 1e-9))
def test_weibull_quantile_inverts_the_cdf(scale: float, shape: float, u: float) -> None:
    t = Weibull(scale, shape).quantile(u)
    assert -math.expm1(-((t / scale) ** shape)) == pytest.approx(u, rel=1e-9)


@given(st.floats(0.1, 10.0), st.floats(0.1, 3.0), st.floats(1e-9, 1 - 1e-9))
def test_lognormal_quantile_inverts_the_cdf(mean: float, sigma: float, u: float) -> None:
    z = math.log(LogNormal(mean, sigma).quantile(u) / mean) / sigma + sigma / 2
    assert NormalDist().cdf(z) == pytest.approx(u, rel=1e-6)


def test_special_cases_of_the_laws() -> None:
    assert Weibull(5.0, 1.0).quantile(0.3) == pytest.approx(Exponential(5.0).quantile(0.3))
    assert LogNormal(5.0, 2.0).quantile(0.5) == pytest.approx(5.0 * math.exp(-2.0))
    assert [SEEN.quantile(u) for u in (0.0, 0.25, 0.5, 0.75, 0.999)] == [0.5, 1.0, 1.0, 4.0, 4.0]


@pytest.mark.parametrize("a_law", LAWS, ids=str)
def test_validation_08_draws_follow_their_law(a_law: Law) -> None:
    """Kolmogorov-Smirnov of 2,000 draws of a stream, at 1/1000."""
    drawn = np.sort([a_law.quantile(u) for u in stream(3, "worker", "a", 0).random(2000)])
    steps = np.unique(drawn)
    below = np.array([cdf(a_law, t, side="left") for t in steps])
    upto = np.array([cdf(a_law, t, side="right") for t in steps])
    gap = max(
        np.abs(np.searchsorted(drawn, steps, "left") / 2000 - below).max(),
        np.abs(np.searchsorted(drawn, steps, "right") / 2000 - upto).max(),
    )
    assert gap < 1.95 / math.sqrt(2000)


def cdf(a_law: Law, t: float, side: Literal["left", "right"]) -> float:
    """P(T < t) or P(T <= t), from the textbook and not from the quantile."""
    if isinstance(a_law, Exponential):
        return -math.expm1(-t / a_law.mean)
    if isinstance(a_law, Weibull):
        return -math.expm1(-((t / a_law.scale) ** a_law.shape))
    if isinstance(a_law, LogNormal):
        mu = math.log(a_law.mean) - a_law.sigma**2 / 2
        return (1 + math.erf((math.log(t) - mu) / (a_law.sigma * math.sqrt(2)))) / 2
    seen = a_law.values if isinstance(a_law, Empirical) else (a_law.mean,)
    return float(np.searchsorted(np.sort(seen), t, side)) / len(seen)
