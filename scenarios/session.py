"""One execution of a run: its trainer, what has been trained so far, checkpoints, times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from analysis.files import write_atomically
from scenarios.directives import chained
from scenarios.environment import environment, trained_on
from scenarios.schema import Scenario
from scenarios.store import RunFolder, StoreError
from scenarios.trained import Round, Training
from trainer.directive import Directive

if TYPE_CHECKING:
    from trainer.loop import Trainer

T = TypeVar("T")
CHECKPOINT_SHARE = 0.05
"""Checkpoints may take this share of the time."""
WORTH_S = 5.0
"""More processes are started while this much is left to do: one takes two seconds to be up."""


@dataclass(frozen=True)
class Run:
    """One cell and seed of a scenario, to be executed in its folder."""

    cell: str
    scenario: Scenario
    folder: RunFolder
    training: Training | None
    """None in a timing study."""


@dataclass
class Session:
    """The training half of a run: what is in the store, and the trainer for the rest."""

    run: Run
    rounds: list[Round]
    """Known global steps: found in the store at first, then trained here."""
    trainer: Trainer | None = None
    """None where all is known, or nothing is trained."""
    processes: Callable[[], int] = lambda: 1
    """How many one-threaded processes the run may use by now; that may grow, never shrink."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Of a finished training: anchor_sha256, environment."""
    known: int = 0
    """Global steps that were in the store."""
    spent_s: dict[str, float] = field(default_factory=dict)
    """Measured seconds by what was done; apart from the record, so equal runs are equal files."""
    process_s: float = 0.0
    """Seconds x processes at work."""
    _directives: str = ""
    _cost_s: float = 0.0
    _saved_s: float = field(default_factory=time.perf_counter)
    _record: TextIO | None = None

    @property
    def is_trained(self) -> bool:
        return self.run.training is not None

    def step(self, told: Directive) -> Round | None:
        """A global step as it was trained before, or now; None in a timing study.

        Raises NonFiniteLoss, or WorkerDied.
        """
        self._directives = chained(self._directives, told)
        if not self.is_trained:
            return None
        if told.index < len(self.rounds):
            return self.rounds[told.index]
        trainer = self._trainer()
        if self._left_s(told.index) >= WORTH_S:
            trainer.use(self.processes())
        result = self._timed("train", lambda: trainer.step(told))
        due = self._is_evaluated(told.index)
        return Round(result, self._timed("evaluate", trainer.evaluate) if due else None)

    def commit(self, index: int, done: Round | None) -> None:
        """A global step that was trained now is right: keep it, with a checkpoint if one is due."""
        if done is None or index < len(self.rounds):
            return
        assert self._record is not None, "open while there is something to train"
        self._record.write(done.line(index))
        self._record.flush()
        self.rounds.append(done)
        self._checkpoint(index)

    def finish(self) -> None:
        """The run is over: what it trained is whole, and others may use it.

        Raises:
            StoreError: the outages were not those that were planned.
        """
        training = self.run.training
        if training is None:
            return
        if self._directives != training.directives:
            raise StoreError(
                f"{self.run.folder.path}: the outages of this run differ from those it was planned "
                "with: a bug; please report it"
            )
        if self.trainer is not None:
            self.facts = {
                "anchor_sha256": self.trainer.anchor_sha256(),
                "environment": trained_on(self.trainer),
            }
            training.finish(**self.facts)

    def write_environment(self) -> None:
        """env.json: versions, machine, corpus, measured times of this execution."""
        told = environment(self.run.scenario, date.today()) | self.facts.get("environment", {})
        told |= {
            "trained_from": self.known,
            "trained_to": len(self.rounds),
            "measured_s": {key: round(value, 3) for key, value in self.spent_s.items()},
            "process_s": round(self.process_s, 3),
        }
        self.run.folder.write_json("env.json", told)

    def _checkpoint(self, index: int) -> None:
        """Save, as often as costs CHECKPOINT_SHARE of the time, and where others begin."""
        training, done = self.run.training, index + 1
        assert training is not None, "trained"
        if done == self.run.scenario.global_steps and done not in training.keep_at:
            return  # `finish` comes next
        since_s = time.perf_counter() - self._saved_s
        if done in training.keep_at or self._cost_s <= CHECKPOINT_SHARE * since_s:
            begin = time.perf_counter()
            training.save_checkpoint(done, self._trainer().save)
            self._saved_s = time.perf_counter()
            self._cost_s = self._saved_s - begin
            self._add("checkpoint", self._cost_s)

    def _trainer(self) -> Trainer:
        assert self.trainer is not None, "there is something to train"
        return self.trainer

    def _is_evaluated(self, index: int) -> bool:
        """Every `train.eval_every` global steps, and after the last."""
        scenario = self.run.scenario
        assert scenario.train is not None, "trained"
        return (index + 1) % scenario.train.eval_every == 0 or index + 1 == scenario.global_steps

    def _left_s(self, index: int) -> float:
        """Training seconds left, by those of this execution so far; at first, none are known."""
        trained = index - self.known
        if not trained:
            return 0.0
        return self.spent_s["train"] / trained * (self.run.scenario.global_steps - index)

    def _timed(self, what: str, do: Callable[[], T]) -> T:
        begin = time.perf_counter()
        result = do()
        self._add(what, time.perf_counter() - begin)
        return result

    def _add(self, what: str, seconds: float) -> None:
        self.spent_s[what] = self.spent_s.get(what, 0.0) + seconds
        self.process_s += seconds * self._trainer().crew.size


