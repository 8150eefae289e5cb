"""One execution of a run: its trainer, the record so far, checkpoints, measured times."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, TypeVar

from scenarios.environment import environment
from scenarios.record import Expected, Row, dumps, read_rows
from scenarios.schema import Scenario
from scenarios.store import RunFolder, StoreError, write_atomically
from sim.job import Job
from trainer.directive import Directive

if TYPE_CHECKING:
    from trainer.loop import Evaluation, StepResult, Trainer

T = TypeVar("T")
CHECKPOINT_SHARE = 0.05
"""Checkpoints may take this share of the time."""
WORTH_S = 5.0
"""More processes are started while this much is left to do: one takes two seconds to be up."""


@dataclass(frozen=True)
class Run:
    """One cell of a scenario, to be executed in its folder."""

    cell: str
    scenario: Scenario
    folder: RunFolder


@dataclass
class Session:
    """State of an execution. Use as a context: the live record is closed at the end."""

    run: Run
    expected: Expected
    trainer: Trainer | None
    rows: list[Row]
    """The record: of the checkpoint's global steps at first, then growing."""
    done: int
    """Global steps that the checkpoint holds."""
    key: str
    """Digest of the Directives of those steps, which the simulation must reproduce."""
    processes: Callable[[], int] = lambda: 1
    """How many one-threaded processes the run may use by now; that may grow, never shrink."""
    spent_s: dict[str, float] = field(default_factory=dict)
    """Measured seconds by what was done; apart from the record, so equal runs are equal files."""
    _process_s: float = 0.0
    _chain: str = ""
    _cost_s: float = 0.0
    _saved_s: float = field(default_factory=time.perf_counter)
    _metrics: TextIO | None = None

    @staticmethod
    def open(
        run: Run, job: Job, tell: Callable[[str], None], processes: Callable[[], int]
    ) -> Session:
        """Take up the run where its last good checkpoint left it."""
        rows = read_rows(run.folder.metrics)
        expected = Expected.of(run.scenario, job)
        trainer = make_trainer(run.scenario)
        if trainer is None:
            return Session(run, expected, None, [], 0, "", processes)
        from trainer.checkpoint import CheckpointError  # torch is loaded by now

        for done, key, path in run.folder.checkpoints_newest_first():
            if done > len(rows):
                continue
            try:
                trainer.load(path)
            except CheckpointError as error:
                tell(f"{error}; trying the one before")
                continue
            tell(f"{run.cell}: goes on after global step {done - 1}")
            return Session(run, expected, trainer, rows[:done], done, key, processes)
        return Session(run, expected, trainer, [], 0, "", processes)

    def __enter__(self) -> Session:
        kept = "".join(dumps(row) + "\n" for row in self.rows)
        write_atomically(self.run.folder.metrics, kept)
        self._metrics = self.run.folder.metrics.open("a", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._metrics is not None, "entered before"
        self._metrics.close()
        if self.trainer is not None:
            self.trainer.close()

    def has_done(self, told: Directive) -> bool:
        """Whether the checkpoint holds this global step already.

        Raises:
            StoreError: the simulation gives other Directives than the checkpoint was trained on.
        """
        self._chain = hashlib.sha256((self._chain + told.key()).encode()).hexdigest()
        if told.index == self.done - 1 and self._chain != self.key:
            raise StoreError(
                f"{self.run.folder.path}: the outages simulated now differ from those of the "
                "checkpoint, by another version of stageout; start over with --force"
            )
        return told.index < self.done

    def train(self, told: Directive) -> StepResult | None:
        """Train a global step; nothing in a timing study."""
        if self.trainer is None:
            return None
        trainer = self.trainer
        if self._left_s(told.index) >= WORTH_S:
            trainer.use(self.processes())
        return self._timed("train", lambda: trainer.step(told))

    def evaluate(self, index: int) -> Evaluation | None:
        """Evaluate every `train.eval_every` global steps, and after the last."""
        train = self.run.scenario.train
        if self.trainer is None or train is None:
            return None
        is_due = (index + 1) % train.eval_every == 0
        if not (is_due or self._is_last(index)):
            return None
        return self._timed("evaluate", self.trainer.evaluate)

    def record(self, row: Row) -> None:
        """Append a row to the record, in memory and on disk."""
        assert self._metrics is not None, "inside the context"
        self._metrics.write(dumps(row) + "\n")
        if self.trainer is not None:  # a reader wants to see it now
            self._metrics.flush()
        self.rows.append(row)

    def checkpoint(self, index: int) -> None:
        """Save, as often as costs CHECKPOINT_SHARE of the time, and after the last step."""
        if self.trainer is None:
            return
        since_s = time.perf_counter() - self._saved_s
        if self._is_last(index) or self._cost_s <= CHECKPOINT_SHARE * since_s:
            begin = time.perf_counter()
            self.run.folder.save_checkpoint(index + 1, self._chain, self.trainer.save)
            self._saved_s = time.perf_counter()
            self._cost_s = self._saved_s - begin
            self._add("checkpoint", self._cost_s)

    def write_environment(self) -> None:
        """env.json: versions, machine, corpus, measured times of this execution."""
        path = self.run.folder.path / "env.json"
        told = environment(self.run.scenario, self.trainer, date.today()) | {
            "trained_from": self.done,
            "measured_s": {key: round(value, 3) for key, value in self.spent_s.items()},
            "process_s": round(self._process_s, 3),
        }
        write_atomically(path, json.dumps(told, indent=2))

    def anchor_sha256(self) -> str | None:
        """Fingerprint of the trained weights."""
        return self.trainer.anchor_sha256() if self.trainer is not None else None

    def _left_s(self, index: int) -> float:
        """Training seconds left, by those of this execution so far; at first, none are known."""
        trained = index - self.done
        if not trained:
            return 0.0
        return self.spent_s["train"] / trained * (self.run.scenario.global_steps - index)

    def _is_last(self, index: int) -> bool:
        return index + 1 == self.run.scenario.global_steps

    def _timed(self, what: str, do: Callable[[], T]) -> T:
        begin = time.perf_counter()
        result = do()
        self._add(what, time.perf_counter() - begin)
        return result

    def _add(self, what: str, seconds: float) -> None:
        self.spent_s[what] = self.spent_s.get(what, 0.0) + seconds
        if self.trainer is not None:
            self._process_s += seconds * self.trainer.crew.size


def make_trainer(scenario: Scenario) -> Trainer | None:
    """The trainer of a scenario; None in a timing study, which never loads torch."""
    if scenario.train is None:
        return None
    from trainer.loop import Trainer, setup_torch

    setup_torch(threads=1)
    return Trainer(
        scenario.train,
        scenario.method,
        scenario.cluster.replicas,
        scenario.cluster.stages,
        scenario.global_steps,
        scenario.seed,
        Path(),
    )
