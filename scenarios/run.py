"""The one place where the clock and the training meet: a loop over committed global steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios import record, tables
from scenarios.derive import job_config
from scenarios.record import Row, check_coupling, row_of
from scenarios.session import Run, Session
from sim.job import Job
from sim.records import GlobalStep
from trainer.directive import Directive

OnRow = Callable[[Row], None]
Tell = Callable[[str], None]


def directive(g: GlobalStep) -> Directive:
    """The training half of a global step."""
    return Directive(g.index, g.steps, g.sends, g.joins)


def couple(job: Job, session: Session, on_row: OnRow) -> None:
    """The whole coupling: every global step is trained, checked and recorded."""
    for g in job.global_steps():  # re-simulated from 0 on resume
        told = directive(g)
        if session.has_done(told):
            continue
        trained = session.train(told)
        seen = session.evaluate(g.index)
        check_coupling(g, trained, session.expected)
        row = row_of(g, trained, seen, session.expected)
        session.record(row)
        on_row(row)
        session.checkpoint(g.index)


def execute(
    run: Run,
    tell: Tell,
    on_row: OnRow = lambda row: None,
    processes: Callable[[], int] = lambda: 1,
) -> dict[str, Any]:
    """Simulate and train a run to its end, from its last checkpoint if there is one.

    Writes everything of the run folder but summary.json, and returns what that will hold.

    Args:
        processes: how many one-threaded processes it may use by now; asked at every global step.
            It changes no result.

    Raises:
        StalledError, NonFiniteLoss, WorkerDied, StoreError, OSError: finished global steps are
            kept.
        LedgerError, CouplingError: a bug.
    """
    run.folder.create(run.scenario)
    with run.folder.locked(tell):
        job = Job(job_config(run.scenario))
        session = Session.open(run, job, tell, processes)
        with session:
            couple(job, session, on_row)
        session.write_environment()
        tables.write_steps(run.folder.steps, session.rows)
        tables.write_slots(run.folder.path / "slots.parquet", job)
        tables.write_outages(run.folder.path / "outages.parquet", job.spells())
    return record.summary_of(run.scenario, session.rows, job) | {
        "cell": run.cell,
        "anchor_sha256": session.anchor_sha256(),
    }
