"""Lines and numbers of a trace, each wrong one told with its line; sizes are bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from sim.traces.trace import TraceError

MAX_BYTES = 64 * 2**20
MOST_WORKERS = 100_000
MOST_CHANGES = 300_000
"""Times that a worker comes or goes."""
LONGEST_S = 100 * 365 * 86_400.0
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is no comment, and its place."""

    source: str
    number: int
    text: str

    def fail(self, message: str, got: Any = None) -> NoReturn:
        """Raise what is wrong with it."""
        shown = "" if got is None else f" (got {short(got)})"
        raise TraceError(self.source, self.number, message + shown)

    def fields(self) -> list[str]:
        """Between commas, without blanks around."""
        return [field.strip() for field in self.text.split(",")]

    def columns(self) -> list[str]:
        """Names of a header, in lower case; each but an empty one once."""
        names = [name.lower() for name in self.fields()]
        for name in filter(None, names):
            if names.count(name) > 1:
                self.fail("two columns of one name", name)
        return names

    def number_of(self, text: Any, what: str) -> float:
        """A finite number."""
        try:
            value = float(text) if isinstance(text, str | int | float) else math.nan
        except (ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value) or isinstance(text, bool):
            self.fail(f"{what} must be a number", text)
        return value

    def time_s(self, text: Any, unit_s: float, what: str = "a time") -> float:
        """Seconds, from a number of units; not negative."""
        t_s = self.number_of(text, what) * unit_s
        if not 0 <= t_s <= LONGEST_S:
            self.fail(f"{what} must be from 0 to a hundred years", text)
        return t_s

    def count_of(self, text: Any) -> int:
        """A number of workers."""
        value = self.number_of(text, "a count")
        if value != int(value) or not 0 <= value <= MOST_WORKERS:
            self.fail(f"a count must be a whole number from 0 to {MOST_WORKERS}", text)
        return int(value)


def short(value: Any) -> str:
    """A value on one line, nothing unprintable."""
    try:
        text = repr(value[: 2 * SHOWN]) if isinstance(value, str) else str(value)
    except ValueError:  # an integer of thousands of digits
        text = "a huge number"
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def instant_s(moment: datetime) -> float:
    """Seconds since 1970; a moment without a zone is taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def lines_of(path: Path) -> Iterator[Line]:
    """Lines that are neither blank nor a comment, one by one.

    Raises:
        TraceError: the file is too large, or no text.
        OSError: it cannot be read.
    """
    return (line for line in _filled(path) if not _is_comment(line))


def comments_of(path: Path) -> Iterator[Line]:
    """The comments before the first other line."""
    return takewhile(_is_comment, _filled(path))


def _is_comment(line: Line) -> bool:
    return line.text.startswith("#")


def _filled(path: Path) -> Iterator[Line]:
    """Lines that are not blank."""
    source, size = str(path), path.stat().st_size
    if size > MAX_BYTES:
        raise TraceError(source, 0, f"larger than {MAX_BYTES >> 20} MiB")
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                raise TraceError(source, number, "not UTF-8 text") from None
            if "\0" in text:
                raise TraceError(source, number, "not a text file")
            if text:
                yield Line(source, number, text)
