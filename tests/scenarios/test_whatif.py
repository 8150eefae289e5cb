"""What-if: engine runs priced, interpolated and told."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.bill import outcome, scenario_setting
from analysis.breakeven import Rated, even_along, even_spot_factor, front
from analysis.folders import AnalysisError
from analysis.whatif import answers, read_all, turned, write_whatif
from analysis.whatif_grid import Grid, read_grid
from scenarios.cli import app
from tests.analysis.fake_study import FakeStudy
from tests.scenarios.whatif_study import FREE, RATES, simulate


def test_a_point_of_the_grid_is_the_engines_own_bill(study: Path, grid: Grid) -> None:
    told = json.loads((study / "study.json").read_text())
    summaries: dict[Any, list[Any]] = {}
    for cell, folder in told["cells"].items():
        point = told["points"][cell]
        if point["control"] is None:
            key = (point["arm"], *point["parameters"].values())
            summaries.setdefault(key, []).append(
                json.loads((study / folder / "summary.json").read_text())
            )
    assert len(summaries) == 5 * 9
    for (arm, *at), runs in summaries.items():
        setting = replace(scenario_setting(grid), at=tuple(at))
        found = outcome(grid, grid.option(arm), setting)
        assert found is not None
        for item, keys in {
            "compute": ("near", "far", "fixed"),
            "egress": ("egress stages", "egress store", "egress replicas"),
            "storage": ("storage",),
        }.items():
            usd = np.mean([run["usd"][item] for run in runs])
            assert sum(found.usd_by[key] for key in keys) == pytest.approx(usd, rel=1e-9)
        assert found.hours == pytest.approx(np.mean([run["wall_s"] for run in runs]) / 3600)
        cost = np.mean([run["usd_per_million_tokens"] for run in runs])
        assert found.usd_per_mtok == pytest.approx(cost, rel=1e-9)
        hours = [run["wall_s"] / 3600 for run in runs]
        assert found.hours_p == pytest.approx(np.percentile(hours, (10, 50, 90)))


@pytest.mark.parametrize("at", [(0.7, 0.1), (1.6, 0.15)])
def test_between_points_fresh_runs_lie_within_the_stated_error(
    at: tuple[float, float], grid: Grid, tmp_path: Path
) -> None:
    values = f"{{pools.*ar.losses_per_h: [{at[0]}], pools.*ar.mean_outage_h: [{at[1]}]}}"
    fresh, _ = read_all(simulate(tmp_path, f"sweep.parameters={values}"), None)
    found = answers(grid, (), replace(scenario_setting(grid), at=at))
    for row in found["options"]:
        there = outcome(fresh, fresh.option(row["name"]), scenario_setting(fresh))
        assert there is not None
        assert row["interpolated"]
        for key in ("usd_per_mtok", "hours_per_gtok"):
            assert row[key] == pytest.approx(getattr(there, key), rel=row["error"] + 1e-9), row


def test_outside_is_unknown(grid: Grid) -> None:
    found = answers(grid, (), turned(grid, ["losses_per_h=2.1"]))
    assert [row["known"] for row in found["options"]] == [False] * 5
    assert found["sentences"] == [
        "Unknown: losses of a spot worker 2.1 is outside 0.5 to 2 an hour up, and nothing is "
        "extrapolated."
    ]
    assert (found["pair"], found["even"], found["drivers"]) == (None, None, [])


def test_at_the_break_even_price_both_cost_the_same(grid: Grid) -> None:
    setting = turned(grid, ["losses_per_h=0.8"])
    a, b = grid.option("spot-skip"), grid.option("mix-skip")
    even = even_spot_factor(grid, setting, a, b)
    assert even is not None
    for seed, factor in enumerate(even.by_seed):
        assert factor is not None
        prices = {name: usd * (factor if grid.pools[name].market == "spot" else 1)
                  for name, usd in setting.usd_per_h.items()}  # fmt: skip
        there = replace(setting, usd_per_h=prices)
        one, other = outcome(grid, a, there), outcome(grid, b, there)
        assert one is not None
        assert other is not None
        assert one.cost_by_seed[seed] == pytest.approx(other.cost_by_seed[seed], rel=1e-9)
    assert even_spot_factor(grid, setting, a, a) is None


def test_along_an_axis_the_break_even_is_where_the_curves_cross(grid: Grid) -> None:
    setting = turned(grid, ["usd_per_gb.store=0", "usd_per_gb.stages=0", "usd_per_gb_month=0"])
    a, b = grid.option("spot-wait"), grid.option("mix-skip")
    crossings = 0
    for price in np.linspace(1.2, 3.0, 7):
        priced = replace(setting, usd_per_h={**setting.usd_per_h, "fixed": float(price)})
        even = even_along(grid, priced, 0, a, b)
        for seed, value in enumerate(even.by_seed):
            if value is not None:
                crossings += 1
                assert RATES[0] < value < RATES[-1]
                there = replace(priced, at=(value, priced.at[1]))
                costs = [outcome(grid, option, there) for option in (a, b)]
                assert costs[0] is not None
                assert costs[1] is not None
                assert costs[0].cost_by_seed[seed] == pytest.approx(costs[1].cost_by_seed[seed])
    assert crossings


def test_the_front() -> None:
    rated = {
        "a": Rated(1, 2, 0.0),
        "dear": Rated(2, 2, 0.0),
        "fast": Rated(2, 1, 0.0),
        "worse": Rated(1, 2, 0.1),
        "not known": Rated(9, 9, None),
    }
    assert front(rated) == ["a", "fast", "not known"]


@pytest.mark.parametrize(
    ("knob", "problem"),
    [
        ("losses=1", "losses: no such knob; there are losses_per_h, mean_outage_h, spot"),
        ("spot=cheap", "spot=cheap: a number is expected"),
        ("spot=-1", "spot=-1: must be 0, or from 1e-09 to 1e+09"),
        ("spot=nan", "must be 0, or from"),
        ("spot=1e308", "must be 0, or from"),
        ("spot=1e-320", "must be 0, or from"),
    ],
)
def test_knobs_that_cannot_be_turned(knob: str, problem: str, grid: Grid) -> None:
    with pytest.raises(AnalysisError, match=re.escape(problem)):
        turned(grid, [knob])


def test_where_nothing_costs_anything_the_hours_are_compared(grid: Grid) -> None:
    said = answers(grid, (), turned(grid, FREE))["sentences"]
    assert said[0].startswith("spot-skip is cheapest: $0.00 per million tokens")
    assert "costs $0.00 and takes" in said[1]


def test_seconds_of_a_step_are_no_utilisation(tmp_path: Path) -> None:
    """What is swept makes the job faster; the knob is in seconds, and called so."""
    sweep = "sweep={parameters: {work.utilisation: [0.01, 0.02]}, seeds: 2}"
    grid = read_grid(simulate(tmp_path, sweep, "global_steps=2"))
    (axis,) = grid.axes
    assert (axis.knob, axis.unit) == ("global_step_s", "s")
    assert turned(grid, [f"global_step_s={axis.knots[1]}"]).at == (axis.knots[1],)
    with pytest.raises(AnalysisError, match="no such knob"):
        turned(grid, ["utilisation=0.02"])


def test_the_command(study: Path, tmp_path: Path) -> None:
    run = CliRunner()
    done = run.invoke(app, ["whatif", str(study), "--json", "spot=1.5", "losses_per_h=0.6"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["setting"]["usd_per_h"] == {"near": 1.5, "far": 1.5, "fixed": 3.06}
    assert told["setting"]["at"] == [0.6, 0.1]
    assert "spot-skip" in told["sentences"][0]
    assert run.invoke(app, ["whatif", str(study), "spot=1"]).exit_code == 2
    assert run.invoke(app, ["whatif", str(tmp_path)]).exit_code == 2


# --- what makes no grid, or not all of it -----------------------------------------------------


@pytest.mark.parametrize(
    ("sweep", "problem"),
    [
        ("{parameters: {pools.near.usd_per_h: [1, 2]}}", "the page has prices of its own"),
        ("{parameters: {recovery.policy: [[idle], [wait]]}}", "make an arm of each value"),
        ("{arms: {a: {}, b: {pools.far.usd_per_h: 2}}, seeds: 2}", "far has several prices"),
        ("{arms: {a: {recovery.policy: [idle]}, b: {recovery.policy: [wait]}}}", "not a study"),
    ],
)
def test_studies_that_make_no_grid(sweep: str, problem: str, tmp_path: Path) -> None:
    folder = simulate(tmp_path, f"sweep={sweep}", "global_steps=2")
    with pytest.raises(AnalysisError, match=problem):
        write_whatif(folder)


def test_a_run_that_has_not_finished_is_unknown(study: Path, tmp_path: Path) -> None:
    partial = Path(shutil.copytree(study, tmp_path / "partial"))
    cells = json.loads((partial / "study.json").read_text())["cells"]
    cell = "spot-wait, losses_per_h=1.0, mean_outage_h=0.1, seed 1"
    (partial / cells[cell] / "summary.json").unlink()
    grid, told = read_all(partial, None)
    known = {
        rate: [row["name"] for row in answers(grid, told, turned(grid, [f"losses_per_h={rate}"]))[
            "options"] if row["known"]]
        for rate in (0.5, 0.7, 1.0)
    }  # fmt: skip
    everything = [option.name for option in grid.options]
    rest = [name for name in everything if name != "spot-wait"]
    assert known == {0.5: everything, 0.7: rest, 1.0: rest}
    assert "partial: 1 runs have not finished" in write_whatif(partial).read_text()


def test_a_trained_study_tells_the_loss_of_another(study: Path, tmp_path: Path) -> None:
    losses = FakeStudy(
        noise=0.0, controls=(), lengths=(1, 60), seeds=(0,), rates=(0.0, 0.05, 0.4)
    ).write(tmp_path)
    grid, told = read_all(study, losses)
    often = turned(grid, ["losses_per_h=2", "mean_outage_h=0.05"])
    rows = {row["name"]: row for row in answers(grid, told, often)["options"]}
    assert rows["spot-wait"]["gap_kind"] == "exact"
    near = rows["spot-skip"]
    assert near["gap_kind"] == "interpolated", near["gap_why"]
    assert near["gap"] is not None
    assert near["gap_error"] > 0


def test_an_option_that_falls_back_is_told_apart(study: Path, grid: Grid) -> None:
    option = grid.option("fallback-wait")
    assert option.market == "spot"
    words = "fixed, 60 s after it fell vacant or at once from 2 losses of the slot on"
    assert grid.fallbacks == {words: ["fallback-wait"]}
    assert words in write_whatif(study).read_text()
    told = answers(grid, (), turned(grid, ["losses_per_h=2", "mean_outage_h=0.2"]))
    row = next(row for row in told["options"] if row["name"] == "fallback-wait")
    assert min(row["usd_by"][pool] for pool in ("near", "far", "fixed")) > 0, "both markets"
    assert row["outage_rounds"] is None, "a slot is not out for as long as its worker"
    assert any("that falls back" in each or "without a fallback" in each
               for each in told["sentences"])  # fmt: skip
