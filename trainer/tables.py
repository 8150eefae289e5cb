"""Documents out of JSON lines and Parquet: the text, and what it is sharded by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.corpus_error import CorpusError, in_short, read_bytes

Row = tuple[str, str | None]
"""A text and its label; no label where there is no shard key."""


def jsonl_rows(path: Path, text: str, shard_by: str | None) -> list[Row]:
    """One JSON object a line; blank lines are passed over. Raises CorpusError."""
    rows: list[Row] = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:  # the latter where brackets nest deep
            raise CorpusError(
                f"{where}: not a line of JSON ({error}): one object a line is expected"
            ) from error
        if not isinstance(value, dict):
            raise CorpusError(f"{where}: must be an object (got {type(value).__name__})")
        rows.append((_text(value, text, where), _label(value, shard_by, where)))
    return rows


def _text(value: dict[str, Any], key: str, where: str) -> str:
    if not isinstance(value.get(key), str):
        raise CorpusError(
            f"{where}: no text under {key!r} (keys: {in_short(value)}): "
            "name the key that holds the text with train.data.text"
        )
    return _unicode(value[key], key, where)


def _label(value: dict[str, Any], key: str | None, where: str) -> str | None:
    if key is None:
        return None
    if value.get(key) is None:
        raise CorpusError(
            f"{where}: nothing under {key!r} (keys: {in_short(value)}): every document needs a "
            "value to be sharded by; change train.data.shard_by or leave it out"
        )
    return _unicode(str(value[key]), key, where)


def _unicode(text: str, key: str, where: str) -> str:
    """The text, unless JSON has escaped half a character into it, which UTF-8 cannot say."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"{where}: {key!r} holds {text[error.start]!a}, half of a character of two: "
            "leave it out, or write the whole character"
        ) from error
    return text


def parquet_rows(path: Path, text: str, shard_by: str | None) -> list[Row]:
    """One document a row; rows without a text are passed over. Raises CorpusError."""
    try:
        columns = _columns(path, {"text": text, "shard_by": shard_by})
    except (pa.ArrowException, OSError) as error:
        why = " ".join(str(error).split())
        raise CorpusError(f"cannot read {path} as Parquet: {why}") from error
    values = _values(path, text, columns[text])
    if any(not isinstance(value, str | None) for value in values):
        raise CorpusError(
            f"{path}: column {text!r} holds {columns[text].type}, not text: "
            "choose another with train.data.text"
        )
    if shard_by is None:
        return [(value, None) for value in values if value is not None]
    labels = _values(path, shard_by, columns[shard_by])
    if None in labels:
        raise CorpusError(
            f"{path}: column {shard_by!r} has rows without a value: every document needs one to be "
            "sharded by"
        )
    return [(v, str(label)) for v, label in zip(values, labels, strict=True) if v is not None]


def _columns(path: Path, wanted: dict[str, str | None]) -> dict[str, pa.ChunkedArray]:
    """Columns by name. wanted: their names by the key of `train.data` that chooses them."""
    with pq.ParquetFile(path) as file:
        there = file.schema_arrow.names
        for key, name in wanted.items():
            if name is not None and there.count(name) != 1:
                has = "two columns" if name in there else "no column"
                raise CorpusError(
                    f"{path} has {has} {name!r} (columns: {in_short(there)}): "
                    f"choose one with train.data.{key}"
                )
        names = list(dict.fromkeys(name for name in wanted.values() if name is not None))
        table = file.read(columns=names)
    return {name: table[name] for name in names}


def _values(path: Path, name: str, column: pa.ChunkedArray) -> list[Any]:
    """As Python's own; a file may say text of bytes that are none, or a date beyond all years."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:
        raise CorpusError(
            f"{path}: column {name!r} holds a value that is no {column.type} ({error}): "
            "write it again"
        ) from error
    return values
