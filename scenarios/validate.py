"""`stageout validate`: every row, the table, the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from scenarios import (
    validation_links,
    validation_markets,
    validation_restart,
    validation_rows,
    validation_stragglers,
)
from scenarios.bench import Bench, Check

ROWS = (
    *validation_rows.ROWS,
    *validation_restart.ROWS,
    *validation_links.ROWS,
    *validation_stragglers.ROWS,
    *validation_markets.ROWS,
)
HEAD = ("row", "result", "scenario", "formula", "engine", "tolerance", "from", "verdict")
PAGE = """# The engine against formulas

Written by `stageout validate`; the tests assert it at a fifth of this length. Each row plays an
ordinary scenario of `scenarios/validation/` and looks at it from outside, through global steps
and outages. The formulas are in `sim/theory.py`, with their sources. Rows not here wait for the
feature they test. Seeds are fixed. A tolerance of chance is such that a right engine misses it
for fewer than one seed in a thousand; *arithmetic* leaves nothing to chance. For a KS test the
formula is a distance of 0. That a row can fail is tested too: mechanisms broken on purpose turn
the rows red that are named for them (`tests/sim/test_mutations.py`).

Row 24 plays the rounds of Covenant-72B (arXiv 2603.08163). Its stated payload and limits, 110 Mb/s
up and 500 down, make an exchange of 749 s; the published 70 s would take 4.5 Gb/s each way. The
two do not fit together, so nothing is calibrated to either.

{table}

{verdict}
"""


def checks(
    bench: Bench, rows: tuple[Callable[[Bench], Iterator[Check]], ...] = ROWS
) -> Iterator[Check]:
    """All rows, as they are done."""
    for row in rows:
        yield from row(bench)


def cells(check: Check) -> tuple[str, ...]:
    """A line of the table."""
    digits = (f"{x:.5g}" for x in (check.target, check.value))
    verdict = "ok" if check.holds else "FAILS"
    tolerance = f"{check.tolerance:.2g}"
    return (check.row, check.what, check.scenario, *digits, tolerance, check.because, verdict)


def table(found: list[Check]) -> str:
    """Markdown, aligned for a terminal as well."""
    lines = [HEAD, *map(cells, found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    rules = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(cell.ljust(n) for cell, n in zip(line, widths, strict=True)) + " |"
        for line in (lines[0], rules, *lines[1:])
    )


def verdict(found: list[Check]) -> str:
    """One sentence."""
    missed = [check.row for check in found if not check.holds]
    if missed:
        return f"{len(missed)} of {len(found)} fail: rows {', '.join(dict.fromkeys(missed))}."
    return f"All {len(found)} hold."


def write_page(found: list[Check], file: Path) -> None:
    """docs/validation.md; the same results are the same bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PAGE.format(table=table(found), verdict=verdict(found)), encoding="utf-8")
