"""The one error of everything that reads text, and the one way to read a file of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

GZIP = b"\x1f\x8b"
NAMES_TOLD, NAME_CHARS = 10, 40
"""Names that an error tells, and characters of each; a stranger's file may have thousands."""


class CorpusError(ValueError):
    """There is no text, it cannot be read, or it is too short; the message says what to do."""


def read_bytes(path: Path, is_text: bool = True) -> bytes:
    """A whole file. is_text: token files may begin with any two bytes. Raises CorpusError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error
    if is_text and content.startswith(GZIP):
        raise CorpusError(f"{path} is compressed: unpack it with gunzip")
    return content


def in_short(names: Iterable[str]) -> str:
    """Names in one short line, whatever they hold."""
    every = list(names)
    first = [_short(name) for name in every[:NAMES_TOLD]]
    return ", ".join([*first, *(["..."] if len(every) > NAMES_TOLD else [])]) or "none"


def _short(name: str) -> str:
    name = name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}..."
    return name if name.isprintable() else ascii(name)
