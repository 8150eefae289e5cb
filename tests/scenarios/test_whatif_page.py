"""The what-if page in a browser: its script says what the Python says, and asks for nothing."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.whatif import answers, read_all, turned, write_whatif
from analysis.whatif_grid import Grid
from tests.analysis.fake_study import FakeStudy
from tests.chromium import PROGRAM, Page
from tests.scenarios.whatif_study import FREE


def test_the_page_is_one_file_that_asks_for_nothing(study: Path) -> None:
    text = write_whatif(study).read_text()
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)=\"(?!#)", text)
    assert not re.findall(r"url\(|@import|fetch\(|innerHTML|eval\(", text)
    assert write_whatif(study).read_text() == text


SHOWN = """[...document.querySelectorAll('#options tr')].map(row => [row.dataset.option,
  Object.fromEntries([...row.querySelectorAll('[data-key]')].map(cell =>
    [cell.dataset.key, cell.dataset.value === undefined ? null : Number(cell.dataset.value)]))])"""


def settings(grid: Grid) -> list[list[str]]:
    """Twenty settings of the knobs: on the grid, between, and one outside."""
    draw = np.random.default_rng(0)
    knots = [[axis.knots[draw.integers(3)] for axis in grid.axes] for _ in range(9)]
    between = [[float(draw.uniform(a.knots[0], a.knots[-1])) for a in grid.axes] for _ in range(10)]
    found = []
    for at in [*knots, *between, [0.1, 0.1]]:
        near, fixed, store, month = draw.uniform(0, 3, 4).round(3).tolist()
        found.append([
            *(f"{axis.knob}={value!r}" for axis, value in zip(grid.axes, at, strict=True)),
            f"usd_per_h.near={near}", f"usd_per_h.fixed={fixed}",
            f"usd_per_gb.store={store / 30}", f"usd_per_gb_month={month}",
        ])  # fmt: skip
    return found


@pytest.mark.skipif(PROGRAM is None, reason="no chromium on this machine")
def test_the_page_says_what_python_says(study: Path, grid: Grid, tmp_path: Path) -> None:
    losses = FakeStudy(noise=0.0, controls=(), lengths=(1, 60), seeds=(0,)).write(tmp_path)
    trained = read_all(study, losses)[1]
    with Page(write_whatif(study, losses)) as page:
        for knobs in [*settings(grid), FREE]:
            _go(page, "&".join(knobs))
            told = answers(grid, trained, turned(grid, knobs))
            _same(page.evaluate("last"), told)
            rows = {row["name"]: row for row in told["options"]}
            shown = page.evaluate(SHOWN)
            assert len(shown) == len(rows)
            for name, cells in shown:
                for key in ("usd_per_mtok", "hours_per_gtok", "usd", "hours") if cells else ():
                    assert cells[key] == pytest.approx(rows[name][key], rel=1e-6)
            lines = page.evaluate("[...document.querySelectorAll('#sentences p')]"
                                  ".map(line => line.textContent)")  # fmt: skip
            assert lines == told["sentences"]
        for hostile in HOSTILE:
            _go(page, hostile)
            assert (
                page.evaluate("last.sentences")
                == answers(grid, trained, turned(grid, []))["sentences"]
            )
            assert page.evaluate("location.hash") == ""
        _knobs_work(page, lambda knobs: answers(grid, trained, turned(grid, knobs)))
        assert page.requests == [page.url]
        assert page.complaints == []


def _go(page: Page, fragment: str) -> None:
    """Another fragment in the page's address, and what the page makes of it."""
    page.evaluate(
        f"new Promise(go => {{ addEventListener('hashchange', () => setTimeout(go), "
        f"{{once: true}}); location.hash = {json.dumps(fragment)} }})"
    )


HOSTILE = (
    "losses_per_h=NaN&spot=1e999&usd_per_h.near=1e308&usd_per_h.far=-1",
    "usd_per_h.near=1e-320&usd_per_h.far=%20&usd_per_gb_month=Infinity",
    "a=<script>alert(1)</script>&hide=<img src=x onerror=alert(1)>&__proto__=1&toString=2",
)
"""Fragments of which nothing is a setting."""


def _same(page: dict[str, Any], told: dict[str, Any]) -> None:
    """All answers agree to six digits."""
    for key in ("front", "front_without_loss", "pair", "sentences"):
        assert page[key] == told[key], key
    for one, other in zip(page["options"], told["options"], strict=True):
        shared = one.keys() & other.keys()
        assert shared >= {"name", "known"}
        for key in shared:
            assert _close(one[key], other[key]), (key, one[key], other[key])
    assert _close(page["even"], told["even"]), (page["even"], told["even"])
    swings = [{driver["knob"]: driver["swing"] for driver in of["drivers"]} for of in (page, told)]
    assert swings[0] == pytest.approx(swings[1], rel=1e-6, abs=1e-12)


def _close(one: Any, other: Any) -> bool:
    if isinstance(other, dict):
        return bool(one.keys() == other.keys()) and all(_close(one[k], other[k]) for k in other)
    if isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(other, float) and one is not None:
        return bool(one == pytest.approx(other, rel=1e-6, abs=1e-12))
    return bool(one == other)


def _knobs_work(page: Page, answered: Callable[[list[str]], dict[str, Any]]) -> None:
    """A slider, a number, a filter: the address follows, and the file that is downloaded."""
    page.evaluate("byId('reset').click()")
    page.evaluate("(k => { k.range.value = 1000; k.range.dispatchEvent(new Event('input')) })"
                  "(KNOBS[0])")  # fmt: skip
    _keys_leave_a_knot(page)
    page.evaluate("(k => { k.number.value = '4.5'; k.number.dispatchEvent(new Event('input')) })"
                  "(KNOBS.find(k => k.id === 'usd_per_h.fixed'))")  # fmt: skip
    told = answered(["losses_per_h=2", "usd_per_h.fixed=4.5"])
    _same(page.evaluate("last"), told)
    assert page.evaluate("location.hash") == "#losses_per_h=2&usd_per_h.fixed=4.5"
    page.evaluate("document.querySelector('[data-hide=\"market spot\"]').click()")
    assert "spot" not in page.evaluate("last.sentences[0].split(' ')[0]")
    text = page.evaluate("decodeURIComponent(byId('csv').href.split(',').slice(1).join(','))")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == ["mix-skip", "fixed-wait"]
    costs = {row["name"]: row["usd_per_mtok"] for row in told["options"]}
    for row in rows:
        assert float(row["usd_per_mtok"]) == pytest.approx(costs[row["name"]])
        assert float(row["usd_per_h.fixed"]) == 4.5


def _keys_leave_a_knot(page: Page) -> None:
    """An arrow moves a slider by less than what a value is rounded by, and gets on all the same."""
    for label, start in (("losses of a spot", 2.0), ("fixed", 3.06)):
        slider = f"document.querySelector('input[type=range][aria-label^=\"{label}\"]')"
        value = f"KNOBS.find(k => k.range === {slider}).get()"
        page.evaluate(f"{slider}.focus()")
        assert page.evaluate(value) == start
        for _ in range(20):
            page.press("ArrowLeft", 37)
        assert page.evaluate(value) < 0.99 * start
        for _ in range(20):
            page.press("ArrowRight", 39)
        assert page.evaluate(value) == pytest.approx(start, rel=0.01)
