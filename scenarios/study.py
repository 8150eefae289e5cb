"""Run what is left of a study, and finish its runs: each beside its own no-failure run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.files import write_atomically
from scenarios.agenda import RunError, grouped
from scenarios.load import Loaded
from scenarios.memory import too_large
from scenarios.plan import Plan, plan
from scenarios.processes import run_groups
from scenarios.record import read_rows
from scenarios.schema import SeedsUntil, Stop
from scenarios.seeds import wanted
from scenarios.session import Run
from scenarios.shard import Shard
from scenarios.speed import remember_speed
from scenarios.store import AGAIN, Busy, RunFolder, StoreError
from scenarios.summary import compare

if TYPE_CHECKING:
    from scenarios.show import Show

ONE_SEED = "one seed, not evidence"


@dataclass
class Result:
    """What came of a study."""

    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of the cells that are finished."""
    failed: dict[str, str] = field(default_factory=dict)
    """Of the others, in one line, why."""
    exit_code: int = 0


def run_study(
    loaded: Loaded,
    out: Path,
    jobs: int,
    show: Show,
    *,
    with_training: bool = True,
    shard: Shard | None = None,
    force: bool = False,
) -> tuple[Plan, Result]:
    """Run a study to its end, seeds added where they are wanted; the last plan and its result.

    Args:
        shard: run only this part; who runs without one, later, brings the parts in.
        force: forget earlier results first, and what was trained for them.

    Raises:
        RunError: it needs more memory than there is; nothing was begun.
        StoreError: the results of a finished run are damaged.
    """
    added: dict[str, int] = {}
    failed: dict[RunFolder, RunError] = {}
    forgotten: set[Path] = set()
    while True:
        planned = plan(loaded, out, with_training, added)
        mine = planned.runs.keys() if shard is None else shard.runs(planned)
        if force:
            _forget((planned.runs[folder] for folder in mine), forgotten, show)
        result = run_all(planned, jobs, show, failed, mine)
        more = wanted(planned, result.summaries)
        if shard is not None or not more:
            return planned, result
        show.tell(f"{len(more)} points are not known well enough: a seed more for each")
        added |= more


def _forget(runs: Iterable[Run], forgotten: set[Path], show: Show) -> None:
    """Drop results, and what was trained for them; each once."""
    for run in runs:
        for each in (run.folder, run.training):
            if each is not None and each.path not in forgotten:
                each.clear(show.tell)
                forgotten.add(each.path)


def run_all(
    planned: Plan,
    jobs: int,
    show: Show,
    failed: dict[RunFolder, RunError] | None = None,
    mine: Collection[RunFolder] | None = None,
) -> Result:
    """Run what is left, `jobs` one-threaded processes in all. What fails, fails alone.

    failed: runs that are not tried again; those that fail are added. mine: run only these.

    Raises: as `run_study`.
    """
    failed = {} if failed is None else failed
    todo = planned.todo()
    if before := len(planned.runs) - len(todo):
        show.tell(f"{before} of {len(planned.runs)} runs finished before")
    for run in todo:
        ahead = planned.outlooks.get(run.folder)
        if ahead is not None and ahead.stalled and run.folder not in failed:
            show.tell(f"{run.cell}: {ahead.stalled}")
            failed[run.folder] = RunError(ahead.stalled)
    mine = planned.runs.keys() if mine is None else mine
    groups = grouped(run for run in todo if run.folder in mine and run.folder not in failed)
    if problem := too_large([group.runs[0].scenario for group in groups], jobs):
        show.tell(problem)
        raise RunError(problem, exit_code=2)
    write_study(planned, {})
    show.begin(groups)
    ended: dict[RunFolder, dict[str, Any]] = {}
    elsewhere: set[RunFolder] = set()
    for run, outcome in run_groups(groups, jobs, show):
        if isinstance(outcome, RunError):
            show.tell(f"{run.cell}: {outcome.message}")
            failed[run.folder] = outcome
        elif isinstance(outcome, dict):
            ended[run.folder] = outcome
        if not isinstance(outcome, Busy):
            show.end(run, outcome if isinstance(outcome, dict) else None)
        elif run.folder not in elsewhere:
            show.tell(f"{run.cell}: another command works on it; looked at again later")
            elsewhere.add(run.folder)
        _finish(planned, ended)
    return _result(planned, failed)


def _result(planned: Plan, failed: dict[RunFolder, RunError]) -> Result:
    """Summaries of what is finished; study.json says what is not, and why."""
    result = Result(exit_code=max((error.exit_code for error in failed.values()), default=0))
    for cell, folder in planned.cells.items():
        baseline = planned.baselines[cell]
        if folder.is_done:
            result.summaries[cell] = _labelled(planned, cell, folder)
        elif folder in failed:
            result.failed[cell] = failed[folder].message
        elif baseline in failed:
            result.failed[cell] = f"its no-failure run failed: {failed[baseline].message}"
    write_study(planned, result.failed)
    if len(result.summaries) == len(planned.cells):
        for run in planned.runs.values():  # nobody begins anywhere any more
            if run.training is not None and run.training.keep_at:
                run.training.drop_checkpoints()
    return result


def _finish(planned: Plan, ended: dict[RunFolder, dict[str, Any]]) -> None:
    """Write the summaries of runs whose no-failure run has ended too: summary.json means done."""

    def no_failure_first(folder: RunFolder) -> bool:
        return folder != planned.baseline_of(planned.runs[folder])

    for folder in sorted(ended, key=no_failure_first):
        run = planned.runs[folder]
        baseline = planned.baseline_of(run)
        if folder != baseline and not baseline.is_done:
            continue
        summary = compare(ended[folder], read_rows(baseline.metrics)) | {
            "label": _label(planned, run)
        }
        is_due = summary["val_loss"] is not None and run.scenario.stop == Stop()
        if is_due and summary["val_loss_no_failure"] is None:
            raise StoreError(f"{baseline.metrics}: the no-failure run's record is damaged; {AGAIN}")
        folder.write_json("summary.json", summary)
        remember_speed(run, planned.folder.parent)
        del ended[folder]


def _label(planned: Plan, run: Run) -> str:
    """What every output says of a point with one seed."""
    same = next(labels for labels in planned.seeds.values() if run.cell in labels)
    return ONE_SEED if len(same) == 1 else ""


def _labelled(planned: Plan, cell: str, folder: RunFolder) -> dict[str, Any]:
    """A finished run's summary; a study that has grown since calls it by another name."""
    summary, run = folder.summary(), planned.runs[folder]
    told = {"cell": run.cell, "label": _label(planned, run)}
    if summary | told != summary:
        summary |= told
        folder.write_json("summary.json", summary)
    return summary


def write_study(planned: Plan, failed: dict[str, str]) -> None:
    """study.json: which run folder is which cell, for the report."""
    until = planned.sweep.seeds
    told = {
        "name": planned.name,
        "cells": {cell: folder.path.name for cell, folder in planned.cells.items()},
        "baselines": {cell: folder.path.name for cell, folder in planned.baselines.items()},
        "points": {cell: asdict(point) for cell, point in planned.points.items()},
        "parameters": planned.sweep.parameters or {},
        "arms": list(planned.sweep.arms or {}),
        "seeds": sorted({point.seed for point in planned.points.values()}),
        "until_half_width": until.half_width if isinstance(until, SeedsUntil) else None,
        "failed": failed,
    }
    planned.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(planned.folder / "study.json", json.dumps(told, indent=2))
