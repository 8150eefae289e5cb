"""Run folders: what is there, what is done, who works on it; and the checkpoints beside them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenarios.load import dump
from scenarios.schema import Scenario
from trainer.config import Data, StdlibData, WikiData

KEPT_CHECKPOINTS = 2
LOCK = ".lock"
AGAIN = "run the scenario again with --force"


class StoreError(Exception):
    """A folder that cannot be used, with what to do."""


def fingerprint(scenario: Scenario) -> str:
    """Hash of all that decides what a run does: the scenario and the text it learns from.

    What the catalogue says has become price, notice and peak of the pools and the work.
    """
    told = scenario.model_dump(exclude={"name", "expect", "sweep", "catalogue"})
    if scenario.train is not None:
        for key in ("path", "held_out"):
            told["train"]["data"].pop(key, None)
        told["text"] = _text_identity(scenario.train.data)
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def _text_identity(data: Data) -> str:
    if isinstance(data, StdlibData):
        return sys.version
    if isinstance(data, WikiData):
        return data.source  # the trainer checks that it is the one file it can be
    digest = hashlib.sha256()
    for given in (data.path, getattr(data, "held_out", None)):
        if given is not None:
            digest.update(_files_identity(Path(given)))
    return digest.hexdigest()


def _files_identity(path: Path) -> bytes:
    """Digest of a file, or of the corpus files below a folder."""
    digest = hashlib.sha256()
    kinds = {".txt", ".jsonl", ".parquet", ".bin"}
    found = sorted(file for file in path.rglob("*") if file.suffix in kinds)
    for file in found if path.is_dir() else [path]:
        if file.is_file():  # what cannot be read is told by the trainer, with the cure
            digest.update(f"{file.relative_to(path)}".encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()


def write_atomically(path: Path, text: str) -> None:
    """The file is there whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@dataclass(frozen=True)
class RunFolder:
    """`runs/<name>/<hash>-s<seed>/` and its checkpoints under `runs/.checkpoints/`."""

    path: Path
    checkpoints: Path

    @staticmethod
    def of(out: Path, scenario: Scenario) -> RunFolder:
        """The folder of a scenario; nothing is created."""
        key = f"{fingerprint(scenario)}-s{scenario.seed}"
        return RunFolder(out / scenario.name / key, out / ".checkpoints" / scenario.name / key)

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def steps(self) -> Path:
        return self.path / "steps.parquet"

    @property
    def is_done(self) -> bool:
        """summary.json is written last."""
        return (self.path / "summary.json").is_file()

    def summary(self) -> dict[str, Any]:
        """The finished run's summary.

        Raises:
            StoreError: it is damaged.
        """
        path = self.path / "summary.json"
        try:
            found = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise StoreError(f"{path}: damaged ({error}); {AGAIN}") from None
        if not isinstance(found, dict):
            raise StoreError(f"{path}: damaged (not a JSON object); {AGAIN}")
        return found

    def create(self, scenario: Scenario) -> None:
        """Make the folder and put the resolved scenario in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "scenario.yaml", dump(scenario))

    def clear(self, tell: Callable[[str], None], patience_s: float = 60.0) -> None:
        """Forget everything about the run, once nobody works on it.

        Raises:
            StoreError: another process is at it and has not ended in time.
        """
        if not self.path.is_dir():
            return
        with self.locked(tell, patience_s):
            (self.path / "summary.json").unlink(missing_ok=True)  # first: it is not done any more
            for file in self.path.iterdir():
                if file.name != LOCK:
                    file.unlink()
            self.drop_checkpoints()

    @contextlib.contextmanager
    def locked(self, tell: Callable[[str], None], patience_s: float = 60.0) -> Iterator[None]:
        """Work alone on the run.

        Raises:
            StoreError: another process is at it and has not ended in time.
        """
        with open(self.path / LOCK, "w", encoding="utf-8") as lock:
            waited_s = 0.0
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if waited_s == 0.0:
                        tell(f"{self.path}: another process works on this run; waiting for it")
                    if waited_s >= patience_s:
                        raise StoreError(
                            f"{self.path}: another process still works on this run; "
                            "let it finish, or stop it and run the command again"
                        ) from None
                    time.sleep(0.25)
                    waited_s += 0.25
            yield

    # --- checkpoints --------------------------------------------------------------------------

    def save_checkpoint(self, done: int, key: str, save: Callable[[Path], None]) -> None:
        """Keep the state after `done` global steps; written aside, then renamed.

        Args:
            key: digest of the Directives so far, which a re-simulation must reproduce.
            save: writes the trainer's state into an empty folder.
        """
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        aside = self.checkpoints / f".aside-{os.getpid()}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            save(aside)
            write_atomically(aside / "step.json", json.dumps({"done": done, "directives": key}))
            final = self.checkpoints / f"{done:08d}"
            shutil.rmtree(final, ignore_errors=True)
            aside.rename(final)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        for old in self._saved()[:-KEPT_CHECKPOINTS]:
            shutil.rmtree(old, ignore_errors=True)

    def checkpoints_newest_first(self) -> Iterator[tuple[int, str, Path]]:
        """(global steps done, key of their Directives, folder); broken ones left out."""
        for folder in reversed(self._saved()):
            try:
                told = json.loads((folder / "step.json").read_text("utf-8"))
                yield int(told["done"]), str(told["directives"]), folder
            except (OSError, ValueError, KeyError, TypeError):
                continue

    def drop_checkpoints(self) -> None:
        """The run is over."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _saved(self) -> list[Path]:
        if not self.checkpoints.is_dir():
            return []
        return sorted(p for p in self.checkpoints.iterdir() if p.name.isdigit())
