"""The one place where the clock and the training meet: a loop over committed global steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios.derive import job_config
from scenarios.directives import directive
from scenarios.record import Expected, LiveRecord, Row, check_coupling, row_of
from scenarios.session import Run, Session, session
from scenarios.strict_json import dumps
from scenarios.summary import Totals
from scenarios.tables import tables
from scenarios.until import global_steps
from sim.job import Job
from sim.records import GlobalStep

OnRow = Callable[[Row], None]
Keep = Callable[[GlobalStep, Row, bool], None]
"""Told of every global step, its row, and whether it was not known before."""
Tell = Callable[[str], None]


def couple(job: Job, training: Session, keep: Keep, on_row: OnRow) -> bool:
    """The whole coupling: every global step is trained, or known to be, checked and recorded.

    Returns whether a loss has ended it, which nobody could know beforehand.
    """
    scenario = training.run.scenario
    expected, enough = Expected.of(scenario, job), scenario.stop.val_loss
    for g in global_steps(job, scenario.stop):  # simulated from 0, whatever was trained before
        is_known = g.index < training.known
        done = training.step(directive(g))
        result, seen = (done.result, done.seen) if done is not None else (None, None)
        check_coupling(g, result, expected)
        row = row_of(g, result, seen, expected)
        keep(g, row, not is_known)
        training.commit(g.index, done)  # last: a disk that a checkpoint fills leaves the row
        if not is_known:
            on_row(row)
        if enough is not None and seen is not None and seen.val_loss <= enough:
            return True
    return False


def execute(
    run: Run,
    tell: Tell,
    on_row: OnRow = lambda row: None,
    processes: Callable[[], int] = lambda: 1,
    patience_s: float = 60.0,
) -> dict[str, Any]:
    """Simulate and train a run to its end, from where its training was left.

    Writes everything of the run folder but summary.json, and returns what that will hold.

    Args:
        on_row: told of every global step that was not known before.
        processes: how many one-threaded processes it may use by now; asked at every global step.
            It changes no result.
        patience_s: how long to wait for another process that works on the same.

    Raises:
        Busy: it has waited in vain.
        StalledError, TooLarge, NonFiniteLoss, WorkerDied, StoreError, OSError: finished global
            steps are kept.
        LedgerError, CouplingError: a bug.
    """
    with (
        run.folder.locked(tell, patience_s),
        session(run, tell, processes, patience_s) as training,
    ):
        run.folder.write_scenario(run.scenario)
        job = Job(job_config(run.scenario))
        totals = Totals(run.scenario, job)
        with tables(run.folder, job) as files:
            with LiveRecord(run.folder.metrics) as live:

                def keep(g: GlobalStep, row: Row, is_new: bool) -> None:
                    live.add(row, is_new)
                    files.add(row, g)
                    totals.add(row, g.spells)

                is_enough = couple(job, training, keep, on_row)
            if not is_enough:
                training.finish()
            training.write_environment()
    summary = totals.summary() | {
        "cell": run.cell,
        "anchor_sha256": training.facts.get("anchor_sha256"),
    }
    dumps(summary)  # rows may be finite, and their sum not
    return summary
