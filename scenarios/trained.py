"""What has been trained, by content: `runs/.trained/<key>/`, shared by runs, studies and commands.

`rounds.jsonl` is the training half of every global step, `done.json` says that it is whole;
checkpoints lie beside it while it is not, and where other trainings begin.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.files import write_atomically
from scenarios.store import alone
from trainer.results import Evaluation, StepResult

STORE = ".trained"
KEPT_CHECKPOINTS = 2
ARRAYS = ("forward_calls", "dropped", "kept_values", "code_counts")


@dataclass(frozen=True, eq=False)
class Round:
    """The training half of a global step."""

    result: StepResult
    seen: Evaluation | None
    """The evaluation after it, if one was due."""

    def line(self, index: int) -> str:
        """As a line of rounds.jsonl."""
        told = {"global_step": index, **vars(self.result)}
        for key in ARRAYS:
            told[key] = told[key].tolist()
        told["hop_tokens"] = [[*hop, count] for hop, count in self.result.hop_tokens.items()]
        told["seen"] = self.seen and {
            **vars(self.seen),
            "skip_stage_loss": [*self.seen.skip_stage_loss.items()],
        }
        return json.dumps(told, allow_nan=False) + "\n"

    @staticmethod
    def of(told: dict[str, Any]) -> Round:
        """From a line of rounds.jsonl. Raises KeyError, TypeError, ValueError: it is none."""
        seen = told.pop("seen")
        if seen is not None:
            seen = Evaluation(**{**seen, "skip_stage_loss": dict(seen["skip_stage_loss"])})
        del told["global_step"]
        arrays = {key: np.asarray(told[key], dtype=np.int64) for key in ARRAYS}
        hops = {(a, b): count for a, b, count in told["hop_tokens"]}
        return Round(StepResult(**{**told, **arrays, "hop_tokens": hops}), seen)


@dataclass(frozen=True)
class Training:
    """What a run trains, known by its key: the name of its folder in the store."""

    path: Path
    directives: str
    """Digest of all its Directives."""
    steps: int
    """How many they are."""
    fork: Fork | None = None
    keep_at: frozenset[int] = frozenset()
    """Global steps after which a checkpoint stays: others begin there."""

    @property
    def record(self) -> Path:
        return self.path / "rounds.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def done(self) -> dict[str, Any] | None:
        """anchor_sha256 and environment of a finished training; None if it is not, or damaged."""
        try:
            told = json.loads((self.path / "done.json").read_text("utf-8"))
            whole = hashlib.sha256(self.record.read_bytes()).hexdigest()
        except (OSError, ValueError, RecursionError):
            return None
        is_good = isinstance(told, dict) and told.get("rounds_sha256") == whole
        return told if is_good else None

    def finish(self, anchor_sha256: str, environment: dict[str, Any]) -> None:
        """The record is whole. Checkpoints go, but for those where others begin."""
        whole = hashlib.sha256(self.record.read_bytes()).hexdigest()
        told = {
            "anchor_sha256": anchor_sha256,
            "rounds_sha256": whole,
            "environment": environment,
        }
        write_atomically(self.path / "done.json", json.dumps(told, indent=2))
        if self.keep_at:
            self._drop(self._saved(), keep=self.keep_at)
        else:
            self.drop_checkpoints()

    def rounds(self) -> list[Round]:
        """The record so far; a last line that a kill cut short is left out."""
        found: list[Round] = []
        try:
            lines = self.record.read_bytes().split(b"\n")
        except OSError:
            return found
        for line in lines:
            try:
                told = json.loads(line)
                if told["global_step"] != len(found):
                    break
                found.append(Round.of(told))
            except (ValueError, KeyError, TypeError, RecursionError):
                break
        return found

    def locked(
        self, tell: Callable[[str], None], patience_s: float
    ) -> AbstractContextManager[None]:
        """Train it alone. Raises Busy."""
        return alone(self.path, tell, patience_s)

    def clear(self, tell: Callable[[str], None], patience_s: float = 60.0) -> None:
        """Forget it, once nobody works on it. Raises Busy."""
        if self.path.is_dir():
            with self.locked(tell, patience_s):
                (self.path / "done.json").unlink(missing_ok=True)
                self.record.unlink(missing_ok=True)
                self.drop_checkpoints()

    # --- checkpoints --------------------------------------------------------------------------

    def save_checkpoint(self, done: int, save: Callable[[Path], None]) -> None:
        """Keep the state after `done` global steps; written aside, then renamed. Call it alone:
        what a kill has left aside goes.

        save: writes the trainer's state into an empty folder.
        """
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        aside = self.checkpoints / ".aside"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            save(aside)
            final = self.checkpoint_at(done)
            shutil.rmtree(final, ignore_errors=True)
            aside.rename(final)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._drop(self._saved()[:-KEPT_CHECKPOINTS], keep=self.keep_at)

    def checkpoint_at(self, done: int) -> Path:
        """Folder of the state after so many global steps, whether it is there or not."""
        return self.checkpoints / f"{done:08d}"

    def checkpoints_newest_first(self) -> Iterator[tuple[int, Path]]:
        """(global steps done, folder)."""
        for done in reversed(self._saved()):
            yield done, self.checkpoint_at(done)

    def drop_checkpoints(self) -> None:
        """Nobody begins there any more."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _saved(self) -> list[int]:
        if not self.checkpoints.is_dir():
            return []
        return sorted(int(p.name) for p in self.checkpoints.iterdir() if p.name.isdecimal())

    def _drop(self, saved: list[int], keep: frozenset[int]) -> None:
        for done in saved:
            if done not in keep:
                shutil.rmtree(self.checkpoint_at(done), ignore_errors=True)


@dataclass(frozen=True)
class Fork:
    """Where a training leaves that of its no-failure run."""

    of: Training
    at: int
    """Global steps that both have in common."""

    @property
    def is_there(self) -> bool:
        """Whether the no-failure run has come there and has kept its state."""
        return self.of.checkpoint_at(self.at).is_dir()
