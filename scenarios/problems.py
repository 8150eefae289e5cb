"""What is wrong and where, in one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Mark:
    """A place: file, 1-based line and column. Line 0: the source has no lines (an override)."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    at: Mark
    key: str
    message: str

    @property
    def where(self) -> str:
        """`file:line:col`, or `override 'key=value'`."""
        return str(self.at)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.message) if part)


class ScenarioError(Exception):
    """A scenario that cannot be used: every problem, files first, then by position."""

    def __init__(self, problems: list[Problem]) -> None:
        def order(p: Problem) -> tuple[bool, Mark, str, str]:
            return p.at.line == 0, p.at, p.key, p.message

        self.problems = sorted(set(problems), key=order)
        super().__init__("\n".join(map(str, self.problems)))


def dotted(path: tuple[str | int, ...]) -> str:
    """A path as users write it."""
    return ".".join(map(str, path))


def got(value: Any) -> str:
    """`(got ...)`: the value as YAML shows it, short, on one line, nothing unprintable."""
    if isinstance(value, dict | list) and len(value) > 3:
        return f"(got a {'map' if isinstance(value, dict) else 'list'} of {len(value)})"
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{k}: {got(v)[5:-1]}" for k, v in value.items()) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(got(v)[5:-1] for v in value) + "]"
    elif isinstance(value, str):
        text = ascii(value) if not value.isprintable() else repr(value)
    elif isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        text = f"{value}".replace("inf", ".inf").replace("nan", ".nan")
    elif value is None or isinstance(value, bool):
        text = "null" if value is None else str(value).lower()
    else:
        text = repr(value)
    return f"(got {text if len(text) <= 60 else text[:57] + '...'})"
