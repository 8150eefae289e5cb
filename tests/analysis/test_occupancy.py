"""Binning and mixing the timeline: every second is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.load import STATES, load
from analysis.occupancy import HELD_UP, OUT, by_round, seconds_by_bin, shares
from analysis.timeline import mixed


@st.composite
def timelines(draw: st.DrawFn) -> tuple[pd.DataFrame, float]:
    """Slots whose spells tile [0, wall_s]."""
    wall_s = draw(st.floats(0.5, 1e7))
    rows = []
    for slot in range(draw(st.integers(1, 4))):
        inner = draw(st.lists(st.floats(0, 1), max_size=6))
        cuts = [0.0, *sorted(cut * wall_s for cut in inner), wall_s]
        for a, b in pairwise(cuts):
            rows.append((slot, 0, draw(st.sampled_from(STATES)), a, b))
    columns = ["replica", "stage", "state", "start_s", "end_s"]
    return pd.DataFrame(rows, columns=columns), wall_s


@given(timelines(), st.integers(1, 50), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_bins_keep_every_second(timeline: tuple[pd.DataFrame, float], bins: int, rows: int) -> None:
    slots, wall_s = timeline
    count = slots["replica"].nunique()
    row = slots["replica"].to_numpy() * rows // count
    seconds = seconds_by_bin(slots, row, rows, wall_s, bins)
    slack = 1e-9 * wall_s
    assert seconds.min() >= -slack
    length = slots["end_s"] - slots["start_s"]
    for k, state in enumerate(STATES):
        expected = length[slots["state"] == state].sum()
        assert seconds[:, k].sum() == pytest.approx(expected, abs=slack)
    in_bin = seconds.sum(axis=1)
    width = wall_s / bins * np.bincount(np.arange(count) * rows // count, minlength=rows)
    np.testing.assert_allclose(in_bin, np.broadcast_to(width[:, None], in_bin.shape), atol=slack)
    told = shares(slots)
    assert sum(told.values()) == pytest.approx(1.0)


def test_a_spell_is_split_at_the_edges_of_bins() -> None:
    slots = pd.DataFrame(
        [("train", 0.0, 2.5), ("vacant", 2.5, 3.0), ("wait", 3.0, 4.0)],
        columns=["state", "start_s", "end_s"],
    )
    seconds = seconds_by_bin(slots, np.zeros(3, dtype=np.int64), 1, 4.0, 2)[0]
    found = {state: list(seconds[k]) for k, state in enumerate(STATES) if seconds[k].any()}
    assert found == {"train": [2.0, 0.5], "vacant": [0.0, 0.5], "wait": [0.0, 1.0]}


def test_a_pixel_is_the_mean_colour_of_what_it_covers() -> None:
    seconds = np.zeros((1, len(STATES), 3))
    seconds[0, STATES.index("train"), :2] = [4.0, 2.0]
    seconds[0, STATES.index("vacant"), 1] = 2.0
    picture = mixed(seconds)
    pure, half, nothing = picture[0]
    assert half == pytest.approx((pure + _colour("vacant")) / 2)
    assert list(nothing) == [1.0, 1.0, 1.0]


def _colour(state: str) -> Any:
    seconds = np.zeros((1, len(STATES), 1))
    seconds[0, STATES.index(state)] = 1.0
    return mixed(seconds)[0, 0]


@pytest.mark.parametrize("most", [1, 7, 30, 480])
def test_rounds_put_together_keep_their_share(
    study: Callable[..., Path], three: Any, most: int
) -> None:
    run = load(study(three(global_steps=30))).runs[2]
    edges_s, share = by_round(run.steps, OUT + HELD_UP, most)
    assert len(share) == min(most, 30)
    assert edges_s[0] == 0
    assert edges_s[-1] == run.wall_s
    told = run.summary["slot_s"]
    expected = sum(told[key] for key in OUT + HELD_UP)
    slots = run.summary["replicas"] * run.summary["stages"]
    assert (share * np.diff(edges_s)).sum() * slots == pytest.approx(expected)


def test_a_million_rows_are_quick() -> None:
    count = 1_000_000
    start = np.tile(np.arange(count // 100, dtype=float), 100)
    slots = pd.DataFrame({
        "state": pd.Categorical.from_codes(np.arange(count) % len(STATES), list(STATES)),
        "start_s": start,
        "end_s": start + 1,
    })  # fmt: skip
    row = np.repeat(np.arange(100), count // 100)
    seconds = seconds_by_bin(slots, row, 100, count / 100, 400)
    assert seconds.sum() == pytest.approx(count)
