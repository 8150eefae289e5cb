"""Traces that count: `time,count` steps, dated readings, SkyPilot's ticks, lists of points.

Who leaves is not told. It is drawn (`Seats`), so lives of single machines are inferred.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from sim.traces.seats import Seats
from sim.traces.text import LONGEST_S, MOST_CHANGES, Line, instant_s
from sim.traces.trace import Trace

Reading = tuple[float, int, Line]
"""(instant, machines from then on, where it stands)."""
REPEATS_S = (60.0, 120.0)
"""One public file writes each reading three times, at +0, +1 and +2 minutes."""
COUNT_HEADERS = {"time,count": 1.0, "time_s,count": 1.0, "time_h,count": 3600.0}
"""First lines, and the seconds of their unit."""


def read_steps(lines: Iterable[Line], unit_s: float) -> Trace:
    """`time,count`: so many machines from then on. A time may come twice, the last one counts."""
    rows = iter(lines)
    first = next(rows)

    def readings() -> Iterator[Reading]:
        unit = unit_s
        for line in chain([first], rows):
            if line.text.lower().replace(" ", "") in COUNT_HEADERS:
                unit = COUNT_HEADERS[line.text.lower().replace(" ", "")]
                continue
            fields = line.fields()
            if len(fields) != 2:
                line.fail("must be time,count", line.text)
            yield line.time_s(fields[0], unit), line.count_of(fields[1]), line

    return _trace("time,count", first, readings())


def read_dated(lines: Iterable[Line]) -> Trace:
    """`YYYY-MM-DD, HH:MM:SS, count`; a reading that repeats the one before is left out."""
    rows = iter(lines)
    first = next(rows)

    def readings() -> Iterator[Reading]:
        kept: tuple[float, int] | None = None
        for line in chain([first], rows):
            fields = line.fields()
            if len(fields) != 3:
                line.fail("must be YYYY-MM-DD, HH:MM:SS, count", line.text)
            try:
                t_s = instant_s(datetime.fromisoformat(f"{fields[0]}T{fields[1]}"))
            except ValueError:
                line.fail("must begin with YYYY-MM-DD, HH:MM:SS", line.text)
            count = line.count_of(fields[2])
            if kept is not None and kept[1] == count and t_s - kept[0] in REPEATS_S:
                continue
            kept = (t_s, count)
            yield t_s, count, line

    return _trace("dated count", first, readings())


def read_skypilot(lines: Iterable[Line]) -> Trace:
    """`{"metadata": {"gap_seconds": g}, "data": [count a tick]}`; what is not above 0 is nobody."""
    first, told = whole_json(lines)
    metadata = told.get("metadata")
    gap = metadata.get("gap_seconds") if isinstance(metadata, dict) else None
    data = told.get("data")
    if gap is None or not isinstance(data, list):
        first.fail('must hold "metadata": {"gap_seconds": ...} and "data": [...]')
    gap_s = first.time_s(gap, 1.0, "gap_seconds")
    if gap_s <= 0 or len(data) * gap_s > LONGEST_S:
        first.fail("gap_seconds must be above 0, and the trace within a hundred years", gap)

    def readings() -> Iterator[Reading]:
        for tick, value in enumerate(data):
            value = int(value) if isinstance(value, bool) else value
            number = first.number_of(value, f"data[{tick}]")
            yield tick * gap_s, first.count_of(max(number, 0.0)), first

    return _trace("skypilot", first, readings(), len(data) * gap_s)


def read_points(lines: Iterable[Line]) -> Trace:
    """`[{"Time": seconds, "GPUs": count}, ...]`: each point a map of a time and a count."""
    first, points = whole_json(lines)

    def readings() -> Iterator[Reading]:
        for k, point in enumerate(points["points"]):
            told = dict(point) if isinstance(point, dict) else {}
            times = [told.pop(name) for name in list(told) if name.lower() == "time"]
            if len(times) != 1 or len(told) != 1:
                first.fail(f'point {k} must hold a "Time" and a count', point)
            yield first.time_s(times[0], 1.0), first.count_of(*told.values()), first

    return _trace("points", first, readings())


def whole_json(lines: Iterable[Line]) -> tuple[Line, dict[str, Any]]:
    """(first line, the map that all lines are; a list stands under "points")."""
    every = list(lines)
    first = every[0]
    try:
        told = json.loads("\n".join(line.text for line in every))
    except json.JSONDecodeError as error:
        every[min(error.lineno, len(every)) - 1].fail(f"not JSON: {error.msg}")
    except (ValueError, RecursionError):
        first.fail("not JSON: a number of thousands of digits, or lists in lists")
    return first, told if isinstance(told, dict) else {"points": told}


def _trace(
    form: str, first: Line, readings: Iterator[Reading], end_s: float | None = None
) -> Trace:
    """Machines as the readings count them, from the first reading to the end.

    Args:
        first: line of the file, where it is said that there are no readings.
        end_s: after the first reading; None: the last reading.
    """
    seats = Seats(form, named=False)
    first_s: float | None = None
    before: Reading | None = None
    changes = 0
    for t_s, count, line in readings:
        if first_s is None:
            first_s = t_s
        if before is not None and t_s < before[0]:
            line.fail("the times run backwards", line.text)
        if before is not None and t_s > before[0]:
            changes += abs(before[1] - seats.present)
            seats.become(before[0] - first_s, before[1], before[2], began=before[0] > first_s)
        if changes > MOST_CHANGES:
            line.fail(f"more than {MOST_CHANGES} machines come and go")
        before = (t_s, count, line)
    if before is None or first_s is None:
        first.fail("no readings in it")
    last_s = before[0] - first_s
    seats.become(last_s, before[1], before[2], began=last_s > 0)
    return seats.close(last_s if end_s is None else end_s, before[2])
