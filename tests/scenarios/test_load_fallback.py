"""Pools that fall back on others: what a file can say, and what is told with its place."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenarios.cli import app
from scenarios.derive import job_config, no_failure
from scenarios.load import ScenarioError, dump, load
from scenarios.outlook import look_ahead
from scenarios.preview import scenario_numbers
from sim.config import Pool
from sim.job import Job

TEXT = """name: a
train: null
global_steps: 3
cluster: {{replicas: 2, stages: 3}}
outages: {{kind: {kind}}}
recovery: {{policy: [{policy}]}}
pools:
  backup: {{{backup}}}
  spot:
    fallback: {fallback}
    usd_per_h: 1
"""
LAWS = "    up_h: 0.1\n    outage_h: 0.1\n"
WAITS = "{pool: backup, after_wait_s: 1}"


def problems(
    folder: Path,
    fallback: str = WAITS,
    backup: str = "workers: 2, usd_per_h: 3",
    kind: str = "pools",
    policy: str = "skip, idle",
) -> list[str]:
    """What is wrong with such a file, without its name; empty if nothing is."""
    file = folder / "s.yaml"
    text = TEXT.format(fallback=fallback, backup=backup, kind=kind, policy=policy)
    file.write_text(text + (LAWS if kind == "pools" else ""))
    try:
        loaded = load(file)
    except ScenarioError as error:
        return [str(problem).removeprefix(f"{file}:") for problem in error.problems]
    (folder / "again.yaml").write_text(dump(loaded.scenario))
    assert load(folder / "again.yaml").scenario == loaded.scenario
    return []


@pytest.mark.parametrize("kind", ["pools", "none", "script"])
def test_a_pool_falls_back_on_another(kind: str, tmp_path: Path) -> None:
    """The pool on call may be told before the other, and then the other alone is one a slot."""
    assert problems(tmp_path, kind=kind) == []
    job = Job(job_config(load(tmp_path / "s.yaml").scenario))
    assert {name: pool.workers for name, pool in job.config.pools.items()} == {
        "spot": 6,
        "backup": 2,
    }
    assert list(job.config.pools) == ["spot", "backup"]


def test_without_a_number_one_can_be_bought_for_every_slot(tmp_path: Path) -> None:
    assert problems(tmp_path, "{pool: backup, after_losses: 2}", "usd_per_h: 3") == []
    scenario = load(tmp_path / "s.yaml").scenario
    assert scenario.resolved_pools()["backup"].workers == 6


@pytest.mark.parametrize(
    ("fallback", "line"),
    [
        (
            "{pool: reserve, after_wait_s: 1}",
            "10:22: pools.spot.fallback.pool: no such pool (got reserve; there are "
            "['backup', 'spot'])",
        ),
        (
            "{pool: spot, after_wait_s: 1}",
            "10:22: pools.spot.fallback.pool: a pool cannot fall back on itself (got spot)",
        ),
        (
            "{pool: backup, after_wait_s: -1}",
            "10:44: pools.spot.fallback.after_wait_s: must be at least 0 (got -1)",
        ),
        (
            "{pool: backup, after_losses: 0}",
            "10:44: pools.spot.fallback.after_losses: must be at least 1 (got 0)",
        ),
        (
            "{pool: backup}",
            "10:5: pools.spot.fallback: give after_wait_s, after_losses or both",
        ),
        (
            "{after_wait_s: 3}",
            "10:5: pools.spot.fallback.pool: missing key",
        ),
        (
            "{pool: backup, after_wait_h: 3}",
            "10:30: pools.spot.fallback.after_wait_h: unknown key; did you mean 'after_wait_s'?",
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_place(fallback: str, line: str, tmp_path: Path) -> None:
    assert problems(tmp_path, fallback) == [line]


def test_fallbacks_go_in_no_circle_and_in_no_chain(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        backup="workers: 6, fallback: {pool: spot, after_wait_s: 1}",
    )
    assert found == [
        "8:41: pools.backup.fallback.pool: spot falls back itself, on backup: name a last resort",
        "10:22: pools.spot.fallback.pool: backup falls back itself, on spot: name a last resort",
    ]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"backup": "workers: 0"}, "fallback.pool: backup has nobody to be bought"),
        (
            {"kind": "per_global_step, probability: 0.1"},
            "pools.spot.fallback: needs outages.kind pools, trace or script",
        ),
        (
            {"policy": "restart], checkpoint: {every_global_steps: auto}} #"},
            "checkpoint.every_global_steps: does not foresee slots that fall back",
        ),
    ],
)
def test_what_does_not_fit_together_is_told(
    keys: dict[str, str], says: str, tmp_path: Path
) -> None:
    found = problems(tmp_path, **keys)
    assert len(found) == 1
    assert says in found[0]


def test_a_pool_on_call_is_given_no_slots(tmp_path: Path) -> None:
    problems(tmp_path)
    with pytest.raises(ScenarioError, match="ends: others fall back on backup, so it has no slots"):
        load(tmp_path / "s.yaml", ["cluster.place.ends=backup"])


def test_the_command_ends_with_2(tmp_path: Path) -> None:
    problems(tmp_path, "{pool: spot, after_wait_s: 1}")
    for command in ("check", "run"):
        result = CliRunner().invoke(app, [command, str(tmp_path / "s.yaml")])
        assert result.exit_code == 2
        assert "s.yaml:10:22: pools.spot.fallback.pool: a pool cannot" in result.output


def test_without_failures_nobody_is_bought_and_the_run_is_that_of_an_empty_pool(
    tmp_path: Path,
) -> None:
    problems(tmp_path)
    scenario = load(tmp_path / "s.yaml").scenario
    healthy = no_failure(scenario)
    assert healthy.pools == {"backup": Pool(workers=0, usd_per_h=3), "spot": Pool(usd_per_h=1)}
    numbers = scenario_numbers(scenario, look_ahead(scenario), date(2026, 7, 1))
    assert (numbers["workers"], numbers["on_call"]) == (6, {"backup": 2})
    hours = numbers["no_failure"]["hours"]
    assert numbers["no_failure"]["usd"] == pytest.approx(6 * hours, rel=1e-9)
