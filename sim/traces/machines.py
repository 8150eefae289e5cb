"""Traces that name machines: Bamboo's `ms,add|remove,node`, Parcae's `[ms, op, {"nodes": []}]`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sim.traces.seats import Seats
from sim.traces.text import Line
from sim.traces.trace import Trace

MS = 1e-3
OPERATIONS = ("add", "remove")
PARCAE_OPERATIONS = (*OPERATIONS, "no-op", "migration")


def read_bamboo(lines: Iterable[Line]) -> Trace:
    """`ms,add|remove,node`, in time order; the trace begins with its first line."""
    story = _Story("bamboo")
    for line in lines:
        fields = line.fields()
        if len(fields) != 3:
            line.fail("must be ms,add|remove,node", line.text)
        time, operation, name = fields
        story.at(line.time_s(time, MS), line)
        if operation not in OPERATIONS:
            line.fail("must be add or remove", operation)
        story.tell(operation, name, line)
    return story.end()


def read_parcae(lines: Iterable[Line]) -> Trace:
    """A JSON list a line: `[ms, operation, {"nodes": [names], "duration": ms}]`."""
    story = _Story("parcae")
    for line in lines:
        try:
            entry = json.loads(line.text)
        except (ValueError, RecursionError):
            line.fail("must be a JSON list", line.text)
        if not (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], dict)):
            line.fail('must be [ms, operation, {"nodes": [...]}]', line.text)
        time, operation, told = entry
        t_s = line.time_s(time, MS)
        story.at(t_s, line)
        if operation not in PARCAE_OPERATIONS:
            line.fail(f"must be {', '.join(PARCAE_OPERATIONS)}", operation)
        names = told.get("nodes", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            line.fail("nodes must be a list of names", names)
        for name in names if operation in OPERATIONS else ():
            story.tell(operation, name, line)
        story.last_s = t_s + line.time_s(told.get("duration", 0), MS, "a duration")
    return story.end()


class _Story:
    """Adds and removes in time order."""

    def __init__(self, form: str) -> None:
        self._seats = Seats(form)
        self._first_s: float | None = None
        self._now_s = 0.0
        self._line: Line | None = None
        self.last_s = 0.0

    def at(self, t_s: float, line: Line) -> None:
        """It is t now."""
        if self._first_s is None:
            self._first_s = self._now_s = t_s
        if t_s < self._now_s:
            line.fail("the times run backwards", line.text)
        self._now_s = self.last_s = t_s
        self._line = line

    def tell(self, operation: str, name: str, line: Line) -> None:
        """A machine comes or goes now."""
        if not name:
            line.fail("a machine without a name", line.text)
        t_s = self._now_s - (self._first_s or 0.0)
        (self._seats.come if operation == "add" else self._seats.go)(t_s, name, line)

    def end(self) -> Trace:
        """The trace ends with its last line."""
        assert self._line is not None, "who recognised it saw a line"
        return self._seats.close(self.last_s - (self._first_s or 0.0), self._line)
