"""Numbers that are too large to be told end a run with one line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from scenarios.agenda import RunError, attempt
from scenarios.load import load
from scenarios.plan import plan
from scenarios.strict_json import TooLarge, dumps


def test_a_bill_that_overflows_is_one_line(tmp_path: Path) -> None:
    told = ["global_steps=3", "sweep=null", "pools.*.usd_per_h=1e308"]
    planned = plan(load("timing_only", told), tmp_path, with_training=False)
    run = planned.runs[planned.cells["run"]]
    failed = attempt(run, lambda text: None, lambda row: None, lambda: 1)
    assert isinstance(failed, RunError)
    assert failed.args[0].startswith("usd_compute is too large to be told. Finished global steps")


def test_what_is_too_large_is_named() -> None:
    """No row may be, and their sum."""
    with pytest.raises(TooLarge, match="usd is too large"):
        dumps({"seed": 1, "usd": {"total": math.inf}})
