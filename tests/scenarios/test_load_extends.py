"""`extends`: what is inherited, from where, and where it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios import load as module
from scenarios.load import ScenarioError, bundled, load


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def package(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of bundled scenarios: `small`, and `large` that extends it."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "small.yaml").write_text("name: small\nseed: 5\n", encoding="utf-8")
    (folder / "large.yaml").write_text("extends: small.yaml\nname: large\n", encoding="utf-8")
    monkeypatch.setattr(module, "BUNDLED", folder)
    return folder


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def problems(path: str = "s.yaml") -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load(path)
    return str(caught.value).splitlines()


def test_maps_merge_and_everything_else_is_replaced() -> None:
    write(
        "b.yaml",
        "name: b\nseed: 1\ncluster: {replicas: 2, stages: 3}\nrecovery: {policy: [skip, idle]}\n"
        "train: {model: {d: 32}, eval_every: 2}\npools: {x: {workers: 6, usd_per_h: 1}}\n",
    )
    write(
        "s.yaml",
        "extends: b.yaml\nname: s\ncluster: {stages: 4}\nrecovery: {policy: [wait]}\n"
        "train: {model: tiny}\npools: {y: {workers: 2}}\n",
    )
    assert load("s.yaml").document == {
        "name": "s",
        "seed": 1,
        "cluster": {"replicas": 2, "stages": 4},
        "recovery": {"policy": ["wait"]},
        "train": {"model": "tiny", "eval_every": 2},
        "pools": {"x": {"workers": 6, "usd_per_h": 1}, "y": {"workers": 2}},
    }


def test_another_variant_inherits_nothing_of_the_old_one() -> None:
    write("b.yaml", "name: b\noutages: {kind: per_global_step, probability: 0.1}\n")
    write("s.yaml", "extends: b.yaml\noutages: {kind: script}\n")
    assert load("s.yaml").document["outages"] == {"kind": "script"}
    write("s.yaml", "extends: b.yaml\noutages: {kind: per_global_step, start_step: 2}\n")
    assert load("s.yaml").document["outages"] == {
        "kind": "per_global_step",
        "probability": 0.1,
        "start_step": 2,
    }
    write("b.yaml", "name: b\nmethod: {outer: {density: 0.1, lr: 3}}\n")
    write("s.yaml", "extends: b.yaml\nmethod: {outer: {name: average}}\n")
    assert load("s.yaml").document["method"] == {"outer": {"name": "average"}}


def test_an_inherited_value_reports_the_file_it_came_from() -> None:
    write("sub/c.yaml", "name: c\nnetwork:\n  stages: {latency_ms: -1}\n")
    write("sub/b.yaml", "extends: c.yaml\nseed: -1\n")
    write("s.yaml", "extends: sub/b.yaml\nnetwork:\n  store: {latency_ms: -2}\n")
    assert problems() == [
        "s.yaml:3:23: network.store.latency_ms: must be at least 0 (got -2)",
        "sub/b.yaml:2:7: seed: must be at least 0 (got -1)",
        "sub/c.yaml:3:24: network.stages.latency_ms: must be at least 0 (got -1)",
    ]


def test_problems_of_reading_and_of_meaning_come_together() -> None:
    write("b.yaml", "name: b\nseed: 1\nseed: 2\n")
    write("s.yaml", "extends: b.yaml\nglobal_steps: 0\n")
    assert problems() == [
        "b.yaml:3:1: seed: duplicate key (first on line 2)",
        "s.yaml:2:15: global_steps: must be at least 1 (got 0)",
    ]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.yaml", "no such file (got 'nowhere.yaml')"),
        ("''", "no such file (got '')"),
        (".", "no such file (got '.')"),
        ("s.yaml", "extends itself (got 's.yaml')"),
        ("sub/../s.yaml", "must stay in the scenario's own folder (got 'sub/../s.yaml')"),
        ("../out.yaml", "must stay in the scenario's own folder (got '../out.yaml')"),
        ("/etc/passwd", "must stay in the scenario's own folder (got '/etc/passwd')"),
        ("link.yaml", "must stay in the scenario's own folder (got 'link.yaml')"),
        ("loop.yaml", "not a file name (got 'loop.yaml')"),
        ("3", "must be a file or a bundled scenario (got 3)"),
        ("[b.yaml]", "must be a file or a bundled scenario (got ['b.yaml'])"),
        ('"a\\0b"', "not text (got 'a\\x00b')"),
        ("x" * 5000, "not a file name (got 'xxxxxx"),
    ],
)
def test_what_cannot_be_extended_is_said_at_its_line(
    target: str, message: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "b.yaml"
    outside.write_text("name: b", encoding="utf-8")
    Path("link.yaml").symlink_to(outside)
    Path("loop.yaml").symlink_to("loop.yaml")
    write("sub/x.yaml", "name: x")
    write("s.yaml", f"name: s\nextends: {target}\n")
    assert problems()[0].startswith(f"s.yaml:2:10: extends: {message}")


def test_a_cycle_is_found_where_it_closes() -> None:
    write("s.yaml", "extends: b.yaml\n")
    write("b.yaml", "extends: c.yaml\n")
    write("c.yaml", "name: c\nextends: b.yaml\n")
    assert problems() == ["c.yaml:2:10: extends: extends itself (got 'b.yaml')"]


def test_a_folder_below_may_not_reach_out_of_the_scenarios_own() -> None:
    write("deep/s.yaml", "extends: b/b.yaml\n")
    write("deep/b/b.yaml", "extends: up.yaml\nname: b\n")
    write("top.yaml", "name: top\n")
    Path("deep/b/up.yaml").symlink_to("../../top.yaml")
    assert problems("deep/s.yaml") == [
        "deep/b/b.yaml:1:10: extends: must stay in the scenario's own folder (got 'up.yaml')"
    ]


def test_a_syntax_error_of_the_extended_file_is_reported_there() -> None:
    write("b.yaml", "name: [\n")
    write("s.yaml", "extends: b.yaml\n")
    (line,) = problems()
    assert line.startswith("b.yaml:2:1: not valid YAML: ")


@pytest.mark.parametrize("name", ["large", "large.yaml"])
def test_a_bundled_scenario_goes_by_its_name(name: str, package: Path) -> None:
    loaded = load(name)
    assert (loaded.scenario.name, loaded.scenario.seed) == ("large", 5)
    assert (loaded.path, loaded.root) == (package / "large.yaml", package)
    write("s.yaml", f"extends: {name}\nname: s\n")
    loaded = load("s.yaml")
    assert (loaded.scenario.name, loaded.scenario.seed) == ("s", 5)
    assert loaded.root == Path()


def test_a_file_goes_before_a_bundled_scenario_of_its_name(package: Path) -> None:
    write("large.yaml", "name: mine\n")
    assert load("large.yaml").scenario.name == "mine"
    assert load("large").scenario.name == "large"


def test_a_near_miss_of_a_bundled_name_is_hinted(package: Path) -> None:
    assert problems("lareg") == ["lareg:1:1: no such file; did you mean 'large'?"]
    assert problems("xyz.yaml") == ["xyz.yaml:1:1: no such file; bundled: large, small"]
    write("s.yaml", "extends: smal\n")
    assert problems() == ["s.yaml:1:10: extends: no such file (got 'smal'); did you mean 'small'?"]


def test_every_bundled_scenario_loads() -> None:
    for name, path in bundled().items():
        assert load(name).path == path
