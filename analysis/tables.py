"""The tables of a report: titles, kinds and cells as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import numbers, table
from analysis.load import Run, Study
from analysis.reach import asked_loss, reach, target_loss

Summary = Mapping[str, Any]
NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Head:
    """A column's title and how its numbers came about."""

    title: str
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """Heads and rows; the first cell of a row is the arm's name or another label."""

    heads: tuple[Head, ...]
    rows: tuple[tuple[str, ...], ...]


def main_table(study: Study) -> Table:
    """The same columns as on the terminal."""
    columns = table.columns(study.listing)
    heads = (Head("arm"), *(Head(c.title, c.kind) for c in columns))
    rows = ((run.cell, *(c.show(run.summary) for c in columns)) for run in study.runs)
    return Table(heads, tuple(rows))


def _gigabytes(*keys: str) -> Callable[[Summary], str]:
    return lambda s: numbers.significant(sum(s["bytes"][key] for key in keys) / 1e9)


CLOCK: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("ETTR", lambda s: f"{s['ettr']:.3f}"),
    ("tokens/s", lambda s: numbers.significant(s["tokens_per_s"])),
    ("token share", lambda s: numbers.percent(s["token_share"])),
    ("slot availability", lambda s: numbers.percent(s["availability"])),
    ("worker availability", lambda s: numbers.percent(s["worker_availability"])),
    ("degraded share", lambda s: numbers.percent(s["degraded_share"])),
    ("slots lost", lambda s: f"{s['outages']:,}"),
    ("bought on call", lambda s: f"{s.get('bought', 0):,}"),
    ("mean outage, h", lambda s: numbers.hours(s["mean_outage_s"])),
    ("$ per M tokens", lambda s: numbers.usd(s["usd_per_million_tokens"])),
    ("boundary GB", _gigabytes("boundary")),
    ("sync GB", _gigabytes("sync")),
    ("restore GB", _gigabytes("restore", "snapshot")),
    ("lost GB", _gigabytes("lost")),
)


def clock_table(study: Study) -> Table:
    """Time, availability and traffic: a row a quantity, a column a run."""
    heads = (Head("all simulated"), *(Head(run.cell) for run in study.runs))
    rows = ((title, *(show(run.summary) for run in study.runs)) for title, show in CLOCK)
    return Table(heads, (*rows, *_rents(study.runs)))


def _rents(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """What the workers of each pool come to, where several are paid."""
    billed = [run.summary.get("billed", {}).get("node_s", {}) for run in runs]
    hours = [{name: s / 3600 for name, s in of_run.items()} for of_run in billed]
    paid = list(dict.fromkeys(name for told in hours for name, h in told.items() if h > 0))
    for name in paid if len(paid) > 1 else ():
        cells = []
        for run, told in zip(runs, hours, strict=True):
            price = float(run.scenario["pools"][name]["usd_per_h"]) if name in told else 0.0
            h = told.get(name, 0.0)
            cells.append(f"{numbers.significant(h)} h, {numbers.usd(h * price)}")
        yield (f"workers of {name}", *cells)


def target_table(study: Study) -> Table | None:
    """What every run needed to come to the loss asked for, or the highest of the final ones."""
    target = target_loss(study)
    trained = [run for run in study.runs if run.summary["val_loss"] is not None]
    if target is None or (len(trained) < 2 and asked_loss(study) is None):
        return None
    heads = (
        Head(f"to a loss of {numbers.loss(target)}"),
        Head("global steps", "measured"),
        Head("train tokens", "measured"),
        Head("simulated hours", "simulated"),
        Head("dollars", "simulated"),
    )
    rows = []
    for run in trained:
        found = reach(run, target)
        if found is None:
            rows.append((run.cell, NOT_REACHED, *[numbers.NOTHING] * 3))
        else:
            by = "by " if found.is_bound else ""
            rows.append((
                run.cell,
                by + numbers.significant(found.global_steps),
                by + numbers.count(round(found.train_tokens)),
                by + numbers.hours(found.end_s),
                by + numbers.usd(found.usd),
            ))  # fmt: skip
    return Table(heads, tuple(rows))


def lean_table(study: Study) -> Table | None:
    """Rise of the final loss when an inner stage of the anchor is bypassed; a row a stage."""
    runs = [run for run in study.runs if run.summary.get("skip_stage_loss")]
    if not runs:
        return None
    stages = sorted({int(stage) for run in runs for stage in run.summary["skip_stage_loss"]})
    heads = (Head("inner stage bypassed"), *(Head(run.cell, "measured") for run in runs))
    rows = ((str(stage), *(_lean(run, stage) for run in runs)) for stage in stages)
    return Table(heads, tuple(rows))


def _lean(run: Run, stage: int) -> str:
    loss = run.summary["skip_stage_loss"].get(str(stage))
    return numbers.gap(None if loss is None else loss - run.summary["val_loss"])


# --- summary.csv ----------------------------------------------------------------------------


def summary_csv(study: Study) -> str:
    """One row a run, one column a quantity, nested keys joined by a dot; numbers in full."""
    return csv_of([{"cell": run.cell} | dict(scalars(run.summary)) for run in study.runs])


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV; a column for every key that any of them has."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def scalars(summary: Summary, prefix: str = "") -> list[tuple[str, Any]]:
    """Keys and values of nested maps, keys joined by a dot."""
    found: list[tuple[str, Any]] = []
    for key, value in summary.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += scalars(value, f"{name}.")
        elif name != "cell":
            found.append((name, value))
    return found


def _cell(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"  # a spreadsheet would run it
    return value
