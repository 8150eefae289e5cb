"""The command `stageout whatif`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from scenarios.talk import USAGE, Json, fail


def whatif(
    folder: Annotated[Path, typer.Argument(help="runs/<name> of a study with a sweep.")],
    knobs: Annotated[
        list[str] | None,
        typer.Argument(help="With --json: knobs to turn, such as losses_per_h=0.07 spot=1.2."),
    ] = None,
    *,
    losses: Annotated[
        Path | None,
        typer.Option(help="A trained study, which tells the loss of what was not trained."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write whatif.html: the bill, the break-even and the knobs, from a study's engine runs.

    With --json the answers at one setting are printed and no page is written. Prices are
    multiplied, what lies between runs is interpolated, what lies outside is unknown.
    """
    from analysis import whatif as w

    if knobs and not as_json:
        raise fail("knobs are turned in the page; on the command line they need --json", USAGE)
    try:
        if not as_json:
            print(w.write_whatif(folder, losses))
            return
        grid, told = w.read_all(folder, losses)
        print(json.dumps(w.answers(grid, told, w.turned(grid, knobs or [])), indent=2))
    except w.AnalysisError as error:
        raise fail(str(error), USAGE) from None
