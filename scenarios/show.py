"""Progress of runs: bars with ETA on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scenarios.session import Run

LINE_EVERY_S = 10.0
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
    """Use as a context. `tell` is for sentences, `row` for every finished global step."""

    def __init__(self, is_quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._is_live = console.is_terminal and not is_quiet
        self._is_quiet = is_quiet
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not self._is_live,
        )
        self._tasks: dict[str, Any] = {}
        self._begun: dict[str, tuple[float, int]] = {}
        self._told_s: dict[str, float] = {}
        self._loss: dict[str, float] = {}

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

    def row(self, run: Run, row: Row) -> None:
        """A global step of a run is finished."""
        cell, total = run.cell, run.scenario.global_steps
        done = row["global_step"] + 1
        if row["val_loss"] is not None:
            self._loss[cell] = row["val_loss"]
        slots = sum(map(len, row["steps"]))
        told = f"live {row['slots_live']}/{slots}"
        if row["train_loss"] is not None:
            told = f"loss {row['train_loss']:.3f} {told}"
        if cell in self._loss:
            told = f"val {self._loss[cell]:.3f} {told}"
        if self._is_live:
            if cell not in self._tasks:
                self._tasks[cell] = self._bars.add_task(cell, total=total, told="")
            self._bars.update(self._tasks[cell], completed=done, told=told)
            return
        now = time.monotonic()
        first_s, first_done = self._begun.setdefault(cell, (now, done))
        if done < total and now - self._told_s.get(cell, first_s) < LINE_EVERY_S:
            return
        self._told_s[cell] = now
        eta = ""
        if done > first_done and done < total:
            eta_s = (now - first_s) / (done - first_done) * (total - done)
            eta = f" eta {eta_s:.0f} s"
        self._tell(f"{cell}: {done}/{total} {told}{eta}")
