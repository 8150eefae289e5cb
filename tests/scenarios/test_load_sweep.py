"""`sweep`: arms x parameters x seeds and controls: labels, and what is told before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.labels import shorter, texts, with_seed
from scenarios.load import Loaded, ScenarioError, load
from scenarios.plan import Plan, plan

BASE = "name: a\nglobal_steps: 3\noutages: {kind: per_global_step, probability: 0.5}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(sweep: str, base: str = BASE) -> Loaded:
    Path("s.yaml").write_text(f"{base}sweep: {sweep}\n", encoding="utf-8")
    return load("s.yaml")


def planned(sweep: str, base: str = BASE) -> Plan:
    return plan(loaded(sweep, base), Path("runs"), with_training=False)


def problems(sweep: str, base: str = BASE) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        loaded(sweep, base)
    return str(caught.value).splitlines()


ARMS = "arms: {skip: {}, idle: {recovery.policy: [idle]}}"
RATES = "parameters: {outages.probability: [0.1, 0.2]}"


@pytest.mark.parametrize(
    ("sweep", "labels"),
    [
        (f"{{{ARMS}}}", ["no_failure", "skip", "idle"]),
        ("{seeds: 2}", ["no_failure, seed 0", "no_failure, seed 1", "seed 0", "seed 1"]),
        ("{seeds: [7]}", ["no_failure", "run"]),
        (f"{{{RATES}}}", ["no_failure", "probability=0.1", "probability=0.2"]),
        ("{parameters: {seed_not: [1]}}", None),
        (
            f"{{arms: {{one: {{}}}}, {RATES}, seeds: [3, 5]}}",
            [
                "no_failure, seed 3",
                "no_failure, seed 5",
                "one, probability=0.1, seed 3",
                "one, probability=0.1, seed 5",
                "one, probability=0.2, seed 3",
                "one, probability=0.2, seed 5",
            ],
        ),
        (
            "{arms: {a: {}, b: {method.boundary.codec: shared}, c: {recovery.policy: [idle]}}, "
            "controls: {depth: {cluster.stages: 2}}}",
            ["no_failure", "no_failure, b", "a", "b", "c", "depth", "depth, b"],
        ),
        (
            "{parameters: {method.inner_steps: [5, 10], outages.probability: [0.1, 0.2]}}",
            [
                "no_failure, inner_steps=5",
                "no_failure, inner_steps=10",
                "inner_steps=5, probability=0.1",
                "inner_steps=5, probability=0.2",
                "inner_steps=10, probability=0.1",
                "inner_steps=10, probability=0.2",
            ],
        ),
    ],
)
def test_labels_name_what_varies(sweep: str, labels: list[str] | None) -> None:
    if labels is None:
        assert problems(sweep)
    else:
        found = planned(sweep)
        assert list(found.cells) == labels
        assert list(found.points) == list(found.baselines) == labels


def test_a_point_tells_arm_parameters_seed_and_control() -> None:
    found = planned(f"{{{ARMS}, {RATES}, seeds: 2, controls: {{depth: {{cluster.stages: 2}}}}}}")
    points: dict[str, Any] = {label: vars(point) for label, point in found.points.items()}
    assert points["idle, probability=0.2, seed 1"] == {
        "arm": "idle",
        "parameters": {"outages.probability": 0.2},
        "seed": 1,
        "control": None,
    }
    healthy = {"arm": None, "parameters": {}, "seed": 0, "control": "no_failure"}
    assert points["no_failure, seed 0"] == healthy
    assert points["depth, seed 0"] == healthy | {"control": "depth"}
    assert found.baselines["depth, seed 0"] == found.cells["no_failure, seed 0"]
    depth = found.runs[found.cells["depth, seed 0"]].scenario
    assert (depth.cluster.stages, depth.outages.kind) == (2, "none")


def test_a_control_that_is_a_run_already_has_a_folder_of_its_own() -> None:
    """Its summary tells another gap: that to the run it is a control of."""
    found = planned(
        "{parameters: {cluster.stages: [2, 4]}, controls: {depth: {cluster.stages: 2}}}",
        "name: a\nglobal_steps: 3\n",
    )
    assert found.cells["depth, stages=4"] != found.cells["no_failure, stages=2"]
    assert found.baselines["depth, stages=4"] == found.cells["no_failure, stages=4"]


@pytest.mark.parametrize(
    ("sweep", "lines"),
    [
        ("{}", ["s.yaml:4:1: sweep: needs arms, parameters, seeds or controls (got {})"]),
        (
            "{parameters: {outages.probabilty: [0.1]}}",
            [
                "s.yaml:4:22: sweep.parameters.outages.probabilty: unknown key; "
                "did you mean 'probability'?"
            ],
        ),
        (
            "{parameters: {outages.probability: []}}",
            [
                "s.yaml:4:43: sweep.parameters.outages.probability: "
                "must have 1 or more entries (got [])"
            ],
        ),
        (
            "{parameters: {outages.probability: 0.1}}",
            ["s.yaml:4:43: sweep.parameters.outages.probability: must be a list (got 0.1)"],
        ),
        (
            f"{{{ARMS}, parameters: {{outages.probability: [0.1, x, 2]}}}}",
            [
                "s.yaml:4:100: sweep.parameters.outages.probability: must be a number (got 'x')",
                "s.yaml:4:103: sweep.parameters.outages.probability: must be at most 1 (got 2)",
            ],
        ),
        (
            "{parameters: {outages.probability: [0.1, 0.2, 0.10]}}",
            ["s.yaml:4:54: sweep.parameters.outages.probability: is there twice (got 0.1)"],
        ),
        (
            "{parameters: {outages.probability: [0, 1e-400]}}",
            ["s.yaml:4:47: sweep.parameters.outages.probability: is there twice (got 0.0)"],
        ),
        (
            "{parameters: {seed: [1, 2], name: [x]}}",
            [
                "s.yaml:4:22: sweep.parameters.seed: seed cannot be set here",
                "s.yaml:4:36: sweep.parameters.name: name cannot be set here",
            ],
        ),
        ("{seeds: 1000000}", ["s.yaml:4:1: sweep: 1,000,000 cells; a study has 5,000 at most"]),
        ("{seeds: 0}", ["s.yaml:4:16: sweep.seeds: must be at least 1 (got 0)"]),
        ("{seeds: [1, 2, 1]}", ["s.yaml:4:23: sweep.seeds: is there twice (got 1)"]),
        (
            "{seeds: {min: 4, max: 3, half_width: 0.1}}",
            ["s.yaml:4:9: sweep.seeds: max must be at least min (got 3 and 4)"],
        ),
        ("{seeds: {min: 3}}", ["s.yaml:4:9: sweep.seeds.half_width: missing key"]),
        (
            "{controls: {depth: {cluster.stags: 2}, skip: {}}, arms: {skip: {}}}",
            [
                "s.yaml:4:47: sweep.controls.skip: is the name of an arm or of the no-failure "
                "run; choose another"
            ],
        ),
        (
            "{controls: {depth: {cluster.stags: 2}}}",
            [
                "s.yaml:4:28: sweep.controls.depth.cluster.stags: "
                "unknown key; did you mean 'stages'?"
            ],
        ),
        (
            "{parameters: {cluster.replicas: [1, 9]}}",
            [
                "s.yaml:4:9: sweep.parameters: pools: 36 slots (replicas x stages) need at least "
                "36 workers (got 4) (in the cell 'replicas=9')"
            ],
        ),
    ],
)
def test_what_is_wrong_is_told_at_its_place(sweep: str, lines: list[str]) -> None:
    pool = "pools: {default: {workers: 4}}\ncluster: {replicas: 1}\n"
    base = BASE if "replicas" not in sweep else BASE.replace("name: a\n", f"name: a\n{pool}")
    told = problems(sweep, base)
    shift = base.count("\n") - BASE.count("\n")
    assert told == [line.replace("s.yaml:4:", f"s.yaml:{4 + shift}:") for line in lines]


def test_a_million_cells_are_counted_before_anything_is_laid_out() -> None:
    values = ", ".join(map(str, range(1, 101)))
    keys = ("global_steps", "method.inner_steps", "outages.duration_global_steps")
    blocks = ", ".join(f"{key}: [{values}]" for key in keys)
    told = problems(f"{{parameters: {{{blocks}}}}}")
    assert told == ["s.yaml:4:1: sweep: 1,000,000 cells; a study has 5,000 at most"]


def test_short_names_differ() -> None:
    keys = ["outages.probability", "method.outer.lr", "train.inner.lr", "lr"]
    assert shorter(keys) == {
        "outages.probability": "probability",
        "method.outer.lr": "outer.lr",
        "train.inner.lr": "inner.lr",
        "lr": "lr",
    }
    values = [0.05, True, None, "skip", ["skip", "idle"], {"d": 64}, {"d": 32}, "a, b"]
    assert texts(values) == ["0.05", "true", "null", "skip", "skip+idle", "#6", "#7", "#8"]
    assert texts([1, "1"]) == ["#1", "#2"]
    assert with_seed("skip", 3, "run") == "skip, seed 3"
    assert with_seed("run", 3, "run") == "seed 3"
