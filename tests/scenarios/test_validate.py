"""`stageout validate`: table, page, exit code. What its rows say is asserted in tests/sim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenarios import validate
from scenarios.bench import FOLDER, Bench, Check, ks_gap
from scenarios.cli import app
from scenarios.load import load
from tests.test_architecture import ROOT

GOOD = Check("1", "availability", "availability", 0.75, 0.74, 0.02, "3.5 sigma")
BAD = Check("2", "down", "repair", 2.0, 3.0, 0.5, "arithmetic")


def checks_of(*found: Check) -> object:
    def checks(_: Bench) -> Iterator[Check]:
        yield from found

    return checks


@pytest.mark.parametrize(
    ("found", "code", "verdict"),
    [([GOOD], 0, "All 1 hold."), ([GOOD, BAD, BAD], 1, "2 of 3 fail: rows 2.")],
)
def test_exit_code_and_page(
    found: list[Check],
    code: int,
    verdict: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validate, "checks", checks_of(*found))
    file = tmp_path / "new" / "validation.md"
    done = CliRunner().invoke(app, ["validate", "--out", str(file)])
    assert done.exit_code == code
    page = file.read_text(encoding="utf-8")
    assert verdict in page
    assert validate.table(found) in page
    assert validate.table(found) in done.stdout
    assert page.count("FAILS") == 2 * code


def test_the_page_in_the_tree_is_of_these_rows_and_all_hold() -> None:
    page = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    assert page.startswith(validate.PAGE.split("{table}")[0])
    assert "FAILS" not in page
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert rows >= {"1", "2", "3", "4", "5", "7", "8", "12", "13", "14", "15", "16", "16b"}
    assert rows >= {"17", "18", "19", "21", "23", "24"}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_its_scenarios_are_ordinary(file: Path) -> None:
    scenario = load(file).scenario
    assert (scenario.name, scenario.train) == (file.stem, None)


def test_the_ks_gap() -> None:
    assert ks_gap([0.5], lambda t: t) == 0.5
    assert ks_gap([0.9, 0.1], lambda t: t) == pytest.approx(0.4)
    assert ks_gap([0.8, 0.9], lambda t: t) == pytest.approx(0.8)
