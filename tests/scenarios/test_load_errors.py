"""Every problem of a scenario at once: in words, once, at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenarios.explain import explain
from scenarios.load import ScenarioError, load
from scenarios.schema import Inconsistent
from scenarios.shapes import fill_tags
from scenarios.strict_yaml import read

NAME_RULE = "must be letters, digits, _ . - only, a letter or digit first, at most 64 long"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(text: str) -> list[str]:
    Path("s.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load("s.yaml")
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed: 1", "s.yaml:1:1: name: missing key"),
        ("nmae: a", "s.yaml:1:1: nmae: unknown key; did you mean 'name'?"),
        ("- a", "s.yaml:1:1: must be a map of keys (got ['a'])"),
        ("name: 3", "s.yaml:1:7: name: must be text (got 3)"),
        (
            'name: a\ntrain: {data: {source: text, path: "\\ud800"}}',
            "s.yaml:2:36: train.data.path: not text (got '\\ud800')",
        ),
        (
            'name: a\nsweep: {arms: {b: {train.data: {source: text, path: "\\ud800"}}}}',
            "s.yaml:2:53: sweep.arms.b.train.data.path: not text (got '\\ud800')",
        ),
        ("name:", "s.yaml:1:6: name: must be text (got null)"),
        ("name: ../../x", f"s.yaml:1:7: name: {NAME_RULE} (got '../../x')"),
        ("name: a\nseed: 1.5", "s.yaml:2:7: seed: must be a whole number (got 1.5)"),
        ("name: a\nseed: true", "s.yaml:2:7: seed: must be a whole number (got true)"),
        ("name: a\nseed: -1", "s.yaml:2:7: seed: must be at least 0 (got -1)"),
        ("name: a\nseed: .nan", "s.yaml:2:7: seed: must be a whole number (got .nan)"),
        (
            "name: a\nglobal_steps: 10000001",
            "s.yaml:2:15: global_steps: must be at most 10000000 (got 10000001)",
        ),
        (
            "name: a\nglobal_steps: 9999999999999999999999",
            "s.yaml:2:15: global_steps: must be at most 10000000 (got 9999999999999999999999)",
        ),
        ("name: a\ncluster: 4", "s.yaml:2:10: cluster: must be a map (got 4)"),
        ("name: a\ncluster:\n", "s.yaml:2:9: cluster: must be a map (got null)"),
        ("name: a\noutages: off", "s.yaml:2:10: outages: must be a map (got 'off')"),
        (
            "name: a\noutages: {kind: pool}",
            "s.yaml:2:17: outages.kind: must be 'none', 'per_global_step', 'script', 'pools' or "
            "'trace' (got 'pool'); did you mean 'pools'?",
        ),
        (
            "name: a\noutages: {probability: 1}",
            "s.yaml:2:11: outages.probability: unknown key; "
            "it belongs to kind 'per_global_step', here kind is 'none'",
        ),
        (
            "name: a\noutages: {kind: per_global_step}",
            "s.yaml:2:1: outages.probability: missing key",
        ),
        (
            "name: a\noutages: {kind: per_global_step, probability: .05, stages: innr}",
            "s.yaml:2:60: outages.stages: must be 'inner', 'ends', 'all' or a list (got 'innr'); "
            "did you mean 'inner'?",
        ),
        (
            "name: a\noutages: {kind: per_global_step, probability: .05, stages: [1, x]}",
            "s.yaml:2:64: outages.stages.1: must be a whole number (got 'x')",
        ),
        (
            "name: a\noutages: {kind: per_global_step, probability: .05, stages: []}",
            "s.yaml:2:60: outages.stages: must have 1 or more entries (got [])",
        ),
        (
            "name: a\npools: {p: {up_h: abc}}",
            "s.yaml:2:19: pools.p.up_h: must be a number or a map (got 'abc')",
        ),
        ("name: a\npools: {p: {up_h: 0}}", "s.yaml:2:19: pools.p.up_h: must be above 0 (got 0)"),
        ("name: a\npools: {p: {up_h: {}}}", "s.yaml:2:13: pools.p.up_h.mean: missing key"),
        (
            "name: a\npools: {p: {up_h: {mean: .inf}}}",
            "s.yaml:2:26: pools.p.up_h.mean: must be a finite number (got .inf)",
        ),
        (
            "name: a\npools: {p: {usd_per_h: .nan}}",
            "s.yaml:2:24: pools.p.usd_per_h: must be a finite number (got .nan)",
        ),
        ("name: a\npools: {p/q: {}}", f"s.yaml:2:9: pools.p/q: {NAME_RULE} (got 'p/q')"),
        (
            "name: a\npools: {p: {wrkers: 1, x: 2}}",
            "s.yaml:2:13: pools.p.wrkers: unknown key; did you mean 'workers'?",
        ),
        (
            "name: a\nmethod: {inner_steps: 5, zz: 1}",
            "s.yaml:2:26: method.zz: unknown key; allowed: inner_steps, outer, boundary",
        ),
        (
            "name: a\ntrain: {model: {d: 5}}",
            "s.yaml:2:9: train.model: d / heads must be an even whole number (got d 5, heads 4)",
        ),
        ("name: a\nname: b", "s.yaml:2:1: name: duplicate key (first on line 1)"),
    ],
)
def test_one_problem(text: str, line: str) -> None:
    assert line in problems(text)
    assert len(problems(text)) == 1 + ("x: 2" in text)


def test_what_cannot_be_read_hides_nothing_else() -> None:
    assert problems("1: x\nseed: *a\nclustre: &b {}") == [
        "s.yaml:1:1: a key must be text, if need be in quotes (got 1)",
        "s.yaml:1:1: name: missing key",
        "s.yaml:2:7: seed: aliases are not read; use extends (got '*a')",
        "s.yaml:3:1: clustre: unknown key; did you mean 'cluster'?",
        "s.yaml:3:10: clustre: anchors are not read; use extends (got '&b')",
    ]


def test_everything_at_once_in_the_order_of_the_file() -> None:
    text = """\
