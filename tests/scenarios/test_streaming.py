"""What a run leaves is written while it goes on: the same files, in memory that does not grow."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenarios import tables
from scenarios.derive import job_config
from scenarios.load import Loaded
from scenarios.plan import plan
from scenarios.record import Row, read_rows
from scenarios.run import execute
from scenarios.session import Run
from scenarios.sorter import Sorter
from sim.watched import WatchedJob

Small = Callable[..., Loaded]
FREE_LISTS_BYTES = 60_000
"""Python keeps some small objects that are free; the rows of a third would be 300,000 bytes."""


def timing_run(small: Small, tmp_path: Path, rounds: int, *more: str) -> Run:
    loaded = small("pools", "train=null", f"global_steps={rounds}", *more)
    planned = plan(loaded, tmp_path / "runs")
    return planned.runs[planned.cells["run"]]


def quiet(text: str) -> None:
    del text


RESTART = (
    "recovery={policy: [restart], checkpoint: {every_global_steps: 7}}",
    "pools.default.up_h.mean=0.05",
    "stop.tokens=9000000",
)
"""It ends between two checkpoints, so that rounds are left which nobody reads."""


@pytest.mark.parametrize("more", [(), RESTART], ids=["skip", "restart"])
def test_files_are_those_of_the_whole_run_to_the_bit(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    """Against tables that are made at once, of a job whose past was kept."""
    run = timing_run(small, tmp_path, 60, *more)
    monkeypatch.setattr(tables, "GROUP_SLOTS", 48)
    monkeypatch.setattr(tables, "GROUP_ROWS", 7)
    summary = execute(run, quiet)
    job = WatchedJob(job_config(run.scenario))
    rounds = itertools.islice(job.global_steps(), summary["global_steps"])
    assert [g.index for g in rounds][-1] == len(list(read_rows(run.folder.metrics))) - 1
    back_s = [None if math.isnan(spell.back_s) else spell.back_s for spell in job.spells()]
    spells = [
        (spell.worker, spell.zone, spell.gone_s, back_s[i], spell.cause)
        for i, spell in enumerate(job.spells())
    ]
    whole = {
        "steps": pa.Table.from_pylist(list(read_rows(run.folder.metrics)), tables.STEPS),
        "slots": pa.table(list(map(list, zip(*job.timeline(), strict=True))), tables.SLOTS),
        "outages": pa.table(list(map(list, zip(*spells, strict=True))), tables.OUTAGES),
    }
    for name, table in whole.items():
        file = pq.ParquetFile(run.folder.path / f"{name}.parquet")
        assert file.num_row_groups > 1, "in pieces"
        assert file.read().equals(table)
    ended_s = [spell.back_s - spell.gone_s for spell in job.spells() if spell.back_s < math.inf]
    assert summary["mean_outage_s"] == math.fsum(ended_s) / len(ended_s)


def test_memory_does_not_grow_with_rounds(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By more than the rounds that are written together."""
    monkeypatch.setattr(tables, "GROUP_SLOTS", 120)
    rounds, peaks = 240, list[int]()

    def peak(row: Row) -> None:
        if (row["global_step"] + 1) % (rounds // 3) == 0:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()

    run = timing_run(small, tmp_path, rounds)
    tracemalloc.start()
    try:
        execute(run, quiet, peak)
    finally:
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + FREE_LISTS_BYTES


def test_rows_are_sorted_as_python_sorts_them() -> None:
    """To the bit, words among them; equal rows stay as they came; no rows are an empty batch."""
    rows: list[tuple[Any, ...]] = [
        (i * 7919 % 101, 0.1 * (i * 31 % 17), f"word {i % 3}") for i in range(500)
    ]
    sorter = Sorter(["number", "at_s", "word"], by=["number", "at_s"])
    sorter.add(rows[:200])
    sorter.add(iter(rows[200:]))
    batches = list(sorter.batches(64))
    assert [len(batch) for batch in batches] == [64] * 7 + [52]
    assert [row for batch in batches for row in batch] == sorted(rows, key=lambda row: row[:2])
    assert list(Sorter(["number"], by=["number"]).batches(64)) == [[]]
