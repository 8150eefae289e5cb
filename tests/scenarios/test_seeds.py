"""Adaptive seeds: added where the interval is wide, one at a time, up to a limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.stats import interval
from scenarios.load import Loaded
from scenarios.plan import plan
from scenarios.seeds import wanted
from scenarios.show import Show
from scenarios.study import run_study

Small = Callable[..., Loaded]
UNTIL = "seeds: {{min: 3, max: 5, half_width: {}}}"
ARMS = "arms: {skip: {}, idle: {recovery.policy: [idle]}}, "


def sweep(half_width: float) -> str:
    return f"sweep={{{ARMS}{UNTIL.format(half_width)}}}"


def summaries(gaps: dict[str, list[float | None]]) -> dict[str, dict[str, Any]]:
    return {
        f"{label}, seed {seed}": {"val_loss_gap": gap}
        for label, found in gaps.items()
        for seed, gap in enumerate(found)
    }


def test_a_wide_interval_asks_for_a_seed_and_a_narrow_or_unknown_one_for_none(
    small: Small, tmp_path: Path
) -> None:
    """0, 1, 2 have standard deviation 1: half width 4.3027 / sqrt(3) = 2.484, by the t table."""
    gaps: dict[str, list[float | None]] = {"no_failure": [0, 0, 0], "idle": [0.5, 0.5, 0.5]}
    for half_width, more in ((2.48, {"skip": 1}), (2.49, {})):
        planned = plan(small("per_global_step", sweep(half_width)), tmp_path)
        assert wanted(planned, summaries(gaps | {"skip": [0, 1, 2]})) == more
        assert wanted(planned, summaries(gaps | {"skip": [0, 1, None]})) == {}
        assert wanted(planned, summaries(gaps | {"skip": [0, 1]})) == {}


def test_seeds_end_at_the_limit_and_bring_their_no_failure_runs(
    small: Small, tmp_path: Path
) -> None:
    loaded = small("per_global_step", sweep(1.0))
    planned = plan(loaded, tmp_path, added={"skip": 2})
    assert planned.seeds["skip"] == [f"skip, seed {i}" for i in range(5)]
    assert len(planned.seeds["no_failure"]) == 5
    assert len(planned.seeds["idle"]) == 3
    found = summaries({"skip": [0, 9, 0, 9, 0], "idle": [0, 9, 0]})
    assert wanted(planned, found) == {"idle": 1}


@pytest.mark.parametrize(("half_width", "seeds"), [(1e-9, 4), (9.0, 3)])
def test_a_study_goes_on_until_it_is_sure_or_at_the_limit(
    small: Small, tmp_path: Path, half_width: float, seeds: int
) -> None:
    until = f"sweep={{seeds: {{min: 3, max: 4, half_width: {half_width}}}}}"
    loaded = small("per_global_step", until, "global_steps=3")
    planned, result = run_study(loaded, tmp_path, 1, Show(is_quiet=True))
    assert len(planned.seeds["run"]) == seeds
    assert len(result.summaries) == 2 * seeds
    assert all(summary["label"] == "" for summary in result.summaries.values())
    told = json.loads((planned.folder / "study.json").read_text())
    assert told["until_half_width"] == half_width


def test_stopping_at_a_narrow_interval_costs_some_of_its_level() -> None:
    """What docs/methods.md says: three seeds at first, ten at most, 0.75 deviations asked for."""
    rng, trials, inside = np.random.default_rng(7), 4000, 0
    for gaps in rng.normal(0, 1, (trials, 10)).tolist():
        for n in range(3, 11):
            found = interval(gaps[:n])
            assert found is not None
            assert found.half_width is not None
            if found.half_width <= 0.75:
                break
        inside += abs(found.mean) <= found.half_width
    assert inside / trials == pytest.approx(0.91, abs=0.012)
