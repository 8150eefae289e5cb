"""Where the text comes from: documents of a source, in a fixed order."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from trainer.config import Data, TextData

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
BUILD_FACTS = "_sysconfigdata"
"""Start of the one module that names the paths of the machine that built the interpreter."""


class CorpusError(ValueError):
    """There is no text, it cannot be read, or it is too short; the message says what to do."""


def documents(data: Data, root: Path) -> list[str]:
    """The texts of a source. root: where relative paths start. Raises CorpusError."""
    if isinstance(data, TextData):
        return _text(root / data.path)
    return _standard_library(Path(sysconfig.get_path("stdlib")))


def _standard_library(folder: Path) -> list[str]:
    """The interpreter's own library source, tests left out; a few files are not UTF-8."""
    paths = [
        path
        for path in folder.rglob("*.py")
        if not NOT_LIBRARY & set(path.relative_to(folder).parts)
        and not path.name.startswith(BUILD_FACTS)
    ]
    texts = [path.read_bytes().decode("utf-8", errors="replace") for path in _sorted(paths, folder)]
    return _not_empty(
        texts, f"no library source below {folder}: this Python ships none, use `source: text`"
    )


def _text(path: Path) -> list[str]:
    if path.is_dir():
        paths = _sorted([p for p in path.rglob("*.txt") if p.is_file()], path)
        missing = f"no text in the *.txt files below {path}: add some, or give another path"
    elif path.is_file():
        paths = [path]
        missing = f"{path} is empty: give a file with text in it"
    else:
        raise CorpusError(f"no file or folder {path}: relative paths start at the scenario file")
    return _not_empty([_read(p) for p in paths], missing)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 ({error.reason}): save it as UTF-8") from error
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error


def _sorted(paths: list[Path], folder: Path) -> list[Path]:
    """By name relative to the folder, so that the order is the same on every machine."""
    return sorted(paths, key=lambda path: path.relative_to(folder).as_posix())


def _not_empty(texts: list[str], missing: str) -> list[str]:
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise CorpusError(missing)
    return texts
