"""Interpolation: exact on knots and for what is straight, never beyond the grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.interpolation import Scale, bracket, left_out, weights

KNOTS = st.lists(st.floats(0.01, 100), min_size=2, max_size=5, unique_by=lambda v: round(v, 3)).map(
    sorted
)
SCALE: st.SearchStrategy[Scale] = st.sampled_from(["linear", "log"])


@given(st.lists(st.tuples(KNOTS, SCALE), min_size=1, max_size=3), st.data())
def test_what_is_straight_on_every_axis_is_told_exactly(
    axes: list[tuple[list[float], Scale]], data: st.DataObject
) -> None:
    knots, scales = [axis for axis, _ in axes], [scale for _, scale in axes]
    at = [data.draw(st.floats(axis[0], axis[-1])) for axis in knots]
    slopes = data.draw(st.lists(st.floats(-3, 3), min_size=len(axes), max_size=len(axes)))

    def straight(place: list[float]) -> float:
        return 1 + math.fsum(
            slope * (math.log(v) if scale == "log" else v)
            for slope, v, scale in zip(slopes, place, scales, strict=True)
        )

    table = [straight(list(place)) for place in product(*knots)]
    corners = weights(knots, scales, at)
    assert corners is not None
    assert math.fsum(weight for _, weight in corners) == pytest.approx(1)
    assert all(0 < weight <= 1 for _, weight in corners)
    told = math.fsum(weight * table[flat] for flat, weight in corners)
    assert told == pytest.approx(straight(at), rel=1e-6, abs=1e-5)


@given(st.lists(KNOTS, min_size=1, max_size=3), st.data())
def test_a_knot_is_that_knot_alone(axes: list[list[float]], data: st.DataObject) -> None:
    place = [data.draw(st.integers(0, len(axis) - 1)) for axis in axes]
    flat = 0
    for axis, i in zip(axes, place, strict=True):
        flat = flat * len(axis) + i
    at = [axis[i] * (1 + 1e-12) for axis, i in zip(axes, place, strict=True)]
    assert weights(axes, ["linear"] * len(axes), at) == [(flat, 1.0)]


@given(KNOTS, SCALE, st.floats(1.001, 10))
def test_nothing_is_told_beyond_the_grid(knots: list[float], scale: Scale, by: float) -> None:
    assert bracket(knots, knots[0] / by, scale) is None
    assert bracket(knots, knots[-1] * by, scale) is None
    assert weights([knots, [1.0]], [scale, scale], [knots[0], 2.0]) is None


def test_an_inner_knot_is_left_out_and_told_from_its_neighbours() -> None:
    axes = [[1.0, 2.0, 4.0], [1.0, 10.0]]
    table = [0.0, 1.0, 10.0, 1.0, 40.0, 4.0]

    def told(axis: int, scale: Scale, values: Sequence[float | None]) -> dict[int, float]:
        return dict(left_out(axes, axis, scale, lambda flat: values[flat]))

    assert told(0, "linear", table) == pytest.approx({2: 40 / 3 / 10 - 1, 3: 2 / 1 - 1})
    assert told(0, "log", table) == pytest.approx({2: 1.0, 3: 1.5})
    assert told(1, "log", table) == {}
    assert told(0, "linear", [None, *table[1:]]) == pytest.approx({3: 1.0})


def test_a_grid_without_axes_is_one_point() -> None:
    assert weights([], [], []) == [(0, 1.0)]
