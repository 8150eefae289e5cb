"""Fits of traces: known laws come back, censoring counts, a block lives like its trace."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.fit_coverage import TRUE, covered, drawn, traced
from scenarios import fit_match
from scenarios.cli import app
from scenarios.fit import fit_file
from scenarios.fit_laws import (
    FAMILIES,
    Durations,
    Family,
    best,
    fit_law,
    fit_laws,
    hazard,
    survival,
)
from scenarios.fit_trace import daily_rhythm, fit, pool_blocks, zone_correlation
from scenarios.fit_words import in_words
from scenarios.load import load
from sim.config import HOUR_S, Pool
from sim.records import Spell
from sim.traces.trace import TraceError, facts, of_spells

SETS = 30


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_intervals_cover_the_truth_unless_censoring_is_ignored(family: Family) -> None:
    """`benchmarks/fit_coverage.py` does it with 200 sets and the limits 90 and 98.5 %."""
    assert min(covered(family, SETS)) >= 0.83  # of 30 at 95 % fewer are one in 400
    assert min(covered(family, SETS // 3, ignoring=True)) <= 0.5
    assert min(covered(family, SETS // 2, draw=traced)) >= 0.73  # of 15 fewer are one in 600


def test_who_was_there_before_the_trace_is_in_no_law(tmp_path: Path) -> None:
    """Of 4 at first 3 are lost in an hour: their lives are not as long as that."""
    (tmp_path / "t.csv").write_text("time,count\n0,4\n3600,1\n7200,4\n10800,1\n14400,1\n")
    told = fit_file(tmp_path / "t.csv")
    assert (told["up"]["whole"], told["up"]["censored"]) == (2, 1)  # one of the first four stays
    assert "4 lives began before the trace" in " ".join(told["notes"])
    (tmp_path / "t.csv").write_text("0,4\n3600,1\n7200,1\n")
    notes = " ".join(fit_file(tmp_path / "t.csv")["notes"])
    assert "the block tells no law of them" in notes
    assert "without an outage_h of yours nobody comes back" in notes


def test_the_law_that_was_drawn_is_the_best_by_aic() -> None:
    for family in FAMILIES[1:]:
        laws = fit_laws(drawn(family, 3, 600))
        assert laws[0].family is family
        assert laws[0].parameters == pytest.approx(TRUE[family.name], rel=0.15)
        assert [law.aic for law in laws] == sorted(law.aic for law in laws)


def test_the_exponential_is_deaths_over_exposure() -> None:
    seen = Durations.of([1.0, 2.0, 3.0], [4.0])
    law = fit_law(FAMILIES[0], seen)
    assert law.parameters[0] == pytest.approx(10 / 3)
    half = 1.959964 / math.sqrt(3)  # of the logarithm: one over the root of the deaths
    assert math.log(law.high[0] / law.low[0]) == pytest.approx(2 * half, rel=1e-4)


def test_kaplan_and_meier_by_hand() -> None:
    """Of 5, one is cut before the second end: 4/5, then 2/3 of it."""
    found = survival(Durations.of([1.0, 3.0], [2.0, 4.0, 4.0]))
    share = dict(zip(found.hours.tolist(), found.share.tolist(), strict=True))
    assert (share[1.0], share[3.0]) == pytest.approx((4 / 5, 4 / 5 * 2 / 3))


def test_hazard_is_ends_over_hours_at_risk() -> None:
    rows = hazard(Durations.of([1.0, 2.0, 3.0, 4.0], [2.5]), bins=1)
    assert rows == [(0.0, 4.0, 4, pytest.approx(12.5))]


def pool(**keys: Any) -> Pool:
    return Pool.model_validate({"workers": 24, **keys})


SHOCKED = {
    "up_h": {"law": "exponential", "mean": 12.0},
    "outage_h": {"law": "lognormal", "mean": 0.6, "sigma": 0.8},
    "shocks": {"every_h": 5.0, "share": 0.5},
}


def test_the_block_of_a_simulated_pool_is_that_pool() -> None:
    """Own losses apart from shared ones, and the block lives as long a life as the trace."""
    trace = fit_match.played({"fitted": pool(**SHOCKED)}, 400, 0)
    found = fit(trace, "simulated")
    pools, rows = fit_match.nearest(pool_blocks(found), found.facts)
    block = pools["fitted"]
    assert block["up_h"]["mean"] == pytest.approx(12, rel=0.15)
    assert block["outage_h"] == {
        "law": "lognormal",
        "mean": pytest.approx(0.6, rel=0.1),
        "sigma": pytest.approx(0.8, rel=0.1),
    }
    assert block["shocks"]["every_h"] == pytest.approx(5, rel=0.25)
    assert block["shocks"]["share"] == pytest.approx(0.5, rel=0.1)
    assert {row.what for row in rows if not row.holds} == set()


def test_every_zone_is_a_pool_since_a_shock_takes_one(tmp_path: Path) -> None:
    """A single pool of all would lose the workers of all three at one instant."""
    zones = {name: pool(**SHOCKED) for name in ("us-1a", "us-1b", "eu")}
    trace = fit_match.played({**zones, "eu": pool(**{**SHOCKED, "workers": 8})}, 400, 0)
    found = fit(trace, "simulated")
    pools, rows = fit_match.nearest(pool_blocks(found), found.facts)
    assert {name: block["workers"] for name, block in pools.items()} == {
        "us-1a": 24,
        "us-1b": 24,
        "eu": 8,
    }
    assert pools["eu"]["shocks"]["every_h"] == pytest.approx(5, rel=0.25)
    assert {"bulk share", "mean bulk"} <= {row.what for row in rows if row.holds}
    rows_csv = "\n".join(f"{w},{z},{9 * w + 1},{9 * w + 7},x" for w, z in enumerate("<<>>"))
    (tmp_path / "t.csv").write_text(f"worker,zone,gone_s,back_s,cause\n{rows_csv}")
    told = fit_file(tmp_path / "t.csv")
    assert [*told["pools"]] == ["fitted_1", "fitted_2"], "no names of pools"
    assert "&id" not in in_words(told)


def test_a_pool_that_lives_otherwise_does_not_match() -> None:
    found = facts(fit_match.played({"fitted": pool(**SHOCKED)}, 400, 0))
    alone = {"workers": 24, "up_h": 3.5, "outage_h": SHOCKED["outage_h"]}
    wrong = {row.what for row in fit_match.matches({"a": alone}, found) if not row.holds}
    assert {"bulk share", "mean bulk"} <= wrong


def test_a_cap_is_found_and_censors() -> None:
    capped = pool(life_cap_h=24, up_h=40.0, outage_h=1.0)
    found = fit(fit_match.played({"a": capped}, 300, 0), "capped")
    assert found.cap_h == pytest.approx(24)
    assert not len(found.up.whole)
    assert pool_blocks(found)[0]["fitted"]["life_cap_h"] == pytest.approx(24)


def test_a_daily_rhythm_shows() -> None:
    spells = [
        Spell(worker, "z", (24 * day + 8) * HOUR_S, (24 * day + 16) * HOUR_S, "x")
        for day in range(10)
        for worker in range(4)
    ]
    found = daily_rhythm(of_spells(spells, ["z"] * 4, 240 * HOUR_S))
    assert found == pytest.approx(0.9)  # ten days, of which nine have a day before
    assert daily_rhythm(of_spells(spells, ["z"] * 4, 47 * HOUR_S)) is None


def test_zones_that_fail_together_are_correlated() -> None:
    spells = [
        Spell(w, "ab"[w], 3600.0 * 7 * k, 3600.0 * (7 * k + 3), "x")
        for k in range(1, 20)
        for w in (0, 1)
    ]
    assert zone_correlation(of_spells(spells, ["a", "b"], 140 * HOUR_S))["a, b"] == pytest.approx(1)


# --- the command ------------------------------------------------------------------------------

EVENTS = "".join(
    f"{600_000 * k},add,n{k}\n" if k < 40 else f"{600_000 * k},remove,n{k - 40}\n"
    for k in range(80)
)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fit", *arguments])


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.fit_match.RUNS", 5)


def test_the_command_prints_a_block_that_a_scenario_takes(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(EVENTS)
    done = invoke(str(file), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "measured   40 losses" in done.stdout
    assert "40 whole, 0 censored" in done.stdout
    block = done.stdout[done.stdout.index("pools:") :].partition("\n\n")[0]
    scenario = tmp_path / "s.yaml"
    scenario.write_text(f"name: s\ncluster: {{replicas: 2}}\noutages: {{kind: pools}}\n{block}\n")
    assert load(scenario).scenario.pools["fitted"].workers == 40
    told = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert told["pools"]["fitted"]["workers"] == 40
    for name in ("fit.png", "fit.svg", "fit.csv"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    again = invoke(str(file), "--json")
    assert json.loads(again.stdout) == told


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ("0,add,a\n5,sell,a\n", (), "t.csv:2: must be add or remove (got 'sell')"),
        ("0,3\n9,3\n", (), "t.csv: nobody is ever lost in it"),
        (EVENTS, ("--zone", "moon"), "t.csv: no such zone; it has trace (got 'moon')"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(
    tmp_path: Path, text: str, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    done = invoke(str(tmp_path / "t.csv"), *arguments)
    assert done.exit_code == 2
    assert done.stderr.replace(f"{tmp_path}/", "").startswith(says)
    assert done.stderr.count("\n") == 1


def test_a_law_that_no_scenario_can_tell_is_none_to_paste() -> None:
    """Half of the machines are replaced at once: an instant, or an hour, is no law of one scale."""
    seen = Durations.of([2e-16, 3e-16, 2.5e-16, 1e-16, 4e-16, 0.5, 1.0, 1.5, 2.0, 1.2], [])
    laws = fit_laws(seen)
    assert laws[0].is_too_wide
    chosen = best(laws)
    assert chosen is not None
    assert chosen.block() == {"law": "exponential", "mean": pytest.approx(0.62)}


def test_a_bulk_of_few_among_many_is_no_shock() -> None:
    """A scenario's shock takes a thousandth at least."""
    spells = [Spell(w, "z", HOUR_S * k, HOUR_S * (k + 0.5), "x") for k in (1, 2, 3) for w in (0, k)]
    found = fit(of_spells(spells, ["z"] * 3000, 5 * HOUR_S), "x")
    assert found.shocks is None
    assert Pool.model_validate(pool_blocks(found)[0]["fitted"]).workers == 3000


