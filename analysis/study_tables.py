"""The tables and CSV files of a study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from analysis import numbers, point_table
from analysis.families import families
from analysis.inputs import flat
from analysis.load import Study
from analysis.point_table import Difference, differences, half_width, runs_of
from analysis.rates import inner_stages, lean_of
from analysis.stats import Interval, interval, root_mean_square
from analysis.study_beside import text_nats
from analysis.sweep import NO_FAILURE, Cell, Point, Sweep, values_of
from analysis.tables import Head, Table, csv_of, scalars

KEYS_TOLD = 4
"""No more keys in which a control differs than these are named."""


def main_table(sweep: Sweep) -> Table:
    """The same columns as on the terminal, and how far the network leans on its inner stages."""
    chosen = point_table.columns(sweep)
    stages = inner_stages(sweep)
    heads = (
        *map(Head, point_table.key_heads(sweep)),
        Head("n"),
        *(Head(c.title, c.kind) for c in chosen),
        *(Head(f"stage {stage} skipped", "measured") for stage in stages),
    )
    rows = tuple(
        (*point_table.key_cells(sweep, p), runs_of(p), *(c.show(p) for c in chosen),
         *(numbers.mean_gap(p.mean(lean_of(stage))) for stage in stages))
        for p in sweep.points
    )  # fmt: skip
    return Table(heads, rows)


def difference_table(sweep: Sweep) -> Table | None:
    """Arms against each other at equal parameters, paired by seed."""
    told = differences(sweep)
    if not told:
        return None
    heads = (
        Head("arms"),
        *map(Head, point_table.key_heads(sweep)[1:]),
        Head("n"),
        Head("difference of gaps", "measured"),
        Head("±", "measured"),
        Head("so"),
    )
    rows = tuple(
        (f"{d.first.arm} - {d.second.arm}", *point_table.key_cells(sweep, d.first)[1:],
         str(d.told.n), numbers.mean_gap(d.told.mean), half_width(d.told), d.verdict)
        for d in told
    )  # fmt: skip
    return Table(heads, rows)


def control_table(study: Study, sweep: Sweep) -> Table | None:
    """Controls without failures against the no-failure runs: what differs, and by how much."""
    rows = []
    for name in sweep.controls:
        for family in families(sweep):
            cells = family.control(sweep, name)
            moved = values_of(cells)
            mean = interval(moved)
            if mean is None:
                continue
            rows.append((
                name,
                family.named(", ".join(family.arms)),
                _what_differs(study, cells[0]),
                str(mean.n),
                numbers.mean_gap(mean.mean),
                half_width(mean),
                numbers.loss(root_mean_square(moved)),
                numbers.loss(max(map(abs, moved))),
            ))  # fmt: skip
    heads = (Head("control"), Head("arms"), Head("what differs"), Head("n"),
             Head("gap", "measured"), Head("±", "measured"), Head("root mean square", "measured"),
             Head("largest", "measured"))  # fmt: skip
    return Table(heads, tuple(rows)) if rows else None


def _what_differs(study: Study, cell: Cell) -> str:
    """Keys in which a control's scenario is not that of its no-failure run."""
    runs = {run.path: run for run in study.runs}
    mine, other = (dict(flat(runs[entry.path].scenario))
                   for entry in (cell.entry, cell.healthy) if entry is not None)  # fmt: skip
    keys = [key for key in mine if mine[key] != other.get(key)]
    told = [f"{key} {mine[key]}" for key in keys[:KEYS_TOLD]]
    more = [f"{len(keys) - KEYS_TOLD} more"] if len(keys) > KEYS_TOLD else []
    return ", ".join(told + more) or "nothing"


