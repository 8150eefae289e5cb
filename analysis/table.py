"""The table of a study in plain text, for the terminal. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import numbers, point_table
from analysis.folders import Listing, find, read_json
from analysis.plain import aligned, one_line
from analysis.sweep import sweep_of

Summary = Mapping[str, Any]
PROXY = "proxy: another model is timed"


@dataclass(frozen=True)
class Column:
    """A column of the main table."""

    title: str
    kind: str
    """How the number came about: measured or simulated."""
    applies: str
    """To runs that trained, to a timing study, or to both."""
    show: Callable[[Summary], str]


COLUMNS = (
    Column("val loss", "measured", "trained", lambda s: numbers.loss(s["val_loss"])),
    Column("bits/byte", "measured", "trained", lambda s: numbers.loss(s["val_bits_per_byte"])),
    Column("gap", "measured", "trained", lambda s: numbers.gap(s["val_loss_gap"])),
    Column("train tokens", "measured", "trained", lambda s: numbers.count(s["train_tokens"])),
    Column("tokens", "simulated", "timing", lambda s: numbers.count(s["tokens"])),
    Column("tokens/s", "simulated", "timing", lambda s: numbers.significant(s["tokens_per_s"])),
    Column("ETTR", "simulated", "timing", lambda s: f"{s['ettr']:.3f}"),
    Column(
        "full-depth share",
        "simulated",
        "both",
        lambda s: numbers.percent(s["full_depth_token_share"]),
    ),
    Column("simulated hours", "simulated", "both", lambda s: numbers.hours(s["wall_s"])),
    Column("dollars", "simulated", "both", lambda s: numbers.usd(s["usd"]["total"])),
)


def columns(listing: Listing) -> tuple[Column, ...]:
    """The columns that apply: losses and trained tokens, or the timed job's tokens."""
    learned = any(e.summary["val_loss"] is not None for e in listing.entries)
    return tuple(c for c in COLUMNS if c.applies in ("both", "trained" if learned else "timing"))


def labels(listing: Listing) -> tuple[str, ...]:
    """What every output must say of these runs: how much evidence, whether a proxy."""
    found = dict.fromkeys(e.summary["label"] for e in listing.entries if e.summary["label"])
    if any(e.summary.get("proxy") is True for e in listing.entries):
        found[PROXY] = None
    return (*found, *stale_prices(listing))


def stale_prices(listing: Listing) -> tuple[str, ...]:
    """What runs said of prices of the catalogue that are no longer fresh."""
    found: dict[str, None] = {}
    for entry in listing.entries:
        told = entry.path / "env.json"
        if told.is_file():
            found |= dict.fromkeys(map(str, read_json(told).get("stale_prices") or ()))
    return tuple(found)


def joined_labels(listing: Listing) -> str:
    """The labels on one line, for the foot of a figure."""
    return " · ".join(labels(listing))


def table(folder: Path) -> str:
    """Of a study a row for each point with its mean gap; else arm by arm what the runs came to.

    Raises:
        AnalysisError: nothing finished in the folder, or a broken file.
    """
    return text_of(find(folder))


def text_of(listing: Listing) -> str:
    """The table of runs that were found."""
    sweep = sweep_of(listing)
    if sweep is None:
        chosen = columns(listing)
        rows = [["arm", *(c.title for c in chosen)]]
        rows += [[e.cell, *(c.show(e.summary) for c in chosen)] for e in listing.entries]
        notes = list(labels(listing))
    else:
        rows, notes = point_table.text_of(sweep)
        notes += stale_prices(listing)
    failed = {} if sweep is None else {c.label for c in sweep.cells if c.failed}
    left_out = [cell for cell in listing.unfinished if cell not in failed]
    if left_out:
        notes.append(f"not finished, left out: {'; '.join(map(one_line, left_out))}")
    return "\n".join([*aligned(rows), *(f"({one_line(note, 400)})" for note in notes)])
