"""Files that are there whole or not at all. Standard library only."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A place to write a file at; with the end of the context it is `path`, unless that raises.

    No other writer has the same place: machines that share a folder may share process numbers.
    """
    place = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield place
        os.replace(place, path)
    finally:
        place.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """A text file, UTF-8."""
    with aside(path) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
