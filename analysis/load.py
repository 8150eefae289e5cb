"""Finished runs from their files, as data frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from analysis.folders import CLASSES, AnalysisError, Entry, Listing, find, read_json

__all__ = ["AnalysisError", "Run", "Study", "load"]

STATES = ("train", "wait", "lost", "restore", "provision", "vacant")
"""States of the slot timeline, from useful to useless."""

_STEPS = (
    "global_step",
    "start_s",
    "end_s",
    "tokens",
    "full_depth_tokens",
    "train_tokens",
    "usd_compute",
    "usd_egress",
    "usd_storage",
    "train_loss",
    "val_loss",
    "val_bits_per_byte",
    "spare_s",
    *(f"{name}_s" for name in CLASSES),
)
_OUTAGES = ("worker", "zone", "gone_s", "back_s", "cause")
_SLOTS = ("replica", "stage", "worker", "state", "start_s", "end_s")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run."""

    cell: str
    path: Path
    summary: Mapping[str, Any]
    baseline: str | None
    """Cell of its no-failure run; its own where it is one."""
    aliases: tuple[str, ...]
    scenario: Mapping[str, Any]
    """The resolved scenario, keys as in the file."""
    env: Mapping[str, Any]
    steps: pd.DataFrame
    """One row a committed global step."""

    @cached_property
    def slots(self) -> pd.DataFrame:
        """One row a spell of a slot in a state; read when it is asked for.

        Raises:
            AnalysisError: the file is broken.
        """
        slots = _frame(self.path / "slots.parquet", _SLOTS, categories=("state",))
        unknown = set(slots["state"].unique()) - set(STATES)
        if slots.empty or unknown:
            states = sorted(map(str, unknown))
            _damaged(self.path / "slots.parquet", f"states {states}, rows {len(slots)}")
        return slots

    @cached_property
    def outages(self) -> pd.DataFrame:
        """One row an outage of a worker; read when it is asked for.

        Raises:
            AnalysisError: the file is broken.
        """
        return _frame(self.path / "outages.parquet", _OUTAGES)

    @property
    def is_baseline(self) -> bool:
        """Whether this is a no-failure run."""
        return self.baseline == self.cell

    @property
    def wall_s(self) -> float:
        """Simulated seconds."""
        return float(self.summary["wall_s"])

    @property
    def had_outages(self) -> bool:
        """Whether any slot did anything but train."""
        return bool((self.slots["state"] != "train").any())

    def cumulative(self) -> dict[str, NDArray[np.float64]]:
        """Simulated seconds, and what has been committed by then; from zero, at each round's end.

        Keys: end_s, global_steps, tokens, train_tokens, usd.
        """
        steps = self.steps
        usd = steps["usd_compute"] + steps["usd_egress"] + steps["usd_storage"]
        return {
            "end_s": _from_zero(steps["end_s"]),
            "global_steps": np.arange(len(steps) + 1, dtype=np.float64),
            "tokens": _from_zero(steps["tokens"].cumsum()),
            "train_tokens": _from_zero(steps["train_tokens"].cumsum()),
            "usd": _from_zero(usd.cumsum()),
        }

    def evaluated(self) -> pd.DataFrame:
        """Evaluations in order: val_loss, and the cumulative columns at their round's end."""
        found = {key: values[1:] for key, values in self.cumulative().items()}
        frame = pd.DataFrame({"val_loss": self.steps["val_loss"].to_numpy(np.float64), **found})
        return frame.dropna(subset="val_loss").reset_index(drop=True)


def _from_zero(values: pd.Series[Any]) -> NDArray[np.float64]:
    return np.concatenate([[0.0], values.to_numpy(np.float64)])


@dataclass(frozen=True, eq=False)
class Study:
    """The finished runs of a folder, no-failure runs first."""

    name: str
    folder: Path
    runs: tuple[Run, ...]
    listing: Listing

    @property
    def has_losses(self) -> bool:
        """Whether any run was trained and evaluated."""
        return any(run.summary["val_loss"] is not None for run in self.runs)

    @property
    def has_prices(self) -> bool:
        """Whether anything cost anything."""
        return any(run.summary["usd"]["total"] > 0 for run in self.runs)

    @property
    def is_proxy(self) -> bool:
        """Whether another model is timed than the one that is trained."""
        return any(run.summary.get("proxy") is True for run in self.runs)

    @property
    def faulty(self) -> tuple[Run, ...]:
        """All but the no-failure runs."""
        return tuple(run for run in self.runs if not run.is_baseline)

    def baseline_of(self, run: Run) -> Run | None:
        """The no-failure run that a run is compared with, if it has finished."""
        return next((other for other in self.runs if other.cell == run.baseline), None)


def load(folder: Path) -> Study:
    """The finished runs of a study folder, or of one run folder, with all their files.

    Raises:
        AnalysisError: no such folder, nothing finished in it, or a broken file.
    """
    study = without_timelines(find(folder))
    for run in study.runs:
        _ = run.slots, run.outages
    return study


def without_timelines(listing: Listing) -> Study:
    """The finished runs of a folder; a timeline is read when it is asked for.

    Raises:
        AnalysisError: a broken file.
    """
    runs = tuple(_load_run(entry) for entry in listing.entries)
    return Study(listing.name, listing.folder, runs, listing)


def _load_run(entry: Entry) -> Run:
    path = entry.path
    steps = _frame(path / "steps.parquet", _STEPS)
    if len(steps) != entry.summary["global_steps"]:
        _damaged(path / "steps.parquet", f"{len(steps)} global steps, summary.json has others")
    return Run(
        cell=entry.cell,
        path=path,
        summary=entry.summary,
        baseline=entry.baseline,
        aliases=entry.aliases,
        scenario=_yaml(path / "scenario.yaml"),
        env=read_json(path / "env.json"),
        steps=steps,
    )


def _frame(path: Path, columns: tuple[str, ...], categories: tuple[str, ...] = ()) -> pd.DataFrame:
    """Columns of a Parquet file; numbers missing in it are NaN."""
    try:
        missing = set(columns) - set(pq.read_schema(path).names)
        if missing:
            _damaged(path, f"no column {', '.join(sorted(missing))}")
        found = pq.read_table(path, columns=list(columns), read_dictionary=list(categories))
    except (OSError, pa.ArrowException, ValueError) as error:
        _damaged(path, str(error).splitlines()[0])
    frame: pd.DataFrame = found.to_pandas()
    for name in columns:
        if name.endswith("_loss") or name == "val_bits_per_byte":
            frame[name] = frame[name].astype(np.float64)  # all null reads as objects
    return frame


def _yaml(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        _damaged(path, str(error).splitlines()[0])
    if not isinstance(found, dict):
        _damaged(path, "a map is expected")
    # what cannot be JSON (dates, sets) never came from us; keep it readable
    kept: dict[str, Any] = json.loads(json.dumps(found, default=str, skipkeys=True))
    return kept


def _damaged(path: Path, what: str) -> NoReturn:
    raise AnalysisError(
        f"{path}: {what}; it is damaged or of another version of stageout: "
        "run the scenario again with --force"
    )
