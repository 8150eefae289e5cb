"""Which runs a folder holds, from study.json and summary.json alone. Standard library only."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

CLASSES = (
    "compute",
    "boundary",
    "bubble",
    "sync",
    "wait",
    "lost",
    "restore",
    "provision",
    "vacant",
)
"""What a slot's seconds are spent on, from useful to useless."""

NAMED = 6
"""No more cells than these are named in a message."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NUMBERS = (
    "seed",
    "replicas",
    "stages",
    "global_steps",
    "tokens",
    "train_tokens",
    "token_share",
    "full_depth_token_share",
    "wall_s",
    "tokens_per_s",
    "ettr",
    "availability",
    "worker_availability",
    "outages",
    "degraded_share",
    "usd_per_million_tokens",
)
_NUMBERS_OR_NULL = (
    "mean_outage_s",
    "val_loss",
    "val_bits_per_byte",
    "val_global_step",
    "val_loss_no_failure",
    "val_loss_gap",
)
_MAPS = {
    "slot_s": CLASSES,
    "bytes": ("boundary", "sync", "restore", "snapshot", "lost"),
    "usd": ("compute", "egress", "storage", "total"),
}


class AnalysisError(Exception):
    """A folder that cannot be reported on: which file, what is wrong, what to do."""


@dataclass(frozen=True)
class Entry:
    """A finished run and its place in the study."""

    cell: str
    path: Path
    summary: Mapping[str, Any]
    baseline: str | None
    """Cell of its no-failure run; its own where it is one, None where that run is not known."""
    aliases: tuple[str, ...] = ()
    """Other cells that are the very same run."""

    @property
    def is_baseline(self) -> bool:
        """Whether this is a no-failure run."""
        return self.baseline == self.cell


@dataclass(frozen=True)
class Listing:
    """What a folder holds: finished runs, no-failure runs first, and the cells left out."""

    name: str
    folder: Path
    entries: tuple[Entry, ...]
    unfinished: tuple[str, ...]


def find(folder: Path) -> Listing:
    """The runs of a study folder, or a run folder's own run beside its no-failure run.

    Raises:
        AnalysisError: no such folder, nothing finished in it, or a broken file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise AnalysisError(f"{folder}: no such folder; give runs/<name> or a run folder in it")
    if (folder / "study.json").is_file():
        return _study(folder)
    if (folder / "scenario.yaml").is_file() or (folder / "summary.json").is_file():
        return _single(folder)
    raise AnalysisError(
        f"{folder}: neither a study (no study.json) nor a run (no scenario.yaml); "
        "give runs/<name>, or run the scenario again: finished cells are kept"
    )


def _study(folder: Path, only: str | None = None) -> Listing:
    """All of a study, or only the run folder named `only` and its no-failure run."""
    path = folder / "study.json"
    told = read_json(path)
    name, cells, baselines = told.get("name"), told.get("cells"), told.get("baselines")
    if not isinstance(name, str) or not isinstance(cells, dict) or not isinstance(baselines, dict):
        broken(path, "name, cells and baselines are expected")
    if not cells:
        broken(path, "it names no cells")
    if not all(isinstance(run, str) for run in baselines.values()):
        broken(path, "baselines must be names of run folders")
    wanted = dict(cells)
    if only is not None:
        wanted = {c: f for c, f in cells.items() if f == only}
        wanted |= {c: f for c, f in cells.items() if f in [baselines.get(w) for w in wanted]}
    by_run: dict[str, list[str]] = {}
    for cell, run in wanted.items():
        by_run.setdefault(_inside(path, folder, run), []).append(cell)
    # a no-failure run goes by its first name, which is `no_failure`
    entries, unfinished = [], []
    for run, names in by_run.items():
        if not (folder / run / "summary.json").is_file():
            unfinished += names
            continue
        healthy = baselines.get(names[0])
        baseline = by_run[healthy][0] if isinstance(healthy, str) and healthy in by_run else None
        found = read_summary(folder / run)
        entries.append(Entry(names[0], folder / run, found, baseline, tuple(names[1:])))
    if not entries:
        left = len(unfinished) - NAMED
        more = f" and {left} more" if left > 0 else ""
        raise AnalysisError(
            f"{folder}: no finished run ({'; '.join(unfinished[:NAMED])}{more} not done); "
            "give `stageout run` the scenario again and it goes on"
        )
    entries.sort(key=lambda entry: not entry.is_baseline)
    return Listing(name, folder, tuple(entries), tuple(unfinished))


