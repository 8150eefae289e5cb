"""What is written reads back the same; the schema is for editors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.load import bundled, dump, json_schema, load
from scenarios.schema import Scenario, Sweep
from scenarios.strict_yaml import read, scalar

SCENARIOS = {
    "empty": "name: a",
    "timing": "name: a\ntrain: null\nexpect: {usd: '< 5', wall_s: <1e9}",
    "published": "name: a\noutages: {kind: per_global_step, probability: 1e-2, stages: [1, 2]}",
    "laws": (
        "name: a\noutages: {kind: pools}\n"
        "pools: {p3.2xlarge: {workers: 40, up_h: {law: exponential, mean: 6}, outage_h: 1e-3},"
        " '1e3': {workers: 1}}"
    ),
    "script": (
        "name: a\noutages: {kind: script, script: {first: {replica: 0, stage: 1, gone_s: 1},"
        " second: {replica: 1, stage: 1, at: {global_step: 3}}}}"
    ),
    "sweep": "name: a\nsweep: {arms: {x: {seed: 3}, y: {train.inner.lr: 1e-5, 'expect.z': '1'}}}",
}
SWEPT = SCENARIOS["sweep"].replace("'1'", "'> 1'")


@pytest.mark.parametrize("text", [*list(SCENARIOS.values())[:-1], SWEPT], ids=SCENARIOS)
def test_a_dumped_scenario_loads_back_equal(text: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8")
    first = load(file)
    file.write_text(dump(first.scenario), encoding="utf-8")
    again = load(file)
    assert again.scenario == first.scenario
    assert again.cells == first.cells
    assert dump(again.scenario) == dump(first.scenario)


def test_bundled_scenarios_load_back_equal(tmp_path: Path) -> None:
    for name in bundled():
        file = tmp_path / f"{name}.yaml"
        file.write_text(dump(load(name).scenario), encoding="utf-8")
        assert load(file).scenario == load(name).scenario


def test_every_default_is_written() -> None:
    root, _ = read(dump(Scenario(name="a")), "f")
    assert root.plain() == Scenario(name="a").model_dump()


@given(
    st.one_of(
        st.text(),
        st.from_regex(r"[-+0-9.eE_xo:]{1,12}"),
        st.sampled_from(
            ["off", "1e-4", "null", "~", "", " a", "a: b", "# a", "> 1", "\u2028x\x85"]
        ),
    ).filter(lambda text: "\x00" not in text)
)
def test_any_text_survives(text: str) -> None:
    scenario = Scenario.model_construct(name="a", expect={text: text})
    expect = {text: text} if text.isprintable() else {}
    assert read(dump(scenario), "f")[0].plain()["expect"] == expect


@given(st.one_of(st.floats(allow_nan=False), st.integers(-(10**90), 10**90)))
def test_any_number_survives_with_its_type(number: float | int) -> None:
    scenario = Scenario.model_construct(name="a", sweep=Sweep(arms={"x": {"k": number}}))
    back = read(dump(scenario), "f")[0].plain()["sweep"]["arms"]["x"]["k"]
    assert (back, type(back)) == (number, type(number))


@given(st.floats(allow_nan=False))
def test_a_float_reads_as_python_writes_it(number: float) -> None:
    text = repr(number).replace("inf", ".inf")
    assert scalar(text) == number


def test_the_schema_takes_a_file_that_only_extends() -> None:
    schema = json_schema()
    assert schema["properties"]["extends"]["type"] == "string"
    assert schema["anyOf"] == [{"required": ["name"]}, {"required": ["extends"]}]
    assert "required" not in schema
    assert schema["additionalProperties"] is False
    assert schema["properties"].keys() - {"extends"} == Scenario.model_fields.keys()
