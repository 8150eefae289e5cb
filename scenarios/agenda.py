"""Who is next: groups of runs that train the same, longest first, each when it can begin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from scenarios.session import Run
from scenarios.speed import train_flops
from scenarios.store import Busy, StoreError

AGAIN_S = 2.0
"""What another command works on is looked at again after this."""


class RunError(Exception):
    """A run failed; finished global steps are kept. Crosses process borders."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message, exit_code)
        self.message, self.exit_code = message, exit_code


Outcome = dict[str, Any] | RunError | Busy | None
"""Of a run: what its summary will hold; why it failed; another command is at it; or it has finished
the run in the meantime."""


@dataclass(frozen=True, eq=False)
class Group:
    """Runs with one training: the first trains, the others take it from the store."""

    runs: tuple[Run, ...]

    @property
    def training(self) -> Path | None:
        training = self.runs[0].training
        return training.path if training is not None else None

    @property
    def begins_in(self) -> Path | None:
        """The training that must have come to where this one leaves it."""
        training = self.runs[0].training
        if training is None or training.fork is None or training.fork.is_there:
            return None
        return training.fork.of.path

    def steps(self) -> int:
        """Global steps to train where nothing of it has been trained."""
        training = self.runs[0].training
        if training is None:
            return 0
        return training.steps - (training.fork.at if training.fork is not None else 0)

    def flops(self) -> float:
        """Of what is to be trained."""
        return train_flops(self.runs[0].scenario, self.steps())


def grouped(runs: Iterable[Run]) -> list[Group]:
    """Runs by what they train, in the order to begin them."""
    found: dict[object, list[Run]] = {}
    for run in runs:
        found.setdefault(run.training.path if run.training else run.folder, []).append(run)
    groups = [Group(tuple(same)) for same in found.values()]
    awaited = {group.begins_in for group in groups} - {None}
    return sorted(groups, key=lambda g: (g.training not in awaited, -g.flops()))


@dataclass
class Agenda:
    """Groups that are left."""

    pending: list[Group]
    running: list[Group] = field(default_factory=list)
    _not_before_s: dict[Group, float] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return not self.pending and not self.running

    def begin(self) -> Group | None:
        """The next group that can begin now."""
        now_s = time.monotonic()
        unfinished = {group.training for group in (*self.pending, *self.running)}
        for group in self.pending:
            waits = group.begins_in is not None and group.begins_in in unfinished
            if not waits and now_s >= self._not_before_s.get(group, now_s):
                self.pending.remove(group)
                self.running.append(group)
                return group
        return None

    def put_back(self, group: Group) -> None:
        """A group has not begun after all."""
        self.running.remove(group)
        self.pending.insert(0, group)

    def end(self, group: Group, outcomes: Sequence[Outcome]) -> None:
        """A group has ended; runs that another command works on are left for later."""
        self.running.remove(group)
        is_busy = [isinstance(outcome, Busy) for outcome in outcomes]
        left = tuple(run for run, busy in zip(group.runs, is_busy, strict=True) if busy)
        if left:
            again = Group(left)
            self.pending.append(again)
            self._not_before_s[again] = time.monotonic() + AGAIN_S


def work(
    group: Group,
    tell: Callable[[str], None],
    on_row: Callable[[Run, dict[str, Any]], None],
    processes: Callable[[], int],
) -> list[Outcome]:
    """Execute the runs of a group; what cannot be trained fails all of them."""
    outcomes: list[Outcome] = []
    for run in group.runs:
        failed = next((each for each in outcomes if isinstance(each, RunError)), None)
        if failed is not None and group.training is not None:
            outcomes.append(failed)
        else:
            outcomes.append(attempt(run, tell, partial(on_row, run), processes))
    return outcomes


def attempt(
    run: Run,
    tell: Callable[[str], None],
    on_row: Callable[[dict[str, Any]], None],
    processes: Callable[[], int],
) -> Outcome:
    """Execute a run; what may go wrong in the field becomes a RunError with one line."""
    from scenarios.run import execute  # brings pyarrow, and torch if anything is trained
    from scenarios.strict_json import TooLarge
    from sim.news import StalledError
    from sim.traces.trace import TraceError
    from trainer.corpora import CorpusError

    if run.folder.is_done:
        return None
    the_users: tuple[type[Exception], ...] = (CorpusError, TraceError)
    in_the_field: tuple[type[Exception], ...] = (StalledError, TooLarge, StoreError, OSError)
    if run.scenario.train is not None:
        from trainer.replica import NonFiniteLoss
        from trainer.work import DeviceError, is_out_of_memory
        from trainer.workers import WorkerDied

        in_the_field += (NonFiniteLoss, WorkerDied)
        the_users += (DeviceError,)
    kept = f"Finished global steps are kept in {run.folder.path}"
    try:
        return execute(run, tell, on_row, processes, patience_s=0.0)
    except Busy as busy:
        return busy
    except the_users as error:
        return RunError(str(error), exit_code=2)
    except in_the_field as error:
        return RunError(f"{error}. {kept}")
    except MemoryError:
        return RunError(f"out of memory. {kept}")
    except RuntimeError as error:
        if run.scenario.train is None or not is_out_of_memory(error):
            raise
        return RunError(f"out of memory: {str(error).splitlines()[0]} {kept}")
