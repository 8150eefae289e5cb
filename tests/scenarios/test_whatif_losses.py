"""What-if pages of studies that were trained, and of half a study."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from analysis.folders import AnalysisError
from analysis.whatif import answers, read_all, turned, write_whatif
from tests.chromium import PROGRAM, Page
from tests.scenarios.whatif_study import simulate

SMALL = (
    "sweep={arms: {skip: {recovery.policy: [skip, idle]}, wait: {recovery.policy: [wait]}}, "
    "parameters: {pools.*ar.losses_per_h: [0.5, 1.0, 2.0]}, seeds: 2}"
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As if every run had been trained, with a gap of a tenth of its losses per hour."""
    folder = simulate(tmp_path_factory.mktemp("runs"), SMALL)
    told = json.loads((folder / "study.json").read_text())
    for label, point in told["points"].items():
        if point["control"] is None:
            path = folder / told["cells"][label] / "summary.json"
            gap = 0.1 * point["parameters"]["pools.*ar.losses_per_h"]
            path.write_text(json.dumps(json.loads(path.read_text()) | {"val_loss_gap": gap}))
    return folder


def test_a_loss_between_trained_runs_is_not_called_measured(study: Path) -> None:
    grid, told = read_all(study, None)
    found = {}
    for rate in (1.0, 1.5):
        rows = answers(grid, told, turned(grid, [f"losses_per_h={rate}"]))["options"]
        skip, wait = sorted(rows, key=lambda row: row["name"])
        found[rate] = (skip["gap_kind"], skip["gap_why"])
        assert skip["gap"] == pytest.approx(0.1 * rate)
        assert wait["gap_kind"] == "exact"
    assert found[1.0] == ("measured", "its own runs were trained")
    assert found[1.5] == ("interpolated", "between its own trained runs")


@pytest.mark.skipif(PROGRAM is None, reason="no chromium on this machine")
def test_nor_in_the_page(study: Path) -> None:
    grid, told = read_all(study, None)
    with Page(write_whatif(study)) as page:
        for knobs in (["losses_per_h=1"], ["losses_per_h=1.5"]):
            page.evaluate(
                f"new Promise(go => {{ addEventListener('hashchange', () => setTimeout(go), "
                f"{{once: true}}); location.hash = {json.dumps(knobs[0])} }})"
            )
            rows = answers(grid, told, turned(grid, knobs))["options"]
            kinds = "last.options.map((row) => [row.name, row.gap_kind, row.gap_why])"
            assert page.evaluate(kinds) == [
                [row["name"], row["gap_kind"], row["gap_why"]] for row in rows
            ]
        assert page.complaints == []


def test_a_study_whose_no_failure_runs_alone_have_finished_is_no_grid(tmp_path: Path) -> None:
    folder = simulate(tmp_path, SMALL, "global_steps=2")
    told = json.loads((folder / "study.json").read_text())
    for label, point in told["points"].items():
        if point["control"] is None:
            (folder / told["cells"][label] / "summary.json").unlink(missing_ok=True)
    with pytest.raises(AnalysisError, match="no run with failures has finished"):
        write_whatif(folder)


@pytest.mark.parametrize(
    ("name", "was", "stands", "problem"),
    [
        ("scenario.yaml", "usd_per_h:", "usd_an_hour:", "prices in a scenario.yaml of it"),
        ("scenario.yaml", "network:", "net:", "pools, network and method are expected"),
        ("summary.json", '"node_s"', '"seconds"', "billed: node_s by pool"),
    ],
)
def test_files_of_another_version_are_told_as_such(
    study: Path, tmp_path: Path, name: str, was: str, stands: str, problem: str
) -> None:
    folder = Path(shutil.copytree(study, tmp_path / "study"))
    for path in folder.glob(f"*/{name}"):
        path.write_text(path.read_text().replace(was, stands))
    with pytest.raises(AnalysisError, match=f"{problem}.* with --force"):
        read_all(folder, None)
