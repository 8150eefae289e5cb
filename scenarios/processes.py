"""Groups of runs, here one after the other or side by side in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from analysis.files import write_atomically
from scenarios.agenda import Agenda, Group, Outcome, RunError, work
from scenarios.session import Run
from scenarios.store import RunFolder

if TYPE_CHECKING:
    from scenarios.show import Show, Tail

POLL_S = 0.5
Ended = Iterator[tuple[Run, Outcome]]


def run_groups(groups: list[Group], jobs: int, show: Show) -> Ended:
    """Execute groups with `jobs` one-threaded processes in all; every run as it ends."""
    agenda = Agenda(list(groups))
    side_by_side = min(jobs, len(groups)) > 1
    return _in_processes(agenda, jobs, show) if side_by_side else _here(agenda, jobs, show)


def _here(agenda: Agenda, jobs: int, show: Show) -> Ended:
    while not agenda.is_over:
        group = agenda.begin()
        if group is None:
            time.sleep(POLL_S)
            continue
        outcomes = work(group, show.tell, show.row, lambda: jobs)
        agenda.end(group, outcomes)
        yield from zip(group.runs, outcomes, strict=True)


def _child(group: Group, allowance: Path) -> list[Outcome]:
    tell = partial(print, file=sys.stderr, flush=True)
    return work(group, tell, lambda run, row: None, lambda: int(allowance.read_text()))


def _follow_the_parent() -> None:
    """Leave interrupts to the parent, and end when it ends, however it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "runs in a child"

    def outlive_nobody() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)  # as safe as a kill: finished steps are on disk

    threading.Thread(target=outlive_nobody, daemon=True).start()


def _in_processes(agenda: Agenda, jobs: int, show: Show) -> Ended:
    """Groups side by side. While fewer than `jobs` are left, each gets more processes; it learns of
    them through a file, at its next global step."""
    from scenarios.show import Tail  # rich, which a preview does not need

    tails = {run.folder: Tail(run.folder.metrics) for group in agenda.pending for run in group.runs}
    most = min(jobs, len(agenda.pending))
    with TemporaryDirectory() as folder:
        allowance = Path(folder) / "processes"
        while not agenda.is_over:  # again with new processes when one has died
            with ProcessPoolExecutor(
                most, mp_context=get_context("spawn"), initializer=_follow_the_parent
            ) as pool:
                try:
                    yield from _in_pool(pool, most, agenda, jobs, allowance, show, tails)
                except BaseException:  # interrupted: what runs ends now, its steps are kept
                    pool.shutdown(wait=False, cancel_futures=True)
                    for child in active_children():
                        child.terminate()
                    raise


def _in_pool(
    pool: ProcessPoolExecutor,
    most: int,
    agenda: Agenda,
    jobs: int,
    allowance: Path,
    show: Show,
    tails: dict[RunFolder, Tail],
) -> Ended:
    """Until nothing is left, or one of the processes has died: it takes those beside it along."""
    futures: dict[Future[list[Outcome]], Group] = {}
    is_broken = False
    while futures or not (is_broken or agenda.is_over):
        while not is_broken and len(futures) < most and (group := agenda.begin()) is not None:
            write_atomically(allowance, str(_share(jobs, agenda)))
            try:
                futures[pool.submit(_child, group, allowance)] = group
            except BrokenProcessPool:  # it has not begun: the next processes do it
                is_broken = True
                agenda.put_back(group)
        if not futures and is_broken:
            return
        if not futures:  # what is left waits for another command
            time.sleep(POLL_S)
            continue
        write_atomically(allowance, str(_share(jobs, agenda)))
        ended, _ = wait(futures, timeout=POLL_S, return_when=FIRST_COMPLETED)
        for run in (run for group in futures.values() for run in group.runs):
            if (row := tails[run.folder].newest()) is not None:
                show.row(run, row)
        for future in ended:
            group = futures.pop(future)
            try:
                outcomes = future.result()
            except BrokenProcessPool:
                is_broken = True
                outcomes = [RunError("its process died (out of memory?)")] * len(group.runs)
            agenda.end(group, outcomes)
            yield from zip(group.runs, outcomes, strict=True)


def _share(jobs: int, agenda: Agenda) -> int:
    """Processes for each of the groups that are left."""
    return max(1, jobs // max(1, len(agenda.running) + len(agenda.pending)))
