"""`key.path=value` after the file: what it sets, what it takes along, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.load import Loaded, ScenarioError, load

TEXT = """\
name: a
outages: {kind: per_global_step, probability: 0.05, duration_global_steps: 3}
method: {outer: {name: sparseloco, density: 0.1, lr: 2.0}}
pools:
  p3.2xlarge: {workers: 36, usd_per_h: 3.06}
  spot: {workers: 20}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def problems(*overrides: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load("s.yaml", overrides)
    return str(caught.value).splitlines()


def at(loaded: Loaded, path: str) -> Any:
    value: Any = loaded.document
    for key in path.split("/"):
        value = value[key]
    return value


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("seed=7", "seed", 7),
        ("cluster.stages=3", "cluster/stages", 3),
        ("train.inner.lr=1e-4", "train/inner/lr", 1e-4),
        ("train=null", "train", None),
        ("train={eval_every: 2}", "train", {"eval_every": 2}),
        ("recovery.policy=[wait]", "recovery/policy", ["wait"]),
        ("recovery={policy: [wait]}", "recovery", {"policy": ["wait"]}),
        ("expect.ettr=> 0.9", "expect/ettr", "> 0.9"),
        ("expect.a.b=<=1", "expect/a.b", "<=1"),
        ("pools.spot.usd_per_h=1", "pools/spot", {"workers": 20, "usd_per_h": 1}),
        ("pools.p3.2xlarge.usd_per_h=1", "pools/p3.2xlarge", {"workers": 36, "usd_per_h": 1}),
        ("pools.new.workers=1", "pools/new", {"workers": 1}),
        ("pools.*.usd_per_h=1", "pools/spot/usd_per_h", 1),
        ("pools.*.usd_per_h=1", "pools/p3.2xlarge/usd_per_h", 1),
        ("pools.sp*.work[e]rs=1", "pools/spot/workers", 1),
        ("pools.sp*.work[e]rs=40", "pools/p3.2xlarge/workers", 36),
        ("network.*.latency_ms=9", "network", {"stages": {"latency_ms": 9},
                                               "store": {"latency_ms": 9}}),
        ("se?d=3", "seed", 3),
    ],
)  # fmt: skip
def test_an_override_sets_a_key(override: str, path: str, value: Any) -> None:
    loaded = load("s.yaml", [override])
    assert at(loaded, path) == value
    assert loaded.cells == {"run": loaded.scenario}


def test_the_last_override_of_a_key_wins() -> None:
    assert load("s.yaml", ["seed=1", "se*=2"]).scenario.seed == 2


def test_a_glob_finds_pools_that_are_there_by_default() -> None:
    Path("s.yaml").write_text("name: a", encoding="utf-8")
    loaded = load("s.yaml", ["pools.*.usd_per_h=2"])
    assert {name: pool.usd_per_h for name, pool in loaded.scenario.pools.items()} == {"default": 2}


@pytest.mark.parametrize(
    ("overrides", "outages"),
    [
        (["outages.kind=none"], {"kind": "none"}),
        (["outages.*ind=script"], {"kind": "script"}),
        (["outages={kind: none}"], {"kind": "none"}),
        (
            ["outages.kind=per_global_step"],
            {"kind": "per_global_step", "probability": 0.05, "duration_global_steps": 3},
        ),
        (
            ["outages.script.a={replica: 1, stage: 1, gone_s: 3}", "outages.kind=script"],
            {"kind": "script", "script": {"a": {"replica": 1, "stage": 1, "gone_s": 3}}},
        ),
        (
            ["outages.kind=none", "outages.kind=per_global_step", "outages.probability=0"],
            {"kind": "per_global_step", "probability": 0},
        ),
    ],
)
def test_a_change_of_variant_drops_the_inherited_keys_of_the_old_one(
    overrides: list[str], outages: dict[str, Any]
) -> None:
    assert load("s.yaml", overrides).document["outages"] == outages


def test_variants_are_read_from_the_models_also_where_a_default_is_left() -> None:
    loaded = load("s.yaml", ["method.outer.name=average", "train.data.vocab=512"])
    assert loaded.document["method"]["outer"] == {"name": "average"}
    assert loaded.document["train"]["data"] == {"source": "python-stdlib", "vocab": 512}
    loaded = load("s.yaml", ["train.data.path=x.txt", "train.data.source=text"])
    assert loaded.document["train"]["data"] == {"source": "text", "path": "x.txt"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "must be key.path=value"),
        ("=3", "not a key path such as cluster.stages"),
        ("a..b=3", "a..b: not a key path such as cluster.stages"),
        ("\x1b=3", "not a key path such as cluster.stages"),
        ("sede=3", "sede: unknown key; did you mean 'seed'?"),
        (
            "method.bondary.codec=none",
            "method.bondary: unknown key; did you mean 'boundary'?",
        ),
        ("pools.x*.workers=1", "pools.x*.workers: matches no key"),
        ("pools.*.wrkers=1", "pools.*.wrkers: matches no key"),
        ("*.workers=1", "*.workers: matches no key"),
        ("work.model.*=1", "work.model.*: matches no key"),
        ("seed=-1", "seed: must be at least 0 (got -1)"),
        ("seed.x=1", "seed.x: cannot be set: seed is no map (got 3)"),
        ("recovery.policy.0=wait", "recovery.policy.0: cannot be set: recovery.policy is no map"),
        ("extends=b.yaml", "extends: extends cannot be set here"),
        ("seed=!!int 3", "seed: tags are not read (got 'tag:yaml.org,2002:int')"),
        ("seed=[1", "seed: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("cluster={stages: 1, stages: 2}", "cluster: duplicate key"),
        ("train.data.source=text", "train.data.path: missing key"),
        (
            "outages.kind=nothing",
            "outages.kind: must be 'none', 'per_global_step', 'script', 'pools' or 'trace' "
            "(got 'nothing')",
        ),
    ],
)
def test_what_is_wrong_with_an_override_is_said_of_it(override: str, message: str) -> None:
    Path("s.yaml").write_text(TEXT + "seed: 3\nrecovery: {policy: [wait]}\n", encoding="utf-8")
    (line,) = problems(override)
    where = f"override {override!a}: "
    assert line.startswith(where + message)


def test_problems_of_file_and_overrides_come_together_files_first() -> None:
    Path("s.yaml").write_text(TEXT + "seed: x\n", encoding="utf-8")
    assert problems("global_steps=0", "clusterr=1", "oops") == [
        "s.yaml:7:7: seed: must be a whole number (got 'x')",
        "override 'clusterr=1': clusterr: unknown key; did you mean 'cluster'?",
        "override 'global_steps=0': global_steps: must be at least 1 (got 0)",
        "override 'oops': must be key.path=value",
    ]


def test_a_glob_says_its_problem_of_every_place() -> None:
    assert problems("pools.*.workers=-1") == [
        "override 'pools.*.workers=-1': pools.p3.2xlarge.workers: must be at least 0 (got -1)",
        "override 'pools.*.workers=-1': pools.spot.workers: must be at least 0 (got -1)",
    ]


def test_a_long_override_is_shown_short() -> None:
    (line,) = problems("seed=" + "x" * 1000)
    assert len(line) < 250
