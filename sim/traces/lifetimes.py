"""Traces of machines that live once: one a row, with start, life and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sim.traces.text import MOST_WORKERS, Line, instant_s
from sim.traces.trace import CAP, NO_LOSS, Life, Trace

STARTS = ("start_s", "insert_time", "start")
LIVES = ("life_s", "life_h")
LOST, STOPPED, CAPPED = ("preempted", "lost"), ("stop", "stopped", "running"), ("capped", "cap")
CAP_S = 24 * 3600.0
AFTER_CAP_S = 1.05 * CAP_S
"""GCP ends a preemptible machine at 24 h; the longest lives of its public file end at 24.8 h."""


def is_lifetimes(header: list[str]) -> bool:
    """Whether a first line names the columns."""
    return "end" in header and any(name in header for name in LIVES)


def read_lifetimes(lines: Iterable[Line]) -> Trace:
    """A header with `life_s` (or `life_h`), `end`, and perhaps `zone` and a start.

    A machine that its owner stopped is censored. Where the longest life lies just above 24 h, those
    lost from 24 h on were ended by the provider's cap.
    """
    rows = iter(lines)
    head = next(rows)
    header = head.columns()
    column = {name: header.index(name) for name in header}
    life = next(name for name in LIVES if name in header)
    start = next((name for name in STARTS if name in header), None)
    found: list[tuple[str, float, float, str]] = []
    last = head
    for line in rows:
        fields, last = line.fields(), line
        if len(fields) != len(header):
            line.fail(f"must have {len(header)} columns as the header", line.text)
        life_s = line.time_s(fields[column[life]], 3600.0 if life == "life_h" else 1.0, life)
        begin_s = 0.0 if start is None else _instant(fields[column[start]], line)
        cause = _cause(fields[column["end"]].lower(), line)
        zone = fields[column["zone"]] if "zone" in column else "trace"
        found.append((zone, begin_s, life_s, cause))
        if len(found) > MOST_WORKERS:
            line.fail(f"more than {MOST_WORKERS} machines")
    if not any(life_s > 0 for _, _, life_s, _ in found):
        last.fail("no machine with a life above 0 s")
    longest_s = max(life_s for _, _, life_s, _ in found)
    has_cap = CAP_S <= longest_s <= AFTER_CAP_S
    first_s = min(begin_s for _, begin_s, _, _ in found)
    lives = []
    for worker, (_, begin_s, life_s, cause) in enumerate(found):
        ended = CAP if has_cap and cause != NO_LOSS and life_s >= CAP_S else cause
        lives.append(Life(worker, begin_s - first_s, begin_s - first_s + life_s, ended))
    return Trace(
        form="lifetimes",
        zones=tuple(zone for zone, _, _, _ in found),
        lives=tuple(lives),
        end_s=max(each.end_s for each in lives),
        has_outages=False,
    )


def _instant(text: str, line: Line) -> float:
    """Seconds of a number, or of a date with a time; one without a zone is taken as UTC."""
    try:
        return instant_s(datetime.fromisoformat(text))
    except ValueError:
        return line.time_s(text, 1.0, "a start")


def _cause(end: str, line: Line) -> str:
    if end in STOPPED:
        return NO_LOSS
    if end in CAPPED:
        return CAP
    if end not in LOST:
        line.fail(f"end must be {', '.join(LOST + STOPPED + CAPPED)}", end)
    return end
