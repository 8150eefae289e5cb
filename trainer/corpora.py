"""Where the text comes from: documents of a source, in a fixed order."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

from trainer.config import BinData, Data, JsonlData, ParquetData, StdlibData, TextData, WikiData
from trainer.corpus_error import CorpusError, read_bytes
from trainer.tables import jsonl_rows, parquet_rows
from trainer.wiki import ATTRIBUTION, summaries

__all__ = ["CorpusError", "Documents", "documents", "files", "name_of"]

NOT_LIBRARY = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "ensurepip",
        "idle_test",
        "idlelib",
        "lib2to3",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)
"""Folders below the standard library that are installed packages, tests or leftovers."""
HELD_OUT_ONE_IN = 20
"""Every 20th document is held out; of fewer documents, the last 1/20 of each."""
BUILD_FACTS = "_sysconfigdata"
"""Start of the one module that names the paths of the machine that built the interpreter."""


@dataclass(frozen=True, eq=False)
class Documents:
    """The texts of a source, none of them empty.

    labels: what each is sharded by; None: it is not. attribution: what its licence asks to print.
    """

    texts: list[str]
    labels: list[str] | None = None
    attribution: str | None = None


def documents(data: Data, root: Path) -> Documents:
    """The texts of a source. root: where relative paths start. Raises CorpusError."""
    if isinstance(data, BinData):
        raise AssertionError("token files hold no text")
    if isinstance(data, StdlibData):
        folder = Path(sysconfig.get_path("stdlib"))
        texts = _standard_library(folder)
        missing = f"no library source below {folder}: this Python ships none, use `source: text`"
        return _labelled([(text, None) for text in texts], missing)
    if isinstance(data, WikiData):
        rows = [(text, topic if data.shard_by else None) for text, topic in summaries()]
        return _labelled(rows, "the summaries are empty", ATTRIBUTION)
    path = root / data.path
    if isinstance(data, TextData):
        found = files(path, ".txt")
        missing = f"no text in the *.txt files below {path}: add some, or give another path"
        if path.is_file():
            missing = f"{path} is empty: give a file with text in it"
        return _labelled([(_read(file), None) for file in found], missing)
    return _labelled(_table(data, path), f"no text in {path}: every {data.text!r} is empty")


def name_of(data: Data, root: Path) -> str:
    """What a source is called: its path, or its own name."""
    if isinstance(data, StdlibData | WikiData):
        return data.source
    return str(root / data.path)


def _table(data: JsonlData | ParquetData, path: Path) -> list[tuple[str, str | None]]:
    if isinstance(data, JsonlData):
        read, found = jsonl_rows, files(path, ".jsonl")
    else:
        read, found = parquet_rows, files(path, ".parquet")
    return [row for file in found for row in read(file, data.text, data.shard_by)]


def _labelled(
    rows: list[tuple[str, str | None]], missing: str, attribution: str | None = None
) -> Documents:
    """Rows of text and label as documents, empty ones left out; at least one must stay."""
    kept = [(text, label) for text, label in rows if text.strip()]
    if not kept:
        raise CorpusError(missing)
    labels = [label for _, label in kept if label is not None]
    return Documents([text for text, _ in kept], labels or None, attribution)


def files(path: Path, suffix: str) -> list[Path]:
    """The file, or those below the folder, sorted. Raises CorpusError where there is none."""
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError as error:  # a name that is too long, a folder that is closed
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error
    if is_file:
        return [path]
    if not is_folder:
        raise CorpusError(f"no file or folder {path}: relative paths start at the scenario file")
    found = _sorted([p for p in path.rglob(f"*{suffix}") if p.is_file()], path)
    if not found:
        kind = "text in the *.txt" if suffix == ".txt" else f"*{suffix}"
        raise CorpusError(f"no {kind} files below {path}: add some, or give another path")
    return found


def _standard_library(folder: Path) -> list[str]:
    """The interpreter's own library source, tests left out; a few files are not UTF-8."""
    paths = [
        path
        for path in folder.rglob("*.py")
        if not NOT_LIBRARY & set(path.relative_to(folder).parts)
        and not path.name.startswith(BUILD_FACTS)
    ]
    return [path.read_bytes().decode("utf-8", errors="replace") for path in _sorted(paths, folder)]


def _read(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 ({error.reason}): save it as UTF-8") from error


def _sorted(paths: list[Path], folder: Path) -> list[Path]:
    """By name relative to the folder, so that the order is the same on every machine."""
    return sorted(paths, key=lambda path: path.relative_to(folder).as_posix())
