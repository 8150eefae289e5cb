"""The slot timeline: a row a slot, coloured by what it was doing."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from numpy.typing import NDArray

from analysis import numbers, scales, shocks, style, table
from analysis.folders import CLASSES
from analysis.load import STATES, Run, Study
from analysis.occupancy import HELD_UP, OUT, STEPS, seconds_by_bin, shares
from analysis.style import Drawn

EXACT_SLOTS, EXACT_ROWS = 128, 20_000
"""Up to these every spell is a rectangle; beyond them a pixel mixes what it covers."""
PIXELS = (400, 1200)
"""Rows and columns of the mixed picture."""
WIDTH = 9.6
TIMELINES = 12
"""No more arms than this are drawn."""

_MEANING = {
    "train": "in its round",
    "wait": "waits",
    "lost": "work lost",
    "restore": "loads weights",
    "provision": "boots",
    "vacant": "vacant",
}


def timeline_figures(study: Study) -> list[Drawn]:
    """The timeline of every arm in which something was out, or of the only run."""
    runs = [run for run in study.runs if run.had_outages] or list(study.runs[:1])
    used: set[str] = set()
    return [timeline_figure(study, run, stem_of(run, used)) for run in runs[:TIMELINES]]


def stem_of(run: Run, used: set[str]) -> str:
    """A file name that no cell's name can lead astray."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in run.cell)
    stem = f"timeline-{plain[:64]}"
    while stem in used:
        stem += "_"
    used.add(stem)
    return stem


def timeline_figure(study: Study, run: Run, stem: str) -> Drawn:
    """One arm's timeline."""
    replicas, stages = int(run.summary["replicas"]), int(run.summary["stages"])
    slots = replicas * stages
    of_state = shares(run.slots)
    says = f"{style.short(run.cell)}: {_in_words(run)}"
    height = min(7.0, 1.5 + max(1.2, 0.1 * slots + 0.05 * replicas))
    is_exact = slots <= EXACT_SLOTS and len(run.slots) <= EXACT_ROWS
    with style.paper():
        figure = style.new_figure(WIDTH, height, table.joined_labels(study.listing))
        axes = figure.subplots()
        scale = scales.time([run])
        if is_exact:
            _rectangles(axes, run.slots, stages, scale.divisor)
        else:
            _mixture(axes, run, slots, stages, scale.divisor)
        _dress(axes, run, replicas, stages, is_exact)
        scale.dress(axes)
        axes.set_xlim(0, run.wall_s / scale.divisor)
        struck = shocks.shocks(run.outages, run.wall_s)
        lines = shocks.mark(axes, struck, scale.divisor, run.wall_s)
        axes.set_title(says, pad=8 + 12 * lines)
        seen = [state for state in STATES if of_state[state] > 0]
        figure.legend(
            handles=[Patch(facecolor=style.STATE_COLOURS[s], edgecolor="#999999") for s in seen],
            labels=[f"{_MEANING[s]} {numbers.percent(of_state[s])}" for s in seen],
            loc="outside right upper",
            title="share of slot time",
            title_fontsize=9.5,
            alignment="left",
        )
        how = "" if is_exact else " A pixel mixes the colours of what it covers."
        how += " A black line: a shock, which takes many workers of a zone at once." * bool(struck)
        caption = (
            f"Slot timeline of {run.cell} (simulated): {replicas} replicas x {stages} stages, "
            f"stage 0 of each replica on top. In its round: steps, exchange and barrier.{how}"
        )
        return style.render(figure, stem, caption, f"{caption} {says}.")


def _in_words(run: Run) -> str:
    """Where the slot time went, by the ledger's classes: the timeline calls a barrier training."""
    seconds = {key: float(run.summary["slot_s"][key]) for key in CLASSES}
    total = sum(seconds.values()) or 1.0
    steps, held_up, out = (
        numbers.percent(sum(seconds[key] for key in keys) / total) for keys in (STEPS, HELD_UP, OUT)
    )
    return f"{steps} of slot time in steps, {held_up} waiting or lost, {out} out"


def _place(slots: pd.DataFrame, stages: int, gap: float) -> NDArray[np.float64]:
    """Top of each line's row: replicas from above, apart by `gap` rows."""
    replica = slots["replica"].to_numpy(np.float64)
    top: NDArray[np.float64] = replica * (stages + gap) + slots["stage"].to_numpy(np.float64)
    return top


def _gap(stages: int) -> float:
    return 0.0 if stages == 1 else 0.6


def _rectangles(axes: Axes, slots: pd.DataFrame, stages: int, unit_s: float) -> None:
    top = _place(slots, stages, _gap(stages))
    left = slots["start_s"].to_numpy(np.float64) / unit_s
    right = slots["end_s"].to_numpy(np.float64) / unit_s
    bottom = top + 0.9
    corners = np.stack([left, top, right, top, right, bottom, left, bottom], axis=1)
    polygons = corners.reshape(-1, 4, 2)
    for state in STATES:
        chosen = (slots["state"] == state).to_numpy()
        if chosen.any():
            colour = style.STATE_COLOURS[state]
            axes.add_collection(
                PolyCollection(list(polygons[chosen]), facecolors=colour, edgecolors=colour,
                               linewidths=0.1 if state == "train" else 0.3)
            )  # fmt: skip


def _mixture(axes: Axes, run: Run, slots: int, stages: int, unit_s: float) -> None:
    rows = min(slots, PIXELS[0])
    slot = _place(run.slots, stages, 0.0).astype(np.int64)
    seconds = seconds_by_bin(run.slots, slot * rows // slots, rows, run.wall_s, PIXELS[1])
    axes.imshow(
        mixed(seconds),
        extent=(0, run.wall_s / unit_s, slots, 0),
        aspect="auto",
        interpolation="none",
    )


def mixed(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours [rows, bins, rgb] of seconds [rows, states, bins]: the states' mean, by time."""
    colours = np.array([to_rgb(style.STATE_COLOURS[state]) for state in STATES])
    total = seconds.sum(axis=1, keepdims=True)
    share = np.divide(seconds, total, out=np.zeros_like(seconds), where=total > 0)
    picture: NDArray[np.float64] = np.einsum("rsb,sc->rbc", share, colours)
    picture[total[:, 0] <= 0] = 1.0
    return np.clip(picture, 0.0, 1.0)


def _dress(axes: Axes, run: Run, replicas: int, stages: int, is_exact: bool) -> None:
    step = stages + (_gap(stages) if is_exact else 0.0)
    every = max(1, -(-replicas // 16))
    shown = np.arange(0, replicas, every)
    axes.set_ylim(replicas * step - (_gap(stages) if is_exact else 0.0), 0)
    axes.set_yticks(shown * step + stages / 2, [str(r) for r in shown])
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("replica")
    axes.grid(False)
    axes.spines["left"].set_visible(False)
