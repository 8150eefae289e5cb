"""What all reports share: sections of figures, one self-contained page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from analysis import style
from analysis.style import Drawn

OURS = ("loss*", "gap*", "progress_*", "timeline-*", "slot_hours", "bill", "training", "*_vs_rate")
"""Figures of an earlier report, which might show other runs."""


@dataclass(frozen=True)
class Section:
    """Figures under one heading; `is_narrow` ones stand side by side where there is room."""

    title: str
    figures: tuple[Drawn, ...]
    is_narrow: bool
    note: str = ""


def render(template: str, told: Mapping[str, Any]) -> str:
    """A page: one file, nothing from outside, no script."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["image"] = _image
    environment.filters["unbroken"] = _unbroken
    return environment.get_template(template).render(told) + "\n"


def save_figures(figures: Sequence[Drawn], place: Path) -> None:
    """Write the figures; those of an earlier report go, files that are not ours stay."""
    for pattern in OURS:
        for old in [*place.glob(f"{pattern}.png"), *place.glob(f"{pattern}.svg")]:
            old.unlink(missing_ok=True)  # another command may write the same report
    style.save(figures, place)


def _image(figure: Drawn) -> str:
    """A figure as the address of an image: in an <img>, SVG can neither run nor fetch anything."""
    return "data:image/svg+xml;base64," + base64.b64encode(figure.svg).decode("ascii")


def _unbroken(text: str) -> str:
    """A number stays on the line of its unit and of its interval."""
    for together in (" %", " nats", " ± "):
        text = text.replace(together, together.replace(" ", "\N{NO-BREAK SPACE}"))
    return text
