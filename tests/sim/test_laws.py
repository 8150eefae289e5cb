"""Laws: the inverse CDF, its mean, and what cannot be a law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.config import ExponentialLaw, law
from sim.laws import Exponential, Fixed, Law

LAWS = [Exponential(3.0), Exponential(1e-3), Fixed(2.5)]
shares = st.floats(0.0, 1.0, exclude_max=True)


@pytest.mark.parametrize("a_law", LAWS, ids=str)
def test_the_mean_is_the_mean_of_the_quantiles(a_law: Law) -> None:
    u = (np.arange(100_000) + 0.5) / 100_000
    assert np.mean([a_law.quantile(x) for x in u]) == pytest.approx(a_law.mean, rel=1e-4)


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