def _single(folder: Path) -> Listing:
    if not (folder / "summary.json").is_file():
        raise AnalysisError(
            f"{folder}: not finished (no summary.json); "
            "give `stageout run` the scenario again and it goes on"
        )
    parent = folder.resolve().parent
    if (parent / "study.json").is_file():
        told = read_json(parent / "study.json").get("cells")
        if isinstance(told, dict) and folder.resolve().name in told.values():
            of_study = _study(parent, only=folder.resolve().name)
            return Listing(of_study.name, folder, of_study.entries, of_study.unfinished)
    summary = read_summary(folder)
    own = summary["cell"] if summary.get("outages_kind") == "none" else None
    entry = Entry(summary["cell"], folder, summary, own)
    return Listing(summary["name"], folder, (entry,), ())


def _inside(path: Path, folder: Path, run: object) -> str:
    """A run folder's name, which must be one directly in the study folder."""
    if not isinstance(run, str) or not _NAME.fullmatch(run):
        broken(path, f"{run!r} is no name of a run folder")
    if (folder / run).resolve().parent != folder.resolve():
        broken(path, f"{run!r} leads out of the study folder")
    return run


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; strict: no NaN.

    Raises:
        AnalysisError: it cannot be read or is no object.
    """
    try:
        text = path.read_text("utf-8")
        found = json.loads(text, parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        broken(path, str(error))
    if not isinstance(found, dict):
        broken(path, "an object is expected")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def read_summary(folder: Path) -> dict[str, Any]:
    """A run's summary.json with every key that is used here checked.

    Raises:
        AnalysisError: it cannot be read, or a key is missing or of another kind.
    """
    path = folder / "summary.json"
    found = read_json(path)
    for key in ("name", "cell", "label"):
        if not isinstance(found.get(key), str):
            broken(path, f"{key} must be text (got {found.get(key)!r})")
    for key in _NUMBERS:
        _check_number(path, key, found.get(key))
    for key in (*_NUMBERS_OR_NULL, "skip_stage_loss"):
        if key not in found:
            broken(path, f"{key} is missing")
    for key in _NUMBERS_OR_NULL:
        if found[key] is not None:
            _check_number(path, key, found[key])
    if not _is_policy(found.get("policy")):
        broken(path, f"policy must be a list of names (got {found.get('policy')!r})")
    for key, parts in _MAPS.items():
        inner = found.get(key)
        if not isinstance(inner, dict):
            broken(path, f"{key} must be a map (got {inner!r})")
        for part in parts:
            _check_number(path, f"{key}.{part}", inner.get(part))
    leans = found["skip_stage_loss"]
    if not isinstance(leans, dict | None):
        broken(path, f"skip_stage_loss must be a map or null (got {leans!r})")
    if leans and found["val_loss"] is None:
        broken(path, "skip_stage_loss without val_loss")
    for stage, loss in (leans or {}).items():
        _check_number(path, f"skip_stage_loss.{stage}", loss)
        if not stage.isdecimal():
            broken(path, f"skip_stage_loss: {stage!r} is no stage")
    if found["wall_s"] <= 0 or found["global_steps"] < 1:
        broken(path, "wall_s and global_steps must be above 0")
    return found


def _is_policy(told: object) -> bool:
    """Names, or maps of a name to its limits."""
    names = [next(iter(one), None) if isinstance(one, dict) else one
             for one in told] if isinstance(told, list) else [None]  # fmt: skip
    return all(isinstance(name, str) for name in names)


def _check_number(path: Path, key: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):  # type: ignore[arg-type]
        broken(path, f"{key} must be a number (got {value!r})")


def broken(path: Path, what: str) -> NoReturn:
    """Raise the error of a file that is not as it should be."""
    raise AnalysisError(
        f"{path}: {what}; it is damaged or of another version of stageout: "
        "run the scenario again with --force"
    )
