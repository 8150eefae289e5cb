"""Progress on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenarios.load import Loaded
from scenarios.plan import plan
from scenarios.show import Show

ROW = {"global_step": 0, "val_loss": 5.0, "train_loss": 5.5, "slots_live": 1, "steps": [[4, 0]]}


def test_a_cell_may_be_called_by_what_looks_like_markup(
    small: Callable[..., Loaded],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Such as the path of a trace, which is a parameter's value."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, rich is told
    planned = plan(small("none"), tmp_path)
    (run,) = (replace(each, cell="path=[/x]") for each in list(planned.runs.values())[:1])
    row: dict[str, Any] = ROW
    with Show() as show:
        show.begin([])
        show.row(run, row)
    assert "path=[/x]" in capsys.readouterr().err
