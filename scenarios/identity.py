"""What a run is known by, and what its training is known by."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from scenarios.memory import trains_elsewhere
from scenarios.schema import Scenario
from scenarios.texts import text_files, text_paths
from sim.config import TraceOutages
from trainer.config import Data, StdlibData, WikiData

TRAINED_FORMAT = 3
"""Raised when the trainer gives other bits for the same keys, or a default of `method` or `train`
changes: then nothing that was trained before is taken for the same."""
PATHS = ("path", "held_out")
"""Of the text; the text itself counts, wherever it lies."""


def fingerprint(scenario: Scenario, against: Scenario | None = None) -> str:
    """Hash of all that decides what a run does: scenario, trace, the text it learns from.

    What the catalogue says has become price, notice and peak of the pools and the work.

    against: of a control the run it is compared with.
    """
    told = [_all_of(scenario), *([_all_of(against)] if against is not None else [])]
    text = json.dumps(told if against is not None else told[0], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _all_of(scenario: Scenario) -> dict[str, Any]:
    told = scenario.model_dump(exclude={"name", "expect", "sweep", "catalogue"})
    if isinstance(scenario.outages, TraceOutages):
        path = Path(told["outages"].pop("path"))
        about = path.stat()
        told["trace"] = _file_identity(path, about.st_size, about.st_mtime_ns).hex()
    if scenario.train is not None:
        for key in PATHS:
            told["train"]["data"].pop(key, None)
        told["text"] = text_identity(scenario.train.data)
    return told


def training_identity(scenario: Scenario) -> dict[str, Any]:
    """All that decides what is trained but the Directives, and how it is evaluated; JSON-ready.

    Keys at their defaults are left out, so that a key that a later version adds finds what was
    trained before. What the clock alone needs does not count.
    """
    train = scenario.train
    assert train is not None, "a timing study trains nothing"
    told = _not_default(train)
    for key in PATHS:
        told.get("data", {}).pop(key, None)
    return told | {
        "format": TRAINED_FORMAT,
        "model": _not_default(train.shape()),
        "device": "cuda" if trains_elsewhere(train.device) else "cpu",
        "text": text_identity(train.data),
        "method": _not_default(scenario.method),
        "replicas": scenario.cluster.replicas,
        "stages": scenario.cluster.stages,
        "global_steps": scenario.global_steps,
        "seed": scenario.seed,
    }


def training_key(identity: dict[str, Any], directives: str) -> str:
    """Of a training identity and a digest of all Directives: equal keys train the same bits."""
    text = json.dumps([identity, directives], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _not_default(model: BaseModel) -> dict[str, Any]:
    return _without_empty(model.model_dump(mode="json", exclude_defaults=True))


def _without_empty(map_: dict[str, Any]) -> dict[str, Any]:
    inner = {key: _without_empty(v) if isinstance(v, dict) else v for key, v in map_.items()}
    return {key: value for key, value in inner.items() if value != {}}


def text_identity(data: Data) -> str:
    """Of the text that a run learns from."""
    if isinstance(data, StdlibData):
        return sys.version
    if isinstance(data, WikiData):
        return data.source  # the trainer checks that it is the one file it can be
    digest = hashlib.sha256()
    for path in text_paths(data):
        digest.update(_files_identity(path))
    return digest.hexdigest()


def _files_identity(path: Path) -> bytes:
    """Digest of a file, or of the corpus files below a folder."""
    digest = hashlib.sha256()
    with contextlib.suppress(OSError):  # what cannot be read is told by the trainer, with the cure
        for file in text_files(path):
            digest.update(os.fsencode(file.relative_to(path)) + b"\0")
            about = file.stat()
            digest.update(_file_identity(file, about.st_size, about.st_mtime_ns))
    return digest.digest()


@cache
def _file_identity(file: Path, size: int, mtime_ns: int) -> bytes:
    """Digest of a file, which many cells share; size and time say whether it is still the same."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()
