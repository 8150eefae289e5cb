"""The files of the text that is learned, found and not read."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from trainer.config import Data

SUFFIXES = {"text": ".txt", "jsonl": ".jsonl", "parquet": ".parquet", "bin": ".bin"}
"""Of the files below a folder, by source."""


def text_paths(data: Data) -> list[Path]:
    """The files or folders that a source names."""
    given = (getattr(data, key, None) for key in ("path", "held_out"))
    return [Path(path) for path in given if path is not None]


def text_files(path: Path) -> list[Path]:
    """The file, or the corpus files below a folder, sorted. What cannot be looked at has none: the
    trainer tells it, with the cure."""
    try:
        if path.is_file():
            return [path]
        return sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES.values() and f.is_file())
    except OSError:
        return []


def corpus_bytes(data: Data) -> int:
    """Of the files that a source reads; 0 where it brings its own text."""
    return sum(_size(path, SUFFIXES[data.source]) for path in text_paths(data))


@cache
def _size(path: Path, suffix: str) -> int:
    """Cells share a text; it is looked at once."""
    try:
        found = (f for f in text_files(path) if f == path or f.suffix == suffix)
        return sum(file.stat().st_size for file in found)
    except OSError:
        return 0
