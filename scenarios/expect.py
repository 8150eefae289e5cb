"""Bounds that a scenario sets on its own summary."""

from __future__ import annotations

import operator
from typing import Any

from scenarios.consistency import BOUND
from scenarios.schema import Scenario

OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


def unmet(scenario: Scenario, cell: str, summaries: dict[str, dict[str, Any]]) -> list[str]:
    """One line for each bound that the cell's summary does not keep."""
    lines = []
    for key, bound in scenario.expect.items():
        found: Any = summaries[cell]
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
