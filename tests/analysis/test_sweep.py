"""Reading a study: points, controls, what is missing; and study.json that cannot be one."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from functools import reduce
from operator import getitem, itemgetter
from pathlib import Path
from typing import Any

import pytest

from analysis import point_table, study_tables
from analysis.families import depths, families
from analysis.folders import AnalysisError, find
from analysis.load import without_timelines
from analysis.stats import Interval, interval
from analysis.sweep import PROBABILITY, Sweep, gap, sweep_of
from analysis.table import table
from tests.analysis.fake_study import IDLE, LENGTH, SKIP, FakeStudy


def swept(folder: Path) -> Sweep:
    found = sweep_of(find(folder))
    assert found is not None
    return found


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms that share a no-failure run, and one with its own; only to be read."""
    arms = {"skip": ("skip", SKIP), "idle": ("idle", IDLE), "shared": ("skip", SKIP)}
    made = FakeStudy(arms, rates=(0.4, 0.0, 0.05), offsets={"shared": 0.45}, global_steps=5)
    return made.write(tmp_path_factory.mktemp("runs") / "study")


def test_points_come_in_the_order_of_the_scenario(folder: Path) -> None:
    study = swept(folder)
    told = [(point.arm, point.parameters[PROBABILITY], len(point.done)) for point in study.points]
    assert told == [(arm, rate, 3) for arm in study.arms for rate in (0.4, 0.0, 0.05)]
    assert study.along == PROBABILITY
    assert [[p.parameters[PROBABILITY] for p in line.points] for line in study.series()] == [
        [0.0, 0.05, 0.4]
    ] * 3


def test_a_gap_is_paired_with_the_own_seed_s_no_failure_run(folder: Path) -> None:
    for point in swept(folder).points:
        for cell in point.cells:
            assert cell.entry is not None
            assert cell.healthy is not None
            assert cell.healthy.summary["seed"] == cell.seed
            difference = cell.entry.summary["val_loss"] - cell.healthy.summary["val_loss"]
            assert point.values()[cell.seed] == pytest.approx(difference, abs=1e-12)


def test_a_control_counts_once_where_arms_share_it(folder: Path) -> None:
    study = swept(folder)
    assert study.controls == ("noise", "depth")
    assert len([cell for cell in study.cells if cell.control == "noise"]) == 9
    assert len(study.control("noise")) == 6
    assert study.control("noise", "skip") == study.control("noise", "idle")
    skip, shared = (
        [gap(cell.entry.summary) for cell in study.control("noise", arm) if cell.entry]
        for arm in ("skip", "shared")
    )
    assert study.noise("skip") == max(abs(value or 0) for value in skip)
    assert study.noise() == max(abs(value or 0) for value in skip + shared)
    _, (family, depth) = depths(study)
    assert family.arms == ("shared",)
    assert depth.n == 3
    assert depth.mean == pytest.approx(0.12, abs=0.01)


def test_seeds_are_averaged_only_where_no_failure_runs_are_of_one_kind(tmp_path: Path) -> None:
    """A parameter that changes what is trained without failures has such runs of each value."""
    made = FakeStudy({"a": ("skip", SKIP), "b": ("skip", SKIP)}, rates=(0.05,), lengths=(2, 6),
                     offsets={"a": 0.0, "b": 0.4}, global_steps=2, noise=0.0)  # fmt: skip
    folder = made.write(tmp_path / "study")
    told = json.loads((folder / "study.json").read_text())
    for label, point in told["points"].items():  # as if arm b were the second length
        length = 2 if point["arm"] == "a" else 6
        is_kept = point["control"] is not None or point["parameters"][LENGTH] == length
        point |= {"arm": None, "parameters": point["parameters"] or {LENGTH: length}}
        told["cells"] |= {} if is_kept else {label: None}
    points = {k: v for k, v in told["points"].items() if told["cells"][k] is not None}
    cells = {k: told["cells"][k] for k in points}
    rewrite(folder, points=points, cells=cells, arms=[])
    study = swept(folder)
    found = families(study)
    assert [(f.named("all"), len(f.healthy), len(f.points)) for f in found] == [
        ("all, outage rounds 2", 3, 1),
        ("all, outage rounds 6", 3, 1),
    ]
    assert [depth.n for _, depth in depths(study)] == [3, 3]
    assert all((depth.half_width or 0) < 1e-9 for _, depth in depths(study))
    listing = without_timelines(find(folder))
    anchors, controls = (f(listing, study) for f in (study_tables.anchor_table,
                                                     study_tables.control_table))  # fmt: skip
    assert anchors is not None
    assert [row[0] for row in anchors.rows[:2]] == [
        "no failure: all, outage rounds 2",
        "no failure: all, outage rounds 6",
    ]
    assert float(anchors.rows[1][1]) - float(anchors.rows[0][1]) == pytest.approx(0.4, abs=0.002)
    assert controls is not None
    assert {row[3] for row in controls.rows} == {"3"}
    rows = study_tables.points_csv(study).splitlines()
    assert len(rows) == 1 + 2 + 2 * 3


