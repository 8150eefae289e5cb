"""The command `stageout`. stdout is data, stderr is talk."""

from __future__ import annotations

import gc
import json
import os
import sys
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scenarios.cli_whatif import whatif
from scenarios.load import Loaded, ScenarioError, bundled, dump, json_schema, load
from scenarios.store import StoreError
from scenarios.talk import EPILOG, FAILED, INTERRUPTED, NOT_MET, OK, USAGE, Json, fail, say

if TYPE_CHECKING:
    from scenarios.plan import Plan
    from scenarios.store import RunFolder

app = typer.Typer(
    help="Plan and understand training on unreliable machines: loss, hours and dollars from one "
    "stream of outages. Seconds and dollars are simulated, losses are trained.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

MANY_CELLS = 6
"""More are shown a line each."""


def complete_file(incomplete: str) -> list[str]:
    """Bundled scenarios for shell completion."""
    return [name for name in bundled() if name.startswith(incomplete)]


File = Annotated[
    str,
    typer.Argument(
        help="Scenario file, or the name of a bundled one.", autocompletion=complete_file
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="key.path=value after the file; globs allowed: 'pools.*.usd_per_h=1'."),
]
Out = Annotated[Path, typer.Option(help="Folder for run folders.")]
Unit = Literal["ms", "s", "h"]


def read(file: str, overrides: list[str] | None) -> Loaded:
    """The scenario, or its problems and exit 2."""
    try:
        return load(file, overrides or [])
    except ScenarioError as error:
        raise fail(str(error), USAGE) from None


@app.command(epilog=EPILOG)
def run(
    file: File,
    overrides: Overrides = None,
    *,
    out: Out = Path("runs"),
    jobs: Annotated[
        int, typer.Option(min=1, help="One-threaded processes in all; default: one a core.")
    ] = os.cpu_count() or 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what it would be, stop.")
    ] = False,
    no_train: Annotated[bool, typer.Option("--no-train", help="Time and money only.")] = False,
    shard: Annotated[
        str | None, typer.Option(help="i/n: one part, for a job array; then run without.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Forget earlier results of it.")] = False,
    as_json: Json = False,
) -> None:
    """Run a scenario, or every arm of its sweep, each beside its own no-failure run.

    Finished runs are skipped, half-done ones go on where they were.
    """
    from scenarios.plan import plan
    from scenarios.shard import Shard

    loaded = read(file, overrides)
    try:
        part = Shard.of(shard) if shard is not None else None
    except ValueError as error:
        raise fail(f"--shard: {error}", USAGE) from None
    if dry_run:
        preview(plan(loaded, out, with_training=not no_train), jobs, out, as_json)
        return
    from scenarios.agenda import RunError
    from scenarios.show import Show
    from scenarios.study import run_study

    with Show(is_quiet=False) as show:
        try:
            planned, result = run_study(
                loaded, out, jobs, show, with_training=not no_train, shard=part, force=force
            )
        except StoreError as error:
            raise fail(str(error), FAILED) from None
        except RunError as error:
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            say("interrupted; the same command goes on where it stopped")
            raise typer.Exit(INTERRUPTED) from None
    left = len(planned.todo())
    if part is not None and left:
        say(f"part {shard} has ended, {left} runs are left; without --shard they are brought in")
    elif result.summaries:
        is_met = finish(planned, result.summaries, as_json)
        result.exit_code = result.exit_code or (OK if is_met else NOT_MET)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def finish(planned: Plan, summaries: dict[str, dict[str, Any]], as_json: bool) -> bool:
    """Table or JSON, report, expectations: whether they are met."""
    from analysis.load import AnalysisError
    from analysis.report import write_report
    from analysis.table import table
    from scenarios.expect import unmet

    try:
        report = write_report(planned.folder)
    except AnalysisError as error:
        raise fail(str(error), FAILED) from None
    print(json.dumps(summaries, indent=2) if as_json else table(planned.folder))
    say(f"report: {report}")
    missed = [
        line
        for cell, summary in summaries.items()
        for line in unmet(planned.bounds[cell], cell, summary)
    ]
    if missed:
        say("\n".join(missed))
    return not missed