naem: a
seed: x
seed: 2
clutser: {stages: 2}
outages: {kind: per_global_step, probability: 2, duration_global_steps: 0}
recovery: {policy: [skip, idl]}
method: {outer: {name: average, density: 0.1}}
pools: {a: {usd_per_h: !!float 3}}
"""
    assert problems(text) == [
        "s.yaml:1:1: naem: unknown key; did you mean 'name'?",
        "s.yaml:2:7: seed: must be a whole number (got 'x')",
        "s.yaml:3:1: seed: duplicate key (first on line 2)",
        "s.yaml:4:1: clutser: unknown key; did you mean 'cluster'?",
        "s.yaml:5:47: outages.probability: must be at most 1 (got 2)",
        "s.yaml:5:73: outages.duration_global_steps: must be at least 1 (got 0)",
        "s.yaml:6:27: recovery.policy.1: must be 'skip', 'idle', 'wait', 'restart' or a map "
        "(got 'idl'); did you mean 'idle'?",
        "s.yaml:7:33: method.outer.density: unknown key; "
        "it belongs to name 'sparseloco', here name is 'average'",
        "s.yaml:8:24: pools.a.usd_per_h: tags are not read (got 'tag:yaml.org,2002:float')",
    ]


@pytest.mark.parametrize("name", ["nowhere.yaml", ".", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_one_problem(name: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(name)
    (problem,) = caught.value.problems
    assert problem.where == f"{name}:1:1"
    assert "\n" not in problem.message


def test_what_terminals_obey_is_never_printed() -> None:
    (line,) = problems('name: a\nrecovery: {policy: ["\\e[31mred\\n"]}')
    assert line.endswith("(got '\\x1b[31mred\\n')")


# --- shapes that the schema may grow --------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Exponential(Strict):
    law: Literal["exponential"] = "exponential"
    mean: float = Field(gt=0)


class Weibull(Strict):
    law: Literal["weibull"]
    mean: float = Field(gt=0)
    shape: float | Literal["fit"] = 1.0


Law = Annotated[Exponential | Weibull, Field(discriminator="law")]


class Toy(Strict):
    tagged: Annotated[float, Field(gt=0)] | Law | None = None
    plain: float | Exponential | Weibull = 1.0
    many: dict[str, Law] = Field(default_factory=dict)
    laws: list[Law] = Field(default_factory=list)
    share: float = Field(1, ge=0, lt=1)

    @model_validator(mode="after")
    def _consistent(self) -> Toy:
        if self.share == 0.5:
            raise Inconsistent(
                [(("share",), "no halves"), (("laws", 0, "x"), "lost"), ((), "in all")]
            )
        return self


def explained(text: str) -> list[str]:
    root, _ = read(text, "t")
    fill_tags(root, Toy)
    with pytest.raises(ValidationError) as caught:
        Toy.model_validate(root.plain())
    return [str(problem) for problem in explain(caught.value, root, Toy)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("tagged: -1", ["t:1:9: tagged: must be above 0 (got -1)"]),
        ("tagged: x", ["t:1:9: tagged: must be a number or a map (got 'x')"]),
        ("tagged: {}", ["t:1:1: tagged.mean: missing key"]),
        ("tagged: {law: weibull}", ["t:1:1: tagged.mean: missing key"]),
        (
            "tagged: {law: weibul, mean: 1}",
            [
                "t:1:15: tagged.law: must be 'exponential' or 'weibull' (got 'weibul'); "
                "did you mean 'weibull'?"
            ],
        ),
        (
            "tagged: {law: exponential, mean: 1, shape: 2}",
            [
                "t:1:37: tagged.shape: unknown key; it belongs to law 'weibull', "
                "here law is 'exponential'"
            ],
        ),
        (
            "tagged: {law: weibull, mean: 1, shape: []}",
            ["t:1:40: tagged.shape: must be a number or 'fit' (got [])"],
        ),
        ("plain: {law: weibull, mean: 0}", ["t:1:29: plain.mean: must be above 0 (got 0)"]),
        (
            "plain: {law: weibull, mean: 1, shpe: 2}",
            ["t:1:32: plain.shpe: unknown key; did you mean 'shape'?"],
        ),
        ("plain: no", ["t:1:8: plain: must be a number or a map (got 'no')"]),
        ("many: {a: {mean: x}}", ["t:1:18: many.a.mean: must be a number (got 'x')"]),
        ("laws: [{mean: 1}, {mean: x}]", ["t:1:26: laws.1.mean: must be a number (got 'x')"]),
        ("laws: {}", ["t:1:1: laws: must be a list (got {})"]),
        ("share: 1", ["t:1:8: share: must be below 1 (got 1)"]),
        (
            "share: 0.5\nlaws: [{mean: 1}]",
            ["t:1:8: share: no halves", "t:2:8: laws.0.x: lost", "t:1:1: in all"],
        ),
    ],
)
def test_unions_are_explained_without_their_branches(text: str, lines: list[Any]) -> None:
    assert explained(text) == lines
