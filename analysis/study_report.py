"""report.html of a study with points: figures, tables and words over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import inputs, page, rates, study_tables, study_words, style, table
from analysis.cost import cost_figure
from analysis.files import write_atomically
from analysis.flagship import flagship
from analysis.folders import Listing
from analysis.grids import heat_figure, points_figure
from analysis.load import Run, Study, without_timelines
from analysis.page import Section
from analysis.seeds import training_figures
from analysis.stats import METHOD
from analysis.sweep import Sweep
from analysis.timeline import stem_of, timeline_figure

TIMELINES = 3
"""Arms whose timeline is drawn: one seed, at the last value of the parameters."""


def write_report(listing: Listing, sweep: Sweep) -> Path:
    """Write `report.html`, `figures/`, `cells.csv`, `points.csv`, `differences.csv`.

    Raises:
        AnalysisError: a broken file.
    """
    study = without_timelines(listing)
    shown = sections(study, sweep)
    text = report_page(study, sweep, shown)
    figures = [figure for section in shown for figure in section.figures]
    page.save_figures(figures, study.folder / "figures")
    write_atomically(study.folder / "cells.csv", study_tables.cells_csv(sweep))
    write_atomically(study.folder / "points.csv", study_tables.points_csv(sweep))
    write_atomically(study.folder / "differences.csv", study_tables.differences_csv(sweep))
    report = study.folder / "report.html"
    write_atomically(report, text)
    return report


def sections(study: Study, sweep: Sweep) -> list[Section]:
    """The figures of the page; the first section stands above the tables."""
    gaps = (*flagship(study, sweep), *points_figure(sweep), *heat_figure(sweep))
    timelines = [timeline_figure(study, run, stem) for run, stem in _timelines(study, sweep)]
    arms = {point.arm for point in sweep.points if point.done}
    cut = style.left_out(len(arms), TIMELINES, "arm")
    note = f"Of each arm a run of the last point that has any. {cut + '.' if cut else ''}".strip()
    return [
        Section("", gaps, False),
        Section("Over training", (*training_figures(study, sweep),), False),
        Section("What the network leans on", (*rates.lean_figure(sweep),), False),
        Section("Time and money", (*rates.clock_figure(sweep), *cost_figure(sweep)), False),
        Section("Who was out when", tuple(timelines), False, note),
    ]


def _timelines(study: Study, sweep: Sweep) -> list[tuple[Run, str]]:
    """The last point of each of the first arms, of the first seed that has finished it."""
    runs = {run.path: run for run in study.runs}
    last = {point.arm: point.done[0] for point in sweep.points if point.done}
    used: set[str] = set()
    return [(runs[cell.entry.path], stem_of(runs[cell.entry.path], used))
            for cell in list(last.values())[:TIMELINES] if cell.entry]  # fmt: skip


def labels(study: Study, sweep: Sweep) -> list[str]:
    """What must be said of all numbers: how many seeds, how much of it is done, whether a proxy."""
    done = sum(cell.entry is not None for cell in sweep.cells)
    found = ["one seed, not evidence" if len(sweep.seeds) == 1 else sweep.seed_words]
    if done < len(sweep.cells):
        found.append(f"partial: {done} of {len(sweep.cells)} cells have finished")
    found += [table.PROXY] if study.is_proxy else []
    return [*found, *table.stale_prices(study.listing)]


def report_page(study: Study, sweep: Sweep, shown: Sequence[Section]) -> str:
    """The page."""
    typical = _typical(study, sweep)
    shared, differing = inputs.scenario_inputs(list(typical.values()))
    swept = {key: inputs.of_sweep(key, values) for key, values in sweep.parameters.items()}
    swept["seed"] = inputs.of_sweep("seed", sweep.seeds)
    failed = {cell.label: cell.failed for cell in sweep.cells if cell.failed}
    names = [line.name for line in sweep.series()]
    colours = {line.arm: style.look_of("", k).colour for k, line in enumerate(sweep.series())}
    told: dict[str, Any] = {
        "study": study,
        "labels": labels(study, sweep),
        "finding": study_words.finding(study, sweep),
        "caution": study_words.caution(study, sweep),
        "method": METHOD if len(sweep.seeds) > 1 else "",
        "sections": shown,
        "main": study_tables.main_table(sweep),
        "differences": study_tables.difference_table(sweep),
        "controls": study_tables.control_table(study, sweep),
        "anchors": study_tables.anchor_table(study, sweep),
        "inputs": [*swept.values(), *(one for one in shared if one.key not in swept)],
        "differing": inputs.Differing(
            tuple(arm or "all" for arm in typical),
            tuple((key, values) for key, values in differing.rows if key not in swept),
        ),
        "machine": inputs.machine_inputs(study.runs),
        "colours": colours if len(names) == len(colours) else {},
        "failed": failed,
        "unfinished": [label for label in study.listing.unfinished if label not in failed],
    }
    return page.render("study.html.j2", told)


def _typical(study: Study, sweep: Sweep) -> dict[str | None, Run]:
    """The first finished run of each arm: their scenarios differ in what makes the arms."""
    runs = {run.path: run for run in study.runs}
    found: dict[str | None, Run] = {}
    for point in sweep.points:
        for cell in point.done:
            if cell.entry is not None:
                found.setdefault(point.arm, runs[cell.entry.path])
    return found or {None: study.runs[0]}
