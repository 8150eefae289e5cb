"""How figures look and how they are written: one style, equal bytes for equal inputs."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from analysis.files import aside
from analysis.load import Run

PNG_DPI = 200
LINE_HEIGHT = 0.17
"""Inches of a line of the foot."""
INK = "#222222"
FAINT = "#6a6a6a"
GRID = "#e4e4e4"
ARMS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe-Ito without black, which is the no-failure run's, and yellow, which is faint on white."""
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", ":", "-.")
REFERENCE = (0, (4, 2))
IN_TITLE, TITLE_LENGTH = 3, 56
"""A title names no more arms than this, in no more characters."""

STATE_COLOURS = {
    "train": "#d3dfea",
    "wait": "#F0E442",
    "lost": "#D55E00",
    "restore": "#009E73",
    "provision": "#56B4E9",
    "vacant": "#2b2b2b",
}
CLASS_COLOURS = {
    "compute": "#0072B2",
    "boundary": "#7fb5d8",
    "bubble": "#c9d6df",
    "sync": "#CC79A7",
    "wait": "#F0E442",
    "lost": "#D55E00",
    "restore": "#009E73",
    "provision": "#56B4E9",
    "vacant": "#2b2b2b",
    "spare": "#b08d57",
    "egress": "#8c6bb1",
    "storage": "#4d004b",
}

_PAPER: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.unicode_minus": True,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "stageout",
    "text.color": INK,
    "text.parse_math": False,  # names may hold a dollar sign
    "xtick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.color": INK,
    "ytick.labelsize": 9.5,
}


@contextmanager
def paper() -> Iterator[None]:
    """The style; matplotlib's own settings are as before afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_PAPER)
        yield


@dataclass(frozen=True)
class Drawn:
    """A finished figure."""

    stem: str
    """File name without its ending."""
    svg: bytes
    png: bytes
    caption: str
    alt: str


def render(figure: Figure, stem: str, caption: str, alt: str) -> Drawn:
    """The figure as SVG and PNG, without dates or versions. Call inside `paper`."""
    figure.draw_without_rendering()  # lays out, once for both
    figure.set_layout_engine("none")
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "stageout"})
    figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": "stageout"})
    return Drawn(stem, svg.getvalue(), png.getvalue(), caption, alt)


def save(drawn: Sequence[Drawn], folder: Path) -> None:
    """Write `<stem>.svg` and `<stem>.png` of each figure."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in drawn:
        for ending, content in (("svg", one.svg), ("png", one.png)):
            with aside(folder / f"{one.stem}.{ending}") as place:
                place.write_bytes(content)


@dataclass(frozen=True)
class Line:
    """How an arm is drawn in every figure of a report."""

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]]
    name: str
    is_reference: bool
    """A no-failure run."""


def lines(runs: Sequence[Run]) -> dict[str, Line]:
    """A look for each run: no-failure runs in black and grey, the others in colours."""
    found: dict[str, Line] = {}
    healthy = faulty = 0
    for run in runs:
        if run.is_baseline:
            colour = INK if healthy == 0 else FAINT
            look = Line(colour, "o", REFERENCE, short(run.cell), True)
            healthy += 1
        else:
            look = look_of(run.cell, faulty)
            faulty += 1
        found[run.cell] = look
    return found


def look_of(name: str, place: int) -> Line:
    """The look of an arm by its place among the arms."""
    k = place % len(ARMS)
    return Line(ARMS[k], MARKERS[k], DASHES[place // len(ARMS) % len(DASHES)], short(name), False)


def shades(count: int) -> list[str]:
    """Colours in order, light to dark: readable without colours, and by the colour-blind."""
    places = [0.78 - 0.73 * k / max(1, count - 1) for k in range(count)]
    return [to_hex(mpl.colormaps["viridis"](place)) for place in places]


def short(cell: str, width: int = 28) -> str:
    """A name for a legend: one line, no control characters, the middle cut out of a long one."""
    text = "".join(c if c.isprintable() else "?" for c in cell)
    text = text.replace("no_failure", "no failure")
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"


def told(of: Mapping[str, float], show: Callable[[float], str], unit: str = "") -> str:
    """What a title says of each arm; of many the lowest and the highest."""
    parts = [f"{name} {show(value)}" for name, value in of.items()]
    if len(parts) <= IN_TITLE and len(", ".join(parts)) <= TITLE_LENGTH:
        # none is broken over a line
        return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts) + unit
    low, high = min(of, key=lambda name: of[name]), max(of, key=lambda name: of[name])
    if of[low] == of[high]:
        return f"{show(of[low])}{unit} in all {len(of)} runs"
    return f"{show(of[low])} ({short(low)}) to {show(of[high])} ({short(high)}){unit}"


def left_out(count: int, most: int, what: str) -> str:
    """What must be said where only the first ones are drawn; nothing where all are."""
    left = count - most
    verb = f"{what} is" if left == 1 else f"{what}s are"
    return f"{left} more {verb} not drawn" if left > 0 else ""


def new_figure(width: float, height: float, *notes: str, below: float = 0.0) -> Figure:
    """An empty figure, inches, with what must be said of the numbers small at its foot, a line
    each.

    Args:
        below: inches between the foot and the axes that the layout leaves alone.
    """
    lines = [line for note in notes for line in textwrap.wrap(note, int(width * 15))]
    foot = LINE_HEIGHT * len(lines) / height
    bottom = foot + below / height
    layout = ConstrainedLayoutEngine(h_pad=0.03, hspace=0.02, rect=(0, bottom, 1, 1 - bottom))
    figure = Figure(figsize=(width, height), layout=layout)
    text = figure.text(0.99, foot, "\n".join(lines), ha="right", va="top", fontsize=9)
    text.set(color=FAINT, in_layout=False)
    return figure


def heading(figure: Figure, text: str) -> None:
    """The finding above a figure, in two lines at least, so that frames side by side align."""
    lines = textwrap.wrap(text, int(figure.get_figwidth() * 10.2))
    figure.suptitle(
        "\n".join([" "] * (2 - len(lines)) + lines),
        x=0.01,
        ha="left",
        fontsize=11,
        fontweight="bold",
    )
