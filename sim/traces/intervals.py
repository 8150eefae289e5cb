"""Our own traces: `worker, zone, gone_s, back_s, cause`, one outage a row; all are up at first.

A CSV file, or the `outages.parquet` of a run. Workers that were never lost are in no row, and an
end is in none: a comment before the header, `# workers: 32, end_s: 86400`, says both. Without it
there are as many workers as the largest number says, and the trace ends with its last instant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from sim.records import Spell
from sim.traces.text import MOST_WORKERS, Line
from sim.traces.trace import Trace, of_spells

COLUMNS = ("worker", "zone", "gone_s", "back_s", "cause")
NEVER = ("", "nan", "null", "none")
ABOUT = re.compile(r"#\s*workers:\s*(\d{1,9})\s*,\s*end_s:\s*([0-9.eE+-]{1,30})\s*$")
BEGINS = re.compile(r"#\s*workers\s*:")
Row = tuple[Spell, Line]


def is_intervals(header: list[str]) -> bool:
    """Whether a first line names the columns, in any order."""
    return set(COLUMNS) <= set(header)


def read_intervals(lines: Iterable[Line], comments: Iterable[Line]) -> Trace:
    """A CSV with a header.

    Args:
        comments: those before the header, of which one may tell workers and end.
    """
    rows = iter(lines)
    head = next(rows)
    header = head.columns()
    column = {name: header.index(name) for name in COLUMNS}
    found: list[Row] = []
    for line in rows:
        fields = line.fields()
        if len(fields) != len(header):
            line.fail(f"must have {len(header)} columns as the header", line.text)
        worker, zone, gone, back, cause = (fields[column[name]] for name in COLUMNS)
        gone_s = line.time_s(gone, 1.0, "gone_s")
        back_s = math.nan if back.lower() in NEVER else line.time_s(back, 1.0, "back_s")
        found.append((Spell(line.count_of(worker), zone, gone_s, back_s, cause), line))
    workers, end_s = _about(comments)
    return checked(found, head, workers, end_s)


def _about(comments: Iterable[Line]) -> tuple[int | None, float | None]:
    """(workers, end) as a comment tells them; None where none begins like that."""
    for line in comments:
        if BEGINS.match(line.text):
            told = ABOUT.match(line.text)
            if told is None:
                line.fail("must be `# workers: N, end_s: SECONDS`", line.text)
            return line.count_of(told[1]), line.time_s(told[2], 1.0, "end_s")
    return None, None


def checked(rows: Sequence[Row], head: Line, workers: int | None, end_s: float | None) -> Trace:
    """The trace of outages in any order.

    Args:
        workers, end_s: None: as the rows show.

    Raises:
        TraceError: an outage ends before it begins, or two of a worker overlap.
    """
    largest = max((spell.worker for spell, _ in rows), default=-1) + 1
    workers = largest if workers is None else workers
    instants = [spell.gone_s for spell, _ in rows]
    instants += [spell.back_s for spell, _ in rows if not math.isnan(spell.back_s)]
    end_s = max(instants, default=0.0) if end_s is None else end_s
    if not largest <= workers <= MOST_WORKERS:
        head.fail(f"{workers} workers, and the rows name {largest}")
    if not workers or end_s <= 0:
        head.fail("no outage in it, and no word of how many workers there are for how long")
    zones = [""] * workers
    ordered = sorted(rows, key=lambda row: (row[0].worker, row[0].gone_s))
    for spell, line in ordered:
        if not spell.cause:
            line.fail("an outage needs a cause, any word")
        if spell.back_s <= spell.gone_s:
            line.fail("back_s must be later than gone_s", spell.back_s)
        if zones[spell.worker] not in ("", spell.zone):
            line.fail(f"worker {spell.worker} was in zone {zones[spell.worker]!r}", spell.zone)
        zones[spell.worker] = spell.zone
    for (before, _), (spell, line) in pairwise(ordered):
        if before.worker == spell.worker and not before.back_s <= spell.gone_s:
            line.fail(f"worker {spell.worker} is still away then", spell.gone_s)
    known = next((zone for zone in zones if zone), "trace")
    zones = [zone or known for zone in zones]
    return of_spells([spell for spell, _ in ordered], zones, end_s)
