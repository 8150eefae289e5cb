"""Shocks on the timeline: told from outages.parquet alone."""

from __future__ import annotations

import math

import pandas as pd

from analysis import style
from analysis.shocks import TOLD, Shock, mark, shocks

OUTAGES = pd.DataFrame(
    [
        (3, "b", 50.0, 400.0, "shock"),
        (0, "a", 50.0, math.nan, "shock"),
        (1, "a", 50.0, 290.0, "shock"),
        (2, "a", 50.0, 170.0, "shock"),
        (1, "a", 300.0, 301.0, "law"),
        (2, "a", 900.0, 1100.0, "shock"),
        (2, "a", 1200.0, 1300.0, "shock"),
    ],
    columns=["worker", "zone", "gone_s", "back_s", "cause"],
)


def test_workers_of_a_zone_that_go_at_one_instant_are_one_shock() -> None:
    found = shocks(OUTAGES, wall_s=1000.0)
    assert found[:2] == [Shock("a", 50.0, 3, 170.0), Shock("b", 50.0, 1, 400.0)]
    assert found[2][:3] == ("a", 900.0, 1)
    assert math.isnan(found[2].first_back_s), "after the end of the run"
    assert len(found) == 3


def test_a_shock_in_words() -> None:
    assert Shock("a", 0.0, 6, 1200.0).words() == (
        "shock: a loses 6 workers, none is back for 20 min"
    )
    assert (
        Shock("a", 0.0, 1, math.nan).words() == "shock: a loses 1 worker, none is back by the end"
    )


def test_few_are_told_and_all_are_marked() -> None:
    for count, lines in ((0, 0), (2, 2), (TOLD, TOLD), (TOLD + 1, 0)):
        with style.paper():
            axes = style.new_figure(6, 2, "").subplots()
            found = [Shock("a", 100.0 * k, 2, math.nan) for k in range(count)]
            assert mark(axes, found, 1.0, 1000.0) == lines
            assert (len(axes.lines), len(axes.texts)) == (count, lines)
