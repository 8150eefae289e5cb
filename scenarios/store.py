"""Run folders: what is there, what is done, who works on it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.files import write_atomically
from scenarios.identity import fingerprint
from scenarios.load import dump
from scenarios.schema import Scenario

LOCK = ".lock"
AGAIN = "run the scenario again with --force"


class StoreError(Exception):
    """A folder that cannot be used, with what to do."""


class Busy(StoreError):
    """Another process is at it."""


@contextlib.contextmanager
def alone(folder: Path, tell: Callable[[str], None], patience_s: float) -> Iterator[None]:
    """Work alone in a folder, which is made if it is not there.

    Raises:
        Busy: another process is at it and has not ended in time.
        StoreError: its file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w", encoding="utf-8") as lock:
        waited_s = 0.0
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    raise StoreError(
                        f"{folder}: cannot be locked ({error.strerror}); choose an --out on a file "
                        "system that has locks"
                    ) from None
                if waited_s >= patience_s:
                    raise Busy(
                        f"{folder}: another process still works on this run; "
                        "let it finish, or stop it and run the command again"
                    ) from None
                if waited_s == 0.0:
                    tell(f"{folder}: another process works on this run; waiting for it")
                time.sleep(0.25)
                waited_s += 0.25
        yield


@dataclass(frozen=True)
class RunFolder:
    """`runs/<name>/<hash>-s<seed>/`."""

    path: Path

    @staticmethod
    def of(out: Path, scenario: Scenario, against: Scenario | None = None) -> RunFolder:
        """The folder of a scenario; nothing is created.

        against: of a control the run it is compared with, which its summary tells.
        """
        key = f"{fingerprint(scenario, against)}-s{scenario.seed}"
        return RunFolder(out / scenario.name / key)

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

    def write_json(self, name: str, told: dict[str, Any]) -> None:
        """A file of the folder; with summary.json the run is done."""
        write_atomically(self.path / name, json.dumps(told, indent=2))

    def write_scenario(self, scenario: Scenario) -> None:
        """scenario.yaml, with every default filled in."""
        write_atomically(self.path / "scenario.yaml", dump(scenario))

    def clear(self, tell: Callable[[str], None], patience_s: float = 60.0) -> None:
        """Forget everything about the run, once nobody works on it. Raises Busy."""
        if not self.path.is_dir():
            return
        with self.locked(tell, patience_s):
            (self.path / "summary.json").unlink(missing_ok=True)  # first: it is not done any more
            for file in self.path.iterdir():
                if file.is_dir() and not file.is_symlink():  # figures of a report on this run
                    shutil.rmtree(file)
                elif file.name != LOCK:
                    file.unlink()

    def locked(
        self, tell: Callable[[str], None], patience_s: float = 60.0
    ) -> AbstractContextManager[None]:
        """Work alone on the run. Raises Busy."""
        return alone(self.path, tell, patience_s)
