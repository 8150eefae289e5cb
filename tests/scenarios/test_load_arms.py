"""`sweep.arms`: each arm is a scenario of its own, checked before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.load import ScenarioError, load

BASE = """\
name: a
outages: {kind: per_global_step, probability: 0.05}
pools: {x: {workers: 32}, y: {workers: 3}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(arms: str, base: str = BASE) -> None:
    Path("s.yaml").write_text(f"{base}sweep:\n  arms:\n{arms}", encoding="utf-8")


def problems(*overrides: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load("s.yaml", overrides)
    return str(caught.value).splitlines()


def test_each_arm_lays_its_keys_over_the_document() -> None:
    write(
        "    none: {}\n"
        "    calm: {outages.kind: none}\n"
        "    dear: {pools.*.usd_per_h: 3, outages.probability: 0.5}\n"
        "    timed: {train: null, recovery.policy: [wait]}\n"
    )
    loaded = load("s.yaml")
    cells = loaded.cells
    assert list(cells) == ["none", "calm", "dear", "timed"]
    assert loaded.scenario.sweep is not None
    assert all(cell.sweep is None and cell.name == "a" for cell in cells.values())
    assert cells["none"] == loaded.scenario.model_copy(update={"sweep": None})
    assert cells["calm"].outages.kind == "none"
    assert cells["dear"].model_dump()["outages"]["probability"] == 0.5
    assert {name: pool.usd_per_h for name, pool in cells["dear"].pools.items()} == {"x": 3, "y": 3}
    assert {name: pool.usd_per_h for name, pool in cells["none"].pools.items()} == {"x": 0, "y": 0}
    assert cells["timed"].train is None


def test_an_arm_goes_over_the_command_line() -> None:
    write("    one: {seed: 1}\n    two: {}\n")
    cells = load("s.yaml", ["seed=5", "sweep.arms.two.global_steps=7"]).cells
    assert {name: (cell.seed, cell.global_steps) for name, cell in cells.items()} == {
        "one": (1, 45),
        "two": (5, 7),
    }
    assert load("s.yaml", ["sweep=null"]).cells.keys() == {"run"}


def test_an_arms_problems_are_said_at_its_line() -> None:
    write(
        "    a:\n      seed: -1\n      cluster.stags: 2\n"
        "    b: {outages.kind: script, outages.script: {x: {replica: 0}}}\n"
        "    c: {pools.z*.workers: 1}\n"
        "    d: {name: x, sweep: null, extends: y, 'n*me': z}\n"
        "    e/f: {}\n"
        "    g: {recovery.policy: [skip]}\n"
        "    h: {train.data.source: text}\n"
        "    i: {cluster.replicas: 10}\n"
    )
    assert problems() == [
        "s.yaml:7:13: sweep.arms.a.seed: must be at least 0 (got -1)",
        "s.yaml:8:7: sweep.arms.a.cluster.stags: unknown key; did you mean 'stages'?",
        "s.yaml:9:48: sweep.arms.b.outages.script.x.stage: missing key",
        "s.yaml:10:9: sweep.arms.c.pools.z*.workers: matches no key",
        "s.yaml:11:9: sweep.arms.d.name: name cannot be set here",
        "s.yaml:11:18: sweep.arms.d.sweep: sweep cannot be set here",
        "s.yaml:11:31: sweep.arms.d.extends: extends cannot be set here",
        "s.yaml:11:43: sweep.arms.d.n*me: name cannot be set here",
        "s.yaml:12:5: sweep.arms.e/f: must be letters, digits, _ . - only, "
        "a letter or digit first, at most 64 long (got 'e/f')",
        "s.yaml:13:9: sweep.arms.g.recovery: "
        "the last policy must be idle or wait: skip never applies to ends",
        "s.yaml:14:9: sweep.arms.h.train.data.path: missing key",
        "s.yaml:15:5: sweep.arms.i.pools: "
        "40 slots (replicas x stages) need at least 40 workers (got 35)",
    ]


def test_what_is_wrong_without_the_arms_is_said_once() -> None:
    write(
        "    a: {}\n    b: {outages.probability: 2}\n    c: {seed: 3}\n",
        BASE + "seed: x\nclutser: {}\n",
    )
    assert problems() == [
        "s.yaml:4:7: seed: must be a whole number (got 'x')",
        "s.yaml:5:1: clutser: unknown key; did you mean 'cluster'?",
        "s.yaml:9:30: sweep.arms.b.outages.probability: must be at most 1 (got 2)",
    ]


@pytest.mark.parametrize(
    ("sweep", "line"),
    [
        ("3", "s.yaml:4:8: sweep: must be a map (got 3)"),
        ("{arms: 3}", "s.yaml:4:15: sweep.arms: must be a map (got 3)"),
        ("{arms: {}}", "s.yaml:4:9: sweep.arms: must have 1 or more entries (got {})"),
        ("{arms: {a: 3}}", "s.yaml:4:19: sweep.arms.a: must be a map (got 3)"),
        (
            "{arms: {a: {..: 3}}}",
            "s.yaml:4:20: sweep.arms.a...: not a key path such as cluster.stages",
        ),
    ],
)
def test_a_sweep_that_is_none(sweep: str, line: str) -> None:
    Path("s.yaml").write_text(f"{BASE}sweep: {sweep}\n", encoding="utf-8")
    assert problems() == [line]


def test_arms_are_inherited_and_report_the_file_they_stand_in() -> None:
    Path("b.yaml").write_text("name: b\nsweep: {arms: {a: {seed: 1}, b: {seed: -1}}}\n")
    Path("s.yaml").write_text("extends: b.yaml\nsweep: {arms: {a: {seed: -2}, c: {seed: 2}}}\n")
    assert problems() == [
        "b.yaml:2:40: sweep.arms.b.seed: must be at least 0 (got -1)",
        "s.yaml:2:26: sweep.arms.a.seed: must be at least 0 (got -2)",
    ]
