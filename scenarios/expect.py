"""Bounds that a scenario sets on its own summary."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from scenarios.consistency import BOUND

OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


def unmet(bounds: Mapping[str, str], cell: str, summary: Mapping[str, Any]) -> list[str]:
    """One line for each bound that a cell's summary does not keep."""
    lines = []
    for key, bound in bounds.items():
        found: Any = summary
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, dict):  # `usd` stands for its total
            found = found.get("total")
        match = BOUND.match(bound)
        assert match is not None, "checked when the scenario was loaded"
        sign, limit = match.groups()
        if not isinstance(found, int | float) or not OPERATORS[sign](found, float(limit)):
            lines.append(f"{cell}: expected {key} {bound}, found {found}")
    return lines
