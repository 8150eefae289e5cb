"""Documents out of JSON lines and Parquet: the text, and what it is sharded by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.corpus_error import CorpusError

Row = tuple[str, str | None]
"""A text and its label; no label where there is no shard key."""


def jsonl_rows(path: Path, text: str, shard_by: str | None) -> list[Row]:
    """One JSON object a line; blank lines are passed over. Raises CorpusError."""
    rows: list[Row] = []
    for number, line in enumerate(_bytes(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except ValueError as error:
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
            f"{where}: no text under {key!r} (keys: {', '.join(value) or 'none'}): "
            "name the key that holds the text with train.data.text"
        )
    found: str = value[key]
    return found


def _label(value: dict[str, Any], key: str | None, where: str) -> str | None:
    if key is None:
        return None
    if value.get(key) is None:
        raise CorpusError(
            f"{where}: nothing under {key!r} (keys: {', '.join(value)}): every document needs a "
            "value to be sharded by; change train.data.shard_by or leave it out"
        )
    return str(value[key])


def parquet_rows(path: Path, text: str, shard_by: str | None) -> list[Row]:
    """One document a row; rows without a text are passed over. Raises CorpusError."""
    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            for key, name in (("text", text), ("shard_by", shard_by)):
                if name is not None and name not in columns:
                    raise CorpusError(
                        f"{path} has no column {name!r} (columns: {', '.join(columns)}): "
                        f"choose one with train.data.{key}"
                    )
            wanted = [text] if shard_by is None else list({text: None, shard_by: None})
            table = file.read(columns=wanted)
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"cannot read {path} as Parquet: {error}") from error
    values = table[text].to_pylist()
    if any(not isinstance(value, str | None) for value in values):
        raise CorpusError(
            f"{path}: column {text!r} holds {table[text].type}, not text: "
            "choose another with train.data.text"
        )
    if shard_by is None:
        return [(value, None) for value in values if value is not None]
    labels = table[shard_by].to_pylist()
    if None in labels:
        raise CorpusError(
            f"{path}: column {shard_by!r} has rows without a value: every document needs one to be "
            "sharded by"
        )
    return [(v, str(label)) for v, label in zip(values, labels, strict=True) if v is not None]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error
