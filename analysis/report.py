"""report.html of a study or a run, with its figures and its table."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from analysis import inputs, style, table, tables, words
from analysis.curves import gap_figure, loss_figures, progress_figures
from analysis.folders import AnalysisError
from analysis.load import Study, load
from analysis.money import money_figures
from analysis.style import Drawn
from analysis.timeline import TIMELINES, timeline_figures

__all__ = ["AnalysisError", "write_report"]

OURS = ("loss*", "gap", "progress_*", "timeline-*", "slot_hours", "bill")
"""Figures of an earlier report, which might show other runs."""


@dataclass(frozen=True)
class Section:
    """Figures under one heading; `is_narrow` ones stand side by side where there is room."""

    title: str
    figures: tuple[Drawn, ...]
    is_narrow: bool
    note: str = ""


def write_report(folder: Path) -> Path:
    """Write `report.html`, `figures/*.png`, `figures/*.svg` and `summary.csv` into the folder.

    Equal inputs give equal bytes.

    Args:
        folder: a study folder, or a run folder.

    Raises:
        AnalysisError: nothing finished in the folder, or a broken file.
    """
    study = load(Path(folder))
    shown, only_saved = sections(study)
    figures = [figure for section in shown for figure in section.figures] + only_saved
    place = study.folder / "figures"
    for pattern in OURS:
        for old in [*place.glob(f"{pattern}.png"), *place.glob(f"{pattern}.svg")]:
            old.unlink()
    style.save(figures, place)
    _write(study.folder / "summary.csv", tables.summary_csv(study))
    report = study.folder / "report.html"
    _write(report, page(study, shown))
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


def page(study: Study, shown: Sequence[Section]) -> str:
    """The page: one file, nothing from outside, no script."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["image"] = _image
    environment.filters["unbroken"] = _unbroken
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
    return environment.get_template("report.html.j2").render(told) + "\n"


def _image(figure: Drawn) -> str:
    """A figure as the address of an image: in an <img>, SVG can neither run nor fetch anything."""
    return "data:image/svg+xml;base64," + base64.b64encode(figure.svg).decode("ascii")


def _unbroken(text: str) -> str:
    """A number stays on the line of its unit."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace(" nats", "\N{NO-BREAK SPACE}nats")


def _write(path: Path, text: str) -> None:
    """The file is there whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8", newline="\n")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
