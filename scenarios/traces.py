"""Trace files of a scenario: found, read, ready to be replayed."""

from __future__ import annotations

import stat
from pathlib import Path

from sim.config import HOUR_S, Outages, TraceOutages
from sim.traces.replay import Replay
from sim.traces.trace import Trace, TraceError

SHORTEST_S = 1e-3
"""Of a trace that begins again at its end: with less the clock would not get on."""
UNITS_S = {"ms": 1e-3, "s": 1.0, "h": HOUR_S}


def read_trace(path: Path, unit: str = "s", zone: str | None = None) -> Trace:
    """The trace in a file, whatever its format.

    Args:
        unit: of the times of a time,count file whose header tells none.
        zone: only its workers.

    Raises:
        TraceError: with file and line, also where the file cannot be opened.
    """
    trace = _read(path, unit)
    if zone is None:
        return trace
    try:
        return trace.of_zone(zone)
    except ValueError as error:
        raise TraceError(str(path), 0, f"{error} (got {zone!r})") from None


def _read(path: Path, unit: str) -> Trace:
    from sim.traces.read import (  # a reader a format, and few scenarios have one
        is_parquet,
        read_text,
    )

    try:
        if stat.S_IFMT(path.stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            message = "cannot be read: a pipe or a device may never end, write it to a file"
            raise TraceError(str(path), 0, message)
        if is_parquet(path):
            from sim.traces.parquet import read_parquet

            return read_parquet(path)
        return read_text(path, UNITS_S[unit])
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise TraceError(str(path), 0, message) from None
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(str(path), 0, "not a file name") from None


def replay_of(outages: Outages, root: Path = Path()) -> Replay | None:
    """What `outages.kind: trace` replays; None of any other kind.

    Args:
        root: folder that a relative path starts from.

    Raises:
        TraceError: the file cannot be read, or not be replayed like this.
    """
    if not isinstance(outages, TraceOutages):
        return None
    path = root / outages.path
    trace = read_trace(path, outages.unit, outages.zone)
    if not trace.has_outages:
        message = "tells lives and no returns: take the laws that `stageout fit` prints"
        raise TraceError(str(path), 0, message)
    if outages.wrap and trace.end_s < SHORTEST_S:
        message = f"lasts {trace.end_s:g} s, too short to begin again and again: say wrap: false"
        raise TraceError(str(path), 0, message)
    if outages.offset_h * HOUR_S >= trace.end_s:
        message = f"ends after {trace.end_s / HOUR_S:g} h (offset_h got {outages.offset_h:g})"
        raise TraceError(str(path), 0, message)
    return Replay(trace, outages)