def test_a_ranking_needs_an_interval_without_zero_and_more_than_noise(folder: Path) -> None:
    study = swept(folder)
    for one in point_table.differences(study):
        by_seed = [one.first.values()[seed] - one.second.values()[seed] for seed in (0, 1, 2)]
        assert one.told == interval(by_seed)
        told = abs(one.told.mean) > max(one.told.half_width or 0, one.noise)
        assert one.verdict.endswith(("ended lower", "has the lower gap")) == told
    verdicts = {
        (d.first.arm, d.second.arm, d.first.parameters[PROBABILITY]): d.verdict
        for d in point_table.differences(study)
    }
    assert verdicts["skip", "idle", 0.05] == "skip ended lower"
    # `shared` lost less to failures, and ended 0.3 above: its own no-failure run is as far up
    assert verdicts["idle", "shared", 0.4] == "shared has the lower gap"
    idle, shared = (p for p in study.points if p.arm in ("idle", "shared")
                    and p.parameters[PROBABILITY] == 0.4)  # fmt: skip
    assert (shared.mean(itemgetter("val_loss")) or 0) > (idle.mean(itemgetter("val_loss")) or 9)
    assert verdicts["skip", "shared", 0.05] == "no difference can be told"
    assert verdicts["skip", "idle", 0.0] == "no difference can be told"


@pytest.mark.parametrize(
    ("told", "noise", "side"),
    [
        (Interval(0.004, 0.001, 3), 0.005, "level"),
        (Interval(0.006, 0.001, 3), 0.005, "above"),
        (Interval(-0.006, 0.001, 3), None, "below"),
        (Interval(0.1, None, 1), 0.005, "unknown"),
    ],
)
def test_what_is_no_larger_than_repeats_is_level(told: Any, noise: Any, side: str) -> None:
    assert point_table.side(told, noise) == side


def test_two_parameters_make_a_line_of_each_other_value(tmp_path: Path) -> None:
    made = FakeStudy(rates=(0.05, 0.15), lengths=(2, 6), seeds=(0,), controls=(), global_steps=2)
    study = swept(made.write(tmp_path / "study"))
    assert study.numeric == (PROBABILITY, LENGTH)
    names = [f"{arm}, outage rounds {length}" for arm in ("skip", "idle") for length in (2, 6)]
    assert [line.name for line in study.series()] == names


def test_the_terminal_shows_points(folder: Path) -> None:
    lines = table(folder).splitlines()
    assert lines[0].split()[:6] == ["arm", "failure", "rate", "n", "gap", "±"]
    study = swept(folder)
    told = next(p for p in study.points if (p.arm, p.parameters[PROBABILITY]) == ("idle", 0.05))
    found = told.interval()
    assert found is not None
    row = next(line for line in lines if line.startswith("idle") and " 5 % " in line).split()
    assert row[3:6] == ["3", f"{found.mean:+.3f}", f"{found.half_width:.3f}"]
    assert lines[-2].startswith("(gap: to the own no-failure run of the same seed; 95 % intervals")
    assert lines[-1] == f"(repeats without failures differ by up to {study.noise():.3f})"


def test_missing_and_failed_cells_are_told(tmp_path: Path) -> None:
    made = FakeStudy(rates=(0.05,), global_steps=2, controls=())
    made.missing = ["idle, probability=0.05, seed 2"]
    made.failed = {"skip, probability=0.05, seed 1": "global step 7: not finite\x1b[31m"}
    text = table(made.write(tmp_path / "study"))
    assert "2 of 3" in text
    assert "(failed: skip, probability=0.05, seed 1: global step 7: not finite?[31m)" in text
    assert "(not finished, left out: idle, probability=0.05, seed 2)" in text