def test_large_traces_and_many_zones_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.fit.MOST_PLAYED", 30)
    rows = [f"{k},z{k},{3600 + k % 3},{7200 + k},x" for k in range(30)]
    text = "worker,zone,gone_s,back_s,cause\n" + "\n".join(rows)
    (tmp_path / "t.csv").write_text(text)
    told = fit_file(tmp_path / "t.csv")
    assert told["match"] == []
    assert "is not held against them" in told["notes"][-1]
    assert told["zone_correlation"] == {}
    assert "fitted     up" in in_words(told)


LITTLE = {
    "one loss": "0,2\n3600,1\n7200,1\n",
    "one machine": "0,1\n3600,0\n7200,1\n9000,0\n9600,1\n",
    "all at once": "0,9\n3600,0\n7200,9\n9000,0\n9600,9\n",
    "equal lives": "".join(f"{k},{(k // 60) % 2 * 4}\n" for k in range(0, 3600, 60)),
    "one life": "life_s,end\n500,preempted\n",
    "only stopped and one capped": "life_s,end\n500,stop\n86500,capped\n",
}
ODD = {
    "lost before it began": "# workers: 3, end_s: 7200\nworker,zone,gone_s,back_s,cause\n"
    "0,z,0,3600,x\n1,z,0,nan,x\n2,z,30,nan,x\n",
    "back and lost at one instant": "worker,zone,gone_s,back_s,cause\n"
    "0,z,0,100,x\n1,z,0,100,x\n0,z,100,200,x\n1,z,100,200,x\n",
    "lives of a denormal length": "time,count\n0,3\n1e-300,2\n2e-300,3\n",
    "lives that are almost equal": "life_s,end\n"
    + "".join(f"{3600 + k * 1e-9!r},preempted\n" for k in range(9)),
    "instants and hours": "worker,zone,gone_s,back_s,cause\n"
    + "".join(f"{k},z,{10.0 ** (k - 9)!r},{2 * 10.0 ** (k - 9)!r},x\n" for k in range(14)),
}


