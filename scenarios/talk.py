"""How commands talk: exit codes, words to stderr, options that several have."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

EPILOG = (
    "Exit codes: 0 ok; 1 a run failed; 2 bad usage or scenario; 3 an `expect` not met; "
    "130 interrupted, finished steps kept. The same command again continues."
)
OK, FAILED, USAGE, NOT_MET, INTERRUPTED = 0, 1, 2, 3, 130
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def say(text: str) -> None:
    print(text, file=sys.stderr)


def fail(text: str, code: int) -> typer.Exit:
    say(text)
    return typer.Exit(code)
