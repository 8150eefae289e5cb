"""The recovery block in files: limits, checkpoints, and what is said of mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.derive import job_config
from scenarios.load import dump, load
from scenarios.outlook import start_of
from scenarios.problems import ScenarioError
from scenarios.strict_json import dumps
from sim.job import Job

LIMITED = "policy: [skip: {at_most: 1, for_rounds: 50}, wait: {at_most_s: 3600}, idle]"
POOL = "{p: {workers: 32, up_h: {law: exponential, mean: 9}, outage_h: 1}}"


def written(tmp_path: Path, recovery: str, rest: str = "") -> Path:
    file = tmp_path / "s.yaml"
    file.write_text(f"name: s\ntrain: null\nrecovery: {{{recovery}}}\n{rest}", encoding="utf-8")
    return file


@pytest.mark.parametrize("recovery", [LIMITED, "policy: [restart]", "policy: [skip, wait: {}]"])
def test_a_resolved_file_says_the_same(tmp_path: Path, recovery: str) -> None:
    scenario = load(written(tmp_path, recovery)).scenario
    again = tmp_path / "again.yaml"
    again.write_text(dump(scenario), encoding="utf-8")
    assert load(again).scenario == scenario


@pytest.mark.parametrize(
    ("recovery", "says"),
    [
        ("policy: [skip: {at_mst: 1}, idle]", "policy.0.skip.at_mst: unknown key; did you mean"),
        ("policy: [skip: {at_most: 0}, idle]", "policy.0.skip.at_most: must be at least 1 (got 0)"),
        ("policy: [wait: {at_most: 3}, idle]", "did you mean 'at_most_s'?"),
        ("policy: [idle: {}]", "policy.0.idle: unknown key; allowed: skip, wait"),
        ("policy: [wait: {at_most_s: 3}]", "must be idle or wait without a limit"),
        (
            "policy: [restart], checkpoint: {every_global_steps: dally}",
            "a whole number, 'young', 'daly', 'auto' or 'never' (got 'dally'); did you mean 'daly'",
        ),
        ("policy: [wait], checkpoint: {every_h: 1}", "checkpoint is used only with policy"),
    ],
)
def test_mistakes_are_told_where_they_are(tmp_path: Path, recovery: str, says: str) -> None:
    with pytest.raises(ScenarioError) as error:
        load(written(tmp_path, recovery))
    assert says in str(error.value)
    assert "s.yaml:3:" in str(error.value)


def test_a_formula_needs_a_rate(tmp_path: Path) -> None:
    script = "outages: {kind: script, script: {a: {replica: 0, stage: 1, gone_s: 9}}}\n"
    with pytest.raises(ScenarioError, match="which a script does not tell"):
        load(written(tmp_path, "policy: [restart]", script))
    load(written(tmp_path, "policy: [restart], checkpoint: {every_global_steps: 3}", script))


def test_a_preview_has_the_interval_of_the_whole_run(tmp_path: Path) -> None:
    keys = "policy: [restart], checkpoint: {every_global_steps: daly}"
    rest = f"global_steps: 5000\noutages: {{kind: pools}}\npools: {POOL}\n"
    scenario = load(written(tmp_path, keys, rest)).scenario
    whole, start = (Job(job_config(each)) for each in (scenario, start_of(scenario, 100)))
    assert whole.checkpoints is not None
    assert start.checkpoints is not None
    assert whole.checkpoints.every == start.checkpoints.every
    assert start.config.global_steps == 100
    told = whole.checkpoints.told()
    assert told["rule"] == "daly"
    assert dumps(told)
