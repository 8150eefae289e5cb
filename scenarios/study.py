"""Plan and run the cells of a scenario, each beside its own no-failure run."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scenarios.consistency import NO_FAILURE
from scenarios.derive import no_failure
from scenarios.load import Loaded
from scenarios.memory import too_large
from scenarios.record import compare, read_rows
from scenarios.schema import Scenario
from scenarios.session import Run
from scenarios.speed import remember_speed
from scenarios.store import AGAIN, RunFolder, StoreError, write_atomically

if TYPE_CHECKING:
    from scenarios.show import Show

SINGLE = "run"
POLL_S = 0.5
ONE_SEED = "one seed, not evidence"


class RunError(Exception):
    """A run failed; finished global steps are kept. Crosses process borders."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message, exit_code)
        self.message, self.exit_code = message, exit_code


@dataclass(frozen=True)
class Plan:
    """What to run: every cell, and for each the no-failure run it is compared with."""

    name: str
    folder: Path
    runs: dict[RunFolder, Run]
    """Distinct runs, no-failure runs first: the others are compared with them."""
    cells: dict[str, RunFolder]
    baselines: dict[str, RunFolder]

    def todo(self) -> list[Run]:
        """Runs that are not finished yet."""
        return [run for folder, run in self.runs.items() if not folder.is_done]

    def baseline_of(self, run: Run) -> RunFolder:
        return self.baselines[run.cell]


def plan(loaded: Loaded, out: Path, with_training: bool = True) -> Plan:
    """Lay out the runs of a scenario; nothing is written."""
    runs: dict[RunFolder, Run] = {}
    cells: dict[str, RunFolder] = {}
    baselines: dict[str, RunFolder] = {}
    scenarios = {
        cell or SINGLE: prepared(scenario, loaded.root, with_training)
        for cell, scenario in loaded.cells.items()
    }
    for cell, scenario in scenarios.items():
        healthy = no_failure(scenario)
        folder = baselines[cell] = RunFolder.of(out, healthy)
        if folder not in runs:
            label = NO_FAILURE if not runs else f"{NO_FAILURE}:{cell}"
            runs[folder] = Run(label, healthy, folder)
            cells[label] = baselines[label] = folder
    for cell, scenario in scenarios.items():
        folder = cells[cell] = RunFolder.of(out, scenario)
        runs.setdefault(folder, Run(cell, scenario, folder))
    return Plan(loaded.scenario.name, out / loaded.scenario.name, runs, cells, baselines)


def prepared(scenario: Scenario, root: Path, with_training: bool) -> Scenario:
    """A cell as it is run: paths made absolute, training left out if asked."""
    if scenario.train is None:
        return scenario
    if not with_training:
        work = scenario.work.model_copy(
            update={"model": scenario.timed_model(), "sequences": scenario.timed_sequences()}
        )
        return scenario.model_copy(update={"train": None, "work": work})
    data = scenario.train.data
    given = {key: getattr(data, key, None) for key in ("path", "held_out")}
    paths = {key: str((root / path).resolve()) for key, path in given.items() if path is not None}
    data = data.model_copy(update=paths)
    train = scenario.train.model_copy(update={"data": data})
    return scenario.model_copy(update={"train": train})


def run_all(planned: Plan, jobs: int, show: Show) -> dict[str, dict[str, Any]]:
    """Run what is left, `jobs` one-threaded processes in all; summaries by cell.

    Raises:
        RunError: a run failed; the others are finished first. Or they need more memory than
            there is, and none was begun.
    """
    todo = planned.todo()
    for run in planned.runs.values():
        if run not in todo:
            show.tell(f"{run.cell}: finished before, {run.folder.path}")
    if problem := too_large([run.scenario for run in todo], jobs):
        show.tell(problem)
        raise RunError(problem, exit_code=2)
    write_study(planned)
    results: dict[RunFolder, dict[str, Any]] = {}
    errors: list[RunError] = []
    begin = _in_processes if min(jobs, len(todo)) > 1 else _in_this_process
    for run, outcome in begin(todo, jobs, show):
        if isinstance(outcome, RunError):
            show.tell(f"{run.cell}: {outcome.message}")
            errors.append(outcome)
        else:
            results[run.folder] = outcome
            _finish(planned, results)
    if errors:
        raise errors[0]
    return {cell: folder.summary() for cell, folder in planned.cells.items()}


