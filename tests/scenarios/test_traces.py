"""Traces in scenarios: found beside the file, told where they are wrong, part of what a run is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scenarios.cells import SINGLE
from scenarios.cli import app
from scenarios.identity import fingerprint
from scenarios.load import ScenarioError, load
from scenarios.plan import plan, prepared
from scenarios.run import execute
from scenarios.traces import read_trace
from sim.traces.trace import facts

TIMED = """
name: timed
global_steps: 40
cluster: {replicas: 2, stages: 3}
train: null
work: {model: 178m, sequences: 8, micro_batches: 4}
pools: {default: {workers: 7, usd_per_h: 1.0, provision_s: 2, detect_s: 1, notice_s: 3}}
"""
EVENTS = "0,add,a\n0,add,b\n30000,remove,a\n90000,add,c\n150000,remove,b\n200000,add,d\n"


def scenario(folder: Path, outages: str, more: str = "") -> Path:
    file = folder / "timed.yaml"
    file.write_text(f"{TIMED}outages: {{{outages}}}\n{more}")
    return file


def finished(file: Path, out: Path) -> Path:
    """Run a scenario; the folder of its run."""
    planned = plan(load(file), out)
    folder = planned.cells[SINGLE]
    execute(planned.runs[folder], tell=lambda text: None)
    return folder.path


def test_a_run_replays_from_its_parquet(tmp_path: Path) -> None:
    """Workers that were never lost and the end of the run are beside the columns."""
    (tmp_path / "events.csv").write_text(EVENTS)
    first = finished(scenario(tmp_path, "kind: trace, path: events.csv"), tmp_path / "a")
    trace = read_trace(first / "outages.parquet")
    assert trace.workers == 7
    assert facts(trace).losses > 0
    again = scenario(tmp_path, f"kind: trace, path: {first / 'outages.parquet'}, wrap: false")
    second = finished(again, tmp_path / "b")
    one, other = (pq.read_table(x / "outages.parquet") for x in (first, second))
    assert one.equals(other, check_metadata=True)
    assert one.num_rows > 0


def test_the_trace_itself_is_part_of_what_a_run_is(tmp_path: Path) -> None:
    """Its content, and not where it lies."""

    def key(path: str) -> str:
        loaded = load(scenario(tmp_path, f"kind: trace, path: {path}"))
        return fingerprint(prepared(loaded.scenario, loaded.root, with_training=True))

    (tmp_path / "deep").mkdir()
    for name in ("one.csv", "deep/two.txt"):
        (tmp_path / name).write_text(EVENTS)
    (tmp_path / "other.csv").write_text(EVENTS + "300000,remove,c\n")
    assert key("one.csv") == key("deep/two.txt") != key("other.csv")


@pytest.mark.parametrize(
    ("outages", "says"),
    [
        ("kind: trace, path: no.csv", "no.csv: cannot be read: No such file or directory"),
        ("kind: trace, path: bad.csv", "bad.csv:2: must be add or remove (got 'sell')"),
        ("kind: trace, path: lives.csv", "lives.csv: tells lives and no returns"),
        ("kind: trace, path: good.csv, offset_h: 1", "good.csv: ends after 0.0555556 h"),
        ("kind: trace, path: good.csv, zone: moon", "good.csv: no such zone; it has trace"),
        ("kind: trace, path: short.csv", "short.csv: lasts 2e-300 s, too short to begin again"),
    ],
)
def test_what_is_wrong_with_a_trace_is_told_at_its_key(
    tmp_path: Path, outages: str, says: str
) -> None:
    (tmp_path / "bad.csv").write_text("0,add,a\n5,sell,a\n")
    (tmp_path / "good.csv").write_text(EVENTS)
    (tmp_path / "lives.csv").write_text("life_s,end\n5,stop\n")
    (tmp_path / "short.csv").write_text("time,count\n0,3\n1e-300,2\n2e-300,3\n")
    file = scenario(tmp_path, outages)
    with pytest.raises(ScenarioError) as caught:
        load(file)
    line = str(caught.value).replace(f"{tmp_path}/", "")
    column = file.read_text().splitlines()[-1].index("path: ") + len("path: ") + 1
    assert line.startswith(f"timed.yaml:8:{column}: outages.path: {says}")


def test_an_arm_may_have_a_trace_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text(EVENTS)
    arms = "sweep: {arms: {calm: {outages.kind: none}, far: {outages.path: far.csv}}}\n"
    with pytest.raises(ScenarioError) as caught:
        load(scenario(tmp_path, "kind: trace, path: good.csv", arms))
    assert ":9:44: sweep.arms.far: " in str(caught.value)


@pytest.mark.parametrize("law", ["up_h: 3", "outage_h: 3", "regime: owned", "life_cap_h: 24"])
def test_laws_beside_a_trace_are_unused(tmp_path: Path, law: str) -> None:
    (tmp_path / "good.csv").write_text(EVENTS)
    text = TIMED.replace("workers: 7", f"workers: 7, {law}")
    file = tmp_path / "timed.yaml"
    file.write_text(f"{text}outages: {{kind: trace, path: good.csv}}\n")
    with pytest.raises(ScenarioError, match=r"is used only with outages.kind: pools \(got trace\)"):
        load(file)


@pytest.mark.parametrize("command", [["check"], ["run", "--dry-run"]])
def test_check_and_preview_find_the_trace(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "good.csv").write_text(EVENTS)
    file = scenario(tmp_path, "kind: trace, path: good.csv")
    done: Any = CliRunner().invoke(app, [*command, str(file)])
    assert done.exit_code == 0, done.output
    assert "outages, degraded share" in done.output
