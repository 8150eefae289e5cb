"""Which format a text file is, by its content; then its reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from sim.traces import counts, intervals, lifetimes, machines
from sim.traces.text import Line, comments_of, lines_of
from sim.traces.trace import Trace, TraceError

PARQUET = b"PAR1"
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?nan|[-+]?inf(inity)?", re.I)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
KNOWN = (
    "ms,add|remove,node; time,count; YYYY-MM-DD, HH:MM:SS, count; SkyPilot or Parcae JSON; columns "
    "life_s and end; columns worker, zone, gone_s, back_s, cause"
)


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(len(PARQUET)) == PARQUET


def read_text(path: Path, unit_s: float = 1.0) -> Trace:
    """The trace in a text file.

    Args:
        unit_s: seconds of a unit of `time,count` without a header that names one.

    Raises:
        TraceError: with file and line.
        OSError: it cannot be read.
    """
    lines = lines_of(path)
    start = list(islice(lines, 1))
    if not start:
        raise TraceError(str(path), 1, "the file is empty")
    return _read(start[0], chain(start, lines), path, unit_s)


def _read(first: Line, lines: Iterator[Line], path: Path, unit_s: float) -> Trace:
    fields, text = first.fields(), first.text
    header = [field.lower() for field in fields]
    if text.startswith("{"):
        return counts.read_skypilot(lines)
    if text.startswith("["):
        is_points = text.replace(" ", "")[1:2] in ("", "{")
        return counts.read_points(lines) if is_points else machines.read_parcae(lines)
    if intervals.is_intervals(header):
        return intervals.read_intervals(lines, comments_of(path))
    if lifetimes.is_lifetimes(header):
        return lifetimes.read_lifetimes(lines)
    if len(fields) == 3 and DATE.fullmatch(fields[0]):
        return counts.read_dated(lines)
    if len(fields) == 3 and fields[1] in machines.OPERATIONS:
        return machines.read_bamboo(lines)
    if text.lower().replace(" ", "") in counts.COUNT_HEADERS:
        return counts.read_steps(lines, unit_s)
    if len(fields) == 2 and all(NUMBER.fullmatch(field) for field in fields):
        return counts.read_steps(lines, unit_s)
    return first.fail(f"no format that is known: {KNOWN}", text)
