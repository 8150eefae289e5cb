"""Means and intervals against scipy, and against what an interval promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis.stats import Interval, interval, paired, root_mean_square, t_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 29, 30, 199, 200])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_quantile_is_scipy_s(level: float, freedom: int) -> None:
    expected = scipy_stats.t.ppf((1 + level) / 2, freedom)
    assert t_quantile(level, freedom) == pytest.approx(expected, rel=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12))
def test_an_interval_is_scipy_s(values: list[float]) -> None:
    found = interval(values)
    assert found is not None
    assert found.half_width is not None
    expected = scipy_stats.sem(values) * scipy_stats.t.ppf(0.975, len(values) - 1)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert found.half_width == pytest.approx(expected, abs=1e-9)
    assert found.n == len(values)


def test_a_paired_difference_is_scipy_s_paired_test() -> None:
    draws = np.random.default_rng(3).normal(size=(2, 6))
    first, second = (dict(enumerate(row.tolist())) for row in draws)
    found = paired(first, second)
    test = scipy_stats.ttest_rel(*draws).confidence_interval(0.95)
    assert found is not None
    assert found.half_width is not None
    assert found.mean - found.half_width == pytest.approx(test.low)
    assert found.mean + found.half_width == pytest.approx(test.high)


def test_only_seeds_that_both_have_are_paired() -> None:
    found = paired({0: 1.0, 1: 2.0, 5: 9.0}, {1: 1.5, 0: 0.5, 7: 100.0})
    assert found == Interval(0.5, 0.0, 2)
    assert paired({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_an_interval_holds_the_truth_19_times_in_20(seeds: int) -> None:
    """Also where a seed's own level, which all its runs share, is far larger than the noise."""
    rng = np.random.default_rng(seeds)
    trials, inside, width, unpaired_width = 4000, 0, 0.0, 0.0
    for _ in range(trials):
        first = rng.normal(0, 1.0, seeds) + rng.normal([[0.1], [0.0]], 0.05, (2, seeds))
        found = paired(*(dict(enumerate(row.tolist())) for row in first))
        alone = interval(first[0].tolist())
        assert found is not None
        assert alone is not None
        inside += abs(found.mean - 0.1) <= (found.half_width or 0)
        width += found.half_width or 0
        unpaired_width += alone.half_width or 0
    assert inside / trials == pytest.approx(0.95, abs=0.012)
    assert width < unpaired_width / 5


@pytest.mark.parametrize(
    ("told", "side"),
    [
        (Interval(0.1, 0.05, 3), "above"),
        (Interval(-0.1, 0.05, 3), "below"),
        (Interval(0.1, 0.1, 3), "level"),
        (Interval(0.0, 0.0, 3), "level"),
        (Interval(0.3, None, 1), "unknown"),
    ],
)
def test_on_which_side_of_zero(told: Interval, side: str) -> None:
    assert told.side == side


def test_few_values() -> None:
    assert interval([]) is None
    assert interval([0.25]) == Interval(0.25, None, 1)
    assert root_mean_square([3.0, -4.0]) == pytest.approx(math.sqrt(12.5))
