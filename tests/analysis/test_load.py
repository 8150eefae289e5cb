"""Runs as data frames, and the files that cannot become one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis import folders, load
from analysis.load import AnalysisError
from analysis.reach import reach, target_loss

Study = Callable[..., Path]


@pytest.fixture
def folder(study: Study, three: Any) -> Path:
    return study(three(global_steps=12))


def first(folder: Path, name: str) -> Path:
    return folder / "000000000001-s0" / name


def test_the_columns_are_those_that_runs_have() -> None:
    """The contract with the writer, which analysis itself may not import."""
    from scenarios import tables
    from sim.records import CLASSES, TIMELINE_STATES

    assert set(load._STEPS) <= set(tables.STEPS.names)
    assert set(load._SLOTS) <= set(tables.SLOTS.names)
    assert set(load._OUTAGES) <= set(tables.OUTAGES.names)
    assert set(folders.CLASSES) == set(CLASSES)
    assert set(load.STATES) == set(TIMELINE_STATES)


def test_a_study_as_frames(folder: Path) -> None:
    study = load.load(folder)
    assert [run.cell for run in study.runs] == ["no_failure", "skip", "idle"]
    assert [run.cell for run in study.faulty] == ["skip", "idle"]
    assert study.has_losses
    assert study.has_prices
    assert study.is_proxy
    run = study.runs[2]
    assert study.baseline_of(run) is study.runs[0]
    assert run.scenario["cluster"] == {"replicas": 8, "stages": 4}
    assert run.env["corpus"]["source"] == "python-stdlib"
    assert len(run.steps) == 12
    told = run.cumulative()
    assert told["end_s"][-1] == run.summary["wall_s"]
    assert told["train_tokens"][-1] == run.summary["train_tokens"]
    assert told["usd"][-1] == pytest.approx(run.summary["usd"]["total"])
    assert all(values[0] == 0 and (np.diff(values) >= 0).all() for values in told.values())


def test_evaluations_stand_where_their_rounds_end(folder: Path) -> None:
    seen = load.load(folder).runs[1].evaluated()
    assert list(seen["global_steps"]) == [5, 10, 12]
    assert list(seen["end_s"]) == [5 * 155.0, 10 * 155.0, 12 * 155.0]


def test_a_timing_study_loads_without_losses(study: Study, three: Any) -> None:
    found = load.load(study(three(global_steps=3, trains=False)))
    assert not found.has_losses
    assert target_loss(found) is None
    assert found.runs[0].steps["val_loss"].isna().all()
    assert found.runs[0].evaluated().empty


@pytest.mark.parametrize("name", ["steps.parquet", "slots.parquet", "outages.parquet"])
@pytest.mark.parametrize("keep", [0, 40, 400])
def test_a_truncated_parquet_file(folder: Path, name: str, keep: int) -> None:
    path = first(folder, name)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(AnalysisError, match=rf"{name}: .* run the scenario again with --force"):
        load.load(folder)


@pytest.mark.parametrize(
    "name", ["steps.parquet", "slots.parquet", "outages.parquet", "scenario.yaml", "env.json"]
)
def test_a_missing_file(folder: Path, name: str) -> None:
    first(folder, name).unlink()
    with pytest.raises(AnalysisError, match=f"{name}: "):
        load.load(folder)


@pytest.mark.parametrize("text", ["", "[1]", "a: [", "a: !!python/object/apply:os.getcwd []"])
def test_a_broken_scenario(folder: Path, text: str) -> None:
    first(folder, "scenario.yaml").write_text(text)
    with pytest.raises(AnalysisError, match=r"scenario\.yaml: "):
        load.load(folder)


def test_a_missing_column(folder: Path) -> None:
    path = first(folder, "steps.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["usd_egress"]), path)
    with pytest.raises(AnalysisError, match=r"steps\.parquet: no column usd_egress"):
        load.load(folder)


def test_an_unknown_state(folder: Path) -> None:
    path = first(folder, "slots.parquet")
    table = pq.read_table(path)
    states = pa.array(["<b>"] * len(table))
    pq.write_table(table.set_column(table.column_names.index("state"), "state", states), path)
    with pytest.raises(AnalysisError, match=r"slots\.parquet: states \['<b>'\]"):
        load.load(folder)


def test_rows_that_do_not_fit_the_summary(folder: Path) -> None:
    path = first(folder, "steps.parquet")
    pq.write_table(pq.read_table(path).slice(0, 5), path)
    with pytest.raises(AnalysisError, match="5 global steps"):
        load.load(folder)


def test_a_run_folder_loads_with_its_no_failure_run(folder: Path) -> None:
    study = load.load(folder / "000000000002-s0")
    assert [run.cell for run in study.runs] == ["no_failure", "idle"]


def test_a_moved_run_folder_loads_alone(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "000000000002-s0", tmp_path / "moved")
    assert [run.cell for run in load.load(tmp_path / "moved").runs] == ["idle"]


def test_every_run_reaches_the_highest_final_loss(folder: Path) -> None:
    study = load.load(folder)
    target = target_loss(study)
    assert target == study.runs[2].summary["val_loss"]
    last = reach(study.runs[2], target)
    assert last is not None
    assert last.end_s == study.runs[2].wall_s
    assert last.usd == pytest.approx(study.runs[2].summary["usd"]["total"])
    sooner = reach(study.runs[0], target)
    assert sooner is not None
    seen = study.runs[0].evaluated()
    place = np.interp(sooner.global_steps, seen["global_steps"], seen["val_loss"])
    assert place == pytest.approx(target)
    assert sooner.end_s == pytest.approx(155.0 * sooner.global_steps)
    assert not sooner.is_bound
    early = reach(study.runs[0], 99.0)
    assert early is not None
    assert early.is_bound
    assert reach(study.runs[0], 0.0) is None