def anchor_table(study: Study, sweep: Sweep) -> Table | None:
    """Losses to hold the others against: the no-failure runs' and what counting reaches."""
    rows: list[tuple[str, ...]] = []
    for family in families(sweep):
        losses = (run.summary["val_loss"] for run in family.healthy)
        told = interval(loss for loss in losses if loss is not None)
        if told is not None:
            whose = family.named(", ".join(family.arms))
            rows.append((f"no failure: {whose}", numbers.loss(told.mean), half_width(told),
                         str(told.n)))  # fmt: skip
    text = text_nats(study)
    for key, what in (("bigram_nats", "counting pairs of tokens (bigrams)"),
                      ("unigram_nats", "counting single tokens (unigrams)")):  # fmt: skip
        if key in text:
            rows.append((what, numbers.loss(text[key]), numbers.NOTHING, numbers.NOTHING))
    heads = (Head("nats a token, held-out text"), Head("loss", "measured"),
             Head("±", "measured"), Head("n"))  # fmt: skip
    return Table(heads, tuple(rows)) if rows else None


# --- CSV ------------------------------------------------------------------------------------


def cells_csv(sweep: Sweep) -> str:
    """One row a planned run: its place in the study, how it stands, and its summary."""
    rows = []
    for cell in sweep.cells:
        standing = "done" if cell.entry else "failed" if cell.failed else "not finished"
        rows.append({
            "cell": cell.label,
            "arm": cell.arm,
            **{key: cell.parameters.get(key) for key in sweep.parameters},
            "seed": cell.seed,
            "control": cell.control,
            "standing": standing,
            "failed": cell.failed,
            "folder": cell.entry.path.name if cell.entry else None,
            **(dict(scalars(cell.entry.summary)) if cell.entry else {}),
        })  # fmt: skip
    return csv_of(rows)


QUANTITIES = ("val_loss", "degraded_share", "token_share", "full_depth_token_share", "ettr",
              "wall_s", "tokens_per_s", "usd_per_million_tokens", "outages")  # fmt: skip


def points_csv(sweep: Sweep) -> str:
    """One row a point and control: the gap with its interval, means of what else was seen."""
    return csv_of([
        {"arm": point.arm, "control": control}
        | {key: point.parameters.get(key) for key in sweep.parameters}
        | {"n": len(point.done), "planned": len(point.cells), "gap_n": len(point.values())}
        | _ends("gap", point.interval())
        | {key: point.mean(lambda s, key=key: s[key]) for key in QUANTITIES}  # type: ignore[misc]
        | {"usd": point.mean(lambda s: s["usd"]["total"])}
        | {f"rise_without_stage_{s}": point.mean(lean_of(s)) for s in inner_stages(sweep)}
        for control, point in _every(sweep)
    ])  # fmt: skip


def _every(sweep: Sweep) -> Iterator[tuple[str | None, Point]]:
    """Points, then no-failure runs and controls of each arm and value that has its own."""
    for point in sweep.points:
        yield None, point
    for name in (NO_FAILURE, *sweep.controls):
        found: dict[str, list[Cell]] = {}
        for cell in sweep.cells:
            if cell.control == name:
                place = json.dumps([cell.arm, cell.parameters], sort_keys=True)
                found.setdefault(place, []).append(cell)
        for same in found.values():
            yield name, Point(same[0].arm, same[0].parameters, tuple(same))


def differences_csv(sweep: Sweep) -> str:
    """One row a pair of arms and values of the parameters."""
    return csv_of([_difference(sweep, d) for d in differences(sweep)])


def _difference(sweep: Sweep, told: Difference) -> Mapping[str, Any]:
    of = {key: told.first.parameters[key] for key in sweep.parameters}
    return {
        "first": told.first.arm, "second": told.second.arm, **of, "n": told.told.n,
        **_ends("difference", told.told), "noise": told.noise, "verdict": told.verdict,
    }  # fmt: skip


def _ends(name: str, told: Interval | None) -> dict[str, float | None]:
    """Mean, half width and both ends of an interval."""
    if told is None:
        return dict.fromkeys((name, f"{name}_half_width", f"{name}_low", f"{name}_high"))
    half = told.half_width
    low, high = (None, None) if half is None else (told.mean - half, told.mean + half)
    return {name: told.mean, f"{name}_half_width": half, f"{name}_low": low, f"{name}_high": high}