def _finish(planned: Plan, results: dict[RunFolder, dict[str, Any]]) -> None:
    """Write the summaries of runs whose no-failure run has ended too: summary.json means done."""

    def no_failure_first(folder: RunFolder) -> bool:
        return folder != planned.baseline_of(planned.runs[folder])

    for folder in sorted(results, key=no_failure_first):
        baseline = planned.baseline_of(planned.runs[folder])
        if folder != baseline and not baseline.is_done:
            continue
        healthy = read_rows(baseline.metrics)
        summary = compare(results[folder], healthy) | {"label": ONE_SEED}
        if summary["val_loss"] is not None and summary["val_loss_no_failure"] is None:
            raise StoreError(f"{baseline.metrics}: the no-failure run's record is damaged; {AGAIN}")
        write_atomically(folder.path / "summary.json", json.dumps(summary, indent=2))
        folder.drop_checkpoints()
        remember_speed(planned.runs[folder], planned.folder.parent)
        del results[folder]


def write_study(planned: Plan) -> None:
    """study.json: which run folder is which cell, for the report."""
    told = {
        "name": planned.name,
        "cells": {cell: folder.path.name for cell, folder in planned.cells.items()},
        "baselines": {cell: folder.path.name for cell, folder in planned.baselines.items()},
    }
    planned.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(planned.folder / "study.json", json.dumps(told, indent=2))


# --- here or in other processes ---------------------------------------------------------------

Outcome = dict[str, Any] | RunError


def attempt(
    run: Run,
    tell: Callable[[str], None],
    on_row: Callable[..., None],
    processes: Callable[[], int],
) -> Outcome:
    """Execute a run; what may go wrong in the field becomes a RunError with one line."""
    from scenarios.run import execute  # brings torch if anything is trained
    from sim.job import StalledError
    from trainer.corpora import CorpusError

    the_users: tuple[type[Exception], ...] = (CorpusError,)
    in_the_field: tuple[type[Exception], ...] = (StalledError, StoreError, OSError, MemoryError)
    if run.scenario.train is not None:
        from trainer.replica import NonFiniteLoss
        from trainer.work import DeviceError
        from trainer.workers import WorkerDied

        in_the_field += (NonFiniteLoss, WorkerDied)
        the_users += (DeviceError,)
    try:
        return execute(run, tell, on_row, processes)
    except the_users as error:
        return RunError(str(error), exit_code=2)
    except in_the_field as error:
        return RunError(f"{error}. Finished global steps are kept in {run.folder.path}")


def _in_this_process(todo: list[Run], jobs: int, show: Show) -> Iterator[tuple[Run, Outcome]]:
    for run in todo:
        on_row = partial(show.row, run.cell, run.scenario.global_steps)
        yield run, attempt(run, show.tell, on_row, lambda: jobs)


def _child(run: Run, allowance: Path) -> Outcome:
    tell = partial(print, file=sys.stderr)
    return attempt(run, tell, lambda row: None, lambda: int(allowance.read_text()))


def _follow_the_parent() -> None:
    """Leave interrupts to the parent, and end when it ends, however it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "runs in a child"

    def outlive_nobody() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)  # as safe as a kill: finished steps are on disk

    threading.Thread(target=outlive_nobody, daemon=True).start()


def _in_processes(todo: list[Run], jobs: int, show: Show) -> Iterator[tuple[Run, Outcome]]:
    """Runs side by side. While fewer than `jobs` are left, each gets more processes; it learns of
    them through a file, at its next global step."""
    from scenarios.show import Tail  # rich, which a preview does not need

    tails = [(run, Tail(run.folder.metrics)) for run in todo]
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(
            min(jobs, len(todo)),
            mp_context=get_context("spawn"),
            initializer=_follow_the_parent,
        ) as pool,
    ):
        allowance = Path(folder) / "processes"
        write_atomically(allowance, str(max(1, jobs // len(todo))))
        futures: dict[Future[Outcome], Run] = {
            pool.submit(_child, run, allowance): run for run in todo
        }
        try:
            while futures:
                write_atomically(allowance, str(max(1, jobs // len(futures))))
                ended, _ = wait(futures, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for run, tail in tails:
                    row = tail.newest()
                    if row is not None:
                        show.row(run.cell, run.scenario.global_steps, row)
                for future in ended:
                    run = futures.pop(future)
                    try:
                        yield run, future.result()
                    except BrokenProcessPool:
                        yield run, RunError("its process died (out of memory?)")
        except BaseException:  # interrupted: what runs must end now, its finished steps are kept
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise
