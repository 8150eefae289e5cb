"""report.html of a study or a run, with its figures and its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import inputs, page, study_report, style, table, tables, words
from analysis.curves import gap_figure, loss_figures, progress_figures
from analysis.files import write_atomically
from analysis.folders import AnalysisError, find
from analysis.load import Study, load
from analysis.money import money_figures
from analysis.page import Section
from analysis.style import Drawn
from analysis.sweep import sweep_of
from analysis.timeline import TIMELINES, timeline_figures

__all__ = ["AnalysisError", "write_report"]


def write_report(folder: Path) -> Path:
    """Write `report.html`, `figures/*.png`, `figures/*.svg` and tables as CSV into the folder.

    Of a study with points these are `cells.csv`, `points.csv` and `differences.csv`, else it is
    `summary.csv`. Equal inputs give equal bytes.

    Args:
        folder: a study folder, or a run folder.

    Raises:
        AnalysisError: nothing finished in the folder, or a broken file.
    """
    listing = find(Path(folder))
    sweep = sweep_of(listing)
    if sweep is not None:
        return study_report.write_report(listing, sweep)
    study = load(listing.folder)
    shown, only_saved = sections(study)
    figures = [figure for section in shown for figure in section.figures] + only_saved
    page.save_figures(figures, study.folder / "figures")
    write_atomically(study.folder / "summary.csv", tables.summary_csv(study))
    report = study.folder / "report.html"
    write_atomically(report, report_page(study, shown))
    return report


def sections(study: Study) -> tuple[list[Section], list[Drawn]]:
    """The figures of the page, and those that are only saved: for slides."""
    found, only_saved = [], []
    if study.has_losses:
        *single, side_by_side = loss_figures(study)
        only_saved.append(side_by_side)
        curves = (*single, *gap_figure(study))
        found.append(Section("Loss against tokens, time and dollars", curves, True))
    else:
        found.append(Section("Tokens and dollars against time", (*progress_figures(study),), True))
    drawn = timeline_figures(study)
    lost = [run for run in study.runs if run.had_outages]
    note = f"{len(lost) - TIMELINES} more arms are not drawn." if len(lost) > TIMELINES else ""
    found.append(Section("Who was out when", tuple(drawn), False, note))
    found.append(Section("Where the time and the money went", (*money_figures(study),), False))
    return found, only_saved


def report_page(study: Study, shown: Sequence[Section]) -> str:
    """The page."""
    shared, differing = inputs.scenario_inputs(study.runs)
    target = tables.target_table(study)
    told: dict[str, Any] = {
        "study": study,
        "labels": table.labels(study.listing),
        "finding": words.finding(study),
        "caution": words.caution(study),
        "main": tables.main_table(study),
        "sections": shown,
        "lean": tables.lean_table(study),
        "target": target,
        "clock": tables.clock_table(study),
        "inputs": shared,
        "differing": differing,
        "machine": inputs.machine_inputs(study.runs),
        "colours": {cell: line.colour for cell, line in style.lines(study.runs).items()},
        "unfinished": study.listing.unfinished,
        "aliases": {run.cell: run.aliases for run in study.runs if run.aliases},
    }
    return page.render("report.html.j2", told)
