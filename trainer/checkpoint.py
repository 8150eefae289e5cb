"""A trainer's state on disk: safetensors files and a JSON file that vouches for them.

Nothing is ever unpickled. `model.safetensors` holds the anchor by plain tensor names, so that
other tools can read the model; the other files all else, a part each, since what is written or
read is in memory twice for a while.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

FORMAT = 2
FACTS = "trainer.json"
MODEL = "model"
"""The part that holds the anchor."""

Tensors = Mapping[str, Tensor]
Parts = Mapping[str, Tensors]
"""Tensors by the name of their file."""


class CheckpointError(ValueError):
    """A checkpoint is incomplete, altered, or of another run; the message says which."""


def write(folder: Path, identity: dict[str, Any], committed: int, parts: Parts) -> None:
    """Write into an existing folder; `trainer.json` comes last.

    identity: JSON-ready facts that must be equal when it is read. committed: global steps done.

    Raises OSError, also where the library has an error of its own for a full disk.
    """
    digests = {}
    for part, tensors in parts.items():
        path = folder / _file(part)
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        except SafetensorError as error:  # a full disk, as it tells it
            raise OSError(f"cannot write {path}: {error}") from error
        digests[path.name] = _digest(path)
    facts = {"format": FORMAT, "committed": committed, "identity": identity, "sha256": digests}
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def read(folder: Path, identity: dict[str, Any], parts: Parts) -> int:
    """Put a checkpoint into tensors; global steps done. Raises CheckpointError, and then nothing
    has changed.

    identity: what the checkpoint must have been written with. parts: with the names, shapes and
    types to expect.
    """
    facts = _facts(folder)
    _check_identity(folder, facts["identity"], identity)
    committed = facts["committed"]
    if type(committed) is not int or not 0 <= committed <= identity["global_steps"]:
        raise CheckpointError(f"{folder / FACTS}: committed is {committed!r}")
    for part, expected in parts.items():
        _check(folder / _file(part), facts["sha256"], expected)
    for part, tensors in parts.items():
        for name, tensor in load_file(folder / _file(part)).items():
            tensors[name].copy_(tensor)
    return committed


def _file(part: str) -> str:
    return f"{part}.safetensors"


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / FACTS
    try:
        facts = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # the latter where brackets nest deep
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a trainer checkpoint of format {FORMAT}")
    if not (
        {"committed", "identity", "sha256"} <= facts.keys()
        and isinstance(facts["identity"], dict)
        and isinstance(facts["sha256"], dict)
    ):
        raise CheckpointError(f"{path} lacks committed, identity or sha256")
    return facts


def _check_identity(folder: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    if differs := [key for key in expected if found.get(key) != expected[key]]:
        raise CheckpointError(
            f"{folder} is of another run: {', '.join(differs)} differ "
            + "; ".join(f"{key} was {found.get(key)!r}, is {expected[key]!r}" for key in differs)
        )


def _check(path: Path, digests: dict[str, Any], expected: Tensors) -> None:
    try:
        digest = _digest(path)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    if digest != digests.get(path.name):
        raise CheckpointError(f"{path} is not the file that {FACTS} vouches for")
    try:
        with safe_open(path, framework="pt") as content:
            _check_shapes(path, content, expected)
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not safetensors: {error}") from error


def _check_shapes(path: Path, content: Any, expected: Tensors) -> None:
    """From the header alone."""
    if missing := expected.keys() ^ set(content.keys()):
        raise CheckpointError(f"{path} lacks or has too many of {sorted(missing)[:3]}")
    for name, like in expected.items():
        found = content.get_slice(name)
        shape, dtype = list(found.get_shape()), found.get_dtype()
        if shape != list(like.shape) or dtype != "F32":
            raise CheckpointError(f"{path}: {name} is {dtype}{shape}, not F32{list(like.shape)}")