def test_a_run_without_a_gap_is_not_counted_in_its_interval(tmp_path: Path) -> None:
    """As where `stop` cuts the no-failure run before the last evaluation of the other."""
    made = FakeStudy({"skip": ("skip", SKIP)}, rates=(0.05,), controls=(), global_steps=1)
    folder = made.write(tmp_path / "study")
    run = json.loads((folder / "study.json").read_text())["cells"]["skip, probability=0.05, seed 1"]
    path = folder / run / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"val_loss_gap": None}))
    study = swept(folder)
    (point,) = study.points
    told = point.interval()
    assert told is not None
    assert told.n == 2
    assert point_table.runs_of(point) == "3, gap of 2"
    row = next(csv.DictReader(io.StringIO(study_tables.points_csv(study))))
    assert (row["n"], row["gap_n"], float(row["gap"])) == ("3", "2", told.mean)


def test_arms_of_one_seed_and_older_studies_are_no_sweep(tmp_path: Path, folder: Path) -> None:
    made = FakeStudy(rates=(), seeds=(0,), controls=(), global_steps=2).write(tmp_path / "study")
    assert sweep_of(find(made)) is None
    assert table(made).startswith("arm ")
    path = made / "study.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({key: told[key] for key in ("name", "cells", "baselines")}))
    assert sweep_of(find(made)) is None
    run = folder / json.loads((folder / "study.json").read_text())["cells"]["no_failure, seed 0"]
    assert sweep_of(find(run)) is None


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"points": []}, "points, parameters and failed must be maps"),
        ({"failed": []}, "points, parameters and failed must be maps"),
        ({"seeds": None}, "arms and seeds must be lists"),
        ({"until_half_width": "wide"}, "until_half_width must be a number or null"),
        ({"parameters": {"a": 1}}, "parameters.a must be a list"),
        ({"points": {"x": 3}}, "points.x: a map is expected"),
        ({"points": {"x": {"arm": 1}}}, "points.x: arm must be a name or null"),
        ({"points": {"x": {"arm": None}}}, "points.x: parameters must be a map"),
        ({"points": {"x": {"arm": None, "parameters": {}, "seed": True}}}, "seed must be a whole"),
        ({"points": {"x": {"arm": None, "parameters": {}, "seed": 0, "control": 1}}}, "control m"),
        ({"points": {"x": {"arm": None, "parameters": {}, "seed": 0, "control": None}}},
         "points.x: a value of each of outages.probability is expected"),
        ({"points": {"x": {"arm": None, "parameters": {"a": 1}, "seed": 0, "control": "noise"}}},
         "points.x: a 1 is not among the values of that parameter"),
        ({"baselines": {"x": []}}, "baselines must be names of run folders"),
        ({"seeds": []}, "seeds must be whole numbers, one at least"),
    ],
)  # fmt: skip
def test_a_broken_study(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    made = FakeStudy(rates=(0.05,), seeds=(0,), controls=(), global_steps=1)
    folder = made.write(tmp_path / "study")
    rewrite(folder, **changes)
    with pytest.raises(AnalysisError, match=rf"study\.json: .*{what}.* with --force"):
        sweep_of(find(folder))


ODD: tuple[Any, ...] = (None, True, -1, 1e308, "x", [], [[1]], {"a": 1})


def places(told: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything inside nested maps and lists."""
    whole = told if isinstance(told, dict) else dict(enumerate(told if type(told) is list else ()))
    for key, value in whole.items():
        yield (*at, key)
        yield from places(value, (*at, key))


@pytest.mark.parametrize("name", ["study.json", "summary.json"])
def test_a_folder_that_was_edited_by_hand_is_told_as_one(tmp_path: Path, name: str) -> None:
    """Whatever stands there instead of what was written, or is missing: no traceback."""
    made = FakeStudy(rates=(0.05, 0.4), seeds=(0,), controls=("noise",), global_steps=1)
    folder = made.write(tmp_path / "study")
    path = next(folder.rglob(name))
    text = path.read_text()
    for at in places(json.loads(text)):
        for odd in (*ODD, places):  # the last one: nothing
            told = json.loads(text)
            inner = reduce(getitem, at[:-1], told)
            if odd is places:
                del inner[at[-1]]
            else:
                inner[at[-1]] = odd
            path.write_text(json.dumps(told))
            with contextlib.suppress(AnalysisError):
                if (sweep := sweep_of(find(folder))) is not None:
                    point_table.text_of(sweep)
                    point_table.differences(sweep)
                    study_tables.points_csv(sweep)