def preview(planned: Plan, jobs: int, out: Path, as_json: bool) -> None:
    """What every cell will be, and what the whole will take here."""
    from scenarios import outlay
    from scenarios import preview as p

    def numbers(cell: str, folder: RunFolder) -> dict[str, Any]:
        ahead = outlay.look(planned, cell)
        return p.scenario_numbers(planned.runs[folder].scenario, ahead, date.today())

    told = outlay.outlay(planned, jobs, out)
    if as_json:
        cells = {cell: numbers(cell, folder) for cell, folder in planned.cells.items()}
        print(json.dumps({"cells": cells, "training": told}, indent=2))
        return
    if len(planned.cells) > MANY_CELLS:
        print("\n".join(outlay.points_in_words(planned)))
    else:
        for cell, folder in planned.cells.items():
            print("\n".join(p.in_words(cell, numbers(cell, folder))))
    print(outlay.in_words(told))


@app.command(epilog=EPILOG)
def check(
    file: Annotated[str | None, typer.Argument(help="Scenario file or bundled name.")] = None,
    overrides: Overrides = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema for editors.")
    ] = False,
    odds: Annotated[
        int,
        typer.Option(
            min=0,
            max=100_000,
            help="Simulate so many seeds: P50, P90, P99 of hours and dollars, target.deadline_h "
            "and target.usd.",
        ),
    ] = 0,
) -> None:
    """Validate a scenario; print it with all defaults filled in, and its derived numbers."""
    if schema:
        print(json.dumps(json_schema(), indent=2))
        return
    if file is None:
        raise fail("check needs a scenario file (or --schema)", USAGE)
    loaded = read(file, overrides)
    print(dump(loaded.scenario), end="")
    from scenarios import odds as o
    from scenarios import preview as p
    from scenarios.outlook import MOST_SIMULATED, look_ahead
    from scenarios.plan import prepared

    for cell, scenario in islice(loaded.cells.items(), MANY_CELLS):
        ready = prepared(scenario, loaded.root, with_training=True)
        ahead = look_ahead(ready, MOST_SIMULATED)
        say("\n".join(p.in_words(cell, p.scenario_numbers(ready, ahead, date.today()))))
        if odds:
            say("\n".join(o.in_words(o.odds(ready, odds))))
    if len(loaded.cells) > MANY_CELLS:
        say(f"and {len(loaded.cells) - MANY_CELLS} cells more: stageout run --dry-run tells")


@app.command(epilog=EPILOG)
def report(
    folder: Annotated[Path, typer.Argument(help="runs/<name>, or one run folder in it.")],
) -> None:
    """Write report.html with figures and CSV from finished runs."""
    from analysis.load import AnalysisError
    from analysis.report import write_report

    try:
        print(write_report(folder))
    except AnalysisError as error:
        raise fail(str(error), USAGE) from None


app.command(epilog=EPILOG)(whatif)


@app.command(epilog=EPILOG)
def fit(
    trace: Annotated[Path, typer.Argument(help="Trace file; its format is known by its content.")],
    *,
    zone: Annotated[str | None, typer.Option(help="Only the workers of this zone.")] = None,
    unit: Annotated[
        Unit, typer.Option(help="Of the times of a time,count file whose header tells none.")
    ] = "s",
    out: Annotated[
        Path | None, typer.Option(help="Folder for fit.json, fit.png, fit.svg, fit.csv.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit laws of times up and away and of losses in bulk to a trace; print a pool to paste.

    Durations that the trace cuts off are censored. The pool is simulated, and held against the
    trace.
    """
    from scenarios.fit import fit_file
    from scenarios.fit_words import in_words
    from sim.traces.trace import TraceError

    try:
        told = fit_file(trace, zone, unit)
    except TraceError as error:
        raise fail(str(error), USAGE) from None
    print(json.dumps(told, indent=2) if as_json else in_words(told))
    if out is not None:
        from analysis.files import write_atomically
        from analysis.fit_figure import write_fit_figure

        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "fit.json", json.dumps(told, indent=2, allow_nan=False))
        say(f"figure: {write_fit_figure(out) or 'none, no whole duration'}")


@app.command(epilog=EPILOG)
def validate(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/validation.md"),
) -> None:
    """Hold the engine against closed forms; print the table and write it. About a minute."""
    from scenarios import validate as v
    from scenarios.bench import Bench

    found = []
    for done in v.checks(Bench()):
        say(f"{'ok   ' if done.holds else 'FAILS'} {done.row:>3} {done.what}")
        found.append(done)
    print(v.table(found))
    v.write_page(found, out)
    say(f"{v.verdict(found)} {out}")
    if not all(done.holds for done in found):
        raise typer.Exit(FAILED)


def main() -> None:
    """Entry point. What the file system refuses is one line, not a traceback."""
    gc.freeze()  # what has been imported stays, so the collector need not go over it
    try:
        app()
    except BrokenPipeError:  # the reader of stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        say(f"{error}. What is finished is kept; the same command goes on")
        sys.exit(FAILED)
