"""Run folders: identity, locks, broken records."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.files import aside, write_atomically
from scenarios import tables
from scenarios.derive import job_config
from scenarios.identity import fingerprint
from scenarios.load import Loaded
from scenarios.plan import plan, prepared
from scenarios.record import read_rows
from scenarios.store import Busy, RunFolder, StoreError
from scenarios.strict_json import dumps
from sim.job import Job

Small = Callable[..., Loaded]


def ready(loaded: Loaded) -> str:
    return fingerprint(prepared(loaded.scenario, loaded.root, with_training=True))


def test_a_run_is_known_by_what_it_does_and_reads(small: Small, tmp_path: Path) -> None:
    first = ready(small("none"))
    assert ready(small("none", "name=other")) == first
    assert ready(small("none", "expect={usd: '< 5'}")) == first
    for change in ("global_steps=7", "method.outer.lr=2", "pools.default.usd_per_h=3"):
        assert ready(small("none", change)) != first
    loaded = small("none")
    (tmp_path / "text" / "a.txt").write_text("another text entirely\n" * 999)
    assert ready(loaded) != first


def test_arms_that_cannot_differ_without_failures_share_their_no_failure_run(
    small: Small, tmp_path: Path
) -> None:
    arms = "sweep.arms={a: {recovery.policy: [idle]}, b: {recovery.policy: [wait]}}"
    planned = plan(small("pools", arms), tmp_path)
    assert len(planned.runs) == 3
    assert planned.baselines["a"] == planned.baselines["b"] == planned.cells["no_failure"]
    prices = "sweep.arms={a: {pools.default.usd_per_h: 1}, b: {pools.default.usd_per_h: 2}}"
    assert len(plan(small("pools", prices), tmp_path).runs) == 4
    assert planned.cells["a"].path.parent == tmp_path / "small"


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    write_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\udc80")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_so_are_tables(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands may replay one run: the second one's kill must not spoil what the first told."""
    folder, job = tmp_path / "run", Job(job_config(small("none", "train=null").scenario))
    folder.mkdir()
    files = {folder / f"{name}.parquet" for name in ("steps", "slots", "outages")}
    for file in files:
        file.write_text("whole")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write() -> None:
        with tables.tables(RunFolder(folder), job) as found:
            for step in job.global_steps():
                found.add({"global_step": step.index}, step)

    (folder / ".steps.parquet.0123456789abcdef").write_text("left by a kill: kills pile up nothing")
    monkeypatch.setattr(tables.pq.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        write()
    assert set(folder.iterdir()) == files
    assert all(file.read_text() == "whole" for file in files)


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    """On machines that share a folder they may have one and the same process number."""
    file = tmp_path / "study.json"
    with aside(file) as slow:
        slow.write_text("slow")
        write_atomically(file, "quick")
        assert file.read_text() == "quick"
    assert file.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [file]


def test_rows_end_where_the_record_is_cut_or_wrong(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    assert list(read_rows(file)) == []
    rows = [{"global_step": i, "val_loss": None} for i in range(3)]
    text = "".join(dumps(row) + "\n" for row in rows)
    file.write_text(text)
    assert list(read_rows(file)) == rows
    file.write_text(text[:-9])
    assert list(read_rows(file)) == rows[:2]
    file.write_text(dumps(rows[0]) + "\n" + dumps(rows[2]) + "\n")
    assert list(read_rows(file)) == rows[:1]
    file.write_bytes(b"\x00\xff\n" + text.encode())
    assert list(read_rows(file)) == []


def _hold(path: Path, held: multiprocessing.synchronize.Event) -> None:
    with RunFolder(path).locked(lambda text: None):
        held.set()
        multiprocessing.Event().wait()


def test_one_process_at_a_time_works_on_a_run(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held))
    other.start()
    assert held.wait(20)
    told: list[str] = []
    with (
        pytest.raises(StoreError, match="still works on this run"),
        RunFolder(tmp_path).locked(told.append, patience_s=0.5),
    ):
        pass
    assert len(told) == 1
    other.kill()
    other.join()
    with RunFolder(tmp_path).locked(told.append):
        assert len(told) == 1


def test_a_file_system_without_locks_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a study would wait for it for ever."""

    def no_locks(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with (
        pytest.raises(StoreError, match=r"cannot be locked \(No locks available\)") as caught,
        RunFolder(tmp_path / "run").locked(lambda text: None),
    ):
        pass
    assert not isinstance(caught.value, Busy)


def test_force_waits_for_who_works_on_the_run_and_forgets_all_of_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    told: list[str] = []
    with folder.locked(told.append):
        folder.metrics.write_text("kept")
        (folder.path / "figures").mkdir()  # of a report on this run alone
        (folder.path / "figures" / "bill.svg").touch()
        with pytest.raises(StoreError, match="still works on this run"):
            folder.clear(told.append, patience_s=0.3)
    assert folder.metrics.read_text() == "kept"
    folder.clear(told.append)
    assert [file.name for file in folder.path.iterdir()] == [".lock"]
