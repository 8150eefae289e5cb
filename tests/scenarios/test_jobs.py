"""`--jobs`: runs side by side, a run over several processes; no result depends on it."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios import session
from scenarios.agenda import RunError, attempt
from scenarios.load import Loaded
from scenarios.plan import plan
from scenarios.record import read_rows
from scenarios.run import execute
from scenarios.session import Run
from scenarios.show import Show
from scenarios.study import run_all

Small = Callable[..., Loaded]


def quiet(text: str) -> None:
    del text


def the_run(loaded: Loaded, out: Path) -> Run:
    planned = plan(loaded, out)
    return planned.runs[planned.cells["run"]]


def test_a_killed_process_stops_the_run_with_its_steps_kept_and_it_resumes_to_the_same_bits(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "WORTH_S", 0.0)
    run = the_run(small("per_global_step"), tmp_path / "killed")

    def kill_after_two(row: dict[str, Any]) -> None:
        if row["global_step"] == 1:
            (child,) = multiprocessing.active_children()
            child.kill()
            child.join()

    outcome = attempt(run, quiet, kill_after_two, lambda: 2)
    assert isinstance(outcome, RunError)
    assert outcome.exit_code == 1
    assert "died (exit code -9; out of memory?). Finished global steps are kept" in outcome.message
    assert len(list(read_rows(run.folder.metrics))) == 2
    assert multiprocessing.active_children() == []
    whole = the_run(small("per_global_step"), tmp_path / "whole")
    assert execute(run, quiet) == execute(whole, quiet)
    assert run.folder.steps.read_bytes() == whole.folder.steps.read_bytes()
    assert run.folder.metrics.read_bytes() == whole.folder.metrics.read_bytes()


@pytest.mark.parametrize("kind", ["python", "cpu", "gpu", "bug"])
def test_a_machine_without_memory_left_is_told_in_a_line(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    import torch

    from trainer.loop import Trainer

    def step(*_: object) -> None:
        if kind == "python":
            raise MemoryError
        if kind == "cpu":
            torch.empty(1 << 55)
        if kind == "gpu":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate.\nMore lines")
        raise RuntimeError("a bug")

    monkeypatch.setattr(Trainer, "step", step)
    run = the_run(small("none"), tmp_path)
    if kind == "bug":
        with pytest.raises(RuntimeError, match="a bug"):
            attempt(run, quiet, lambda row: None, lambda: 1)
        return
    outcome = attempt(run, quiet, lambda row: None, lambda: 1)
    assert isinstance(outcome, RunError)
    assert outcome.message.startswith("out of memory")
    assert outcome.message.endswith(f"Finished global steps are kept in {run.folder.path}")
    assert (outcome.exit_code, outcome.message.count("\n")) == (1, 0)


def test_a_run_alone_uses_all_jobs_and_a_run_beside_others_its_share(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four jobs for two runs are two processes each; the one that is left then gets four, of which
    it needs as many as it has replicas. Where little is left to do, more are not started."""
    monkeypatch.setattr(session, "WORTH_S", 0.0)
    loaded = small("per_global_step", "train.eval_every=100")
    seen: list[int] = []

    def pause(row: dict[str, Any]) -> None:
        seen.append(len(multiprocessing.active_children()))
        if row["global_step"] == 0:
            time.sleep(0.1)

    run = the_run(loaded, tmp_path / "alone")
    alone = attempt(run, quiet, pause, lambda: 4)
    assert set(seen) == {2}  # this process and two more for three replicas
    monkeypatch.undo()
    seen.clear()
    assert attempt(the_run(loaded, tmp_path / "short"), quiet, pause, lambda: 4) == alone
    assert set(seen) == {0}
    with Show(is_quiet=True) as show:
        beside = run_all(plan(loaded, tmp_path / "beside"), 4, show)
    assert isinstance(alone, dict)
    assert beside.summaries["run"]["anchor_sha256"] == alone["anchor_sha256"]
    told = json.loads((tmp_path / "beside" / "small" / "study.json").read_text())
    for folder in told["cells"].values():
        env = json.loads((tmp_path / "beside" / "small" / folder / "env.json").read_text())
        assert env["process_s"] >= sum(env["measured_s"].values()) - 0.01