@pytest.mark.parametrize("name", LITTLE)
def test_little_is_said_of_little(tmp_path: Path, name: str) -> None:
    """No warning, no traceback, strict JSON."""
    (tmp_path / "t.csv").write_text(LITTLE[name])
    told = fit_file(tmp_path / "t.csv")
    json.dumps(told, allow_nan=False)
    done = invoke(str(tmp_path / "t.csv"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ODD)
def test_odd_durations_are_no_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.csv").write_text(ODD[name])
    told = fit_file(tmp_path / "t.csv")
    json.dumps(told, allow_nan=False)
    assert in_words(told)


LENGTHS_S = st.floats(-12, 9).map(lambda power: 10.0**power)


@settings(max_examples=40, deadline=None)
@given(counts=st.lists(st.tuples(LENGTHS_S, st.integers(0, 5)), min_size=2, max_size=25))
def test_any_counts_are_fitted_or_told(
    counts: list[tuple[float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lengths over twenty orders of magnitude in one trace."""
    file = tmp_path_factory.getbasetemp() / "t.csv"
    times_s = itertools.accumulate(length_s for length_s, _ in counts)
    rows = (f"{t_s!r},{count}" for t_s, (_, count) in zip(times_s, counts, strict=True))
    file.write_text("time,count\n" + "\n".join(rows))
    with contextlib.suppress(TraceError):
        told = fit_file(file)
        json.dumps(told, allow_nan=False)
        assert in_words(told)


def test_a_trace_without_losses_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody is ever lost"):
        fit(of_spells([], ["z"], 3600.0), "x")
