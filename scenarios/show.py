"""Progress of runs: bars with ETA on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from scenarios.agenda import Group
from scenarios.pace import Pace
from scenarios.session import Run

LINE_EVERY_S = 10.0
MANY_RUNS = 8
Row = dict[str, Any]


class Tail:
    """The newest row of a live record that another process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def newest(self) -> Row | None:
        """The last whole line since the last call; None if there is none."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:  # cut back on resume
                    self._offset = 0
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return None
        end = text.rfind(b"\n")
        if end < 0:
            return None
        self._offset += end + 1
        try:
            row: Row = json.loads(text[:end].rsplit(b"\n", 1)[-1])
        except ValueError:
            return None
        return row


class Show:
    """Use as a context. `tell` is for sentences, `begin` says what will be run, `row` is for every
    finished global step, `end` for every run."""

    def __init__(self, is_quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._is_live = console.is_terminal and not is_quiet
        self._is_quiet = is_quiet
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),  # a value may look like some
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            console=console,
            disable=not self._is_live,
        )
        self._tasks: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        self._told_s: dict[str, float] = {}
        self._loss: dict[str, float] = {}
        self._pace = Pace(())
        self._runs = self._ended = 0

    def __enter__(self) -> Show:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    @property
    def tell(self) -> Callable[[str], None]:
        """Print a sentence."""
        return self._tell

    def _tell(self, text: str) -> None:
        if self._is_quiet:
            return
        if self._is_live:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def begin(self, groups: Sequence[Group]) -> None:
        """These runs are left."""
        self._pace = Pace(groups)
        self._runs, self._ended = sum(len(group.runs) for group in groups), 0
        if self._all is not None:
            self._bars.remove_task(self._all)
        if self._runs > 1:
            self._all = self._bars.add_task("runs", total=self._runs, told="")

    def row(self, run: Run, row: Row) -> None:
        """A global step of a run is finished."""
        cell, total, done = run.cell, run.scenario.global_steps, row["global_step"] + 1
        self._pace.row(run, done)
        if row["val_loss"] is not None:
            self._loss[cell] = row["val_loss"]
        told = f"live {row['slots_live']}/{sum(map(len, row['steps']))}"
        if row["train_loss"] is not None:
            told = f"loss {row['train_loss']:.3f} {told}"
        if cell in self._loss:
            told = f"val {self._loss[cell]:.3f} {told}"
        if self._is_live:
            if cell not in self._tasks:
                self._tasks[cell] = self._bars.add_task(cell, total=total, told="")
            self._bars.update(self._tasks[cell], completed=done, told=told)
            self._say_left()
        elif done < total and self._is_time(cell):
            self._tell(f"{cell}: {done}/{total} {told}{self._eta()}")

    def end(self, run: Run, summary: Mapping[str, Any] | None) -> None:
        """A run has ended; without a summary it has failed, or another command has finished it."""
        self._pace.end(run)
        self._ended += 1
        if run.cell in self._tasks:
            self._bars.remove_task(self._tasks.pop(run.cell))
        if self._all is not None:
            self._bars.advance(self._all)
            self._say_left()
        if summary is None:
            return
        loss = summary["val_loss"]
        val = f" val {loss:.3f}" if loss is not None else ""
        steps = f"{summary['global_steps']}/{run.scenario.global_steps}"
        count = f", {self._ended} of {self._runs} runs{self._eta()}" if self._runs > 1 else ""
        self._tell(f"{run.cell}: {steps}{val}{count}")

    def _is_time(self, cell: str) -> bool:
        """Whether a line about a run is due; in a large study less often."""
        now_s = time.monotonic()
        every_s = LINE_EVERY_S * max(1.0, self._runs / MANY_RUNS)
        is_due = now_s - self._told_s.setdefault(cell, now_s) >= every_s
        if is_due:
            self._told_s[cell] = now_s
        return is_due

    def _say_left(self) -> None:
        if self._all is not None:
            self._bars.update(self._all, told=self._eta().strip())

    def _eta(self) -> str:
        left_s = self._pace.left_s()
        if left_s is None:
            return ""
        return f" eta {left_s:.0f} s" if left_s < 100 else f" eta {left_s / 60:.0f} min"
