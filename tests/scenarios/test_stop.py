"""`stop`: a run ends with the global step that reaches a bound, and is the same till then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from scenarios.load import Loaded, ScenarioError
from scenarios.outlook import MOST_SIMULATED, look_ahead
from scenarios.plan import plan
from scenarios.preview import scenario_numbers
from scenarios.record import read_rows
from scenarios.run import execute
from scenarios.show import Show
from scenarios.study import run_all

Small = Callable[..., Loaded]
ARMS = "sweep.arms={one: {recovery.policy: [skip, idle]}}"


def rows(small: Small, out: Path, *told: str) -> list[dict[str, Any]]:
    """The record of a run."""
    planned = plan(small("per_global_step", *told), out)
    run = planned.runs[planned.cells["run"]]
    summary = execute(run, lambda text: None)
    found = list(read_rows(run.folder.metrics))
    assert summary["global_steps"] == len(found)
    assert summary["is_cut"] == (len(found) < 6)
    assert look_ahead(run.scenario).global_steps >= len(found)
    return found


@pytest.mark.parametrize("key", ["hours", "usd", "tokens"])
def test_a_run_ends_with_the_global_step_that_reaches_the_bound(
    small: Small, tmp_path: Path, key: str
) -> None:
    whole = rows(small, tmp_path / "whole")
    told = {
        "hours": lambda row: (row["end_s"] - row["start_s"]) / 3600,
        "usd": lambda row: sum(row[k] for k in row if k.startswith("usd_")),
        "tokens": lambda row: row["tokens"],
    }[key]
    totals = list(accumulate(map(told, whole)))
    between = (totals[2] + totals[3]) / 2
    bound = int(between) if key == "tokens" else between
    if key == "tokens":  # exactly
        assert rows(small, tmp_path / "at", f"stop.tokens={totals[2]}") == whole[:3]
    assert rows(small, tmp_path / "after", f"stop.{key}={bound}") == whole[:4]
    beyond = int(totals[-1] * 2) if key == "tokens" else totals[-1] * 2
    assert rows(small, tmp_path / "beyond", f"stop.{key}={beyond}") == whole


def test_a_loss_ends_a_run_at_its_evaluation_and_the_rate_stays(
    small: Small, tmp_path: Path
) -> None:
    whole = rows(small, tmp_path / "whole")
    losses = {i: row["val_loss"] for i, row in enumerate(whole) if row["val_loss"] is not None}
    assert sorted(losses) == [1, 3, 5]
    assert losses[1] > losses[3] > losses[5]
    enough = (losses[1] + losses[3]) / 2
    assert rows(small, tmp_path / "cut", f"stop.val_loss={enough}") == whole[:4]
    assert rows(small, tmp_path / "whole", f"stop.val_loss={enough}") == whole[:4], "all is known"
    assert rows(small, tmp_path / "cut") == whole, "goes on from there"
    assert rows(small, tmp_path / "never", "stop.val_loss=0.01") == whole


def test_a_study_compares_where_both_were_evaluated(small: Small, tmp_path: Path) -> None:
    for stop in ("stop.tokens=150000", "stop.val_loss=5.6"):
        planned = plan(small("per_global_step", ARMS, stop), tmp_path / "runs")
        with Show(is_quiet=True) as show:
            result = run_all(planned, 1, show)
        assert result.failed == {}
        cut = result.summaries["one"]
        healthy = list(read_rows(planned.baselines["one"].metrics))
        seen = {row["global_step"]: row["val_loss"] for row in healthy}
        assert cut["val_loss_no_failure"] == seen.get(cut["val_global_step"])


def test_a_preview_stops_too(small: Small) -> None:
    def simulated(*stop: str) -> dict[str, Any]:
        scenario = small("none", *stop).scenario
        ahead = look_ahead(scenario, MOST_SIMULATED)
        found: dict[str, Any] = scenario_numbers(scenario, ahead, date(2026, 9, 1))["simulated"]
        return found

    whole = simulated()
    half = simulated(f"stop.hours={whole['hours'] * 0.49}")
    assert half["global_steps"] == 3
    assert half["usd"] == pytest.approx(whole["usd"] / 2)


@pytest.mark.parametrize(
    ("stop", "problem"),
    [
        ("stop.hours=-1", "stop.hours: must be above 0 (got -1)"),
        ("stop.steps=3", "stop.steps: unknown key; allowed: hours, usd, tokens, val_loss"),
    ],
)
def test_what_cannot_stop_a_run(small: Small, stop: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        small("none", stop)
    assert problem in str(caught.value)


def test_a_loss_stops_only_what_is_trained(small: Small) -> None:
    with pytest.raises(ScenarioError, match=r"stop\.val_loss: needs a model that is trained"):
        small("none", "stop.val_loss=2", "train=null")