@contextlib.contextmanager
def session(
    run: Run, tell: Callable[[str], None], processes: Callable[[], int], patience_s: float
) -> Iterator[Session]:
    """Take up the training of a run where the store leaves it; alone, if there is any left to do.

    Raises:
        Busy: another process trains the same.
    """
    training = run.training
    if training is None:
        yield Session(run, [])
        return
    if (facts := training.done()) is not None:
        yield _finished(run, training, facts)
        return
    with training.locked(tell, patience_s):
        if (facts := training.done()) is not None:  # by who had the lock before
            yield _finished(run, training, facts)
            return
        trainer = make_trainer(run.scenario)
        with trainer:
            rounds = _taken_up(run, training, trainer, tell)
            write_atomically(training.record, "".join(r.line(i) for i, r in enumerate(rounds)))
            with training.record.open("a", encoding="utf-8") as record:
                yield Session(run, rounds, trainer, processes, known=len(rounds), _record=record)


def _finished(run: Run, training: Training, facts: dict[str, Any]) -> Session:
    rounds = training.rounds()
    return Session(run, rounds, facts=facts, known=len(rounds))


def _taken_up(
    run: Run, training: Training, trainer: Trainer, tell: Callable[[str], None]
) -> list[Round]:
    """Put the trainer where its newest good checkpoint was, else where the training leaves that of
    its no-failure run; the global steps before."""
    from trainer.checkpoint import CheckpointError  # torch is loaded by now

    rounds = training.rounds()
    for done, path in training.checkpoints_newest_first():
        if done > len(rounds):
            continue
        try:
            trainer.load(path)
        except CheckpointError as error:
            tell(f"{error}; trying the one before")
            continue
        tell(f"{run.cell}: goes on after global step {done - 1}")
        return rounds[:done]
    fork = training.fork
    if fork is None or not fork.is_there:
        return []
    rounds = fork.of.rounds()[: fork.at]
    if len(rounds) < fork.at:
        tell(f"{fork.of.record}: ends before global step {fork.at - 1}; training from the start")
        return []
    try:
        trainer.load(fork.of.checkpoint_at(fork.at), nobody_has_joined=True)
    except CheckpointError as error:
        tell(f"{error}; training from the start")
        return []
    tell(f"{run.cell}: begins after global step {fork.at - 1} of its no-failure run")
    return rounds


def make_trainer(scenario: Scenario) -> Trainer:
    """The trainer of a scenario; it brings torch."""
    from trainer.loop import Trainer, setup_torch

    assert scenario.train is not None, "a timing study trains nothing"
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
