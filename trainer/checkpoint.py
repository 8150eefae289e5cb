"""A trainer's state on disk: two safetensors files and a JSON file that vouches for them.

Nothing is ever unpickled. `model.safetensors` holds the anchor by plain tensor names, so that
other tools can read the model; `state.safetensors` all else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

FORMAT = 1
FACTS = "trainer.json"
MODEL = "model.safetensors"
STATE = "state.safetensors"

Tensors = Mapping[str, Tensor]


class CheckpointError(ValueError):
    """A checkpoint is incomplete, altered, or of another run; the message says which."""


def write(
    folder: Path, identity: dict[str, Any], committed: int, model: Tensors, state: Tensors
) -> None:
    """Write into an existing folder; `trainer.json` comes last.

    identity: JSON-ready facts that must be equal when it is read. committed: global steps done.
    """
    digests = {}
    for name, tensors in ((MODEL, model), (STATE, state)):
        content = save({key: tensor.contiguous() for key, tensor in tensors.items()})
        (folder / name).write_bytes(content)
        digests[name] = hashlib.sha256(content).hexdigest()
    facts = {"format": FORMAT, "committed": committed, "identity": identity, "sha256": digests}
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def read(
    folder: Path, identity: dict[str, Any], model: Tensors, state: Tensors
) -> tuple[int, Tensors, Tensors]:
    """Global steps done, model and state. Raises CheckpointError.

    identity: what the checkpoint must have been written with. model, state: tensors with the
    names, shapes and types to expect; their values do not matter.
    """
    facts = _facts(folder)
    _check_identity(folder, facts["identity"], identity)
    committed = facts["committed"]
    if type(committed) is not int or not 0 <= committed <= identity["global_steps"]:
        raise CheckpointError(f"{folder / FACTS}: committed is {committed!r}")
    return (
        committed,
        _tensors(folder / MODEL, facts["sha256"], model),
        _tensors(folder / STATE, facts["sha256"], state),
    )


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / FACTS
    try:
        facts = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
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


def _tensors(path: Path, digests: dict[str, Any], expected: Tensors) -> Tensors:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != digests.get(path.name):
        raise CheckpointError(f"{path} is not the file that {FACTS} vouches for")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not safetensors: {error}") from error
    if missing := expected.keys() ^ tensors.keys():
        raise CheckpointError(f"{path} lacks or has too many of {sorted(missing)[:3]}")
    for name, tensor in tensors.items():
        like = expected[name]
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise CheckpointError(
                f"{path}: {name} is {tensor.dtype}{list(tensor.shape)}, "
                f"not {like.dtype}{list(like.shape)}"
            )
    return tensors
