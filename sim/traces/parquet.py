"""The `outages.parquet` of a run as a trace. Apart from the other readers: pyarrow is heavy."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sim.records import Spell
from sim.traces.intervals import COLUMNS, checked
from sim.traces.text import MAX_BYTES, Line
from sim.traces.trace import Trace, TraceError

WORKERS, END_S = b"workers", b"end_s"
"""Metadata of the schema."""


def read_parquet(path: Path) -> Trace:
    """A file that `scenarios/tables.py` wrote, or one with its columns.

    Raises:
        TraceError: it is none; rows are told as lines, from 1.
    """
    source = str(path)
    if path.stat().st_size > MAX_BYTES:
        raise TraceError(source, 0, f"larger than {MAX_BYTES >> 20} MiB")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(source, 0, f"not a Parquet file ({str(error).splitlines()[0]})") from None
    if not set(COLUMNS) <= set(table.column_names):
        raise TraceError(source, 0, f"must have the columns {', '.join(COLUMNS)}")
    head = Line(source, 0, "")
    rows = []
    for number, row in enumerate(table.select(COLUMNS).to_pylist(), start=1):
        line, back = Line(source, number, ""), row["back_s"]
        is_never = back is None or back != back
        spell = Spell(
            worker=line.count_of(row["worker"]),
            zone=str(row["zone"]),
            gone_s=line.time_s(row["gone_s"], 1.0, "gone_s"),
            back_s=math.nan if is_never else line.time_s(back, 1.0, "back_s"),
            cause=str(row["cause"]),
        )
        rows.append((spell, line))
    told = table.schema.metadata or {}
    if WORKERS not in told or END_S not in told:
        return checked(rows, head, None, None)
    workers, end_s = (told[key].decode("utf-8", "replace") for key in (WORKERS, END_S))
    return checked(rows, head, head.count_of(workers), head.time_s(end_s, 1.0, "end_s"))
